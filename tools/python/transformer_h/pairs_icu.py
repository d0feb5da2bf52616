"""Texts with plural forms inside, as ICU has them: {count, plural, one{# file} other{# files}}.

Each form is a text of its own. Words around forms belong to each of them, because a sentence is translated as a whole:
"Delete {n, plural, one{a file} other{# files}}?" is translated as {n, plural, one{Delete a file?} other{Delete # files?}}."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Sequence, Union

from .pairs_text import CODE, WORDS, Message, Piece, Refused, Style, Template, has_letters

_CHOICE = re.compile(r"\{\s*[\w.-]{1,100}\s*,\s*(?:plural|select|selectordinal)\s*,")
_HEAD = re.compile(r"\{\s*([\w.-]{1,100})\s*,\s*(plural|select|selectordinal)\s*,\s*(offset\s*:\s*\d{1,9})?")
_BRANCH = re.compile(r"\s*(=\d{1,9}|[\w-]{1,100})\s*\{")
_QUOTED = re.compile(r"'[{}#|][^']*'?")
_PLAIN = re.compile(r"[^{}'#]+")
MOST_DEPTH = 20  # choices and arguments inside each other
MOST_BESIDE = 4  # choices in one sentence
MOST_GROWTH = 8  # the forms have at most so many times the letters of the text


class Choice(NamedTuple):
    """{count, plural, one{...} other{...}}. Before each branch is what the file has there."""

    name: str
    is_plural: bool
    has_offset: bool
    branches: list[tuple[str, list[Node]]]
    end: str


Node = Union[Piece, Choice]


def is_icu(text: str) -> bool:
    return "{" in text and _CHOICE.search(text) is not None


def parse(text: str, at: int, in_plural: bool, depth: int) -> tuple[list[Node], int]:
    """Returns the nodes from `at` up to the bracket that closes them, or the end of the text."""
    if depth > MOST_DEPTH:
        raise Refused(f"more than {MOST_DEPTH} choices inside each other")
    nodes: list[Node] = []
    while at < len(text) and text[at] != "}":
        plain, quoted = _PLAIN.match(text, at), _QUOTED.match(text, at)
        if plain:
            nodes.append(Piece(WORDS, plain[0]))
            at = plain.end()
        elif quoted:
            nodes.append(Piece(CODE, quoted[0]))
            at = quoted.end()
        elif text[at] == "#" and in_plural:
            nodes.append(Piece(CODE, "#"))
            at += 1
        elif text[at] != "{":
            nodes.append(Piece(WORDS, text[at]))
            at += 1
        else:
            head = _HEAD.match(text, at)
            if head:
                choice, at = parse_choice(text, head, in_plural, depth)
                nodes.append(choice)
            else:
                begin, (_, at) = at, parse(text, at + 1, False, depth + 1)
                if at == len(text):
                    raise Refused("a bracket { is not closed")
                at += 1
                nodes.append(Piece(CODE, text[begin:at]))
    return nodes, at


def parse_choice(text: str, head: re.Match[str], in_plural: bool, depth: int) -> tuple[Choice, int]:
    branches: list[tuple[str, list[Node]]] = []
    begin, at = head.start(), head.end()
    is_plural = head[2] != "select"
    while branch := _BRANCH.match(text, at):
        inner, end = parse(text, branch.end(), is_plural or in_plural, depth + 1)
        if end == len(text):
            raise Refused("a bracket { is not closed")
        branches.append((text[begin:branch.end()], inner))
        begin = end
        at = end + 1
    closing = re.compile(r"\s*\}").match(text, at)
    if not branches or not closing:
        raise Refused(f"a choice that cannot be read: {text[head.start():head.start() + 60]}")
    return Choice(head[1], is_plural, bool(head[3]), branches, text[begin:closing.end()]), closing.end()


def numbered_again(nodes: Sequence[Node], name: str) -> list[Node]:
    """Returns nodes in which # is the number's name, because they move into another plural."""
    return [Piece(CODE, f"{{{name}}}") if one == Piece(CODE, "#") else one for one in nodes]


class Icu:
    """Makes the parts of a text: what the file has between the forms, and a Message for each form."""

    def __init__(self, style: Style, code: Callable[[str], str], most: int) -> None:
        """code(text) returns a part without words, such as an argument or a tag, in the notation of the file."""
        self.style, self.code, self.left = style, code, most

    def parts(self, nodes: list[Node], plural: Choice | None) -> Template:
        """plural is the choice that # in these nodes belongs to."""
        pieces = [one for one in nodes if isinstance(one, Piece)]
        if len(pieces) == len(nodes):
            self.left -= sum(len(one.text) for one in pieces)
            if self.left < 0:
                raise Refused("too many plural forms inside each other")
            return [Message([one if one.kind == WORDS else Piece(CODE, self.code(one.text)) for one in pieces], self.style)]
        if not has_letters(pieces):  # each choice stands alone
            made: Template = []
            for one in nodes:
                made += [self.code(one.text)] if isinstance(one, Piece) else self.choice(one, [], [], plural)
            return made
        if len(nodes) - len(pieces) > MOST_BESIDE:
            raise Refused("too many plural forms in a sentence")
        at = next(i for i, one in enumerate(nodes) if isinstance(one, Choice))
        choice, before, after = nodes[at], nodes[:at], nodes[at + 1:]
        assert isinstance(choice, Choice)
        if plural is not None and choice.is_plural and Piece(CODE, "#") in pieces:
            if plural.has_offset:
                raise Refused("a plural with an offset around another one")
            before, after = numbered_again(before, plural.name), numbered_again(after, plural.name)
        return self.choice(choice, before, after, plural)

    def choice(self, choice: Choice, before: list[Node], after: list[Node], plural: Choice | None) -> Template:
        made: Template = []
        for head, branch in choice.branches:
            made.append(self.code(head))
            made += self.parts([*before, *branch, *after], choice if choice.is_plural else plural)
        return [*made, self.code(choice.end)]


def icu_parts(text: str, style: Style) -> Template:
    """Returns the parts of a text. Raises Refused if the text cannot be read."""
    escape, finish = style.escape, style.finish
    is_doubled = "''" in text

    def escaped(words: str) -> str:
        return escape(words.replace("'", "''") if is_doubled else words)

    def finished(whole: str) -> str:  # an apostrophe before a bracket would quote it
        return finish(re.sub(r"(?<!')'(?=\{\w)", "\u2019", whole) if not is_doubled else whole)

    nodes, end = parse(text, 0, False, 0)
    if end < len(text):
        raise Refused("a bracket } is not opened")
    if is_doubled:
        nodes = doubled(nodes)
    return Icu(style._replace(escape=escaped, finish=finished), escape, MOST_GROWTH * len(text) + 1000).parts(nodes, None)


def doubled(nodes: list[Node]) -> list[Node]:
    """Returns nodes in which '' of words is one apostrophe."""
    made: list[Node] = []
    for one in nodes:
        if isinstance(one, Choice):
            made.append(one._replace(branches=[(head, doubled(branch)) for head, branch in one.branches]))
        elif one.kind == WORDS and made and one.text == "'" and made[-1] == one:
            pass  # the second one of two
        else:
            made.append(one)
    return made
