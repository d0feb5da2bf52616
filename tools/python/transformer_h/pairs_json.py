"""Texts of programs in JSON: xcstrings of Xcode, and arb of Flutter."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Callable, Iterator

from .pairs_plurals import CATEGORIES, categories, code_of, is_same_language
from .pairs_text import HAS_TRANSLATION, NO_SOURCE, NOT_TRANSLATED, WORDS, Piece, Style

if TYPE_CHECKING:
    from .pairs import Pairs

MOST_DEPTH = 50  # objects inside each other
MOST_LINE = 2000  # letters before a place in its line
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+)', re.S)


class Value:
    """A value of JSON and its place. An object has its members, each with the place of its key."""

    __slots__ = ("begin", "end", "value", "members")

    def __init__(self, begin: int) -> None:
        self.begin = self.end = begin
        self.value: Any = None  # of a string or a number
        self.members: dict[str, tuple[int, Value]] | None = None

    def get(self, *path: str) -> Value | None:
        found: Value | None = self
        for one in path:
            if found is None or found.members is None or one not in found.members:
                return None
            found = found.members[one][1]
        return found

    def text(self, *path: str) -> str:
        found = self.get(*path)
        return found.value if found is not None and isinstance(found.value, str) else ""

    def items(self) -> Iterator[tuple[str, Value]]:
        return ((key, one) for key, (_, one) in (self.members or {}).items())


def read_json(pairs: Pairs) -> Value:
    """Returns the object that a file has."""
    text = str(pairs.base)
    try:
        if not isinstance(json.loads(text, parse_int=str, parse_float=str), dict):
            pairs.refuse("not an object of JSON")
    except (ValueError, RecursionError) as e:
        pairs.refuse(f"not JSON that can be read: {e}")
    root = Value(0)
    stack: list[Value] = []
    key: tuple[int, str] | None = None
    for one in _TOKEN.finditer(text):
        if one[2] in ("}", "]"):
            done = stack.pop()
            done.end = one.end()
            if not stack:
                root = done
        elif one[2] in (",", ":"):
            pass
        elif one[1] and key is None and stack and stack[-1].members is not None:
            key = one.start(), json.loads(one[1], strict=False)
        else:
            made = Value(one.start())
            made.end = one.end()
            if one[1]:
                made.value = json.loads(one[1], strict=False)
            elif one[2]:
                made.members = {} if one[2] == "{" else None
            else:
                made.value = {"true": True, "false": False}.get(one[3], one[3])
            if stack and stack[-1].members is not None and key is not None:
                stack[-1].members[key[1]] = key[0], made
                key = None
            if one[2]:
                stack.append(made)
                if len(stack) > MOST_DEPTH:
                    pairs.refuse(f"more than {MOST_DEPTH} objects inside each other")
    return root


def escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


STYLE = Style(escape=escaped)


def read_arb(pairs: Pairs) -> None:
    """Reads the strings of a Flutter program. A translation takes the place of its source."""
    root = read_json(pairs)
    pairs.check_source(root.text("@@locale"))
    code, locale = code_of(pairs.lang, "_"), root.get("@@locale")
    if code and locale is not None:
        pairs.edit(locale.begin, locale.end, json.dumps(code))
    pairs.lacks_language = not code and locale is not None
    for key, value in root.items():
        if key.startswith("@"):
            continue
        if not isinstance(value.value, str):
            pairs.leave(NO_SOURCE)
            continue
        name = f"string {key[:80]!r}"
        template = pairs.template(name, [Piece(WORDS, value.value)], STYLE)
        if template is not None:
            pairs.unit(name, [template], putting(value))


def putting(value: Value) -> Callable[[list[str]], list[tuple[int, int, str]]]:
    return lambda made: [(value.begin, value.end, f'"{made[0]}"')]


# ---- Xcode

class Xcstrings:
    """The reader of xcstrings. A string gets a localization in the target language, with the plural forms that this language has."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.lang = code_of(pairs.need_lang("xcstrings"), "-") or pairs.lang
        root = read_json(pairs)
        self.source = root.text("sourceLanguage")
        pairs.check_source(self.source)
        strings = root.get("strings")
        self.base = str(pairs.base)
        self.line_end = "\r\n" if "\r\n" in self.base[:10000] else "\n"
        for key, one in strings.items() if strings else ():
            self.add(key, one)

    def add(self, key: str, string: Value) -> None:
        pairs = self.pairs
        should = string.get("shouldTranslate")
        if (should is not None and should.value is False) or string.text("extractionState") == "stale":
            pairs.leave(NOT_TRANSLATED)
            return
        localizations = string.get("localizations")
        its_key = next((one for one, _ in (localizations.items() if localizations else ()) if one == self.lang), None) or next(
            (one for one, _ in (localizations.items() if localizations else ()) if is_same_language(one, self.lang) and one != self.source), None)
        before = localizations.get(its_key) if localizations and its_key else None
        if before is not None and not self.is_new(before):
            pairs.leave(HAS_TRANSLATION)
            return
        name = f"string {key[:80]!r}"
        source = localizations.get(self.source) if localizations else None
        templates: list[Any] = []
        made = self.localization(name, source, templates, ()) if source else self.unit(name, key, templates)
        if made is None:
            return
        if not templates:
            pairs.leave(NO_SOURCE)
            return

        def put(found: list[str]) -> list[tuple[int, int, str]]:
            value = filled(made, found)
            if before is not None:
                return [(before.begin, before.end, self.written(value, before.begin))]
            return [self.inserted(string, localizations, value)]

        pairs.unit(name, templates, put)

    def is_new(self, value: Value) -> bool:
        """Whether all texts of a localization are new."""
        if value.members is None:
            return True
        unit = value.get("stringUnit")
        if unit is not None:
            return unit.text("state") == "new" or not unit.text("value").strip()
        return all(self.is_new(one) for _, one in value.items())

    def unit(self, name: str, text: str, templates: list[Any]) -> dict[str, Any] | None:
        """Returns a unit whose text is the number of its template."""
        template = self.pairs.template(name, [Piece(WORDS, text)], STYLE._replace(numbered=True))
        if template is None:
            return None
        templates.append(template)
        return {"stringUnit": {"state": "needs_review", "value": len(templates) - 1}}

    def localization(self, name: str, source: Value, templates: list[Any], path: tuple[str, ...]) -> dict[str, Any] | None:
        """Returns what the source has, with the number of a template for each text; None for what cannot be read."""
        made: dict[str, Any] = {}
        for key, value in source.items():
            inner: Any
            if key == "stringUnit":
                inner = self.unit(name, value.text("value"), templates)
                inner = inner and inner["stringUnit"]
            elif value.members is None:
                made[key] = value.value if key != "argNum" else int(value.value)
                continue
            else:
                inner = self.localization(name, value, templates, (*path, key))
                if inner is not None and key == "plural" and path[-1:] == ("variations",):
                    self.add_forms(inner)
            if inner is None:
                return None
            made[key] = inner
        return made

    def add_forms(self, forms: dict[str, Any]) -> None:
        """Gives a plural the forms of the target language."""
        wanted = categories(self.lang)
        if "other" in forms:
            kept = {one: forms[one] if one in forms else forms["other"] for one in CATEGORIES if one in wanted or one == "zero" and one in forms}
            forms.clear()
            forms.update(kept)

    def inserted(self, string: Value, localizations: Value | None, value: Any) -> tuple[int, int, str]:
        """Returns the edit that adds a localization where Xcode, which sorts them, has it."""
        if localizations is None:
            at, found = string, {"localizations": {self.lang: value}}
        else:
            at, found = localizations, {self.lang: value}
        members = list((at.members or {}).items())
        (key, inner), = found.items()
        after = next((one for one in members if one[0] > key), None)
        place = after[1][0] if after else members[-1][1][1].end if members else at.begin + 1
        line = self.line_of(members[0][1][0]) if members else self.line_of(at.begin)
        text = f"{json.dumps(key, ensure_ascii=False)} : "
        if line is None:  # on one line
            text += json.dumps(inner, ensure_ascii=False, separators=(", ", " : "))
            return place, place, f"{text}, " if after else f", {text}" if members else text
        if not members:
            rest = self.line_end + line
            return at.begin, at.end, f"{{{rest}  {text}{self.dumped(inner, line + '  ')}{rest}}}"
        text += self.dumped(inner, line)
        return place, place, f"{text},{self.line_end}{line}" if after else f",{self.line_end}{line}{text}"

    def line_of(self, at: int) -> str | None:
        """Returns the spaces that begin the line of a place, or None if the line begins with something else that is on it."""
        begin = self.base.rfind("\n", max(0, at - MOST_LINE), at) + 1
        spaces = re.match("[ \t]*", self.base[begin:at])
        if self.base[at] == "{" and begin:  # the line of its key
            return spaces[0] if spaces and self.base[begin:at].count("{") == 0 else None
        return self.base[begin:at] if begin and not self.base[begin:at].strip() else None

    def dumped(self, value: Any, line: str) -> str:
        return json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : ")).replace("\n", self.line_end + line)

    def written(self, value: Any, at: int) -> str:
        line = self.line_of(at)
        return json.dumps(value, ensure_ascii=False, separators=(", ", " : ")) if line is None else self.dumped(value, line)


def filled(value: Any, found: list[str]) -> Any:
    """Returns a localization with the texts in the places of their numbers."""
    if isinstance(value, dict):
        return {key: json.loads(f'"{found[one]}"', strict=False) if key == "value" and isinstance(one, int) else filled(one, found)
                for key, one in value.items()}
    return value


def read_xcstrings(pairs: Pairs) -> None:
    Xcstrings(pairs)
