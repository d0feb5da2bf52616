#!/usr/bin/env python3
"""Tests that the pictures in tools/bench and README.md say what the tables say from which they are made: python
tests/tools/test_speed_plot.py"""

import re

import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools" / "bench"
import import_path  # noqa: E402, F401
import speech_plot  # noqa: E402
import speed_plot  # noqa: E402
import way_plot  # noqa: E402


class SpeedPlot(unittest.TestCase):
    def test_the_picture_and_the_readme_are_of_the_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder)
            (to / "README.md").write_text((ROOT / "README.md").read_text("utf-8"), "utf-8")
            sys.argv = ["speed_plot.py", str(BENCH), str(to), str(to / "README.md")]
            self.assertEqual(speed_plot.main(), 0)
            for kept in (BENCH / "speed.svg", BENCH / "gemma.svg", ROOT / "README.md"):
                self.assertEqual(kept.read_text("utf-8"), (to / kept.name).read_text("utf-8"),
                                 "run python tools/bench/speed_plot.py tools/bench tools/bench README.md")

    def test_no_machine_and_no_ratio_is_left_out(self):
        text, ratios, machines = (BENCH / "SPEED.md").read_text("utf-8"), 0, set()
        for title in ("f32", "int8"):
            table = text.split(f"\n### {title}\n\n")[1].split("\n\n")[0].split("\n")
            machines |= {cell.strip() for cell in table[0].strip("|").split("|")[1:]}
            ratios += sum(len(re.findall(r"\d+(?:\.\d+)?", cell)) for row in table[2:] if "geometric" not in row
                          for cell in row.strip("|").split("|")[1:])
        picture = (BENCH / "speed.svg").read_text("utf-8")
        self.assertEqual(len(re.findall(r'<circle class="(?:one|two) ', picture)), ratios + len(machines))
        for machine in machines:
            self.assertIn(f">{machine}</text>", picture)
        self.assertIn("AVX2 only", machines)

    def test_another_table_gives_other_sentences(self):
        text, more = ((BENCH / name).read_text("utf-8") for name in ("SPEED.md", "README.md"))
        said = speed_plot.sentences(text, more)
        for old, new in (("| 1.61 / 1.28 |", "| **0.61** / 1.28 |"), ("| 1.16 / 1.81 |", "| **0.16** / 1.81 |"),
                         ("13,700 (1.7)", "14,700 (1.7)")):
            self.assertEqual((text + more).count(old), 1)
            self.assertNotEqual(speed_plot.sentences(text.replace(old, new), more.replace(old, new)), said, new)
        self.assertIn("On CPUs with AVX2 only", said)

    def test_a_dot_for_each_ratio(self):
        text = "\n### f32\n\n| workload | A | B |\n|---|---|---|\n| x | 1.5 / **0.5** | - |\n" \
               "| y | 2 | 3 / 4 |\n| geometric mean | 1 | 2 |\n\nmore"
        table = speed_plot.read_table(text, "f32")
        self.assertEqual(table, {"A": {"x": {1: 1.5, 2: 0.5}, "y": {1: 2}}, "B": {"y": {1: 3, 2: 4}}})
        with tempfile.TemporaryDirectory() as folder:
            speed_plot.draw([("f32", list(table.items()))], Path(folder) / "x.svg")
            tree = ElementTree.parse(Path(folder) / "x.svg")
        kinds = [one.get("class") for one in tree.iter("{http://www.w3.org/2000/svg}circle")]
        dots = sorted(kind for kind in kinds if kind.split()[0] in ("one", "two"))
        # two in the legend, one for each machine
        self.assertEqual(dots, sorted(["one c0", "one c1", "one c0", "two c0", "one c0", "one c1", "two c1"]))

    def test_every_ratio_of_the_larger_models_is_drawn(self):
        text = (BENCH / "README.md").read_text("utf-8")
        table = text.split("\n## T5Gemma and T5Gemma 2\n")[1].split("\n\n|")[1].split("\n\n")[0]
        ratios = re.findall(r"\d+\.\d+", table)
        picture = (BENCH / "gemma.svg").read_text("utf-8")
        self.assertEqual(len(re.findall(r'<circle class="(?:one|two) ', picture)), len(ratios) + 2)
        self.assertEqual(speed_plot.ratios_of("- / 2.52*"), {2: 2.52})
        self.assertEqual(speed_plot.ratios_of("**0.94** / 1.04"), {1: 0.94, 2: 1.04})

    def test_a_picture_fits_light_and_dark_pages(self):
        for name in ("speed", "speech", "gemma", "way"):
            picture = (BENCH / f"{name}.svg").read_text("utf-8")
            tree = ElementTree.fromstring(picture)
            with self.subTest(name):
                first = next(one for one in tree if one.tag.endswith("rect"))
                self.assertEqual((first.get("class"), first.get("width"), first.get("height")),
                                 ("paper", tree.get("width"), tree.get("height")))
                light, dark = (set(re.findall(r"--([\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", picture))
                self.assertEqual(light, dark)
                self.assertEqual(set(re.findall(r"var\(--([\w-]+)\)", picture)) - light, set())


class Speech(unittest.TestCase):
    TEXT = (ROOT / "examples/transcribe/README.md").read_text("utf-8")

    def test_the_picture_is_of_the_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            sys.argv = ["speech_plot.py", str(ROOT / "examples/transcribe/README.md"), str(Path(folder) / "x.svg")]
            self.assertEqual(speech_plot.main(), 0)
            self.assertEqual((BENCH / "speech.svg").read_text("utf-8"), (Path(folder) / "x.svg").read_text("utf-8"),
                             "run python tools/bench/speech_plot.py examples/transcribe/README.md tools/bench/speech.svg")

    def test_no_machine_and_no_ratio_is_left_out(self):
        """Counts the ratios otherwise than speech_plot does: those with a slash between them, and those in brackets."""
        speed = self.TEXT.split("\n## Speed\n")[1].split("\n## ")[0]
        tables = re.findall(r"^\| model, weights \|.*?(?=\n\n)", speed, re.M | re.S)
        cells = [cell for table in tables for row in table.split("\n")[2:] for cell in row.strip("|").split("|")[1:]]
        ratios = sum(2 * cell.count("/") + len(re.findall(r"[(,] ?\d", cell)) for cell in cells)
        picture = (BENCH / "speech.svg").read_text("utf-8")
        self.assertEqual((len(tables), len(re.findall(r'<circle class="(?:one|two) ', picture))), (3, ratios + 3))
        for machine in speech_plot.MACHINES.values():
            self.assertIn(f">{machine}</text>", picture)

    def test_a_ratio_is_at_its_place(self):
        text = "x\n## Speed\n\nOn AMD Zen 5, greedy / beam 5.\n\n| model, weights | one core | two cores |\n|---|---|---|\n" \
               "| base, int8 | 2 / 3 | 4 / 5 |\n| base, int8, CTranslate2 with settings for x | 6 / 7 | |\n\n" \
               "On an Intel Xeon with\nAMX:\n\n| model, weights | two cores, beam 5 | one core, greedy |\n|---|---|---|\n" \
               "| base, int8 | 1.1 (8, 9) | |\n\n## End\n"
        plain, tuned = (dict(panel) for _, panel in speech_plot.ratios(text))
        self.assertEqual(plain, {"AMD Zen 5": {"base, int8, greedy": {1: 2, 2: 4}, "base, int8, beam 5": {1: 3, 2: 5}},
                                 "Intel with AMX": {"base, int8, greedy": {}, "base, int8, beam 5": {2: 8}}})
        self.assertEqual(tuned, {"AMD Zen 5": {"base, int8, greedy": {1: 6}, "base, int8, beam 5": {1: 7}},
                                 "Intel with AMX": {"base, int8, greedy": {}, "base, int8, beam 5": {2: 9}}})


class Way(unittest.TestCase):
    def test_the_picture_is_of_the_program(self):
        self.assertEqual((BENCH / "way.svg").read_text("utf-8"), way_plot.draw(), "run python tools/bench/way_plot.py tools/bench/way.svg")

    def test_what_it_shows_is_in_the_texts(self):
        boxes = [*way_plot.STEPS, *way_plot.USES]
        self.assertEqual(len(way_plot.USES), 6)
        for one in boxes:
            for code in one.code:
                with self.subTest(code):
                    self.assertIn(code, (ROOT / one.file).read_text("utf-8"))
        self.assertGreaterEqual(sum(len(one.code) for one in boxes), 9)


if __name__ == "__main__":
    unittest.main()
