"""Tests that no client of examples/server/server.py delays another: make test-server"""

import asyncio
import contextlib
import json
import socket
import struct
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from load import GERMAN, ROOT, server, server_seconds, translated
from test_server import GOOD, ask, head, in_threads, metrics, post, raw, translate, wait_until
from transformer_h import join_sentences
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

sys.path.insert(0, str(ROOT / "examples/server"))
WHISPER = ROOT / "tests/data/transcribe/whisper.safetensors"
PROBE = "Der Hund schläft."


# ---- who is next -----------------------------------------------------------------------------------


class Translator:
    """Notes the batches that it gets. It waits for the gate before each, so a test decides when a batch ends."""

    def __init__(self):
        self.batches, self.gate, self.terms, self.model = [], threading.Semaphore(0), {}, self

    def told(self, source, target):
        return {}

    def translate(self, texts, **_):
        self.gate.acquire()
        self.batches.append(texts)
        return [each.upper() for each in texts]


@contextlib.contextmanager
def queue(**options):
    from batches import Queue
    from metrics import Metrics
    made = Queue(SimpleNamespace(**{"threads": 1, "batch": 4, "queue": 100, "beam": None, "max_source": 512, **options}), Metrics())
    translator = Translator()
    try:
        yield made, translator
    finally:
        translator.gate.release(10 ** 6)
        made.close()


def work(translator, name, n, size=1):
    from batches import Work
    return Work((translator, "de", "en", None, None, False), [f"{name}{i}".ljust(size, "x") for i in range(n)])


async def taken(translator, n):
    """Lets n batches end, and returns them."""
    before = len(translator.batches)
    for i in range(n):
        translator.gate.release()
        until = time.monotonic() + 30
        while len(translator.batches) <= before + i:
            assert time.monotonic() < until
            await asyncio.sleep(0.001)
    return translator.batches[before:]


def test_clients_take_turns():
    async def run():
        with queue() as (line, translator):
            large = work(translator, "a", 40)
            line.add(large, "a")
            await asyncio.sleep(0.05)  # the worker has its first batch, a0 to a3
            short = work(translator, "b", 1)
            line.add(short, "b")
            line.add(work(translator, "c", 2), "c")
            first, second, third = await taken(translator, 3)
            assert first == ["a0", "a1", "a2", "a3"] and {"b0", "c0"} < set(second) and "c1" in [*second, *third]
            await asyncio.wait_for(short.done, 10)
            assert short.results_of_all() == ["B0"]
    asyncio.run(run())


def test_requests_of_a_client_take_turns():
    async def run():
        with queue() as (line, translator):
            line.add(work(translator, "a", 40), "x")
            await asyncio.sleep(0.05)
            line.add(work(translator, "b", 40), "x")
            _, second = await taken(translator, 2)
            assert sorted(each[0] for each in second) == ["a", "a", "b", "b"]
    asyncio.run(run())


def test_nobody_starves():
    """Clients that always come anew do not keep a client with much from its share, nor does one with long sentences get more."""
    async def run():
        with queue(queue=10 ** 6) as (line, translator):
            line.add(work(translator, "long", 200, 1000), "long")
            line.add(work(translator, "much", 2000, 100), "much")
            seen, new = [], []
            for i in range(120):
                for k in range(4):
                    new.append(work(translator, f"new{i}.{k}.", 1, 100))
                    line.add(new[-1], f"{i}.{k}")
                seen += sum(await taken(translator, 1), [])
                for each in new:
                    if each.done.done():
                        line.end(each)
                new = [each for each in new if not each.done.done()]
            share = {name: sum(len(each) for each in seen if each.startswith(name)) for name in ("long", "much", "new")}
            assert share["much"] > 2000 <= 2 * share["long"] < 4 * share["much"], share  # both go on, although new ones fill all batches
    asyncio.run(run())


def test_limits_are_of_each_client():
    from models import Refused

    async def run():
        with queue(queue=10) as (line, translator):
            line.add(work(translator, "a", 50), "a")  # the first request may be larger than the limit
            with pytest.raises(Refused) as caught:
                line.add(work(translator, "a", 1), "a")
            assert caught.value.status == 503 and caught.value.retry_after >= 1
            for i in range(20):
                line.add(work(translator, "b", 5), f"b{i}")
            line.add(work(translator, "c", 500), "c", is_document=True)  # counts as one batch of 4
            line.add(work(translator, "c", 6), "c")
            with pytest.raises(Refused):
                line.add(work(translator, "c", 1), "c")
    asyncio.run(run())


def test_what_nobody_waits_for_is_dropped():
    async def run():
        with queue() as (line, translator):
            one, other = work(translator, "a", 40), work(translator, "b", 2)
            line.add(one, "a")
            await asyncio.sleep(0.05)
            line.add(other, "a")
            one.done.cancel()
            line.end(one)
            assert line.n == 6  # four are being translated
            assert (await taken(translator, 2))[1] == ["b0", "b1"]
            await asyncio.wait_for(other.done, 10)
            line.end(other)
            assert (line.n, line.untaken, line.clients) == (0, 0, {})
    asyncio.run(run())


def test_equal_sentences_are_translated_once():
    from batches import Work

    async def run():
        with queue() as (line, translator):
            made = Work((translator, "de", "en", None, None, False), ["a", "b", "a", "a"], b"\0\0\1\0")
            line.add(made, "x")
            batches = await taken(translator, 2)
            await asyncio.wait_for(made.done, 10)
            assert sorted(batches) == [["a"], ["a", "b"]] and made.results_of_all() == ["A", "B", "A", "A"]
    asyncio.run(run())


def test_documents_take_turns():
    from models import Refused
    from turns import Turns

    async def run():
        turns, order, gates = Turns(4, 2, 3), [], {}

        async def document(client, i):
            async with turns.turn(client):
                order.append(client + str(i))
                await gates.setdefault(client + str(i), asyncio.Event()).wait()

        tasks = {}

        async def begin(client, *numbers):
            for i in numbers:
                tasks[client + str(i)] = asyncio.create_task(document(client, i))
            await asyncio.sleep(0.01)

        async def end(name):
            gates[name].set()
            await tasks[name]
            await asyncio.sleep(0.01)

        await begin("a", 0, 1, 2, 3, 4)
        assert order == ["a0", "a1"]  # the places for others stay free
        await begin("a", 5)
        with pytest.raises(Refused, match="3 of your documents wait already"):
            await tasks["a5"]
        await begin("b", 0, 1)
        await begin("c", 0, 1)
        assert order[2:] == ["b0", "b1"]
        await end("a0")
        assert order[4:] == ["c0"]  # and not a2, which waits longer
        tasks["a2"].cancel()
        await asyncio.sleep(0.01)
        await end("b0")
        assert order[5:] == ["a3"] or order[5:] == ["c1"]
        for name in ("a1", "b1", "c0", "a3", "c1", "a4"):
            gates.setdefault(name, asyncio.Event()).set()
        await asyncio.gather(*(task for name, task in tasks.items() if name not in ("a2", "a5")))
        assert not turns.running and not turns.waiting
    asyncio.run(run())


def test_large_documents_take_several_places():
    """A large one gets its turn although small ones always come, and takes no more than a client's places."""
    from turns import Turns

    async def run():
        turns, order, gates = Turns(4, 3, 9), [], {}

        async def document(client, places):
            async with turns.turn(client, places):
                order.append(client)
                await gates.setdefault(client, asyncio.Event()).wait()

        tasks = {}
        for client, places in (("a", 1), ("b", 1), ("large", 3), ("c", 1), ("d", 1)):
            tasks[client] = asyncio.create_task(document(client, places))
            await asyncio.sleep(0.01)
        assert order == ["a", "b"]  # one more than the free places: all others wait for it
        gates["a"].set()
        await asyncio.sleep(0.01)
        assert order == ["a", "b", "large"]
        second = asyncio.create_task(document("large", 1))
        gates["b"].set()
        await asyncio.sleep(0.01)
        assert order == ["a", "b", "large", "c"]  # a second one of that client would be over its three places
        for gate in (*gates.values(), gates.setdefault("d", asyncio.Event())):
            gate.set()
        await asyncio.gather(*tasks.values(), second)
        assert order[4:] in (["d", "large"], ["large", "d"]) and not turns.running and not turns.waiting
    asyncio.run(run())


# ---- joining ---------------------------------------------------------------------------------------


def test_joining_takes_time_in_proportion_to_the_text():
    def seconds(n):
        began = time.process_time()
        assert len(join_sentences(["1!"] * n)) == 3 * n - 1
        return time.process_time() - began
    seconds(1000)
    assert seconds(160000) < 40 * max(seconds(16000), 0.01)  # it was 100 times as long


def test_the_last_letter_decides_however_far_it_is():
    many = ["!" * 50] * 200
    assert join_sentences(["好。", *many, "a"]) == "好。" + "".join(many) + "a"
    assert join_sentences(["gut.", *many, "a"]) == " ".join(["gut.", *many, "a"])
    assert join_sentences(["好。", "", "1", "gut", "2", "好", "", "3"]) == "好。1gut 2 好3"


# ---- one client that is hostile, and one that asks -------------------------------------------------


class Probes:
    """Asks for one sentence again and again, until the with statement ends. It limits the CPU seconds that the server spends
    until it answers, because on a machine that does other things too, the wall clock would measure those things."""
    pids = {}  # the process of each server, by its port

    def __init__(self, port):
        self.port, self.times, self.wrong, self.stop = port, [], [], threading.Event()

    def __enter__(self):
        self.expected = translated([PROBE])[0]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        while not self.stop.is_set():
            began = server_seconds(self.pids[self.port])
            status, _, content = post(self.port, {**GOOD, "q": PROBE})
            self.times.append(server_seconds(self.pids[self.port]) - began)
            if (status, content.get("translatedText")) != (200, self.expected):
                self.wrong.append((status, content))
            time.sleep(0.1)

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        assert len(self.times) > 2 and not self.wrong, self.wrong[:3]
        assert max(self.times) < 5, sorted(self.times)[-5:]


@contextlib.contextmanager
def probed(*options):
    """Starts a server that Probes can ask, and gives its port."""
    with server("--threads", 1, "--read-timeout", 5, *options) as (run, port):
        Probes.pids[port] = run.pid
        yield port


@pytest.fixture(scope="module")
def port():
    with probed() as port:
        yield port


def test_a_long_document(port):
    text = "".join(f"Der Hund {i} schläft im Garten.\n\n" for i in range(1500))
    body = "".join(f'--line\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in (
        ("source", "de"), ("target", "en")))
    body += f'--line\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\n{text}\r\n--line--\r\n'
    with Probes(port):
        assert ask(port, "/translate_file", "POST", body.encode(), {"Content-Type": "multipart/form-data; boundary=line"})[0] == 200


def test_sentences_without_a_letter(port):
    with Probes(port):
        for text in ("1! " * 16000, "! " * 24000, "\n" * 49000, ". " * 10000 + "好"):
            assert post(port, {**GOOD, "q": text})[0] in (200, 400), text[:9]  # some are one sentence, which is too long
            time.sleep(0.3)


def test_long_sentences(port):
    """A batch of 24 sentences with 200 tokens would take many seconds."""
    with Probes(port):
        status, _, content = post(port, {**GOOD, "q": [f"{i} " + "viel Geld und " * 60 for i in range(24)]})
        assert status == 200 or "not translated in" in content["error"]


def test_requests_piled_up(port):
    many = b"GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
    before = metrics(port)["process_resident_memory_bytes",]
    with Probes(port) as probes, contextlib.ExitStack() as stack:
        for _ in range(20):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.send(many)
        sent = len(probes.times)
        time.sleep(2)
        wait_until(lambda: len(probes.times) > sent + 2)
        assert metrics(port)["process_resident_memory_bytes",] - before < 100e6


@pytest.mark.parametrize("size", [10 ** 6, 5000, 333, 17])
def test_requests_that_wait_are_answered_in_order(port, size):
    """Many on a connection, with bodies and without, however they come."""
    body = json.dumps({**GOOD, "q": ""}).encode()
    parts = [b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
             head(len(body)).replace(b"Connection: close\r\n", b"") + body,
             head(0).replace(b"Connection: close\r\n", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
             + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"]
    data = b"".join(parts * 40) + b"GET /languages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        def send():
            for at in range(0, len(data), size):
                one.sendall(data[at:at + size])
        thread = threading.Thread(target=send)
        thread.start()
        found = b""
        while part := one.recv(65536):
            found += part
        thread.join()
    assert found.count(b"HTTP/1.1 200 OK") == 121 and found.endswith(b"]")
    order = [b"ok" in each for each in found.split(b"HTTP/1.1 ")[1:-1]]
    assert order == [True, False, False] * 40


def test_at_most_16_wait():
    """Counts the requests that the parser has read while the first one is not answered."""
    from protocol import PIPELINE, Protocol
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    async def run():
        answers, begun = [], []

        async def app(scope, receive, send):
            begun.append(scope["path"])
            await receive()
            await asyncio.wait_for(answers[len(begun) - 1].wait(), 10)
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})

        config = Config(app, http=Protocol, lifespan="off")
        config.load()
        answers += [asyncio.Event() for _ in range(100)]
        listening = await asyncio.get_running_loop().create_server(
            lambda: made.append(Protocol(config, ServerState(), {})) or made[-1], "127.0.0.1", 0)
        made = []
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(60)))
        await asyncio.sleep(0.2)
        assert len(begun) == 1 and len(made[0].pipeline) == PIPELINE and made[0].flow.read_paused
        for i in range(60):
            answers[i].set()
            while len(begun) < min(i + 2, 60):
                await asyncio.sleep(0)
            assert len(made[0].pipeline) <= PIPELINE
        assert begun == [f"/{i}" for i in range(60)]
        writer.close()
        listening.close()
    asyncio.run(run())


# ---- live speech -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hearing():
    with probed("--speech", WHISPER, "--listeners", 4) as port:
        yield port


def opened(port):
    return connect(f"ws://127.0.0.1:{port}/listen?format=s16le&rate=16000", open_timeout=60, close_timeout=1)


def frames(*given):
    return b"".join(Frame(opcode, data, fin).serialize(mask=True) for opcode, data, fin in given)


@pytest.mark.parametrize("frame, code", [
    ((Opcode.PING, b"", True), 1008), ((Opcode.PONG, b"", True), 1008), ((Opcode.CONT, b"", False), 1008), ((Opcode.CONT, b"x", False), 1009)])
def test_frames_without_end(hearing, frame, code):
    """Pings, pongs, and fragments of a message that does not end. The client reads nothing meanwhile."""
    begin = frames((Opcode.BINARY, b"\0\0", frame[0] != Opcode.CONT))
    many = frames(*[frame] * 3000)
    with Probes(hearing), opened(hearing) as one, opened(hearing) as other:
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.socket.sendall(begin + many)
        for each in (one, other):
            with pytest.raises(ConnectionClosed) as caught:
                while True:
                    each.recv(timeout=30)
            assert caught.value.rcvd is None or caught.value.rcvd.code == code
        time.sleep(0.5)


def test_pings_between_messages_are_answered(hearing):
    with opened(hearing) as one:
        for _ in range(200):  # more than may come without a message between them
            assert one.ping().wait(30)
            one.send(b"\0\0" * 160)
        one.send(b"")
        with contextlib.suppress(ConnectionClosed):
            while True:
                one.recv(timeout=60)
        assert one.close_code == 1000


def test_many_small_messages(hearing):
    """Each has one sample, and all are heard, but only some wait in the server."""
    with Probes(hearing), opened(hearing) as one:
        one.socket.sendall(frames(*[(Opcode.BINARY, b"\0\0", True)] * 4000, (Opcode.BINARY, b"", True)))
        with contextlib.suppress(ConnectionClosed):
            while True:
                one.recv(timeout=60)
        assert one.close_code == 1000


# ---- clients that leave ----------------------------------------------------------------------------


def test_clients_that_leave_early_are_one_line(tmp_path):
    body = json.dumps({**GOOD, "q": [f"Der Hund {i} bellt." for i in range(200)]}).encode()
    with open(tmp_path / "log", "wb") as log, server("--threads", 1, log=log) as (_, port):
        def leave(i):
            with socket.create_connection(("127.0.0.1", port)) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the connection is reset
                one.sendall((head(len(body)) + body)[:None if i % 2 else -9])
                time.sleep(0.2)
        in_threads(20, leave)
        many = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        for one in many:  # requests that wait behind others when the connection is lost
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.send(b"GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        time.sleep(2)
        for one in many:
            one.close()
        wait_until(lambda: metrics(port).get(
            ("transformer_requests_total", ("path", "/translate"), ("status", "499")), 0) >= 15)
        assert translate(port, "Ja.")
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1 and "clients that left before their answer: 1" in lines[0], lines


def test_messages_about_lost_connections_are_counted(monkeypatch, capfd):
    import logging

    import log
    handler = log.Log()
    monkeypatch.setattr(log.Log, "told", None)
    monkeypatch.setattr(log.Log, "clients", 0)
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])

    def lost(error, name="uvicorn.error", text="Exception in ASGI application\n"):
        handler.handle(logging.LogRecord(name, logging.ERROR, "", 0, text, (), (type(error), error, None) if error else None))
    for _ in range(500):
        lost(ConnectionResetError())
        lost(None, "asyncio", "socket.send() raised exception.")
    lost(RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"))
    now[0] += 61
    lost(BrokenPipeError())
    lost(KeyError("a fault"))
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "left before" in line]) == 2 and "answer: 1001;" in lines[1] and "a fault" in lines[-1]


def test_raw_answers_have_the_headers(port):
    for data, status in ((b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200), (b"\x16\x03\x01", 400),
                         (b"GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404), (b"GET /" + b"a" * 70000, 431)):
        found = raw(port, data).lower()
        assert found.startswith(b"http/1.1 %d " % status) or (status == 431 and not found), found[:99]
        if found:
            assert b"content-security-policy: frame-ancestors 'self'\r\n" in found and b"x-content-type-options: nosniff\r\n" in found
