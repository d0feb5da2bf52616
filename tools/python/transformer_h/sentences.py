"""Splits a paragraph into sentences, and joins sentences to a paragraph."""

from __future__ import annotations

import re
from typing import Iterable, NamedTuple, Sequence

from ._transformer import ffi, lib
from .arguments import check_text, check_texts

LABEL = re.compile(rb"\s*>>[^<>\s]+<<")


class Cut(NamedTuple):
    """A text in sentences: the sentences, and the whitespace before each of them but the first."""

    sentences: list[bytes]
    between: list[bytes]

    def joined(self, translations: Sequence[bytes]) -> bytes:
        """Returns the translations of the sentences as a text, with the whitespace that stood between them."""
        text = b""
        for data, between in zip(translations, [b"", *self.between]):
            if text and data:
                text += (b"", b" ", between)[lib.th_sentence_space(text, len(text), between, len(between))]
            text += data
        return text


def cut(text: bytes, labels: bool = False) -> Cut:
    """Finds the sentences of a text. labels: a label >>fra<< before the text is put before each of them."""
    place, end = ffi.new("size_t[3]"), 0
    sentences: list[bytes] = []
    between: list[bytes] = []
    label = LABEL.match(text) if labels else None
    while lib.th_sentence(text, len(text), place):
        if sentences:
            between.append(text[end:place[1]])
        end = place[2]
        sentences.append((label[0] if label and sentences else b"") + text[place[1]:end])
    return Cut(sentences, between)


def split_sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, without the whitespace between them, by the rules of
    transformer.h (tfm_sentence_next), as Model.translate does."""
    return [each.decode("utf-8", "surrogatepass") for each in cut(check_text("paragraph", paragraph)).sentences]


def join_sentences(sentences: Iterable[str]) -> str:
    """Joins translated sentences to a paragraph, with spaces between them if their script has spaces."""
    text = b""
    for data in check_texts("sentences", sentences):
        if text and data and lib.th_space_after(text, len(text)):
            text += b" "
        text += data
    return text.decode("utf-8", "surrogatepass")
