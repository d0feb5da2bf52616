#!/usr/bin/env python3
"""tools/speed.svg shows the tables of tools/SPEED.md: python tests/test_speed_plot.py"""

import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
import speed_plot  # noqa: E402


class SpeedPlot(unittest.TestCase):
    def test_the_picture_is_of_the_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder) / "speed.svg"
            sys.argv = ["speed_plot.py", str(TOOLS / "SPEED.md"), str(drawn)]
            self.assertEqual(speed_plot.main(), 0)
            self.assertEqual((TOOLS / "speed.svg").read_text("utf-8"), drawn.read_text("utf-8"),
                             "run python tools/speed_plot.py tools/SPEED.md tools/speed.svg")

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
