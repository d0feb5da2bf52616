#!/usr/bin/env python3
"""Tests of tools/convert.py: python tests/test_convert.py

Every layout is built with random weights in PyTorch, converted through the command line and read
back with the safetensors package. `forward` below computes a model from its file alone, as the
model file is defined, and has to give the logits of the PyTorch model that it came from.
"""

import json
import math
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
CONVERT = ROOT / "tools" / "convert.py"
REFERENCE = ROOT.parent / "shared" / "reference"
GOLDEN = ROOT.parent / "shared" / "golden"

torch.manual_seed(7)
torch.set_grad_enabled(False)
torch.set_num_threads(1)


# ------------------------------------------------------------------------- a model from its file
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
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(blocked, -math.inf)
        return self.linear(f"{name}.out_proj", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def stack(self, side, x, blocked, memory=None, memory_blocked=None):
        activation = {"relu": F.relu, "gelu": F.gelu}[self.config["activation"]]
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
        scale = self.config["embedding_scale"]
        x = table[ids] * (math.sqrt(table.shape[1]) if scale == "sqrt_d" else scale)
        if self.config["positions"] == "learned":
            name = f"{side}_positions.weight"
            rows = self.t[name if name in self.t else "src_positions.weight"]
            x = x + rows[: ids.shape[1]].float()
        else:
            x = x + positions(ids.shape[1], table.shape[1], self.config)
        norm = f"{side}_embedding_norm"
        return self.norm(norm, x) if f"{norm}.weight" in self.t else x

    def forward(self, src, tgt):
        n = tgt.shape[1]
        source_pads = (src == self.config.get("src_pad", -1))[:, None, None]
        target_pads = (tgt == self.config.get("tgt_pad", -1))[:, None, None]
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        memory = self.stack("encoder", self.embed("src", src), source_pads)
        y = self.stack("decoder", self.embed("tgt", tgt), causal | target_pads, memory, source_pads)
        return self.linear("generator", y)


# --------------------------------------------------------------------------- models to convert
class PositionalEncoding(nn.Module):
    def __init__(self, d, n=60):
        super().__init__()
        at = torch.arange(n).unsqueeze(1)
        rate = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(n, 1, d)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
        self.register_buffer("pe", pe)


class TokenEmbedding(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)


class Translator(nn.Module):
    """nn.Transformer as tutorials wrap it; embeddings are multiplied by sqrt(d)."""

    def __init__(self, vs=31, vt=37, d=24, h=4, layers=2, f=40, **options):
        super().__init__()
        self.transformer = nn.Transformer(d, h, layers, layers, f, 0.0, batch_first=True, **options)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(vs, d), TokenEmbedding(vt, d)
        self.positional_encoding = PositionalEncoding(d)
        self.generator = nn.Linear(d, vt)
        for p in self.parameters():
            p.copy_(torch.randn_like(p) * (0.3 if p.dim() > 1 else 0.5))

    def embed(self, embedding, ids):
        d = self.generator.in_features
        pe = self.positional_encoding.pe[: ids.shape[1], 0]
        return embedding.embedding(ids) * math.sqrt(d) + pe

    def forward(self, src, tgt, pad=1):
        n = tgt.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        y = self.transformer(self.embed(self.src_tok_emb, src), self.embed(self.tgt_tok_emb, tgt),
                             tgt_mask=causal, src_key_padding_mask=src == pad,
                             tgt_key_padding_mask=tgt == pad, memory_key_padding_mask=src == pad)
        return self.generator(y)


class Wrapper(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model


class TwoTables(Translator):
    """Other names, learned positions for each side, norms after the embeddings, no biases."""

    def __init__(self):
        super().__init__(bias=False, norm_first=True, activation="gelu")
        del self.src_tok_emb, self.tgt_tok_emb, self.positional_encoding, self.generator
        self.encoder_embedding, self.decoder_embedding = nn.Embedding(31, 24), nn.Embedding(37, 24)
        self.encoder_pos_embedding = nn.Embedding(20, 24)
        self.decoder_pos_embedding = nn.Embedding(30, 24)
        self.embedding_norm = nn.LayerNorm(24)
        self.linear_out = nn.Linear(24, 37, bias=False)

    def forward(self, src, tgt):
        n = tgt.shape[1]
        x = self.encoder_embedding(src) + self.encoder_pos_embedding.weight[: src.shape[1]]
        y = self.decoder_embedding(tgt) + self.decoder_pos_embedding.weight[:n]
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        y = self.transformer(self.embedding_norm(x), self.embedding_norm(y), tgt_mask=causal)
        return self.linear_out(y)


def sentences(vs=31, vt=37, pad=1):
    """Ids with pads at the end of the second row of each side."""
    src, tgt = torch.randint(4, vs, (3, 9)), torch.randint(4, vt, (3, 11))
    src[1, 6:], tgt[1, 4:] = pad, pad
    return src, tgt


SET = [f"--set={one}" for one in ("embedding_scale=sqrt_d", "src_pad=1", "tgt_pad=1", "start=2",
                                  "end=3")]


class ConvertTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.safetensors"

    def run_convert(self, source, *arguments):
        command = [sys.executable, str(CONVERT), str(source), str(self.out), *arguments]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8")

    def save(self, state):
        path = self.folder / "in.pt"
        torch.save(state, path)
        return path

    def convert(self, state, *arguments):
        source = state if isinstance(state, Path) else self.save(state)
        self.done = self.run_convert(source, *arguments)
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.check_form()
        return Model(self.out)

    def refuse(self, state, *arguments):
        """Converts, which has to fail with exit code 1 and no file; returns the reasons."""
        source = state if isinstance(state, Path) else self.save(state)
        done = self.run_convert(source, *arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([path.name for path in self.folder.glob("out*")], [])
        return done.stderr

    def check_form(self):
        """What the format asks of the bytes: a padded header, no holes, aligned wide types."""
        raw = self.out.read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        self.assertEqual(raw[8:9], b"{")
        self.assertEqual((8 + length) % 64, 0)
        header = json.loads(raw[8:8 + length])
        self.assertEqual(list(header.pop("__metadata__")), ["transformer.config"])
        entries = sorted(header.values(), key=lambda entry: entry["data_offsets"])
        ends = [entry["data_offsets"][1] for entry in entries]
        self.assertEqual([entry["data_offsets"][0] for entry in entries], [0] + ends[:-1])
        self.assertEqual(8 + length + ends[-1], len(raw))
        ranks = [("F32", "F16", "BF16", "U8").index(entry["dtype"]) for entry in entries]
        self.assertEqual(ranks, sorted(ranks))

    def check_logits(self, model, reference, src, tgt):
        self.check_near("logits", model.forward(src, tgt), reference)

    def check_near(self, what, result, reference, limit=1e-5):
        distance = (result - reference).abs().max().item()
        print(f"{self.id().split('.')[-1]}: {what} differ by {distance:.2g}")
        self.assertLess(distance, limit)


class Layouts(ConvertTest):
    def test_transformer_in_wrappers(self):
        source = Translator()
        state = nn.DataParallel(Wrapper(source)).state_dict()
        model = self.convert({"epoch": 3, "state_dict": state}, "--heads", "4", *SET)
        for name, tensor in source.transformer.state_dict().items():
            self.assertTrue(torch.equal(model.t[name], tensor), name)
        self.assertTrue(torch.equal(model.t["src_embedding.weight"],
                                    source.src_tok_emb.embedding.weight))
        self.assertEqual(len(model.t), len(source.transformer.state_dict()) + 4)
        self.assertEqual(model.config, {
            "n_heads": 4, "norm": "post", "layer_norm": "variance", "activation": "relu",
            "positions": "sinusoidal", "position_divisor": "d", "position_precision": "float",
            "embedding_scale": "sqrt_d", "src_pad": 1, "tgt_pad": 1, "start": 2, "end": 3})
        self.assertIn("norm=pre", self.done.stderr)
        src, tgt = sentences()
        self.check_logits(model, source.eval()(src, tgt), src, tgt)

    def test_pre_norm_gelu(self):
        source = Translator(norm_first=True, activation="gelu")
        model = self.convert(source.state_dict(), "--heads=4", *SET, "--set=norm=pre",
                             "--set=activation=gelu")
        self.assertEqual(self.done.stderr, "")
        src, tgt = sentences()
        self.check_logits(model, source.eval()(src, tgt), src, tgt)

    def test_learned_positions_and_embedding_norm(self):
        source = TwoTables()
        model = self.convert(source.state_dict(), "--heads=4", "--set=norm=pre",
                             "--set=activation=gelu")
        self.assertEqual(model.config["positions"], "learned")
        self.assertEqual(list(model.t["src_positions.weight"].shape), [20, 24])
        self.assertEqual(list(model.t["tgt_positions.weight"].shape), [30, 24])
        self.assertTrue(torch.equal(model.t["encoder.layers.0.norm1.bias"], torch.zeros(24)))
        src, tgt = sentences()
        self.check_logits(model, source.eval()(src, tgt), src, tgt)

    def test_tied_weights_are_written_once(self):
        source = Translator(vs=37)
        source.tgt_tok_emb = source.src_tok_emb
        source.generator.weight = source.tgt_tok_emb.embedding.weight
        self.convert(source.state_dict(), "--heads=4", *SET)
        with safe_open(self.out, framework="pt") as file:
            names = set(file.keys())
        self.assertIn("generator.bias", names)
        self.assertTrue(names.isdisjoint({"tgt_embedding.weight", "generator.weight"}))
        src, tgt = sentences(vs=37)
        self.check_logits(Model(self.out), source.eval()(src, tgt), src, tgt)

    def test_missing_generator_may_be_mapped_to_the_embedding(self):
        state = Translator().state_dict()
        del state["generator.weight"]
        reasons = self.refuse(state, "--heads=4")
        self.assertIn("generator.weight", reasons)
        hint = [word for word in reasons.split() if "=" in word]
        maps = [argument for rule in hint for argument in ("--map", rule)]
        model = self.convert(state, "--heads=4", *maps)
        self.assertIs(model.t["generator.weight"], model.t["tgt_embedding.weight"])

    def test_separate_projections(self):
        state = Translator().state_dict()
        expected = {}
        for name in [name for name in state if name.endswith("in_proj_weight")]:
            stem = name.removesuffix("in_proj_weight")
            rows = zip("qkv", state.pop(name).chunk(3), state[stem + "in_proj_bias"].chunk(3))
            for letter, weight, bias in rows:
                state[f"{stem}{letter}_proj_weight"] = weight.clone()
                new = f"{stem}{letter}_proj".removeprefix("transformer.")
                expected[f"{new}.weight"], expected[f"{new}.bias"] = weight, bias
        model = self.convert(state, "--heads=4", *SET)
        for name, tensor in expected.items():
            self.assertTrue(torch.equal(model.t[name], tensor), name)
        self.assertFalse([name for name in model.t if "in_proj" in name])

    def test_position_formulas(self):
        d, n = 24, 60
        j = torch.arange(d)
        p = torch.arange(n, dtype=torch.float64).unsqueeze(1)
        halves = torch.cat([torch.sin(p * 10000 ** (-j[:12] / 11)),
                            torch.cos(p * 10000 ** (-j[:12] / 11))], 1)
        angle = p / 10000 ** (2 * (j // 2) / d)
        double = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        for table, expected in (
                (halves, {"positions": "sinusoidal_halves", "position_divisor": "d/2-1"}),
                (double, {"positions": "sinusoidal", "position_precision": "double"})):
            state = Translator().state_dict()
            state["positional_encoding.pe"] = table.float().unsqueeze(0)
            config = self.convert(state, "--heads=4", *SET).config
            self.assertEqual({key: config[key] for key in expected}, expected)
        wrong = self.run_convert(self.folder / "in.pt", "--heads=4",
                                 "--set=positions=sinusoidal_halves")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("positional_encoding.pe", wrong.stderr)

    def test_core(self):
        core = nn.Transformer(24, 4, 1, 2, 40)
        reasons = self.refuse(core.state_dict(), "--heads=4")
        for name in ("src_embedding.weight", "tgt_embedding.weight", "generator.weight", "--core"):
            self.assertIn(name, reasons)
        done = self.run_convert(self.folder / "in.pt", "--heads=4", "--core")
        self.assertEqual(done.returncode, 0)
        self.assertIn("src_embedding.weight", done.stderr)
        self.check_form()
        with safe_open(self.out, framework="pt") as file:
            self.assertEqual(set(file.keys()), set(core.state_dict()))
            for name, tensor in core.state_dict().items():
                self.assertTrue(torch.equal(file.get_tensor(name), tensor))

    def test_types(self):
        state = Translator().double().state_dict()
        for option, dtype in ((None, torch.float32), ("f16", torch.float16),
                              ("bf16", torch.bfloat16)):
            model = self.convert(state, "--heads=4", *([f"--dtype={option}"] if option else []))
            for name, tensor in model.t.items():
                self.assertEqual(tensor.dtype, dtype)
            name = "encoder.layers.1.linear1.weight"
            self.assertTrue(torch.equal(model.t[name], state["transformer." + name].to(dtype)))

    def test_safetensors_with_prefix(self):
        state = Translator().state_dict()
        both = {f"{prefix}.{name}": tensor + (prefix == "ema")
                for prefix in ("net", "ema") for name, tensor in state.items()
                if name != "positional_encoding.pe"}
        path = self.folder / "in.safetensors"
        save_file(both, path)
        self.assertIn("--prefix", self.refuse(path, "--heads=4"))
        model = self.convert(path, "--heads=4", "--prefix=ema.")
        self.assertTrue(torch.equal(model.t["generator.bias"], state["generator.bias"] + 1))

    def test_vocabularies(self):
        state = Translator(vs=5, vt=3).state_dict()
        source, target = self.folder / "source.txt", self.folder / "target.txt"
        source.write_bytes("<pad>\r\n學\t学\r\nx\r\ny\r\nz\r\n".encode())
        target.write_bytes("a\nb\nc".encode())
        model = self.convert(state, "--heads=4", f"--src-vocab={source}", f"--tgt-vocab={target}")
        self.assertEqual(bytes(model.t["src_vocabulary"]).decode(), "<pad>\n學\t学\nx\ny\nz\n")
        self.assertEqual(bytes(model.t["tgt_vocabulary"]).decode(), "a\nb\nc\n")
        self.out.unlink()
        self.assertIn("tgt_vocab_size is 3", self.refuse(state, "--heads=4",
                                                         f"--src-vocab={source}"))
        source.write_bytes(b"a\nb\nc\nd\na\n")
        self.assertIn("line 5", self.refuse(state, "--heads=4", f"--src-vocab={source}",
                                            f"--tgt-vocab={target}"))


class Errors(ConvertTest):
    def test_unknown_names_are_listed(self):
        state = {**Translator().state_dict(), "criterion.margin": torch.zeros(2, 3),
                 "steps": torch.tensor(5)}
        reasons = self.refuse(state, "--heads=4")
        self.assertIn("criterion.margin [2, 3] float32", reasons)
        self.assertIn("--map criterion.margin=NEW or --drop criterion.margin", reasons)
        self.convert(state, "--heads=4", "--drop", "criterion.*")
        self.assertIn("steps [] int64", self.done.stdout)

    def test_map(self):
        state = Translator().state_dict()
        state["classes.weight"] = state.pop("generator.weight")
        state["classes.bias"] = state.pop("generator.bias")
        for name in [name for name in state if name.startswith("transformer.encoder.")]:
            state[name.replace("transformer.encoder", "reader")] = state.pop(name)
        self.assertIn("classes.weight [37, 24]", self.refuse(state, "--heads=4"))
        model = self.convert(state, "--heads=4", "--map=classes.=generator.",
                             "--map", "reader.=encoder.")
        self.assertTrue(torch.equal(model.t["generator.weight"], state["classes.weight"]))

    def test_arguments_that_fit_nothing(self):
        state = Translator().state_dict()
        for arguments in (["--map", "nothing=generator.weight"], ["--drop", "nothing"],
                          ["--prefix", "nothing."], ["--map", "generator.weight"]):
            self.assertIn(arguments[0], self.refuse(state, "--heads=4", *arguments))

    def test_heads(self):
        state = Translator().state_dict()
        self.assertIn("--heads", self.refuse(state))
        self.assertIn("n_heads 5", self.refuse(state, "--heads=5"))
        self.assertIn("n_heads", self.refuse(state, "--heads=0"))

    def test_settings(self):
        state = Translator().state_dict()
        for setting, reason in (("depth=3", "embedding_scale"), ("norm=middle", "post, pre"),
                                ("d_ff=41", "the shapes say 40"), ("tgt_pad=37", "tgt_vocab_size"),
                                ("suppressed=1,99", "suppressed 99"), ("start=-1", "whole number"),
                                ("layer_norm_eps=nan", "a number above 0")):
            self.assertIn(reason, self.refuse(state, "--heads=4", "--set", setting))

    def test_shapes_and_missing_layers(self):
        state = Translator().state_dict()
        state["transformer.decoder.layers.1.linear2.weight"] = torch.zeros(24, 41)
        self.assertIn("decoder.layers.1.linear2.weight", self.refuse(state, "--heads=4"))
        state = Translator().state_dict()
        del state["transformer.decoder.layers.0.multihead_attn.out_proj.weight"]
        self.assertIn("decoder.layers.0.multihead_attn.out_proj.weight",
                      self.refuse(state, "--heads=4"))
        state = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4), 1).state_dict()
        self.assertIn("decoder.layers.0.self_attn", self.refuse(state, "--heads=4"))

    def test_two_generators(self):
        state = {**Translator().state_dict(), "fc_out.weight": torch.zeros(37, 24)}
        reasons = self.refuse(state, "--heads=4")
        self.assertIn("both generator.weight and fc_out.weight fit", reasons)

    def test_too_large_for_f16(self):
        state = Translator().state_dict()
        state["generator.bias"][3] = 1e6
        self.assertIn("generator.bias", self.refuse(state, "--heads=4", "--dtype=f16"))

    def test_pickles_with_code_are_refused(self):
        marker = self.folder / "marker"

        class Evil:
            def __reduce__(self):
                return (Path.touch, (marker,))

        self.assertIn("run code", self.refuse({"state_dict": {}, "callback": Evil()}))
        self.assertFalse(marker.exists())
        self.assertIn("state_dict()", self.refuse(self.save(Translator())))

    def test_files_that_are_no_checkpoints(self):
        for name in ("in.pt", "in.safetensors"):
            path = self.folder / name
            self.refuse(path)
            path.write_bytes(b"not a checkpoint at all")
            self.refuse(path)
        self.assertIn("no tensors", self.refuse({"optimizer": {"lr": 0.1}}))

    def test_an_old_file_survives_a_failure(self):
        self.out.write_bytes(b"precious")
        done = self.run_convert(self.save(Translator().state_dict()))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.out.read_bytes(), b"precious")


class OtherFamilies(ConvertTest):
    """The two families with modules of their own, from the reference models."""

    @classmethod
    def setUpClass(cls):
        if not REFERENCE.is_dir() or not GOLDEN.is_dir():
            raise unittest.SkipTest(f"no reference models at {REFERENCE} and {GOLDEN}")
        sys.path.insert(0, str(REFERENCE))
        import seeds
        cls.seeds = seeds

    def test_encoder_layers(self):
        source = self.seeds.Seed0Transformer(31, 24, 4, 2, 3, 40)
        model = self.convert(source.state_dict(), "--heads=4", "--set=src_pad=1",
                             "--set=tgt_pad=1")
        self.assertTrue(torch.equal(model.t["decoder.layers.2.multihead_attn.q_proj.weight"],
                                    source.decoder_layers[2].enc_attn.w_q.weight))
        self.assertIs(model.t["tgt_embedding.weight"], model.t["src_embedding.weight"])
        self.assertEqual(self.done.stderr, "")
        src, tgt = sentences(31, 31)
        causal = torch.ones(11, 11, dtype=torch.bool).tril()
        masks = (src != 1)[:, None, None], (tgt != 1)[:, None, None] & causal
        self.check_logits(model, source(src, tgt, *masks)[0], src, tgt)

    def test_plain_norms(self):
        source = self.seeds.Seed3Transformer(31, 37, 24, 3, 10, 7, 50, 2, 1, 1)
        model = self.convert(source.state_dict(), "--heads=3", "--set=src_pad=1",
                             "--set=tgt_pad=1")
        self.assertEqual(model.config["positions"], "sinusoidal_per_index")
        self.assertFalse([name for name in model.t if "norm" in name or "bias" in name])
        src, tgt = sentences()
        self.check_logits(model, source(src, tgt)[0], src, tgt)

    def golden(self, name):
        with safe_open(GOLDEN / f"{name}.safetensors", framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}

    def test_golden_models(self):
        for name in ("seed0_small", "seed0_wide", "seed3_toy", "seed3_dv"):
            case = self.golden(name)
            model = self.convert(GOLDEN / f"{name}.safetensors")
            expected = case.get("expect.logits_causal", case["expect.logits"])
            target = case.get("input.trg", case.get("input.tgt"))
            with self.subTest(name):
                self.check_logits(model, expected, case["input.src"], target)

    def test_golden_cores(self):
        for name in ("relu_post", "relu_pre", "gelu_post", "gelu_pre"):
            case = self.golden(f"seed2_{name}")
            done = self.run_convert(GOLDEN / f"seed2_{name}.safetensors", "--core")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_form()
            core = Model(self.out)
            self.assertEqual(core.config, {
                "n_heads": 6, "d_model": 48, "d_ff": 80, "n_encoder_layers": 2,
                "n_decoder_layers": 2, "layer_norm": "variance",
                "activation": name.split("_")[0], "norm": name.split("_")[1]})
            source_pads = case["input.src_key_padding_mask"][:, None, None]
            target_pads = case["input.tgt_key_padding_mask"][:, None, None]
            memory = core.stack("encoder", case["input.src"].transpose(0, 1), source_pads)
            y = core.stack("decoder", case["input.tgt"].transpose(0, 1),
                           case["input.tgt_mask"] | target_pads, memory,
                           case["input.memory_mask"] | source_pads)
            with self.subTest(name):
                self.check_near("outputs", y, case["expect.output"].transpose(0, 1))


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # PyTorch's, on nested tensors
