"""Arguments that a caller gets wrong: each public function says what is wrong, and nothing is taken in silence.
Run in the repository: make test-package"""

import errno
import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import transformer_h
from transformer_h import (Aligned, Document, Error, LanguageError, MissingFileError, Model, Status, Terms, detect_language, download, export,
                           join_sentences, split_sentences, translate_file)

ROOT = Path(__file__).resolve().parents[3]
GERMAN = ROOT / "examples/models/de-en.safetensors"
WHISPER = ROOT / "tests/data/transcribe/whisper.safetensors"
WAV = (ROOT / "tests/data/transcribe/noise.wav").read_bytes()[:4000]
NAN, INF = float("nan"), float("inf")
OF_MODULE = dict(module=None, path="x", example_src=None, example_tgt=None, start=1, end=2)
SOUND = np.zeros(9, np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messages")
    (folder / "a.txt").write_text("Ja.", encoding="utf-8")
    (folder / "no.safetensors").write_bytes(b"no model at all")
    with Model(GERMAN) as german, Model(WHISPER) as hears:
        yield {"g": german, "w": hears, "tmp": folder}


# The call, what it raises, and a part of the message. g translates German, w is a Whisper model, tmp is a folder.
TABLE = [line.split(" | ") for line in r"""
Model(None) | TypeError | path is NoneType, expected str, os.PathLike, or the bytes of a file
Model(bytearray(b"x")) | TypeError | path is bytearray
Model([GERMAN]) | TypeError | path is list
Model(GERMAN, weights=True) | TypeError | weights is bool, expected str
Model(GERMAN, weights="int8") | ValueError | expected f32 or f16 or bf16 or i8; did you mean 'i8'?
Model(GERMAN, weights="F16") | ValueError | did you mean 'f16'?
Model(GERMAN, map=None) | TypeError | map is NoneType, expected bool
Model(GERMAN, exact=1) | TypeError | exact is int, expected bool
Model(GERMAN, wieghts="i8") | TypeError | wieghts
Model(tmp / "no.safetensors") | Error | no.safetensors:
Model(tmp) | Error | it is a folder
Model(tmp / "none") | FileNotFoundError | none: cannot be opened
Model(b"no model at all") | Error | safetensors
g.translate(None) | TypeError | text is NoneType, expected str or a list of str
g.translate({"Ja."}) | TypeError | text is set, expected str or a list of str: a set has no order
g.translate([["Ja."]]) | TypeError | text[0] is list, expected str
g.translate(memoryview(b"Ja.")) | TypeError | text is memoryview
g.translate(one for one in ["Ja.", 5]) | TypeError | text[1] is int
g.translate("Ja.", beem=2) | TypeError | beem is no option of translate; did you mean 'beam'?
g.translate("Ja.", lenght_penalty=1) | TypeError | did you mean 'length_penalty'?
g.translate("Ja.", Threads=2) | TypeError | did you mean 'threads'?
g.translate("Ja.", tempreature=2) | TypeError | did you mean 'temperature'?
g.translate("Ja.", num_beams=2) | TypeError | num_beams is no option of translate; it is called 'beam'
g.translate("Ja.", zzzzzz=2) | TypeError | zzzzzz is no option of translate
g.translate("Ja.", stop="early_nver", beam=2) | ValueError | did you mean 'early_never'?
g.translate("Ja.", repetition="huggingface", repetition_penalty=2) | ValueError | did you mean 'hugging_face'?
g.translate("Ja.", on_error="retrun") | ValueError | did you mean 'return'?
g.translate([], length_penalty=NAN, beam=2) | ValueError | length_penalty is nan, expected a finite number
g.translate([], coverage_penalty=INF, beam=2) | ValueError | coverage_penalty is inf
g.translate([], length_penalty=1e9, beam=2) | Error | length_penalty is out of range: it takes -100 to 100
g.translate("", coverage_penalty=-1, beam=2) | Error | coverage_penalty is out of range
g.translate(["", " "], temperature=-1, sample=True) | Error | temperature is out of range
g.translate([], n_best=3, beam=2) | Error | n_best
g.translate([], lexical_shortlist=True) | Error | lexical_shortlist
g.translate([], min_length=9, max_length=3) | Error | min_length is 9
g.translate([], top_p=True, sample=True) | TypeError | top_p is bool, expected float
g.translate([], beam=-1) | ValueError | beam is -1, expected 0
g.translate([], no_unknown=0) | TypeError | no_unknown is int, expected bool
g.translate([], terms=[("a", "b")]) | TypeError | terms is list
g.translate([], terms={"a": 5}) | TypeError | a term's target is int
g.translate(["Ja."], prefix="I") | TypeError | prefix is str, expected a list of str
g.translate(["Ja."], draft="I") | TypeError | draft is str, expected a list of str
g.translate("Ja.", prefix=b"I") | TypeError | prefix is bytes
g.translate(["Ja."], prefix=["I", "J"]) | ValueError | 2 prefixes for 1 texts
g.translate("Ja.", prompt="12") | TypeError | prompt is str
g.translate("Ja.", prompt=[True]) | TypeError | prompt[0] is bool
g.translate([], edit_logits=5) | TypeError | edit_logits is int, expected a function
g.translate([], progress="x") | TypeError | progress is str, expected a function
g.translate([], second="x") | TypeError | second is str, expected Model
g.translate([], source_language="xx") | LanguageError | source_language is 'xx': the model has no languages to choose from
g.translate([], target_language=b"en") | TypeError | target_language is bytes
g.translate_document("Ja.", "htm") | ValueError | did you mean 'html'?
g.translate_document([], "HTML") | ValueError | did you mean 'html'?
g.translate_document("Ja.", b"html") | TypeError | format is bytes
g.translate_document("Ja.", lang=5) | TypeError | lang is int
g.translate_document([], lang="\0") | ValueError | lang has a NUL
g.translate_document("Ja.", lnag="en") | TypeError | lnag is no option of translate_document; did you mean 'lang'?
g.translate_document("Ja.", on_error="return") | ValueError | on_error is 'return', expected raise or copy
g.translate_document({"Ja."}) | TypeError | a set has no order
g.stream(["Ja."]) | TypeError | text is list
g.stream("Ja.", max_lenght=4) | TypeError | max_lenght is no option of stream; did you mean 'max_length'?
g.stream("Ja.", repetition_penalty=NAN) | ValueError | repetition_penalty is nan
g.stream("Ja.", target_language="en") | LanguageError | target_language is 'en'
g.score("Ja.", ["Yes."]) | TypeError | source and target are not both str
g.score({"Ja."}, ["Yes."]) | TypeError | a set has no order
g.score("Ja.", "Yes.", batch=True) | TypeError | batch is bool
g.score("Ja.", "Yes.", per_token=None) | TypeError | per_token is NoneType
g.score([], [], source_language="xx") | LanguageError | source_language is 'xx'
g.tokenize(["Ja."]) | TypeError | text is list
g.tokenize("Ja.", target=1) | TypeError | target is int
g.tokenize("Ja.", source_language="de") | LanguageError | source_language is 'de'
g.encode(b"ab") | TypeError | source is bytes
g.encode({(1, 2)}) | TypeError | a set has no order
g.encode([[True]]) | TypeError | source[0][0] is bool
g.encode("Ja.", source_language="de") | LanguageError | source_language is 'de'
g.decode("ab") | TypeError | memory is str, expected an array
g.decode([[1.0]]) | TypeError | memory[0] is list
g.decode(np.ones((2, 3))) | ValueError | memory is float64 [2, 3], expected floats [S,
g.decode(np.ones((2, 3)), beems=2) | TypeError | beems is no option of decode; did you mean 'beam'?
g.forward("ab", [[1]]) | TypeError | source is str, expected rows of ids
g.forward([[1]], [[NAN]]) | TypeError | target[0][0] is float
g.forward([[1]], [[1]], causal=None) | TypeError | causal is NoneType
w.translate("Ja.") | Error | a speech model: use transcribe
w.translate([]) | Error | a speech model: use transcribe
w.translate_document("Ja.") | Error | a speech model: use transcribe
w.stream("Ja.") | Error | a speech model: use transcribe
w.score("Ja.", "Yes.") | Error | a speech model: use transcribe
w.tokenize("Ja.") | Error | a speech model: use transcribe
w.listen([], task="sing") | ValueError | task is 'sing'
w.listen(WAV) | TypeError | pieces is
g.listen([]) | Error | this is not a Whisper model
g.live(5) | TypeError | pieces is int
g.live(sure=True) | TypeError | sure is bool
g.live(sure=2) | ValueError | sure is 2
g.live(threads=0) | ValueError | threads is 0
g.live(second="x") | TypeError | second is str
w.transcribe(tmp / "none.wav") | FileNotFoundError | none.wav: cannot be opened
w.transcribe(tmp) | Error | it is a folder
w.transcribe(WAV, rate=16000) | ValueError | rate is for arrays
w.transcribe([0.0]) | TypeError | sound is list
w.transcribe(bytearray(WAV)) | TypeError | sound is bytearray
w.transcribe(SOUND, rate=True) | TypeError | rate is bool
w.transcribe(SOUND, rate=-1) | ValueError | rate is -1
w.transcribe(WAV, task="translat") | ValueError | did you mean 'translate'?
w.transcribe(WAV, threads=True) | TypeError | threads is bool
w.transcribe(WAV, words=None) | TypeError | words is NoneType
w.transcribe(WAV, temperature="0.2") | TypeError | temperature is str
w.transcribe(WAV, temperature={0.2}) | TypeError | a set has no order
w.transcribe(WAV, temperature=True) | TypeError | temperature is bool
w.transcribe(WAV, temperature=[]) | ValueError | temperature takes 1 to
w.transcribe(WAV, temperature=NAN) | ValueError | temperature takes 1 to
w.transcribe(WAV, compression=NAN) | ValueError | compression is nan
w.transcribe(WAV, silence=5) | ValueError | silence is 5
w.transcribe(WAV, vad=2) | ValueError | vad is 2, expected 0 to 1
w.transcribe(WAV, vad_pad="x") | TypeError | vad_pad
w.transcribe(WAV, language=5) | TypeError | language is int
w.transcribe(WAV, prompt=["a"]) | TypeError | prompt is list
w.transcribe(WAV, own_words="Zelenko") | TypeError | own_words is str
w.transcribe(WAV, own_words=[5]) | TypeError | own_words[0] is int
w.transcribe(WAV, own_words={"a"}) | TypeError | a set has no order
w.transcribe(WAV, own_words=["a", "b\nc"]) | ValueError | own_words[1] has a line break
w.transcribe(WAV, own_words=[]) | Error | own words: the list is empty
w.transcribe(WAV, own_words=["a", 201 * "x"]) | Error | own words, line 2: over 200 bytes
w.transcribe(WAV, progress=5) | TypeError | progress is int
w.transcribe(WAV, previous=0) | TypeError | previous is int
Terms([("a", "b")]) | TypeError | terms is list
Terms(b"a.tsv") | TypeError | terms is bytes
Terms({1: "b"}) | TypeError | a term is int
Terms(tmp / "none") | FileNotFoundError | none
Terms(tmp / "a.txt") | ValueError | a.txt: line 1: there is no TAB
Terms("a\0") | ValueError | terms has a NUL
Document(b"x") | TypeError | text is bytes
Document("x", "html5") | ValueError | did you mean 'html'?
Document("x", None) | TypeError | format is NoneType
Document("x").where(-1) | ValueError | index is -1
Document("x", "html").where(7) | ValueError | index is 7
Document("x").where(True) | TypeError | index is bool
Document("x").join("y") | TypeError | translations is str
Document("x").join({"y"}) | TypeError | a set has no order
Document("x").join([5]) | TypeError | translations[0] is int
Document("x").join(["y"], lang=5) | TypeError | lang is int
Document("x", "html").join([b"y"]) | TypeError | translations[0] is bytes
Document("x", "html").join([Aligned("y", 5)]) | ValueError | translations[0].tokens
Aligned(5, b"") | TypeError | text is int
Error(True, "x") | TypeError | status is bool
Error(99, "x") | ValueError | 99
Error(12, None) | TypeError | message is NoneType
Error(12, "x", -1) | ValueError | index is -1
Error(12, "x", True) | TypeError | index is bool
split_sentences(["x"]) | TypeError | paragraph is list
split_sentences(b"x") | TypeError | paragraph is bytes
join_sentences("ab") | TypeError | sentences is str
join_sentences({"a"}) | TypeError | a set has no order
join_sentences([None]) | TypeError | sentences[0] is NoneType
detect_language(b"x") | TypeError | text is bytes
detect_language("x", "de") | TypeError | languages is str, expected a list of str
detect_language("x", [5]) | TypeError | languages[0] is int
detect_language("x", []) | ValueError | languages is an empty list
translate_file("x", "a", "b") | TypeError | model is str
translate_file([g, "x"], "a", "b") | TypeError | model[1] is str
translate_file([], "a", "b") | ValueError | model is an empty list
translate_file(g, b"a", "b") | TypeError | path is bytes
translate_file(g, "a", None) | TypeError | out is NoneType
translate_file(g, "a\0", "b") | ValueError | path has a NUL
translate_file(g, "a", "b", most=True) | TypeError | most is bool
translate_file(g, "a", "b", most=NAN) | TypeError | most is float
translate_file(g, "a", "b", most=-1) | ValueError | most is -1
translate_file(g, tmp / "none.docx", tmp / "x") | FileNotFoundError | none.docx
translate_file(g, tmp / "a.txt", tmp / "x.txt", beem=2) | TypeError | did you mean 'beam'?
translate_file(g, tmp / "no.safetensors", tmp / "x.txt") | ValueError | no.safetensors
download(["de"], "en") | TypeError | source_language is list
download("de", None) | TypeError | target_language is NoneType
download("de", "en", source="firefix") | ValueError | did you mean 'firefox'?
download("de", "en", source=None) | TypeError | source is NoneType
download("de", "en", architecture="tyni") | ValueError | did you mean 'tiny'?
download("de", "en", update=1) | TypeError | update is int
download("de", "en", offline=0) | TypeError | offline is int
download("de", "en", quiet="no") | TypeError | quiet is str
download("de", "en", records_url=5) | TypeError | records_url is int
export(**{**OF_MODULE, "start": True}) | TypeError | start is bool
export(**{**OF_MODULE, "end": -2}) | ValueError | end is -2
export(**{**OF_MODULE, "path": b"x"}) | TypeError | path is bytes
export(**OF_MODULE, src_pad=1.0) | TypeError | src_pad is float
export(**OF_MODULE, dtype="f23") | ValueError | did you mean 'f32'?
export(**OF_MODULE, src_vocabulary="abc") | TypeError | src_vocabulary is str
export(**OF_MODULE, tgt_vocabulary={"a"}) | TypeError | a set has no order
export(**OF_MODULE, src_sentencepiece=5) | TypeError | src_sentencepiece is int
export(**OF_MODULE, call=5) | TypeError | call is int
export(**OF_MODULE, config=[1]) | TypeError | config is list
export(**OF_MODULE, config={1: 1}) | TypeError | a key of config is int
export(**OF_MODULE, about={"a": 5}) | TypeError | about['a'] is int
""".strip().split("\n")]


@pytest.mark.parametrize("call, kind, message", TABLE, ids=[row[0] for row in TABLE])
def test_a_wrong_argument_is_named(models, call, kind, message):
    if call.startswith("detect_language"):
        pytest.importorskip("py3langid")
    kinds = {"FileNotFoundError": FileNotFoundError, "TypeError": TypeError, "ValueError": ValueError, **vars(transformer_h)}
    with pytest.raises(kinds[kind]) as caught:
        eval(call, globals(), dict(models))
    assert message in str(caught.value), caught.value


def test_the_table_has_every_function():
    """A function or method that is new needs rows here."""
    calls = " ".join(row[0] for row in TABLE)
    for name in transformer_h.__all__:
        one = getattr(transformer_h, name)
        if inspect.isfunction(one) and inspect.signature(one).parameters:
            assert f"{name}(" in calls, name
    for kind in (Model, Document, Terms, Aligned, Error):
        assert f"{kind.__name__}(" in calls
    for name, one in [*vars(Model).items(), *vars(Document).items()]:
        if inspect.isfunction(one) and not name.startswith("_") and name != "close":
            assert f".{name}(" in calls, name


def test_what_may_be_given_in_several_forms(models):
    german = models["g"]
    assert german.translate(one for one in ["Ja.", "Nein."]) == german.translate(("Ja.", "Nein.")) == german.translate(
        np.array(["Ja.", "Nein."])) == german.translate({"Ja.": 1, "Nein.": 2}.keys())
    for blank in ([], [""], (), iter([])):
        german.translate(blank, beam=3, n_best=3, max_length=9)
    assert german.translate("", prefix="", prompt=[1]) == "" and german.translate([""], draft=["x"], greedy=True) == [""]
    assert german.translate("", beam=None, threads=None, on_error=None) == ""


def test_a_config_is_a_copy(models):
    config = models["g"].config
    config["n_heads"] = 0
    config["languages"]["xx"] = 5
    assert models["g"].config["n_heads"] > 0 and models["g"].config["languages"] == {}


@pytest.mark.parametrize("call", [lambda path: Model(path), lambda path: Model(str(path)), lambda path: next(Model(WHISPER).transcribe(path))])
def test_a_missing_file(tmp_path, call):
    for path in (tmp_path / "none", tmp_path / "no folder" / "none", tmp_path / "ä"):
        with pytest.raises(FileNotFoundError) as caught:
            call(path)
        error = caught.value
        assert (error.errno, error.filename, error.status) == (errno.ENOENT, str(path), Status.E_IO)
        assert str(error) == f"{path}: cannot be opened: {os.strerror(errno.ENOENT)}" and isinstance(error, MissingFileError)
        same = pickle.loads(pickle.dumps(error))
        assert (same.errno, same.filename, str(same)) == (error.errno, error.filename, str(error))


def test_languages_get_suggestions(tmp_path):
    from test_package import with_config
    codes = {"deu_Latn": 10, "eng_Latn": 11, "fra_Latn": 12, "zho_Hans": 13}
    with Model(with_config(tmp_path / "many", languages=codes, src_language="target")) as model:
        for code, near in (("fra_Latm", "fra_Latn"), ("FRA_LATN", "fra_Latn"), ("zho_Hant", "zho_Hans"), ("eng-Latn", "eng_Latn")):
            for call in (model.translate, model.tokenize, model.stream):
                with pytest.raises(LanguageError) as caught:
                    call("我", target_language=code)
                assert f"target_language is {code!r}" in str(caught.value) and f"did you mean {near!r}?" in str(caught.value)
                assert isinstance(caught.value, ValueError) and caught.value.status == Status.E_TOKEN
        with pytest.raises(ValueError, match="It has deu_Latn, eng_Latn, fra_Latn, zho_Hans"):
            model.translate("我", target_language="x" * 10 ** 6)


# ---- packages that are missing


@pytest.mark.parametrize("package, extra, code", [
    ("numpy", "numpy", "model.encode([[1]])"),
    ("numpy", "numpy", "model.forward([[1]], [[1]])"),
    ("numpy", "numpy", "model.decode([[1]])"),
    ("numpy", "numpy", "model.translate([], edit_logits=print)"),
    ("numpy", "numpy", "list(model.stream('Ja.', edit_logits=print))"),
    ("py3langid", "detect", "t.detect_language('Ja.')"),
    ("lxml", "documents", "t.translate_file(model, 'a.docx', 'b.docx')"),
    ("torch", "export", "t.export(None, 'x', None, None, start=1, end=2)"),
    ("numpy", "download", "t.download('de', 'en')"),
    ("yaml", "download", "t.download('de', 'en')"),
    ("numpy", "download", "command.transformer_model()"),
    ("yaml", "download", "command.transformer_model()"),
])
def test_a_missing_package_names_its_extra(tmp_path, package, extra, code):
    """transformer_h.convert imports some packages only when it converts. Here a function that imports one stands for that."""
    program = f"""if 1:
        import sys
        import types
        for name in ({package!r}, {package!r} + ".langid", {package!r} + ".etree"):
            sys.modules[name] = None
        import transformer_h as t, transformer_h.commands as command
        if {package!r} != "numpy":
            published = sys.modules["transformer_h.convert.published"] = types.ModuleType("published")
            published.download = published.main = lambda *a, **b: __import__({package!r})
        open("a.docx", "wb").write(b"PK\\3\\4")
        model = t.Model({str(GERMAN)!r})
        try:
            {code}
        except ImportError as error:
            print(error, file=sys.stderr)
        """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(Path(transformer_h.__file__).resolve().parents[1])})
    assert f"pip install 'transformer-h[{extra}]'" in done.stderr and package in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_the_extras_are_those_of_the_project():
    """The messages name the distribution and its extras as pyproject.toml does."""
    import re
    project = (ROOT / "tools/python/pyproject.toml").read_text(encoding="utf-8")
    extras = set(re.findall(r"^(\w+) = \[", project.split("[project.optional-dependencies]")[1].split("[project.scripts]")[0], re.MULTILINE))
    assert re.search(r'^name = "transformer-h"$', project, re.MULTILINE) and "numpy" in extras
    for path in (ROOT / "tools/python/transformer_h").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"transformer-h\[(\w+)\]", text)) <= extras, path
        assert set(re.findall(r'missing_package\([^()]*(?:\([^()]*\)[^()]*)*, "(\w+)"\)', text)) <= extras, path
        assert "pip install './" not in text, path


# ---- the command


def command(*words, **options):
    return subprocess.run([sys.executable, "-m", "transformer_h", *map(str, words)], stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("option, near", [("--beem", "--beam"), ("--taget-language", "--target-language"), ("--outptu=x", "--output"),
                                          ("--Threads", "--threads"), ("--term-file", "--terms")])
def test_the_command_suggests_options(tmp_path, option, near):
    done = command(GERMAN, tmp_path / "a.txt", option, "3")
    assert done.returncode == 2 and f"did you mean {near}?" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("main", ["-m transformer_h", "-c 'from transformer_h.commands import transformer_model as f; raise SystemExit(f())'"])
def test_help_that_cannot_be_written(main, unbuffered):
    for target, reason in ((">/dev/full", os.strerror(errno.ENOSPC)), (">&-", os.strerror(errno.EBADF))):
        done = subprocess.run(f"{sys.executable} {main} --help {target}", shell=True, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
        assert done.returncode == 1 and done.stderr.rstrip().endswith(f"standard output: {reason}"), done.stderr
        assert done.stderr.count("\n") == 1
    assert command("--help", stdout=subprocess.DEVNULL).returncode == 0


def test_the_command_translates_without_standard_output(tmp_path):
    (tmp_path / "a.txt").write_text("Ja.\n", encoding="utf-8")
    done = subprocess.run(f"{sys.executable} -m transformer_h {GERMAN} {tmp_path}/a.txt -o {tmp_path}/b.txt >&-", shell=True)
    assert done.returncode == 0 and (tmp_path / "b.txt").read_text(encoding="utf-8")
