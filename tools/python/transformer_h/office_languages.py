"""Which text of an office document is in another language than the one to translate, as the document says it.

Word and LibreOffice have three languages for each text: a western, an East Asian, and one of scripts such as Arabic. The one that counts
is that of the language to translate."""

from __future__ import annotations

from collections import ChainMap, Counter
from functools import lru_cache
from typing import Any

from .languages import COMPLEX, EAST_ASIAN, language_tag
from .office_names import FIRST, SPACES, STYLE_NAME, names, tag_name, val_of

FOREIGN = "a paragraph with text that is said to be in another language (all_languages=, --all-languages)"
_ODF_STYLE = SPACES["style"][0]
_LANG, _STYLES = names("w:lang"), names("w:rStyle w:pStyle")
_TEXT_PROPERTIES = names("style:text-properties")
_DEFAULTS = names("w:docDefaults p:defaultTextStyle style:default-style")
_RUNS, _RUN_PROPERTIES, _TEXTS = names("w:r a:r"), names("w:rPr a:rPr"), names("w:t a:t")


@lru_cache(maxsize=256)
def _base(code: str | None) -> str:
    """Returns a language without script and country, or "" for a code that names none: zxx is for text that no dictionary checks."""
    base = language_tag(code)[0] if code else ""
    return "" if base in ("und", "mul", "zxx", "none") else {"no": "nb"}.get(base, base)


class Languages:
    """What a part says about the language of its text. source is the language to translate; without it nothing is in another language.
    Templates set a wrong default language, and spelling checkers mark a whole text wrongly. So text in the document's default language is
    translated, too, and in each part (the body, a slide, the footnotes) so is text in the language that most of the part is said to be
    in."""

    def __init__(self, source: str | None, above: Languages | None = None) -> None:
        self.source = _base(source)
        self.own = {self.source} if above is None else above.own
        self.styles: ChainMap[str, bool] = ChainMap() if above is None else above.styles.new_child()
        group = "asian" if self.source in EAST_ASIAN else "complex" if self.source in COMPLEX else ""
        self.word = {"": "val", "asian": "eastAsia", "complex": "bidi"}[group]
        self.odf = f"{{{_ODF_STYLE}}}language-{group}" if group else f"{{{SPACES['fo'][0]}}}language"

    def of(self, element: Any) -> str:
        """Returns the language that an element of a format says: w:lang, a:rPr, style:text-properties."""
        if element.tag in _LANG:
            return _base(element.get(element.tag.partition("}")[0] + "}" + self.word))
        return _base(element.get(self.odf if element.tag in _TEXT_PROPERTIES else "lang"))

    def is_other(self, element: Any) -> bool | None:
        """Returns whether an element says that text is in another language; None if it says nothing."""
        code = self.of(element) if self.source else ""
        return code not in self.own if code else None

    def read(self, root: Any) -> Languages:
        """Returns what the styles of a part say. The part with the default language has to be read before others."""
        made = Languages(self.source, self)
        if not self.source:
            return made
        for defaults in root.iter(*_DEFAULTS):
            made.own.update(filter(None, map(made.of, defaults.iter())))
        most = made.of_most(root)
        if most and most not in made.own:
            made.own = {*made.own, most}  # other parts keep theirs
        for style in root.iter(*names("w:style style:style")):
            name = next((value for key, value in style.items() if tag_name(key) in ("styleId", "name")), None)
            said = [one for one in map(made.is_other, style.iter(*_LANG, *_TEXT_PROPERTIES)) if one is not None]
            parent = style.get(f"{{{_ODF_STYLE}}}parent-style-name")
            above = made.styles.get(parent) if parent else None
            if name is not None and (said or above is not None):
                made.styles[name] = said[-1] if said else bool(above)
        return made

    def of_most(self, root: Any) -> str:
        """Returns the language that more than half of a part's text is said to be in, or ""."""
        sizes: Counter[str] = Counter()
        for run in root.iter(*_RUNS):
            said = [self.of(one) for one in (run[0], *run[0])] if len(run) and run[0].tag in _RUN_PROPERTIES else []
            sizes[next(filter(None, said), "")] += sum(len(one.text or "") for one in run.iterchildren(*_TEXTS))
        code, size = sizes.most_common(1)[0] if sizes else ("", 0)
        return code if 2 * size > sum(sizes.values()) else ""

    def of_paragraph(self, element: Any) -> bool:
        """Returns whether a paragraph's style says that its text is in another language."""
        if not self.styles:
            return False
        name = element.get(STYLE_NAME)
        if name is None and len(element) and element[0].tag in FIRST:
            name = next((val_of(one) for one in element[0] if one.tag in _STYLES), None)
        return bool(name and self.styles.get(name))

    def of_run(self, properties: list[Any], is_other: bool) -> bool:
        """Returns whether a run with some properties is in another language. is_other: what is around it is."""
        if not self.source or not properties:
            return is_other
        said = self.is_other(properties[0])
        for one in properties[0]:
            if one.tag in _LANG:
                own = self.is_other(one)
                said = said if own is None else own
            elif one.tag in _STYLES and said is None:
                said = self.styles.get(val_of(one))
        return is_other if said is None else said
