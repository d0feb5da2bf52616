"""The package against the command line's bytes. Run in the repository: make test-package"""

import inspect
import json
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import transformer_h
from transformer_h import Error, Model, Status

ROOT = Path(__file__).resolve().parents[3]
GERMAN = ROOT / "examples/models/de-en.safetensors"
CHINESE = ROOT / "examples/models/zh-en.safetensors"
TOY = ROOT / "tests/data/models/toy.safetensors"
VECTORS = ROOT / "tests/data/models/trocr.safetensors"
# every demo line, blank ones, and some of very unlike length
LINES = ((ROOT / "examples/translate/demo-de.txt").read_text(encoding="utf-8").split("\n")
         + ["Ja.", "Der Zug, der gestern nicht kam, kommt heute " + "und morgen " * 30] * 3)


def command_line(*options, model=GERMAN, lines=LINES):
    done = subprocess.run([ROOT / "build/translate", model, *map(str, options)],
                          input="".join(f"{line}\n" for line in lines).encode(), capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode().split("\n")[:-1]


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


@pytest.mark.parametrize("threads, batch", [(1, 64), (2, 3), (3, 1), (64, 64)])
def test_greedy_is_the_command_line(german, threads, batch):
    assert german.translate(LINES, threads=threads, batch=batch) == command_line()


@pytest.mark.parametrize("options, flags", [
    ({"beam": 4}, ("--beam", 4)),
    ({"beam": 4, "length_penalty": 1, "max_length": 12}, ("--beam", 4, "--length-penalty", 1, "--max-length", 12)),
    ({"min_length": 9, "no_repeat_ngram": 2, "repetition_penalty": 1.2},
     ("--min-length", 9, "--no-repeat-ngram", 2, "--repetition-penalty", 1.2)),
    ({"sample": True, "seed": 7, "temperature": 0.8, "top_k": 20, "top_p": 0.9},
     ("--sample", "--seed", 7, "--temperature", 0.8, "--top-k", 20, "--top-p", 0.9)),
])
def test_options_are_the_command_lines(german, options, flags):
    assert german.translate(LINES, threads=2, batch=5, **options) == command_line(*flags)


def test_terms_are_the_command_lines(german, tmp_path):
    terms = {"Zug": "locomotive", "!Ja": "aye", "der Park": "Hyde Park", "kommt heute": "arrives", "Kinder": "kids",
             "Fenster": "pane", "ü": "x"}
    path = tmp_path / "terms"
    path.write_text("# a comment\n\n" + "".join(f"{a}\t{b}\n" for a, b in terms.items()), encoding="utf-8")
    lines = [*LINES, "Ja, die Kinder.", "Das Fenster und der Zug.", "Der Zug hat das Fenster."]
    expected = command_line("--terms", path, lines=lines)
    assert expected != command_line(lines=lines) and any("locomotive" in line for line in expected)
    for given in (terms, path, str(path), transformer_h.Terms(path)):
        assert german.translate(lines, terms=given, threads=2, batch=3) == expected
    best = german.translate(lines[-1], terms=terms, beam=3, n_best=3)
    assert [one.text for one in best] == [line.split("\t")[1] for line in
                                          command_line("--terms", path, "--beam", 3, "--n-best", 3, lines=lines[-1:])]
    assert german.translate_document("\n".join(lines[-2:]), terms=terms) == "\n".join(
        command_line("--terms", path, "--document", lines=lines[-2:]))
    assert german.translate(lines, terms={}) == german.translate(lines)


@pytest.mark.parametrize("terms, kind, message", [
    ({"a": "b", "A": "c"}, ValueError, "terms: line 2: the source has another target in line 1"),
    ({"": "b"}, ValueError, "terms: line 1: the source is empty"),
    ({"a": " "}, ValueError, "terms: line 1: the target is empty"),
    ({"a\tb": "c"}, ValueError, "has a tab or a line break, or begins with #"),
    ({"a": "b\nc\td"}, ValueError, "has a tab or a line break"),
    ({"# a": "b"}, ValueError, "begins with #"),
    ({"a": "b\0"}, ValueError, "control character"),
    ({"a": 3}, TypeError, "a term's target is int, expected str"),
    ({4: "a"}, TypeError, "a term is int, expected str"),
    (["a"], TypeError, "terms is list, expected a dict, the path of a file, or Terms"),
    (Path("no/file"), FileNotFoundError, "no/file"),
])
def test_bad_terms(german, terms, kind, message):
    with pytest.raises(kind, match=message):
        german.translate("Ja.", terms=terms)
    with pytest.raises(ValueError, match="terms and tokens do not go together"):
        german.translate("Ja.", terms={}, tokens=True)


def test_n_best_with_scores(german):
    found = german.translate(LINES, beam=4, n_best=3, threads=2)
    lines = [f"{number}\t{one.score:.4f}\t{one.text}" for number, each in enumerate(found, 1)
             for one in each or [transformer_h.Hypothesis("", 0, 0, 0, "ended")]]
    assert lines == command_line("--beam", 4, "--n-best", 3, "--scores")
    assert {one.finish for each in found for one in each} == {"ended"}
    assert german.translate("Ja.", n_best=1, max_length=1)[0].finish == "hit_length"


def test_a_prefix_with_a_draft_keeps_its_memory(german, monkeypatch):
    """Here memory is overwritten when it is freed."""
    before, prefix, ffi, there = german.translate(LINES), ["It"] * len(LINES), transformer_h.ffi, {}
    begun = german.translate(LINES, prefix=prefix, on_error="return")

    def alloc(size):
        memory = ffi.new("char[]", size)
        there[int(ffi.cast("uintptr_t", memory))] = memory, size
        return memory

    def free(memory):
        memory, size = there[int(ffi.cast("uintptr_t", memory))]
        ffi.memmove(memory, b"\x7f" * size, size)

    monkeypatch.setattr(transformer_h.sessions, "new_array", ffi.new_allocator(alloc, free))
    both = german.translate(LINES, prefix=prefix, draft=before, on_error="return")
    assert [str(each) for each in both] == [str(each) for each in begun]


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_drafts_change_nothing(german, batch):
    before = german.translate(LINES)
    for drafts in (before, [text.replace(" the ", " a ") for text in before], before[::-1], [""] * len(LINES),
                   ["The \U0001f600 " * 40] * len(LINES), (text[:len(text) // 2] for text in before)):
        assert german.translate(LINES, draft=drafts, batch=batch) == before
    assert german.translate(LINES[0], draft="") == german.translate(LINES[0], draft=before[0]) == before[0]
    begun = german.translate(LINES, prefix=["It"] * len(LINES), on_error="return", batch=batch)
    both = german.translate(LINES, prefix=["It"] * len(LINES), draft=before, on_error="return", batch=batch)
    assert [str(each) for each in both] == [str(each) for each in begun]
    for wrong in ({"beam": 2}, {"sample": True}, {"n_best": 2}, {"alternatives": 2}):
        with pytest.raises(ValueError, match="^draft needs a greedy search"):
            german.translate(LINES, draft=before, **wrong)
    with pytest.raises(ValueError, match=f"^1 drafts for {len(LINES)} texts$"):
        german.translate(LINES, draft=before[:1])
    with pytest.raises(TypeError):
        german.translate(LINES[0], draft=7)


def test_prefix(german, tmp_path):
    lines = LINES[:6]
    prefixes = ["The", "", "We", "I", "", "A"]
    (tmp_path / "prefix").write_text("".join(f"{one}\n" for one in prefixes))
    assert german.translate(lines, prefix=prefixes) == command_line("--prefix", tmp_path / "prefix", lines=lines)


def with_config(path, **more):
    """The German model, whose file has more keys in its config."""
    data = GERMAN.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    config = json.loads(header["__metadata__"]["transformer.config"])
    header["__metadata__"]["transformer.config"] = json.dumps({**config, **more})
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
    return path


def test_what_the_file_says_of_decoding(tmp_path):
    path = with_config(tmp_path / "model", decoding={"beam": 3, "length_penalty": 1.5, "no_repeat_ngram": 1, "max_length": 9})
    found = command_line(model=path)
    assert found != command_line() and found != command_line("--beam", 3, model=GERMAN)
    with Model(path) as model:
        for options, flags in (({}, ()), ({"greedy": True}, ("--greedy",)), ({"beam": 1}, ("--beam", 1)),
                               ({"max_length": 40, "length_penalty": 0}, ("--max-length", 40, "--length-penalty", 0)),
                               ({"no_repeat_ngram": 0}, ("--no-repeat-ngram", 0)),
                               ({"sample": True, "seed": 3}, ("--sample", "--seed", 3))):
            assert model.translate(LINES, **options) == command_line(*flags, model=path), options
        assert [len(each) for each in model.translate(LINES[:2], n_best=4)] == [4, 4]


def test_sentences_are_those_of_document(german):
    paragraphs = [" Guten Tag.  Wie geht es Dr. Maier? „Gut.“ Ja!", "", "  ", "Am 3. Mai. Es regnet.\tUnd dann?",
                  "Ohne Punkt", "你好。再见！", "a\ud800b. C."]
    split = [transformer_h.split_sentences(each) for each in paragraphs]
    assert split[0] == ["Guten Tag.", "Wie geht es Dr. Maier?", "„Gut.“", "Ja!"] and split[1:3] == [[], []]
    assert split[5:] == [["你好。", "再见！"], ["a\ud800b.", "C."]]
    split.pop(), paragraphs.pop()
    joined = [transformer_h.join_sentences(german.translate(each)) for each in split]
    written = command_line("--document", lines=paragraphs)  # with the whitespace between the sources
    assert [" ".join(each.split()) for each in written] == joined and german.translate(paragraphs) == written
    assert transformer_h.join_sentences(["你好。", "再见！", "", "Bye."]) == "你好。再见！Bye."


def test_a_document_is_the_command_lines(german):
    text = "\n".join(["  " + " ".join(LINES[:40]), "", " \t", "Am 3. Mai. Es regnet.\r", *LINES[:3], "", "你好。再见！ Ja."])
    for whole in (text, text + "\n", "", "\n\n", "Ja."):
        expected = subprocess.run([ROOT / "build/translate", GERMAN, "--document", "--beam", "2"], input=whole.encode(),
                                  capture_output=True, check=True).stdout.decode()
        for more in ({}, {"threads": 2, "batch": 3}):
            found = german.translate_document(whole, beam=2, **more)
            assert (found if found.endswith("\n") or not found else found + "\n") == expected
            assert found.count("\n") == whole.count("\n")
    seen = []
    german.translate_document(text, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == sum(len(transformer_h.split_sentences(line)) for line in text.split("\n"))
    with pytest.raises(Error, match="^line 3: text has 303 tokens") as caught:
        german.translate_document("Ja.\n\nJa. " + "und " * 300, max_source=20, plain=True)
    assert caught.value.status == Status.E_TOO_LONG and caught.value.index is None


@pytest.mark.parametrize("threads", [1, 3])
def test_progress(german, threads):
    seen = []
    expected = german.translate(LINES)
    assert german.translate(LINES, threads=threads, batch=3, progress=lambda *both: seen.append(both)) == expected
    done, total = zip(*seen)
    assert set(total) == {len(LINES)} and list(done) == sorted(set(done)) and done[-1] == len(LINES) and len(done) > 3
    with pytest.raises(KeyError):
        german.translate(LINES, threads=threads, batch=3, progress=lambda done, total: {}[done])


def test_iterators_are_taken_where_lists_are(german):
    def each(values):
        return (value for value in values)
    assert german.translate(each(LINES[:5])) == german.translate(LINES[:5])
    assert german.translate(each(["Ja.", "Nein."]), prefix=each(["", "Oh"])) == german.translate(["Ja.", "Nein."], prefix=["", "Oh"])
    assert german.score(each(["Ja.", "Nein."]), each(["Yes.", "No."])) == german.score(["Ja.", "Nein."], ["Yes.", "No."])
    assert transformer_h.join_sentences(each(["A.", "B."])) == "A. B."
    rows = [[5, 6, 7], [8, 9]]
    for found, wanted in zip(german.encode(each(rows)), german.encode(rows)):
        assert np.array_equal(found, wanted)
    for found, wanted in zip(german.encode(each(["Ja.", "Nein."])), german.encode(["Ja.", "Nein."])):
        assert np.array_equal(found, wanted)
    assert np.array_equal(german.forward(each(rows), each(map(each, rows))), german.forward(rows, rows))


def test_repr(german, tmp_path):
    assert repr(german) == (f"Model({str(GERMAN)!r}: 7.3 MB, 4 + 2 layers, width 256, 4 heads, vocabulary of 6000 tokens)")
    with Model(TOY.read_bytes()) as model:
        assert repr(model).startswith("Model(<bytes>: ") and "vocabularies of 9 and 10 tokens" in repr(model)
    assert repr(model).endswith(", closed)")
    codes = {f"{letter}{letter}": 10 + i for i, letter in enumerate("abcdefghij")}
    with Model(with_config(tmp_path / "many", languages=codes, src_language="target")) as model:
        assert repr(model).endswith("tokens, 10 languages: aa, bb, cc, dd, ee, ff, gg, hh, ...)")


def test_models_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_MODELS", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        Model("xx-en")
    (tmp_path / "xx-en.safetensors").symlink_to(GERMAN)
    with Model("xx-en") as model:
        assert model.translate("Guten Tag.") == command_line(lines=["Guten Tag."])[0]
        assert pickle.loads(pickle.dumps(model)).translate("Danke.") == model.translate("Danke.")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xx-en").symlink_to(CHINESE)  # a file in the folder at hand comes first
    with Model("xx-en") as model:
        assert model.translate("我是学生。") == "I'm a student."


def test_signatures_and_docstrings():
    def parameters(function):
        return inspect.signature(function).parameters
    given = parameters(Model.translate)
    assert not any(one.kind == one.VAR_KEYWORD for one in given.values())
    assert {*given} == {"self", "text", "n_best", *transformer_h.Options.__annotations__}
    assert all(one.default is None for name, one in given.items() if name in transformer_h.Options.__annotations__)
    assert {"beam", "n_best", "threads", "prefix", "draft", "sample"}.isdisjoint(parameters(Model.stream)) and "max_length" in parameters(Model.stream)
    assert "prefix" not in parameters(Model.translate_document) and "beam" in parameters(Model.translate_document)
    told = parameters(transformer_h.export)
    assert list(told)[:6] == ["module", "path", "example_src", "example_tgt", "start", "end"] and "src_sentencepiece" in told
    assert "padding_idx" in transformer_h.export.__doc__
    for name in transformer_h.__all__:
        one = getattr(transformer_h, name)
        assert name == "__version__" or len(one.__doc__) > 25, name
        for method in vars(one).values() if inspect.isclass(one) and one.__module__.startswith("transformer_h") else ():
            if inspect.isfunction(method) and not method.__name__.startswith("_"):
                assert len(method.__doc__) > 40 and not any(
                    each.kind == each.VAR_KEYWORD for each in parameters(method).values()), method


def test_tokens_and_a_model_from_memory():
    with Model(TOY.read_bytes()) as model:
        lines = (ROOT / "tests/data/toy.zh").read_text(encoding="utf-8").split("\n")[:-1]
        assert model.translate(lines, tokens=True) == command_line("--tokens", model=TOY, lines=lines)


def test_score(german, tmp_path):
    lines = [line for line in LINES if line]
    targets = german.translate(lines)
    (tmp_path / "targets").write_text("".join(f"{one}\n" for one in targets))
    expected = [float(one.split("\t")[0]) for one in command_line("--score", tmp_path / "targets", lines=lines)]
    scores = german.score(lines, targets, batch=7)
    assert scores == pytest.approx(expected, abs=6e-5)
    each = german.score(lines[0], targets[0], per_token=True)
    assert sum(each) == pytest.approx(scores[0]) and len(each) == len(german.tokenize(targets[0], target=True)) + 1


def test_stream_is_the_translation_in_pieces(german):
    with Model(CHINESE) as chinese:
        for model, text in ((german, LINES[0]), (chinese, "如果明天下雨，我们就待在家里。")):
            pieces = list(model.stream(text))
            assert "".join(pieces) == model.translate(text) and len(pieces) > 5
    assert list(german.stream(" ")) == []


def test_decode(german):
    """A memory that encode gives is decoded to what translate gives, alone and in any batch."""
    rows = [german.tokenize(line) for line in LINES[:5]]
    memory, lengths = german.encode(rows)
    memories = [memory[i, :n] for i, n in enumerate(lengths)]
    for options in ({"greedy": True}, {"beam": 4, "length_penalty": 1.0}):
        wanted = german.translate(LINES[:5], sentences="whole", **options)
        for batch in (1, 2, 64):
            assert german.decode(memories, batch=batch, **options) == wanted
        assert [german.decode(each.astype(np.float64), **options) for each in memories] == wanted
    assert german.decode([]) == []
    best = german.decode(memories[0], n_best=2)
    assert [each.text for each in best] == [each.text for each in german.translate(LINES[0], n_best=2, sentences="whole")]
    assert german.decode(memory[:1, :lengths[0]], greedy=True) == [german.decode(memories[0], greedy=True)]
    prompt = german.tokenize("Good", target=True)
    prompted = [german.config["start"], *prompt]
    assert german.decode(memories[0], prompt=prompted) == german.translate(LINES[0], prompt=prompted, sentences="whole")
    assert german.decode(memories[:2], prompt=[prompted, prompted])[0] == german.decode(memories[0], prompt=prompted)
    assert len({german.decode(memories[0], sample=True, seed=seed) for seed in range(8)}) > 1
    with Model(VECTORS) as trocr:  # a model file without an encoder, and without a vocabulary
        with pytest.raises(Error, match="vocabulary|text"):
            trocr.decode(np.ones((3, trocr.config["d_memory"]), np.float32))


def test_encode_and_forward(german):
    memory, lengths = german.encode(LINES[:5])
    rows = [german.tokenize(one) for one in LINES[:5]]
    assert memory.shape == (5, max(lengths), german.config["d_model"]) and list(lengths) == list(map(len, rows))
    alone, _ = german.encode([rows[2]])
    assert np.array_equal(memory[2, :lengths[2]], alone[0])
    assert memory.base is not None and not memory.flags.owndata  # the library's memory
    target = german.tokenize(german.translate(LINES[0]), target=True)
    logits = german.forward(rows[:1], [[german.config["start"], *target]])
    assert logits.shape == (1, len(target) + 1, german.config["tgt_vocab_size"])
    assert list(logits[0].argmax(1)) == [*target, german.config["end"]]
    log_softmax = logits[0] - np.log(np.exp(logits[0].astype(float)).sum(1, keepdims=True))
    assert log_softmax[range(len(target) + 1), [*target, german.config["end"]]].sum() == pytest.approx(
        german.score(LINES[0], german.translate(LINES[0])), abs=1e-3)
    width = max(map(len, rows))
    whole = np.array([row + row[-1:] * (width - len(row)) for row in rows[:1]], np.int32)
    assert np.array_equal(german.forward(whole, np.array([[german.config["start"], *target]], np.int32)),
                          german.forward(whole.tolist(), [[german.config["start"], *target]]))
    assert np.array_equal(german.encode(whole)[0], german.encode(whole.tolist())[0])
    out = np.zeros_like(logits)
    assert german.forward(rows[:1], [[german.config["start"], *target]], out=out) is out
    assert np.array_equal(out, logits)


def test_arrays_outlive_the_model():
    with Model(GERMAN) as model:
        memory, _ = model.encode("Guten Tag.")
        copy = memory.copy()
    del model
    junk = [bytearray(10 ** 6) for _ in range(20)]
    assert np.array_equal(memory, copy) and junk


def test_errors_say_what_and_where(german, tmp_path):
    with pytest.raises(Error) as caught:
        german.translate(["gut", "\ud800", "gut"])
    assert (caught.value.status, caught.value.index) == (Status.E_UTF8, 1)
    assert caught.value.message == "text is not UTF-8 at byte 0" and "text 1" in str(caught.value)
    same = pickle.loads(pickle.dumps(caught.value))
    assert (same.status, same.message, same.index) == (Status.E_UTF8, caught.value.message, 1)
    good, bad, blank = german.translate(["Ja.", "viel " * 30, ""], max_source=16, on_error="return")
    assert good == german.translate("Ja.") and blank == "" and bad.status == Status.E_TOO_LONG and bad.index == 1
    with pytest.raises(Error) as caught:
        german.translate("Ja.", n_best=3, beam=2)
    assert caught.value.status == Status.E_ARGUMENT and "n_best" in str(caught.value)
    (tmp_path / "other").write_bytes(b"no model at all")
    for path, status in ((tmp_path / "none", Status.E_IO), (tmp_path / "other", Status.E_FORMAT)):
        with pytest.raises(Error) as caught:
            Model(path)
        assert caught.value.status == status and caught.value.index is None
    with pytest.raises(Error, match="several languages|no such|language"):
        german.translate("Ja.", target_language="xx")
    with pytest.raises(ValueError):
        german.score(["a", "b"], ["c"])
    model = Model(TOY)
    model.close()
    with pytest.raises(ValueError, match="closed"):
        model.translate("我")


def test_one_model_in_many_threads(german):
    expected = german.translate(LINES)
    found = [None] * 4
    crew = [threading.Thread(target=lambda i=i: found.__setitem__(i, german.translate(LINES, batch=i + 1)))
            for i in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert found == [expected] * 4


def test_the_gil_is_free_while_it_works(german):
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    began = time.perf_counter()
    german.translate(LINES * 3, beam=4)
    spent = time.perf_counter() - began
    done.set()
    ticker.join()
    assert max(b - a for a, b in zip(ticks, ticks[1:])) < max(0.5 * spent, 0.05)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c(threads):
    program = (f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)  # nohup ignores it\n"
               f"from transformer_h import Model\nm = Model({str(GERMAN)!r})\nprint('go', flush=True)\n"
               f"try: m.translate(['Guten Tag, wie geht es dir heute?'] * 200000, beam=4, threads={threads})\n"
               f"except KeyboardInterrupt: print('stopped', m.translate('Guten Tag.'))")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "go\n"
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        assert run.communicate(timeout=60)[0] == "stopped Good day.\n"


def test_config_and_header(german):
    assert german.config["norm"] == "pre" and german.config["d_model"] == 256
    header = (Path(transformer_h.get_include()) / "transformer.h").read_bytes()
    assert header == (ROOT / "transformer.h").read_bytes()
    assert f'#define TFM_VERSION "{transformer_h.__version__}"'.encode() in header
    assert transformer_h.cpu()


def test_the_readmes_lines():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(one for one in text.split("```python\n")[1:] if "transformer_h" in one).split("```")[0]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=ROOT)
    shown = [line.split("# ", 1)[1] for line in block.split("\n") if "# " in line]
    assert done.stdout.split("\n")[:-1] == shown, done.stderr


def test_download(tmp_path, monkeypatch):
    """Without a model in the cache, offline gives a message, and so does the command."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Exception, match="no model of firefox is in the cache"):
        transformer_h.download("de", "en", offline=True)
    done = subprocess.run([sys.executable, "-c", "from transformer_h.commands import transformer_model; raise SystemExit(transformer_model())", "get", "de-en",
                           "--offline"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "transformer-model: de-en: no model of firefox is in the cache" in done.stderr


def test_two_models():
    """The second model is the Chinese one: what it makes of English does not matter here."""
    text = "\n".join(LINES)
    with Model(GERMAN) as german, Model(CHINESE) as chinese:
        for options, more in ((["--greedy"], {"greedy": True}), (["--beam", 3], {"beam": 3})):
            expected = command_line(CHINESE, *options)
            assert german.translate(LINES, second=chinese, threads=2, **more) == expected
            assert german.translate(LINES[0], second=chinese, **more) == expected[0]
        assert german.translate_document(text, second=chinese) == "\n".join(command_line(CHINESE, "--document"))
        page = "<p>Ich habe ein <b>Haus</b> am See.</p>"
        assert german.translate_document(page, "html", second=chinese) == chinese.translate_document(
            german.translate_document(page, "html"), "html")
        page = "<html lang=de><p>Ja."
        assert german.translate_document(page, "html", second=chinese).startswith("<html lang=en>")
        assert german.translate_document(page, "html", second=chinese, lang="").startswith("<html lang=de>")
        assert german.translate_document(page, "html", second=chinese, lang="zh").startswith("<html lang=zh>")
        found = german.translate(LINES[:2], second=chinese, n_best=2, beam=2, prefix=["She", ""])
        assert [len(each) for each in found] == [2, 2] and all(h.text.startswith("She") for h in found[0])
        told = []
        german.translate(LINES[:4], second=chinese, batch=2, progress=lambda *numbers: told.append(numbers))
        assert told == [(2, 8), (4, 8), (6, 8), (8, 8)]
        long = "viel " * 600
        results = german.translate(["Ja.", long, "Nein."], second=chinese, max_source=100, on_error="return")
        assert isinstance(results[1], Error) and results[1].index == 1 and "de-en.safetensors" in results[1].message
        assert results[::2] == german.translate(["Ja.", "Nein."], second=chinese)
        with pytest.raises(Error, match="text 1: .*de-en.safetensors"):
            german.translate(["Ja.", long], second=chinese, max_source=100)
        for wrong, kind, message in (({"second": 5}, TypeError, "second is int, expected Model"),
                                     ({"via_language": "en"}, ValueError, "via_language needs second"),
                                     ({"second": chinese, "terms": {"a": "b"}}, ValueError, "second and terms do not go together"),
                                     ({"second": chinese, "on_error": "x"}, ValueError, "on_error is 'x'")):
            with pytest.raises(kind, match=message):
                german.translate("Ja.", **wrong)
        with pytest.raises(ValueError, match="via_language needs second"):
            german.translate_document("Ja.", "html", via_language="en")


def test_detect_language():
    """The texts are in the languages that their authors say: no detector is asked."""
    pytest.importorskip("py3langid")
    texts = {"de": "Der Hund schläft unter dem Tisch.", "en": "The dog sleeps under the table.",
             "zh": "狗在桌子下面睡觉。", "fr": "Le chien dort sous la table."}
    detect = transformer_h.detect_language
    for codes in (list(texts), dict.fromkeys(texts), ["zh_CN", "fr_XX", "en_XX", "de_DE"], ["fra_Latn", "deu_Latn", "zho_Hans", "zho_Hant", "eng_Latn"]):
        for language, text in texts.items():
            found = detect(text, codes)
            assert transformer_h.detecting.base_language(found[0][0]) == language and found[0][0] in codes
            assert len(found) == 4 and abs(sum(p for _, p in found) - 1) < 1e-5
            assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
    assert {language: detect(text)[0][0] for language, text in texts.items()} == {language: language for language in texts}
    assert detect("Hunden sover under bordet.", ["en", "nb"])[0][0] == "nb"
    assert detect("", iter(["zh", "en"]))[0][1] == 0.5 and detect("\ud800 12", ["en"])[0][0] == "en"
    assert detect("Hund " * 10 ** 6, ["de", "en", "xx_unknown"])[0][0] == "de"
    with pytest.raises(ValueError, match="none of these languages can be detected: xx"):
        detect("a", ["xx"])
    with pytest.raises(TypeError, match="text is int"):
        detect(5)


def test_detect_language_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    transformer_h.detecting._full.cache_clear()
    with pytest.raises(ImportError, match=r"detect_language needs py3langid: pip install 'transformer-h\[detect\]'"):
        transformer_h.detect_language("a", ["de"])


def _translated(model, text):
    return model.translate(text)


def test_a_model_pickles_as_its_path(german, monkeypatch, tmp_path):
    """As Spark, Ray, Dask and process pools send it, also from another folder."""
    import multiprocessing
    monkeypatch.chdir(GERMAN.parent)
    with Model(GERMAN.name, weights="i8") as model:
        data = pickle.dumps(model)
        assert len(data) < 1000
        monkeypatch.chdir(tmp_path)
        with pickle.loads(data) as same:
            assert same.translate(LINES[:3]) == model.translate(LINES[:3])
            assert repr(same).partition(":")[2] == repr(model).partition(":")[2]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(_translated, (model, LINES[0])) == model.translate(LINES[0])
    with pytest.raises(ValueError, match="the model is closed"):
        pickle.dumps(model)
    with Model(GERMAN.read_bytes()) as model, pytest.raises(TypeError, match="a Model of bytes does not pickle: give Model the path"):
        pickle.dumps(model)
