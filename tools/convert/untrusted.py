"""untrusted.py: files that anybody may have written, read with bounds.

Whatever the bytes are, a reader here ends with a value of the form that it promises or with a
ConvertError of one line that names file and field. It runs no code, takes no more memory than a
small multiple of the file, and opens nothing but regular files of the directory at hand.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import reprlib
import shlex
import stat
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Iterable

import numpy as np

from .printing import visible as visible

# NumPy has no bfloat16: its bits, in a type that no arithmetic takes for integers.
BF16 = np.dtype([("bf16", "<u2")])
# The element types of safetensors that are read.
TYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BF16,
         "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "U32": np.dtype("<u4"), "I16": np.dtype("<i2"),
         "I8": np.dtype("i1"), "U8": np.dtype("u1"), "BOOL": np.dtype("?")}
LARGEST_HEADER = 100_000_000  # of safetensors, as its specification has it
# A packed file may grow by this factor; floats hardly shrink, so that more is a zip bomb.
LARGEST_EXPANSION = 20
MEGABYTE = 1 << 20
CUT = "; the file is cut short, or damaged: get it again"


class ConvertError(Exception):
    """The checkpoint or the command line is at fault; the text says how and what to do."""


# ------------------------------------------------------------------------------------- messages
def install(package: str, extra: str = "download") -> str:
    """What a message says of a package that is missing: the command that installs all that the converter needs."""
    if "." in (__package__ or ""):  # in the package transformer_h
        return f"the package {package} is missing: pip install 'transformer-h[{extra}]'"
    wanted = Path(__file__).resolve().parents[1] / "requirements-convert.txt"
    return f"the package {package} is missing: {shlex.join([sys.executable, '-m', 'pip', 'install', '-r', str(wanted)])}"


def is_code(text: Any) -> bool:
    """Whether this may be the code of a language."""
    return isinstance(text, str) and re.fullmatch("[0-9A-Za-z_-]{1,31}", text) is not None


def brief(value: Any) -> str:
    """A value for a message: short however large or deep it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return short.repr(value)


def check_utf8(text: Any, what: str) -> None:
    if not isinstance(text, str):
        raise ConvertError(f"{what}: {brief(text)} is no text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConvertError(f"{what}: {brief(text)} has half a surrogate pair, which UTF-8 has "
                           f"not") from None


# ---------------------------------------------------------------------------------------- files
def file_in(folder: Path, name: str) -> Path:
    """A file of the directory by a name that its own files may have chosen: no path, and no link
    that leads out of the directory. In a hub's cache, the blobs beside it are the directory's."""
    path = folder / name
    if not name or Path(name).name != name or "\0" in name or name in (".", ".."):
        raise ConvertError(f"{folder}: {brief(name)} is no file of this directory")
    if path.is_symlink():
        home, target = folder.resolve(), path.resolve()
        blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
        if home not in target.parents and blobs not in target.parents:
            raise ConvertError(f"{path} is a symbolic link to a file outside the directory; put "
                               f"the file itself there")
    return path


def has_file(folder: Path, name: str) -> bool:
    return (folder / name).is_file() and bool(file_in(folder, name))


def absent_files(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns which of many files a directory does not have. It is read once, because a path and two calls of the system
    for each of hundreds of thousands of names would take seconds."""
    there = set(os.listdir(folder))
    absent = [name for name in names if name not in there]
    for name in absent:
        if name in ("", ".", "..") or "/" in name or "\0" in name or os.sep in name:
            file_in(folder, name)  # says what is wrong
    if absent and has_file(folder, absent[0]):  # where names in capitals are the same names
        return [name for name in absent if not has_file(folder, name)]
    return absent


def open_file(path: Path) -> BinaryIO:
    """A regular file, open for reading; neither a pipe nor a device, which may not end."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
                                 | getattr(os, "O_BINARY", 0)), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise ConvertError(f"{path}: not a regular file")
        check_begin(file.peek(64)[:64], path)
        return file
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise ConvertError(f"{brief(str(path))}: no name of a file") from None


def check_begin(head: bytes, path: Path) -> None:
    """What often stands in the place of a file that was not fetched."""
    if head.startswith(b"version https://git-lfs"):
        raise ConvertError(f"{path}: a pointer of Git LFS in the place of the file: git lfs install, and then "
                           f"git lfs pull in its folder")
    if re.match(rb"\s*<(!DOCTYPE|html)", head, re.IGNORECASE) and path.suffix not in (".md", ".txt", ""):
        raise ConvertError(f"{path}: a web page in the place of the file: download it again")


def read_bytes(path: Path, most: int = -1) -> bytes:
    with open_file(path) as file:
        try:
            return file.read(most)
        except OSError as error:
            raise ConvertError(f"{path}: {error.strerror or error}") from None
        except MemoryError:
            raise ConvertError(f"{path}: {os.fstat(file.fileno()).st_size} bytes, which memory "
                               f"does not hold") from None


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConvertError(f"{path}: not UTF-8: {error}") from None


# ----------------------------------------------------------------------------------------- JSON
def parse_json(data: bytes, what: str) -> Any:
    """JSON without a key twice in an object and without half a surrogate pair; NaN, which Python
    writes, is a number."""
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = sorted(key for key, _ in pairs)
            twice = next(a for a, b in zip(keys, keys[1:]) if a == b)
            raise ConvertError(f"{what}: duplicate key {brief(twice)}")
        return found

    try:
        value = json.loads(data.decode(), object_pairs_hook=once)
    except ConvertError:
        raise
    except RecursionError:
        raise ConvertError(f"{what}: not JSON: nested too deeply") from None
    except MemoryError:
        raise ConvertError(f"{what}: {len(data)} bytes of JSON, which memory does not hold") from None
    except ValueError as error:  # bad UTF-8 as well, and integers of thousands of digits
        ends = isinstance(error, json.JSONDecodeError) and (
            error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"))
        raise ConvertError(f"{what}: not JSON: {error}{CUT * ends}") from None
    if re.search(rb"\\u[dD][89a-fA-F]", data):
        check_utf8(json.dumps(value, ensure_ascii=False), what)
    return value


def read_json(path: Path) -> Any:
    return parse_json(read_bytes(path), str(path))


def read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise ConvertError(f"{path}: not an object")
    return value


KINDS = {"integer": lambda v: isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2 ** 31,
         "number": lambda v: (isinstance(v, (int, float)) and not isinstance(v, bool)
                              and abs(v) <= 1e30 and math.isfinite(v)),
         "truth value": lambda v: isinstance(v, bool) or v in (0, 1),
         "text": lambda v: isinstance(v, str), "object": lambda v: isinstance(v, dict),
         "list": lambda v: isinstance(v, list),
         "list of texts": lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v),
         "list of integers": lambda v: isinstance(v, list) and all(map(KINDS["integer"], v)),
         "list of lists of integers": lambda v: (isinstance(v, list)
                                                 and all(map(KINDS["list of integers"], v)))}


def check_kinds(found: dict[str, Any], kinds: dict[str, str], what: str) -> dict[str, Any]:
    """Keys that are there, and not null, hold one of the kinds named: "integer|text"."""
    for key, names in kinds.items():
        value = found.get(key)
        if value is not None and not any(KINDS[kind](value) for kind in names.split("|")):
            raise ConvertError(f"{what}: {key} is {brief(value)}; it takes an "
                               f"{names.replace('|', ' or ')}".replace(" an n", " a n")
                               .replace(" an t", " a t").replace(" an l", " a l"))
    return found


def token_ids(found: dict[Any, Any], what: str, sparse: bool = False) -> dict[int, str]:
    """{token: id} turned round: integers from 0, each of one token. Ids may leave gaps; so large
    that a table of them would be mostly gaps, they may not, unless they are sparse."""
    ids: dict[int, str] = {}
    for token, at in found.items():
        check_utf8(token, what)
        if not KINDS["integer"](at) or at < 0:
            raise ConvertError(f"{what}: {brief(token)} has the id {brief(at)}; it takes an "
                               f"integer from 0 to {2 ** 31 - 1}")
        if at in ids:
            raise ConvertError(f"{what}: duplicate id {at}, of {brief(ids[at])} and {brief(token)}")
        ids[at] = token
    if not sparse:
        check_gaps(ids, what)
    return ids


def check_gaps(ids: Iterable[int], what: str) -> None:
    ids = list(ids)
    if ids and max(ids) >= 10 * len(ids) + 1000:
        raise ConvertError(f"{what}: {len(ids)} tokens and an id of {max(ids)}")


# ----------------------------------------------------------------------------------- safetensors
LARGE = 1 << 22  # bytes of a tensor that stays in its file


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors by name, and the metadata. The data has neither holes nor overlaps."""
    with open_file(path) as file:
        try:
            return read_tensors(file, path)
        except (OSError, MemoryError) as error:
            raise ConvertError(f"{path}: {getattr(error, 'strerror', None) or 'memory does not hold it'}"
                               ) from None


def read_tensors(file: BinaryIO, path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    def wrong(what: str) -> ConvertError:
        return ConvertError(f"{path}: not a safetensors file: {what}")

    size = os.fstat(file.fileno()).st_size
    raw = file.read(8)
    (length,) = struct.unpack("<Q", raw) if len(raw) == 8 else (size,)
    if length > min(size - 8, LARGEST_HEADER):
        raise wrong(f"a header of {length} bytes in a file of {size}"
                    + (CUT if size <= 8 or length <= LARGEST_HEADER else ""))
    header = parse_json(file.read(length), f"{path}: not a safetensors file: its header")
    if not isinstance(header, dict):
        raise wrong("its header is no object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(one, str) for one in metadata.values()):
        raise wrong("__metadata__ is no object of texts")
    entries = []
    for name, entry in header.items():
        entry = entry if isinstance(entry, dict) else {}
        kind, shape, ends = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
        if not isinstance(kind, str) or kind not in TYPES:
            raise wrong(f"{brief(name)}: dtype {brief(kind)}; read are {', '.join(TYPES)}")
        for key, value in (("shape", shape), ("data_offsets", ends)):
            if not isinstance(value, list) or len(value) > 32 or not all(
                    isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2 ** 63
                    for n in value):
                raise wrong(f"{brief(name)}: {key} {brief(value)}")
        if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= size - 8 - length:
            cut = len(ends) == 2 and 0 <= ends[0] <= ends[1]
            raise wrong(f"{brief(name)}: data_offsets {brief(ends)} of {size - 8 - length} bytes"
                        + (CUT if cut else ""))
        if math.prod(shape) * TYPES[kind].itemsize != ends[1] - ends[0]:
            raise wrong(f"{brief(name)}: {ends[1] - ends[0]} bytes for {kind} {brief(shape)}")
        entries.append((ends[0], ends[1], name, kind, shape))
    entries.sort()
    end = 0
    tensors: dict[str, np.ndarray] = {}
    for first, last, name, kind, shape in entries:
        if first != end:
            raise wrong(f"{brief(name)}: data begins at {first}, the tensor before it ends at {end}")
        end = last
        if last - first >= LARGE:  # its pages come when it is looked at, and go when it is written
            tensors[name] = np.memmap(file, TYPES[kind], "r", 8 + length + first, tuple(shape))
            file.seek(8 + length + last)
        else:
            tensors[name] = np.fromfile(file, TYPES[kind], math.prod(shape)).reshape(shape)
    if end != size - 8 - length:
        raise wrong(f"{size - 8 - length - end} bytes after the last tensor")
    return {name: tensors[name] for name in header}, metadata


# ------------------------------------------------------------------------------------------ zips
def check_zip(path: Path, what: str) -> None:
    """What a zip holds unpacked is in proportion to the file."""
    try:
        with open_file(path) as file:
            head, whole = file.read(4), 0
            if not zipfile.is_zipfile(file):  # its list of entries is at the end
                raise ConvertError(f"{path}: not {what}" + (CUT if b"PK\3\4".startswith(head) else ""))
            with zipfile.ZipFile(file) as archive:
                whole = sum(entry.file_size for entry in archive.infolist())
                size = os.fstat(file.fileno()).st_size
    except ConvertError:
        raise
    except Exception as error:  # zipfile raises what its parts raise
        raise ConvertError(f"{path}: not {what}: {brief(str(error))}") from None
    if whole > LARGEST_EXPANSION * size + MEGABYTE:
        raise ConvertError(f"{path}: a zip file of {size} bytes whose entries are {whole}")


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of numbers by name."""
    check_zip(path, "an .npz")
    arrays: dict[str, np.ndarray] = {}
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if name in arrays:
                    raise ConvertError(f"{path}: duplicate entry {brief(name)}")
                with archive.open(entry) as part:
                    arrays[name] = parse_npy(part.read(entry.file_size + 1),
                                             f"{path}: {brief(name)}")
    except ConvertError:
        raise
    except MemoryError:
        raise ConvertError(f"{path}: an .npz that memory does not hold") from None
    except Exception as error:  # zipfile and its unpackers raise what they like
        raise ConvertError(f"{path}: not an .npz: {brief(str(error))}") from None
    return arrays


def parse_npy(data: bytes, what: str) -> np.ndarray:
    """An array of numbers as numpy.save writes it; one of objects would be a pickle."""
    if data[:6] != b"\x93NUMPY" or len(data) < 12 or data[6] not in (1, 2, 3):
        raise ConvertError(f"{what}: not an .npy")
    form = "<H" if data[6] == 1 else "<I"
    (length,) = struct.unpack_from(form, data, 8)
    first = 8 + struct.calcsize(form)
    if length > min(len(data) - first, 10000):
        raise ConvertError(f"{what}: an .npy header of {length} bytes")
    try:
        header = ast.literal_eval(data[first:first + length].decode("utf-8").strip())
        kind, shape, fortran = (header[key] for key in ("descr", "shape", "fortran_order"))
    except (ValueError, SyntaxError, TypeError, LookupError, MemoryError, RecursionError):
        raise ConvertError(f"{what}: an .npy header that cannot be read") from None
    if not isinstance(kind, str) or not re.fullmatch(r"[<>|=]?[biuf][1248]|\?", kind):
        raise ConvertError(f"{what}: an array of type {brief(kind)}; only numbers can be read")
    if not isinstance(shape, tuple) or len(shape) > 32 or not all(
            type(n) is int and 0 <= n < 2 ** 63 for n in shape):
        raise ConvertError(f"{what}: an array of shape {brief(shape)}")
    try:
        kind = np.dtype(kind)
    except TypeError:
        raise ConvertError(f"{what}: an array of type {brief(kind)}") from None
    first += length
    if math.prod(shape) * kind.itemsize != len(data) - first:
        raise ConvertError(f"{what}: {len(data) - first} bytes for {kind.name} {brief(shape)}")
    array = np.frombuffer(data, kind, math.prod(shape), first)
    array = array.reshape(shape, order="F" if fortran else "C")
    return array.astype(kind.newbyteorder("<"))


# ------------------------------------------------------------------------------------------ YAML
LARGEST_YAML = 1 << 18  # characters; what a model states is some kilobytes
LONGEST_NUMBER = 100  # characters; YAML's 1:1:1 ... takes time by the square of its length
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def parse_yaml(text: str, what: str) -> dict[str, Any]:
    """A mapping; without aliases, which could make little text much."""
    try:
        import yaml
    except ImportError:
        raise ConvertError(f"{what}: Marian's options are YAML, and {install('pyyaml')}") from None

    class Options(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent) or self.peek_event().anchor is not None:
                raise ConvertError(f"{what}: YAML with anchors and aliases, which no options need")
            return super().compose_node(parent, index)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            if node.tag in NUMBERS and len(node.value) > LONGEST_NUMBER:
                raise ConvertError(f"{what}: YAML with a number of {len(node.value)} characters")
            return super().construct_object(node, deep)

    if len(text) > LARGEST_YAML or sum(map(text.count, "[{")) > 1000:
        raise ConvertError(f"{what}: {len(text)} characters of YAML, more than options are")
    try:
        value = yaml.load(text, Options)
    except yaml.YAMLError as error:
        raise ConvertError(f"{what}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConvertError(f"{what}: not YAML: nested too deeply") from None
    except (ValueError, OverflowError, TypeError, AttributeError) as error:  # of a value's own form
        raise ConvertError(f"{what}: not YAML: {brief(str(error))}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ConvertError(f"{what}: not a list of options")
    return value
