"""Tests /listen of examples/server/server.py beside `transcribe --live --format json`, to the byte, and with clients that
stall, read slowly, leave or send what they should not: make test-server"""

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import wave

import pytest
from load import GERMAN, ROOT, server
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

sys.path.insert(0, str(ROOT / "examples/server"))
RANDOM = ROOT / "tests/data/transcribe/whisper.safetensors"
STREAMING = ROOT / "tests/data/transcribe/moonshine-streaming.safetensors"
REAL = ROOT / "build/whisper"  # make test-real-speech puts models and clips there
QUERY = "format=s16le&rate=16000&log_prob=0&compression=0"  # without limits, so that random text is written
with wave.open(str(ROOT / "tests/data/transcribe/noise.wav")) as file:
    SOUND = file.readframes(file.getnframes())


def command_line(sound, *options, model=RANDOM):
    done = subprocess.run([ROOT / "build/transcribe", model, "-", "--live", "--format", "json", *options], input=sound,
                          capture_output=True, timeout=300, check=True)
    return done.stdout.decode("utf-8", "replace").split("\n")[:-1]


@pytest.fixture(scope="module")
def expected():
    return command_line(SOUND, "--log-prob", "0", "--compression", "0")


@contextlib.contextmanager
def hearing(*options, model=RANDOM):
    with server("--speech", model, *options) as (run, port):
        yield port


@pytest.fixture(scope="module")
def port():
    with hearing("--listeners", 2, "--read-timeout", 3) as at:
        yield at


def opened(port, query=QUERY, **more):
    return connect(f"ws://127.0.0.1:{port}/listen?{query}", open_timeout=60, close_timeout=20, **more)


def rest(socket):
    """Returns the lines until the server closes, and the code."""
    found = []
    try:
        while True:
            found.append(socket.recv(timeout=60))
    except ConnectionClosed as e:
        return found, e.rcvd.code if e.rcvd else None


def heard(port, pieces, query=QUERY, **more):
    with opened(port, query, **more) as socket:
        for one in pieces:
            socket.send(one)
        return rest(socket)


def refused(port, pieces=(), query=QUERY, **more):
    """Returns the object that says what was wrong, and the code."""
    lines, code = heard(port, pieces, query, **more)
    return json.loads(lines[-1]), code


def number(port, name, key=""):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?api_key={key}", timeout=60) as response:
        return sum(float(line.split()[-1]) for line in response.read().decode().splitlines() if line.startswith(name))


def wait_until_idle(port, key=""):
    until = time.monotonic() + 30
    while number(port, "transformer_listeners", key):
        assert time.monotonic() < until, "a session does not go back to the pool"
        time.sleep(0.05)


@pytest.mark.parametrize("size", [3, 3200, 30000, len(SOUND)])
def test_the_command_lines_bytes(port, expected, size):
    assert sum('"stable": true' in line for line in expected)
    pieces = [SOUND[at:at + size] for at in range(0, len(SOUND), size)]
    if size == 3:
        pieces = pieces[:300] + [SOUND[900:]]
    assert heard(port, [*pieces, b""]) == (expected, 1000)


def test_text_comes_while_the_sound_is_open(port, expected):
    with opened(port) as socket:
        socket.send(SOUND[:len(SOUND) * 3 // 4])
        assert socket.recv(timeout=60) == expected[0]
        socket.send(SOUND[len(SOUND) * 3 // 4:])
        socket.send(b"")
        assert rest(socket) == (expected[1:], 1000)


def test_an_odd_number_of_bytes(port, expected):
    lines, code = heard(port, [SOUND + b"x", b""])
    assert lines[:-1] == expected and code == 1000
    assert json.loads(lines[-1]) == {"note": "the sound ends within a sample, which is not heard"}


def test_moonshine_streaming():
    """Tests a model that is no Whisper: the same lines as the command line's, however the sound comes."""
    sound, query = (SOUND * 4)[3200:163200], "format=s16le&rate=16000"
    lines = command_line(sound, model=STREAMING)
    assert sum('"stable": true' in line for line in lines)
    with hearing(model=STREAMING) as at:
        for size in (3201, len(sound)):
            assert heard(at, [*(sound[i:i + size] for i in range(0, len(sound), size)), b""], query) == (lines, 1000)
        error, code = refused(at, query=f"{query}&language=de")
        assert "Moonshine" in error["error"] and code == 1008


def test_no_sound(port):
    assert heard(port, [b""]) == ([], 1000)
    assert heard(port, [bytes(32000), b""]) == ([], 1000)


def test_a_client_that_stalls(port, expected):
    """After a second without sound, what has come is heard. After --read-timeout the rest is stable, and the server closes."""
    with opened(port) as socket:
        began = time.monotonic()
        socket.send(SOUND)
        lines, code = rest(socket)
        assert 2.5 < time.monotonic() - began < 30
    assert json.loads(lines[-1]) == {"error": "no sound has come for 3 seconds", "status": 408} and code == 1008
    stable = [json.loads(line)["text"] for line in lines[:-1] if json.loads(line)["stable"]]
    assert stable and json.loads(lines[-2])["end"] == 1.6
    wait_until_idle(port)


def test_a_client_that_leaves(port, expected):
    """Its session goes back to the pool: as many clients as there are sessions leave, several times."""
    for how in ("close", "cut", "at once", "cut", "close"):
        with opened(port) as first, opened(port) as second:
            for socket in (first, second):
                if how != "at once":
                    socket.send(SOUND * 3)
                    socket.recv(timeout=60)
                if how != "close":
                    socket.socket.shutdown(2)
        wait_until_idle(port)
    assert heard(port, [SOUND, b""]) == (expected, 1000)


def test_too_many_at_once(port, expected):
    with opened(port) as first, opened(port) as second:
        for one in (first, second):
            one.send(SOUND)
            one.recv(timeout=60)
        found, code = refused(port)
        assert found == {"error": "the server hears 2 sounds already (--listeners)", "status": 503} and code == 1013
        for one in (first, second):
            one.send(b"")
            assert rest(one) == (expected[1:], 1000)
    wait_until_idle(port)
    assert heard(port, [SOUND, b""]) == (expected, 1000)


def test_text_instead_of_bytes(port, expected):
    lines, code = heard(port, [SOUND, "hello"])
    assert json.loads(lines[-1]) == {"error": "a message is a text; expected bytes with 16-bit samples, and an empty message at the "
                                              "end", "status": 415} and code == 1003
    assert lines[:-1] == expected  # what came before is heard


def test_a_message_that_is_too_large():
    with hearing("--body-limit", 60000) as port:
        for fragments in ([bytes(60001)], [[bytes(40000), bytes(40000)]]):
            with opened(port) as socket:
                with pytest.raises(ConnectionClosed) as closed:
                    socket.send(fragments[0])
                    socket.recv(timeout=60)
            assert closed.value.rcvd.code == 1009 and "60000" in closed.value.rcvd.reason
        wait_until_idle(port)
        assert heard(port, [SOUND, b""])[1] == 1000


def test_a_sound_that_is_too_long():
    with hearing("--sound-limit", 3) as port:
        lines, code = heard(port, [SOUND] * 2 + [b""])
        assert json.loads(lines[-1]) == {"error": "the sound is longer than 3 seconds (--sound-limit)", "status": 413} and code == 1009
        assert lines[:-1] == command_line(SOUND * 2, "--log-prob", "0", "--compression", "0")
        assert number(port, "transformer_sound_seconds_total") == 3.2


@pytest.mark.parametrize("query, message", [
    ("rate=16000", "missing format parameter"),
    ("format=s16le", "missing rate parameter"),
    ("format=f32le&rate=16000", "format f32le is not supported: it is s16le (16-bit samples, little-endian, one channel"),
    ("format=s16le&rate=44100", "rate 44100 is not supported: it is 16000"),
    ("format=s16le&rate=" + "9" * 100, "rate 9999"),
    ("format=s16le&rate=16000&rate=16000", "rate is not a text"),
    ("format=s16le&rate=16000&words=1", "words is not a parameter of /listen"),
    ("format=s16le&rate=16000&log_prob=x", "log_prob x is not a number"),
    ("format=s16le&rate=16000&log_prob=nan", "log_prob is nan"),
    ("format=s16le&rate=16000&vad=2", "vad is 2, expected 0 to 1"),
    ("format=s16le&rate=16000&language=de", "hears English alone"),
    ("format=s16le&rate=16000&task=sing", "task is 'sing'"),
    ("format=s16le&rate=16000&prompt=%00", "prompt has a NUL"),
    ("format=s16le&rate=16000&prompt=%ff", "the query cannot be read"),
])
def test_wrong_queries(port, query, message):
    found, code = refused(port, query=query)
    assert message in found["error"] and found["status"] == 400 and code == 1008
    wait_until_idle(port)


def test_keys_rates_and_origins(tmp_path, expected):
    (tmp_path / "keys").write_text("secret\nprometheus\n")
    with hearing("--api-keys", tmp_path / "keys", "--req-limit", 3, "--cors", "https://a.org", "--log", "--listeners", 1) as port:
        assert refused(port)[0]["status"] == 403 and refused(port, query=f"{QUERY}&api_key=no")[0]["error"] == "Invalid API key"
        key = f"{QUERY}&api_key=secret"
        found, code = refused(port, query=key, origin="https://b.org")
        assert found == {"error": "pages of https://b.org may not use the server (--cors)", "status": 403} and code == 1008
        for origin in ("https://a.org", f"http://127.0.0.1:{port}", None):
            assert heard(port, [SOUND, b""], key, origin=origin) == (expected, 1000)
        found, code = refused(port, query=key)
        assert found == {"error": "Slowdown: 3 per 1 minute", "status": 429} and code == 1013
        assert number(port, 'transformer_requests_total{path="/listen",status="200"}', "prometheus") == 3


def test_other_paths_and_servers_without_a_model(port):
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{port}/translate")
    with server() as (_, other):
        with pytest.raises(InvalidStatus):
            opened(other)
        with urllib.request.urlopen(f"http://127.0.0.1:{other}/frontend/settings") as response:
            assert json.load(response)["speech"] is False
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/frontend/settings") as response:
        assert json.load(response)["speech"] is True


@pytest.mark.parametrize("model, message", [
    (GERMAN, "a model of texts: use translate"), ("nowhere", "cannot be opened"), (ROOT / "README.md", "")])
def test_models_that_cannot_hear(model, message):
    done = subprocess.run([sys.executable, ROOT / "examples/server/server.py", f"de:en={GERMAN}", "--speech", model],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(f"server.py: --speech {model}: ") and message in done.stderr


def test_the_server_ends(expected):
    with server("--speech", RANDOM) as (run, port):
        with opened(port) as socket:
            socket.send(SOUND)
            assert socket.recv(timeout=60) == expected[0]
            run.send_signal(signal.SIGTERM)
            assert rest(socket)[1] == 1012
        assert run.wait(30) in (0, -signal.SIGTERM)


def test_translations_go_on_meanwhile(port, expected):
    """And a sound has the same text, whatever else the server does."""
    found = []

    def work():
        found.append(heard(port, [SOUND, b""]))
    crew = [threading.Thread(target=work) for _ in range(2)]
    for one in crew:
        one.start()
    body = urllib.parse.urlencode({"q": "Guten Tag.", "source": "de", "target": "en"}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/translate", body, timeout=60) as response:
        assert json.load(response)["translatedText"]
    for one in crew:
        one.join()
    assert found == [(expected, 1000)] * 2


class Client:
    """A WebSocket without network: the server's calls of receive and send. Reading it may take time, or for ever."""

    def __init__(self, messages, seconds):
        self.messages, self.seconds, self.given, self.sent, self.closed = list(messages), seconds, 0, [], None
        self.ahead = 0  # most messages that were taken before the next line was read

    async def receive(self):
        if not self.given:
            self.given = 1
            return {"type": "websocket.connect"}
        if self.given > len(self.messages):
            await asyncio.sleep(1000)
        self.given += 1
        return {"type": "websocket.receive", "bytes": self.messages[self.given - 2]}

    async def send(self, message):
        if message["type"] == "websocket.send":
            before = self.given
            await asyncio.sleep(self.seconds)
            self.sent.append(message["text"])
            self.ahead = max(self.ahead, self.given - before)
        elif message["type"] == "websocket.close":
            self.closed = message["code"]


def with_client(client, patience):
    from service import Server
    from speech import Speech
    options = argparse.Namespace(
        models=[f"de:en={GERMAN}"], weights=None, map=False, terms=None, api_keys=None, cors=None, log=False, req_limit=None,
        speech=str(RANDOM), listeners=1, sound_limit=3600, read_timeout=patience)
    found = Server(options)
    found.speech = Speech(found)
    scope = {"type": "websocket", "path": "/listen", "raw_path": b"/listen", "query_string": QUERY.encode(), "headers": [],
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "ws", "subprotocols": [], "extensions": {}}
    asyncio.run(asyncio.wait_for(found.speech.route().app(scope, client.receive, client.send), 60))
    assert found.speech.at_once == 0 and len(found.speech.model._sessions._listeners) == 1
    return found.metrics


def test_a_client_that_reads_slowly(expected):
    """It gets every line. The server takes no sound meanwhile, so its memory does not grow."""
    client = Client([SOUND[at:at + 320] for at in range(0, len(SOUND), 320)] + [b""], 0.05)
    with_client(client, 5)
    assert (client.sent, client.closed, client.ahead) == (expected, 1000, 0)


def test_a_client_that_does_not_read():
    client = Client([SOUND] * 50 + [b""], 1000)
    began = time.monotonic()
    metrics = with_client(client, 0.5)
    assert client.sent == [] and client.given < 4 and time.monotonic() - began < 20
    assert metrics.registry.get_sample_value("transformer_requests_total", {"path": "/listen", "status": "408"}) == 1


@pytest.mark.parametrize("name, clip", [("tiny.en", "jfk")])
def test_real_speech(name, clip):
    for file in (REAL / f"{name}.safetensors", REAL / f"{clip}.wav"):
        if not file.exists():
            pytest.skip(f"{file.relative_to(ROOT)} is missing: make test-real-speech makes it")
    with wave.open(str(REAL / f"{clip}.wav")) as file:
        sound = file.readframes(16000 * 5)
    with hearing(model=REAL / f"{name}.safetensors") as port:
        lines, code = heard(port, [sound[at:at + 3200] for at in range(0, len(sound), 3200)] + [b""], "format=s16le&rate=16000")
    assert lines == command_line(sound, model=REAL / f"{name}.safetensors") and code == 1000
    assert any("Americans" in line for line in lines)
