#!/usr/bin/env python3
"""Make more training text: back-translate, join pairs to longer ones, change names and numbers.

Back-translation needs only sentences of the target language. A model of the other direction
translates them into the source language. The translation errors are then in the sources, and the
targets stay what people wrote. Do this:

    python tools/train.py --train back.tsv --dev ... --out back.safetensors   (targets to sources)
    python tools/train/augment.py lines more.en --away-from dev.tsv --known train.tsv --out mono.en
    build/translate back.safetensors --scores < mono.en > mono.zh
    python tools/train/augment.py mix train.tsv=3 --back mono.zh mono.en --best 0.65 --join 0.1 --out mixed.tsv

"lines" writes each different line of the files once (of a .tsv file the second column). It leaves out
lines that are a target in --known, and lines with a near-copy among the targets of --away-from. A
near-copy is a text that differs in few characters; near.py defines it. Give the dev pairs as
--away-from: otherwise the model trains on what it is tested with.

"mix" writes one shuffled file for train.py. The file has the pairs of each FILE, repeated TIMES times,
and each good back-translated pair once. A back-translated pair is dropped if

  - its lengths have an unusual ratio: one that hardly any pair of the FILEs has (--quantile),
  - its source repeats something four times, and its target does not, or
  - a number, or a name that both languages spell alike, is on one side only.

--best 0.65 keeps only the 65 % with the highest scores. The score of a source is the log-probability
that translate --scores prints, divided by the number of characters plus two.

--join 0.1 adds a tenth as many pairs. Each is two or three other pairs, one after the other, so the
model also learns longer texts.

--vary 0.06 adds 6 % as many pairs. Each is a pair in which a number or a name that both sides have is
replaced by another one, found in the text or made up. From these the model learns to copy numbers
and names. --names takes more names from other pairs. --spelled 玛丽=Mary says how a name is written
in a script that has no capital letters.

No back-translated or varied pair is a near-copy of a pair of --away-from.
"""

from __future__ import annotations

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
    """Returns the targets of a .tsv file, or the lines of another file that are not empty."""
    if path.endswith((".tsv", ".tsv.xz")):
        return [t for _, t in read_pairs(path)]
    return [line for line in read_lines(path) if line]


def lines(args: argparse.Namespace) -> None:
    """Writes the lines that are new: neither known nor near-copies of --away-from."""
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
    print(f"{len(out)} lines written; left out: {len(texts) - len(fresh)} that are known, "
          f"{len(copies)} that are near-copies")


def names_of(pairs: list[Pair]) -> list[str]:
    """Returns the words that are names: only the first letter is a capital, the word never occurs in
    lower case, and at least nine of ten targets with the word have a source with the word."""
    shared, of_targets, lower = Counter(), Counter(), set()
    for pair in pairs:
        source, target = (set(NAME.findall(text)) for text in pair)
        shared.update(source & target)
        of_targets.update(target)
        lower |= {word for word in source | target if word.islower()}
    return sorted(w for w, n in shared.items() if w[0].isupper() and w[1:].islower()
                  and w.lower() not in lower and n >= 0.9 * of_targets[w])


def ratio(pair: Pair) -> float:
    """Returns the logarithm of source length over target length. The added 4 keeps the ratio of short
    texts near 1, where one character more or less means nothing."""
    return math.log((len(pair[0]) + 4) / (len(pair[1]) + 4))


def believable(back: list[Pair], real: list[Pair], quantile: float) -> list[Pair]:
    """Returns the pairs of `back` that look like translations, by the tests that --help lists."""
    ratios, known = sorted(map(ratio, real)), set(names_of(real))
    at = int(quantile * len(ratios))
    least, most = ratios[at], ratios[-1 - at]

    def copied(text: str) -> set[str]:
        return known.intersection(NAME.findall(text)).union(NUMBER.findall(text))

    return [pair for pair in back if all(pair) and least <= ratio(pair) <= most
            and copied(pair[0]) == copied(pair[1])
            and not (LOOP.search(pair[0]) and not LOOP.search(pair[1]))]


def surest(lines: list[str], targets: list[str], share: float) -> list[Pair]:
    """Returns the share of pairs with the highest scores. `lines` has "score TAB source" for each of
    `targets`."""
    found = []
    for line, target in zip(lines, targets):
        score, tab, source = line.partition("\t")
        if not tab:
            raise SystemExit(f"--best: {line!r} is no line of translate --scores (score TAB source)")
        found.append((float(score) / (len(source) + 2), source, target))
    bar = sorted(score for score, _, _ in found)[int((1 - share) * len(found))]
    return [(source, target) for score, source, target in found if score > bar]


def join(pairs: list[Pair], n: int, between: tuple[str, str], rng: random.Random) -> list[Pair]:
    """Returns `n` pairs, each made of two or three random pairs with `between` (source, target) between
    them."""
    out = []
    for _ in range(n):
        parts = [rng.choice(pairs) for _ in range(rng.choice((2, 2, 3)))]
        out.append((between[0].join(s for s, _ in parts), between[1].join(t for _, t in parts)))
    return out


def made_up(names: list[str], rng: random.Random) -> Callable[[], str]:
    """Returns a function that makes up a name. Each three letters in a row of such a name also occur
    in one of `names`, so the name can be pronounced. Most have four to eleven letters."""
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
        return rng.choice(names)  # `names` has too few letters to make another name
    return draw


def other_number(old: str, rng: random.Random) -> str:
    """Returns a random number, two times of three with as many digits as `old`. Only numbers of five
    digits or more may begin with 0, as telephone numbers do."""
    n = len(old) if rng.random() < 0.67 else rng.randint(2, 11)
    first = rng.choice("0123456789" if n > 4 else "123456789")
    return first + "".join(rng.choice("0123456789") for _ in range(n - 1))


def vary(pairs: list[Pair], n: int, rng: random.Random, more_names: Iterable[str] = (),
         spelled: dict[str, str] | None = None) -> list[Pair]:
    """Returns `n` pairs with another number or another name; half of each if the text has both.
    `spelled` maps a name as sources write it in another script to the name as targets write it."""
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
                # A source with "Toms" may have the target "Tom's", in which "Tom" would be replaced.
                and not any(other != w and other.startswith(w) for other in source)]
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
    """Returns the pairs that are no near-copies of --away-from."""
    dev = [pair for path in args.away_from for pair in read_pairs(path)]
    copies = {i for _, _, i in near_pairs(dev, pairs, args.least)}
    return [pair for i, pair in enumerate(pairs) if i not in copies]


def mix(args: argparse.Namespace) -> None:
    """Writes the real, back-translated, varied and joined pairs as one shuffled file."""
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
        print(f"{len(kept)} of {len(back)} back-translated pairs are kept")
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
    p.add_argument("what", choices=("lines", "mix"), help="what to do, see above")
    p.add_argument("files", nargs="+", metavar="FILE[=TIMES]",
                   help="lines: files to read; mix: FILE=TIMES repeats the pairs of FILE")
    p.add_argument("--out", metavar="FILE", required=True, help="the file to write")
    p.add_argument("--known", nargs="*", metavar="TSV", default=[],
                   help="lines: leave out the targets of these pairs")
    p.add_argument("--away-from", nargs="*", metavar="TSV", default=[],
                   help="leave out near-copies of these pairs, usually the dev pairs")
    p.add_argument("--least", type=float, default=0.8, metavar="SIMILARITY",
                   help="smallest similarity of near-copies, 0 to 1 (default 0.8)")
    p.add_argument("--back", nargs=2, metavar=("SOURCES", "TARGETS"),
                   help="mix: the back-translated sources and their targets, one a line")
    p.add_argument("--best", type=float, metavar="SHARE",
                   help="mix: keep this share of --back, those with the best scores; SOURCES is the output of "
                   "translate --scores (default: keep all)")
    p.add_argument("--quantile", type=float, default=0.01, metavar="SHARE",
                   help="mix: drop a pair of --back if its length ratio is beyond that of all but this "
                   "share of the real pairs, on either end (default 0.01)")
    p.add_argument("--join", type=float, default=0.0, metavar="SHARE",
                   help="mix: add joined pairs, as a share of the others (default 0: none)")
    p.add_argument("--vary", type=float, default=0.0, metavar="SHARE",
                   help="mix: add pairs with another number or name, as a share of the others (default 0: none)")
    p.add_argument("--names", nargs="*", metavar="TSV", default=[],
                   help="for --vary: use the names of these pairs too")
    p.add_argument("--spelled", nargs="*", metavar="SOURCE=TARGET", default=[],
                   help="for --vary: names that source and target spell differently")
    p.add_argument("--between-sources", default="", metavar="TEXT",
                   help="for --join: text between two sources (default none, as for Chinese; use \" \" "
                   "for languages with spaces)")
    p.add_argument("--between-targets", default=" ", metavar="TEXT",
                   help="for --join: text between two targets (default a space)")
    p.add_argument("--seed", type=int, default=1, help="seed of the random choices (default 1)")
    args = p.parse_args(argv)
    for text in args.spelled:
        if not NAME.fullmatch(text.partition("=")[2]) or text[0] == "=":
            p.error(f"--spelled {text}: not SOURCE=TARGET; TARGET must be one word of letters")
    args.spelled = dict(text.split("=") for text in args.spelled)
    (lines if args.what == "lines" else mix)(args)


if __name__ == "__main__":
    main()
