"""writer.py: how the Python tools write a file: whole, or not at all, as output.h does in C."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Union

Data = Union[bytes, memoryview]
NAMES = 100  # of files of our own that are tried


def check_target(path: Path | str) -> int | None:
    """Raises OSError where path cannot be written: it must be a regular file or a new name. The
    permissions of the file to be replaced."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise OSError("is a symbolic link, name the file itself")
    if not stat.S_ISREG(mode):
        raise OSError("is not a regular file")
    if not os.access(path, os.W_OK):
        raise PermissionError(13, os.strerror(13))
    return stat.S_IMODE(mode) & 0o777


def create(path: Path | str, mode: int | None) -> tuple[BinaryIO, str]:
    """A new file beside path, whose name has the process's id; one that is there is left alone."""
    flags = (os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
             | getattr(os, "O_BINARY", 0))
    for i in range(NAMES):
        part = f"{path}.part{os.getpid()}" + (f"-{i}" if i else "")
        try:
            number = os.open(part, flags, 0o666 if mode is None else mode)
        except FileExistsError:
            if i == NAMES - 1:
                raise
            continue
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(number, mode)
        return os.fdopen(number, "wb"), part
    raise AssertionError


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the program by an exception, as SIGINT does."""
    def stop(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))
               and threading.current_thread() is threading.main_thread()
               and signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def write_file(path: Path | str, *parts: Iterable[Data],
               check: Callable[[Path], None] | None = None) -> None:
    """Writes the data into a file of its own beside path, which takes path's place when all of it
    has arrived and the check, which gets that file, has returned. The file is removed on a failure,
    an exception of the check, Ctrl-C, SIGTERM and SIGHUP. Raises OSError."""
    mode = check_target(path)
    with stoppable():
        file, part = create(path, mode)
        try:
            with file:
                for data in parts:
                    for one in data:
                        file.write(one)
            if check:
                check(Path(part))
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
