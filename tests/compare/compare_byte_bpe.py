#!/usr/bin/env python3
"""Compares byte-level BPE in transformer.h with the package tokenizers.

The script compares ids and texts of 1,000 lines in each of 12 scripts and of random bytes and Unicode, spans
where tokenizers trims them, and the speed of both.

    compare_byte_bpe.py [FOLDER ...] [--passes N]

FOLDER has vocab.json and merges.txt, or tokenizer.json. Without FOLDER the script trains tokenizers on lines
of the 12 scripts, and on ../shared/data if that is there. Needs cc and tokenizers. The last line is "N
passed, N failed".
"""
import argparse
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import tokenizers
from compare_sentencepiece import LINES, SCRIPTS, compile_program, run, tsv

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tools"), str(pathlib.Path(__file__).resolve().parents[2] / "tests/tools")]
import numpy as np  # noqa: E402
from convert import tokenizer_files  # noqa: E402
from convert.modelfile import Model, vocabulary_text, write_model  # noqa: E402

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def special(lstrip=True):
    """Returns RoBERTa's added tokens, with a mask that includes the whitespace on its left, and tokens with
    other flags."""
    one = tokenizers.AddedToken
    return ([one(token, special=True, normalized=False) for token in SPECIAL]
            + [one("<mask>", lstrip=lstrip, special=True, normalized=False), one("<mask>!", rstrip=True, special=False, normalized=False),
               one("<extra>", lstrip=True, rstrip=True, special=True, normalized=False), one("Straße", normalized=False),
               one("a b", normalized=False), one("word", normalized=False, single_word=True), one("b w", single_word=True),
               one("猫", rstrip=True, single_word=True)])


def trained(lines, size, prefix=False):
    tokenizer = tokenizers.ByteLevelBPETokenizer(add_prefix_space=prefix, trim_offsets=True)
    tokenizer.train_from_iterator(lines, size, min_frequency=2, special_tokens=SPECIAL, show_progress=False)
    tokenizer.add_tokens(special()[4:])
    tokenizer._tokenizer.add_special_tokens([token for token in special() if token.special])
    tokenizer._tokenizer.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    return tokenizer._tokenizer


def own_tokenizers():
    scripts = [writer.line() for writer in SCRIPTS.values() for _ in range(300)]
    german = tsv("de-en/train.tsv", 0)[:20000] + tsv("de-en/train.tsv", 1)[:20000] + tsv("zh-en/train.tsv", 0)[:10000]
    return {"scripts 3000": trained(scripts, 3000), "scripts, prefix space": trained(scripts, 3000, True),
            "bytes alone": trained(["a"], 261), "text 16000": trained(german or scripts, 16000)}


def read(folder):
    if (folder / "tokenizer.json").exists():
        return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = tokenizers.ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), trim_offsets=True)
    return tokenizer._tokenizer


def write(tokenizer, path):
    """Makes a model around the tokenizer; the converter reads tokenizer.json."""
    described = json.loads(tokenizer.to_str())
    ids = {at: token for token, at in tokenizer.get_vocab(with_added_tokens=True).items()}
    rows, model, config = max(ids) + 1, Model(), {"n_heads": 1, "src_text": "byte_bpe", "tgt_text": "byte_bpe"}
    prefix, merges, added = tokenizer_files.byte_level(described, rows)
    if prefix:
        config["prefix_space"] = "add"
    tensors = {"src_embedding.weight": np.zeros((rows, 2), np.float32), "src_merges": merges, "src_added": added,
               "src_vocabulary": np.frombuffer(vocabulary_text(tokenizer_files.lines_of(ids, rows), "vocab", model), np.uint8)}
    for stack, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "multihead_attn"])):
        for attention in attentions:
            tensors[f"{stack}.layers.0.{attention}.in_proj_weight"] = np.zeros((6, 2), np.float32)
        for name in ("linear1", "linear2"):
            tensors[f"{stack}.layers.0.{name}.weight"] = np.zeros((2, 2), np.float32)
    write_model(path, tensors, config)


def more_lines():
    """Returns rows besides the scripts: random bytes that are valid UTF-8; contractions, spaces and added
    tokens; one long word."""
    r = random.Random(13)
    letters = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "a",
               "word", "Straße", "a b", "12", "½", "Ⅷ", "٣", "!", "…", "é", "e\u0301", "猫", "<s>", "</s>", "<mask>", "<mask>!", " <mask>", "<extra>",
               "<pad>", "<unk>", "<", ">", "\U0001E4D0", "\u1C89", "\U000323AF", "\U0001D7D8"]
    alphabet = "ab'\u00e9 1"
    return {"random bytes": [bytes(r.choices(range(256), k=r.randint(0, 60))).decode("utf-8", "replace") for _ in range(LINES)],
            "random Unicode": ["".join(chr(r.choice([r.randrange(0xD800), r.randrange(0xE000, 0x110000)])) for _ in range(r.randint(0, 60)))
                               for _ in range(LINES)],
            "words and spaces": ["".join(r.choices(letters, k=r.randint(0, 20))) for _ in range(4 * LINES)],
            "long words": ["".join(r.choices(alphabet[:r.randint(1, 6)], k=r.randint(100, 3000))) for _ in range(50)],
            "each character": ["".join(f"a{chr(c)}1" for c in range(at, at + 128)) for at in range(0, 0x110000, 128)
                               if not 0xD800 <= at < 0xE000]}


def compare(program, package, path, name, rows):
    good = bad = 0
    trims = "prefix" not in name  # tokenizers trims its own space here, and sometimes a letter
    for script, lines in rows.items():
        results, _ = run(program, path, lines)
        ids = same_ids = same_spans = same_texts = 0
        for line, (got, spans, text) in zip(lines, results):
            encoded = package.encode(line, add_special_tokens=False)
            at = [0]  # positions of the characters in bytes
            for one in line:
                at.append(at[-1] + len(one.encode()))
            wanted = [(at[begin], at[end]) for begin, end in encoded.offsets]
            decoded = package.decode(encoded.ids, skip_special_tokens=True).encode()
            ids += len(encoded.ids)
            same_ids += len(encoded.ids) * (got == encoded.ids)
            same_spans += len(encoded.ids) * (spans == wanted)
            same_texts += text == decoded
            if got != encoded.ids or text != decoded or (trims and spans != wanted) and len(line) < 1000:
                print(f"  {line!r}\n    package {encoded.ids} {wanted} {decoded!r}\n    here    {got} {spans} {text!r}")
        print(f"{name:24} {script:18} {len(lines):6} {ids:8} {same_ids:10} {same_spans if trims else '-':>12} {same_texts:12}", flush=True)
        same = same_ids == ids and same_texts == len(lines) and (same_spans == ids or not trims)
        good, bad = good + same, bad + (not same)
    return good, bad


def decode(program, package, path, name):
    """Compares the texts of random ids, in which partial characters are next to each other."""
    r = random.Random(14)
    lines = [r.choices(range(package.get_vocab_size()), k=r.randint(0, 30)) for _ in range(4 * LINES)]
    data = b"".join(struct.pack(f"<I{len(ids)}i", 4 * len(ids), *ids) for ids in lines)
    out = subprocess.run([program, path, "IDS"], input=data, stdout=subprocess.PIPE, check=True).stdout
    same = at = 0
    for ids in lines:
        size, = struct.unpack_from("<I", out, at)
        text, wanted = out[at + 4:at + 4 + size], package.decode(ids, skip_special_tokens=True).encode()
        at, same = at + 4 + size, same + (text == wanted)
        if text != wanted:
            print(f"  {ids}\n    package {wanted!r}\n    here    {text!r}")
    print(f"{name:24} {'random ids':18} {len(lines):6} {sum(map(len, lines)):8} {'':10} {'':12} {same:12}", flush=True)
    return same == len(lines)


def speed(program, package, path, name, passes):
    """Measures megabytes of text a second in one thread, as medians of processor time."""
    short = (tsv("de-en/train.tsv", 0) + tsv("de-en/train.tsv", 1))[:20000] or [SCRIPTS["Latin"].line() for _ in range(20000)]
    chinese = tsv("zh-en/train.tsv", 0)[:20000] or [SCRIPTS["Chinese"].line() for _ in range(20000)]
    for text, lines in {"short Latin": short, "long Latin": [" ".join(short[i:i + 400]) for i in range(0, len(short), 400)],
                        "short Chinese": chinese, "one word": ["a" * 100000]}.items():
        size = sum(len(line.encode()) for line in lines) / 1e6
        here = statistics.median(run(program, path, lines, str(passes))[1])
        times = []
        for _ in range(passes):
            begin = time.process_time()
            package.encode_batch_fast(lines, add_special_tokens=False)
            times.append(time.process_time() - begin)
        print(f"{name:24} {text:18} {size / here:10.1f} {size / statistics.median(times):10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--passes", type=int, default=5, help="of the speed comparison; 0: none")
    args = parser.parse_args()
    packages = {str(folder): read(folder) for folder in args.folders} or own_tokenizers()
    rows = {name: [writer.line() for _ in range(LINES)] for name, writer in SCRIPTS.items()}
    rows.update(more_lines())
    good = bad = 0
    print(f"{'tokenizer':24} {'lines of':18} {'lines':>6} {'ids':>8} {'ids equal':>10} {'spans equal':>12} {'texts equal':>12}")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program(folder)
        paths = {name: pathlib.Path(folder) / f"{at}.safetensors" for at, name in enumerate(packages)}
        for name, package in packages.items():
            write(package, paths[name])
            same = compare(program, package, paths[name], name, rows)
            rows.pop("each character", None)  # one pass is enough
            decoded = decode(program, package, paths[name], name)
            good, bad = good + same[0] + decoded, bad + same[1] + (not decoded)
        if args.passes:
            print(f"\n{'tokenizer':24} {'text':18} {'here':>10} {'package':>10}   MB/s, medians of {args.passes}")
            for name, package in packages.items():
                speed(program, package, paths[name], name, args.passes)
    print(f"{good} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
