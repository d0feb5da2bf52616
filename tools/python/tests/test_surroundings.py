"""What people write around sentences stays: Model.translate, stream and translate_document give the bytes of `translate`."""

import html
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from as_written import CHINESE, GERMAN, LONG

import transformer_h
from transformer_h import Aligned, Counts, Document, Model

ROOT = Path(__file__).resolve().parents[3]
TEXTS = {"de-en": GERMAN, "zh-en": CHINESE}
NO_TEXT = ["***", "---", "12345", "😀😀😀", "3,14", "...", "( )"]


def path_of(name):
    return ROOT / "examples" / "models" / f"{name}.safetensors"


@pytest.fixture(scope="module", params=TEXTS)
def pair(request):
    with Model(path_of(request.param)) as model:
        yield model, path_of(request.param), TEXTS[request.param]


@pytest.fixture(scope="module")
def german():
    with Model(path_of("de-en")) as model:
        yield model


def command(model, text, *options):
    """Returns what `translate` writes, and what its last line on standard error counts."""
    done = subprocess.run([ROOT / "build/translate", *(model if isinstance(model, list) else [model]), *map(str, options)],
                          input=text.encode(), capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    said = re.findall(r"^translate: (\d+ sentences? (?:stay|divided|with unknown).*)$", done.stderr.decode(), re.M)
    return done.stdout.decode(), said[-1] if said else ""


def in_lines(model, texts, *options):
    out, said = command(model, "".join(f"{text}\n" for text in texts), *options)
    return out.split("\n")[:-1], said


@pytest.mark.parametrize("options, flags", [
    ({}, ()), ({"threads": 2, "batch": 5}, ()), ({"beam": 3}, ("--beam", 3)), ({"all_languages": True}, ("--all-languages",)),
    ({"plain": True}, ("--plain",)), ({"sentences": "whole"}, ("--sentences", "whole")), ({"sentences": "split"}, ("--sentences", "split")),
    ({"sample": True, "seed": 4}, ("--sample", "--seed", 4)), ({"draft": None, "terms": {"Hund": "hound", "书": "tome"}}, ("--terms",))])
def test_texts_are_the_command_lines(pair, tmp_path, options, flags):
    model, path, texts = pair
    if "terms" in options:
        (tmp_path / "terms").write_text("Hund\thound\n书\ttome\n", encoding="utf-8")
        flags = ("--terms", tmp_path / "terms")
    counts = Counts()
    made = model.translate(texts, counts=counts, **options)
    expected, said = in_lines(path, texts, *flags)
    for text, one, other in zip(texts, made, expected):
        assert one == other, text
    assert len(made) == len(expected) and str(counts) == said
    one = texts[0]
    assert model.translate(one, **options) == made[0]


def test_texts_without_an_end(german):
    counts = Counts()
    assert german.translate(LONG, counts=counts, max_length=40) == in_lines(path_of("de-en"), LONG, "--max-length", 40)[0]
    assert str(counts) == in_lines(path_of("de-en"), LONG, "--max-length", 40)[1] and set(counts.divided) == {0, 4}
    document = Document("\n".join(LONG))
    assert document.divided == len(counts.divided) and Document("\n".join(LONG), plain=True).divided == 0
    again = Counts()
    made = german.translate_document([f"<p>{LONG[0]}", "<p>Ja."], "html", counts=again, max_length=40)
    assert made[0] + "\n" == command(path_of("de-en"), f"<p>{LONG[0]}\n", "--html", "--max-length", 40)[0] and set(again.divided) == {0}


def test_two_models(german):
    texts = GERMAN[::3]
    with Model(path_of("zh-en")) as other:
        expected, said = in_lines([path_of("de-en"), path_of("zh-en")], texts)
        counts = Counts()
        assert german.translate(texts, second=other, counts=counts) == expected and str(counts) == said


def test_hypotheses(pair):
    model, path, texts = pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.translate(texts, n_best=2)
    expected = [line.split("\t", 1) for line in in_lines(path, texts, "--n-best", 2)[0]]
    for i, (text, each) in enumerate(zip(texts, found), 1):
        if each:  # a blank text has none, and `translate` writes a row
            assert [one.text for one in each] == [row for number, row in expected if number == str(i)], text


def document_of(kind, texts):
    def bold(text):
        words = html.escape(text, quote=False).split(" ")
        words[len(words) // 2] = f"<b>{words[len(words) // 2]}</b>"
        return " ".join(words)
    if kind == "html":
        return "<html lang=de><body>\n" + "\n".join(f"<p>{bold(text)}</p>" for text in texts) + "</body></html>\n"
    if kind == "srt":
        return "\n".join(f"{i}\n00:{i // 60:02}:{i % 60:02},000 --> 00:{i // 60:02}:{i % 60:02},900\n{text}\n"
                         for i, text in enumerate(texts, 1) if text.strip())
    return ("\n" if kind == "text" else "\n\n").join(texts) + "\n"


@pytest.mark.parametrize("kind", Document.FORMATS)
def test_documents_are_the_command_lines(pair, kind):
    model, path, texts = pair
    document, flag = document_of(kind, texts), "--document" if kind == "text" else f"--{kind}"
    for options, flags in (({}, ()), ({"plain": True}, ("--plain",)), ({"protect": False}, ("--no-protect",)),
                           ({"all_languages": True, "threads": 2, "batch": 9}, ("--all-languages",))):
        if kind == "text" and "protect" in options:
            continue
        counts = Counts()
        expected, said = command(path, document, flag, *flags)
        assert model.translate_document(document, kind, counts=counts, **options) == expected, options
        assert str(counts) == said
    if kind != "text":
        read = Document(document, kind)  # in two steps
        made = model.translate(read.sentences, aligned=read.needs_tokens)
        assert read.join(made, model.config["target_language"]) == model.translate_document(document, kind)


def test_marks_of_quotations_are_those_of_the_language(german):
    page = "<html lang=de><p>Ja. «Das ist mein Freund.» »Wir müssen gehen.« „Nein.“</p></html>"
    for lang in ("en", "fr", "de"):
        assert german.translate_document(page, "html", lang=lang) == command(path_of("de-en"), page, "--html", "--lang", lang)[0]
    assert german.translate("„Das ist mein Freund.“", lang="fr") == f"«\xa0{german.translate('Das ist mein Freund.')}\xa0»"


def test_stream(german):
    for text in GERMAN:
        pieces = list(german.stream(text))
        assert "".join(pieces) == german.translate(text, greedy=True, all_languages=True), text
        assert all(pieces)
    assert len(list(german.stream("1. Der Zug hatte zwanzig Minuten Verspätung. Der Hund schläft."))) > 6
    plain = "1. Der Hund schläft.[2]"
    assert "".join(german.stream(plain, plain=True)) == german.translate(plain, plain=True) != german.translate(plain)


def test_counts(german):
    counts = Counts()
    texts = ["Ja.", "The cat is sleeping on the sofa. Der Hund schläft im Garten.", "今天的天气很好。", "Das Wort 你好 bedeutet Hallo."]
    made = german.translate(texts, counts=counts)
    assert made[1].startswith("The cat is sleeping on the sofa. ") and made[2] == texts[2]
    assert (counts.left, counts.divided, counts.unknown) == ([1, 2], [], [3])
    assert str(counts) == "2 sentences stay as they are, 1 sentence with unknown tokens"
    assert repr(counts) == "Counts(left=[1, 2], divided=[], unknown=[3])"
    german.translate_document(["Ja.", texts[2]], counts=counts)  # it adds up
    assert counts.left == [1, 2, 1] and str(Counts()) == ""
    with pytest.raises(TypeError, match="counts is dict, expected Counts"):
        german.translate("Ja.", counts={})
    for name in ("plain", "all_languages"):
        with pytest.raises(TypeError, match=f"{name} is int, expected bool"):
            german.translate("Ja.", **{name: 1})
    with pytest.raises(TypeError, match="protect is int, expected bool"):
        german.translate_document("Ja.", "html", protect=0)


def test_files(german, tmp_path):
    """translate_file and the command: the bytes and the words of `translate`, also of many texts in parts."""
    page = document_of("html", GERMAN)
    (tmp_path / "in.html").write_text(page, encoding="utf-8")
    for flags, options in (((), {}), (("--plain",), {"plain": True}), (("--no-protect",), {"protect": False}),
                           (("--all-languages",), {"all_languages": True})):
        expected, said = command(path_of("de-en"), page, "--html", *flags)
        counts = Counts()
        transformer_h.translate_file(german, tmp_path / "in.html", tmp_path / "out.html", counts=counts, **options)
        assert (tmp_path / "out.html").read_text(encoding="utf-8") == expected and str(counts) == said
        done = subprocess.run([sys.executable, "-m", "transformer_h", path_of("de-en"), tmp_path / "in.html", "-o", tmp_path / "two.html", *flags],
                              capture_output=True, text=True, check=True)
        assert (tmp_path / "two.html").read_text(encoding="utf-8") == expected
        assert [line for line in done.stderr.splitlines() if " sentence" in line] == [f"transformer_h: {tmp_path}/in.html: {said}"] * bool(said)


def test_what_speaks_of_one_text_is_plain(german):
    text = "1. DER HUND SCHLÄFT."
    plain, start = german.translate(text, plain=True), german.config["start"]
    assert german.translate(text) == "1. THE DOG IS SLEEPING." != plain
    for options in ({"prompt": [start]}, {"draft": plain, "greedy": True}, {"sentences": "whole"}):
        assert german.translate(text, **options) == plain, options
    assert german.translate(text, prefix="The") == german.translate(text, prefix="The", plain=True)
    assert german.translate(text, alternatives=2) == german.translate(text, alternatives=2, plain=True)
    ids = german.translate("DER HUND", tokens=True)
    assert ids == german.translate("DER HUND", tokens=True, plain=True)


@pytest.mark.parametrize("word", ["whole", ""])
def test_other_models_get_texts_as_they_are(german, tmp_path, word):
    data, old = path_of("de-en").read_bytes(), rb', \"sentences\": \"split\"'
    new = rb', \"sentences\": \"%s\"' % word.encode() if word else b""
    (tmp_path / "m.safetensors").write_bytes(data.replace(old, new + b" " * (len(old) - len(new))))
    with Model(tmp_path / "m.safetensors") as model:
        texts = [text for text in GERMAN if len(Document(text, plain=True).sentences) < 2]
        assert model.translate(texts) == german.translate(texts, plain=True)
        page = document_of("html", GERMAN)
        assert model.translate_document(page, "html") == command(tmp_path / "m.safetensors", page, "--html")[0]


def test_a_sentence_that_stays(german):
    """Its translation is empty if Document.join asks for it, and is an empty Aligned also if no token of it is needed."""
    sentences = ["The cat is sleeping on the sofa.", "Der Hund schläft."]
    for flags in (b"\0\0", b"\1\0", True):
        made = german.translate(sentences, aligned=flags)
        assert type(made[0]) is Aligned and made[0] == "" and made[1] == "The dog is sleeping."
    assert german.translate(sentences)[0] == sentences[0]
    for kind in ("text", "html"):
        document = Document(" ".join(sentences), kind)
        assert document.join(made) == f"{sentences[0]} The dog is sleeping."
    assert german.translate(NO_TEXT) == NO_TEXT and german.translate(["", " \t"]) == ["", ""]


def test_random_texts(pair):
    """Texts that are put together of others, in lines and as paragraphs."""
    model, path, texts = pair
    draw = random.Random(59)
    made = ["".join(draw.choice(("", " ", "  ", "")) + each for each in draw.choices(texts, k=draw.randint(1, 5))) for _ in range(60)]
    assert model.translate(made) == in_lines(path, made)[0]
    assert model.translate_document("\n".join(made) + "\n") == command(path, "\n".join(made) + "\n", "--document")[0]
