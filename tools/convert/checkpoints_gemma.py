"""checkpoints_gemma.py: T5Gemma, and the text side of T5Gemma 2, among Hugging Face's directories.

Both have gated feed-forwards, rotary positions, keys and values of fewer heads than queries, layers
that see a window alone beside layers that see all, and norms by the root mean square before and after
each sub-layer, whose weights are w + 1.

    t5gemma    soft caps of the scores and the logits
    t5gemma2   norms of the heads of queries and keys, another base of the rotary positions for
               windowed layers, and decoder layers that attend to target and source in one softmax
               with one set of projections. Its images are left out

Encoder and decoder have configs of their own. What transformer.h has one of must be the same in both.
The frequencies of the rotary positions are computed here, in float32 as transformers does, and written
as a tensor.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np

from . import config_fields
from .modelfile import Config, ConvertError, Model, Tensors, describe, is_floating, same, shape_of, to_f32
from .untrusted import brief, check_kinds, visible

FAMILIES = ("t5gemma", "t5gemma2")
KINDS = {**dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                          "head_dim", "max_position_embeddings", "sliding_window", "sliding_window_pattern"),
                         "integer"),
         **dict.fromkeys(("query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
                          "rms_norm_eps", "rope_theta", "rope_local_base_freq"), "number"),
         **dict.fromkeys(("rope_parameters", "rope_scaling", "text_config"), "object"),
         "hidden_activation": "text", "layer_types": "list of texts"}
SIDES = ("encoder", "decoder")
SLIDING, FULL = "sliding_attention", "full_attention"
# What one model file has one of.
SHARED = ("hidden_size", "num_attention_heads", "head_dim", "rms_norm_eps", "attn_logit_softcapping")

# Published models whose encoder and decoder have the same sizes.
SAME_SIZES = {"t5gemma": "t5gemma-2b-2b or t5gemma-9b-9b", "t5gemma2": "t5gemma-2-270m-270m"}

SPELLING = (
    (r"^model\.", ""),
    (r"^encoder\.text_model\.", "encoder."),
    (r"\.cross_attn\.", ".multihead_attn."),
    (r"_attn\.o_proj\.", "_attn.out_proj."),
    (r"\.mlp\.gate_proj\.", ".linear1_gate."),
    (r"\.mlp\.up_proj\.", ".linear1."),
    (r"\.mlp\.down_proj\.", ".linear2."),
    (r"^encoder\.embed_tokens\.", "src_embedding."),
    (r"^decoder\.embed_tokens\.", "tgt_embedding."),
    (r"^lm_head\.out_proj\.", "generator."),
)
IMAGES = r"(model\.)?encoder\.(vision_tower|multi_modal_projector)\..*"
END_OF_IMAGE = r"(encoder\.(text_model\.)?|decoder\.)embed_tokens\.eoi_embedding"
NORM = re.compile(r"(?:encoder|decoder)\.(?:norm|layers\.\d+\.(?:norm\d(?:_out)?|\w+_attn\.[qk]_norm))\.weight")


def is_merged(hf: dict[str, Any]) -> bool:
    return bool(hf["model_type"] == "t5gemma2")


def spell(name: str, merged: bool) -> str:
    for pattern, replacement in SPELLING:
        name = re.sub(pattern, replacement, name)
    parts = ["self_attn", "feedforward"]
    if name.startswith("decoder.") and not merged:
        parts.insert(1, "cross_attn")
    for i, part in enumerate(parts):
        name = name.replace(f".pre_{part}_layernorm.", f".norm{i + 1}.")
        name = name.replace(f".post_{part}_layernorm.", f".norm{i + 1}_out.")
    return name


# ------------------------------------------------------------------------------------- the config
def read_sides(hf: dict[str, Any], path: str, ignored: set[str], notes: list[str]) -> None:
    """Puts the fields of encoder and decoder, with the defaults of their classes, into hf."""
    kind = hf["model_type"]
    for side in SIDES:
        found, where = hf.get(side), f"{path}, {side}"
        if isinstance(found, dict) and kind == "t5gemma2" and side == "encoder":
            config_fields.read(config_fields.GEMMA_OF["t5gemma2_encoder"], found, "gemma3", where, ignored, notes)
            found, where = found.get("text_config"), f"{where}, text_config"
        if not isinstance(found, dict):
            raise ConvertError(f"{where}: missing")
        found = check_kinds(found, {**KINDS, **dict.fromkeys(("pad_token_id", "bos_token_id"), "integer"),
                                    "eos_token_id": "integer|list of integers"}, where)
        fields = config_fields.GEMMA_OF[kind]
        said = config_fields.read(fields, found, "gemma2" if kind == "t5gemma" else "gemma3_text", where,
                                  ignored, notes)
        hf[side] = {**config_fields.with_defaults(fields, found, said), "where": where,
                    "is_null": {key for key, value in found.items() if value is None}}
        check_side(hf[side], where)
    other = [f"{key} ({brief(hf['encoder'].get(key))} and {brief(hf['decoder'].get(key))})" for key in SHARED
             if hf["encoder"].get(key) != hf["decoder"].get(key)
             and not (key == "attn_logit_softcapping" and is_merged(hf))]
    if other:
        raise ConvertError(f"{path}: encoder and decoder differ in {', '.join(other)}, of which transformer.h has "
                           f"one value for both: convert a model of the family whose encoder and decoder have "
                           f"the same sizes, such as {SAME_SIZES[kind]}")
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if hf.get(key) is None:
            hf[key] = hf["decoder"].get(key)
    decoding = hf["decoding"]
    if decoding.path == "config.json":  # transformers then takes what is missing from the decoder's config
        values = {key: hf[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id") if hf.get(key) is not None}
        hf["decoding"] = dataclasses.replace(decoding, values={**values, **decoding.values})


def check_side(one: dict[str, Any], where: str) -> None:
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
                "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"):
        value = one.get(key)
        if key not in one["is_null"] and value is not None and not 0 < value < 2 ** 31:
            raise ConvertError(f"{where}: {key} is {brief(value)}; it takes a number above 0")
        if value is None and not key.endswith("softcapping"):
            raise ConvertError(f"{where}: {key} is null")
    heads, groups = one["num_attention_heads"], one["num_key_value_heads"]
    if heads % groups:
        raise ConvertError(f"{where}: num_key_value_heads {groups} does not divide num_attention_heads {heads}: "
                           f"each head of keys serves as many of queries")
    if one["head_dim"] % 2:
        raise ConvertError(f"{where}: head_dim {one['head_dim']} is odd; rotary positions turn columns in pairs")
    types = layer_types(one, where)
    window = one.get("sliding_window")
    if SLIDING in types and (window is None or window < 1):
        raise ConvertError(f"{where}: sliding_window is {'null' if window is None else window}, and layers see "
                           f"a window alone: a window of at least 1 is expected")


def layer_types(one: dict[str, Any], where: str) -> list[str]:
    n, types = one["num_hidden_layers"], one.get("layer_types")
    if n > 9999:
        raise ConvertError(f"{where}: num_hidden_layers is {n}")
    if types is None:
        every = one.get("sliding_window_pattern") or 2
        return [SLIDING if (i + 1) % every else FULL for i in range(n)]
    strange = [kind for kind in types if kind not in (SLIDING, FULL)]
    if strange or len(types) != n:
        what = f"has {visible(str(strange[0]))}" if strange else f"has {len(types)} layers of {n}"
        raise ConvertError(f"{where}: layer_types {what}; transformer.h has {SLIDING} and {FULL}")
    return types


def facts(hf: dict[str, Any], activations: dict[str, str]) -> Config:
    one, decoder = hf["encoder"], hf["decoder"]
    for side in (one, decoder):
        if side["hidden_activation"] not in activations:
            raise ConvertError(f"{side['where']}: hidden_activation {visible(side['hidden_activation'])}; "
                               f"transformer.h has " + ", ".join(sorted(set(activations.values()))))
    found: Config = {
        "n_heads": one["num_attention_heads"], "norm": "pre", "layer_norm": "rms_norm",
        "layer_norm_eps": one["rms_norm_eps"], "activation": activations[one["hidden_activation"]],
        "positions": "none", "embedding_scale": "sqrt_d", "attention_scale": one["query_pre_attn_scalar"] ** -0.5,
        "d_key": one["head_dim"], "d_value": one["head_dim"], "d_rotary": one["head_dim"],
        "n_encoder_layers": one["num_hidden_layers"], "n_decoder_layers": decoder["num_hidden_layers"],
        "n_kv_heads": one["num_key_value_heads"], "n_kv_heads_decoder": decoder["num_key_value_heads"]}
    if one.get("attn_logit_softcapping") and not is_merged(hf):  # T5Gemma 2 does not read it
        found["attention_cap"] = one["attn_logit_softcapping"]
    if decoder.get("final_logit_softcapping"):
        found["logit_cap"] = decoder["final_logit_softcapping"]
    if decoder["hidden_activation"] != one["hidden_activation"]:
        found["decoder_activation"] = activations[decoder["hidden_activation"]]
    if is_merged(hf):
        found["cross_attention"] = "merged"
    for side in SIDES:
        window = hf[side].get("sliding_window")
        rows = [[i, *sees(window, side, is_merged(hf))] for i, kind in enumerate(layer_types(hf[side], side))
                if kind == SLIDING]
        if rows:
            found[f"{side}_windows"] = rows
    return found


def sees(window: int, side: str, merged: bool) -> list[int]:
    """How many positions a query of a windowed layer sees to the left and to the right, its own counted."""
    if side == "decoder":
        return [window, 1]
    return [(window + 1) // 2, window // 2 + 1] if merged else [window + 1, window + 1]


# ------------------------------------------------------------------------------- rotary positions
def rope_of(one: dict[str, Any], kind: str, merged: bool) -> dict[str, Any]:
    """The parameters of the layers of a kind, from rope_parameters or as transformers 4 wrote them."""
    found = whole = one.get("rope_parameters")
    legacy = one.get("rope_scaling")
    local = merged and kind == SLIDING
    theta = one.get("rope_local_base_freq" if local else "rope_theta")
    theta = theta or (1_000_000.0 if merged and not local else 10_000.0)
    if found is not None and (FULL in found or SLIDING in found):
        found = found.get(kind)
    elif merged:
        found = None
    rope = {"rope_theta": theta, **(found or {})}
    if legacy and not local and (merged or not found):
        rope.update(legacy)
    if merged or found is not whole:  # transformers looks for it beside the parameters of the kinds of layers
        rope["truncate"] = (whole or {}).get("truncate", True)
    rope.setdefault("rope_type", rope.get("type", "default"))
    rope.setdefault("original_max_position_embeddings", one.get("max_position_embeddings"))
    return rope


def frequencies(rope: dict[str, Any], width: int, where: str) -> tuple[np.ndarray, float]:
    """The frequencies of the rotary positions of heads so wide, and the factor of their cosines and
    sines: what modeling_rope_utils.py of transformers computes, in float32."""
    kind = rope["rope_type"]
    known = ("default", "linear", "llama3", "proportional", "yarn")
    if kind not in known:
        raise ConvertError(f"{where}: rope_type {visible(str(kind))}: transformer.h has " + ", ".join(known)
                           + ", whose frequencies do not depend on the length of a sequence"
                           + {"dynamic": ". It computes what \"default\" does up to max_position_embeddings tokens: where no text is "
                                         "longer, write that as rope_type",
                              "longrope": ": use transformers for this model"}.get(
                                  kind, ": write that of these with which the model was trained"))

    def number(key: str, otherwise: float | None = None) -> float:
        value = rope.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            raise ConvertError(f"{where}: {key} is {brief(value)}; rope_type {kind} takes a number above 0")
        return value

    base, f32 = number("rope_theta"), np.float32
    share = number("partial_rotary_factor", 1.0) if kind != "default" else 1.0
    if share > 1 or (kind != "proportional" and int(width * share) != width):
        raise ConvertError(f"{where}: partial_rotary_factor is {share}: transformers turns whole heads here")
    steps = (np.arange(0, width, 2, dtype=f32) / f32(width)).astype(f32)
    plain = (f32(1) / np.power(f32(base), steps, dtype=f32)).astype(f32)
    if kind == "default":
        return plain, 1.0
    factor = number("factor", 1.0 if kind == "proportional" else None)
    if kind == "linear":
        return plain / f32(factor), 1.0
    if kind == "proportional":
        turned = int(share * width // 2)
        plain[turned:] = 0
        return plain / f32(factor), 1.0
    length = number("original_max_position_embeddings")
    if kind == "llama3":
        low, high = number("low_freq_factor"), number("high_freq_factor")
        if low == high:
            raise ConvertError(f"{where}: low_freq_factor and high_freq_factor are both {low}")
        waves = (2 * math.pi / plain).astype(f32)
        result = np.where(waves > length / low, plain / f32(factor), plain)
        smooth = ((length / waves - low) / (high - low)).astype(f32)
        between = (1 - smooth) * result / f32(factor) + smooth * result
        return np.where((waves >= length / high) & (waves <= length / low), between, result).astype(f32), 1.0

    def corrected(turns: float) -> float:
        return width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    def size(scale: float, times: float = 1) -> float:
        return 1.0 if scale <= 1 else 0.1 * times * math.log(scale) + 1.0

    if base <= 1:
        raise ConvertError(f"{where}: rope_theta is {base}; yarn takes a number above 1")
    first, last = (corrected(number("beta_fast", 32)), corrected(number("beta_slow", 1)))
    if rope.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    ramp = np.clip((np.arange(width // 2, dtype=f32) - f32(first))
                   / f32((last - first) or 0.001), 0, 1).astype(f32)
    result = (plain / f32(factor)) * ramp + plain * (1 - ramp)
    turn = rope.get("attention_factor")
    if turn is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        turn = size(factor, number("mscale")) / size(factor, number("mscale_all_dim"))
    return result.astype(f32), size(factor) if turn is None else number("attention_factor", turn)


def put_frequencies(hf: dict[str, Any], side: str, model: Model) -> None:
    """One tensor for a side whose layers have the same, else one for each layer. The factor of cosines
    and sines, which is of queries and keys alike, goes into what makes the queries, and so does a scale
    of the decoder's scores that is not the encoder's."""
    one, origin = hf[side], f"{hf[side]['where']}: rope_parameters"
    kinds = layer_types(one, side)
    found = {kind: frequencies(rope_of(one, kind, is_merged(hf)), one["head_dim"], one["where"])
             for kind in sorted(set(kinds))}
    turned = max((factor for _, factor in found.values()), key=lambda factor: abs(factor - 1))
    if turned != 1 and side == "decoder" and is_merged(hf):  # keys of the source do not turn
        raise ConvertError(f"{one['where']}: rope_type yarn multiplies what turns by {turned:.6g}; where target and "
                           f"source share their projections, transformer.h computes 1 alone: convert a model "
                           f"whose rope_parameters have attention_factor 1, or use transformers for this one")
    tables = [table for table, _ in found.values()]
    if all(same(tables[0], table) for table in tables):
        model.put(f"{side}.rotary.frequencies", origin, tables[0])
    else:
        for i, kind in enumerate(kinds):
            model.put(f"{side}.layers.{i}.self_attn.rotary.frequencies", origin, found[kind][0])
    scale = (hf["encoder"]["query_pre_attn_scalar"] / one["query_pre_attn_scalar"]) ** 0.5
    for i, kind in enumerate(kinds):
        scale_queries(model, f"{side}.layers.{i}.self_attn", scale * found[kind][1] ** 2)
        scale_queries(model, f"{side}.layers.{i}.multihead_attn", scale)


def scale_queries(model: Model, name: str, factor: float) -> None:
    parts = [part for part in ("q_norm.weight",) if f"{name}.{part}" in model.tensors] or [
        "q_proj.weight", "q_proj.bias"]
    for part in parts:
        tensor = model.tensors.get(f"{name}.{part}")
        if factor != 1 and tensor is not None:
            model.tensors[f"{name}.{part}"] = (to_f32(tensor) * np.float64(factor)).astype(np.float32)
            model.notes.append(f"{name}.{part}: times {factor:.6g}")


# ------------------------------------------------------------------------------------ the weights
def place(tensors: Tensors, hf: dict[str, Any], model: Model) -> Tensors:
    rest: Tensors = {}
    images = 0
    tied = hf.get("tie_word_embeddings") is not False
    for name, tensor in tensors.items():
        new = spell(name, is_merged(hf))
        if re.fullmatch(IMAGES, name) and is_merged(hf):
            images += 1
        elif re.fullmatch(END_OF_IMAGE, re.sub(r"^model\.", "", name)):
            place_end_of_image(hf, name, tensor, model)
        elif shape_of(new) and is_floating(tensor):
            gain = NORM.fullmatch(new) is not None
            model.put(new, name, (to_f32(tensor) + np.float32(1)).astype(np.float32) if gain else tensor)
        else:
            rest[name] = tensor
    if images:
        model.notes.append(f"{images} tensors that read images: left out; texts alone are read")
    have = model.tensors
    for new, others in (("src_embedding", ("tgt_embedding", "generator")), ("tgt_embedding", ("src_embedding", "generator"))):
        held = next((f"{one}.weight" for one in others if f"{one}.weight" in have), None)
        if is_merged(hf) and held and f"{new}.weight" not in have:
            model.put(f"{new}.weight", model.origin[held], have[held])
    table = "tgt_embedding.weight"
    if tied and table not in have and "generator.weight" in have:
        model.put(table, model.origin["generator.weight"], have["generator.weight"])
    if tied and table in have and "generator.weight" not in have:
        model.put("generator.weight", model.origin[table], have[table])
    elif tied and hf["version"] < 5 and "generator.weight" in have and not same(have["generator.weight"], have[table]):
        model.notes.append(f"{model.origin['generator.weight']} {describe(have['generator.weight'])}: left out, the output is tied")
        model.put("generator.weight", model.origin[table], have[table])
    for side in SIDES:
        put_frequencies(hf, side, model)
    check(hf, model)
    return rest


def place_end_of_image(hf: dict[str, Any], name: str, tensor: np.ndarray, model: Model) -> None:
    """The embedding of the token that ends an image, which a text has not."""
    model.notes.append(f"{name} {describe(tensor)}: left out; the token {hf.get('eoi_token_index')} ends an image. "
                       f"Its row of the embedding table takes its place, so a source that has this id gives other "
                       f"numbers than in transformers; texts do not have it")


def check(hf: dict[str, Any], model: Model) -> None:
    """Tensors that may be absent from a model file, but not from these."""
    for side in SIDES:
        names = [f"{side}.norm.weight"]
        for i in range(hf[side]["num_hidden_layers"]):
            n = 2 if side == "encoder" or is_merged(hf) else 3
            names += [f"{side}.layers.{i}.norm{k}{out}.weight" for k in range(1, n + 1) for out in ("", "_out")]
            names += [f"{side}.layers.{i}.self_attn.{one}_norm.weight" for one in "qk" if is_merged(hf)]
            names.append(f"{side}.layers.{i}.linear1_gate.weight")
        model.problems += [f"{name} is missing, which every {hf['model_type']} has" for name in names
                           if name not in model.tensors]
