#!/usr/bin/env python3
"""Draw the speed of transcribe: python tools/bench/speech_plot.py examples/transcribe/README.md tools/bench/speech.svg

The program reads the tables of the section "Speed" that compare transcribe with faster-whisper on 30 seconds of speech. Two
forms are read: a cell with two ratios (greedy / beam 5), and a cell with seconds and, in brackets, the ratios to
faster-whisper as it is and tuned. tests/tools/test_speed_plot.py fails if the picture disagrees with the tables."""

import re
import sys
from pathlib import Path

import speed_plot

MACHINES = {"AMD Zen 5": "AMD Zen 5", "AMD Zen 3": "AMD Zen 3", "Intel Xeon with AMX": "Intel with AMX"}  # words before a table: the name
TUNED = re.compile(r", CTranslate2 with settings.*")  # in the name of a row: the ratios are those of faster-whisper, tuned
PANELS = ("faster-whisper as it is", "faster-whisper, tuned (malloc, threads)")


def tables(text: str) -> list[tuple[str, list[list[str]]]]:
    """Returns each table of models by cores, with the machine that the paragraph before it names: rows of cells, the head first."""
    parts, found = text.split("\n## Speed\n", 1)[1].split("\n## ", 1)[0].split("\n\n"), []
    for before, part in zip(parts, parts[1:]):
        if part.startswith("| model, weights |"):
            (machine,) = (name for words, name in MACHINES.items() if words in " ".join(before.split()))
            lines = part.strip("\n").split("\n")
            found.append((machine, [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]))
    return found


def ratios(text: str) -> list[speed_plot.Panel]:
    """Returns for each panel and machine the ratios by row and number of cores."""
    panels: list[dict[str, speed_plot.Ratios]] = [{}, {}]

    def keep(panel: int, machine: str, row: str, search: str, cores: int, ratio: str) -> None:
        panels[panel].setdefault(machine, {}).setdefault(f"{row}, {search}", {})[cores] = float(ratio)

    for machine, (head, *rows) in tables(text):
        for name, *cells in rows:
            row = TUNED.sub("", name).replace("`", "")
            for column, cell in zip(head[1:], cells):
                cores = 1 if column.startswith("one") else 2
                numbers = re.findall(r"[\d.]+", cell)
                if ", " in column and numbers:  # seconds (as it is, tuned), for one way to search
                    for panel, ratio in enumerate(numbers[1:]):
                        keep(panel, machine, row, column.split(", ")[1], cores, ratio)
                else:  # greedy / beam 5
                    for search, ratio in zip(("greedy", "beam 5"), numbers):
                        keep(int(row != name.replace("`", "")), machine, row, search, cores, ratio)
    order = sorted({row for panel in panels for all_ in panel.values() for row in all_},
                   key=lambda row: ("--fast" in row, "base" in row, "int8" in row, "beam" in row))
    names = list(MACHINES.values())
    return [(title, [(machine, {row: panel[machine].get(row, {}) for row in order})
                     for machine in names if machine in panel]) for title, panel in zip(PANELS, panels)]


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__.split("\n")[0], file=sys.stderr)
        return 2
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    speed_plot.draw(ratios(text), Path(sys.argv[2]), "Speech: speed-up over faster-whisper",
                    "Time of faster-whisper 1.2.1 (CTranslate2) for 30 seconds of speech, divided by the time of transcribe (Whisper)", "core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
