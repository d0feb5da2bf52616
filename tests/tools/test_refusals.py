#!/usr/bin/env python3
"""Tests which files tools/convert.py refuses by name: python tests/tools/test_refusals.py

Each row is something that people have and try: the contents of the folder, and what the message must name and
advise. Nothing may be written, and no other package is needed.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import import_path  # noqa: E402, F401
from convert import download, hub, main as convert, marian_bin, sentencepieces, untrusted  # noqa: E402
import pickled  # noqa: E402
from convert.modelfile import write_safetensors  # noqa: E402
from pickled import call, name, tensor  # noqa: E402
from test_convert import MarianCase, ct2_source, hf_write  # noqa: E402

POINTER = (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 312087009\n")
LORA = {"adapter_config.json": b'{"peft_type": "LORA"}'}
SHARDS = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors",
                                    "b": "model-00002-of-00002.safetensors"}}).encode()
ROOT = Path(__file__).resolve().parents[2]
NONE = "model.safetensors"  # stands for the weights of the folder, removed


def config(**changes):
    return lambda folder: (folder / "config.json").write_text(json.dumps(
        {**json.loads((folder / "config.json").read_text()), **changes}))


def tensors(*names):
    return lambda folder: write_safetensors(folder / "model.safetensors", {
        one: np.zeros((2, 2), "f4") for one in names})


# What is put into a Hugging Face folder that converts. A name in removed is deleted first.
FOLDERS = [
    ("an adapter beside a full model", LORA, (), "adapter_config.json", "merge_and_unload", "move its files"),
    ("an adapter alone", {**LORA, "adapter_model.safetensors": b""}, ("config.json", NONE), "adapter_", "merge"),
    ("ONNX", {"encoder_model.onnx": b"", "decoder_model.onnx": b""}, (NONE,), "model.onnx: ONNX", "exported from"),
    ("GGUF that is cut", {"model-q4_k_m.gguf": b"GGUF\3"}, (NONE,), "model-q4_k_m.gguf: not a GGUF file", "cut short"),
    ("two GGUF files", {"a.gguf": b"GGUF\3", "b.gguf": b"GGUF\3"}, (NONE,), "2 GGUF files, a.gguf, b.gguf: name one"),
    ("OpenVINO", {"openvino_encoder_model.xml": b""}, (NONE,), "openvino_encoder_model.xml: OpenVINO"),
    ("a variant", {"model.fp16.safetensors": b""}, (NONE,), "model.fp16.safetensors", "rename the file"),
    ("a variant, pickled", {"pytorch_model.fp16.bin": b""}, (NONE,), "pytorch_model.fp16.bin", "rename the file"),
    ("a variant in shards", {"model.safetensors.index.fp16.json": SHARDS}, (NONE,), "index.fp16.json", "rename the file"),
    ("a pointer of Git LFS", {NONE: POINTER}, (), "model.safetensors: a pointer of Git LFS", "git lfs pull"),
    ("a pickle that is a pointer", {"pytorch_model.bin": POINTER}, (NONE,), "pytorch_model.bin: a pointer of Git LFS"),
    ("a tokenizer that is a pointer", {"sentencepiece.bpe.model": POINTER}, (), "bpe.model: a pointer", "pull"),
    ("a web page", {NONE: b"<!DOCTYPE html><html>404"}, (), "model.safetensors: a web page", "download it again"),
    ("TensorFlow", {"tf_model.h5": b"\x89HDF"}, (NONE,), "tf_model.h5", "TensorFlow", "from_tf=True"),
    ("Flax", {"flax_model.msgpack": b"x"}, (NONE,), "flax_model.msgpack: Flax", "from_flax=True"),
    ("rust-bert", {"rust_model.ot": b"x"}, (NONE,), "rust_model.ot"),
    ("a missing shard", {"model.safetensors.index.json": SHARDS}, (NONE,), "model-00001-of-00002.safetensors: missing",
     "2 of 2 shards"),
    ("shards without a list", {"model-00001-of-00002.safetensors": b""}, (NONE,), "model-00001-of-00002.safetensors",
     ".index.json"),
    ("no weights", {}, (NONE,), "config.json: a config without its weights"),
    ("no config", {}, ("config.json",), "model.safetensors: weights without config.json"),
    ("sentence-transformers", {"modules.json": b"[]"}, (NONE,), "modules.json: sentence-transformers"),
    ("diffusers", {"model_index.json": b"{}"}, (NONE, "config.json"), "model_index.json: diffusers"),
    ("fairseq", {"model.pt": b"", "dict.en.txt": b""}, (NONE, "config.json"), "fairseq", "ct2-fairseq-converter"),
    ("Sockeye", {"params.best": b"", "version": b""}, (NONE, "config.json"), "params.best: Sockeye"),
    ("a folder of Lightning's", {"epoch=1.ckpt": b""}, (NONE, "config.json"), "epoch=1.ckpt", "is IN itself"),
    ("a folder of a checkpoint", {"best.pt": b""}, (NONE, "config.json"), "best.pt", "name the file as IN"),
    ("a folder of folders", {"checkpoint-500/config.json": b"{}"}, (NONE, "config.json"), "checkpoint-500 may be one"),
    ("GPTQ", config(quantization_config={"quant_method": "gptq", "bits": 4}), (), "quantization_config is 'gptq'",
     "made of"),
    ("AWQ", config(quantization_config={"quant_method": "awq"}), (), "'awq'", "made of"),
    ("bitsandbytes", config(quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True}), (),
     "'bitsandbytes'", "made of"),
    ("quantized tensors without a word of it", tensors("model.encoder.layers.0.fc1.qweight"), (), "qweight", "made of"),
    ("8 bits of bitsandbytes without a word", tensors("model.encoder.layers.0.fc1.SCB"), (), "SCB", "made of"),
    ("tensors of an adapter", tensors("base_model.model.encoder.layers.0.fc1.lora_A.weight"), (), "lora_A", "merge"),
    ("a language model", config(model_type="qwen9", architectures=["Qwen9ForCausalLM"]), (), "'Qwen9ForCausalLM'",
     "a decoder alone"),
    ("a decoder of BART's", config(architectures=["BartForCausalLM"]), (), "a decoder alone"),
    ("an encoder of T5's", config(architectures=["T5EncoderModel"]), (), "'T5EncoderModel': an encoder alone"),
    ("BERT", config(architectures=["BertForMaskedLM"], model_type="bert"), (), "'BertForMaskedLM': an encoder alone"),
    ("SpeechT5 of text to speech", config(model_type="speecht5", architectures=["SpeechT5ForTextToSpeech"]), (),
     "model_type speecht5: ", "its decoder gives audio"),
    ("SeamlessM4T without its text encoder", config(model_type="seamless_m4t_v2"), (), "no tensors of a text_encoder",
     "SeamlessM4TForTextToText"),
    ("IndicTrans2", config(model_type="IndicTrans", architectures=["IndicTransForConditionalGeneration"]), (),
     "model_type IndicTrans: ", "IndicTransToolkit"),
    ("UDOP", config(model_type="udop"), (), "model_type udop: ", "places of words on a page"),
    ("Dia", config(model_type="dia"), (), "model_type dia: ", "gives sound"),
    ("Kosmos", config(model_type="kosmos-2.5"), (), "model_type kosmos-2.5: ", "a decoder alone", "images"),
    ("Canary-Qwen", config(pretrained_llm="Qwen/Qwen3-1.7B", pretrained_asr="nvidia/canary-1b-flash"), (), "'Qwen/Qwen3-1.7B'",
     "a decoder alone (a language model) that also hears audio"),
    ("a quantized Canary", config(model_type="canary", quantization_config={"quant_method": "bitsandbytes"}), (), "'bitsandbytes'",
     "made of"),
    ("a decoder of Canary", config(model_type="canary_decoder"), (), "model_type canary_decoder: ", "has model_type canary"),
    ("PEGASUS-X", config(model_type="pegasus_x"), (), "model_type pegasus_x: ", "local attention in blocks"),
    ("a reason without weights", config(model_type="canary_decoder"), (NONE,), "behind its encoder"),
    ("a classifier", config(architectures=["BartForSequenceClassification"]), (), "a classifier"),
]

# Configs of transformers' own classes: the class, options, and what the message names: the block that is missing.
CONFIGS = [
    ("NllbMoe", {}, "nllb-moe", "a mixture of experts: a router"),
    ("NllbMoe", {"num_experts": 4, "encoder_sparse_step": 2}, "nllb-moe", "a mixture of experts: a router"),
    ("SwitchTransformers", {}, "switch_transformers", "a mixture of experts: a router"),
    ("LongT5", {}, "longt5", "attention is local (encoder_attention_type local)"),
    ("LongT5", {"encoder_attention_type": "transient-global"}, "longt5", "summaries of blocks (transient-global)"),
    ("BigBirdPegasus", {}, "bigbird_pegasus", "sparse attention in its encoder: each block"),
    ("BigBirdPegasus", {"attention_type": "original_full"}, "bigbird_pegasus", "with attention_type original_full"),
    ("PegasusX", {}, "pegasus_x", "local attention in blocks, and global tokens"),
    ("ProphetNet", {}, "prophetnet", "a decoder that predicts several tokens at once"),
    ("ProphetNet", {"ngram": 1}, "prophetnet", "relative positions that are computed from queries"),
    ("Udop", {}, "udop", "places of words on a page", "relative positions along the page"),
    ("Dia", {}, "dia", "gives sound, not text", "several tokens a step"),
]
# IndicTrans2's code is not in transformers: its config.json as the class of its folder writes it.
INDICTRANS = {"model_type": "IndicTrans", "architectures": ["IndicTransForConditionalGeneration"], "encoder_layers": 18,
              "auto_map": {"AutoConfig": "configuration_indictrans.IndicTransConfig",
                           "AutoModelForSeq2SeqLM": "modeling_indictrans.IndicTransForConditionalGeneration"}}


def weights(write):
    return lambda folder: [write(folder / "model.pt"), folder / "model.pt"][1]


def file(name, data):
    return lambda folder: [(folder / name).write_bytes(data), folder / name][1]


FILES = [
    ("ONNX", file("model.onnx", b"x"), "model.onnx: ONNX"),
    ("NeMo", file("canary-1b-v2.nemo", b"x"), "canary-1b-v2.nemo: an archive of NeMo"),
    ("GGUF", file("model.gguf", b"GGUF"), "model.gguf: not a GGUF file: version takes 4 bytes"),
    ("GGUF of another name", file("model.bin", b"GGUF"), "model.bin: not a GGUF file"),
    ("no GGUF", file("model.gguf", b"x" * 100), "model.gguf: it begins with b'xxxx', not with GGUF"),
    ("whisper.cpp", file("ggml-base.bin", b"lmgg" + bytes(44)), "ggml-base.bin: not a Whisper model of whisper.cpp: n_vocab is 0"),
    ("a pointer", file("model.pt", POINTER), "model.pt: a pointer of Git LFS", "git lfs pull"),
    ("a pointer, safetensors", file("model.safetensors", POINTER), "model.safetensors: a pointer of Git LFS"),
    ("a pointer of Marian's", file("model.npz", POINTER), "model.npz: a pointer of Git LFS"),
    ("a file that is cut short", file("model.safetensors", (120).to_bytes(8, "little") + b"{" + b" " * 50), "the file is cut short"),
    ("data that is cut short", lambda folder: [write_safetensors(folder / "a.safetensors", {"a": np.zeros(99, "f4")}),
                                               os.truncate(folder / "a.safetensors", 300), folder / "a.safetensors"][2],
     "the file is cut short"),
    ("TensorFlow", file("tf_model.h5", b"\x89HDF\r\n"), "tf_model.h5: TensorFlow"),
    ("an adapter", weights(lambda path: pickled.write_zip(path, {
        "base_model.model.encoder.layers.0.fc1.lora_B.weight": tensor()})), "lora_B", "merge"),
    ("fairseq", weights(lambda path: pickled.write_zip(path, {
        "args": None, "model": {"encoder.layers.0.fc1.weight": tensor()}, "extra_state": {}})), "fairseq", "ct2-"),
    ("fairseq with a class of its own", weights(lambda path: pickled.write_zip(path, {
        "cfg": call(name("omegaconf.dictconfig", "DictConfig")), "model": {}})), "omegaconf", "ct2-fairseq-converter"),
    ("Lightning with a class of its own", weights(lambda path: pickled.write_zip(path, {
        "hyper": call(name("lightning.fabric.utilities", "AttributeDict")), "state_dict": {"a": tensor()}})),
     "AttributeDict", "['state_dict']"),
    ("OpenNMT-py before 2.3", weights(lambda path: pickled.write_zip(path, {
        "vocab": call(name("torchtext.data.field", "Field"))})), "torchtext", "ct2-opennmt-py-converter"),
]


def tensor_files(folder):
    """Yields whole files of every kind of weights, each with what IN is for it."""
    case = MarianCase()
    case.folder, case.out = folder, folder / "out"
    numbers = {"a": pickled.tensor()}
    for kind, write in (("zip", pickled.write_zip), ("legacy", pickled.write_legacy)):
        write(folder / f"{kind}.pt", numbers)
        yield folder / f"{kind}.pt", folder / f"{kind}.pt"
    write_safetensors(folder / "a.safetensors", {"a": np.zeros(99, "f4")})
    yield folder / "a.safetensors", folder / "a.safetensors"
    npz = case.directory(case.arrays())[0]
    yield npz / "model.npz", npz
    ct2 = ct2_source(folder)
    yield ct2 / "model.bin", ct2
    (folder / "bin").mkdir()
    marian_bin.write_bin(folder / "bin" / "model.ab.bin", {"Wemb": (marian_bin.F32, [9, 9], bytes(324))})
    yield folder / "bin" / "model.ab.bin", folder / "bin" / "model.ab.bin"


class Refusals(unittest.TestCase):
    def test_files_that_are_cut_short(self):
        """At any place, of every form; a few bytes of a form's beginning may be anything."""
        with tempfile.TemporaryDirectory() as place:
            for path, source in tensor_files(Path(place)):
                data = path.read_bytes()
                for size in (len(data) - 1, len(data) * 9 // 10, len(data) // 2, 100, 40, 20):
                    with self.subTest(path.name, size=size):
                        path.write_bytes(data[:size])
                        self.refuse(Path(place) / "in", source, path.name, "cut short")
                path.write_bytes(data)

    def test_packages_that_are_missing(self):
        """The message has the command that installs them, for this tree and for the Python package."""
        for package, act in (("yaml", lambda: untrusted.parse_yaml("a: 1", "decoder.yml")),
                             ("google", lambda: sentencepieces.parse_model(b"", "a.spm")),
                             ("sentencepiece", lambda: sentencepieces.parse_model(b"", "a.spm")),
                             ("sentencepiece", lambda: sentencepieces.chain([b"", b""])),
                             ("huggingface_hub", lambda: hub.fetch("a/b", None)),
                             ("zstandard", lambda: download.zstd_reader(io.BytesIO()))):
            gone = {name: None for name in list(sys.modules) if name.split(".")[0] == package}
            for inside in ("convert", "transformer_h.convert"):
                with self.subTest(package, inside=inside), mock.patch.dict(sys.modules, {
                        **gone, package: None, "compression": None}), mock.patch.object(
                        untrusted, "__package__", inside), self.assertRaises(
                        (untrusted.ConvertError, download.DownloadError)) as caught:
                    act()
                wanted = (f"-m pip install -r {ROOT}/tools/requirements-convert.txt" if inside == "convert" else
                          f"pip install 'transformer-h[{'convert' if package == 'huggingface_hub' else 'download'}]'")
                self.assertIn(wanted, str(caught.exception))
                self.assertIn({"yaml": "pyyaml", "google": "protobuf"}.get(package, package), str(caught.exception))

    def refuse(self, folder, source, *says, options=()):
        out = folder.parent / "out.safetensors"
        told = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
            status = convert.main([str(source), str(out), "--no-check", *options])
        self.assertEqual((status, out.exists()), (1, False), told.getvalue())
        for one in says:
            self.assertIn(one, told.getvalue())
        self.assertEqual(told.getvalue().count("\n"), 1, told.getvalue())

    def test_folders(self):
        for title, change, removed, *says in FOLDERS:
            with self.subTest(title), tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "in"
                hf_write(folder, "m2m_100", 40)
                for one in removed:
                    (folder / one).unlink()
                for one, data in change.items() if isinstance(change, dict) else ():
                    (folder / one).parent.mkdir(exist_ok=True)
                    (folder / one).write_bytes(data)
                if callable(change):
                    change(folder)
                self.refuse(folder, folder, *says)

    def test_configs_of_transformers(self):
        """Families without a row in the converter: the reason is the block that transformer.h has not, with weights and
        without, and also where another key is left out."""
        try:
            import transformers
        except ImportError as error:
            self.skipTest(f"{error}: make oracles has it")
        cases = [(f"{stem} {options}", {**getattr(transformers, f"{stem}Config")(**options).to_dict(), "architectures": [
            f"{stem}ForConditionalGeneration"]}, *says) for stem, options, *says in CONFIGS]
        cases.append(("IndicTrans2", INDICTRANS, "IndicTrans", "code of its own that transformers has not", "IndicTransToolkit"))
        for title, values, kind, *says in cases:
            with self.subTest(title), tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "in"
                hf_write(folder, "m2m_100", 40)
                (folder / "config.json").write_text(json.dumps(values))
                self.refuse(folder, folder, f"config.json: model_type {kind}: ", *says)
                self.refuse(folder, folder, *says, options=("--ignore-key", "architectures"))
                (folder / "model.safetensors").unlink()
                self.refuse(folder, folder, f"config.json: model_type {kind}: ", *says)

    def test_files(self):
        for title, make, *says in FILES:
            with self.subTest(title), tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "in"
                folder.mkdir()
                self.refuse(folder, make(folder), *says)

    def test_other_folders(self):
        """An adapter and pointers must be found in the folders of the other readers too."""
        with tempfile.TemporaryDirectory() as place:
            case = MarianCase()
            case.folder, case.out = Path(place), Path(place) / "out"
            for folder, weights in ((ct2_source(Path(place)), "model.bin"),
                                    (case.directory(case.arrays())[0], "model.npz")):
                with self.subTest(folder.name):
                    (folder / "adapter_config.json").write_text("{}")
                    self.refuse(folder, folder, "adapter_config.json", "merge")
                    (folder / "adapter_config.json").unlink()
                    (folder / weights).write_bytes(POINTER)
                    self.refuse(folder, folder, f"{weights}: a pointer of Git LFS")

    def test_wrappers_of_hugging_face_models(self):
        """What DataParallel and torch.compile add to names must change nothing, in a folder of Hugging Face's form too."""
        with tempfile.TemporaryDirectory() as place:
            folder, out = Path(place) / "in", Path(place) / "out"
            hf_write(folder, "m2m_100", 40)
            tensors = untrusted.read_safetensors(folder / NONE)[0]
            written = []
            for rename in ("{}", "module.{}", "_orig_mod.{}", "module._orig_mod.{}", "model._orig_mod.{}"):
                write_safetensors(folder / NONE, {rename.format(name if rename[:6] != "model." else name.partition(".")[2]): one
                                                  for name, one in tensors.items()})
                told = io.StringIO()
                with self.subTest(rename), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                    status = convert.main([str(folder), str(out), "--no-check"])
                    self.assertEqual(status, 0, told.getvalue())
                    self.assertEqual("wrappers of the module" in told.getvalue(), rename != "{}")
                    written.append(out.read_bytes())
                    self.assertEqual(written[0], written[-1])

    def test_what_stays_readable(self):
        """Tests names that resemble the refused ones."""
        for architecture in ("T5WithLMHeadModel", "BartModel", "M2M100ForConditionalGeneration", None, 5, []):
            with self.subTest(architecture), tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "in"
                hf_write(folder, "m2m_100", 40)
                config(architectures=[architecture])(folder)
                (folder / "model.onnx").write_bytes(b"")
                (folder / "tf_model.h5").write_bytes(POINTER)
                (folder / "pytorch_model.bin").write_bytes(POINTER)
                (folder / "README.md").write_text("<html>")
                told = io.StringIO()
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
                    status = convert.main([str(folder), str(Path(place) / "out"), "--no-check"])
                self.assertEqual(status, 0, told.getvalue())


if __name__ == "__main__":
    unittest.main(warnings="ignore")
