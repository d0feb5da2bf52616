"""whisper.py: what a Whisper model has beside its Transformer, and how a model file holds it.

The reader of Hugging Face folders and that of CTranslate2 directories both end here. A program that
transcribes (examples/transcribe) finds these in the model file:

    extra.conv1.weight [D, 3, mels], extra.conv1.bias, extra.conv2.weight [D, 3, D], extra.conv2.bias
        the convolutions, taps before channels: a row is then one matrix product over three frames
    extra.transcribe, extra.translate, extra.previous, extra.no_speech, extra.no_timestamps
        metadata: the ids of these tokens
    extra.first_time
        the id of time 0; each id after it is 0.02 seconds later
    extra.begin_suppressed
        ids that no text begins with, with commas between them

The config has the rest: start, end, suppressed, alignment_heads, and the languages of a model that
knows several. Tokens of times give no text.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .modelfile import ConvertError, Model, describe
from .tokenizer_files import ADDED, OTHER_BYTES, PLAIN_BYTES, added_table
from .untrusted import brief

TOKENS = {"transcribe": ("<|transcribe|>",), "translate": ("<|translate|>",),
          "previous": ("<|startofprev|>",), "no_speech": ("<|nospeech|>", "<|nocaptions|>"),
          "no_timestamps": ("<|notimestamps|>",)}
ENGLISH_ROWS = 51864  # the vocabulary of the models that know English alone
# The languages in the order of their ids
LANGUAGES = """en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la
    mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am
    yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue""".split()
# Heads whose attention follows the sound, of OpenAI's models, by the layers of encoder and decoder and n_vocab. Two
# large models are alike in these numbers, and the second one is more common.
ALIGNMENT_HEADS = {sizes: [[int(n) for n in pair.split(":")] for pair in heads.split()] for sizes, heads in {
    (4, 4, 51864): "1:0 2:0 2:5 3:0 3:1 3:2 3:3 3:4",
    (4, 4, 51865): "2:2 3:0 3:2 3:3 3:4 3:5",
    (6, 6, 51864): "3:3 4:7 5:1 5:5 5:7",
    (6, 6, 51865): "3:1 4:2 4:3 4:7 5:1 5:2 5:4 5:6",
    (12, 12, 51864): "6:6 7:0 7:3 7:8 8:2 8:5 8:7 9:0 9:4 9:8 9:10 10:0 10:1 10:2 10:3 10:6 10:11 11:2 11:4",
    (12, 12, 51865): "5:3 5:9 8:0 8:4 8:7 8:8 9:0 9:7 9:9 10:5",
    (24, 24, 51864): "11:4 14:1 14:12 14:14 15:4 16:0 16:4 16:9 17:12 17:14 18:7 18:10 18:15 20:0 20:3 20:9 20:14 21:12",
    (24, 24, 51865): "13:15 15:4 15:15 16:1 20:0 23:4",
    (32, 32, 51865): "10:12 13:17 16:11 16:12 16:13 17:15 17:16 18:4 18:11 18:19 19:11 21:2 21:3 22:3 22:9 22:12 23:5 23:7 "
                     "23:13 25:5 26:1 26:12 27:15",
    (32, 32, 51866): "7:0 10:17 12:18 13:12 16:1 17:14 19:11 21:4 24:1 25:6",
    (32, 4, 51866): "2:4 2:11 3:3 3:6 3:11 3:14"}.items()}
# Texts that are no speech by OpenAI's rule: their tokens, with and without a space before them, are suppressed.
SYMBOLS = ("\" # ( ) * + / : ; < = > @ [ \\ ] ^ _ ` { | } ~ \u300c \u300d \u300e \u300f << >> <<< >>> -- --- -( -[ (' (\" (( "
           ")) ((( ))) [[ ]] {{ }} \u266a\u266a \u266a\u266a\u266a").split()
NOTES = "\u2669\u266a\u266b\u266c\u266d\u266e\u266f"


def put_convolution(model: Model, part: str, name: str, tensor: np.ndarray) -> None:
    """Puts a tensor of a convolution. part is "conv1.weight" or another of the four names."""
    if part.endswith("weight"):
        if tensor.ndim != 3 or tensor.shape[2] != 3:
            raise ConvertError(f"{name} {describe(tensor)}: Whisper's convolutions are of three "
                               f"frames, [out, in, 3]")
        tensor = np.ascontiguousarray(tensor.transpose(0, 2, 1))
    model.put(f"extra.{part}", name, tensor)


def is_multilingual(rows: int, said: dict[str, Any]) -> bool:
    stated = said.get("is_multilingual")
    return stated if isinstance(stated, bool) else rows > ENGLISH_ROWS or bool(said.get("lang_to_id"))


def finish(said: dict[str, Any], model: Model) -> None:
    """Adds the ids that the tokens of the vocabulary have, and spellings to the times. said has the
    keys of generation_config.json that are about Whisper's own decoding."""
    if "tgt_vocabulary" not in model.texts:
        if said.get("begin_suppress_tokens"):
            raise ConvertError(f"begin_suppress_tokens is {brief(said['begin_suppress_tokens'])}, which "
                               f"examples/transcribe applies, and without a tokenizer it cannot use the "
                               f"file; --ignore-key begin_suppress_tokens leaves the key out")
        model.warn("no tokenizer files: the ids of Whisper's tokens are not known, so "
                   "examples/transcribe cannot use the file")
        return
    lines = model.texts["tgt_vocabulary"].decode().split("\n")[:-1]
    ids = {token: at for at, token in enumerate(lines)}
    found = {key: next((ids[one] for one in spellings if one in ids), None)
             for key, spellings in TOKENS.items()}
    absent = [TOKENS[key][0] for key, at in found.items() if at is None]
    if absent:
        model.warn(f"the tokenizer has no {', '.join(absent)}, so examples/transcribe cannot use "
                   f"the file")
        return
    first = found["no_timestamps"] + 1
    name_times(lines, first, model)
    begin = said.get("begin_suppress_tokens")
    if begin is None:
        begin = [at for at in (ids.get("\u0120"), model.facts.get("end")) if at is not None]
    model.about.update({f"extra.{key}": str(at) for key, at in found.items()})
    model.about["extra.first_time"] = str(first)
    model.about["extra.begin_suppressed"] = ",".join(map(str, begin))
    heads = said.get("alignment_heads")
    if heads:
        model.facts["alignment_heads"] = heads
    if is_multilingual(len(lines), said):
        codes = {match[1]: at for token, at in ids.items()
                 if (match := re.fullmatch(r"<\|([a-z]{2,3})\|>", token)) and at < found["transcribe"]}
        listed = said.get("lang_ids") or [*(said.get("lang_to_id") or {}).values()]
        model.facts["languages"] = {code: at for code, at in codes.items()
                                    if not listed or at in listed}


def name_times(lines: list[str], first: int, model: Model) -> None:
    """Spells the ids of times <|0.00|>, <|0.02|> ..., as newer tokenizers do, and marks them as
    tokens without text. Older tokenizers have no spelling for them."""
    times = [{"id": first + i, "content": f"<|{i * 0.02:.2f}|>", "special": True}
             for i in range(len(lines) - first)]
    for one in times:
        lines[one["id"]] = one["content"]
    model.texts["tgt_vocabulary"] = ("\n".join(lines) + "\n").encode()
    added = dict(model.tables.get("tgt_added", np.zeros((0, 2), np.uint32)).tolist())
    for at, flags in added_table(times, len(lines)).tolist():
        added[at] = added.get(at, 0) & ~ADDED["normalized"] | flags
    model.tables["tgt_added"] = np.array(sorted(added.items()), np.uint32)


# ------------------------------------------------------------- what a file of whisper.cpp does not state
def mel_filters(mels: int) -> np.ndarray:
    """Whisper's filters [mels, 201]: triangles between points that are evenly spaced on Slaney's scale of pitch, which is
    linear up to 1000 Hz and logarithmic above, each of area 1."""
    def to_mel(hertz: float) -> float:
        return 3 * hertz / 200 if hertz < 1000 else 15 + 27 * float(np.log(hertz / 1000) / np.log(6.4))

    points = np.linspace(0, to_mel(8000), mels + 2)
    points = np.where(points < 15, points * 200 / 3, 1000 * 6.4 ** ((points - 15) / 27))
    frequencies = np.linspace(0, 8000, 201)
    slopes = (frequencies - points[:, None]) / np.concatenate([np.diff(points), [1]])[:, None]
    rising, falling = slopes[:-2], -(frequencies - points[2:, None]) / np.diff(points)[1:, None]
    return (np.maximum(0, np.minimum(rising, falling)) * (2 / (points[2:] - points[:-2]))[:, None]).astype(np.float32)


def cut(text: bytes, ranks: dict[bytes, int], most: int | None = None) -> list[bytes]:
    """The tokens of a text by byte-pair encoding, with the tokens whose rank is below most."""
    parts = [text[at:at + 1] for at in range(len(text))]
    while len(parts) > 1:
        best = min(range(len(parts) - 1), key=lambda at: ranks.get(parts[at] + parts[at + 1], len(ranks)))
        rank = ranks.get(parts[best] + parts[best + 1])
        if rank is None or most is not None and rank >= most:
            break
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def tokenizer_of(vocabulary: list[bytes], special: dict[str, int], path: Any) -> dict[str, Any]:
    """The tokenizer.json of tokens in the order of their ranks. A token's merge is of the two parts that the tokens of
    lower ranks cut it into."""
    letters = {byte: chr(byte if byte in PLAIN_BYTES else 256 + OTHER_BYTES.index(byte)) for byte in range(256)}
    ranks: dict[bytes, int] = {}
    for at, token in enumerate(vocabulary):
        if token in ranks:
            raise ConvertError(f"{path}: token {at} is {brief(token)}, as token {ranks[token]}")
        if token:
            ranks[token] = at

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges = []
    for token, rank in ranks.items():
        parts = cut(token, ranks, rank)
        if len(parts) == 2 and all(part in ranks for part in parts):
            merges.append(" ".join(map(spell, parts)))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "pre_tokenizer": byte_level, "decoder": byte_level,
            "added_tokens": [{"id": at, "content": token, **plain} for token, at in special.items()],
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "merges": merges,
                      "vocab": {spell(token): at for token, at in ranks.items()}}}


def no_speech_tokens(vocabulary: list[bytes]) -> list[int]:
    """The tokens of SYMBOLS that are one token, and the first one of each note; " -" and " '" only inside a word."""
    ranks = {token: at for at, token in enumerate(vocabulary) if token}
    found = {ranks[token] for token in (b" -", b" '") if token in ranks}
    for symbol in (*SYMBOLS, *NOTES):
        for text in (symbol.encode(), b" " + symbol.encode()):
            parts = cut(text, ranks)
            if (len(parts) == 1 or symbol in NOTES) and parts[0] in ranks:
                found.add(ranks[parts[0]])
    return sorted(found)
