"""Compares Whisper, Speech2Text, TrOCR, Donut, Nougat and Florence-2 of random sizes, whose sources are
vectors, with transformers: logits and 40 greedy targets. tools/convert.py makes the model files, and
build/test_sources compares."""

import contextlib
import io
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import import_path  # noqa: F401

try:
    import make_vectors
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    raise unittest.SkipTest(f"{error}: make test-torch has it") from None

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "test_sources"
MODELS, ROWS = 10, 4


@unittest.skipUnless(PROGRAM.exists(), "build/test_sources is not built")
class TestVectors(unittest.TestCase):
    def compare(self, family, **options):
        torch.set_num_threads(1)
        for seed in range(100, 100 + MODELS):
            torch.manual_seed(seed)
            heads, layers = int(torch.randint(1, 4, ())), int(torch.randint(1, 4, ()))
            sizes = dict(vocab_size=32 + seed % 9, d_model=4 * heads * int(torch.randint(1, 4, ())),
                         decoder_layers=layers, decoder_attention_heads=heads,
                         decoder_ffn_dim=int(torch.randint(8, 40, ())))
            with mock.patch.object(make_vectors, "SIZES", sizes), \
                    tempfile.TemporaryDirectory() as folder:
                model, width = make_vectors.make(
                    family, seed, memory=2 * int(torch.randint(3, 20, ())), **options)
                case, path = f"{folder}/case.safetensors", f"{folder}/model.safetensors"
                make_vectors.write(model, path)
                found = make_vectors.case(model, width, ROWS, 9, 20, 40, seed)
                save_file({name: one.contiguous() for name, one in found.items()}, case)
                run = subprocess.run([PROGRAM, case, path], capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, f"seed {seed}: {run.stdout}{run.stderr}")

    def test_whisper(self):
        self.compare("whisper")

    def test_trocr(self):
        self.compare("trocr")

    def test_trocr_with_sines(self):
        self.compare("trocr", sines=True)

    def test_donut(self):
        self.compare("donut")

    def test_nougat(self):
        self.compare("nougat")

    def test_speech_to_text(self):
        self.compare("speech_to_text")

    def test_florence2(self):
        self.compare("florence2")

    def test_what_is_left_out_is_named(self):
        """Tests the converter with Microsoft's names of Florence-2's tensors, and with models that it
        refuses."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            model, _ = make_vectors.make("florence2", 2)
            model.save_pretrained(folder)
            self.assertIn("tensors before the language model: left out", self.convert(path, 0))
            wanted = (path / "out.safetensors").read_bytes()
            state = {re.sub(r"^model\.language_model", "language_model.model", name): tensor
                     for name, tensor in load_file(path / "model.safetensors").items()}
            save_file(state, path / "model.safetensors")
            self.edit(path, lambda config: config["text_config"].update(
                model_type="florence2_language"))
            self.convert(path, 0)
            self.assertEqual((path / "out.safetensors").read_bytes(), wanted)
            self.edit(path, lambda config: config["text_config"].update(model_type="bert"))
            self.assertIn("a text_config of model_type bert; what transformer.h runs of a florence2"
                          " is bart", self.convert(path, 1))
            self.edit(path, lambda config: config.pop("text_config"))
            self.assertIn("no text_config", self.convert(path, 1))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            model, _ = make_vectors.make("speech_to_text", 2)
            model.save_pretrained(folder)
            self.assertIn("what the convolutions give, times sqrt(d_model), are the embeddings",
                          self.convert(path, 0))
            (path / "generation_config.json").unlink()
            self.edit(path, lambda config: config.update(pad_token_id=0))
            self.assertIn("pad_token_id is 0", self.convert(path, 1))

    def edit(self, path, change):
        config = json.loads((path / "config.json").read_text())
        change(config)
        (path / "config.json").write_text(json.dumps(config))

    def convert(self, path, status):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            self.assertEqual(make_vectors.convert.main([str(path), str(path / "out.safetensors"),
                                                        "--no-check"]), status, said.getvalue())
        return said.getvalue()


if __name__ == "__main__":
    unittest.main()
