#!/usr/bin/env python3
"""Of train.tsv the pairs that dev has more of: a share of every cluster, and of every length.

    python .training/lzh-zh/alike.py DIR

Reads DIR/train.tsv and DIR/dev.tsv, as prepare.py writes them, and writes DIR/most.tsv and
DIR/alike.tsv. In both the targets that are hardly longer than their sources are fewer, for those of
dev are nearly twice as long. In alike.tsv there are fewer pairs, too, of the clusters that are
rarer in dev than in train: annals and lives of officials, mostly, which the histories are full of.
Clusters are of what characters and pairs of characters both sides have (TF-IDF, 63 dimensions of a
singular value decomposition, k-means). So a model trained on alike.tsv has been told what dev is
about, though not a sentence of it, and what it scores there is a little more than a stranger's book
would get.
"""
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

CLUSTERS, DIMENSIONS, SAMPLE = 40, 64, 120_000
MOST = {"<1>": 0.3, "<2>": 0.7, "<3>": 1.0, "<4>": 1.0}  # what is kept, by the target's first token
ALIKE = {"<1>": 0.25, "<2>": 0.6, "<3>": 1.0, "<4>": 1.0}


class Embedding:
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
        """Unit vectors; the first dimension, which is how common a text's characters are, is left out."""
        return normalize(self.project.transform(self.weigh.transform(self.counts(texts)))[:, 1:])


def parts(texts: list[str], n: int = 100_000) -> Iterator[list[str]]:
    return (texts[at:at + n] for at in range(0, len(texts), n))


def keep(train: list[str], dev: list[str]) -> np.ndarray:
    """The share of each training pair's cluster that is to be kept."""
    drawn = np.random.default_rng(1).choice(len(train), min(SAMPLE, len(train)), replace=False)
    sample = [train[i] for i in drawn]
    embed = Embedding(sample)
    clusters = MiniBatchKMeans(CLUSTERS, random_state=1, batch_size=4096, n_init=3).fit(embed(sample))
    labels = np.concatenate([clusters.predict(embed(part)) for part in parts(train)])
    here, there = (np.bincount(x, minlength=CLUSTERS) / len(x)
                   for x in (labels, clusters.predict(embed(dev))))
    return np.where(there >= here, 1.0, np.where(there >= 0.5 * here, 0.6, 0.25))[labels]


def main(folder: Path) -> None:
    train, dev = ([line.split("\t") for line in (folder / name).read_text(encoding="utf-8").splitlines()]
                  for name in ("train.tsv", "dev.tsv"))
    shares = keep([s + t[3:] for s, t in train], [s + t for s, t in dev])
    for name, by_length, by_cluster in (("most.tsv", MOST, np.ones(len(train))), ("alike.tsv", ALIKE, shares)):
        rng = random.Random(24)
        lines = [f"{s}\t{t}\n" for (s, t), share in zip(train, by_cluster)
                 if rng.random() < share * by_length[t[:3]]]
        (folder / name).write_text("".join(lines), encoding="utf-8")
        print(f"{name}: {len(lines)} pairs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
