"""Divides formats at the ends of sentences. Each sentence of a paragraph is translated for itself, and in a translation the words of a
format may have another order. So a format that two sentences share needs a part of its own in each of them."""

from __future__ import annotations

import re
from typing import Callable

from .office_names import TAG
from .sentences import cut

_FORMATS = ("g", "sub")


def sentence_begins(plain: str) -> list[int]:
    """Returns where the second sentence of a text begins, and each sentence behind it."""
    found = cut(plain.encode("utf-8", "surrogatepass"))
    at, begins = len(plain) - len(plain.lstrip()), []
    for sentence, between in zip(found.sentences, found.between):
        at += len(sentence.decode("utf-8", "surrogatepass")) + len(between.decode("utf-8", "surrogatepass"))
        begins.append(at)
    return begins


def divided_at_sentences(text: str, may_divide: Callable[[int], bool]) -> str:
    """Returns a text with tags in which no format that may be divided goes over the end of a sentence. The parts of a format have its
    number. At most as many characters are added as the text has, because each sentence needs the tags of all formats around it."""
    tags = [*TAG.finditer(text)]
    if not any(one[2] in _FORMATS for one in tags):
        return text
    pieces, places, at, end = [], [], 0, 0  # places: where each tag ends in the plain text, which has two line ends for <br/>
    for one in tags:
        pieces.append(text[at:one.start()])
        end += one.start() - at
        at = one.end()
        if one[2] == "br":
            pieces.append("\n\n")
            end += 2
        places.append(end)
    plain = re.sub("&[a-z]+;", lambda one: "x" * len(one[0]), "".join([*pieces, text[at:]]))
    added: list[tuple[int, str]] = []  # where, and what
    around: list[tuple[int, int]] = []  # the formats around the place: index of the tag, and where the part begins in the plain text
    k = size = 0
    for begin in sentence_begins(plain):
        for k in range(k, len(tags) + 1):
            if k == len(tags) or places[k] > begin:
                break
            if tags[k][2] in _FORMATS and tags[k][1]:
                around.pop()
            elif tags[k][2] in _FORMATS:
                around.append((k, places[k]))
        last = len(around)
        while last and not plain[around[last - 1][1]:begin].strip():
            last -= 1  # it begins with the sentence
        first = last
        while first and may_divide(int(tags[around[first - 1][0]][3])):
            first -= 1
        some = [tags[i] for i, _ in around[first:last]]
        ends, new = "".join(f"</{one[2]}>" for one in reversed(some)), "".join(one[0] for one in some)
        size += len(ends) + len(new)
        if size > len(text):
            break
        if some:
            place = tags[around[last][0]].start() if last < len(around) else tags[k - 1].end() + begin - places[k - 1]
            lines = []  # ends of lines before the sentence, which are in no part
            for i in range(k - 1, -1 if last == len(around) else k, -1):
                if tags[i][2] in _FORMATS or plain[places[i]:begin].strip():
                    break
                lines += [tags[i]] if tags[i][2] == "br" else []
            before, place = (lines[-1].start(), lines[0].end()) if lines else (place, place)
            added += [(before, ends), (place, new)]
        around[first:last] = [(i, begin) for i, _ in around[first:last]]
    out, at = [], 0
    for place, new in added:
        out += [text[at:place], new]
        at = place
    return "".join([*out, text[at:]])
