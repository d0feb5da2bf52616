#!/usr/bin/env python3
"""Makes tests/data/sentencepiece.safetensors: small SentencePiece models of each kind, trained on generated
text, and the results of the sentencepiece package (0.2.3) for some lines.

    python tests/make/make_sentencepiece.py

Each case has NAME.model (U8), NAME.ids and NAME.decoded of all lines, concatenated, NAME.id_ends and
NAME.decoded_ends. The lines are in "lines" and "line_ends", for all cases. Needs sentencepiece, numpy and
safetensors.
"""
import io
import pathlib
import random
import tempfile

import numpy
import sentencepiece
from safetensors.numpy import save_file
from sentencepiece.sentencepiece_model_pb2 import ModelProto

OUT = pathlib.Path(__file__).parent / "data" / "sentencepiece.safetensors"

WHO = ["the gardener", "a small robot", "my neighbour", "the night train", "every second ship", "an old clock", "the baker's dog",
       "our teacher", "nobody", "a quiet river"]
DOES = ["watches", "repaired", "is counting", "forgot", "will paint", "has never seen", "sells", "carries", "dreams of", "unlocked"]
WHAT = ["the lighthouse", "seven blue lamps", "a letter from Zürich", "the unfinished bridge", "warm bread", "two suitcases", "the map",
        "an unreadable sign", "snow in May", "the key to the cellar"]
WO = ["im Hafen", "über den Dächern", "vor dem Frühstück", "hinter der Mühle", "am größten See", "zwischen zwei Türen"]
WER = ["die Köchin", "ein müder Bär", "unser Nachbar", "das kleine Mädchen", "der Straßenbahnfahrer", "niemand"]
TUT = ["sucht", "hört", "zeichnet", "vergisst", "öffnet", "verschenkt"]
WAS = ["den Schlüssel", "ein Märchen", "die Fußspuren", "grüne Äpfel", "das Gewitter", "alte Briefe"]
ZH = ["猫", "老师", "火车", "月亮", "他们", "小鸟"], ["看见", "喜欢", "忘了", "画", "听说"], ["大海", "一本书", "苹果", "窗户", "星期天"]


def sentences(seed, n):
    pick = random.Random(seed).choice
    out = []
    for i in range(n):
        if i % 4 == 3:
            out.append(pick(ZH[0]) + pick(ZH[1]) + pick(ZH[2]) + pick("。！"))
        elif i % 4 == 2:
            out.append(f"{pick(WER).capitalize()} {pick(TUT)} {pick(WO)} {pick(WAS)}.")
        else:
            out.append(f"{pick(WHO).capitalize()} {pick(DOES)} {pick(WHAT)}" + pick([".", "!", "?", " (again).", ", 1984."]))
    return out


LINES = sentences(7, 24) + [
    "", " ", "     ", "a", "  two  spaces   and more    ", "tab\tand\nnewline", "\u3000wide\u3000space\u00a0hard", "ﬁne ﬂat ﬃ", "ＡＢＣ　１２３ｘ",
    "e\u0301 a\u0308 z\u0301 A\u030a", "é ä Å", "unseen: ж ש ع ก あ 한", "жжж", "ж ж", "👩‍👩‍👧 🇨🇭 👍🏽", "\u2581 literal \u2581\u2581mark\u2581", "\u2581", "<s> </s> <unk> <pad>",
    "<sep> and<sep>inside <sep><sep>", "https://example.org/a?b=c", "<0x41> is a byte", "\x00 \x01\x7f control", "xabcabx", "zero\u200bwidth\u200d",
    "\ufeffmark", "\ufffd", "the the the the", "MAJUSCULES", "1984 1984.1984", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "...!?", "\u0301start",
    "猫 看见 大海", "unfinishedlighthouse"]

RULES = [("Ａ", "A"), ("Ｂ", "B"), ("Ｃ", "C"), ("ｘ", "x"), ("１", "1"), ("２", "2"), ("３", "3"), ("ﬁ", "fi"), ("ﬃ", "ffi"), ("\u3000", " "),
         ("\u00a0", " "), ("\t", " "), ("\n", " "), ("e\u0301", "é"), ("a\u0308", "ä"), ("A\u030a", "Å"), ("A\u030aA", "ÅÅ A"), ("\u200b", ""), ("\ufeff", ""),
         ("\x01", ""), ("xabc", "y  z "), ("xab", " w")]


def tsv(folder, name, rules):
    path = pathlib.Path(folder) / name
    hexes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path.write_text("".join(f"{hexes(a)}\t{hexes(b)}\n" for a, b in rules))
    return str(path)


def make_unused(model, every):
    """Gives every n-th normal piece the type UNUSED."""
    proto = ModelProto.FromString(model)
    normal = [piece for piece in proto.pieces if piece.type == proto.SentencePiece.NORMAL]
    for piece in normal[every - 1::every]:
        piece.type = proto.SentencePiece.UNUSED
    return proto.SerializeToString()


def train(**options):
    model = io.BytesIO()
    options = dict(vocab_size=260, hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, num_threads=1) | options
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences(1, 400)), model_writer=model, **options)
    return model.getvalue()


def main():
    with tempfile.TemporaryDirectory() as folder:
        rules = dict(normalization_rule_tsv=tsv(folder, "rules.tsv", RULES))
        back = dict(denormalization_rule_tsv=tsv(folder, "back.tsv", [("ä", "ae"), ("the ", "THE "), ("the b", "B"), (".", "")]))
        plain = dict(normalization_rule_name="identity")
        symbols = dict(user_defined_symbols="<sep>,ing,at the,Ａ,abca", control_symbols="<ctl>,z")
        bpe, unigram = dict(model_type="bpe"), dict(model_type="unigram")
        cases = {
            "unigram": unigram | rules,
            "bpe": bpe | rules,
            "unigram_bytes": unigram | rules | dict(byte_fallback=True, vocab_size=420),
            "bpe_bytes": bpe | plain | dict(byte_fallback=True, vocab_size=420),
            "unigram_bare": unigram | plain | dict(add_dummy_prefix=False, remove_extra_whitespaces=False),
            "bpe_bare": bpe | rules | dict(add_dummy_prefix=False, remove_extra_whitespaces=False),
            "unigram_spaces": unigram | rules | dict(remove_extra_whitespaces=False, split_by_whitespace=False),
            "unigram_symbols": unigram | rules | symbols,
            "bpe_symbols": bpe | rules | symbols,
            "unigram_suffix": unigram | rules | dict(treat_whitespace_as_suffix=True),
            "bpe_suffix": bpe | plain | dict(treat_whitespace_as_suffix=True),
            "unigram_back": unigram | plain | back | dict(unk_surface="<?\u2581>", unk_id=1, eos_id=0, bos_id=-1, pad_id=2),
            "bpe_unused": bpe | plain,
            "unigram_unused": unigram | plain,
        }
        models = {name: train(**options) for name, options in cases.items()}
    models["bpe_unused"] = make_unused(models["bpe_unused"], 3)
    models["unigram_unused"] = make_unused(models["unigram_unused"], 3)
    u8 = lambda data: numpy.frombuffer(data or b"", dtype=numpy.uint8)
    i32 = lambda data: numpy.array(data, dtype=numpy.int32)
    ends = lambda parts: i32(numpy.cumsum([len(part) for part in parts]))
    texts = [line.encode() for line in LINES]
    tensors = {"lines": u8(b"".join(texts)), "line_ends": ends(texts)}
    for name, model in models.items():
        package = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = [package.encode(line) for line in LINES]
        decoded = [package.decode(row).encode() if row else b"" for row in ids]
        # The reversed rows are ids that no text gives: byte pieces that are no UTF-8, spaces in odd places,
        # control pieces.
        mixed = random.Random(name)
        more = [[mixed.randrange(package.get_piece_size()) for _ in range(12)] for _ in range(40)]
        tensors |= {f"{name}.model": u8(model), f"{name}.ids": i32(sum(ids, [])), f"{name}.id_ends": ends(ids),
                    f"{name}.decoded": u8(b"".join(decoded)), f"{name}.decoded_ends": ends(decoded),
                    f"{name}.mixed": i32(more)}
        decoded = [package.decode(row).encode() for row in more]
        tensors |= {f"{name}.mixed_decoded": u8(b"".join(decoded)), f"{name}.mixed_ends": ends(decoded)}
        print(f"{name:16} {package.get_piece_size():4} pieces, {len(model):6} bytes, {sum(map(len, ids)):5} ids")
    save_file(tensors, OUT)
    print(f"{OUT}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
