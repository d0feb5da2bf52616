"""Large first letters of docx."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from .office_names import FRAME, PAIR_ENDS, PAIRS, PARAGRAPH, RUN_TEXT


class DropCap:
    """The large first letters of a paragraph. Word keeps them in a paragraph of their own in front of it. They are moved to the
    paragraph before it is translated, and put_back() moves as many letters of the translation back."""

    def __init__(self, letters: Any, paragraph: Any, first: Any) -> None:
        self.letters, self.paragraph = letters, paragraph
        self.most = sum(map(str.isalnum, letters.text))
        first.text, letters.text = letters.text + first.text, ""

    @classmethod
    def of(cls, frame: Any) -> DropCap | None:
        """Returns the large letters of the paragraph that has this frame; None if it has none."""
        kind = next((value for key, value in frame.items() if key.endswith("}dropCap")), "none")
        alone = frame.getparent().getparent() if frame.getparent() is not None else None
        if kind == "none" or alone is None or alone.tag not in PARAGRAPH:
            return None
        after = alone.getnext()
        while after is not None and (after.tag in PAIRS or after.tag in PAIR_ENDS):
            after = after.getnext()
        texts, first = cls.texts(alone), [] if after is None or after.tag not in PARAGRAPH else cls.texts(after)
        return cls(texts[0], after, first[0]) if len(texts) == 1 and first and re.fullmatch(r"\W*\w+", texts[0].text) else None

    @staticmethod
    def texts(paragraph: Any) -> list[Any]:
        """Returns the elements with text of a paragraph, without those of paragraphs inside it."""
        return [one for one in paragraph.iter(*RUN_TEXT)
                if one.text and next(around for around in one.iterancestors() if around.tag in PARAGRAPH) is paragraph]

    def put_back(self) -> None:
        """Takes the first letters of the paragraph, as many as there were, but of one word, with the signs before them."""
        texts = self.texts(self.paragraph)
        whole = "".join(one.text for one in texts)
        found = re.match(rf"\W*\w{{1,{self.most}}}", whole)
        end = found.end() if found else 0
        while end and unicodedata.category(whole[end:end + 1] or " ")[0] == "M":
            end += 1
        self.letters.text = whole[:end]
        for one in texts:
            if end <= 0:
                break
            end, one.text = end - len(one.text), one.text[end:]
            if one.text[:1].isspace():
                one.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")


def drop_caps(root: Any) -> list[DropCap]:
    """Returns the large first letters of a document, after it has moved them to the paragraphs behind them."""
    first: dict[Any, Any] = {}  # of each paragraph
    for frame in root.iter(*FRAME):
        if frame.getparent() is not None:
            first.setdefault(frame.getparent().getparent(), frame)
    return [cap for cap in map(DropCap.of, first.values()) if cap is not None]
