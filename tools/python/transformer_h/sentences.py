"""Splits a paragraph into sentences, and joins sentences to a paragraph."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, NamedTuple, Sequence

from ._transformer import ffi, lib
from .arguments import check_text, check_texts

WIDE = "\u4e00".encode()  # a letter after which no space goes
LABEL = re.compile(rb"\s*>>[^<>\s]+<<")


class Cut(NamedTuple):
    """A text in sentences: the sentences, and the whitespace before each of them but the first."""

    sentences: list[bytes]
    between: list[bytes]

    def joined(self, translations: Sequence[bytes]) -> bytes:
        """Returns the translations of the sentences as a text, with the whitespace that stood between them."""
        return b"".join(spaced(zip(translations, [b"", *self.between])))


def spaced(sentences: Iterable[tuple[bytes, bytes | None]]) -> Iterator[bytes]:
    """Yields sentences with what goes between them. Each sentence has the whitespace that stood before it in the source, or None
    for a space if the script has spaces.

    The script of the last letter decides. A sentence may have no letter, as "1!". Then the sentence before it decides, and so on.
    To look for the letter in all of the text, again for each sentence, would take time in proportion to the square of the text's
    length. So only the answer of the sentences before is kept, as a letter that stands for them: a wide one, or none."""
    before = last = b""
    for data, between in sentences:
        if last and data:
            text = before + last
            if between is None:
                yield b" " if lib.th_space_after(text, len(text)) else b""
            else:
                yield (b"", b" ", between)[lib.th_sentence_space(text, len(text), between, len(between))]
        if data:
            if last:
                before = b"" if lib.th_space_after(before + last, len(before + last)) else WIDE
            last = data
            yield data


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
    return b"".join(spaced((data, None) for data in check_texts("sentences", sentences))).decode("utf-8", "surrogatepass")
