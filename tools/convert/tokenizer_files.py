"""tokenizer_files.py: the tokenizer files of a Hugging Face directory as texts of a model file.
tokenizer_fields.py has a row for each of their keys.

A SentencePiece model (source.spm and target.spm, sentencepiece.bpe.model, spiece.model ...) is
taken as it is; a tokenizer.json with a Unigram or BPE model and a Metaspace is written as one; one
with GPT-2's byte-level BPE, or vocab.json and merges.txt, becomes vocabulary, merges and added
tokens. Where ids are not the model's own, a vocabulary beside it has the spelling of every id. The ids come from,
in this order: tokenizer.json; vocab.json; the family's rule (fairseq's ids are one more than
SentencePiece's from the fourth on, PEGASUS's 103 more), with added_tokens_decoder and
additional_special_tokens of the settings.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import charsmap as maps
from . import tokenizer_fields
from .config_fields import NEWEST
from .modelfile import Config, ConvertError, Model, SEAMLESS, vocabulary_text
from .sentencepieces import (CONTROL, LONGEST_EXPANSION, NORMAL, NotPieces, Rules, SPACE, UNIGRAM, UNUSED,
                            USER_DEFINED, added_tokens, class_steps, crosses, expansions, hidden, joins_pieces,
                            parse_model, parts, pieces_of_tokenizer, read_normalizer,
                            read_pieces, template)
from .tokenizer_fields import FORCED_CLEAN_UP
from .untrusted import (brief, check_kinds, check_utf8, has_file, is_code, read_bytes,
                       read_object, token_ids)

PIECE_FILES = ("sentencepiece.bpe.model", "spiece.model", "sentencepiece.model", "tokenizer.model")
# What Python raises where a value of JSON is of another kind than it is used as.
FORM_ERRORS = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


# ---------------------------------------------------------------------------------- byte-level BPE
# Flags of added tokens, as the header has them.
ADDED = {"lstrip": 1, "rstrip": 2, "special": 4, "single_word": 8, "normalized": 16}
PLAIN_BYTES = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
OTHER_BYTES = [byte for byte in range(256) if byte not in PLAIN_BYTES]
# Of the bytes that UTF-8 has, the characters that stand for them.
BYTE_LETTERS = {byte: chr(byte if byte in PLAIN_BYTES else 256 + OTHER_BYTES.index(byte))
                for byte in range(256) if byte not in (0xC0, 0xC1) and byte < 0xF5}


def has_byte_level(tokenizer: dict[str, Any]) -> bool:
    return any(step.get("type") == "ByteLevel"
               for step in parts(tokenizer.get("pre_tokenizer"), "pretokenizers"))


def check_byte_level(tokenizer: dict[str, Any]) -> bool:
    """Refuses what is not GPT-2's; returns whether a space goes before a text."""
    model, steps = tokenizer["model"], parts(tokenizer["pre_tokenizer"], "pretokenizers")
    reasons = [f"the normalizer {brief(one)}" for one in parts(tokenizer.get("normalizer"),
                                                               "normalizers")]
    reasons += [f"the pre-tokenizer {brief(one)}" for one in steps
                if one.get("type") != "ByteLevel" or not one.get("use_regex", True)]
    reasons += ["two pre-tokenizers"] * (len(steps) > 1)
    if model.get("type", "BPE") != "BPE" or "merges" not in model:
        reasons.append(f"a model {brief(model.get('type'))}")
    reasons += [f"{key} {brief(model[key])} of its model"
                for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix",
                            "byte_fallback", "ignore_merges") if model.get(key)]
    if [one.get("type") for one in parts(tokenizer.get("decoder"), "decoders")] != ["ByteLevel"]:
        reasons.append(f"the decoder {brief(tokenizer.get('decoder'))}")
    missing = [byte for byte, letter in BYTE_LETTERS.items() if letter not in model["vocab"]]
    if missing:
        reasons.append(f"a vocabulary without the byte {missing[0]:#x}, which it leaves out")
    if reasons:
        raise ConvertError(f"tokenizer.json has ByteLevel with {' and '.join(reasons)}; "
                           f"transformer.h has GPT-2's byte-level BPE alone. In a directory "
                           f"without tokenizer files the model is converted to take ids")
    return bool(steps[0].get("add_prefix_space", True))


def added_table(added: list[dict[str, Any]], rows: int, is_slow: bool = False,
                normalize: Callable[[str], str] = str, spaces: bool = False) -> np.ndarray:
    """The added tokens that have a row, and their flags. normalize: what the tokenizer makes of a
    text before it looks for tokens that are normalized. spaces: whether it treats whitespace
    otherwise than as these tokens have it."""
    table = []
    for one in sorted(added, key=lambda one: one["id"]):
        token, is_special = one["content"], bool(one.get("special"))
        flags = {name for name in ADDED if one.get(name, name == "normalized" and not is_special)}
        if one["id"] >= rows:
            continue
        if is_slow:  # tokenizers in Python look for all tokens in the text as it is
            flags.discard("normalized")
        wrong = ("it is single_word, and tokenizers of transformers in Python have another rule for "
                 "that" if is_slow and "single_word" in flags else
                 "it has whitespace at its ends, or a tab, newline or NUL"
                 if not token or token != token.strip() or re.search(r"[\t\n\0]", token) else
                 "it is normalized, and its normal form is another text"
                 if "normalized" in flags and normalize(token) != token else
                 "it is normalized and has a space, and a text may have other whitespace there"
                 if "normalized" in flags and spaces and " " in token else "")
        if wrong:
            raise ConvertError(f"the added token {brief(token)} of id {one['id']}: {wrong}, so "
                               f"transformer.h would not find it as transformers does. Change its "
                               f"flags in tokenizer_config.json and tokenizer.json, or take the "
                               f"token out of both if no text has it")
        table.append((one["id"], sum(ADDED[name] for name in flags)))
    return np.array(table, np.uint32).reshape(-1, 2)


def byte_level(tokenizer: dict[str, Any], rows: int) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether a space goes first; ids of merges, left, right and merged; added tokens and flags."""
    prefix = check_byte_level(tokenizer)
    vocab: dict[str, int] = tokenizer["model"]["vocab"]
    merges: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(tokenizer["model"]["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merges[left, right] = rank  # of the same twice the last one counts
    table = np.zeros((len(merges), 3), np.uint32)
    for at, pair in enumerate(sorted(merges, key=merges.__getitem__)):
        ids = [vocab.get(token, -1) for token in (*pair, "".join(pair))]
        if not all(0 <= one < rows for one in ids):
            raise ConvertError(f"merge {merges[pair]}, {brief(' '.join(pair))}: ids {ids} in a "
                               f"vocabulary of {rows}")
        table[at] = ids
    return prefix, table, added_table(list(added_tokens(tokenizer).values()), rows)


# ------------------------------------------------------------------------------------ the spellings
def piece_files(folder: Path) -> tuple[bytes, bytes]:
    """The SentencePiece models of source and target in the directory; empty where there is none,
    or where the target has none of its own."""
    found: list[bytes] = []
    for names in (("source.spm", *PIECE_FILES), ("target.spm",)):
        path = next((folder / name for name in names if has_file(folder, name)), None)
        found.append(read_bytes(path) if path else b"")
        if path:
            read_pieces(found[-1], str(path))
    return found[0], found[1]


@dataclass(frozen=True)
class Spelling:
    """How a family spells the token of a language; the group of the pattern is the code."""
    pattern: str
    names_target: bool  # the token before a source names the target's language, and targets have none
    families: tuple[str, ...]  # model_type, or the engine of the directory
    says: str  # where the spelling comes from


# Every spelling. A vocabulary is looked through for its own family's alone: other vocabularies have tokens
# that look so and are something else, such as ##DE of WordPiece. __end__ and __sep__ are symbols of Mozilla's
# vocabularies, which a directory of CTranslate2 may have as well.
# --set languages=CODE:TOKEN,... states what no row has.
LANGUAGES = {
    "label": Spelling(r">>([^<>]+)<<", True, ("marian", "student", "ctranslate2"),
                      "MarianTokenizer (language_code_re), OPUS-MT's model cards"),
    "tag": Spelling(r"\u2581?##([A-Z]{2,3}(?:[-_][A-Z]{2,4})?)", True, ("student",),
                    "multilingual students of Bergamot's kind, such as EuroNano, whose sources begin with ##DE"),
    "m2m_100": Spelling(r"__(?!end_|sep_)([a-z]{2,3})__", False, ("m2m_100", "ctranslate2"),
                        "M2M100Tokenizer (get_lang_token)"),
    "seamless": Spelling(r"__([a-z]{3}(?:_[A-Z][a-z]{3})?)__", False, SEAMLESS,
                         "SeamlessM4TTokenizer (additional_special_tokens)"),
    "nllb": Spelling(r"([a-z]{3}_[A-Z][a-z]{3})", False, ("m2m_100", "ctranslate2"),
                     "NllbTokenizer (FAIRSEQ_LANGUAGE_CODES)"),
    "mbart": Spelling(r"([a-z]{2}_[A-Z]{2})", False, ("mbart", "ctranslate2"),
                      "MBartTokenizer, MBart50Tokenizer (FAIRSEQ_LANGUAGE_CODES)"),
    "madlad": Spelling(r"<2([\w-]+)>", True, ("t5", "mt5", "umt5", "ctranslate2"), "MADLAD-400's vocabulary"),
}
LANGUAGE = re.compile("|".join(one.pattern for one in LANGUAGES.values()))


def find_languages(ids: dict[int, str], family: str, model: Model) -> Config:
    """The languages that a vocabulary of this family has tokens for, and where they stand: before a source, and of
    most families before its target, each its own. The spelling with the most tokens counts, and one alone is none."""
    found: dict[str, dict[str, int]] = {}
    for kind, spelling in LANGUAGES.items():
        if family in spelling.families:
            matches = [(re.fullmatch(spelling.pattern, token), at) for at, token in sorted(ids.items())]
            found[kind] = {match[1].lower() if kind == "tag" else match[1]: at for match, at in matches if match}
    kind = max(found, key=lambda one: len(found[one]), default="")
    if not kind or len(found[kind]) < 2:
        return {}
    codes, names_target = found[kind], LANGUAGES[kind].names_target
    model.notes.append(f"{len(codes)} languages ({', '.join(list(codes)[:4])} ...), to be chosen "
                       f"where texts are translated; one for good: --set "
                       + ("src_start=TOKEN" if names_target else
                          "src_start=TOKEN --set forced=TOKEN") + "; --set languages=none if they are none")
    if kind == "label" and family != "student":
        model.notes.append("a source that begins with the token of another language, such as >>xxx<<, "
                           "is translated with these characters as text. MarianTokenizer makes <unk> "
                           "of the token")
    config: Config = {"languages": {code: at for code, at in codes.items()
                                    if 0 < len(code.encode()) < 32}}
    config["src_language"] = "target" if names_target else "source"
    if not names_target and "forced" not in model.facts:
        config["tgt_language"] = "forced"
    return config


# What the keys of tokenizer_config.json, special_tokens_map.json and tokenizer.json hold.
TOKENS = ("unk_token", "bos_token", "eos_token", "mask_token", "mask_token_sent", "src_lang")
KINDS = {**dict.fromkeys(TOKENS, "text|object"), "tokenizer_class": "text", "offset": "integer",
         "language_codes": "text",
         "added_tokens_decoder": "object", "model": "object", "added_tokens": "list"}


# T5's, whose ids are the pieces' own; behind them stand the extra ids.
LIKE_T5 = ("t5", "mt5", "umt5")
EXTRA_ID = r"<extra_id_\d{1,4}>"
# Families whose tokenizer is in Python in transformers 5; M2M100's, where it has a vocab.json.
SLOW = ("marian", "fsmt", "blenderbot-small", "plbart", "speech_to_text")
# Families whose sources begin with a token.
LIKE_ROBERTA = ("bart", "mvp", "led")
# Families whose vocab.json and merges.txt are byte-level BPE; T5's, where the tokenizer is RoBERTa's.
BYTE_LEVEL = (*LIKE_ROBERTA, "blenderbot")
# Their special tokens, where the files do not say others.
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>",
           "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
# The order in which transformers adds them.
SPECIAL_ORDER = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token",
                 "mask_token")
# PLBart's, by language_codes of its settings.
PLBART_LANGUAGES = {"base": ["__java__", "__python__", "__en_XX__"],
                    "multi": ["__java__", "__python__", "__en_XX__", "__javascript__", "__php__",
                              "__ruby__", "__go__"]}


# The class of a family's tokenizer where no file names it, the special tokens that a class has by
# itself, and classes that keep whitespace at the end of a text (transformers 5.24).
CLASSES = {"marian": "Marian", "m2m_100": "M2M100", "mbart": "MBart", "pegasus": "Pegasus",
           "t5": "T5", "mt5": "T5", "umt5": "T5", "plbart": "PLBart",
           **dict.fromkeys(SEAMLESS, "SeamlessM4T")}
OWN_SPECIAL = {"Marian": ("eos_token", "unk_token", "pad_token"),
               "T5": ("eos_token", "unk_token", "pad_token"),
               "Pegasus": ("eos_token", "unk_token", "pad_token", "mask_token"),
               "M2M100": ("bos_token", "eos_token", "sep_token", "unk_token", "pad_token"),
               "MBart50": ("eos_token", "sep_token", "cls_token", "unk_token", "pad_token",
                           "mask_token")}
# What add_prefix_space is in classes with byte-level BPE where tokenizer_config.json has none.
PREFIX_SPACE = {"Bart": False, "Roberta": False, "LED": False, "Mvp": False, "Blenderbot": True}
# Classes that take from tokenizer.json only the pieces, the added tokens and a Precompiled normalizer:
# how pieces are joined, unknown characters, and that no bytes are spelled, they set themselves.
OWN_BACKEND = ("T5", "Pegasus", "MBart", "MBart50", "Nllb", "SeamlessM4T")
OF_UNIGRAM = ("T5", "Pegasus", "MBart", "MBart50")
# Families whose source begins with the token of its language, and whose target with that of its own.
LANGUAGE_FIRST = ("mbart", "m2m_100", *SEAMLESS)
# The languages that MBart has by itself, behind the pieces.
MBART_LANGUAGES = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ
    ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN""".split()


class Files:
    """What the directory has of a tokenizer."""

    def __init__(self, folder: Path, hf: dict[str, Any]) -> None:
        self.folder, self.hf = folder, hf
        self.family: str = hf["model_type"]
        self.settings = self.object("tokenizer_config.json")
        self.special_map = self.object("special_tokens_map.json")
        self.tokenizer = self.object("tokenizer.json")
        self.notes: list[str] = []
        self.kind = self.settings.get("tokenizer_class") or hf.get("tokenizer_class") or ""
        self.short_kind = re.sub(r"Tokenizer(Fast)?$", "", self.kind) or CLASSES.get(
            self.family, "")
        self.check_keys()
        fsmt = self.family == "fsmt"
        self.vocab = self.ids("vocab-src.json" if fsmt else "vocab.json")
        self.target_vocab = self.ids("vocab-tgt.json" if fsmt else "target_vocab.json")
        self.source, self.target = piece_files(folder)
        self.rules: Rules | None = None  # None: SentencePiece's own, or no pieces
        self.own_added: list[dict[str, Any]] = []  # pieces that the class makes added tokens
        self.settle_spellings()
        if self.short_kind in OWN_BACKEND and not self.is_slow():
            self.cut_as_class()
        elif self.tokenizer and not self.is_slow() and not has_byte_level(self.tokenizer):
            try:
                self.rules = read_normalizer(self.tokenizer)
            except NotPieces:
                pass  # the SentencePiece model beside it counts; without one this is said
            except FORM_ERRORS as error:
                raise ConvertError(f"{folder / 'tokenizer.json'}: not what tokenizers writes: "
                                   f"{brief(error)}") from None
        self.like_roberta = self.family in LIKE_ROBERTA or "Roberta" in self.kind
        if (not self.tokenizer and not self.source and self.vocab
                and has_file(folder, "merges.txt")
                and (self.family in BYTE_LEVEL or "Roberta" in self.kind)):
            self.tokenizer = self.read_byte_level()

    def check_keys(self) -> None:
        """Leaves out the keys that are to be ignored, and refuses what is not computed."""
        ignored = self.hf.get("ignored", set())
        kind = f"{self.short_kind}Tokenizer"
        is_newer = self.hf.get("newest", NEWEST) > NEWEST
        self.settings = tokenizer_fields.check(
            tokenizer_fields.SETTINGS, self.settings, str(self.folder / "tokenizer_config.json"),
            ignored, self.notes,
            lambda key: is_newer or tokenizer_fields.is_installed_parameter(kind, key))
        self.special_map = tokenizer_fields.check(
            tokenizer_fields.SPECIAL_MAP, self.special_map,
            str(self.folder / "special_tokens_map.json"), ignored, self.notes, lambda key: False)
        path = str(self.folder / "tokenizer.json")
        self.tokenizer = tokenizer_fields.check(tokenizer_fields.TOKENIZER, self.tokenizer, path,
                                                ignored, self.notes, lambda key: True)
        model = self.tokenizer.get("model")
        if model and model.get("type", "BPE" if "merges" in model else "Unigram") in (
                "BPE", "Unigram") and not has_byte_level(self.tokenizer):
            self.tokenizer["model"] = tokenizer_fields.check(
                tokenizer_fields.MODEL, model, f"{path}, model", ignored, self.notes,
                lambda key: True)

    def settle_spellings(self) -> None:
        """Of a tokenizer.json and a SentencePiece model beside it that say other things, the first counts, as in
        AutoTokenizer. Tokenizers in Python read the second alone."""
        said = self.tokenizer.get("model")
        if not (said and self.source) or self.is_slow() or has_byte_level(self.tokenizer):
            return
        model = parse_model(self.source, str(self.folder))
        bpe = said.get("type", "BPE" if "merges" in said else "Unigram") == "BPE"
        if not bpe and said.get("type", "Unigram") != "Unigram":
            return
        if self.short_kind in OF_UNIGRAM and bpe:
            raise ConvertError(f"{self.folder / 'tokenizer.json'} has a BPE model, and {self.short_kind}Tokenizer of transformers 5 "
                               f"has Unigram alone, so AutoTokenizer does not open the folder; without tokenizer.json the "
                               f"SentencePiece model beside it is read")
        normal = {one.piece: np.float32(one.score) for one in model.pieces if one.type in (NORMAL, USER_DEFINED)}
        steps = parts(self.tokenizer.get("normalizer"), "normalizers")
        charsmap = b"".join(base64.b64decode(one["precompiled_charsmap"] or "") for one in steps if one.get("type") == "Precompiled")
        reads_charsmap = self.short_kind in OWN_BACKEND and self.short_kind not in ("MBart", "SeamlessM4T")
        if bpe:
            pairs = [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in said["merges"]]
            made = list(dict.fromkeys("".join(pair) for pair in pairs))
            order = sorted((one for one in made if one in normal), key=lambda one: -normal[one])
            same = set(made) <= set(normal) and made == order and {one for one in normal if len(one) > 1} <= {*made, *said["vocab"]}
        else:
            scores = {piece: np.float32(score) for piece, score in said["vocab"]}
            same = all(scores.get(piece) == score for piece, score in normal.items())
        if not same or (reads_charsmap and charsmap != model.normalizer_spec.precompiled_charsmap):
            self.notes.append("tokenizer.json and the SentencePiece model beside it say other things; tokenizer.json counts, as in "
                              "AutoTokenizer")
            self.source = b""

    def cut_as_class(self) -> None:
        """Makes files cut texts as a class of OWN_BACKEND does, which takes pieces, scores and a
        charsmap from them, and nothing else."""
        steps = parts(self.tokenizer.get("normalizer"), "normalizers")
        charsmap = next((base64.b64decode(step["precompiled_charsmap"] or "") for step in steps
                         if step.get("type") == "Precompiled"), b"")
        found = bool(steps)
        if self.tokenizer:
            self.tokenizer = {**self.tokenizer, **class_steps(self.short_kind, charsmap)}
            self.rules = read_normalizer(self.tokenizer)
            self.as_sentencepiece()
        if self.source:
            model = parse_model(self.source, str(self.folder))
            found = found or bool(model.normalizer_spec.precompiled_charsmap)
            self.rules = read_normalizer(class_steps(
                self.short_kind, model.normalizer_spec.precompiled_charsmap))
            self.as_sentencepiece()
            self.source = self.cut_pieces(model, self.rules)
        if found and self.short_kind == "MBart":
            self.notes.append("texts are not normalized: MBartTokenizer of transformers 5 leaves the "
                              "normalizer of its files out, which transformers 4 used. Characters "
                              "such as \u00bd and \ufb01 may be unknown: normalize texts to NFKC "
                              "before if the model was trained so")

    def as_sentencepiece(self) -> None:
        """SeamlessM4TTokenizer strips spaces at the end, and adds one at the beginning of a text that has none there."""
        if self.short_kind == "SeamlessM4T" and self.rules:
            self.rules.trim, self.rules.prefix = True, "first"

    def cut_pieces(self, model: Any, rules: Rules) -> bytes:
        """A SentencePiece model by these rules; its own bytes where nothing changes."""
        trainer, normalizer = model.trainer_spec, model.normalizer_spec
        name = f"{self.short_kind}Tokenizer"
        if trainer.treat_whitespace_as_suffix:
            raise ConvertError(f"{self.folder}: its SentencePiece model has "
                               f"treat_whitespace_as_suffix, so that pieces end with a space; {name} "
                               f"of transformers puts spaces before words all the same, and cuts "
                               f"words as the model was not trained")
        crossing = [at for at, one in enumerate(model.pieces)
                    if one.type in (NORMAL, UNUSED) and crosses(one.piece)]
        if crossing:
            self.notes.append(f"texts: {len(crossing)} pieces go on after a space, such as "
                              f"{brief(model.pieces[crossing[0]].piece)}, and are not used: {name} of "
                              f"transformers cuts each word by itself, SentencePiece does not")
        if self.short_kind == "Pegasus":  # transformers 5 has no such types there
            for one in model.pieces:
                one.type = NORMAL if one.type in (CONTROL, USER_DEFINED) else one.type
        elif not self.tokenizer:
            self.own_added = [{"content": one.piece, "special": one.type == CONTROL,
                               "normalized": False} for one in model.pieces
                              if one.type in (CONTROL, USER_DEFINED)]
        for at in crossing:
            model.pieces[at].piece = hidden(at)
        if not normalizer.add_dummy_prefix:
            self.notes.append(f"texts: a space goes before each text, as {name} of transformers puts "
                              f"it; the SentencePiece model alone has add_dummy_prefix false")
        for one in model.pieces:
            if one.type == UNUSED:
                one.type = NORMAL  # transformers has no such type
        if self.short_kind in OF_UNIGRAM and trainer.model_type != UNIGRAM:
            self.notes.append(f"texts: cut by the sums of scores (Unigram), as {name} of transformers 5 has it; the SentencePiece "
                              f"model alone merges pairs (BPE)")
            trainer.model_type = UNIGRAM
        normalizer.precompiled_charsmap = rules.charsmap
        model.ClearField("denormalizer_spec")
        if not (normalizer.add_dummy_prefix and normalizer.escape_whitespaces
                and normalizer.remove_extra_whitespaces == rules.squeeze):
            normalizer.add_dummy_prefix = normalizer.escape_whitespaces = True
            normalizer.remove_extra_whitespaces = rules.squeeze
        return bytes(model.SerializeToString())

    def check_backend(self) -> None:
        """Refuses what tokenizer.json says of unknown characters and of joining pieces, where the
        tokenizer's class reads it and transformer.h does something else."""
        path = self.folder / "tokenizer.json"
        pieces = self.tokenizer.get("model") or {}
        ignored = self.hf.get("ignored", set())
        if not pieces or self.short_kind in OWN_BACKEND or self.is_slow():
            return
        kind = pieces.get("type") or ("BPE" if "merges" in pieces else "Unigram")
        if (kind == "BPE" and not pieces.get("byte_fallback") and not pieces.get("fuse_unk")
                and "fuse_unk" not in ignored):
            raise ConvertError(f"{path}, model: fuse_unk is {brief(pieces.get('fuse_unk'))}, and "
                               f"transformer.h makes one token of unknown characters side by side, "
                               f"as with True; --ignore-key fuse_unk leaves the key out")
        steps = parts(self.tokenizer.get("decoder"), "decoders")
        if "decoder" not in ignored and not joins_pieces(steps):
            raise ConvertError(f"{path}: decoder is {brief(self.tokenizer.get('decoder'))}, and "
                               f"transformer.h joins pieces as with a Metaspace, which has no space "
                               f"at the beginning of a text; --ignore-key decoder leaves the key out")

    def read_byte_level(self) -> dict[str, Any]:
        """vocab.json and merges.txt as the tokenizer.json that transformers makes of them."""
        path = self.folder / "merges.txt"
        merges = [line for line in read_bytes(path).decode().split("\n")
                  if line and not line.startswith("#version")]
        wrong = next((line for line in merges if line.count(" ") != 1), None)
        if wrong is not None:
            raise ConvertError(f"{path}: {brief(wrong)} is not a merge")
        vocab = {token: at for at, token in self.vocab.items()}
        prefix = self.settings.get("add_prefix_space", self.family == "blenderbot")
        return {"model": {"type": "BPE", "vocab": vocab, "merges": merges},
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": bool(prefix)},
                "decoder": {"type": "ByteLevel"}, "added_tokens": self.listed_added(vocab)}

    def listed_added(self, vocab: dict[str, int]) -> list[dict[str, Any]]:
        """Added tokens as the files list them, and the special tokens of the tokenizer's class."""
        found: dict[int, dict[str, Any]] = {}
        decoder = self.settings.get("added_tokens_decoder")
        if decoder:
            found = {int(at): {**one, "id": int(at)} for at, one in decoder.items()
                     if at.isdecimal()}
        elif self.tokenizer:
            found = dict(added_tokens(self.tokenizer))
        own = OWN_SPECIAL.get(self.short_kind, tuple(SPECIAL))
        special = {**SPECIAL, **({"mask_token": "<mask_2>"} if self.short_kind == "Pegasus" else {})}
        listed = [self.settings.get(key, self.special_map.get(key, default if key in own else None))
                  for key, default in special.items()]
        listed += [self.setting("mask_token_sent")]
        listed += [value for key, value in self.settings.items()  # a model's own
                   if key.endswith("_token") and key not in SPECIAL]
        if self.short_kind == "Pegasus":
            listed += ["<mask_1>", *(token for token in vocab if re.fullmatch(r"<unk_\d+>", token))]
        if self.short_kind == "T5":
            listed += [token for token in vocab if re.fullmatch(EXTRA_ID, token)]
        for settings in (self.settings, self.special_map):
            for key in ("additional_special_tokens", "extra_special_tokens"):
                more_tokens = settings.get(key) or []
                listed += more_tokens if isinstance(more_tokens, list) else more_tokens.values()
        if self.short_kind in ("MBart", "MBart50", "Nllb", "M2M100", "PLBart", "SeamlessM4T"):
            listed += [token for token in vocab if LANGUAGE.fullmatch(token)]
        more = {} if decoder else {token: at for at, token in self.ids("added_tokens.json").items()}
        for one in [*listed, *more]:
            if one is None:
                continue
            is_special = one not in more if isinstance(one, str) else True
            if not isinstance(one, dict):
                one = {"content": one, "lstrip": one == "<mask>",
                       "normalized": not is_special or one == "<mask>" and not self.tokenizer}
            at = {**vocab, **more}.get(one["content"])
            if at is not None:
                found.setdefault(at, {**one, "id": at, "special": is_special})
        for one in self.own_added:
            if one["content"] in vocab:
                found.setdefault(vocab[one["content"]], {**one, "id": vocab[one["content"]]})
        return list(found.values())

    def byt5_added(self) -> list[dict[str, Any]]:
        """The added tokens of a ByT5Tokenizer, whose files have no vocabulary: the ids that the files
        list, and for each other special token, in the class's order, 256 and the number of those
        before it."""
        def token(value: Any, **flags: bool) -> dict[str, Any]:
            return value if isinstance(value, dict) else {"content": value, **flags}

        found: dict[int, dict[str, Any]] = {}
        own = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        named = {**self.special_map, **self.settings}
        named.update({key: named.get(key) or name for key, name in own.items()})
        for at, key in enumerate(own):
            found[at] = token(named[key], lstrip=True, rstrip=True)
        decoder = self.settings.get("added_tokens_decoder") or {}
        found.update({int(at): one for at, one in decoder.items() if at.isdecimal()})
        if not decoder:
            found.update({at: {"content": one} for at, one in self.ids("added_tokens.json").items()})
        keys = [*SPECIAL_ORDER, *(key for key in self.settings if key.endswith("_token")
                                  and key not in SPECIAL_ORDER)]
        special = [token(named[key]) for key in keys if named.get(key)]
        places = [self.settings] if decoder else [self.settings, self.special_map]
        lists = [one[key] for one in places for key in ("extra_special_tokens",
                                                        "additional_special_tokens") if key in one]
        extra = next(filter(None, lists), [] if lists else [
            f"<extra_id_{i}>" for i in range(self.settings.get("extra_ids", 125))])
        special += [token(one) for one in (extra if isinstance(extra, list) else extra.values())]
        names = {one["content"] for one in found.values()}
        for one in special:
            if one["content"] in names:
                continue
            at = 256 + len(found)
            if at in found:
                raise ConvertError(f"{self.folder}: transformers gives the special token "
                                   f"{brief(one['content'])} the id {at}, which "
                                   f"{brief(found[at]['content'])} has: give it another one in "
                                   f"added_tokens_decoder of tokenizer_config.json")
            found[at] = {"content": one["content"]}  # transformers forgets its flags
            names.add(one["content"])
        silent = {one["content"] for one in (*special, *(found[at] for at in range(3)))}
        for at, one in found.items():
            check_utf8(one["content"], f"{self.folder}: id {at}")
        return [{**one, "id": at, "special": one["content"] in silent} for at, one in found.items()]

    def byt5_end(self) -> int:
        """The id with which a ByT5Tokenizer ends a source. It is not 1, and not the eos_token_id of
        config.json, where eos_token has another id than the files give </s>."""
        name = self.setting("eos_token") or "</s>"
        return int(next(one["id"] for one in self.byt5_added() if one["content"] == name))

    def is_slow(self) -> bool:
        """Whether transformers 5 cuts these texts by a tokenizer in Python, not by tokenizers."""
        if self.tokenizer and not self.source and not self.vocab:
            return False  # there is only a tokenizer.json
        return (self.family in SLOW or self.family == "m2m_100" and bool(self.vocab)
                or self.kind == "ByT5Tokenizer")

    def clean_up(self, model: Model) -> Config:
        """Whether decoded texts lose spaces before punctuation: where clean_up_tokenization_spaces
        says so, but not with byte-pair encoding, where transformers 5 needs a second key."""
        if not self.settings.get("clean_up_tokenization_spaces", self.family == "plbart"):
            return {}
        is_bpe = not self.is_slow() and (
            (self.tokenizer.get("model") or {}).get("type") == "BPE" or "Nllb" in self.kind
            or has_byte_level(self.tokenizer))
        if is_bpe and not self.settings.get(FORCED_CLEAN_UP):
            model.notes.append("clean_up_tokenization_spaces is true, which transformers 5 ignores "
                               "with byte-pair encoding: --set clean_up=spaces does what "
                               "transformers 4 does")
            return {}
        return {"clean_up": "spaces"}

    def object(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return (check_kinds(read_object(path), KINDS, str(path))
                if has_file(self.folder, name) else {})

    def ids(self, name: str) -> dict[int, str]:
        """A vocabulary {token: id} by id."""
        path = self.folder / name
        return (token_ids(read_object(path), str(path), sparse=True)
                if has_file(self.folder, name) else {})

    def setting(self, key: str) -> str | None:
        """A token may be an object with a content."""
        value = self.settings.get(key, self.special_map.get(key))
        value = value.get("content") if isinstance(value, dict) else value
        if value is not None:
            check_utf8(value, f"{self.folder}: {key}")
        return value

    def extra_ids(self, n: int) -> dict[int, str]:
        """T5's extra ids behind n pieces, as T5's own code counts them: from the last to
        <extra_id_0>."""
        most = self.settings.get("extra_ids", 100)
        if not isinstance(most, int) or not 0 <= most <= 1000:
            return {}
        return {n + most - 1 - i: f"<extra_id_{i}>" for i in range(most)}

    def additional(self) -> list[str]:
        for settings in (self.settings, self.special_map):
            for key in ("additional_special_tokens", "extra_special_tokens"):
                tokens = settings.get(key)
                if isinstance(tokens, list) and tokens:
                    return [one["content"] if isinstance(one, dict) else one for one in tokens]
        return []

    def spelled(self) -> dict[int, str]:
        """The spelling of every id that the files know, without a separate target's."""
        added = {}
        for at, one in (self.settings.get("added_tokens_decoder") or {}).items():
            what = f"{self.folder / 'tokenizer_config.json'}: added_tokens_decoder"
            if not re.fullmatch(r"\d{1,9}", at, re.ASCII):
                raise ConvertError(f"{what}: {brief(at)} is no id")
            check_utf8(one["content"], what)
            added[int(at)] = one["content"]
        added.update(self.ids("added_tokens.json"))
        if self.tokenizer and not (self.vocab and self.source):
            model = self.tokenizer.get("model") or {}
            listed = model.get("vocab") or {}
            ids = ({at: one[0] for at, one in enumerate(listed)} if isinstance(listed, list)
                   else token_ids(listed, f"{self.folder / 'tokenizer.json'}: vocab", sparse=True))
            known = {at: one["content"] for at, one in added_tokens(self.tokenizer).items()}
            return {**ids, **known, **added}
        if self.vocab:
            ids = dict(self.vocab)
            first = max(ids, default=-1) + 1
            if self.family == "m2m_100":  # the languages follow
                ids.update(enumerate(self.additional(), first))
            return {**ids, **added}
        if not self.source:
            return added
        pieces = read_pieces(self.source, str(self.folder))
        if self.family == "pegasus":
            return {**self.pegasus_ids(pieces), **added}
        if self.family in LIKE_T5:
            return {**(added or self.extra_ids(len(pieces))), **dict(enumerate(pieces))}
        if self.family in SEAMLESS:
            ids = {0: "<pad>", 1: "<unk>", 2: "<s>", 3: "</s>"}
            ids.update({at + 1: piece for at, piece in enumerate(pieces) if at >= 3})
            ids.update(enumerate(self.additional(), len(pieces) + 1))
            return {**ids, **added}
        if self.family in ("mbart", "m2m_100", "plbart"):
            ids = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"}
            ids.update({at + 1: piece for at, piece in enumerate(pieces) if at >= 3})
            languages = [one for one in self.additional() or self.plbart_languages()
                         if one not in pieces and one != "<mask>"]
            own = MBART_LANGUAGES if self.short_kind == "MBart" else languages
            after = [*own, "<mask>", *(one for one in languages if one not in own)]
            ids.update(enumerate(after, len(pieces) + 1))
            return {**ids, **added}
        return {**dict(enumerate(pieces)), **added}

    def pair(self) -> Config:
        """The languages of a model of one pair, where the files of its tokenizer say them."""
        listed = self.settings.get("langs")
        codes = listed if isinstance(listed, list) and len(listed) == 2 else [
            self.settings.get(key) for key in ("source_lang", "target_lang")]
        return {key: code for key, code in zip(("source_language", "target_language"), codes) if is_code(code)}

    def plbart_languages(self) -> list[str]:
        codes = self.settings.get("language_codes") or "base"
        return PLBART_LANGUAGES.get(codes, []) if self.family == "plbart" else []

    def pegasus_ids(self, pieces: list[str]) -> dict[int, str]:
        offset = self.settings.get("offset")
        offset = 103 if offset is None else offset
        if not 0 <= offset <= 10000:
            raise ConvertError(f"{self.folder / 'tokenizer_config.json'}: offset is {offset}")
        names = ["<pad>", "</s>"]
        if offset:
            names += [self.setting("mask_token_sent") or "<mask_1>",
                      self.setting("mask_token") or "<mask_2>"]
            names += [f"<unk_{i}>" for i in range(2, offset)]
        ids = dict(enumerate(names))
        # the pieces' own pad and end are the first two ids
        ids.update({at + offset: piece for at, piece in enumerate(pieces) if at >= 2})
        return ids

    def around(self) -> tuple[list[str], list[str]]:
        """What stands before and after a source."""
        found = template(self.tokenizer)
        language = self.setting("src_lang")
        if language and self.family == "m2m_100" and self.vocab:
            language = f"__{language}__"
        end = self.setting("eos_token") or "</s>"
        if found and not language:
            return found
        if self.like_roberta:
            return [self.setting("bos_token") or "<s>"], [end]
        if self.family == "blenderbot-small":
            return [], []
        if self.family == "plbart":
            if not language and self.plbart_languages() == PLBART_LANGUAGES["multi"]:
                language = "__en_XX__"
            return [], [end, language] if language else [end]
        if self.family in LANGUAGE_FIRST:
            if self.kind in ("MBartTokenizer", "MBartTokenizerFast") or self.settings.get(
                    "legacy_behaviour"):
                return [], [end, language or "(the language)"]
            return [language] if language else [], [end]
        return [], [end]


# ---------------------------------------------------------------------------------------- all of it
def character_vocabulary(chars: str, rows: int) -> list[str]:
    """Characters by id, where one that repeats ("____AIOW") fills the places of special tokens."""
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    counts = Counter(chars)
    lines = [one if counts[one] == 1 else "" for one in chars]
    for at, name in enumerate(special):
        if at < len(lines) and not lines[at]:
            lines[at] = name
    return lines + [""] * (rows - len(lines))


def lines_of(ids: dict[int, str], rows: int = 0) -> list[str]:
    return [ids.get(at, "") for at in range(rows or max(ids) + 1)]


def read_texts(folder: Path, hf: dict[str, Any], sizes: dict[str, int], model: Model) -> Config:
    """Puts vocabularies and SentencePiece models into the model; returns the config's part."""
    try:
        return find_texts(folder, hf, sizes, model)
    except FORM_ERRORS as error:
        raise ConvertError(f"{folder}: a tokenizer's file is not what transformers and tokenizers "
                           f"write: {brief(error)}") from None


def read_target(folder: Path, hf: dict[str, Any], size: int, model: Model) -> Config:
    """Puts the texts of a model whose sources have none into the model: what would be both sides' is
    the target's. Returns the config's part."""
    both = Model(has_own_words=model.has_own_words)
    facts = read_texts(folder, hf, dict.fromkeys(("src", "tgt"), size), both)
    for found, kept in ((both.texts, model.texts), (both.tables, model.tables)):
        for name, one in found.items():
            own = "tgt" + name[len("src"):]
            if name.startswith("tgt") or own not in found:
                kept[own] = one
    model.notes += [one.replace("--src-vocab", "--tgt-vocab") for one in both.notes]
    model.warnings += [one for one in both.warnings if "src_start" not in " ".join(one)]
    model.problems += both.problems
    return {key: value for key, value in facts.items() if not key.startswith("src_")
            and key not in ("languages", "tgt_language")}


def find_texts(folder: Path, hf: dict[str, Any], sizes: dict[str, int], model: Model) -> Config:
    end, start = hf.get("eos_token_id"), hf.get("bos_token_id")
    end = end[0] if isinstance(end, list) and end else end
    if "grapheme_chars" in hf and "phoneme_chars" in hf:
        for side, key in (("src", "grapheme_chars"), ("tgt", "phoneme_chars")):
            lines = character_vocabulary(hf[key], sizes[side])
            model.texts[f"{side}_vocabulary"] = vocabulary_text(lines, f"config.json, {key}", model)
        return {"src_text": "characters", "tgt_text": "characters", "src_start": start,
                "src_end": end, "src_unk": 3}
    files = Files(folder, hf)
    model.notes += files.notes
    if files.kind in ("ByT5Tokenizer", "ByT5TokenizerFast"):
        if min(sizes.values()) < 259:
            raise ConvertError(f"{folder}: the bytes of a ByT5Tokenizer are ids 3 to 258, but the "
                               f"embedding has {min(sizes.values())} rows")
        put_byt5_added(files, sizes, model)
        model.notes.append("texts: the bytes of UTF-8 from id 3 on, and added tokens")
        return {"src_text": "bytes", "tgt_text": "bytes", "byte_offset": 3, "src_unk": 2,
                "tgt_unk": 2, **files.clean_up(model), "src_end": files.byt5_end()}
    ids = files.spelled()
    for at, token in ids.items():
        check_utf8(token, f"{folder}: id {at}")
    if not ids:
        model.notes.append("no tokenizer files: the model takes and gives ids "
                           "(--src-vocab FILE adds a vocabulary)")
        facts: Config = {"src_end": end} if isinstance(end, int) else {}
        if hf["model_type"] in LIKE_ROBERTA and isinstance(start, int):
            facts["src_start"] = start
        return facts
    return {**put_texts(files, ids, sizes, model), **special_ids(files, ids, sizes, model),
            **files.clean_up(model)}


def as_words(reason: str, model: Model) -> None:
    """Refuses a tokenizer that transformer.h does not have, unless --set or another vocabulary says what texts are."""
    if not model.has_own_words:
        raise ConvertError(f"{reason}. --set src_text=words --set tgt_text=words converts the model for texts that another "
                           f"program has cut into tokens, with spaces between them; without the tokenizer's files in the "
                           f"folder the model takes ids")
    model.notes.append(f"{reason}: texts are tokens of the vocabulary with spaces between them, as another program cuts them")


def splits_at_spaces(tokenizer: dict[str, Any]) -> bool:
    """Whether a tokenizer.json has words between whitespace as its tokens, as transformer.h reads words."""
    model = tokenizer.get("model") or {}
    steps = [step.get("type") for step in parts(tokenizer.get("pre_tokenizer"), "pretokenizers")]
    return (model.get("type") == "WordLevel" and steps == ["WhitespaceSplit"] and not tokenizer.get("normalizer")
            and not tokenizer.get("decoder"))


def put_texts(files: Files, ids: dict[int, str], sizes: dict[str, int], model: Model) -> Config:
    source, what = files.source, "its SentencePiece model"
    if not source and has_byte_level(files.tokenizer):
        return put_byte_level(files, ids, sizes, model)
    if not source and files.tokenizer:
        try:
            source, what = pieces_of_tokenizer(files.tokenizer), "tokenizer.json"
        except NotPieces as error:
            if not splits_at_spaces(files.tokenizer):
                as_words(f"{files.folder / 'tokenizer.json'} has {error}, and transformer.h does not cut texts so", model)
        except FORM_ERRORS as error:
            raise ConvertError(f"{files.folder / 'tokenizer.json'}: not what tokenizers writes: "
                               f"{brief(error)}") from None
    elif not source:
        as_words(f"{files.folder} has a vocabulary and neither a SentencePiece model nor a tokenizer.json, so transformer.h "
                 f"cannot cut texts into its tokens", model)
    rows = {"src": lines_of(ids, sizes["src"]), "tgt": lines_of(ids, sizes["tgt"])}
    beyond = sorted(at for at in ids if at >= max(sizes.values()))
    if beyond:
        model.notes.append(f"{len(beyond)} tokens of the tokenizer have no row in the embedding: "
                           f"ids {beyond[0]} to {beyond[-1]}")
    if files.target_vocab:
        rows["tgt"] = lines_of(files.target_vocab, sizes["tgt"])
    form = "sentencepiece" if source else "words"
    facts: Config = {"src_text": form, "tgt_text": form}
    if source:
        files.check_backend()
        if (files.short_kind in OWN_BACKEND
                and parse_model(source, what).trainer_spec.byte_fallback):
            model.notes.append(f"texts: unknown characters are spelled as bytes, as {what} has it; "
                               f"{files.short_kind}Tokenizer of transformers makes <unk> of them, "
                               f"and writes bytes as <0xE2>")
        facts.update(put_added(files, ids, source, sizes, model))
        model.texts["src_sentencepiece"] = source
        if files.target and files.target != source:
            model.texts["tgt_sentencepiece"] = files.target
        own = {"src": source, "tgt": files.target or source}
        pieces = {side: read_pieces(data, str(files.folder)) for side, data in own.items()}
        if all(pieces[side] + [""] * (sizes[side] - len(pieces[side])) == rows[side]
               for side in rows):
            model.notes.append(f"texts: {what}; its ids are the model's")
            return facts
        model.notes.append(f"texts: {what}, and the vocabulary for its own ids")
    for side, lines in rows.items():
        if side == "src" or lines != rows["src"]:
            model.texts[f"{side}_vocabulary"] = vocabulary_text(lines, f"{side}_vocabulary", model)
    return facts


def put_added(files: Files, ids: dict[int, str], source: bytes, sizes: dict[str, int],
              model: Model) -> Config:
    """The added tokens of a SentencePiece model's texts, and what is done with whitespace."""
    def normalize(token: str) -> str:
        from sentencepiece import SentencePieceNormalizer
        form = SentencePieceNormalizer(model_proto=source, add_dummy_prefix=False,
                                       escape_whitespaces=False, remove_extra_whitespaces=True)
        return str(form.normalize(token))

    rules = files.rules or Rules()
    trailing = ("strip" if files.short_kind == "SeamlessM4T" else "keep" if rules.squeeze and not rules.trim else "")
    prefix = "first" if rules.prefix == "first" else "add" if rules.once and not (
        rules.squeeze and SPACE in maps.read(rules.charsmap)) else ""
    by_token = {token: at for at, token in sorted(ids.items(), reverse=True)}
    # whether whitespace is other than where tokenizers looks for tokens that are normalized
    spaces = rules.squeeze and not (rules.trim and files.short_kind == "T5"
                                    and SPACE in maps.read(rules.charsmap))
    listed = files.listed_added(by_token)
    added = added_table(listed, sizes["src"], files.is_slow(), normalize, spaces)
    note_expansions(ids, added, source, model)
    names = [brief(ids[at]) for at, flags in added.tolist()
             if flags & ADDED["normalized"] and flags & (ADDED["lstrip"] | ADDED["rstrip"])]
    if names and files.short_kind == "SeamlessM4T":
        model.notes.append(f"added tokens that are normalized, with lstrip or rstrip, {', '.join(names[:8])}: all spaces "
                           "beside them are left out. transformers leaves out one space, and makes a piece of several")
    facts: Config = {"trailing_space": trailing} if trailing else {}
    if prefix:
        facts["prefix_space"] = prefix
    if files.target_vocab:  # of its own, with its own ids
        by_token = {token: at for at, token in files.target_vocab.items()}
        own = [{**one, "id": by_token[one["content"]]} for one in listed
               if one["content"] in by_token]
        model.tables["tgt_added"] = added_table(own, sizes["tgt"], files.is_slow())
        moved = [one["content"] for one in listed if one.get("special")
                 and by_token.get(one["content"], one["id"]) != one["id"]]
        if moved:
            model.notes.append(f"special tokens that have other ids in the target's vocabulary, "
                               f"{', '.join(map(brief, moved[:8]))}: decoded texts are without them. "
                               f"transformers leaves out what has the source's ids there")
    if len(added):
        model.tables["src_added"] = added
    return facts


def note_expansions(ids: dict[int, str], added: np.ndarray, source: bytes, model: Model) -> None:
    """Says which normalized tokens begin or end inside what one character becomes: \ufb00 is ff, so
    tokenizers finds the token foo in \ufb00oo, where transformer.h does not look."""
    tokens = [ids[at] for at, flags in added.tolist() if flags & ADDED["normalized"]][:1000]
    longer = expansions(source) if tokens else set()
    heads = {text[:at] for text in longer for at in range(1, len(text))}
    tails = {text[at:] for text in longer for at in range(1, len(text))}
    inner = "\0".join(text for one in longer for text in (one[1:], one[:-1]))
    names = [brief(token) for token in tokens if token in inner
             or any(token[:n] in tails or token[-n:] in heads
                    for n in range(1, min(len(token), LONGEST_EXPANSION) + 1))]
    if names:
        model.notes.append(f"added tokens that are normalized, {', '.join(names[:8])}"
                           + " ..." * (len(names) > 8) + ": they are not found where they begin or "
                           "end inside a character that the normalizer spells with several, such as "
                           "\ufb01 or \u00bd. With \"normalized\": false transformers does not find "
                           "them there either")


def put_byt5_added(files: Files, sizes: dict[str, int], model: Model) -> None:
    """The added tokens of a ByT5Tokenizer, and a vocabulary that spells them."""
    added = files.byt5_added()
    ids: dict[str, int] = {}
    for one in added:
        at, content = one["id"], one["content"]
        wrong = ("it is also the name of a byte" if len(content) == 1 and ord(content) < 0x100 else
                 "this is the id of a byte" if 3 <= at < 259 else
                 f"it also has the id {ids[content]}" if content in ids else "")
        ids[content] = at
        if wrong:
            raise ConvertError(f"the added token {brief(content)} of id {at}: {wrong}, so "
                               f"transformer.h would not find it as transformers does. Take it out "
                               f"of the tokenizer's files if no text has it")
    lines = lines_of({one["id"]: one["content"] for one in added}, max(sizes.values()))
    lines = [line or f"<byte {at}>" for at, line in enumerate(lines)]
    for side, rows in sizes.items():
        if side == "src" or rows != sizes["src"]:
            model.texts[f"{side}_vocabulary"] = vocabulary_text(lines[:rows], f"{side}_vocabulary",
                                                                model)
            model.tables[f"{side}_added"] = added_table(added, rows, is_slow=True)


def put_byte_level(files: Files, ids: dict[int, str], sizes: dict[str, int],
                   model: Model) -> Config:
    prefix = False
    for side, rows in sizes.items():
        if side == "tgt" and rows == sizes["src"]:
            continue  # the source's serve both
        prefix, merges, added = byte_level(files.tokenizer, rows)
        if files.short_kind in PREFIX_SPACE:  # these classes do not ask tokenizer.json
            prefix = bool(files.settings.get("add_prefix_space", PREFIX_SPACE[files.short_kind]))
        model.texts[f"{side}_vocabulary"] = vocabulary_text(lines_of(ids, rows),
                                                            f"{side}_vocabulary", model)
        model.tables[f"{side}_merges"] = merges
        if len(added):
            model.tables[f"{side}_added"] = added
    model.notes.append(f"texts: byte-level BPE, {len(merges)} merges, {len(added)} added tokens")
    facts: Config = {"src_text": "byte_bpe", "tgt_text": "byte_bpe"}
    return {**facts, "prefix_space": "add"} if prefix else facts


def special_ids(files: Files, ids: dict[int, str], sizes: dict[str, int], model: Model) -> Config:
    by_token = {token: at for at, token in sorted(ids.items(), reverse=True)}
    facts: Config = {}
    unk = by_token.get(files.setting("unk_token") or "<unk>")
    if unk is not None and unk < sizes["src"]:
        facts["src_unk"] = unk
    if unk is not None and unk < sizes["tgt"] and not files.target_vocab:
        facts["tgt_unk"] = unk
    before, after = files.around()
    for key, tokens in (("src_start", before), ("src_end", after)):
        if len(tokens) > 1:
            model.warn(f"a source has {' '.join(tokens)} "
                       f"{'before' if key == 'src_start' else 'after'} its text, and {key} holds "
                       f"one id: texts will not be cut as the model was trained; give it ids")
        elif tokens and tokens[0] in by_token:
            facts[key] = by_token[tokens[0]]
    suffixed = len(after) > 1 or files.family == "plbart"
    languages = {} if suffixed or "src_merges" in model.tables else find_languages(
        {at: token for at, token in ids.items() if at < min(sizes.values())}, files.family, model)
    if languages:
        facts.pop("src_start", None)  # the one that the files happen to name
    elif files.family in LANGUAGE_FIRST:
        if not before and not suffixed:
            model.warn("a source begins with its language's token: --set src_start=TOKEN",
                       "src_start")
        if "forced" not in model.facts:
            model.warn("a target begins with its language's token: --set forced=TOKEN", "forced")
    return {**facts, **(languages or files.pair())}
