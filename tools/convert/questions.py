"""questions.py: what weights do not show, how the converter asks for it, and the command that answers.

A wrong guess would give wrong translations without an error. So all questions are asked at once, and
nothing is written until each has an answer."""

from __future__ import annotations

import argparse
import glob
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from . import checkpoints_torch
from .modelfile import ACTIVATIONS, NO_TOKEN, Config, Model, Tensors, describe, is_floating, to_f32
from .untrusted import visible

MOST_LISTED = 100
# What weights do not show, the option that states it, and how one knows.
QUESTIONS = {
    "n_heads": "--heads N: number of attention heads",
    "norm": "--set norm=post or norm=pre (norm_first=True)",
    "layer_norm": "--set layer_norm=layer_norm (nn.LayerNorm) or layer_norm_unbiased, rms_norm",
    "activation": "--set activation=" + " or ".join(ACTIVATIONS),
    "positions": "--set positions=sinusoidal or sinusoidal_halves, sinusoidal_per_index, none; or learned, with --map "
                 "TABLE=src_positions.weight (and =tgt_positions.weight, if targets have a table of their own)",
    "embedding_scale": "--set embedding_scale=1 or sqrt_d, NUMBER (what multiplies embeddings)",
    "src_start": f"--set src_start=ID or {NO_TOKEN} (the token before every source)",
    "src_end": f"--set src_end=ID or {NO_TOKEN} (the token after every source)",
    "src_pad": f"--set src_pad=ID or {NO_TOKEN} (what fills short sources in a batch)",
    "start": "--set start=ID (the token that the decoder reads first)",
    "end": "--set end=ID (the token after every target)",
    "tgt_pad": f"--set tgt_pad=ID or {NO_TOKEN} (what fills short targets in a batch)",
    "src_vocab": f"--src-vocab FILE (one token a line, in the order of their ids; with --tgt-vocab FILE if targets have "
                 f"other tokens) or {NO_TOKEN}, if your program makes the ids",
    "tgt_vocab": f"--tgt-vocab FILE (one token a line, in the order of their ids) or {NO_TOKEN}",
}
BEFORE_COMMAND = "    "
BLANKS = {"n_heads": "--heads ...", "src_vocab": "--src-vocab ...", "tgt_vocab": "--tgt-vocab ..."}
# Spellings of the tokens that the questions ask for.
SPECIAL = re.compile(r"[<\[]/?(s|go|begin)[>\]]|[<\[]?/?(pad|blank|bos|eos|sos|start|end|cls|sep)[>\]]?|"
                     r"<\|(endoftext|startoftext)\|>", re.IGNORECASE)


def of_ids(config: Config, model: Model, options: argparse.Namespace) -> list[str]:
    """Returns the questions about ids and texts that are open: nothing but its weights is known of somebody's own
    module. Who states src_end and not src_start gets a warning, because few models have a token before sources."""
    wanted = []
    from_ids = "src_projection.weight" not in model.tensors
    if from_ids:
        if "src_end" not in config:
            wanted += ["src_start"] * ("src_start" not in config) + ["src_end"]
        wanted += ["src_pad"] * ("src_pad" not in config)
    wanted += ["start"] * ("start" not in config and config.get("start_embedding") != "zero")
    wanted += [key for key in ("end", "tgt_pad") if key not in config]
    text = "src" if from_ids else "tgt"
    if not (options.src_vocab or options.tgt_vocab or {f"{text}_vocabulary", f"{text}_sentencepiece"} & set(model.texts)
            or config.get(f"{text}_text") == "bytes"):
        wanted.append(f"{text}_vocab")
    if from_ids and "src_start" not in config and "src_end" in config:
        model.warn("src_start is not stated: no token is put before a source. If training put one there, its id is "
                   f"missing: --set src_start=ID (--set src_start={NO_TOKEN} drops this warning)", "src_start")
    return wanted


def hints(wanted: list[str], model: Model) -> list[str]:
    """Returns what the vocabularies and embeddings show of the answers, a line each."""
    lines = []
    asked = {"src": {"src_start", "src_end", "src_pad"} & set(wanted), "tgt": {"start", "end", "tgt_pad"} & set(wanted)}
    for side, name in (("src", "sources"), ("tgt", "targets")):
        text = model.texts.get(f"{side}_vocabulary", model.texts.get("src_vocabulary", b""))
        tokens = text.decode("utf-8", "replace").split("\n")[:-1]
        found = [f"{token} is {i}" for i, line in enumerate(tokens) for token in line.split("\t")[:1]
                 if SPECIAL.fullmatch(token)]
        if asked[side] and found:
            lines.append(f"  in the vocabulary of {name}: " + ", ".join(found[:12]))
        table = model.tensors.get(f"{side}_embedding.weight")
        if {"src_pad", "tgt_pad"} & asked[side] and table is not None and table.ndim == 2 and is_floating(table):
            rows = [i for i, row in enumerate(table[:1000]) if not to_f32(row).any()]
            if len(rows) == 1:
                lines.append(f"  row {rows[0]} of {model.origin[f'{side}_embedding.weight']} is zero, as nn.Embedding's "
                             f"padding_idx={rows[0]} makes it")
    return list(dict.fromkeys(lines))


def ask(wanted: list[str], model: Model) -> None:
    if wanted:
        model.problems.append("\n".join([
            "the weights do not show these settings, and the model file must state them:",
            *(f"  {QUESTIONS[key]}" for key in wanted), *hints(wanted, model)]))


def ties(model: Model, missing: list[str]) -> list[str]:
    """Returns the --map rules that give a missing matrix the numbers of an embedding."""
    if "generator.weight" in missing and "tgt_embedding.weight" in model.origin:
        old, new = model.origin["tgt_embedding.weight"], "generator.weight"
    elif "tgt_embedding.weight" in missing and "src_embedding.weight" in model.origin:
        old, new = model.origin["src_embedding.weight"], "tgt_embedding.weight"
    else:
        return []
    return [f"{old}={new}", *(f"{old}={one}" for one, origin in model.origin.items() if origin == old)]


def quote(text: str) -> str:
    """Returns the word for a shell. What is not printable is an escape in $'...', or the word could not be pasted."""
    if text.isprintable():
        return shlex.quote(text)
    parts = [one if one.isprintable() and one not in "\\'" else "".join(f"\\x{byte:02x}" for byte in os.fsencode(one))
             for one in text]
    return "$'" + "".join(parts) + "'"


def option(name: str, value: str) -> str:
    return f"{name}{'=' if value.startswith('-') else ' '}{quote(value)}"


def can_map(name: str) -> bool:
    return bool(name) and "\0" not in name  # a command line has no NUL


def drop_option(name: str) -> str:
    return option("--drop", glob.escape(name).replace("\0", "?"))


def options_of(maps: list[str]) -> str:
    return " ".join(option("--map", rule) for rule in maps)


def blank_of(name: str) -> str:
    if not can_map(name):
        return drop_option(name)
    quoted = option("--map", f"{name}=")
    return f"{quoted[:-1]}...'" if quoted.endswith("'") else f"{quoted}..."


def explain_failure(model: Model, missing: list[str], unplaced: Tensors) -> str:
    lines: list[str] = []

    def list_some(names: list[str]) -> None:
        more = len(names) - MOST_LISTED
        lines.extend(f"  {name}" for name in names[:MOST_LISTED])
        lines.extend([f"  ... and {more} more"] * (more > 0))

    if unplaced:
        lines.append(f"tensors that have no place in a model file ({len(unplaced)}):")
        list_some([f"{visible(name)} {describe(tensor)}: " + f"{blank_of(name)} or ".replace("=...", "=NEW") * can_map(name)
                   + drop_option(name) for name, tensor in unplaced.items()])
        lines.append("NEW is src_embedding.weight, tgt_embedding.weight, generator.weight, generator.bias, "
                     "src_positions.weight or another name that --help lists. A tensor that serves two places gets "
                     "a --map for each")
    if missing:
        lines.append(f"tensors that a model file needs and this one lacks ({len(missing)}):")
        list_some(missing)
        embedding = model.tensors.get("tgt_embedding.weight")
        for name, tensor in unplaced.items():
            if embedding is not None and "generator.weight" in missing and (
                    checkpoints_torch.is_output(name) and tensor.ndim == 2 and len(tensor) != len(embedding)):
                lines.append(f"{name} {describe(tensor)} is not the generator: {model.origin['tgt_embedding.weight']} "
                             f"has {len(embedding)} rows")
        alike = [name for name, tensor in unplaced.items()
                 if embedding is not None and tensor.shape == embedding.shape]
        if "generator.weight" in missing and alike:
            stem = alike[0].removesuffix("weight")
            lines.append(f"is {alike[0]} the generator? " + options_of(
                [f"{alike[0]}=generator.weight"] + [f"{stem}bias=generator.bias"] * (f"{stem}bias" in unplaced)))
        elif ties(model, missing):
            what = "generator tied" if "generator.weight" in missing and "tgt_embedding.weight" in model.origin else (
                "embedding shared")
            lines.append(f"is the {what}? {options_of(ties(model, missing))}")
        elif missing == ["src_embedding.weight", "tgt_embedding.weight", "generator.weight"] and not unplaced:
            lines.append("to write the encoder and the decoder alone: --core")
    outside = [f"{old} is {new}" for new, old in model.origin.items()
               if old != "(zeros)" and not re.match(r"(encoder|decoder)\.", new) and old != new]
    if (missing or unplaced) and outside:
        lines.append("recognised outside the layers (a --map of the name overrides it): " + ", ".join(outside[:MOST_LISTED]))
    return "\n".join(model.problems[:MOST_LISTED] + lines)


def program() -> list[str]:
    """Returns the words that run this converter again. There may be no python in PATH, or another one."""
    there = shutil.which("python")
    python = "python" if there and Path(there).absolute() == Path(sys.executable).absolute() else sys.executable
    script = Path(sys.argv[0])
    return [python, *(["-m", f"{__package__}.main"] if script.name == "main.py" else [sys.argv[0]])]


def command(options: argparse.Namespace, wanted: list[str], unplaced: Tensors, missing: list[str], model: Model) -> str:
    """Returns the command line with a blank for each answer that is wanted. Of two --set of a key the last one holds."""
    names = list(unplaced)
    blanks = [BLANKS.get(key, f"--set {key}=...") for key in wanted]
    blanks += [blank_of(name) for name in names[:MOST_LISTED]]
    blanks += model.answers
    if not names and ties(model, missing):  # nothing else can be the missing one
        blanks.append(options_of(ties(model, missing)))
    if not blanks:
        return ""
    what = "the command again, with a blank for each answer"
    if names:
        what += " (or --drop in the place of --map)"
    if len(names) > MOST_LISTED:
        what += f", for the first {MOST_LISTED} of {len(names)} tensors"
    arguments = list(options.arguments)
    if "--" in arguments:  # options have no effect after it
        at = arguments.index("--")
        arguments = [*arguments[at + 1:], *arguments[:at]]
    return "\n".join(["", what + ":", BEFORE_COMMAND + " ".join(map(quote, [*program(), *arguments])) + " " + " ".join(blanks)])
