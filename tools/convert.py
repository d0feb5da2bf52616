#!/usr/bin/env python3
"""Converts a trained model into a model file: python tools/convert.py IN OUT.safetensors (--help has the manual)."""

import sys

from convert.printing import run
from convert.main import main  # the package beside this file, which Python finds before this file

if __name__ == "__main__":
    sys.exit(run("convert.py", main))
