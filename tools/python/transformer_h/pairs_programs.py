"""Texts of programs in XML: Qt's ts, Android's strings.xml, resx of .NET, and stringsdict of Apple."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .pairs_plurals import CATEGORIES, categories, code_of, qt_forms
from .pairs_text import CODE, HAS_TRANSLATION, LINE, NO_SOURCE, NOT_TRANSLATED, WORDS, Piece, Style
from .pairs_xml import Node, cdata, escape_cdata, escape_text, filled, pieces_of, walk, with_attributes

if TYPE_CHECKING:
    from .pairs import Pairs

_PLIST_TYPES = ("NSStringFormatSpecTypeKey", "NSStringFormatValueTypeKey")
_LOCKED = re.compile(r"\{Locked(?:\s*=\s*([^}]{0,1000}))?\}", re.I)


def read_qt(pairs: Pairs) -> None:
    """Reads the messages of Qt Linguist. A translation stays "unfinished": people finish it there, and lrelease uses it."""
    lang, has_finished, context = pairs.lang, False, ""
    style = Style(escape=lambda text: escape_text(text).replace('"', "&quot;").replace("'", "&apos;"), signs="&")
    named = ""

    def enter(node: Node, around: list[Node]) -> None:
        nonlocal lang, named
        if len(around) == 1:
            pairs.check_source(node.get("sourcelanguage"))
            named = node.get("language")
            lang = lang or named
            pairs.lacks_language = not lang
            if not named and code_of(lang, "_"):
                pairs.edit(node.begin, node.inner, with_attributes(node.tag, language=code_of(lang, "_")))

    def leave(node: Node, around: list[Node]) -> None:
        nonlocal context, has_finished
        if node.name == "name" and around and around[-1].name == "context":
            around[-1].note = node.words
        elif node.name == "message":
            context = (around[-1].note or "") if around else ""
            has_finished = message(node) or has_finished

    def message(node: Node) -> bool:
        """Adds a message. Returns whether it has a translation."""
        source, target = node.child("source"), node.child("translation")
        if source is None or target is None:
            pairs.leave(NO_SOURCE)
            return False
        forms = target.named("numerusform")
        has_text = any(one.raw.strip() for one in [target, *target.named("lengthvariant")] if not forms) or any(one.raw.strip() for one in forms)
        if target.get("type") in ("obsolete", "vanished"):
            pairs.leave(NOT_TRANSLATED)
            return False
        if has_text or target.get("type") != "unfinished":
            pairs.leave(HAS_TRANSLATION)
            return has_text
        name = f"message {source.words[:60]!r} of {context[:80]!r}"
        template = pairs.template(name, pieces_of(source.raw, frozenset(("byte",))), style)
        if template is None:
            return False
        count = len(forms) if forms and not lang else qt_forms(lang)

        def put(found: list[str]) -> list[tuple[int, int, str]]:
            if node.get("numerus") != "yes":
                return [filled(target, target.tag, found[0])]
            space = (forms[0].space if forms else "") or (f"{target.space}    " if target.space else "")
            inner = "".join(f"{space}<numerusform>{found[0]}</numerusform>" for _ in range(count))
            return [filled(target, target.tag, inner + target.space)]

        pairs.unit(name, [template], put)
        return False

    texts = ("source", "comment", "extracomment", "translatorcomment", "oldsource", "oldcomment", "userdata", "numerusform", "lengthvariant", "name")
    walk(pairs, "TS", texts, ("source", "translation", "numerusform", "lengthvariant"), leave, enter)
    pairs.check_target(named, has_finished)


# ---- Android

_ANDROID = re.compile(r"\\u([\da-fA-F]{4})|\\(.)|(\")|([^\\\"]+)|(\\)", re.S)
_ANDROID_LETTERS = {"'": "'", '"': '"', "@": "@", "?": "?", "\\": "\\"}
_REFERENCE = re.compile(r"\s*(?:@(?:[\w.]+:)?\w+/[\w.]+|@null|@empty|\?(?:[\w.]+:)?(?:\w+/)?[\w.]+)\s*")


def android_pieces(words: str) -> list[Piece]:
    """Returns words of Android's strings without its escapes. Quotation marks around spaces leave."""
    made, text = [], []
    for one in _ANDROID.finditer(words):
        if one[1]:
            text.append(chr(int(one[1], 16)))
        elif one[2] in _ANDROID_LETTERS:
            text.append(_ANDROID_LETTERS[one[2]])
        elif one[2]:
            made += [Piece(WORDS, "".join(text)), Piece(LINE if one[2] == "n" else CODE, one[0])]
            text = []
        elif one[4]:
            text.append(one[4])
    return [one for one in [*made, Piece(WORDS, "".join(text))] if one.text]


def read_android(pairs: Pairs) -> None:
    """Reads the resources of an Android program. A translation takes the place of its source; the folder says the language."""
    def enter(node: Node, around: list[Node]) -> None:
        node.note = node.get("translatable") == "false" or (len(around) > 1 and around[-2].note)
        if len(around) == 1 and node.get("tools:locale") and pairs.lang:
            pairs.edit(node.begin, node.inner, with_attributes(node.tag, **{"tools:locale": code_of(pairs.lang, "-") or None}))

    def leave(node: Node, around: list[Node]) -> None:
        if node.name == "string" or (node.name == "item" and node.get("type") == "string"):
            add(f"string {node.get('name')[:80]!r}", node)
        elif node.name == "plurals":
            add_plurals(node)
        elif node.name == "string-array":
            for i, item in enumerate(node.named("item")):
                add(f"item {i + 1} of {node.get('name')[:80]!r}", item)

    def read(name: str, node: Node) -> tuple[list[Any], str, str] | None:
        """Returns the template of a string and what is around it, or None for one that stays."""
        if node.note:
            pairs.leave(NOT_TRANSLATED)
            return None
        raw = node.raw
        section = cdata(raw)
        before, content, after = section or re.fullmatch(r"(\s*)(.*?)(\s*)", raw, re.S).groups()  # type: ignore[union-attr]
        if _REFERENCE.fullmatch(content):
            pairs.leave(NOT_TRANSLATED)
            return None
        quote = '"' if re.fullmatch(r'"(?:[^"\\]|\\.)*"', content, re.S) else ""
        pieces: list[Piece] = []
        for one in [Piece(WORDS, content)] if section else pieces_of(content, frozenset(), is_placeholder):
            pieces += android_pieces(one.text) if one.kind == WORDS else [one]
        write = escape_cdata if section else escape_text

        def escape(text: str) -> str:
            text = text.replace("\\", "\\\\").replace('"', '\\"')
            return write(text if quote else text.replace("'", "\\'"))

        def finish(text: str) -> str:
            return quote + ("\\" + text if text[:1] in ("@", "?") and not quote else text) + quote

        template = pairs.template(name, pieces, Style(escape=escape, finish=finish, numbered=True, lines=bool(quote)))
        return None if template is None else (template, before, after)

    def add(name: str, node: Node) -> None:
        found = read(name, node)
        if found is not None:
            template, before, after = found
            pairs.unit(name, [template], lambda made: [filled(node, node.tag, before + made[0] + after)])

    def add_plurals(node: Node) -> None:
        name = f"plurals {node.get('name')[:80]!r}"
        items = node.named("item")
        found = [read(name, item) for item in items]
        read_items = [(item, *one) for item, one in zip(items, found) if one is not None]
        has = [item.get("quantity") for item in items]
        new = [one for one in (categories(pairs.lang) if pairs.lang else ()) if one not in has]
        other = next((i for i, (item, *_) in enumerate(read_items) if item.get("quantity") == "other"), None)

        def put(made: list[str]) -> list[tuple[int, int, str]]:
            edits = [filled(item, item.tag, before + text + after) for text, (item, _, before, after) in zip(made, read_items)]
            if other is not None and new:
                item, _, before, after = read_items[other]
                added = "".join(item.space + with_attributes(item.tag, quantity=one) + before + made[other] + after + f"</{item.prefix}item>"
                                for one in new if not item.is_empty)
                edits.append((items[-1].end, items[-1].end, added))
            return edits

        if read_items:
            pairs.unit(name, [template for _, template, *_ in read_items], put)

    walk(pairs, "resources", ("string", "item", "skip", "eat-comment"), ("item",), leave, enter)


def is_placeholder(tag: str, _: dict[str, str]) -> bool:
    """Whether an element of Android is a placeholder: <xliff:g>."""
    return tag.endswith(":g")


# ---- .NET

def read_resx(pairs: Pairs) -> None:
    """Reads the strings of a .NET program. A translation takes the place of its source; the name of the file says the language."""
    def leave(node: Node, around: list[Node]) -> None:
        if node.name != "data":
            return
        value, comment = node.child("value"), node.child("comment")
        name, said = node.get("name"), comment.words if comment else ""
        locked = [one[1] for one in _LOCKED.finditer(said)]
        if node.get("type") or node.get("mimetype") or name.startswith(">>") or None in locked or "@Invariant" in said:
            pairs.leave(NOT_TRANSLATED)
            return
        if value is None or not value.raw.strip():
            pairs.leave(NO_SOURCE)
            return
        kept = tuple(word for one in locked if one for word in re.findall('"([^"]+)"', one)[:20])
        add_whole(pairs, f"data {name[:80]!r}", value, Style(signs="&", kept=kept))

    walk(pairs, "root", ("value", "comment"), ("value", "comment"), leave)


def add_whole(pairs: Pairs, name: str, node: Node, style: Style) -> None:
    """Adds a unit whose translation takes the place of its source."""
    section = cdata(node.raw)
    before, after = (section[0], section[2]) if section else ("", "")
    pieces = [Piece(WORDS, section[1])] if section else pieces_of(node.raw, frozenset())
    template = pairs.template(name, pieces, style._replace(escape=escape_cdata if section else escape_text))
    if template is not None:
        pairs.unit(name, [template], lambda made: [filled(node, node.tag, before + made[0] + after)])


# ---- Apple

def read_stringsdict(pairs: Pairs) -> None:
    """Reads the plural forms of an Apple program. A translation takes the place of its source."""
    def leave(node: Node, around: list[Node]) -> None:
        parent = around[-1] if around else node
        if node.name == "key":
            parent.note = node.words
        elif node.name == "string":
            key = parent.note or ""
            path = [str(one.note)[:60] for one in around if one.note]
            if key in CATEGORIES or key == "NSStringLocalizedFormatKey":
                add_whole(pairs, f"string {' '.join(path)!r}", node, Style(numbered=True))
            elif key not in _PLIST_TYPES:
                pairs.leave(NOT_TRANSLATED)
        elif node.name == "dict" and pairs.lang:
            add_forms(node)

    def add_forms(node: Node) -> None:
        """Adds the forms of the target language that the source lacks."""
        keys, strings = [one.words for one in node.named("key")], node.named("string")
        new = [one for one in categories(pairs.lang) if one not in keys]
        if "other" not in keys or len(keys) != len(strings) or not new:
            return
        key, other = node.named("key")[keys.index("other")], strings[keys.index("other")]
        template = pairs.template(f"string {node.note!r}", pieces_of(other.raw, frozenset()), Style(numbered=True, escape=escape_text))
        if template is not None:
            pairs.unit(f"string {str(node.note)[:60]!r}", [template], lambda made: [(other.end, other.end, "".join(
                f"{key.space}<key>{one}</key>{other.space}<string>{made[0]}</string>" for one in new))])

    walk(pairs, "plist", ("key", "string", "integer", "real", "date", "data"), ("key", "string"), leave)
