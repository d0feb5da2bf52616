"""Extends the import path: a test that imports this module can import the modules that it tests and compares
with, from any folder."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# tools/train comes before tools in the path, because train must be the module in it, not the program
# tools/train.py.
sys.path[:0] = [str(ROOT / folder) for folder in ("tools/train", "tools/bench", "tools", "tests/make", "tests/compare", "tests/tools")]
