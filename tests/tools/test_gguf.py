#!/usr/bin/env python3
"""Tests the converter with files of ggml's programs: GGUF of T5, ggml-*.bin of Whisper: python tests/tools/test_gguf.py

The package gguf writes and dequantizes the weights. A Hugging Face folder with the same dequantized weights must become
the same model file: the same bits of each tensor, the same config, the same ids of texts. transformers' own reading of
such folders is compared in test_t5.py and test_whisper.py. compare_ggml.py (make test-gguf) has llama.cpp's quantizer, and
whisper.cpp with real models.

MUTANTS=10000 in the environment changes as many files as that, and not a few hundred."""

import contextlib
import io
import json
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import traceback
import unittest
from pathlib import Path

import numpy as np

import import_path  # noqa: F401

try:
    import gguf
    import sentencepiece
    from gguf import GGMLQuantizationType as Kind
except ImportError as error:
    raise unittest.SkipTest(f"{error}: make oracles has it") from None

from convert import checkpoints_ggml, ggml_files, main as convert, whisper
from convert.modelfile import write_safetensors
from convert.untrusted import read_safetensors
from ggml_writers import name_of, whisper_tensors, write_gguf, write_whisper

MUTANTS = int(os.environ.get("MUTANTS", "100"))
MEMORY = 300 << 20  # that a process may take for files of at most 2 MB, in addition to what it has when it begins
ROWS, WIDTH, HEADS, KEY, FEED, BUCKETS = 316, 256, 4, 64, 256, 8
# What dequantizes in the package gguf; its python code quantizes only some of these types.
DEQUANTIZED = [kind for kind in Kind if kind in gguf.quants._type_traits]
random_of = np.random.default_rng


def pieces(folder, **options):
    """A SentencePiece model as T5's, with a language of MADLAD-400's."""
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz" + "\u00e4\u00f6\u00fc\u4e2d\u6587\u043f\u0440"
    lines = [" ".join("".join(rng.choices(letters, k=rng.randint(1, 7))) for _ in range(8)) for _ in range(400)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(folder / "spiece"), vocab_size=300 + 256 * bool(options.get("byte_fallback")), pad_id=0, eos_id=1, unk_id=2,
        bos_id=-1, minloglevel=2, num_threads=1, hard_vocab_limit=True, **options)
    (folder / "spiece.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(str(folder / "spiece.model"))


def t5_tensors(seed=1, gated=True, layers=(2, 2), head=False, own_tables=False, width=WIDTH, rows=ROWS, feed=FEED):
    """Random weights under the names of transformers."""
    rng, found = random_of(seed), {}

    def put(name, *shape):
        found[name] = (rng.normal(size=shape) * 0.3 + (len(shape) == 1)).astype(np.float32)

    put("shared.weight", rows, width)
    for side, count in zip(("encoder", "decoder"), layers):
        for i in range(count):
            block = f"{side}.block.{i}.layer"
            parts = ["0.SelfAttention", *["1.EncDecAttention"] * (side == "decoder")]
            for j, part in enumerate(parts):
                for one in "qkv":
                    put(f"{block}.{part}.{one}.weight", HEADS * KEY, width)
                put(f"{block}.{part}.o.weight", width, HEADS * KEY)
                put(f"{block}.{j}.layer_norm.weight", width)
            if i == 0 or own_tables:
                put(f"{block}.0.SelfAttention.relative_attention_bias.weight", BUCKETS, HEADS)
            last = len(parts)
            for one in ("wi_0", "wi_1") if gated else ("wi",):
                put(f"{block}.{last}.DenseReluDense.{one}.weight", feed, width)
            put(f"{block}.{last}.DenseReluDense.wo.weight", width, feed)
            put(f"{block}.{last}.layer_norm.weight", width)
        put(f"{side}.final_layer_norm.weight", width)
    if head:
        put("lm_head.weight", rows, width)
    return found


def t5_fields(processor=None, layers=(2, 2), width=WIDTH, rows=ROWS, feed=FEED):
    """The fields that llama.cpp's converter writes. It does not keep the type of user-defined pieces."""
    fields = {
        "general.name": "a test", "general.license": "mit", "general.file_type": 1, "general.quantization_version": 2,
        "t5.context_length": 512, "t5.embedding_length": width, "t5.feed_forward_length": feed, "t5.block_count": layers[0],
        "t5.decoder_block_count": layers[1], "t5.attention.head_count": HEADS, "t5.attention.key_length": KEY,
        "t5.attention.value_length": KEY, "t5.attention.layer_norm_epsilon": 1e-6,
        "t5.attention.relative_buckets_count": BUCKETS, "t5.attention.layer_norm_rms_epsilon": 1e-6,
        "t5.decoder_start_token_id": 0}
    if processor:
        tokens = [f"[PAD{at}]" for at in range(rows)]
        scores, types = [-10000.0] * rows, [5] * rows
        for at in range(len(processor)):
            tokens[at], scores[at] = processor.id_to_piece(at), processor.get_score(at)
            types[at] = (2 if processor.is_unknown(at) else 3 if processor.is_control(at) else
                         6 if processor.is_byte(at) else 1)
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
        model = ModelProto.FromString(processor.serialized_model_proto())
        fields.update({
            "tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True,
            "tokenizer.ggml.precompiled_charsmap": model.normalizer_spec.precompiled_charsmap,
            "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.unknown_token_id": 2, "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": True})
    return fields


def write_folder(folder, tensors, gated=True, layers=(2, 2), kind="t5", tied=True, feed=FEED, width=WIDTH):
    """The Hugging Face folder of the same model."""
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({
        "model_type": kind, "transformers_version": "5.24.0", "d_model": width, "d_kv": KEY, "d_ff": feed,
        "num_heads": HEADS, "num_layers": layers[0], "num_decoder_layers": layers[1],
        "relative_attention_num_buckets": BUCKETS, "layer_norm_epsilon": 1e-6, "tie_word_embeddings": tied,
        "scale_decoder_outputs": tied, "feed_forward_proj": "gated-gelu" if gated else "relu", "eos_token_id": 1,
        "pad_token_id": 0, "decoder_start_token_id": 0}))
    return folder


class Case(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = Path(place.name)

    def run_main(self, *arguments):
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            status = convert.main([*map(str, arguments), "--no-check"])
        return status, told.getvalue()

    def convert(self, source, *options):
        out = self.path / "out.safetensors"
        status, self.said = self.run_main(source, out, *options)
        self.assertEqual(status, 0, self.said)
        return read_safetensors(out)

    def refuse(self, source, *says, options=()):
        out = self.path / "refused.safetensors"
        status, told = self.run_main(source, out, *options)
        self.assertEqual((status, out.exists()), (1, False), told)
        for one in says:
            self.assertIn(one, told)
        self.assertTrue(told.startswith("convert.py: "), told)
        self.assertNotIn(tempfile.gettempdir() + "/tmp", told.replace(str(self.path), ""))
        return told

    def compare(self, mine, folder, but=("license",)):
        """The same tensors to the bit, and the same config, as of the folder; texts by the ids of some lines."""
        (found, about), (wanted, said) = mine, self.convert(folder)
        self.assertEqual(json.loads(about.pop("transformer.config")), json.loads(said.pop("transformer.config")))
        self.assertEqual({key: one for key, one in about.items() if key not in but}, said)
        self.assertEqual(sorted(found), sorted(wanted))
        for name, tensor in wanted.items():
            if name.endswith("_sentencepiece"):
                self.compare_texts(found[name].tobytes(), tensor.tobytes())
                continue
            same = found[name].dtype == tensor.dtype and found[name].shape == tensor.shape and (
                found[name].tobytes() == tensor.tobytes())
            self.assertTrue(same, f"{name}: {found[name].dtype} {found[name].shape}, {tensor.dtype} {tensor.shape}")

    def compare_texts(self, one, other):
        """SentencePiece models whose trainers' settings may differ, which no text depends on."""
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
        models = [ModelProto.FromString(each) for each in (one, other)]
        self.assertEqual(*([(one.piece, one.score, one.type) for one in each.pieces] for each in models))
        for key in ("precompiled_charsmap", "add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
            self.assertEqual(*(getattr(each.normalizer_spec, key) for each in models), key)
        for key in ("model_type", "byte_fallback", "treat_whitespace_as_suffix", "unk_id"):
            self.assertEqual(*(getattr(each.trainer_spec, key) for each in models), key)


def random_blocks(kind, shape, seed):
    """Blocks of any bits: each is a number of this type, or not finite."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    return random_of(seed).integers(0, 256, (*shape[:-1], shape[-1] // elements * size), np.uint8)


class T5(Case):
    def test_types(self):
        """Every type that gguf dequantizes, a matrix each of one model; the numbers are gguf's to the bit."""
        tensors, kinds, blocks = t5_tensors(), {}, {}
        matrices = [name for name in tensors if tensors[name].ndim == 2 and "relative" not in name and "shared" not in name]
        plain = [Kind.F16, Kind.BF16, Kind.F32]
        self.assertGreaterEqual(len(matrices), len(DEQUANTIZED) + len(plain))
        for at, (name, kind) in enumerate(zip(matrices, [*DEQUANTIZED, *plain])):
            mine = name_of(name)
            kinds[mine] = kind
            if kind in DEQUANTIZED and kind != Kind.BF16:
                blocks[mine] = random_blocks(kind, tensors[name].shape, at)
                with np.errstate(all="ignore"):
                    tensors[name] = gguf.quants.dequantize(blocks[mine], kind).reshape(tensors[name].shape)
            elif kind == Kind.F16:
                tensors[name] = tensors[name].astype(np.float16)
        processor = pieces(self.path, user_defined_symbols="<2de>,<2fr>")
        path = self.path / "model.gguf"
        write_gguf(path, {name_of(name): tensor for name, tensor in tensors.items()}, t5_fields(processor), kinds=kinds,
                   blocks=blocks)
        mine = self.convert(path)
        self.assertEqual(mine[1]["license"], "mit")
        self.assertIn("weights of type", self.said)
        # in the folder, what was BF16 in the GGUF file is F32; both become BF16's numbers
        for name in tensors:
            if kinds.get(name_of(name)) == Kind.BF16:
                bits = gguf.quants.quantize(tensors[name], Kind.BF16)
                tensors[name] = gguf.quants.dequantize(bits, Kind.BF16)
        folder = write_folder(self.path / "hf", tensors)
        (self.path / "spiece.model").rename(folder / "spiece.model")
        mine = ({name: self.widened(tensor) for name, tensor in mine[0].items()}, mine[1])
        self.compare(mine, folder)

    def widened(self, tensor):
        return gguf.quants.dequantize(tensor.view(np.uint8), Kind.BF16) if tensor.dtype.names else tensor

    def test_quantized(self):
        """Whole files of each type that gguf's Python code writes, and what settings follow from their tensors."""
        cases = [(Kind.Q8_0, {}), (Kind.Q4_0, {"gated": False}), (Kind.Q5_1, {"head": True}), (Kind.F16, {"layers": (1, 3)}),
                 (Kind.Q5_0, {"own_tables": True}), (Kind.Q4_1, {"layers": (3, 1), "gated": False, "head": True})]
        for kind, options in cases:
            with self.subTest(kind.name, **options):
                tensors = t5_tensors(seed=int(kind), **options)
                layers, gated = options.get("layers", (2, 2)), options.get("gated", True)
                kinds = {name_of(name): kind for name, one in tensors.items() if one.ndim == 2 and "relative" not in name}
                write_gguf(self.path / "m.gguf", {name_of(name): one for name, one in tensors.items()},
                           t5_fields(layers=layers), kinds=kinds)
                for name, one in tensors.items():
                    if name_of(name) in kinds and kind != Kind.F16:
                        tensors[name] = gguf.quants.dequantize(gguf.quants.quantize(one, kind), kind)
                    elif name_of(name) in kinds:
                        tensors[name] = one.astype(np.float16)
                folder = write_folder(self.path / "hf", tensors, gated, layers, tied=not options.get("head"),
                                      kind="umt5" if options.get("own_tables") else "t5")
                self.compare(self.convert(self.path / "m.gguf"), folder)

    def test_output_of_another_type(self):
        """An output that is the embedding in another type of blocks is scaled as a tied one; another one is not."""
        tensors = t5_tensors(layers=(1, 1))
        tensors["lm_head.weight"] = tensors["shared.weight"]
        path = self.path / "m.gguf"
        for kind, scaled in ((Kind.Q4_0, True), (Kind.F32, True), (None, False)):
            with self.subTest(kind):
                if kind is None:
                    tensors["lm_head.weight"] = tensors["shared.weight"][::-1].copy()
                write_gguf(path, {name_of(name): one for name, one in tensors.items()}, t5_fields(layers=(1, 1)),
                           kinds={"output.weight": kind or Kind.F32})
                found, _ = self.convert(path)
                factor = WIDTH ** -0.5 if scaled else 1
                self.assertTrue(np.allclose(found["decoder.norm.weight"], factor * tensors["decoder.final_layer_norm.weight"]))
                self.assertEqual("generator.weight" in found, kind != Kind.F32)
                self.assertEqual("in another precision" in self.said, kind == Kind.Q4_0)

    def test_texts(self):
        """Pieces, added tokens and padding, as of the folder with spiece.model that llama.cpp's converter reads."""
        for number, (options, added) in enumerate([
                ({}, {}), ({"user_defined_symbols": "<2de>,<2fr>,<2zh>"}, {"<extra>": 300, "more": 302}),
                ({"normalization_rule_name": "identity"}, {}), ({"byte_fallback": True, "character_coverage": 0.98}, {})]):
            with self.subTest(**options):
                rows = 600 if "byte_fallback" in options else ROWS
                tensors = t5_tensors(layers=(1, 1), rows=rows)
                folder = write_folder(self.path / f"hf{number}", tensors, layers=(1, 1))
                fields = t5_fields(pieces(folder, **options), layers=(1, 1), rows=rows)
                for token, at in added.items():
                    fields["tokenizer.ggml.tokens"][at] = token
                    fields["tokenizer.ggml.scores"][at] = -1000.0
                    fields["tokenizer.ggml.token_type"][at] = 4
                if added:
                    (folder / "added_tokens.json").write_text(json.dumps(added))
                if not fields["tokenizer.ggml.precompiled_charsmap"]:
                    del fields["tokenizer.ggml.precompiled_charsmap"]
                path = self.path / "m.gguf"
                write_gguf(path, {name_of(name): one for name, one in tensors.items()}, fields)
                mine = self.convert(path)
                self.compare(mine, folder)
                languages = json.loads(self.convert(path)[1]["transformer.config"]).get("languages", {})
                self.assertEqual(sorted(languages), ["de", "fr", "zh"] if len(added) else [])

    def test_candle(self):
        """Files without fields, whose names are Hugging Face's, need the folder's config.json."""
        tensors = t5_tensors(layers=(1, 1))
        folder = write_folder(self.path / "hf", tensors, layers=(1, 1))
        pieces(folder)
        other = self.path / "candle"
        other.mkdir()
        for name in ("config.json", "spiece.model"):
            (other / name).write_bytes((folder / name).read_bytes())
        write_gguf(other / "model.gguf", tensors, arch=None)
        for source in (other, other / "model.gguf"):
            self.compare(self.convert(source), folder)
        (other / "model-q6k.gguf").write_bytes(b"GGUF")
        self.refuse(other, "2 GGUF files, model-q6k.gguf, model.gguf: name one as IN")
        (other / "config.json").unlink()
        self.refuse(other / "model.gguf", "no general.architecture", "config.json")

    def test_fields(self):
        """Each field is used, or refused by its name, or has no effect."""
        tensors = {name_of(name): one for name, one in t5_tensors(layers=(1, 1)).items()}
        base = t5_fields(pieces(self.path), layers=(1, 1))
        path = self.path / "m.gguf"
        kind = gguf.GGUFValueType

        def write(changes, but=()):
            write_gguf(path, tensors, {key: one for key, one in {**base, **changes}.items() if key not in but})

        write({})
        first = self.convert(path)
        for key, value in {"general.name": "x", "t5.context_length": 7, "general.file_type": 2, "tokenizer.chat_template": "x",
                           "general.tags": ["a"], "quantize.imatrix.file": "x", "tokenizer.ggml.mask_token_id": 5,
                           "general.sampling.temp": 0.5, "split.count": (kind.UINT16, 1), "t5.vocab_size": ROWS,
                           "t5.attention.head_count_kv": HEADS, "tokenizer.ggml.add_space_prefix": False,
                           "general.type": "model", "tokenizer.ggml.bos_token_id": 1, "whatever.else": 1}.items():
            with self.subTest(key):
                write({key: value})
                found = self.convert(path)
                self.assertEqual(found[1], first[1])
                for name in first[0]:
                    self.assertEqual(found[0][name].tobytes(), first[0][name].tobytes(), name)
        self.assertIn("whatever.else", self.said)
        config = json.loads(first[1]["transformer.config"])
        for changes, wanted in (({"t5.decoder_start_token_id": 5}, {"start": 5}),
                                ({"tokenizer.ggml.eos_token_id": 4}, {"end": 4, "src_end": 4}),
                                ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 7}, {"src_start": 7}),
                                ({"tokenizer.ggml.add_eos_token": False}, {"src_end": None}),
                                ({"t5.attention.layer_norm_rms_epsilon": 1e-4, "t5.attention.layer_norm_epsilon": 1e-4},
                                 {"layer_norm_eps": 1e-4})):
            with self.subTest(**changes):
                write(changes)
                found = json.loads(self.convert(path)[1]["transformer.config"])
                self.assertEqual({key: found.get(key) for key in wanted}, wanted)
                self.assertNotEqual({key: config.get(key) for key in wanted}, wanted)
        for changes, *says in (
                ({"t5.embedding_length": 128}, "token_embd.weight is [316, 256]", "['any', 128]"),
                ({"t5.feed_forward_length": 128}, "enc.blk.0.ffn_up.weight"), ({"t5.attention.head_count": 8}, "enc.blk.0.attn_q"),
                ({"t5.attention.key_length": 32}, "t5.attention.value_length is 64"),
                ({"t5.attention.relative_buckets_count": 9}, "enc.blk.0.attn_rel_b.weight is [8, 4]"),
                ({"t5.block_count": 2}, "t5.block_count is 2"), ({"t5.decoder_block_count": 2}, "t5.decoder_block_count is 2"),
                ({"t5.attention.head_count_kv": 2}, "t5.attention.head_count_kv is 2, where 4 is expected"),
                ({"t5.attention.layer_norm_epsilon": 0.5}, "t5.attention.layer_norm_epsilon is 0.5"),
                ({"t5.vocab_size": 5}, "token_embd.weight"), ({"t5.expert_count": 4}, "t5.expert_count is 4", "--ignore-key"),
                ({"t5.block_count": 1.5}, "t5.block_count is 1.5; it takes an integer"),
                ({"tokenizer.ggml.normalizer.lowercase": True}, "tokenizer.ggml.normalizer.lowercase is True", "--ignore-key"),
                ({"tokenizer.ggml.model": "gpt2"}, "tokenizer.ggml.model is 'gpt2'", "--ignore-key tokenizer.ggml.model"),
                ({"tokenizer.ggml.pre": "llama-bpe"}, "tokenizer.ggml.pre is 'llama-bpe'"),
                ({"tokenizer.ggml.eot_token_id": 999}, "tokenizer.ggml.eot_token_id is 999"),
                ({"tokenizer.ggml.eos_token_id": 999}, "tokenizer.ggml.eos_token_id is 999"),
                ({"t5.decoder_start_token_id": 316}, "t5.decoder_start_token_id is 316, and token_embd.weight has 316 rows"),
                ({"tokenizer.ggml.unknown_token_id": 5}, "tokenizer.ggml.unknown_token_id is 5"),
                ({"tokenizer.ggml.add_bos_token": True}, "no bos_token_id"),
                ({"tokenizer.ggml.tokens": ["a"]}, "tokenizer.ggml.tokens has 1 entries"),
                ({"tokenizer.ggml.scores": [0.0] * (ROWS - 1)}, "tokenizer.ggml.scores has 315 entries"),
                ({"tokenizer.ggml.token_type": [9] * ROWS}, "tokenizer.ggml.token_type has 9"),
                ({"general.type": "adapter"}, "general.type is 'adapter'"), ({"general.type": "mmproj"}, "general.type is 'mmproj'"),
                ({"general.quantization_version": 1}, "general.quantization_version is 1", "anew"),
                ({"split.count": (kind.UINT16, 3)}, "split.count is 3", "llama-gguf-split --merge")):
            with self.subTest(**{key: str(one)[:20] for key, one in changes.items()}):
                write(changes)
                self.refuse(path, *says)
        for key in ("t5.embedding_length", "t5.block_count", "t5.attention.head_count", "t5.attention.relative_buckets_count",
                    "t5.attention.layer_norm_rms_epsilon", "t5.feed_forward_length"):
            with self.subTest(missing=key):
                write({}, (key,))
                self.refuse(path, f"{key} is missing")
        write({"t5.expert_count": 4})
        self.assertEqual(self.convert(path, "--ignore-key", "t5.expert_count")[1], first[1])
        self.refuse(path, "--ignore-key t5.x", options=("--ignore-key", "t5.x"))
        write({"tokenizer.ggml.model": "gpt2"})
        self.assertNotIn("src_sentencepiece", self.convert(path, "--ignore-key", "tokenizer.ggml.model")[0])

    def test_names(self):
        """--drop, --map and messages have the file's own names of tensors."""
        tensors = {name_of(name): one for name, one in t5_tensors(layers=(1, 1)).items()}
        path = self.path / "m.gguf"
        write_gguf(path, {**tensors, "dec.blk.0.cross_attn_rel_b.weight": np.zeros((BUCKETS, HEADS), "f4"),
                          "enc.blk.0.attn_q.scale": np.zeros(4, "f4")}, t5_fields(layers=(1, 1)))
        self.refuse(path, "enc.blk.0.attn_q.scale", "--drop enc.blk.0.attn_q.scale")
        self.convert(path, "--drop", "enc.blk.0.attn_q.scale")
        self.assertRegex(self.said, r"enc\.blk\.0\.attn_k\.weight +-> encoder\.layers\.0\.self_attn\.k_proj\.weight")
        self.assertNotIn("SelfAttention", self.said)

    def test_architectures(self):
        """Models that are no encoder-decoders are refused by the name of their architecture."""
        for arch, says in (("llama", "a decoder alone"), ("qwen3moe", "a decoder alone"), ("gemma3", "a decoder alone"),
                           ("t5encoder", "an encoder alone"), ("nomic-bert", "an encoder alone"),
                           ("gemma-embedding", "an encoder alone"), ("clip", "reads images or sound")):
            with self.subTest(arch):
                write_gguf(self.path / "m.gguf", {"token_embd.weight": np.zeros((4, 4), "f4")}, {}, arch)
                self.refuse(self.path / "m.gguf", f"general.architecture is '{arch}': ", says, "is t5")

    def test_types_that_are_not_read(self):
        path = self.path / "m.gguf"
        write_gguf(path, {"token_embd.weight": np.zeros((4, 32), "f4")}, {}, kinds={"token_embd.weight": Kind.Q8_1},
                   blocks={"token_embd.weight": np.zeros((4, 40), np.uint8)})
        self.refuse(path, "token_embd.weight has the type Q8_1; read are F32")

    def test_table(self):
        """The table of types is gguf's, and so is what the reader finds in a file."""
        sizes = {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items()}
        for number, kind in ggml_files.KINDS.items():
            self.assertEqual((kind.name, kind.elements, kind.bytes), (Kind(number).name, *sizes[number]))
        self.assertEqual({kind.name for kind in ggml_files.KINDS.values()},
                         {kind.name for kind in [*DEQUANTIZED, Kind.F32, Kind.F16, Kind.F64]})
        for number, name in ggml_files.UNREAD.items():
            self.assertEqual(getattr(Kind, name, number), number)
        values = gguf.GGUFValueType
        fields = {**t5_fields(pieces(self.path)), "a.u8": (values.UINT8, 200), "a.i8": (values.INT8, -3),
                  "a.i16": (values.INT16, -300), "a.u64": (values.UINT64, 1 << 60), "a.i64": (values.INT64, -1 << 40),
                  "a.f64": (values.FLOAT64, 1e-300), "general.alignment": 64}
        tensors = {"a.b": random_of(1).normal(size=(2, 3, 4)).astype("f4"), "c": np.ones(5, "f4")}
        write_gguf(self.path / "m.gguf", tensors, fields)
        mine, reader = ggml_files.read_gguf(self.path / "m.gguf"), gguf.GGUFReader(self.path / "m.gguf")
        for key, field in reader.fields.items():
            if not key.startswith("GGUF."):
                found, wanted = mine.fields[key], field.contents()
                found = [one.decode() if isinstance(one, bytes) else one for one in found] if isinstance(
                    found, (list, np.ndarray)) else found
                self.assertEqual(found, wanted, key)
        for tensor in reader.tensors:
            self.assertEqual(mine.tensors[tensor.name].tobytes(), tensor.data.tobytes())
            self.assertEqual(list(mine.tensors[tensor.name].shape), tensor.shape.tolist()[::-1])


# ------------------------------------------------------------------------------------------------ Whisper
STATE, MELS, FRAMES, TOKENS = 32, 80, 20, 12


def whisper_weights(rows, seed=3, layers=(1, 2), state=STATE):
    rng, found = random_of(seed), {}

    def put(name, *shape):
        found[name] = (rng.normal(size=shape) * 0.3).astype(np.float32)

    for side, count, positions in (("encoder", layers[0], FRAMES), ("decoder", layers[1], TOKENS)):
        put(f"model.{side}.embed_positions.weight", positions, state)
        for i in range(count):
            block = f"model.{side}.layers.{i}"
            for part in ("self_attn", *["encoder_attn"] * (side == "decoder")):
                for one in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    put(f"{block}.{part}.{one}.weight", state, state)
                    if one != "k_proj":
                        put(f"{block}.{part}.{one}.bias", state)
                put(f"{block}.{part}_layer_norm.weight", state)
                put(f"{block}.{part}_layer_norm.bias", state)
            put(f"{block}.fc1.weight", 4 * state, state)
            put(f"{block}.fc1.bias", 4 * state)
            put(f"{block}.fc2.weight", state, 4 * state)
            put(f"{block}.fc2.bias", state)
            put(f"{block}.final_layer_norm.weight", state)
            put(f"{block}.final_layer_norm.bias", state)
        put(f"model.{side}.layer_norm.weight", state)
        put(f"model.{side}.layer_norm.bias", state)
    put("model.encoder.conv1.weight", state, MELS, 3)
    put("model.encoder.conv1.bias", state)
    put("model.encoder.conv2.weight", state, state, 3)
    put("model.encoder.conv2.bias", state)
    put("model.decoder.embed_tokens.weight", rows, state)
    return found


MERGES = (b" t", b"he", b" the", b" a", b"in", b" an", b" -", b"<<", b"((", b"\xe2\x99", b"\xe2\x99\xaa")


def vocabulary():
    """Single bytes in the order of GPT-2, and merges."""
    from convert.tokenizer_files import OTHER_BYTES, PLAIN_BYTES
    return [bytes([one]) for one in (*sorted(PLAIN_BYTES), *OTHER_BYTES)] + list(MERGES)


def whisper_numbers(rows, layers=(1, 2), ftype=0):
    return [rows, FRAMES, STATE, 2, layers[0], TOKENS, STATE, 2, layers[1], MELS, ftype]


class Whisper(Case):
    def write(self, path, rows, kinds=None, filters=None, tensors=None, words=None, numbers=None, ftype=0, blocks=None):
        tensors = whisper_weights(rows) if tensors is None else tensors
        write_whisper(path, numbers or whisper_numbers(rows, ftype=ftype), whisper.mel_filters(MELS) if filters is None else filters,
                      vocabulary() if words is None else words, whisper_tensors(tensors), kinds, blocks)

    def test_types(self):
        """F32, F16 and each type of whisper.cpp's quantizer whose rows fit; the numbers are gguf's to the bit."""
        rows = 51865
        path, tensors = self.path / "ggml-x.bin", whisper_weights(rows)
        mine = whisper_tensors(tensors)
        matrices = [name for name in mine if mine[name].ndim == 2 and "position" not in name and "conv" not in name]
        kinds = {name: int(kind) for name, kind in zip(matrices, [Kind.Q8_0, Kind.Q5_0, Kind.Q5_1, Kind.Q4_0, Kind.Q4_1,
                                                                  Kind.F16] * len(matrices))}
        self.write(path, rows, kinds, tensors=tensors, ftype=2008)
        found, about = self.convert(path)
        config = json.loads(about["transformer.config"])
        self.assertEqual((config["start"], config["end"], config["n_heads"], config["norm"]), (50258, 50257, 2, "pre"))
        self.assertEqual((about["extra.transcribe"], about["extra.first_time"]), ("50359", "50364"))
        self.assertEqual(len(config["languages"]), 99)
        self.assertIn("does not state alignment heads", self.said)
        places = {"tgt_embedding.weight": "decoder.token_embedding.weight",
                  "encoder.layers.0.self_attn.q_proj.weight": "encoder.blocks.0.attn.query.weight",
                  "decoder.layers.1.multihead_attn.v_proj.weight": "decoder.blocks.1.cross_attn.value.weight",
                  "decoder.layers.1.linear2.weight": "decoder.blocks.1.mlp.2.weight",
                  "decoder.layers.0.norm2.bias": "decoder.blocks.0.cross_attn_ln.bias",
                  "decoder.norm.weight": "decoder.ln.weight", "encoder.norm.bias": "encoder.ln_post.bias",
                  "src_positions.weight": "encoder.positional_embedding"}
        seen = set()
        for new, old in places.items():
            kind, wanted = Kind(kinds.get(old, 0)), mine[old]
            if kind == Kind.F16:
                wanted = wanted.astype(np.float16)
            elif kind != Kind.F32:
                wanted = gguf.quants.dequantize(gguf.quants.quantize(wanted, kind), kind)
            seen.add(kind)
            self.assertEqual(found[new].tobytes(), wanted.tobytes(), new)
        self.assertTrue(np.array_equal(found["extra.conv1.weight"], mine["encoder.conv1.weight"].transpose(0, 2, 1)))
        self.assertGreater(len(seen), 3)

    def test_texts(self):
        """Ids and texts of special tokens for each size of vocabulary, merges, and suppressed tokens."""
        path = self.path / "ggml-x.bin"
        for rows, end, languages in ((51864, 50256, 99), (51865, 50257, 99), (51866, 50257, 100)):
            with self.subTest(rows):
                self.write(path, rows)
                found, about = self.convert(path)
                config = json.loads(about["transformer.config"])
                lines = found["tgt_vocabulary"].tobytes().decode().split("\n")
                names = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{one}|>" for one in whisper.LANGUAGES[:languages]),
                         "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
                         "<|notimestamps|>", "<|0.00|>", "<|0.02|>"]
                self.assertEqual(lines[end:end + len(names)], names)
                self.assertEqual(lines[rows - 1], "<|30.00|>")
                self.assertEqual(config.get("languages"), {code: end + 2 + at for at, code in enumerate(
                    whisper.LANGUAGES[:languages])} if rows > 51864 else None)
                letters = [lines[at] for at in range(256)]
                self.assertEqual([tuple(lines[at] for at in merge[:2]) for merge in found["tgt_merges"].tolist()],
                                 [("\u0120", "t"), ("h", "e"), ("\u0120t", "he"), ("\u0120", "a"), ("i", "n"), ("\u0120a", "n"),
                                  ("\u0120", "-"), ("<", "<"), ("(", "("), (letters[letters.index("\u00e2")], "\u013b"),
                                  ("\u00e2\u013b", "\u00aa")])
                singles = {ord(one) - 33 for one in "\"#()*+/:;<=>@[\\]^_`{|}~"}
                merged = {256 + MERGES.index(one) for one in (b" -", b"<<", b"((", b"\xe2\x99\xaa", b"\xe2\x99")}
                first = end + 2 + languages
                never = {end + 1, *range(first, first + 5)}
                space = lines.index("\u0120")
                self.assertEqual(set(config["suppressed"]), singles | merged | never | ({space} & set(config["suppressed"])))
                self.assertEqual(about["extra.begin_suppressed"], f"{space},{end}")

    def test_known_sizes(self):
        """Heads, filters and languages against transformers' own."""
        from transformers.audio_utils import mel_filter_bank
        from transformers.models.whisper.tokenization_whisper import LANGUAGES
        self.assertEqual(list(LANGUAGES), [{"he": "he"}.get(one, one) for one in whisper.LANGUAGES])
        for mels in (80, 128):
            wanted = mel_filter_bank(201, mels, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney").T
            self.assertLess(np.abs(whisper.mel_filters(mels) - wanted).max(), 1e-6)
        for (_, layers, _), heads in whisper.ALIGNMENT_HEADS.items():
            self.assertLess(max(layer for layer, _ in heads), layers)

    def test_refusals(self):
        path, rows = self.path / "ggml-x.bin", 51865
        tensors = whisper_weights(rows)

        def numbers(**changes):
            found = dict(zip(ggml_files.WHISPER_NUMBERS, whisper_numbers(rows)))
            return list({**found, **changes}.values())

        def without(name):
            return {key: one for key, one in tensors.items() if key != name}

        wrong = whisper.mel_filters(MELS).copy()
        wrong[3] *= 1.01
        for says, options in (
                ("n_vocab is 99", {"numbers": numbers(n_vocab=99), "words": []}),
                ("n_vocab is 51900", {"numbers": numbers(n_vocab=51900)}),
                ("n_audio_state is 0", {"numbers": numbers(n_audio_state=0)}),
                ("n_text_state 64", {"numbers": numbers(n_text_state=64)}),
                ("encoder.positional_embedding is [20, 32]", {"numbers": numbers(n_audio_ctx=21)}),
                ("decoder.positional_embedding is [12, 32]", {"numbers": numbers(n_text_ctx=13)}),
                ("its filters are [80, 201]", {"numbers": numbers(n_mels=81)}),
                ("one number of heads", {"numbers": numbers(n_text_head=4)}),
                ("n_audio_head is 5", {"numbers": numbers(n_text_head=5, n_audio_head=5)}),
                ("n_audio_layer is 2, and the tensors encoder.blocks.N are of 1", {"numbers": numbers(n_audio_layer=2)}),
                ("mel filters differ", {"filters": wrong}), ("mel filters differ", {"filters": wrong * np.nan}),
                ("token 1 is b'a', as token 0", {"words": [b"a", b"a"]}),
                ("token 0 has 200 bytes", {"words": [b"a" * 200]}),
                ("has no tensors", {"tensors": {}}),
                ("decoder.token_embedding.weight is missing", {"tensors": without("model.decoder.embed_tokens.weight")}),
                ("version 0 of ggml's blocks", {"kinds": {"decoder.token_embedding.weight": 8}, "ftype": 7}),
                ("has the type Q8_K", {"kinds": {"decoder.token_embedding.weight": 15}, "ftype": 2007,
                                       "blocks": {"decoder.token_embedding.weight": np.zeros(9, "u1")}})):
            with self.subTest(says):
                self.write(path, rows, **{"tensors": tensors, **options})
                self.refuse(path, says)
        self.refuse(path, "--ignore-key", options=("--ignore-key", "a"))
        for head, says in ((b"FUGG", "gguf-convert-endian"), (b"tjgg", "an old container of llama.cpp"),
                           (b"lmgg", "n_vocab takes 4 bytes"), (b"GGUF", "version takes 4 bytes"),
                           (b"GGUF\0\0\0\3", "gguf-convert-endian"), (b"GGUF\1\0\0\0", "its version is 1")):
            path.write_bytes(head)
            self.refuse(path, says)


# ----------------------------------------------------------------------------------------------- mutants
def mutate(data, rng, heads):
    """A file with one or a few changes, most of them among the bytes that are not weights. heads: those places."""
    data = bytearray(data)
    kind = rng.random()
    if kind < 0.15:
        return bytes(data[:rng.randrange(len(data)) if rng.random() < 0.5 else rng.choice(heads)])
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.choice(heads) if rng.random() < 0.95 else rng.randrange(len(data))
        act = rng.random()
        if act < 0.35:
            data[at] ^= 1 << rng.randrange(8)
        elif act < 0.7:  # a count or a size
            form, value = rng.choice((("<I", 0), ("<I", 1 << 31), ("<I", (1 << 32) - 1), ("<Q", 1 << 63), ("<Q", 1 << 40),
                                      ("<Q", (1 << 64) - 1), ("<I", 1 << 24), ("<I", rng.randrange(64)), ("<i", -1)))
            data[at:at + struct.calcsize(form)] = struct.pack(form, value)
        elif act < 0.8:
            del data[at:at + rng.choice((1, 4, 8, 100))]
        elif act < 0.9:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 8, 100))))
        else:
            other = rng.choice(heads)
            data[at:at + 8] = data[other:other + 8]
    return bytes(data)


def places(path, data):
    """The places of the bytes that are not weights, vocabulary or filters; and a few of those that are."""
    rng = random.Random(0)
    if data[:4] == b"GGUF":
        reader = gguf.GGUFReader(path)
        end = min(int(tensor.data_offset) for tensor in reader.tensors)
        names = [re.escape(one) for one in (b"t5.", b"general.", b"tokenizer.", b"enc.blk", b"dec.blk", b"token_embd")]
        keys = [found.start() for one in names for found in re.finditer(one, data[:end])]
        near = [at + shift for at in keys for shift in range(-12, 60) if 0 <= at + shift < end]
        return [*range(24), *near, *near, *rng.sample(range(end), 2000)]
    found = [*range(56)] * 3
    tensors = [one.start() for one in re.finditer(rb"(encoder|decoder)\.", data)]
    found += [at + shift for at in tensors for shift in range(-24, 40) if 0 <= at + shift < len(data)] * 3
    begin = 56 + 4 * 80 * 201
    return found + rng.sample(range(begin), 300) + [begin + at for at in range(600)]


class Mutants(Case):
    def sources(self):
        small = {"width": 32, "layers": (1, 1), "feed": 32}
        tensors = {name_of(name): one for name, one in t5_tensors(**small).items()}
        write_gguf(self.path / "a.gguf", tensors, t5_fields(pieces(self.path), **small), kinds={
            "token_embd.weight": Kind.Q8_0, "enc.blk.0.ffn_up.weight": Kind.Q4_0, "dec.blk.0.attn_q.weight": Kind.F16})
        rows = 51865
        blocks = {"decoder.token_embedding.weight": np.zeros((rows, 18), np.uint8)}
        write_whisper(self.path / "ggml-a.bin", whisper_numbers(rows, ftype=2002), whisper.mel_filters(MELS), vocabulary(),
                      whisper_tensors(whisper_weights(rows)), {"decoder.token_embedding.weight": 2}, blocks)
        return [self.path / "a.gguf", self.path / "ggml-a.bin"]

    def test_mutants(self):
        """Each changed file is converted, or refused by a line that names a field, in little time and memory."""
        for source in self.sources():
            data = source.read_bytes()
            heads = places(source, data)
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    self.run_mutants(source, data, heads, write)
                except BaseException:
                    os.write(write, traceback.format_exc().encode())
                finally:
                    os._exit(1)
            os.close(write)
            with os.fdopen(read) as pipe:
                told = pipe.read().splitlines()
            _, status = os.waitpid(child, 0)
            counts = {one: told.count(one) for one in ("converted", "refused")}
            print(f"{source.name}: {MUTANTS} mutants, {counts['converted']} converted, {counts['refused']} refused")
            self.assertEqual((os.waitstatus_to_exitcode(status), [one for one in told if one not in counts]), (0, []))
            self.assertEqual(sum(counts.values()), MUTANTS)
            self.assertTrue(all(counts.values()))

    def run_mutants(self, source, data, heads, write):
        """Tells a line of each mutant, and of one that is wrong its number."""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        path, out = self.path / f"mutant-{source.name}", self.path / "mutant.safetensors"

        def late(*_):
            raise TimeoutError

        signal.signal(signal.SIGVTALRM, late)
        for number in range(MUTANTS):
            path.write_bytes(mutate(data, random.Random(number), heads))
            signal.setitimer(signal.ITIMER_VIRTUAL, 20)
            try:
                status, told = self.run_main(path, out, "--quiet", "--vad", "none")
            except BaseException as error:
                status, told = 9, f"{type(error).__name__}: {error}"
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            lines = told.splitlines()
            fine = status == 0 and out.exists() or status == 1 and not out.exists() and told.startswith("convert.py: ") and (
                str(path) in lines[0] or len(lines) > 1 or "tensor" in told) and (
                all(len(line) < 1 << 17 for line in lines) and "too large for the memory" not in told
                and "not in the form that its program writes" not in told)
            out.unlink(missing_ok=True)
            said = ("converted" if status == 0 else "refused") if fine else f"mutant {number}: status {status}: {told[:600]!r}"
            os.write(write, f"{said}\n".encode())
        os._exit(0)


if __name__ == "__main__":
    unittest.main()
