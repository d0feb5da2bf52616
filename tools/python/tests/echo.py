"""Translators that translate nothing, and a second reader of office documents and books.

With an echo in the place of the model, a document must come back the same. office_paragraphs.py is not used to read the documents that
are compared: every part is read again here, with lxml only.

    python tools/python/tests/echo.py FOLDER...     prints for each format how many files come back the same, and each difference

Differences that are allowed:
- soft hyphens leave, and marks of spelling and of the last layout (w:proofErr, w:lastRenderedPageBreak);
- a white space has the format of its neighbours;
- readings of ruby leave the pages of books;
- what File.left says stays in the language of the source: results of fields that programs make again, and deleted text;
- several spaces inside a sentence become one, because models read them as one; more than two divide sentences, as a tab;
- runs and spans with the same format, and links to the same address, are joined or divided;
- names of attributes that say the language of a run do not count."""

from __future__ import annotations

import collections
import html
import io
import re
import sys
import zipfile
from pathlib import Path

from lxml import etree
from transformer_h import Aligned, Document
from transformer_h.documents import ARCHIVES, File, FileError
from transformer_h.markup import placeholders

WORD = re.compile(r" *(?:[^\S ]|[\u3000-\u9fff\uff00-\uffef]|\w+|[^\w\s])")  # about as the tokens of a model


def aligned(text, tokens):
    """tokens: (end, begin and end in the source) in characters of two texts that are given with them."""
    return Aligned(text, b"".join(number.to_bytes(8, sys.byteorder) for token in tokens for number in token))


def size(text):
    return len(text.encode("utf-8", "surrogatepass"))


def capital(text):
    """Returns the text in capitals. A letter stays if its capital is several letters, or has another number of bytes."""
    return "".join(c.upper() if len(c.upper()) == 1 and size(c.upper()) == size(c) else c for c in text)


def same(sentence, change=lambda text: text):
    ends = [0]
    for one in WORD.finditer(sentence):
        ends.append(ends[-1] + size(one[0]))
    made = change(sentence)
    return aligned(made, [(b, a + size(w[0]) - size(w[0].lstrip(" ")), b) for a, b, w in zip(ends, ends[1:], WORD.finditer(sentence))])


def words(sentence, order):
    """The words that order names, each aligned with its source."""
    found, made, tokens, end = [], [], [], 0
    for one in re.finditer(r"\S+", sentence):
        begin = size(sentence[:one.start()])
        found.append((one[0], begin, begin + size(one[0])))
    for i in order(len(found)):
        end += size(found[i][0]) + bool(made)
        made.append(found[i][0])
        tokens.append((end, *found[i][1:]))
    return aligned(" ".join(made), tokens)


ECHOES = {
    "identity": same,
    "capitals": lambda sentence: same(sentence, capital),
    "doubled": lambda sentence: words(sentence, lambda n: [i // 2 for i in range(2 * n)]),
    "reversed": lambda sentence: words(sentence, lambda n: range(n - 1, -1, -1)),
}


def through(data, name, echo, rewrite=True):
    """The document with an echo in the place of the model. With rewrite, parts whose texts are the same are written again, too."""
    file, made = File(data, name), []
    for text in file.texts:
        document = Document(text, file.format, plain=True)
        made.append(document.join([echo(sentence) for sentence in document.sentences]))
    if rewrite:
        for part in file._parts.values():
            part.rewrites = True
    return file.join(made, None), file


# ---- the second reader -----------------------------------------------------------------------------------

W, A = "wordprocessingml/2006/main}", "drawingml/2006/main}"
PLAIN, RAISED = set(), set()  # styles of OpenDocument that change nothing, or are superscript
STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
PROPERTIES = {"rPr", "pPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr", "endParaRPr", "tblPr"}
MARKS = {"proofErr", "lastRenderedPageBreak", "soft-page-break", "softHyphen"}
UNSEEN = re.compile(r' (?:lang|altLang|dirty|err|noProof|smtClean|(?:w|a):(?:lang|noProof))="[^"]*"|<[\w-]+:(?:lang|noProof)\b[^>]*>(?:</[\w-]+:(?:lang|noProof)>)?')


def local(element):
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "#"


def whole(element):
    """An element with all that is in it, as a text. Its text behind it is not its own."""
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False).decode()


def format_of(run):
    found = "".join(UNSEEN.sub("", whole(one)) for one in run if local(one) in PROPERTIES)
    return re.sub(r'<(w|a):rPr(?: xmlns:\w+="[^"]*")*></\1:rPr>', "", found)


def attributes_of(link):
    """The attributes of a link. Its tooltip is translated, so only its words are compared, in any order and number."""
    return sorted((key, str(sorted(set(capital(value).split()))) if key.endswith("tooltip") else value) for key, value in link.items())


def pieces(parent, style, out):
    """The contents of an element as (kind, what, format): letters, and what begins, ends or is no text."""
    in_runs = W in parent.tag or A in parent.tag or "wordprocessingml/main" in parent.tag

    def letters(text):
        if text:
            out.extend(("c", c, style) for c in text)
    if not in_runs:
        letters(parent.text)
    for child in parent:
        name = local(child)
        if name in PROPERTIES or name == "#" or (name in ("rubyPr", "rt") and local(parent) == "ruby"):
            pass
        elif in_runs and name == "r":
            run = format_of(child)
            for one in child:
                if local(one) == "t" and not len(one):
                    out.extend(("c", c, run) for c in one.text or "")
                elif local(one) == "noBreakHyphen":
                    out.append(("c", "\u2011", run))
                elif local(one) == "ruby":
                    pieces(one, style, out)
                elif local(one) not in PROPERTIES | MARKS:
                    out.append(("x", UNSEEN.sub("", whole(one)), ""))
        elif child.tag == TEXT + "s":
            out.extend([("c", " ", style)] * int(child.get(TEXT + "c", "1")))
        elif child.tag == TEXT + "span":
            name = child.get(TEXT + "style-name")
            pieces(child, style if name in PLAIN else f"{style}/{name}", out)
        elif name in ("ruby", "rubyBase", "ruby-base"):
            for one in (child if name == "ruby" else [child]):
                if local(one) in ("rubyBase", "ruby-base"):
                    pieces(one, style, out)
        elif name in ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "sdtContent", "dir", "bdo", "fldSimple") and in_runs or (
                TEXT in child.tag and name in ("a", "meta", "bookmark-ref", "reference-ref", "title", "chapter", "subject", "text-input", "placeholder")):
            out.append(("x", f"<{child.tag} {attributes_of(child)}{''.join(whole(one) for one in child if local(one) in PROPERTIES)}", ""))
            pieces(child, style, out)
            out.append(("x", f">{child.tag}", ""))
        elif name not in MARKS:
            out.append(("x", whole(child), ""))
        if not in_runs:
            letters(child.tail)


def is_paragraph(element):
    return local(element) in ("p", "h") and (W in element.tag or A in element.tag or TEXT in element.tag or "/ooxml/" in element.tag)


def tidy(found):
    """Without what may differ: several spaces are one, which has no format."""
    out, links, closed = [], [], None  # links: the beginnings of those around the place
    for kind, what, style in found:
        if kind == "c" and what == "\u00ad":
            continue
        if kind == "x" and LINK.match(what):
            if what[0] == "<" and out and out[-1] == ("x", f">{what[1:].split()[0]}", closed):
                out.pop()
                links.append(what)
                continue
            if what[0] == "<":
                links.append(what)
            else:
                style = closed = links.pop()
        if kind == "c" and what in " \t\n\r":
            if out and out[-1][:2] == ("c", " "):
                continue
            what, style = " ", ""
        if kind == "c" and what.isspace():
            style = ""
        is_raised = re.search(r'vertAlign[^>]*superscript|baseline="[1-9]', style) or style.rpartition("/")[2] in RAISED
        out.append(("x", f"^{what}", "") if kind == "c" and is_raised and what != " " else (kind, what, style))
    while out and out[-1][:2] == ("c", " "):  # at the end of a paragraph
        out.pop()
    return out


def document(data, name):
    """Yields (where, what, paragraph) of all parts: a paragraph is a list of pieces, and everything else one text."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        RAISED.clear()
        for part in sorted(opened.namelist(), key=lambda part: part != "styles.xml"):
            if re.fullmatch(r"(styles|content)\.xml", part):
                for one in etree.fromstring(opened.read(part)).iter(STYLE + "style"):
                    if one.get(STYLE + "parent-style-name") in RAISED or any(
                            re.match(r"super|[1-9]\d*%", each.get(STYLE + "text-position", "")) for each in one):
                        RAISED.add(one.get(STYLE + "name"))
        for part in opened.namelist():
            content = opened.read(part)
            try:
                root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, remove_comments=True, remove_pis=True,
                                                                 huge_tree=True)) if re.search(r"\.(xml|rels|xhtml|html?|ncx|opf|xht)$", part) else None
            except etree.XMLSyntaxError:
                root = etree.fromstring(content, etree.HTMLParser()) if re.search(r"html?$", part) else None
            if root is None:
                yield part, None, content
            elif name.endswith(".epub") and local(root) == "html":
                yield from page(part, root)
            else:
                yield from xml(part, root)


READINGS = {"rt", "rp", "rtc"}


def page(part, root):
    """The letters of a page of a book, and its tags. Where tags stand among words is the matter of HTML's own tests."""
    tags, text = collections.Counter(), []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, one in walk:
        if event == "start" and local(one) in READINGS:
            walk.skip_subtree()
            continue
        if event == "start":
            tags[f"{local(one)} {sorted(key for key, _ in one.items())}"] += 1
        text.append((one.text if event == "start" else one.tail) or "")
    yield f"{part} rest", [("t", re.sub(r"\s+", " ", "".join(text).replace("\u00ad", "")), "")], None
    yield f"{part} rest", [("x", str(sorted(tags.items())), "")], None


def xml(part, root):
    """Everything in paragraphs, and what is around them. Paragraphs inside others are read for themselves, and stand in the
    others as one sign."""
    rest, n = [], 0
    PLAIN.clear()
    PLAIN.update(one.get(STYLE + "name") for one in root.iter(STYLE + "style") if one.get(STYLE + "family") == "text" and not one.get(
        STYLE + "parent-style-name") and all(key.endswith("rsid") for part in one for key in part.attrib))
    for one in root.iter(TEXT + "tracked-changes"):
        for each in one.iter():
            each.text, each.tail = each.text and capital(each.text), each.tail and capital(each.tail)
    inner = [one for one in root.iter() if is_paragraph(one)]
    for element in reversed(inner):
        found = []
        if TEXT in element.tag and element.text:
            element.text = element.text.lstrip(" \t\r\n")  # means nothing
        pieces(element, "", found)
        attributes = "".join(whole(one) for one in element if local(one) in PROPERTIES - {"endParaRPr"}) + str(sorted(element.items()))
        n += 1
        yield f"{part} paragraph -{n}", tidy([("x", attributes, ""), *found]), None
        tail = element.tail
        for child in list(element):
            element.remove(child)
        element.attrib.clear()
        element.text, element.tail = "", tail
    for event, one in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            rest.append(("x", one.tag, ""))
            for key, value in sorted(one.items()):
                rest += [("x", key, ""), ("t", re.sub(" +", " ", value), "")]
            rest.append(("t", re.sub(" +", " ", one.text or ""), ""))
        else:
            rest += [("x", ">", ""), ("t", one.tail or "", "")]
    yield f"{part} rest", rest, None


ATTRIBUTES = re.compile(r' (?:w:)?(?:val|descr|title|displayText|tooltip|string|alt)="[^"]*"')  # with text


LINK = re.compile(r"<\{[^}]*\}(?:a|hyperlink) |>\{[^}]*\}(?:a|hyperlink)$")
NO_WIDTH = re.compile(r"[<>]\{|<[\w-]+:(?:bookmark|commentRange|perm|moveToRange|moveFromRange|change|reference-mark)(?:Start|End|-start|-end)\b")


def is_break(what):
    return re.match(r"<[\w-]+:(?:tab|ptab|br|cr|line-break|fldChar)\b", what) is not None


def settled(found, inside=None):
    """Words with the set of their formats, and what stands between them. A word has no places inside: what stands there in the
    source is put beside it, so it is not compared here; lost() counts it. It is returned, and left out if it is given."""
    out, gone, i, left = [], collections.Counter(), 0, collections.Counter(inside)
    while i < len(found):
        if found[i][0] != "c" or found[i][1] == " ":
            if found[i][0] == "x" and left[found[i][1]]:
                left[found[i][1]] -= 1
            else:
                out.append(found[i])
            i += 1
            continue
        k = i
        while k < len(found) and found[k][:2] != ("c", " ") and not (found[k][0] == "x" and is_break(found[k][1])):
            k += 1
        run = found[i:k]
        while run[-1][0] == "x":
            run.pop()
        i += len(run)
        word, styles = "", set()
        for at, (kind, what, style) in enumerate(run):
            if kind == "c":
                word += what
                styles.add(style)
                continue
            before, after = (next(one[1] for one in some if one[0] == "c") for some in (reversed(run[:at]), run[at:]))
            rest = "".join(one[1] for one in run[at:] if one[0] == "c")
            if left[what]:
                left[what] -= 1
            elif inside is None and ((before.isalnum() and after.isalnum()) or (re.search(r"\w", rest) and re.search(r"\w", word) and not (
                    after in "([{" or before in ")]}" or after == "." or not (before.isalnum() or after.isalnum())))):
                gone[what] += 1
            else:
                if word:
                    out.append(("w", word, frozenset(styles)))
                out.append((kind, what, style))
                word, styles = "", set()
        out.append(("w", word, frozenset(styles)))
    for i in range(len(out) - 1, 0, -1):  # what has no width stands before the space beside it
        if out[i][0] == "x" and NO_WIDTH.match(out[i][1]):
            k = i
            while k and out[k - 1][:2] == ("c", " "):
                out[k - 1], out[k] = out[k], out[k - 1]
                k -= 1
    words = []
    for one in out:  # a word that something stood in is one
        if one[0] == "w" and words and words[-1][0] == "w":
            words[-1] = "w", words[-1][1] + one[1], words[-1][2] | one[2]
        else:
            words.append(one)
    return words, gone


def field_results(found):
    """What a paragraph is with the results of fields in capitals: some are text of a paragraph, and others stay."""
    out, inside = [], 0
    for kind, what, style in found:
        if kind == "x":
            inside += ('fldCharType="separate"' in what or bool(re.match(r"<\{[^}]*\}fldSimple ", what))) - (
                inside and ('fldCharType="end"' in what or bool(re.match(r">\{[^}]*\}fldSimple$", what))))
        out.append((kind, capital(what) if kind == "c" and inside else what, style))
    return out


def in_capitals(found):
    """What a paragraph is with all letters in capitals but those of placeholders, which are copied."""
    text = "".join(what if kind == "c" else "" for kind, what, _ in found)
    found = field_results(found)
    kept = [False] * len(text)
    for begin, end in placeholders(text):
        kept[begin:end] = [True] * (end - begin)
    out, at = [], 0
    for kind, what, style in found:
        out.append((kind, what if kind != "c" or kept[at] else capital(what), style))
        at += len(what) if kind == "c" else 0
    return out


def is_same(a, b):
    return a == b or (a[0] in "wctx" and a[0] == b[0] and (a[2] == b[2] or a[0] == "w" and len(a[2]) > 1 and b[2] <= a[2]) and (
        a[1] == b[1] or a[0] in "tx" and capital(html.unescape(a[1])) == capital(html.unescape(b[1]))))


def bag(found):
    """What stands between the letters of a paragraph, its words, and the words whose format what is beside them has too, up to
    the spaces."""
    others, all_words, styled = (collections.Counter() for _ in range(3))
    word, styles, beside = "", set(), []
    for kind, what, style in [*found, ("c", " ", "")]:
        if kind == "x":
            others[ATTRIBUTES.sub("", what)] += 1
            if not is_break(what):
                continue
            what = " "
        what = " " if what.isspace() else what
        if what != " ":
            styles.add(style)
        if what.isalnum():
            word += what
            continue
        beside += [word] if word else []
        all_words[word] += bool(word)
        word = ""
        if what == " ":
            if len(styles) == 1:
                styled.update((one, *styles) for one in beside)
            styles, beside = set(), []
    return others, +all_words, styled


def lost(before, after, n):
    """Yields what a paragraph has lost or gained when each of its words was written n times. Sentences without letters are not."""
    for one, two in zip(bag(before)[:2], bag(after)[:2]):
        for key in {*one, *two}:
            if not one[key] <= two[key] <= n * one[key] and not (one[key] and LINK.match(key)):  # each sentence has its part of a link
                yield f"{key[:100]!r} {one[key]} times became {two[key]}"
    one, two = bag(before)[2], bag(after)[2]
    for key in one:
        if two[key] < one[key]:
            yield f"the format of {key[0]!r}, {key[1][-100:]!r}: {one[key]} times became {two[key]}"


def differences(before, after, name, echo):
    """Yields a line for each difference between a document and its echo."""
    first, second = list(document(before, name)), list(document(after, name))
    if [one[0] for one in first] != [one[0] for one in second]:
        yield f"parts or paragraphs: {[one[0] for one in first if one[0] not in {each[0] for each in second}][:3]}"
        return
    for (where, a, raw), (_, b, other) in zip(first, second):
        if a is None or b is None:
            if raw != other or a != b:
                yield f"{where}: other bytes"
        elif echo in ("identity", "capitals"):
            if "rest" not in where and a[0][0] != "t":
                a, b = (in_capitals(a), field_results(b)) if echo == "capitals" else (a, b)
                if a == b:
                    continue
                a, inside = settled(a)
                b, _ = settled(b, inside)
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if not is_same(x, y)), min(len(a), len(b)))
            if at < max(len(a), len(b)):
                if 0 <= at < len(b) and at < len(a) and a[at][0] == b[at][0] == "t":
                    one, two = a[at][1], b[at][1]
                    k = next((i for i, (x, y) in enumerate(zip(one, two)) if x != y and capital(x) != capital(y)), min(len(one), len(two)))
                    yield f"{where}: {one[max(0, k - 60):k + 40]!r} became {two[max(0, k - 60):k + 40]!r}"
                else:
                    yield f"{where}: {shown(a, at)} became {shown(b, at)}"
        elif a and a[0][0] != "t" and "rest" not in where:
            wrong = list(lost(a, b, 2 if echo == "doubled" else 1))
            if wrong:
                yield f"{where}: {'; '.join(wrong[:3])}"


def shown(found, at):
    text = "".join(what if kind != "x" else f"\u27e8{what[:60]}\u27e9" for kind, what, _ in found[max(0, at - 12):at + 3])
    if found and found[min(at, len(found) - 1)][0] == "t":
        text = found[min(at, len(found) - 1)][1][:300]
    return repr(text) + (f" in {found[at][2]}"[-120:] if at < len(found) and found[at][2] else "")


def main():
    table = collections.defaultdict(collections.Counter)
    for path in sorted(one for folder in sys.argv[1:] for one in Path(folder).rglob("*") if one.suffix.lower() in ARCHIVES and one.is_file()):
        data, kind = path.read_bytes(), path.suffix.lower()
        table[kind]["files"] += 1
        good = True
        for echo, translate in ECHOES.items():
            try:
                made, _ = through(data, path.name, translate)
                found = list(differences(data, made, path.name, echo))
            except FileError as e:
                print(f"{path}: refused: {e}")
                table[kind]["refused"] += 1
                good = False
                break
            except Exception as e:
                found = [f"{type(e).__name__}: {e}"]
            if found:
                good = False
                print(f"{path}: {echo}: {found[0]}" + (f" (and {len(found) - 1} more)" if found[1:] else ""))
            else:
                table[kind][echo] += 1
        table[kind]["all"] += good
    for kind, counts in table.items():
        print(kind, dict(counts))


if __name__ == "__main__":
    main()
