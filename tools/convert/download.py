"""download.py: gets files from the network into a folder: whole and verified, or not at all.

A file is received under a temporary name beside its place, compared with its size and SHA-256, unpacked,
compared again, and then renamed. What a broken connection, Ctrl-C or a killed process leaves is a part that
the next run continues (HTTP Range). A lock makes a second process wait, and wait only for the same folder.
urllib honours http_proxy, https_proxy and no_proxy."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import io
import os
import re
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

from .progress import Progress, megabytes
from .untrusted import ConvertError, brief, install, visible

BLOCK = 1 << 16
LARGEST_LIST = 64 << 20  # bytes of a list of models
LARGEST_FILE = 4 << 30
SECONDS, TRIES = 60, 8  # without a new byte: seconds, and requests in a row
ALL_TRIES = 1000  # requests for one file, if each brings a new byte
SLOWEST, WINDOW = 1000, 600  # fewer bytes a second, over so many seconds, are as good as none
PAUSES = (0.5, 1, 2, 4)  # seconds before a request is repeated; the last is for all that follow
clock, sleep = time.monotonic, time.sleep  # tests replace them
DISK_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class DownloadError(ConvertError):
    """A file cannot be got, or is not what its list says."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of the network. None stands for what its list does not say."""

    name: str  # in the folder
    url: str
    size: int | None = None
    sha256: str | None = None
    packed: bool = False  # by zstd
    unpacked_size: int | None = None
    unpacked_sha256: str | None = None
    check: Callable[[Path], None] | None = None  # of a file without a SHA-256


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Turns what the disk refuses into a message."""
    try:
        yield
    except OSError as error:
        raise DownloadError(f"{error.filename or cache_folder()}: {error.strerror or error}") from None


def cache_folder() -> Path:
    """Returns the folder that keeps downloaded models."""
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return base / "transformer.h" / "models"


def models_folder() -> Path:
    """Returns the user's own folder of models, where translate, transcribe and Model look for names such as de-en. The rules are
    those of tools/common/find_model.h."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        home = os.environ.get("XDG_DATA_HOME", "")
        base = Path(home) if home.startswith("/") else Path.home() / ".local" / "share"
    return base / "transformer-h" / "models"


@contextlib.contextmanager
def locked(path: Path, progress: Progress, what: str) -> Iterator[None]:
    """Holds the lock of path, which the system frees when the process ends. The empty file stays, because a
    waiting process would hold the lock of a removed file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")
    except PermissionError:  # a cache that nobody here can write needs no lock
        yield
        return
    with file:
        try:
            import fcntl
        except ImportError:
            import msvcrt
            windows: Any = msvcrt
            while True:
                try:  # waits ten seconds by itself
                    windows.locking(file.fileno(), windows.LK_LOCK, 1)
                    break
                except OSError:
                    progress.say(f"{what}: waiting for another process")
        else:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                progress.say(f"{what}: waiting for another process")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -------------------------------------------------------------------------------------- the network
class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request: Any, file: Any, code: Any, message: Any, headers: Any, url: str) -> Any:
        if not re.match(r"https://" if request.full_url.startswith("https:") else r"https?://", url):
            raise DownloadError(f"{request.full_url}: leads to {visible(url)}, which is less safe")
        if file is not None:
            file.close()  # else urllib reads the answer's body, which need not end
        return super().redirect_request(request, file, code, message, headers, url)


class Budget:
    """The time and the requests that a file may need, with all of its retries. Only a byte that no earlier request had
    brought begins them anew."""

    def __init__(self, url: str, had: int = 0) -> None:
        self.url, self.most = url, had  # the most bytes that were there
        self.tries = self.all_tries = 0
        self.last = self.window = clock()
        self.window_had = had

    def begin(self) -> None:
        """Counts a request."""
        self.left()
        self.tries, self.all_tries = self.tries + 1, self.all_tries + 1

    def may_try(self) -> bool:
        return self.tries < TRIES and self.all_tries < ALL_TRIES

    def pause(self) -> None:
        sleep(min(PAUSES[min(self.tries, len(PAUSES)) - 1] if self.tries else PAUSES[0], self.left()))

    def got(self, length: int) -> None:
        """Notes how many bytes of the file are there."""
        now = clock()
        if length > self.most:
            self.most, self.last, self.tries = length, now, 0
        if now - self.window > WINDOW:
            if self.most - self.window_had < SLOWEST * WINDOW:
                raise DownloadError(f"{self.url}: fewer than {SLOWEST} bytes a second for {WINDOW} seconds; what was received "
                                    "stays for the next call")
            self.window, self.window_had = now, self.most

    def left(self) -> float:
        """Returns the seconds in which a new byte must come."""
        left = self.last + SECONDS - clock()
        if left <= 0:
            raise DownloadError(f"{self.url}: no new byte for {SECONDS} seconds; what was received stays for the next call")
        return left


class _Watched(io.RawIOBase):
    """The bytes of a connection. Each wait for some ends with the budget, so that an answer cannot drip for ever."""

    def __init__(self, connection: Any, budget: Budget) -> None:
        self.connection, self.budget = connection, budget
        self.raw = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self.connection.settimeout(self.budget.left())
        return self.raw.readinto(buffer)

    def close(self) -> None:
        self.raw.close()
        super().close()


def _watching(handler: Any, budget: Budget) -> Any:
    """Returns urllib's handler of a protocol with connections that the budget ends."""
    class Response(http.client.HTTPResponse):
        def __init__(self, connection: Any, *given: Any, **more: Any) -> None:
            super().__init__(connection, *given, **more)
            self.fp.close()
            self.fp = io.BufferedReader(_Watched(connection, budget))

    class Handler(handler):  # type: ignore[misc]
        def do_open(self, kind: Any, request: Any, **more: Any) -> Any:
            def connect(host: Any, **options: Any) -> Any:
                made = kind(host, **options)
                made.response_class = Response
                return made
            return super().do_open(connect, request, **more)
    return Handler


def open_url(url: str, budget: Budget, first: int = 0) -> Any:
    if not re.match(r"https?://", url):
        raise DownloadError(f"{visible(url)}: not an http or https address")
    headers = {"User-Agent": "transformer.h", "Accept-Encoding": "identity"}
    if first:
        headers["Range"] = f"bytes={first}-"
    handlers = [_watching(one, budget) for one in (urllib.request.HTTPHandler, getattr(urllib.request, "HTTPSHandler", None)) if one]
    return urllib.request.build_opener(_Redirects, *handlers).open(
        urllib.request.Request(url, headers=headers), timeout=budget.left())


def explain(url: str, error: Exception) -> DownloadError:
    if isinstance(error, urllib.error.HTTPError):
        return DownloadError(f"{url}: the server answers {error.code} {visible(str(error.reason))}")
    reason = getattr(error, "reason", error)
    return DownloadError(f"{url}: {visible(str(reason) or type(reason).__name__)}. Without a network, --offline uses what "
                         f"is in the cache; behind a proxy, set https_proxy")


# What a network does; an HTTPError is an OSError too.
FAILURES = (OSError, http.client.HTTPException, ValueError)


def get_bytes(url: str) -> bytes:
    """Returns a list of models."""
    budget, data = Budget(url), bytearray()
    try:
        with open_url(url, budget) as answer:
            while len(data) <= LARGEST_LIST and (block := answer.read1(BLOCK)):
                data += block
                budget.got(len(data))
            said = answer.headers.get("Content-Length")
    except FAILURES as error:
        raise explain(url, error) from None
    if len(data) > LARGEST_LIST:
        raise DownloadError(f"{url}: more than {megabytes(LARGEST_LIST)}, which no list of models has")
    if said and said.isdigit() and int(said) != len(data):
        raise DownloadError(f"{url}: {len(data)} of {said} bytes; try again")
    return bytes(data)


def receive(one: RemoteFile, part: Path, progress: Progress) -> bool:
    """Fills part with the bytes of the file, from where it ends. Returns whether it had some before."""
    def length() -> int:
        return part.stat().st_size if part.exists() else 0

    begun = length()
    if one.size is not None and begun > one.size:
        part.unlink()
        begun = 0
    resumed, whole_again, budget = begun > 0, False, Budget(one.url, begun)
    while one.size is None or length() < one.size or not part.exists():
        first = 0 if whole_again else length()
        budget.begin()
        try:
            with open_url(one.url, budget, first) as answer:
                whole_again = False
                done, whole = receive_answer(one, answer, part, first, progress, budget)
            if done == whole:
                break
            problem: Exception = DownloadError(f"{one.url}: the connection ended after {done} of {whole} bytes")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and first:  # the file has become another; what is there goes when an answer replaces it
                whole_again = True
            elif error.code < 500 and error.code not in (408, 429):
                raise explain(one.url, error) from None
            problem = error
        except FAILURES as error:
            if isinstance(error, OSError) and (error.errno in DISK_FULL or error.filename):
                raise  # of the part, and not of the network
            budget.left()  # says so if the time is over
            if isinstance(error, urllib.error.URLError) and not length():
                raise explain(one.url, error) from None
            problem = error
        if not budget.may_try():
            said = problem if isinstance(problem, DownloadError) else explain(one.url, problem)
            raise DownloadError(f"{said}. This was try {budget.all_tries}, {budget.tries} in a row without a new byte")
        progress.say(f"{one.name}: the connection broke after {megabytes(length())}; trying again")
        budget.pause()
    progress.clear()
    return resumed


def receive_answer(one: RemoteFile, answer: Any, part: Path, first: int, progress: Progress, budget: Budget) -> tuple[int, int]:
    """Writes one answer of the server over what is there. Returns how many bytes of the file it reached, and how many the
    file has if the answer or the list says it."""
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range") or "")
    said = answer.headers.get("Content-Length")
    if answer.status == 206:
        if not span or int(span[1]) != first:
            raise DownloadError(f"{one.url}: the server sends another range than bytes {first}-")
        whole = int(span[2]) if span[2] != "*" else None
    else:  # a server without ranges begins anew
        first, whole = 0, int(said) if said and said.isdigit() else None
    if one.size is not None and whole is not None and whole != one.size:
        raise DownloadError(f"{one.url}: {whole} bytes, and its list says {one.size}")
    whole = one.size if one.size is not None else whole
    done = first
    progress.begin(first)
    with open(part, "r+b" if part.exists() else "wb", buffering=0) as file:
        file.seek(first)
        while True:
            block = answer.read1(BLOCK)  # what is there, so that little is lost when the process ends
            if not block:
                break
            done += len(block)
            if done > (LARGEST_FILE if whole is None else whole):
                file.truncate(0)
                raise DownloadError(f"{one.url}: more than {LARGEST_FILE if whole is None else whole} bytes")
            rest = memoryview(block)
            while rest:  # a disk that becomes full takes a part
                rest = rest[file.write(rest):]
            progress.show(one.name, done, whole)
            budget.got(done)
        whole = done if whole is None else whole
        if done == whole:
            file.truncate()
    return done, whole


# -------------------------------------------------------------------------------- bytes that are right
def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def compare(what: str, path: Path, size: int | None, digest: str | None) -> None:
    found = path.stat().st_size
    if size is not None and found != size:
        raise DownloadError(f"{what}: {found} bytes, and its list says {size}")
    if digest is not None and (got := sha256(path)) != digest:
        raise DownloadError(f"{what}: its SHA-256 is {got}, and its list says {digest}")


def zstd_reader(file: Any) -> Any:
    """Returns a stream of unpacked bytes. Python has zstd since 3.14."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
        return zstd.ZstdFile(file)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise DownloadError(f"these files are packed by zstd, which this Python lacks, and "
                            f"{install('zstandard')}") from None
    return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)


def unpack(packed: Path, out: Path, what: str, size: int | None) -> None:
    most = LARGEST_FILE if size is None else size
    with open(packed, "rb") as file, open(out, "wb") as target:
        source, done = zstd_reader(file), 0
        while True:
            try:
                block = source.read(BLOCK)
            except Exception as error:  # of the two packages, and of a file that ends early
                raise DownloadError(f"{what}: not what zstd packs: {brief(str(error))}") from None
            if not block:
                break
            done += len(block)
            if done > most:
                raise DownloadError(f"{what}: more than {most} bytes unpacked")
            target.write(block)


def get_file(one: RemoteFile, folder: Path, progress: Progress) -> None:
    """Puts the file into the folder under its name, verified. The folder's lock must be held."""
    if one.sha256 is None and one.unpacked_sha256 is None and one.check is None:
        raise DownloadError(f"{one.url}: its list has no SHA-256, so the file cannot be verified")
    if one.packed:
        with open(os.devnull, "rb") as nothing:
            zstd_reader(nothing)  # before the download, because the package may be missing
    identity = hashlib.sha256(f"{one.url} {one.sha256} {one.unpacked_sha256}".encode()).hexdigest()[:16]
    part, new = folder / f".{one.name}.{identity}.part", folder / f".{one.name}.new"
    try:
        while True:
            resumed = receive(one, part, progress)
            try:
                compare(one.url, part, one.size, one.sha256)
                if one.packed:
                    unpack(part, new, one.url, one.unpacked_size)
                    compare(f"{one.url}, unpacked", new, one.unpacked_size, one.unpacked_sha256)
                if one.check:
                    try:
                        one.check(new if one.packed else part)
                    except ConvertError as error:
                        raise DownloadError(f"{one.url}: {error}") from None
                break
            except ConvertError:
                part.unlink()
                if not resumed:
                    raise
                progress.say(f"{one.name}: what an earlier run had received does not fit; starting anew")
        os.replace(new if one.packed else part, folder / one.name)
        part.unlink(missing_ok=True)
    except OSError as error:
        if error.errno in DISK_FULL:
            part.unlink(missing_ok=True)
            raise DownloadError(f"{folder}: no space for {one.name}: {error.strerror}. transformer-model remove frees "
                                f"space of the cache, and XDG_CACHE_HOME names another disk") from None
        raise DownloadError(f"{error.filename or folder}: {error.strerror or error}") from None
    finally:
        new.unlink(missing_ok=True)
        progress.clear()


def write_whole(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_bytes(data)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
