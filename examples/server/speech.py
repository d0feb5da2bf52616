"""Live speech: /listen, a WebSocket that takes sound and sends text while somebody speaks."""

import asyncio
import contextlib
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from endpoints import Endpoint
from models import Refused, cut
from service import ASKING, LEFT, Asking, form, word
from starlette.routing import WebSocketRoute
from transformer_h import Error, Model, Status

FORMAT, RATE, BYTES = "s16le", "16000", 2  # 16-bit samples, little-endian, one channel
TEXTS, NUMBERS = ("language", "task", "prompt"), ("compression", "log_prob", "silence", "vad")  # options of Model.listen
STALL = 1  # seconds without sound, after which what has come is heard
CODES = {413: 1009, 415: 1003, 429: 1013, 500: 1011, 503: 1013}  # how a WebSocket is closed, by the status; others: 1008


class Left(Exception):
    """The client has left."""


class Speech:
    def __init__(self, server):
        self.server, self.options, self.metrics = server, server.options, server.metrics
        self.at_once = 0
        self.model = self.read()
        self.threads = ThreadPoolExecutor(self.options.listeners, "listener")

    def read(self):
        try:
            model = Model(self.options.speech, weights=self.options.weights)
            next(model.listen([]), None)
        except Error as e:
            raise ValueError(f"--speech {self.options.speech}: {e.message}") from None
        return model

    def endpoint(self):
        return Endpoint("/listen", "GET", self.listen, "A WebSocket that takes sound (format is s16le) and sends text.",
                        f"format! rate! {' '.join((*TEXTS, *NUMBERS))} api_key", status=101)

    def route(self):
        return WebSocketRoute("/listen", self.listen)

    async def listen(self, socket):
        began, status = time.perf_counter(), 200
        ASKING.set(Asking(socket.client))
        try:
            await self.accept(socket)
            given = self.admitted(socket)
            await self.hear(socket, given)
        except Refused as e:
            status = e.status
            await self.ended(socket, e)
        except Left as e:
            status = e.args[0]
        else:
            await self.ended(socket)
        spent = time.perf_counter() - began
        self.metrics.request("/listen", status)
        self.metrics.work("/listen", status, spent, 0)
        self.server.log(socket, status, spent)

    @staticmethod
    async def accept(socket):
        try:
            await socket.accept()
        except Exception:  # what a connection raises that is lost depends on uvicorn's version
            raise Left(LEFT) from None

    async def ended(self, socket, refused=None):
        """Closes the WebSocket, after an object with what was wrong."""
        async def say():
            if refused:
                await socket.send_text(json.dumps({"error": refused.message, "status": refused.status}, ensure_ascii=False))
            await socket.close(CODES.get(refused.status, 1008) if refused else 1000)
        with contextlib.suppress(Exception):  # the client has left, or does not read
            await asyncio.wait_for(say(), STALL)

    def admitted(self, socket):
        """Returns the options of Model.listen, after checking that the client may ask."""
        try:
            given = form(socket.scope["query_string"].decode())
        except (UnicodeDecodeError, ValueError) as e:
            raise Refused(400, f"the query cannot be read: {e}") from None
        origin, allowed = socket.headers.get("origin"), self.options.cors or ()
        try:
            place = urlsplit(origin or "").netloc
        except ValueError:
            raise Refused(400, f"the header Origin is no address: {cut(origin)}") from None
        if origin and place != socket.headers.get("host") and not {origin, "*"} & set(allowed):
            raise Refused(403, f"pages of {cut(origin)} may not use the server (--cors)")
        self.server.admitted(socket, given)
        for key, only in (("format", FORMAT), ("rate", RATE)):
            if word(given, key) != only:
                raise Refused(400, f"Invalid request: {key} {cut(given[key])} is not supported: it is {only} (16-bit samples, "
                                   "little-endian, one channel, 16000 a second)")
        others = set(given) - {"format", "rate", "api_key", "auth_key", *TEXTS, *NUMBERS}
        if others:
            raise Refused(400, f"Invalid request: {cut(min(others))} is not a parameter of /listen")
        options = {key: word(given, key) for key in TEXTS if given.get(key)}
        for key in NUMBERS:
            if key in given:
                try:
                    options[key] = float(word(given, key))
                except ValueError:
                    raise Refused(400, f"Invalid request: {key} {cut(given[key])} is not a number") from None
        return options

    async def hear(self, socket, given):
        if self.at_once >= self.options.listeners:
            raise Refused(503, f"the server hears {self.at_once} sounds already (--listeners)", 10)
        self.at_once += 1
        self.metrics.listening.set(self.at_once)
        try:
            await asyncio.get_running_loop().run_in_executor(
                self.threads, Listener(self, socket, given, asyncio.get_running_loop()).run)
        finally:
            self.at_once -= 1
            self.metrics.listening.set(self.at_once)


class Listener:
    """Hears one sound in a thread. Messages wait in the connection until the thread has time for them, and a client that reads
    slowly makes the thread wait, so memory does not grow."""

    def __init__(self, speech, socket, given, loop):
        self.speech, self.socket, self.given, self.loop = speech, socket, given, loop
        self.patience = speech.options.read_timeout
        self.samples = self.rest = 0
        self.pending = self.wrong = None  # the next message; why the sound ended early

    def run(self):
        pieces = self.pieces()
        try:
            for text in self.speech.model.listen(pieces, **self.given):
                self.send(text.json())
            if self.rest:
                self.send(json.dumps({"note": "the sound ends within a sample, which is not heard"}))
        except (Error, ValueError) as e:
            message = getattr(e, "message", str(e))
            raise Refused(503 if getattr(e, "status", None) == Status.E_MEMORY else 400, message) from None
        except (Refused, Left):
            raise
        except Exception:
            logging.exception("a sound failed")
            raise Refused(500, "the server failed") from None
        finally:
            pieces.close()
            self.speech.metrics.sound.inc(self.samples / int(RATE))
            if self.pending:
                self.loop.call_soon_threadsafe(self.pending.cancel)
        if self.wrong:
            raise self.wrong

    def wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def send(self, line):
        self.wait(self.sent(line))

    async def sent(self, line):
        try:
            await asyncio.wait_for(self.socket.send_text(line), self.patience)
        except asyncio.TimeoutError:
            raise Refused(408, f"the client has read nothing for {self.patience:g} seconds") from None
        except Exception:  # what a connection raises that is lost depends on uvicorn's version
            raise Left(LEFT) from None

    async def message(self, seconds):
        """Returns the next message, or None if there is none for some seconds."""
        self.pending = self.pending or asyncio.ensure_future(self.socket.receive())
        await asyncio.wait({self.pending}, timeout=seconds)
        if not self.pending.done():
            return None
        found, self.pending = self.pending.result(), None
        return found

    def pieces(self):
        """Yields the sound. It ends with an empty message, or early: then self.wrong says why."""
        most = self.speech.options.sound_limit
        waited = 0
        while True:
            message = self.wait(self.message(min(STALL, self.patience)))
            if message is None:
                waited += min(STALL, self.patience)
                if waited >= self.patience:
                    self.wrong = Refused(408, f"no sound has come for {self.patience:g} seconds")
                    return
                yield b""
                continue
            waited = 0
            if message["type"] == "websocket.disconnect":
                raise Left(413 if message.get("code") == 1009 else LEFT)
            data = message.get("bytes")
            if data is None:
                self.wrong = Refused(415, "a message is a text; expected bytes with 16-bit samples, and an empty message at the end")
                return
            if not data:
                return
            size = self.rest + len(data)
            self.samples, self.rest = self.samples + size // BYTES, size % BYTES
            yield data
            if self.samples >= most * int(RATE):
                self.wrong = Refused(413, f"the sound is longer than {most} seconds (--sound-limit)")
                return
