#!/usr/bin/env python3
"""Writes tests/data/families/{whisper,trocr,donut}.safetensors and the models of these names.

    python tests/make/make_vectors.py

The models are random, as in tests/make/make_families.py, but their sources are vectors, not ids. Whisper's
vectors follow its convolutions. The decoders of VisionEncoderDecoder read a memory of another width: TrOCR's
keys have that width, and the projection of mBART (Donut) is folded into its keys. tests/tools/test_vectors.py
uses more models of this script: Nougat (Donut with another encoder), Speech2Text, Florence-2, and the decoders
of Canary and Cohere. The script
writes the results of transformers and the model files that tools/convert.py makes, and
tests/library/test_sources.c compares.
"""

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from safetensors.torch import save_file
from transformers import (BartConfig, DonutSwinConfig, Florence2Config,
                          Florence2ForConditionalGeneration, MBartConfig, Speech2TextConfig,
                          Speech2TextForConditionalGeneration, TrOCRConfig, ViTConfig,
                          VisionEncoderDecoderConfig, VisionEncoderDecoderModel, WhisperConfig,
                          WhisperForConditionalGeneration)
from transformers.modeling_outputs import BaseModelOutput

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/tools")]
from convert import main as convert

FAMILIES = ("whisper", "trocr", "donut")
HEARING = ("canary", "cohere_asr")  # transformers 5 has both
START, END, PAD = 3, 2, 1
LAYER_MASKS = 1 if int(transformers.__version__.split(".")[0]) > 4 else 2
IDS = dict(pad_token_id=PAD, bos_token_id=0, eos_token_id=END, decoder_start_token_id=START)
SIZES = dict(vocab_size=32, d_model=12, decoder_layers=2, decoder_attention_heads=2,
             decoder_ffn_dim=20)
# The same in configs of HEARING.
OF_SIZES = {"vocab_size": "vocab_size", "hidden_size": "d_model", "num_hidden_layers": "decoder_layers",
            "num_attention_heads": "decoder_attention_heads", "intermediate_size": "decoder_ffn_dim"}


@dataclass
class Memory(BaseModelOutput):
    """The output of an encoder, of Canary and Cohere too."""
    attention_mask: Optional[torch.Tensor] = None


def make(family, seed, memory=10, sines=False, **options):
    """Returns a random model and the width of its source vectors. options: fields of its config, or of its
    decoder's config."""
    torch.manual_seed(seed)
    encoder = dict(encoder_layers=2, encoder_ffn_dim=16,
                   encoder_attention_heads=SIZES["decoder_attention_heads"])
    width = {**SIZES, **options}["d_model"]
    if family == "whisper":
        model = WhisperForConditionalGeneration(WhisperConfig(**{
            **SIZES, **IDS, **encoder, "max_source_positions": 9, "max_target_positions": 60,
            "num_mel_bins": 4, "suppress_tokens": None, "begin_suppress_tokens": None, **options}))
    elif family == "speech_to_text":
        model = Speech2TextForConditionalGeneration(Speech2TextConfig(**{
            **SIZES, **IDS, **encoder, "max_source_positions": 40, "max_target_positions": 60,
            "input_feat_per_channel": 4, "conv_channels": 6, **options}))
    elif family == "florence2":
        text = BartConfig(**{
            **SIZES, **IDS, **encoder, "forced_eos_token_id": None, "max_position_embeddings": 60,
            "scale_embedding": seed % 2 == 0, **options})
        vision = dict(embed_dim=(4, 4), num_heads=(1, 1), num_groups=(1, 1), depths=(1, 1),
                      patch_size=(3, 3), patch_stride=(2, 2), patch_padding=(1, 1),
                      patch_prenorm=(False, True), projection_dim=width)
        model = Florence2ForConditionalGeneration(Florence2Config(
            text_config=text, vision_config=vision, image_token_id=SIZES["vocab_size"] - 1, **IDS))
    elif family in HEARING:
        encoder = dict(hidden_size=memory, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_mel_bins=8,
                       conv_kernel_size=3, subsampling_conv_channels=4, model_type="parakeet_encoder")
        text = {"max_position_embeddings": 60, **{new: SIZES[old] for new, old in OF_SIZES.items()}, **options}
        text = {"num_key_value_heads": text["num_attention_heads"], "head_dim": text["hidden_size"] // text["num_attention_heads"],
                **text}
        if family == "canary":
            encoder["hidden_size"] = memory = text["hidden_size"]  # there is no projection of the memory
            whole = {key: text.pop(key) for key in ("tie_word_embeddings", "decoder_start_token_id") if key in text}
            text = transformers.CONFIG_MAPPING["canary_decoder"](**text)
            model = transformers.CanaryForConditionalGeneration(transformers.CanaryConfig(
                **{**IDS, **whole}, encoder_config=encoder, vocab_size=text.vocab_size, decoder_config=text.to_dict()))
        else:
            model = transformers.CohereAsrForConditionalGeneration(transformers.CohereAsrConfig(
                **{**IDS, **text}, encoder_config=encoder))
        width = memory
    else:
        vision = ViTConfig(hidden_size=memory, num_hidden_layers=1, num_attention_heads=2,
                           intermediate_size=8, image_size=8, patch_size=4)
        if family == "trocr":
            text = TrOCRConfig(**{
                **SIZES, **IDS, "max_position_embeddings": 60, "scale_embedding": sines,
                "use_learned_position_embeddings": not sines, "layernorm_embedding": not sines,
                "cross_attention_hidden_size": memory, **options})
        else:
            text = MBartConfig(**{
                **SIZES, **IDS, **encoder, "encoder_layers": 1, "max_position_embeddings": 60,
                "is_decoder": True, "is_encoder_decoder": False, "scale_embedding": True, **options})
        if family == "nougat":
            vision = DonutSwinConfig(image_size=8, patch_size=4, embed_dim=memory, depths=[1],
                                     num_heads=[2], window_size=2)
        config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
        for key, value in IDS.items():
            setattr(config, key, value)
        model, width = VisionEncoderDecoderModel(config), memory
    with torch.no_grad():
        for name, p in model.named_parameters():
            if re.match(r"encoder\.|model\.(vision|multi)", name) or ".conv" in name:
                continue
            if "embed_positions" in name or "pos_emb" in name:
                p.copy_(0.5 * torch.randn_like(p))
            elif p.dim() > 1:  # makes logits of unit scale
                p.copy_(torch.randn_like(p) * 1.5 / p.shape[1] ** 0.5)
            else:
                p.copy_(("norm" in name and name.endswith("weight")) + 0.3 * torch.randn_like(p))
    model.generation_config.suppress_tokens = [PAD]  # TrOCR's sines do not advance behind a pad.
    return model.eval(), width


@torch.no_grad()
def encode(model, vectors):
    """Returns a row's memory: the output of the encoder's layers for the vectors."""
    if isinstance(model, Florence2ForConditionalGeneration):
        return model.model.language_model.encoder(inputs_embeds=vectors).last_hidden_state
    if isinstance(model, VisionEncoderDecoderModel) or model.config.model_type in HEARING:
        return vectors
    encoder = model.model.encoder
    if isinstance(model, Speech2TextForConditionalGeneration):
        x = vectors + encoder.embed_positions(torch.zeros(vectors.shape[:2], dtype=torch.long))
    else:
        x = vectors + encoder.embed_positions.weight[:vectors.shape[1]]
    for layer in encoder.layers:
        x = layer(x, *[None] * LAYER_MASKS)
        x = x[0] if isinstance(x, tuple) else x
    return encoder.layer_norm(x)


@torch.no_grad()
def logits_of(model, memory, tgt):
    return model(encoder_outputs=Memory(last_hidden_state=memory), decoder_input_ids=tgt,
                 use_cache=False).logits


def greedy(model, memory, limit):
    found = []
    while len(found) < limit:
        row = logits_of(model, memory, torch.tensor([[START] + found]))[0, -1]
        row[PAD] = -torch.inf
        if int(row.argmax()) == END:
            break
        found.append(int(row.argmax()))
    return found


def write(model, path):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        assert convert.main([folder, str(path), "--no-check"]) == 0


def case(model, width, rows, longest, target, limit, seed):
    """Returns vectors [rows, longest, width], their lengths, and the results of transformers for each row."""
    torch.manual_seed(seed)
    vectors = torch.randn(rows, longest, width)
    lengths = torch.tensor([max(1, longest - 2 * i % longest) for i in range(rows)])
    tgt = torch.randint(4, 32, (rows, target))
    tgt[:, 0] = START
    memory, logits = [], []
    ids = torch.full((rows, limit), -1)
    for row in range(rows):
        one = encode(model, vectors[row:row + 1, :lengths[row]])
        memory.append(torch.nn.functional.pad(one[0], (0, 0, 0, longest - lengths[row])))
        logits.append(logits_of(model, one, tgt[row:row + 1])[0])
        found = greedy(model, one, limit)
        ids[row, :len(found)] = torch.tensor(found, dtype=ids.dtype)
    return {"input.vectors": vectors, "input.lengths": lengths.int(), "input.tgt": tgt.int(),
            "expect.memory": torch.stack(memory), "expect.logits": torch.stack(logits),
            "expect.greedy": ids.int()}


def main():
    torch.set_num_threads(1)
    for seed, family in enumerate(FAMILIES, 5):
        model, width = make(family, seed)
        write(model, ROOT / f"tests/data/models/{family}.safetensors")
        found = case(model, width, rows=4, longest=9, target=6, limit=12, seed=seed)
        save_file({name: one.contiguous() for name, one in found.items()},
                  ROOT / f"tests/data/families/{family}.safetensors")
        print(family, found["expect.greedy"].tolist())


if __name__ == "__main__":
    main()
