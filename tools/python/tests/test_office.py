"""What office documents and books have in them: what is text for readers is translated, and what stays is counted."""

import html
import io
import re
import zipfile

import pytest

pytest.importorskip("lxml")
from test_files import ODF, W, archive, german, part, word  # noqa: E402,F401

import echo  # noqa: E402
from transformer_h import Document  # noqa: E402
from transformer_h.documents import File, FileError  # noqa: E402
from transformer_h.office_sentences import divided_at_sentences  # noqa: E402

A = ('xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
     'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"')
C = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
T = " ".join(f'xmlns:{one}="{ODF}{one}:1.0"' for one in ("office", "text", "style", "table", "presentation", "form"))


def run(text, properties=""):
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def fields(command, shown):
    return ('<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>' + command + '</w:instrText></w:r>'
            '<w:r><w:fldChar w:fldCharType="separate"/></w:r>' + shown + '<w:r><w:fldChar w:fldCharType="end"/></w:r>')


def odt(body, styles="", **parts):
    return archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": (
        f"<office:document-content {T}><office:automatic-styles>{styles}</office:automatic-styles><office:body><office:text>"
        f"{body}</office:text></office:body></office:document-content>"), **parts})


def pptx(body, **parts):
    return archive({"ppt/slides/slide1.xml": f"<p:sld {A}>{body}</p:sld>", **parts})


def texts(data, name):
    return File(data, name).texts


def test_superscript_is_no_word():
    up = '<w:vertAlign w:val="superscript"/>'
    assert texts(word(f'<w:p>{run("Der Hund")}{run("1", up)}{run(" schläft.")}</w:p>'), "a.docx") == ['Der Hund<ph id="0"></ph> schläft.']
    assert texts(word(f'<w:p>{run("Im 3")}{run("ten", up)}{run("mal.")}</w:p>'), "a.docx") == ['Im 3<g id="0">ten</g>mal.']  # inside a word
    assert texts(word(f'<w:p>{run("Alles ist hochgestellt", up)}</w:p>'), "a.docx") == ["Alles ist hochgestellt"]
    assert texts(word(f'<w:p>{run("Alles", up)}</w:p>'), "a.docx") == ["Alles"]  # of a paragraph that has nothing else
    styled = word(
        "<w:p>" + run("Hund") + run("1", '<w:rStyle w:val="Up"/>') + "</w:p>", **{
            "word/styles.xml": f'<w:styles {W}><w:style w:styleId="Up"><w:rPr>{up}</w:rPr></w:style></w:styles>'})
    assert texts(styled, "a.docx") == ['Hund<ph id="0"></ph>']
    assert texts(pptx('<a:p><a:r><a:t>20 m</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>2</a:t></a:r></a:p>'), "a.pptx") == ['20 m<ph id="0"></ph>']
    assert texts(pptx('<a:p><a:r><a:t>H</a:t></a:r><a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r></a:p>'), "a.pptx") == ['H<sub id="0">2</sub>']
    down = '<w:vertAlign w:val="subscript"/>'
    water = f'<w:p>{run("Das H")}{run("2", down)}{run("O ist ")}{run("kalt", "<w:b/>")}{run(".")}</w:p>'
    assert texts(word(water), "a.docx") == ['Das H<sub id="0">2</sub>O ist <g id="1">kalt</g>.']
    made = File(word(water), "a.docx")
    made = made.join(['The H<sub id="0">2</sub>O is <g id="1">cold</g>.'], "en")
    made = zipfile.ZipFile(io.BytesIO(made)).read("word/document.xml").decode()
    assert shown(made).strip() == "The H2O is cold." and re.findall(f'<w:rPr>{down}</w:rPr><w:t[^>]*>([^<]*)', made) == ["2"]
    for position in ("super 58%", "33% 58%"):
        style = f'<style:style style:name="S" style:family="text"><style:text-properties style:text-position="{position}"/></style:style>'
        assert texts(odt('<text:p>Garten.<text:span text:style-name="S">2</text:span> Ja.</text:p>', style), "a.odt") == ['Garten.<ph id="0"></ph> Ja.']
    for position in ("sub 58%", "-33% 58%"):
        style = f'<style:style style:name="S" style:family="text"><style:text-properties style:text-position="{position}"/></style:style>'
        data = odt('<text:p>Das H<text:span text:style-name="S">2</text:span>O ist kalt.</text:p>', style)
        assert texts(data, "a.odt") == ['Das H<sub id="0">2</sub>O ist kalt.'] and Document(texts(data, "a.odt")[0], "html").sentences == ["Das ist kalt."]
        for echoed in echo.ECHOES:
            made, _ = echo.through(data, "a.odt", echo.ECHOES[echoed])
            assert 'H<text:span text:style-name="S">2</text:span>O' in part(made, "content.xml"), echoed
    style = f'<w:styles {W}><w:style w:styleId="Down"><w:rPr>{down}</w:rPr></w:style></w:styles>'
    assert texts(word(f"""<w:p>{run("CO")}{run("2", '<w:rStyle w:val="Down"/>')}{run(" ist da.")}</w:p>""", **{"word/styles.xml": style}),
                 "a.docx") == ['CO<sub id="0">2</sub> ist da.']


def test_each_sentence_has_its_part_of_a_format():
    """A format over the end of a sentence covers its own words in both sentences, in whatever order they are."""
    span = '<text:span text:style-name="B">{}</text:span>'.format
    made, _ = echo.through(odt(f"<text:p>Das ist {span('ein Haus. Der Hund')} ist da.</text:p>"), "a.odt", echo.ECHOES["reversed"])
    assert f"<text:p>{span('Haus. ein ')}ist Das da. ist {span('Hund Der')}</text:p>" in part(made, "content.xml")
    data = word(f'<w:p>{run("Das ist ")}{run("ein Haus. Der Hund", "<w:b/>")}{run(" ist heute wieder da.")}</w:p>')
    assert texts(data, "a.docx") == ['Das ist <g id="0">ein Haus. </g><g id="0">Der Hund</g> ist heute wieder da.']
    made, _ = echo.through(data, "a.docx", echo.ECHOES["reversed"])
    assert list(echo.differences(data, made, "a.docx", "reversed")) == []
    link = word(f'<w:p>{run("Das ist ")}<w:hyperlink w:anchor="a">{run("ein Haus. Der Hund")}</w:hyperlink>{run(" ist heute wieder da.")}</w:p>')
    file = File(link, "a.docx")
    made = part(file.join(['It is <g id="0"> </g>a house. <g id="0">The dog</g> is here.']))
    assert re.findall('<w:hyperlink w:anchor="a">(.*?)</w:hyperlink>', made)[1] == '<w:r><w:t xml:space="preserve">The dog</w:t></w:r>' and not file.left
    # what has a number of its own is not divided
    insertion = word(f'<w:p>{run("Das ist ")}<w:ins w:id="1">{run("ein Haus. Der Hund")}</w:ins>{run(" ist heute wieder da.")}</w:p>')
    assert texts(insertion, "a.docx") == ['Das ist <g id="0">ein Haus. Der Hund</g> ist heute wieder da.']


@pytest.mark.parametrize("text, divided", [
    ("Ein Haus. <b>Ein Hund.</b> Ja.", None), ("<b>Ein Haus.</b> <b>Ein Hund.</b>", None), ("Ein <b>Haus</b>. Ein Hund.", None),
    ("<b>Ein <i>Haus &amp; Hof. Und</i> ein</b> Hund.", "<b>Ein <i>Haus &amp; Hof. </i></b><b><i>Und</i> ein</b> Hund."),
    ("<b>Ein Haus. <i>Und</i> ein</b> Hund.", "<b>Ein Haus. </b><b><i>Und</i> ein</b> Hund."),
    ("<b>Ein Haus.<br/>Ein</b> Hund.", "<b>Ein Haus.</b><br/><b>Ein</b> Hund."), ("Ein Haus.<b> Ein Hund.</b>", None),
    ("<b>Ja. <ph/><br/><x/><br/><ph/> Ein</b> Hund.", "<b>Ja. <ph/></b><br/><x/><br/><b><ph/> Ein</b> Hund."),
    ("<b>Es ist groß. Ein Haus. Ein</b> Hund.", "<b>Es ist groß. </b><b>Ein Haus. </b><b>Ein</b> Hund."), ("<b>家。犬。</b>", "<b>家。</b><b>犬。</b>")])
def test_where_formats_are_divided(text, divided):
    """b and i are formats with the numbers 0 and 1."""
    def numbered(some):
        for old, new in (("<b>", '<g id="0">'), ("<i>", '<g id="1">'), ("</b>", "</g>"), ("</i>", "</g>"), ("<br/>", '<br id="2"/>'), ("<x/>", '<x id="3"/>'),
                         ("<ph/>", '<ph id="4"></ph>')):
            some = some.replace(old, new)
        return some
    assert divided_at_sentences(numbered(text), lambda number: True) == numbered(divided or text)
    assert divided_at_sentences(numbered(text), lambda number: False) == numbered(text)


def test_many_formats_around_many_sentences_are_divided_in_part():
    text = "".join(f'<g id="{i}">' for i in range(300)) + "Haus. " * 3000 + "</g>" * 300
    assert len(divided_at_sentences(text, lambda number: True)) <= 2 * len(text)


def test_files_of_macos_are_no_parts():
    """An archive that macOS made has a file of resources beside each file."""
    resources = b"\0\5\x16\7\0\2\0\0Mac OS X"
    for data, name, real in (
            (odt("<text:p>Tag</text:p>", **{"__MACOSX/._content.xml": resources, "._content.xml": resources, "a/._meta.xml": resources}), "a.odt", "content.xml"),
            (word(f"<w:p>{run('Tag')}</w:p>", **{"word/._document.xml": resources, "__MACOSX/word/._document.xml": resources}), "a.docx", "word/document.xml"),
            (pptx("<a:p><a:r><a:t>Tag</a:t></a:r></a:p>", **{"ppt/slides/._slide1.xml": resources}), "a.pptx", "ppt/slides/slide1.xml"),
            (archive({"mimetype": "application/epub+zip", "a.xhtml": "<p>Tag", "__MACOSX/OPS/._fb.ncx": resources, "__MACOSX/._a.opf": resources}), "a.epub", "a.xhtml")):
        made, _ = echo.through(data, name, echo.ECHOES["capitals"])
        assert "TAG" in part(made, real), name
        with zipfile.ZipFile(io.BytesIO(made)) as opened:
            assert all(opened.read(one) == resources for one in opened.namelist() if "/._" in f"/{one}"), name


def test_soft_hyphens_leave():
    for data, name in ((word("<w:p>" + run("Gar\u00adten") + "</w:p>"), "a.docx"), (odt("<text:p>Gar\u00adten</text:p>"), "a.odt"),
                       (pptx("<a:p><a:r><a:t>Gar\u00adten</a:t></a:r></a:p>"), "a.pptx")):
        assert texts(data, name) == ["Garten"]


def test_readings_of_ruby_leave():
    ruby = f'<w:r><w:ruby><w:rubyPr/><w:rt>{run("dong")}</w:rt><w:rubyBase>{run("东")}</w:rubyBase></w:ruby></w:r>'
    data = word(f"<w:p>{ruby}{run('京')}</w:p>")
    assert texts(data, "a.docx") == ["东京"] and "dong" not in part(File(data, "a.docx").join(["Tokyo"]))
    data = odt("<text:p><text:ruby><text:ruby-base>东</text:ruby-base><text:ruby-text>dong</text:ruby-text></text:ruby>京</text:p>")
    assert texts(data, "a.odt") == ["东京"]


def test_pairs_with_names_are_pairs():
    """Bookmarks of Word have a name at their first end only."""
    mark = '<w:bookmarkStart w:id="1" w:name="x"/>{}<w:bookmarkEnd w:id="1"/>'
    assert texts(word("<w:p>" + mark.format(run("Hund")) + run(" da") + "</w:p>"), "a.docx") == ['<g id="0">Hund</g> da']
    assert texts(word("<w:p>" + run("Hund") + mark.format("") + "</w:p>"), "a.docx") == ['Hund<g id="0"></g>']


def test_spaces_in_elements_of_their_own():
    assert texts(odt('<text:p>Der<text:span text:style-name="B"> </text:span>Hund</text:p>'), "a.odt") == ['Der<g id="0"> </g>Hund']
    assert texts(odt("<text:p>Der\n   Hund</text:p>"), "a.odt") == ["Der Hund"]
    assert texts(odt('<text:p>Name:<text:s text:c="9"/>Ort</text:p>'), "a.odt") == ['Name:<br id="0"/>Ort']
    made = "".join(part(File(odt(f"<text:p>{lead}Hund</text:p>"), "a.odt").join([f"{lead}dog"]), "content.xml") for lead in ("\n  ", " " * 9))
    assert made.count("<text:p>dog</text:p>") == 2  # white space at the begin means nothing


def test_results_of_fields():
    """Text is translated. Numbers and dates stay, and dates are counted, because they have words. What a field repeats from another
    place is a text of its own: in the sentence the model could give its words another place."""
    alone, inside = 'Siehe <ph id="0"></ph>.', 'Siehe <g id="0">Das Haus</g>.'
    for command, shown, expected, left in (
            ("REF a", "Das Haus", [alone, "Das Haus"], []), (" STYLEREF 1 ", "Das Haus", [alone, "Das Haus"], []),
            ("FORMDROPDOWN", "Das Haus", [alone, "Das Haus"], []), ("HYPERLINK a", "Das Haus", [inside], []),
            ("REF a", "Bild 7", [alone, 'Bild <ph id="1"></ph>'], []), ("PAGEREF a \\p", "oben", [alone, "oben"], []),
            ("PAGEREF a", "xii", [alone], ["a result of a field that has text"]),
            ("REF a", "7", [alone], []), ("PAGE", "7", [alone], []),
            ("DATE", "7. März", [alone], ["a result of a field that has text"])):
        for field in (fields(command, run(shown)), f'<w:fldSimple w:instr="{command}">{run(shown)}</w:fldSimple>'):
            file = File(word(f"<w:p>{run('Siehe ')}{field}{run('.')}</w:p>"), "a.docx")
            assert (file.texts, file.left) == (expected, left), (command, field)
    file = File(word(f"<w:p>{run('Ja')}{fields('XE a', '')}{run('.')}</w:p>"), "a.docx")  # of an index: nothing is shown
    assert file.texts == ['Ja<x id="0"/>.']
    for field in ("bookmark-ref", "reference-ref", "sequence-ref", "chapter", "title"):
        file = File(odt(f'<text:p>Siehe <text:{field}>Bild 7</text:{field}>.</text:p>'), "a.odt")
        assert file.texts == [alone, 'Bild <ph id="1"></ph>']
        made = part(file.join(['See <ph id="0"></ph>.', 'Figure <ph id="1"></ph>']), "content.xml")
        assert f"<text:p>See <text:{field}>Figure 7</text:{field}>.</text:p>" in made
    file = File(word(f'<w:p>{run("Es ist ")}<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:r><m:t>wenn</m:t></m:r></m:oMath></w:p>'), "a.docx")
    assert file.left == ["text in a formula"]


def letters(data):
    return re.sub("<w:instrText.*?</w:instrText>|<[^>]*>", "", part(data)).strip()


def test_results_keep_their_place(german):
    """A result is never empty, has no other words, and is the same as the place that it repeats."""
    see = "".join(f"<w:p>{run(before)}{fields('REF a', run(shown))}{run(behind)}</w:p>" for before, shown, behind in (
        ("Lesen Sie zuerst „", "Das Haus und der Garten", "“."), ("Der Hund schläft (siehe ", "Abbildung 3", ")."),
        ("Siehe ", "Das Haus und der Garten", " und die Katze.")))
    file = File(word(f"<w:p>{run('Das Haus und der Garten')}</w:p>{see}<w:p>{run('Abbildung ')}{fields('SEQ Abbildung', run('3'))}{run(': Die Katze schläft.')}</w:p>"), "a.docx")
    made = part(file.join(german.translate_document(file.texts, "html")))
    heading = german.translate("Das Haus und der Garten").rstrip(".")
    results = re.findall(r'"separate"/></w:r>(.*?)<w:r><w:fldChar w:fldCharType="end"', made)
    results = [re.sub("<[^>]*>", "", one) for one in results]
    caption = re.sub("<[^>]*>", "", re.sub("<w:instrText.*?</w:instrText>", "", made.split("<w:p>")[-1]))
    assert results[0] == results[2] == heading and results[1].endswith(" 3") and results[3] == "3"
    assert caption.startswith(results[1] + ": ") and caption.endswith(german.translate("Die Katze schläft."))


def test_labels_of_captions():
    """"Figure 3" in front of a colon or a full stop is a text of its own. A number at another place is a part of its sentence."""
    number = fields("SEQ Bild", run("3"))
    mark = '<w:bookmarkStart w:id="1" w:name="x"/>{}<w:bookmarkEnd w:id="1"/>'
    for caption, expected in (
            (run("Bild ") + number + run(": Der Hund"), ['<ph id="0"></ph>: Der Hund', 'Bild <ph id="1"></ph>']),
            (mark.format(run("Bild ") + number) + run(". Der Hund"), ['<ph id="0"></ph>. Der Hund', '<g id="1">Bild <ph id="2"></ph></g>']),
            (mark.format(run("Bild ") + number + run(": Der Hund")), ['<g id="0"><ph id="1"></ph>: Der Hund</g>', 'Bild <ph id="2"></ph>']),
            (run("Siehe Bild: ") + number + run(": Der Hund"), ['Siehe Bild: <ph id="0"></ph>: Der Hund']),
            (run("Bild ") + number + run(" zeigt ihn: Ja"), ['Bild <ph id="0"></ph> zeigt ihn: Ja']), (run("Bild ") + number, ['Bild <ph id="0"></ph>'])):
        file = File(word(f"<w:p>{caption}</w:p>"), "a.docx")
        assert file.texts == expected
    file = File(word(f"<w:p>{run('Bild ')}{number}{run(': Der Hund')}</w:p>"), "a.docx")
    assert letters(file.join(['<ph id="0"></ph>: The dog', 'Figure. <ph id="1"></ph>'])) == "Figure 3: The dog"  # a label is no sentence
    file = File(odt("<text:p>Bild <text:sequence>3</text:sequence>: Der Hund</text:p>"), "a.odt")
    assert file.texts == ['<ph id="0"></ph>: Der Hund', 'Bild <ph id="1"></ph>']


@pytest.mark.parametrize("xml, expected", [
    ('<w:hyperlink w:tooltip="Das Haus"/>', "Das Haus"), ('<w:listItem w:displayText="Das Haus" w:value="1"/>', "Das Haus"),
    ('<w:lvlText w:val="Kapitel %1"/>', "Kapitel %1"), ('<w:lvlText w:val="o"/>', None), ('<w:tblCaption w:val="Das Haus"/>', "Das Haus"),
    ('<v:textpath xmlns:v="urn:schemas-microsoft-com:vml" string="ENTWURF"/>', "ENTWURF"), ('<w:lvlText w:val="%1.%2"/>', None),
    ('<v:shape xmlns:v="urn:schemas-microsoft-com:vml" alt="Das Haus"/>', "Das Haus")])
def test_attributes_with_text(xml, expected):
    file = File(word(f"<w:p>{run('7')}</w:p>{xml}"), "a.docx")
    assert file.texts == ([expected] if expected else [])
    if expected:
        assert "XY" in part(file.join(["XY"]))


def test_charts_are_translated():
    chart = (f'<c:chart {C}><c:cat><c:strRef><c:f>Sheet1!A1</c:f><c:strCache><c:pt><c:v>Der Norden</c:v></c:pt></c:strCache></c:strRef></c:cat>'
             '<c:cat><c:multiLvlStrRef><c:multiLvlStrCache><c:lvl><c:pt><c:v>Der Hund</c:v></c:pt></c:lvl></c:multiLvlStrCache></c:multiLvlStrRef></c:cat>'
             '<c:val><c:numRef><c:numCache><c:formatCode>General</c:formatCode><c:pt><c:v>NaN</c:v></c:pt></c:numCache></c:numRef></c:val></c:chart>')
    file = File(word("", **{"word/charts/chart1.xml": chart}), "a.docx")
    assert file.texts == ["Der Norden", "Der Hund"] and file.left == [
        "the table behind a chart, whose names come back when it is edited"]
    made = part(file.join(["A", "B"]), "word/charts/chart1.xml")
    assert "<c:v>A</c:v>" in made and "<c:v>B</c:v>" in made and "<c:v>NaN</c:v>" in made and "Sheet1!A1" in made


def test_other_parts_of_opendocument():
    body = ('<presentation:footer-decl>Das Haus</presentation:footer-decl><table:table><table:title>Die Katze</table:title></table:table>'
            '<form:button form:label="Der Hund"/><text:list-level-style-number style:num-prefix="Kapitel " style:num-suffix=")"/>')
    assert sorted(texts(odt(body), "a.odt")) == ["Das Haus", "Der Hund", "Die Katze", "Kapitel "]


def book(pages, manifest, **more):
    container = '<container><rootfiles><rootfile full-path="OPS/a.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    return archive([("mimetype", "application/epub+zip"), ("META-INF/container.xml", container),
                    ("OPS/a.opf", f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{manifest}</manifest></package>'),
                    *((f"OPS/{name}", f"<html><body><p>{text}</p></body></html>") for name, text in pages.items())])


def test_the_manifest_names_the_pages_of_a_book():
    item = "<item id='a' href='{}' media-type='{}'/>".format
    pages = {"c1.xml": "Eins", "c 2.xht": "Zwei", "c3": "Drei", "sub/c4.bin": "Vier", "data.xml": "Nein", "c5.html": "Fünf"}
    data = book(pages, item("c1.xml", "application/xhtml+xml") + item("c%202.xht", "application/xhtml+xml") + item("./c3", "text/html")
                + '<item media-type="application/x-dtbook+xml" href="sub/../sub/c4.bin" id="x"/>' + item("data.xml", "application/xml"))
    file = File(data, "a.epub")
    assert sorted(re.sub("<[^>]*>", "", text) for text in file.texts) == ["Drei", "Eins", "Fünf", "Vier", "Zwei"]
    made = file.join([text.replace("Eins", "One") for text in file.texts])
    assert "One" in part(made, "OPS/c1.xml") and "Nein" in part(made, "OPS/data.xml")
    file = File(book({"c.xml": "<text>Eins</text>"}, item("c.xml", "image/svg+xml")), "a.epub")
    assert file.texts == [] and file.left == ["text in a drawing (SVG)"]


def test_folders_with_a_slash_in_front():
    """appy makes them; no program takes them out of the archive."""
    data = archive([("/Configurations2/", ""), ("content.xml", f"<text:p {T}>Haus</text:p>")])
    assert texts(data, "a.odt") == ["Haus"]
    with pytest.raises(FileError, match="leads out"):
        File(archive([("/Configurations2/../../", ""), ("content.xml", f"<text:p {T}>Haus</text:p>")]), "a.odt")


def test_lines_of_a_description():
    data = archive({"docProps/core.xml": '<a xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description>Das Haus.\n\n Der Hund</dc:description></a>'})
    file = File(data, "a.docx")
    assert file.texts == ['Das Haus.<br id="0"/>Der Hund'] and ">A\n\n B<" in part(file.join(['A<br id="0"/>B']), "docProps/core.xml")


def echoed(data, name):
    """The main part of a document in capitals."""
    made, file = echo.through(data, name, echo.ECHOES["capitals"], rewrite=False)
    xml = part(made, {".docx": "word/document.xml", ".pptx": "ppt/slides/slide1.xml"}.get(file.suffix, "content.xml"))
    return xml.partition("?>")[2].strip() if xml.startswith("<?xml") else xml


def shown(xml):
    return html.unescape(re.sub("<[^>]*>", "", xml.replace('<text:s text:c="1"/>', " ")))


@pytest.mark.parametrize("pieces", [
    ("{{na", "me}}"), ("{%", "if x", "%}"), ("{{", " a|upper ", "}}"), ("${", "name}"), ("<%= ", "x %>"), ("%(na", "me)s"), ("{na", "me}"),
    ("{{a}} und {{", "b}}"), ("{", "{", "name", "}", "}"), ("{# Note ", "hier #}"), ("{{a", "b}}{{c", "d}}")])
def test_placeholders_that_formats_divide_are_copied(pieces):
    """Word divides a template's names where somebody typed twice, and colors their signs."""
    kept = [html.escape(one, quote=False) for one in pieces]
    runs = "".join(run(one, "<w:b/>" if i % 2 else "") for i, one in enumerate(kept))
    made = echoed(word(f"<w:p>{run('Der ')}{runs}{run(' schläft')}</w:p>"), "a.docx")
    expected = "DER " + "".join(pieces).replace(" und ", " UND ") + " SCHLÄFT"
    assert (shown(made), made.count("<w:b/>")) == (expected, len(pieces) // 2)
    spans = "".join(f'<text:span text:style-name="B">{one}</text:span>' if i % 2 else one for i, one in enumerate(kept))
    made = echoed(odt(f"<text:p>Der {spans} schläft</text:p>"), "a.odt")
    assert shown(made) == expected and made.count('"B"') >= len(pieces) // 2
    slides = "".join(f'<a:r><a:rPr b="{i % 2}"/><a:t>{one}</a:t></a:r>' for i, one in enumerate(["Der ", *kept, " schläft"], 1))
    assert shown(echoed(pptx(f"<a:p>{slides}</a:p>"), "a.pptx")) == expected


def test_what_is_beside_a_divided_placeholder_is_translated():
    mark = '<w:bookmarkStart w:id="1" w:name="_GoBack"/><w:bookmarkEnd w:id="1"/>'
    for before, after in (("Haus {{na", "me}} Hund"), ("Haus", " Hund"), ("{ ", "Haus und } Hund"), ("{{ Haus", "Hund")):
        made = echoed(word(f'<w:p>{run(before)}{mark}{run(after, "<w:b/>")}</w:p>'), "a.docx")
        assert shown(made) == (before + after).upper().replace("NAME", "name") and made.count("w:bookmark") == 2
    made = echoed(odt('<text:p>Das {{na<text:span text:style-name="B">me}} Haus</text:span> da</text:p>'), "a.odt")
    assert shown(made) == "DAS {{name}} HAUS DA" and '<text:span text:style-name="B">me}}</text:span>' in made
    assert '<text:span text:style-name="B">HAUS</text:span>' in made.replace('<text:s text:c="1"/>HAUS', "HAUS")
    link = '<w:p>{}<w:hyperlink w:anchor="a">{}</w:hyperlink>{}</w:p>'.format(run("Das {{"), run("name"), run("}} Haus"))
    made = echoed(word(link), "a.docx")
    assert shown(made) == "DAS {{name}} HAUS" and made.count("<w:hyperlink") == 1
    note = f'<w:p>{run("Das {{")}<w:r><w:footnoteReference w:id="1"/></w:r>{run("name}} Haus")}</w:p>'
    assert echoed(word(note), "a.docx").count("footnoteReference") == 1


def test_bookmarks_that_end_in_another_paragraph_keep_their_place():
    begin, end = '<w:bookmarkStart w:id="1" w:name="x"/>', '<w:bookmarkEnd w:id="1"/>'

    def marks(paragraph):
        return re.sub(r"</?w:[rtp]( [^<>]*)?>", "", re.search("<w:p>(.*?)</w:p>", echoed(word(paragraph), "a.docx"))[1])
    for where in ("{}Der Hund", "Der Hund{}", "Der {}Hund", "Der{} Hund", "Der Hund {}", "Der Hund.{} Ja."):
        for one in (begin, end):
            assert marks("<w:p>" + one.join(map(run, where.split("{}"))) + "</w:p><w:p/>") == where.upper().format(one), (where, one)
    # over each other: a first end is never behind its last end
    first, last = '<w:bookmarkStart w:id="{0}" w:name="b{0}"/>', '<w:bookmarkEnd w:id="{0}"/>'
    over = f'<w:p>{first.format(1)}{run("Der ")}{first.format(2)}{run("Hund")}{last.format(1)}{run(" schläft")}{last.format(2)}</w:p>'
    found = marks(over)
    assert re.sub(r"<w:bookmark(\w)\w+ w:id=\"(\d)\"[^>]*>", r"\1\2", found) == "S1DER S2HUNDE1 SCHLÄFTE2", found


def test_a_first_end_stands_before_its_last_end():
    first, last = '<w:commentRangeStart w:id="{0}"/>', '<w:commentRangeEnd w:id="{0}"/>'
    over = (f'<w:p>{run("Der ")}{first.format(1)}{run("alte ")}{first.format(2)}{run("Hund ")}{last.format(1)}{run("schläft ")}{last.format(2)}'
            f'{run("heute")}</w:p>')
    made, _ = echo.through(word(over), "a.docx", echo.ECHOES["reversed"])
    made = part(made, "word/document.xml")
    for one in "12":
        assert 0 < made.index(first.format(one)) < made.index(last.format(one))


def test_elements_that_are_no_formats_are_not_joined():
    field = '<text:placeholder text:placeholder-type="text">&lt;{}&gt;</text:placeholder>'
    made = echoed(odt(f"<text:p>Lieber {field.format('Titel')}{field.format('Name')}!</text:p>"), "a.odt")
    assert made.count("<text:placeholder") == 2 and shown(made) == "LIEBER <TITEL><NAME>!"
    made = echoed(odt('<text:p>Das <text:text-input>Haus</text:text-input><text:text-input>Nord</text:text-input></text:p>'), "a.odt")
    assert made.count("<text:text-input") == 2
    made = echoed(word(f'<w:p><w:ins w:id="1">{run("Haus")}</w:ins><w:ins w:id="1">{run("Nord")}</w:ins></w:p>'), "a.docx")
    assert made.count("<w:ins ") == 2
    two = '<text:a xlink:href="u" xmlns:xlink="x">Ha</text:a><text:a xlink:href="u" xmlns:xlink="x">us</text:a>'
    assert texts(odt(f"<text:p>{two} da</text:p>"), "a.odt") == ['<g id="0">Haus</g> da']


def test_kinds_of_text_in_one_document():
    """Each text for readers is translated once, and what stands beside it is still there once."""
    del_ = '<w:del w:id="9"><w:r><w:delText>WEG </w:delText></w:r></w:del>'
    math = f'<m:oMath xmlns:m="{W[9:-1].replace("wordprocessingml", "officeDocument").replace("/main", "/math")}"><m:r><m:t>x+y</m:t></m:r></m:oMath>'
    box = ('<w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice><w:txbxContent><w:p>{0}</w:p></w:txbxContent>'
           '</mc:Choice><mc:Fallback><w:pict><w:txbxContent><w:p>{0}</w:p></w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r>')
    for body, expected in (
            (f'{run("der hund ")}{del_}<w:ins w:id="1">{run("heute ")}</w:ins>{run("da")}', "DER HUND WEG HEUTE DA"),
            (f'{run("der hund")}<w:r><w:footnoteReference w:id="2"/></w:r>{run(" und")}{fields("PAGE", run("7"))}{run(" ja")}', "DER HUND UNDPAGE7 JA"),
            (f'{run("wenn ")}{math}{run(" gilt")}', "WENN x+y GILT"),
            (f'{run("vor ")}{box.format(run("im kasten"))}{run(" nach")}', "VOR IM KASTENIM KASTEN NACH"),
            (f'<w:r><w:rPr><w:rtl/></w:rPr><w:t xml:space="preserve">שלום </w:t></w:r><w:bdo w:val="rtl">{run("עולם")}</w:bdo>{run(" gut", "<w:vanish/>")}', "שלום עולם GUT"),
            (f'<w:smartTag w:element="p">{run("köln")}</w:smartTag>{run(" am rhein")}<w:r><w:sym w:font="Wingdings" w:char="F0E0"/></w:r>', "KÖLN AM RHEIN"),
            (f'{fields("IF 1 = 1", run("der hund"))}{run(" da")}', "IF 1 = 1DER HUND DA"),
            (f'{fields("REF a", run("siehe ") + fields("PAGEREF b", run("12")))}{run(" da")}', "REF aSIEHE PAGEREF b12 DA"),
            (f'<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{run("bitte wählen")}</w:sdtContent></w:sdt>', "BITTE WÄHLEN")):
        made = echoed(word(f"<w:p>{body}</w:p>"), "a.docx")
        assert shown(made) == expected
        for element in ("footnoteReference", "fldChar", "w:sym", "w:vanish", "w:bdo", "smartTag", "delText", "txbxContent"):
            assert made.count(element) == body.count(element), element


def drop_cap(letters, rest):
    """Word keeps the large first letter of a paragraph in a paragraph of its own in front of it."""
    return f'<w:p><w:pPr><w:framePr w:dropCap="drop" w:lines="3"/></w:pPr>{run(letters, "<w:b/>")}</w:p>{rest}'


@pytest.mark.parametrize("letters, rest, text, translation, expected", [
    ("D", run("as Kind schläft."), "Das Kind schläft.", "The child sleeps.", ["T", "he child sleeps."]),
    ("E", run("in Kind"), "Ein Kind", "A child", ["A", " child"]), ("„D", run("as da“"), "„Das da“", "“That there”", ["“T", "hat there”"]),
    ("Ein", run(" Kind"), "Ein Kind", "A child", ["A", " child"]), ("Das", run(" Kind"), "Das Kind", "The child", ["The", " child"]),
    ("D", run("as", "<w:i/>") + run(" Kind da"), '<g id="0">Das</g> Kind da', '<g id="0">The</g> child there', ["T", "he child there"]),
    ("D", f"<w:hyperlink>{run('as')}</w:hyperlink>{run(' Kind')}", '<g id="0">Das</g> Kind', 'I, <g id="0">child</g>', ["I", ", child"]),
    ("D", f"<w:r><w:footnoteReference/></w:r>{run('as Kind')}", '<x id="0"/>Das Kind', '<x id="0"/>"<ph/>', ["", '"']),
    ("D", run("as Kind"), "Das Kind", "ก่อน", ["ก่", "อน"]), ("D", run("as Kind"), "Das Kind", "Das Kind", ["D", "as Kind"])])
def test_large_first_letters(letters, rest, text, translation, expected):
    """A large first letter is a part of its word, and the translation gets one again."""
    for marks in ("", '<w:bookmarkStart w:id="1" w:name="x"/><w:bookmarkEnd w:id="1"/>'):
        file = File(word(drop_cap(letters, f"{marks}<w:p>{rest}</w:p>")), "a.docx")
        assert file.texts == [text]
        made = part(file.join([translation.replace("<ph/>", "")], "en"))
        assert [shown(one) for one in re.findall(r"<w:p>.*?</w:p>", made)] == expected
        assert made.count("<w:framePr") == made.count("<w:b/>") == 1


def test_frames_that_are_no_large_first_letter():
    """What has other text, or no paragraph to belong to, is translated as it is."""
    for body, expected in ((drop_cap("D", ""), ["D"]), (drop_cap("D", "<w:p/>"), ["D"]), (drop_cap("D", f"<w:tbl><w:p>{run('as')}</w:p></w:tbl>"), ["D", "as"]),
                           (drop_cap("Der Hund.", f"<w:p>{run('Ja.')}</w:p>"), ["Der Hund.", "Ja."]),
                           (drop_cap("D", f"<w:p>{run('as')}</w:p>").replace("w:dropCap", "w:wrap"), ["D", "as"]),
                           (drop_cap("D", f"<w:p><w:r><w:txbxContent><w:p>{run('im Kasten')}</w:p></w:txbxContent></w:r>{run('as')}</w:p>"), ['<x id="0"/>Das', "im Kasten"])):
        assert texts(word(body), "a.docx") == expected


def test_kinds_of_text_in_one_opendocument():
    note = '<text:note text:id="n1"><text:note-citation>1</text:note-citation><text:note-body><text:p>die note</text:p></text:note-body></text:note>'
    comment = '<office:annotation office:name="c"><text:p>ein kommentar</text:p></office:annotation>{}<office:annotation-end office:name="c"/>'
    for body, expected in (
            (f"der hund{note} da", "DER HUND1DIE NOTE DA"), (f"der {comment.format('hund')} da", "DER EIN KOMMENTARHUND DA"),
            ("seite <text:page-number>7</text:page-number> von <text:page-count>9</text:page-count> da", "SEITE 7 VON 9 DA"),
            ('<text:conditional-text text:string-value-if-true="x">wahr</text:conditional-text> da', "wahr DA"),
            ("eins<text:tab/>zwei<text:line-break/>drei", "EINSZWEIDREI"), ("ein<text:soft-page-break/> wort", "EIN WORT"),
            ('<text:meta xml:id="a">der <text:span text:style-name="B">rote</text:span></text:meta> hund', "DER ROTE HUND"),
            ('<text:change-start text:change-id="1"/>neu<text:change-end text:change-id="1"/> und alt', "NEU UND ALT")):
        data = odt(f"<text:p>{body}</text:p>")
        made = echoed(data, "a.odt")
        assert shown(made) == expected, made
        for element in ("text:note ", "annotation", "text:tab", "line-break", "change-start", "text:meta", "page-number"):
            assert made.count(element) == body.count(element), element


def test_kinds_of_parts():
    """Notes, masters, diagrams and charts of slides; a book's navigation and its pages, with encrypted fonts."""
    para = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>".format
    names = ["ppt/slides/slide1.xml", "ppt/notesSlides/notesSlide1.xml", "ppt/slideMasters/slideMaster1.xml", "ppt/slideLayouts/slideLayout1.xml",
             "ppt/diagrams/data1.xml", "ppt/diagrams/drawing1.xml", "ppt/notesMasters/notesMaster1.xml", "ppt/charts/chart1.xml"]
    data = archive({name: f"<p:sld {A}>{para(f'text {i}')}</p:sld>" for i, name in enumerate(names)})
    made, _ = echo.through(data, "a.pptx", echo.ECHOES["capitals"])
    assert [shown(part(made, name)).strip()[-6:] for name in names] == [f"TEXT {i}" for i in range(len(names))]
    item = '<item id="{0}" href="{0}" media-type="{1}"/>'.format
    pages = {"c1.xhtml": 'der hund<a href="#n"><sup>1</sup></a> da', "nav.xhtml": "das kapitel", "alt.xhtml": "als ersatz"}
    manifest = "".join(item(name, "application/xhtml+xml") for name in pages) + item("toc.ncx", "application/x-dtbncx+xml") + item("f.otf", "font/otf")
    made = book(pages, manifest)
    more = {"OPS/toc.ncx": '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navLabel><text>das kapitel</text></navLabel></ncx>', "OPS/f.otf": "otf",
            "META-INF/encryption.xml": '<e:EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/><e:CipherData/>'}
    with zipfile.ZipFile(io.BytesIO(made)) as opened:
        whole = archive([*((name, opened.read(name).decode()) for name in opened.namelist()), *more.items()])
    made, _ = echo.through(whole, "a.epub", echo.ECHOES["capitals"])
    assert [shown(part(made, f"OPS/{name}")).strip() for name in (*pages, "toc.ncx", "f.otf")] == [
        "DER HUND1 DA", "DAS KAPITEL", "ALS ERSATZ", "DAS KAPITEL", "otf"]


def test_deleted_text_stays_beside_what_replaces_it():
    """A reader who rejects the changes gets no words without spaces between them."""
    deleted = '<w:del w:id="1"><w:r><w:delText>alte</w:delText></w:r></w:del>'
    for change in (deleted + f'<w:ins w:id="2">{run("neue")}</w:ins>', f'<w:ins w:id="2">{run("neue")}</w:ins>' + deleted):
        file = File(word(f'<w:p>{run("Das ")}{change}{run(" Haus")}</w:p>'), "a.docx")
        assert file.texts == ['Das <g id="0"><g id="1">neue</g></g> Haus']
        made = part(file.join(['<g id="0"><g id="1">New</g></g> the house']))
        assert re.sub("<[^>]*>", "", made).strip() in ("alteNew the house", "Newalte the house") and made.count("<w:del ") == 1


def test_lost_formats_are_named():
    """A format, a link or an insertion that has words in the source has words in the translation, or it is named."""
    link = f'<w:hyperlink w:anchor="a">{run("rote")}</w:hyperlink>'
    for piece, made, left in (
            (run("rote", "<w:b/>"), ["The dog"], ["a format that has no words in the translation"]),
            (run("rote", "<w:b/>"), ['The <g id="0">red</g> dog'], []), (link, ['The <g id="0"></g> dog'], ["a link that has no words in the translation"]),
            (link, ['The <g id="0">red</g> dog'], []), (run("rote", "<w:b/>"), ['<g id="0">The red dog</g>'], ["a format that has no words in the translation"]),
            (f'<w:ins w:id="1">{run("rote")}</w:ins>', ['The dog<g id="0"></g>'], ["a tracked insertion that has no words in the translation"])):
        file = File(word(f'<w:p>{run("Der ")}{piece}{run(" Hund")}</w:p>'), "a.docx")
        file.join(made)
        assert file.left == left, (piece, made)
    file = File(odt('<text:p>Der <text:span text:style-name="B">rote</text:span> Hund</text:p>'), "a.odt")
    file.join(['The <g id="0"></g>dog'])
    assert file.left == ["a format that has no words in the translation"]


def test_a_space_of_its_own_divides_no_format():
    """Word makes a run of each no-break space. Its neighbours with the same format stay one element."""
    link = '<w:rStyle w:val="Xref"/>'
    data = word(f'<w:p>{run("Siehe ")}{run("Kapitel", link)}{run(chr(160), link)}{run("3", link)}{run(" ", link)}{run("und dann mehr.")}</w:p>')
    assert texts(data, "a.docx") == ['Siehe <g id="0">Kapitel\xa03</g> und dann mehr.']
    data = word(f'<w:p>{run("Siehe ")}{run("Kapitel", link)}{run(chr(160))}{run("3", link)}{run(" und dann mehr.")}</w:p>')
    assert texts(data, "a.docx") == ['Siehe <g id="0">Kapitel</g>\xa0<g id="1">3</g> und dann mehr.']
