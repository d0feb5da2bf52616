"""checking_texts.py: whether the model file turns texts into ids, and ids into texts, as transformers' AutoTokenizer does.

The texts are made of the tokenizer's own pieces. Up to MOST_OTHER of them may differ, which is a warning: Unigram
chooses between cuts of nearly equal score by the last bits of sums, and a check must not refuse such a model. A
tokenizer that is read wrongly differs in most texts."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .modelfile import U8, Config, ConvertError, Model, NoComparison, write_safetensors
from .tokenizer_files import LANGUAGE
from .untrusted import brief, read_safetensors

TEXTS, MOST_OTHER = 20, 2
# Texts to ids, and rows of ids to texts.
Run = Callable[[list[str], list[list[int]]], "tuple[list[list[int]], list[str]]"]


@dataclass
class Other:
    """A text, or ids, and what the two make of it."""
    given: Any
    transformers: Any
    here: Any


def run_texts(program: Path, written: Callable[[], Path]) -> Run:
    """Returns a function that runs the model file, which is written for it, in build/forward --texts."""
    def run(texts: list[str], rows: list[list[int]]) -> tuple[list[list[int]], list[str]]:
        lengths = [len(row) for row in rows]
        tgt = np.array([row + [0] * (max(lengths) - len(row)) for row in rows], "<i4")
        data = "".join(text + "\0" for text in texts).encode()
        with tempfile.TemporaryDirectory() as folder:
            given, result = Path(folder) / "given", Path(folder) / "result"
            write_safetensors(given, {"tgt": tgt, "tgt_lengths": np.array(lengths, "<i4"), "texts": np.frombuffer(data, U8)})
            done = subprocess.run([program, written(), given, result, "--texts"], capture_output=True, text=True)
            if done.returncode:
                raise ConvertError(f"{program}: {done.stderr.strip()}")
            found = read_safetensors(result)[0]
        ids = [[one for one in row if one >= 0] for row in found["ids"].tolist()]
        return ids, found["texts"].tobytes().decode("utf-8", "replace").split("\0")[:-1]

    return run


def load(folder: Path) -> Any:
    """AutoTokenizer's tokenizer of the folder."""
    try:
        import transformers
    except ImportError as error:
        raise NoComparison(f"the package {error.name} is not installed") from None
    if int(transformers.__version__.split(".")[0]) < 5:
        raise NoComparison(f"transformers {transformers.__version__} is installed, and texts are cut as transformers 5 cuts them")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ImportError as error:
        raise NoComparison(f"AutoTokenizer needs more: {brief(error)}") from None


def make_texts(tokenizer: Any, rows: int) -> tuple[list[str], list[list[int]]]:
    """Texts of the tokenizer's pieces, and rows of its ids that have a row in the embedding."""
    rng = random.Random(1)
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    names = tokenizer.convert_ids_to_tokens(list(range(min(rows, len(tokenizer)))))
    ids = [at for at, name in enumerate(names) if at not in special and name is not None and not LANGUAGE.fullmatch(name)]
    drawn = [[rng.choice(ids) for _ in range(1 + at % 12)] for at in range(20 * TEXTS)] if ids else []
    found: dict[str, list[int]] = {}
    for row in drawn:
        text = " ".join(tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False).split())
        # Pieces of parts of characters, and of control characters, make no text
        if text and "\ufffd" not in text and text.isprintable():
            found.setdefault(text, row)
    return list(found)[:TEXTS], list(found.values())[:TEXTS]


def inner(ids: list[int], config: Config) -> list[int]:
    """The ids of a text without what every source begins and ends with."""
    if ids and ids[0] == config.get("src_start"):
        ids = ids[1:]
    return ids[:-1] if ids and ids[-1] == config.get("src_end") else ids


def compare(tokenizer: Any, rows: int, config: Config, run: Run) -> tuple[int, list[Other], list[Other]]:
    """The number of texts, the texts whose ids differ, and the rows of ids whose texts differ."""
    texts, drawn = make_texts(tokenizer, rows)
    if not texts:
        raise NoComparison("its pieces make no texts")
    found, decoded = run(texts, drawn)
    wanted = tokenizer(texts, add_special_tokens=False).input_ids
    told = [tokenizer.decode(row, skip_special_tokens=True) for row in drawn]
    to_ids = [Other(*one) for one in zip(texts, wanted, (inner(ids, config) for ids in found)) if list(one[1]) != one[2]]
    to_texts = [Other(*one) for one in zip(drawn, told, decoded) if one[1].strip() != one[2].strip()]
    return len(texts), to_ids, to_texts


def check(folder: Path, config: Config, model: Model, run: Run) -> tuple[str, str, bool]:
    """A line of what was compared; what differs, or ""; and whether that is too much."""
    sides = [config.get(f"{side}_text", "words") for side in ("src", "tgt")]
    if model.takes_vectors or "words" in sides or "characters" in sides:
        raise NoComparison("")
    tokenizer = load(folder)
    rows = min(len(one) for name, one in model.tensors.items() if name in ("src_embedding.weight", "tgt_embedding.weight"))
    two = {"tgt_sentencepiece", "tgt_vocabulary"} & set(model.texts)
    n, to_ids, to_texts = compare(tokenizer, rows, config, run)
    if two:  # AutoTokenizer decodes by the target's vocabulary only where it is told to
        to_texts = []
    lines = []
    for others, what in ((to_ids, "ids of the text"), (to_texts, "the text of the ids")):
        if others:
            one = others[0]
            lines.append(f"{what} {brief(one.given)}: {brief(one.transformers)} in transformers, {brief(one.here)} here")
    line = (f"{n} texts of the tokenizer's pieces through AutoTokenizer: ids of {len(to_ids)} differ; {len(to_texts)} of "
            f"{n} rows of ids have another text")
    return line, "; ".join(lines), max(len(to_ids), len(to_texts)) > MOST_OTHER
