"""The options of Model.translate: their names and types, and which of them go together."""

from __future__ import annotations

import inspect
import math
import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Literal, Mapping, NamedTuple, TypedDict, Union

from ._transformer import ffi, lib
from .arguments import check_call, check_choice, check_flag, check_integer, check_number, did_you_mean, wrong_type
from .config import enum_names
from .extras import import_numpy
from .surroundings import Counts
from .terms import Terms

if TYPE_CHECKING:
    import numpy as np

    from .model import Model

Ids = Union[Iterable[Iterable[int]], "np.ndarray"]
DRAFT = 8  # tokens of a draft that a step verifies at most


class DocumentOptions(TypedDict, total=False):
    """Options of Model.translate_document, and of Model.translate. If an option is None or missing, the model file's default applies."""

    # the package's own
    threads: int
    batch: int
    source_language: str | None
    target_language: str | None
    greedy: bool
    edit_logits: Callable[[int, list[int], np.ndarray], None] | None
    sample: bool
    seed: int | None
    max_source: int
    terms: Terms | Mapping[str, str] | str | os.PathLike[str] | None
    second: Model | None
    via_language: str | None
    progress: Callable[[int, int], Any] | None
    sentences: Literal["split", "whole"] | None
    plain: bool | None
    all_languages: bool | None
    counts: Counts | None
    # fields of tfm_decode_options
    max_length: int | None
    min_length: int | None
    beam: int | None
    length_penalty: float | None
    coverage_penalty: float | None
    patience: float | None
    stop: Literal["ctranslate2", "early_never", "early_true", "early_false"] | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    no_unknown: bool | None
    no_repeat_ngram: int | None
    no_source_ngram: int | None
    repetition_penalty: float | None
    repetition: Literal["target", "hugging_face"] | None
    lexical_shortlist: bool | None
    force_end: bool | None


class Options(DocumentOptions, total=False):
    """Options of Model.translate."""

    prefix: str | Iterable[str] | None
    draft: str | Iterable[str] | None
    prompt: Iterable[int] | Ids | None
    tokens: bool
    lang: str | None
    aligned: bool | bytes
    on_error: Literal["raise", "return"]
    alternatives: int | None
    min_alternative_prob: float | None
    prefix_bias: float | None
    keep_end: bool | None


class LiveOptions(TypedDict, total=False):
    """Options of Model.live."""

    source_language: str | None
    target_language: str | None
    second: Model | None
    via_language: str | None
    sure: float
    threads: int


# the fields of tfm_decode_options that the package sets by itself, or of which it has no results
NO_OPTIONS = {"n_best", "samples", "attention_layer", "attention_head", "truncate", "n_suppressed",
               "n_suppressed_sequences", "skip_errors", "n_shortlist", "n_end_ids"}
FLAGS = {"no_unknown", "force_end", "keep_end", "lexical_shortlist"}
# options that have no effect, or are refused, without another one, and those that exclude each other
NEEDS = {"temperature": "sample", "top_k": "sample", "top_p": "sample", "seed": "sample",
          "prefix_bias": "prefix", "min_alternative_prob": "alternatives", "keep_end": "tokens"}
APART = [("sample", other) for other in ("beam", "patience", "stop", "alternatives", "prefix_bias")] + [
    ("n_best", "alternatives"), ("prefix_bias", "alternatives"), ("terms", "tokens"), ("aligned", "tokens")]
# what other programs call an option, where that is too unlike its name here to suggest it
OF_OTHER_PROGRAMS = {"num_beams": "beam", "beam_size": "beam", "num_return_sequences": "n_best", "num_hypotheses": "n_best",
                     "do_sample": "sample", "max_new_tokens": "max_length", "max_decoding_length": "max_length",
                     "src_lang": "source_language", "tgt_lang": "target_language", "inter_threads": "threads"}
# of two models, only the second has these options
OF_THE_LAST_MODEL = {"target_language", "n_best", "prefix", "draft", "prompt", "edit_logits", "alternatives", "min_alternative_prob",
                     "prefix_bias"}


def options_of_two(options: dict[str, Any], kind: Any, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divides the options of a call with two models: those of the first, which has the config, and those of the second.
    kind: the class of models."""
    second, via = options.get("second"), options.get("via_language")
    if second is None:
        raise ValueError("via_language needs second")
    if not isinstance(second, kind):
        wrong_type("second", second, "Model")
    for name in ("terms", "aligned", "tokens"):
        if options.get(name):
            raise ValueError(f"second and {name} do not go together")
    shared = {name: value for name, value in options.items() if name not in ("second", "via_language")}
    first = {name: value for name, value in shared.items() if name not in OF_THE_LAST_MODEL}
    last = {name: value for name, value in shared.items() if name != "source_language"}
    first["target_language"] = via if config["languages"] else None
    last["source_language"] = via if second._config["languages"] else None
    progress = options.get("progress")
    if callable(progress):
        first["progress"] = lambda done, total: progress(done, 2 * total)
        last["progress"] = lambda done, total: progress(total + done, 2 * total)
    return first, last


def with_options(*without: str) -> Callable[[Any], Any]:
    """Shows the fields of Options in a method's signature, in the place of **options, for help() and
    editors. without: the options that the method does not take."""
    def decorate(method: Any) -> Any:
        own = inspect.signature(method)
        kept = [one for one in own.parameters.values() if one.kind != one.VAR_KEYWORD]
        options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None,
                                     annotation=getattr(kind, "__forward_arg__", kind))
                   for name, kind in Options.__annotations__.items() if name not in without]
        method.__signature__ = own.replace(parameters=kept + options)
        return method
    return decorate


def unknown_option(method: str, name: str, known: Iterable[str] = ("n_best", *Options.__annotations__)) -> TypeError:
    ours = OF_OTHER_PROGRAMS.get(name)
    return TypeError(f"{name} is no option of {method}" + (f"; it is called {ours!r}" if ours and ours in known else did_you_mean(name, known)))


def text_form(tokens: Any) -> int:
    """Returns whether texts are tokens with spaces between them, as the library takes it."""
    return int(lib.TFM_TEXT_FORM_ESCAPED if check_flag("tokens", tokens) else lib.TFM_TEXT_FORM_TEXT)


class DecodeJob(NamedTuple):
    """The options of a call, checked: what the threads that translate its batches have to know."""

    options: Any  # tfm_decode_options
    beam: int  # hypotheses of a text that run together
    ranks: int  # hypotheses of a text that are shown
    many: bool  # they are shown as a list
    vocabulary: int  # of targets
    form: int
    pair: tuple[bytes | None, bytes | None]
    seed: int
    most: int
    batch: int
    prefixes: list[bytes] | None
    drafts: list[bytes] | None
    prompts: list[list[int]] | None
    edit: Callable[[int, list[int], np.ndarray], None] | None
    session: tuple[int, int, int]  # attention, max_shortlist and max_draft of sessions that align nothing
    terms: Terms | None
    aligned: bool | bytes  # bytes: a flag for each text, as Document.needs_tokens; a text without it gets a plain str
    numbers: list[int] | None = None  # of the texts that the sentences are of; None: each is a text
    notes: bytearray | None = None  # see Layer of surroundings.py; None: all that is not blank is translated
    looks: bool = False  # sentences that are already in the language of the translation stay

    def aligns(self, index: int) -> bool:
        return bool(self.aligned[index]) if isinstance(self.aligned, bytes) else self.aligned

    def number(self, index: int) -> int:
        return self.numbers[index] if self.numbers else index


# options that speak of a text as the model reads it: it is given to the model as it is
OF_PLAIN_TEXT = ("prefix", "draft", "prompt", "alternatives", "tokens")
# options that read each text as one, because they give or take more than one translation of it
OF_ONE_TEXT = ("n_best", "alternatives", "prefix", "prompt", "aligned", "tokens")


def decode_job(method: str, defaults: Any, vocabulary: int, pair: tuple[bytes | None, bytes | None], n_best: Any,
               given: dict[str, Any], prefixes: list[bytes] | None, drafts: list[bytes] | None,
               prompts: list[list[int]] | None) -> DecodeJob:
    """Checks the options that are given, and puts them over the defaults of the model. method is the name of the method
    of Model that takes them."""
    given = {name: value for name, value in given.items() if value is not None}
    sample, tokens = (check_flag(name, given.pop(name, False)) for name in ("sample", "tokens"))
    greedy = check_flag("greedy", given.pop("greedy", False))
    batch = check_integer("batch", given.pop("batch", 64), 1)
    most = check_integer("max_source", given.pop("max_source", 4096), 1)
    terms, aligned = given.pop("terms", None), given.pop("aligned", False)
    if not isinstance(aligned, bytes):
        aligned = check_flag("aligned", aligned)
    edit = check_call("edit_logits", given.pop("edit_logits", None), "a function of a number, a list of ids, and an array of logits")
    if edit is not None:
        import_numpy("edit_logits")
    if n_best is not None:
        n_best = check_integer("n_best", n_best, 1)
    fields = {name: field.type for name, field in ffi.typeof("tfm_decode_options").fields
              if field.type.kind in ("primitive", "enum") and name not in NO_OPTIONS}
    there = {*given, *(name for name, value in (
        ("sample", sample), ("tokens", tokens), ("prefix", prefixes is not None),
        ("n_best", n_best is not None), ("terms", terms is not None), ("aligned", aligned is not False)) if value)}
    for name in given:
        if name not in fields and name != "seed":
            raise unknown_option(method, name)
        if NEEDS.get(name, name) not in there:
            raise ValueError(f"{name} needs {NEEDS[name]}")
    for name, other in APART:
        if name in there and other in there:
            raise ValueError(f"{name} and {other} do not go together")
    seed = check_integer("seed", given.pop("seed", 0), 0, 2 ** 64 - 1)

    options = ffi.new("tfm_decode_options *")
    if not greedy:
        options[0] = defaults[0]
    if sample:
        options.beam, options.length_penalty, options.patience, options.stop = 0, 0, 0, 0
    for name, value in given.items():
        setattr(options, name, _field(name, value, fields[name]))
    ranks = given.get("alternatives") or n_best or 1
    if sample:
        options.samples = ranks
    elif "alternatives" not in given:
        options.n_best = ranks
        if "beam" not in given:
            options.beam = max(options.beam, ranks)
    if drafts is not None and (sample or options.beam > 1 or options.alternatives):
        raise ValueError("draft needs a greedy search: give greedy, or a beam of 1, and one translation of each text")
    many = n_best is not None or "alternatives" in given
    searches = options.beam > 1
    for name, effect, needed in (
            ("patience", searches, "a beam above 1"), ("stop", searches, "a beam above 1"),
            ("length_penalty", searches or many, "a beam above 1, or n_best"),
            ("coverage_penalty", searches or many, "a beam above 1, or n_best"),
            ("repetition", options.no_repeat_ngram or options.repetition_penalty,
             "no_repeat_ngram or repetition_penalty")):
        if name in given and not effect:
            raise ValueError(f"{name} needs {needed}")
    if not sample and ("beam" in given or many):
        options.samples = 0  # of the model file
    beam = options.samples or max(options.beam, 1) * (options.alternatives or 1)
    return DecodeJob(options, beam, ranks,
                     many, vocabulary, lib.TFM_TEXT_FORM_ESCAPED if tokens else lib.TFM_TEXT_FORM_TEXT, pair, seed,
                     most, batch, prefixes, drafts, prompts, edit,
                     (int(options.coverage_penalty > 0 or options.attention_layer > 0 or options.attention_head > 0
                          or terms is not None),
                      vocabulary if options.lexical_shortlist else options.n_shortlist, DRAFT if drafts is not None else 0),
                     None if terms is None else terms if isinstance(terms, Terms) else Terms(terms), aligned)


def _field(name: str, value: Any, kind: Any) -> Any:
    """Returns the value of an option, as a field of this type takes it."""
    if kind.kind == "enum":
        old = {"enough": "ctranslate2", "sure": "early_never", "full": "early_true", "likely": "early_false"}
        return check_choice(name, old.get(value, value) if isinstance(value, str) else value, enum_names(kind))
    if kind.cname == "double":
        if not math.isfinite(number := check_number(name, value)):
            raise ValueError(f"{name} is {number}, expected a finite number")
        return number
    return check_flag(name, value) if name in FLAGS else check_integer(name, value, 0)


def source_of(options: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """Returns the language that a text is in, or None if it is not known."""
    code = options.get("source_language")
    return code if isinstance(code, str) else config["source_language"] or None


def is_plain(options: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Returns whether the model gets what is around sentences, too."""
    sentences = options.get("sentences") or config["sentences"]
    return check_flag("plain", options.get("plain") or False) or config["sentences"] != "split" or sentences == "whole"
