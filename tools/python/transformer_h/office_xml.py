"""The XML of office documents and books: a paragraph becomes a text with tags and is written again from its own elements."""

from __future__ import annotations

import copy
import html
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Sequence
from xml.parsers import expat

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .languages import set_language

MOST_SPACES, MOST_NAMESPACES, MOST_PAIRS = 64, 300, 50
MOST_NAMES = 20000  # characters of all namespaces that one element can use, because lxml searches them for each element
MOST_ATTRIBUTES = 300  # of one element: lxml's time for their values grows with the square
MOST_INSIDE, MOST_NESTED = 300, 20  # elements of a paragraph, and paragraphs, inside each other
MOST_COPIES = 4  # formats are repeated in at most as many times the bytes of their part of the archive

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
_IGNORED = _names("w:lang w:noProof")  # properties of a run that nobody sees
_IGNORED_ATTRIBUTES = ("lang", "altLang", "dirty", "err", "noProof")
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
    def key(self) -> str:
        """What the properties mean. Equal formats have equal keys. The characters \\0 to \\3 divide names and values, because
        XML has none of them."""
        if not self.properties:
            return ""
        style = self.properties[0]
        found = ["\0".join(one) for one in sorted(style.items()) if one[0] not in _IGNORED_ATTRIBUTES]
        for child in style:
            if child.tag not in _IGNORED:
                for event, one in etree.iterwalk(child, events=("start", "end")):
                    found.append("\3" if event == "end" else "\2".join(
                        (one.tag, one.text or "", *("\0".join(each) for each in sorted(one.items())))))
        return "\1".join((style.tag, *found)) if found else ""

    @cached_property
    def size(self) -> int:
        """About as many bytes as the properties have in the file."""
        return sum(9 + len(one.text or "") + len(_tag_name(one.tag)) + sum(
            5 + len(_tag_name(name)) + len(value) for name, value in one.items()) for each in self.properties for one in each.iter())


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


class XmlPart:
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
            self.check_names(root)
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
