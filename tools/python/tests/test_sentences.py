"""Texts of several sentences: Model.translate, stream, translate_document and translate_file, with the model file's word and with
the switch, beside `translate`."""

import random
import subprocess
import warnings
from pathlib import Path

import pytest

import transformer_h
from transformer_h import Document, Error, Model, split_sentences

ROOT = Path(__file__).resolve().parents[3]
GERMAN, CHINESE = (ROOT / "examples" / "models" / f"{name}.safetensors" for name in ("de-en", "zh-en"))
LINES = {GERMAN: (ROOT / "examples/translate/demo-de.txt").read_text(encoding="utf-8").splitlines(),
         CHINESE: (ROOT / "examples/translate/demo.txt").read_text(encoding="utf-8").splitlines()}
PARAGRAPH = "Guten Tag. Wie geht es Ihnen?  Ich bin müde."
PARTS = ["Guten Tag.", "Wie geht es Ihnen?", "Ich bin müde."]


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


def stated(folder, word):
    """A copy of the German model that says another word, or none: only the config changes."""
    data, old = GERMAN.read_bytes(), rb', \"sentences\": \"split\"'
    new = rb', \"sentences\": \"%s\"' % word.encode() if word else b""
    assert data.count(old) == 1 and len(new) <= len(old)
    path = folder / f"{word or 'unknown'}.safetensors"
    path.write_bytes(data.replace(old, new + b" " * (len(old) - len(new))))
    return path


def command(model, *options, text):
    done = subprocess.run([ROOT / "build/translate", model, *map(str, options)], input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode().split("\n")[:-1]


def test_random_texts():
    """A text's translation is what its sentences alone give, joined; the bytes are those of `translate`."""
    draw = random.Random(44)
    for path, lines in LINES.items():
        with Model(path) as model:
            alone = dict(zip(lines, model.translate(lines, sentences="whole")))
            texts, wanted = [], []
            for _ in range(12):
                some = [one for one in draw.choices(lines, k=draw.randint(1, 8)) if split_sentences(one) == [one]]
                space = " " if path == GERMAN else ""
                texts.append(space.join(some))
                if split_sentences(texts[-1]) != some:  # such as "3." before a month
                    texts.pop()
                    continue
                wanted.append(" ".join(alone[one] for one in some))
            assert len(texts) > 6
            for options in ({}, {"batch": 3, "threads": 2}):
                assert model.translate(texts, **options) == wanted
            assert [model.translate(text) for text in texts[:3]] == wanted[:3]
            assert command(path, text="\n".join(texts)) == wanted
            assert "".join(model.stream(texts[0])) == wanted[0]
            assert model.translate_document("\n".join(texts)).split("\n") == wanted


def test_whitespace(german):
    made = german.translate(PARTS)
    assert german.translate(PARAGRAPH) == f"{made[0]} {made[1]}  {made[2]}"
    assert german.translate(["", " ", "\n"]) == ["", "", ""]
    assert german.translate("Guten Tag.\n\nWie geht es Ihnen?\n") == f"{made[0]}\n\n{made[1]}"
    assert german.translate(" Guten Tag. ") == made[0]
    assert german.translate_document(PARAGRAPH) == f"{made[0]} {made[1]}  {made[2]}"


def test_the_word_of_the_file(german, tmp_path):
    split = german.translate(PARAGRAPH)
    whole = german.translate(PARAGRAPH, sentences="whole")
    assert german.config["sentences"] == "split" and split != whole
    for word, expected in (("split", split), ("whole", whole)):
        with Model(stated(tmp_path, word)) as model, warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model.config["sentences"] == word
            assert model.translate(PARAGRAPH) == model.translate([PARAGRAPH])[0] == "".join(model.stream(PARAGRAPH)) == expected
            assert model.translate(PARAGRAPH, sentences="split") == "".join(model.stream(PARAGRAPH, sentences="split")) == split
            assert model.translate(PARAGRAPH, sentences="whole") == whole
            assert model.translate_document(PARAGRAPH) == expected
            for other in ("split", "whole"):
                assert model.translate_document(PARAGRAPH, sentences=other) == (split if other == "split" else whole)
                (tmp_path / "in.txt").write_text(PARAGRAPH, encoding="utf-8")
                transformer_h.translate_file(model, tmp_path / "in.txt", tmp_path / "out.txt", sentences=other)
                made = (tmp_path / "out.txt").read_text(encoding="utf-8")  # a document keeps its own whitespace
                assert made.replace("  ", " ") == (split if other == "split" else whole).replace("  ", " ")
    with Model(stated(tmp_path, "")) as model:
        assert model.config["sentences"] == "unknown"
        with pytest.warns(UserWarning, match="text 1 has several sentences, and .*does not say whether it reads sentences"):
            assert model.translate(["Ja.", PARAGRAPH])[1] == whole
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once
            assert model.translate(PARAGRAPH) == whole == model.translate(PARAGRAPH, sentences="whole")
            assert model.translate(PARAGRAPH, sentences="split") == split
            assert model.translate_document(PARAGRAPH) == split  # as before 0.7.0


def test_options(german):
    made = german.translate(PARTS, sample=True, seed=3, batch=1)
    assert german.translate(PARAGRAPH, sample=True, seed=3).startswith(made[0])
    numbers = []
    german.translate([PARAGRAPH, "Ja. Nein."], edit_logits=lambda number, ids, logits: numbers.append(number))
    assert set(numbers) == {0, 1}
    calls = []
    german.translate([PARAGRAPH, "Ja. Nein.", "Ja."], batch=2, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (3, 3) and calls == sorted(calls)
    plain = german.translate(PARAGRAPH)
    for draft in (plain, "Good.", "Good day. Bad. No."):
        assert german.translate(PARAGRAPH, draft=draft, greedy=True) == plain
    for name, value in (("n_best", 2), ("alternatives", 2), ("prefix", "Good"), ("prompt", [german.config["start"]])):
        with pytest.warns(UserWarning, match=f"text 0 has several sentences, which {name} reads as one text"):
            one = german.translate(PARAGRAPH, **{name: value})
        assert german.translate(PARAGRAPH, sentences="whole", **{name: value}) == one
        with pytest.raises(ValueError, match=f"sentences='split' and {name} do not go together"):
            german.translate(PARAGRAPH, sentences="split", **{name: value})
    with pytest.raises(ValueError, match="sentences is 'some', expected split or whole"):
        german.translate("Ja.", sentences="some")
    assert Document("<p>Ja. <b>Nein.</b></p><p>Gut.</p>", "html", sentences="whole").sentences == ["Ja. Nein.", "Gut."]


def test_two_models(german):
    both = german.translate(PARTS, second=german)
    assert german.translate(PARAGRAPH, second=german) == f"{both[0]} {both[1]}  {both[2]}"
    assert command(GERMAN, GERMAN, text=PARAGRAPH + "\n") == [german.translate(PARAGRAPH, second=german)]


def test_errors(german):
    text = f"Ja. {'Haus ' * 40}. Nein."
    with pytest.raises(Error, match="^sentence 2: text has .* tokens, there is room for 20"):
        german.translate(text, max_source=20)
    made = german.translate(["Ja.", text, "Ja. Nein."], max_source=20, on_error="return")
    assert made[1].index == 1 and str(made[1]).startswith("text 1: sentence 2: ")
    assert made[::2] == german.translate(["Ja.", "Ja. Nein."])


def test_documents():
    assert Document("Ja. Nein.\n\nGut.").sentences == ["Ja.", "Nein.", "Gut."]
    assert Document("Ja. Nein.\n \nGut.", sentences="whole").sentences == ["Ja. Nein.", "Gut."]
    assert Document("Ja.  Nein.\n\nGut.").join(["Yes.", "No.", "Good."]) == "Yes.  No.\n\nGood."


def test_command(tmp_path):
    (tmp_path / "in.txt").write_text(PARAGRAPH, encoding="utf-8")
    import sys
    found = []
    for word in ("split", "whole"):
        subprocess.run([sys.executable, "-m", "transformer_h", GERMAN, tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--sentences", word],
                       check=True)
        found.append((tmp_path / "out.txt").read_text(encoding="utf-8"))
    with Model(GERMAN) as model:
        assert [each.replace("  ", " ") for each in found] == [
            model.translate(PARAGRAPH, sentences=word).replace("  ", " ") for word in ("split", "whole")]
