#!/usr/bin/env python3
"""BLEU and chrF (sacrebleu) of what build/translate makes of dev pairs, by length of the source.

    python tools/scores.py model.safetensors dev.tsv clean.tsv [--tokenize zh] [--edges 12 25]

Rows of a Markdown table: every file greedy and with beam 4 and length penalty 1, whole and by
characters of the source, up to and over the --edges.
"""
import argparse
import subprocess
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from train import Pair, read_pairs

WAYS = {"greedy": [], "beam 4": ["--beam", "4", "--length-penalty", "1"]}


def translate(program: str, model: str, sources: list[str], options: list[str]) -> list[str]:
    run = subprocess.run([program, model, "--batch", "16", *options], check=True, text=True,
                         input="".join(s + "\n" for s in sources), stdout=subprocess.PIPE)
    return run.stdout.removesuffix("\n").split("\n")


def score(pairs: list[Pair], outputs: list[str], tokenize: str) -> str:
    references = [[t for _, t in pairs]]
    return (f"{BLEU(tokenize=tokenize).corpus_score(outputs, references).score:.1f} / "
            f"{CHRF().corpus_score(outputs, references).score:.1f}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("files", nargs="+", metavar="TSV")
    p.add_argument("--translate", metavar="PROGRAM",
                   default=str(Path(__file__).resolve().parent.parent / "build/translate"))
    p.add_argument("--tokenize", default="13a", help="sacrebleu's name; zh for Chinese")
    p.add_argument("--edges", type=int, nargs="*", default=[12, 25], metavar="CHARACTERS")
    args = p.parse_args()
    edges = [0, *args.edges, 10 ** 9]
    parts = [f"{a + 1} to {b}" for a, b in zip(edges, args.edges)] + [f"over {edges[-2]}"]
    print("BLEU / chrF | pairs |", " | ".join(["all", *parts]))
    for file in args.files:
        pairs = read_pairs(file)
        rows = [range(len(pairs)), *([i for i, (s, _) in enumerate(pairs) if a < len(s) <= b]
                                     for a, b in zip(edges, edges[1:]))]
        for name, options in WAYS.items():
            out = translate(args.translate, args.model, [s for s, _ in pairs], options)
            cells = (score([pairs[i] for i in part], [out[i] for i in part], args.tokenize)
                     + f" ({len(part)})" if part else "-" for part in rows)
            print(f"| {file}, {name} |", " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
