"""coverage.py transformer.h GCOVR.json: lines and branches that some test reaches, by section of
transformer.h, as gcovr counted them. --list names the lines that none reaches."""

import json
import re
import sys
from collections import Counter


def main(header: str, counted: str, *options: str) -> None:
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
    for line in found["lines"]:  # once for each function that the preprocessor makes of it
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
    for tag, row in table.items():
        if row["lines"]:
            print(f"{tag:15} {row['lines']:7} {100 * row['reached'] / row['lines']:6.1f}% {row['branches']:9} "
                  f"{100 * row['taken'] / max(row['branches'], 1):6.1f}%")
    if "--list" in options:
        print(*(f"line {number} ({of[number]}) is not reached"
                for number, hit in sorted(reached.items()) if not hit), sep="\n")


main(*sys.argv[1:])
