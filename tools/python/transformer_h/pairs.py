"""Files that have source and target, and resources of programs: XLIFF, TMX, Qt's ts, Android's strings.xml, Apple's strings, stringsdict
and xcstrings, gettext's po, resx, arb.

A reader of a format finds the units that need a translation, and where it goes. Only these places of the file change: the rest
keeps its bytes. A translation that lost a placeholder is not written, and the unit is counted."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any, Callable, NoReturn, Sequence

from .office_work import FileError
from .pairs_formats import READERS
from .pairs_icu import icu_parts, is_icu
from .pairs_plurals import code_of, is_same_language
from .pairs_text import NO_LETTERS, WORDS, Edit, Message, Piece, Refused, Style, Template, has_letters

Put = Callable[[list[str]], list[Edit]]  # gets what each template of a unit became
MOST_NAMED = 10  # units that failed, which get a line each


class Unit:
    """A text of the file, or its plural forms. put says where the translations go."""

    __slots__ = ("name", "templates", "put")

    def __init__(self, name: str, templates: Sequence[Template], put: Put) -> None:
        self.name, self.templates, self.put = name, templates, put

    def messages(self) -> list[Message]:
        return [one for template in self.templates for one in template if isinstance(one, Message)]


class Pairs:
    """The texts of a file, and the file with translations. A part of a documents.File.

    text is the whole file, lang the language of the translations if it is known. The reader of the format calls unit(), leave() and
    edit(). counts has how many units are "translated", "left" and "failed"."""

    def __init__(self, text: str, encoding: str, where: str, suffix: str, left: Counter[str], lang: str | None, mark: bytes = b"") -> None:
        """mark is what the encoding does not write: the byte order mark of one of two orders."""
        self.mark = mark
        self.where, self.suffix, self.encoding, self.found, self.lang = where, suffix, encoding, left, lang or ""
        reader = READERS[suffix]
        self.is_xml = reader.is_xml
        self.base: Any = text.encode("utf-8", "surrogatepass") if self.is_xml else text
        self.units: list[Unit] = []
        self.edits: list[Edit] = []  # what changes whether or not a unit is translated
        self.counts: Counter[str] = Counter(translated=0, left=0, failed=0)
        self.lacks_language = False  # the file says no language of the translation, or that of the source
        self.failed: set[int] = set()  # numbers of texts that the model could not translate
        getattr(importlib.import_module(f".{reader.module}", __package__), reader.function)(self)
        self.texts = [one.html for unit in self.units for one in unit.messages()]

    # ---- for the readers

    def refuse(self, why: str) -> NoReturn:
        raise FileError(f"{self.where}: {why}")

    def unit(self, name: str, templates: Sequence[Template], put: Put) -> None:
        """Adds a unit. name is for messages, such as "trans-unit 'a'". put is called if all templates could be translated."""
        if any(isinstance(one, Message) for template in templates for one in template):
            self.units.append(Unit(name, templates, put))
        else:
            self.leave(NO_LETTERS)

    def leave(self, why: str) -> None:
        """Counts a unit that stays as it is."""
        self.found[why] += 1
        self.counts["left"] += 1

    def fail(self, name: str, why: str) -> None:
        self.counts["failed"] += 1
        few = self.counts["failed"] <= MOST_NAMED
        self.found[f"{name}: {why}" if few else "a further unit whose translation cannot be used"] += 1

    def edit(self, begin: int, end: int, new: Any) -> None:
        self.edits.append((begin, end, new))

    def template(self, name: str, pieces: Sequence[Piece], style: Style) -> Template | None:
        """Returns the parts of a text, or None after counting one that has no letters or cannot be read."""
        if not has_letters(pieces):
            self.leave(NO_LETTERS)
            return None
        try:
            if any(one.kind == WORDS and is_icu(one.text) for one in pieces):
                if len(pieces) > 1:
                    raise Refused("plural forms in brackets with codes inside, which are not read")
                return icu_parts(pieces[0].text, style)
            return [Message(pieces, style)]
        except Refused as e:
            self.fail(name, str(e))
            return None

    def check_target(self, named: str, has_finished: bool) -> None:
        """Refuses a file whose translations are in another language than the new ones."""
        if named and self.lang and has_finished and not is_same_language(named, self.lang):
            self.refuse(f"the file has translations into {named[:40]}, and the new ones would be in {self.lang}; give a file without them")

    def check_source(self, named: str) -> None:
        """Refuses a file whose source is in the language of the translation."""
        one, other = code_of(named, "-"), code_of(self.lang, "-")
        if is_same_language(named, self.lang) and (one == other or "-" not in one or "-" not in other):
            self.refuse(f"the source is in {named[:40]}, and so would be the translation ({self.lang}); look whether this is the right model")

    def need_lang(self, what: str) -> str:
        if not self.lang:
            self.refuse(f"the language of the translation is not known, which {what} needs; give lang (--lang)")
        return self.lang

    # ---- for documents.File

    def join(self, texts: Sequence[str], lang: str | None, read: Any) -> list[bytes]:
        """Returns the file with the translations of `texts`."""
        edits, at = [*self.edits], 0
        for unit in self.units:
            begin, made, at = at, [], at + len(unit.messages())
            found = iter(texts[begin:at])
            try:
                if any(number in self.failed for number in range(begin, at)):
                    raise Refused("a sentence that is too long for the model, or cannot be translated")
                for template in unit.templates:
                    made.append("".join(one if isinstance(one, str) else one.back(next(found)) for one in template))
                if not self.can_write(made):
                    raise Refused(f"the encoding {self.encoding} has not all letters of the translation; convert the file to UTF-8")
            except Refused as e:
                self.fail(unit.name, str(e))
                continue
            edits += unit.put(made)
            self.counts["translated"] += 1
        out, at = [], 0
        for begin, end, new in sorted(edits, key=lambda one: (one[0], one[1])):
            out += [self.base[at:begin], new.encode("utf-8", "surrogatepass") if isinstance(self.base, bytes) else new]
            at = end
        joined = self.base[:0].join([*out, self.base[at:]])
        if isinstance(joined, bytes):
            joined = joined.decode("utf-8", "surrogatepass")
        return [self.mark, joined.encode(self.encoding, "xmlcharrefreplace" if self.is_xml else "strict")]

    def can_write(self, made: Sequence[str]) -> bool:
        if not self.is_xml and not self.encoding.startswith("utf"):
            try:
                "".join(made).encode(self.encoding)
            except UnicodeEncodeError:
                return False
        return True
