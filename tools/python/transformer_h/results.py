"""What the methods of Model return: hypotheses of a translation, segments of speech."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ._transformer import ffi, lib
from .errors import raise_error


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


def _escaped(text: str, of: str) -> str:
    """Returns the text as a part of a string of JSON. of: the characters that are escaped, as those in brackets of re are written."""
    return re.sub(f'["\\\\{of}]', lambda found: "\\" + found[0] if found[0] in '"\\' else f"\\u{ord(found[0]):04x}", text)


class LiveText(NamedTuple):
    """What Model.listen has heard. The stable texts, joined with nothing between them, are the whole text. A text that is
    not stable replaces the one before it."""

    text: str
    stable: bool  # it is never taken back
    start: float  # seconds
    end: float

    def json(self) -> str:
        """Returns the line of `transcribe --live --format json`, without its end."""
        text = _escaped(self.text, r"\x00-\x1f\x7f-\x9f\u2028\u2029")
        return f'{{"text": "{text}", "stable": {"true" if self.stable else "false"}, "start": {self.start:.2f}, "end": {self.end:.2f}}}'


class LiveTranslation(NamedTuple):
    """What Model.live has translated. stable_text is the beginning of text, and only grows until done is true: then it is all
    of text, and the next one begins another text."""

    source: str  # what has come
    stable_text: str  # it is never taken back
    text: str
    done: bool

    @property
    def guess(self) -> str:
        """The part of text that may still change."""
        return self.text[len(self.stable_text):]

    def json(self) -> str:
        """Returns the line of `translate --live --json`, without its end."""
        source, stable, text = (_escaped(one, r"\x00-\x1f") for one in (self.source, self.stable_text, self.text))
        return f'{{"source": "{source}", "stable_text": "{stable}", "text": "{text}", "done": {"true" if self.done else "false"}}}'


_FINISH = {value: name[len("TFM_FINISH_"):].lower() for value, name in ffi.typeof("tfm_finish").elements.items()}


class Results(NamedTuple):
    """The hypotheses of a session's rows, as the library gives them: n of th_hypothesis, and the bytes of their texts."""

    hypotheses: Any
    n: int
    texts: bytes


def results(session: Any, rows: int, ranks: int, form: int, err: Any) -> Results:
    """Returns the hypotheses of all rows."""
    out, n = ffi.new("th_hypothesis[]", rows * ranks), ffi.new("int32_t *")
    size, capacity = ffi.new("size_t *"), 256 * rows * ranks
    while True:
        text = ffi.new("char[]", capacity)
        raise_error(lib.th_results(session, rows, form, out, rows * ranks, n, text, capacity, size, err), err)
        if size[0] <= capacity:
            break
        capacity = size[0]
    return Results(out, n[0], ffi.buffer(text, size[0])[:])


def hypotheses(results: Results, rows: int) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each row."""
    begin = 0
    found: list[list[Hypothesis]] = [[] for _ in range(rows)]
    for h in results.hypotheses[0:results.n]:
        found[h.row].append(Hypothesis(results.texts[begin:h.end].decode(), h.score, h.log_probability,
                                       h.length, _FINISH[h.finish]))
        begin = h.end
    return found
