#!/usr/bin/env python3
"""Draw the tables of tools/bench, and write what README.md says of them: python tools/bench/speed_plot.py FROM TO [README.md]

FROM is the folder with SPEED.md and README.md, TO gets the pictures. speed.svg shows the tables "f32" and "int8" of
SPEED.md: a row is a workload, a column is a machine, and a cell has two ratios, with one thread and with two. gemma.svg
shows the table "T5Gemma and T5Gemma 2" of tools/bench/README.md. The sentences of the README.md at the top between
<!-- speed --> and <!-- end of speed --> count the ratios below 1, and give the words per second of the table "Sizes of
Firefox's models". tests/tools/test_speed_plot.py fails if one of these files disagrees with the others; after a change
of a table, run

    python tools/bench/speed_plot.py tools/bench tools/bench README.md

tools/bench/bench_peers.py --plot uses the same function to draw ratios that it measured,
and speech_plot.py and way_plot.py draw with it. The program needs only Python.
"""

import math
import re
import sys
from html import escape
from pathlib import Path

TABLES = ("f32", "int8")
AVX2_ONLY = ("AVX2 only", "AMD Zen 3", "Zen 5, AVX2 only", "Zen 5, AVX2, 7 bits")  # the columns of machines, or settings, without VNNI
COLORS = [("#2a78d6", "#5598e7"), ("#d9541f", "#f08a5d"), ("#118a58", "#35bf86"),
          ("#8250c8", "#b58df0"), ("#a8780a", "#e0b040"), ("#c2317f", "#ee7fb8"),
          ("#0b7c8c", "#35b5c6"), ("#6b6f76", "#a9aeb6")]
GROUNDS = ("--paper: #fff; --ink: #1f2328; --soft: #59636e; --grid: #d8dce1; --stripe: #f5f6f8;",
           "--paper: #0d1117; --ink: #f0f3f6; --soft: #9aa4af; --grid: #30363d; --stripe: #161b22;")
STYLE = """.paper { fill: var(--paper); } .stripe { fill: var(--stripe); }
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
text { fill: var(--ink); }
.title { font-size: 16px; font-weight: 600; } .panel { font-size: 13px; font-weight: 600; }
.note, .tick { fill: var(--soft); } .tick { font-size: 11px; }
.grid { stroke: var(--grid); } .equal { stroke: var(--ink); stroke-width: 1.5; }
.join { stroke-width: 2; stroke-opacity: 0.45; } .two, .open { stroke-width: 2; }
.any { fill: var(--soft); stroke: var(--soft); } .open { fill: var(--paper); }"""
PANEL, GAP, MARGIN = 330, 30, 24
SUBROW, BETWEEN, HEAD, FOOT = 10, 14, 112, 46

Ratios = dict[str, dict[int, float]]  # by workload, then by number of threads; 1 and 2 are drawn
Panel = tuple[str, list[tuple[str, Ratios]]]  # a title, and for each machine its name and ratios


def read_table(text: str, title: str) -> dict[str, Ratios]:
    """Returns the table below the heading "### title": ratios by machine, then by workload."""
    lines = text.split(f"\n### {title}\n", 1)[1].strip("\n").split("\n\n")[0].split("\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {machine: {row[0]: dict(enumerate(map(float, re.findall(r"[\d.]+", row[column])), 1))
                      for row in rows[2:]
                      if not row[0].startswith("geometric") and row[column] != "-"}
            for column, machine in enumerate(rows[0]) if column}


def table_rows(text: str, title: str) -> list[list[str]]:
    """Returns the cells of the rows of the table below the heading "## title", with its head."""
    lines = text.split(f"\n## {title}\n", 1)[1].split("\n\n|", 1)[1].split("\n\n")[0].split("\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def ratios_of(cell: str) -> dict[int, float]:
    """Returns the ratios of a cell such as "1.5 / **0.9**" or "- / 2*", by the number of threads."""
    found = [re.search(r"\d[\d.]*", one) for one in cell.split("/")]
    return {threads: float(one[0]) for threads, one in enumerate(found, 1) if one}


def gemma(text: str) -> list[Panel]:
    """Returns what gemma.svg shows: a panel for each type of weights, with the models in place of machines."""
    head, *rows = table_rows(text, "T5Gemma and T5Gemma 2")
    panels: dict[str, list[tuple[str, Ratios]]] = {}
    for name, *cells in rows:
        model, weights = name.split(", ")
        panels.setdefault(weights, []).append((model, {title: ratios_of(cell) for title, cell in zip(head[1:], cells)}))
    return list(panels.items())


def below(all_: dict[str, dict[str, Ratios]], machines: tuple[str, ...] = ()) -> str:
    """Says how many ratios are below 1, and which is the lowest. machines: only those."""
    found = [(ratio, workload, machine, threads) for table in all_.values() for machine, rows in table.items()
             if machine in machines or not machines for workload, pair in rows.items() for threads, ratio in pair.items()]
    ratio, workload, machine, threads = min(found)
    number = sum(one[0] < 1 for one in found)
    return (f"{number} of {len(found)} ratios are below 1; the lowest is {ratio:.2f} "
            f"({workload} on {'the Intel held to AVX2' if machine == 'AVX2 only' else machine}, {threads} thread{'s' * (threads > 1)})")


def sentences(text: str, more: str) -> str:
    """Returns what the README.md at the top says of the tables of SPEED.md, text, and of the README.md beside it, more."""
    tables = {title: read_table(text, title) for title in TABLES}
    machines = list(dict.fromkeys(machine for table in tables.values() for machine in table))
    made = [f"In f32, {below({'f32': tables['f32']})}.",
            f"In int8, {below({'int8': tables['int8']})}.",
            f"On CPUs with AVX2 only, {below({'int8': tables['int8']}, AVX2_ONLY)}."]
    assert set(AVX2_ONLY) <= set(machines)
    rows = table_rows(more, "Sizes of Firefox's models")[1:]
    names = [row[0] for row in rows]
    def said(column: int) -> str:
        return " / ".join(row[column].split(" ")[0] for row in rows)

    made += [f"With models of the sizes of Firefox's ({' / '.join(names)}; random weights, with a shortlist), on one core of an AMD Zen 5,",
             f"one sentence at a time, `translate` writes {said(1)} words per second, and in batches of 32 sentences {said(2)}.",
             f"Mozilla's engine fxtranslate 0.5.0 writes {said(3)}, one sentence at a time."]
    return "\n".join(made)


def with_sentences(readme: str, text: str, more: str) -> str:
    """Returns the README.md at the top with these sentences."""
    begin, end = "<!-- speed -->\n", "\n<!-- end of speed -->"
    before, rest = readme.split(begin)
    return before + begin + sentences(text, more) + end + rest.split(end)[1]


def picture(width: int, height: int, title: str, drawn: list[str], style: str = "") -> str:
    """Returns an SVG file of these elements, with a style of their own if they need one. The picture has its own background,
    in the reader's light or dark mode."""
    light, dark = (" ".join([ground, *(f"--c{i}: {pair[mode]};" for i, pair in enumerate(COLORS))])
                   for mode, ground in enumerate(GROUNDS))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">',
        "<style>", f":root {{ {light} }}",
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}", STYLE,
        *(f".c{i} {{ stroke: var(--c{i}); fill: var(--c{i}); }}" for i in range(len(COLORS))),
        ".two { fill: var(--paper); }", *([style] if style else []), "</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>', *drawn, "</svg>"]) + "\n"


def draw(panels: list[Panel], path: Path, title: str = "Speed-up over the fastest other engine",
         note: str = "Time of the fastest of CTranslate2, PyTorch and ONNX Runtime, divided by the time of transformer.h "
                     "(Transformer base)", unit: str = "thread") -> None:
    """Writes a picture of ratios. It has a panel for each type of weights, with a row for each workload. A machine has the
    same colour and place in all panels."""
    order = list(dict.fromkeys(name for _, some in panels for name, _ in some))
    machines = len(order)
    workloads = list(dict.fromkeys(name for _, some in panels for _, all_ in some for name in all_))
    ratios = [one for _, some in panels for _, all_ in some for pair in all_.values()
              for one in pair.values()]
    low, high = math.log2(min(0.5, min(ratios) * 0.9)), math.log2(max(2, max(ratios) * 1.1))
    row = machines * SUBROW + BETWEEN
    labels = max(160, 20 + 6 * max(map(len, workloads)))
    width = MARGIN * 2 + labels + len(panels) * (PANEL + GAP) - GAP
    height = HEAD + row * len(workloads) + FOOT
    bottom = HEAD + row * len(workloads)
    out: list[str] = []

    def text(x: float, y: float, words: str, kind: str = "label", anchor: str = "start") -> None:
        out.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                   f'{escape(words)}</text>')

    def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        out.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" '
                   f'y2="{y2:.1f}"/>')

    def dot(x: float, y: float, color: int, threads: int) -> None:
        kind = f"one c{color}" if threads == 1 else f"two c{color}"
        out.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')

    text(MARGIN, 32, title, "title")
    text(MARGIN, 51, note, "note")
    at = float(MARGIN)
    for i, words in enumerate(order):
        dot(at + 4, 71, i, 1)
        text(at + 14, 75, words, "note")
        at += 30 + 7 * len(words)
    at = width - MARGIN - 176.0
    for threads in (1, 2):
        kind = "any" if threads == 1 else "any open"
        out.append(f'<circle class="{kind}" cx="{at + 4:.1f}" cy="28" r="4"/>')
        text(at + 14, 32, f"{threads} {unit}{'s' * (threads > 1)}", "note")
        at += 92
    for i, workload in enumerate(workloads):
        y = HEAD + i * row
        text(MARGIN + labels - 14, y + row / 2 + 4, workload, "label", "end")
        if i % 2 == 0:
            out.insert(0, f'<rect class="stripe" x="{MARGIN}" y="{y}" height="{row}" rx="3" '
                       f'width="{width - 2 * MARGIN}"/>')
    for number, (heading, some) in enumerate(panels):
        left = MARGIN + labels + number * (PANEL + GAP)

        def place(ratio: float, left: float = left) -> float:
            return left + PANEL * (math.log2(ratio) - low) / (high - low)

        text(left, HEAD - 10, heading, "panel")
        for power in range(math.ceil(low), math.floor(high) + 1):
            x = place(2.0 ** power)
            line(x, HEAD, x, bottom, "grid" if power else "equal")
            text(x, bottom + 17, f"{2.0 ** power:g}", "tick", "middle")
        text(place(1) + 7, bottom + 35, "faster →", "tick")
        text(place(1) - 7, bottom + 35, "← slower", "tick", "end")
        for machine, all_ in some:
            m = order.index(machine)
            for i, workload in enumerate(workloads):
                y = HEAD + i * row + BETWEEN / 2 + (m + 0.5) * SUBROW
                at_x = {threads: place(ratio) for threads, ratio in all_.get(workload, {}).items()}
                if {1, 2} <= set(at_x):
                    line(at_x[1], y, at_x[2], y, f"join c{m}")
                for threads in (2, 1):
                    if threads in at_x:
                        dot(at_x[threads], y, m, threads)
    path.write_text(picture(width, height, title, out), encoding="utf-8")


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__.split("\n")[0], file=sys.stderr)
        return 2
    folder, to = Path(sys.argv[1]), Path(sys.argv[2])
    text, more = ((folder / name).read_text(encoding="utf-8") for name in ("SPEED.md", "README.md"))
    draw([(title, list(read_table(text, title).items())) for title in TABLES], to / "speed.svg")
    draw(gemma(more), to / "gemma.svg", "T5Gemma and T5Gemma 2: speed-up over CTranslate2",
         "Time of CTranslate2, divided by the time of transformer.h (random weights)")
    for name in sys.argv[3:]:
        readme = Path(name)
        readme.write_text(with_sentences(readme.read_text(encoding="utf-8"), text, more), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
