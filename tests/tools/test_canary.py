#!/usr/bin/env python3
"""Compares Canary and Cohere Transcribe with transformers: python tests/tools/test_canary.py

Each run draws configs: sizes, heads, activations, biases, kernels, convolutions, mel bins, preemphasis. The memory that
the FastConformer encoder gives of a sound, and the ids of greedy search and of a beam of 4 behind the prompt of drawn
languages must agree. Configs that have no meaning must be refused by name. SEED=N in the environment repeats a run, and
CASES=N draws N configs of each family. It needs what tools/requirements.txt lists, and make all build/fast_conformer
first. No real weights were to be had: all are random.
"""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import unittest
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import import_path  # noqa: F401
try:
    import numpy as np
    import torch
    import transformers
    if not hasattr(transformers, "CanaryForConditionalGeneration"):
        raise ImportError("transformers 5.24")
    import make_canary
except ImportError as error_:
    raise unittest.SkipTest(f"{error_}: make test-torch has it") from None

ROOT = Path(__file__).resolve().parents[2]
from convert import main as convert  # noqa: E402
from folders import prepare  # noqa: E402

HEARS, TRANSCRIBE = (ROOT / "build" / name for name in ("fast_conformer", "transcribe"))
CASES = int(os.environ.get("CASES", 4))


class Canary(unittest.TestCase):
    def setUp(self):
        prepare(self, HEARS, TRANSCRIBE)
        torch.set_num_threads(1)

    def convert(self, folder, *options):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(folder), str(self.folder / "m.safetensors"), "--no-check", "--vad=none", *options])
        return status, said.getvalue()

    def hear(self, samples, beam, *languages):
        samples.tofile(self.folder / "x.f32")
        done = subprocess.run([HEARS, self.folder / "m.safetensors", self.folder / "x.f32", str(beam), *languages],
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        shape, rows, ids, self.text = done.stdout.decode().split("\n", 3)
        return np.array(rows.split(), np.float32).reshape([int(one) for one in shape.split()]), [int(one) for one in ids.split()]

    def compare(self, seed, family):
        model, features = make_canary.draw(seed, family)
        rng, title = random.Random(seed), f"{family}, SEED={seed}"
        shutil.rmtree(self.folder / "hf", ignore_errors=True)
        make_canary.save(model, features, self.folder / "hf")
        status, said = self.convert(self.folder / "hf")
        self.assertEqual(status, 0, f"{title}: {said}")
        self.assertNotIn("WARNING", said.upper(), title)
        samples = make_canary.sound(rng, rng.randrange(3200, 4 * make_canary.RATE))
        inputs, wanted = make_canary.memory_of(model, features, samples)
        source = rng.choice(["en", "de", "fr"])
        options = {"source": source, "target": rng.choice(["en", "fr"]) if family == "canary" else source, "plain": rng.random() < 0.3}
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder / "hf")
        kinds = 0
        for beam in (1, 4):
            found, ids = self.hear(samples, beam, source, options["target"], *["plain"] * options["plain"])
            self.assertEqual(found.shape, wanted.shape, title)
            far = np.abs(found - wanted).max()
            self.assertLess(far, 1e-4 * max(1, np.abs(wanted).max()), title)
            made = make_canary.generate(model, inputs, len(wanted), make_canary.prompt_of(model, **options), beam)
            self.assertEqual(ids, made, f"{title}, beam {beam}")
            self.assertEqual(self.text.strip(), tokenizer.decode(made, skip_special_tokens=True).strip(), f"{title}, beam {beam}")
            kinds = max(kinds, len(set(made)))
        print(f"{title}: {len(wanted)} rows of memory differ by {far:.2g}; {len(made)} tokens, {kinds} of them different", flush=True)
        return kinds

    def draws(self, family):
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        kinds = [self.compare(seed, family) for seed in range(first, first + CASES)]
        self.assertGreater(max(kinds), 1, "each text is one token again and again")

    def test_canary(self):
        self.draws("canary")

    def test_cohere(self):
        self.draws("cohere_asr")


if __name__ == "__main__":
    unittest.main()
