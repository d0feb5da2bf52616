"""Measures translate --terms and two other ways with the same terms, for the tables of examples/translate/README.md.

    make oracles build/translate build/search_terms
    ~/.cache/transformer.h/oracles/bin/python tests/translate/terms.py [--failures 10]

300 German sentences of Tatoeba (../shared/data/de-en/dev.tsv) have 1 to 3 terms each. A term is a noun and the
English word that the reference has for it: IBM model 1, trained in both directions, says which word that is. In
the second test, the targets are words of other sentences. The script fails if --terms keeps fewer than 98 % of
the targets, or if the BLEU of the rest, with masks for targets and the reference's words, falls by 1 or more.
--failures prints outputs in which more than the term's words changed. Without ../shared the script is skipped.
"""

import argparse
import collections
import random
import re
import subprocess
import tempfile
from pathlib import Path

import sacrebleu

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared/data/de-en"
MODEL = str(ROOT / "examples/models/de-en.safetensors")


def words_of(text):
    return re.findall(r"\w+(?:[-']\w+)*", text)


def ibm_model_1(pairs):
    """The probabilities of English words for each German word."""
    table = None
    for _ in range(4):
        counts = collections.defaultdict(lambda: collections.defaultdict(float))
        for source, target in pairs:
            for word in target:
                shares = [1.0 if table is None else table[each].get(word, 1e-9) for each in source]
                total = sum(shares)
                for each, share in zip(source, shares):
                    if share / total > 1e-3:
                        counts[each][word] += share / total
        table = collections.defaultdict(dict, {each: {word: count / sum(found.values()) for word, count in found.items()}
                                               for each, found in counts.items()})
    return table


def pairs_of(name):
    return [line.split("\t")[:2] for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def draw():
    """Sentences as (source, reference, [(source of a term, the reference's word, another word)])."""
    random.seed(36)
    train, dev = pairs_of("train.tsv"), pairs_of("dev.tsv")
    random.shuffle(train)
    pairs = [(words_of(a), [word.lower() for word in words_of(b)]) for a, b in train[:60000] + dev]
    pairs = [pair for pair in pairs if pair[0] and pair[1] and len(pair[0]) < 25]
    forth, back = ibm_model_1(pairs), ibm_model_1([(b, a) for a, b in pairs])
    drawn = []
    random.shuffle(dev)
    for source, reference in dev:
        german, english = words_of(source), words_of(reference)
        small = [word.lower() for word in english]
        found = []
        for noun in german if len(german) >= 5 else ():
            if german.count(noun) > 1 or len(noun) < 4 or not noun[0].isupper():
                continue
            if german.index(noun) == 0 and random.random() < .7:
                continue
            best = max(small, key=lambda word: forth[noun].get(word, 0))
            if max(german, key=lambda word: back[best].get(word, 0)) != noun or forth[noun].get(best, 0) < .2 or \
                    small.count(best) > 1 or len(best) < 3 or noun == "Tom":
                continue
            word = english[small.index(best)]
            found.append((noun, word.lower() if small.index(best) == 0 else word))
        if found:
            random.shuffle(found)
            drawn.append((source, reference, found[:random.choice([1, 1, 2, 3])]))
        if len(drawn) == 300:
            break
    own = [word for *_, terms in drawn for _, word in terms]
    others = own[:]
    while sum(a.lower() == b.lower() for a, b in zip(own, others)) >= 8:
        random.shuffle(others)
    other = iter(others)
    return [(source, reference, [
        (noun, word, "zebra" if whole(new := next(other)).search(reference) else new) for noun, word in terms])
        for source, reference, terms in drawn]


def whole(word):
    return re.compile(r"(?<![\w-])" + re.escape(word) + r"(?![\w-])", re.I)


def masked(text, words):
    for word in words:
        text = whole(word).sub("Xterm", text, count=1)
    return text


def run(program, *arguments, lines):
    done = subprocess.run([ROOT / "build" / program, MODEL, *arguments], input="".join(f"{line}\n" for line in lines),
                          capture_output=True, encoding="utf-8", check=True)
    found = done.stdout.splitlines()
    assert len(found) == len(lines), f"{program}: {len(found)} lines for {len(lines)}"
    return found


def by_terms(sources, terms):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "terms.tsv"
        for source, own in zip(sources, terms):
            path.write_text("".join(f"{a}\t{b}\n" for a, b in own), encoding="utf-8")
            found += run("translate", "--terms", str(path), lines=[source])
    return found


def by_removal(sources, terms):
    """An address in the place of each term is kept by --protect, and becomes the target afterwards."""
    removed = []
    for source, own in zip(sources, terms):
        for i, (noun, _) in enumerate(own):
            source = whole(noun).sub(f"https://x.y/t{i}", source, count=1)
        removed.append(source)
    found = run("translate", "--protect", lines=removed)
    for k, own in enumerate(terms):
        for i, (_, word) in enumerate(own):
            address = f"https://x.y/t{i}"
            found[k] = found[k].replace(address, word[0].upper() + word[1:] if found[k].startswith(address) else word)
    return found


def by_search(sources, terms):
    return run("search_terms", "4", lines=["\t".join([source, *(word for _, word in own)])
                                           for source, own in zip(sources, terms)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failures", type=int, default=0, metavar="N", help="print N outputs that changed elsewhere")
    options = parser.parse_args()
    if not DATA.is_dir():
        return print(f"terms.py: skipped: no {DATA}")
    drawn = draw()
    sources, references = [each[0] for each in drawn], [each[1] for each in drawn]
    own = [[(noun, word) for noun, word, _ in terms] for *_, terms in drawn]
    other = [[(noun, new) for noun, _, new in terms] for *_, terms in drawn]
    number = sum(map(len, own))

    def kept(found, terms):
        return sum(bool(whole(word).search(text)) for text, each in zip(found, terms) for _, word in each)

    def frame(found, terms):
        return [masked(text, [word for _, word in each]) for text, each in zip(found, terms)]

    def bleu(found, wanted):
        return sacrebleu.corpus_bleu(found, [wanted]).score

    rest = frame(references, own)
    plain = run("translate", lines=sources)
    base = bleu(frame(plain, own), rest)
    print(f"{len(drawn)} sentences, {number} terms; without terms {kept(plain, own)} are there, "
          f"BLEU {bleu(plain, references):.1f}, with masks {base:.1f}")
    faults = []
    for name, way in (("--terms", by_terms), ("removal", by_removal), ("search", by_search)):
        mine, theirs = way(sources, own), way(sources, other)
        masks = bleu(frame(theirs, other), rest)
        print(f"{name}: the reference's words: {kept(mine, own)} kept, BLEU {bleu(mine, references):.1f}, with masks "
              f"{bleu(frame(mine, own), rest):.1f}; words of other sentences: {kept(theirs, other)} kept, "
              f"with masks {masks:.1f}")
        if name == "--terms":
            swapped = []
            for reference, terms in zip(references, drawn):
                for _, word, new in terms[2]:
                    at = whole(word).search(reference)
                    reference = whole(word).sub(new[0].upper() + new[1:] if at and not at.start() else new, reference, count=1)
                swapped.append(reference)
            print(f"    put into the reference, too: BLEU {bleu(theirs, swapped):.1f}")
            for found, terms in ((mine, own), (theirs, other)):
                if kept(found, terms) < .98 * number:
                    faults.append(f"--terms keeps {kept(found, terms)} of {number}")
                if bleu(frame(found, terms), rest) <= base - 1:
                    faults.append(f"BLEU of the rest {bleu(frame(found, terms), rest):.1f} instead of {base:.1f}")
            changed = [i for i in range(len(drawn)) if all(whole(word).search(plain[i]) for _, word in own[i])
                       and frame([plain[i]], [own[i]]) != frame([theirs[i]], [other[i]])]
            print(f"    words besides the term's changed in {len(changed)} outputs of those that have all words anyway")
            for i in changed[:options.failures]:
                print(f"        {sources[i]}\n        {', '.join(f'{a}={b}' for a, b in other[i])}\n"
                      f"        without: {plain[i]}\n        with:    {theirs[i]}")
    if faults:
        raise SystemExit("; ".join(faults))


if __name__ == "__main__":
    main()
