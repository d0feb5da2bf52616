"""checkpoints_ggml.py: T5 and its relatives as GGUF files of llama.cpp, Whisper as ggml-*.bin of whisper.cpp.

Such a file has its settings and its vocabulary inside. They are written as a Hugging Face folder, which
checkpoints_huggingface.py reads; the tensors keep the names that the file has for them.

    GGUF           general.architecture t5. Its activation is not a field: as in llama.cpp, a gated feed-forward has
                   GELU, another one ReLU. Nor is the scale of the output: without output.weight, or with one that
                   differs from token_embd.weight no more than quantization makes it, the embedding is tied, and T5 then
                   divides by sqrt(d_model). relative_attention_max_distance is 128
    GGUF without   candle's files, whose names are Hugging Face's: config.json and the tokenizer are in the file's
    fields         folder
    ggml-*.bin     the order of the special tokens follows from n_vocab, the merges follow from the order of the tokens,
                   suppressed tokens are those of OpenAI's rule, alignment heads those of OpenAI's models of these sizes
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoints_huggingface
from . import refusals
from . import whisper
from .config_fields import NEWEST, check_strays, why, HISTORY, MEMORY, SAMPLING
from .ggml_files import GGML, GGUF, OTHERS, QUANTIZATION, GgufFile, WhisperFile, magic, read_gguf, read_whisper
from .modelfile import Checkpoint, Config, ConvertError, Model, Tensors, describe, same, to_f32
from .sentencepieces import CONTROL, NORMAL, UNIGRAM, UNKNOWN, UNUSED, USER_DEFINED, write_pieces
from .untrusted import brief, check_utf8, has_file

VERSION = ".".join(map(str, NEWEST)) + ".0"  # of transformers, whose rules the written config follows


# ------------------------------------------------------------------------------------ the fields of GGUF
# What a field holds, by the end of its name. A key without a row is refused, because it may change what is computed.
ARCHITECTURE = {
    **dict.fromkeys(("embedding_length", "feed_forward_length", "block_count", "attention.head_count",
                     "attention.relative_buckets_count", "decoder_block_count", "attention.head_count_kv",
                     "attention.key_length", "attention.value_length", "decoder_start_token_id", "vocab_size"), int),
    **dict.fromkeys(("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"), float)}
NEEDED = ("embedding_length", "feed_forward_length", "block_count", "attention.head_count",
          "attention.relative_buckets_count", "attention.layer_norm_rms_epsilon")
TOKENIZER = {
    **dict.fromkeys(("model", "pre"), str), **dict.fromkeys(("tokens", "scores", "token_type", "precompiled_charsmap"), list),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id", "eot_token_id",
                     "eom_token_id"), int),
    **dict.fromkeys(("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix",
                     "remove_extra_whitespaces"), bool)}
UNUSED_KEYS = {
    **why("relative positions have no last one", "t5.context_length"),
    **why("the type of most tensors; each states its own", "general.file_type", "general.quantization_version"),
    **why("tokens that no text of T5 has by itself", "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id",
          "tokenizer.ggml.mask_token_id", "tokenizer.ggml.cls_token_id"),
    **why("T5's class of tokenizers sets it", "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces"),
    **why("conversations", "tokenizer.chat_template"), **why(MEMORY, "general.alignment"),
    **why(HISTORY, "general.name"), **why(SAMPLING, "general.sampling")}
# Beginnings of keys that say where a file is from
ABOUT = r"general\.(?!type$|architecture$)|quantize\.imatrix\.|split\."
ONLY = {"general.type": ("model",), "tokenizer.ggml.pre": ("default",), "tokenizer.ggml.add_sep_token": (False,),
        "general.quantization_version": (QUANTIZATION,), "split.count": (0, 1)}
ADVICE = {"general.type": "transformer.h runs whole models",
          "split.count": "llama-gguf-split --merge FIRST OUT, of llama.cpp, makes one file of the parts",
          "general.quantization_version": "other versions have other layouts of blocks: quantize the model anew"}
# Architectures of llama.cpp that are no decoder alone
ENCODERS = r".*bert.*|t5encoder|gemma-embedding|.*-embed.*"
OF_MEDIA = {"clip": "the part of a model that reads images or sound", "wavtokenizer-dec": "a decoder of sound"}
PADDING = re.compile(rb"\[PAD\d+\]")
ADDED_SCORE = -1000.0  # what llama.cpp's converter gives to added tokens


def explain_architecture(name: Any) -> str:
    what = OF_MEDIA.get(name) or (refusals.ENCODER if re.fullmatch(ENCODERS, str(name)) else refusals.DECODER)
    return (f"general.architecture is {brief(name)}: {what}; transformer.h runs an encoder and a decoder that give a text, "
            f"and of llama.cpp's architectures that is t5")


def check_fields(fields: dict[str, Any], path: Path, ignored: set[str], notes: list[str]) -> dict[str, Any]:
    """The fields without those that --ignore-key names. Refuses what is not computed, and what is not known."""
    missing = [key for key in sorted(ignored) if key not in fields]
    if missing:
        raise ConvertError(f"--ignore-key {missing[0]}: {path} has no such key")
    notes += [f"{key} is left out, as --ignore-key says" for key in sorted(ignored)]
    fields = {key: value for key, value in fields.items() if key not in ignored}
    for key, allowed in ONLY.items():
        if key in fields and fields[key] not in allowed:
            raise ConvertError(f"{path}: {key} is {brief(fields[key])}, and {allowed[-1]!r} is read; "
                               + ADVICE.get(key, f"--ignore-key {key} leaves the key out"))
    architecture = fields.get("general.architecture")
    if architecture != "t5":
        raise ConvertError(f"{path}: {explain_architecture(architecture)}")
    kinds = {**{f"t5.{key}": kind for key, kind in ARCHITECTURE.items()},
             **{f"tokenizer.ggml.{key}": kind for key, kind in TOKENIZER.items()}}
    stray = {key: fields[key] for key in fields if key not in kinds and key not in UNUSED_KEYS and key not in ONLY
             and not re.match(ABOUT, key) and key != "general.architecture"}
    check_strays(list(stray), stray, str(path), notes, lambda key: key.startswith(("t5.", "tokenizer.", "adapter.")),
                 "fields of t5 in GGUF files", "what is computed", "no program reads")
    for key, kind in kinds.items():
        value = fields.get(key)
        if key in fields and not (type(value) is kind or kind is list and isinstance(value, np.ndarray)):
            raise ConvertError(f"{path}: {key} is {brief(value)}; it takes "
                               + {int: "an integer", float: "a number of type f32", str: "a text", bool: "a truth value",
                                  list: "a list"}[kind])
        if kind is int and key in fields and not 0 <= value < 1 << 31:
            raise ConvertError(f"{path}: {key} is {value}; it takes an integer below 2^31")
    return fields


def config_of_t5(file: GgufFile, fields: dict[str, Any], path: Path, notes: list[str]) -> Config:
    """config.json as transformers would have it."""
    said = {key: fields.get(f"t5.{key}") for key in ARCHITECTURE}
    for key in NEEDED:
        if not said[key]:
            raise ConvertError(f"{path}: t5.{key} is {'missing' if said[key] is None else said[key]}, which every T5 has")
    heads, width = said["attention.head_count"], said["embedding_length"]
    key, value = (said[f"attention.{one}_length"] or width // heads for one in ("key", "value"))
    for name, found, wanted in (("attention.value_length", value, key),
                                ("attention.head_count_kv", said["attention.head_count_kv"], heads),
                                ("attention.layer_norm_epsilon", said["attention.layer_norm_epsilon"],
                                 said["attention.layer_norm_rms_epsilon"])):
        if found not in (None, wanted):
            raise ConvertError(f"{path}: t5.{name} is {found}, where {wanted} is expected: of a T5, keys are as wide and as "
                               f"many as values and queries, and there is one epsilon")
    shapes = {"token_embd.weight": (said["vocab_size"], width), "enc.blk.0.attn_q.weight": (heads * key, width),
              "enc.blk.0.ffn_up.weight": (said["feed_forward_length"], width),
              "enc.blk.0.attn_rel_b.weight": (said["attention.relative_buckets_count"], heads)}
    for name, shape in shapes.items():
        if name not in file.tensors:
            raise ConvertError(f"{path}: {name} is missing, which every T5 has")
        found = file.tensors[name].shape
        if len(found) != 2 or any(a not in (None, b) for a, b in zip(shape, found)):
            raise ConvertError(f"{path}: {name} is {list(found)}, and the fields of t5 make it "
                               f"{['any' if one is None else one for one in shape]}")
    rows = len(file.tensors["token_embd.weight"])
    for name in ("t5.decoder_start_token_id", *(f"tokenizer.ggml.{one}_token_id" for one in ("bos", "eos", "unknown", "padding"))):
        if fields.get(name, 0) >= rows:
            raise ConvertError(f"{path}: {name} is {fields[name]}, and token_embd.weight has {rows} rows")
    layers = {"enc": said["block_count"], "dec": said["decoder_block_count"] or said["block_count"]}
    for side, field in (("enc", "block_count"), ("dec", "decoder_block_count")):
        found = count_layers(file.tensors, rf"{side}\.blk\.")
        if found != layers[side]:
            raise ConvertError(f"{path}: t5.{field} is {layers[side]}, and the tensors {side}.blk.N are of {found} layers")
    gated = any(re.search(r"\.ffn_gate\.", name) for name in file.tensors)
    notes.append(f"activation: {'gelu_tanh, as llama.cpp has it with a gate' if gated else 'relu, as llama.cpp has it'}"
                 f"{'' if gated else ' without a gate'}; GGUF files do not state it")
    tied = is_tied(file.tensors, notes)
    own = any(re.fullmatch(r"(enc|dec)\.blk\.[1-9]\d*\.attn_rel_b\.weight", name) for name in file.tensors)
    config = {"model_type": "umt5" if own else "t5", "transformers_version": VERSION, "d_model": width, "d_kv": key,
              "num_heads": heads, "num_layers": layers["enc"], "num_decoder_layers": layers["dec"],
              "relative_attention_num_buckets": said["attention.relative_buckets_count"],
              # The shortest decimal number that is this f32
              "layer_norm_epsilon": float(str(np.float32(said["attention.layer_norm_rms_epsilon"]))),
              "feed_forward_proj": "gated-gelu" if gated else "relu", "tie_word_embeddings": tied,
              "scale_decoder_outputs": tied, "eos_token_id": end_tokens(fields),
              "pad_token_id": fields.get("tokenizer.ggml.padding_token_id", 0)}
    if said["decoder_start_token_id"] is not None:
        config["decoder_start_token_id"] = said["decoder_start_token_id"]
    return config


def end_tokens(fields: dict[str, Any]) -> int | list[int]:
    """What ends a target: llama.cpp ends at the tokens that end a turn or a message, too."""
    names = (("eos", 1), ("eot", None), ("eom", None))
    found = [fields.get(f"tokenizer.ggml.{name}_token_id", otherwise) for name, otherwise in names]
    ends = list(dict.fromkeys(one for one in found if one is not None))
    return ends if len(ends) > 1 else ends[0]


def count_layers(tensors: Tensors, begin: str) -> int:
    """One more than the largest number of a layer in the names that begin so."""
    found = (re.match(rf"{begin}(\d{{1,4}})\.", name) for name in tensors)
    return max((int(one[1]) + 1 for one in found if one), default=0)


def is_tied(tensors: Tensors, notes: list[str]) -> bool:
    """Whether the output is the embedding, perhaps in another type of blocks. Two other matrices differ by more than
    their own size."""
    head, table = tensors.get("output.weight"), tensors["token_embd.weight"]
    if head is None or same(head, table):
        return True
    if head.shape != table.shape or not head.size:
        return False
    rows = np.linspace(0, len(head) - 1, min(len(head), 1000)).astype(int)
    one, other = (to_f32(np.asarray(each[rows])).astype(np.float64) for each in (head, table))
    with np.errstate(all="ignore"):
        near = float(np.linalg.norm(one - other)) < 0.5 * float(np.linalg.norm(other))
    if near:
        notes.append("output.weight: the embedding in another precision; so the output is scaled as T5 scales a tied one")
    return near


def write_t5_texts(fields: dict[str, Any], rows: int, path: Path, folder: Path) -> None:
    """The pieces as SentencePiece's file, and behind them the added tokens; or nothing, of a file without texts."""
    def said(key: str, otherwise: Any = None) -> Any:
        return fields.get(f"tokenizer.ggml.{key}", otherwise)

    kind = said("model", "none")
    if kind in ("none", "no_vocab"):
        return
    if kind != "t5":
        raise ConvertError(f"{path}: tokenizer.ggml.model is {brief(kind)}; of T5, transformer.h reads \"t5\", the Unigram "
                           f"models of SentencePiece; --ignore-key tokenizer.ggml.model makes a model that takes ids")
    tokens, scores, types = (said(key, ()) for key in ("tokens", "scores", "token_type"))
    for key, found in (("tokens", tokens), ("scores", scores), ("token_type", types)):
        if len(found) != rows:
            raise ConvertError(f"{path}: tokenizer.ggml.{key} has {len(found)} entries, and token_embd.weight {rows} rows")
    if not isinstance(tokens, list) or getattr(scores, "dtype", None) != np.float32 or getattr(
            types, "dtype", np.dtype("f4")).kind not in "iu":
        raise ConvertError(f"{path}: tokenizer.ggml.tokens, scores and token_type are not texts, numbers of f32 and integers")
    if not np.isfinite(scores).all():
        raise ConvertError(f"{path}: tokenizer.ggml.scores: that of token {int(np.argmin(np.isfinite(scores)))} is not finite")
    if not {*np.unique(types).tolist()} <= {NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, 6}:
        raise ConvertError(f"{path}: tokenizer.ggml.token_type has {int(np.max(types))}; llama.cpp's are 1 to 6")
    pieces, more = [], {}
    for at, (token, score, piece_kind) in enumerate(zip(tokens, scores.tolist(), types.tolist())):
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise ConvertError(f"{path}: tokenizer.ggml.tokens: token {at} is {brief(token)}, which is not UTF-8") from None
        if not text:
            raise ConvertError(f"{path}: tokenizer.ggml.tokens: token {at} has no text")
        if piece_kind == NORMAL and score == 0:  # no piece that was trained has it; llama.cpp's converter drops the type
            piece_kind = USER_DEFINED
        pieces.append((text, score, piece_kind))
    while pieces and (pieces[-1][1:] == (ADDED_SCORE, USER_DEFINED)
                      or pieces[-1][2] == UNUSED and PADDING.fullmatch(tokens[len(pieces) - 1])):
        if pieces[-1][2] == USER_DEFINED:
            more[pieces[-1][0]] = len(pieces) - 1
        pieces.pop()
    ids = {name: said(f"{name}_token_id", otherwise) for name, otherwise in (
        ("eos", 1), ("unknown", 2), ("padding", 0), ("bos", None), ("eot", None), ("eom", None))}
    for name, at in ids.items():
        if at is not None and at >= len(pieces):
            raise ConvertError(f"{path}: tokenizer.ggml.{name}_token_id is {at}, and the vocabulary has {len(pieces)} pieces")
    unknown = [at for at, (_, _, piece_kind) in enumerate(pieces) if piece_kind == UNKNOWN]
    if unknown != [ids["unknown"]]:
        raise ConvertError(f"{path}: tokenizer.ggml.unknown_token_id is {ids['unknown']}, and token_type has the unknown "
                           f"tokens {brief(unknown)}")
    charsmap = np.asarray(said("precompiled_charsmap", np.zeros(0, np.uint8)))
    if charsmap.dtype.itemsize != 1:
        raise ConvertError(f"{path}: tokenizer.ggml.precompiled_charsmap is not a list of bytes")
    (folder / "spiece.model").write_bytes(write_pieces(
        pieces, UNIGRAM, ids["unknown"], charsmap.tobytes(), True, True,
        any(piece_kind == 6 for _, _, piece_kind in pieces)))
    names = {f"{name}_token": pieces[at][0] for name, at in (
        ("eos", ids["eos"]), ("unk", ids["unknown"]), ("pad", ids["padding"]))}
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", **names})
    if more:
        write_json(folder, "added_tokens.json", more)


def write_json(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(json.dumps(value))


T5_NAMES = (
    (r"token_embd\.", "shared."), (r"output\.", "lm_head."),
    (r"(enc|dec)\.output_norm\.", r"\1.final_layer_norm."),
    (r"(enc|dec)\.blk\.(\d+)\.attn_([qkvo])\.", r"\1.block.\2.layer.0.SelfAttention.\3."),
    (r"(enc|dec)\.blk\.(\d+)\.attn_rel_b\.", r"\1.block.\2.layer.0.SelfAttention.relative_attention_bias."),
    (r"(enc|dec)\.blk\.(\d+)\.attn_norm\.", r"\1.block.\2.layer.0.layer_norm."),
    (r"dec\.blk\.(\d+)\.cross_attn_([qkvo])\.", r"dec.block.\1.layer.1.EncDecAttention.\2."),
    (r"dec\.blk\.(\d+)\.cross_attn_rel_b\.", r"dec.block.\1.layer.1.EncDecAttention.relative_attention_bias."),
    (r"dec\.blk\.(\d+)\.cross_attn_norm\.", r"dec.block.\1.layer.1.layer_norm."),
    (r"enc\.blk\.(\d+)\.ffn_norm\.", r"enc.block.\1.layer.1.layer_norm."),
    (r"dec\.blk\.(\d+)\.ffn_norm\.", r"dec.block.\1.layer.2.layer_norm."),
    (r"enc\.blk\.(\d+)\.ffn_(\w+)\.", r"enc.block.\1.layer.1.DenseReluDense.\2."),
    (r"dec\.blk\.(\d+)\.ffn_(\w+)\.", r"dec.block.\1.layer.2.DenseReluDense.\2."),
)
FEED_FORWARD = {"gate": "wi_0", "down": "wo"}


def t5_name(name: str, gated: bool) -> str:
    """The name that transformers has for a tensor of llama.cpp's."""
    for pattern, replacement in T5_NAMES:
        new, found = re.subn(f"^{pattern}", replacement, name)
        if found:
            new = re.sub(r"(?<=DenseReluDense\.)(gate|up|down)(?=\.)",
                         lambda part: FEED_FORWARD.get(part[1], "wi_1" if gated else "wi"), new)
            return re.sub(r"^(enc|dec)\.", lambda side: {"enc": "encoder.", "dec": "decoder."}[side[1]], new)
    return name


def read_t5(path: Path, file: GgufFile, ignored: set[str]) -> Checkpoint:
    notes: list[str] = []
    fields = check_fields(file.fields, path, ignored, notes)
    rows = len(file.tensors.get("token_embd.weight", ()))
    gated = any(re.search(r"\.ffn_gate\.", name) for name in file.tensors)
    kinds = sorted(set(file.kinds.values()) - {"F32", "F16", "BF16", "F64"})
    if kinds:
        notes.append(f"weights of type {', '.join(kinds)}: as f32, as ggml dequantizes them")
    config = config_of_t5(file, fields, path, notes)

    def write(folder: Path) -> None:
        write_json(folder, "config.json", config)
        write_t5_texts(fields, rows, path, folder)

    def settle(stated: Config, model: Model) -> None:
        """What llama.cpp's own fields say of a source's ends, which T5's tokenizer does not ask."""
        if fields.get("tokenizer.ggml.add_eos_token") is False:
            model.facts.pop("src_end", None)
        if fields.get("tokenizer.ggml.add_bos_token"):
            bos = fields.get("tokenizer.ggml.bos_token_id")
            if bos is None:
                raise ConvertError(f"{path}: tokenizer.ggml.add_bos_token is true, and there is no bos_token_id")
            model.facts["src_start"] = bos
        for key, name in (("license", "general.license"), ("source", "general.source.url"),
                          ("source", "general.source.repo_url"), ("source", "general.source.huggingface.repository"),
                          ("source", "general.url"), ("source", "general.repo_url")):
            if isinstance(fields.get(name), str) and fields[name].isprintable() and fields[name]:
                model.about.setdefault(key, fields[name][:200])

    return wrap(path, file.tensors, {name: t5_name(name, gated) for name in file.tensors}, write, settle, notes)


def wrap(path: Path, tensors: Tensors, names: dict[str, str], write: Callable[[Path], None],
         settle: Callable[[Config, Model], None], notes: list[str]) -> Checkpoint:
    """The checkpoint of a Hugging Face folder that write() makes, with these tensors. names: those that transformers has
    for them. Messages name the file in the place of the folder, and its own names of tensors."""
    taken: dict[str, str] = {}
    for name, new in names.items():
        if new in taken:
            raise ConvertError(f"{path}: {brief(name)} and {brief(taken[new])} are two names of one tensor")
        taken[new] = name
    home = tempfile.TemporaryDirectory()
    folder = Path(home.name)

    def own(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except ConvertError as error:
            raise ConvertError(str(error).replace(f"{folder}/", f"{path}: ").replace(str(folder), str(path))) from None

    try:
        write(folder)
        inner = own(lambda: checkpoints_huggingface.read_checkpoint(
            folder, weights={names[name]: tensor for name, tensor in tensors.items()}))
    except BaseException:
        home.cleanup()
        raise
    place = inner.place

    def place_all(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        def old(name: str) -> str:
            return taken.get(name, name)

        put = dict(model.origin)
        rest = own(lambda: place({names.get(name, name): tensor for name, tensor in chosen.items()}, stated, model))
        own(lambda: settle(stated, model))
        model.origin.update({new: old(name) for new, name in model.origin.items() if new not in put})
        model.notes[:] = [note.replace(f"{folder}/", "") for note in model.notes]
        return {old(name): tensor for name, tensor in rest.items()}

    return Checkpoint(tensors, place_all, notes=notes + inner.notes, close=home.cleanup)


# ---------------------------------------------------------------------------------------------- Whisper
def ids_of_whisper(rows: int, path: Path) -> dict[str, int]:
    """The ids of the special tokens, which n_vocab decides."""
    if rows < whisper.ENGLISH_ROWS:
        raise ConvertError(f"{path}: n_vocab is {rows}; Whisper's models have {whisper.ENGLISH_ROWS} tokens or more")
    several = rows > whisper.ENGLISH_ROWS
    languages = rows - 51765 - several
    if languages > len(whisper.LANGUAGES):
        raise ConvertError(f"{path}: n_vocab is {rows}, which is {languages} languages; known are {len(whisper.LANGUAGES)}")
    first = 50256 + several
    listed = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in whisper.LANGUAGES[:languages]),
              "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    return {token: first + at for at, token in enumerate(listed)}


WHISPER_NAMES = (
    (r"^(encoder|decoder)\.blocks\.", r"model.\1.layers."),
    (r"\.attn\.(query|key|value)\.", lambda found: f".self_attn.{found[1][0]}_proj."),
    (r"\.attn\.out\.", ".self_attn.out_proj."),
    (r"\.cross_attn\.(query|key|value)\.", lambda found: f".encoder_attn.{found[1][0]}_proj."),
    (r"\.cross_attn\.out\.", ".encoder_attn.out_proj."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."), (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.mlp_ln\.", ".final_layer_norm."), (r"\.mlp\.0\.", ".fc1."), (r"\.mlp\.2\.", ".fc2."),
    (r"^encoder\.ln_post\.|^decoder\.ln\.", lambda found: f"model.{found[0][:8]}layer_norm."),
    (r"^decoder\.token_embedding\.", "model.decoder.embed_tokens."),
    (r"^(encoder|decoder)\.positional_embedding$", r"model.\1.embed_positions.weight"),
    (r"^encoder\.(conv[12])\.", r"model.encoder.\1."),
)


def whisper_name(name: str) -> str:
    for pattern, replacement in WHISPER_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def check_whisper(file: WhisperFile, path: Path) -> None:
    """Sizes that the numbers state, and filters that transcribe computes by itself."""
    n = file.numbers
    ids_of_whisper(n["n_vocab"], path)
    if not file.tensors:
        raise ConvertError(f"{path}: the file has no tensors: whisper.cpp has such files for its tests; take a whole model")
    if n["n_audio_state"] != n["n_text_state"]:
        raise ConvertError(f"{path}: n_audio_state is {n['n_audio_state']} and n_text_state {n['n_text_state']}, which are "
                           f"one width")
    for name, shape in (("encoder.positional_embedding", (n["n_audio_ctx"], n["n_audio_state"])),
                        ("decoder.positional_embedding", (n["n_text_ctx"], n["n_text_state"])),
                        ("decoder.token_embedding.weight", (n["n_vocab"], n["n_text_state"])),
                        ("encoder.conv1.weight", (n["n_audio_state"], n["n_mels"], 3))):
        found = file.tensors.get(name)
        if found is None or found.shape != shape:
            raise ConvertError(f"{path}: {name} is {'missing' if found is None else list(found.shape)}, and the numbers at "
                               f"the file's beginning make it {list(shape)}")
    for side, field in (("encoder", "n_audio_layer"), ("decoder", "n_text_layer")):
        layers = count_layers(file.tensors, rf"{side}\.blocks\.")
        if n[field] != layers:
            raise ConvertError(f"{path}: {field} is {n[field]}, and the tensors {side}.blocks.N are of {layers} layers")
    for side, field in (("encoder", "n_audio_head"), ("decoder", "n_text_head")):
        if n["n_text_state"] % n[field] or n["n_audio_head"] != n["n_text_head"]:
            raise ConvertError(f"{path}: {field} is {n[field]}; encoder and decoder have one number of heads, which divides "
                               f"n_text_state {n['n_text_state']}")
    wanted = whisper.mel_filters(n["n_mels"])
    with np.errstate(all="ignore"):
        worst = float(np.abs(file.filters - wanted).max())
    if not worst < 1e-5:
        raise ConvertError(f"{path}: its mel filters differ by {worst:.2g} from those of Whisper, which transcribe computes")


def write_whisper(file: WhisperFile, path: Path, folder: Path) -> None:
    """config.json, generation_config.json and tokenizer.json as transformers would have them."""
    n, ids = file.numbers, ids_of_whisper(file.numbers["n_vocab"], path)
    several = n["n_vocab"] > whisper.ENGLISH_ROWS
    end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    vocabulary = [token if at < end else b"" for at, token in enumerate(file.vocabulary)]
    write_json(folder, "tokenizer.json", whisper.tokenizer_of(vocabulary, ids, path))
    write_json(folder, "config.json", {
        "model_type": "whisper", "transformers_version": VERSION, "d_model": n["n_text_state"],
        "encoder_layers": n["n_audio_layer"], "decoder_layers": n["n_text_layer"],
        "encoder_attention_heads": n["n_audio_head"], "decoder_attention_heads": n["n_text_head"],
        "activation_function": "gelu", "pad_token_id": end, "bos_token_id": end, "eos_token_id": end,
        "decoder_start_token_id": start})
    never = whisper.no_speech_tokens(vocabulary) + [ids[f"<|{one}|>"] for one in (
        "startoftranscript", "translate", "transcribe", "startoflm", "startofprev", "nospeech")]
    space = vocabulary.index(b" ") if b" " in vocabulary else None
    heads = whisper.ALIGNMENT_HEADS.get((n["n_audio_layer"], n["n_text_layer"], n["n_vocab"]))
    write_json(folder, "generation_config.json", {
        "transformers_version": VERSION, "eos_token_id": end, "pad_token_id": end, "bos_token_id": end,
        "decoder_start_token_id": start, "max_length": n["n_text_ctx"], "suppress_tokens": sorted(never),
        "begin_suppress_tokens": [at for at in (space, end) if at is not None], "is_multilingual": several,
        **({"lang_to_id": {token: at for token, at in ids.items() if start < at < ids["<|translate|>"]}} if several else {}),
        **({"alignment_heads": heads} if heads else {})})


def read_whisper_file(path: Path) -> Checkpoint:
    file = read_whisper(path)
    check_whisper(file, path)
    notes = ["weights of blocks: as f32, as ggml dequantizes them"] if file.numbers["ftype"] > 1 else []

    def settle(stated: Config, model: Model) -> None:
        if not model.facts.get("alignment_heads"):
            model.warn(f"{path} does not state alignment heads, and OpenAI has no model of these sizes: times of words come "
                       f"from all heads of the upper layers", "alignment_heads")

    tensors = {name: tensor.reshape(-1) if re.fullmatch(r"encoder\.conv[12]\.bias", name) else tensor
               for name, tensor in file.tensors.items()}
    return wrap(path, tensors, {name: whisper_name(name) for name in tensors},
                lambda folder: write_whisper(file, path, folder), settle, notes)


# ---------------------------------------------------------------------------------------------- a file
def find(path: Path) -> Path:
    """The GGUF file of a folder that has no other weights; otherwise the path itself."""
    if not path.is_dir() or checkpoints_huggingface.has_weights(path):
        return path
    files = [path / name for name in refusals.files(path) if name.endswith(".gguf")]
    if len(files) > 1:
        raise ConvertError(f"{path}: {len(files)} GGUF files, {', '.join(file.name for file in files[:8])}: name one as IN")
    return files[0] if files else path


def read_checkpoint(path: Path, ignored: set[str]) -> Checkpoint:
    head = magic(path)
    if head in OTHERS:
        raise ConvertError(f"{path}: {OTHERS[head]}")
    if head == GGML:
        if ignored:
            raise ConvertError(f"--ignore-key: {path} has numbers without keys")
        return read_whisper_file(path)
    if head != GGUF:
        raise ConvertError(f"{path}: it begins with {head!r}, not with GGUF: the file is damaged, or no GGUF file: get it again")
    file = read_gguf(path)
    if "general.architecture" in file.fields:
        return read_t5(path, file, ignored)
    if not has_file(path.parent, "config.json"):
        raise ConvertError(f"{path}: it has no general.architecture, as candle's GGUF files: put it into a folder with the "
                           f"config.json and the tokenizer of the model that it was made of")
    refusals.check_config(path.parent / "config.json", ignored)
    checkpoint = checkpoints_huggingface.read_checkpoint(path.parent, ignored, weights=file.tensors)
    checkpoint.folder = path.parent
    return checkpoint
