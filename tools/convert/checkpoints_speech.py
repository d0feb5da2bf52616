"""checkpoints_speech.py: what transformer.h runs of models that also hear, among Hugging Face's directories.

    seamless_m4t, seamless_m4t_v2   the text encoder and the text decoder, an m2m_100 under other names.
              The speech encoder, and what makes units and sound of texts, are left out
"""

from __future__ import annotations

import re

from .modelfile import ConvertError, Model, Tensors

SEAMLESS = ("seamless_m4t", "seamless_m4t_v2")
AS_M2M_100 = ((r"^text_(encoder|decoder)\.", r"\1."), (r"\.ffn\.fc", ".fc"), (r"\.ffn_layer_norm\.", ".final_layer_norm."),
              (r"\.cross_attention\.", ".encoder_attn."), (r"\.cross_attention_layer_norm\.", ".encoder_attn_layer_norm."))
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
