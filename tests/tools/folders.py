"""Prepares a test case that converts models: it needs programs, and has a folder of its own."""

import tempfile
from pathlib import Path

import torch


def prepare(case, *programs):
    """Skips the test if a program is not built. Sets case.folder to a folder that is removed after the test."""
    for program in programs:
        if not program.exists():
            case.skipTest(f"no {program}: make it first")
    torch.set_num_threads(1)
    folder = tempfile.TemporaryDirectory()
    case.addCleanup(folder.cleanup)
    case.folder = Path(folder.name)
