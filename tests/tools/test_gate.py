#!/usr/bin/env python3
"""Tests what tools/bench/bench_gate.py says of given times, and that a real program passes beside itself: python
tests/tools/test_gate.py"""

import contextlib
import io
import itertools
import subprocess
import sys
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401
import bench_gate  # noqa: E402

OPTIONS = types.SimpleNamespace(rounds=3, limit=3.0)


def verdict(*times, options=OPTIONS):
    """Return what the gate says of the times of A, B and C, each a list that begins again at its end, and how many rounds it took."""
    given = [itertools.cycle(side) for side in times]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        said = bench_gate.judge("row", lambda side: next(given[side]), range(3), options)
    words = printed.getvalue().split()
    assert words[-1] == said
    return said, int(words[-2])


class Gate(unittest.TestCase):
    def test_equal_times_pass_in_the_first_rounds(self):
        self.assertEqual(verdict([10.0], [10.0], [10.0]), ("passed", 3))
        self.assertEqual(verdict([10.0], [10.29], [10.29]), ("passed", 3))

    def test_a_faster_program_passes(self):
        self.assertEqual(verdict([10.0], [5.0], [5.0]), ("passed", 3))

    def test_a_slower_program_fails_after_three_times_the_rounds(self):
        self.assertEqual(verdict([10.0], [10.31], [10.31]), ("failed", 9))
        self.assertEqual(verdict([10.0, 12.0], [10.5, 12.6], [10.5, 12.6]), ("failed", 9))

    def test_a_slow_start_is_measured_again(self):
        late = [11.0] * 3 + [10.0] * 6
        self.assertEqual(verdict([10.0] * 9, late, late), ("passed", 9))

    def test_rounds_that_other_work_disturbs_do_not_count(self):
        self.assertEqual(verdict([10.0], [12.0, 13.0, 10.1], [13.0, 10.0, 12.0]), ("passed", 3))
        self.assertEqual(verdict([10.0, 12.0, 13.0], [12.5, 10.4, 13.5], [10.45, 12.5, 13.5]), ("failed", 9))

    def test_a_slow_copy_by_chance_is_no_failure(self):
        self.assertEqual(verdict([10.0], [10.4], [10.2]), ("passed", 3))

    def test_programs_that_differ_from_themselves_are_unsure(self):
        self.assertEqual(verdict([10.0], [10.0], [11.0]), ("unsure", 18))
        self.assertEqual(verdict([10.0] * 18, [10.0] * 18, [11.0] * 17 + [10.0]), ("passed", 18))

    def test_the_last_release_is_a_commit(self):
        if not bench_gate.output("git", "rev-parse", "--git-dir"):  # in a copy of the tree GIT_DIR may name it
            self.skipTest("no clone of git")
        shown = bench_gate.output("git", "rev-parse", "--is-shallow-repository")
        if shown == "true":
            self.skipTest("a clone without history")
        self.assertTrue(bench_gate.output("git", "cat-file", "-t", bench_gate.last_release()) == "commit")

    def test_programs_beside_themselves(self):
        command = [sys.executable, ROOT / "tools/bench/bench_gate.py", "--self", "--rounds", "1", "--seconds", "0.01",
                   "--threads", "1", "--weights", "int8", "--workloads", "encode-1x32", "--limit", "900"]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        lines = ran.stdout.splitlines()
        self.assertEqual([line.rsplit("  ", 1)[0].split("   ")[0].strip()[:18] for line in lines[2:-1]],
                         ["encode-1x32 int8 1", "text beam 1 1", "text beam 4 1", "process"])
        self.assertEqual(lines[-1], "4 passed, 0 failed, 0 unsure")

    def test_a_commit_that_is_none(self):
        ran = subprocess.run([sys.executable, ROOT / "tools/bench/bench_gate.py", "--last", "nonesuch"], cwd=ROOT,
                             capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr.splitlines()[-1]), (1, "bench_gate: git has no commit nonesuch"))


if __name__ == "__main__":
    unittest.main()
