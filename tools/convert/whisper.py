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
from .tokenizer_files import ADDED, added_table
from .untrusted import brief

TOKENS = {"transcribe": ("<|transcribe|>",), "translate": ("<|translate|>",),
          "previous": ("<|startofprev|>",), "no_speech": ("<|nospeech|>", "<|nocaptions|>"),
          "no_timestamps": ("<|notimestamps|>",)}
ENGLISH_ROWS = 51864  # the vocabulary of the models that know English alone


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
