#!/usr/bin/env python3
"""Translate dev pairs with build/translate and print BLEU and chrF by length of the source.

    python tools/train/scores.py model.safetensors dev.tsv clean.tsv [--tokenize zh] [--edges 12 25]

The output is a Markdown table. Each file has a row for greedy search and a row for beam 4 with length
penalty 1. The columns are all pairs, and the pairs by number of source characters; --edges sets the
limits. sacrebleu computes the scores. With --beside OTHER.safetensors the table also has the rows of
that model, and the p value of a paired bootstrap test of the two models.

--negations zh (or de) counts translations into English that say the opposite of the source. It chooses
--pairs sentences in which source and reference have a negation, and as many in which neither has one.
The table says how many translations of each group have a negation. The choice is random; the same
file and seed give the same choice.

--copies counts numbers in digits and words with a capital letter (mostly names). The table says how
many of those that source and reference share are also in the translation.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Iterator

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from pairs import NAME, NUMBER, Pair, read_pairs

NEGATIONS = {
    "en": re.compile(r"\b(not|no|never|nothing|nobody|none|neither|nor|cannot|nowhere|without)\b"
                     r"|n['’]t\b", re.IGNORECASE),
    "zh": re.compile("[不没沒別别无無未莫勿非]"),
    "de": re.compile(r"\b(nicht|kein\w*|nie|niemals|nichts|niemand\w*|weder|ohne|nirgend\w*)\b",
                     re.IGNORECASE),
}
WAYS = {"greedy": [], "beam 4": ["--beam", "4", "--length-penalty", "1"]}


def translate(program: str, model: str, sources: list[str], options: list[str]) -> list[str]:
    """Returns the translation of each source, by `program` with `options`."""
    run = subprocess.run([program, model, "--batch", "16", *options], check=True, text=True,
                         input="".join(s + "\n" for s in sources), stdout=subprocess.PIPE)
    return run.stdout.removesuffix("\n").split("\n")


def score(pairs: list[Pair], outputs: list[str], tokenize: str) -> str:
    """Returns "BLEU / chrF" of the outputs."""
    references = [[t for _, t in pairs]]
    return (f"{BLEU(tokenize=tokenize).corpus_score(outputs, references).score:.1f} / "
            f"{CHRF().corpus_score(outputs, references).score:.1f}")


def chance(a: list[str], b: list[str], pairs: list[Pair], tokenize: str) -> float:
    """Returns the p value of a paired bootstrap: the probability that chance alone makes a difference
    in BLEU as large as that between `a` and `b`."""
    test = PairedTest([("a", a), ("b", b)], {"BLEU": BLEU(tokenize=tokenize)},
                      [[t for _, t in pairs]], test_type="bs", n_samples=1000)
    return test()[1]["BLEU"][1].p_value


def negations(pairs: list[Pair], language: str, n: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Returns up to `n` pairs with a negation on both sides, and up to `n` without any."""
    rng = random.Random(seed)
    both, neither = ([(s, t) for s, t in pairs
                      if bool(NEGATIONS[language].search(s)) == bool(NEGATIONS["en"].search(t)) == is_so]
                     for is_so in (True, False))
    return rng.sample(both, min(n, len(both))), rng.sample(neither, min(n, len(neither)))


def each_way(args: argparse.Namespace, models: list[str], pairs: list[Pair]) -> Iterator[tuple[str, list[str]]]:
    """Yields (name of model and search, outputs) for each model, greedy and with beam 4."""
    for model in models:
        for name, options in WAYS.items():
            yield f"{model}, {name}", translate(args.translate, model, [s for s, _ in pairs], options)


def count_negations(args: argparse.Namespace, models: list[str]) -> None:
    """Prints the table of --negations."""
    print("| file, model | negation kept | negation added |\n|---|---|---|")
    for file in args.files:
        both, neither = negations(read_pairs(file), args.negations, args.pairs, args.seed)
        for name, outs in each_way(args, models, both + neither):
            says = [bool(NEGATIONS["en"].search(out)) for out in outs]
            kept, made = sum(says[:len(both)]), sum(says[len(both):])
            print(f"| {file}, {name} | {kept} of {len(both)} | {made} of {len(neither)} |", flush=True)


def copied(pattern: re.Pattern[str], text: str) -> Counter[str]:
    """Counts the matches of `pattern` that do not begin with a lower-case letter."""
    return Counter(word for word in pattern.findall(text) if not word[0].islower())


def count_copies(args: argparse.Namespace, models: list[str]) -> None:
    """Prints the table of --copies."""
    print("| file, model | numbers kept | names kept |\n|---|---|---|")
    for file in args.files:
        pairs = read_pairs(file)
        for name, outs in each_way(args, models, pairs):
            cells = []
            for pattern in (NUMBER, NAME):
                both = [copied(pattern, s) & copied(pattern, t) for s, t in pairs]
                kept = [words & copied(pattern, out) for words, out in zip(both, outs)]
                cells.append(" of ".join(str(sum(sum(words.values()) for words in each)) for each in (kept, both)))
            print(f"| {file}, {name} |", " | ".join(cells), "|", flush=True)


def main(argv: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="the model file")
    p.add_argument("files", nargs="+", metavar="TSV", help="files with lines \"source TAB reference\"")
    p.add_argument("--translate", metavar="PROGRAM", help="the translator (default build/translate)",
                   default=str(Path(__file__).resolve().parents[2] / "build/translate"))
    p.add_argument("--tokenize", default="13a",
                   help="sacrebleu's tokenizer for BLEU (default 13a; zh if the target is Chinese)")
    p.add_argument("--edges", type=int, nargs="*", default=[12, 25], metavar="CHARACTERS",
                   help="source lengths that end a column (default 12 25)")
    p.add_argument("--beside", metavar="MODEL", help="a second model to compare with")
    p.add_argument("--negations", choices=sorted(set(NEGATIONS) - {"en"}), metavar="LANGUAGE",
                   help="count negations instead; the source language, zh or de")
    p.add_argument("--copies", action="store_true", help="count kept numbers and names instead")
    p.add_argument("--pairs", type=int, default=100, metavar="N",
                   help="sentences in each group of --negations (default 100)")
    p.add_argument("--seed", type=int, default=1, help="seed of --negations (default 1)")
    args = p.parse_args(argv)
    models = [args.model, *([args.beside] if args.beside else [])]
    if args.negations:
        return count_negations(args, models)
    if args.copies:
        return count_copies(args, models)
    edges = [0, *args.edges, 10 ** 9]
    parts = [f"{a + 1} to {b}" for a, b in zip(edges, args.edges)] + [f"over {edges[-2]}"]
    print("BLEU / chrF | pairs |", " | ".join(["all", *parts]))
    for file in args.files:
        pairs = read_pairs(file)
        rows = [range(len(pairs)), *([i for i, (s, _) in enumerate(pairs) if a < len(s) <= b]
                                     for a, b in zip(edges, edges[1:]))]
        for name, options in WAYS.items():
            outs = [translate(args.translate, model, [s for s, _ in pairs], options)
                    for model in models]
            for model, out in zip(models, outs):
                cells = (score([pairs[i] for i in part], [out[i] for i in part], args.tokenize)
                         + f" ({len(part)})" if part else "-" for part in rows)
                print(f"| {file}, {f'{model}, ' if args.beside else ''}{name} |", " | ".join(cells),
                      flush=True)
            if args.beside:
                print(f"paired bootstrap: p = {chance(*outs, pairs, args.tokenize):.3f}")


if __name__ == "__main__":
    main()
