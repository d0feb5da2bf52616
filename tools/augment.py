#!/usr/bin/env python3
"""More training text from less: back-translation, pairs joined to longer ones, other names and numbers.

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
lengths are to each other as hardly any of the real pairs' are (--quantile), those that say one thing
four times, and those in which numbers, or names that the languages share, are not the same; --best
0.65 takes the 65 % that the model was surest of, by --scores' log-probability over characters and two.
--join 0.1: a tenth as many pairs again, each two or three of the others one after the other, from
which a model learns texts longer than any that it was given. --vary 0.06: so many again with another
number or another name, found in the text or made up, in the place of one that both sides have, from
which it learns to copy them; --names takes names of other pairs besides, and --spelled 玛丽=Mary says
how a script that has no capitals writes one. Of what is made none is a near-copy of --away-from.
"""
import argparse
import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Callable, Iterable

from near import near, near_pairs
from pairs import NAME, NUMBER, Pair, read_lines, read_pairs, write_pairs

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


def names_of(pairs: list[Pair]) -> list[str]:
    """Words with one capital, the first letter, that translations keep nine times in ten."""
    shared, of_targets, lower = Counter(), Counter(), set()
    for pair in pairs:
        source, target = (set(NAME.findall(text)) for text in pair)
        shared.update(source & target)
        of_targets.update(target)
        lower |= {word for word in source | target if word.islower()}
    return sorted(w for w, n in shared.items() if w[0].isupper() and w[1:].islower()
                  and w.lower() not in lower and n >= 0.9 * of_targets[w])


def ratio(pair: Pair) -> float:
    """How much longer the source is; few characters say little."""
    return math.log((len(pair[0]) + 4) / (len(pair[1]) + 4))


def believable(back: list[Pair], real: list[Pair], quantile: float) -> list[Pair]:
    ratios, known = sorted(map(ratio, real)), set(names_of(real))
    at = int(quantile * len(ratios))
    least, most = ratios[at], ratios[-1 - at]

    def copied(text: str) -> set[str]:
        return known.intersection(NAME.findall(text)).union(NUMBER.findall(text))

    return [pair for pair in back if all(pair) and least <= ratio(pair) <= most
            and copied(pair[0]) == copied(pair[1])
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


def made_up(names: list[str], rng: random.Random) -> Callable[[], str]:
    """A name of which every three letters stand in NAMES, too, and four to ten together."""
    after: dict[str, list[str]] = {}
    for name in names:
        text = f"^^{name}$"
        for i in range(2, len(text)):
            after.setdefault(text[i - 2:i], []).append(text[i])

    def draw() -> str:
        for _ in range(100):
            text = "^^"
            while text[-1] != "$" and len(text) < 14:
                text += rng.choice(after[text[-2:]])
            if text[-1] == "$" and len(text) >= 7:
                return text[2:-1]
        return rng.choice(names)  # too few to make others of
    return draw


def other_number(old: str, rng: random.Random) -> str:
    n = len(old) if rng.random() < 0.67 else rng.randint(2, 11)
    first = rng.choice("0123456789" if n > 4 else "123456789")
    return first + "".join(rng.choice("0123456789") for _ in range(n - 1))


def vary(pairs: list[Pair], n: int, rng: random.Random, more_names: Iterable[str] = (),
         spelled: dict[str, str] | None = None) -> list[Pair]:
    """N pairs with another number or name, half of them each where there are both. spelled: names
    that sources write in another script."""
    known = set(names_of(pairs))
    spelled = spelled or {}
    names = sorted(known.union(more_names, spelled.values()))
    draw = made_up(names, rng)
    numbered: list[tuple[Pair, list[str]]] = []
    named: list[tuple[Pair, list[Pair]]] = []
    for pair in dict.fromkeys(pairs):
        source, target = (Counter(NUMBER.findall(text)) for text in pair)
        if source and source == target:
            numbered.append((pair, list(source)))
        source, target = (Counter(NAME.findall(text)) for text in pair)
        both = [(w, w) for w in source if w in known and source[w] == target[w]
                and not any(other != w and other.startswith(w) for other in source)]  # Toms: Tom's
        both += [(s, w) for s, w in spelled.items() if target[w] and pair[0].count(s) == target[w]]
        if both:
            named.append((pair, both))

    def swap(text: str, pattern: re.Pattern[str], new: dict[str, str]) -> str:
        return pattern.sub(lambda m: new.get(m[0], m[0]), text)

    out: list[Pair] = []
    while len(out) < n and (numbered or named):
        if numbered and (len(out) % 2 or not named):
            (source, target), found = rng.choice(numbered)
            other = {old: other_number(old, rng) for old in found}
            out.append((swap(source, NUMBER, other), swap(target, NUMBER, other)))
        else:
            (source, target), found = rng.choice(named)
            new = rng.choice(names) if rng.random() < 0.5 else draw()
            written, name = rng.choice(found)
            source = source.replace(written, new) if written != name else swap(source, NAME, {name: new})
            out.append((source, swap(target, NAME, {name: new})))
    return out


def away(pairs: list[Pair], args: argparse.Namespace) -> list[Pair]:
    """Those that are no near-copies of --away-from."""
    dev = [pair for path in args.away_from for pair in read_pairs(path)]
    copies = {i for _, _, i in near_pairs(dev, pairs, args.least)}
    return [pair for i, pair in enumerate(pairs) if i not in copies]


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
        kept = away(believable(back, real, args.quantile), args)
        print(f"of {len(back)} back-translated pairs {len(kept)} are kept")
        out += kept
    names = names_of([pair for path in args.names for pair in read_pairs(path)])
    varied = away(vary(real, round(args.vary * len(out)), rng, names, args.spelled), args)
    out += varied
    joined = join(out, round(args.join * len(out)), (args.between_sources, args.between_targets), rng)
    out += joined
    rng.shuffle(out)
    write_pairs(Path(args.out), out)
    print(f"{len(out)} pairs, {len(joined)} of them joined, {len(varied)} varied")


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
    p.add_argument("--vary", type=float, default=0.0, metavar="SHARE")
    p.add_argument("--names", nargs="*", metavar="TSV", default=[], help="for --vary: theirs, too")
    p.add_argument("--spelled", nargs="*", metavar="SOURCE=TARGET", default=[],
                   help="for --vary: names that the languages write in two ways")
    p.add_argument("--between-sources", default="", metavar="TEXT", help="\"\" for Chinese, else a space")
    p.add_argument("--between-targets", default=" ", metavar="TEXT")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(argv)
    for text in args.spelled:
        if not NAME.fullmatch(text.partition("=")[2]) or text[0] == "=":
            p.error(f"--spelled {text}: not SOURCE=TARGET, of which TARGET is a word of letters")
    args.spelled = dict(text.split("=") for text in args.spelled)
    (lines if args.what == "lines" else mix)(args)


if __name__ == "__main__":
    main()
