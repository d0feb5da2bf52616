"""Office documents and books with an echo in the place of the model: what goes in comes out. echo.py has the echoes and the
second reader; `python tools/python/tests/echo.py FOLDER` does the same with files. SEED in the environment repeats a run."""

import io
import os
import random
import re
import zipfile
from collections import Counter

import pytest

pytest.importorskip("lxml")
import echo  # noqa: E402
from test_files import archive, part, word  # noqa: E402
from test_document_work import W  # noqa: E402
from test_office import fields, odt, pptx, run  # noqa: E402
from transformer_h import documents, office_xml  # noqa: E402
from transformer_h.documents import File  # noqa: E402

SEED = int(os.environ.get("SEED") or random.randrange(10 ** 6))
WORDS = "Haus Hund schläft, Garten. und (gestern) Straße 12 die Katze; grün! Ja? viel".split()


# ---- random documents ------------------------------------------------------------------------------------

def some(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 4))) + " "


def of_word(rng, depth=0):
    """The content of a paragraph of docx: words, with what Word puts between them. Elements stand after a word or between spaces."""
    made = ""
    for _ in range(rng.randint(1, 8)):
        text = some(rng)
        n = rng.randrange(10 ** 6)
        made += rng.choice((
            run(text), run(text), run(text), run(text, "<w:b/>"), run(text, '<w:i/><w:lang w:val="de-DE"/>'),
            run(text[:-1]) + f'<w:r><w:footnoteReference w:id="{n}"/></w:r>' + run(" "),
            run(text[:-1]) + run(str(n % 9), '<w:vertAlign w:val="superscript"/>') + run(" "),
            f'<w:bookmarkStart w:id="{n}" w:name="_GoBack{n}"/>' + run(text) + f'<w:bookmarkEnd w:id="{n}"/>',
            f'<w:bookmarkStart w:id="{n}" w:name="b{n}"/><w:bookmarkEnd w:id="{n}"/>' + run(text),
            f'<w:hyperlink w:anchor="a{n}">{run(text)}</w:hyperlink>', f'<w:ins w:id="{n}">{run(text)}</w:ins>',
            f'<w:r><w:tab/></w:r>{run(text)}', f'{run(text)}<w:r><w:br/></w:r>', '<w:proofErr w:type="spellStart"/>' + run(text),
            fields("REF x", run(text[:-1])) + run(" "), fields("HYPERLINK x", run(text[:-1])) + run(" "),
            *([f'<w:sdt><w:sdtPr><w:id w:val="{n}"/></w:sdtPr><w:sdtContent>{of_word(rng, depth + 1)}</w:sdtContent></w:sdt>'] if depth < 2 else [])))
    return made


def of_text(rng, depth=0):
    made = ""
    for _ in range(rng.randint(1, 8)):
        text = some(rng)
        n = rng.randrange(10 ** 6)
        made += rng.choice((
            text, text, f'<text:span text:style-name="B">{text}</text:span>', f'<text:span text:style-name="P">{text}</text:span>',
            f'{text[:-1]}<text:note text:id="n{n}"><text:note-body><text:p>{text}</text:p></text:note-body></text:note> ',
            f'{text[:-1]}<text:span text:style-name="S">{n % 9}</text:span> ', f'<text:a office:name="{n}">{text}</text:a>',
            f'<text:bookmark-start text:name="b{n}"/>{text}<text:bookmark-end text:name="b{n}"/>', f"{text}<text:tab/>", f"{text}<text:line-break/>",
            f'<text:bookmark text:name="b{n}"/>{text}', f'{text}<text:s text:c="7"/>', text.replace(" ", "\n  "),
            f'<text:bookmark-ref text:ref-name="r{n}">{text[:-1]}</text:bookmark-ref> ',
            *([f'<text:span text:style-name="C{n % 3}">{of_text(rng, depth + 1)}</text:span>'] if depth < 2 else [])))
    return made


def of_slides(rng):
    made = ""
    for _ in range(rng.randint(1, 6)):
        text = some(rng)
        made += rng.choice((f"<a:r><a:rPr lang='de'/><a:t>{text}</a:t></a:r>", f"<a:r><a:rPr b='1'/><a:t>{text}</a:t></a:r>", "<a:br/>",
                            f"<a:r><a:t>{text[:-1]}</a:t></a:r><a:r><a:rPr baseline='30000'/><a:t>2</a:t></a:r><a:r><a:t> </a:t></a:r>"))
    return made + "<a:endParaRPr/>"


STYLES = ('<style:style style:name="P" style:family="text"><style:text-properties officeooo:rsid="1" xmlns:officeooo="u"/></style:style>'
          '<style:style style:name="S" style:family="text"><style:text-properties style:text-position="super 58%"/></style:style>')
MAKERS = {
    "a.docx": lambda rng: word("".join(f"<w:p><w:pPr><w:jc/></w:pPr>{of_word(rng)}</w:p>" for _ in range(12))),
    "a.odt": lambda rng: odt("".join(f'<text:p text:style-name="A">{of_text(rng)}</text:p>' for _ in range(12)), STYLES),
    "a.pptx": lambda rng: pptx("".join(f"<a:p>{of_slides(rng)}</a:p>" for _ in range(12))),
    "a.odp": lambda rng: odt("".join(f"<text:p>{of_text(rng)}</text:p>" for _ in range(12)), STYLES),
}


@pytest.mark.parametrize("kind", echo.ECHOES)
@pytest.mark.parametrize("name", MAKERS)
def test_random_documents_come_back(name, kind):
    """In another order of words an element that goes over the end of a sentence has other words, if it has a number of its own and so is not divided."""
    rng = random.Random(f"{SEED} {name} {kind}")
    for _ in range(12):
        data = MAKERS[name](rng)
        if kind == "reversed":
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                data = archive({one: re.sub(r"(?<=\w)[.?!]|<w:r><w:(tab|br)/></w:r>|<text:(tab|line-break)/>|<a:br/>|<text:s [^>]*>", "", opened.read(one).decode())
                                for one in opened.namelist()})
        made, _ = echo.through(data, name, echo.ECHOES[kind])
        assert list(echo.differences(data, made, name, kind)) == [], SEED


def test_an_insertion_of_a_space_stays_one():
    """No word of a translation becomes a part of a correction that has a no-break space only."""
    data = word("<w:p>" + run("See ") + run("“Variables and Data”", "<w:b/>") + run(" on ") + run("page", "<w:i/>")
                + f'<w:ins w:id="1">{run(chr(160), "<w:i/>")}</w:ins>' + run("XX", "<w:i/>") + run(" for more information.") + "</w:p>")
    made, _ = echo.through(data, "a.docx", echo.ECHOES["reversed"])
    assert list(echo.differences(data, made, "a.docx", "reversed")) == []


def test_the_second_reader_sees_differences():
    """Each change of a document is a difference, so the tests here can fail."""
    paragraph = f'<w:p>{run("Der Hund ")}{run("rot", "<w:b/>")}<w:r><w:footnoteReference w:id="1"/></w:r>{run(" schläft.")}</w:p>'
    data = word(paragraph)
    for old, new in (("Hund ", "Hund"), ("<w:b/>", "<w:i/>"), ("rot", "tot"), (' schl', 'schl'), ('<w:r><w:footnoteReference w:id="1"/></w:r>', "")):
        assert paragraph.count(old) == 1
        for kind in ("identity", "capitals"):
            assert list(echo.differences(data, word(paragraph.replace(old, new)), "a.docx", kind)), old
    assert list(echo.differences(data, word(paragraph), "a.docx", "identity")) == []
    assert list(echo.differences(data, word(paragraph + paragraph), "a.docx", "identity"))
    assert list(echo.differences(word("", **{"word/a.bin": b"1"}), word("", **{"word/a.bin": b"2"}), "a.docx", "identity"))


def test_what_stays_is_no_difference():
    """Results of fields that programs make again and deleted text stay in capitals, too, and readings of ruby leave the pages of books."""
    field = fields("ADDIN Zotero", run("Meier"))
    deleted = '<text:tracked-changes><text:changed-region><text:p>Weg</text:p></text:changed-region></text:tracked-changes><text:p>Tag</text:p>'
    for name, data in (("a.docx", word(f'<w:p>{run("Siehe ")}{field}{run(".")}</w:p><w:p>{run("Der ")}<w:fldSimple w:instr="FILENAME">'
                                       f'{run("brief")}</w:fldSimple>{run(" ist da.")}</w:p>')), ("a.odt", odt(deleted)),
                       ("a.epub", archive({"mimetype": "application/epub+zip", "a.xhtml": "<html><body><p><ruby>山路<rp>(</rp><rt>やまみち</rt><rp>)</rp></ruby>を登る。</p></body></html>"}))):
        for kind in ("identity", "capitals"):
            made, _ = echo.through(data, name, echo.ECHOES[kind])
            assert list(echo.differences(data, made, name, kind)) == [], (name, kind)
    data = word(f'<w:p>{run("Siehe ")}{field}{run(" hier.")}</w:p>')
    for before, after, kind in (("SIEHE", "Siehe", "capitals"), ("HIER", "Hier", "capitals"), ("Meier", "Mayer", "identity")):
        made, _ = echo.through(data, "a.docx", echo.ECHOES[kind])
        assert before in part(made) and list(echo.differences(data, word(re.search("<w:p>.*</w:p>", part(made), re.S)[0].replace(before, after)), "a.docx", kind))


def test_a_zip_is_read_again():
    made, _ = echo.through(word(f"<w:p>{run('Haus')}</w:p>"), "a.docx", echo.ECHOES["capitals"])
    assert zipfile.ZipFile(io.BytesIO(made)).testzip() is None and "HAUS" in part(made)


@pytest.mark.parametrize("kind", echo.ECHOES)
@pytest.mark.parametrize("name", ("a.docx", "a.odt"))
def test_sections_change_nothing(name, kind, monkeypatch):
    """A body that is read in sections, here each element of it, gives the same texts and the same file."""
    rng = random.Random(f"{SEED} {name} {kind}")
    for _ in range(6):
        data, made = MAKERS[name](rng), []
        for least in (1 << 17, 1):
            monkeypatch.setattr(office_xml, "SECTION", least)
            file = File(data, name)
            part, = (one for name, one in file._parts.items() if re.fullmatch("word/document.xml|content.xml", name))
            assert (len(part.sections.begins) > 1) == (least == 1)
            out, _ = echo.through(data, name, echo.ECHOES[kind])
            with zipfile.ZipFile(io.BytesIO(out)) as opened:
                made.append((sorted(file.texts), file.left, [opened.read(one) for one in opened.namelist()]))
        assert made[0] == made[1], SEED


def plain_content(rng):
    """The content of a paragraph of docx, pptx or OpenDocument that is often of one format, and some of what makes it another one."""
    texts = [rng.choice((some(rng), some(rng)[:-1], "12 ", "", "&#173;Haus", "a\n b", "Hund    Katze", "{{na", "me}} ist", "&lt;b> &amp;amp; ", "\u00a0", "²"))
             for _ in range(rng.randint(0, 4))]
    kind = rng.choice(("w", "w", "a", "text", "svg"))
    if kind == "svg":  # a description, which may have lines
        return kind, "".join(texts)
    if kind == "text":
        style = rng.choice(("", "", '<text:span text:style-name="B">Tag</text:span>', "<text:soft-page-break/>", '<text:s text:c="2"/>'))
        return kind, rng.choice(("", "", " ")) + "".join(texts) + style + rng.choice(("", " ", "  Tag"))
    bold, lang = ("<w:b/>", '<w:lang w:val="de-DE"/>') if kind == "w" else ("", "")
    own = rng.choice(("", "", bold, "<w:color w:val='1'/><w:sz w:val='3'/>" if kind == "w" else "", "<w:vertAlign w:val='superscript'/>" if kind == "w" else ""))
    made = rng.choice(("", f"<{kind}:pPr/>", f"<{kind}:pPr> </{kind}:pPr>\n"))
    for text in texts:
        more = rng.choice(("", "", "", lang, bold)) if rng.random() < 0.3 else ""
        properties = f"<{kind}:rPr{rng.choice(('', ' lang=%r' % 'de', ' b=%r' % '1')) if kind == 'a' else ''}>{own}{more}</{kind}:rPr>"
        marks = rng.choice(("", "", "", "<w:softHyphen/>", "<w:lastRenderedPageBreak/>", f"<{kind}:t>Ja</{kind}:t>", "<w:tab/>", "<w:noBreakHyphen/>")) if kind == "w" else ""
        made += rng.choice(("", "", "", '<w:proofErr w:type="spellStart"/>' if kind == "w" else "<a:br/>")) + rng.choice((
            f'<{kind}:r id="7">', f'<{kind}:r xmlns:u="u">', f"<{kind}:r>")) + rng.choice(("", properties, properties)) + f"<{kind}:t>{text}</{kind}:t>{marks}</{kind}:r>\n "
    return kind, made + rng.choice(("", "", "<a:endParaRPr/> ")) * (kind == "a") + rng.choice(("", "", "", "<a:pPr/>")) * (kind == "a")


@pytest.mark.parametrize("kind", [*echo.ECHOES, "signs", "nothing"])
def test_paragraphs_of_one_format(kind, monkeypatch):
    """They are read without pieces, and give the same texts, lines of File.left and bytes as all other paragraphs."""
    rng, plain, found = random.Random(f"{SEED} {kind}"), office_xml.plain_paragraph, Counter()
    change = {**echo.ECHOES, "signs": lambda sentence: "...", "nothing": lambda sentence: ""}[kind]

    def counted(*all_of_it):
        made = plain(*all_of_it)
        found[type(made).__name__] += 1
        return made
    for _ in range(30):
        paragraphs = [plain_content(rng) for _ in range(30)]
        body = {name: "".join(f"<{name}:p>{content}</{name}:p>" for one, content in paragraphs if one == name) for name in ("w", "a", "text")}
        body["text"] += "".join(f'<svg:desc xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0">{content}</svg:desc>'
                                for one, content in paragraphs if one == "svg")
        for name, data in (("a.docx", word(body["w"])), ("a.pptx", pptx(body["a"])), ("a.odt", odt(body["text"], STYLES))):
            made = []
            for reader in (counted, lambda *_: None):
                monkeypatch.setattr(office_xml, "plain_paragraph", reader)
                for rewrite, most_kept in ((True, 1 << 19), (False, 0)):
                    monkeypatch.setattr(documents, "MOST_KEPT", most_kept)
                    out, file = echo.through(data, name, change, rewrite)
                    with zipfile.ZipFile(io.BytesIO(out)) as opened:
                        made.append((file.texts, file.left, [opened.read(one) for one in opened.namelist()]))
            assert made[0] == made[2] and made[1] == made[3], SEED
    assert all(found[one] > 100 for one in ("PlainParagraph", "bool", "NoneType")), found


@pytest.mark.parametrize("kind", ("identity", "capitals"))
@pytest.mark.parametrize("name", MAKERS)
def test_parts_that_are_read_again(name, kind, monkeypatch):
    """Parts beyond MOST_KEPT are read again to be written. The file is the same, and the trees of a file of many parts do not stay in memory."""
    rng, made = random.Random(f"{SEED} {name} {kind}"), []
    with zipfile.ZipFile(io.BytesIO(MAKERS[name](rng))) as opened:
        first = {one: opened.read(one) for one in opened.namelist()}
    more = {"a.docx": "word/header%d.xml", "a.pptx": "ppt/slides/slide%d.xml"}.get(name, "Object %d/content.xml")
    one = next(one for one in first if re.fullmatch(r"word/document.xml|ppt/slides/slide1.xml|content.xml", one))
    data = archive({**first, **{more % i: first[one] for i in range(2, 9)}})
    for most_kept in (1 << 19, 3 * len(first[one]), 0):
        monkeypatch.setattr(documents, "MOST_KEPT", most_kept)
        kept = sum(part.kept is not None for part in File(data, name)._parts.values())
        assert (kept >= 8, 1 <= kept <= 4, kept == 0)[(1 << 19, 3 * len(first[one]), 0).index(most_kept)], kept
        for rewrite in (True, False):
            out, file = echo.through(data, name, echo.ECHOES[kind], rewrite)
            with zipfile.ZipFile(io.BytesIO(out)) as opened:
                made.append((file.texts, file.left, [opened.read(one) for one in opened.namelist()]))
    assert made[0] == made[2] == made[4] and made[1] == made[3] == made[5], SEED


@pytest.mark.parametrize("change", (
    lambda xml: xml.replace("UTF-8", "ISO-8859-1", 1).encode("latin-1", "replace"), lambda xml: xml.replace("UTF-8", "UTF-16", 1).encode("utf-16"),
    lambda xml: b"\xef\xbb\xbf" + xml.encode(), lambda xml: xml.replace("<w:body>", "<!-- a --><w:a><w:body/></w:a><?b?><w:body w:x='>' >").encode(),
    lambda xml: xml.replace("<w:body>", "<w:p><w:body>").replace("</w:body>", "</w:body></w:p>").encode(), lambda xml: xml.replace("<w:p>", "<w:p><w:framePr w:dropCap='drop'/>").encode()))
def test_sections_of_odd_parts(change, monkeypatch):
    """Other encodings, marks at the begin, comments, other bodies."""
    rng = random.Random(SEED)
    xml = f'<?xml version="1.0" encoding="UTF-8"?><w:document {W}><w:body> ' + "".join(f"<w:p>{of_word(rng)}</w:p> " for _ in range(9)) + "</w:body></w:document>"
    made = []
    for least in (1 << 17, 1):
        monkeypatch.setattr(office_xml, "SECTION", least)
        out, file = echo.through(archive({"word/document.xml": change(xml)}), "a.docx", echo.ECHOES["capitals"])
        made.append((sorted(file.texts), file.left, part(out)))
    assert made[0] == made[1], SEED
