"""The names of elements and attributes in office documents and books, and what each of them is to a reader."""

from __future__ import annotations

import html
import re
from collections import ChainMap
from functools import cache
from typing import Any, Sequence

try:
    from lxml import etree
except ImportError:  # only archives need it
    etree = None

OOXML, STRICT = "http://schemas.openxmlformats.org/", "http://purl.oclc.org/ooxml/"
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
SPACES = {
    "w": (OOXML + "wordprocessingml/2006/main", STRICT + "wordprocessingml/main"),
    "a": (OOXML + "drawingml/2006/main", STRICT + "drawingml/main"),
    "c": (OOXML + "drawingml/2006/chart", STRICT + "drawingml/chart"),
    "p": (OOXML + "presentationml/2006/main", STRICT + "presentationml/main"),
    "wp": (OOXML + "drawingml/2006/wordprocessingDrawing", STRICT + "drawingml/wordprocessingDrawing"),
    "pic": (OOXML + "drawingml/2006/picture", STRICT + "drawingml/picture"),
    "cx": ("http://schemas.microsoft.com/office/drawing/2014/chartex",), "v": ("urn:schemas-microsoft-com:vml",),
    "m": (OOXML + "officeDocument/2006/math", STRICT + "officeDocument/math"),
    "cp": (OOXML + "package/2006/metadata/core-properties",),
    "text": (ODF + "text:1.0",), "meta": (ODF + "meta:1.0",), "office": (ODF + "office:1.0",), "style": (ODF + "style:1.0",),
    "table": (ODF + "table:1.0",), "form": (ODF + "form:1.0",), "presentation": (ODF + "presentation:1.0",),
    "svg": (ODF + "svg-compatible:1.0",), "fo": (ODF + "xsl-fo-compatible:1.0",), "opf": ("http://www.idpf.org/2007/opf",),
    "dc": ("http://purl.org/dc/elements/1.1/",),
    "ncx": ("http://www.daisy.org/z3986/2005/ncx/",),
}


@cache
def names(words: str) -> frozenset[str]:
    """Returns the names prefix:name of a list as lxml has them, with each namespace of the prefix."""
    split = (word.split(":") for word in words.split())
    return frozenset(f"{{{space}}}{name}" for prefix, name in split for space in SPACES[prefix])


def table(rows: dict[str, str]) -> dict[str, str]:
    return {name: value for words, value in rows.items() for name in names(words)}


PARAGRAPH = names("w:p a:p text:p text:h p:text svg:title svg:desc ncx:text dc:title dc:subject dc:description "
                    "cp:keywords meta:keyword c:v cx:pt cx:v table:title table:desc text:index-title-template presentation:header-decl "
                    "presentation:footer-decl")
STYLE_NAME, COUNT = (f"{{{SPACES['text'][0]}}}{name}" for name in ("style-name", "c"))
# elements with attributes that a reader sees or hears: a name without a prefix is an attribute without a namespace
ALT_WORDS = table({
    "wp:docPr p:cNvPr pic:cNvPr": "descr title", "w:hyperlink": "w:tooltip", "a:hlinkClick a:hlinkHover": "tooltip",
    "w:listItem": "w:displayText", "w:helpText w:statusText w:listEntry w:tblCaption w:tblDescription w:lvlText": "w:val",
    "v:textpath": "string", "v:shape v:rect v:oval v:roundrect v:group v:line v:image": "alt",
    "text:list-level-style-number text:outline-level-style": "style:num-prefix style:num-suffix",
    "form:button form:checkbox form:radio form:fixed-text form:frame": "form:label form:title", "form:option form:item": "form:label",
    "text:a": "office:title"})


def attribute_name(word: str, tag: str) -> str:
    """Returns lxml's name of an attribute prefix:name of an element."""
    prefix, colon, name = word.partition(":")
    return f"{{{SPACES[prefix][-1 if tag.startswith('{' + STRICT) else 0]}}}{name}" if colon else word


ALT = {tag: [attribute_name(word, tag) for word in words.split()] for tag, words in ALT_WORDS.items()}
NUMBERING = names("w:lvlText text:list-level-style-number text:outline-level-style")  # "Chapter %1"; "o" is a sign of a list
RUN, RUN_TEXT, FRAME = names("w:r a:r"), names("w:t a:t"), names("w:framePr")
# properties, which stay in front; what stays at the end
FIRST = names("w:pPr w:rPr w:sdtPr w:sdtEndPr w:smartTagPr w:customXmlPr a:pPr a:rPr")
LAST = names("a:endParaRPr")
# text inside these is the paragraph's own
INLINE = names("w:hyperlink w:ins w:moveTo w:smartTag w:customXml w:sdt w:dir w:bdo text:span text:a text:meta text:meta-field text:placeholder")
SIMPLE = names("w:fldSimple")
# results that come from another place: they are a text of their own, if they have words
RESULTS = names("text:bookmark-ref text:reference-ref text:sequence-ref text:note-ref text:title text:subject text:chapter text:keywords "
                "text:description text:text-input text:hidden-text")
SEQUENCE = names("text:sequence")
# elements that a reader sees as signs of the line
SHOWN = SIMPLE | RESULTS | SEQUENCE | names("w:sym w:pgNum a:fld m:oMath text:page-number text:page-count text:date text:time")
LINK = names("w:hyperlink text:a")
JOINED = LINK | names("text:span")  # two with the same attributes, beside each other, are one
# The results of these fields are text for readers. Others are numbers and dates, which programs make again.
TEXT_FIELDS = frozenset("HYPERLINK TOC TOA INDEX BIBLIOGRAPHY REF STYLEREF TITLE SUBJECT KEYWORDS COMMENTS QUOTE IF FORMTEXT FORMDROPDOWN FILLIN "
                         "DOCPROPERTY MACROBUTTON".split())
INNER_FIELDS = frozenset("HYPERLINK TOC TOA INDEX BIBLIOGRAPHY QUOTE MACROBUTTON".split())  # their results are words of the sentence
PLACE_FIELDS = frozenset("PAGEREF NOTEREF".split())  # with \\p the result may be "above"
RUBY, BASE = names("w:ruby text:ruby"), names("w:rubyBase text:ruby-base")
CONTENT = names("w:sdtContent")  # has the text of its parent
BREAK = names("w:tab w:ptab w:br w:cr a:br text:tab text:line-break w:fldChar w:instrText")
WRITTEN = table({"text:s": " ", "w:noBreakHyphen": "\u2011",  # elements that are characters
                   "w:softHyphen w:proofErr w:lastRenderedPageBreak text:soft-page-break": ""})
PAIRS = {begin + "Start": begin + "End" for begin in names("w:bookmark w:commentRange w:perm w:moveToRange w:moveFromRange")}
PAIRS.update({begin + "-start": begin + "-end" for begin in names(
    "text:bookmark text:reference-mark text:change text:alphabetical-index-mark text:toc-mark text:user-index-mark")})
PAIRS.update({begin: begin + "-end" for begin in names("office:annotation")})
PAIR_ENDS = frozenset(PAIRS.values())
# The attribute that both ends have: the first of these that an end has. The first end of a bookmark of Word also has a name.
PAIR_IDS = [*names("w:id text:change-id text:name office:name text:id"), "id", "name"]
# What is left as it is, and how a message calls it: elements with all that is in them, and what is inside a paragraph.
DELETED, INSERTED = names("w:del w:moveFrom"), names("w:ins w:moveTo")
EMPTY = table({"w:hyperlink text:a": "a link", "w:ins w:moveTo": "a tracked insertion", "text:span": "a format"})  # without words nobody sees them
LEFT = table({"w:del w:moveFrom text:tracked-changes": "deleted text of tracked changes",
                "w:altChunk": "an embedded document (altChunk)"})
KEPT = {"oMath": "text in a formula", "oMathPara": "text in a formula", "fldSimple": "a result of a field that has text",
         "fld": "a result of a field that has text"}
DATA = table({"c:strCache c:strLit c:multiLvlStrCache cx:strDim": "the table behind a chart, whose names come back when it is edited",
                "w:dataBinding": "data of a form (customXml), whose text may come back in Word"})
NUMBERS = names("c:numCache c:numLit cx:numDim")
MOST_RAISED = 12  # characters: longer superscript is text
RAISE, RUN_STYLE = names("w:vertAlign"), names("w:rStyle")
IGNORED = names("w:lang w:noProof")  # properties of a run that nobody sees
IGNORED_ATTRIBUTES = ("lang", "altLang", "dirty", "err", "noProof")
# No character of XML, and the soft hyphen, which belongs to a word of the source
NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\xad\ud800-\udfff\ufffe\uffff]")
TAG = re.compile(r'<(/?)(g|sub|x|br|ph)(?: id="(\d+)")?/?>(?:</ph>)?')
LETTER = re.compile(r"[^\W\d_]")
LETTERS = re.compile(r"[^\W\d_]{2,}")


def tag_name(name: Any) -> str:
    """Returns the name without its namespace."""
    return str(name).rpartition("}")[2]


def val_of(element: Any) -> str:
    """Returns the attribute val."""
    for name, value in element.items():
        if name.endswith("}val") or name == "val":
            return value
    return ""


def shifted_styles(root: Any, shifted: Sequence[ChainMap[str, None]]) -> tuple[ChainMap[str, None], ChainMap[str, None]]:
    """Returns the names of the styles that are superscript and of those that are subscript. shifted: those of other parts, which are
    not copied, because an archive may have many parts and many styles."""
    found = shifted[0].new_child(), shifted[1].new_child()
    for style in root.iter(*names("w:style")):
        kinds = {val_of(one) for one in style.iter(*RAISE)}
        for some, kind in zip(found, ("superscript", "subscript")):
            if kind in kinds:
                some.update((value, None) for name, value in style.items() if tag_name(name) == "styleId")
    space = SPACES["style"][0]
    for style in root.iter(f"{{{space}}}style"):
        for some, sign in zip(found, (r"super|\+?0*[1-9]\d*%", r"sub|-0*[1-9]\d*%")):
            name = style.get(f"{{{space}}}name")
            if name is not None and (style.get(f"{{{space}}}parent-style-name") in some or any(
                    re.match(sign, one.get(f"{{{space}}}text-position", "")) for one in style)):
                some[name] = None
    return found


def text_inside(element: Any) -> str:
    """Returns the text in an element, without that of paragraphs in it, which are read for themselves."""
    found = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, one in walk:
        if event == "start" and one is not element and (one.tag in PARAGRAPH or one.tag in LEFT):
            walk.skip_subtree()
        elif event == "start" and tag_name(one.tag) not in ("instrText", "delText"):
            found.append(one.text or "")
    return " ".join(found)


def xml_text(text: str) -> str:
    """Returns a text without the characters that XML does not allow, and without soft hyphens. A printable text has none of them."""
    return text if text.isprintable() else NO_XML.sub("", text)


def escaped(text: str) -> str:
    """Returns a text with &amp;, &lt; and &gt; for the characters that have a meaning in tags."""
    return html.escape(xml_text(text), quote=False)
