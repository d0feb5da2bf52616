"""Gets a published translation model by its languages, as a model file for transformer.h.

    transformer-model get de-en              writes de-en.safetensors
    transformer-model get de-fr              no such model: writes de-en.safetensors and en-fr.safetensors
    translate $(transformer-model get de-fr) < lines.txt

NAME is one of

    de-en, zh-Hans-en      two languages, from --source
    firefox:de-en          Firefox's translation models, for about a hundred pairs to and from English. Licence
                           MPL-2.0. --architecture chooses among several; the default is the best of the newest.
    argos:de-en            packages of Argos Translate and LibreTranslate. Their README states the licence.
    OWNER/NAME             a model of Hugging Face's hub, as in convert.py

Files are kept in $XDG_CACHE_HOME/transformer.h/models (default: ~/.cache); remove frees that space. A broken
download continues where it stopped. Each file is compared with the size and the SHA-256 in the list of models,
before it is unpacked and after it, and again each time the cache is used. (Argos lists no SHA-256: there the check
sums inside the package are compared.) Firefox itself also verifies a signature of the list. This program does not:
it trusts the list because it comes by https from Mozilla's server.

The servers are Firefox's own. If your service needs models often, let it use a copy:
FXTRANSLATE_RECORDS_URL or --records-url names another list of Firefox's records, and the files come from where
that server says. ARGOS_PACKAGE_INDEX names another index of Argos. http_proxy, https_proxy and no_proxy apply.
--offline, or TRANSFORMER_MODEL_OFFLINE=1, uses what is in the cache and opens no connection.

get prints the names of the model files, everything else is on standard error. The exit status is 0, or 1 after a
message, or 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import urllib.parse
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Sequence, Tuple

from . import hub
from .download import (DownloadError, Progress, RemoteFile, cache_folder, disk_errors, get_bytes, get_file, locked,
                       megabytes, sha256, write_whole)
from .printing import Parser, finish
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
    licence, source and revision."""
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
    return found["about"] if found else release.about


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


def converter_version() -> str:
    """Returns a word that changes when the converter does, because a converted file is then made anew."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def convert(checkpoint: Path, out: Path, about: dict[str, str]) -> None:
    from . import main  # which imports this module
    settings = [f"--set={key}={value}" for key, value in about.items()]
    main.convert(main.parse_arguments(["--quiet", *settings, "--", str(checkpoint), str(out)]))


def get_model(release: Release, out: Path | None, offline: bool, progress: Progress) -> Path:
    """Returns the model file of the release: out, or one in the cache."""
    with locked(pair_folder(release.source, release.pair).with_suffix(".lock"), progress, str(release)):
        about = get_release(release, offline, progress)
        checkpoint = SOURCES[release.source]().input(release.folder, release)
        if out is None:
            out = release.folder / f"converted-{converter_version()}" / f"{name_of(release.pair)}.safetensors"
            if out.is_file():
                return out
            for old in release.folder.glob("converted-*"):
                shutil.rmtree(old, ignore_errors=True)
            out.parent.mkdir()
        progress.say(f"{release}: converting")
        convert(checkpoint, out, about)
    return out


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


def download(source_language: str, target_language: str, *, source: str = "firefox", architecture: str | None = None,
             update: bool = False, offline: bool | None = None, records_url: str | None = None,
             quiet: bool = False) -> Path | tuple[Path, Path]:
    """Returns the model file of a language pair, or two files if the way leads through English. They stay in
    the cache. A pair that is there needs no network unless update is true. The keyword arguments are those of
    the command transformer-model; without quiet, progress and licence are printed on standard error. Raises
    ConvertError."""
    pair, off, progress = (source_language, target_language), is_offline(offline), Progress(quiet)
    with disk_errors():
        found: list[Release] = []
        if not update and not off:
            kept = [one for one in cached_releases(source)
                    if one.pair == pair and architecture in (None, one.architecture)]
            if kept and is_cached(choose(kept, pair, architecture), False):
                found, off = [choose(kept, pair, architecture)], True
        found = found or find(source, name_of(pair), architecture, off, records_url)
        paths = [get_model(one, None, off, progress) for one in found]
    return paths[0] if len(paths) == 1 else (paths[0], paths[1])


# ------------------------------------------------------------------------------------ the command
def source_of(name: str, options: argparse.Namespace) -> tuple[str, str]:
    """Returns the source and the languages of a name that may begin with the source."""
    source, colon, languages = name.partition(":")
    return (source, languages) if colon else (options.source, name)


def run_get(options: argparse.Namespace) -> None:
    progress, offline = Progress(options.quiet), is_offline(options.offline)
    out = options.output
    if hub.is_name(options.name):
        outs = [out or Path(options.name.partition("/")[2] + ".safetensors")]
        convert(hub.fetch(options.name, None), outs[0], {})
    else:
        source, languages = source_of(options.name, options)
        found = find(source, languages, options.architecture, offline, options.records_url)
        names = [Path(f"{name_of(one.pair)}.safetensors") for one in found]
        if out and not out.is_dir() and len(found) > 1:
            raise DownloadError(f"{languages}: the way leads through {found[0].pair[1]} and needs two files "
                                f"({names[0]} and {names[1]}): give a folder with -o")
        outs = names if not out else [out / one for one in names] if out.is_dir() else [out]
        for release, one in zip(found, outs):
            get_model(release, one, offline, progress)
    for one in outs:
        print(one)
    progress.say("to translate: translate " + " ".join(map(str, outs)) + " < lines.txt")


def run_list(options: argparse.Namespace) -> None:
    offline = is_offline(options.offline)
    kept = cached_releases(options.source)
    there = kept if offline else SOURCES[options.source](options.records_url).releases()
    word = (options.language or "").lower()
    pairs = sorted(pair for pair in {one.pair for one in there} if not word or any(
        code.lower() == word or code.lower().startswith(word + "-") for code in pair))
    if not pairs:
        raise DownloadError(f"no model{' in the cache' if offline else ''}"
                            + (f" has the language {word}" if word else ""))
    for pair in pairs:
        best = choose(there, pair, None)
        here = "cached" if any(one.pair == pair for one in kept) else ""
        size = megabytes(best.size) if best.size else ""
        print(f"{name_of(pair):<12} {best.version:<6} {best.architecture or '':<12} {size:>9}  {here}".rstrip())
    print(f"{len(pairs)} pair{'s' * (len(pairs) > 1)}. Other pairs lead through English, as two files: "
          f"transformer-model get de-fr", file=sys.stderr)


def run_info(options: argparse.Namespace) -> None:
    source, languages = source_of(options.name, options)
    found = find(source, languages, options.architecture, is_offline(options.offline), options.records_url)
    for release in found:
        print(f"{release}: {release.about.get('license') or 'the licence is in the package'}")
        for one in release.files:
            whole = f", {megabytes(one.unpacked_size)} unpacked" if one.unpacked_size else ""
            print(f"  {one.name:<24} {megabytes(one.size) if one.size else 'size unknown'}{whole}, "
                  f"SHA-256 {one.sha256 or one.unpacked_sha256 or 'unknown'}")
            if one.url:
                print(f"    {visible(one.url)}")
        note = read_note(release.folder)
        print(f"  in the cache: {release.folder}" if note else "  not in the cache")


def remove_folder(folder: Path) -> int:
    """Removes it at once for other processes, whose names it loses first. Returns the bytes that this frees."""
    size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
    gone = folder.with_name(f".removed-{folder.name}")
    shutil.rmtree(gone, ignore_errors=True)
    os.replace(folder, gone)
    shutil.rmtree(gone)
    return size


def run_remove(options: argparse.Namespace) -> None:
    there = {(one.parent.name, one.name): one for source in SOURCES
             for one in sorted(cache_folder().glob(f"{source}/*")) if one.is_dir() and not one.name.startswith(".")}
    if options.all == bool(options.name):
        raise DownloadError("remove takes names of pairs, or --all")
    wanted = list(there) if options.all else [source_of(name, options) for name in options.name]
    for source, languages in wanted:
        key = next((key for key in there if (key[0], key[1].lower()) == (source, languages.lower())), None)
        if key is None:
            listed = ", ".join(":".join(one) for one in there)
            raise DownloadError(f"{source}:{languages} is not in the cache; there is {listed or 'nothing'}")
        with locked(there[key].with_suffix(".lock"), Progress(options.quiet), ":".join(key)):
            if there[key].is_dir():  # another process may have removed it
                print(f"{key[0]}:{key[1]} removed, {megabytes(remove_folder(there[key]))}")
    if not wanted:
        print("nothing is in the cache")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="transformer-model", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, network: bool = True) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".",
                                  epilog="transformer-model --help has the manual.")
        one.set_defaults(run=run)
        one.add_argument("--source", choices=tuple(SOURCES), default="firefox", help="where names without a source are looked up (firefox)")
        one.add_argument("-q", "--quiet", action="store_true", help="print no progress")
        if network:
            one.add_argument("--offline", action="store_true", default=None, help="use the cache alone, open no connection")
            one.add_argument("--records-url", metavar="URL", help="address of another list of models")
        return one

    get = command("get", run_get, "download a model and write it as a model file")
    get.add_argument("name", metavar="NAME", help="de-en, firefox:de-en, argos:de-en, or OWNER/NAME on the hub")
    get.add_argument("-o", "--output", metavar="FILE", type=Path, help="the model file, or a folder (default: de-en.safetensors)")
    listing = command("list", run_list, "list the language pairs that have a model")
    listing.add_argument("language", metavar="LANGUAGE", nargs="?", help="only pairs with this language")
    info = command("info", run_info, "print version, files, sizes and licence of a model")
    info.add_argument("name", metavar="NAME")
    for one in (get, info):
        one.add_argument("--architecture", metavar="A", help="tiny, base-memory or base (default: the best of the newest version)")
    remove = command("remove", run_remove, "remove models from the cache", network=False)
    remove.add_argument("name", metavar="NAME", nargs="*")
    remove.add_argument("--all", action="store_true", help="all that is in the cache")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        with disk_errors():
            options.run(options)
    except ConvertError as error:
        print("transformer-model: " + "\n".join(map(visible, str(error).split("\n"))), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("transformer-model: interrupted; the next run continues the download", file=sys.stderr)
        return 130
    return finish("transformer-model", 0)


if __name__ == "__main__":
    sys.exit(main())
