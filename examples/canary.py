"""Transcribes sound with Canary or Cohere Transcribe: PyTorch computes the encoder, transformer.h the decoder.

    python tools/convert.py FOLDER model.safetensors
    python examples/canary.py FOLDER model.safetensors speech.wav en

FOLDER is the model's folder for transformers, 5.24 or later. The sound has 16,000 samples a second."""

from __future__ import annotations

import sys
from typing import Any

import torch
import transformers
from transformer_h import Model


def transcribe(network: Any, model: Model, inputs: Any, **options: Any) -> list[str]:
    """Returns the text of each row of what the processor gives. options are those of Model.decode."""
    with torch.no_grad():
        out = network.get_encoder()(inputs["input_features"], attention_mask=inputs["attention_mask"])
    memories = [row[mask.bool()].float().numpy() for row, mask in zip(out.last_hidden_state, out.attention_mask)]
    config = network.generation_config
    start = config.bos_token_id if config.decoder_start_token_id is None else config.decoder_start_token_id
    prompts = [prompt if prompt[0] == start else [start, *prompt] for prompt in inputs["decoder_input_ids"].tolist()]
    return model.decode(memories, prompt=prompts, **options)


def main(folder: str, path: str, sound: str, language: str) -> None:
    import soundfile
    samples, rate = soundfile.read(sound, dtype="float32")
    processor = transformers.AutoProcessor.from_pretrained(folder)
    network = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(folder, dtype=torch.float32).eval()
    if network.config.model_type == "canary":
        inputs = processor.apply_transcription_request(samples, source_language=language)
    else:
        inputs = processor(samples, language=language, sampling_rate=rate)
    print(*transcribe(network, Model(path), inputs, max_length=500), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
