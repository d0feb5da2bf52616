#!/usr/bin/env python3
"""Tests that tools/bench/speed.svg shows the tables of tools/bench/SPEED.md: python
tests/tools/test_speed_plot.py"""

import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
import import_path  # noqa: E402, F401
import speed_plot  # noqa: E402


class SpeedPlot(unittest.TestCase):
    def test_the_picture_is_of_the_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder) / "speed.svg"
            sys.argv = ["speed_plot.py", str(BENCH / "SPEED.md"), str(drawn)]
            self.assertEqual(speed_plot.main(), 0)
            self.assertEqual((BENCH / "speed.svg").read_text("utf-8"), drawn.read_text("utf-8"),
                             "run python tools/bench/speed_plot.py tools/bench/SPEED.md tools/bench/speed.svg")

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


if __name__ == "__main__":
    unittest.main()
