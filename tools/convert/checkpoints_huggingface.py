"""checkpoints_huggingface.py: model directories of Hugging Face transformers.

config.json names the family, model.safetensors or pytorch_model.bin (in one piece or in shards that
an index lists) holds the weights, generation_config.json may say more on decoding. The families
differ in what no tensor shows:

    marian    norms after the layers; sines before cosines, from position 0; starts with the pad,
              which is never emitted (bad_words_ids)
    bart      norms after the layers (before, where the encoder has a final norm) and after the
              embeddings; learned positions from row 2 on
    mbart     norms before the layers, at the end, and after the embeddings; learned from row 2 on
    m2m_100   (M2M100, NLLB) norms before and at the end; sines before cosines, divisor d/2 - 1,
              from position pad + 1, nothing added to pads
    pegasus   norms before and at the end; sines before cosines, from position 0
    fsmt      (wmt19) as marian, but positions as m2m_100's; a vocabulary of each side
    mvp, plbart, led   as bart; positions of LED from row 0 on, and a windowed encoder, which is
              bart's for sources that fit into half a window
    blenderbot         norms before and at the end; learned positions from row 0 on
    blenderbot-small   as bart, learned from row 0 on; its decoder's norm is of the embedding alone,
              before positions are added, and goes into the target's table
    t5, mt5, umt5      (v1.1, FLAN-T5, ByT5, MADLAD-400) in checkpoints_t5.py
    t5gemma, t5gemma2  in checkpoints_gemma.py
    moonshine, moonshine_streaming   in checkpoints_moonshine.py
    seamless_m4t, seamless_m4t_v2   their text model, as m2m_100 (checkpoints_speech.py)
    whisper   norms before and at the end; learned positions from row 0 on, of each side its own.
              Its sources are embeddings, which the convolutions give (whisper.py)
    speech_to_text     as m2m_100; its sources are embeddings, which its convolutions give; they are
              left out
    vision-encoder-decoder   its decoder, mbart's (Donut, Nougat) or trocr's (as bart, or with
              positions as m2m_100's), whose sources are memories: what the encoder gives, which is
              left out
    canary, cohere_asr their decoders, whose sources are memories (checkpoints_speech.py)
    florence2          its language model, a bart; what comes before it is left out, and gives the
              first embeddings of a source
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import checking_texts
from . import checkpoints_conformer
from . import checkpoints_gemma
from . import checkpoints_moonshine
from . import checkpoints_speech
from . import checkpoints_t5
from . import config_fields
from . import decoding
from . import refusals
from . import tokenizer_files
from . import whisper
from .checkpoints_torch import read_pickle
from .modelfile import (Checkpoint, Comparison, Config, ConvertError, Forward, Model, NoComparison, Part,
                       SEAMLESS, SENTENCES, Tensors, describe, is_floating, name_positions, position_table, same, shape_of,
                       strip_wrappers, to_f32)
from .untrusted import absent_files, brief, check_kinds, file_in, has_file, read_object, read_safetensors, visible

SINES = {"positions": "sinusoidal_halves", "position_precision": "double"}
SINES_BEHIND_PAD = {"positions": "sinusoidal_halves", "position_divisor": "d/2-1",
                    "pad_position": "zero"}  # from position pad + 1 on
LEARNED = {"positions": "learned", "position_offset": 2}
LEARNED_FROM_0 = {"positions": "learned", "position_offset": 0}


@dataclass(frozen=True)
class Family:
    norm: str
    positions: Config
    final_norms: bool = False
    embedding_norms: tuple[str, ...] = ()


BOTH = ("src", "tgt")
FAMILIES = {
    "marian": Family("post", SINES),
    "bart": Family("post", LEARNED, embedding_norms=BOTH),
    "mbart": Family("pre", LEARNED, final_norms=True, embedding_norms=BOTH),
    "m2m_100": Family("pre", SINES_BEHIND_PAD, final_norms=True),
    **dict.fromkeys(SEAMLESS, Family("pre", SINES_BEHIND_PAD, final_norms=True)),
    "pegasus": Family("pre", SINES, final_norms=True),
    "fsmt": Family("post", SINES_BEHIND_PAD),
    "mvp": Family("post", LEARNED, embedding_norms=BOTH),
    "plbart": Family("post", LEARNED, embedding_norms=BOTH),
    "led": Family("post", LEARNED_FROM_0, embedding_norms=BOTH),
    "blenderbot": Family("pre", LEARNED_FROM_0, final_norms=True),
    "blenderbot-small": Family("post", LEARNED_FROM_0, embedding_norms=BOTH),
    **dict.fromkeys(checkpoints_t5.FAMILIES + checkpoints_gemma.FAMILIES + checkpoints_moonshine.FAMILIES,
                    Family("pre", {})),
    "whisper": Family("pre", LEARNED_FROM_0, final_norms=True),
    "trocr": Family("post", LEARNED, embedding_norms=("tgt",)),
    "speech_to_text": Family("pre", SINES_BEHIND_PAD, final_norms=True),
    **dict.fromkeys(checkpoints_speech.HEARING, Family("pre", LEARNED_FROM_0, final_norms=True, embedding_norms=("tgt",))),
}
CONVOLVED = ("whisper", "speech_to_text", *checkpoints_moonshine.FAMILIES)
CONVOLUTIONS = r"encoder\.conv[12]\.(weight|bias)"
# Models of which a part is run: the key of that part's config, and what it may be.
PARTS = {"vision-encoder-decoder": ("decoder", ("trocr", "mbart")),
         "florence2": ("text_config", ("bart", "florence2_language")),
         "canary": ("decoder_config", ("canary_decoder",))}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh",
               "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "swish",
               "silu": "swish", "quick_gelu": "gelu_sigmoid"}
SPELLING = (
    (r"^(model|led)\.", ""),
    (r"\.longformer_self_attn\.(query|key|value)\.", lambda found: f".{found[1][0]}_proj."),
    (r"^(encoder\..*self_attn)\.output\.", r"\1.out_proj."),
    (r"_attn\.(out|[qkv])_proj\.", r"_attn.\1_proj."),
    (r"\.encoder_attn\.", ".multihead_attn."),
    (r"\.self_attn_layer_norm\.", ".norm1."),
    (r"\.encoder_attn_layer_norm\.", ".norm2."),
    (r"^(encoder\.layers\.\d+)\.final_layer_norm\.", r"\1.norm2."),
    (r"^(decoder\.layers\.\d+)\.final_layer_norm\.", r"\1.norm3."),
    (r"\.fc([12])\.", r".linear\1."),
    (r"^(encoder|decoder)\.layer_norm\.", r"\1.norm."),
    (r"^encoder\.layernorm_embedding\.", "src_embedding_norm."),
    (r"^decoder\.layernorm_embedding\.", "tgt_embedding_norm."),
    (r"^encoder\.embed_tokens\.", "src_embedding."),
    (r"^decoder\.embed_tokens\.", "tgt_embedding."),
    (r"^(lm_head|proj_out|output_projection|decoder\.output_projection)\.", "generator."),
    (r"^final_logits_bias$", "generator.bias"),
)
# What the keys that are read here hold, in config.json and in generation_config.json.
KINDS = {
    **dict.fromkeys(("model_type", "activation_function", "tokenizer_class", "grapheme_chars",
                     "phoneme_chars"), "text"),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "encoder_layers",
                     "decoder_layers", "d_model", "encoder_no_repeat_ngram_size"), "integer"),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
                     "forced_bos_token_id"), "integer|list of integers"),
    **dict.fromkeys(("scale_embedding", "tie_word_embeddings", "layernorm_embedding",
                     "share_encoder_decoder_embeddings", "force_bos_token_to_be_generated",
                     "use_learned_position_embeddings"), "truth value"),
    **checkpoints_t5.KINDS, **checkpoints_speech.KINDS,
    "attention_window": "integer|list of integers",
    "suppress_tokens": "list of integers", "bad_words_ids": "list of lists of integers",
}

WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                "pytorch_model.bin.index.json")


def has_weights(path: Path) -> bool:
    return any(has_file(path, one) for one in WEIGHT_FILES)


def is_huggingface(path: Path) -> bool:
    return has_file(path, "config.json") and has_weights(path)


# ------------------------------------------------------------------------------------ the weights
def read_weights(folder: Path) -> Tensors:
    path = next(folder / one for one in WEIGHT_FILES if has_file(folder, one))
    if not path.name.endswith(".index.json"):
        return read_tensors(path)
    shards = read_object(path).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(one, str) for one in shards.values()):
        raise ConvertError(f"{path}: it has no weight_map with the file of each tensor")
    tensors: Tensors = {}
    names = sorted(set(shards.values()))
    absent = absent_files(folder, names)
    if absent:
        raise ConvertError(f"{folder / absent[0]}: missing, and {path.name} lists it: {len(absent)} of "
                           f"{len(names)} shards are not there; get the rest of the folder")
    for name in names:
        for tensor, array in read_tensors(file_in(folder, name)).items():
            if tensor in tensors:
                raise ConvertError(f"{folder / name}: {tensor} is a duplicate of another shard's")
            tensors[tensor] = array
    missing = sorted(set(shards) - set(tensors))
    if missing:
        raise ConvertError(f"{path} lists {missing[0]}, which {shards[missing[0]]} does not hold")
    return tensors


def read_tensors(path: Path) -> Tensors:
    tensors = read_safetensors(path)[0] if path.suffix == ".safetensors" else read_pickle(path)
    refusals.check_names(tensors, path)
    return tensors


def spell(name: str) -> str:
    for pattern, replacement in SPELLING:
        name = re.sub(pattern, replacement, name)
    return name


def takes_memory(hf: dict[str, Any]) -> bool:
    """Whether there is no encoder: of a decoder that had one of another kind before it."""
    return hf.get("part_of") == "vision-encoder-decoder" or hf["model_type"] in checkpoints_speech.HEARING


def leave_language_model(tensors: Tensors, model: Model) -> Tensors:
    """Florence-2's, without what makes embeddings of an image; in Microsoft's files too."""
    kept = {re.sub(r"^((model\.)?language_model\.)?(model\.)?", "", name): tensor
            for name, tensor in tensors.items()
            if re.match(r"((model\.)?language_model|lm_head)\.", name)}
    model.notes.append(f"{len(tensors) - len(kept)} tensors before the language model: left out; a "
                       f"source is embeddings, of the image and then of the prompt's tokens")
    return kept


def leave_decoder(tensors: Tensors, model: Model) -> Tensors:
    """The decoder of a VisionEncoderDecoder under names of its own."""
    kept = {name[len("decoder."):]: tensor for name, tensor in tensors.items()
            if name.startswith("decoder.")}
    kept.update({name: tensor for name, tensor in tensors.items()
                 if not name.startswith(("encoder.", "decoder.", "enc_to_dec_proj."))})
    left = sum(name.startswith("encoder.") for name in tensors)
    model.notes.append(f"{left} tensors of the encoder: left out; its output is the memory")
    kept.update({name: tensor for name, tensor in tensors.items() if name.startswith("enc_to_dec_proj.")})
    return kept


def fold_projection(kept: Tensors, model: Model) -> Tensors:
    """What leads from the encoder's width to the decoder's goes into the keys and values:
    K (P m + p) + k = (K P) m + (K p + k)."""
    if "enc_to_dec_proj.weight" not in kept:
        return kept
    P = to_f32(kept.pop("enc_to_dec_proj.weight")).astype(np.float64)
    p = to_f32(kept.pop("enc_to_dec_proj.bias", np.zeros(len(P), np.float32)))
    for name in [name for name in kept if re.search(r"\.encoder_attn\.[kv]_proj\.weight$", name)]:
        K, bias = to_f32(kept[name]).astype(np.float64), name[:-len("weight")] + "bias"
        if K.ndim != 2 or P.ndim != 2 or p.shape != P.shape[:1] or K.shape[1:] != P.shape[:1]:
            raise ConvertError(f"decoder.{name} is {describe(kept[name])}: it does not take what "
                               f"enc_to_dec_proj {list(P.shape)} gives")
        kept[bias] = (K @ p + to_f32(kept.get(bias, np.zeros(len(K), np.float32)))).astype(np.float32)
        kept[name] = (K @ P).astype(np.float32)
    model.notes.append("enc_to_dec_proj: goes into the keys and values of the memory")
    return kept


def place(tensors: Tensors, hf: dict[str, Any], stated: Config, model: Model) -> Tensors:
    rest: Tensors = {}
    if hf["model_type"] in checkpoints_speech.HEARING:
        tensors = fold_projection(checkpoints_speech.leave_decoder(tensors, hf, ACTIVATIONS, model), model)
    elif takes_memory(hf):
        tensors = fold_projection(leave_decoder(tensors, model), model)
    elif "part_of" in hf:
        tensors = leave_language_model(tensors, model)
    elif hf["model_type"] in SEAMLESS:
        tensors = checkpoints_speech.leave_text_model(tensors, model)
    tables: Tensors = {}
    heads: Tensors = {}
    shared = None
    for name, tensor in tensors.items():
        new = spell(name)
        if new == "shared.weight":
            shared = name
        elif re.fullmatch(r"(encoder|decoder)\.embed_positions\.weights?", new):
            if tensor.ndim != 2 or not is_floating(tensor):
                raise ConvertError(f"{name} {describe(tensor)}: not a table of positions")
            tables[name] = tensor
        elif new == "generator.bias" and not tensor.any():
            model.notes.append(f"{name}: all zeros, left out")
        elif new == "generator.weight" and ignores_head(hf):
            heads[name] = tensor
        elif hf["model_type"] == "whisper" and re.fullmatch(CONVOLUTIONS, new):
            whisper.put_convolution(model, new[len("encoder."):], name, tensor)
        elif hf["model_type"] in CONVOLVED and new.startswith("encoder.conv"):
            scaled = ", times sqrt(d_model)," if hf.get("scale_embedding") else ""
            model.notes.append(f"{name} {describe(tensor)}: left out; what the convolutions give"
                               f"{scaled} are the embeddings of a source")
        elif shape_of(new):
            model.put(new, name, tensor.reshape(-1) if new == "generator.bias" else tensor)
        else:
            rest[name] = tensor
    names = [f"{side}_embedding.weight" for side in BOTH if shared]
    if shared and not hf.get("tie_word_embeddings") and all(name in model.tensors for name in names):
        model.notes.append(f"{shared}: left out, encoder and decoder have tables of their own")
        names = []
    for name in names:
        model.put(name, shared, tensors[shared])
    fill_tied(hf, model)
    for name, tensor in heads.items():
        if "generator.weight" not in model.tensors:
            model.put("generator.weight", name, tensor)
        elif not same(model.tensors["generator.weight"], tensor):
            model.notes.append(f"{name} {describe(tensor)}: left out, the output is tied (transformers "
                               f"{hf['version']}, which wrote config.json, ignores it too)")
    place_positions(tables, hf, stated, model)
    if hf["model_type"] == "led":
        fit_window(rest, hf, model)
    return rest


def ignores_head(hf: dict[str, Any]) -> bool:
    """Whether tied embeddings stand in the place of a head that is in the file and differs. FSMT's
    decoder has two names of one tensor."""
    return hf["version"] < 5 and bool(hf.get("tie_word_embeddings")) and hf["model_type"] != "fsmt"


def fill_tied(hf: dict[str, Any], model: Model) -> None:
    """One tensor may serve for those that are tied to it. transformers 4 ties both of FSMT's decoder
    whatever config.json says, and then writes one of them."""
    tied = bool(hf.get("tie_word_embeddings"))
    names = ["tgt_embedding.weight"]
    if tied or (hf["model_type"] == "fsmt" and hf["version"] < 5):
        names.append("generator.weight")
    if tied and not model.takes_vectors:
        names.append("src_embedding.weight")
    held = next((name for name in names if name in model.tensors), None)
    for name in names:
        if held and name not in model.tensors:
            model.put(name, model.origin[held], model.tensors[held])


def fit_window(rest: Tensors, hf: dict[str, Any], model: Model) -> None:
    """A token of LED's encoder sees half a window to each side: in sources of that length, and one
    more, all of them. The table of positions, so cut, makes longer ones an error."""
    windows = hf.get("attention_window") or 512
    reach = min(windows if isinstance(windows, list) else [windows]) // 2 + 1
    if reach < 2:
        raise ConvertError(f"config.json: attention_window is {brief(windows)}")
    table = model.tensors.get("src_positions.weight")
    if table is not None and len(table) > reach:
        model.tensors["src_positions.weight"] = table[:reach]
        model.notes.append(f"{model.origin['src_positions.weight']}: {reach} of {len(table)} "
                           f"positions, as many as attend to each other in the encoder's windows. "
                           f"transformer.h has no windows, so longer sources are refused")
    unused = [name for name in rest if re.search(r"longformer_self_attn\.\w+_global\.", name)]
    for name in unused:
        del rest[name]
    if unused:
        model.notes.append(f"{len(unused)} tensors of global attention: left out; what "
                           f"global_attention_mask asks for is not computed")


def fold_norm(model: Model, scaled: bool) -> None:
    """Blenderbot-small's decoder has norm(E[y]) + P[t]; a model file, norm(s E[y] + P[t]). So the
    target's table becomes norm(E) / s, without a norm, and the generator keeps its own."""
    names = ["tgt_embedding.weight", "tgt_embedding_norm.weight", "tgt_embedding_norm.bias"]
    if not all(name in model.tensors for name in names):
        model.problems.append(f"{' or '.join(names)} is missing, which every blenderbot-small has")
        return
    table, *norm = (model.tensors[name] for name in names)
    if table.ndim != 2 or not table.shape[1] or any(one.shape != table.shape[1:] for one in norm):
        shapes = "; ".join(f"{name} is {describe(model.tensors[name])}" for name in names)
        model.problems.append(f"{shapes}: the norm is not of the table's width")
        return
    for name in names[1:]:
        del model.tensors[name], model.origin[name]
    rows = to_f32(table).astype(np.float64)
    rows -= rows.mean(1, keepdims=True)
    rows /= np.sqrt((rows ** 2).mean(1, keepdims=True) + 1e-5)
    rows = (rows * to_f32(norm[0]) + to_f32(norm[1])) / (rows.shape[1] ** 0.5 if scaled else 1)
    model.tensors["tgt_embedding.weight"] = rows.astype(np.float32)
    model.notes.append("tgt_embedding.weight: with the norm of the decoder's embedding in it, "
                       "which positions are added to; three tables instead of one")


def positions_of(hf: dict[str, Any]) -> Config:
    if hf["model_type"] == "trocr" and hf.get("use_learned_position_embeddings") is False:
        return SINES_BEHIND_PAD
    return FAMILIES[hf["model_type"]].positions


def place_positions(tables: Tensors, hf: dict[str, Any], stated: Config, model: Model) -> None:
    kind = positions_of(hf)
    if kind is SINES_BEHIND_PAD:  # transformers ignores a table and computes it
        for name, table in tables.items():
            if hf["model_type"] == "fsmt" and table.dtype.itemsize == 2:  # but this one is read, rounded
                model.put(f"{'src' if 'encoder' in name else 'tgt'}_positions.weight", name, table)
                model.facts.pop("position_divisor", None)
            elif not is_formula(table, model.facts):
                model.problems.append(f"{name} {describe(table)}: not the sinusoids that "
                                      f"transformers computes in its place; --drop {name}")
            else:
                model.notes.append(f"{name}: the {kind['positions']} formula gives it")
        return
    sides = {name: ("src" if "encoder" in name else "tgt",) for name in tables}
    if kind["positions"] == "learned":
        for name, table in tables.items():
            model.put(f"{sides[name][0]}_positions.weight", name, table)
        return
    name_positions(tables, sides.__getitem__, stated, model)
    if "src_positions.weight" in model.tensors:  # tables that no formula gives
        del model.facts["position_precision"]


def is_formula(table: np.ndarray, config: Config) -> bool:
    pad = config["position_offset"] - 1
    expected = position_table(len(table), table.shape[1], {**config, "position_offset": 0})
    expected[pad:pad + 1] = 0
    return bool(np.abs(expected - to_f32(table)).max(initial=0) < 1e-3)


# ------------------------------------------------------------------------------------- the config
def read_configs(folder: Path, ignored: set[str] = frozenset()) -> tuple[dict[str, Any], list[str]]:
    """The fields of config.json that are used, with the defaults of the family's class, and notes.
    "part_of" is the model_type around a part, "version" the major version of transformers whose rules
    hold, "decoding" what the files say of decoding."""
    notes: list[str] = []
    path = file_in(folder, "config.json")
    found = check_kinds(read_object(path), KINDS, str(path))
    kind = found.get("model_type")
    if kind is None:
        raise ConvertError(f"{path}: no model_type")
    outer, files = None, [found]
    version = config_fields.version_of(found)
    if kind in PARTS:
        part, types = PARTS[kind]
        inner = found.get(part)
        if not isinstance(inner, dict):
            raise ConvertError(f"{path}: no {part}")
        inner = check_kinds(inner, KINDS, f"{path}, {part}")
        if inner.get("model_type") not in types:
            raise ConvertError(f"{path}: a {part} of model_type "
                               f"{visible(str(inner.get('model_type')))}; what transformer.h runs of "
                               f"a {kind} is {', '.join(types)}")
        config_fields.read(config_fields.PARTS[kind], found, kind, str(path), ignored, notes)
        outer, found, kind = found, inner, inner["model_type"].replace("florence2_language", "bart")
        files.append(found)
    elif kind in ("trocr", "canary_decoder"):
        raise ConvertError(f"{folder}: model_type {kind}: {refusals.REASONS[kind]}")
    if kind not in FAMILIES:
        reason = refusals.reason(kind)
        raise ConvertError(f"{folder}: model_type {visible(kind)}"
                           + (f": {reason}" if reason else "") + "; what transformer.h runs is "
                           + ", ".join(FAMILIES))
    fields = config_fields.FAMILIES[kind]
    if outer and outer["model_type"] == "vision-encoder-decoder":
        fields += config_fields.DECODER
    said = config_fields.read(fields, found, kind, str(path), ignored, notes)
    hf = {**config_fields.with_defaults(fields, found, said), "model_type": kind,
          "version": version[0] if version else 5, "has_version": version is not None}
    if outer:
        hf["part_of"] = outer["model_type"]
        if hf["part_of"] == "canary":
            hf["tie_word_embeddings"] = outer.get("tie_word_embeddings", True)
    hf["ignored"], hf["newest"] = ignored, version or config_fields.NEWEST
    for name in ("tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"):
        one = read_object(folder / name) if ignored and has_file(folder, name) else {}
        files += [one, one["model"] if isinstance(one.get("model"), dict) else {}]
    generation = folder / "generation_config.json"
    generation = check_kinds(read_object(generation), KINDS, str(generation)) if has_file(
        folder, generation.name) else None
    files += [generation] if generation else []
    if kind in checkpoints_speech.HEARING:
        files += checkpoints_conformer.files_of(folder, outer or found)
    hf["decoding"] = decoding.find(fields, found, outer, generation, hf["version"], ignored, notes)
    missing = [key for key in sorted(ignored) if not any(key in one for one in files)]
    if missing:
        raise ConvertError(f"--ignore-key {missing[0]}: neither config.json nor "
                           f"generation_config.json has that key, nor has a tokenizer's file")
    if kind in checkpoints_t5.FAMILIES:
        checkpoints_t5.check_sizes(hf, path)
    if kind in checkpoints_speech.HEARING:
        checkpoints_speech.check_sizes(hf, str(path))
        hf["encoder_config"] = checkpoints_conformer.read_encoder(kind, outer or found, str(path), ignored, notes)
        hf["sound"] = checkpoints_conformer.read_sound(folder, ignored, notes)
    if kind in checkpoints_gemma.FAMILIES:
        checkpoints_gemma.read_sides(hf, str(path), ignored, notes)
    if kind in checkpoints_moonshine.FAMILIES:
        checkpoints_moonshine.read_sides(hf, str(path), ignored, notes)
    return hf, notes


def one_id(hf: dict[str, Any], key: str, path: str = "config.json", option: str = "") -> int | None:
    """An id. Of a list of several, which transformers gives to one text each, none is the model's. option: the key
    of --set that states it."""
    value = hf.get(key)
    if isinstance(value, list):
        if len(value) != 1:
            raise ConvertError(f"{path}: {key} is {brief(value)}, and a model has one such token; " + (
                f"--set {option}=ID states it" if option else f"--ignore-key {key} leaves the key out"))
        value = value[0]
    return value if isinstance(value, int) and value >= 0 else None


def layer_facts(hf: dict[str, Any], tensors: Tensors) -> Config:
    if hf["model_type"] in checkpoints_t5.FAMILIES:
        return checkpoints_t5.facts(hf, ACTIVATIONS)
    if hf["model_type"] in checkpoints_gemma.FAMILIES:
        return checkpoints_gemma.facts(hf, ACTIVATIONS)
    if hf["model_type"] in checkpoints_moonshine.FAMILIES:
        return checkpoints_moonshine.facts(hf, ACTIVATIONS)
    if hf["model_type"] in checkpoints_speech.HEARING:
        return checkpoints_speech.facts(hf, ACTIVATIONS)
    family = FAMILIES[hf["model_type"]]
    heads = {hf.get(key) or 0
             for key in ("encoder_attention_heads", "decoder_attention_heads")[takes_memory(hf):]}
    if len(heads) > 1:
        raise ConvertError(f"config.json: {sorted(heads)} heads in encoder and decoder; "
                           f"transformer.h has one number for both")
    activation = hf.get("activation_function")
    if activation not in ACTIVATIONS:
        raise ConvertError(f"config.json: activation_function {visible(str(activation))}; "
                           f"transformer.h has "
                           + ", ".join(sorted(set(ACTIVATIONS.values()))))
    norm = family.norm
    if hf["model_type"] == "bart" and any("encoder.layer_norm." in name for name in tensors):
        norm = "pre"
    facts = {"n_heads": heads.pop(), "norm": norm, "layer_norm": "layer_norm",
             "activation": ACTIVATIONS[activation], **positions_of(hf),
             "embedding_scale": "sqrt_d" if hf.get("scale_embedding") else 1}
    if positions_of(hf) is SINES_BEHIND_PAD:
        pad = one_id(hf, "pad_token_id")
        if pad is None:
            raise ConvertError(f"config.json: pad_token_id is null, but the positions of "
                               f"{hf['model_type']} begin after the pad id")
        facts["position_offset"] = pad + 1
        if hf["model_type"] == "speech_to_text" and pad == 0:
            raise ConvertError("config.json: pad_token_id is 0, which transformers then takes its "
                               "frames of sound for: none has a position")
        if (hf.get("d_model") or 0) % 2:
            raise ConvertError(f"config.json: d_model {hf['d_model']} is odd; "
                               f"{hf['model_type']} then has a column without positions, which "
                               f"transformer.h has not")
    for side in ("encoder", "decoder")[takes_memory(hf):]:
        if isinstance(hf.get(f"{side}_layers"), int):
            facts[f"n_{side}_layers"] = hf[f"{side}_layers"]
    return facts


def decoding_facts(hf: dict[str, Any], stated: Config, model: Model) -> Config:
    """The encoder's pad is config.json's; every other id is one of decoding."""
    said = {key: value for key, value in hf["decoding"].values.items() if key not in hf["ignored"]}
    facts: Config = {}
    ends = decoding.end_tokens(hf["decoding"])
    if ends and "end" not in stated:
        facts["end"] = ends[0]
    elif isinstance(stated.get("end"), int):
        ends = [stated["end"]]
    first = "bos_token_id" if said.get("decoder_start_token_id") is None else "decoder_start_token_id"
    for key, values, name in (("src_pad", hf, "pad_token_id"), ("start", said, first),
                              ("forced", said, "forced_bos_token_id")):
        value = None if key in stated else one_id(
            values, name, hf["decoding"].path if values is said else "config.json", key)
        if value is not None:
            facts[key] = value
    pad = facts.get("src_pad")
    if positions_of(hf) is SINES_BEHIND_PAD and "start" not in stated and pad == facts.get("start"):
        raise ConvertError(f"config.json: pad_token_id {pad} is the token that begins a target, too; "
                           f"transformers then gives one target other positions with its cache and "
                           f"without, and transformer.h computes neither; --set start=ID states "
                           f"another one")
    if pad != facts.get("start") and pad is not None:
        facts["tgt_pad"] = pad  # a start token that is the pad is no pad there
    if model.takes_vectors:
        facts.pop("src_pad", None)
    suppressed = {one for one in said.get("suppress_tokens") or [] if one >= 0}
    for one in ("forced_bos_token_id", "forced_eos_token_id"):
        value = said.get(one)
        if value is not None and suppressed.intersection(value if isinstance(value, list) else [value]):
            raise ConvertError(f"{hf['decoding'].path}: {one} {brief(value)} is among suppress_tokens; "
                               f"transformers then has no token to choose; --ignore-key {one} leaves the key out")
    suppressed.update(words[0] for words in said.get("bad_words_ids") or []
                      if len(words) == 1 and words[0] not in ends)
    if suppressed:
        facts["suppressed"] = sorted(suppressed)
    found = decoding.from_transformers(hf["decoding"], ends, stated, model)
    if model.takes_vectors and found.pop("no_source_ngram", 0):
        model.notes.append("encoder_no_repeat_ngram_size: left out, as sources have no ids")
    if found:
        facts["decoding"] = found
    if "start" not in facts:
        model.warn("no decoder_start_token_id: --set start=TOKEN, or nothing can be decoded",
                   "start")
    return facts


# ---------------------------------------------------------------------------------- the directory
def read_checkpoint(folder: Path, ignored: set[str] = frozenset(), weights: Tensors | None = None) -> Checkpoint:
    """weights: of a file that transformers does not read, under the names of transformers."""
    hf, notes = read_configs(folder, ignored)
    tensors, wrapped = (weights, []) if weights is not None else strip_wrappers(read_weights(folder))
    if not tensors:
        raise ConvertError(f"{folder} holds no weights")

    def place_all(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        model.takes_vectors = takes_memory(hf) or hf["model_type"] in CONVOLVED
        model.notes += notes
        model.facts.update(layer_facts(hf, chosen))
        model.facts.update(decoding_facts(hf, stated, model))
        model.notes.append(f"layout: Hugging Face {hf['model_type']}")
        if hf["model_type"] in checkpoints_t5.FAMILIES:
            rest = checkpoints_t5.place(chosen, hf, model)
        elif hf["model_type"] in checkpoints_gemma.FAMILIES:
            rest = checkpoints_gemma.place(chosen, hf, model)
        elif hf["model_type"] in checkpoints_moonshine.FAMILIES:
            rest = checkpoints_moonshine.place(chosen, hf, model)
        else:
            rest = place(chosen, hf, stated, model)
            check_norms(hf, model)
        if hf["model_type"] == "blenderbot-small":
            fold_norm(model, bool(hf.get("scale_embedding")))
        sizes = {side: len(model.tensors[f"{side}_embedding.weight"]) for side in BOTH
                 if f"{side}_embedding.weight" in model.tensors}
        if model.takes_vectors and "tgt" in sizes:
            model.facts.update(tokenizer_files.read_target(folder, hf, sizes["tgt"], model))
            if hf["model_type"] == "whisper":
                whisper.finish({key: one for key, one in hf["decoding"].values.items()
                                if key not in ignored}, model)
            elif hf["model_type"] in checkpoints_speech.HEARING:
                checkpoints_conformer.finish(folder, hf, model)
        elif len(sizes) == 2:
            model.facts.update(tokenizer_files.read_texts(folder, hf, sizes, model))
        family = hf["model_type"]
        if family in checkpoints_t5.FAMILIES and model.facts.get("src_language") == "target":
            family = "madlad"  # no other T5 has tokens such as <2fr>
        if family in SENTENCES and not takes_memory(hf) and "grapheme_chars" not in hf:
            model.facts["sentences"] = SENTENCES[family]
        return rest

    return Checkpoint(tensors, place_all, notes=wrapped,
                      compare=None if weights is not None else lambda forward: compare(folder, hf, forward),
                      texts=None if weights is not None else lambda config, model, run: checking_texts.check(
                          folder, config, model, run))


def compare(folder: Path, hf: dict[str, Any], forward: Forward) -> Comparison:
    """Random sentences through both."""
    if takes_memory(hf) or hf["model_type"] in CONVOLVED:
        raise NoComparison("its sources are vectors, not ids")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise NoComparison(f"the package {error.name} is not installed") from None
    if (hf["model_type"] in checkpoints_t5.FAMILIES
            and hf["version"] != int(transformers.__version__.split(".")[0])):
        raise NoComparison(f"config.json is read as transformers {hf['version']} reads it, and "
                           f"{transformers.__version__} is installed, which differs in what it ties "
                           f"and scales")
    for name in {hf["model_type"], hf.get("part_of", hf["model_type"])}:
        if name not in transformers.CONFIG_MAPPING:
            raise NoComparison(f"transformers {transformers.__version__} has no {name}")
    transformers.utils.logging.disable_progress_bar()
    kind = (transformers.AutoModelForImageTextToText if "part_of" in hf
            else transformers.AutoModelForSeq2SeqLM)
    model, found = kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False,
                                        dtype=torch.float32, output_loading_info=True)
    lost = sorted(name for name in found["missing_keys"] if name.endswith("embed_tokens.weight"))
    if lost:
        raise NoComparison(f"transformers {transformers.__version__} takes random numbers for {lost[0]}, which "
                           f"this folder has under another name")
    model = model.eval()
    config, generator = model.config.get_text_config(), torch.Generator().manual_seed(1)
    end, pad = next(iter(decoding.end_tokens(hf["decoding"])), 0), one_id(hf, "pad_token_id") or 0
    source_size = getattr(config, "src_vocab_size", None) or config.vocab_size
    target_size = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    lengths = torch.tensor([9, 7, 5])
    src = torch.randint(source_size, (3, 9), generator=generator)
    src = torch.where(src == pad, end, src)  # pads stand at the end of a row only
    src[torch.arange(3), lengths - 1] = end
    src[torch.arange(9) >= lengths[:, None]] = pad
    tgt = torch.randint(target_size, (3, 8), generator=generator)
    tgt = torch.where(tgt == pad, end, tgt)
    said = hf["decoding"].values
    tgt[:, 0] = next((said[key] for key in ("decoder_start_token_id", "bos_token_id") if isinstance(said.get(key), int)), 0)

    inside = (torch.arange(9) < lengths[:, None]).numpy()
    with torch.no_grad():
        out = model(input_ids=src, attention_mask=(src != pad).long(), decoder_input_ids=tgt,
                    use_cache=False)  # with one, FSMT has no causal mask

    def of_file(forward: Forward) -> list[np.ndarray]:
        found = forward(src.numpy(), lengths.numpy(), tgt.numpy())
        return [found["memory"][inside], found["logits"]]

    memory, logits = map(Part, ("memory", "logits"), of_file(forward),
                         (out.encoder_last_hidden_state.numpy()[inside], out.logits.numpy()))
    return Comparison(f"3 random sentences through transformers: memory differs by at most {memory.worst():.2g}, "
                      f"logits by {logits.worst():.2g}", [memory, logits], of_file)


def check_norms(hf: dict[str, Any], model: Model) -> None:
    """Norms that the family has and the checkpoint lacks would silently change what is computed."""
    family = FAMILIES[hf["model_type"]]
    sides = ("encoder", "decoder")[takes_memory(hf):]
    needed = [f"{side}.norm.weight" for side in sides] * family.final_norms
    needed += [f"{side}_embedding_norm.weight" for side in family.embedding_norms
               if side == "tgt" or not takes_memory(hf)]
    if hf["model_type"] == "trocr" and hf.get("layernorm_embedding") is False:
        needed = []
    for name in needed:
        if name not in model.tensors:
            model.problems.append(f"{name} is missing, which every {hf['model_type']} has")
