"""Computes a model file as the header's manual defines it, in NumPy and float64. The tests of the converter
compare with it."""

import json
import math
import sys
from pathlib import Path

import numpy as np

import import_path  # noqa: E402, F401
from convert.modelfile import to_f32  # noqa: E402
from convert.untrusted import read_safetensors  # noqa: E402

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "swish": lambda x: x * sigmoid(x),
               "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
               "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(
                   math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
               "gelu_sigmoid": lambda x: x * sigmoid(1.702 * x)}


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def positions(n, d, config):
    """The formulas of the manual, in float64."""
    kind = config["positions"]
    if kind == "none":
        return np.zeros((n, d))
    p = np.arange(n, dtype=float)[:, None] + config.get("position_offset", 0)
    base = float(config.get("position_base", 10000))
    j, half = np.arange(d), np.arange(d // 2)
    if kind == "sinusoidal_per_index":
        angle = p * base ** (-2 * j / d)
        return np.where(p == 0, 0, np.where(j % 2 == 0, np.sin(angle), np.cos(angle)))
    divisor = d / 2 - 1 if config.get("position_divisor") == "d/2-1" else d / 2
    if kind == "sinusoidal_halves":
        angle = p * base ** (-half / divisor)
        return np.concatenate([np.sin(angle), np.cos(angle)], 1)
    angle = p * base ** (-(j // 2) / divisor)
    return np.where(j % 2 == 0, np.sin(angle), np.cos(angle))


class Model:
    """A model file: its tensors as t, its config, and the functions that compute it."""

    def __init__(self, path):
        self.t, self.metadata = read_safetensors(path)
        self.config = json.loads(self.metadata["transformer.config"])
        self.t.setdefault("tgt_embedding.weight", self.t.get("src_embedding.weight"))
        self.t.setdefault("generator.weight", self.t["tgt_embedding.weight"])
        self.floats = {name: to_f32(one).astype(float) for name, one in self.t.items()
                       if one is not None and one.dtype != np.uint8}

    def linear(self, name, x):
        return x @ self.floats[f"{name}.weight"].T + self.floats.get(f"{name}.bias", 0)

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config.get("layer_norm_eps", 1e-5))
        return x * self.floats.get(f"{name}.weight", 1) + self.floats.get(f"{name}.bias", 0)

    def attention(self, name, x, memory, blocked):
        if f"{name}.in_proj_weight" in self.floats:
            weights = np.split(self.floats[f"{name}.in_proj_weight"], 3)
            bias = self.floats.get(f"{name}.in_proj_bias")
            biases = [0] * 3 if bias is None else np.split(bias, 3)
            q, k, v = (y @ w.T + b for y, w, b in zip((x, memory, memory), weights, biases))
        else:
            q, k, v = (self.linear(f"{name}.{letter}_proj", y)
                       for letter, y in zip("qkv", (x, memory, memory)))
        heads = self.config["n_heads"]
        q, k, v = (y.reshape(*y.shape[:2], heads, -1).swapaxes(1, 2) for y in (q, k, v))
        scale = self.config.get("attention_scale", 1 / math.sqrt(q.shape[-1]))
        scores = np.where(blocked, -np.inf, q @ k.swapaxes(-1, -2) * scale)
        y = (softmax(scores) @ v).swapaxes(1, 2)
        return self.linear(f"{name}.out_proj", y.reshape(*y.shape[:2], -1))

    def ssru(self, layer, y):
        x, gates = self.linear(f"{layer}.ssru", y), sigmoid(self.linear(f"{layer}.ssru_gate", y))
        c = np.zeros_like(x)
        for t in range(x.shape[1]):
            c[:, t] = gates[:, t] * (c[:, t - 1] if t else 0) + (1 - gates[:, t]) * x[:, t]
        return np.maximum(c, 0)

    def stack(self, side, x, blocked, memory=None, memory_blocked=None):
        x, blocked = np.asarray(x, float), np.asarray(blocked)
        activation = ACTIVATIONS[self.config["activation"]]
        pre = self.config["norm"] == "pre"
        n = len({name.split(".")[2] for name in self.t if name.startswith(f"{side}.layers.")})
        for layer in (f"{side}.layers.{i}" for i in range(n)):
            steps = [lambda y: self.attention(f"{layer}.self_attn", y, y, blocked)]
            if f"{layer}.ssru.weight" in self.t:
                steps = [lambda y: self.ssru(layer, y)]
            if memory is not None:
                steps.append(lambda y: self.attention(f"{layer}.multihead_attn", y, memory,
                                                      np.asarray(memory_blocked)))
            steps.append(lambda y: self.linear(f"{layer}.linear2",
                                               activation(self.linear(f"{layer}.linear1", y))))
            for i, step in enumerate(steps, 1):
                norm = f"{layer}.norm{i}"
                x = x + step(self.norm(norm, x)) if pre else self.norm(norm, x + step(x))
        return self.norm(f"{side}.norm", x) if f"{side}.norm.weight" in self.t else x

    def embed(self, side, ids):
        table = self.floats[f"{side}_embedding.weight"]
        n, d = ids.shape[1], table.shape[1]
        scale = self.config["embedding_scale"]
        x = table[ids] * (math.sqrt(d) if scale == "sqrt_d" else scale)
        if side == "tgt" and self.config.get("start_embedding") == "zero":
            x[:, 0] = 0
        if self.config["positions"] == "learned":
            name = f"{side}_positions.weight"
            rows = self.floats[name if name in self.floats else "src_positions.weight"]
            first = self.config.get("position_offset", 0)
            at = rows[first:first + n]
        else:
            at = positions(n, d, self.config)
        if self.config.get("pad_position") == "zero":
            at = at * (ids != self.config[f"{side}_pad"])[..., None]
        x = x + at
        norm = f"{side}_embedding_norm"
        return self.norm(norm, x) if f"{norm}.weight" in self.t else x

    def forward(self, src, tgt, lengths=None):
        """Returns logits [B, T, V]. The lengths or the pads of the sources show where they end."""
        src, tgt = np.asarray(src), np.asarray(tgt)
        n = tgt.shape[1]
        source_pads = (src == self.config.get("src_pad", -1))[:, None, None]
        if lengths is not None:
            source_pads = (np.arange(src.shape[1]) >= np.asarray(lengths)[:, None])[:, None, None]
        target_pads = (tgt == self.config.get("tgt_pad", -1))[:, None, None]
        target_pads[..., 0] = False  # The start token may be the pad.
        causal = np.triu(np.ones((n, n), bool), 1)
        self.memory = self.stack("encoder", self.embed("src", src), source_pads)
        y = self.stack("decoder", self.embed("tgt", tgt), causal | target_pads, self.memory,
                       source_pads)
        return self.linear("generator", y)
