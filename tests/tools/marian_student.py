"""Makes students of Firefox and Bergamot with random weights: writes their .bin, and computes their results
in NumPy and float64 from Marian's formulas under Marian's names."""

import math
import struct
import sys
from pathlib import Path

import numpy as np

import import_path  # noqa: E402, F401
from convert import marian_bin  # noqa: E402

HEADS = 8


def norm(x, scale, bias):
    x = x - x.mean(-1, keepdims=True)
    return scale * x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) + bias


class Student:
    """Makes a student. kind: intgemm8, intgemm16 or f32. The largest int8 is limit, because above 63 the
    16-bit sums of an AVX2 machine saturate in fxtranslate."""

    def __init__(self, vocabulary, width=64, seed=1, layers=(2, 2), kind="intgemm8", limit=63,
                 never=(), feed_forward=2, sources=0):
        self.width, self.layers, self.kind, self.limit = width, layers, kind, limit
        self.random, self.items, self.values, self.bytes = np.random.default_rng(seed), {}, {}, {}
        self.largest = {}  # the largest number that each matrix was multiplied by
        self.factors = {}  # with them, what a matrix is multiplied by is rounded to int8
        self.embedding = "decoder_Wemb" if sources else "Wemb"
        if sources:
            self.matrix("encoder_Wemb", sources, width, 1 / math.sqrt(width))
        self.matrix(self.embedding, vocabulary, width, 1 / math.sqrt(width))
        bias = self.random.normal(0, 0.5, (1, vocabulary))
        bias[0, list(never)] = -1e4
        self.put("decoder_ff_logit_out_b", bias)
        for side, count in zip(("encoder", "decoder"), layers):
            for layer in (f"{side}_l{i + 1}" for i in range(count)):
                if side == "decoder":
                    for letter in ("", "f"):
                        self.matrix(f"{layer}_rnn_W{letter}", width, width, 2 / math.sqrt(width))
                    self.put(f"{layer}_rnn_bf", self.random.normal(0, 0.1, (1, width)))
                    self.norm(f"{layer}_rnn_ffn")
                for one in ["self"] if side == "encoder" else ["context"]:
                    for letter in "qkvo":
                        self.matrix(f"{layer}_{one}_W{letter}", width, width, 1.5 / math.sqrt(width))
                        self.put(f"{layer}_{one}_b{letter}", self.random.normal(0, 0.1, (1, width)))
                    self.norm(f"{layer}_{one}_Wo")
                inner = feed_forward * width
                for one, (rows, columns) in (("1", (width, inner)), ("2", (inner, width))):
                    self.matrix(f"{layer}_ffn_W{one}", rows, columns, 1.5 / math.sqrt(rows))
                    self.put(f"{layer}_ffn_b{one}", self.random.normal(0, 0.1, (1, columns)))
                self.norm(f"{layer}_ffn_ffn")
        # Real files also have dim-rnn and other entries without a meaning here.
        yml = (f"type: transformer\ndim-emb: {width}\ntransformer-heads: {HEADS}\n"
               f"enc-depth: {layers[0]}\ndec-depth: {layers[1]}\n"
               f"transformer-dim-ffn: {feed_forward * width}\ntransformer-decoder-autoreg: rnn\n"
               f"dec-cell: ssru\ntransformer-ffn-activation: relu\ntied-embeddings: false\n"
               f"tied-embeddings-all: {str(not sources).lower()}\ndim-rnn: 1024\n\0").encode()
        self.items["special:model.yml"] = (0x101, [len(yml)], yml)

    def put(self, name, value):
        self.values[name] = value.astype("f4").astype(float)
        self.items[name] = 0x404, list(value.shape), value.astype("<f4").tobytes()

    def norm(self, name):
        self.put(f"{name}_ln_scale", self.random.normal(1, 0.1, (1, self.width)))
        self.put(f"{name}_ln_bias", self.random.normal(0, 0.1, (1, self.width)))

    def matrix(self, name, rows, columns, deviation):
        value = self.random.normal(0, deviation, (rows, columns)).astype("f4")
        if self.kind == "f32":
            return self.put(name, value)
        high, form, code = {"intgemm8": (127, "i1", 0x4101), "intgemm16": (32767, "<i2", 0x4102)}[
            self.kind]
        scale = np.float32(self.limit / np.abs(value).max() if high == 127 else 1024)
        self.quantize(name, value, scale, high, form, code)

    def quantize(self, name, value, scale, high=127, form="i1", code=0x4101):
        whole = np.clip(np.rint(value * scale), -high, high).astype(form)
        stored = np.ascontiguousarray(whole if "Wemb" in name else whole.T)
        self.bytes[name] = stored, scale
        self.values[name] = whole / float(scale)
        self.items[name] = code, list(value.shape), stored.tobytes() + struct.pack("<f", scale)

    def calibrate(self, clip=1.0):
        """Sets static factors of activations by the largest values seen so far. Values above `clip` times the
        largest are clipped, as in real files, whose factors come from means."""
        self.factors = {name: np.float32(127 / (clip * self.largest[name])) for name in self.bytes
                        if name in self.largest}

    def write(self, path):
        """Writes the .bin, with static factors of activations. A file with two vocabularies has that of the
        output projection as an int8 with a multiplier, as Mozilla's have."""
        for name in self.bytes:
            factor = self.factors.get(name, np.float32(127 / self.largest.get(name, 4.0)))
            entry = 0x404, [1], struct.pack("<f", factor)
            self.items[f"{name}_QuantMultA"] = entry
            if name == "Wemb":
                self.items["none_QuantMultA"] = entry
            elif name == "decoder_Wemb":
                data = struct.pack("<b", 127) + struct.pack("<f", 127 / factor)
                self.items["decoder_Wemb_QuantMultA"] = 0x4101, [1, 1], data
        marian_bin.write_bin(path, self.items)

    def named(self, name):
        return self.values[name].reshape(-1)

    def linear(self, x, name, bias=None):
        self.largest[name] = max(self.largest.get(name, 0), np.abs(x).max())
        if name in self.factors:
            factor = float(self.factors[name])
            x = np.clip(np.rint(x * factor), -127, 127) / factor
        y = x @ (self.values[name].T if name == self.embedding else self.values[name])
        return y if bias is None else y + self.named(bias)

    def normed(self, x, name):
        return norm(x, self.named(f"{name}_ln_scale"), self.named(f"{name}_ln_bias"))

    def attention(self, name, x, memory):
        q, k, v = (self.linear(y, f"{name}_W{letter}", f"{name}_b{letter}")
                   .reshape(len(y), HEADS, -1).swapaxes(0, 1)
                   for letter, y in zip("qkv", (x, memory, memory)))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        y = (scores / scores.sum(-1, keepdims=True)) @ v
        return self.linear(y.swapaxes(0, 1).reshape(len(x), -1), f"{name}_Wo", f"{name}_bo")

    def feed_forward(self, name, x):
        inner = np.maximum(self.linear(x, f"{name}_W1", f"{name}_b1"), 0)
        return self.normed(x + self.linear(inner, f"{name}_W2", f"{name}_b2"), f"{name}_ffn")

    def position(self, n):
        half = self.width // 2
        angle = np.arange(n)[:, None] * np.exp(-np.arange(half) * math.log(1e4) / (half - 1))
        return np.concatenate([np.sin(angle), np.cos(angle)], 1)

    def embed(self, ids, side="src"):
        table = "encoder_Wemb" if side == "src" and "encoder_Wemb" in self.values else self.embedding
        return math.sqrt(self.width) * self.values[table][ids]

    def encode(self, ids):
        x = self.embed(ids) + self.position(len(ids))
        for layer in (f"encoder_l{i + 1}" for i in range(self.layers[0])):
            x = self.normed(x + self.attention(f"{layer}_self", x, x), f"{layer}_self_Wo")
            x = self.feed_forward(f"{layer}_ffn", x)
        return x

    def step(self, memory, last, at, kept):
        """Returns [V], the logits after the token last, which is None at the begin. kept holds every layer's
        state."""
        x = self.position(at + 1)[at:]
        if last is not None:
            x = x + self.embed([last], "tgt")
        for i, layer in enumerate(f"decoder_l{i + 1}" for i in range(self.layers[1])):
            forget = 1 / (1 + np.exp(-self.linear(x, f"{layer}_rnn_Wf", f"{layer}_rnn_bf")))
            kept[i] = forget * kept[i] + (1 - forget) * self.linear(x, f"{layer}_rnn_W")
            x = self.normed(x + np.maximum(kept[i], 0), f"{layer}_rnn_ffn")
            x = self.normed(x + self.attention(f"{layer}_context", x, memory), f"{layer}_context_Wo")
            x = self.feed_forward(f"{layer}_ffn", x)
        return self.linear(x, self.embedding, "decoder_ff_logit_out_b")[0]

    def logits(self, memory, prefix):
        """Returns [T + 1, V]: the logits after no token, after the first token of the prefix, and so on."""
        kept = [0] * self.layers[1]
        return np.array([self.step(memory, last, at, kept)
                         for at, last in enumerate([None, *prefix])])

    def shortlist(self, first=20, best=12, power=1):
        """Returns a lex.s2t.bin with random candidates, in order for each source token, and with these. With
        a higher power, frequent tokens, which have low ids, are in more lists."""
        n = len(self.values[self.embedding])
        lists = [np.unique((n * self.random.random(self.random.integers(0, best)) ** power).astype(int))
                 for _ in range(n)]
        ends = np.cumsum([0, *map(len, lists)])
        return (struct.pack("<6Q", marian_bin.SHORTLIST, 0, first, best, n + 1, ends[-1])
                + ends.astype("<u8").tobytes() + np.concatenate(lists).astype("<u4").tobytes()), lists

    def greedy(self, ids, end, most, candidates=None):
        """Returns the best tokens, and the least distance of one to the second best."""
        memory, kept, out, margin = self.encode(ids), [0] * self.layers[1], [], math.inf
        while len(out) < most:
            logits = self.step(memory, out[-1] if out else None, len(out), kept)
            if candidates is not None:
                rest = np.setdiff1d(np.arange(len(logits)), list(candidates))
                logits[rest] = -np.inf
            second, best = np.sort(logits)[-2:]
            margin = min(margin, best - second)
            out.append(int(logits.argmax()))
            if out[-1] == end:
                break
        return out, margin
