"""A paragraph of an office document: it becomes a text with tags and is written again from its own elements."""

from __future__ import annotations

import copy
import html
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate
from typing import Any, Sequence

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .markup import placeholders
from .office_formats import Copies, Format, Styles
from .office_names import (BASE, BREAK, CONTENT, COUNT, DELETED, EMPTY, FIRST, INLINE, INNER_FIELDS,
                           INSERTED, JOINED, KEPT, LAST, LEFT, LETTER, LETTERS, LINK, MOST_RAISED, PAIRS, PAIR_ENDS,
                           PAIR_IDS, PLACE_FIELDS, RESULTS, RUBY, RUN, RUN_TEXT, SEQUENCE, SHOWN, SIMPLE,
                           SPACES, STYLE_NAME, TAG, TEXT_FIELDS, WRITTEN, escaped, tag_name, text_inside, xml_text)
from .office_sentences import divided_at_sentences
from .office_work import FileError

RUN_SPACES = frozenset((*SPACES["w"], *SPACES["a"]))
MOST_SPACES, MOST_PAIRS = 64, 50
MOST_INSIDE = 300  # elements of a paragraph inside each other
MOST_LINES = 500  # of a description: the text of an element is copied for each
FEW_INSIDE = 8  # so many elements without others in them leave with what is around them
MOST_LABEL = 40  # characters of a caption's label, such as "Figure"
MANY_SPACES = 4  # so many are a gap in a line, as a tab
STOP = re.compile(r"[.。](?=\s*<(?:ph|x)\b[^>]*>(?:</ph>)?\s*(?:</(?:g|sub)>)*$)")
PLACEHOLDER = re.compile(r"[-{%$#@<\[]")  # what begins a placeholder
GAP = re.compile(f"( {{{MANY_SPACES},}})")


class Piece:
    """A part of a paragraph: a text, an element that stays as it is, or what contains other pieces."""

    __slots__ = ("text", "style", "element", "into", "head", "tail", "tag", "inside")  # there are as many as runs

    def __init__(self, text: str | None = None, style: Format | None = None, element: Any = None, into: Any = None,
                 head: Sequence[Piece] = (), tail: Sequence[Piece] = (), tag: str = "g", inside: Any = ()) -> None:
        self.text = text
        self.style = style  # of the run that has the piece
        self.element = element  # with all that is in it; with `into`, only its properties and attributes
        self.into = into  # the pieces inside are put into this element, which is `element` or a child of it
        self.head, self.tail = head, tail  # elements that stand before the pieces inside, and behind them
        self.tag = tag  # g; x, br; ph: has signs for readers, and what is inside is a text of its own; up: superscript
        self.inside = inside  # a list of pieces, or nothing


class Paragraph:
    """A paragraph as texts with tags, and the paragraph with other such texts. The first text is the paragraph's. The others are
    results of fields and the label of a caption. Reading changes nothing in the tree."""

    def __init__(self, element: Any, styles: Styles, copies: Copies, left: Counter[str]) -> None:
        self.element, self.styles, self.copies, self.left = element, styles, copies, left
        self.space = element.tag[1:].partition("}")[0]
        self.is_runs = self.space in RUN_SPACES
        self.ends_in_space = False  # of OpenDocument: the next white space means nothing
        self.has_raised = False
        self.in_foreign = styles.languages.of_paragraph(element)  # what is read is in another language
        self.has_foreign = False
        self.is_first, self.lead = True, ""  # white space at its beginning that means nothing
        self.nodes: list[Piece] = []
        self.formats: set[str] = set()  # keys of formats that have words: those that are not written yet
        self.held: Any = None
        self.written: set[int] = set()  # numbers of nodes
        found: list[Piece] = []
        self.read(element, found)
        self.ends: dict[Any, list[int]] = {}  # the nodes that are ends of pairs, for each pair whose ends stand alone
        self.root = Piece(inside=self.grouped(found))
        self.find_label(self.root)
        self.edges(self.root.inside)
        self.roots = [self.root]  # of the texts; spell() finds more
        self.has_letters = False
        self.raw: list[str] = []  # the texts before they are divided
        self.texts: list[str] | None = None  # what divide() returned when the part was read; None: write() writes in any case
        for root in self.roots:
            out: list[str] = []
            self.spell(root, out, 0)
            self.raw.append("".join(out))

    def divide(self) -> list[str]:
        """Returns the texts, with formats divided at the ends of sentences. A paragraph that is read again to be written does not
        need this: `texts` then has what the first reading returned."""
        return [divided_at_sentences(text, self.may_divide) for text in self.raw]

    # ---- reading ----------------------------------------------------------------------------------

    def read(self, parent: Any, found: list[Piece]) -> None:
        """Appends the pieces of a paragraph, or of an element inside it."""
        in_runs = parent.tag[1:].partition("}")[0] in RUN_SPACES  # white space between runs means nothing
        if parent.text and parent.tag not in CONTENT and not in_runs:
            self.letters(parent.text, found)
        for child in parent:
            tag = child.tag
            if tag in RUN:
                inside_run = [*child]
                properties = [one for one in inside_run if one.tag in FIRST]
                style = Format(properties, len(inside_run) - len(properties) > 1, self.styles)
                for one in inside_run:
                    if one.tag not in FIRST:
                        self.piece(one, style, found)
            elif tag in FIRST or tag in LAST:
                pass
            elif tag in CONTENT or (tag in INLINE and child.get(STYLE_NAME) in self.styles.plain and len(child.attrib) == 1):
                self.read_style(child, found)
            elif tag in RUBY:
                self.ruby(child, found)
            elif tag in INLINE and not len(child) and child.get(STYLE_NAME) in (self.styles.raised or ()) and self.is_raised(child.text):
                found.append(Piece(element=child, tag="up"))
                self.has_raised = True
                self.ends_in_space = False
            elif tag in INLINE or (tag in RESULTS and LETTERS.search(text_inside(child))) or (
                    tag in SIMPLE and self.has_text(child.get(f"{{{self.space}}}instr"), text_inside(child))):
                inside: list[Piece] = []
                self.read_style(child, inside)
                inside = self.grouped(inside)
                if tag in RESULTS or (tag in SIMPLE and self.is_alone(child.get(f"{{{self.space}}}instr"))):
                    found.append(Piece(element=child, into=child, tag="ph", inside=self.with_number(inside)))
                elif tag in LINK and inside and all(one.text is not None and not re.search(r"[\w\s]", one.text) for one in inside):
                    found.append(Piece(element=child, tag="x"))  # a link on a sign, which belongs to no word
                else:
                    into = next((one for one in child if one.tag in CONTENT), child)
                    found.append(Piece(element=child, into=into, inside=inside))
            else:
                self.piece(child, None, found)
            if child.tail and not in_runs:
                self.letters(child.tail, found)

    def read_style(self, child: Any, found: list[Piece]) -> None:
        """Reads an element whose style may say another language."""
        around = self.in_foreign
        self.in_foreign = self.styles.languages.styles.get(child.get(STYLE_NAME), around)
        self.read(child, found)
        self.in_foreign = around

    def foreign(self, text: str, style: Format | None, found: list[Piece]) -> None:
        """Appends text in another language: its words are copied."""
        core = text.strip()
        at = text.index(core)
        if style is not None:
            style.is_shared = True
        if LETTER.search(core):
            self.has_foreign = True
            found += [Piece(text[:at], style), Piece(head=[Piece(core, style)], tag="ph"), Piece(text[at + len(core):], style)]
        else:
            found.append(Piece(text, style))

    def letters(self, text: str, found: list[Piece]) -> None:
        """Appends text of an element. In OpenDocument, white space is one space, and none behind another and at the beginning."""
        if self.space in SPACES["text"]:
            lead = text[:len(text) - len(text.lstrip(" \t\r\n"))] if self.is_first else ""
            self.lead, self.is_first = self.lead or lead, False
            if lead:
                found.append(Piece(lead))
            text = re.sub("[ \t\r\n]+", " ", text[len(lead):])
            if self.ends_in_space and text[:1] == " ":
                text = text[1:]
            if text:
                self.ends_in_space = text[-1] == " "
        elif "\n" in text:  # of a description
            for i, line in enumerate(re.split(r"(\s*\n\s*)", text, maxsplit=MOST_LINES)):
                found.append(Piece(head=[Piece(line)], tag="br") if i % 2 else Piece(line))
            return
        if self.in_foreign:
            self.foreign(text, None, found)
        else:
            self.words(text, None, found)

    @staticmethod
    def words(text: str, style: Format | None, found: list[Piece]) -> None:
        """Appends text. Many spaces are what a tab is to others."""
        if "    " not in text:
            found.append(Piece(text, style))
            return
        for i, part in enumerate(GAP.split(text)):
            found.append(Piece(head=[Piece(part, style)], tag="br") if i % 2 else Piece(part, style))

    def ruby(self, child: Any, found: list[Piece]) -> None:
        """Appends the text that has readings over it, without the readings."""
        for one in child:
            if one.tag in BASE:
                self.read(one, found)

    @staticmethod
    def inside_words(found: list[Piece]) -> None:
        """Makes superscript in front of a letter text again: a word has no place inside."""
        for piece, after in zip(found, found[1:]) if any(piece.tag == "up" for piece in found) else ():
            if piece.tag != "up" or after.text is None or not after.text[:1].isalnum():
                continue
            if piece.element is None:
                piece.text, piece.style, piece.head, piece.tag = piece.head[0].text, piece.head[0].style, (), "g"
            else:
                piece.tag, piece.into, piece.inside = "g", piece.element, [Piece(piece.element.text)]

    @staticmethod
    def is_raised(text: str | None) -> bool:
        return bool(text and not text.isspace() and len(text.strip()) <= MOST_RAISED)

    @staticmethod
    def has_text(command: str | None, shown: str) -> bool:
        """Whether the result of a field is text for readers."""
        words = (command or "").upper().split()
        return bool(words) and (words[0] in TEXT_FIELDS or (words[0] in PLACE_FIELDS and "\\P" in words)) and (
            bool(LETTERS.search(shown)) or words[0] == "HYPERLINK")

    @staticmethod
    def is_alone(command: str | None) -> bool:
        """Whether the result of a field comes from another place, so it is a text of its own. Word makes it again from that place.
        In a sentence, a model could give its words another place."""
        words = (command or "").upper().split()
        return bool(words) and words[0] not in INNER_FIELDS

    @staticmethod
    def with_number(pieces: list[Piece]) -> list[Piece]:
        """Returns the pieces of a result such as "Figure 3" with a number at the end that is copied. The label of the caption has no
        number either, so both are translated in the same way."""
        last = pieces[-1] if pieces else Piece()
        found = re.fullmatch(r"((?:.*\s)?)(\d+(?:[.–-]\d+)*)", last.text or "", re.DOTALL)
        if found and LETTER.search("".join(map(_shown, pieces))):
            if last.style is not None:
                last.style.is_shared = True
            pieces[-1:] = [Piece(found[1], last.style), Piece(head=[Piece(found[2], last.style)], tag="ph")]
        return pieces

    def is_sequence(self, piece: Piece) -> bool:
        """Whether a piece is the number of a figure or table."""
        if piece.element is not None and piece.tag == "ph":
            return piece.element.tag in SEQUENCE or str(piece.element.get(f"{{{self.space}}}instr", "")).split()[:1] == ["SEQ"]
        words = "".join(one.element.text or "" for one in piece.head if self.word_of(one) == "instrText").split()
        return piece.tag == "ph" and words[:1] == ["SEQ"]

    def find_label(self, parent: Piece) -> None:
        """Makes a text of its own of the label at the begin of a caption, such as "Figure 3" before a colon or a full stop. A bookmark
        for references may be around it."""
        pieces, text = parent.inside, ""
        for i, piece in enumerate(pieces):
            inside = piece.inside if piece.tag == "g" and piece.element is None else ()
            is_end = self.is_sequence(inside[-1] if inside else piece)
            if inside and not is_end and not text and any(map(self.is_sequence, inside)):
                self.find_label(piece)
                return
            if not is_end and (inside or (piece.text is None and piece.tag not in ("begin", "end", "g"))):
                return
            text += "".join(one.text or "" for one in inside or (piece,))
            if is_end:
                after = next((one.text for one in pieces[i + 1:] if one.text is not None or one.tag not in ("begin", "end")), None)
                if len(text) <= MOST_LABEL and re.match(r"\s*[:.]\s", after or "") and LETTER.search(text) and not re.search("[.:!?]", text):
                    pieces[:i + 1] = [Piece(tag="ph", inside=pieces[:i + 1])]
                return

    def piece(self, child: Any, style: Format | None, found: list[Piece]) -> None:
        tag = child.tag
        count = child.get(COUNT, "1") if tag in WRITTEN else "x"
        if tag in RUN_TEXT and not len(child):
            text = child.text or ""
            if style is not None and style.properties and self.styles.raised is not None and style.is_raised and self.is_raised(text):
                found.append(Piece(head=[Piece(text, style)], tag="up"))
                self.has_raised = True
            elif style is not None and self.styles.languages.of_run(style.properties, self.in_foreign):
                self.foreign(text, style, found)
            else:
                self.words(text, style, found)
        elif count.isdecimal() and int(count[:9]) <= MOST_SPACES:
            text = WRITTEN[tag] * int(count)
            if text:
                self.words(text, style, found)
                self.ends_in_space = self.is_first = False
        elif tag in RUBY:
            self.ruby(child, found)
        else:
            found.append(Piece(element=child, style=style, tag="br" if tag in BREAK else "ph" if tag in SHOWN else "x"))
            self.ends_in_space = self.is_first = False
            if len(child) and tag not in LEFT and tag_name(tag) in KEPT and LETTERS.search(text_inside(child)):
                self.left[KEPT[tag_name(tag)]] += 1

    def grouped(self, pieces: list[Piece]) -> list[Piece]:
        """Puts what is between the two ends of a field, a bookmark or a comment inside one piece. Ends whose other end
        is elsewhere are marked. Those of a field divide sentences, so their order stays."""
        self.inside_words(pieces)
        pieces = self.placeholders(pieces)
        found: list[Piece] = []
        starts: list[tuple[int, Any]] = []  # index and key of each first end that waits for its other one
        for piece in pieces:
            kind, key = ("", None) if piece.element is None else self.pair(piece)
            if kind == "begin" and len(starts) < MOST_PAIRS:
                starts.append((len(found), key))
            elif kind == "begin" and key != "field":
                piece.tag = "begin"
            elif kind == "end":
                if starts and starts[-1][1] == key:
                    at = starts.pop()[0]
                    inside, begin = found[at + 1:], found[at]
                    found[at:] = [Piece(head=[begin], tail=[piece], inside=inside)
                                  if key != "field" else self.a_field([begin, *inside, piece])]
                    continue
                if key != "field":
                    piece.tag = "end"
            before = found[-1] if found else None
            if (before and piece.into is not None and before.into is not None and before.element.tag == piece.element.tag
                    and piece.element.tag in JOINED and self.is_bare(before) and self.is_bare(piece)
                    and before.element.attrib == piece.element.attrib):
                before.inside += piece.inside  # two spans with one style
            elif piece.text != "" or piece.text is None:
                found.append(piece)
        for at, key in starts:
            if key != "field":
                found[at].tag = "begin"
        return self.changes(found)

    @staticmethod
    def changes(pieces: list[Piece]) -> list[Piece]:
        """Puts deleted text and the inserted text beside it, which replaces it, into one piece."""
        if all(piece.element is None or piece.element.tag not in DELETED for piece in pieces):
            return pieces
        found: list[Piece] = []
        for piece in pieces:
            before = found[-1] if found else piece
            kinds = [one.element is not None and (one.element.tag in DELETED) - (one.element.tag in INSERTED) for one in (before, piece)]
            if kinds == [1, -1]:
                found[-1] = Piece(head=[before], inside=[piece])
            elif kinds == [-1, 1]:
                found[-1] = Piece(tail=[piece], inside=[before])
            else:
                found.append(piece)
        return found

    @staticmethod
    def edges(pieces: list[Piece]) -> None:
        """Keeps the ends of pairs at their place before the first word of a paragraph, and behind the last one."""
        for some in (pieces, reversed(pieces)):
            for piece in some:
                if piece.tag in ("begin", "end"):
                    piece.tag = "br"
                elif piece.inside or (piece.text and not piece.text.isspace()):
                    break

    def placeholders(self, pieces: list[Piece]) -> list[Piece]:
        """Puts each placeholder of a template that formats or elements divide, such as {{na and me}}, into a piece that is
        copied. The library sees one that is in one text."""
        if len(pieces) < 2:
            return pieces
        texts = [self.text_of(piece) for piece in pieces]
        whole = "".join(texts)
        places = placeholders(whole) if PLACEHOLDER.search(whole) else []
        if not places:
            return pieces
        ends = [*accumulate(map(len, texts))]
        begins = [end - len(text) for end, text in zip(ends, texts)]
        found: list[Piece] = []
        rest = 0  # the first piece that is not in found
        for begin, end in places:
            first, last = bisect_right(ends, begin), bisect_left(ends, end)
            if first == last or "\0" in whole[begin:end] or not all(
                    pieces[i].text is not None or self.can_divide(pieces[i])
                    for i, at in ((first, begin), (last, end)) if begins[i] < at < ends[i]):
                continue
            before, after = self.divided(pieces[first], begin - begins[first])
            inside, behind = self.divided(pieces[last], end - begins[last])
            found += [*pieces[rest:first], *before, Piece(head=[*after, *pieces[first + 1:last], *inside], tag="ph")]
            rest, begins[last] = last, end
            pieces[last:last + 1] = behind or [Piece("")]
        return found + pieces[rest:]

    def text_of(self, piece: Piece) -> str:
        """Returns the text of a piece, "" for the end of a pair, and a character that no text has for other elements."""
        if piece.text is not None:
            return piece.text
        if piece.tag == "g" and piece.inside and all(one.text is not None for one in piece.inside):
            return _shown(piece)
        return "" if self.pair(piece)[0] and self.word_of(piece) != "fldChar" else "\0"

    def can_divide(self, piece: Piece) -> bool:
        return piece.element is not None and piece.element.tag in JOINED and self.is_bare(piece)

    def divided(self, piece: Piece, at: int) -> tuple[list[Piece], list[Piece]]:
        """Returns the parts of a piece before and behind a character of its text."""
        if at <= 0:
            return [], [piece]
        if piece.text is None and at < len(_shown(piece)):
            element = self.same_element(piece.element)
            before, after = Piece(element=piece.element, into=piece.into, inside=[]), Piece(element=element, into=element, inside=[])
            for one in piece.inside:
                one_before, one_after = self.divided(one, at)
                before.inside += one_before
                after.inside += one_after
                at -= len(one.text or "")
            return [before], [after]
        if piece.text is None or at >= len(piece.text):
            return [piece], []
        if piece.style is not None:
            piece.style.is_shared = True
        return [Piece(piece.text[:at], piece.style)], [Piece(piece.text[at:], piece.style)]

    @staticmethod
    def is_bare(piece: Piece) -> bool:
        """Whether an element has attributes only, and no properties or content beside the pieces."""
        return piece.into is piece.element and next(iter(piece.element), piece.element).tag not in FIRST

    @staticmethod
    def word_of(piece: Piece) -> str:
        """Returns the name of a piece's element in a run, if the piece is no field or pair."""
        return "" if piece.style is None or piece.element is None else tag_name(piece.element.tag)

    def pair(self, piece: Piece) -> tuple[str, Any]:
        """Returns whether a piece is the begin or the end of a pair, and the pair's key."""
        if piece.element is None or piece.into is not None:
            return "", None
        tag = piece.element.tag
        if piece.style is not None and tag.endswith("}fldChar"):
            return {"begin": "begin", "end": "end"}.get(next(iter(
                value for key, value in piece.element.items() if key.endswith("}fldCharType")), ""), ""), "field"
        is_begin = tag in PAIRS
        if not is_begin and tag not in PAIR_ENDS:
            return "", None
        key = next((piece.element.get(name) for name in PAIR_IDS if name in piece.element.attrib), None)
        if key is None and is_begin:  # a comment on a place
            return "", None
        return "begin" if is_begin else "end", (PAIRS.get(tag, tag), key)

    def a_field(self, pieces: list[Piece]) -> Piece:
        """A field: its command, and the text that it shows, which is translated if it is a link's."""
        words = [self.word_of(piece) for piece in pieces]
        command = "".join(piece.element.text or "" for piece, word in zip(pieces, words) if word == "instrText")
        at = [i for i, word in enumerate(words) if word == "fldChar" and "separate" in pieces[i].element.attrib.values()]
        shown = "".join(map(_shown, pieces[at[0] + 1:-1])) if len(at) == 1 else ""
        if self.has_text(command, shown):
            is_alone, inside = self.is_alone(command), pieces[at[0] + 1:-1]
            return Piece(head=[piece for piece in pieces[:at[0] + 1] if piece.text is None], tail=[pieces[-1]],
                         tag="ph" if is_alone else "g", inside=self.with_number(inside) if is_alone else inside)
        if LETTERS.search(shown):
            self.left[KEPT["fldSimple"]] += 1
        return Piece(head=pieces, tag="ph" if shown.strip() else "x")

    def spell(self, parent: Piece, out: list[str], depth: int) -> None:
        """Appends the pieces inside a piece as text with tags. The format that most of the text has needs none."""
        if depth > MOST_INSIDE:
            raise FileError(f"a paragraph has too many elements inside each other: more than {MOST_INSIDE}")
        letters: dict[str, int] = {}
        styles: dict[str, Format | None] = {}
        keys, has_words = [], []  # of each piece: its format, and whether it has more than spaces
        for piece in parent.inside:
            text, key = piece.text, ""
            if text is not None:
                key = "" if piece.style is None else piece.style.key
                styles.setdefault(key, piece.style)
                letters[key] = letters.get(key, 0) + sum(map(str.isalnum, text))
            keys.append(key)
            has_words.append(bool(text) and not text.isspace())
        self.formats.update(key for key, n in letters.items() if n)
        base = max(letters, key=letters.__getitem__) if letters else ""  # the first of equal ones
        parent.style = styles.get(base)
        current, close = base, "</g>"
        following, key = [], base  # for each piece the format of the next text that is no space
        for own, is_word in zip(reversed(keys), reversed(has_words)):
            following.append(key)
            if is_word:
                key = own
        following.reverse()
        for piece, own, is_word, after in zip(parent.inside, keys, has_words, following):
            if is_word:
                key = own
            elif piece.tag in ("x", "ph", "up") or (piece.text and own == current == after):
                key = current
            else:
                key = base
            if key != current:
                if current != base:
                    out.append(close)
                if key != base:
                    out.append(self.tag(Piece(style=piece.style)))
                    close = f"</{piece.style.tag if piece.style else 'g'}>"
                current = key
            if piece.text is not None:
                out.append(escaped(piece.text))
                self.has_letters = self.has_letters or bool(LETTER.search(piece.text))
            else:
                tag = self.tag(piece)
                out.append(tag)
                if piece.tag == "g":
                    self.spell(piece, out, depth + 1)
                    out.append("</sub>" if tag.startswith("<sub") else "</g>")
        if current != base:
            out.append(close)

    def tag(self, piece: Piece) -> str:
        self.nodes.append(piece)
        if piece.tag == "ph" and piece.inside:
            self.roots.append(piece)
        if piece.tag in ("ph", "up"):
            return f'<ph id="{len(self.nodes) - 1}"></ph>'
        if piece.tag in ("begin", "end"):
            self.ends.setdefault(self.pair(piece)[1], []).append(len(self.nodes) - 1)
            piece.tag = "x"
        name = piece.tag
        if name == "g" and piece.element is not None and piece.element.get(STYLE_NAME) in self.styles.lowered:
            name = "sub"
        elif name == "g" and piece.style and piece.element is None and not piece.inside:
            name = piece.style.tag
        return f'<{name} id="{len(self.nodes) - 1}"{"" if piece.tag == "g" else "/"}>'

    # ---- writing ----------------------------------------------------------------------------------

    def write(self, texts: Sequence[str]) -> None:
        """Puts texts with the same tags in the paragraph. Each element of the paragraph moves to its place in a text."""
        if list(texts) == self.texts:
            return
        main = texts[0][len(self.lead):] if self.lead and texts[0].startswith(self.lead) else texts[0]
        element = self.element
        last = [one for one in element if one.tag in LAST]
        self.held = held = element.makeelement("held")  # has what is used again, while the old runs are taken out
        element.insert(0, held)
        held.extend(last)
        around, waiting = [(element, held)], [self.root]
        while waiting:
            piece = waiting.pop()
            if piece.style is not None and not piece.style.is_held:
                piece.style.is_held = True
                held.extend(piece.style.properties)
            if piece.element is not None:
                held.append(piece.element)
            if piece.into is not None:
                around.append((piece.element, piece.into))
            waiting += [*piece.head, *piece.inside, *piece.tail]
        for one, kept in around:
            self.empty(one, kept)
        self.weave(element, self.root, [main, *texts[1:]])
        element.extend(last)
        self.drop(held)
        if self.formats:
            self.left["a format that has no words in the translation"] += len(self.formats)
        self.left.update(f"{EMPTY[piece.element.tag]} that has no words in the translation" for piece in self.empty_elements(texts))

    def empty_elements(self, texts: Sequence[str]) -> list[Piece]:
        """Returns the elements of EMPTY that have words in the source and none in texts."""
        parts = [one for text in texts for one in re.findall(r'<g id="(\d+)">(\s*</g>)?', text)]
        found = [self.nodes[int(one)] for one in {one for one, _ in parts} - {one for one, is_empty in parts if not is_empty}]
        return [piece for piece in found if piece.element is not None and piece.element.tag in EMPTY and re.search(r"\w", _shown(piece))]

    def weave(self, target: Any, root: Piece, texts: Sequence[str]) -> None:
        """Appends the text of a root, and the texts of the roots that it has tags of."""
        number = self.roots.index(root)
        text = self.with_first_ends_first(texts[number])
        if number and self.texts and not STOP.search(TAG.sub("", self.texts[number])):
            text = STOP.sub("", text)  # models end a label as a sentence: "Figure. 3"
        stack: list[tuple[Any, Piece]] = [(target, root)]
        at = 0
        for found in TAG.finditer(text):
            target, parent = stack[-1]
            self.put(target, html.unescape(text[at:found.start()]), parent.style)
            at = found.end()
            if found[1]:
                self.emit(stack[-2][0], stack.pop()[1].tail)
                continue
            piece = self.part(int(found[3]))
            if piece.element is not None:
                self.append(target, piece)
            self.emit(target, piece.head)
            if piece.tag == "g":
                stack.append((target if piece.into is None else piece.into, piece))
            elif piece.inside:
                self.weave(target if piece.into is None else piece.into, piece, texts)
                self.emit(target, piece.tail)
        self.put(stack[0][0], html.unescape(text[at:]), root.style)

    def may_divide(self, number: int) -> bool:
        """Whether a format can have several parts: it is of runs, or an element with attributes only, which name nothing."""
        piece = self.nodes[number]
        return not (piece.head or piece.tail) and (not piece.inside if piece.element is None else self.can_divide(piece) and not any(
            name.endswith("}id") and tag_name(piece.element.tag) != "hyperlink" for name in piece.element.attrib))

    def part(self, number: int) -> Piece:
        """Returns a node or, if it was written before, its next part."""
        piece = self.nodes[number]
        if piece.element is None or number not in self.written:
            self.written.add(number)
            return piece
        if not self.copies.allow(sum(map(len, (*piece.element.attrib, *piece.element.attrib.values())))):
            return Piece(style=piece.style)
        element = self.same_element(piece.element)
        return Piece(style=piece.style, element=element, into=element)

    @staticmethod
    def same_element(element: Any) -> Any:
        """Returns an empty element with the same attributes."""
        return element.makeelement(element.tag, dict(element.attrib), element.nsmap)

    def with_first_ends_first(self, text: str) -> str:
        """Exchanges the ends of a pair whose last end a translation has before the first one."""
        places = {int(one[1]): one.start() for one in re.finditer(r'<x id="(\d+)"/>', text)} if self.ends else {}
        other = {}
        for some in self.ends.values():
            if len(some) == 2 and places.get(some[0], 0) > places.get(some[1], len(text)) and self.nodes[some[0]].element.tag in PAIRS:
                other.update({some[0]: some[1], some[1]: some[0]})
        return re.sub(r'<x id="(\d+)"/>', lambda one: f'<x id="{other.get(int(one[1]), one[1])}"/>', text) if other else text

    @staticmethod
    def drop(element: Any) -> None:
        """Removes an element from its parent. The time of lxml for this grows with the square of what is inside, so the
        innermost elements go first, one at a time."""
        for one in reversed([*element.iter()] if len(element) else ()):
            if len(one):
                one[:] = []
        element.getparent().remove(element)

    def empty(self, element: Any, into: Any = None) -> None:
        """Takes all out of an element but its properties, and the child that has its content."""
        element.text = None
        for one in [*element]:
            if one.tag in FIRST or one is into:
                one.tail = None
            elif len(one) < FEW_INSIDE and not any(map(len, one)):
                element.remove(one)
            else:
                self.drop(one)
        if into is not None and into is not element and into.tag in CONTENT:
            self.empty(into)

    def emit(self, target: Any, pieces: Sequence[Piece]) -> None:
        """Appends pieces with all that is inside them, as they were."""
        waiting = [(target, piece) for piece in reversed(pieces)]
        while waiting:
            target, piece = waiting.pop()
            if piece.text is not None:
                self.put(target, piece.text, piece.style)
                continue
            inner = target
            if piece.into is not None:
                inner = piece.into
            if piece.element is not None:
                self.append(target, piece)
            waiting += [(target, one) for one in reversed(piece.tail)]
            waiting += [(inner, one) for one in reversed(piece.inside)]
            waiting += [(target, one) for one in reversed(piece.head)]

    def append(self, target: Any, piece: Piece) -> None:
        """Appends the element of a piece, in a run if it was in one."""
        piece.element.tail = None
        (target if piece.style is None or piece.into is not None else self.run(target, piece.style)).append(piece.element)

    def run(self, target: Any, style: Format | None) -> Any:
        """Returns the run at the end of an element, if it has this format and takes more, or appends a new one."""
        at, run, before = self.copies.last
        if at is target and before is style and style is not None and style.is_shared and run.getnext() is None:
            return run
        run = etree.SubElement(target, f"{{{self.space}}}r")
        if style is not None and style.properties and self.copies.allow(style.size):
            run.extend(copy.deepcopy(one) for one in style.properties)
        self.copies.last = target, run, style
        return run

    def put_text(self, run: Any, text: str) -> None:
        """Appends an element with text to a run."""
        made = etree.SubElement(run, f"{{{self.space}}}t")
        made.text = text
        if self.space in SPACES["w"]:
            made.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")

    def put(self, target: Any, text: str, style: Format | None) -> None:
        """Appends text to an element: in a run with this style, or as it is."""
        text = xml_text(text)
        if not text:
            return
        if self.formats and not text.isspace() and any(map(str.isalnum, text)):
            self.formats.discard("" if style is None else style.key)
        space = self.space
        if self.is_runs:
            self.put_text(self.run(target, style), text)
            return
        last = next(target.iterchildren(reversed=True), None)
        last = None if last is self.held else last
        pieces = re.split(r"(?<= )( +)" if last is not None or target.text else r"^( +)|(?<= )( +)", text) \
            if space in SPACES["text"] else [text]
        for piece in pieces:  # OpenDocument has an element for all spaces but the first of several
            if piece and piece.isspace() and len(pieces) > 1:
                last = etree.SubElement(target, f"{{{space}}}s", {f"{{{space}}}c": str(len(piece))})
            elif piece and last is not None:
                last.tail = (last.tail or "") + piece
            elif piece:
                target.text = (target.text or "") + piece


def _shown(piece: Piece) -> str:
    """Returns the text of a piece and of the pieces inside."""
    found, waiting = [], [piece]
    while waiting:
        one = waiting.pop()
        found.append(one.text or "")
        waiting += reversed(one.inside)
    return "".join(found)
