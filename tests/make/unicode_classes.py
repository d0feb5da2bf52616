#!/usr/bin/env python3
"""unicode_classes.py: prints the table tfm__class_runs of transformer.h, made from Unicode's character data.

    unicode_classes.py [--check HEADER]     needs Unicode 16.0.0: pip install unicodedata2==16.0.0

GPT-2's pre-tokenizer asks whether a character is a letter (\\p{L}) or a number (\\p{N}). A single_word added
token asks whether a character is part of a word (\\w). The package tokenizers (0.23) has these classes from
Oniguruma and from Rust's regex, both as of Unicode 16.0.0, and so has the table.

The classes are 0 other, 1 letter, 2 number in a word (Nd, Nl), 3 other in a word, 4 number in no word (No).
Each run of characters of one class, from U+0000 on, is one number: four times the run's length, plus the
index of its class, 0 to 3, among the classes that the last run did not have (before the first run: letter). A
number's last digit is 0 to 33, written from ']' on, and the digits before it are 0 to 27, written from '#'
on. --check prints nothing, and fails if the header has another table.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

VERSION = "16.0.0"
WIDTH = 92
try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata  # type: ignore[no-redef]


def digits(number: int) -> str:
    number, last = divmod(number, 34)
    text = chr(ord("]") + last)
    while number:
        number, digit = divmod(number, 28)
        text = chr(ord("#") + digit) + text
    return text


# Join_Control, and the letters in circles and squares that are Other_Alphabetic.
MORE_WORD = {0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A),
             *range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)}
KINDS = {"L": 1, "Nd": 2, "Nl": 2, "M": 3, "Pc": 3, "No": 4}


def class_of(c: int) -> int:
    kind = unicodedata.category(chr(c))
    return KINDS.get(kind, KINDS.get(kind[0], 3 if c in MORE_WORD else 0))


def table() -> str:
    classes = [class_of(c) for c in range(0x110000)]
    ends = [at for at in range(1, 0x110000) if classes[at] != classes[at - 1]] + [0x110000]
    text, begin, before = "", 0, 1
    for end in ends:
        others = [one for one in range(5) if one != before]
        text += digits(4 * (end - begin) + others.index(classes[begin]))
        begin, before = end, classes[begin]
    lines = [text[at:at + WIDTH] for at in range(0, len(text), WIDTH)]
    return (f"enum {{ TFM__N_CLASS_RUNS = {len(ends)} }};\n"
            "static const char tfm__class_runs[] =\n"
            + "\n".join(f'    "{line}"' for line in lines) + ";\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", type=Path, metavar="HEADER")
    header = parser.parse_args().check
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"unicode_classes.py: this Python knows Unicode {unicodedata.unidata_version}, the "
                 f"table is {VERSION}'s: pip install unicodedata2=={VERSION}")
    if not header:
        print(table(), end="")
    elif table() not in re.sub(r"\r\n", "\n", header.read_text(encoding="utf-8")):
        sys.exit(f"{header}: tfm__class_runs is not what this script makes")


if __name__ == "__main__":
    main()
