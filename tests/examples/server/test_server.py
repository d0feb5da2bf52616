"""Tests examples/server/server.py with libretranslatepy and with raw HTTP, and compares it with the command
line byte for byte: make test-server"""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from pathlib import Path

import pytest
from libretranslatepy import LibreTranslateAPI
from load import GERMAN, ROOT, TRANSLATE, made_up, server, translated
from prometheus_client.parser import text_string_to_metric_families

SERVER = ROOT / "examples/server"
CHINESE = ROOT / "examples/models/zh-en.safetensors"
BOTH = f"de:en={GERMAN}", f"zh:en={CHINESE}"
LINES = (ROOT / "examples/translate/demo-de.txt").read_text(encoding="utf-8").split("\n")[:-1]
TEXT = "Guten Tag. Wie geht es Dr. Maier?\n\n  Am 3. Mai regnet es!  \nJa"


@pytest.fixture(scope="module")
def german():
    with server("--cors", "https://a.org") as (_, port):
        yield port


@pytest.fixture(scope="module")
def both():
    with server(models=BOTH) as (_, port):
        yield port


def ask(port, path, method="GET", body=None, headers=None):
    """Returns status, headers and body; a JSON body is parsed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        data = response.read()
        if response.headers["content-type"] == "application/json":
            data = json.loads(data)
        return response.status, response.headers, data
    finally:
        connection.close()


def post(port, content, path="/translate"):
    return ask(port, path, "POST", json.dumps(content), {"Content-Type": "application/json"})


def translate(port, q, **more):
    status, _, content = post(port, {"q": q, "source": "de", "target": "en", **more})
    assert status == 200, content
    return content


def metrics(port, key=None):
    _, headers, data = ask(port, "/metrics", headers={"Authorization": f"Bearer {key}"} if key else {})
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    return {(one.name, *sorted(one.labels.items())): one.value
            for family in text_string_to_metric_families(data.decode()) for one in family.samples}


def raw(port, data, timeout=20):
    """Returns everything that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        found = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        return found


def head(size, kind="application/json"):
    return (f"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {size}\r\n\r\n").encode()


def test_sentences(tmp_path, both):
    """What the model file says, the option, and the request's parameter."""
    text = "Guten Tag. Wie geht es Ihnen?  Ich bin müde."
    expected = {word: subprocess.run([TRANSLATE, GERMAN, "--sentences", word], input=text.encode(), check=True,
                                     capture_output=True).stdout.decode().rstrip("\n") for word in ("split", "whole")}
    assert len(set(expected.values())) == 2
    assert translate(both, text)["translatedText"] == expected["split"]
    for word in expected:
        assert translate(both, text, sentences=word)["translatedText"] == expected[word]
        page = f"<p>{text}</p>".replace("  ", " ")  # a document keeps its own whitespace
        assert translate(both, page, sentences=word, format="html")["translatedText"] == f"<p>{expected[word]}</p>".replace("  ", " ")
        with server("--sentences", word) as (_, port):
            assert translate(port, text)["translatedText"] == expected[word]
            assert translate(port, text, sentences="split")["translatedText"] == expected["split"]
    status, _, content = post(both, {"q": text, "source": "de", "target": "en", "sentences": "some"})
    assert status == 400 and content["error"] == "Invalid request: sentences some is neither split nor whole"
    for given, word in (("0", "whole"), ("1", "split"), ("nonewlines", "split")):
        _, _, content = post(both, {"text": [text], "source_lang": "DE", "target_lang": "EN", "split_sentences": given}, "/v2/translate")
        assert content["translations"][0]["text"] == expected[word]
    whole = tmp_path / "whole.safetensors"
    data, old = Path(GERMAN).read_bytes(), rb'\"sentences\": \"split\"'
    assert data.count(old) == 1
    whole.write_bytes(data.replace(old, rb'\"sentences\": \"whole\"'))
    with server(models=[f"de:en={whole}"]) as (_, port):
        assert translate(port, text)["translatedText"] == expected["whole"]


WRITTEN = ["1. Der Zug hatte zwanzig Minuten Verspätung.[2] Der Hund schläft. 😀", "• DER HUND SCHLÄFT.", "(Der Laden ist geschlossen.)", "***", "",
           "The cat is sleeping on the sofa. Der Hund schläft im Garten.", "今天的天气很好。", "Das Wort 你好 bedeutet Hallo.",
           "Die \u2068Katze\u2069 schläft.", "„Ich komme morgen wieder.“"]
SAID = "2 sentences stay as they are, 1 sentence with unknown tokens"


def test_what_stands_around_sentences_stays(both):
    """The bytes and the counts of translate."""
    done = subprocess.run([TRANSLATE, GERMAN, "--document"], input="".join(f"{line}\n" for line in WRITTEN), capture_output=True, text=True)
    assert done.stderr == f"translate: {SAID}\n" and done.stdout.startswith("1. The train")
    found = translate(both, WRITTEN)
    assert found == {"translatedText": done.stdout.split("\n")[:-1], "counts": {"left": 2, "divided": 0, "unknown": 1}}
    assert translate(both, "\n".join(WRITTEN))["translatedText"] == done.stdout.removesuffix("\n")
    plain = subprocess.run([TRANSLATE, GERMAN, "--document", "--plain"], input="".join(f"{line}\n" for line in WRITTEN),
                           capture_output=True, text=True).stdout
    assert plain != done.stdout
    for given in (True, "true", "1"):
        assert translate(both, WRITTEN, plain=given) == {"translatedText": plain.split("\n")[:-1]}
    assert translate(both, WRITTEN, plain=False) == found
    assert translate(both, "wir warten " * 300)["counts"] == {"left": 0, "divided": 1, "unknown": 0}
    _, _, content = post(both, {"text": WRITTEN, "source_lang": "DE", "target_lang": "EN"}, "/v2/translate")
    assert [one["text"] for one in content["translations"]] == found["translatedText"]
    page = "".join(f"<p><b>{line}</b></p>\n" for line in WRITTEN)
    assert translate(both, page, format="html")["translatedText"] == command_line(page, "--html", "--lang", "en")
    foreign = "<p>Das Haus ist neu.</p><p lang=fr>La maison est neuve.</p>"
    made = translate(both, foreign, format="html")["translatedText"]
    assert made == command_line(foreign, "--html", "--lang", "en") and "La maison est neuve." in made and "Haus" not in made
    best = translate(both, WRITTEN[:3], alternatives=1)
    assert best["translatedText"][0].startswith("1. The train") and all(one[0].startswith(("1. ", "• ", "(")) for one in best["alternatives"])


def test_terms(tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("# animals\nHund\thound\nKatze\tmoggy\n", encoding="utf-8")
    lines = ["Der Hund bellt. Die Katze schläft.", "Es regnet.", "Ein Hund!"]
    with server("--terms", f"de:en={terms}", "--beam", 2, models=BOTH) as (_, port):
        found = translate(port, lines, alternatives=1)
        assert found["translatedText"] == translated(lines, "--terms", terms, "--beam", 2)
        assert "hound" in found["translatedText"][0] and "hound" in found["alternatives"][2][0].lower()
        assert post(port, {"q": "我坐火车。", "source": "zh", "target": "en"})[0] == 200


@pytest.mark.parametrize("given, message", [
    ("{}", "--terms {}: expected SOURCE:TARGET=FILE, as in de:en=terms.tsv"),
    ("en:de={}", "--terms en:de={}: no model translates from en to de"),
    ("de:en={}", "{}: line 2: there is no TAB between source and target"),
    ("de:en={}no", "[Errno 2] No such file or directory: '{}no'")])
def test_bad_terms(tmp_path, given, message):
    terms = tmp_path / "terms.tsv"
    terms.write_text("a\tb\nc\n", encoding="utf-8")
    done = subprocess.run([sys.executable, SERVER / "server.py", f"de:en={GERMAN}", "--terms",
                           given.format(terms)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"server.py: {message.format(terms)}\n")


MARKED = {
    "html": ["<html lang='de'><meta name=description content='Ein Hund.'><p>Ich habe <i>gestern ein rotes Buch</i> gekauft.</p>\n<p title=x>Der <b>Hund & die Katze</b>.",
             "<ul><li>Guten Tag<li>Es <a href='?a&b'>regnet</a></ul>", "a < b & <3", "", "<br>", "Der Hund bellt."],
    "markdown": ["# Der *Hund*\n\nIch habe [ein Buch](http://a.b) gekauft, `x` und\nein **Haus**."],
    "srt": ["1\n00:00:01,000 --> 00:00:02,000\n<i>Ich habe ein\nBuch</i> gekauft.\n"],
    "wrapped": ["> Ich habe gestern ein rotes Buch gekauft,\n> und der Hund bellt.\n"]}


def command_line(document, *options):
    return subprocess.run([TRANSLATE, GERMAN, *map(str, options)], input=document.encode(), check=True,
                          capture_output=True).stdout.decode()


def test_formats_are_the_command_lines(both, tmp_path):
    more = {"html": ("--lang", "en")}
    expected = {kind: [command_line(one, f"--{kind}", *more.get(kind, ())) for one in documents] for kind, documents in MARKED.items()}
    assert "<i>a red book yesterday</i>" in expected["html"][0] and "<html lang='en'>" in expected["html"][0]
    found, crew = [], []
    for kind, documents in [*MARKED.items(), ("text", LINES)] * 4:  # at the same time
        expected["text"] = translated(LINES)
        crew.append(threading.Thread(target=lambda kind=kind, documents=documents: found.append(
            translate(both, documents, format=kind)["translatedText"] == expected[kind])))
        crew[-1].start()
    for one in crew:
        one.join()
    assert found == [True] * 20
    assert LibreTranslateAPI(f"http://127.0.0.1:{both}").translate("a <b>Hund</b>", "de", "en")  # text
    body = "format=html&source=de&target=en&q=%3Cb%3EHund%3C%2Fb%3E"
    status, _, content = ask(both, "/translate", "POST", body, {"Content-Type": "application/x-www-form-urlencoded"})
    assert (status, content["translatedText"]) == (200, command_line("<b>Hund</b>", "--html"))
    tags = '<p class="the best paragraph of this page" title="where is it?">Der Hund bellt.</p>' * 3
    assert translate(both, tags, source="auto", format="html")["detectedLanguage"]["language"] == "de"
    long = "<p>Ja.<p>" + "viel " * 600
    assert post(both, {**GOOD, "q": ["Ja.", long], "format": "html", "plain": True})[2]["error"].startswith("q[1]: text")
    for source in ("de", "auto"):
        status, _, content = post(both, {**GOOD, "q": "Der Hund bellt.", "format": "srt", "source": source})
        assert (status, content["error"][:43]) == (400, "the subtitles have no line with times, such")
    terms = tmp_path / "terms.tsv"
    terms.write_text("Hund\thound & <co>\n", encoding="utf-8")
    with server("--terms", f"de:en={terms}", "--beam", 2) as (_, port):
        got = translate(port, MARKED["html"], format="html", alternatives=1)
        assert got["translatedText"] == [command_line(one, "--html", "--lang", "en", "--terms", terms, "--beam", 2)
                                         for one in MARKED["html"]]
        assert "hound &amp; &lt;co&gt;" in got["translatedText"][0] and "hound &amp;" in got["alternatives"][5][0].lower()


# ---- the page, and what is said of it --------------------------------------------------------------


def test_the_page(both):
    status, headers, data = ask(both, "/")
    page = data.decode()
    assert status == 200 and headers["content-type"].startswith("text/html") and '<textarea id="source"' in page
    assert ask(both, "/", "HEAD")[::2] == (200, b"")
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    seen, waiting = set(), re.findall(r'(?:href|src)="([^"]+)"', page)
    while waiting:  # everything that the page imports, too
        name = waiting.pop().removeprefix("./")
        if name in seen:
            continue
        seen.add(name)
        status, headers, data = ask(both, f"/{name}")
        assert status == 200 and headers["content-type"].startswith(kinds[name.rsplit(".")[-1]]), name
        waiting += re.findall(r'^import [^"]*"(\./[^"]+)"', data.decode(), re.M)
    assert seen == {"page.css", "page.js", "server.js", "transformer.js", "typing.js", "icon.svg"}
    assert ask(both, "/models.json")[2] == [{"sources": ["de"], "targets": ["en"]}, {"sources": ["zh"], "targets": ["en"]}]
    for path in ("/server.py", "/web.c", "/..%2fserver%2fserver.py", "/page.png", "/index.html/x"):
        assert ask(both, path)[0] == 404, path


def test_says_where_it_listens_and_logs_requests(tmp_path):
    with open(tmp_path / "log", "wb") as log, server("--log", log=log, stdout=subprocess.PIPE) as (run, port):
        assert run.stdout.readline() == f"listening on http://127.0.0.1:{port}, page and API\n".encode()
        translate(port, "Guten Tag.")
        assert ask(port, "/nothing/%09%0Ahere?q=secret")[0] == 404
        post(port, {"q": "secret"})
    lines = (tmp_path / "log").read_text().splitlines()
    kept = [re.sub(r"^[-\d]+ [:,\d]+ 127\.0\.0\.1 (.*) \d+ ms$", r"\1", line) for line in lines]
    assert kept == ["POST /translate 200", r"GET /nothing/\t\nhere 404", "POST /translate 400"]


def test_the_dockerfile_copies_what_there_is_and_runs(tmp_path):
    """Follows the Dockerfile without Docker: each COPY into a folder, and the last command in it."""
    lines = (SERVER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").split("\n")
    last = max(i for i, line in enumerate(lines) if line.startswith("FROM "))
    copies = [line.split()[1:] for line in lines if line.startswith("COPY ") and "--from" not in line]
    for *sources, _ in copies:
        assert all((ROOT / source).exists() for source in sources), sources
    for line in lines[last:]:
        if line.startswith("COPY ") and "--from" not in line:
            *sources, target = line.split()[1:]
            for source in sources:
                shutil.copytree(ROOT / source, tmp_path / target.lstrip("/"), dirs_exist_ok=True)
    program, = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("ENTRYPOINT ")]
    models, = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("CMD ")]
    assert program[0] == "python" and program[-2:] == ["--host", "0.0.0.0"]
    path = tmp_path / program[1].lstrip("/")
    models = [f"{one.partition('=')[0]}={tmp_path}{one.partition('=')[2]}" for one in models]
    with server(models=models, program=path) as (_, port):
        assert translate(port, "Guten Tag.") and ask(port, "/")[0] == 200


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_systemd_unit(tmp_path):
    text = (ROOT / "examples/server/transformer-server.service").read_text(encoding="utf-8")
    assert "/opt/transformer/" in text
    unit = tmp_path / "transformer-server.service"
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    unit.write_text(text.replace("/opt/transformer/", f"{tmp_path}/"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert done.returncode == 0 and not re.findall(".*transformer-server.*", done.stderr), done.stderr
    command = re.search("^ExecStart=(.*)", text, re.M)[1].split()
    assert [Path(command[1]).name, *command[2:]] == ["server.py", "de:en=/opt/transformer/models/de-en.safetensors"]


# ---- answers to clients ---------------------------------------------------------------------------


def test_libretranslatepy(german, both):
    client = LibreTranslateAPI(f"http://127.0.0.1:{both}/")
    for line, expected in zip(LINES, translated(LINES)):
        assert client.translate(line, "de", "en") == expected
    assert client.translate(TEXT, "de", "en") == "\n".join(translated(TEXT.split("\n")))
    assert client.translate("她忘了關窗戶。", "zh", "en") == translated(["她忘了關窗戶。"], model=CHINESE)[0]
    assert client.languages() == [{"code": "de", "name": "German", "targets": ["en"]},
                                  {"code": "zh", "name": "Chinese", "targets": ["en"]},
                                  {"code": "en", "name": "English", "targets": []}]
    assert [one["language"] for one in client.detect("Guten Tag, wie geht es dir?")] == ["de", "en", "zh"]
    assert client.detect("她忘了關窗戶。")[0]["language"] == "zh" and client.detect("她忘了關窗戶。")[0]["confidence"] > 90
    assert LibreTranslateAPI(f"http://127.0.0.1:{german}").detect("Where is it?")[0]["language"] == "en"


def test_texts_and_lists(both):
    assert translate(both, TEXT) == {"translatedText": "\n".join(translated(TEXT.split("\n")))}
    assert translate(both, LINES) == {"translatedText": translated(LINES)}
    assert translate(both, ["", "Ja.", " \n"])["translatedText"] == ["", *translated(["Ja."]), "\n"]
    assert translate(both, []) == {"translatedText": []} and translate(both, "") == {"translatedText": ""}
    forms = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert ask(both, "/translate?source=de&target=en", "POST", "q=Danke+sch%C3%B6n.&q=Ja.", forms)[2] == {
        "translatedText": translated(["Danke schön.", "Ja."])}


def test_alternatives(both):
    found = subprocess.run([TRANSLATE, GERMAN, "--beam", "3", "--n-best", "3"], text=True, capture_output=True,
                           input="".join(f"{line}\n" for line in LINES), check=True).stdout.split("\n")[:-1]
    found = [line.split("\t")[1] for line in found]
    content = translate(both, LINES, alternatives=2)
    assert content["translatedText"] == found[::3]
    assert content["alternatives"] == [list(pair) for pair in zip(found[1::3], found[2::3])]
    one = translate(both, f"{LINES[0]} {LINES[1]}", alternatives="2")
    assert one["alternatives"][1] == f"{found[2]} {found[5]}"


def test_auto(german, both):
    assert translate(german, "Ja.", source="auto") == {"translatedText": translated(["Ja."])[0],
                                                       "detectedLanguage": {"confidence": 0, "language": "de"}}
    assert len(translate(german, ["Ja.", "Nein."], source="auto")["detectedLanguage"]) == 2
    chinese = ["她忘了關窗戶。", "孩子们在公园里玩。"]
    found = translate(both, [LINES[0], *chinese, LINES[1]], source="auto", alternatives=1)
    expected, expected_chinese = translated(LINES[:2], "--beam", 2), translated(chinese, "--beam", 2, model=CHINESE)
    assert found["translatedText"] == [expected[0], *expected_chinese, expected[1]]
    assert [one["language"] for one in found["detectedLanguage"]] == ["de", "zh", "zh", "de"]
    assert all(50 < one["confidence"] <= 100 for one in found["detectedLanguage"]) and len(found["alternatives"]) == 4
    long = "viel " * 600
    status, _, content = post(both, {"q": [*chinese, "Ja.", long], "source": "auto", "target": "en", "plain": True})
    assert status == 400 and content["error"].startswith("q[3]: ")


def copied(path, change):
    """Writes a copy of the German model with another config, and returns its path."""
    data = GERMAN.read_bytes()
    size = int.from_bytes(data[:8], "little")
    parsed = json.loads(data[8:8 + size])
    config = json.loads(parsed["__metadata__"]["transformer.config"])
    config.update(change)
    parsed["__metadata__"]["transformer.config"] = json.dumps(config)
    text = json.dumps(parsed).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
    return path


def through(options, text, *models):
    """Returns the output of translate with two models, without the line end that the text does not have."""
    done = subprocess.run([TRANSLATE, *models, *options], input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode().removesuffix("" if text.endswith("\n") else "\n")


def test_a_way_through_another_language():
    """The second model is the Chinese one: what it makes of English does not matter here, only that it is used."""
    with server(models=(f"de:en={GERMAN}", f"fr:en={GERMAN}", f"fr:zh={GERMAN}", f"en:zh={CHINESE}", f"zh:it={GERMAN}")) as (_, port):
        listed = {one["code"]: one["targets"] for one in ask(port, "/languages")[2]}
        assert listed == {"de": ["en", "zh"], "fr": ["en", "zh", "it"], "en": ["zh", "it"], "zh": ["it"], "it": []}
        found = translate(port, TEXT, target="zh")
        assert (found["translatedText"], found["way"]) == (through(["--document"], TEXT, GERMAN, CHINESE), ["de", "en", "zh"])
        found = translate(port, [*LINES, ""], target="zh", alternatives=1)
        assert len(found["alternatives"]) == len(LINES) + 1 and found["way"] == [["de", "en", "zh"]] * (len(LINES) + 1)
        assert LibreTranslateAPI(f"http://127.0.0.1:{port}").translate(TEXT, "de", "zh") == through(
            ["--document"], TEXT, GERMAN, CHINESE)
        page = "<p>Ich habe ein <b>Haus</b> am See.</p>"
        assert translate(port, page, target="zh", format="html")["translatedText"] == through(
            ["--html"], through(["--html"], page, GERMAN), CHINESE)
        assert "way" not in translate(port, "Ja.", source="fr", target="zh")
        mixed = translate(port, [LINES[0], "Je ne sais pas."], source="auto", target="zh")
        assert mixed["way"] == [["de", "en", "zh"], None]
        status, _, content = post(port, {**GOOD, "q": ["Ja.", "viel " * 600], "target": "zh", "plain": True})
        assert status == 400 and content["error"].startswith("q[1]: ")
        deepl = {"text": ["Ja."], "source_lang": "DE", "target_lang": "ZH"}
        assert post(port, deepl, "/v2/translate")[2]["translations"][0]["way"] == ["de", "en", "zh"]
        content = post(port, {"name": "g", "source_lang": "de", "target_lang": "zh", "entries": "a\tb", "entries_format": "tsv"},
                       "/v2/glossaries")[2]
        assert content == {"message": "glossaries need a model from de to zh: the way leads through en"}


def test_codes_of_languages(tmp_path):
    model = copied(tmp_path / "model", {"languages": {"deu_Latn": 300, "eng_Latn": 301, "zho_Hans": 302, "zho_Hant": 303, "pt_BR": 304},
                                        "src_language": "source", "tgt_language": "forced"})
    with server(models=[model]) as (_, port):
        assert [one["name"] for one in ask(port, "/languages")[2]] == ["German", "English", "Chinese", "Chinese", "Portuguese"]
        expected = {to: translate(port, "Ja.", source="deu_Latn", target=to) for to in ("eng_Latn", "zho_Hans", "zho_Hant", "pt_BR")}
        for source in ("de", "DE", "de-AT", "deu", "DEU_latn", "de_DE"):
            assert translate(port, "Ja.", source=source, target="en-GB") == expected["eng_Latn"]
        for to, code in (("zh", "zho_Hans"), ("zh-Hant", "zho_Hant"), ("ZH-HANS", "zho_Hans"), ("pt", "pt_BR")):
            assert translate(port, "Ja.", source="de", target=to) == expected[code]
        assert translate(port, "Ich weiß es nicht.", source="auto", target="en")["detectedLanguage"]["language"] == "deu_Latn"
        for to in ("fr", "zh-Latn", "en-Cyrl", "x", "-"):
            assert post(port, {**GOOD, "target": to})[2]["error"] == f"{to} is not supported"


def test_without_the_detector(tmp_path):
    program = tmp_path / "server.py"
    program.write_text("import sys\nsys.modules['py3langid'] = sys.modules['py3langid.langid'] = None\n"
                       f"sys.path.insert(0, {str(SERVER)!r})\nimport server\nserver.main()\n", encoding="utf-8")
    with server(program=program, models=BOTH) as (_, port):
        for path in ("/translate", "/detect"):
            status, _, content = post(port, {"q": "Ja.", "source": "auto", "target": "en"}, path)
            assert (status, content["error"]) == (400, "detect_language needs py3langid: pip install 'transformer-h[detect]'; "
                                                  "without it source is one of de zh")
    with server(program=program) as (_, port):
        assert translate(port, "Ja.", source="auto")["detectedLanguage"] == {"confidence": 0, "language": "de"}
        assert post(port, {"q": "Ja."}, "/detect")[2] == [{"confidence": 0, "language": "de"}]


def test_a_model_of_several_languages(tmp_path):
    path = copied(tmp_path / "model", {"languages": {"de_DE": 300, "en_XX": 301, "fr": 302}, "src_language": "source",
                                       "tgt_language": "forced"})
    with server(models=[path]) as (_, port):
        codes = [one["code"] for one in ask(port, "/languages")[2]]
        assert codes == ["de_DE", "en_XX", "fr"] and ask(port, "/languages")[2][0]["targets"] == codes[1:]
        assert ask(port, "/languages")[2][1]["name"] == "English"
        found = {pair: translate(port, LINES, source=pair[0], target=pair[1])["translatedText"]
                 for pair in (("de_DE", "en_XX"), ("de_DE", "fr"), ("fr", "en_XX"))}
        for (source, target), texts in found.items():
            assert texts == translated(LINES, "--from", source, "--to", target, model=path)
        assert len({tuple(one) for one in found.values()}) == 3
        assert "not available" in post(port, {"q": "a", "source": "fr", "target": "fr"})[2]["error"]
    for model, word in ((f"de:en={path}", "the request's to say"), (str(GERMAN), "to be stated"),
                        ("de:en=none", "none"), (f"de:en={ROOT}/tests/data/models/bart.safetensors", "no src_vocabulary"),
                        (f"de:en={ROOT}/tests/data/models/t5.safetensors", "no src_vocabulary")):
        done = subprocess.run([sys.executable, SERVER / "server.py", model], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith("server.py: ") and word in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["uvicorn", "starlette", "httptools", "transformer_h"])
def test_a_missing_package_is_one_line_of_advice(missing):
    program = f"import sys; sys.path.insert(0, {str(SERVER)!r}); sys.modules[{missing!r}] = None; import server"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert missing in done.stderr and "pip install ./tools/python -r tools/requirements-server.txt" in done.stderr


def test_settings_health_metrics_and_cors(german):
    assert ask(german, "/health")[2] == {"status": "ok"}
    settings = ask(german, "/frontend/settings")[2]
    assert settings["charLimit"] == 50000 and settings["keyRequired"] is False
    assert settings["language"] == {"source": {"code": "de", "name": "German"}, "target": {"code": "en", "name": "English"}}
    before = metrics(german)
    translate(german, [*LINES, LINES[0]])
    after = metrics(german)
    asked = ("path", "/translate"), ("status", "200")
    for key, more in ((("transformer_requests_total", *asked), 1), (("transformer_work_seconds_count", asked[0]), 1),
                      (("transformer_waiting_seconds_bucket", ("le", "+Inf"), asked[0]), 1),
                      (("transformer_characters_total",), len("".join(LINES) + LINES[0]))):
        assert after[key] - before.get(key, 0) == more, key
    assert after["transformer_sentences_waiting",] == 0 and after["process_cpu_seconds_total",] > 0
    for origin, expected in (("https://a.org", "https://a.org"), ("https://b.org", None)):
        assert ask(german, "/health", headers={"Origin": origin})[1]["access-control-allow-origin"] == expected
    preflight = ask(german, "/translate", "OPTIONS", headers={
        "Origin": "https://a.org", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"})
    assert preflight[0] == 200 and "POST" in preflight[1]["access-control-allow-methods"]


# ---- refused requests -----------------------------------------------------------------------------


GOOD = {"q": "Ja.", "source": "de", "target": "en"}


@pytest.mark.parametrize("change, word", [
    ({"q": None}, "missing q"), ({"q": 5}, "neither a text nor a list"), ({"q": {"a": 1}}, "neither"),
    ({"q": ["Ja.", 5]}, "neither"), ({"q": [["Ja."]]}, "neither"), ({"q": True}, "neither"),
    ({"source": None}, "missing source"), ({"source": ""}, "missing source"), ({"source": 7}, "source is not a text"),
    ({"target": ["en"]}, "target is not a text"), ({"target": "fr"}, "fr is not supported"),
    ({"source": "x" * 10 ** 5}, "xxx... is not supported"), ({"source": "\ud800"}, "? is not supported"),
    ({"target": "zh"}, "Chinese (zh) is not available"), ({"source": "en"}, "not available"),
    ({"source": "auto", "target": "fr"}, "fr is not supported"),
    ({"format": "docx"}, "docx format is not supported: it is one of text html"), ({"format": 1}, "format is not a text"),
    ({"alternatives": -1}, "from 0 to 5"), ({"alternatives": 6}, "from 0 to 5"), ({"alternatives": 1.5}, "from 0"),
    ({"alternatives": True}, "from 0"), ({"alternatives": "x"}, "from 0"), ({"alternatives": "9" * 5000}, "from 0"),
    ({"q": "a" * 50001}, "(50001) exceeds text limit (50000)"), ({"q": [""] * 1025}, "(1025) exceeds"),
    ({"q": ["Ja.", "\ud800"]}, "q[1]: text is not UTF-8 at byte 0"),
    ({"q": "Ja. " + "viel " * 600, "plain": True}, "q: "), ({"plain": "maybe"}, "plain is neither true nor false"),
])
def test_bad_requests(both, change, word):
    status, _, content = post(both, {**GOOD, **change})
    assert status == 400 and word in content["error"], content
    assert translate(both, "Ja.")["translatedText"] == translated(["Ja."])[0]


def test_forms_in_parts_and_empty_formats(both):
    """As fetch with FormData and curl -F send them. A key may be given several times."""
    def sent(*fields):
        body = "".join(f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields) + "--x--\r\n"
        return ask(both, "/translate", "POST", body.encode(), {"Content-Type": "multipart/form-data; boundary=x"})
    pair = ("source", "de"), ("target", "en")
    status, _, content = sent(("q", "Größe ist gut."), *pair, ("format", ""))
    assert (status, content["translatedText"]) == (200, translated(["Größe ist gut."])[0])
    assert sent(("q", LINES[0]), ("q", LINES[1]), *pair)[2]["translatedText"] == translated(LINES[:2])
    assert sent(("q", "Ja."), ("source", "de"))[2]["error"] == "Invalid request: missing target parameter"
    for nothing in (None, ""):
        assert translate(both, "Ja <b>gut</b>.", format=nothing) == translate(both, "Ja <b>gut</b>.", format="text")
    assert post(both, {**GOOD, "format": []})[0] == 200 and post(both, {**GOOD, "format": ["html"]})[0] == 400


def test_too_long_is_the_librarys_message(both):
    text = "viel " * 600
    said = subprocess.run([TRANSLATE, GERMAN, "--plain", "--max-source", "512"], input=f"{text}\n", text=True, capture_output=True)
    assert said.returncode == 1 and "512" in said.stderr
    content = post(both, {**GOOD, "q": ["Ja.", text], "plain": True})[2]
    assert content["error"].removeprefix("q[1]: ") in said.stderr and content["error"].startswith("q[1]: ")


@pytest.mark.parametrize("body, kind, status, word", [
    (b'{"q": "\xff"}', "application/json", 400, "not UTF-8 at byte 7"),
    (b"q=%ff&source=de&target=en", "application/x-www-form-urlencoded", 400, "not UTF-8"),
    (b"q=\xc3&source=de&target=en", "application/x-www-form-urlencoded", 400, "not UTF-8"),
    (b"{", "application/json", 400, "cannot be read"), (b"", "application/json", 400, "cannot be read"),
    (b"[" * 10 ** 6, "application/json", 400, "cannot be read"), (b"[1]", "application/json", 400, "not a JSON object"),
    (b'{"alternatives": ' + b"9" * 5000 + b"}", "application/json", 400, "cannot be read"),
    (b"q=a&" * 20000, "application/x-www-form-urlencoded", 400, "cannot be read"),
    (b'{"q": "Ja."}', "text/plain", 415, "neither"), (b"--x", "multipart/form-data; boundary=x", 400, "missing q"),
    (b"--x", "multipart/form-data", 400, "cannot be read"), (b'--x\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\nJa.\r\n--x--\r\n', "multipart/form-data; boundary=x", 400, "/translate_file takes files"),
    (b" " * (1 << 20) + b" ", "application/json", 413, "larger than 1048576"),
])
def test_broken_bodies(both, body, kind, status, word):
    found = raw(both, head(len(body), kind) + body)
    assert found.startswith(b"HTTP/1.1 %d " % status) and word in json.loads(found.split(b"\r\n\r\n", 1)[1])["error"]


def test_odd_characters_are_text(both):
    odd = ["a\0b", "\ufeffJa.", "🙂" * 20, "\u202e Ja.", "a\u0301" * 30, "\r\nJa.\r\n", "\u2028Ja."]
    assert len(translate(both, odd)["translatedText"]) == len(odd)


def test_other_paths_and_methods(both):
    assert ask(both, "/none")[::2] == (404, {"error": "Not Found"})
    assert ask(both, "/translate")[::2] == (405, {"error": "Method Not Allowed"})
    for garbage in (b"\x16\x03\x01\x02\x00" + b"x" * 50, b"GET\r\n\r\n", b"POST /translate HTTP/9.9\r\n\r\n"):
        assert raw(both, garbage).startswith(b"HTTP/1.1 400 ")


def test_clients_that_are_slow_or_endless():
    with server("--read-timeout", 1, "--body-limit", 100000) as (_, port):
        whole = json.dumps(GOOD).encode()
        for data, status in ((b"", b""), (b"POST /trans", b""), (head(100), b"408"), (head(100) + b"{", b"408")):
            began = time.monotonic()
            found = raw(port, data)
            assert found[9:12] == status and 0.8 < time.monotonic() - began < 10
        # a body that never ends
        chunked = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        found = raw(port, chunked + b"1000\r\n" + b" " * 4096 + b"\r\n" + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 1000)
        assert found == b"" or found.startswith(b"HTTP/1.1 413 ")
        # byte by byte, within the time limit
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for at in range(0, len(head(len(whole)) + whole), 50):
                connection.sendall((head(len(whole)) + whole)[at:at + 50])
                time.sleep(0.02)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert translate(port, "Ja.")


# ---- heads and logs -------------------------------------------------------------------------------


def sized(size, kind):
    """Returns a request whose head has this many bytes."""
    if kind == "path":
        return b"GET /" + b"a" * (size - 27) + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    begin = b"GET /health HTTP/1.1\r\nHost: x\r\n"
    rest = size - len(begin) - 2
    if kind == "one header":
        return begin + b"a: " + b"b" * (rest - 5) + b"\r\n\r\n"
    headers = b"a: b\r\n" * (rest // 6 - 1)
    return begin + headers + b"c: " + b"d" * (rest - len(headers) - 5) + b"\r\n\r\n"


def in_pieces(port, data, pieces, before=b""):
    """Returns the answer to data that is sent in pieces. before: a request that is answered first."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        if before:
            connection.sendall(before)
            first = b""
            while not first.endswith(b'{"status":"ok"}'):
                first += connection.recv(65536)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = b""
        try:
            for at in range(0, len(data), pieces):
                connection.sendall(data[at:at + pieces])
                time.sleep(0.001 if pieces < len(data) else 0)
            connection.settimeout(3)
            while part := connection.recv(65536):
                found += part
                if found.endswith(b"}"):
                    break
        except (ConnectionResetError, BrokenPipeError):
            pass
        return found


@pytest.mark.parametrize("kind", ["path", "one header", "many headers"])
def test_large_heads_are_refused_however_they_arrive(german, kind):
    assert len(sized(65536, kind)) == 65536
    whole = b"HTTP/1.1 404 " if kind == "path" else b"HTTP/1.1 200 "
    ok = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    for pieces in (10 ** 6, 16384, 1500):
        for before in (b"", ok):
            assert in_pieces(german, sized(65536, kind), pieces, before).startswith(whole), (pieces, before)
            for size in (65537, 70000, 300000):
                found = in_pieces(german, sized(size, kind), pieces, before)
                # If more data are on their way when the server closes, its answer may be lost.
                assert found.startswith(b"HTTP/1.1 431 ") or found == b"", (pieces, size, found[:100])
                if pieces == 10 ** 6 and size < 70000 and not before:
                    assert json.loads(found.split(b"\r\n\r\n")[1])["error"].endswith("larger than 65536 bytes")


def test_heads_in_odd_places(german):
    body = json.dumps(GOOD).encode()
    good = head(len(body)).replace(b"Connection: close\r\n", b"") + body
    # Tests a head that ends at each position of two pieces. The body must not count as part of it.
    large = json.dumps({**GOOD, "q": ["Ja."] + [""] * 1000, "x": " " * 100000}).encode()
    request = head(len(large)) + large
    for cut in range(len(head(len(large))) - 5, len(head(len(large))) + 2):
        with socket.create_connection(("127.0.0.1", german), timeout=20) as connection:
            connection.sendall(request[:cut])
            time.sleep(0.02)
            connection.sendall(request[cut:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 "), cut
    # Tests requests that do not wait for answers, and then a head behind a body that is too large.
    with socket.create_connection(("127.0.0.1", german), timeout=20) as connection:
        connection.sendall(good * 3 + sized(70000, "many headers"))
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except ConnectionResetError:
            pass
        assert found.count(b"HTTP/1.1 200 ") <= 3 and b"ok" not in found
    # Tests headers without end behind a body, and in the sizes of its chunks.
    chunked = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"%x\r\n" % len(body) + body + b"\r\n"
    assert raw(german, chunked + b"0\r\na: b\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    for trailer in (b"0\r\n" + b"a: b\r\n" * 10 ** 5 + b"\r\n", b"0\r\na: " + b"b" * 10 ** 6 + b"\r\n\r\n",
                    b"1;" + b"x" * 10 ** 6 + b"\r\n \r\n0\r\n\r\n"):
        assert b"HTTP/1.1 200 " not in raw(german, chunked + trailer)
    assert translate(german, "Ja.")


def test_a_host_is_no_path(german):
    for host in (b"x/y?", b"x/translate#", b'x/a"b', b"[::", b"x" * 1000):
        found = raw(german, b"GET /health HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 200 "), (host, found[:200])
    paths = {key[1][1] for key in metrics(german) if key[0] == "transformer_requests_total"}
    assert paths <= set(ask(german, "/spec")[2]["paths"])


def test_logs_are_bounded(tmp_path):
    with open(tmp_path / "log", "wb") as log, server(log=log) as (_, port):
        for path in (b"/" + b"a" * 60000, b"/%0a%1b[31m%00", b"/\x1b[31m", b"/\xff\xfe", b"http://[::/x", b"//", b"*", b"/%ff" * 5000):
            for method in (b"GET", b"POST", b"BREW", b"\x1b[2J"):
                raw(port, method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for _ in range(200):
            raw(port, b"\x1b]0;title\x07" + b"x" * 1000 + b"\r\n\r\n")
            raw(port, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n")
        assert translate(port, "Ja.")
    written = (tmp_path / "log").read_bytes()
    assert 0 < len(written) < 20000 and written.count(b"\n") < 200, written[:2000]
    assert not re.search(rb"[^\n -~]", written) and b"left out" in written


def test_a_message_of_the_log():
    program = (f"import sys, logging\nsys.path.insert(0, {str(SERVER)!r})\nfrom log import Log\n"
               "logging.basicConfig(handlers=[Log()])\n"
               "logging.warning('a\\n2026 forged: \\x1b[31m \\u202e \\ud800 ok')\n"
               "try: {}['k' * 10 ** 6]\nexcept KeyError: logging.exception('failed')\n"
               "for i in range(1000): logging.error('%d', i)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = done.stderr.split("\n")[:-1]
    assert done.returncode == 0 and lines[0].endswith("root: a")
    assert lines[1] == r"  2026 forged: \x1b[31m \u202e \ud800 ok"
    assert lines[2].endswith("root: failed") and any("characters ..." in line for line in lines)
    assert len(done.stderr) < 10000 and lines[-1] == "more messages of this minute are left out"


def test_keys_and_rates(tmp_path):
    (tmp_path / "keys").write_text("first\nschlüssel\n", encoding="utf-8")
    with server("--api-keys", tmp_path / "keys", "--req-limit", 3) as (_, port):
        assert LibreTranslateAPI(f"http://127.0.0.1:{port}", "first").translate("Ja.", "de", "en") == translated(["Ja."])[0]
        for key, word in ((None, "get an API key"), ("firs", "Invalid"), ("\ud800", "Invalid"), (5, "get an API key")):
            status, _, content = post(port, {**GOOD, "api_key": key})
            assert status == 403 and word in content["error"]
        assert ask(port, "/frontend/settings")[2]["keyRequired"] is True
        found = [post(port, {**GOOD, "api_key": "schlüssel"}) for _ in range(4)]
        assert [status for status, _, _ in found] == [200, 200, 200, 429]
        assert 1 <= int(found[3][1]["retry-after"]) <= 20 and found[3][2]["error"] == "Slowdown: 3 per 1 minute"
        assert post(port, {**GOOD, "api_key": "first"})[0] == 200


# ---- load, and the end ----------------------------------------------------------------------------


def in_threads(n, run):
    found = [None] * n
    crew = [threading.Thread(target=lambda i=i: found.__setitem__(i, run(i))) for i in range(n)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return found


def test_batches_across_requests():
    lines = made_up(300)
    with server("--threads", 1) as (_, port):
        found = in_threads(30, lambda i: [translate(port, line)["translatedText"] for line in lines[i::30]])
        expected = translated(lines)
        assert found == [expected[i::30] for i in range(30)]
        assert metrics(port)["transformer_batches_total",] < len(lines) / 4


def test_a_full_queue_and_a_timeout(tmp_path):
    """Of one API key, whatever its connections. Another key's requests have a limit of their own."""
    lines = made_up(64)
    (tmp_path / "keys").write_text("one\nother\n")
    with server("--threads", 1, "--queue", 64, "--timeout", 60, "--api-keys", tmp_path / "keys") as (_, port):
        def sent(i):
            if i == 12:
                wait_until(lambda: metrics(port, "one")["transformer_sentences_waiting",])
                assert post(port, {**GOOD, "q": lines, "api_key": "other"})[2]["translatedText"] == translated(lines)
            return post(port, {**GOOD, "q": lines[i:i + 40], "api_key": "one"})
        found = in_threads(13, sent)[:12]
        expected = translated(lines)
        assert {status for status, _, _ in found} == {200, 503}
        for i, (status, headers, content) in enumerate(found):
            if status == 200:
                assert content["translatedText"] == expected[i:i + 40]
            else:
                assert int(headers["retry-after"]) >= 1 and "busy" in content["error"]
        assert translate(port, lines, api_key="one")["translatedText"] == expected
    with server("--threads", 1, "--char-limit", 10 ** 6, "--timeout", 0.05) as (_, port):
        status, headers, content = post(port, {**GOOD, "q": made_up(1000)})
        assert (status, content["error"]) == (503, "not translated in 0.05 seconds") and headers["retry-after"]
        wait_until(lambda: not metrics(port)["transformer_sentences_waiting",])


def wait_until(good):
    until = time.monotonic() + 60
    while not good():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_large_request_takes_turns_and_is_left_when_its_client_leaves():
    with server("--threads", 1, "--char-limit", 10 ** 6, "--batch", 8) as (_, port):
        body = json.dumps({**GOOD, "q": made_up(1000)}).encode()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head(len(body)) + body)
            wait_until(lambda: metrics(port)["transformer_batches_total",])
            translate(port, "Ja.")  # before all of that
            assert metrics(port)["transformer_sentences_waiting",] > 0
        wait_until(lambda: not metrics(port)["transformer_sentences_waiting",])
        now = metrics(port)
        assert now["transformer_batches_total",] < 100
        assert now["transformer_requests_total", ("path", "/translate"), ("status", "499")] == 1


def received(port):
    """How many requests for a translation the server has begun, answered ones too: a request may end before the
    last one begins. The request for the metrics is active, too."""
    now = metrics(port)
    return now["transformer_requests_active",] - 1 + sum(
        value for key, value in now.items() if key[0] == "transformer_requests_total" and ("path", "/translate") in key)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_is_graceful(number):
    lines = made_up(1600)
    with server("--threads", 1) as (run, port):
        def each(i):
            if i < 8:
                return translate(port, lines[200 * i:200 * i + 200])["translatedText"]
            wait_until(lambda: received(port) == 8)
            run.send_signal(number)
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                except ConnectionRefusedError:
                    return "refuses"
                time.sleep(0.05)
        found = in_threads(9, each)
        assert [line for part in found[:8] for line in part] == translated(lines) and found[8] == "refuses"
        assert run.wait(timeout=20) == 0
        with server("--threads", 1, port=port) as (_, again):  # restarts at once
            assert again == port and translate(port, "Ja.")


def test_the_readmes_lines():
    text = (ROOT / "examples/server/README.md").read_text(encoding="utf-8")
    shown = re.findall(r"\$ curl .*?(-d .*)\n +(\{.*\})", text)
    assert shown
    with server() as (_, port):
        for options, expected in shown:
            done = subprocess.run(f"curl -s http://127.0.0.1:{port}/translate {options}", shell=True, capture_output=True)
            assert json.loads(done.stdout) == json.loads(expected)
