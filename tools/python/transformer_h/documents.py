"""Translates documents of other programs: docx, pptx, odt, odp, epub, and text files.

A paragraph of such a document becomes a text with tags: <g> around text with another format than most of the
paragraph, <x/> for a picture, a footnote or a formula inside a sentence, <br/> for a tab or the end of a line. The reader of
`translate --html` divides the paragraph into sentences and places the tags in the translation by alignment. Then the
paragraph is written again from its own elements. All other parts of a document are copied."""

from __future__ import annotations

import codecs
import copy
import html
import io
import os
import re
import stat
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Sequence
from xml.parsers import expat

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from ._transformer import lib
from .languages import language_tag, set_language

if TYPE_CHECKING:
    from . import Error, Model

MOST = 1 << 29  # bytes of a file, and of all parts of an archive when they are unpacked
MOST_TEXT = 1 << 26  # bytes of the parts that have texts: in memory, XML is up to 100 times as large as in a file
MOST_PARTS, MOST_SPACES, MOST_NAMESPACES, MOST_PAIRS = 20000, 64, 300, 50
MOST_NAME = 2000  # characters of a namespace, which lxml repeats with the name of each element
MOST_INSIDE, MOST_NESTED = 300, 20  # elements of a paragraph, and paragraphs, inside each other
MOST_COPIES = 4  # formats are repeated in at most as many times the bytes of their part of the archive
# The parts with texts unpack to at most as many times their bytes in the archive. Fewer bytes than FEW are always read.
MOST_RATIO, FEW = 200, 1 << 22
# Encodings of web pages. Python knows others, some of which need a time that grows with the square of the size.
_ENCODINGS = re.compile(r"utf-(8|16)(-sig|-[bl]e)?|ascii|iso8859-\d+|cp(125\d|866|874|932|949)|koi8-[ru]|mac-(roman|cyrillic)|"
                        r"gb2312|gbk|gb18030|big5|euc_(jp|kr)|shift_jis|iso2022_jp")

# Which format of Document a file's texts have, and which parts of an archive have texts.
TEXTS = {".txt": "wrapped", ".html": "html", ".htm": "html", ".xhtml": "html", ".md": "markdown", ".srt": "srt", ".vtt": "srt"}
ARCHIVES = {
    ".docx": r"(word|docProps)/.*\.xml",
    ".pptx": r"(ppt|docProps)/.*\.xml",
    ".odt": r"(.*/)?(content|styles|meta)\.xml",
    ".odp": r"(.*/)?(content|styles|meta)\.xml",
    ".epub": r".*\.(xhtml|html|htm|ncx|opf)",
}
SUFFIXES = (*ARCHIVES, *TEXTS)

_OOXML, _STRICT = "http://schemas.openxmlformats.org/", "http://purl.oclc.org/ooxml/"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_SPACES = {
    "w": (_OOXML + "wordprocessingml/2006/main", _STRICT + "wordprocessingml/main"),
    "a": (_OOXML + "drawingml/2006/main", _STRICT + "drawingml/main"),
    "c": (_OOXML + "drawingml/2006/chart", _STRICT + "drawingml/chart"),
    "p": (_OOXML + "presentationml/2006/main", _STRICT + "presentationml/main"),
    "wp": (_OOXML + "drawingml/2006/wordprocessingDrawing", _STRICT + "drawingml/wordprocessingDrawing"),
    "cp": (_OOXML + "package/2006/metadata/core-properties",),
    "text": (_ODF + "text:1.0",), "meta": (_ODF + "meta:1.0",), "office": (_ODF + "office:1.0",), "style": (_ODF + "style:1.0",),
    "svg": (_ODF + "svg-compatible:1.0",), "fo": (_ODF + "xsl-fo-compatible:1.0",), "opf": ("http://www.idpf.org/2007/opf",),
    "dc": ("http://purl.org/dc/elements/1.1/",),
    "ncx": ("http://www.daisy.org/z3986/2005/ncx/",),
}


def _names(words: str) -> frozenset[str]:
    """Returns the names prefix:name of a list as lxml has them, with each namespace of the prefix."""
    split = (word.split(":") for word in words.split())
    return frozenset(f"{{{space}}}{name}" for prefix, name in split for space in _SPACES[prefix])


def _table(rows: dict[str, str]) -> dict[str, str]:
    return {name: value for words, value in rows.items() for name in _names(words)}


_PARAGRAPH = _names("w:p a:p text:p text:h p:text svg:title svg:desc ncx:text dc:title dc:subject dc:description "
                    "cp:keywords meta:keyword")
_STYLE_NAME, _COUNT = (f"{{{_SPACES['text'][0]}}}{name}" for name in ("style-name", "c"))
_ALT = _names("wp:docPr p:cNvPr")  # elements whose attributes descr and title are read aloud
_RUN, _RUN_TEXT = _names("w:r a:r"), _names("w:t a:t")
# properties, which stay in front; what stays at the end
_FIRST = _names("w:pPr w:rPr w:sdtPr w:sdtEndPr w:smartTagPr w:customXmlPr a:pPr a:rPr")
_LAST = _names("a:endParaRPr")
# text inside these is the paragraph's own
_INLINE = _names("w:hyperlink w:ins w:moveTo w:smartTag w:customXml w:sdt w:dir w:bdo text:span text:a text:meta")
_CONTENT = _names("w:sdtContent")  # has the text of its parent
_BREAK = _names("w:tab w:ptab w:br w:cr a:br text:tab text:line-break w:fldChar w:instrText")
_WRITTEN = _table({"text:s": " ", "w:noBreakHyphen": "\u2011",  # elements that are characters
                   "w:softHyphen w:proofErr w:lastRenderedPageBreak text:soft-page-break": ""})
_PAIRS = {begin + "Start": begin + "End" for begin in _names("w:bookmark w:commentRange w:perm w:moveToRange w:moveFromRange")}
_PAIRS.update({begin + "-start": begin + "-end" for begin in _names(
    "text:bookmark text:reference-mark text:change text:alphabetical-index-mark text:toc-mark text:user-index-mark")})
_PAIRS.update({begin: begin + "-end" for begin in _names("office:annotation")})
_PAIR_ENDS = frozenset(_PAIRS.values())
_PAIR_IDS = ("id", "name", "change-id")  # the attribute that both ends have
# What is left as it is, and how a message calls it: elements with all that is in them, and parts of an archive.
_LEFT = _table({"w:del w:moveFrom text:tracked-changes": "deleted text of tracked changes",
                "c:strCache c:strLit": "names in the data of a chart"})
_LEFT_PARTS = {r"(word|ppt)/embeddings/.*": "an embedded file", r".*\bvbaProject\.bin|Basic/.*\.xml": "macros",
               r"_xmlsignatures/.*\.xml|META-INF/documentsignatures\.xml": "a digital signature, which is now invalid",
               r".*\.svg": "text in a drawing (SVG)"}
_IGNORED = _names("w:lang w:noProof")  # properties of a run that nobody sees
_NO_XML = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF])
_TAG = re.compile(r'<(/?)(g|x|br)(?: id="(\d+)")?/?>')


class FileError(ValueError):
    """A file that is not read: its message names the file and the part of it."""


class _Format:
    """The properties of a run, which all of its pieces share."""

    def __init__(self, properties: list[Any], is_shared: bool) -> None:
        self.properties = properties  # elements; the first is the run's own, others are invalid
        self.is_held = False
        self.is_shared = is_shared  # the run has several pieces, so what is written may have several too

    @cached_property
    def key(self) -> bytes:
        """What the properties mean. Equal formats have equal keys."""
        if not self.properties:
            return b""
        style = copy.deepcopy(self.properties[0])
        for each in [one for one in style if one.tag in _IGNORED]:
            style.remove(each)
        for name in ("lang", "altLang", "dirty", "err", "noProof"):
            style.attrib.pop(name, None)
        return b"" if not len(style) and not style.attrib else etree.tostring(style, method="c14n", exclusive=True, with_tail=False)

    @cached_property
    def size(self) -> int:
        """Bytes of the properties."""
        return sum(len(etree.tostring(one, with_tail=False)) for one in self.properties)


@dataclass
class _Piece:
    """A part of a paragraph: a text, an element that stays as it is, or what contains other pieces."""

    text: str | None = None
    style: _Format | None = None  # of the run that has the piece
    element: Any = None  # with all that is in it; with `into`, only its properties and attributes
    into: Any = None  # the pieces inside are put into this element, which is `element` or a child of it
    head: Sequence[_Piece] = ()  # elements that stand before the pieces inside
    tail: Sequence[_Piece] = ()  # elements that stand behind them
    tag: str = "g"  # or x, br: nothing is inside
    inside: list[_Piece] = field(default_factory=list)


def _tag_name(name: Any) -> str:
    """Returns the name without its namespace."""
    return str(name).rpartition("}")[2]


class _Paragraph:
    """A paragraph as a text with tags, and the paragraph with another such text. Reading changes nothing in the tree."""

    def __init__(self, element: Any, plain_styles: frozenset[str], copies: _Copies) -> None:
        self.element, self.plain_styles, self.copies = element, plain_styles, copies
        self.space = etree.QName(element).namespace
        self.is_runs = self.space in (*_SPACES["w"], *_SPACES["a"])
        self.nodes: list[_Piece] = []
        self.held: Any = None
        found: list[_Piece] = []
        self.read(element, found)
        self.root = _Piece(inside=self.grouped(found))
        out: list[str] = []
        self.spell(self.root, out, 0)
        self.text = "".join(out)

    # ---- reading ----------------------------------------------------------------------------------

    def read(self, parent: Any, found: list[_Piece]) -> None:
        """Appends the pieces of a paragraph, or of an element inside it."""
        in_runs = etree.QName(parent).namespace in (*_SPACES["w"], *_SPACES["a"])  # white space between runs means nothing
        if parent.text and parent.tag not in _CONTENT and not in_runs:
            found.append(_Piece(parent.text))
        for child in parent:
            tag = child.tag
            if tag in _FIRST or tag in _LAST:
                pass
            elif tag in _RUN:
                properties = [one for one in child if one.tag in _FIRST]
                style = _Format(properties, len(child) - len(properties) > 1)
                for one in child:
                    if one.tag not in _FIRST:
                        self.piece(one, style, found)
            elif tag in _CONTENT or (tag in _INLINE and child.get(_STYLE_NAME) in self.plain_styles and len(child.attrib) == 1):
                self.read(child, found)
            elif tag in _INLINE:
                inside: list[_Piece] = []
                self.read(child, inside)
                inside = self.grouped(inside)
                if inside and all(one.text is not None and not re.search(r"\w", one.text) for one in inside):
                    found.append(_Piece(element=child, tag="x"))  # a link on a sign, which belongs to no word
                else:
                    into = next((one for one in child if one.tag in _CONTENT), child)
                    found.append(_Piece(element=child, into=into, inside=inside))
            else:
                self.piece(child, None, found)
            if child.tail and not in_runs:
                found.append(_Piece(child.tail))

    @staticmethod
    def piece(child: Any, style: _Format | None, found: list[_Piece]) -> None:
        tag = child.tag
        count = child.get(_COUNT, "1") if tag in _WRITTEN else "x"
        if count.isdecimal() and int(count[:9]) <= MOST_SPACES:
            text = _WRITTEN[tag] * int(count)
            if text:
                found.append(_Piece(text, style))
        elif tag in _RUN_TEXT and not len(child):
            found.append(_Piece(child.text or "", style))
        else:
            found.append(_Piece(element=child, style=style, tag="br" if tag in _BREAK else "x"))

    def grouped(self, pieces: list[_Piece]) -> list[_Piece]:
        """Puts what is between the two ends of a field, a bookmark or a comment inside one piece. Ends whose other end
        is elsewhere do not move among the words: a first one stands at the beginning, a last one at the end. Those of a
        field divide sentences, so their order stays."""
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
                    and self.is_bare(before) and self.is_bare(piece) and before.element.attrib == piece.element.attrib):
                before.inside += piece.inside  # two spans with one style
            elif piece.text != "" or piece.text is None:
                found.append(piece)
        for at, key in starts:
            if key != "field":
                found[at].tag = "begin"
        first = [piece for piece in found if piece.tag == "begin"]
        last = [piece for piece in found if piece.tag == "end"]
        rest = [piece for piece in found if piece.tag not in ("begin", "end")]
        for piece in (*first, *last):
            piece.tag = "br"
        return first + rest + last

    @staticmethod
    def is_bare(piece: _Piece) -> bool:
        """Whether an element has attributes only, and no properties or content beside the pieces."""
        return piece.into is piece.element and next(iter(piece.element), piece.element).tag not in _FIRST

    @staticmethod
    def word_of(piece: _Piece) -> str:
        """Returns the name of a piece's element in a run, if the piece is no field or pair."""
        return "" if piece.style is None or piece.element is None else _tag_name(piece.element.tag)

    def pair(self, piece: _Piece) -> tuple[str, Any]:
        """Returns whether a piece is the begin or the end of a pair, and the pair's key."""
        if piece.element is None or piece.into is not None:
            return "", None
        if self.word_of(piece) == "fldChar":
            return {"begin": "begin", "end": "end"}.get(next(iter(
                value for key, value in piece.element.items() if key.endswith("}fldCharType")), ""), ""), "field"
        is_begin = piece.element.tag in _PAIRS
        if not is_begin and piece.element.tag not in _PAIR_ENDS:
            return "", None
        key = [value for name, value in piece.element.items() if _tag_name(name) in _PAIR_IDS]
        if not key and is_begin:  # a comment on a place
            return "", None
        return "begin" if is_begin else "end", (_PAIRS.get(piece.element.tag, piece.element.tag), key)

    def a_field(self, pieces: list[_Piece]) -> _Piece:
        """A field: its command, and the text that it shows, which is translated if it is a link's."""
        words = [self.word_of(piece) for piece in pieces]
        command = "".join(piece.element.text or "" for piece, word in zip(pieces, words) if word == "instrText")
        at = [i for i, word in enumerate(words) if word == "fldChar" and "separate" in pieces[i].element.attrib.values()]
        if len(at) == 1 and command.split(None, 1)[:1] == ["HYPERLINK"]:
            return _Piece(head=[piece for piece in pieces[:at[0] + 1] if piece.text is None], tail=[pieces[-1]],
                          inside=pieces[at[0] + 1:-1])
        return _Piece(head=pieces, tag="x")

    def spell(self, parent: _Piece, out: list[str], depth: int) -> None:
        """Appends the pieces inside a piece as text with tags. The format that most of the text has needs none."""
        if depth > MOST_INSIDE:
            raise FileError(f"a paragraph has too many elements inside each other: more than {MOST_INSIDE}")
        letters: Counter[bytes] = Counter()
        styles: dict[bytes, _Format | None] = {}
        keys = [b"" if piece.style is None or piece.text is None else piece.style.key for piece in parent.inside]
        for piece, key in zip(parent.inside, keys):
            if piece.text is not None:
                letters[key] += sum(map(str.isalnum, piece.text))
                styles.setdefault(key, piece.style)
        base = letters.most_common(1)[0][0] if letters else b""
        parent.style = styles.get(base)
        current = base
        for piece, own in zip(parent.inside, keys):
            key = own if piece.text and not piece.text.isspace() else current if piece.tag == "x" else base
            if key != current:
                if current != base:
                    out.append("</g>")
                if key != base:
                    out.append(self.tag(_Piece(style=piece.style)))
                current = key
            if piece.text is not None:
                out.append(html.escape(piece.text.translate(_NO_XML), quote=False))
            else:
                out.append(self.tag(piece))
                if piece.tag == "g":
                    self.spell(piece, out, depth + 1)
                    out.append("</g>")
        if current != base:
            out.append("</g>")

    def tag(self, piece: _Piece) -> str:
        self.nodes.append(piece)
        if piece.tag in ("begin", "end"):  # of a pair whose other end is not inside the same field or bookmark
            piece.tag = "br"
        return f'<{piece.tag} id="{len(self.nodes) - 1}"{"" if piece.tag == "g" else "/"}>'

    # ---- writing ----------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Puts a text with the same tags in the paragraph. Each element of the paragraph moves to its place in the text."""
        if text == self.text:
            return
        element = self.element
        last = [one for one in element if one.tag in _LAST]
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
        for found in _TAG.finditer(text):
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

    @staticmethod
    def drop(element: Any) -> None:
        """Removes an element from its parent. The time of lxml for this grows with the square of what is inside, so the
        innermost elements go first, one at a time."""
        for one in reversed([*element.iter()]):
            if len(one):
                one[:] = []
        element.getparent().remove(element)

    def empty(self, element: Any, into: Any = None) -> None:
        """Takes all out of an element but its properties, and the child that has its content."""
        element.text = None
        for one in [*element]:
            if one.tag in _FIRST or one is into:
                one.tail = None
            else:
                self.drop(one)
        if into is not None and into is not element and into.tag in _CONTENT:
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
        text = text.translate(_NO_XML)
        space = self.space
        if not text:
            return
        if self.is_runs:
            made = etree.SubElement(self.run(target, style), f"{{{space}}}t")
            made.text = text
            if space in _SPACES["w"]:
                made.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
            return
        last = next(target.iterchildren(reversed=True), None)
        last = None if last is self.held else last
        pieces = re.split(r"(?<= )( +)" if last is not None or target.text else r"^( +)|(?<= )( +)", text) \
            if space in _SPACES["text"] else [text]
        for piece in pieces:  # OpenDocument has an element for all spaces but the first of several
            if piece and piece.isspace() and len(pieces) > 1:
                last = etree.SubElement(target, f"{{{space}}}s", {f"{{{space}}}c": str(len(piece))})
            elif piece and last is not None:
                last.tail = (last.tail or "") + piece
            elif piece:
                target.text = (target.text or "") + piece


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


class _Xml:
    """A part of an archive in XML: its texts, and the part with translations."""

    def __init__(self, data: bytes, where: str, left: Counter[str]) -> None:
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
            self.check_namespaces(root)
            self.read(root, self.plain_styles(root), _Copies(MOST_COPIES * len(data) + (1 << 14), left), left)
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
    def check_namespaces(root: Any) -> None:
        """Refuses names that make each look at an element take long."""
        n = 0
        for event, one in etree.iterwalk(root, events=("start-ns", "end-ns")):
            n += 1 if event == "start-ns" else -1
            if n > MOST_NAMESPACES:
                raise FileError(f"more than {MOST_NAMESPACES} namespaces")
            if one and len(one[1]) > MOST_NAME:
                raise FileError(f"a namespace has more than {MOST_NAME} characters")

    def read(self, root: Any, plain: frozenset[str], copies: _Copies, left: Counter[str]) -> None:
        nested = 0  # paragraphs around the element
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag
            if event == "end":
                nested -= tag in _PARAGRAPH
            elif tag in _LEFT:
                left[_LEFT[tag]] += 1
                walk.skip_subtree()
            elif tag in _PARAGRAPH:
                nested += 1
                if nested > MOST_NESTED:  # each moves with what is in it
                    raise FileError(f"more than {MOST_NESTED} paragraphs inside each other")
                if str(getattr(element.getparent(), "tag", "")).endswith("}docAuthor"):
                    continue
                made = _Paragraph(element, plain, copies)
                if re.search(r"[^\W\d_]", html.unescape(_TAG.sub("", made.text))):
                    self.paragraphs.append(made)
            elif tag in _ALT:
                self.attributes += [(element, name) for name in ("descr", "title") if element.get(name)]

    @staticmethod
    def plain_styles(root: Any) -> frozenset[str]:
        """Returns styles of OpenDocument that change nothing: LibreOffice makes one for each session of work."""
        names = set()
        style, name = f"{{{_SPACES['style'][0]}}}", f"{{{_SPACES['style'][0]}}}name"
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
        for (element, name), text in zip(self.attributes, texts[len(self.paragraphs):]):
            element.set(name, html.unescape(text).translate(_NO_XML))
        if not (lang and set_language(self.tree.getroot(), lang, _names)) and is_same:
            return b""  # the part as it was
        return bytes(etree.tostring(self.tree, xml_declaration=True, encoding="UTF-8",
                                    standalone=self.tree.docinfo.standalone))


class _Text:
    """A file or a part that the library reads as it is."""

    def __init__(self, data: bytes, where: str, is_html: bool) -> None:
        marks = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
        self.encoding = next((name for mark, name in marks.items() if data.startswith(mark)), "utf-8")
        if is_html and self.encoding == "utf-8":
            found = re.search(rb"<(?:meta\s[^<>]*?charset|\?xml\s[^<>]*?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", data[:2048], re.I)
            self.encoding = found[1].decode() if found and not re.match(b"utf-?16", found[1], re.I) else "utf-8"
        try:
            if not _ENCODINGS.fullmatch(codecs.lookup(self.encoding).name):
                raise LookupError
            text = data.decode(self.encoding)
        except UnicodeDecodeError as e:
            raise FileError(f"{where}: not {e.encoding} at byte {e.start}; convert the file to UTF-8") from None
        except (LookupError, UnicodeError):
            raise FileError(f"{where}: its encoding {self.encoding} is not known; convert the file to UTF-8") from None
        if is_html and re.search(r"<!ENTITY", text, re.I):
            raise FileError(f"{where}: declares entities, which documents do not need")
        self.is_html, self.texts = is_html, [text]

    def join(self, texts: Sequence[str], lang: str | None) -> bytes:
        return texts[0].encode(self.encoding, "xmlcharrefreplace" if self.is_html else "replace")


class File:
    """A file's texts, and the file with translations in their places.

        file = File(Path("letter.docx").read_bytes(), "letter.docx")
        data = file.join(model.translate_document(file.texts, file.format))

    name is for messages, and its suffix says what the file is. left has a line about each thing that stays as it is.
    Raises FileError for a file that cannot be read, that is larger than `most` bytes, unpacked or not, or that has
    more than `most_text` bytes of text."""

    def __init__(self, data: bytes, name: str, most: int = MOST, most_text: int = MOST_TEXT) -> None:
        self.name, self.suffix = name, Path(name).suffix.lower()
        self._found: Counter[str] = Counter()
        if self.suffix not in SUFFIXES:
            raise FileError(f"{name}: expected a file {', '.join(SUFFIXES)}")
        if len(data) > most:
            raise FileError(f"{name}: larger than {most} bytes")
        self.format = TEXTS.get(self.suffix, "html")
        self._parts: dict[str, _Xml | _Text] = {}
        if self.suffix in TEXTS:
            if len(data) > most_text:
                raise FileError(f"{name}: larger than {most_text} bytes")
            self._parts[""] = _Text(data, name, self.format == "html")
        else:
            self._open(data, most, most_text)
        self.texts = [text for part in self._parts.values() for text in part.texts]

    @property
    def left(self) -> list[str]:
        return [f"{what} ({n})" if n > 1 else what for what, n in self._found.items()]

    def leave(self, what: str, n: int = 1) -> None:
        """Adds something to `left`."""
        self._found[what] += n

    def leave_sentence(self, error: Error) -> None:
        """Adds a sentence that is not translated to `left`."""
        self.leave("a sentence that is too long for the model" if error.status == lib.TFM_E_TOO_LONG else
                   f"a sentence that cannot be translated: {error.message[:200]}")

    def _open(self, data: bytes, most: int, most_text: int) -> None:
        if etree is None:
            raise ImportError("this kind of file needs lxml: pip install 'transformer-h[documents]'")
        if data.startswith(b"\xd0\xcf\x11\xe0"):
            raise FileError(f"{self.name}: encrypted, or in Word's or PowerPoint's old format; save it without a password "
                            f"as {self.suffix}")
        if data.count(b"PK\1\2") > MOST_PARTS:  # zipfile would make an object for each, however many there are
            raise FileError(f"{self.name}: more than {MOST_PARTS} parts")
        self._data = memoryview(data)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, OverflowError) as e:
            raise FileError(f"{self.name}: no zip archive, which {self.suffix[1:]} files are: {e}") from None
        parts = self._archive.infolist()
        seen: set[str] = set()
        size = text_size = packed = 0
        for part in parts:
            where, size = f"{self.name}: part {part.filename[:200]!r}", size + part.file_size
            if re.fullmatch(ARCHIVES[self.suffix], part.filename, re.I) or part.filename.startswith("META-INF/"):
                text_size, packed = text_size + part.file_size, packed + part.compress_size
            for wrong, why in (
                    (part.filename in seen, "two parts have this name"),
                    (re.search(r"(^|/)\.\.(/|$)|^/|\\|^\w:|\0", part.filename) or not part.filename,
                     "this name leads out of the archive"),
                    (stat.S_ISLNK(part.external_attr >> 16), "a link"),
                    (part.flag_bits & 1, "encrypted; save the file without a password"),
                    (part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "compressed in an unusual way"),
                    (size > most, f"the parts up to this one have more than {most} bytes"),
                    (text_size > most_text, f"the parts with text up to this one have more than {most_text} bytes"),
                    (text_size > max(FEW, MOST_RATIO * packed),
                     f"the parts with text up to this one unpack to more than {MOST_RATIO} times their size")):
                if wrong:
                    raise FileError(f"{where}: {why}")
            seen.add(part.filename)
        if self.suffix in (".odt", ".odp") and b"encryption-data" in self._read("META-INF/manifest.xml"):
            raise FileError(f"{self.name}: encrypted; save the file without a password")
        encryption = self._read("META-INF/encryption.xml")
        if re.search(rb"cipher", encryption, re.I) and not all(
                re.search(rb"\.idpf\.org/2008/embedding|ns\.adobe\.com/pdf/enc#RC", one[0])
                for one in re.finditer(rb"<(?:[\w.-]+:)?EncryptionMethod\b[^<>]*>", encryption)):
            raise FileError(f"{self.name}: encrypted (DRM)")
        for part in parts:
            for pattern, what in _LEFT_PARTS.items():
                if re.fullmatch(pattern, part.filename):
                    self._found[what] += 1
            if not re.fullmatch(ARCHIVES[self.suffix], part.filename, re.I):
                continue
            where, content = f"{self.name}: part {part.filename!r}", self._read(part.filename)
            self._parts[part.filename] = (
                _Text(content, where, True) if self.suffix == ".epub" and not re.search(r"\.(ncx|opf)$", part.filename, re.I)
                else _Xml(content, where, self._found))
        if not self._parts:
            raise FileError(f"{self.name}: the archive has none of the parts of {self.suffix[1:]} files")

    def _read(self, part: str) -> bytes:
        try:
            with self._archive.open(part) as stream:  # read() would unpack all of a part that says it is smaller
                return stream.read(self._archive.getinfo(part).file_size + 1)
        except KeyError:
            return b""
        except Exception as e:  # what zipfile and zlib raise for damaged data differs between versions
            raise FileError(f"{self.name}: part {part!r}: damaged: {e}") from None

    def _copy(self, info: zipfile.ZipInfo, same: zipfile.ZipInfo, archive: zipfile.ZipFile, out: io.BytesIO) -> None:
        """Copies a part as it is packed, because unpacking may take a thousand times as long."""
        at, data = info.header_offset, self._data
        begin = at + 30 + int.from_bytes(data[at + 26:at + 28], "little") + int.from_bytes(data[at + 28:at + 30], "little")
        packed = data[begin:begin + info.compress_size]
        if bytes(data[at:at + 4]) != b"PK\3\4" or len(packed) != info.compress_size:
            raise FileError(f"{self.name}: part {info.filename!r}: damaged")
        same.CRC, same.compress_size, same.file_size = info.CRC, info.compress_size, info.file_size
        same.header_offset = out.tell()
        out.write(same.FileHeader())
        out.write(packed)
        archive.filelist.append(same)
        archive.NameToInfo[same.filename] = same
        archive.start_dir = out.tell()  # where the list of parts is written at the end

    def join(self, texts: Iterable[str], lang: str | None = None) -> bytes:
        """Returns the file with a text in the place of each of `texts`. It can be called once. lang is the code of their
        language: docx, pptx, odt, odp and epub then say that they are in this language. HTML, also the pages of epub,
        says it if translate_document knew it."""
        made = list(texts)
        if len(made) != len(self.texts):
            raise ValueError(f"{len(made)} texts for {len(self.texts)}")
        parts, at = {}, 0
        for name, part in self._parts.items():
            parts[name] = part.join(made[at:at + len(part.texts)], lang)
            at += len(part.texts)
        if self.suffix in TEXTS:
            return parts[""]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:  # the same parts in the same order, as epub and odt need
            for info in self._archive.infolist():
                same = zipfile.ZipInfo(info.filename, max(info.date_time, (1980, 1, 1, 0, 0, 0)))
                same.compress_type, same.external_attr = info.compress_type, info.external_attr
                if parts.get(info.filename):
                    archive.writestr(same, parts[info.filename])
                else:
                    self._copy(info, same, archive, out)
        return out.getvalue()


def _raise(error: Exception) -> None:
    raise error


def translate(model: Model | Sequence[Model], path: str | os.PathLike[str], out: str | os.PathLike[str], *,
              most: int = MOST, **options: Any) -> list[str]:
    """Translates a file into another one; transformer_h.translate_file documents it."""
    with open(path, "rb") as stream:
        file = File(stream.read(most + 1), os.fspath(path), most)
    texts, on_error = file.texts, options.pop("on_error", None)
    if on_error is None:
        options["on_error"] = lambda error: file.leave_sentence(error) if error.status == lib.TFM_E_TOO_LONG else _raise(error)
    else:
        options["on_error"] = file.leave_sentence if on_error == "copy" else on_error
    for each in model if isinstance(model, Sequence) else [model]:
        texts = each.translate_document(texts, file.format, **options)
    lang = options.get("target_language") if options.get("lang") is None else options["lang"]
    if file.suffix in ARCHIVES and not (lang and language_tag(lang)[0]):
        file.leave("the language that the file says it is in, because the new one is not known (lang=, --lang)")
    data, out = file.join(texts, lang), Path(out)
    temporary = out.with_name(f".{out.name[:200]}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
        os.replace(temporary, out)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return file.left
