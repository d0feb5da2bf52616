#!/usr/bin/env python3
"""Compares SentencePiece in transformer.h with the sentencepiece package.

On thousands of lines in many scripts the script compares the ids of a text, the bytes that each id comes
from, and the text of the ids. None may differ. Then it measures the speed of both.

    python tests/compare/compare_sentencepiece.py [MODEL ...]

Without MODEL the script uses the shipped models, and the models in ../shared/real if there are any. Needs cc
and sentencepiece (0.2.3). The last line is "N passed, N failed".
"""
import argparse
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import sentencepiece

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/tools")]
SHARED = pathlib.Path(os.environ.get("SHARED", ROOT.parent / "shared"))
LINES = 1000


def tsv(name, column):
    """Returns a column of the parallel text in ../shared/data, or an empty list."""
    path = SHARED / "data" / name
    return [line.split("\t")[column] for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


class Writer:
    """Returns lines of one script: words of syllables from ranges of characters, and real text where there is
    some."""

    def __init__(self, seed, letters, marks="", stops=".,!?", space=" ", text=()):
        self.random = random.Random(seed)
        self.letters, self.marks, self.stops, self.space, self.text = letters, marks, stops, space, text
        self.words = [self.word() for _ in range(400)]

    def word(self):
        r = self.random
        return "".join(r.choice(self.letters) + (r.choice(self.marks) if self.marks and r.random() < 0.4 else "")
                       for _ in range(r.randint(1, 9)))

    def line(self):
        r = self.random
        if self.text and r.random() < 0.5:
            return r.choice(self.text)
        words = [r.choice(self.words) if r.random() < 0.7 else self.word() for _ in range(r.randint(1, 30))]
        return self.space.join(words) + r.choice(self.stops)


def span(*pairs):
    return [chr(c) for a, b in pairs for c in range(a, b + 1) if not 0xD800 <= c < 0xE000]


class Pieces:
    """Returns lines that join parts which a function makes."""

    def __init__(self, seed, part, most=40):
        self.random, self.part, self.most = random.Random(seed), part, most

    def line(self):
        return "".join(self.part(self.random) for _ in range(self.random.randint(0, self.most)))


def emoji(r):
    people, tones = span((0x1F468, 0x1F469), (0x1F476, 0x1F47C)), span((0x1F3FB, 0x1F3FF))
    return r.choice([
        lambda: r.choice(people) + r.choice(tones + [""]),
        lambda: "\u200d".join(r.choice(people) for _ in range(r.randint(2, 4))),
        lambda: "".join(chr(0x1F1E6 + r.randrange(26)) for _ in range(2)),
        lambda: r.choice(span((0x1F300, 0x1F64F))) + r.choice(["", "\ufe0f", "\ufe0e"]),
        lambda: r.choice("0123456789#*") + "\ufe0f\u20e3",
        lambda: r.choice([" ", "  ", "ok", " so ", "!"]),
    ])()


LATIN = "abcdefghijklmnopqrstuvwxyzäöüßéèàçñøåœłžščőABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜÉ"
SCRIPTS = {
    "Latin": Writer(1, LATIN, text=tsv("de-en/dev.tsv", 0) + tsv("de-en/dev.tsv", 1)),
    "Cyrillic": Writer(2, span((0x410, 0x44F), (0x400, 0x40F), (0x450, 0x45F)), "\u0301\u0306"),
    "Chinese": Writer(3, span((0x4E00, 0x9FA5), (0x3400, 0x3500)), stops="。！？，", space="", text=tsv("zh-en/dev.tsv", 0)),
    "Japanese": Writer(4, span((0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x4FFF), (0xFF66, 0xFF9D)), "ー\u3099\u309a\uff9e", "。、「」", ""),
    "Arabic": Writer(5, span((0x621, 0x64A), (0xFB50, 0xFBB0), (0xFE80, 0xFEFC)), "\u064b\u064e\u0651\u0670\u0640", "؟،.\ufdfa"),
    "Devanagari": Writer(6, span((0x904, 0x939), (0x958, 0x961)), "\u093c\u093e\u093f\u094d\u0902\u200d", "।.?"),
    "Emoji": Pieces(7, emoji),
    "Full-width": Writer(8, span((0xFF01, 0xFF5E), (0xFFA0, 0xFFDC), (0x2460, 0x24FF), (0x3300, 0x33FF)), "ａ１", "．！", "\u3000"),
    "Combining": Writer(9, LATIN + "ΑΒΓαβγאבגกขค", span((0x300, 0x36F), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0))),
    "Control": Pieces(10, lambda r: r.choice(span((0, 0x1F), (0x7F, 0xA0), (0x200B, 0x200F), (0x2028, 0x202F), (0x2060, 0x206F),
                                                  (0xFEFF, 0xFEFF), (0xAD, 0xAD), (0xFFF9, 0xFFFD)) + list("ab c▁"))),
    "Spaces": Pieces(11, lambda r: r.choice([" ", "  ", " " * r.randint(1, 50), "\t", "\n", "\r\n", "\u3000", "\u00a0", "\u2003", "▁", "▁▁", "a",
                                             "the", "Haus", "猫", "<s>", "</s>", "<unk>", "<0x0A>"])),
    "Unicode": Pieces(12, lambda r: chr(r.choice([r.randrange(0x80), r.randrange(0x800), r.randrange(0xD800), r.randrange(0xE000, 0x110000)])),
                      80),
}


def compile_program(folder):
    program = pathlib.Path(folder) / "spm_ids"
    subprocess.run([os.environ.get("CC", "cc"), "-std=c99", "-O2", "-I.", "-Itools/common", "-Itests", "-DTRANSFORMER_IMPLEMENTATION", "tests/compare/spm_ids.c", "-o", program, "-lm"],
                   cwd=ROOT, check=True)
    return program


def run(program, model, lines, *more):
    """Returns ids, spans and decoded bytes of each line, and the times that the program prints."""
    texts = [line.encode() for line in lines]
    done = subprocess.run([program, model, *more], input=b"".join(struct.pack("<I", len(t)) + t for t in texts), capture_output=True)
    if done.returncode:
        sys.exit(f"{model}: {done.stderr.decode()}")
    out, at, results = done.stdout, 0, []
    for _ in texts:
        n, = struct.unpack_from("<I", out, at)
        ids = list(struct.unpack_from(f"<{n}i", out, at + 4))
        ends = struct.unpack_from(f"<{2 * n}I", out, at + 4 + 4 * n)
        size, = struct.unpack_from("<I", out, at + 4 + 12 * n)
        at += 8 + 12 * n + size
        results.append((ids, list(zip(ends[::2], ends[1::2])), out[at - size:at]))
    return results, [float(line) for line in done.stderr.split()]


def compare(program, models):
    """Prints the table of models and scripts. Returns how many rows are equal, and how many are not."""
    good = bad = 0
    rows = {name: [writer.line() for _ in range(LINES)] for name, writer in SCRIPTS.items()}
    print(f"{'model':26} {'script':12} {'lines':>6} {'ids':>8} {'ids equal':>10} {'spans equal':>12} {'texts equal':>12}")
    for model in models:
        package = sentencepiece.SentencePieceProcessor(model_file=str(model))
        for script, lines in rows.items():
            results, _ = run(program, model, lines)
            ids = same_ids = same_spans = same_texts = 0
            for line, (got, spans, text) in zip(lines, results):
                both = package.encode(line, return_type="offset_mapping", return_bytes=True)
                expected, wanted = both["ids"], both["offsets"]
                decoded = package.decode(expected).encode() if expected else b""
                ids += len(expected)
                same_ids += len(expected) if got == expected else 0
                same_spans += len(wanted) if spans == wanted else 0
                same_texts += text == decoded
                if spans != wanted:
                    print(f"  {line!r}\n    package {wanted}\n    here    {spans}")
                if got != expected or text != decoded:
                    print(f"  {line!r}\n    package {expected} {decoded!r}\n    here    {got} {text!r}")
            print(f"{model.name:26} {script:12} {len(lines):6} {ids:8} {same_ids:10} {same_spans:12} {same_texts:12}", flush=True)
            if same_ids == ids and same_spans == ids and same_texts == len(lines):
                good += 1
            else:
                bad += 1
    return good, bad


def speed(program, models, passes):
    """Measures megabytes of text a second in one thread, as the median of the passes. The package builds a
    Python list for every line, which costs least on long lines. "list" is one call for all lines, which
    saves calls but not lists."""
    short = (tsv("de-en/train.tsv", 0) + tsv("de-en/train.tsv", 1))[:20000] or [SCRIPTS["Latin"].line() for _ in range(20000)]
    chinese = tsv("zh-en/train.tsv", 0)[:20000] or [SCRIPTS["Chinese"].line() for _ in range(20000)]
    texts = {"short Latin": short, "long Latin": [" ".join(short[i:i + 400]) for i in range(0, len(short), 400)],
             "short Chinese": chinese, "long Chinese": ["".join(chinese[i:i + 400]) for i in range(0, len(chinese), 400)]}
    print(f"\n{'model':26} {'text':14} {'here':>10} {'package':>10} {'list':>10}   MB/s, medians of {passes}")
    for model in models:
        package = sentencepiece.SentencePieceProcessor(model_file=str(model))
        for name, lines in texts.items():
            size = sum(len(line.encode()) for line in lines) / 1e6
            here = statistics.median(run(program, model, lines, str(passes))[1])
            calls, whole = [], []
            for _ in range(passes):
                begin = time.process_time()
                for line in lines:
                    package.encode(line)
                middle = time.process_time()
                package.encode(lines, num_threads=1)
                calls.append(middle - begin), whole.append(time.process_time() - middle)
            print(f"{model.name:26} {name:14} {size / here:10.1f} {size / statistics.median(calls):10.1f} {size / statistics.median(whole):10.1f}",
                  flush=True)


def shipped(folder):
    """Writes the SentencePiece models of the shipped model files into files of their own."""
    from convert.untrusted import read_safetensors

    for file in sorted((ROOT / "examples" / "models").glob("*.safetensors")):
        for name, tensor in read_safetensors(file)[0].items():
            if name.endswith("_sentencepiece"):
                path = pathlib.Path(folder) / f"{file.stem}.{name[:3]}.model"
                path.write_bytes(tensor.tobytes())
                yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--passes", type=int, default=5, help="of the speed comparison; 0: none")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = args.models or [*shipped(folder), *sorted((SHARED / "real").glob("*/*.spm")),
                                 *sorted((SHARED / "real").glob("*/*.model"))]
        program = compile_program(folder)
        good, bad = compare(program, models)
        if args.passes:
            speed(program, models, args.passes)
    left = "" if args.models or (SHARED / "real").is_dir() else ", 1 skipped"
    if left:
        print(f"    skipped: other people's models: no {SHARED / 'real'}")
    print(f"{good} passed, {bad} failed{left}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
