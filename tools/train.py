#!/usr/bin/env python3
"""Trains a translator: python tools/train.py SOURCE ... --out MODEL.safetensors (--help has the manual)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "train"))

from train import main  # train/train.py

if __name__ == "__main__":
    sys.exit(main())
