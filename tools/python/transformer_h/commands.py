"""What the commands share: suggestions for mistyped options, and output that may fail. Also the command transformer-model, whose
manual convert/published.py has."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from typing import Any, Callable, NoReturn

from .arguments import did_you_mean
from .extras import missing_package


class Parser(argparse.ArgumentParser):
    """Suggests an option for one that it does not know."""

    def error(self, message: str) -> NoReturn:
        if unknown := re.match(r"unrecognized arguments: (.*)", message):
            word = next((each for each in unknown[1].split() if each.startswith("-")), "").partition("=")[0]
            message += did_you_mean(word, [each for each in self._option_string_actions if each.startswith("--")])
        super().error(message)


class _Output:
    """Standard output, which may be closed. It remembers an error: argparse ignores errors of what it writes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        return int(self._done(lambda: self.stream.write(text)))

    def flush(self) -> None:
        if self.stream is not None:
            self._done(self.stream.flush)

    def _done(self, act: Callable[[], Any]) -> Any:
        try:
            if self.stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return act()
        except OSError as error:
            self.error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def run(program: str, command: Callable[[], int]) -> int:
    """Returns the exit status of a command: 1 with a message if its output cannot be written."""
    stream = sys.stdout
    output = sys.stdout = _Output(stream)
    try:
        try:
            return command()
        finally:
            output.flush()
            if output.error:
                raise output.error
    except OSError as error:
        if error is not output.error:
            raise
        if stream is not None:  # when Python ends, it writes again what it could not write
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        print(f"{program}: standard output: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        sys.stdout = stream


def transformer_model() -> int:
    try:
        from .convert.published import main
        return run("transformer-model", lambda: int(main()))
    except ModuleNotFoundError as error:
        print(f"transformer-model: {missing_package('this command', error.name or 'more packages', 'download')}", file=sys.stderr)
        return 1
