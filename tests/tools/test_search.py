#!/usr/bin/env python3
"""Compares the search with CTranslate2, option by option, on two trained models: the shipped one for Chinese,
which the test writes as CTranslate2's converters do, and ../shared/real/aren, for which stored answers of
the engine are compared too.

    make build/decode && python tests/tools/test_search.py

The tests of aren are skipped where it is missing. The engine differs in three ways. It forbids an empty
target unless it is told otherwise. It counts pads of a batch in the coverage penalty, so it gets one sentence
at a time. It shares the probability of forbidden tokens among the others, which does not change the tokens of
greedy searches: where a search is constrained in this way, the test compares those.
"""

import json
import random
import shutil
import subprocess
import tempfile
import sys
import types
import unittest
from pathlib import Path

# imported first, because it sets the number of threads
from test_convert import REAL, ROOT, convert, ct2_bytes, ct2_quantize
from seeds import SEED

import ctranslate2
import numpy as np

import import_path  # noqa: E402, F401
import bench_peers  # noqa: E402
from convert.untrusted import read_safetensors  # noqa: E402

AREN = REAL / "aren"
SHIPPED = ROOT / "examples" / "models" / "zh-en.safetensors"
DECODE = ROOT / "build" / "decode"
LIMIT = 1e-4


class Search:
    """The comparisons for each model. A class has the folder of a model, its vocabularies, sources, the
    tokens that random prefixes have, a prefix, and a token that many targets have."""

    share = 1  # fraction of the random sources; a larger model takes longer

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.prepare()
        cls.translator = ctranslate2.Translator(str(cls.model), compute_type="float32", intra_threads=1)

    def convert(self, weights):
        """Writes the model file of those weights; i8 and i16 are truncated as version 2 did."""
        out, source = self.folder / f"{weights}.safetensors", self.model
        if weights != "f32":
            source = self.folder / weights
            source.mkdir(exist_ok=True)
            for side in self.vocabularies:
                shutil.copyfile(AREN / f"{side}_vocabulary.txt", source / f"{side}_vocabulary.txt")
            arrays = convert.checkpoints_ctranslate2.read_binary(AREN / "model.bin").arrays
            if weights == "i8":
                arrays = ct2_quantize(arrays, "int8", np.trunc)
            else:
                arrays = {name: np.trunc(value * 1000).astype("i2") if name.endswith("weight")
                          else value for name, value in arrays.items()}
            (source / "model.bin").write_bytes(
                ct2_bytes(arrays, version=2, spec="TransformerBase", revision=2))
        if not out.exists():
            self.assertEqual(convert.main([str(source), str(out)]), 0)
        return out

    def ids(self, side, tokens):
        return ",".join(str(self.vocabularies[side].index(token)) for token in tokens)

    def decode(self, model, requests):
        """Returns the hypotheses of each request: tokens, score, attention rows or None."""
        done = subprocess.run([DECODE, model], input="".join(line + "\n" for line in requests),
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        answers = []
        for request, block in zip(requests, done.stdout.split("\n\n")[:-1], strict=True):
            answer, lines = [], iter(block.splitlines())
            for line in lines:
                _, _, score, _, _, n, *ids = line.split()
                attention = None
                if "attention=1" in request:
                    attention = np.array(next(lines).split(), "f8").reshape(int(n), -1)
                answer.append(([self.vocabularies["target"][int(i)] for i in ids], float(score),
                               attention))
            answers.append(answer)
        return answers

    def test_defaults(self):
        """Compares translate_batch without options with the model file's own decoding options. Where the
        engine's forbidden empty target changes probabilities, scores are different and only texts are
        compared."""
        engine, rng = self.translator, random.Random(4)
        sources = self.sources + [self.source(rng) for _ in range(100)]
        answers = self.decode(self.convert("f32"), [
            f"defaults=1 src={self.ids('source', src)}" for src in sources])
        equal = sum(answer[0][0] == engine.translate_batch([src])[0].hypotheses[0]
                    for src, answer in zip(sources, answers, strict=True))
        print(f"CTranslate2's defaults: {equal} of {len(sources)} equal")
        self.assertEqual(equal, len(sources))

    def test_engine(self):
        engine = self.translator
        model, prefix = self.convert("f32"), self.prefix
        here = f"prefix={self.ids('target', prefix)} "
        beam = {"beam_size": 4, "num_hypotheses": 4}
        # name, our options, the engine's, whether scores can be compared
        cases = [
            ("greedy", "", {}, True),
            ("beam 4", "beam=4 n_best=4 ", beam, True),
            ("beam 40", "beam=40 n_best=7 ", {"beam_size": 40, "num_hypotheses": 7}, True),
            ("beam 4, best of them", "beam=4 length_penalty=1 ",
             {"beam_size": 4, "length_penalty": 1}, True),
            ("patience 2", "beam=4 n_best=2 patience=2 length_penalty=1 ",
             {"beam_size": 4, "num_hypotheses": 2, "patience": 2, "length_penalty": 1}, True),
            ("patience 0.5", "beam=4 n_best=2 patience=0.5 length_penalty=0.8 ",
             {"beam_size": 4, "num_hypotheses": 2, "patience": 0.5, "length_penalty": 0.8}, True),
            ("coverage penalty", "beam=4 n_best=4 coverage_penalty=0.3 ",
             {**beam, "coverage_penalty": 0.3}, True),
            ("coverage and length penalty",
             "beam=3 n_best=3 coverage_penalty=0.1 length_penalty=1 ",
             {"beam_size": 3, "num_hypotheses": 3, "coverage_penalty": 0.1, "length_penalty": 1},
             True),
            ("repetition penalty", "beam=4 n_best=4 repetition_penalty=1.3 ",
             {**beam, "repetition_penalty": 1.3}, True),
            ("prefix", f"beam=4 n_best=4 length_penalty=1 {here}",
             {**beam, "length_penalty": 1, "target_prefix": [prefix]}, True),
            ("biased prefix", f"beam=4 n_best=4 prefix_bias=0.5 {here}",
             {**beam, "prefix_bias_beta": 0.5, "target_prefix": [prefix]}, True),
            ("alternatives", f"alternatives=5 {here}",
             {"num_hypotheses": 5, "return_alternatives": True, "target_prefix": [prefix]}, True),
            ("no unknown", "no_unknown=1 ", {"disable_unk": True}, False),
            ("min length 9", "min_length=9 ", {"min_decoding_length": 9}, False),
            ("no repeated token", "no_repeat_ngram=1 ", {"no_repeat_ngram_size": 1}, False),
            ("no repeated bigram", "no_repeat_ngram=2 ", {"no_repeat_ngram_size": 2}, False),
            ("forbidden sequence", f"sequences={self.ids('target', prefix)} ",
             {"suppress_sequences": [prefix]}, False),
            ("other ends", f"ends={self.ids('target', [self.common])} ", {"end_token": self.common}, False),
            ("max length 4", "beam=4 n_best=4 max_length=4 ", {**beam, "max_decoding_length": 4},
             True),
        ]
        for name, ours, theirs, scores in cases:
            worst = 0
            arguments = {"beam_size": 1, "length_penalty": 0, "min_decoding_length": 0,
                         "max_decoding_length": 256, "return_scores": True, **theirs}
            length = "" if "max_length" in ours else "max_length=256 "
            requests = [f"{ours}{length}src={self.ids('source', src)}" for src in self.sources]
            with self.subTest(name):
                for src, answer in zip(self.sources, self.decode(model, requests)):
                    expected = engine.translate_batch([src], **arguments)[0]
                    self.assertEqual([tokens for tokens, _, _ in answer], expected.hypotheses)
                    # For alternatives the engine shares out the end token's probability.
                    part = np.log(self.others(src, prefix)) if "return_alternatives" in theirs else 0
                    for (_, score, _), other in zip(answer, np.add(expected.scores, part)):
                        worst = max(worst, abs(score - other)) if scores else 0
                print(f"{name}: {len(self.sources)} sentences equal" +
                      (f", scores within {worst:.2g}" if scores else ""))
                self.assertLess(worst, LIMIT)

    def random_sources(self, title, n, make):
        """make(random numbers, number) gives a request and the engine's hypotheses and scores (or None: not
        compared) for n random sources; all must be equal."""
        seed = SEED
        rng = random.Random(f"{title} {seed}")
        requests, expected, n = [], [], int(n * self.share)
        for number in range(n):
            src = self.source(rng)
            request, hypotheses, scores = make(rng, number, src)
            requests.append(f"max_length=40 {request} src={self.ids('source', src)}")
            expected.append((hypotheses, scores))
        answers = self.decode(self.convert("f32"), requests)
        equal = sum([tokens for tokens, _, _ in answer] == hypotheses
                    for answer, (hypotheses, _) in zip(answers, expected))
        print(f"{title}, seed {seed}: {equal} of {n} lists of hypotheses equal")
        for request, answer, (hypotheses, scores) in zip(requests, answers, expected):
            with self.subTest(f"{request}, seed {seed}"):
                self.assertEqual([tokens for tokens, _, _ in answer], hypotheses)
                for (_, score, _), other in zip(answer, scores or []):
                    self.assertAlmostEqual(score, other, delta=5e-4)

    def others(self, src, prefix):
        """Returns the probability of all tokens but the end token, after the prefix."""
        return -np.expm1(self.translator.score_batch([src], [prefix])[0].log_probs[-1])

    def engine(self, src, **options):
        options = {"max_decoding_length": 40, "min_decoding_length": 0, **options}
        answer = self.translator.translate_batch([src], return_scores=True, **options)[0]
        return answer.hypotheses, answer.scores

    def test_random_sources(self):
        """Compares whole n-best lists, beams of 1 to 8, with each rule for the end of the search; with
        patience also more hypotheses than the beam has."""
        def make(rng, number, src):
            beam = rng.randint(1, 8)
            patience, penalty = ((1, 0), (1, 0), (2, 0), (1, 0.7), (2, 1))[number % 5]
            n_best = rng.randint(1, beam * (patience if beam > 1 else 1))
            return (f"beam={beam} n_best={n_best} patience={patience} length_penalty={penalty}",
                    *self.engine(src, beam_size=beam, num_hypotheses=n_best, patience=patience,
                                 length_penalty=penalty))
        self.random_sources("random sources", 800, make)

    def test_alternatives(self):
        """Each alternative is continued greedily or with a beam. The engine shares out the probability of the
        end token, which is no alternative; in transformer.h the end token keeps its probability."""
        def make(rng, number, src):
            beam, n = rng.choice([1, 1, 2, 3, 4]), rng.randint(1, 6)
            penalty, least = rng.choice([0, 1, 0.6]), rng.choice([0, 0.01, 0.05, 0.2])
            prefix = [rng.choice(self.likely) for _ in range(rng.randint(0, 3))]
            others = self.others(src, prefix)
            options = {"length_penalty": penalty, "return_alternatives": True, "target_prefix": [prefix]}
            # Where no alternative is likely enough, the engine gives none or crashes; transformer.h gives the
            # best one.
            best = self.engine(src, beam_size=1, num_hypotheses=1, **options)[0][0]
            likely = self.translator.score_batch([src], [best])[0].log_probs[len(prefix)]
            if np.exp(likely) / others < least:
                options["num_hypotheses"] = 1
            else:
                options.update(num_hypotheses=n, min_alternative_expansion_prob=least)
            hypotheses, scores = self.engine(src, beam_size=beam, **options)
            here = f"prefix={self.ids('target', prefix)} " if prefix else ""
            return (f"beam={beam} alternatives={n} length_penalty={penalty} {here}"
                    f"min_alternative_prob={least * others}",
                    hypotheses, [score + np.log(others) for score in scores])
        self.random_sources("alternatives", 300, make)

    def test_lengths_and_ends(self):
        """Tests min_length = max_length, a prefix longer than max_length, the end token in the result, and a
        source that is too long."""
        def make(rng, number, src):
            beam, kind = rng.randint(1, 4), number % 4
            most = rng.randint(1, 6)
            options = dict(beam_size=beam, num_hypotheses=beam, length_penalty=0)
            here = f"beam={beam} n_best={beam} "
            # Forbidden tokens keep their probability in transformer.h, so only greedy tokens are compared,
            # without scores.
            if kind == 0:
                return (f"max_length={most} min_length={most}", self.engine(
                    src, beam_size=1, max_decoding_length=most, min_decoding_length=most)[0], None)
            if kind == 1:
                prefix = [rng.choice(self.likely) for _ in range(most + rng.randint(0, 3))]
                hypotheses, _ = self.engine(src, beam_size=1, max_decoding_length=most,
                                            target_prefix=[prefix])
                return (f"max_length={most} prefix={self.ids('target', prefix)}", hypotheses, None)
            if kind == 2:
                return (here + "keep_end=1", *self.engine(src, return_end_token=True, **options))
            return (here + f"truncate={most}", *self.engine(src, max_input_length=most, **options))
        self.random_sources("lengths and ends", 400, make)

    def test_prompts(self):
        """Compares a prompt, the start token and more, with the engine's prefix of the same tokens, which it
        returns as well."""
        def make(rng, number, src):
            prefix = [rng.choice(self.likely) for _ in range(rng.randint(0, 9))]
            hypotheses, scores = self.engine(src, beam_size=1, length_penalty=0, target_prefix=[prefix])
            return (f"max_length={40 - len(prefix)} prompt={self.ids('target', ['<s>', *prefix])}",
                    [tokens[len(prefix):] for tokens in hypotheses], scores)
        self.random_sources("prompts", 400, make)

    def test_coverage(self):
        """Compares attention of the head that the model names; with a beam, because the engine crashes
        without one."""
        def make(rng, number, src):
            beam, coverage, penalty = rng.randint(2, 5), rng.choice([0.1, 0.3, 1]), rng.choice([0, 1])
            return (f"beam={beam} n_best={beam} coverage_penalty={coverage} "
                    f"length_penalty={penalty}", *self.engine(
                        src, beam_size=beam, num_hypotheses=beam, coverage_penalty=coverage,
                        length_penalty=penalty))
        self.random_sources("coverage", 200, make)

    def test_scores_of_tokens(self):
        """Compares translate --scores=tokens, for n-best lists in batches, with the engine's scores of the
        same tokens."""
        translate = ROOT / "build" / "translate"
        if not translate.exists():
            self.skipTest(f"no {translate}")
        seed = SEED
        rng, worst, cut, count = random.Random(seed), 0, 0, 0
        sources = [self.source(rng) for _ in range(60)]
        for options in ("--beam 4 --n-best 3", "--beam 3 --length-penalty 1", "--max-length 4",
                        "--sample --n-best 2 --no-repeat-ngram 2", "--greedy --min-length 5"):
            done = subprocess.run(
                [translate, self.convert("f32"), "--tokens", "--scores=tokens", "--batch", "16",
                 *options.split()], input="".join(" ".join(src) + "\n" for src in sources),
                capture_output=True, text=True)
            rows = [line.split("\t") for line in done.stdout.split("\n")[:-1]]
            n_best = 3 if "best 3" in options else 2 if "best 2" in options else 1
            rows = [row if n_best > 1 else [number + 1, *row] for number, row in enumerate(rows)]
            self.assertEqual(len(rows), n_best * len(sources))
            count += len(rows)
            targets = [target.split() for _, _, _, target in rows]
            expected = self.translator.score_batch(
                [sources[int(number) - 1] for number, *_ in rows], targets)
            for (number, score, each, _), target, want in zip(rows, targets, expected, strict=True):
                each = [float(number) for number in each.split(" ")]
                self.assertEqual(len(each), len(target) + 1)
                longest = 4 if "max-length" in options else 2 * len(sources[int(number) - 1]) + 16  # the default
                if len(target) == longest:  # it did not end
                    self.assertEqual(each.pop(), 0)
                    cut += 1
                searched = "--sample" not in options and "--greedy" not in options
                mean = sum(each) / (len(each) if searched else 1)  # The model file states this option.
                self.assertAlmostEqual(mean, float(score), delta=1e-2)
                worst = max([worst] + [abs(a - b) for a, b in zip(each, want.log_probs)])
        print(f"scores of tokens, seed {seed}: {count} hypotheses, {cut} without end, within "
              f"{worst:.2g}")
        self.assertLess(worst, 2e-4)  # The output has four decimals.
        self.assertGreater(cut, 0)

    def test_scoring(self):
        engine = self.translator
        targets = [one.hypotheses[0] for one in engine.translate_batch(self.sources, beam_size=2)]
        pairs = list(zip(self.sources, targets))
        expected = engine.score_batch([src for src, _ in pairs], [tgt for _, tgt in pairs])
        request = (f"score=1 max_length=64 src={';'.join(self.ids('source', s) for s, _ in pairs)} "
                   f"tgt={';'.join(self.ids('target', t) for _, t in pairs)}\n")
        # Rows are as wide as the widest; numbers behind a row's length are not read.
        done = subprocess.run([DECODE, self.convert("f32")], input=request, capture_output=True,
                              text=True)
        self.assertEqual(done.stderr, "")
        worst = max(abs(float(got) - want)
                    for line, e in zip(done.stdout.split("\n"), expected, strict=False)
                    for got, want in zip(line.split(), e.log_probs, strict=True))
        print(f"scoring: {len(pairs)} targets, log-probabilities within {worst:.2g}")
        self.assertLess(worst, LIMIT)
        for offset in (1, 3):
            rows = [e.log_probs for e in engine.score_batch(
                [src for src, _ in pairs], [tgt for _, tgt in pairs], offset=offset)]
            done = subprocess.run([DECODE, self.convert("f32")], text=True, capture_output=True,
                                  input=f"offset={offset} {request}")
            for line, row in zip(done.stdout.split("\n"), rows, strict=False):
                numbers = [float(number) for number in line.split()]
                self.assertEqual(numbers[:offset], [0] * offset)
                np.testing.assert_allclose(numbers[offset:], row, atol=LIMIT)


@unittest.skipUnless(AREN.is_dir(), f"no model at {AREN}")
@unittest.skipUnless(DECODE.exists(), f"no {DECODE}: make it first")
class Aren(Search, unittest.TestCase):
    model, prefix, common, likely = AREN, ["a", "n"], "n", "aehint"

    @classmethod
    def prepare(cls):
        cls.vocabularies = {side: (AREN / f"{side}_vocabulary.txt").read_text().splitlines()
                            for side in ("source", "target")}
        cls.rows = [json.loads(line) for line in (AREN / "golden.jsonl").read_text().splitlines()]
        cls.sources = [list(src) for src in dict.fromkeys(tuple(row["src"]) for row in cls.rows)]
        cls.letters = [token for token in cls.vocabularies["source"] if not token.startswith("<")]

    def source(self, rng):
        return rng.choices(self.letters, k=rng.randint(1, 12))

    def test_golden_rows(self):
        worst_score = worst_attention = equal = 0
        for weights in ("f32", "i8", "i16"):
            rows = [row for row in self.rows if row["weights"] == weights]
            requests = [f"beam={row['beam_size']} n_best={row['num_hypotheses']} max_length="
                        f"{row['max_decoding_length']} length_penalty={row['length_penalty']} "
                        f"attention=1 src={self.ids('source', row['src'])}"
                        for row in rows]
            for row, answer in zip(rows, self.decode(self.convert(weights), requests)):
                with self.subTest(f"{row['id']} {weights} beam {row['beam_size']}"):
                    self.assertEqual([tokens for tokens, _, _ in answer], row["hypotheses"])
                    equal += 1
                    for (_, score, got), expected, rows_of in zip(answer, row["scores"],
                                                                  row["attention"]):
                        worst_score = max(worst_score, abs(score - expected))
                        difference = np.abs(got - np.array(rows_of)).max(initial=0)
                        worst_attention = max(worst_attention, difference)
        print(f"golden rows: {equal} of {len(self.rows)} equal, scores within {worst_score:.2g}, "
              f"attention within {worst_attention:.2g}")
        self.assertEqual(equal, len(self.rows))
        self.assertLess(worst_score, LIMIT)
        self.assertLess(worst_attention, LIMIT)


@unittest.skipUnless(DECODE.exists(), f"no {DECODE}: make it first")
class Shipped(Search, unittest.TestCase):
    """Tokens are named after their ids. Sources are lines of the demo, and random parts of them."""

    share = 0.5

    @classmethod
    def prepare(cls):
        tensors, metadata = read_safetensors(SHIPPED)
        config = json.loads(metadata["transformer.config"])
        cls.model = cls.folder / "engine"
        weights = {name: value * tensors[f"{name}_scale"][:, None] if f"{name}_scale" in tensors else value
                   for name, value in tensors.items()}
        bench_peers.ctranslate2_save(types.SimpleNamespace(weights=weights, config=config, kind="translate"),
                                     cls.model, "f32")
        # The engine gives no text for <s> and </s>.
        names = [f"t{i}" for i in range(config["src_vocab_size"])]
        names[config["src_unk"]] = "<unk>"
        (cls.model / "source_vocabulary.json").write_text(json.dumps(names))
        cls.vocabularies = {"source": names, "target": bench_peers.names_of(config["tgt_vocab_size"], config)}
        cls.end = names[config["src_end"]]
        rows = bytes(tensors["src_vocabulary"]).decode().split("\n")
        ids = {character: i for i, row in enumerate(rows) for character in row.split("\t")}
        cls.texts = [[names[ids.get(one, config["src_unk"])] for one in line] for line in
                     (ROOT / "examples/translate/demo.txt").read_text(encoding="utf-8").splitlines()]
        cls.sources = [[*text, cls.end] for text in cls.texts[:12]]
        engine = ctranslate2.Translator(str(cls.model), compute_type="float32", intra_threads=1)
        targets = [one.hypotheses[0] for one in engine.translate_batch(cls.sources)]
        cls.likely = sorted({token for target in targets for token in target})
        cls.common = max(cls.likely, key=lambda token: sum(token in target for target in targets))
        cls.prefix = targets[0][:2]

    def source(self, rng):
        text = rng.choice(self.texts)
        at = rng.randrange(len(text))
        return [*text[at:at + rng.randint(1, 12)], self.end]


if __name__ == "__main__":
    unittest.main(warnings="ignore")
