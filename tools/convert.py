#!/usr/bin/env python3
"""convert.py: a PyTorch checkpoint becomes a model file for transformer.h.

    convert.py IN OUT.safetensors [--heads N] [--set KEY=VALUE ...]
               [--src-vocab FILE [--tgt-vocab FILE]] [--map OLD=NEW ...] [--drop PATTERN ...]
               [--prefix P] [--dtype f32|f16|bf16] [--core]

Do this, once, where the model was trained:

    torch.save(model.state_dict(), "model.pt")
    python convert.py model.pt model.safetensors --heads 8 --set embedding_scale=sqrt_d \\
        --set src_pad=1 --set tgt_pad=1 --set start=2 --set end=3 \\
        --src-vocab source.txt --tgt-vocab target.txt

IN is what torch.save wrote (a state dict, or a dictionary that holds one as "state_dict", "model"
or "model_state_dict") or a safetensors file. Pickles are read with weights_only=True: a checkpoint
that would run code is refused.

What is found by itself, behind any prefix ("module.", "model.transformer." ...):

    nn.Transformer     X.layers.N.self_attn.in_proj_weight and its family. The stack whose layers
                       have multihead_attn is the decoder, the other one is the encoder.
    encoder_layers.N   self_attn.w_q/w_k/w_v/fc, enc_attn, feedforward.linear1/linear2, norm1-3.
    Encoder.layers.N   enc_self_attn.W_Q/W_K/W_V/fc, dec_self_attn, dec_enc_attn, pos_ffn.fc.0/2:
                       no biases, plain norms, sinusoidal_per_index positions.
    embeddings         src_embed, src_tok_emb.embedding, encoder_embedding, tgt_emb, decoder.embed,
                       trg_embedding ...; one embedding that names no side serves both.
    generator          generator, fc_out, out, projection, linear_out, lm_head ..., where its rows
                       are those of the target embedding.
    positions          pe, pos_encoding.pe, pos_embedding.weight ...: a table that a formula gives
                       is left out and the formula goes into the config; any other table is
                       written as learned positions.

Nothing is guessed beyond that. A tensor without a place is listed and nothing is written until it
is mapped or dropped. The names to use are those that the listing shows:

    --map head.weight=generator.weight     one tensor; repeat OLD to tie it to two names
    --map enc.blocks.=encoder.layers.      every name that begins with OLD
    --drop '*.criterion.*'                 a shell pattern
    --prefix ema.                          only the names behind it

What weights cannot tell, --set says (the number of heads above all, and norm=pre); the listing
ends with what was assumed. --heads N is short for --set n_heads=N. A vocabulary is UTF-8 text:
line i is token i, further spellings of it follow after tabs. Without --tgt-vocab the source's
serves both sides. Every tensor keeps its type unless --dtype says otherwise; float64 becomes f32.

--core writes an encoder and a decoder without embeddings and generator, for programs that use the
stacks alone; the model loader refuses such a file.

The exit status is 0, or 1 with the reasons on stderr and OUT untouched.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import re
import struct
import sys
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Callable

import torch
from safetensors import SafetensorError, safe_open

Tensors = dict[str, torch.Tensor]
Config = dict[str, Any]


class ConvertError(Exception):
    """The checkpoint or the command line is at fault; the text says how and what to do."""


# ------------------------------------------------------------------------------ the config's keys
# A parser turns the text of --set KEY=TEXT into the value of the config, or raises a ValueError
# whose text says what it takes.


def whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) < least:
            raise ValueError(f"a whole number from {least}")
        return int(text)

    return parse


def number(text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError("a number above 0")
    return int(value) if value.is_integer() else value


def scale(text: str) -> int | float | str:
    if text == "sqrt_d":
        return text
    try:
        return number(text)
    except ValueError:
        raise ValueError("a number above 0, or sqrt_d") from None


def one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError("one of " + ", ".join(values))
        return text

    return parse


def id_list(text: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise ValueError("ids with commas between them")
    return [int(one) for one in text.split(",")]


SIZES = ("d_model", "d_ff", "d_key", "d_value", "n_encoder_layers", "n_decoder_layers",
         "src_vocab_size", "tgt_vocab_size")
SOURCE_IDS = ("src_pad", "src_unk", "src_start", "src_end")
TARGET_IDS = ("tgt_pad", "tgt_unk", "start", "end", "forced", "suppressed")

CONFIG_KEYS: dict[str, Callable[[str], Any]] = {
    "n_heads": whole(1),
    **{key: whole(1) for key in SIZES},
    "norm": one_of("post", "pre"),
    "layer_norm": one_of("variance", "deviation"),
    "layer_norm_eps": number,
    "activation": one_of("relu", "gelu", "gelu_tanh", "swish"),
    "positions": one_of("sinusoidal", "sinusoidal_halves", "sinusoidal_per_index", "learned",
                        "none"),
    "position_offset": whole(0),
    "position_base": number,
    "position_divisor": one_of("d", "d/2-1"),
    "position_precision": one_of("float", "double"),
    "pad_position": one_of("plain", "zero"),
    "embedding_scale": scale,
    "attention_scale": number,
    **{key: whole(0) for key in SOURCE_IDS + TARGET_IDS},
    "suppressed": id_list,
    "start_embedding": one_of("token", "zero"),
    "src_text": one_of("words", "characters"),
    "tgt_text": one_of("words", "characters", "pieces"),
}

# What no weight shows. The file always says these, so that it can be read without the spec.
ASSUMED_IN_STACK: Config = {"norm": "post", "layer_norm": "variance", "activation": "relu"}
ASSUMED_AROUND_STACK: Config = {"positions": "sinusoidal", "embedding_scale": 1}


def parse_settings(settings: list[str]) -> Config:
    """The KEY=VALUE texts of --set as config entries."""
    config: Config = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConvertError(f"--set {setting}: write KEY=VALUE")
        if key not in CONFIG_KEYS:
            keys = ", ".join(CONFIG_KEYS)
            raise ConvertError(f"--set {setting}: no such key; the keys are {keys}")
        try:
            config[key] = CONFIG_KEYS[key](text)
        except ValueError as error:
            raise ConvertError(f"--set {setting}: {key} takes {error}") from None
    return config


# --------------------------------------------------------------------------- reading a checkpoint
# A file of test cases keeps the weights behind "weights." and states sizes and ids in its metadata
# entry "case", as JSON with the short names of its author.
CASE_KEYS: dict[str, tuple[str, ...]] = {
    "h": ("n_heads",), "num_heads": ("n_heads",),
    "d": ("d_model",), "f": ("d_ff",), "dk": ("d_key",), "dv": ("d_value",),
    "n": ("n_encoder_layers", "n_decoder_layers"),
    "ne": ("n_encoder_layers",), "nd": ("n_decoder_layers",),
    "vocab": ("src_vocab_size", "tgt_vocab_size"),
    "vs": ("src_vocab_size",), "vt": ("tgt_vocab_size",),
    "pad_id": ("src_pad", "tgt_pad"),
}


def read_checkpoint(path: Path) -> tuple[Tensors, Config]:
    """The tensors of the file by name, and what its metadata states as config entries."""
    try:
        if path.suffix == ".safetensors":
            tensors, config = read_safetensors(path)
        else:
            tensors, config = read_pickle(path), {}
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from None
    if not tensors:
        raise ConvertError(f"{path} holds no weights")
    return strip_wrappers(tensors), config


def read_safetensors(path: Path) -> tuple[Tensors, Config]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ConvertError(f"{path}: not a safetensors file: {error}") from None
    if "transformer.config" in metadata:
        raise ConvertError(f"{path} is a model file already")
    if "case" not in metadata:
        return tensors, {}
    weights = {name.removeprefix("weights."): tensor for name, tensor in tensors.items()
               if name.startswith("weights.")}
    try:
        return weights, case_config(json.loads(metadata["case"]))
    except (ValueError, AttributeError) as error:
        raise ConvertError(f"{path}: the metadata's case: {error}") from None


def case_config(case: dict[str, Any]) -> Config:
    config: Config = {}
    for key, value in case.items():
        if key == "norm_first":
            config["norm"] = "pre" if value else "post"
        for known in CASE_KEYS.get(key, (key,)):
            if known in CONFIG_KEYS:
                config[known] = CONFIG_KEYS[known](str(value))
    return config


def read_pickle(path: Path) -> Tensors:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # whatever a broken or a hostile pickle makes the unpickler raise
        said = re.search(r"Unsupported \w+: .*?(?= was not|$)", str(error), re.MULTILINE)
        raise ConvertError(
            f"{path} is no checkpoint, or it holds Python objects beside its tensors, and reading "
            f"those could run code; torch.save(model.state_dict(), FILE) writes what is wanted "
            f"({said[0] if said else type(error).__name__})") from None
    wrapper: Any = found
    while isinstance(wrapper, dict):
        found = wrapper
        wrapper = next((found[key] for key in ("state_dict", "model_state_dict", "model")
                        if isinstance(found.get(key), dict)), None)
    if not isinstance(found, dict):
        raise ConvertError(f"{path} holds a {type(found).__name__}, not a state dict")
    tensors = {str(name): value.detach() for name, value in found.items()
               if isinstance(value, torch.Tensor)}
    if not tensors:
        raise ConvertError(f"{path}: no tensors among its keys: {', '.join(map(str, found))}")
    return tensors


def strip_wrappers(tensors: Tensors) -> Tensors:
    """Without the prefixes that DataParallel and torch.compile put before every name."""
    for prefix in ("module.", "_orig_mod.", "module."):
        if all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


# ------------------------------------------------------------------- the names of the model file
# Every name with its shape. D model width, F feed-forward width, HK and HV the key and value
# widths of all heads together, Vs and Vt the vocabularies, * any length.


def attention_shapes(name: str) -> dict[str, str]:
    return {
        rf"{name}\.in_proj_weight": "3D D", rf"{name}\.in_proj_bias": "3D",
        rf"{name}\.[qk]_proj\.weight": "HK D", rf"{name}\.[qk]_proj\.bias": "HK",
        rf"{name}\.v_proj\.weight": "HV D", rf"{name}\.v_proj\.bias": "HV",
        rf"{name}\.out_proj\.weight": "D HV", rf"{name}\.out_proj\.bias": "D",
    }


ENCODER_LAYER = {
    **attention_shapes("self_attn"),
    r"linear1\.weight": "F D", r"linear1\.bias": "F",
    r"linear2\.weight": "D F", r"linear2\.bias": "D",
    r"norm[12]\.(weight|bias)": "D",
}
DECODER_LAYER = {
    **ENCODER_LAYER,
    **attention_shapes("multihead_attn"),
    r"norm3\.(weight|bias)": "D",
}
SHAPES = {
    **{rf"encoder\.layers\.\d+\.{rest}": shape for rest, shape in ENCODER_LAYER.items()},
    **{rf"decoder\.layers\.\d+\.{rest}": shape for rest, shape in DECODER_LAYER.items()},
    r"(encoder|decoder)\.norm\.(weight|bias)": "D",
    r"src_embedding\.weight": "Vs D",
    r"tgt_embedding\.weight": "Vt D",
    r"(src|tgt)_embedding_norm\.(weight|bias)": "D",
    r"(src|tgt)_positions\.weight": "* D",
    r"generator\.weight": "Vt D",
    r"generator\.bias": "Vt",
}


def shape_of(name: str) -> str | None:
    return next((shape for rule, shape in SHAPES.items() if re.fullmatch(rule, name)), None)


# ---------------------------------------------------------------------------------------- layouts
@dataclass(frozen=True)
class Layout:
    """How one family of models spells the tensors of its layers, and what is known of it."""

    title: str
    mark: str  # a pattern that only this family's names have
    spelling: tuple[tuple[str, str], ...] = ()  # substitutions that lead to nn.Transformer's names
    facts: Config = field(default_factory=dict)
    advice: str = ""  # what its users should know


LAYOUTS = (
    Layout(
        "encoder_layers.N with w_q",
        r"(^|\.)encoder_layers\.\d+\.self_attn\.w_q\.",
        ((r"\b(en|de)coder_layers\.(\d+)\.", r"\1coder.layers.\2."),
         (r"\.enc_attn\.", ".multihead_attn."),
         (r"_attn\.w_([qkv])\.", r"_attn.\1_proj."),
         (r"_attn\.fc\.", "_attn.out_proj."),
         (r"\.feedforward\.", ".")),
        {**ASSUMED_IN_STACK, **ASSUMED_AROUND_STACK},
        "document 000 runs its decoder with pad masks only, no causal one: 'forward --not-causal' "
        "gives its numbers; decoding is causal",
    ),
    Layout(
        "Encoder.layers.N with W_Q",
        r"\.enc_self_attn\.W_Q\.",
        ((r"\.(enc|dec)_self_attn\.", ".self_attn."),
         (r"\.dec_enc_attn\.", ".multihead_attn."),
         (r"_attn\.W_Q\.", "_attn.q_proj."),
         (r"_attn\.W_K\.", "_attn.k_proj."),
         (r"_attn\.W_V\.", "_attn.v_proj."),
         (r"_attn\.fc\.", "_attn.out_proj."),
         (r"\.pos_ffn\.fc\.0\.", ".linear1."),
         (r"\.pos_ffn\.fc\.2\.", ".linear2.")),
        {**ASSUMED_IN_STACK, **ASSUMED_AROUND_STACK, "positions": "sinusoidal_per_index",
         "position_precision": "double"},
    ),
    Layout(
        "nn.Transformer",
        r"_attn\.(in_proj_weight|[qkv]_proj)",
        ((r"\.([qkv]_proj)_weight$", r".\1.weight"),),
        {"layer_norm": "variance"},
    ),
)

# The words that tell what a module outside the layers is, and for which side.
EMBEDDING = {"emb", "embed", "embedder", "embedding", "embeddings", "lut", "shared"}
POSITION = {"pe", "pos", "position", "positions", "positional"}
NORM = {"norm", "ln", "layernorm"}
OUTPUT = {"generator", "out", "output", "projection", "proj", "linear", "fc", "head", "logits",
          "classifier", "final"}
SIDES = {"src": "src", "source": "src", "enc": "src", "encoder": "src", "input": "src",
         "tgt": "tgt", "trg": "tgt", "target": "tgt", "dec": "tgt", "decoder": "tgt",
         "output": "tgt"}


def words(name: str) -> set[str]:
    """src_tok_emb.embedding -> {src, tok, emb, embedding}; srcEmbed -> {src, embed}."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def sides(module: str) -> tuple[str, ...]:
    """The side that the innermost part of the path names; both where no part names just one."""
    for part in reversed(module.split(".")):
        named = {SIDES[word] for word in words(part) if word in SIDES}
        if named:
            return tuple(sorted(named))
    return ("src", "tgt")


def recognise(name: str, tensor: torch.Tensor, width: int) -> list[str]:
    """The model file's names for a tensor outside the layers; none where name or shape say no."""
    module, _, leaf = name.rpartition(".")
    said, rank = words(module), tensor.dim()
    matrix = leaf == "weight" and rank == 2 and tensor.shape[1] == width
    if said & EMBEDDING and said & NORM and leaf in ("weight", "bias") and rank == 1:
        return [f"{side}_embedding_norm.{leaf}" for side in sides(module)]
    if said & EMBEDDING and matrix:
        return [f"{side}_embedding.weight" for side in sides(module)]
    if said & OUTPUT and (matrix or (leaf == "bias" and rank == 1)):
        return [f"generator.{leaf}"]
    return []


# -------------------------------------------------------------------------------------- positions
FORMULA_KEYS = ("positions", "position_divisor", "position_precision")


def position_table(rows: int, width: int, config: Config) -> torch.Tensor:
    """The rows that the config's formula gives, in the precision that it names."""
    real = torch.float64 if config.get("position_precision") == "double" else torch.float32
    first, base = config.get("position_offset", 0), config.get("position_base", 10000)
    position = torch.arange(first, first + rows, dtype=real).unsqueeze(1)
    table = torch.zeros(rows, width, dtype=real)
    if config["positions"] == "sinusoidal_per_index":
        angle = position / base ** (2.0 * torch.arange(width, dtype=real) / width)
        table[:, 0::2] = torch.sin(angle[:, 0::2])
        table[:, 1::2] = torch.cos(angle[:, 1::2])
        table[position[:, 0] == 0] = 0
        return table
    divisor = width - 2 if config.get("position_divisor") == "d/2-1" else width
    rate = torch.exp(torch.arange(0, width, 2, dtype=real) * -(math.log(base) / divisor))
    angle = position * rate
    if config["positions"] == "sinusoidal":
        table[:, 0::2] = torch.sin(angle)
        table[:, 1::2] = torch.cos(angle)[:, : width // 2]
    else:
        table[:, : angle.shape[1]] = torch.sin(angle)
        table[:, angle.shape[1]:] = torch.cos(angle)[:, : width // 2]
    return table


def find_formula(table: torch.Tensor, stated: Config) -> Config | None:
    """The config entries of the formula that gives the table; None where no formula does."""
    rows, width = table.shape
    distances: dict[tuple[str, str, str], float] = {}
    for kind, divisor, precision in product(
            ("sinusoidal", "sinusoidal_halves", "sinusoidal_per_index"), ("d", "d/2-1"),
            ("float", "double")):
        formula = dict(zip(FORMULA_KEYS, (kind, divisor, precision)))
        denied = any(stated.get(key, value) != value for key, value in formula.items())
        if denied or (divisor != "d" and (kind == "sinusoidal_per_index" or width < 4)):
            continue
        expected = position_table(rows, width, {**stated, **formula}).to(table.dtype)
        distances[kind, divisor, precision] = (expected - table).abs().max().item()
    best = min(distances, key=distances.__getitem__, default=None)
    # The table's own rounding, and that of angles in f32, which grow with the row.
    slack = torch.finfo(table.dtype).eps + torch.finfo(torch.float32).eps * 2 * rows
    return dict(zip(FORMULA_KEYS, best)) if best and distances[best] <= slack else None


# ----------------------------------------------------------------------------------------- naming
@dataclass
class Model:
    """A model file in the making."""

    tensors: Tensors = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)  # new name -> name in the checkpoint
    facts: Config = field(default_factory=dict)  # what layout and tensors tell of the config
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def put(self, new: str, old: str, tensor: torch.Tensor) -> None:
        """Two names may claim one place only if they hold the same numbers (a tied module)."""
        if new not in self.tensors:
            self.tensors[new], self.origin[new] = tensor, old
        elif not same(self.tensors[new], tensor):
            self.problems.append(f"{new}: both {self.origin[new]} and {old} fit; choose with "
                                 f"--map or --drop")
        else:
            self.notes.append(f"{old}: the same as {self.origin[new]}")

    def width(self) -> int:
        """d_model as the first layer has it; 0 where there is none."""
        first = self.tensors.get("encoder.layers.0.linear1.weight")
        return first.shape[1] if first is not None and first.dim() == 2 else 0


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def describe(tensor: torch.Tensor) -> str:
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def select(tensors: Tensors, prefix: str, patterns: list[str], model: Model) -> Tensors:
    """What --prefix, --drop and the types leave over."""
    chosen = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()
              if name.startswith(prefix)}
    if not chosen:
        raise ConvertError(f"--prefix {prefix}: no tensor's name begins with it")
    if len(chosen) < len(tensors):
        model.notes.append(f"{len(tensors) - len(chosen)} tensors: not behind {prefix}")
    for pattern in patterns:
        dropped = [name for name in chosen if fnmatch.fnmatchcase(name, pattern)]
        if not dropped:
            raise ConvertError(f"--drop {pattern}: no tensor's name fits")
        for name in dropped:
            model.notes.append(f"{name} {describe(chosen.pop(name))}: dropped")
    for name in [name for name, tensor in chosen.items() if not tensor.is_floating_point()]:
        model.notes.append(f"{name} {describe(chosen.pop(name))}: a buffer that is no weight")
    return chosen


def apply_maps(tensors: Tensors, maps: list[str], model: Model) -> Tensors:
    """--map: names of the model file are put there; others rename what is still to be found."""
    moved: set[str] = set()
    renamed: Tensors = {}
    for rule in maps:
        old, equals, new = rule.partition("=")
        if not (old and equals and new):
            raise ConvertError(f"--map {rule}: write OLD=NEW")
        hits = [name for name in tensors
                if name == old or (old.endswith(".") and name.startswith(old))]
        if not hits:
            raise ConvertError(f"--map {rule}: no tensor has that name")
        for name in hits:
            target = new + name.removeprefix(old)
            moved.add(name)
            if shape_of(target):
                model.put(target, name, tensors[name])
            elif target in renamed:
                raise ConvertError(f"--map {rule}: {target} is taken by another --map")
            else:
                renamed[target] = tensors[name]
    kept = {name: tensor for name, tensor in tensors.items() if name not in moved}
    for name in kept.keys() & renamed.keys():
        raise ConvertError(f"--map ...={name}: the checkpoint has that name already")
    return {**kept, **renamed}


def name_layers(tensors: Tensors, model: Model) -> Tensors:
    """Puts the two stacks into the model; returns the tensors outside them."""
    layout = next((one for one in LAYOUTS if any(re.search(one.mark, name) for name in tensors)),
                  LAYOUTS[-1])
    model.facts.update(layout.facts)
    spelled: dict[str, str] = {}
    for name in tensors:
        spelled[name] = name
        for pattern, replacement in layout.spelling:
            spelled[name] = re.sub(pattern, replacement, spelled[name])

    stacks: dict[str, set[str]] = {}  # "model.transformer.encoder" -> {"self_attn", "linear1" ...}
    for name in spelled.values():
        match = re.fullmatch(r"(.+)\.layers\.\d+\.(\w+)\..+", name)
        if match:
            stacks.setdefault(match[1], set()).add(match[2])
    attending = {stack: parts for stack, parts in stacks.items() if "self_attn" in parts}
    decoders = [stack for stack, parts in attending.items() if "multihead_attn" in parts]
    encoders = [stack for stack in attending if stack not in decoders]
    for side, found in (("encoder", encoders), ("decoder", decoders)):
        if len(found) > 1:
            raise ConvertError(f"{len(found)} {side} stacks: {', '.join(found)}; choose the model "
                               f"with --prefix, or --drop one")

    rest: Tensors = {}
    homes = {stack: "encoder" for stack in encoders} | {stack: "decoder" for stack in decoders}
    for name, tensor in tensors.items():
        stack = next((one for one in homes if spelled[name].startswith(one + ".")), None)
        new = f"{homes[stack]}{spelled[name].removeprefix(stack)}" if stack else ""
        if shape_of(new):
            model.put(new, name, tensor)
        else:
            rest[name] = tensor
    model.notes.append(f"layout: {layout.title}")
    if layout.advice:
        model.notes.append(layout.advice)
    return rest


def name_surroundings(rest: Tensors, stated: Config, model: Model) -> Tensors:
    """Puts embeddings, positions and generator into the model; returns what has no place."""
    width = model.width()
    if not width:
        return rest
    outside = {name: tensor for name, tensor in rest.items()
               if not re.search(r"layers\.\d", name)}
    tables = {name: tensor.reshape(-1, width) for name, tensor in outside.items()
              if words(name) & POSITION and stated.get("positions") != "none"
              and tensor.dim() in (2, 3) and tensor.shape[-1] == width
              and 0 < tensor.numel() == max(tensor.shape[:-1]) * width}
    name_positions(tables, stated, model)
    placed = set(tables)
    claims = {name: recognise(name, tensor, width) for name, tensor in outside.items()
              if not words(name) & POSITION}
    for generator in (False, True):  # the generator last: its rows are the target embedding's
        embedding = model.tensors.get("tgt_embedding.weight")
        for name, news in claims.items():
            for new in news:
                if new.startswith("generator.") != generator:
                    continue
                rows = rest[name].shape[:1]
                if generator and embedding is not None and rows != embedding.shape[:1]:
                    continue
                model.put(new, name, rest[name])
                placed.add(name)
    return {name: tensor for name, tensor in rest.items() if name not in placed}


def name_positions(tables: Tensors, stated: Config, model: Model) -> None:
    """Tables that one formula gives become config entries; others are learned positions."""
    formulas = [find_formula(table, stated) for table in tables.values()]
    if tables and formulas[0] and all(one == formulas[0] for one in formulas):
        model.facts.update(formulas[0])
        for name in tables:
            model.notes.append(f"{name}: the {formulas[0]['positions']} formula gives it")
        return
    for name, table in tables.items():
        for side in sides(name):
            model.put(f"{side}_positions.weight", name, table)


def complete(model: Model) -> None:
    """The forms that differ between PyTorch's modules and the model file."""
    for name in [name for name in model.tensors if name.endswith(".in_proj_bias")]:
        attention = name.removesuffix(".in_proj_bias")
        parts = [f"{attention}.{letter}_proj" for letter in "qkv"]
        if all(f"{part}.weight" in model.tensors for part in parts):
            bias, old = model.tensors.pop(name), model.origin.pop(name)
            rows = [len(model.tensors[f"{part}.weight"]) for part in parts]
            if sum(rows) != len(bias):
                model.problems.append(f"{old} {describe(bias)}: q, k and v have {rows} rows")
                continue
            for part, piece in zip(parts, bias.split(rows)):
                model.put(f"{part}.bias", old, piece)
    for name in [name for name in model.tensors if re.search(r"norm\d?\.weight$", name)]:
        bias = name.removesuffix("weight") + "bias"
        if bias not in model.tensors:
            model.put(bias, "(zeros)", torch.zeros_like(model.tensors[name]))


def omit_tied(model: Model) -> None:
    """A tensor that repeats another is left out where the model file lets absence say so."""
    for name, other in (("generator.weight", "tgt_embedding.weight"),
                        ("tgt_embedding.weight", "src_embedding.weight"),
                        ("tgt_positions.weight", "src_positions.weight")):
        pair = model.tensors.get(name), model.tensors.get(other)
        if pair[0] is not None and pair[1] is not None and same(*pair):
            del model.tensors[name], model.origin[name]
            model.notes.append(f"{name}: tied to {other}, written once")


# --------------------------------------------------------------------------------------- checking
def missing_tensors(model: Model, config: Config, core: bool) -> list[str]:
    """What a model file needs and this one lacks, a line each; layers of a side are alike."""
    have, lines = model.tensors, []
    for side, attentions in (("encoder", ["self_attn"]),
                             ("decoder", ["self_attn", "multihead_attn"])):
        layers: dict[int, set[str]] = {}
        for name in have:
            match = re.fullmatch(rf"{side}\.layers\.(\d+)\.(.+)", name)
            if match:
                layers.setdefault(int(match[1]), set()).add(match[2])
        needs = {"linear1.weight", "linear2.weight"}.union(*layers.values())
        for attention in attentions:
            separate = any(re.match(rf"{attention}\.[qkv]_proj", part) for part in needs)
            needs |= {f"{attention}.{letter}_proj.weight" for letter in "qkv"} if separate else {
                f"{attention}.in_proj_weight"}
            needs.add(f"{attention}.out_proj.weight")
        for i in range(max(layers, default=0) + 1):
            lines += [f"{side}.layers.{i}.{part}" for part in sorted(needs - layers.get(i, set()))]
    around = ["src_embedding.weight", "tgt_embedding.weight", "generator.weight"]
    lines += [name for name in around if name not in have and not core]
    if config.get("positions") == "learned" and "src_positions.weight" not in have:
        lines.append("src_positions.weight, for positions=learned")
    return lines


def measure(model: Model, heads: int) -> Config:
    """Every size of the config from the shapes; disagreements become problems."""
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}
    if any(name.endswith(".in_proj_weight") for name in model.tensors):
        for symbol in ("D", "HK", "HV"):  # a packed projection is square for each of q, k, v
            sizes[symbol], source[symbol] = model.width(), "encoder.layers.0.linear1.weight"
    for name in sorted(model.tensors, key=lambda name: (not name.startswith("encoder."), name)):
        shape = list(model.tensors[name].shape)
        symbols = (shape_of(name) or "").split()
        if len(shape) != len(symbols):
            model.problems.append(f"{name} ({model.origin[name]}) is {shape}, not "
                                  f"[{', '.join(symbols)}]")
            continue
        for symbol, length in zip(symbols, shape):
            factor, symbol = (3, "D") if symbol == "3D" else (1, symbol)
            if symbol == "*":
                continue
            expected = factor * sizes.setdefault(symbol, length // factor)
            source.setdefault(symbol, name)
            if expected != length:
                model.problems.append(f"{name} ({model.origin[name]}) is {shape}, not "
                                      f"[{', '.join(symbols)}]: {source[symbol]} makes {symbol} "
                                      f"{sizes[symbol]}")
                break
    if not model.problems and (sizes["HK"] % heads or sizes["HV"] % heads):
        model.problems.append(f"n_heads {heads} does not divide the width of all heads, "
                              f"{sizes['HK']} (values: {sizes['HV']})")
    layers = {tuple(name.split(".")[:3]) for name in model.tensors if ".layers." in name}
    counts = [sum(layer[0] == side for layer in layers) for side in ("encoder", "decoder")]
    measured = {"d_model": sizes.get("D"), "d_ff": sizes.get("F"),
                "d_key": sizes.get("HK", 0) // heads, "d_value": sizes.get("HV", 0) // heads,
                "n_encoder_layers": counts[0], "n_decoder_layers": counts[1],
                "src_vocab_size": sizes.get("Vs"), "tgt_vocab_size": sizes.get("Vt")}
    return {key: value for key, value in measured.items() if value}


def check_config(config: Config, sizes: Config, model: Model) -> None:
    """Sizes that were stated agree with the shapes; ids lie inside their vocabularies."""
    for key, value in sizes.items():
        if config.get(key, value) != value:
            model.problems.append(f"{key} is stated as {config[key]}; the shapes say {value}")
    for keys, vocabulary in ((SOURCE_IDS, "src_vocab_size"), (TARGET_IDS, "tgt_vocab_size")):
        for key in keys:
            ids = config.get(key, [])
            for one in ids if isinstance(ids, list) else [ids]:
                if one >= sizes.get(vocabulary, math.inf):
                    model.problems.append(f"{key} {one} is outside the vocabulary: "
                                          f"{vocabulary} is {sizes[vocabulary]}")


def build_config(model: Model, stated: Config, core: bool) -> tuple[Config, Config]:
    """The config, and the part of it that is an assumption."""
    assumptions = ASSUMED_IN_STACK if core else {**ASSUMED_IN_STACK, **ASSUMED_AROUND_STACK}
    for name in [name for name in model.tensors if name.endswith("_positions.weight")]:
        model.facts["positions"] = "learned"
        if stated.get("positions", "learned") != "learned":
            model.problems.append(f"positions={stated['positions']} does not give the table "
                                  f"{model.origin[name]}: --drop it, or --set positions=learned")
    facts = {key: value for key, value in model.facts.items()
             if not (core and key in FORMULA_KEYS + ("embedding_scale",))}
    merged = {**assumptions, **facts, **stated}
    assumed = {key: value for key, value in assumptions.items()
               if key not in facts and key not in stated}
    return {key: merged[key] for key in CONFIG_KEYS if key in merged}, assumed


def to_type(tensor: torch.Tensor, name: str, wanted: torch.dtype | None) -> torch.Tensor:
    kept = tensor.dtype if tensor.dtype in TYPE_NAMES else torch.float32
    result = tensor.to(wanted or kept).contiguous()
    if not torch.equal(torch.isfinite(tensor), torch.isfinite(result)):
        raise ConvertError(f"{name}: values too large for {TYPE_NAMES[result.dtype]}")
    return result


# --------------------------------------------------------------------------------- the vocabulary
def read_vocabulary(path: Path, sizes: Config, keys: list[str]) -> torch.Tensor:
    """The file's text as a tensor of bytes, checked against the vocabularies that it serves."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConvertError(f"{path}: not UTF-8: {error}") from None
    lines = text.removesuffix("\n").split("\n")
    for key in keys:
        if sizes.get(key) != len(lines):
            raise ConvertError(f"{path}: {len(lines)} lines, but {key} is {sizes.get(key)}")
    seen: dict[str, int] = {}
    for at, line in enumerate(lines, 1):
        for spelling in line.split("\t"):
            if not spelling:
                raise ConvertError(f"{path}, line {at}: an empty token")
            if seen.setdefault(spelling, at) != at:
                raise ConvertError(f"{path}, line {at}: {spelling} stands on line "
                                   f"{seen[spelling]} as well")
    return torch.frombuffer(bytearray("\n".join(lines) + "\n", "utf-8"), dtype=torch.uint8)


# ---------------------------------------------------------------------------------------- writing
TYPE_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
              torch.uint8: "U8"}
TYPE_OPTIONS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def write_model(path: Path, tensors: Tensors, config: Config) -> int:
    """Writes a safetensors file, whole or not at all; returns its size in bytes.

    Wide types come first and tensors of odd length last among their type, so that every tensor is
    aligned without holes; the header is padded so that the data starts at a multiple of 64.
    """
    def place(name: str) -> tuple[int, bool, str]:
        tensor = tensors[name]
        return -tensor.element_size(), tensor.nbytes % 4 != 0, name

    text = json.dumps(config, ensure_ascii=False)
    header: dict[str, Any] = {"__metadata__": {"transformer.config": text}}
    order, end = sorted(tensors, key=place), 0
    for name in order:
        tensor, begin = tensors[name], end
        end += tensor.nbytes
        header[name] = {"dtype": TYPE_NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-(8 + len(head)) % 64)
    part = path.with_name(path.name + ".part")
    try:
        try:
            with open(part, "wb") as file:
                file.write(struct.pack("<Q", len(head)) + head)
                for name in order:
                    file.write(tensors[name].view(torch.uint8).numpy().data)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from None
    return 8 + len(head) + end


# ---------------------------------------------------------------------------------- the whole way
def explain_failure(model: Model, missing: list[str], unplaced: Tensors) -> str:
    lines: list[str] = []
    if unplaced:
        lines.append(f"tensors that have no place in a model file ({len(unplaced)}):")
        lines += [f"  {name} {describe(tensor)}: --map {name}=NEW or --drop {name}"
                  for name, tensor in unplaced.items()]
    if missing:
        lines.append(f"tensors that a model file needs and this one lacks ({len(missing)}):")
        lines += [f"  {name}" for name in missing]
        if "generator.weight" in missing and "tgt_embedding.weight" in model.origin:
            old = model.origin["tgt_embedding.weight"]
            lines.append(f"is the generator tied? --map {old}=generator.weight "
                         + " ".join(f"--map {old}={new}" for new, origin in model.origin.items()
                                    if origin == old))
        elif "tgt_embedding.weight" in missing and "src_embedding.weight" in model.origin:
            old = model.origin["src_embedding.weight"]
            lines.append(f"is the embedding shared? --map {old}=src_embedding.weight "
                         f"--map {old}=tgt_embedding.weight")
        elif missing == ["src_embedding.weight", "tgt_embedding.weight", "generator.weight"]:
            lines.append("to write the encoder and the decoder alone: --core")
    return "\n".join(model.problems + lines)


def convert(options: argparse.Namespace) -> None:
    tensors, stated = read_checkpoint(options.input)
    settings = options.set + ([f"n_heads={options.heads}"] if options.heads is not None else [])
    stated.update(parse_settings(settings))

    model = Model()
    chosen = select(tensors, options.prefix, options.drop, model)
    rest = name_layers(apply_maps(chosen, options.map, model), model)
    unplaced = name_surroundings(rest, stated, model)
    complete(model)
    core = options.core and "src_embedding.weight" not in model.tensors
    config, assumed = build_config(model, stated, core)
    if "n_heads" not in config:
        model.problems.append("the number of heads cannot be read from the shapes: say --heads N")
    missing = missing_tensors(model, config, core)
    if missing or unplaced or model.problems:
        raise ConvertError(explain_failure(model, missing, unplaced))

    sizes = measure(model, config["n_heads"])
    check_config(config, sizes, model)
    if model.problems:
        raise ConvertError("\n".join(model.problems))

    omit_tied(model)
    wanted = TYPE_OPTIONS.get(options.dtype)
    model.tensors = {name: to_type(t, name, wanted) for name, t in model.tensors.items()}
    add_vocabularies(model, sizes, options)
    size = write_model(options.output, model.tensors, config)
    report(options, model, config, sizes, size)
    warn(model, assumed, core)


def add_vocabularies(model: Model, sizes: Config, options: argparse.Namespace) -> None:
    files = {"src": options.src_vocab, "tgt": options.tgt_vocab}
    if files["tgt"] and not files["src"]:
        raise ConvertError("--tgt-vocab without --src-vocab: give one, which serves both, or two")
    for side, path in files.items():
        if path:
            keys = [f"{one}_vocab_size" for one, file in files.items() if file in (path, None)]
            text = read_vocabulary(path, sizes, keys)
            if side == "src" or not same(text, model.tensors["src_vocabulary"]):
                model.put(f"{side}_vocabulary", str(path), text)


def report(options: argparse.Namespace, model: Model, config: Config, sizes: Config,
           size: int) -> None:
    rows = [(model.origin[new], new, str(list(tensor.shape)), TYPE_NAMES[tensor.dtype])
            for new, tensor in model.tensors.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for old, new, shape, kind in rows:
        print(f"{old:<{widths[0]}} -> {new:<{widths[1]}}  {shape:<{widths[2]}}  {kind}")
    print()
    for note in model.notes:
        print(note)
    print("sizes: " + ", ".join(f"{key} {value}" for key, value in sizes.items()))
    print("config: " + json.dumps(config, ensure_ascii=False))
    print(f"{options.output}: {len(model.tensors)} tensors, {size} bytes")


def warn(model: Model, assumed: Config, core: bool) -> None:
    lines = []
    if "norm" in assumed and "encoder.norm.weight" in model.tensors:
        lines.append("the final norms fit norm=post and norm=pre alike, and the weights do not "
                     "tell which; post is written, as nn.Transformer does by default; if the model "
                     "was built with norm_first=True, --set norm=pre")
    if assumed:
        lines.append("assumed, since weights do not tell: "
                     + " ".join(f"{key}={value}" for key, value in assumed.items())
                     + " (change with --set)")
    if core:
        lines.append("a core: encoder and decoder alone; as a model it does not load, since "
                     "src_embedding.weight is missing")
    for line in lines:
        print(f"convert.py: warning: {line}", file=sys.stderr)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", metavar="IN", type=Path)
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("--heads", metavar="N")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--src-vocab", metavar="FILE", type=Path)
    parser.add_argument("--tgt-vocab", metavar="FILE", type=Path)
    parser.add_argument("--map", metavar="OLD=NEW", action="append", default=[])
    parser.add_argument("--drop", metavar="PATTERN", action="append", default=[])
    parser.add_argument("--prefix", metavar="P", default="")
    parser.add_argument("--dtype", choices=tuple(TYPE_OPTIONS))
    parser.add_argument("--core", action="store_true")
    return parser.parse_args()


def main() -> int:
    try:
        convert(parse_arguments())
    except ConvertError as error:
        print(f"convert.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
