"""What the package does with arguments that are wrong: it raises TypeError, ValueError or its own Error, and
says which argument it is. It never crashes."""

import inspect
import os
import random
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
TOY = ROOT / "tests/data/models/toy.safetensors"
WHISPER = ROOT / "tests/data/transcribe/whisper.safetensors"
WAV = (ROOT / "tests/data/transcribe/noise.wav").read_bytes()[:4000]
TEXT = (ROOT / "tests/data/toy.zh").read_text(encoding="utf-8").split("\n")[0]
SEED, CALLS = 20260, 6000


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


# ---- memory that a call writes into -----------------------------------------------------------------


def test_out_is_written_only_where_it_may_be(german, tmp_path):
    source, target = [[5, 6, 7]], [[2, 8]]
    shape = (1, 2, german.config["tgt_vocab_size"])
    expected = german.forward(source, target)
    np.save(tmp_path / "logits.npy", np.zeros(shape, np.float32))
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    locked = np.zeros(shape, np.float32)
    locked.flags.writeable = False
    of_bytes = np.frombuffer(bytes(4 * expected.size), np.float32).reshape(shape)
    for out in (mapped, locked, of_bytes):
        with pytest.raises(ValueError, match="^out is read-only"):
            german.forward(source, target, out=out)
    assert not mapped.any() and not locked.any() and not of_bytes.any()
    wide = np.zeros((1, 2, 2 * shape[2]), np.float32)
    odd = np.frombuffer(bytearray(4 * expected.size + 1), np.float32, offset=1).reshape(shape)
    for out, what in ((wide[:, :, ::2], "not in C order"), (wide[:, :, :shape[2]], "not in C order"),
                      (np.asfortranarray(locked.copy()), "not in C order"), (odd, "not aligned"),
                      (np.zeros(shape), "float64"), (np.zeros(shape, ">f4"), ">f4"), (wide, "expected float32"),
                      (np.zeros(shape, np.int32), "int32"), (np.zeros(shape[1:], np.float32), "expected float32")):
        with pytest.raises(ValueError, match=what):
            german.forward(source, target, out=out)
        assert not out.any()
    for out in (list(range(3)), bytearray(4 * expected.size), memoryview(locked), 5, "x"):
        with pytest.raises(TypeError, match=f"^out is {type(out).__name__}, expected numpy.ndarray"):
            german.forward(source, target, out=out)
    writable = np.load(tmp_path / "logits.npy", mmap_mode="r+")
    assert german.forward(source, target, out=writable) is writable and np.array_equal(writable, expected)


def test_ids_may_lie_in_any_memory(german):
    source, target = np.array([[5, 6, 7], [8, 9, 10]], np.int32), [[2, 8], [2, 9]]
    expected = german.forward(source, target)
    locked = source.copy()
    locked.flags.writeable = False
    doubled = np.repeat(source, 2, axis=1)
    for same in (source.tolist(), locked, doubled[:, ::2], np.asfortranarray(source), source.astype(">i4"),
                 source.astype(np.uint64), source.astype(np.int8), source.astype(object), tuple(map(tuple, source)),
                 iter(source), [iter(row) for row in source]):
        assert np.array_equal(german.forward(same, target), expected)


# ---- messages ---------------------------------------------------------------------------------------


IDS = [[5, 6]]


@pytest.mark.parametrize("call, message", [
    (lambda m: m.translate(5), "text is int, expected str or a list of str"),
    (lambda m: m.translate(b"Ja."), "text is bytes, expected str or a list of str"),
    (lambda m: m.translate(["Ja.", None]), r"text\[1\] is NoneType, expected str"),
    (lambda m: m.translate(["Ja.", "Ja.", b"Ja."]), r"text\[2\] is bytes, expected str"),
    (lambda m: m.translate({"a": 1}), "text is dict"),
    (lambda m: m.translate("Ja.", beam="4"), "beam is str, expected int"),
    (lambda m: m.translate("Ja.", beam=4.0), "beam is float, expected int"),
    (lambda m: m.translate("Ja.", beam=True), "beam is bool, expected int"),
    (lambda m: m.translate("Ja.", length_penalty="1", beam=2), "length_penalty is str, expected float"),
    (lambda m: m.translate("Ja.", no_unknown=1), "no_unknown is int, expected bool"),
    (lambda m: m.translate("Ja.", stop=1, beam=2), "stop is int, expected str"),
    (lambda m: m.translate("Ja.", greedy=1), "greedy is int, expected bool"),
    (lambda m: m.translate("Ja.", threads="2"), "threads is str, expected int"),
    (lambda m: m.translate("Ja.", source_language=5), "source_language is int, expected str"),
    (lambda m: m.translate("Ja.", prefix=[b"x"]), r"prefix\[0\] is bytes, expected str"),
    (lambda m: m.translate("Ja.", beems=4), "beems is no option"),
    (lambda m: m.translate("Ja.", forbidden=[1]), "forbidden is no option"),
    (lambda m: m.stream(["Ja."]), "text is list, expected str"),
    (lambda m: m.stream("Ja.", beems=4), "beems is no option"),
    (lambda m: m.stream("Ja.", beam=4), "beam is no option of stream"),
    (lambda m: m.stream("Ja.", max_length="4"), "max_length is str, expected int"),
    (lambda m: m.score("Ja.", ["Yes."]), "not both str"),
    (lambda m: m.score(["Ja."], ["Yes.", 5]), r"target\[1\] is int, expected str"),
    (lambda m: m.score("Ja.", "Yes.", per_token=1), "per_token is int, expected bool"),
    (lambda m: m.tokenize(None), "text is NoneType, expected str"),
    (lambda m: m.encode(5), "source is int, expected texts, or rows of ids"),
    (lambda m: m.encode([[5], 6]), r"source\[1\] is int, expected a row of ids"),
    (lambda m: m.encode(["Ja.", [5]]), r"source\[1\] is list, expected str"),
    (lambda m: m.encode([[5, 6.0]]), r"source\[0\]\[1\] is float, expected int"),
    (lambda m: m.encode([[5, True]]), r"source\[0\]\[1\] is bool, expected int"),
    (lambda m: m.decode(5), r"memory is int, expected an array \[S, d_memory\], or a list of them"),
    (lambda m: m.decode([[1.0]]), r"memory\[0\] is list, expected an array of floats"),
    (lambda m: m.decode(np.zeros((2, 5), np.float32), draft="x"), "draft is no option of decode"),
    (lambda m: m.decode(np.zeros((2, m.config["d_memory"])), prompt=[1.5]), r"prompt\[0\] is float, expected int"),
    (lambda m: m.translate("Ja.", progress=5), "progress is int, expected a function"),
    (lambda m: m.translate_document([5]), r"text\[0\] is int, expected str"),
    (lambda m: m.translate_document("Ja.", n_best=2), "n_best is no option of translate_document"),
    (lambda m: m.encode(np.zeros((2, 2))), "source is an array of float64"),
    (lambda m: m.encode(np.zeros(2, np.int32)), r"source is an array of int32 \[2\]"),
    (lambda m: m.forward(IDS, [[2], "x"]), r"target\[1\] is str, expected a row of ids"),
    (lambda m: m.forward(IDS, [[2, "x"]]), r"target\[0\]\[1\] is str, expected int"),
    (lambda m: m.forward(IDS, [[2]], causal=1), "causal is int, expected bool"),
    (lambda _: Model(5), "path is int, expected str"),
    (lambda _: Model(bytearray(b"x")), "path is bytearray, expected str"),
    (lambda _: Model(GERMAN, weights=5), "weights is int, expected str"),
    (lambda _: Model(GERMAN, map=1), "map is int, expected bool"),
    (lambda _: transformer_h.split_sentences(b"x"), "paragraph is bytes, expected str"),
    (lambda _: transformer_h.join_sentences("abc"), "sentences is str, expected a list of str"),
    (lambda _: transformer_h.join_sentences(["abc", 5]), r"sentences\[1\] is int, expected str"),
])
def test_wrong_types_are_named(german, call, message):
    with pytest.raises(TypeError, match=message):
        call(german)


@pytest.mark.parametrize("call, message", [
    (lambda m: m.translate("Ja.", beam=-1), "beam is -1, expected 0 to 2147483647"),
    (lambda m: m.translate("Ja.", beam=2 ** 31), "beam is 2147483648, expected"),
    (lambda m: m.translate("Ja.", beam=10 ** 5000), "beam is a number of 16610 bits"),
    (lambda m: m.translate("Ja.", n_best=0), "n_best is 0, expected 1"),
    (lambda m: m.translate("Ja.", threads=0), "threads is 0, expected 1 to 1024"),
    (lambda m: m.translate("Ja.", batch=0), "batch is 0"),
    (lambda m: m.translate("Ja.", max_source=0), "max_source is 0"),
    (lambda m: m.translate("Ja.", sample=True, seed=-1), "seed is -1, expected 0 to 18446744073709551615"),
    (lambda m: m.translate("Ja.", beam=2, length_penalty=10 ** 400), "length_penalty is too large"),
    (lambda m: m.translate("Ja.", beam=2, stop="soon"), "stop is 'soon', expected ctranslate2 or early_never or early_true or early_false"),
    (lambda m: m.translate("Ja.", on_error="stop"), "on_error is 'stop', expected raise or return"),
    (lambda m: m.translate(["Ja."], prefix=["a", "b"]), "2 prefixes for 1 texts"),
    (lambda m: m.score("Ja.", "Yes.", batch=-1), "batch is -1"),
    (lambda m: m.encode([[5, 2 ** 31]]), r"source\[0\]\[1\] is 2147483648"),
    (lambda m: m.encode(np.array([[5, 6], [2 ** 40, 7]])), r"source\[1\]\[0\] is 1099511627776"),
    (lambda m: m.encode(np.broadcast_to(np.int32(5), (10 ** 6, 10 ** 6))), "source has 1000000 rows of 1000000 ids"),
    (lambda m: m.encode(IDS, source_language="de"), "need texts"),
    (lambda m: m.decode(np.zeros((2, 5))), r"memory is float64 \[2, 5\], expected floats \[S, "),
    (lambda m: m.decode([np.zeros((2, m.config["d_memory"]), int)]), r"memory\[0\] is int64 .*expected floats"),
    (lambda m: m.decode(np.zeros((0, m.config["d_memory"]))), r"memory is float64 \[0, "),
    (lambda m: m.decode(np.zeros((1, 2, m.config["d_memory"])), prompt=[]), "0 prompts for 1 texts"),
    (lambda _: Model(GERMAN, weights="f8"), "weights is 'f8', expected f32 or f16 or bf16 or i8"),
    (lambda _: Model(GERMAN.read_bytes(), map=True), "map needs a path"),
    # a NUL would end the string for the library
    (lambda _: Model(f"{GERMAN}\0.old"), "path has a NUL at byte"),
    (lambda _: Model(Path(f"{GERMAN}\0")), "path has a NUL"),
    (lambda m: m.translate("Ja.", source_language="de\0x"), "source_language has a NUL at byte 2"),
    (lambda m: m.tokenize("Ja.", target_language="\0"), "target_language has a NUL at byte 0"),
    (lambda m: m.stream("Ja.", target_language="en\0"), "target_language has a NUL"),
    (lambda m: m.score("Ja.", "Yes.", source_language="de\0"), "source_language has a NUL"),
    (lambda m: m.encode("Ja.", source_language="de\0"), "source_language has a NUL"),
])
def test_wrong_values_are_named(german, call, message):
    with pytest.raises(ValueError, match=message):
        call(german)


@pytest.mark.parametrize("options, message", [
    ({"temperature": 0.5}, "temperature needs sample"), ({"top_k": 5}, "top_k needs sample"),
    ({"top_p": 0.5}, "top_p needs sample"), ({"seed": 0}, "seed needs sample"),
    ({"prefix_bias": 0.5}, "prefix_bias needs prefix"), ({"keep_end": True}, "keep_end needs tokens"),
    ({"min_alternative_prob": 0.5}, "min_alternative_prob needs alternatives"),
    ({"repetition": "target"}, "repetition needs no_repeat_ngram or repetition_penalty"),
    ({"patience": 2}, "patience needs a beam above 1"), ({"beam": 1, "stop": "full"}, "stop needs a beam above 1"),
    ({"length_penalty": 1}, "length_penalty needs a beam above 1, or n_best"),
    ({"coverage_penalty": 0.1}, "coverage_penalty needs a beam above 1, or n_best"),
    ({"sample": True, "beam": 4}, "sample and beam do not go together"),
    ({"sample": True, "stop": "full"}, "sample and stop do not go together"),
    ({"sample": True, "patience": 2}, "sample and patience do not go together"),
    ({"sample": True, "alternatives": 2}, "sample and alternatives do not go together"),
    ({"n_best": 2, "alternatives": 2}, "n_best and alternatives do not go together"),
])
def test_an_option_without_its_partner(german, options, message):
    with pytest.raises(ValueError, match=message):
        german.translate("Ja.", **options)
    if "sample" not in options and "n_best" not in options and "beam" not in options and "alternatives" not in options:
        with pytest.raises(ValueError, match=message):
            german.stream("Ja.", **options)


def test_options_do_what_the_command_line_does(german, tmp_path):
    def command(*flags):
        done = subprocess.run([ROOT / "build/translate", GERMAN, *map(str, flags)], capture_output=True, check=True,
                              input="".join(f"{one}\n" for one in texts), text=True)
        return done.stdout.split("\n")[:-1]
    texts = ["Guten Tag.", "Wie geht es dir heute?", "Wir gehen morgen ins Kino."]
    found = german.translate(texts, alternatives=3, batch=2)
    assert [f"{i}\t{one.text}" for i, each in enumerate(found, 1) for one in each] == command("--alternatives", 3)
    assert german.translate(texts, beam=4, length_penalty=1.0) == command("--beam", 4, "--length-penalty", 1)
    ids = german.translate(texts, tokens=True, keep_end=True)
    assert ids == command("--tokens", "--keep-end")
    assert german.translate(texts, beam=3, stop="enough") == command("--beam", 3)
    likely = german.translate(texts, n_best=2, beam=4, coverage_penalty=0.2, stop="likely")
    assert [len(each) for each in likely] == [2, 2, 2]
    with pytest.raises(Error) as caught:  # this model has no lexicon
        german.translate("Ja.", lexical_shortlist=True)
    assert caught.value.status in (Status.E_ARGUMENT, Status.E_CONFIG)
    # numbers of numpy are numbers
    assert german.translate(texts, beam=np.int64(4), length_penalty=np.float32(1), threads=np.int8(2)) == command(
        "--beam", 4, "--length-penalty", 1)


# ---- every method with arguments at random ------------------------------------------------------------


FUZZ = f"""
import sys
sys.path[:0] = {sys.path!r}
import faulthandler
faulthandler.enable()
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
except ImportError:
    pass
import test_arguments
test_arguments.fuzz(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
"""


class Strange:
    """An object whose methods do not do what their names promise."""

    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n

    def __float__(self):
        raise ValueError("this is no float")

    def __len__(self):
        return 10 ** 9

    def __iter__(self):
        return iter([self.n] * 3)


def pool(folder):
    """Arguments of each kind, most of them wrong."""
    logits = np.zeros((1, 2, 10), np.float32)
    locked = logits.copy()
    locked.flags.writeable = False
    np.save(Path(folder) / "x.npy", logits)
    ids = np.ones((2, 3), np.int32)
    numbers = [None, True, False, 0, 1, 2, 3, 5, -1, 17, 1024, 2 ** 31 - 1, 2 ** 31, -2 ** 31, -2 ** 31 - 1, 2 ** 32, 2 ** 63,
               2 ** 64, -2 ** 64, 10 ** 400, 0.0, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 1j,
               np.int32(3), np.int64(-3), np.uint64(2 ** 64 - 1), np.float32(0.5), np.float64("nan"), np.bool_(True),
               Strange(1), Strange(-1), Strange(2 ** 70)]
    texts = ["", " ", "我", TEXT, "a b", "a\0b", "\0", "\ud800", "x" * 500, "我" * 300, "\\", "\\u", ">>x<<", "s\u0301", b"", b"x",
             bytearray(b"x"), memoryview(b"xyz"), [], [""], ["我"], ["我", "爱"], ["我", 5], ["我", None], ["\ud800", "我"], ("我",),
             {"我": 1}, {"我"}, np.array(["我", "爱"]), np.array("我")]
    rows = [[[]], [[1]], [[1, 2]], [[1, 2], [3]], [[], [1]], [[-1]], [[9]], [[10 ** 6]], [[2 ** 31]], [[1.5]], [["x"]], [[None]],
            [[[1]]], [1], [[1], 2], ids, ids[:1], ids.astype(np.int64), ids.astype(np.uint8), ids * 2 ** 20, ids[:, ::2], ids.T,
            ids.astype(">i4"), ids.astype(float), ids > 0, ids[0], ids[None], np.int32(1), np.array(1), np.zeros((0, 3), np.int32),
            np.zeros((3, 0), np.int32), np.zeros((0, 0), np.int64), np.full((2, 2), 2 ** 40), np.full((1, 2), 2 ** 64 - 1, np.uint64),
            np.broadcast_to(np.int32(1), (10 ** 6, 10 ** 6)), np.broadcast_to(np.int32(1), (1, 2000)), ids.astype(object),
            np.zeros((2, 2), [("a", "i4")]), np.zeros((2, 2), "M8[s]"), np.ma.masked_array(ids, ids > 0), range(3), [range(3)],
            iter([[1]]), [Strange(1)], [[Strange(1)]], [[Strange(2 ** 70)]]]
    outs = [logits, locked, logits[:, :, ::-1], logits[::-1], logits.astype(float), logits.astype(">f4"), logits.astype(np.float16),
            logits[0], logits[:, :1], np.zeros((1, 2, 11), np.float32), np.zeros((2, 3, 10), np.float32), np.zeros(0, np.float32),
            np.asfortranarray(np.zeros((2, 3, 10), np.float32)), np.broadcast_to(np.float32(0), (1, 2, 10)),
            np.load(Path(folder) / "x.npy", mmap_mode="r"), np.load(Path(folder) / "x.npy", mmap_mode="c"),
            np.frombuffer(bytes(80), np.float32).reshape(1, 2, 10),
            np.frombuffer(bytearray(81), np.float32, offset=1).reshape(1, 2, 10), logits.view(np.ma.MaskedArray)]
    paths = [str(TOY), TOY, os.fsencode(TOY), TOY.read_bytes(), TOY.read_bytes()[:-1], TOY.read_bytes()[:100], "none", "", ".", "/",
             f"{TOY}\0", "\ud800", Path("none"), str(ROOT), "x" * 10 ** 5, bytearray(TOY.read_bytes()), memoryview(b"")]
    names = ["raise", "return", "sure", "full", "target", "f32", "i8", "f16", "bf16", "as_stored", "count", "en", "de\0"]
    sounds = [np.zeros(0, np.float32), np.full(99, np.nan, np.float32), np.ones(1600, np.float32), np.zeros((2, 9), np.float32),
              np.zeros(9, np.int16), np.zeros((), np.float32), np.zeros(9, complex), np.zeros(99, np.float32)[::-3],
              np.ma.masked_array(np.ones(99, np.float32), True), np.zeros(9, [("a", "f4")]), WAV, WAV[:50], WAV[:30], b"", *paths]
    pieces = [*([one] for one in sounds), [], [b"", b"x"], (b"a", b"bcd", np.ones(7, np.float32)), [WAV[44:]] * 3, {WAV: 1}, range(2), [None],
              [WAV[44:], memoryview(WAV)[45:], bytearray(9)], WAV, sounds[2]]
    memories = [np.ones((3, 64), np.float32), np.ones((2, 3, 64)), np.ones((0, 64), np.float32), np.ones((3, 5)), np.ones((3, 64), int), [],
                [np.ones((2, 64), np.float16), np.full((5, 64), np.nan, np.float32)], np.float32(1), [np.ones(64)], "x", [None]]
    return [numbers, texts, rows, outs, paths, names, sounds, pieces, memories, [object(), int, len, ..., lambda: 1, Exception()]]


def fuzz(seed, calls, folder):
    """Calls of all public functions and methods. A call that raises something else than it may ends it."""
    drawn, kinds = random.Random(seed), pool(folder)
    options = {**{name: 0 for name in transformer_h.Options.__annotations__}, "n_best": 0, "unheard_of": 0}
    # name, parameters: of each the kinds that fit, and optional ones
    methods = {"translate": (["text"], list(options)), "translate_document": (["text"], list(options)), "stream": (["text"], list(options)),
               "score": (["text", "text"], ["per_token", "batch", "source_language", "target_language", "tokens"]),
               "tokenize": (["text"], ["target", "source_language", "target_language", "tokens"]),
               "encode": (["rows"], ["source_language", "target_language"]),
               "decode": (["memories"], list(inspect.signature(Model.decode).parameters)[2:]),
               "transcribe": (["sound"], list(inspect.signature(Model.transcribe).parameters)[2:]),
               "listen": (["pieces"], list(inspect.signature(Model.listen).parameters)[2:]),
               "live": (["text"], list(inspect.signature(Model.live).parameters)[2:]),
               "forward": (["rows", "rows"], ["causal", "out"]), "config": ([], []), "arithmetic": ([], []), "close": ([], []),
               "Model": (["path"], ["weights", "map", "in_place", "exact"]), "split_sentences": (["text"], []),
               "join_sentences": (["text"], []), "Error": (["number", "text"], ["index"])}
    assert {name for name in vars(Model) if not name.startswith("_")} <= set(methods)
    fits = {"text": 1, "rows": 2, "number": 0, "path": 4, "out": 3, "weights": 5, "stop": 5, "on_error": 5, "repetition": 5,
            "source_language": 5, "target_language": 5, "prefix": 1,
            "sound": 6, "pieces": 7, "memories": 8, "language": 5, "task": 5, "prompt": 1}

    def value(name):
        kind = kinds[fits.get(name, 0)] if drawn.random() < 0.8 else drawn.choice(kinds)
        return drawn.choice(kind)

    counts, model, hears, now = {}, Model(TOY), Model(WHISPER), [time.process_time(), ""]

    def right():
        """Results of calls that are right: no call before may change them."""
        best = model.translate([TEXT, TEXT[:1]], n_best=2, beam=3)
        return (best, list(model.stream(TEXT)), model.score(TEXT, best[0][0].text), model.tokenize(TEXT),
                model.encode([[1, 2], [3]])[1].tolist(), model.forward([[1, 2]], [[1]]).tolist())

    expected = right()

    def watch():
        while time.process_time() < now[0] + 20:
            time.sleep(0.5)
        print(f"seed {seed}, {now[1]} takes longer than 20 seconds of a CPU", flush=True)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
    for i in range(calls):
        name = drawn.choice(list(methods))
        needed, allowed = methods[name]
        arguments = [value(each) for each in needed]
        if name in ("score", "forward") and drawn.random() < 0.5:  # one that fits
            arguments = [[TEXT], ["I"]] if name == "score" else [[[1, 2]], [[1, drawn.choice([2, 2, 10 ** 6])]]]
        if name in ("translate", "stream") and drawn.random() < 0.5:
            arguments = [TEXT]
        more = {each: value(each) for each in drawn.sample(allowed, min(len(allowed), drawn.choice([0, 1, 1, 1, 2, 2, 3])))}
        call = f"call {i}: {name}(*{arguments!r:.300}, **{more!r:.300})"
        now[:] = time.process_time(), call
        try:
            if name == "config":
                result = model.config
            elif name in ("Model", "split_sentences", "join_sentences", "Error"):
                result = getattr(transformer_h, name)(*arguments, **more)
            elif name in ("transcribe", "listen"):
                result = [next(getattr(drawn.choice([model, hears, hears]), name)(*arguments, **more), None) for _ in range(2)]
            elif name == "close":
                model.close()
                for call in (lambda: model.translate("我"), lambda: model.encode([[1]]), lambda: model.tokenize("我")):
                    with pytest.raises(ValueError, match="the model is closed"):
                        call()
                model = Model(TOY)
                result = None
            else:
                result = getattr(model, name)(*arguments, **more)
            if name in ("stream", "live"):
                for _ in range(50):
                    next(result, None)
            outcome = "ok"
        except (TypeError, ValueError, Error) as error:
            outcome = type(error).__name__
        except OSError as error:  # no such file of terms
            assert "terms" in more, f"seed {seed}, {call} raised {error!r:.300}"
            outcome = "OSError"
        except BaseException as error:
            print(f"seed {seed}, {call} raised {error!r:.300}")
            raise
        counts[name, outcome] = counts.get((name, outcome), 0) + 1
        if i % 10 == 0:
            assert right() == expected, f"seed {seed}, after {call}"
    print(f"seed {seed}:", counts)


def test_arguments_at_random(tmp_path):
    """The seed is fixed, so a failure can be repeated. It runs in a process of its own, which may crash."""
    done = subprocess.run([sys.executable, "-c", FUZZ, str(SEED), str(CALLS), str(tmp_path)], capture_output=True, text=True,
                          timeout=900, cwd=Path(__file__).parent)
    print(done.stdout[-3000:])
    assert done.returncode == 0, f"seed {SEED}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    for name in ("translate", "stream", "score", "tokenize", "encode", "decode", "forward", "transcribe"):
        assert f"('{name}', 'TypeError')" in done.stdout and f"('{name}', 'Error')" in done.stdout
