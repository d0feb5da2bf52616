"""releases.py: the models that other projects publish by languages, and the cache of their files.

The sources are Firefox's list of records and the index of Argos Translate. published.py makes model files of
releases; main.py takes a name such as firefox:de-en as its input. Neither of them is imported here."""

from __future__ import annotations

import json
import os
import re
import urllib.parse
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Sequence, Tuple

from .download import (DownloadError, RemoteFile, cache_folder, disk_errors, get_bytes, get_file, locked,
                       sha256, write_whole)
from .progress import Progress, megabytes
from .untrusted import ConvertError, brief, check_zip, parse_json, read_object, visible

Pair = Tuple[str, str]  # two languages
LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
VERSION = re.compile(r"\d{1,9}(\.\d{1,9})*([a-z]\d{0,9})?")
SHA256 = re.compile(r"[0-9a-f]{64}")
HUB = "en"  # the language that other pairs go through
NOTE = "release.json"  # of a folder in the cache; it is written when all files are there


@dataclass(frozen=True)
class Release:
    """A model of a source. In the cache it has a folder of its own."""

    source: str
    pair: Pair
    version: str
    architecture: str | None
    files: tuple[RemoteFile, ...]
    about: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(filter(None, (f"{self.source}:{name_of(self.pair)}", self.version, self.architecture)))

    @property
    def folder(self) -> Path:
        return pair_folder(self.source, self.pair) / "-".join(filter(None, (self.version, self.architecture)))

    @property
    def size(self) -> int:
        return sum(one.size or 0 for one in self.files)


def name_of(pair: Pair) -> str:
    return f"{pair[0]}-{pair[1]}"


def pair_folder(source: str, pair: Pair) -> Path:
    return cache_folder() / source / name_of(pair)


def rank_of_version(version: str) -> tuple[list[int], bool]:
    """3.10 is newer than 3.2, and 3.0 is newer than its trial 3.0a1."""
    numbers = [int(one) for one in re.split("[a-z]", version)[0].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers, not re.search("[a-z]", version)


# ---------------------------------------------------------------------------------------- the sources
DESKTOP = {"env.appinfo.OS": "Linux", "env.channel": "release"}


def is_for_desktop(expression: Any) -> bool:
    """Whether a record's filter_expression selects a released Firefox that is not Android's. Some pairs have a
    better model for computers and a smaller one for telephones. A term that is not known selects nothing."""
    def holds(term: str) -> bool:
        found = re.fullmatch(r"\s*([\w.]+)\s*([!=])=\s*'([^']*)'\s*", term)
        return found is not None and found[1] in DESKTOP and (DESKTOP[found[1]] == found[3]) == (found[2] == "=")

    if not isinstance(expression, str):
        return expression is None
    return not expression.strip() or any(all(map(holds, one.split("&&"))) for one in expression.split("||"))


class Firefox:
    """Firefox's models: a list of records (Remote Settings), a record for each file."""

    name = "firefox"
    records = "https://firefox.settings.services.mozilla.com/v1/buckets/main/collections/translations-models-v2/records"
    attachments = "https://firefox-settings-attachments.cdn.mozilla.net/"
    major = "3"  # of the versions whose files the converter reads
    architectures = ("base", "base-memory", "tiny")  # the best first, by Mozilla's evaluation
    files = {"model": "bin", "vocab": "spm", "srcvocab": "spm", "trgvocab": "spm", "lex": "bin"}

    def __init__(self, records: str | None = None) -> None:
        self.url = records or os.environ.get("FXTRANSLATE_RECORDS_URL") or self.records

    def base(self) -> str:
        """Returns the address of the files, which the server's root states. So a mirror is used as a whole."""
        root = re.match(r".*?/v1/", self.url)
        try:
            said = parse_json(get_bytes(root[0]), root[0]) if root else {}
            base = said["capabilities"]["attachments"]["base_url"]
            return base if isinstance(base, str) and base else self.attachments
        except (ConvertError, LookupError, TypeError):
            return self.attachments

    def releases(self) -> list[Release]:
        found = parse_json(get_bytes(self.url), self.url)
        records = found.get("data") if isinstance(found, dict) else None
        if not isinstance(records, list):
            raise DownloadError(f"{visible(self.url)}: no list of records (an object with data)")
        base = self.base()
        groups: dict[tuple[Pair, str, str | None], dict[str, RemoteFile]] = {}
        for record in records:
            one = self.read_record(record, base)
            if one:
                groups.setdefault(one[0], {})[one[1]] = one[2]
        for (pair, version, architecture), files in groups.items():
            if architecture:  # a file without an architecture serves all of them
                for kind, file in groups.get((pair, version, None), {}).items():
                    if kind != "model":
                        files.setdefault(kind, file)
        return [self.release(*key, files) for key, files in groups.items() if self.is_whole(files)]

    @staticmethod
    def is_whole(files: dict[str, RemoteFile]) -> bool:
        return "model" in files and ("vocab" in files or {"srcvocab", "trgvocab"} <= files.keys())

    def release(self, pair: Pair, version: str, architecture: str | None, files: dict[str, RemoteFile]) -> Release:
        rest = ("lex", "vocab") if "vocab" in files else ("lex", "srcvocab", "trgvocab")
        chosen = [files[kind] for kind in ("model", *rest) if kind in files]
        about = {"license": "MPL-2.0", "source": " ".join(filter(None, (
            "Firefox Translations", name_of(pair), version, architecture)))}
        if chosen[0].sha256:
            about["revision"] = chosen[0].sha256
        return Release(self.name, pair, version, architecture, tuple(chosen), about)

    def read_record(self, record: Any, base: str) -> tuple[tuple[Pair, str, str | None], str, RemoteFile] | None:
        """Returns None for a record that is not for this program: of another kind of file, another major version
        or another release of Firefox, or without a field."""
        attachment = record.get("attachment") if isinstance(record, dict) else None
        if not isinstance(attachment, dict) or not is_for_desktop(record.get("filter_expression")):
            return None
        pair = record.get("sourceLanguage"), record.get("targetLanguage")
        kind, version, architecture = (record.get(key) for key in ("fileType", "version", "architecture"))
        location, size, whole = attachment.get("location"), attachment.get("size"), record.get("decompressedSize")
        digests = attachment.get("hash"), record.get("decompressedHash")
        if (not all(isinstance(one, str) and LANGUAGE.fullmatch(one) for one in pair)
                or not isinstance(kind, str) or kind not in self.files or not isinstance(version, str) or not VERSION.fullmatch(version)
                or version.split(".")[0] != self.major
                or not (architecture is None or isinstance(architecture, str)
                        and re.fullmatch(r"\w[\w-]{0,40}", architecture))
                or not isinstance(location, str) or not location
                or not all(one is None or isinstance(one, int) and one >= 0 for one in (size, whole))
                or not all(one is None or isinstance(one, str) and SHA256.fullmatch(one) for one in digests)):
            return None
        url = base.rstrip("/") + "/" + urllib.parse.quote(location.lstrip("/"))
        name = f"{kind}.{pair[0]}{pair[1]}.{self.files[kind]}"
        file = RemoteFile(name, url, size, digests[0], True, whole, digests[1])
        return (pair, version, architecture or None), kind, file

    def licence(self, release: Release, folder: Path) -> str:
        return "licence MPL-2.0, https://mozilla.org/MPL/2.0/"

    def input(self, folder: Path, release: Release) -> Path:
        return folder


class Argos:
    """Packages of Argos Translate: an index, and a zip for each pair."""

    name = "argos"
    index = "https://raw.githubusercontent.com/argosopentech/argospm-index/main/"
    architectures = ()

    def __init__(self, records: str | None = None) -> None:
        base = records or os.environ.get("ARGOS_PACKAGE_INDEX") or self.index
        self.url = base if base.endswith(".json") else base.rstrip("/") + "/index.json"

    def releases(self) -> list[Release]:
        found = parse_json(get_bytes(self.url), self.url)
        if not isinstance(found, list):
            raise DownloadError(f"{visible(self.url)}: no list of packages")
        return [one for one in map(self.read_package, found) if one]

    def read_package(self, package: Any) -> Release | None:
        """Returns None for a package that does not translate, or that no http address has."""
        if not isinstance(package, dict) or (package.get("type") or "translate") != "translate":
            return None
        pair: Any = (package.get("from_code"), package.get("to_code"))
        version = package.get("package_version")
        links = package.get("links")
        link = next((one for one in links if isinstance(one, str) and re.match("https?://", one)),
                    None) if isinstance(links, list) else None
        if (not all(isinstance(one, str) and LANGUAGE.fullmatch(one) for one in pair) or not link
                or not isinstance(version, str) or not VERSION.fullmatch(version)):
            return None
        file = RemoteFile(f"translate-{pair[0]}_{pair[1]}.argosmodel", link, check=check_package)
        return Release(self.name, pair, version, None, (file,))

    def licence(self, release: Release, folder: Path) -> str:
        """Returns what the package's README says of its licence."""
        try:
            with zipfile.ZipFile(self.input(folder, release)) as archive:
                name = next(one for one in archive.namelist() if re.fullmatch(r"[^/]+/README\.md", one))
                with archive.open(name) as file:
                    lines = file.read(1 << 16).decode("utf-8", "replace").splitlines()
            return next(line.strip() for line in lines if re.search("licen[cs]e", line, re.IGNORECASE))[:200]
        except Exception:  # zipfile raises what it likes
            return "the package does not state a licence"

    def input(self, folder: Path, release: Release) -> Path:
        return folder / release.files[0].name


def check_package(path: Path) -> None:
    check_zip(path, "a package of Argos Translate, which is a zip file")
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except Exception as error:  # zipfile raises what it likes
        raise DownloadError(f"not a zip file that can be read: {brief(str(error))}") from None
    if bad:
        raise DownloadError(f"{brief(bad)} in the package does not fit its check sum")


SOURCES: dict[str, Any] = {"firefox": Firefox, "argos": Argos}


# ------------------------------------------------------------------------------------- which of them
def route(pairs: Iterable[Pair], source: str, target: str) -> list[Pair]:
    """Returns the pairs that lead from source to target: one, two through another language, or none."""
    known = set(pairs)
    if (source, target) in known:
        return [(source, target)]
    middles = {b for a, b in known if a == source} & {a for a, b in known if b == target} - {source, target}
    middle = HUB if HUB in middles else min(middles, default=None)
    return [(source, middle), (middle, target)] if middle else []


def choose(releases: Sequence[Release], pair: Pair, architecture: str | None) -> Release:
    """Returns the newest release of the pair, and of several the one with the best architecture."""
    found = [one for one in releases if one.pair == pair]
    fitting = [one for one in found if architecture in (None, one.architecture)]
    if not fitting:
        raise DownloadError(f"{name_of(pair)}: no {architecture}; there is "
                            + " and ".join(sorted({str(one.architecture) for one in found})))
    order: tuple[str, ...] = SOURCES[found[0].source].architectures
    return max(fitting, key=lambda one: (rank_of_version(one.version),
                                         -order.index(one.architecture) if one.architecture in order else -len(order)))


def split_pair(text: str, pairs: Iterable[Pair]) -> Pair:
    """Returns the two languages of "zh-Hans-en", whose codes may have hyphens and any case."""
    known = {code.lower(): code for pair in pairs for code in pair}
    parts = text.split("-")
    splits = [("-".join(parts[:at]), "-".join(parts[at:])) for at in range(1, len(parts))]
    if not splits:
        raise DownloadError(f"{brief(text)}: write two languages, as in de-en")
    for a, b in splits:
        if a.lower() in known and b.lower() in known:
            return known[a.lower()], known[b.lower()]
    a, b = min(splits, key=lambda split: sum(code.lower() not in known for code in split))
    unknown = next(code for code in (a, b) if code.lower() not in known)
    near = sorted(code for code in known.values() if code.lower().startswith(unknown.lower() + "-"))
    raise DownloadError(f"{brief(text)}: no model has the language {unknown}"
                        + (f"; there is {' and '.join(near)}" if near else "; transformer-model list shows all"))


def is_name(text: str) -> bool:
    return text.partition(":")[0] in SOURCES and ":" in text and not Path(text).exists()


# -------------------------------------------------------------------------------------- the cache
def read_note(folder: Path) -> dict[str, Any] | None:
    """Returns what a folder of the cache has. Another program may have changed it."""
    try:
        note = read_object(folder / NOTE)
        ok = (note["source"] in SOURCES and VERSION.fullmatch(note["version"])
              and all(LANGUAGE.fullmatch(note[key]) for key in ("from", "to"))
              and all(re.fullmatch(r"\w[\w.-]*", name) and SHA256.fullmatch(one["sha256"])
                      and isinstance(one["size"], int) for name, one in note["files"].items()))
        return note if ok and all(isinstance(one, str) for one in note["about"].values()) else None
    except (ConvertError, LookupError, TypeError, AttributeError):
        return None


def cached_releases(source: str) -> list[Release]:
    found = []
    for note in map(read_note, sorted(cache_folder().glob(f"{source}/*/*"))):
        if note and note["source"] == source:
            files = tuple(RemoteFile(name, "", one["size"], one["sha256"]) for name, one in note["files"].items())
            found.append(Release(source, (note["from"], note["to"]), note["version"], note.get("architecture"),
                                 files, note["about"]))
    return found


def origin(one: RemoteFile) -> str:
    """Returns what another file behind the same name differs in."""
    return one.sha256 or one.unpacked_sha256 or one.url


def is_cached(release: Release, online: bool) -> bool:
    """Whether the folder has the release's files with the bytes that were verified."""
    note = read_note(release.folder)
    if not note or set(note["files"]) != {one.name for one in release.files} or (
            online and any(note["files"][one.name].get("origin") != origin(one) for one in release.files)):
        return False
    for name, said in note["files"].items():
        path = release.folder / name
        if not path.is_file() or path.stat().st_size != said["size"] or sha256(path) != said["sha256"]:
            return False
    return True


def get_release(release: Release, offline: bool, progress: Progress) -> dict[str, str]:
    """Puts the files of the release into its folder, unless they are there. The lock must be held. Returns
    what the model file says beside the checkpoint: licence, source, revision and languages."""
    folder = release.folder
    if not is_cached(release, not offline):
        if offline:
            raise DownloadError(f"{release}: not whole in the cache ({folder}), and --offline downloads nothing")
        size = f", {megabytes(release.size)}" if release.size else ""
        progress.say(f"{release}{size}, from {urllib.parse.urlsplit(release.files[0].url).netloc}")
        folder.mkdir(parents=True, exist_ok=True)
        for one in release.files:
            get_file(one, folder, progress)
        about = dict(release.about)
        licence = SOURCES[release.source]().licence(release, folder)
        about.setdefault("license", licence)
        progress.say(f"{release}: {licence}")
        files = {one.name: {"size": (folder / one.name).stat().st_size, "sha256": sha256(folder / one.name),
                            "origin": origin(one)} for one in release.files}
        note = {"source": release.source, "from": release.pair[0], "to": release.pair[1], "version": release.version,
                "architecture": release.architecture, "about": about, "files": files}
        write_whole(folder / NOTE, json.dumps(note, indent=1).encode())
    found = read_note(folder)
    pair = dict(zip(("source_language", "target_language"), release.pair))
    return {**(found["about"] if found else release.about), **pair}


# ------------------------------------------------------------------------------------ the whole way
def is_offline(stated: bool | None) -> bool:
    return os.environ.get("TRANSFORMER_MODEL_OFFLINE", "0") not in ("", "0") if stated is None else stated


def find(source: str, languages: str, architecture: str | None, offline: bool, records: str | None) -> list[Release]:
    """Returns the releases that lead from one language to the other: one, or two through English."""
    if source not in SOURCES:
        raise DownloadError(f"{brief(source)}: no source; there is {' and '.join(SOURCES)}")
    there = cached_releases(source) if offline else SOURCES[source](records).releases()
    if not there and offline:
        raise DownloadError(f"{languages}: no model of {source} is in the cache ({cache_folder()}), and --offline "
                            f"downloads nothing")
    pairs = {one.pair for one in there}
    try:
        pair = split_pair(languages, pairs)
        way = route(pairs, *pair)
        if not way:
            raise DownloadError(f"{name_of(pair)}: no model, and no two models that lead there")
    except DownloadError as error:
        raise DownloadError(f"{error} (--offline: only what is in the cache, {cache_folder()})") if offline else error
    return [choose(there, one, architecture) for one in way]


def fetch(name: str, architecture: str | None, offline: bool | None) -> tuple[Path, dict[str, str]]:
    """Returns the converter's input for a name such as firefox:de-en, and its licence, source and revision."""
    source, _, languages = name.partition(":")
    offline, progress = is_offline(offline), Progress()
    found = find(source, languages, architecture, offline, None)
    if len(found) > 1:
        raise DownloadError(f"{name}: no direct model. Two models lead there: convert "
                            + " and ".join(f"{source}:{name_of(one.pair)}" for one in found)
                            + ", and give both files to translate")
    (release,) = found
    with disk_errors(), locked(pair_folder(source, release.pair).with_suffix(".lock"), progress, str(release)):
        about = get_release(release, offline, progress)
        return SOURCES[source]().input(release.folder, release), about
