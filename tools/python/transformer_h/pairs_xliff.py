"""XLIFF 1.2 and 2, with the files of tools that add their own attributes, and translation memories (TMX)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable

from .pairs_plurals import code_of, is_same_language
from .pairs_text import CLOSE, HAS_TRANSLATION, NO_LETTERS, NO_SOURCE, NOT_TRANSLATED, OPEN, WORDS, Piece, Style, has_letters
from .pairs_xml import Node, cdata, escape_cdata, escape_text, escape_value, filled, pieces_of, walk, with_attributes

if TYPE_CHECKING:
    from .pairs import Pairs

_YES, _NO = ("yes", "true", "1", "locked"), ("no", "false", "0")
# Elements that stay as they are, with what is in them; the others are around words
_CODES_1 = frozenset("x bx ex bpt ept ph it sub".split())
_CODES_2 = frozenset("ph sc ec cp sm em".split())
_CODES_TMX = frozenset("bpt ept ph it ut sub".split())
# States of a target that is not yet a translation: in 1.2, and in 2
_WAITING = ("new", "needs-translation", "initial")
# Codes that begin or end something: what both have in common, and the attributes that say which are a pair
_BEGINS = {"bpt": ("p", ("i", "rid", "id")), "bx": ("x", ("rid", "id")), "sc": ("s", ("id",))}
_ENDS = {"ept": ("p", ("i", "rid", "id")), "ex": ("x", ("rid", "id")), "ec": ("s", ("startRef",))}
STYLE = Style(escape=escape_text, signs="&")
_CDATA_STYLE = Style(escape=escape_cdata)


def begins_or_ends(name: str, attributes: dict[str, str]) -> tuple[str, str] | None:
    """Returns the kind and the key of a code that begins or ends something, such as <bx id="1"/>."""
    for kind, names in ((OPEN, _BEGINS), (CLOSE, _ENDS)):
        common, keys = names.get(name, ("", ()))
        for key in keys:
            if key in attributes:
                return kind, f"{common} {attributes[key]}"
    return None


def is_protected(tag: str, attributes: dict[str, str]) -> bool:
    """Whether a <mrk> says that what is in it is not translated."""
    return tag.endswith("mrk") and (attributes.get("mtype") == "protected" or attributes.get("translate") == "no")


def is_locked(attributes: dict[str, str]) -> str:
    """Returns why the attributes of a tool say that a unit stays, or ""."""
    for name, value in attributes.items():
        local, value = name.rpartition(":")[2], value.lower()
        if ":" in name and local == "locked" and value in _YES:
            return NOT_TRANSLATED
        if ":" in name and local in ("confirmed", "approved") and value in _YES:
            return HAS_TRANSLATION
        if ":" in name and local in ("status", "conf") and re.search("confirmed|proofread|translated|approved|signedoff", value) and not re.match(
                "not|un|rejected|pre|machine", value):
            return HAS_TRANSLATION
    return ""


def has_words(node: Node) -> bool:
    return any(one.kind == WORDS and one.text.strip() for one in pieces_of(node.raw, frozenset()))


class Xliff:
    """The reader of XLIFF. The children of a unit are source, seg-source and target; in XLIFF 2 they are in segments."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self.is_new, self.has_finished, self.target_lang = pairs, False, False, ""
        texts = ("source", "target", "seg-source")
        walk(pairs, "xliff", texts, texts, self.leave, self.enter)

    def enter(self, node: Node, around: list[Node]) -> None:
        if len(around) == 1:
            self.is_new = node.get("version").startswith("2")
        said = node.get("translate").lower()
        before = around[-2].note if len(around) > 1 else ""
        node.note = NOT_TRANSLATED if said == "no" else (is_locked(node.attributes) or ("" if said == "yes" else before))
        if node.name == "xliff" if self.is_new else node.name == "file":
            self.pairs.check_source(node.get("srcLang" if self.is_new else "source-language"))
            self.target_lang, self.has_finished = node.get("trgLang" if self.is_new else "target-language"), False

    def leave(self, node: Node, around: list[Node]) -> None:
        if node.name == ("segment" if self.is_new else "trans-unit") and not (around and around[-1].name == "alt-trans"):
            self.read_unit(node, around)
        elif node.name == ("xliff" if self.is_new else "file"):
            self.set_language(node)
        elif node.name == "seg" and node.prefix:  # of Trados: what it says of a part is taken for its unit
            unit = next((one for one in reversed(around) if one.name == "trans-unit"), None)
            why = is_locked({node.prefix + name: value for name, value in node.attributes.items()})
            if unit is not None and why:
                unit.note = why

    def set_language(self, node: Node) -> None:
        pairs = self.pairs
        pairs.check_target(self.target_lang, self.has_finished)
        attribute = "trgLang" if self.is_new else "target-language"
        if pairs.lang and not is_same_language(self.target_lang, pairs.lang):
            code = code_of(pairs.lang, "-")
            if code:
                pairs.edit(node.begin, node.inner, with_attributes(node.tag, **{attribute: code}))
        elif not self.target_lang and self.is_new and pairs.units:
            pairs.need_lang("XLIFF 2")
        elif not self.target_lang:
            pairs.lacks_language = True

    def read_unit(self, node: Node, around: list[Node]) -> None:
        pairs = self.pairs
        owner = next((one for one in reversed(around) if one.name == "unit"), node) if self.is_new else node
        name = f"{owner.name} {owner.get('id')[:80]!r}" + (f", segment {node.get('id')[:80]!r}" if node is not owner and node.get("id") else "")
        source, target = node.child("source"), node.child("target")
        source = node.child("seg-source") or source
        if source is None:
            pairs.leave(NO_SOURCE)
            return
        why = self.reason(node, target)
        if why:
            pairs.leave(why)
            return
        self.add(name, node, source, target)

    def reason(self, node: Node, target: Node | None) -> str:
        """Returns why a unit stays as it is, or ""."""
        if node.note:
            return str(node.note)
        locked = is_locked(target.attributes) if target else ""
        state = node.get("state") if self.is_new else target.get("state") if target else ""
        has_text = target is not None and has_words(target)
        if has_text and not (state in _WAITING and not locked):
            self.has_finished = True
            return HAS_TRANSLATION
        if node.get("approved") == "yes" or state in ("final", "signed-off", "reviewed"):
            return HAS_TRANSLATION
        return locked

    def add(self, name: str, node: Node, source: Node, target: Node | None) -> None:
        pairs, raw = self.pairs, source.raw
        codes = _CODES_2 if self.is_new else _CODES_1
        section = cdata(raw)
        if section:
            pieces = [Piece(WORDS, section[1])]
        else:
            pieces = pieces_of(raw, codes, is_protected, begins_or_ends)
        if not has_letters(pieces):
            pairs.leave(NO_LETTERS)
            return
        templates = []
        for part in [pieces] if section else segments(pieces):
            if isinstance(part, str) or not has_letters(part):
                made: list[Any] | None = [part if isinstance(part, str) else written(part)]
            else:
                made = pairs.template(name, part, _CDATA_STYLE if section else STYLE)
            if made is None:
                return
            templates.append(made)
        state: dict[str, str | None] = {} if self.is_new else {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
        is_new = self.is_new

        def put(found: list[str]) -> list[tuple[int, int, str]]:
            content = "".join(found)
            if section:
                content = section[0] + content + section[2]
            edits = []
            if target is None:
                element = with_attributes(f"<{source.prefix}target>", **state)
                edits.append((source.end, source.end, f"{source.space}{element}{content}</{source.prefix}target>"))
            else:
                edits.append(filled(target, with_attributes(target.tag, **state), content))
            if is_new:
                edits.append((node.begin, node.inner, with_attributes(node.tag, state="translated", subState=None)))
            return edits

        pairs.unit(name, templates, put)


def written(pieces: list[Piece]) -> str:
    return "".join(escape_text(one.text) if one.kind == WORDS else one.text for one in pieces)


def segments(pieces: list[Piece]) -> list[str | list[Piece]]:
    """Divides the pieces of a <seg-source> at its segments, <mrk mtype="seg">: each is a text of its own."""
    made: list[str | list[Piece]] = []
    inner: list[Piece] | None = None
    its_key = ""
    outside: list[Piece] = []
    for one in pieces:
        if inner is None and one.kind == OPEN and re.match(r"<[\w.-]*:?mrk\s[^>]*mtype\s*=\s*[\"']seg[\"']", one.text):
            if outside:
                made.append(outside)
            outside, inner, its_key = [], [], one.key
            made.append(one.text)
        elif inner is not None and one.kind == CLOSE and one.key == its_key:
            made += [inner, one.text]
            inner = None
        elif inner is not None:
            inner.append(one)
        else:
            outside.append(one)
    return [*made, outside] if outside or not made else made


def read_xliff(pairs: Pairs) -> None:
    Xliff(pairs)


def read_tmx(pairs: Pairs) -> None:
    """Reads a translation memory. A unit that lacks the target language gets a variant in it."""
    lang = pairs.need_lang("TMX")
    code = escape_value(code_of(lang, "-") or lang)
    count = 0
    default = ""

    def language(node: Node) -> str:
        return node.get("xml:lang") or node.get("lang")

    def leave(node: Node, around: list[Node]) -> None:
        nonlocal count, default
        if node.name == "header":
            default = node.get("srclang")
            pairs.check_source(default)
        if node.name != "tu":
            return
        count += 1
        name = f"tu {node.get('tuid')[:80] or count!r}"
        wanted = node.get("srclang") or default
        variants = node.named("tuv")
        if wanted in ("", "*all*"):
            source = next((one for one in variants if not is_same_language(language(one), lang)), None)
        else:
            source = next((one for one in variants if language(one).lower() == wanted.lower()), None) or next(
                (one for one in variants if is_same_language(language(one), wanted)), None)
        seg = source.child("seg") if source else None
        if source is None or seg is None:
            pairs.leave(NO_SOURCE)
            return
        target = next((one for one in variants if one is not source and is_same_language(language(one), lang)), None)
        its_seg = target.child("seg") if target else None
        if target is not None and (its_seg is None or has_words(its_seg)):
            pairs.leave(HAS_TRANSLATION)
            return
        template = pairs.template(name, pieces_of(seg.raw, _CODES_TMX, None, begins_or_ends), STYLE)
        if template is not None:
            pairs.unit(name, [template], putting(source, seg, its_seg))

    def putting(source: Node, seg: Node, its_seg: Node | None) -> Callable[[list[str]], list[tuple[int, int, str]]]:
        def put(found: list[str]) -> list[tuple[int, int, str]]:
            if its_seg is not None:
                return [filled(its_seg, its_seg.tag, found[0])]
            space, inner = source.space, seg.space
            # tools know a machine's translation by this name
            return [(source.end, source.end, f'{space}<{source.prefix}tuv xml:lang="{code}" creationid="MT!">{inner}<{seg.prefix}seg>{found[0]}'
                                             f"</{seg.prefix}seg>{space if inner else ''}</{source.prefix}tuv>")]
        return put

    walk(pairs, "tmx", ("seg", "prop", "note"), ("tuv", "seg"), leave)
