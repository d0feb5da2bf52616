"""charsmap.py: SentencePiece's rules that normalize texts, "precompiled_charsmap", as a dict and back.

A charsmap has the size of its trie (4 bytes), the trie, and the texts that its keys become, each with
a NUL at its end. A text is read from left to right, and at each place the longest key is replaced.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .untrusted import ConvertError

LARGEST, EACH = 12_000_000, 32  # bytes of all keys and texts, with some for each key; nfkc_cf has 10,000,000
LONGEST = 256  # bytes of a key; nfkc has 24
Rules = dict[str, str]

# What has Unicode's property White_Space, as tokenizers' WhitespaceSplit sees it.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B)))
SPACES: Rules = {one: " " for one in WHITE_SPACE if one != " "}
# The normalizer Nmt of tokenizers: controls are removed, other characters become a space.
NMT: Rules = {**{chr(at): "" for at in (*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F)},
              **dict.fromkeys("\t\n\f\r\u1680\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2581\ufeff\ufffd",
                              " ")}
# Characters that are newer than the Unicode of the normalizer NFKC of tokenizers (0.23), which keeps them.
NEWER = (range(0x32FF, 0x3300), range(0xA7F1, 0xA7F5), range(0xAB69, 0xAB6A),
         range(0x10781, 0x107BB), range(0x1CCD6, 0x1CCFA), range(0x1E030, 0x1E06E),
         range(0x1F16C, 0x1F16D), range(0x1FBF0, 0x1FBFA))


@functools.lru_cache(maxsize=4)
def read(charsmap: bytes) -> Rules:
    """The rules of a charsmap, which nobody changes. Keys may share their ends and their texts, so a small file can have
    rules without end: they are counted."""
    rules: Rules = {}
    written, spelled_texts = 0, functools.lru_cache(maxsize=None)(lambda begin, end: texts[begin:end].decode())
    if not charsmap:
        return rules
    size = int.from_bytes(charsmap[:4], "little")
    units = np.frombuffer(charsmap[4:4 + size], "<u4").astype(np.int64)
    texts = charsmap[4 + size:]
    nodes, keys = np.zeros(1, np.int64), [b""]
    letters = np.arange(1, 256)
    while len(nodes):  # one depth of the trie after the other
        unit = units[nodes]
        bases = nodes ^ ((unit >> 10) << ((unit & 512) >> 6))
        for at in np.flatnonzero(unit >> 8 & 1):
            begin = int(units[bases[at]]) & 0x7FFFFFFF
            end = texts.index(b"\0", begin)
            written += EACH + len(keys[at]) + end - begin
            if written > LARGEST:
                raise ConvertError(f"a charsmap of {len(charsmap)} bytes has too many rules, or too long ones")
            rules[keys[at].decode()] = spelled_texts(begin, end)
        found, spelled = [], []
        for begin in range(0, len(nodes), 1024):  # bounds the memory
            children = bases[begin:begin + 1024, None] ^ letters
            labels = units[np.minimum(children, len(units) - 1)] & 0x800000FF
            rows, columns = np.nonzero((labels == letters) & (children < len(units)))
            spelled += [keys[begin + row] + bytes([column + 1])
                        for row, column in zip(rows.tolist(), columns.tolist())]
            found.append(children[rows, columns])
            if EACH * len(spelled) + sum(map(len, keys)) > LARGEST or len(keys[0]) > LONGEST:
                raise ConvertError(f"a charsmap of {len(charsmap)} bytes has keys without end")
        nodes, keys = np.concatenate(found), spelled
    return rules


def write(rules: Rules) -> bytes:
    """The charsmap of rules, made by the package sentencepiece."""
    if not rules:
        return b""
    import sentencepiece
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    def spelled(text: str) -> str:
        return " ".join(f"{ord(one):X}" for one in text)

    sentencepiece.set_min_log_level(2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        path.write_text("".join(f"{spelled(key)}\t{spelled(to)}\n" for key, to in rules.items()))
        form = sentencepiece.SentencePieceNormalizer(rule_tsv=str(path))
    model = ModelProto.FromString(form.serialized_model_proto())
    return bytes(model.normalizer_spec.precompiled_charsmap)


def named(name: str) -> bytes:
    """The charsmap that SentencePiece has under a name, such as nfkc."""
    import sentencepiece
    from sentencepiece.sentencepiece_model_pb2 import ModelProto
    form = sentencepiece.SentencePieceNormalizer(rule_name=name)
    model = ModelProto.FromString(form.serialized_model_proto())
    return bytes(model.normalizer_spec.precompiled_charsmap)


def nfkc() -> Rules:
    """The rules of the normalizer NFKC of tokenizers."""
    return {key: to for key, to in read(named("nfkc")).items()
            if not any(ord(one) in newer for one in key for newer in NEWER)}


def apply(rules: Rules, texts: Iterable[str]) -> list[str]:
    """What the rules make of each text."""
    longest, found = max(map(len, rules), default=1), []
    made: Rules = {}  # most texts are there many times, and need the memory of one
    for text in texts:
        out, at = made.get(text, ""), 0
        if out:
            found.append(out)
            continue
        while at < len(text):
            size = next((n for n in range(min(longest, len(text) - at), 0, -1)
                         if text[at:at + n] in rules), 0)
            out += rules[text[at:at + size]] if size else text[at]
            at += size or 1
        found.append(made.setdefault(text, out))
    return found


def chain(first: Rules, then: Rules) -> Rules:
    """The rules that do what first and then do, one after the other. What a rule of first leaves beside
    other characters is not joined with them."""
    if not first:
        return then
    both = dict(zip(first, apply(then, first.values())))
    for key, to in then.items():
        if not any(one in first for one in key):
            both.setdefault(key, to)
    return both
