"""Translates pages in XHTML, made at random from German sentences, with translate --html (make test-markup).

python tests/translate/markup.py [--pages 300] [--keep FOLDER] [--real FOLDER ...]

lxml must find the output well-formed, with the same elements and attributes. The text of each block, and of
each alt and title, must be that of its sentences, translated by themselves, without the copied parts.

Then the script translates pages of documentation that the machine has, with build/test_markup's functions
that need no model. They must keep every tag with its attributes, XML must stay XML, and no letter may be
lost. Where each character is translated to itself, the page must be unchanged."""

import argparse
import collections
import pathlib
import random
import re
import subprocess
import sys

from lxml import etree, html

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = [str(ROOT / "build/translate"), str(ROOT / "examples/models/de-en.safetensors")]
TEXTS = {"alt", "aria-label", "placeholder", "title"}  # attributes that are translated, and those of single elements:
TEXTS_OF = {("meta", "content"), ("option", "label"), ("optgroup", "label"), ("track", "label")}
BUTTONS = {"submit", "button", "reset"}
INLINE = ["b", "i", "em", "strong", "span", "a", "u", "q", "small"]


def translated(text, *options):
    run = subprocess.run(PROGRAM + list(options), input=text.encode(), stdout=subprocess.PIPE, check=True)
    return run.stdout.decode()


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute(rng, sentences, name):
    """Returns an attribute with a sentence, or with characters that are escaped, in one kind of quotes."""
    value = escaped(rng.choice(sentences)) if rng.random() < 0.3 else "&lt;&amp;>"
    return f"{name}='{value.replace(chr(39), '&apos;')}'" if rng.random() < 0.3 else f'{name}="{value.replace(chr(34), "&quot;")}"'


def marked(rng, words, sentences, depth=0):
    """Returns words, with nested elements around some of them, and with tags and copied parts in between."""
    out, at = [], 0
    while at < len(words):
        n = rng.randint(1, len(words) - at)
        if rng.random() < 0.25 and depth < 4 and n < len(words):
            name = rng.choice(INLINE)
            out.append(f'<{name} id="{rng.randrange(10**9)}" {attribute(rng, sentences, "title")}>'
                       f'{marked(rng, words[at : at + n], sentences, depth + 1)}</{name}>')
            at += n
            continue
        out.append(escaped(words[at]))
        at += 1
        if at < len(words) and rng.random() < 0.06:
            out.append(rng.choice([f'<img src="x.png" {attribute(rng, sentences, "alt")}/>', "<!-- <b> -->", "<code>f(x) &lt; 1</code>", '<i translate="no">nein</i>']))
    return " ".join(out)


def page(rng, sentences):
    blocks, kept = [], []
    for _ in range(rng.randint(1, 6)):
        chosen = [rng.choice(sentences) for _ in range(rng.randint(1, 3))]
        name = rng.choice(["p", "h1", "li", "td", "blockquote"])
        inside = " ".join(marked(rng, s.split(), sentences) for s in chosen)
        if rng.random() < 0.3:
            inside = f"<b>{inside}</b>"
        blocks.append(f'<{name} class="block" {attribute(rng, sentences, "title")}>{inside}</{name}>')
        kept.append(chosen)
        if rng.random() < 0.3:
            blocks.append(rng.choice(["<pre>Das  bleibt</pre>", "<script>if (a &lt; b) c();</script>", "<p translate='no'>Nein.</p>", "<hr/>"]))
    return "<html><head><title/></head><body>\n" + "\n".join(blocks) + "\n</body></html>", kept


def plain(text):
    return re.sub(r"\s+", "", text)


def is_text(e, name):
    return name in TEXTS or (e.tag, name) in TEXTS_OF or (
        (e.tag, name) == ("input", "value") and e.get("type", "").lower() in BUTTONS)


def tags(tree, text=lambda value: value):
    """Counts the elements with their attributes. text is applied to those that are translated."""
    return collections.Counter((str(e.tag), tuple(sorted(
        (name, text(value) if is_text(e, name) else value)
        for name, value in e.attrib.items()))) for e in tree.iter())


def visible(block):
    for element in list(block.iter("code", etree.Comment)) + block.xpath(".//*[@translate]"):
        element.tail, tail = None, element.tail or ""
        before = element.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + tail
        else:
            element.getparent().text = (element.getparent().text or "") + tail
        element.getparent().remove(element)
    return plain("".join(block.itertext()))


CAPITALS, SHUFFLED, SAME = 3, 5, 7  # of tests/translate/markup_fake.h


def comparable(how):
    """Returns a function of a text that has the same result before and after the translation by `how`."""
    if how == CAPITALS:
        return lambda text: "".join(c.upper() if c.isascii() else c for c in plain(text))
    return lambda text: "" if how == SHUFFLED else plain(text)  # some words are repeated, others missing


def letters(tree):
    """Returns the text that a reader sees, without white space, in capitals as the function makes them."""
    text = plain(tree.text_content())
    return text, comparable(CAPITALS)(text)


def real(folders, faults):
    """Returns how many pages of the folders were translated."""
    files = sorted(path for folder in folders for path in pathlib.Path(folder).rglob("*.html")
                   if path.is_file() and path.stat().st_size < 200_000)
    utf8 = html.HTMLParser(encoding="utf-8")
    pages, moved = 0, []
    for path in files:
        source = path.read_bytes()
        try:
            source.decode()
            before = html.document_fromstring(source, parser=utf8)
        except (UnicodeDecodeError, etree.ParserError):  # in Latin-1, or empty
            continue
        pages += 1
        for how in CAPITALS, SHUFFLED, SAME:
            out = subprocess.run([str(ROOT / "build/test_markup"), "0", str(how)], input=source,
                                 stdout=subprocess.PIPE, check=True).stdout
            after = html.document_fromstring(out, parser=utf8)
            wrong = "other tags" if tags(after, comparable(how)) != tags(before, comparable(how)) else None
            if how != SHUFFLED and sorted(letters(after)[how != SAME]) != sorted(letters(before)[how != SAME]):
                wrong = "other text"
            elif how == SAME and letters(after)[0] != letters(before)[0]:
                moved.append(path.name)
            if is_xml(source) and not is_xml(out):
                wrong = "not well-formed"
            if wrong:
                faults[wrong] += 1
                print(path, how, wrong)
    # A copied part moves to the edge of the word that it is in, as in out_<var>N</var>.
    if moved:
        print("moved out of words:", *moved)
    faults["moved text"] += len(moved) if 50 * len(moved) > pages else 0
    return pages


def is_xml(page):
    try:
        return etree.fromstring(page) is not None
    except etree.XMLSyntaxError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--real", nargs="*", default=["/usr/share/doc", "/usr/share/gtk-doc"])
    arguments = parser.parse_args()
    rng = random.Random(20261122)
    sentences = [s for s in (ROOT / "examples/translate/demo-de.txt").read_text().splitlines() if s]
    alone = dict(zip(sentences, translated("\n".join(sentences) + "\n").splitlines()))
    faults = collections.Counter()
    for number in range(arguments.pages):
        source, blocks = page(rng, sentences)
        out = translated(source, "--html")
        if arguments.keep:
            (arguments.keep / f"{number}.in.html").write_text(source)
            (arguments.keep / f"{number}.out.html").write_text(out)
        try:
            tree = etree.fromstring(out)
        except etree.XMLSyntaxError as error:
            faults["not well-formed"] += 1
            print(number, error)
            continue
        faults["other tags"] += tags(tree) != tags(etree.fromstring(source), lambda text: alone.get(text, text))
        found = tree.xpath("//*[@class='block']")
        for block, chosen in zip(found, blocks):
            expected = plain("".join(alone[s] for s in chosen))
            got = visible(block)
            faults["blocks"] += 1
            if got != expected:
                faults["other text"] += 1
                if faults["other text"] < 5:
                    print(number, got, expected, sep="\n  ")
    print(f"{arguments.pages} pages, {faults.pop('blocks')} blocks: {dict(+faults) or 'no faults'}")
    found = real(arguments.real, faults)
    if found:
        print(f"{found} pages of documentation: {dict(+faults) or 'no faults'}")
    else:
        print(f"    skipped: no documentation in {' '.join(arguments.real)}")
    return 1 if +faults else 0


sys.exit(main())
