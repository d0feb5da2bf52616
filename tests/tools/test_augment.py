#!/usr/bin/env python3
"""Tests tools/train/augment.py: which lines it takes for back-translation, and which lines a mixture
contains."""
import contextlib
import io
import random
import re
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401

import augment  # noqa: E402
from near import near  # noqa: E402


class AugmentTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def put(self, name: str, lines: list[str]) -> str:
        (self.folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return str(self.folder / name)

    def run_tool(self, *args: str, out: str = "out") -> list[str]:
        with contextlib.redirect_stdout(io.StringIO()):
            augment.main([*args, "--out", str(self.folder / out)])
        return (self.folder / out).read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def test_lines(self) -> None:
        more = self.put("more.tsv", ["a\tIt is raining today.", "b\tI like cats.", "c\tHe ate it all.",
                                     "d\ti like cats.", "e\tShe runs to the river."])
        known = self.put("known.tsv", ["x\tHe ate it ALL."])
        dev = self.put("dev.tsv", ["y\tShe ran to the river."])
        self.assertEqual(self.run_tool("lines", more, "--known", known, "--away-from", dev),
                         ["It is raining today.", "I like cats."])
        self.assertEqual(self.run_tool("lines", self.put("plain.txt", ["one", "two", "one"])),
                         ["one", "two"])

    def test_mix(self) -> None:
        real = [(f"{i:06d}", f"{i:05d}x") for i in range(100)]
        pairs = self.put("real.tsv", [f"{s}\t{t}" for s, t in real])
        back = [("qwertz", "abcdef"), ("1" * 60, "too long"), ("", "nothing"), ("aaaaaa", "uvwxyz"),
                ("bbbbbb", "cccccc"), ("ab-12", "12-yz"), ("a-1-2", "12-zz"), ("abcde", "12-zz")]
        # a loop of the model; a loop that the target has too; a number that is kept, and two that are not
        sources = self.put("back.s", [s for s, _ in back])
        targets = self.put("back.t", [t for _, t in back])
        args = ("mix", pairs + "=2", "--back", sources, targets, "--join", "0.1")
        out = [tuple(line.split("\t")) for line in self.run_tool(*args)]
        single = Counter(p for p in out if " " not in p[1])
        self.assertEqual(single, Counter(real + real + [back[i] for i in (0, 4, 5)]))
        joined = [p for p in out if " " in p[1]]
        self.assertEqual(len(joined), 20)
        of = {**{t: s for s, t in real}, **{t: s for s, t in back}}
        for source, target in joined:
            self.assertIn(target.count(" "), (1, 2))
            self.assertEqual(source, "".join(of[t] for t in target.split(" ")))
        self.assertEqual(self.run_tool(*args, out="again"), ["\t".join(p) for p in out])

    def test_best(self) -> None:
        real = self.put("real.tsv", [f"{i:04d}\t{i:04d}" for i in range(50)])
        sources = self.put("scored", [f"{-(i * 7 % 10)}\tx{i}yz" for i in range(10)])
        targets = self.put("back.t", [f"{i}abc" for i in range(10)])
        out = self.run_tool("mix", real + "=1", "--back", sources, targets, "--best", "0.5")
        self.assertEqual({line for line in out if "x" in line},
                         {f"x{i}yz\t{i}abc" for i in range(10) if i * 7 % 10 < 4})

    def test_vary(self) -> None:
        people = ["Tom", "Maria", "Boston", "Bernard", "Kimberly", "Toronto", "Marina", "Berta", "Arnold"]
        real = [(f"Das da ist {name} {i}.", f"That is {name} {i}.") for i in range(10) for name in people]
        real += [("Toms Hund!", "Tom's dog!"), ("Ein Hund!", "Dog!"), ("So 1950 oder 51.", "Either 1950 or 1951.")]
        self.assertEqual(augment.names_of(real), sorted(people))  # Dog is a dog too
        varied = augment.vary(real, 200, random.Random(1))
        self.assertEqual(len(varied), 200)
        names, numbers = set(), set()
        for i, (source, target) in enumerate(varied):
            found = re.fullmatch(r"Das da ist ([A-Z][a-z]+) (\d+)\.", source)
            self.assertTrue(found, source)
            self.assertEqual(target, f"That is {found[1]} {found[2]}.")
            names.add(found[1])
            numbers.add(found[2])
            self.assertTrue(found[1] in people or i % 2 == 0, "every second has another number")
        self.assertGreater(len(names - set(people)), 10)
        self.assertTrue(all(4 <= len(name) <= 11 for name in names - set(people)), names)
        self.assertGreater(len([number for number in numbers if len(number) > 1]), 20)
        self.assertEqual(varied, augment.vary(real, 200, random.Random(1)))
        self.assertEqual(augment.vary([("ja", "yes")], 5, random.Random(1)), [])
        # New names have at least four letters, and these pairs are too few to make any.
        few = [("Da ist Tom.", "There is Tom.")]
        self.assertEqual(augment.vary(few, 5, random.Random(1)), few * 5)

        # Chinese has no spaces and no capitals, and spells foreign names in its own way.
        chinese = [("我房間是1408號。", "My room is 1408."), ("玛丽！", "Marys!"),
                   ("玛丽是Linux的用户。", "Mary uses Linux.")]
        varied = augment.vary(chinese, 100, random.Random(1), ["Bernard", "Berta"], {"玛丽": "Mary"})
        rooms, people = set(), set()
        for source, target in varied:
            found = re.fullmatch(r"我房間是(\d+)號。|(\w+?)是([A-Za-z]+)的用户。", source)
            self.assertTrue(found, source)
            self.assertEqual(target, f"My room is {found[1]}." if found[1]
                             else f"{found[2].replace('玛丽', 'Mary')} uses {found[3]}.")
            rooms.add(found[1])
            people.add(found[2])
        self.assertGreater(len(rooms), 20)
        self.assertGreater(len(people), 3)

        pairs = self.put("real.tsv", [f"{s}\t{t}" for s, t in real])
        dev = self.put("dev.tsv", ["x\tThat is Boston 7!"])
        out = self.run_tool("mix", pairs + "=1", "--vary", "0.5", "--away-from", dev)
        self.assertGreater(len(out), len(real) + 5)
        self.assertLess(len(out), len(real) + 46)
        fresh = Counter(out) - Counter(f"{s}\t{t}" for s, t in real)
        self.assertFalse(list(near([line.split("\t")[1] for line in fresh], ["That is Boston 7!"], 0.8)))

    def test_refused(self) -> None:
        pairs, one = self.put("real.tsv", ["a\tb"]), self.put("one", ["a"])
        two = self.put("two", ["a", "b"])
        for args, message in (((pairs,), "not FILE=TIMES"),
                              ((pairs + "=1", "--back", one, two), "has 1 lines"),
                              ((pairs + "=1", "--back", one, one, "--best", "0.5"), "translate --scores")):
            with self.assertRaisesRegex(SystemExit, message):
                self.run_tool("mix", *args)
            self.assertFalse((self.folder / "out").exists())
        for text in ("Mary", "=Mary", "玛丽=", "玛丽=Mary Ann"):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                self.run_tool("mix", pairs + "=1", "--spelled", text)
            self.assertIn(f"--spelled {text}: not SOURCE=TARGET", said.getvalue())


if __name__ == "__main__":
    unittest.main()
