"""Live speech: /listen, a WebSocket that takes sound and sends text while somebody speaks, and its translations."""

import asyncio
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor

from live_text import next_lines
from models import Refused, cut
from service import LEFT, word
from sockets import Left, Sockets
from transformer_h import Error, Model, Status

FORMAT, RATE, BYTES = "s16le", "16000", 2  # 16-bit samples, little-endian, one channel
TEXTS, NUMBERS = ("language", "task", "prompt"), ("compression", "log_prob", "silence", "vad")  # options of Model.listen
STALL = 1  # seconds without sound, after which what has come is heard
TARGETS = 4  # languages into which a sound is translated, at most
BEHIND, MOST_BEHIND = 64, 256  # texts behind which a follower gets only stable ones; with which it is closed
ID = re.compile(r"[\w-]{16,64}", re.ASCII)


class Speech(Sockets):
    path, about = "/listen", "A WebSocket that takes sound (format is s16le) and sends text, and with target its translation."
    takes = f"format! rate! {' '.join((*TEXTS, *NUMBERS))} source target id"

    def __init__(self, server):
        super().__init__(server)
        self.at_once = 0
        self.speakers = {}  # id: Speaker
        self.model = self.read()
        self.threads = ThreadPoolExecutor(self.options.listeners, "listener")

    def read(self):
        try:
            model = Model(self.options.speech, weights=self.options.weights)
            next(model.listen([]), None)
        except Error as e:
            raise ValueError(f"--speech {self.options.speech}: {e.message}") from None
        return model

    def listened(self, given):
        """Returns the options of Model.listen, the language that is spoken, if it is known, and those of the translations."""
        for key, only in (("format", FORMAT), ("rate", RATE)):
            if word(given, key) != only:
                raise Refused(400, f"Invalid request: {key} {cut(given[key])} is not supported: it is {only} (16-bit samples, "
                                   "little-endian, one channel, 16000 a second)")
        self.check_names(given)
        options = {key: word(given, key) for key in TEXTS if given.get(key)}
        for key in NUMBERS:
            if key in given:
                try:
                    options[key] = float(word(given, key))
                except ValueError:
                    raise Refused(400, f"Invalid request: {key} {cut(given[key])} is not a number") from None
        targets = given.get("target", [])
        targets = targets if isinstance(targets, list) else [targets]
        if len(targets) > TARGETS:
            raise Refused(400, f"Invalid request: {len(targets)} times target; {TARGETS} are the most")
        if targets and "source" not in given and "language" not in options:
            raise Refused(400, "Invalid request: target needs source, the language that is spoken")
        source = word(given, "source") if "source" in given else options.get("language")
        return options, source, [self.server.live.pair(source, each) for each in dict.fromkeys(targets)]

    async def serve(self, socket, given):
        options, source, pairs = self.listened(given)
        name = id_of(given) if "id" in given else None
        if name in self.speakers:
            raise Refused(400, "Invalid request: another sound has this id")
        if self.at_once >= self.options.listeners:
            raise Refused(503, f"the server hears {self.at_once} sounds already (--listeners)", 10)
        self.at_once += 1
        self.metrics.listening.set(self.at_once)
        speaker = Speaker(source)
        if name:
            self.speakers[name] = speaker
        try:
            await asyncio.get_running_loop().run_in_executor(
                self.threads, Listener(self, socket, options, pairs, speaker, asyncio.get_running_loop()).run)
        finally:
            self.speakers.pop(name, None)
            speaker.say(None)
            self.at_once -= 1
            self.metrics.listening.set(self.at_once)


def id_of(given):
    name = word(given, "id")
    if not ID.fullmatch(name):
        raise Refused(400, "Invalid request: id is not 16 to 64 digits, letters, _ and -")
    return name


class Speaker:
    """A sound that others may follow. Its texts go to all of them, and the event loop calls its methods."""

    def __init__(self, source):
        self.source, self.followers = source, set()

    def say(self, text):
        """Hands a text to all followers; None: the sound has ended."""
        for queue in self.followers:
            if text is None or text.stable or queue.qsize() < BEHIND:  # the next text that is not stable replaces this one
                queue.put_nowait(text)


class Following(Sockets):
    """Sends the texts of a sound that another client of /listen sends, and their translation. So the sound is heard once for all
    of its followers. They count as texts of /live."""

    path, about, takes = "/follow", "A WebSocket that sends the text of a sound of /listen, and its translation.", "id! target"

    async def serve(self, socket, given):
        self.check_names(given)
        speaker = self.server.speech.speakers.get(id_of(given))
        if not speaker:
            raise Refused(404, "no sound has this id now")
        live, target, pair = self.server.live, given.get("target"), None
        if target is not None:
            if speaker.source is None:
                raise Refused(400, "Invalid request: the sound has neither source nor language, so it cannot be translated")
            pair = live.pair(speaker.source, target)
        with live.counted():
            queue = asyncio.Queue()
            speaker.followers.add(queue)
            try:
                await self.follow(socket, queue, target, await live.in_turn(live.begun, *pair) if pair else None)
            finally:
                speaker.followers.discard(queue)

    async def follow(self, socket, queue, target, translation):
        gone = asyncio.ensure_future(self.gone(socket))
        try:
            while (text := await self.next(queue, gone)) is not None:
                await self.sent(socket, text.json())
                if translation:
                    await self.send_all(socket, target, translation.calls("text", text))
            if translation:
                await self.send_all(socket, target, iter([translation.finish]))
        finally:
            gone.cancel()

    @staticmethod
    async def gone(socket):
        """Ends when the client leaves. What it sends is not looked at."""
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass

    @staticmethod
    async def next(queue, gone):
        """Returns the next text, but none that another one replaces already."""
        text = None
        while text is None or not (text.stable or queue.empty()):
            coming = asyncio.ensure_future(queue.get())
            await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                coming.cancel()
                raise Left(LEFT)
            if queue.qsize() >= MOST_BEHIND:
                raise Refused(408, "the client reads more slowly than somebody speaks")
            text = coming.result()
            if text is None:
                return None
        return text

    async def send_all(self, socket, target, calls):
        while (lines := await self.server.live.in_turn(next_lines, calls)) is not None:
            for line in lines:
                await self.sent(socket, translated(target, line))


def translated(target, line):
    """Returns a line of a translation as /listen sends it."""
    return f'{{"target": {json.dumps(target)}, {line[1:]}'


class Listener:
    """Hears one sound in a thread. Messages wait in the connection until the thread has time for them, and a client that reads
    slowly makes the thread wait, so memory does not grow."""

    def __init__(self, speech, socket, given, pairs, speaker, loop):
        """given: options of Model.listen. pairs: the languages of translations. speaker: who hands texts to followers."""
        self.speech, self.socket, self.given, self.pairs, self.speaker, self.loop = speech, socket, given, pairs, speaker, loop
        self.patience = speech.options.read_timeout
        self.samples = self.rest = 0
        self.pending = self.wrong = None  # the next message; why the sound ended early

    def run(self):
        pieces = self.pieces()
        try:
            translations = [(target, self.speech.server.live.begun(source, target)) for source, target in self.pairs]
            for text in self.speech.model.listen(pieces, **self.given):
                self.loop.call_soon_threadsafe(self.speaker.say, text)
                self.send(text.json())
                for target, live in translations:
                    self.send_all(target, live.feed(text))
            for target, live in translations:
                self.send_all(target, live.finish())
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
        self.wait(self.speech.sent(self.socket, line))

    def send_all(self, target, translations):
        for one in translations:
            self.send(translated(target, one.json()))

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
