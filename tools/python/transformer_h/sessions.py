"""What a thread needs to call the library: sessions, and arrays of ids."""

from __future__ import annotations

import sys
import threading
from typing import Any, Sequence

from ._transformer import ffi, lib
from .arguments import check_integer, check_list, shown
from .errors import Error, error_of, new_array, raise_error
from .markup import Aligned, decoded
from .options import DecodeJob


def rounded_up(length: int, least: int) -> int:
    """Returns the length rounded up to a power of two, so that a session serves many batches."""
    while least < length:
        least *= 2
    return least


class Worker:
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

    @staticmethod
    def plan(batch: int, source: int, target: int, beam: int, attention: int = 0, shortlist: int = 0, draft: int = 0) -> Any:
        options = ffi.new("tfm_session_options *")
        for name, value in (("max_batch", batch), ("max_source", source), ("max_target", target),
                            ("max_beam", beam), ("attention", attention), ("max_shortlist", shortlist),
                            ("max_draft", draft)):
            if value > 2 ** 31 - 1:
                raise Error(lib.TFM_E_TOO_LONG, f"a session cannot have a {name} of {shown(value)}")
            setattr(options, name, value)
        return options

    def make(self, *limits: int) -> Any:
        options = self.plan(*limits)
        place = ffi.new("tfm_session **")
        raise_error(lib.tfm_session_create(place, self.model, options, self.err), self.err)
        # the destructor holds the model, which has to outlive its sessions
        return ffi.gc(place[0], lambda session, model=self.model: lib.tfm_session_free(session))

    def languages(self, session: Any, pair: tuple[bytes | None, bytes | None]) -> None:
        if pair != (None, None):
            codes = [ffi.NULL if code is None else ffi.new("char[]", code) for code in pair]
            raise_error(lib.tfm_languages_set(session, *codes, self.err), self.err)

    def reader_of(self, width: int, pair: Any) -> Any:
        """Returns a session that tokenizes sources of so many tokens."""
        if width > self.reader_source or not self.reader:
            self.reader, self.reader_source = self.make(1, width, 1, 1), width
            self.reader_pair = None
        if pair != self.reader_pair:
            self.languages(self.reader, pair)
            self.reader_pair = pair
        return self.reader

    def read(self, texts: list[bytes], form: int, pair: Any, most: int, target: bool = False, flags: Any = ffi.NULL) -> Any:
        """Returns ids [n, width], counts, faults of the texts. flags get what unknown_tokens of _native.h says of each source."""
        data, n, at = b"".join(texts), len(texts), 0
        most = min(most, self.most_target if target else self.most_source)
        ends = new_array("int64_t[]", n)
        for i, text in enumerate(texts):
            at += len(text)
            ends[i] = at
        counts, faults = new_array("int32_t[]", n), new_array("tfm_error[]", n)
        width = min(rounded_up(max(map(len, texts)) + 2, 64), most)
        while True:
            ids = new_array("int32_t[]", n * width)
            if target:
                lib.th_targets(self.model, data, ends, n, form, ids, width, counts, faults)
            else:
                lib.th_sources(self.reader_of(width, pair), data, ends, n, form, ids, width, counts, faults, self.config.src_unk, flags)
            if width >= most or not any(faults[i].status == lib.TFM_E_TOO_LONG for i in range(n)):
                return ids, width, counts, faults
            width = min(8 * width, most)

    def ids(self, data: list[bytes], form: int, pair: Any, most: int, target: bool,
            rows: Sequence[int | None]) -> list[list[int]]:
        """Returns the ids of texts. rows are their numbers, for the message about one that fails."""
        ids, width, counts, faults = self.read(data, form, pair, most, target)
        for k, i in enumerate(rows):
            if faults[k].status:
                raise error_of(faults[k], i)
        return [list(ids[k * width:k * width + counts[k]]) for k in range(len(data))]

    def lengths(self, source: int, target: int) -> tuple[int, int]:
        """Returns the lengths of a session for so much, so that it serves many batches. Its target's limit never decides where a
        sentence ends."""
        width = min(lib.th_batch_round(source), self.most_source)
        return width, min(max(target, 2 * width + 16), self.most_target)

    def most_rows(self, rows: int, source: int, target: int, *exact: int) -> int:
        """Returns how many texts a batch has: at most `rows`, fewer if its session would take too much memory."""
        return int(lib.th_batch_rows(self.model, self.plan(1, *self.lengths(source, target), *exact), min(rows, 2 ** 31 - 1)))

    def fit(self, rows: int, source: int, target: int, beam: int, pair: Any, attention: int = 0,
            shortlist: int = 0, draft: int = 0) -> Any:
        """Returns a session for so much."""
        exact = beam, attention, shortlist, draft
        if not self.session or self.limits[3:] != exact or any(
                has < want for has, want in zip(self.limits, (rows, source, target))):
            self.session = None
            lengths = self.lengths(source, target)
            most = rows if rows == 1 else lib.th_batch_rows(self.model, self.plan(1, *lengths, *exact), rounded_up(rows, 1))
            self.limits = (max(rows, most), *lengths, *exact)
            self.session = self.make(*self.limits)
        self.languages(self.session, pair)
        return self.session

    def finished(self, session: Any, row: int, rank: int, job: DecodeJob, aligned: bool, source: bytes, text: str) -> str:
        """Returns the text of a hypothesis with the terms that its source has; Aligned, if it is asked for."""
        target, (out, tokens), sizes = text.encode(), (ffi.new("char **") for _ in range(2)), ffi.new("size_t[2]")
        raise_error(lib.th_aligned(job.terms._list if job.terms else ffi.NULL, aligned, self.reader, self.reader_source,
                                   self.model, session, row, rank, source, len(source), target, len(target), out, sizes,
                                   tokens, sizes + 1, self.err), self.err)
        if not out[0]:
            return text
        made, origins = ffi.gc(out[0], lib.th_free), ffi.gc(tokens[0], lib.th_free)
        text = decoded(made, sizes[0])
        return Aligned(text, ffi.buffer(origins, sizes[1])[:] if sizes[1] else b"") if aligned else text


class IdBatch:
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
                    check_integer(f"{name}[{i}][{k}]", rows[i, k])
            self.ids, self.lengths = new_array("int32_t[]", rows.size), new_array("int32_t[]", self.rows)
            numpy.frombuffer(ffi.buffer(self.ids), numpy.int32)[:] = rows.ravel() if rows.size else []
            self.lengths[0:self.rows] = [self.width] * self.rows
        else:
            rows = [check_list(f"{name}[{i}]", row, "a row of ids")
                    for i, row in enumerate(check_list(name, rows, "rows of ids"))]
            self.rows, self.width = self.shaped(name, len(rows), max(max(map(len, rows), default=0), 1))
            self.ids = new_array("int32_t[]", self.rows * self.width)
            self.lengths = new_array("int32_t[]", self.rows)
            for i, row in enumerate(rows):
                self.ids[i * self.width:i * self.width + len(row)] = [
                    one if type(one) is int and -2 ** 31 <= one < 2 ** 31
                    else check_integer(f"{name}[{i}][{k}]", one) for k, one in enumerate(row)]
                self.lengths[i] = len(row)

    @property
    def lists(self) -> Any:
        """The rows as tfm_ids, which need this batch."""
        lists = ffi.new("tfm_ids[]", self.rows)
        for i in range(self.rows):
            lists[i].data, lists[i].n = self.ids + i * self.width, self.lengths[i]
        return lists

    @staticmethod
    def shaped(name: str, rows: int, width: int) -> tuple[int, int]:
        if rows * width > 2 ** 31 - 1:
            raise ValueError(f"{name} has {rows} rows of {width} ids: that is too many")
        return rows, width


def requests_of(sources: IdBatch, prefixes: IdBatch | None = None, drafts: IdBatch | None = None,
                prompts: IdBatch | None = None, seeds: Sequence[int] = ()) -> Any:
    """Returns a request for each row, which needs the batches until the last step."""
    requests = ffi.new("tfm_request[]", sources.rows)
    for name, batch in (("ids", sources), ("prefix", prefixes), ("draft", drafts), ("prompt", prompts)):
        for i, ids in enumerate(batch.lists if batch else ()):
            setattr(requests[i], name, ids)
    for i, seed in enumerate(seeds):
        requests[i].seed = seed
    return requests


class SharedTensor:
    """Memory of the library as numpy sees it, with who owns it."""

    def __init__(self, tensor: Any, owner: Any) -> None:
        self.owner = owner
        rank = tensor.rank
        self.__array_interface__ = {
            "version": 3, "typestr": "<f4", "data": (int(ffi.cast("uintptr_t", tensor.data)), False),
            "shape": tuple(tensor.dims[0:rank]),
            "strides": tuple(4 * one for one in tensor.strides[0:rank])}


class SessionPool:
    """The loaded model of a Model, with the workers and the listeners (whisper sessions) that no call uses now. Threads share it."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model  # None when it is closed
        self._workers: list[Worker] = []
        self._listeners: list[tuple[Any, Any]] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self.model, self._workers, self._listeners = None, [], []

    def _open(self) -> Any:
        if self.model is None:
            raise ValueError("the model is closed")
        return self.model

    def check_open(self) -> None:
        with self._lock:
            self._open()

    def take(self) -> Worker:
        with self._lock:
            model = self._open()
            return self._workers.pop() if self._workers else Worker(model)

    def give(self, worker: Worker) -> None:
        with self._lock:
            if self.model is not None:
                self._workers.append(worker)

    def own(self) -> Worker:
        """Returns a worker that no other call gets: its memory goes out as arrays."""
        with self._lock:
            return Worker(self._open())

    def take_listener(self, key: tuple[int, int, bool]) -> tuple[Any, Any]:
        """Returns the model, and an idle listener for so many threads and hypotheses, or None."""
        with self._lock:
            model = self._open()
            for i, (other, listener) in enumerate(self._listeners):
                if other == key:
                    del self._listeners[i]
                    return model, listener
            return model, None

    def give_listener(self, key: tuple[int, int, bool], listener: Any) -> None:
        with self._lock:
            if self.model is not None:
                self._listeners.append((key, listener))
