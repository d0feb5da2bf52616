"""What the commands share: suggestions for mistyped options, and output that may fail. Also the command transformer-model, whose
manual convert/published.py has."""

from __future__ import annotations

import sys

from .convert.printing import Parser, run
from .convert.progress import Progress
from .extras import missing_package

__all__ = ["Parser", "Progress", "run", "transformer_model"]


def transformer_model() -> int:
    try:
        from .convert.published import main
        return int(run("transformer-model", main))
    except ModuleNotFoundError as error:
        print(f"transformer-model: {missing_package('this command', error.name or 'more packages', 'download')}", file=sys.stderr)
        return 1
