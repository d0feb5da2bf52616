"""Model.listen: hands out what examples/transcribe/live.h hears while sound comes."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any, Iterable, Iterator

from ._transformer import ffi, lib
from .arguments import check_flag, check_integer, wrong_type
from .errors import error_of, raise_error
from .results import LiveText
from .sessions import SessionPool
from .transcribing import begun, options_of, take_transcriber

LIVE = 0  # TRANSCRIBER_LIVE, in the place of a number of hypotheses
PIECES = "an iterable of bytes (16-bit samples) or float32 arrays, at 16,000 samples a second"
PIECE = "bytes (16-bit samples), or a numpy.ndarray of float32"


def listen(sessions: SessionPool, file: Any, pieces: Iterable[Any], language: str | None, task: str, threads: int, fast: bool,
           given: dict[str, Any]) -> Iterator[LiveText]:
    """Checks the arguments, and returns the iterator over texts. given: the options that have defaults in C."""
    if isinstance(pieces, (str, bytes, bytearray, memoryview)) or hasattr(pieces, "__array_interface__"):
        wrong_type("pieces", pieces, f"{PIECES}; [sound] has one piece")
    try:
        pieces = iter(pieces)
    except TypeError:
        wrong_type("pieces", pieces, PIECES)
    options, caught, keep = options_of(language, task, given)
    key = check_integer("threads", threads, 1, 64), LIVE, check_flag("fast", fast)
    transcriber, err = take_transcriber(sessions, file, key), ffi.new("tfm_error *")
    live = lib.th_live_begin(transcriber, options, err)
    if not live:
        raise error_of(err)
    keep += [options, transcriber]
    return begun(_texts(sessions, key, transcriber, ffi.gc(live, lib.th_live_free), pieces, caught, keep))


def _samples(piece: Any, i: int, rest: bytes) -> tuple[Any, int, bool, bytes]:
    """Returns the bytes of a piece, how many samples they are, whether these are floats, and the bytes behind the last whole
    sample. rest: such bytes of the piece before."""
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(piece, numpy.ndarray):
        if piece.dtype != numpy.float32:
            raise TypeError(f"pieces[{i}] is an array of {piece.dtype}, expected float32 from -1 to 1")
        if piece.ndim != 1:
            raise ValueError(f"pieces[{i}] is an array of shape {list(piece.shape)}, expected one channel: [samples]")
        if rest:
            raise ValueError(f"pieces[{i}] is an array, and the bytes before it end within a sample")
        return piece.astype("<f4").tobytes(), len(piece), True, b""
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        wrong_type(f"pieces[{i}]", piece, PIECE)
    data = rest + bytes(piece)
    n = len(data) // 2
    return data, n, False, data[2 * n:]


def _texts(sessions: SessionPool, key: Any, transcriber: Any, live: Any, pieces: Iterator[Any], caught: list[BaseException],
           keep: Any) -> Iterator[Any]:
    err, n, is_behind, found = ffi.new("tfm_error *"), ffi.new("int32_t *"), ffi.new("int32_t *"), ffi.new("th_live_text[2]")

    def checked(status: int) -> None:
        if caught:  # Ctrl-C
            raise caught.pop()
        raise_error(status, err)

    def due() -> Iterator[LiveText]:
        while True:
            checked(lib.th_live_next(live, n, found, err))
            if n[0] < 0:
                return
            yield from [LiveText(ffi.string(one.text).decode("utf-8", "replace"), bool(one.stable), one.start, one.end)
                        for one in found[0:n[0]]]

    try:
        yield None  # to begun
        rest, i = b"", 0
        while True:
            then = time.monotonic()
            try:
                piece = next(pieces)
            except StopIteration:
                break
            now = time.monotonic()
            data, size, is_float, rest = _samples(piece, i, rest)
            i += 1
            if not size and rest:  # half a sample; without samples the call would mean that no sound comes now
                continue
            checked(lib.th_live_feed(live, ffi.from_buffer(data), size, is_float, now, now - then, is_behind, err))
            if not is_behind[0]:
                yield from due()
        checked(lib.th_live_finish(live, err))
        yield from due()
        if rest:
            warnings.warn("the sound ends within a sample, which is not heard", stacklevel=2)
    finally:
        ffi.release(live)
        sessions.give_listener(key, transcriber)
