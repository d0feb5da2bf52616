"""Importing this module lets a test import what it tests and compares with, from whichever folder it is in."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# tools/train stands before tools: train is the module there, not the program tools/train.py.
sys.path[:0] = [str(ROOT / folder) for folder in ("tools/train", "tools/bench", "tools", "tests/make", "tests/compare", "tests/tools")]
