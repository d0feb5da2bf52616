"""Tests the converter with Whisper folders of random weights: tensors, ids and config of Hugging Face folders and
of the CTranslate2 directories made from them, and the greedy texts of transformers for shapes like those of
distil-whisper, large-v3 and turbo. No real models of these three were to be had.

build/transcribe runs the model files. The sound fills a window, because transformers and faster-whisper pad
shorter sound in different ways."""

import contextlib
import hashlib
import http.server
import io
import json
import os
import subprocess
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import import_path

try:
    import make_moonshine
    import make_whisper
    import numpy as np
    import torch
    from transformers import WhisperFeatureExtractor
except ImportError as error:
    raise unittest.SkipTest(f"{error}: make test-torch has it") from None

from convert import download, main as convert, published, whispers
from convert.untrusted import read_safetensors

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "transcribe"
SHAPES = {"tiny": {}, "distil": {"encoder_layers": 5, "decoder_layers": 1},
          "large-v3": {"num_mel_bins": 128, "encoder_layers": 3, "decoder_layers": 3},
          "turbo": {"num_mel_bins": 128, "encoder_layers": 4, "decoder_layers": 2}}


def field(number, value):
    """A field of protobuf: a number, a text, or a message."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def detector(seed=0, packed=False, wrong=None):
    """An ONNX file as the detector of Silero is stored, with random weights, and the weights."""
    random = np.random.default_rng(seed)
    shapes = {"stft": (258, 1, 256), "0.w": (128, 129, 3), "0.b": (128,), "1.w": (64, 128, 3), "1.b": (64,),
              "2.w": (64, 64, 3), "2.b": (64,), "3.w": (128, 64, 3), "3.b": (128,), "out.w": (1, 128, 1), "out.b": (1,),
              "W": (1, 512, 128), "R": (1, 512, 128), "B": (1, 1024), **(wrong or {})}
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    graph = b"".join(field(1, field(4, kind) + b"".join(field(1, one) for one in inputs.split())) for kind, inputs in [
        ("Conv", "x stft"), ("Pow", "y two"), *(("Conv", f"x {i}.w {i}.b") for i in range(4)), ("LSTM", "x W R B h c"),
        ("Conv", "x out.w out.b")])
    for name, one in {**weights, "two": np.float32(2).reshape(())}.items():
        dims = field(1, b"".join(field(1, n)[1:] for n in one.shape)) if packed else b"".join(
            field(1, n) for n in one.shape)
        graph += field(5, dims + field(2, 1) + field(4 if packed else 9, one.astype("<f4").tobytes()) + field(8, name))
    return field(1, 8) + field(7, graph), weights


class TestWhisper(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = Path(holder.name)

    def convert(self, folder, *options, status=0):
        out = self.path / "out.safetensors"
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            self.assertEqual(convert.main([str(folder), str(out), "--no-check", *options]), status, said.getvalue())
        self.said = said.getvalue()
        return read_safetensors(out) if not status else None

    def test_voice_detector(self):
        """Tests where each weight of a voice detector goes, and files that have none."""
        make_whisper.make(self.path / "hf", 3, multilingual=True)
        path = self.path / "detector.onnx"
        for packed in (False, True):
            data, w = detector(packed, packed)
            path.write_bytes(data)
            tensors, _ = self.convert(self.path / "hf", "--vad", str(path), "--dtype", "f16")
            found = {name[10:]: one for name, one in tensors.items() if name.startswith("extra.vad.")}
            self.assertEqual({one.dtype for one in found.values()}, {np.dtype("<f4")})
            self.assertTrue(np.array_equal(found["waves.weight"], w["stft"][:, 0]))
            for i in range(4):
                self.assertTrue(np.array_equal(found[f"conv{i + 1}.weight"], w[f"{i}.w"].transpose(0, 2, 1)), i)
                self.assertTrue(np.array_equal(found[f"conv{i + 1}.bias"], w[f"{i}.b"]), i)
            for gate, at in (("input", 0), ("forget", 2), ("cell", 3), ("output", 1)):  # ONNX: i, o, f, c
                row = ("input", "forget", "cell", "output").index(gate) * 128
                self.assertTrue(np.array_equal(found["lstm.weight"][row:row + 128], np.concatenate(
                    [w["W"][0, at * 128:at * 128 + 128], w["R"][0, at * 128:at * 128 + 128]], 1)), gate)
                self.assertTrue(np.array_equal(found["lstm.bias"][row:row + 128], w["B"][0, at * 128:at * 128 + 128]
                                               + w["B"][0, 512 + at * 128:640 + at * 128]), gate)
            self.assertTrue(np.array_equal(found["out.weight"], w["out.w"][:, :, 0]))
            self.assertTrue(np.array_equal(found["out.bias"], w["out.b"]))
        run = subprocess.run([PROGRAM, self.path / "out.safetensors", PROGRAM.parents[1] / "tests/data/transcribe/noise.wav",
                              "--vad-only", "--vad", "0.01"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        tensors, _ = self.convert(self.path / "hf", "--vad", "none")
        self.assertFalse([name for name in tensors if "vad" in name])
        for broken, why in ((detector(wrong={"0.w": (128, 130, 3)})[0], "not the voice detector of Silero"),
                            (detector(wrong={"B": (1, 512)})[0], "not the voice detector of Silero"),
                            (data[:-1000], "not an ONNX file"), (b"", "not an ONNX file"), (b"\xff" * 50, "not an ONNX file"),
                            (b"\x3b" * 9, "not an ONNX file"), (data.replace(w["2.b"].tobytes(), b"\0\0\xc0\x7f" * 64),
                                                               "conv3.bias has values that are not finite")):
            path.write_bytes(broken)
            self.convert(self.path / "hf", "--vad", str(path), status=1)
            self.assertIn(why, self.said)
        self.convert(self.path / "hf", "--vad", str(self.path / "nowhere"), status=1)
        self.assertIn("No such file", self.said)

    def serve(self, files, faults=()):
        """Serves files by their paths, as the hub does. Paths in faults get an answer that is cut."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                asked.append(self.path)
                body = files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write((body or b"")[:100 if self.path in faults else None])

        asked = []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}", asked

    def command(self, *arguments):
        out, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            status = published.main([*map(str, arguments)])
        return status, out.getvalue(), said.getvalue()

    def test_get(self):
        """Tests transformer-model get whisper-tiny: the hub's list and files from a server here, the cache, and what
        goes wrong."""
        import ctranslate2
        make_whisper.make(self.path / "hf", 5, multilingual=True)
        with contextlib.redirect_stdout(io.StringIO()):
            ctranslate2.converters.TransformersConverter(str(self.path / "hf"), copy_files=["tokenizer.json"]).convert(
                str(self.path / "ct2"))
        contents = {one.name: one.read_bytes() for one in (self.path / "ct2").iterdir()}
        contents["README.md"] = b"not wanted"
        repository = whispers.MODELS["whisper-tiny"].repository
        listed = [{"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(
            b"blob %d\0" % len(data) + data).hexdigest(), **({"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(
                data), "pointerSize": 133}} if name == "model.bin" else {})} for name, data in contents.items()]
        files = {f"/{repository}/resolve/main/{name}": data for name, data in contents.items()}
        tree = f"/api/models/{repository}/tree/main"
        files[tree] = json.dumps(listed).encode()
        data, weights = detector(3)
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(whispers.DETECTOR_NAME, data)
        files["/wheel.whl"] = wheel.getvalue()
        faults = []
        url, asked = self.serve(files, faults)
        out = self.path / "out.safetensors"
        served = download.RemoteFile("wheel.whl", f"{url}/wheel.whl", len(files["/wheel.whl"]),
                                     hashlib.sha256(files["/wheel.whl"]).hexdigest())
        with mock.patch.dict(os.environ, {"HF_ENDPOINT": url, "XDG_CACHE_HOME": str(self.path / "cache")}), \
                mock.patch.object(whispers, "DETECTOR", served), mock.patch.object(whispers.silero, "installed", lambda: None):
            self.assertEqual(self.command("get", "whisper-tiny", "--offline", "-o", out)[0], 1)
            faults.append(f"/{repository}/resolve/main/model.bin")
            status, _, said = self.command("get", "whisper-tiny", "-o", out)
            self.assertEqual((status, out.exists()), (1, False), said)
            faults.clear()
            status, printed, said = self.command("get", "whisper-tiny", "-o", out)
            self.assertEqual((status, printed), (0, f"{out}\n"), said)
            self.assertIn(f"to transcribe: transcribe {out}", said)
            self.assertFalse([one for one in asked if "README" in one])
            tensors, _ = read_safetensors(out)
            self.assertTrue(np.array_equal(tensors["extra.vad.out.bias"], weights["out.b"]))
            run = subprocess.run([PROGRAM, out, PROGRAM.parents[1] / "tests/data/transcribe/noise.wav"], capture_output=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            count, first = len(asked), out.read_bytes()
            self.assertEqual(self.command("get", "whisper-tiny", "--offline", "-o", out)[0], 0)
            self.assertEqual((len(asked), out.read_bytes()), (count, first), "the cache serves a second call")
            self.assertIn("whisper-tiny              MIT     75 MB  99 languages   cached", self.command("list", "whisper")[1])
            self.assertIn("MIT, about 75 MB", self.command("info", "whisper-tiny")[1])
            model = self.path / "cache/transformer.h/models/whisper/whisper-tiny/model.bin"
            model.write_bytes(model.read_bytes()[:-1] + b"x")  # a damaged cache is fetched again
            self.assertEqual(self.command("get", "whisper-tiny", "-o", out)[0], 0)
            self.assertEqual(out.read_bytes(), first)
            self.assertIn("removed", self.command("remove", "whisper-tiny")[1])
            for broken, why in ((b"{}", "has no model.bin"), (b"[1]", "not a list of files"), (b"[]", "has no model.bin"),
                                (json.dumps([{**one, "lfs": {"oid": "0" * 64, "size": 5}} for one in listed]).encode(), "5")):
                files[tree] = broken
                status, _, said = self.command("get", "whisper-tiny", "-o", out)
                self.assertEqual(status, 1)
                self.assertIn(why, said)
            self.assertIn("whisper-distil-small.en", self.command("get", "whisper-huge")[2])
            files[tree], files["/wheel.whl"] = json.dumps(listed).encode(), b"PK"
            (self.path / "cache/transformer.h/models/whisper/silero_vad_v6.onnx").unlink()
            status, _, said = self.command("get", "whisper-tiny", "-o", out)
            self.assertEqual(status, 0, said)
            self.assertIn("the model gets no voice detector", said)

    def test_get_moonshine(self):
        """Tests transformer-model get moonshine-tiny-ja: the folder of transformers, the licence, and the tokens of a second."""
        make_moonshine.draw(6, False).save_pretrained(self.path / "hf")
        make_moonshine.write_tokenizer(self.path / "hf")
        repository = whispers.MODELS["moonshine-tiny-ja"].repository
        contents = {one.name: one.read_bytes() for one in (self.path / "hf").iterdir()}
        listed = [{"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(
            b"blob %d\0" % len(data) + data).hexdigest()} for name, data in contents.items()]
        files = {f"/{repository}/resolve/main/{name}": data for name, data in contents.items()}
        files[f"/api/models/{repository}/tree/main"] = json.dumps(listed).encode()
        url, asked = self.serve(files)
        detected = self.path / "detector.onnx"
        detected.write_bytes(detector()[0])
        out = self.path / "out.safetensors"
        with mock.patch.dict(os.environ, {"HF_ENDPOINT": url, "XDG_CACHE_HOME": str(self.path / "cache")}), \
                mock.patch.object(whispers.silero, "installed", lambda: detected):
            status, printed, said = self.command("get", "moonshine-tiny-ja", "-o", out)
            self.assertEqual((status, printed), (0, f"{out}\n"), said)
            tensors, about = read_safetensors(out)
            self.assertIn("extra.vad.out.bias", tensors)
            self.assertEqual((about["extra.tokens_per_second"], about["license"]), ("13", "Moonshine Community"))
            run = subprocess.run([PROGRAM, out, PROGRAM.parents[1] / "tests/data/transcribe/noise.wav", "--vad", "0", "--format",
                                  "json"], capture_output=True, text=True)
            ids = json.loads(run.stdout)["tokens"]
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertTrue(10 < len(ids) < 20, ids)  # 1.6 s
            self.assertEqual(self.command("get", "moonshine-tiny-ja", "--offline", "-o", out)[0], 0)
            self.assertIn("moonshine-tiny-ja          Moonshine Community   110 MB  Japanese       cached",
                          self.command("list", "moonshine")[1])
            self.assertNotIn("moonshine", self.command("list", "whisper")[1])
            self.assertIn("moonshine-base", self.command("get", "moonshine-huge")[2])
            self.assertIn("removed", self.command("remove", "moonshine-tiny-ja")[1])

    def test_folder(self):
        model, ids = make_whisper.make(self.path / "hf", 3, multilingual=True)
        tensors, about = self.convert(self.path / "hf")
        config = json.loads(about["transformer.config"])
        for conv in ("conv1", "conv2"):
            wanted = getattr(model.model.encoder, conv).weight.detach().numpy().transpose(0, 2, 1)
            self.assertTrue(np.array_equal(tensors[f"extra.{conv}.weight"], wanted), conv)
            self.assertIn(f"extra.{conv}.bias", tensors)
        said = model.generation_config
        for key, token in (("transcribe", "<|transcribe|>"), ("translate", "<|translate|>"),
                           ("previous", "<|startofprev|>"), ("no_speech", "<|nospeech|>"),
                           ("no_timestamps", "<|notimestamps|>")):
            self.assertEqual(int(about[f"extra.{key}"]), ids[token])
        self.assertEqual(int(about["extra.first_time"]), ids["<|notimestamps|>"] + 1)
        self.assertEqual(about["extra.begin_suppressed"], ",".join(map(str, said.begin_suppress_tokens)))
        self.assertEqual(config["suppressed"], sorted(said.suppress_tokens))
        self.assertEqual(config["alignment_heads"], said.alignment_heads)
        self.assertEqual(config["languages"], {code: ids[f"<|{code}|>"] for code in ("en", "de", "fr")})
        self.assertEqual((config["start"], config["end"]), (said.decoder_start_token_id, said.eos_token_id))
        lines = tensors["tgt_vocabulary"].tobytes().decode().split("\n")
        first = int(about["extra.first_time"])
        self.assertEqual((lines[first], lines[first + 1500]), ("<|0.00|>", "<|30.00|>"))
        flags = dict(tensors["tgt_added"].tolist())
        self.assertTrue(all(flags[first + i] & 4 for i in range(1501)), "a time gives text")

    def test_english_alone(self):
        make_whisper.make(self.path / "hf", 4)
        self.assertNotIn("languages", json.loads(self.convert(self.path / "hf")[1]["transformer.config"]))

    def test_other_families_still_refuse(self):
        """Tests that begin_suppress_tokens and forced_decoder_ids are for Whisper alone."""
        make_whisper.make(self.path / "hf", 4)
        said = json.loads((self.path / "hf" / "generation_config.json").read_text())
        config = {**json.loads((self.path / "hf" / "config.json").read_text()), "model_type": "bart"}
        (self.path / "hf" / "config.json").write_text(json.dumps(config))
        self.convert(self.path / "hf", status=1)
        self.assertRegex(self.said, "begin_suppress_tokens|num_mel_bins|max_source_positions")
        self.assertIn("forced_decoder_ids", said)

    def test_without_tokenizer(self):
        make_whisper.make(self.path / "hf", 4)
        (self.path / "hf" / "tokenizer.json").unlink()
        self.convert(self.path / "hf", status=1)
        self.assertIn("--ignore-key begin_suppress_tokens", self.said)
        tensors, about = self.convert(self.path / "hf", "--ignore-key", "begin_suppress_tokens")
        self.assertIn("no tokenizer files", self.said)
        self.assertIn("extra.conv1.weight", tensors)
        self.assertNotIn("extra.transcribe", about)

    def test_wrong_shapes(self):
        model, _ = make_whisper.make(self.path / "hf", 4)
        model.model.encoder.conv2 = torch.nn.Conv1d(8, 8, 5, padding=2)
        model.save_pretrained(self.path / "hf")
        self.convert(self.path / "hf", status=1)
        self.assertIn("Whisper's convolutions are of three frames", self.said)

    def test_ctranslate2(self):
        """Tests that a directory of faster-whisper becomes the same file as the folder that it was made of."""
        import ctranslate2
        make_whisper.make(self.path / "hf", 5, multilingual=True)
        wanted, about = self.convert(self.path / "hf")
        engine = ctranslate2.converters.TransformersConverter(str(self.path / "hf"), copy_files=["tokenizer.json"])
        for kind, allowed in ((None, 0), ("float16", 1e-3), ("int8", 2e-2)):
            engine.convert(str(self.path / "ct2"), quantization=kind, force=True)
            tensors, found = self.convert(self.path / "ct2")
            mine, theirs = (json.loads(one.pop("transformer.config")) for one in (found, dict(about)))
            if kind is None:
                wanted_about = {key: one for key, one in about.items() if key.startswith("extra.")}
                self.assertEqual({key: one for key, one in found.items() if key.startswith("extra.")}, wanted_about)
                for key in ("n_heads", "norm", "start", "end", "suppressed", "alignment_heads", "activation"):
                    self.assertEqual(mine[key], theirs[key], key)
            for name, tensor in wanted.items():
                if tensor.dtype.kind != "f" or "self_attn" in name and name.endswith(("proj.weight", "proj.bias")):
                    continue  # CTranslate2 has q, k and v in one tensor
                other = tensors[name].astype(np.float32)
                self.assertLessEqual(np.abs(other - tensor).max(), allowed * max(1, np.abs(tensor).max()), name)
        (self.path / "ct2" / "model.bin").write_bytes((self.path / "ct2" / "model.bin").read_bytes()[:-3])
        self.convert(self.path / "ct2", status=1)

    @unittest.skipUnless(PROGRAM.exists(), "build/transcribe is not built")
    def test_texts(self):
        """Tests 24 greedy tokens of each shape against transformers."""
        torch.set_num_threads(1)
        for shape, options in SHAPES.items():
            for seed in range(3):
                with self.subTest(shape=shape, seed=seed):
                    self.compare(seed, {**options, "d_model": 8 + 8 * seed})

    def compare(self, seed, options):
        model, ids = make_whisper.make(self.path / "hf", 10 + seed, multilingual=True, **options)
        self.convert(self.path / "hf")
        samples = make_whisper.noise(30, seed)
        make_whisper.write_wav(self.path / "noise.wav", samples)
        extract = WhisperFeatureExtractor(feature_size=model.config.num_mel_bins)
        features = torch.from_numpy(extract(samples.astype(np.float32) / 32768, sampling_rate=16000,
                                            return_tensors="np").input_features)
        said = model.generation_config
        prompt = [ids[one] for one in ("<|startoftranscript|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>")]
        tokens: list[int] = []
        with torch.no_grad():
            memory = model.model.encoder(features).last_hidden_state
            while len(tokens) < 24:
                logits = model(encoder_outputs=(memory,), decoder_input_ids=torch.tensor([prompt + tokens])).logits
                logits = logits[0, -1]
                logits[[*said.suppress_tokens, *(said.begin_suppress_tokens if not tokens else [])]] = -torch.inf
                logits[ids["<|notimestamps|>"] + 1:] = -torch.inf
                tokens.append(int(logits.argmax()))
                if tokens[-1] == said.eos_token_id:
                    tokens.pop()
                    break
        run = subprocess.run([PROGRAM, self.path / "out.safetensors", self.path / "noise.wav", "--format", "json",
                              "--no-times", "--beam", "1", "--language", "de", "--temperature", "0", "--log-prob",
                              "0", "--compression", "0", "--silence", "0"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        found = json.loads(run.stdout.splitlines()[0])["tokens"] if run.stdout else []
        self.assertEqual(found[:len(tokens)], tokens)


if __name__ == "__main__":
    unittest.main()
