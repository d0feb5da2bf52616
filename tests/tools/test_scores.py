#!/usr/bin/env python3
"""Tests tools/train/scores.py: rows of two models next to each other, and counts of negations, with a
translator that prints what a file contains."""
import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401

import scores  # noqa: E402

PAIRS = [("我不去。", "I'm not going."), ("他没来。", "He didn't come."), ("我去。", "I'm going."),
         ("她特别高兴。", "She is very happy."), ("别说话！", "Be quiet!"),
         ("他来了。", "He came home today.")]


class ScoresTest(unittest.TestCase):
    def run_tool(self, answers: dict[str, dict[str, str]], *args: str) -> list[str]:
        def translate(program: str, model: str, sources: list[str], options: list[str]) -> list[str]:
            return [answers[model].get(s, dict(PAIRS)[s]) for s in sources]

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "dev.tsv"
            file.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
            out = io.StringIO()
            with mock.patch.object(scores, "translate", translate), contextlib.redirect_stdout(out):
                scores.main(["good", str(file), *args])
        return out.getvalue().splitlines()

    def test_negations(self) -> None:
        """别说话 has no negating word in English, and 特别 is no negation: neither pair is counted."""
        answers = {"good": {}, "bad": {"我不去。": "I'm going.", "他来了。": "Nobody came."}}
        lines = self.run_tool(answers, "--negations", "zh", "--beside", "bad")
        self.assertEqual([line.split("|")[2:4] for line in lines[2:]],
                         [[" 2 of 2 ", " 0 of 2 "]] * 2 + [[" 1 of 2 ", " 1 of 2 "]] * 2)

    def test_copies(self) -> None:
        """Names have a capital and are whole words; 12 is not found in 123."""
        pairs = [("Tom hat 12 Eier von Tomas.", "Tom has 12 eggs from Tomas."), ("Um 7 ist warm.", "Warm at 7."),
                 ("In Rom war Eva.", "In Rome was Eva.")]
        answers = {"good": {}, "bad": {pairs[0][0]: "Tomas has 123 eggs.", pairs[2][0]: "EVA was in Rom."}}
        with mock.patch(f"{__name__}.PAIRS", pairs):
            lines = self.run_tool(answers, "--copies", "--beside", "bad")
        self.assertEqual([line.split("|")[2:4] for line in lines[2:]],
                         [[" 2 of 2 ", " 3 of 3 "]] * 2 + [[" 1 of 2 ", " 1 of 3 "]] * 2)

    def test_beside(self) -> None:
        lines = self.run_tool({"good": {}, "bad": {s: "He went there." for s, _ in PAIRS}}, "--beside",
                              "bad", "--edges", "4")
        self.assertIn("| 100.0 / 100.0 (6) | 100.0 / 100.0 (5) | 100.0 / 100.0 (1)", lines[1])
        self.assertNotIn("100.0", lines[2])
        self.assertLess(float(lines[3].split(" = ")[1]), 0.05)
        alike = {"good": {"我不去。": "I'm not coming."}, "other": {"他来了。": "He came home now."}}
        p = self.run_tool(alike, "--beside", "other")[3].split(" = ")[1]
        self.assertGreater(float(p), 0.2)


if __name__ == "__main__":
    unittest.main()
