"""The formats of an office document: what the properties of a run mean, names of styles, and how often formats are repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Container

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .office_languages import Languages
from .office_names import IGNORED, IGNORED_ATTRIBUTES, RAISE, RUN_STYLE, tag_name, val_of

SHIFTS = RAISE | RUN_STYLE
MOST_COPIES = 4  # formats are repeated in at most as many times the bytes of their part of the archive


@dataclass(frozen=True)
class Styles:
    """Names of styles: those that change nothing, and those that are superscript or subscript."""

    plain: frozenset[str] = frozenset()
    raised: Container[str] | None = frozenset()  # None: superscript is text
    lowered: Container[str] = frozenset()
    languages: Languages = Languages(None)  # what they say about the language of their text


class Copies:
    """Bounds the copies of formats that the paragraphs of a part need: a tag may divide the text of a run anywhere, and each
    part of it becomes a run of its own."""

    def __init__(self, most: int, left: Counter[str]) -> None:
        self.most, self.left = most, left  # bytes
        self.last: tuple[Any, Any, Format | None] = (None, None, None)  # the last run that was made, what has it, its format

    def allow(self, size: int) -> bool:
        self.most -= size
        if self.most < 0:
            self.left[f"formats of words that are not repeated, because they have more than {MOST_COPIES} times the bytes of the "
                      "document"] += 1
        return self.most >= 0


class Format:
    """The properties of a run, which all of its pieces share."""

    __slots__ = ("styles", "properties", "is_held", "is_shared", "_key", "_shifts", "_size")

    def __init__(self, properties: list[Any], is_shared: bool, styles: Styles = Styles()) -> None:
        self.styles = styles
        self.properties = properties  # elements; the first is the run's own, others are invalid
        self.is_held = False
        self.is_shared = is_shared  # the run has several pieces, so what is written may have several too
        self._key: str | None = None if properties else ""
        self._shifts: tuple[bool, bool] | None = None if properties else (False, False)
        self._size = -1

    @property
    def key(self) -> str:
        """What the properties mean: equal formats have equal keys."""
        if self._key is None:
            self._key = self.meaning()
        return self._key

    def meaning(self) -> str:
        """What the properties mean. The characters \\0 to \\3 divide names and values, because
        XML has none of them."""
        style = self.properties[0]
        found = ["\0".join(one) for one in sorted(style.items()) if one[0] not in IGNORED_ATTRIBUTES] if style.attrib else []
        for child in style:
            if child.tag in IGNORED:
                continue
            if not len(child):  # most have nothing inside, and then iterwalk would be the longest part of this function
                items = child.items()
                if len(items) > 1:
                    items.sort()
                found += ["\2".join((child.tag, child.text or "", *map("\0".join, items))), "\3"]
                continue
            for event, one in etree.iterwalk(child, events=("start", "end")):
                found.append("\3" if event == "end" else "\2".join((one.tag, one.text or "", *map("\0".join, sorted(one.items())))))
        return "\1".join((style.tag, *found)) if found else ""

    def shifts(self) -> tuple[bool, bool]:
        """Returns whether the run is superscript, and whether it is subscript."""
        if self._shifts is None:
            style, baseline = self.properties[0], self.properties[0].get("baseline", "0")
            raised, lowered = baseline.lstrip("+")[:1] in "123456789", baseline.startswith("-")
            for child in style:
                if child.tag in SHIFTS:
                    is_own, value = child.tag in RAISE, val_of(child)
                    raised = raised or value in (("superscript",) if is_own else self.styles.raised or ())
                    lowered = lowered or value in (("subscript",) if is_own else self.styles.lowered)
            self._shifts = raised, lowered
        return self._shifts

    @property
    def is_raised(self) -> bool:
        return self.shifts()[0]

    @property
    def tag(self) -> str:
        """Which tag the texts have around such a run: sub or g. The reader copies formulas with <sub>: H<sub>2</sub>O."""
        return "sub" if self.shifts()[1] else "g"

    @property
    def size(self) -> int:
        """About as many bytes as the properties have in the file."""
        if self._size < 0:
            self._size = 0
            for each in self.properties:
                for one in each.iter():
                    self._size += 9 + len(one.text or "") + len(tag_name(one.tag))
                    for name, value in one.items():
                        self._size += 5 + len(tag_name(name)) + len(value)
        return self._size
