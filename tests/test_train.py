#!/usr/bin/env python3
"""tools/train.py on a task of its own: train, resume, export, and the C translator against PyTorch.

    python tests/test_train.py        from the root of the repository, after make
"""
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

try:
    import sacrebleu  # noqa: F401
    import torch
    import train as trainer
except ImportError as missing:
    print(f"skipped: {missing}; make test-python installs what tools/requirements.txt lists")
    sys.exit(0)

WORDS = "one two three four five six seven eight nine".split()
SIZE = ("--d-model 32 --heads 2 --d-ff 64 --encoder-layers 1 --decoder-layers 1 --batch-tokens 200 "
        "--lr 3e-3 --warmup 50 --src-min-count 1 --tgt-text words --threads 1 --dtype f32").split()


def pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """Digits, and their names backwards."""
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

    def train(self, out: str, *options: str) -> str:
        command = [sys.executable, str(ROOT / "tools/train.py"), "--train", str(self.dir / "train.tsv"),
                   "--dev", str(self.dir / "dev.tsv"), "--out", str(self.dir / out), *SIZE, *options]
        run = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_c_agrees_with_pytorch(self) -> None:
        log = self.train("a.safetensors", "--epochs", "30")
        self.assertIn("would take", log)  # it says beforehand how long it takes
        self.assertIn("BLEU", log)
        model, text = trainer.read_model_file(str(self.dir / "a.safetensors"))
        sources = [s for s, _ in pairs(200, 3)]
        expected = trainer.translate(model.eval(), text, sources)
        for batch in ("1", "7"):
            run = subprocess.run([str(ROOT / "build/translate"), str(self.dir / "a.safetensors"),
                                  "--batch", batch], input="".join(s + "\n" for s in sources),
                                 capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(run.stdout.splitlines(), expected)
        right = sum(e == t for e, (_, t) in zip(expected, pairs(200, 3)))
        print(f"200 unseen sources: C and PyTorch agree on all, {right} are right")
        self.assertGreater(right, 40)  # it learned something: chance gets none

    def test_resume_goes_on(self) -> None:
        self.train("whole.safetensors", "--epochs", "4")
        self.train("parts.safetensors", "--epochs", "2")
        self.train("parts.safetensors", "--epochs", "4", "--resume")
        whole, _ = trainer.read_model_file(str(self.dir / "whole.safetensors"))
        parts, _ = trainer.read_model_file(str(self.dir / "parts.safetensors"))
        most = max((a - b).abs().max().item()
                   for a, b in zip(whole.state_dict().values(), parts.state_dict().values()))
        print(f"four epochs, and two after two: weights differ by {most:.2g}")
        self.assertLess(most, 1e-6)

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
