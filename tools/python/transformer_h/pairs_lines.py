"""gettext's po, and strings of Apple."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from .pairs_plurals import code_of, forms_of, is_same_language, plural_rule
from .pairs_text import CODE, HAS_TRANSLATION, LINE, NO_SOURCE, WORDS, Piece, Style

if TYPE_CHECKING:
    from .pairs import Pairs

_KEYWORD = re.compile(r"[ \t]*(msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,2}\])?)[ \t]*(?=\")")
_STRING = re.compile(r'[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[\da-fA-F]{1,2}|.)", re.S)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NPLURALS = re.compile(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]*);?\s*")
MOST_FORMS, MOST_WIDTH = 10, 76
FUZZY = "fuzzy"


def unescaped(raw: str) -> str:
    def letter(one: re.Match[str]) -> str:
        if one[1][0] in "01234567":
            return chr(int(one[1], 8) & 255)
        return chr(int(one[1][1:], 16)) if one[1][0] == "x" and len(one[1]) > 1 else _LETTERS.get(one[1], one[1])
    return _ESCAPE.sub(letter, raw) if "\\" in raw else raw


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


class Entry:
    """An entry of a po file: its flags, and each field with its place."""

    __slots__ = ("line", "fields", "flags", "flag_place", "place")

    def __init__(self) -> None:
        self.line = 0
        self.fields: dict[str, list[Any]] = {}  # name: [texts, begin, end]
        self.flags: list[str] = []
        self.flag_place: tuple[int, int] | None = None
        self.place = -1  # where a line with flags may be put

    def text(self, name: str) -> str:
        return unescaped("".join(self.fields[name][0])) if name in self.fields else ""

    def has(self, name: str) -> bool:
        return bool(self.text(name))


class Po:
    """The reader of po. An entry begins at a comment or a msgid behind a msgstr."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self.base = pairs, str(pairs.base)
        self.line_end = "\r\n" if "\r\n" in self.base[:10000] else "\n"
        self.entries: list[Entry] = []
        self.read()
        self.header = next((one for one in self.entries if "msgid" in one.fields and "msgctxt" not in one.fields and not one.has("msgid")), None)
        self.values = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", self.header.text("msgstr"), re.M)) if self.header else {}
        self.set_rule()
        has_finished = False
        for entry in self.entries:
            if entry is not self.header:
                has_finished = self.add(entry) or has_finished
        pairs.check_target(self.values.get("Language", ""), has_finished)
        pairs.lacks_language = not pairs.lang and not self.values.get("Language")
        if self.header:
            self.set_header(self.header)

    def wrong(self, line: int, why: str) -> NoReturn:
        self.pairs.refuse(f"line {line}: {why}")

    def read(self) -> None:
        at, entry, field = 0, Entry(), ""
        for number, line in enumerate(re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", self.base), 1):
            begin, at = at, at + len(line)
            content = line.strip()
            keyword = None if content.startswith("#") else _KEYWORD.match(line)
            is_first = keyword is not None and keyword[1] in ("msgctxt", "msgid")
            if not content or content.startswith("#") or is_first:
                if any(one.startswith("msgstr") for one in entry.fields) or (not content and not entry.fields):
                    entry = self.next(entry)
            if not content:
                continue
            if content.startswith("#"):
                field = ""
                if content.startswith("#,"):
                    entry.flags += [one.strip() for one in content[2:].split(",") if one.strip()]
                    entry.flag_place = begin, begin + len(line.rstrip("\r\n"))
                elif content.startswith("#|") and entry.place < 0:
                    entry.place = begin
                continue
            if keyword is not None:
                field = keyword[1]
                if field in entry.fields:
                    self.wrong(number, f"a second {field} in an entry")
                entry.fields[field] = [[], begin, at]
                entry.line = entry.line or number
                if entry.place < 0:
                    entry.place = begin
                if len(entry.fields) > 3 + MOST_FORMS:
                    self.wrong(number, f"more than {MOST_FORMS} plural forms")
            start = keyword.end() if keyword else 0
            string = _STRING.fullmatch(line.rstrip("\r\n"), start)
            if string is None or not field:
                self.wrong(number, "neither a comment nor a string of gettext")
            entry.fields[field][0].append(string[1])
            entry.fields[field][2] = begin + len(line.rstrip("\r\n"))
        self.next(entry)

    def next(self, entry: Entry) -> Entry:
        if "msgid" in entry.fields:
            self.entries.append(entry)
        return Entry()

    def set_rule(self) -> None:
        """Sets how many plural forms the file has, and what each is for."""
        lang, named = self.pairs.lang, self.values.get("Language", "")
        found = _NPLURALS.fullmatch(self.values.get("Plural-Forms", ""))
        self.rule = ""  # that the header gets
        if found and (not lang or not named or is_same_language(named, lang)):
            n, rule = int(found[1]), found[2]
        elif lang:
            n, rule = plural_rule(lang)
            self.rule = f"nplurals={n}; plural={rule};"
        else:
            n, rule = 2, "n != 1"
        try:
            self.forms = forms_of(n, rule) if 0 < n <= MOST_FORMS else []
        except ValueError as e:
            self.pairs.refuse(f"the header's Plural-Forms: {e}")
        if not self.forms:
            self.pairs.refuse(f"the header's Plural-Forms has {n} forms")

    def add(self, entry: Entry) -> bool:
        """Adds an entry. Returns whether it has a translation."""
        pairs = self.pairs
        strings = [one for one in entry.fields if one.startswith("msgstr")]
        name = f"line {entry.line}, msgid {entry.text('msgid')[:60]!r}"
        if not entry.has("msgid") or not strings:
            pairs.leave(NO_SOURCE)
            return False
        if any(entry.has(one) for one in strings):
            pairs.leave(HAS_TRANSLATION)
            return True
        is_c = any(one in entry.flags for one in ("c-format", "objc-format"))
        style = Style(escape=escaped, numbered=is_c, strict=is_c, signs="&_")
        singular = pairs.template(name, [Piece(WORDS, entry.text("msgid"))], style)
        if singular is None:
            return False
        templates = [singular]
        if "msgid_plural" in entry.fields:
            plural = pairs.template(name, [Piece(WORDS, entry.text("msgid_plural"))], style)
            if plural is None:
                return False
            templates.append(plural)
        begin = min(entry.fields[one][1] for one in strings)
        end = max(entry.fields[one][2] for one in strings)
        pairs.unit(name, templates, lambda made: [*self.flag(entry), (begin, end, self.line_end.join(self.written(made, templates)))])
        return False

    def written(self, made: list[str], templates: list[Any]) -> list[str]:
        """Returns the lines of the translations."""
        if len(made) == 1:
            return self.lines("msgstr", made[0])
        lines = []
        for i, (has_one, has_others) in enumerate(self.forms):
            # a form that is also for 21 needs the number that "one file" has not
            is_singular = has_one and len(self.forms) > 1 and (not has_others or codes(templates[0]) == codes(templates[1]))
            lines += self.lines(f"msgstr[{i}]", made[0] if is_singular else made[1])
        return lines

    @staticmethod
    def lines(name: str, raw: str) -> list[str]:
        """Returns a string as gettext writes it: a line ends at \\n, and before it is longer than MOST_WIDTH."""
        rows: list[str] = []
        row: list[str] = []
        width = 0
        for one in re.findall(r"\\.|[^\\ ]+ *| +", raw):
            if row and width + len(one.rstrip()) > MOST_WIDTH and row[-1][-1] == " ":
                rows.append("".join(row))
                row, width = [], 0
            row.append(one)
            width += len(one)
            if one == "\\n":
                rows.append("".join(row))
                row, width = [], 0
        if row:
            rows.append("".join(row))
        if len(rows) < 2 and len(raw) + len(name) + 3 < MOST_WIDTH + 3:
            return [f'{name} "{raw}"']
        return [f'{name} ""', *(f'"{one}"' for one in rows)]

    def flag(self, entry: Entry) -> list[tuple[int, int, str]]:
        """Returns the edit that marks an entry as one that somebody has to look at."""
        if FUZZY in entry.flags:
            return []
        if entry.flag_place:
            return [(*entry.flag_place, f"#, {', '.join([FUZZY, *entry.flags])}")]
        return [(entry.place, entry.place, f"#, {FUZZY}{self.line_end}")]

    def set_header(self, header: Entry) -> None:
        pairs, before = self.pairs, header.text("msgstr")
        after = re.sub(r"(charset=)CHARSET\b", r"\g<1>UTF-8", before)
        wanted = {}
        named, lang = self.values.get("Language", ""), code_of(pairs.lang, "_")
        if lang and not is_same_language(named, lang):
            wanted["Language"] = lang
        if self.rule and any("msgid_plural" in one.fields for one in self.entries):
            wanted["Plural-Forms"] = self.rule
        for name, value in wanted.items():
            line = f"{name}: {value}\n"
            after, n = re.subn(rf"^{name}:.*\n?", line.replace("\\", r"\\"), after, count=1, flags=re.M)
            if not n:
                after += line if after.endswith("\n") or not after else f"\n{line}"
        if after == before:
            return
        if "charset=CHARSET" in before and FUZZY in header.flags and header.flag_place:  # msgfmt reads no header that is fuzzy
            rest = [one for one in header.flags if one != FUZZY]
            begin, end = header.flag_place
            pairs.edit(begin, end if rest else min(end + len(self.line_end), len(self.base)), f"#, {', '.join(rest)}" if rest else "")
        _, begin, end = header.fields["msgstr"]
        rows = [f'"{escaped(one)}"' for one in re.findall(r"[^\n]*\n|[^\n]+", after)]
        pairs.edit(begin, end, self.line_end.join(['msgstr ""', *rows]))


def codes(template: list[Any]) -> list[str]:
    return sorted(token.text for one in template if not isinstance(one, str) for token in one.tokens if token.kind == CODE)


def read_po(pairs: Pairs) -> None:
    Po(pairs)


# ---- Apple

_APPLE = re.compile(r'\s+|/\*.*?\*/|//[^\n]*|(")((?:[^"\\]|\\.)*)"|([\w.$/:-]+)|([=;])|(.)', re.S)
_APPLE_ESCAPE = re.compile(r"\\(?:[Uu]([\da-fA-F]{4})|([0-7]{1,3})|(.))", re.S)
_APPLE_LETTERS = {'"', "'", "\\"}


def apple_pieces(raw: str) -> list[Piece]:
    """Returns the pieces of a string of Apple: escapes that are no letters stay."""
    made: list[Piece] = []
    text: list[str] = []
    at = 0
    for one in _APPLE_ESCAPE.finditer(raw):
        text.append(raw[at:one.start()])
        at = one.end()
        letter = chr(int(one[1], 16)) if one[1] else one[3]
        if one[1] or letter in _APPLE_LETTERS:
            text.append(letter)
        else:
            made += [Piece(WORDS, "".join(text)), Piece(LINE if letter == "n" else CODE, one[0])]
            text = []
    return [one for one in [*made, Piece(WORDS, "".join([*text, raw[at:]]))] if one.text]


def read_strings(pairs: Pairs) -> None:
    """Reads the strings of an Apple program. A translation takes the place of its source; the folder says the language."""
    base = str(pairs.base)
    if re.match(r"\s*(?:<\?xml|<!DOCTYPE plist|<plist|bplist)", base):
        pairs.refuse("strings as a property list; convert them to text with plutil -p, or give the source's .strings")
    style = Style(escape=escaped, numbered=True)
    key, has_value, value = "", False, None
    for one in _APPLE.finditer(base):
        if one[5]:
            pairs.refuse(f"line {1 + base.count(chr(10), 0, one.start())}: {one[5]!r} is not expected there")
        elif one[4] == "=":
            has_value = True
        elif one[4]:
            if key and value is not None:
                add_string(pairs, f"string {key[:80]!r}", value, style)
            key, has_value, value = "", False, None
        elif one[1] or one[3]:
            if not has_value:
                key = one[2] if one[1] else one[3]
            elif one[1]:
                value = one


def add_string(pairs: Pairs, name: str, value: re.Match[str], style: Style) -> None:
    begin, end = value.span(2)
    template = pairs.template(name, apple_pieces(value[2]), style)
    if template is not None:
        pairs.unit(name, [template], lambda made: [(begin, end, made[0])])
