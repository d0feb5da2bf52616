#!/usr/bin/env python3
"""Fail if a row of the benchmark is slower than in the last release: make bench-gate

Compiles build/bench and build/translate of the last release and of this tree with the same compiler
and flags. Each round measures a row with each of three programs, one after the other:

  A  the last release: --last COMMIT, else the newest tag, else the commit before the version changed
  B  this tree
  C  a copy of B, which shows how much the same program differs from itself

Rows: the workloads of build/bench with each type of weights (--weights), with one and two threads
(--threads), the demo's model on the demo's sentences, and `translate` as a whole process with one
short sentence. The time of a program in a round is the shortest run of its process. For load it is
the shortest of nine processes that load once each, as programs do: a process that loads again gets the
memory of the load before. The table has the median of B / A over the rounds, and the quartiles. They
show how much the machine disturbs. A row is judged by the shortest time of each program in all rounds,
because other work only adds time. It fails if B / A and C / A are both above the limit: B and C are
the same program, and one of them may be slow by chance. It is "unsure" if C / B differs from 1 by more
than the limit, because then the machine was too busy to tell. A row that does not pass is measured in
twice as many rounds more, and judged once more; one that is still unsure in three times as many more.
Exit status 1 if a row fails, 2 if none fails but one is unsure.

--cpu measures CPU time: with one thread, other work on the machine then disturbs less.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
MODEL = "examples/models/de-en.safetensors"
TEXT = "examples/translate/demo-de.txt"
SENTENCE = b"Guten Tag.\n"
WORKLOADS = [
    "load",
    "encode-1x32",
    "encode-1x128",
    "encode-8x128",
    "encode-1x512",
    "greedy-1",
    "beam4-1",
    "greedy-32",
    "beam4-16",
    "forward-32x10-32x20",
]
MORE = (1, 3, 6)  # times the rounds: at first, of a row that does not pass, of one that is still unsure
LOADS = 9  # processes that load once, in a round


def output(*command):
    """Return what a command prints, without the newline at its end; "" if it fails."""
    got = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return got.stdout.strip() if got.returncode == 0 else ""


def last_release():
    """Return the commit of the last release."""
    tag = output("git", "describe", "--tags", "--abbrev=0")
    changed = output("git", "log", "-1", "--format=%H", "-G^#define TFM_VERSION_M", "--", "transformer.h")
    if not tag and not changed:
        sys.exit("bench_gate: this is no git clone with history: name a commit with --last")
    return tag or changed + "^"


def compile_at(commit, folder):
    """Compile the programs of a commit in a folder of its own."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE)
    if archive.returncode:
        sys.exit(f"bench_gate: git has no commit {commit}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive.stdout, check=True)
    subprocess.run(["make", "-s", "build/bench", "build/translate"], cwd=folder, check=True)
    return folder


def run(program, arguments, stdin=None):
    """Run a program of one side and return what it prints."""
    got = subprocess.run([program, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if got.returncode:
        sys.exit(f"bench_gate: {program} {' '.join(arguments)}: {got.stderr.decode(errors='replace').strip()}")
    return got.stdout


def workload(name, weights, threads, options):
    """Return a function that times a workload of build/bench in milliseconds."""
    arguments = ["--only", name, "--weights", weights, "--threads", str(threads), "--json"]
    arguments += ["--seconds", str(options.seconds)] + ["--cpu"] * options.cpu

    def once(side, *more):
        return min(json.loads(run(side / "build/bench", [*arguments, *more]))["workloads"][0]["ms"])

    def loads(side):
        return min(once(side, "--repeat", "1") for _ in range(LOADS))

    return loads if name == "load" else once


def text(beam, threads, options):
    """Return a function that times the demo's model on the demo's sentences, eight times each."""
    lines = (ROOT / TEXT).read_bytes() * 8
    arguments = [str(options.model), "--only", f"beam {beam}", "--threads", str(threads), "--json"]
    arguments += ["--seconds", str(options.seconds)] + ["--cpu"] * options.cpu

    def measure(side):
        found = json.loads(run(side / "build/bench", arguments, lines))["workloads"]
        return min(next(row["ms"] for row in found if row["name"] == f"beam {beam}"))

    return measure


def process(options):
    """Return a function that times `translate` with one sentence, from start to end, in milliseconds."""
    arguments = [str(options.model)]

    def clock():
        if not options.cpu:
            return time.perf_counter()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def once(side):
        begin = clock()
        run(side / "build/translate", arguments, SENTENCE)
        return 1e3 * (clock() - begin)

    def measure(side):
        return min(once(side) for _ in range(100))

    return measure


def rows(options):
    """Return the rows that --only selects: their names and functions."""
    found = {}
    for threads in options.threads:
        for weights in options.weights:
            for name in options.workloads:
                found[f"{name} {weights} {threads}"] = workload(name, weights, threads, options)
        for beam in (1, 4):
            found[f"text beam {beam} {threads}"] = text(beam, threads, options)
    found["process"] = process(options)
    return {name: measure for name, measure in found.items() if not options.only or options.only in name}


def quartiles(ratios):
    """Return the first quartile, the median and the third."""
    return statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3


def judge(name, measure, sides, options):
    """Measure a row, print it and return "passed", "failed" or "unsure"."""
    times = [[], [], []]
    limit = 1 + options.limit / 100
    verdict = "passed"
    for more in MORE:
        while len(times[0]) < more * options.rounds:
            first = len(times[0]) % 3
            for side in range(3):
                side = (first + side) % 3
                times[side].append(measure(sides[side]))
        old = [b / a for a, b in zip(times[0], times[1])]
        same = [c / b for b, c in zip(times[1], times[2])]
        least = [min(side) for side in times]
        if abs(least[2] / least[1] - 1) > options.limit / 100:
            verdict = "unsure"
        elif min(least[1], least[2]) / least[0] > limit:
            verdict = "failed"
            if more > 1:
                break
        else:
            verdict = "passed"
            break
    low, middle, high = quartiles(old)
    self_low, self_middle, self_high = quartiles(same)
    print(
        f"{name:32} {least[0]:9.2f} {least[1]:9.2f} {least[2]:9.2f}"
        f"   {middle:.3f} ({low:.3f} to {high:.3f})   {self_middle:.3f} ({self_low:.3f} to {self_high:.3f})"
        f"   {len(times[0])}   {verdict}",
        flush=True,
    )
    return verdict


def numbers(value):
    """Read a list of integers with commas."""
    return [int(word) for word in value.split(",")]


def main():
    """Read the options, compile, measure and say which rows failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--last", metavar="COMMIT", help="what to compare with (default: the last release)")
    parser.add_argument("--self", action="store_true", help="compares this tree with itself: must pass")
    parser.add_argument("--weights", type=lambda value: value.split(","), default=["f32", "int8"])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--workloads", type=lambda value: value.split(","), default=WORKLOADS)
    parser.add_argument("--only", metavar="WORD", help="rows whose name contains it")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each row (default 5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each process (default 0.5)")
    parser.add_argument("--limit", type=float, default=3, help="percent (default 3)")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of elapsed time")
    options = parser.parse_args()
    here = BUILD / "gate/here"
    last = options.last or (None if options.self else last_release())
    subprocess.run(["make", "-s", "build/bench", "build/translate"], cwd=ROOT, check=True)
    for folder in (here, BUILD / "gate/copy"):
        (folder / "build").mkdir(parents=True, exist_ok=True)
        for program in ("bench", "translate"):
            shutil.copy2(BUILD / program, folder / "build" / program)
    old = here if options.self else compile_at(last, BUILD / "gate/last")
    # the release's own file: it need not know keys that are newer
    options.model = (ROOT if options.self else old) / MODEL
    sides = (old, here, BUILD / "gate/copy")
    old_name = "this tree" if options.self else last
    print(f"A {old_name}, B this tree, C a copy of B; shortest milliseconds", flush=True)
    columns = f"{'A':>9} {'B':>9} {'C':>9}   {'B / A (quartiles)':22}   {'C / B (quartiles)':22}"
    print(f"{'row':32} {columns}   rounds")
    verdicts = [judge(name, measure, sides, options) for name, measure in rows(options).items()]
    if not verdicts:
        sys.exit(f"bench_gate: no row has {options.only} in its name")
    print(", ".join(f"{verdicts.count(word)} {word}" for word in ("passed", "failed", "unsure")))
    return 1 if "failed" in verdicts else 2 if "unsure" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
