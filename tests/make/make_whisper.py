"""Makes Whisper models of random weights, as folders of Hugging Face.

    python tests/make/make_whisper.py

writes tests/data/transcribe: noise.wav, whisper.safetensors of tools/convert.py, and beam1.jsonl and
beam5.jsonl, which have the segments that faster-whisper finds in the noise with the same weights."""

import json
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from convert import main as convert  # noqa: E402
from convert.tokenizer_files import BYTE_LETTERS  # noqa: E402

DATA = ROOT / "tests" / "data" / "transcribe"
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>",
           "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
TIMES = 1501


def tokenizer(merges):
    """A tokenizer.json of single bytes, some merges and Whisper's special tokens, and the ids."""
    letters = list(dict.fromkeys([*BYTE_LETTERS.values()]))
    vocab = {letter: at for at, letter in enumerate(letters)}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    ids = {token: len(vocab) + at for at, token in enumerate(SPECIAL)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": at, "content": token, **plain} for token, at in ids.items()],
            "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "vocab": vocab,
                      "merges": [" ".join(pair) for pair in merges]}}, ids


MERGES = [("\u0120", "t"), ("h", "e"), ("\u0120t", "he"), ("\u0120", "a"), ("i", "n"), ("\u0120a", "n")]


def make(folder, seed, multilingual=False, spread=0.3, **options):
    """Writes a random model to a folder and returns it with the ids of its special tokens. options: fields
    of its config."""
    torch.manual_seed(seed)
    files, ids = tokenizer(MERGES)
    rows = max(ids.values()) + 1 + TIMES
    end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    config = WhisperConfig(**{
        "vocab_size": rows, "d_model": 8, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16, "num_mel_bins": 80, "pad_token_id": end, "bos_token_id": end,
        "eos_token_id": end, "decoder_start_token_id": start, "init_std": spread,
        "begin_suppress_tokens": None, "suppress_tokens": None, **options})
    model = WhisperForConditionalGeneration(config).eval()
    heads = [[config.decoder_layers - 1, 0], [0, config.decoder_attention_heads - 1]]
    never = [ids[one] for one in SPECIAL[1:2] + SPECIAL[5:9]]
    model.generation_config = GenerationConfig(
        bos_token_id=end, eos_token_id=end, pad_token_id=end, decoder_start_token_id=start, max_length=448,
        begin_suppress_tokens=[files["model"]["vocab"]["\u0120"], end], suppress_tokens=never,
        forced_decoder_ids=[[1, ids["<|notimestamps|>"]]], alignment_heads=heads,
        is_multilingual=multilingual, no_timestamps_token_id=ids["<|notimestamps|>"],
        **({"lang_to_id": {f"<|{code}|>": ids[f"<|{code}|>"] for code in ("en", "de", "fr")},
            "task_to_id": {one: ids[f"<|{one}|>"] for one in ("translate", "transcribe")}}
           if multilingual else {}))
    model.save_pretrained(folder)
    (Path(folder) / "tokenizer.json").write_text(json.dumps(files))
    return model, ids


def noise(seconds, seed):
    """Noise of changing loudness and colour, as 16-bit samples at 16 kHz."""
    random = np.random.default_rng(seed)
    n = int(seconds * 16000)
    time = np.arange(n) / 16000
    tone = sum(np.sin(2 * np.pi * f * time + 3 * np.sin(9 * time)) for f in (220, 700, 1900, 3300))
    return ((tone / 6 + random.normal(size=n) * 0.2) * np.abs(np.sin(4 * time)) * 12000).astype("<i2")


def write_wav(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())


def main():
    import ctranslate2
    from faster_whisper import WhisperModel
    DATA.mkdir(exist_ok=True)
    samples = noise(1.6, 1)
    write_wav(DATA / "noise.wav", samples)
    with tempfile.TemporaryDirectory() as folder:
        make(f"{folder}/hf", SEED)
        status = convert.main([f"{folder}/hf", str(DATA / "whisper.safetensors"), "--no-check"])
        assert status == 0
        ctranslate2.converters.TransformersConverter(f"{folder}/hf", copy_files=["tokenizer.json"]).convert(
            f"{folder}/ct2")
        engine = WhisperModel(f"{folder}/ct2", device="cpu", compute_type="float32", cpu_threads=1)
        for beam in (1, 5):
            segments, _ = engine.transcribe(samples.astype(np.float32) / 32768, beam_size=beam, temperature=0,
                                            suppress_tokens=None, log_prob_threshold=None,
                                            compression_ratio_threshold=None, no_speech_threshold=None)
            (DATA / f"beam{beam}.jsonl").write_text("".join(
                f'{{"start": {one.start:.2f}, "end": {one.end:.2f}, "tokens": {one.tokens}}}\n'
                for one in segments))


SEED = 7

if __name__ == "__main__":
    main()
