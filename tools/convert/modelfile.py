"""modelfile.py: the model file that transformer.h reads, from the side that writes it.

Its config keys, the names and shapes of its tensors, the position formulas, what has to agree, and
the writing. The readers of checkpoints (checkpoints_*.py) put their tensors into a Model;
convert.py checks and writes it. Tensors are NumPy's arrays; bfloat16, which NumPy has not, is the
structured type BF16.
"""

from __future__ import annotations

import json
import math
import mmap
import re
import struct
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

from .printing import nearest
from .untrusted import BF16, TYPES, ConvertError, brief, check_utf8, is_code, read_bytes, read_json
from .writer import write_file

Tensors = dict[str, np.ndarray]
Config = dict[str, Any]
LARGEST_INTEGER = 2 ** 31 - 1  # of the config


# -------------------------------------------------------------------------------- arrays of floats
F64, F32, F16, U32, I8, U8 = (np.dtype(one) for one in ("<f8", "<f4", "<f2", "<u4", "i1", "u1"))


def is_floating(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype == BF16


def to_f32(array: np.ndarray) -> np.ndarray:
    if array.dtype == BF16:
        bits = np.ascontiguousarray(array).view("<u2").reshape(array.shape)
        return np.asarray(bits.astype("<u4") << 16).view(F32)
    return array.astype(F32)


def to_bf16(array: np.ndarray) -> np.ndarray:
    """Rounded to nearest, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(to_f32(array)).view("<u4").reshape(array.shape)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.asarray(np.where(nan, bits >> 16 | 0x40, rounded).astype("<u2")).view(BF16)


def is_finite(array: np.ndarray) -> np.ndarray:
    return np.isfinite(to_f32(array) if array.dtype == BF16 else array)


# ------------------------------------------------------------------------------ the config's keys
# A parser turns the text of --set KEY=TEXT into the value of the config, or raises a ValueError
# whose text says what it takes.


def integer(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or not (
                least <= int(text) <= LARGEST_INTEGER):
            raise ValueError(f"an integer from {least} to {LARGEST_INTEGER}")
        return int(text)

    return parse


def number(text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError("a number above 0")
    return int(value) if value.is_integer() else value


def share(text: str) -> int | float:
    value = number(text)
    if value > 1:
        raise ValueError("a number above 0, up to 1")
    return value


def scale(text: str) -> int | float | str:
    if text == "sqrt_d":
        return text
    try:
        return number(text)
    except ValueError:
        raise ValueError("a number above 0, or sqrt_d") from None


def one_of(*values: str, old: tuple[str, ...] = ()) -> Callable[[str], str]:
    """old: the spellings of versions up to 0.6.0, in the same order."""
    def parse(text: str) -> str:
        text = dict(zip(old, values)).get(text, text)
        if text not in values:
            raise ValueError("one of " + ", ".join(values))
        return text

    parse.values, parse.old = values, old  # type: ignore[attr-defined]
    return parse


NO_TOKEN = "none"  # of --set: the model has no such token


def token_or_id(text: str) -> int | str:
    """An id, a token that the vocabulary will turn into one, or NO_TOKEN."""
    if re.fullmatch(r"\d+", text, re.ASCII):
        return integer(0)(text)
    if not text or text.startswith("-"):
        raise ValueError(f"an id or a token of the vocabulary, or {NO_TOKEN}")
    return text


def id_list(text: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise ValueError("ids with commas between them")
    return [integer(0)(one) for one in text.split(",")]


def head_list(text: str) -> list[list[int]]:
    if not re.fullmatch(r"\d+:\d+(,\d+:\d+)*", text, re.ASCII):
        raise ValueError("layers and heads from 0, as in 5:0,5:1")
    return [[integer(0)(one) for one in pair.split(":")] for pair in text.split(",")]


def window_list(text: str) -> list[list[int]]:
    if not re.fullmatch(r"\d+:\d+:\d+(,\d+:\d+:\d+)*", text, re.ASCII):
        raise ValueError("layers from 0 and positions to the left and right, as in 0:512:1,2:512:1")
    rows = [[integer(0)(one) for one in row.split(":")] for row in text.split(",")]
    if not all(left and right for _, left, right in rows):
        raise ValueError("windows of at least 1, the position itself")
    return rows


def language_list(text: str) -> dict[str, int | str]:
    if text == NO_TOKEN:
        return {}
    found = dict(re.findall(r"([^:,]+):([^,]+)(?:,|$)", text))
    if ",".join(f"{code}:{at}" for code, at in found.items()) != text:
        raise ValueError("codes and ids or tokens, as in fra:5,deu:##DE, or none")
    return {code: token_or_id(at) for code, at in found.items()}


def sequence_list(text: str) -> list[list[int]]:
    return [id_list(one) for one in text.split(";")]


def signed(text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not -100 <= value <= 100:
        raise ValueError("a number from -100 to 100")
    return int(value) if value.is_integer() else value


def language_code(text: str) -> str:
    if not is_code(text):
        raise ValueError("the code of a language, such as de or pt_BR")
    return text


def switch(text: str) -> int:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return int(text)


SIZES = ("d_model", "d_ff", "d_ff_decoder", "d_key", "d_value", "n_encoder_layers", "n_decoder_layers",
         "src_vocab_size", "tgt_vocab_size", "d_input", "d_memory", "n_kv_heads", "n_kv_heads_decoder", "d_rotary")
SOURCE_IDS = ("src_pad", "src_unk", "src_start", "src_end")
TARGET_IDS = ("tgt_pad", "tgt_unk", "start", "end", "forced", "suppressed")

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swish", "gelu_sigmoid")
CONFIG_KEYS: dict[str, Callable[[str], Any]] = {
    "n_heads": integer(1),
    "shortlist_first": integer(0),
    **{key: integer(1) for key in SIZES},
    "norm": one_of("post", "pre"),
    "layer_norm": one_of("layer_norm", "layer_norm_unbiased", "rms_norm", old=("variance", "deviation", "rms")),
    "layer_norm_eps": number,
    "activation": one_of(*ACTIVATIONS), "decoder_activation": one_of(*ACTIVATIONS),
    "positions": one_of("sinusoidal", "sinusoidal_halves", "sinusoidal_per_index", "learned",
                        "none"),
    "position_offset": integer(0),
    "position_base": number,
    "position_divisor": one_of("d", "d/2-1"),
    "position_precision": one_of("float", "double"),
    "pad_position": one_of("plain", "zero"),
    "embedding_scale": scale,
    "attention_scale": number,
    **{key: token_or_id for key in SOURCE_IDS + TARGET_IDS},
    "suppressed": id_list,
    "alignment_heads": head_list,
    "encoder_windows": window_list, "decoder_windows": window_list,
    "rotary_layout": one_of("halves", "interleaved"),
    "cross_attention": one_of("own", "merged"),
    "attention_cap": number, "logit_cap": number,
    "languages": language_list,
    "src_language": one_of("none", "source", "target"),
    "tgt_language": one_of("none", "forced"),
    "start_embedding": one_of("token", "zero"),
    "src_text": one_of("words", "characters", "sentencepiece", "bytes", "byte_bpe"),
    "tgt_text": one_of("words", "characters", "pieces", "sentencepiece", "bytes", "byte_bpe"),
    "relative_buckets": integer(2),
    "relative_max_distance": integer(1),
    "prefix_space": one_of("none", "add", "first"),
    "trailing_space": one_of("none", "keep", "strip"),
    "clean_up": one_of("none", "spaces"),
    "sentences": one_of("split", "whole"),
    "source_language": language_code, "target_language": language_code,
    "byte_offset": integer(0),
}
# The keys of "decoding", which are fields of tfm_decode_options.
DECODING_KEYS: dict[str, Callable[[str], Any]] = {
    "beam": integer(1), "length_penalty": signed, "patience": number,
    "stop": one_of("ctranslate2", "early_never", "early_true", "early_false",
                   old=("enough", "sure", "full", "likely")), "max_length": integer(1),
    "min_length": integer(0), "no_repeat_ngram": integer(0),
    "no_source_ngram": integer(0), "repetition_penalty": number,
    "repetition": one_of("target", "hugging_face"), "force_end": switch, "no_unknown": switch,
    "suppressed": id_list, "suppressed_sequences": sequence_list, "end_ids": id_list,
    "truncate": integer(0), "n_best": integer(1), "coverage_penalty": number, "samples": integer(0),
    "temperature": number, "top_k": integer(0), "top_p": share, "alternatives": integer(0),
    "min_alternative_prob": share, "prefix_bias": share, "keep_end": switch,
    "lexical_shortlist": switch, "shortlist": id_list, "attention_layer": integer(0),
    "attention_head": integer(0), "skip_errors": switch,
}
SEAMLESS = ("seamless_m4t", "seamless_m4t_v2")  # SeamlessM4T's versions
# What the models of a family were trained to read at a time ("sentences" of the config): a sentence, or a whole
# text that is summarized, answered, spoken, or transformed by a task that it names. madlad is a T5 with languages.
SENTENCES = {
    **dict.fromkeys(("marian", "m2m_100", "mbart", "fsmt", "argos", "opennmt", "ctranslate2", "madlad", *SEAMLESS),
                    "split"),
    **dict.fromkeys(("bart", "pegasus", "mvp", "plbart", "led", "blenderbot", "blenderbot-small", "t5", "mt5", "umt5",
                     "t5gemma", "t5gemma2", "whisper", "speech_to_text", "moonshine", "moonshine_streaming"), "whole"),
}
# Free text beside the config, in the file's metadata.
ABOUT_KEYS = ("license", "source", "revision", "extra.tokens_per_second")

# What no weight shows. The file always says these, so that it can be read without the spec.
ASSUMED_IN_STACK: Config = {"norm": "post", "layer_norm": "layer_norm", "activation": "relu"}
ASSUMED_AROUND_STACK: Config = {"positions": "sinusoidal", "embedding_scale": 1}


def parse_settings(settings: list[str]) -> tuple[Config, dict[str, str]]:
    """The KEY=VALUE texts of --set as config entries, and as metadata of other keys."""
    config: Config = {}
    about: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConvertError(f"--set {setting}: write KEY=VALUE")
        name = key.removeprefix("decoding.")
        if key.startswith("decoding."):
            name = {"forbidden": "suppressed", "forbidden_sequences": "suppressed_sequences"}.get(name, name)  # to 0.6.0
        if key in ABOUT_KEYS:
            about[key] = text
        elif setting == "decoding=none":
            config.setdefault("decoding", {})["none"] = 1
        elif key.startswith("decoding.") and name in DECODING_KEYS:
            try:
                config.setdefault("decoding", {})[name] = DECODING_KEYS[name](text)
            except ValueError as error:
                raise ConvertError(f"--set {setting}: {key} takes {error}") from None
        elif key not in CONFIG_KEYS:
            keys = [*CONFIG_KEYS, "decoding=none", *(f"decoding.{one}" for one in DECODING_KEYS), *ABOUT_KEYS]
            raise ConvertError(f"--set {setting}: no such key{nearest(key, keys)}; the keys are {', '.join(keys)}")
        else:
            try:
                config[key] = CONFIG_KEYS[key](text)
            except ValueError as error:
                raise ConvertError(f"--set {setting}: {key} takes {error}") from None
    return config, about


# ------------------------------------------------------------------- the names of the model file
# Every name with its shape. D model width, Di and Dm widths of sources that are not ids, F and Fd
# feed-forward widths of encoder and decoder, M bins of a mel spectrum, R buckets of relative positions, H heads, HK and HV the
# key and value widths of all heads together, Vs and Vt the vocabularies, * any length.


def attention_shapes(name: str, memory: str = "D") -> dict[str, str]:
    return {
        rf"{name}\.in_proj_weight": "3D D", rf"{name}\.in_proj_bias": "3D",
        rf"{name}\.q_proj\.weight": "HK D", rf"{name}\.[qk]_proj\.bias": "HK",
        rf"{name}\.k_proj\.weight": f"HK {memory}",
        rf"{name}\.v_proj\.weight": f"HV {memory}", rf"{name}\.v_proj\.bias": "HV",
        rf"{name}\.out_proj\.weight": "D HV", rf"{name}\.out_proj\.bias": "D",
        rf"{name}\.[qk]_norm\.(weight|bias)": "K",
    }


ENCODER_LAYER = {
    **attention_shapes("self_attn"),
    r"linear1\.weight": "F D", r"linear1\.bias": "F",
    r"linear1_gate\.weight": "F D", r"linear1_gate\.bias": "F",
    r"linear2\.weight": "D F", r"linear2\.bias": "D",
    r"self_attn\.relative_positions\.weight": "R H",
    r"norm[12](_out)?\.(weight|bias)": "D",
    r"self_attn\.rotary\.frequencies": "*",
}
DECODER_LAYER = {
    **ENCODER_LAYER,
    **attention_shapes("multihead_attn", "Dm"),
    r"linear1\.weight": "Fd D", r"linear1\.bias": "Fd", r"linear2\.weight": "D Fd",
    r"linear1_gate\.weight": "Fd D", r"linear1_gate\.bias": "Fd",
    r"norm3(_out)?\.(weight|bias)": "D",
    r"ssru(_gate)?\.weight": "D D", r"ssru_gate\.bias": "D",
}
SHAPES = {
    **{rf"encoder\.layers\.\d{{1,4}}\.{rest}": shape for rest, shape in ENCODER_LAYER.items()},
    **{rf"decoder\.layers\.\d{{1,4}}\.{rest}": shape for rest, shape in DECODER_LAYER.items()},
    r"(encoder|decoder)\.norm\.(weight|bias)": "D",
    r"(encoder|decoder)\.relative_positions\.weight": "R H",
    r"(encoder|decoder)\.rotary\.frequencies": "*",
    r"src_embedding\.weight": "Vs D", r"src_projection\.weight": "D Di", r"src_projection\.bias": "D",
    r"tgt_embedding\.weight": "Vt D",
    r"(src|tgt)_embedding_norm\.(weight|bias)": "D", r"(src|tgt)_positions\.weight": "* D",
    r"generator\.weight": "Vt D", r"generator\.bias": "Vt",
    # of Whisper: examples/transcribe computes them
    r"extra\.conv1\.weight": "D 3 M", r"extra\.conv2\.weight": "D 3 D", r"extra\.conv[12]\.bias": "D",
    # of Moonshine and Moonshine streaming, likewise
    r"extra\.stem1\.weight": "D * *", r"extra\.stem2\.weight": "* * D", r"extra\.stem2\.bias": "*",
    r"extra\.stem3\.weight": "D * *", r"extra\.stem3\.bias": "D", r"extra\.stem_norm\.(weight|bias)": "D",
    r"extra\.listen\.(frames|positions|layers\.\d{1,4}\.(self_attn\.(q|k|v|out)_proj|linear[12]))\.weight": "* *",
    r"extra\.listen\.layers\.\d{1,4}\.(self_attn\.(q|k|v|out)_proj|linear[12])\.bias": "*",
    r"extra\.listen\.(norm|layers\.\d{1,4}\.norm[12])\.weight": "*",
    r"extra\.listen\.conv[12]\.weight": "* * *", r"extra\.listen\.(conv[12]\.bias|log_k)": "*",
    # of Canary and Cohere Transcribe, likewise
    r"extra\.conformer\.(linear|maps\.\d(\.mix)?|layers\.\d{1,4}\.(feed_forward|conv|self_attn)\w*\.\w+)\.weight": "* *",
    r"extra\.conformer\.(linear|maps\.\d(\.mix)?|layers\.\d{1,4}\.(feed_forward|conv|self_attn)\w*\.\w+)\.bias": "*",
    r"extra\.conformer\.layers\.\d{1,4}\.(norm_\w+\.(weight|bias)|self_attn\.bias_[uv])": "*",
}


ANY_NAME = re.compile("|".join(SHAPES))


def shape_of(name: str) -> str | None:
    if not ANY_NAME.fullmatch(name):  # one match: a checkpoint may have 100,000 other names
        return None
    return next(shape for rule, shape in SHAPES.items() if re.fullmatch(rule, name))


POSITION_TABLES = ("src_positions.weight", "tgt_positions.weight")


def is_position_table(name: str) -> bool:
    return name in POSITION_TABLES


# -------------------------------------------------------------------------------------- positions
FORMULA_KEYS = ("positions", "position_divisor", "position_precision", "position_offset")


def position_table(rows: int, width: int, config: Config) -> np.ndarray:
    """The rows that the config's formula gives, in the precision that it names; "float" rounds
    where PyTorch rounds, each function to the nearest float."""
    real = F64 if config.get("position_precision") == "double" else F32

    def rounded(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        return function(x.astype(F64)).astype(real)

    first, base = config.get("position_offset", 0), config.get("position_base", 10000)
    position = np.arange(first, first + rows).astype(real)[:, None]
    table = np.zeros((rows, width), real)
    if config["positions"] == "sinusoidal_per_index":
        exponent = (2 * np.arange(width).astype(real) / real.type(width)).astype(real)
        angle = position / rounded(lambda x: np.power(float(base), x), exponent)
        table[:, 0::2] = rounded(np.sin, angle[:, 0::2])
        table[:, 1::2] = rounded(np.cos, angle[:, 1::2])
        table[position[:, 0] == 0] = 0
        return table
    divisor = width - 2 if config.get("position_divisor") == "d/2-1" else width
    step = real.type(-(math.log(base) / divisor))
    rate = rounded(np.exp, np.arange(0, width, 2).astype(real) * step)
    angle = position * rate
    if config["positions"] == "sinusoidal":
        table[:, 0::2] = rounded(np.sin, angle)
        table[:, 1::2] = rounded(np.cos, angle)[:, : width // 2]
    else:
        table[:, : angle.shape[1]] = rounded(np.sin, angle)
        table[:, angle.shape[1]:] = rounded(np.cos, angle)[:, : width // 2]
    return table


def find_formula(table: np.ndarray, stated: Config) -> Config | None:
    """The config entries of the formula that gives the table; None where no formula does. A table in
    half precision stays: its engine adds the rounded numbers, which no formula gives."""
    rows, width = table.shape
    if table.dtype not in (F32, F64) or not table.size or not is_finite(table).all():
        return None
    # The table's own rounding, and that of angles in f32, which grow with the row.
    slack = float(np.finfo(table.dtype).eps) + float(np.finfo(F32).eps) * 2 * rows
    distances: dict[tuple[str, str, str, int], float] = {}
    offsets = (stated["position_offset"],) if "position_offset" in stated else (0, 1, 2)
    given = table.astype(F64)
    few = min(rows, 8)  # which tell most other tables apart, without the work of all rows
    for kind, divisor, precision, offset in product(
            ("sinusoidal", "sinusoidal_halves", "sinusoidal_per_index"), ("d", "d/2-1"),
            ("float", "double"), offsets):
        formula = dict(zip(FORMULA_KEYS, (kind, divisor, precision, offset)))
        denied = any(stated.get(key, value) != value for key, value in formula.items())
        if denied or (divisor != "d" and (kind == "sinusoidal_per_index" or width < 4)):
            continue
        start = position_table(few, width, {**stated, **formula}).astype(table.dtype)
        if np.abs(start - given[:few]).max() > slack:
            continue
        expected = position_table(rows, width, {**stated, **formula}).astype(table.dtype)
        distance = np.abs(expected - given)
        if distance.max() <= slack:
            # The mean tells precisions apart also where one entry is rounded the other way.
            distances[kind, divisor, precision, offset] = float(distance.mean())
    best = min(distances, key=distances.__getitem__, default=None)
    if not best:
        return None
    formula = dict(zip(FORMULA_KEYS, best))
    if not formula["position_offset"]:
        del formula["position_offset"]
    return formula


def as_table(tensor: np.ndarray) -> np.ndarray:
    """A table of positions as [n, D]: modules also hold it as [1, n, D] or [n, 1, D]."""
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim == 3 and 1 in tensor.shape[:2] else tensor


def settle_tables(stated: Config, model: Model) -> None:
    """Of somebody's own module: tables that --map puts into their place, in any of their forms. If a formula gives
    them, the config gets the formula. A formula that is stated and gives other numbers becomes a problem."""
    tables = {name: as_table(model.tensors[name]) for name in POSITION_TABLES if name in model.tensors}
    model.tensors.update(tables)
    if not tables or stated.get("positions") in ("learned", "none") or any(one.ndim != 2 for one in tables.values()):
        return
    formulas = [find_formula(one, stated) for one in tables.values()]
    formula = formulas[0]
    if formula and all(one == formula for one in formulas):
        model.facts.update(formula)
        for name in tables:
            model.notes.append(f"{model.origin.pop(name)}: the {formula['positions']} formula gives it")
            del model.tensors[name]


def table_difference(table: np.ndarray, config: Config) -> str:
    """Compares a table of positions with the formula that is stated: how much and where they differ most. What is not
    stated (offset, divisor, precision) is as in the formula that is nearest."""
    given, best = to_f32(as_table(table)).astype(F64), (math.inf, 0)
    for offset, divisor in product((config["position_offset"],) if "position_offset" in config else (0, 1, 2),
                                   (config["position_divisor"],) if "position_divisor" in config else ("d", "d/2-1")):
        if divisor != "d" and given.shape[1] < 4:
            continue
        formula = {**config, "position_offset": offset, "position_divisor": divisor}
        distance = np.abs(position_table(*given.shape, formula) - given).max(axis=1)
        best = min(best, (float(distance.max()), int(distance.argmax())))
    return f"row {best[1]} differs by {best[0]:.2g}"


def check_dropped(config: Config, model: Model) -> None:
    """Warns of each tensor that --drop leaves out and that may be a table which the model adds to embeddings, unless the
    config's formula gives it."""
    for name, tensor in model.dropped.items():
        table = as_table(tensor)
        if (not is_floating(tensor) or table.ndim != 2 or len(table) < 2 or table.shape[1] != model.width()
                or re.search(r"layers?\.\d|bias$", name) or any(same(tensor, one) for one in model.tensors.values())):
            continue
        said = config.get("positions")
        formula = find_formula(table, {key: config[key] for key in (*FORMULA_KEYS, "position_base") if key in config}
                               ) if said not in ("learned", "none") else None
        if formula:
            continue
        other = f"positions={said}" + ("" if said in ("learned", "none") else
                                       f" gives other numbers ({table_difference(table, config)})")
        model.warn(f"{name} {describe(tensor)} is dropped, and {other}. If the model adds this table to its embeddings, "
                   f"the file is wrong: --set positions=learned --map {name}=src_positions.weight, or "
                   f"tgt_positions.weight, or both")


def name_positions(tables: Tensors, sides: Callable[[str], tuple[str, ...]], stated: Config,
                   model: Model) -> None:
    """Tables that one formula gives become config entries; others are learned positions."""
    formulas = [find_formula(table, stated) for table in tables.values()]
    if tables and formulas[0] and all(one == formulas[0] for one in formulas):
        model.facts.update(formulas[0])
        for name in tables:
            model.notes.append(f"{name}: the {formulas[0]['positions']} formula gives it")
        return
    for name, table in tables.items():
        for side in sides(name):
            model.put(f"{side}_positions.weight", name, table)


# ----------------------------------------------------------------------------------------- naming
# Parts of names that wrappers of modules add: torch.compile, FSDP and activation checkpoints in the middle
# of a name as well, DataParallel (and AveragedModel) before every name.
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def strip_wrappers(tensors: Tensors) -> tuple[Tensors, list[str]]:
    """Without what wrappers add to names, and a note of it. Names stay if two of them would become the same."""
    def shorter(name: str, outer: bool) -> str:
        kept = ".".join(one for one in name.split(".") if one not in WRAPPERS)
        return kept.removeprefix("module.") if outer else kept

    result, found = tensors, []
    while True:
        outer = bool(result) and all(name.startswith("module.") or not is_floating(one) or not one.ndim
                                     for name, one in result.items())
        renamed = {shorter(name, outer): one for name, one in result.items()}
        if len(renamed) < len(result) or renamed.keys() == result.keys():
            break
        found += [f"{one}." for one in WRAPPERS if any(one in name.split(".") for name in result)]
        found += ["module."] * (outer and any(name.startswith("module.") for name in result))
        result = renamed
    return result, [f"names: without {' and '.join(dict.fromkeys(found))}, which wrappers of the module have added"] * bool(found)


@dataclass
class Model:
    """A model file in the making."""

    tensors: Tensors = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)  # new name -> name in the checkpoint
    scales: dict[str, float] = field(default_factory=dict)  # of int8, by name in the checkpoint
    # By the new name of an int8 matrix: the factor that its inputs are multiplied by before they are
    # rounded, and the factor's name in the checkpoint.
    factors: dict[str, tuple[float, str]] = field(default_factory=dict)
    facts: Config = field(default_factory=dict)  # what layout and tensors tell of the config
    texts: dict[str, bytes] = field(default_factory=dict)  # src_vocabulary ...: U8 tensors to be
    tables: Tensors = field(default_factory=dict)  # src_merges ...: U32 tensors to be
    about: dict[str, str] = field(default_factory=dict)  # licence, source: free text
    notes: list[str] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)  # and the key that settles it
    problems: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)  # options that the command again gets, of problems
    dropped: Tensors = field(default_factory=dict)  # by --drop
    has_own_words: bool = False  # texts of other tokens than the checkpoint's, or of tokens between spaces, as --set says
    takes_vectors: bool = False  # its sources are embeddings or memories: neither ids nor text

    def put(self, new: str, old: str, tensor: np.ndarray) -> None:
        """Two names may claim one place only if they hold the same numbers (a tied module)."""
        if new not in self.tensors:
            self.tensors[new], self.origin[new] = tensor, old
        elif not same(self.tensors[new], tensor):
            self.problems.append(f"{new}: both {self.origin[new]} and {old} fit; choose with "
                                 f"--map or --drop")
            self.answers.append("--drop ...")
        else:
            self.notes.append(f"{old}: the same as {self.origin[new]}")

    def warn(self, text: str, key: str = "") -> None:
        self.warnings.append((text, key))

    def width(self) -> int:
        """d_model as the first layer has it; 0 where there is none."""
        first = self.tensors.get("encoder.layers.0.linear1.weight",
                                 self.tensors.get("decoder.layers.0.linear1.weight"))
        return first.shape[1] if first is not None and first.ndim == 2 else 0


class NoComparison(Exception):
    """Something that a comparison needs is not there; the text says what."""


@dataclass
class Part:
    """Numbers of one kind, [..., n], that the model file and an engine gave for the same sentences."""

    name: str
    found: np.ndarray
    wanted: np.ndarray

    def worst(self) -> float:
        return float(np.abs(self.found - self.wanted).max())

    def scale(self) -> float:
        return float(np.abs(self.wanted).max())


@dataclass
class Comparison:
    text: str  # what was compared, and how far it differs
    parts: list[Part]
    again: Callable[[Forward], list[np.ndarray]]  # what parts have in found, of another model file


# Source rows, their lengths and targets to "memory" and "logits" of the model file.
Forward = Callable[[np.ndarray, np.ndarray, np.ndarray], Tensors]


@dataclass
class Checkpoint:
    """What a reader found. place puts the tensors, after --drop and --map, into the model, and
    there too what it knows of the config and of the vocabularies; it returns what has no place."""

    tensors: Tensors
    place: Callable[[Tensors, Config, Model], Tensors]
    stated: Config = field(default_factory=dict)  # what the file itself says; --set overrides it
    # With the engine that the checkpoint is of.
    compare: Callable[[Forward], Comparison] | None = None
    # What becomes of texts, with that engine; of the config and the model that are written (checking_texts.py).
    texts: Callable[[Config, Model, Any], tuple[str, str, bool]] | None = None
    own: bool = False  # somebody's own module: nothing but its weights is known
    notes: list[str] = field(default_factory=list)  # of the reading
    folder: Path | None = None  # that says what it is, where IN is another
    files: Path | None = None  # the directory of the weights, likewise
    close: Callable[[], None] = lambda: None  # when all is written: a folder that goes away
    scales: dict[str, float] = field(default_factory=dict)  # of weights in int8: what an integer is times
    # Candidates by source token, a file of Marian's, and how to read it: for so many source tokens the
    # offsets, ids and how many first ids are always candidates; None: it is none.
    shortlist: tuple[Path, Callable[[int], tuple[Any, Any, int] | None]] | None = None


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Some rows at a time: two large tensors that differ mostly do so in the first."""
    if a is b or a.dtype != b.dtype or a.shape != b.shape or not a.ndim:
        return a is b or (a.dtype == b.dtype and np.array_equal(a, b))
    step = max(1, len(a) * (1 << 20) // max(1, a.nbytes))
    return all(np.array_equal(a[i:i + step], b[i:i + step]) for i in range(0, len(a), step))


def describe(tensor: np.ndarray) -> str:
    return f"{list(tensor.shape)} {'bfloat16' if tensor.dtype == BF16 else tensor.dtype.name}"


def omit_tied(model: Model) -> None:
    """A tensor that repeats another is left out where the model file lets absence say so."""
    for name, other in (("generator.weight", "tgt_embedding.weight"),
                        ("tgt_embedding.weight", "src_embedding.weight"),
                        ("tgt_positions.weight", "src_positions.weight")):
        pair = model.tensors.get(name), model.tensors.get(other)
        if pair[0] is not None and pair[1] is not None and same(*pair):
            del model.tensors[name], model.origin[name]
            model.notes.append(f"{name}: tied to {other}, written once")


# --------------------------------------------------------------------------------------- checking
def missing_tensors(model: Model, config: Config, core: bool) -> list[str]:
    """What a model file needs and this one lacks, a line each; layers of a side are alike."""
    have, lines = model.tensors, []
    for side, attentions in (("encoder", ["self_attn"]),
                             ("decoder", ["self_attn", "multihead_attn"])):
        layers: dict[int, set[str]] = {}
        if model.takes_vectors and not any(name.startswith(f"{side}.") for name in have):
            continue  # an encoder that is elsewhere
        for name in have:
            match = re.fullmatch(rf"{side}\.layers\.(\d{{1,4}})\.(.+)", name)
            if match:
                layers.setdefault(int(match[1]), set()).add(match[2])
        needs = {"linear1.weight", "linear2.weight"}.union(*layers.values())
        if "ssru.weight" in needs or "ssru_gate.weight" in needs:
            needs |= {"ssru.weight", "ssru_gate.weight", "ssru_gate.bias"}
            attentions.remove("self_attn")
            if any(part.startswith("self_attn.") for part in needs):
                model.problems.append(f"{side}: layers have both self_attn and ssru")
        if side == "decoder" and config.get("cross_attention") == "merged":
            attentions.remove("multihead_attn")
        for attention in attentions:
            separate = any(re.match(rf"{attention}\.[qkv]_proj", part) for part in needs)
            needs |= {f"{attention}.{letter}_proj.weight" for letter in "qkv"} if separate else {
                f"{attention}.in_proj_weight"}
            needs.add(f"{attention}.out_proj.weight")
        for i in range(min(max(layers, default=0), len(layers)) + 1):
            lines += [f"{side}.layers.{i}.{part}" for part in sorted(needs - layers.get(i, set()))]
    around = ["src_embedding.weight", "tgt_embedding.weight", "generator.weight"]
    around = around[model.takes_vectors:]
    lines += [name for name in around if name not in have and not core]
    table = "tgt_positions.weight" if model.takes_vectors else "src_positions.weight"
    if config.get("positions") == "learned" and table not in have:
        lines.append(f"{table}, for positions=learned")
    return lines


def measure(model: Model, config: Config) -> Config:
    """Every size of the config from the shapes; disagreements become problems. A config that states
    n_kv_heads, or n_kv_heads_decoder, says that keys and values may have fewer heads than queries."""
    heads, has_groups = config["n_heads"], "n_kv_heads" in config or "n_kv_heads_decoder" in config
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}
    if any(name.endswith(".in_proj_weight") for name in model.tensors):
        for symbol in ("D", "HK", "HV"):  # a packed projection is square for each of q, k, v
            sizes[symbol], source[symbol] = model.width(), "encoder.layers.0.linear1.weight"
    for name in sorted(model.tensors, key=lambda name: (not name.startswith("encoder."), name)):
        shape = list(model.tensors[name].shape)
        symbols = (shape_of(name) or "").split()
        if has_groups and re.search(r"_attn\.[kv]_proj\.", name):
            own = "d" if name.startswith("decoder.") else ""
            symbols = [{"HK": f"GK{own}", "HV": f"GV{own}"}.get(one, one) for one in symbols]
        if len(shape) != len(symbols):
            model.problems.append(f"{name} ({model.origin[name]}) is {shape}, not "
                                  f"[{', '.join(symbols)}]")
            continue
        for symbol, length in zip(symbols, shape):
            factor, symbol = (3, "D") if symbol == "3D" else (1, symbol)
            if symbol == "*":
                continue
            expected = factor * sizes.setdefault(symbol, length // factor)
            source.setdefault(symbol, name)
            if expected != length:
                model.problems.append(f"{name} ({model.origin[name]}) is {shape}, not "
                                      f"[{', '.join(symbols)}]: {source[symbol]} makes {symbol} "
                                      f"{sizes[symbol]}")
                break
    has_encoder = any(name.startswith("encoder.") for name in model.tensors)
    if has_encoder and sizes.get("Dm", sizes.get("D")) != sizes.get("D"):
        model.problems.append(f"{source['Dm']} has {sizes['Dm']} columns; the encoder's output has "
                              f"{sizes['D']}")
    if sizes.get("Dm") == sizes.get("D"):
        sizes.pop("Dm", None)
    if not model.problems and (sizes["HK"] % heads or sizes["HV"] % heads):
        model.problems.append(f"n_heads {heads} does not divide the width of all heads, "
                              f"{sizes['HK']} (values: {sizes['HV']})")
    if not model.problems and sizes.get("K", sizes["HK"] // heads) != sizes["HK"] // heads:
        model.problems.append(f"{source['K']} has {sizes['K']} columns, of heads of {sizes['HK'] // heads}")
    groups = {}
    for own, key in (("", "n_kv_heads"), ("d", "n_kv_heads_decoder")):
        if not model.problems and f"GK{own}" in sizes:
            groups[key] = sizes[f"GK{own}"] // (sizes["HK"] // heads)
            wanted = [groups[key] * sizes[one] // heads for one in ("HK", "HV")]
            if not groups[key] or heads % groups[key] or wanted != [sizes[f"GK{own}"], sizes[f"GV{own}"]]:
                model.problems.append(f"{source[f'GK{own}']} has {sizes[f'GK{own}']} rows and values "
                                      f"{sizes[f'GV{own}']}: no heads of {sizes['HK'] // heads} columns whose number "
                                      f"divides n_heads {heads}")
    turned = [len(tensor) for name, tensor in model.tensors.items() if name.endswith("rotary.frequencies")]
    if sizes.get("H", heads) != heads:
        model.problems.append(f"{source['H']} has columns of {sizes['H']} heads; n_heads is {heads}")
    layers = {tuple(name.split(".")[:3]) for name in model.tensors if ".layers." in name}
    counts = [sum(layer[0] == side for layer in layers) for side in ("encoder", "decoder")]
    measured = {"d_model": sizes.get("D"), "d_ff": sizes.get("F"), "d_ff_decoder": sizes.get("Fd"),
                "relative_buckets": sizes.get("R"), "d_key": sizes.get("HK", 0) // heads, "d_value": sizes.get("HV", 0) // heads,
                "n_encoder_layers": counts[0], "n_decoder_layers": counts[1],
                "src_vocab_size": sizes.get("Vs"), "tgt_vocab_size": sizes.get("Vt"),
                "d_input": sizes.get("Di"), "d_memory": sizes.get("Dm"), **groups,
                "d_rotary": 2 * max(turned, default=0)}
    return {key: value for key, value in measured.items() if value}


def check_config(config: Config, sizes: Config, model: Model) -> None:
    """Sizes that were stated agree with the shapes; ids lie inside their vocabularies."""
    for key, value in sizes.items():
        if config.get(key, value) != value:
            model.problems.append(f"{key} is stated as {config[key]}; the shapes say {value}")
    for keys, vocabulary in ((SOURCE_IDS, "src_vocab_size"), (TARGET_IDS, "tgt_vocab_size")):
        for key in keys:
            ids = config.get(key, [])
            if key == "suppressed":
                decoding = config.get("decoding", {})
                ids = [*ids, *decoding.get("suppressed", []), *decoding.get("shortlist", []),
                       *chain.from_iterable(decoding.get("suppressed_sequences", []))]
            if key == "end":
                ids = [*([ids] if isinstance(ids, int) else []), *config.get("decoding", {}).get("end_ids", [])]
            for one in ids if isinstance(ids, list) else [ids]:
                if one >= sizes.get(vocabulary, math.inf):
                    model.problems.append(f"{key} {one} is outside the vocabulary: {vocabulary} is {sizes[vocabulary]}; "
                                          f"--set {key}=ID states another" + ", or none" * (key != "suppressed"))


def check_values(config: Config) -> None:
    """What a checkpoint states is what --set would take: of the right kind and in its range."""
    for key, value in config.get("decoding", {}).items():
        rows = value if isinstance(value, list) and value and isinstance(value[0], list) else [
            value if isinstance(value, list) else [value]]
        text = ";".join(",".join(one if isinstance(one, str) else brief(one) for one in row)
                        for row in rows)
        try:
            DECODING_KEYS[key](text)
        except ValueError as error:
            raise ConvertError(f"decoding.{key} is {brief(value)}; it takes {error}") from None
    for key, value in config.items():
        if key == "decoding":
            continue
        if (isinstance(value, dict), isinstance(value, list)) != (
                key == "languages", key in ("suppressed", "alignment_heads", "encoder_windows", "decoder_windows")):
            raise ConvertError(f"{key} is {brief(value)}")
        if isinstance(value, dict):
            if not value:
                continue
            text = ",".join(f"{code}:{at}" for code, at in value.items())
        elif isinstance(value, list):
            if not value:
                continue
            text = ",".join(":".join(map(brief, one)) if isinstance(one, list) else brief(one)
                            for one in value)
        else:
            text = value if isinstance(value, str) else brief(value)
        try:
            CONFIG_KEYS[key](text)
        except ValueError as error:
            raise ConvertError(f"{key} is {brief(value)}; it takes {error}") from None


def build_config(model: Model, stated: Config, core: bool) -> tuple[Config, Config]:
    """The config, and the part of it that is an assumption."""
    assumptions = ASSUMED_IN_STACK if core else {**ASSUMED_IN_STACK, **ASSUMED_AROUND_STACK}
    for name in [name for name in model.tensors if is_position_table(name)]:
        model.facts["positions"] = "learned"
        said, old = stated.get("positions", "learned"), model.origin[name]
        if said == "learned":
            continue
        table = as_table(model.tensors[name])
        if said == "none":
            why = f"positions=none, but the checkpoint has the table {old} {describe(table)}"
        elif table.ndim != 2 or not table.size or not is_floating(table):
            continue  # its shape is told
        else:
            why = (f"positions={said} gives other numbers than the table {old} {describe(table)}: "
                   f"{table_difference(table, stated)}")
        formula = find_formula(table, {}) if not set(FORMULA_KEYS[1:]) & set(stated) else None
        right = formula["positions"] if formula and formula["positions"] != said else "learned"
        model.problems.append(f"{why}. To keep {'its numbers' if formula else 'the table'}: --set positions={right}. To leave "
                              f"it out: --drop {old}, and no --map of it")
        model.answers.append(f"--set positions={right}")
    facts = {key: value for key, value in model.facts.items()
             if not (core and key in FORMULA_KEYS + ("embedding_scale",))}
    merged = {**assumptions, **facts, **stated}
    assumed = {key: value for key, value in assumptions.items()
               if key not in facts and key not in stated}
    return {key: merged[key] for key in [*CONFIG_KEYS, "decoding"] if merged.get(key) is not None}, assumed


def settle_bytes(model: Model, wanted: np.dtype | None) -> None:
    """Weights in int8 get their scales beside them, one a row; or they become f32 here."""
    for name in [name for name, tensor in model.tensors.items() if tensor.dtype == I8]:
        tensor, old = model.tensors[name], model.origin[name]
        scale = F32.type(model.scales[old])
        if wanted is None and tensor.ndim == 2 and not is_position_table(name):
            model.put(f"{name}_scale", old, np.full(len(tensor), scale))
        else:
            model.tensors[name] = tensor.astype(F32) * scale
    for name, (factor, old) in model.factors.items():
        ties = (name, "tgt_embedding.weight", "src_embedding.weight") if name == "generator.weight" else (name,)
        matrix = next((model.tensors[tie] for tie in ties if tie in model.tensors), None)
        if matrix is not None and matrix.dtype == I8:
            model.put(f"{name}_input_factor", old, np.array([factor], F32))


def to_type(tensor: np.ndarray, name: str, wanted: np.dtype | None) -> np.ndarray:
    kind = wanted or (tensor.dtype if tensor.dtype in TYPE_NAMES else F32)
    if name.endswith("rotary.frequencies"):  # times a position, so that each bit counts
        kind = F32
    if kind == tensor.dtype:
        return np.ascontiguousarray(tensor)
    with np.errstate(over="ignore"):  # told below
        result = to_bf16(tensor) if kind == BF16 else to_f32(tensor).astype(kind)
    if not np.array_equal(is_finite(tensor), is_finite(result)):
        raise ConvertError(f"{name}: values too large for {TYPE_NAMES[result.dtype]}")
    return result


# --------------------------------------------------------------------------------- the vocabulary
LICENCES = (("Apache License", "Apache-2.0"), ("MIT License", "MIT"),
            ("Mozilla Public License Version 2.0", "MPL-2.0"),
            ("Attribution-NonCommercial 4.0", "CC-BY-NC-4.0"), ("Attribution 4.0", "CC-BY-4.0"),
            ("GNU GENERAL PUBLIC LICENSE", "GPL"), ("BSD 3-Clause", "BSD-3-Clause"))


def read_about(path: Path) -> dict[str, str]:
    """What a directory says of where it comes from: the licence of README.md's front matter, or the
    one that LICENSE is; source and revision from a hub's cache or from config.json."""
    about: dict[str, str] = {}
    if not path.is_dir():
        return about
    for name in ("README.md", "LICENSE", "LICENSE.txt", "LICENSE.md"):
        file = path / name
        if "license" in about or not file.is_file():
            continue
        text = read_bytes(file, most=2 ** 16).decode("utf-8", "replace")
        matter = re.match(r"---[ \t\r]*\n(.*?)\n---[ \t\r]*\n", text, re.DOTALL)
        said = re.search(r"^license:(.*)$", matter[1], re.MULTILINE) if matter else None
        if said and said[1].strip():
            about["license"] = said[1].strip().strip("'\"")[:200]
        elif name != "README.md":
            head = " ".join(text[:400].split())
            first = next((line.strip() for line in text.splitlines() if line.strip()), "")
            about["license"] = next((short for long, short in LICENCES if long in head), first[:80])
    hub = re.search(r"models--([^/]+)/snapshots/([0-9a-f]+)$", str(path.resolve()))
    if hub:
        about["source"], about["revision"] = hub[1].replace("--", "/"), hub[2]
    elif (path / "config.json").is_file():
        config = read_json(path / "config.json")
        for key, name in (("source", "_name_or_path"), ("revision", "_commit_hash")):
            value = config.get(name) if isinstance(config, dict) else None
            if isinstance(value, str) and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", value):
                about[key] = value
    return {key: about[key] for key in ABOUT_KEYS if key in about}


def read_vocabulary(path: Path) -> bytes:
    """The file's text as the tensor's bytes."""
    try:
        text = read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ConvertError(f"{path}: not UTF-8: {error}") from None
    lines = text.removesuffix("\n").split("\n")
    seen: dict[str, int] = {}
    for at, line in enumerate(lines, 1):
        for spelling in line.split("\t"):
            if not spelling:
                raise ConvertError(f"{path}, line {at}: an empty token")
            if seen.setdefault(spelling, at) != at:
                raise ConvertError(f"{path}, line {at}: {spelling} is a duplicate of line "
                                   f"{seen[spelling]}")
    return ("\n".join(lines) + "\n").encode()


def vocabulary_text(tokens: list[str], source: str, model: Model) -> bytes:
    """Tokens by id as the tensor's bytes. One that no line can hold, or that stands for a smaller
    id already, gets a spelling that no text has."""
    lines: list[str] = []
    seen = set(tokens)
    used: set[str] = set()
    replaced: list[int] = []
    for at, token in enumerate(tokens):
        check_utf8(token, f"{source}: id {at}")
        if not token or token in used or re.search(r"[\t\n\0]", token):
            replaced.append(at)
            token = f"<id {at}>"
            while token in seen:
                token = f"<{token}>"
        used.add(token)
        lines.append(token)
    if replaced:
        shown = ", ".join(map(str, replaced[:8])) + (" ..." if len(replaced) > 8 else "")
        model.notes.append(f"{source}: {len(replaced)} ids have no spelling, another's, or one with a "
                           f"tab or newline; here it is <id N>: ids {shown}")
    return ("\n".join(lines) + "\n").encode()


# ---------------------------------------------------------------------------------------- writing
TYPE_NAMES = {F32: "F32", U32: "U32", F16: "F16", BF16: "BF16", I8: "I8", U8: "U8"}
TYPE_OPTIONS = {"f32": F32, "f16": F16, "bf16": BF16}
Check = Callable[[Path], None]


def write_model(path: Path, tensors: Tensors, config: Config,
                about: dict[str, str] | None = None, check: Check | None = None,
                widen: bool = False, written: Callable[[int], None] = lambda n: None) -> int:
    """Writes a safetensors file, whole or not at all; returns its size in bytes. The check sees the
    whole file before it takes its name, and prevents that by an exception. widen: floats as f32. written is called
    with the bytes of each tensor.

    Wide types come first and tensors of odd length last among their type, so that every tensor is
    aligned without holes; the header is padded so that the data starts at a multiple of 64.
    """
    def place(name: str) -> tuple[int, bool, str]:
        tensor = tensors[name]
        return -tensor.itemsize, tensor.nbytes % 4 != 0, name

    text = json.dumps(config, ensure_ascii=False)
    metadata = {"transformer.config": text, **(about or {})}
    return write_safetensors(path, {name: tensors[name] for name in sorted(tensors, key=place)},
                             metadata, check, widen, written)


def let_go(tensor: np.ndarray) -> None:
    """Pages of a tensor that lies in its file need no memory any more."""
    base: Any = tensor
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def write_safetensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None,
                      check: Check | None = None, widen: bool = False, written: Callable[[int], None] = lambda n: None) -> int:
    """The tensors in their order; the data starts at a multiple of 64. written is called with the bytes of each."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    names = {kind: name for name, kind in TYPES.items()}
    end = 0
    for name, tensor in tensors.items():
        kind = F32 if widen and is_floating(tensor) else tensor.dtype
        begin, end = end, end + tensor.size * kind.itemsize
        header[name] = {"dtype": names[kind], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-(8 + len(head)) % 64)

    def parts() -> Iterator[Any]:
        for tensor in tensors.values():
            typed = to_f32(tensor) if widen and is_floating(tensor) else tensor
            yield np.ascontiguousarray(typed).reshape(-1).view(U8).data
            written(typed.nbytes)
            let_go(tensor)

    try:
        write_file(path, [struct.pack("<Q", len(head)) + head], parts(), check=check)
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from None
    return 8 + len(head) + end
