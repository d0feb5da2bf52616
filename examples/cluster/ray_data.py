"""Translates a column of a Ray dataset: python examples/cluster/ray_data.py MODEL IN.parquet OUT COLUMN"""

from __future__ import annotations

import sys
from typing import Any

import ray
from transformer_h import Error, Model


class Translate:
    """Translates batches in a Ray actor, which loads the model once. Adds the columns translation and
    error."""

    def __init__(self, path: str, column: str, **options: Any) -> None:
        self.model, self.column, self.options = Model(path), column, options

    def __call__(self, batch: Any) -> Any:
        results = self.model.translate(list(batch[self.column].fillna("")), on_error="return", **self.options)
        batch["translation"] = [None if isinstance(one, Error) else one for one in results]
        batch["error"] = [one.message if isinstance(one, Error) else None for one in results]
        return batch


if __name__ == "__main__":
    model, source, out, column = sys.argv[1:]
    ray.init()
    actors = max(int(ray.cluster_resources()["CPU"]) - 1, 1)  # leaves a core to read and write
    rows = ray.data.read_parquet(source).map_batches(
        Translate, fn_constructor_args=(model, column), batch_format="pandas", batch_size=1024,
        num_cpus=1, concurrency=actors)
    rows.write_parquet(out)
