"""Model.transcribe against build/transcribe: texts, times and words to the last digit that it prints."""

import io
import signal
import subprocess
import threading
import wave
from pathlib import Path

import numpy as np
import pytest

from transformer_h import Error, Model, Status

ROOT = Path(__file__).resolve().parents[3]
RANDOM = ROOT / "tests/data/transcribe/whisper.safetensors"
NOISE = ROOT / "tests/data/transcribe/noise.wav"
REAL = ROOT / "build/whisper"  # make test-real-speech puts models and clips there
# without limits, so that random text is written
LOOSE = {"temperature": 0, "log_prob": 0, "compression": 0, "no_speech": 1}
FLAGS = {"log_prob": "--log-prob", "no_speech": "--no-speech", "best_of": "--best-of"}


@pytest.fixture(scope="module")
def model():
    with Model(RANDOM) as loaded:
        yield loaded


def command_line(model, sound, **options):
    """The segments of build/transcribe."""
    flags = []
    for name, value in options.items():
        if name in ("timestamps", "previous"):
            flags += [] if value else [{"timestamps": "--no-times", "previous": "--no-previous"}[name]]
        elif name == "own_words":
            file = ROOT / "build/test_own_words.txt"
            file.write_text("\n".join(value), encoding="utf-8")
            flags += ["--words-file", file]
        elif isinstance(value, bool):
            flags += [f"--{name}"] if value else []
        else:
            flags += [FLAGS.get(name, f"--{name}").replace("_", "-"), ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    done = subprocess.run([ROOT / "build/transcribe", model, sound, "--format", "json", *flags], capture_output=True)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.decode("utf-8", "replace").split("\n") if line]


def as_lines(segments):
    """Segments as build/transcribe writes them: it has control characters as spaces."""
    def quoted(text):
        text = "".join(f"\\{one}" if one in '"\\' else f"\\u{ord(one):04x}" if ord(one) < 32 else one for one in text)
        return f'"{text}"'
    for s in segments:
        line = f'{{"start": {s.start:.2f}, "end": {s.end:.2f}, "text": {quoted(s.text)}'
        if s.language is not None:
            line += f', "language": "{s.language}"'
        line += (f', "seek": {s.seek}, "temperature": {s.temperature:.4g}, "avg_logprob": {s.avg_logprob:.5f}, '
                 f'"compression_ratio": {s.compression_ratio:.3f}')
        if s.no_speech_prob is not None:
            line += f', "no_speech_prob": {s.no_speech_prob:.5f}'
        line += f', "tokens": {s.tokens}'
        if s.words is not None:
            line += ', "words": [' + ", ".join(
                f'{{"word": {quoted(w.word)}, "start": {w.start:.2f}, "end": {w.end:.2f}, "probability": {w.probability:.4f}}}'
                for w in s.words) + "]"
        yield line + "}"


OPTIONS = [
    {"beam": 1}, {}, {"beam": 1, "words": True}, {"beam": 3, "words": True, "threads": 2}, {"timestamps": False, "beam": 2},
    {"beam": 1, "previous": False}, {"beam": 2, "prompt": "Mr. Dashwood"}, {"beam": 1, "fast": True},
    {"beam": 2, "silence": 0}, {"temperature": [0, 0.4, 1], "log_prob": -2.0, "best_of": 2, "beam": 1},
    {"beam": 1, "log_prob": -0.5, "no_speech": 0.9}, {"beam": 1, "vad": 0, "vad_silence": 100, "vad_pad": 30.5},
    {"beam": 1, "own_words": ["ab", "Zoë", "cde"]}, {"own_words": ["e"]},
]


@pytest.mark.parametrize("name", ["moonshine", "moonshine-streaming"])
def test_moonshine(name):
    path = RANDOM.with_name(f"{name}.safetensors")
    with Model(path) as model:
        for options in ({"beam": 1}, {"beam": 3, "threads": 2}):
            assert list(as_lines(model.transcribe(NOISE, **options))) == command_line(path, NOISE, **options)
        for options in ({"language": "de"}, {"task": "translate"}, {"prompt": "x"}, {"words": True}, {"timestamps": False}):
            with pytest.raises(Error, match="the model is Moonshine"):
                list(model.transcribe(NOISE, **options))
        if name == "moonshine":
            with pytest.raises(Error, match="live text needs Moonshine streaming or Whisper"):
                list(model.listen([]))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_segments_are_the_command_lines(model, options):
    options = {**LOOSE, **options}
    expected = command_line(RANDOM, NOISE, **options)
    assert expected or options.get("no_speech") != 1
    assert list(as_lines(model.transcribe(NOISE, **options))) == expected


def test_defaults_are_the_command_lines(model):
    assert list(as_lines(model.transcribe(str(NOISE)))) == command_line(RANDOM, NOISE)


def wav(samples, rate=16000, channels=1):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(np.asarray(samples, "<i2").tobytes())
    return file.getvalue()


def test_path_bytes_and_array_are_one_sound(model, tmp_path):
    with wave.open(str(NOISE)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    options = {**LOOSE, "beam": 1}
    expected = list(model.transcribe(NOISE, **options))
    assert expected
    floats = samples.astype(np.float32) / 32768
    for sound in (str(NOISE), NOISE.read_bytes(), floats, np.stack([floats, floats], 1)[:, 0]):
        assert list(model.transcribe(sound, **options)) == expected
    # rates, and a name outside of ASCII
    for rate in (1000, 8000, 44100, 384000):
        (tmp_path / "Ω-音.wav").write_bytes(wav(samples[:9000], rate))
        assert list(as_lines(model.transcribe(floats[:9000], rate=rate, **options))) == command_line(
            RANDOM, tmp_path / "Ω-音.wav", **options) == list(as_lines(model.transcribe(tmp_path / "Ω-音.wav", **options)))
    with Model(RANDOM.read_bytes()) as other:  # a model of bytes
        assert list(other.transcribe(NOISE, **options)) == expected


@pytest.mark.parametrize("sound", [
    np.zeros(0, np.float32), np.zeros(1, np.float32), np.full(8000, np.nan, np.float32), np.full(8000, np.inf, np.float32),
    np.full(8000, -3e38, np.float32), np.full(320, 1e-40, np.float32), np.zeros(16000 * 40, np.float32),
    np.tile(np.float32([1, -1]), 8000)])
def test_odd_samples(model, sound, tmp_path):
    """They give what the same samples in a WAV file give."""
    file = tmp_path / "odd.wav"
    data = sound.astype("<f4").tobytes()
    size = len(data).to_bytes(4, "little")
    file.write_bytes(b"RIFF" + size + b"WAVEfmt \x10\0\0\0\3\0\1\0" + (16000).to_bytes(4, "little") + bytes(4)
                     + b"\4\0\x20\0data" + size + data)
    assert list(as_lines(model.transcribe(sound, beam=1, **LOOSE))) == command_line(RANDOM, file, beam=1, **LOOSE)


GOOD = np.zeros(1600, np.float32)


@pytest.mark.parametrize("sound, options, kind, message", [
    (np.zeros((2, 100), np.float32), {}, ValueError, r"shape \[2, 100\], expected one channel"),
    (np.float32(0) + np.zeros((), np.float32).reshape(()), {}, (TypeError, ValueError), "sound is"),
    (np.zeros(9, np.int16), {}, TypeError, "array of int16, expected float32 .* / 32768"),
    (np.zeros(9), {}, TypeError, "array of float64, expected float32"),
    (np.zeros(9, ">f4"), {}, TypeError, "array of >f4"),
    (np.zeros(9, object), {}, TypeError, "array of object"),
    ([0.0, 0.1], {}, TypeError, "sound is list, expected a path"),
    (None, {}, TypeError, "sound is NoneType"),
    (bytearray(9), {}, TypeError, "sound is bytearray"),
    ("a\0b", {}, ValueError, "sound has a NUL"),
    (GOOD, {"rate": 10 ** 9}, ValueError, "rate is 1000000000, expected 1000 to 384000"),
    (GOOD, {"rate": 2 ** 70}, ValueError, "rate is"),
    (GOOD, {"rate": 0}, ValueError, "rate is 0"),
    (GOOD, {"rate": 16000.0}, TypeError, "rate is float"),
    (NOISE, {"rate": 16000}, ValueError, "rate is for arrays"),
    (GOOD, {"task": "sing"}, ValueError, "task is 'sing', expected transcribe or translate"),
    (GOOD, {"beam": 65}, ValueError, "beam is 65, expected 1 to 64"),
    (GOOD, {"threads": 0}, ValueError, "threads is 0"),
    (GOOD, {"temperature": []}, ValueError, "temperature takes 1 to 12 numbers"),
    (GOOD, {"temperature": [0] * 13}, ValueError, "temperature takes 1 to 12 numbers"),
    (GOOD, {"temperature": float("nan")}, ValueError, "temperature takes"),
    (GOOD, {"temperature": "0,1"}, TypeError, "temperature is str"),
    (GOOD, {"log_prob": 1}, ValueError, "log_prob is 1, expected -1e[+]09 to 0"),
    (GOOD, {"no_speech": float("nan")}, ValueError, "no_speech is nan"),
    (GOOD, {"words": 1}, TypeError, "words is int"),
    (GOOD, {"prompt": b"x"}, TypeError, "prompt is bytes"),
    (GOOD, {"prompt": "a\0"}, ValueError, "prompt has a NUL"),
    (GOOD, {"progress": 5}, TypeError, "progress is int"),
    (GOOD, {"unheard_of": 5}, TypeError, "unheard_of"),
])
def test_wrong_arguments(model, sound, options, kind, message):
    with pytest.raises(kind, match=message):
        model.transcribe(sound, **options)


@pytest.mark.parametrize("sound, options, status, message", [
    ("nowhere.wav", {}, Status.E_IO, "nowhere.wav: cannot be opened"),
    (b"", {}, Status.E_IO, "not a WAV file"),
    (b"RIFF", {}, Status.E_IO, "not a WAV file"),
    (RANDOM, {}, Status.E_IO, "not a WAV file"),
    (GOOD, {"language": "de"}, Status.E_ARGUMENT, "hears English alone"),
    (GOOD, {"task": "translate"}, Status.E_ARGUMENT, "hears English alone"),
    (GOOD, {"prompt": "\ud800"}, Status.E_UTF8, "UTF-8"),
    (GOOD, {"prompt": "word " * 500}, Status.E_TOO_LONG, "tokens"),
])
def test_errors(model, sound, options, status, message):
    with pytest.raises(Error, match=message) as raised:
        model.transcribe(sound, **options)
    assert raised.value.status == status and raised.value.message
    assert list(model.transcribe(GOOD, beam=1)) == list(model.transcribe(GOOD, beam=1))  # it still works


def test_a_model_that_cannot_hear(tmp_path):
    with Model(ROOT / "examples/models/de-en.safetensors") as other:
        with pytest.raises(Error, match="this is not a Whisper model from tools/convert.py"):
            other.transcribe(GOOD)


def test_windows_progress_and_early_ends(model, tmp_path):
    sound = np.random.default_rng(7).normal(size=16000 * 70).astype(np.float32) * 0.1
    options, heard = {**LOOSE, "beam": 1, "previous": False}, []
    expected = list(model.transcribe(sound, progress=lambda done, total: heard.append((done, total)), **options))
    assert len(heard) > 1 and heard == sorted(heard) and {total for _, total in heard} == {70.0} and heard[-1][0] == 70.0
    some = model.transcribe(sound, **options)
    assert [next(some), next(some)] == expected[:2]
    others = [list(model.transcribe(sound[:16000 * 31], **options)) for _ in range(2)]  # while `some` waits
    assert others[0] == others[1]
    assert list(some) == expected[2:]
    some = model.transcribe(sound, **options)
    next(some)
    some.close()
    idle = len(model._sessions._listeners)
    open_one = model.transcribe(NOISE, **options)
    assert len(model._sessions._listeners) == idle - 1
    del open_one  # nobody took a segment
    assert len(model._sessions._listeners) == idle

    def fails(done, total):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        list(model.transcribe(sound, progress=fails, **options))
    with Model(RANDOM) as other:
        some = other.transcribe(sound, **options)
        first = next(some)
    assert [first, *some] == expected  # the model remains until the last call
    with pytest.raises(ValueError, match="the model is closed"):
        other.transcribe(sound)


def test_many_threads(model):
    expected, found = list(model.transcribe(NOISE, beam=1, **LOOSE)), [None] * 6

    def work(i):
        found[i] = list(model.transcribe(NOISE, beam=1, **LOOSE))
    crew = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert found == [expected] * 6


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_ctrl_c(model):
    """It ends within a window, keeps the segments before, and the model hears on."""
    sound = np.random.default_rng(8).normal(size=16000 * 2000).astype(np.float32) * 0.1
    options = {**LOOSE, "beam": 1}
    kept = []
    old = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            for one in model.transcribe(sound, **options):
                if not kept:
                    signal.setitimer(signal.ITIMER_REAL, 0.02)
                kept.append(one)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        signal.signal(signal.SIGINT, ours)
    assert kept
    assert list(as_lines(model.transcribe(NOISE, **options))) == command_line(RANDOM, NOISE, **options)


@pytest.mark.parametrize("name, clip, options", [
    ("tiny.en", "jfk", {}), ("tiny.en", "jfk", {"beam": 1, "words": True}), ("tiny.en", "austen", {"words": True, "fast": True}),
    ("base", "de", {"words": True}), ("base", "de", {"task": "translate"}), ("base", "fr", {"language": "fr", "beam": 1}),
], ids=str)
def test_real_speech(name, clip, options):
    for file in (REAL / f"{name}.safetensors", REAL / f"{clip}.wav"):
        if not file.exists():
            pytest.skip(f"{file.relative_to(ROOT)} is missing: make test-real-speech makes it")
    with Model(REAL / f"{name}.safetensors") as model:
        found = list(model.transcribe(REAL / f"{clip}.wav", **options))
        assert list(as_lines(found)) == command_line(REAL / f"{name}.safetensors", REAL / f"{clip}.wav", **options)
        with wave.open(str(REAL / f"{clip}.wav")) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        assert list(model.transcribe(samples, **options)) == found
