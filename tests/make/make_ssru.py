#!/usr/bin/env python3
"""Writes tests/data/families/ssru.safetensors and tests/data/models/ssru.safetensors.

    python tests/make/make_ssru.py

The model is small and random, and built like Marian's students: decoder layers that are SSRUs, a zero
embedding at position 0, sinusoids in halves. This script computes its results in float64 from the formulas of
Marian (src/rnn/cells.h, models/transformer.h), and shares no code with file_model.py or the header.
tests/library/test_families.c and test_ssru.py compare. Needs numpy.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/tools")]
from convert.modelfile import write_model, write_safetensors  # noqa: E402

END = 0  # the last id is the pad


def make(seed, D=16, F=24, H=2, V=32, encoder=2, decoder=2, attention=()):
    """Returns weights by name, large enough to make targets differ. attention: the decoder layers with
    self-attention."""
    rng = np.random.default_rng(seed)
    t = {}

    def vector(name, n, mean=0.0, sd=0.3):
        t[name] = rng.normal(mean, sd, n).astype(np.float32)

    def linear(name, out, inn, size=1.6, bias=True):
        t[f"{name}.weight"] = rng.normal(0, size / np.sqrt(inn), (out, inn)).astype(np.float32)
        if bias:
            vector(f"{name}.bias", out)

    def attend(name):
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{name}.{part}", D, D)

    linear("src_embedding", V, D, 0.8, bias=False)
    for side, n in (("encoder", encoder), ("decoder", decoder)):
        for i in range(n):
            layer = f"{side}.layers.{i}"
            if side == "decoder" and i not in attention:
                linear(f"{layer}.ssru", D, D, 2.5, bias=False)
                linear(f"{layer}.ssru_gate", D, D, 2.5)
            else:
                attend(f"{layer}.self_attn")
            if side == "decoder":
                attend(f"{layer}.multihead_attn")
            linear(f"{layer}.linear1", F, D)
            linear(f"{layer}.linear2", D, F)
            for k in range(1, 4 if side == "decoder" else 3):
                vector(f"{layer}.norm{k}.weight", D, 1.0)
                vector(f"{layer}.norm{k}.bias", D)
    vector("generator.bias", V)
    t["generator.bias"][END] += 1
    return t


def config(H=2, V=32):
    return {"n_heads": H, "positions": "sinusoidal_halves", "position_divisor": "d/2-1",
            "layer_norm_eps": 1e-6, "embedding_scale": "sqrt_d", "norm": "post",
            "activation": "relu", "start_embedding": "zero", "src_pad": V - 1, "tgt_pad": V - 1,
            "suppressed": [V - 1], "end": END, "src_end": END}


class Formulas:
    """Computes one sentence at a time, and its target position by position."""

    def __init__(self, tensors, H=2):
        self.t = {name: one.astype(float) for name, one in tensors.items()}
        self.D, self.H = self.t["src_embedding.weight"].shape[1], H

    def linear(self, name, x):
        return x @ self.t[f"{name}.weight"].T + self.t.get(f"{name}.bias", 0)

    def norm(self, name, x):
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return self.t[f"{name}.weight"] * (x - m) / np.sqrt(v + 1e-6) + self.t[f"{name}.bias"]

    def attend(self, name, x, memory):
        out, K = [], self.D // self.H
        q, k, v = (self.linear(f"{name}.{one}_proj", y)
                   for one, y in zip("qkv", (x, memory, memory)))
        for h in range(self.H):
            part = slice(h * K, (h + 1) * K)
            s = q[:, part] @ k[:, part].T / np.sqrt(K)
            s = np.exp(s - s.max(-1, keepdims=True))
            out.append(s / s.sum(-1, keepdims=True) @ v[:, part])
        return self.linear(f"{name}.out_proj", np.concatenate(out, -1))

    def feed_forward(self, layer, x):
        return self.linear(f"{layer}.linear2", np.maximum(self.linear(f"{layer}.linear1", x), 0))

    def position(self, p):
        angle = p * np.exp(-np.arange(self.D // 2) * np.log(1e4) / (self.D / 2 - 1))
        return np.concatenate([np.sin(angle), np.cos(angle)])

    def embed(self, token):
        return np.sqrt(self.D) * self.t["src_embedding.weight"][token]

    def layers(self, side):
        return [f"{side}.layers.{i}" for i in range(99) if f"{side}.layers.{i}.linear1.weight"
                in self.t]

    def encode(self, ids):
        x = np.stack([self.embed(one) + self.position(p) for p, one in enumerate(ids)])
        for layer in self.layers("encoder"):
            x = self.norm(f"{layer}.norm1", x + self.attend(f"{layer}.self_attn", x, x))
            x = self.norm(f"{layer}.norm2", x + self.feed_forward(layer, x))
        return x

    def begin(self):
        """Returns the state of each decoder layer: c, or the inputs that a self-attention has seen."""
        return [np.zeros(self.D) if f"{layer}.ssru.weight" in self.t else []
                for layer in self.layers("decoder")]

    def step(self, memory, state, p, token):
        """Returns the logits after one more token. Position 0 does not read the token."""
        y = self.position(p) + (self.embed(token) if p else 0)
        for i, layer in enumerate(self.layers("decoder")):
            if isinstance(state[i], list):
                state[i] = state[i] + [y]
                added = self.attend(f"{layer}.self_attn", y[None], np.stack(state[i]))[0]
            else:
                x = self.t[f"{layer}.ssru.weight"] @ y
                f = self.t[f"{layer}.ssru_gate.weight"] @ y + self.t[f"{layer}.ssru_gate.bias"]
                sigma = 1 / (1 + np.exp(-f))
                state[i] = sigma * state[i] + (1 - sigma) * x
                added = np.maximum(state[i], 0)
            y = self.norm(f"{layer}.norm1", y + added)
            y = self.norm(f"{layer}.norm2",
                          y + self.attend(f"{layer}.multihead_attn", y[None], memory)[0])
            y = self.norm(f"{layer}.norm3", y + self.feed_forward(layer, y))
        return self.t["src_embedding.weight"] @ y + self.t["generator.bias"]

    def forward(self, ids, tgt):
        memory, state = self.encode(ids), self.begin()
        return memory, np.stack([self.step(memory, state, p, one) for p, one in enumerate(tgt)])

    def greedy(self, ids, limit):
        """Returns the ids without the end token, the sum of log-probabilities with it, and the least margin
        between the two best tokens."""
        memory, state, out, score, margin = self.encode(ids), self.begin(), [], 0.0, np.inf
        while len(out) < limit:
            z = self.step(memory, state, len(out), out[-1] if out else None)
            logs = z - z.max() - np.log(np.exp(z - z.max()).sum())
            best = int(np.argmax(z[:-1]))
            score += logs[best]
            margin = min(margin, z[best] - np.sort(z[:-1])[-2])
            if best == END:
                break
            out.append(best)
        return out, score, margin


def sentences(rows, width, vocabulary=32, length=7, seed=3):
    """Returns source ids [rows, width] followed by an end token and pads, their lengths, and targets."""
    rng = np.random.default_rng(seed)
    lengths = np.array([width - i % 4 for i in range(rows)], np.int32)
    src = np.full((rows, width), vocabulary - 1, np.int32)
    for row, n in enumerate(lengths):
        src[row, :n - 1] = rng.integers(1, vocabulary - 1, n - 1)
        src[row, n - 1] = END
    return src, lengths, rng.integers(1, vocabulary - 1, (rows, length)).astype(np.int32)


def main():
    tensors, limit = make(283, D=12, F=16, encoder=1), 12
    model = Formulas(tensors)
    src, lengths, tgt = sentences(4, 8)
    memory = np.zeros((*src.shape, model.D), np.float32)
    logits = np.zeros((*tgt.shape, 32), np.float32)
    ids, scores = np.full((4, limit), -1, np.int32), np.zeros(4, np.float32)
    for row, n in enumerate(lengths):
        memory[row, :n], logits[row] = model.forward(src[row, :n], tgt[row])
        found, scores[row], _ = model.greedy(src[row, :n], limit)
        ids[row, :len(found)] = found
        print(len(found), found)
    write_model(ROOT / "tests/data/models/ssru.safetensors", tensors, config())
    write_safetensors(ROOT / "tests/data/families/ssru.safetensors", {
        "input.src": src, "input.src_lengths": lengths, "input.tgt": tgt,
        "expect.memory": memory, "expect.logits": logits, "expect.greedy": ids,
        "expect.scores": scores})


if __name__ == "__main__":
    main()
