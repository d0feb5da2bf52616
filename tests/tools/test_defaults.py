#!/usr/bin/env python3
"""Compares the decoding defaults of a checkpoint with the engine that reads it: make test-torch, or python
tests/tools/test_defaults.py [Defaults.test_marian ...]

transformers builds small random models of each family with random generation configs (beams, penalties,
lengths, rules against repetition, bad words, forced tokens). tools/convert.py makes a model file of each
directory, and build/decode searches with the options of that file alone. The ids must be those of generate()
with the options of the directory alone. The test compares CTranslate2's own defaults in the same way. Needs
what tools/requirements.txt lists, and make all build/decode first.
"""

import json
import random
import subprocess
import unittest

import torch

import families
from test_peers import DECODE, TRANSLATE, Peers as _Peers

CASES, ROWS = 10, 6  # number of searches for each family


def random_generation(rng, end, words):
    """Returns some of the keys that generation_config.json has in published models."""
    said = {"max_length": rng.randrange(4, 24)}
    if rng.random() < 0.2:
        said["max_new_tokens"] = said.pop("max_length")
    if rng.random() < 0.8:
        said["num_beams"] = rng.randrange(2, 7)
        for key, values in (("early_stopping", (False, True, "never")),
                            ("length_penalty", (0.0, 0.6, 0.8, 2.0, -0.5))):
            if rng.random() < 0.7:
                said[key] = rng.choice(values)
    for key, value, odds in (
            ("min_length", rng.randrange(1, 4), 0.4), ("min_new_tokens", 2, 0.1),
            ("no_repeat_ngram_size", rng.randrange(1, 4), 0.4),
            ("encoder_no_repeat_ngram_size", rng.randrange(1, 3), 0.3),
            ("repetition_penalty", rng.choice((0.8, 1.2, 2.5)), 0.4),
            ("forced_eos_token_id", end, 0.6),
            ("bad_words_ids", [rng.choices(words, k=n) for n in (1, 2, 2, 2, 3)] + [[end]], 0.4)):
        if rng.random() < odds:
            said[key] = value
    return said


class Defaults(_Peers):
    def decoded(self, path, sources):
        requests = "".join(f"defaults=1 src={','.join(map(str, ids))}\n" for ids in sources)
        done = subprocess.run([DECODE, path], input=requests, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return [[int(i) for i in line.split()[6:]] for line in done.stdout.splitlines() if line]

    def check_family(self, family):
        equal = ended = 0
        for case in range(CASES):
            rng = random.Random(f"{family} {case}")
            model = families.make(family, seed=case + 1)
            end, start = model.config.eos_token_id, model.config.decoder_start_token_id
            said = random_generation(rng, end, range(3, 30))
            folder = self.folder / "hf"
            model.save_pretrained(folder)
            alone = case % 3 == 2  # in config.json, as in old models
            file = folder / ("config.json" if alone else "generation_config.json")
            old = json.loads((folder / "generation_config.json").read_text())
            if alone:
                (folder / "generation_config.json").unlink()
            text = {**json.loads(file.read_text()), **old, **said}
            if family in ("marian", "m2m_100"):  # M2M100 restarts its positions behind a pad.
                text["bad_words_ids"] = said.get("bad_words_ids", []) + [[model.config.pad_token_id]]
            file.write_text(json.dumps(text))
            path = self.convert_folder(folder, model)
            model = type(model).from_pretrained(folder).eval()
            src, lengths, _ = families.sentences(model, rows=ROWS, seed=case)
            sources = [row[:n].tolist() for row, n in zip(src, lengths)]
            with torch.no_grad():
                expected = [model.generate(torch.tensor([ids]))[0].tolist()[1:] for ids in sources]
            ended += sum(row[-1] == end for row in expected)
            expected = [row[:row.index(end)] if end in row else row for row in expected]
            found = self.decoded(path, sources)
            same = sum(a == b for a, b in zip(found, expected, strict=True))
            if same < ROWS:
                print(f"{family} {case}: {same} of {ROWS}: {said}")
            equal += same
        print(f"{family}: {equal} of {CASES * ROWS} searches equal, {ended} ended")
        self.assertEqual(equal, CASES * ROWS)


def add_families():
    for name in [name for name in dir(_Peers) if name.startswith("test_")]:
        setattr(Defaults, name, None)
    for family in ("marian", "bart", "mbart", "m2m_100", "pegasus"):
        setattr(Defaults, f"test_{family}",
                lambda self, family=family: self.check_family(family))


add_families()
del _Peers  # its tests are test_peers.py's

if __name__ == "__main__":
    unittest.main()
