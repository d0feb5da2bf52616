"""Makes Canary and Cohere Transcribe models of random weights, as folders of Hugging Face.

    python tests/make/make_canary.py

writes tests/data/transcribe: canary.safetensors and cohere.safetensors of tools/convert.py, and canary.jsonl and
cohere.jsonl, which have the ids that transformers finds in noise.wav with the same weights. Each line is of one set of
options, which test_canary.sh has in the same order. canary.f32 and cohere.f32 have the memory, which
tests/transcribe/test_canary.c compares."""

import json
import math
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(Path(__file__).resolve().parent)]
from convert import main as convert  # noqa: E402
from make_moonshine import RATE, read_wav, sound  # noqa: E402, F401

DATA = ROOT / "tests" / "data" / "transcribe"
SPECIAL = ["<unk>", "<|nospeech|>", "<pad>", "<|endoftext|>", "<|startoftranscript|>", "<|pnc|>", "<|nopnc|>",
           "<|startofcontext|>", "<|itn|>", "<|noitn|>", "<|timestamp|>", "<|notimestamp|>", "<|diarize|>", "<|nodiarize|>",
           "<|emo:undefined|>", "<|en|>", "<|de|>", "<|fr|>", "<|ja|>", "<|uk|>"]
PIECES = [*SPECIAL, "\u2581", *"abcdehilnorst", "\u2581t", "he", "\u2581the", "in", "\u2581a"]
MERGES = [["\u2581", "t"], ["h", "e"], ["\u2581t", "he"], ["i", "n"], ["\u2581", "a"]]
START, END, PAD = 7, 3, 2
PROMPT = ["<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "source", "target", "punctuation", "<|noitn|>",
          "<|notimestamp|>", "<|nodiarize|>"]
FAMILIES = ("canary", "cohere_asr")


def write_tokenizer(folder):
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": at, "content": one, **plain} for at, one in enumerate(SPECIAL)],
        "pre_tokenizer": space, "decoder": space,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {one: at for at, one in enumerate(PIECES)}, "merges": MERGES}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": SPECIAL[4], "eos_token": SPECIAL[END], "unk_token": "<unk>", "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False, "tokenizer_class": "PreTrainedTokenizerFast"}))


def draw_sizes(rng):
    """Fields of an encoder and of a decoder."""
    heads, acts = rng.choice([1, 2, 4]), ["silu", "relu", "gelu", "gelu_pytorch_tanh"]
    encoder = {"hidden_size": heads * rng.choice([4, 6, 10]), "num_hidden_layers": rng.randint(1, 3),
               "num_attention_heads": heads, "intermediate_size": rng.choice([12, 21]), "hidden_act": rng.choice(acts),
               "attention_bias": rng.random() < 0.6, "convolution_bias": rng.random() < 0.6,
               "conv_kernel_size": rng.choice([1, 3, 5, 9]), "subsampling_factor": rng.choice([8, 8, 8, 2, 4, 6, 16]),
               "subsampling_conv_channels": rng.choice([3, 4, 8]), "subsampling_conv_kernel_size": 3, "subsampling_conv_stride": 2,
               "num_mel_bins": rng.choice([16, 32, 80, 128]), "scale_input": rng.random() < 0.5}
    if rng.random() < 0.15:  # transformers takes what is left of the bins to be num_mel_bins // stride^n
        encoder.update(subsampling_conv_kernel_size=5, num_mel_bins=64)
    if rng.random() < 0.2:
        encoder["head_dim"] = rng.choice([3, 8])
    heads = rng.choice([1, 2])
    decoder = {"hidden_size": heads * rng.choice([6, 8]), "num_hidden_layers": rng.randint(1, 2), "num_attention_heads": heads,
               "num_key_value_heads": rng.choice([1, heads]), "intermediate_size": rng.choice([20, 33]), "vocab_size": len(PIECES),
               "max_position_embeddings": 200, "hidden_act": rng.choice(acts), "attention_bias": rng.random() < 0.6,
               "pad_token_id": PAD, "bos_token_id": 4, "eos_token_id": END}
    decoder["head_dim"] = rng.choice([None, 5]) or decoder["hidden_size"] // heads
    return encoder, decoder


def draw(seed, family, encoder=None, decoder=None):
    """Returns a random model and its feature extractor."""
    rng = random.Random(seed)
    drawn = draw_sizes(rng)
    encoder, decoder = {**drawn[0], **(encoder or {})}, {**drawn[1], **(decoder or {})}
    torch.manual_seed(seed)
    if family == "canary":  # the memory is not projected
        encoder["hidden_size"] = decoder["hidden_size"] = encoder["num_attention_heads"] * decoder["num_attention_heads"] * rng.choice([6, 8])
        model = transformers.CanaryForConditionalGeneration(transformers.CanaryConfig(
            encoder_config={**encoder, "model_type": "parakeet_encoder"}, decoder_config=decoder, vocab_size=len(PIECES),
            decoder_start_token_id=START, tie_word_embeddings=rng.random() < 0.5))
        features = transformers.ParakeetFeatureExtractor(feature_size=encoder["num_mel_bins"], preemphasis=rng.choice([0.97, 0.5, 0.0]))
    else:
        model = transformers.CohereAsrForConditionalGeneration(transformers.CohereAsrConfig(
            encoder_config={**encoder, "model_type": "parakeet_encoder"}, **decoder, decoder_start_token_id=rng.choice([None, START]),
            tie_word_embeddings=rng.random() < 0.5))
        features = transformers.CohereAsrFeatureExtractor(feature_size=encoder["num_mel_bins"], dither=0.0,
                                                          preemphasis=rng.choice([0.97, 0.5]))
    model.eval().generation_config.suppress_tokens = list(range(END)) + list(range(END + 1, len(SPECIAL)))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_(name.endswith("weight") + 0.3 * torch.randn_like(p))
            elif "emb" in name or "proj_out" in name:
                p.copy_((0.7 if "pos_emb" in name else 0.2) * torch.randn_like(p))
            elif "decoder" in name and "layers" in name and p.dim() > 1:  # or a text is one token again and again
                p.copy_(4.0 / math.sqrt(p[0].numel()) * torch.randn_like(p))
            elif p.dim() < 2 or "bias_" in name:
                p.copy_(0.3 * torch.randn_like(p))
            else:
                p.copy_(1.5 / math.sqrt(p[0].numel()) * torch.randn_like(p))
        for name, p in model.named_buffers():
            if name.endswith("running_mean"):
                p.copy_(0.3 * torch.randn_like(p))
            elif name.endswith("running_var"):
                p.copy_(0.5 + torch.rand_like(p))
    return model, features


def save(model, features, folder):
    model.save_pretrained(folder)
    features.save_pretrained(folder)
    write_tokenizer(Path(folder))


def prompt_of(model, source, target=None, plain=False):
    """The ids before a text, as transformers has them: of CohereAsrProcessor, or of NeMo's canary2."""
    choices = {"source": f"<|{source}|>", "target": f"<|{target or source}|>", "punctuation": "<|nopnc|>" if plain else "<|pnc|>"}
    words = (["\u2581"] if model.config.model_type == "cohere_asr" else []) + PROMPT
    return [PIECES.index(choices.get(one, one)) for one in words]


def memory_of(model, features, samples):
    inputs = features(samples, sampling_rate=RATE, return_tensors="pt")
    inputs = {"input_features": inputs["input_features"], "attention_mask": inputs["attention_mask"]}
    with torch.no_grad():
        out = model.get_encoder()(**inputs)
    return inputs, out.last_hidden_state[0][out.attention_mask[0].bool()].numpy()


def generate(model, inputs, rows, prompt, beam=1):
    """The ids that transformers finds, at most 50 more than the memory has rows."""
    most = min(rows + 50, model.config.get_text_config().max_position_embeddings - len(prompt) - 1)
    with torch.no_grad():
        made = model.generate(**inputs, decoder_input_ids=torch.tensor([prompt]), do_sample=False, num_beams=beam,
                              max_new_tokens=most)[0].tolist()
    made = made[len(prompt) + (made[:len(prompt)] != prompt):]
    return made[:made.index(END)] if END in made else made


# Options of transcribe, and what they are here.
OPTIONS = {"canary": ({"source": "de"}, {"source": "de", "target": "en"}, {"source": "uk", "target": "fr", "plain": True}),
           "cohere_asr": ({"source": "de"}, {"source": "ja"}, {"source": "fr", "plain": True})}
SEEDS = {"canary": 6, "cohere_asr": 8}
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_mel_bins": 16, "subsampling_factor": 8, "subsampling_conv_channels": 4,
         "hidden_size": 12, "subsampling_conv_kernel_size": 3}


def main():
    samples = read_wav(DATA / "noise.wav")
    for family, seed in SEEDS.items():
        name = family.removesuffix("_asr")
        with tempfile.TemporaryDirectory() as folder:
            model, features = draw(seed, family, SMALL)
            save(model, features, folder)
            status = convert.main([folder, str(DATA / f"{name}.safetensors"), "--no-check", "--vad", "none"])
            assert status == 0
            inputs, memory = memory_of(model, features, samples)
            found = [generate(model, inputs, len(memory), prompt_of(model, **options), beam)
                     for options in OPTIONS[family] for beam in (1, 4)]
            (DATA / f"{name}.jsonl").write_text("".join(f'"tokens": {ids}}}\n' for ids in found))
            memory.astype("<f4").tofile(DATA / f"{name}.f32")
            print(name, memory.shape, found)


if __name__ == "__main__":
    main()
