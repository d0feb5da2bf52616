"""The server's requests, whatever their paths: reading, who may ask, translating, answering.

Everybody waits for the event loop. So what takes longer for a larger request, such as reading JSON, finding sentences and joining
them, is done in a thread if the request is large: see apart."""

import asyncio
import contextlib
import contextvars
import hmac
import json
import logging
import re
import signal
import time
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from pathlib import Path
from urllib.parse import parse_qs

from batches import Faulty, Queue, Work
from endpoints import Endpoint, described
from log import Log
from metrics import Metrics
from models import Languages, Refused, Translator
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from transformer_h import Document, Error, Terms
from transformer_h.markup import is_copied

LEFT = 499  # status of a request whose client has left
JOBS = "/v2/document",  # whose work goes on after the answer
SMALL = 2000  # characters or bytes that the event loop handles itself
PAGE = Path(__file__).resolve().parent.parent / "web"
PAGE_TYPES = {"index.html": "text/html", "page.css": "text/css", "icon.svg": "image/svg+xml", "page.js": "text/javascript",
              **dict.fromkeys(("server.js", "microphone.js", "captions.js", "typing.js", "transformer.js"), "text/javascript")}


class Asking:
    """Whom a request is of: an API key, or if the server has none, a connection. waited: the seconds for which its sentences
    waited until their first batch began."""

    def __init__(self, client):
        self.client, self.waited = client, 0.0


ASKING = contextvars.ContextVar("asking")  # of the request that is being answered


async def apart(size, function, *given):
    """Returns the function's result. If the size is large, a thread calls the function, so that other requests do not wait for it."""
    return function(*given) if size <= SMALL else await asyncio.to_thread(function, *given)


class Server:
    def __init__(self, options):
        self.options, self.metrics = options, Metrics()
        self.translators, self.languages, self.keys = self.read()
        self.live = None  # a LiveText, if Python has websockets
        self.speech = None  # a Speech, if the server has a model for it
        self.sockets = []  # all paths with WebSockets
        self.allowances = {}  # client: (requests left, time when this was computed)

    def read(self):
        """Reads the models, terms and API keys that the options name, and returns them."""
        translators = [Translator(one, self.options) for one in self.options.models]
        languages = Languages(translators)
        for one in self.options.terms or ():
            self.read_terms(one, languages)
        keys = None
        if self.options.api_keys:
            with open(self.options.api_keys, encoding="utf-8") as file:
                keys = [line.strip().encode() for line in file if line.strip()]
        return translators, languages, keys

    async def read_again(self):
        """Reads models, terms and API keys anew, and uses them for requests from then on. If something is wrong, nothing changes."""
        try:
            found = await asyncio.to_thread(self.read)
            speech = await asyncio.to_thread(self.speech.read) if self.speech else None
        except (Error, ValueError, OSError) as e:
            logging.error("SIGHUP: the models stay as they are: %s", e)
            return
        self.translators, self.languages, self.keys = found
        if self.speech:
            self.speech.model = speech
        Log.say("SIGHUP: the models are loaded anew")

    @staticmethod
    def read_terms(argument, languages):
        stated = re.fullmatch(r"([\w-]+):([\w-]+)=(.+)", argument)
        if not stated:
            raise ValueError(f"--terms {argument}: expected SOURCE:TARGET=FILE, as in de:en=terms.tsv")
        source, target, path = stated.groups()
        way = languages.into.get(source, {}).get(target, ())
        if len(way) != 1:
            raise ValueError(f"--terms {argument}: no model translates from {source} to {target}")
        translator = way[0][0]
        if (source, target) in translator.terms:
            raise ValueError(f"--terms {argument}: {source}:{target} has a file already")
        translator.terms[source, target] = Terms(path)

    def app(self, endpoints):
        """endpoints: of the paths that translate."""
        files = {"/" if name == "index.html" else f"/{name}": ((PAGE / name).read_bytes(), kind)
                 for name, kind in PAGE_TYPES.items() if PAGE.is_dir()}

        async def file(request):
            data, kind = files[request.scope["path"]]
            return Response(data, media_type=kind, headers={"Cache-Control": "no-cache"})

        async def models(_):
            return answer([{"sources": one.sources, "targets": one.targets} for one in self.translators])

        async def show_spec(_):
            return Response(spec, media_type="application/json")

        async def show_docs(_):
            return Response(docs, media_type="text/html")

        endpoints = (
            *endpoints, Endpoint("/metrics", "GET", self.report, "Gives numbers for Prometheus.", kind="text/plain"),
            Endpoint("/spec", "GET", show_spec, "Describes the API in OpenAPI."),
            Endpoint("/docs", "GET", show_docs, "Describes the API on a page.", kind="text/html"),
            Endpoint("/models.json", "GET", models), *(Endpoint(path, "GET", file) for path in files))
        spec, docs = described([*endpoints, *(each.endpoint() for each in self.sockets)], self.keys is not None)
        cors = Middleware(
            CORSMiddleware, allow_origins=self.options.cors, allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"], expose_headers=["Retry-After"], max_age=86400)
        return Starlette(
            routes=[*(Route(one.path, self.answered(one.path, one.run), methods=[one.method]) for one in endpoints),
                    *(each.route() for each in self.sockets)],
            middleware=[cors] if self.options.cors else [], lifespan=self.lifespan,
            exception_handlers={HTTPException: self.no_route})

    @contextlib.asynccontextmanager
    async def lifespan(self, _):
        self.queue = Queue(self.options, self.metrics)
        self.metrics.waiting.set_function(lambda: self.queue.n)
        wanted, reading = asyncio.Event(), None
        if hasattr(signal, "SIGHUP"):
            async def read_when_wanted():
                while await wanted.wait():
                    wanted.clear()
                    await self.read_again()
            reading = asyncio.create_task(read_when_wanted())
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, wanted.set)
        yield
        if reading:
            reading.cancel()
        self.queue.close()

    def answered(self, path, handler):
        async def run(request):
            began, asking = time.perf_counter(), Asking(request.client)
            ASKING.set(asking)
            self.metrics.active.inc()
            try:
                response = await handler(request)
            except Refused as e:
                response = failure(request, e.message, e.status, e.retry_after)
            except ClientDisconnect:
                response = failure(request, "the client has left", LEFT)
            finally:
                self.metrics.active.dec()
            spent = time.perf_counter() - began
            self.metrics.request(path, response.status_code)
            if path not in JOBS:
                self.metrics.work(path, response.status_code, spent, asking.waited)
            self.log(request, response.status_code, spent)
            return response
        return run

    @contextlib.contextmanager
    def job(self, path):
        """Counts work that goes on after the answer to its request, as a request of its own."""
        began, asking, status = time.perf_counter(), Asking(ASKING.get().client), 200
        ASKING.set(asking)
        try:
            yield
        except Refused as e:
            status = e.status
            raise
        except BaseException:
            status = 500
            raise
        finally:
            self.metrics.work(path, status, time.perf_counter() - began, asking.waited)

    async def no_route(self, request, error):
        self.log(request, error.status_code, 0)
        return failure(request, error.detail, error.status_code)

    def log(self, request, status, seconds):
        """Writes a line about a request that was answered, without its text and query."""
        if status == LEFT:
            Log.left()
        if self.options.log:
            client, path = request.client.host if request.client else "-", request.scope["path"][:200]
            Log.say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {client} {request.scope.get('method', 'WEBSOCKET')} {Log.printable(path)} {status} "
                    f"{1000 * seconds:.0f} ms")

    async def report(self, request):
        if self.keys is not None:
            await self.parameters(request)
        return Response(self.metrics.text(), media_type=self.metrics.TYPE)

    # ---- reading a request ---------------------------------------------------------------------------

    async def body(self, request, most, seconds, arrived=lambda n: None):
        """Returns the body of a request. arrived is called with the number of bytes of each piece."""
        async def read():
            body = bytearray()
            async for chunk in request.stream():
                arrived(len(chunk))
                body += chunk
                if len(body) > most:
                    raise Refused(413, f"the body is larger than {most} bytes")
            return bytes(body)
        try:
            return await asyncio.wait_for(read(), seconds)
        except asyncio.TimeoutError:
            raise Refused(408, f"the body took longer than {seconds:g} seconds") from None

    async def parameters(self, request):
        """Returns the parameters of the query and the body, after checking that the client may ask."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await self.body(request, self.options.body_limit, self.options.read_timeout)
        kinds = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
        if body and kind not in kinds:
            raise Refused(415, f"the body is neither {kinds[0]} nor {kinds[1]} nor {kinds[2]}")
        try:
            given = form(request.scope["query_string"].decode())
            if kind == kinds[2]:
                more = await self.fields(request, body)
            else:
                more = await apart(len(body), lambda: json.loads(body.decode()) if kind == kinds[0] else form(body.decode()))
        except UnicodeDecodeError as e:
            raise Refused(400, f"the body is not UTF-8 at byte {e.start}") from None
        except (ValueError, RecursionError) as e:
            raise Refused(400, f"the body cannot be read: {e}") from None
        if not isinstance(more, dict):
            raise Refused(400, "the body is not a JSON object")
        given.update(more)
        self.admitted(request, given)
        return given

    async def fields(self, request, body):
        """Returns the fields of a form (multipart/form-data). A key that is given several times has a list as its value."""
        found = await parts_of(request, body, "; /translate_file takes files", max_files=0, max_fields=10000,
                               max_part_size=self.options.body_limit)
        return {key: values[0] if len(values) == 1 else values for key in found for values in [found.getlist(key)]}

    def admitted(self, request, given):
        self.admit(request.client.host if request.client else "", key_of(request, given))

    def admit(self, client, key):
        if self.keys is not None:
            if not isinstance(key, str) or not key:
                raise Refused(403, "Please contact the server operator to get an API key")
            client = key.encode("utf-8", "replace")
            if not any([hmac.compare_digest(client, each) for each in self.keys]):
                raise Refused(403, "Invalid API key")
            ASKING.get().client = client
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

    def texts(self, given, key):
        """Returns the list of texts of a parameter, and whether it was a single text."""
        q, limit = given.get(key), self.options.char_limit
        if q is None:
            raise Refused(400, f"Invalid request: missing {key} parameter")
        texts = [q] if isinstance(q, str) else q
        few = texts[:self.options.batch_limit] if isinstance(texts, list) else [None]  # a million texts are not looked at
        if not all(isinstance(text, str) for text in few):
            raise Refused(400, f"Invalid request: {key} is neither a text nor a list of texts")
        for n, most in ((len(texts), self.options.batch_limit), (size_of(few), limit)):
            if n > most:
                raise Refused(400, f"Invalid request: request ({n}) exceeds text limit ({most})")
        return texts, isinstance(q, str)

    # ---- translating ---------------------------------------------------------------------------------

    async def detected(self, texts, target=None, format="text"):
        """Returns (code, confidence) of the languages that each text may be in, the most probable first."""
        def detect():
            return [self.languages.detect(
                text if format == "text" else "\n".join(document_of(text, format).sentences), target) for text in texts]
        return await apart(size_of(texts), detect)

    def word(self, source, target, given=None):
        """Returns whether texts are "split" into sentences, or are translated "whole". given: what the request says."""
        whole = any(one.model.config["sentences"] == "whole" for one, _, _ in self.languages.find(source, target))
        return given or self.options.sentences or ("whole" if whole else "split")

    async def translated(self, request, texts, sources, target, alternatives=0, where="q[{}]", format="text", terms=None,
                         sentences=None, plain=False, tally=None):
        """Returns a list with the translations of each text, the best first: at most 1 + alternatives, and
        none equal. sources: the language of each text. where: the name of text {} in messages. format: one of
        Document.FORMATS. terms: the Terms of each source, if the request has some. sentences: "split", "whole" or None.
        plain: what stands around sentences is given to the model, too. tally: a Counter, which gets the lengths of Counts; on a way
        through another language those of both models."""
        found = [[] for _ in texts]
        for source in dict.fromkeys(sources):
            rows = [i for i, each in enumerate(sources) if each == source]
            some = await self.translated_from(request, [texts[i] for i in rows], source, target, alternatives,
                                              lambda i: where.format(rows[i]), format, (terms or {}).get(source),
                                              self.word(source, target, sentences), plain, Counter() if tally is None else tally)
            for i, translations in zip(rows, some):
                found[i] = translations
        self.metrics.characters.inc(sum(map(len, texts)))
        return found

    def is_plain(self, source, target, rule, plain):
        """Returns whether the models of a way get sentences as they are: the first model, and what the request says, decide."""
        return plain or rule == "whole" or self.languages.find(source, target)[0][0].model.config["sentences"] != "split"

    async def translated_from(self, request, texts, source, target, alternatives, where, format, terms, rule, plain, tally):
        *before, last = self.languages.find(source, target)
        size, plain = size_of(texts), self.is_plain(source, target, rule, plain)

        def read(texts):
            documents = [document_of(text, format, rule, plain, source) for text in texts]
            tally["divided"] += sum(one.divided for one in documents)
            return documents, *sentences_of(documents)

        async def run(step, sentences, needs, n_best=None, terms=None):
            work = await apart(size, Work, (*step, n_best, terms, plain), sentences, needs)
            try:
                results = await self.done(request, work, self.options.timeout)
            except Faulty as e:
                text = bisect_right(list(accumulate(len(one.sentences) for one in documents)), e.at)
                raise Refused(e.status, f"{where(text)}: {e.message}") from None
            tally.update(work.tally())
            return results if format != "text" else [own(one, source) for one, source in zip(results, sentences)]

        def joined(results):
            found = iter(results)
            return [one.join([next(found) for _ in one.sentences], target) for one in documents]

        documents, sentences, needs = await apart(size, read, texts)
        for step in before:  # through another language: the bytes of translate with two models
            sentences = await run(step, sentences, needs)
            if format != "text":  # tags are placed by the alignment of each model in turn
                documents, sentences, needs = await apart(size, lambda: read(joined(sentences)))
        results = await run(last, sentences, needs, alternatives + 1 if alternatives else None, terms)
        if not alternatives:
            return [[text] for text in await apart(size, joined, results)]
        ranks = [[h[min(rank, len(h) - 1)].text if h else "" for h in results] for rank in range(alternatives + 1)]
        return [list(dict.fromkeys(each)) for each in zip(*[await apart(size, joined, rank) for rank in ranks])]

    async def done(self, request, work, seconds, is_document=False):
        """Waits for the results of a work and returns them. If the client leaves or the time is over,
        raises, and the sentences that still wait are dropped. request is None if no client waits."""
        if not work.left:
            return []
        asking = ASKING.get()
        self.queue.add(work, asking.client, is_document)
        gone = asyncio.ensure_future(disconnected(request) if request else asyncio.Event().wait())
        try:
            await asyncio.wait({work.done, gone}, timeout=seconds,
                               return_when=asyncio.FIRST_COMPLETED)
            if not work.done.done():
                late = f"not translated in {seconds:g} seconds"
                raise ClientDisconnect if gone.done() else Refused(
                    503, late, self.queue.retry_after())
            wrong = work.done.result()
            if wrong:
                raise wrong
        finally:
            gone.cancel()
            work.done.cancel()
            self.queue.end(work)
            asking.waited += (work.began or time.perf_counter()) - work.added
        self.metrics.sentences.inc(len(work.numbers))
        return await apart(len(work.numbers), work.results_of_all)


def own(result, sentence):
    """Returns the result of a sentence, which is the sentence itself if it stays as it is."""
    if isinstance(result, list):
        return [each._replace(text=own(each.text, sentence)) for each in result]
    return sentence if is_copied(result) else result


def size_of(texts):
    return sum(map(len, texts))


def document_of(text, format, sentences="split", plain=False, source=None):
    """Returns a Document, whose text is in the language source; refuses subtitles without times."""
    try:
        return Document(text, format, sentences=sentences, plain=plain, source=source)
    except ValueError as e:
        raise Refused(400, str(e)) from None


def sentences_of(documents):
    """Returns the sentences of all documents, and a byte for each: 1 if its document needs the tokens of its translation."""
    return [one for each in documents for one in each.sentences], b"".join(each.needs_tokens for each in documents)


async def parts_of(request, body, about_files="", **limits):
    """Returns the fields of a form (multipart/form-data) whose body is there."""
    async def pieces():
        yield body

    async def parse():
        parser = MultiPartParser(request.headers, pieces(), max_files=limits["max_files"], max_fields=limits["max_fields"])
        for name, value in limits.items():
            setattr(parser, name, value)
        return await parser.parse()

    try:
        return await (parse() if len(body) <= SMALL else asyncio.to_thread(asyncio.run, parse()))
    except (MultiPartException, UnicodeDecodeError, KeyError) as e:
        message = getattr(e, "message", str(e))
        raise Refused(400, f"the body cannot be read: {message}" + about_files * ("files" in message)) from None


def answer(content, status=200, retry_after=None):
    # JSON allows half a surrogate pair, UTF-8 does not: "replace" writes a question mark for it
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if status in (408, 413):
        headers["Connection"] = "close"  # because the rest of the body is not read
    return Response(data, status, headers, "application/json")


def failure(request, message, status, retry_after=None):
    """DeepL's paths name the message in another way than LibreTranslate's."""
    is_deepl = request.scope["path"].startswith(("/v2/", "/v3/"))
    return answer({"message" if is_deepl else "error": message}, status, retry_after)


def key_of(request, given):
    """Returns the API key of a request: LibreTranslate's parameter, or DeepL's header or parameter."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme in ("DeepL-Auth-Key", "Bearer") else given.get("auth_key", given.get("api_key"))


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


def flag(given, key):
    """Returns a parameter that is true or false; a form has a word for it."""
    value = str(given.get(key, False)).lower()
    if value not in ("true", "1", "false", "0", "", "none"):
        raise Refused(400, f"Invalid request: {key} is neither true nor false")
    return value in ("true", "1")


async def disconnected(request):
    while (await request.receive())["type"] != "http.disconnect":
        pass
