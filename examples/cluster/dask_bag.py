"""Translates text files in a Dask bag: python examples/cluster/dask_bag.py MODEL 'in-*.txt' 'out-*.tsv'
Each output line has a translation, a tab, and an error message if there is no translation."""

from __future__ import annotations

import functools
import sys
from typing import Any, Iterable

import dask.bag
from transformer_h import Error, Model

loaded = functools.cache(Model)  # loads a model once per process, which imports this file as a module


def translate(lines: Iterable[str], path: str, **options: Any) -> list[tuple[str | None, str | None]]:
    texts = [line.rstrip("\n") for line in lines]
    results = loaded(path).translate(texts, on_error="return", **options)
    return [(None, one.message) if isinstance(one, Error) else (one, None) for one in results]


if __name__ == "__main__":
    import dask_bag
    model, source, out = sys.argv[1:]
    pairs = dask.bag.read_text(source).map_partitions(dask_bag.translate, model)
    pairs.map(lambda pair: "\t".join(one or "" for one in pair)).to_textfiles(out, last_endline=True)
