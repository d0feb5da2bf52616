"""Documents of other programs: read, translated, and opened again by the libraries for them."""

import html
import io
import os
import random
import re
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from transformer_h import Error, Model, translate_file
from transformer_h.documents import File, FileError
from transformer_h.languages import language_tag

ROOT = Path(__file__).resolve().parents[3]
GERMAN = ROOT / "examples/models/de-en.safetensors"
SEED = int(os.environ.get("SEED") or random.randrange(10 ** 6))
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
BODY = "".join(f"<w:r>{properties}<w:t xml:space='preserve'>{text}</w:t></w:r>" for properties, text in (
    ("", "Ich habe "), ("<w:rPr><w:i/></w:rPr>", "gestern"), ("", " ein "), ("<w:rPr><w:b/></w:rPr>", "ro"),
    ("<w:rPr><w:b/><w:lang w:val='de-DE'/></w:rPr>", "tes"), ("", " Buch gekauft. Guten Tag.")))


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


def archive(parts, compress=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as made:
        for name, data in parts.items() if isinstance(parts, dict) else parts:
            made.writestr(name, data)
    return out.getvalue()


def word(body, **parts):
    return archive({"[Content_Types].xml": "<Types/>", "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
                    **parts})


def part(data, name="word/document.xml"):
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return opened.read(name).decode()


def runs(data, name="word/document.xml"):
    """The text of each run of a document, and the names of its properties."""
    from lxml import etree
    space = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
    found = []
    for run in etree.fromstring(part(data, name).encode()).iter(space + "r"):
        properties = run.find(space + "rPr")
        found.append(("".join(one.text or "" for one in run.iter(space + "t")),
                      [] if properties is None else [one.tag.replace(space, "") for one in properties]))
    return found


def through(file, translate=lambda text: text.replace("Tag", "Day")):
    return file.join([translate(text) for text in file.texts])


# ---- text files need nothing -------------------------------------------------------------------------

@pytest.mark.parametrize("name, text, kind", [
    ("a.txt", "Guten Tag. Das ist ein\nBuch.\n\nJa.\n", "wrapped"), ("a.md", "# Guten Tag\n\nEin *Buch*.\n", "markdown"),
    ("a.HTML", "<p>Ein <b>rotes</b> Buch.", "html"), ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nGuten Tag.\n", "srt")])
def test_text_files(german, tmp_path, name, text, kind):
    (tmp_path / name).write_bytes(text.encode())
    assert translate_file(german, tmp_path / name, tmp_path / "out") == []
    assert (tmp_path / "out").read_bytes().decode() == german.translate_document(text, kind) != text


def test_encodings(german):
    page = '<meta charset="iso-8859-1"><p>Schöne Grüße.'
    file = File(page.encode("latin-1"), "a.html")
    assert file.texts == [page]
    assert file.join([page + "\u20ac"]) == page.encode("latin-1") + b"&#8364;"
    for encoding in ("utf-8-sig", "utf-16"):
        assert File("Tag".encode(encoding), "a.txt").join(["Day"]) == "Day".encode(encoding)
    with pytest.raises(FileError, match="^a.txt: not utf-8 at byte 2; convert"):
        File(b"Gr\xc3\xfc", "a.txt")
    with pytest.raises(FileError, match="encoding x-none is not known"):
        File(b"<meta charset=x-none>", "a.html")
    for encoding in ("punycode", "idna", "unicode_escape", "utf-7", "rot13"):  # not of pages; some are very slow
        with pytest.raises(FileError, match=f"encoding {encoding} is not known"):
            File(f"<meta charset={encoding}>".encode(), "a.html")
    assert File("<meta charset=utf-16>Größe".encode(), "a.html").texts == ["<meta charset=utf-16>Größe"]


def test_command_line(tmp_path):
    (tmp_path / "a.txt").write_text("Guten Tag.", encoding="utf-8")

    def run(*words):
        return subprocess.run([sys.executable, "-m", "transformer_h", *map(str, words)], capture_output=True, text=True)
    assert run(GERMAN, tmp_path / "a.txt").returncode == 0
    assert (tmp_path / "a.translated.txt").read_text() == "Good day."
    assert run(GERMAN, tmp_path / "a.txt", "-o", tmp_path / "b").returncode == 0
    assert (tmp_path / "b").read_text() == "Good day."
    (tmp_path / "a.docx").write_bytes(b"no zip")
    failed = run(GERMAN, tmp_path / "a.docx")
    assert failed.returncode == 1 and failed.stderr.startswith(f"transformer_h: {tmp_path / 'a.docx'}: ")
    assert run(GERMAN, tmp_path / "none.txt").returncode == 1 and run(tmp_path / "a.txt", tmp_path / "a.txt").returncode == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.docx", "a.translated.txt", "a.txt", "b"]


# ---- archives need lxml ------------------------------------------------------------------------------

def test_format_follows_its_words(german):
    pytest.importorskip("lxml")
    file = File(word(f"<w:p>{BODY}</w:p>"), "a.docx")
    assert file.texts == ['Ich habe <g id="0">gestern</g> ein <g id="1">rotes</g> Buch gekauft. Guten Tag.']
    made = runs(file.join(german.translate_document(file.texts, file.format)))
    assert "".join(text for text, _ in made) == german.translate("Ich habe gestern ein rotes Buch gekauft.") + " Good day."
    assert [text.strip() for text, properties in made if properties == ["b"]] == ["red"]
    assert [text.strip() for text, properties in made if properties == ["i"]] == ["yesterday"]


def test_all_parts_of_a_paragraph_stay(german):
    pytest.importorskip("lxml")
    mark = '<w:bookmarkStart w:id="1" w:name="x"/>'
    begin = ('<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>{}</w:instrText></w:r>'
             '<w:r><w:fldChar w:fldCharType="separate"/></w:r>')
    end = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    body = (f'<w:p><w:pPr><w:jc w:val="both"/></w:pPr>{mark}{BODY}<w:bookmarkEnd w:id="1"/>'
            '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:tab/><w:t>Seite </w:t></w:r>'
            + begin.format("PAGE") + '<w:r><w:t>7</w:t></w:r>' + end + begin.format('HYPERLINK "http://a.b"')
            + '<w:r><w:t>Hier ist das Haus.</w:t></w:r>' + end
            + '<w:hyperlink w:anchor="x"><w:r><w:rPr><w:rStyle w:val="Link"/></w:rPr><w:t>Das ist ein Link.</w:t></w:r></w:hyperlink>'
            '<w:ins w:id="9"><w:r><w:t>Neu ist das.</w:t></w:r></w:ins><w:del w:id="8"><w:r><w:delText>Alt.</w:delText></w:r></w:del>'
            '<w:sdt><w:sdtPr><w:id w:val="3"/></w:sdtPr><w:sdtContent><w:r><w:t>Ein Feld ist da.</w:t></w:r></w:sdtContent></w:sdt></w:p>')
    file = File(word(body), "a.docx")
    made = file.join(german.translate_document(file.texts, file.format))
    text = part(made)
    assert file.left == ["deleted text of tracked changes"] and "Alt." in text
    for each in ("jc", "bookmarkStart", "bookmarkEnd", "footnoteReference", "tab", "hyperlink", "ins", "sdtPr", "sdtContent"):
        assert text.count(f"<w:{each} ") + text.count(f"<w:{each}/") + text.count(f"<w:{each}>") == 1, each
    kinds = [one.split('"')[1] for one in text.split("fldCharType=")[1:]]
    assert kinds == ["begin", "separate", "end"] * 2
    assert text.index("PAGE") < text.index(">7<") < text.index("HYPERLINK")
    assert text.index("bookmarkStart") < text.index("bookmarkEnd") and text.startswith("<?xml")
    assert text.index("<w:pPr>") < text.index("<w:r>") and "Haus" not in text and "Feld" not in text


def field(*inside, command="PAGE"):
    return "".join(f"<w:r>{each}</w:r>" for each in (
        '<w:fldChar w:fldCharType="begin"/>', f"<w:instrText>{command}</w:instrText>", '<w:fldChar w:fldCharType="separate"/>',
        *inside, '<w:fldChar w:fldCharType="end"/>'))


def test_fields_inside_fields(german):
    """A table of contents: its field goes over paragraphs, and has links, which have numbers of pages."""
    pytest.importorskip("lxml")
    begin = field(command="TOC")[:-len('<w:r><w:fldChar w:fldCharType="end"/></w:r>')]
    link = field("<w:t>Das Haus</w:t><w:tab/></w:r>" + field("<w:t>7</w:t>") + "<w:r>", command="HYPERLINK x")
    file = File(word(f"<w:p>{begin}{link}</w:p><w:p>{link}<w:r><w:fldChar w:fldCharType='end'/></w:r></w:p>"), "a.docx")
    made = part(file.join(german.translate_document(file.texts, file.format)))
    kinds = re.findall('fldCharType="(.*?)"|(TOC|HYPERLINK|PAGE)[ x]*<|>(7)<', made)
    both = "begin HYPERLINK separate begin PAGE separate 7 end end"
    assert " ".join(map("".join, kinds)) == f"begin TOC separate {both} {both} end"
    assert made.count("he house") == 2 and "Haus" not in made


def test_links_on_signs_get_no_words(german):
    pytest.importorskip("lxml")
    link = '<w:hyperlink w:anchor="x"><w:r><w:t>\u00b6</w:t></w:r></w:hyperlink>'
    file = File(word(f"<w:p><w:r><w:t>Guten Tag</w:t></w:r>{link}</w:p>"), "a.docx")
    assert file.texts == ['Guten Tag<x id="0"/>'] and link in part(file.join(german.translate_document(file.texts, "html")))


def test_comments_of_xml_divide_no_text():
    pytest.importorskip("lxml")
    for note in ("<!-- x -->", "<?x y?>"):
        made = File(word(f"<w:p>{note}<w:r>{note}<w:t>Ta{note}g</w:t></w:r>{note}</w:p>"), "a.docx")
        assert made.texts == ["Tag"] and runs(made.join(["Day"])) == [("Day", [])]
        made = File(archive({"content.xml": f'<text:p xmlns:text="{ODF}text:1.0">{note}Ta{note}g</text:p>'}), "a.odt")
        assert made.texts == ["Tag"]


def test_other_paragraphs_and_parts_keep_their_bytes():
    pytest.importorskip("lxml")
    same = '<w:p w:rsidR="1"><w:r><w:t>12 %</w:t></w:r></w:p>'
    picture = bytes(range(256))
    outside = '<Relationships><Relationship Id="1" Target="http://127.0.0.1:1/a.dotm" TargetMode="External"/></Relationships>'
    data = word(f"<w:p>{BODY}</w:p>{same}", **{"word/media/a.png": picture, "word/styles.xml": f"<w:styles {W} />",
                                               "word/_rels/settings.xml.rels": outside,
                                               "word/header1.xml": f"<w:hdr {W}><w:p><w:r><w:t>Tag</w:t></w:r></w:p></w:hdr>"})
    file = File(data, "a.docx")
    made = through(file)
    assert same in part(made) and "Day" in part(made, "word/header1.xml")
    assert part(made, "word/styles.xml") == f"<w:styles {W} />" and part(made, "word/_rels/settings.xml.rels") == outside
    with zipfile.ZipFile(io.BytesIO(made)) as opened, zipfile.ZipFile(io.BytesIO(data)) as before:
        assert opened.namelist() == before.namelist() and opened.read("word/media/a.png") == picture


def test_opendocument(german):
    pytest.importorskip("lxml")
    spaces = " ".join(f'xmlns:{one}="{ODF}{one}:1.0"' for one in ("office", "text", "style"))
    content = (f'<office:document-content {spaces}><office:automatic-styles>'
               '<style:style style:name="T1" style:family="text"><style:text-properties rsid="1"/></style:style>'
               '</office:automatic-styles><office:body><office:text><text:tracked-changes><text:p>Alt.</text:p></text:tracked-changes>'
               '<text:p text:style-name="P">  Ich <text:span text:style-name="T1">habe</text:span> gestern ein '
               '<text:span text:style-name="B">ro</text:span><text:span text:style-name="B">tes</text:span> Buch'
               '<text:note><text:note-body><text:p>Guten Tag.</text:p></text:note-body></text:note> gekauft.<text:s text:c="3"/>Ja.'
               '<text:line-break/>Nein.</text:p></office:text></office:body></office:document-content>')
    file = File(archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content}), "a.odt")
    assert file.texts[0].replace(' id="1"', "").startswith('  Ich habe gestern ein <g id="0">rotes</g> Buch<x/> gekauft.   Ja.<br id=')
    made = part(file.join(german.translate_document(file.texts, file.format)), "content.xml")
    assert '<text:span text:style-name="B">red</text:span>' in made and "<text:p>Good day.</text:p>" in made
    assert made.count("<text:note>") == 1 and '<text:s text:c="2"/>' in made and "<text:p>Alt.</text:p>" in made
    assert file.left == ["deleted text of tracked changes"]


def test_book(german):
    pytest.importorskip("lxml")
    page = '<?xml version="1.0" encoding="UTF-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Ein <i>rotes</i> Buch.</p></body></html>'
    contents = ('<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
                '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>Das Buch</text></docTitle>'
                '<docAuthor><text>Anna Klein</text></docAuthor></ncx>')
    data = archive([("mimetype", "application/epub+zip"), ("OPS/a.xhtml", page), ("OPS/toc.ncx", contents)], zipfile.ZIP_STORED)
    made = through(File(data, "a.epub"), lambda text: german.translate_document(text, "html"))
    assert part(made, "OPS/a.xhtml") == german.translate_document(page, "html") != page
    assert "The book" in part(made, "OPS/toc.ncx") and "Anna Klein" in part(made, "OPS/toc.ncx")
    assert "ncx-2005-1.dtd" in part(made, "OPS/toc.ncx")
    with zipfile.ZipFile(io.BytesIO(made)) as opened:
        assert opened.infolist()[0].filename == "mimetype" and opened.infolist()[0].compress_type == zipfile.ZIP_STORED


# ---- the libraries that others use -------------------------------------------------------------------

def test_python_docx_opens_it(german, tmp_path):
    docx = pytest.importorskip("docx")
    made = docx.Document()
    made.core_properties.title = "Das Haus"
    paragraph = made.add_paragraph("Das Wetter ist heute sehr ")
    paragraph.add_run("schön").underline = True
    paragraph.add_run(".")
    made.add_table(1, 2).cell(0, 1).text = "Guten Tag."
    made.sections[0].header.paragraphs[0].text = "Ich bin müde."
    made.save(tmp_path / "a.docx")
    translate_file(german, tmp_path / "a.docx", tmp_path / "a.docx")
    made = docx.Document(tmp_path / "a.docx")
    assert [run.text.strip() for run in made.paragraphs[0].runs if run.underline] == ["beautiful"]
    assert made.paragraphs[0].text == german.translate("Das Wetter ist heute sehr schön.")
    assert made.tables[0].cell(0, 1).text == "Good day." and made.core_properties.title == german.translate("Das Haus").rstrip(".")
    assert made.sections[0].header.paragraphs[0].text == german.translate("Ich bin müde.")


def test_python_pptx_opens_it(german, tmp_path):
    pptx = pytest.importorskip("pptx")
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[5])
    paragraph = slide.shapes.title.text_frame.paragraphs[0]
    for text in ("Das Wetter ist heute sehr ", "schön", "."):
        paragraph.add_run().text = text
    paragraph.runs[1].font.bold = True
    slide.notes_slide.notes_text_frame.text = "Guten Tag."
    made.save(tmp_path / "a.pptx")
    translate_file(german, tmp_path / "a.pptx", tmp_path / "b.pptx")
    slide = pptx.Presentation(tmp_path / "b.pptx").slides[0]
    assert [run.text.strip() for run in slide.shapes.title.text_frame.paragraphs[0].runs if run.font.bold] == ["beautiful"]
    assert slide.notes_slide.notes_text_frame.text == "Good day."


def test_odfpy_opens_it(german, tmp_path):
    opendocument, text = pytest.importorskip("odf.opendocument"), pytest.importorskip("odf.text")
    made = opendocument.OpenDocumentText()
    paragraph = text.P(text="Ich habe gestern ein ")
    paragraph.addElement(text.Span(text="rotes", stylename="B"))
    paragraph.addText(" Buch gekauft.")
    made.text.addElement(paragraph)
    made.save(tmp_path / "a.odt")
    translate_file(german, tmp_path / "a.odt", tmp_path / "b.odt")
    paragraph, = opendocument.load(tmp_path / "b.odt").getElementsByType(text.P)
    assert [str(one) for one in paragraph.getElementsByType(text.Span)] == ["red"]
    assert str(paragraph) == german.translate("Ich habe gestern ein rotes Buch gekauft.")


def test_ebooklib_opens_it(german, tmp_path):
    epub = pytest.importorskip("ebooklib.epub")
    book = epub.EpubBook()
    book.set_identifier("x"), book.set_title("Das Buch"), book.set_language("de"), book.add_author("Anna Klein")
    page = epub.EpubHtml(title="Das Haus", file_name="a.xhtml", content="<p>Guten Tag.</p>")
    book.add_item(page)
    book.toc, book.spine = [page], ["nav", page]
    book.add_item(epub.EpubNcx()), book.add_item(epub.EpubNav())
    epub.write_epub(tmp_path / "a.epub", book)
    translate_file(german, tmp_path / "a.epub", tmp_path / "b.epub")
    book = epub.read_epub(tmp_path / "b.epub")
    assert book.title == german.translate("Das Buch").rstrip(".")  # without a stop, as in the source
    assert book.get_metadata("DC", "creator")[0][0] == "Anna Klein"
    assert b"<p>Good day.</p>" in book.get_item_with_href("a.xhtml").content and "Haus" not in book.toc[0].title


# ---- the language that a document says it is in ---------------------------------------------------------

@pytest.mark.parametrize("code, tag", [
    ("en", "en US"), ("eng_Latn", "en US"), ("en-GB", "en GB"), ("deu", "de DE"), ("zh", "zh CN"), ("zho_Hant", "zh TW"),
    ("zh_TW", "zh TW"), ("sr-Latn", "sr Latn RS"), ("tlh", "tlh"), ("es-419", "es 419"), ("English", ""), ("", ""), ("d\u00e9", ""),
    ("en-", ""), ("x", "")])
def test_codes_of_languages(code, tag):
    assert " ".join(filter(None, language_tag(code))) == tag


def test_docx_says_its_language(german, tmp_path):
    docx = pytest.importorskip("docx")
    from docx.oxml.ns import qn
    made = docx.Document()
    paragraph = made.add_paragraph("Das Wetter ist ")
    for text, lang in (("schön", {"w:val": "de-DE", "w:eastAsia": "zh-CN"}), (". ", {"w:val": "zxx"}), ("Ja.", {"w:eastAsia": "ja-JP"})):
        run = paragraph.add_run(text)
        run.bold = text == "schön"
        properties = run._r.get_or_add_rPr()
        properties.append(properties.makeelement(qn("w:lang"), {qn(name): value for name, value in lang.items()}))
    made.core_properties.language = "de"
    made.save(tmp_path / "a.docx")

    def says(lang):
        left = translate_file(german, tmp_path / "a.docx", tmp_path / "b.docx", lang=lang)
        made = docx.Document(tmp_path / "b.docx")
        defaults = made.styles.element.find(f"{qn('w:docDefaults')}/{qn('w:rPrDefault')}/{qn('w:rPr')}/{qn('w:lang')}")
        theme = made.settings.element.find(qn("w:themeFontLang"))
        return left, [[one.get(qn(name)) for name in ("w:val", "w:eastAsia")] for one in (defaults, theme)], {
            tuple(one.attrib.values()) for one in made.element.iter(qn("w:lang"))}, made.core_properties.language
    unknown = ["the language that the file says it is in, because the new one is not known (lang=, --lang)"]
    before = [["en-US", "en-US"], ["en-US", "ja-JP"]]
    assert says(None)[::3] == ([], "en")  # as the model file says
    for lang in ("", "English"):
        assert says(lang)[::3] == (unknown, "de") and says(lang)[1] == before
    left, defaults, texts, file = says("en-GB")
    assert left == [] and defaults == [["en-GB", "en-US"], ["en-GB", "ja-JP"]] and file == "en-GB"
    assert ("en-GB", "zh-CN") in texts and not any("de-DE" in one for one in texts)
    assert says("zh")[1] == [["en-US", "zh-CN"], ["en-US", "zh-CN"]]  # Word has a language of its own for Chinese text


def test_docx_without_defaults_says_its_language():
    pytest.importorskip("lxml")
    data = word(f"<w:p>{BODY}</w:p><w:p><w:del><w:r><w:rPr><w:lang w:val='de-DE'/></w:rPr><w:delText>Alt.</w:delText></w:r></w:del></w:p>",
                **{"word/styles.xml": f"<w:styles {W}/>"})
    file = File(data, "a.docx")
    made = file.join(file.texts, "en")
    assert part(made, "word/styles.xml").endswith(
        '<w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="en-US"/></w:rPr></w:rPrDefault></w:docDefaults></w:styles>')
    assert part(made).count('"en-US"') == 1 and part(made).count("de-DE") == 1  # deleted text stays as it is
    file = File(data, "a.docx")
    assert part(file.join(file.texts)) == part(data)


def test_pptx_says_its_language(german, tmp_path):
    pptx = pytest.importorskip("pptx")
    from pptx.enum.lang import MSO_LANGUAGE_ID as ID
    made = pptx.Presentation()
    paragraph = made.slides.add_slide(made.slide_layouts[5]).shapes.title.text_frame.paragraphs[0]
    for text in ("Das Wetter ist ", "schön."):
        paragraph.add_run().text = text
    paragraph.runs[0].font.language_id = ID.GERMAN
    made.save(tmp_path / "a.pptx")
    assert translate_file(german, tmp_path / "a.pptx", tmp_path / "b.pptx", lang="en") == []
    made = pptx.Presentation(tmp_path / "b.pptx")
    runs = made.slides[0].shapes.title.text_frame.paragraphs[0].runs
    assert "".join(run.text for run in runs) == "The weather is beautiful."
    assert {run.font.language_id for run in runs} == {ID.ENGLISH_US}


def test_opendocument_says_its_language(german, tmp_path):
    opendocument, text = pytest.importorskip("odf.opendocument"), pytest.importorskip("odf.text")
    from odf.dc import Language
    from odf.style import DefaultStyle, Style, TextProperties
    made = opendocument.OpenDocumentText()
    for name, language, country in (("G", "de", "AT"), ("N", "zxx", "none")):
        style = Style(name=name, family="text")
        style.addElement(TextProperties(language=language, country=country, fontweight="bold"))
        made.automaticstyles.addElement(style)
    made.meta.addElement(Language(text="de-AT"))
    paragraph = text.P()
    paragraph.addElement(text.Span(text="Guten Tag.", stylename="G"))
    paragraph.addElement(text.Span(text="1 + 1", stylename="N"))
    made.text.addElement(paragraph)
    made.save(tmp_path / "a.odt")

    def says(lang):
        assert translate_file(german, tmp_path / "a.odt", tmp_path / "b.odt", lang=lang) == []
        made = opendocument.load(tmp_path / "b.odt")
        default, = made.styles.getElementsByType(DefaultStyle)
        found = [(one.getAttribute("language"), one.getAttribute("country"), one.getAttribute("languageasian"),
                  one.getAttribute("countryasian")) for style in (default, *made.automaticstyles.getElementsByType(Style))
                 for one in style.getElementsByType(TextProperties)]
        return found, str(made.meta.getElementsByType(Language)[0])
    none, no_text = (None,) * 2, ("zxx", "none")
    assert says("en") == ([("en", "US", *none), ("en", "US", *none), (*no_text, *none)], "en")
    assert says("zho_Hans") == ([(*none, "zh", "CN"), ("de", "AT", *none), (*no_text, *none)], "zho-Hans")


def test_book_says_its_language(german, tmp_path):
    epub = pytest.importorskip("ebooklib.epub")
    book = epub.EpubBook()
    book.set_identifier("x"), book.set_title("Das Buch"), book.set_language("de")
    page = epub.EpubHtml(title="Das Haus", file_name="a.xhtml", content="<p>Guten Tag.</p>", lang="de")
    book.add_item(page)
    book.toc, book.spine = [page], ["nav", page]
    book.add_item(epub.EpubNcx()), book.add_item(epub.EpubNav())
    epub.write_epub(tmp_path / "a.epub", book)
    for lang, said in ((None, "en"), ("", "de"), ("en", "en")):
        left = translate_file(german, tmp_path / "a.epub", tmp_path / "b.epub", lang=lang)
        book = epub.read_epub(tmp_path / "b.epub")
        assert bool(left) == (lang == "") and book.get_metadata("DC", "language")[0][0] == said
        with zipfile.ZipFile(tmp_path / "b.epub") as opened:
            content = opened.read("EPUB/a.xhtml").decode()
            assert f'lang="{said}" xml:lang="{said}"' in content and "Good day." in content


# ---- hostile files -----------------------------------------------------------------------------------

ENTITY = '<!DOCTYPE w [<!ENTITY a "Tag">]><w/>'
BILLION = '<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi")) + "]><w>&i;</w>"


AMPLIFIED = BILLION.replace("<w>&i;</w>", '<w a="&i;"/>')


def that_lies():
    """A part of 200 MB that says it has 10 bytes."""
    data = bytearray(archive({"word/document.xml": bytes(200 << 20)}))
    at = data.index(b"PK\1\2")
    data[at + 24:at + 28] = data[22:26] = (10).to_bytes(4, "little")
    return bytes(data)


def encrypted_book(algorithm):
    return archive({"META-INF/encryption.xml": f'<e xmlns:e="x"><e:EncryptionMethod Algorithm="{algorithm}"/><e:CipherData/></e>',
                    "a.xhtml": "<p>Tag"})


def marked_encrypted(data):
    at = data.index(b"PK\1\2") + 8
    return data[:6] + bytes([data[6] | 1]) + data[7:at] + bytes([data[at] | 1]) + data[at + 1:]


@pytest.mark.parametrize("name, data, message", [
    ("a.docx", lambda: b"PK", "a.docx: no zip archive, which docx files are: .*; get the file again, or open it in its program"),
    ("a.docx", lambda: b"\xd0\xcf\x11\xe0" + bytes(999), "encrypted, or in Word's"),
    ("a.docx", lambda: archive({"x": "y"}), "the archive has none of the parts of docx files; look whether"),
    ("a.docx", lambda: archive({"word/document.xml": "<w"}), r"part 'word/document.xml': not XML"),
    ("a.docx", lambda: archive({"word/document.xml": ENTITY}), r"a.docx: part 'word/document.xml': declares entities[^:]*$"),
    ("a.docx", lambda: archive({"word/document.xml": ENTITY.encode("utf-16")}), "declares entities"),
    ("a.docx", lambda: archive({"word/document.xml": BILLION}), "declares entities|not XML"),
    ("a.docx", lambda: archive({"word/document.xml": '<!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]><w>&a;</w>'}),
     "declares entities"),
    ("a.docx", lambda: archive({"word/document.xml": "<a>" * 9999 + "</a>" * 9999}), "not XML that can be read"),
    ("a.epub", lambda: archive({"a.xhtml": ENTITY}), r"part 'a.xhtml': declares entities"),
    ("a.docx", lambda: archive([("a", "1"), ("a", "2")]), r"part 'a': two parts have this name"),
    ("a.docx", lambda: archive({"../a": "1"}), r"part '../a': this name leads out of the archive"),
    ("a.docx", lambda: archive({"/etc/a": "1"}), "leads out"),
    ("a.docx", lambda: archive({"a": "1"}, zipfile.ZIP_LZMA), "compressed in an unusual way"),
    ("a.docx", lambda: marked_encrypted(archive({"a": "1"})), r"part 'a': encrypted"),
    ("a.odt", lambda: archive({"META-INF/manifest.xml": "<m:encryption-data/>", "content.xml": "<a/>"}), "a.odt: encrypted"),
    ("a.docx", lambda: archive({"a": bytes(10 ** 7)}), r"part 'a': the parts up to this one have more than 1000000 bytes"),
    ("a.docx", lambda: archive({"a": bytes(10 ** 7)}, zipfile.ZIP_STORED), "a.docx: larger than 1000000 bytes"),
    ("a.docx", lambda: word("<w:p/>").replace(b"\x4b\x03\x04", b"\x4b\x03\x05"), "damaged"),
    ("a.docx", lambda: archive({"word/document.xml": AMPLIFIED}), "declares entities|not XML"),
    ("a.docx", that_lies, "part 'word/document.xml': damaged"),
    ("a.docx", lambda: archive({f"{i}": "" for i in range(20001)}), "more than 20000 parts"),
    ("a.docx", lambda: word("<w:p><w:ins " + " ".join(f'xmlns:a{i}="{i}"' for i in range(301)) + "/></w:p>"),
     "part 'word/document.xml': more than 300 namespaces"),
    ("a.docx", lambda: word("<w:p>" + "".join("<w:ins>" + "".join(f'<w:bookmarkStart w:id="{i}"/>' for i in range(49)) for _ in range(200))
                            + ("".join(f'<w:bookmarkEnd w:id="{i}"/>' for i in reversed(range(49))) + "</w:ins>") * 200 + "</w:p>"),
     "part 'word/document.xml': a paragraph has too many elements inside each other"),
    ("a.epub", lambda: encrypted_book("http://www.w3.org/2001/04/xmlenc#aes128-cbc"), "a.epub: encrypted"),
    ("a.pdf", lambda: b"%PDF", "a.pdf: expected a file .docx"),
])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_files_are_refused(german, tmp_path, name, data, message):
    pytest.importorskip("lxml")
    (tmp_path / name).write_bytes(data())
    (tmp_path / "out").write_text("before")
    tracemalloc.start()
    with pytest.raises(FileError, match=message) as caught:
        translate_file(german, tmp_path / name, tmp_path / "out", most=10 ** 7 if "20000" in message else 10 ** 6)
    assert tracemalloc.get_traced_memory()[1] < 5e7
    tracemalloc.stop()
    assert str(caught.value).startswith(str(tmp_path / name))
    assert (tmp_path / "out").read_text() == "before" and len(list(tmp_path.iterdir())) == 2


def test_books_with_obfuscated_fonts_are_read():
    pytest.importorskip("lxml")
    for algorithm in ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"):
        assert File(encrypted_book(algorithm), "a.epub").texts == ["<p>Tag"]


def test_texts_have_a_limit_of_their_own():
    pytest.importorskip("lxml")
    picture, text = bytes(65 << 20), " " * (65 << 20)
    assert File(word("", **{"word/media/a.bin": picture}), "a.docx").texts == []
    with pytest.raises(FileError, match="part 'word/a.xml': the parts with text up to this one have more than 67108864 bytes"):
        File(word("", **{"word/a.xml": text}), "a.docx")


def test_many_elements_take_linear_time():
    pytest.importorskip("lxml")
    many = "".join(f'<w:bookmarkStart w:id="{i}"/>' for i in range(5000)), "".join(f'<w:bookmarkEnd w:id="{i}"/>' for i in range(5000, 0, -1))
    space = f'xmlns:text="{ODF}text:1.0"'
    for data, name in ((word(f"<w:p>{many[0]}<w:r><w:t>Tag</w:t></w:r>{many[1]}</w:p>"), "a.docx"),
                       (archive({"content.xml": f"<text:p {space}>Tag" + "<text:s/>x<text:tab/>" * 20000 + "</text:p>"}), "a.odt"),
                       (archive({"content.xml": f"<text:p {space}>Tag" + '<text:s text:c="900000000"/>' * 9999 + "</text:p>"}), "a.odt")):
        began = time.process_time()
        assert len(through(File(data, name))) < 10 ** 6
        assert time.process_time() - began < 20


def test_links_are_refused():
    pytest.importorskip("lxml")
    info = zipfile.ZipInfo("a")
    info.external_attr = 0o120777 << 16
    with pytest.raises(FileError, match="part 'a': a link"):
        File(archive([(info, "/etc/passwd")]), "a.docx")


def test_a_failure_writes_nothing(german, tmp_path):
    (tmp_path / "a.txt").write_text("Heute " + "und morgen " * 50)
    with pytest.raises(Error):
        translate_file(german, tmp_path / "a.txt", tmp_path / "b.txt", max_source=20, on_error="raise")
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(OSError):
        translate_file(german, tmp_path / "a.txt", tmp_path / "none" / "b.txt")
    with pytest.raises(ValueError, match="0 texts for 1"):
        File(b"Tag", "a.txt").join([])


def test_sentences_that_are_too_long_stay_and_are_counted(german, tmp_path):
    long = "Heute " + "und morgen " * 50
    (tmp_path / "a.txt").write_text(f"Guten Tag.\n\n{long}\n\n{long}\n")
    for options in {}, {"on_error": "copy"}:
        assert translate_file(german, tmp_path / "a.txt", tmp_path / "b.txt", max_source=20, **options) == [
            "a sentence that is too long for the model (2)"]
        assert (tmp_path / "b.txt").read_text().split("\n\n")[0] == "Good day." and (tmp_path / "b.txt").read_text().count("morgen") == 100
    with pytest.raises(Error, match="ZZ"):  # other errors end the translation
        translate_file(german, tmp_path / "a.txt", tmp_path / "b.txt", target_language="ZZ")
    pytest.importorskip("lxml")
    (tmp_path / "a.docx").write_bytes(word(f"<w:p><w:r><w:t>Guten Tag. {long.strip()}.</w:t></w:r></w:p>"))
    assert "a sentence that is too long for the model" in translate_file(german, tmp_path / "a.docx", tmp_path / "b.docx", max_source=20)
    assert part((tmp_path / "b.docx").read_bytes()).count("morgen") == 50 and "Good day." in part((tmp_path / "b.docx").read_bytes())


def test_an_end_of_another_pair_inside_a_field():
    """The end of a comment whose beginning is outside of a link stays an element."""
    pytest.importorskip("lxml")
    ends = '<w:commentRangeStart w:id="1"/>{}<w:bookmarkStart w:id="7"/><w:commentRangeEnd w:id="1"/><w:r><w:t>Tag</w:t></w:r><w:bookmarkEnd w:id="7"/>'
    made = part(through(File(word("<w:p>" + ends.format("<w:r><w:t>Ein</w:t></w:r>") + "</w:p>"), "a.docx")))
    assert "&lt;" not in made and made.count("commentRange") == 2 and "Day" in made


def test_fields_stay_in_a_paragraph_that_does_not_change():
    """Reading takes nothing out of a paragraph."""
    pytest.importorskip("lxml")
    file = File(word(f"<w:p><w:r><w:t>Tag</w:t></w:r></w:p><w:p><w:r><w:t>Seite </w:t></w:r>{field('<w:r><w:t>7</w:t></w:r>')}</w:p>"), "a.docx")
    made = part(through(file))
    assert "Day" in made and made.count("fldChar ") == 3 and "PAGE" in made and ">7<" in made


def test_any_place_of_a_tag_gives_a_document():
    """Wherever the tags of a translation are, each element is in the document once, and all of the text."""
    pytest.importorskip("lxml")
    rng = random.Random(SEED)
    body = (f'<w:p>{BODY}<w:r><w:br/><w:drawing/><w:t> \x7f&amp;lt;</w:t></w:r><w:bookmarkStart w:id="1"/><w:r><w:t>ja</w:t></w:r>'
            '<w:bookmarkEnd w:id="1"/><w:hyperlink><w:r><w:rPr><w:b/></w:rPr><w:t>nein</w:t></w:r><w:r><w:tab/></w:r></w:hyperlink></w:p>')

    def mixed(tags):
        made = ""
        while tags:
            if rng.random() < 0.5:
                made += rng.choice(("x &lt;", "\x01&amp;", " ", "y"))
            tag, n = tags.pop(), rng.randint(0, len(tags))
            inside, tags = tags[:n], tags[n:]
            made += tag if tag.endswith("/>") else f"{tag}{mixed(inside)}z</g>"
            tags += inside if tag.endswith("/>") else []
        return made
    for _ in range(100):
        file = File(word(body), "a.docx")
        text = mixed(rng.sample(tags := re.findall("<[gxb][^>]*>", file.texts[0]), len(tags)))
        made = file.join([text])
        assert "".join(one for one, _ in runs(made)) == html.unescape(re.sub("<[^>]*>|\x01", "", text)), SEED
        for each in ("drawing", "br", "tab", "bookmarkStart", "bookmarkEnd", "hyperlink"):
            assert len(re.findall(f"<w:{each}[ />]", part(made))) == 1, (SEED, each)


# ---- text that a document says is in another language -------------------------------------------------

def run(text, language=None, more=""):
    properties = (f"<w:lang w:val='{language}'/>" if language else "") + more
    return f"<w:r>{f'<w:rPr>{properties}</w:rPr>' if properties else ''}<w:t xml:space='preserve'>{text}</w:t></w:r>"


def styles_of(default):
    return (f"<w:styles {W}><w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val='{default}'/></w:rPr></w:rPrDefault></w:docDefaults>"
            "<w:style w:type='character' w:styleId='Fr'><w:rPr><w:lang w:val='fr-FR'/></w:rPr></w:style>"
            "<w:style w:type='paragraph' w:styleId='En'><w:rPr><w:lang w:val='en-GB'/></w:rPr></w:style></w:styles>")


FOREIGN_RUNS = [
    run("Der Baum ") + run("ist alt.", "de-AT"), run("The tree is old.", "en-US"), run("Er rief ") + run(" Au revoir ", "fr-FR") + run("und lief."),
    run("Er rief ") + run("Adieu", more="<w:rStyle w:val='Fr'/>") + run(" und lief."), "<w:pPr><w:pStyle w:val='En'/></w:pPr>" + run("All is well."),
    "<w:pPr><w:pStyle w:val='En'/></w:pPr>" + run("Alles ist gut.", "de-DE") + run(" More."), run("Ein Satz.", "und")]


def test_word_says_another_language():
    pytest.importorskip("lxml")
    data = word("".join(f"<w:p>{one}</w:p>" for one in FOREIGN_RUNS), **{"word/styles.xml": styles_of("de-DE")})
    file = File(data, "a.docx", source="de")
    assert file.texts == ["Der Baum ist alt.", 'Er rief  <ph id="0"></ph> und lief.', 'Er rief <ph id="0"></ph> und lief.',
                          'Alles ist gut. <ph id="0"></ph>', "Ein Satz."]
    assert len(file.left) == 1 and file.left[0].startswith("a paragraph with text that is said to be in another language") and "(5)" in file.left[0]
    made = file.join([text.upper().replace("<PH ID", "<ph id").replace("</PH>", "</ph>") for text in file.texts], "nl")
    written = part(made)
    for text, language in (("The tree is old.", "en-US"), ("Au revoir", "fr-FR")):
        assert f'<w:lang w:val="{language}"/></w:rPr><w:t xml:space="preserve">{text}<' in written
    assert '<w:rStyle w:val="Fr"/></w:rPr><w:t xml:space="preserve">Adieu<' in written and "ER RIEF" in written and "BAUM" in written
    assert 'w:val="de' not in written and 'w:val="fr-FR"' in part(made, "word/styles.xml")
    # the language of the document is no reason to leave text: templates have a wrong one
    english = File(word("".join(f"<w:p>{one}</w:p>" for one in FOREIGN_RUNS), **{"word/styles.xml": styles_of("en-US")}), "a.docx", source="de")
    assert "The tree is old." in english.texts and "All is well." in english.texts and "(2)" in english.left[0]
    every = File(data, "a.docx")
    assert len(every.texts) == len(FOREIGN_RUNS) and not every.left


def test_a_language_that_most_text_is_said_to_be_in_is_translated():
    """A spelling checker set it: the document has German by default, and German text. Another part is judged for itself."""
    pytest.importorskip("lxml")
    body = "".join(f"<w:p>{one}</w:p>" for one in (run("Der Baum ist alt und groß.", "en-US"), run("Au revoir.", "fr-FR"), run("Ein Satz.")))
    notes = f"<w:p>{run('Eine Anmerkung zum Baum.')}</w:p><w:p>{run('See there.', 'en-US')}</w:p>"
    parts = {"word/styles.xml": styles_of("de-DE"), "word/footnotes.xml": f"<w:footnotes {W}><w:footnote>{notes}</w:footnote></w:footnotes>"}
    file = File(word(body, **parts), "a.docx", source="de")
    assert sorted(file.texts) == ["Der Baum ist alt und groß.", "Ein Satz.", "Eine Anmerkung zum Baum."] and "(2)" in file.left[0]


def test_an_east_asian_document_names_two_languages():
    pytest.importorskip("lxml")
    body = "<w:p><w:r><w:rPr><w:lang w:val='en-US' w:eastAsia='{}'/></w:rPr><w:t>树老了。</w:t></w:r></w:p><w:p><w:r><w:t>这本书很旧了。</w:t></w:r></w:p>"
    for language, n in (("zh-CN", 2), ("ja-JP", 1)):
        assert len(File(word(body.format(language)), "a.docx", source="zh").texts) == n


def test_slides_and_opendocument_say_another_language():
    pytest.importorskip("lxml")
    space = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    slide = f"<p:sld {space}>" + "".join(f"<a:p><a:r><a:rPr lang='{language}'/><a:t>{text}</a:t></a:r></a:p>" for language, text in (
        ("de-DE", "Ein Satz."), ("fr-FR", "Une phrase."), ("en-US", "One more."))) + "</p:sld>"
    presentation = f"<p:presentation {space}><p:defaultTextStyle><a:defPPr><a:defRPr lang='en-US'/></a:defPPr></p:defaultTextStyle></p:presentation>"
    file = File(archive({"[Content_Types].xml": "<Types/>", "ppt/a.xml": slide, "ppt/presentation.xml": presentation}), "a.pptx", source="de")
    assert file.texts == ["Ein Satz.", "One more."]
    written = part(file.join(["A sentence.", "One more."], "nl"), "ppt/a.xml")
    assert 'lang="fr-FR"/><a:t>Une phrase.' in written and 'lang="nl-NL"/><a:t>A sentence.' in written

    spaces = " ".join(f'xmlns:{name}="{ODF}{name}:1.0"' for name in ("office", "text", "style")) + f' xmlns:fo="{ODF}xsl-fo-compatible:1.0"'
    content = (f"<office:document-content {spaces}><office:automatic-styles>"
               "<style:style style:name='T1' style:family='text'><style:text-properties fo:language='fr' fo:country='FR'/></style:style>"
               "<style:style style:name='P1' style:family='paragraph'><style:text-properties fo:language='en'/></style:style>"
               "<style:style style:name='P2' style:family='paragraph' style:parent-style-name='P1'/></office:automatic-styles><office:body><office:text>"
               "<text:p>Er rief <text:span text:style-name='T1'>Au revoir</text:span> und lief.</text:p><text:p text:style-name='P1'>All is well.</text:p>"
               "<text:p text:style-name='P2'>All <text:span>is</text:span> well.</text:p><text:p>Ein Satz.</text:p></office:text></office:body></office:document-content>")
    file = File(archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content}), "a.odt", source="de_DE")
    assert file.texts == ['Er rief <g id="0"><ph id="1"></ph></g> und lief.', "Ein Satz."] and "(3)" in file.left[0]
    written = part(file.join(['He cried <g id="0"><ph id="1"></ph></g>.', "A sentence."], "nl"), "content.xml")
    assert ">Au revoir</text:span>." in written and ">All is well.<" in written and 'fo:language="fr" fo:country="FR"' in written
