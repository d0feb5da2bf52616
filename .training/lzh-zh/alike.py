#!/usr/bin/env python3
"""Of train.tsv the pairs that dev has more of: a share of every cluster, and of every length.

    python .training/lzh-zh/alike.py DIR

Reads DIR/train.tsv and DIR/dev.tsv, as prepare.py writes them, and writes DIR/most.tsv and
DIR/alike.tsv. In both the targets that are hardly longer than their sources are fewer, for those of
dev are nearly twice as long. In alike.tsv there are fewer pairs, too, of the clusters that are
rarer in dev than in train: annals and lives of officials, mostly, which the histories are full of.
Clusters are of what characters and pairs of characters both sides have (TF-IDF, 63 dimensions of a
singular value decomposition, k-means). So a model trained on alike.tsv has been told what dev is
about, though not a sentence of it: a stranger's book may well get less than dev does.
"""
import random
import sys
from pathlib import Path

import numpy as np
from prepare import write
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

CLUSTERS, DIMENSIONS, SAMPLE, AT_ONCE = 40, 64, 120_000, 100_000
BY_LENGTH = {"<1>": 0.3, "<2>": 0.7, "<3>": 1.0, "<4>": 1.0}  # what is kept, by the target's first token


class Embedding:
    """Texts to unit vectors. The first dimension, how common a text's characters are, is left out."""

    def __init__(self, texts: list[str]):
        self.count = HashingVectorizer(analyzer="char", ngram_range=(1, 2), n_features=2 ** 17,
                                       alternate_sign=False, norm=None)
        counts = self.counts(texts)
        self.weigh = TfidfTransformer().fit(counts)
        self.project = TruncatedSVD(DIMENSIONS, n_iter=3, random_state=1).fit(self.weigh.transform(counts))

    def counts(self, texts: list[str]):
        counts = self.count.transform(texts)
        counts.data = np.log1p(counts.data)
        return counts

    def __call__(self, texts: list[str]) -> np.ndarray:
        return normalize(self.project.transform(self.weigh.transform(self.counts(texts)))[:, 1:])


def shares_by_cluster(train: list[str], dev: list[str]) -> np.ndarray:
    """What is kept of each training text's cluster."""
    drawn = np.random.default_rng(1).choice(len(train), min(SAMPLE, len(train)), replace=False)
    sample = [train[i] for i in drawn]
    embed = Embedding(sample)
    clusters = MiniBatchKMeans(CLUSTERS, random_state=1, batch_size=4096, n_init=3).fit(embed(sample))
    labels = np.concatenate([clusters.predict(embed(train[at:at + AT_ONCE]))
                             for at in range(0, len(train), AT_ONCE)])
    here, there = (np.bincount(x, minlength=CLUSTERS) / len(x)
                   for x in (labels, clusters.predict(embed(dev))))
    return np.where(there >= here, 1.0, np.where(there >= 0.5 * here, 0.6, 0.25))[labels]


def main(folder: Path) -> None:
    train, dev = ([line.split("\t") for line in
                   (folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")]
                  for name in ("train.tsv", "dev.tsv"))
    by_cluster = shares_by_cluster([s + t[3:] for s, t in train], [s + t for s, t in dev])
    for name, shares in (("most", np.ones(len(train))), ("alike", by_cluster)):
        rng = random.Random(24)
        kept = [(s, t) for (s, t), share in zip(train, shares) if rng.random() < share * BY_LENGTH[t[:3]]]
        write(folder / f"{name}.tsv", kept)
        print(f"{name}.tsv: {len(kept)} pairs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
