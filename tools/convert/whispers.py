"""whispers.py: the usual Whisper and Moonshine models by short names, from Hugging Face's hub.

    transformer-model get whisper-base       writes whisper-base.safetensors, for transcribe
    transformer-model get moonshine-tiny

The files of Whisper are those of faster-whisper. Their sizes and SHA-256 come from the hub's list of files, by https, and are
compared before and after the cache. HF_ENDPOINT names another server of the same protocol. The voice detector is a
file of the package faster-whisper on PyPI, whose SHA-256 is here."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import silero
from .download import (DownloadError, RemoteFile, cache_folder, compare, get_bytes, get_file, locked, sha256,
                       write_whole)
from .progress import Progress
from .untrusted import ConvertError, brief, check_zip, parse_json

SOURCE = "whisper"  # the folder of the cache
SOURCES = (SOURCE, "moonshine")  # what names begin with
NOTE = "files.json"  # the hub's list; it is written when all files are there
WANTED = ("config.json", "tokenizer.json", "vocabulary.txt", "vocabulary.json", "preprocessor_config.json",
          "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")
DETECTOR = RemoteFile(
    "faster_whisper-1.2.1-py3-none-any.whl",
    "https://files.pythonhosted.org/packages/05/99/49ee85903dee060d9f08297b4a342e5e0bcfca2f027a07b4ee0a38ab13f9/"
    "faster_whisper-1.2.1-py3-none-any.whl",
    1118909, "79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7")
DETECTOR_NAME = "faster_whisper/assets/silero_vad_v6.onnx"


@dataclass(frozen=True)
class Whisper:
    repository: str
    licence: str
    size: int  # about, in MB; of F16 weights
    note: str
    weights: str = "model.bin"
    tokens: float = 0  # of a second, at most, that transcribe writes; 0: as it has it


COMMUNITY = "Moonshine Community"  # for companies with little revenue
SAFE = "model.safetensors"
MODELS = {
    "whisper-tiny": Whisper("Systran/faster-whisper-tiny", "MIT", 75, "99 languages"),
    "whisper-tiny.en": Whisper("Systran/faster-whisper-tiny.en", "MIT", 75, "English"),
    "whisper-base": Whisper("Systran/faster-whisper-base", "MIT", 145, "99 languages"),
    "whisper-base.en": Whisper("Systran/faster-whisper-base.en", "MIT", 145, "English"),
    "whisper-small": Whisper("Systran/faster-whisper-small", "MIT", 484, "99 languages"),
    "whisper-small.en": Whisper("Systran/faster-whisper-small.en", "MIT", 484, "English"),
    "whisper-medium": Whisper("Systran/faster-whisper-medium", "MIT", 1528, "99 languages"),
    "whisper-medium.en": Whisper("Systran/faster-whisper-medium.en", "MIT", 1528, "English"),
    "whisper-large-v2": Whisper("Systran/faster-whisper-large-v2", "MIT", 3087, "99 languages"),
    "whisper-large-v3": Whisper("Systran/faster-whisper-large-v3", "MIT", 3087, "100 languages"),
    "whisper-turbo": Whisper("mobiuslabsgmbh/faster-whisper-large-v3-turbo", "MIT", 1618, "100 languages"),
    "whisper-distil-small.en": Whisper("Systran/faster-distil-whisper-small.en", "MIT", 332, "English"),
    "whisper-distil-medium.en": Whisper("Systran/faster-distil-whisper-medium.en", "MIT", 789, "English"),
    "whisper-distil-large-v3": Whisper("Systran/faster-distil-whisper-large-v3", "MIT", 1513, "English"),
    # Moonshine: a language each. The rates are those that its documentation gives.
    "moonshine-tiny": Whisper("UsefulSensors/moonshine-tiny", "MIT", 110, "English", SAFE),
    "moonshine-base": Whisper("UsefulSensors/moonshine-base", "MIT", 250, "English", SAFE),
    "moonshine-streaming-tiny": Whisper("UsefulSensors/moonshine-streaming-tiny", "MIT", 170, "English", SAFE),
    "moonshine-streaming-small": Whisper("UsefulSensors/moonshine-streaming-small", "MIT", 500, "English", SAFE),
    "moonshine-streaming-medium": Whisper("UsefulSensors/moonshine-streaming-medium", "MIT", 1000, "English", SAFE),
    "moonshine-base-es": Whisper("UsefulSensors/moonshine-base-es", COMMUNITY, 250, "Spanish", SAFE),
    **{f"moonshine-{size}-{code}": Whisper(f"UsefulSensors/moonshine-{size}-{code}", COMMUNITY, mb, note, SAFE, 13)
       for size, mb in (("tiny", 110), ("base", 250)) for code, note in (
           ("ar", "Arabic"), ("ja", "Japanese"), ("ko", "Korean"), ("uk", "Ukrainian"), ("vi", "Vietnamese"), ("zh", "Chinese"))},
}


def is_name(text: str) -> bool:
    """Returns whether a name is meant for this list: a wrong one gets a message that names the others."""
    return text.startswith(tuple(f"{one}-" for one in SOURCES)) or text in SOURCES


def about(name: str) -> dict[str, str]:
    """What the model file of a name says beside the weights."""
    one = find(name)
    said = {"license": one.licence} if one.weights == SAFE else {}
    return {**said, "extra.tokens_per_second": f"{one.tokens:g}"} if one.tokens else said


def find(name: str) -> Whisper:
    if name not in MODELS:
        near = [one for one in MODELS if one.startswith(name.partition("-")[0])]
        raise DownloadError(f"{name}: no such model; there is {', '.join(near)}")
    return MODELS[name]


def folder_of(name: str) -> Path:
    return cache_folder() / SOURCE / name


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def check_blob(size: int, digest: str) -> Any:
    """Returns a function that compares a file with the size and the SHA-1 (of Git) that the hub's list has for it."""
    def check(path: Path) -> None:
        data = path.read_bytes()
        if len(data) != size or hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() != digest:
            raise ConvertError("not the file that the hub's list names")
    return check


def read_list(data: bytes, url: str, model: Whisper) -> list[RemoteFile]:
    """The files of a model, by the hub's list: [{"path", "size", "oid", "lfs": {"oid", "size"}}, ...]."""
    files = []
    try:
        for one in parse_json(data, url):
            name, large = one["path"], one.get("lfs")
            if name not in WANTED and name != model.weights:
                continue
            where = f"{endpoint()}/{model.repository}/resolve/main/{name}"
            size, digest = (large or one)["size"], (large or one)["oid"]
            if not isinstance(size, int) or not isinstance(digest, str):
                raise TypeError
            files.append(RemoteFile(name, where, size, digest) if large else
                         RemoteFile(name, where, size, check=check_blob(size, digest)))
    except (KeyError, TypeError, AttributeError):
        raise DownloadError(f"{url}: not a list of files of the hub: {brief(data[:80])}") from None
    if model.weights not in {one.name for one in files}:
        raise DownloadError(f"{url}: the model has no {model.weights}")
    return files


def is_whole(one: RemoteFile, folder: Path) -> bool:
    path = folder / one.name
    try:
        if one.check:
            one.check(path)
        return path.stat().st_size == one.size and one.sha256 in (None, sha256(path))
    except (OSError, ConvertError):
        return False


def get_detector(offline: bool, progress: Progress) -> str:
    """Returns the file of a voice detector, or none after a message."""
    if found := silero.installed():
        return str(found)
    folder = cache_folder() / SOURCE
    path = folder / Path(DETECTOR_NAME).name
    try:
        if not path.is_file():
            if offline:
                raise DownloadError("the voice detector is not in the cache")
            folder.mkdir(parents=True, exist_ok=True)
            get_file(DETECTOR, folder, progress)
            check_zip(folder / DETECTOR.name, "a wheel")
            with zipfile.ZipFile(folder / DETECTOR.name) as wheel:
                write_whole(path, wheel.read(DETECTOR_NAME))
            (folder / DETECTOR.name).unlink()
        silero.read(path)
    except (ConvertError, KeyError) as error:
        progress.say(f"{error}; the model gets no voice detector")
        return "none"
    return str(path)


def get_folder(name: str, offline: bool, progress: Progress) -> tuple[Path, str]:
    """Returns the folder of a model in the cache, and the file of its voice detector."""
    model, folder = find(name), folder_of(name)
    url = f"{endpoint()}/api/models/{model.repository}/tree/main"
    with locked(folder.with_name(f"{name}.lock"), progress, name):
        if (folder / NOTE).is_file():
            files = read_list((folder / NOTE).read_bytes(), str(folder / NOTE), model)
            if all(is_whole(one, folder) for one in files):
                return folder, get_detector(offline, progress)
        if offline:
            raise DownloadError(f"{name} is not in the cache, and --offline opens no connection")
        data = get_bytes(url)
        files = read_list(data, url, model)
        folder.mkdir(parents=True, exist_ok=True)
        for one in files:
            if not is_whole(one, folder):
                get_file(one, folder, progress)
        write_whole(folder / NOTE, json.dumps(parse_json(data, url)).encode())
        return folder, get_detector(offline, progress)


def print_list(kept: Path, source: str) -> None:
    for name, one in MODELS.items():
        if not name.startswith(source):
            continue
        here = "cached" if (kept / name / NOTE).is_file() else ""
        print(f"{name:<{26 if source == SOURCES[1] else 25}} {one.licence:<{19 if source == SOURCES[1] else 4}} {one.size:>5} MB  {one.note:<13}  {here}".rstrip())


def print_info(name: str) -> None:
    one, folder = find(name), folder_of(name)
    print(f"{name}: {one.licence}, about {one.size} MB, {one.note}\n  {endpoint()}/{one.repository}")
    print(f"  in the cache: {folder}" if (folder / NOTE).is_file() else "  not in the cache")
