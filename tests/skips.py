#!/usr/bin/env python3
"""Shows that each test that may skip runs in a row of .ci/run: python3 tests/skips.py LOG NAMES

LOG is what .ci/run printed, NAMES is what .ci/run --names prints. tests/skips.tsv has each place that skips: the file,
what the line says (* stands for any text), what the test needs, and the row in which it runs. Instead of a row there may be

    machine             it depends on the processor or the system, which no row can install: it may skip everywhere
    none: make TARGET   no row runs the file; the target does

The run fails if a line says that a test was skipped and the list has no such line; if a test skips in the row in
which it should run; and if that row no longer runs the file. A need that begins with ../ excuses a skip where that
file or folder is missing. In LOG a row is

    === NAME: seconds
        ran: test_a test_b      files of which a check passed
        sliced: test_c          files that have no test in this slice
        skipped: test_x (test_a.Class.test_x): reason
        skipped: reason         of programs in C and scripts
        SKIPPED [1] tests/test_a.py:7: reason
    N passed, N failed

A row without "ran:" runs one script, so its counts say whether that ran. Rows that failed, or are not in LOG, show
nothing about what ran.

tests/tools/test_skips.py compares the list with the sources."""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "skips.tsv"
MACHINE, NO_ROW = "machine", "none: make "


@dataclass
class Entry:
    """A line of skips.tsv: a place that can skip a test."""

    file: str
    says: str
    needs: str
    row: str

    @property
    def names(self) -> set[str]:
        """What a row calls the file after "ran:". A module that tests share runs where one of them does."""
        path = ROOT / self.file
        if path.suffix != ".py" or path.stem.startswith("test_"):
            return {path.stem, f"test_{path.stem}"}
        imports = re.compile(rf"^(?:from|import) {path.stem}\b", re.M)
        return {one.stem for one in path.parent.glob("test_*.py") if imports.search(one.read_text(encoding="utf-8"))} | {path.stem}

    def fits(self, name: str, reason: str) -> bool:
        """Returns whether a line is of this place. Lines of unittest and pytest have the name of a file, others have not."""
        own = name in self.names if Path(self.file).suffix == ".py" and Path(self.file).name.startswith("test_") else True
        return own and fnmatch.fnmatchcase(reason, self.says)

    def excused(self) -> bool:
        missing = self.needs.startswith("../") and not (ROOT / self.needs.split()[0]).exists()
        return self.row == MACHINE or missing


@dataclass
class Row:
    """What the log says of a row: skips are pairs of a file's name ("" if the line has none) and the reason."""

    name: str
    ran: set[str] = field(default_factory=set)
    sliced: set[str] = field(default_factory=set)
    skips: list[tuple[str, str]] = field(default_factory=list)
    passed: bool = False


def read_list(text: str) -> list[Entry]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Entry(*line.split("\t")) for line in lines]


def skip_of(line: str) -> tuple[str, str]:
    """Returns the file's name, or "", and the reason of a line about a skipped test."""
    by_pytest = re.match(r"SKIPPED \[\d+\] (?:.*/)?(\w+)\.py:\d+: (.*)", line)
    if by_pytest:
        return by_pytest[1], by_pytest[2]
    reason = line.split("skipped: ", 1)[1]
    by_unittest = re.match(r"\w+ \((?:unittest\.loader\.ModuleSkipped\.)?(\w+)[\w.]*\)(?: .*?)?: (.*)", reason)
    if by_unittest:
        return by_unittest[1], by_unittest[2]
    return "", re.sub(r"^\d+ checks, ", "", reason)


def read_log(text: str) -> list[Row]:
    rows: list[Row] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("=== "):
            rows.append(Row(re.sub(r": (\d+ s\b|kept\b).*", "", line[4:])))
        elif not rows or line.startswith("skipped: the row "):
            continue
        elif line.startswith(("ran: ", "sliced: ")):
            kind, _, names = line.partition(": ")
            getattr(rows[-1], kind).update(names.split())
        elif line.startswith(("skipped: ", "SKIPPED [")):
            rows[-1].skips.append(skip_of(line))
        elif re.fullmatch(r"\d+ passed, \d+ failed(, \d+ skipped)?", line):
            rows[-1].passed = bool(re.match(r"[1-9]\d* passed, 0 failed", line))
    return rows


def judge(entries: list[Entry], rows: list[Row], names: set[str]) -> list[str]:
    """Returns a message for each fault."""
    faults = [f"{entry.file}: .ci/run has no row \"{entry.row}\"" for entry in entries
              if entry.row not in names and entry.row != MACHINE and not entry.row.startswith(NO_ROW)]
    for row in rows:
        for name, reason in row.skips:
            found = [entry for entry in entries if entry.fits(name, reason)]
            if not found:
                faults.append(f"\"{row.name}\" skips what tests/skips.tsv does not have: {name and name + ': '}{reason}")
            elif not any(entry.excused() or entry.row in names - {row.name} for entry in found):
                faults.append(f"\"{row.name}\" skips what should run there: {found[0].file}: {reason} (needs {found[0].needs})")
    by_name = {row.name: row for row in rows}
    for entry in entries:
        row = by_name.get(entry.row)
        if row and row.passed and row.ran and not entry.names & (row.ran | row.sliced) and not entry.excused():
            faults.append(f"\"{row.name}\" does not run {entry.file}, which tests/skips.tsv says that it runs")
    return list(dict.fromkeys(faults))


def sources() -> Iterator[Path]:
    """Yields the files that can skip a test."""
    for folder in ("tests", "tools/python/tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".c", ".sh") and path.name not in ("skips.py", "test_skips.py", "run.py", "check.sh", "run.sh"):
                yield path


def skips_in_python(text: str) -> Iterator[str | None]:
    """Yields what each place of a Python file says when it skips, with * where a value is. None: only a run shows it."""
    last = {"skip": 0, "skipTest": 0, "SkipTest": 0, "skipUnless": 1, "skipIf": 1}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "importorskip":
            yield f"could not import '{node.args[0].value}'*"  # type: ignore[attr-defined]
        elif name in last or name == "skipif":
            reasons = [one.value for one in node.keywords if one.arg == "reason"]
            reason = reasons[0] if reasons else node.args[last.get(name, -1)]
            if isinstance(reason, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in reason.values)
            else:
                yield str(reason.value) if isinstance(reason, ast.Constant) else None
        elif name == "print" and node.args and re.match(r"f?['\"] *skipped: ", ast.get_source_segment(text, node.args[0]) or ""):
            printed = node.args[0]
            parts = printed.values if isinstance(printed, ast.JoinedStr) else [printed]
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts).split("skipped: ", 1)[1]


def skips_in(path: Path) -> list[str | None]:
    """Returns what each place of a file says when it skips."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return list(skips_in_python(text))
    if path.suffix == ".c":
        return [one[1] if one[1] is not None else None for one in re.finditer(r"\btest_skip\((?:\"([^\"]*)\"|\w+)\)", text)]
    return [re.sub(r"\$(\{[^}]*\}|\w+)", "*", one) for one in re.findall(r"(?:^|[\s{;&|])skip (?:\d+|\S+) \"([^\"]*)\"", text)]


def main(log: str, names: str) -> int:
    entries = read_list(LIST.read_text(encoding="utf-8"))
    rows = read_log(Path(log).read_text(encoding="utf-8", errors="replace"))
    faults = judge(entries, rows, set(Path(names).read_text(encoding="utf-8").splitlines()))
    for fault in faults:
        print(f"FAIL {fault}")
    skips = sum(len(row.skips) for row in rows)
    print(f"skips: {len(rows)} rows, {skips} lines about skipped tests, {len(entries)} places that may skip, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
