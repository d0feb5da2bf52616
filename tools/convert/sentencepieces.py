"""sentencepieces.py: SentencePiece's model files, and tokenizer.json's Unigram and BPE models with a
Metaspace written as one. tokenizer_files.py has the other files of a tokenizer.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any

from . import charsmap as maps
from .modelfile import ConvertError
from .untrusted import CUT, brief, check_gaps, check_kinds, check_utf8, install, token_ids

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
SPACE = "\u2581"
LONGEST_PIECE = 1000  # that merges make; all its cuts are tried
LONGEST_EXPANSION = 64  # of a character; NFKC's longest is 18


# ------------------------------------------------------------------ SentencePiece's file, a protobuf
def parse_model(data: bytes, what: str) -> Any:
    """The ModelProto of the package sentencepiece."""
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
    except ImportError as error:
        package = "sentencepiece" if (error.name or "").startswith("sentencepiece") else "protobuf"
        raise ConvertError(f"{what}: SentencePiece's files need the packages sentencepiece and protobuf, and "
                           f"{install(package)}") from None
    try:
        return ModelProto.FromString(data)
    except DecodeError:
        raise ConvertError(f"{what}: not a SentencePiece model{CUT}") from None


def read_pieces(data: bytes, what: str) -> list[str]:
    """The pieces by SentencePiece's id."""
    pieces = []
    for piece in parse_model(data, what).pieces:
        text = piece.piece
        if not text:
            raise ConvertError(f"{what}: not a SentencePiece model: piece {len(pieces)} has no text")
        # protobuf gives what is not UTF-8 as bytes
        pieces.append(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    if not pieces:
        raise ConvertError(f"{what}: not a SentencePiece model")
    return pieces


def expansions(data: bytes) -> set[str]:
    """What a SentencePiece model's normalizer makes of one character, where it is more than one. The
    character map has the size of its trie, the trie, and these texts with a NUL behind each."""
    rules = parse_model(data, "its SentencePiece model").normalizer_spec.precompiled_charsmap
    texts = rules[4 + int.from_bytes(rules[:4], "little"):].split(b"\0")
    found = {one.decode("utf-8", "replace") for one in texts}
    return {text for text in found if 1 < len(text) <= LONGEST_EXPANSION}


def write_pieces(pieces: list[tuple[str, float, int]], kind: int, unk: int, charsmap: bytes,
                 dummy_prefix: bool, squeeze: bool, byte_fallback: bool) -> bytes:
    model = parse_model(b"", "tokenizer.json")
    for piece, score, piece_kind in pieces:
        model.pieces.add(piece=piece, score=score, type=piece_kind)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.vocab_size = kind, len(pieces)
    trainer.byte_fallback = byte_fallback
    trainer.unk_id, trainer.unk_piece = unk, pieces[unk][0]
    trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
    normalizer.name = "precompiled" if charsmap else "identity"
    normalizer.precompiled_charsmap = charsmap
    normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces = dummy_prefix, squeeze
    normalizer.escape_whitespaces = True
    return bytes(model.SerializeToString())


# -------------------------------------------------------------------------------- tokenizer.json
class NotPieces(Exception):
    """A tokenizer that is no SentencePiece model in another form; the text says what it has."""


def parts(node: Any, key: str) -> list[dict[str, Any]]:
    """A normalizer or pre-tokenizer as the list of its steps."""
    if not node:
        return []
    return node.get(key, []) if node.get("type") == "Sequence" else [node]


MOST_STEPS = 16  # each may have hundreds of thousands of rules


@dataclass
class Rules:
    """What a tokenizer.json does with a text before it is cut into pieces."""
    charsmap: bytes = b""
    prefix: str = "never"  # before which parts of a text a space is put; "first", "always"
    once: bool = False  # not before a part that begins with one
    squeeze: bool = False  # several spaces become one
    trim: bool = False  # and those at the ends none
    split: bool = False  # each space begins another piece


def read_normalizer(tokenizer: dict[str, Any]) -> Rules:
    """What normalizer and pre_tokenizer do, in any order in which SentencePiece can do it too."""
    found, steps, has_marks = Rules(), [], False
    for step in parts(tokenizer.get("normalizer"), "normalizers"):
        kind, pattern = step.get("type"), step.get("pattern", {})
        if kind == "Precompiled":
            steps.append(base64.b64decode(step["precompiled_charsmap"] or "", validate=True))
        elif kind in ("NFKC", "Nmt"):
            steps.append(maps.nfkc() if kind == "NFKC" else maps.NMT)
        elif kind == "Replace" and pattern.get("Regex") == " {2,}" and step.get("content") == " ":
            found.squeeze = True
        elif kind == "Strip" and step.get("strip_left", True) and step.get("strip_right", True):
            found.trim = True
        elif kind == "Replace" and (pattern.get("Regex") or pattern.get("String")) == "\n":
            if step.get("content") == " ":  # others: a line is translated at a time
                steps.append({"\n": " "})
        elif kind == "Replace" and pattern.get("String") == " " and step.get("content") == SPACE:
            has_marks = True
        elif kind == "Replace" and pattern.get("Regex") == r"[\n\r\t]" and step.get("content") == " ":
            steps.append(dict.fromkeys("\n\r\t", " "))
        elif kind == "Prepend" and step.get("prepend") == SPACE:
            found.prefix = "always"
        else:
            raise NotPieces(f"the normalizer {brief(step)}")
        if kind in ("Precompiled", "NFKC", "Nmt") and (found.squeeze or found.trim or has_marks
                                                       or found.prefix != "never"):
            raise NotPieces(f"the normalizer {kind} after one that changes spaces")
    if found.trim and not found.squeeze:
        raise NotPieces("the normalizer Strip without a Replace of ' {2,}', so that spaces between "
                        "words are kept")
    before = parts(tokenizer.get("pre_tokenizer"), "pretokenizers")
    kinds = [step.get("type") for step in before]
    if kinds not in ([], ["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise NotPieces(f"the pre-tokenizer {', '.join(brief(kind).strip(chr(39)) for kind in kinds)}")
    if not kinds and not has_marks:
        raise NotPieces("no pre-tokenizer and no normalizer that make U+2581 of a space")
    if kinds:
        step = before[-1]
        if step.get("replacement", SPACE) != SPACE:
            raise NotPieces("a Metaspace of another character")
        if found.prefix != "never" or has_marks:
            raise NotPieces("a Metaspace after a normalizer that writes U+2581")
        found.prefix = step.get("prepend_scheme", "always")
        if not step.get("add_prefix_space", True):
            found.prefix = "never"
        found.once, found.split = True, bool(step.get("split", True))
    if len(kinds) == 2:
        if found.prefix != "always":
            raise NotPieces(f"a WhitespaceSplit before a Metaspace whose prepend_scheme is "
                            f"{found.prefix}")
        found.squeeze = found.trim = True
    found.charsmap = chain(steps)
    if len(kinds) == 2:
        found.charsmap = chain([found.charsmap], white_space=True)
    # nmt_nfkc keeps U+0085, and in older files U+000B: tools/README.md names both
    kept = set(maps.SPACES) - set(maps.read(found.charsmap)) - set("\v\x85")
    if found.trim and len(kinds) < 2 and kept:
        raise NotPieces(f"the normalizer Strip, which strips also whitespace that the other "
                        f"normalizers keep, such as {brief(min(kept))}")
    return found


def class_steps(kind: str, charsmap: bytes) -> dict[str, Any]:
    """normalizer and pre_tokenizer of a class of OWN_BACKEND (transformers 5.24). charsmap: of its
    files; empty: none."""
    steps: list[dict[str, Any]] = []
    if kind == "SeamlessM4T":
        steps += [{"type": "Replace", "pattern": {"Regex": r"[\n\r\t]"}, "content": " "}, {"type": "NFKC"}]
    elif charsmap and kind != "MBart":
        steps.append({"type": "Precompiled",
                      "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    elif kind == "Pegasus":
        steps.append({"type": "Replace", "pattern": {"String": "\n"}, "content": " "})
    if kind in ("Pegasus", "MBart50", "SeamlessM4T") or kind == "Nllb" and charsmap:
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    before = [{"type": "WhitespaceSplit"}] if kind in ("T5", "MBart") else []
    return {"normalizer": {"type": "Sequence", "normalizers": steps},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, {"type": "Metaspace"}]}}


def chain(steps: list[bytes | maps.Rules], white_space: bool = False) -> bytes:
    """The charsmap that does one step after the other, and then makes a space of white space. One
    charsmap that leaves at most U+0085 of that stays as it is, as SentencePiece's own nmt_nfkc."""
    if len(steps) == 1 and isinstance(steps[0], bytes) and not white_space:
        return steps[0]
    if len(steps) > MOST_STEPS:
        raise ConvertError(f"tokenizer.json: {len(steps)} normalizers with tables, more than {MOST_STEPS}")
    try:
        import sentencepiece  # noqa: F401
    except ImportError:
        raise ConvertError("tokenizer.json has a normalizer whose table is in the package sentencepiece, and "
                           + install("sentencepiece")) from None
    rules: maps.Rules = {}
    for step in steps:
        rules = maps.chain(rules, maps.read(step) if isinstance(step, bytes) else step)
    if white_space:
        if isinstance(steps[-1], bytes) and set(maps.SPACES) - set(rules) <= {"\x85"}:
            return steps[-1]
        rules = maps.chain(rules, maps.SPACES)
    return maps.write(rules)


def added_tokens(tokenizer: dict[str, Any]) -> dict[int, dict[str, Any]]:
    found = {}
    for one in tokenizer.get("added_tokens") or []:
        check_kinds(one, {"id": "integer", "content": "text"}, "tokenizer.json: added_tokens")
        if one["id"] < 0:
            raise ConvertError(f"tokenizer.json: added_tokens: id is {one['id']}")
        found[one["id"]] = one
    return found


def pieces_of_tokenizer(tokenizer: dict[str, Any]) -> bytes:
    """The SentencePiece model that cuts as the tokenizer does; piece i has its id i."""
    model = tokenizer.get("model") or {}
    kind = model.get("type") or ("BPE" if "merges" in model else "Unigram")
    if kind not in ("Unigram", "BPE"):
        raise NotPieces(f"a {brief(kind).strip(chr(39))} model")
    rules = read_normalizer(tokenizer)
    byte_fallback = bool(model.get("byte_fallback"))
    scores = unigram_scores(model) if kind == "Unigram" else bpe_scores(model)
    unk = model.get("unk_id") if kind == "Unigram" else next(
        (at for at, (piece, _) in scores.items() if piece == model.get("unk_token")), None)
    if unk is None:
        raise NotPieces("no unknown token")
    added = added_tokens(tokenizer)
    check_gaps([*scores, *added], "tokenizer.json")
    if unk not in scores:
        raise ConvertError(f"tokenizer.json: unk_id is {brief(unk)}, of {len(scores)} pieces")
    pieces = []
    for at in range(max([*scores, *added]) + 1):
        piece, score = scores.get(at, (f"<unused {at}>", 0.0))
        piece_kind = NORMAL if at in scores else CONTROL if at in added else UNUSED
        if at in added:
            piece = added[at]["content"]
        elif byte_fallback and re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
            piece_kind = BYTE
        pieces.append((piece, score, UNKNOWN if at == unk else piece_kind))
    if rules.split:
        pieces = [(hidden(at) if crosses(piece) and piece_kind == NORMAL else piece, score, piece_kind)
                  for at, (piece, score, piece_kind) in enumerate(pieces)]
    return write_pieces(pieces, UNIGRAM if kind == "Unigram" else BPE, unk, rules.charsmap,
                        rules.prefix != "never", rules.squeeze, byte_fallback)


def crosses(piece: str) -> bool:
    """Whether a piece goes on after a space, so that a Metaspace which splits never lets a text have it."""
    return SPACE in piece[1:]


def hidden(at: int) -> str:
    """The spelling of a piece that no text has: in a normalized text there is no space."""
    return f"<crosses a space {at}>"


def unigram_scores(model: dict[str, Any]) -> dict[int, tuple[str, float]]:
    scores = {}
    for at, (piece, score) in enumerate(model["vocab"]):
        check_utf8(piece, f"tokenizer.json: piece {at}")
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not (
                abs(score) <= 1e30):
            raise ConvertError(f"tokenizer.json: the score of piece {at} is {brief(score)}")
        scores[at] = piece, float(score)
    return scores


def bpe_scores(model: dict[str, Any]) -> dict[int, tuple[str, float]]:
    """A merge's rank as the score of what it makes: SentencePiece merges the best score first. It
    merges any two pieces whose join is a piece, so a list of merges that leaves some of these out,
    or has them in another order, cuts otherwise and is refused."""
    vocab: dict[str, int] = model["vocab"]
    token_ids(vocab, "tokenizer.json: vocab")
    ranks: dict[str, int] = {}
    pairs: set[tuple[str, str]] = set()
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks.setdefault(left + right, rank)
        pairs.add((left, right))
    for piece in ranks:
        if len(piece) > LONGEST_PIECE:
            raise ConvertError(f"tokenizer.json: a merge makes a piece of {len(piece)} characters")
        for at in range(1, len(piece)):
            pair = piece[:at], piece[at:]
            if pair not in pairs and all(len(one) == 1 and one in vocab or one in ranks
                                         for one in pair):
                raise NotPieces(f"BPE merges without {' '.join(pair)}")
    last = len(model["merges"])
    return {at: (piece, -float(ranks.get(piece, last if len(piece) == 1 else 2 * last)))
            for piece, at in vocab.items()}


def joins_pieces(steps: list[dict[str, Any]]) -> bool:
    """Whether a decoder's steps join pieces as SentencePiece does."""
    kinds = [step.get("type") for step in steps]
    if kinds == ["Metaspace"]:
        return (steps[0].get("replacement", SPACE) == SPACE
                and steps[0].get("prepend_scheme", "always") != "never"
                and steps[0].get("add_prefix_space", True))
    if "ByteFallback" in kinds:
        kinds.remove("ByteFallback")
    replace, strip = steps[:1], steps[-1:]
    return (kinds == ["Replace", "Fuse", "Strip"] and replace[0].get("content") == " "
            and replace[0].get("pattern", {}).get("String") == SPACE
            and (strip[0].get("content"), strip[0].get("start"), strip[0].get("stop")) == (" ", 1, 0))


def template(tokenizer: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """The tokens that the tokenizer puts before and after a text."""
    for processor in parts(tokenizer.get("post_processor"), "processors"):
        if processor.get("type") == "TemplateProcessing":
            around: tuple[list[str], list[str]] = ([], [])
            after = 0
            for step in processor.get("single", []):
                if "Sequence" in step:
                    after = 1
                else:
                    around[after].append(step["SpecialToken"]["id"])
            return around
        if processor.get("type") in ("RobertaProcessing", "BertProcessing"):
            return [processor["cls"][0]], [processor["sep"][0]]
    return None
