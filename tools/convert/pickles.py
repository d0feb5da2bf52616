"""pickles.py: what torch.save wrote, read without PyTorch; nothing of the file is run.

A checkpoint is a pickle, a program for a small machine with a stack, and the bytes of its tensors:

    zip         torch 1.6 and later: NAME/data.pkl, and an entry NAME/data/KEY for each storage
    legacy      before: a magic number, a version and the sizes of C's types, each a pickle; the
                pickle of the objects; that of a list of keys; then for each key the storage's
                number of elements in 8 bytes, and its bytes

A tensor in the pickle is a call of torch._utils._rebuild_tensor_v2 with a storage, an offset, a
shape and strides. The machine here knows that function, and the few others of KNOWN. Any other name
of a class or function ends the reading by a ConvertError with that name, as a call could do anything.

The work is bounded by the file: each instruction takes a byte at least and makes one small object;
keys of dictionaries are texts and integers, whose hashes nobody can make collide; what copies a list
is counted. Tensors are views of the mapped file.
"""

from __future__ import annotations

import argparse
import collections
import math
import os
import pickle
import re
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Callable

import numpy as np

from . import refusals
from .untrusted import BF16, CUT, ConvertError, brief, check_zip, open_file

LARGEST_PICKLE = 1 << 24  # bytes; 100,000 tensors take 15 million
LEGACY = 0x1950A86A20F9469CFC6C, 1001  # the first two pickles of a legacy file
LONGEST_SHAPE = 32
STORAGES = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "BFloat16": BF16, "Long": "<i8", "Int": "<i4",
            "Short": "<i2", "Char": "i1", "Byte": "u1", "Bool": "?"}


class Broken(Exception):
    """The bytes are no checkpoint; the text says why."""


def too_large() -> Broken:
    return Broken(f"a pickle of more than {LARGEST_PICKLE} bytes")


class Foreign(Exception):
    """A class or function that is not read; the text names it."""


# ------------------------------------------------------------------------ functions of the pickle
# Each takes the machine, for its limits and its storages, and the arguments.
Known = Callable[..., Any]


def make_dictionary(machine: Machine, pairs: Any = ()) -> dict[Any, Any]:
    made: dict[Any, Any] = collections.OrderedDict()
    machine.count_copy(pairs)
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Broken("an OrderedDict of something else than pairs")
        made[check_key(pair[0])] = pair[1]
    return made


def make_bytes(machine: Machine, text: Any, encoding: Any) -> bytes:
    """Python 3's bytes in protocol 2: _codecs.encode(text, "latin1")."""
    if not isinstance(text, str) or encoding != "latin1":
        raise Broken("_codecs.encode of something else than latin1")
    machine.count_copy(text)
    return text.encode("latin1")


def make_tensor(machine: Machine, storage: Any, offset: Any, shape: Any, strides: Any, *more: Any) -> np.ndarray:
    """more: requires_grad, hooks and a dictionary of bits, such as that all numbers are negated."""
    if not isinstance(storage, np.ndarray) or storage.ndim != 1:
        raise Broken(f"a tensor of {brief(storage)}, which is no storage")
    for what, numbers in (("shape", shape), ("strides", strides), ("offset", [offset])):
        if not isinstance(numbers, (list, tuple)) or len(numbers) > LONGEST_SHAPE or not all(
                type(one) is int and 0 <= one < 2 ** 62 for one in numbers):
            raise Broken(f"a tensor whose {what} is {brief(numbers)}")
    if len(shape) != len(strides) or len(more) > 3 or (len(more) == 3 and more[2]):
        raise Broken(f"a tensor of shape {brief(shape)} with strides {brief(strides)} and {brief(more[2:])}")
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides)) if all(shape) else -1
    if last >= len(storage):
        raise Broken(f"a tensor of shape {brief(shape)} with strides {brief(strides)} and offset {offset}, "
                     f"which reaches beyond the {len(storage)} elements of its storage")
    if math.prod(shape) > len(storage):
        raise Broken(f"a tensor of shape {brief(shape)} of {len(storage)} elements: its elements share memory")
    if last < 0 or machine.dry:
        return np.empty(shape if last < 0 else 0, storage.dtype)
    width = storage.dtype.itemsize
    return np.ndarray(shape, storage.dtype, storage, offset * width, [step * width for step in strides])


def make_parameter(machine: Machine, tensor: Any, *_: Any) -> np.ndarray:
    if not isinstance(tensor, np.ndarray):
        raise Broken(f"a parameter of {brief(tensor)}, which is no tensor")
    return tensor


def same_object(machine: Machine, value: Any = ()) -> Any:
    return value


KNOWN: dict[str, Known | np.dtype | str] = {
    "torch._utils._rebuild_tensor": make_tensor, "torch._utils._rebuild_tensor_v2": make_tensor,
    "torch._utils._rebuild_parameter": make_parameter,
    "torch._utils._rebuild_parameter_with_state": make_parameter,
    "collections.OrderedDict": make_dictionary, "_codecs.encode": make_bytes,
    "argparse.Namespace": lambda machine: argparse.Namespace(),
    **dict.fromkeys(("torch.Size", "torch.device", "__builtin__.set", "builtins.set"), same_object),
    **{f"torch.{name}Storage": np.dtype(kind) for name, kind in STORAGES.items()},
    **{f"torch.{name}": name for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32",
                                          "int16", "int8", "uint8", "bool", "strided")},
}


def check_key(key: Any) -> Any:
    if not (key is None or isinstance(key, (str, bytes)) or (isinstance(key, int) and abs(key) < 2 ** 60)):
        raise Broken(f"a dictionary with the key {brief(key)}; read are texts and integers")
    return key


# -------------------------------------------------------------------------------------- the machine
# Instructions with a number behind them, and how it is stored.
NUMBERS = {pickle.BININT: "<i", pickle.BININT1: "<B", pickle.BININT2: "<H", pickle.BINFLOAT: ">d"}
TEXTS = {pickle.BINUNICODE: "<I", pickle.SHORT_BINUNICODE: "<B", pickle.BINUNICODE8: "<Q",
         pickle.BINSTRING: "<I", pickle.SHORT_BINSTRING: "<B"}  # the last two are Python 2's
BYTES = {pickle.BINBYTES: "<I", pickle.SHORT_BINBYTES: "<B", pickle.BINBYTES8: "<Q"}
PUTS = {pickle.BINPUT: "<B", pickle.LONG_BINPUT: "<I"}
GETS = {pickle.BINGET: "<B", pickle.LONG_BINGET: "<I"}
CONSTANTS = {pickle.NONE: None, pickle.NEWTRUE: True, pickle.NEWFALSE: False, pickle.EMPTY_TUPLE: ()}
NEW = {pickle.EMPTY_LIST: list, pickle.EMPTY_DICT: dict, pickle.EMPTY_SET: list}
TUPLES = {pickle.TUPLE1: 1, pickle.TUPLE2: 2, pickle.TUPLE3: 3}


class Machine:
    """Runs one pickle after the other of the bytes from at on. The storages come from read, which
    gets the type, the key and the number of elements. In a dry run, tensors have no elements."""

    def __init__(self, data: memoryview, read: Callable[[np.dtype, str, int], np.ndarray], at: int = 0,
                 dry: bool = False) -> None:
        self.data, self.read, self.at, self.dry = data, read, at, dry
        self.storages: dict[str, np.ndarray] = {}

    def count_copy(self, what: Any) -> None:
        """Instructions may name one list again and again."""
        if not isinstance(what, (list, tuple, str)):
            raise Broken(f"{brief(what)} where a list was expected")
        self.copied += len(what)
        if self.copied > LARGEST_PICKLE:
            raise Broken("one list is copied again and again")

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise Broken(f"it ends within a pickle{CUT}")
        if self.at > self.end:
            raise too_large()
        return bytes(self.data[self.at - size:self.at])

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        rest = bytes(self.data[self.at:self.at + 1000]).split(b"\n")
        self.take(len(rest[0]) + 1)
        return rest[0].decode("utf-8", "replace")

    def to_mark(self) -> list[Any]:
        if not self.marks:
            raise Broken("an end without a beginning")
        items, self.stack = self.stack, self.marks.pop()
        return items

    def find(self, name: str) -> Any:
        if name not in KNOWN:
            raise Foreign(name)
        return KNOWN[name]

    def call(self, function: Any, arguments: Any) -> Any:
        if not callable(function) or not isinstance(arguments, tuple):
            raise Broken(f"a call of {brief(function)}")
        if len(arguments) > 10:
            raise Broken(f"a call with {len(arguments)} arguments")
        try:
            return function(self, *arguments)
        except (TypeError, ValueError):  # of the number of arguments, or of a shape that NumPy refuses
            raise Broken(f"a call with the arguments {brief(arguments)}") from None

    def persistent(self, told: Any) -> np.ndarray:
        if not isinstance(told, tuple) or len(told) not in (5, 6):
            raise Broken(f"a storage that is {brief(told)}")
        _, kind, key, _, size, *view = told  # "storage", and the device that is not needed
        if not isinstance(kind, np.dtype) or not isinstance(key, str) or type(size) is not int or size < 0 or (
                view and view[0] is not None):
            raise Broken(f"a storage that is {brief(told)}")
        if key not in self.storages:
            self.storages[key] = self.read(kind, key, size)
        found = self.storages[key]
        if found.dtype != kind or len(found) != size:
            raise Broken(f"the storage {brief(key)} as {size} of {kind} and as {len(found)} of {found.dtype}")
        return found

    def run(self) -> Any:
        """The object of the pickle."""
        self.end = min(len(self.data), self.at + LARGEST_PICKLE)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.copied = 0
        memo: dict[int, Any] = {}
        while True:
            code = self.take(1)
            stack = self.stack
            try:
                if code in PUTS:
                    memo[self.number(PUTS[code])] = stack[-1]
                elif code in GETS:
                    stack.append(memo[self.number(GETS[code])])
                elif code in NUMBERS:
                    stack.append(self.number(NUMBERS[code]))
                elif code in TEXTS:
                    stack.append(self.take(self.number(TEXTS[code])).decode("utf-8"))
                elif code in CONSTANTS:
                    stack.append(CONSTANTS[code])
                elif code in NEW:
                    stack.append(NEW[code]())
                elif code in TUPLES:
                    items = tuple(stack[-TUPLES[code]:])
                    if len(items) < TUPLES[code]:
                        raise IndexError
                    stack[-TUPLES[code]:] = [items]
                elif code == pickle.MARK:
                    self.marks.append(stack)
                    self.stack = []
                elif code == pickle.TUPLE:
                    items = tuple(self.to_mark())
                    self.stack.append(items)
                elif code == pickle.GLOBAL:
                    stack.append(self.find(f"{self.line()}.{self.line()}"))
                elif code == pickle.STACK_GLOBAL:
                    name, module = stack.pop(), stack.pop()
                    stack.append(self.find(f"{module}.{name}" if isinstance(module, str) and isinstance(
                        name, str) else ""))
                elif code in (pickle.REDUCE, pickle.NEWOBJ):
                    arguments = stack.pop()
                    stack[-1] = self.call(stack[-1], arguments)
                elif code == pickle.BINPERSID:
                    stack[-1] = self.persistent(stack[-1])
                elif code in (pickle.SETITEM, pickle.SETITEMS):
                    items = self.to_mark() if code == pickle.SETITEMS else [stack.pop(-2), stack.pop()]
                    if not isinstance(self.stack[-1], dict) or len(items) % 2:
                        raise Broken("a dictionary's entries without a dictionary")
                    for i in range(0, len(items), 2):
                        self.stack[-1][check_key(items[i])] = items[i + 1]
                elif code in (pickle.APPEND, pickle.APPENDS, pickle.ADDITEMS):
                    items = [stack.pop()] if code == pickle.APPEND else self.to_mark()
                    if not isinstance(self.stack[-1], list):
                        raise Broken("a list's items without a list")
                    self.stack[-1].extend(items)
                elif code == pickle.BUILD:
                    state = stack.pop()
                    if isinstance(stack[-1], argparse.Namespace) and isinstance(state, dict):
                        stack[-1].__dict__ = state
                    elif not isinstance(stack[-1], dict):  # a state dict's _metadata is not needed
                        raise Broken("a state of something that has none")
                elif code == pickle.LONG1:
                    stack.append(int.from_bytes(self.take(self.number("<B")), "little", signed=True))
                elif code in BYTES:
                    stack.append(self.take(self.number(BYTES[code])))
                elif code == pickle.MEMOIZE:
                    memo[len(memo)] = stack[-1]
                elif code in (pickle.PROTO, pickle.FRAME):
                    self.take(1 if code == pickle.PROTO else 8)
                elif code == pickle.POP:
                    stack.pop()
                elif code == pickle.STOP:
                    return stack.pop()
                else:
                    raise Broken(f"the byte {code!r}, which is no instruction that torch.save writes")
            except (IndexError, KeyError):
                raise Broken(f"the instruction {code!r} without what it works on") from None
            except UnicodeError:
                raise Broken("a text that is not UTF-8") from None


# ----------------------------------------------------------------------------------------- the files
def load(path: Path) -> Any:
    """The object that torch.save wrote; its tensors are arrays."""
    with open_file(path) as file:
        try:
            data = np.memmap(file, "u1", "r") if os.fstat(file.fileno()).st_size else np.empty(0, "u1")
            if data[:4].tobytes() == b"PK\3\4":
                check_zip(path, "a checkpoint of PyTorch")
                return read_zip(file, data)
            return read_legacy(data)
        except Foreign as error:
            raise ConvertError(
                f"{path} holds {brief(str(error))} beside its tensors, and reading such objects could run "
                f"code: {refusals.explain_class(str(error))}") from None
        except Broken as error:
            why = " ".join(str(error).split())  # arrays are shown in lines
            raise ConvertError(f"{path}: not a checkpoint of PyTorch: {why}") from None
        except (OSError, MemoryError) as error:
            raise ConvertError(f"{path}: {getattr(error, 'strerror', None) or 'memory does not hold it'}"
                               ) from None


def read_zip(file: BinaryIO, data: np.ndarray) -> Any:
    try:
        archive = zipfile.ZipFile(file)
    except Exception as error:  # zipfile raises what its parts raise
        raise Broken(brief(str(error))) from None
    entries: dict[str, tuple[zipfile.ZipInfo, int]] = {}
    spans = []
    for entry in archive.infolist():
        at = entry.header_offset
        head = data[at:at + 30].tobytes()
        if len(head) < 30 or head[:4] != b"PK\3\4" or entry.flag_bits & 1:
            raise Broken(f"the entry {brief(entry.filename)}, whose header is broken or which is encrypted")
        first = at + 30 + sum(struct.unpack("<HH", head[26:]))
        if entry.filename in entries or first + entry.compress_size > len(data):
            raise Broken(f"the entry {brief(entry.filename)}, which is there twice or ends outside")
        entries[entry.filename] = entry, first
        spans.append((at, first + entry.compress_size, entry.filename))
    spans.sort()
    for (_, end, _), (begin, _, name) in zip(spans, spans[1:]):
        if begin < end:
            raise Broken(f"the entry {brief(name)}, which overlaps another one")

    def content(name: str) -> np.ndarray:
        if name not in entries:
            raise Broken(f"no entry {brief(name)}")
        entry, first = entries[name]
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.compress_size != entry.file_size:
                raise Broken(f"the entry {brief(name)} of {entry.compress_size} and {entry.file_size} bytes")
            return data[first:first + entry.file_size]
        try:
            with archive.open(entry) as part:
                return np.frombuffer(part.read(entry.file_size), "u1")
        except MemoryError:
            raise
        except Exception as error:
            raise Broken(f"the entry {brief(name)}: {brief(str(error))}") from None

    def read(kind: np.dtype, key: str, size: int) -> np.ndarray:
        found = content(f"{root}data/{key}")
        if len(found) != size * kind.itemsize:
            raise Broken(f"the storage {brief(key)} of {len(found)} bytes, not {size} elements of {kind}")
        return found.view(kind)

    roots = [name[:-len("data.pkl")] for name in entries if re.fullmatch(r"[^/]+/data\.pkl", name)]
    if len(roots) != 1:
        raise Broken(f"a zip file with {len(roots)} entries NAME/data.pkl")
    root = roots[0]
    if f"{root}constants.pkl" in entries:
        raise Broken("a TorchScript program; torch.save(torch.jit.load(FILE).state_dict(), FILE) writes "
                     "what is wanted")
    if f"{root}byteorder" in entries and content(f"{root}byteorder").tobytes() != b"little":
        raise Broken("written on a big-endian machine; torch.save on another one writes what is wanted")
    if entries[f"{root}data.pkl"][0].file_size > LARGEST_PICKLE:  # to run so many bytes can take over 20 s
        raise too_large()
    return Machine(memoryview(content(f"{root}data.pkl")), read).run()


def read_legacy(data: np.ndarray) -> Any:
    """The objects stand before the list of the storages, so they are read twice: first to know which
    storages there are."""
    kinds: dict[str, tuple[np.dtype, int]] = {}
    places: dict[str, np.ndarray] = {}

    def measure(kind: np.dtype, key: str, size: int) -> np.ndarray:
        if size * kind.itemsize > len(data):
            raise Broken(f"the storage {brief(key)} of {size} elements in a file of {len(data)} bytes{CUT}")
        kinds[key] = kind, size
        return np.broadcast_to(np.zeros((), kind), size)

    def read(kind: np.dtype, key: str, size: int) -> np.ndarray:
        return places[key]

    machine = Machine(memoryview(data), measure, dry=True)
    if (machine.run(), machine.run()) != LEGACY:
        raise Broken("it begins neither as a zip file nor with the magic number of older ones")
    system, begin = machine.run(), machine.at
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise Broken("written on a big-endian machine; torch.save on another one writes what is wanted")
    machine.run()
    keys = machine.run()
    machine.end = len(data)
    for key in keys if isinstance(keys, list) else []:
        if not isinstance(key, str) or key not in kinds or key in places:
            raise Broken(f"a storage {brief(key)}, which no tensor has or which is there twice")
        kind, size = kinds[key]
        found = machine.number("<q")
        first, last = machine.at, machine.at + size * kind.itemsize
        if found != size or last > len(data):
            raise Broken(f"the storage {brief(key)} of {found} elements, not {size}, at byte {first} of "
                         f"{len(data)}{CUT * (last > len(data))}")
        places[key], machine.at = data[first:last].view(kind), last
    if len(places) < len(kinds):
        raise Broken("storages of tensors are missing")
    return Machine(machine.data, read, begin).run()


def tensors_of(found: dict[Any, Any], path: Path) -> dict[str, np.ndarray]:
    """Returns the tensors among the values of a dictionary that load returned."""
    tensors = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    for name in tensors:
        if not isinstance(name, str):
            raise ConvertError(f"{path}: a tensor whose name is {brief(name)}, no text")
    return tensors
