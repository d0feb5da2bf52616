"""progress.py: what commands say on standard error while one waits for them."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Iterator

from .printing import visible

FIRST, EVERY = 1.0, 0.25  # seconds without a line, and between two
LONGEST_NAME = 48  # so that a line fits into a terminal


def megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB"


class Progress:
    """Says on standard error what happens. How far something is appears only on a terminal, in one line."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet, self.terminal = quiet, not quiet and sys.stderr.isatty()
        self.began = self.shown = 0.0
        self.first = self.width = 0
        self._lock = threading.RLock()
        self._stages: list[Stage] = []

    def say(self, text: str) -> None:
        if not self.quiet:
            self.clear()
            print(visible(text), file=sys.stderr, flush=True)

    def begin(self, first: int) -> None:
        """Begins a file of which the first bytes are there."""
        self.began, self.shown, self.first = time.monotonic(), 0.0, first

    def show(self, name: str, done: int, whole: int | None) -> None:
        """Shows how many bytes of a file there are."""
        now = time.monotonic()
        if self.terminal and (now - self.shown >= 0.1 or done == whole):
            self.shown = now
            self._write(Stage(name, whole, None, self.began, self.first, done).line(now))

    @contextlib.contextmanager
    def stage(self, name: str, whole: int | None = None, unit: str | None = None) -> Iterator[Stage]:
        """Shows name, from its first second on, until the block ends: also how far it is and how long it will take, if the
        block calls advance() or reach(). whole is an amount in bytes, or of a unit. Stages can be in one another."""
        one, ended = Stage(name, whole, unit, time.monotonic()), threading.Event()
        self._stages.append(one)
        thread = threading.Thread(target=self._watch, args=(one, ended), daemon=True) if self.terminal else None
        if thread:
            thread.start()
        try:
            yield one
        finally:
            ended.set()
            if thread:
                thread.join()
            self._stages.remove(one)
            self.clear()

    def _watch(self, one: Stage, ended: threading.Event) -> None:
        while not ended.wait(EVERY):
            now = time.monotonic()
            if now - one.began >= FIRST and self._stages[-1] is one:
                self._write(one.line(now))

    def _write(self, line: str) -> None:
        with self._lock:
            line = visible(line)
            print(f"\r{line:<{self.width}}", end="", file=sys.stderr, flush=True)
            self.width = len(line)

    def clear(self) -> None:
        with self._lock:
            if self.width:
                print(f"\r{'':<{self.width}}\r", end="", file=sys.stderr, flush=True)
                self.width = 0


class Stage:
    """A part of a job. `first` is how much of it was done before it began."""

    def __init__(self, name: str, whole: int | None, unit: str | None, began: float, first: int = 0, done: int = 0) -> None:
        name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME // 2 - 3]}...{name[-LONGEST_NAME // 2:]}"
        self.name, self.whole, self.unit, self.began, self.first, self.done = name, whole, unit, began, first, done

    def advance(self, more: int) -> None:
        self.done += more

    def reach(self, done: int, whole: int | None) -> None:
        self.done, self.whole = done, whole

    def line(self, now: float) -> str:
        """Returns what is done, at which rate, and the time that is left."""
        seconds = max(now - self.began, 0.001)
        if not self.done and not self.whole:
            return f"{self.name}: {seconds:.0f} seconds"
        rate = (self.done - self.first) / seconds
        if self.unit is None:
            text = f"{self.name}: {megabytes(self.done)}" + (f" of {megabytes(self.whole)}" if self.whole else "") + f", {megabytes(rate)}/s"
        else:
            text = f"{self.name}: {self.done}" + (f" of {self.whole}" if self.whole else "") + f" {self.unit}, {rate:.1f} a second"
        if self.whole and self.done < self.whole and rate > 0:
            text += f", {(self.whole - self.done) / rate:.0f} seconds left"
        return text
