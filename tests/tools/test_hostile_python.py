#!/usr/bin/env python3
"""Tests hostile inputs to tools/convert.py: python tests/tools/test_hostile_python.py

A row is a name, a function that makes the input in an empty folder, and a text that the message must contain.
Each input is converted in a process of its own with little memory and time. The process must end with status
1 and one printable line, write nothing, and run no code of the input.
"""

import gzip
import io
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import traceback
import unittest
import zipfile
from functools import partialmethod
from pathlib import Path
from unittest import mock

import numpy as np

import import_path  # noqa: E402, F401
from convert import main as convert  # noqa: E402
import pickled  # noqa: E402
from pickled import call, encode, name, Raw, storage, tensor  # noqa: E402
from marian_student import Student  # noqa: E402
from convert import pickles  # noqa: E402
from convert.modelfile import write_safetensors  # noqa: E402
from convert.untrusted import ConvertError, read_safetensors  # noqa: E402
from test_convert import MarianCase, ct2_bytes, ct2_random, hf_write, stacks  # noqa: E402

LISTING = "tensors that "  # the begin of the lists of names that --map and --drop take
MEMORY = 200 << 20  # memory in addition to what the process has when it begins
SECONDS = 20


class FullDisk(unittest.TestCase):
    @unittest.skipUnless(Path("/dev/full").exists(), "no /dev/full")
    def test_help(self):
        """Tests that --help ends with status 1 and a message where standard output takes nothing."""
        tools = Path(__file__).resolve().parents[2] / "tools"
        for command, name in (([tools / "convert.py"], "convert.py"),
                              (["-m", "convert.published"], "transformer-model"),
                              (["-m", "convert.published", "get"], "transformer-model")):
            with self.subTest(name), open("/dev/full", "w", encoding="utf-8") as full:
                run = subprocess.run([sys.executable, *map(str, command), "--help"], stdout=full, stderr=subprocess.PIPE,
                                     text=True, cwd=tools)
                self.assertEqual((run.returncode, run.stderr), (1, f"{name}: standard output: No space left on device\n"))


class LongPickle(unittest.TestCase):
    def test_the_machine_stops_at_the_bound(self):
        """Tests the bound for a pickle of a legacy file, which does not say how long the pickle is."""
        machine = pickles.Machine(memoryview(b"\x80\x02" + b"N0" * 1000 + b"."), None)
        with mock.patch.object(pickles, "LARGEST_PICKLE", 1000), self.assertRaisesRegex(pickles.Broken, "more than 1000 bytes"):
            machine.run()


class HostileCase(unittest.TestCase):
    memory = MEMORY

    def check(self, name, make, *says):
        with self.subTest(name), tempfile.TemporaryDirectory() as place:
            folder, told = Path(place) / "in", Path(place) / "told"
            folder.mkdir()
            source = make(folder) or folder
            before = self.listing(place)
            status, said = self.run_limited(source, Path(place) / "out.safetensors", told)
            told.unlink()
            self.assertNotIn("Traceback", said)
            self.assertEqual(status, 1, said)
            self.assertEqual(self.listing(place), before)
            lines = said.removesuffix("\n").split("\n")
            self.assertLessEqual(len(lines), 250 if LISTING in said else 1, said[:2000])
            self.assertTrue(lines[0].startswith("convert.py: "), said)
            for line in lines:
                limit = 1 << 17 if line.startswith("    ") else 1100  # a command that a message prints is whole
                self.assertTrue(line.isprintable() and len(line) < limit, line[:2000])
            for one in says:
                self.assertIn(one, said)

    def listing(self, place):
        return sorted(str(path) for path in Path(place).rglob("*"))

    def run_limited(self, source, out, told):
        """Returns the exit status and the text written to stderr."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 99
            try:
                with open(told, "w") as file:
                    os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
                    sys.stdout = sys.stderr = file
                    pages = int(Path("/proc/self/statm").read_text().split()[0])
                    most = pages * resource.getpagesize() + self.memory
                    resource.setrlimit(resource.RLIMIT_AS, (most, most))
                    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
                    try:
                        status = convert.main([str(source), str(out), "--no-check"])
                    except BaseException:
                        traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), told.read_text()


# ------------------------------------------------------------------------------------ safetensors
def put(name, value):
    return lambda folder: (folder / name).write_bytes(
        value if isinstance(value, bytes) else json.dumps(value).encode())


def header(value, data=b"", length=None):
    """Writes a .safetensors with that header, as JSON or bytes."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()

    def make(folder):
        path = folder / "x.safetensors"
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
        return path
    return make


def entry(dtype="F32", shape=(1,), offsets=(0, 4), **more):
    return {"a": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}}


def link_to_device(folder):
    """Makes a null device, or a pipe where none can be made."""
    path = folder / "x.safetensors"
    try:
        os.mknod(path, 0o020666, os.makedev(1, 5))
    except PermissionError:
        os.mkfifo(path)
    return path


def many_layers(folder):
    tensors = stacks()
    tensors["transformer.encoder.layers.9999.linear1.weight"] = np.zeros((12, 8), "f4")
    tensors["transformer.encoder.layers.99999999999.linear1.weight"] = np.zeros((12, 8), "f4")
    write_safetensors(folder / "x.safetensors", tensors)
    return folder / "x.safetensors"


def sparse(folder):
    path = folder / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 39))
    os.truncate(path, 1 << 40)
    return path


def many_tensors(name, n=100000):
    text = json.dumps({name.format(i): entry(offsets=(4 * i, 4 * i + 4))["a"] for i in range(n)}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * n)


SAFETENSORS = [
    ("empty", lambda f: (f / "x.safetensors").touch() or f / "x.safetensors", "a header of"),
    ("header longer than the file", header(b"{}", length=2 ** 63), "a header of"),
    ("header wraps", header(b"{}", length=2 ** 64 - 1), "a header of"),
    ("header is a list", header([1]), "no object"),
    ("header is no JSON", header(b"{,}"), "not JSON"),
    ("a million levels", header(b'{"a":' + b"[" * 1000000), "nested too deeply"),
    ("a million objects", header(b'{"a":' * 1000000), "nested too deeply"),
    ("bad UTF-8", header(b'{"\xff": 1}'), "not JSON"),
    ("half a surrogate pair", header(b'{"\\ud800": {"dtype": "F32"}}'), "surrogate"),
    ("an integer of 10^6 digits", header(b'{"a": ' + b"9" * 1000000 + b"}"), "not JSON"),
    ("duplicate name", header(b'{"a": 1, "a": 2}'), "duplicate key 'a'"),
    ("no entry", header({"a": 1}), "'a'", "dtype"),
    ("unknown type", header(entry("F4"), b"1234"), "dtype 'F4'"),
    ("type is a list", header(entry([]), b"1234"), "dtype"),
    ("huge shape", header(entry(shape=(2 ** 62, 4)), b"1234"), "'a'", "bytes for F32"),
    ("shape of a float", header(entry(shape=(1.5,)), b"1234"), "shape"),
    ("shape of true", header(entry(shape=(True,)), b"1234"), "shape"),
    ("negative shape", header(entry(shape=(-1, -1)), b"1234"), "shape"),
    ("rank 1000", header(entry(shape=(1,) * 1000), b"1234"), "shape"),
    ("offsets past the end", header(entry(offsets=(0, 2 ** 40), shape=(2 ** 38,)), b"1234"),
     "data_offsets"),
    ("offsets turned round", header(entry(offsets=(4, 0)), b"1234"), "data_offsets"),
    ("three offsets", header(entry(offsets=(0, 4, 4)), b"1234"), "data_offsets"),
    ("a hole", header(entry(offsets=(4, 8)), b"12345678"), "begins at 4"),
    ("overlap", header({**entry(), "b": entry()["a"]}, b"1234"), "begins at 0"),
    ("bytes at the end", header(entry(), b"12345678"), "4 bytes after"),
    ("metadata of integers", header({"__metadata__": {"a": 1}}), "__metadata__"),
    ("case is a list", header({"__metadata__": {"case": "[1]"}}), "case: not an object"),
    ("case is deep", header({"__metadata__": {"case": "[" * 100000}}), "case", "deeply"),
    ("case has huge heads", header({"__metadata__": {"case": '{"h": ' + "9" * 4000 + "}"}, **entry()},
                                   b"1234"), "h is 9"),
    ("escape in a name", header({"\x1b[2J\n": {"dtype": "F4"}}), "\\x1b"),
    ("layer 99999999999", many_layers, "99999999999"),
    ("100,000 tensors of no layer", lambda f: put("x.safetensors", many_tensors("a{}"))(f) and
     f / "x.safetensors", "tensors that have no place in a model file (100000)"),
    ("100,000 layers", lambda f: put("x.safetensors", many_tensors(
        "encoder.layers.{}.self_attn.q_proj.weight"))(f) and f / "x.safetensors", "no place"),
    ("a device", link_to_device, "not a regular file"),
    ("one terabyte of nothing", sparse, "a header of"),
]


# ----------------------------------------------------------------------------- Hugging Face's
def hf(change, family="m2m_100", rows=40):
    """Makes a directory that would convert without the changes of change."""
    def make(folder):
        hf_write(folder, family, rows)
        change(folder)
    return make


def config(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return change


def shards(index):
    def change(folder):
        (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return change


def linked_shard(folder):
    shards({"a": "a.safetensors"})(folder)
    (folder / "a.safetensors").symlink_to(folder.parent / "outside.safetensors")


def linked_config(folder):
    (folder / "config.json").rename(folder.parent / "config.json")
    (folder / "config.json").symlink_to("../config.json")


def spm(data):
    return hf(put("sentencepiece.bpe.model", data))


def tokenizer(**changes):
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]}
    model.update(changes.pop("model", {}))
    return hf(put("tokenizer.json", {"pre_tokenizer": {"type": "Metaspace"}, "model": model, **changes}))


PIECE = b"\x0a\x07\x0a\x05<unk>"
def reshaped(name, shape):
    def change(folder):
        path = folder / "model.safetensors"
        tensors = read_safetensors(path)[0]
        write_safetensors(path, {**tensors, name: np.zeros(shape, "f4")})
    return change


HUGGING_FACE = [
    ("config of a million levels", hf(put("config.json", b"[" * 1000000)), "config.json",
     "nested too deeply"),
    ("config is a list", hf(put("config.json", [1])), "config.json: not an object"),
    ("config with duplicate keys", hf(put("config.json", b'{"model_type": "a", "model_type": "b"}')),
     "duplicate key 'model_type'"),
    ("model_type is a list", hf(config(model_type=[])), "model_type is []"),
    ("model_type is long", hf(config(model_type="x\x1b" * 100000)), "model_type"),
    ("heads of text", hf(config(encoder_attention_heads="2")), "encoder_attention_heads is '2'"),
    ("heads 0", hf(config(encoder_attention_heads=0, decoder_attention_heads=0)), "n_heads is 0"),
    ("heads are a list", hf(config(decoder_attention_heads=[1])), "decoder_attention_heads is [1]"),
    ("activation is an object", hf(config(activation_function={})), "activation_function is {}"),
    ("pad of text", hf(config(pad_token_id="1")), "pad_token_id is '1'"),
    ("pad is huge", hf(config(pad_token_id=10 ** 30)), "pad_token_id is 1000"),
    ("start outside the vocabulary", hf(config(decoder_start_token_id=99)), "start 99 is outside"),
    ("suppressed of lists", hf(config(suppress_tokens=[[1]])), "suppress_tokens is [[1]]"),
    ("bad words of text", hf(config(bad_words_ids="ab")), "bad_words_ids is 'ab'"),
    ("a window of 0", hf(config(attention_window=[0]), "led"), "attention_window is [0]"),
    ("a window of text", hf(config(attention_window="512"), "led"), "attention_window is '512'"),
    ("a norm of another width", hf(reshaped("model.decoder.layernorm_embedding.weight", (5,)),
                                   "blenderbot-small"), "tgt_embedding_norm.weight is [5]"),
    ("languages that are a number", hf(put("tokenizer_config.json", {"language_codes": 5}), "plbart"),
     "language_codes is 5"),
    ("a start outside, and 400,000 bad words", hf(put("generation_config.json", {
        "decoder_start_token_id": 99, "bad_words_ids": [[i % 40, 1] for i in range(400000)]})),
     "start 99 is outside"),
    ("90,000 keys and heads of text", hf(config(
        encoder_attention_heads="2", **{f"t{i}": i for i in range(90000)})),
     "encoder_attention_heads is '2'"),
    ("config is a link outside", hf(linked_config), "config.json is a symbolic link"),
    ("generation_config is a list", hf(put("generation_config.json", [])),
     "generation_config.json: not an object"),
    ("shard ../outside", hf(shards({"a": "../outside.safetensors"})), "no file of this directory"),
    ("shard of an absolute path", hf(shards({"a": "/etc/passwd"})), "no file of this directory"),
    ("shard ..", hf(shards({"a": ".."})), "no file of this directory"),
    ("shard with a NUL", hf(shards({"a": "a\0b"})), "no file of this directory"),
    ("shard with no name", hf(shards({"a": ""})), "no file of this directory"),
    ("shard is a link outside", hf(linked_shard), "a.safetensors is a symbolic link"),
    ("shard is missing", hf(shards({"a": "a.safetensors"})), "a.safetensors: missing, and model.safetensors.index.json lists it: 1 of 1"),
    ("weight_map is a list", hf(shards(["a"])), "weight_map"),
    ("vocab.json of a million levels", hf(put("vocab.json", b"{\"a\":" * 1000000)), "vocab.json",
     "nested too deeply"),
    ("vocab.json with a duplicate id", hf(put("vocab.json", {"a": 1, "b": 1})),
     "vocab.json: duplicate id 1"),
    ("vocab.json with a duplicate token", hf(put("vocab.json", b'{"a": 1, "a": 2}')),
     "vocab.json: duplicate key 'a'"),
    ("vocab.json with a huge id", hf(put("vocab.json", {"a": 2 ** 40})), "'a' has the id 1099511627776"),
    ("vocab.json with a negative id", hf(put("vocab.json", {"a": -1})), "'a' has the id -1"),
    ("vocab.json with an id of text", hf(put("vocab.json", {"a": "1"})), "'a' has the id '1'"),
    ("vocab.json with true", hf(put("vocab.json", {"a": True})), "'a' has the id True"),
    ("vocab.json with half a surrogate pair", hf(put("vocab.json", b'{"\\udc00": 0}')),
     "vocab.json", "surrogate"),
    ("vocab.json is a link outside", hf(lambda f: (f / "vocab.json").symlink_to("/etc/passwd")),
     "vocab.json is a symbolic link"),
    ("added tokens are a list", hf(put("added_tokens.json", [])), "added_tokens.json: not an object"),
    ("added_tokens_decoder of text", hf(put("tokenizer_config.json",
                                            {"added_tokens_decoder": {"x": {"content": "a"}}})),
     "added_tokens_decoder: 'x' is no id"),
    ("added token without content", hf(put("tokenizer_config.json",
                                           {"added_tokens_decoder": {"1": {}}})), "content"),
    ("offset of 10^9", hf(lambda f: (put("tokenizer_config.json", {"offset": 10 ** 9})(f),
                                     put("spiece.model", PIECE)(f)), "pegasus"),
     "tokenizer_config.json: offset is 1000000000"),
    ("src_lang is a list", hf(put("tokenizer_config.json", {"src_lang": [1]})),
     "tokenizer_config.json: src_lang is [1]"),
    ("SentencePiece: empty", spm(b""), "not a SentencePiece model"),
    ("SentencePiece: endless varint", spm(b"\x80" * 5000000), "not a SentencePiece model"),
    ("SentencePiece: length past the end", spm(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
     "not a SentencePiece model"),
    ("SentencePiece: group", spm(b"\x0b" * 100), "not a SentencePiece model"),
    ("SentencePiece: a million empty pieces", spm(b"\x0a\x00" * 1000000), "piece 0 has no text"),
    ("SentencePiece: a piece of a number", spm(b"\x0a\x02\x08\x01"), "piece 0 has no text"),
    ("SentencePiece: nested a million times", spm(b"\x0a\x80\x80\x80\x01" * 400000),
     "not a SentencePiece model"),
    ("tokenizer.json of a million levels", hf(put("tokenizer.json", b"[" * 1000000)),
     "tokenizer.json", "nested too deeply"),
    ("tokenizer.json: model is a list", hf(put("tokenizer.json", {"model": [1]})),
     "tokenizer.json: model is [1]"),
    ("tokenizer.json: huge added id", tokenizer(added_tokens=[{"id": 2 ** 31 - 1, "content": "x"}]),
     "an id of 2147483647"),
    ("tokenizer.json: added id of text", tokenizer(added_tokens=[{"id": "1", "content": "x"}]),
     "id is '1'"),
    ("tokenizer.json: negative added id", tokenizer(added_tokens=[{"id": -5, "content": "x"}]),
     "id is -5"),
    ("tokenizer.json: unk_id outside", tokenizer(model={"unk_id": 10 ** 9}), "unk_id is 1000000000"),
    ("tokenizer.json: score of text", tokenizer(model={"vocab": [["<unk>", "x"]]}), "score of piece 0"),
    ("tokenizer.json: score 1e400", hf(put("tokenizer.json", b'{"pre_tokenizer": {"type": "Metaspace"}, "model": {"type": "Unigram", '
                                           b'"unk_id": 0, "vocab": [["<unk>", 1e400]]}}')),
     "score of piece 0 is inf"),
    ("tokenizer.json: piece is a number", tokenizer(model={"vocab": [[5, 0.0]]}), "5 is no text"),
    ("tokenizer.json: bad charsmap", tokenizer(normalizer={"type": "Precompiled",
                                                          "precompiled_charsmap": "!"}),
     "tokenizer.json"),
    ("tokenizer.json: a merge of a megabyte", hf(put("tokenizer.json", {"pre_tokenizer": {"type": "Metaspace"}, "model": {
        "type": "BPE", "vocab": {"<unk>": 0, "a" * 1000000: 1}, "unk_token": "<unk>",
        "merges": [["a" * 500000, "a" * 500000]]}})), "a piece of 1000000 characters"),
    ("tokenizer.json: merges of numbers", hf(put("tokenizer.json", {"pre_tokenizer": {"type": "Metaspace"}, "model": {
        "type": "BPE", "vocab": {"<unk>": 0}, "unk_token": "<unk>", "merges": [5]}})),
     "tokenizer.json"),
    ("grapheme_chars is a list", hf(config(grapheme_chars=[], phoneme_chars=[])),
     "grapheme_chars is []"),
    ("README of a megabyte of newlines", hf(lambda f: (put("README.md", b"---\n" * 300000)(f),
                                                       put("vocab.json", [])(f))),
     "vocab.json: not an object"),
]


# ------------------------------------------------------------------------------- CTranslate2's
def ct2(data=None, files=(), aliases=(), **changes):
    def make(folder):
        np.random.seed(1)
        variables = ct2_random(d=8, f=12, layers=(1, 1), vs=5, vt=5)
        variables.update({name.replace("__", "/"): value for name, value in changes.items()})
        whole = ct2_bytes(variables, aliases=aliases)
        (folder / "model.bin").write_bytes(whole if data is None else
                                           data(whole) if callable(data) else data)
        for side in ("source", "target"):
            put(f"{side}_vocabulary.json", ["<s>", "</s>", "<unk>", "a", "b"])(folder)
        for name, value in files:
            put(name, value)(folder)
    return make


def variable(name, rank_and_shape, code, size, data=b""):
    name = name.encode() + b"\0"
    return (struct.pack("<I", 6) + struct.pack("<H", 16) + b"TransformerSpec\0"
            + struct.pack("<II", 7, 1) + struct.pack("<H", len(name)) + name + rank_and_shape
            + struct.pack("<BI", code, size) + data)


def shape(*dims):
    return struct.pack(f"<B{len(dims)}I", len(dims), *dims)


def layers_of_one(folder):
    np.random.seed(1)
    variables = ct2_random(d=64, f=128, layers=(1, 1), vs=5, vt=5)
    ct2()(folder)
    (folder / "model.bin").write_bytes(ct2_bytes(variables, aliases=[
        (name.replace("layer_0", f"layer_{i}"), name) for i in range(1, 2000) for name in variables
        if name.startswith("encoder/layer_0/")]))


CTRANSLATE2 = [
    ("model.bin is empty", ct2(b""), "model.bin: ends at byte 0"),
    ("4 billion variables", ct2(lambda w: w[:26] + b"\xff\xff\xff\xff" + w[30:]), "model.bin"),
    ("a variable of 4 GB", ct2(variable("x", shape(2 ** 30), 0, 2 ** 32 - 4)),
     "within something of 4294967292 bytes"),
    ("a shape of 255 dimensions", ct2(variable("x", shape(*[1] * 255), 0, 4, b"1234")), "'x'", "shape"),
    ("a shape of zeros and 2^32s", ct2(variable("x", shape(0, *[2 ** 32 - 1] * 7), 0, 0)), "'x'", "shape"),
    ("a shape that wraps", ct2(variable("x", shape(2 ** 31, 2 ** 31, 4), 0, 0)), "'x'", "shape"),
    ("three bytes of floats", ct2(variable("x", shape(1), 0, 3, b"123")), "'x': 3 bytes"),
    ("an unknown type", ct2(variable("x", shape(1), 200, 4, b"1234")), "element type 200"),
    ("a name that is not UTF-8", ct2(lambda w: w[:6] + b"\xff" + w[7:]), "not UTF-8"),
    ("a specification with an escape", ct2(lambda w: w[:6] + b"\x1b" + w[7:]), "\\x1b"),
    ("an alias of nothing", ct2(aliases=[("a", "b")]), "'a' stands for 'b', which is missing"),
    ("an alias of a name that is there", ct2(aliases=[("decoder/pre_norm", "encoder/pre_norm")]),
     "duplicate variable 'decoder/pre_norm'"),
    ("2,000 layers that are one", layers_of_one, "whose tensors are"),
    ("10,000 aliases of one matrix", ct2(aliases=[
        (f"encoder/layer_{i}/ffn/linear_{j}/weight", f"encoder/layer_0/ffn/linear_{j}/weight")
        for i in range(1, 5000) for j in (0, 1)]), "encoder.layers"),
    ("heads are a matrix", ct2(encoder__num_heads=np.zeros((2, 2), "i2")), "encoder/num_heads [2, 2]"),
    ("heads 0", ct2(encoder__num_heads=np.int16(0), decoder__num_heads=np.int16(0)),
     "n_heads is 0"),
    ("heads -1", ct2(encoder__num_heads=np.int16(-1), decoder__num_heads=np.int16(-1)),
     "n_heads is -1"),
    ("an activation of 100", ct2(encoder__activation=np.int8(100), decoder__activation=np.int8(100)),
     "activation 100"),
    ("an embedding scale that is NaN", ct2(encoder__scale_embeddings=np.float32("nan"),
                                           decoder__scale_embeddings=np.float32("nan")), "multiplied by nan"),
    ("an embedding scale of infinity", ct2(encoder__scale_embeddings=np.float32("inf"),
                                           decoder__scale_embeddings=np.float32("inf")),
     "embedding_scale is inf"),
    ("int8 without scales", ct2(encoder__layer_0__ffn__linear_0__weight=np.zeros((12, 8), "i1")),
     "linear_0/weight_scale is missing"),
    ("scales of zero", ct2(encoder__layer_0__ffn__linear_0__weight=np.zeros((12, 8), "i1"),
                           encoder__layer_0__ffn__linear_0__weight_scale=np.zeros(12, "f4")),
     "a scale that is 0"),
    ("a vocabulary of objects", ct2(files=[("source_vocabulary.json", [{}])]), "not a list of tokens"),
    ("a vocabulary of a million levels", ct2(files=[("source_vocabulary.json", b"[" * 1000000)]),
     "source_vocabulary.json", "nested too deeply"),
    ("a start token that is a list", ct2(files=[("config.json", {"decoder_start_token": []})]),
     "config.json: decoder_start_token is []"),
    ("an eps of text", ct2(files=[("config.json", {"layer_norm_epsilon": "x"})]),
     "config.json: layer_norm_epsilon is 'x'"),
    ("an eps of infinity", ct2(files=[("config.json", b'{"layer_norm_epsilon": Infinity}')]),
     "layer_norm_epsilon is inf"),
    ("an eps below zero", ct2(files=[("config.json", {"layer_norm_epsilon": -1})]),
     "layer_norm_eps is -1"),
    ("model.bin is a link outside", lambda f: (f / "model.bin").symlink_to(__file__),
     "model.bin is a symbolic link"),
]


# ------------------------------------------------------------------------------------- Marian's
def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def lying_npy(descr="'<f4'", shape="(1000000000000,)", data=b"1234"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


OPTIONS = "".join(f"{key}: {json.dumps(value)}\n" for key, value in MarianCase.OPTIONS.items())


def marian(*entries, options=OPTIONS, files=(), raw=None, deflate=False):
    def make(folder):
        path = folder / "model.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflate else 0) as archive:
            if options is not None:
                archive.writestr("special:model.yml.npy", npy(np.frombuffer(options.encode(), "i1")))
            archive.writestr("Wemb.npy", npy(np.zeros((2, 6), "f4")))
            for name, data in entries:
                archive.writestr(name, data)
        if raw:
            path.write_bytes(raw(path.read_bytes()))
        put("vocab.yml", b"a: 0\nb: 1\n")(folder)
        for name, value in files:
            put(name, value)(folder)
    return make


class Evil:
    """If the pickle runs this code, it leaves a file behind, which the listing shows."""

    def __reduce__(self):
        return os.mkdir, ("evil",)


def laughs():
    return "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi"))


MARIAN = [
    ("an .npz that is no zip", marian(raw=lambda w: b"PK" + b"x" * 100), "not an .npz"),
    ("a truncated .npz", marian(raw=lambda w: w[:-30]), "not an .npz"),
    ("an array of objects", marian(("a.npy", npy(np.array([Evil()], object)))), "'a'", "'|O'"),
    ("a zip bomb", marian(("a.npy", npy(np.zeros(1 << 26, "f4"))), deflate=True), "whose entries are"),
    ("a terabyte in a header", marian(("a.npy", lying_npy())), "'a': 4 bytes for float32"),
    ("a shape that wraps", marian(("a.npy", lying_npy(shape="(4294967296, 4294967296)"))), "bytes for"),
    ("a negative shape", marian(("a.npy", lying_npy(shape="(-1,)"))), "shape (-1,)"),
    ("a shape of text", marian(("a.npy", lying_npy(shape="'ab'"))), "shape 'ab'"),
    ("a header of code", marian(("a.npy", lying_npy(shape="__import__('os').mkdir('evil')"))),
     "header"),
    ("a header of a million brackets", marian(("a.npy", lying_npy(shape="(" * 60000))), "header"),
    ("a structured type", marian(("a.npy", lying_npy(descr="[('x', '<f4')]"))), "type"),
    ("a type of numbers of 10^9 bytes", marian(("a.npy", lying_npy(descr="'|V999999999'"))), "type"),
    ("a path that points outside", marian(("../../evil.npy", npy(np.zeros(1, "f4")))),
     "../../evil"),
    ("duplicate entries", marian(("a.npy", npy(np.zeros(1, "f4"))), ("a.npy", npy(np.zeros(1, "f4")))),
     "duplicate entry 'a'"),
    ("no options", marian(options=None), "special:model.yml"),
    ("options that laugh a billion times", marian(options=laughs()), "anchors and aliases"),
    ("options of a million levels", marian(options="a: " + "[" * 1000000), "YAML"),
    ("options of 100,000 list items", marian(options="- " * 100000), "YAML"),
    ("options of 400,000 list items", marian(options="a: [" + "1," * 400000 + "1]"), "characters of YAML"),
    ("options of 90,000 keys", marian(options="".join(f"k{i}: 1\n" for i in range(90000))),
     "characters of YAML"),
    ("a number in base 60 of 400 kB", marian(options="a: " + "1:" * 200000 + "1"), "characters of YAML"),
    ("a number in base 60", marian(options="a: " + "1:" * 130000 + "1"), "YAML with a number of 260001 characters"),
    ("a float in base 60", marian(options="a: " + "1:" * 130000 + "1.5"), "YAML with a number of 260003"),
    ("a list of one that is itself", marian(options="a: &a [*a]"), "anchors and aliases"),
    ("options that run code", marian(options="!!python/object/apply:os.mkdir ['evil']"), "not YAML"),
    ("options with a date that is none", marian(options="a: 2001-99-99"), "not YAML"),
    ("an integer of 10^5 digits", marian(options=OPTIONS.replace(": 3\n", ": " + "9" * 100000 + "\n")),
     "YAML"),
    ("heads 10^30", marian(options=OPTIONS.replace(
        "transformer-heads: 3", f"transformer-heads: {10 ** 30}")), "n_heads is 1000"),
    ("heads are true", marian(options=OPTIONS.replace("transformer-heads: 3", "transformer-heads: true")),
     "n_heads is True"),
    ("an activation that is a list", marian(options=OPTIONS.replace('"swish"', "[a]")),
     "transformer-ffn-activation is ['a']"),
    ("depth of text", marian(options=OPTIONS.replace("enc-depth: 2", "enc-depth: x")),
     "n_encoder_layers is 'x'"),
    ("vocabs outside", marian(files=[("decoder.yml", b"models: [model.npz]\nvocabs: [../../x.yml]\n")]),
     "x.yml: missing"),
    ("vocabs are numbers", marian(files=[("decoder.yml", b"models: [model.npz]\nvocabs: [1, 2]\n")]),
     "vocabs is [1, 2]"),
    ("decoder.yml that is not UTF-8", marian(files=[("decoder.yml", b"\xff")]), "decoder.yml: not UTF-8"),
    ("a huge id", marian(files=[("vocab.yml", b"a: 0\nb: 999999999\n")]), "an id of 999999999"),
    ("an id of 10^5 digits", marian(files=[("vocab.yml", b"a: " + b"9" * 100000)]), "line 1"),
    ("duplicate ids", marian(files=[("vocab.yml", b"a: 0\nb: 0\n")]), "duplicate id 0"),
    ("half a surrogate pair", marian(files=[("vocab.yml", b'"\\ud800": 0\n')]), "surrogate"),
    ("a character past Unicode", marian(files=[("vocab.yml", b'"\\UFFFFFFFF": x\n')]), "line 1"),
]


# ------------------------------------------------------------------------- Argos's, a zip
def argos(*entries, metadata={"type": "translate"}, raw=None, deflate=False):
    def make(folder):
        path = folder / "x.argosmodel"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflate else 0) as archive:
            for name, data in (("p/metadata.json", json.dumps(metadata).encode()),
                               ("p/sentencepiece.model", b"x"), *entries):
                archive.writestr(name, data)
        path.write_bytes(raw(path.read_bytes()) if raw else path.read_bytes())
        return path
    return make


def link(name, kind=0o120777):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = kind << 16
    return entry


ARGOS = [
    ("no zip", argos(raw=lambda w: b"PK" + b"x" * 100), "which is a zip file"),
    ("an empty file", argos(raw=lambda w: b""), "which is a zip file"),
    ("a truncated zip", argos(raw=lambda w: w[:-30]), "which is a zip file"),
    ("damaged data", argos(raw=lambda w: w.replace(b"translate", b"trAnslate", 1)), "CRC"),
    ("a zip bomb", argos(("p/model/model.bin", bytes(1 << 28)), deflate=True), "whose entries are"),
    ("paths that lead out", argos(("p/../../../model/model.bin", b"x"), ("../p/metadata.json", b"x"),
                                  ("/p/model/model.bin", b"x"), ("C:\\model\\model.bin", b"x")),
     "no model/model.bin"),
    ("a link", argos((link("p/model/model.bin"), b"/etc/passwd")), "'p/model/model.bin' is no plain file"),
    ("a device", argos((link("p/model/model.bin", 0o020666), b"")), "is no plain file"),
    ("a file twice", argos(("p/model/model.bin", b"x"), ("q/model/model.bin", b"y")),
     "model/model.bin is there twice"),
    ("two packages", argos(("q/model/model.bin", b"x")), "2 packages in one file"),
    ("no model", argos(), "no model/model.bin"),
    ("a broken model", argos(("p/model/model.bin", b"\x06\0")), "ends at byte 2"),
    ("metadata that is a list", argos(metadata=[1]), "not an object"),
    ("a type with an escape", argos(metadata={"type": "\x1b[2J"}), "\\x1b[2J"),
    ("a prefix that is a number", argos(metadata={"target_prefix": 1}), "target_prefix is 1"),
    ("metadata alone", lambda f: (f / "metadata.json").write_text("{}") and (f / "model").mkdir(),
     "no sentencepiece.model"),
]


# ------------------------------------------------------------------------------ Marian's .bin
def student(change=lambda data: data, name="model.xxyy.intgemm.alphas.bin", options=None, items=(),
            files=()):
    """Writes a random student's file with changed bytes."""
    def make(folder):
        one = Student(20, 8, layers=(1, 1))
        one.items.update(items)
        if options is not None:
            one.items["special:model.yml"] = (0x101, [len(options)], options)
        one.write(folder / "plain")
        data = change((folder / "plain").read_bytes())
        (folder / "plain").unlink()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        for name_of, content in files:
            (folder / name_of).write_bytes(content)
    return make


def number_at(at, value, form="<Q"):
    def change(data):
        data = bytearray(data)
        struct.pack_into(form, data, at, value)
        return bytes(data)
    return change


def first_dims(*dims):
    def change(data):
        (n,) = struct.unpack_from("<Q", data, 8)
        heads = [struct.unpack_from("<4Q", data, 16 + 32 * i) for i in range(n)]
        at = 16 + 32 * n + sum(head[0] for head in heads)
        return number_at(at, struct.unpack("<Q", struct.pack("<2i", *dims))[0])(data)
    return change


def cut_gz(folder):
    student(name="model.bin.gz")(folder)
    path = folder / "model.bin.gz"
    path.write_bytes(path.read_bytes()[:-20])


SQUARE = (0x4101, [8, 8], b"\1" * 64 + struct.pack("<f", 9))
STUDENTS = [
    ("the version is 2", student(number_at(0, 2)), "version 2"),
    ("the first 20 bytes", student(lambda data: data[:20]), "headers of"),
    ("half", student(lambda data: data[:len(data) // 2]), "bytes at"),
    ("its last byte is missing", student(lambda data: data[:-1]), "bytes at"),
    ("one byte too many", student(lambda data: data + b"x"), "1 bytes after the last tensor"),
    ("2^60 tensors", student(number_at(8, 2 ** 60)), "headers of 1152921504606846976"),
    ("a name of 2^62 bytes", student(number_at(16, 2 ** 62)), "a name"),
    ("a name without its NUL", student(number_at(16, 3)), "a name b'Wem'"),
    ("a type that is none", student(number_at(24, 0x7777)), "type 0x7777"),
    ("2^63 dims", student(number_at(32, 2 ** 63)), "9223372036854775808 dims"),
    ("data of 2^63 bytes", student(number_at(40, 2 ** 63)), "Wemb: 9223372036854775808 bytes"),
    ("data of no bytes", student(number_at(40, 0)), "Wemb: 0 bytes for shape"),
    ("dims that multiply to more than 2^60", student(first_dims(2 ** 31 - 1, 2 ** 31 - 1)), "for shape"),
    ("negative dims", student(first_dims(-20, -8)), "shape [-20, -8]"),
    ("other dims, whose product is smaller", student(first_dims(20, 7)), "Wemb"),
    ("a scale that is no number", student(items={"decoder_l1_rnn_W": (
        0x4101, [8, 8], b"\1" * 64 + struct.pack("<f", float("nan")))}.items()), "a scale of nan"),
    ("a scale of 0", student(items={"decoder_l1_rnn_W": (
        0x4101, [8, 8], b"\1" * 64 + struct.pack("<f", 0))}.items()), "a scale of 0.0"),
    ("whole numbers without a scale", student(items={"decoder_l1_rnn_W": (
        0x101, [8, 8], b"\1" * 64)}.items()), "decoder_l1_rnn_W is int8"),
    ("a recurrence with more", student(items={"decoder_l1_rnn_U": SQUARE}.items()), "decoder_l1_rnn_U"),
    ("a recurrence of another shape", student(items={"decoder_l1_rnn_Wf": (
        0x4101, [8, 4], b"\1" * 32 + struct.pack("<f", 9))}.items()), "ssru_gate.weight"),
    ("both a recurrence and attention", student(items={"decoder_l1_self_Wq": SQUARE}.items()),
     "both self_attn and ssru"),
    ("no options", student(options=b"\0"), "special:model.yml"),
    ("another cell", student(options=b"type: transformer\ndec-cell: gru\n\0"), "dec-cell is 'gru'"),
    ("a .gz that unpacks to a gigabyte", student(name="other.bin.gz", change=lambda data: (
        struct.pack("<Q", 1) + bytes(1 << 26))), "unpacks to more"),
    ("a truncated .gz alone", cut_gz, "cut short"),
    ("a SentencePiece model that is none", student(files=[("vocab.xxyy.spm", b"xxxx")]),
     "not a SentencePiece model"),
    ("two models", student(files=[("model.b.bin", struct.pack("<Q", 1))]), "2 models"),
    ("a model elsewhere", student(files=[("config.a.yml", b"models: [../../x.bin]\n")]), "x.bin: missing"),
]


# --------------------------------------------------------------------------------- PyTorch's pickles
def pt(value, *arguments, write=pickled.write_zip, change=None, **more):
    """Writes x.pt with that object, or with the bytes of a pickle."""
    def make(folder):
        path = write(folder / "x.pt", value, *arguments, **more)
        if change:
            path.write_bytes(change(path.read_bytes()))
        return path
    return make


def legacy(value=None, **more):
    return pt({"a": tensor()} if value is None else value, write=pickled.write_legacy, **more)


def one(*arguments, **more):
    return pt({"a": tensor(*arguments)}, **more)


def hf_pickle(value):
    def make(folder):
        hf_write(folder, "m2m_100", 40)
        (folder / "model.safetensors").unlink()
        pickled.write_zip(folder / "pytorch_model.bin", value)
    return make


def same_place(data):
    """Both storages refer to one entry of the archive."""
    at, name_at = data.rindex(b"PK\1\2"), data.index(b"archive/data/0")
    return data[:at + 42] + struct.pack("<I", name_at - 30) + data[at + 46:]


def flagged(data):
    at = data.rindex(b"PK\1\2")
    return data[:at + 8] + b"\1" + data[at + 9:]


MKDIR = name("posix", "mkdir")
COLLIDING = {k * (2 ** 61 - 1): None for k in range(1, 60000)}  # integers with the same hash
PICKLES = [
    ("a call of mkdir", pt({"a": call(MKDIR, "evil")}), "'posix.mkdir'", "run code", "state_dict()"),
    ("a call of mkdir in a legacy file", legacy({"a": call(MKDIR, "evil")}), "'posix.mkdir'"),
    ("a bare pickle", lambda f: (f / "x.pt").write_bytes(pickled.pickled({"a": call(MKDIR, "evil")})) and
     f / "x.pt", "'posix.mkdir'"),
    ("a call of mkdir in pytorch_model.bin", hf_pickle({"a": call(MKDIR, "evil")}), "'posix.mkdir'"),
    ("names from the stack", pt({"a": Raw(encode("os") + encode("mkdir") + b"\x93")}), "'os.mkdir'"),
    ("names that are no texts", pt({"a": Raw(b"NN\x93")}), "holds ''"),
    ("an instance by its old instruction", pt({"a": Raw(b"(ios\nmkdir\n")}), "no instruction"),
    ("an extension's code", pt({"a": Raw(b"\x82\1")}), "no instruction"),
    ("a name with an escape", pt({"a": name("\x1b[2J", "x" * 5000)}), "\\x1b"),
    ("a name without end", pt(b"\x80\x02c" + b"x" * 5000), "beside its tensors"),
    ("a whole module", pt(Raw(name("__main__", "Model") + b")\x81}b")), "'__main__.Model'", "state_dict()"),
    ("a sparse tensor", pt({"a": call(name("torch._utils", "_rebuild_sparse_tensor"))}), "sparse_tensor"),
    ("a call of a type", pt({"a": call(name("torch", "FloatStorage"), "x")}), "a call of"),
    ("a call of a text", pt({"a": call(encode("x"))}), "a call of 'x'"),
    ("a call without arguments", pt({"a": call(name("torch._utils", "_rebuild_tensor_v2"))}), "the arguments ()"),
    ("a call of 100 arguments", pt({"a": call(name("torch", "Size"), *range(100))}), "100 arguments"),
    ("a state for a tensor", pt({"a": Raw(tensor() + b"}b")}), "a state of something"),
    ("an offset beyond the storage", one(None, 4, (1,)), "reaches beyond the 4 elements"),
    ("an offset of -1", one(None, -1), "offset is [-1]"),
    ("strides of 2^61", one(None, 0, (2, 2), (2 ** 61, 2 ** 61)), "reaches beyond"),
    ("strides of 2^200", one(None, 0, (2, 2), (2 ** 200, 1)), "strides is"),
    ("strides of -1", one(None, 3, (4,), (-1,)), "strides is (-1,)"),
    ("a shape of 2^40 that shares memory", one(None, 0, (2 ** 40,), (0,)), "share memory"),
    ("a shape that wraps", one(None, 0, (2 ** 32, 2 ** 32), (0, 0)), "share memory"),
    ("a shape of nothing times 2^61", one(None, 0, (0, 2 ** 61, 2 ** 61), (1, 1, 1)), "a call with the arguments"),
    ("a shape of true", one(None, 0, (True,)), "shape is (True,)"),
    ("a shape of 1,000 dimensions", one(None, 0, (1,) * 1000, (1,) * 1000), "shape is"),
    ("a shape without strides", one(None, 0, (4,), ()), "with strides ()"),
    ("negated numbers", one(None, 0, (4,), (1,), {"neg": True}), "neg"),
    ("a tensor of a tensor", one(tensor(None, 0, (2, 2), (2, 1))), "which is no storage"),
    ("a storage of -1 elements", one(storage(size=-1)), "a storage that is"),
    ("a storage of 2^62 elements", one(storage(size=2 ** 62)), "16 bytes, not 4611686018427387904"),
    ("a storage of text", one(storage(kind="Text")), "torch.TextStorage"),
    ("a storage that is elsewhere", one(storage("../../x")), "no entry 'archive/data/../../x'"),
    ("a storage that is not there", one(storage("1")), "no entry 'archive/data/1'"),
    ("a storage shorter than it says", one(storage(size=5)), "16 bytes, not 5 elements"),
    ("a storage of two types", pt({"a": tensor(), "b": tensor(storage(size=2, kind="Double"), 0, (2,))}),
     "as 2 of float64"),
    ("a storage that is a view", one(storage("0", 4, "Float", ("1", 0, 4))), "a storage that is"),
    ("nothing to store", pt({"a": Raw(b"NQ")}), "a storage that is None"),
    ("an empty stack", pt(b"\x80\x02."), "without what it works on"),
    ("an end without a beginning", pt(b"\x80\x02u."), "an end without"),
    ("an object that was not kept", pt(b"\x80\x02j\xff\xff\xff\xff."), "without what it works on"),
    ("the largest place to keep", pt(b"\x80\x02]r\xff\xff\xff\xff."), "holds a list"),
    ("a text of 4 GB", pt(b"\x80\x02X\xff\xff\xff\xff"), "ends within a pickle"),
    ("a text of 2^63 bytes", pt(b"\x80\x02\x8d" + b"\xff" * 8), "ends within a pickle"),
    ("a text that is not UTF-8", pt(b"\x80\x02X\1\0\0\0\xff."), "not UTF-8"),
    ("an odd number of entries", pt(b"\x80\x02}(Nu."), "a dictionary's entries"),
    ("items of a text", pt(b"\x80\x02X\0\0\0\0(Ne."), "a list's items"),
    ("lists of a million levels", pt(b"\x80\x02" + b"]" * 1000000 + b"a" * 999999 + b"."), "holds a list"),
    ("tuples of a million levels as a key", pt(b"\x80\x02})" + b"\x85" * 1000000 + b"Ns."), "the key ((((((("),
    ("a million marks", pt(b"\x80\x02" + b"(" * 1000000), "ends within a pickle"),
    ("60,000 keys of one hash", pt(COLLIDING), "the key 2305843009213693951"),
    ("a key of a float", pt(b"\x80\x02}G" + b"\0" * 8 + b"Ns."), "the key 0.0"),
    ("one list, copied again and again", pt(b"\x80\x02" + encode([(i, None) for i in range(99999)]) + b"q\0" +
                                             (name("collections", "OrderedDict") + b"h\0\x85R0") * 9999 + b"."),
     "again and again"),
    ("a dictionary of numbers", pt({"a": call(name("collections", "OrderedDict"), [1])}), "than pairs"),
    ("a pickle of 17 MB", pt(b"\x80\x02" + b"N0" * (17 << 19) + b"."), "more than 16777216 bytes"),
    ("a dictionary that holds itself", pt(b"\x80\x02}q\0" + encode("model") + b"h\0s."), "no tensors"),
    ("a tensor whose name is a number", pt({5: tensor()}), "name is 5"),
    ("an option that laughs a billion times", pt({"model": {}, "generator": {}, "vocab": {}, "opt": Raw(
        name("argparse", "Namespace") + b")\x81}" + encode("encoder_type") + encode(["ha"] * 10) + b"".join(
            b"q\x000](" + b"h\0" * 10 + b"e" for _ in range(12)) + b"sb")}), "encoder_type is [["),
    ("OpenNMT-py whose opt is a list", pt({"model": {}, "generator": {}, "vocab": [], "opt": []}), "no weights"),
    ("a zip bomb", pt({"a": tensor(storage(size=1 << 26), 0, (1 << 26,))}, {"0": bytes(1 << 28)},
                      method=zipfile.ZIP_DEFLATED), "whose entries are"),
    ("a truncated zip", one(change=lambda data: data[:-30]), "not a checkpoint"),
    ("a zip of two pickles", one(more=[("b/data.pkl", b"")]), "2 entries NAME/data.pkl"),
    ("a zip without a pickle", lambda f: (f / "x.pt", zipfile.ZipFile(f / "x.pt", "w").writestr("a", "b"))[0],
     "0 entries NAME/data.pkl"),
    ("an entry twice", one(more=[("archive/data/0", bytes(16))]), "which is there twice"),
    ("two storages in one place", one(more=[("archive/data/1", bytes(16))], change=same_place), "overlaps"),
    ("a storage beyond the file", one(change=lambda data: data.replace(
        struct.pack("<II", 16, 16), struct.pack("<II", 1 << 20, 1 << 20))), "ends outside"),
    ("an encrypted entry", one(change=flagged), "encrypted"),
    ("a TorchScript program", one(more=[("archive/constants.pkl", b"")]), "TorchScript"),
    ("a big-endian zip", one(more=[("archive/byteorder", b"big")]), "big-endian"),
    ("a legacy file, big-endian", legacy(little=False), "big-endian"),
    ("a legacy file, of another magic number", legacy(magic=5), "magic number"),
    ("a legacy file without its storages", legacy(keys=(), storages=()), "storages of tensors are missing"),
    ("a legacy file with a storage twice", legacy(keys=("0", "0")), "twice"),
    ("a legacy file with a storage of nobody", legacy(keys=("1",)), "which no tensor has"),
    ("a legacy file with another size", legacy(storages=[(5, bytes(20))]), "of 5 elements, not 4"),
    ("a truncated legacy file", legacy(change=lambda data: data[:-1]), "of 4 elements, not 4, at byte"),
    ("a legacy file of 2^50 elements", legacy({"a": tensor(storage(size=2 ** 50))}), "1125899906842624 elements"),
    ("an empty file", lambda f: (f / "x.pt").touch() or f / "x.pt", "not a checkpoint"),
    ("a text", lambda f: (f / "x.pt").write_text("a text\n") and f / "x.pt", "not a checkpoint"),
    ("100,000 tensors of no layer", pt({f"a{i}": tensor() for i in range(100000)}), "no place"),
]


class Hostile(HostileCase):
    def test_broken_pickles(self):
        """With any changed bytes in a checkpoint the reader must end with arrays or a message."""
        random = np.random.default_rng(5)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.pt"
            for write in (pickled.write_zip, pickled.write_legacy):
                arrays = {f"a{i}": random.normal(size=(3, i)).astype("f4") for i in range(4)}
                whole = pickled.save(path, arrays, write).read_bytes()
                found = pickles.load(path)
                self.assertTrue(all(np.array_equal(found[key], arrays[key]) for key in arrays))
                read = 0
                for _ in range(1000):
                    data = bytearray(whole)
                    for at in random.integers(0, len(data), random.integers(1, 4)):
                        data[at] = random.integers(256)
                    path.write_bytes(data)
                    try:
                        found = pickles.load(path)
                        read += sum(float(np.nansum(one.astype("f4"))) is not None for one in (
                            found.values() if isinstance(found, dict) else ()) if isinstance(one, np.ndarray))
                    except ConvertError as error:
                        self.assertIn("x.pt", str(error))
                self.assertGreater(read, 100)


# One test for each row, so that a slice of the tests (tests/run.py) is a slice of the rows.
for kind, rows in (("argos", ARGOS), ("ctranslate2", CTRANSLATE2), ("hugging_face", HUGGING_FACE),
                   ("marian", MARIAN), ("marian_bin", STUDENTS), ("pickles", PICKLES), ("safetensors", SAFETENSORS)):
    for at, row in enumerate(rows):
        setattr(Hostile, f"test_{kind}_{at:03}", partialmethod(Hostile.check, *row))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
