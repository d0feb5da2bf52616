#!/usr/bin/env python3
"""Near-copies in parallel text: how many cross from training to dev pairs, and cuts they don't cross.

    python tools/near.py count train.tsv dev.tsv --out clean.tsv   the dev pairs without a near-copy
    python tools/near.py hold train.tsv.xz --pairs 2000 --out DIR  random pairs to hold out
    python tools/near.py cut train.tsv dev.tsv --pairs 500 --out DIR    dev pairs cut anew

Two pairs are near-copies where their sources or their targets are: a Levenshtein similarity, 1 -
distance / length of the longer, of 0.8 or more. "hold" takes pairs at random and drops their
near-copies from the rest. "cut" is stricter: it puts the files together, and draws whole clusters,
connected components of near-copies, so that no chain of them crosses; of at most --largest pairs,
since a few clusters hold a large part of a collection. Both write DIR/train.tsv and DIR/dev.tsv,
the same for the same files, seed and options.
"""
import argparse
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Iterator

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from pairs import Pair, read_pairs, write_pairs


def near(queries: list[str], texts: list[str], least: float) -> Iterator[tuple[int, int]]:
    """(query, text) numbers of near-copies; only lengths that can be are compared."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    lengths, by_length = np.array([len(texts[i]) for i in order]), defaultdict(list)
    for i, query in enumerate(queries):
        by_length[len(query)].append(i)
    for n, rows in by_length.items():
        first, last = np.searchsorted(lengths, [math.ceil(least * n - 1e-9), n / least + 1e-9])
        window = [texts[i] for i in order[first:last]]
        step = max(1, 20_000_000 // max(1, len(window)))
        for at in range(0, len(rows), step):
            found = cdist([queries[i] for i in rows[at:at + step]], window, dtype=np.float32,
                          scorer=Levenshtein.normalized_similarity, workers=-1,
                          score_cutoff=least - 1e-6)  # 3 of 15 are 0.2, whatever rounding says
            for row, column in zip(*map(np.ndarray.tolist, found.nonzero())):
                yield rows[at + row], order[first + column]


def near_pairs(queries: list[Pair], pairs: list[Pair], least: float) -> Iterator[tuple[int, int, int]]:
    """(side, query, pair): near-copies on either side, 0 or 1. Equal texts are compared once."""
    for side in (0, 1):
        where: tuple[dict, dict] = ({}, {})
        for places, part in zip(where, (queries, pairs)):
            for i, pair in enumerate(part):
                places.setdefault(pair[side].casefold(), []).append(i)
        asked, texts = map(list, where)
        for q, t in near(asked, texts, least):
            for i in where[0][asked[q]]:
                yield from ((side, i, j) for j in where[1][texts[t]])


def clusters(pairs: list[Pair], least: float) -> list[list[int]]:
    """Connected components of near-copies, in the order of their first pairs."""
    above = list(range(len(pairs)))

    def root(i: int) -> int:
        while above[i] != i:
            above[i] = i = above[above[i]]
        return i

    for _, i, j in near_pairs(pairs, pairs, least):
        i, j = root(i), root(j)
        above[max(i, j)] = min(i, j)
    out = defaultdict(list)
    for i in range(len(pairs)):
        out[root(i)].append(i)
    return list(out.values())


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("count", "hold", "cut"))
    p.add_argument("files", nargs="+", metavar="TSV")
    p.add_argument("--out", metavar="FILE|DIR")
    p.add_argument("--pairs", type=int, default=500, metavar="N")
    p.add_argument("--least", type=float, default=0.8, metavar="SIMILARITY")
    p.add_argument("--largest", type=int, default=20, metavar="PAIRS", help="clusters for dev")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    parts, rng, out = [read_pairs(path) for path in args.files], random.Random(args.seed), args.out
    if args.what == "count":
        train, dev = parts
        copies: tuple[set, set] = (set(), set())
        for side, i, _ in near_pairs(dev, train, args.least):
            copies[side].add(i)
        either = copies[0] | copies[1]
        print(f"of {len(dev)} dev pairs {len(copies[0])} have a source, {len(copies[1])} a target "
              f"and {len(either)} either that {len(train)} training pairs have a near-copy of")
        if out:
            write_pairs(Path(out), [pair for i, pair in enumerate(dev) if i not in either])
        return
    pairs = [pair for part in parts for pair in part]
    if args.what == "hold":
        chosen = sorted(rng.sample(range(len(pairs)), args.pairs))
        dev = [pairs[i] for i in chosen]
        dropped = {j for _, _, j in near_pairs(dev, pairs, args.least)}
    else:
        found, chosen = clusters(pairs, args.least), []
        print(f"{len(pairs)} pairs in {len(found)} clusters, the largest of "
              f"{max(map(len, found))}; {sum(len(c) for c in found if len(c) > args.largest)} pairs "
              f"in those of more than {args.largest}")
        # A cluster is drawn as often as it has pairs: as a random pair's.
        owner = [c for c in found if len(c) <= args.largest for _ in c]
        for cluster in rng.sample(owner, len(owner)):
            if len(chosen) < args.pairs and cluster[0] not in chosen:
                chosen += cluster
        chosen.sort()
        dev, dropped = [pairs[i] for i in chosen], set(chosen)
    rest = [pair for i, pair in enumerate(pairs) if i not in dropped]
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_pairs(folder / "dev.tsv", dev)
    write_pairs(folder / "train.tsv", rest)
    print(f"{len(dev)} dev and {len(rest)} training pairs; {len(dropped) - len(dev)} dropped")


if __name__ == "__main__":
    main()
