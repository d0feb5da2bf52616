"""Translates a column of a Spark DataFrame; all its other columns, keys among them, stay as they are.

    spark-submit examples/spark.py MODEL IN OUT --column text [--format parquet] [--map] [--beam 4]
    spark-submit --files model.safetensors examples/spark.py model.safetensors IN OUT ...

MODEL is a path that every worker has, or a file that --files ships. Each machine has transformer_h
(pip install tools/python). OUT has two more columns: translation, and error, which says why a
translation is null. --map: the workers of a machine share the pages of a packed file.

As a module: spark.translated(frame, "text", MODEL, beam=4), after addPyFile("examples/spark.py").
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Iterator

import pandas as pd
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, pandas_udf

from transformer_h import Error, Model

_models: dict[str, Model] = {}


def loaded(path: str, map: bool = False) -> Model:
    """The model of this Python worker, which Spark keeps from task to task. Spark pickles what is in
    a notebook or __main__ anew for each task, but a module's function by name: so the model stays."""
    if path not in _models:
        here = path if os.path.exists(path) else SparkFiles.get(os.path.basename(path))
        _models[path] = Model(here, map=map)
    return _models[path]


def translated(frame: DataFrame, column: str, path: str, *, map: bool = False,
               **options: Any) -> DataFrame:
    """frame with columns translation and error. options: those of Model.translate."""

    @pandas_udf("translation string, error string")  # type: ignore[call-overload]
    def translate(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        model = loaded(path, map)
        for batch in batches:
            # bytes, of which one text that is not UTF-8 does not spoil the others
            texts = [None if one is None else bytes(one).decode(errors="surrogateescape")
                     for one in batch]
            results = model.translate([one or "" for one in texts], on_error="return", **options)
            yield pd.DataFrame(
                [(None, one.message) if isinstance(one, Error) else (None if text is None else one, None)
                 for text, one in zip(texts, results)], columns=["translation", "error"], dtype=object)

    both = translate(col(column).cast("binary"))
    return frame.withColumn("_both", both).select(*frame.columns, "_both.translation", "_both.error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--column", required=True)
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--map", action="store_true")
    parser.add_argument("--beam", type=int)
    args = parser.parse_args()
    session = SparkSession.builder.appName("translate").getOrCreate()
    session.sparkContext.addPyFile(os.path.abspath(__file__))
    import spark  # this file, by the name under which the workers have it
    frame = session.read.format(args.format).load(args.input)
    spark.translated(frame, args.column, args.model, map=args.map, beam=args.beam
                     ).write.format(args.format).save(args.output)


if __name__ == "__main__":
    main()
