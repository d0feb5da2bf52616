#!/usr/bin/env python3
"""Times students with random weights, as large as Firefox's, in fxtranslate and in build/translate, on one core:

    python tests/tools/time_students.py VOCABULARY.spm FOLDER [tiny|base-memory|base]   writes and converts one
    python tests/tools/time_students.py FOLDER                                          times both, alternating

The second command needs make build/translate. It stops where a program fails, or does not print one text per
line.

Lines have 31 pieces and the end token, which is 32 words here. Random weights rarely give the end token, so
both programs run to fxtranslate's limit of 68 tokens, and build/translate runs once more to 32. fxtranslate
takes one line at a time, build/translate batches of 1 and of 32. The times are CPU time without loading,
medians of three turns, with and without a shortlist, whose lists overlap as those of real text do."""

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from marian_student import Student

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401
from convert import main as convert  # noqa: E402

TRANSLATE = ROOT / "build" / "translate"
LENGTH, MOST, LINES, TURNS = 32, 2 * 32 + 4, 64, 3
SIZES = {"tiny": (256, 6, (6, 2)), "base-memory": (384, 4, (6, 4)), "base": (512, 4, (6, 2))}  # width, feed-forward, layers
MODEL, SHORTLIST = "model.xxyy.intgemm.alphas.bin", "lex.xxyy.s2t.bin"


def write(vocabulary, folder, size="tiny"):
    import sentencepiece
    pieces = vocabulary.read_bytes()
    sp = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    never = [i for i in range(sp.vocab_size()) if sp.is_unknown(i) or sp.is_control(i) or sp.is_byte(i)]
    width, feed_forward, layers = SIZES[size]
    student = Student(sp.vocab_size(), width, 1, layers, never=never, feed_forward=feed_forward)
    random = np.random.default_rng(1)
    words = [i for i in range(sp.vocab_size()) if sp.id_to_piece(i)[1:].isalpha()
             and sp.encode(sp.decode([i])) == [i]]
    lines = []
    while len(lines) < LINES:
        ids = [int(i) for i in random.choice(words, LENGTH - 1)]
        if sp.encode(sp.decode(ids)) == ids:
            lines.append(sp.decode(ids))
    bias = student.values["decoder_ff_logit_out_b"]
    bias[0, sp.eos_id()] = -1e4
    student.put("decoder_ff_logit_out_b", bias)
    student.greedy([*sp.encode(lines[0]), sp.eos_id()], -1, 8)  # for the static scales
    student.write(folder / MODEL)
    (folder / SHORTLIST).write_bytes(student.shortlist(50, 100, 8)[0])
    (folder / "vocab.xxyy.spm").write_bytes(pieces)
    (folder / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    if convert.main([str(folder), str(folder / "model.safetensors")]):
        sys.exit(f"{folder}: not converted")


def measure(folder):
    lines = (folder / "lines.txt").read_text(encoding="utf-8").splitlines()[:LINES]

    def spent():
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    def ours(text, batch, *options):
        begun = spent()
        done = subprocess.run([TRANSLATE, folder / "model.safetensors", "--batch", str(batch), *options],
                              input=text, stdout=subprocess.PIPE, text=True)
        seconds, texts = spent() - begun, done.stdout.split("\n")[:-1]
        if done.returncode or len(texts) != text.count("\n"):
            sys.exit(f"{TRANSLATE}: status {done.returncode}, {len(texts)} texts of {text.count(chr(10))} lines: not timed")
        return seconds, texts

    whole = "".join(line + "\n" for line in lines)
    ours(whole, 32)  # A program that does not run stops the script here.
    import fxtranslate
    files = [(folder / name).read_bytes() for name in (MODEL, "vocab.xxyy.spm", "vocab.xxyy.spm")]
    engines = [fxtranslate.Translator(*files),
               fxtranslate.Translator(*files, (folder / SHORTLIST).read_bytes())]
    times = {}
    for turn in range(TURNS):
        for engine, options in zip(engines, ((), ("--shortlist",))):
            begun = time.process_time()
            theirs = [engine.translate(line) for line in lines]
            if not all(theirs):
                sys.exit(f"fxtranslate gave no text for {theirs.count('')} of {len(lines)} lines: not timed")
            name = "".join(options)
            times.setdefault((f"fxtranslate, {engine.backend()}", name, MOST), []).append(time.process_time() - begun)
            for batch in (1, 32):
                for most in (LENGTH, MOST):
                    limit = *options, "--max-length", str(most)
                    seconds, texts = ours(whole, batch, *limit)
                    times.setdefault((f"here, batch {batch}", name, most), []).append(seconds - ours("\n", batch, *limit)[0])
            same = sum(a == b for a, b in zip(texts, theirs))
            print(f"turn {turn + 1} {name}: {same} of {len(lines)} texts are equal", flush=True)
    for (name, options, length), seconds in times.items():
        seconds = statistics.median(seconds)
        print(f"{name:20} {options:11} {LENGTH} in, {length} out: {LENGTH * len(lines) / seconds:6.0f} words/s in, "
              f"{length * len(lines) / seconds:6.0f} out, {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 2, 3) or arguments[0].startswith("-") or arguments[2:] not in ([], *([one] for one in SIZES)):
        sys.exit(__doc__)
    if len(arguments) > 1:
        Path(arguments[1]).mkdir(exist_ok=True)
        write(Path(arguments[0]), Path(arguments[1]), *arguments[2:])
    else:
        measure(Path(arguments[0]))
