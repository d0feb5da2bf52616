"""The XML of office documents and books: what of a part of the archive is text, and the part with other texts."""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import Any, Sequence
from xml.parsers import expat

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .drop_caps import drop_caps
from .languages import set_language
from .office_formats import MOST_COPIES, Copies, Styles
from .office_names import ALT, DATA, LEFT, LETTER, LETTERS, NO_XML, NUMBERING, NUMBERS, PARAGRAPH, SPACES, names, shifted_styles
from .office_paragraphs import FileError, Paragraph

MOST_NAMESPACES = 300
MOST_NAMES = 20000  # characters of all namespaces that one element can use, because lxml searches them for each element
MOST_ATTRIBUTES = 300  # of one element: lxml's time for their values grows with the square
MOST_NESTED = 20  # paragraphs inside each other
WALKED = [*{*PARAGRAPH, *LEFT, *NUMBERS, *DATA, *ALT}]


class XmlPart:
    """A part of an archive in XML: its texts, and the part with translations."""

    def __init__(self, data: bytes, where: str, left: Counter[str], shifted: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())) -> None:
        """shifted: the superscript and the subscript styles of other parts."""
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
        self.paragraphs: list[Paragraph] = []
        self.attributes: list[tuple[Any, str]] = []
        try:
            self.check_names(root, data)
            self.shifted = shifted_styles(root, *shifted)
            self.drop_caps = drop_caps(root)
            self.read(root, Styles(self.plain_styles(root), *self.shifted), Copies(MOST_COPIES * len(data) + (1 << 14), left), left)
        except FileError as e:
            raise FileError(f"{where}: {e}") from None
        except RecursionError:
            raise FileError(f"{where}: a paragraph has too many elements inside each other") from None
        self.texts = [text for one in self.paragraphs for text in one.texts]
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

    def read(self, root: Any, styles: Styles, copies: Copies, left: Counter[str]) -> None:
        nested = 0  # paragraphs around the element
        data: set[str] = set()  # what this part has of DATA: a line for each kind in a part
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
                nested += 1
                if nested > MOST_NESTED:  # each moves with what is in it
                    raise FileError(f"more than {MOST_NESTED} paragraphs inside each other")
                if str(getattr(element.getparent(), "tag", "")).endswith("}docAuthor"):
                    continue
                made = Paragraph(element, styles, copies, left)
                if made.has_raised and not made.has_letters():  # all of it is superscript
                    made = Paragraph(element, Styles(styles.plain, None, styles.lowered), copies, left)
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
        at = 0
        for paragraph in self.paragraphs:
            at += len(paragraph.roots)
            paragraph.write(texts[at - len(paragraph.roots):at])
        for cap in self.drop_caps:
            cap.put_back()
        for (element, name), text in zip(self.attributes, texts[at:]):
            element.set(name, NO_XML.sub("", html.unescape(text)))
        if not (lang and set_language(self.tree.getroot(), lang, names)) and is_same:
            return b""  # the part as it was
        return bytes(etree.tostring(self.tree, xml_declaration=True, encoding="UTF-8",
                                    standalone=self.tree.docinfo.standalone))
