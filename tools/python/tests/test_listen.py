"""Model.listen against `transcribe --live --format json`, to the byte, and what it does with odd pieces and early ends."""

import gc
import signal
import subprocess
import threading
import time
import warnings
import wave
import weakref
from pathlib import Path

import numpy as np
import pytest

from transformer_h import Error, LiveText, Model, Status

ROOT = Path(__file__).resolve().parents[3]
RANDOM = ROOT / "tests/data/transcribe/whisper.safetensors"
NOISE = ROOT / "tests/data/transcribe/noise.wav"
REAL = ROOT / "build/whisper"  # make test-real-speech puts models and clips there
LOOSE = {"log_prob": 0, "compression": 0}  # without limits, so that random text is written


def bytes_of(path):
    with wave.open(str(path)) as file:
        return file.readframes(file.getnframes())


SOUND = bytes_of(NOISE)
FLOATS = np.frombuffer(SOUND, "<i2").astype(np.float32) / 32768


@pytest.fixture(scope="module")
def model():
    with Model(RANDOM) as loaded:
        yield loaded


def command_line(model, sound, **options):
    """The lines of build/transcribe, which hears the sound in a pipe."""
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    done = subprocess.run([ROOT / "build/transcribe", model, "-", "--live", "--format", "json", *flags], input=sound,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8", "replace").split("\n")[:-1]


def lines(texts):
    return [one.json() for one in texts]


def cut(sound, size):
    return [sound[at:at + size] for at in range(0, len(sound), size)]


@pytest.mark.parametrize("options", [{}, {"prompt": "Mr. Dashwood"}, {"silence": 0}, {"threads": 2}], ids=str)
def test_the_command_lines_bytes(model, options):
    expected = command_line(RANDOM, SOUND, **LOOSE, **options)
    assert len(expected) > 3 and '"stable": true' in expected[-1] + expected[-2]
    for size in (1, 7, 320, 6401, len(SOUND)):
        assert lines(model.listen(cut(SOUND, size), **LOOSE, **options)) == expected
    for size in (160, 3000, len(FLOATS)):
        assert lines(model.listen(cut(FLOATS, size), **LOOSE, **options)) == expected
    kinds = [bytearray(SOUND[:9000]), memoryview(SOUND)[9000:20000], FLOATS[10000:15000], np.repeat(FLOATS, 2)[30000::2]]
    assert lines(model.listen(iter(kinds), **LOOSE, **options)) == expected


def test_moonshine_streaming():
    path = RANDOM.with_name("moonshine-streaming.safetensors")
    expected = command_line(path, 3 * SOUND)
    assert '"stable": true' in expected[-1] + expected[-2]
    with Model(path) as moonshine:
        for size in (320, 6401, 3 * len(SOUND)):
            assert lines(moonshine.listen(cut(3 * SOUND, size))) == expected


def test_defaults(model):
    assert lines(model.listen([SOUND])) == command_line(RANDOM, SOUND)


def test_a_text():
    text = LiveText(' "a\\b"\n\x7f\u2028é', True, 0.125, 1)
    assert text.json() == '{"text": " \\"a\\\\b\\"\\u000a\\u007f\\u2028é", "stable": true, "start": 0.12, "end": 1.00}'
    assert text == (text.text, True, 0.125, 1.0) and LiveText.__module__ == "transformer_h"


def test_texts_come_while_the_sound_is_open(model):
    heard, given = [], []

    def pieces():
        for one in cut(SOUND, 3200):
            given.append(len(heard))
            yield one
    for one in model.listen(pieces(), **LOOSE):
        heard.append(one)
    assert given[-1] > 1, "all texts came at the end"
    assert heard == list(model.listen([SOUND], **LOOSE))
    assert {one.stable for one in heard} == {False, True}
    assert all(0 <= one.start <= one.end <= len(FLOATS) / 16000 for one in heard)
    stable = [one for one in heard if one.stable]
    assert all(a.end <= b.start for a, b in zip(stable, stable[1:]))


def test_no_sound(model):
    for pieces in ([], [b""], [b"", np.zeros(0, np.float32)], [bytes(32000)], iter(())):
        assert list(model.listen(pieces, **LOOSE)) == []


def test_an_empty_piece_hears_what_has_come(model):
    """A run waits for 0.15 s of new sound. An empty piece says that none comes."""
    without, found = [], []

    def pieces(found, texts, *more):
        yield SOUND[:36000]
        for one in more:
            yield one
        found.extend(texts)
    for more, found in (((), without), ((b"",), found)):
        texts = []
        for one in model.listen(pieces(found, texts, *more), **LOOSE):
            texts.append(one)
    assert len(found) > len(without) and found[:len(without)] == without


def test_a_byte_too_many(model):
    expected = list(model.listen([SOUND], **LOOSE))
    with pytest.warns(UserWarning, match="the sound ends within a sample, which is not heard") as warned:
        assert list(model.listen([SOUND, b"x"], **LOOSE)) == expected
    assert len(warned) == 1 and warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(model.listen([SOUND[:1], SOUND[1:]], **LOOSE)) == expected
        with pytest.raises(ValueError, match=r"pieces\[1\] is an array, and the bytes before it end within a sample"):
            list(model.listen([SOUND[:7], FLOATS], **LOOSE))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_samples_that_are_not_numbers(model, value):
    wrong, silent = FLOATS.copy(), FLOATS.copy()
    wrong[4000:9000:3], silent[4000:9000:3] = value, 0
    assert lines(model.listen([wrong], **LOOSE)) == lines(model.listen([silent], **LOOSE)) != []
    assert list(model.listen([np.full(16000, value, np.float32)], **LOOSE)) == []


@pytest.mark.parametrize("pieces, options, kind, message", [
    (SOUND, {}, TypeError, r"pieces is bytes, expected an iterable of bytes .* \[sound\] has one piece"),
    (FLOATS, {}, TypeError, "pieces is ndarray, expected an iterable"),
    ("speech.wav", {}, TypeError, "pieces is str"),
    (5, {}, TypeError, "pieces is int, expected an iterable of bytes"),
    (None, {}, TypeError, "pieces is NoneType"),
    ([], {"language": 5}, TypeError, "language is int"),
    ([], {"task": "sing"}, ValueError, "task is 'sing'"),
    ([], {"threads": 0}, ValueError, "threads is 0"),
    ([], {"vad": 2}, ValueError, "vad is 2"),
    ([], {"fast": 1}, TypeError, "fast is int"),
    ([], {"beam": 5}, TypeError, "beam"),
])
def test_wrong_arguments(model, pieces, options, kind, message):
    with pytest.raises(kind, match=message):
        model.listen(pieces, **options)


@pytest.mark.parametrize("piece, kind, message", [
    ("text", TypeError, r"pieces\[1\] is str, expected bytes"),
    (None, TypeError, r"pieces\[1\] is NoneType"),
    ([0.1], TypeError, r"pieces\[1\] is list"),
    (np.zeros(9), TypeError, r"pieces\[1\] is an array of float64, expected float32"),
    (np.zeros(9, np.int16), TypeError, r"pieces\[1\] is an array of int16"),
    (np.zeros((9, 2), np.float32), ValueError, r"pieces\[1\] is an array of shape \[9, 2\], expected one channel"),
])
def test_wrong_pieces(model, piece, kind, message):
    heard = []
    with pytest.raises(kind, match=message):
        for one in model.listen([SOUND, piece], **LOOSE):
            heard.append(one)
    assert heard and heard == list(model.listen([SOUND], **LOOSE))[:len(heard)]


@pytest.mark.parametrize("options, status, message", [
    ({"language": "de"}, Status.E_ARGUMENT, "hears English alone"),
    ({"task": "translate"}, Status.E_ARGUMENT, "hears English alone"),
    ({"prompt": "\ud800"}, Status.E_UTF8, "UTF-8"),
    ({"prompt": "word " * 500}, Status.E_TOO_LONG, "tokens"),
])
def test_errors(model, options, status, message):
    with pytest.raises(Error, match=message) as raised:
        model.listen([], **options)
    assert raised.value.status == status


def test_a_model_that_cannot_hear():
    with Model(ROOT / "examples/models/de-en.safetensors") as other:
        with pytest.raises(Error, match="this is not a Whisper model from tools/convert.py"):
            other.listen([])


def listeners(model):
    return len(model._sessions._listeners)


def test_a_source_that_fails(model):
    """Its exception comes through, after the texts of the sound before. The session serves the next call."""
    expected, idle = list(model.listen([SOUND], **LOOSE)), listeners(model)

    def pieces():
        yield SOUND[:40000]
        assert listeners(model) == idle - 1
        raise ConnectionResetError("the microphone is gone")
    heard = []
    with pytest.raises(ConnectionResetError, match="the microphone is gone"):
        for one in model.listen(pieces(), **LOOSE):
            heard.append(one)
    assert heard and heard == expected[:len(heard)] and listeners(model) == idle
    assert list(model.listen([SOUND], **LOOSE)) == expected and listeners(model) == idle


def test_a_consumer_that_stops(model):
    idle = listeners(model)

    class Source:
        def __iter__(self):
            return iter(cut(SOUND, 3200))
    for stop in ("break", "close", "del", "never started"):
        source = Source()
        gone = weakref.ref(source)
        texts = model.listen(source, **LOOSE)
        if stop == "break":
            for _ in texts:
                break
        elif stop != "never started":
            next(texts)
        if stop == "close":
            texts.close()
            assert list(texts) == []
        del texts, source
        gc.collect()
        assert gone() is None and listeners(model) == idle
    assert list(model.listen([SOUND], **LOOSE)) == list(model.listen(cut(SOUND, 100), **LOOSE))


def test_the_model_is_closed_meanwhile():
    with Model(RANDOM) as other:
        expected = list(other.listen([SOUND], **LOOSE))
        texts = other.listen(cut(SOUND, 3200), **LOOSE)
        first = next(texts)
    assert [first, *texts] == expected
    with pytest.raises(ValueError, match="the model is closed"):
        other.listen([])


def test_many_threads(model):
    expected, found = list(model.listen([SOUND], **LOOSE)), [None] * 5

    def work(i):
        found[i] = list(model.listen(cut(SOUND, 999 + i), **LOOSE))
    crew = [threading.Thread(target=work, args=(i,)) for i in range(5)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert found == [expected] * 5


def test_a_program_that_is_slower_than_a_microphone(model):
    """What waits is heard in one run, so the program catches up: the texts are fewer, and the last ones are the same sound's."""
    sound = cut(SOUND * 2, 3200)  # 0.1 s each
    every = list(model.listen(sound, **LOOSE))

    def microphone():  # as fast as speech
        began = time.monotonic()
        for i, one in enumerate(sound, 1):
            time.sleep(max(0, began + i * 0.1 - time.monotonic()))
            yield one
    heard = []
    for i, one in enumerate(model.listen(microphone(), **LOOSE)):
        heard.append(one)
        if i < 3:
            time.sleep(0.4)
    assert 0 < len(heard) < len(every) and heard[-1].end <= 3.2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_ctrl_c(model):
    """It ends the loop while the source waits, and while the model works."""
    old = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    idle = listeners(model)

    def waits():
        yield SOUND
        time.sleep(20)

    def endless():
        while True:
            yield SOUND
    try:
        for pieces in (waits, endless):
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                for _ in model.listen(pieces(), **LOOSE):
                    pass
            assert time.monotonic() - began < 10 and listeners(model) == idle
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        signal.signal(signal.SIGINT, ours)
    assert lines(model.listen([SOUND], **LOOSE)) == command_line(RANDOM, SOUND, **LOOSE)


@pytest.mark.parametrize("name, clip, options", [("tiny.en", "jfk", {}), ("base", "fr", {"task": "translate"})], ids=str)
def test_real_speech(name, clip, options):
    for file in (REAL / f"{name}.safetensors", REAL / f"{clip}.wav"):
        if not file.exists():
            pytest.skip(f"{file.relative_to(ROOT)} is missing: make test-real-speech makes it")
    sound = bytes_of(REAL / f"{clip}.wav")[:32000 * 8]
    with Model(REAL / f"{name}.safetensors") as model:
        found = list(model.listen(cut(sound, 3200), **options))
        assert lines(found) == command_line(REAL / f"{name}.safetensors", sound, **options)
        assert len("".join(one.text for one in found if one.stable).split()) > 3
