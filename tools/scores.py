#!/usr/bin/env python3
"""BLEU and chrF (sacrebleu) of what build/translate makes of dev pairs, by length of the source.

    python tools/scores.py model.safetensors dev.tsv clean.tsv [--tokenize zh] [--edges 12 25]

Rows of a Markdown table: every file greedy and with beam 4 and length penalty 1, whole and by
characters of the source, up to and over the --edges. With --beside OTHER.safetensors also that
model's, and sacrebleu's paired bootstrap of the two.

--negations zh (or de): into English, who says the opposite? Of --pairs sentences whose source and
reference both have a word that negates, and as many where neither has, how often the translation
lacks one or has one; random, the same for the same file and seed.

--copies: of the numbers in digits, and of the words with a capital, that source and reference both
have, how many the translation has, letter for letter: names, nearly all, where languages share them.
"""
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
    run = subprocess.run([program, model, "--batch", "16", *options], check=True, text=True,
                         input="".join(s + "\n" for s in sources), stdout=subprocess.PIPE)
    return run.stdout.removesuffix("\n").split("\n")


def score(pairs: list[Pair], outputs: list[str], tokenize: str) -> str:
    references = [[t for _, t in pairs]]
    return (f"{BLEU(tokenize=tokenize).corpus_score(outputs, references).score:.1f} / "
            f"{CHRF().corpus_score(outputs, references).score:.1f}")


def chance(a: list[str], b: list[str], pairs: list[Pair], tokenize: str) -> float:
    """p of the paired bootstrap: how often chance alone would set b's BLEU so far off a's."""
    test = PairedTest([("a", a), ("b", b)], {"BLEU": BLEU(tokenize=tokenize)},
                      [[t for _, t in pairs]], test_type="bs", n_samples=1000)
    return test()[1]["BLEU"][1].p_value


def negations(pairs: list[Pair], language: str, n: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Pairs that say no on both sides, and on neither."""
    rng = random.Random(seed)
    both, neither = ([(s, t) for s, t in pairs
                      if bool(NEGATIONS[language].search(s)) == bool(NEGATIONS["en"].search(t)) == is_so]
                     for is_so in (True, False))
    return rng.sample(both, min(n, len(both))), rng.sample(neither, min(n, len(neither)))


def each_way(args: argparse.Namespace, models: list[str], pairs: list[Pair]) -> Iterator[tuple[str, list[str]]]:
    """Every model's outputs, greedy and with beam 4, under their names."""
    for model in models:
        for name, options in WAYS.items():
            yield f"{model}, {name}", translate(args.translate, model, [s for s, _ in pairs], options)


def count_negations(args: argparse.Namespace, models: list[str]) -> None:
    print("| file, model | says no, as the source does | says no, unlike the source |\n|---|---|---|")
    for file in args.files:
        both, neither = negations(read_pairs(file), args.negations, args.pairs, args.seed)
        for name, outs in each_way(args, models, both + neither):
            says = [bool(NEGATIONS["en"].search(out)) for out in outs]
            kept, made = sum(says[:len(both)]), sum(says[len(both):])
            print(f"| {file}, {name} | {kept} of {len(both)} | {made} of {len(neither)} |", flush=True)


def copied(pattern: re.Pattern[str], text: str) -> Counter[str]:
    """Numbers, or words with a capital."""
    return Counter(word for word in pattern.findall(text) if not word[0].islower())


def count_copies(args: argparse.Namespace, models: list[str]) -> None:
    print("| file, model | numbers kept | names kept |\n|---|---|---|")
    for file in args.files:
        pairs = read_pairs(file)
        for name, outs in each_way(args, models, pairs):
            cells = []
            for pattern in (NUMBER, NAME):
                both = [copied(pattern, s) & copied(pattern, t) for s, t in pairs]
                kept = [words & copied(pattern, out) for words, out in zip(both, outs)]
                cells.append(f"{sum(kept, Counter()).total()} of {sum(both, Counter()).total()}")
            print(f"| {file}, {name} |", " | ".join(cells), "|", flush=True)


def main(argv: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("files", nargs="+", metavar="TSV")
    p.add_argument("--translate", metavar="PROGRAM",
                   default=str(Path(__file__).resolve().parent.parent / "build/translate"))
    p.add_argument("--tokenize", default="13a", help="sacrebleu's name; zh for Chinese")
    p.add_argument("--edges", type=int, nargs="*", default=[12, 25], metavar="CHARACTERS")
    p.add_argument("--beside", metavar="MODEL")
    p.add_argument("--negations", choices=sorted(set(NEGATIONS) - {"en"}), metavar="LANGUAGE")
    p.add_argument("--copies", action="store_true")
    p.add_argument("--pairs", type=int, default=100, metavar="N", help="of --negations")
    p.add_argument("--seed", type=int, default=1)
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
