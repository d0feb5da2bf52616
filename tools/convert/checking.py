"""checking.py: whether the model file computes what the checkpoint computes.

The numbers to compare with come from the checkpoint's own engine, if it is installed, and from a file that the
user gives (--check FILE). The model file runs in build/forward.

How far two right programs differ follows from the rounding of sums, which grows with the numbers and depends on
the weights. If the difference is above SMALL, an engine that also runs in f64 shows its own rounding in f32, and
the model file must be as near to the f64 numbers as TIMES that. Where there is no f64, the limit is RELATIVE of
the largest number."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

import numpy as np

from .modelfile import (F32, F64, Comparison, Config, ConvertError, Forward, NoComparison, Part, Tensors, describe,
                        write_safetensors)
from .printing import nearest
from .untrusted import brief, read_npz, read_safetensors, visible

SMALL = 1e-3  # of logits and log-probabilities; rounding mostly makes some 1e-5 of it
TIMES = 10  # the largest of many differences: random models have up to 6 times that of the engine
RELATIVE = 1e-4
MOST_RELATIVE = 1e-3  # whatever rounding an engine has
FORWARD = Path(__file__).resolve().parents[2] / "build" / "forward"

Engine = Callable[[Forward], Comparison]


def limit_of(part: Part) -> float:
    return max(SMALL, RELATIVE * part.scale)


def judge(found: Comparison) -> str:
    """Returns why the two are not the same model, or "" if they may be."""
    wide = [part for part in found.parts if not part.worst <= SMALL]
    if not wide:
        return ""
    if not found.exact:
        bad = [part for part in wide if not part.worst <= limit_of(part)]
        return "; ".join(f"{part.name} may differ by {limit_of(part):.2g}" for part in bad)
    bad_lines = []
    for part in found.exact():
        limit = max(SMALL, min(TIMES * part.own, MOST_RELATIVE * part.scale))
        if not part.worst <= limit:
            bad_lines.append(f"{part.name} is {part.worst:.2g} from the engine's in f64, and the engine in f32 "
                             f"{part.own:.2g}, so it may be {limit:.2g}")
    return "; ".join(bad_lines)


def run_forward(written: Callable[[], Path]) -> Forward:
    """Returns a function that runs the model file, which is written for it, by build/forward."""
    def forward(src: np.ndarray, lengths: np.ndarray, tgt: np.ndarray) -> Tensors:
        if not FORWARD.is_file():
            raise NoComparison(f"{FORWARD} is missing (make builds it)")
        with tempfile.TemporaryDirectory() as folder:
            ids, result = Path(folder) / "ids", Path(folder) / "result"
            inputs = {"src": src, "src_lengths": lengths, "tgt": tgt}
            write_safetensors(ids, {name: one.astype("<i4") for name, one in inputs.items()})
            done = subprocess.run([FORWARD, written(), ids, result], capture_output=True, text=True)
            if done.returncode:
                raise ConvertError(f"{FORWARD} refuses the file: {done.stderr.strip()}")
            return read_safetensors(result)[0]

    return forward


def check(with_engine: Engine | None, given: Engine | None, written: Callable[[], Path],
          options: argparse.Namespace) -> None:
    """Compares with the checkpoint's engine and with --check FILE. Raises a ConvertError if numbers differ, or prints
    it as a warning under --force."""
    for engine in (with_engine, given):
        if engine:
            check_with(engine, engine is given, written, options)


def check_with(engine: Engine, must: bool, written: Callable[[], Path], options: argparse.Namespace) -> None:
    def say(line: str) -> None:
        if not options.quiet:
            print(line)

    try:
        found = engine(run_forward(written))
        say(f"check: {found.text}")
        why = judge(found)
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
        say(f"check: not made: {visible(brief(error))}")
        return
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

    def compare(forward: Forward) -> Comparison:
        found = forward(given["src"], lengths["src"], given["tgt"])["logits"].astype(F64)
        wanted = given["logits"].astype(F64)
        apart = np.abs(found - wanted)
        apart[np.arange(apart.shape[1]) >= lengths["tgt"][:, None]] = 0  # at pads a module may give what it likes
        row, at, token = np.unravel_index(np.argmax(np.nan_to_num(apart, nan=np.inf)), apart.shape)
        worst = float(apart[row, at, token])
        return Comparison(
            f"{path}: logits of {len(found)} rows differ by at most {worst:.2g} (row {row}, position {at}, token {token}: "
            f"{wanted[row, at, token]:.6g} in {path.name}, {found[row, at, token]:.6g} in the model file)",
            [Part("logits", worst, float(np.abs(wanted).max()))])

    return compare
