#!/usr/bin/env python3
"""Compares T5Gemma and the text side of T5Gemma 2 with transformers: python tests/tools/test_t5gemma.py

Each run draws configs: groups of heads, head widths, layers that see a window or all, the windows, caps,
scales, activations, and the scalings of rotary positions. Memory and logits must agree within 1e-4 (of the
largest logit, if that is over 1), and targets of greedy search and of a beam of 4 token for token. A
directory of CTranslate2 must give the texts that CTranslate2 gives. Configs that have no meaning must be
refused by name. SEED=N in the environment repeats a run, and CASES=N draws N configs of each family. It
needs what tools/requirements.txt lists, and make all build/decode first.
"""

import contextlib
import io
import json
import math
import os
import random
import subprocess
import unittest
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401
from convert import main as convert  # noqa: E402
from folders import prepare  # noqa: E402

FORWARD, DECODE, QUANTIZE = (ROOT / "build" / name for name in ("forward", "decode", "quantize"))
CASES = int(os.environ.get("CASES", 4))
VOCABULARY, WIDTH, LENGTHS = 40, 12, (12, 9, 12, 5, 7)
VISION = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8,
          "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 8, "patch_size": 4}


def draw_side(rng, shared, second):
    """Returns a config of the encoder or the decoder."""
    layers, heads = rng.randint(1, 3), shared["num_attention_heads"]
    scalings = [{"rope_type": "default"}, {"rope_type": "linear", "factor": rng.choice([2.0, 8.0])},
                {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 32},
                {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
                {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "truncate": False}]
    if second:
        scalings[4]["attention_factor"] = 1.0
        scalings[3]["attention_factor"] = 1.0

    def rope():
        return {**rng.choice(scalings), "rope_theta": rng.choice([100.0, 10000.0, 1e6])}

    side = {**shared, "num_hidden_layers": layers, "sliding_window": rng.choice([1, 2, 3, 4, 7]),
            "num_key_value_heads": rng.choice([n for n in (1, 2, 3, 6) if heads % n == 0]),
            "query_pre_attn_scalar": rng.choice([4, 8, 16]),
            "hidden_activation": rng.choice(["gelu_pytorch_tanh", "silu", "gelu", "relu"]),
            "final_logit_softcapping": rng.choice([None, 5.0, 30.0]),
            "rope_parameters": {"full_attention": rope(), "sliding_attention": rope()} if second else rope()}
    if second and rng.random() < 0.3:
        side["rope_parameters"]["truncate"] = False  # where transformers looks for it
    if rng.random() < 0.5:
        side["layer_types"] = [rng.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]
    return side


def draw(seed, second):
    rng = random.Random(seed)
    heads = rng.choice([2, 4, 6])
    shared = {"vocab_size": VOCABULARY, "hidden_size": heads * rng.choice([4, 8]), "num_attention_heads": heads,
              "head_dim": rng.choice([4, 8, 16]), "intermediate_size": rng.choice([20, 32]),
              "rms_norm_eps": rng.choice([1e-6, 1e-3]), "attention_bias": rng.random() < 0.3,
              "attn_logit_softcapping": rng.choice([None, 2.0, 50.0]),
              "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
    encoder, decoder = (draw_side(rng, shared, second) for _ in range(2))
    if second:
        config = transformers.T5Gemma2Config(
            encoder={"text_config": encoder, "vision_config": VISION, "mm_tokens_per_image": 4}, decoder=decoder)
        model = transformers.T5Gemma2ForConditionalGeneration(config).eval()
    else:
        config = transformers.T5GemmaConfig(encoder=encoder, decoder=decoder, vocab_size=VOCABULARY,
                                            tie_word_embeddings=rng.random() < 0.7)
        model = transformers.T5GemmaForConditionalGeneration(config).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name or p.dim() == 1:
                p.copy_(0.3 * torch.randn_like(p))
            elif "embed" in name or "lm_head" in name:
                p.copy_(0.5 * torch.randn_like(p))
            elif p.dim() == 2:
                p.copy_(1.5 / math.sqrt(p.shape[1]) * torch.randn_like(p))
    return model


class T5Gemma(unittest.TestCase):
    def setUp(self):
        prepare(self, FORWARD, DECODE, QUANTIZE)
        (self.folder / "v.txt").write_text("".join(f"t{i}\n" for i in range(VOCABULARY)))

    def convert(self, folder, *options):
        said, words = io.StringIO(), self.folder / "v.txt"
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(folder), str(self.folder / "m.safetensors"), *options,
                                   f"--src-vocab={words}", f"--tgt-vocab={words}"])
        return status, said.getvalue()

    def compare(self, seed, second):
        model = draw(seed, second)
        title = f"T5Gemma{' 2' if second else ''}, SEED={seed}"
        rng = random.Random(seed)
        ends = [1, *rng.sample(range(3, VOCABULARY), rng.choice((0, 1, 4)))]  # instruction-tuned models have several
        model.generation_config.eos_token_id = ends if len(ends) > 1 else 1
        model.save_pretrained(self.folder / "hf")
        status, said = self.convert(self.folder / "hf")
        self.assertEqual(status, 0, f"{title}: {said}")
        self.assertIn("check: 3 random sentences through transformers", said)
        torch.manual_seed(seed)
        lengths = torch.tensor(LENGTHS)
        src = torch.randint(4, VOCABULARY, (len(LENGTHS), WIDTH))
        tgt = torch.randint(4, VOCABULARY, (len(LENGTHS), 10))
        src[torch.arange(len(LENGTHS)), lengths - 1] = 1
        inside = torch.arange(WIDTH) < lengths[:, None]
        src[~inside], tgt[:, 0] = 0, 2
        save_file({"src": src.int(), "tgt": tgt.int(), "src_lengths": lengths.int()}, self.folder / "in.safetensors")
        path = self.folder / "m.safetensors"
        subprocess.run([FORWARD, path, self.folder / "in.safetensors", self.folder / "out.safetensors"], check=True)
        found = load_file(self.folder / "out.safetensors")
        requests, wanted = "", []
        with torch.no_grad():
            out = model(input_ids=src, attention_mask=(src != 0).long(), decoder_input_ids=tgt, use_cache=False)
            for i, beam in ((0, 1), (1, 1), (3, 1), (0, 4), (4, 4)):
                row = src[i, :LENGTHS[i]]
                # transformers 5.24 gives the merged attention of T5Gemma 2 a mask that does not fit its cache, and its cache of a
                # window of 1 keeps the positions before it
                ids = model.generate(row[None], attention_mask=torch.ones_like(row)[None], do_sample=False,
                                     num_beams=beam, max_new_tokens=16, decoder_start_token_id=2,
                                     use_cache=not second and model.config.decoder.sliding_window > 1)[0].tolist()[1:]
                wanted.append(ids[:next((at for at, one in enumerate(ids) if one in ends), None)])
                requests += f"defaults=1 beam={beam} length_penalty=1 stop=3 max_length=16 src={','.join(map(str, row.tolist()))}\n"
        far = [(found["memory"] - out.encoder_last_hidden_state)[inside].abs().max().item(),
               (found["logits"] - out.logits).abs().max().item()]
        print(f"{title}: memory differs by {far[0]:.2g}, logits by {far[1]:.2g}")
        self.assertLess(max(far), 1e-4 * max(1, out.logits.abs().max().item()), title)
        packed = self.folder / "packed.safetensors"
        subprocess.run([QUANTIZE, path, packed, "f32", "--packed"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([FORWARD, packed, self.folder / "in.safetensors", self.folder / "again.safetensors"], check=True)
        self.assertTrue(load_file(self.folder / "again.safetensors")["logits"].equal(found["logits"]), f"{title}, packed")
        done = subprocess.run([DECODE, path], input=requests, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        made = [[int(i) for i in line.split()[6:]] for line in done.stdout.splitlines() if line]
        for i, ids in enumerate(wanted[:3]):  # greedy: transformers hides a pad that the model itself chose from later steps
            if 0 in ids:
                made[i], wanted[i] = made[i][:ids.index(0) + 1], ids[:ids.index(0) + 1]
        self.assertEqual(made, wanted, title)

    def draws(self, second):
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        for seed in range(first, first + CASES):
            self.compare(seed, second)

    def test_first(self):
        self.draws(False)

    def test_second(self):
        self.draws(True)

    def compare_ctranslate2(self, seed, second):
        """Compares a directory of CTranslate2 with CTranslate2 itself, which leaves out caps and the encoder's windows."""
        import ctranslate2.converters
        from tokenizers import Tokenizer, models
        title = f"T5Gemma{' 2' if second else ''} of CTranslate2, SEED={seed}"
        model, folder, made = draw(seed, second), self.folder / "hf", self.folder / "ct2"
        model.save_pretrained(folder)
        words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(VOCABULARY)}, unk_token="t3"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="t0", eos_token="t1", bos_token="t2",
                                             unk_token="t3").save_pretrained(folder)
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(made), force=True)
        status, said = self.convert(made, "--no-check")
        self.assertEqual(status, 0, f"{title}: {said}")
        engine = ctranslate2.Translator(str(made), compute_type="float32", intra_threads=1)
        rng, requests, wanted = random.Random(seed), "", []
        for beam in (1, 1, 1, 4, 4):
            row = [rng.randrange(4, VOCABULARY) for _ in range(rng.randint(1, WIDTH))]
            best = engine.translate_batch([[f"t{i}" for i in row]], beam_size=beam, max_decoding_length=16, length_penalty=1)
            wanted.append([int(token[1:]) for token in best[0].hypotheses[0]])
            requests += f"beam={beam} length_penalty=1 min_length=1 max_length=16 src={','.join(map(str, row))}\n"
        done = subprocess.run([DECODE, self.folder / "m.safetensors"], input=requests, capture_output=True, text=True)
        found = [[int(i) for i in line.split()[6:]] for line in done.stdout.splitlines() if line]
        for i, ids in enumerate(wanted[:3]):  # greedy: transformers hides a pad that the model itself chose from later steps
            if 0 in ids:
                found[i], wanted[i] = found[i][:ids.index(0) + 1], ids[:ids.index(0) + 1]
        self.assertEqual(found, wanted, title)
        return made

    def draws_ctranslate2(self, second):
        try:
            import ctranslate2  # noqa: F401
        except ImportError:
            self.skipTest("no ctranslate2")
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        for seed in range(first, first + CASES):
            made = self.compare_ctranslate2(seed, second)
        return made

    def test_first_of_ctranslate2(self):
        self.draws_ctranslate2(False)

    def test_second_of_ctranslate2(self):
        path = self.draws_ctranslate2(True) / "model.bin"
        whole = path.read_bytes()
        name = b"decoder/layer_0/self_attention/memory_kv/weight\0"  # rank, sizes, type and bytes come before the numbers
        at = whole.index(name) + len(name) + 1 + 8 + 1 + 4
        path.write_bytes(whole[:at] + bytes(4) + whole[at + 4:])
        status, found = self.convert(path.parent, "--no-check")
        self.assertTrue(status and "memory_kv" in found and "one for both" in found, found)

    def test_refusals_of_second(self):
        draw(1, True).save_pretrained(self.folder / "hf")
        path = self.folder / "hf" / "config.json"
        whole = path.read_text()
        for side, key, value, said in (
                ("decoder", "rope_parameters", {"full_attention": {
                    "rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 64}},
                 ("yarn multiplies what turns by 1.13863", "attention_factor 1, or use transformers")),
                ("encoder", "rms_norm_eps", 0.25, ("rms_norm_eps (0.25 and ", "t5gemma-2-270m-270m"))):
            config = json.loads(whole)
            one = config[side] if side == "decoder" else config[side]["text_config"]
            one["layer_types"] = ["full_attention"] * one["num_hidden_layers"]
            one[key] = value
            path.write_text(json.dumps(config))
            status, found = self.convert(self.folder / "hf")
            self.assertTrue(status and all(part in found for part in said), f"{key} {value}: {found}")
        path.write_text(whole)
        status, found = self.convert(self.folder / "hf")
        self.assertEqual(status, 0, found)
        self.assertRegex(found, "a source that has this id gives other numbers than in transformers")

    def test_refusals(self):
        draw(1, False).save_pretrained(self.folder / "hf")
        path = self.folder / "hf" / "config.json"
        whole = path.read_text()
        for key, value, said in (
                ("sliding_window", 0, "sliding_window is 0"), ("sliding_window", None, "sliding_window is null"),
                ("num_key_value_heads", 5, "num_key_value_heads 5 does not divide"),
                ("num_key_value_heads", 0, "num_key_value_heads is 0"), ("head_dim", 7, "head_dim 7 is odd"),
                ("rope_parameters", {"rope_type": "spiral", "rope_theta": 1e4}, "rope_type spiral"),
                ("rope_parameters", {"rope_type": "spiral", "rope_theta": 1e4}, "with which the model was trained"),
                ("rope_parameters", {"rope_type": "dynamic", "factor": 2.0}, "rope_type dynamic"),
                ("rope_parameters", {"rope_type": "dynamic", "factor": 2.0}, "write that as rope_type"),
                ("rope_parameters", {"rope_type": "longrope", "factor": 2.0}, "use transformers for this model"),
                ("num_attention_heads", 12, "num_attention_heads (12 and "), ("head_dim", 2, "head_dim (2 and "),
                ("rms_norm_eps", 0.25, "t5gemma-2b-2b"),
                ("rope_parameters", {"rope_type": "linear", "factor": 0}, "factor is 0"),
                ("layer_types", ["sliding_attention"] * 9, "has 9 layers"), ("hidden_size", 10, "hidden_size (10 and "),
                ("attn_logit_softcapping", 0, "attn_logit_softcapping is 0"),
                ("use_bidirectional_attention", True, "use_bidirectional_attention")):
            config = json.loads(whole)
            config["encoder"]["layer_types"] = ["sliding_attention"] * config["encoder"]["num_hidden_layers"]
            config["encoder"][key] = value
            path.write_text(json.dumps(config))
            status, found = self.convert(self.folder / "hf")
            self.assertTrue(status and said in found, f"{key} {value}: {found}")


if __name__ == "__main__":
    unittest.main()
