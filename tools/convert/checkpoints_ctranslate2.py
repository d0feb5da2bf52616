"""checkpoints_ctranslate2.py: model directories of CTranslate2.

model.bin is a list of named variables, little-endian throughout. Its form by binary version:

    2    version, name of the specification, its revision, then the variables; the type of a
         variable follows from the width of its elements: 4 is f32, 2 is int16, 1 is int8
    3    and at the end aliases: names of variables that stand for others
    4    types by number: f32, int8, int16, int32, f16, bf16
    5    as 4 (the engine rounds before it casts when it quantizes)
    6    what is no number (special tokens, what is added to a source) stands in config.json

A weight in int8 has one scale a row, in int16 one scale for all (1000 where none is stored);
w = q / scale. Absent attributes have the engine's defaults: 8 heads, norms before the layers, relu,
embeddings times sqrt(d), positions from 1 with sines before cosines and divisor d/2 - 1.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import decoding
from . import tokenizer_files
from . import whisper
from .checkpoints_gemma import frequencies
from .modelfile import (BF16, SENTENCES, Checkpoint, Comparison, Config, ConvertError, Forward, Model, NoComparison,
                       Part, Tensors, describe, name_positions, same, to_f32, vocabulary_text)
from .untrusted import (CUT, brief, check_kinds, has_file, read_bytes, read_json, read_object,
                       read_text)

SPECIFICATIONS = {"": 8, "TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}  # heads
TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "bf16")
TYPES_BY_WIDTH = {4: "<f4", 2: "<i2", 1: "i1"}
ACTIVATIONS = ("relu", "gelu_tanh", "swish", "gelu", "gelu_sigmoid")
GLOBAL_INT16_SCALE = 1000.0

# Variables that are no weights. Those of the first group shape nothing that is computed here.
IGNORED = r"(.*/)?(embeddings_merge|alibi_use_positive_positions)"
ATTRIBUTES = (r"(.*/)?(num_heads|pre_norm|activation|scale_embeddings|multiply_by_sqrt_depth|"
              r"start_from_zero_embedding|queries_scale|alignment_layer|alignment_heads|"
              r"relative_attention_max_distance|scale_outputs|num_heads_kv|head_dim|rotary_\w+|sliding_window|"
              r"original_max_position_embeddings|max_position_embeddings|merged_encoder_attention|final_logit_softcapping)")
ABOUT_TEXT = ("unk_token", "bos_token", "eos_token", "with_source_bos", "with_source_eos",
              "with_target_bos", "user_decoder_start_tokens")
# Flags that mean something else only when they are set.
MUST_BE_ZERO = r"(.*/)?(alibi|scale_alibi|multi_query|multi_query_attention|layer_norm_use_residual)"
# What transformer.h does not compute, by the names that tell.
REFUSED = {
    r".*/relative_(position_keys|position_values|asymmetric_.*)": "positions relative to each other",
    r".*/(attention|encoder_attention)/relative_.*|(?!.*/self_attention/).*/relative_.*":
        "positions relative to each other in another attention than the layers' own",
    r".*/rotary_scaling_(long|short)_factor|.*/(attention|encoder_attention)/rotary_.*": "rotary positions of another kind",
    r".*/weight_zero": "weights quantized with zero points",
    r".*/project_(in|out)/.*": "projections around the decoder",
    r"encoder/scale_outputs": "scaled outputs",
    r".*/v_norm/.*|.*/attention/[qk]_norm/.*": "norms on values, or on queries and keys of cross-attention",
    r".*/shared_layer_norm/.*": "layers with other norms",
    r".*/layer_scalar": "layers of another kind",
    r"encoder/embeddings_[1-9]\d*/.*": "more than one source token at a position",
}

WEIGHTS = {
    r"encoder/embeddings(_0)?/weight": "src_embedding.weight",
    r"decoder/embeddings/weight": "tgt_embedding.weight",
    r"encoder/layernorm_embedding/": "src_embedding_norm.",
    r"decoder/layernorm_embedding/": "tgt_embedding_norm.",
    r"(encoder|decoder)/layer_norm/": r"\1.norm.",
    r"decoder/projection/": "generator.",
    r"(encoder|decoder)/layer_(\d{1,4})/self_attention/layer_norm/": r"\1.layers.\2.norm1.",
    r"(encoder|decoder)/layer_(\d{1,4})/self_attention/linear_1/":
        r"\1.layers.\2.self_attn.out_proj.",
    r"(encoder|decoder)/layer_(\d{1,4})/ffn/linear_0/": r"\1.layers.\2.linear1.",
    r"(encoder|decoder)/layer_(\d{1,4})/ffn/linear_0_noact/": r"\1.layers.\2.linear1_noact.",
    r"(encoder|decoder)/layer_(\d{1,4})/ffn/linear_1/": r"\1.layers.\2.linear2.",
    r"encoder/layer_(\d{1,4})/ffn/layer_norm/": r"encoder.layers.\1.norm2.",
    r"decoder/layer_(\d{1,4})/attention/layer_norm/": r"decoder.layers.\1.norm2.",
    r"decoder/layer_(\d{1,4})/attention/linear_0/": r"decoder.layers.\1.multihead_attn.q_proj.",
    r"decoder/layer_(\d{1,4})/attention/linear_2/": r"decoder.layers.\1.multihead_attn.out_proj.",
    r"decoder/layer_(\d{1,4})/ffn/layer_norm/": r"decoder.layers.\1.norm3.",
    # layers with norms before and after each sub-layer (T5Gemma)
    r"(encoder|decoder)/layer_(\d{1,4})/self_attention/([qk])_norm/": r"\1.layers.\2.self_attn.\3_norm.",
    r"(encoder|decoder)/layer_(\d{1,4})/input_layer_norm/": r"\1.layers.\2.norm1.",
    r"(encoder|decoder)/layer_(\d{1,4})/post_attention_layer_norm/": r"\1.layers.\2.norm1_out.",
    r"decoder/layer_(\d{1,4})/external_pre_encoder_attention_layer_norm/": r"decoder.layers.\1.norm2.",
    r"decoder/layer_(\d{1,4})/external_post_encoder_attention_layer_norm/": r"decoder.layers.\1.norm2_out.",
    r"encoder/layer_(\d{1,4})/pre_feedforward_layer_norm/": r"encoder.layers.\1.norm2.",
    r"encoder/layer_(\d{1,4})/post_feedforward_layer_norm/": r"encoder.layers.\1.norm2_out.",
    r"decoder/layer_(\d{1,4})/pre_feedforward_layer_norm/": r"decoder.layers.\1.norm3.",
    r"decoder/layer_(\d{1,4})/post_feedforward_layer_norm/": r"decoder.layers.\1.norm3_out.",
}
LEAVES = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
# Several projections in one tensor, from the first row on.
PACKED = {
    r"(encoder|decoder)/layer_(\d{1,4})/self_attention/linear_0/": (r"\1.layers.\2.self_attn.", "qkv"),
    r"decoder/layer_(\d{1,4})/attention/linear_1/": (r"decoder.layers.\1.multihead_attn.", "kv"),
    r"decoder/layer_(\d{1,4})/self_attention/memory_kv/": (r"decoder.layers.\1.memory_", "kv"),
}
PRE_POST = ("input_layer_norm", "post_attention_layer_norm", "pre_feedforward_layer_norm", "post_feedforward_layer_norm")


@dataclass
class Binary:
    """model.bin as it is: arrays by name, aliases resolved."""

    version: int
    specification: str
    revision: int
    arrays: dict[str, np.ndarray]
    types: dict[str, str]

    def attribute(self, name: str, default: Any) -> Any:
        value = self.arrays.get(name)
        if value is None:
            return default
        if value.size != 1 or value.dtype == BF16:
            raise ConvertError(f"{name} {describe(value)}: one number was expected")
        return value.item()

    def text(self, name: str, default: str) -> str:
        value = self.arrays.get(name)
        return default if value is None else value.tobytes().decode("utf-8", "replace")


class Reader:
    """Steps through the bytes; an end too early is a ConvertError."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.at = path, read_bytes(path), 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ConvertError(f"{self.path}: ends at byte {len(self.data)}, within something of "
                               f"{size} bytes that begins at byte {self.at}{CUT}")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack("<" + form, self.take(struct.calcsize(form)))[0])

    def name(self) -> str:
        raw = self.take(self.number("H"))
        try:
            return raw.split(b"\0")[0].decode()
        except UnicodeDecodeError:
            raise ConvertError(f"{self.path}: before byte {self.at}: a name that is not "
                               f"UTF-8") from None


def is_ctranslate2(path: Path) -> bool:
    return path.is_dir() and has_file(path, "model.bin")


def read_binary(path: Path) -> Binary:
    reader = Reader(path)
    version = reader.number("I")
    if not 2 <= version <= 6:
        raise ConvertError(f"{path}: binary version {version}; versions 2 to 6 can be read "
                           f"(if it is a model of CTranslate2 at all)")
    binary = Binary(version, reader.name(), reader.number("I"), {}, {})
    for _ in range(reader.number("I")):
        name = reader.name()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        code, size = reader.number("B"), reader.number("I")
        kind = (TYPES[code] if code < len(TYPES) else None) if version >= 4 else (
            TYPES_BY_WIDTH.get(code))
        if kind is None:
            raise ConvertError(f"{path}: {name}: element type {code} is unknown")
        raw = reader.take(size if version >= 4 else size * code)
        form = BF16 if kind == "bf16" else np.dtype(kind)
        if len(shape) > 8 or len(raw) != math.prod(shape) * form.itemsize:
            raise ConvertError(f"{path}: {brief(name)}: {len(raw)} bytes of type {kind} for the "
                               f"shape {brief(shape)}")
        if name in binary.arrays:
            raise ConvertError(f"{path}: duplicate variable {brief(name)}")
        try:
            binary.arrays[name] = np.frombuffer(raw, form).reshape(shape)
        except ValueError:  # 0 elements, and a product that NumPy's sizes do not hold
            raise ConvertError(f"{path}: {brief(name)}: the shape {brief(shape)}") from None
        binary.types[name] = kind
    for _ in range(reader.number("I") if version >= 3 else 0):
        alias, name = reader.name(), reader.name()
        if alias in binary.arrays:
            raise ConvertError(f"{path}: duplicate variable {brief(alias)}")
        for end in ("", "_scale"):
            if name + end in binary.arrays:
                binary.arrays.setdefault(alias + end, binary.arrays[name + end])
                binary.types.setdefault(alias + end, binary.types[name + end])
            elif not end:
                raise ConvertError(f"{path}: {brief(alias)} stands for {brief(name)}, which is "
                                   f"missing")
    if reader.at != len(reader.data):
        raise ConvertError(f"{path}: {len(reader.data) - reader.at} bytes after the last variable")
    return binary


def to_tensor(binary: Binary, name: str) -> np.ndarray:
    """A weight as floats; quantized ones by their scales."""
    array, kind = binary.arrays[name], binary.types[name]
    if kind in ("bf16", "<f4", "<f2"):
        return array
    if kind not in ("i1", "<i2") or not name.endswith("/weight"):
        raise ConvertError(f"{name}: integers where a weight was expected")
    scale = binary.arrays.get(f"{name}_scale")
    if scale is None:
        if kind == "i1":
            raise ConvertError(f"{name} is int8 and {name}_scale is missing")
        scale = np.float32(GLOBAL_INT16_SCALE)
    scale = to_f32(np.asarray(scale))
    if not (np.isfinite(scale).all() and scale.all()):
        raise ConvertError(f"{name}: a scale that is 0 or not finite")
    if array.ndim == 0 or scale.shape not in ((), (1,), array.shape[:1]):
        raise ConvertError(f"{name} {list(array.shape)}: its scales are {list(scale.shape)}")
    if scale.ndim and len(scale) == len(array):
        scale = scale.reshape(-1, *[1] * (array.ndim - 1))
    return array.astype(np.float32) / scale


def to_tensors(binary: Binary, names: list[str]) -> Tensors:
    """An alias is the array of the name that it stands for, not a copy."""
    tensors: Tensors = {}
    made: dict[tuple[int, int], np.ndarray] = {}
    for name in names:
        key = id(binary.arrays[name]), id(binary.arrays.get(f"{name}_scale"))
        if key not in made:
            made[key] = to_tensor(binary, name)
        tensors[name] = made[key]
    return tensors


# ------------------------------------------------------------------------------------- the config
def side_values(binary: Binary, name: str, default: Any) -> list[Any]:
    """An attribute of both stacks; old models have it once for both."""
    once = binary.attribute(name, default)
    return [binary.attribute(f"{side}/{name}", once) for side in ("encoder", "decoder")]


def alignment_heads(binary: Binary, heads: int) -> list[list[int]]:
    """Which heads' attention the engine returns: the first few of a layer, or all of it."""
    if heads < 1:
        return []  # what checks the config refuses it
    layers = {int(match[1]) for name in binary.arrays
              if (match := re.match(r"decoder/layer_(\d+)/", name))}
    layer = int(binary.attribute("decoder/alignment_layer", -1))
    first = int(binary.attribute("decoder/alignment_heads", 1))
    last = max(layers, default=0)
    layer = last + 1 + layer if layer < 0 else layer
    if not 0 <= layer <= last or not 0 <= first <= heads:
        raise ConvertError(f"alignment_layer {layer}, alignment_heads {first}: the decoder has "
                           f"{last + 1} layers of {heads} heads")
    everything = first in (0, heads)
    if everything and layer == last:
        return []
    return [[layer, head] for head in range(heads if everything else first)]


def same_for_both(binary: Binary, name: str, default: Any) -> Any:
    values = side_values(binary, name, default)
    if values[0] != values[1]:
        raise ConvertError(f"{name} is {values[0]} in the encoder and {values[1]} in the decoder; "
                           f"transformer.h has one for both")
    return values[0]


def embedding_scale(binary: Binary, side: str) -> int | float | str:
    names = [f"{side}/scale_embeddings"] + [f"{side}/{embeddings}/multiply_by_sqrt_depth"
                                            for embeddings in ("embeddings_0", "embeddings")]
    name = next((one for one in names if one in binary.arrays), None)
    if name is None:
        return "sqrt_d"
    value = binary.attribute(name, 1)
    if binary.types[name] == "i1":
        return "sqrt_d" if value else 1
    width = next((array.shape[-1] for one, array in binary.arrays.items() if array.ndim
                  and re.fullmatch(rf"{side}/embeddings(_0)?/weight", one)), 0)
    if value == 1:
        return 1
    return "sqrt_d" if abs(value - width ** 0.5) < 1e-6 * value else value


def refuse_others(binary: Binary) -> None:
    """Refuses variables that say what transformer.h does not compute."""
    for name, array in binary.arrays.items():
        if re.fullmatch(MUST_BE_ZERO, name) and any(array.tobytes()):
            raise ConvertError(f"{name} is set, and transformer.h does not compute that")
        for pattern, what in REFUSED.items():
            if re.fullmatch(pattern, name):
                raise ConvertError(f"{name}: this model has {what}, which transformer.h does not "
                                   f"compute")


def read_attributes(binary: Binary) -> Config:
    refuse_others(binary)
    config: Config = {"n_heads": SPECIFICATIONS[binary.specification]}
    if binary.revision >= 3:
        config["n_heads"] = same_for_both(binary, "num_heads", 8)
    config["norm"] = "pre" if same_for_both(binary, "pre_norm", 1) else "post"
    codes = side_values(binary, "activation", 0)
    for code in codes:
        if code not in range(len(ACTIVATIONS)):
            what = {5: "tanh", 6: "sigmoid"}.get(code, "unknown")
            raise ConvertError(f"activation {code} ({what}): transformer.h has "
                               + ", ".join(ACTIVATIONS))
    config["layer_norm"], config["activation"] = "layer_norm", ACTIVATIONS[codes[0]]
    if codes[1] != codes[0]:
        config["decoder_activation"] = ACTIVATIONS[codes[1]]
    scales = [embedding_scale(binary, side) for side in ("encoder", "decoder")]
    if scales[0] != scales[1]:
        raise ConvertError(f"embeddings are multiplied by {scales[0]} in the encoder and by "
                           f"{scales[1]} in the decoder; transformer.h has one factor for both")
    config["embedding_scale"] = scales[0]
    queries = {binary.attribute(name, 0) for name in binary.arrays
               if name.endswith("/queries_scale")}
    if len(queries) > 1:
        raise ConvertError(f"queries_scale differs between layers: {sorted(queries)}")
    if queries:
        config["attention_scale"] = queries.pop()
    named = alignment_heads(binary, int(config["n_heads"])) if "n_heads" in config else []
    if named:
        config["alignment_heads"] = named
    if binary.attribute("decoder/start_from_zero_embedding", 0):
        config["start_embedding"] = "zero"
    config.update(read_t5(binary))
    config.update(read_rotary(binary))
    if "positions" not in config and not any(
            name.endswith("/position_encodings/encodings") for name in binary.arrays):
        config.update(positions="sinusoidal_halves", position_divisor="d/2-1", position_offset=1)
    return config


def read_t5(binary: Binary) -> Config:
    """Norms without a bias are those by the root mean square, and relative positions are all that
    there are."""
    config: Config = {}
    if not any(name.endswith("/beta") for name in binary.arrays) and any(
            name.endswith("/gamma") for name in binary.arrays):
        config.update(layer_norm="rms_norm", layer_norm_eps=1e-6)
    distances = {binary.attribute(name, 128) for name in binary.arrays
                 if name.endswith("/relative_attention_max_distance")}
    if len(distances) > 1:
        raise ConvertError(f"relative_attention_max_distance differs: {sorted(distances)}")
    if distances:
        config.update(relative_max_distance=distances.pop(), positions="none")
    return config


def layers_of(binary: Binary, side: str) -> list[str]:
    found = {int(match[1]) for name in binary.arrays if (match := re.match(rf"{side}/layer_(\d{{1,4}})/", name))}
    return [f"{side}/layer_{i}" for i in range(max(found, default=-1) + 1)]


def read_rotary(binary: Binary) -> Config:
    """What layers of T5Gemma have: rotary positions, windows, and one attention over target and source. The engine uses
    windows only in steps of a decoder with two attentions. This does the same."""
    config: Config = {}
    layouts: set[bool] = set()
    merged: set[bool] = set()
    windows: list[list[int]] = []
    turning: dict[bool, list[str]] = {True: [], False: []}
    for side in ("encoder", "decoder"):
        for i, layer in enumerate(layers_of(binary, side)):
            attention = f"{layer}/self_attention"
            norms = [one for one in PRE_POST if f"{layer}/{one}/gamma" in binary.arrays]
            if norms and len(norms) < len(PRE_POST):
                raise ConvertError(f"{layer}/{norms[0]}: layers have all of " + ", ".join(PRE_POST) + ", or none of them")
            width = binary.attribute(f"{attention}/rotary_dim", -1)
            turning[width >= 0].append(attention)
            if width >= 0:
                if width % 2:
                    raise ConvertError(f"{attention}/rotary_dim is {width}, which is odd; columns turn in pairs")
                layouts.add(bool(binary.attribute(f"{attention}/rotary_interleave", 1)))
            if f"{attention}/num_heads_kv" in binary.arrays:
                config["n_kv_heads" if side == "encoder" else "n_kv_heads_decoder"] = binary.attribute(
                    f"{attention}/num_heads_kv", 0)
            if side == "encoder":
                continue
            merged.add(bool(binary.attribute(f"{attention}/merged_encoder_attention", 0)))
            window = binary.attribute(f"{attention}/sliding_window", 0)
            if window < 0:
                raise ConvertError(f"{attention}/sliding_window is {window}")
            windows += [[i, int(window), 1]] if window else []
    if turning[True] and turning[False]:
        raise ConvertError(f"{turning[True][0]}/rotary_dim is there, and {turning[False][0]} has none; transformer.h has "
                           f"rotary positions in all layers of a model or in none")
    for own, other in (("n_kv_heads", "n_kv_heads_decoder"), ("n_kv_heads_decoder", "n_kv_heads")):
        if other in config:
            config.setdefault(own, SPECIFICATIONS[binary.specification] if binary.revision < 3 else
                              same_for_both(binary, "num_heads", 8))
    if len(merged) > 1:
        raise ConvertError("merged_encoder_attention differs between layers; transformer.h has one for all")
    if len(layouts) > 1:
        raise ConvertError("rotary_interleave differs between layers; transformer.h has one for all")
    if layouts:
        config["positions"] = "none"
    if layouts == {True}:
        config["rotary_layout"] = "interleaved"
    if merged == {True}:
        config["cross_attention"] = "merged"
    elif windows:
        config["decoder_windows"] = windows
    if cap := binary.attribute("decoder/final_logit_softcapping", 0):
        config["logit_cap"] = cap
    return config


def place_rotary(binary: Binary, model: Model) -> None:
    """Frequencies: one tensor for a side whose layers have the same, else one for each layer. Then the numbers of norms and
    the keys and values of the memory, where the decoder's layers have one attention."""
    for side in ("encoder", "decoder"):
        tables = []
        for layer in layers_of(binary, side):
            scope = f"{layer}/self_attention"
            kind = {-1: "default", 0: "linear", 2: "llama3"}.get(binary.attribute(f"{scope}/rotary_scaling_type", -1))
            if (width := binary.attribute(f"{scope}/rotary_dim", -1)) < 0:
                continue
            if kind is None:
                raise ConvertError(f"{scope}/rotary_scaling_type is {binary.attribute(f'{scope}/rotary_scaling_type', -1)}; "
                                   f"transformer.h has 0 (linear) and 2 (llama3)")
            width = width or head_width(binary, scope)
            rope = {"rope_type": kind, "rope_theta": binary.attribute(f"{scope}/rotary_base", 10000.0),
                    "factor": binary.attribute(f"{scope}/rotary_scaling_factor", 1.0),
                    "low_freq_factor": binary.attribute(f"{scope}/rotary_low_freq_factor", 1.0),
                    "high_freq_factor": binary.attribute(f"{scope}/rotary_high_freq_factor", 4.0),
                    "original_max_position_embeddings": binary.attribute(f"{scope}/original_max_position_embeddings", 0)}
            tables.append((layer, frequencies(rope, width, scope)[0]))
        if len(tables) == len(layers_of(binary, side)) and all(np.array_equal(tables[0][1], one) for _, one in tables):
            tables = tables[:1]
            if tables:
                model.put(f"{side}.rotary.frequencies", f"{tables[0][0]}/self_attention/rotary_base", tables[0][1])
            continue
        for layer, table in tables:
            model.put(f"{side}.layers.{layer.split('_')[-1]}.self_attn.rotary.frequencies",
                      f"{layer}/self_attention/rotary_base", table)
    if model.facts.get("cross_attention") != "merged":
        return
    for i, _ in enumerate(layers_of(binary, "decoder")):
        layer = f"decoder.layers.{i}"
        for end in ("", "_out"):
            for leaf in ("weight", "bias"):
                if f"{layer}.norm3{end}.{leaf}" in model.tensors:
                    rename(model, f"{layer}.norm3{end}.{leaf}", f"{layer}.norm2{end}.{leaf}")
        for letter in "kv":
            for leaf in ("weight", "bias"):
                name, own = f"{layer}.memory_{letter}_proj.{leaf}", f"{layer}.self_attn.{letter}_proj.{leaf}"
                of_memory, of_target = model.tensors.pop(name, None), model.tensors.get(own)
                if (of_memory is None) != (of_target is None) or (
                        of_memory is not None and not same(of_memory, of_target)):
                    raise ConvertError(f"{model.origin.get(name, name)}: the projections of the source are not those of the "
                                       f"target; transformer.h has one for both")
                model.origin.pop(name, None)


def rename(model: Model, old: str, new: str) -> None:
    model.tensors[new], model.origin[new] = model.tensors.pop(old), model.origin.pop(old)


def head_width(binary: Binary, scope: str) -> int:
    """The columns of a head, from the rows of the projections of queries, keys and values together."""
    heads = binary.attribute(f"{scope.split('/')[0]}/num_heads", SPECIFICATIONS[binary.specification])
    groups = binary.attribute(f"{scope}/num_heads_kv", heads)
    rows = len(binary.arrays.get(f"{scope}/linear_0/weight", ()))
    if heads < 1 or groups < 1 or heads % groups or rows < 1 or rows % (heads + 2 * groups):
        raise ConvertError(f"{scope}: {rows} rows are not those of {heads} heads of queries and twice {groups} of keys and "
                           f"values, a number that divides {heads}")
    return int(rows // (heads + 2 * groups))


def family_of(model: Model) -> str:
    """The family by what only its models have. CTranslate2 also runs BART, PEGASUS, T5 and T5Gemma, which read whole
    texts."""
    if "decoder.layers.0.norm1_out.weight" in model.tensors:
        return "t5gemma"
    if "relative_max_distance" in model.facts:
        return "madlad" if model.facts.get("src_language") == "target" else "t5"
    if model.facts.get("norm") == "post" and "src_embedding_norm.weight" in model.tensors:
        return "bart"
    tokens = model.texts["src_vocabulary"].split(b"\n", 200)
    return "pegasus" if b"<mask_1>" in tokens or b"<unk_2>" in tokens else "ctranslate2"


def place_t5(tensors: Tensors, binary: Binary, model: Model) -> None:
    """Tables of relative positions, the gate, and scaled outputs, which go into the last norm."""
    for side in ("encoder", "decoder"):
        names = [name for name in tensors if re.fullmatch(
            rf"{side}/layer_\d{{1,4}}/self_attention/relative_attention_bias", name)]
        shared = len(names) > 1 and all(np.array_equal(tensors[name], tensors[names[0]])
                                        for name in names)
        for name in names:
            layer = name.split("/")[1].removeprefix("layer_")
            model.put(f"{side}.relative_positions.weight" if shared or len(names) == 1 else
                      f"{side}.layers.{layer}.self_attn.relative_positions.weight", name,
                      tensors.pop(name))
    for name in [name for name in model.tensors if ".linear1_noact." in name]:
        linear = name.replace("_noact", "")  # what is activated is the gate
        for new, old in ((name.replace("_noact", "_gate"), linear), (linear, name)):
            if old in model.tensors:
                model.tensors[new], model.origin[new] = (model.tensors.pop(old),
                                                         model.origin.pop(old))
    scale = float(binary.attribute("decoder/scale_outputs", 1))
    norm = model.tensors.get("decoder.norm.weight")
    if scale not in (0, 1) and norm is not None:
        model.tensors["decoder.norm.weight"] = to_f32(norm) * np.float32(scale)
        if "decoder.norm.bias" in model.tensors:
            model.tensors["decoder.norm.bias"] = to_f32(
                model.tensors["decoder.norm.bias"]) * np.float32(scale)
        model.notes.append(f"decoder.norm: times {scale:.6g}, as the outputs are scaled")


# ------------------------------------------------------------------------------------ the weights
def spell(name: str) -> str | None:
    """The model file's name of a variable that is one of its tensors as it stands."""
    parent, _, leaf = name.rpartition("/")
    for pattern, new in WEIGHTS.items():
        if re.fullmatch(pattern, name):
            return new
        if pattern.endswith("/") and leaf in LEAVES and re.fullmatch(pattern, parent + "/"):
            return re.sub(pattern, new, parent + "/") + LEAVES[leaf]
    return None


def merges(binary: Binary | None) -> bool:
    return binary is not None and any(name.endswith("/merged_encoder_attention") for name in binary.arrays)


def place(tensors: Tensors, stated: Config, model: Model, binary: Binary | None = None) -> Tensors:
    """Puts tensors into the model; returns those that it does not know. binary says how many heads the keys have."""
    rest: Tensors = {}
    tables: Tensors = {}
    for name, tensor in tensors.items():
        parent, _, leaf = name.rpartition("/")
        packed = next((pattern for pattern in PACKED if re.fullmatch(pattern, parent + "/")), None)
        new = spell(name)
        if new:
            model.put(new, name, tensor)
        elif packed and leaf in ("weight", "bias"):
            attention, letters = PACKED[packed]
            attention = re.sub(packed, attention, parent + "/")
            width = 0
            if letters == "qkv" and binary is not None and f"{parent.rpartition('/')[0]}/num_heads_kv" in binary.arrays:
                width = head_width(binary, parent.rpartition("/")[0])
                groups = width * binary.attribute(f"{parent.rpartition('/')[0]}/num_heads_kv", 0)
            if tensor.ndim == 0 or (len(tensor) % len(letters) and not width) or (
                    leaf == "weight" and tensor.ndim != 2):
                raise ConvertError(f"{name} {describe(tensor)}: the rows are those of "
                                   f"{', '.join(letters)} together, {len(letters)} equal parts")
            weight = tensors.get(f"{parent}/weight")
            square = weight is None or (weight.ndim == 2 and len(weight) == 3 * weight.shape[1])
            if letters == "qkv" and not width and not merges(binary) and square:
                model.put(f"{attention}in_proj_{leaf}", name, tensor)
                continue
            parts = [len(tensor) - 2 * groups, len(tensor) - groups] if width else len(letters)
            for letter, part in zip(letters, np.split(tensor, parts)):
                model.put(f"{attention}{letter}_proj.{leaf}", name, part)
        elif re.fullmatch(r"(encoder|decoder)/position_encodings/encodings", name):
            if tensor.ndim != 2:
                raise ConvertError(f"{name} {describe(tensor)}: not a table of positions")
            tables[name] = tensor
        else:
            rest[name] = tensor
    if len(tables) == 1:
        raise ConvertError(f"{next(iter(tables))}: only one side has a table of positions; "
                           f"transformer.h has one kind of positions for both")
    name_positions(tables, lambda name: ("src" if name.startswith("encoder") else "tgt",), stated,
                   model)
    return rest


# ----------------------------------------------------------------------------------- vocabularies
def read_tokens(folder: Path, side: str) -> tuple[list[str], Path]:
    for stem in (f"{side}_vocabulary", "shared_vocabulary"):
        path = folder / f"{stem}.json"
        if has_file(folder, path.name):
            tokens = read_json(path)
            if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens):
                raise ConvertError(f"{path}: not a list of tokens")
            return tokens, path
        path = folder / f"{stem}.txt"
        if has_file(folder, path.name):
            lines = read_text(path).removesuffix("\n").split("\n")
            returns = all(line.endswith("\r") for line in lines)
            return [line[:-1] for line in lines] if returns else lines, path
    raise ConvertError(f"{folder}: neither {side}_vocabulary nor shared_vocabulary (.json or .txt)")


def token_config(binary: Binary, folder: Path) -> Config:
    """config.json, or what stood in its stead before it was there."""
    if binary.version >= 6:
        path = folder / "config.json"
        config = read_object(path) if has_file(folder, path.name) else {}
        check_kinds(config, {**dict.fromkeys(
            ("unk_token", "bos_token", "eos_token", "decoder_start_token"), "text"),
            "layer_norm_epsilon": "number"}, str(path))
        config = {key: value for key, value in config.items() if value is not None
                  or key == "decoder_start_token"}
        defaults = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        config = {**defaults, **config}
        config.setdefault("decoder_start_token", config["bos_token"])
        return config
    config = {"unk_token": binary.text("unk_token", "<unk>"),
              "bos_token": binary.text("bos_token", "<s>"),
              "eos_token": binary.text("eos_token", "</s>"),
              "add_source_bos": binary.attribute("with_source_bos", 0),
              "add_source_eos": binary.attribute("with_source_eos", 0)}
    start = "bos_token" if binary.attribute("with_target_bos", 1) else "eos_token"
    by_user = binary.attribute("user_decoder_start_tokens", 0)
    config["decoder_start_token"] = None if by_user else config[start]
    return config


def read_texts(binary: Binary, folder: Path, model: Model, pieces: Path) -> Config:
    """Puts the vocabularies into the model; returns the ids of the special tokens. SentencePiece
    models are looked for in the directory pieces."""
    tokens = token_config(binary, folder)
    ids: dict[str, dict[str, int]] = {}
    for side, short in (("source", "src"), ("target", "tgt")):
        lines, path = read_tokens(folder, side)
        if tokens["unk_token"] not in lines:
            lines = lines + [tokens["unk_token"]]  # as the engine does
            model.notes.append(f"{path.name}: {tokens['unk_token']} is added after the last line, as "
                               f"CTranslate2 does")
        ids[short] = {token: i for i, token in reversed(list(enumerate(lines)))}
        model.texts[f"{short}_vocabulary"] = vocabulary_text(lines, path.name, model)
    if model.texts["tgt_vocabulary"] == model.texts["src_vocabulary"]:
        del model.texts["tgt_vocabulary"]

    def id_of(side: str, key: str) -> int:
        token = tokens[key]
        if token not in ids[side]:
            raise ConvertError(f"{key} {token!r} is not in the {side} vocabulary of {folder}")
        return ids[side][token]

    config: Config = {"src_unk": id_of("src", "unk_token"), "tgt_unk": id_of("tgt", "unk_token"),
                      "end": id_of("tgt", "eos_token"), "src_text": "words", "tgt_text": "words"}
    source, target = tokenizer_files.piece_files(pieces)
    if source:
        model.texts["src_sentencepiece"] = source
        config["src_text"] = config["tgt_text"] = "sentencepiece"
        if target and target != source:
            model.texts["tgt_sentencepiece"] = target
    config.update(tokenizer_files.find_languages({at: token for token, at in ids["src"].items()},
                                                 "ctranslate2", model))
    if tokens.get("add_source_bos"):
        config["src_start"] = id_of("src", "bos_token")
    if tokens.get("add_source_eos"):
        config["src_end"] = id_of("src", "eos_token")
    if tokens["decoder_start_token"] is not None:
        config["start"] = id_of("tgt", "decoder_start_token")
    else:
        model.warn("config.json names no start token (its user gives one with each target, a "
                   "language's for instance): --set start=TOKEN, or nothing can be decoded",
                   "start")
    if tokens.get("layer_norm_epsilon") is not None:
        config["layer_norm_eps"] = tokens["layer_norm_epsilon"]
    return config


# ------------------------------------------------------------------------------------- WhisperSpec
# What config.json holds, and what a variable must be if it is there.
WHISPER_KINDS = {"alignment_heads": "list of lists of integers",
                 **dict.fromkeys(("lang_ids", "suppress_ids", "suppress_ids_begin"),
                                 "list of integers")}
WHISPER_ONLY = {"decoder/activation": 3, "decoder/pre_norm": 1, "decoder/scale_embeddings": 0,
                "decoder/start_from_zero_embedding": 0}
WHISPER_NO_WEIGHTS = "|".join((IGNORED, ATTRIBUTES, MUST_BE_ZERO, r".*/weight_scale"))


def read_whisper(binary: Binary, folder: Path) -> Checkpoint:
    """A directory of faster-whisper. Its config.json and tokenizer.json say what the
    generation_config.json of a Hugging Face folder says."""
    if binary.revision < 3:
        raise ConvertError(f"{folder}: a WhisperSpec of revision {binary.revision}, which does not "
                           f"say how many heads it has; convert the Hugging Face folder")
    refuse_others(binary)
    for name, wanted in WHISPER_ONLY.items():
        if binary.attribute(name, wanted) != wanted:
            raise ConvertError(f"{name} is {binary.attribute(name, wanted)}, and Whisper's is {wanted}")
    said = read_object(folder / "config.json") if has_file(folder, "config.json") else {}
    check_kinds(said, WHISPER_KINDS, str(folder / "config.json"))
    if has_file(folder, "tokenizer.json"):
        said = {**said, "begin_suppress_tokens": said.get("suppress_ids_begin")}
    heads = {binary.attribute(f"{side}/num_heads", 0) for side in ("encoder", "decoder")}
    if len(heads) > 1:
        raise ConvertError(f"{sorted(heads)} heads in encoder and decoder; transformer.h has one "
                           f"number for both")
    tensors = to_tensors(binary, [name for name in binary.arrays
                                  if not re.fullmatch(WHISPER_NO_WEIGHTS, name)])

    def place_all(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        model.takes_vectors = True
        model.facts.update(n_heads=heads.pop(), norm="pre", layer_norm="layer_norm",
                           activation="gelu", embedding_scale=1, sentences=SENTENCES["whisper"])
        model.notes.append(f"layout: CTranslate2, binary version {binary.version}, WhisperSpec "
                           f"{binary.revision}")
        for part in [f"{conv}.{leaf}" for conv in ("conv1", "conv2") for leaf in ("weight", "bias")]:
            name = f"encoder/{part.replace('.', '/')}"
            if name in chosen:
                whisper.put_convolution(model, part, name, chosen.pop(name))
        rest = place(chosen, stated, model)
        rows = len(model.tensors.get("tgt_embedding.weight", ()))
        if has_file(folder, "tokenizer.json") and rows:
            model.facts.update(tokenizer_files.read_target(folder, {"model_type": "whisper"}, rows,
                                                           model))
            lines = model.texts["tgt_vocabulary"].decode().split("\n")
            for key, token in (("end", "<|endoftext|>"), ("start", "<|startoftranscript|>")):
                if token in lines:
                    model.facts[key] = lines.index(token)
        if said.get("suppress_ids"):
            model.facts["suppressed"] = sorted(one for one in said["suppress_ids"] if one >= 0)
        whisper.finish(said, model)
        return rest

    return Checkpoint(tensors, place_all)


# ---------------------------------------------------------------------------------- the directory
def read_checkpoint(folder: Path, pieces: Path | None = None) -> Checkpoint:
    binary = read_binary(folder / "model.bin")
    if binary.specification == "WhisperSpec":
        return read_whisper(binary, folder)
    if binary.specification not in SPECIFICATIONS:
        raise ConvertError(f"{folder}: a {brief(binary.specification)}; what transformer.h runs is a "
                           f"TransformerSpec, an encoder and a decoder of tokens, or a WhisperSpec")
    facts = read_attributes(binary)
    no_weights = "|".join((IGNORED, ATTRIBUTES, MUST_BE_ZERO, *ABOUT_TEXT, r".*/weight_scale"))
    tensors = to_tensors(binary, [name for name in binary.arrays
                                  if not re.fullmatch(no_weights, name)])
    for name in tensors:
        if (name.endswith("/gamma") and f"{name[:-5]}beta" not in tensors
                and facts["layer_norm"] != "rms_norm"):
            raise ConvertError(f"{name} without a beta: this model has two kinds of norms; transformer.h has "
                               f"one kind for all norms of a model")

    def place_all(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        facts.update(read_texts(binary, folder, model, pieces or folder))
        model.facts.update(facts)
        model.facts["decoding"] = decoding.from_ctranslate2(stated, model)
        model.notes.append(f"layout: CTranslate2, binary version {binary.version}, "
                           f"{binary.specification or 'no specification'} {binary.revision}")
        kinds = sorted({binary.types[name] for name in tensors} & {"i1", "<i2"})
        for kind in kinds:
            model.notes.append(f"{'int8' if kind == 'i1' else 'int16'} weights: as f32, by their "
                               f"scales")
        if has_file(folder, "vmap.txt"):
            model.notes.append("vmap.txt: left out, transformer.h always scores every token")
        if (not {"src_end", "src_start"} & set(model.facts)
                and ("start_embedding" in facts or facts.get("start") == facts["end"])):
            model.warn("this looks like a model of Marian or fairseq. Their tokenizers end a source "
                       "with the end token, but the directory does not show it: give "
                       "--set src_end=TOKEN", "src_end")
        rest = place(chosen, stated, model, binary)
        place_t5(rest, binary, model)
        place_rotary(binary, model)
        model.facts["sentences"] = SENTENCES[family_of(model)]
        return rest

    return Checkpoint(tensors, place_all, compare=lambda forward: compare(folder, forward))


def compare(folder: Path, forward: Forward) -> Comparison:
    """The log-probabilities of random targets, by the engine and by the file."""
    try:
        import ctranslate2
    except ImportError:
        raise NoComparison("the package ctranslate2 is not installed") from None
    model = Model()
    binary = read_binary(folder / "model.bin")
    facts = read_texts(binary, folder, model, folder)
    lines = {side: model.texts.get(f"{side}_vocabulary", model.texts["src_vocabulary"]).decode()
             .split("\n")[:-1] for side in ("src", "tgt")}
    if "start" not in facts:
        raise NoComparison("the directory names no start token")
    engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    random = np.random.default_rng(1)
    rows, length = 4, 8
    before = [facts["src_start"]] if "src_start" in facts else []
    after = [facts["src_end"]] if "src_end" in facts else []
    pairs = [[random.integers(0, len(lines[side]), length).tolist() for side in lines] for _ in range(rows)]
    wanted = np.array([engine.score_batch([[lines["src"][i] for i in src]], [[lines["tgt"][i] for i in tgt]])[0].log_probs
                       for src, tgt in pairs])

    def of_file(forward: Forward) -> list[np.ndarray]:
        found = []
        for src, tgt in pairs:
            ids = before + src + after
            logits = forward(np.array([ids]), np.array([len(ids)]),
                             np.array([[facts["start"], *tgt]]))["logits"][0].astype(np.float64)
            logits -= logits.max(-1, keepdims=True)
            found.append((logits - np.log(np.exp(logits).sum(-1, keepdims=True)))[range(length + 1), tgt + [facts["end"]]])
        return [np.array(found)]

    part = Part("log-probabilities", of_file(forward)[0], wanted)
    return Comparison(f"{rows} random targets through CTranslate2: log-probabilities differ by at most {part.worst():.2g}",
                      [part], of_file)
