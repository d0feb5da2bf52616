"""Model.live against `translate --live --json`, to the byte, however the text is cut, and what it does with odd pieces and early
ends."""

import asyncio
import gc
import json
import random
import subprocess
import threading
import weakref
from pathlib import Path

import pytest

from transformer_h import Error, Live, LiveText, LiveTranslation, Model, Status

ROOT = Path(__file__).resolve().parents[3]
GERMAN, CHINESE = (ROOT / f"examples/models/{name}.safetensors" for name in ("de-en", "zh-en"))
SPEECH = ROOT / "tests/data/transcribe/whisper.safetensors"
TEXTS = {
    GERMAN: "Die Nachbarin sucht ihren alten Hund. Er schläft im Garten!\n\nGuten \"Tag\"\\\tund danke.\r\nOhne Punkt am Ende 😀",
    CHINESE: "我的姐姐在一个小村庄里当老师。她今天不在家。\n谢谢你！\n明天下雨 吗",
}
HEARD = [LiveText(*each) for each in (
    (" Die Nachbarin", True, 0.3, 1.2), (" ist", False, 1.2, 1.5), (" isst gern", False, 1.2, 1.9),
    (" isst gerne Äpfel. Ihr", True, 1.2, 2.0), (" Hund", False, 2.0, 2.4), (" Hund schläft", True, 2.0, 2.6),
    (" Danke", True, 3.196, 3.6))]


@pytest.fixture(scope="module")
def models():
    return {path: Model(path) for path in TEXTS}


@pytest.fixture(scope="module")
def german(models):
    return models[GERMAN]


def command_line(text, *models):
    done = subprocess.run([ROOT / "build/translate", *models, "--live", "--json"], input=text, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\n")[:-1]


def lines(found):
    return [one.json() for one in found]


def cuts(data, seed):
    """Cuts text or bytes into pieces at random places."""
    chance, at, found = random.Random(seed), 0, []
    while at < len(data):
        size = chance.choice((0, 1, 2, 3, 7, 20, 300))
        found.append(data[at:at + size])
        at += size
    return found


def check_stable(found):
    before = ""
    for one in found:
        assert one.stable_text.startswith(before) and one.text == one.stable_text + one.guess
        before = "" if one.done else one.stable_text
        assert not one.done or not one.guess


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_the_command_lines_bytes(models, path):
    text = TEXTS[path]
    expected = command_line(text.encode(), path)
    assert len(expected) > 20 and sum('"done": true}' in line for line in expected) == text.count("\n") + 1
    for seed in range(4):
        assert lines(models[path].live(cuts(text, seed))) == expected
        assert lines(models[path].live(cuts(text.encode(), seed))) == expected
    assert lines(models[path].live([text])) == expected
    check_stable(models[path].live([text]))


def test_speech(german):
    expected = command_line("\n".join(one.json() for one in HEARD).encode(), GERMAN)
    found = list(german.live(HEARD))
    assert lines(found) == expected
    check_stable(found)
    assert [one.source for one in found if one.done] == ["Die Nachbarin isst gerne Äpfel.", "Ihr Hund schläft", "Danke"]
    assert any(one.source == "Die Nachbarin isst gern" for one in found), "a guess is a part of the source"


def test_two_models(models, german):
    text = TEXTS[GERMAN]
    for second in TEXTS:  # English is not what they read: most of it is copied, or unknown
        expected = command_line(text.encode(), GERMAN, second)
        for seed in range(2):
            found = list(german.live(cuts(text, seed), second=models[second]))
            assert lines(found) == expected
        check_stable(found)
    assert [one.source for one in found] == [one.source for one in german.live([text])], "the source is the first model's"
    assert [one.text for one in found] != [one.text for one in german.live([text])]
    with pytest.raises(ValueError, match="via_language needs second"):
        german.live([], via_language="en")
    with pytest.raises(TypeError, match="second is str, expected Model"):
        german.live([], second="en-fr")


def test_texts_come_while_the_source_is_open(german):
    found, seen = [], []

    def pieces():
        for word in "Die Nachbarin sucht gestern ihren alten Hund im Park.".split():
            seen.append(len(found))
            yield word + " "
    for one in german.live(pieces()):
        found.append(one)
    assert seen == list(range(len(seen))), "a translation behind each word"
    assert any(one.stable_text for one in found[:6]) and any(one.guess for one in found)


def test_fed(german):
    with german.live() as live:
        assert isinstance(live, Live) and live.finish() == [] and live.feed("") == []
        found = live.feed("Guten Tag, ") + live.feed(memoryview("schöne ".encode())) + live.finish()
        assert found == list(german.live(["Guten Tag, schöne "])) and found[-1].done
        assert live.feed("Danke.\n")[-1].text == german.translate("Danke.")
        assert live.finish() == []
    for call in (lambda: live.feed("Danke. "), live.finish):
        with pytest.raises(ValueError, match="the live translation is closed"):
            call()
    live.close()


def test_asynchronous(german):
    text = TEXTS[GERMAN]

    async def pieces():
        for one in cuts(text, 1):
            await asyncio.sleep(0)
            yield one

    async def run(source):
        return [one async for one in german.live(source)]

    async def two():
        return await asyncio.gather(run(pieces()), run(pieces()))

    expected = list(german.live([text]))
    assert asyncio.run(two()) == [expected, expected]

    async def odd():
        yield "Guten "
        yield 1
    with pytest.raises(TypeError, match=r"pieces\[1\] is int"):
        asyncio.run(run(odd()))


def test_the_loop_runs_while_another_thread_translates(german):
    async def run():
        live, threads = german.live(), set()
        called = live._called

        def seen(*given):
            threads.add(threading.get_ident())
            return called(*given)
        live._called = seen
        from transformer_h.live import _later

        async def pieces():
            yield "Guten Tag."
        found = [one async for one in _later(live, pieces())]
        return found, threads
    found, threads = asyncio.run(run())
    assert found[-1].text == german.translate("Guten Tag.") and threads and threading.get_ident() not in threads


def test_odd_text(german):
    for odd in (b"Haus \xc3", b"\xff\xfe Haus", "Haus \ud800 und", "\0 Haus", "Haus\x01\n"):
        data = odd if isinstance(odd, bytes) else odd.encode("utf-8", "surrogatepass")
        found = list(german.live([odd]))
        assert lines(found) == command_line(data, GERMAN) and found[-1].done
    assert list(german.live([])) == list(german.live(["", b""])) == []
    long = list(german.live(["Haus " * 1000]))
    assert long[-1].source == "Haus " * 1000 and 800 < len(long) < 850, "a long text has fewer lines"


def test_wrong_arguments(german):
    for pieces in ("Guten Tag.", b"Guten Tag.", HEARD[0]):
        with pytest.raises(TypeError, match=r"\[text\] has one piece"):
            german.live(pieces)
    with pytest.raises(TypeError, match="pieces is int, expected an iterable of str"):
        german.live(1)
    with pytest.raises(TypeError, match=r"pieces\[1\] is NoneType, expected str, bytes of UTF-8, or LiveText"):
        list(german.live(["Guten ", None]))
    with pytest.raises(TypeError, match="piece.start is NoneType, expected float"):
        german.live().feed(LiveText("Haus", True, None, 1.0))
    for sure in (0, -1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="expected a probability"):
            german.live(sure=sure)
    for threads in (0, 65):
        with pytest.raises(ValueError, match="threads is"):
            german.live(threads=threads)
    with pytest.raises(ValueError, match="source_language is 'de'"):
        german.live(source_language="de")


def test_models_without_text():
    with Model(SPEECH) as speech, pytest.raises(Error, match="a speech model: use transcribe") as caught:
        speech.live()
    assert caught.value.status == Status.E_NO_TEXT
    with Model(GERMAN) as german, Model(SPEECH) as speech, pytest.raises(Error, match="a speech model"):
        german.live(second=speech)


def test_a_higher_sure_is_later(german):
    text = "Die Nachbarin hat gestern Abend ihren alten Hund im großen Park gesucht."

    def early(sure):
        found = list(german.live([text], sure=sure))
        return sum(len(one.stable_text) for one in found)
    assert early(0.5) > early(0.92) > early(1)


def test_closed(models):
    model = Model(GERMAN)
    live = model.live()
    model.close()
    assert live.feed("Danke.\n")[-1].text == models[GERMAN].translate("Danke."), "the model lives as long as the text"
    with pytest.raises(ValueError, match="the model is closed"):
        model.live()
    alive, session = weakref.ref(live), weakref.ref(live._text)
    del live
    gc.collect()
    assert alive() is None and session() is None


def test_a_source_that_fails(german):
    def pieces():
        yield "Guten "
        raise OSError("the microphone is gone")
    found = german.live(pieces())
    assert next(found).source == "Guten"
    with pytest.raises(OSError, match="the microphone is gone"):
        next(found)
    assert list(german.live(["Danke."]))[-1].done


def test_threads_share_a_text(german):
    live, found = german.live(), []

    def feed():
        for _ in range(20):
            found.extend(live.feed("Haus "))
    threads = [threading.Thread(target=feed) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    end = live.finish()[-1]
    assert end.source.split() == ["Haus"] * 60 and len(found) == 60


def test_a_translation():
    one = LiveTranslation("\"a\\b\"\t\x7fé", "Ein", "Ein \u2028Wort", False)
    assert one.json() == ('{"source": "\\"a\\\\b\\"\\u0009\x7fé", "stable_text": "Ein", "text": "Ein \u2028Wort", '
                          '"done": false}')
    assert json.loads(one.json()) == one._asdict() and one.guess == " \u2028Wort" and LiveTranslation.__module__ == "transformer_h"
