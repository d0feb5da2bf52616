"""Compares models with GPT-2's byte-level BPE with transformers, text in and text out: random BART, MVP, LED,
Blenderbot and CodeT5 with a tokenizer that is trained here, as tokenizer.json and as vocab.json with
merges.txt. Also tests tokenizers that are refused. Needs PyTorch and transformers."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch  # noqa: E402
import transformers
from tokenizers import ByteLevelBPETokenizer
from tokenizers.processors import TemplateProcessing

import import_path  # noqa: E402, F401
from make_sentencepiece import LINES, sentences  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
         "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 256, "pad_token_id": 1, "bos_token_id": 0,
         "eos_token_id": 2, "decoder_start_token_id": 2, "forced_bos_token_id": None, "forced_eos_token_id": None}
FAMILIES = {"bart": ("BartConfig", "BartForConditionalGeneration", "BartTokenizer", {}),
            "mvp": ("MvpConfig", "MvpForConditionalGeneration", "MvpTokenizer", {"use_prompt": False}),
            "led": ("LEDConfig", "LEDForConditionalGeneration", "LEDTokenizer",
                    {"max_encoder_position_embeddings": 1024, "max_decoder_position_embeddings": 256, "attention_window": [512]}),
            "blenderbot": ("BlenderbotConfig", "BlenderbotForConditionalGeneration", "BlenderbotTokenizer", {"encoder_no_repeat_ngram_size": 0}),
            "t5": ("T5Config", "T5ForConditionalGeneration", "RobertaTokenizer", {})}  # CodeT5
T5_SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "pad_token_id": 1, "eos_token_id": 2,
            "decoder_start_token_id": 1, "tie_word_embeddings": True}
# What translate writes as a space: line breaks, and characters that a terminal would obey, except TAB
BREAKS = dict.fromkeys([*range(9), *range(10, 32), *range(127, 160), 0x2028, 0x2029], " ")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def texts(n):
    lines = [line for line in LINES if line.strip() and not set(line) & set("\n\t\v\f\r\0\x01\ufeff") and "<pad>" not in line]
    return (lines + ["I'm here, don't  go", "a <mask> b", "naïve café 12½ 猫 👩🏽‍🚀"] + sentences(5, n))[:n]


def make(family, folder):
    """Makes a directory as save_pretrained writes it. The weights are large enough to make texts differ."""
    config, model, tokenizer, more = FAMILIES[family]
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(sentences(3, 400), 500, min_frequency=2, special_tokens=SPECIAL, show_progress=False)
    trained.save_model(str(folder))
    tokenizer = getattr(transformers, tokenizer)(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))
    if family == "blenderbot":  # transformers 5 loses the end token of this family
        tokenizer._tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(len(family))
    model = getattr(transformers, model)(getattr(transformers, config)(
        vocab_size=len(tokenizer), **{**(T5_SIZES if family == "t5" else SIZES), **more})).eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            if one.dim() > 1:
                one.normal_(0, 0.5)
    model.save_pretrained(folder)
    return model, tokenizer


def convert(folder, out):
    return subprocess.run([sys.executable, ROOT / "tools" / "convert.py", folder, out, "--no-check"], capture_output=True, text=True)


class ByteBPE(unittest.TestCase):
    def families(self, family, n):
        with tempfile.TemporaryDirectory() as name:
            folder, out = Path(name) / "model", Path(name) / "model.safetensors"
            folder.mkdir()
            model, tokenizer = make(family, folder)
            lines, expected = texts(n), []
            for line in lines:
                batch = tokenizer(line, return_tensors="pt")
                with torch.no_grad():
                    ids = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=1, do_sample=False,
                                         max_length=25, min_length=0)
                expected.append(tokenizer.decode(ids[0], skip_special_tokens=True, clean_up_tokenization_spaces=False))
            for kind in ("tokenizer.json", "vocab.json and merges.txt"):
                if kind != "tokenizer.json":
                    (folder / "tokenizer.json").unlink()
                done = convert(folder, out)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("byte-level BPE", done.stdout + done.stderr)
                got = subprocess.run([ROOT / "build" / "translate", out, "--max-length", "24"], input="\n".join(lines) + "\n",
                                     capture_output=True, text=True)
                self.assertEqual(got.returncode, 0, got.stderr)
                shown = [one.translate(BREAKS) for one in expected]  # one line each
                got = [one.translate(BREAKS) for one in got.stdout.split("\n")[:-1]]
                self.assertEqual(len(got), len(lines))
                self.assertEqual([(a, b) for a, b in zip(got, shown) if a != b], [])
                self.assertGreater(len(set(expected)), len(lines) // 2)

    def test_bart(self):
        self.families("bart", 40)

    def test_mvp(self):
        self.families("mvp", 20)

    def test_led(self):
        self.families("led", 20)

    def test_blenderbot(self):
        self.families("blenderbot", 20)

    def test_codet5(self):
        self.families("t5", 20)

    def test_refused(self):
        split = {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        token = {"id": 4, "content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False, "normalized": False, "special": True}
        cases = [({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {**level, "use_regex": False}]}}, "the pre-tokenizer {'behavior'"),
                 ({"pre_tokenizer": {**level, "use_regex": False}}, "the pre-tokenizer"),
                 ({"normalizer": {"type": "NFC"}}, "the normalizer {'type': 'NFC'}"), ({"decoder": None}, "the decoder None"),
                 ({"added_tokens": [{**token, "content": " x"}]}, "whitespace at its ends"),
                 ({"model": {"ignore_merges": True}}, "ignore_merges True"), ({"model": {"byte_fallback": True}}, "byte_fallback True"),
                 ({"model": {"merges": [["a", "nosuch"]]}}, "ids")]
        with tempfile.TemporaryDirectory() as name:
            folder, out = Path(name) / "model", Path(name) / "model.safetensors"
            folder.mkdir()
            make("bart", folder)
            whole = json.loads((folder / "tokenizer.json").read_text())
            for changes, says in cases:
                changed = {**whole, **changes}
                if "model" in changes:
                    changed["model"] = {**whole["model"], **changes["model"]}
                (folder / "tokenizer.json").write_text(json.dumps(changed))
                done = convert(folder, out)
                self.assertEqual(done.returncode, 1, says)
                self.assertIn(says, done.stderr)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
