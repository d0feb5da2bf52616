"""Writes in a part of a document which language its text is in, for spelling checkers, voices and fonts."""

from __future__ import annotations

import re
from typing import Any, Callable

try:
    from lxml import etree
except ImportError:  # only set_language needs it
    etree = None

from .detecting import base_language

# A dictionary is chosen by language and country. These countries are used where a code has none.
_COUNTRIES = dict(pair.split("-") for pair in (
    "af-ZA ar-SA be-BY bg-BG bn-BD bs-BA ca-ES cs-CZ cy-GB da-DK de-DE el-GR en-US es-ES et-EE eu-ES fa-IR fi-FI fr-FR ga-IE gl-ES "
    "gu-IN he-IL hi-IN hr-HR hu-HU hy-AM id-ID is-IS it-IT ja-JP ka-GE kk-KZ km-KH kn-IN ko-KR lo-LA lt-LT lv-LV mk-MK ml-IN "
    "mn-MN mr-IN ms-MY mt-MT my-MM nb-NO ne-NP nl-NL nn-NO pa-IN pl-PL ps-AF pt-PT ro-RO ru-RU si-LK sk-SK sl-SI sq-AL sr-RS sv-SE "
    "sw-KE ta-IN te-IN th-TH tr-TR uk-UA ur-PK uz-UZ vi-VN zh-CN zu-ZA").split())
_TWO_SCRIPTS = {"az", "bs", "kk", "mn", "pa", "sr", "uz"}  # languages whose code needs the script
# Word and LibreOffice have three languages for each text: a western, an East Asian, and one of scripts such as Arabic.
EAST_ASIAN, COMPLEX = {"zh", "ja", "ko"}, set("ar bn fa gu he hi km kn lo ml mr my ne pa ps si ta te th ur".split())
_NONE = {"none", "zxx", "x-none"}  # text that no dictionary checks
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def language_tag(code: str) -> tuple[str, str, str]:
    """Returns language, script and country of a code: ("en", "", "US") of "en" and of "eng_Latn", ("en", "", "GB") of
    "en-GB". Script and country are "" if they say nothing, and all are "" if the code is not one of a language."""
    language, *rest = re.split("[-_]", code)
    if not re.fullmatch("[a-z]{2,3}", language, re.I | re.A) or not all(re.fullmatch("[a-z0-9]{1,8}", each, re.I | re.A) for each in rest):
        return "", "", ""
    language = base_language(language)
    script = next((each.title() for each in rest if re.fullmatch("[a-z]{4}", each, re.I)), "")
    country = next((each.upper() for each in rest if re.fullmatch("[a-z]{2}|[0-9]{3}", each, re.I)), "")
    country = country or ("TW" if (language, script) == ("zh", "Hant") else _COUNTRIES.get(language, ""))
    return language, script if language in _TWO_SCRIPTS else "", country


def set_language(root: Any, code: str, names: Any, stays: Callable[[Any], bool | None] = lambda _: False) -> bool:
    """Writes in the tree of a part that its text is in another language. names("w:lang") has the qualified names of an
    element. Returns whether something changed. Text that is said to have no language keeps that, and so do elements that `stays`
    returns true for: their text is not translated."""
    language, script, country = language_tag(code)
    if not language:
        return False
    tag, short = "-".join(filter(None, (language, script, country))), code.replace("_", "-")
    group = "asian" if language in EAST_ASIAN else "complex" if language in COMPLEX else "western"
    changed = False

    def put(element: Any, name: str, value: str, is_new: bool = False) -> None:
        nonlocal changed
        before = element.get(name)
        if before != value and before not in _NONE and (is_new or before is not None):
            element.set(name, value)
            changed = True

    def child(parent: Any, name: str, at: int | None = None) -> Any:
        found = parent.find(name)
        if found is None:
            found = parent.makeelement(name)
            parent.insert(len(parent) if at is None else at, found)
        return found

    word = next((name[:-len("styles")] for name in names("w:styles") if name == root.tag), None)
    if word:  # docx: the language of all text without one of its own
        defaults = child(child(child(child(root, word + "docDefaults", 0), word + "rPrDefault", 0), word + "rPr"), word + "lang")
        put(defaults, word + {"western": "val", "asian": "eastAsia", "complex": "bidi"}[group], tag, True)
    fo, style, office = (next(iter(names(f"{each}:x")))[:-1] for each in ("fo", "style", "office"))
    suffix = "" if group == "western" else f"-{group}"
    space = fo if group == "western" else style
    defaults = None
    for styles in root.iter(office + "styles"):  # the same in odt and odp
        made = next((one for one in styles.iterchildren(style + "default-style") if one.get(style + "family") == "paragraph"), None)
        if made is None:
            made = styles.makeelement(style + "default-style", {style + "family": "paragraph"})
            styles.insert(0, made)
        defaults = child(made, style + "text-properties")
    if root.tag in names("opf:package ncx:ncx"):
        put(root, _XML_LANG, short)
    languages, books = names("w:lang w:themeFontLang"), names("dc:language")
    drawn, runs = names("a:rPr a:defRPr a:endParaRPr"), names("a:r")
    titles = names("dc:title dc:subject dc:description ncx:docTitle")
    kept = names("w:del w:moveFrom")
    is_kept = 0  # elements around this one whose text keeps its language
    walked = [*languages, *books, *drawn, *runs, *titles, *kept, style + "text-properties"]
    for event, element in etree.iterwalk(root, events=("start", "end"), tag=walked):  # lxml passes over all others, which are most
        if element.tag in kept:
            is_kept += 1 if event == "start" else -1
        elif event == "end":
            pass
        elif stays(element):
            pass
        elif element.tag in languages:
            if not is_kept:
                put(element, element.tag.partition("}")[0] + "}" + {
                    "western": "val", "asian": "eastAsia", "complex": "bidi"}[group], tag)
        elif element.tag in drawn:
            put(element, "lang", tag, element.getparent() is not None and element.getparent().tag in runs)
        elif element.tag in runs:
            child(element, element.tag + "Pr", 0)
        elif element.tag == style + "text-properties":
            name = f"{space}language{suffix}"
            if element is defaults or (element.get(name) is not None and element.get(name) not in _NONE):
                put(element, name, language, True)
                put(element, f"{space}country{suffix}", country or "none", True)
                for other in (f"{space}script{suffix}", f"{style}rfc-language-tag{suffix}"):
                    element.attrib.pop(other, None)
                if script:
                    put(element, f"{space}script{suffix}", script, True)
        elif element.tag in books:
            if element.text != short:
                element.text, changed = short, True
        elif element.tag in titles:
            put(element, _XML_LANG, short)
    return changed
