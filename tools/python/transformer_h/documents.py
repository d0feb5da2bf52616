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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Sequence

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .languages import language_tag, set_language

if TYPE_CHECKING:
    from . import Model

MOST = 1 << 29  # bytes of a file, and of all parts of an archive when they are unpacked
MOST_TEXT = 1 << 26  # bytes of the parts that have texts: in memory, XML is up to 100 times as large as in a file
MOST_PARTS, MOST_SPACES, MOST_NAMESPACES, MOST_PAIRS = 20000, 64, 300, 50
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


@dataclass
class _Piece:
    """A part of a paragraph: text, or (text is None) an element with what is inside it."""

    text: str | None = None
    style: Any = None  # the properties of the run
    element: Any = None  # stands before the pieces inside; with `into`, around them
    into: Any = None
    tail: Any = None  # stands behind the pieces inside
    tag: str = "g"  # or x, br: nothing is inside
    inside: list[_Piece] = field(default_factory=list)


def _key(style: Any) -> bytes:
    """Returns the format that a run's properties mean. Equal formats have equal keys."""
    if style is None:
        return b""
    style = copy.deepcopy(style)
    for each in [one for one in style if one.tag in _IGNORED]:
        style.remove(each)
    for name in ("lang", "altLang", "dirty", "err", "noProof"):
        style.attrib.pop(name, None)
    return b"" if not len(style) and not style.attrib else etree.tostring(style, method="c14n", with_tail=False)


class _Paragraph:
    """A paragraph as a text with tags, and the paragraph with another such text."""

    def __init__(self, element: Any, plain_styles: frozenset[str]) -> None:
        self.element, self.plain_styles = element, plain_styles
        self.nodes: list[_Piece] = []
        self.root = _Piece(inside=self.grouped(self.pieces(element)))
        self.text = self.written(self.root)

    # ---- reading ----------------------------------------------------------------------------------

    def pieces(self, parent: Any) -> Iterator[_Piece]:
        if parent.text and parent.tag not in _CONTENT and not self.in_runs(parent):
            yield _Piece(parent.text)
        for child in parent:
            if child.tag in _FIRST or child.tag in _LAST:
                pass
            elif child.tag in _RUN:
                yield from self.run(child)
            elif child.tag in _CONTENT:
                yield from self.pieces(child)
            else:
                yield from self.piece(child, None)
            if child.tail and not self.in_runs(parent):
                yield _Piece(child.tail)

    @staticmethod
    def in_runs(element: Any) -> bool:
        """Whether the text of an element is in runs, and white space between them means nothing."""
        return etree.QName(element).namespace in (*_SPACES["w"], *_SPACES["a"])

    def piece(self, child: Any, run: Any) -> Iterator[_Piece]:
        style = None if run is None else next((one for one in run if one.tag in _FIRST), None)
        count = child.get(f"{{{_SPACES['text'][0]}}}c", "1") if child.tag in _WRITTEN else "x"
        if count.isdecimal() and int(count[:9]) <= MOST_SPACES:
            text = _WRITTEN[child.tag] * int(count)
            if text:
                yield _Piece(text, style)
        elif child.tag in _RUN_TEXT and not len(child):
            yield _Piece(child.text or "", style)
        elif child.tag in _INLINE and run is None:
            if child.get(f"{{{_SPACES['text'][0]}}}style-name") in self.plain_styles and len(child.attrib) == 1:
                yield from self.pieces(child)
                return
            shell = self.empty(child)
            shell.extend(copy.deepcopy(one) for one in child if one.tag in _FIRST)
            content = next((one for one in child if one.tag in _CONTENT), None)
            into = shell if content is None else etree.SubElement(shell, content.tag, content.attrib)
            inside = self.grouped(self.pieces(child))
            if inside and all(one.text is not None and not re.search(r"\w", one.text) for one in inside):
                yield _Piece(element=child, tag="x")  # a link on a sign, which belongs to no word
            else:
                yield _Piece(element=shell, into=into, inside=inside)
        else:
            yield _Piece(element=child, style=run, tag="br" if child.tag in _BREAK else "x")

    @staticmethod
    def empty(element: Any) -> Any:
        """Returns an element with the same name and attributes."""
        if len(element.nsmap) > MOST_NAMESPACES:  # copies of all of them would take very long
            raise FileError(f"more than {MOST_NAMESPACES} namespaces")
        return etree.Element(element.tag, element.attrib, element.nsmap)

    def run(self, run: Any) -> Iterator[_Piece]:
        for child in run:
            if child.tag not in _FIRST:
                yield from self.piece(child, run)

    def grouped(self, pieces: Iterable[_Piece]) -> list[_Piece]:
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
                    found[at:] = [_Piece(element=self.alone(begin), tail=self.alone(piece), inside=inside)
                                  if key != "field" else self.a_field([begin, *inside, piece])]
                    continue
                if key != "field":
                    piece.tag = "end"
            before = found[-1] if found else None
            if (before and before.into is not None and piece.into is not None and before.element.tag == piece.element.tag
                    and before.element.attrib == piece.element.attrib and not len(before.element) and not len(piece.element)):
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
    def word_of(piece: _Piece) -> str:
        """Returns the name of a piece's element in a run, if the piece is no field or pair."""
        return "" if piece.style is None or piece.element is None or isinstance(piece.element, list) else str(
            piece.element.tag).rpartition("}")[2]

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
        key = [value for name, value in piece.element.items() if re.sub(".*}", "", name) in _PAIR_IDS]
        if not key and is_begin:  # a comment on a place
            return "", None
        return "begin" if is_begin else "end", (_PAIRS.get(piece.element.tag, piece.element.tag), key)

    def a_field(self, pieces: list[_Piece]) -> _Piece:
        """A field: its command, and the text that it shows, which is translated if it is a link's."""
        command = "".join(piece.element.text or "" for piece in pieces if self.word_of(piece) == "instrText")
        at = [i for i, piece in enumerate(pieces)
              if self.word_of(piece) == "fldChar" and "separate" in piece.element.attrib.values()]
        if len(at) == 1 and command.split()[:1] == ["HYPERLINK"]:
            head = [self.alone(piece) for piece in pieces[:at[0] + 1] if piece.text is None]
            return _Piece(element=head, tail=self.alone(pieces[-1]), inside=pieces[at[0] + 1:-1])
        return _Piece(element=[each for piece in pieces for each in self.all_of(piece)], tag="x")

    def all_of(self, piece: _Piece) -> list[Any]:
        """The elements of a piece with all that is inside it."""
        made = etree.Element("all")
        self.fill(made, piece)
        return list(made)

    def fill(self, parent: Any, piece: _Piece) -> None:
        if piece.text is not None:
            self.put(parent, piece.text, piece.style)
            return
        for each in self.listed(self.alone(piece)):
            parent.append(each)
        for one in piece.inside:
            self.fill(parent if piece.into is None else piece.into, one)
        for each in self.listed(piece.tail):
            parent.append(each)

    @staticmethod
    def listed(element: Any) -> list[Any]:
        return element if isinstance(element, list) else [] if element is None else [element]

    def alone(self, piece: _Piece) -> Any:
        """The element of a piece, in a run of its own if it was in a run."""
        if piece.style is None or piece.tag == "g" or isinstance(piece.element, list):
            return piece.element
        if piece.element.getparent() is piece.style:
            run = self.empty(piece.style)
            run.extend(copy.deepcopy(one) for one in piece.style if one.tag in _FIRST)
            run.append(piece.element)
            piece.element = run
        return piece.element

    def written(self, parent: _Piece) -> str:
        """Returns the pieces inside a piece as text with tags. The format that most of the text has needs none."""
        letters: Counter[bytes] = Counter()
        styles: dict[bytes, Any] = {}
        for piece in parent.inside:
            if piece.text is not None:
                key = _key(piece.style)
                letters[key] += sum(map(str.isalnum, piece.text))
                styles.setdefault(key, piece.style)
        base = letters.most_common(1)[0][0] if letters else b""
        parent.style = styles.get(base)
        out, current = "", base
        for piece in parent.inside:
            key = current if piece.tag == "x" else base
            if piece.text and piece.text.strip():
                key = _key(piece.style)
            if key != current:
                out += "</g>" * (current != base)
                if key != base:
                    out += self.tag(_Piece(style=piece.style))
                current = key
            if piece.text is not None:
                out += html.escape(piece.text.translate(_NO_XML), quote=False)
            elif piece.tag == "g":
                out += self.tag(piece) + self.written(piece) + "</g>"
            else:
                out += self.tag(piece)
        return out + "</g>" * (current != base)

    def tag(self, piece: _Piece) -> str:
        self.nodes.append(piece)
        return f'<{piece.tag} id="{len(self.nodes) - 1}"{"" if piece.tag == "g" else "/"}>'

    # ---- writing ----------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Puts a text with the same tags in the paragraph."""
        if text == self.text:
            return
        element = self.element
        first = [one for one in element if one.tag in _FIRST]
        last = [one for one in element if one.tag in _LAST]
        for node in self.nodes:  # before the old runs go
            if node.tag != "g" or node.into is None:
                node.element = self.alone(node)
        element[:] = first
        element.text = None
        for one in first:
            one.tail = None
        stack: list[tuple[Any, Any, _Piece | None]] = [(element, self.root.style, None)]
        at = 0
        for found in _TAG.finditer(text):
            target, style, _ = stack[-1]
            self.put(target, html.unescape(text[at:found.start()]), style)
            at = found.end()
            if found[1]:
                ended = stack.pop()[2]
                for each in self.listed(ended.tail) if ended else []:
                    each.tail = None
                    stack[-1][0].append(each)
                continue
            piece = self.nodes[int(found[3])]
            for each in self.listed(piece.element):
                each.tail = None
                target.append(each)
            if piece.tag == "g":
                stack.append((target if piece.into is None else piece.into, piece.style, piece))
        self.put(element, html.unescape(text[at:]), self.root.style)
        element.extend(last)

    def put(self, target: Any, text: str, style: Any) -> None:
        """Appends text to an element: in a run with this style, or as it is."""
        text = text.translate(_NO_XML)
        space = etree.QName(self.element).namespace
        if not text:
            return
        if self.in_runs(self.element):
            run = etree.SubElement(target, f"{{{space}}}r")
            if style is not None:
                run.append(copy.deepcopy(style))
            made = etree.SubElement(run, f"{{{space}}}t")
            made.text = text
            if space in _SPACES["w"]:
                made.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
            return
        last = next(target.iterchildren(reversed=True), None)
        pieces = re.split(r"(?<= )( +)" if last is not None or target.text else r"^( +)|(?<= )( +)", text) \
            if space in _SPACES["text"] else [text]
        for piece in pieces:  # OpenDocument has an element for all spaces but the first of several
            if piece and piece.isspace() and len(pieces) > 1:
                last = etree.SubElement(target, f"{{{space}}}s", {f"{{{space}}}c": str(len(piece))})
            elif piece and last is not None:
                last.tail = (last.tail or "") + piece
            elif piece:
                target.text = (target.text or "") + piece


class _Xml:
    """A part of an archive in XML: its texts, and the part with translations."""

    def __init__(self, data: bytes, where: str, left: Counter[str]) -> None:
        try:
            parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False,
                                     remove_comments=True, remove_pis=True)
            self.tree = etree.fromstring(data, parser).getroottree()
        except etree.XMLSyntaxError as e:
            raise FileError(f"{where}: not XML that can be read: {e}") from None
        kind = self.tree.docinfo.internalDTD
        if kind is not None and (kind.entities() or any(kind.iterelements())):
            raise FileError(f"{where}: declares entities or elements, which documents do not need")
        root = self.tree.getroot()
        plain = self.plain_styles(root)
        self.paragraphs: list[_Paragraph] = []
        self.attributes = []
        skipped = set()
        for element in root.iter(etree.Element):
            if element.tag in _LEFT or element.getparent() in skipped:
                if element.tag in _LEFT:
                    left[_LEFT[element.tag]] += 1
                skipped.add(element)
            elif element.tag in _PARAGRAPH and not str(getattr(element.getparent(), "tag", "")).endswith("}docAuthor"):
                try:
                    self.paragraphs.append(_Paragraph(element, plain))
                except FileError as e:
                    raise FileError(f"{where}: {e}") from None
                except RecursionError:
                    raise FileError(f"{where}: a paragraph has too many elements inside each other") from None
            elif element.tag in _ALT:
                self.attributes += [(element, name) for name in ("descr", "title") if element.get(name)]
        self.paragraphs = [one for one in self.paragraphs if re.search(r"[^\W\d_]", html.unescape(_TAG.sub("", one.text)))]
        self.texts = [one.text for one in self.paragraphs]
        self.texts += [html.escape(element.get(name), quote=False) for element, name in self.attributes]

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
            found = re.search(rb"<(?:meta\s[^>]*?charset|\?xml\s[^>]*?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", data[:2048], re.I)
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
        self.left = [f"{what} ({n})" if n > 1 else what for what, n in self._found.items()]

    def _open(self, data: bytes, most: int, most_text: int) -> None:
        if etree is None:
            raise ImportError("this kind of file needs lxml: pip install 'transformer-h[documents]'")
        if data.startswith(b"\xd0\xcf\x11\xe0"):
            raise FileError(f"{self.name}: encrypted, or in Word's or PowerPoint's old format; save it without a password "
                            f"as {self.suffix}")
        if data.count(b"PK\1\2") > MOST_PARTS:  # zipfile would make an object for each, however many there are
            raise FileError(f"{self.name}: more than {MOST_PARTS} parts")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, OverflowError) as e:
            raise FileError(f"{self.name}: no zip archive, which {self.suffix[1:]} files are: {e}") from None
        parts = self._archive.infolist()
        seen: set[str] = set()
        size = text_size = 0
        for part in parts:
            has_text = re.fullmatch(ARCHIVES[self.suffix], part.filename, re.I)
            where, size = f"{self.name}: part {part.filename[:200]!r}", size + part.file_size
            text_size += part.file_size if has_text else 0
            for wrong, why in (
                    (part.filename in seen, "two parts have this name"),
                    (re.search(r"(^|/)\.\.(/|$)|^/|\\|^\w:|\0", part.filename) or not part.filename,
                     "this name leads out of the archive"),
                    (stat.S_ISLNK(part.external_attr >> 16), "a link"),
                    (part.flag_bits & 1, "encrypted; save the file without a password"),
                    (part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "compressed in an unusual way"),
                    (size > most, f"the parts up to this one have more than {most} bytes"),
                    (text_size > most_text, f"the parts with text up to this one have more than {most_text} bytes")):
                if wrong:
                    raise FileError(f"{where}: {why}")
            seen.add(part.filename)
        if self.suffix in (".odt", ".odp") and b"encryption-data" in self._read("META-INF/manifest.xml"):
            raise FileError(f"{self.name}: encrypted; save the file without a password")
        if "META-INF/encryption.xml" in seen and b"cipher" in self._read("META-INF/encryption.xml").lower() and not all(
                re.search(rb"\.idpf\.org/2008/embedding|ns\.adobe\.com/pdf/enc#RC", line) for line in re.findall(
                    rb"<[\w:]*EncryptionMethod[^>]*>", self._read("META-INF/encryption.xml"))):
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
                archive.writestr(same, parts.get(info.filename) or self._read(info.filename))
        return out.getvalue()


def translate(model: Model | Sequence[Model], path: str | os.PathLike[str], out: str | os.PathLike[str], *,
              most: int = MOST, **options: Any) -> list[str]:
    """Translates a file into another one; transformer_h.translate_file documents it."""
    with open(path, "rb") as stream:
        file = File(stream.read(most + 1), os.fspath(path), most)
    texts = file.texts
    for each in model if isinstance(model, Sequence) else [model]:
        texts = each.translate_document(texts, file.format, **options)
    lang = options.get("target_language") if options.get("lang") is None else options["lang"]
    if file.suffix in ARCHIVES and not (lang and language_tag(lang)[0]):
        file.left.append("the language that the file says it is in, because the new one is not known (lang=, --lang)")
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
