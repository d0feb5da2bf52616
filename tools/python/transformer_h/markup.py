"""Texts with tags or lines that stay in the translation: HTML, Markdown, subtitles, wrapped text."""

from __future__ import annotations

import re
import threading
from typing import Any, Iterable, Iterator, Sequence

from ._transformer import ffi, lib
from .arguments import check_choice, check_flag, check_integer, check_list, check_no_nul, check_text
from .errors import Error, new_array
from .surroundings import Apart

LINE_BREAK = re.compile("[\n-\r\x85\u2028\u2029]")


class Aligned(str):
    """A translation that knows for each of its tokens which part of the source it comes from, for Document.join.
    tokens is an array of markup_token of examples/translate/text/markup_pieces.h: positions are in bytes of UTF-8."""

    __slots__ = ("tokens",)
    tokens: bytes

    def __new__(cls, text: str, tokens: bytes) -> Aligned:
        check_text("text", text)
        made = super().__new__(cls, text)
        made.tokens = tokens
        return made

    def __getnewargs__(self) -> tuple[str, bytes]:  # type: ignore[override]  # pickle calls __new__ with both
        return str(self), self.tokens


def is_copied(translation: Any) -> bool:
    """Returns whether a sentence with this translation is copied. An empty Aligned is that of a sentence that stays as it is."""
    return translation is None or isinstance(translation, Error) or (isinstance(translation, Aligned) and not translation)


class Document:
    """A document: its sentences, and the document with translations in their places.

        page = Document(text, "html")
        print(page.join(model.translate(page.sentences, aligned=page.needs_tokens)))

    format is "text" (paragraphs, one on a line), "html" (also XML), "markdown", "srt" (also WebVTT) or "wrapped"
    (plain text in wrapped lines). The rules, and the bytes, are those of `translate --document`, `--html` and so on.
    Model.translate_document does both steps. needs_tokens has a byte for each sentence: 1 if the document depends on the
    tokens of its translation, as around tags. With sentences="whole", each line of text, and each paragraph of the
    other formats, counts as one sentence. What stands around sentences (labels, reference marks, emoji) is no part of them, and
    addresses, numbers with units and code are copied, which needs a model that reads sentences: plain=True turns both off, as
    sentences="whole" does, and protect=False the second. source is the language to translate: text that the document says is in another
    one (lang of an inner element, <lang> of WebVTT, classes of SAMI) stays as it is, unless all_languages is True. After join, left has a line about each kind of text that stays as it is.
    Raises ValueError for subtitles without a line with times."""

    FORMATS = ("text", "html", "markdown", "srt", "wrapped")
    FEW = 64  # so many translations are given to the library at once, because it needs copies

    def __init__(self, text: str, format: str = "text", *, sentences: str = "split", plain: bool = False, protect: bool = True,
                 all_languages: bool = False, source: str | None = None) -> None:
        check_choice("format", format, dict.fromkeys(self.FORMATS))
        check_choice("sentences", sentences, dict.fromkeys(("split", "whole")))
        plain, protect = check_flag("plain", plain) or sentences == "whole", check_flag("protect", protect)
        all_languages, language = check_flag("all_languages", all_languages), check_lang(source)
        self.format = format
        self.left: list[str] = []
        self.divided = 0  # sentences that were divided, because they have no end in sight
        self._text = check_text("text", text)  # the library has pointers into it
        self._lock = threading.Lock()  # join uses the document's memory
        if format == "text":
            self._lines = self._text.split(b"\n")
            self._apart = Apart(self._lines, lib.TH_DOCUMENT | (lib.TH_PLAIN if plain else 0)) if sentences == "split" else None
            self._counts = self._apart.counts if self._apart else [int(bool(line.strip())) for line in self._lines]
            self.divided = sum(self._apart.divided) if self._apart else 0
            self.sentences = [each.decode("utf-8", "surrogatepass") for each in (
                self._apart.sources if self._apart else filter(bytes.strip, self._lines))]
            self.needs_tokens = bytes(len(self.sentences))
            return
        self._memory = ffi.from_buffer(self._text)
        found = lib.th_document_read(getattr(lib, f"MARKUP_{format.upper()}"), self._memory, len(self._text),
                                     sentences == "whole", not plain, protect and not plain, all_languages, language)
        if not found:
            raise Error(lib.TFM_E_MEMORY, "no memory for the document")
        self._document = ffi.gc(found, lib.th_document_free)
        wrong = lib.th_document_refused(found)
        if wrong:
            raise ValueError(ffi.string(wrong).decode())
        size, self.divided = ffi.new("size_t *"), int(lib.th_document_divided(found))
        self.sentences = [decoded(lib.th_document_sentence(found, i, size), size[0])
                          for i in range(lib.th_document_count(found))]
        needs = ffi.new("unsigned char[]", len(self.sentences) or 1)
        lib.th_document_needs_tokens(found, needs)
        self.needs_tokens = ffi.buffer(needs, len(self.sentences))[:]

    def where(self, index: int) -> str:
        """Returns the place of a sentence, for messages: "line 3" of text, else "sentence 3"."""
        index = check_integer("index", index, 0, len(self.sentences) - 1)
        if self.format != "text":
            return f"sentence {index + 1}"
        return f"line {[number for number, n in enumerate(self._counts, 1) for _ in range(n)][index]}"

    def join(self, translations: Iterable[str | Error | None], lang: str | None = None) -> str:
        """Returns the document with a translation in the place of each sentence. An Error, None or an empty
        Aligned copies the sentence. Where tags belong is known for translations that are Aligned; around others they stand at the ends. lang is
        the code of a language for the lang attribute of HTML's html element, as `translate --lang`; codes that HTML
        does not allow change nothing."""
        code = check_lang(lang)
        made = check_list("translations", translations, "a list of str")
        if len(made) != len(self.sentences):
            raise ValueError(f"{len(made)} translations for {len(self.sentences)} sentences")
        if self.format == "text":
            found = iter(check_text(f"translations[{i}]", sentence if is_copied(one) else one)
                         for i, (one, sentence) in enumerate(zip(made, self.sentences)))
            with self._lock:
                return "\n".join(self._joined(i, [next(found) for _ in range(n)]) for i, n in enumerate(self._counts))
        size = ffi.new("size_t *")
        with self._lock:
            lib.th_document_begin(self._document, code)
            for at in range(0, len(made), self.FEW):
                self._put(made[at:at + self.FEW], at)
            out = lib.th_document_end(self._document, size)
            if not out:
                raise Error(lib.TFM_E_MEMORY, "no memory for the document")
            joined = decoded(ffi.gc(out, lib.th_free), size[0])
            left = ffi.gc(lib.th_document_left(self._document, size), lib.th_free)
            self.left = decoded(left, size[0]).splitlines() if left else []
        return joined

    def _joined(self, i: int, made: list[bytes]) -> str:
        """Returns line i of a text."""
        return self._apart.joined(i, made) if self._apart else b"".join(made).decode("utf-8", "surrogatepass")

    def _put(self, translations: list[str | Error | None], at: int) -> None:
        """Appends the translations of some sentences, the first of which is sentence `at`."""
        ends, texts, tokens = new_array("size_t[]", 2 * len(translations)), [], []
        text_end = tokens_end = 0
        for i, one in enumerate(translations):
            if one is not None and not isinstance(one, Error):
                # a sentence of a document is one line; the line breaks of one that is Aligned are spaces already
                text = LINE_BREAK.sub(" ", one) if isinstance(one, str) and not isinstance(one, Aligned) else one
                texts.append(check_text(f"translations[{at + i}]", text))
                text_end += len(texts[-1])
                if isinstance(one, Aligned):
                    if not isinstance(one.tokens, bytes) or len(one.tokens) % (3 * ffi.sizeof("size_t")):
                        raise ValueError(f"translations[{at + i}].tokens is no array of markup_token")
                    tokens.append(one.tokens)
                    tokens_end += len(one.tokens)
            ends[2 * i], ends[2 * i + 1] = text_end, tokens_end
        if not lib.th_document_put(self._document, b"".join(texts), ffi.from_buffer(b"".join(tokens)), ends, len(translations)):
            raise Error(lib.TFM_E_MEMORY, "no memory for the document")


class Documents:
    """The documents of many texts, as an iterator. sentences has those of all of them, needs_tokens a byte for each, and numbers the
    number of its document; divided has a number for each document. Of many texts each is read twice, because a Document needs more
    memory than its text."""

    FEW = 64  # Documents of so many are kept while their sentences are translated

    def __init__(self, texts: Sequence[str | bytes], format: str, sentences: str, plain: bool = False, protect: bool = True,
                 all_languages: bool = False, source: str | None = None) -> None:
        self._texts, self._options = texts, {"format": format, "sentences": sentences, "plain": plain, "protect": protect,
                                             "all_languages": all_languages, "source": source}
        self._kept = [self._read(text) for text in texts] if len(texts) < self.FEW else None
        self.sentences: list[str] = []
        self.numbers: list[int] = []
        self.divided: list[int] = []
        needs = bytearray()
        for number, one in enumerate(self):
            self.sentences += one.sentences
            self.numbers += [number] * len(one.sentences)
            self.divided.append(one.divided)
            needs += one.needs_tokens
        self.needs_tokens = bytes(needs)

    def _read(self, text: str | bytes) -> Document:
        options: Any = self._options
        return Document(text if isinstance(text, str) else text.decode("utf-8", "surrogatepass"), **options)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._kept) if self._kept is not None else map(self._read, self._texts)


def placeholders(text: str) -> list[tuple[int, int]]:
    """Returns where the placeholders of programs and templates begin and end in a text, and options: {name}, {% if x %}, %(name)s, --all."""
    data, found = text.encode("utf-8", "surrogatepass"), []
    at = count = 0  # in bytes, and in characters
    for one in re.finditer(rb"[-{%$#@<\[]", data):
        begin = one.start()
        n = lib.th_placeholder(data, len(data), begin) if begin >= at else 0
        if n:
            first = count + len(data[at:begin].decode("utf-8", "surrogatepass"))
            count = first + len(data[begin:begin + n].decode("utf-8", "surrogatepass"))
            found.append((first, count))
            at = begin + n
    return found


def check_lang(lang: Any) -> Any:
    """Returns the code of the language of a document as the library takes it."""
    return ffi.NULL if lang is None else ffi.new("char[]", check_no_nul("lang", check_text("lang", lang)))


def decoded(memory: Any, size: int) -> str:
    return str(ffi.buffer(memory, size)[:], "utf-8", "surrogatepass")
