"""checkpoints_t5.py: what T5, mT5, UMT5 and their kin (v1.1, FLAN-T5, ByT5, MADLAD-400) have of their
own among Hugging Face's directories.

Norms by the root mean square before the layers and at the end, no biases, no positions but relative
ones (a table of the first layer for all of a stack; of UMT5 one of each layer), no scale of
attention, heads as wide as d_kv says. wi_0 is the gate of a gated feed-forward. Where embedding and
output are tied, the decoder's output is divided by sqrt(d_model): here its last norm's weight is.

config.json decides what is tied. (transformers 5 ties mT5 and UMT5 whatever it says: compare with
transformers 4.)
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from modelfile import Config, ConvertError, Model, Tensors, describe, shape_of, to_f32
from untrusted import visible

FAMILIES = ("t5", "mt5", "umt5")
# What each takes where config.json does not say.
DEFAULTS: dict[str, dict[str, Any]] = {
    "t5": {"d_model": 512, "d_kv": 64, "num_layers": 6, "num_heads": 8,
           "feed_forward_proj": "relu", "tie_word_embeddings": True},
    "mt5": {"d_model": 512, "d_kv": 64, "num_layers": 8, "num_heads": 6,
            "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "umt5": {"d_model": 512, "d_kv": 64, "num_layers": 8, "num_heads": 6,
             "feed_forward_proj": "gated-gelu", "tie_word_embeddings": True},
}
KINDS = {**dict.fromkeys(("num_heads", "d_kv", "num_layers", "num_decoder_layers",
                          "relative_attention_num_buckets", "relative_attention_max_distance"),
                         "integer"),
         "feed_forward_proj": "text", "layer_norm_epsilon": "number"}
COMMON = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
          "layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1}

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


def read(hf: dict[str, Any], path: Any) -> dict[str, Any]:
    """config.json with the family's defaults."""
    hf = {**COMMON, **DEFAULTS[hf["model_type"]],
          **{key: value for key, value in hf.items() if value is not None}}
    if hf["model_type"] != "t5":
        hf.setdefault("decoder_start_token_id", 0)
    for key in ("num_heads", "d_model", "d_kv", "num_layers"):
        if hf[key] < 1:
            raise ConvertError(f"{path}: {key} is {hf[key]}")
    return hf


def facts(hf: dict[str, Any], activations: dict[str, str]) -> Config:
    kind = hf["feed_forward_proj"].split("-")
    activation = "gelu_new" if kind == ["gated", "gelu"] else kind[-1]
    if len(kind) > 2 or (len(kind) == 2 and kind[0] != "gated") or activation not in activations:
        raise ConvertError(f"config.json: feed_forward_proj {visible(hf['feed_forward_proj'])}; "
                           f"transformer.h has " + ", ".join(sorted(set(activations.values())))
                           + ", and gated- before them")
    layers = hf["num_layers"]
    return {"n_heads": hf["num_heads"], "norm": "pre", "layer_norm": "rms",
            "layer_norm_eps": hf["layer_norm_epsilon"], "activation": activations[activation],
            "positions": "none", "embedding_scale": 1, "attention_scale": 1,
            "d_key": hf["d_kv"], "d_value": hf["d_kv"], "n_encoder_layers": layers,
            "n_decoder_layers": hf.get("num_decoder_layers", layers),
            "relative_buckets": hf["relative_attention_num_buckets"],
            "relative_max_distance": hf["relative_attention_max_distance"]}


def place(tensors: Tensors, hf: dict[str, Any], model: Model) -> Tensors:
    rest: Tensors = {}
    tied = hf["tie_word_embeddings"] is not False
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
    if tied and norm is not None:
        scaled = to_f32(norm).astype(np.float64) * hf["d_model"] ** -0.5
        model.tensors["decoder.norm.weight"] = scaled.astype(np.float32)
        model.notes.append("decoder.norm.weight: times 1/sqrt(d_model), as the output is tied")
    return rest


def check(hf: dict[str, Any], model: Model) -> None:
    """Tensors that may be absent from a model file, but not from these."""
    own, gated = hf["model_type"] == "umt5", hf["feed_forward_proj"].startswith("gated")
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
