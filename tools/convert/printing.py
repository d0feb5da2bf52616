"""What the commands share: suggestions for mistyped options, text that a terminal may show, and standard output that may fail."""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import re
import sys
from typing import Any, Callable, Iterable, NoReturn


def visible(text: str, most: int = 1000) -> str:
    """A line for the terminal: what is not printable as an escape, and not without end."""
    if len(text) > most:
        text = text[:most - 100] + " ... " + text[-90:]
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "surrogatepass")
                   .decode() if not "\ud800" <= one <= "\udfff" else f"\\u{ord(one):04x}"
                   for one in text)


def nearest(word: str, words: Iterable[str]) -> str:
    """Returns what a message adds if a word was mistyped: the word that it resembles."""
    found = difflib.get_close_matches(word[:40], list(words), 1, 0.6)
    return f"; did you mean {found[0]}?" if found else ""


class Parser(argparse.ArgumentParser):
    """Suggests an option, a value or a command for one that it does not know."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (?:.* )?(--?[\w-]+)", message)
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message)
        if unknown:
            message += nearest(unknown[1], [each for each in self._option_string_actions if each.startswith("--")])
        elif choice:
            message += nearest(choice[1], re.findall(r"[^', ]+", choice[2]))
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
