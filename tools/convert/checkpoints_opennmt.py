"""checkpoints_opennmt.py: what OpenNMT-py saves: a dictionary of model, generator, vocab and opt.

Versions 2 and 3 with an encoder and a decoder of kind transformer, where the vocabularies are lists
(version 2.3 and later; older ones are objects of another package, which are not read). Norms stand
before the layers and at the end, with the eps of opt (1e-6); embeddings are multiplied by sqrt(d);
the positions are a table, which a formula gives. Nothing is added to a source; a target starts with
<s> unless opt says another token.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from . import pickles
from .modelfile import (SENTENCES, Checkpoint, Config, ConvertError, Model, Tensors, name_positions, shape_of,
                       strip_wrappers, vocabulary_text)
from .untrusted import brief

SPELLING = (
    (r"^encoder\.transformer\.(\d+)\.", r"encoder.layers.\1."),
    (r"^decoder\.transformer_layers\.(\d+)\.", r"decoder.layers.\1."),
    (r"\.context_attn\.", ".multihead_attn."),
    (r"_attn\.linear_query\.", "_attn.q_proj."),
    (r"_attn\.linear_keys\.", "_attn.k_proj."),
    (r"_attn\.linear_values\.", "_attn.v_proj."),
    (r"_attn\.final_linear\.", "_attn.out_proj."),
    (r"\.feed_forward\.w_([12])\.", r".linear\1."),
    (r"^(encoder\.layers\.\d+)\.feed_forward\.layer_norm\.", r"\1.norm2."),
    (r"^(decoder\.layers\.\d+)\.feed_forward\.layer_norm\.", r"\1.norm3."),
    (r"^(encoder\.layers\.\d+)\.layer_norm\.", r"\1.norm1."),
    (r"^(decoder\.layers\.\d+)\.layer_norm_([12])\.", r"\1.norm\2."),
    (r"^(encoder|decoder)\.layer_norm\.", r"\1.norm."),
    (r"norm(\d?)\.a_2$", r"norm\1.weight"), (r"norm(\d?)\.b_2$", r"norm\1.bias"),
    (r"^encoder\.embeddings\.make_embedding\.emb_luts\.0\.", "src_embedding."),
    (r"^decoder\.embeddings\.make_embedding\.emb_luts\.0\.", "tgt_embedding."),
    (r"^generator\.0\.", "generator."),
)
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
# Options with another value make another network; absence means the first.
ASSUMED = {"encoder_type": ("transformer",), "decoder_type": ("transformer",),
           "self_attn_type": ("scaled-dot", "scaled-dot-flash"), "max_relative_positions": (0,),
           "layer_norm": ("standard",), "parallel_residual": (False,), "multiquery": (False,),
           "num_kv": (0,), "num_experts": (0,), "sliding_window": (0,), "copy_attn": (False,),
           "bridge": ("",), "generator_function": ("softmax",), "n_src_feats": (0,),
           "model_task": ("seq2seq",)}


def is_opennmt(found: Any) -> bool:
    return isinstance(found, dict) and {"model", "generator", "opt", "vocab"} <= set(found)


def read_options(opt: argparse.Namespace) -> Config:
    for key, values in ASSUMED.items():
        value = getattr(opt, key, values[0])
        if not isinstance(value, (str, int, float, type(None))) or (
                value not in values and not (not value and not values[0])):
            raise ConvertError(f"opt: {key} is {brief(value)}; transformer.h runs {values[0]!r}")
    activation = getattr(opt, "pos_ffn_activation_fn", "relu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ConvertError(f"opt: pos_ffn_activation_fn is {brief(activation)}; transformer.h runs "
                           + ", ".join(ACTIVATIONS))
    config: Config = {"n_heads": getattr(opt, "heads", 8), "norm": "pre",
                      "layer_norm": "layer_norm", "layer_norm_eps": getattr(opt, "norm_eps", 1e-6),
                      "activation": ACTIVATIONS[activation], "embedding_scale": "sqrt_d"}
    if not getattr(opt, "position_encoding", False):
        config.update(positions="none", embedding_scale=1)
    return config


def read_texts(vocab: Any, opt: argparse.Namespace, model: Model) -> Config:
    lines = {}
    for side in ("src", "tgt"):
        tokens = vocab.get(side) if isinstance(vocab, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens):
            raise ConvertError(f"vocab: no list of tokens for {side} (OpenNMT-py before 2.3)")
        lines[side] = tokens
        model.texts[f"{side}_vocabulary"] = vocabulary_text(tokens, f"vocab, {side}", model)
    config: Config = {"src_text": "words", "tgt_text": "words"}
    start = vocab.get("decoder_start_token") or getattr(opt, "decoder_start_token", None) or "<s>"
    if not isinstance(start, str):
        raise ConvertError(f"vocab: decoder_start_token is {brief(start)}, no text")
    for key, side, token in (("src_pad", "src", "<blank>"), ("tgt_pad", "tgt", "<blank>"),
                             ("src_unk", "src", "<unk>"), ("tgt_unk", "tgt", "<unk>"),
                             ("start", "tgt", start), ("end", "tgt", "</s>")):
        if token in lines[side]:
            config[key] = lines[side].index(token)
    if model.texts["tgt_vocabulary"] == model.texts["src_vocabulary"]:
        del model.texts["tgt_vocabulary"]
    return config


def spell(name: str) -> str:
    for pattern, replacement in SPELLING:
        name = re.sub(pattern, replacement, name)
    return name


def checkpoint_of(found: dict[str, Any], path: Path) -> Checkpoint:
    opt = found["opt"]
    for key in ("model", "generator"):
        if not isinstance(found[key] or {}, dict):
            raise ConvertError(f"{path}: {key} is no dictionary of tensors")
    facts = read_options(opt)
    tensors, notes = strip_wrappers(pickles.tensors_of(found["model"] or {}, path))
    generator = pickles.tensors_of(found["generator"] or {}, path)
    tensors.update({f"generator.{name}": value for name, value in generator.items()})

    def place(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        rest: Tensors = {}
        tables: Tensors = {}
        for name, tensor in chosen.items():
            new = spell(name)
            if re.fullmatch(r"(encoder|decoder)\.embeddings\.make_embedding\.pe\.pe", name):
                tables[name] = tensor.reshape(-1, tensor.shape[-1])
            elif shape_of(new):
                model.put(new, name, tensor)
            else:
                rest[name] = tensor
        model.facts.update(facts)
        model.facts.update(read_texts(found["vocab"], opt, model))
        name_positions(tables, lambda name: ("src" if name.startswith("encoder") else "tgt",),
                       stated, model)
        model.facts["sentences"] = SENTENCES["opennmt"]
        model.notes.append("layout: OpenNMT-py")
        return rest

    return Checkpoint(tensors, place, notes=notes)
