#!/usr/bin/env python3
"""Compares T5, mT5 and UMT5 with transformers 4 or 5 and with CTranslate2, and their tokenizers: make test-t5

The configs are random (heads with widths of their own, 1 to 3 layers, buckets and distances, lm_heads that
config.json ties or not). Memory and teacher-forced logits must agree within 1e-4, for sequences up to 300
too. Greedy targets and those of a beam of 4 must agree token for token. With CTranslate2's directories of the
same models, log-probabilities must agree within 1e-4, and so must the targets of its beam of 4. The test also
compares ids and texts of T5's, mT5's and ByT5's tokenizers.

The two major versions of transformers read one T5 directory in two ways. Each version is the oracle of the
directories that it saved. CTranslate2's converter and the tokenizers follow transformers 4, so their tests
are left out with version 5.
"""

import contextlib
import io
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers

import families
from test_peers import BEAM, DECODE, ROOT, Comparison, convert

OLD = transformers.__version__.startswith("4.")
CASES = {
    "t5": [{}, {"num_layers": 1, "num_decoder_layers": 3, "d_kv": 9, "feed_forward_proj": "gelu"},
           {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu",
            "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
           {"relative_attention_num_buckets": 13, "relative_attention_max_distance": 40,
            "d_model": 21, "num_heads": 5, "layer_norm_epsilon": 1e-3}],
    "mt5": [{}, {"num_layers": 3, "num_decoder_layers": 1, "d_kv": 11, "d_ff": 20,
                 "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
            {"feed_forward_proj": "gated-relu", "tie_word_embeddings": True}],
    "umt5": [{}, {"num_layers": 3, "d_kv": 4, "num_heads": 4, "feed_forward_proj": "gated-gelu",
                  "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
             {"tie_word_embeddings": True, "relative_attention_num_buckets": 6}],
}


for cases__ in CASES.values():
    cases__ += [{"own_head": True}, {"own_head": True, "tie_word_embeddings": False},
                {"own_head": True, "tie_word_embeddings": True, "feed_forward_proj": "gated-gelu"}]
    if not OLD:
        cases__ += [{"own_head": own, "scale_decoder_outputs": scale}
                    for own in (False, True) for scale in (False, True)]


class T5(Comparison, unittest.TestCase):
    DOUBLE = False  # The softmax of T5 is always in float32.

    def compare(self, family, number, options):
        options = {"seed": 60 + number, **options}
        title = " ".join([family, *(f"{k}={v}" for k, v in options.items())])
        model = families.make_t5(family, **options)
        model.save_pretrained(self.folder / "saved")  # and what the version reads back
        model = type(model).from_pretrained(self.folder / "saved").eval()
        self.check(model, title, BEAM)
        path = self.folder / "model.safetensors"
        long = families.sentences(model, rows=4, width=300, target=290)
        self.check_forward(path, model, "  300 tokens", *long)
        print()
        if OLD:
            self.compare_ctranslate2(family, model)

    def compare_ctranslate2(self, family, model):
        import ctranslate2
        from ctranslate2.converters import transformers as loaders
        loader = {"t5": loaders.T5Loader, "mt5": loaders.MT5Loader,
                  "umt5": getattr(loaders, "UMT5Loader", None)}[family]
        if loader is None or model.config.dense_act_fn not in loaders._SUPPORTED_ACTIVATIONS:
            return
        folder = self.folder / "ct2"
        spec = loader().get_model_spec(model)
        tokens = [f"t{i}" for i in range(model.config.vocab_size)]
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.config.bos_token = spec.config.decoder_start_token = "t0"
        spec.config.eos_token, spec.config.unk_token = "t1", "t2"
        spec.config.layer_norm_epsilon = model.config.layer_norm_epsilon
        spec.validate()
        folder.mkdir()
        spec.save(str(folder))
        out, said = self.folder / "ct2.safetensors", io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(folder), str(out)])
        self.assertEqual(status, 0, said.getvalue())
        check = [line for line in said.getvalue().splitlines() if line.startswith("check:")]
        print("  " + (check or ["no check"])[0])
        self.assertTrue(check and float(check[0].split()[-1]) < 1e-4, said.getvalue())
        src, lengths, _ = families.sentences(model, rows=BEAM, seed=8)
        rows = [row[:n] for row, n in zip(src.tolist(), lengths.tolist())]
        engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
        answers = engine.translate_batch([[f"t{i}" for i in row] for row in rows], beam_size=4,
                                         max_decoding_length=20, min_decoding_length=0,
                                         max_batch_size=1)
        requests = "".join("beam=4 length_penalty=1 max_length=20 src="
                           + ",".join(map(str, row)) + "\n" for row in rows)
        done = subprocess.run([DECODE, out], input=requests, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        found = [[int(i) for i in line.split()[6:]] for line in done.stdout.splitlines() if line]
        expected = [[int(t[1:]) for t in one.hypotheses[0]] for one in answers]
        print(f"  CTranslate2, beam 4: {sum(map(list.__eq__, found, expected))} of {len(found)}")
        self.assertEqual(found, expected)


for family_, cases_ in CASES.items():
    for number_, options_ in enumerate(cases_):
        setattr(T5, f"test_{family_}_{number_}",
                lambda self, f=family_, n=number_, o=options_: self.compare(f, n, o))

# Letters of twelve scripts, randomly joined into words and lines.
SCRIPTS = ("abcdefghijklmnopqrstuvwxyz", "äöüßéèñçøåłžčőâ", "абвгдежзийклмнопрстуфхцчшщ",
           "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת", "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
           "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "กขคงจฉชซญดตถทธนบปผฝพฟภมยรลวศสหอฮ",
           "天地人大小中上下山水火木金土日月年王生本", "あいうえおかきくけこさしすせそたちつてと",
           "가나다라마바사아자차카타파하한국어말글", "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ")


def lines(n, seed):
    rng = random.Random(seed)
    found = []
    for i in range(n):
        letters = SCRIPTS[i % len(SCRIPTS)]
        words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(rng.randint(1, 9))]
        if rng.random() < 0.3:
            words.insert(rng.randint(0, len(words)), rng.choice(
                ["12,5", "(x)", "a-b", "…", "?!", "½", "ﬁ", "Ａ", "😀", "\u00a0"]))
        found.append(" ".join(words))
    return found


@unittest.skipUnless(OLD, f"transformers {transformers.__version__}, not 4: make test-t5")
class Tokenizers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compare(self, family, tokenizer, title, **options):
        """Compares the ids of texts, and the text of these ids, by the file and by transformers."""
        texts = lines(1000, 5)
        model = families.make_t5(family, vocab_size=max(len(tokenizer) + 28, 300), d_model=8,
                                 num_heads=1, d_kv=4, num_layers=1, num_decoder_layers=1, d_ff=8,
                                 **options)
        model.save_pretrained(self.folder)
        tokenizer.save_pretrained(self.folder)
        out, said = self.folder / "out.safetensors", io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(self.folder), str(out), "--no-check"])
        self.assertEqual(status, 0, said.getvalue())
        program = ROOT / "build" / "ids"
        done = subprocess.run([program, out], input="".join(text + "\n" for text in texts),
                              capture_output=True, text=True, errors="surrogateescape")
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [line.split("\t") for line in done.stdout.splitlines()]
        expected = [tokenizer(text).input_ids for text in texts]
        found = [[int(i) for i in ids.split()] for ids, _ in answers]
        same = sum(map(list.__eq__, found, expected))
        # transformers leaves unknown pieces out of a text; SentencePiece, and therefore the file, does not.
        known = [text == tokenizer.decode(ids, skip_special_tokens=True,
                                          clean_up_tokenization_spaces=False)
                 for (_, text), ids in zip(answers, expected) if tokenizer.unk_token_id not in ids]
        print(f"{title}: ids of {same} of {len(texts)} lines, texts of {sum(known)} of "
              f"{len(known)} without unknown pieces")
        self.assertEqual(found, expected)
        self.assertTrue(known and all(known))

    def pieces(self, **options):
        import sentencepiece
        (self.folder / "text").write_text("".join(text + "\n" for text in lines(4000, 6)))
        sentencepiece.SentencePieceTrainer.train(
            input=str(self.folder / "text"), model_prefix=str(self.folder / "m"),
            pad_id=0, eos_id=1, unk_id=2, bos_id=-1, vocab_size=1200, minloglevel=2,
            num_threads=1, **options)
        return str(self.folder / "m.model")

    def test_t5(self):
        tokenizer = transformers.T5Tokenizer(self.pieces(character_coverage=0.98), extra_ids=100,
                                             legacy=False)
        self.compare("t5", tokenizer, "T5")

    def test_mt5(self):
        tokenizer = transformers.T5Tokenizer(self.pieces(byte_fallback=True), extra_ids=0,
                                             legacy=False)
        self.compare("mt5", tokenizer, "mT5, bytes for unknown characters")

    def test_byt5(self):
        self.compare("t5", transformers.ByT5Tokenizer(), "ByT5")


if __name__ == "__main__":
    unittest.main()
