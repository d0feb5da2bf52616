"""Model.live: hands out what examples/translate/live_pipeline.h translates while a text comes."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Optional, Tuple, Union

from ._transformer import ffi, lib
from .arguments import check_integer, check_number, check_text, wrong_type
from .errors import raise_error
from .options import options_of_two
from .results import LiveText, LiveTranslation

if TYPE_CHECKING:
    from .model import Model

Translator = Tuple["Model", Tuple[Optional[bytes], Optional[bytes]]]  # with the codes of its languages
Piece = Union[str, bytes, bytearray, memoryview, LiveText]
PIECE = "str, bytes of UTF-8, or LiveText"
SLICE = 64  # bytes of text that a call of the library reads; then other threads and Ctrl-C have their turn


class Live:
    """What Model.live without pieces returns: a text that is translated while it comes. Threads may share it, but their pieces
    come in the order of their calls. The end of a `with` block closes it."""

    def __init__(self, models: list[Translator], sure: Any, threads: Any) -> None:
        sure, threads = check_number("sure", sure), check_integer("threads", threads, 1, 64)
        if not 0 < sure <= 1:
            raise ValueError(f"sure is {sure:g}, expected a probability above 0, and 1 at most")
        given = [place for model, pair in models for place in _session(model, pair, threads)]
        given += [ffi.NULL] * (4 - len(given))
        made = lib.th_coming_begin(*given, sure)
        if not made:
            raise MemoryError("no memory to translate a text while it comes")
        # the destructor holds the sessions, which have to outlive the text
        self._text: Any = ffi.gc(made, lambda text, given=given: lib.th_coming_free(text))
        self._lock, self._err, self._size = threading.Lock(), ffi.new("tfm_error *"), ffi.new("size_t *")

    def feed(self, piece: Piece) -> list[LiveTranslation]:
        """Reads a piece of text, or a LiveText of Model.listen. Returns the translation as it is behind each word. A word is read
        when white space follows it, so a piece may end anywhere. The end of a line ends a text."""
        return [one for call in self.calls("piece", piece) for one in call()]

    def finish(self) -> list[LiveTranslation]:
        """Ends the text, if one has begun: then the last translation is done. The next piece begins another text."""
        return self._called(lib.th_coming_end)

    def close(self) -> None:
        """Ends the work on the text, and frees its memory when no call uses it."""
        self._text = None

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def calls(self, name: str, piece: Any) -> Iterator[Callable[[], list[LiveTranslation]]]:
        """Yields what reads a piece: functions to call one after another, none of which takes long."""
        if isinstance(piece, LiveText):
            text = check_text(f"{name}.text", piece.text)
            # as `transcribe` writes times, so that the same pauses end a text
            times = [round(check_number(f"{name}.{what}", getattr(piece, what)), 2) for what in ("start", "end")]
            yield functools.partial(self._called, lib.th_coming_hear, text, len(text), bool(piece.stable), *times)
            return
        if isinstance(piece, str):
            data = check_text(name, piece)
        elif isinstance(piece, (bytes, bytearray, memoryview)):
            data = bytes(piece)
        else:
            wrong_type(name, piece, PIECE)
        for at in range(0, len(data), SLICE):
            part = data[at:at + SLICE]
            yield functools.partial(self._called, lib.th_coming_read, part, len(part))

    def _called(self, function: Any, *given: Any) -> list[LiveTranslation]:
        with self._lock:
            text = self._text
            if text is None:
                raise ValueError("the live translation is closed")
            raise_error(function(text, *given, self._err), self._err)
            lines = lib.th_coming_lines(text, self._size)
            data: bytes = ffi.buffer(lines, self._size[0])[:]
        return [LiveTranslation(**json.loads(line)) for line in data.split(b"\n")[:-1]]


def _session(model: Model, pair: tuple[bytes | None, bytes | None], threads: int) -> tuple[Any, Any]:
    """Returns the library's model, and a session for a text that comes."""
    worker = model._sessions.own()
    options, place = ffi.new("tfm_session_options *"), ffi.new("tfm_session **")
    lib.th_coming_limits(worker.model, options)
    options.threads = threads
    raise_error(lib.tfm_session_create(place, worker.model, options, worker.err), worker.err)
    session = ffi.gc(place[0], lambda session, model=worker.model: lib.tfm_session_free(session))
    worker.languages(session, pair)
    return worker.model, session


def models_of(first: Model, kind: Any, second: Any, source: Any, target: Any, via: Any) -> list[Translator]:
    """Returns a model and the second one, if there is one, with the codes of their languages, after checking both. kind is Model."""
    of_each = [{"source_language": source, "target_language": target}]
    if second is not None or via is not None:
        of_each = list(options_of_two({**of_each[0], "second": second, "via_language": via}, kind, first._config))
    models = [(model, options.get("source_language"), options.get("target_language")) for model, options in zip((first, second), of_each)]
    for model, source, target in models:  # fails without text or without a tokenizer
        model.tokenize("", source_language=source, target_language=target)
    return [(model, model._languages(source, target)) for model, source, target in models]


def begin_live(pieces: Any, models: list[Translator], sure: Any, threads: Any) -> Any:
    """Returns the iterator over the translations of pieces that come, of an asynchronous source an asynchronous one; without a source
    a Live."""
    if isinstance(pieces, (str, bytes, bytearray, memoryview, LiveText)):
        wrong_type("pieces", pieces, f"an iterable of {PIECE}; [text] has one piece")
    live = Live(models, sure, threads)
    if pieces is None:
        return live
    if isinstance(pieces, AsyncIterable):
        return _later(live, pieces)
    try:
        return _now(live, iter(pieces))
    except TypeError:
        wrong_type("pieces", pieces, f"an iterable of {PIECE}, or an asynchronous one")


def _now(live: Live, pieces: Iterable[Any]) -> Iterator[LiveTranslation]:
    with live:
        for i, piece in enumerate(pieces):
            for call in live.calls(f"pieces[{i}]", piece):
                yield from call()
        yield from live.finish()


async def _later(live: Live, pieces: AsyncIterable[Any]) -> AsyncIterator[LiveTranslation]:
    with live:
        i = 0
        async for piece in pieces:
            for call in live.calls(f"pieces[{i}]", piece):
                for one in await asyncio.get_running_loop().run_in_executor(None, call):
                    yield one
            i += 1
        for one in await asyncio.get_running_loop().run_in_executor(None, live.finish):
            yield one
