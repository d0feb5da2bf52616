"""A model file computed as the header's manual defines it, in PyTorch: what the tests of the
converter compare with."""

import json
import math

import torch
import torch.nn.functional as F
from safetensors import safe_open

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
               "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x)}


def positions(n, d, config):
    """The formulas, written from the definition in float64."""
    kind = config["positions"]
    if kind == "none":
        return torch.zeros(n, d)
    p = torch.arange(n, dtype=torch.float64).unsqueeze(1) + config.get("position_offset", 0)
    base = float(config.get("position_base", 10000))
    j = torch.arange(d, dtype=torch.float64)
    half = torch.arange(d // 2, dtype=torch.float64)
    if kind == "sinusoidal_per_index":
        angle = p * base ** (-2 * j / d)
        table = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        return torch.where(p == 0, torch.zeros_like(table), table).float()
    divisor = d / 2 - 1 if config.get("position_divisor") == "d/2-1" else d / 2
    if kind == "sinusoidal_halves":
        angle = p * base ** (-half / divisor)
        return torch.cat([angle.sin(), angle.cos()], 1).float()
    angle = p * base ** (-(j // 2) / divisor)
    return torch.where(j % 2 == 0, angle.sin(), angle.cos()).float()


class Model:
    """A model file, computed as the format defines it."""

    def __init__(self, path):
        with safe_open(path, framework="pt") as file:
            self.t = {name: file.get_tensor(name) for name in file.keys()}
            self.metadata = file.metadata()
        self.config = json.loads(self.metadata["transformer.config"])
        self.t.setdefault("tgt_embedding.weight", self.t.get("src_embedding.weight"))
        self.t.setdefault("generator.weight", self.t["tgt_embedding.weight"])

    def linear(self, name, x):
        return F.linear(x, self.t[f"{name}.weight"].float(), self.bias(name))

    def bias(self, name):
        bias = self.t.get(f"{name}.bias")
        return None if bias is None else bias.float()

    def norm(self, name, x):
        weight = self.t.get(f"{name}.weight")
        return F.layer_norm(x, x.shape[-1:], None if weight is None else weight.float(),
                            self.bias(name), self.config.get("layer_norm_eps", 1e-5))

    def attention(self, name, x, memory, blocked):
        if f"{name}.in_proj_weight" in self.t:
            weights = self.t[f"{name}.in_proj_weight"].float().chunk(3)
            bias = self.t.get(f"{name}.in_proj_bias")
            biases = [None] * 3 if bias is None else bias.float().chunk(3)
            q, k, v = (F.linear(y, w, b) for y, w, b in zip((x, memory, memory), weights, biases))
        else:
            q, k, v = (self.linear(f"{name}.{letter}_proj", y)
                       for letter, y in zip("qkv", (x, memory, memory)))
        q, k, v = (y.unflatten(-1, (self.config["n_heads"], -1)).transpose(1, 2)
                   for y in (q, k, v))
        scale = self.config.get("attention_scale", 1 / math.sqrt(q.shape[-1]))
        scores = q @ k.transpose(-1, -2) * scale
        scores = scores.masked_fill(blocked, -math.inf)
        return self.linear(f"{name}.out_proj", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def stack(self, side, x, blocked, memory=None, memory_blocked=None):
        activation = ACTIVATIONS[self.config["activation"]]
        pre = self.config["norm"] == "pre"
        n = len({name.split(".")[2] for name in self.t if name.startswith(f"{side}.layers.")})
        for layer in (f"{side}.layers.{i}" for i in range(n)):
            steps = [lambda y: self.attention(f"{layer}.self_attn", y, y, blocked)]
            if memory is not None:
                steps.append(lambda y: self.attention(f"{layer}.multihead_attn", y, memory,
                                                      memory_blocked))
            steps.append(lambda y: self.linear(f"{layer}.linear2",
                                               activation(self.linear(f"{layer}.linear1", y))))
            for i, step in enumerate(steps, 1):
                norm = f"{layer}.norm{i}"
                x = x + step(self.norm(norm, x)) if pre else self.norm(norm, x + step(x))
        return self.norm(f"{side}.norm", x) if f"{side}.norm.weight" in self.t else x

    def embed(self, side, ids):
        table = self.t[f"{side}_embedding.weight"].float()
        n, d = ids.shape[1], table.shape[1]
        scale = self.config["embedding_scale"]
        x = table[ids] * (math.sqrt(d) if scale == "sqrt_d" else scale)
        if side == "tgt" and self.config.get("start_embedding") == "zero":
            x[:, 0] = 0
        if self.config["positions"] == "learned":
            name = f"{side}_positions.weight"
            rows = self.t[name if name in self.t else "src_positions.weight"].float()
            first = self.config.get("position_offset", 0)
            at = rows[first:first + n]
        else:
            at = positions(n, d, self.config)
        if self.config.get("pad_position") == "zero":
            at = at * (ids != self.config[f"{side}_pad"]).unsqueeze(-1)
        x = x + at
        norm = f"{side}_embedding_norm"
        return self.norm(norm, x) if f"{norm}.weight" in self.t else x

    def forward(self, src, tgt, lengths=None):
        """Logits [B, T, V]; lengths of the sources, or their pads show where they end."""
        n = tgt.shape[1]
        source_pads = (src == self.config.get("src_pad", -1))[:, None, None]
        if lengths is not None:
            source_pads = (torch.arange(src.shape[1]) >= lengths[:, None])[:, None, None]
        target_pads = (tgt == self.config.get("tgt_pad", -1))[:, None, None]
        target_pads[..., 0] = False  # a start token may be the pad
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        self.memory = self.stack("encoder", self.embed("src", src), source_pads)
        y = self.stack("decoder", self.embed("tgt", tgt), causal | target_pads, self.memory,
                       source_pads)
        return self.linear("generator", y)
