#!/usr/bin/env python3
"""Shows that the slices of any seven seeds in a row have every case of the sliced tests once, and that a run
without a slice, as .ci/run --all does it, has them all: python tests/slices.py MODULE[+MODULE ...] ... [build/test_x ...]

Each program lists its cases, and in which of the seven slices each of them is (TEST_LIST). A module lists the cases
of each slice. Needs the programs, and the Python of the modules."""

import os
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

import run

SEED = int(os.environ.get("SEED") or 32)


def slices_of(name: str) -> tuple[list[str], list[list[str]]]:
    """Returns all cases of a program or module, and the cases of seven seeds in a row."""
    if name.startswith("build/"):
        environment = {key: value for key, value in os.environ.items() if key != "SLICE"} | {"TEST_LIST": str(SEED)}
        told = subprocess.run([name], env=environment, capture_output=True, text=True, check=True).stdout
        cases = [line.removeprefix("case ").rpartition(":") for line in told.splitlines() if line.startswith("case ")]
        return ([case for case, _, _ in cases],
                [[case for case, _, places in cases if str(place) in places.split()] for place in range(run.SLICES)])
    seeds = range(SEED, SEED + run.SLICES)
    tests = unittest.defaultTestLoader.loadTestsFromNames(name.split("+"))
    return ([test.id() for test in run.in_slice(tests, None)],
            [[test.id() for test in run.in_slice(tests, str(seed))] for seed in seeds])


def main(names: list[str]) -> int:
    failed = 0
    sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
    for name in names:
        whole, slices = slices_of(name)
        union = Counter(case for cases in slices for case in cases)
        wrong = union != Counter(whole) or len(set(whole)) != len(whole) or not whole
        failed += wrong
        print(f"{'FAIL ' if wrong else ''}{name}: {len(whole)} cases, in slices of "
              f"{', '.join(str(len(cases)) for cases in slices)}")
        if wrong:
            print("  not once in the slices:", sorted((Counter(whole) - union) + (union - Counter(whole)))[:10])
    print(f"{len(names) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
