"""Tests the server's DeepL paths with DeepL's own client: make test-server"""

import json
import re
import subprocess
import sys

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from load import GERMAN, ROOT, server, translated
from test_server import BOTH, LINES, SERVER, TEXT, ask, metrics

CHINESE = ROOT / "examples/models/zh-en.safetensors"


def client_of(port, key="x"):
    return deepl.DeepLClient(key, server_url=f"http://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def port():
    with server(models=BOTH) as (_, port):
        yield port


@pytest.fixture()
def client(port):
    client = client_of(port)
    yield client
    for one in client.list_multilingual_glossaries():
        client.delete_multilingual_glossary(one)


def test_texts(client):
    found = client.translate_text(LINES, source_lang="DE", target_lang="EN-GB")
    assert [one.text for one in found] == translated(LINES)
    assert [one.detected_source_lang for one in found] == ["DE"] * len(LINES)
    assert [one.billed_characters for one in found] == [len(line) for line in LINES]
    assert client.translate_text(TEXT, source_lang="de", target_lang="EN-US").text == "\n".join(translated(TEXT.split("\n")))
    found = client.translate_text([LINES[0], "她忘了關窗戶。"], target_lang="EN-US", context="a letter", formality="prefer_more",
                                  preserve_formatting=True, model_type="quality_optimized")
    assert [one.detected_source_lang for one in found] == ["DE", "ZH"]
    assert [one.text for one in found] == [*translated(LINES[:1]), *translated(["她忘了關窗戶。"], model=CHINESE)]
    wrapped = "Ich habe ein\nHaus am See."
    assert client.translate_text(wrapped, target_lang="EN-US", split_sentences="nonewlines").text == translated(
        ["Ich habe ein Haus am See."])[0]


def test_tags(client):
    page = "<p>Ich habe ein <b>Haus</b> am See.</p>"
    for kind in ("html", "xml"):
        done = subprocess.run([ROOT / "build/translate", GERMAN, "--html"], input=page, capture_output=True, text=True, check=True)
        assert client.translate_text(page, source_lang="DE", target_lang="EN-US", tag_handling=kind).text == done.stdout
        assert "<b>" in done.stdout


def test_splitting_tags(client, port):
    """splitting_tags end a sentence, non_splitting_tags do not, and both come back with their attributes."""
    def made(text, **options):
        return client.translate_text(text, source_lang="DE", target_lang="EN-US", tag_handling="xml", **options).text
    one, two = "Ich bin müde.", "Der Hund schläft."
    assert made(f'<r><seg a="1">{one}</seg><seg/>{two}</r>', splitting_tags=["seg", "x"]) == (
        f'<r><seg a="1">{translated([one])[0]}</seg><seg/>{translated([two])[0]}</r>')
    whole = "Ich habe ein Haus am See."
    made_of = made(f"<r>{whole.replace('Haus', '<p>Haus</p>')}</r>", non_splitting_tags=["p"])
    assert re.sub("<[^>]*>", "", made_of) == translated([whole])[0] and "<p>" in made_of and "</p>" in made_of
    page = client.translate_text(whole.replace("Haus", "<p>Haus</p>"), source_lang="DE", target_lang="EN-US", tag_handling="html").text
    assert re.sub("<[^>]*>", "", page) != translated([whole])[0]
    # elements that are not listed end a sentence as the structure says, or without outline_detection not at all
    nested = f"<r><one>{one}</one><two>{two}</two><p>{one}</p></r>"
    alone = f"<r><one>{translated([one])[0]}</one><two>{translated([two])[0]}</two><p>{translated([one])[0]}</p></r>"
    for options in ({}, {"splitting_tags": ["two"]}, {"non_splitting_tags": ["q"]}, {"splitting_tags": ["one", "two", "p"], "outline_detection": False}):
        assert made(nested, **options) == alone, options
    flat = f"<r>{whole.replace('Haus', '<p>Haus</p>')}</r>"
    assert re.sub("<[^>]*>", "", made(flat, outline_detection=False)) == translated([whole])[0]
    for options, message in (({"tag_handling": None}, "splitting_tags needs tag_handling"), ({"splitting_tags": ["a b"]}, "is not a list of at most 1000 names")):
        with pytest.raises(deepl.DeepLException, match=message):
            client.translate_text(whole, target_lang="EN-US", **{"tag_handling": "xml", "splitting_tags": ["seg"], **options})


def test_languages_and_usage(client):
    assert [(one.code, one.name) for one in client.get_source_languages()] == [("DE", "German"), ("ZH", "Chinese")]
    assert [one.code for one in client.get_target_languages()] == ["EN-GB", "EN-US"]
    assert {(one.source_lang, one.target_lang) for one in client.get_glossary_languages()} == {("de", "en"), ("zh", "en")}
    before = client.get_usage().character.count
    client.translate_text("Guten Tag.", target_lang="EN-US")
    assert client.get_usage().character.count == before + 10 and not client.get_usage().any_limit_reached


@pytest.mark.parametrize("options, message", [
    ({"formality": "less"}, "formality less is not supported"), ({"target_lang": "FR"}, "FR is not supported"),
    ({"source_lang": "FR"}, "FR is not supported"), ({"source_lang": "EN"}, "not available"),
    ({"ignore_tags": "x"}, "ignore_tags is not supported"), ({"custom_instructions": ["be kind"]}, "custom_instructions is not"),
    ({"style_rule": "5"}, "style_id is not"), ({"translation_memory": "5"}, "translation_memory_id is not"),
    ({"tag_handling": "rtf"}, "tag_handling rtf is neither html nor xml"),
    ({"source_lang": "DE", "glossary": "nothing"}, "there is no glossary nothing"),
    ({"source_lang": "DE", "glossary_ids": ["a", "b"]}, "there is no glossary a")])
def test_refused(client, options, message):
    with pytest.raises(deepl.DeepLException, match=message):
        client.translate_text(LINES[0], **{"target_lang": "EN-US", **options})


def test_too_long(client):
    with pytest.raises(deepl.DeepLException, match=r"message: text\[1\]: .*512"):
        client.translate_text(["Ja.", "viel " * 600], source_lang="DE", target_lang="EN-US", split_sentences="0")


def test_keys(tmp_path):
    (tmp_path / "keys").write_text("first\nsecond\n")
    with server("--api-keys", tmp_path / "keys", "--req-limit", 100) as (_, port):
        with pytest.raises(deepl.AuthorizationException, match="Invalid API key"):
            client_of(port, "third").get_usage()
        first, second = client_of(port, "first"), client_of(port, "second")
        one = first.create_glossary("mine", "DE", "EN", {"Hund": "hound"})
        assert first.translate_text("Der Hund.", target_lang="EN-US").text == translated(["Der Hund."])[0]
        assert second.list_glossaries() == [] and len(first.list_glossaries()) == 1
        with pytest.raises(deepl.GlossaryNotFoundException):
            second.get_glossary(one.glossary_id)
        assert ask(port, "/v2/usage")[::2] == (403, {"message": "Please contact the server operator to get an API key"})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _, content = ask(port, "/v2/translate", "POST", "auth_key=first&text=Ja.&text=Nein.&target_lang=EN", form)
        assert status == 200 and [one["text"] for one in content["translations"]] == translated(["Ja.", "Nein."])
        assert "billed_characters" not in content["translations"][0]


# ---- glossaries -----------------------------------------------------------------------------------


def with_terms(tmp_path, terms, lines, model=GERMAN):
    (tmp_path / "terms").write_text("".join(f"{a}\t{b}\n" for a, b in terms.items()), encoding="utf-8")
    return translated(lines, "--terms", tmp_path / "terms", model=model)


def test_a_glossary(client, tmp_path):
    terms, lines = {"Hund": "hound", "die Katze": "moggy"}, ["Der Hund bellt. Die Katze schläft.", "Es regnet."]
    made = client.create_glossary("animals", "DE", "EN", terms)
    assert (made.name, made.source_lang, made.target_lang, made.entry_count, made.ready) == ("animals", "DE", "EN", 2, True)
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert [one.glossary_id for one in client.list_glossaries()] == [made.glossary_id]
    assert client.get_glossary_entries(made) == terms
    found = client.translate_text(lines, source_lang="DE", target_lang="EN-US", glossary=made)
    assert [one.text for one in found] == with_terms(tmp_path, terms, lines) and "hound" in found[0].text
    with pytest.raises(deepl.DeepLException, match="has no dictionary from ZH to EN"):
        client.translate_text("狗。", source_lang="ZH", target_lang="EN-US", glossary=made.glossary_id)
    other = client.create_glossary_from_csv("from csv", "DE", "EN", 'Hund,"mutt, big",de,en\r\n"Es ""regnet""",x\r\n')
    assert client.get_glossary_entries(other) == {"Hund": "mutt, big", 'Es "regnet"': "x"}
    merged = client.translate_text(lines, source_lang="DE", target_lang="EN-US", glossary_ids=[other, made])
    assert [one.text for one in merged] == with_terms(tmp_path, {**terms, "Hund": "mutt, big"}, lines)
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_glossary(made)


def test_a_glossary_of_several_languages(client, tmp_path):
    one, two = Entries("de", "en", {"Hund": "hound"}), Entries("zh", "en", {"狗": "hound"})
    made = client.create_multilingual_glossary("animals", [one])
    assert [(d.source_lang, d.target_lang, d.entry_count) for d in made.dictionaries] == [("DE", "EN", 1)]
    made = client.update_multilingual_glossary_dictionary(made, two)
    made = client.update_multilingual_glossary_name(made, "beasts")
    assert made.name == "beasts" and [d.source_lang for d in made.dictionaries] == ["DE", "ZH"]
    assert client.list_glossaries() == [] and len(client.list_multilingual_glossaries()) == 1
    for source, line, model, terms in (("DE", "Der Hund bellt.", GERMAN, one.entries), ("ZH", "狗在睡觉。", CHINESE, two.entries)):
        assert client.translate_text(line, source_lang=source, target_lang="EN-US", glossary=made).text == with_terms(
            tmp_path, terms, [line], model)[0]
    client.update_multilingual_glossary_dictionary(
        made, Entries("de", "en", {"Katze": "moggy", "Hund": "mutt"}))
    assert deepl.util.convert_tsv_to_dict(client.get_multilingual_glossary_entries(made, "DE", "EN").dictionaries[0].entries) == {
        "Hund": "mutt", "Katze": "moggy"}
    replaced = client.replace_multilingual_glossary_dictionary(
        made, Entries("de", "en", {"Maus": "rodent"}))
    assert replaced.entry_count == 1
    client.delete_multilingual_glossary_dictionary(made, source_lang="zh", target_lang="en")
    assert [d.source_lang for d in client.get_multilingual_glossary(made.glossary_id).dictionaries] == ["DE"]
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_multilingual_glossary_dictionary(made, source_lang="zh", target_lang="en")
    client.delete_multilingual_glossary(made)
    assert client.list_multilingual_glossaries() == []


@pytest.mark.parametrize("change, message", [
    ({"name": None}, "missing name"), ({"name": 5}, "name is not a text"), ({"entries_format": "xls"}, "neither tsv nor csv"),
    ({"entries": "a"}, "line 1 has 1 columns"), ({"entries": "a\tb\n\na\tc"}, "line 3 has a again"), ({"entries": "a\t"}, "empty term"),
    ({"entries": "\n"}, "no term"), ({"entries": '"a', "entries_format": "csv"}, "entries: line 1: "),
    ({"entries": "#a\tb"}, "begins with #"), ({"entries": "\ud800\tb"}, "glossary g: "), ({"entries": "a" * 300 + "\tb"}, "glossary g: "),
    ({"source_lang": "FR"}, "FR is not supported"), ({"target_lang": "ZH"}, "not available"), ({"entries": ["a"]}, "not a text")])
def test_bad_glossaries(client, port, change, message):
    given = {"name": "g", "source_lang": "DE", "target_lang": "EN", "entries": "a\tb", "entries_format": "tsv", **change}
    status, _, content = ask(port, "/v2/glossaries", "POST", json.dumps(given), {"Content-Type": "application/json"})
    assert status == 400 and message in content["message"], content
    assert client.list_glossaries() == []


def test_glossaries_in_a_folder(tmp_path):
    folder = tmp_path / "glossaries"
    folder.mkdir()
    with server("--glossaries", folder, "--glossary-limit", 1000) as (_, port):
        client = client_of(port)
        made = client.create_glossary("kept", "DE", "EN", {"Hund": "hound"})
        dropped = client.create_glossary("dropped", "DE", "EN", {"Hund": "mutt"})
        with pytest.raises(deepl.QuotaExceededException, match="more than 1000 bytes"):
            client.create_glossary("large", "DE", "EN", {"a" * 250: "b" * 1000})
        client.delete_glossary(dropped)
        assert [one.name for one in folder.iterdir()] == [f"{made.glossary_id}.json"]
    with server("--glossaries", folder) as (_, port):
        again = client_of(port).list_glossaries()[0]
        assert (again.glossary_id, again.name, again.creation_time) == (made.glossary_id, "kept", made.creation_time)
        assert "hound" in client_of(port).translate_text("Der Hund bellt.", source_lang="DE", target_lang="EN-US",
                                                         glossary=again).text
        assert client_of(port, "y").list_glossaries() == []
        # paths in metrics are those of the routes: a client cannot make new ones
        assert {dict(key[1:]).get("path") for key in metrics(port)} >= {"/v2/glossaries", "/v2/translate"}
        ask(port, "/v2/glossaries/one-more")
        assert ("path", "/v2/glossaries/{id}") in {pair for key in metrics(port) for pair in key[1:]}
    (folder / "broken.json").write_text("{}")
    done = subprocess.run([sys.executable, SERVER / "server.py", f"de:en={GERMAN}", "--glossaries", folder], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(f"server.py: {folder}/broken.json is no glossary: ")
