"""Makes Moonshine and Moonshine streaming models of random weights, as folders of Hugging Face.

    python tests/make/make_moonshine.py

writes tests/data/transcribe: moonshine.safetensors and moonshine-streaming.safetensors of tools/convert.py, and
moonshine.jsonl and moonshine-streaming.jsonl, which have the ids that transformers finds in noise.wav with the same
weights: a line of greedy search and one of a beam of 4."""

import json
import math
import random
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from convert import main as convert  # noqa: E402

DATA = ROOT / "tests" / "data" / "transcribe"
RATE = 16000
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "\u2581", *"abcdehilnorst",
          "\u2581t", "he", "\u2581the", "in", "\u2581a", "<<ST_0>>"]
VOCABULARY = len(PIECES)
MERGES = [["\u2581", "t"], ["h", "e"], ["\u2581t", "he"], ["i", "n"], ["\u2581", "a"]]


BYTES = range(3, 259)


def write_tokenizer(folder, size=VOCABULARY):
    """A tokenizer.json of the form that Moonshine's has: byte-pair merges of pieces as SentencePiece has them,
    bytes for all else, and tokens that give no text. tokenizer_config.json names the same class."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": PIECES.index(one), "content": one, **plain} for one in (*PIECES[:3], "<<ST_0>>")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                                    {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {one: at for at, one in enumerate([*PIECES, *(f"x{i}" for i in range(len(PIECES), size))])}, "merges": MERGES}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "clean_up_tokenization_spaces": False,
        "tokenizer_class": "PreTrainedTokenizerFast"}))


def draw_rope(rng):
    rope = rng.choice([{"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0},
                       {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 32}, {"rope_type": "proportional"}])
    return {**rope, "rope_theta": rng.choice([100.0, 10000.0]), "partial_rotary_factor": rng.choice([0.5, 0.62, 0.8, 0.9])}


def draw(seed, streaming, positions=300):
    rng = random.Random(seed)
    heads, acts = rng.choice([1, 2, 4]), ["gelu", "silu", "relu", "gelu_pytorch_tanh"]
    common = {"vocab_size": VOCABULARY, "hidden_size": heads * rng.choice([5, 8, 10]), "attention_bias": rng.random() < 0.3,
              "intermediate_size": rng.choice([20, 31]), "rope_parameters": draw_rope(rng), "pad_token_id": 0,
              "pad_head_dim_to_multiple_of": rng.choice([None, 8]), "tie_word_embeddings": rng.random() < 0.5}
    if rng.random() < 0.3:
        common["head_dim"] = rng.choice([6, 8])
    torch.manual_seed(seed)
    if streaming:
        groups = rng.choice([n for n in (1, 2, 4) if heads % n == 0])
        layers = rng.randint(1, 3)
        encoder = {"hidden_size": rng.choice([common["hidden_size"], heads * 6, heads * 9]), "num_hidden_layers": layers,
                   "num_attention_heads": heads, "num_key_value_heads": groups, "intermediate_size": rng.choice([17, 30]),
                   "hidden_act": rng.choice(acts), "attention_bias": rng.random() < 0.3, "max_position_embeddings": positions,
                   "frame_ms": rng.choice([5.0, 2.5, 10.0]),
                   "sliding_windows": [[rng.randint(1, 9), rng.randint(0, 5)] for _ in range(layers + rng.randint(0, 1))]}
        config = transformers.MoonshineStreamingConfig(
            **common, encoder_config=encoder, num_hidden_layers=rng.randint(1, 2), num_attention_heads=heads,
            num_key_value_heads=heads, hidden_act=rng.choice(acts), max_position_embeddings=positions, decoder_start_token_id=1)
        model = transformers.MoonshineStreamingForConditionalGeneration(config).eval()
    else:
        config = transformers.MoonshineConfig(
            **common, encoder_num_hidden_layers=rng.randint(1, 3), decoder_num_hidden_layers=rng.randint(1, 2),
            encoder_num_attention_heads=heads, decoder_num_attention_heads=heads,
            encoder_hidden_act=rng.choice(acts), decoder_hidden_act=rng.choice(acts))
        model = transformers.MoonshineForConditionalGeneration(config).eval()
    if rng.random() < 0.7:
        model.generation_config.suppress_tokens = list(BYTES)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_((0 if "gamma" in name else 1) + 0.3 * torch.randn_like(p))
            elif p.dim() < 2 and "log_k" not in name:
                p.copy_(0.3 * torch.randn_like(p))
            elif "emb" in name or "proj_out" in name:
                p.copy_(0.7 * torch.randn_like(p))
            elif p.dim() > 1:
                p.copy_(1.5 / math.sqrt(p[0].numel()) * torch.randn_like(p))
    return model


def sound(rng, n):
    time = np.arange(n) / RATE
    tone = sum(np.sin(2 * np.pi * f * time + 3 * np.sin(9 * time)) for f in (220, 700, 1900))
    noise = np.random.default_rng(rng.randrange(1 << 30)).normal(size=n)
    return ((tone / 6 + noise * 0.2) * np.abs(np.sin(4 * time)) * 0.4).astype(np.float32)


def noise(seconds):
    return sound(random.Random(1), int(seconds * RATE))


def read_wav(path):
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(30 * RATE), "<i2").astype(np.float32) / 32768


def inputs_of(model, samples):
    """What the model reads: of streaming, whole frames and a mask."""
    x = torch.tensor(samples)[None]
    if model.config.model_type == "moonshine":
        return {"input_values": x}
    frame = round(model.config.encoder_config.frame_ms * 16)
    x = torch.nn.functional.pad(x, (0, -len(samples) % frame))
    return {"input_values": x, "attention_mask": (torch.arange(x.shape[1]) < len(samples)).long()[None]}


def generate(model, samples, beam):
    """The ids that transformers finds: at most 6.5 tokens a second, the first one counted."""
    most = max(2, int(len(samples) * 6.5 / RATE))
    with torch.no_grad():
        made = model.generate(**inputs_of(model, samples), do_sample=False, num_beams=beam, max_length=most,
                              decoder_start_token_id=1)[0].tolist()[1:]
    return made[:made.index(2)] if 2 in made else made


def main():
    samples = read_wav(DATA / "noise.wav")
    for name, seed in SEEDS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = draw(seed, name != "moonshine")
            model.save_pretrained(folder)
            write_tokenizer(Path(folder))
            status = convert.main([folder, str(DATA / f"{name}.safetensors"), "--no-check", "--vad", "none"])
            assert status == 0
            found = [generate(model, samples, beam) for beam in (1, 4)]
            (DATA / f"{name}.jsonl").write_text("".join(f'"tokens": {ids}}}\n' for ids in found))


SEEDS = {"moonshine": 6, "moonshine-streaming": 62}

if __name__ == "__main__":
    main()
