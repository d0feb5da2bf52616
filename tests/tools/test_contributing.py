"""Makes the edits that .github/CONTRIBUTING.md shows, in a copy of the tree, and runs what it says."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text()


def section(title: str) -> str:
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]


def substitute(pattern: str, new, text: str) -> str:
    """Replaces the one match of the pattern."""
    made, n = re.subn(pattern, new, text, flags=re.M | re.S)
    assert n == 1, f"{pattern}: {n} matches"
    return made


def add_word(text: str, table: str, word: str) -> str:
    """Adds a value at the end of an enum, and its word to the table of its words, in both rows of one with old
    spellings."""
    prefix = re.search(rf'TFM__ENUM\({table}, \w+, (\w+)', text)[1]
    text = substitute(rf"^( +){prefix}COUNT\n", rf"\1{prefix}{word.upper()},\n\1{prefix}COUNT\n", text)
    return substitute(rf'(TFM__ENUM\({table}, [^)]*?)(/\* to 0\.6\.0 \*/[^)]*)?\)',
                      lambda row: f'{row[1]}"{word}", {row[2]}, "{word}")' if row[2] else f'{row[1]}, "{word}")', text)


class Example(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy = Path(folder.name) / "copy"
        shutil.copytree(ROOT, self.copy, symlinks=True,
                        ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))

    def edit(self, name: str, change) -> None:
        path = self.copy / name
        before = path.read_text()
        path.write_text(change(before))
        self.assertNotEqual(path.read_text(), before)

    def run_commands(self, commands: str, flags: str = "-O0") -> subprocess.CompletedProcess[str]:
        """-O0 compiles fastest. The Python that runs this test is the one that `make oracles` makes."""
        environment = {name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFILES")}
        environment["MAKEFLAGS"] = f"CFLAGS={flags}"
        commands = commands.replace("make oracles && ~/.cache/transformer.h/oracles/bin/python", sys.executable)
        return subprocess.run(["sh", "-e", "-c", commands], cwd=self.copy, env=environment, capture_output=True,
                              text=True, timeout=1200)

    def check_passes(self, done: subprocess.CompletedProcess[str], programs: int) -> None:
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertEqual(len(re.findall(r"^(?:\w+: )?[1-9]\d* passed, 0 failed", done.stdout, re.M)), programs, done.stdout)

    def test_a_new_activation(self):
        text = section("Example: a new activation")
        steps = re.findall(r"^\d\. (.*?)(?=^\d\. |^\S)", text, re.M | re.S)
        self.assertEqual((len(steps), "four edits are enough" in text), (4, True))
        word = re.search(r'`"(\w+)"`', text)[1]
        made = set()
        for step in steps:
            step, code = re.sub(r"\s+", " ", step), re.search(r"^ {7}(\S.*)$", step, re.M)
            name = re.search(r"`([\w/]+\.\w+)`", step)[1]
            if found := re.search(r"its word at the end of `(\w+)`, and its formula to `(\w+)`", step):
                self.edit(name, lambda was: add_word(was, found[1], word))
                self.edit(name, lambda was: substitute(rf"(\b{found[2]}\([^\n]*\) {{\n[^}}]*?)(?=^    default)",
                                                       lambda at: f"{at[1]}    {code[1]}\n", was))
            elif found := re.search(r"add the word to the key `(\w+)`", step):
                self.edit(name, lambda was: substitute(rf'^( {{4}}{found[1]} +"[^\n]*"[^\n]*)$', rf'\1 | "{word}"', was))
            elif found := re.search(r"add the word to `(\w+)`", step):
                self.edit(name, lambda was: substitute(rf"^({found[1]} = \([^)]*)\)", rf'\1, "{word}")', was))
            elif found := re.search(r"add the formula in double to `(\w+)`", step):
                self.edit(name, lambda was: substitute(rf"(\b{found[1]}\([^\n]*\) {{\n.*?)(?=^    return)",
                                                       lambda at: f"{at[1]}    {code[1]}\n", was))
            else:
                self.fail(f"which edit is this? {step}")
            made.add(name)
        self.assertEqual(made, {"transformer.h", "tools/convert/README.md", "tools/convert/modelfile.py", "tests/test.h"})
        commands = "\n".join(re.findall(r"^ {4}(make .*)$", text, re.M))
        self.assertIn("test_convert.Words", commands)
        self.check_passes(self.run_commands(commands), 3)

    def test_other_words(self):
        """A row at the end of each table, without code of its own: the tests take it as they take the others."""
        text = section("Example: another word of the config")
        keys = {"tfm__norm_kind_words": "layer_norm", "tfm__position_words": "positions", "tfm__text_words": "tgt_text",
                "tfm__stop_words": "stop"}
        self.assertEqual(re.findall(r"`(tfm__\w+_words)`", text), list(keys))
        for table, key in keys.items():
            self.edit("transformer.h", lambda was: add_word(was, table, f"new_{key}"))
            self.edit("tools/convert/modelfile.py", lambda was: substitute(
                rf'("{key}": one_of\([^)]*?)(,\s+old=\([^)]*)?\)',
                lambda at: f'{at[1]}, "new_{key}"' + (f'{at[2]}, "new_{key}")' if at[2] else ")"), was))
        self.assertIn("`tfm__tokenizers`", text)
        self.edit("transformer.h", lambda was: substitute(
            r"(\btfm__tokenizers\[TFM_TEXT_KIND_COUNT\] = \{.*?)(\{[^{}]*\})\};", r"\1\2, \2};", was))
        self.check_passes(self.run_commands(
            "make build/test_modules build/test_arguments\nbuild/test_modules\nbuild/test_arguments\n"
            "make oracles && ~/.cache/transformer.h/oracles/bin/python tests/run.py test_convert.Words",
            "-O0\\ -DTRANSFORMER_NO_SIMD"), 3)


if __name__ == "__main__":
    unittest.main()
