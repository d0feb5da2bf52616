"""checkpoints_t5.py: what T5, mT5, UMT5 and their kin (v1.1, FLAN-T5, ByT5, MADLAD-400) have of their
own among Hugging Face's directories.

Norms by the root mean square before the layers and at the end, no biases, no positions but relative
ones (a table of the first layer for all of a stack; of UMT5 one of each layer), no scale of
attention, heads as wide as d_kv says. wi_0 is the gate of a gated feed-forward. T5 divides the
decoder's output by sqrt(d_model): here its last norm's weight is divided.

Which models do that, and whether lm_head is the embedding, depends on the major version of
transformers that wrote config.json:

    4    tie_word_embeddings decides both, and a lm_head beside tied embeddings is ignored
    5    a lm_head that is in the file and differs from the embedding is the generator, whatever
         tie_word_embeddings says. scale_decoder_outputs decides the scale, or, where it is absent,
         tie_word_embeddings. mT5 never scales

Without transformers_version the rules of 5 hold.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .modelfile import Config, ConvertError, Model, Tensors, describe, same, shape_of, to_f32
from .untrusted import visible

FAMILIES = ("t5", "mt5", "umt5")
KINDS = {**dict.fromkeys(("num_heads", "d_kv", "num_layers", "num_decoder_layers",
                          "relative_attention_num_buckets", "relative_attention_max_distance"),
                         "integer"),
         **dict.fromkeys(("feed_forward_proj", "dense_act_fn"), "text"),
         **dict.fromkeys(("scale_decoder_outputs", "is_gated_act"), "truth value"),
         "layer_norm_epsilon": "number"}

SPELLING = (
    (r"^(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.", r"\1.layers.\2.\3."),
    (r"\.0\.SelfAttention\.relative_attention_bias\.", ".self_attn.relative_positions."),
    (r"\.0\.SelfAttention\.([qkv])\.", r".self_attn.\1_proj."),
    (r"\.0\.SelfAttention\.o\.", ".self_attn.out_proj."),
    (r"^(decoder.*)\.1\.EncDecAttention\.([qkv])\.", r"\1.multihead_attn.\2_proj."),
    (r"^(decoder.*)\.1\.EncDecAttention\.o\.", r"\1.multihead_attn.out_proj."),
    (r"^(encoder.*\.)1\.DenseReluDense\.|^(decoder.*\.)2\.DenseReluDense\.", r"\1\2"),
    (r"\.wi\.", ".linear1."),
    (r"\.wi_0\.", ".linear1_gate."),
    (r"\.wi_1\.", ".linear1."),
    (r"\.wo\.", ".linear2."),
    (r"\.([012])\.layer_norm\.", lambda found: f".norm{int(found[1]) + 1}."),
    (r"^(encoder|decoder)\.final_layer_norm\.", r"\1.norm."),
    (r"^encoder\.embed_tokens\.", "src_embedding."),
    (r"^decoder\.embed_tokens\.", "tgt_embedding."),
    (r"^lm_head\.", "generator."),
)
# A table of cross-attention's, which old checkpoints have and nothing reads.
UNUSED = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"


def check_sizes(hf: dict[str, Any], path: Any) -> None:
    for key in ("num_heads", "d_model", "d_kv", "num_layers"):
        if hf.get(key, 0) < 1:
            raise ConvertError(f"{path}: {key} is {hf.get(key)}")


def is_gated(hf: dict[str, Any]) -> bool:
    return bool(hf.get("is_gated_act", hf["feed_forward_proj"].startswith("gated-")))


def output_rules(hf: dict[str, Any], tensors: Tensors, model: Model) -> tuple[bool, bool]:
    """Whether the generator is the embedding, and whether the decoder's output is divided by
    sqrt(d_model). The major versions of transformers answer differently."""
    if hf["version"] < 5:
        tied = bool(hf.get("tie_word_embeddings"))
        return tied, tied
    head = tensors.get("lm_head.weight")
    shared = tensors.get("shared.weight", tensors.get("decoder.embed_tokens.weight"))
    tied = head is None or (shared is not None and same(head, shared))
    scaled = hf["model_type"] != "mt5" and bool(
        hf.get("scale_decoder_outputs", hf["tie_word_embeddings"] is not False))
    if not hf["has_version"]:
        model.notes.append("config.json has no transformers_version: output and scale are those of "
                           "transformers 5, and 4 may differ")
    return tied, scaled


def facts(hf: dict[str, Any], activations: dict[str, str]) -> Config:
    kind = hf["feed_forward_proj"].split("-")
    activation = hf.get("dense_act_fn",
                        "gelu_new" if kind == ["gated", "gelu"] else kind[-1])
    if len(kind) > 2 or (len(kind) == 2 and kind[0] != "gated") or activation not in activations:
        named = "dense_act_fn" if "dense_act_fn" in hf else "feed_forward_proj"
        raise ConvertError(f"config.json: {named} {visible(hf[named])}; transformer.h has " + ", ".join(sorted(set(activations.values())))
                           + ", and gated- before them")
    layers = hf["num_layers"]
    return {"n_heads": hf["num_heads"], "norm": "pre", "layer_norm": "rms_norm",
            "layer_norm_eps": hf["layer_norm_epsilon"], "activation": activations[activation],
            "positions": "none", "embedding_scale": 1, "attention_scale": 1,
            "d_key": hf["d_kv"], "d_value": hf["d_kv"], "n_encoder_layers": layers,
            "n_decoder_layers": hf.get("num_decoder_layers", layers),
            "relative_buckets": hf["relative_attention_num_buckets"],
            "relative_max_distance": hf["relative_attention_max_distance"]}


def place(tensors: Tensors, hf: dict[str, Any], model: Model) -> Tensors:
    rest: Tensors = {}
    tied, scaled = output_rules(hf, tensors, model)
    own = hf["model_type"] == "umt5"  # each layer has a table of its own
    for name, tensor in tensors.items():
        new = name
        for pattern, replacement in SPELLING:
            new = re.sub(pattern, replacement, new)
        if not own:
            new = re.sub(r"^(\w+)\.layers\.0\.self_attn\.relative", r"\1.relative", new)
        if re.fullmatch(UNUSED, name) or (tied and new == "generator.weight"):
            model.notes.append(f"{name} {describe(tensor)}: left out, "
                               + ("the output is tied" if tied and new == "generator.weight"
                                  else "nothing reads it"))
        elif new == "shared.weight":
            for side in ("src", "tgt"):
                model.put(f"{side}_embedding.weight", name, tensor)
        elif shape_of(new):
            model.put(new, name, tensor)
        else:
            rest[name] = tensor
    sides = [model.tensors.get(f"{side}_embedding.weight") for side in ("src", "tgt")]
    for one, other in (("src", 1), ("tgt", 0)):  # one table may have the name of one side alone
        if sides[1 - other] is None and sides[other] is not None:
            model.put(f"{one}_embedding.weight", "shared.weight", sides[other])
    if tied and "tgt_embedding.weight" in model.tensors:
        model.put("generator.weight", model.origin["tgt_embedding.weight"],
                  model.tensors["tgt_embedding.weight"])
    check(hf, model)
    norm = model.tensors.get("decoder.norm.weight")
    if scaled and norm is not None:
        divided = to_f32(norm).astype(np.float64) * hf["d_model"] ** -0.5
        model.tensors["decoder.norm.weight"] = divided.astype(np.float32)
        model.notes.append("decoder.norm.weight: times 1/sqrt(d_model), as the output is scaled")
    return rest


def check(hf: dict[str, Any], model: Model) -> None:
    """Tensors that may be absent from a model file, but not from these."""
    own, gated = hf["model_type"] == "umt5", is_gated(hf)
    for name in ("encoder.norm.weight", "decoder.norm.weight"):
        if name not in model.tensors:
            model.problems.append(f"{name} is missing, which every {hf['model_type']} has")
    for side in ("encoder", "decoder"):
        layers = {int(found[1]) for name in model.tensors
                  if (found := re.match(rf"{side}\.layers\.(\d+)\.", name))}
        tables = [f"{side}.layers.{i}.self_attn.relative_positions.weight" for i in sorted(layers)
                  ] if own else [f"{side}.relative_positions.weight"]
        parts = [f"{side}.layers.{i}.norm{k}.weight" for i in sorted(layers)
                 for k in range(1, 4 if side == "decoder" else 3)]
        gates = [f"{side}.layers.{i}.linear1_gate.weight" for i in sorted(layers)]
        for name in tables + parts + gates * gated:
            if name not in model.tensors:
                model.problems.append(f"{name} is missing, which every {hf['model_type']} has"
                                      + " with a gate" * name.endswith("gate.weight"))
        model.problems += [f"{model.origin[name]}: a gate, but feed_forward_proj is "
                           f"{visible(hf['feed_forward_proj'])}" for name in gates
                           if not gated and name in model.tensors]
