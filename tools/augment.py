#!/usr/bin/env python3
"""More training text from less: back-translation, and pairs joined to longer ones.

Sentences of the target language alone are translated back by a model of the other direction; its
errors are in the sources, and the targets are what people wrote. Do this:

    python tools/train.py --train back.tsv --dev ... --out back.safetensors      targets to sources
    python tools/augment.py lines more.en --away-from dev.tsv --known train.tsv --out mono.en
    build/translate back.safetensors --scores < mono.en > mono.zh
    python tools/augment.py mix train.tsv=3 --back mono.zh mono.en --best 0.65 --join 0.1 --out mixed.tsv

"lines" takes each line once (of a .tsv the second column), but for those that --known has as
targets and those with a near-copy among the targets of --away-from (near.py says what that is),
so that dev stays what training has not seen. "mix" writes the pairs of each FILE so many times and
the back-translated ones once, shuffled, in one file for train.py. Of the latter it drops those whose
lengths are to each other as hardly any of the real pairs' are (--quantile), and those that say one
thing four times; --best 0.65 takes the 65 % that the model was surest of, by --scores' log-probability
over characters and two. --join 0.1: a tenth as many pairs again, each two or three of the others one
after the other, from which a model learns texts longer than any that it was given.
"""
import argparse
import math
import random
import re
from pathlib import Path

from near import near, write
from train import Pair, read_lines, read_pairs

LOOP = re.compile(r"(.{1,12}?)\1{3}")


def read_targets(path: str) -> list[str]:
    if path.endswith((".tsv", ".tsv.xz")):
        return [t for _, t in read_pairs(path)]
    return [line for line in read_lines(path) if line]


def lines(args: argparse.Namespace) -> None:
    known = {t.casefold() for path in args.known for t in read_targets(path)}
    texts: dict[str, str] = {}
    for path in args.files:
        for t in read_targets(path):
            texts.setdefault(t.casefold(), t)
    fresh = [folded for folded in texts if folded not in known]
    dev = sorted({t.casefold() for path in args.away_from for t in read_targets(path)})
    copies = {j for _, j in near(dev, fresh, args.least)}
    out = [texts[t] for j, t in enumerate(fresh) if j not in copies]
    Path(args.out).write_text("".join(t + "\n" for t in out), encoding="utf-8")
    print(f"{len(out)} lines; {len(texts) - len(fresh)} were known, {len(copies)} are near-copies")


def ratio(pair: Pair) -> float:
    """How much longer the source is; few characters say little."""
    return math.log((len(pair[0]) + 4) / (len(pair[1]) + 4))


def believable(back: list[Pair], real: list[Pair], quantile: float) -> list[Pair]:
    ratios = sorted(map(ratio, real))
    at = int(quantile * len(ratios))
    least, most = ratios[at], ratios[-1 - at]
    return [pair for pair in back if all(pair) and least <= ratio(pair) <= most
            and not (LOOP.search(pair[0]) and not LOOP.search(pair[1]))]


def surest(lines: list[str], targets: list[str], share: float) -> list[Pair]:
    """Of lines "score TAB source", with their targets."""
    found = []
    for line, target in zip(lines, targets):
        score, tab, source = line.partition("\t")
        if not tab:
            raise SystemExit(f"--best: {line!r} is not what translate --scores prints")
        found.append((float(score) / (len(source) + 2), source, target))
    bar = sorted(score for score, _, _ in found)[int((1 - share) * len(found))]
    return [(source, target) for score, source, target in found if score > bar]


def join(pairs: list[Pair], n: int, between: tuple[str, str], rng: random.Random) -> list[Pair]:
    out = []
    for _ in range(n):
        parts = [rng.choice(pairs) for _ in range(rng.choice((2, 2, 3)))]
        out.append((between[0].join(s for s, _ in parts), between[1].join(t for _, t in parts)))
    return out


def mix(args: argparse.Namespace) -> None:
    rng, real, out = random.Random(args.seed), [], []
    for name in args.files:
        path, _, times = name.rpartition("=")
        if not path or not times.isdigit():
            raise SystemExit(f"{name}: not FILE=TIMES")
        pairs = read_pairs(path)
        real += pairs
        out += pairs * int(times)
    if args.back:
        texts = [read_lines(path) for path in args.back]
        if len(texts[0]) != len(texts[1]):
            raise SystemExit(f"{args.back[0]} has {len(texts[0])} lines, {args.back[1]} {len(texts[1])}")
        back = surest(*texts, args.best) if args.best else list(zip(*texts))
        kept = believable(back, real, args.quantile)
        print(f"of {len(back)} back-translated pairs {len(kept)} are kept")
        out += kept
    joined = join(out, round(args.join * len(out)), (args.between_sources, args.between_targets), rng)
    out += joined
    rng.shuffle(out)
    write(Path(args.out), out)
    print(f"{len(out)} pairs, {len(joined)} of them joined")


def main(argv: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("lines", "mix"))
    p.add_argument("files", nargs="+", metavar="FILE[=TIMES]")
    p.add_argument("--out", metavar="FILE", required=True)
    p.add_argument("--known", nargs="*", metavar="TSV", default=[])
    p.add_argument("--away-from", nargs="*", metavar="TSV", default=[])
    p.add_argument("--least", type=float, default=0.8, metavar="SIMILARITY")
    p.add_argument("--back", nargs=2, metavar=("SOURCES", "TARGETS"))
    p.add_argument("--best", type=float, metavar="SHARE", help="SOURCES have scores: so many of them")
    p.add_argument("--quantile", type=float, default=0.01, metavar="SHARE")
    p.add_argument("--join", type=float, default=0.0, metavar="SHARE")
    p.add_argument("--between-sources", default="", metavar="TEXT", help="\"\" for Chinese, else a space")
    p.add_argument("--between-targets", default=" ", metavar="TEXT")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(argv)
    (lines if args.what == "lines" else mix)(args)


if __name__ == "__main__":
    main()
