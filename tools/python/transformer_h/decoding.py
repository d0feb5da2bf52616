"""Translates texts in batches, by several threads."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

from ._transformer import ffi, lib
from .errors import Error, error_of, new_array, raise_error
from .extras import import_numpy
from .markup import Aligned
from .options import DecodeJob
from .results import Hypothesis, Results, hypotheses, results as results_of
from .sessions import IdBatch, SessionPool, Worker, requests_of
from .surroundings import LEFT, STAYS, UNKNOWN, Apart, Layer

if TYPE_CHECKING:
    import numpy as np

STEPS = 8  # between looks at Ctrl-C
lib.th_languages_begin()


class LogitsEditor:
    """Lets a function of Python edit logits. After an exception it is not called any more. Who makes the steps calls
    check, which raises the exception. indices are the numbers of the texts in the rows."""

    def __init__(self, function: Callable[[int, list[int], np.ndarray], None], vocabulary: int,
                 indices: Sequence[int]) -> None:
        np = import_numpy("edit_logits")
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


def translate_sentences(sessions: SessionPool, texts: list[bytes], job: DecodeJob, threads: int, progress: Any, layer: Layer) -> list[Any]:
    """Translates texts, each as one sentence. The model gets the sentence without what stands around it. A text that stays is its own translation.
    If translations are asked for that are Aligned, its translation is an empty Aligned, and Document.join copies it."""
    worker = sessions.take()
    apart = Apart(texts, lib.TH_ONE, worker.reader_of(64, job.pair), language=layer.language)
    sessions.give(worker)
    sources, is_asked = apart.sources, job.aligns
    if any(apart.kinds):
        each = iter(sources)
        sources = [next(each) if n else b"" for n in apart.counts]
        if any(kind & lib.TH_ALIGNED for kind in apart.kinds):
            job = job._replace(aligned=bytes(bool(is_asked(i) or kind & lib.TH_ALIGNED) for i, kind in enumerate(apart.kinds)))
    job = job._replace(notes=bytearray(len(texts)), looks=layer.looks)
    found = translate_texts(sessions, sources, job, threads, progress)
    for i, kind in enumerate(apart.kinds):
        kind &= lib.TH_KINDS
        if found[i] is STAYS or (kind == lib.TH_CHANGED and not apart.counts[i]):
            copy = Aligned("", b"") if layer.is_document else texts[i].decode("utf-8", "surrogatepass")
            found[i] = [Hypothesis(copy, 0.0, 0.0, 0, "ended")] if job.many else copy
        elif kind == lib.TH_CHANGED and job.many:
            found[i] = [each._replace(text=_put_back(apart, i, each.text, is_asked(i))) for each in found[i]]
        elif kind == lib.TH_CHANGED and not isinstance(found[i], Error):
            found[i] = _put_back(apart, i, found[i], is_asked(i))
    for i, note in enumerate(job.notes or ()):
        layer.notes[i] |= note
    return found


def _put_back(apart: Apart, i: int, text: str, is_aligned: bool) -> str:
    """Returns a translation with what was taken out of its sentence."""
    tokens = bytearray(text.tokens) if isinstance(text, Aligned) else None
    made = apart.joined(i, [text.encode("utf-8", "surrogatepass")], tokens)
    return Aligned(made, bytes(tokens or b"")) if is_aligned else made


def translate_texts(sessions: SessionPool, data: list[bytes], job: DecodeJob, threads: int, progress: Any) -> list[Any]:
    """Sorts the texts by length, and translates them in batches, which the workers of the threads take."""
    nothing: Any = [] if job.many else ""  # also of a text without tokens
    results: list[Any] = [nothing] * len(data)
    share = max(min(job.batch, -(-len(data) // threads)), 1)
    parts: list[list[int]] = []
    for aligned in (True, False):  # of a batch, all are aligned or none is
        order = sorted((i for i in range(len(data)) if job.aligns(i) == aligned), key=lambda i: -len(data[i]))
        parts += [order[i:i + share] for i in range(0, len(order), share)]
    jobs = iter(parts)
    lock, stop, broken, done = threading.Lock(), threading.Event(), [], 0
    left = Counter(map(job.number, range(len(data))))  # sentences of each text that are not translated yet
    total = len(left)

    def work() -> None:
        nonlocal done
        worker = None
        try:
            worker = sessions.take()
            while not stop.is_set():
                with lock:
                    rows = next(jobs, None)
                if rows is None:
                    break
                _translate_batch(worker, data, rows, job, results, stop)
                if progress and not stop.is_set():
                    with lock:
                        left.subtract(map(job.number, rows))
                        ended = [i for i in {*map(job.number, rows)} if not left[i]]
                        done += len(ended)
                        progress(done, total)
            sessions.give(worker)
        except BaseException as error:  # the caller's thread raises it
            stop.set()
            broken.append(error)

    threads = min(threads, len(parts))
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
    if not any(results) and not stop.is_set():
        _check_options(sessions, job)
    return results


def _check_options(sessions: SessionPool, job: DecodeJob) -> None:
    """Raises what the library says of the options of a call that had nothing to translate, by a source of one token."""
    worker, options = sessions.take(), job.options
    source = IdBatch("text", [[int(worker.config.src_pad == 0)]])
    session = worker.fit(1, 1, options.max_length or 64, job.beam, (None, None), *job.session)
    status = lib.tfm_session_start(session, requests_of(source), 1, options, worker.err)
    if status in (lib.TFM_E_ARGUMENT, lib.TFM_E_CONFIG):
        raise error_of(worker.err)
    sessions.give(worker)


def _translate_batch(worker: Worker, data: list[bytes], rows: list[int], job: DecodeJob,
                     results: list[Any], stop: threading.Event) -> None:
    """Tokenizes the texts of these indices and translates them, as many together as fit."""
    flags = ffi.NULL if job.notes is None else new_array("unsigned char[]", len(rows))
    ids, width, counts, faults = worker.read([data[i] for i in rows], job.form, job.pair, job.most, flags=flags)
    ready: list[tuple[int, Any, Any]] = []
    targets: tuple[dict[int, Any], dict[int, Any]] = ({}, {})  # the ids of prefixes and drafts
    for given, to in zip((job.prefixes, job.drafts), targets):
        if given is None:
            continue
        to_ids, to_width, n, bad = worker.read([given[i] for i in rows], job.form, job.pair, 2 ** 20, target=True)
        for k, i in enumerate(rows):
            to[i] = list(to_ids[k * to_width:k * to_width + n[k]])  # a slice does not keep its array
            if bad[k].status and not faults[k].status and given is not job.drafts:
                results[i] = error_of(bad[k], i)
    for k, i in enumerate(rows):
        if faults[k].status:
            results[i] = error_of(faults[k], i)
        elif job.notes is not None and flags[k] and _is_left(i, flags[k], job.notes):
            results[i] = STAYS
        elif counts[k] and not isinstance(results[i], Error):
            ready.append((i, ids[k * width:k * width + counts[k]], *(each.get(i, ()) for each in targets),
                          job.prompts[i] if job.prompts else ()))
    while ready and not stop.is_set():
        n, most, widths = 0, 1, (0, 0, 0)  # texts of the batch; how many it may have; longest source, prefix and prompt
        exact = _exact(job, ready[0][0])
        for _, source, prefix, _, prompt in ready:
            wider = tuple(map(max, widths, map(len, (source, prefix, prompt))))
            if not n or wider != widths:
                widths, most = wider, worker.most_rows(job.batch, wider[0], _longest(job, *wider), *exact)
            if n and n >= most:
                break
            n += 1
        n = -(-len(ready) // -(-len(ready) // n))  # batches of the same size
        _translate_ready(worker, data, ready[:n], job, results, stop)
        ready = ready[n:]


def _is_left(index: int, flags: int, notes: bytearray) -> bool:
    """Notes that a source has unknown tokens. Returns whether they are most of it, so that it stays."""
    notes[index] |= LEFT if flags & 2 else UNKNOWN
    return bool(flags & 2)


def _exact(job: DecodeJob, index: int) -> tuple[int, ...]:
    """Returns the beam, and what else the session for a text has."""
    attention, *more = job.session
    return job.beam, int(attention or job.aligns(index)), *more


def _longest(job: DecodeJob, source: int, prefix: int, prompt: int) -> int:
    """Returns how many tokens the target of a source may have."""
    return max(job.options.max_length or 2 * source + 16 + prefix, job.options.min_length + 1) + prompt


def _translate_ready(worker: Worker, data: list[bytes], ready: list[Any], job: DecodeJob, results: list[Any],
                     stop: threading.Event) -> None:
    """Translates texts that are tokenized as one batch, or as two if that fails."""
    n = len(ready)
    sources, prefixes, drafts, prompts = (
        IdBatch(name, [row[at] for row in ready])
        for at, name in ((1, "text"), (2, "prefix"), (3, "draft"), (4, "prompt")))
    options = ffi.new("tfm_decode_options *", job.options[0])
    requests = requests_of(sources, prefixes if job.prefixes is not None else None,
                           drafts if job.drafts is not None else None,
                           prompts if job.prompts is not None else None,
                           [(job.seed + job.number(i) + 1) % 2 ** 64 for i, *_ in ready])
    length = _longest(job, sources.width, prefixes.width, 0 if job.prompts is None else prompts.width)
    editor = _editor(job, options, [job.number(i) for i, *_ in ready])
    aligned = job.aligns(ready[0][0])
    try:
        beam, *more = _exact(job, ready[0][0])
        session = worker.fit(n, sources.width, length, beam, job.pair, *more)
        raise_error(lib.tfm_session_start(session, requests, n, options, worker.err), worker.err)
    except Error as error:
        if n == 1:
            results[ready[0][0]] = Error(error.status, error.message, ready[0][0])
            return
        for part in (ready[:n // 2], ready[n // 2:]):  # finds the sentence that fails, and needs less memory
            _translate_ready(worker, data, part, job, results, stop)
        return
    running = ffi.new("int32_t *", 1)
    while running[0] and not stop.is_set():
        raise_error(lib.th_steps(session, 1 if editor else STEPS, running, worker.err), worker.err)
        if editor:
            editor[0].check()
    if not running[0]:
        made = results_of(session, n, job.ranks, job.form, worker.err)
        for row, found in enumerate(hypotheses(made, n)):
            i = ready[row][0]
            if job.terms or aligned:
                try:
                    found = [each._replace(text=worker.finished(session, row, rank, job, aligned, data[i], each.text))
                             for rank, each in enumerate(found)]
                except Error as error:
                    results[i] = Error(error.status, error.message, i)
                    continue
            results[i] = found if job.many else found[0].text if found else ""
        if job.looks and job.notes is not None:
            _look_again(worker, session, requests, [row[0] for row in ready], data, made, job, results)


def _look_again(worker: Worker, session: Any, requests: Any, rows: list[int], data: list[bytes], made: Results, job: DecodeJob,
                results: list[Any]) -> None:
    """Lets sources stay that are already in the language of the translation. The results of the session are lost."""
    n, at = len(rows), 0
    ends = new_array("int64_t[]", n)
    for k, i in enumerate(rows):
        at += len(data[i])
        ends[k] = at
    sources, suspects = b"".join(data[i] for i in rows), ffi.new("languages_look[]", n)
    language = lib.tfm_model_config(worker.model).source_language
    if not lib.th_suspects(sources, ends, n, made.hypotheses, made.n, made.texts, job.options.length_penalty, language, suspects):
        return
    stays = ffi.new("unsigned char[]", n)
    lib.th_look_again(session, worker.model, sources, ends, n, requests, job.form, job.options.max_length, suspects, stays)
    for k, i in enumerate(rows):
        if stays[k] and not isinstance(results[i], Error):
            results[i] = STAYS
            if job.notes is not None:
                job.notes[i] |= LEFT


def _editor(job: DecodeJob, options: Any, indices: list[int]) -> tuple[LogitsEditor, Any] | None:
    """Puts edit_logits into options. The result has to live as long as they are used."""
    if job.edit is None:
        return None
    editor = LogitsEditor(job.edit, job.vocabulary, indices)
    handle = ffi.new_handle(editor)
    options.edit_logits, options.edit_user = lib.th_edit_logits, handle
    return editor, handle


def decode_memories(sessions: SessionPool, memories: list[np.ndarray], job: DecodeJob) -> list[list[Hypothesis]]:
    """Decodes over memories, float32 [S, d_memory] in C order, in batches."""
    found: list[list[Hypothesis]] = []
    worker, options = sessions.take(), job.options
    for at in range(0, len(memories), job.batch):
        rows = memories[at:at + job.batch]
        requests, tensors = ffi.new("tfm_request[]", len(rows)), ffi.new("tfm_tensor[]", len(rows))
        data = [ffi.from_buffer("float[]", one) for one in rows]
        prompts = IdBatch("prompt", job.prompts[at:at + job.batch]) if job.prompts is not None else None
        lists = prompts.lists if prompts else None
        for i, one in enumerate(rows):
            tensors[i] = lib.tfm_tensor_2d(data[i], lib.TFM_DTYPE_F32, *one.shape)
            requests[i].memory = tensors + i
            requests[i].seed = (job.seed + at + i + 1) % 2 ** 64
            if lists:
                requests[i].prompt = lists[i]
        width = max(1, *(len(one) for one in rows))
        length = max(options.max_length or 2 * width + 16, options.min_length + 1) + (prompts.width if prompts else 0)
        session = worker.fit(len(rows), width, length, job.beam, job.pair, *job.session)
        raise_error(lib.tfm_session_start(session, requests, len(rows), options, worker.err), worker.err)
        running = ffi.new("int32_t *", 1)
        while running[0]:
            raise_error(lib.th_steps(session, STEPS, running, worker.err), worker.err)
        found += hypotheses(results_of(session, len(rows), job.ranks, job.form, worker.err), len(rows))
    sessions.give(worker)
    return found


def stream_sentence(sessions: SessionPool, text: bytes, job: DecodeJob, layer: Layer | None) -> Iterator[str]:
    """Yields the translation of a sentence in pieces while it grows; as one piece if something is put back into it."""
    if layer is None:
        yield from stream_text(sessions, text, job)
        return
    worker = sessions.take()
    apart = Apart([text], lib.TH_ONE, worker.reader_of(64, job.pair), language=layer.language)
    flags = ffi.new("unsigned char[]", 1)
    if any(apart.counts):
        worker.read(apart.sources, job.form, job.pair, job.most, flags=flags)
    sessions.give(worker)
    kind = apart.kinds[0] & lib.TH_KINDS
    if kind in (lib.TH_AS_IS, lib.TH_CLEANED) and not flags[0] & 2:
        yield from stream_text(sessions, apart.sources[0], job)
    elif kind != lib.TH_BLANK:
        job = job._replace(aligned=bool(apart.kinds[0] & lib.TH_ALIGNED))
        yield from filter(None, translate_sentences(sessions, [text], job, 1, None, layer._replace(notes=bytearray(1))))


def stream_text(sessions: SessionPool, text: bytes, job: DecodeJob) -> Iterator[str]:
    """Yields the translation of a text in pieces while it grows."""
    worker = sessions.take()
    ids, _, counts, faults = worker.read([text], job.form, job.pair, job.most)
    if faults[0].status:
        raise error_of(faults[0])
    if not counts[0]:
        return
    source = IdBatch("text", [ids[0:counts[0]]])
    options = job.options
    editor = _editor(job, options, [0])
    length = max(options.max_length or 2 * source.width + 16, options.min_length + 1)
    session = worker.fit(1, source.width, length, 1, job.pair, *job.session)
    raise_error(lib.tfm_session_start(session, requests_of(source), 1, options, worker.err), worker.err)
    running, shown = ffi.new("int32_t *", 1), ""
    while running[0]:
        raise_error(lib.th_steps(session, 1, running, worker.err), worker.err)
        if editor:
            editor[0].check()
        so_far = hypotheses(results_of(session, 1, 1, job.form, worker.err), 1)[0][0].text
        if running[0]:  # the last token may end inside a character
            so_far = so_far.rstrip("\ufffd")
        if so_far.startswith(shown) and so_far != shown:
            yield so_far[len(shown):]
            shown = so_far
    sessions.give(worker)
