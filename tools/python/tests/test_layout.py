"""How the package is divided: short modules that do not import each other in a circle. Run: make test-package"""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_h

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "tools/python/transformer_h"
MODULES = {path.stem: path for path in PACKAGE.glob("*.py")}
MOST_LINES = 700


def imports(name):
    """Returns the modules of the package that a module imports, also inside its functions. What is under `if TYPE_CHECKING`
    never runs."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level == 1 or node.module and node.module.split(".")[0] == "transformer_h":
                inner = (node.module or "").split(".")[0 if node.level else 1:][:1]
                # "from . import x" imports the module x, or takes a name of __init__.py
                found.update(inner if inner and inner[0] else (
                    each.name if each.name in MODULES else "__init__" for each in node.names))
        elif isinstance(node, ast.Import):
            found.update("__init__" for each in node.names if each.name.split(".")[0] == "transformer_h")
    return found & set(MODULES)


def test_no_module_is_long():
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {} and len(lines) > 15


def test_no_modules_import_each_other():
    graph, path, done = {name: imports(name) for name in MODULES}, [], set()
    assert {"model", "errors", "documents"} <= graph["__init__"] and "arguments" in graph["errors"]  # imports() finds some

    def visit(name):
        assert name not in path, f"a circle: {' imports '.join([*path[path.index(name):], name])}"
        if name not in done:
            path.append(name)
            for other in sorted(graph[name]):
                visit(other)
            done.add(path.pop())

    for name in graph:
        visit(name)


def test_every_module_says_what_it_is_for():
    for name, path in MODULES.items():
        assert len(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") > 20, name


# All names without an underscore that version 0.6.0 had, except modules of the standard library.
@pytest.mark.parametrize("name", "Aligned Document DocumentOptions Error Hypothesis Ids Model Options Segment Status Terms Word __version__ cpu "
                         "detect_language download export ffi get_include join_sentences lib split_sentences translate_file".split())
def test_names_of_the_package_stay(name):
    assert hasattr(transformer_h, name)


def test_each_name_comes_from_one_module():
    for name in transformer_h.__all__:
        assert name in dir(transformer_h) and getattr(transformer_h, name) is not None
    done = subprocess.run([sys.executable, "-c", "from transformer_h import *; import sys; print(Model, Terms('x') if 0 else Status(12).name)\n"
                           "print(sorted(one for one in ('numpy', 'torch', 'lxml') if one in sys.modules))"], capture_output=True, text=True)
    assert done.returncode == 0 and "E_TOO_LONG" in done.stdout and done.stdout.endswith("[]\n"), done.stderr  # nothing large is imported


@pytest.mark.parametrize("one", [
    transformer_h.Error(12, "too long", 3), transformer_h.LanguageError(11, "no such language"), transformer_h.MissingFileError("/none"), transformer_h.Status.E_UTF8,
    transformer_h.Hypothesis("Yes.", -1.5, -2.5, 3, "ended"), transformer_h.Word(0.0, 0.5, " yes", 0.9),
    transformer_h.Segment(0.0, 1.0, " yes", [1], [], "en", 0, 0.0, -0.5, 1.0, None),
    transformer_h.Aligned("Yes.", bytes(24))], ids=lambda one: type(one).__name__)
def test_pickles_name_the_package(one):
    """Version 0.6.0 had all classes in the package itself. Pickles of both kinds can be read."""
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(one, protocol)
        again = pickle.loads(data)
        assert type(again) is type(one) and repr(again) == repr(one) and getattr(again, "__dict__", 0) == getattr(one, "__dict__", 0)
        assert type(one).__module__ == "transformer_h" and b"transformer_h." not in data
    old = f"ctransformer_h\n{type(one).__name__}\n.".encode()
    assert pickle.loads(old) is type(one)
