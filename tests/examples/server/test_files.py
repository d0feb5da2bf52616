"""Documents that clients send to examples/server/server.py: make test-server"""

import http.client
import io
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
import zipfile

import deepl
import pytest
from load import GERMAN, ROOT, server
from transformer_h import Model, translate_file

docx = pytest.importorskip("docx")
from docx.oxml.ns import qn  # noqa: E402
PAGE = "<p>Ich habe <b>gestern</b> ein rotes Buch gekauft.</p>"


@pytest.fixture(scope="module")
def port():
    with server() as (_, port):
        yield port


@pytest.fixture(scope="module")
def letter(tmp_path_factory):
    """A document, and its translation by the package."""
    folder = tmp_path_factory.mktemp("letter")
    made = docx.Document()
    paragraph = made.add_paragraph("Das Wetter ist heute sehr ")
    paragraph.add_run("schön").bold = True
    made.add_paragraph("Guten Tag.")
    made.save(folder / "a.docx")
    with Model(GERMAN) as model:
        translate_file(model, folder / "a.docx", folder / "b.docx")
    return (folder / "a.docx").read_bytes(), texts((folder / "b.docx").read_bytes())


def texts(data):
    return [(run.text, run.bold) for one in docx.Document(io.BytesIO(data)).paragraphs for run in one.runs]


def form(name, data, **fields):
    """A body as browsers and curl send it, and its type."""
    body = b"".join(f'--line\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
                    for key, value in fields.items())
    if name is not None:
        body += f'--line\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n"
    return body + b"--line--\r\n", "multipart/form-data; boundary=line"


def send(port, name, data, body=None, kind=None, **fields):
    made, made_kind = form(name, data, **{"source": "de", "target": "en", **fields})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=400)
    connection.request("POST", "/translate_file", made if body is None else body, {"Content-Type": kind or made_kind})
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def fetched(port, name, data, **fields):
    status, content = send(port, name, data, **fields)
    assert status == 200, content
    with urllib.request.urlopen(content["translatedFileUrl"]) as response:
        return response.read(), response.headers, content["translatedFileUrl"]


def test_documents_are_the_packages(port, letter):
    made, headers, place = fetched(port, "mein Brief 1.docx", letter[0])
    assert texts(made) == letter[1] and any(bold for _, bold in letter[1])
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''mein%20Brief%201_en.docx"
    assert re.fullmatch(f"http://127.0.0.1:{port}/download_file/[\\w-]{{32}}/mein%20Brief%201_en.docx", place)
    with Model(GERMAN) as model:
        assert fetched(port, "a.html", PAGE.encode(), source="auto")[0].decode() == model.translate_document(PAGE, "html")
    assert texts(fetched(port, "brief", letter[0])[0]) == texts(fetched(port, "a.txt", letter[0])[0]) == letter[1]  # by their bytes
    binary = bytes(range(256)) * 5 + b"\r\n--lin\r\n\r\r\n"  # any bytes come through
    out = io.BytesIO(letter[0])
    with zipfile.ZipFile(out, "a", zipfile.ZIP_STORED) as more:
        more.writestr("word/media/a.png", binary)
    with zipfile.ZipFile(io.BytesIO(fetched(port, "a.docx", out.getvalue())[0])) as made:
        assert made.read("word/media/a.png") == binary


def test_text_in_another_language(port, tmp_path):
    page = f"{PAGE}<p lang=fr>La maison est neuve.</p>"
    for source in ("de", "auto"):
        made = fetched(port, "a.html", page.encode(), source=source)[0].decode()
        assert "La maison est neuve." in made and "rotes Buch" not in made
    made = docx.Document()
    made.add_paragraph("Guten Tag. Das Haus ist heute neu.")
    run = made.add_paragraph().add_run("La maison est neuve.")
    run._r.get_or_add_rPr().append(run._r.makeelement(qn("w:lang"), {qn("w:val"): "fr-FR"}))
    made.save(tmp_path / "a.docx")
    with Model(GERMAN) as model:
        left = translate_file(model, tmp_path / "a.docx", tmp_path / "b.docx")
    data, _, _ = fetched(port, "a.docx", (tmp_path / "a.docx").read_bytes())
    assert texts(data) == texts((tmp_path / "b.docx").read_bytes()) and texts(data)[1] == ("La maison est neuve.", None)
    assert any("said to be in another language" in one for one in left)


# A server that writes a line for each batch: whether it is aligned, and its texts
RECORDED = f"""
import json, sys
sys.path.insert(0, {str(ROOT / "examples/server")!r})
from transformer_h import Model
import server

def recorded(self, texts, translate=Model.translate, **options):
    with open({{!r}}, "a") as file:
        file.write(json.dumps([any(options["aligned"]), texts]) + "\\n")
    return translate(self, texts, **options)

Model.translate = recorded
server.main()
"""


def test_only_sentences_that_need_tokens_are_aligned(letter, tmp_path):
    """Documents, and texts with tags, have other sentences translated without alignment; what is written stays the same."""
    (tmp_path / "recorded.py").write_text(RECORDED.format(str(tmp_path / "log")))
    text = "<p>Guten Tag. Er liest <b>ein</b> Buch.</p><p>Der Hund &amp; die Katze. Ja, der Zug.</p>"
    wanted = {"Guten Tag.": False, "Er liest ein Buch.": True, "Der Hund & die Katze.": True, "Ja, der Zug.": False}
    with Model(GERMAN) as model:
        expected = model.translate_document(text, "html")
    with server(program=tmp_path / "recorded.py") as (_, recorded):
        def alignment():
            lines = (tmp_path / "log").read_text().splitlines()
            (tmp_path / "log").unlink()
            return {one: aligned for aligned, texts in map(json.loads, lines) for one in texts}

        assert texts(fetched(recorded, "a.docx", letter[0])[0]) == letter[1]
        assert alignment() == {"Das Wetter ist heute sehr schön": True, "Guten Tag.": False, "generated by python-docx": False}
        assert fetched(recorded, "a.html", text.encode())[0].decode() == expected
        assert alignment() == wanted
        body = json.dumps({"q": text, "source": "de", "target": "en", "format": "html"}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{recorded}/translate", body,
                                                           {"Content-Type": "application/json"})) as response:
            assert json.load(response)["translatedText"] == expected
        assert alignment() == wanted


def test_settings(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/frontend/settings") as response:
        found = json.load(response)
    assert found["filesTranslation"] is True and {".docx", ".odt", ".txt"} <= set(found["supportedFilesFormat"])


def test_curl(port, tmp_path, letter):
    (tmp_path / "ä.docx").write_bytes(letter[0])
    try:
        done = subprocess.run(["curl", "-s", f"http://127.0.0.1:{port}/translate_file", "-F", f"file=@{tmp_path}/ä.docx",
                               "-F", "source=de", "-F", "target=en"], capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("no curl")
    with urllib.request.urlopen(json.loads(done.stdout)["translatedFileUrl"]) as response:
        assert texts(response.read()) == letter[1]


def test_deepls_client(port, letter, tmp_path):
    client = deepl.DeepLClient("any key", server_url=f"http://127.0.0.1:{port}")
    (tmp_path / "a.docx").write_bytes(letter[0])
    client.translate_document_from_filepath(tmp_path / "a.docx", tmp_path / "b.docx", source_lang="DE", target_lang="EN-US")
    assert texts((tmp_path / "b.docx").read_bytes()) == letter[1]
    glossary = client.create_glossary("x", "DE", "EN", {"Buch": "tome"})
    handle = client.translate_document_upload(PAGE, filename="a.html", source_lang="DE", target_lang="EN-US", glossary=glossary)
    assert client.translate_document_wait_until_done(handle).billed_characters == len(PAGE)
    assert b"tome" in b"".join(client.translate_document_download(handle).iter_content(99))
    with pytest.raises(deepl.DocumentNotFoundException if hasattr(deepl, "DocumentNotFoundException") else deepl.DeepLException):
        deepl.DeepLClient("other key", server_url=f"http://127.0.0.1:{port}").translate_document_download(handle)
    handle = client.translate_document_upload(b"no zip", filename="a.docx", source_lang="DE", target_lang="EN-US")
    with pytest.raises(deepl.DeepLException, match="a.docx: no zip archive"):
        status = client.translate_document_wait_until_done(handle)
        raise deepl.DeepLException(status.error_message) if not status.ok else AssertionError
    with pytest.raises(deepl.DeepLException, match="output_format is not supported"):
        client.translate_document_upload(PAGE, filename="a.html", target_lang="EN-US", output_format="pdf")


ENTITY = '<!DOCTYPE w [<!ENTITY a "Tag">]><w/>'


def archive(**parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in parts.items():
            made.writestr(name.replace("__", "/") + ".xml", data)
    return out.getvalue()


def test_a_file_with_source_and_target(port):
    """The translation goes where the format has it, and the file says the language that the client asked for."""
    unit = '<trans-unit id="%s"><source>Guten Tag.</source>%s</trans-unit>'
    xliff = ('<xliff version="1.2"><file source-language="de"><body>' + unit % ("a", "") + unit % ("b", "<target>Hi.</target>") + "</body></file></xliff>").encode()
    made = fetched(port, "a.xlf", xliff)[0].decode()
    assert '<file source-language="de" target-language="en">' in made and "<target>Hi.</target>" in made
    assert re.search(r'<source>Guten Tag\.</source><target state="needs-review-translation"[^>]*>[^<]+</target>', made)
    made = json.loads(fetched(port, "a.xcstrings", b'{"sourceLanguage": "de", "strings": {"Guten Tag.": {}}}')[0])
    assert list(made["strings"]["Guten Tag."]["localizations"]) == ["en"]
    status, found = send(port, "a.xlf", xliff.replace(b'"de"', b'"en"'))[:2]
    assert status == 400 and "a.xlf: the source is in en" in str(found)


@pytest.mark.parametrize("name, data, fields, status, message", [
    ("a.docx", b"no zip", {}, 400, "a.docx: no zip archive, which docx files are"),
    ("a.pdf", b"%PDF", {}, 400, "^a.pdf: expected a file .docx, .*, .srt, .vtt, .sub, .*, .sami$"),
    ("a.txt", b"%PDF-1.4", {}, 400, "a.txt: expected a file .docx, .*, but it is a PDF; convert it to docx"),
    ("../../etc/a", b"x", {}, 400, "^a: expected a file .docx"),
    ("", b"x", {}, 400, "missing file parameter|: expected a file .docx"),
    ("a.docx", b"<!doctype html><p>Tag", {}, 400, "^a.docx: no zip archive, which docx files are: it begins as html does$"),
    ("a.srt", b"Tag.", {}, 400, "^a.srt: the subtitles have no line with times"),
    (None, b"", {}, 400, "Invalid request: missing file parameter"),
    ("a.txt", b"Tag", {"source": ""}, 400, "Invalid request: missing source parameter"),
    ("a.txt", b"Tag", {"target": "xx"}, 400, "xx is not supported"),
    ("a.txt", b"Gr\xfc\xdfe", {}, 400, "a.txt: not utf-8 at byte 2; convert the file to UTF-8"),
    ("a.docx", archive(word__document=ENTITY), {}, 400, "part 'word/document.xml': declares entities"),
    ("a.docx", archive(word__document=" " * 300000), {}, 400, "have more than 200000 bytes"),
    ("a.docx", archive(a=bytes(8 * 400000 + 1)), {}, 400, "have more than 3200000 bytes"),
    ("a.txt", b"Tag " * 100001, {}, 413, "larger than 400000 bytes"),
    ("a.txt", b"Tag " * 120000, {}, 413, "the body is larger than 465536 bytes"),
    ("a.txt", b"Tag " * 60000, {}, 400, "a.txt: larger than 200000 bytes"),
])
def test_bad_documents_are_refused(small, name, data, fields, status, message):
    found, content = send(small, name, data, **fields)
    assert found == status and re.search(message, content["error"]), content


@pytest.fixture(scope="module")
def small():
    with server("--file-limit", 400000, "--file-text-limit", 200000, "--read-timeout", 2) as (_, port):
        yield port


def test_bad_forms_are_refused(small):
    body, kind = form("a.txt", b"Tag")
    for body, kind, status in ((body, "text/plain", 415), (body, "multipart/form-data", 400), (b"x", kind, 400),
                               (body.replace(b"name=", b"nam="), kind, 400), (b"", kind, 400), (body[:60], kind, 400),
                               (form("a.txt", b"", **{f"a{i}": 1 for i in range(200)})[0], kind, 400)):
        assert send(small, None, b"", body=body, kind=kind)[0] == status, (body[:80], kind)
    assert send(small, "a.txt", b"Guten Tag.")[0] == 200


def test_slow_bodies_and_translations_end(small):
    head = (f"POST /translate_file HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=line\r\n"
            f"Content-Length: 9\r\n\r\n").encode()
    slow = [socket.create_connection(("127.0.0.1", small), timeout=300) for _ in range(8)]
    for each in slow:
        each.sendall(head)
    assert send(small, "a.txt", b"Tag")[0] == 200  # clients that send nothing keep no place from others
    for each in slow:
        assert each.recv(99).startswith(b"HTTP/1.1 408 ")
        each.close()
    large = [socket.create_connection(("127.0.0.1", small), timeout=300) for _ in range(5)]
    for each in large:
        each.sendall(head.replace(b"Length: 9", b"Length: 450000") + b"x" * 440000)
    assert {each.recv(99)[:13] for each in large} == {b"HTTP/1.1 408 ", b"HTTP/1.1 503 "}  # those that arrive too late have no room
    for each in large:
        each.close()
    assert send(small, "a.txt", b"Tag")[0] == 200
    many = "".join(f"Heute ist der {i}. Tag, an dem es in der Stadt geregnet hat.\n\n" for i in range(2000)).encode()
    with server("--file-timeout", 0.2) as (_, hasty):
        found, content = send(hasty, "a.txt", many)
        assert found == 503 and content["error"] == "not translated in 0.2 seconds"


def test_ids_and_keys(port, tmp_path):
    for path in ("/download_file/x/a.docx", "/download_file/..%2f..%2fetc/passwd"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}")
        assert caught.value.code == 404
    (tmp_path / "keys").write_text("secret\n")
    with server("--api-keys", tmp_path / "keys", "--file-limit", 1000) as (_, locked):
        assert send(locked, "a.txt", b"Guten Tag.")[0] == 403 == send(locked, "a.txt", b"Guten Tag.", api_key="x")[0]
        made, _, first = fetched(locked, "a.txt", b"Guten Tag.", api_key="secret")
        assert made == b"Good day."
        for _ in range(11):  # ten of the largest documents are kept
            fetched(locked, "a.txt", b"1" * 1000, api_key="secret")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(first)


def test_what_stands_around_sentences_stays(port):
    """Notes say what translate says on standard error."""
    text = "1. Der Hund schläft.[2]\n\nThe cat is sleeping on the sofa.\n\nDas Wort 你好 bedeutet Hallo.\n"
    for fields, flags in (({}, []), ({"plain": "true"}, ["--plain"])):
        done = subprocess.run([ROOT / "build/translate", GERMAN, "--wrapped", *flags], input=text.encode(), capture_output=True, check=True)
        status, answer = send(port, "a.txt", text.encode(), **fields)
        with urllib.request.urlopen(answer["translatedFileUrl"]) as response:
            assert response.read() == done.stdout
        said = [line.removeprefix("translate: ") for line in done.stderr.decode().splitlines()]
        assert answer.get("notes", []) == said and bool(said) != bool(fields)
    assert send(port, "a.txt", b"viel " * 600, plain="true")[1]["notes"] == ["a sentence that is too long for the model"]
    assert send(port, "a.txt", b"viel " * 600)[1]["notes"] == ["1 sentence divided, because it has no end in sight"]
