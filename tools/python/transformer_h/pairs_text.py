"""A text of a file with source and target, as the model gets it, and back.

The reader of a file divides a text into pieces: words, and codes of the file such as <x id="1"/>. This module finds the
placeholders of programs in the words (%s, {name}, <b>). The model gets the words with a tag for each code and placeholder: <ph></ph> for
one that stands alone, <x/> for one that shows nothing, <g> around words, <br/> for the end of a line. A translation that has not each of them once is refused, because
a program that reads the file could end with an error, or show a wrong value."""

from __future__ import annotations

import html
import re
from collections import Counter
from html.entities import html5
from typing import Any, Callable, Collection, NamedTuple, Sequence, Union

from .markup import placeholders

# Numbers of repetitions have limits: with overlapping ones, a match could take a time that grows with the square of the text.
PRINTF = (r"%(?:\d{1,3}\$)?[-+#0']{0,5}(?:\d{1,5}|\*)?(?:\.(?:\d{1,5}|\*))?(?:hh|ll|I64|I32|[hlqLzjt])?"
          r"(?:[diouxXeEfFgGaAcCsSp@]|<PRI\w{1,20}>|(?<=[%\d])m(?![a-zA-Z]))")
_PRINTF, _NAMED, _NUMBERED = re.compile(PRINTF), re.compile(r"%%|%#@\w{1,100}@"), re.compile(r"%\d+\$")
_KEPT = re.compile(r"%%|%#@\w{1,100}@|%\(\w{1,100}\)[-+#0 ]{0,5}\d{0,5}(?:\.\d{1,5})?[a-zA-Z]|%\{\w{1,100}\}|" + PRINTF +
                   r"|%L?\d{1,2}(?!\d)|%n\b|\{\{[^{}]{0,200}\}\}|\{[\w.\[\]-]{0,100}(?:,[^{}]{0,100})?(?:[!:][^{}]{0,100})?\}")
_MADE_UP = re.compile(r"[{}]|%(?:\w{1,100}%|[\d(#]|[-+#0']{0,5}[diouxXeEfFgGaAcCsSp@](?![a-zA-Z]))|\$\{")
_STRICT = re.compile("%%|" + PRINTF.replace("#0'", "#0' "))
_TAG_IN_TEXT = re.compile(r"(?<!%)<(/?)((?!PRI)[a-zA-Z][\w:.-]{0,100})((?:\s[^<>]{0,2000})?)(/?)>")
_HTML_TAG = re.compile(r"</?(?:a|abbr|b|big|br|code|div|em|font|h[1-6]|hr|i|img|li|ol|p|s|small|span|strike|strong|sub|sup|table|td|th|tr|tt|u|ul)"
                       r"(?:\s[^<>]*)?/?>", re.I)
_ENTITY = re.compile(r"&(#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,31});")
_SIMPLE = re.compile(r"[^%{}<>&$\n\r\[\]@#_:\\/=+*|~^`-]*")  # words without anything that could be a code
_LINES = re.compile(r"[ \t]*(?:\r\n|\r|\n)\s*")
TAG = re.compile(r'<(/?)(g|x|ph|br)(?: id="(\d+)")?\s*/?>(?:</ph>)?')
_UNSEEN = re.compile(r"\s|\\[nrt]|<!--|<\?")  # begins a code that shows nothing
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\S*")
MOST_CODES = 400  # pieces of a word that are divided by codes
# A sign before the letter of a menu. "_" is also in names such as job_spec.
_MENU = {"&": re.compile(r"&(?=[^\W\d_])"), "_": re.compile(r"(?<!\w)_(?=[^\W\d_])|^[^\W\d_a-z][^\W\d_]*_(?=[^\W\d_A-Z])(?!.* .* )")}
# kinds of pieces: words, a code that stands alone, codes around words, the end of a line
WORDS, CODE, OPEN, CLOSE, LINE = "words", "code", "open", "close", "line"
# why a unit stays as it is
HAS_TRANSLATION, NOT_TRANSLATED, NO_LETTERS, NO_SOURCE = (
    "a unit that has a translation", "a unit that is not to be translated", "a unit without letters", "a unit without a source text")


class Refused(Exception):
    """Says why a translation is not written."""


class Style(NamedTuple):
    """How the texts of a format are written."""

    escape: Callable[[str], str] = str  # words as the file has them
    finish: Callable[[str], str] = str  # the whole text, with its codes
    numbered: bool = False  # %s may become %1$s where the order changes
    strict: bool = False  # each % begins a placeholder
    signs: str = ""  # that mark the letter of a menu, before it: &Open, _Open
    lines: bool = True  # the ends of lines count; else they are spaces
    kept: tuple[str, ...] = ()  # further words that stay


class Piece(NamedTuple):
    kind: str
    text: str  # of words what they say, of codes what the file has
    key: str = ""  # of codes around words: the same for both


class Token:
    """A piece of a text, divided at its placeholders. numbers: of the placeholders without a number in it, in the order of the source."""

    __slots__ = ("kind", "text", "key", "numbers")

    def __init__(self, kind: str, text: str, key: str = "") -> None:
        self.kind, self.text, self.key = kind, text, key
        self.numbers: list[int] = []


def has_letters(pieces: Sequence[Piece]) -> bool:
    return any(one.kind == WORDS and _LETTER.search(one.text) for one in pieces)


def pair_up(tokens: Sequence[Token]) -> None:
    """Makes a code that stands alone of each opening code without its closing code, and of each closing code without its opening one."""
    waiting: list[Token] = []
    count: Counter[str] = Counter()
    for token in tokens:
        if token.kind == OPEN:
            waiting.append(token)
            count[token.key] += 1
        elif token.kind == CLOSE and not count[token.key]:
            token.kind = CODE
        elif token.kind == CLOSE:
            while waiting[-1].key != token.key:
                waiting[-1].kind = CODE
                count[waiting.pop().key] -= 1
            count[waiting.pop().key] -= 1
    for token in waiting:
        token.kind = CODE


class Message:
    """A text that is translated as one. html is what the model gets."""

    __slots__ = ("style", "is_html", "entities", "sign", "tokens", "html")

    def __init__(self, pieces: Sequence[Piece], style: Style) -> None:
        self.style, self.sign, self.is_html = style, "", False
        self.entities: Collection[str] = ()
        self.tokens: list[Token] = []
        if len(pieces) == 1 and pieces[0].kind == WORDS and not style.kept and _SIMPLE.fullmatch(pieces[0].text):
            self.html = pieces[0].text  # most texts are like this
            return
        words = "".join(one.text for one in pieces if one.kind == WORDS)
        self.is_html = bool(_HTML_TAG.search(words)) or any(one[1][0] == "#" or one[1] + ";" in html5 for one in _ENTITY.finditer(words))
        if self.is_html:
            self.entities = {one[1] for one in _ENTITY.finditer(words)}
        for piece in pieces:
            if piece.kind == WORDS:
                self.divide(piece.text)
            else:
                self.tokens.append(Token(*piece))
        self.check_codes()
        pair_up(self.tokens)
        self.sign = self.without_sign()
        self.number()
        self.html = self.as_html()

    def check_codes(self) -> None:
        """Refuses a word with very many codes, each of which is looked at again for each other one."""
        n = 0
        for token in self.tokens:
            n = 0 if token.kind == WORDS and not _WORD.fullmatch(token.text) else n + 1
            if n > MOST_CODES:
                raise Refused(f"more than {MOST_CODES // 2} codes in a word")

    def divide(self, words: str) -> None:
        """Adds the tokens of words, which may have tags as text."""
        at = 0
        for tag in _TAG_IN_TEXT.finditer(words) if "<" in words else ():
            self.divide_plain(words[at:tag.start()])
            at = tag.end()
            is_alone = tag[4] or tag[2].lower() in ("br", "img", "hr", "input")
            self.tokens.append(Token(LINE if tag[2].lower() == "br" and not tag[1] else CODE if is_alone else CLOSE if tag[1] else OPEN,
                                     self.style.escape(tag[0]), f"<{tag[2].lower()}"))
        self.divide_plain(words[at:])

    def divide_plain(self, words: str) -> None:
        """Adds the tokens of words without tags."""
        if self.is_html:
            words = html.unescape(words)
        places = [(one.start(), one.end(), CODE) for one in _KEPT.finditer(words) if self.is_placeholder(words, one)]
        places += [(begin, end, CODE) for begin, end in placeholders(words)]
        if self.style.strict:
            places += [(*one.span(), CODE) for one in _STRICT.finditer(words)]
        for word in self.style.kept:
            places += [(one.start(), one.end(), CODE) for one in re.finditer(re.escape(word), words)]
        if self.style.lines:
            places += [(one.start(), one.end(), LINE) for one in _LINES.finditer(words)]
        at = 0
        for begin, end, kind in sorted(places, key=lambda place: (place[0], -place[1])):
            if begin < at:
                continue
            if begin > at:
                self.tokens.append(Token(WORDS, words[at:begin]))
            if kind == LINE and self.goes_on(words[max(begin - 1, 0):begin], words[end:end + 1]):
                kind = CODE
            self.tokens.append(Token(kind, self.written(words[begin:end])))
            at = end
        if at < len(words):
            self.tokens.append(Token(WORDS, words[at:]))

    @staticmethod
    def goes_on(before: str, after: str) -> bool:
        """Whether a sentence goes on in the next line."""
        return after.islower() and before not in ".!?:;"

    def is_placeholder(self, words: str, found: re.Match[str]) -> bool:
        """Whether this is a placeholder and not the sign for percent, as in "100%ige"."""
        first, last = words[max(found.start() - 1, 0):found.start()], words[found.end():found.end() + 1]
        return self.style.strict or not (found[0][0] == "%" and found[0] != "%%" and first.isdigit() and last.isalpha())

    def written(self, words: str) -> str:
        """Returns words as the file has them."""
        if self.is_html:  # signs that were no entities stay as they are
            words = words.replace("&", "&amp;") if "amp" in self.entities else re.sub(r"&(?=#?\w{1,40};)", "&amp;", words)
            words = words.replace("<", "&lt;")
            for name, sign in (("gt", ">"), ("nbsp", "\u00a0"), ("quot", '"')):
                if name in self.entities:
                    words = words.replace(sign, f"&{name};")
        return self.style.escape(words)

    def without_sign(self) -> str:
        """Takes the sign that marks the letter of a menu out of the words, and returns it."""
        words = "".join(one.text for one in self.tokens if one.kind == WORDS)
        for sign in self.style.signs if not self.is_html else "":
            if words.count(sign) == 1 and _MENU[sign].search(words):
                for one in self.tokens:
                    if one.kind == WORDS:
                        one.text = one.text.replace(sign, "")
                return sign
        return ""

    def number(self) -> None:
        n = 0
        for token in self.tokens:
            if token.kind != WORDS:
                for _ in self.unnumbered(token.text):
                    token.numbers.append(n)
                    n += 1

    @staticmethod
    def unnumbered(text: str) -> list[str]:
        """Returns the placeholders of a code that a program fills in the order in which they are."""
        found = [one[0] for one in _PRINTF.finditer(_NAMED.sub(" ", text)) if not _NUMBERED.match(one[0])] if "%" in text else []
        return found + ["{}"] * text.count("{}")

    def as_html(self) -> str:
        made, around = [], []
        for i, token in enumerate(self.tokens):
            if token.kind == WORDS:
                made.append(html.escape(token.text, quote=False))
            elif token.kind == OPEN:
                made.append(f'<g id="{i}">')
                around.append(i)
            elif token.kind == CLOSE:
                made.append("</g>")
                token.key = str(around.pop())  # the token that opens it
            else:
                made.append("<br/>" if token.kind == LINE else f'<x id="{i}"/>' if _UNSEEN.match(token.text) else f'<ph id="{i}"></ph>')
        return "".join(made)

    def back(self, translation: str) -> str:
        """Returns a translation as the file has it. Raises Refused if it has other placeholders than the source."""
        if not self.tokens:
            if _SIMPLE.fullmatch(translation) and (_LETTER.search(translation) or not _LETTER.search(self.html)):
                return self.style.finish(self.style.escape(translation))
            self.tokens = [Token(WORDS, self.html)]
        found = self.parsed(translation)
        words = "".join(one for one in found if isinstance(one, str))
        source = "".join(one.text for one in self.tokens if one.kind == WORDS)
        if _LETTER.search(source) and not _LETTER.search(words):
            raise Refused("the translation has no words")
        made_up = Counter(_MADE_UP.findall(words)) - Counter(_MADE_UP.findall(source))
        if (self.style.strict or any(one.numbers for one in self.tokens)) and words.count("%") > source.count("%"):
            made_up["%"] += 1
        if made_up:
            raise Refused(f"the translation has a placeholder that the source has not: {next(iter(made_up))}")
        if any(words.count(sign) != source.count(sign) for sign in "{}"):
            raise Refused("the translation has other brackets { } than the source")
        order = [number for one in found if isinstance(one, Token) for number in one.numbers]
        out = []
        sign = self.sign
        is_moved = order != sorted(order)
        for one in found:
            if isinstance(one, str):
                letter = re.search(r"[^\W_]", one) if sign else None
                if letter:
                    one, sign = f"{one[:letter.start()]}{sign}{one[letter.start():]}", ""
                out.append(self.written(one))
            else:
                out.append(self.with_numbers(one) if is_moved and one.numbers else one.text)
        return self.style.finish("".join(out))

    def parsed(self, translation: str) -> list[str | Token]:
        """Returns the words and the codes of a translation, each of which it has to have once."""
        found: list[str | Token] = []
        lines = iter([one for one in self.tokens if one.kind == LINE])
        closing = {one.key: one for one in self.tokens if one.kind == CLOSE}
        seen: set[int] = set()
        around: list[str] = []
        at = 0
        for tag in TAG.finditer(translation):
            if tag.start() > at:
                found.append(html.unescape(translation[at:tag.start()]))
            at = tag.end()
            if tag[2] == "br":
                token = next(lines, None)
                if token is None:
                    raise Refused("the translation has more lines than the source")
            elif tag[1]:
                token = closing[around.pop()]
            else:
                token = self.tokens[int(tag[3])]
                if int(tag[3]) in seen:
                    raise Refused(f"the translation has a placeholder twice: {token.text[:60]}")
                seen.add(int(tag[3]))
                if token.kind == OPEN:
                    around.append(tag[3])
            found.append(token)
        if at < len(translation):
            found.append(html.unescape(translation[at:]))
        lost = next((one for i, one in enumerate(self.tokens) if one.kind in (CODE, OPEN) and i not in seen), None) or next(lines, None)
        if lost is not None:
            raise Refused(f"the translation lost a placeholder: {lost.text[:60]}")
        return found

    def with_numbers(self, token: Token) -> str:
        """Returns a code whose placeholders have numbers, because others are before it than in the source."""
        kinds = self.unnumbered(token.text)
        if any("*" in one or one == "{}" or not (self.style.numbered or one[-1] == "@") for one in kinds):
            raise Refused(f"the translation has placeholders without numbers in another order: {token.text[:60]}")
        numbers = iter(token.numbers)
        return re.sub(f"{_NAMED.pattern}|{PRINTF}", lambda one: one[0] if _NAMED.match(one[0]) or _NUMBERED.match(one[0])
                      else f"%{next(numbers) + 1}${one[0][1:]}", token.text)


Template = list[Union[str, Message]]  # the parts of a text: messages, and what the file has between them
Edit = tuple[int, int, Any]  # where it begins and ends, and what is there now
