"""The XML of office documents and books: a paragraph becomes a text with tags and is written again from its own elements."""

from __future__ import annotations

import copy
import html
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Sequence
from xml.parsers import expat

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .drop_caps import drop_caps
from .languages import set_language
from .markup import placeholders
from .office_names import (ALT, BASE, BREAK, CONTENT, COUNT, DATA, FIRST, IGNORED, IGNORED_ATTRIBUTES, INLINE, JOINED, KEPT,
                           LAST, LEFT, LETTER, LETTERS, LINK, MOST_RAISED, NO_XML, NUMBERING, NUMBERS, PAIRS, PAIR_ENDS, PAIR_IDS,
                           PARAGRAPH, RAISE, RUBY, RUN, RUN_STYLE, RUN_TEXT, SIMPLE, SPACES, STYLE_NAME, TAG, TEXT_FIELDS,
                           WRITTEN, names, raised_styles, tag_name, text_inside, val_of)

MOST_SPACES, MOST_NAMESPACES, MOST_PAIRS = 64, 300, 50
MOST_NAMES = 20000  # characters of all namespaces that one element can use, because lxml searches them for each element
MOST_ATTRIBUTES = 300  # of one element: lxml's time for their values grows with the square
MOST_INSIDE, MOST_NESTED = 300, 20  # elements of a paragraph, and paragraphs, inside each other
MOST_LINES = 500  # of a description: the text of an element is copied for each
MANY_SPACES = 4  # so many are a gap in a line, as a tab
GAP = re.compile(f"( {{{MANY_SPACES},}})")
MOST_COPIES = 4  # formats are repeated in at most as many times the bytes of their part of the archive


class FileError(ValueError):
    """A file that is not read: its message names the file and the part of it."""


class _Format:
    """The properties of a run, which all of its pieces share."""

    def __init__(self, properties: list[Any], is_shared: bool, raised: frozenset[str] = frozenset()) -> None:
        self.raised = raised  # styles
        self.properties = properties  # elements; the first is the run's own, others are invalid
        self.is_held = False
        self.is_shared = is_shared  # the run has several pieces, so what is written may have several too
        self.key = self.meaning() if properties else ""  # equal formats have equal keys

    def meaning(self) -> str:
        """What the properties mean. The characters \\0 to \\3 divide names and values, because
        XML has none of them."""
        style = self.properties[0]
        found = ["\0".join(one) for one in sorted(style.items()) if one[0] not in IGNORED_ATTRIBUTES]
        for child in style:
            if child.tag not in IGNORED:
                # most have nothing inside, and then iterwalk would be the longest part of this function
                for event, one in etree.iterwalk(child, events=("start", "end")) if len(child) else (("start", child), ("end", child)):
                    found.append("\3" if event == "end" else "\2".join(
                        (one.tag, one.text or "", *("\0".join(each) for each in sorted(one.items())))))
        return "\1".join((style.tag, *found)) if found else ""

    @cached_property
    def is_raised(self) -> bool:
        """Whether the run is superscript."""
        for one in self.properties[:1]:
            if one.get("baseline", "0").lstrip("+")[:1] in "123456789" or any(val_of(child) in (
                    ("superscript",) if child.tag in RAISE else self.raised) for child in one if child.tag in (*RAISE, *RUN_STYLE)):
                return True
        return False

    @cached_property
    def size(self) -> int:
        """About as many bytes as the properties have in the file."""
        return sum(9 + len(one.text or "") + len(tag_name(one.tag)) + sum(
            5 + len(tag_name(name)) + len(value) for name, value in one.items()) for each in self.properties for one in each.iter())


class _Piece:
    """A part of a paragraph: a text, an element that stays as it is, or what contains other pieces."""

    __slots__ = ("text", "style", "element", "into", "head", "tail", "tag", "inside")  # there are as many as runs

    def __init__(self, text: str | None = None, style: _Format | None = None, element: Any = None, into: Any = None,
                 head: Sequence[_Piece] = (), tail: Sequence[_Piece] = (), tag: str = "g", inside: Any = ()) -> None:
        self.text = text
        self.style = style  # of the run that has the piece
        self.element = element  # with all that is in it; with `into`, only its properties and attributes
        self.into = into  # the pieces inside are put into this element, which is `element` or a child of it
        self.head, self.tail = head, tail  # elements that stand before the pieces inside, and behind them
        self.tag = tag  # g, or x, ph, br: nothing is inside
        self.inside = inside  # a list of pieces, or nothing


class _Paragraph:
    """A paragraph as a text with tags, and the paragraph with another such text. Reading changes nothing in the tree."""

    def __init__(self, element: Any, styles: _Styles, copies: _Copies, left: Counter[str]) -> None:
        self.element, self.styles, self.copies, self.left = element, styles, copies, left
        self.space = etree.QName(element).namespace
        self.is_runs = self.space in (*SPACES["w"], *SPACES["a"])
        self.ends_in_space = False  # of OpenDocument: the next white space means nothing
        self.is_first, self.lead = True, ""  # white space at its beginning that means nothing
        self.nodes: list[_Piece] = []
        self.held: Any = None
        found: list[_Piece] = []
        self.read(element, found)
        self.ends: dict[Any, list[int]] = {}  # the nodes that are ends of pairs, for each pair whose ends stand alone
        self.root = _Piece(inside=self.grouped(found))
        self.edges(self.root.inside)
        out: list[str] = []
        self.spell(self.root, out, 0)
        self.text = "".join(out)

    def has_letters(self) -> bool:
        return bool(LETTER.search(html.unescape(TAG.sub("", self.text))))

    # ---- reading ----------------------------------------------------------------------------------

    def read(self, parent: Any, found: list[_Piece]) -> None:
        """Appends the pieces of a paragraph, or of an element inside it."""
        in_runs = etree.QName(parent).namespace in (*SPACES["w"], *SPACES["a"])  # white space between runs means nothing
        if parent.text and parent.tag not in CONTENT and not in_runs:
            self.letters(parent.text, found)
        for child in parent:
            tag = child.tag
            if tag in FIRST or tag in LAST:
                pass
            elif tag in RUN:
                properties = [one for one in child if one.tag in FIRST]
                style = _Format(properties, len(child) - len(properties) > 1, self.styles.raised or frozenset())
                for one in child:
                    if one.tag not in FIRST:
                        self.piece(one, style, found)
            elif tag in CONTENT or (tag in INLINE and child.get(STYLE_NAME) in self.styles.plain and len(child.attrib) == 1):
                self.read(child, found)
            elif tag in RUBY:
                self.ruby(child, found)
            elif tag in INLINE and not len(child) and child.get(STYLE_NAME) in (self.styles.raised or ()) and self.is_raised(child.text):
                found.append(_Piece(element=child, tag="ph"))
                self.ends_in_space = False
            elif tag in INLINE or (tag in SIMPLE and self.has_text(child.get(f"{{{self.space}}}instr"), text_inside(child))):
                inside: list[_Piece] = []
                self.read(child, inside)
                inside = self.grouped(inside)
                if tag in LINK and inside and all(one.text is not None and not re.search(r"[\w\s]", one.text) for one in inside):
                    found.append(_Piece(element=child, tag="x"))  # a link on a sign, which belongs to no word
                else:
                    into = next((one for one in child if one.tag in CONTENT), child)
                    found.append(_Piece(element=child, into=into, inside=inside))
            else:
                self.piece(child, None, found)
            if child.tail and not in_runs:
                self.letters(child.tail, found)

    def letters(self, text: str, found: list[_Piece]) -> None:
        """Appends text of an element. In OpenDocument, white space is one space, and none behind another and at the beginning."""
        if self.space in SPACES["text"]:
            lead = text[:len(text) - len(text.lstrip(" \t\r\n"))] if self.is_first else ""
            self.lead, self.is_first = self.lead or lead, False
            if lead:
                found.append(_Piece(lead))
            text = re.sub("[ \t\r\n]+", " ", text[len(lead):])
            if self.ends_in_space and text[:1] == " ":
                text = text[1:]
            if text:
                self.ends_in_space = text[-1] == " "
        elif "\n" in text:  # of a description
            for i, line in enumerate(re.split(r"(\s*\n\s*)", text, maxsplit=MOST_LINES)):
                found.append(_Piece(head=[_Piece(line)], tag="br") if i % 2 else _Piece(line))
            return
        self.words(text, None, found)

    @staticmethod
    def words(text: str, style: _Format | None, found: list[_Piece]) -> None:
        """Appends text. Many spaces are what a tab is to others."""
        for i, part in enumerate(GAP.split(text)):
            found.append(_Piece(head=[_Piece(part, style)], tag="br") if i % 2 else _Piece(part, style))

    def ruby(self, child: Any, found: list[_Piece]) -> None:
        """Appends the text that has readings over it, without the readings."""
        for one in child:
            if one.tag in BASE:
                self.read(one, found)

    @staticmethod
    def inside_words(found: list[_Piece]) -> None:
        """Makes superscript in front of a letter text again: a word has no place inside."""
        for piece, after in zip(found, found[1:]):
            if piece.tag != "ph" or after.text is None or not after.text[:1].isalnum():
                continue
            if piece.element is None:
                piece.text, piece.style, piece.head, piece.tag = piece.head[0].text, piece.head[0].style, (), "g"
            else:
                piece.tag, piece.into, piece.inside = "g", piece.element, [_Piece(piece.element.text)]

    @staticmethod
    def is_raised(text: str | None) -> bool:
        return bool(text and not text.isspace() and len(text.strip()) <= MOST_RAISED)

    @staticmethod
    def has_text(command: str | None, shown: str) -> bool:
        """Whether the result of a field is text for readers."""
        return (command or "").split(None, 1)[:1] != [] and (command or "").split(None, 1)[0].upper() in TEXT_FIELDS and (
            bool(LETTERS.search(shown)) or (command or "").split()[0] == "HYPERLINK")

    def piece(self, child: Any, style: _Format | None, found: list[_Piece]) -> None:
        tag = child.tag
        count = child.get(COUNT, "1") if tag in WRITTEN else "x"
        if count.isdecimal() and int(count[:9]) <= MOST_SPACES:
            text = WRITTEN[tag] * int(count)
            if text:
                self.words(text, style, found)
                self.ends_in_space = self.is_first = False
        elif tag in RUN_TEXT and not len(child):
            text = child.text or ""
            if style is not None and self.styles.raised is not None and style.is_raised and self.is_raised(text):
                found.append(_Piece(head=[_Piece(text, style)], tag="ph"))
            else:
                self.words(text, style, found)
        elif tag in RUBY:
            self.ruby(child, found)
        else:
            found.append(_Piece(element=child, style=style, tag="br" if tag in BREAK else "x"))
            self.ends_in_space = self.is_first = False
            if len(child) and tag not in LEFT and tag_name(tag) in KEPT and LETTERS.search(text_inside(child)):
                self.left[KEPT[tag_name(tag)]] += 1

    def grouped(self, pieces: list[_Piece]) -> list[_Piece]:
        """Puts what is between the two ends of a field, a bookmark or a comment inside one piece. Ends whose other end
        is elsewhere are marked. Those of a field divide sentences, so their order stays."""
        self.inside_words(pieces)
        pieces = self.placeholders(pieces)
        found: list[_Piece] = []
        starts: list[tuple[int, Any]] = []  # index and key of each first end that waits for its other one
        for piece in pieces:
            kind, key = self.pair(piece)
            if kind == "begin" and len(starts) < MOST_PAIRS:
                starts.append((len(found), key))
            elif kind == "begin" and key != "field":
                piece.tag = "begin"
            elif kind == "end":
                if starts and starts[-1][1] == key:
                    at = starts.pop()[0]
                    inside, begin = found[at + 1:], found[at]
                    found[at:] = [_Piece(head=[begin], tail=[piece], inside=inside)
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
        return found

    @staticmethod
    def edges(pieces: list[_Piece]) -> None:
        """Keeps the ends of pairs at their place before the first word of a paragraph, and behind the last one."""
        for some in (pieces, reversed(pieces)):
            for piece in some:
                if piece.tag in ("begin", "end"):
                    piece.tag = "br"
                elif piece.inside or (piece.text and not piece.text.isspace()):
                    break

    def placeholders(self, pieces: list[_Piece]) -> list[_Piece]:
        """Puts each placeholder of a template that formats or elements divide, such as {{na and me}}, into a piece that is
        copied. The library sees one that is in one text."""
        texts = [self.text_of(piece) for piece in pieces]
        ends = [*accumulate(map(len, texts))]
        begins = [end - len(text) for end, text in zip(ends, texts)]
        whole = "".join(texts)
        found: list[_Piece] = []
        rest = 0  # the first piece that is not in found
        for begin, end in placeholders(whole) if len(pieces) > 1 else ():
            first, last = bisect_right(ends, begin), bisect_left(ends, end)
            if first == last or "\0" in whole[begin:end] or not all(
                    pieces[i].text is not None or self.can_divide(pieces[i])
                    for i, at in ((first, begin), (last, end)) if begins[i] < at < ends[i]):
                continue
            before, after = self.divided(pieces[first], begin - begins[first])
            inside, behind = self.divided(pieces[last], end - begins[last])
            found += [*pieces[rest:first], *before, _Piece(head=[*after, *pieces[first + 1:last], *inside], tag="ph")]
            rest, begins[last] = last, end
            pieces[last:last + 1] = behind or [_Piece("")]
        return found + pieces[rest:]

    def text_of(self, piece: _Piece) -> str:
        """Returns the text of a piece, "" for the end of a pair, and a character that no text has for other elements."""
        if piece.text is not None:
            return piece.text
        if piece.tag == "g" and piece.inside and all(one.text is not None for one in piece.inside):
            return _shown(piece)
        return "" if self.pair(piece)[0] and self.word_of(piece) != "fldChar" else "\0"

    def can_divide(self, piece: _Piece) -> bool:
        return piece.element is not None and piece.element.tag in JOINED and self.is_bare(piece)

    def divided(self, piece: _Piece, at: int) -> tuple[list[_Piece], list[_Piece]]:
        """Returns the parts of a piece before and behind a character of its text."""
        if at <= 0:
            return [], [piece]
        if piece.text is None and at < len(_shown(piece)):
            element = piece.element.makeelement(piece.element.tag, dict(piece.element.attrib), piece.element.nsmap)
            before, after = _Piece(element=piece.element, into=piece.into, inside=[]), _Piece(element=element, into=element, inside=[])
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
        return [_Piece(piece.text[:at], piece.style)], [_Piece(piece.text[at:], piece.style)]

    @staticmethod
    def is_bare(piece: _Piece) -> bool:
        """Whether an element has attributes only, and no properties or content beside the pieces."""
        return piece.into is piece.element and next(iter(piece.element), piece.element).tag not in FIRST

    @staticmethod
    def word_of(piece: _Piece) -> str:
        """Returns the name of a piece's element in a run, if the piece is no field or pair."""
        return "" if piece.style is None or piece.element is None else tag_name(piece.element.tag)

    def pair(self, piece: _Piece) -> tuple[str, Any]:
        """Returns whether a piece is the begin or the end of a pair, and the pair's key."""
        if piece.element is None or piece.into is not None:
            return "", None
        if self.word_of(piece) == "fldChar":
            return {"begin": "begin", "end": "end"}.get(next(iter(
                value for key, value in piece.element.items() if key.endswith("}fldCharType")), ""), ""), "field"
        is_begin = piece.element.tag in PAIRS
        if not is_begin and piece.element.tag not in PAIR_ENDS:
            return "", None
        key = next((piece.element.get(name) for name in PAIR_IDS if name in piece.element.attrib), None)
        if key is None and is_begin:  # a comment on a place
            return "", None
        return "begin" if is_begin else "end", (PAIRS.get(piece.element.tag, piece.element.tag), key)

    def a_field(self, pieces: list[_Piece]) -> _Piece:
        """A field: its command, and the text that it shows, which is translated if it is a link's."""
        words = [self.word_of(piece) for piece in pieces]
        command = "".join(piece.element.text or "" for piece, word in zip(pieces, words) if word == "instrText")
        at = [i for i, word in enumerate(words) if word == "fldChar" and "separate" in pieces[i].element.attrib.values()]
        shown = "".join(map(_shown, pieces[at[0] + 1:-1])) if len(at) == 1 else ""
        if self.has_text(command, shown):
            return _Piece(head=[piece for piece in pieces[:at[0] + 1] if piece.text is None], tail=[pieces[-1]],
                          inside=pieces[at[0] + 1:-1])
        if LETTERS.search(shown):
            self.left[KEPT["fldSimple"]] += 1
        return _Piece(head=pieces, tag="x")

    def spell(self, parent: _Piece, out: list[str], depth: int) -> None:
        """Appends the pieces inside a piece as text with tags. The format that most of the text has needs none."""
        if depth > MOST_INSIDE:
            raise FileError(f"a paragraph has too many elements inside each other: more than {MOST_INSIDE}")
        letters: Counter[str] = Counter()
        styles: dict[str, _Format | None] = {}
        keys = ["" if piece.style is None or piece.text is None else piece.style.key for piece in parent.inside]
        for piece, key in zip(parent.inside, keys):
            if piece.text is not None:
                letters[key] += sum(map(str.isalnum, piece.text))
                styles.setdefault(key, piece.style)
        base = letters.most_common(1)[0][0] if letters else ""
        parent.style = styles.get(base)
        current = base
        for piece, own in zip(parent.inside, keys):
            key = own if piece.text and not piece.text.isspace() else current if piece.tag in ("x", "ph") else base
            if key != current:
                if current != base:
                    out.append("</g>")
                if key != base:
                    out.append(self.tag(_Piece(style=piece.style)))
                current = key
            if piece.text is not None:
                out.append(html.escape(NO_XML.sub("", piece.text), quote=False))
            else:
                out.append(self.tag(piece))
                if piece.tag == "g":
                    self.spell(piece, out, depth + 1)
                    out.append("</g>")
        if current != base:
            out.append("</g>")

    def tag(self, piece: _Piece) -> str:
        self.nodes.append(piece)
        if piece.tag == "ph":
            return f'<ph id="{len(self.nodes) - 1}"></ph>'
        if piece.tag in ("begin", "end"):
            self.ends.setdefault(self.pair(piece)[1], []).append(len(self.nodes) - 1)
            piece.tag = "x"
        return f'<{piece.tag} id="{len(self.nodes) - 1}"{"" if piece.tag == "g" else "/"}>'

    # ---- writing ----------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Puts a text with the same tags in the paragraph. Each element of the paragraph moves to its place in the text."""
        if text == self.text:
            return
        if self.lead and text.startswith(self.lead):
            text = text[len(self.lead):]
        text = self.with_first_ends_first(text)
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
        stack: list[tuple[Any, _Piece]] = [(element, self.root)]
        at = 0
        for found in TAG.finditer(text):
            target, parent = stack[-1]
            self.put(target, html.unescape(text[at:found.start()]), parent.style)
            at = found.end()
            if found[1]:
                self.emit(stack[-2][0], stack.pop()[1].tail)
                continue
            piece = self.nodes[int(found[3])]
            if piece.element is not None:
                self.append(target, piece)
            self.emit(target, piece.head)
            if piece.tag == "g":
                stack.append((target if piece.into is None else piece.into, piece))
        self.put(element, html.unescape(text[at:]), self.root.style)
        element.extend(last)
        self.drop(held)

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
            else:
                self.drop(one)
        if into is not None and into is not element and into.tag in CONTENT:
            self.empty(into)

    def emit(self, target: Any, pieces: Sequence[_Piece]) -> None:
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

    def append(self, target: Any, piece: _Piece) -> None:
        """Appends the element of a piece, in a run if it was in one."""
        piece.element.tail = None
        (target if piece.style is None or piece.into is not None else self.run(target, piece.style)).append(piece.element)

    def run(self, target: Any, style: _Format | None) -> Any:
        """Returns the run at the end of an element, if it has this format and takes more, or appends a new one."""
        at, run, before = self.copies.last
        if at is target and before is style and style is not None and style.is_shared and run.getnext() is None:
            return run
        run = etree.SubElement(target, f"{{{self.space}}}r")
        if style is not None and self.copies.allow(style):
            run.extend(copy.deepcopy(style.properties))
        self.copies.last = target, run, style
        return run

    def put(self, target: Any, text: str, style: _Format | None) -> None:
        """Appends text to an element: in a run with this style, or as it is."""
        text = NO_XML.sub("", text)
        if not text:
            return
        space = self.space
        if self.is_runs:
            made = etree.SubElement(self.run(target, style), f"{{{space}}}t")
            made.text = text
            if space in SPACES["w"]:
                made.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
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


def _shown(piece: _Piece) -> str:
    """Returns the text of a piece and of the pieces inside."""
    found, waiting = [], [piece]
    while waiting:
        one = waiting.pop()
        found.append(one.text or "")
        waiting += reversed(one.inside)
    return "".join(found)


@dataclass(frozen=True)
class _Styles:
    """Names of styles: those that change nothing, and those that are superscript."""

    plain: frozenset[str]
    raised: frozenset[str] | None  # None: superscript is text


class _Copies:
    """Bounds the copies of formats that the paragraphs of a part need: a tag may divide the text of a run anywhere, and each
    part of it becomes a run of its own."""

    def __init__(self, most: int, left: Counter[str]) -> None:
        self.most, self.left = most, left  # bytes
        self.last: tuple[Any, Any, _Format | None] = (None, None, None)  # the last run that was made, what has it, its format

    def allow(self, style: _Format) -> bool:
        self.most -= style.size
        if self.most < 0 and style.properties:
            self.left[f"formats of words that are not repeated, because they have more than {MOST_COPIES} times the bytes of the "
                      "document"] += 1
        return self.most >= 0


class XmlPart:
    """A part of an archive in XML: its texts, and the part with translations."""

    def __init__(self, data: bytes, where: str, left: Counter[str], raised: frozenset[str] = frozenset()) -> None:
        """raised: the superscript styles of other parts."""
        self.check_start(data, where)
        try:
            parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False,
                                     remove_comments=True, remove_pis=True)
            self.tree = etree.fromstring(data, parser).getroottree()
        except etree.XMLSyntaxError as e:
            if e.code == etree.ErrorTypes.ERR_NO_MEMORY:
                raise MemoryError(f"{where}: no memory for the part") from None
            raise FileError(f"{where}: not XML that can be read: {e}") from None
        root = self.tree.getroot()
        self.paragraphs: list[_Paragraph] = []
        self.attributes: list[tuple[Any, str]] = []
        try:
            self.check_names(root)
            self.raised = raised_styles(root, raised)
            self.drop_caps = drop_caps(root)
            self.read(root, _Styles(self.plain_styles(root), self.raised), _Copies(MOST_COPIES * len(data) + (1 << 14), left), left)
        except FileError as e:
            raise FileError(f"{where}: {e}") from None
        except RecursionError:
            raise FileError(f"{where}: a paragraph has too many elements inside each other") from None
        self.texts = [one.text for one in self.paragraphs]
        self.texts += [html.escape(element.get(name), quote=False) for element, name in self.attributes]

    @staticmethod
    def check_start(data: bytes, where: str) -> None:
        """Refuses declarations before the first element, before lxml uses them: a few of them can stand for much."""
        def refuse(*_: Any) -> None:
            raise FileError(f"{where}: declares entities or elements, which documents do not need")

        def begin(*_: Any) -> None:
            raise StopIteration

        start = expat.ParserCreate()
        start.EntityDeclHandler = start.ElementDeclHandler = start.AttlistDeclHandler = start.NotationDeclHandler = refuse
        start.StartElementHandler = begin
        try:
            start.Parse(data, True)
        except StopIteration:
            pass
        except (expat.ExpatError, ValueError, LookupError) as e:
            raise FileError(f"{where}: not XML that can be read: {e}") from None

    @staticmethod
    def check_names(root: Any) -> None:
        """Refuses names that make each look at an element take long."""
        if root.xpath(f"boolean(//*[count(@*) > {MOST_ATTRIBUTES}])"):
            raise FileError(f"an element with more than {MOST_ATTRIBUTES} attributes")
        names: list[int] = []  # characters of the namespaces around an element
        length = 0
        for event, one in etree.iterwalk(root, events=("start-ns", "end-ns")):
            if event == "end-ns":
                length -= names.pop()
                continue
            names.append(len(one[0]) + len(one[1]))
            length += names[-1]
            if len(names) > MOST_NAMESPACES:
                raise FileError(f"more than {MOST_NAMESPACES} namespaces")
            if length > MOST_NAMES:
                raise FileError(f"namespaces with more than {MOST_NAMES} characters")

    def read(self, root: Any, styles: _Styles, copies: _Copies, left: Counter[str]) -> None:
        nested = 0  # paragraphs around the element
        data: set[str] = set()  # what this part has of DATA: a line for each kind in a part
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag
            if event == "end":
                nested -= tag in PARAGRAPH
            elif tag in LEFT:
                left[LEFT[tag]] += 1
                walk.skip_subtree()
            elif tag in NUMBERS:
                walk.skip_subtree()
            elif tag in PARAGRAPH:
                nested += 1
                if nested > MOST_NESTED:  # each moves with what is in it
                    raise FileError(f"more than {MOST_NESTED} paragraphs inside each other")
                if str(getattr(element.getparent(), "tag", "")).endswith("}docAuthor"):
                    continue
                made = _Paragraph(element, styles, copies, left)
                if "<ph " in made.text and not made.has_letters():  # all of it is superscript
                    made = _Paragraph(element, _Styles(styles.plain, None), copies, left)
                if made.has_letters():
                    self.paragraphs.append(made)
            elif tag in DATA:
                data.add(DATA[tag])
            if event == "start" and tag in ALT:
                for name in ALT[tag]:
                    if (LETTERS if tag in NUMBERING else LETTER).search(element.get(name, "")):
                        self.attributes.append((element, name))
        for what in sorted(data):
            left[what] += 1

    @staticmethod
    def plain_styles(root: Any) -> frozenset[str]:
        """Returns styles of OpenDocument that change nothing: LibreOffice makes one for each session of work."""
        names = set()
        style, name = f"{{{SPACES['style'][0]}}}", f"{{{SPACES['style'][0]}}}name"
        for each in root.iter(style + "style"):
            only = [one for part in each for one in part.attrib if not one.endswith("rsid")]
            if each.get(style + "family") == "text" and each.get(style + "parent-style-name") is None and not only and all(
                    part.tag == style + "text-properties" and not len(part) for part in each):
                names.add(each.get(name))
        return frozenset(names)

    def join(self, texts: Sequence[str], lang: str | None) -> bytes:
        is_same = list(texts) == self.texts
        for paragraph, text in zip(self.paragraphs, texts):
            paragraph.write(text)
        for cap in self.drop_caps:
            cap.put_back()
        for (element, name), text in zip(self.attributes, texts[len(self.paragraphs):]):
            element.set(name, NO_XML.sub("", html.unescape(text)))
        if not (lang and set_language(self.tree.getroot(), lang, names)) and is_same:
            return b""  # the part as it was
        return bytes(etree.tostring(self.tree, xml_declaration=True, encoding="UTF-8",
                                    standalone=self.tree.docinfo.standalone))
