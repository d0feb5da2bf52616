#!/usr/bin/env python3
"""Tests models of Firefox and Bergamot in tools/convert.py: python tests/tools/test_marian.py, after make

The test writes random students as Marian's .bin, converts and runs them. It compares with Marian's formulas
in NumPy (marian_student.py) and, where it is installed, with fxtranslate, Mozilla's engine.
"""

import gzip
import io
import math
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import sentencepiece

from marian_student import Student
from seeds import SEED
from test_convert import FORWARD, ROOT, TRANSLATE, ConvertTest
from convert.untrusted import read_safetensors
from convert.modelfile import write_safetensors
from convert import marian_bin
import time_students

try:
    import fxtranslate
except ImportError:
    fxtranslate = None

LINES = ["A program needs nothing else.", "What is in the file?", "It runs on one core.",
         "The model was trained here, and its weights stay.", "No.", "Read the manual first."]


def learn_pieces(size=300):
    """Makes a SentencePiece model as Marian does: </s> and <unk> first, and no other special piece."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\n")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text + LINES), model_writer=out, vocab_size=size,
        hard_vocab_limit=False, num_threads=1, minloglevel=2, eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
    return out.getvalue()


class MarianTest(ConvertTest):
    @classmethod
    def setUpClass(cls):
        cls.pieces = learn_pieces()
        cls.sp = sentencepiece.SentencePieceProcessor(model_proto=cls.pieces)
        cls.never = [i for i in range(cls.sp.vocab_size()) if cls.sp.is_unknown(i)]

    def student(self, **options):
        return Student(self.sp.vocab_size(), never=self.never, **options)

    def directory(self, student, model="model.xxyy.intgemm.alphas.bin", **files):
        folder = self.folder / "student"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        student.write(folder / model)
        for name, data in (files or {"vocab.xxyy.spm": self.pieces}).items():
            (folder / name).write_bytes(data)
        self.out.unlink(missing_ok=True)
        return folder

    def encode(self, line):
        return self.sp.encode(line) + [0]

    def forward(self, src, tgt):
        ids, out = self.folder / "ids", self.folder / "result"
        write_safetensors(ids, {"src": np.array([src], "<i4"), "tgt": np.array([tgt], "<i4")})
        subprocess.run([FORWARD, self.out, ids, out], check=True)
        return read_safetensors(out)[0]["logits"][0]

    def translate(self, line, *options):
        run = subprocess.run([TRANSLATE, self.out, "--plain", *map(str, options)], input=line + "\n",
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.removesuffix("\n")


class Bin(MarianTest):
    def test_int8_is_copied(self):
        student = self.student()
        model = self.convert(self.directory(student))
        for old, new in (("decoder_l1_rnn_Wf", "decoder.layers.0.ssru_gate.weight"),
                         ("encoder_l2_ffn_W1", "encoder.layers.1.linear1.weight"),
                         ("Wemb", "src_embedding.weight")):
            stored, scale = student.bytes[old]
            self.assertEqual(model.t[new].dtype, np.int8)
            self.assertEqual(model.t[new].tobytes(), stored.tobytes())
            self.assertTrue((model.t[f"{new}_scale"] == np.float32(1 / float(scale))).all())
            self.assertEqual(model.t[f"{new}_scale"].shape, (len(stored),))
        self.assertEqual(sum(one.dtype == np.int8 for one in model.t.values() if one is not None) - 2,
                         len(student.bytes))  # The file has the table three times, tied.
        factors = {name.removesuffix("_input_factor"): float(value[0]) for name, value in model.t.items()
                   if name.endswith("_input_factor")}
        self.assertEqual(len(factors), len(student.bytes))  # and not for the table of the source
        self.assertEqual(set(factors.values()), {float(np.float32(127 / 4.0))})
        self.assertIn("generator.weight", factors)
        self.assertEqual((model.config["end"], model.config["suppressed"]), (0, [1]))
        self.assertEqual(model.config["activation"], "relu")

    def test_types(self):
        """f32 must be unchanged; int16 with its scale of 1024 must lose nothing as f32."""
        for kind in ("f32", "intgemm16"):
            student = self.student(kind=kind)
            model = self.convert(self.directory(student))
            for old, new in (("decoder_l2_rnn_W", "decoder.layers.1.ssru.weight"),
                             ("decoder_l1_context_Wk", "decoder.layers.0.multihead_attn.k_proj.weight")):
                self.assertEqual(model.t[new].dtype, np.float32)
                self.assertTrue(np.array_equal(model.t[new], student.values[old].T), kind)
        student = self.student()
        for options, kind in ((["--dtype", "f32"], np.float32), (["--dtype", "f16"], np.float16)):
            model = self.convert(self.directory(student), *options)
            self.assertEqual(model.t["src_embedding.weight"].dtype, kind)
            self.assertNotIn("src_embedding.weight_scale", model.t)

    def test_packed_for_a_cpu_is_refused_by_name(self):
        for kind, reason in ((0x1801, "FBGEMM (packed8avx2)"), (0x2801, "packed8avx512"),
                             (0x802, "packed16"), (0x12001, "packed for a CPU"), (0x999, "not known")):
            student = self.student()
            _, *rest = student.items["encoder_l1_self_Wq"]
            student.items["encoder_l1_self_Wq"] = (kind, *rest)
            said = self.refuse(self.directory(student))
            self.assertIn(reason, said)
            self.assertIn("encoder_l1_self_Wq", said)

    def test_folders(self):
        """The spellings of Firefox, of browsermt and of packed files must give the same model file."""
        student = self.student()
        self.convert(self.directory(student))
        expected = self.out.read_bytes()
        config = (b"relative-paths: true\nmodels:\n  - model.intgemm.alphas.bin\nvocabs:\n"
                  b"  - vocab.xxyy.spm\n  - vocab.xxyy.spm\nbeam-size: 1\nshortlist:\n"
                  b"  - lex.s2t.bin\n  - false\n")
        folder = self.directory(student, "model.intgemm.alphas.bin", **{
            "vocab.xxyy.spm": self.pieces, "config.intgemm8bitalpha.yml": config})
        self.convert(folder)
        self.assertEqual(self.out.read_bytes(), expected)
        self.convert(folder / "model.intgemm.alphas.bin")
        self.assertEqual(self.out.read_bytes(), expected)
        for path in list(folder.iterdir()):
            if path.suffix != ".yml":
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
        self.convert(folder)
        self.assertEqual(self.out.read_bytes(), expected)
        (folder / "config.intgemm8bitalpha.yml").unlink()
        self.convert(folder)
        self.assertEqual(self.out.read_bytes(), expected)
        (folder / "model.other.bin.gz").write_bytes((folder / "model.intgemm.alphas.bin.gz").read_bytes())
        self.assertIn("2 models", self.refuse_again(folder))

    def refuse_again(self, folder):
        self.out.unlink(missing_ok=True)
        return self.refuse(folder)

    def test_two_vocabularies(self):
        other = learn_pieces(200)
        sources = sentencepiece.SentencePieceProcessor(model_proto=other).vocab_size()
        student = self.student(sources=sources)
        model = self.convert(self.directory(student, "model.enja.intgemm8.bin", **{
            "srcvocab.enja.spm": other, "trgvocab.enja.spm": self.pieces}))
        self.assertEqual(model.t["src_sentencepiece"].tobytes(), other)
        self.assertEqual(model.t["tgt_sentencepiece"].tobytes(), self.pieces)
        self.assertEqual((model.config["src_end"], model.config["end"]), (0, 0))
        src, tgt = [5, 17, 30, 0], [4, 40, 100]
        expected = student.logits(student.encode(src), tgt)
        self.convert(self.directory(student, "model.enja.intgemm8.bin", **{
            "srcvocab.enja.spm": other, "trgvocab.enja.spm": self.pieces}), "--dtype", "f32")
        self.check_near("logits", *(np.delete(one, self.never, 1) for one in (
            self.forward(src, [0, *tgt]), expected)), 1e-4)

    def test_shortlist(self):
        """Only the file's candidates, those of the sentence and the end token may come out."""
        student = self.student(width=64, seed=3)
        data, lists = student.shortlist()
        for name in ("lex.50.50.xxyy.s2t.bin", "lex.s2t.bin.gz"):
            folder = self.directory(student, **{
                "vocab.xxyy.spm": self.pieces,
                name: gzip.compress(data) if name.endswith(".gz") else data})
            model = self.convert(folder, "--dtype", "f32")
            self.assertEqual(model.config["shortlist_first"], 20)
            self.assertEqual(model.t["shortlist.ids"].tobytes(), np.concatenate(lists).astype("<u4").tobytes())
        equal = other = 0
        for line in LINES:
            ids = self.encode(line)
            allowed = {0, *range(20), *ids}.union(*(lists[i].tolist() for i in ids)) - set(self.never)
            free, _ = student.greedy(ids, 0, 2 * len(ids) + 4)
            out, margin = student.greedy(ids, 0, 2 * len(ids) + 4, allowed)
            if margin > 1e-3:
                text = self.translate(line, "--shortlist", "--max-length", 2 * len(ids) + 4)
                self.assertEqual(text, self.sp.decode([i for i in out if i]))
                equal, other = equal + 1, other + (out != free)
        print(f"test_shortlist: {equal} texts, {other} others than without")
        self.assertGreater(equal, 3)
        self.assertGreater(other, 0)

    def test_shortlist_in_text(self):
        """Lines "target source probability", limited as decoder.yml says: the best candidates of each source
        token."""
        student = self.student()
        pieces = [self.sp.id_to_piece(i) for i in range(self.sp.vocab_size())]
        text = "".join(f"{pieces[t]} {pieces[s]} {p}\n" for t, s, p in (
            (9, 5, .1), (11, 5, .5), (10, 5, .5), (12, 5, .2), (7, 6, .01), (8, 6, .9), (8, 6, .3)))
        text += f"NULL {pieces[5]} 1\n{pieces[14]} NULL 1\nnobody {pieces[7]} 0.4\n"
        config = (b"models:\n  - model.xxyy.intgemm.alphas.bin\nvocabs:\n  - vocab.xxyy.spm\n"
                  b"  - vocab.xxyy.spm\nshortlist:\n  - lex.s2t.gz\n  - 3\n  - 2\n  - 0.05\n")
        for said, first, lists in ((config, 3, {5: [10, 11], 6: [8], 7: [self.sp.unk_id()]}),
                                   (None, 100, {5: [9, 10, 11, 12], 6: [7, 8], 7: [self.sp.unk_id()]})):
            folder = self.directory(student, **{
                "vocab.xxyy.spm": self.pieces, "lex.s2t.gz": gzip.compress(text.encode()),
                **({"decoder.yml": said} if said else {})})
            if not said:
                (folder / "decoder.yml").unlink(missing_ok=True)
            model = self.convert(folder)
            self.assertEqual(model.config["shortlist_first"], min(first, len(pieces)))
            offsets, ids = (model.t[f"shortlist.{name}"].tolist() for name in ("offsets", "ids"))
            self.assertEqual({at: ids[a:b] for at, (a, b) in enumerate(zip(offsets, offsets[1:])) if a < b},
                             lists)
        folder = self.directory(student, **{"vocab.xxyy.spm": self.pieces, "lex.s2t.gz": gzip.compress(b"a b\n")})
        self.assertIn("line 1: not a target, a source and a probability", self.refuse(folder))

    def test_broken_shortlists(self):
        student = self.student()
        data, _ = student.shortlist()
        ids = len(data) - 4
        for change, reason in (
                (data[:-4], "ids in"), (data[:50], "ids in"), (data + b"xxxx", "ids in"),
                (data[:32] + struct.pack("<Q", 2 ** 61) + data[40:], "2305843009213693952 offsets"),
                (data[:48] + struct.pack("<Q", 1) + data[56:], "its offsets do not go"),
                (data[:56] + struct.pack("<Q", 2 ** 40) + data[64:], "its offsets do not go"),
                (data[:ids] + struct.pack("<I", 2 ** 31), "id 2147483648 is outside"),
                (data[:16] + struct.pack("<Q", 2 ** 40) + data[24:], "the first 1099511627776"),
                (Student(50, 64).shortlist()[0], "lists for 50 tokens")):
            folder = self.directory(student, **{"vocab.xxyy.spm": self.pieces, "lex.s2t.bin": change})
            self.assertIn(reason, self.refuse(folder))
        folder = self.directory(student, **{"vocab.xxyy.spm": self.pieces, "lex.s2t.bin": b"text"})
        self.convert(folder)
        self.assertIn("no binary shortlist, left out", self.done.stdout)

    def test_npz(self):
        """Marian's own .npz of such a model has the same names, in f32."""
        student = self.student(kind="f32")
        self.convert(self.directory(student))
        expected = self.out.read_bytes()
        folder = self.directory(student)
        (folder / "model.xxyy.intgemm.alphas.bin").unlink()
        forms = {0x404: "<f4", 0x101: "i1"}
        np.savez(folder / "model.npz", **{
            name: np.frombuffer(data, forms[kind]).reshape(dims)
            for name, (kind, dims, data) in student.items.items()})
        self.convert(folder)
        self.assertEqual(self.out.read_bytes(), expected)
        student.items["special:model.yml"] = (0x101, *(
            one if at == 0 else one.replace(b"ssru", b"gru\n") if isinstance(one, bytes) else one
            for at, one in enumerate(student.items["special:model.yml"][1:])))
        self.assertIn("dec-cell is 'gru'", self.refuse_again(self.directory(student)))

    def test_written_again(self):
        """marian_bin.py writes a model file as .bin, which must convert to the same model."""
        student = self.student(kind="f32")
        self.convert(self.directory(student))
        first = read_safetensors(self.out)[0]
        folder = self.folder / "again"
        folder.mkdir()
        run = subprocess.run([sys.executable, "-m", "convert.marian_bin", self.out, folder / "model.xxyy.bin"],
                             cwd=ROOT / "tools", capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.convert(folder)
        second = read_safetensors(self.out)[0]
        self.assertEqual(set(first), set(second))
        first["generator.bias"][1] = -1e4  # suppressed
        for name in first:
            self.assertTrue(np.array_equal(first[name], second[name]), name)


class Answers(MarianTest):
    """Tests five seeds of three widths."""

    MODELS = [dict(width=width, seed=seed) for width in (64, 256, 384) for seed in range(1, 6)]

    def test_logits(self):
        worst = 0
        for options in self.MODELS:
            student = self.student(**options)
            self.convert(self.directory(student), "--dtype", "f32")
            src, tgt = self.encode(LINES[0]), self.encode(LINES[3])[:-1]
            expected = student.logits(student.encode(src), tgt)
            distance = np.abs(self.forward(src, [0, *tgt]) - expected)
            worst = max(worst, np.delete(distance, self.never, 1).max())  # -10000 has no such digits
        print(f"test_logits: {len(self.MODELS)} students, logits differ by {worst:.2g}")
        self.assertLess(worst, 1e-4)

    @unittest.skipUnless(fxtranslate, "fxtranslate is not installed")
    def test_texts_of_fxtranslate(self):
        """Where the best token is clear, the texts must be the same. Elsewhere rounding decides: fxtranslate
        rounds activations to int8 by static factors. So does transformer.h with int8 weights, but sums the
        floats in another order; with f32 weights it does not round them."""
        # number of equal texts; of clear ones, and of equal ones among them
        counts = {"f32": [0, 0, 0], "int8": [0, 0, 0]}
        for options in self.MODELS:
            student = self.student(**options)
            rows = []
            for line in LINES:
                ids = self.encode(line)
                most = 2 * len(ids) + 4  # fxtranslate's limit
                rows.append((line, most, student.greedy(ids, 0, most)[1]))
            folder = self.directory(student)
            engine = fxtranslate.Translator(
                (folder / "model.xxyy.intgemm.alphas.bin").read_bytes(), self.pieces, self.pieces)
            for kind, found in counts.items():
                self.convert(folder, *(["--dtype", "f32"] if kind == "f32" else []))
                for line, most, margin in rows:
                    equal = self.translate(line, "--max-length", most) == engine.translate(line)
                    clear = margin > (0.05 if kind == "f32" else 0.1)
                    counts[kind] = found = np.add(found, (equal, clear, equal and clear)).tolist()
        for kind, (every, clear, same) in counts.items():
            print(f"test_texts_of_fxtranslate, {kind}: {every} of {len(self.MODELS) * len(LINES)} texts "
                  f"are equal, of the {clear} with a clear best token {same}")
            self.assertGreater(clear, 20)
            self.assertEqual(same, clear)


# As in the training pipeline of Firefox's models: the symbols stand there since 2025-10.
SYMBOLS = ["__source__", "__target__", "__done__", "__start__", "__end__", "__sep__"] + [f"__misc{i}__" for i in range(10)]
CHINESE = ["\u8fd9\u4e2a\u7a0b\u5e8f\u4e0d\u9700\u8981\u522b\u7684\u4e1c\u897f\u3002", "\u6587\u4ef6\u91cc\u6709\u4ec0\u4e48\uff1f", "\u5b83\u57282024\u5e74\u8fd0\u884c\u5728\u4e00\u4e2a\u6838\u5fc3\u4e0a\u3002"]
HARD = ["Call 0800 1234567 before 9.", "He said __sep__ and __end__.", "__source__ It runs \U0001f600 here \u00bd.", "\u0416\u0443\u043a, \u7532\u866b!",
        "  Two  spaces\u3000and a tab. "]


def firefox_pieces(text, symbols=(), coverage=1.0, size=700):
    """Makes a SentencePiece model with the arguments of the training pipeline of Firefox's models."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=out, vocab_size=size, hard_vocab_limit=False, num_threads=1, minloglevel=2,
        bos_id=-1, pad_id=-1, eos_id=0, unk_id=1, byte_fallback=True, split_digits=True, normalization_rule_name="nmt_nfkc",
        character_coverage=coverage, user_defined_symbols=list(symbols))
    return out.getvalue()


class Vocabularies(MarianTest):
    """Students with vocabularies of Firefox's training pipeline: old, with the symbols of today, Chinese, and with tags of
    languages."""

    @classmethod
    def setUpClass(cls):
        text = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\n") + LINES * 5
        chinese = firefox_pieces(text + CHINESE * 20, SYMBOLS, 0.9995)
        today = firefox_pieces(text, SYMBOLS)
        cls.kinds = {"old": [firefox_pieces(text)], "today": [today], "cjk": [today, chinese], "from cjk": [chinese, today],
                     "tags": [firefox_pieces(text, ["##DE", "##FR", "##PT_BR"])]}

    def make(self, kind, seed):
        """Returns a folder, its student and what cuts its sources."""
        pieces = self.kinds[kind]
        side = [sentencepiece.SentencePieceProcessor(model_proto=one) for one in pieces]
        # fxtranslate writes a byte as the text <0x41>; Marian's own engine joins bytes
        self.never = [at for at in range(side[-1].vocab_size()) if side[-1].is_byte(at) or side[-1].is_unknown(at)]
        student = Student(side[-1].vocab_size(), width=128, seed=seed, never=self.never,
                          sources=side[0].vocab_size() if side[1:] else 0)
        names = ["srcvocab.xxyy.spm", "trgvocab.xxyy.spm"] if side[1:] else ["vocab.xxyy.spm"]
        return self.directory(student, **dict(zip(names, pieces))), student, side[0]

    @unittest.skipUnless(fxtranslate, "fxtranslate is not installed")
    def test_texts_of_fxtranslate(self):
        counts, texts = {}, set()
        for kind, pieces in self.kinds.items():
            lines = LINES + HARD + CHINESE * (kind == "from cjk")
            for seed in (SEED, SEED + 1, SEED + 2):
                folder, student, side = self.make(kind, seed)
                engine = fxtranslate.Translator((folder / "model.xxyy.intgemm.alphas.bin").read_bytes(), pieces[0], pieces[-1])
                model = self.convert(folder)
                tag, to = ("##PT_BR ", ["--to", "pt_br"]) if kind == "tags" else ("", [])
                self.assertEqual(sorted(model.config.get("languages", {})), ["de", "fr", "pt_br"] if tag else [])
                for line in lines:
                    ids = [*side.encode(tag + line), 0]
                    most = 2 * len(ids) + 4  # fxtranslate's limit
                    clear = student.greedy(ids, 0, most)[1] > 0.1
                    text = self.translate(line, "--max-length", most, *to)
                    equal = text == engine.translate(tag + line)
                    texts.add(text)
                    counts[kind] = np.add(counts.get(kind, 0), (1, equal, clear, clear and equal))
        for kind, (every, equal, clear, same) in counts.items():
            print(f"test_texts_of_fxtranslate, vocabulary {kind}: {equal} of {every} texts are equal, of the {clear} with a clear "
                  f"best token {same}")
            self.assertGreater(clear, 3)
            self.assertEqual(same, clear, kind)
        self.assertGreater(len(texts), 100)

    def test_languages_are_the_family_s(self):
        folder, _, side = self.make("tags", 1)
        ids = {one: side.piece_to_id(one) for one in ("##DE", "##FR", "##PT_BR", "\u2581")}
        config = self.convert(folder).config
        self.assertEqual((config["languages"], config["src_language"], config["src_start"]),
                         ({"de": ids["##DE"], "fr": ids["##FR"], "pt_br": ids["##PT_BR"]}, "target", ids["\u2581"]))
        config = self.convert(folder, "--set", "languages=german:##DE,french:9", "--set", "src_language=target").config
        self.assertEqual(config["languages"], {"german": ids["##DE"], "french": 9})
        self.assertFalse({"languages", "src_language"} & set(self.convert(folder, "--set", "languages=none").config))
        self.out.unlink()
        self.assertIn("no such token", self.refuse(folder, "--set", "languages=german:##XX"))
        folder, _, side = self.make("today", 1)
        self.assertIn("--set src_language=target", self.refuse(folder, "--set", "languages=de:__sep__"))
        config = self.convert(folder, "--set", "languages=de:__sep__", "--set", "src_language=target").config
        self.assertEqual(config["languages"], {"de": side.piece_to_id("__sep__")})


class Factors(MarianTest):
    """The static factors of activations, which Mozilla calls alphas."""

    @unittest.skipUnless(fxtranslate, "fxtranslate is not installed")
    def test_texts_of_fresh_students(self):
        """Twenty fresh students, compared with fxtranslate and with the formula in float64. Where the best token
        is clear, all texts must be the same. Elsewhere they are not always: floats are summed in another order,
        so an activation may fall to the other side between two int8. There float64 is the judge: fxtranslate
        itself writes its texts in 106 to 117 of 120 cases, transformer.h in 114 to 119."""
        draw = random.Random(SEED)
        other = learn_pieces(200)
        sources = sentencepiece.SentencePieceProcessor(model_proto=other)
        counts = {}
        for at in range(20):
            two = at % 4 == 3
            width, layers = draw.choice((128, 192, 256, 320, 384)), (draw.randint(1, 3), draw.randint(2, 4))
            clip = draw.choice((0.6, 0.8, 1.0))
            student = self.student(width=width, layers=layers, seed=SEED + at,
                                   sources=sources.vocab_size() if two else 0)
            spm = sources if two else self.sp
            rows = [[*spm.encode(line), 0] for line in LINES]
            for ids in rows[:3]:
                student.greedy(ids, 0, 2 * len(ids) + 4)
            student.calibrate(clip)
            name = "model.enja.intgemm.alphas.bin"
            folder = self.directory(student, name, **({
                "srcvocab.enja.spm": other, "trgvocab.enja.spm": self.pieces} if two else {}))
            engine = fxtranslate.Translator((folder / name).read_bytes(), other if two else self.pieces, self.pieces)
            self.convert(folder)
            for line, ids in zip(LINES, rows):
                most = 2 * len(ids) + 4  # fxtranslate's limit
                best, margin = student.greedy(ids, 0, most)
                exact = self.sp.decode([token for token in best if token])
                ours, theirs = self.translate(line, "--max-length", most), engine.translate(line)
                for key in (f"width {width}", f"{layers[1]} decoder layers", f"{1 + two} vocabularies",
                            f"margin {'over' if margin > 0.05 else 'to'} 0.05", f"clip {clip}", "all"):
                    counts[key] = np.add(counts.get(key, 0), (1, ours == theirs, ours == exact, theirs == exact))
        for key, (every, both, ours, theirs) in sorted(counts.items()):
            print(f"test_texts_of_fresh_students, {key}: {both} of {every} texts are fxtranslate's, "
                  f"{ours} float64's; {theirs} of fxtranslate's are float64's")
        clear, *equal = counts["margin over 0.05"]
        self.assertGreater(clear, 40)
        self.assertEqual(equal, [clear] * 3)
        every, _, ours, theirs = counts["all"]
        self.assertGreaterEqual(ours, 0.9 * every)
        self.assertGreaterEqual(ours, 0.95 * theirs)

    def test_logits(self):
        """The formula in float64: an activation between two int8 may fall to either side, so most logits must
        be near, not all."""
        distances = []
        for seed in range(1, 6):
            student = self.student(width=128, seed=seed)
            src, tgt = self.encode(LINES[0]), self.encode(LINES[3])[:-1]
            student.logits(student.encode(src), tgt)
            student.calibrate(0.7)
            self.convert(self.directory(student))
            expected = student.logits(student.encode(src), tgt)
            distances.append(np.delete(np.abs(self.forward(src, [0, *tgt]) - expected), self.never, 1))
        every = np.concatenate([one.reshape(-1) for one in distances])
        print(f"test_logits with factors: median {np.median(every):.2g}, most {every.max():.2g}")
        self.assertLess(np.median(every), 2e-3)
        self.assertLess(every.max(), 0.2)

    def test_written_and_packed(self):
        """Factors survive --packed, quantize and a .bin written again; --dtype f32 has none."""
        student = self.student()
        student.greedy(self.encode(LINES[0]), 0, 20)
        student.calibrate(0.8)
        first = self.convert(self.directory(student))
        texts = [self.translate(line) for line in LINES]
        folder = self.folder / "again"
        folder.mkdir()
        run = subprocess.run([sys.executable, "-m", "convert.marian_bin", self.out, folder / "model.xxyy.bin"],
                             cwd=ROOT / "tools", capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        second = self.convert(folder)
        names = [name for name in first.t if name.endswith("_input_factor")]
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertAlmostEqual(float(first.t[name][0]), float(second.t[name][0]), delta=1e-4)
        done = self.run_convert(self.directory(student), "--packed", "int8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([self.translate(line) for line in LINES], texts)
        self.assertFalse([name for name in self.convert(self.directory(student), "--dtype", "f32").t
                          if name.endswith("_input_factor")])

    def test_wrong_factors_are_refused(self):
        for value in (0.0, -1.0, math.nan, math.inf):
            student = self.student()
            student.factors["encoder_l1_ffn_W1"] = np.float32(value)
            self.assertIn("encoder_l1_ffn_W1_QuantMultA", self.refuse(self.directory(student)))


class Times(unittest.TestCase):
    def test_a_program_that_fails_is_not_timed(self):
        """tests/tools/time_students.py once printed 9 million words a second because translate found no
        model."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "lines.txt").write_text("a\n" * 3)
            with self.assertRaisesRegex(SystemExit, "not timed"):
                time_students.measure(Path(folder))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
