"""Converts a trained model into a model file for transformer.h.

Do this, once, where the model was trained:

    torch.save(model.state_dict(), "model.pt")
    python convert.py model.pt model.safetensors --heads 8 --set norm=post \\
        --set activation=relu --set embedding_scale=sqrt_d \\
        --set src_pad=1 --set tgt_pad=1 --set start=2 --set end=3 \\
        --set src_start=none --set src_end=3 \\
        --src-vocab source.txt --tgt-vocab target.txt

or convert a directory. Its files show the settings:

    python convert.py opus-mt-en-mg/ model.safetensors
    python convert.py firefox/deen/ model.safetensors
    python convert.py Helsinki-NLP/opus-mt-de-en model.safetensors
    python convert.py firefox:de-en model.safetensors
    python convert.py nllb-200-distilled-600M/ model.safetensors --dtype bf16 \\
        --set src_start=eng_Latn --set forced=fra_Latn

IN is one of

    Hugging Face       a directory of config.json, its weights (model.safetensors or
                       pytorch_model.bin, in one piece or in shards) and its tokenizer: Marian,
                       BART, mBART, M2M100 and NLLB, PEGASUS, FSMT (wmt19), PLBart, MVP, LED
                       (sources up to half its window), Blenderbot, Blenderbot-small, T5 (v1.1,
                       FLAN-T5, ByT5, MADLAD-400), mT5, UMT5, T5Gemma, the text side of T5Gemma 2
                       and of SeamlessM4T; Whisper (also distil-whisper and large-v3) with
                       its convolutions, Moonshine, Canary and Cohere Transcribe, of which
                       examples/transcribe computes what is before the decoder;
                       Speech2Text behind its convolutions, the decoders of TrOCR, Donut and
                       Nougat, and Florence-2's language model. Their sources are vectors, which
                       your program computes.
    Argos Translate    an .argosmodel, or the folder that it unpacks to: LibreTranslate's packages.
    CTranslate2        a directory of model.bin, binary versions 2 to 6, its vocabularies and
                       config.json; also of Whisper, as faster-whisper has it. int8 and int16
                       weights are multiplied by their scales and become f32.
    Marian             model.npz or its directory, with decoder.yml and vocabularies (HPLT's too);
                       model.bin, or a folder of Firefox or Bergamot: model.*.bin, vocab.*.spm (or
                       srcvocab and trgvocab), lex.*.bin, each perhaps as .gz, and browsermt's
                       config*.yml. int8 (intgemm8) stays int8 with the same bytes; int16 becomes
                       f32. Files packed for one kind of CPU (or by FBGEMM) are refused. OUT also
                       gets the lexical shortlist (lex*.bin, or as text lex*.s2t.gz), which
                       translate --shortlist uses.
    OpenNMT-py         a checkpoint.pt of version 2.3 or later with its vocabularies.
    llama.cpp          a GGUF file of T5, FLAN-T5, MADLAD-400 or UMT5, or a folder with one. Weights in
                       blocks (Q8_0, Q5_1, Q4_K ...) become f32, as the package gguf dequantizes
                       them. candle's GGUF files have no settings: put config.json and the tokenizer
                       beside them. Architectures that are no encoder-decoders are refused.
    whisper.cpp        ggml-*.bin of Whisper, of any size and type
    PyTorch            what torch.save wrote (a state dict, or a dictionary that holds one under
                       any key), or a safetensors file. If there are several state dicts, --prefix
                       chooses one: --prefix ema.

If IN is not a path but looks like a name on Hugging Face's hub, the package huggingface_hub
downloads it. Its environment variables apply (cache, HF_HUB_OFFLINE, HF_TOKEN). --revision R takes
another revision than the newest. firefox:de-en is Firefox's model of these two languages, and
argos:de-en the package of Argos Translate. convert.py downloads them into a cache and verifies them;
--architecture and --offline are options for this. transformer-model of the Python package gets, lists
and removes such models, and its --help says more (also: cd tools && python -m convert.published --help).

A checkpoint may come from anybody. The converter reads the tensors of a pickle and runs none of its
code. It refuses a pickle that has other objects, such as a whole module, and names their class. If a
file is malformed, the converter prints a message and writes no OUT. It needs only NumPy, PyYAML for
Marian's files, and gguf for weights in blocks.

OUT also gets the directory's tokenizer. A SentencePiece model is copied. A tokenizer.json with
pieces becomes a SentencePiece model, with a vocabulary beside it if the ids are not the positions of
the pieces. GPT-2's byte-level BPE (BART, MVP, LED, Blenderbot, CodeT5) becomes its vocabulary and
merges; its variants are refused. Any other tokenizer is refused, too: --set src_text=words --set tgt_text=words
converts the model for texts that another program has cut into tokens, with spaces between them. OUT also gets
licence, source and revision if the directory has them; --set license=TEXT, source=TEXT and
revision=TEXT state them. If a setting makes the model compute what transformer.h does not, the
converter refuses it and names the setting.

If the checkpoint's engine (transformers or ctranslate2) is installed and build/forward exists, the
converter runs random sentences through both before it writes OUT. If they differ by more than
rounding, it writes nothing and the exit status is 1; with --force it writes OUT and prints a warning.
With transformers 5 it also turns twenty texts, which it makes of the tokenizer's pieces, into ids and back,
and compares with AutoTokenizer: over 2 that differ count as an error, and fewer as a warning. If the engine
raises an error, the exit status is 1. If it is not installed, a line says so, and the exit status is 0.
How much that is, the model file shows when it runs again with other last bits of its weights.
--no-check skips the comparison. --check FILE compares with numbers that you give: FILE is an .npz or
.safetensors with src [B, S] and tgt [B, T] of integers (tgt begins with start) and the module's logits
[B, T, V] for them; pads at the end of a row, or src_lengths and tgt_lengths [B], are optional. With
--dtype and --packed, it compares before it rounds to the lower precision.

PyTorch checkpoints have no standard names. The converter recognizes these, after any prefix
("model.transformer." ...), and leaves out what DataParallel, torch.compile and FSDP add to names:

    nn.Transformer     X.layers.N.self_attn.in_proj_weight and its family. The stack whose layers
                       have multihead_attn is the decoder, the other one is the encoder.
    encoder_layers.N   self_attn.w_q/w_k/w_v/fc, enc_attn, feedforward.linear1/linear2, norm1-3.
    Ben Trevett's      self_attention.fc_q/fc_k/fc_v/fc_o, encoder_attention, fc_1 and fc_2 of
    tutorial           positionwise_feedforward, ff_layer_norm ...: norm=post, relu, sqrt_d.
    Encoder.layers.N   enc_self_attn.W_Q/W_K/W_V/fc, dec_self_attn, dec_enc_attn, pos_ffn.fc.0/2:
                       no biases, plain norms, sinusoidal_per_index positions.
    embeddings         src_embed, src_tok_emb.embedding, encoder_embedding, tgt_emb, decoder.embed,
                       trg_embedding ...; one embedding without a side in its name serves both.
    generator          generator, fc_out, out, projection, linear_out, lm_head ..., if it has as
                       many rows as the target embedding.
    positions          pe, pos_encoding.pe, pos_embedding.weight ...: if a known formula gives the
                       table, the config gets the formula instead; any other table is written as
                       learned positions. A table that a formula gives is found under any
                       name.

It guesses nothing else. If a tensor has no place, the converter lists it and writes nothing until
you map or drop it. Use the names that the list shows:

    --map head.weight=generator.weight     one tensor; repeat OLD to tie it to two names
    --map enc.blocks.=encoder.layers.      every name that begins with OLD
    --drop '*.criterion.*'                 a shell pattern
    --prefix ema.                          only names that begin with it

NEW is one of these. N counts from 0. ATTN is self_attn, or in decoders also multihead_attn, which
attends to the memory:

    src_projection.weight [D, D_in] and .bias, of sources that are embeddings
    src_embedding.weight [V, D]    tgt_embedding.weight    generator.weight [V, D] and .bias [V]
    src_positions.weight [n, D]    tgt_positions.weight    src_ and tgt_embedding_norm.weight, .bias
    encoder. and decoder.layers.N. ATTN.in_proj_weight [3D, D], in_proj_bias, or ATTN.q_proj.weight
        [D, D] and .bias, k_proj, v_proj; ATTN.out_proj.weight and .bias; linear1.weight [F, D] and
        .bias, linear2.weight [D, F] and .bias; norm1.weight and .bias, norm2, of decoders norm3;
        of gated feed-forwards linear1_gate.weight [F, D] and .bias, which the activation is applied to;
        self_attn.relative_positions.weight [buckets, heads]; norm1_out.weight (2, 3) of what a
        sub-layer gives; self_attn.q_norm.weight, k_norm.weight; self_attn.rotary.frequencies [n]
    encoder.norm.weight and .bias, decoder.norm; encoder.relative_positions.weight, decoder's;
    encoder.rotary.frequencies, decoder's

The checkpoint's decoding defaults (generation_config.json, decoder.yml, CTranslate2's defaults) and all of
its end tokens become the config's "decoding", which may have every option of tfm_decode_options. --set decoding=none leaves them out; --set decoding.beam=4 and similar
options replace one.

Every key of config.json and generation_config.json is used, or known to change nothing, or refused
because its value asks for something that transformer.h does not compute. A key that this converter
does not know is refused too, if it may be a field: if a newer transformers wrote the file, or if the
installed one has such a field. --ignore-key KEY leaves a key out. The same holds for
tokenizer_config.json, special_tokens_map.json and tokenizer.json (tokenizer_fields.py). OUT's
tokenizer gives the ids and texts of the AutoTokenizer of transformers 5.

State with --set what the weights do not show: the number of heads, and for nn.Transformer norm,
activation, embedding_scale, and positions if there is no table; the ids start and end of targets,
src_start and src_end of sources, and the pads src_pad and tgt_pad; and with --src-vocab the
vocabulary. Until then nothing is written, and the message lists what is missing. You can write an id
as a token of its vocabulary, and none if the model has no such token, or no vocabulary (a token or file
of that name: give its id, or ./none). --heads N is short for --set n_heads=N. A vocabulary is UTF-8 text: line i is token i, and further spellings of it
follow after tabs. Without --tgt-vocab the source's vocabulary serves both sides. Every tensor keeps
its type unless you give --dtype, also int8 with its scales; float64 becomes f32.

--packed runs build/quantize --packed on the result. build/quantize must exist.

--core writes an encoder and a decoder without embeddings and generator, for programs that call
tfm_encoder and tfm_decoder themselves. tfm_model_load refuses such a file.

OUT is written whole or not at all. It must be a regular file or a new name; devices, folders, pipes
and symbolic links are refused. The exit status is 0; if it is 1, standard error has the reasons and
OUT is untouched.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

import numpy as np

from . import checking
from . import checkpoints_argos
from . import checkpoints_ctranslate2
from . import checkpoints_ggml
from . import checkpoints_huggingface
from . import checkpoints_marian
from . import checkpoints_torch
from . import decoding
from . import ggml_files
from . import hub
from . import marian_bin
from . import questions
from . import refusals
from . import releases
from . import silero
from .modelfile import (F32, I8, NO_TOKEN, SOURCE_IDS, TARGET_IDS, TYPE_NAMES, TYPE_OPTIONS, Checkpoint, Config, ConvertError,
                        Model, Tensors, U8, U32, build_config, check_config, check_dropped, check_values, describe,
                        is_floating, measure, missing_tensors, omit_tied, parse_settings, read_about, read_vocabulary,
                        settle_bytes, shape_of, to_type, write_model)
from .printing import Parser, run
from .progress import Progress
from .sentencepieces import read_pieces
from .tokenizer_files import FORM_ERRORS
from .untrusted import MEGABYTE, brief, visible
from .writer import check_target, stoppable

# A model file of more than this many bytes for each of the checkpoint's repeats its tensors.
LARGEST_GROWTH = 21  # IQ1_S, the smallest type of GGUF files, has 50 bytes for 1024 of f32
LONGEST_COMMAND = 1 << 16  # characters of a command in a message, which must be whole


def check_exists(path: Path) -> None:
    """Says what IN may be, if there is no such file, and which name beside it resembles it."""
    try:
        there = os.path.lexists(path)
    except ValueError:  # a NUL in the name; reading says so
        return
    if there:
        return
    names = refusals.files(path.parent)
    near = difflib.get_close_matches(path.name, names, 1)
    raise ConvertError(f"{path}: No such file or directory" + (f"; did you mean {path.parent / near[0]}?" if near else "")
                       + "; IN is a checkpoint, its folder, a name on the hub (OWNER/NAME) or firefox:de-en")


def read_checkpoint(path: Path, ignored: set[str]) -> Checkpoint:
    """By what the path is: a directory says itself which program wrote it. ignored: --ignore-key."""
    check_exists(path)
    refusals.check(path, ignored)
    file = checkpoints_ggml.find(path)
    if ggml_files.is_ggml(file):
        return checkpoints_ggml.read_checkpoint(file, ignored)
    if ignored and not checkpoints_huggingface.is_huggingface(path):
        raise ConvertError(f"--ignore-key: {path} is not a Hugging Face directory; the option leaves out keys "
                           f"of its config.json")
    if checkpoints_argos.is_argos(path):
        return checkpoints_argos.read_checkpoint(path)
    if checkpoints_marian.has_bin(path):
        return checkpoints_marian.read_checkpoint(path)
    if checkpoints_ctranslate2.is_ctranslate2(path):
        return checkpoints_ctranslate2.read_checkpoint(path)
    if checkpoints_huggingface.is_huggingface(path):
        return checkpoints_huggingface.read_checkpoint(path, ignored)
    if checkpoints_marian.is_marian(path):
        return checkpoints_marian.read_checkpoint(path)
    if path.is_dir():
        raise ConvertError(refusals.explain(path))
    return checkpoints_torch.read_checkpoint(path)


def select(tensors: Tensors, prefix: str, patterns: list[str], model: Model) -> Tensors:
    """What --prefix, --drop and the types leave over."""
    chosen = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()
              if name.startswith(prefix)}
    if not tensors:
        raise ConvertError("the checkpoint holds no weights")
    if not chosen:
        raise ConvertError(f"--prefix {prefix}: no tensor's name begins with it")
    if len(chosen) < len(tensors):
        model.notes.append(f"{len(tensors) - len(chosen)} tensors: their names do not begin with {prefix}")
    for pattern in patterns:
        dropped = [name for name in chosen if fnmatch.fnmatchcase(name, pattern)]
        if not dropped:
            raise ConvertError(f"--drop {pattern}: no tensor's name matches")
        for name in dropped:
            model.dropped[name] = chosen.pop(name)
            model.notes.append(f"{name} {describe(model.dropped[name])}: dropped")
    for name in [name for name, tensor in chosen.items()
                 if not is_floating(tensor) and name not in model.scales]:
        if chosen[name].dtype == I8 and chosen[name].ndim > 1:
            raise ConvertError(f"{name} {describe(chosen[name])}: {refusals.UNQUANTIZED}")
        model.notes.append(f"{name} {describe(chosen.pop(name))}: a buffer that is no weight")
    return chosen


def apply_maps(tensors: Tensors, maps: list[str], model: Model) -> Tensors:
    """--map: names of the model file are put there; others rename what is still to be found."""
    moved: set[str] = set()
    renamed: Tensors = {}
    for rule in maps:
        old, equals, new = rule.rpartition("=")  # a tensor's name may have one
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


# ---------------------------------------------------------------------------------- the whole way
def convert(options: argparse.Namespace) -> None:
    try:  # before the work
        check_target(options.output)
    except OSError as error:
        raise ConvertError(f"{options.output}: {error.strerror or error}") from None
    try:
        name = options.input
        options.input = Path(name)
        if options.revision and not hub.is_name(name):
            raise ConvertError(f"--revision: {name} is not a name of the hub")
        if (options.architecture or options.offline) and not releases.is_name(name):
            raise ConvertError(f"--architecture and --offline: {name} is not a name such as firefox:de-en")
        if hub.is_name(name):
            options.input = hub.fetch(name, options.revision)
        elif releases.is_name(name):
            options.input, about = releases.fetch(name, options.architecture, options.offline)
            options.set = [f"{key}={text}" for key, text in about.items()] + options.set
        if options.packed and not QUANTIZE.is_file():
            raise ConvertError(f"--packed needs {QUANTIZE}: run make")
        build(options)
    except MemoryError:
        raise ConvertError(f"{options.input}: too large for the memory of this machine") from None
    except FORM_ERRORS as error:
        raise ConvertError(f"{options.input}: not in the form that its program writes: "
                           f"{brief(error)}") from None


def build(options: argparse.Namespace) -> None:
    options.progress = options.progress or Progress(options.quiet)
    with options.progress.stage(f"reading {options.input}"):
        checkpoint = read_checkpoint(options.input, set(options.ignore_key))
    try:
        write(checkpoint, options)
    finally:
        checkpoint.close()


def write(checkpoint: Checkpoint, options: argparse.Namespace) -> None:
    stated = checkpoint.stated
    settings = options.set + ([f"n_heads={options.heads}"] if options.heads is not None else [])
    config, about = parse_settings(settings)
    stated.update(config)

    model = Model(notes=list(checkpoint.notes), about=read_about(checkpoint.folder or options.input))
    model.about.update(about)
    model.scales = {name.removeprefix(options.prefix): scale
                    for name, scale in checkpoint.scales.items()}
    model.has_own_words = bool(options.src_vocab or options.tgt_vocab or options.core
                               or "words" in (stated.get("src_text"), stated.get("tgt_text")))
    chosen = select(checkpoint.tensors, options.prefix, options.drop, model)
    unplaced = checkpoint.place(apply_maps(chosen, options.map, model), stated, model)
    choose_texts(model, options)
    name_ids(stated, model)
    settle_languages(stated, model)
    core = options.core and "src_embedding.weight" not in model.tensors
    table = model.tensors.get("tgt_positions.weight", model.tensors.get("src_positions.weight"))
    if "end" in stated:  # --set end states the only end token
        model.facts.get("decoding", {}).pop("end_ids", None)
    said = decoding.settle(model.facts.pop("decoding", {}), stated.pop("decoding", {}),
                           len(table) - stated.get("position_offset", model.facts.get(
                               "position_offset", 0)) if table is not None else None, model)
    if said and not core:
        model.facts["decoding"] = said
    config, assumed = build_config(model, stated, core)
    wanted = ["n_heads"] * ("n_heads" not in config) + list(assumed)
    if checkpoint.own and not core:
        wanted += questions.of_ids({**config, **stated}, model, options)
    questions.ask(wanted, model)
    if checkpoint.own and model.texts and not core:
        model.warn("the checkpoint does not show whether the model reads a sentence at a time or whole texts, as "
                   "summarizers do: --set sentences=split or whole. Until the file says it, a text of several "
                   "sentences is read whole", "sentences")
    check_values(config)
    missing = missing_tensors(model, config, core)
    if missing or unplaced or model.problems:
        raise ConvertError(questions.explain_failure(model, missing, unplaced)
                           + questions.command(options, wanted, unplaced, missing, model))
    check_dropped(config, model)

    sizes = measure(model, config)
    check_config(config, sizes, model)
    if model.problems:
        raise ConvertError("\n".join(model.problems[:questions.MOST_LISTED]))

    omit_tied(model)
    wanted = TYPE_OPTIONS.get(options.dtype)
    settle_bytes(model, wanted)
    exact = model.tensors
    model.tensors = {}
    with options.progress.stage("converting", sum(tensor.nbytes for tensor in exact.values())) as stage:
        for name, tensor in exact.items():
            model.tensors[name] = to_type(tensor, name, wanted)
            stage.advance(tensor.nbytes)
    if {"extra.conv1.weight", "extra.stem1.weight", "extra.listen.frames.weight", "extra.conformer.linear.weight"} & set(exact) and not core:
        silero.put(model, options.vad)  # in F32, whatever --dtype says
    elif options.vad not in (None, "none"):
        raise ConvertError(f"--vad: {options.input} is no model that hears (Whisper, Moonshine, Canary), and only these get a voice detector")
    add_texts(model, sizes, str(options.src_vocab or options.input))
    if checkpoint.shortlist and not core:
        config.update(add_shortlist(model, sizes, *checkpoint.shortlist))
    check_growth(model, checkpoint.files or options.input)
    if not options.quiet:
        report(model, config, sizes)
    given = None
    if options.check:
        if core:
            raise ConvertError("--check needs a whole model, and --core writes none")
        given = checking.with_file(options.check, config, sizes)
    of_texts = None if options.no_check or core or options.src_vocab or options.tgt_vocab else checkpoint.texts
    texts = (lambda run: of_texts(config, model, run)) if of_texts else None
    write_checked(options, model, config, exact, lambda written: checking.check(
        None if options.no_check else checkpoint.compare, given, written, options, texts))
    if not options.quiet:
        print(f"{options.output}: {len(model.tensors)} tensors, {options.output.stat().st_size} bytes")
    warn(model, stated, core)


QUANTIZE = Path(__file__).resolve().parents[2] / "build" / "quantize"


def write_checked(options: argparse.Namespace, model: Model, config: Config, exact: Tensors,
                  check: Callable[[Callable[[], Path]], None]) -> None:
    """Writes OUT after the check, which is of numbers in f32: a program may round activations to the
    type of the weights, and the limit of the check allows nothing but the rounding of sums. exact are
    the tensors before --dtype. What build/quantize packs comes from a file: the layout of packed files
    has one definition."""
    out, same = options.output, (F32, U32, U8)

    def write_to(path: Path, tensors: Tensors, check: Callable[[Path], None] | None = None, widen: bool = False) -> None:
        whole = sum(tensor.size * 4 if widen and is_floating(tensor) else tensor.nbytes for tensor in tensors.values())
        with options.progress.stage(f"writing {path.name}", whole) as stage:
            write_model(path, tensors, config, model.about, check, widen, stage.advance)

    def watched(written: Callable[[], Path]) -> None:
        with options.progress.stage("checking"):
            check(written)

    if not options.packed and all(tensor.dtype in same for tensor in model.tensors.values()):
        write_to(out, model.tensors, lambda part: watched(lambda: part))
        return
    with stoppable(), tempfile.TemporaryDirectory(prefix=f"{out.name}.part", dir=out.parent) as folder:
        plain = Path(folder) / "plain.safetensors"

        def in_f32() -> Path:
            if not plain.exists():
                write_to(plain, {**model.tensors, **exact}, widen=True)
            return plain

        watched(in_f32)
        plain.unlink(missing_ok=True)
        write_to(plain if options.packed else out, model.tensors)
        if not options.packed:
            return
        with options.progress.stage("quantizing"):
            done = subprocess.run([QUANTIZE, plain, out, options.packed, "--packed"],
                                  capture_output=True, text=True)
    if done.returncode:
        raise ConvertError(f"--packed: {visible(done.stderr.strip())}")


def check_growth(model: Model, path: Path) -> None:
    """Names that share one tensor would make a small checkpoint a large file."""
    read = sum(one.stat().st_size for one in (path.iterdir() if path.is_dir() else [path])
               if one.is_file())
    size = sum(tensor.nbytes for tensor in model.tensors.values())
    if size > LARGEST_GROWTH * read + MEGABYTE:
        raise ConvertError(f"{path}: {read} bytes, whose tensors are {size}")


def choose_texts(model: Model, options: argparse.Namespace) -> None:
    """--src-vocab and --tgt-vocab in the place of the checkpoint's vocabularies."""
    has_source = not model.takes_vectors and "src_projection.weight" not in model.tensors
    if options.tgt_vocab and not options.src_vocab and has_source:
        raise ConvertError("--tgt-vocab without --src-vocab: give --src-vocab for both sides, or both options")
    if options.src_vocab:
        model.texts.pop("tgt_vocabulary", None)
    for side, path in (("src", options.src_vocab), ("tgt", options.tgt_vocab)):
        if path and str(path) != NO_TOKEN:
            model.texts[f"{side}_vocabulary"] = text = read_vocabulary(path)
            lines = text.decode().split("\n")[:-1]
            alone = [line for line in lines if len(line) == 1]
            if 2 * len(alone) > len(lines):
                keys = [f"{side}_text"] if options.tgt_vocab else ["src_text", "tgt_text"]
                model.warn(f"{path}: {len(alone)} of the {len(lines)} tokens are single characters, as {alone[0]!r}, but "
                           f"texts are split at spaces; to split them into characters: "
                           + " ".join(f"--set {key}=characters" for key in keys), keys[0])
    if model.texts.get("tgt_vocabulary", 0) == model.texts.get("src_vocabulary", 1):
        del model.texts["tgt_vocabulary"]


def name_ids(stated: Config, model: Model) -> None:
    """--set forced=TOKEN: the token's id, as the vocabulary of its side has it."""
    for key, value in stated.items():
        if key not in SOURCE_IDS + TARGET_IDS or not isinstance(value, str):
            continue
        if value == NO_TOKEN:
            stated[key] = None
            continue
        stated[key] = id_of_token(f"{key}={value}", value, "src" if key in SOURCE_IDS else "tgt", model)
    languages = stated.get("languages")
    if languages:
        stated["languages"] = {code: id_of_token(f"languages={code}:{one}", one, "src", model) if isinstance(one, str)
                               else one for code, one in languages.items()}


def id_of_token(setting: str, token: str, side: str, model: Model) -> int:
    """The id of a token of that side's vocabulary, or of its SentencePiece model."""
    def of(name: str) -> Any:
        return model.texts.get(f"{side}_{name}", model.texts.get(f"src_{name}", b""))

    lines = of("vocabulary").decode().split("\n")[:-1] or read_pieces(of("sentencepiece"), setting) if (
        of("vocabulary") or of("sentencepiece")) else []
    ids = {spelling: i for i, line in enumerate(lines) for spelling in line.split("\t")}
    if token not in ids:
        raise ConvertError(f"--set {setting}: " + (
            "the vocabulary has no such token" if ids else "no vocabulary here: give the id"))
    return ids[token]


def settle_languages(stated: Config, model: Model) -> None:
    """--set src_start and forced choose for good; a language that is chosen is not asked for. --set languages=none says
    that there are none."""
    if stated.get("languages") == {}:
        del stated["languages"]
        for key in ("languages", "src_language", "tgt_language"):
            model.facts.pop(key, None)
    if stated.get("languages") and not {"src_language", "tgt_language"} & {*stated, *model.facts}:
        raise ConvertError("--set languages: say where their tokens stand: --set src_language=target (before a source, of "
                           "the language to translate into) or source (of the source's own), and with "
                           "--set tgt_language=forced before the target")
    for key, language in (("src_start", "src_language"), ("forced", "tgt_language")):
        if key in stated:
            model.facts.pop(language, None)
    if not {"src_language", "tgt_language"} & set(model.facts) and not model.takes_vectors:
        model.facts.pop("languages", None)


def add_texts(model: Model, sizes: Config, origin: str) -> None:
    """The texts as U8 tensors, vocabularies of as many lines as there are rows."""
    for name, text in model.texts.items():
        sides = ("src", "tgt") if "tgt_vocabulary" not in model.texts else (name[:3],)
        for key in (f"{side}_vocab_size" for side in sides):
            lines = text.count(b"\n")
            if name.endswith("_vocabulary") and sizes.get(key) != lines:
                raise ConvertError(f"{origin}: {name} has {lines} lines, but {key} is "
                                   f"{sizes.get(key)}")
        model.put(name, origin, np.frombuffer(text, np.uint8))
    for name, table in model.tables.items():
        model.put(name, origin, table)


def add_shortlist(model: Model, sizes: Config, path: Path,
                  read: Callable[[int], tuple[Any, Any, int] | None]) -> Config:
    """Marian's candidates by source token as U32 tensors, and the config's key."""
    found = read(sizes["src_vocab_size"])
    if found is None:
        model.notes.append(f"{path.name}: no binary shortlist, left out")
        return {}
    offsets, ids, first = found
    if len(offsets) != sizes["src_vocab_size"] + 1:
        raise ConvertError(f"{path}: lists for {len(offsets) - 1} tokens; src_vocab_size is "
                           f"{sizes['src_vocab_size']}")
    if len(ids) and ids.max() >= sizes["tgt_vocab_size"]:
        raise ConvertError(f"{path}: id {ids.max()} is outside the vocabulary: tgt_vocab_size is "
                           f"{sizes['tgt_vocab_size']}")
    model.put("shortlist.offsets", path.name, offsets)
    model.put("shortlist.ids", path.name, ids)
    model.notes.append(f"{path.name}: a shortlist, which translate --shortlist uses")
    return {"shortlist_first": min(first, sizes["tgt_vocab_size"])}


def report(model: Model, config: Config, sizes: Config) -> None:
    rows = [(model.origin[new], new, str(list(tensor.shape)), TYPE_NAMES[tensor.dtype])
            for new, tensor in model.tensors.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for old, new, shape, kind in rows:
        print(visible(f"{old:<{widths[0]}} -> {new:<{widths[1]}}  {shape:<{widths[2]}}  {kind}"))
    print()
    for note in model.notes:
        print(visible(note))
    print("sizes: " + ", ".join(f"{key} {value}" for key, value in sizes.items()))
    print("config: " + visible(json.dumps(config, ensure_ascii=False), MEGABYTE))
    for key, value in model.about.items():
        print(visible(f"{key}: {value}"))


def warn(model: Model, stated: Config, core: bool) -> None:
    lines = [text for text, key in model.warnings if key not in stated]
    if core:
        lines.append("--core: the file has only encoder and decoder, so it does not load as a model: "
                     "src_embedding.weight is missing")
    for line in lines:
        print(f"convert.py: warning: {visible(line)}", file=sys.stderr)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("input", metavar="IN", help="the checkpoint: a directory, a file, a name on the hub, or firefox:de-en")
    option("output", metavar="OUT", type=Path, help="the model file to write")
    option("--heads", metavar="N", help="number of attention heads, as --set n_heads=N")
    option("--set", metavar="KEY=VALUE", action="append", default=[],
           help="state a setting of the model file's config; may be repeated")
    option("--src-vocab", metavar="FILE", type=Path, help="vocabulary of the sources, one token a line")
    option("--tgt-vocab", metavar="FILE", type=Path,
           help="vocabulary of the targets (default: that of the sources)")
    option("--map", metavar="OLD=NEW", action="append", default=[],
           help="rename a tensor, or all tensors whose names begin with OLD; may be repeated")
    option("--ignore-key", metavar="KEY", action="append", default=[],
           help="leave out a key of the config or tokenizer; may be repeated")
    option("--drop", metavar="PATTERN", action="append", default=[],
           help="leave out the tensors whose names match a shell pattern; may be repeated")
    option("--prefix", metavar="P", default="", help="read only tensors whose names begin with P")
    option("--dtype", choices=tuple(TYPE_OPTIONS), help="type of the matrices (default: as stored)")
    option("--packed", choices=("f32", "f16", "bf16", "int8"),
           help="run build/quantize --packed on the result, with this type")
    option("--vad", metavar="FILE", help="of a model that hears: Silero's voice detector, silero_vad_v6.onnx of the package "
           "faster-whisper, or none (default: that of an installed package)")
    option("--revision", metavar="R", help="revision on the hub (default: the newest)")
    option("--architecture", metavar="A", help="of firefox:NAME: tiny, base-memory or base (default: the best)")
    option("--offline", action="store_true", default=None, help="take firefox:NAME or argos:NAME from the cache alone")
    option("--quiet", action="store_true", help="print only warnings and errors")
    option("--core", action="store_true", help="write encoder and decoder without embeddings and generator")
    option("--check", metavar="FILE", type=Path, help="compare the result with the logits in FILE, of src, tgt and logits")
    option("--no-check", action="store_true", help="do not compare the result with the checkpoint's engine")
    option("--force", action="store_true", help="write OUT even if that comparison finds a difference")
    given = sys.argv[1:] if arguments is None else arguments
    return parser.parse_args(given, argparse.Namespace(arguments=given, progress=None))


def main(arguments: list[str] | None = None) -> int:
    try:
        convert(parse_arguments(arguments))
    except ConvertError as error:
        lines = [visible(line, LONGEST_COMMAND if line.startswith(questions.BEFORE_COMMAND) else 1000)
                 for line in str(error).split("\n")]
        print("convert.py: " + "\n".join(lines), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("convert.py: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run("convert.py", main))
