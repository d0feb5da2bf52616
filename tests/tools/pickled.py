"""pickled.py: writes files as torch.save does, without PyTorch, with any fault that a test needs."""

import struct
import zipfile

import numpy as np

STORAGES = {"f4": "Float", "f8": "Double", "f2": "Half", "i8": "Long", "i4": "Int", "i2": "Short", "i1": "Char",
            "u1": "Byte", "b1": "Bool"}
MAGIC = 0x1950A86A20F9469CFC6C


class Raw(bytes):
    """Pickle instructions that leave one object on the stack."""


def name(module, function):
    return Raw(f"c{module}\n{function}\n".encode())


def call(function, *arguments):
    return Raw(function + encode(arguments) + b"R")


def encode(value):
    """Returns the instructions that make the value."""
    if isinstance(value, Raw):
        return value
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, (tuple, list)):
        begin, end = (b"(", b"t") if isinstance(value, tuple) else (b"](", b"e")
        return begin + b"".join(map(encode, value)) + end
    assert isinstance(value, dict), value
    return b"}(" + b"".join(encode(key) + encode(one) for key, one in value.items()) + b"u"


def storage(key="0", size=4, kind="Float", *more):
    return Raw(encode(("storage", name("torch", f"{kind}Storage"), key, "cpu", size, *more)) + b"Q")


def tensor(stored=None, offset=0, shape=(4,), strides=(1,), *more):
    return call(name("torch._utils", "_rebuild_tensor_v2"), stored or storage(), offset, shape, strides, False,
                call(name("collections", "OrderedDict")), *more)


def pickled(value):
    return b"\x80\x02" + encode(value) + b"."


def write_zip(path, value, entries=None, method=zipfile.ZIP_STORED, more=()):
    """Makes an archive; storages gives its entries by their keys. The first one holds four floats."""
    entries = {"0": np.arange(4, dtype="f4").tobytes()} if entries is None else entries
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("archive/data.pkl", value if type(value) is bytes else pickled(value))
        for key, data in entries.items():
            archive.writestr(f"archive/data/{key}", data)
        for key, data in more:
            archive.writestr(key, data)
    return path


def write_legacy(path, value, keys=("0",), storages=((4, np.arange(4, dtype="f4").tobytes()),), magic=MAGIC,
                 little=True):
    system = {"protocol_version": 1001, "little_endian": little, "type_sizes": {}}
    path.write_bytes(b"".join(map(pickled, (magic, 1001, system, value, list(keys)))) + b"".join(
        struct.pack("<q", size) + data for size, data in storages))
    return path


def save(path, arrays, write=write_zip, wrap=lambda made: made):
    """Returns a dictionary of arrays as torch.save writes it. wrap: makes of the dictionary what is saved."""
    made, storages = {}, {}
    for i, (key, array) in enumerate(arrays.items()):
        storages[str(i)] = array.tobytes()
        strides = [step // array.itemsize for step in np.empty(array.shape, array.dtype).strides]
        made[key] = tensor(storage(str(i), array.size, STORAGES[array.dtype.str[1:]]), 0, array.shape,
                           tuple(strides))
    if write is write_zip:
        return write_zip(path, wrap(made), storages)
    return write_legacy(path, wrap(made), storages, [(arrays[key].size, data)
                                                     for key, data in zip(arrays, storages.values())])
