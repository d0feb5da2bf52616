#!/usr/bin/env python3
"""Tests of tools/convert.py that need PyTorch: python tests/tools/test_convert_torch.py, after make

The tests build every layout of a PyTorch checkpoint, of Hugging Face's directories and of OpenNMT-py's, with
random weights, convert them through the command line and read them back with the safetensors package.
file_model.py computes a model from its file alone and must give the numbers of PyTorch. Needs what
tools/requirements.txt lists. A test that needs files outside this checkout is skipped with a message where
they are missing.
"""

import argparse
import collections
import importlib.util
import io
import json
import math
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest
import zipfile
from pathlib import Path
from random import Random
from unittest import mock

import ctranslate2
import numpy as np
import torch
import torch.nn as nn
from safetensors import safe_open
from safetensors.torch import save_file

import test_convert
from file_model import Model, log_softmax
from convert import checkpoints_huggingface, pickles, refusals
from test_convert import BF16, FORWARD, REAL, ROOT, SHARED, TRANSLATE, convert
from test_hostile_python import HostileCase

REFERENCE, GOLDEN = SHARED / "reference", SHARED / "golden"

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
try:
    import families
    import transformers
except ImportError:
    families = None
needs_transformers = unittest.skipUnless(families, "the package transformers is not installed")

torch.manual_seed(7)
torch.set_num_threads(1)


def setUpModule():  # what unittest calls before the first test of this module; the tests of others need gradients
    torch.set_grad_enabled(False)
    unittest.addModuleCleanup(torch.set_grad_enabled, True)


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
    return np.asarray(tensor).tobytes()


def sentences(vs=31, vt=37, pad=1):
    """Returns ids with pads at the end of the second row of each side."""
    src, tgt = torch.randint(4, vs, (3, 9)), torch.randint(4, vt, (3, 11))
    src[1, 6:], tgt[1, 4:] = pad, pad
    return src, tgt


# The ids and vocabularies of a model whose program makes the ids.
NO_TEXT = ["--src-vocab=none", *(f"--set={key}=none" for key in ("src_start", "src_end", "src_pad", "tgt_pad", "start", "end"))]
STATED = ["--heads=4", "--set=norm=post", "--set=activation=relu", "--set=embedding_scale=1", *NO_TEXT]
SET = [*STATED, *(f"--set={one}" for one in ("embedding_scale=sqrt_d", "src_pad=1", "tgt_pad=1",
                                             "start=2", "end=3"))]


class TorchModel(Model):
    """Returns the tensors as the safetensors package reads them."""

    def __init__(self, path):
        super().__init__(path)
        with safe_open(path, framework="pt") as file:
            self.t = {name: file.get_tensor(name) for name in file.keys()}
        self.t.setdefault("tgt_embedding.weight", self.t.get("src_embedding.weight"))
        self.t.setdefault("generator.weight", self.t["tgt_embedding.weight"])


class ConvertTest(test_convert.ConvertTest):
    def save(self, state):
        path = self.folder / "in.pt"
        torch.save(state, path)
        return path

    def load(self, path):
        return TorchModel(path)


class Layouts(ConvertTest):
    def test_transformer_in_wrappers(self):
        source = Translator()
        state = nn.DataParallel(Wrapper(source)).state_dict()
        model = self.convert({"epoch": 3, "state_dict": state}, *SET)
        for name, tensor in source.transformer.state_dict().items():
            self.assertTrue(torch.equal(model.t[name], tensor), name)
        self.assertTrue(torch.equal(model.t["src_embedding.weight"],
                                    source.src_tok_emb.embedding.weight))
        self.assertEqual(len(model.t), len(source.transformer.state_dict()) + 4)
        self.assertEqual(model.config, {
            "n_heads": 4, "norm": "post", "layer_norm": "layer_norm", "activation": "relu",
            "positions": "sinusoidal", "position_divisor": "d", "position_precision": "float",
            "embedding_scale": "sqrt_d", "src_pad": 1, "tgt_pad": 1, "start": 2, "end": 3})
        self.assertEqual(self.done.stderr, "")
        src, tgt = sentences()
        self.check_logits(model, source.eval()(src, tgt), src, tgt)

    def test_pre_norm_gelu(self):
        source = Translator(norm_first=True, activation="gelu")
        model = self.convert(source.state_dict(), *SET, "--set=norm=pre",
                             "--set=activation=gelu")
        self.assertEqual(self.done.stderr, "")
        src, tgt = sentences()
        self.check_logits(model, source.eval()(src, tgt), src, tgt)

    def test_learned_positions_and_embedding_norm(self):
        source = TwoTables()
        model = self.convert(source.state_dict(), *STATED, "--set=norm=pre",
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
        self.convert(source.state_dict(), *SET)
        with safe_open(self.out, framework="pt") as file:
            names = set(file.keys())
        self.assertIn("generator.bias", names)
        self.assertTrue(names.isdisjoint({"tgt_embedding.weight", "generator.weight"}))
        src, tgt = sentences(vs=37)
        self.check_logits(Model(self.out), source.eval()(src, tgt), src, tgt)

    def test_missing_generator_may_be_mapped_to_the_embedding(self):
        state = Translator().state_dict()
        del state["generator.weight"]
        reasons = self.refuse(state, *STATED)
        self.assertIn("generator.weight", reasons)
        hint = re.search(r"is the generator tied\? (.*)", reasons)[1]
        self.assertTrue(reasons.strip().endswith(hint))  # the command has it
        model = self.convert(state, *STATED, *hint.split())
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
        model = self.convert(state, *SET)
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
            config = self.convert(state, *SET).config
            self.assertEqual({key: config[key] for key in expected}, expected)
        wrong = self.run_convert(self.folder / "in.pt", *STATED,
                                 "--set=positions=sinusoidal_halves")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("positional_encoding.pe", wrong.stderr)

    def test_core(self):
        core = nn.Transformer(24, 4, 1, 2, 40)
        reasons = self.refuse(core.state_dict(), *STATED)
        for name in ("src_embedding.weight", "tgt_embedding.weight", "generator.weight", "--core"):
            self.assertIn(name, reasons)
        done = self.run_convert(self.folder / "in.pt", *STATED, "--core")
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
            model = self.convert(state, *STATED, *([f"--dtype={option}"] if option else []))
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
        self.assertIn("--prefix", self.refuse(path, *STATED))
        model = self.convert(path, *STATED, "--set=positions=sinusoidal", "--prefix=ema.")
        self.assertTrue(torch.equal(model.t["generator.bias"], state["generator.bias"] + 1))

    def test_vocabularies(self):
        state = Translator(vs=5, vt=3).state_dict()
        source, target = self.folder / "source.txt", self.folder / "target.txt"
        source.write_bytes("<pad>\r\n學\t学\r\nx\r\ny\r\nz\r\n".encode())
        target.write_bytes("a\nb\nc".encode())
        model = self.convert(state, *STATED, f"--src-vocab={source}", f"--tgt-vocab={target}")
        self.assertEqual(raw(model.t["src_vocabulary"]).decode(), "<pad>\n學\t学\nx\ny\nz\n")
        self.assertEqual(raw(model.t["tgt_vocabulary"]).decode(), "a\nb\nc\n")
        self.out.unlink()
        self.assertIn("tgt_vocab_size is 3", self.refuse(state, *STATED,
                                                         f"--src-vocab={source}"))
        source.write_bytes(b"a\nb\nc\nd\na\n")
        self.assertIn("line 5", self.refuse(state, *STATED, f"--src-vocab={source}",
                                            f"--tgt-vocab={target}"))


class Errors(ConvertTest):
    def test_the_program(self):
        command = [sys.executable, str(ROOT / "tools" / "convert.py")]
        done = subprocess.run(command + ["--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("--dtype", done.stdout)
        done = subprocess.run(command + ["nothing.pt", str(self.out)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("convert.py: nothing.pt: No such file or directory; IN is a checkpoint, its folder", done.stderr)
        (self.folder / "model.pt").write_bytes(b"")
        done = subprocess.run(command + [self.folder / "modle.pt", self.out], capture_output=True, text=True)
        self.assertIn(f"did you mean {self.folder / 'model.pt'}?", done.stderr)
        for argument, says in (("--haeds=8", "did you mean --heads?"), ("--src-vocap=x", "did you mean --src-vocab?")):
            done = subprocess.run(command + ["in.pt", self.out, argument], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)
        self.assertIn("--set acitvation=relu: no such key; did you mean activation?",
                      self.refuse(Translator().state_dict(), "--set=acitvation=relu"))

    def test_unknown_names_are_listed(self):
        state = {**Translator().state_dict(), "criterion.margin": torch.zeros(2, 3),
                 "steps": torch.tensor(5)}
        reasons = self.refuse(state, *STATED)
        self.assertIn("criterion.margin [2, 3] float32", reasons)
        self.assertIn("--map criterion.margin=NEW or --drop criterion.margin", reasons)
        self.convert(state, *STATED, "--drop", "criterion.*")
        self.assertIn("steps [] int64", self.done.stdout)

    def test_map(self):
        state = Translator().state_dict()
        state["classes.weight"] = state.pop("generator.weight")
        state["classes.bias"] = state.pop("generator.bias")
        for name in [name for name in state if name.startswith("transformer.encoder.")]:
            state[name.replace("transformer.encoder", "reader")] = state.pop(name)
        self.assertIn("classes.weight [37, 24]", self.refuse(state, *STATED))
        model = self.convert(state, *STATED, "--map=classes.=generator.",
                             "--map", "reader.=encoder.")
        self.assertTrue(torch.equal(model.t["generator.weight"], state["classes.weight"]))

    def test_a_generator_is_suggested(self):
        state = Translator().state_dict()
        for leaf in ("weight", "bias"):
            state[f"to_vocab.{leaf}"] = state.pop(f"generator.{leaf}")
        said = re.search(r"is to_vocab.weight the generator\? (.*)", self.refuse(state, *STATED))
        model = self.convert(state, *STATED, *said[1].split())
        for leaf in ("weight", "bias"):
            self.assertTrue(torch.equal(model.t[f"generator.{leaf}"], state[f"to_vocab.{leaf}"]))

    def test_arguments_that_fit_nothing(self):
        state = Translator().state_dict()
        for arguments in (["--map", "nothing=generator.weight"], ["--drop", "nothing"],
                          ["--prefix", "nothing."], ["--map", "generator.weight"]):
            self.assertIn(arguments[0], self.refuse(state, *STATED, *arguments))

    def test_heads(self):
        state = Translator().state_dict()
        self.assertIn("--heads", self.refuse(state, *STATED[1:]))
        self.assertIn("n_heads 5", self.refuse(state, *STATED, "--heads=5"))
        self.assertIn("n_heads", self.refuse(state, *STATED, "--heads=0"))

    def test_nothing_is_guessed(self):
        """The converter must ask for everything that the weights cannot show, all at once, and for nothing
        else."""
        state = Translator().state_dict()
        del state["positional_encoding.pe"]
        questions = {"--heads N": "--heads=4", "norm": "--set=norm=post",
                     "activation": "--set=activation=relu", "positions": "--set=positions=sinusoidal",
                     "embedding_scale": "--set=embedding_scale=1", "src_end": "--set=src_end=3",
                     "src_pad": "--set=src_pad=none", "start": "--set=start=2", "end": "--set=end=3",
                     "tgt_pad": "--set=tgt_pad=1", "--src-vocab FILE": "--src-vocab=none"}
        given = ["--set=src_start=none"]
        for key in questions:
            reasons, _, command = self.refuse(state, *given, *(
                one for name, one in questions.items() if name != key)).partition("\nthe command again")
            self.assertIn(f"{key.split()[0]} ..." if key[0] == "-" else f"--set {key}=...", command)
            for other in questions:
                self.assertEqual(f"{other if other[0] == '-' else '--set ' + other + '='}" in reasons,
                                 other == key, reasons)
        self.assertEqual(self.refuse(state).count("  --set "), 10)
        self.convert(state, *questions.values())
        self.assertRegex(self.done.stderr, "src_start is not stated.*--set src_start=ID")
        questions["src_start"] = given[0]
        self.convert(state, *questions.values())
        self.assertEqual(self.done.stderr, "")

    def test_names_to_map_are_in_the_help(self):
        said = " ".join(convert.__doc__.split())
        for name in ("src_embedding.weight", "generator.weight", "tgt_positions.weight",
                     "in_proj_weight", "ATTN.out_proj.weight", "linear1.weight", "norm3"):
            self.assertIn(name, said)

    def test_settings(self):
        state = Translator().state_dict()
        for setting, reason in (("depth=3", "embedding_scale"), ("norm=middle", "post, pre"),
                                ("d_ff=41", "the shapes say 40"), ("tgt_pad=37", "tgt_vocab_size"),
                                ("suppressed=1,99", "suppressed 99"), ("start=-1", "an id or a token"),
                                ("layer_norm_eps=nan", "a number above 0")):
            self.assertIn(reason, self.refuse(state, *STATED, "--set", setting))

    def test_shapes_and_missing_layers(self):
        state = Translator().state_dict()
        state["transformer.decoder.layers.1.linear2.weight"] = torch.zeros(24, 41)
        self.assertIn("decoder.layers.1.linear2.weight", self.refuse(state, *STATED))
        state = Translator().state_dict()
        del state["transformer.decoder.layers.0.multihead_attn.out_proj.weight"]
        self.assertIn("decoder.layers.0.multihead_attn.out_proj.weight",
                      self.refuse(state, *STATED))
        state = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4), 1).state_dict()
        self.assertIn("decoder.layers.0.self_attn", self.refuse(state, *STATED))

    def test_two_generators(self):
        state = {**Translator().state_dict(), "fc_out.weight": torch.zeros(37, 24)}
        reasons = self.refuse(state, *STATED)
        self.assertIn("both generator.weight and fc_out.weight fit", reasons)

    def test_too_large_for_f16(self):
        state = Translator().state_dict()
        state["generator.bias"][3] = 1e6
        self.assertIn("generator.bias", self.refuse(state, *STATED, "--dtype=f16"))

    def test_pickles_with_code_are_refused(self):
        marker = self.folder / "marker"

        class Evil:
            def __reduce__(self):
                return (Path.touch, (marker,))

        reasons = self.refuse({"state_dict": {}, "callback": Evil()})
        self.assertIn("getattr'", reasons)
        self.assertIn("run code", reasons)
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


class OwnModule(nn.Module):
    """A module as somebody writes it: names of its own, positions as [1, n, D]."""

    def __init__(self, rows=11, d=16):
        super().__init__()
        self.words_in, self.words_out = nn.Embedding(rows, d, padding_idx=0), nn.Embedding(rows, d, padding_idx=0)
        self.register_buffer("table", PositionalEncoding(d, 40).pe.transpose(0, 1).clone())
        self.net = nn.Transformer(d, 4, 2, 2, 24, dropout=0.0, activation="gelu", norm_first=True, batch_first=True)
        self.to_digits = nn.Linear(d, rows)
        for p in self.parameters():
            p.copy_(torch.randn_like(p) * (0.7 if p.dim() > 1 else 0.5))
        for layer in self.net.decoder.layers:  # so that targets depend on sources and on the tokens around them
            layer.multihead_attn.out_proj.weight.mul_(9)
        self.words_in.weight[1:3].mul_(6)
        self.to_digits.bias.zero_()

    def embed(self, embedding, ids):
        return embedding(ids) * embedding.embedding_dim ** 0.5 + self.table[:, : ids.shape[1]]

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        y = self.net(self.embed(self.words_in, src), self.embed(self.words_out, tgt), tgt_mask=mask,
                     src_key_padding_mask=src == 0, memory_key_padding_mask=src == 0)
        return self.to_digits(y)

    def greedy(self, src, start, end, most):
        tgt = [start]
        while len(tgt) <= most and (len(tgt) == 1 or tgt[-1] != end):
            tgt.append(int(self.eval()(torch.tensor([src]), torch.tensor([tgt]))[0, -1].argmax()))
        return tgt[1:]


class OwnNames(ConvertTest):
    """Somebody's own module: the converter's messages alone must lead to a file with the module's translations."""

    WORDS = ["<pad>", "<s>", "</s>", *"abcdefgh"]
    MAPS = {"words_in.weight": "src_embedding.weight", "words_out.weight": "tgt_embedding.weight",
            "to_digits.weight": "generator.weight", "to_digits.bias": "generator.bias", "table": "src_positions.weight"}

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.module = OwnModule()
        self.vocabulary = self.folder / "words.txt"
        self.vocabulary.write_text("".join(f"{word}\n" for word in self.WORDS))
        self.answers = {"n_heads": 4, "norm": "pre", "activation": "gelu", "embedding_scale": "sqrt_d", "src_start": "none",
                        "src_end": 2, "src_pad": 0, "start": 1, "end": 2, "tgt_pad": 0, "positions": "sinusoidal"}

    def paste(self, said):
        """Returns the arguments of the command that a message ends with. Its blanks are filled in."""
        line = said.strip().split("\n")[-1]
        words = shlex.split(line)
        words = words[words.index(str(self.out)) + 1:]
        filled = []
        for before, word in zip([""] + words, words):
            if before == "--heads" and word == "...":
                word = str(self.answers["n_heads"])
            elif before == "--src-vocab" and word == "...":
                word = str(self.vocabulary)
            elif word.endswith("=..."):
                key = word.removesuffix("=...")
                word = f"{key}={self.MAPS[key] if before == '--map' else self.answers[key]}"
            filled.append(word)
        self.assertNotIn("...", " ".join(filled), said)
        return filled

    def follow(self, *arguments):
        """Converts with the command of each message, and returns how many commands it took."""
        source = self.save({"epoch": 3, "net": self.module.state_dict()})
        for tries in range(1, 5):
            done = self.run_convert(source, *arguments)
            if not done.returncode:
                self.done = done
                return tries
            arguments = self.paste(done.stderr)
        self.fail(done.stderr)

    def check_translations(self, before, after, *options):
        """before and after: the ids around each source. Returns how many of the translations are the module's."""
        random, lines, expected = Random(5), [], []
        for _ in range(12):
            ids = [random.randint(3, 10) for _ in range(random.randint(2, 6))]
            lines.append(" ".join(self.WORDS[i] for i in ids))
            out = self.module.greedy([*before, *ids, *after], 1, 2, 9)
            expected.append(" ".join(self.WORDS[i] for i in out if i > 2))
        done = subprocess.run([TRANSLATE, self.out, "--max-length", "9", *options], input="\n".join(lines) + "\n",
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sum(a == b for a, b in zip(done.stdout.split("\n"), expected))

    def test_messages_lead_to_the_right_translations(self):
        for start, end in ((None, 2), (1, 2), (None, None), (1, None)):
            with self.subTest(start=start, end=end):
                self.answers.update(src_start=start or "none", src_end=end or "none")
                self.assertEqual(self.follow(), 2)
                around = [start] * bool(start), [end] * bool(end)
                self.assertEqual(self.check_translations(*around), 12)
                self.assertLess(self.check_translations(around[0], [] if end else [2]), 12)  # what a wrong answer gives
                self.out.unlink()

    def test_ids_may_be_tokens_of_the_vocabulary(self):
        self.answers.update(src_end="</s>", src_pad="<pad>", start="<s>", end="</s>", tgt_pad="<pad>")
        self.follow()
        self.assertEqual(self.check_translations([], [2]), 12)

    def test_what_vocabulary_and_embeddings_show(self):
        self.module.words_in.weight[0], self.module.words_out.weight[0] = 0, 0
        maps = [f"--map={old}={new}" for old, new in self.MAPS.items() if old != "table"]
        said = self.refuse({"net": self.module.state_dict()}, *maps, f"--src-vocab={self.vocabulary}")
        self.assertIn("in the vocabulary of sources: <pad> is 0, <s> is 1, </s> is 2", said)
        self.assertIn("row 0 of words_in.weight is zero, as nn.Embedding's padding_idx=0 makes it", said)
        self.vocabulary.write_text("\n".join(["[PAD]", "[CLS]", "[SEP]", *"stuvwxyz"]))  # "s" is a word, as "go" may be
        said = self.refuse({"net": self.module.state_dict()}, *maps, f"--src-vocab={self.vocabulary}")
        self.assertIn("in the vocabulary of sources: [PAD] is 0, [CLS] is 1, [SEP] is 2\n", said)

    def test_what_a_blank_takes_is_said(self):
        """Tables that are learned, and tensors that need not be there, are in no list of what is missing."""
        del self.module.table
        self.module.table = nn.Parameter(torch.randn(1, 40, 16))
        said = self.refuse({"net": self.module.state_dict()})
        self.assertRegex(said, "--set positions=.* or learned, with --map TABLE=src_positions.weight")
        self.assertRegex(said, "NEW is src_embedding.weight, .*generator.bias.* --help lists")

    def test_an_embedding_is_not_taken_for_the_generator(self):
        """Nothing tells that words_out is not an output, before the target's embedding is known."""
        said = self.refuse({"net": self.module.state_dict()})
        for name in ("words_in", "words_out", "to_digits"):
            self.assertIn(f"{name}.weight [11, 16]", said)
        self.assertIn("--map words_out.weight=...", said)

    def test_positions_are_compared_in_every_form(self):
        """[1, n, D], [n, 1, D] and [n, D]; under a name that says nothing, and under the name of --map."""
        right = self.module.table.clone()
        for form in ((1, 40, 16), (40, 1, 16), (40, 16)):
            for name in ("table", "pe"):
                for stated in ([], ["--set", "positions=sinusoidal"]):
                    for mapped in ([], ["--map", f"{name}=src_positions.weight"]):
                        with self.subTest(form=form, name=name, stated=stated, mapped=mapped):
                            del self.module.table
                            self.module.embed = None
                            self.module.register_buffer("table", right.reshape(form))
                            state = {one if one != "table" else name: tensor for one, tensor in self.module.state_dict().items()}
                            self.convert({"net": state}, *self.plain(), *stated, *mapped)
                            self.assertIn(f"{name}: the sinusoidal formula gives it", self.done.stdout)
                            self.assertEqual(self.done.stderr, "")

    def plain(self, *without):
        answers = {**self.answers, "n_heads": 4}
        del answers["positions"]
        return [f"--set={key}={value}" for key, value in answers.items() if key not in without] + [
            "--src-vocab=none"] + [f"--map={old}={new}" for old, new in self.MAPS.items() if old != "table"]

    def test_a_table_that_no_formula_gives(self):
        """A wrong formula must be refused with the difference, and its command must convert. Without the table, there
        must be a warning."""
        table = self.module.table
        table[0, 7, 3] += 0.25
        state = {"net": self.module.state_dict()}
        for mapped in (["--map", "table=src_positions.weight"], ["--map", "table=tgt_positions.weight",
                                                                "--map", "table=src_positions.weight"]):
            said = self.refuse(state, *self.plain(), "--set", "positions=sinusoidal", *mapped)
            self.assertIn("positions=sinusoidal gives other numbers than the table table [40, 16] float32: row 7 differs by "
                          "0.25", said)
            model = self.convert(state, *self.paste(said))
            self.assertEqual((model.config["positions"], list(model.t["src_positions.weight"].shape)), ("learned", [40, 16]))
            self.out.unlink()
        for arguments in (["--set=positions=sinusoidal"], ["--set=positions=none"]):
            self.convert(state, *self.plain(), *arguments, "--drop=table")
            self.assertRegex(self.done.stderr, r"table \[1, 40, 16\] float32 is dropped, and positions=\w+"
                             r".*--map table=src_positions.weight")
        table[0, 7, 3] -= 0.25
        self.convert({"net": self.module.state_dict()}, *self.plain(), "--set=positions=sinusoidal", "--drop=table")
        self.assertEqual(self.done.stderr, "")
        said = self.refuse_again({"net": self.module.state_dict()}, *self.plain(), "--set=positions=sinusoidal_halves")
        self.assertIn("To keep its numbers: --set positions=sinusoidal.", said)
        self.assertEqual(self.convert({"net": self.module.state_dict()}, *self.paste(said)).config["positions"], "sinusoidal")

    def refuse_again(self, state, *arguments):
        self.out.unlink()
        return self.refuse(state, *arguments)

    def test_printed_commands_work(self):
        """Every command that a message prints converts, when its blanks are filled in: with settings missing, tensors
        without a place, tied tensors, and a table that the stated formula does not give."""
        self.module.table[0, 3, 3] += 0.5
        for given in ([], ["--heads=4"], ["--map", "table=src_positions.weight"],
                      ["--map=words_in.weight=src_embedding.weight"], ["--set=positions=sinusoidal_per_index"],
                      ["--set=positions=sinusoidal", "--map", "table=src_positions.weight"]):
            with self.subTest(given):
                self.answers["positions"] = "learned"
                self.assertLessEqual(self.follow(*given), 3)
                self.assertEqual(self.check_translations([], [2]), 12)
                self.out.unlink()
        del self.module.to_digits.weight  # tied to the target's embedding
        self.module.to_digits.register_buffer("weight", self.module.words_out.weight, persistent=False)
        self.assertLessEqual(self.follow("--map=words_in.weight=src_embedding.weight",
                                         "--map=words_out.weight=tgt_embedding.weight"), 3)
        self.assertEqual(self.check_translations([], [2]), 12)

    def test_printed_commands_keep_odd_names(self):
        """A shell must read back every name and path of the printed command: controls, quotes, "=" and a leading "-"."""
        for old in ("a\tb\x1b\x7f", "it's \\ $x `y`", "a=b.weight", "-x.weight", "--map", "\u202e\u00e9\u2028", "a b*[1]?", "", "n\0ul"):
            with self.subTest(old):
                maps = [f"--map={one}={new}" for one, new in self.MAPS.items() if new != "generator.weight"]
                state = {old if name == "to_digits.weight" else name: one for name, one in self.module.state_dict().items()}
                source = self.save({"net": {**state, "more\n\x01": torch.zeros(2)}})
                plain = [one for one in self.plain() if not one.startswith("--map")]
                self.vocabulary = self.vocabulary.rename(self.folder / "w\x02 '.txt")
                plain[plain.index("--src-vocab=none")] = f"--src-vocab={self.vocabulary}"
                done = self.run_convert(source, *plain, *maps)
                line = done.stderr.strip().split("\n")[-1]
                self.assertTrue(line.isprintable() and done.stderr.replace("\n", "").isprintable(), done.stderr)
                read = subprocess.run(["bash", "-c", "printf '%s\\0' " + line.strip()], stdout=subprocess.PIPE, check=True)
                words = [os.fsdecode(one) for one in read.stdout.split(b"\0")[:-1]]
                words = words[words.index(str(self.out)) + 1:]
                self.assertEqual(words[1:1 + len(plain)], plain)  # behind --no-check
                if old and "\0" not in old:
                    self.assertIn(f"{old}=...", [word.removeprefix("--map=") for word in words])
                    filled = [word.replace(f"{old}=...", f"{old}=generator.weight").replace("more\n\x01=...", "more\n\x01=generator.x")
                              for word in words]
                    at = filled.index("more\n\x01=generator.x")
                    filled[at - 1:at + 1] = ["--drop", "more*"]
                    self.assertEqual(self.run_convert(source, *filled).returncode, 0)
                    self.out.unlink()

    def test_check_finds_small_faults_of_large_logits(self):
        """The bound must follow the model's own rounding, without another engine: a right model of large logits passes,
        one with a fault of 2 % in one weight does not."""
        if not FORWARD.exists():
            self.skipTest(f"no {FORWARD}: make it first")
        found = 0
        for seed in range(8):
            torch.manual_seed(seed)
            self.module = OwnModule()
            self.module.to_digits.weight.mul_((1, 30, 1000)[seed % 3])
            given = self.given()
            self.convert({"net": self.module.state_dict()}, *self.plain(), given)
            self.out.unlink()
            name = ("encoder.layers.0.norm1.weight", "decoder.layers.1.norm3.weight")[seed % 2]
            tensor = self.module.state_dict()[f"net.{name}"].view(-1)
            tensor[int(tensor.abs().argmax())] *= 1.02
            found += self.run_convert(self.save({"net": self.module.state_dict()}), *self.plain(), given).returncode
            self.out.unlink(missing_ok=True)
        self.assertEqual(found, 8)

    def given(self, name="given.npz", **changes):
        """Writes a file for --check of the module's own logits."""
        src = torch.tensor([[3, 4, 5, 2], [6, 7, 2, 0], [8, 2, 0, 0]])
        tgt = torch.tensor([[1, 5, 4, 3], [1, 7, 6, 2], [1, 8, 2, 0]])
        arrays = {"src": src.numpy(), "tgt": tgt.numpy(), "logits": self.module.eval()(src, tgt).numpy(), **changes}
        path = self.folder / name
        arrays = {key: one for key, one in arrays.items() if one is not None}
        if path.suffix == ".npz":
            np.savez(path, **arrays)
        else:
            test_convert.write_safetensors(path, arrays)
        return f"--check={path}"

    def test_check_of_given_logits(self):
        if not FORWARD.exists():
            self.skipTest(f"no {FORWARD}: make it first")
        state = {"net": self.module.state_dict()}
        for name in ("given.npz", "given.safetensors"):
            for form in ([], ["--dtype=bf16"]):
                self.convert(state, *self.plain(), self.given(name), *form)
                self.assertRegex(self.done.stdout, f"check: .*{name}: logits of 3 rows differ by at most")
                self.out.unlink()
        logits = np.load(self.folder / "given.npz")["logits"]
        logits[1, 3, 4] += 0.01
        for wrong, given in ((["--set=activation=relu"], self.given()), (["--set=src_pad=none"], self.given()),
                             ([], self.given(logits=logits))):
            said = self.refuse(state, *self.plain(), given, *wrong)
            self.assertIn("more than rounding makes", said)
        self.assertIn("row 1, position 3, token 4", said)
        self.convert(state, *self.plain(), given, "--force")
        self.assertIn("warning: the check failed", self.done.stderr)
        self.out.unlink()
        logits[1, 3, 4] -= 0.01
        logits[2, 3] = 99  # of a pad: a module may give what it likes
        self.convert(state, *self.plain(), self.given(logits=logits))
        self.out.unlink()
        lengths = np.array([4, 3, 2])
        self.convert(state, *self.plain(), self.given(src_lengths=lengths), "--set=src_pad=none")

    def test_files_for_check_that_do_not_fit(self):
        src, logits = np.full((3, 4), 3), np.zeros((3, 4, 11), "f4")
        bad, far = logits.copy(), src.copy()
        bad[1, 2, 3], far[2, 1] = np.nan, 11
        for changes, says in (
                ({"src": None}, "src is missing"), ({"logits": None}, "logits is missing"),
                ({"sorce": src}, "'sorce' is none of src, tgt, logits"), ({"logit": logits}, "did you mean logits?"),
                ({"src": src[0]}, "src is [4] int64; it must be [B, length]"),
                ({"src": src.astype("f4")}, "src is [3, 4] float32; it must be of integers"),
                ({"logits": logits[0]}, "logits is [4, 11] float32; it must be [B, T, V]"),
                ({"logits": logits.astype("f2")}, "it must be float32 or float64"),
                ({"logits": logits[:2]}, "logits has 2 rows, and src has 3"),
                ({"logits": logits[:, :3]}, "logits has 3 positions, and tgt has 4"),
                ({"logits": logits[:, :, :9]}, "logits are of 9 tokens; tgt_vocab_size is 11"),
                ({"logits": bad}, "logits[1, 2, 3] is nan"), ({"src": far}, "src[2, 1] is 11; ids are from 0 to 10"),
                ({"tgt": -far}, "tgt[0, 0] is -3; ids are from 0 to 10"), ({"tgt": src[:, :0]}, "not empty"),
                ({"src_lengths": np.array([4, 5, 0])}, "src_lengths[1] is 5; it must be from 1 to 4")):
            with self.subTest(says):
                said = self.refuse({"net": self.module.state_dict()}, *self.plain(), self.given(**changes))
                self.assertIn(says, said)
                self.assertIn("given.npz", said)
        plain = {"net": self.module.state_dict()}, *self.plain()
        self.assertIn("nothing.npz: No such file", self.refuse(*plain, "--check=nothing.npz"))
        (self.folder / "x.npz").write_bytes(b"PK\3\4 cut")
        self.assertIn("x.npz: not an .npz", self.refuse(*plain, f"--check={self.folder / 'x.npz'}"))
        (self.folder / "x.pt").write_bytes(b"anything at all")
        self.assertIn("the file is .npz (numpy.savez) or .safetensors", self.refuse(*plain, f"--check={self.folder / 'x.pt'}"))

    def test_wrappers_are_left_out(self):
        """DataParallel and torch.compile put words before names; so do FSDP and averaged models."""
        state = self.module.state_dict()
        for rename in (lambda name: f"module.{name}", lambda name: f"_orig_mod.{name}", lambda name: f"module._orig_mod.{name}",
                       lambda name: name.replace("net.", "net._orig_mod."),
                       lambda name: f"_fsdp_wrapped_module.{name}".replace("layers.0", "layers.0._fsdp_wrapped_module")):
            with self.subTest(rename("net.x")):
                wrapped = {rename(name): tensor for name, tensor in state.items()}
                self.convert({"net": {**wrapped, "n_averaged": torch.tensor(5)}}, *self.plain())
                self.assertIn("wrappers of the module", self.done.stdout)
                self.assertEqual(self.done.stderr, "")

    def test_quantized_weights_of_somebody_are_named(self):
        state = self.module.state_dict()
        state["net.encoder.layers.0.linear1.weight"] = torch.zeros(24, 16, dtype=torch.int8)
        self.assertIn("net.encoder.layers.0.linear1.weight [24, 16] int8: weights that another program quantized",
                      self.refuse({"net": state}, *self.plain()))


class OtherFamilies(ConvertTest):
    """The two families with modules of their own, built from the reference models."""

    @classmethod
    def setUpClass(cls):
        if not REFERENCE.is_dir() or not GOLDEN.is_dir():
            raise unittest.SkipTest(f"no reference models at {REFERENCE} and {GOLDEN}")
        # by its path: tests/tools has a module of that name, too
        spec = importlib.util.spec_from_file_location("reference_seeds", REFERENCE / "seeds.py")
        cls.seeds = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.seeds)

    def test_encoder_layers(self):
        source = self.seeds.Seed0Transformer(31, 24, 4, 2, 3, 40)
        model = self.convert(source.state_dict(), *STATED, "--set=src_pad=1",
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
        model = self.convert(source.state_dict(), "--heads=3", *NO_TEXT, "--set=src_pad=1",
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
                "n_decoder_layers": 2, "layer_norm": "layer_norm",
                "activation": name.split("_")[0], "norm": name.split("_")[1]})
            source_pads = case["input.src_key_padding_mask"][:, None, None]
            target_pads = case["input.tgt_key_padding_mask"][:, None, None]
            memory = core.stack("encoder", case["input.src"].transpose(0, 1), source_pads)
            y = core.stack("decoder", case["input.tgt"].transpose(0, 1),
                           case["input.tgt_mask"] | target_pads, memory,
                           case["input.memory_mask"] | source_pads)
            with self.subTest(name):
                self.check_near("outputs", y, case["expect.output"].transpose(0, 1))


class TrevettAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, memory, mask):
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for f, y in ((self.fc_q, x), (self.fc_k, memory), (self.fc_v, memory)))
        weights = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return self.fc_o((weights.masked_fill(~mask, -1e10).softmax(-1) @ v)
                         .transpose(1, 2).flatten(2))


class TrevettForward(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.fc_1, self.fc_2 = nn.Linear(d, f), nn.Linear(f, d)

    def forward(self, x):
        return self.fc_2(self.fc_1(x).relu())


class TrevettLayer(nn.Module):
    def __init__(self, d, heads, f, decodes):
        super().__init__()
        self.self_attn_layer_norm, self.ff_layer_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.self_attention = TrevettAttention(d, heads)
        self.positionwise_feedforward = TrevettForward(d, f)
        if decodes:
            self.enc_attn_layer_norm = nn.LayerNorm(d)
            self.encoder_attention = TrevettAttention(d, heads)

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.self_attn_layer_norm(x + self.self_attention(x, x, mask))
        if memory is not None:
            x = self.enc_attn_layer_norm(x + self.encoder_attention(x, memory, memory_mask))
        return self.ff_layer_norm(x + self.positionwise_feedforward(x))


class TrevettStack(nn.Module):
    def __init__(self, vocab, d, layers, heads, f, positions, decodes):
        super().__init__()
        self.tok_embedding, self.pos_embedding = nn.Embedding(vocab, d), nn.Embedding(positions, d)
        self.layers = nn.ModuleList(TrevettLayer(d, heads, f, decodes) for _ in range(layers))
        if decodes:
            self.fc_out = nn.Linear(d, vocab)

    def forward(self, ids, mask, *memory):
        x = self.tok_embedding(ids) * self.tok_embedding.embedding_dim ** 0.5
        x = x + self.pos_embedding.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, mask, *memory)
        return self.fc_out(x) if memory else x


class Trevett(nn.Module):
    """The network of Ben Trevett's tutorial, by its formulas and names."""

    def __init__(self, vs, vt, d=24, layers=2, heads=3, f=40, positions=50, pad=1):
        super().__init__()
        self.encoder = TrevettStack(vs, d, layers, heads, f, positions, False)
        self.decoder = TrevettStack(vt, d, layers, heads, f, positions, True)
        self.pad = pad

    def forward(self, src, tgt):
        pads = (src != self.pad)[:, None, None]
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
        memory = self.encoder(src, pads)
        return self.decoder(tgt, causal & (tgt != self.pad)[:, None, None], memory, pads)


class Tutorial(ConvertTest):
    IDS = ("--set=src_pad=1", "--set=tgt_pad=1", "--set=start=2", "--set=end=3")
    NO_TEXT = ("--set=src_start=none", "--set=src_end=none", "--src-vocab=none")

    def test_random_weights(self):
        source = Trevett(31, 37)
        for one in source.parameters():
            one.copy_(torch.randn_like(one) * (0.3 if one.dim() > 1 else 0.5))
        model = self.convert(source.state_dict(), "--heads=3", *self.IDS, *self.NO_TEXT)
        self.assertEqual(self.done.stderr, "")
        expected = {"norm": "post", "activation": "relu", "positions": "learned",
                    "embedding_scale": "sqrt_d"}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        src, tgt = sentences()
        self.check_logits(model, source(src, tgt), src, tgt)
        self.out.unlink()
        self.assertIn("--heads N", self.refuse(source.state_dict(), *self.IDS))

    def test_a_trained_one(self):
        """Tests annalog's checkpoint, which pip downloads: 200 greedy answers, token for token."""
        if not TRANSLATE.exists():
            self.skipTest(f"no {TRANSLATE}: make it first")
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                               "annalog==1.0.6", "-d", str(self.folder)], capture_output=True,
                              text=True)
        if done.returncode:
            self.skipTest(f"pip download annalog==1.0.6: {done.stderr.strip()[-200:]}")
        with zipfile.ZipFile(next(self.folder.glob("annalog*.whl"))) as wheel:
            folder = "annalog/ckpt_and_vocab"
            state = torch.load(io.BytesIO(wheel.read(f"{folder}/Lev_extended.pt")),
                               map_location="cpu", weights_only=True)
            tokens = Plain(io.BytesIO(wheel.read(
                f"{folder}/stereo_experiment_vocab_ttf.pkl"))).load()["itos"]
        vocabulary = self.folder / "tokens.txt"
        vocabulary.write_text("".join(f"{one}\n" for one in tokens))
        self.convert(state, "--heads=8", *self.IDS, "--set=src_start=2", "--set=src_end=3",
                     f"--src-vocab={vocabulary}")
        source = Trevett(59, 59, 256, 3, 8, 512, 102).eval()
        source.load_state_dict(state)
        texts = sorted(set(map(self.molecule, range(220))))[:200]
        self.assertEqual(len(texts), 200)
        done = subprocess.run([TRANSLATE, str(self.out), "--tokens", "--max-length", "100"],
                              input="".join(f"{one}\n" for one in texts), capture_output=True,
                              text=True)
        self.assertEqual(done.stderr, "")
        expected = self.greedy(source, [[2, *map(tokens.index, one.split()), 3] for one in texts])
        found = [[tokens.index(one) for one in line.split()] for line in done.stdout.splitlines()]
        equal, changed = sum(a == b for a, b in zip(found, expected)), len(set(map(tuple, expected)))
        print(f"annalog: {equal} of {len(texts)} greedy answers equal, {changed} different ones")
        self.assertEqual(found, expected)
        self.assertGreater(changed, 150)

    def molecule(self, seed):
        """Returns SMILES of chains, rings and branches, as tokens with spaces between them."""
        random = np.random.default_rng(seed)
        parts = ("C", "C", "C C", "N", "O C", "C ( = O ) N", "C ( C )", "c 1 c c c c c 1", "C ( F )",
                 "c 1 c c ( Cl ) c c c 1", "S", "C 1 C C C C C 1", "c 1 c c n c c 1", "C ( O )")
        ends = ("C", "O", "N", "F", "c 1 c c c c c 1", "Br", "C # N", "C ( = O ) O")
        middle = " ".join(str(random.choice(parts)) for _ in range(random.integers(3, 8)))
        return f"{random.choice(ends[:3])} {middle} {random.choice(ends)}"

    def greedy(self, source, rows, most=100):
        """Returns the ids before the end token; sources of one length are computed together."""
        found = [[]] * len(rows)
        for length in set(map(len, rows)):
            at = [i for i, row in enumerate(rows) if len(row) == length]
            src = torch.tensor([rows[i] for i in at])
            pads = (src != 1)[:, None, None]
            memory, tgt = source.encoder(src, pads), torch.full((len(at), 1), 2)
            while tgt.shape[1] <= most and not (tgt == 3).any(1).all():
                causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
                logits = source.decoder(tgt, causal[None, None], memory, pads)[:, -1]
                tgt = torch.cat([tgt, logits.argmax(-1, keepdim=True)], 1)
            for i, row in zip(at, tgt.tolist()):
                found[i] = row[1:row.index(3)] if 3 in row else row[1:]
        return found


class Plain(pickle.Unpickler):
    """Returns a pickle of lists, dictionaries and texts, without anything that could run."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


class BFloat16OfCTranslate2(test_convert.CTranslate2Case):
    def test_the_package_writes_what_is_read(self):
        self.check_package(["bfloat16"])  # The converter asks for PyTorch for this file.


# ------------------------------------------------------------------------------ Hugging Face
@needs_transformers
class HuggingFace(ConvertTest):
    """Tests the forms that a directory may have; test_peers.py compares the numbers."""

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
            "marian": {"sentences": "split", "norm": "post", "positions": "sinusoidal_halves", "activation": "swish",
                       "start": 39, "end": 0, "src_end": 0, "src_pad": 39, "suppressed": [39],
                       "embedding_scale": "sqrt_d", "position_divisor": None, "tgt_pad": None},
            "bart": {"sentences": "whole", "norm": "post", "positions": "learned", "position_offset": 2, "forced": 0,
                     "start": 2, "end": 2, "src_start": 0, "src_end": 2, "src_pad": 1,
                     "tgt_pad": 1, "embedding_scale": 1},
            "mbart": {"sentences": "split", "norm": "pre", "positions": "learned", "position_offset": 2, "forced": 30},
            "m2m_100": {"sentences": "split", "norm": "pre", "positions": "sinusoidal_halves", "position_offset": 2,
                        "position_divisor": "d/2-1", "pad_position": "zero", "forced": 31},
            "pegasus": {"sentences": "whole", "norm": "pre", "positions": "sinusoidal_halves", "start": 0, "end": 1},
            "fsmt": {"sentences": "split", "norm": "post", "positions": "sinusoidal_halves", "position_offset": 2,
                     "position_divisor": "d/2-1", "pad_position": "zero", "start": 2, "end": 2,
                     "embedding_scale": "sqrt_d"},
            "plbart": {"sentences": "whole", "norm": "post", "position_offset": 2, "embedding_scale": "sqrt_d"},
            "mvp": {"sentences": "whole", "norm": "post", "position_offset": 2, "forced": 0, "src_start": 0},
            "led": {"sentences": "whole", "norm": "post", "position_offset": 0, "start": 2, "embedding_scale": 1},
            "blenderbot": {"sentences": "whole", "norm": "pre", "position_offset": 0, "start": 1, "src_pad": 0},
            "blenderbot-small": {"sentences": "whole", "norm": "post", "position_offset": 0, "start": 1, "src_pad": 0},
        }.items():
            with self.subTest(family):
                model = self.convert(self.directory(family))
                self.assertEqual({key: model.config.get(key) for key in expected}, expected)
                self.logits(model)

    def test_window(self):
        """For sources of at most half a window LED computes what BART does. The position table must allow no
        longer ones."""
        folder = self.directory("led", attention_window=[32, 16], max_encoder_position_embeddings=80)
        model = self.convert(folder)
        self.assertEqual(list(model.t["src_positions.weight"].shape), [9, 24])
        self.assertIn("9 of 80 positions", self.done.stdout)
        self.assertIn("12 tensors of global attention", self.done.stdout)
        self.logits(model)

    def test_weights_alone(self):
        """A family's .safetensors without its directory: the message must say what it looks like, and what to
        name."""
        for family, says in (("fsmt", "FSMT"), ("led", "LED"), ("blenderbot", "Blenderbot, PEGASUS"),
                             ("blenderbot-small", "Blenderbot-small"), ("marian", "Marian")):
            weights = self.directory(family) / "model.safetensors"
            reasons = self.refuse(weights)
            self.assertIn(says, reasons)
            self.assertIn(f"IN is the directory {weights.parent}", reasons)
        self.assertIn("with its config.json", self.refuse(self.save(self.state(weights.parent))))

    def test_prompts_are_refused(self):
        self.assertIn("use_prompt", self.refuse(self.edit(self.directory("mvp"), "config.json",
                                                          use_prompt=True)))

    def test_check(self):
        if not FORWARD.exists():
            self.skipTest(f"no {FORWARD}: make it first")
        self.check = True
        self.convert(self.directory("m2m_100"))
        found = re.search(r"memory differs by at most (\S+), logits by (\S+)", self.done.stdout)
        self.assertLess(max(map(float, found.groups())), 1e-4)
        self.assertEqual(self.done.stderr, "")
        for dtype in (torch.float16, torch.bfloat16):  # in the precision of the folder
            for family in ("marian", "pegasus", "m2m_100", "bart", "fsmt"):
                folder = self.directory(family)
                self.model.to(dtype).save_pretrained(folder)
                self.convert(folder)
                found = re.search(r"memory differs by at most (\S+), logits by (\S+)", self.done.stdout)
                self.assertLess(max(map(float, found.groups())), 1e-4, (family, dtype))
        self.out.unlink()
        self.assertIn("more than rounding makes", self.refuse(self.directory("marian"),
                                                              "--set=embedding_scale=1"))
        if (REAL / "aren").is_dir():
            self.convert(REAL / "aren")
            self.assertIn("log-probabilities differ by at most", self.done.stdout)
            self.assertEqual(self.done.stderr, "")

    def large_t5(self, seed, size, logits):
        """Saves a random T5 whose weights are size times the usual, with logits up to about that."""
        torch.manual_seed(seed)
        config = transformers.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=3, num_heads=4,
                                       decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
        model = transformers.T5ForConditionalGeneration(config).eval()
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * size if p.dim() > 1 else 1 + 0.3 * torch.randn_like(p))
        src, tgt = torch.randint(3, 60, (3, 9)), torch.randint(3, 60, (3, 8))
        model.lm_head.weight.mul_(logits / model(input_ids=src, decoder_input_ids=tgt).logits.abs().max())
        folder = self.folder / "hf"
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        self.out.unlink(missing_ok=True)
        return folder

    def test_check_of_large_logits(self):
        """The rounding of sums grows with the numbers, in transformers too: a right model must pass, and a model with a
        small fault must not."""
        if not FORWARD.exists():
            self.skipTest(f"no {FORWARD}: make it first")
        self.check = True
        plain = convert.omit_tied

        def faulty(model):
            model.tensors["encoder.layers.0.norm1.weight"] = model.tensors["encoder.layers.0.norm1.weight"].copy()
            model.tensors["encoder.layers.0.norm1.weight"][5] *= 1.02
            plain(model)

        seed = int.from_bytes(os.urandom(2), "little")
        largest = 0.0
        for i, (size, logits) in enumerate(((0.3, 5), (0.5, 90), (1, 90), (2, 90), (1, 1000))):
            with self.subTest(seed=seed + i, size=size, logits=logits):
                folder = self.large_t5(seed + i, size, logits)
                self.convert(folder)
                self.assertIn("check: 3 random sentences", self.done.stdout)
                largest = max(largest, float(re.search(r"logits by (\S+)", self.done.stdout)[1]))
                self.out.unlink()
                with mock.patch.object(convert, "omit_tied", faulty):
                    self.assertIn("more than rounding makes", self.refuse(folder))
        print(f"test_check_of_large_logits: seed {seed}, largest difference {largest:.2g}")
        self.assertGreater(largest, 1e-3)  # or the test has shown nothing

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

    def test_untied(self):
        """Encoder, decoder and output have tables of their own, as in transformers 5; version 4 has one table
        for encoder and decoder."""
        for family in families.STEMS:
            with self.subTest(family):
                folder = self.directory(family, tie_word_embeddings=False)
                for name, one in self.model.named_parameters():
                    if re.search("embed_tokens|shared|lm_head|output_projection", name):
                        one.add_(0.1 * torch.randn_like(one))
                self.model.save_pretrained(folder)
                self.logits(self.convert(folder))

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
        expected = {"suppressed": [7, 39], "forced": 9, "start": 8, "decoding": {
            "beam": 6, "length_penalty": 1, "stop": "early_false", "suppressed_sequences": [[4, 5]]}}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertIn("--set decoding.max_length=20", self.done.stdout)
        model = self.convert(folder, "--set", "decoding=none", "--set", "decoding.beam=3")
        self.assertEqual(model.config["decoding"], {"beam": 3})
        model = self.convert(folder, "--set", "decoding.beam=3", "--set", "decoding.stop=sure")
        self.assertEqual((model.config["decoding"]["beam"], model.config["decoding"]["stop"]),
                         (3, "early_never"))
        self.assertNotIn("decoding", self.convert(folder, "--set", "decoding=none").config)
        self.edit(folder, "generation_config.json", eos_token_id=[0, 5])
        model = self.convert(folder)
        self.assertEqual((model.config["end"], model.config["decoding"]["end_ids"]), (0, [0, 5]))
        model = self.convert(folder, "--set", "end=5")  # states the only one
        self.assertEqual((model.config["end"], model.config["decoding"].get("end_ids")), (5, None))
        model = self.convert(folder, "--set", "decoding.end_ids=5,7", "--set", "decoding.top_p=0.5", "--set", "decoding.skip_errors=1")
        self.assertEqual([model.config["decoding"][key] for key in ("end_ids", "top_p", "skip_errors")], [[5, 7], 0.5, 1])
        self.out.unlink()
        for key, value in (("do_sample", True), ("num_beam_groups", 2), ("early_stopping", 1),
                           ("diversity_penalty", 0.5), ("encoder_repetition_penalty", 1.5),
                           ("sequence_bias", [[[1], -10.0]]), ("renormalize_logits", True),
                           ("begin_suppress_tokens", [3]), ("forced_eos_token_id", 5),
                           ("exponential_decay_length_penalty", [5, 1.1]), ("max_length", 1),
                           ("min_length", -2), ("num_beams", 0), ("num_beams", "4"),
                           ("length_penalty", "1"), ("length_penalty", 1000)):
            folder = self.directory("marian")
            self.edit(folder, "generation_config.json", **{"num_beams": 4, key: value})
            self.assertIn(key, self.refuse(folder))

    def test_what_is_not_computed_is_named(self):
        for changes, reason in (({"model_type": "switch_transformers"}, "a mixture of experts"),
                                ({"model_type": "speecht5"}, "its decoder gives audio"),
                                ({"model_type": "dia"}, "rotary positions"),
                                ({"model_type": "unheard-of"}, "model_type unheard-of; what"),
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

    def cached(self, folder, revision="main"):
        """Copies the directory into a hub's cache as org/name. Returns the environment variables for that
        cache."""
        cache, commit = self.folder / "cache", "0123456789abcdef0123456789abcdef01234567"
        home = cache / "models--org--name"
        for one in (home / "refs", home / "blobs", home / "snapshots" / commit):
            one.mkdir(parents=True, exist_ok=True)
        (home / "refs" / revision).write_text(commit)
        for one in folder.iterdir():
            shutil.copyfile(one, home / "blobs" / one.name)
            (home / "snapshots" / commit / one.name).symlink_to(f"../../blobs/{one.name}")
        return {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}, commit

    def run_program(self, environment, *arguments):
        return subprocess.run([sys.executable, str(ROOT / "tools" / "convert.py"), *arguments], text=True,
                              capture_output=True, env=environment, cwd=self.folder)

    def test_names_of_a_hub(self):
        folder = self.directory("marian")
        self.convert(folder)
        whole = Model(self.out)
        for revision, options in (("main", ()), ("v2", ("--revision", "v2"))):
            environment, commit = self.cached(folder, revision)
            self.out.unlink()
            done = self.run_program(environment, "org/name", str(self.out), "--no-check", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            model = Model(self.out)
            self.assertEqual((model.metadata["source"], model.metadata["revision"]),
                             ("org/name", commit))
            for name, tensor in whole.t.items():
                self.assertTrue(np.array_equal(tensor, model.t[name]), name)
            shutil.rmtree(self.folder / "cache")
        self.out.unlink()
        for environment in (environment, {**environment, "HF_HUB_OFFLINE": "0",
                                          "HF_ENDPOINT": "http://127.0.0.1:9"}):
            done = self.run_program(environment, "org/name", str(self.out), "--revision=v2")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn("hf download org/name --revision v2 --local-dir name", done.stderr)
        for path in ("org/name.pt", "hf/name", "./org/name", "/org/name"):
            done = self.run_program(environment, path, str(self.out))
            self.assertNotIn("hf download", done.stderr)
            self.assertIn("No such file", done.stderr)
        self.assertIn("is not a name of the hub", self.run_program(environment, str(folder), str(self.out),
                                                    "--revision=v2").stderr)

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
class MarianOfTransformers(test_convert.MarianCase):
    """A random Marian of transformers under Marian's names, without the pad that transformers added. Its
    tensors must be those of the direct conversion. Its numbers must be those of transformers, once the
    config has the same positions and eps."""

    def setUp(self):
        super().setUp()
        np.random.seed(5)
        self.model = families.make("marian")
        self.model.model.shared.weight[39] = 0  # The values that transformers puts in place of zeros.


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
            self.assertTrue(np.array_equal(tensor[:rows], model.t[name]), name)



# ------------------------------------------------------------------------------- OpenNMT-py
class OpenNMT(ConvertTest):
    """Random weights under OpenNMT-py's names, which CTranslate2's converter reads too."""

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
                    "start": 3, "end": 3, "src_unk": 0, "sentences": "split"}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertEqual(self.done.stderr, "")
        self.assertEqual(raw(model.t["src_vocabulary"]).split(b"\n")[4], b"a4")

    def test_wrappers_are_left_out(self):
        checkpoint = self.checkpoint()
        plain = self.convert(checkpoint)
        for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
            checkpoint["model"] = {prefix + name.removeprefix(prefix): one for name, one in self.checkpoint()["model"].items()}
            self.out.unlink()
            model = self.convert(checkpoint)
            self.assertIn("wrappers of the module", self.done.stdout)
            self.assertEqual(model.config, plain.config)
            self.assertEqual(model.t.keys(), plain.t.keys())
            for name, one in plain.t.items():
                self.assertTrue(torch.equal(model.t[name], one), name)

    def test_another_reader(self):
        """CTranslate2's engine has an eps of 1e-5, OpenNMT-py has 1e-6."""
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
                found = log_softmax(model.forward([src], [[2] + tgt])[0])[range(7), tgt + [3]]
                self.check_near(activation, found, scores)

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


@needs_transformers
class Registry(unittest.TestCase):
    """Each model of transformers that has an encoder and a decoder must convert, or be refused with a reason."""

    def test_every_encoder_decoder(self):
        from transformers.models.auto import configuration_auto, modeling_auto
        found = set(modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
        found |= set(modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES)
        for kind, name in configuration_auto.CONFIG_MAPPING_NAMES.items():
            try:
                config = getattr(transformers, name)()
            except Exception:  # a config that needs arguments
                continue
            if getattr(config, "is_encoder_decoder", False):
                found.add(kind)
        self.assertGreater(len(found), 60)
        reads = {*checkpoints_huggingface.FAMILIES, *checkpoints_huggingface.PARTS}
        self.assertEqual([kind for kind in sorted(found) if kind not in reads and not refusals.reason(kind)], [])
        alone = {"trocr", "canary_decoder"}  # decoders, which convert as a part of a whole folder and are refused without it
        self.assertEqual([kind for kind in sorted(reads - alone) if refusals.reason(kind)], [])


@needs_transformers
class TokenizersOfTransformers(test_convert.TokenizerCase):
    """Compares with the ids of transformers' own tokenizers."""

    def test_marian(self):
        folder, model = self.marian()
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.check_texts(model, lambda text: tokenizer(text).input_ids)
        text = "Faly mahita anao aho"
        pieces = tokenizer(text_target=text).input_ids
        self.assertEqual(self.cut(model, text, "tgt"), pieces)

    def test_marian_of_many_languages(self):
        folder, model = self.marian_of_many_languages()
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.assertEqual(self.cut(model, "the thing"), tokenizer(">>ita<<the thing").input_ids)

    def test_m2m_100(self):
        folder, model, *_ = self.m2m_100()
        tokenizer = transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="am")
        self.check_texts(model, lambda text: tokenizer(text).input_ids)


# ------------------------------------------------------------------------------------- pickles
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool)


class Pickles(ConvertTest):
    """Compares tools/convert/pickles.py with torch.load."""

    def tensor(self, random):
        whole = torch.randn([random.randint(2, 7) for _ in range(random.randint(0, 4))])
        whole = whole.mul(50).to(random.choice(DTYPES))
        if not whole.dim():
            return whole
        return random.choice((lambda: whole, lambda: whole.transpose(0, -1), lambda: whole[1:], lambda: whole[:0],
                              lambda: whole[..., ::2], lambda: whole[..., 1:].transpose(0, -1),
                              lambda: nn.Parameter(whole, requires_grad=False)))()

    def object(self, random):
        tensors = {f"a.{i}": self.tensor(random) for i in range(random.randint(1, 9))}
        for i, name in enumerate(random.choices(list(tensors), k=random.randint(0, 3))):
            one = tensors[name]
            tensors[f"tied.{i}"] = random.choice((one, one.reshape(-1)[: one.numel() // 2], one[None]))
        tensors = random.choice((lambda: tensors, lambda: collections.OrderedDict(tensors),
                                 lambda: nn.Transformer(8, 2, 1, 1, 8).to(torch.bfloat16).state_dict()))()
        rest = [1, -5, 2 ** 40, -2 ** 80, None, True, 1.5, "\u00e9", b"x\xff", (1, 2), {1: 2}, (), torch.Size([1, 2])]
        return {"model": tensors, "rest": rest, "opt": argparse.Namespace(a=1, b="c", d=[torch.float16])}

    def same(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for name, one in expected.items():
            one, array = one.detach(), found[name]
            self.assertEqual((array.shape, array.dtype == BF16), (tuple(one.shape), one.dtype == torch.bfloat16), name)
            if one.dtype == torch.bfloat16:
                one, array = one.contiguous().view(torch.int16), np.ascontiguousarray(array).view("<i2")
            self.assertEqual(array.dtype, one.numpy().dtype, name)
            self.assertEqual(array.tobytes(), one.numpy().tobytes(), name)

    def test_random_state_dicts(self):
        seed = int.from_bytes(os.urandom(4), "little")
        print(f"test_random_state_dicts: seed {seed}")
        random, path = Random(seed), self.folder / "x.pt"
        for i in range(60):
            with self.subTest(seed=seed, i=i):
                value = self.object(random)
                path.unlink(missing_ok=True)  # the last one is mapped
                torch.save(value, path, _use_new_zipfile_serialization=bool(i % 2),
                           pickle_protocol=random.choice((2, 2, 3, 4, 5)))
                found, expected = pickles.load(path), torch.load(path, weights_only=False)
                self.same(found["model"], expected["model"])
                self.assertEqual(found["rest"], expected["rest"])
                self.assertEqual(found["opt"].d, ["float16"])
                self.assertEqual((found["opt"].a, found["opt"].b), (1, "c"))

    def test_parts_of_one_storage(self):
        """90,000 tensors of one storage must be read in seconds, and 200 MB must not be copied."""
        whole = torch.arange(90000.0)
        torch.save({f"a{i}": whole[i] for i in range(90000)}, self.folder / "x.pt")
        began = time.process_time()
        found = pickles.load(self.folder / "x.pt")
        self.assertEqual(float(found["a89999"]), 89999)
        self.assertLess(time.process_time() - began, 60)
        torch.save({"a": torch.zeros(50 << 20)}, self.folder / "y.pt")
        base = pickles.load(self.folder / "y.pt")["a"]
        while not isinstance(base, np.memmap):
            base = base.base
            self.assertIsNotNone(base)


def written(value, deflate=False):
    def make(folder):
        path = folder / "x.pt"
        torch.save(value, path)
        if deflate:  # the same entries, compressed
            with zipfile.ZipFile(path) as old:
                entries = [(one.filename, old.read(one)) for one in old.infolist()]
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
                for name, data in entries:
                    new.writestr(name, data)
        return path
    return make


# Files as torch.save writes them; test_hostile_python.py has the broken ones.
PICKLES = [
    ("a whole module", written(nn.Linear(2, 2)), "'torch.nn.modules.linear.Linear'", "state_dict()"),
    ("a zip bomb", written({"a": torch.zeros(1 << 26)}, deflate=True), "whose entries are"),
    ("an expanded tensor", written({"a": torch.zeros(1).expand(1 << 40)}), "(1099511627776,) of 1 elements: its "
     "elements share memory"),
    ("a sparse tensor", written({"a": torch.eye(2).to_sparse()}), "'torch._utils._rebuild_sparse_tensor'"),
    ("a quantized tensor", written({"a": torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8)}),
     "'torch._utils._rebuild_qtensor'"),
    ("a complex tensor", written({"a": torch.zeros(2, dtype=torch.complex64)}), "'torch.ComplexFloatStorage'"),
    ("an array of NumPy", written({"a": np.zeros(3)}), "numpy"),
    ("a list", written([torch.zeros(1)]), "holds a list"),
    ("a truncated file", lambda f: (written({"a": torch.zeros(99)})(f), os.truncate(
        f / "x.pt", 500), f / "x.pt")[-1], "not a checkpoint"),
]


class Hostile(HostileCase):
    memory = 2 << 30  # PyTorch reserves these types and hardly uses them.

    def test_pickles(self):
        for name, make, *says in PICKLES:
            self.check(name, make, *says)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # PyTorch's, on nested tensors
