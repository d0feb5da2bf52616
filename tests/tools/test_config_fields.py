#!/usr/bin/env python3
"""Tests every field of transformers' config classes, and random configs, against transformers itself

    python tests/tools/test_config_fields.py [--cases 16] [--seed N] [--family NAME ...] [--fields]

For each family the test makes small random models with random non-default fields of their config class,
random keys of generation_config.json, keys in the wrong file, aliases, missing keys and stray keys.
transformers reads the directory, tools/convert.py makes a model file of it, and the C programs compute it.
Either logits and generate() are equal, or convert.py refuses; any other result is a failure. The installed
transformers is the oracle: run the test again with transformers 4 in PYTHONPATH.

--fields walks the classes instead: each field alone gets a value that is not its default. The test prints
fields that have no row in tools/convert/config_fields.py. As a unittest (make test-torch, make test-t5) it
runs both, with few random cases.
"""

import argparse
import collections
import contextlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error_:
    raise unittest.SkipTest(f"{error_}: make test-torch has it") from None

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401
from convert import config_fields  # noqa: E402
from convert import main as convert  # noqa: E402
import families  # noqa: E402
import make_vectors  # noqa: E402

FORWARD, DECODE = ROOT / "build" / "forward", ROOT / "build" / "decode"
MAJOR = int(transformers.__version__.split(".")[0])
T5 = tuple(families.T5_KINDS)
MEMORIES = ("trocr", "donut", "nougat")
HEARING = make_vectors.HEARING if MAJOR > 4 else ()
VECTORS = ("whisper", "speech_to_text", "florence2", *MEMORIES, *HEARING)
# Families of which a part is run: the key of that part's config, and its model_type.
PARTS = {"florence2": ("text_config", "bart"), "donut": ("decoder", "mbart"), "nougat": ("decoder", "mbart"),
         "trocr": ("decoder", "trocr"), "canary": ("decoder_config", "canary_decoder")}
FAMILIES = (*families.STEMS, *families.SEAMLESS, *T5, *VECTORS)
# A pad in the output changes the positions after it.
PAD_SHIFTS = ("m2m_100", *families.SEAMLESS, "fsmt", "speech_to_text", "trocr")
LIMIT = 1e-3  # test_peers.py measures how close results are; a misread field gives a larger difference.
ROWS, CASES = 3, 3

ACTIVATIONS = ("relu", "gelu", "gelu_new", "swish", "silu", "quick_gelu", "gelu_python", "gelu_fast",
               "gelu_pytorch_tanh", "tanh", "mish", "gelu_accurate", "relu6")
# Values that a field can have; other fields get a value by the type of their default.
VALUES = {
    **dict.fromkeys(("activation_function", "dense_act_fn", "hidden_act"), ACTIVATIONS),
    "feed_forward_proj": ("relu", "gelu", "gated-gelu", "gated-relu", "gated-silu", "silu",
                          "gated-gelu_new", "gated-tanh"),
    **dict.fromkeys(("d_model", "hidden_size"), (12, 24, 36)), "d_kv": (3, 4, 7), "d_ff": (9, 20), "vocab_size": (41, 47),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_heads",
                     "encoder_layers", "decoder_layers", "num_layers", "num_decoder_layers",
                     "num_hidden_layers", "num_attention_heads"),
                    (1, 2, 3)),
    "num_key_value_heads": (1, 2, None), "head_dim": (3, 4, 8, None), "intermediate_size": (9, 20),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), (8, 21, 32)),
    "relative_attention_num_buckets": (4, 6, 32), "relative_attention_max_distance": (5, 20, 128),
    "layer_norm_epsilon": (1e-2, 1e-3), "attention_window": (40, [160, 80], [48, 90]),
    "max_position_embeddings": (50, 70), "max_target_positions": (50, 70),
    "max_source_positions": (40, 50), "max_encoder_position_embeddings": (120, 200),
    "max_decoder_position_embeddings": (50, 70),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "decoder_start_token_id"), (30, 31, 32, 33)),
    "eos_token_id": (34, 35, [34, 35], [33, 7, 9, 12], [34, 5, 400]), "sep_token_id": (3,),
    "forced_bos_token_id": (None, 5, 36), "forced_eos_token_id": (None, 2, 34, 35, 0),
    "suppress_tokens": ([5, 6, 7], [-1], []), "begin_suppress_tokens": ([5], None),
    "bad_words_ids": ([[6]], [[7, 8], [9]], [[10, 11, 12]]),
    "decoder_vocab_size": (40, 43), "src_vocab_size": (40, 44), "tgt_vocab_size": (35, 41),
    "id2label": ({"0": "a", "1": "b"},), "label2id": ({"a": 0},), "problem_type": ("regression",),
    "architectures": (["Other"],), "dtype": ("float16", "bfloat16"), "langs": (["xx", "yy"],),
    "conv_kernel_sizes": ([3, 5], [3, 3]), "task_specific_params": ({"summarization": {"x": 1}},),
    "cross_attention_hidden_size": (None, 10, 12), "tokenizer_class": ("PreTrainedTokenizer",),
    "prefix": ("x ",), "finetuning_task": ("x",), "is_gated_act": (True, False),
    "pruned_heads": ({"0": [0]},), "encoder_no_repeat_ngram_size": (0, 2, 3),
    "length_penalty": (0.5, 2.0), "num_beams": (1, 2, 4), "max_length": (6, 10, 20, 21),
    "layer_types": (["full_attention"],), "early_stopping": (True, "never", False),
    "per_layer_config": ({"0": {"activation_function": "gelu"}},),
    # fields of decoding only
    "max_new_tokens": (5, 9), "min_length": (0, 3, 5), "min_new_tokens": (2, 4),
    "no_repeat_ngram_size": (1, 2, 3), "repetition_penalty": (0.8, 1.3),
    "encoder_repetition_penalty": (1.5,), "num_return_sequences": (1, 2), "do_sample": (True,),
    "num_beam_groups": (2,), "diversity_penalty": (0.5,), "renormalize_logits": (True,),
    "guidance_scale": (1.5,), "penalty_alpha": (0.6,), "token_healing": (True,),
    "exponential_decay_length_penalty": ([3, 1.5],), "sequence_bias": ([[[5], -10.0]],),
    "force_words_ids": ([[5]],), "constraints": ([5],), "stop_strings": (["a"],), "max_time": (1e3,),
    "watermarking_config": ({"greenlist_ratio": 0.25},), "dola_layers": ("high",),
    "forced_decoder_ids": ([[1, 5]],), "prompt_lookup_num_tokens": (3,), "use_mtp": (True,),
    "assistant_early_exit": (1,), "remove_invalid_values": (True,), "top_k": (1, 5),
    "top_p": (0.5,), "temperature": (0.5,), "min_p": (0.1,), "top_h": (0.5,), "typical_p": (0.5,),
    "epsilon_cutoff": (0.1,), "eta_cutoff": (0.1,), "cache_implementation": ("dynamic",),
    "num_assistant_tokens": (5,), "num_assistant_tokens_schedule": ("constant",),
    "assistant_confidence_threshold": (0.3,), "speculation_type": ("x",), "low_memory": (True,),
    "compile_config": (None,), "cache_config": (None,), "continuous_batching_config": (None,),
    "prefill_chunk_size": (4,), "max_cache_len": (64,),
}
SKIPPED = {"model_type", "transformers_version", "encoder", "decoder", "text_config", "vision_config", "encoder_config",
           "name_or_path", "attn_implementation"}
# Most random cases set the fields that decide how a target ends and how it is searched.
OFTEN = ("num_beams", "max_length", "length_penalty", "early_stopping", "no_repeat_ngram_size",
         "repetition_penalty", "forced_eos_token_id", "bad_words_ids", "min_length",
         "suppress_tokens", "forced_bos_token_id", "max_new_tokens")


def config_class(family):
    """Returns the class whose fields the family's models have; for a part, the part's class."""
    return transformers.CONFIG_MAPPING[PARTS.get(family, ("", family))[1]]


def table_of(family):
    table = config_fields.FAMILIES[PARTS.get(family, ("", family))[1]]
    return table + config_fields.DECODER if family in MEMORIES else table


def generation_fields():
    return {key for key in vars(transformers.GenerationConfig()) if not key.startswith("_")}


def vary(key, default, rng):
    if key in VALUES:
        return rng.choice([one for one in VALUES[key] if one != default] or VALUES[key])
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    if isinstance(default, float):
        return default + 0.1
    return rng.choice((True, 3, "x")) if default is None else default


def make(family, seed, options):
    if family in families.STEMS or family in families.SEAMLESS:
        return families.make(family, seed, **options)
    if family in T5:
        return families.make_t5(family, seed, **options)
    if family in ("donut", "nougat"):  # transformers gives its cache as many layers as an mBART's encoder has
        options = {**options, "encoder_layers": options.get("decoder_layers", 2)}
    return make_vectors.make(family, seed, sines=family == "trocr" and seed % 2 == 1, **options)[0]


class Case:
    """One directory, with the results of transformers and of the C programs."""

    def __init__(self, family, folder, seed):
        self.family, self.folder, self.rng = family, Path(folder), random.Random(seed)
        self.seed, self.said = seed, {}

    def save(self, options):
        """Makes a model with those fields. A field that its class does not take is written into config.json."""
        rest = {}
        try:
            model = make(self.family, self.seed % 1000, options)
        except Exception:
            model, rest = make(self.family, self.seed % 1000, {}), options
        model.generation_config.max_length = 12
        if self.family in T5 and self.seed % 3 == 0:  # an output matrix of its own
            head = torch.randn_like(model.lm_head.weight)
            model.lm_head.weight = torch.nn.Parameter(head)
        model.save_pretrained(self.folder)
        if self.family in PAD_SHIFTS:
            pad = self.read("generation_config.json").get("pad_token_id")
            self.edit("generation_config.json", {"suppress_tokens": [pad]})
        if rest:
            self.edit("config.json", rest)
        self.said.update(options)

    def read(self, name):
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else {}

    def write(self, name, values):
        (self.folder / name).write_text(json.dumps(values))

    def edit(self, name, values, delete=()):
        """Changes keys. The keys of a part are in the part's object."""
        whole = self.read(name)
        part = PARTS.get(self.family, (None,))[0]
        found = whole[part] if name == "config.json" and part else whole
        found.update(values)
        for key in delete:
            found.pop(key, None)
        self.write(name, whole)

    # ------------------------------------------------------------------------------- the two sides
    def load(self):
        kind = {"whisper": "WhisperForConditionalGeneration",
                "speech_to_text": "Speech2TextForConditionalGeneration",
                "florence2": "Florence2ForConditionalGeneration", "canary": "CanaryForConditionalGeneration",
                "cohere_asr": "CohereAsrForConditionalGeneration",
                **dict.fromkeys(MEMORIES, "VisionEncoderDecoderModel")}.get(
                    self.family, "AutoModelForSeq2SeqLM")
        model, info = getattr(transformers, kind).from_pretrained(
            self.folder, local_files_only=True, dtype=torch.float32, output_loading_info=True)
        missing = [name for name in info["missing_keys"] if "final_logits_bias" not in name
                   and not ("embed_positions" in name and "weights" in name)]
        if missing:
            raise ValueError(f"transformers initializes {sorted(missing)[:4]} by chance")
        half = any(p.dtype != torch.float32 for p in model.parameters())  # the dtype of a part
        return (model.float() if half else model).eval()

    def inputs(self, model):
        """Returns sources, and targets without their start token."""
        text = model.config.get_text_config()
        torch.manual_seed(self.seed)
        tgt = torch.randint(5, 30, (ROWS, 6))
        forced = model.generation_config.forced_bos_token_id
        if self.family in VECTORS and isinstance(forced, int):  # Scoring forces this token too.
            tgt[:, 0] = forced
        if self.family in VECTORS:
            width = (model.config.encoder.hidden_size if self.family in MEMORIES else
                     model.config.encoder_config.hidden_size if self.family in HEARING else text.d_model)
            return [torch.randn(1, 7 - i, width) for i in range(ROWS)], tgt
        # A source of LED may be as long as its window.
        rows = [torch.randint(5, 30, (1, 8 - i)) for i in range(ROWS)]
        end = text.eos_token_id
        for row in rows:
            row[0, -1] = end if isinstance(end, int) else 5
        return rows, tgt

    @torch.no_grad()
    def expected(self, model, sources, tgt):
        """Returns the logits of each source's target, and the results of generate() with its cache and
        without. Rounding breaks ties, so both results count as right."""
        logits, found = [], []
        generation = model.generation_config
        start = generation.decoder_start_token_id
        start = generation.bos_token_id if start is None else start
        ends = generation.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        ways = ({"use_cache": False},) if MAJOR < 5 and self.family in T5 else (
            {}, {"use_cache": False})
        if self.family == "fsmt":
            # The steps of this family differ from its own forward pass by up to 0.1: without a cache, and
            # with one in transformers 4.
            ways = ({"use_cache": True},) if MAJOR > 4 else ()
        for source, one in zip(sources, tgt):
            row = torch.cat([torch.tensor([start]), one])[None]
            if self.family in VECTORS:
                given = {"encoder_outputs": make_vectors.Memory(
                    last_hidden_state=make_vectors.encode(model, source))}
            else:
                given = {"input_ids": source, "attention_mask": torch.ones_like(source)}
            logits.append(model(**given, decoder_input_ids=row, use_cache=False,
                                return_dict=True).logits[0])
            found.append([])
            for options in ways:
                ids = transformers.GenerationMixin.generate(
                    model, **given, **options, return_dict_in_generate=False)[0].tolist()
                found[-1].append(next((ids[1:i] for i in range(1, len(ids)) if ids[i] in ends),
                                      ids[1:]))
        return start, logits, found

    def compute(self, path, said, start, sources, tgt, has_end):
        """Returns the same results from the C programs. Without an end token, targets of vectors have no score."""
        most = " max_length=20" if "transformers stops after 20 tokens" in said else ""
        if self.family in VECTORS:
            texts = ["vectors=" + ";".join(",".join(f"{x:.9g}" for x in row) for row in one[0].tolist())
                     for one in sources]
            scores = "".join(f"score=1 max_length=20 {text} tgt={','.join(map(str, row.tolist()))}\n"
                             for text, row in zip(texts, tgt)) if has_end else ""
        else:
            texts = ["src=" + ",".join(map(str, one[0].tolist())) for one in sources]
            scores = ""
        requests = scores + "".join(f"defaults=1{most} {text}\n" for text in texts)
        done = subprocess.run([DECODE, path], input=requests, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"decode: {done.stderr}")
        lines = [line.split() for line in done.stdout.splitlines() if line]
        logits = [torch.tensor([float(x) for x in row[:tgt.shape[1]]]) for row in lines[:-ROWS]]
        if self.family not in VECTORS:
            width = max(one.shape[1] for one in sources)
            src = torch.cat([torch.nn.functional.pad(one, (0, width - one.shape[1]), value=5)
                             for one in sources])
            rows = torch.cat([torch.full((ROWS, 1), start), tgt], 1)
            save_file({"src": src.int(), "tgt": rows.int(), "src_lengths": torch.tensor(
                [one.shape[1] for one in sources]).int()}, self.folder / "in")
            done = subprocess.run([FORWARD, path, self.folder / "in", self.folder / "out"],
                                  capture_output=True, text=True)
            if done.returncode:
                raise AssertionError(f"forward: {done.stderr}")
            logits = list(load_file(self.folder / "out")["logits"])
        return logits, [[int(i) for i in row[6:]] for row in lines[-ROWS:]]

    def goes_round(self, said):
        """Returns whether the option that a refusal names leads past it, to a model file or to another refusal."""
        options = [["--ignore-key", key] for key in re.findall(r"--ignore-key ([\w.]+)", said)]
        options += [["--set", "decoding=none"]] * ("--set decoding=none" in said)
        options += [["--set", f"{key}=3"] for key in re.findall(r"--set (\w+)=ID", said)]
        for option in options:
            text = io.StringIO()
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                convert.main([str(self.folder), str(self.folder / "round.out"), "--no-check", *option])
            if said.splitlines()[-1] in text.getvalue():
                print(f"{option} does not lead past {said.strip()[:300]}")
                return False
        return True

    def outcome(self):
        """Returns "equal", "refused", "not read" (by transformers) or "wrong", and the reason."""
        path, text = self.folder / "model.safetensors.out", io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            # Where the CPU can, bfloat16 files are multiplied in bfloat16, which is not a misread field.
            status = convert.main([str(self.folder), str(path), "--no-check", "--dtype", "f32"])
        said = text.getvalue()
        if status:
            return "wrong" if "Traceback" in said or not self.goes_round(said) else "refused", said.strip()
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                model = self.load()
                sources, tgt = self.inputs(model)
                start, logits, ids = self.expected(model, sources, tgt)
        except Exception as error:
            return "not read", f"{type(error).__name__}: {str(error)[:300]}"
        try:
            found, rows = self.compute(path, said, start, sources, tgt, model.generation_config.eos_token_id is not None)
        except AssertionError as error:
            return "wrong", str(error)
        if self.family in VECTORS:
            logits = [one.log_softmax(-1).gather(1, torch.cat([row, row[:1]])[:, None])[:-1, 0]
                      for one, row in zip(logits, tgt)]
            if model.generation_config.forced_bos_token_id is not None:
                found, logits = [row[1:] for row in found], [row[1:] for row in logits]
        far = max(((a - b).abs().max().item() for a, b in zip(found, logits)), default=0)
        if not far < LIMIT:
            return "wrong", f"logits differ by {far:.3g}"
        if not all(row in some for row, some in zip(rows, ids) if some):
            return "wrong", f"generate() gives {ids}, the model file {rows}"
        return "equal", ""


# -------------------------------------------------------------------------------- the two walks
def show(case, kind, why):
    print(f"{case.family}, seed {case.seed}: {kind}: {json.dumps(case.said)[:600]}\n    {why[-700:]}")


def random_case(family, seed, ends=False):
    """ends: whether the case has several end tokens."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(family, folder, seed)
        rng = case.rng
        rows = config_fields.names_of(config_class(family)) - SKIPPED - {"return_dict"}
        default = config_class(family)()
        options = {key: vary(key, getattr(default, key, None), rng)
                   for key in rng.sample(sorted(rows), 0 if ends else rng.randrange(1, 5))}
        if "encoder_attention_heads" in options or "decoder_attention_heads" in options:
            heads = rng.choice((1, 2, 3))
            options.update(encoder_attention_heads=heads, decoder_attention_heads=heads)
        case.save(options)
        generation = {key: vary(key, None, rng) for key in rng.sample(OFTEN, rng.randrange(1, 6))}
        if not ends and rng.random() < 0.3:
            others = sorted(generation_fields() - SKIPPED - {"transformers_version"})
            generation.update({key: vary(key, None, rng) for key in rng.sample(others, 2)})
        if ends or rng.random() < 0.2:
            generation["eos_token_id"] = rng.sample(range(5, 35), rng.choice((2, 4, 9))) + [400] * rng.randrange(2)
        end = generation.get("eos_token_id", case.read("generation_config.json").get("eos_token_id"))
        if generation.get("forced_eos_token_id") is not None and end is not None:
            generation["forced_eos_token_id"] = end if isinstance(end, int) or rng.random() < 0.3 else rng.choice(end)
        if family in PAD_SHIFTS:
            generation["suppress_tokens"] = [case.read("generation_config.json").get("pad_token_id")]
        where = rng.choice(("generation_config.json",) * 3 + ("config.json",))
        if where == "config.json" and rng.random() < 0.7:
            old = case.read("generation_config.json")
            (case.folder / "generation_config.json").unlink()
            generation = {**{key: value for key, value in old.items()
                             if key not in ("_from_model_config", "transformers_version")},
                          **generation}
            case.said["generation_config.json"] = "deleted"
        if where == "config.json":  # For models with parts, the fields of the class around the parts too.
            whole = {**case.read(where), **generation}
            case.write(where, whole)
        else:
            case.edit(where, generation)
        case.said[where] = generation
        if not ends and rng.random() < 0.3:  # keys that are missing from config.json
            gone = rng.sample(sorted({"scale_embedding", "activation_function", "bos_token_id",
                                      "decoder_start_token_id", "forced_eos_token_id",
                                      "tie_word_embeddings", "pad_token_id", "eos_token_id",
                                      "attention_window", "is_encoder_decoder"}), 2)
            case.edit("config.json", {}, gone)
            case.said["left out"] = gone
        if rng.random() < 0.2:
            case.edit("config.json", {"normalize_before": True, "extra_pos_embeddings": 2})
            case.said["stray"] = True
        kind, why = case.outcome()
        return case, kind, why


def field_case(family, keys, in_generation):
    """Returns fields with values that are not their defaults."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(family, folder, 1)
        default = config_class(family)()
        if in_generation:
            case.save({})
            case.said = {key: vary(key, None, case.rng) for key in keys}
            case.edit("generation_config.json", case.said)
        else:
            case.save({key: vary(key, getattr(default, key, None), case.rng) for key in keys})
        return case, *case.outcome()


def walk_fields(names):
    """Returns the counts of outcomes, and the fields without a row. Fields are tested together; if the
    results change, they are tested one by one."""
    counts, new = collections.Counter(), []
    jobs = [(one, config_fields.names_of(config_class(one)) - SKIPPED, table_of(one), False)
            for one in names]
    jobs += [(one, generation_fields() - {"transformers_version"}, config_fields.GENERATION, True)
             for one in ("bart", "marian") if one in names]
    for family, keys, table, in_generation in jobs:
        new += [f"{family}{', decoding' * in_generation}: {key}" for key in sorted(keys)
                if key not in table.rows() | config_fields.GENERATION.rows()]
        together = sorted(key for key in keys if key in table.unused and key != "return_dict")
        rest = sorted(keys - set(together))
        if field_case(family, together, in_generation)[1] == "equal":
            counts["equal"] += len(together)
        else:
            rest += together
        for key in rest:
            case, kind, why = field_case(family, [key], in_generation)
            counts[kind] += 1
            if kind == "wrong":
                show(case, kind, why)
    print(f"fields of transformers {transformers.__version__}: {dict(counts)}")
    if new:
        print("fields without a row in tools/convert/config_fields.py: " + "; ".join(new))
    return counts, new


def walk_random(names, cases, seed, ends=False):
    total = collections.Counter()
    print(f"transformers {transformers.__version__}, seed {seed}")
    for family in names:
        counts, reasons = collections.Counter(), collections.Counter()
        for number in range(cases):
            case, kind, why = random_case(family, (seed * 1000 + number) % 2 ** 31, ends)
            counts[kind] += 1
            reasons[kind + ": " + " ".join(why.split()[-40:])[:150]] += kind != "equal"
            if kind == "wrong":
                show(case, kind, why)
            elif VERBOSE:
                show(case, kind, why)
        print(f"{family:<17} " + ", ".join(f"{counts[one]} {one}" for one in
                                           ("equal", "refused", "not read", "wrong")), flush=True)
        total += counts
    print(f"in all: {dict(total)}")
    return total


# ------------------------------------------------------------------------- configs inside of configs
# Where T5Gemma's configs are: the keys that lead to one, and its rows in config_fields.
GEMMA = {"t5gemma": [((), "FAMILIES"), (("encoder",), "t5gemma"), (("decoder",), "t5gemma")],
         "t5gemma2": [((), "FAMILIES"), (("encoder",), "t5gemma2_encoder"), (("encoder", "text_config"), "t5gemma2"),
                      (("decoder",), "t5gemma2")]}
ROPE = {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}
GEMMA_VALUES = {"layer_types": (["full_attention", "full_attention"],), "sliding_window": (2, 5),
                "rope_parameters": (ROPE, {"full_attention": ROPE, "sliding_attention": ROPE}),
                "query_pre_attn_scalar": (9,), "rms_norm_eps": (0.1,), "num_key_value_heads": (1, 4),
                "attn_logit_softcapping": (0.7, None), "final_logit_softcapping": (2.0, None),
                "hidden_activation": ("relu", "silu", "gelu"), "head_dim": (4, 8), "rope_theta": (500.0,),
                "sliding_window_pattern": (3,), "_sliding_window_pattern": (3,), "rope_local_base_freq": (300.0,)}


def gemma_outcome(folder, whole, tokens):
    """Returns what becomes of a folder whose config.json is whole: equal, refused, wrong, or not read if
    transformers does not read it or lacks weights; and why."""
    (folder / "config.json").write_text(json.dumps(whole))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = convert.main([str(folder), str(folder / "m.safetensors"), "--no-check"])
        try:
            family = transformers.AutoModelForSeq2SeqLM if whole["model_type"] == "t5gemma" else \
                transformers.T5Gemma2ForConditionalGeneration
            model, about = family.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
            with torch.no_grad():
                wanted = families.reference(model.eval(), tokens["src"].long(), tokens["tgt"].long())
        except Exception as error:
            return "not read", str(error)
    if status:
        return "refused", said.getvalue().strip().splitlines()[-1]
    if about["missing_keys"] or about["mismatched_keys"]:
        return "not read", str(about)
    subprocess.run([FORWARD, folder / "m.safetensors", folder / "in", folder / "out"], check=True)
    found = load_file(folder / "out")
    inside = tokens["src"] != model.config.pad_token_id
    far = max((found["memory"] - wanted[0])[inside].abs().max().item(), (found["logits"] - wanted[1]).abs().max().item())
    return ("equal" if far < LIMIT else "wrong"), f"{far:.2g} off"


def walk_gemma(seed):
    """Changes each field of each config, in one place and in encoder and decoder alike. Returns the
    counts of outcomes, and the fields without a row."""
    counts, new, rng = collections.Counter(), [], random.Random(seed)
    for family, places in GEMMA.items():
        model = families.make_gemma(family, 3)
        src, lengths, tgt = families.sentences(model, rows=ROWS)
        tokens = {"src": src.int(), "tgt": tgt.int(), "src_lengths": lengths.int()}
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            model.save_pretrained(folder)
            save_file(tokens, folder / "in")
            plain = (folder / "config.json").read_text()
            for path, rows in places:
                one, table = model.config, config_fields.FAMILIES[family] if rows == "FAMILIES" else config_fields.GEMMA_OF[rows]
                for key in path:
                    one = getattr(one, key)
                keys = sorted(config_fields.names_of(type(one)) - SKIPPED)
                new += [f"{family} {'.'.join(path)}: {key}" for key in keys
                        if key not in table.rows() | config_fields.GENERATION.rows()]
                for key in keys:
                    default = getattr(one, key, None)
                    values = [value for value in GEMMA_VALUES.get(key, ()) if value != default]
                    value = rng.choice(values) if values else vary(key, default, rng)
                    for everywhere in (False, True) if key in table.used and path else (False,):
                        whole = json.loads(plain)
                        for other in [path] + everywhere * [more for more, kind in places if kind == rows]:
                            into = whole
                            for part in other:
                                into = into[part]
                            into[key] = value
                        kind, why = gemma_outcome(folder, whole, tokens)
                        counts[kind] += 1
                        if kind == "wrong" or VERBOSE:
                            print(f"{kind}: {family} {'.'.join(path)} {key} = {value}{' everywhere' * everywhere}: {why}")
    print(f"fields of T5Gemma's configs, seed {seed}: {dict(counts)}")
    return counts, new


VERBOSE = bool(os.environ.get("VERBOSE"))


@unittest.skipUnless(FORWARD.exists() and DECODE.exists(), "make all build/decode first")
class ConfigFields(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def test_each_field(self):
        counts, new = walk_fields(FAMILIES)
        self.assertEqual(counts["wrong"], 0)
        self.assertEqual(new, [])
        self.assertGreater(counts["equal"], 3 * counts["not read"])

    @unittest.skipIf(MAJOR < 5, "transformers 4 has no T5Gemma 2")
    def test_each_field_of_t5gemma(self):
        counts, new = walk_gemma(int(os.environ.get("SEED", random.SystemRandom().randrange(10 ** 5))))
        self.assertEqual(counts["wrong"], 0)
        self.assertEqual(new, [])
        self.assertGreater(counts["equal"], 2 * counts["not read"])  # a size that the weights do not have is not read

    def test_several_end_tokens(self):
        """Each family with lists of end tokens, some of them outside the vocabulary, in either file."""
        counts = walk_random([one for one in FAMILIES if one not in VECTORS], 2, random.SystemRandom().randrange(10 ** 5), ends=True)
        self.assertEqual(counts["wrong"], 0)
        self.assertGreater(counts["equal"], counts["not read"])

    def test_random_configs(self):
        counts = walk_random(FAMILIES, CASES, random.SystemRandom().randrange(10 ** 5))
        self.assertEqual(counts["wrong"], 0)
        self.assertGreater(counts["equal"], counts["not read"])


if __name__ == "__main__":
    parser_ = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    parser_.add_argument("--cases", type=int, default=16)
    parser_.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 5))
    parser_.add_argument("--family", action="append", choices=FAMILIES)
    parser_.add_argument("--fields", action="store_true")
    parser_.add_argument("--ends", action="store_true", help="several end tokens in each case")
    parser_.add_argument("--verbose", action="store_true")
    options_ = parser_.parse_args()
    VERBOSE = options_.verbose
    torch.set_num_threads(1)
    if options_.fields:
        counts_, new_ = walk_fields(options_.family or FAMILIES)
        sys.exit(bool(counts_["wrong"] or new_))
    sys.exit(bool(walk_random(options_.family or FAMILIES, options_.cases,
                              options_.seed, options_.ends)["wrong"]))
