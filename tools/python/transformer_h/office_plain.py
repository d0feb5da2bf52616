"""Paragraphs that have only text, all of it in one format. Most paragraphs of a document are like this.

A Paragraph makes an object for each run and counts formats, which takes most of the time of a document beside its translation.
Here the text is read directly, and a paragraph that has anything else is left to Paragraph."""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import Any, Literal, Sequence

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .markup import placeholders
from .office_formats import Format, Styles
from .office_names import COUNT, FIRST, LAST, LETTER, PARAGRAPH, RUN, RUN_TEXT, SPACES, WRITTEN, escaped, xml_text
from .office_paragraphs import FEW_INSIDE, GAP, PLACEHOLDER, RUN_SPACES, Paragraph

SPACE_OF = {tag: tag[1:].partition("}")[0] for tag in PARAGRAPH}
UNSEEN = frozenset(tag for tag, text in WRITTEN.items() if not text)


class PlainParagraph(Paragraph):
    """A Paragraph that is read and written in fewer steps. Its result is that of Paragraph. plain_paragraph() makes it."""

    def __init__(self, element: Any, text: str, style: Format | None, left: Counter[str]) -> None:
        """style is the format of the first run that has text; None: the paragraph has no runs."""
        self.element, self.style, self.left = element, style, left
        self.space = SPACE_OF[element.tag]
        self.is_runs = style is not None
        self.held, self.formats = None, set()
        self.raw, self.texts = [escaped(text)], None

    def divide(self) -> list[str]:
        return self.raw

    def write(self, texts: Sequence[str]) -> None:
        if list(texts) == self.texts:
            return
        text = xml_text(html.unescape(texts[0]))
        self.element.text = None
        if self.style is None:
            self.put(self.element, text, None)
        else:
            self.put_run(text, self.style)
        if not any(map(str.isalnum, text)):
            self.left["a format that has no words in the translation"] += 1

    def put_run(self, text: str, style: Format) -> None:
        """Puts one run in the place of all runs."""
        element = self.element
        first, last = int(element[0].tag in FIRST), element[-1]
        n = len(element) - (last.tag in LAST)
        if first:
            element[0].tail = None
        if text:
            run = etree.SubElement(element, f"{{{self.space}}}r")
            run.extend(style.properties)
            self.put_text(run, text)
        for one in element[first:n]:
            if any(map(len, one)):
                self.drop(one)
                n -= 1
        del element[first:n]
        if last.tag in LAST:
            element.append(last)


def plain_paragraph(element: Any, styles: Styles, left: Counter[str]) -> PlainParagraph | Literal[False] | None:
    """Returns a paragraph of one format without tags, False for one without letters, or None for one that needs Paragraph."""
    space = SPACE_OF[element.tag]
    if styles.languages.of_paragraph(element):
        return None
    if space not in RUN_SPACES:
        text = element.text or ""
        if len(element):
            return None
        if not LETTER.search(text):
            return False
        if space in SPACES["text"]:
            if text[0] in " \t\r\n":
                return None
            text = re.sub("[ \t\r\n]+", " ", text)
        elif "\n" in text or GAP.search(text):
            return None
        return PlainParagraph(element, text, None, left)
    texts: list[str] = []
    style: Format | None = None  # of the first run that has text
    rest = len(element)  # children behind this one
    for child in element:
        rest -= 1
        tag = child.tag
        if tag in RUN:
            if len(child) > FEW_INSIDE:
                return None
            n = len(texts)
            properties: list[Any] = []
            for one in child:
                tag = one.tag
                if tag in RUN_TEXT and not len(one):
                    if one.text:
                        texts.append(one.text)
                elif tag in FIRST:
                    properties.append(one)
                elif tag not in UNSEEN or one.get(COUNT) is not None:
                    return None
            if len(texts) > n:
                own = Format(properties, False, styles)
                if properties and styles.languages.of_run(properties, False):
                    return None
                if (properties and styles.raised is not None and own.is_raised) or (style is not None and own.key != style.key):
                    return None
                style = style or own
        elif not (tag in FIRST and child is element[0]) and not (tag in LAST and not rest) and (
                tag not in UNSEEN or child.get(COUNT) is not None):
            return None
    text = "".join(texts)
    if not LETTER.search(text):
        return False
    if "    " in text and any(map(GAP.search, texts)):
        return None
    if len(texts) > 1 and PLACEHOLDER.search(text) and placeholders(text):
        return None  # runs may divide a placeholder, which Paragraph copies as a whole
    return PlainParagraph(element, text, style, left)
