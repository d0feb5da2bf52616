"""silero.py: Silero's voice detector (MIT licence), for model files of Whisper.

The packages faster-whisper and silero-vad of PyPI carry it as ONNX files: silero_vad_v6.onnx and
silero_vad_16k_sequence.onnx. examples/transcribe/vad.h finds these tensors in the model file, always in F32:

    extra.vad.waves.weight [258, 256]
        the Fourier transform of 256 samples, real parts before imaginary parts
    extra.vad.conv1.weight [128, 3, 129], conv2 [64, 3, 128], conv3 [64, 3, 64], conv4 [128, 3, 64]; .bias
        convolutions, taps before channels
    extra.vad.lstm.weight [512, 256], extra.vad.lstm.bias [512]
        gates input, forget, cell, output; the input's columns before the hidden state's
    extra.vad.out.weight [1, 128], extra.vad.out.bias [1]
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Iterator

import numpy as np

from .modelfile import ConvertError, Model, Tensors, describe
from .untrusted import CUT, read_bytes

MOST_BYTES = 64 << 20
# Files of installed packages, the first of which is used
PACKAGES = (("faster_whisper", "assets/silero_vad_v6.onnx"), ("silero_vad", "data/silero_vad_16k_sequence.onnx"))
CONVOLUTIONS = ((258, 1, 256), (128, 129, 3), (64, 128, 3), (64, 64, 3), (128, 64, 3), (1, 128, 1))
LSTM = ((1, 512, 128), (1, 512, 128), (1, 1024))
# Field numbers of ONNX's protobuf messages
GRAPH, NODE, INITIALIZER, FLOAT = 7, 1, 5, 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number of more than 10 bytes")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message. Raises IndexError, KeyError or ValueError if it is none."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
        if size > len(data) - at:
            raise ValueError("a field that is longer than the message")
        yield key >> 3, data[at:at + size]
        at += size


def of(data: bytes, number: int) -> list[bytes]:
    return [value for key, value in fields(data) if key == number and isinstance(value, bytes)]


def unpack(data: bytes) -> list[int]:
    """The numbers of a packed field."""
    numbers, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        numbers.append(value)
    return numbers


def tensor(message: bytes) -> np.ndarray | None:
    """A TensorProto: dims 1, data_type 2, float_data 4, raw_data 9. None if it has no float32 values."""
    shape: list[int] = []
    kind, values = 0, b""
    for key, value in fields(message):
        if key == 1:
            shape += [value] if isinstance(value, int) else unpack(value)
        elif key == 2 and isinstance(value, int):
            kind = value
        elif key in (4, 9) and isinstance(value, bytes):
            values += value
    if kind != FLOAT or int(np.prod(shape, dtype=object)) * 4 != len(values):
        return None
    return np.frombuffer(values, "<f4").reshape(shape)


def read(path: Path) -> Tensors:
    """The detector's tensors. The nodes of the graph say which weights are whose."""
    data = read_bytes(path, MOST_BYTES)
    found: dict[str, list[list[np.ndarray]]] = {"Conv": [], "LSTM": []}
    try:
        graph = of(data, GRAPH)[0]
        weights = {of(one, 8)[0]: tensor(one) for one in of(graph, INITIALIZER)}
        for node in of(graph, NODE):
            kind = of(node, 4)[0].decode("utf-8", "replace")
            if kind in found:
                found[kind].append([weights[name] for name in of(node, 1) if weights.get(name) is not None])
    except (IndexError, KeyError, ValueError):
        raise ConvertError(f"{path}: not an ONNX file{CUT}") from None
    kernels = [node[0] for node in found["Conv"] if node]
    if (tuple(one.shape for one in kernels) != CONVOLUTIONS or any(len(node) < 2 for node in found["Conv"][1:])
            or len(found["LSTM"]) != 1 or tuple(one.shape for one in found["LSTM"][0]) != LSTM):
        raise ConvertError(f"{path}: not the voice detector of Silero for 16 kHz that faster-whisper 1.2 "
                           f"(silero_vad_v6.onnx) or silero-vad 6 (silero_vad_16k_sequence.onnx) has: its convolutions "
                           f"are {', '.join(map(describe, kernels[:8])) or 'none'}")
    into = {"waves.weight": kernels[0][:, 0]}
    for i, (kernel, bias, *_) in enumerate(found["Conv"][1:5], 1):
        into[f"conv{i}.weight"], into[f"conv{i}.bias"] = kernel.transpose(0, 2, 1), bias
    inward, hidden, bias = (one[0] for one in found["LSTM"][0])
    order = [row for gate in (0, 2, 3, 1) for row in range(128 * gate, 128 * gate + 128)]  # ONNX: i, o, f, c
    into["lstm.weight"] = np.concatenate([inward, hidden], 1)[order]
    into["lstm.bias"] = (bias[:512] + bias[512:])[order]
    into["out.weight"], into["out.bias"] = kernels[5][:, :, 0], found["Conv"][5][1]
    for name, one in into.items():
        if not np.isfinite(one).all():
            raise ConvertError(f"{path}: {name} has values that are not finite")
    return {f"extra.vad.{name}": np.ascontiguousarray(one, np.float32) for name, one in into.items()}


def installed() -> Path | None:
    """The detector of an installed package, which is not imported."""
    for package, name in PACKAGES:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (path := Path(folder) / name).is_file():
                return path
    return None


def put(model: Model, asked: str | None) -> None:
    """Adds the detector: of the file that --vad names, or of an installed package."""
    if asked == "none":
        return
    path = Path(asked) if asked else installed()
    if path is None:
        model.warn("no voice detector: transcribe finds silence by its level alone. pip install faster-whisper or "
                   "silero-vad, or --vad FILE with the file silero_vad_v6.onnx of one of them, adds one")
        return
    for name, weights in read(path).items():
        model.put(name, path.name, weights)
    model.notes.append(f"voice detector: {path.name}")
