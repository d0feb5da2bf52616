"""Compares Whisper, Speech2Text, TrOCR, Donut, Nougat, Florence-2, Canary and Cohere of random sizes, whose sources
are vectors, with transformers: logits and 40 greedy targets. tools/convert.py makes the model files, and
build/test_sources compares."""

import contextlib
import io
import json
import random
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import import_path  # noqa: F401

try:
    import make_vectors
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    raise unittest.SkipTest(f"{error}: make test-torch has it") from None

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "test_sources"
DECODE = PROGRAM.with_name("decode")
MODELS, ROWS = 10, 4


@unittest.skipUnless(PROGRAM.exists(), "build/test_sources is not built")
class TestVectors(unittest.TestCase):
    def compare(self, family, **options):
        torch.set_num_threads(1)
        for seed in range(100, 100 + MODELS):
            torch.manual_seed(seed)
            heads, layers = int(torch.randint(1, 4, ())), int(torch.randint(1, 4, ()))
            sizes = dict(vocab_size=32 + seed % 9, d_model=4 * heads * int(torch.randint(1, 4, ())),
                         decoder_layers=layers, decoder_attention_heads=heads,
                         decoder_ffn_dim=int(torch.randint(8, 40, ())))
            with mock.patch.object(make_vectors, "SIZES", sizes), \
                    tempfile.TemporaryDirectory() as folder:
                model, width = make_vectors.make(
                    family, seed, memory=2 * int(torch.randint(3, 20, ())), **options)
                case, path = f"{folder}/case.safetensors", f"{folder}/model.safetensors"
                make_vectors.write(model, path)
                found = make_vectors.case(model, width, ROWS, 9, 20, 40, seed)
                save_file({name: one.contiguous() for name, one in found.items()}, case)
                run = subprocess.run([PROGRAM, case, path], capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, f"seed {seed}: {run.stdout}{run.stderr}")

    def test_whisper(self):
        self.compare("whisper")

    def test_trocr(self):
        self.compare("trocr")

    def test_trocr_with_sines(self):
        self.compare("trocr", sines=True)

    def test_donut(self):
        self.compare("donut")

    def test_nougat(self):
        self.compare("nougat")

    def test_speech_to_text(self):
        self.compare("speech_to_text")

    def test_florence2(self):
        self.compare("florence2")

    def test_canary(self):
        self.compare("canary")

    def test_cohere(self):
        self.compare("cohere_asr")

    @unittest.skipUnless(DECODE.exists(), "build/decode is not built")
    def test_prompts(self):
        """Tests the decoders of Canary and Cohere after prompts of several tokens, greedily and with a beam."""
        for number in range(2 * MODELS):
            family = make_vectors.HEARING[number % 2]
            rng = random.Random(number)
            model, width = make_vectors.make(family, number, memory=14, num_attention_heads=2, num_key_value_heads=rng.choice([1, 2]),
                                             head_dim=rng.choice([3, 6, 8]), attention_bias=rng.random() < 0.5)
            with tempfile.TemporaryDirectory() as folder, self.subTest(family=family, number=number):
                make_vectors.write(model, f"{folder}/model.safetensors")
                torch.manual_seed(number)
                requests, wanted = "", []
                for beam in (1, 1, 4):
                    memory = torch.randn(1, rng.randint(1, 9), width)
                    prompt = [make_vectors.START, *(rng.randrange(4, 32) for _ in range(rng.randint(0, 9)))]
                    ids = model.generate(encoder_outputs=make_vectors.Memory(last_hidden_state=memory), do_sample=False,
                                         decoder_input_ids=torch.tensor([prompt]), num_beams=beam, max_new_tokens=16,
                                         suppress_tokens=[make_vectors.PAD])[0].tolist()[len(prompt):]
                    wanted.append(ids[:ids.index(make_vectors.END)] if make_vectors.END in ids else ids)
                    requests += (f"beam={beam} length_penalty=1 stop=3 max_length=16 prompt={','.join(map(str, prompt))} vectors="
                                 + ";".join(",".join(f"{x:.9g}" for x in row) for row in memory[0].tolist()) + "\n")
                done = subprocess.run([DECODE, f"{folder}/model.safetensors"], input=requests, capture_output=True, text=True)
                self.assertEqual(done.stderr, "")
                self.assertEqual([[int(i) for i in line.split()[6:]] for line in done.stdout.splitlines() if line], wanted)

    def test_sizes_that_no_decoder_has(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            for family, key, value, said in (("canary", "num_key_value_heads", 5, "num_key_value_heads 5 does not divide"),
                                             ("canary", "hidden_size", 13, "hidden_size is 13; Canary's positions"),
                                             ("canary", "head_dim", 0, "head_dim is 0"),
                                             ("canary", "hidden_act", "swirl", "hidden_act swirl"),
                                             ("cohere_asr", "num_attention_heads", -1, "num_attention_heads is -1"),
                                             ("cohere_asr", "num_hidden_layers", 1, "n_decoder_layers is stated as 1")):
                make_vectors.make(family, 1)[0].save_pretrained(folder)
                self.edit(path, lambda config: config.get("decoder_config", config).update({key: value}))
                self.assertIn(said, self.convert(path, 1))
            make_vectors.make("canary", 1)[0].save_pretrained(folder)
            self.edit(path, lambda config: config["decoder_config"].update(model_type="llama"))
            self.assertIn("a decoder_config of model_type llama; what transformer.h runs of a canary is canary_decoder",
                          self.convert(path, 1))

    def test_what_is_left_out_is_named(self):
        """Tests the converter with Microsoft's names of Florence-2's tensors, and with models that it
        refuses."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            model, _ = make_vectors.make("florence2", 2)
            model.save_pretrained(folder)
            self.assertIn("tensors before the language model: left out", self.convert(path, 0))
            wanted = (path / "out.safetensors").read_bytes()
            state = {re.sub(r"^model\.language_model", "language_model.model", name): tensor
                     for name, tensor in load_file(path / "model.safetensors").items()}
            save_file(state, path / "model.safetensors")
            self.edit(path, lambda config: config["text_config"].update(
                model_type="florence2_language"))
            self.convert(path, 0)
            self.assertEqual((path / "out.safetensors").read_bytes(), wanted)
            self.edit(path, lambda config: config["text_config"].update(model_type="bert"))
            self.assertIn("a text_config of model_type bert; what transformer.h runs of a florence2"
                          " is bart", self.convert(path, 1))
            self.edit(path, lambda config: config.pop("text_config"))
            self.assertIn("no text_config", self.convert(path, 1))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            model, _ = make_vectors.make("speech_to_text", 2)
            model.save_pretrained(folder)
            self.assertIn("what the convolutions give, times sqrt(d_model), are the embeddings",
                          self.convert(path, 0))
            (path / "generation_config.json").unlink()
            self.edit(path, lambda config: config.update(pad_token_id=0))
            self.assertIn("pad_token_id is 0", self.convert(path, 1))

    def edit(self, path, change):
        config = json.loads((path / "config.json").read_text())
        change(config)
        (path / "config.json").write_text(json.dumps(config))

    def convert(self, path, status):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            self.assertEqual(make_vectors.convert.main([str(path), str(path / "out.safetensors"),
                                                        "--no-check"]), status, said.getvalue())
        return said.getvalue()


if __name__ == "__main__":
    unittest.main()
