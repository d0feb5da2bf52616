"""Writes the files of ggml's programs, for tests: GGUF by the package gguf, ggml-*.bin of whisper.cpp by the code here."""

import re
import struct

import gguf
import numpy as np

# The names of llama.cpp for the tensors of transformers' T5
NAMES = (("shared.", "token_embd."), ("lm_head.", "output."),
         (r"(en|de)coder\.final_layer_norm", r"\1c.output_norm"), (r"(en|de)coder\.block\.", r"\1c.blk."),
         (r"\.layer\.0\.SelfAttention\.relative_attention_bias", ".attn_rel_b"),
         (r"\.layer\.0\.SelfAttention\.", ".attn_"), (r"\.layer\.1\.EncDecAttention\.", ".cross_attn_"),
         (r"\.layer\.0\.layer_norm", ".attn_norm"), (r"(dec.*)\.layer\.1\.layer_norm", r"\1.cross_attn_norm"),
         (r"\.layer\.[12]\.layer_norm", ".ffn_norm"), (r"\.layer\.[12]\.DenseReluDense\.wi_0", ".ffn_gate"),
         (r"\.layer\.[12]\.DenseReluDense\.wi(_1)?", ".ffn_up"), (r"\.layer\.[12]\.DenseReluDense\.wo", ".ffn_down"))


def name_of(name, names=NAMES):
    for pattern, replacement in names:
        name = re.sub(pattern, replacement, name)
    return name


def write_gguf(path, tensors, fields=None, arch="t5", kinds=None, blocks=None):
    """tensors: arrays by name. fields: by key; a pair is a type of gguf and a value. kinds: the type of gguf that a tensor
    gets. blocks: bytes by name that are blocks already."""
    writer = gguf.GGUFWriter(path, arch or "t5")
    if arch is None:
        writer.kv_data[0].clear()
    for key, value in (fields or {}).items():
        kind = gguf.GGUFValueType
        if key == "general.alignment":
            writer.add_custom_alignment(value)
        elif isinstance(value, tuple):
            writer.add_key_value(key, value[1], value[0])
        elif isinstance(value, (list, np.ndarray)):
            writer.add_array(key, value)
        elif isinstance(value, bytes):
            writer.add_key_value(key, value, kind.ARRAY, sub_type=kind.UINT8)
        else:
            of = {bool: kind.BOOL, int: kind.UINT32, float: kind.FLOAT32, str: kind.STRING}[type(value)]
            writer.add_key_value(key, value, of)
    for name, tensor in tensors.items():
        kind = (kinds or {}).get(name, gguf.GGMLQuantizationType.F32)
        data = tensor
        if name in (blocks or {}):
            data = blocks[name]
        elif kind not in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
            data = gguf.quants.quantize(tensor, kind)
        elif kind == gguf.GGMLQuantizationType.F16:
            data = tensor.astype(np.float16)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_whisper(path, numbers, filters, vocabulary, tensors, kinds=None, blocks=None):
    """numbers: the eleven of the file's beginning. kinds: ggml's number of a tensor's type, F32 if none is given."""
    with open(path, "wb") as file:
        file.write(struct.pack("<I11i", 0x67676D6C, *numbers))
        file.write(struct.pack("<2i", *filters.shape) + filters.astype("<f4").tobytes())
        file.write(struct.pack("<i", len(vocabulary)))
        for token in vocabulary:
            file.write(struct.pack("<I", len(token)) + token)
        for name, tensor in tensors.items():
            kind = (kinds or {}).get(name, 0)
            data = (blocks or {}).get(name)
            if data is None:
                data = (tensor.astype({0: "<f4", 1: "<f2"}[kind]) if kind < 2 else
                        gguf.quants.quantize(tensor.astype("<f4"), gguf.GGMLQuantizationType(kind)))
            file.write(struct.pack("<3i", tensor.ndim, len(name), kind) + struct.pack(f"<{tensor.ndim}i", *tensor.shape[::-1])
                       + name.encode() + data.tobytes())


# The names of whisper.cpp, which are OpenAI's, for the tensors of transformers' Whisper
WHISPER_NAMES = ((r"^model\.", ""), (r"\.layers\.", ".blocks."), (r"\.self_attn\.([qkv])_proj", r".attn.\1"),
                 (r"\.encoder_attn\.([qkv])_proj", r".cross_attn.\1"), (r"attn\.q\.", "attn.query."), (r"attn\.k\.", "attn.key."),
                 (r"attn\.v\.", "attn.value."), (r"\.self_attn\.out_proj", ".attn.out"), (r"\.encoder_attn\.out_proj", ".cross_attn.out"),
                 (r"\.self_attn_layer_norm", ".attn_ln"), (r"\.encoder_attn_layer_norm", ".cross_attn_ln"),
                 (r"\.final_layer_norm", ".mlp_ln"), (r"\.fc1\.", ".mlp.0."), (r"\.fc2\.", ".mlp.2."),
                 (r"^encoder\.layer_norm", "encoder.ln_post"), (r"^decoder\.layer_norm", "decoder.ln"),
                 (r"embed_tokens", "token_embedding"), (r"embed_positions\.weight", "positional_embedding"))


def whisper_tensors(tensors):
    """Those of transformers as whisper.cpp has them: biases of convolutions as columns."""
    found = {name_of(name, WHISPER_NAMES): tensor for name, tensor in tensors.items() if name != "proj_out.weight"}
    return {name: tensor.reshape(-1, 1) if re.fullmatch(r"encoder\.conv\d\.bias", name) else tensor
            for name, tensor in found.items()}
