"""Makes more clips for time_live.py: voices of flite, and the recordings of pocketsphinx's test data in another order, faster and with
noise. The settings of live text were chosen on these clips, too. Needs flite and sox (apt-get install flite sox).

    python tests/transcribe/more_clips.py FOLDER

FOLDER has what make test-whisper has fetched. The clips and their texts are written to build/whisper/more."""

import array
import json
import random
import re
import subprocess
import sys
import tarfile
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MORE, RATE = ROOT / "build" / "whisper" / "more", 16000
SAID = {
    "slt": ["Please send the report to my office before noon on Friday.", "We met your sister at the station last night.",
            "Nobody told me that the train was late again.", "The letter arrived in the afternoon, after the rain had stopped.",
            "In the end she found the answer in an old book.", "Can you ask them to bring the keys tomorrow morning?"],
    "rms": ["The new office is on the second floor of the building.", "My brother bought this house two years ago.",
            "After the game the boys went home without a word.", "I think that the doctor will give the first talk of the meeting.",
            "They gave the prize to a young writer for a story about the sea."],
    "awb": ["There is a phone call from London for you.", "Last summer he travelled to the coast with two friends.",
            "The doctor said that he has to rest for a week.", "Every morning she teaches a class at the school near the river.",
            "Put the milk in the fridge and close the door."]}
SHORT = {"goforward.raw": "go forward ten meters", "something.raw": "go somewhere and do something",
         "forever/input_2_16k.wav": "feels like these days go on forever",
         "forever/input_4_16k.wav": "feels like these days go on forever"}


def save(name, samples):
    with wave.open(str(MORE / f"{name}.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(array.array("h", (max(-32768, min(32767, round(x))) for x in samples)).tobytes())


def from_sox(data, *effects, kind="wav"):
    """Returns the samples of a sound, at 16 kHz and with sox's effects."""
    source = ["-t", "raw", "-r", str(RATE), "-e", "signed", "-b", "16", "-c", "1"] if kind == "raw" else ["-t", "wav"]
    run = subprocess.run(["sox", *source, "-", "-t", "raw", "-r", str(RATE), "-e", "signed", "-b", "16", "-c", "1", "-", *effects],
                         input=data, capture_output=True, check=True)
    return array.array("h", run.stdout)


def joined(order, pieces):
    """Joins sounds with pauses of 0.2 to 1.2 s."""
    samples = array.array("h")
    for piece in pieces:
        samples.extend(piece)
        samples.extend(order.randrange(-8, 9) for _ in range(order.randrange(RATE // 5, RATE * 6 // 5)))
    return samples


def main():
    order, texts = random.Random(48), {}
    MORE.mkdir(parents=True, exist_ok=True)
    for voice, sentences in SAID.items():
        spoken = []
        for sentence in sentences:
            subprocess.run(["flite", "-voice", voice, "-t", sentence, "-o", str(MORE / "one.wav")], check=True)
            spoken.append(from_sox((MORE / "one.wav").read_bytes()))
        save(voice, joined(order, spoken))
        texts[voice] = " ".join(sentences)
    (MORE / "one.wav").unlink()
    with tarfile.open(next(Path(sys.argv[1]).glob("pocketsphinx-*.tar.gz"))) as file:
        found = {one.name.partition("/test/data/")[2]: file.extractfile(one).read() for one in file.getmembers() if one.isfile()}
    lines = {name: text for text, name in re.findall(r"<s> (.*) </s> \((.*)\)", found["librivox/transcription"].decode())}
    names = sorted(lines)
    order.shuffle(names)
    readings = [found[f"librivox/{name}.wav"] for name in names]
    read = " ".join(lines[name] for name in names)
    save("readings", joined(order, [from_sox(data) for data in readings]))
    save("fast", joined(order, [from_sox(data, "tempo", "1.15") for data in readings]))
    plain = joined(order, [from_sox(data) for data in readings])
    loud = (sum(x * x for x in plain) / len(plain)) ** 0.5
    save("noisy", [x + order.gauss(0, loud / 4) for x in plain])
    texts.update(readings=read, fast=read, noisy=read, short=" ".join(SHORT.values()))
    save("short", joined(order, [from_sox(found[name], kind=name[-3:]) for name in SHORT]))
    (MORE / "texts.json").write_text(json.dumps(texts))


if __name__ == "__main__":
    main()
