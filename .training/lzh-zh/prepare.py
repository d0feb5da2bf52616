#!/usr/bin/env python3
"""What lzh-zh is trained on, from ../shared/data/lzh-zh: the same files for the same input.

    python .training/lzh-zh/prepare.py ../shared/data/lzh-zh DIR

Writes train.tsv, held.tsv (2,000 pairs of the training books, not in train.tsv), dev.tsv,
dev-small.tsv (300 lines of it, to watch a training by), rules.tsv and spm.model. Spaces, which stand
where the corpus lost its quotation marks, go; so do the longest pairs, and those whose lengths say
that one side is not the other's.

rules.tsv is what the tokenizer does to any text: traditional characters that training does not have
become simplified (OpenCC), quotation marks and spaces go, ASCII punctuation becomes Chinese. The
rarest four characters give their pieces to <1> to <4>, with which targets of train.tsv begin: how
much longer than its source a target is. train.py's --forced then says how free a translation is.
"""
import lzma
import random
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import sentencepiece
from opencc import OpenCC
from sentencepiece import sentencepiece_model_pb2

Pair = tuple[str, str]
PIECES = 8000
LONGER = (1.3, 1.6, 2.0)  # times as many characters, from where on a target begins with <2>, <3>, <4>
MARKS = set("，。、；：？！《》")


def read(data: str) -> list[Pair]:
    lines = data.replace(" ", "").split("\n")
    return [(s, t) for s, t, *_ in (line.split("\t") for line in lines if line)]


def write(path: Path, pairs: list[Pair]) -> None:
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")


def belongs(s: str, t: str) -> bool:
    return (len(s) <= 80 and len(t) <= 110 and len(t) <= 4 * len(s) + 12 and len(s) <= 2 * len(t) + 6
            and (s != t or len(s) <= 12))


def with_length(s: str, t: str) -> Pair:
    n_source, n_target = (sum(c not in MARKS for c in text) for text in (s, t))
    return s, f"<{1 + sum(n_target >= r * max(1, n_source) for r in LONGER)}>{t}"


def rules_of(counts: Counter) -> dict[str, str]:
    simplify, rules = OpenCC("t2s").convert, {}
    for ch in map(chr, range(0x3400, 0xA000)):
        one = simplify(ch)
        if one != ch and len(one) == 1 and counts[ch] < 100 and counts[one] >= 20:
            rules[ch] = one
    for ch in map(chr, range(0xF900, 0xFAFF)):
        one = unicodedata.normalize("NFKC", ch)
        if one != ch and len(one) == 1:
            rules[ch] = rules.get(one, one)
    rules |= dict(zip(",;:?!().", "，；：？！（）。"))
    rules |= {chr(0xFF10 + i): str(i) for i in range(10)}
    return rules | dict.fromkeys(" \u3000\u00a0\t\r\n“”‘’「」『』﹁﹂﹃﹄\"\ufeff\u200b", "")


def learn(texts: list[str], counts: Counter, rules: Path, out: Path) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(out.with_suffix("")), model_type="unigram",
        vocab_size=PIECES, hard_vocab_limit=False, character_coverage=0.9985, byte_fallback=True,
        add_dummy_prefix=False, remove_extra_whitespaces=False, normalization_rule_tsv=str(rules),
        num_threads=2, minloglevel=2, pad_piece="<pad>", unk_piece="<unk>", bos_piece="<s>",
        eos_piece="</s>", pad_id=0, unk_id=1, bos_id=2, eos_id=3)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(out.read_bytes())
    single = [p for p in model.pieces if p.type == p.NORMAL and len(p.piece) == 1]
    rare = sorted(single, key=lambda p: counts[p.piece])[:4]
    for n, piece in enumerate(p for p in model.pieces if p in rare):
        piece.piece, piece.type, piece.score = f"<{n + 1}>", piece.USER_DEFINED, 0
    out.write_bytes(model.SerializeToString())


def main(folder: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    pairs = read(lzma.open(folder / "train.tsv.xz", "rt", encoding="utf-8").read())
    rng = random.Random(18)
    held = [pairs[i] for i in sorted(set(rng.sample(range(len(pairs)), 2000)))]
    sources, targets = ({pair[side] for pair in held} for side in (0, 1))
    train = [(s, t) for s, t in dict.fromkeys(pairs)
             if s not in sources and t not in targets and belongs(s, t)]
    dev = read((folder / "dev.tsv").read_text(encoding="utf-8"))
    for name, some in (("train", [with_length(*pair) for pair in train]), ("held", held),
                       ("dev", dev), ("dev-small", rng.sample(dev, 300))):
        write(out / f"{name}.tsv", some)
    rules, counts = out / "rules.tsv", Counter()
    for text in (text for pair in pairs for text in pair):
        counts.update(text)
    rules.write_text("".join(f"{ord(ch):X}\t{' '.join(f'{ord(c):X}' for c in to)}\n"
                             for ch, to in sorted(rules_of(counts).items())), encoding="utf-8")
    texts = random.Random(1).sample([text for pair in train for text in pair], 300_000)
    learn(texts, counts, rules, out / "spm.model")
    print(f"{len(train)} pairs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
