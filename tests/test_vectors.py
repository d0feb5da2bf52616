"""Whisper, TrOCR and Donut of random sizes, whose sources are vectors: logits and 40 greedy targets
by transformers and by the model files that tools/convert.py makes (build/test_sources compares)."""

import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

try:
    import make_vectors
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    raise unittest.SkipTest(f"{error}: make test-torch has it") from None

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "test_sources"
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


if __name__ == "__main__":
    unittest.main()
