"""checkpoints_moonshine.py: Moonshine and Moonshine streaming among Hugging Face's directories.

Both have a decoder with rotary positions in a part of each head (interleaved) and gated feed-forwards,
and norms without a bias. Their encoders differ:

    moonshine             three convolutions over raw sound and a norm, then layers with rotary positions.
                          The file has the layers as an encoder, and what is before them as extra.stem
    moonshine_streaming   frames of raw sound, two convolutions, then layers with windows and without
                          positions, of a width of their own. The file has all of it as extra.listen,
                          and the decoder as a model of memories

A program that transcribes (examples/transcribe/moonshine.h) computes the tensors named extra. One output of
a convolution is a matrix product over rows that overlap: its weights are [out, taps, in] here.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import config_fields
from .checkpoints_gemma import frequencies
from .modelfile import Config, ConvertError, Model, Tensors, describe, is_floating, shape_of, to_f32
from .untrusted import brief, check_kinds, visible

FAMILIES = ("moonshine", "moonshine_streaming")
STREAMING = "moonshine_streaming"
KINDS = {**dict.fromkeys(("hidden_size", "intermediate_size", "encoder_num_hidden_layers", "decoder_num_hidden_layers",
                          "encoder_num_attention_heads", "decoder_num_attention_heads", "encoder_num_key_value_heads",
                          "decoder_num_key_value_heads", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings", "sample_rate"), "integer"),
         **dict.fromkeys(("frame_ms", "rope_theta", "partial_rotary_factor"), "number"),
         **dict.fromkeys(("rope_parameters", "rope_scaling"), "object"),
         **dict.fromkeys(("hidden_act", "encoder_hidden_act", "decoder_hidden_act"), "text"),
         "sliding_windows": "list of lists of integers"}

SPELLING = (
    (r"^model\.", ""),
    (r"\.encoder_attn\.", ".multihead_attn."),
    (r"_attn\.o_proj\.", "_attn.out_proj."),
    (r"\.input_layernorm\.", ".norm1."),
    (r"\.post_attention_layernorm\.", ".norm2."),
    (r"\.final_layernorm\.", ".norm3."),
    (r"\.mlp\.fc([12])\.", r".linear\1."),
    (r"^encoder\.layer_norm\.", "encoder.norm."),
    (r"^encoder\.final_norm\.", "encoder.norm."),
    (r"^decoder\.embed_tokens\.", "tgt_embedding."),
    (r"^proj_out\.", "generator."),
)
STEM = {"encoder.conv1.weight": "extra.stem1.weight", "encoder.conv2.weight": "extra.stem2.weight",
        "encoder.conv2.bias": "extra.stem2.bias", "encoder.conv3.weight": "extra.stem3.weight",
        "encoder.conv3.bias": "extra.stem3.bias", "encoder.groupnorm.weight": "extra.stem_norm.weight",
        "encoder.groupnorm.bias": "extra.stem_norm.bias"}
TAPS = {"extra.stem1.weight": 127, "extra.stem2.weight": 7, "extra.stem3.weight": 3,
        "extra.listen.conv1.weight": 5, "extra.listen.conv2.weight": 5}
EMBEDDER = {f"encoder.embedder.{name}": f"extra.listen.{new}" for name, new in (
    ("linear.weight", "frames.weight"), ("comp.log_k", "log_k"), ("conv1.weight", "conv1.weight"),
    ("conv1.bias", "conv1.bias"), ("conv2.weight", "conv2.weight"), ("conv2.bias", "conv2.bias"))}
LIMIT = 9999  # layers, heads


def spell(name: str) -> str:
    for pattern, replacement in SPELLING:
        name = re.sub(pattern, replacement, name)
    return name


# ------------------------------------------------------------------------------------- the config
def read_sides(hf: dict[str, Any], path: str, ignored: set[str], notes: list[str]) -> None:
    """Checks the fields, and puts those of the encoder into hf under the names that moonshine has."""
    hf["where"] = path
    check_kinds({key: hf[key] for key in KINDS if hf.get(key) is not None}, KINDS, path)
    if hf["model_type"] == STREAMING:
        found = hf.get("encoder_config")
        where = f"{path}, encoder_config"
        if not isinstance(found, dict):
            raise ConvertError(f"{where}: missing")
        found = check_kinds(found, KINDS, where)
        fields = config_fields.MOONSHINE_ENCODER
        said = config_fields.read(fields, found, "moonshine_streaming_encoder", where, ignored, notes)
        encoder = {**config_fields.with_defaults(fields, found, said), "where": where}
        check_sizes(encoder, where, ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"))
        check_windows(encoder, where)
        hf["encoder_config"] = encoder
        check_sizes(hf, path, ("hidden_size", "num_hidden_layers", "num_attention_heads"))
        if hf.get("num_key_value_heads") not in (None, hf["num_attention_heads"]):
            raise ConvertError(f"{path}: num_key_value_heads is {hf['num_key_value_heads']} and num_attention_heads "
                               f"{hf['num_attention_heads']}; transformers computes a decoder of as many alone")
        hf["decoder_num_attention_heads"] = hf["num_attention_heads"]
        hf["decoder_num_hidden_layers"], hf["decoder_hidden_act"] = hf["num_hidden_layers"], hf["hidden_act"]
        return
    check_sizes(hf, path, ("hidden_size", "encoder_num_hidden_layers", "decoder_num_hidden_layers",
                           "encoder_num_attention_heads", "decoder_num_attention_heads"))
    heads = hf["encoder_num_attention_heads"]
    for key in ("encoder_num_key_value_heads", "decoder_num_attention_heads", "decoder_num_key_value_heads"):
        if hf.get(key) not in (None, heads):
            raise ConvertError(f"{path}: {key} is {hf[key]} and encoder_num_attention_heads {heads}; transformers has one "
                               f"number for all of them, that of the encoder's heads: write it here if the model has it")


def check_sizes(one: dict[str, Any], where: str, keys: tuple[str, ...]) -> None:
    for key in (*keys, "head_dim", "max_position_embeddings"):
        value = one.get(key)
        if value is None and key in keys:
            raise ConvertError(f"{where}: {key} is null")
        if value is not None and not 0 < value < 2 ** 31 or "layers" in key and value > LIMIT:
            raise ConvertError(f"{where}: {key} is {brief(value)}; it takes a number above 0")
    heads = one.get("num_attention_heads") or one["encoder_num_attention_heads"]
    groups = one.get("num_key_value_heads") or heads
    if heads % groups:
        raise ConvertError(f"{where}: num_key_value_heads {groups} does not divide num_attention_heads {heads}")
    if one.get("head_dim") is None and one["hidden_size"] < heads:
        raise ConvertError(f"{where}: {heads} heads of a hidden_size of {one['hidden_size']}")


def check_windows(encoder: dict[str, Any], where: str) -> None:
    rows = encoder.get("sliding_windows") or []
    n = encoder["num_hidden_layers"]
    if len(rows) < n:
        raise ConvertError(f"{where}: sliding_windows has {len(rows)} windows for {n} layers")
    for row in rows[:n]:
        if len(row) != 2 or not 0 < row[0] < 4096 or not 0 <= row[1] < 4096:
            raise ConvertError(f"{where}: sliding_windows has {brief(row)}; it takes a number of positions to the left, "
                               f"from 1 (the position itself) to 4095, and one to the right")
    rate, frame = encoder["sample_rate"], encoder["frame_ms"]
    if rate != 16000:
        raise ConvertError(f"{where}: sample_rate is {rate}; examples/transcribe reads sound of 16000")
    if not 1 <= frame_size(encoder) <= 16000:
        raise ConvertError(f"{where}: frame_ms is {frame}; a frame has 1 to 16000 samples")


def frame_size(encoder: dict[str, Any]) -> int:
    return round(encoder["sample_rate"] * encoder["frame_ms"] / 1000.0)


def head_width(hf: dict[str, Any]) -> int:
    return int(hf.get("head_dim") or hf["hidden_size"] // hf["decoder_num_attention_heads"])


def activation_of(hf: dict[str, Any], key: str, activations: dict[str, str]) -> str:
    if hf.get(key) not in activations:
        raise ConvertError(f"{hf['where']}: {key} {visible(str(hf.get(key)))}; transformer.h has "
                           + ", ".join(sorted(set(activations.values()))))
    return activations[hf[key]]


def facts(hf: dict[str, Any], activations: dict[str, str]) -> Config:
    heads, width = hf["decoder_num_attention_heads"], head_width(hf)
    found: Config = {"n_heads": heads, "d_model": hf["hidden_size"], "norm": "pre", "layer_norm": "layer_norm",
                     "layer_norm_eps": 1e-5, "positions": "none", "embedding_scale": 1, "d_key": width, "d_value": width,
                     "rotary_layout": "interleaved", "n_decoder_layers": hf["decoder_num_hidden_layers"]}
    decoder = activation_of(hf, "decoder_hidden_act", activations)
    if hf["model_type"] == STREAMING:
        hf["encoder_activation"] = activation_of(hf["encoder_config"], "hidden_act", activations)
        return {**found, "activation": decoder}
    found.update(activation=activation_of(hf, "encoder_hidden_act", activations),
                 n_encoder_layers=hf["encoder_num_hidden_layers"])
    if decoder != found["activation"]:
        found["decoder_activation"] = decoder
    return found


def rotary(hf: dict[str, Any]) -> np.ndarray:
    """The frequencies of the columns that turn."""
    where, width = hf["where"], head_width(hf)
    # As transformers 5 reads what transformers 4 wrote beside rope_parameters.
    rope = dict(hf.get("rope_scaling") or hf.get("rope_parameters") or {})
    if hf["model_type"] == STREAMING and not rope:
        rope = {"rope_theta": 10000.0, "partial_rotary_factor": 0.8}
    rope.setdefault("rope_theta", hf.get("rope_theta") or 10000.0)
    share = hf.get("partial_rotary_factor") or (1.0 if hf["model_type"] == STREAMING else 0.9)
    share = rope.setdefault("partial_rotary_factor", share)
    rope.setdefault("rope_type", rope.get("type", "default"))
    rope.setdefault("original_max_position_embeddings", hf.get("max_position_embeddings"))
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ConvertError(f"{where}: partial_rotary_factor is {brief(share)}; it takes a number above 0, at most 1")
    whole = rope["rope_type"] == "proportional"  # frequencies() has the share of it
    turned = width if whole else int(width * share)
    if not whole:
        del rope["partial_rotary_factor"]
    if not turned or turned + turned % 2 > width + whole:
        raise ConvertError(f"{where}: {turned} of {width} columns of a head turn (partial_rotary_factor); transformers "
                           f"turns pairs of them")
    if turned % 2 and rope["rope_type"] == "yarn":
        raise ConvertError(f"{where}: {turned} columns turn, an odd number, which rope_type {rope['rope_type']} does not take")
    found, factor = frequencies(rope, turned, where)
    if whole:
        found = found[:width // 2]
    if factor != 1:
        raise ConvertError(f"{where}: rope_type {rope['rope_type']} multiplies what turns by {factor:.6g}, and not the rest "
                           f"of a head; transformer.h computes 1 alone (attention_factor)")
    return found


# ------------------------------------------------------------------------------------ the weights
def place(tensors: Tensors, hf: dict[str, Any], model: Model) -> Tensors:
    rest: Tensors = {}
    streaming = hf["model_type"] == STREAMING
    outside = EMBEDDER if streaming else STEM
    for name, tensor in tensors.items():
        new = spell(name)
        if streaming and new.startswith("encoder.") and new not in outside:
            new = "extra.listen." + new[len("encoder."):]
            if new.endswith(".gamma"):  # a gain of w + 1
                new, tensor = new[:-len("gamma")] + "weight", to_f32(tensor) + np.float32(1)
        elif streaming and new == "decoder.pos_emb.weight":
            new = "extra.listen.positions.weight"
        new = outside.get(new, new)
        if new in TAPS:
            if tensor.ndim != 3 or tensor.shape[2] != TAPS[new] or (new == "extra.stem1.weight" and tensor.shape[1] != 1):
                raise ConvertError(f"{name} {describe(tensor)}: a convolution over {TAPS[new]} positions is expected")
            tensor = np.ascontiguousarray(tensor.transpose(0, 2, 1))
        gate = re.fullmatch(r"(decoder\.layers\.\d+\.linear1)\.(weight|bias)", new)
        if streaming and new == "decoder.proj.weight":
            continue  # place_projection
        if not shape_of(new) or not is_floating(tensor):
            rest[name] = tensor
        elif gate and len(tensor) % 2 == 0:
            model.put(new, name, tensor[:len(tensor) // 2])
            model.put(f"{gate[1]}_gate.{gate[2]}", name, tensor[len(tensor) // 2:])
        else:
            model.put(new, name, tensor.reshape(-1) if new == "extra.listen.log_k" else tensor)
    if streaming:
        place_projection(tensors, model)
        rows = hf["encoder_config"]["sliding_windows"][:hf["encoder_config"]["num_hidden_layers"]]
        model.about["extra.listen.windows"] = ",".join(f"{left}:{right}" for left, right in rows)
        model.about["extra.listen.heads"] = str(hf["encoder_config"]["num_attention_heads"])
        model.about["extra.listen.activation"] = hf["encoder_activation"]
    if hf.get("tie_word_embeddings") is not False:
        table = model.tensors.get("tgt_embedding.weight", model.tensors.get("generator.weight"))
        for name in ("tgt_embedding.weight", "generator.weight"):
            if table is not None and (name not in model.tensors or hf["version"] < 5):
                model.tensors[name] = table
                model.origin.setdefault(name, "the tied table")
    for side in ("decoder",) if streaming else ("encoder", "decoder"):
        model.put(f"{side}.rotary.frequencies", f"{hf['where']}: rope_parameters", rotary(hf))
    check(hf, model)
    return rest


def place_projection(tensors: Tensors, model: Model) -> None:
    """What leads from the encoder's width to the decoder's goes into the keys and values: K (P m) = (K P) m."""
    name = next((name for name in tensors if spell(name) == "decoder.proj.weight"), None)
    if name is None:
        return
    P = to_f32(tensors[name]).astype(np.float64)
    for key, K in model.tensors.items():
        if re.fullmatch(r"decoder\.layers\.\d+\.multihead_attn\.[kv]_proj\.weight", key):
            if P.ndim != 2 or K.ndim != 2 or K.shape[1] != P.shape[0]:
                raise ConvertError(f"{name} {describe(tensors[name])}: it does not lead to {key} {describe(K)}")
            model.tensors[key] = (to_f32(K).astype(np.float64) @ P).astype(np.float32)
    model.notes.append(f"{name}: goes into the keys and values of the memory")


def check(hf: dict[str, Any], model: Model) -> None:
    """Tensors that may be absent from a model file, but not from these."""
    streaming = hf["model_type"] == STREAMING
    names = ["decoder.norm.weight", *(EMBEDDER if streaming else STEM).values()]
    names += ["extra.listen.norm.weight", "extra.listen.positions.weight"] if streaming else ["encoder.norm.weight"]
    sides = {"decoder": hf["decoder_num_hidden_layers"]}
    if streaming:
        sides["extra.listen"] = hf["encoder_config"]["num_hidden_layers"]
    else:
        sides["encoder"] = hf["encoder_num_hidden_layers"]
    for side, n in sides.items():
        for i in range(n):
            layer = f"{side}.layers.{i}"
            names += [f"{layer}.norm{k}.weight" for k in range(1, 4 if side == "decoder" else 3)]
            names.append(f"{layer}.linear1_gate.weight" if side == "decoder" else f"{layer}.linear1.bias")
            if side == "extra.listen":
                names += [f"{layer}.self_attn.{one}_proj.weight" for one in ("q", "k", "v", "out")]
                names += [f"{layer}.linear{k}.{part}" for k in (1, 2) for part in ("weight", "bias")]
    frames = model.tensors.get("extra.listen.frames.weight")
    if frames is not None:
        shape = [hf["encoder_config"]["hidden_size"], frame_size(hf["encoder_config"])]
        if list(frames.shape) != shape:
            model.problems.append(f"{model.origin['extra.listen.frames.weight']} {describe(frames)}: {shape} is expected, "
                                  f"of hidden_size, and of the samples of a frame (frame_ms)")
    model.problems += [f"{name} is missing, which every {hf['model_type']} has" for name in names
                       if name not in model.tensors]
