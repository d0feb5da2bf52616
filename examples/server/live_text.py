"""Live text: /live, a WebSocket that takes text while somebody types or speaks it, and sends its translation.

A text costs memory, but no thread while nothing comes. Threads of its own translate the pieces of all texts, a few words at a time,
and clients take turns (see turns.py)."""

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor

from models import Refused
from service import ASKING, LEFT, word
from sockets import Left, Sockets
from transformer_h import Error, Status
from turns import Turns


class LiveText(Sockets):
    path, about, takes = "/live", "A WebSocket that takes text while somebody types it, and sends its translation.", "source! target!"

    def __init__(self, server):
        super().__init__(server)
        self.at_once = 0
        self.threads = ThreadPoolExecutor(self.options.threads, "live")
        self.turns = Turns(self.options.threads, self.options.threads, self.options.live, "texts")  # a text waits for one turn at a time

    def pair(self, source, target):
        """Returns the models' codes of two languages, after checking that there is a way between them."""
        languages = self.server.languages
        source, target = (languages.code(word({key: code}, key)) for key, code in (("source", source), ("target", target)))
        if source == target:
            raise Refused(400, f"Invalid request: source and target are both {source}")
        languages.find(source, target)
        return source, target

    def begun(self, source, target):
        """Returns a Live of the package, of one model or of two."""
        (first, *_, between), *rest = self.server.languages.find(source, target)
        last = rest[0][0] if rest else first
        has_between = rest and (first.told_target or last.told_source)
        try:
            return first.model.live(
                source_language=source if first.told_source else None, target_language=target if last.told_target else None,
                second=last.model if rest else None, via_language=between if has_between else None)
        except (Error, ValueError, MemoryError) as e:
            raise refused(e) from None

    async def serve(self, socket, given):
        self.check_names(given)
        pair = self.pair(given.get("source"), given.get("target"))
        with self.counted():
            await self.translate(socket, await self.in_turn(self.begun, *pair))

    @contextlib.contextmanager
    def counted(self):
        """Counts a text, and refuses one too many."""
        if self.at_once >= self.options.live:
            raise Refused(503, f"the server translates {self.at_once} live texts already (--live)", 10)
        self.at_once += 1
        self.metrics.live.set(self.at_once)
        try:
            yield
        finally:
            self.at_once -= 1
            self.metrics.live.set(self.at_once)

    async def in_turn(self, function, *given):
        async with self.turns.turn(ASKING.get().client):
            return await asyncio.get_running_loop().run_in_executor(self.threads, function, *given)

    async def translate(self, socket, live):
        length = 0  # of the text, in characters
        while True:
            text = await self.message(socket)
            calls, length = text_calls(live, text), await self.in_turn(lengthened, length, text, self.options.char_limit)
            while (lines := await self.in_turn(next_lines, calls)) is not None:
                for line in lines:
                    await self.sent(socket, line)
            if not text:
                return

    async def message(self, socket):
        """Returns the next message."""
        try:
            message = await asyncio.wait_for(socket.receive(), self.options.live_timeout)
        except asyncio.TimeoutError:
            raise Refused(408, f"no text has come for {self.options.live_timeout:g} seconds (--live-timeout)") from None
        if message["type"] == "websocket.disconnect":
            raise Left(413 if message.get("code") == 1009 else LEFT)
        text = message.get("text")
        if text is None:
            raise Refused(415, "a message is bytes; expected a text, and an empty message at the end")
        if len(text) > self.options.char_limit:
            raise Refused(413, f"a message has {len(text)} characters; {self.options.char_limit} are the most (--char-limit)")
        self.metrics.characters.inc(len(text))
        return text


def lengthened(length, text, most):
    """Returns the length of the last text, when a message is appended to one of a length. The end of a line ends a text."""
    for i, line in enumerate(text.split("\n")):
        length = len(line) + (0 if i else length)
        if length > most:
            raise Refused(413, f"a text has more than {most} characters without the end of a line (--char-limit)")
    return length


def text_calls(live, text):
    """Yields functions that read a message, and return translations. An empty message ends the text."""
    if text:
        yield from live.calls("the message", text)
    else:
        yield live.finish


def next_lines(calls):
    """Reads a few words. Returns their lines, or None if there are no more words."""
    try:
        call = next(calls, None)
        return None if call is None else [one.json() for one in call()]
    except Exception as e:
        raise refused(e) from None


def refused(error):
    if isinstance(error, MemoryError) or getattr(error, "status", None) == Status.E_MEMORY:
        return Refused(503, "the server has too little memory")
    if isinstance(error, (Error, ValueError)):
        return Refused(400, getattr(error, "message", str(error)))
    logging.error("a live text failed", exc_info=error)
    return Refused(500, "the server failed")
