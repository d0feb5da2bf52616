"""checkpoints_argos.py: packages of Argos Translate and LibreTranslate, the .argosmodel (a zip) or
the folder that it unpacks to.

    NAME/metadata.json          languages, version; target_prefix, a token that begins each target
    NAME/model/                 a directory of CTranslate2
    NAME/sentencepiece.model    cuts the texts of both sides; or bpe.model, which is refused
    NAME/README.md, stanza/     what else there may be

Of a zip, only these files are unpacked, under names of our own, into a folder that goes away.
"""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path

from . import checkpoints_ctranslate2
from .modelfile import SENTENCES, Checkpoint, Config, ConvertError, Model, Tensors
from .untrusted import brief, check_kinds, check_zip, has_file, is_code, open_file, read_object, visible

KINDS = {**dict.fromkeys(("type", "from_code", "from_name", "to_code", "to_name",
                          "package_version", "target_prefix"), "text")}
SEARCH = {"beam": 4, "length_penalty": 0.2}  # of argostranslate's translate.py, 1.11
WANTED = re.compile(
    r"metadata\.json|sentencepiece\.model|bpe\.model|README\.md|LICENSE(\.txt|\.md)?|"
    r"model/(model\.bin|config\.json|(source|target|shared)_vocabulary\.(json|txt))")


def is_argos(path: Path) -> bool:
    return path.suffix == ".argosmodel" or (
        path.is_dir() and has_file(path, "metadata.json")
        and ((path / "model").is_dir() or has_file(path, "bpe.model")))


def unpack(path: Path, home: Path) -> Path:
    """The package's files in home; its folder there."""
    check_zip(path, "a package of Argos Translate, which is a zip file")
    roots: set[str] = set()
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                root, _, name = entry.filename.partition("/")
                if not WANTED.fullmatch(name):
                    continue
                if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                    raise ConvertError(f"{path}: {brief(entry.filename)} is no plain file")
                target = home / "package" / name
                if target.exists():
                    raise ConvertError(f"{path}: {name} is there twice")
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as part, open(target, "wb") as out:
                    shutil.copyfileobj(part, out)
                roots.add(root)
    except ConvertError:
        raise
    except Exception as error:  # zipfile and its unpackers raise what they like
        raise ConvertError(f"{path}: not a zip file that can be read: "
                           f"{brief(str(error))}") from None
    if len(roots) > 1:
        raise ConvertError(f"{path}: {len(roots)} packages in one file")
    return home / "package"


def read_checkpoint(path: Path) -> Checkpoint:
    if path.is_dir():
        return read_package(path, path)
    home = tempfile.TemporaryDirectory()
    try:
        checkpoint = read_package(unpack(path, Path(home.name)), path)
    except BaseException:
        home.cleanup()
        raise
    checkpoint.close = home.cleanup
    return checkpoint


def read_package(folder: Path, path: Path) -> Checkpoint:
    what = f"{path}: metadata.json"
    if not has_file(folder, "metadata.json"):
        raise ConvertError(f"{what} is missing: not a package of Argos Translate")
    metadata = check_kinds(read_object(folder / "metadata.json"), KINDS, what)
    if (metadata.get("type") or "translate") != "translate":
        raise ConvertError(f"{what}: type {visible(metadata['type'])}; transformer.h runs those "
                           f"that translate")
    if not has_file(folder, "sentencepiece.model"):
        kind = "bpe.model" if has_file(folder, "bpe.model") else "no sentencepiece.model"
        raise ConvertError(f"{path}: {kind}: this package cuts its texts by Moses's tokenizer and BPE, or "
                           f"not at all; the converter supports packages with SentencePiece")
    model = folder / "model"
    if not checkpoints_ctranslate2.is_ctranslate2(model):
        raise ConvertError(f"{path}: no model/model.bin")
    checkpoint = checkpoints_ctranslate2.read_checkpoint(model, pieces=folder)
    place = checkpoint.place

    def place_all(chosen: Tensors, stated: Config, out: Model) -> Tensors:
        rest = place(chosen, stated, out)
        codes = [metadata.get(key) or "?" for key in ("from_code", "to_code")]
        names = [metadata.get(key) or code for key, code in zip(("from_name", "to_name"), codes)]
        out.notes.append(f"a package of Argos Translate: {names[0]} to {names[1]}")
        version = metadata.get("package_version") or ""
        about = f"Argos Translate {codes[0]}_{codes[1]} {version}".strip()
        if re.fullmatch(r"[\w .-]+", about):
            out.about.setdefault("source", about[:200])
        if out.facts.get("decoding"):
            out.facts["decoding"].update(SEARCH)
            out.notes.append("decoding: beam 4 and length penalty 0.2, as Argos Translate searches")
        out.facts["sentences"] = SENTENCES["argos"]
        out.facts.update({key: code for key, code in zip(("source_language", "target_language"), codes) if is_code(code)})
        prefix = metadata.get("target_prefix")
        if prefix:
            text = out.texts.get("tgt_vocabulary", out.texts["src_vocabulary"])
            lines = text.decode().split("\n")
            if prefix not in lines[:-1]:
                raise ConvertError(f"{what}: target_prefix {brief(prefix)} is no token of the "
                                   f"target's vocabulary")
            out.facts["forced"] = lines.index(prefix)
            # the target's own token, which no text names
            for key in ("languages", "src_language", "tgt_language"):
                out.facts.pop(key, None)
        return rest

    checkpoint.place, checkpoint.folder, checkpoint.files = place_all, folder, model
    return checkpoint
