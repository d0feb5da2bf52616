"""checking.py: whether the model file computes what the checkpoint computes.

The numbers to compare with come from the checkpoint's own engine, if it is installed, and from a file that the
user gives (--check FILE). The model file runs in build/forward.

How far two right programs differ follows from the rounding of sums, which grows with the numbers and depends on
the weights. If the difference is above NOTABLE, the model file shows how much it rounds: it runs again after
each weight has moved by its last bits, up or down at random. The usual difference from the engine may be TIMES what that
changes, and the largest one MOST_TIMES."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

import numpy as np

from . import checking_texts
from .modelfile import (F32, F64, Comparison, Config, ConvertError, Forward, NoComparison, Part, Tensors, describe,
                        write_safetensors)
from .printing import nearest
from .untrusted import brief, read_npz, read_safetensors, visible

NOTABLE = 1e-4  # of logits and log-probabilities; rounding mostly makes some 1e-5 of it
NOTABLE_OF_SCALE = 1e-5  # of the largest number
TIMES = 4  # random models have 0.3 to 1.6 times
MOST_TIMES = 20  # and 0.1 to 2 times
MOST_OF_SCALE = 1e-2  # whatever the weights make of rounding
FORWARD = Path(__file__).resolve().parents[2] / "build" / "forward"

Engine = Callable[[Forward], Comparison]
TextEngine = Callable[[checking_texts.Run], "tuple[str, str, bool]"]


def judge(found: Comparison, nudged: Forward) -> str:
    """Returns why the two are not the same model, or "" if they may be. nudged runs the model file with other last bits."""
    if all(part.worst() <= max(NOTABLE, NOTABLE_OF_SCALE * part.scale()) for part in found.parts):
        return ""
    lines = []
    for part, other in zip(found.parts, found.again(nudged)):
        own, worst = other - part.found, part.worst()
        times, most = usual_ratio(part.found - part.wanted, own, part.wanted), MOST_TIMES * float(np.abs(own).max())
        if worst <= max(NOTABLE, NOTABLE_OF_SCALE * part.scale()):
            continue
        if not times <= TIMES:
            lines.append(f"{part.name}: the difference is mostly {times:.2g} times what other last bits of the weights change; "
                         f"it may be {TIMES} times")
        elif not worst <= min(most, MOST_OF_SCALE * part.scale()):
            lines.append(f"{part.name} may differ by {min(most, MOST_OF_SCALE * part.scale()):.2g}")
    return "; ".join(lines)


def usual_ratio(a: np.ndarray, b: np.ndarray, scale: np.ndarray) -> float:
    """The geometric mean over the positions of how many times as large a is there as b, of shape [..., n]. Some positions
    amplify rounding much more than others, and that counts in a and b alike."""
    def size(one: np.ndarray) -> np.ndarray:
        return np.sqrt((one.astype(F64) ** 2).mean(-1))

    least = size(scale) * 1e-9 + 1e-30
    return float(np.exp(np.log(np.maximum(size(a), least) / np.maximum(size(b), least)).mean()))


def nudge(path: Path, out: Path) -> None:
    """Writes the model file again with other last bits of its weights."""
    tensors, metadata = read_safetensors(path)
    random = np.random.default_rng(1)

    def moved(tensor: np.ndarray) -> np.ndarray:
        signs = random.integers(0, 2, tensor.shape, np.int8) * F32.type(2) - F32.type(1)
        return tensor * (1 + signs * F32.type(2.0 ** -23)) if tensor.dtype == F32 else tensor

    write_safetensors(out, {name: moved(tensor) for name, tensor in tensors.items()}, metadata)


def run_forward(written: Callable[[], Path], other_bits: bool = False) -> Forward:
    """Returns a function that runs the model file, which is written for it, by build/forward, perhaps nudged."""
    def forward(src: np.ndarray, lengths: np.ndarray, tgt: np.ndarray) -> Tensors:
        if not FORWARD.is_file():
            raise NoComparison(f"{FORWARD} is missing (make builds it)")
        with tempfile.TemporaryDirectory() as folder:
            ids, result = Path(folder) / "ids", Path(folder) / "result"
            inputs = {"src": src, "src_lengths": lengths, "tgt": tgt}
            write_safetensors(ids, {name: one.astype("<i4") for name, one in inputs.items()})
            model = written()
            if other_bits:
                nudge(model, Path(folder) / "nudged")
                model = Path(folder) / "nudged"
            done = subprocess.run([FORWARD, model, ids, result], capture_output=True, text=True)
            if done.returncode:
                raise ConvertError(f"{FORWARD} refuses the file: {done.stderr.strip()}")
            return read_safetensors(result)[0]

    return forward


def check(with_engine: Engine | None, given: Engine | None, written: Callable[[], Path],
          options: argparse.Namespace, texts: TextEngine | None = None) -> None:
    """Compares with the checkpoint's engine and with --check FILE. Raises a ConvertError if numbers differ, or prints
    it as a warning under --force."""
    for engine in (with_engine, given):
        if engine:
            check_with(engine, engine is given, written, options)
    if texts:
        check_texts(texts, written, options)


def check_texts(texts: TextEngine, written: Callable[[], Path], options: argparse.Namespace) -> None:
    """Compares what becomes of texts. If few differ, a warning says which."""
    if not FORWARD.is_file():  # the check of numbers has said so
        return
    try:
        line, others, is_wrong = texts(checking_texts.run_texts(FORWARD, written))
    except NoComparison as reason:
        if str(reason) and not options.quiet:
            print(f"check of texts: not made: {reason}")
        return
    except ConvertError as error:
        line, others, is_wrong = str(error), "", True
    except Exception as error:  # transformers refuses by whatever it raises
        line, others, is_wrong = f"transformers raised {visible(brief(error))}; --no-check leaves the check out", "", True
    if not options.quiet:
        print(f"check of texts: {visible(line)}")
    if is_wrong and not options.force:
        raise ConvertError(f"the check of texts failed: {line}. {others}. {options.output} is not written; --force writes it "
                           f"anyway")
    if others or is_wrong:
        print(f"convert.py: warning: {visible(line)}. {visible(others, 1000)}", file=sys.stderr)


def check_with(engine: Engine, must: bool, written: Callable[[], Path], options: argparse.Namespace) -> None:
    def say(line: str) -> None:
        if not options.quiet:
            print(line)

    try:
        found = engine(run_forward(written))
        say(f"check: {found.text}")
        why = judge(found, run_forward(written, other_bits=True))
        if not why:
            return
        wrong = (f"{found.text}: more than rounding makes ({why}). Something in the file is "
                 f"not what the checkpoint says, a --set perhaps")
    except ConvertError as error:
        wrong = str(error)
    except NoComparison as reason:
        if must:
            raise ConvertError(f"--check: {reason}") from None
        say(f"check: not made: {reason}")
        return
    except Exception as error:  # an engine refuses by whatever it raises
        if must:
            raise
        wrong = f"the engine raised {visible(brief(error))}; --no-check leaves the check out"
    if not options.force:
        raise ConvertError(f"the check failed: {wrong}. {options.output} is not written; --force "
                           f"writes it anyway")
    print(f"convert.py: warning: the check failed: {visible(wrong)}", file=sys.stderr)


# ------------------------------------------------------------------------------------ --check FILE
NAMES = ("src", "tgt", "logits", "src_lengths", "tgt_lengths")


def read_given(path: Path) -> Tensors:
    """The tensors of --check FILE, of kinds and shapes that fit to each other."""
    try:
        with open(path, "rb") as file:
            zipped = file.read(4) == b"PK\3\4"
    except OSError as error:
        raise ConvertError(f"--check {path}: {error.strerror or error}") from None
    try:
        found = read_npz(path) if zipped or path.suffix == ".npz" else read_safetensors(path)[0]
    except ConvertError as error:
        raise ConvertError(f"--check: {error}; the file is .npz (numpy.savez) or .safetensors") from None

    def wrong(what: str) -> ConvertError:
        return ConvertError(f"--check {path}: {what}")

    for name in found:
        if name not in NAMES:
            raise wrong(f"{brief(name)} is none of {', '.join(NAMES)}{nearest(name, NAMES)}")
    for name in NAMES[:3]:
        if name not in found:
            raise wrong(f"{name} is missing; the file needs src [B, S] and tgt [B, T] of ids, and logits [B, T, V]")
    for name, one in found.items():
        rank = 3 if name == "logits" else 1 if name.endswith("lengths") else 2
        if one.ndim != rank or not one.size:
            raise wrong(f"{name} is {describe(one)}; it must be {['', '[B]', '[B, length]', '[B, T, V]'][rank]}, and not empty")
        if name == "logits" and one.dtype not in (F32, F64):
            raise wrong(f"logits is {describe(one)}; it must be float32 or float64")
        if name != "logits" and one.dtype.kind not in "iu":
            raise wrong(f"{name} is {describe(one)}; it must be of integers")
    rows = len(found["src"])
    for name, one in found.items():
        if len(one) != rows:
            raise wrong(f"{name} has {len(one)} rows, and src has {rows}")
    if found["logits"].shape[1] != found["tgt"].shape[1]:
        raise wrong(f"logits has {found['logits'].shape[1]} positions, and tgt has {found['tgt'].shape[1]}: logits are "
                    f"what the module gives for tgt")
    bad = np.argwhere(~np.isfinite(found["logits"]))
    if len(bad):
        at = ", ".join(map(str, bad[0]))
        raise wrong(f"logits[{at}] is {found['logits'][tuple(bad[0])]}; every number must be finite")
    for side in ("src", "tgt"):
        lengths = found.get(f"{side}_lengths")
        longest = found[side].shape[1]
        if lengths is not None and not ((lengths >= 1) & (lengths <= longest)).all():
            row = int(np.argmax((lengths < 1) | (lengths > longest)))
            raise wrong(f"{side}_lengths[{row}] is {lengths[row]}; it must be from 1 to {longest}")
    return found


def lengths_of(ids: np.ndarray, pad: int | None) -> np.ndarray:
    """The length of each row without the pads at its end; at least 1."""
    real = np.ones(ids.shape, bool) if pad is None else ids != pad
    return np.maximum(1, ids.shape[1] - np.argmax(real[:, ::-1], axis=1)) * real.any(1) + ~real.any(1)


def with_file(path: Path, config: Config, sizes: Config) -> Engine:
    """Returns what compares with the numbers of --check FILE."""
    given = read_given(path)
    for side in ("src", "tgt"):
        size = sizes.get(f"{side}_vocab_size")
        if size is None:
            raise ConvertError("--check: the model's sources are vectors, and the file has ids")
        bad = np.argwhere((given[side] < 0) | (given[side] >= size))
        if len(bad):
            row, at = bad[0]
            raise ConvertError(f"--check {path}: {side}[{row}, {at}] is {given[side][row, at]}; ids are from 0 to {size - 1}")
    if given["logits"].shape[2] != sizes["tgt_vocab_size"]:
        raise ConvertError(f"--check {path}: logits are of {given['logits'].shape[2]} tokens; tgt_vocab_size is "
                           f"{sizes['tgt_vocab_size']}")
    lengths = {side: given.get(f"{side}_lengths", lengths_of(given[side], config.get(f"{side}_pad"))).astype(int)
               for side in ("src", "tgt")}

    real = np.arange(given["tgt"].shape[1]) < lengths["tgt"][:, None]  # at pads a module may give what it likes
    wanted = given["logits"].astype(F64)

    def of_file(forward: Forward) -> list[np.ndarray]:
        return [forward(given["src"], lengths["src"], given["tgt"])["logits"].astype(F64)[real]]

    def compare(forward: Forward) -> Comparison:
        part = Part("logits", of_file(forward)[0], wanted[real])
        apart = np.abs(part.found - part.wanted)
        at, token = np.unravel_index(np.argmax(np.nan_to_num(apart, nan=np.inf)), apart.shape)
        row, position = np.argwhere(real)[at]
        return Comparison(
            f"{path}: logits of {len(real)} rows differ by at most {part.worst():.2g} (row {row}, position {position}, token "
            f"{token}: {part.wanted[at, token]:.6g} in {path.name}, {part.found[at, token]:.6g} in the model file)",
            [part], of_file)

    return compare
