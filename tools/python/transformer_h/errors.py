"""The error of a call of the library."""

from __future__ import annotations

import enum
import errno
import os
import stat
from typing import Any

from ._transformer import ffi, lib
from .arguments import check_integer, check_text

Status = enum.IntEnum("Status", {  # type: ignore[misc]
    name[4:]: value for value, name in sorted(ffi.typeof("tfm_status").elements.items())
    if not name.endswith("_COUNT")})
Status.__doc__ = "Why a call failed: Status.E_TOO_LONG is TFM_E_TOO_LONG of the header."


class Error(RuntimeError):
    """A call of the library failed. status is the header's tfm_status. message says what failed and where.
    index is the number of the text in the list that was given, or None if the error is not about one text."""

    def __init__(self, status: int, message: str, index: int | None = None) -> None:
        check_text("message", message)
        if index is not None:
            index = check_integer("index", index, 0)
        super().__init__(message if index is None else f"text {index}: {message}")
        self.status = Status(check_integer("status", status))
        self.message = message
        self.index = index

    def __reduce__(self) -> Any:
        return type(self), (int(self.status), self.message, self.index)


class LanguageError(Error, ValueError):
    """A code is none of the model's languages."""


class MissingFileError(Error, FileNotFoundError):
    """There is no such file. errno and filename are those of FileNotFoundError."""

    def __init__(self, path: str) -> None:
        reason = os.strerror(errno.ENOENT)
        super().__init__(lib.TFM_E_IO, f"{path}: cannot be opened: {reason}")
        self.errno, self.strerror, self.filename = errno.ENOENT, reason, path

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        return type(self), (self.filename,)


def error_of(err: Any, index: int | None = None) -> Error:
    return Error(err.status, ffi.string(err.text).decode("utf-8", "replace"), index)


def raise_error(status: int, err: Any) -> None:
    if status:
        raise error_of(err)


def raise_file_error(path: str, err: Any) -> None:
    """Raises the error of a file that cannot be read. Its message begins with the path, and says why."""
    found = error_of(err)
    message = found.message if found.message.startswith(path) else f"{path}: {found.message}"
    if found.status == lib.TFM_E_IO:
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                open(path, "rb").close()
            elif stat.S_ISDIR(os.stat(path).st_mode):
                message += ": it is a folder"
        except FileNotFoundError:
            raise MissingFileError(path) from None
        except OSError as error:
            message += f": {error.strerror}"
    raise Error(found.status, message)


def new_array(kind: str, n: int) -> Any:
    """Returns an array for the library."""
    try:
        return ffi.new(kind, n)
    except (MemoryError, OverflowError):
        raise Error(lib.TFM_E_MEMORY, f"no memory for {n} numbers") from None
