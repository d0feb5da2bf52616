"""Documents that clients send: reading, translating, and keeping the translations until clients fetch them."""

import asyncio
import contextlib
import json
import logging
import math
import os
import re
import secrets
import signal
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from batches import Work
from models import Refused, cut
from service import ASKING, apart, disconnected, parts_of
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from transformer_h import Aligned, Counts, Error
from transformer_h.documents import ARCHIVES, READ_AS, SUFFIXES, etree
from transformer_h.kinds import kind_of
from turns import Turns

FORMATS = tuple(one for one in SUFFIXES if etree or one not in ARCHIVES)  # archives need lxml
PLACES = 12  # of the documents that are translated at a time
OF_A_CLIENT = 6  # places of a client, so that it does not keep others waiting
LARGE = 3  # places of a document of more than SMALL bytes; a smaller one has one place, and a third of --file-memory
SMALL = 1 << 16
RECEIVED = 4  # largest documents whose bytes may be received at a time
WAITING = 16  # documents of a client that may wait
HELD = 10  # largest documents whose bytes may wait, and whose translations are kept
KEPT = 600  # seconds for which a translation is kept
PROGRAM = str(Path(__file__).resolve().with_name("document_process.py"))
# signals that end a process which has used its time
TIME_IS_OVER = {getattr(signal, name, None) for name in ("SIGXCPU", "SIGALRM", "SIGKILL")}
LOOKS = 0.5  # seconds between two looks at a process that has had its time
CHUNKS = 2  # parts of a document that are in the queue at a time: while one is translated, the next one is ready
# characters that control how text is shown, as U+202E, by which "fdp.exe" would look like "exe.pdf"
CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SLICE = 1 << 20  # bytes of a document, for each of which a client has --read-timeout seconds


def places_of(data):
    """Returns how many places a document takes while it is translated."""
    return LARGE if len(data) > SMALL else 1


class Progress:
    """How far the translation of a document is."""

    def __init__(self):
        self.began = None  # when its first sentences came into the queue
        self.total = self.done = 0  # sentences, of all steps
        self.works = []  # that are in the queue

    def state(self, queue):
        """Returns what DeepL's status and /progress say: "queued", or "translating" with numbers."""
        if self.began is None:
            return {"status": "queued"}
        done = min(self.done + sum(len(work.results) - work.left for work in self.works), self.total)
        spent, left = time.monotonic() - self.began, self.total - done
        seconds = spent / done * left if done else queue.seconds(left)
        return {"status": "translating", "seconds_remaining": math.ceil(seconds), "sentences": self.total, "sentences_done": done}


class Files:
    def __init__(self, server):
        self.server, self.options = server, server.options
        self.arriving = self.waiting = 0  # bytes of documents that are being received; of those that wait and are translated
        self.turns = Turns(PLACES, OF_A_CLIENT, WAITING)
        self.kept = {}  # id: (owner, name, data, when it is forgotten)
        self.running = {}  # id that a client chose: Progress

    @property
    def languages(self):
        return self.server.languages

    async def received(self, request):
        """Returns the parameters of a form with a document, the document's name and its bytes, after checking that the
        client may ask."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
            raise Refused(415, "the body is not multipart/form-data")
        most = self.options.file_limit + 65536  # the form is a little larger than the file
        length = request.headers.get("content-length", "")
        size = min(int(length[:18]), most) if length.isdecimal() else most
        held = 0

        def arrived(n):  # a client that sends nothing keeps no place from others
            nonlocal held
            if self.arriving + n > RECEIVED * most:
                raise Refused(503, "the server receives too many documents", 10)
            self.arriving, held = self.arriving + n, held + n

        try:
            body = await self.server.body(request, most, self.options.read_timeout * (1 + size // SLICE), arrived)
            return await self.parsed(request, body, most)
        finally:
            self.arriving -= held

    async def parsed(self, request, body, most):
        """Returns the parameters, the name and the bytes of a form that has been received."""
        found = await parts_of(request, body, max_files=1, max_fields=100, max_file_size=most, spool_max_size=most)  # in memory
        given = {key: value for key, value in found.multi_items() if isinstance(value, str)}
        self.server.admitted(request, given)
        file = found.get("file")
        if not isinstance(file, UploadFile):
            raise Refused(400, "Invalid request: missing file parameter")
        name = CONTROLS.sub("", Path((file.filename or given.get("filename") or "").replace("\\", "/")).name)
        data = await file.read()
        if len(data) > self.options.file_limit:
            raise Refused(413, f"the document is larger than {self.options.file_limit} bytes")
        suffix, _, wrong = await apart(len(data), kind_of, data, name, None, READ_AS)
        if wrong:  # without what only the command line has
            raise Refused(400, f"{cut(name)}: {re.sub(',? (or a format )?[(]--format[^)]*[)]$', '', wrong)}")
        if suffix not in FORMATS:
            raise Refused(400, f"{cut(name)}: the document is not one of {' '.join(FORMATS)}")
        return given, name, data

    @contextlib.contextmanager
    def followed(self, id):
        """Yields a Progress, which progress(id) shows meanwhile if the client has chosen an id."""
        made = Progress()
        if id is None:
            yield made
            return
        if not re.fullmatch("[0-9A-Za-z-]{16,64}", id):
            raise Refused(400, "Invalid request: progress is not 16 to 64 digits, letters and -")
        if id in self.running:
            raise Refused(400, "Invalid request: progress is that of another document")
        self.running[id] = made
        try:
            yield made
        finally:
            del self.running[id]

    def progress(self, id):
        if id not in self.running:
            raise Refused(404, "no such document, or it is translated")
        return self.running[id].state(self.server.queue)

    def hold(self, data):
        """Counts the bytes of a document until it is translated. Refuses it if there are too many. Returns what counts them, to be
        used in a with statement."""
        if self.waiting + len(data) > HELD * self.options.file_limit:
            raise Refused(503, "the server has too many documents", 10)
        return Held(self, len(data))

    async def translated(self, request, name, data, source, target, terms=None, progress=None, plain=False):
        """Returns the translated document, its source language, its number of characters and what stays as it is. source
        may be None, then it is found out. request is None if nobody waits for the answer."""
        async def at_its_turn():
            asking, began = ASKING.get(), time.perf_counter()
            async with self.turns.turn(asking.client, places_of(data)):
                asking.waited += time.perf_counter() - began
                task = asyncio.ensure_future(self.work(name, data, source, target, terms, progress or Progress(), plain))
                try:
                    await asyncio.wait({task}, timeout=self.options.file_timeout)  # not wait_for, which may lose a cancellation
                    if task.done():
                        return task.result()
                    raise Refused(503, f"not translated in {self.options.file_timeout:g} seconds", self.server.queue.retry_after())
                finally:
                    task.cancel()
                    await asyncio.wait({task})  # its process has ended then

        work = asyncio.ensure_future(at_its_turn())
        gone = asyncio.ensure_future(disconnected(request) if request else asyncio.Event().wait())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise ClientDisconnect
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.wait({work})  # its process has ended then

    async def work(self, name, data, source, target, terms, progress, plain):
        memory = self.options.file_memory * places_of(data) // LARGE
        async with Process(self.options, self.server.metrics, memory) as process:
            is_known = source is not None and not self.server.is_plain(source, target, self.server.word(source, target), plain)
            await process.send({"name": name, "most": 8 * self.options.file_limit, "most_text": self.options.file_text_limit,
                                "source": source if is_known else None, "target": target})
            await process.send(b"." + data)
            about = json.loads(await process.receive())
            if source is None:
                source = (await self.server.detected([about["sample"]], target))[0][0][0]
            way = self.languages.find(source, target)
            rule, tally = self.server.word(source, target), Counter()
            plain = self.server.is_plain(source, target, rule, plain)
            await process.send({"steps": len(way), "sentences": rule, "plain": plain, "source": source})
            for i, step in enumerate(way):
                begun = json.loads(await process.receive())
                count, tally["divided"] = begun["count"], tally["divided"] + begun["divided"]
                progress.began, progress.total = progress.began or time.monotonic(), progress.done + count * (len(way) - i)
                given = await terms(source) if terms and step is way[-1] else None
                await self.step(process, (*step, None, given, plain), count, progress, tally)
            left = [*json.loads(await process.receive())["left"], *said(tally)]
            made = (await process.receive())[1:]
        self.server.metrics.characters.inc(about["characters"])
        return made, source, about["characters"], left

    async def step(self, process, key, count, progress, tally):
        """Translates the sentences of a document, which come in parts. key: of their Works."""
        tasks = deque()
        try:
            while count or tasks:
                while count and len(tasks) < CHUNKS:
                    sentences, needs = json.loads(await process.receive())["sentences"], (await process.receive())[1:]
                    work = Work(key, sentences, needs, keeps_long=True)
                    progress.works.append(work)
                    tasks.append((work, asyncio.ensure_future(
                        self.server.done(None, work, self.options.file_timeout, is_document=True))))
                    count -= len(sentences)
                made = await tasks[0][1]
                work = tasks.popleft()[0]
                progress.works.remove(work)
                tally.update(work.tally())
                progress.done += len(made)
                tokens = [one.tokens if isinstance(one, Aligned) else b"" for one in made]
                await process.send({"translations": [None if isinstance(one, Error) else one for one in made],
                                    "sizes": list(map(len, tokens))})
                await process.send(b"." + b"".join(tokens))
        finally:
            for _, task in tasks:
                task.cancel()

    def keep(self, name, data, owner=None):
        """Keeps a translation for a while, and returns its id, which nobody can guess. There is room for ten of the largest
        documents; a new one drops the oldest."""
        self.forget()
        while self.kept and sum(len(one[2]) for one in self.kept.values()) + len(data) > HELD * self.options.file_limit:
            del self.kept[next(iter(self.kept))]
        key = secrets.token_urlsafe(24)
        self.kept[key] = owner, name, data, time.monotonic() + KEPT
        return key

    def forget(self):
        now = time.monotonic()
        for key in [key for key, one in self.kept.items() if one[3] < now]:
            del self.kept[key]

    def answer(self, key, owner=None):
        """Returns the response with a translation."""
        self.forget()
        found = self.kept.get(key)
        if found is None or found[0] != owner:
            raise Refused(404, f"no such document; translations are kept for {KEPT} seconds")
        # "attachment", so that a browser does not show a page of somebody else as the server's
        return Response(found[2], media_type="application/octet-stream", headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found[1])}", "Cache-Control": "no-store"})


def said(tally):
    """Returns the words of `translate` about sentences that were not translated as others."""
    counts = Counts()
    for name in Counts.__slots__:
        getattr(counts, name).extend([0] * tally[name])
    return [str(counts)] if str(counts) else []


class Usage(NamedTuple):
    spent: float  # seconds of CPU
    is_ready: bool  # it computes, or would if it had a CPU; or it has just ended


def usage(pid):
    """Returns the Usage of a process, or None where the system does not say it in /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return Usage((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0] in "RDZ")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


class Held:
    """Counts the bytes of a document."""

    def __init__(self, files, size):
        self.files, self.size = files, size

    def __enter__(self):
        self.files.waiting += self.size

    def __exit__(self, *_):
        self.files.waiting -= self.size


class Process:
    """A process of document_process.py. It is ended when the with statement ends, however that happens."""

    def __init__(self, options, metrics, memory):
        self.options, self.metrics, self.memory, self.left = options, metrics, memory, options.file_seconds

    async def __aenter__(self):
        try:
            self.run = await asyncio.create_subprocess_exec(
                sys.executable, PROGRAM, str(int(self.left) + 1), str(int(self.options.file_timeout + self.left) + 2),
                str(self.memory), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL)
        except OSError as e:
            logging.warning("a document's process does not start: %s", e)
            raise Refused(503, "the server has no process for the document", 10) from None
        return self

    async def __aexit__(self, *_):
        if self.run.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.run.kill()
        self.run.stdin.close()
        await self.run.wait()

    async def send(self, content):
        frame = content if isinstance(content, bytes) else json.dumps(content).encode()
        await self.within(self.sent(frame))

    async def sent(self, frame):
        with contextlib.suppress(ConnectionError):  # receive says why the process has ended
            self.run.stdin.write(len(frame).to_bytes(8, "big") + frame)
            await self.run.stdin.drain()

    async def receive(self):
        frame = await self.within(self.received())
        if frame is None:
            code = await self.run.wait()
            self.refuse("seconds" if -code in TIME_IS_OVER else "memory")
        if frame.startswith((b'{"refused"', b'{"failed"')):
            found = json.loads(frame)
            if "failed" in found:
                logging.error("a document's process failed: %s", found["failed"])
                raise Refused(500, "the server failed")
            raise Refused(400, found["refused"])
        return frame

    async def received(self):
        try:
            return await self.run.stdout.readexactly(int.from_bytes(await self.run.stdout.readexactly(8), "big"))
        except asyncio.IncompleteReadError:
            return None

    async def within(self, work):
        """Waits for the process, which has --file-seconds for all of its work. The time of translations does not count. On a busy
        machine a process that computes gets more, until it has had so many seconds of CPU: the document is not the reason."""
        began, task, before = time.monotonic(), asyncio.ensure_future(work), None
        try:
            await asyncio.wait({task}, timeout=max(self.left, 0))  # not wait_for, which may lose a cancellation
            while not task.done():
                now = usage(self.run.pid)
                if self.run.returncode is not None:  # what it wrote before is being read
                    await asyncio.wait({task}, timeout=LOOKS)
                    continue
                if now is None or now.spent >= self.options.file_seconds:
                    self.refuse("seconds")
                if before and now.spent == before.spent and not now.is_ready:  # it waits for what does not come
                    self.refuse("seconds")
                before = now
                await asyncio.wait({task}, timeout=LOOKS)
            return task.result()
        finally:
            task.cancel()
            self.left -= time.monotonic() - began

    def refuse(self, what):
        self.metrics.documents_stopped.labels(what).inc()
        options = self.options
        raise Refused(400, f"reading and writing the document takes more than {options.file_seconds:g} seconds (--file-seconds)"
                      if what == "seconds" else
                      f"reading and writing the document takes more than {self.memory} bytes of memory (--file-memory)")
