#!/usr/bin/env python3
"""Tests tools/train/near.py: compares near-copies and cuts with a comparison of all pairs."""
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401

import near  # noqa: E402
from pairs import read_pairs, write_pairs  # noqa: E402
from seeds import SEED  # noqa: E402


def distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        old, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + (x != y)))
    return row[-1]


def alike(a: str, b: str) -> bool:
    a, b = a.casefold(), b.casefold()
    return 1 - distance(a, b) / max(len(a), len(b)) >= 0.8 - 1e-7


class NearTest(unittest.TestCase):
    def setUp(self) -> None:
        draw, texts = random.Random(SEED), []
        for _ in range(120):  # texts of few letters, some of which are another text with one or two changes
            text = list(draw.choice(texts) if texts and draw.random() < 0.6 else
                        draw.choices("aBcdefgh", k=draw.randint(1, 20)))
            for _ in range(draw.randint(0, 2)):
                text[draw.randrange(len(text))] = draw.choice("xyZ")
            texts.append("".join(text))
        self.pairs = list(zip(texts, draw.sample(texts, len(texts))))

    def test_near_copies(self) -> None:
        queries = self.pairs[:40]
        found = set(near.near_pairs(queries, self.pairs, 0.8))
        self.assertEqual(found, {(side, i, j) for side in (0, 1) for i, q in enumerate(queries)
                                 for j, p in enumerate(self.pairs) if alike(q[side], p[side])})

    def test_cuts(self) -> None:
        """No near-copy may cross a cut, and a second run must give the same cuts."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "all.tsv"
            write_pairs(file, self.pairs)
            for what in ("hold", "cut"):
                outs = [Path(folder) / f"{what}{i}" for i in (1, 2)]
                for out in outs:
                    subprocess.run([sys.executable, str(ROOT / "tools/train/near.py"), what, str(file), "--out",
                                    str(out), "--pairs", "7"], check=True, stdout=subprocess.DEVNULL)
                train, dev = (read_pairs(str(outs[0] / f"{name}.tsv")) for name in ("train", "dev"))
                self.assertTrue(train and 0 < len(dev) <= 27)
                self.assertEqual(len(dev) == 7 or what == "cut", True)
                self.assertFalse([1 for q in dev for p in train
                                  if alike(q[0], p[0]) or alike(q[1], p[1])])
                for name in ("train.tsv", "dev.tsv"):
                    self.assertEqual(*((out / name).read_bytes() for out in outs))


if __name__ == "__main__":
    unittest.main()
