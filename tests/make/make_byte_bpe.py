#!/usr/bin/env python3
"""Makes tests/data/byte_bpe.safetensors: small byte-level BPE tokenizers, trained on generated text, and the
results of the package tokenizers (0.23) for some lines.

    python tests/make/make_byte_bpe.py

Each case has NAME.vocabulary, .merges and .added as model files have them; .ids, .spans and .decoded of all
lines, concatenated; .id_ends and .decoded_ends; and .grown and .grown_ends: the decoded texts of the last
line's first ids, from none to all. The lines are in "lines" and "line_ends". "classes" has the runs of
characters of one class in tokenizers' pre-tokenizer: first character * 4 + 0 other, 1 letter, 2 number, 3
whitespace. Needs tokenizers, numpy and safetensors.
"""
import pathlib
import sys

import numpy
import tokenizers
from make_sentencepiece import LINES, sentences
from safetensors.numpy import save_file

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tools"), str(pathlib.Path(__file__).resolve().parents[2] / "tests/tools")]
import json  # noqa: E402
from convert import tokenizer_files  # noqa: E402
from convert.modelfile import Model, vocabulary_text  # noqa: E402

OUT = pathlib.Path(__file__).parent / "data" / "byte_bpe.safetensors"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
LINES = LINES + [
    "I'm, you're, he's, we've, she'd, they'll, don't; I'M YOU'RE ''s 'tis 'll", "x 's 're  've", "12½ Ⅷ ٣ 1a2", "a  b   c \t d\n\n e", " \u00a0x\u2028 y\u0085z",
    "  ", "\n", " a", "a ", "!! ?! …", "<mask>", "a <mask> b", "a  <mask>  b", "<mask><mask> <mask>", "<s>x</s>", "x<extra>  y <extra>", "<extra", "Straße Straßen",
    "\U0001E4D0\U000323AF\u1C89 \U0001D7D8", "猫猫猫", "naïve café", "ab" * 40, "a" * 100, "👩🏽‍🚀 é猫"]


def case(size, prefix):
    one = tokenizers.AddedToken
    tokenizer = tokenizers.ByteLevelBPETokenizer(add_prefix_space=prefix)
    tokenizer.train_from_iterator(sentences(3, 400), size, min_frequency=2, special_tokens=SPECIAL, show_progress=False)
    tokenizer._tokenizer.add_special_tokens([one("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer._tokenizer.add_tokens([one("<extra>", lstrip=True, rstrip=True, normalized=False), one("Straße", normalized=False)])
    tokenizer._tokenizer.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    return tokenizer._tokenizer


def classes():
    cut = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    runs, last = [], -1
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            kind = 0
        else:
            kind = next((kind for kind, before in ((1, "a"), (2, "1"), (0, "!")) if len(cut(before + chr(c))) == 1), 3)
        if kind != last:
            runs.append(4 * c + kind)
        last = kind
    return runs


def ends(parts):
    return numpy.cumsum([len(part) for part in parts], dtype=numpy.int32)


def joined(parts):
    return numpy.frombuffer(b"".join(parts), numpy.uint8)


def main():
    lines = [line.encode() for line in LINES]
    tensors = {"lines": joined(lines), "line_ends": ends(lines), "classes": numpy.array(classes(), numpy.uint32)}
    for name, size, prefix in (("plain", 600, False), ("prefix", 420, True)):
        tokenizer = case(size, prefix)
        ids = {at: token for token, at in tokenizer.get_vocab(with_added_tokens=True).items()}
        _, merges, added = tokenizer_files.byte_level(json.loads(tokenizer.to_str()), len(ids))
        encoded = [tokenizer.encode(line, add_special_tokens=False) for line in LINES]
        decoded = [tokenizer.decode(one.ids).encode() for one in encoded]
        grown = [tokenizer.decode(encoded[-1].ids[:n]).encode() for n in range(len(encoded[-1].ids) + 1)]
        spans = []
        for line, one in zip(LINES, encoded):
            at = [len(line[:n].encode()) for n in range(len(line) + 1)]
            spans += [(at[begin], at[end]) for begin, end in one.offsets]
        tensors.update({f"{name}.vocabulary": numpy.frombuffer(vocabulary_text(tokenizer_files.lines_of(ids), name, Model()), numpy.uint8),
                        f"{name}.merges": merges, f"{name}.added": added, f"{name}.ids": numpy.concatenate([numpy.array(one.ids, numpy.int32) for one in encoded]),
                        f"{name}.id_ends": ends([one.ids for one in encoded]), f"{name}.spans": numpy.array(spans, numpy.int32),
                        f"{name}.decoded": joined(decoded), f"{name}.decoded_ends": ends(decoded), f"{name}.grown": joined(grown),
                        f"{name}.grown_ends": ends(grown)})
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
