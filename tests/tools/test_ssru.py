#!/usr/bin/env python3
"""Compares decoders of SSRUs with the formulas in numpy (make_ssru.py), on models and sentences that are
drawn anew each time: python tests/tools/test_ssru.py, after make build/forward build/decode. If something
differs, the message has the SEED=... that repeats the case."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

import file_model
import make_ssru
from seeds import SEED

ROOT = Path(__file__).resolve().parents[2]
FORWARD, DECODE = ROOT / "build" / "forward", ROOT / "build" / "decode"
# width, feed-forward, heads, vocabulary, encoder and decoder layers, decoder layers with self-attention
SIZES = [(16, 24, 2, 32, 2, 2, ()), (36, 50, 3, 70, 1, 3, (1,)), (64, 128, 8, 300, 2, 2, ()),
         (22, 31, 1, 40, 1, 4, (0, 3))]


@unittest.skipUnless(FORWARD.exists() and DECODE.exists(), f"no {FORWARD} or {DECODE}: make them")
class Formulas(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def models(self, kinds=(np.float32,)):
        for i, (D, F, H, V, encoder, decoder, attention) in enumerate(SIZES):
            for kind in kinds:
                t = make_ssru.make(SEED + i, D, F, H, V, encoder, decoder, attention)
                t = {name: x.astype(kind) if x.ndim > 1 else x for name, x in t.items()}
                path = self.folder / f"{i}.safetensors"
                make_ssru.write_model(path, t, make_ssru.config(H, V))
                src, lengths, tgt = make_ssru.sentences(6, 9, V, 11, SEED + 7 * i)
                tgt[:, 0] = 5  # which nobody reads
                yield make_ssru.Formulas(t, H), path, src, lengths, tgt

    def near(self, a, b, limit):
        self.assertLess(np.abs(a - b).max(), limit, f"SEED={SEED}")

    def test_forward(self):
        for model, path, src, lengths, tgt in self.models((np.float32, np.float16)):
            make_ssru.write_safetensors(self.folder / "in", {"src": src, "src_lengths": lengths,
                                                             "tgt": tgt})
            subprocess.run([FORWARD, path, self.folder / "in", self.folder / "out"], check=True)
            got = file_model.read_safetensors(self.folder / "out")[0]["logits"]
            other = file_model.Model(path).forward(src, tgt, lengths)
            for row, n in enumerate(lengths):
                expected = model.forward(src[row, :n], tgt[row])[1]
                self.near(got[row], expected, 1e-4)
                self.near(other[row], expected, 1e-9)

    def decode(self, path, src, lengths, options):
        rows = ";".join(",".join(map(str, ids[:n])) for ids, n in zip(src.tolist(), lengths))
        done = subprocess.run([DECODE, path], input=f"src={rows} {options}\n", text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stderr, "")
        for line in done.stdout.split("\n\n")[0].splitlines():
            row, _, _, score, _, _, *ids = line.split()
            yield int(row), float(score), [int(one) for one in ids]

    def test_greedy(self):
        for model, path, src, lengths, _ in self.models():
            found = list(self.decode(path, src, lengths, "max_length=20"))
            self.assertEqual(len(found), len(src))
            for row, score, ids in found:
                expected, sums, margin = model.greedy(src[row, :lengths[row]], 20)
                if margin > 1e-4:  # Where the margin is small, either token is right.
                    self.assertEqual(ids, expected, f"SEED={SEED}")
                    self.near(score, sums, 1e-3)

    def test_hypotheses(self):
        """The scores of a beam, samples and alternatives must be the formulas' scores of their tokens."""
        forks = 0
        for model, path, src, lengths, _ in self.models():
            for options in ("beam=5 n_best=5", "samples=4 seed=3", "alternatives=4"):
                for row, score, ids in self.decode(path, src, lengths,
                                                   options + " max_length=14"):
                    ended = [make_ssru.END] * (len(ids) < 14)
                    z = model.forward(src[row, :lengths[row]], [0] + ids)[1][:len(ids + ended)]
                    logs = file_model.log_softmax(z)
                    self.near(score, sum(logs[range(len(z)), ids + ended]), 1e-3)
                    forks += 1
        self.assertEqual(forks, len(SIZES) * 6 * 13)


if __name__ == "__main__":
    unittest.main()
