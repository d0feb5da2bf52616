"""Translates a column of a Spark DataFrame. All its other columns are copied.

    spark-submit examples/cluster/spark.py MODEL IN OUT --column text [--format parquet] [--map] [--beam 4]
    spark-submit --files model.safetensors examples/cluster/spark.py model.safetensors IN OUT ...

MODEL is a path that exists on every worker, or a file that --files sends to them. Every machine needs
transformer_h (pip install ./tools/python). OUT has two additional columns, translation and error. If
a translation is null, error says why. With --map the workers of a machine share the memory of a
packed model file.

To use this file as a module, call addPyFile("examples/cluster/spark.py") and then
spark.translated(frame, "text", MODEL, beam=4).
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
from transformer_h.commands import Parser

_models: dict[str, Model] = {}


def loaded(path: str, map: bool = False) -> Model:
    """Returns the model, which each Python worker loads once. This function must be in a module: Spark
    pickles a module's function by name, so _models stays from task to task. It would pickle a function
    of a notebook or of __main__ with its data, and every task would load the model again."""
    if path not in _models:
        here = path if os.path.exists(path) else SparkFiles.get(os.path.basename(path))
        _models[path] = Model(here, map=map)
    return _models[path]


def translated(frame: DataFrame, column: str, path: str, *, map: bool = False,
               **options: Any) -> DataFrame:
    """Returns frame with the columns translation and error. options are those of Model.translate."""

    @pandas_udf("translation string, error string")  # type: ignore[call-overload]
    def translate(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        model = loaded(path, map)
        for batch in batches:
            # the column is binary: as strings, one text of invalid UTF-8 would fail the whole batch
            texts = [None if one is None else bytes(one).decode(errors="surrogateescape")
                     for one in batch]
            results = model.translate([one or "" for one in texts], on_error="return", **options)
            yield pd.DataFrame(
                [(None, one.message) if isinstance(one, Error) else (None if text is None else one, None)
                 for text, one in zip(texts, results)], columns=["translation", "error"], dtype=object)

    both = translate(col(column).cast("binary"))
    return frame.withColumn("_both", both).select(*frame.columns, "_both.translation", "_both.error")


def main() -> None:
    parser = Parser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="the model file")
    parser.add_argument("input", metavar="IN", help="the table to read")
    parser.add_argument("output", metavar="OUT", help="the table to write")
    parser.add_argument("--column", required=True, help="the column to translate")
    parser.add_argument("--format", default="parquet", help="format of both tables (default parquet)")
    parser.add_argument("--map", action="store_true", help="map the model file into memory")
    parser.add_argument("--beam", type=int, metavar="N", help="keep N hypotheses (default: the model's)")
    args = parser.parse_args()
    session = SparkSession.builder.appName("translate").getOrCreate()
    session.sparkContext.addPyFile(os.path.abspath(__file__))
    import spark  # this file as a module, because the workers import it by this name
    frame = session.read.format(args.format).load(args.input)
    spark.translated(frame, args.column, args.model, map=args.map, beam=args.beam
                     ).write.format(args.format).save(args.output)


if __name__ == "__main__":
    main()
