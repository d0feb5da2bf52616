#!/usr/bin/env python3
"""A translation server with the API of LibreTranslate, so clients of LibreTranslate can use it.

    pip install ./tools/python -r tools/requirements-server.txt
    python examples/server/server.py de:en=examples/models/de-en.safetensors
    curl http://127.0.0.1:5000/translate -d q='Guten Tag.' -d source=de -d target=en

A model is given as SOURCE:TARGET=FILE. A model that needs a target language in each request (Marian)
is given as SOURCE=FILE. A model that needs both languages (NLLB, M2M100) is given as FILE, and
requests use the model's own language codes. Several models may be given. --help lists the options.
The only environment variable that is read is uvicorn's FORWARDED_ALLOW_IPS, the addresses of proxies
whose X-Forwarded-For header is trusted.

POST /translate     q (a text, or a list), source (or "auto", if there is only one), target,
                    alternatives, format ("text"; "html" has status 400: tags would be damaged),
                    api_key
POST /detect        the source language, if there is only one; the confidence is always 0, because
                    the text is not examined
GET  /languages, /frontend/settings, /health, /metrics (Prometheus)
GET  /              a page to translate in a browser (examples/web, if this file is in its repository)

Bodies are JSON or urlencoded forms. Each line of a text is a paragraph and is translated sentence by
sentence. The result has the same bytes as the output of `translate --document`; it does not depend on
other requests. Alternative n consists of the n-th best translation of each sentence.

Workers translate the waiting sentences of all requests together, in batches of similar length. A
large request takes turns with the others. Status codes: 400 the request is wrong or a text is too
long; 403 the API key is missing or wrong; 408 the body is too slow; 413 the body is too large; 415 the
body's type is not supported; 429 a client sends too many requests; 431 the head is larger than 64 kB;
503 the queue is full or a translation took too long. 429 and 503 have a Retry-After header. Messages
go to standard error: at most 60 a minute, each at most 4000 characters, without control characters.
SIGTERM and Ctrl-C end the server after it has answered the requests that it accepted. On the open
Internet, run it behind a proxy with TLS.
"""

import argparse
import asyncio
import contextlib
import hmac
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from itertools import accumulate
from pathlib import Path
from urllib.parse import parse_qs

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response
    from starlette.routing import Route
    from transformer_h import Error, Model, Status, Terms, __version__, join_sentences, split_sentences
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError as e:
    raise SystemExit(f"server.py: Python has no {e.name}; in the repository's folder run: "
                     "pip install ./tools/python -r tools/requirements-server.txt") from None

WINDOW = 8  # the number of batches whose sentences are sorted by length together
HEAD = 65536  # largest request line with headers, in bytes
HEAD_END = re.compile(rb"\n\r?\n")
SLICE = 4096  # the parser gets a body in pieces of this many bytes
LOG_LENGTH, LOG_RATE = 4000, 60  # most characters of a message, most messages a minute
PAGE = Path(__file__).resolve().parent.parent / "web"
PAGE_TYPES = {"index.html": "text/html", "page.css": "text/css", "icon.svg": "image/svg+xml", "page.js": "text/javascript",
              "server.js": "text/javascript", "transformer.js": "text/javascript"}
NAMES = dict(pair.split("=") for pair in (
    "ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali ca=Catalan cs=Czech da=Danish "
    "de=German el=Greek en=English eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian "
    "fi=Finnish fr=French ga=Irish gl=Galician he=Hebrew hi=Hindi hr=Croatian hu=Hungarian "
    "id=Indonesian is=Icelandic it=Italian ja=Japanese ka=Georgian kk=Kazakh ko=Korean "
    "lt=Lithuanian lv=Latvian mg=Malagasy mk=Macedonian ms=Malay nb=Norwegian nl=Dutch pl=Polish "
    "pt=Portuguese ro=Romanian ru=Russian sk=Slovak sl=Slovenian sq=Albanian sr=Serbian "
    "sv=Swedish sw=Swahili ta=Tamil th=Thai tl=Tagalog tr=Turkish uk=Ukrainian ur=Urdu uz=Uzbek "
    "vi=Vietnamese zh=Chinese").split())


class Refused(Exception):
    """Refuses a request with a status, a message and, optionally, the seconds after which to retry."""

    def __init__(self, status, message, retry_after=None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


# ---- models and languages ------------------------------------------------------------------------


class Translator:
    """Holds a model with its source and target languages."""

    def __init__(self, argument, options):
        stated = re.fullmatch(r"([\w-]+)(?::([\w-]+))?=(.+)", argument)
        source, target, path = stated.groups() if stated else (None, None, argument)
        self.model = Model(path, weights=options.weights, map=options.map)
        config = self.model.config
        self.told_source = config["src_language"] == "source"
        self.told_target = config["src_language"] == "target" or bool(config["tgt_language_forced"])
        for side, code, told in (("source", source, self.told_source),
                                 ("target", target, self.told_target)):
            if bool(code) == told:
                raise ValueError(f"{path}: its {side} language is " + (
                    f"the request's to say, not {code}" if told else
                    f"to be stated, as in de:en={path}"))
        self.sources = list(config["languages"]) if self.told_source else [source]
        self.targets = list(config["languages"]) if self.told_target else [target]
        self.terms = {}  # (source, target): Terms
        self.model.tokenize("", **self.told(self.sources[0], self.targets[0]))  # fails without a tokenizer

    def told(self, source, target):
        return {"source_language": source if self.told_source else None,
                "target_language": target if self.told_target else None}


class Languages:
    """Finds the translator for a pair of languages: the first that was given, if there are several."""

    def __init__(self, translators):
        self.into = {}  # source: {target: translator}
        for one in translators:
            for source in one.sources:
                pairs = self.into.setdefault(source, {})
                for code in one.targets:
                    if code != source:
                        pairs.setdefault(code, one)
        self.codes = dict.fromkeys(self.into)
        self.codes.update((code, None) for pairs in self.into.values() for code in pairs)

    def list(self):
        return [{"code": code, "name": name(code), "targets": list(self.into.get(code, ()))}
                for code in self.codes]

    def detect(self, target=None):
        """Returns the source language, if there is only one for the target; otherwise refuses."""
        if target is not None and target not in self.codes:
            raise Refused(400, f"{cut(target)} is not supported")
        sources = [code for code, pairs in self.into.items() if target is None or target in pairs]
        if len(sources) != 1:
            raise Refused(400, f"languages are not detected: source is one of {' '.join(sources)}")
        return sources[0]

    def find(self, source, target):
        for code in (source, target):
            if code not in self.codes:
                raise Refused(400, f"{cut(code)} is not supported")
        found = self.into.get(source, {}).get(target)
        if not found:
            raise Refused(400, f"{name(target)} ({target}) is not available as a target language "
                               f"from {name(source)} ({source})")
        return found


def name(code):
    return NAMES.get(re.split("[-_]", code)[0], code)


def cut(text):
    return text if len(text) <= 32 else text[:32] + "..."


# ---- the queue and its workers -------------------------------------------------------------------


class Work:
    """Holds the sentences of a request. Sentences of works with equal keys can share a batch."""

    def __init__(self, key, sentences):
        self.key, self.sentences = key, sentences
        self.results = [None] * len(sentences)
        self.taken, self.left = 0, len(sentences)
        # its result is the list of results, a Refused, or the first error as (index, Error)
        self.done = asyncio.get_running_loop().create_future()


class Queue:
    """Holds the waiting works, and the threads that translate batches of their sentences."""

    def __init__(self, options, metrics):
        self.options, self.metrics = options, metrics
        self.loop = asyncio.get_running_loop()
        self.changed = threading.Condition()
        # guarded by the lock of self.changed:
        self.works = deque()  # works with sentences that are not in a batch yet
        self.batches = deque()  # batches for the threads: lists of (work, index)
        self.n = self.idle = 0  # sentences that are not translated yet; threads that wait
        self.rate = 100.0  # sentences per second, a moving average
        self.closed = False
        self.threads = [threading.Thread(target=self.run, daemon=True)
                        for _ in range(options.threads)]
        for thread in self.threads:
            thread.start()

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    def retry_after(self):
        return min(int(self.n / self.rate) + 1, 60)

    def add(self, work):
        with self.changed:
            # an empty queue accepts every request, or one with more sentences than --queue never runs
            if self.n and self.n + work.left > self.options.queue:
                raise Refused(503, "the server is busy", self.retry_after())
            self.n += work.left
            self.works.append(work)
            self.changed.notify()

    def make_batches(self):
        """Makes batches from a window of waiting sentences, enough for all idle threads. Takes at most
        one batch of sentences from a work at a time, so that a large request does not delay others."""
        groups, n = {}, 0
        while self.works and n < WINDOW * self.options.batch:
            work = self.works.popleft()
            end = min(work.taken + self.options.batch, len(work.sentences))
            if work.done.done():  # the client has left, or the time is over
                self.n -= len(work.sentences) - work.taken
                continue
            groups.setdefault(work.key, []).extend((work, i) for i in range(work.taken, end))
            n, work.taken = n + end - work.taken, end
            if end < len(work.sentences):
                self.works.append(work)
        for group in groups.values():
            group.sort(key=lambda one: len(one[0].sentences[one[1]]))  # so short sentences are not padded
            size = min(self.options.batch, max(-(-len(group) // (1 + self.idle)), 4))
            self.batches.extend(group[i:i + size] for i in range(0, len(group), size))
        self.changed.notify(len(self.batches))

    def run(self):
        while True:
            with self.changed:
                while not self.batches:
                    if self.works:
                        self.make_batches()
                    elif self.closed:
                        return
                    else:
                        self.idle += 1
                        self.changed.wait()
                        self.idle -= 1
                batch = self.batches.popleft()
            began, live = time.perf_counter(), [one for one in batch if not one[0].done.done()]
            try:
                results = self.translate(live) if live else []
            except Exception:  # not an error of a text: the thread must survive it
                logging.exception("a batch failed")
                results = [Refused(500, "the server failed")] * len(live)
            seconds = time.perf_counter() - began
            with self.changed:
                self.n -= len(batch)
                if live:
                    self.rate += 0.1 * (len(live) * len(self.threads) / seconds - self.rate)
                    self.metrics.batches += 1
                    self.metrics.busy += seconds
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                self.loop.call_soon_threadsafe(self.deliver, live, results)

    def translate(self, batch):
        translator, source, target, n_best = batch[0][0].key
        beam = self.options.beam
        return translator.model.translate(
            [work.sentences[i] for work, i in batch], batch=self.options.batch, on_error="return",
            max_source=self.options.max_source, beam=beam and max(beam, n_best or 1), n_best=n_best,
            terms=translator.terms.get((source, target)),
            **translator.told(source, target))

    @staticmethod
    def deliver(batch, results):
        for (work, i), result in zip(batch, results):
            work.results[i] = result
            work.left -= 1
            if work.done.done():
                continue
            if isinstance(result, Refused):
                work.done.set_result(result)
            elif isinstance(result, Error):
                work.done.set_result((i, result))
            elif not work.left:
                work.done.set_result(work.results)


# ---- requests ------------------------------------------------------------------------------------


class Server:
    def __init__(self, options):
        self.options, self.metrics = options, Metrics()
        try:
            self.translators = [Translator(one, options) for one in options.models]
            self.languages = Languages(self.translators)
            for one in options.terms or ():
                self.read_terms(one)
        except (Error, ValueError, OSError) as e:
            raise SystemExit(f"server.py: {e}") from None
        self.keys = None
        if options.api_keys:
            with open(options.api_keys, encoding="utf-8") as file:
                self.keys = [line.strip().encode() for line in file if line.strip()]
        self.allowances = {}  # client: (requests left, time when this was computed)

    def read_terms(self, argument):
        stated = re.fullmatch(r"([\w-]+):([\w-]+)=(.+)", argument)
        if not stated:
            raise ValueError(f"--terms {argument}: expected SOURCE:TARGET=FILE, as in de:en=terms.tsv")
        source, target, path = stated.groups()
        translator = self.languages.into.get(source, {}).get(target)
        if not translator:
            raise ValueError(f"--terms {argument}: no model translates from {source} to {target}")
        if (source, target) in translator.terms:
            raise ValueError(f"--terms {argument}: {source}:{target} has a file already")
        translator.terms[source, target] = Terms(path)

    def app(self):
        source, pairs = next(iter(self.languages.into.items()))
        settings = {
            "apiKeys": self.keys is not None, "keyRequired": self.keys is not None,
            "charLimit": self.options.char_limit, "frontendTimeout": 500, "suggestions": False,
            "supportedFilesFormat": [], "filesTranslation": False,
            "language": {side: {"code": code, "name": name(code)}
                         for side, code in (("source", source), ("target", next(iter(pairs))))}}
        facts = {"/languages": self.languages.list(), "/frontend/settings": settings,
                 "/health": {"status": "ok"},
                 "/models.json": [{"sources": one.sources, "targets": one.targets} for one in self.translators]}
        files = {"/" if name == "index.html" else f"/{name}": ((PAGE / name).read_bytes(), kind)
                 for name, kind in PAGE_TYPES.items() if PAGE.is_dir()}

        async def fact(request):
            return answer(facts[request.scope["path"]])

        async def file(request):
            data, kind = files[request.scope["path"]]
            return Response(data, media_type=kind, headers={"Cache-Control": "no-cache"})

        handlers = (("/translate", "POST", self.translate), ("/detect", "POST", self.detect),
                    ("/metrics", "GET", self.report), *((path, "GET", fact) for path in facts),
                    *((path, "GET", file) for path in files))
        cors = Middleware(
            CORSMiddleware, allow_origins=self.options.cors, allow_methods=["GET", "POST"],
            allow_headers=["*"], expose_headers=["Retry-After"], max_age=86400)
        return Starlette(
            routes=[Route(path, self.answered(run), methods=[method])
                    for path, method, run in handlers],
            middleware=[cors] if self.options.cors else [], lifespan=self.lifespan,
            exception_handlers={HTTPException: self.no_route})

    @contextlib.asynccontextmanager
    async def lifespan(self, _):
        self.queue = Queue(self.options, self.metrics)
        yield
        self.queue.close()

    def answered(self, handler):
        async def run(request):
            began = time.perf_counter()
            self.metrics.active += 1
            try:
                response = await handler(request)
            except Refused as e:
                response = answer({"error": e.message}, e.status, e.retry_after)
            except ClientDisconnect:
                response = answer({"error": "the client has left"}, 499)
            finally:
                self.metrics.active -= 1
            spent = time.perf_counter() - began
            # not request.url, because the client's Host header is a part of it
            self.metrics.request(request.scope["path"], response.status_code, spent)
            self.log(request, response.status_code, spent)
            return response
        return run

    async def no_route(self, request, error):
        self.log(request, error.status_code, 0)
        return answer({"error": error.detail}, error.status_code)

    def log(self, request, status, seconds):
        """Writes a line about a request that was answered, without its text and query."""
        if self.options.log:
            client, path = request.client.host if request.client else "-", request.scope["path"][:200]
            Log.say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {client} {request.method} {Log.printable(path)} {status} "
                    f"{1000 * seconds:.0f} ms")

    async def body(self, request):
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self.options.body_limit:
                raise Refused(413, f"the body is larger than {self.options.body_limit} bytes")
        return body.decode()

    async def parameters(self, request):
        """Returns the parameters of the query and the body, after checking that the client may ask."""
        seconds = self.options.read_timeout
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            body = await asyncio.wait_for(self.body(request), seconds)
            given = form(request.scope["query_string"].decode())
            more = json.loads(body) if kind == "application/json" else form(body)
        except asyncio.TimeoutError:
            raise Refused(408, f"the body took longer than {seconds:g} seconds") from None
        except UnicodeDecodeError as e:
            raise Refused(400, f"the body is not UTF-8 at byte {e.start}") from None
        except (ValueError, RecursionError) as e:
            raise Refused(400, f"the body cannot be read: {e}") from None
        kinds = "application/json", "application/x-www-form-urlencoded"
        if body and kind not in kinds:
            raise Refused(415, f"the body is neither {kinds[0]} nor {kinds[1]}")
        if not isinstance(more, dict):
            raise Refused(400, "the body is not a JSON object")
        given.update(more)
        self.admit(request.client.host if request.client else "", given.get("api_key"))
        return given

    def admit(self, client, key):
        if self.keys is not None:
            if not isinstance(key, str) or not key:
                raise Refused(403, "Please contact the server operator to get an API key")
            client = key.encode("utf-8", "replace")
            if not any([hmac.compare_digest(client, each) for each in self.keys]):
                raise Refused(403, "Invalid API key")
        if self.options.req_limit:
            most, now = self.options.req_limit, time.monotonic()
            left, then = self.allowances.pop(client, (most, now))
            left = min(left + (now - then) * most / 60, most)
            self.allowances[client] = left - (left >= 1), now
            if len(self.allowances) > 10000:  # forgets the client that was idle longest
                del self.allowances[next(iter(self.allowances))]
            if left < 1:
                seconds = int((1 - left) * 60 / most) + 1
                raise Refused(429, f"Slowdown: {most} per 1 minute", seconds)

    async def translate(self, request):
        given = await self.parameters(request)
        texts, one = self.texts(given)
        source, target, kind = (word(given, "source"), word(given, "target"),
                                word(given, "format", "text"))
        if kind != "text":
            raise Refused(400, f"{cut(kind)} format is not supported: only text is translated")
        alternatives = self.alternatives(given)
        detected = source == "auto"
        if detected:
            source = self.languages.detect(target)
        by = self.languages.find(source, target)

        # layout[text][line] is a list of sentences
        layout = [[split_sentences(line) for line in text.split("\n")] for text in texts]
        counts = [sum(map(len, lines)) for lines in layout]
        work = Work((by, source, target, alternatives + 1 if alternatives else None),
                    [sentence for lines in layout for line in lines for sentence in line])
        results = await self.done(request, work) if work.left else []
        if isinstance(results, tuple):
            at, error = results
            text = bisect_right(list(accumulate(counts)), at)
            raise Refused(503 if error.status == Status.E_MEMORY else 400,
                          f"{'q' if one else f'q[{text}]'}: {error.message}")
        self.metrics.sentences += len(results)
        self.metrics.characters += sum(map(len, texts))

        def whole(rank):
            found = iter(results)
            ranked = (lambda h: h[min(rank, len(h) - 1)].text if h else "") if alternatives else str
            return ["\n".join(join_sentences([ranked(next(found)) for _ in line]) for line in lines)
                    for lines in layout]

        best = whole(0)
        content = {"translatedText": best[0] if one else best}
        if alternatives:
            others = [list(dict.fromkeys(text for text in each if text != each[0]))
                      for each in zip(best, *(whole(rank) for rank in range(1, alternatives + 1)))]
            content["alternatives"] = others[0] if one else others
        if detected:
            found = {"confidence": 0, "language": source}
            content["detectedLanguage"] = found if one else [found] * len(texts)
        return answer(content)

    async def done(self, request, work):
        """Waits for the results of a work and returns them. If the client leaves or the time is over,
        raises, and the sentences that still wait are dropped."""
        self.queue.add(work)
        gone = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait({work.done, gone}, timeout=self.options.timeout,
                               return_when=asyncio.FIRST_COMPLETED)
            if not work.done.done():
                late = f"not translated in {self.options.timeout:g} seconds"
                raise ClientDisconnect if gone.done() else Refused(
                    503, late, self.queue.retry_after())
            if isinstance(work.done.result(), Refused):
                raise work.done.result()
            return work.done.result()
        finally:
            gone.cancel()
            work.done.cancel()

    def texts(self, given):
        """Returns the list of texts, and whether q was a single text."""
        q, limit = given.get("q"), self.options.char_limit
        if q is None:
            raise Refused(400, "Invalid request: missing q parameter")
        texts = [q] if isinstance(q, str) else q
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise Refused(400, "Invalid request: q is neither a text nor a list of texts")
        for n, most in ((len(texts), self.options.batch_limit), (sum(map(len, texts)), limit)):
            if n > most:
                raise Refused(400, f"Invalid request: request ({n}) exceeds text limit ({most})")
        return texts, isinstance(q, str)

    def alternatives(self, given):
        n, most = given.get("alternatives", 0), self.options.alternatives_limit
        if isinstance(n, str) and re.fullmatch("[0-9]{1,4}", n):
            n = int(n)
        if type(n) is not int or not 0 <= n <= most:
            raise Refused(400, f"Invalid request: alternatives is not a number from 0 to {most}")
        return n

    async def detect(self, request):
        self.texts(await self.parameters(request))
        return answer([{"confidence": 0, "language": self.languages.detect()}])

    async def report(self, _):
        return Response(self.metrics.text(self.queue.n), media_type="text/plain; version=0.0.4")


def answer(content, status=200, retry_after=None):
    # JSON allows half a surrogate pair, UTF-8 does not: "replace" writes a question mark for it
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if status in (408, 413):
        headers["Connection"] = "close"  # because the rest of the body is not read
    return Response(data, status, headers, "application/json")


def form(text):
    """Parses an urlencoded form. A key that is given several times has a list as its value."""
    given = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=10000)
    return {key: values[0] if len(values) == 1 else values for key, values in given.items()}


def word(given, key, default=None):
    value = given.get(key, default)
    if value is None or value == "":
        raise Refused(400, f"Invalid request: missing {key} parameter")
    if not isinstance(value, str):
        raise Refused(400, f"Invalid request: {key} is not a text")
    return value


async def disconnected(request):
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Metrics:
    BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

    def __init__(self):
        self.requests, self.latencies, self.latency = Counter(), [0] * (len(self.BUCKETS) + 1), 0.0
        self.active = self.sentences = self.characters = self.batches = 0
        self.busy = 0.0

    def request(self, path, status, seconds):
        self.requests[path, status] += 1
        if path == "/translate" and status == 200:
            self.latencies[bisect_left(self.BUCKETS, seconds)] += 1
            self.latency += seconds

    def text(self, waiting):
        lines = []

        def show(metric, kind, what, *samples):
            lines.extend([f"# HELP {metric} {what}", f"# TYPE {metric} {kind}"])
            lines.extend(f"{metric}{labels} {value}" for labels, value in samples)

        prefix, totals = "transformer", list(accumulate(self.latencies))
        show(f"{prefix}_info", "gauge", "Versions.", (f'{{version="{__version__}"}}', 1))
        show(f"{prefix}_requests_total", "counter", "Requests that were answered.", *(
            (f'{{path="{path}",status="{status}"}}', n)
            for (path, status), n in sorted(self.requests.items())))
        show(f"{prefix}_translate_seconds", "histogram", "Time of /translate with status 200.", *(
            (f'_bucket{{le="{le}"}}', n) for le, n in zip((*self.BUCKETS, "+Inf"), totals)),
            ("_sum", self.latency), ("_count", totals[-1]))
        for metric, kind, what, value in (
                ("requests_active", "gauge", "Requests that are being answered.", self.active),
                ("sentences_waiting", "gauge", "Sentences that are not translated yet.", waiting),
                ("sentences_total", "counter", "Sentences translated.", self.sentences),
                ("characters_total", "counter", "Characters of texts translated.", self.characters),
                ("batches_total", "counter", "Batches translated.", self.batches),
                ("busy_seconds_total", "counter", "Time of all workers in batches.", self.busy)):
            show(f"{prefix}_{metric}", kind, what, ("", value))
        show("process_cpu_seconds_total", "counter", "User, system.", ("", time.process_time()))
        return "\n".join(lines) + "\n"


class Protocol(HttpToolsProtocol):
    """Limits the time and the size of a request's head, which uvicorn's protocol does not."""

    patience, alarm = 10.0, None
    # received: bytes of the current head, or of framing since the last bytes of a body.
    # piece: bytes that are being parsed; the next head may begin among them.
    # tail: the last bytes of a head that is not complete, because its end may be divided.
    in_head, received, piece, tail = True, 0, 0, b""

    def connection_made(self, transport):
        super().connection_made(transport)
        self.alarm = self.loop.call_later(self.patience, transport.close)

    def data_received(self, data):
        at = 0
        while at < len(data) and not self.transport.is_closing():
            end = min(at + SLICE, len(data))
            if self.in_head:  # parse up to its end, which may be divided between two pieces of data
                found = HEAD_END.search(self.tail + data[at:at + 2])
                behind = found.end() - len(self.tail) if found else 0
                found = HEAD_END.search(data, at)
                end = at + behind if behind > 0 else found.end() if found else len(data)
            self.received, self.piece = self.received + end - at, 0 if self.in_head else end - at
            self.tail = b""
            if self.received > HEAD:
                self.refuse()
                break
            super().data_received(data[at:end])
            at = end
        if self.in_head and self.received:
            self.tail = data[-2:]
        if self.cycle is not None and not self.cycle.response_complete:  # a head is complete
            self.calm()
        elif self.alarm is None and not self.transport.is_closing():
            self.alarm = self.loop.call_later(self.patience, self.transport.close)

    def on_headers_complete(self):
        super().on_headers_complete()
        self.in_head, self.received = False, 0

    def on_body(self, body):
        super().on_body(body)
        self.received = 0  # in a body only framing counts: sizes of chunks, and trailers

    def on_message_complete(self):
        super().on_message_complete()
        self.in_head, self.received = True, self.piece

    def refuse(self):
        if self.cycle is None or self.cycle.response_complete:  # otherwise an answer is being written
            body = b'{"error":"the head of the request is larger than %d bytes"}' % HEAD
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def connection_lost(self, exc):
        self.calm()
        super().connection_lost(exc)

    def calm(self):
        if self.alarm is not None:
            self.alarm.cancel()
        self.alarm = None


class Log(logging.Handler):
    """Writes messages to standard error, limited in length and number, so that clients cannot flood the
    log. Characters that cannot be printed are escaped. Each line of a message but the first is indented,
    so that a client cannot fake a message."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        self.minute = self.n = 0

    def emit(self, record):
        minute = int(time.monotonic() / 60)
        if minute != self.minute:
            self.minute, self.n = minute, 0
        self.n += 1
        if self.n <= LOG_RATE:
            self.say(self.format(record))
        elif self.n == LOG_RATE + 1:
            self.say("more messages of this minute are left out")

    @staticmethod
    def say(text):
        if len(text) > LOG_LENGTH:  # keeps the end, which is the important part of a traceback
            half = LOG_LENGTH // 2
            text = f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed
            print("\n  ".join(map(Log.printable, text.split("\n"))), file=sys.stderr, flush=True)

    @staticmethod
    def printable(line):
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def arguments():
    parser = argparse.ArgumentParser(description="Translation server with LibreTranslate's API")

    def option(flag, default, what, kind=int, **more):
        def checked(text):
            value = kind(text)
            if not value > 0:
                raise argparse.ArgumentTypeError(f"{text} is not above 0")
            return value
        parser.add_argument(flag, default=default, type=checked if kind in (int, float) else kind,
                            metavar="X" if kind is str else "N", help=what, **more)

    parser.add_argument("models", nargs="+", metavar="[SOURCE[:TARGET]=]FILE",
                        help="a model file and the languages that it translates; without TARGET, or without both, "
                        "the caller chooses")
    option("--host", "127.0.0.1", "address to listen on (default %(default)s)", str)
    option("--port", 5000, "port to listen on (default %(default)s)")
    option("--threads", os.cpu_count() or 1, "number of workers (default %(default)s, the cores)")
    option("--batch", 64, "translate up to N sentences together (default %(default)s)")
    option("--beam", None, "keep N hypotheses at each step (default: the model's)")
    parser.add_argument("--weights", choices=("f32", "f16", "bf16", "i8"),
                        help="convert the weights to this type (default: as in the file)")
    parser.add_argument("--map", action="store_true",
                        help="map packed model files into memory; nothing may change them meanwhile")
    parser.add_argument("--terms", action="append", metavar="SOURCE:TARGET=FILE",
                        help="translations into TARGET use the terms of FILE, as with translate --terms; may be repeated, "
                        "once for each pair of languages")
    option("--queue", 4096, "most sentences that may wait; more get status 503 (default %(default)s)")
    option("--timeout", 30.0, "most seconds that a translation may take (default %(default)s)", float)
    option("--read-timeout", 10.0, "most seconds in which a request's head, and then its body, must arrive "
           "(default %(default)s)", float)
    option("--body-limit", 1 << 20, "most bytes of a request's body (default %(default)s)")
    option("--char-limit", 50000, "most characters of a request's texts (default %(default)s)")
    option("--batch-limit", 1024, "most texts of a request (default %(default)s)")
    option("--alternatives-limit", 5, "most alternatives of a request (default %(default)s)")
    option("--max-source", 512, "most tokens of a sentence (default %(default)s)")
    option("--req-limit", None, "most requests per minute of an API key or address; more get status 429 "
           "(default: no limit)")
    option("--connections", 1000, "most connections at a time; more get status 503 (default %(default)s)")
    option("--api-keys", None, "file with one key per line; requests must have one of the keys "
           "(default: none needed)", str)
    parser.add_argument("--log", action="store_true",
                        help="write a line to standard error for each request: time, client, path, status, duration")
    parser.add_argument("--cors", action="append", metavar="ORIGIN",
                        help="origin of pages that may use the server: https://x.org, or * for all; may be repeated "
                        "(default: none)")
    return parser.parse_args()


class Listening(uvicorn.Server):
    """Says where it listens as soon as it does."""

    async def startup(self, sockets=None):
        await super().startup(sockets)
        if self.started:
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            with contextlib.suppress(OSError, ValueError):  # standard output may be closed
                print(f"listening on http://{host}:{self.config.port}, {'page and ' * PAGE.is_dir()}API", flush=True)


def main():
    options = arguments()
    logging.basicConfig(handlers=[Log()])
    logging.captureWarnings(True)
    app = Server(options).app()
    Protocol.patience = options.read_timeout
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again at its end
        signal.signal(each, lambda *_: None)
    server = Listening(uvicorn.Config(
        app, host=options.host, port=options.port, http=Protocol, ws="none", log_config=None,
        log_level="warning", access_log=False, server_header=False, limit_concurrency=options.connections,
        timeout_graceful_shutdown=int(options.timeout + options.read_timeout) + 1))
    with contextlib.suppress(KeyboardInterrupt):  # as uvicorn.run does
        server.run()
    if not server.started:
        raise SystemExit(3)


if __name__ == "__main__":
    main()
