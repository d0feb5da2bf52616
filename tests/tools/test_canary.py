#!/usr/bin/env python3
"""Compares Canary and Cohere Transcribe with transformers: python tests/tools/test_canary.py

Each run draws configs: sizes, heads, activations, biases, kernels, convolutions, mel bins, preemphasis. The memory that
the FastConformer encoder gives of a sound, and the ids of greedy search and of a beam of 4 behind the prompt of drawn
languages must agree. Configs that have no meaning must be refused by name. SEED=N in the environment repeats a run, and
CASES=N draws N configs of each family. It needs what tools/requirements.txt lists, and make all build/fast_conformer
first. No real weights were to be had: all are random.
"""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import unittest
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import import_path  # noqa: F401
try:
    import numpy as np
    import torch
    import transformers
    if not hasattr(transformers, "CanaryForConditionalGeneration"):
        raise ImportError("transformers 5.24")
    import make_canary
except ImportError as error_:
    raise unittest.SkipTest(f"{error_}: make test-torch has it") from None

ROOT = Path(__file__).resolve().parents[2]
from convert import checkpoints_conformer, config_fields  # noqa: E402
from convert import main as convert  # noqa: E402
from folders import prepare  # noqa: E402

HEARS, TRANSCRIBE = (ROOT / "build" / name for name in ("fast_conformer", "transcribe"))
CASES = int(os.environ.get("CASES", 4))


class Canary(unittest.TestCase):
    def setUp(self):
        prepare(self, HEARS, TRANSCRIBE)
        torch.set_num_threads(1)

    def convert(self, folder, *options):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(folder), str(self.folder / "m.safetensors"), "--no-check", "--vad=none", *options])
        return status, said.getvalue()

    def hear(self, samples, beam, *languages):
        samples.tofile(self.folder / "x.f32")
        done = subprocess.run([HEARS, self.folder / "m.safetensors", self.folder / "x.f32", str(beam), *languages],
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        shape, rows, ids, self.text = done.stdout.decode().split("\n", 3)
        return np.array(rows.split(), np.float32).reshape([int(one) for one in shape.split()]), [int(one) for one in ids.split()]

    def compare(self, seed, family):
        model, features = make_canary.draw(seed, family)
        rng, title = random.Random(seed), f"{family}, SEED={seed}"
        shutil.rmtree(self.folder / "hf", ignore_errors=True)
        make_canary.save(model, features, self.folder / "hf")
        status, said = self.convert(self.folder / "hf")
        self.assertEqual(status, 0, f"{title}: {said}")
        self.assertNotIn("WARNING", said.upper(), title)
        samples = make_canary.sound(rng, rng.randrange(3200, 4 * make_canary.RATE))
        inputs, wanted = make_canary.memory_of(model, features, samples)
        source = rng.choice(["en", "de", "fr"])
        options = {"source": source, "target": rng.choice(["en", "fr"]) if family == "canary" else source, "plain": rng.random() < 0.3}
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder / "hf")
        kinds = 0
        for beam in (1, 4):
            found, ids = self.hear(samples, beam, source, options["target"], *["plain"] * options["plain"])
            self.assertEqual(found.shape, wanted.shape, title)
            far = np.abs(found - wanted).max()
            self.assertLess(far, 1e-4 * max(1, np.abs(wanted).max()), title)
            made = make_canary.generate(model, inputs, len(wanted), make_canary.prompt_of(model, **options), beam)
            self.assertEqual(ids, made, f"{title}, beam {beam}")
            self.assertEqual(self.text.strip(), tokenizer.decode(made, skip_special_tokens=True).strip(), f"{title}, beam {beam}")
            kinds = max(kinds, len(set(made)))
        print(f"{title}: {len(wanted)} rows of memory differ by {far:.2g}; {len(made)} tokens, {kinds} of them different", flush=True)
        return kinds

    def draws(self, family):
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        kinds = [self.compare(seed, family) for seed in range(first, first + CASES)]
        self.assertGreater(max(kinds), 1, "each text is one token again and again")

    def test_canary(self):
        self.draws("canary")

    def test_cohere(self):
        self.draws("cohere_asr")

    def memories(self, family, changes, into):
        """Changes an object of a file in a folder. Returns the memory that transformers computes of the folder, and the one
        here."""
        model, features = make_canary.draw(5, family, make_canary.SMALL)
        make_canary.save(model, features, self.folder / "hf")
        path = self.folder / "hf" / into[0]
        whole = json.loads(path.read_text())
        (whole[into[1]] if len(into) > 1 else whole).update(changes)
        path.write_text(json.dumps(whole))
        status, said = self.convert(self.folder / "hf")
        self.assertEqual(status, 0, said)
        samples = make_canary.sound(random.Random(5), 20000)
        model = type(model).from_pretrained(self.folder / "hf", dtype=torch.float32).eval()
        features = type(features).from_pretrained(self.folder / "hf")
        return make_canary.memory_of(model, features, samples)[1], self.hear(samples, 1, "de")[0]

    def test_fields_that_change_nothing(self):
        """Each field of the encoder's class and of the feature extractors has a row; those that are said to change nothing
        get other values."""
        config = transformers.CONFIG_MAPPING["parakeet_encoder"]
        names = config_fields.names_of(config) - {"model_type", "transformers_version", "name_or_path", "attn_implementation"}
        self.assertEqual(names - config_fields.CONFORMER.rows() - config_fields.GENERATION.rows(), set())
        for one in (transformers.ParakeetFeatureExtractor, transformers.CohereAsrFeatureExtractor):
            self.assertEqual(set(one().to_dict()) - {"model_input_names"} - checkpoints_conformer.SOUND.rows(), set())
        found = self.memories("canary", {"dropout": 0.5, "dropout_positions": 0.5, "layerdrop": 0.9, "activation_dropout": 0.5,
                                         "attention_dropout": 0.5, "initializer_range": 3.0, "max_position_embeddings": 3}, ("config.json", "encoder_config"))
        self.assertLess(np.abs(found[0] - found[1]).max(), 1e-4)
        plain = self.memories("canary", {}, ("config.json", "encoder_config"))
        self.assertEqual(found[1].tolist(), plain[1].tolist())

    def test_fields_that_count(self):
        for changes, into in (({"hidden_act": "relu"}, ("config.json", "encoder_config")),
                              ({"scale_input": True}, ("config.json", "encoder_config")),
                              ({"scale_input": False}, ("config.json", "encoder_config")),
                              ({"preemphasis": 0.25}, ("preprocessor_config.json",)),
                              ({"preemphasis": None}, ("preprocessor_config.json",))):
            found = self.memories("cohere_asr", changes, into)
            self.assertLess(np.abs(found[0] - found[1]).max(), 1e-4, changes)

    def test_refusals(self):
        inside, sound = ("config.json", "encoder_config"), ("preprocessor_config.json",)
        for into, key, value, said in (
                (inside, "hidden_act", "tanh", "hidden_act tanh"), (inside, "conv_kernel_size", 4, "conv_kernel_size is 4"),
                (inside, "hidden_size", 13, "hidden_size is 13"), (inside, "hidden_size", 0, "hidden_size is 0"),
                (inside, "subsampling_factor", 1, "subsampling_factor 1"), (inside, "subsampling_conv_stride", 9, "stride 9"),
                (inside, "num_mel_bins", 300, "num_mel_bins is 300"), (inside, "num_mel_bins", 48, "is expected"),
                (inside, "num_hidden_layers", 1, "no place for"), (inside, "num_hidden_layers", 3, "the weights have no encoder.layers.2"),
                (inside, "subsampling_factor", 4, "is expected"), (inside, "num_attention_heads", 5, "num_key_value_heads is 2 and"),
                (inside, "num_key_value_heads", 1, "num_key_value_heads is 1 and"), (inside, "head_dim", 4, "is expected"),
                (inside, "model_type", "wav2vec2", "model_type wav2vec2"), (inside, "is_encoder_decoder", True, "is_encoder_decoder is True"),
                (sound, "feature_size", 20, "feature_size is 20"), (sound, "n_fft", 400, "n_fft is 400"),
                (sound, "sampling_rate", 8000, "sampling_rate is 8000"), (sound, "hop_length", 80, "hop_length is 80"),
                (sound, "preemphasis", 2, "preemphasis is 2"), (sound, "max_audio_clip_s", 90, "max_audio_clip_s 90")):
            model, features = make_canary.draw(5, "cohere_asr", make_canary.SMALL)
            make_canary.save(model, features, self.folder / "hf")
            path = self.folder / "hf" / into[0]
            whole = json.loads(path.read_text())
            (whole[into[1]] if len(into) > 1 else whole)[key] = value
            path.write_text(json.dumps(whole))
            status, found = self.convert(self.folder / "hf")
            self.assertTrue(status and said in found, f"{key} {value}: {found[-500:]}")

    def test_prompts(self):
        """The prompt is that of CohereAsrProcessor. A chat template of Canary with other tokens is named."""
        model, features = make_canary.draw(5, "cohere_asr", make_canary.SMALL)
        make_canary.save(model, features, self.folder / "hf")
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder / "hf")
        processor = transformers.CohereAsrProcessor(features, tokenizer)
        for language, punctuation in (("de", True), ("ja", False)):
            self.assertEqual(processor.get_decoder_prompt_ids(language, punctuation),
                             make_canary.prompt_of(model, language, plain=not punctuation))
        model, features = make_canary.draw(5, "canary", make_canary.SMALL)
        make_canary.save(model, features, self.folder / "hf")
        for last, is_named in (("<|nodiarize|>", False), ("<|diarize|>", True)):
            (self.folder / "hf" / "chat_template.jinja").write_text(
                "<|startofcontext|><|startoftranscript|><|emo:undefined|>{{ x }}<|noitn|><|notimestamp|>" + last)
            status, said = self.convert(self.folder / "hf")
            self.assertEqual((status, "the chat template has the token <|diarize|>" in said), (0, is_named), said)

    def test_long_sound(self):
        """transcribe cuts a long sound where the feature extractor of Cohere does."""
        model, features = make_canary.draw(5, "cohere_asr", make_canary.SMALL)
        make_canary.save(model, features, self.folder / "hf")
        self.assertEqual(self.convert(self.folder / "hf")[0], 0)
        rng = np.random.default_rng(9)
        n = 81 * make_canary.RATE + 77
        samples = rng.normal(size=n) * (0.03 + 0.1 * np.abs(np.sin(np.arange(n) / 41000.0)))
        samples = (np.clip(samples, -1, 1) * 32767).astype("<i2")
        done = subprocess.run([TRANSCRIBE, self.folder / "m.safetensors", "-", "--language", "de", "--beam", "1", "--format", "json"],
                              input=samples.tobytes(), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line) for line in done.stdout.decode().splitlines()]
        wanted = [len(one) / make_canary.RATE for one in
                  features._split_audio_chunks_energy(torch.tensor(samples.astype(np.float32) / 32768))]
        self.assertEqual(len(wanted), 3)
        self.assertEqual([round(one["end"] - one["start"], 1) for one in found], [round(one, 1) for one in wanted])


if __name__ == "__main__":
    unittest.main()
