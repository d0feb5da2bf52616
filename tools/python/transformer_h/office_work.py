"""The limit of work for a file, and the errors of files that are not read."""

from __future__ import annotations

import time


class FileError(ValueError):
    """A file that is not read: its message names the file and the part of it."""


class WorkError(FileError):
    """A file that takes too long."""


class Work:
    """The CPU time that a file takes in this thread: reading and writing it, without the translation between. What goes through
    a list that the file controls calls check() for each of its elements, so no file takes longer, whatever is in it."""

    def __init__(self, name: str, most: float) -> None:
        self.name, self.left, self.most = name, most, most  # seconds
        self.begin()

    def begin(self) -> None:
        self.began = time.thread_time()

    def check(self) -> None:
        if time.thread_time() - self.began > self.left:
            raise WorkError(f"{self.name}: reading and writing it takes more than {self.most:g} seconds of CPU (seconds=)")

    def end(self) -> None:
        self.left -= time.thread_time() - self.began
