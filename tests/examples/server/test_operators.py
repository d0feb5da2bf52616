"""What operators of examples/server/server.py expect: descriptions, numbers, new models without a pause, messages: make test-server"""

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

import deepl
import pytest
from load import GERMAN, ROOT, server, translated
from openapi_spec_validator import OpenAPIV31SpecValidator
from test_server import BOTH, CHINESE, GOOD, SERVER, ask, metrics, post, translate, wait_until

WHISPER = ROOT / "tests/data/transcribe/whisper.safetensors"
PAGE = "<p>Ich habe <b>gestern</b> ein rotes Buch gekauft.</p>"


@pytest.fixture(scope="module")
def port():
    with server("--speech", WHISPER, models=BOTH) as (_, port):
        yield port


# ---- /spec and /docs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spec(port):
    return ask(port, "/spec")[2]


def test_the_description_is_openapi(spec, tmp_path):
    assert not list(OpenAPIV31SpecValidator(spec).iter_errors()) and "security" not in json.dumps(spec)
    spec = json.loads(json.dumps(spec))
    spec["paths"]["/translate"]["post"]["responses"] = {}
    assert list(OpenAPIV31SpecValidator(spec).iter_errors())
    (tmp_path / "keys").write_text("one\n")
    with server("--api-keys", tmp_path / "keys") as (_, port):
        locked = ask(port, "/spec")[2]
        assert not list(OpenAPIV31SpecValidator(locked).iter_errors())
        assert locked["paths"]["/translate"]["post"]["security"] == [{"parameter": []}, {"header": []}]
        assert "/listen" not in locked["paths"] and "security" not in locked["paths"]["/health"]["get"]


def test_the_description_has_every_route(spec, port):
    """The specification has each route of the app except the page's files, and the app has each route of the specification."""
    for path, methods in spec["paths"].items():
        for method, one in methods.items():
            if "101" not in one["responses"]:  # no WebSocket
                assert ask(port, path.replace("{id}", "x" * 20).replace("{name}", "x"), method.upper())[0] != 405, (method, path)
    for path in ("/", "/page.js", "/models.json"):
        assert path not in spec["paths"] and ask(port, path)[0] == 200
    written = "".join(one.read_text() for one in SERVER.glob("*.py"))
    routes = set(re.findall(r'(?:Endpoint\(f?|^    path\b.* = )"(/[^"]*)"', written, re.MULTILINE))
    routes -= set() if "/listen" in spec["paths"] else {"/listen", "/follow"}  # they need --speech
    assert "/live" in routes
    assert len(routes) > 20 and routes - {"/models.json"} <= set(spec["paths"]) | {"/v3/glossaries/{id}"}


EXAMPLES = {"q": "Guten Tag.", "text": "Guten Tag.", "source": "de", "target": "en", "source_lang": "DE", "target_lang": "EN", "format": "text",
            "alternatives": 1, "sentences": "split", "tag_handling": "xml", "splitting_tags": "a", "non_splitting_tags": "b",
            "outline_detection": "true", "split_sentences": "1", "formality": "default", "show_billed_characters": "true",
            "name": "n", "entries": "a\tb", "entries_format": "tsv", "type": "target"}


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v2/translate", "/v2/languages", "/v2/usage", "/v2/glossaries", "/frontend/settings",
                                  "/health", "/languages"])
def test_answers_are_as_described(spec, port, path):
    """The description's fields are taken, and the answer has those that must be there and no other ones that are not described."""
    for method, one in spec["paths"][path].items():
        fields = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}).get("properties", {})
        given = {name: EXAMPLES[name] for name in fields if name in EXAMPLES}
        if method == "post":
            status, _, content = post(port, given, path)
        else:
            status, _, content = ask(port, path)
        assert str(status) in one["responses"], content
        schema = one["responses"][str(status)]["content"]["application/json"]["schema"]
        schema, content = (schema["items"], content[0]) if schema["type"] == "array" else (schema, content)
        assert set(schema.get("required", ())) <= set(content)
        if path != "/frontend/settings":  # has more, for LibreTranslate's page
            assert set(content) <= set(schema["properties"]), path


def test_the_page_about_the_api(port, spec):
    status, headers, data = ask(port, "/docs")
    page = data.decode()
    assert status == 200 and headers["content-type"].startswith("text/html") and "<script" not in page and "http" not in page
    assert all(f"<code>{path}</code>" in page for path in spec["paths"]) and "<code>target_lang</code><td>needed" in page


# ---- numbers ---------------------------------------------------------------------------------------


def test_every_route_has_both_histograms(port):
    client = deepl.DeepLClient("any key", server_url=f"http://127.0.0.1:{port}")
    client.translate_text("Guten Tag.", target_lang="EN-US")
    handle = client.translate_document_upload(PAGE, filename="a.html", source_lang="DE", target_lang="EN-US")
    client.translate_document_wait_until_done(handle)
    b"".join(client.translate_document_download(handle).iter_content(99))
    for path in ("/health", "/languages", "/"):
        ask(port, path)
    translate(port, "Guten Tag.")
    post(port, {"q": "Ja."}, "/detect")
    assert post(port, {**GOOD, "target": "xx"})[0] == 400
    now = metrics(port)
    for path in ("/v2/translate", "/v2/document", "/v2/document/{id}", "/v2/document/{id}/result", "/translate", "/detect", "/health", "/"):
        for name in ("waiting", "work"):
            assert now[f"transformer_{name}_seconds_count", ("path", path)] >= 1, (name, path)
    good = now["transformer_requests_total", ("path", "/translate"), ("status", "200")]
    assert now["transformer_work_seconds_count", ("path", "/translate")] == good  # not the one that was refused
    assert now["transformer_work_seconds_count", ("path", "/v2/document")] == 1


def test_waiting_is_not_work():
    with server("--threads", 1) as (_, port):
        lines = [f"Der Hund {i} schläft im Garten." for i in range(600)]
        thread = threading.Thread(target=lambda: translate(port, lines))
        thread.start()
        wait_until(lambda: metrics(port)["transformer_sentences_waiting",])
        for _ in range(3):
            translate(port, "Ja.")
        thread.join()
        now = metrics(port)
        waited, worked = (now[f"transformer_{name}_seconds_sum", ("path", "/translate")] for name in ("waiting", "work"))
        assert waited > 0 < worked and now["transformer_waiting_seconds_count", ("path", "/translate")] == 4


def test_numbers_need_the_key(tmp_path):
    (tmp_path / "keys").write_text("one\n")
    with server("--api-keys", tmp_path / "keys") as (_, port):
        assert ask(port, "/metrics")[0] == 403 == ask(port, "/metrics?api_key=two")[0]
        for path, headers in (("/metrics?api_key=one", {}), ("/metrics", {"Authorization": "Bearer one"}),
                              ("/metrics", {"Authorization": "DeepL-Auth-Key one"})):
            assert ask(port, path, headers=headers)[0] == 200


# ---- new models, and messages ----------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_new_models_without_a_pause(tmp_path):
    model, keys = tmp_path / "model.safetensors", tmp_path / "keys"
    shutil.copy(GERMAN, model)
    keys.write_text("one\n")
    with open(tmp_path / "log", "wb") as log, server("--threads", 1, "--api-keys", keys, models=[f"de:en={model}"], log=log) as (run, port):
        answers, stop = [], threading.Event()

        def ask_again():
            while not stop.is_set():
                answers.append(post(port, {**GOOD, "q": "Guten Tag.", "api_key": "one"})[::2])
        threads = [threading.Thread(target=ask_again) for _ in range(3)]
        for one in threads:
            one.start()

        def says(text):
            wait_until(lambda: (tmp_path / "log").read_text().count(text))
        expected = [translated(["Guten Tag."])[0], translated(["Guten Tag."], model=CHINESE)[0]]
        wait_until(lambda: len(answers) > 3)
        new = tmp_path / "new"
        shutil.copy(CHINESE, new)  # another model, as a test can see it
        new.replace(model)
        keys.write_text("one\ntwo\n")
        run.send_signal(signal.SIGHUP)
        says("loaded anew")
        wait_until(lambda: answers[-1][1].get("translatedText") == expected[1])
        assert post(port, {**GOOD, "api_key": "two"})[0] == 200
        model.write_bytes(b"no model")
        run.send_signal(signal.SIGHUP)
        says("SIGHUP: the models stay as they are: ")
        time.sleep(0.5)
        stop.set()
        for one in threads:
            one.join()
        assert {status for status, _ in answers} == {200}
        assert {content["translatedText"] for _, content in answers} == set(expected) and len(set(expected)) == 2
        assert answers[-1][1]["translatedText"] == expected[1]


def started(*options):
    return subprocess.run([sys.executable, SERVER / "server.py", *map(str, options)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use(host):
    """The message comes before the models are loaded: this model does not exist."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        used = other.getsockname()[1]
        done = started("de:en=none", "--port", used, "--host", host)
        assert (done.returncode, done.stderr) == (1, f"server.py: port {used} is in use: --port chooses another one\n")
    done = started("de:en=none", "--host", "192.0.2.1", "--port", used)
    assert done.returncode == 1 and re.fullmatch(r"server.py: 192.0.2.1 is no address of this machine \(--host\): .*\n", done.stderr)


@pytest.mark.parametrize("given, word", [
    (["--bean=2"], "did you mean --beam?"), (["--weights", "i88"], "did you mean i8?"), (["--sentences", "hole"], "did you mean whole?")])
def test_near_words(given, word):
    done = started(f"de:en={GERMAN}", *given)
    assert done.returncode == 2 and word in done.stderr


# ---- small -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin, status", [("http://[::", 400), ("http://[x]:80", 400), ("http://other.org", 403)])
def test_origins_of_live_speech(port, origin, status):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect
    with connect(f"ws://127.0.0.1:{port}/listen?format=s16le&rate=16000", origin=origin, open_timeout=60) as one:
        assert json.loads(one.recv(timeout=30))["status"] == status
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=30)


def upload(port, name, data, **fields):
    body = "".join(f'--line\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in {
        "source": "de", "target": "en", **fields}.items()).encode()
    body += f'--line\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n--line--\r\n"
    return ask(port, "/translate_file", "POST", body, {"Content-Type": "multipart/form-data; boundary=line"})


@pytest.mark.parametrize("name", ["a\u202etxt.html", "\u2066a\u200ftxt.html", "a\x7ftxt.html"])
def test_names_that_turn_text_around(port, name):
    status, _, content = upload(port, name, PAGE.encode())
    assert status == 200 and content["translatedFileUrl"].endswith("/atxt_en.html")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", content["translatedFileUrl"].partition(str(port))[2])
    assert connection.getresponse().headers["content-disposition"] == "attachment; filename*=UTF-8''atxt_en.html"
    connection.close()


@pytest.mark.parametrize("name, status", [("ä" * 512, 201), ("ä" * 513, 400), ("a\nb", 400), ("a\u202eb", 400), ("\0", 400), ("👩‍🌾", 201)])
def test_names_of_glossaries(port, name, status):
    given = {"name": name, "source_lang": "DE", "target_lang": "EN", "entries": "a\tb", "entries_format": "tsv"}
    found, _, content = post(port, given, "/v2/glossaries")
    assert found == status, content
    many = {"name": name, "dictionaries": [{key: given[key] for key in given if key != "name"}]}
    assert post(port, many, "/v3/glossaries")[0] == status
    if status == 201:
        path = f"/v3/glossaries/{content['glossary_id']}"
        for new, expected in (("b" * 1024, 200), ("b" * 1025, 400)):
            assert ask(port, path, "PATCH", json.dumps({"name": new}), {"Content-Type": "application/json"})[0] == expected
        assert ask(port, path)[2]["name"] == "b" * 1024 and ask(port, path, "DELETE")[0] == 204


# ---- how far documents are -------------------------------------------------------------------------


def test_how_far_documents_are():
    """The page's way, and DeepL's. The seconds that are left are those that it takes."""
    text = "".join(f"Der Hund {i} schläft im Garten.\n\n" for i in range(3000)).encode()
    with server("--threads", 1) as (_, port):
        done, seen, id = [], [], "0123456789abcdef"
        thread = threading.Thread(target=lambda: done.append(upload(port, "a.txt", text, progress=id)))
        thread.start()
        while not done:
            status, _, content = ask(port, f"/progress/{id}")
            if status == 200:
                seen.append((time.monotonic(), content))
            time.sleep(0.1)
        ended = time.monotonic()
        thread.join()
        assert done[0][0] == 200 and ask(port, f"/progress/{id}")[0] == 404
        states = [one for _, one in seen]
        assert {one["status"] for one in states} <= {"queued", "translating"}
        numbers = [one["sentences_done"] for one in states if one["status"] == "translating"]
        assert numbers == sorted(numbers) and len(set(numbers)) > 5 and {one["sentences"] for one in states if "sentences" in one} == {3000}
        halfway = [(at, one) for at, one in seen if 1000 < one.get("sentences_done", 0) < 2000]
        for at, one in halfway:
            assert 0.3 < (one["seconds_remaining"] + 1) / (ended - at + 1) < 3, (one, ended - at)
        assert halfway
        client = deepl.DeepLClient("any key", server_url=f"http://127.0.0.1:{port}")
        handle = client.translate_document_upload(text.decode(), filename="a.txt", source_lang="DE", target_lang="EN-US")
        found = []
        while not found or not found[-1].done and found[-1].ok:
            found.append(client.translate_document_get_status(handle))
            time.sleep(0.1)
        seconds = [one.seconds_remaining for one in found if one.status == deepl.DocumentStatus.Status.TRANSLATING]
        assert len(set(seconds)) > 2 and seconds[-1] < max(seconds) and found[-1].ok
        for id in ("short", "x" * 65, "0123456789abcde!"):
            assert upload(port, "a.txt", b"Ja.", progress=id)[0] == 400


def test_documents_wait_for_their_turn():
    """They were refused if four were being translated."""
    many = "".join(f"Der Hund {i} schläft.\n\n" for i in range(200)).encode()
    with server("--threads", 1) as (_, port):
        found = [None] * 8

        def send(i):
            found[i] = upload(port, "a.txt", many)[0]
        threads = [threading.Thread(target=send, args=(i,)) for i in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert found == [200] * 8
