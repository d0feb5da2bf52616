#!/usr/bin/env python3
"""Runs unittest modules of tests/tools: python tests/run.py MODULE ...

Prints what failed, the name of each skipped test with its reason, the modules of which a test passed ("ran:") or
which have no test in this slice ("sliced:"), the tests that took the most CPU time ("slowest:"), and "N passed, N failed[,
N skipped]". V=1 in the environment prints each test. The exit status is 1 if a test failed, and also if none passed,
because a run of skipped tests shows nothing.

With SLICE=n in the environment it runs every seventh test: the tests are sorted by name, and test i runs if
i % 7 == n % 7. With TEST_LIST=1 it prints the names of the tests that it would run, and runs none.
tests/slices.py compares these lists."""

from __future__ import annotations

import os
import sys
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Result(unittest.TextTestResult):
    """Counts tests that passed, and names their modules. unittest counts the tests that ran, and does not count those of
    a skipped class."""

    passed = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ran: set[str] = set()
        self.seconds: dict[str, float] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.seconds[test.id()] = -cpu_seconds()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.seconds[test.id()] += cpu_seconds()

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1
        self.ran.add(module_of(test))


SLICES = 7


def cpu_seconds() -> float:
    """Returns the seconds of a CPU that this process and its ended children took."""
    return sum(os.times()[:4])


def print_slowest(seconds: dict[str, float]) -> None:
    slow = sorted(seconds.items(), key=lambda one: -one[1])[:6]
    print("    slowest: " + ", ".join(f"{name} {took:.0f} s" for name, took in slow if took >= 1))


def module_of(test: unittest.TestCase) -> str:
    """Returns the module's name. unittest makes a class of its own for a module that is skipped or cannot be imported."""
    parts = test.id().split(".")
    return parts[-1] if parts[0] == "unittest" else parts[0]


def print_ran(ran: set[str], sliced: set[str]) -> None:
    """Prints which modules ran, and which have no test in this slice, for tests/skips.py."""
    for kind, names in (("ran", ran), ("sliced", sliced)):
        if names:
            print(f"    {kind}: {' '.join(sorted(names))}")


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yields the tests of a suite and of the suites in it."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def in_slice(suite: unittest.TestSuite, number: str | None) -> list[unittest.TestCase]:
    """Returns the tests of that slice, or all if there is none."""
    tests = sorted(tests_of(suite), key=lambda test: test.id())
    return [test for i, test in enumerate(tests) if not number or i % SLICES == int(number) % SLICES]


def main(modules: list[str]) -> int:
    os.chdir(Path(__file__).resolve().parent / "tools")
    sys.path.insert(0, os.getcwd())
    warnings.simplefilter("ignore")
    tests = in_slice(unittest.defaultTestLoader.loadTestsFromNames(modules), os.environ.get("SLICE"))
    suite = unittest.TestSuite(tests)
    loud = os.environ.get("V", "0")[:1] not in ("", "0")
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2 if loud else 0).run(suite)
    for test, why in result.skipped:
        print(f"    skipped: {test}: {why}")
    print_slowest(result.seconds)
    print_ran(result.ran, {name.split(".")[0] for name in modules} - {module_of(test) for test in tests})
    # the error of a subtest
    bad = [getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors]
    failed = len(set(bad)) + len(result.unexpectedSuccesses)
    failed = max(failed, int(not result.passed))
    if not result.passed:
        print("FAIL no test passed")
    skipped = f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{result.passed} passed, {failed} failed{skipped}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
