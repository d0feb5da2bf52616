"""Splits a paragraph into sentences, and joins sentences to a paragraph."""

from __future__ import annotations

from typing import Iterable, NamedTuple

from ._transformer import ffi, lib
from .arguments import check_text, check_texts

WIDE = "\u4e00".encode()  # a letter after which no space goes


class Cut(NamedTuple):
    """A text in sentences: the sentences, and the whitespace before each of them but the first."""

    sentences: list[bytes]
    between: list[bytes]


def cut(text: bytes) -> Cut:
    """Finds the sentences of a text."""
    place, end = ffi.new("size_t[3]"), 0
    sentences: list[bytes] = []
    between: list[bytes] = []
    while lib.th_sentence(text, len(text), place):
        if sentences:
            between.append(text[end:place[1]])
        end = place[2]
        sentences.append(text[place[1]:end])
    return Cut(sentences, between)


def split_sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, without the whitespace between them, by the rules of
    transformer.h (tfm_sentence_next), as Model.translate does."""
    return [each.decode("utf-8", "surrogatepass") for each in cut(check_text("paragraph", paragraph)).sentences]


def join_sentences(sentences: Iterable[str]) -> str:
    """Joins translated sentences to a paragraph, with spaces between them if their script has spaces."""
    # The script of the last letter decides. A sentence may have no letter, as "1!". Then the sentence before it decides, and so on. To
    # look for the letter in all of the text, again for each sentence, would take time in proportion to the square of the text's
    # length. So only the answer of the sentences before is kept, as a letter that stands for them: a wide one, or none.
    before, out = b"", [b""]
    for data in filter(None, check_texts("sentences", sentences)):
        if out[-1]:
            before = b"" if lib.th_space_after(before + out[-1], len(before + out[-1])) else WIDE
            out.append(b"" if before else b" ")
        out.append(data)
    return b"".join(out).decode("utf-8", "surrogatepass")
