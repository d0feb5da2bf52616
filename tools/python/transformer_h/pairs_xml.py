"""Reads XML with the places of its elements, so that a file can be changed without writing the rest of it again.

Expat, which Python has, checks the file and calls the reader of a format at the end of each element. What is inside a text is
read from the bytes, which expat has checked: words, CDATA, and elements that are codes."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Callable, Sequence
from xml.parsers import expat

from .office_xml import OPENING_TAG
from .pairs_text import CLOSE, CODE, OPEN, WORDS, Piece

if TYPE_CHECKING:
    from .pairs import Pairs

MOST_DEPTH = 200  # elements inside each other
_ATTRIBUTE = re.compile(r"""\s+([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")
_TOKEN = re.compile(r"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|<\?.*?\?>|</([^\s>]+)\s*>|<([^\s/>]+)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>|([^<]+)", re.S)
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CDATA = re.compile(r"(\s*<!\[CDATA\[)((?:(?!\]\]>).)*)(\]\]>\s*)", re.S)


class Node:
    """An element: its name without the prefix, and its places in bytes. children has the elements that the reader keeps."""

    __slots__ = ("data", "name", "prefix", "attributes", "begin", "inner", "inner_end", "end", "children", "note")

    def __init__(self, data: bytes, tag: str, attributes: dict[str, str], begin: int, inner: int) -> None:
        self.data = data
        self.prefix, colon, self.name = tag.rpartition(":")
        self.prefix += colon
        self.attributes, self.begin, self.inner = attributes, begin, inner
        self.inner_end = self.end = inner
        self.children: list[Node] = []
        self.note: Any = None  # what the reader wants to remember

    @property
    def is_empty(self) -> bool:
        """Whether it is written as <a/>."""
        return self.inner_end == self.end

    @property
    def raw(self) -> str:
        """What is inside, as it is written."""
        return self.data[self.inner:self.inner_end].decode("utf-8", "surrogatepass")

    @property
    def tag(self) -> str:
        """The opening tag."""
        return self.data[self.begin:self.inner].decode("utf-8", "surrogatepass")

    @property
    def words(self) -> str:
        """The text without its codes."""
        return "".join(one.text for one in pieces_of(self.raw, frozenset()) if one.kind == WORDS)

    @property
    def space(self) -> str:
        """The end of a line and the spaces before the element, or "" if something else is there."""
        begin = self.begin
        while begin and self.data[begin - 1] in b" \t\r\n" and self.begin - begin < 1000:
            begin -= 1
        found = self.data[begin:self.begin].decode()
        return found if "\n" in found or "\r" in found else ""

    def child(self, name: str) -> Node | None:
        return next((one for one in self.children if one.name == name), None)

    def named(self, name: str) -> list[Node]:
        return [one for one in self.children if one.name == name]

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")


def walk(pairs: Pairs, root: str, texts: Sequence[str], kept: Sequence[str], leave: Callable[[Node, list[Node]], None],
         enter: Callable[[Node, list[Node]], None] | None = None) -> None:
    """Calls enter(node, around) and leave(node, around) for each element that is not inside a text. texts: names of elements that are
    texts; kept: names of those that stay in their parents' children. around has the elements around, the outermost first."""
    data: bytes = pairs.base
    # the text is in UTF-8 now, whatever its declaration says
    parser = expat.ParserCreate("utf-8")
    around: list[Node] = []
    ignored = 0  # elements of a text around this one

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal ignored
        if not around and tag.rpartition(":")[2] != root:
            pairs.refuse(f"the first element is <{tag[:40]}>, but {pairs.suffix[1:]} files that can be translated begin with <{root}>")
        if len(around) + ignored > MOST_DEPTH:
            pairs.refuse(f"more than {MOST_DEPTH} elements inside each other")
        if ignored or (around and around[-1].name in texts):
            ignored += 1
            return
        begin = parser.CurrentByteIndex
        opening = OPENING_TAG.match(data, begin)
        node = Node(data, tag, attributes, begin, opening.end() if opening else begin)
        around.append(node)
        if enter is not None:
            enter(node, around)

    def end(tag: str) -> None:
        nonlocal ignored
        if ignored:
            ignored -= 1
            return
        node = around.pop()
        at = parser.CurrentByteIndex
        if data[node.inner - 2:node.inner] != b"/>":
            node.inner_end, node.end = at, data.index(b">", at) + 1
        if around and node.name in kept:
            around[-1].children.append(node)
        leave(node, around)
        if node.name not in kept:
            node.children = []

    def declared(*_: Any) -> None:  # a few declarations can stand for much, or for other files
        pairs.refuse("declares entities or elements, which such files do not need")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.EntityDeclHandler = parser.ElementDeclHandler = parser.AttlistDeclHandler = parser.NotationDeclHandler = declared
    parser.SkippedEntityHandler = lambda name, is_parameter: is_parameter or pairs.refuse(
        f"the entity &{name[:40]}; is not known; write the letter or its number")
    try:
        parser.Parse(data, True)
    except expat.ExpatError as e:
        pairs.refuse(f"not XML that can be read: {e}")


def with_attributes(tag: str, **values: str | None) -> str:
    """Returns an opening tag with other values of attributes; None takes one away. "_" in a name stands for "-"."""
    wanted = {name.replace("_", "-"): value for name, value in values.items()}
    out, at = [], 0
    for one in _ATTRIBUTE.finditer(tag):
        if one[1] in wanted:
            value = wanted.pop(one[1])
            out.append(tag[at:one.start()])
            at = one.end()
            if value is not None:
                out.append(f"{tag[one.start():one.start(2)]}{one[2][0]}{escape_value(value)}{one[2][0]}")
    rest = tag[at:]
    close = re.search(r"\s*/?>$", rest)
    place = close.start() if close else len(rest)
    new = "".join(f' {name}="{escape_value(value)}"' for name, value in wanted.items() if value is not None)
    return "".join([*out, rest[:place], new, rest[place:]])


def filled(node: Node, tag: str, content: str) -> tuple[int, int, str]:
    """Returns the edit that gives an element this opening tag and this content."""
    if node.is_empty:
        return node.begin, node.end, f"{re.sub(r'[ ]*/>$', '>', tag)}{content}</{node.prefix}{node.name}>"
    return node.begin, node.inner_end, tag + content


def escape_value(text: str) -> str:
    return html.escape(_NO_XML.sub("", text))


def escape_text(text: str) -> str:
    """Returns words as an element of XML has them."""
    return html.escape(_NO_XML.sub("", text), quote=False)


def escape_cdata(text: str) -> str:
    return _NO_XML.sub("", text).replace("]]>", "]] >")


def cdata(raw: str) -> tuple[str, str, str] | None:
    """Returns the parts of a text that is one CDATA section: its beginning, what is in it, its end."""
    found = _CDATA.fullmatch(raw)
    return (found[1], found[2], found[3]) if found else None


def pieces_of(raw: str, codes: frozenset[str], is_code: Callable[[str, dict[str, str]], bool] | None = None,
              key: Callable[[str, dict[str, str]], tuple[str, str] | None] | None = None) -> list[Piece]:
    """Returns the pieces of a text of XML. codes: names of elements that stay as they are, with all that is in them; is_code says
    the same of an element. Others are around words. key returns OPEN or CLOSE and a key for a code that begins or ends something."""
    made: list[Piece] = []
    inside = 0  # elements inside a code
    begin, kind, its_key = 0, CODE, ""
    names: list[str] = []
    for one in _TOKEN.finditer(raw):
        tag, is_alone = one[3], bool(one[4]) and one[4].endswith("/")
        if inside:
            inside += 1 if tag and not is_alone else -1 if one[2] else 0
            if not inside:
                made.append(Piece(kind, raw[begin:one.end()], its_key))
        elif one[1] is not None:
            made.append(Piece(WORDS, one[1]))
        elif one[5]:
            made.append(Piece(WORDS, html.unescape(one[5])))
        elif one[2]:
            made.append(Piece(CLOSE, one[0], f"<{names.pop() if names else ''}"))
        elif not tag:
            made.append(Piece(CODE, one[0]))  # a comment or an instruction
        else:
            name = tag.rpartition(":")[2]
            attributes = {each[1]: html.unescape(each[2][1:-1]) for each in _ATTRIBUTE.finditer(one[4])}
            if is_alone or name in codes or (is_code is not None and is_code(tag, attributes)):
                found = key(name, attributes) if key is not None else None
                kind, its_key = found or (CODE, "")
                if is_alone:
                    made.append(Piece(kind, one[0], its_key))
                else:
                    begin, inside = one.start(), 1
            else:
                names.append(f"{tag} {len(names)}")
                made.append(Piece(OPEN, one[0], f"<{names[-1]}"))
    return joined_words(made)


def joined_words(pieces: Sequence[Piece]) -> list[Piece]:
    """Returns pieces in which no words follow words."""
    made: list[Piece] = []
    waiting: list[str] = []
    for one in pieces:
        if one.kind == WORDS:
            waiting.append(one.text)
            continue
        if waiting:
            made.append(Piece(WORDS, "".join(waiting)))
            waiting = []
        made.append(one)
    if waiting:
        made.append(Piece(WORDS, "".join(waiting)))
    return made
