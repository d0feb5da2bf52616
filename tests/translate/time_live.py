"""Measures live translation: BLEU, how late words are, and what a word costs.

    make build/live_translation && ~/.cache/transformer.h/oracles/bin/python tests/translate/time_live.py MODEL FILE [SURE ...]

FILE has a source, a tab and a reference a line. The sources come word by word (Chinese: character by character).

lag: for each word of the translation, the source words that had come when the word became stable, minus its number times
(source words / words of the translation); the mean over the words of a sentence, and then over the sentences.
LAAL: length-adaptive average lagging, as in SimulEval.
cost: the CPU time of a word that comes, divided by that of the whole sentence; the median over all words.
"""
import statistics
import subprocess
import sys

import sacrebleu


def delays(stable):
    """Returns for each word of the translation how many source words had come."""
    out = []
    for read, n in enumerate(stable, 1):
        out += [read] * (n - len(out))
    return out


def lag(delay, source):
    return statistics.mean(d - (i + 1) * source / len(delay) for i, d in enumerate(delay))


def laal(delay, source, reference):
    rate = source / max(len(delay), reference)
    end = next((i for i, d in enumerate(delay, 1) if d >= source), len(delay))
    return statistics.mean(d - i * rate for i, d in enumerate(delay[:end]))


def measure(model, file, sure):
    done = subprocess.run(["build/live_translation", model, file, *sure], check=True, capture_output=True, encoding="utf-8")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    lags, laals, costs = [], [], []
    for _, stable, _, _, reference, cost in rows:
        stable = [int(n) for n in stable.split()]
        delay = delays(stable)
        costs += [float(c) for c in cost.split()]
        if delay:
            lags.append(lag(delay, len(stable)))
            laals.append(laal(delay, len(stable), len(reference.split())))
    whole, live = (sacrebleu.corpus_bleu([row[i] for row in rows], [[row[4] for row in rows]]).score for i in (2, 3))
    print(f"{len(rows)} sentences{', sure ' + sure[0] if sure else ''}: BLEU {whole:.1f} whole, {live:.1f} live; lag "
          f"{statistics.mean(lags):.2f}, LAAL {statistics.mean(laals):.2f}, cost {statistics.median(costs):.2f}")


if __name__ == "__main__":
    for chosen in sys.argv[3:] or [None]:
        measure(sys.argv[1], sys.argv[2], [chosen] if chosen else [])
