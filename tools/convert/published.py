"""Gets a published translation model by its languages, or a model that hears, as a model file for transformer.h.

    transformer-model get de-en              writes de-en.safetensors into the folder of your models
    translate de-en 'Guten Tag.'             finds it there
    transformer-model list --table           which model there is for which pair: size, licence, quality
    transformer-model get de-fr              no such model: writes de-en.safetensors and en-fr.safetensors
    translate de-fr 'Guten Tag.'             uses both
    transformer-model get whisper-base       for transcribe whisper-base speech.wav

The folder is $XDG_DATA_HOME/transformer-h/models (default: ~/.local/share), on Windows %LOCALAPPDATA%, on macOS
~/Library/Application Support. -o . writes into the folder at hand.

NAME is one of

    de-en, zh-Hans-en      two languages, from --source
    firefox:de-en          Firefox's translation models, for about a hundred pairs to and from English. Licence
                           MPL-2.0. --architecture chooses among several; the default is the best of the newest.
    argos:de-en            packages of Argos Translate and LibreTranslate. Their README states the licence.
    whisper-base           Whisper models, with a voice detector; "list whisper" prints names, licences and sizes
    moonshine-tiny         Moonshine models, likewise; "list moonshine"
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
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Sequence

from . import hub
from . import main as converter
from . import whispers
from .download import DownloadError, cache_folder, disk_errors, locked, models_folder
from .releases import (SOURCES, Release, cached_releases, choose, find, get_release, is_cached, is_offline,
                       name_of, pair_folder, read_note)
from .printing import Parser, run
from .progress import Progress, megabytes
from .untrusted import ConvertError, visible


# ------------------------------------------------------------------------------------ the whole way
def converter_version() -> str:
    """Returns a word that changes when the converter does, because a converted file is then made anew."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def convert(checkpoint: Path, out: Path, about: dict[str, str], progress: Progress, *more: str) -> None:
    settings = [f"--set={key}={value}" for key, value in about.items()]
    options = converter.parse_arguments(["--quiet", *more, *settings, "--", str(checkpoint), str(out)])
    options.progress = progress
    converter.convert(options)


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
        convert(checkpoint, out, about, progress)
    return out


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
    if whispers.is_name(name):
        return whispers.SOURCE, name
    return (source, languages) if colon else (options.source, name)


def run_get(options: argparse.Namespace) -> None:
    progress, offline = Progress(options.quiet), is_offline(options.offline)
    out = options.output or models_folder()
    if not options.output:
        out.mkdir(parents=True, exist_ok=True)
    if whispers.is_name(options.name):
        folder, detector = whispers.get_folder(options.name, offline, progress)
        outs = [out / f"{options.name}.safetensors" if out.is_dir() else out]
        progress.say(f"{options.name}: converting")
        convert(folder, outs[0], whispers.about(options.name), progress, f"--vad={detector}", "--no-check")
        print(outs[0])
        return progress.say(f"to transcribe: transcribe {outs[0] if options.output else options.name} speech.wav")
    if hub.is_name(options.name):
        outs = [out / (options.name.partition("/")[2] + ".safetensors") if out.is_dir() else out]
        convert(hub.fetch(options.name, None), outs[0], {}, progress)
    else:
        source, languages = source_of(options.name, options)
        found = find(source, languages, options.architecture, offline, options.records_url)
        names = [Path(f"{name_of(one.pair)}.safetensors") for one in found]
        if not out.is_dir() and len(found) > 1:
            raise DownloadError(f"{languages}: the way leads through {found[0].pair[1]} and needs two files "
                                f"({names[0]} and {names[1]}): give a folder with -o")
        outs = [out / one for one in names] if out.is_dir() else [out]
        for release, one in zip(found, outs):
            get_model(release, one, offline, progress)
    for one in outs:
        print(one)
    name = outs[0].stem if len(outs) == 1 else f"{found[0].pair[0]}-{found[-1].pair[1]}"
    progress.say(f"to translate: translate {' '.join(map(str, outs)) if options.output else name} < lines.txt")


# Models whose quality is known: source, pair, size, licence, quality, and where the quality comes from. Only what was
# measured here, or what a model's card says, stands here; test_download.py compares the list with the cards.
MEASURED = (
    ("examples/models", ("de", "en"), 7343833, "CC BY 2.0 FR", "BLEU 41.0, chrF 57.4 (Tatoeba test v2021-08-07, beam 4)",
     "measured here: examples/models/de-en.md"),
    ("examples/models", ("zh", "en"), 5208039, "CC BY 2.0 FR", "BLEU 28.3, chrF 45.7 (Tatoeba test v2021-08-07, beam 4)",
     "measured here: examples/models/zh-en.md"),
)


def print_table(there: Sequence[Release], pairs: Sequence[tuple[str, str]]) -> None:
    """Prints Markdown. A cell is blank if nothing is known."""
    print("| pair | model | size | licence | quality | its source |\n|---|---|---|---|---|---|")
    found = [(name_of(pair), source, megabytes(size), licence, quality, where)
             for source, pair, size, licence, quality, where in MEASURED if pair in pairs]
    for pair in pairs:
        best = choose(there, pair, None) if any(one.pair == pair for one in there) else None
        if best:
            note = read_note(best.folder)
            about = note["about"] if note else best.about
            found.append((name_of(pair), str(best), megabytes(best.size) if best.size else "", about.get("license", ""), "", ""))
    for row in sorted(found, key=lambda row: row[0]):
        print("| " + " | ".join(visible(cell).replace("|", "\\|") for cell in row) + " |")


def run_list(options: argparse.Namespace) -> None:
    if options.language in whispers.SOURCES:
        return whispers.print_list(cache_folder() / whispers.SOURCE, options.language)
    offline = is_offline(options.offline)
    kept = cached_releases(options.source)
    there = kept if offline else SOURCES[options.source](options.records_url).releases()
    word = (options.language or "").lower()
    known = {one.pair for one in there} | {one[1] for one in MEASURED if options.table}
    pairs = sorted(pair for pair in known if not word or any(
        code.lower() == word or code.lower().startswith(word + "-") for code in pair))
    if not pairs:
        raise DownloadError(f"no model{' in the cache' if offline else ''}"
                            + (f" has the language {word}" if word else ""))
    if options.table:
        print_table(there, pairs)
        return
    for pair in pairs:
        best = choose(there, pair, None)
        here = "cached" if any(one.pair == pair for one in kept) else ""
        size = megabytes(best.size) if best.size else ""
        print(f"{name_of(pair):<12} {best.version:<6} {best.architecture or '':<12} {size:>9}  {here}".rstrip())
    print(f"{len(pairs)} pair{'s' * (len(pairs) > 1)}. Other pairs lead through English, as two files: "
          f"transformer-model get de-fr", file=sys.stderr)


def run_info(options: argparse.Namespace) -> None:
    if whispers.is_name(options.name):
        return whispers.print_info(options.name)
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
    there = {(one.parent.name, one.name): one for source in (*SOURCES, whispers.SOURCE)
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
    get.add_argument("name", metavar="NAME", help="de-en, firefox:de-en, argos:de-en, whisper-base, or OWNER/NAME on the hub")
    get.add_argument("-o", "--output", metavar="FILE", type=Path, help="the model file, or a folder (default: the folder of your models, where translate finds de-en)")
    listing = command("list", run_list, "list the language pairs that have a model")
    listing.add_argument("language", metavar="LANGUAGE", nargs="?", help="only pairs with this language; whisper, moonshine: those models")
    listing.add_argument("--table", action="store_true", help="print Markdown: pair, model, size, licence, and quality where it was measured or cited")
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
    return 0


if __name__ == "__main__":
    sys.exit(run("transformer-model", main))
