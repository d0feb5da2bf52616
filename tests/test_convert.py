#!/usr/bin/env python3
"""Tests of tools/convert.py: python tests/test_convert.py

Every layout is built with random weights, converted through the command line and read back with the
safetensors package. file_model.py computes a model from its file alone, as the model file is
defined, and has to give the numbers of PyTorch or of the engine that it came from. What is not
installed, or not at hand beside this checkout, is skipped with a message.
"""

import argparse
import contextlib
import io
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from safetensors import safe_open
from safetensors.torch import save_file

from file_model import Model

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import convert  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT.parent / "shared" / "reference"
GOLDEN = ROOT.parent / "shared" / "golden"
REAL = ROOT.parent / "shared" / "real"
FORWARD, TRANSLATE = ROOT / "build" / "forward", ROOT / "build" / "translate"

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
try:
    import ctranslate2
except ImportError:
    ctranslate2 = None
try:
    import families
    import transformers
except ImportError:
    families = None
needs_transformers = unittest.skipUnless(families, "the package transformers is not installed")
needs_ctranslate2 = unittest.skipUnless(ctranslate2, "the package ctranslate2 is not installed")

torch.manual_seed(7)
torch.set_grad_enabled(False)
torch.set_num_threads(1)


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


def raw(tensor):
    return tensor.numpy().tobytes()


def sentences(vs=31, vt=37, pad=1):
    """Ids with pads at the end of the second row of each side."""
    src, tgt = torch.randint(4, vs, (3, 9)), torch.randint(4, vt, (3, 11))
    src[1, 6:], tgt[1, 4:] = pad, pad
    return src, tgt


SET = [f"--set={one}" for one in ("embedding_scale=sqrt_d", "src_pad=1", "tgt_pad=1", "start=2",
                                  "end=3")]


class ConvertTest(unittest.TestCase):
    check = False  # with the engine that the checkpoint is of

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.safetensors"

    def run_convert(self, source, *arguments):
        """The command line, within this process: importing PyTorch takes longer than a test."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            check = [] if self.check else ["--no-check"]
            status = convert.main([str(source), str(self.out), *check, *arguments])
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

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
        metadata = list(header.pop("__metadata__"))
        self.assertEqual(metadata[0], "transformer.config")
        self.assertLessEqual(set(metadata[1:]), {"license", "source", "revision"})
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
        self.assertEqual(raw(model.t["src_vocabulary"]).decode(), "<pad>\n學\t学\nx\ny\nz\n")
        self.assertEqual(raw(model.t["tgt_vocabulary"]).decode(), "a\nb\nc\n")
        self.out.unlink()
        self.assertIn("tgt_vocab_size is 3", self.refuse(state, "--heads=4",
                                                         f"--src-vocab={source}"))
        source.write_bytes(b"a\nb\nc\nd\na\n")
        self.assertIn("line 5", self.refuse(state, "--heads=4", f"--src-vocab={source}",
                                            f"--tgt-vocab={target}"))


class Errors(ConvertTest):
    def test_the_program(self):
        command = [sys.executable, convert.__file__]
        done = subprocess.run(command + ["--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("--dtype", done.stdout)
        done = subprocess.run(command + ["nothing.pt", str(self.out)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "convert.py: nothing.pt: No such file or directory\n")

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
                                ("suppressed=1,99", "suppressed 99"), ("start=-1", "an id or a token"),
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


# ------------------------------------------------------------------------------- CTranslate2
CT2_TYPES = {"f32": 0, "int8": 1, "int16": 2, "int32": 3, "f16": 4, "bf16": 5}
CT2_WIDTHS = {"f32": 4, "int8": 1, "int16": 2}


def ct2_random(d=24, f=40, heads=4, layers=(2, 3), vs=23, vt=29, **attributes):
    """A random model as CTranslate2 names it: arrays by name, attributes as they are stored."""
    def linear(name, rows, columns):
        return {f"{name}/weight": 0.3 * np.random.randn(rows, columns).astype("f4"),
                f"{name}/bias": 0.5 * np.random.randn(rows).astype("f4")}

    def norm(name):
        return {f"{name}/gamma": 1 + 0.2 * np.random.randn(d).astype("f4"),
                f"{name}/beta": 0.2 * np.random.randn(d).astype("f4")}

    v = {"encoder/embeddings_0/weight": np.random.randn(vs, d).astype("f4") * 0.3,
         "decoder/embeddings/weight": np.random.randn(vt, d).astype("f4") * 0.3,
         **norm("encoder/layer_norm"), **norm("decoder/layer_norm"),
         **linear("decoder/projection", vt, d)}
    for side, count in zip(("encoder", "decoder"), layers):
        v[f"{side}/num_heads"] = np.int16(heads)
        v[f"{side}/pre_norm"] = np.int8(1)
        v[f"{side}/activation"] = np.int8(0)
        v[f"{side}/scale_embeddings"] = np.int8(1)
        for layer in (f"{side}/layer_{i}" for i in range(count)):
            v.update({**linear(f"{layer}/self_attention/linear_0", 3 * d, d),
                      **linear(f"{layer}/self_attention/linear_1", d, d),
                      **norm(f"{layer}/self_attention/layer_norm"),
                      **linear(f"{layer}/ffn/linear_0", f, d),
                      **linear(f"{layer}/ffn/linear_1", d, f), **norm(f"{layer}/ffn/layer_norm")})
            if side == "decoder":
                v.update({**linear(f"{layer}/attention/linear_0", d, d),
                          **linear(f"{layer}/attention/linear_1", 2 * d, d),
                          **linear(f"{layer}/attention/linear_2", d, d),
                          **norm(f"{layer}/attention/layer_norm")})
    v["encoder/embeddings_merge"] = np.int8(0)
    v["decoder/alignment_layer"], v["decoder/alignment_heads"] = np.int16(-1), np.int16(1)
    for name, value in attributes.items():
        v[name.replace("__", "/")] = value
    return v


def ct2_quantize(variables, kind, rounding=np.rint):
    """Weights in int8 with a scale a row, or in int16 with one; floats in f16 or bf16."""
    result = dict(variables)
    for name, value in variables.items():
        if kind in ("f16", "bf16") and value.ndim:
            result[name] = (value.astype("f2") if kind == "f16"
                            else torch.from_numpy(value).to(torch.bfloat16))
        elif kind in ("int8", "int16") and name.endswith("weight"):
            largest = np.abs(value).max(axis=1) if kind == "int8" else np.abs(value).max()
            scale = ((127 if kind == "int8" else 1024) / largest).astype("f4")
            rows = scale[:, None] if kind == "int8" else scale
            result[name] = rounding(value * rows).astype("i1" if kind == "int8" else "i2")
            result[f"{name}_scale"] = scale
    return result


def ct2_bytes(variables, version=6, spec="TransformerSpec", revision=7, aliases=()):
    """model.bin in any of its versions, written from its description."""
    def text(name):
        return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"

    out = struct.pack("<I", version) + text(spec) + struct.pack("<II", revision, len(variables))
    for name, value in variables.items():
        if isinstance(value, torch.Tensor):
            kind, raw = "bf16", value.view(torch.int16).numpy().tobytes()
        else:
            kind = {"f4": "f32", "i1": "int8", "i2": "int16", "i4": "int32", "f2": "f16"}[
                value.dtype.str[1:]]
            raw = value.tobytes()
        out += text(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        if version >= 4:
            out += struct.pack("<BI", CT2_TYPES[kind], len(raw)) + raw
        else:
            width = CT2_WIDTHS[kind]
            out += struct.pack("<BI", width, len(raw) // width) + raw
    if version >= 3:
        out += struct.pack("<I", len(aliases))
        for alias, name in aliases:
            out += text(alias) + text(name)
    return out


class CTranslate2(ConvertTest):
    def setUp(self):
        super().setUp()
        np.random.seed(11)

    def directory(self, variables, vs=23, vt=29, config=None, **form):
        """The files of a model; the vocabularies are <s> </s> <unk> a3 a4 ... and b3 b4 ..."""
        folder = self.folder / "ct2"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "model.bin").write_bytes(ct2_bytes(variables, **form))
        special = ["<s>", "</s>", "<unk>"]
        for side, letter, n in (("source", "a", vs), ("target", "b", vt)):
            tokens = special + [f"{letter}{i}" for i in range(3, n)]
            if form.get("version", 6) >= 6:
                (folder / f"{side}_vocabulary.json").write_text(json.dumps(tokens))
            else:
                (folder / f"{side}_vocabulary.txt").write_text("\n".join(tokens) + "\n")
        if form.get("version", 6) >= 6:
            tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                      "decoder_start_token": "<s>", "add_source_bos": False,
                      "add_source_eos": False, "layer_norm_epsilon": None}
            (folder / "config.json").write_text(json.dumps({**tokens, **(config or {})}))
        return folder

    def check_scores(self, folder, *arguments, limit=2e-5):
        """The log-probabilities of given targets, by the engine and from the file. The engine
        reads the directory that was written here, so the form of model.bin is tested as well."""
        model = self.convert(folder, *arguments)
        engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
        vs, vt = (len(model.t[f"{side}_embedding.weight"]) for side in ("src", "tgt"))
        lines = {}
        for side in ("src", "tgt"):
            text = model.t.get(f"{side}_vocabulary", model.t["src_vocabulary"])
            lines[side] = raw(text).decode().splitlines()
        config, worst = model.config, 0
        for _ in range(4):
            src, tgt = (list(np.random.randint(3, n, 6)) for n in (vs, vt))
            expected = engine.score_batch([[lines["src"][i] for i in src]],
                                          [[lines["tgt"][i] for i in tgt]])[0].log_probs
            ids = [config[key] for key in ("src_start",) if key in config] + src
            ids += [config[key] for key in ("src_end",) if key in config]
            logits = model.forward(torch.tensor([ids]), torch.tensor([[config["start"]] + tgt]))
            scores = logits[0].log_softmax(-1)[range(7), tgt + [config["end"]]]
            worst = max(worst, (scores - torch.tensor(expected)).abs().max().item())
        print(f"{self.id().split('.')[-1]}: log-probabilities differ by {worst:.2g}")
        self.assertLess(worst, limit)
        return model

    @needs_ctranslate2
    def test_binary_versions(self):
        for version in (2, 3, 4, 5, 6):
            with self.subTest(version):
                model = self.check_scores(self.directory(ct2_random(), version=version, revision=5))
                self.assertEqual(model.config["norm"], "pre")
                self.assertEqual(model.config["positions"], "sinusoidal_halves")
                self.assertEqual(model.config["start"], 0)
                self.assertEqual(model.config["end"], 1)
                self.assertEqual(model.config["src_unk"], 2)

    @needs_ctranslate2
    def test_types(self):
        for kind in ("int8", "int16", "f16", "bf16"):
            with self.subTest(kind):
                # the engine rounds f16 and bf16 weights to f32 as well
                model = self.check_scores(self.directory(ct2_quantize(ct2_random(), kind)))
                weight = model.t["encoder.layers.0.linear1.weight"]
                self.assertEqual(str(weight.dtype), {"f16": "torch.float16",
                                                     "bf16": "torch.bfloat16"}.get(
                                                         kind, "torch.float32"))

    def test_int16_without_a_scale(self):
        variables = ct2_random()
        variables["decoder/projection/weight"] = np.full((29, 24), 250, "i2")
        model = self.convert(self.directory(variables))
        self.assertTrue(torch.equal(model.t["generator.weight"], torch.full((29, 24), 0.25)))

    @needs_ctranslate2
    def test_options_of_the_layers(self):
        sides = ("encoder", "decoder")
        for code, name in ((1, "gelu_tanh"), (2, "swish"), (3, "gelu"),
                           (4, "gelu_sigmoid")):
            variables = ct2_random(**{f"{side}__activation": np.int8(code) for side in sides})
            with self.subTest(name):
                model = self.check_scores(self.directory(variables))
                self.assertEqual(model.config["activation"], name)
        post = ct2_random(**{f"{side}__pre_norm": np.int8(0) for side in sides},
                          **{f"{side}__scale_embeddings": np.float32(1.5) for side in sides})
        for side in sides:
            for leaf in ("gamma", "beta"):
                post[f"{side}/layernorm_embedding/{leaf}"] = post.pop(f"{side}/layer_norm/{leaf}")
            post[f"{side}/position_encodings/encodings"] = np.random.randn(50, 24).astype("f4")
        post["decoder/start_from_zero_embedding"] = np.int8(1)
        model = self.check_scores(self.directory(post, config={
            "add_source_bos": True, "add_source_eos": True, "decoder_start_token": "</s>"}))
        expected = {"norm": "post", "positions": "learned", "embedding_scale": 1.5, "src_start": 0,
                    "src_end": 1, "start": 1, "start_embedding": "zero"}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertIn("src_embedding_norm.weight", model.t)
        self.assertNotIn("encoder.norm.weight", model.t)

    @needs_ctranslate2
    def test_tables_and_aliases(self):
        variables = ct2_random(vs=29)
        j, p = np.arange(12), np.arange(60)[:, None]
        angle = p * 10000.0 ** (-j / 12)
        table = np.concatenate([np.sin(angle), np.cos(angle)], 1).astype("f4")
        variables["decoder/position_encodings/encodings"] = table
        aliases = [("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")]
        for name in ("encoder/embeddings_0/weight", "decoder/projection/weight"):
            del variables[name]
            aliases.append((name, "decoder/embeddings/weight"))
        folder = self.directory(ct2_quantize(variables, "int8"), vs=29, aliases=aliases)
        for name in ("source", "target"):
            tokens = json.dumps(["<s>", "</s>", "<unk>"] + [f"t{i}" for i in range(3, 29)])
            (folder / f"{name}_vocabulary.json").unlink()
            (folder / "shared_vocabulary.json").write_text(tokens)
        model = self.check_scores(folder)
        self.assertEqual(model.config["positions"], "sinusoidal_halves")
        self.assertEqual(model.config["position_divisor"], "d")
        with safe_open(self.out, framework="pt") as file:
            self.assertTrue({"tgt_embedding.weight", "generator.weight", "tgt_vocabulary",
                             "src_positions.weight"}.isdisjoint(file.keys()))

    @needs_ctranslate2
    def test_the_package_writes_what_is_read(self):
        """Its own specification, filled here, quantized and saved by it."""
        from ctranslate2.specs import TransformerSpec
        from ctranslate2.specs.model_spec import index_spec
        for kind in (None, "int8", "int8_float16", "int16", "float16", "bfloat16"):
            spec = TransformerSpec.from_config((2, 3), 4)
            for name, value in ct2_random().items():
                parent, _, leaf = name.rpartition("/")
                if value.ndim:
                    setattr(index_spec(spec, parent), leaf, value)
            for side in ("source", "target"):
                tokens = ["<unk>", "<s>", "</s>"] + [str(i) for i in range(3, 50)]
                getattr(spec, f"register_{side}_vocabulary")(tokens[:23 if side[0] == "s" else 29])
            spec.validate()
            spec.optimize(quantization=kind)
            folder = self.folder / f"saved_{kind}"
            folder.mkdir()
            spec.save(str(folder))
            with self.subTest(kind):
                model = self.check_scores(folder)
                self.assertEqual((model.config["start"], model.config["end"]), (1, 2))

    def test_old_specifications(self):
        variables = {name: value for name, value in ct2_random().items() if value.ndim}
        variables["encoder/embeddings/weight"] = variables.pop("encoder/embeddings_0/weight")
        form = {"version": 2, "revision": 2}
        model = self.convert(self.directory(variables, spec="TransformerBase", **form))
        self.assertEqual(model.config["n_heads"], 8)
        self.assertIn("n_heads 16", self.refuse_directory(variables, spec="TransformerBig", **form))
        variables["num_heads"], variables["pre_norm"] = np.int8(6), np.int8(0)
        variables["with_source_eos"], variables["with_target_bos"] = np.int8(1), np.int8(0)
        model = self.convert(self.directory(variables, version=4, revision=4))
        expected = {"n_heads": 6, "norm": "post", "src_end": 1, "start": 1, "end": 1}
        self.assertEqual({key: model.config[key] for key in expected}, expected)

    def test_vocabularies(self):
        folder = self.directory(ct2_random(), version=2, revision=5)
        (folder / "source_vocabulary.txt").write_bytes(
            "\r\n".join(["<s>", "</s>"] + [f"a{i}" for i in range(20)]).encode() + b"\r\n")
        tokens = ["<s>", "</s>", "<unk>", "a\tb", "c", "c"] + [f"b{i}" for i in range(23)]
        (folder / "target_vocabulary.txt").unlink()
        (folder / "target_vocabulary.json").write_text(json.dumps(tokens))
        model = self.convert(folder)
        source = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual((source[21], source[22], len(source)), ("a19", "<unk>", 24))
        self.assertEqual(model.config["src_unk"], 22)
        target = raw(model.t["tgt_vocabulary"]).decode().split("\n")
        self.assertEqual(target[3:6], ["<id 3>", "c", "<id 5>"])
        (folder / "target_vocabulary.json").write_text(json.dumps(tokens[:-1]))
        self.out.unlink()
        self.assertIn("tgt_vocab_size is 29", self.refuse(folder))

    def refuse_directory(self, variables, **form):
        self.out.unlink(missing_ok=True)
        return self.refuse(self.directory(variables, **form))

    def test_what_is_not_computed_is_named(self):
        attention = "encoder/layer_0/self_attention"
        for name, value in ((f"{attention}/relative_position_keys", np.zeros((5, 6), "f4")),
                            (f"{attention}/rotary_dim", np.int32(4)),
                            ("encoder/multi_query_attention", np.int8(1)),
                            ("decoder/alibi", np.int8(1)),
                            ("decoder/project_in/weight", np.zeros((24, 24), "f4")),
                            ("encoder/layer_0/ffn/linear_0_noact/weight", np.zeros((40, 24), "f4")),
                            ("encoder/embeddings_1/weight", np.zeros((5, 24), "f4")),
                            ("decoder/something/weight", np.zeros((5, 24), "f4"))):
            self.assertIn(name, self.refuse_directory({**ct2_random(), name: value}))
        for name, value, reason in (("decoder/num_heads", np.int16(2), "num_heads is 4"),
                                    ("decoder/activation", np.int8(2), "activation is 0"),
                                    ("decoder/scale_embeddings", np.int8(0), "in the encoder")):
            self.assertIn(reason, self.refuse_directory({**ct2_random(), name: value}))
        both = {f"{side}/activation": np.int8(6) for side in ("encoder", "decoder")}
        self.assertIn("sigmoid", self.refuse_directory({**ct2_random(), **both}))
        self.assertIn("WhisperSpec", self.refuse_directory(ct2_random(), spec="WhisperSpec"))
        plain = ct2_random()
        del plain["encoder/layer_0/ffn/layer_norm/beta"]
        self.assertIn("mean square", self.refuse_directory(plain))
        lacking = ct2_random()
        del lacking["decoder/layer_1/ffn/linear_0/weight"]
        self.assertIn("decoder.layers.1.linear1.weight", self.refuse_directory(lacking))
        folder = self.directory(ct2_random(), config={"decoder_start_token": None})
        self.convert(folder)
        self.assertIn("--set start=TOKEN", self.done.stderr)
        model = self.convert(folder, "--set=start=b7", "--set=src_end=</s>")
        self.assertEqual((self.done.stderr, model.config["start"]), ("", 7))

    def test_broken_files(self):
        folder = self.directory(ct2_random())
        whole = (folder / "model.bin").read_bytes()
        for size in (0, 3, 4, 20, 100, len(whole) // 2, len(whole) - 1):
            (folder / "model.bin").write_bytes(whole[:size])
            self.assertIn("ends at byte", self.refuse(folder))
        (folder / "model.bin").write_bytes(whole + b"x")
        self.assertIn("after the last variable", self.refuse(folder))
        for version in (1, 7, 0x46495247):
            (folder / "model.bin").write_bytes(struct.pack("<I", version) + whole[4:])
            self.assertIn("binary version", self.refuse(folder))
        (folder / "model.bin").write_bytes(whole)
        (folder / "config.json").write_text("{")
        self.assertIn("not JSON", self.refuse(folder))
        (folder / "config.json").unlink()
        (folder / "source_vocabulary.json").unlink()
        self.assertIn("source_vocabulary", self.refuse(folder))
        self.assertIn("model.bin", self.refuse(self.folder))


class Aren(ConvertTest):
    """A trained model of CTranslate2, and what the engine made of its own test inputs."""

    @classmethod
    def setUpClass(cls):
        if not (REAL / "aren").is_dir():
            raise unittest.SkipTest(f"no model at {REAL / 'aren'}")
        if not TRANSLATE.exists():
            raise unittest.SkipTest(f"no {TRANSLATE}: make it first")
        text = (REAL / "aren" / "golden.jsonl").read_text()
        cls.rows = [row for row in map(json.loads, text.splitlines())
                    if row["beam_size"] == 1 and row["length_penalty"] == 0]

    def check_rows(self, folder, weights):
        self.convert(folder)
        rows = [row for row in self.rows if row["weights"] == weights]
        lines = "".join(" ".join(row["src"]) + "\n" for row in rows)
        done = subprocess.run([TRANSLATE, str(self.out), "--tokens", "--scores"], input=lines,
                              capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(done.stderr, "")
        worst = 0
        for row, line in zip(rows, done.stdout.splitlines(), strict=True):
            score, tokens = line.split("\t")
            self.assertEqual(tokens.split(" "), row["hypotheses"][0])
            worst = max(worst, abs(float(score) - row["scores"][0]))
        # 5e-5 of it is the rounding of the printed score, as much that the engine does not allow
        # an empty target: its first step has no end token among the tokens that share
        print(f"{self.id().split('.')[-1]}: {len(rows)} rows equal, scores differ by {worst:.2g}")
        self.assertLess(worst, 1.5e-4)

    def test_f32(self):
        self.check_rows(REAL / "aren", "f32")

    def test_quantized(self):
        binary = convert.checkpoints_ctranslate2.read_binary(REAL / "aren" / "model.bin")
        for name in ("source_vocabulary.txt", "target_vocabulary.txt"):
            shutil.copyfile(REAL / "aren" / name, self.folder / name)
        # as the models of version 2 were quantized: cut off, not rounded; int16 all by 1000
        int16 = {name: np.trunc(value * 1000).astype("i2") if name.endswith("weight") else value
                 for name, value in binary.arrays.items()}
        int8 = ct2_quantize(binary.arrays, "int8", np.trunc)
        for weights, variables in (("i8", int8), ("i16", int16)):
            (self.folder / "model.bin").write_bytes(
                ct2_bytes(variables, version=2, spec="TransformerBase", revision=2))
            with self.subTest(weights):
                self.check_rows(self.folder, weights)


# ------------------------------------------------------------------------------ Hugging Face
@needs_transformers
class HuggingFace(ConvertTest):
    """What a directory may look like; test_peers.py compares the numbers."""

    def directory(self, family="bart", **options):
        folder = self.folder / "hf"
        shutil.rmtree(folder, ignore_errors=True)
        self.model = families.make(family, **options)
        self.model.save_pretrained(folder)
        self.out.unlink(missing_ok=True)
        return folder

    def edit(self, folder, name, **changes):
        path = folder / name
        values = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**values, **changes}))
        return folder

    def state(self, folder):
        with safe_open(folder / "model.safetensors", framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}

    def logits(self, model, limit=1e-4):
        src, lengths, tgt = families.sentences(self.model)
        expected = families.reference(self.model, src, tgt)[1]
        self.check_near("logits", model.forward(src, tgt), expected, limit)

    def test_every_family(self):
        for family, expected in {
            "marian": {"norm": "post", "positions": "sinusoidal_halves", "activation": "swish",
                       "start": 39, "end": 0, "src_end": 0, "src_pad": 39, "suppressed": [39],
                       "embedding_scale": "sqrt_d", "position_divisor": None, "tgt_pad": None},
            "bart": {"norm": "post", "positions": "learned", "position_offset": 2, "forced": 0,
                     "start": 2, "end": 2, "src_start": 0, "src_end": 2, "src_pad": 1,
                     "tgt_pad": 1, "embedding_scale": 1},
            "mbart": {"norm": "pre", "positions": "learned", "position_offset": 2, "forced": 30},
            "m2m_100": {"norm": "pre", "positions": "sinusoidal_halves", "position_offset": 2,
                        "position_divisor": "d/2-1", "pad_position": "zero", "forced": 31},
            "pegasus": {"norm": "pre", "positions": "sinusoidal_halves", "start": 0, "end": 1},
        }.items():
            with self.subTest(family):
                model = self.convert(self.directory(family))
                self.assertEqual({key: model.config.get(key) for key in expected}, expected)
                self.logits(model)

    def test_check(self):
        if not FORWARD.exists():
            self.skipTest(f"no {FORWARD}: make it first")
        self.check = True
        self.convert(self.directory("m2m_100"))
        found = re.search(r"memory differs by at most (\S+), logits by (\S+)", self.done.stdout)
        self.assertLess(max(map(float, found.groups())), 1e-4)
        self.assertEqual(self.done.stderr, "")
        self.convert(self.directory("marian"), "--set=embedding_scale=1")
        self.assertIn("more than rounding makes", self.done.stderr)
        if ctranslate2 and (REAL / "aren").is_dir():
            self.convert(REAL / "aren")
            self.assertIn("log-probabilities differ by at most", self.done.stdout)
            self.assertEqual(self.done.stderr, "")

    def test_shards_and_pickles(self):
        folder = self.directory()
        state = self.state(folder)
        names = sorted(state)
        whole = self.convert(folder).t
        halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
        for shard, held in halves.items():
            save_file({name: state[name] for name in held}, folder / shard)
        index = {name: shard for shard, held in halves.items() for name in held}
        (folder / "model.safetensors").unlink()
        self.edit(folder, "model.safetensors.index.json", weight_map=index)
        shards = self.convert(folder).t
        (folder / "model.safetensors.index.json").unlink()
        torch.save(state, folder / "pytorch_model.bin")
        pickled = self.convert(folder).t
        for name, tensor in whole.items():
            self.assertTrue(torch.equal(tensor, shards[name]) and torch.equal(tensor, pickled[name]))
        self.out.unlink()
        (folder / "pytorch_model.bin").unlink()
        self.edit(folder, "model.safetensors.index.json", weight_map={**index, "x": "a.safetensors"})
        self.assertIn("lists x", self.refuse(folder))
        self.edit(folder, "model.safetensors.index.json", weight_map={"x": "../a.safetensors"})
        self.assertIn("no file of this directory", self.refuse(folder))

    def test_tied_weights_may_be_there_twice(self):
        folder = self.directory("m2m_100")
        state = self.state(folder)
        shared = state["model.shared.weight"]
        for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
                     "lm_head.weight"):
            state[name] = shared.clone()
        table = self.model.model.encoder.embed_positions.weights
        state["model.encoder.embed_positions.weights"] = table.clone()
        save_file(state, folder / "model.safetensors")
        self.logits(self.convert(folder))
        with safe_open(self.out, framework="pt") as file:
            self.assertTrue({"tgt_embedding.weight", "generator.weight",
                             "src_positions.weight"}.isdisjoint(file.keys()))
        self.out.unlink()
        state["lm_head.weight"] = shared + 1
        state["model.encoder.embed_positions.weights"] = table + 1
        save_file(state, folder / "model.safetensors")
        self.edit(folder, "config.json", tie_word_embeddings=False)
        self.assertIn("embed_positions.weights", self.refuse(folder))
        state["extra.weight"] = shared[:3].clone()
        save_file(state, folder / "model.safetensors")
        self.assertIn("extra.weight [3, 24]", self.refuse(folder))

    def test_tables_of_marian(self):
        folder = self.directory("marian")
        state = self.state(folder)
        table = self.model.model.encoder.embed_positions.weight
        for side in ("encoder", "decoder"):
            state[f"model.{side}.embed_positions.weight"] = table.clone()
        save_file(state, folder / "model.safetensors")
        model = self.convert(folder)
        self.assertEqual(model.config["positions"], "sinusoidal_halves")
        self.logits(model)
        for side in ("encoder", "decoder"):
            state[f"model.{side}.embed_positions.weight"] = table.flip(0)
            getattr(self.model.model, side).embed_positions.weight.copy_(table.flip(0))
        save_file(state, folder / "model.safetensors")
        model = self.convert(folder)
        self.assertEqual(model.config["positions"], "learned")
        self.logits(model)

    def test_what_decoding_needs(self):
        folder = self.directory("marian")
        self.edit(folder, "generation_config.json", bad_words_ids=[[39], [4, 5]], num_beams=6,
                  suppress_tokens=[7], forced_bos_token_id=9, decoder_start_token_id=8)
        model = self.convert(folder)
        expected = {"suppressed": [7, 39], "forced": 9, "start": 8}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertIn("[4, 5]", self.done.stdout)
        self.assertIn("num_beams 6", self.done.stdout)
        self.out.unlink()
        self.edit(folder, "generation_config.json", eos_token_id=[0, 5])
        self.assertIn("eos_token_id is [0, 5]", self.refuse(folder))

    def test_what_is_not_computed_is_named(self):
        for changes, reason in (({"model_type": "t5"}, "model_type t5"),
                                ({"decoder_attention_heads": 2}, "[2, 3] heads"),
                                ({"activation_function": "gelu_10"}, "gelu_10"),
                                ({"encoder_layers": 3}, "n_encoder_layers is stated as 3")):
            folder = self.edit(self.directory(), "config.json", **changes)
            self.assertIn(reason, self.refuse(folder))
        folder = self.directory()
        state = self.state(folder)
        del state["model.encoder.layernorm_embedding.weight"]
        save_file(state, folder / "model.safetensors")
        self.assertIn("src_embedding_norm.weight is missing", self.refuse(folder))
        (folder / "config.json").write_text("{}")
        self.assertIn("no model_type", self.refuse(folder))

    def test_where_it_comes_from(self):
        folder = self.directory()
        self.edit(folder, "config.json", _name_or_path="Helsinki-NLP/opus-mt-en-mg")
        (folder / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# Model\n")
        self.assertEqual(self.convert(folder).metadata["license"], "cc-by-4.0")
        (folder / "README.md").unlink()
        (folder / "LICENSE").write_text("   Apache License\n   Version 2.0, January 2004\n")
        metadata = self.convert(folder, "--set", "revision=abc").metadata
        self.assertEqual((metadata["license"], metadata["source"], metadata["revision"]),
                         ("Apache-2.0", "Helsinki-NLP/opus-mt-en-mg", "abc"))
        metadata = self.convert(folder, "--set", "license=MIT, see below").metadata
        self.assertEqual(metadata["license"], "MIT, see below")
        cache = self.folder / "models--org--name" / "snapshots" / "0123abcd"
        shutil.copytree(folder, cache)
        metadata = self.convert(cache).metadata
        self.assertEqual((metadata["source"], metadata["revision"]), ("org/name", "0123abcd"))

    def test_ids_by_token(self):
        folder = self.directory("m2m_100")
        vocabulary = self.folder / "vocabulary.txt"
        vocabulary.write_text("".join(f"t{i}\n" for i in range(36)) + "eng\tenglish\nfra\ndeu\nx\n")
        model = self.convert(folder, f"--src-vocab={vocabulary}", "--set=src_start=english",
                             "--set=forced=fra")
        self.assertEqual((model.config["src_start"], model.config["forced"]), (36, 37))
        self.out.unlink()
        self.assertIn("no such token", self.refuse(folder, f"--src-vocab={vocabulary}",
                                                   "--set=forced=ita"))
        self.assertIn("no vocabulary here", self.refuse(folder, "--set=forced=ita"))


# ----------------------------------------------------------------------------------- Marian
@needs_transformers
class Marian(ConvertTest):
    """A random Marian of transformers, written with Marian's names: its matrices [in, out], its
    vectors [1, n], without the pad that transformers added. There is no Marian here to compare
    with: the tensors have to be those of the direct conversion, and the numbers those of
    transformers, once the config has its positions and its eps."""

    OPTIONS = {"type": "transformer", "transformer-heads": 3, "enc-depth": 2, "dec-depth": 2,
               "transformer-ffn-activation": "swish", "transformer-preprocess": "",
               "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
               "transformer-postprocess-top": "", "transformer-decoder-autoreg": "self-attention",
               "transformer-no-projection": False, "transformer-guided-alignment-layer": "last",
               "tied-embeddings-all": True, "dim-emb": 24}
    LIKE_OTHERS = ("--set=position_divisor=d", "--set=layer_norm_eps=1e-5")

    def setUp(self):
        super().setUp()
        np.random.seed(5)
        self.model = families.make("marian")
        self.model.model.shared.weight[39] = 0  # what transformers puts in the place of zeros

    def arrays(self, suffix=""):
        state = self.model.state_dict()
        out = {"Wemb": state["model.shared.weight"][:39].numpy(),
               "decoder_ff_logit_out_b": state["final_logits_bias"][:, :39].numpy()}
        for side in ("encoder", "decoder"):
            for i in range(2):
                old, new = f"model.{side}.layers.{i}", f"{side}_l{i + 1}"
                pairs = [(f"self_attn.{one}_proj", f"self_{{}}{one[0]}") for one in
                         ("q", "k", "v", "out")]
                pairs += [(f"fc{one}", f"ffn_{{}}{one}") for one in (1, 2)]
                norms = [("self_attn_layer_norm", "self_Wo"), ("final_layer_norm", "ffn_ffn")]
                if side == "decoder":
                    pairs += [(f"encoder_attn.{one}_proj", f"context_{{}}{one[0]}") for one in
                              ("q", "k", "v", "out")]
                    norms.append(("encoder_attn_layer_norm", "context_Wo"))
                for name, to in pairs:
                    out[f"{new}_{to.format('W')}"] = state[f"{old}.{name}.weight"].T.numpy()
                    out[f"{new}_{to.format('b')}"] = state[f"{old}.{name}.bias"][None].numpy()
                for name, to in norms:
                    for leaf, kind in (("weight", "scale"), ("bias", "bias")):
                        out[f"{new}_{to}_ln_{kind}{suffix}"] = (
                            state[f"{old}.{name}.{leaf}"][None].numpy())
        return out

    def directory(self, arrays, **options):
        folder = self.folder / "marian"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        options = "".join(f"{key}: {json.dumps(value)}\n"
                          for key, value in {**self.OPTIONS, **options}.items())
        np.savez(folder / "model.npz", **arrays, **{
            "special:model.yml": np.frombuffer(options.encode() + b"\0", np.int8)})
        tokens = ["</s>", "<unk>", ",", ".", "'", '"', ":", "a: b", "-", "? x", "\\"]
        tokens += [f"t{i}" for i in range(len(tokens), 39)]
        lines = [f"{json.dumps(token)}: {i}" for i, token in enumerate(tokens)]
        lines[4], lines[12], lines[13] = "''" + "'': 4", "t12: 12", "? t13\n: 13"
        (folder / "vocab.yml").write_text("\n".join(lines) + "\n")
        (folder / "decoder.yml").write_text(
            "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n  - vocab.yml\n  - vocab.yml\n")
        self.out.unlink(missing_ok=True)
        return folder, tokens

    def test_tensors_and_logits(self):
        folder, tokens = self.directory(self.arrays())
        model = self.convert(folder, *self.LIKE_OTHERS)
        self.assertEqual(raw(model.t["src_vocabulary"]).decode().split("\n")[:-1], tokens)
        expected = {"src_end": 0, "end": 0, "src_unk": 1, "suppressed": [1], "norm": "post",
                    "activation": "swish", "start_embedding": "zero", "embedding_scale": "sqrt_d",
                    "positions": "sinusoidal_halves", "src_text": "words"}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        src, lengths, tgt = families.sentences(self.model)
        logits = families.reference(self.model, src, tgt)[1][..., :39]
        src = torch.where(src == 39, 0, src)
        tgt = torch.where(tgt == 39, 0, tgt)
        self.check_near("logits", model.forward(src, tgt, lengths), logits)
        self.model.save_pretrained(self.folder / "hf")
        self.out.unlink()
        direct = self.convert(self.folder / "hf")
        for name, tensor in direct.t.items():
            rows = 39 if name.endswith("embedding.weight") or name.startswith("generator") else None
            self.assertTrue(torch.equal(tensor[:rows], model.t[name]), name)

    def test_its_own_numbers(self):
        config = self.convert(self.directory(self.arrays())[0]).config
        self.assertEqual((config["position_divisor"], config["layer_norm_eps"]), ("d/2-1", 1e-6))
        config = self.convert(self.directory(self.arrays(), **{"allow-unk": True})[0]).config
        self.assertNotIn("suppressed", config)

    @needs_ctranslate2
    def test_another_reader(self):
        """CTranslate2's converter reads the same .npz; its engine scores the same."""
        from ctranslate2.converters import MarianConverter
        for pre in (False, True):
            arrays, options, top = self.arrays("_pre" if pre else ""), {}, {}
            if pre:
                options = {"transformer-preprocess": "n", "transformer-postprocess": "da",
                           "transformer-postprocess-top": "n", "transformer-ffn-activation": "relu",
                           "transformer-postprocess-emb": "nd"}
                for name in (f"{side}_{where}_{leaf}" for side in ("encoder", "decoder")
                             for where in ("top_ln", "emb_ln") for leaf in ("scale", "bias")):
                    value = np.random.randn(1, 24).astype("f4")
                    arrays[f"{name}_pre" if "emb" in name else name] = value
                    top[name] = value
            folder, tokens = self.directory(arrays, **options)
            engine = self.folder / f"engine_{pre}"
            MarianConverter(str(folder / "model.npz"), [str(folder / "vocab.yml")] * 2).convert(
                str(engine))
            model = self.convert(folder, *self.LIKE_OTHERS)
            translator = ctranslate2.Translator(str(engine), compute_type="float32")
            worst = 0
            for _ in range(4):
                src, tgt = (np.random.randint(2, 39, 6).tolist() for _ in range(2))
                scores = translator.score_batch([[tokens[i] for i in src]],
                                                [[tokens[i] for i in tgt]])[0].log_probs
                logits = model.forward(torch.tensor([src + [0]]), torch.tensor([[0] + tgt]))[0]
                found = logits.log_softmax(-1)[range(7), tgt + [0]]
                worst = max(worst, (found - torch.tensor(scores)).abs().max().item())
            print(f"test_another_reader: log-probabilities differ by {worst:.2g}")
            self.assertLess(worst, 1e-4)

    def test_forms_of_embeddings(self):
        arrays = self.arrays()
        arrays["encoder_Wemb"] = arrays["Wemb"][:20]
        arrays["decoder_Wemb"] = arrays.pop("Wemb")
        arrays["decoder_ff_logit_out_W"] = np.random.randn(24, 39).astype("f4")
        arrays["Wpos"] = np.random.randn(60, 24).astype("f4")
        folder, _ = self.directory(arrays, **{"tied-embeddings-all": False})
        (folder / "vocab.src.yml").write_text("".join(f"s{i}: {i}\n" for i in range(19))
                                              + "</s>: 19\n")
        (folder / "decoder.yml").write_text("models: [model.npz]\n"
                                            "vocabs: [vocab.src.yml, vocab.yml]\n")
        model = self.convert(folder)
        self.assertEqual(model.config["positions"], "learned")
        self.assertEqual((model.config["embedding_scale"], model.config["src_end"]), (1, 19))
        self.assertTrue(np.array_equal(model.t["generator.weight"].numpy(),
                                       arrays["decoder_ff_logit_out_W"].T))
        self.assertEqual(len(model.t["src_embedding.weight"]), 20)
        self.assertIn("tgt_vocabulary", model.t)

    def test_one_file_and_pieces(self):
        folder, _ = self.directory(self.arrays())
        for name in ("decoder.yml", "vocab.yml"):
            (folder / name).unlink()
        model = self.convert(folder / "model.npz", "--set=end=0")
        self.assertNotIn("src_vocabulary", model.t)
        if (REAL / "sentencepiece").is_dir():
            arrays = self.arrays()
            for name in ("Wemb", "decoder_ff_logit_out_b"):
                shape = (1000, 24) if name == "Wemb" else (1, 1000)
                arrays[name] = np.random.randn(*shape).astype("f4")
            folder, _ = self.directory(arrays)
            shutil.copyfile(REAL / "sentencepiece" / "mozilla_tests_vocab.spm",
                            folder / "vocab.spm")
            (folder / "decoder.yml").write_text("models: [model.npz]\n"
                                                "vocabs: [vocab.spm, vocab.spm]\n")
            model = self.convert(folder)
            self.assertEqual(model.config["src_text"], "sentencepiece")
            self.assertIn("src_sentencepiece", model.t)
            self.assertTrue({"src_vocabulary", "tgt_sentencepiece"}.isdisjoint(model.t))

    def test_what_is_not_computed_is_named(self):
        arrays = self.arrays()
        for options, reason in (({"type": "s2s"}, "type is 's2s'"),
                                ({"transformer-decoder-autoreg": "rnn"}, "autoreg is 'rnn'"),
                                ({"transformer-ffn-activation": "elu"}, "elu"),
                                ({"transformer-postprocess": "dhn"}, "postprocess"),
                                ({"transformer-tied-layers": [1, 1]}, "tied-layers"),
                                ({"transformer-heads": 5}, "n_heads 5"),
                                ({"dec-depth": 3}, "n_decoder_layers is stated as 3")):
            self.assertIn(reason, self.refuse(self.directory(arrays, **options)[0]))
        folder, _ = self.directory({**arrays, "decoder_l1_rnn_W": arrays["Wemb"]})
        self.assertIn("decoder_l1_rnn_W [39, 24]", self.refuse(folder))
        folder, _ = self.directory({**arrays, "Wemb": arrays["Wemb"].astype("i1")})
        self.assertIn("Wemb is int8", self.refuse(folder))
        folder, _ = self.directory(arrays)
        (folder / "vocab.yml").write_text("a: 0\nb\n")
        self.assertIn("line 2", self.refuse(folder))
        (folder / "vocab.yml").unlink()
        self.assertIn("vocab.yml: not there", self.refuse(folder))
        folder, _ = self.directory(arrays)
        (folder / "model.npz").write_bytes(b"PK\3\4 not really")
        self.assertIn("not an .npz", self.refuse(folder / "model.npz"))


# ------------------------------------------------------------------------------- OpenNMT-py
class OpenNMT(ConvertTest):
    """Random weights under OpenNMT-py's names, which CTranslate2's converter reads as well."""

    def checkpoint(self, d=24, f=40, vs=23, vt=29, **options):
        torch.manual_seed(3)
        model = {}

        def linear(name, rows, columns):
            model[f"{name}.weight"] = torch.randn(rows, columns) * 0.3
            model[f"{name}.bias"] = torch.randn(rows) * 0.5

        def norm(name):
            model[f"{name}.weight"] = 1 + 0.2 * torch.randn(d)
            model[f"{name}.bias"] = 0.2 * torch.randn(d)

        for side, layers, rows in (("encoder", "transformer", vs),
                                   ("decoder", "transformer_layers", vt)):
            make = f"{side}.embeddings.make_embedding"
            model[f"{make}.emb_luts.0.weight"] = torch.randn(rows, d) * 0.3
            model[f"{make}.pe.pe"] = PositionalEncoding(d).pe.clone()
            norm(f"{side}.layer_norm")
            for layer in (f"{side}.{layers}.{i}" for i in range(2)):
                names = ["self_attn"] + ["context_attn"] * (side == "decoder")
                for name in (f"{layer}.{attention}.{part}" for attention in names for part in
                             ("linear_query", "linear_keys", "linear_values", "final_linear")):
                    linear(name, d, d)
                linear(f"{layer}.feed_forward.w_1", f, d)
                linear(f"{layer}.feed_forward.w_2", d, f)
                norm(f"{layer}.feed_forward.layer_norm")
                for name in ("_1", "_2") if side == "decoder" else ("",):
                    norm(f"{layer}.layer_norm{name}")
        special = ["<unk>", "<blank>", "<s>", "</s>"]
        options = {"encoder_type": "transformer", "decoder_type": "transformer", "heads": 4,
                   "enc_layers": 2, "dec_layers": 2, "position_encoding": True,
                   "max_relative_positions": 0, "self_attn_type": "scaled-dot",
                   "pos_ffn_activation_fn": "relu", "norm_eps": 1e-6, **options}
        return {"model": model, "opt": argparse.Namespace(**options),
                "generator": {"weight": torch.randn(vt, d) * 0.3, "bias": torch.randn(vt)},
                "vocab": {"src": special + [f"a{i}" for i in range(4, vs)],
                          "tgt": special + [f"b{i}" for i in range(4, vt)]},
                "optim": {"param_groups": [{"lr": 0.1}]}}

    def test_config(self):
        model = self.convert(self.checkpoint(pos_ffn_activation_fn="gelu",
                                             decoder_start_token="</s>"))
        expected = {"norm": "pre", "layer_norm_eps": 1e-6, "activation": "gelu", "n_heads": 4,
                    "positions": "sinusoidal", "embedding_scale": "sqrt_d", "src_pad": 1,
                    "start": 3, "end": 3, "src_unk": 0}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertEqual(self.done.stderr, "")
        self.assertEqual(raw(model.t["src_vocabulary"]).split(b"\n")[4], b"a4")

    @needs_ctranslate2
    def test_another_reader(self):
        """CTranslate2's engine has an eps of 1e-5 where OpenNMT-py has 1e-6."""
        from ctranslate2.converters import OpenNMTPyConverter
        for activation in ("relu", "gelu"):
            checkpoint = self.checkpoint(pos_ffn_activation_fn=activation)
            model = self.convert(checkpoint, "--set=layer_norm_eps=1e-5")
            engine = self.folder / activation
            OpenNMTPyConverter(str(self.folder / "in.pt"), True).convert(str(engine))
            translator = ctranslate2.Translator(str(engine), compute_type="float32")
            for seed in range(3):
                np.random.seed(seed)
                src, tgt = (np.random.randint(4, n, 6).tolist() for n in (23, 29))
                scores = translator.score_batch([[f"a{i}" for i in src]],
                                                [[f"b{i}" for i in tgt]])[0].log_probs
                logits = model.forward(torch.tensor([src]), torch.tensor([[2] + tgt]))[0]
                found = logits.log_softmax(-1)[range(7), tgt + [3]]
                self.check_near(activation, found, torch.tensor(scores))

    def test_what_is_not_computed_is_named(self):
        for options, reason in (({"max_relative_positions": 20}, "max_relative_positions is 20"),
                                ({"decoder_type": "rnn"}, "decoder_type is 'rnn'"),
                                ({"pos_ffn_activation_fn": "silu"}, "silu"),
                                ({"layer_norm": "rms"}, "layer_norm is 'rms'")):
            self.assertIn(reason, self.refuse(self.checkpoint(**options)))
        checkpoint = self.checkpoint()
        checkpoint["model"]["decoder.copy.weight"] = torch.zeros(2, 3)
        self.assertIn("decoder.copy.weight [2, 3]", self.refuse(checkpoint))
        self.assertIn("no list of tokens", self.refuse({**self.checkpoint(), "vocab": [1, 2]}))


TEXTS = ["Hello world.", "  Two  spaces , and a tab\there ", "Ünïcödé ﬁ ½ Ⅳ ①…", "naïve — “quotes”",
         "我是学生。", "1234567890 99.5%", "emoji 😀 and ﷺ", "don't", "", "▁literal", "e\u0301",
         "a very long antidisestablishmentarianism", "Ĥéļļõ", "tab\u00a0nbsp\u3000wide"]


@needs_transformers
class TokenizerFiles(ConvertTest):
    """Text to ids by the tokenizer of a directory, and by what is embedded in the model file: the
    SentencePiece model cuts, the vocabulary beside it, if any, turns spellings into ids."""

    @classmethod
    def setUpClass(cls):
        try:
            import sentencepiece
            import tokenizers
        except ImportError as error:
            raise unittest.SkipTest(f"the package {error.name} is not installed") from None
        if not REAL.is_dir():
            raise unittest.SkipTest(f"no tokenizers at {REAL}")
        cls.processor, cls.tokenizers = sentencepiece.SentencePieceProcessor, tokenizers

    def directory(self, family, rows, *files, **settings):
        """A model of that many ids, and files of a tokenizer: (from, to)."""
        folder = self.folder / family
        shutil.rmtree(folder, ignore_errors=True)
        special = {"marian": {"pad_token_id": rows - 1, "decoder_start_token_id": rows - 1}}
        model = families.make(family, vocab_size=rows, d_model=4, encoder_attention_heads=1,
                              decoder_attention_heads=1, encoder_layers=1, decoder_layers=1,
                              forced_bos_token_id=None, **special.get(family, {}))
        model.save_pretrained(folder)
        for old, new in files:
            shutil.copyfile(REAL / old, folder / new)
        if settings:
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        self.out.unlink(missing_ok=True)
        return folder

    def cut(self, model, text, side="src"):
        t, config = model.t, model.config
        own = t.get(f"{side}_sentencepiece", t.get("src_sentencepiece"))
        processor = self.processor(model_proto=raw(own))
        ids = processor.encode(text)
        lines = t.get(f"{side}_vocabulary", t.get("src_vocabulary"))
        if lines is not None:
            lines = raw(lines).decode().split("\n")[:-1]
            known = {line: at for at, line in enumerate(lines)}
            ids = [known.get(processor.id_to_piece(at), config["src_unk"]) for at in ids]
        around = [[config[key]] if key in config else [] for key in ("src_start", "src_end")]
        return around[0] + ids + around[1]

    def check_texts(self, model, encode, texts=TEXTS):
        for text in texts:
            if text.strip():
                self.assertEqual(self.cut(model, text), encode(text), text)

    def test_marian(self):
        names = [(f"opus-mt-en-mg/{name}", name) for name in ("source.spm", "target.spm",
                                                              "vocab.json")]
        folder = self.directory("marian", 54688, *names)
        model = self.convert(folder)
        self.assertEqual(model.config["src_text"], "sentencepiece")
        self.assertEqual({name for name in model.t if "_" in name and "." not in name},
                         {"src_sentencepiece", "tgt_sentencepiece", "src_vocabulary"})
        self.assertEqual(model.config["src_end"], 0)
        self.assertEqual(model.config["src_unk"], 1)
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.check_texts(model, lambda text: tokenizer(text).input_ids)
        text = "Faly mahita anao aho"
        pieces = tokenizer(text_target=text).input_ids
        self.assertEqual(self.cut(model, text, "tgt"), pieces)

    def test_marian_of_many_languages(self):
        names = [(f"opus-mt-en-mg/{name}", name) for name in ("source.spm", "target.spm")]
        folder = self.directory("marian", 40, *names)
        (folder / "vocab.json").write_text(json.dumps({"</s>": 0, "<unk>": 1, ">>fra<<": 2,
                                                       ">>ita<<": 3, "▁the": 4, "<pad>": 39}))
        model = self.convert(folder)
        self.assertEqual(model.config["languages"], {"fra": 2, "ita": 3})
        self.assertEqual(model.config["src_language"], "target")
        self.assertNotIn("tgt_language", model.config)
        model = self.convert(folder, "--set=src_start=>>ita<<")
        self.assertEqual((self.done.stderr, model.config["src_start"]), ("", 3))
        self.assertTrue({"languages", "src_language"}.isdisjoint(model.config))
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.assertEqual(self.cut(model, "the thing"), tokenizer(">>ita<<the thing").input_ids)

    @needs_ctranslate2
    def test_beside_ctranslate2(self):
        folder = self.folder / "ct2"
        folder.mkdir()
        (folder / "model.bin").write_bytes(ct2_bytes(ct2_random(vt=23)))
        tokens = ["<unk>", "<s>", "</s>", ".", ",", "▁the"] + [f"x{i}" for i in range(17)]
        (folder / "shared_vocabulary.json").write_text(json.dumps(tokens))
        shutil.copyfile(REAL / "sentencepiece" / "opennmt_sp.model",
                        folder / "sentencepiece.bpe.model")
        model = self.convert(folder)
        self.assertEqual(model.config["tgt_text"], "sentencepiece")
        self.assertEqual(self.cut(model, ",."), [4, 3])

    def test_two_vocabularies(self):
        names = [(f"opus-mt-en-mg/{name}", name) for name in ("source.spm", "target.spm",
                                                              "vocab.json")]
        folder = self.directory("marian", 54688, *names)
        vocabulary = json.loads((folder / "vocab.json").read_text())
        (folder / "target_vocab.json").write_text(json.dumps(
            {token: 54687 - at for token, at in vocabulary.items()}))
        model = self.convert(folder)
        lines = raw(model.t["tgt_vocabulary"]).decode().split("\n")
        self.assertEqual((lines[0], lines[54687]), ("<pad>", "</s>"))

    def test_fairseq_ids(self):
        """NLLB and mBART with their SentencePiece model alone: piece k is id k + 1."""
        source = "sentencepiece/opennmt_sp.model", "sentencepiece.bpe.model"
        pieces = self.processor(model_file=str(REAL / source[0]))
        languages = ["ar_AR", "cs_CZ", "en_XX"]
        folder = self.directory("mbart", 8006, source, tokenizer_class="MBart50Tokenizer",
                                additional_special_tokens=languages)
        model = self.convert(folder, "--set=src_start=en_XX", "--set=forced=cs_CZ")
        self.assertEqual(self.done.stderr, "")
        lines = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual(lines[:5], ["<s>", "<pad>", "</s>", "<unk>", pieces.id_to_piece(3)])
        self.assertEqual(lines[8000:8005], [pieces.id_to_piece(7999), *languages, "<mask>"])
        self.assertEqual((model.config["src_start"], model.config["forced"]), (8003, 8002))
        self.check_texts(model, lambda text: [8003, *(
            3 if at == 0 else at + 1 for at in pieces.encode(text)), 2])
        config = self.convert(folder).config
        expected = {"languages": {"ar_AR": 8001, "cs_CZ": 8002, "en_XX": 8003},
                    "src_language": "source", "tgt_language": "forced", "src_end": 2}
        self.assertEqual({key: config[key] for key in expected}, expected)
        self.assertTrue({"src_start", "forced"}.isdisjoint(config))
        config = self.convert(folder, "--set=forced=cs_CZ").config
        self.assertEqual((config["src_language"], config["forced"]), ("source", 8002))
        self.assertNotIn("tgt_language", config)
        folder = self.directory("mbart", 8005, source, tokenizer_class="MBartTokenizer",
                                additional_special_tokens=languages, src_lang="cs_CZ")
        self.convert(folder)
        self.assertIn("</s> cs_CZ after its text", self.done.stderr)

    def test_m2m_100(self):
        source = "sentencepiece/opennmt_sp.model", "sentencepiece.bpe.model"
        pieces = self.processor(model_file=str(REAL / source[0]))
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>"] + [pieces.id_to_piece(at)
                                                         for at in range(3, 7000)]
        folder = self.directory("m2m_100", 7110, source)
        (folder / "vocab.json").write_text(json.dumps({one: at for at, one
                                                       in enumerate(vocabulary)}))
        languages = [f"__{one}__" for one in ("af", "am", "en")]
        (folder / "special_tokens_map.json").write_text(json.dumps(
            {"additional_special_tokens": languages}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"src_lang": "am"}))
        config = self.convert(folder).config
        self.assertEqual(config["languages"], {"af": 7001, "am": 7002, "en": 7003})
        model = self.convert(folder, "--set=forced=__en__", "--set=src_start=__am__")
        self.assertEqual((model.config["src_start"], model.config["forced"]), (7002, 7003))
        tokenizer = transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="am")
        self.check_texts(model, lambda text: tokenizer(text).input_ids)

    def test_pegasus(self):
        source = "sentencepiece/opennmt_sp.model", "spiece.model"
        pieces = self.processor(model_file=str(REAL / source[0]))
        model = self.convert(self.directory("pegasus", 8104, source))
        lines = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual(lines[:5], ["<pad>", "</s>", "<mask_1>", "<mask_2>", "<unk_2>"])
        self.assertEqual((lines[104], lines[106]), ("<unk_102>", pieces.id_to_piece(3)))
        self.assertEqual(model.config["src_end"], 1)

    def save_tokenizer(self, folder, data, merges=None, charsmap=True, added=()):
        """A tokenizer.json with the pieces of a SentencePiece model, by the package tokenizers."""
        from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
        files = convert.checkpoints_huggingface.tokenizer_files
        scored, table = [], b""
        for field, value in files.fields(data, "data"):
            if field == 1:
                piece = dict(files.fields(value, "data"))
                scored.append((piece[1].decode(), struct.unpack("<f", piece[2])[0]))
            elif field == 3:
                table = dict(files.fields(value, "data")).get(2, b"")
        if merges is None:
            unk = [piece for piece, _ in scored].index("<unk>")
            tokenizer = Tokenizer(models.Unigram(scored, unk, False))
        else:
            tokenizer = Tokenizer(models.BPE({piece: at for at, (piece, _) in enumerate(scored)},
                                             merges, unk_token="<unk>", fuse_unk=True))
        steps = [normalizers.Precompiled(table)] if charsmap else []
        tokenizer.normalizer = normalizers.Sequence(
            steps + [normalizers.Strip(), normalizers.Replace(self.tokenizers.Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        tokenizer.add_special_tokens([AddedToken(one, special=True)
                                      for one in ("<unk>", "</s>", *added)])
        tokenizer.save(str(folder / "tokenizer.json"))
        return tokenizer

    def test_tokenizer_json_unigram(self):
        folder = self.directory("marian", 32010)
        data = (REAL / "sentencepiece" / "bergamot_vocab.deen.spm").read_bytes()
        tokenizer = self.save_tokenizer(folder, data, added=["<mask>"])
        model = self.convert(folder)
        self.assertEqual({name for name in model.t if "_" in name and "." not in name},
                         {"src_sentencepiece"})
        self.check_texts(model, lambda text: tokenizer.encode(text).ids + [0])
        processor = self.processor(model_proto=raw(model.t["src_sentencepiece"]))
        self.assertTrue(processor.is_control(32000))
        self.assertEqual((processor.id_to_piece(32000), processor.unk_id()), ("<mask>", 1))

    def test_tokenizer_json_bpe(self):
        folder = self.directory("marian", 32010)
        data = (REAL / "sentencepiece" / "bergamot_vocab.csen.spm").read_bytes()
        pieces = convert.checkpoints_huggingface.tokenizer_files.read_pieces(data, "data")
        known = {piece: at for at, piece in enumerate(pieces) if at > 1}
        merges = [(piece[:at], piece[at:]) for piece in known for at in range(1, len(piece))
                  if piece[:at] in known and piece[at:] in known]
        tokenizer = self.save_tokenizer(folder, data, merges)
        model = self.convert(folder)
        self.check_texts(model, lambda text: tokenizer.encode(text).ids + [0])
        self.save_tokenizer(folder, data, merges[:-1000:2])
        self.convert(folder)
        self.assertIn("BPE merges without", self.done.stderr)
        self.assertEqual(self.convert(folder).config["src_text"], "words")

    def test_tokenizer_json_of_other_kinds(self):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        folder = self.directory("bart", 40)
        tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
        tokenizer.save(str(folder / "tokenizer.json"))
        model = self.convert(folder)
        self.assertIn("the pre-tokenizer ByteLevel", self.done.stderr)
        self.assertEqual(model.config["src_text"], "words")
        self.assertTrue(raw(model.t["src_vocabulary"]).startswith(b"a\nb\nab\n<id 3>\n"))
        self.out.unlink()
        (folder / "tokenizer.json").write_text('{"model": {"vocab": 3}}')
        self.assertIn("not what transformers and tokenizers write", self.refuse(folder))

    def test_broken_files(self):
        source = "sentencepiece/opennmt_sp.model", "spiece.model"
        folder = self.directory("pegasus", 8104, source)
        whole = (folder / "spiece.model").read_bytes()
        for broken in (b"", b"\n", whole[:1000], b"\x0f" + whole):
            (folder / "spiece.model").write_bytes(broken)
            self.assertIn("not a SentencePiece model", self.refuse(folder))


class G2P(ConvertTest):
    """A trained BART, English spelling to sounds, and what PyTorch made of 200 words."""

    @classmethod
    def setUpClass(cls):
        if not (REAL / "g2p-us").is_dir():
            raise unittest.SkipTest(f"no model at {REAL / 'g2p-us'}")
        if not TRANSLATE.exists() or not FORWARD.exists():
            raise unittest.SkipTest(f"no {TRANSLATE} or {FORWARD}: make them first")

    def setUp(self):
        super().setUp()
        self.t = self.convert(REAL / "g2p-us").t

    def test_numbers(self):
        with safe_open(REAL / "g2p-us" / "golden.safetensors", framework="pt") as file:
            golden = {name: file.get_tensor(name) for name in file.keys()}
        save_file({name: golden[name].int() for name in ("src", "tgt", "src_lengths",
                                                         "tgt_lengths")}, self.folder / "in")
        subprocess.run([FORWARD, self.out, self.folder / "in", self.folder / "result"], check=True)
        with safe_open(self.folder / "result", framework="pt") as file:
            for name, lengths in (("memory", golden["src_lengths"]),
                                  ("logits", golden["tgt_lengths"])):
                inside = torch.arange(golden[name].shape[1]) < lengths[:, None]
                self.check_near(name, file.get_tensor(name)[inside], golden[name][inside], 1e-4)

    def test_words(self):
        text = (REAL / "g2p-us" / "golden.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        source, target = (raw(self.t[f"{side}_vocabulary"]).decode().split("\n")
                          for side in ("src", "tgt"))
        lines = "".join(" ".join(source[i] for i in row["src"][1:-1]) + "\n" for row in rows)
        run = {"capture_output": True, "text": True, "encoding": "utf-8"}
        done = subprocess.run([TRANSLATE, self.out, "--tokens", "--scores"], input=lines, **run)
        self.assertEqual(done.stderr, "")
        worst = 0
        for row, line in zip(rows, done.stdout.splitlines(), strict=True):
            score, tokens = line.split("\t")
            ids = [1, *(target.index(token) for token in tokens.split(" ")), 2]
            self.assertEqual(ids, row["tgt"])
            worst = max(worst, abs(float(score) - row["log_prob"]))
        print(f"test_words: {len(rows)} words equal, log-probabilities differ by {worst:.2g}")
        self.assertLess(worst, 1e-3)
        words = "".join(row["word"] + "\n" for row in rows)
        done = subprocess.run([TRANSLATE, self.out], input=words, **run)
        self.assertEqual([line.removeprefix("<s>") for line in done.stdout.splitlines()],
                         [row["phonemes"] for row in rows])


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # PyTorch's, on nested tensors
