"""Feeds an hour of speech to transcribe --live or Model.listen. Prints the memory of the process at 5, 30 and 60 minutes of
sound, its CPU time, and how many words came. Fails if the memory grows by more than 2 MB after 5 minutes.
The sound is the clips of make test-whisper in random order, with pauses of 0.1 to 4 s. It comes as fast as the
program hears it, so an hour with tiny.en takes about 20 minutes of CPU time.

    python tests/transcribe/hour_live.py MODEL [MINUTES] [python]

With the word python, Model.listen of the installed package hears the sound, in place of build/transcribe."""

import array
import json
import random
import subprocess
import sys
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "whisper"
CLIPS = ("austen", "cards", "jfk", "en")
RATE, MARKS, ALLOWED = 16000, (5, 30, 60), 2.0
LISTEN = """
import sys
from transformer_h import Model
def pieces():
    while piece := sys.stdin.buffer.read(3200):
        yield piece
for text in Model(sys.argv[1]).listen(pieces()):
    print(text.json(), flush=True)
"""


def clip(name):
    with wave.open(str(BUILD / f"{name}.wav")) as file:
        return file.readframes(file.getnframes())


def sound(samples):
    """Yields the sound in pieces of at most a second, and its pauses: silence with a little noise."""
    order = random.Random(47)
    clips = [clip(name) for name in CLIPS]
    while samples > 0:
        noise = array.array("h", (order.randrange(-8, 9) for _ in range(order.randrange(RATE // 10, 4 * RATE))))
        whole = order.choice(clips) + noise.tobytes()
        for at in range(0, len(whole), 2 * RATE):
            piece = whole[at : min(at + 2 * RATE, len(whole))][: 2 * samples]
            samples -= len(piece) // 2
            if piece:
                yield piece


def megabytes(process):
    """The resident memory of a process, and its CPU time in seconds."""
    status = Path(f"/proc/{process.pid}/status").read_text().split()
    times = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(status[status.index("VmRSS:") + 1]) / 1024, (int(times[11]) + int(times[12])) / 100


def main():
    model = BUILD / f"{sys.argv[1]}.safetensors"
    minutes = int(next((word for word in sys.argv[2:] if word.isdigit()), 60))
    command = [ROOT / "build/transcribe", model, "-", "--live", "--format", "json"]
    if "python" in sys.argv:
        command = [sys.executable, "-c", LISTEN, model]
    output = BUILD / f"hour.{Path(command[0]).name}.{sys.argv[1]}.jsonl"
    fed, found = 0, {}
    with output.open("w") as file:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file)
        for piece in sound(minutes * 60 * RATE):
            process.stdin.write(piece)
            process.stdin.flush()
            fed += len(piece) // 2
            minute = fed // (60 * RATE)
            if minute and minute not in found:
                found[minute] = megabytes(process)
                if minute in MARKS or minute == minutes:
                    size, seconds = found[minute]
                    print(f"{sys.argv[1]}: {minute} minutes, {size:.1f} MB, {seconds:.0f} s of CPU time", flush=True)
        process.stdin.close()
        assert process.wait() == 0
    texts = [json.loads(line) for line in output.read_text().splitlines()]
    stable = [text for text in texts if text["stable"]]
    words = len("".join(text["text"] for text in stable).split())
    assert all(a["start"] <= b["start"] <= b["end"] <= 60 * minutes + 1 for a, b in zip(stable, stable[1:]))
    largest = max(size for size, _ in found.values())
    print(f"{sys.argv[1]}: {words} words, at most {largest:.1f} MB")
    start = found[min(MARKS[0], minutes)][0]
    if largest > start + ALLOWED:
        sys.exit(f"the memory grew from {start:.1f} MB to {largest:.1f} MB")


if __name__ == "__main__":
    main()
