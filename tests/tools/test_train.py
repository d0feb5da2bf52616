#!/usr/bin/env python3
"""Tests tools/train.py on a small task: train, resume, export, and the C translator against PyTorch.

    python tests/tools/test_train.py        from the root of the repository, after make
"""
import argparse
import contextlib
import io
import json
import lzma
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401

sys.path.insert(0, str(ROOT / "tools" / "train"))  # before tools, where train.py is a program of the same name

import fxtranslate  # noqa: E402
import sentencepiece  # noqa: E402
import torch  # noqa: E402
import train as trainer  # noqa: E402
from pairs import read_pairs  # noqa: E402
from safetensors import safe_open  # noqa: E402
from seeds import SEED  # noqa: E402

WORDS = "one two three four five six seven eight nine".split()
SIZE = ("--d-model 32 --heads 2 --d-ff 64 --encoder-layers 1 --decoder-layers 1 --batch-tokens 200 "
        "--lr 3e-3 --warmup 50 --src-min-count 1 --tgt-text words --threads 1 --dtype f32").split()


def pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """Returns digits, and their names in reverse order."""
    draw = random.Random(seed)
    texts = ["".join(draw.choice("123456789") for _ in range(draw.randint(1, 7))) for _ in range(n)]
    return [(t, " ".join(WORDS[int(c) - 1] for c in reversed(t))) for t in texts]


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.folder.name)
        for name, n, seed in (("train", 600, 1), ("dev", 40, 2)):
            text = "".join(f"{s}\t{t}\n" for s, t in pairs(n, seed))
            (cls.dir / f"{name}.tsv").write_text(text, encoding="utf-8")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def command(self, out: str, *options: str) -> list[str]:
        return [sys.executable, str(ROOT / "tools/train.py"), "--train", str(self.dir / "train.tsv"),
                "--dev", str(self.dir / "dev.tsv"), "--out", str(self.dir / out), *SIZE, *options]

    def start(self, out: str, *options: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(out, *options), capture_output=True, text=True)

    def train(self, out: str, *options: str) -> str:
        run = self.start(out, *options)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_c_agrees_with_pytorch(self) -> None:
        log = self.train("a.safetensors", "--epochs", "30")
        self.assertIn("would take", log)  # The program must say beforehand how long it takes.
        self.assertIn("BLEU", log)
        model, text = trainer.read_model_file(str(self.dir / "a.safetensors"))
        sources = [s for s, _ in pairs(200, 3)]
        expected = trainer.translate(model.eval(), text, sources)
        for batch in ("1", "7"):
            run = subprocess.run([str(ROOT / "build/translate"), str(self.dir / "a.safetensors"),
                                  "--plain", "--batch", batch], input="".join(s + "\n" for s in sources),
                                 capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(run.stdout.splitlines(), expected)
        right = sum(e == t for e, (_, t) in zip(expected, pairs(200, 3)))
        print(f"200 unseen sources: C and PyTorch agree on all, {right} are right")
        self.assertGreater(right, 40)  # The model must have learned the task: a random one scores 0.

    def test_resume_goes_on(self) -> None:
        self.train("whole.safetensors", "--epochs", "4")
        self.train("parts.safetensors", "--epochs", "2")
        self.train("parts.safetensors", "--epochs", "4", "--resume")
        whole, _ = trainer.read_model_file(str(self.dir / "whole.safetensors"))
        parts, _ = trainer.read_model_file(str(self.dir / "parts.safetensors"))
        most = max((a - b).abs().max().item()
                   for a, b in zip(whole.state_dict().values(), parts.state_dict().values()))
        print(f"four epochs, and two after two: weights differ by {most:.2g}")
        self.assertEqual(most, 0)
        self.assertEqual((self.dir / "whole.safetensors").read_bytes(),
                         (self.dir / "parts.safetensors").read_bytes())

    def test_resume_with_less_text(self) -> None:
        """An epoch that ends before its first batch must not print a train loss."""
        self.train("less.safetensors", "--batch-tokens", "20", "--epochs", "1", "--max-minutes", "0.003")
        (self.dir / "few.tsv").write_text("12\ttwo one\n", encoding="utf-8")
        log = self.train("less.safetensors", "--train", str(self.dir / "few.tsv"), "--epochs", "2",
                         "--resume")
        self.assertRegex(log, "goes on in epoch 1 after batch [1-9]")
        self.assertRegex(log, "epoch 1 dev loss .*\n(.*\n)*.*epoch 2 train loss [0-9]")

    def test_parts_of_an_epoch(self) -> None:
        """There must be as many evaluations as --eval-every says, also where it does not divide the number of
        batches."""
        for every, places in (("0.5", ["0.5", "1"]), ("0.3", ["0.3", "0.6", "1"])):
            log = self.train("often.safetensors", "--epochs", "1", "--eval-every", every)
            self.assertIn(" 19 steps", log)
            self.assertEqual([f"{float(place):.1g}" for place in
                              re.findall(r" epoch ([0-9.]+) train loss", log)], places)

    def test_begins_with_a_model_file(self) -> None:
        """With a rate of zero the weights must stay as the file has them, and so must its shape and its
        vocabularies, whatever the options say."""
        for dtype in ("f32", "int8"):
            first, second = f"first-{dtype}.safetensors", f"second-{dtype}.safetensors"
            self.train(first, "--epochs", "6", "--dtype", dtype)
            self.train(second, "--from-model", str(self.dir / first), "--lr", "0", "--epochs", "1",
                       "--d-ff", "8", "--src-text", "words")
            before, text = trainer.read_model_file(str(self.dir / first))
            after, again = trainer.read_model_file(str(self.dir / second))
            self.assertEqual((text.src.lines, text.tgt.lines), (again.src.lines, again.tgt.lines))
            for a, b in zip(before.state_dict().values(), after.state_dict().values()):
                self.assertTrue(torch.equal(a, b))
        self.train("shared.safetensors", "--epochs", "1", "--src-text", "words", "--share")
        options = ("--from-model", str(self.dir / "shared.safetensors"))
        self.train("whole2.safetensors", *options, "--epochs", "2")
        self.train("parts2.safetensors", *options, "--epochs", "1")
        self.train("parts2.safetensors", *options, "--epochs", "2", "--resume")
        self.assertEqual((self.dir / "whole2.safetensors").read_bytes(),
                         (self.dir / "parts2.safetensors").read_bytes())
        self.train("pieces.safetensors", "--epochs", "1", "--tgt-text", "unigram", "--tgt-size", "25")
        run = self.start("no.safetensors", "--from-model", str(self.dir / "pieces.safetensors"))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("pieces.safetensors: a vocabulary of pieces", run.stdout + run.stderr)
        run = self.start("no.safetensors", *options, "--sample-pieces", "0.5")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("sources are not cut by sentencepiece", run.stdout + run.stderr)

    def test_forced(self) -> None:
        """Targets begin with <up> or <down>, which says their order. The forced tag must decide, in C as in
        PyTorch, and must not be in the text."""
        lines = [(s, t, i % 2) for i, (s, t) in enumerate(pairs(600, 1))]
        text = "".join(f"{s}\t{'<down> ' + t if down else '<up> ' + ' '.join(t.split()[::-1])}\n"
                       for s, t, down in lines)
        (self.dir / "ordered.tsv").write_text(text, encoding="utf-8")
        sources = [s for s, _ in pairs(100, 3)]
        right = {}
        for forced in ("<up>", "<down>"):
            out = self.dir / f"{forced[1:-1]}.safetensors"
            more = [] if forced == "<up>" else ["--resume", "--work", str(self.dir / "up.safetensors.work")]
            self.train(out.name, "--train", str(self.dir / "ordered.tsv"), "--forced", forced,
                       "--epochs", "30", *more)
            expected = trainer.translate(*trainer.read_model_file(str(out)), sources)
            run = subprocess.run([str(ROOT / "build/translate"), str(out), "--plain"], capture_output=True, text=True,
                                 input="".join(s + "\n" for s in sources))
            self.assertEqual(run.stdout.splitlines(), expected)
            self.assertNotIn("<", run.stdout)
            right[forced] = [e == (t if forced == "<down>" else " ".join(t.split()[::-1]))
                             for e, (_, t) in zip(expected, pairs(100, 3))]
        print(f"of 100 unseen sources {sum(right['<up>'])} and {sum(right['<down>'])} are right")
        self.assertGreater(min(map(sum, right.values())), 20)
        run = self.start("no.safetensors", "--forced", "<left>")
        self.assertIn("--forced <left>: the target's vocabulary does not have this token",
                      run.stdout + run.stderr)

    def test_identity(self) -> None:
        """Copying with other words in between must be learnt sooner from --init identity."""
        draw, losses = random.Random(5), {}
        for name, n in (("near", 400), ("near-dev", 40)):
            lines = []
            for _ in range(n):
                words = [draw.choice("abcdefghijklmnop") for _ in range(draw.randint(2, 9))]
                lines.append(f"{' '.join(words)}\t{' '.join(w + ' of' if w < 'e' else w for w in words)}\n")
            (self.dir / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        for init in ("xavier", "identity"):
            log = self.train(f"{init}.safetensors", "--train", str(self.dir / "near.tsv"), "--dev",
                             str(self.dir / "near-dev.tsv"), "--src-text", "words", "--share",
                             "--tgt-text", "words", "--epochs", "12", "--init", init)
            losses[init] = float(re.findall(r"dev loss ([0-9.]+)", log)[-1])
        print(f"loss from xavier {losses['xavier']}, from identity {losses['identity']}")
        self.assertLess(losses["identity"], 0.93 * losses["xavier"])

    def test_killed_at_any_moment(self) -> None:
        """Sends SIGKILL at random moments, then uses --resume: the file must be that of the unkilled run, bit
        by bit. Only the first process is killed, and its workers must end by themselves."""
        options = ("--epochs", "3", "--eval-every", "0.3", "--cooldown", "2", "--word-dropout", "0.1",
                   "--share", "--src-text", "sentencepiece", "--tgt-text", "sentencepiece",
                   "--src-size", "60", "--sample-pieces", "0.5", "--short-first", "--workers", "2",
                   "--save-minutes", "0", "--dtype", "int8")
        self.train("unkilled.safetensors", *options)
        draw, resume = random.Random(SEED), []
        checkpoint = self.dir / "killed.safetensors.work/checkpoint.pt"
        for _ in range(3):
            seen, saves = checkpoint.stat().st_mtime_ns if resume else 0, draw.randint(1, 12)
            run = subprocess.Popen(self.command("killed.safetensors", *options, *resume),
                                   start_new_session=True, stdout=subprocess.DEVNULL)
            while run.poll() is None and saves:
                time.sleep(0.01)
                now = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
                seen, saves = max(now, seen), saves - (now > seen)
            time.sleep(draw.random() / 10)
            run.kill()
            run.wait()
            with contextlib.suppress(ProcessLookupError):
                for _ in range(1000):
                    os.killpg(run.pid, 0)
                    time.sleep(0.01)
                os.killpg(run.pid, signal.SIGKILL)
                self.fail("workers live on without the process that began them")
            resume = ["--resume"]
        log = self.train("killed.safetensors", *options, *resume)
        print(next(line for line in log.splitlines() if "goes on" in line))
        self.assertEqual((self.dir / "unkilled.safetensors").read_bytes(),
                         (self.dir / "killed.safetensors").read_bytes())
        self.assertEqual(list(checkpoint.parent.glob("*.part*")), [])

    def test_int8_is_quantizes(self) -> None:
        """--dtype int8 must write the numbers of build/quantize, and the printed command to translate must
        run."""
        files = [self.dir / f"{dtype}.safetensors" for dtype in ("f32", "int8", "quantized")]
        for file in files[:2]:
            log = self.train(file.name, "--epochs", "1", "--dtype", file.stem)
        subprocess.run([str(ROOT / "build/quantize"), str(files[0]), str(files[2]), "int8"],
                       check=True, stdout=subprocess.DEVNULL)
        ours, theirs = ({name: f.get_tensor(name) for name in f.keys()}
                        for f in (safe_open(file, "pt") for file in files[1:]))
        self.assertEqual(ours.keys(), theirs.keys())
        for name, t in ours.items():
            self.assertTrue(torch.equal(t, theirs[name]), name)
        command = shlex.split(log.split("a line: ")[1])
        run = subprocess.run(command, cwd=ROOT, input="12\n", capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout.count("\n")), (0, 1), run.stderr)

    def test_texts(self) -> None:
        """A .tsv, the same file packed, and two files must give the same pairs; texts that do not match must
        not."""
        path, both = self.dir / "train.tsv", read_pairs(str(self.dir / "train.tsv"))
        (self.dir / "p.tsv.xz").write_bytes(lzma.compress(path.read_bytes()))
        for side in (0, 1):
            (self.dir / f"side{side}").write_text("".join(p[side] + "\n" for p in both))
        self.assertEqual(read_pairs(str(self.dir / "p.tsv.xz")), both)
        self.assertEqual(read_pairs(*(str(self.dir / f"side{i}") for i in (0, 1))), both)
        with self.assertRaisesRegex(ValueError, "has 600 lines, .* has 40"):
            read_pairs(str(path), str(self.dir / "dev.tsv"))

    def test_pieces_of_bytes(self) -> None:
        """With --coverage below 1 characters without a piece become bytes; a rule of --normalization's file
        is kept."""
        rules = self.dir / "rules.tsv"
        rules.write_text("20\t\n41\t31\n")  # no spaces, and A becomes 1
        text = trainer.learn_pieces([s for s, _ in pairs(600, 1)] * 2 + ["\u4e00"], "sentencepiece",
                                    trainer.SPECIAL, 300, coverage=0.999, rules=str(rules),
                                    prefix=False)
        self.assertEqual(text.encode("2 A3"), text.encode("213"))
        self.assertEqual(text.decode(text.encode("1\u4e002")), "1\u4e002")
        self.assertNotIn(text.unk, text.encode("\u4e00"))

    def test_resume_runs_no_code(self) -> None:
        """A checkpoint with a pickle that runs code, or that names files elsewhere, must be refused."""
        self.train("evil.safetensors", "--epochs", "1")
        checkpoint = self.dir / "evil.safetensors.work" / "checkpoint.pt"
        good, marker = checkpoint.read_bytes(), self.dir / "marker"

        class Evil:
            def __reduce__(self):
                return (Path.touch, (marker,))

        state = torch.load(io.BytesIO(good), weights_only=True)
        outside = {**state, "history": [{**state["history"][0], "file": "../../secret.pt"}]}
        out = self.dir / "evil.safetensors"
        out.unlink()
        for content, reason in (({**state, "step": Evil()}, "run code"), (Evil(), "run code"),
                                ({"model": {}}, "is missing"), (outside, "names the file '../../secret.pt'")):
            torch.save(content, checkpoint)
            run = self.start("evil.safetensors", "--epochs", "2", "--resume")
            self.assertEqual(run.returncode, 1)
            self.assertIn(reason, run.stderr)
            self.assertNotIn("Traceback", run.stderr)
            self.assertFalse(marker.exists() or out.exists())
        checkpoint.write_bytes(good[:-100])
        self.assertIn("no checkpoint", self.start("evil.safetensors", "--resume").stderr)

    def test_out_is_a_regular_file(self) -> None:
        (self.dir / "link.safetensors").symlink_to("elsewhere")
        run = self.start("link.safetensors", "--epochs", "1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("symbolic link", run.stderr)

    def test_sentencepiece_travels_in_the_file(self) -> None:
        self.train("s.safetensors", "--epochs", "2", "--share", "--src-text", "sentencepiece",
                   "--tgt-text", "sentencepiece", "--src-size", "60", "--sample-pieces", "0.5",
                   "--workers", "2", "--max-minutes", "5", "--cooldown-minutes", "5")
        path = self.dir / "s.safetensors"
        with safe_open(path, "pt") as f:
            names, config = set(f.keys()), json.loads(f.metadata()["transformer.config"])
            proto = bytes(f.get_tensor("src_sentencepiece").numpy())
        for absent in ("src_vocabulary", "tgt_vocabulary", "tgt_sentencepiece",
                       "tgt_embedding.weight", "generator.weight"):
            self.assertNotIn(absent, names)
        self.assertEqual((config["src_text"], config["tgt_text"]), ("sentencepiece",) * 2)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=proto)
        self.assertEqual(config["src_vocab_size"], pieces.vocab_size())
        self.assertEqual([config[key] for key in ("src_pad", "src_unk", "start", "end")],
                         [pieces.pad_id(), pieces.unk_id(), pieces.bos_id(), pieces.eos_id()])
        model, text = trainer.read_model_file(str(path))
        self.assertIs(text.src, text.tgt)
        self.assertEqual(text.encode_source("123"), [*pieces.encode("123"), pieces.eos_id()])
        self.assertEqual(text.tgt.decode(pieces.encode("two one")), "two one")
        again = self.dir / "again.safetensors"
        trainer.write_model_file(str(again), model, text)
        self.assertEqual(again.read_bytes(), path.read_bytes())
        run = subprocess.run([sys.executable, str(ROOT / "tools/train.py"), "--evaluate", str(path),
                              "--dev", str(self.dir / "dev.tsv")], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("BLEU", run.stdout)

    def test_a_student(self) -> None:
        """Writes an SSRU decoder as a model file and as Marian's .bin. The .bin must convert to the same
        texts, except for its rounding to int8."""
        sides = ("--share", "--src-text", "sentencepiece", "--tgt-text", "sentencepiece",
                 "--src-size", "60", "--heads", "8", "--d-model", "64")
        self.train("r.safetensors", "--epochs", "12", "--decoder", "ssru", *sides,
                   "--marian", str(self.dir / "model.xxyy.intgemm.alphas.bin"))
        path = self.dir / "r.safetensors"
        model, text = trainer.read_model_file(str(path))
        self.assertEqual((model.shape.decoder, model.shape.position_divisor), ("ssru", "d/2-1"))
        self.assertEqual((text.tgt.end, text.tgt.unk, text.tgt.start), (0, 1, None))
        sources = [s for s, _ in pairs(100, 3)]
        expected = trainer.translate(model, text, sources)
        folder = self.dir / "student"
        folder.mkdir()
        for name in ("model.xxyy.intgemm.alphas.bin", "vocab.xxyy.spm"):
            (self.dir / name).rename(folder / name)
        again = self.dir / "again.safetensors"
        run = subprocess.run([sys.executable, str(ROOT / "tools/convert.py"), str(folder), str(again)],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        for file, most in ((path, 0), (again, 20)):
            run = subprocess.run([str(ROOT / "build/translate"), str(file), "--plain"], capture_output=True,
                                 input="".join(s + "\n" for s in sources), text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            other = sum(a != b for a, b in zip(run.stdout.split("\n"), expected))
            print(f"{file.name}: {other} of 100 texts are others than PyTorch's")
            self.assertLessEqual(other, most)
        data, pieces = ((folder / name).read_bytes()
                        for name in ("model.xxyy.intgemm.alphas.bin", "vocab.xxyy.spm"))
        engine = fxtranslate.Translator(data, pieces, pieces)
        other = sum(engine.translate(s) != t for s, t in zip(sources, run.stdout.split("\n")))
        print(f"fxtranslate: {other} of 100 texts are others than those of the converted file")
        self.assertLessEqual(other, 20)

    def test_ways_are_cuts_of_the_text(self) -> None:
        text = trainer.learn_pieces([t for _, t in pairs(600, 1)], "sentencepiece",
                                    trainer.SPECIAL, 60)
        ways, scores = text.encode_ways("two one", 4)
        self.assertEqual(list(ways[0]), text.encode("two one"))
        self.assertEqual({text.decode(list(way)) for way in ways}, {"two one"})
        self.assertEqual(len(set(map(tuple, ways))), 4)
        self.assertEqual(scores, sorted(scores, reverse=True))

    def test_loss_is_pytorchs(self) -> None:
        torch.manual_seed(1)
        logits, gold = torch.randn(150, 40, requires_grad=True), torch.randint(0, 40, (150,))
        for smoothing in (0.0, 0.1):
            losses = (torch.nn.functional.cross_entropy(logits, gold, label_smoothing=smoothing),
                      trainer.SmoothedCrossEntropy.apply(logits, gold, smoothing))
            torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(*(torch.autograd.grad(3 * x, logits)[0] for x in losses),
                                       rtol=1e-5, atol=1e-6)

    def test_attention_is_pytorchs(self) -> None:
        """Runs a function with its gradients, in the type that --amp computes in and in float32."""
        torch.manual_seed(1)
        keep = torch.arange(9) < torch.tensor([9, 4, 1])[:, None, None, None]
        for dtype, off in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
            for mask, causal, rows in ((None, False, 5), (keep, False, 5), (None, True, 9)):
                q, k, v = (torch.randn(3, 2, n, 16).to(dtype).requires_grad_() for n in (rows, 9, 9))
                above, outcomes = torch.randn(3, 2, rows, 16).to(dtype), []
                for one in (trainer.plain_attention(q, k, v, mask, 0.0, causal),
                            torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, 0.0, causal)):
                    outcomes.append([one, *torch.autograd.grad(one, (q, k, v), above)])
                for ours, theirs in zip(*outcomes):
                    torch.testing.assert_close(ours, theirs, rtol=off, atol=off)
        weights = trainer.plain_attention(torch.zeros(1, 1, 200, 4), torch.zeros(1, 1, 50, 4),
                                          torch.eye(50)[None, None], None, 0.25, False)[0, 0]
        torch.testing.assert_close(weights.unique(), torch.tensor([0, 1 / (50 * 0.75)]))
        self.assertAlmostEqual(float(weights.sum(1).mean()), 1, delta=0.02)

    def test_key_bias_stays(self) -> None:
        """Training does not move the keys' bias, on which softmax does not depend, and moves the others."""
        for width in (16, 12):  # packed projections, and separate ones
            shape = trainer.Shape(9, 9, 32, 2, width, 16, 64, 1, 1, share=True)
            torch.manual_seed(SEED)
            model = trainer.Transformer(shape, 0)
            src, tgt = torch.randint(1, 9, (4, 6)), torch.randint(1, 9, (4, 5))
            model(src, tgt).logsumexp(-1).sum().backward()
            for name, part in model.named_modules():
                if isinstance(part, trainer.Attention):
                    q, k, v = (part.in_proj_bias.grad.chunk(3) if part.packed else
                               [p.bias.grad for p in (part.q_proj, part.k_proj, part.v_proj)])
                    self.assertFalse(k.any(), name)
                    self.assertTrue(q.any() and v.any(), name)

    def test_bfloat16(self) -> None:
        """--amp's gradients must point where float32's do."""
        torch.manual_seed(1)
        shape = trainer.Shape(40, 40, d_model=64, d_key=16, d_value=16, d_ff=128)
        model, grads = trainer.Transformer(shape, 0), []
        src, tgt = (torch.randint(1, 40, (20, n)) for n in (9, 13))
        src[5:, 7:] = 0
        for amp in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                logits = model(src, tgt[:, :-1])
            loss = trainer.SmoothedCrossEntropy.apply(logits.flatten(0, 1), tgt[:, 1:].flatten(), 0.1)
            grads.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, model.parameters())]))
        alike = float(torch.nn.functional.cosine_similarity(*grads, 0))
        print(f"gradients in bfloat16 and in float32: cosine {alike:.4f}")
        self.assertGreater(alike, 0.995)

    def test_negatives(self) -> None:
        """With all tokens as candidates, the loss and its gradients must be those of the whole softmax. With
        some, the estimated sum over all tokens must be right on average."""
        torch.manual_seed(1)
        shape = trainer.Shape(11, 50, d_model=16, n_heads=2, d_key=8, d_value=8, d_ff=16)
        model = trainer.Transformer(shape, 0)
        hidden, gold = 0.3 * torch.randn(30, 16), torch.randint(0, 20, (30,))
        args = argparse.Namespace(negatives=50)
        run = argparse.Namespace(model=model, args=args, text=argparse.Namespace(tgt=range(50)))

        def gradients(logits: torch.Tensor, gold: torch.Tensor) -> list[torch.Tensor]:
            loss = trainer.SmoothedCrossEntropy.apply(logits, gold, 0.1)
            weights = [model.tgt_embedding.weight, model.generator.bias]
            return [loss, *torch.autograd.grad(loss, weights)]

        for whole, some in zip(gradients(model.logits(hidden), gold),
                               gradients(*trainer.Trainer.some_logits(run, hidden, gold))):
            torch.testing.assert_close(some, whole, rtol=1e-5, atol=1e-6)
        args.negatives = 5
        with torch.inference_mode():
            sums = sum(trainer.Trainer.some_logits(run, hidden, gold)[0].exp().sum(1)
                       for _ in range(2000)) / 2000
            torch.testing.assert_close(sums, model.logits(hidden).exp().sum(1), rtol=0.01, atol=0)

    def test_cooldown_minutes(self) -> None:
        """Tests the rate by the clock: full before the cooldown, half in its middle, then zero."""
        args = trainer.parse("--train t --dev d --out o --lr 1 --warmup 1 --max-minutes 10 "
                             "--cooldown-minutes 4".split())
        run = argparse.Namespace(args=args, step=0, epoch=0, batch_in_epoch=0, steps_an_epoch=1)
        for seconds, rate in ((0, 1), (360, 1), (480, 0.5), (600, 0), (700, 0)):
            run.agreed_seconds = seconds
            self.assertAlmostEqual(trainer.Trainer.learning_rate(run), rate)

    def test_bad_line_is_named(self) -> None:
        (self.dir / "bad.tsv").write_text("12\ttwo one\nno tab here\n", encoding="utf-8")
        run = subprocess.run([sys.executable, str(ROOT / "tools/train.py"), "--train",
                              str(self.dir / "bad.tsv"), "--dev", str(self.dir / "dev.tsv"), "--out",
                              str(self.dir / "b.safetensors"), *SIZE], capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("bad.tsv:2", run.stdout + run.stderr)
        self.assertFalse((self.dir / "b.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
