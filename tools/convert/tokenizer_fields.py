"""tokenizer_fields.py: every key of tokenizer_config.json, special_tokens_map.json and tokenizer.json,
and what the converter does with it. A row is used, only, or unused, as in config_fields.py.

A key of tokenizer_config.json without a row is an error where it may be a parameter: if a newer
transformers than NEWEST wrote the directory, or if the tokenizer's class of the installed
transformers takes it. All other keys without a row are printed. A key of tokenizer.json without a
row is an error. --ignore-key KEY leaves a key out. added_tokens.json has tokens and ids alone, and
all are used.

tests/tools/test_tokenizers.py walks the parameters of the installed classes.
"""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any, Callable

from .config_fields import HISTORY, Fields, check_strays, why
from .untrusted import ConvertError, brief, visible

CALLER = "padding, cutting and shapes are the caller's"
NAMED = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
# A folder may have this key beside clean_up_tokenization_spaces.
FORCED_CLEAN_UP = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"

SETTINGS = Fields(
    used=dict.fromkeys((
        *NAMED, "mask_token_sent", "tokenizer_class", "added_tokens_decoder", "add_prefix_space",
        "additional_special_tokens", "extra_special_tokens", "src_lang", "offset", "language_codes",
        "extra_ids", "source_lang", "target_lang", "langs", "clean_up_tokenization_spaces", FORCED_CLEAN_UP, "legacy_behaviour")),
    only={**dict.fromkeys(("do_lower_case", "do_upper_case", "split_special_tokens",
                           "add_bos_token"), (False,)),
          "add_eos_token": (True,), "sp_model_kwargs": ({},), "errors": ("replace",)},
    unused={
        **why(HISTORY, "name_or_path", "special_tokens_map_file", "tokenizer_file", "_commit_hash",
              "is_local", "local_files_only", "processor_class", "auto_map", "backend",
              "transformers_version", "from_slow", "_from_auto", "fix_mistral_regex"),
        **why("the files' names are the family's", "vocab_file", "merges_file", "source_spm",
              "target_spm", "spm_file", "vocab", "merges", "target_vocab_file", "src_vocab_file",
              "tgt_vocab_file", "tokenizer_object"),
        **why(CALLER, "model_max_length", "max_length", "stride", "padding_side", "truncation_side",
              "truncation_strategy", "pad_token_type_id", "pad_to_multiple_of", "padding",
              "model_input_names", "return_token_type_ids", "trim_offsets", "truncation"),
        **why("the target's language is chosen where texts are translated", "tgt_lang",
              "forced_bos_token"),
        **why("rows of the embedding that no text reaches", "num_madeup_words"),
        **why("files show it", "separate_vocabs", "unk_id", "_spm_precompiled_charsmap"),
        **why("transformers 5 has no other way", "legacy", "use_fast", "keep_accents"),
        **why("conversations, which translators have not", "chat_template", "response_template",
              "chat_control_tokens"),
        **why("what a call prints", "verbose")})
SPECIAL_MAP = Fields(used=dict.fromkeys((*NAMED, "additional_special_tokens",
                                         "extra_special_tokens")))
TOKENIZER = Fields(
    used=dict.fromkeys(("model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                        "decoder")),
    unused={**why(CALLER, "truncation", "padding"), **why(HISTORY, "version")})
# Of the model in tokenizer.json. tokenizer_files.py refuses fuse_unk and decoder where the class of
# the tokenizer reads them and they are not what SentencePiece does (Files.check_backend).
MODEL = Fields(
    used=dict.fromkeys(("type", "vocab", "merges", "unk_id", "unk_token", "byte_fallback",
                        "fuse_unk")),
    only={"dropout": (0,), "continuing_subword_prefix": ("",), "end_of_word_suffix": ("",),
          "ignore_merges": (False,)})


def is_installed_parameter(kind: str, key: str) -> bool:
    """Whether the tokenizer's class of the installed transformers takes the key by name."""
    if importlib.util.find_spec("transformers") is None:
        return False
    try:
        import transformers
        return key in inspect.signature(getattr(transformers, kind).__init__).parameters
    except Exception:  # an installation that is broken, or without the class, says nothing
        return False


def check(fields: Fields, found: dict[str, Any], path: str, ignored: set[str], notes: list[str],
          refuses: Callable[[str], bool]) -> dict[str, Any]:
    """What a file has without the keys that are ignored. refuses(key): whether a key without a row is
    an error, or else printed into notes."""
    stray = [key for key in found if key not in fields.rows() and key not in ignored
             and not key.endswith("_token")]  # a model's own special tokens
    for key in sorted(found.keys() & ignored):
        notes.append(f"{path}: {visible(key)} is left out, as --ignore-key says")
    for key, allowed in fields.only.items():
        if key not in ignored and found.get(key) is not None and found[key] not in allowed:
            raise ConvertError(f"{path}: {key} is {brief(found[key])}, and transformer.h cuts texts "
                               f"as with {brief(allowed[0])}; --ignore-key {key} leaves the key out")
    check_strays(stray, found, path, notes, refuses, "keys of tokenizers", "how texts are cut",
                 "transformers' tokenizers do not read")
    return {key: value for key, value in found.items() if key not in ignored}
