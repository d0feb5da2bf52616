"""Splits a paragraph into sentences, and joins sentences to a paragraph."""

from __future__ import annotations

from typing import Iterable

from ._transformer import ffi, lib
from .arguments import check_text, check_texts


def split_sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, without the whitespace between them, by the rules of
    transformer.h (tfm_sentence_next), as `translate --document` does."""
    data = check_text("paragraph", paragraph)
    place, found = ffi.new("size_t[3]"), []
    while lib.th_sentence(data, len(data), place):
        found.append(data[place[1]:place[2]].decode("utf-8", "surrogatepass"))
    return found


def join_sentences(sentences: Iterable[str]) -> str:
    """Joins translated sentences to a paragraph, with spaces between them if their script has spaces."""
    text = b""
    for data in check_texts("sentences", sentences):
        if text and data and lib.th_space_after(text, len(text)):
            text += b" "
        text += data
    return text.decode("utf-8", "surrogatepass")
