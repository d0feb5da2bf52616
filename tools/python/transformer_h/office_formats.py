"""The formats of an office document: what the properties of a run mean, names of styles, and how often formats are repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

from .office_names import IGNORED, IGNORED_ATTRIBUTES, RAISE, RUN_STYLE, tag_name, val_of

MOST_COPIES = 4  # formats are repeated in at most as many times the bytes of their part of the archive


@dataclass(frozen=True)
class Styles:
    """Names of styles: those that change nothing, and those that are superscript or subscript."""

    plain: frozenset[str] = frozenset()
    raised: frozenset[str] | None = frozenset()  # None: superscript is text
    lowered: frozenset[str] = frozenset()


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

    def __init__(self, properties: list[Any], is_shared: bool, styles: Styles = Styles()) -> None:
        self.styles = styles
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
                    ("superscript",) if child.tag in RAISE else self.styles.raised or ()) for child in one if child.tag in (*RAISE, *RUN_STYLE)):
                return True
        return False

    @cached_property
    def tag(self) -> str:
        """Which tag the texts have around such a run: sub or g. The reader copies formulas with <sub>: H<sub>2</sub>O."""
        is_lowered = any(one.get("baseline", "").startswith("-") or any(
            val_of(child) in (("subscript",) if child.tag in RAISE else self.styles.lowered)
            for child in one if child.tag in (*RAISE, *RUN_STYLE)) for one in self.properties[:1])
        return "sub" if is_lowered else "g"

    @cached_property
    def size(self) -> int:
        """About as many bytes as the properties have in the file."""
        return sum(9 + len(one.text or "") + len(tag_name(one.tag)) + sum(
            5 + len(tag_name(name)) + len(value) for name, value in one.items()) for each in self.properties for one in each.iter())
