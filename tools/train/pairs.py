"""Parallel text: reads and writes pairs, and finds numbers and names in them.

train.py, augment.py, near.py and scores.py use this module. It imports neither PyTorch nor another
package, so that the tools that only count or mix text run without them.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path

Pair = tuple[str, str]

# Chinese and Japanese put no space around a word or number of another script, so a character of
# these ranges ends a name or number as a space does.
UNSPACED = "\u3040-\u30ff\u3400-\u9fff"
WHOLE = rf"(?<![^\W{UNSPACED}])%s(?![^\W{UNSPACED}])"
NAME = re.compile(WHOLE % rf"[^\W\d_{UNSPACED}]{{3,}}")
NUMBER = re.compile(WHOLE % r"\d+")


def read_lines(path: str) -> list[str]:
    """Returns the lines of a UTF-8 file. A file whose name ends in .xz is decompressed."""
    data = Path(path).read_bytes()
    if path.endswith(".xz"):
        data = lzma.decompress(data)
    return data.decode("utf-8").replace("\r\n", "\n").removesuffix("\n").split("\n")


def read_pairs(path: str, targets: str | None = None) -> list[Pair]:
    """Reads pairs from one file with lines "source TAB target". If `targets` is given, `path` has the
    sources and `targets` the targets, one a line. Raises ValueError for a line without both texts."""
    lines, pairs = read_lines(path), []
    others = read_lines(targets) if targets else lines
    if len(others) != len(lines):
        raise ValueError(f"{path} has {len(lines)} lines, {targets} has {len(others)}")
    for number, (line, other) in enumerate(zip(lines, others), 1):
        fields = (line, other) if targets else line.split("\t")
        if len(fields) < 2 or not fields[0].strip() or not fields[1].strip():
            raise ValueError(f"{path}:{number}: expected source TAB target")
        pairs.append((fields[0], fields[1]))
    return pairs


def write_pairs(path: Path, pairs: list[Pair]) -> None:
    """Writes a line "source TAB target" for each pair."""
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
