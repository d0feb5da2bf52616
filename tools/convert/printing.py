"""Standard output of the commands: what cannot be written is an error and not lost in silence."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def finish(program: str, status: int, lost: bool = False) -> int:
    """Returns status, or 1 after a message if standard output cannot take what was printed (or has lost it)."""
    try:
        sys.stdout.flush()
    except OSError:
        lost = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more at the end
    if lost:
        print(f"{program}: standard output cannot be written", file=sys.stderr)
    return 1 if lost else status


class Parser(argparse.ArgumentParser):
    """argparse itself ignores an error when it prints --help."""

    def _print_message(self, message: str, file: Any = None) -> None:
        lost = False
        try:
            (file or sys.stderr).write(message)
        except OSError:
            lost = True
        if file is sys.stdout and finish(self.prog, 0, lost):
            raise SystemExit(1)
