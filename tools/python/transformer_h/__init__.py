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
import os
import threading
from pathlib import Path
from typing import (TYPE_CHECKING, Any, Iterator, Literal, Mapping, NamedTuple, Sequence, TypedDict,
                    Union, overload)

from ._transformer import ffi, lib

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Unpack

__all__ = ["Error", "Hypothesis", "Model", "Status", "cpu", "export", "get_include",
           "join_sentences", "split_sentences", "__version__"]
__version__: str = ffi.string(lib.tfm_version()).decode()

Status = enum.IntEnum("Status", {  # type: ignore[misc]
    name[4:]: value for value, name in sorted(ffi.typeof("tfm_status").elements.items())
    if name != "TFM_STATUS_COUNT"})
Status.__doc__ = "Why a call failed: Status.E_TOO_LONG is TFM_E_TOO_LONG of the header."

Ids = Union[Sequence[Sequence[int]], "np.ndarray"]
STEPS = 8  # between looks at Ctrl-C
FULL_BATCH_SOURCE = 512  # tokens of a text in a whole batch


class Error(RuntimeError):
    """A call failed. status: the header's; message: what and where; index: which text of a list,
    None where it is not one text's."""

    def __init__(self, status: int, message: str, index: int | None = None) -> None:
        super().__init__(message if index is None else f"text {index}: {message}")
        self.status = Status(status)
        self.message = message
        self.index = index

    def __reduce__(self) -> Any:
        return Error, (int(self.status), self.message, self.index)


class Hypothesis(NamedTuple):
    """A translation with what the search knows of it."""

    text: str
    score: float  # what hypotheses are ordered by
    log_probability: float  # sum over the tokens, the end token counted
    length: int  # tokens
    finish: str  # "ended", "hit_length" or "stuck"


class Options(TypedDict, total=False):
    """Of Model.translate."""

    beam: int | None
    threads: int
    batch: int
    source_language: str | None
    target_language: str | None
    greedy: bool
    length_penalty: float | None
    coverage_penalty: float | None
    patience: float | None
    max_length: int | None
    min_length: int | None
    no_repeat_ngram: int | None
    repetition_penalty: float | None
    no_unknown: bool | None
    prefix: str | Sequence[str] | None
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int
    max_source: int
    tokens: bool
    on_error: Literal["raise", "return"]


def cpu() -> str:
    """Which inner loops run on this machine, for instance "AVX2 and FMA"."""
    return str(ffi.string(lib.tfm_cpu_string()).decode())


def get_include() -> str:
    """The folder that holds transformer.h of this version, for building C with it."""
    return str(Path(__file__).parent / "include")


def split_sentences(paragraph: str) -> list[str]:
    """A paragraph's sentences, by the rules of examples/sentences.h, as `translate --document`
    finds them; between them was nothing but whitespace."""
    data = paragraph.encode("utf-8", "surrogatepass")
    place, found = ffi.new("size_t[3]"), []
    while lib.th_sentence(data, len(data), place):
        found.append(data[place[1]:place[2]].decode("utf-8", "surrogatepass"))
    return found


def join_sentences(sentences: Sequence[str]) -> str:
    """Translated sentences as a paragraph: a space before each where the script has spaces."""
    text = b""
    for each in sentences:
        data = each.encode("utf-8", "surrogatepass")
        if text and data and lib.th_space_after(text, len(text)):
            text += b" "
        text += data
    return text.decode("utf-8", "surrogatepass")


def export(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Writes a live PyTorch module as a model file: see transformer_h.exporting.export."""
    from .exporting import export as run
    return run(*args, **kwargs)


def _failed(err: Any, index: int | None = None) -> Error:
    return Error(err.status, ffi.string(err.text).decode("utf-8", "replace"), index)


def _check(status: int, err: Any) -> None:
    if status:
        raise _failed(err)


def _enum_name(kind: str, value: int, prefix: str) -> str:
    return str(ffi.typeof(kind).elements[value][len(prefix):].lower())


def _config_of(c: Any) -> Mapping[str, Any]:
    names = {"norm": ("tfm_norm_order", "TFM_"), "layer_norm": ("tfm_norm_kind", "TFM_NORM_"),
             "activation": ("tfm_activation", "TFM_"),
             "positions": ("tfm_position_kind", "TFM_POSITIONS_"),
             "src_text": ("tfm_text_kind", "TFM_TEXT_"), "tgt_text": ("tfm_text_kind", "TFM_TEXT_"),
             "src_language": ("tfm_language_use", "TFM_LANGUAGE_")}
    config: dict[str, Any] = {}
    for name, _ in ffi.typeof("tfm_config").fields:
        value = getattr(c, name)
        if name in names:
            value = _enum_name(names[name][0], value, names[name][1])
        elif name == "suppressed":
            value = tuple(value[0:c.n_suppressed]) if c.n_suppressed else ()
        elif name == "languages":
            value = {ffi.string(value[i].code).decode(): value[i].id for i in range(c.n_languages)}
        elif name in ("n_suppressed", "n_languages"):
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
        self.err = ffi.new("tfm_error *")
        self.reader = self.session = None
        self.reader_source = 0
        self.limits = (0, 0, 0, 0)  # batch, source, target, beam

    def make(self, batch: int, source: int, target: int, beam: int) -> Any:
        options = ffi.new("tfm_session_options *")
        options.max_batch, options.max_source = batch, source
        options.max_target, options.max_beam = target, beam
        place = ffi.new("tfm_session **")
        _check(lib.tfm_session_create(place, self.model, options, self.err), self.err)
        # the destructor holds the model, which has to outlive its sessions
        return ffi.gc(place[0], lambda session, model=self.model: lib.tfm_session_free(session))

    def languages(self, session: Any, pair: tuple[str | None, str | None]) -> None:
        if pair != (None, None):
            codes = [ffi.NULL if code is None else ffi.new("char[]", code.encode()) for code in pair]
            _check(lib.tfm_languages_set(session, *codes, self.err), self.err)

    def read(self, texts: list[bytes], form: int, pair: Any, most: int, target: bool = False) -> Any:
        """ids [n, width], counts, faults of the texts."""
        data, n, at = b"".join(texts), len(texts), 0
        ends = ffi.new("int64_t[]", n)
        for i, text in enumerate(texts):
            at += len(text)
            ends[i] = at
        counts, faults = ffi.new("int32_t[]", n), ffi.new("tfm_error[]", n)
        width = min(_round(max(map(len, texts)) + 2, 64), most)
        while True:
            ids = ffi.new("int32_t[]", n * width)
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

    def fit(self, rows: int, source: int, target: int, beam: int, pair: Any) -> Any:
        """A session for so much. Its target's limit never decides where a sentence ends."""
        if not self.session or any(has < want for has, want in zip(
                self.limits, (rows, source, target, beam))) or self.limits[3] != beam:
            most = self.config.max_positions or 2 ** 30
            self.session = None
            self.limits = (_round(rows, 1), min(_round(source, 64), most), target, beam)
            self.limits = (*self.limits[:2], min(max(target, 2 * self.limits[1] + 16), most), beam)
            self.session = self.make(*self.limits)
        self.languages(self.session, pair)
        return self.session


class _Batch:
    """Rows of ids as the library takes them: an int32 array as it lies, others copied."""

    def __init__(self, rows: Any) -> None:
        if getattr(rows, "dtype", None) == "int32" and rows.ndim == 2 and rows.flags.c_contiguous:
            self.rows, self.width = rows.shape
            self.ids, self.lengths = ffi.from_buffer("int32_t[]", rows), ffi.NULL
            self.c = ffi.new("tfm_batch *", (self.ids, self.lengths, self.rows, self.width))
            return
        n, width = len(rows), max(max(map(len, rows), default=0), 1)
        self.ids, self.lengths = ffi.new("int32_t[]", n * width), ffi.new("int32_t[]", n)
        for i, row in enumerate(rows):
            if len(row):
                self.ids[i * width:i * width + len(row)] = [int(one) for one in row]
            self.lengths[i] = len(row)
        self.rows, self.width = n, width
        self.c = ffi.new("tfm_batch *", (self.ids, self.lengths, n, width))


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
    beam: int
    ranks: int
    form: int
    pair: tuple[str | None, str | None]
    seed: int
    most: int
    batch: int
    prefixes: list[bytes] | None


class Model:
    """A model file. Thread-safe; a context manager, whose end frees what no call still uses.

    path: a file, or its bytes. weights: "f32", "f16", "bf16" or "i8" instead of what the file has.
    map: use the file where it lies on disk, which nobody may change meanwhile (packed files).
    """

    def __init__(self, path: str | os.PathLike[str] | bytes, *,
                 weights: Literal["f32", "f16", "bf16", "i8"] | None = None,
                 map: bool = False) -> None:
        options, err = ffi.new("tfm_model_options *"), ffi.new("tfm_error *")
        if weights is not None:
            try:
                options.weights = getattr(lib, f"TFM_WEIGHTS_{weights.upper()}")
            except AttributeError:
                raise ValueError(f"weights is {weights!r}, expected f32, f16, bf16 or i8") from None
        options.map = map
        place = ffi.new("tfm_model **")
        self._data = ffi.from_buffer(path) if isinstance(path, bytes) else None
        if self._data is not None:
            status = lib.tfm_model_load(place, self._data, len(self._data), options, err)
        else:
            status = lib.tfm_model_load_file(place, os.fsencode(path), options, err)
        _check(status, err)
        self._model: Any = ffi.gc(place[0], lib.tfm_model_free)
        self._config = _config_of(lib.tfm_model_config(self._model))
        self._defaults = ffi.new("tfm_decode_options *")
        lib.tfm_decode_defaults(self._model, self._defaults)
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Frees the sessions and the weights, those in use when their calls end."""
        with self._lock:
            self._model, self._idle = None, []

    @property
    def config(self) -> Mapping[str, Any]:
        """The model's config, defaults filled in, under the names of tfm_config; ids: -1 is none."""
        return dict(self._config)

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

    # ---- translating

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a Sequence[str] too
        self, text: str, *, n_best: None = None, **options: Unpack[Options]) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: str, *, n_best: int, **options: Unpack[Options]) -> list[Hypothesis]: ...
    @overload
    def translate(self, text: Sequence[str], *, n_best: None = None, **options: Unpack[Options]
                  ) -> list[str]: ...
    @overload
    def translate(self, text: Sequence[str], *, n_best: int, **options: Unpack[Options]
                  ) -> list[list[Hypothesis]]: ...

    def translate(self, text: str | Sequence[str], *, beam: int | None = None,
                  n_best: int | None = None, threads: int = 1, batch: int = 64,
                  source_language: str | None = None, target_language: str | None = None,
                  greedy: bool = False, length_penalty: float | None = None,
                  coverage_penalty: float | None = None, patience: float | None = None,
                  max_length: int | None = None, min_length: int | None = None,
                  no_repeat_ngram: int | None = None, repetition_penalty: float | None = None,
                  no_unknown: bool | None = None,
                  prefix: str | Sequence[str] | None = None, sample: bool = False,
                  temperature: float = 0, top_k: int = 0, top_p: float = 0, seed: int = 0,
                  max_source: int = 4096, tokens: bool = False,
                  on_error: Literal["raise", "return"] = "raise") -> Any:
        """Translates a text, or each of a list, in its order; blank texts give empty ones.

        n_best: that many hypotheses of each text, as lists of Hypothesis, instead of strings; at
        most beam, or with sample as many independent samples. threads: a worker each; the results
        are the same for any number. prefix: what each translation begins with. Text i of a list is
        sampled with seed + i + 1, as line i + 1 of the command line. tokens: texts are tokens
        between spaces. The rest is as in tfm_decode_options of the header; what is None is as the
        model file says (tfm_decode_defaults), or with greedy the header's default.

        Raises Error for the first text at fault (index says which); with on_error="return" the
        Error stands in the list in the place of that translation.
        """
        one = isinstance(text, str)
        texts = [text] if isinstance(text, str) else list(text)
        prefixes = None
        if prefix is not None:
            prefixes = [prefix] if isinstance(prefix, str) else list(prefix)
            if len(prefixes) != len(texts):
                raise ValueError(f"{len(prefixes)} prefixes for {len(texts)} texts")
        if min(threads, batch, max_source) < 1 or on_error not in ("raise", "return"):
            raise ValueError("threads, batch and max_source begin at 1; on_error is raise or return")
        ranks = 1 if n_best is None else n_best
        options = ffi.new("tfm_decode_options *")
        if not greedy:
            options[0] = self._defaults[0]
        if sample:
            options.beam, options.length_penalty, options.patience, options.stop = 0, 0, 0, 0
        for name, value in (
                ("beam", beam), ("length_penalty", length_penalty), ("coverage_penalty", coverage_penalty),
                ("patience", patience), ("max_length", max_length), ("min_length", min_length),
                ("no_repeat_ngram", no_repeat_ngram), ("repetition_penalty", repetition_penalty),
                ("no_unknown", no_unknown), ("temperature", temperature), ("top_k", top_k),
                ("top_p", top_p), ("samples" if sample else "n_best", ranks)):
            if value is not None:
                setattr(options, name, value)
        if beam is None and not sample:
            options.beam = max(options.beam, ranks)
        job = _Job(options, max(ranks if sample else options.beam, 1), ranks,
                   lib.TFM_FORM_ESCAPED if tokens else lib.TFM_FORM_TEXT,
                   (source_language, target_language), seed,
                   min(max_source, self._config["max_positions"] or max_source), batch,
                   None if prefixes is None else [each.encode() for each in prefixes])
        results = self._run(_encoded(texts), job, threads)
        if on_error == "raise":
            fault = next((each for each in results if isinstance(each, Error)), None)
            if fault:
                raise Error(fault.status, fault.message) if one else fault
        if n_best is None:
            results = [each if isinstance(each, Error) else each[0].text if each else ""
                       for each in results]
        return results[0] if one else results

    def _run(self, data: list[bytes], job: _Job, threads: int) -> list[Any]:
        """Texts sorted by length in batches; workers take them."""
        results: list[Any] = [[]] * len(data)
        order = sorted(range(len(data)), key=lambda i: -len(data[i]))
        share = max(min(job.batch, -(-len(data) // threads)), 1)
        jobs = iter([order[i:i + share] for i in range(0, len(order), share)])
        lock, stop, broken = threading.Lock(), threading.Event(), []

        def work() -> None:
            worker = None
            try:
                worker = self._take()
                while not stop.is_set():
                    with lock:
                        rows = next(jobs, None)
                    if rows is None:
                        break
                    self._batch(worker, data, rows, job, results, stop)
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
        forced: dict[int, Any] = {}
        if job.prefixes is not None:
            forced_ids, forced_width, n, bad = worker.read(
                [job.prefixes[i] for i in rows], job.form, job.pair, 2 ** 20, target=True)
            for k, i in enumerate(rows):
                forced[i] = forced_ids[k * forced_width:k * forced_width + n[k]]
                if bad[k].status and not faults[k].status:
                    results[i] = _failed(bad[k], i)
        for k, i in enumerate(rows):
            if faults[k].status:
                results[i] = _failed(faults[k], i)
            elif counts[k] and not isinstance(results[i], Error):
                ready.append((i, ids[k * width:k * width + counts[k]], forced.get(i, ())))
        while ready and not stop.is_set():
            longest, n = job.options.max_length // 2, 0  # room for so long a target
            for _, source, _ in ready:
                longest = max(longest, len(source))
                if n >= max(job.batch * FULL_BATCH_SOURCE // (_round(longest, 64) * job.beam), 1):
                    break
                n += 1
            self._translate(worker, ready[:n], job, results, stop)
            ready = ready[n:]

    def _translate(self, worker: _Worker, ready: list[Any], job: _Job, results: list[Any],
                   stop: threading.Event) -> None:
        n = len(ready)
        sources, prefixes = _Batch([row for _, row, _ in ready]), _Batch([row for _, _, row in ready])
        options = ffi.new("tfm_decode_options *", job.options[0])
        seeds = ffi.new("uint64_t[]", [(job.seed + i + 1) % 2 ** 64 for i, _, _ in ready])
        options.seeds = seeds
        if job.prefixes is not None:
            options.prefix = prefixes.c
        length = max(options.max_length or 2 * sources.width + 16 + prefixes.width,
                     options.min_length + 1)
        try:
            session = worker.fit(n, sources.width, length, job.beam, job.pair)
            _check(lib.tfm_start(session, sources.c, options, worker.err), worker.err)
        except Error as error:
            if n == 1:
                results[ready[0][0]] = Error(error.status, error.message, ready[0][0])
                return
            for part in (ready[:n // 2], ready[n // 2:]):  # whose fault it is, or less memory
                self._translate(worker, part, job, results, stop)
            return
        running = ffi.new("int32_t *", 1)
        while running[0] and not stop.is_set():
            _check(lib.th_steps(session, STEPS, running, worker.err), worker.err)
        if not running[0]:
            for row, found in enumerate(_results(session, n, job.ranks, job.form, worker.err)):
                results[ready[row][0]] = found

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """The translation in pieces while it grows, as translate with greedy gives it; joined they
        are it. Options are those of translate, without beam, n_best, batch and threads."""
        if {"beam", "n_best", "batch", "threads", "prefix", "sample", "on_error", "greedy"} & options.keys():
            raise TypeError("stream is greedy and of one text")
        form = lib.TFM_FORM_ESCAPED if options.pop("tokens", False) else lib.TFM_FORM_TEXT
        pair = options.pop("source_language", None), options.pop("target_language", None)
        most = options.pop("max_source", 4096)
        worker = self._take()
        ids, _, counts, faults = worker.read([text.encode()], form, pair,
                                             min(most, self._config["max_positions"] or most))
        if faults[0].status:
            raise _failed(faults[0])
        if not counts[0]:
            return
        source = _Batch([ids[0:counts[0]]])
        session = worker.fit(1, source.width, options.get("max_length") or 2 * source.width + 16, 1,
                             pair)
        c = ffi.new("tfm_decode_options *", options)
        _check(lib.tfm_start(session, source.c, c, worker.err), worker.err)
        running, shown = ffi.new("int32_t *", 1), ""
        while running[0]:
            _check(lib.th_steps(session, 1, running, worker.err), worker.err)
            so_far = _results(session, 1, 1, form, worker.err)[0][0].text
            if running[0]:  # the last token may end inside a character
                so_far = so_far.rstrip("\ufffd")
            if so_far.startswith(shown) and so_far != shown:
                yield so_far[len(shown):]
                shown = so_far
        self._give(worker)

    # ---- scores, ids, arrays

    def score(self, source: str | Sequence[str], target: str | Sequence[str], *,
              per_token: bool = False, batch: int = 64, source_language: str | None = None,
              target_language: str | None = None, tokens: bool = False) -> Any:
        """Log-probability of given translations: a float for strings, a list for lists. per_token:
        lists of each token's instead, the end token's last."""
        one = isinstance(source, str)
        sources = [source] if isinstance(source, str) else list(source)
        targets = [target] if isinstance(target, str) else list(target)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources for {len(targets)} targets")
        results: list[Any] = [None] * len(sources)
        form = lib.TFM_FORM_ESCAPED if tokens else lib.TFM_FORM_TEXT
        pair = source_language, target_language
        most = self._config["max_positions"] or 2 ** 20
        data = [_encoded(sources), _encoded(targets)]
        order = sorted(range(len(sources)), key=lambda i: -len(data[0][i]))
        worker = self._take()
        for at in range(0, len(order), batch):
            rows = order[at:at + batch]
            ids = [self._ids(worker, [side[i] for i in rows], form, pair, most, bool(k), rows)
                   for k, side in enumerate(data)]
            src, tgt = _Batch(ids[0]), _Batch(ids[1])
            session = worker.fit(src.rows, src.width, tgt.width + 1, 1, pair)
            out = ffi.new("double[]", src.rows * (tgt.width + 1))
            _check(lib.tfm_score(session, src.c, tgt.c, out, worker.err), worker.err)
            for k, i in enumerate(rows):
                start = k * (tgt.width + 1)
                each = list(out[start:start + len(ids[1][k]) + 1])
                results[i] = each if per_token else sum(each)
        self._give(worker)
        return results[0] if one else results

    def _ids(self, worker: _Worker, data: list[bytes], form: int, pair: Any, most: int, target: bool,
             rows: Sequence[int]) -> list[list[int]]:
        ids, width, counts, faults = worker.read(data, form, pair, most, target)
        for k, i in enumerate(rows):
            if faults[k].status:
                raise _failed(faults[k], i)
        return [list(ids[k * width:k * width + counts[k]]) for k in range(len(data))]

    def tokenize(self, text: str, *, target: bool = False, source_language: str | None = None,
                 target_language: str | None = None, tokens: bool = False) -> list[int]:
        """The ids that translate gives the model for a text; target: those of a translation,
        without start and end."""
        worker = self._take()
        form = lib.TFM_FORM_ESCAPED if tokens else lib.TFM_FORM_TEXT
        try:
            return self._ids(worker, [text.encode()], form, (source_language, target_language),
                             2 ** 20, target, [0])[0]
        finally:
            self._give(worker)

    def encode(self, source: str | Sequence[str] | Ids, *, source_language: str | None = None,
               target_language: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The encoder's output, f32 [B, S, D], and lengths, int32 [B]: positions past a length hold
        numbers without meaning. source: texts, or rows of ids. The array is the library's memory,
        not a copy."""
        import numpy as np
        rows: Any = [source] if isinstance(source, str) else source
        if len(rows) and isinstance(rows[0], str):
            rows = [self.tokenize(one, source_language=source_language,
                                  target_language=target_language) for one in rows]
        worker, src = self._own(), _Batch(rows)
        session = worker.make(src.rows, src.width, 1, 1)
        _check(lib.tfm_encode(session, src.c, worker.err), worker.err)
        array = np.asarray(_Owner(lib.tfm_encoder_output(session), (session, worker, src)))
        if not src.lengths:
            return array, np.full(src.rows, src.width, np.int32)
        return array, np.frombuffer(ffi.buffer(src.lengths), np.int32)

    def forward(self, source: Ids, target: Ids, *, causal: bool = True,
                out: np.ndarray | None = None) -> np.ndarray:
        """The teacher-forced pass, logits f32 [B, T, V]: what torch.nn.Transformer computes, with
        embeddings before it and the generator behind. source [B, S] and target [B, T]: ids, rows of
        any length, padded with anything behind it. out: written there (C order) instead of into a
        new array."""
        import numpy as np
        worker, src, tgt = self._own(), _Batch(source), _Batch(target)
        shape = (tgt.rows, tgt.width, self._config["tgt_vocab_size"])
        if out is None:
            out = np.empty(shape, np.float32)
        if out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise ValueError(f"out is not float32 {list(shape)} in C order")
        session = worker.make(src.rows, src.width, tgt.width, 1)
        options = ffi.new("tfm_forward_options *", {"not_causal": int(not causal)})
        logits = ffi.new("tfm_tensor *")
        logits.data, logits.dtype, logits.rank = ffi.from_buffer("float[]", out), lib.TFM_F32, 3
        for i, (length, stride) in enumerate(zip(shape, out.strides)):
            logits.dims[i], logits.strides[i] = length, stride // 4
        _check(lib.tfm_forward(session, src.c, tgt.c, options, logits, worker.err), worker.err)
        return out

    def _own(self) -> _Worker:
        """A worker that no other call gets: its memory goes out as arrays."""
        with self._lock:
            if self._model is None:
                raise ValueError("the model is closed")
            return _Worker(self._model)


def _encoded(texts: Sequence[str]) -> list[bytes]:
    """UTF-8. A lone surrogate becomes bytes that the library refuses, and names."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


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


_FINISH = {value: name[4:].lower() for value, name in ffi.typeof("tfm_finish").elements.items()}
