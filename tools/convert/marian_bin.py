"""Reads Marian's .bin files and lexical shortlists (.bin or text), and writes a model file as a .bin.

    cd tools && python -m convert.marian_bin MODEL.safetensors OUT.bin [--int8]

The models of Firefox and Bergamot are .bin files. They are little-endian (marian-dev, common/binary.cpp):

    u64 1                                         the version
    u64 n, n times 4 u64                          length of the name with its NUL, type, rank, bytes
    names; the dims of all, i32; u64 and as many bytes to skip; the data of all

A matrix of type intgemm8 or intgemm16 is stored transposed, except for embeddings. Its scale, an f32,
follows it, and a value is an integer divided by the scale. NAME_QuantMultA is the number by which a
static quantization multiplies activations (127 / the largest activation that is expected).

MODEL must have the settings that Marian computes: norm=post or pre, sines before cosines with divisor
d/2-1, an eps of 1e-6, a zero first embedding. OUT has f32 weights, or with --int8 intgemm8 weights
without static scales (tools/train.py --marian writes static scales too). A suppressed id gets a bias
of -10000, because a .bin has no other way to forbid it. If OUT is model.NAME.bin, the SentencePiece
models are written beside it as vocab.NAME.spm, or as srcvocab.NAME.spm and trgvocab.NAME.spm.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .printing import Parser
from .untrusted import (CUT, LARGEST_EXPANSION, MEGABYTE, ConvertError, brief, open_file, parse_json,
                       read_bytes, read_safetensors, visible)
from .writer import write_file

CONFIG = "special:model.yml"
INT8, F32, INTGEMM8, INTGEMM16 = 0x101, 0x404, 0x4101, 0x4102
# Types by number, of Marian and of the fork that Firefox and Bergamot use.
PLAIN = {INT8: "i1", 0x102: "<i2", 0x104: "<i4", 0x108: "<i8", 0x201: "u1", 0x202: "<u2",
         0x204: "<u4", 0x208: "<u8", 0x402: "<f2", F32: "<f4", 0x408: "<f8"}
QUANTIZED = {INTGEMM8: "i1", 0x10001: "i1", INTGEMM16: "<i2", 0x10002: "<i2"}
FBGEMM = {0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512"}
ALIGNMENT = 256
SHORTLIST = 0xF11A48D5013417F5


# ------------------------------------------------------------------------------------ reading
def read_unpacked(path: Path, most: int | None = None) -> bytes:
    """The file's bytes, or their first; those of a .gz unpacked, in proportion to its size."""
    if path.suffix != ".gz":
        return read_bytes(path, -1 if most is None else most)
    data, out, unpacker = read_bytes(path), [], zlib.decompressobj(31)
    left = LARGEST_EXPANSION * len(data) + MEGABYTE if most is None else most
    try:
        while data and left > 0:
            out.append(unpacker.decompress(data, left))
            left -= len(out[-1])
            data = unpacker.unconsumed_tail
            if unpacker.eof:  # another member may follow
                data, unpacker = unpacker.unused_data, zlib.decompressobj(31)
            elif not data and most is None:
                raise ConvertError(f"{path}: not a whole .gz{CUT}")
    except zlib.error as error:
        raise ConvertError(f"{path}: not a .gz: {error}") from None
    if left <= 0 and most is None:
        raise ConvertError(f"{path}: a .gz that unpacks to more than {LARGEST_EXPANSION} times its size")
    return b"".join(out)


def is_bin(path: Path) -> bool:
    """A file that begins as Marian's, whatever follows."""
    try:
        return bool(re.search(r"\.bin(\.gz)?$", path.name)) and (
            read_unpacked(path, 8) == struct.pack("<Q", 1))
    except ConvertError:
        return False


def read_bin(path: Path) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The arrays by name, [in, out] as Marian's dims have them, and what those in int8 are times.
    int16 becomes f32: its scale is 1024, so that not a bit is lost."""
    data = read_unpacked(path)
    at = 0

    def wrong(what: str) -> ConvertError:
        return ConvertError(f"{path}: not a .bin of Marian: {what}")

    def take(form: str, count: int, what: str) -> np.ndarray:
        nonlocal at
        size = np.dtype(form).itemsize * count
        if size > len(data) - at:
            raise wrong(f"{what}: {size} bytes at {at} of {len(data)}{CUT}")
        at += size
        return np.frombuffer(data, form, count, at - size)

    version, count = (int(one) for one in take("<u8", 2, "its header"))
    if version != 1:
        raise wrong(f"version {version}")
    heads = [[int(one) for one in head] for head in take(
        "<u8", 4 * count, f"headers of {count} tensors").reshape(-1, 4)]
    names = []
    for length, *_ in heads:
        raw = take("u1", length, "a name").tobytes()
        if not re.fullmatch(rb"[!-~]{1,200}\0", raw):
            raise wrong(f"a name {brief(raw)}")
        names.append(raw[:-1].decode())
    if len(set(names)) < len(names):
        in_order = sorted(names)
        raise wrong(f"duplicate tensor {next(a for a, b in zip(in_order, in_order[1:]) if a == b)}")
    for name, (_, _, rank, _) in zip(names, heads):
        if not 1 <= rank <= 8:
            raise wrong(f"{name}: {rank} dims")
    dims = [[int(one) for one in take("<i4", rank, "dims")] for _, _, rank, _ in heads]
    take("u1", int(take("<u8", 1, "the gap")[0]), "the gap")
    arrays: dict[str, np.ndarray] = {}
    scales: dict[str, float] = {}
    for name, shape, (_, kind, _, size) in zip(names, dims, heads):
        raw = take("u1", size, name)
        if min(shape) < 1:
            raise wrong(f"{name}: shape {shape}")
        if kind in FBGEMM or kind not in PLAIN and kind not in QUANTIZED:
            packed = f"FBGEMM ({FBGEMM[kind]})" if kind in FBGEMM else (
                "a CPU" if kind & 0x14000 else "what is not known")
            raise ConvertError(f"{path}: {name}: type {kind:#x}, packed for {packed}; read are f32, "
                               f"intgemm8 and intgemm16: take the file before marian-conv, or make it "
                               f"with marian-conv --gemm-type intgemm8")
        form = np.dtype(QUANTIZED.get(kind) or PLAIN[kind])
        elements = math.prod(shape)
        if elements * form.itemsize + 4 * (kind in QUANTIZED) > size:
            raise wrong(f"{name}: {size} bytes for shape {shape} of type {kind:#x}")
        array = raw[:elements * form.itemsize].view(form)
        if kind not in QUANTIZED:
            arrays[name] = array.reshape(shape)
            continue
        array = array.reshape(shape) if "Wemb" in name else array.reshape(shape[::-1]).T
        scale = float(raw[array.nbytes:array.nbytes + 4].view("<f4")[0])
        if not 1e-30 < scale < 1e30:
            raise wrong(f"{name}: a scale of {scale}")
        if form.itemsize == 1:
            arrays[name], scales[name] = array, 1 / scale
        else:
            arrays[name] = array.astype("<f4") / np.float32(scale)
    if at < len(data):
        raise wrong(f"{len(data) - at} bytes after the last tensor")
    return arrays, scales


def read_shortlist(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Where each source id's list begins, with the end of the last; the lists' target ids; how many
    first ids are always candidates."""
    data = read_unpacked(path)

    def wrong(what: str) -> ConvertError:
        return ConvertError(f"{path}: not a binary shortlist of Marian: {what}")

    if data[:8] != struct.pack("<Q", SHORTLIST):
        raise wrong("its first bytes are others")
    if len(data) < 48:
        raise wrong(f"{len(data)} bytes{CUT}")
    _, _, first, _, n, m = struct.unpack_from("<6Q", data)
    if n < 1 or 48 + 8 * n + 4 * m != len(data):
        raise wrong(f"{n} offsets and {m} ids in {len(data)} bytes{CUT * (48 + 8 * n + 4 * m > len(data))}")
    offsets = np.frombuffer(data, "<u8", n, 48)
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] != m or m >= 2 ** 32:
        raise wrong("its offsets do not go from 0 up to the number of ids")
    if first >= 2 ** 31:
        raise wrong(f"the first {first} ids")
    return offsets.astype("<u4"), np.frombuffer(data, "<u4", m, 48 + 8 * n), first


def read_text_shortlist(path: Path, src: dict[str, int], tgt: dict[str, int], n: int, best: int,
                        least: float) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and ids of lines "target source probability" as Marian takes them: of each of n source
    tokens the best targets, the higher id first among equals; what no vocabulary has is <unk>."""
    lists: dict[int, dict[int, float]] = {}
    try:
        lines = read_unpacked(path).decode().split("\n")
    except UnicodeDecodeError:
        raise ConvertError(f"{path}: a shortlist in text, but not UTF-8") from None
    for at, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or "NULL" in fields[:2]:
            continue
        try:
            target, source, number = fields
            probability = float(number)
            ids = src.get(source, src.get("<unk>")), tgt.get(target, tgt.get("<unk>"))
        except ValueError:
            raise ConvertError(f"{path}, line {at}: not a target, a source and a probability") from None
        if ids[0] is not None and ids[1] is not None and probability > least and ids[0] < n:
            lists.setdefault(ids[0], {})[ids[1]] = probability
    kept = [sorted(sorted(one, key=lambda at: (-one[at], -at))[:best])
            for one in (lists.get(at, {}) for at in range(n))]
    return (np.cumsum([0, *map(len, kept)]).astype("<u4"),
            np.array([one for part in kept for one in part], "<u4"))


# ------------------------------------------------------------------------------------ writing
def write_bin(path: Path | str, items: dict[str, tuple[int, list[int], bytes]]) -> None:
    """Type, dims and data by name; the file is whole or not there. Raises OSError."""
    def padded(data: bytes) -> bytes:
        return data + b"\0" * (-len(data) % ALIGNMENT)

    head = struct.pack("<QQ", 1, len(items))
    head += b"".join(struct.pack("<QQQQ", len(name) + 1, kind, len(dims), len(padded(data)))
                     for name, (kind, dims, data) in items.items())
    head += b"".join(name.encode() + b"\0" for name in items)
    head += b"".join(struct.pack(f"<{len(dims)}i", *dims) for _, dims, _ in items.values())
    gap = -(len(head) + 8) % ALIGNMENT
    head += struct.pack("<Q", gap) + b"\0" * gap
    write_file(path, [head], (padded(data) for _, _, data in items.values()))


def float_item(array: np.ndarray) -> tuple[int, list[int], bytes]:
    dims = list(array.shape) if array.ndim > 1 else [1, array.size]
    return F32, dims, np.ascontiguousarray(array, "<f4").tobytes()


def int8_item(name: str, array: np.ndarray, limit: float) -> tuple[int, list[int], bytes]:
    """One scale for the whole matrix [in, out], its largest value limit."""
    scale = np.float32(limit / max(np.abs(array).max(), 1e-30))
    rounded = np.clip(np.rint(array * scale), -127, 127).astype("i1")
    stored = rounded if "Wemb" in name else rounded.T
    return (INTGEMM8, list(array.shape),
            np.ascontiguousarray(stored).tobytes() + struct.pack("<f", scale))


def marian_names(tensors: dict[str, np.ndarray], config: dict[str, Any]) -> dict[str, np.ndarray]:
    """The model file's floats under Marian's names, matrices [in, out]."""
    rest, out = dict(tensors), {}

    def move(new: str, old: str, matrix: bool = False) -> None:
        value = rest.pop(old, None)
        if value is None:
            raise ConvertError(f"{old} is missing: Marian has it")
        out[new] = value.T if matrix else value

    def norm(new: str, old: str) -> None:
        end = "_pre" if config.get("norm") == "pre" else ""
        move(f"{new}_ln_scale{end}", f"{old}.weight")
        move(f"{new}_ln_bias{end}", f"{old}.bias")

    def attention(new: str, old: str) -> None:
        for kind in ("weight", "bias"):
            packed = rest.pop(f"{old}.in_proj_{kind}", None)
            if packed is not None:
                rest.update(zip((f"{old}.{letter}_proj.{kind}" for letter in "qkv"), np.split(packed, 3)))
        for letter, name in zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj")):
            move(f"{new}_W{letter}", f"{old}.{name}.weight", True)
            move(f"{new}_b{letter}", f"{old}.{name}.bias")

    two = "tgt_embedding.weight" in rest
    move("encoder_Wemb" if two else "Wemb", "src_embedding.weight")
    if two:
        move("decoder_Wemb", "tgt_embedding.weight")
    if "generator.weight" in rest:
        move("decoder_ff_logit_out_W", "generator.weight", True)
    move("decoder_ff_logit_out_b", "generator.bias")
    bias = np.array(out["decoder_ff_logit_out_b"], "f4")
    bias[config.get("suppressed", [])] = -1e4
    out["decoder_ff_logit_out_b"] = bias
    for side in ("encoder", "decoder"):
        for at in range(config[f"n_{side}_layers"]):
            new, old = f"{side}_l{at + 1}", f"{side}.layers.{at}"
            if f"{old}.ssru.weight" in rest:
                move(f"{new}_rnn_W", f"{old}.ssru.weight", True)
                move(f"{new}_rnn_Wf", f"{old}.ssru_gate.weight", True)
                move(f"{new}_rnn_bf", f"{old}.ssru_gate.bias")
                norm(f"{new}_rnn_ffn", f"{old}.norm1")
            else:
                attention(f"{new}_self", f"{old}.self_attn")
                norm(f"{new}_self_Wo", f"{old}.norm1")
            if side == "decoder":
                attention(f"{new}_context", f"{old}.multihead_attn")
                norm(f"{new}_context_Wo", f"{old}.norm2")
            for one in "12":
                move(f"{new}_ffn_W{one}", f"{old}.linear{one}.weight", True)
                move(f"{new}_ffn_b{one}", f"{old}.linear{one}.bias")
            norm(f"{new}_ffn_ffn", f"{old}.norm{2 + (side == 'decoder')}")
        if f"{side}.norm.weight" in rest:
            move(f"{side}_top_ln_scale", f"{side}.norm.weight")
            move(f"{side}_top_ln_bias", f"{side}.norm.bias")
    if rest:
        raise ConvertError(f"{next(iter(rest))}: Marian has no place for it")
    return out


def marian_options(tensors: dict[str, np.ndarray], config: dict[str, Any]) -> str:
    pre, ssru = config.get("norm") == "pre", "decoder.layers.0.ssru.weight" in tensors
    shape = tensors["encoder.layers.0.linear1.weight"].shape
    vocabularies = [len(tensors.get(name, tensors["src_embedding.weight"]))
                    for name in ("src_embedding.weight", "tgt_embedding.weight")]
    two = "tgt_embedding.weight" in tensors
    options = {
        "type": "transformer", "dim-emb": shape[1], "dim-vocabs": vocabularies,
        "enc-depth": config["n_encoder_layers"], "dec-depth": config["n_decoder_layers"],
        "transformer-heads": config["n_heads"], "transformer-dim-ffn": shape[0],
        "transformer-ffn-activation": config["activation"],
        "transformer-preprocess": "n" if pre else "", "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-emb": "d", "transformer-postprocess-top": "n" if pre else "",
        "transformer-decoder-autoreg": "rnn" if ssru else "self-attention", "dec-cell": "ssru",
        "tied-embeddings-all": "generator.weight" not in tensors and not two,
        "tied-embeddings": "generator.weight" not in tensors and two, "skip": False, "version": "v1.9.0"}
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items())


def check_marian(config: dict[str, Any]) -> None:
    wanted = {"positions": "sinusoidal_halves", "position_divisor": "d/2-1", "layer_norm_eps": 1e-6,
              "embedding_scale": "sqrt_d", "start_embedding": "zero"}
    for key, value in wanted.items():
        if config.get(key) != value:
            raise ConvertError(f"{key} is {brief(config.get(key))}; Marian computes {value!r}")
    if config.get("activation") not in ("relu", "swish"):
        raise ConvertError(f"activation is {brief(config.get('activation'))}; relu and swish are "
                           f"Marian's too")
    if config.get("src_text") != "sentencepiece" or config.get("tgt_text") != "sentencepiece":
        raise ConvertError("Marian's text here is a SentencePiece model, on both sides")


def write_model(model: Path | str, out: Path | str, int8: bool = False,
                activations: dict[str, float] | None = None, limit: float = 127) -> None:
    """activations: the largest value that each of Marian's matrices is expected to be multiplied by. With
    them, or with factors of inputs in the model file, the .bin is int8 and has static factors."""
    tensors, metadata = read_safetensors(Path(model))
    try:
        config = parse_json(metadata["transformer.config"].encode(), str(model))
    except KeyError:
        raise ConvertError(f"{model}: not a model file") from None
    check_marian(config)
    factors = {name.removesuffix("_input_factor"): tensors.pop(name)
               for name in [*tensors] if name.endswith("_input_factor")}
    for name in [name for name in tensors if name.endswith("_scale")]:
        weight = name.removesuffix("_scale")
        tensors[weight] = tensors[weight].astype("f4") * tensors.pop(name)[:, None]
    texts = {side: tensors.pop(f"{side}_sentencepiece", None) for side in ("src", "tgt")}
    values = {name: value.astype("f4") for name, value in tensors.items()
              if not name.startswith("shortlist.")}
    items = {}
    named = marian_names(values, config)
    if factors and not activations:
        table = values.get("tgt_embedding.weight", values["src_embedding.weight"])
        activations = {new: 127 / float(factor[0]) for old, factor in factors.items() for new, value in named.items()
                       if np.may_share_memory(value, values.get(old, table))}
    for name, value in named.items():
        matrix = value.ndim == 2
        items[name] = int8_item(name, value, limit) if matrix and (int8 or activations) else (
            float_item(value))
        if matrix and activations and name in activations:  # what a tied output is multiplied by has no name, so "none"
            for one in [name] + ["none"] * (name in ("Wemb", "decoder_Wemb")):
                items[f"{one}_QuantMultA"] = F32, [1], struct.pack("<f", 127 / activations[name])
    yml = marian_options(values, config).encode() + b"\0"
    items[CONFIG] = INT8, [len(yml)], yml
    write_bin(out, items)
    pair = re.sub(r"^model\.|\.bin$", "", Path(out).name)
    pair = pair.split(".")[0]
    two = texts["tgt"] is not None
    for side, text in texts.items():
        if text is not None:
            name = f"{ {'src': 'srcvocab', 'tgt': 'trgvocab'}[side] if two else 'vocab'}.{pair}.spm"
            write_file(Path(out).parent / name, [text.tobytes()])


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="the model file to read")
    parser.add_argument("output", metavar="OUT", help="the .bin file to write")
    parser.add_argument("--int8", action="store_true", help="write int8 matrices instead of f32")
    options = parser.parse_args(arguments)
    try:
        write_model(options.model, options.output, options.int8)
    except (ConvertError, OSError) as error:
        print(f"marian_bin.py: {visible(str(error))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
