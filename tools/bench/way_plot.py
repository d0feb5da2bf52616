#!/usr/bin/env python3
"""Draw the way of a model from a checkpoint to the programs that use it: python tools/bench/way_plot.py tools/bench/way.svg

The picture has the texts of the tables below. tests/tools/test_speed_plot.py fails if the kept picture is another one, or if
a command or a line of code in it is not in the text that is named beside it."""

import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

import speed_plot


class Box(NamedTuple):
    title: str
    lines: tuple[str, ...]
    code: tuple[str, ...] = ()  # commands or lines of code
    file: str = ""  # the text of the repository that has them


TITLE = "The way of a model: from a checkpoint to six uses"
STEPS = (Box("Checkpoint", ("Hugging Face", "CTranslate2, Argos", "Marian, Firefox", "faster-whisper", "PyTorch")),
         Box("Convert", ("Each tensor and setting is used or", "named, and the result compared with", "the original engine."),
             ("convert.py FOLDER model.safetensors", "transformer-model get fr-en"), "README.md"),
         Box("One file", ("weights (F32 to int8), tokenizer,", "defaults of decoding"), ("model.safetensors",), "README.md"))
USES = (Box("C, C++", ("one header, no library",), ('#include "transformer.h"',), "examples/hello.c"),
        Box("Shell", ("lines, documents, speech",), ("translate model.safetensors",), "tools/README.md"),
        Box("Python", ("also office documents",), ("from transformer_h import Model",), "README.md"),
        Box("Server", ("as LibreTranslate and DeepL",), ("examples/server/server.py",), "examples/server/README.md"),
        Box("Web page", ("in the browser, without a server",), ('model.translate("Guten Tag.")',), "examples/web/README.md"),
        Box("Phone", ("Android and iOS",), ('translator.translate("Guten Tag.")',), "examples/ios/README.md"))
STYLE = """.box { fill: var(--stripe); stroke: var(--grid); } .code { font: 11px ui-monospace, SFMono-Regular, Consolas, monospace; }
.arrow { fill: none; stroke: var(--soft); stroke-width: 1.5; } .head { fill: var(--soft); }"""
LEFT, TOP, ROW, GAP = 24, 56, 62, 8
PLACES = ((24, 136), (202, 262), (506, 212), (786, 252))  # left and width of the columns


def draw() -> str:
    bottom = TOP + len(USES) * (ROW + GAP) - GAP
    middle, width = (TOP + bottom) / 2, PLACES[-1][0] + PLACES[-1][1] + LEFT
    out = [f'<text class="title" x="{LEFT}" y="34">{escape(TITLE)}</text>']

    def box(one: Box, left: int, wide: int, top: float, high: float) -> None:
        out.append(f'<rect class="box" x="{left}" y="{top:.1f}" width="{wide}" height="{high:.1f}" rx="6"/>')
        lines = [("panel", one.title), *(("note", words) for words in one.lines), *(("code", words) for words in one.code)]
        at = top + (high - 17 * len(lines)) / 2 + 13
        for kind, words in lines:
            out.append(f'<text class="{kind}" x="{left + 12}" y="{at:.1f}">{escape(words)}</text>')
            at += 17

    def arrow(x1: float, y1: float, x2: float, y2: float) -> None:
        half = (x1 + x2 - 6) / 2
        out.append(f'<path class="arrow" d="M{x1} {y1:.1f} C{half} {y1:.1f} {half} {y2:.1f} {x2 - 6} {y2:.1f}"/>')
        out.append(f'<path class="head" d="M{x2 - 1} {y2:.1f} l-8 -4 v8 z"/>')

    for i, one in enumerate(STEPS):
        left, wide = PLACES[i]
        high = 24 + 17 * (1 + len(one.lines) + len(one.code))
        box(one, left, wide, middle - high / 2, high)
        if i:
            arrow(sum(PLACES[i - 1]), middle, left, middle)
    left, wide = PLACES[-1]
    for i, one in enumerate(USES):
        top = TOP + i * (ROW + GAP)
        box(one, left, wide, top, ROW)
        arrow(sum(PLACES[-2]), middle, left, top + ROW / 2)
    return speed_plot.picture(width, bottom + LEFT, TITLE, out, STYLE)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.split("\n")[0], file=sys.stderr)
        return 2
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
