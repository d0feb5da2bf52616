"""Tests /live of examples/server/server.py beside `translate --live --json`, to the byte, and the translations of /listen, with
clients that write too much, write nothing, leave or send what they should not: make test-server"""

import contextlib
import json
import random
import signal
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
from load import GERMAN, ROOT, TRANSLATE, server
from test_speech import QUERY as SOUND_QUERY
from test_speech import RANDOM, SOUND, rest
from websockets.sync.client import connect

CHINESE = ROOT / "examples/models/zh-en.safetensors"
PAIR = "source=de&target=en"
TEXT = "Die Nachbarin sucht ihren alten Hund. Er schläft im Garten!\nGuten \"Tag\" und danke.\nOhne Punkt am Ende"


def command_line(text, *models):
    done = subprocess.run([TRANSLATE, *models, "--live", "--json"], input=text, stdout=subprocess.PIPE, timeout=300, check=True)
    return done.stdout.decode().split("\n")[:-1]


@pytest.fixture(scope="module")
def port():
    """A server whose English goes on into a language xx, by a model that copies most of it."""
    models = (f"de:en={GERMAN}", f"zh:en={CHINESE}", f"en:xx={GERMAN}")
    with server("--live", 3, "--live-timeout", 3, "--char-limit", 2000, "--threads", 2, models=models) as (_, at):
        yield at


def opened(port, query=PAIR, path="live", **more):
    return connect(f"ws://127.0.0.1:{port}/{path}?{query}", open_timeout=60, close_timeout=20, ping_interval=None, **more)


def said(port, pieces, query=PAIR, path="live", **more):
    with opened(port, query, path, **more) as socket:
        for one in pieces:
            socket.send(one)
        return rest(socket)


def refused(port, pieces=(), query=PAIR, **more):
    """Returns the object that says what was wrong, and the code."""
    lines, code = said(port, pieces, query, **more)
    return json.loads(lines[-1]), code


def number(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        return sum(float(line.split()[-1]) for line in response.read().decode().splitlines() if line.startswith(name))


def wait_until_idle(port):
    until = time.monotonic() + 30
    while number(port, "transformer_live_texts"):
        assert time.monotonic() < until, "a text does not end"
        time.sleep(0.05)


def cuts(text, seed):
    """Cuts a text into pieces at random places."""
    chance, at, found = random.Random(seed), 0, []
    while at < len(text):
        size = chance.choice((1, 2, 3, 7, 20, 300))
        found.append(text[at:at + size])
        at += size
    return found


@pytest.mark.parametrize("query, models", [
    (PAIR, [GERMAN]), ("source=DE-at&target=en-US", [GERMAN]), ("source=de&target=xx", [GERMAN, GERMAN])])
def test_the_command_lines_bytes(port, query, models):
    expected = command_line(TEXT.encode(), *models)
    assert len(expected) > 15 and sum('"done": true' in line for line in expected) == 3
    for seed in range(2):
        assert said(port, [*cuts(TEXT, seed), ""], query) == (expected, 1000)
    wait_until_idle(port)


def test_chinese(port):
    text = "我的姐姐在一个小村庄里当老师。她今天不在家。\n谢谢你！"
    assert said(port, [*text, ""], "source=zh&target=en") == (command_line(text.encode(), CHINESE), 1000)


def test_translations_come_while_the_text_is_open(port):
    with opened(port) as socket:
        for words in ("Die ", "Nachbarin ", "sucht ihren "):
            socket.send(words)
            found = [json.loads(socket.recv(timeout=60)) for _ in words.split()]
            assert found[-1]["source"].split()[-1] == words.split()[-1] and not found[-1]["done"]
        socket.send("")
        lines, code = rest(socket)
        assert json.loads(lines[-1])["done"] and code == 1000


def test_no_text(port):
    assert said(port, [""]) == ([], 1000)
    assert said(port, ["\n", ""])[0] == command_line(b"\n", GERMAN)
    assert said(port, ["Haus \0 \x01 ", ""]) == (command_line(b"Haus \0 \x01 ", GERMAN), 1000)


def test_a_client_that_writes_nothing(port):
    began = time.monotonic()
    lines, code = said(port, ["Guten "])
    assert json.loads(lines[-1]) == {"error": "no text has come for 3 seconds (--live-timeout)", "status": 408} and code == 1008
    assert json.loads(lines[0])["source"] == "Guten" and 2.5 < time.monotonic() - began < 30
    wait_until_idle(port)


def test_too_many_at_once(port):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(opened(port)) for _ in range(3)]
        for each in sockets:
            each.send("Guten Tag ")
            each.recv(timeout=60)
        found, code = refused(port)
        assert found == {"error": "the server translates 3 live texts already (--live)", "status": 503} and code == 1013
        for each in sockets:
            each.send("")
            assert rest(each)[1] == 1000
    wait_until_idle(port)


def test_clients_that_leave(port):
    for how in ("close", "cut", "at once"):
        with opened(port) as first, opened(port) as second:
            for socket in (first, second):
                if how != "at once":
                    socket.send("Guten Tag " * 100)
                    socket.recv(timeout=60)
                if how != "close":
                    socket.socket.shutdown(2)
        wait_until_idle(port)
    assert said(port, ["Danke.", ""])[1] == 1000


def test_long_messages_and_texts(port):
    found, code = refused(port, ["a" * 2001])
    assert found == {"error": "a message has 2001 characters; 2000 are the most (--char-limit)", "status": 413} and code == 1009
    found, code = refused(port, ["Haus\n" + "Haus " * 200, "Haus " * 200 + "a"])
    assert found == {"error": "a text has more than 2000 characters without the end of a line (--char-limit)",
                     "status": 413} and code == 1009
    lines, code = said(port, ["Haus " * 200, "Haus\n" + "Haus " * 250, ""])
    assert code == 1000 and [len(json.loads(line)["source"]) for line in lines if '"done": true' in line] == [1004, 1250]
    wait_until_idle(port)


def test_bytes_instead_of_text(port):
    found, code = refused(port, [b"Haus"])
    assert found == {"error": "a message is bytes; expected a text, and an empty message at the end", "status": 415} and code == 1003


@pytest.mark.parametrize("query, message", [
    ("target=en", "missing source parameter"), ("source=de", "missing target parameter"),
    ("source=auto&target=en", "auto is not supported"), ("source=de&target=tlh", "tlh is not supported"),
    ("source=xx&target=de", "is not available"), ("source=en&target=zh", "is not available"), ("source=de&target=de", "are both de"),
    ("source=de&source=zh&target=en", "source is not a text"), (f"{PAIR}&beam=4", "beam is not a parameter of /live"),
    (f"{PAIR}&x=%ff", "the query cannot be read")])
def test_wrong_queries(port, query, message):
    found, code = refused(port, query=query)
    assert message in found["error"] and found["status"] == 400 and code == 1008
    wait_until_idle(port)


def test_keys_rates_and_origins(tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    with server("--api-keys", tmp_path / "keys", "--req-limit", 3, "--cors", "https://a.org") as (_, port):
        assert refused(port)[0]["status"] == 403 and refused(port, query=f"{PAIR}&api_key=no")[0]["error"] == "Invalid API key"
        key = f"{PAIR}&api_key=secret"
        assert refused(port, query=key, origin="https://b.org")[0]["status"] == 403
        for origin in ("https://a.org", f"http://127.0.0.1:{port}", None):
            assert said(port, ["Danke.", ""], key, origin=origin)[1] == 1000
        assert refused(port, query=key)[1] == 1013


def test_a_long_text_does_not_delay_others(port):
    """A client sends as many words as it may, several times, on two WebSockets. Another one's word and translation wait for a
    piece of them at most."""
    words = " ".join(f"Haus{i}" for i in range(200)) + "\n"
    ended = []

    def work():
        ended.append(said(port, [words, words, ""])[1])
    crew = [threading.Thread(target=work) for _ in range(2)]
    for one in crew:
        one.start()
    time.sleep(0.5)
    with opened(port) as socket:
        socket.send("Danke.\n")
        assert json.loads(socket.recv(timeout=60))["text"]
        body = urllib.parse.urlencode({"q": "Guten Tag.", "source": "de", "target": "en"}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/translate", body, timeout=60) as response:
            assert json.load(response)["translatedText"]
        assert not ended, "the long texts were ready before"
        socket.send("")
        assert rest(socket)[1] == 1000
    for one in crew:
        one.join()
    assert ended == [1000, 1000]


def test_turns_of_two_clients():
    """A client with many texts gets as many turns as one with one text."""
    import argparse
    import asyncio
    import sys
    sys.path.insert(0, str(ROOT / "examples/server"))
    from live_text import LiveText
    from service import ASKING, Asking
    of = LiveText(argparse.Namespace(options=argparse.Namespace(threads=1, live=64), metrics=None))
    order = []

    async def client(name):
        ASKING.set(Asking(name))
        for _ in range(20):
            await of.in_turn(order.append, name)

    async def run():
        await asyncio.gather(*(asyncio.ensure_future(client(name)) for name in ["busy"] * 10 + ["calm"]))
    asyncio.run(run())
    last = max(i for i, name in enumerate(order) if name == "calm")
    assert len(order) == 220 and last < 60, last


@pytest.fixture(scope="module")
def hearing():
    models = (f"de:en={GERMAN}", f"en:xx={GERMAN}")
    with server("--speech", RANDOM, "--listeners", 2, models=models) as (_, port):
        yield port


def test_speech_and_its_translations(hearing):
    """The lines of the sound are those of transcribe, and each target has the lines of translate, which reads them."""
    heard, code = said(hearing, [SOUND, b""], SOUND_QUERY, "listen")
    assert code == 1000 and sum('"stable": true' in line for line in heard) > 0
    for targets, models in ((["en"], [[GERMAN]]), (["en", "xx", "en"], [[GERMAN], [GERMAN, GERMAN]])):
        query = f"{SOUND_QUERY}&source=de" + "".join(f"&target={one}" for one in targets)
        lines, code = said(hearing, [SOUND[:20000], SOUND[20000:], b""], query, "listen")
        assert code == 1000 and [line for line in lines if not line.startswith('{"target"')] == heard
        assert lines[0] == heard[0]
        for target, models_of in zip(dict.fromkeys(targets), models):
            begin = f'{{"target": "{target}", '
            found = ["{" + line[len(begin):] for line in lines if line.startswith(begin)]
            assert found == command_line("".join(f"{line}\n" for line in heard).encode(), *models_of)
            assert json.loads(found[-1])["done"]


def test_followers_of_a_sound(hearing):
    """The sound is heard once, and each follower reads it in its own language, or leaves."""
    name = "speaker-0123456789"
    query = f"{SOUND_QUERY}&source=de&id={name}"
    before = number(hearing, "transformer_sound_seconds_total")
    with opened(hearing, query, "listen") as speaker:
        speaker.send(bytes(3200))
        while refused_now(hearing, f"id={name}&target=tlh") == 404:
            time.sleep(0.05)
        with contextlib.ExitStack() as stack:
            followers = [stack.enter_context(opened(hearing, f"id={name}{more}", "follow"))
                         for more in ("", "&target=en", "&target=xx", "")]
            followers.pop().close()
            while number(hearing, "transformer_live_texts") != 3:
                time.sleep(0.05)
            assert refused_now(hearing, query, "listen") == 400, "an id is that of one sound"
            for at in range(0, len(SOUND), 3200):
                speaker.send(SOUND[at:at + 3200])
            speaker.send(b"")
            heard, code = rest(speaker)
            found = [rest(each) for each in followers]
    assert code == 1000 and [code for _, code in found] == [1000] * 3
    stable = [line for line in heard if '"stable": true' in line]
    for lines, _ in found:
        assert [line for line in lines if '"stable": true' in line] == stable and set(lines) >= set(stable)
        assert {line for line in lines if not line.startswith('{"target"')} <= set(heard)
    for (lines, _), target, models in zip(found[1:], ("en", "xx"), ([GERMAN], [GERMAN, GERMAN])):
        last = json.loads(lines[-1])
        assert last["target"] == target and last["done"]
        wanted = command_line("".join(f"{line}\n" for line in heard).encode(), *models)
        assert words_of(lines) == words_of(wanted)
    assert number(hearing, "transformer_sound_seconds_total") - before == pytest.approx(1.6 + 0.1)
    assert refused_now(hearing, f"id={name}") == 404
    wait_until_idle(hearing)


def words_of(lines):
    """Returns all words that were translated. A follower who is behind gets fewer guesses, so its texts may be divided elsewhere."""
    return " ".join(json.loads(line)["source"] for line in lines if '"done": true' in line).split()


def refused_now(port, query, path="follow"):
    return refused(port, (), query, path=path)[0]["status"]


def test_wrong_followers(hearing):
    assert refused_now(hearing, "target=en") == refused_now(hearing, "id=short") == refused_now(hearing, "id=" + "a" * 65) == 400
    assert refused_now(hearing, f"id={'a' * 16}&source=de") == 400 and refused_now(hearing, f"id={'a' * 16}") == 404
    with opened(hearing, f"{SOUND_QUERY}&id=speaker-without-a-language", "listen") as speaker:
        speaker.send(bytes(3200))
        while (status := refused_now(hearing, "id=speaker-without-a-language&target=en")) == 404:
            time.sleep(0.05)
        assert status == 400
        speaker.send(b"")
        assert rest(speaker)[1] == 1000


@pytest.mark.parametrize("query, message", [
    ("target=en", "target needs source, the language that is spoken"), ("source=de&target=tlh", "tlh is not supported"),
    ("source=de" + "&target=en" * 5, "5 times target; 4 are the most"), ("source=en&target=de", "is not available")])
def test_wrong_targets(hearing, query, message):
    found, code = refused(hearing, [], f"{SOUND_QUERY}&{query}", path="listen")
    assert message in found["error"] and code == 1008


def test_the_description(hearing):
    with urllib.request.urlopen(f"http://127.0.0.1:{hearing}/spec", timeout=60) as response:
        paths = json.load(response)["paths"]
    names = {path: [one["name"] for one in paths[path]["get"]["parameters"]] for path in ("/live", "/listen")}
    assert names["/live"] == ["source", "target", "api_key"] and {"source", "target"} < set(names["/listen"])


def test_the_server_ends():
    with server() as (run, port):
        with opened(port) as socket:
            socket.send("Guten ")
            assert json.loads(socket.recv(timeout=60))["source"] == "Guten"
            run.send_signal(signal.SIGTERM)
            assert rest(socket)[1] == 1012
        assert run.wait(30) in (0, -signal.SIGTERM)
