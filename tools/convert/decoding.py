"""decoding.py: what a checkpoint says of how to decode, as the config key "decoding" of a model file.

The keys are fields of tfm_decode_options. Lengths there are tokens of the target, the end token
counted. Each engine counts by its own rule:

    transformers   generation_config.json, or config.json where there is none. max_length and
                   min_length count the start token, max_new_tokens and min_new_tokens do not. A
                   score is divided by length ** length_penalty (1 unless stated), the end token
                   counted. The start token counts among those that may not be repeated; with a
                   beam, repetition_penalty multiplies log-probabilities. forced_eos_token_id ends
                   what has not ended at max_length.
    Marian         decoder.yml. beam-size; normalize is the exponent of the length, the end token
                   counted. Its beam gets narrower with each hypothesis that ends.
    CTranslate2    says nothing in its directories: translate_batch's own defaults.

What transformer.h does not compute is an error that names it, unless --set decoding=none leaves out
all that the checkpoint says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import config_fields
from .modelfile import Config, ConvertError, Model
from .untrusted import brief, check_kinds

HINT = ("--set decoding=none leaves out the checkpoint's decoding defaults, and "
        "--set decoding.beam=4 replaces one")

# Keys of generation_config.json by kind. config_fields.py has all of them.
KINDS = {
    **dict.fromkeys(("num_beams", "max_length", "max_new_tokens", "min_length", "min_new_tokens",
                     "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
                     "num_return_sequences"), "integer"),
    **dict.fromkeys(("length_penalty", "repetition_penalty"), "number"),
    **dict.fromkeys(("bad_words_ids", "alignment_heads"), "list of lists of integers"),
    "begin_suppress_tokens": "list of integers", "is_multilingual": "truth value",
    "lang_to_id": "object",
    "forced_eos_token_id": "integer|list of integers",
}
STOPS = {False: "early_false", True: "early_true", "never": "early_never"}
CTRANSLATE2 = {"beam": 2, "length_penalty": 1, "max_length": 256, "min_length": 1}


def is_left_out(stated: Config) -> bool:
    return "none" in stated.get("decoding", {})


@dataclass(frozen=True)
class Said:
    """What a directory of transformers says of decoding, and where."""
    values: dict[str, Any]
    path: str
    version: int  # the major one of transformers whose rules hold
    ignored: set[str]
    fields: config_fields.Fields = config_fields.GENERATION


def find(fields: config_fields.Fields, config: dict[str, Any], outer: dict[str, Any] | None,
         generation: dict[str, Any] | None, version: int, ignored: set[str],
         notes: list[str]) -> Said:
    """generation_config.json, which then is the only source; without one, config.json. transformers 4
    adds the defaults of the config's class, and goes by config.json also where it made
    generation_config.json of it. outer: the config around one that is a part."""
    rows = config_fields.GENERATION_OF.get(config.get("model_type", ""), config_fields.GENERATION)
    names = rows.rows()
    defaults = {key: value for key, value in fields.used.items()
                if version < 5 and value is not None and key in names and key not in config}
    parts = [{key: value for key, value in one.items()
              if key in names and value is not None and key not in ignored}
             for one in (defaults, config, outer or {})]
    derived = {key: value for one in parts for key, value in one.items()}
    first = derived.get("bos_token_id")
    if (outer or config).get("force_bos_token_to_be_generated") and first is not None and (
            version > 4 or "forced_bos_token_id" not in derived):
        derived["forced_bos_token_id"] = first
    if generation is None:
        return Said(derived, "config.json", version, ignored, rows)
    legacy = [key for key, default in config_fields.LEGACY.items() if derived.get(key) is not None
              and derived[key] != fields.used.get(key, default)]
    if version < 5 and generation.get("_from_model_config") and legacy:
        notes.append(f"config.json states {legacy[0]}: transformers {version}, which wrote it, takes "
                     f"decoding from config.json then; transformers 5 takes generation_config.json")
        return Said(derived, "config.json", version, ignored, rows)
    return Said(generation, "generation_config.json", version, ignored, rows)


def end_tokens(source: Said) -> list[int]:
    """The ids that end a target, each once. What forced_eos_token_id names stands first, the least of
    it before the others: transformers gives the least of equal probabilities."""
    def ids(key: str) -> list[int]:
        value = source.values.get(key) if key not in source.ignored else None
        found = value if isinstance(value, list) else [value]
        return [one for one in found if isinstance(one, int) and not isinstance(one, bool) and one >= 0]

    ends, forced = list(dict.fromkeys(ids("eos_token_id"))), sorted(set(ids("forced_eos_token_id")))
    return forced + [one for one in ends if one not in forced] if set(forced) <= set(ends) else ends


def from_transformers(source: Said, ends: list[int], stated: Config, model: Model) -> Config:
    if is_left_out(stated):
        return {}
    path = source.path
    said = config_fields.read(source.fields, check_kinds(source.values, KINDS, path), "", path,
                              source.ignored, model.notes, f"; {HINT}")

    def integer(key: str, otherwise: int, least: int) -> int:
        value = said.get(key, otherwise)
        if value < least:
            raise ConvertError(f"{path}: {key} is {brief(value)}; {HINT}")
        return value

    found: Config = {}
    if integer("num_beams", 1, 1) > 1:
        found["beam"] = said["num_beams"]
        found["length_penalty"] = said.get("length_penalty", 1)
        early = said.get("early_stopping", False)
        if not isinstance(early, (bool, str)) or early not in STOPS:
            raise ConvertError(f"{path}: early_stopping is {brief(early)}; it takes false, true or "
                               f"\"never\"; {HINT}")
        found["stop"] = STOPS[early]
    for name in ("max", "min"):
        if f"{name}_new_tokens" in said:
            found[f"{name}_length"] = integer(f"{name}_new_tokens", 0, 1)
        elif said.get(f"{name}_length"):
            found[f"{name}_length"] = integer(f"{name}_length", 0, 1) - 1
            if name == "max" and source.version < 5 and said["max_length"] == 20:
                found["max_length"] = 20  # transformers 4 takes that for "not said": 20 new tokens
    if found.get("max_length", 1) < 1 or found.get("min_length", 0) >= found.get("max_length",
                                                                                 2 ** 31):
        raise ConvertError(f"{path}: min_length and max_length leave lengths of "
                           f"{found.get('min_length', 0)} to {found['max_length']}, the start token "
                           f"not counted; {HINT}")
    most = {**found, **stated.get("decoding", {})}.get("max_length")
    if most is None:
        model.notes.append(f"{path} states no max_length, and transformers stops after 20 tokens: "
                           f"--set decoding.max_length=20 does that; left as it is, a target has "
                           f"up to 2 * source + 16")
    forced_end = said.get("forced_eos_token_id")
    forced_end = [forced_end] if isinstance(forced_end, int) else forced_end
    if forced_end and not set(forced_end) <= set(ends):
        raise ConvertError(f"{path}: forced_eos_token_id is {brief(forced_end)}, and eos_token_id {brief(ends)}; "
                           f"transformer.h ends a target of max_length tokens with one that ends targets; {HINT}")
    if len(ends) > 1:
        found["end_ids"] = ends
    if forced_end:
        found["force_end"] = 1
    first = said.get("forced_bos_token_id")
    first = first[0] if isinstance(first, list) and first else first
    if first is not None and first in ends:
        raise ConvertError(f"{path}: forced_bos_token_id is {first}, which is an end token: every "
                           f"target of transformers is empty; {HINT}, or --set forced=TOKEN the "
                           f"token with which targets begin")
    if first is not None and forced_end and found.get("max_length") == 1:
        raise ConvertError(f"{path}: its max_length leaves one token, which forced_bos_token_id and "
                           f"forced_eos_token_id both determine; transformers takes the end token, so "
                           f"every target is empty; {HINT}")
    if integer("no_repeat_ngram_size", 0, 0):
        found["no_repeat_ngram"] = said["no_repeat_ngram_size"]
    if integer("encoder_no_repeat_ngram_size", 0, 0):
        found["no_source_ngram"] = said["encoder_no_repeat_ngram_size"]
    if said.get("repetition_penalty", 1) != 1:
        found["repetition_penalty"] = said["repetition_penalty"]
    if {"no_repeat_ngram", "no_source_ngram", "repetition_penalty"} & set(found):
        found["repetition"] = "hugging_face"
    sequences = [words for words in said.get("bad_words_ids", []) if len(words) > 1]
    if sequences:
        found["suppressed_sequences"] = sequences
    if said.get("num_return_sequences", 1) > 1:
        model.notes.append(f"{path}: num_return_sequences {said['num_return_sequences']}: the program "
                           f"that decodes chooses it (n_best)")
    return found


def from_marian(options: dict[str, Any], path: str, stated: Config, model: Model) -> Config:
    """options: decoder.yml."""
    if is_left_out(stated):
        return {}
    kinds = {"beam-size": "integer", "normalize": "number|truth value", "word-penalty": "number"}
    check_kinds(options, kinds, path)
    beam, penalty = options.get("beam-size"), float(options.get("normalize") or 0)
    if options.get("word-penalty"):
        raise ConvertError(f"{path}: word-penalty is {brief(options['word-penalty'])}, which "
                           f"transformer.h does not compute; {HINT}")
    if beam is None:
        if options:
            model.notes.append(f"{path} states no beam-size, and marian-decoder takes 12: --set "
                               f"decoding.beam=12 does that; left as it is, decoding is greedy")
        return {}
    if beam < 1:
        raise ConvertError(f"{path}: beam-size is {brief(beam)}; {HINT}")
    if beam == 1:
        return {}
    model.notes.append(f"{path}: beam-size {beam}: Marian's beam gets narrower with each "
                       f"hypothesis that ends, here it does not: now and then another one wins")
    return {"beam": beam, "stop": "early_true", **({"length_penalty": penalty} if penalty else {})}


def from_ctranslate2(stated: Config, model: Model) -> Config:
    if is_left_out(stated):
        return {}
    model.notes.append("decoding: CTranslate2's own defaults, as of translate_batch; --set "
                       "decoding=none leaves them out")
    return dict(CTRANSLATE2)


def settle(facts: Config, stated: Config, most: int | None, model: Model) -> Config:
    """What the checkpoint says and what --set says, together; most: learned positions."""
    said = {key: value for key, value in stated.items() if key != "none"}
    rows = len(model.tensors["tgt_embedding.weight"]) if "tgt_embedding.weight" in model.tensors else None
    beyond = [one for one in facts.get("end_ids", []) if rows is not None and one >= rows]
    if beyond:
        ends = [one for one in facts["end_ids"] if one < rows]
        model.notes.append(f"end tokens {', '.join(map(str, beyond))}: left out, as the embedding has no such rows")
        facts = {key: value for key, value in facts.items() if key != "end_ids"}
        facts.update({"end_ids": ends} if len(ends) > 1 else {})
        model.facts["end"] = (ends or beyond)[0]
    merged = said if "none" in stated else {**facts, **said}
    if most and "max_length" not in said and merged.get("max_length", 0) > most:
        model.notes.append(f"decoding: max_length {merged['max_length']}: written as {most}, because the "
                           f"model has no more positions")
        merged = {**merged, "max_length": most}
    return merged
