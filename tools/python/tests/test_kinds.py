"""What a file is: its name, its first bytes, and the format that a user gives."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lxml")
from test_files import GERMAN, W, archive, word  # noqa: E402

from transformer_h import Document, Model, translate_file  # noqa: E402
from transformer_h.documents import File, FileError  # noqa: E402

PAGE, FILM, WEB = b"<!DOCTYPE html>\n<p>Guten Tag.", b"1\n00:00:01,000 --> 00:00:02,000\nGuten Tag.\n", b"WEBVTT\n\n00:01.000 --> 00:02.000\nGuten Tag.\n"
LETTER = word(f"<w:p {W}><w:r><w:t>Guten Tag.</w:t></w:r></w:p>")
TEXT = archive({"mimetype": "application/vnd.oasis.opendocument.text-template", "content.xml": "<a/>"})
BOOK = archive({"mimetype": "application/epub+zip", "a.xhtml": "<p>Guten Tag."})
SUB, MPL, SAMI = b"{1}{25}Guten Tag.\n", b"[1][25]Guten Tag.\n", b"<SAMI><BODY><SYNC Start=0><P>Guten Tag.</SAMI>\n"
ASS = b"[Script Info]\n[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,Guten Tag.\n"
TTML = b'<?xml version="1.0"?>\n<tt xmlns="http://www.w3.org/ns/ttml"><body><p begin="0s">Guten Tag.</p></body></tt>'
OLE = b"\xd0\xcf\x11\xe0" + bytes(600)


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


@pytest.mark.parametrize("name, data, suffix, why", [
    ("a.docx", LETTER, ".docx", "its name and first bytes"), ("a.odt", LETTER, ".docx", "although its name says odt"),
    ("a", LETTER, ".docx", "its first bytes"), ("a.DOCX", TEXT, ".odt", "although its name says docx"), ("a.zip", BOOK, ".epub", "its first bytes"),
    ("a.txt", PAGE, ".html", "although its name says txt"), ("a.htm", PAGE, ".htm", "its name and first bytes"), ("a.html", b"Guten Tag", ".html", "its name"),
    ("a.srt", PAGE, ".html", "although"), ("a.txt", FILM, ".srt", "although"), ("a.srt", WEB, ".srt", "its name and first bytes"), ("a.txt", WEB, ".vtt", "although"),
    ("a", PAGE.decode().encode("utf-16"), ".html", "its first bytes"), ("a", b"\xef\xbb\xbf" + WEB, ".vtt", "its first bytes"),
    ("a.sub", SUB, ".sub", "its name and first bytes"), ("a", SUB, ".sub", "its first bytes"), ("a.dfxp", TTML, ".dfxp", "its name and first bytes"),
    ("a", MPL, ".mpl", "its first bytes"), ("a.ssa", ASS, ".ssa", "its name and first bytes"), ("a", ASS, ".ass", "its first bytes"), ("a.sami", SAMI, ".sami", "its name and first bytes"), ("a", SAMI, ".smi", "its first bytes"),
    ("a", TTML, ".ttml", "its first bytes"), ("a.sbv", b"0:01.0,0:02.0\nGuten Tag.\n", ".sbv", "its name"),
    ("a.txt", "Guten Tag".encode("utf-16"), ".txt", "its name"), ("a.md", b"# Tag", ".md", "its name"),
    ("a", b"<?xml version='1.0'?><!-- a --><html lang='de'>", ".html", "its first bytes"), ("a.txt", b"12:30 --> 13:30", ".txt", "its name")])
def test_name_and_bytes(name, data, suffix, why):
    file = File(data, name)
    assert file.suffix == suffix and file.taken_as.startswith(suffix[1:]) and why in file.taken_as


@pytest.mark.parametrize("name, data, message", [
    ("a.pdf", b"%PDF-1.4", "expected a file .docx, .*, but it is a PDF; convert it to docx"), ("a.docx", b"%PDF-1.4", "it is a PDF"),
    ("a.txt", b"%PDF-1.4", "it is a PDF"), ("a.wav", b"RIFF\1\2\3\4WAVEfmt ", "it is a sound; transcribe"), ("a.txt", b"RIFF\1\2\3\4WAVEfmt ", "a sound"),
    ("a.mp3", b"ID3\3", "a sound"), ("a.mp4", b"\0\0\0\x20ftypisom", "a film"), ("a.jpg", b"\xff\xd8\xff\xe0", "a picture"), ("a.rtf", b"{\\rtf1", "save it as docx or odt"),
    ("a.doc", OLE + "WordDocument".encode("utf-16-le"), r"Word's old format \(doc\); save it as docx"),
    ("a.docx", OLE + "EncryptedPackage".encode("utf-16-le"), "it is encrypted; save it without a password"),
    ("a.ppt", OLE + "PowerPoint Document".encode("utf-16-le"), "save it as pptx"), ("a.xls", OLE + "Workbook".encode("utf-16-le"), "a table"),
    ("a.docx", OLE, "encrypted, or in Word's"), ("a.xlsx", archive({"[Content_Types].xml": "", "xl/workbook.xml": ""}), "a table"),
    ("a.ods", archive({"mimetype": "application/vnd.oasis.opendocument.spreadsheet"}), "a table"), ("a.txt.gz", b"\x1f\x8b\x08", "a packed file; unpack it"),
    ("a.txt", "Guten Tag".encode("utf-16-le"), "UTF-16 without a byte order mark; convert it to UTF-8"), ("a.txt", bytes(range(200)), "it is not text"),
    ("a.txt", "Gr\u00fc\u00dfe".encode("latin-1"), "not utf-8 at byte 2; convert the file to UTF-8"),
    ("a.xyz", b"Guten Tag", r"expected a file .docx, .*, or a format \(--format\)"), ("a.docx", PAGE, r"no zip archive, which docx files are: it begins as html does \(--format html\)"),
    ("a.srt", b"Guten Tag.", "the subtitles have no line with times"), ("a.docx", LETTER[:200], "no zip archive"), ("a.docx", b"", "no zip archive")])
def test_what_is_not_read_gets_one_line(name, data, message):
    with pytest.raises(FileError, match=f"^{name}: .*{message}") as caught:
        File(data, name)
    assert "\n" not in str(caught.value)


def test_format_overrules():
    assert File(PAGE, "a.srt", format="txt").taken_as == "txt (the format is given, although its name and its first bytes say something else)"
    assert File(PAGE, "a.docx", format="html").taken_as == "html (the format is given, although its name says something else)"
    assert File(LETTER, "a.bin", format="docx").texts and File(b"# Tag", "a", format="markdown").format == "markdown"
    for data, format, message in ((LETTER, "txt", "the format txt is given, but the file is docx"), (b"%PDF-", "docx", "but the file is a PDF; convert"),
                                  (PAGE, "epub", "but the file is html"), (LETTER, "odt", "none of the parts of odt files")):
        with pytest.raises(FileError, match=message):
            File(data, "a.odp", format=format)
    with pytest.raises(ValueError, match="format is 'doc', expected docx or"):
        File(LETTER, "a.docx", format="doc")


def test_the_command_says_it_once(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "b"
    path.write_bytes(PAGE)

    def run(*words):
        done = subprocess.run([sys.executable, "-m", "transformer_h", GERMAN, path, "-o", out, *words], capture_output=True, text=True)
        return done.returncode, done.stderr.replace(str(path), "a.txt")
    assert run() == (0, "transformer_h: a.txt: taken as html (its first bytes, although its name says txt)\n") and "Good day." in out.read_text()
    assert run("--format", "txt")[1].startswith("transformer_h: a.txt: taken as txt (the format is given, although")
    path.write_bytes(b"%PDF-1.4")
    code, said = run()
    assert code == 1 and said.count("\n") == 1 and "it is a PDF; convert it to docx" in said
    path.write_bytes(PAGE)
    from transformer_h import Model
    with Model(GERMAN) as model:
        assert translate_file(model, path, out, format="html") == [] and Path(out).read_bytes().endswith(b"Good day.")


def test_subtitles_without_times_are_refused_everywhere(german, tmp_path):
    (tmp_path / "a.srt").write_text("Guten Tag.\n")
    for call in (lambda: Document("Guten Tag.\n", "srt"), lambda: german.translate_document("Guten Tag.\n", "srt"),
                 lambda: german.translate_document(["", "Guten Tag.\n"], "srt"), lambda: translate_file(german, tmp_path / "a.srt", tmp_path / "b.srt")):
        with pytest.raises(ValueError, match="the subtitles have no line with times, such as 00:01:02,000 --> 00:01:04,500$"):
            call()
    assert german.translate_document(["", " \n"], "srt") == ["", " \n"]


def test_text_that_stays_is_named(german, tmp_path):
    """Also by translate_document, of one text and of so many that each is read twice."""
    text = "Guten Tag.\n\n> <div>\n> Guten Tag.\n> </div>\n"
    line = "1 parts in HTML inside quotes stay as they are, the first in line 3"
    (tmp_path / "a.md").write_text(text)
    assert translate_file(german, tmp_path / "a.md", tmp_path / "b.md") == [line]
    for texts in (text, [text] * 2, [text] * 100):
        left = []
        german.translate_document(texts, "markdown", left=left)
        assert left == [line] * (1 if texts is text else len(texts))
    document = Document(text, "markdown")
    assert document.left == []
    for _ in range(2):
        document.join(["Good day."])
        assert document.left == [line]
