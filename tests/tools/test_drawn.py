#!/usr/bin/env python3
"""Compares the modules with PyTorch on cases that each run draws anew: python tests/tools/test_drawn.py

build/test_modules compares every module with the cases in tests/data, which never change. This test draws
other weights, inputs, masks and sizes, lets PyTorch compute the results, writes them into a folder under the
same file names, and runs build/test_modules on that folder. It prints its seed; SEED=N in the environment
repeats a run. It needs what tools/requirements.txt lists, and make build/test_modules first.
"""

import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "test_modules"
DRAWS = 3
BATCH = 3


def randomize(module):
    """Gives every parameter random values of a trained model's size, biases and norms too."""
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, parameter.shape[-1] ** -0.5)
        else:
            parameter.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.2)
    return module.eval()


def blocked(*shape):
    """Returns a mask that blocks a third of the keys, but never a query's first key."""
    mask = torch.rand(*shape) < 0.33
    mask[..., 0] = False
    return mask


def pads(rows, width):
    """Returns a mask of pads at the ends of rows. The first row is always full, the others may be."""
    lengths = torch.tensor([width] + [random.randint(2, width) for _ in range(rows - 1)])
    return torch.arange(width) >= lengths[:, None]


def heads(tensor, count):
    return tensor.unflatten(-1, (count, -1)).transpose(1, 2)


class Draw:
    """Writes one folder of cases."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.norms()
        self.dot_products()
        self.multi_head()
        self.own_scale()
        for activation in ("relu", "gelu"):
            for order in ("post", "pre"):
                self.stacks(activation, order)

    def save(self, name, module=None, inputs=None, expected=None):
        parts = {"weights": module.state_dict() if module else {}, "input": inputs,
                 "expect": expected}
        tensors = {f"{part}.{key}": value for part, some in parts.items()
                   for key, value in some.items() if value is not None}
        save_file({key: value.contiguous().clone() for key, value in tensors.items()},
                  self.folder / f"{name}.safetensors")

    def norms(self):
        width = 48
        x = torch.randn(BATCH, 7, width) * 3 + random.uniform(-5, 5)
        gamma, beta = torch.randn(width), torch.randn(width)
        inputs = {"x": x, "gamma": gamma, "beta": beta}
        self.save("layer_norm", None, inputs, {"y": F.layer_norm(x, (width,), gamma, beta)})
        scaled = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
        self.save("layer_norm_std", None, inputs, {"y": gamma * scaled + beta})

    def dot_products(self):
        queries, keys = random.randint(2, 9), random.randint(4, 12)
        width, values = random.randint(3, 40), random.randint(3, 40)
        q, k, v = (torch.randn(BATCH, n, d)
                   for n, d in ((queries, width), (keys, width), (keys, values)))
        mask = blocked(BATCH, queries, keys)
        for name, scale in (("scaled", width ** -0.5), ("unscaled", 1.0)):
            unit = torch.eye(keys).expand(BATCH, -1, -1)
            context, weights = (F.scaled_dot_product_attention(q, k, some, ~mask, scale=scale)
                                for some in (v, unit))
            self.save(f"sdpa_{name}", None, {"q": q, "k": k, "v": v, "mask": mask},
                      {"context": context, "weights": weights})

    def multi_head(self):
        count, width = 4, 32
        queries, keys = random.randint(3, 8), random.randint(5, 11)
        module = randomize(nn.MultiheadAttention(width, count))
        q, k, v = (torch.randn(n, BATCH, width) for n in (queries, keys, keys))
        padding = pads(BATCH, keys)
        for name, mask in (("none", None), ("2d", blocked(queries, keys)),
                           ("3d", blocked(BATCH * count, queries, keys))):
            output, weights = module(q, k, v, key_padding_mask=padding, attn_mask=mask,
                                     average_attn_weights=False)
            self.save(f"seed2_mha_{name}", module,
                      {"query": q, "key": k, "value": v, "key_padding_mask": padding,
                       "attn_mask": mask},
                      {"output": output, "weights": weights})

    def own_scale(self):
        """Self-attention without an output projection, scaled by the whole width."""
        count, width, length = 4, 32, 9
        module = randomize(nn.ModuleDict({name: nn.Linear(width, width) for name in "QKV"}))
        tokens = torch.randint(3, 50, (4, length)).masked_fill(pads(4, length), 0)
        x, mask = torch.randn(4, length, width), tokens.eq(0)[:, None].expand(4, length, length)
        q, k, v = (heads(module[name](x), count) for name in "QKV")
        unit, scale = torch.eye(length).expand(4, count, -1, -1), width ** -0.5
        output, weights = (F.scaled_dot_product_attention(q, k, some, ~mask[:, None], scale=scale)
                           for some in (v, unit))
        self.save("seed4_self_attn", module, {"tokens": tokens, "x": x},
                  {"mask": mask, "output": output.transpose(1, 2).flatten(2), "weights": weights})

    def stacks(self, activation, order):
        width, count, inner, layers, pre = 48, 6, 80, 2, order == "pre"
        sources, targets = random.randint(5, 12), random.randint(5, 12)
        options = {"dropout": 0.0, "activation": activation, "norm_first": pre}
        encoder_layer = nn.TransformerEncoderLayer(width, count, inner, **options)
        decoder_layer = nn.TransformerDecoderLayer(width, count, inner, **options)
        norms = [nn.LayerNorm(width) if pre else None for _ in range(2)]
        module = randomize(nn.ModuleDict({
            "encoder": nn.TransformerEncoder(encoder_layer, layers, norms[0], False),
            "decoder": nn.TransformerDecoder(decoder_layer, layers, norms[1])}))
        src, tgt = torch.randn(sources, BATCH, width), torch.randn(targets, BATCH, width)
        source_pads, target_pads = pads(BATCH, sources), pads(BATCH, targets)
        causal = torch.ones(targets, targets, dtype=torch.bool).triu(1)
        cross = blocked(targets, sources)
        memory = module["encoder"](src, src_key_padding_mask=source_pads)
        output = module["decoder"](tgt, memory, causal, cross, target_pads, source_pads)
        self.save(f"seed2_{activation}_{order}", module, {
            "src": src, "tgt": tgt, "tgt_mask": causal, "memory_mask": cross,
            "src_key_padding_mask": source_pads, "tgt_key_padding_mask": target_pads,
            "memory_key_padding_mask": source_pads}, {"output": output, "memory": memory})


class Drawn(unittest.TestCase):
    def test_modules(self):
        if not PROGRAM.exists():
            self.skipTest(f"no {PROGRAM}: make build/test_modules first")
        seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 31)))
        random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        for i in range(DRAWS):
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                Draw(folder)
                files = len(list(Path(folder).iterdir()))
                done = subprocess.run([PROGRAM, folder], capture_output=True, encoding="utf-8",
                                      cwd=ROOT)
            last = done.stdout.splitlines()[-1] if done.stdout else done.stderr
            print(f"SEED={seed}, draw {i + 1}: {files} cases, {last}")
            failed = [line for line in done.stdout.splitlines() if "FAIL" in line]
            self.assertEqual((done.returncode, failed), (0, []), f"SEED={seed}, draw {i + 1}")


if __name__ == "__main__":
    unittest.main()
