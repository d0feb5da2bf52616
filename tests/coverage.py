"""coverage.py transformer.h GCOVR.json: prints, for each section of transformer.h, how many lines and
branches the tests reach, as gcovr counted them. --list names the lines that no test reaches.

The exit status is 1 if a section is below its bound in BOUNDS. Sections in KERNELS have no bound, because the
CPU decides which kernels run."""

import json
import re
import sys
from collections import Counter


# The least percentages of lines and of branches for each section; measured in November 2026, rounded down.
BOUND = (99.0, 92.0)
BOUNDS = {"tensors": (96.0, 92.0)}  # The other lines swap bytes on a big-endian host.
KERNELS = ("vectors",)


def main(header: str, counted: str, *options: str) -> int:
    of, tag = {}, ""
    with open(header, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            banner = re.match(r"/\* >>(\S+) ==", line)  # "/* >>tag ==="
            tag = of[number] = banner[1] if banner else tag
    table: dict[str, Counter[str]] = {tag: Counter() for tag in dict.fromkeys(of.values())}
    with open(counted, encoding="utf-8") as file:
        (found,) = (one for one in json.load(file)["files"] if one["file"].endswith("transformer.h"))
    reached: dict[int, bool] = {}
    taken: dict[tuple[int, int], bool] = {}
    # gcovr has one entry for each function that the preprocessor makes of the line.
    for line in found["lines"]:
        number = line["line_number"]
        reached[number] = reached.get(number, False) or line["count"] > 0
        for at, branch in enumerate(line["branches"]):
            taken[number, at] = taken.get((number, at), False) or branch["count"] > 0
    for number, hit in reached.items():
        for row in (table[of[number]], table.setdefault("all", Counter())):
            row.update(lines=1, reached=hit)
    for (number, _), hit in taken.items():
        for row in (table[of[number]], table["all"]):
            row.update(branches=1, taken=hit)
    print(f"{'section':15} {'lines':>7} {'':7} {'branches':>9} {'':7}")
    low = 0
    for tag, row in table.items():
        if row["lines"]:
            parts = 100 * row["reached"] / row["lines"], 100 * row["taken"] / row["branches"] if row["branches"] else 100
            bounds = (0, 0) if tag in (*KERNELS, "all") else BOUNDS.get(tag, BOUND)
            under = any(part < bound for part, bound in zip(parts, bounds))
            low += under
            print(f"{tag:15} {row['lines']:7} {parts[0]:6.1f}% {row['branches']:9} {parts[1]:6.1f}%" +
                  (f"  FAIL: at least {bounds[0]} % and {bounds[1]} %" if under else ""))
    if "--list" in options:
        print(*(f"line {number} ({of[number]}) is not reached"
                for number, hit in sorted(reached.items()) if not hit), sep="\n")
    return low > 0


sys.exit(main(*sys.argv[1:]))
