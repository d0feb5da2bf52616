"""Compares the texts of small directories of every family that has a tokenizer with transformers' AutoTokenizer: ids of texts with added
tokens and trailing spaces, and decoded texts with and without clean_up_tokenization_spaces. Needs transformers (5), sentencepiece and
cc; no PyTorch."""

import functools
import inspect
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import unittest
import unittest.mock
from collections import Counter
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import numpy as np  # noqa: E402
import sentencepiece  # noqa: E402
import transformers  # noqa: E402

import import_path  # noqa: E402, F401
from convert import charsmap  # noqa: E402
from convert import checking_texts  # noqa: E402
from convert import tokenizer_fields  # noqa: E402
from convert import sentencepieces  # noqa: E402
from convert import tokenizer_files  # noqa: E402
from compare_sentencepiece import compile_program, run  # noqa: E402
from convert.modelfile import ConvertError, Model, write_model  # noqa: E402
from convert.untrusted import read_safetensors  # noqa: E402
from seeds import SEED  # noqa: E402

SENTENCES = ["Bonjour ! Ça va ?", "Il n'y a pas d'eau , dit-elle .", "l'été, c'est où ?", "I do n't know, it 's fine .",
             "We 've been; they 're here , I 'm not !", "the big lighthouse and a small robot watch every ship"]
ALPHABET = "a b c d e f g h i j k l m n o p q r s t u v w x y z A B C ' \" « » ; : ( ) < > _ 1 2 3"
MODEL_TYPES = {"mbart50": "mbart", "nllb": "m2m_100"}
CLASSES = {"marian": "Marian", "m2m_100": "M2M100", "t5": "T5", "pegasus": "Pegasus", "mbart": "MBart", "mbart50": "MBart50",
           "nllb": "Nllb", "seamless_m4t": "SeamlessM4T", "bart": "Bart"}
ROWS = 500
FORWARD = Path(__file__).resolve().parents[2] / "build" / "forward"


def train(kind="unigram", **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SENTENCES, ALPHABET] * 20), model_writer=model, model_type=kind, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, **{"vocab_size": 200, **options})
    return model.getvalue()


def pieces_of(data):
    package = sentencepiece.SentencePieceProcessor(model_proto=data)
    return [package.id_to_piece(at) for at in range(package.get_piece_size())]


def directory(family, folder, **options):
    """Writes the tokenizer files of a family in the form that its own code reads, with options of SentencePiece's trainer. Returns the
    tokenizer."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": MODEL_TYPES.get(family, family)}))
    if family == "bart":
        from tokenizers import ByteLevelBPETokenizer
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(SENTENCES * 20, 400, min_frequency=2, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                    show_progress=False)
        trained.save_model(str(folder))
        return transformers.BartTokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))
    ours = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1) if family in ("t5", "pegasus") else {}
    data = train("bpe" if family in ("nllb", "seamless_m4t") else "unigram", **ours, **options)
    pieces = pieces_of(data)
    if family == "marian":
        (folder / "source.spm").write_bytes(data)
        (folder / "target.spm").write_bytes(data)
        tokens = dict.fromkeys(["</s>", "<unk>", *pieces, "<pad>"])
    elif family == "m2m_100":
        tokens = dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]])
    if family in ("marian", "m2m_100"):
        (folder / "vocab.json").write_text(json.dumps({one: at for at, one in enumerate(tokens)}))
    if family != "marian":
        name = "spiece.model" if family in ("t5", "pegasus") else "sentencepiece.bpe.model"
        (folder / name).write_bytes(data)
    return getattr(transformers, CLASSES[family] + "Tokenizer").from_pretrained(folder)


def saved(family, folder, change=lambda tokenizer: None, **settings):
    """Returns the directory that save_pretrained writes after a change, with these settings in its tokenizer_config.json."""
    tokenizer = directory(family, folder / "first")
    change(tokenizer)
    tokenizer.save_pretrained(folder / "saved")
    shutil.copy(folder / "first" / "config.json", folder / "saved")
    path = folder / "saved" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    return folder / "saved"


def converted(folder, out, rows=ROWS, **more):
    """Makes a model around the texts that the converter reads from the directory, with zeros for weights, and more keys of the config.
    Returns its notes."""
    hf = json.loads((folder / "config.json").read_text())
    model = Model()
    facts = tokenizer_files.read_texts(folder, hf, {"src": rows, "tgt": rows}, model)
    config = {"n_heads": 1, **facts}
    for key in ("src_start", "src_end", "languages", "src_language", "tgt_language"):
        config.pop(key, None)  # Other tests compare the tokens around a text.
    config.update(more)
    tensors = {"src_embedding.weight": np.zeros((rows, 2), np.float32), **model.tables,
               **{name: np.frombuffer(data, np.uint8) for name, data in model.texts.items()}}
    for stack, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "multihead_attn"])):
        for attention in attentions:
            tensors[f"{stack}.layers.0.{attention}.in_proj_weight"] = np.zeros((6, 2), np.float32)
        for name in ("linear1", "linear2"):
            tensors[f"{stack}.layers.0.{name}.weight"] = np.zeros((2, 2), np.float32)
    write_model(out, tensors, config)
    return model


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.program = compile_program(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.seed = SEED
        self.random = random.Random(self.seed)
        self.at = self.folder / f"{self.id().rsplit('.', 1)[-1]}"

    def decoded(self, out, rows):
        """Returns the text of each row of ids."""
        data = b"".join(struct.pack(f"<I{len(ids)}i", 4 * len(ids), *ids) for ids in rows)
        done = subprocess.run([self.program, out, "IDS"], input=data, stdout=subprocess.PIPE, check=True).stdout
        texts, at = [], 0
        for _ in rows:
            size, = struct.unpack_from("<I", done, at)
            texts.append(done[at + 4:at + 4 + size].decode())
            at += 4 + size
        return texts


class EachFamily(Case):
    """Makes one test of family(name) for each family, so each family has a result of its own."""

    def __init_subclass__(cls):
        for name in CLASSES:
            setattr(cls, f"test_{name}", functools.partialmethod(cls.family, name))


class CleanUp(EachFamily):
    """Compares clean_up_tokenization_spaces, true, false and missing, with AutoTokenizer."""
    PARTS = [" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're", " '", "' ", " ", "  ", " n", "t", "s", ".", "'", "re",
             " «", " »", " :", " ;", "eau", "été", "do", "Ça", "va", " the", " ship", " Bonjour", "n' t", " n ' t", " ' s"]

    def lines(self, n):
        r = self.random
        return [("".join(r.choices(self.PARTS, k=r.randint(1, 16))) if r.random() < 0.8 else r.choice(SENTENCES)).strip() for _ in range(n)]

    def family(self, family):
        for key in ({"clean_up_tokenization_spaces": True}, {"clean_up_tokenization_spaces": False}, {}):
            name = self.at / f"{family}-{len(key) and key['clean_up_tokenization_spaces']}"
            with self.subTest(family=family, **key, seed=self.seed):
                folder = saved(family, name, **key)
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                out = name / "model.safetensors"
                converted(folder, out)
                rows = tokenizer([line for line in self.lines(5000) if line], add_special_tokens=False).input_ids
                expected = [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows]
                got = self.decoded(out, rows)
                for ids, one, other in zip(rows, expected, got):
                    # Slow tokenizers strip the text before they clean it.
                    self.assertEqual(one.strip(), other.strip(), ids)


SPELLINGS = ["<tok>", "foo", "a", "ship", "<x>", "[Y]", "x_y", "été", "<tok><x>", "Bon", "::", "é", "oo", "_"]
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
SLOW = ("marian", "m2m_100")


class Added(EachFamily):
    """Tests tokens added with every combination of flags, in random texts."""
    PARTS = [" ", "  ", "\u3000", "\u00a0", "x", "foo", "Bonjour", " the", "ship", "lighthouse", ".", "'", "é", "e\u0301", "1", "½", "_", "-",
             "ＦＯＯ", "ｆｏｏ", "</s>", "<unk>", "<pad>", "<s>", "<mask>", "<extra_id_0>", "<extra_id_5>", "en_XX", "__en__", "<unk_7>", "ж"]

    def text(self, tokens):
        return "".join(self.random.choice(tokens if self.random.random() < 0.5 else self.PARTS) for _ in range(self.random.randint(1, 10)))

    def added(self, family, at):
        """Yields folders and four added tokens, each with flags of its own."""
        r = self.random
        combinations = list(range(32))
        for round_ in range(8):
            names = r.sample(SPELLINGS, 4)
            flags = {name: {flag: bool(bits >> k & 1) for k, flag in enumerate(FLAGS)}
                     for name, bits in zip(names, combinations[4 * round_:4 * round_ + 4])}
            if family in SLOW:  # The converter refuses the single_word rule of tokenizers in Python.
                for one in flags.values():
                    one["single_word"] = False
            if family == "seamless_m4t":  # The converter notes how tokens with such flags differ.
                for one in flags.values():
                    one["normalized"] &= not (one["lstrip"] or one["rstrip"])
            yield at / f"{family}-{round_}", [transformers.AddedToken(name, **one) for name, one in flags.items()]

    def family(self, family):
        print(f"{family}: seed {self.seed}", file=sys.stderr)
        for at, tokens in self.added(family, self.at):
            with self.subTest(family=family, tokens=tokens, seed=self.seed):
                folder = saved(family, at, lambda tokenizer: tokenizer.add_tokens(tokens))
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                converted(folder, at / "model.safetensors")
                names = [str(token) for token in tokens]
                lines = [line for line in (self.text(names) for _ in range(400)) if line.strip()]
                results, _ = run(self.program, at / "model.safetensors", lines)
                wrong = 0
                for line, (got, spans, text) in zip(lines, results):
                    expected = tokenizer(line, add_special_tokens=False).input_ids
                    wrong += got != expected
                    if got != expected and wrong < 4:
                        print(f"{line!r}\n  transformers {tokenizer.convert_ids_to_tokens(expected)}\n"
                              f"  here         {tokenizer.convert_ids_to_tokens(got)}", file=sys.stderr)
                    ends = [len(line[:k].encode()) for k in range(len(line) + 1)]
                    self.assertTrue(all(a in ends and b in ends and a <= b for a, b in spans), (line, spans))
                self.assertEqual(wrong, 0, f"{wrong} of {len(lines)}")

    def expansions(self):
        """Returns the characters that NFKC spells with several, and their spellings."""
        return {chr(c): unicodedata.normalize("NFKC", chr(c)) for c in range(0xA0, 0xFFFF)
                if not 0xD800 <= c < 0xE000 and len(unicodedata.normalize("NFKC", chr(c))) > 1}

    def test_inside_a_character(self):
        """A normalized token that begins or ends inside a character is not found, and the converter must name every such token."""
        for family in ("t5", "pegasus", "mbart50", "nllb"):
            names = ["foo", "ship", "x1", "2.", "жщ", "<tok>", "[Y]", "x_y", "ÿÿ", self.random.choice("bcdghkn") + "\u0416", "\u0416\u2044"]
            with self.subTest(family=family, names=names):
                folder = saved(family, self.at / family, lambda tokenizer: tokenizer.add_tokens(
                    [transformers.AddedToken(name, normalized=True) for name in names]))
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                notes = "\n".join(converted(folder, self.at / family / "model.safetensors").notes)
                noted = 0
                for name in names:
                    lines = ["the ship"]
                    for c, text in self.expansions().items():
                        for at in range(1, len(text)):
                            head, tail = text[:at], text[at:]
                            lines += [c + name[len(tail):]] * name.startswith(tail) + [name[:-len(head)] + c] * name.endswith(head)
                            lines += [c] * (tail.startswith(name) or head.endswith(name))
                    results, _ = run(self.program, self.at / family / "model.safetensors", lines)
                    expected = tokenizer(lines, add_special_tokens=False).input_ids
                    wrong = sum(got != ids for (got, _, _), ids in zip(results, expected))
                    self.assertEqual(wrong > 0, repr(name) in notes, (name, wrong, notes))
                    noted += wrong > 0
                self.assertTrue(1 < noted < len(names), notes)

    def test_space_inside(self):
        """A normalized token with a space must be refused where the family changes whitespace. Elsewhere it must be found as transformers
        finds it."""
        lines = ["a big lighthouse", "a big  lighthouse", "a big\u3000lighthouse", "a  big lighthouse  and", "big   lighthouse"]
        for family in CLASSES:
            for normalized in (True, False):
                with self.subTest(family=family, normalized=normalized):
                    at = self.at / f"{family}-{normalized}"
                    folder = saved(family, at, lambda tokenizer: tokenizer.add_tokens(
                        [transformers.AddedToken("big lighthouse", normalized=normalized)]))
                    if normalized and family in ("pegasus", "mbart", "mbart50", "nllb", "seamless_m4t"):
                        with self.assertRaisesRegex(ConvertError, "'big lighthouse'.*has a space.*Change its flags"):
                            converted(folder, at / "model.safetensors")
                        continue
                    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                    converted(folder, at / "model.safetensors")
                    got = [ids for ids, _, _ in run(self.program, at / "model.safetensors", lines)[0]]
                    self.assertEqual(got, tokenizer(lines, add_special_tokens=False).input_ids)


class Seamless(Case):
    """Compares texts and languages with SeamlessM4TTokenizer, which normalizes by rules of its own, before its files are saved and after."""
    PARTS = [" ", "  ", "\u3000", "\u00a0", "\t", "x", "foo", "Bonjour", " the", "ship", "lighthouse", ".", "'", "é", "e\u0301", "1", "½", "_", "-",
             "ＦＯＯ", "ｆｏｏ", "ж", "ﬁ", "…", "\u2003"]

    def test_random(self):
        first = self.at / "first"
        first.mkdir(parents=True)
        (first / "sentencepiece.bpe.model").write_bytes(train("bpe"))
        (first / "config.json").write_text(json.dumps({"model_type": "seamless_m4t"}))
        (first / "tokenizer_config.json").write_text(json.dumps({
            "tokenizer_class": "SeamlessM4TTokenizer", "src_lang": "eng", "tgt_lang": "fra", "keep_accents": None,
            "additional_special_tokens": ["__eng__", "__fra__", "__cmn_Hant__"]}))
        tokenizer = transformers.AutoTokenizer.from_pretrained(first)
        tokenizer.save_pretrained(self.at / "saved")
        shutil.copy(first / "config.json", self.at / "saved")
        lines = ["".join(self.random.choices(self.PARTS, k=self.random.randint(1, 12))) for _ in range(500)] + SENTENCES
        lines = [line for line in lines if line.strip()]
        expected = tokenizer(lines, add_special_tokens=False).input_ids
        for folder in (first, self.at / "saved"):
            converted(folder, folder / "model.safetensors")
            results, _ = run(self.program, folder / "model.safetensors", lines)
            for line, (got, _, _), wanted in zip(lines, results, expected):
                self.assertEqual(got, wanted, (line, self.seed))
            facts = tokenizer_files.read_texts(folder, {"model_type": "seamless_m4t"}, {"src": ROWS, "tgt": ROWS}, Model())
            self.assertEqual(facts["languages"], {code: tokenizer.convert_tokens_to_ids(f"__{code}__") for code in ("eng", "fra", "cmn_Hant")})
            self.assertEqual((facts["src_end"], facts["src_unk"], facts["tgt_language"]), (3, 1, "forced"))

    def test_spaces_that_a_token_does_not_take(self):
        """Several spaces are one piece before tokens that are normalized are looked for, so lstrip and rstrip do not take them."""
        folder = saved("seamless_m4t", self.at, lambda tokenizer: tokenizer.add_tokens(
            [transformers.AddedToken("<tok>", lstrip=True, normalized=True), transformers.AddedToken("<x>", lstrip=True, normalized=False)]))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        notes = converted(folder, self.at / "model.safetensors").notes
        self.assertEqual([note for note in notes if "lstrip" in note],
                         ["added tokens that are normalized, with lstrip or rstrip, '<tok>': all spaces beside them are left out. "
                          "transformers leaves out one space, and makes a piece of several"])
        lines = ["the <tok> ship", "the  <tok> ship", "the  <x> ship"]
        got = [ids for ids, _, _ in run(self.program, self.at / "model.safetensors", lines)[0]]
        expected = tokenizer(lines, add_special_tokens=False).input_ids
        self.assertEqual([a == b for a, b in zip(got, expected)], [True, False, True])


class Hearing(Case):
    """Compares decoded texts of Canary and Cohere, whose folders have a tokenizer.json of pieces with special tokens such as <|en|>."""
    TOKENS = ["<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|en|>", "<|de|>", "<|pnc|>", "<|noitn|>"]

    def test_random(self):
        from tokenizers import Tokenizer, decoders, pre_tokenizers
        for kind, other in (("bpe", "nllb"), ("unigram", "t5")):  # a model of pieces, which another family's files have
            for family in ("canary_decoder", "cohere_asr"):
                with self.subTest(kind=kind, family=family, seed=self.seed):
                    model = json.loads((saved(other, self.at / f"{family}-{other}") / "tokenizer.json").read_text())["model"]
                    own = Tokenizer.from_str(json.dumps({
                        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                        "decoder": None, "truncation": None, "padding": None, "model": model}))
                    own.pre_tokenizer, own.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
                    first = own.get_vocab_size()
                    own.add_special_tokens(["<|nospeech|>", "<|endoftext|>", *self.TOKENS])
                    folder = self.at / f"{family}-{kind}"
                    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=own, unk_token="<unk>", pad_token="<pad>",
                                                                     bos_token="<|startoftranscript|>", eos_token="<|endoftext|>")
                    tokenizer.save_pretrained(folder)
                    (folder / "config.json").write_text(json.dumps({"model_type": family}))
                    converted(folder, folder / "model.safetensors")
                    self.assertEqual(tokenizer.convert_tokens_to_ids(self.TOKENS), list(range(first + 2, first + 2 + len(self.TOKENS))))
                    rows = [[self.random.randrange(4, len(tokenizer)) for _ in range(self.random.randint(1, 20))] for _ in range(500)]
                    expected = [tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False) for ids in rows]
                    self.assertEqual(self.decoded(folder / "model.safetensors", rows), expected)


class ByT5(Case):
    """Compares ids and decoded texts of ByT5Tokenizer, which has no vocabulary: special tokens, extra ids and added tokens that its files
    list in each way, with random flags."""
    NAMES = ["<de>", "<sep>", "foo", "ab", "été", "<x>", "x_y", "::", "<extra_id_7>", "ж", "</", "bc"]
    PARTS = [" ", "  ", "\u3000", "x", "foo", "é", "e", "ab", "ж", "€", "</s>", "<", "\t", "a", "<unk>", "<extra_id_0>", "<extra_id_4>"]

    def token(self, name):
        return {"content": name, "single_word": False,
                **{flag: self.random.random() < 0.5 for flag in ("lstrip", "rstrip", "normalized", "special")}}

    def folder_of(self, number):
        r, folder = self.random, self.at / str(number)
        folder.mkdir(parents=True)
        chance = lambda part, value: value if r.random() < part else None  # noqa: E731
        settings = {"tokenizer_class": "ByT5Tokenizer", "extra_ids": chance(0.5, r.choice([0, 1, 5, 125])),
                    "mask_token": chance(0.4, r.choice(["<m>", {**self.token("<m>"), "__type": "AddedToken"}])), "bos_token": chance(0.3, "<b>"),
                    "eos_token": chance(0.2, {**self.token("</s>"), "__type": "AddedToken"}), "language_token": chance(0.2, "<lang>"),
                    "extra_special_tokens": chance(0.3, r.sample(["<sep>", "<x>", "<q>"], r.randint(0, 3)))}
        if number % 3 == 0:
            names = r.sample(self.NAMES, 4)
            settings["added_tokens_decoder"] = {str(at): self.token(name) for at, name in zip((390, 391, 392, 397), names)}
        (folder / "tokenizer_config.json").write_text(json.dumps({key: one for key, one in settings.items() if one is not None}))
        (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
        if number % 3 == 1:
            (folder / "added_tokens.json").write_text(json.dumps({"<de>": 259}))
        if number % 3 == 2:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            tokenizer.add_tokens([transformers.AddedToken(**self.token(name)) for name in r.sample(self.NAMES, 3)])
            tokenizer.save_pretrained(folder)
        return folder

    def test_random(self):
        found = 0
        for number in range(12):
            with self.subTest(number=number, seed=self.seed):
                folder, r = self.folder_of(number), self.random
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                converted(folder, folder / "model.safetensors")
                names = [name for name in tokenizer.added_tokens_encoder if "extra_id" not in name]
                lines = ["".join(r.choice(names if r.random() < 0.5 else self.PARTS) for _ in range(r.randint(1, 9))) for _ in range(60)]
                results, _ = run(self.program, folder / "model.safetensors", lines)
                expected = tokenizer(lines, add_special_tokens=False).input_ids
                for line, (ids, spans, _), wanted in zip(lines, results, expected):
                    self.assertEqual(ids, wanted, line)
                    ends = [len(line[:k].encode()) for k in range(len(line) + 1)]
                    self.assertTrue(all(a <= b <= ends[-1] for a, b in spans), (line, spans))
                    found += sum(one < 3 or one > 258 for one in ids)
                some = list(tokenizer.added_tokens_decoder)
                rows = [[r.choice([r.choice(some), r.randrange(3, 259), r.choice([3 + byte for byte in "é€жa".encode()])])
                         for _ in range(r.randint(1, 10))] for _ in range(80)]
                self.assertEqual(self.decoded(folder / "model.safetensors", rows),
                                 [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows])
        self.assertGreater(found, 1000)

    def test_renamed(self):
        """Compares every id and the token after a source where eos_token, pad_token or unk_token has another name than its id."""
        token = lambda name: {"content": name, "lstrip": False, "rstrip": False, "normalized": False, "special": True}  # noqa: E731
        decoders = [{}, {1: "</s>"}, {0: "<pad>", 1: "</s>", 2: "<unk>"}, {1: "</s>", 390: "<e>"}, {1: "<e>"}, {1: "<e>", 400: "</s>"},
                    {0: "<q>", 2: "<w>"}]
        outcomes = Counter()
        for number, (key, name, decoder) in enumerate((key, name, decoder) for key in ("eos_token", "pad_token", "unk_token")
                                                      for name in ("<e>", "</s>", "<pad>", None) for decoder in decoders):
            folder = self.at / str(number)
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps({"model_type": "t5", "eos_token_id": 1}))
            (folder / "tokenizer_config.json").write_text(json.dumps({
                "tokenizer_class": "ByT5Tokenizer", "extra_ids": 0, **({key: name} if name else {}),
                "added_tokens_decoder": {str(at): token(one) for at, one in decoder.items()}}))
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            hf = json.loads((folder / "config.json").read_text())
            with self.subTest(key=key, name=name, decoder=decoder):
                try:
                    facts = tokenizer_files.read_texts(folder, hf, {"src": ROWS, "tgt": ROWS}, Model())
                except ConvertError as error:
                    self.assertRegex(str(error), "it also has the id")
                    outcomes["refused"] += 1
                    continue
                added = tokenizer_files.Files(folder, hf).byt5_added()
                self.assertEqual({one["content"]: one["id"] for one in added}, tokenizer.added_tokens_encoder)
                self.assertEqual([facts["src_end"]], tokenizer("a").input_ids[1:])
                outcomes["equal"] += 1
        self.assertGreater(outcomes["equal"], 60, outcomes)

    def test_end_token(self):
        """A source that ends with </s> gets no second one, and one that is cut off ends with one."""
        folder = self.folder_of(1)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        end = tokenizer.eos_token_id
        converted(folder, folder / "model.safetensors", src_end=end)
        lines = ["a</s>", "</s>", "</s>a", "a</s></s>", "ab", "a</s> "]
        results, _ = run(self.program, folder / "model.safetensors", lines)
        self.assertEqual([ids for ids, _, _ in results], tokenizer(lines).input_ids)

    def test_refused(self):
        for at, name, reason in ((395, "é", "name of a byte"), (100, "foo", "id of a byte"), (395, "</s>", "also has the id 1"),
                                 (395, " a", "whitespace at its ends"), (384, "<de>", "<extra_id_124>' the id 384, which '<de>'")):
            with self.subTest(reason):
                folder = self.at / f"{at}{name.strip('</>')}"
                folder.mkdir(parents=True)
                (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
                (folder / "tokenizer_config.json").write_text(json.dumps({
                    "tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": {str(at): {"content": name}}}))
                with self.assertRaisesRegex(ConvertError, f"{reason}"):
                    converted(folder, folder / "model.safetensors")


GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}


class Decoded(Case):
    """Compares texts of random ids, with unknown and special ones, with decode(skip_special_tokens=True)."""

    def same(self, folder):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        notes = str(converted(folder, folder / "model.safetensors").notes)
        r, unk = self.random, tokenizer.unk_token_id
        rows = [[unk if r.random() < 0.3 else r.randrange(len(tokenizer)) for _ in range(r.randint(1, 8))] for _ in range(400)]
        for ids, text in zip(rows, self.decoded(folder / "model.safetensors", rows)):
            self.assertEqual(text.strip(), tokenizer.decode(ids, skip_special_tokens=True).strip(), tokenizer.convert_ids_to_tokens(ids))
        return notes

    def test_families(self):
        for family in CLASSES:
            folder = saved(family, self.at / family)
            with self.subTest(family=family, seed=self.seed):
                self.same(folder)
            if family != "nllb":  # transformers cannot open it
                with self.subTest(family=family, files="of the first form", seed=self.seed):
                    self.same(self.at / family / "first")
            if (folder / "tokenizer.json").exists():
                generic = saved(family, self.at / f"{family}-generic", **GENERIC)
                with self.subTest(family=family, seed=self.seed, **GENERIC):
                    if family == "seamless_m4t":  # only its own class is converted
                        with self.assertRaisesRegex(ConvertError, "'strip_left': False.*--set src_text=words"):
                            converted(generic, generic / "model.safetensors")
                    else:
                        self.same(generic)

    def test_target_vocabulary(self):
        for ids in ("same", "other"):
            with self.subTest(ids=ids, seed=self.seed):
                folder = self.at / ids
                directory("marian", folder)
                target = train("bpe")
                (folder / "target.spm").write_bytes(target)
                tokens = dict.fromkeys(["</s>", "<unk>", *pieces_of(target)])
                names = list(json.loads((folder / "vocab.json").read_text()))
                at = names.index("<pad>") + 4 * (ids == "other")
                tokens = [one for one in tokens if one != "<pad>"]
                tokens.insert(at, "<pad>")
                (folder / "target_vocab.json").write_text(json.dumps({one: at for at, one in enumerate(tokens)}))
                (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True, "tokenizer_class": "MarianTokenizer"}))
                if ids == "same":
                    self.same(folder)
                else:
                    self.assertIn("'<pad>': decoded texts are without them", "\n".join(converted(folder, folder / "model.safetensors").notes))


class Spaces(Case):
    """Compares what is done with whitespace and with the characters that normalizers change. tools/README.md says how U+2581 and U+0085
    differ."""
    PARTS = [" ", "  ", "\u3000", "\u00a0", "\t", "\u2028", "\u200d", "\u200c", "\x01", "\x0c", "the", "ship", "a", "Bonjour", ".", "é",
             "ﬁ", "½", "ж", "<tok>", "\ufeff"]

    def lines(self, n):
        r = self.random
        fixed = ["Bonjour !", " Bonjour", "\u3000Bonjour", "\u00a0Bonjour", "  a", "a  b", "a ", "a\u200db", "a\u200cb", "\x01 a", "<tok> a <tok>a"]
        return fixed + [line for line in ("".join(r.choice(self.PARTS) for _ in range(r.randint(1, 8))) for _ in range(n)) if line.strip()]

    def tokenizer_json(self, folder, normalizers, scheme, split, white_space=False, bpe=False):
        """Writes a folder whose tokenizer was trained by tokenizers. Returns its tokenizer."""
        from tokenizers import Tokenizer, decoders, models, normalizers as forms, pre_tokenizers, trainers
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        own = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True) if bpe else models.Unigram())
        own.normalizer = forms.Sequence(normalizers) if normalizers else None
        before = [pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)]
        own.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit()] * white_space + before)
        own.decoder = decoders.Metaspace(prepend_scheme="always")
        trainer = (trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False) if bpe else
                   trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False))
        own.train_from_iterator([*SENTENCES, ALPHABET, "▁ a  b"] * 20, trainer)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")
        tokenizer.add_tokens([transformers.AddedToken("<tok>", normalized=False)])
        folder.mkdir(parents=True)
        tokenizer.save_pretrained(folder)
        (folder / "config.json").write_text(json.dumps({"model_type": "bart"}))
        return tokenizer

    def same(self, folder, lines, rows=ROWS):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        converted(folder, folder / "model.safetensors", rows)
        results, _ = run(self.program, folder / "model.safetensors", lines)
        expected = tokenizer(lines, add_special_tokens=False).input_ids
        wrong = [(line, tokenizer.convert_ids_to_tokens(wanted), tokenizer.convert_ids_to_tokens(ids))
                 for line, (ids, _, _), wanted in zip(lines, results, expected) if ids != wanted]
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(lines)}")

    def test_metaspace(self):
        """A Metaspace puts no space before a text that begins with one."""
        from tokenizers import normalizers as n
        chains = [[], [n.NFKC()], [n.Nmt()], [n.Nmt(), n.NFKC()]]
        outcomes = Counter()
        for number, chain in enumerate(chains):
            for scheme in ("always", "first", "never"):
                split, bpe, white_space = self.random.random() < 0.7, self.random.random() < 0.1, False
                folder = self.at / f"{number}-{scheme}"
                with self.subTest(chain=[str(one) for one in chain], scheme=scheme, split=split, bpe=bpe, white_space=white_space, seed=self.seed):
                    self.tokenizer_json(folder, chain, scheme, split, white_space, bpe)
                    try:
                        self.same(folder, self.lines(150))
                        outcomes["equal"] += 1
                    except ConvertError as error:
                        outcomes[str(error)[-90:]] += 1
        self.assertGreater(outcomes["equal"], 6)

    def test_chains(self):
        """Compares random chains of normalizers before a Metaspace. tools/README.md says that joiners after a character that a rule replaces
        differ, and controls that a rule removes where a text begins."""
        from tokenizers import Regex, normalizers as n
        r, outcomes = self.random, Counter()
        squeeze, strip, newline = (lambda: n.Replace(Regex(" {2,}"), " ")), n.Strip, (lambda: n.Replace("\n", " "))
        rule = lambda name: lambda: n.Precompiled(charsmap.named(name))  # noqa: E731
        rules = [rule("nmt_nfkc"), rule("nfkc"), rule("nmt_nfkc_cf"), rule("nfkc_cf"), n.NFKC, n.Nmt]
        chains = [[rule("nmt_nfkc"), strip, squeeze], [rule("nfkc"), strip, squeeze]]  # one that is equal, one that is refused
        for _ in range(5):
            after = [one for one in (squeeze, strip, newline) if r.random() < 0.5]
            chains.append(r.sample(rules, r.choice([0, 1, 1, 1, 2])) + r.sample(after, len(after)))
        for number, made in enumerate(chains):
            chain = [one() for one in made]
            scheme, split, white_space = r.choice(["always", "first", "never"]), r.random() < 0.7, r.random() < 0.2
            bpe = r.random() < 0.2
            with self.subTest(chain=[str(one)[:40] for one in chain], scheme=scheme, split=split, bpe=bpe, white_space=white_space, seed=self.seed):
                self.tokenizer_json(self.at / str(number), chain, scheme, split, white_space, bpe)
                lines = [line for line in self.lines(150) if not {"\u200c", "\u200d"} & set(line) and not re.search(r"(^|<tok>)\s*\x01", line)]
                try:
                    self.same(self.at / str(number), lines)
                    outcomes["equal"] += 1
                except ConvertError as error:
                    self.assertRegex(str(error), "the normalizer|WhitespaceSplit before|BPE merges without")
                    outcomes["Strip" if "strips also whitespace" in str(error) else "refused"] += 1
        self.assertTrue(outcomes["equal"] and outcomes["Strip"], outcomes)

    def test_normalizers_of_each_character(self):
        """Compares NFKC, Nmt and their chains with tokenizers on every character."""
        from tokenizers import normalizers as n
        characters = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
        for chain in ([n.Nmt()], [n.NFKC()], [n.Nmt(), n.NFKC()], [n.NFKC(), n.Nmt()]):
            described = json.loads(json.dumps([json.loads(one.__getstate__()) for one in chain]))
            rules = charsmap.read(sentencepieces.read_normalizer({
                "normalizer": {"type": "Sequence", "normalizers": described}, "pre_tokenizer": {"type": "Metaspace"}}).charsmap)
            form = n.Sequence(chain)
            wrong = [c for c in characters if rules.get(c, c) != form.normalize_str(c)]
            self.assertEqual(wrong[:9], [], described)

    def test_rules_of_sentencepiece(self):
        """Compares folders whose SentencePiece model has each rule, with every whitespace."""
        white = [*charsmap.WHITE_SPACE.replace("\x85", ""), "\u200b", "\x1f", "\x7f"]
        for family in ("t5", "pegasus", "mbart", "mbart50", "nllb"):
            for rule in ("nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"):
                if family == "nllb" and "nmt" not in rule:
                    continue
                folder = self.at / f"{family}-{rule}"
                with self.subTest(family=family, rule=rule, seed=self.seed):
                    directory(family, folder, normalization_rule_name=rule)
                    if family == "nllb":
                        getattr(transformers, "NllbTokenizer").from_pretrained(folder).save_pretrained(folder)
                    lines = [f"{a}the{one}ship{b}" for one in white for a in ("", one) for b in ("", one, "\u0131")]
                    self.same(folder, lines + [line for line in self.lines(60) if not {"\u200c", "\u200d"} & set(line) and line.strip("\x01 ")])

    def test_types_of_pieces(self):
        """Compares folders with a .model alone that has pieces of the user and control pieces: most classes make added tokens of them."""
        for family in ("t5", "pegasus", "mbart", "mbart50"):
            with self.subTest(family=family, seed=self.seed):
                directory(family, self.at / family, user_defined_symbols=["<usr>", "foo"], control_symbols=["<ctl>"])
                lines = ["".join(self.random.choices(["<usr>", "<ctl>", "foo", " ", "  ", "the", " ship", "a"], k=6)) for _ in range(150)]
                self.same(self.at / family, ["a <usr> ship", "<usr>the ship", "seafoods foo", "the<ctl>ship <ctl> a"]
                          + [line for line in lines if line.strip()])

    def test_pieces_that_cross_spaces(self):
        for family in ("t5", "pegasus", "mbart50", "nllb"):
            with self.subTest(family=family, seed=self.seed):
                folder = self.at / family
                directory(family, folder, split_by_whitespace=False, vocab_size=600, max_sentencepiece_length=30)
                if family == "nllb":
                    getattr(transformers, "NllbTokenizer").from_pretrained(folder).save_pretrained(folder)
                lines = [" ".join(self.random.choices(" ".join(SENTENCES).split(), k=6)) for _ in range(200)] + SENTENCES
                self.same(folder, lines, 900)
                self.assertIn("pieces go on after a space", "\n".join(converted(folder, folder / "model.safetensors", 900).notes))
        folder = self.at / "suffix"
        directory("t5", folder, treat_whitespace_as_suffix=True)
        with self.assertRaisesRegex(ConvertError, "treat_whitespace_as_suffix"):
            converted(folder, folder / "model.safetensors")


UNIGRAM = {"t5": "spiece.model", "pegasus": "spiece.model", "mbart": "sentencepiece.bpe.model", "mbart50": "sentencepiece.bpe.model"}
SPECIAL = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)  # where T5 and PEGASUS have theirs


class Checks(Case):
    """Compares folders that were once converted to something else than AutoTokenizer makes of them, and the converter's own check."""

    def lines(self):
        words = " ".join(SENTENCES).split()
        return [" ".join(self.random.choices(words, k=self.random.randint(1, 9))) for _ in range(150)] + SENTENCES

    def bpe(self, family):
        """Writes a folder whose SentencePiece model is of BPE, although the family's class is of Unigram."""
        folder = self.at / family
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"model_type": MODEL_TYPES.get(family, family)}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": f"{CLASSES[family]}Tokenizer"}))
        (folder / UNIGRAM[family]).write_bytes(train("bpe", **(SPECIAL if family in ("t5", "pegasus") else {})))
        return folder

    def check(self, folder, out):
        """Returns what the converter's check says of a model file."""
        tensors, metadata = read_safetensors(out)
        model = Model(tensors={"src_embedding.weight": tensors["src_embedding.weight"]})
        return checking_texts.check(folder, json.loads(metadata["transformer.config"]), model, checking_texts.run_texts(FORWARD, lambda: out))

    def wrong(self, folder):
        """Returns how many lines have other ids than AutoTokenizer's."""
        tokenizer, lines = transformers.AutoTokenizer.from_pretrained(folder), self.lines()
        results, _ = run(self.program, folder / "model.safetensors", lines)
        expected = tokenizer(lines, add_special_tokens=False).input_ids
        return sum(ids != wanted for (ids, _, _), wanted in zip(results, expected))

    def test_bpe_under_a_class_of_unigram(self):
        for family in UNIGRAM:
            with self.subTest(family=family, seed=self.seed):
                folder = self.bpe(family)
                self.assertIn("cut by the sums of scores", str(converted(folder, folder / "model.safetensors").notes))
                self.assertEqual(self.wrong(folder), 0)
        folder = saved("nllb", self.at / "json", tokenizer_class="T5Tokenizer")
        with self.assertRaisesRegex(ConvertError, "neither|has a BPE model|fuse_unk"):
            shutil.copy(self.at / "t5" / "spiece.model", folder)
            converted(folder, folder / "model.safetensors")

    def test_two_spellings(self):
        """tokenizer.json counts, as in AutoTokenizer, where the SentencePiece model beside it says something else."""
        for family in (*UNIGRAM, "nllb", "seamless_m4t"):
            name = UNIGRAM.get(family, "sentencepiece.bpe.model")
            with self.subTest(family=family, seed=self.seed):
                folder = saved(family, self.at / family)
                shutil.copy(self.at / family / "first" / name, folder)
                self.assertNotIn("say other things", str(converted(folder, folder / "model.safetensors").notes))
                self.assertEqual(self.wrong(folder), 0)
                kind = "unigram" if family in UNIGRAM else "bpe"
                (folder / name).write_bytes(train(kind, **{**(SPECIAL if family in ("t5", "pegasus") else {}), "max_sentencepiece_length": 3}))
                self.assertIn("say other things", str(converted(folder, folder / "model.safetensors").notes))
                self.assertEqual(self.wrong(folder), 0)

    def test_the_check_of_texts(self):
        """The check passes for each family. It fails if a SentencePiece model of BPE is cut as one, and names a text and its ids."""
        for family in CLASSES:
            with self.subTest(family=family):
                folder = saved(family, self.at / f"{family}-right")
                converted(folder, folder / "model.safetensors")
                line, others, is_wrong = self.check(folder, folder / "model.safetensors")
                self.assertEqual((others, is_wrong), ("", False))
                self.assertIn("20 texts", line)
        folder = self.bpe("t5")
        with unittest.mock.patch.object(tokenizer_files, "OF_UNIGRAM", ()):
            converted(folder, folder / "model.safetensors")
        line, others, is_wrong = self.check(folder, folder / "model.safetensors")
        self.assertTrue(is_wrong, line)
        self.assertRegex(others, "ids of the text '.*': .* in transformers, .* here")
        other = saved("t5", self.at / "other")
        name = other / "tokenizer.json"
        described = json.loads(name.read_text())
        described["model"]["vocab"][5:-1] = described["model"]["vocab"][-2:4:-1]  # other pieces for the same ids
        name.write_text(json.dumps(described))
        self.assertIn("rows of ids have another text", self.check(other, folder / "model.safetensors")[0])
        self.assertTrue(self.check(other, folder / "model.safetensors")[2])

    def test_words_are_refused(self):
        """What is no SentencePiece, byte-level BPE or words between spaces is refused; an option takes it."""
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
        vocab = {one: at for at, one in enumerate(["<unk>", "</s>", "<pad>", "the", "ship", "s", "##hip", "a"])}
        merges = dict(vocab={**vocab, "▁": 8, "▁a": 9}, merges=[("▁", "a")], unk_token="<unk>", fuse_unk=True)
        cases = {"WordPiece": (models.WordPiece(vocab, unk_token="<unk>"), pre_tokenizers.WhitespaceSplit(), None),
                 "WordLevel": (models.WordLevel(vocab, unk_token="<unk>"), pre_tokenizers.Whitespace(), None),
                 "WordLevel, lower": (models.WordLevel(vocab, unk_token="<unk>"), pre_tokenizers.WhitespaceSplit(), normalizers.Lowercase()),
                 "StripAccents": (models.BPE(**merges), pre_tokenizers.Metaspace(), normalizers.StripAccents()),
                 "words": (models.WordLevel(vocab, unk_token="<unk>"), pre_tokenizers.WhitespaceSplit(), None)}
        for name, (model, before, normalizer) in cases.items():
            with self.subTest(name=name):
                own = Tokenizer(model)
                own.pre_tokenizer = before
                if normalizer:
                    own.normalizer = normalizer
                if name == "StripAccents":
                    own.decoder = decoders.Metaspace()
                folder = self.at / name
                folder.mkdir(parents=True)
                transformers.PreTrainedTokenizerFast(tokenizer_object=own, unk_token="<unk>", eos_token="</s>",
                                                     pad_token="<pad>").save_pretrained(folder)
                (folder / "config.json").write_text(json.dumps({"model_type": "bart"}))
                if name == "words":
                    converted(folder, folder / "model.safetensors", 8)
                    lines = ["the ship", "a  the ships"]
                    got, _ = checking_texts.run_texts(FORWARD, lambda: folder / "model.safetensors")(lines, [[1]])
                    expected = transformers.AutoTokenizer.from_pretrained(folder)(lines, add_special_tokens=False).input_ids
                    self.assertEqual(got, expected)
                    continue
                with self.assertRaisesRegex(ConvertError, "does not cut texts so. --set src_text=words"):
                    converted(folder, folder / "model.safetensors", 10)
                model = Model(has_own_words=True)
                facts = tokenizer_files.read_texts(folder, {"model_type": "bart"}, {"src": 10, "tgt": 10}, model)
                self.assertEqual(facts["src_text"], "words")


class Keys(Case):
    """Every key of the tokenizer's files is used, or has only the values with which transformer.h gives the same tokens, or is known not to
    matter."""

    def test_parameters_of_the_installed_classes(self):
        new = {}
        for name in (*CLASSES.values(), "Roberta", "Blenderbot", "BlenderbotSmall", "FSMT", "PLBart", "ByT5"):
            names = inspect.signature(getattr(transformers, f"{name}Tokenizer").__init__).parameters
            more = set(names) - tokenizer_fields.SETTINGS.rows() - {"self", "args", "kwargs"}
            if more:
                new[name] = sorted(more)
        self.assertEqual(new, {}, "parameters without a row in tools/convert/tokenizer_fields.py")

    def test_prefix_space(self):
        """tokenizer_config.json decides; where it has no such key the class decides; tokenizer.json does not."""
        for said in ({"add_prefix_space": True}, {"add_prefix_space": False}, {}):
            for file in (True, False):
                with self.subTest(**said, file=file):
                    at = self.at / f"{len(said) and said['add_prefix_space']}-{file}"
                    folder = saved("bart", at)
                    path = folder / "tokenizer.json"
                    described = json.loads(path.read_text())
                    described["pre_tokenizer"]["add_prefix_space"] = file
                    path.write_text(json.dumps(described))
                    path = folder / "tokenizer_config.json"
                    settings = json.loads(path.read_text())
                    settings.pop("add_prefix_space", None)
                    path.write_text(json.dumps({**settings, **said}))
                    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                    converted(folder, at / "model.safetensors")
                    lines = ["the big lighthouse", " the", "a<mask> the ship"]
                    got = [ids for ids, _, _ in run(self.program, at / "model.safetensors", lines)[0]]
                    self.assertEqual(got, tokenizer(lines, add_special_tokens=False).input_ids)

    def test_trailing_space(self):
        for family in CLASSES:
            with self.subTest(family=family):
                folder = saved(family, self.at / family)
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                converted(folder, self.at / family / "model.safetensors")
                lines = ["the ship ", "the ship  ", " the  ship", "the ship\u3000", "a "]
                got = [ids for ids, _, _ in run(self.program, self.at / family / "model.safetensors", lines)[0]]
                self.assertEqual(got, tokenizer(lines, add_special_tokens=False).input_ids)

    def test_mbart_is_not_normalized(self):
        """MBartTokenizer of transformers 5 leaves normalizers out: of the .model, of tokenizer.json, and of both."""
        lines = ["½ ship", "ﬁ  the", "ＦＯＯ the\u3000ship ", "the ship"]
        for files in ("model", "json", "both"):
            with self.subTest(files=files):
                folder = saved("mbart", self.at / files)
                if files == "model":
                    folder = self.at / files / "first"
                else:
                    path = folder / "tokenizer.json"
                    described = json.loads(path.read_text())
                    described["normalizer"] = json.loads((saved("t5", self.at / f"{files}-t5") / "tokenizer.json").read_text())["normalizer"]
                    self.assertEqual(described["normalizer"]["type"], "Precompiled")
                    path.write_text(json.dumps(described))
                if files == "both":
                    shutil.copy(self.at / files / "first" / "sentencepiece.bpe.model", folder)
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                self.assertIn("texts are not normalized", str(converted(folder, folder / "model.safetensors").notes))
                got = [ids for ids, _, _ in run(self.program, folder / "model.safetensors", lines)[0]]
                self.assertEqual(got, tokenizer(lines, add_special_tokens=False).input_ids)

    def test_unknown_characters_and_decoders(self):
        """model.fuse_unk and decoder of tokenizer.json must give the same as transformers, or be refused and named."""
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        llama = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                 {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
        cases = [("decoder", one) for one in (
            None, metaspace, {**metaspace, "prepend_scheme": "never"}, {**metaspace, "prepend_scheme": "first"}, {"type": "Fuse"},
            {**metaspace, "replacement": "_"}, {"type": "WordPiece", "prefix": "##", "cleanup": True},
            {"type": "Sequence", "decoders": llama}, {"type": "Sequence", "decoders": llama[:3]},
            {"type": "Sequence", "decoders": [metaspace]})] + [("fuse_unk", True), ("fuse_unk", False)]
        outcomes = Counter()
        for family in ("t5", "pegasus", "mbart50", "nllb"):
            for said in ({}, GENERIC):
                folder = saved(family, self.at / f"{family}-{len(said)}", **said)
                path = folder / "tokenizer.json"
                before = path.read_text()
                for key, value in cases:
                    if key == "fuse_unk" and family != "nllb":
                        continue  # Unigram has no such key.
                    described = json.loads(before)
                    (described if key == "decoder" else described["model"])[key] = value
                    path.write_text(json.dumps(described))
                    with self.subTest(family=family, key=key, value=value, seed=self.seed, **said):
                        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                        try:
                            converted(folder, folder / "model.safetensors")
                        except ConvertError as error:
                            self.assertRegex(str(error), f"{key} is .*--ignore-key {key}")
                            self.assertTrue(said, "its class does not read that")
                            outcomes["refused"] += 1
                            hf = {**json.loads((folder / "config.json").read_text()), "ignored": {key}}
                            tokenizer_files.read_texts(folder, hf, {"src": ROWS, "tgt": ROWS}, Model())
                            continue
                        outcomes["equal"] += 1
                        results, _ = run(self.program, folder / "model.safetensors", ["the жщ ship", "жщжж"])
                        expected = tokenizer(["the жщ ship", "жщжж"], add_special_tokens=False).input_ids
                        self.assertEqual([ids for ids, _, _ in results], expected)
                        rows = tokenizer(SENTENCES, add_special_tokens=False).input_ids
                        self.assertEqual(self.decoded(folder / "model.safetensors", rows),
                                         [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows])
        self.assertTrue(outcomes["refused"] > 16 and outcomes["equal"] > 50, outcomes)

    def test_bytes_are_noted(self):
        """T5Tokenizer of transformers has no bytes for unknown characters; SentencePiece has them."""
        for spelled in (True, False):
            folder = self.at / str(spelled)
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
            options = dict(byte_fallback=True, vocab_size=450) if spelled else {}
            (folder / "spiece.model").write_bytes(train(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **options))
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            notes = str(converted(folder, folder / "model.safetensors", 600).notes)
            got = [ids for ids, _, _ in run(self.program, folder / "model.safetensors", ["жщ"])[0]]
            self.assertEqual(got != tokenizer(["жщ"], add_special_tokens=False).input_ids, spelled)
            self.assertEqual("T5Tokenizer of transformers makes <unk> of them" in notes, spelled)

    def test_refused_and_ignored(self):
        folder = saved("t5", self.at)
        hf = json.loads((folder / "config.json").read_text())
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        described = json.loads((folder / "tokenizer.json").read_text())
        cases = [("tokenizer_config.json", {**settings, "split_special_tokens": True}, "split_special_tokens"),
                 ("tokenizer_config.json", {**settings, "sp_model_kwargs": {"enable_sampling": True}}, "sp_model_kwargs"),
                 ("tokenizer_config.json", {**settings, "do_lower_case": True}, "do_lower_case"),
                 ("tokenizer.json", {**described, "augmenter": 1}, "augmenter"),
                 ("tokenizer.json", {**described, "model": {**described["model"], "dropout": 0.1}}, "dropout")]
        for name, content, key in cases:
            with self.subTest(key=key):
                before = (folder / name).read_text()
                (folder / name).write_text(json.dumps(content))
                with self.assertRaisesRegex(ConvertError, f"{key} is .*--ignore-key {key}"):
                    tokenizer_files.read_texts(folder, hf, {"src": ROWS, "tgt": ROWS}, Model())
                model = Model()
                tokenizer_files.read_texts(folder, {**hf, "ignored": {key}}, {"src": ROWS, "tgt": ROWS}, model)
                self.assertIn(f"{key} is left out", str(model.notes))
                (folder / name).write_text(before)
        (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "no_such_key": 1}))
        model = Model()
        tokenizer_files.read_texts(folder, hf, {"src": ROWS, "tgt": ROWS}, model)
        self.assertIn("no_such_key", str(model.notes))
        with self.assertRaisesRegex(ConvertError, "no_such_key"):  # a newer transformers may have this key
            tokenizer_files.read_texts(folder, {**hf, "newest": (99, 0)}, {"src": ROWS, "tgt": ROWS}, Model())


if __name__ == "__main__":
    unittest.main()
