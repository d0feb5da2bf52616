#!/usr/bin/env python3
"""Writes tests/data/families/*.safetensors and tests/data/models/{marian,bart ...}.safetensors.

    python tests/make/make_families.py [FAMILY ...]

For each Hugging Face family the script makes a model of a few kilobytes with random weights. It writes the
results of transformers (memory, logits, greedy targets with their scores) and the model file that
tools/convert.py makes of its directory. tests/library/test_families.c compares both. Needs what
tools/requirements.txt lists.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/tools")]
from convert import main as convert
import families

SMALL = dict(vocab_size=32, d_model=12, encoder_layers=1, decoder_layers=2,
             encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16,
             decoder_ffn_dim=16, max_position_embeddings=40)
SEEDS = {"marian": 7, "bart": 29, "mbart": 47, "m2m_100": 50, "pegasus": 59, "fsmt": 3,
         "blenderbot": 13, "blenderbot-small": 12}
T5_SEEDS = {"t5": 11, "mt5": 23, "umt5": 32}  # needs transformers 4: make test-t5 says how to get it

GEMMA_SEEDS = {"t5gemma": 19, "t5gemma2": 22}


def greedy(model, src, limits):
    """Returns ids without the start and the end token, padded with -1, and the sums of their
    log-probabilities."""
    rows = families.generate(model, src, limits, num_beams=1)
    ids = torch.full((len(rows), max(map(len, rows))), -1)
    scores = torch.zeros(len(rows))
    config, generation = model.config, model.generation_config
    for row, (found, limit) in enumerate(zip(rows, limits)):
        ids[row, :len(found)] = torch.tensor(found)
        ended = found + [generation.eos_token_id] * (len(found) < limit)
        source = src[row][src[row] != config.pad_token_id][None]
        tgt = torch.tensor([[config.decoder_start_token_id] + ended[:-1]])
        logs = families.reference(model, source, tgt)[1][0].double().log_softmax(-1)
        forced = generation.forced_bos_token_id is not None
        scores[row] = sum(logs[at, one].item() for at, one in enumerate(ended) if at >= forced)
    return ids, scores


def main():
    torch.set_num_threads(1)
    (ROOT / "tests/data/families").mkdir(exist_ok=True)
    for family, seed in {**SEEDS, **T5_SEEDS, **GEMMA_SEEDS}.items():
        if sys.argv[1:] and family not in sys.argv[1:]:
            continue
        is_t5 = family in T5_SEEDS
        if is_t5 and not transformers.__version__.startswith("4."):
            print(f"{family}: left out, transformers is {transformers.__version__}")
            continue
        own = {"marian": dict(pad_token_id=31, decoder_start_token_id=31),
               "fsmt": dict(vocab_size=None, src_vocab_size=32, tgt_vocab_size=30,
                            activation_function="gelu", decoder_ffn_dim=20)}.get(family, {})
        model = families.make_t5(family, seed=seed, vocab_size=32, d_model=12, num_heads=2, d_kv=7,
                                 num_layers=1, d_ff=16) if is_t5 else families.make_gemma(
            family, seed) if family in GEMMA_SEEDS else families.make(
            family, seed=seed, **{**SMALL, **own})
        src, lengths, tgt = families.sentences(model, rows=4, width=8 if family in SEEDS else 14)
        memory, logits = families.reference(model, src, tgt)
        limits = [12] * len(src)
        ids, scores = greedy(model, src, limits)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            status = convert.main([folder, str(ROOT / f"tests/data/models/{family}.safetensors"),
                                   "--no-check"])
            assert status == 0
        save_file({"input.src": src.int(), "input.src_lengths": lengths.int(),
                   "input.tgt": tgt.int(), "expect.memory": memory.contiguous(), "expect.logits": logits,
                   "expect.greedy": ids.int(), "expect.scores": scores},
                  ROOT / f"tests/data/families/{family}.safetensors")
        print(family, [len(row[row >= 0]) for row in ids], ids.tolist())


if __name__ == "__main__":
    main()
