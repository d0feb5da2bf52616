#!/usr/bin/env python3
"""Compares tests/skips.tsv with the sources and with the rows of .ci/run, and tests what tests/skips.py says of logs: python
tests/tools/test_skips.py"""

import fnmatch
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import skips  # noqa: E402

ROWS = {"one", "two"}
ENTRIES = skips.read_list("""# a comment
tests/tools/test_a.py\tno torch\tPyTorch\ttwo
tests/library/test_b.c\tkernel set *: this CPU lacks it\tAVX-512\tmachine
tests/tools/test_c.py\tno model at *\t../nowhere/model of somebody\tone
tests/tools/test_d.py\tno browser\ta browser\tnone: make test-web
tests/library/test_e.sh\tneeds *\tgdb\tone
""")


def faults(log):
    return skips.judge(ENTRIES, skips.read_log(log), ROWS)


class Logs(unittest.TestCase):
    ONE = "=== one: 3 s, 2 of a CPU\n    ran: test_c test_e\n3 passed, 0 failed\n"
    TWO = "=== two: 3 s, 2 of a CPU\n    ran: test_a\n3 passed, 0 failed\n"

    def in_one(self, line, row="one"):
        """Returns the faults of a log in which that row prints that line, too."""
        kept = {"one": self.ONE, "two": self.TWO}
        kept[row] = kept[row].replace("    ran:", f"    {line}\n    ran:")
        return faults("".join(kept.values()))

    def test_rows_without_skips(self):
        self.assertEqual(faults(self.ONE + self.TWO), [])

    def test_a_skip_elsewhere_is_none(self):
        for line in ("skipped: test_x (test_a.Class.test_x): no torch", "skipped: test_x (test_a.Class): no torch",
                     "skipped: test_a (unittest.loader.ModuleSkipped.test_a): no torch", "SKIPPED [2] ../tests/tools/test_a.py:8: no torch",
                     "skipped: setUpClass (test_a.Class): no torch", "skipped: test_x (test_a.Class.test_x) (kind='a'): no torch"):
            self.assertEqual(self.in_one(line), [], line)
            self.assertIn("skips what should run there: tests/tools/test_a.py", "".join(self.in_one(line, "two")), line)

    def test_the_machine_and_missing_files_excuse(self):
        self.assertEqual(self.in_one("skipped: kernel set 4: this CPU lacks it"), [])
        self.assertEqual(self.in_one("skipped: test_x (test_c.Class.test_x): no model at ../nowhere/model"), [])
        with mock.patch.object(skips, "ROOT", Path(__file__).parents[1]):  # the folder is there
            entries = [skips.Entry("tests/tools/test_c.py", "no model at *", "../tests", "one")]
            found = skips.judge(entries, skips.read_log("=== one: 3 s\n    skipped: test_x (test_c.C.test_x): no model at x\n"), ROWS)
        self.assertIn("skips what should run there", "".join(found))

    def test_a_module_that_tests_share(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(skips, "ROOT", Path(folder)):
            for name, text in (("shared.py", ""), ("test_a.py", "from shared import x\n"), ("test_b.py", "import shared_too\n")):
                Path(folder, name).write_text(text)
            entries = [skips.Entry("shared.py", "no *", "the programs", "one")]
            self.assertEqual(entries[0].names, {"shared", "test_a"})
            for ran, wrong in (("test_a", 0), ("test_b", 1)):
                log = skips.read_log(f"=== one: 3 s\n    ran: {ran}\n3 passed, 0 failed\n")
                self.assertEqual(len(skips.judge(entries, log, ROWS)), wrong, ran)

    def test_a_skip_that_is_not_listed(self):
        for line in ("skipped: test_x (test_z.Class.test_x): no torch", "skipped: 3 checks, no cc", "SKIPPED [1] test_a.py:8: why",
                     "skipped: test_x (test_a.Class.test_x): no torch at all"):
            self.assertIn("skips what tests/skips.tsv does not have", "".join(self.in_one(line)), line)

    def test_a_target_alone(self):
        self.assertIn("skips what should run there", "".join(self.in_one("skipped: test_x (test_d.Class.test_x): no browser")))

    def test_a_script(self):
        self.assertIn("skips what should run there: tests/library/test_e.sh", "".join(self.in_one("skipped: 2 checks, needs gdb")))
        self.assertEqual(self.in_one("skipped: 2 checks, needs gdb", "two"), [])

    def test_a_file_that_its_row_does_not_run(self):
        gone = self.TWO.replace("test_a", "test_z")
        self.assertEqual(faults(gone), ['"two" does not run tests/tools/test_a.py, which tests/skips.tsv says that it runs'])
        self.assertEqual(faults(gone.replace("3 passed, 0 failed", "2 passed, 1 failed")), [])
        self.assertEqual(faults(gone.replace("    ran: test_z", "    ran: test_z\n    sliced: test_a")), [])
        self.assertEqual(faults(gone.replace("    ran: test_z\n", "")), [])  # a row of one script
        self.assertEqual(faults(gone.replace("two: 3 s, 2 of a CPU", "two: kept"))[0][:5], '"two"')

    def test_rows_that_were_left_out(self):
        self.assertEqual(faults("    skipped: the row two: it might not end before 2600 s\n" + self.ONE), [])
        self.assertEqual(faults(self.ONE + "    skipped: the row two: it might not end before 2600 s\n"), [])

    def test_a_row_that_is_none(self):
        found = skips.judge([skips.Entry("tests/x.py", "*", "", "three")], [], ROWS)
        self.assertEqual(found, ['tests/x.py: .ci/run has no row "three"'])

    def test_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            log, names = Path(folder, "log"), Path(folder, "names")
            names.write_text("".join(f"{entry.row}\n" for entry in skips.read_list(skips.LIST.read_text())))
            for line, status in (("", 0), ("    skipped: what nobody knows\n", 1)):
                log.write_text(f"=== make test-server: 1 s\n{line}1 passed, 0 failed\n")
                ran = subprocess.run([sys.executable, ROOT / "tests/skips.py", log, names], capture_output=True, text=True)
                self.assertEqual((ran.returncode, ran.stderr, "FAIL" in ran.stdout), (status, "", bool(status)), ran.stdout)


def alike(says, listed):
    """Returns whether a place and a line of the list can mean the same. Either may have * where the other has words."""
    return says is None or fnmatch.fnmatchcase(says.replace("*", "x"), listed) or fnmatch.fnmatchcase(listed.replace("*", "x"), says)


class List(unittest.TestCase):
    """The list against the sources, so that a new place that skips needs a row before anything runs."""

    ENTRIES = skips.read_list(skips.LIST.read_text(encoding="utf-8"))

    def test_each_place_is_listed(self):
        for path in skips.sources():
            name = path.relative_to(ROOT).as_posix()
            mine = [entry.says for entry in self.ENTRIES if entry.file == name]
            for says in skips.skips_in(path):
                with self.subTest(f"{name}: {says}"):
                    self.assertTrue(any(alike(says, one) for one in mine))

    def test_each_line_is_of_a_place(self):
        for entry in self.ENTRIES:
            with self.subTest(f"{entry.file}: {entry.says}"):
                self.assertTrue(any(alike(says, entry.says) for says in skips.skips_in(ROOT / entry.file)))

    def test_each_row_exists(self):
        names = set(subprocess.run(["bash", ".ci/run", "--names"], cwd=ROOT, capture_output=True, text=True,
                                   env={**os.environ, "SEED": "7"}).stdout.splitlines())
        self.assertGreater(len(names), 20)
        self.assertEqual(skips.judge(self.ENTRIES, [], names), [])

    def test_what_python_says(self):
        text = ('import pytest, unittest\nx = pytest.importorskip("lxml")\n'
                '@pytest.mark.skipif(not x, reason=f"no {x}")\ndef test():\n    pytest.skip("why")\n'
                '@unittest.skipUnless(x.exists("a"), "no a")\nclass A:\n    def b(self):\n        self.skipTest(f"{x} it")\n'
                'raise unittest.SkipTest(x)\nprint(f"    skipped: none of {x}")\n')
        self.assertCountEqual(skips.skips_in_python(text), [
            "could not import 'lxml'*", "no *", "why", "no a", "* it", None, "none of *"])


if __name__ == "__main__":
    unittest.main()
