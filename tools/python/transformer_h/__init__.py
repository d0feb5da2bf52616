"""transformer.h in Python: encoder-decoder Transformers from one model file, without a framework.

    from transformer_h import Model

    with Model("de-en.safetensors") as model:
        print(model.translate("Guten Tag."))
        print(model.translate(["Guten Tag.", "Wie geht es dir?"], beam=4, threads=2))

Texts are str; ids are integers, as the model file numbers its tokens. Legend of shapes: B batch,
S source length, T target length, D model width, V vocabulary.

A Model may be used by many threads at once. Its work runs without the GIL; Ctrl-C ends it after a
few decoding steps. The results of a sentence do not depend on threads, batch or order.
"""

from __future__ import annotations

import enum
import inspect
import itertools
import os
import sys
import threading
from operator import index
from pathlib import Path
from typing import (TYPE_CHECKING, Any, Callable, Iterable, Iterator, Literal, Mapping, NamedTuple,
                    NoReturn, Sequence, TypedDict, Union, overload)

from ._transformer import ffi, lib
from .detecting import detect_language

if TYPE_CHECKING:
    import numpy as np
    import torch
    from typing_extensions import Unpack

__all__ = ["Aligned", "Document", "Error", "Hypothesis", "Model", "Segment", "Status", "Terms", "Word", "cpu",
           "detect_language", "download", "export", "get_include", "join_sentences", "split_sentences",
           "translate_file", "__version__"]
__version__: str = ffi.string(lib.tfm_version()).decode()

Status = enum.IntEnum("Status", {  # type: ignore[misc]
    name[4:]: value for value, name in sorted(ffi.typeof("tfm_status").elements.items())
    if not name.endswith("_COUNT")})
Status.__doc__ = "Why a call failed: Status.E_TOO_LONG is TFM_E_TOO_LONG of the header."

Ids = Union[Iterable[Iterable[int]], "np.ndarray"]
STEPS = 8  # between looks at Ctrl-C
DRAFT = 8  # tokens of a draft that a step verifies at most
MOST_THREADS = 1024
FULL_BATCH_SOURCE = 512  # tokens of a text in a whole batch


class Error(RuntimeError):
    """A call of the library failed. status is the header's tfm_status. message says what failed and where.
    index is the number of the text in the list that was given, or None if the error is not about one text."""

    def __init__(self, status: int, message: str, index: int | None = None) -> None:
        super().__init__(message if index is None else f"text {index}: {message}")
        self.status = Status(_integer("status", status))
        self.message = message
        self.index = index

    def __reduce__(self) -> Any:
        return Error, (int(self.status), self.message, self.index)


class Hypothesis(NamedTuple):
    """A translation with its scores."""

    text: str
    score: float  # orders the hypotheses of a text
    log_probability: float  # the sum over the tokens, with the end token
    length: int  # in tokens
    finish: str  # "ended", "hit_length" or "stuck"


class Word(NamedTuple):
    """A word that Model.transcribe has heard. The joined words of a segment are its text."""

    start: float  # seconds
    end: float
    word: str
    probability: float


class Segment(NamedTuple):
    """A piece of what Model.transcribe has heard. The last six fields are those of the window of up to 30 seconds
    from which the segment is."""

    start: float  # seconds
    end: float
    text: str
    tokens: list[int]  # also those of times
    words: list[Word] | None  # None without the option words
    language: str | None  # a code; None of a model that knows English alone
    seek: int  # where the window begins, in hundredths of a second
    temperature: float  # of the attempt that gave the text
    avg_logprob: float  # log-probability of a token, on average
    compression_ratio: float
    no_speech_prob: float | None  # None if it was not needed


class Terms:
    """A list of terms for the option terms of Model.translate. A program that makes many calls reads it once.

    terms is a dict of source and target, or the path of a file with one term on each line and a tab between
    them. The rules are those of `translate --terms`."""

    def __init__(self, terms: Mapping[str, str] | str | os.PathLike[str]) -> None:
        name, data = "terms", b""
        if isinstance(terms, Mapping):
            for source, target in terms.items():
                line = b"\t".join((_text("a term", source), _text("a term's target", target)))
                if line.count(b"\t") > 1 or b"\n" in line or line.lstrip(b" ").startswith(b"#"):
                    raise ValueError(f"terms: {source!r} has a tab or a line break, or begins with #")
                data += line + b"\n"
        elif isinstance(terms, (str, os.PathLike)):
            name, data = str(os.fspath(terms)), Path(terms).read_bytes()
        else:
            _wrong("terms", terms, "a dict, the path of a file, or Terms")
        message = ffi.new("char[]", 160)
        found = lib.th_terms_read(data, len(data), message)
        if not found:
            raise ValueError(f"{name}: {ffi.string(message).decode()}")
        self._list = ffi.gc(found, lib.th_terms_free)


class Aligned(str):
    """A translation that knows for each of its tokens which part of the source it comes from, for Document.join.
    tokens is an array of markup_token of examples/translate/text/pieces.h: positions are in bytes of UTF-8."""

    tokens: bytes

    def __new__(cls, text: str, tokens: bytes) -> Aligned:
        made = super().__new__(cls, text)
        made.tokens = tokens
        return made

    def __getnewargs__(self) -> tuple[str, bytes]:  # type: ignore[override]  # pickle calls __new__ with both
        return str(self), self.tokens


class Document:
    """A document: its sentences, and the document with translations in their places.

        page = Document(text, "html")
        print(page.join(model.translate(page.sentences, aligned=True)))

    format is "text" (paragraphs, one on a line), "html" (also XML), "markdown", "srt" (also WebVTT) or "wrapped"
    (plain text in wrapped lines). The rules, and the bytes, are those of `translate --document`, `--html` and so on.
    Model.translate_document does both steps."""

    FORMATS = ("text", "html", "markdown", "srt", "wrapped")

    def __init__(self, text: str, format: str = "text") -> None:
        _choice("format", format, dict.fromkeys(self.FORMATS))
        self.format = format
        self._text = _text("text", text)  # the library has pointers into it
        self._lock = threading.Lock()  # join uses the document's memory
        if format == "text":
            self._lines = [split_sentences(line) for line in text.split("\n")]
            self.sentences = [sentence for line in self._lines for sentence in line]
            return
        self._memory = ffi.from_buffer(self._text)
        found = lib.th_document_read(getattr(lib, f"MARKUP_{format.upper()}"), self._memory, len(self._text))
        if not found:
            raise Error(lib.TFM_E_MEMORY, "no memory for the document")
        self._document = ffi.gc(found, lib.th_document_free)
        size = ffi.new("size_t *")
        self.sentences = [_decoded(lib.th_document_sentence(found, i, size), size[0])
                          for i in range(lib.th_document_count(found))]

    def where(self, index: int) -> str:
        """Returns the place of a sentence, for messages: "line 3" of text, else "sentence 3"."""
        if self.format != "text":
            return f"sentence {index + 1}"
        return f"line {[number for number, line in enumerate(self._lines, 1) for _ in line][index]}"

    def join(self, translations: Iterable[str | Error | None], lang: str | None = None) -> str:
        """Returns the document with a translation in the place of each sentence. An Error or None copies the sentence.
        Where tags belong is known for translations that are Aligned; around others they stand at the ends. lang is
        the code of a language for the lang attribute of HTML's html element, as `translate --lang`; codes that HTML
        does not allow change nothing."""
        made = _list("translations", translations, "a list of str")
        if len(made) != len(self.sentences):
            raise ValueError(f"{len(made)} translations for {len(self.sentences)} sentences")
        if self.format == "text":
            found = iter(sentence if one is None or isinstance(one, Error) else one
                         for one, sentence in zip(made, self.sentences))
            return "\n".join(join_sentences([next(found) for _ in line]) for line in self._lines)
        ends, texts, tokens = _new("size_t[]", 2 * len(made)), [], []
        text_end = tokens_end = 0
        for i, one in enumerate(made):
            if not (one is None or isinstance(one, Error)):
                texts.append(_text(f"translations[{i}]", one))
                text_end += len(texts[-1])
                if isinstance(one, Aligned):
                    if not isinstance(one.tokens, bytes) or len(one.tokens) % (3 * ffi.sizeof("size_t")):
                        raise ValueError(f"translations[{i}].tokens is no array of markup_token")
                    tokens.append(one.tokens)
                    tokens_end += len(one.tokens)
            ends[2 * i], ends[2 * i + 1] = text_end, tokens_end
        size = ffi.new("size_t *")
        code = ffi.NULL if lang is None else ffi.new("char[]", _no_nul("lang", _text("lang", lang)))
        with self._lock:
            out = lib.th_document_join(self._document, code, b"".join(texts), ffi.from_buffer(b"".join(tokens)), ends, size)
        if not out:
            raise Error(lib.TFM_E_MEMORY, "no memory for the document")
        return _decoded(ffi.gc(out, lib.th_free), size[0])


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
    aligned: bool
    on_error: Literal["raise", "return"]
    alternatives: int | None
    min_alternative_prob: float | None
    prefix_bias: float | None
    keep_end: bool | None


# the fields of tfm_decode_options that the package sets by itself, or of which it has no results
_NO_OPTIONS = {"n_best", "samples", "attention_layer", "attention_head", "truncate", "n_suppressed",
               "n_shortlist", "n_end_ids"}
_FLAGS = {"no_unknown", "force_end", "keep_end", "lexical_shortlist"}
# options that have no effect, or are refused, without another one, and those that exclude each other
_NEEDS = {"temperature": "sample", "top_k": "sample", "top_p": "sample", "seed": "sample",
          "prefix_bias": "prefix", "min_alternative_prob": "alternatives", "keep_end": "tokens"}
_APART = [("sample", other) for other in ("beam", "patience", "stop", "alternatives", "prefix_bias")] + [
    ("n_best", "alternatives"), ("prefix_bias", "alternatives"), ("terms", "tokens"), ("aligned", "tokens")]
# of two models, only the second has these options
_LAST = {"target_language", "n_best", "prefix", "draft", "prompt", "edit_logits", "alternatives", "min_alternative_prob",
         "prefix_bias"}


def _with_options(*without: str) -> Callable[[Any], Any]:
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


# ---- what arguments have to be: an argument of a wrong type or size never gets to the library


def _wrong(name: str, value: Any, expected: str) -> NoReturn:
    raise TypeError(f"{name} is {type(value).__name__}, expected {expected}")


def _integer(name: str, value: Any, least: int = -2 ** 31, most: int = 2 ** 31 - 1) -> int:
    try:
        number = index(value)
    except TypeError:
        _wrong(name, value, "int")
    if isinstance(value, bool):
        _wrong(name, value, "int")
    if not least <= number <= most:
        raise ValueError(f"{name} is {_shown(number)}, expected {least} to {most}")
    return number


def _shown(number: int) -> str:
    """The number, if it is one that Python writes in decimal."""
    return str(number) if number.bit_length() < 1000 else f"a number of {number.bit_length()} bits"


def _number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray, bool)) or not hasattr(type(value), "__float__"):
        _wrong(name, value, "float")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float") from None


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):  # numpy's
        _wrong(name, value, "bool")
    return bool(value)


def _choice(name: str, value: Any, choices: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        _wrong(name, value, "str")
    if value not in choices:
        raise ValueError(f"{name} is {value[:40]!r}, expected {' or '.join(choices)}")
    return choices[value]


def _text(name: str, value: Any) -> bytes:
    """UTF-8. A lone surrogate becomes bytes that the library refuses, and names."""
    if not isinstance(value, str):
        _wrong(name, value, "str")
    return value.encode("utf-8", "surrogatepass")


def _decoded(memory: Any, size: int) -> str:
    return str(ffi.buffer(memory, size)[:], "utf-8", "surrogatepass")


def _texts(name: str, value: Any) -> list[bytes]:
    return [_text(f"{name}[{i}]", each) for i, each in enumerate(_list(name, value, "a list of str"))]


def _one_or_more(name: str, value: Any) -> tuple[bool, list[bytes]]:
    """Whether it is one text, and the texts."""
    if isinstance(value, str):
        return True, [_text(name, value)]
    return False, [_text(f"{name}[{i}]", each)
                   for i, each in enumerate(_list(name, value, "str or a list of str"))]


def _pair(source_language: Any, target_language: Any) -> tuple[bytes | None, bytes | None]:
    """The codes of two languages as the library takes them, where they are given."""
    codes: list[bytes | None] = []
    for name, value in (("source_language", source_language), ("target_language", target_language)):
        codes.append(None if value is None else _no_nul(name, _text(name, value)))
    return codes[0], codes[1]


def _no_nul(name: str, data: bytes) -> bytes:
    if b"\0" in data:
        raise ValueError(f"{name} has a NUL at byte {data.index(0)}")
    return data


def _list(name: str, value: Any, expected: str) -> list[Any]:
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not hasattr(type(value), "__iter__"):
        _wrong(name, value, expected)
    try:
        return list(iter(value))  # what its __len__ says does not matter
    except TypeError:  # an array without dimensions
        _wrong(name, value, expected)


def _rows(name: str, value: Any, one: bool = False) -> list[list[int]]:
    """Rows of ids. one: messages name the only row like the argument."""
    places = (f"{name}" if one else f"{name}[{i}]" for i in itertools.count())
    return [[_integer(f"{place}[{k}]", each) for k, each in enumerate(_list(place, row, "a row of ids"))]
            for place, row in zip(places, _list(name, value, "rows of ids"))]


def _form(tokens: Any) -> int:
    return int(lib.TFM_TEXT_FORM_ESCAPED if _flag("tokens", tokens) else lib.TFM_TEXT_FORM_TEXT)


def _new(kind: str, n: int) -> Any:
    """An array for the library."""
    try:
        return ffi.new(kind, n)
    except (MemoryError, OverflowError):
        raise Error(lib.TFM_E_MEMORY, f"no memory for {n} numbers") from None


def cpu() -> str:
    """Returns the name of the kernel set that runs on this machine, for instance "AVX2 and FMA"."""
    return str(ffi.string(lib.tfm_cpu_string()).decode())


def get_include() -> str:
    """Returns the folder of this version's transformer.h, for programs in C."""
    return str(Path(__file__).parent / "include")


def split_sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, without the whitespace between them, by the rules of
    examples/translate/text/sentences.h, as `translate --document` does."""
    data = _text("paragraph", paragraph)
    place, found = ffi.new("size_t[3]"), []
    while lib.th_sentence(data, len(data), place):
        found.append(data[place[1]:place[2]].decode("utf-8", "surrogatepass"))
    return found


def join_sentences(sentences: Iterable[str]) -> str:
    """Joins translated sentences to a paragraph, with spaces between them if their script has spaces."""
    text = b""
    for data in _texts("sentences", sentences):
        if text and data and lib.th_space_after(text, len(text)):
            text += b" "
        text += data
    return text.decode("utf-8", "surrogatepass")


def export(module: torch.nn.Module, path: str | os.PathLike[str], example_src: torch.Tensor,
           example_tgt: torch.Tensor, *, start: int, end: int, src_pad: int | None = None,
           tgt_pad: int | None = None, src_vocabulary: Iterable[str] | None = None,
           tgt_vocabulary: Iterable[str] | None = None,
           src_sentencepiece: str | os.PathLike[str] | None = None,
           tgt_sentencepiece: str | os.PathLike[str] | None = None,
           call: Callable[..., Any] | None = None, config: Mapping[str, Any] | None = None,
           dtype: Literal["f32", "f16", "bf16"] = "f32", about: Mapping[str, str] | None = None
           ) -> dict[str, Any]:
    """Writes a live PyTorch module as a model file at path, and returns its config.

    example_src and example_tgt are ids of example sentences: [B, S] and [B, T], or [S, B] and [T, B],
    as module(example_src, example_tgt) takes them. Give several rows of several tokens, without pads
    if the module's masks are arguments. If the module is called in another way, pass a function
    call(module, example_src, example_tgt). start and end are the ids that targets begin and end with.
    src_pad and tgt_pad are by default the padding_idx of the embeddings. A vocabulary is a list of
    tokens; NAME_sentencepiece is the path of a SentencePiece model. config has further keys of the
    model file's config (src_text ...). dtype is "f32", "f16" or "bf16".

    The function finds out from the module: sizes, heads, norm order, eps, activation, norms around
    embeddings and their scale, positions (as a formula if a known one gives the table), and which
    layer makes the logits. Raises exporting.ExportError, and writes nothing, if a part of the module has no
    place in a model file, or if the file's logits differ from the module's; the message then names
    the first layer that differs.
    """
    src_tokens, tgt_tokens = (
        None if value is None else [each.decode("utf-8", "surrogatepass") for each in _texts(name, value)]
        for name, value in (("src_vocabulary", src_vocabulary), ("tgt_vocabulary", tgt_vocabulary)))
    from .exporting import write_module
    return write_module(module, path, example_src, example_tgt, start, end, src_pad, tgt_pad, src_tokens,
                        tgt_tokens, src_sentencepiece, tgt_sentencepiece, call, config, dtype, about)


def translate_file(model: Model | Sequence[Model], path: str | os.PathLike[str], out: str | os.PathLike[str], *,
                   most: int = 1 << 29, **options: Any) -> list[str]:
    """Translates a document into the file `out`, which is written whole or not at all, and may be `path` itself. Its
    suffix says what the file is: docx, pptx, odt, odp, epub, html, txt, md, srt, vtt. A list of models translates with one
    after the other. Options are those of Model.translate_document. lang, by default target_language, is the language that
    the new file says it is in: "en" or "en-GB". Returns what stays as it is, a line for each thing.

    Raises transformer_h.documents.FileError, a ValueError, for a file that cannot be read or has more than `most`
    bytes, unpacked or not; then nothing is written. Archives need lxml: pip install "transformer-h[documents]"."""
    from .documents import translate as run
    return run(model, path, out, most=most, **options)


def download(source_language: str, target_language: str, *, source: str = "firefox", architecture: str | None = None,
             update: bool = False, offline: bool | None = None, records_url: str | None = None,
             quiet: bool = False) -> Path | tuple[Path, Path]:
    """Returns the path of the model file of a language pair, or two paths if the way leads through English. The
    model is downloaded and converted the first time, and stays in the cache. source is "firefox" or "argos";
    architecture is "tiny", "base-memory" or "base" (None: the best one). update asks for a newer version.
    offline opens no connection; None means the environment variable TRANSFORMER_MODEL_OFFLINE. Progress and
    licence are printed on standard error unless quiet is true. Raises transformer_h.convert.download.DownloadError.
    Needs further packages: pip install "transformer-h[download]"."""
    from .convert.published import download as run
    found: Path | tuple[Path, Path] = run(
        source_language, target_language, source=source, architecture=architecture, update=update,
        offline=offline, records_url=records_url, quiet=quiet)
    return found


def _failed(err: Any, index: int | None = None) -> Error:
    return Error(err.status, ffi.string(err.text).decode("utf-8", "replace"), index)


def _check(status: int, err: Any) -> None:
    if status:
        raise _failed(err)


def _names(kind: Any) -> dict[str, int]:
    """The values of an enum under their names in the header without what these begin with: of
    TFM_NORM_KIND_RMS_NORM it is "rms_norm"."""
    elements = {name: value for value, name in sorted(kind.elements.items()) if not name.endswith("_COUNT")}
    prefix = os.path.commonprefix(list(elements))
    prefix = prefix[:prefix.rindex("_") + 1]
    return {name[len(prefix):].lower(): value for name, value in elements.items()}


def _config_of(c: Any) -> Mapping[str, Any]:
    """The fields of tfm_config. An enum's value is its name, and an array is a tuple, so its n_ field is
    left out."""
    config: dict[str, Any] = {}
    fields = dict(ffi.typeof("tfm_config").fields)
    for name, field in fields.items():
        value = getattr(c, name)
        if field.type.kind == "enum":
            value = next(each for each, number in _names(field.type).items() if number == value)
        elif name == "languages":
            value = {ffi.string(value[i].code).decode(): value[i].id for i in range(c.n_languages)}
        elif name == "alignment_heads":
            value = tuple((value[2 * i], value[2 * i + 1]) for i in range(c.n_alignment_heads))
        elif field.type.kind == "pointer":
            value = tuple(value[i] for i in range(getattr(c, f"n_{name}")))
        elif name.startswith("n_") and name[2:] in fields:
            continue
        config[name] = value
    return config


def _round(length: int, least: int) -> int:
    """Up to a power of two, so that a session serves many batches."""
    while least < length:
        least *= 2
    return least


class _Worker:
    """What one thread has: a session that tokenizes and one that translates, both grow."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = lib.tfm_model_config(model)
        self.most_source = self.config.max_source_positions or 2 ** 30
        self.most_target = self.config.max_target_positions or 2 ** 30
        self.err = ffi.new("tfm_error *")
        self.reader = self.session = None
        self.reader_source = 0
        self.limits = (0, 0, 0, 0, 0, 0, 0)  # batch, source, target, beam, attention, shortlist, draft

    def make(self, batch: int, source: int, target: int, beam: int, attention: int = 0,
             shortlist: int = 0, draft: int = 0) -> Any:
        options = ffi.new("tfm_session_options *")
        for name, value in (("max_batch", batch), ("max_source", source), ("max_target", target),
                            ("max_beam", beam), ("attention", attention), ("max_shortlist", shortlist),
                            ("max_draft", draft)):
            if value > 2 ** 31 - 1:
                raise Error(lib.TFM_E_TOO_LONG, f"a session cannot have a {name} of {_shown(value)}")
            setattr(options, name, value)
        place = ffi.new("tfm_session **")
        _check(lib.tfm_session_create(place, self.model, options, self.err), self.err)
        # the destructor holds the model, which has to outlive its sessions
        return ffi.gc(place[0], lambda session, model=self.model: lib.tfm_session_free(session))

    def languages(self, session: Any, pair: tuple[bytes | None, bytes | None]) -> None:
        if pair != (None, None):
            codes = [ffi.NULL if code is None else ffi.new("char[]", code) for code in pair]
            _check(lib.tfm_languages_set(session, *codes, self.err), self.err)

    def read(self, texts: list[bytes], form: int, pair: Any, most: int, target: bool = False) -> Any:
        """ids [n, width], counts, faults of the texts."""
        data, n, at = b"".join(texts), len(texts), 0
        most = min(most, self.most_target if target else self.most_source)
        ends = _new("int64_t[]", n)
        for i, text in enumerate(texts):
            at += len(text)
            ends[i] = at
        counts, faults = _new("int32_t[]", n), _new("tfm_error[]", n)
        width = min(_round(max(map(len, texts)) + 2, 64), most)
        while True:
            ids = _new("int32_t[]", n * width)
            if target:
                lib.th_targets(self.model, data, ends, n, form, ids, width, counts, faults)
            else:
                if width > self.reader_source or not self.reader:
                    self.reader, self.reader_source = self.make(1, width, 1, 1), width
                    self.reader_pair = None
                if pair != self.reader_pair:
                    self.languages(self.reader, pair)
                    self.reader_pair = pair
                lib.th_sources(self.reader, data, ends, n, form, ids, width, counts, faults)
            if width >= most or not any(faults[i].status == lib.TFM_E_TOO_LONG for i in range(n)):
                return ids, width, counts, faults
            width = min(8 * width, most)

    def fit(self, rows: int, source: int, target: int, beam: int, pair: Any, attention: int = 0,
            shortlist: int = 0, draft: int = 0) -> Any:
        """A session for so much. Its target's limit never decides where a sentence ends."""
        exact = beam, attention, shortlist, draft
        if not self.session or self.limits[3:] != exact or any(
                has < want for has, want in zip(self.limits, (rows, source, target))):
            self.session = None
            width = min(_round(source, 64), self.most_source)
            self.limits = (_round(rows, 1), width, min(max(target, 2 * width + 16), self.most_target), *exact)
            self.session = self.make(*self.limits)
        self.languages(self.session, pair)
        return self.session

    def finished(self, session: Any, row: int, rank: int, job: _Job, source: bytes, text: str) -> str:
        """The text of a hypothesis with the terms that its source has; Aligned, if the call asks for it."""
        target, (out, tokens), sizes = text.encode(), (ffi.new("char **") for _ in range(2)), ffi.new("size_t[2]")
        _check(lib.th_aligned(job.terms._list if job.terms else ffi.NULL, job.aligned, self.reader, self.reader_source,
                              self.model, session, row, rank, source, len(source), target, len(target), out, sizes,
                              tokens, sizes + 1, self.err), self.err)
        if not out[0]:
            return text
        made, origins = ffi.gc(out[0], lib.th_free), ffi.gc(tokens[0], lib.th_free)
        text = _decoded(made, sizes[0])
        return Aligned(text, ffi.buffer(origins, sizes[1])[:] if sizes[1] else b"") if job.aligned else text


class _Batch:
    """A copy of rows of ids, as the library takes them: nobody can change it while the library works."""

    def __init__(self, name: str, rows: Any) -> None:
        numpy = sys.modules.get("numpy")
        if numpy and isinstance(rows, numpy.ndarray) and rows.dtype != object:
            if rows.ndim != 2 or rows.dtype.kind not in "iu":
                raise TypeError(f"{name} is an array of {rows.dtype} {list(rows.shape)}, expected integers "
                                "[rows, width]")
            self.rows, self.width = self.shaped(name, *rows.shape)
            if rows.size:
                for extreme in (rows.argmin(), rows.argmax()):
                    i, k = divmod(int(extreme), self.width)
                    _integer(f"{name}[{i}][{k}]", rows[i, k])
            self.ids, self.lengths = _new("int32_t[]", rows.size), _new("int32_t[]", self.rows)
            numpy.frombuffer(ffi.buffer(self.ids), numpy.int32)[:] = rows.ravel() if rows.size else []
            self.lengths[0:self.rows] = [self.width] * self.rows
        else:
            rows = [_list(f"{name}[{i}]", row, "a row of ids")
                    for i, row in enumerate(_list(name, rows, "rows of ids"))]
            self.rows, self.width = self.shaped(name, len(rows), max(max(map(len, rows), default=0), 1))
            self.ids = _new("int32_t[]", self.rows * self.width)
            self.lengths = _new("int32_t[]", self.rows)
            for i, row in enumerate(rows):
                self.ids[i * self.width:i * self.width + len(row)] = [
                    one if type(one) is int and -2 ** 31 <= one < 2 ** 31
                    else _integer(f"{name}[{i}][{k}]", one) for k, one in enumerate(row)]
                self.lengths[i] = len(row)
        self.c = ffi.new("tfm_batch *", {"ids": self.ids, "lengths": self.lengths, "rows": self.rows,
                                         "width": self.width})

    @staticmethod
    def shaped(name: str, rows: int, width: int) -> tuple[int, int]:
        if rows * width > 2 ** 31 - 1:
            raise ValueError(f"{name} has {rows} rows of {width} ids: that is too many")
        return rows, width


class _Editor:
    """Lets a function of Python edit logits. After an exception it is not called any more. Who makes the steps calls
    check, which raises the exception. indices are the numbers of the texts in the rows."""

    def __init__(self, function: Callable[[int, list[int], np.ndarray], None], vocabulary: int,
                 indices: Sequence[int]) -> None:
        import numpy as np
        self.indices, self.function = indices, function
        # The function gets an array of the package's own, because it may keep the array longer than the session lives.
        self.logits = np.empty(vocabulary, np.float32)
        self.memory = ffi.from_buffer(self.logits, require_writable=True)
        self.caught: BaseException | None = None

    def edit(self, row: int, ids: Any, n: int, logits: Any) -> None:
        if self.caught is not None:
            return
        try:
            ffi.memmove(self.memory, logits, self.logits.nbytes)
            made: Any = self.function(self.indices[row], ffi.unpack(ids, n), self.logits[:])
            if made is not None:
                raise TypeError(f"edit_logits returned {type(made).__name__}, expected None: it edits logits in place")
            ffi.memmove(logits, self.memory, self.logits.nbytes)
        except BaseException as error:  # it must not get into C
            self.caught = error

    def check(self) -> None:
        if self.caught is not None:
            raise self.caught


@ffi.def_extern(name="th_edit_logits")  # type: ignore[untyped-decorator]
def _edit_logits(editor: Any, row: int, ids: Any, n: int, logits: Any) -> None:
    ffi.from_handle(editor).edit(row, ids, n, logits)


class _Owner:
    """Memory of the library as numpy sees it, with who owns it."""

    def __init__(self, tensor: Any, owner: Any) -> None:
        self.owner = owner
        rank = tensor.rank
        self.__array_interface__ = {
            "version": 3, "typestr": "<f4", "data": (int(ffi.cast("uintptr_t", tensor.data)), False),
            "shape": tuple(tensor.dims[0:rank]),
            "strides": tuple(4 * one for one in tensor.strides[0:rank])}


class _Job(NamedTuple):
    """What a call wants of every batch."""

    options: Any  # tfm_decode_options
    beam: int  # hypotheses of a text that run together
    ranks: int  # hypotheses of a text that are shown
    many: bool  # they are shown as a list
    form: int
    pair: tuple[bytes | None, bytes | None]
    seed: int
    most: int
    batch: int
    prefixes: list[bytes] | None
    drafts: list[bytes] | None
    prompts: list[list[int]] | None
    edit: Callable[[int, list[int], np.ndarray], None] | None
    session: tuple[int, int, int]  # attention, max_shortlist and max_draft of its sessions
    terms: Terms | None
    aligned: bool


class Model:
    """A loaded model. Threads may share it. The end of a `with` block frees it, when no call uses it any more.

    path is a file, or the bytes of a file. weights converts the matrices to "f32", "f16", "bf16" or "i8".
    map uses a packed file where it is on disk; nobody may change the file meanwhile. in_place leaves F32
    matrices where they are in memory: this takes less memory, but makes batches slower. exact computes the
    same bits as other machines, also where that is slower; model.arithmetic tells whether two machines agree.
    """

    def __init__(self, path: str | os.PathLike[str] | bytes, *,
                 weights: Literal["f32", "f16", "bf16", "i8"] | None = None,
                 map: bool = False, in_place: bool = False, exact: bool = False) -> None:
        options, err = ffi.new("tfm_model_options *"), ffi.new("tfm_error *")
        if weights is not None:
            options.weights = _choice("weights", weights, {
                name: value for name, value in _names(ffi.typeof("tfm_weight_type")).items()
                if value})
        options.map, options.in_place = _flag("map", map), _flag("in_place", in_place)
        options.exact = _flag("exact", exact)
        place = ffi.new("tfm_model **")
        self._data = ffi.from_buffer(path) if isinstance(path, bytes) else None
        if self._data is not None:
            if map:
                raise ValueError("map needs a path, not the bytes of a file")
            status = lib.tfm_model_load(place, self._data, len(self._data), options, err)
        else:
            if not isinstance(path, (str, os.PathLike)):
                _wrong("path", path, "str, os.PathLike, or the bytes of a file")
            self._path = _no_nul("path", os.fsencode(os.path.abspath(path)))
            status = lib.tfm_model_load_file(place, _no_nul("path", os.fsencode(path)), options, err)
        _check(status, err)
        self._name = "<bytes>" if isinstance(path, bytes) else repr(os.fspath(path))
        self._size = len(path) if isinstance(path, bytes) else os.path.getsize(path)
        self._model: Any = ffi.gc(place[0], lib.tfm_model_free)
        self._config = _config_of(lib.tfm_model_config(self._model))
        self._arithmetic = bytes(ffi.string(lib.tfm_arithmetic_string(self._model))).decode()
        self._defaults = ffi.new("tfm_decode_options *")
        self._defaults[0] = lib.tfm_model_decoding(self._model)[0]
        self._idle: list[_Worker] = []
        self._hearings: list[tuple[Any, Any]] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """The file, its size, and what the config says of layers, width, vocabularies and languages."""
        c, languages = self._config, list(self._config["languages"])
        sizes = list(dict.fromkeys((c["src_vocab_size"], c["tgt_vocab_size"])))
        said = [f"{self._size / 1e6:.1f} MB", f"{c['n_encoder_layers']} + {c['n_decoder_layers']} layers",
                f"width {c['d_model']}", f"{c['n_heads']} heads",
                f"{'vocabularies' if len(sizes) > 1 else 'vocabulary'} of {' and '.join(map(str, sizes))} tokens"]
        if languages:
            more = ", ..." if len(languages) > 8 else ""
            said.append(f"{len(languages)} languages: {', '.join(languages[:8])}{more}")
        return f"Model({self._name}: {', '.join(said)}{', closed' if self._model is None else ''})"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Frees the sessions and the weights, as soon as no call uses them."""
        with self._lock:
            self._model, self._idle, self._hearings = None, [], []

    @property
    def config(self) -> Mapping[str, Any]:
        """The model's config with its defaults, under the names of tfm_config. An id of -1 means none."""
        return dict(self._config)

    @property
    def arithmetic(self) -> str:
        """What computes the model: two machines where this is "fused" compute the same bits."""
        return self._arithmetic

    # ---- sessions

    def _take(self) -> _Worker:
        with self._lock:
            if self._model is None:
                raise ValueError("the model is closed")
            return self._idle.pop() if self._idle else _Worker(self._model)

    def _give(self, worker: _Worker) -> None:
        with self._lock:
            if self._model is not None:
                self._idle.append(worker)

    # ---- speech

    def transcribe(self, sound: str | os.PathLike[str] | bytes | np.ndarray, *, rate: int | None = None,
                   language: str | None = None, task: Literal["transcribe", "translate"] = "transcribe",
                   timestamps: bool = True, words: bool = False, prompt: str | None = None, previous: bool | None = None,
                   beam: int | None = None, best_of: int | None = None,
                   temperature: float | Iterable[float] | None = None, compression: float | None = None,
                   log_prob: float | None = None, no_speech: float | None = None, silence: float | None = None,
                   fast: bool = False, threads: int = 1, progress: Callable[[float, float], Any] | None = None
                   ) -> Iterator[Segment]:
        """Yields what is spoken in a sound as Segments, by a Whisper model of tools/convert.py. Texts, times and
        words are those of `transcribe`. Each window of up to 30 seconds is heard when its first segment is asked
        for, so Ctrl-C keeps all segments before.

        sound is the path of a WAV file, its bytes, or samples from -1 to 1: a float32 array [samples] of rate
        (16000) a second. Samples that are not numbers count as silence.

        language is a code; with None the model detects it. task "translate" translates into English. words finds
        the time of each word. timestamps=False lets the model write no times: then each window is one segment.
        prompt is text as if heard before the sound: names, style. previous=False hears each window without the
        text of the window before. progress is called after each window with the seconds heard and all seconds.

        If an option is None, the default of `transcribe` applies; transcribe --help explains them. beam (5) is used
        at temperature 0, best_of (5) samples at others. temperature (0, 0.2, ... 1) is one number or several: the
        next one is tried if the text is more repetitive than compression (2.4; 0: no limit) or its log-probability
        of a token is on average below log_prob (-1; 0: no limit). no_speech (0.6; 1: never) skips such a window if
        the probability that nobody speaks is larger. Stretches of 3 seconds below silence (-60 dB; 0: none) are not
        heard. fast makes the encoder's attention BF16 and the KV cache F16, which it always is for int8 model files.
        """
        from .transcribing import transcribe
        return transcribe(self, sound, rate, language, task, timestamps, words, threads, fast, progress, {
            "prompt": prompt, "previous": previous, "beam": beam, "best_of": best_of, "temperature": temperature,
            "compression": compression, "log_prob": log_prob, "no_speech": no_speech, "silence": silence})

    def _hearing(self, key: tuple[int, int, bool]) -> Any:
        """What hears, for so many threads and hypotheses: one that is idle, or a new one."""
        with self._lock:
            if self._model is None:
                raise ValueError("the model is closed")
            model = self._model
            for i, (other, hearing) in enumerate(self._hearings):
                if other == key:
                    del self._hearings[i]
                    return hearing
        err, data = ffi.new("tfm_error *"), self._data if self._data is not None else ffi.NULL
        path = ffi.new("char[]", self._path) if self._data is None else ffi.NULL
        found = lib.th_hearing_load(model, path, data, self._size if self._data is not None else 0, *key, err)
        if not found:
            raise _failed(err)
        return ffi.gc(found, lambda hearing, model=model: lib.th_hearing_free(hearing))

    def _give_hearing(self, key: tuple[int, int, bool], hearing: Any) -> None:
        with self._lock:
            if self._model is not None:
                self._hearings.append((key, hearing))

    # ---- translating

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a Sequence[str] too
        self, text: str, *, n_best: None = None, **options: Unpack[Options]) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: str, *, n_best: int, **options: Unpack[Options]) -> list[Hypothesis]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: None = None, **options: Unpack[Options]
                  ) -> list[str]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: int, **options: Unpack[Options]
                  ) -> list[list[Hypothesis]]: ...

    @_with_options()
    def translate(self, text: str | Iterable[str], *, n_best: int | None = None, **options: Any) -> Any:
        """Translates a text, or each text of a list or another iterable. The translation of a blank text is
        empty. Models expect one sentence at a time: for a text of several sentences, call
        translate_document.

        n_best returns a list of that many Hypothesis for each text, instead of a string: at most beam, or
        with sample that many independent samples. alternatives also returns lists of Hypothesis: the
        most probable continuations of the prefix.

        threads (default 1) is the number of workers; results are the same for any number. At most batch
        (64) texts are translated together. source_language and target_language are codes of the model
        file. prefix is the beginning of each translation. draft is a guess of each translation, such as the
        translation before an edit: a greedy search then takes less time, and results are the same for any draft.
        It helps while fewer than 5 texts are translated together. prompt is the ids that the decoder reads before each
        translation, instead of the model's start token; results do not contain it. For a list of texts, prefix, draft
        and prompt are lists too. sample draws tokens instead of searching; text
        i of a list has the seed seed + i + 1, as line i + 1 of the command line. max_source (4096) is the
        largest number of tokens of a text. With tokens, texts are tokens with spaces between them.
        progress is a function that is called after each batch with two numbers: how many texts are done,
        and how many there are. With several threads, any of them calls it, one at a time.

        edit_logits is a function that is called before each choice of a token, with the number of the text in the list,
        the ids of the translation so far, and the logits: a float32 array [V] that it edits in place. -inf forbids a
        token, and the others share its probability. It sees the model's logits before all other options. Equal
        arguments must give equal logits, or results depend on the batches. With several threads, any of them calls
        it, also at once. The array has other numbers in the next call: copy what you keep. An exception in it ends
        the call and is raised. It needs numpy.

        terms is a dict of source and target, a file's path, or Terms: the translation uses these targets. Scores are those of
        the model's own words. With aligned, translations are Aligned, as Document.join needs them.

        With second, another Model translates what this one makes: the bytes of `translate` with two models.
        n_best, alternatives, prefix, draft, prompt, edit_logits and target_language are for the second, source_language
        for the first. A
        model of several languages reads or writes via_language between them. progress counts each text twice.

        The other options are fields of tfm_decode_options of the header, under their names: beam,
        length_penalty, max_length, no_repeat_ngram ... (transformer_h.Options has all). If an option is
        None, the model file's default applies (tfm_model_decoding), or with greedy the header's. An
        option without another one that it needs is refused.

        Raises Error for the first text that fails; its index is the number of the text. With
        on_error="return", the list has the Error instead of that translation. Wrong arguments raise
        TypeError or ValueError.
        """
        one, texts = _one_or_more("text", text)
        options = {name: value for name, value in options.items() if value is not None}
        if "second" in options or "via_language" in options:
            decoded = [each.decode("utf-8", "surrogatepass") for each in texts]
            return self._translate_twice(decoded[0] if one else decoded, n_best, options)
        threads = _integer("threads", options.pop("threads", 1), 1, MOST_THREADS)
        on_error = options.pop("on_error", "raise")
        _choice("on_error", on_error, {"raise": 0, "return": 0})
        progress, prefix = options.pop("progress", None), options.pop("prefix", None)
        if progress is not None and not callable(progress):
            _wrong("progress", progress, "a function of two numbers")
        draft = options.pop("draft", None)
        prefixes, drafts = (None if value is None else _one_or_more(name, value)[1]
                            for name, value in (("prefix", prefix), ("draft", draft)))
        if prefixes is not None and len(prefixes) != len(texts):
            raise ValueError(f"{len(prefixes)} prefixes for {len(texts)} texts")
        if drafts is not None and len(drafts) != len(texts):
            raise ValueError(f"{len(drafts)} drafts for {len(texts)} texts")
        prompt = options.pop("prompt", None)
        prompts = None if prompt is None else _rows("prompt", [prompt] if one else prompt, one)
        if prompts is not None and len(prompts) != len(texts):
            raise ValueError(f"{len(prompts)} prompts for {len(texts)} texts")
        job = self._job(n_best, prefixes, options, drafts, prompts)
        results = self._run(texts, job, threads, progress)
        if on_error == "raise":
            fault = next((each for each in results if isinstance(each, Error)), None)
            if fault:
                raise Error(fault.status, fault.message) if one else fault
        if not job.many:
            results = [each if isinstance(each, Error) else each[0].text if each else ""
                       for each in results]
        return results[0] if one else results

    @overload
    def translate_document(  # type: ignore[overload-overlap]
        self, text: str, format: str = "text", *, lang: str | None = None,
        on_error: Literal["raise", "copy"] = "raise", **options: Unpack[DocumentOptions]) -> str: ...
    @overload
    def translate_document(
        self, text: Iterable[str], format: str = "text", *, lang: str | None = None,
        on_error: Literal["raise", "copy"] = "raise", **options: Unpack[DocumentOptions]) -> list[str]: ...

    @_with_options("aligned", "on_error", "prefix", "draft", "prompt", "alternatives", "min_alternative_prob", "prefix_bias",
                   "tokens", "keep_end")
    def translate_document(self, text: str | Iterable[str], format: str = "text", *, lang: str | None = None,
                           on_error: Literal["raise", "copy"] = "raise", **options: Any) -> Any:
        """Translates a document, or each one of a list, sentence by sentence, and returns it with its lines and tags.
        format is "text" (paragraphs, one on a line), "html" (also XML), "markdown", "srt" (also WebVTT) or "wrapped"
        (plain text in wrapped lines). The result has the bytes of `translate --document`, `--html` and so on. A
        paragraph of another kind of document can be given as HTML with a tag around each part: the tags are in the
        result, around the translated parts. lang, by default target_language, is what the lang attribute of HTML's
        html element becomes. Options are those of translate that give one translation of each
        sentence; progress counts sentences.

        Raises Error for the first sentence that fails; its message has the number of the line, or in documents
        with tags of the sentence. With on_error="copy", such a sentence stays as it is.
        """
        allowed = inspect.signature(Model.translate_document).parameters
        for name in options:
            if name not in allowed or name == "text":
                raise TypeError(f"{name} is no option of translate_document")
        _choice("on_error", on_error, {"raise": 0, "copy": 0})
        if format != "text" and (options.get("second") is not None or options.get("via_language") is not None):
            first, last = self._of_two(options)  # each model places the tags
            between = self.translate_document(text, format, lang="", on_error=on_error, **first)
            return options["second"].translate_document(between, format, lang=lang, on_error=on_error, **last)
        one, data = _one_or_more("text", text)
        documents = [Document(each.decode("utf-8", "surrogatepass"), format) for each in data]
        translate: Any = self.translate  # options are checked there
        found = iter(translate([sentence for each in documents for sentence in each.sentences],
                               aligned=format != "text" or None, on_error="return", **options))
        made = []
        for index, document in enumerate(documents):
            results = [next(found) for _ in document.sentences]
            for i, result in enumerate(results):
                if on_error == "raise" and isinstance(result, Error):
                    raise Error(result.status, f"{document.where(i)}: {result.message}", None if one else index)
            made.append(document.join(results, options.get("target_language") if lang is None else lang))
        return made[0] if one else made

    def _of_two(self, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The options of this model and of the second one."""
        second, via = options.get("second"), options.get("via_language")
        if second is None:
            raise ValueError("via_language needs second")
        if not isinstance(second, Model):
            _wrong("second", second, "Model")
        for name in ("terms", "aligned", "tokens"):
            if options.get(name):
                raise ValueError(f"second and {name} do not go together")
        shared = {name: value for name, value in options.items() if name not in ("second", "via_language")}
        first = {name: value for name, value in shared.items() if name not in _LAST}
        last = {name: value for name, value in shared.items() if name != "source_language"}
        first["target_language"] = via if self._config["languages"] else None
        last["source_language"] = via if second._config["languages"] else None
        progress = options.get("progress")
        if callable(progress):
            first["progress"] = lambda done, total: progress(done, 2 * total)
            last["progress"] = lambda done, total: progress(total + done, 2 * total)
        return first, last

    def _translate_twice(self, text: str | list[str], n_best: int | None, options: dict[str, Any]) -> Any:
        first, last = self._of_two(options)
        on_error, one = options.get("on_error", "raise"), isinstance(text, str)
        _choice("on_error", on_error, {"raise": 0, "return": 0})
        between = self.translate([text] if isinstance(text, str) else text, **{**first, "on_error": "return"})
        second = options["second"]
        found = second.translate(["" if isinstance(each, Error) else each for each in between], n_best=n_best,
                                 **{**last, "on_error": "return"})
        results = []
        for model, each in ((self, a) if isinstance(a, Error) else (second, b) for a, b in zip(between, found)):
            if isinstance(each, Error):
                each = Error(each.status, f"{model._name}: {each.message}", None if one else each.index)
                if on_error == "raise":
                    raise each
            results.append(each)
        return results[0] if one else results

    def _job(self, n_best: Any, prefixes: list[bytes] | None, given: dict[str, Any],
             drafts: list[bytes] | None = None, prompts: list[list[int]] | None = None) -> _Job:
        """Checks the options that are given, and puts them over the model's."""
        given = {name: value for name, value in given.items() if value is not None}
        sample, tokens = (_flag(name, given.pop(name, False)) for name in ("sample", "tokens"))
        greedy = _flag("greedy", given.pop("greedy", False))
        batch = _integer("batch", given.pop("batch", 64), 1)
        most = _integer("max_source", given.pop("max_source", 4096), 1)
        pair = _pair(given.pop("source_language", None), given.pop("target_language", None))
        terms, aligned = given.pop("terms", None), _flag("aligned", given.pop("aligned", False))
        edit = given.pop("edit_logits", None)
        if edit is not None and not callable(edit):
            _wrong("edit_logits", edit, "a function of a number, a list of ids, and an array of logits")
        if n_best is not None:
            n_best = _integer("n_best", n_best, 1)
        fields = {name: field.type for name, field in ffi.typeof("tfm_decode_options").fields
                  if field.type.kind in ("primitive", "enum") and name not in _NO_OPTIONS}
        there = {*given, *(name for name, value in (
            ("sample", sample), ("tokens", tokens), ("prefix", prefixes is not None),
            ("n_best", n_best is not None), ("terms", terms is not None), ("aligned", aligned)) if value)}
        for name in given:
            if name not in fields and name != "seed":
                raise TypeError(f"{name} is no option of this call")
            if _NEEDS.get(name, name) not in there:
                raise ValueError(f"{name} needs {_NEEDS[name]}")
        for name, other in _APART:
            if name in there and other in there:
                raise ValueError(f"{name} and {other} do not go together")
        seed = _integer("seed", given.pop("seed", 0), 0, 2 ** 64 - 1)

        options = ffi.new("tfm_decode_options *")
        if not greedy:
            options[0] = self._defaults[0]
        if sample:
            options.beam, options.length_penalty, options.patience, options.stop = 0, 0, 0, 0
        for name, value in given.items():
            setattr(options, name, self._field(name, value, fields[name]))
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
        return _Job(options, ranks if sample else max(options.beam, 1) * (options.alternatives or 1), ranks,
                    many, lib.TFM_TEXT_FORM_ESCAPED if tokens else lib.TFM_TEXT_FORM_TEXT, pair, seed,
                    most, batch, prefixes, drafts, prompts, edit,
                    (int(options.coverage_penalty > 0 or terms is not None or aligned),
                     self._config["tgt_vocab_size"] if options.lexical_shortlist else 0,
                     DRAFT if drafts is not None else 0),
                    None if terms is None else terms if isinstance(terms, Terms) else Terms(terms), aligned)

    @staticmethod
    def _field(name: str, value: Any, kind: Any) -> Any:
        """The value of an option, as a field of this type takes it."""
        if kind.kind == "enum":
            old = {"enough": "ctranslate2", "sure": "early_never", "full": "early_true", "likely": "early_false"}
            return _choice(name, old.get(value, value) if isinstance(value, str) else value, _names(kind))
        if kind.cname == "double":
            return _number(name, value)
        return _flag(name, value) if name in _FLAGS else _integer(name, value, 0)

    def _run(self, data: list[bytes], job: _Job, threads: int, progress: Any) -> list[Any]:
        """Texts sorted by length in batches; workers take them."""
        results: list[Any] = [[]] * len(data)
        order = sorted(range(len(data)), key=lambda i: -len(data[i]))
        share = max(min(job.batch, -(-len(data) // threads)), 1)
        jobs = iter([order[i:i + share] for i in range(0, len(order), share)])
        lock, stop, broken, done = threading.Lock(), threading.Event(), [], 0

        def work() -> None:
            nonlocal done
            worker = None
            try:
                worker = self._take()
                while not stop.is_set():
                    with lock:
                        rows = next(jobs, None)
                    if rows is None:
                        break
                    self._batch(worker, data, rows, job, results, stop)
                    if progress and not stop.is_set():
                        with lock:
                            done += len(rows)
                            progress(done, len(data))
                self._give(worker)
            except BaseException as error:  # the caller's thread raises it
                stop.set()
                broken.append(error)

        threads = min(threads, -(-len(data) // share))
        if threads <= 1:
            work()
        else:
            crew = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
            try:
                for thread in crew:
                    thread.start()
                for thread in crew:
                    thread.join()
            except BaseException:  # Ctrl-C, or no thread to be had
                stop.set()
                for thread in crew:
                    if thread.ident is not None:
                        thread.join()
                raise
        if broken:
            raise broken[0]
        return results

    def _batch(self, worker: _Worker, data: list[bytes], rows: list[int], job: _Job,
               results: list[Any], stop: threading.Event) -> None:
        """Tokenizes the texts of these indices and translates them, as many together as fit."""
        ids, width, counts, faults = worker.read([data[i] for i in rows], job.form, job.pair, job.most)
        ready: list[tuple[int, Any, Any]] = []
        targets: tuple[dict[int, Any], dict[int, Any]] = ({}, {})  # the ids of prefixes and drafts
        for given, to in zip((job.prefixes, job.drafts), targets):
            if given is None:
                continue
            to_ids, to_width, n, bad = worker.read([given[i] for i in rows], job.form, job.pair, 2 ** 20, target=True)
            for k, i in enumerate(rows):
                to[i] = list(to_ids[k * to_width:k * to_width + n[k]])  # a slice does not keep its array
                if bad[k].status and not faults[k].status and given is not job.drafts:
                    results[i] = _failed(bad[k], i)
        for k, i in enumerate(rows):
            if faults[k].status:
                results[i] = _failed(faults[k], i)
            elif counts[k] and not isinstance(results[i], Error):
                ready.append((i, ids[k * width:k * width + counts[k]], *(each.get(i, ()) for each in targets),
                              job.prompts[i] if job.prompts else ()))
        while ready and not stop.is_set():
            longest, n = job.options.max_length // 2, 0  # room for so long a target
            for _, source, *_, prompt in ready:
                longest = max(longest, len(source), len(prompt))
                if n >= max(job.batch * FULL_BATCH_SOURCE // (_round(longest, 64) * job.beam), 1):
                    break
                n += 1
            self._translate(worker, data, ready[:n], job, results, stop)
            ready = ready[n:]

    def _translate(self, worker: _Worker, data: list[bytes], ready: list[Any], job: _Job, results: list[Any],
                   stop: threading.Event) -> None:
        n = len(ready)
        sources, prefixes, drafts, prompts = (
            _Batch(name, [row[at] for row in ready])
            for at, name in ((1, "text"), (2, "prefix"), (3, "draft"), (4, "prompt")))
        options = ffi.new("tfm_decode_options *", job.options[0])
        seeds = ffi.new("uint64_t[]", [(job.seed + i + 1) % 2 ** 64 for i, *_ in ready])
        options.seeds = seeds
        if job.prefixes is not None:
            options.prefix = prefixes.c
        if job.drafts is not None:
            options.draft = drafts.c
        length = max(options.max_length or 2 * sources.width + 16 + prefixes.width,
                     options.min_length + 1)
        if job.prompts is not None:
            options.prompt = prompts.c
            length += prompts.width
        editor = self._editor(job, options, [i for i, *_ in ready])
        try:
            session = worker.fit(n, sources.width, length, job.beam, job.pair, *job.session)
            _check(lib.tfm_session_start(session, sources.c, options, worker.err), worker.err)
        except Error as error:
            if n == 1:
                results[ready[0][0]] = Error(error.status, error.message, ready[0][0])
                return
            for part in (ready[:n // 2], ready[n // 2:]):  # whose fault it is, or less memory
                self._translate(worker, data, part, job, results, stop)
            return
        running = ffi.new("int32_t *", 1)
        while running[0] and not stop.is_set():
            _check(lib.th_steps(session, 1 if editor else STEPS, running, worker.err), worker.err)
            if editor:
                editor[0].check()
        if not running[0]:
            for row, found in enumerate(_results(session, n, job.ranks, job.form, worker.err)):
                i = ready[row][0]
                if job.terms or job.aligned:
                    try:
                        found = [each._replace(text=worker.finished(session, row, rank, job, data[i], each.text))
                                 for rank, each in enumerate(found)]
                    except Error as error:
                        results[i] = Error(error.status, error.message, i)
                        continue
                results[i] = found

    def _editor(self, job: _Job, options: Any, indices: list[int]) -> tuple[_Editor, Any] | None:
        """Puts edit_logits into options. The result has to live as long as they are used."""
        if job.edit is None:
            return None
        editor = _Editor(job.edit, self._config["tgt_vocab_size"], indices)
        handle = ffi.new_handle(editor)
        options.edit_logits, options.edit_user = lib.th_edit_logits, handle
        return editor, handle

    @_with_options("beam", "alternatives", "min_alternative_prob", "batch", "threads", "prefix", "prefix_bias", "draft",
                   "prompt", "sample", "seed", "temperature", "top_k", "top_p", "patience", "stop", "on_error", "greedy",
                   "progress", "terms", "aligned", "second", "via_language")
    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """Yields the greedy translation of a text in pieces while it grows. The joined pieces are the
        result of translate with greedy. Options are those of translate for one greedy translation."""
        for name in ("beam", "n_best", "alternatives", "batch", "threads", "prefix", "draft", "prompt", "sample", "on_error",
                     "greedy", "progress", "terms", "aligned", "second", "via_language"):
            if name in options:
                raise TypeError(f"{name} is no option of stream, which translates one text greedily")
        return self._stream(_text("text", text), self._job(None, None, {**options, "greedy": True}))

    def _stream(self, text: bytes, job: _Job) -> Iterator[str]:
        worker = self._take()
        ids, _, counts, faults = worker.read([text], job.form, job.pair, job.most)
        if faults[0].status:
            raise _failed(faults[0])
        if not counts[0]:
            return
        source = _Batch("text", [ids[0:counts[0]]])
        options = job.options
        editor = self._editor(job, options, [0])
        length = max(options.max_length or 2 * source.width + 16, options.min_length + 1)
        session = worker.fit(1, source.width, length, 1, job.pair, *job.session)
        _check(lib.tfm_session_start(session, source.c, options, worker.err), worker.err)
        running, shown = ffi.new("int32_t *", 1), ""
        while running[0]:
            _check(lib.th_steps(session, 1, running, worker.err), worker.err)
            if editor:
                editor[0].check()
            so_far = _results(session, 1, 1, job.form, worker.err)[0][0].text
            if running[0]:  # the last token may end inside a character
                so_far = so_far.rstrip("\ufffd")
            if so_far.startswith(shown) and so_far != shown:
                yield so_far[len(shown):]
                shown = so_far
        self._give(worker)

    # ---- scores, ids, arrays

    def score(self, source: str | Iterable[str], target: str | Iterable[str], *,
              per_token: bool = False, batch: int = 64, source_language: str | None = None,
              target_language: str | None = None, tokens: bool = False) -> Any:
        """Returns the log-probability of a given translation, or a list of them for lists. With per_token
        it returns a list for each translation: the log-probability of each token, the end token's last."""
        one, sources = _one_or_more("source", source)
        one_target, targets = _one_or_more("target", target)
        if one != one_target:
            raise TypeError("source and target are not both str, or both lists of str")
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources for {len(targets)} targets")
        results: list[Any] = [None] * len(sources)
        form, pair = _form(tokens), _pair(source_language, target_language)
        per_token, batch = _flag("per_token", per_token), _integer("batch", batch, 1)
        most = 2 ** 20
        data = sources, targets
        order = sorted(range(len(sources)), key=lambda i: -len(data[0][i]))
        worker = self._take()
        for at in range(0, len(order), batch):
            rows = order[at:at + batch]
            ids = [self._ids(worker, [side[i] for i in rows], form, pair, most, bool(k), rows)
                   for k, side in enumerate(data)]
            src, tgt = _Batch("source", ids[0]), _Batch("target", ids[1])
            session = worker.fit(src.rows, src.width, tgt.width + 1, 1, pair)
            out = ffi.new("double[]", src.rows * (tgt.width + 1))
            _check(lib.tfm_session_score(session, src.c, tgt.c, out, worker.err), worker.err)
            for k, i in enumerate(rows):
                start = k * (tgt.width + 1)
                each = list(out[start:start + len(ids[1][k]) + 1])
                results[i] = each if per_token else sum(each)
        self._give(worker)
        return results[0] if one else results

    def _ids(self, worker: _Worker, data: list[bytes], form: int, pair: Any, most: int, target: bool,
             rows: Sequence[int | None]) -> list[list[int]]:
        ids, width, counts, faults = worker.read(data, form, pair, most, target)
        for k, i in enumerate(rows):
            if faults[k].status:
                raise _failed(faults[k], i)
        return [list(ids[k * width:k * width + counts[k]]) for k in range(len(data))]

    def tokenize(self, text: str, *, target: bool = False, source_language: str | None = None,
                 target_language: str | None = None, tokens: bool = False) -> list[int]:
        """Returns the ids that translate gives the model for a text; with target, the ids of a translation
        without start and end token."""
        data, pair, form = _text("text", text), _pair(source_language, target_language), _form(tokens)
        target, worker = _flag("target", target), self._take()
        try:
            return self._ids(worker, [data], form, pair, 2 ** 20, target, [None])[0]
        finally:
            self._give(worker)

    def encode(self, source: str | Iterable[str] | Ids, *, source_language: str | None = None,
               target_language: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the encoder's output, f32 [B, S, D], and the lengths, int32 [B]. Positions after a length
        have undefined values. source is texts, or rows of ids. The array shares the library's memory."""
        import numpy as np
        rows: Any = source
        if isinstance(source, str) or len(rows := _list("source", source, "texts, or rows of ids")) and any(
                isinstance(row, str) for row in rows):
            rows = [self.tokenize(_text(f"source[{i}]", one).decode("utf-8", "surrogatepass"),
                                  source_language=source_language, target_language=target_language)
                    for i, one in enumerate([source] if isinstance(source, str) else rows)]
        elif source_language is not None or target_language is not None:
            raise ValueError("source_language and target_language need texts, not ids")
        elif isinstance(source, np.ndarray):
            rows = source  # else the list: source may be an iterator
        worker, src = self._own(), _Batch("source", rows)
        session = worker.make(src.rows, src.width, 1, 1)
        _check(lib.tfm_session_encode(session, src.c, worker.err), worker.err)
        array = np.asarray(_Owner(lib.tfm_session_encoder_output(session), (session, worker, src)))
        return array, np.frombuffer(ffi.buffer(src.lengths), np.int32)

    def forward(self, source: Ids, target: Ids, *, causal: bool = True,
                out: np.ndarray | None = None) -> np.ndarray:
        """Returns the logits of a teacher-forced pass, f32 [B, T, V]: what torch.nn.Transformer computes with
        embeddings and generator. source [B, S] and target [B, T] are rows of ids; rows may have different
        lengths. out is a writable float32 array in C order that receives the logits instead of a new one."""
        import numpy as np
        worker, src, tgt = self._own(), _Batch("source", source), _Batch("target", target)
        causal = _flag("causal", causal)
        shape = (tgt.rows, tgt.width, self._config["tgt_vocab_size"])
        if out is not None and not isinstance(out, np.ndarray):
            _wrong("out", out, "numpy.ndarray")
        try:
            out = np.empty(shape, np.float32) if out is None else out
        except (MemoryError, ValueError):  # numpy says the one or the other
            raise Error(lib.TFM_E_MEMORY, f"no memory for logits {list(shape)}") from None
        if out.shape != shape or out.dtype != np.float32:
            raise ValueError(f"out is {out.dtype} {list(out.shape)}, expected float32 {list(shape)}")
        if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
            raise ValueError("out is " + (
                "read-only" if not out.flags.writeable else "not in C order" if not out.flags.c_contiguous
                else "not aligned") + ", expected a writable array in C order")
        session = worker.make(src.rows, src.width, tgt.width, 1)
        options = ffi.new("tfm_forward_options *", {"not_causal": int(not causal)})
        memory = ffi.from_buffer("float[]", out, require_writable=True)
        logits = ffi.new("tfm_tensor *", lib.tfm_tensor_3d(memory, lib.TFM_DTYPE_F32, *shape))
        _check(lib.tfm_session_forward(session, src.c, tgt.c, options, logits, worker.err), worker.err)
        return out

    def _own(self) -> _Worker:
        """A worker that no other call gets: its memory goes out as arrays."""
        with self._lock:
            if self._model is None:
                raise ValueError("the model is closed")
            return _Worker(self._model)


def _results(session: Any, rows: int, ranks: int, form: int, err: Any) -> list[list[Hypothesis]]:
    """The hypotheses of each row."""
    out, n = ffi.new("th_hypothesis[]", rows * ranks), ffi.new("int32_t *")
    size, capacity = ffi.new("size_t *"), 256 * rows * ranks
    while True:
        text = ffi.new("char[]", capacity)
        _check(lib.th_results(session, rows, form, out, rows * ranks, n, text, capacity, size, err), err)
        if size[0] <= capacity:
            break
        capacity = size[0]
    data, begin = ffi.buffer(text)[:], 0
    found: list[list[Hypothesis]] = [[] for _ in range(rows)]
    for h in out[0:n[0]]:
        found[h.row].append(Hypothesis(data[begin:h.end].decode(), h.score, h.log_probability,
                                       h.length, _FINISH[h.finish]))
        begin = h.end
    return found


_FINISH = {value: name[len("TFM_FINISH_"):].lower() for value, name in ffi.typeof("tfm_finish").elements.items()}
