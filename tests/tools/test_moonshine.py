#!/usr/bin/env python3
"""Compares Moonshine and Moonshine streaming with transformers: python tests/tools/test_moonshine.py

Each run draws configs: sizes, heads, the share of a head that turns and its scalings, activations, biases,
windows, frames. What the stem gives (of streaming: the memory, in pieces of 1 to 16,000 samples), logits and
the texts of greedy search and of a beam of 4 must agree. Configs that have no meaning must be refused by
name. SEED=N in the environment repeats a run, and CASES=N draws N configs of each family. It needs what
tools/requirements.txt lists, and make all build/decode build/moonshine first. No real weights were to be
had: all are random.
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
import import_path
try:
    import numpy as np
    import torch
    import transformers
    from make_moonshine import BYTES, RATE, VOCABULARY, draw, generate, inputs_of, read_wav, sound, write_tokenizer
except ImportError as error_:
    raise unittest.SkipTest(f"{error_}: make test-torch has it") from None

ROOT = Path(__file__).resolve().parents[2]
from convert import main as convert  # noqa: E402
from folders import prepare  # noqa: E402

HEARS, DECODE = (ROOT / "build" / name for name in ("moonshine", "decode"))
CASES = int(os.environ.get("CASES", 4))
SOUNDS = sorted(Path(os.environ["SOUNDS"]).glob("*.wav")) if "SOUNDS" in os.environ else []


class Moonshine(unittest.TestCase):
    def setUp(self):
        prepare(self, HEARS, DECODE)

    def convert(self, folder):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(folder), str(self.folder / "m.safetensors"), "--no-check", "--vad=none"])
        return status, said.getvalue()

    def hear(self, samples, beam, piece):
        samples.tofile(self.folder / "x.f32")
        done = subprocess.run([HEARS, self.folder / "m.safetensors", self.folder / "x.f32", str(beam), str(piece)],
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        shape, rows, ids, self.text = done.stdout.decode().split("\n", 3)
        return (np.array(rows.split(), np.float32).reshape([int(one) for one in shape.split()]),
                [int(one) for one in ids.split()], rows)

    def compare(self, seed, streaming, samples=None):
        model, rng = draw(seed, streaming, 300 if samples is None else 3200), random.Random(seed)
        title = f"Moonshine{' streaming' if streaming else ''}, SEED={seed}"
        model.save_pretrained(self.folder / "hf")
        write_tokenizer(self.folder / "hf")
        status, said = self.convert(self.folder / "hf")
        self.assertEqual(status, 0, f"{title}: {said}")
        self.assertNotIn("WARNING", said.upper(), title)
        if samples is None:
            samples = sound(rng, rng.randrange(RATE, 3 * RATE))
        encoder, outputs = model.model.encoder, inputs_of(model, samples)
        with torch.no_grad():
            if streaming:
                memory, valid = encoder(**outputs).to_tuple()
                places = memory + model.model.decoder.pos_emb(torch.arange(memory.shape[1]))
                wanted = places[0].numpy()
                self.assertTrue(bool(valid.all()))
            else:
                y = encoder.groupnorm(torch.tanh(encoder.conv1(outputs["input_values"][:, None])))
                y = torch.nn.functional.gelu(encoder.conv2(y))
                wanted = torch.nn.functional.gelu(encoder.conv3(y))[0].T.numpy()
        pieces = [1, 160, rng.randint(2, 4000), 16000] if streaming else [1]
        found, _, bits = self.hear(samples, 1, pieces[0])
        self.assertEqual(found.shape, wanted.shape, title)
        scale = max(1, np.abs(wanted).max())
        far = np.abs(found - wanted).max()
        for piece in pieces[1:]:
            self.assertEqual(self.hear(samples, 1, piece)[2], bits, f"{title}: pieces of {piece} samples")
        self.assertLess(far, 1e-4 * scale, title)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder / "hf")
        for beam in (1, 4):
            ids = self.hear(samples, beam, 16000)[1]
            made = generate(model, samples, beam)
            self.assertEqual(ids, made, f"{title}, beam {beam}")
            if any(one in BYTES for one in made):
                continue  # transformers gives nothing of bytes among which one is no UTF-8
            text = tokenizer.decode(made, skip_special_tokens=True)
            self.assertEqual(self.text.strip(), text.strip(), f"{title}, beam {beam}")
        # logits: log-probabilities of a target
        target = [rng.randrange(3, VOCABULARY) for _ in range(7)]
        with torch.no_grad():
            logits = model(**outputs, decoder_input_ids=torch.tensor([[1, *target[:-1]]])).logits[0]
        want = logits.log_softmax(-1)[torch.arange(7), torch.tensor(target)].numpy()
        rows = ";".join(",".join(f"{one:.9g}" for one in row) for row in found)
        done = subprocess.run([DECODE, self.folder / "m.safetensors"], capture_output=True, text=True,
                              input=f"score=1 max_length=20 vectors={rows} tgt={','.join(map(str, target))}\n")
        self.assertEqual(done.stderr, "")
        got = np.array(done.stdout.split()[:7], float)
        print(f"{title}: {'memory' if streaming else 'stem'} differs by {far:.2g}, log-probabilities by "
              f"{np.abs(got - want).max():.2g}")
        self.assertLess(np.abs(got - want).max(), 1e-4 * max(1, logits.abs().max().item()), title)

    def draws(self, streaming):
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        for seed in range(first, first + CASES):
            self.compare(seed, streaming)
        for path in SOUNDS:
            self.compare(first, streaming, read_wav(path))

    def test_moonshine(self):
        self.draws(False)

    def test_streaming(self):
        self.draws(True)

    def test_refusals(self):
        for streaming, changes in ((False, (
                ("decoder_num_attention_heads", 7, "decoder_num_attention_heads is 7"),
                ("encoder_num_key_value_heads", 3, "encoder_num_key_value_heads is 3"),
                ("hidden_size", 0, "hidden_size is 0"), ("encoder_hidden_act", "tanh", "encoder_hidden_act tanh"),
                ("decoder_num_hidden_layers", 0, "decoder_num_hidden_layers is 0"),
                ("decoder_num_hidden_layers", 9, "decoder.layers.8.norm1.weight is missing"),
                ("rope_parameters", {"rope_type": "spiral", "rope_theta": 1e4}, "rope_type spiral"),
                ("rope_parameters", {"rope_type": "dynamic", "factor": 2.0}, "rope_type dynamic"),
                ("rope_parameters", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
                ("rope_parameters", {"partial_rotary_factor": 0.01}, "0 of "),
                ("rope_parameters", {"rope_theta": -1}, "rope_theta is -1"),
                ("is_decoder", True, "is_decoder is True"))), (True, (
                    ("sliding_windows", [[0, 4]] * 9, "sliding_windows has [0, 4]"),
                    ("sliding_windows", [], "sliding_windows has 0 windows"),
                    ("sliding_windows", [[4]] * 9, "sliding_windows has [4]"),
                    ("sample_rate", 8000, "sample_rate is 8000"), ("frame_ms", 0, "frame_ms is 0"),
                    ("frame_ms", 9.0, "144] is expected"), ("num_key_value_heads", 3, "num_key_value_heads 3 does not divide"),
                    ("hidden_act", "tanh", "hidden_act tanh"), ("head_dim", 0, "head_dim is 0")))):
            shutil.rmtree(self.folder / "hf", ignore_errors=True)
            draw(6, streaming).save_pretrained(self.folder / "hf")
            write_tokenizer(self.folder / "hf")
            path = self.folder / "hf" / "config.json"
            whole = path.read_text()
            for key, value, said in changes:
                config = json.loads(whole)
                (config["encoder_config"] if streaming else config)[key] = value
                path.write_text(json.dumps(config))
                status, found = self.convert(self.folder / "hf")
                self.assertTrue(status and said in found, f"{key} {value}: {found}")


if __name__ == "__main__":
    unittest.main()
