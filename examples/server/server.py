#!/usr/bin/env python3
"""A translation server with the APIs of LibreTranslate and DeepL, so their clients can use it.

    pip install ./tools/python -r tools/requirements-server.txt
    python examples/server/server.py de:en=examples/models/de-en.safetensors
    curl http://127.0.0.1:5000/translate -d q='Guten Tag.' -d source=de -d target=en

A model is given as SOURCE:TARGET=FILE. A model that needs a target language in each request (Marian)
is given as SOURCE=FILE. A model that needs both languages (NLLB, M2M100) is given as FILE, and
requests use the model's own language codes. Several models may be given. --help lists the options.
The only environment variable that is read is uvicorn's FORWARDED_ALLOW_IPS, the addresses of proxies
whose X-Forwarded-For header is trusted.

POST /translate     q (a text, or a list), source (or "auto"), target,
                    alternatives, format ("text", "html", "markdown", "srt" or "wrapped"),
                    api_key; if the way leads through another language, the response has it as "way"
POST /translate_file   a form (multipart/form-data) with file, source (or "auto"), target, api_key; the response has
                    translatedFileUrl, from which the translated document can be fetched for ten minutes. docx, pptx,
                    odt, odp and epub need lxml: pip install './tools/python[documents]'
POST /detect        the languages that the text may be in, with their confidence (0 to 100). This, and
                    "auto" with several source languages, needs py3langid:
                    pip install './tools/python[detect]'. A single source language has confidence 0,
                    because the text is not examined.
/v2/translate, /v2/languages, /v2/usage, /v2/glossaries, /v3/glossaries: DeepL's (see api_deepl.py)
/live              a WebSocket: takes text while somebody types it, sends its translation (see README.md)
/listen            a WebSocket, if --speech names a Whisper or Moonshine streaming model: takes sound, sends text while somebody
                   speaks, and its translation (see README.md)
/follow            a WebSocket that sends the text of another client's sound, and its translation (see README.md)
GET  /languages, /frontend/settings, /health, /metrics (Prometheus; needs the key if the server has some)
GET  /spec, /docs   the description of all paths in OpenAPI, and as a page
GET  /progress/{id} how far a document of /translate_file is whose form has the id as progress
GET  /              a page to translate in a browser (examples/web, if this file is in its repository)

Bodies are JSON, urlencoded forms or multipart/form-data. format null or empty is text. Each line of a text is a paragraph and is translated sentence by
sentence. The result has the same bytes as the output of `translate --document`, or of `--html` and so
on; it does not depend on other requests. Alternative n consists of the n-th best translation of each sentence.

Workers translate the waiting sentences of all requests together, in batches. Clients take turns, by API key, or if the server has
none, by connection: a batch gets its sentences one by one, each from the client that has had least. SIGHUP loads models, terms and
API keys anew, while requests go on. Status codes: 400 the request is wrong or a text is too
long; 403 the API key is missing or wrong; 408 the body is too slow; 413 the body is too large; 415 the
body's type is not supported; 429 a client sends too many requests; 431 the head is larger than 64 kB;
503 the queue is full or a translation took too long. 429 and 503 have a Retry-After header. Messages
go to standard error: at most 60 a minute, each at most 4000 characters, without control characters.
SIGTERM and Ctrl-C end the server after it has answered the requests that it accepted. On the open
Internet, run it behind a proxy with TLS.

The other files: models.py finds the model for a pair of languages; batches.py translates the sentences of
all requests together; service.py reads, checks and answers requests; endpoints.py describes them; files.py has
documents, turns.py says whose is next, and document_process.py reads and writes one of them in a process with limits; sockets.py has
what WebSockets share, speech.py hears live speech, live_text.py translates live text; api_libretranslate.py has LibreTranslate's paths, api_deepl.py and glossaries.py DeepL's; metrics.py counts; protocol.py limits
connections; log.py writes messages.
"""

import argparse
import contextlib
import errno
import logging
import os
import signal
import socket
import sys

try:
    import uvicorn
    from api_deepl import DeepL
    from api_libretranslate import LibreTranslate
    from files import Files
    from live_text import LiveText
    from log import Log
    from protocol import SECURITY, Protocol, WebSocket
    from service import PAGE, Server
    from speech import Following, Speech
    from transformer_h import Error
    from transformer_h.commands import Parser
except ImportError as e:
    raise SystemExit(f"server.py: Python has no {e.name}; in the repository's folder run: "
                     "pip install ./tools/python -r tools/requirements-server.txt") from None


def arguments():
    parser = Parser(description="Translation server with LibreTranslate's API")

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
    parser.add_argument("--sentences", choices=("split", "whole"), help="split texts into sentences, or translate each line or "
                        "paragraph as one text (default: split, unless a model file says that its model reads whole texts)")
    option("--queue", 4096, "most sentences of a client that may wait; more get status 503 (default %(default)s)")
    option("--timeout", 30.0, "most seconds that a translation may take (default %(default)s)", float)
    option("--read-timeout", 10.0, "most seconds in which a request's head, and then its body, must arrive "
           "(default %(default)s)", float)
    option("--body-limit", 1 << 20, "most bytes of a request's body (default %(default)s)")
    option("--file-limit", 10 << 20, "most bytes of a document (default %(default)s); it may have 8 times as many when it is "
           "unpacked")
    option("--file-text-limit", 8 << 20, "most bytes of the parts of a document that have text, unpacked (default "
           "%(default)s); their XML may need 100 times as much memory (see --file-memory)")
    option("--file-timeout", 300.0, "most seconds that the translation of a document may take (default %(default)s)", float)
    option("--file-seconds", 30.0, "most seconds of CPU that the reading and writing of a document may take (default %(default)s)", float)
    option("--file-memory", 10 ** 9, "most bytes of memory of the process that reads and writes a document (default %(default)s); "
           "on systems without such limits only the seconds end it")
    option("--char-limit", 50000, "most characters of a request's texts (default %(default)s)")
    option("--batch-limit", 1024, "most texts of a request (default %(default)s)")
    option("--alternatives-limit", 5, "most alternatives of a request (default %(default)s)")
    option("--max-source", 512, "most tokens of a sentence (default %(default)s)")
    option("--req-limit", None, "most requests per minute of an API key or address; more get status 429 "
           "(default: no limit)")
    option("--connections", 1000, "most connections at a time; more get status 503 (default %(default)s)")
    option("--api-keys", None, "file with one key per line; requests must have one of the keys "
           "(default: none needed)", str)
    option("--glossaries", None, "folder in which DeepL's glossaries are kept (default: in memory)", str)
    option("--glossary-limit", 10 << 20, "most bytes of all glossaries (default %(default)s)")
    option("--speech", None, "a Whisper or Moonshine streaming model file, which hears live speech at /listen", str)
    option("--listeners", os.cpu_count() or 1, "most sounds that /listen hears at a time; more get status 503 (default %(default)s, "
           "the cores)")
    option("--sound-limit", 3600, "most seconds of a sound that /listen hears (default %(default)s)")
    option("--live", 64, "most texts that /live translates at a time; more get status 503 (default %(default)s)")
    option("--live-timeout", 600.0, "most seconds between two messages of a client of /live (default %(default)s)", float)
    parser.add_argument("--log", action="store_true",
                        help="write a line to standard error for each request: time, client, path, status, duration")
    parser.add_argument("--cors", action="append", metavar="ORIGIN",
                        help="origin of pages that may use the server: https://x.org, or * for all; may be repeated "
                        "(default: none)")
    return parser.parse_args()


def bound(options):
    """Returns sockets of the address and port, before the models are loaded, because they may be in use."""
    sockets = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
                socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)):
            sockets.append(socket.socket(family, kind, protocol))
            if os.name == "posix":  # Windows would share the port with the server that has it
                sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sockets[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sockets[-1].bind(address)
    except OSError as e:
        why = {errno.EADDRINUSE: f"port {options.port} is in use: --port chooses another one",
               errno.EACCES: f"this user may not use port {options.port}: --port chooses another one"}
        raise ValueError(why.get(e.errno, f"{options.host} is no address of this machine (--host): {e.strerror}")) from None
    return sockets


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
    try:
        sockets = bound(options)
        server = Server(options)
        files = Files(server)
        has_sockets = WebSocket.__mro__[1] is not object
        if options.speech and not has_sockets:
            raise ValueError("--speech: Python has no websockets; in the repository's folder run: "
                             "pip install -r tools/requirements-server.txt")
        server.live = LiveText(server) if has_sockets else None
        server.speech = Speech(server) if options.speech else None
        server.sockets = [each for each in (server.live, server.speech, Following(server) if options.speech else None) if each]
        app = server.app((*LibreTranslate(server, files).endpoints(), *DeepL(server, files).endpoints()))
    except (Error, ValueError, OSError) as e:
        raise SystemExit(f"server.py: {e}") from None
    Protocol.patience = options.read_timeout
    sys.setswitchinterval(0.001)  # seconds for which the event loop waits for a thread that reads a large request
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again at its end
        signal.signal(each, lambda *_: None)
    listening = Listening(uvicorn.Config(
        app, host=options.host, port=options.port, http=Protocol, ws=WebSocket if has_sockets else "none",
        ws_max_size=options.body_limit, ws_ping_interval=None, ws_per_message_deflate=False, log_config=None,
        log_level="warning", access_log=False, server_header=False, headers=SECURITY, limit_concurrency=options.connections,
        timeout_graceful_shutdown=int(max(options.timeout, options.file_timeout) + options.read_timeout) + 1))
    with contextlib.suppress(KeyboardInterrupt):  # as uvicorn.run does
        listening.run(sockets)
    if not listening.started:
        raise SystemExit(3)


if __name__ == "__main__":
    main()
