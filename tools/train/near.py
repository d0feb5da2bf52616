#!/usr/bin/env python3
"""Find near-copies between training and dev text, and choose dev pairs that have none in training.

    python tools/train/near.py count train.tsv dev.tsv --out clean.tsv    count dev pairs with a near-copy
    python tools/train/near.py hold train.tsv.xz --pairs 2000 --out DIR   hold out random pairs
    python tools/train/near.py cut train.tsv dev.tsv --pairs 500 --out DIR    choose new dev pairs

A model that has seen a near-copy of a dev sentence scores too high on that sentence. Two pairs are
near-copies if their sources, or their targets, have a Levenshtein similarity of at least --least.
The similarity is 1 - distance / length of the longer text, without regard to case.

"count" prints how many dev pairs have a near-copy in the training text, and writes the other dev
pairs to --out.

"hold" chooses dev pairs at random, and drops their near-copies from the training text.

"cut" is stricter. It joins the files and groups all pairs into clusters: two pairs are in one cluster
if a chain of near-copies connects them. Then it chooses whole clusters for dev, at random, so no
chain crosses from training to dev. It never chooses a cluster of more than --largest pairs, because
one such cluster could fill the dev set.

"hold" and "cut" write DIR/train.tsv and DIR/dev.tsv. The same files, seed and options give the same
output.
"""

from __future__ import annotations

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
    """Yields (query number, text number) for each near-copy. Compares a query only with texts whose
    length allows a similarity of `least`."""
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
                          score_cutoff=least - 1e-6)  # float32 may round an exact 0.8 down
            for row, column in zip(*map(np.ndarray.tolist, found.nonzero())):
                yield rows[at + row], order[first + column]


def near_pairs(queries: list[Pair], pairs: list[Pair], least: float) -> Iterator[tuple[int, int, int]]:
    """Yields (side, query number, pair number) for each near-copy: side 0 if the sources are alike, 1
    if the targets are. Compares equal texts only once."""
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
    """Returns the connected components of near-copies as lists of pair numbers, ordered by the first
    pair of each."""
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
    p.add_argument("what", choices=("count", "hold", "cut"), help="what to do, see above")
    p.add_argument("files", nargs="+", metavar="TSV",
                   help="files with lines \"source TAB target\"; a .xz file is decompressed")
    p.add_argument("--out", metavar="FILE|DIR", help="output file of count, folder of hold and cut")
    p.add_argument("--pairs", type=int, default=500, metavar="N",
                   help="number of dev pairs for hold and cut (default 500)")
    p.add_argument("--least", type=float, default=0.8, metavar="SIMILARITY",
                   help="smallest similarity of near-copies (default 0.8)")
    p.add_argument("--largest", type=int, default=20, metavar="PAIRS",
                   help="largest cluster that cut may choose for dev (default 20)")
    p.add_argument("--seed", type=int, default=1, help="seed of the random choices (default 1)")
    args = p.parse_args()
    parts, rng, out = [read_pairs(path) for path in args.files], random.Random(args.seed), args.out
    if args.what == "count":
        train, dev = parts
        copies: tuple[set, set] = (set(), set())
        for side, i, _ in near_pairs(dev, train, args.least):
            copies[side].add(i)
        either = copies[0] | copies[1]
        print(f"{len(dev)} dev pairs, {len(train)} training pairs: {len(copies[0])} dev pairs have a "
              f"near-copy of their source, {len(copies[1])} of their target, {len(either)} of either")
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
        print(f"{len(pairs)} pairs in {len(found)} clusters; the largest cluster has "
              f"{max(map(len, found))} pairs; clusters of more than {args.largest} pairs have "
              f"{sum(len(c) for c in found if len(c) > args.largest)} pairs together")
        # Each cluster is in the list once for each of its pairs. So each pair has the same chance to
        # be chosen, and dev sentences are as typical as with "hold".
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
