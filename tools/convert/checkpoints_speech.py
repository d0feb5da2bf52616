"""checkpoints_speech.py: what transformer.h runs of models that also hear, among Hugging Face's directories.

    seamless_m4t, seamless_m4t_v2   the text encoder and the text decoder, an m2m_100 under other names.
              The speech encoder, and what makes units and sound of texts, are left out
    canary, cohere_asr   the decoder. Norms before the layers, at the end, and after the embeddings; groups of heads.
              The FastConformer encoder, whose output is the memory, is computed by examples/transcribe
              (checkpoints_conformer.py)
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import checkpoints_conformer
from .modelfile import Config, ConvertError, Model, SEAMLESS, Tensors
from .untrusted import visible

AS_M2M_100 = ((r"^text_(encoder|decoder)\.", r"\1."), (r"\.ffn\.fc", ".fc"), (r"\.ffn_layer_norm\.", ".final_layer_norm."),
              (r"\.cross_attention\.", ".encoder_attn."), (r"\.cross_attention_layer_norm\.", ".encoder_attn_layer_norm."))
HEARING = ("canary_decoder", "cohere_asr")
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
         "max_position_embeddings")
KINDS = {**dict.fromkeys(SIZES, "integer"), "hidden_act": "text"}
# Cohere's own files have the names of NeMo.
AS_BART = (
    (r"^transf_decoder\._embedding\.position_embedding\.pos_enc$", "decoder.pos_emb.weight"),
    (r"^transf_decoder\._embedding\.token_embedding\.", "decoder.embed_tokens."),
    (r"^transf_decoder\._embedding\.layer_norm\.", "decoder.embedding_layernorm."),
    (r"^transf_decoder\._decoder\.final_layer_norm\.", "decoder.norm."),
    (r"^transf_decoder\._decoder\.layers\.", "decoder.layers."),
    (r"^encoder_decoder_proj\.", "decoder.proj."), (r"^log_softmax\.mlp\.layer0\.", "proj_out."),
    (r"\.first_sub_layer\.", ".self_attn."), (r"\.second_sub_layer\.", ".encoder_attn."),
    (r"_attn\.(query|key|value)_net\.", lambda found: f"_attn.{found[1][0]}_proj."),
    (r"_attn\.(out_projection|o_proj)\.", "_attn.out_proj."),
    (r"\.third_sub_layer\.dense_in\.|\.mlp\.fc1\.", ".fc1."), (r"\.third_sub_layer\.dense_out\.|\.mlp\.fc2\.", ".fc2."),
    (r"\.(layer_norm_1|input_layernorm)\.", ".self_attn_layer_norm."),
    (r"\.(layer_norm_2|post_attention_layernorm)\.", ".encoder_attn_layer_norm."),
    (r"\.(layer_norm_3|final_layernorm)\.", ".final_layer_norm."),
    (r"^decoder\.embedding_layernorm\.", "decoder.layernorm_embedding."), (r"^decoder\.norm\.", "decoder.layer_norm."),
    (r"^decoder\.pos_emb\.weight$", "decoder.embed_positions.weight"), (r"^decoder\.proj\.", "enc_to_dec_proj."))
NOT_TEXT = ("speech_encoder.", "t2u_model.", "vocoder.")


def leave_text_model(tensors: Tensors, model: Model) -> Tensors:
    """The text model of a SeamlessM4T, with the names of m2m_100."""
    sides = [side for side in ("text_encoder", "text_decoder") if not any(name.startswith(f"{side}.") for name in tensors)]
    if sides:
        raise ConvertError(f"the folder has no tensors of a {sides[0]}; transformer.h runs the text encoder and the text "
                           f"decoder of SeamlessM4T, and the folder of a SeamlessM4TModel or a "
                           f"SeamlessM4TForTextToText has both")
    kept: Tensors = {}
    for name, tensor in tensors.items():
        if not name.startswith(NOT_TEXT):
            for pattern, replacement in AS_M2M_100:
                name = re.sub(pattern, replacement, name)
            kept[name] = tensor
    if len(kept) < len(tensors):
        model.notes.append(f"{len(tensors) - len(kept)} tensors that hear speech, or make units and sound: left out; "
                           f"sources and targets are texts")
    return kept


def leave_decoder(tensors: Tensors, hf: dict[str, Any], activations: dict[str, str], model: Model) -> Tensors:
    """The decoder of Canary or Cohere, with the names of bart. Canary computes its table of positions. The encoder goes into
    the model."""
    kept: Tensors = {}
    encoder: Tensors = {}
    for name, tensor in tensors.items():
        name = re.sub(r"^model\.", "", name)
        if name.startswith("encoder."):
            encoder[name[len("encoder."):]] = tensor
        elif not name.startswith("preprocessor."):
            for pattern, replacement in AS_BART:
                name = re.sub(pattern, replacement, name)
            kept[name] = tensor
    if encoder:
        checkpoints_conformer.place(encoder, hf["encoder_config"], activations, model)
    else:
        model.notes.append("the folder has no tensors of an encoder: its output is the memory")
    if hf["model_type"] == "canary_decoder":
        kept["decoder.embed_positions.weight"] = sines(hf["max_position_embeddings"], hf["hidden_size"])
        model.notes.append("positions: sines in halves, divided by sqrt(hidden_size), as a table of "
                           f"{hf['max_position_embeddings']} rows")
    return kept


def sines(rows: int, columns: int) -> np.ndarray:
    """The table of CanaryPositionalEmbedding, in the precision in which it is computed there."""
    half = columns // 2
    step = np.float32(-np.log(10000 ** ((columns - 2) / columns)) / (half - 1))
    angles = np.arange(rows, dtype=np.float32)[:, None] * np.exp(step * np.arange(half, dtype=np.float32))
    return np.concatenate([np.sin(angles), np.cos(angles)], 1) / np.float32(columns ** 0.5)


def check_sizes(hf: dict[str, Any], path: str) -> None:
    """Puts the sizes that are not stated into hf, and refuses those without a meaning."""
    hf["num_key_value_heads"] = hf.get("num_key_value_heads", hf.get("num_attention_heads"))
    for key in SIZES:
        if key == "head_dim" and hf.get(key) is None:
            hf[key] = hf["hidden_size"] // hf["num_attention_heads"]
        if not isinstance(hf.get(key), int) or not 1 <= hf[key] < 2 ** 24:
            raise ConvertError(f"{path}: {key} is {visible(str(hf.get(key)))}, which no decoder has")
    if hf["num_attention_heads"] % hf["num_key_value_heads"]:
        raise ConvertError(f"{path}: num_key_value_heads {hf['num_key_value_heads']} does not divide "
                           f"num_attention_heads {hf['num_attention_heads']}")
    if hf["model_type"] == "canary_decoder" and (hf["hidden_size"] % 2 or hf["hidden_size"] < 4):
        raise ConvertError(f"{path}: hidden_size is {hf['hidden_size']}; Canary's positions are sines of an even "
                           f"number of columns, 4 or more")


def facts(hf: dict[str, Any], activations: dict[str, str]) -> Config:
    if hf["hidden_act"] not in activations:
        raise ConvertError(f"config.json: hidden_act {visible(hf['hidden_act'])}; transformer.h has "
                           + ", ".join(sorted(set(activations.values()))))
    return {"n_heads": hf["num_attention_heads"], "norm": "pre", "layer_norm": "layer_norm",
            "activation": activations[hf["hidden_act"]], "positions": "learned", "position_offset": 0,
            "embedding_scale": 1, "n_decoder_layers": hf["num_hidden_layers"], "d_key": hf["head_dim"],
            "d_value": hf["head_dim"], "n_kv_heads_decoder": hf["num_key_value_heads"]}
