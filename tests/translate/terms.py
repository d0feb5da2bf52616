"""Measures translate --terms and two other ways with the same terms, for the tables of examples/translate/README.md.

    make oracles build/translate build/search_terms
    ~/.cache/transformer.h/oracles/bin/python tests/translate/terms.py [--failures 10]

300 German sentences of Tatoeba (../shared/data/de-en/dev.tsv) have 1 to 3 terms each. A term is a noun and the
English word that the reference has for it: IBM model 1, trained in both directions, says which word that is. In
the second test, the targets are words of other sentences. The script fails if --terms keeps fewer than 98 % of
the targets, or if the BLEU of the rest, with masks for targets and the reference's words, falls by 1 or more.
--failures N names each kind of failure, counts it, and prints N outputs of it (all, if there are fewer). It uses
each term alone, and other draws for the kinds that these terms do not have. Without ../shared the script is skipped.
"""

import argparse
import collections
import difflib
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
    draw.dev = dev
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


SMALL = set("a an the of to in on at by for with from into as it he she they you we i his her my your our their its me him "
            "them us and or that this these those some any no not is are was were be been am do does did have has had "
            "will would can could there here up out off down very so too".split())
FUNCTION_WORDS = {  # a target, and the word that it should replace
    "nicht": ("never", "not"), "hat": ("owns", "has"), "auf": ("onto", "on"), "mit": ("alongside", "with"), "noch": ("again", "still"),
    "schon": ("before", "already"), "wird": ("becomes", "will"), "es": ("something", "it"), "zu": ("toward", "to"),
    "an": ("beside", "on"), "um": ("around", "at"), "so": ("thus", "so")}
ARTICLE = "the article does not fit"
NUMBER = "the number of a verb or a word before the target does not fit"
FORM = "the model's word is the target in another form, which is lost"
ADDED = "nothing is replaced, and the target is added"
WRONG = "another word is replaced"
LOST = "an article or another small word is lost"
NEIGHBOUR = "a neighbour is replaced, too"
TWICE = "two terms with the same target side by side give it twice"
FUNCTION = "the term is for a function word, and another word or none is replaced"


def change(plain, found, target):
    """The words that were replaced (one place, small letters), the words before and behind the target, and whether only
    the target was put in. None if the target is not there, or if the rest changed at another place."""
    before, after = [[word.lower() for word in re.findall(r"\w+(?:[-'.]\w+)*", text)] for text in (plain, found)]
    edits = [edit for edit in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if edit[0] != "equal"]
    if len(edits) != 1 or after[edits[0][3]:edits[0][4]] != [target.lower()]:
        return None
    _, a, b, c, d = edits[0]
    return before[a:b], after[c - 1] if c else "", after[d] if d < len(after) else ""


def is_plural(word):
    return word.endswith("s") and not word.endswith(("ss", "us", "is"))


def stem(word):
    return re.sub("(ing|ed|es|s|ion|er|e)$", "", word)


def kinds_of(plain, found, word, target):
    """The kinds of failure of an output with one term. `word` is what the reference has for the term's source."""
    changed = change(plain, found, target)
    if changed is None:
        return []
    lost, before, behind = changed
    word, target = word.lower(), target.lower()
    if not lost:
        return [ADDED]
    if whole(word).search(plain) and word not in lost:
        return [WRONG]
    if word not in lost:  # the model has another word for the source, perhaps a right one
        same = len(lost) == 1 and target == word and lost[0] != target and stem(lost[0]) == stem(target)
        return [FORM] * same + [WRONG] * SMALL.issuperset(lost)
    rest = [each for each in lost if each != word]
    kinds = [] if not rest else [LOST] if SMALL.issuperset(rest) else [NEIGHBOUR]
    if before in ("a", "an") and (before == "an") != (target[0] in "aeiou"):
        kinds.append(ARTICLE)
    singular, plural = {"is", "was", "has", "does", "a", "an", "this", "that"}, {"are", "were", "have", "do", "these", "those"}
    if is_plural(word) != is_plural(target) and ({before, behind} & (singular if is_plural(target) else plural)):
        kinds.append(NUMBER)
    return kinds


def print_failures(drawn, most):
    found = collections.defaultdict(list)
    tried = collections.Counter()

    def look(source, plain, terms, kinds):
        with_terms = by_terms([source], [terms])[0]
        for kind in kinds(with_terms):
            found[kind].append(f"        {source}\n        {', '.join(f'{a}={b}' for a, b in terms)}\n"
                               f"        without: {plain}\n        with:    {with_terms}")

    plain = run("translate", lines=[each[0] for each in drawn])
    for (source, _, terms), text in zip(drawn, plain):
        for noun, word, new in terms:
            for target in (word, new):
                tried[""] += 1
                look(source, text, [(noun, target)], lambda output: kinds_of(text, output, word, target))
        nouns = [noun for noun, *_ in terms]
        for a in nouns:
            for b in nouns:
                if re.search(rf"\b{a}\b(\W+\w+)?\W+{b}\b", source):  # side by side, or with one word between them
                    tried[TWICE] += 1
                    new = terms[0][2]
                    look(source, text, [(a, new), (b, new)], lambda output: [TWICE] * bool(
                        re.search(rf"\b{new} {new}\b", output, re.I)))
    for german, (target, best) in FUNCTION_WORDS.items():
        sources = [source for source, _ in draw.dev if words_of(source).count(german) == 1 and len(source) < 60][:8]
        for source, text in zip(sources, run("translate", lines=sources)):
            tried[FUNCTION] += 1

            def fails(output):
                changed = change(text, output, target)
                return [FUNCTION] * (changed is not None and not any(
                    lost == best or best == "not" and lost.endswith("n't") for lost in changed[0]))
            look(source, text, [(german, target)], fails)
    for kind in (ARTICLE, NUMBER, FORM, LOST, NEIGHBOUR, WRONG, ADDED, TWICE, FUNCTION):
        print(f"    {kind}: {len(found[kind])} of {tried[kind] or tried['']} outputs")
        for each in found[kind][::max(1, len(found[kind]) // most)][:most]:
            print(each)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failures", type=int, default=0, metavar="N", help="print N outputs of each kind of failure")
    options = parser.parse_args()
    if not DATA.is_dir():
        return print(f"    skipped: no {DATA}")
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
    if options.failures:
        print_failures(drawn, options.failures)
    if faults:
        raise SystemExit("; ".join(faults))


if __name__ == "__main__":
    main()
