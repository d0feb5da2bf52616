#!/usr/bin/env python3
"""Runs what the READMEs show of PyTorch, as they show it, on small data: make test-torch, or python
tests/tools/test_readme_torch.py. tools/README.md: convert a published folder with the check, convert a checkpoint with
--check, build/forward, train.py. tools/python/README.md: export. Needs what tools/requirements.txt lists, the package
transformer_h, and make all first."""

import contextlib
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import import_path  # noqa: F401
import families
from make_sentencepiece import sentences

ROOT = Path(__file__).resolve().parents[2]
TOOLS, PACKAGE = (ROOT / name / "README.md" for name in ("tools", "tools/python"))
WIDTH, HEADS, ROWS = 32, 8, 20  # of the module; the README's command says --heads 8


def commands(readme: Path) -> list[str]:
    """Returns the commands of the indented blocks. A command goes on after a backslash."""
    return re.findall(r"^    \$ (.*)$", readme.read_text(encoding="utf-8").replace("\\\n", ""), re.M)


def command(words: str, readme: Path = TOOLS) -> str:
    """Returns the only command that contains the words."""
    (found,) = [one for one in commands(readme) if words in one]
    return found


def snippet(words: str, readme: Path) -> str:
    """Returns the only Python block that contains the words."""
    blocks = re.findall(r"^```python\n(.*?)^```", readme.read_text(encoding="utf-8"), re.M | re.S)
    (found,) = [one for one in blocks if words in one]
    return found


class Positions(nn.Module):
    """The sinusoids of PyTorch's tutorial, which are in the checkpoint."""

    def __init__(self):
        super().__init__()
        at = torch.arange(40)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * -(math.log(10000) / WIDTH))
        self.register_buffer("pe", torch.stack((torch.sin(at), torch.cos(at)), 2).reshape(1, 40, WIDTH))

    def forward(self, x):
        return x + self.pe[:, :x.shape[1]]


class Module(nn.Module):
    """A translator with the settings that the README's command states: post-norm, ReLU, embeddings times the root of
    the width, pads 0, targets that begin with 2 and end with 3, sources that end with 3."""

    def __init__(self):
        super().__init__()
        self.src_embedding, self.tgt_embedding = nn.Embedding(ROWS, WIDTH, padding_idx=0), nn.Embedding(ROWS, WIDTH, padding_idx=0)
        core = nn.Transformer(WIDTH, HEADS, 2, 2, 48, batch_first=True)
        self.encoder, self.decoder = core.encoder, core.decoder
        self.generator = nn.Linear(WIDTH, ROWS)
        self.positions = Positions()

    def forward(self, src, tgt):
        pads = src == 0
        memory = self.encoder(self.positions(self.src_embedding(src) * WIDTH**0.5), src_key_padding_mask=pads)
        causal = torch.triu(torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool), 1)
        return self.generator(self.decoder(self.positions(self.tgt_embedding(tgt) * WIDTH**0.5), memory, tgt_mask=causal,
                                           memory_key_padding_mask=pads))


class Readmes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("build", "tools", "transformer.h"):
            (self.folder / name).symlink_to(ROOT / name)
        torch.manual_seed(7)
        torch.set_num_threads(1)
        self.tokens = ["<pad>", "<unk>", "<s>", "</s>", *(f"t{i}" for i in range(4, ROWS))]
        self.src = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
        self.tgt = torch.tensor([[2, 11, 12, 13, 3], [2, 14, 15, 3, 0]])
        self.module = Module().eval()

    def run_command(self, line, *more, status=0, **replaced):
        """Runs a command of the README with this Python, in a folder that looks like a clone."""
        words = [replaced.get(word, word) for word in shlex.split(line)]
        words[0] = sys.executable if words[0].endswith("/python") else words[0]
        words = [part for word in words for part in (word if isinstance(word, list) else [word])]
        done = subprocess.run([*words, *more], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, status, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def test_a_published_folder_is_converted_with_the_check(self):
        """transformers is here, so the converter compares with it without being asked, and the model translates."""
        model = families.make("marian")
        model.save_pretrained(self.folder / "FOLDER")
        words = self.folder / "words.txt"
        words.write_text("".join(f"t{i}\n" for i in range(model.config.vocab_size)))
        said = self.run_command(command("tools/convert.py FOLDER"), f"--src-vocab={words}")
        self.assertRegex(said, r"memory differs by at most \S+, logits by \S+")
        self.translates("t3 t4 t5\n", "--tokens")

    def translates(self, text, *options):
        """A model of random or hardly trained weights may write until its limit, and says so."""
        done = subprocess.run(["build/translate", "model.safetensors", *options], cwd=self.folder, input=text,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.count("\n")), (0, 1), done.stderr)

    def close(self, found):
        """Compares logits with the module's, except those of pads."""
        with torch.no_grad():
            wanted = self.module(self.src, self.tgt)
        self.assertLess(float((torch.as_tensor(numpy.array(found)) - wanted)[self.tgt != 0].abs().max()), 1e-4)

    def test_a_checkpoint_is_converted_and_proved(self):
        torch.save({"net": self.module.state_dict(), "epoch": 3}, self.folder / "checkpoint.pt")
        for side in ("src", "tgt"):
            (self.folder / f"{side}.txt").write_text("".join(f"{one}\n" for one in self.tokens))
        line = command("--src-vocab src.txt")
        self.run_command(line)
        proved = (self.folder / "model.safetensors").read_bytes()
        # "the module write its logits": the snippet has module, src and tgt of its reader
        with here(self.folder):
            exec(snippet("numpy.savez", TOOLS), {"module": self.module, "src": self.src, "tgt": self.tgt})
        options = shlex.split(line)[4:]
        check = command("--check check.npz")
        self.run_command(check, OPTIONS=options)
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), proved)
        save_file({"src": self.src.int(), "tgt": self.tgt.int()}, self.folder / "ids.safetensors")
        self.run_command(command("build/forward model.safetensors"))
        found = load_file(self.folder / "out.safetensors")
        self.close(found["logits"])
        self.assertIn("memory", found)
        # Logits of another module: nothing is written.
        (self.folder / "model.safetensors").unlink()
        held = dict(numpy.load(self.folder / "check.npz"))
        numpy.savez(self.folder / "check.npz", **{**held, "logits": held["logits"] + 0.1})
        self.run_command(check, OPTIONS=options, status=1)
        self.assertFalse((self.folder / "model.safetensors").exists())

    def test_export(self):
        names = {"module": self.module, "src_ids": self.src, "tgt_ids": self.tgt, "src_tokens": self.tokens,
                 "tgt_tokens": self.tokens}
        with here(self.folder):
            exec(snippet("export(module,", PACKAGE), names)
        from transformer_h import Model
        with Model(self.folder / "model.safetensors") as model:
            self.close(model.forward(self.src, self.tgt))

    def test_training(self):
        lines = sentences(7, 200)
        for name, rows in (("train", lines), ("dev", lines[:5])):
            (self.folder / f"{name}.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in rows))
        said = self.run_command(command("tools/train.py --train"), "--src-size", "150", "--epochs", "1", "--encoder-layers", "1",
                                "--decoder-layers", "1", "--d-model", "64", "--d-ff", "64", "--max-length", "99")
        self.assertTrue((self.folder / "model.safetensors").exists(), said)
        self.translates(f"{lines[0]}\n")


@contextlib.contextmanager
def here(folder):
    """Changes the current folder for a block, as contextlib.chdir of Python 3.11 does."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    unittest.main()
