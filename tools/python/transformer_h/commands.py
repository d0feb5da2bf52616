"""What the commands share: suggestions for mistyped options, and output that may fail. Also the command transformer-model, whose
manual convert/published.py has."""

from __future__ import annotations

import argparse
import re
import sys
from typing import NoReturn

from .arguments import did_you_mean
from .convert.printing import run
from .extras import missing_package

__all__ = ["Parser", "run", "transformer_model"]


class Parser(argparse.ArgumentParser):
    """Suggests an option for one that it does not know."""

    def error(self, message: str) -> NoReturn:
        if unknown := re.match(r"unrecognized arguments: (.*)", message):
            word = next((each for each in unknown[1].split() if each.startswith("-")), "").partition("=")[0]
            message += did_you_mean(word, [each for each in self._option_string_actions if each.startswith("--")])
        super().error(message)


def transformer_model() -> int:
    try:
        from .convert.published import main
        return int(run("transformer-model", main))
    except ModuleNotFoundError as error:
        print(f"transformer-model: {missing_package('this command', error.name or 'more packages', 'download')}", file=sys.stderr)
        return 1
