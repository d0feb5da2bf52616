"""Translates documents in Markdown with translate --markdown's own functions, and compares with cmark and
markdown-it (make test-markup).

python tests/translate/markdown.py [--documents 2000] [--seed N] [FILE or FOLDER ...]

build/test_markup translates the documents with functions that need no model. markdown-it must read the same
document before and after: the same blocks, and in each the same elements, addresses, code and HTML, nested in
the same way; and, where the function keeps all words, the same letters. In dense documents markdown-it does
not always follow CommonMark (it ends a link's text with a space). Where only markdown-it sees another tree,
and cmark sees the same one before and after, the case is counted, but is no failure. The script makes
documents at random; FILEs are used unchanged."""

import argparse
import collections
import concurrent.futures
import html
import pathlib
import random
import re
import subprocess
import sys

from cmarkgfm import cmark
from lxml import etree
from markdown_it import MarkdownIt
from markdown_it.rules_inline.escape import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/tools"))
from seeds import SEED  # noqa: E402
FUNCTIONS = ["SAME", "BACKWARDS", "EVERY_SECOND", "CAPITALS", "NOTHING", "SHUFFLED"]
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HTML = "<!-- raw HTML omitted -->"
for rule in ("html_inline", "html_block"):
    READER.add_render_rule(rule, lambda *_: HTML)


def backslash(state, silent):
    """Before a character that is not punctuation, a backslash is itself and includes no space, because a
    space may belong to a hard break."""
    after = state.src[state.pos + 1 : state.pos + 2]
    if state.src[state.pos] != "\\" or (after + "\n") in "\n\n" or (after.isascii() and not after.isalnum() and after > " "):
        return escape(state, silent)
    if not silent:
        state.pending += "\\"
    state.pos += 1
    return True


READER.inline.ruler.at("escape", backslash)
BLOCKS = set("document p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre hr table thead tbody tr th td".split())
PROGRAM = str(ROOT / "build/test_markup")
WORDS = "the cat sat on mat Who ran a dog it. was! über 说 1986. 2) x_y 3*4 a\\*b &amp; &copy; C:\\dir [1] [x] | ~5 # > - + = <3 a<b , {name} %s don't".split(" ")


def inline(rng, depth=0):
    """Returns words, some of them inside Markdown elements."""
    out = []
    for _ in range(rng.randint(1, 5 if depth else 14)):
        kind = rng.random()
        inner = lambda: inline(rng, depth + 1)
        if depth > 2 or kind < 0.72:
            out.append(rng.choice(WORDS[:12] if rng.random() < 0.8 else WORDS))
        elif kind < 0.77:
            out.append(rng.choice(["*{}*", "**{}**", "_{}_", "__{}__", "***{}***", "~~{}~~", "un*{}*der", "(*{}*)", "**{}.**", "*{}*,"]).format(inner()))
        elif kind < 0.82:
            out.append(rng.choice(["[{}](http://x.org/a_b?c=*d*)", '[{}](<a b> "title")', "[{}][foo]", "[{}](/u 'x\ny')", "[{}]()"]).format(inner()))
        elif kind < 0.87:
            out.append(rng.choice(["[foo]", "[Foo\n Bar]", "[foo bar][]", "![alt *x*](i.png)", "[![b](b.svg)](/l)", "<http://a.b/_c_>", "<a@b.c>", "https://x.y/z_a*b"]))
        elif kind < 0.92:
            out.append(rng.choice(["`code`", "`` a`b ``", "`x\ny`", "`*`", "`|`"]))
        elif kind < 0.95:
            out.append(rng.choice(["<b>{}</b>", "<i class='x\ny'>{}</i>", "<span translate=\"no\">{}</span>", "<a href=x>{}", "<kbd>{}</kbd>"]).format(inner()))
        elif kind < 0.97:
            out.append(rng.choice(["<br>", "<img src=a>", "<!-- c -->", "&nbsp;", "&bogus;", "<?p?>"]))
        else:
            out.append(rng.choice(["*", "_", "**", "`", "[", "]", "<", "\\", "](x)", "~~", "![", "&", "***", "<a"]))
        out.append(rng.choice([" "] * 40 + ["\n"] * 6 + ["  \n", "\\\n", ""]))
    return re.sub("~{3,}", "~~", re.sub(r"\n[ \n]*", "\n", "".join(out))).strip() or "x"


def one_line(text):
    return re.sub(r"\s*\\?\n\s*", " ", text)


def blocks(rng, depth=0):
    out = []
    for _ in range(rng.randint(1, 2)):
        kind = rng.random()
        text = inline(rng)
        if kind < 0.4 or depth > 3:
            out.append(text)
        elif kind < 0.5:
            out.append("#" * rng.randint(1, 6) + " " + one_line(text) + rng.choice(["", " #", " ##"]))
        elif kind < 0.55:
            out.append(text + "\n" + rng.choice(["===", "---", "-"]))
        elif kind < 0.65:
            quoted = blocks(rng, depth + 1)
            out.append(re.sub("^", rng.choice(["> ", ">"]), quoted, flags=re.M))
            if rng.random() < 0.2:
                out[-1] += "\nlazy line"
        elif kind < 0.8:
            marker = rng.choice(["- ", "* ", "+   ", "1. ", "7) ", "-\t", "- [ ] "])
            pad = " " * (2 if "[" in marker else 4 if "\t" in marker else len(marker))
            items = [marker + re.sub(r"\n(?=.)", "\n" + pad, blocks(rng, depth + 1)) for _ in range(rng.randint(1, 3))]
            out.append(rng.choice(["\n", "\n\n"]).join(items))
        elif kind < 0.85:
            n = rng.randint(1, 3)
            row = lambda: "| " + " | ".join(one_line(inline(rng, 2)).replace("|", "\\|") for _ in range(n)) + " |"
            out.append("\n".join([row(), "|" + "---|" * n] + [row() for _ in range(rng.randint(0, 3))]))
        elif kind < 0.9:
            out.append(rng.choice(["```py\ncode *x*\n\nmore\n```", "~~~\n> a\n~~~", "    code\n\n      code", "```\nopen"[: 99 if depth == 0 and rng.random() < 0.1 else 0] or "***"]))
        elif kind < 0.95:
            out.append(rng.choice(["<div>\nSome <b>text in</b> it.\n</div>", "<pre>\na  *b*\n\nc</pre>", "<!-- a\n\nb -->", "<p>One two.\n\nThree *four*.</p>", "<table><tr><td>a cell</td></tr>\n</table>", "<b>\nbold</b>"]))
        else:
            out.append(rng.choice(["[foo]: /url 'title'", "[foo bar]: <u>\n[Foo]: /other", "[^1]: A footnote here.\n\nThe text after it.", "> [!NOTE]\n> Alert text.", "***", "- - -", "[x]: y z"]))
    return rng.choice(["\n\n"] * 6 + ["\n"]).join(out)


def shape(tokens):
    """Returns the blocks in their order, and their inlines as a tree whose branches have no order."""
    out, letters = [], []
    for token in tokens:
        if token.type == "inline":
            stack = [[]]
            for child in token.children:
                if child.type in ("text", "softbreak", "text_special"):
                    letters.append(child.content)
                    continue
                attributes = tuple(sorted((k, re.sub(r"\s+", " ", str(v))) for k, v in child.attrs.items() if k not in ("alt", "title")))
                letters.append(str(child.attrs.get("title", ""))) # a title is text, too
                content = " ".join(child.content.split()) if child.type != "image" else ""
                if child.nesting < 0:
                    inner = stack.pop()
                    stack[-1][-1] += (tuple(sorted(inner)),)
                else:
                    stack[-1].append((child.type, attributes, content))
                if child.nesting > 0:
                    stack.append([])
            out.append(tuple(sorted(stack[0])))
        elif token.type == "html_block":
            out.append(("html", tuple(sorted(re.findall(r"</?[a-z][^<>]*>", re.sub(r"\s+", " ", token.content))))))
            letters.append(html.unescape(re.sub(r"<!--[\s\S]*?-->|</?[a-zA-Z][^>]*>", "", token.content)))
        else:
            out.append((token.type, token.tag, token.nesting, token.info, token.content, tuple(token.attrs.items())))
    return out, sorted(re.sub(r"[\s\xa0]+", "", "".join(letters)))


def branches(element):
    """Returns the contents of an element: blocks in their order, and everything else between two blocks in
    any order."""
    parts, run = [], []
    for child in element:
        if child.tag in BLOCKS:
            parts += [sorted(run, key=repr), branches(child)]
            run = []
        elif child.tag == "img":
            run.append(("img", child.get("src"), "title" in child.attrib))
        elif child.tag == "code":
            run.append(("code", str(child.attrib), child.text if element.tag == "pre" else (child.text or "").split()))
        elif child.tag is etree.Comment or child.tag != "br":
            run.append((str(child.tag), sorted((k, k == "title" or v.split()) for k, v in child.attrib.items()), branches(child) if len(child) else ()))
        else:
            run.append(("br",))
    return element.tag, sorted((k, k == "title" or v.split()) for k, v in element.attrib.items()), [*parts, sorted(run, key=repr)]


def cmarked(text):
    options = cmark.Options.CMARK_OPT_STRIKETHROUGH_DOUBLE_TILDE
    return cmark.markdown_to_html_with_extensions(text, options, ["table", "strikethrough"])


def reference(rendered):
    """Returns the tree that a reader makes of a document, by its HTML, and its letters."""
    tree = etree.fromstring(f"<document>{rendered}</document>", etree.XMLParser(recover=True, huge_tree=True))
    for element in tree.iter("s"):
        element.tag = "del"
    letters = "".join(tree.xpath("//text()[not(parent::code)] | //@title"))
    return branches(tree), sorted(re.sub(r"[\s\xa0]+", "", letters))


def body(text):
    """Returns the document without front matter."""
    return re.sub(r"\A---\n(?=\S)[\s\S]*?\n(---|\.\.\.)\s*(\n|\Z)", "", text)


def check(name, text):
    """Returns the faults of each function's translation, and how often markdown-it alone saw a fault."""
    faults, alone = [], 0
    before, letters = shape(READER.parse(body(text)))
    for how, function in enumerate(FUNCTIONS):
        run = subprocess.run([PROGRAM, "2", str(how)], input=text.encode(), stdout=subprocess.PIPE)
        if run.returncode:
            faults.append((function, "exit status", run.returncode, text, ""))
            continue
        made = run.stdout.decode()
        if function == "NOTHING":
            if made != text:
                faults.append((function, "other bytes", name, text, made))
            continue
        after, letters_after = shape(READER.parse(body(made)))
        has_all = function in ("SAME", "BACKWARDS")
        if before == after and (letters == letters_after or not has_all):
            continue
        trees, second = [reference(READER.render(body(t)))[0] for t in (text, made)], [reference(cmarked(body(t))) for t in (text, made)]
        if trees[0] != trees[1] and second[0][0] == second[1][0] and (second[0][1] == second[1][1] or not has_all):
            alone += 1
        elif before != after:
            differ = [(a, b) for a, b in zip(before, after) if a != b][:1] or [(len(before), len(after))]
            if isinstance(differ[0][0], tuple) and isinstance(differ[0][1], tuple):
                differ = [[x for x in a if x not in b] for a, b in (differ[0], differ[0][::-1])]
            faults.append((function, "structure", differ, text, made))
        else:
            differ = collections.Counter(letters), collections.Counter(letters_after)
            faults.append((function, "letters", (differ[0] - differ[1], differ[1] - differ[0]), text, made))
    return faults, alone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    if arguments.files:
        paths = [p for f in arguments.files for p in (sorted(f.rglob("*.md")) if f.is_dir() else [f])]
        documents = {p.read_bytes(): str(p) for p in paths if p.is_file()}
        documents = [(n, t.decode()) for t, n in documents.items() if not re.search(b"[^\\x00-\\x7f]", t) or t.decode(errors="replace").encode() == t]
        documents = [(n, t.replace("\r\n", "\n")) for n, t in documents]
    else:
        documents = [(f"seed {arguments.seed}, {i}", blocks(rng) + "\n") for i in range(arguments.documents)]
    counts, seen = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, _), (faults, alone) in zip(documents, pool.map(lambda d: check(*d), documents)):
            counts["documents"] += 1
            counts["by markdown-it alone"] += alone
            counts["documents with faults"] += bool(faults)
            for function, kind, what, text, made in faults:
                counts[f"{function}: {kind}"] += 1
                seen.append((len(text), name, function, kind, what, "-- in", text[:2000], "-- out", made[:2000]))
    for fault in sorted({f[1]: f for f in reversed(seen)}.values(), key=lambda f: f[0])[: arguments.show]:
        print("-" * 40, *fault, sep="\n")
    print(f"seed {arguments.seed}: {dict(+counts)}")
    return 1 if counts["documents with faults"] else 0


sys.exit(main())
