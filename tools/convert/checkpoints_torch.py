"""checkpoints_torch.py: what torch.save wrote, and safetensors files, with the names of
nn.Transformer and its relatives. pickles.py reads the first of them, without PyTorch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoints_opennmt
from . import pickles
from . import refusals
from .modelfile import (ASSUMED_AROUND_STACK, ASSUMED_IN_STACK, CONFIG_KEYS, FORMULA_KEYS, Checkpoint,
                       Config, ConvertError, Model, Tensors, describe, find_formula, name_positions, same,
                       settle_tables, shape_of, strip_wrappers)
from .untrusted import brief, parse_json, read_safetensors


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


def read_checkpoint(path: Path) -> Checkpoint:
    """The tensors of the file by name, and what its metadata states as config entries."""
    if path.suffix == ".safetensors":
        tensors, config, is_case = read_weights(path)
    else:
        is_case = False
        found = pickles.load(path)
        if isinstance(found, dict) and "model" in found and {"args", "cfg"} & set(found) and (
                {"extra_state", "task_state", "optimizer_history"} & set(found)):
            raise ConvertError(f"{path}: {refusals.FAIRSEQ}")
        if checkpoints_opennmt.is_opennmt(found):
            return checkpoints_opennmt.checkpoint_of(found, path)
        tensors, config = state_of(found, path), {}
    if not tensors:
        raise ConvertError(f"{path} holds no weights")

    refusals.check_names(tensors, path)
    refuse_hugging_face(tensors, path)

    def place(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        mapped = set(model.tensors)
        rest = name_surroundings(name_layers(chosen, model), mapped, stated, model)
        settle_tables(stated, model)
        complete(model)
        return rest

    tensors, notes = strip_wrappers(tensors)
    return Checkpoint(tensors, place, config, own=not is_case, notes=notes)


# Families of Hugging Face by names that only they have, the first that fits.
RELATIVES = (
    (r"\.SelfAttention\.(q|k|v|o)\.", "T5, mT5 or another one with relative positions"),
    (r"(^|\.)encoder\.conv[12]?\.", "Whisper or another one whose encoder is not text"),
    (r"longformer_self_attn\.", "LED"),
    (r"decoder\.output_projection\.", "FSMT (wmt19)"),
    (r"layernorm_embedding\.", "BART, mBART, PLBart, MVP or Blenderbot-small"),
    (r"encoder\.layer_norm\.", "Blenderbot, PEGASUS, M2M100 or NLLB"),
    (r"\.encoder_attn_layer_norm\.", "Marian"),
)


def refuse_hugging_face(tensors: Tensors, path: Path) -> None:
    """A file of weights alone, of a family whose config tells what these do not."""
    mark = re.compile(r"\.encoder_attn_layer_norm\.|\.SelfAttention\.q\.")
    if any(map(mark.search, tensors)):
        family = next(family for mark, family in RELATIVES
                      if any(re.search(mark, name) for name in tensors))
        there = (path.parent / "config.json").is_file()
        raise ConvertError(f"{path}: names as Hugging Face's {family} has them: IN is the "
                           + "directory " + (f"{path.parent}" if there else "with its config.json and tokenizer")
                           + ", not the file of weights")


def read_weights(path: Path) -> tuple[Tensors, Config, bool]:
    """The tensors, what the metadata states, and whether the file is one of test cases."""
    tensors, metadata = read_safetensors(path)
    if "transformer.config" in metadata:
        raise ConvertError(f"{path} is a model file already")
    if "case" not in metadata:
        return tensors, {}, False
    weights = {name.removeprefix("weights."): tensor for name, tensor in tensors.items()
               if name.startswith("weights.")}
    what = f"{path}: the metadata's case"
    case = parse_json(metadata["case"].encode(), what)
    if not isinstance(case, dict):
        raise ConvertError(f"{what}: not an object")
    try:
        return weights, case_config(case), True
    except ValueError as error:
        raise ConvertError(f"{what}: {error}") from None


def case_config(case: dict[str, Any]) -> Config:
    config: Config = {}
    for key, value in case.items():
        if key == "norm_first":
            config["norm"] = "pre" if value else "post"
        for known in CASE_KEYS.get(key, (key,)):
            if known in CONFIG_KEYS:
                try:
                    config[known] = CONFIG_KEYS[known](value if isinstance(value, str)
                                                       else brief(value))
                except ValueError as error:
                    raise ValueError(f"{key} is {brief(value)}; it takes {error}") from None
    return config


def read_pickle(path: Path) -> Tensors:
    return state_of(pickles.load(path), path)


def state_of(found: Any, path: Path) -> Tensors:
    wrapper: Any = found
    for _ in range(4):  # a dictionary may hold itself
        if not isinstance(wrapper, dict):
            break
        found = wrapper
        wrapper = next((found[key] for key in ("state_dict", "model_state_dict", "model")
                        if isinstance(found.get(key), dict)), None)
    if not isinstance(found, dict):
        raise ConvertError(f"{path} holds a {type(found).__name__}, not a state dict")
    inside = state_dicts(found)
    if len(inside) > 1:  # --prefix chooses one
        return {f"{prefix}{name}": tensor for prefix, state in inside.items()
                for name, tensor in pickles.tensors_of(state, path).items()}
    tensors = pickles.tensors_of(next(iter(inside.values()), found), path)
    if not tensors:
        raise ConvertError(f"{path}: no tensors among its keys: "
                           + ", ".join(brief(key).strip("'") for key in list(found)[:20]))
    return tensors


def state_dicts(found: dict[Any, Any], prefix: str = "", depth: int = 3) -> dict[str, dict[Any, Any]]:
    """Returns the dictionaries that have tensors, by the keys that lead to them. An optimizer's state has
    numbers among these keys and does not count."""
    if any(isinstance(value, np.ndarray) for value in found.values()):
        return {prefix: found}
    return {path: state for key, value in found.items()
            if depth and isinstance(key, str) and isinstance(value, dict)
            for path, state in state_dicts(value, f"{prefix}{key}.", depth - 1).items()}


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
        "the tutorial with these names runs its decoder without a causal mask: 'forward --not-causal' "
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
        "Ben Trevett's tutorial",
        r"\.layers\.\d+\.positionwise_feedforward\.fc_1\.",
        ((r"\.self_attention\.", ".self_attn."),
         (r"\.encoder_attention\.", ".multihead_attn."),
         (r"_attn\.fc_([qkv])\.", r"_attn.\1_proj."),
         (r"_attn\.fc_o\.", "_attn.out_proj."),
         (r"\.positionwise_feedforward\.fc_([12])\.", r".linear\1."),
         (r"\.self_attn_layer_norm\.", ".norm1."),
         (r"\.enc_attn_layer_norm\.", ".norm2."),
         (r"(encoder\.layers\.\d+)\.ff_layer_norm\.", r"\1.norm2."),
         (r"(decoder\.layers\.\d+)\.ff_layer_norm\.", r"\1.norm3.")),
        {**ASSUMED_IN_STACK, "embedding_scale": "sqrt_d"},
    ),
    Layout(
        "nn.Transformer",
        r"_attn\.(in_proj_weight|[qkv]_proj)",
        ((r"\.([qkv]_proj)_weight$", r".\1.weight"),),
        {"layer_norm": "layer_norm"},
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


def is_output(name: str) -> bool:
    """Returns whether a name says that the tensor makes the logits."""
    return bool(words(name.rpartition(".")[0]) & OUTPUT)


def recognise(name: str, tensor: np.ndarray, width: int) -> list[str]:
    """The model file's names for a tensor outside the layers; none where name or shape say no."""
    module, _, leaf = name.rpartition(".")
    said, rank = words(module), tensor.ndim
    matrix = leaf == "weight" and rank == 2 and tensor.shape[1] == width
    if said & EMBEDDING and said & NORM and leaf in ("weight", "bias") and rank == 1:
        return [f"{side}_embedding_norm.{leaf}" for side in sides(module)]
    if said & EMBEDDING and matrix:
        return [f"{side}_embedding.weight" for side in sides(module)]
    if is_output(name) and (matrix or (leaf == "bias" and rank == 1)):
        return [f"generator.{leaf}"]
    return []


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


def is_table(name: str, tensor: np.ndarray, width: int, stated: Config) -> bool:
    """Returns whether a tensor is a table of positions: by its name, or because a formula gives its numbers."""
    if tensor.ndim not in (2, 3) or tensor.shape[-1] != width or not (
            0 < tensor.size == max(tensor.shape[:-1]) * width):
        return False
    table = tensor.reshape(-1, width)
    others = {key: value for key, value in stated.items() if key not in FORMULA_KEYS}
    return bool(words(name) & POSITION) or (len(table) > 2 and width > 3 and find_formula(table, others) is not None)


def name_surroundings(rest: Tensors, mapped: set[str], stated: Config, model: Model) -> Tensors:
    """Puts embeddings, positions and generator into the model; returns what has no place. mapped: the names that
    --map has filled, which no other tensor claims."""
    width = model.width()
    if not width:
        return rest
    outside = {name: tensor for name, tensor in rest.items()
               if not re.search(r"layers\.\d", name)}
    tables = {name: tensor.reshape(-1, width) for name, tensor in outside.items()
              if stated.get("positions") != "none" and is_table(name, tensor, width, stated)}
    name_positions(tables, sides, stated, model)
    placed = set(tables)
    claims = {name: recognise(name, tensor, width) for name, tensor in outside.items()
              if not words(name) & POSITION and name not in tables}
    for generator in (False, True):  # the generator last: its rows are the target embedding's
        embedding = model.tensors.get("tgt_embedding.weight")
        if generator and embedding is None:
            break  # "words_out" may be the target's embedding
        for name, news in claims.items():
            for new in news:
                if new.startswith("generator.") != generator:
                    continue
                rows = rest[name].shape[:1]
                if new in mapped and not same(model.tensors[new], rest[name]):
                    continue
                if generator and embedding is not None and rows != embedding.shape[:1]:
                    continue
                model.put(new, name, rest[name])
                placed.add(name)
    return {name: tensor for name, tensor in rest.items() if name not in placed}


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
            for part, piece in zip(parts, np.split(bias, np.cumsum(rows)[:-1])):
                model.put(f"{part}.bias", old, piece)
    for name in [name for name in model.tensors if re.search(r"norm\d?\.weight$", name)]:
        bias = name.removesuffix("weight") + "bias"
        if bias not in model.tensors:
            model.put(bias, "(zeros)", np.zeros_like(model.tensors[name]))


