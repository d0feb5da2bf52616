"""The XML of office documents and books: what of a part of the archive is text, and the part with other texts."""

from __future__ import annotations

import html
import re
from collections import ChainMap, Counter
from dataclasses import replace
from typing import Any, Callable, Iterator, Sequence
from xml.parsers import expat

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .drop_caps import drop_caps
from .languages import set_language
from .office_formats import MOST_COPIES, Copies, Styles
from .office_languages import FOREIGN, Languages
from .office_names import ALT, DATA, LEFT, LETTER, LETTERS, NO_XML, NUMBERING, NUMBERS, PARAGRAPH, SPACES, names, shifted_styles
from .office_paragraphs import Paragraph
from .office_plain import plain_paragraph
from .office_work import FileError, Work, WorkError

MOST_NAMESPACES = 300
MOST_NAMES = 20000  # characters of all namespaces that one element can use, because lxml searches them for each element
MOST_ATTRIBUTES = 300  # of one element: lxml's time for their values grows with the square
MOST_NESTED = 20  # paragraphs inside each other
SECTION = 1 << 17  # bytes
# What is divided into sections, and what may be around it
BODIES = names("w:body w:footnotes w:endnotes w:comments office:text")
AROUND = names("w:document office:document-content office:document office:body")
OPENING_TAG = re.compile(rb"""<[^"'>]*(?:"[^"]*"[^"'>]*|'[^']*'[^"'>]*)*>""")
MARK = "here"  # the comment that stands for the sections; others are not read
WALKED = [*{*PARAGRAPH, *LEFT, *NUMBERS, *DATA, *ALT}]


class Sections:
    """Where the sections of a part are: each is some of the elements in the first of BODIES. A part that is small, or in another
    encoding than UTF-8, has none."""

    def __init__(self, data: bytes) -> None:
        self.begins: list[int] = []  # of each section in the part
        self.end = 0  # of the last one
        self.path: list[int] = []  # of the body in the tree: the number of each element in its parent
        self.opening, self.closing = b"", b""  # tags of the elements around the sections
        if len(data) < 2 * SECTION:
            return
        declared = re.match(rb"""(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding\s*=\s*["']([^"']*)""", data)
        # drop_caps needs neighbours
        if b"\0" not in data[:4] and (not declared or declared[1].lower() == b"utf-8") and not re.search(
                rb"<!DOCTYPE|dropCap", data):
            self.find(data)

    def find(self, data: bytes) -> None:
        depth, body = 0, None  # body: how many elements are around its children
        numbers = [-1]  # of the last child of each element around
        least = SECTION

        def start(tag: str, _: Any) -> None:
            nonlocal depth, body, least
            depth += 1
            if body is None:
                numbers[-1] += 1
                numbers.append(-1)
                is_body = "{" + tag in BODIES
                if is_body or "{" + tag in AROUND:
                    opened = OPENING_TAG.match(data, parser.CurrentByteIndex)
                    if opened and self.is_around(depth):
                        self.opening += opened[0]
                        self.closing = b"</" + re.split(rb"[\s/>]", opened[0][1:], maxsplit=1)[0] + b">" + self.closing
                        self.path.append(numbers[-2])
                        if is_body:
                            body, least = depth, max(SECTION, 4 * len(self.opening))
                if not self.path:
                    raise StopIteration
            elif depth == body + 1:
                at = parser.CurrentByteIndex
                if not self.begins or at - self.begins[-1] >= least:
                    self.begins.append(at)

        def end(tag: str) -> None:
            nonlocal depth
            if depth == body:
                self.end = parser.CurrentByteIndex
                raise StopIteration
            if depth == len(self.path):  # it was not around the body
                raise StopIteration
            if body is None:
                numbers.pop()
            depth -= 1

        parser = expat.ParserCreate(namespace_separator="}")
        parser.StartElementHandler, parser.EndElementHandler = start, end
        try:
            parser.Parse(data, True)
        except (StopIteration, expat.ExpatError, ValueError):
            pass
        if not self.end or len(self.begins) < 2:  # lxml says what is wrong
            self.begins = []

    def is_around(self, depth: int) -> bool:
        """Whether all elements around one at this depth are in the path."""
        return len(self.path) == depth - 1

    def bytes_of(self, data: bytes, number: int) -> bytes:
        """Returns a section with the elements around it; of -1 the part without the sections."""
        if not self.begins:
            return data
        if number < 0:
            return data[:self.begins[0]] + data[self.end:]
        return self.opening + data[self.begins[number]:(*self.begins, self.end)[number + 1]] + self.closing

    def body(self, root: Any, is_section: bool) -> Any:
        """Returns the element that has the sections in a tree."""
        for number in self.path[1:]:
            root = root[0 if is_section else number]
        return root


class Section:
    """What is read of a section of a part."""

    def __init__(self, root: Any, styles: Styles, copies: Copies, left: Counter[str], data: set[str],
                 work: Work) -> None:
        """data gets what the section has of DATA."""
        self.root, self.work = root, work
        self.paragraphs: list[Paragraph] = []
        self.attributes: list[tuple[Any, str]] = []
        self.drop_caps = drop_caps(root)
        self.read(root, styles, copies, left, data)

    def texts(self) -> list[str]:
        return [text for one in self.paragraphs for text in one.divide()] + [
            html.escape(element.get(name), quote=False) for element, name in self.attributes]

    def read(self, root: Any, styles: Styles, copies: Copies, left: Counter[str], data: set[str]) -> None:
        nested = 0  # paragraphs around the element
        walk = etree.iterwalk(root, events=("start", "end"), tag=WALKED)  # lxml passes over all others, which are most
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
                self.work.check()
                nested += 1
                if nested > MOST_NESTED:  # each moves with what is in it
                    raise FileError(f"more than {MOST_NESTED} paragraphs inside each other")
                plain = plain_paragraph(element, styles, left)
                if plain is False or str(getattr(element.getparent(), "tag", "")).endswith("}docAuthor"):
                    continue
                if plain is not None:
                    self.paragraphs.append(plain)
                    continue
                made = Paragraph(element, styles, copies, left)
                if made.has_raised and not made.has_letters:  # all of it is superscript
                    made = Paragraph(element, replace(styles, raised=None), copies, left)
                if made.has_foreign:
                    left[FOREIGN] += 1
                if made.has_letters:
                    self.paragraphs.append(made)
            elif tag in DATA:
                data.add(DATA[tag])
            if event == "start" and tag in ALT:
                for name in ALT[tag]:
                    if (LETTERS if tag in NUMBERING else LETTER).search(element.get(name, "")):
                        self.attributes.append((element, name))

    def write(self, texts: Sequence[str], known: Sequence[str], copies: Copies, left: Counter[str], rewrites: bool) -> None:
        """Puts texts in the tree. known: the texts that were read. rewrites: also where they are the same."""
        at = 0
        for paragraph in self.paragraphs:
            self.work.check()
            paragraph.copies, paragraph.left = copies, left
            begin, at = at, at + len(paragraph.raw)
            paragraph.texts = None if rewrites else [*known[begin:at]]
            paragraph.write(texts[begin:at])
        for cap in self.drop_caps:
            cap.put_back()
        for (element, name), text in zip(self.attributes, texts[at:]):
            element.set(name, NO_XML.sub("", html.unescape(text)))


class XmlPart:
    """A part of an archive in XML: its texts, and the part with translations.

    In memory, XML is much larger than in a file. So the body of a document is read in sections, and read again when its
    translation is written. Of a section, only the texts are kept between the two. A part without sections is read once if `keep` says so."""

    def __init__(self, data: bytes, where: str, left: Counter[str], shifted: Sequence[ChainMap[str, None]] = (),
                 keep: bool = True, work: Work | None = None, languages: Languages = Languages(None)) -> None:
        """shifted: the superscript and the subscript styles of other parts. keep: a part without sections stays in memory. work:
        the limit of time. languages: of the styles of other parts."""
        self.work = work or Work(where, float("inf"))
        self.check_start(data, where)
        self.where, self.left, self.size = where, left, len(data)
        self.rewrites = False  # for tests: paragraphs with the same texts are written, too
        self.sections = Sections(data)
        self.counts: list[int] = []  # of the texts around the sections, and of those of each section
        self.texts: list[str] = []
        found: set[str] = set()  # what this part has of DATA: a line for each kind in a part
        try:
            for tree, part in self.trees(data):
                self.check_names(tree.getroot(), part)
                if not self.counts:
                    self.shifted = shifted_styles(tree.getroot(), shifted or (ChainMap(), ChainMap()))
                    self.languages = languages.read(tree.getroot())
                    self.styles = Styles(self.plain_styles(tree.getroot()), *self.shifted, self.languages)
                section = Section(tree.getroot(), self.styles, Copies(0, left), left, found, self.work)
                self.kept = (tree, section) if keep and not self.sections.begins else None
                texts = section.texts()
                self.counts.append(len(texts))
                self.texts += texts
                del tree, section
        except WorkError:
            raise
        except FileError as e:
            raise FileError(f"{where}: {e}") from None
        except RecursionError:
            raise FileError(f"{where}: a paragraph has too many elements inside each other") from None
        for what in sorted(found):
            left[what] += 1

    def trees(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """Returns the tree of what is around the sections, and the tree of each section, with their bytes."""
        for number in range(-1, len(self.sections.begins)):
            part = self.sections.bytes_of(data, number)
            parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False,
                                     remove_comments=True, remove_pis=True)
            try:
                yield etree.fromstring(part, parser).getroottree(), part
            except etree.XMLSyntaxError as e:
                if e.code == etree.ErrorTypes.ERR_NO_MEMORY:
                    raise MemoryError(f"{self.where}: no memory for the part") from None
                raise FileError(f"not XML that can be read: {e}") from None

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
        except FileError:
            raise
        except (expat.ExpatError, ValueError, LookupError) as e:
            raise FileError(f"{where}: not XML that can be read: {e}") from None

    @staticmethod
    def check_names(root: Any, data: bytes) -> None:
        """Refuses names that make each look at an element take long."""
        if root.xpath(f"boolean(//*[count(@*) > {MOST_ATTRIBUTES}])"):
            raise FileError(f"an element with more than {MOST_ATTRIBUTES} attributes")
        found = re.findall(rb"xmlns[^\"'<>]{0,99}(?:\"[^\"]*|'[^']*)", data)
        if len(found) == data.count(b"xmlns") < MOST_NAMESPACES and sum(map(len, found)) < MOST_NAMES and b"\0" not in data[:4]:
            return
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

    def join(self, texts: Sequence[str], lang: str | None, read: Callable[[], bytes]) -> list[bytes]:
        """Returns the part with other texts, in pieces; no pieces if nothing changes. read returns the part's bytes again, which
        a part that was not kept needs. It can be called once."""
        is_same = not self.rewrites and list(texts) == self.texts
        copies, at, mark = Copies(MOST_COPIES * self.size + (1 << 14), self.left), 0, b"<!--%s-->" % MARK.encode()
        around, made = b"", []  # the part without its sections, and the sections
        for number, (tree, section) in enumerate([self.kept] if self.kept else ((tree, None) for tree, _ in self.trees(read())), -1):
            root, count = tree.getroot(), self.counts[number + 1]
            section = section or Section(root, self.styles, copies, Counter(), set(), self.work)
            section.write(texts[at:at + count], self.texts[at:at + count], copies, self.left, self.rewrites)
            at += count
            is_same = not (lang and set_language(root, lang, names, self.languages.is_other)) and is_same
            if self.sections.begins:
                body = self.sections.body(root, number >= 0)
                body.append(etree.Comment(MARK))
                if number >= 0:
                    body.insert(0, etree.Comment(MARK))
            written = bytes(etree.tostring(tree, xml_declaration=number < 0, encoding="UTF-8", standalone=tree.docinfo.standalone if number < 0 else None))
            if number < 0:
                around = written
            else:
                made.append(written[written.index(mark) + len(mark):written.rindex(mark)])
        before, _, after = around.partition(mark)
        return [] if is_same else [before, *made, after]
