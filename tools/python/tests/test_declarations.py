"""The declarations that the package is compiled with are the header's: all of them, as a compiler reads them."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

import transformer_h
from transformer_h import Model
from transformer_h._transformer import ffi, lib

ROOT = Path(__file__).resolve().parents[3]
HEADER = (ROOT / "transformer.h").read_text(encoding="utf-8")
PUBLIC = HEADER[HEADER.index("#ifndef TRANSFORMER_H\n"):HEADER.index("#endif /* TRANSFORMER_H */")] + "#endif\n"
GERMAN = ROOT / "examples/models/de-en.safetensors"


def model_file(path, without="none", **config):
    """Writes the German model with other values in its config (None: without that key), and without the
    tensors of this pattern."""
    data = GERMAN.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    about = header.pop("__metadata__")
    stated = {**json.loads(about["transformer.config"]), **config}
    about["transformer.config"] = json.dumps({key: value for key, value in stated.items() if value is not None})
    kept, at, parts = {"__metadata__": about}, 0, []
    for name, one in header.items():
        if not re.fullmatch(without, name):
            parts.append(data[8 + size + one["data_offsets"][0]:8 + size + one["data_offsets"][1]])
            kept[name] = {**one, "data_offsets": [at, at + len(parts[-1])]}
            at += len(parts[-1])
    text = json.dumps(kept, ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
    return path


def configs():
    """The files of the repository that are models, with the configs in them."""
    for path in sorted([*ROOT.glob("tests/data/**/*.safetensors"), *ROOT.glob("examples/models/*.safetensors")]):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        if "transformer.config" in header.get("__metadata__", {}):
            yield pytest.param(path, json.loads(header["__metadata__"]["transformer.config"]),
                               id=str(path.relative_to(ROOT)))


def test_there_are_models():
    assert {"t5", "mt5", "whisper", "ssru", "de-en"} <= {one.values[0].stem for one in configs()}


# words of files of versions up to 0.6.0, and those of now
NEW_WORDS = {"variance": "layer_norm", "deviation": "layer_norm_unbiased", "rms": "rms_norm"}


def plain(value):
    if isinstance(value, (tuple, dict)):
        return all(map(plain, value if isinstance(value, tuple) else [*value, *value.values()]))
    return type(value) in (int, float, str)


@pytest.mark.parametrize("path, stated", list(configs()))
def test_every_config_is_read(path, stated):
    with Model(path) as model:
        config = model.config
    in_file = {"norm_order": "norm", "norm_kind": "layer_norm"}  # Python has the names of the model file
    names = {in_file.get(name, name) for name, _ in ffi.typeof("tfm_config").fields}
    counts = {f"n_{name}" for name in names} & names
    assert set(config) == names - counts and counts >= {"n_suppressed", "n_languages", "n_alignment_heads"}
    for name, value in config.items():
        assert plain(value) or (value is None and name in ("source_language", "target_language")), (name, value)
        # what the file says, and has the same form in the header
        if name in stated and isinstance(stated[name], str) and name not in (
                "embedding_scale", "prefix_space", "rotary_layout", "cross_attention"):  # numbers in the header
            assert value == NEW_WORDS.get(stated[name], stated[name]), name
        if name in ("n_heads", "position_offset", "start", "end", "layer_norm_eps", "languages") and name in stated:
            assert value == stated[name], name


def test_a_model_of_bytes(tmp_path):
    path = model_file(tmp_path / "model", "(src|tgt)_(sentencepiece|vocabulary).*", src_text="bytes",
                      tgt_text="bytes", byte_offset=4)
    with Model(path) as model:
        assert (model.config["src_text"], model.config["byte_offset"]) == ("bytes", 4)
        assert model.tokenize("Aé") == [one + 4 for one in "Aé".encode()] + [model.config["src_end"]]
        assert model.tokenize("A\n", target=True) == [ord("A") + 4, ord("\n") + 4]
        assert isinstance(model.translate("Aé", max_length=5), str)


def test_alignment_heads(tmp_path):
    with Model(model_file(tmp_path / "model", alignment_heads=[[0, 1], [1, 0]])) as model:
        assert model.config["alignment_heads"] == ((0, 1), (1, 0)) and model.config["suppressed"] == (0, 1, 2)


# ---- the header, as a compiler's preprocessor and a parser of C read it -----------------------------


def compiled():
    """The public part of the header, preprocessed by the C compiler."""
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not cc:
        pytest.skip("there is no C compiler")
    text = re.sub(r"^#include .*", "", PUBLIC, flags=re.MULTILINE)
    return subprocess.run([cc, "-E", "-P", "-x", "c", "-DTFM_DEF=", "-"], input=text, capture_output=True, text=True,
                          check=True).stdout


def test_the_preprocessor_is_the_compilers():
    build = runpy.run_path(str(ROOT / "tools/python/transformer_h/_build.py"))
    assert build["TOKEN"].findall(compiled()) == build["TOKEN"].findall(build["header_declarations"](HEADER))


MACROS = r"""
#define EMPTY
#define CAT(a, b) a##b
#define CAT3(a, b, c) a ## b ## c
#define TEXT(x) #x
#define TWICE(x) x x
#define SELF SELF + 1
#define CALL(f, x) f(x)
#define TABLE(X) X(red, 1) X(green, (2, 3)) \
    X(blue, "a, b")
#define ROW(name, value) int CAT(name, _value) = TEXT(name) value;
TABLE(ROW)
#undef ROW
#define ROW(name, value) name,
enum { TABLE(ROW) CAT3(l, as, t) }; /* a comment
over lines */ int after; // and one of a line
int TWICE EMPTY (x), TWICE(CAT(y, 1)), SELF, CALL(TWICE, z), CALL(TEXT, "/* no comment */");
char quoted[] = "a \" TWICE(x) // no comment", one = '\'', brace = '{'; float f = 1.5e3f, g = .5;
#if defined(EMPTY) && !defined NONE && (defined(NONE) || defined(CAT))
#ifdef NONE
int no;
#elif defined(SELF)
int yes;
#else
int no;
#endif
#elif 1
int no;
#else
#if NONSENSE(
#endif
int no;
#endif
#ifndef NONE
int yes;
#endif
"""


def test_macros():
    build = runpy.run_path(str(ROOT / "tools/python/transformer_h/_build.py"))
    cc = shutil.which("cc") or pytest.skip("there is no C compiler")
    # a branch that is not taken is not read, here as there
    expected = subprocess.run([cc, "-E", "-P", "-w", "-x", "c", "-"], input=MACROS, capture_output=True, text=True).stdout
    found = build["preprocessed"](MACROS, {})
    squeezed = [[word.replace(" ", "") for word in build["TOKEN"].findall(text)] for text in (found, expected)]
    assert squeezed[0] == squeezed[1]
    for bad in ("#if NAME > 1\n#endif", "#endif", "#if defined(A)", "#define", "#line 5", "#define A(x\n", "#else"):
        with pytest.raises(SyntaxError):
            build["preprocessed"](f"int a;\n{bad}\n", {})


def enumerators(enum):
    """Returns the numbers of an enum's names, as C counts them."""
    found, number = {}, -1
    for one in enum.values.enumerators:
        number = int(one.value.value, 0) if one.value else number + 1
        found[one.name] = number
    return found


def test_every_enum_struct_and_function_is_declared():
    pycparser = pytest.importorskip("pycparser")
    tree = pycparser.CParser().parse(
        "typedef int int32_t, int64_t, uint32_t, uint64_t, size_t;" + compiled(), "transformer.h")
    n = {"enums": 0, "structs": 0, "functions": 0}
    for node in tree.ext:
        kind = getattr(node, "type", None)
        inner = getattr(kind, "type", None)
        if isinstance(kind, pycparser.c_ast.FuncDecl):
            assert callable(getattr(lib, node.name)), node.name
            n["functions"] += 1
        elif isinstance(inner, pycparser.c_ast.Enum) and inner.values:
            numbers = enumerators(inner)
            assert ffi.typeof(node.name).relements == numbers, node.name
            assert {one: getattr(lib, one) for one in numbers} == numbers
            n["enums"] += 1
        elif isinstance(inner, pycparser.c_ast.Struct) and inner.decls:
            assert [name for name, _ in ffi.typeof(node.name).fields] == [one.name for one in inner.decls], node.name
            n["structs"] += 1
    assert n["enums"] == len(re.findall(r"^typedef enum ", PUBLIC, re.MULTILINE)) > 10
    assert n["structs"] == len(re.findall(r"^typedef struct \w+ \{", PUBLIC, re.MULTILINE)) > 20
    assert n["functions"] > 70


def test_the_list_for_bindings_is_whole():
    """make api.json: each TFM_DEF, struct member and enumerator, with comments, as a parser of C reads them. The module is
    compiled with the same list, so a wrong type would not compile."""
    api = runpy.run_path(str(ROOT / "tools/python/transformer_h/_api.py"))
    listed = api["read_api"](HEADER)
    symbols = dict(re.findall(r"^#define (tfm_[a-z_]+) (tfm_[a-z_]+) /\*", PUBLIC, re.MULTILINE))
    names = re.findall(r"^TFM_DEF\s[^;(]*?(\w+)\(", PUBLIC, re.MULTILINE)
    assert [one["name"] for one in listed["functions"]] == [symbols.get(name, name) for name in names] and len(names) > 70
    assert all(one["comment"] for one in listed["functions"])
    assert listed["version"] == re.search('TFM_VERSION "(.*)"', HEADER)[1]
    pycparser = pytest.importorskip("pycparser")
    types = "typedef int int32_t, int64_t, uint32_t, uint64_t, size_t;"

    def read(text):
        return [node for node in pycparser.CParser().parse(types + text, "transformer.h").ext][5:]

    def shape(node):  # without places in the file
        if isinstance(node, pycparser.c_ast.Enum):
            return node.name, enumerators(node)
        return (type(node).__name__, [getattr(node, name) for name in node.attr_names],
                [(name, shape(child)) for name, child in node.children()])
    assert list(map(shape, read(api["c_declarations"](listed)))) == list(map(shape, read(compiled())))
    members = {member["name"]: member["comment"] for one in listed["structs"] if one["name"] == "tfm_masks" for member in one["members"]}
    assert members["causal"] == "1: query t sees keys 0 .. t" and list(members) == ["key_padding", "attention", "key_lengths", "causal"]
    values = {value["name"]: value for one in listed["enums"] for value in one["values"]}
    assert (values["TFM_OK"]["value"], values["TFM_OK"]["comment"], values["TFM_E_ARGUMENT"]["value"]) == (0, "success", 1)


def test_no_comment_is_lost():
    """make api.json has each comment of the public part, except those of directives and macros."""
    listed = runpy.run_path(str(ROOT / "tools/python/transformer_h/_api.py"))["read_api"](HEADER)

    def squeezed(text):
        return re.sub(r"\W+", "", text)

    def said(one):
        if isinstance(one, dict):
            yield "".join(str(one.get(name, "")) for name in ("number", "name", "comment"))  # a chapter
            yield from (one.get("comment", ""), one.get("group", ""))
            one = list(one.values())
        if isinstance(one, list):
            for inner in one:
                yield from said(inner)
    whole = "\n".join({squeezed(text) for text in said(listed)})
    text = re.sub(r"^[ \t]*(#(.*\\\n)*.*|/\* clang-format .*)\n", "", PUBLIC, flags=re.MULTILINE)
    # what stands above an #if or a table of no enum
    text = text.replace("/* Every struct that a program and the library pass to each other. */", "")
    comments = [re.sub(r"^ >>api-\w+", "", one) for one in re.findall(r"/\*(.*?)\*/", text, re.DOTALL)]
    assert [one for one in comments if squeezed(one) not in whole] == [] and len(comments) > 300
    members = {f"{one['name']}.{member['name']}": member for one in listed["structs"] for member in one["members"]}
    assert members["tfm_decode_options.beam"]["group"] == "beam search"
    assert members["tfm_decode_options.truncate"]["comment"].startswith("n: of a longer source")
    assert members["tfm_request.prompt"]["comment"].startswith("What the decoder reads before the target")
    assert {one["chapter"] for kind in ("functions", "structs", "enums") for one in listed[kind]} == {one["number"] for one in listed["chapters"]}


def test_options_are_the_headers():
    """Each number of tfm_decode_options is an option, or is named as none."""
    numbers = {name for name, field in ffi.typeof("tfm_decode_options").fields
               if field.type.kind in ("primitive", "enum")}
    assert transformer_h.options.NO_OPTIONS <= numbers and transformer_h.options.FLAGS <= numbers
    own = {"threads", "batch", "source_language", "target_language", "greedy", "prefix", "sample", "seed",
           "max_source", "tokens", "second", "via_language", "terms", "aligned", "on_error", "progress", "draft", "prompt",
           "edit_logits", "sentences", "plain", "all_languages", "counts", "lang"}
    assert set(transformer_h.Options.__annotations__) == numbers - transformer_h.options.NO_OPTIONS | own
