#!/usr/bin/env python3
"""Train a toy translator on three sentences and write it as a transformer.h model file.

    python tools/train/toy.py toy.safetensors        (five seconds on one core, 666 KB)

The toy reads Chinese character by character and writes English word by word. It learns its three
sentences by heart; it exists because it is small enough to look into. It is also a test of settings
that trained models rarely have: post-norm without biases, norms without weight and bias, sinusoidal
positions with another frequency for each column, separate embeddings, and an output layer that is
not tied to an embedding. It has two layers and is 64 wide.

The program fails unless PyTorch's greedy decoding gives the three targets.
"""

from __future__ import annotations

import argparse
import sys

import torch
import torch.nn.functional as F

from train import (Shape, Text, Transformer, Vocabulary, greedy, make_batches, pad_rows,
                   read_model_file, write_model_file)

PAIRS = [("我是学生", "I am a student"), ("我喜欢学习", "I like learning"), ("我是男生", "I am a boy")]
SOURCE = "P 我 是 学 生 喜 欢 习 男".split()
TARGET = "S E P I am a student like learning boy".split()


def train_toy(steps: int, seed: int) -> tuple[Transformer, Text]:
    """Trains the toy for a number of steps."""
    torch.manual_seed(seed)
    src = Vocabulary(SOURCE, "characters", {"pad": 0})
    text = Text(src, Vocabulary(TARGET, "words", {"start": 0, "end": 1, "pad": 2}))
    shape = Shape(len(src), len(text.tgt), d_model=64, n_heads=4, d_key=16, d_value=16, d_ff=128,
                  n_encoder_layers=2, n_decoder_layers=2, norm="post", bias=False, plain_norm=True,
                  positions="sinusoidal_per_index", embedding_scale=1.0, tie=False)
    model = Transformer(shape, src.pad)
    batch = next(make_batches(text.encode_pairs(PAIRS), 1000, text))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        logits = model(batch.src, batch.tgt_in).flatten(0, 1)
        loss = F.cross_entropy(logits, batch.tgt_out.flatten(), ignore_index=text.tgt.pad)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:4d} loss {loss.item():.6f}")
    return model.eval(), text


def check(model: Transformer, text: Text) -> bool:
    """Translates each sentence with 0, 1 and 3 pads after it, prints the results, and returns whether
    all are right. Pads must not change a translation."""
    good = True
    for source, target in PAIRS:
        for pads in (0, 1, 3):
            ids = pad_rows([text.encode_source(source) + [text.src.pad] * pads], text.src.pad)
            output = text.tgt.decode(greedy(model, ids, text.tgt)[0])
            verdict = "" if output == target else f"   WRONG, should be {target}"
            print(f"{source}{'P' * pads} -> {output}{verdict}")
            good &= output == target
    return good


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", help="the model file to write")
    p.add_argument("--steps", type=int, default=200, help="training steps (default 200)")
    p.add_argument("--seed", type=int, default=1, help="seed of the random weights (default 1)")
    p.add_argument("--dtype", choices=("f32", "f16", "bf16"), default="f32",
                   help="type of the matrices in the file (default f32)")
    args = p.parse_args()
    write_model_file(args.out, *train_toy(args.steps, args.seed), args.dtype)
    if not check(*read_model_file(args.out)):
        sys.exit("the toy did not learn its sentences")


if __name__ == "__main__":
    main()
