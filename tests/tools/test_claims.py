"""Compares what the texts say with what is so: sizes, numbers of the model cards, links, files, options, targets of
make, the picture of the page. Needs only Python: python tests/tools/test_claims.py"""

import hashlib
import re
import struct
import subprocess
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"build", ".git", "transformer_h.egg-info"}
TEXTS = sorted(path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts))
README = (ROOT / "README.md").read_text()
PICTURES, PICTURED = ("page.png", "captions.png"), ("index.html", "page.css")


def anchor(title: str) -> str:
    """Returns a heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")


def prose(path: Path) -> str:
    """Returns the text without blocks of code."""
    return re.sub(r"^```.*?^```|^ {4}.*?$", "", path.read_text(), flags=re.M | re.S)


def page_sources() -> str:
    """Returns a checksum of the files that decide what the picture of the page shows."""
    return hashlib.sha256(b"".join((ROOT / "examples/web" / name).read_bytes() for name in PICTURED)).hexdigest()


def sign_picture(path: Path) -> None:
    """Writes the checksum into the PNG file, as text. tests/examples/web/test_page.py calls this for a new picture."""
    data = path.read_bytes()
    body = b"tEXtSource\0" + page_sources().encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    at = len(data) - 12  # before IEND
    path.write_bytes(data[:at] + chunk + data[at:])


class Claims(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for text in TEXTS:
            for address in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
                if re.match(r"[a-z]+:", address):
                    continue
                name, _, part = address.partition("#")
                target = text.parent / name if name else text
                with self.subTest(f"{text.relative_to(ROOT)}: {address}"):
                    self.assertTrue(target.exists())
                    if part:
                        self.assertIn(part, map(anchor, re.findall(r"^#+ (.*)$", target.read_text(), re.M)))

    def test_files_in_backticks_exist(self):
        """A name with a folder that begins like one of ours is a file of ours."""
        for text in TEXTS:
            for name in re.findall(r"`((?:examples|tools|tests)/[\w./-]+\.(?:py|c|h|sh|md|mjs|txt|svg|safetensors))`", prose(text)):
                with self.subTest(f"{text.relative_to(ROOT)}: {name}"):
                    self.assertTrue((ROOT / name).exists() or (text.parent / name).exists())

    def test_options_exist(self):
        """Each option in a command of ours is in the program's table."""
        sources = {"translate": "examples/translate/command.h", "transcribe": "examples/transcribe/command.h", "bench": "tools/bench/bench.c",
                   **{name: f"tools/model/{name}.c" for name in ("forward", "inspect", "quantize")}, "bench_drafts": "tools/bench/bench_drafts.c"}
        seen = 0
        for text in TEXTS:
            commands = text.read_text().replace("\\\n", " ")
            for program, words in re.findall(r"(?:build/)?\b(translate|transcribe|bench|bench_drafts|forward|inspect|quantize)\b((?: +[^\s|`;&<>]+)* +--?[^\s|`;&<>]+[^\n|`;&<>]*)", commands):
                source = (ROOT / sources[program]).read_text()
                for option in re.findall(r"(?<=\s)(--[a-z][\w-]*)", words):
                    seen += 1
                    with self.subTest(f"{text.relative_to(ROOT)}: {program} {option}"):
                        self.assertRegex(source, rf'"(?:-\w, )?{option}"')
        self.assertGreater(seen, 50)

    def test_targets_of_make_exist(self):
        included = re.findall(r"^include (.*)", (ROOT / "Makefile").read_text(), re.M)[0].split()
        makefiles = "".join((ROOT / name).read_text() for name in ["Makefile", *included])
        targets = {name for line in re.findall(r"^([\w .-]+):(?!=)", makefiles, re.M) for name in line.split()}
        for text in TEXTS:
            for name in re.findall(r"(?:`|\$ |&& )make ([a-z][a-z0-9-]*(?:\.json)?)(?![\w=])", text.read_text(), re.M):
                with self.subTest(f"{text.relative_to(ROOT)}: make {name}"):
                    self.assertIn(name, targets)

    def test_models(self):
        for name in ("zh-en", "de-en"):
            card = (ROOT / f"examples/models/{name}.md").read_text()
            size = (ROOT / f"examples/models/{name}.safetensors").stat().st_size
            said = re.search(rf"\[{name}\]\(examples/models/{name}\.md\) \(([\d.]+) MB,\s+BLEU ([\d.]+)\)", README)
            with self.subTest(name):
                self.assertIn(f"| {size:,} bytes", card)
                self.assertEqual(said[1], f"{size / 1e6:.1f}")
                beam = re.search(r"^\| Tatoeba test[^|]*\|[^|]*\|[^|]*\| ([\d.]+),", card, re.M)
                self.assertEqual(said[2], beam[1])

    def test_the_same_in_two_texts(self):
        tools = (ROOT / "tools/README.md").read_text()
        memory = re.search(r"peak memory of `get`; of `translate` with one sentence \| [^;]*; (\d+ MB) \|", tools)[1]
        self.assertIn(f"`translate` needs {memory}", README)
        example = re.search(r"^    \$ build/transcribe .*\n    \[.*$", README, re.M)[0]
        commands = re.findall(r"^    \$ build/models/bin/transformer-model get whisper.*$", README, re.M)
        speech = (ROOT / "examples/transcribe/README.md").read_text()
        self.assertEqual(len(commands), 1)
        top, measured = README.split("## Begin")[0], README.split("<!-- speed -->")[1]
        ours, theirs = re.search(r"writes ([\d,]+) words a second.*?engine ([\d,]+) \(", top, re.S).groups()
        self.assertIn(f"`translate` writes {ours} /", measured)
        self.assertIn(f"writes {theirs} /", measured)
        for one in (example, *commands):
            self.assertIn(one, speech)

    def test_tests_are_listed(self):
        """tests/README.md has each program and script of make test, and no other."""
        listed = re.findall(r"^\| `(test_\w+(?:\.sh)?)` \|", (ROOT / "tests/README.md").read_text(), re.M)
        found = [path.name.removesuffix(".c") for folder in ("library", "translate", "transcribe", "tools", "examples", "fuzz")
                 for path in (ROOT / "tests" / folder).glob("test_*") if path.suffix in (".c", ".sh")]
        self.assertEqual(sorted(listed), sorted([*found, "test_units"]))

    def test_limits_of_lines(self):
        for name, most in (("README.md", 150), ("tools/bench/SPEED.md", 160), ("Makefile", 110)):
            self.assertLessEqual(len((ROOT / name).read_text().splitlines()), most, name)

    def test_speed_is_a_page_that_one_reads(self):
        """No paragraph of SPEED.md is longer than six lines of 120 characters; it has three pictures and three tables."""
        text = (ROOT / "tools/bench/SPEED.md").read_text()
        paragraphs = [one for part in text.split("\n\n") for one in re.split(r"\n(?=- )", part) if not one.startswith(("|", "    "))]
        self.assertGreater(len(paragraphs), 20)
        for one in paragraphs:
            self.assertLessEqual(len(one), 6 * 120, one)
        self.assertEqual((len(re.findall(r"^!\[", text, re.M)), len(re.findall(r"^\|--", text, re.M))), (3, 3))

    def test_text_files_end_in_a_newline(self):
        kinds = {".md", ".py", ".c", ".h", ".sh", ".mk", ".js", ".mjs", ".css", ".html", ".ts", ".txt", ".svg", ".toml", ".yml"}
        for path in ROOT.rglob("*"):
            if path.suffix in kinds and path.is_file() and not SKIPPED & set(path.relative_to(ROOT).parts):
                data = path.read_bytes()
                if data and "corpus" not in path.parts:
                    self.assertEqual(data[-1:], b"\n", path)

    def test_the_picture_is_of_this_page(self):
        for name in PICTURES:
            with self.subTest(name):
                self.assertIn(b"tEXtSource\0" + page_sources().encode(), (ROOT / "examples/web" / name).read_bytes(),
                              f"the page has changed: run make test-web, look at build/web-screenshots/{name}, copy it to examples/web")


if __name__ == "__main__":
    unittest.main()
