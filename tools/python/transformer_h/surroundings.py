"""Keeps away from the model what people write around a sentence and in it (labels, brackets, emoji, capitals), as `translate` does. The
rules are in text/paragraph.h and text/around.h of the command."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ._transformer import ffi, lib
from .errors import Error, new_array

STAYS = object()  # the result of a sentence that stays as it is
UNKNOWN, LEFT = 1, 2  # what Layer.notes says of a sentence: it has tokens that the model does not know; it stays as it is
_ALIGNED, _KINDS = lib.TH_ALIGNED, lib.TH_KINDS


class Counts:
    """Says which sentences a call has not translated as others, for the option counts of Model.translate:

        counts = Counts()
        model.translate(texts, counts=counts)
        print(len(counts.left), counts)

    left: sentences that stay as they are, because they are in the language of the translation, or of characters that the
    model does not know. divided: sentences that were divided, because they have no end in sight. unknown: sentences with
    some tokens that the model does not know. Each list has the number of the text for each such sentence. str() gives
    the words of `translate`, or "" if there is none. Calls that get the same object add to it."""

    __slots__ = ("left", "divided", "unknown")

    def __init__(self) -> None:
        self.left: list[int] = []
        self.divided: list[int] = []
        self.unknown: list[int] = []

    def __str__(self) -> str:
        said = []
        for numbers, one, several in ((self.left, "stays as it is", "stay as they are"),
                                      (self.divided, "divided, because it has no end in sight", "divided, because they have no end in sight"),
                                      (self.unknown, "with unknown tokens", "with unknown tokens")):
            if numbers:
                said.append(f"{len(numbers)} sentence{'s' * (len(numbers) > 1)} {several if len(numbers) > 1 else one}")
        return ", ".join(said)

    def __repr__(self) -> str:
        return f"Counts(left={self.left}, divided={self.divided}, unknown={self.unknown})"

    def note(self, notes: bytes, numbers: Sequence[int]) -> None:
        """Adds what Layer.notes says of sentences. numbers are those of their texts."""
        if any(notes):
            self.left += [number for note, number in zip(notes, numbers) if note & LEFT]
            self.unknown += [number for note, number in zip(notes, numbers) if note == UNKNOWN]

    def add(self, other: Counts, first: int) -> None:
        """Adds those of another call, whose text 0 is text `first`."""
        for name in self.__slots__:
            getattr(self, name).extend(number + first for number in getattr(other, name))

    def note_divided(self, divided: Sequence[int]) -> None:
        """Adds how many sentences of each text are divided."""
        self.divided += [number for number, n in enumerate(divided) for _ in range(n)]


class Layer(NamedTuple):
    """What a call does with each sentence, beside translating it."""

    language: str | None  # of the translation, if an option says it: decides how quotation marks are written
    looks: bool  # sentences that are already in the language of the translation stay
    notes: bytearray  # a byte for each sentence
    is_document: bool  # translations are Aligned, or for Document.join: one that stays is empty


class Apart:
    """Texts that are taken apart. sources are what the model gets, counts how many of them each text has, and divided how many of its
    sentences were divided. how: TH_ONE and so on of _native.h. reader: a session that counts the tokens of words in capitals."""

    def __init__(self, texts: Sequence[bytes], how: int, reader: Any = ffi.NULL, *, labels: bool = False,
                 language: str | None = None) -> None:
        self._texts, n, at = texts, len(texts), 0
        self._language = ffi.NULL if language is None else ffi.new("char[]", language.encode("utf-8", "surrogatepass"))
        found = lib.th_paragraphs_make(how, labels, self._language)
        if not found:
            raise _no_memory()
        self._paragraphs = ffi.gc(found, lib.th_paragraphs_free)
        ends = new_array("int64_t[]", n)
        for i, text in enumerate(texts):
            at += len(text)
            ends[i] = at
        kinds, counts, divided = new_array("unsigned char[]", n), new_array("int32_t[]", n), new_array("int32_t[]", n)
        if not lib.th_paragraphs_read(found, b"".join(texts), ends, n, reader, kinds, counts, divided):
            raise _no_memory()
        self.kinds = ffi.buffer(kinds, n)[:]
        self.counts, self.divided = list(counts[0:n]), list(divided[0:n])
        self.sources = list(texts) if not any(self.kinds) else self._sources()

    def _sources(self) -> list[bytes]:
        size, place = ffi.new("size_t *"), ffi.new("const size_t **")
        data = lib.th_paragraphs_sources(self._paragraphs, size, place)
        data = ffi.buffer(data, size[0])[:] if data else b""
        sources, begin, k = [], 0, 0
        for text, kind, n in zip(self._texts, self.kinds, self.counts):
            if not kind & _KINDS:
                sources.append(text)
                continue
            for k in range(k, k + n):
                end = place[0][k]
                sources.append(data[begin:end])
                begin = end
            k += n > 0
        return sources

    def joined(self, i: int, made: Sequence[bytes | None], tokens: Any = None, is_partial: bool = False) -> str:
        """Returns text i with translations in the places of its sources; None leaves a source. tokens, a bytearray of markup_token, are
        changed to those of the text. is_partial: there are translations of the first sources only, and the text ends with the last."""
        ends, at = new_array("int64_t[]", len(made)), 0
        for k, one in enumerate(made):
            at += len(one or b"")
            ends[k] = -1 if one is None else at
        memory = ffi.from_buffer(tokens) if tokens else ffi.NULL
        size, text = ffi.new("size_t *"), self._texts[i]
        out = lib.th_paragraphs_join(self._paragraphs, text, len(text), b"".join(filter(None, made)), ends, len(made), memory,
                                     len(tokens or b"") // (3 * ffi.sizeof("size_t")), is_partial, size)
        if not out:
            raise _no_memory()
        return str(ffi.buffer(out, size[0]), "utf-8", "surrogatepass")


def _no_memory() -> Error:
    return Error(lib.TFM_E_MEMORY, "no memory to take the texts apart")
