"""A plugin of pytest (-p pytest_slices): with SLICE=n in the environment, every seventh of the tests that are marked
"sliced" runs, as tests/run.py chooses them: test i by name if i % 7 == n % 7; with SLICE_ALL=1, every seventh of all
tests. It prints which files ran and the tests that took longest (seconds of the clock), as tests/run.py does."""

import os
from pathlib import Path

import run


def files(names):
    return {Path(name.partition("::")[0]).stem for name in names}


def pytest_configure(config):  # what pytest calls first
    config.addinivalue_line("markers", "sliced: with SLICE=n, every seventh of these tests runs")


def pytest_terminal_summary(terminalreporter, config):  # what pytest calls when it has run the tests
    ran = files(report.nodeid for report in terminalreporter.stats.get("passed", []))
    deselected = files(item.nodeid for item in terminalreporter.stats.get("deselected", []))
    seconds = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                name = report.nodeid.rpartition("/")[2]
                seconds[name] = seconds.get(name, 0) + report.duration
    run.print_slowest(seconds)
    run.print_ran(ran, deselected - ran)


def pytest_collection_modifyitems(config, items):  # what pytest calls when it has found the tests
    number = os.environ.get("SLICE")
    if not number:
        return
    names = sorted(item.nodeid for item in items if os.environ.get("SLICE_ALL") or item.get_closest_marker("sliced"))
    others = {name for i, name in enumerate(names) if i % run.SLICES != int(number) % run.SLICES}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]
