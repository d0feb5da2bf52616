"""The options edit_logits and prompt of translate and stream."""

import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import transformer_h
from transformer_h import Error, Model, ffi, lib

ROOT = Path(__file__).resolve().parents[3]
GERMAN = ROOT / "examples/models/de-en.safetensors"
LINES = ["Guten Tag.", "", "Mein Vater kauft ein neues Auto.", "Wir gehen morgen ins Kino.", "Ja."]


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


def text_of(model, ids):
    text, size, err = ffi.new("char[]", 1024), ffi.new("size_t *"), ffi.new("tfm_error *")
    assert lib.tfm_model_detokenize(model._sessions.model, ids, len(ids), lib.TFM_TEXT_FORM_TEXT, text, 1024, size, err) == 0
    return ffi.string(text).decode("utf-8", "replace")


def test_words_of_a_list_are_those_of_the_c_example(german):
    """The same rule as examples/allowed.c."""
    allowed = "My Our dad mom a the new old car house has got bought to one".split()
    end, pieces = german.config["end"], {}

    def edit(row, ids, logits):
        assert row == 0
        for token in range(len(logits)):
            made = text_of(german, [*ids, token])
            if made not in pieces:
                words = "".join(one if one.isascii() and one.isalpha() else " " for one in made).split(" ")
                pieces[made] = all(one in allowed for one in words if one), all(
                    one in allowed for one in words[:-1] if one) and any(one.startswith(words[-1]) for one in allowed)
            if not pieces[made][0 if token == end else 1]:
                logits[token] = -np.inf
    expected = subprocess.run([ROOT / "build/allowed"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    text = "Mein Vater kauft ein neues Auto."
    found = [german.translate(text, greedy=True, beam=4), german.translate(text, greedy=True, beam=4, edit_logits=edit)]
    assert found == expected.splitlines()


@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"sample": True, "seed": 3}, {"beam": 2, "n_best": 2},
                                     {"alternatives": 2}])
def test_what_the_function_gets_and_what_it_forbids(german, options):
    """Texts differ in length, so they are translated in another order; row is the number in the list."""
    vocabulary, sizes, rows = german.config["tgt_vocab_size"], set(), {}
    plain = german.translate(LINES, **options)

    def look(row, ids, logits):
        assert type(row) is int and all(type(one) is int for one in ids)
        assert logits.dtype == np.float32 and logits.shape == (vocabulary,) and logits.flags.writeable
        sizes.add(logits.shape)
        rows.setdefault(row, set()).add(tuple(ids))
    for batch, threads in ((64, 1), (1, 1), (2, 3)):
        rows.clear()
        assert german.translate(LINES, edit_logits=look, batch=batch, threads=threads, **options) == plain
        assert sorted(rows) == [0, 2, 3, 4] and all(() in seen for seen in rows.values())
    first = german.tokenize("Good", target=True)[0]

    def forbid(row, ids, logits):
        logits[first] = -np.inf
    made = german.translate(LINES, edit_logits=forbid, **options)
    for one in made:
        for text in [one] if isinstance(one, str) else [each.text for each in one]:
            assert not text.startswith("Good")
    assert made == german.translate(LINES, edit_logits=forbid, batch=2, threads=2, **options)


def test_stream(german):
    first = german.tokenize("Good", target=True)[0]

    def forbid(row, ids, logits):
        assert row == 0
        logits[first] = -np.inf
    made = "".join(german.stream("Guten Tag.", edit_logits=forbid))
    assert made == german.translate("Guten Tag.", greedy=True, edit_logits=forbid) != german.translate("Guten Tag.")

    def fail(row, ids, logits):
        if len(ids) == 2:
            raise KeyError("here")
    with pytest.raises(KeyError, match="here"):
        list(german.stream("Mein Vater kauft ein neues Auto.", edit_logits=fail))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("raised", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3), Error(transformer_h.Status.E_STATE, "mine")])
def test_an_exception_ends_the_call(german, threads, raised):
    calls = []

    def fail(row, ids, logits):
        calls.append(threading.get_ident())
        if len(ids) == 1:
            raise raised
    with pytest.raises(type(raised)) as caught:
        german.translate(LINES * 8, edit_logits=fail, threads=threads, batch=4, on_error="return")
    assert caught.value is raised
    assert len(calls) <= threads * 2 * 4 + threads  # two steps of a batch in each thread at most
    assert german.translate("Guten Tag.") == "Good day."  # the model is as it was


def test_wrong_functions(german):
    for wrong in (5, "x", [1]):
        for call in (german.translate, german.stream):
            with pytest.raises(TypeError, match=f"edit_logits is {type(wrong).__name__}, expected a function"):
                call("Ja.", edit_logits=wrong)
    with pytest.raises(TypeError, match="edit_logits returned ndarray, expected None: it edits logits in place"):
        german.translate("Ja.", edit_logits=lambda row, ids, logits: logits + 1)
    with pytest.raises(TypeError, match="positional argument"):
        german.translate("Ja.", edit_logits=lambda row: None)


def test_kept_arrays_and_odd_edits(german):
    kept = []

    def keep(row, ids, logits):
        kept.append(logits)
        logits.flags.writeable = False  # of this view alone
    plain = german.translate("Ja.")
    assert german.translate("Ja.", edit_logits=keep) == plain
    for one in kept:  # memory of the package's own
        one.flags.writeable = True
        one[:] = np.nan
    assert german.translate("Ja.") == plain

    def fill(value):
        def edit(row, ids, logits):
            logits[:] = value
        return edit
    for value in (np.nan, np.inf, -np.inf, 0):
        found = german.translate("Ja.", n_best=1, max_length=5, edit_logits=fill(value))
        assert len(found) == 1 and (value == 0 or found[0].finish == "stuck" or value == np.inf)


def test_the_function_may_use_the_model(german):
    inside = []

    def ask(row, ids, logits):
        if not inside:
            inside.append(german.translate("Guten Tag."))
    assert german.translate("Ja.", edit_logits=ask) == german.translate("Ja.") and inside == ["Good day."]


def test_none_sets_nothing(german):
    for given in ({}, {"edit_logits": None, "prompt": None}):
        job = german._job("translate", None, dict(given))
        assert not job.options.edit_logits and job.prompts is None and job.edit is None


def test_two_models(german):
    with Model(ROOT / "examples/models/zh-en.safetensors") as chinese:
        rows = []
        found = chinese.translate(["我是学生。", "你好。"], second=german, edit_logits=lambda row, ids, logits: rows.append(row))
        assert found == chinese.translate(["我是学生。", "你好。"], second=german) and set(rows) == {0, 1}


def test_document(german):
    rows = set()
    german.translate_document("Guten Tag. Ja.\nNein.", edit_logits=lambda row, ids, logits: rows.add(row))
    assert rows == {0, 1, 2}


# ---- prompt


def test_a_prompt_is_what_the_decoder_reads_first(german):
    """The start token alone changes nothing. A target as prompt after it gives what the same prefix gives, without it."""
    start = german.config["start"]
    assert german.translate(LINES, prompt=[[start]] * 5, beam=2) == german.translate(LINES, beam=2)
    text, begin = "Mein Vater kauft ein neues Auto.", "My father"
    ids = german.tokenize(begin, target=True)
    whole = german.translate(text, prefix=begin)
    assert whole.startswith(begin + " ")
    for prompt in ([start, *ids], tuple([start, *ids]), iter([start, *ids]), np.array([start, *ids])):
        assert begin + " " + german.translate(text, prompt=prompt) == whole
    rows = [[start, *ids] if one == text else [start] for one in LINES]
    expected = [german.translate(one, prompt=row) for one, row in zip(LINES, rows)]
    for batch, threads in ((64, 1), (1, 2), (2, 2)):
        assert german.translate(LINES, prompt=rows, batch=batch, threads=threads) == expected
    long = german.translate(text, prompt=[start] + ids * 60)  # longer than the session for the source would be
    assert isinstance(long, str)


@pytest.mark.parametrize("prompt, kind, message", [
    ("x", TypeError, "prompt is str, expected a row of ids"), (5, TypeError, "prompt is int"),
    ([5.0], TypeError, r"prompt\[0\] is float, expected int"), ([[5]], TypeError, r"prompt\[0\] is list, expected int"),
    ([2 ** 31], ValueError, r"prompt\[0\] is 2147483648"), ([], Error, "prompt"), ([10 ** 8], Error, "prompt"),
    ([-1], Error, "prompt"),
])
def test_wrong_prompts(german, prompt, kind, message):
    with pytest.raises(kind, match=message):
        german.translate("Ja.", prompt=prompt)
    if isinstance(prompt, list):
        with pytest.raises(kind) as caught:
            german.translate(["Ja.", "Nein."], prompt=[[german.config["start"]], prompt])
        assert kind is not Error or caught.value.index == 1


def test_prompts_of_many(german):
    with pytest.raises(ValueError, match="1 prompts for 2 texts"):
        german.translate(["Ja.", "Nein."], prompt=[[5]])
    with pytest.raises(TypeError, match=r"prompt\[1\] is int, expected a row of ids"):
        german.translate(["Ja.", "Nein."], prompt=[[5], 5])
    for call in (german.stream, german.translate_document):
        with pytest.raises(TypeError, match="prompt is no option"):
            call("Ja.", prompt=[5])
