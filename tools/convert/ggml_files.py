"""ggml_files.py: the two containers of ggml's programs, read with bounds.

    GGUF           llama.cpp's and candle's files: fields with names, then a list of tensors, then their data
    ggml-*.bin     whisper.cpp's files: eleven numbers, the mel filters, the vocabulary, then tensor after tensor

Both store a tensor's widths in the order of memory, the innermost first, and its elements in one of ggml's types.
Types of blocks (Q8_0, Q4_K ...) are dequantized to f32 by the package gguf, row after row.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .modelfile import F16, F32, F64, ConvertError, Tensors
from .untrusted import BF16, CUT, LARGE, brief, install, open_file

GGUF, GGML = b"GGUF", b"lmgg"  # the first four bytes
# Other files of ggml's programs
OTHERS = {b"FUGG": "numbers in GGUF files begin with their low byte; the script gguf-convert-endian of the package gguf "
                   "turns such files round",
          **dict.fromkeys((b"tjgg", b"fmgg", b"algg"), "an old container of llama.cpp, which holds language models")}
LONGEST_RUN = 1 << 18  # elements that are dequantized at a time


class Kind(NamedTuple):
    """A type of elements: how many elements a block has, and how many bytes."""
    name: str
    elements: int
    bytes: int


# ggml's numbers of the types that are read. The package gguf has the same table, with which a test compares.
KINDS = {number: Kind(name, elements, size) for number, name, elements, size in (
    (0, "F32", 1, 4), (1, "F16", 1, 2), (28, "F64", 1, 8), (30, "BF16", 1, 2),
    (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (6, "Q5_0", 32, 22), (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34),
    (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176), (14, "Q6_K", 256, 210),
    (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74), (18, "IQ3_XXS", 256, 98), (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18), (21, "IQ3_S", 256, 110), (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56), (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66), (39, "MXFP4", 32, 17), (40, "NVFP4", 64, 36))}
PLAIN = {"F32": F32, "F16": F16, "F64": F64, "BF16": BF16}
# Other types that ggml has or had
UNREAD = {4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 31: "Q4_0_4_4",
          32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8", 41: "Q1_0", 42: "Q2_0"}
NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1", 10: "<u8", 11: "<i8", 12: "<f8"}
TRUTH, TEXT, ARRAY = 7, 8, 9
QUANTIZATION = 2  # ggml's version of the layouts of blocks; earlier ones had other layouts


def magic(path: Path) -> bytes:
    """The first four bytes of a file; nothing of a directory."""
    if not path.is_file():
        return b""
    with open_file(path) as file:
        return file.read(4)


def is_ggml(path: Path) -> bool:
    return magic(path) in (GGUF, GGML, *OTHERS) or path.suffix == ".gguf" and path.is_file()


class Reader:
    """A file that is read from its beginning. What is longer than the rest of the file is refused before it is read."""

    def __init__(self, file: BinaryIO, path: Path, form: str) -> None:
        self.file, self.path, self.form = file, path, form
        self.size, self.at = os.fstat(file.fileno()).st_size, 0

    def wrong(self, what: str) -> ConvertError:
        return ConvertError(f"{self.path}: not {self.form}: {what}")

    def check(self, size: int, field: str) -> None:
        if size > self.size - self.at:
            raise self.wrong(f"{field} takes {size} bytes at byte {self.at}, and the file has {self.size}{CUT}")

    def take(self, size: int, field: str) -> bytes:
        self.check(size, field)
        data = self.file.read(size)
        if len(data) != size:
            raise self.wrong(f"{field} ends at byte {self.at + len(data)}{CUT}")
        self.at += size
        return data

    def number(self, form: str, field: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form), field))[0]

    def seek(self, at: int) -> None:
        self.file.seek(at)
        self.at = at

    def array(self, kind: np.dtype, shape: tuple[int, ...], field: str) -> np.ndarray:
        """The pages of a large array come when somebody looks at it."""
        count = math.prod(shape)
        self.check(count * kind.itemsize, field)
        begin, self.at = self.at, self.at + count * kind.itemsize
        if count * kind.itemsize < LARGE:
            return np.fromfile(self.file, kind, count).reshape(shape)
        array = np.memmap(self.file, kind, "r", begin, shape)
        self.file.seek(self.at)
        return array

    def tensor(self, name: str, kind: Kind, shape: tuple[int, ...]) -> np.ndarray:
        """The elements that begin here; blocks as f32."""
        what = f"the data of {name}"
        if kind.name in PLAIN:
            return self.array(PLAIN[kind.name], shape, what)
        width = shape[-1] // kind.elements * kind.bytes
        blocks = self.array(np.dtype("u1"), (math.prod(shape[:-1]), width), what)
        return dequantize(blocks, kind.name, shape, f"{self.path}: {name}")


def dequantize(blocks: np.ndarray, name: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Rows of blocks as f32, as the package gguf dequantizes them; some rows at a time, because it makes copies."""
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError:
        raise ConvertError(f"{what} is {name}, and {install('gguf', 'convert')}") from None
    try:
        kind = GGMLQuantizationType[name]
        step = max(1, LONGEST_RUN // shape[-1])
        found = np.empty((len(blocks), shape[-1]), np.float32)
        with np.errstate(all="ignore"):  # of damaged scales
            for at in range(0, len(blocks), step):
                found[at:at + step] = quants.dequantize(np.asarray(blocks[at:at + step]), kind)
    except (KeyError, NotImplementedError):
        raise ConvertError(f"{what} is {name}, which the installed package gguf does not read: install a newer gguf") from None
    except (TypeError, ValueError):
        raise ConvertError(f"{what} is {name}, which the installed packages gguf and NumPy {np.__version__} do not dequantize: "
                           f"pip install -U gguf 'numpy>=1.23'") from None
    return found.reshape(shape)


def find_kind(reader: Reader, number: int, name: str, shape: tuple[int, ...]) -> Kind:
    if number not in KINDS:
        raise reader.wrong(f"{name} has the type {UNREAD.get(number, number)}; read are "
                           + ", ".join(kind.name for kind in KINDS.values()))
    kind = KINDS[number]
    if shape[-1] % kind.elements:
        raise reader.wrong(f"{name} is {kind.name}, blocks of {kind.elements}, and its rows have {shape[-1]} elements")
    return kind


def text_of(data: bytes, reader: Reader, field: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise reader.wrong(f"{field} is {brief(data)}, which is not UTF-8") from None


# ------------------------------------------------------------------------------------------- GGUF
class GgufFile(NamedTuple):
    fields: dict[str, Any]  # numbers, truth values, texts, lists of texts (bytes), arrays of numbers
    kinds: dict[str, str]  # of the tensors
    tensors: Tensors


def read_value(reader: Reader, number: int, field: str) -> Any:
    if number == TEXT:
        return text_of(reader.take(reader.number("<Q", f"the length of {field}"), field), reader, field)
    if number == TRUTH:
        value = reader.number("<B", field)
        if value > 1:
            raise reader.wrong(f"{field} is {value}; a truth value is 0 or 1")
        return bool(value)
    if number in NUMBERS:
        return np.frombuffer(reader.take(np.dtype(NUMBERS[number]).itemsize, field), NUMBERS[number])[0].item()
    if number != ARRAY:
        raise reader.wrong(f"{field} has the type {number}; GGUF's are 0 to 12")
    inner, count = reader.number("<I", f"the type of {field}"), reader.number("<Q", f"the length of {field}")
    if inner == TEXT:
        reader.check(8 * count, field)
        return [reader.take(reader.number("<Q", f"the length of {field} {i}"), f"{field} {i}") for i in range(count)]
    if inner not in NUMBERS:
        raise reader.wrong(f"{field} is an array of type {inner}; read are arrays of numbers and of texts")
    kind = np.dtype(NUMBERS[inner])
    return np.frombuffer(reader.take(kind.itemsize * count, field), kind)


def read_gguf(path: Path) -> GgufFile:
    with open_file(path) as file:
        reader = Reader(file, path, "a GGUF file")
        reader.take(4, "its first word")
        version = reader.number("<I", "version")
        if version not in (2, 3):
            raise reader.wrong(OTHERS[b"FUGG"] if version in (2 << 24, 3 << 24) else
                               f"its version is {version}; read are 2 and 3. A newer llama.cpp writes the model anew")
        n_tensors, n_fields = reader.number("<Q", "tensor_count"), reader.number("<Q", "metadata_kv_count")
        # the fewest bytes of an entry
        for name, count, least in (("tensor_count", n_tensors, 32), ("metadata_kv_count", n_fields, 13)):
            if count * least > reader.size:
                raise reader.wrong(f"{name} is {count}, in a file of {reader.size} bytes{CUT}")
        fields: dict[str, Any] = {}
        for i in range(n_fields):
            key = text_of(reader.take(reader.number("<Q", f"the length of key {i}"), f"key {i}"), reader, f"key {i}")
            if key in fields:
                raise reader.wrong(f"{brief(key)} is there twice")
            fields[key] = read_value(reader, reader.number("<I", f"the type of {brief(key)}"), brief(key))
        return GgufFile(fields, *read_gguf_tensors(reader, n_tensors, fields))


def read_gguf_tensors(reader: Reader, count: int, fields: dict[str, Any]) -> tuple[dict[str, str], Tensors]:
    """The data of a tensor begins where that of the one before it ends, at a multiple of general.alignment."""
    alignment = fields.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise reader.wrong(f"general.alignment is {brief(alignment)}; it takes a power of 2")
    entries, names, end = [], set(), 0
    for i in range(count):
        data = reader.take(reader.number("<Q", f"the length of the name of tensor {i}"), f"the name of tensor {i}")
        name = text_of(data, reader, f"the name of tensor {i}")
        shown = brief(name).strip("'")
        if name in names:
            raise reader.wrong(f"the tensor {shown} is there twice")
        names.add(name)
        rank = reader.number("<I", f"the number of dimensions of {shown}")
        if not 1 <= rank <= 4:
            raise reader.wrong(f"{shown} has {rank} dimensions; ggml's tensors have 1 to 4")
        shape = tuple(reader.number("<Q", f"a dimension of {shown}") for _ in range(rank))[::-1]
        kind = find_kind(reader, reader.number("<I", f"the type of {shown}"), shown, shape)
        offset = reader.number("<Q", f"the offset of {shown}")
        if not all(shape):
            raise reader.wrong(f"{shown} has the shape {list(shape)}; no dimension may be 0")
        if offset != end:
            raise reader.wrong(f"{shown} has the offset {offset}; after the tensor before it comes {end}")
        size = math.prod(shape) // kind.elements * kind.bytes
        if size > reader.size:
            raise reader.wrong(f"{shown} {brief(list(shape))} takes {size} bytes, and the file has {reader.size}{CUT}")
        end += -(-size // alignment) * alignment
        entries.append((name, kind, shape, offset, size))
    begin = -(-reader.at // alignment) * alignment
    last = max((begin + offset + size for *_, offset, size in entries), default=reader.at)
    if last > reader.size:
        name = next(name for name, *_, offset, size in entries if begin + offset + size > reader.size)
        raise reader.wrong(f"the data of {brief(name)} ends at byte {last}, and the file has {reader.size}{CUT}")
    if reader.size - last >= max(alignment, 1):
        raise reader.wrong(f"{reader.size - last} bytes after the last tensor")
    tensors: Tensors = {}
    for name, kind, shape, offset, _ in entries:
        reader.seek(begin + offset)
        tensors[name] = reader.tensor(brief(name).strip("'"), kind, shape)
    return {name: kind.name for name, kind, *_ in entries}, tensors


# ----------------------------------------------------------------------- the container of whisper.cpp
WHISPER_NUMBERS = ("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer", "n_text_ctx",
                   "n_text_state", "n_text_head", "n_text_layer", "n_mels", "ftype")
LONGEST_TOKEN, LONGEST_NAME = 128, 1000  # bytes; whisper.cpp's quantizer reads tokens of 128


class WhisperFile(NamedTuple):
    numbers: dict[str, int]
    filters: np.ndarray  # [mels, frequencies]
    vocabulary: list[bytes]
    tensors: Tensors


def read_whisper(path: Path) -> WhisperFile:
    with open_file(path) as file:
        reader = Reader(file, path, "a Whisper model of whisper.cpp")
        reader.take(4, "its first word")
        numbers = {name: reader.number("<i", name) for name in WHISPER_NUMBERS}
        for name, value in numbers.items():
            if not 0 < value < 1 << 24 and (name, value) != ("ftype", 0):
                raise reader.wrong(f"{name} is {value}")
        mels, frequencies = reader.number("<i", "n_mel of its filters"), reader.number("<i", "n_fft of its filters")
        if mels != numbers["n_mels"] or frequencies != 201:
            raise reader.wrong(f"its filters are [{mels}, {frequencies}]; n_mels {numbers['n_mels']} needs "
                               f"[{numbers['n_mels']}, 201]")
        filters = np.frombuffer(reader.take(4 * mels * frequencies, "the mel filters"), F32).reshape(mels, frequencies)
        count = reader.number("<i", "the number of tokens")
        if not 0 <= count <= numbers["n_vocab"]:
            raise reader.wrong(f"it has {count} tokens, and n_vocab is {numbers['n_vocab']}")
        reader.check(4 * count, "the vocabulary")
        vocabulary = []
        for i in range(count):
            length = reader.number("<I", f"the length of token {i}")
            if length > LONGEST_TOKEN:
                raise reader.wrong(f"token {i} has {length} bytes; Whisper's tokens have at most {LONGEST_TOKEN}")
            vocabulary.append(reader.take(length, f"token {i}"))
        tensors: Tensors = {}
        while reader.at < reader.size:
            read_whisper_tensor(reader, numbers["ftype"] // 1000, tensors)
    return WhisperFile(numbers, filters, vocabulary, tensors)


def read_whisper_tensor(reader: Reader, version: int, tensors: Tensors) -> None:
    which = f"tensor {len(tensors)}"
    rank = reader.number("<i", f"the number of dimensions of {which}")
    length = reader.number("<i", f"the length of the name of {which}")
    number = reader.number("<i", f"the type of {which}")
    if not 1 <= rank <= 4:
        raise reader.wrong(f"{which} has {rank} dimensions; ggml's tensors have 1 to 4")
    if not 0 < length <= LONGEST_NAME:
        raise reader.wrong(f"the name of {which} has {length} bytes")
    shape = tuple(reader.number("<i", f"a dimension of {which}") for _ in range(rank))[::-1]
    name = text_of(reader.take(length, f"the name of {which}"), reader, f"the name of {which}")
    shown = brief(name).strip("'")
    if name in tensors:
        raise reader.wrong(f"the tensor {shown} is there twice")
    if min(shape) < 1:
        raise reader.wrong(f"{shown} has the shape {list(shape)}; no dimension may be below 1")
    kind = find_kind(reader, number, shown, shape)
    if kind.elements > 1 and version != QUANTIZATION:
        raise reader.wrong(f"{shown} is {kind.name}, and ftype names version {version} of ggml's blocks, whose layout is "
                           f"another; read is version {QUANTIZATION}. Quantize the model anew with a newer whisper.cpp")
    reader.check(math.prod(shape) // kind.elements * kind.bytes, f"the data of {shown}")
    tensors[name] = reader.tensor(shown, kind, shape)
