#!/usr/bin/env python3
"""Train an encoder-decoder Transformer on parallel text and write it as a transformer.h model file.

Do this:

    python tools/train.py --train train.tsv --dev dev.tsv --out model.safetensors

`train.tsv` has one pair a line: source, TAB, target. Before the training starts, the program times a
few batches and prints how long the whole run will take. It writes a checkpoint every few minutes, so
you can stop it at any time and continue with `--resume`:

    python tools/train.py ... --resume            continue from the last checkpoint, with the same bits
    python tools/train.py ... --max-minutes 30    stop training after 30 minutes, then write the model
    python tools/train.py --evaluate model.safetensors --dev dev.tsv    print loss and BLEU of a model

The output is one file that the C library reads. It has the weights, both vocabularies, and the config
as JSON. A program that translates needs nothing else.

TEXT. Source text is cut into characters (Chinese, Japanese) or words. Target text is cut into
characters, words, or subword pieces, which this program learns with sentencepiece. A source token may
have several spellings. With `--fold-chinese`, each traditional, full-width or compatibility form of a
known character has the id of the simplified character, even if the training text lacks that form.

If a side's text is `sentencepiece`, the program learns a sentencepiece model (unigram, NFKC). The file
then has that model instead of a vocabulary, and the ids of its pieces are the token ids. With
`--share`, both languages have one model and one embedding:

    python tools/train.py ... --src-text sentencepiece --tgt-text sentencepiece --share \\
        --src-size 8000

STYLES, DIALECTS, LANGUAGES. The targets of the training text may begin with a token that names their
style or language: `<formal> ...`. `--forced '<formal>'` writes into the file that translations begin
with that token unless the caller chooses another one. The token produces no text. Dev targets should
begin with a token too: otherwise the dev loss counts it as an error.

STUDENTS. `--decoder ssru` replaces the self-attention of the decoder by a recurrence, as the students
of Firefox and Bergamot do. With `--marian`, the engines of Firefox and Bergamot can run the model too:

    python tools/train.py ... --src-text sentencepiece --tgt-text sentencepiece --share \\
        --decoder ssru --marian model.deen.intgemm.alphas.bin

STARTS. A run begins with random weights. With `--from-model` it begins with the weights, the shape and
the vocabularies of a model file, quantized or not. Use it to train a model further, on the same text
or on other text. With `--init identity`, attention begins by finding equal tokens at the same place
and copying them. A model of closely related languages with a shared vocabulary (`--share`; for example
classical and modern Chinese, dialects, or old and new spelling) then learns faster at first.

SMALL DATA. These options work against overfitting: three kinds of dropout, word dropout, label
smoothing, R-drop (`--r-drop`), and `--sample-pieces`, which cuts the sources into other pieces in each
epoch. At the end the program averages the weights of the last `--keep` evaluations and of the best
ones, scores the averages on the dev set, and writes the best. You may change options of the training
group when you resume, for example to begin with less dropout and to end with R-drop.

SPEED. On a CPU, `--amp` is faster only if the CPU has bfloat16 instructions. Two workers with one
thread each (`--workers 2`) are faster than one process with two threads. If time is your limit, use
`--max-minutes` together with `--cooldown-minutes`: the learning rate then reaches zero in time,
whatever the number of steps. The weights of the last step are then evaluated too.

The sections: vocabularies and data, model, model file, decoding, training, command line.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import math
import multiprocessing
import os
import random
import re
import shlex
import socket
import struct
import sys
import threading
import time
import unicodedata
from array import array
from collections import Counter, defaultdict
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from pairs import Pair, read_lines, read_pairs

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the package convert is beside this folder
from convert import marian_bin  # noqa: E402
from convert.printing import Parser  # noqa: E402
from convert.writer import check_target, write_file  # noqa: E402

# ------------------------------------------------------------------------ vocabularies and data
SPACE = "\u2581"  # represents whitespace inside a token, as in sentencepiece
SPECIAL = {"pad": "<pad>", "unk": "<unk>", "start": "<s>", "end": "</s>"}


class Vocabulary:
    """Maps tokens to ids and back. Each of `lines` has the spellings of one token, separated by TABs:
    encoding reads all of them, decoding writes the first. `mode` is "words", "characters", "pieces"
    or "sentencepiece"; `piece_model` is the sentencepiece model of the last. `special` has the ids of
    pad, unk, start and end; one that the vocabulary lacks is absent."""

    def __init__(self, lines: list[str], mode: str, special: dict[str, int],
                 piece_model: bytes | None = None):
        self.lines, self.mode, self.special, self.piece_model = lines, mode, special, piece_model
        self.pad, self.unk, self.start, self.end = (special.get(name) for name in SPECIAL)
        # Marian's vocabularies have no start token: its first target embedding is a row of zeros, so
        # any id does.
        self.first = self.end if self.start is None else self.start
        self.never = [i for i in (self.pad, self.unk, self.start) if i is not None]
        self.tokens = [line.split("\t")[0] for line in lines]
        self.ids: dict[str, int] = {}
        for i, line in enumerate(lines):
            for spelling in line.split("\t"):
                if self.ids.setdefault(spelling, i) != i:
                    raise ValueError(f"{spelling!r} is token {self.ids[spelling]} and token {i}")
        self.longest = max(map(len, self.ids))
        self.pieces = None
        if piece_model:
            import sentencepiece
            self.pieces = sentencepiece.SentencePieceProcessor(model_proto=piece_model)

    def __len__(self) -> int:
        return len(self.lines)

    def split(self, text: str) -> list[str]:
        """Cuts a text into tokens."""
        if self.mode == "words":
            return text.split()
        if self.mode == "characters":
            return list(SPACE.join(text.split()))
        if self.pieces is None:
            return self.split_longest(SPACE + SPACE.join(text.split()))
        return self.pieces.encode(text, out_type=str)

    def split_longest(self, text: str) -> list[str]:
        """Cuts a text into the pieces of a given vocabulary without a model: at each position it takes
        the longest piece that matches."""
        out, at = [], 0
        while at < len(text):
            fits = (n for n in range(self.longest, 0, -1) if text[at:at + n] in self.ids)
            n = next(fits, 1)
            out.append(text[at:at + n])
            at += n
        return out

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text. Raises ValueError for an unknown token if there is no id for
        one."""
        if self.mode == "sentencepiece":
            return self.pieces.encode(text)
        ids = [self.ids.get(t, self.unk) for t in self.split(text)]
        if None in ids:
            raise ValueError(f"{text!r}: a token is not in the vocabulary, which has no unknown")
        return ids

    def encode_ways(self, text: str, n: int) -> tuple[list[array], list[float]]:
        """Returns the `n` most likely ways to cut a text into pieces, and their log-probabilities."""
        ways = self.pieces.nbest_encode(text, nbest_size=n)
        scores = [sum(map(self.pieces.get_score, way)) for way in ways]
        return [array("i", way) for way in ways], scores

    def decode(self, ids: list[int]) -> str:
        """Returns the text of a list of ids."""
        if self.mode == "sentencepiece":
            return self.pieces.decode(ids)
        tokens = [self.tokens[i] for i in ids]
        if self.mode == "words":
            return " ".join(tokens)
        return "".join(tokens).replace(SPACE, " ").removeprefix(" ")

    def text(self) -> str:
        """Returns the vocabulary as the text that the model file has."""
        return "".join(line + "\n" for line in self.lines)


# OpenCC simplifies these spellings of Taiwan and Hong Kong only in some words. A single character
# has no word around it, so this table always replaces them.
REGIONAL = {"著": "着", "妳": "你", "牠": "它", "姊": "姐", "甚": "什"}


def chinese_folds() -> dict[str, str]:
    """Returns a map from each variant of a character to the character. It applies NFKC (full-width and
    compatibility forms), then traditional to simplified, until nothing changes."""
    import opencc
    simplify = opencc.OpenCC("t2s").convert
    folds = {}
    for code in range(0x80, 0x30000):
        c = chr(code)
        if unicodedata.category(c)[0] == "C":
            continue
        before, now = "", c
        while now != before and len(now) == 1:
            before, now = now, unicodedata.normalize("NFKC", now)
            if len(now) == 1 and ord(now) >= 0x2E80:
                now = simplify(REGIONAL.get(now, now))
        if len(now) == 1 and now != c and not now.isspace():
            folds[c] = now
    return folds


def find_special(lines: list[str], names: dict[str, str]) -> dict[str, int]:
    """Returns the ids of the special tokens that a vocabulary has, by name."""
    return {name: lines.index(token) for name, token in names.items() if token in lines}


def count_vocabulary(texts: list[str], mode: str, names: dict[str, str], size: int | None,
                     min_count: int, fold: bool = False) -> Vocabulary:
    """Makes a vocabulary of the `size` most frequent words or characters that occur at least
    `min_count` times. `fold` adds the Chinese variants of each character as spellings."""
    folds = chinese_folds() if fold else {}
    splitter = Vocabulary([""], mode, {})
    counts = Counter(folds.get(t, t) for text in texts for t in splitter.split(text))
    special = list(names.values())
    ranked = sorted((t for t in counts if counts[t] >= min_count and t not in special),
                    key=lambda t: (-counts[t], t))
    spellings = {t: [t] for t in special + ranked[:size and size - len(special)]}
    for variant, t in folds.items():
        if t in spellings:
            spellings[t].append(variant)
    lines = ["\t".join(s) for s in spellings.values()]
    return Vocabulary(lines, mode, find_special(lines, names))


PIECE_TEXTS = 300_000  # learn_pieces draws this many texts at random, because more take long


def learn_pieces(texts: list[str], kind: str, names: dict[str, str], size: int,
                 marian: bool = False, coverage: float = 1.0, rules: str = "nmt_nfkc",
                 prefix: bool = True) -> Vocabulary:
    """Learns subword pieces. `kind` is "unigram" or "bpe" for a vocabulary of pieces of the text as it
    is, or "sentencepiece" for a model with unigram pieces that normalizes text by `rules`. The most
    frequent characters, a share of `coverage` of the text, are pieces; others are written as bytes.
    `marian` orders the special tokens as Marian does: end, unknown, pad, and no start."""
    order = ("end", "unk", "pad") if marian else tuple(SPECIAL)
    ids = {f"{sp}_id": order.index(name) if name in order else -1
           for name, sp in zip(SPECIAL, ("pad", "unk", "bos", "eos"))}
    import sentencepiece
    out, whole = io.BytesIO(), kind == "sentencepiece"
    if len(texts) > PIECE_TEXTS:
        texts = random.Random(1).sample(texts, PIECE_TEXTS)
    rule = ("normalization_rule_tsv" if rules.endswith(".tsv") else "normalization_rule_name")
    ids |= {rule: rules} if whole else {"normalization_rule_name": "identity"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, model_type="unigram" if whole else kind,
        vocab_size=size, hard_vocab_limit=not whole, character_coverage=coverage,
        byte_fallback=coverage < 1, add_dummy_prefix=prefix, num_threads=1, minloglevel=2,
        pad_piece=names["pad"], unk_piece=names["unk"], bos_piece=names["start"],
        eos_piece=names["end"], **ids)
    return piece_vocabulary(out.getvalue(), names, "sentencepiece" if whole else "pieces")


def piece_vocabulary(piece_model: bytes, names: dict[str, str],
                     mode: str = "sentencepiece") -> Vocabulary:
    """Makes a vocabulary of the pieces of a sentencepiece model; finds special tokens by name."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_proto=piece_model)
    lines = [model.id_to_piece(i) for i in range(model.vocab_size())]
    return Vocabulary(lines, mode, find_special(lines, names), piece_model)


class Text(NamedTuple):
    """Turns the text of both sides into ids."""
    src: Vocabulary
    tgt: Vocabulary
    src_end: int | None = None  # the id that is added to every source
    forced: int | None = None   # the id that every translation begins with
    sentences: str = "split"    # what a pair has: a sentence, or a "whole" text

    def encode_source(self, text: str) -> list[int]:
        """Returns the ids of a source, with src_end."""
        return self.src.encode(text) + ([] if self.src_end is None else [self.src_end])

    def encode_pairs(self, pairs: list[Pair]) -> list["Example"]:
        """Returns the ids of pairs; those of targets with start and end."""
        start, end = [self.tgt.first], [self.tgt.end]
        return [Example(array("i", self.encode_source(s)),
                        array("i", start + self.tgt.encode(t) + end)) for s, t in pairs]


def read_vocabulary(path: str, mode: str, names: dict[str, str]) -> Vocabulary:
    """Reads a vocabulary file, or a sentencepiece model if that is the mode."""
    if mode == "sentencepiece":
        return piece_vocabulary(Path(path).read_bytes(), names)
    lines = read_lines(path)
    return Vocabulary(lines, mode, find_special(lines, names))


def build_text(args: argparse.Namespace, pairs: list[Pair]) -> Text:
    """Reads or learns the vocabularies that the command line asks for."""
    names = {name: getattr(args, name + "_token") for name in SPECIAL}
    source_names = names if args.share else {k: v for k, v in names.items() if k != "start"}
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    target_mode = "pieces" if args.tgt_text in ("unigram", "bpe") else args.tgt_text
    how = bool(args.marian), args.coverage, args.normalization, args.prefix
    if args.src_vocab:
        src = read_vocabulary(args.src_vocab, args.src_text, names)
    elif args.src_text == "sentencepiece":
        src = learn_pieces(sources + targets if args.share else sources, args.src_text, names,
                           args.src_size or args.tgt_size, *how)
    else:
        src = count_vocabulary(sources + targets if args.share else sources, args.src_text,
                               source_names, args.src_size, args.src_min_count, args.fold_chinese)
    if args.share:
        tgt = src
    elif args.tgt_vocab:
        tgt = read_vocabulary(args.tgt_vocab, target_mode, names)
    elif target_mode in ("pieces", "sentencepiece"):
        tgt = learn_pieces(targets, args.tgt_text, names, args.tgt_size, *how)
    else:
        tgt = count_vocabulary(targets, target_mode, names, args.tgt_size, args.tgt_min_count)
    if src.pad is None or None in (tgt.pad, tgt.end) or tgt.start is None and not args.marian:
        raise ValueError("the vocabularies lack a pad, start or end token; see --pad-token")
    return Text(src, tgt, src.end if args.src_end else None, sentences=args.sentences)


class Example(NamedTuple):
    src: array
    tgt: array  # with start and end


class Batch(NamedTuple):
    src: Tensor      # [B, S]
    tgt_in: Tensor   # [B, T]  start a b c
    tgt_out: Tensor  # [B, T]  a b c end

    def to(self, device: str) -> "Batch":
        return Batch(*(t.to(device) for t in self))


def pad_rows(rows: list, pad: int) -> Tensor:
    """Returns lists of ids as a tensor [rows, longest], filled up with `pad`."""
    out = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for row, ids in zip(out, rows):
        row[:len(ids)] = ids
    return torch.from_numpy(out)


def group_examples(examples: list[Example], tokens: int, rng: random.Random | None = None,
                   short_first: bool = False) -> list[list[int]]:
    """Groups examples of similar lengths into batches of at most `tokens` padded tokens on either
    side, and returns their numbers. With `rng`, the order of batches is random, and so is the choice
    among examples of one length. With `short_first`, batches of short examples tend to be early: the
    sort key of a batch is random, with a mean in proportion to its length."""
    order = list(range(len(examples)))
    if rng:
        rng.shuffle(order)

    def lengths(i: int) -> tuple[int, int]:
        """Sorts by target length. Source lengths rise for one target length and fall for the next:
        a batch across two target lengths then has similar source lengths, and little padding."""
        s, t = len(examples[i].src), len(examples[i].tgt)
        return t, -s if t % 2 else s

    groups, longest = [[]], 0
    for i in sorted(order, key=lengths):
        longest = max(longest, len(examples[i].src), len(examples[i].tgt))
        if groups[-1] and longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = max(len(examples[i].src), len(examples[i].tgt))
        groups[-1].append(i)
    if rng:
        rng.shuffle(groups)
    if short_first:
        groups.sort(key=lambda group: rng.expovariate(1 / max(map(len, examples[group[-1]]))))
    return groups


def make_batch(examples: list[Example], group: list[int], text: Text) -> Batch:
    """Returns the batch of the examples whose numbers are in `group`."""
    tgt = pad_rows([examples[i].tgt for i in group], text.tgt.pad)
    src = pad_rows([examples[i].src for i in group], text.src.pad)
    return Batch(src, tgt[:, :-1], tgt[:, 1:])


def make_batches(examples: list[Example], tokens: int, text: Text) -> Iterator[Batch]:
    """Yields all examples in batches, shortest first."""
    return (make_batch(examples, g, text) for g in group_examples(examples, tokens))


# --------------------------------------------------------------------------------------- model
# The names of the modules' attributes are the tensor names of the model file. state_dict() depends on
# them, so renaming an attribute would break reading and writing.
# Shapes: B batch, S source length, T target length, D model width, H heads.
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}


class Shape(NamedTuple):
    """Holds the sizes and settings of a model: everything except its weights and vocabularies."""
    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 256
    n_heads: int = 4
    d_key: int = 64    # of one head
    d_value: int = 64  # of one head
    d_ff: int = 1024
    n_encoder_layers: int = 3
    n_decoder_layers: int = 3
    norm: str = "pre"
    activation: str = "relu"
    positions: str = "sinusoidal"
    embedding_scale: str | float = "sqrt_d"
    bias: bool = True
    plain_norm: bool = False  # norms without weight and bias
    tie: bool = True          # the output layer is the target embedding
    share: bool = False       # one embedding for both sides
    max_length: int = 512     # rows of the position table
    decoder: str = "attention"        # self-attention of the decoder, or "ssru": a recurrence
    position_divisor: str = "d"       # for sinusoidal_halves also "d/2-1", as in Marian
    layer_norm_eps: float = 1e-5
    start_embedding: str = "token"    # or "zero": the first target position has an embedding of zeros


# Settings that Marian's engines always use. --marian sets them.
MARIAN = dict(norm="post", positions="sinusoidal_halves", embedding_scale="sqrt_d",
              position_divisor="d/2-1", layer_norm_eps=1e-6, start_embedding="zero")


class Dropout(NamedTuple):
    """Holds the probabilities of the three kinds of dropout."""
    residual: float = 0.0
    attention: float = 0.0
    activation: float = 0.0


RANDOM_BYTES = np.random.Generator(np.random.SFC64(1))


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Applies dropout. On a CPU it makes the mask from random bytes, so `p` is rounded to a 256th:
    PyTorch's own masks take a third of the time of a step there."""
    if not p or not training:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    limit = round(256 * p)
    mask = np.frombuffer(RANDOM_BYTES.bytes(x.numel()), np.uint8) >= limit
    return x * torch.from_numpy(mask).view_as(x).to(x.dtype).mul_(256 / (256 - limit))


def position_table(kind: str, n: int, d: int, divisor: str = "d") -> Tensor:
    """Returns the position table [n, D] that is added to the embeddings."""
    if kind == "sinusoidal_per_index":  # each column has its own frequency; row 0 is all zeros
        p = torch.arange(n, dtype=torch.float64).unsqueeze(1)
        table = p / 10000.0 ** (2.0 * torch.arange(d, dtype=torch.float64) / d)
        table[1:, 0::2] = table[1:, 0::2].sin()
        table[1:, 1::2] = table[1:, 1::2].cos()
        return table.float()
    p = torch.arange(n, dtype=torch.float32).unsqueeze(1)
    rate = -(math.log(10000.0) / (d - 2 if divisor == "d/2-1" else d))
    angle = p * torch.exp(torch.arange(0, d, 2, dtype=torch.float32) * rate)
    if kind == "sinusoidal_halves":
        return torch.cat([angle.sin(), angle.cos()], 1)[:, :d]
    return torch.stack([angle.sin(), angle.cos()], 2).reshape(n, -1)[:, :d]


def plain_attention(q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, drop: float,
                    causal: bool) -> Tensor:
    """Computes F.scaled_dot_product_attention by its definition. For short rows in bfloat16 on a CPU,
    the gradients of PyTorch's own function take four times as long: a quarter of a step."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:  # as in PyTorch's function, there is no other mask then
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    return dropout(scores.softmax(-1), drop, True) @ v


class Attention(nn.Module):
    """Multi-head attention. The projections are one packed matrix if keys and values are D wide."""

    def __init__(self, s: Shape, drop: Dropout):
        super().__init__()
        self.heads, self.drop = s.n_heads, drop.attention
        keys, values = s.n_heads * s.d_key, s.n_heads * s.d_value
        self.packed = keys == values == s.d_model
        if self.packed:
            self.in_proj_weight = nn.Parameter(torch.empty(3 * s.d_model, s.d_model))
            self.in_proj_bias = nn.Parameter(torch.zeros(3 * s.d_model)) if s.bias else None
        else:
            self.q_proj = nn.Linear(s.d_model, keys, s.bias)
            self.k_proj = nn.Linear(s.d_model, keys, s.bias)
            self.v_proj = nn.Linear(s.d_model, values, s.bias)
        self.out_proj = nn.Linear(values, s.d_model, s.bias)
        if s.bias:
            self.hold_key_bias(s.d_model)

    def hold_key_bias(self, d: int) -> None:
        """Sets the gradient of the keys' bias to 0. Softmax does not depend on this bias, so its computed
        gradient consists of rounding errors. AdamW divides each gradient by its size: in a run of 20,000
        steps in bfloat16, the rounding errors moved the bias to 16."""
        if self.packed:
            keys = torch.arange(3 * d) // d == 1
            self.in_proj_bias.register_hook(lambda grad: grad.masked_fill(keys.to(grad.device), 0))
        else:
            self.k_proj.bias.register_hook(torch.zeros_like)

    def project(self, query: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """Returns queries, keys and values; with one product if `query` is `memory`."""
        if not self.packed:
            return self.q_proj(query), self.k_proj(memory), self.v_proj(memory)
        w, b, d = self.in_proj_weight, self.in_proj_bias, query.shape[-1]
        if query is memory:
            return F.linear(query, w, b).chunk(3, -1)
        bq, bkv = (None, None) if b is None else (b[:d], b[d:])
        return F.linear(query, w[:d], bq), *F.linear(memory, w[d:], bkv).chunk(2, -1)

    def forward(self, query: Tensor, memory: Tensor, keep: Tensor | None,
                causal: bool = False) -> Tensor:
        """Returns the attention [B, T, D] of `query` [B, T, D] to `memory` [B, S, D]. `keep`
        [B, 1, 1, S] is True for keys that are visible."""
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for t in self.project(query, memory))
        drop = self.drop if self.training else 0.0
        if q.device.type == "cpu" and q.dtype == torch.bfloat16:
            x = plain_attention(q, k, v, keep, drop, causal)
        else:
            x = F.scaled_dot_product_attention(q, k, v, keep, drop, is_causal=causal)
        return self.out_proj(x.transpose(1, 2).flatten(2))


def make_norm(s: Shape) -> nn.LayerNorm:
    return nn.LayerNorm(s.d_model, s.layer_norm_eps, elementwise_affine=not s.plain_norm)


class Layer(nn.Module):
    """An encoder layer or, with `cross`, a decoder layer. Each sublayer has a residual and a norm."""

    def __init__(self, s: Shape, drop: Dropout, cross: bool):
        super().__init__()
        self.pre, self.activation, self.drop = s.norm == "pre", ACTIVATIONS[s.activation], drop
        self.recurrent = cross and s.decoder == "ssru"
        if self.recurrent:
            self.ssru = nn.Linear(s.d_model, s.d_model, bias=False)
            self.ssru_gate = nn.Linear(s.d_model, s.d_model)
        else:
            self.self_attn = Attention(s, drop)
        if cross:
            self.multihead_attn = Attention(s, drop)
        self.linear1 = nn.Linear(s.d_model, s.d_ff, s.bias)
        self.linear2 = nn.Linear(s.d_ff, s.d_model, s.bias)
        self.norm1, self.norm2 = make_norm(s), make_norm(s)
        if cross:
            self.norm3 = make_norm(s)

    def part(self, x: Tensor, norm: nn.Module, function: Callable[[Tensor], Tensor]) -> Tensor:
        y = function(norm(x) if self.pre else x)
        x = x + dropout(y, self.drop.residual, self.training)
        return x if self.pre else norm(x)

    def remember(self, x: Tensor) -> Tensor:
        """Computes the SSRU, a recurrence that replaces self-attention: a step needs only D numbers
        from the steps before it (Kim et al. 2019, "From Research to Production and Back")."""
        gate = self.ssru_gate(x).sigmoid()
        kept, rows = torch.zeros_like(x[:, 0]), []
        for forget, new in zip(gate.unbind(1), ((1 - gate) * self.ssru(x)).unbind(1)):
            kept = forget * kept + new
            rows.append(kept)
        return torch.stack(rows, 1).relu()

    def feed_forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.linear1(x))
        return self.linear2(dropout(hidden, self.drop.activation, self.training))

    def forward(self, x: Tensor, keep: Tensor | None, memory: Tensor | None = None) -> Tensor:
        """Runs the layer. `keep` masks source keys: those of self-attention in an encoder layer, those
        of cross-attention in a decoder layer."""
        if memory is None:
            x = self.part(x, self.norm1, lambda y: self.self_attn(y, y, keep))
            return self.part(x, self.norm2, self.feed_forward)
        x = self.part(x, self.norm1, self.remember if self.recurrent else
                      lambda y: self.self_attn(y, y, None, causal=True))
        x = self.part(x, self.norm2, lambda y: self.multihead_attn(y, memory, keep))
        return self.part(x, self.norm3, self.feed_forward)


class Stack(nn.Module):
    """The encoder or the decoder: `n` layers, and with pre-norm a norm at the end."""

    def __init__(self, s: Shape, drop: Dropout, n: int, cross: bool):
        super().__init__()
        self.layers = nn.ModuleList(Layer(s, drop, cross) for _ in range(n))
        # A plain norm has no tensor, so a reader of the file could not know that there is a norm at
        # the end. The stack must not have one then.
        self.norm = make_norm(s) if s.norm == "pre" and not s.plain_norm else None

    def forward(self, x: Tensor, keep: Tensor | None, memory: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, keep, memory)
        return x if self.norm is None else self.norm(x)


class Generator(nn.Module):
    """The output layer. Without a weight of its own (`tie`) it uses the target embedding."""

    def __init__(self, s: Shape):
        super().__init__()
        own = torch.empty(s.tgt_vocab_size, s.d_model)
        self.weight = None if s.tie else nn.Parameter(own)
        self.bias = nn.Parameter(torch.zeros(s.tgt_vocab_size)) if s.bias else None

    def forward(self, x: Tensor, embedding: Tensor, some: Tensor | None = None,
                shift: Tensor | None = None) -> Tensor:
        """Returns the logits of all tokens, or only of the ids in `some`, plus `shift`."""
        w, bias = embedding if self.weight is None else self.weight, self.bias
        if some is not None:
            w, bias = w[some], shift if bias is None else bias[some] + shift
        return F.linear(x, w, bias)


class Transformer(nn.Module):
    """The whole model."""

    def __init__(self, s: Shape, src_pad: int, drop: Dropout = Dropout()):
        super().__init__()
        self.shape, self.drop, self.src_pad = s, drop, src_pad
        scaled = s.embedding_scale == "sqrt_d"
        self.scale = math.sqrt(s.d_model) if scaled else float(s.embedding_scale)
        self.src_embedding = nn.Embedding(s.src_vocab_size, s.d_model)
        self.tgt_embedding = None if s.share else nn.Embedding(s.tgt_vocab_size, s.d_model)
        if s.positions == "learned":
            self.src_positions = nn.Embedding(s.max_length, s.d_model)
            self.tgt_positions = nn.Embedding(s.max_length, s.d_model)
        elif s.positions != "none":
            table = position_table(s.positions, s.max_length, s.d_model, s.position_divisor)
            self.register_buffer("table", table, persistent=False)
        self.encoder = Stack(s, drop, s.n_encoder_layers, cross=False)
        self.decoder = Stack(s, drop, s.n_decoder_layers, cross=True)
        self.generator = Generator(s)
        for name, p in self.named_parameters():
            if "embedding" in name or "positions" in name:
                nn.init.normal_(p, std=s.d_model ** -0.5 if scaled else 1.0)
            elif p.dim() > 1:
                nn.init.xavier_uniform_(p)

    @torch.no_grad()
    def begin_with_identity(self) -> None:
        """Adds a part of the identity matrix to the query and key projections of all attentions, and
        to the value and output projections of cross-attention. Equal tokens then attend to each other,
        and the decoder copies what it attends to. This is mimetic initialization (Trockman & Kolter
        2023), applied to two languages with one vocabulary."""
        d = self.shape.d_model
        for name, part in self.named_modules():
            if not isinstance(part, Attention):
                continue
            cross, eye = name.endswith("multihead_attn"), torch.eye(d)
            query, key, value = part.in_proj_weight.mul_(0.5).split(d)
            query.add_(eye, alpha=0.7 if cross else 0.5)
            key.add_(eye, alpha=0.7 if cross else 0.5)
            if cross:
                value.add_(eye, alpha=0.7)
                part.out_proj.weight.mul_(0.5).add_(eye, alpha=0.7)

    def embed(self, ids: Tensor, side: str) -> Tensor:
        """Returns scaled embeddings plus positions [B, T, D]. `side` is "src" or "tgt"."""
        shared = side == "src" or self.tgt_embedding is None
        x = self.scale * (self.src_embedding if shared else self.tgt_embedding)(ids)
        if side == "tgt" and self.shape.start_embedding == "zero":
            x = torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], 1)
        if self.shape.positions == "learned":
            x = x + getattr(self, side + "_positions").weight[:ids.shape[1]]
        elif self.shape.positions != "none":
            x = x + self.table[:ids.shape[1]]
        return dropout(x, self.drop.residual, self.training)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the encoder's output [B, S, D] for `src` [B, S], and the mask of visible keys, which
        is None if there are no pads."""
        keep = (src != self.src_pad)[:, None, None, :]
        keep = None if keep.all() else keep
        return self.encoder(self.embed(src, "src"), keep), keep

    def decode(self, tgt: Tensor, memory: Tensor, keep: Tensor | None) -> Tensor:
        """Returns the decoder's output [B, T, D] for `tgt` [B, T]. It needs no mask for target pads:
        they are after the last real token, so causal attention hides them."""
        return self.decoder(self.embed(tgt, "tgt"), keep, memory)

    def logits(self, x: Tensor, some: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
        """Returns the logits of decoder output `x`; see Generator.forward."""
        return self.generator(x, (self.tgt_embedding or self.src_embedding).weight, some, shift)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.logits(self.decode(tgt, *self.encode(src)))


# ---------------------------------------------------------------------------------- model file
DTYPES = {"f32": ("F32", torch.float32), "f16": ("F16", torch.float16),
          "bf16": ("BF16", torch.bfloat16), "int8": ("I8", torch.int8)}


def make_config(s: Shape, text: Text) -> dict:
    """Returns the config of the model file. It leaves out what has the library's default value."""
    config = {key: getattr(s, key) for key in (
        "n_heads", "d_model", "d_ff", "d_key", "d_value", "n_encoder_layers", "n_decoder_layers",
        "src_vocab_size", "tgt_vocab_size", "norm", "activation", "positions", "embedding_scale")}
    if s.positions == "sinusoidal_per_index":
        config["position_precision"] = "double"
    config.update((key, getattr(s, key)) for key, usual in Shape._field_defaults.items()
                  if key in ("position_divisor", "layer_norm_eps", "start_embedding")
                  and getattr(s, key) != usual)
    ids = {"src_pad": text.src.pad, "tgt_pad": text.tgt.pad, "src_unk": text.src.unk,
           "tgt_unk": text.tgt.unk, "src_end": text.src_end, "start": text.tgt.start,
           "end": text.tgt.end, "forced": text.forced}
    config.update((key, i) for key, i in ids.items() if i is not None)
    config.update(suppressed=text.tgt.never, src_text=text.src.mode, tgt_text=text.tgt.mode,
                  sentences=text.sentences)
    return config


def write_model_file(path: str, model: Transformer, text: Text, dtype: str = "f32") -> None:
    """Writes a model as one safetensors file. Data begins at a multiple of 64 bytes, and F32 tensors
    are first, so each tensor is aligned to its elements. Vectors stay F32: they are small, and
    rounding harms biases and norms most. With int8, learned positions stay F32 too. int8 is the same
    as build/quantize makes it: each row is multiplied by 127 / its absmax and rounded."""
    tensors = []

    def put(name: str, t: Tensor, dtype: str) -> None:
        code, kind = DTYPES[dtype]
        data = t.to(kind).contiguous().view(torch.uint8).numpy().tobytes()
        tensors.append((name, code, list(t.shape), data))

    for name, t in model.state_dict().items():
        t = t.detach().cpu().float()
        if t.dim() < 2 or dtype == "int8" and "positions" in name:
            put(name, t, "f32")
        elif dtype != "int8":
            put(name, t, dtype)
        else:
            most = t.abs().amax(1)
            put(name + "_scale", most / 127, "f32")
            factor = torch.where(most > 0, 127 / most, 0.0)
            put(name, (t * factor[:, None]).round(), "int8")
    tensors.sort(key=lambda t: t[1] != "F32")
    for side, vocabulary in (("src", text.src), ("tgt", text.tgt)):
        if side == "tgt" and vocabulary is text.src:
            continue
        name, data = side + "_vocabulary", vocabulary.text().encode()
        if vocabulary.mode == "sentencepiece":
            name, data = side + "_sentencepiece", vocabulary.piece_model
        tensors.append((name, "U8", [len(data)], data))
    header: dict[str, dict] = {
        "__metadata__": {"transformer.config": json.dumps(make_config(model.shape, text))}}
    at = 0
    for name, code, shape, data in tensors:
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-(8 + len(head)) % 64)
    try:
        write_file(path, [struct.pack("<Q", len(head)) + head],
                   (data for _, _, _, data in tensors))
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror or error}") from None


def read_model_file(path: str) -> tuple[Transformer, Text]:
    """Reads a file of write_model_file, or one that tools/quantize made of such a file, as a PyTorch
    model."""
    from safetensors import safe_open
    with safe_open(path, "pt") as f:
        config = json.loads(f.metadata()["transformer.config"])
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    for name in [name for name in tensors if name.endswith("_scale")]:  # int8: one scale for each row
        matrix = name.removesuffix("_scale")
        tensors[matrix] = tensors[matrix].float() * tensors.pop(name)[:, None]

    def vocabulary(side: str) -> Vocabulary:
        mode = config[side + "_text"]
        whole = mode == "sentencepiece"
        data = bytes(tensors.pop(side + ("_sentencepiece" if whole else "_vocabulary")).numpy())
        keys = {"pad": side + "_pad", "unk": side + "_unk", "start": "start", "end": "end"}
        special = {name: config[key] for name, key in keys.items() if key in config}
        if whole:
            return Vocabulary(piece_vocabulary(data, {}).lines, mode, special, data)
        return Vocabulary(data.decode().removesuffix("\n").split("\n"), mode, special)

    src = vocabulary("src")
    own = {"tgt_vocabulary", "tgt_sentencepiece"} & tensors.keys()
    tgt = vocabulary("tgt") if own else src
    shape = Shape(**{key: v for key, v in config.items() if key in Shape._fields})._replace(
        bias="encoder.layers.0.linear1.bias" in tensors, tie="generator.weight" not in tensors,
        plain_norm="encoder.layers.0.norm1.weight" not in tensors,
        decoder="ssru" if "decoder.layers.0.ssru.weight" in tensors else "attention",
        share="tgt_embedding.weight" not in tensors)
    if shape.positions == "learned":
        shape = shape._replace(max_length=len(tensors["src_positions.weight"]))
    model = Transformer(shape, src.pad)
    model.load_state_dict({name: t.float() for name, t in tensors.items()})
    return model.eval(), Text(src, tgt, config.get("src_end"), config.get("forced"),
                              config.get("sentences", "split"))


@torch.inference_mode()
def largest_inputs(model: Transformer, text: Text, pairs: list[Pair]) -> dict[str, float]:
    """Estimates the largest absolute input of each matrix product, by Marian's name of the matrix.
    Marian calls this alphas and quantizes activations with it. The estimate is that of Marian: over
    batches, the mean of the largest value plus 1.1 standard deviations."""
    seen: dict[tuple[int, int], list[float]] = defaultdict(list)
    linear = F.linear

    def watch(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        place = weight.untyped_storage().data_ptr(), weight.storage_offset()
        seen[place].append(x.abs().max().item())
        return linear(x, weight, bias)

    model.eval()
    device, F.linear = next(model.parameters()).device, watch
    try:
        for batch in make_batches(text.encode_pairs(pairs), 1000, text):
            model(*batch.to(device)[:2])
    finally:
        F.linear = linear
    parameters = dict(model.named_parameters())

    def largest(name: str, rows: int = 0) -> float:
        weight = parameters[name]
        place = weight.untyped_storage().data_ptr(), rows * weight.shape[1]
        found = seen.get(place) or seen[place[0], 0]
        return float(np.mean(found) + 1.1 * np.std(found))

    s, out = model.shape, {}
    table = "Wemb" if s.share else "decoder_Wemb"
    out[table if s.tie else "decoder_ff_logit_out_W"] = largest(
        "generator.weight" if not s.tie else f"{'src' if s.share else 'tgt'}_embedding.weight")
    # An embedding that is only looked up has no input; Marian's file has an entry for it anyway.
    out.setdefault("Wemb" if s.share else "encoder_Wemb", 1.0)
    out.setdefault(table, 1.0)
    for side, n in (("encoder", s.n_encoder_layers), ("decoder", s.n_decoder_layers)):
        for at in range(n):
            new, old = f"{side}_l{at + 1}", f"{side}.layers.{at}"
            for part, name in (("self", "self_attn"), ("context", "multihead_attn")):
                if f"{old}.{name}.in_proj_weight" in parameters:
                    for letter, rows in (("q", 0), ("k", s.d_model), ("v", s.d_model)):
                        out[f"{new}_{part}_W{letter}"] = largest(f"{old}.{name}.in_proj_weight", rows)
                    out[f"{new}_{part}_Wo"] = largest(f"{old}.{name}.out_proj.weight")
            if f"{old}.ssru.weight" in parameters:
                out[f"{new}_rnn_W"] = largest(f"{old}.ssru.weight")
                out[f"{new}_rnn_Wf"] = largest(f"{old}.ssru_gate.weight")
            for one in "12":
                out[f"{new}_ffn_W{one}"] = largest(f"{old}.linear{one}.weight")
    return out


# ------------------------------------------------------------------------------------ decoding
@torch.inference_mode()
def greedy(model: Transformer, src: Tensor, tgt: Vocabulary,
           forced: int | None = None) -> list[list[int]]:
    """Decodes each row of `src` greedily, and returns the ids without start, forced and end. A row
    ends after twice as many tokens as its source has, plus 16, as in the C library."""
    memory, keep = model.encode(src)
    caps = (2 * (src != model.src_pad).sum(1) + 16).clamp(max=model.shape.max_length)
    begin = [tgt.first] if forced is None else [tgt.first, forced]
    ids = torch.tensor([begin] * len(src), device=src.device)
    rows: list[list[int]] = [[] for _ in range(len(src))]
    at = torch.arange(len(src), device=src.device)  # the rows that have not ended
    while len(at):
        logits = model.logits(model.decode(ids, memory, keep)[:, -1])
        logits[:, tgt.never] = -math.inf
        best = logits.argmax(-1)
        go_on = best != tgt.end
        at, ids = at[go_on], torch.cat([ids, best[:, None]], 1)[go_on]
        memory, keep = memory[go_on], None if keep is None else keep[go_on]
        for i, row in zip(at.tolist(), ids[:, len(begin):].tolist()):
            rows[i] = row
        go_on = caps[at] > ids.shape[1] - 1
        at, ids, memory = at[go_on], ids[go_on], memory[go_on]
        keep = None if keep is None else keep[go_on]
    return rows


def translate(model: Transformer, text: Text, sources: list[str], rows: int = 64) -> list[str]:
    """Returns the greedy translation of each source. It decodes sources of similar length together, so
    there is little padding."""
    device = next(model.parameters()).device
    ids = [text.encode_source(s) for s in sources]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = [""] * len(ids)
    for at in range(0, len(order), rows):
        part = order[at:at + rows]
        src = pad_rows([ids[i] for i in part], text.src.pad).to(device)
        for i, row in zip(part, greedy(model, src, text.tgt, text.forced)):
            out[i] = text.tgt.decode(row)
    return out


class Score(NamedTuple):
    """Holds the scores of a model on the dev set."""
    loss: float  # cross-entropy per target token, without label smoothing
    bleu: float
    chrf: float
    signature: str
    outputs: list[str]


def evaluate(model: Transformer, text: Text, pairs: list[Pair], tokenize: str) -> Score:
    """Scores a model on pairs. `tokenize` names sacrebleu's tokenizer for BLEU."""
    import sacrebleu
    model.eval()
    device, total, count = next(model.parameters()).device, 0.0, 0
    with torch.inference_mode():
        for batch in make_batches(text.encode_pairs(pairs), 4096, text):
            batch = batch.to(device)
            real = batch.tgt_out != text.tgt.pad
            logits = model(batch.src, batch.tgt_in)[real]
            total += F.cross_entropy(logits, batch.tgt_out[real], reduction="sum").item()
            count += int(real.sum())
    outputs = translate(model, text, [s for s, _ in pairs])
    metric, references = sacrebleu.metrics.BLEU(tokenize=tokenize), [[t for _, t in pairs]]
    bleu = metric.corpus_score(outputs, references).score
    chrf = sacrebleu.metrics.CHRF().corpus_score(outputs, references).score
    return Score(total / count, bleu, chrf, str(metric.get_signature()), outputs)


def report_file(path: str, pairs: list[Pair], tokenize: str, text: Text | None = None,
                show: int = 0) -> None:
    """Reads a model file and prints its scores, so they include the rounding of the weights. With a
    vocabulary of pieces the loss needs the `text` of the training, because the file does not say how
    the training text was cut into pieces."""
    model, file_text = read_model_file(path)
    score = evaluate(model, text or file_text, pairs, tokenize)
    parameters = sum(p.numel() for p in model.parameters())
    loss = f"loss {score.loss:.3f} " if text or file_text.tgt.mode != "pieces" else ""
    say(f"{path}: {Path(path).stat().st_size:,} bytes, {parameters:,} parameters, "
        f"dev {loss}BLEU {score.bleu:.2f} [{score.signature}] chrF {score.chrf:.1f}")
    for (source, target), output in list(zip(pairs, score.outputs))[:show]:
        print(f"  {source}\n    reference {target}\n    output    {output}")


# ------------------------------------------------------------------------------------ training
def say(what: str) -> None:
    """Prints a line with the time of day."""
    print(time.strftime("%H:%M:%S"), what, flush=True)


def clock(seconds: float) -> str:
    """Returns a duration as minutes:seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def seed_all(*numbers: int) -> None:
    """Seeds all random generators. Called before each step, so a resumed run draws the same numbers."""
    RANDOM_BYTES.bit_generator.state = np.random.SFC64(numbers).state
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))


def save(state: dict, path: Path) -> None:
    """Writes a state as a whole or not at all."""
    file = io.BytesIO()
    torch.save(state, file)
    write_file(path, [file.getbuffer()])


def load(path: Path, device: str) -> dict:
    """Reads what save wrote. The folder may be untrusted: weights_only keeps pickles in it from
    running code."""
    try:
        state = torch.load(path, device, weights_only=True)
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # a broken or hostile pickle can make the unpickler raise anything
        raise SystemExit(f"{path} is no checkpoint of this program, or it contains Python objects, "
                         f"which could run code ({type(error).__name__})") from None
    if not isinstance(state, dict):
        raise SystemExit(f"{path} is no checkpoint of this program: it is not a dictionary")
    return state


def read_checkpoint(path: Path, device: str) -> dict:
    """Reads a checkpoint and checks that it is complete and names only files of its folder."""
    state = load(path, device)
    needed = (*Trainer.COUNTERS, "model", "optimizer", "src_end", "vocabularies")
    missing = [key for key in needed if key not in state]
    if missing:
        raise SystemExit(f"{path} is no checkpoint of this program: {missing[0]} is missing")
    for entry in state["history"]:
        if not re.fullmatch(r"step-\d+\.pt", str(entry["file"])):
            raise SystemExit(f"{path}: its history names the file {str(entry['file'])!r}; expected "
                             "step-NUMBER.pt in the same folder")
    return state


def blank_words(ids: Tensor, p: float, unk: int | None, spare: list[int | None]) -> Tensor:
    """Applies word dropout: replaces each token by the unknown token with probability `p`, except the
    ids in `spare`."""
    if not p or unk is None:
        return ids
    drop = torch.rand(ids.shape, device=ids.device) < p
    for i in spare:
        if i is not None:
            drop &= ids != i
    return ids.masked_fill(drop, unk)


class SmoothedCrossEntropy(torch.autograd.Function):
    """Computes the mean of F.cross_entropy with label smoothing, and its gradient at the same time. It
    works on a few rows at a time, which stay in the CPU's cache. PyTorch's function reads all logits
    many times, which is a third of a step with a vocabulary of some thousand tokens."""

    ROWS = 64

    @staticmethod
    def forward(ctx, logits: Tensor, gold: Tensor, smoothing: float) -> Tensor:
        """Returns the mean loss of `logits` [N, V], of any float type, for the ids `gold` [N]."""
        n, size = logits.shape
        rows = SmoothedCrossEntropy.ROWS if logits.device.type == "cpu" else max(n, 1)
        grad, losses = torch.empty_like(logits), torch.empty(n, device=logits.device)
        for at in range(0, n, rows):
            part = slice(at, at + rows)
            x, which = logits[part].float(), gold[part, None]
            x = x - x.amax(-1, keepdim=True)
            right, mean = x.gather(-1, which), x.mean(-1, keepdim=True)
            x = x.exp_()
            total = x.sum(-1, keepdim=True)
            losses[part] = (total.log() - (1 - smoothing) * right - smoothing * mean)[:, 0]
            x.mul_(1 / (n * total)).sub_(smoothing / (n * size))
            grad[part] = x.scatter_add_(-1, which, torch.full_like(right, (smoothing - 1) / n))
        ctx.save_for_backward(grad)
        return losses.mean()

    @staticmethod
    def backward(ctx, above: Tensor) -> tuple[Tensor, None, None]:
        return ctx.saved_tensors[0].mul_(above), None, None


class Trainer:
    """Holds the state of one run. Each worker has a Trainer, with the same weights and its own share
    of the batches. Worker 0 also prints, evaluates and saves."""

    def __init__(self, args: argparse.Namespace, text: Text, train: list[Pair], dev: list[Pair],
                 worker: int = 0, start: Transformer | None = None):
        self.args, self.text, self.dev_pairs = args, text, dev
        self.worker, self.work = worker, Path(args.work or args.out + ".work")
        shape = Shape(
            len(text.src), len(text.tgt), args.d_model, args.heads,
            args.d_key or args.d_model // args.heads, args.d_value or args.d_model // args.heads,
            args.d_ff, args.encoder_layers, args.decoder_layers, args.norm, args.activation,
            args.positions, args.embedding_scale, not args.no_bias, args.plain_norm, args.tie,
            args.share, args.max_length, args.decoder)
        if args.marian:
            shape = shape._replace(**MARIAN)
        if start:
            shape = start.shape
        drop = Dropout(args.dropout, args.attention_dropout, args.activation_dropout)
        self.model = Transformer(shape, text.src.pad, drop)
        if start:
            self.model.load_state_dict(start.state_dict())
        elif args.init == "identity":
            self.model.begin_with_identity()
        self.model.to(args.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, betas=(0.9, args.beta2), eps=1e-9,
            weight_decay=args.weight_decay, fused=True)
        parameters = list(self.model.parameters())
        # All gradients are in one tensor, which workers add up in one call. The two extra elements
        # carry the wish to stop and the clock of worker 0, see average_gradients.
        self.flat_grads = torch.zeros(sum(p.numel() for p in parameters) + 2, device=args.device)
        at = 0
        for p in parameters:
            p.grad = self.flat_grads[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.epoch, self.batch_in_epoch, self.step, self.seconds = 0, 0, 0, 0.0
        # The seconds of worker 0 at the last step. Workers must all use the same number: with its own
        # clock each would have another learning rate, and their weights would differ.
        self.agreed_seconds = 0.0
        self.steps_an_epoch, self.train_loss = 1, math.nan
        self.history: list[dict] = []  # one entry for each evaluation
        self.examples = self.drawn = text.encode_pairs(train)  # drawn: as cut in this epoch
        self.ways = None  # for --sample-pieces: the ways to cut each source, and their weights
        if args.sample_pieces:
            ways = (text.src.encode_ways(source, args.ways) for source, _ in train)
            self.ways = [(w, [math.exp(args.sample_pieces * (x - scores[0])) for x in scores])
                         for w, scores in ways]

    def say(self, what: str) -> None:
        """Prints a line, in worker 0 only."""
        if self.worker == 0:
            say(what)

    # One step

    def learning_rate(self) -> float:
        """Returns the learning rate of the next step: a linear warm-up, then the inverse square root of
        the step. The cooldown, in epochs or minutes, multiplies it by a factor that falls to 0."""
        args, n = self.args, self.step + 1
        todo = args.epochs - self.epoch - self.batch_in_epoch / self.steps_an_epoch
        fade = min(1.0, todo / args.cooldown) if args.cooldown else 1.0
        if args.cooldown_minutes:
            left = args.max_minutes - self.agreed_seconds / 60
            fade *= min(1.0, max(0.0, left / args.cooldown_minutes))
        return args.lr * fade * min(n / args.warmup, math.sqrt(args.warmup / n))

    def loss(self, batch: Batch) -> Tensor:
        """Returns the smoothed cross-entropy per token. With R-drop each pair is in the batch twice,
        and the loss also has the distance between the two predictions, which differ only by dropout."""
        args, src_voc, tgt_voc = self.args, self.text.src, self.text.tgt
        src, tgt_in, gold = batch
        if args.r_drop:
            src, tgt_in, gold = src.repeat(2, 1), tgt_in.repeat(2, 1), gold.repeat(2, 1)
        src = blank_words(src, args.word_dropout, src_voc.unk, [src_voc.pad, self.text.src_end])
        tgt_in = blank_words(tgt_in, args.word_dropout, tgt_voc.unk, [tgt_voc.pad, tgt_voc.start])
        real = gold != tgt_voc.pad
        amp = torch.autocast(args.device, torch.bfloat16) if args.amp else contextlib.nullcontext()
        with amp:
            hidden = self.model.decode(tgt_in, *self.model.encode(src))
            hidden, gold = hidden[real], gold[real]
            if args.negatives:
                logits, gold = self.some_logits(hidden, gold)
            else:
                logits = self.model.logits(hidden)
        loss = SmoothedCrossEntropy.apply(logits, gold, args.label_smoothing)
        if args.r_drop:
            p, q = F.log_softmax(logits.float(), -1).chunk(2)
            apart = (F.kl_div(p, q, log_target=True, reduction="sum")
                     + F.kl_div(q, p, log_target=True, reduction="sum"))
            loss = loss + args.r_drop * apart / 4 / len(p)
        return loss

    def some_logits(self, hidden: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Computes a sampled softmax (Jean et al. 2015). Returns the logits of the batch's targets and
        of --negatives other tokens, and the position of each target among them. The logits of the
        other tokens are shifted by log(all others / drawn others), so the expected sum over the drawn
        tokens is the sum over all tokens."""
        size = len(self.text.tgt)
        wanted = torch.zeros(size, dtype=torch.bool, device=gold.device)
        wanted[gold] = True
        others = (~wanted).nonzero()[:, 0]
        drawn = others[torch.randperm(len(others), device=gold.device)[:self.args.negatives]]
        some = torch.cat([wanted.nonzero()[:, 0], drawn])
        place = torch.empty(size, dtype=torch.long, device=gold.device)
        place[some] = torch.arange(len(some), device=gold.device)
        shift = torch.zeros(len(some), device=gold.device)
        if len(drawn):
            shift[-len(drawn):] = math.log(len(others) / len(drawn))
        return self.model.logits(hidden, some, shift), place[gold]

    def average_gradients(self, stop: bool) -> bool:
        """Averages the gradients of all workers, and returns whether worker 0 wants to stop. The same
        call shares the clock of worker 0. So all workers stop at the same step and have the same
        learning rate."""
        if self.args.workers == 1:
            self.agreed_seconds = self.seconds
            return stop
        flat = self.flat_grads
        flat[-2:] = torch.tensor([0.0, 0.0] if self.worker else [float(stop), self.seconds])
        dist.all_reduce(flat)
        flat[:-2] /= self.args.workers
        self.agreed_seconds = float(flat[-1])
        return bool(flat[-2] > 0)

    def update(self, batch: Batch, stop: bool = False) -> tuple[float, bool]:
        """Makes one step. Returns its loss and whether to stop after it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        seed_all(self.args.seed, self.step, self.worker)
        loss = self.loss(batch.to(self.args.device))
        self.flat_grads.zero_()
        loss.backward()
        stop = self.average_gradients(stop)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.optimizer.step()
        self.step += 1
        return loss.item(), stop

    # One epoch

    def epoch_batches(self) -> list[list[int]]:
        """Returns this worker's batches of the epoch, as numbers of examples. They depend only on the
        seed and the epoch, so a resumed run sees the same batches as a run that was never stopped."""
        rng = random.Random(f"{self.args.seed} {self.epoch}")
        if self.ways:
            end = [] if self.text.src_end is None else [self.text.src_end]
            self.drawn = [Example(array("i", [*rng.choices(*ways)[0], *end]), example.tgt)
                          for ways, example in zip(self.ways, self.examples)]
        batches = group_examples(self.drawn, self.args.batch_tokens, rng,
                                 self.args.short_first and self.epoch == 0)
        # Repeats some batches so each worker has equally many: a worker without a batch would leave the
        # others waiting for its gradients.
        batches += batches[:-len(batches) % self.args.workers]
        batches = batches[self.worker::self.args.workers]
        self.steps_an_epoch = len(batches)
        return batches

    def estimate(self, batches: list[list[int]]) -> None:
        """Times a few batches, restores the weights from before, and prints how long the run will
        take."""
        before = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))
        step, sample = self.step, [make_batch(self.drawn, b, self.text) for b in batches[:12]]
        self.model.train()
        self.update(sample[0])  # not timed, because the first step is slower
        began = time.perf_counter()
        for batch in sample:
            self.update(batch)
        epoch = (time.perf_counter() - began) / len(sample) * len(batches)
        # Decoding a dev pair takes about as long as two steps with a training pair.
        judged = len(self.dev_pairs) / self.args.eval_every
        epoch *= 1 + 2 * self.args.workers * judged / len(self.examples)
        self.model.load_state_dict(before[0])
        self.optimizer.load_state_dict(before[1])
        self.step = step
        epochs = self.args.epochs - self.epoch
        limit = self.args.max_minutes * 60 - self.seconds if self.args.max_minutes else math.inf
        self.say(f"{len(batches)} steps and {clock(epoch)} an epoch; {epochs} epochs would take "
                 f"{clock(epoch * epochs)}"
                 + (f", but it stops after {clock(limit)}" if limit < epoch * epochs else ""))

    def run_epoch(self, batches: list[list[int]]) -> bool:
        """Trains for the rest of the epoch. Returns False if the time is up or the scores no longer
        improve."""
        args, first, before, losses = self.args, self.batch_in_epoch, self.seconds, []
        limit = args.max_minutes * 60 if args.max_minutes else math.inf
        part = max(1, round(args.eval_every * len(batches))) if args.eval_every < 1 else math.inf
        began = saved = told = time.perf_counter()
        tokens = 0
        for group in batches[first:]:
            self.model.train()
            batch = make_batch(self.drawn, group, self.text)
            loss, stop = self.update(batch, self.worker == 0 and (self.seconds > limit
                                                                  or self.stale()))
            losses.append(loss)
            tokens += args.workers * int((batch.tgt_out != self.text.tgt.pad).sum())
            self.batch_in_epoch += 1
            now = time.perf_counter()
            self.seconds = before + now - began
            if now - told > args.progress_seconds:
                told = now
                todo = (args.epochs - self.epoch) * len(batches) - self.batch_in_epoch
                left = (now - began) / (self.batch_in_epoch - first) * todo
                self.say(f"epoch {self.epoch + 1} batch {self.batch_in_epoch}/{len(batches)} "
                         f"step {self.step} loss {np.mean(losses[-100:]):.3f} "
                         f"lr {self.learning_rate():.2e} {tokens / (now - began):.0f} tokens/s "
                         + (f"dev BLEU {self.history[-1]['bleu']:.2f} " if self.history else "")
                         + f"left {clock(min(left, limit - self.seconds))}")
            if stop:
                self.train_loss = float(np.mean(losses))
                return False
            # The end of the epoch is evaluated anyway, so no evaluation is due shortly before it.
            judged = (self.batch_in_epoch % part == 0
                      and len(batches) - self.batch_in_epoch > part / 2)
            if self.worker == 0 and (judged or now - saved > args.save_minutes * 60):
                if judged:
                    self.train_loss = float(np.mean(losses[-part:]))
                    self.judge()
                saved = time.perf_counter()
                self.save()
        self.train_loss = float(np.mean(losses)) if losses else math.nan
        self.epoch, self.batch_in_epoch = self.epoch + 1, 0
        return True

    def judge(self) -> None:
        """Scores the weights on the dev set and saves them, because finish may average them."""
        began = time.perf_counter()
        score = evaluate(self.model, self.text, self.dev_pairs, self.args.bleu_tokenize)
        self.seconds += time.perf_counter() - began
        name = f"step-{self.step:07d}.pt"
        save(self.model.state_dict(), self.work / name)
        epoch = self.epoch
        if self.batch_in_epoch:
            epoch = round(epoch + self.batch_in_epoch / self.steps_an_epoch, 2)
        self.history.append(dict(epoch=epoch, loss=score.loss, bleu=score.bleu, file=name))
        trained = "" if math.isnan(self.train_loss) else f"train loss {self.train_loss:.3f} "
        self.say(f"epoch {epoch} {trained}dev loss {score.loss:.3f} "
                 f"BLEU {score.bleu:.2f} chrF {score.chrf:.1f} after {clock(self.seconds)}")

    def candidates(self) -> dict[str, list[dict]]:
        """Returns the sets of evaluations whose weights finish averages and compares, by name."""
        n, by_bleu = self.args.keep, sorted(self.history, key=lambda h: -h["bleu"])
        by_loss = sorted(self.history, key=lambda h: h["loss"])
        return {"best": by_bleu[:1], f"last {n}": self.history[-n:],
                f"best {n} by BLEU": by_bleu[:n], f"best {n} by loss": by_loss[:n]}

    def stale(self) -> bool:
        """Returns whether the last `patience` evaluations improved neither the loss nor the BLEU."""
        n = self.args.patience
        if not n or len(self.history) <= n:
            return False
        old, new = self.history[:-n], self.history[-n:]
        return (min(h["loss"] for h in new) >= min(h["loss"] for h in old)
                and max(h["bleu"] for h in new) <= max(h["bleu"] for h in old))

    # Checkpoints

    COUNTERS = ("epoch", "batch_in_epoch", "step", "seconds", "agreed_seconds", "history")

    def save(self) -> None:
        """Writes a checkpoint with everything that --resume needs. Then deletes saved weights that no
        average will need. The order matters: a checkpoint must never name a deleted file."""
        if self.worker:
            return
        state = {key: getattr(self, key) for key in self.COUNTERS}
        state.update(model=self.model.state_dict(), optimizer=self.optimizer.state_dict(),
                     src_end=self.text.src_end, forced=self.text.forced,
                     vocabularies=[(v.lines, v.mode, v.special, v.piece_model)
                                   for v in (self.text.src, self.text.tgt)])
        save(state, self.work / "checkpoint.pt")
        needed = {h["file"] for part in self.candidates().values() for h in part}
        for path in self.work.glob("step-*.pt*"):  # also unfinished files of a run that was killed
            if path.name not in needed:
                path.unlink()

    def restore(self, state: dict) -> None:
        """Continues from a checkpoint."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for key in self.COUNTERS:
            setattr(self, key, state[key])
        self.say(f"goes on in epoch {self.epoch + 1} after batch {self.batch_in_epoch}, "
                 f"step {self.step}")

    # The whole run

    def agree(self, go_on: bool) -> bool:
        """Returns the `go_on` of worker 0 in all workers. The others wait here while it evaluates."""
        if self.args.workers == 1:
            return go_on
        word = torch.tensor([float(go_on)])
        dist.broadcast(word, 0)
        return bool(word)

    def run(self) -> None:
        """Trains until the epochs or the time are over, then writes the model."""
        args, batches = self.args, []
        go_on = self.agree(self.epoch < args.epochs and not self.stale())
        self.say(f"{len(self.examples)} pairs, {len(self.text.src)} source and "
                 f"{len(self.text.tgt)} target tokens, "
                 f"{sum(p.numel() for p in self.model.parameters()):,} parameters")
        if go_on:
            batches = self.epoch_batches()
            self.estimate(batches)
        while go_on:
            in_time = self.run_epoch(batches)
            if self.worker == 0:
                due = (args.eval_every < 1 or self.epoch % round(args.eval_every) == 0
                       or self.epoch == args.epochs)
                cooled = not in_time and args.cooldown_minutes
                if in_time and due or cooled or not self.history:
                    self.judge()
                self.save()
            go_on = self.agree(in_time and self.epoch < args.epochs and not self.stale())
            batches = self.epoch_batches() if go_on else []
        if self.worker == 0:
            self.finish()

    def finish(self) -> None:
        """Averages the weights of each candidate set, scores the averages, and writes the best one."""
        best = None
        for name, part in self.candidates().items():
            states = [load(self.work / h["file"], self.args.device) for h in part]
            mean = {key: torch.stack([s[key] for s in states]).mean(0) for key in states[0]}
            self.model.load_state_dict(mean)
            score = evaluate(self.model, self.text, self.dev_pairs, self.args.bleu_tokenize)
            self.say(f"{name}: dev loss {score.loss:.3f} BLEU {score.bleu:.2f} "
                     f"(epochs {', '.join(str(h['epoch']) for h in part)})")
            if best is None or score.bleu > best[0]:
                best = score.bleu, mean
        self.model.load_state_dict(best[1])
        if self.args.marian:
            write_model_file(self.args.out, self.model, self.text)
            inputs = largest_inputs(self.model, self.text, self.dev_pairs[:500])
            try:
                marian_bin.write_model(self.args.out, self.args.marian, activations=inputs)
            except OSError as error:
                raise SystemExit(f"{self.args.marian}: {error.strerror or error}") from None
        write_model_file(self.args.out, self.model, self.text, self.args.dtype)
        report_file(self.args.out, self.dev_pairs, self.args.bleu_tokenize, self.text)
        say(f"to translate a sentence a line: build/translate {shlex.quote(self.args.out)}")


# -------------------------------------------------------------------------------- command line
class Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


def add_options_of_files(p: argparse.ArgumentParser) -> None:
    add = p.add_argument_group("files").add_argument
    add("--train", metavar="TSV", nargs="+",
        help="training pairs, one a line: source TAB target; or two files, one of sources and one of "
        "targets; .xz files are decompressed")
    add("--dev", metavar="TSV", nargs="+", required=True,
        help="dev pairs, in the same form; they choose the best weights and are never trained on")
    add("--out", metavar="FILE", help="the model file to write")
    add("--dtype", choices=DTYPES, default="int8",
        help="type of the file's matrices; vectors are always f32")
    add("--work", metavar="DIR", help="folder for checkpoints (default: OUT.work)")
    add("--resume", action="store_true", help="continue from the checkpoint in the work folder")
    add("--from-model", metavar="FILE",
        help="begin with the weights, shape and vocabularies of this model file; most options of the "
        "groups text and model then have no effect")
    add("--evaluate", metavar="FILE", help="only score this model file on --dev")
    add("--show", type=int, default=0, metavar="N", help="with --evaluate: print N translations")


def add_options_of_text(p: argparse.ArgumentParser) -> None:
    yes_no = argparse.BooleanOptionalAction
    add = p.add_argument_group("text").add_argument
    add("--src-text", choices=("characters", "words", "sentencepiece"), default="characters",
        help="how to cut sources; sentencepiece learns a model and writes it into the file")
    add("--sentences", choices=("split", "whole"), default="split",
        help="what a line of training text is: a sentence, so that translating splits texts into sentences; or a "
             "whole text (default: split)")
    add("--src-size", type=int, metavar="N",
        help="largest number of source tokens (default: no limit; for sentencepiece that of --tgt-size)")
    add("--src-min-count", type=int, default=2, metavar="N",
        help="source tokens that occur less often are unknown")
    add("--fold-chinese", action="store_true", help="give all variants of a character one id")
    add("--tgt-text", default="unigram",
        choices=("unigram", "bpe", "characters", "words", "sentencepiece"),
        help="how to cut targets; unigram and bpe are subword pieces, written as a vocabulary")
    add("--tgt-size", type=int, default=2000, metavar="N",
        help="number of pieces, or largest number of characters or words")
    add("--tgt-min-count", type=int, default=1, metavar="N",
        help="characters and words that occur less often are unknown")
    add("--src-vocab", metavar="FILE",
        help="use this source vocabulary: one token a line, further spellings after TABs; or this "
        "sentencepiece model")
    add("--tgt-vocab", metavar="FILE",
        help="use this target vocabulary or model; pieces of a vocabulary are matched longest first")
    add("--coverage", type=float, default=1.0, metavar="SHARE",
        help="share of the text whose characters are pieces; rarer characters are written as bytes")
    add("--normalization", default="nmt_nfkc", metavar="RULES",
        help="normalization of sentencepiece: its name (identity: none), or a .tsv file of rules")
    add("--prefix", action=yes_no, default=True, help="let sentencepiece add a space before every text")
    for name, token in SPECIAL.items():
        add(f"--{name}-token", metavar="TOKEN", default=token, help=f"spelling of the {name} token")
    add("--forced", metavar="TOKEN",
        help="the token that every translation begins with; it produces no text")
    add("--src-end", action=yes_no, default=True, help="add the end token to every source")


def add_options_of_model(p: argparse.ArgumentParser) -> None:
    yes_no = argparse.BooleanOptionalAction
    add = p.add_argument_group("model").add_argument
    add("--d-model", type=int, default=256, metavar="N", help="width of the model")
    add("--heads", type=int, default=4, metavar="N", help="number of attention heads")
    add("--d-key", type=int, metavar="N", help="key width of one head (default: d-model / heads)")
    add("--d-value", type=int, metavar="N", help="value width of one head (default: d-model / heads)")
    add("--d-ff", type=int, default=1024, metavar="N", help="width of the feed-forward layers")
    add("--encoder-layers", type=int, default=3, metavar="N", help="number of encoder layers")
    add("--decoder-layers", type=int, default=3, metavar="N", help="number of decoder layers")
    add("--decoder", choices=("attention", "ssru"), default="attention",
        help="what the decoder reads its earlier tokens with: self-attention, or ssru, a recurrence with "
        "faster steps and no cache")
    add("--marian", metavar="BIN",
        help="use Marian's settings (--norm post, its positions, a zero first embedding, eps 1e-6), "
        "and also write BIN, int8 with static scales (alphas), for the engines of Bergamot and "
        "Firefox")
    add("--norm", choices=("pre", "post"), default="pre", help="put norms before or after each sublayer")
    add("--plain-norm", action="store_true", help="make norms without weight and bias")
    add("--no-bias", action="store_true", help="make linear layers without bias")
    add("--activation", choices=ACTIVATIONS, default="relu",
        help="activation of the feed-forward layers")
    add("--positions", default="sinusoidal", help="kind of positions; the manual defines them",
        choices=("sinusoidal", "sinusoidal_halves", "sinusoidal_per_index", "learned", "none"))
    add("--max-length", type=int, default=512, metavar="N", help="longest text, in tokens")
    add("--embedding-scale", default="sqrt_d", metavar="X", help="factor of the embeddings: sqrt_d or a number",
        type=lambda t: t if t == "sqrt_d" else float(t))
    add("--tie", action=yes_no, default=True, help="use the target embedding as the output layer")
    add("--share", action="store_true",
        help="use one vocabulary (as --src-text says) and one embedding for both sides")


def add_options_of_training(p: argparse.ArgumentParser) -> None:
    add = p.add_argument_group("training").add_argument
    add("--epochs", type=int, default=40, metavar="N", help="passes over the training pairs")
    add("--max-minutes", type=float, metavar="MINUTES", help="stop training after this time (default: never)")
    add("--patience", type=int, default=10, metavar="N",
        help="stop after N evaluations without a better loss or BLEU; 0: never")
    add("--batch-tokens", type=int, default=2048, metavar="N",
        help="largest number of padded tokens on either side of a batch, for each worker")
    add("--lr", type=float, default=1e-3, metavar="X", help="the highest learning rate")
    add("--warmup", type=int, default=1000, metavar="STEPS",
        help="steps until the learning rate is highest")
    add("--cooldown", type=int, default=0, metavar="EPOCHS",
        help="in the last EPOCHS the learning rate falls to 0")
    add("--cooldown-minutes", type=float, default=0.0, metavar="MINUTES",
        help="in the last MINUTES of --max-minutes the learning rate falls to 0")
    add("--beta2", type=float, default=0.98, metavar="X", help="AdamW's beta2")
    add("--weight-decay", type=float, default=0.01, metavar="X", help="AdamW's weight decay")
    add("--clip", type=float, default=1.0, metavar="X", help="the largest gradient norm; longer gradients are scaled")
    add("--label-smoothing", type=float, default=0.1, metavar="SHARE",
        help="share of the probability that the loss gives to wrong tokens")
    add("--dropout", type=float, default=0.3, metavar="SHARE", help="dropout of embeddings and residual branches")
    add("--attention-dropout", type=float, default=0.1, metavar="SHARE", help="dropout of attention weights")
    add("--activation-dropout", type=float, default=0.1, metavar="SHARE", help="dropout inside feed-forward layers")
    add("--word-dropout", type=float, default=0.0, metavar="SHARE", help="share of tokens that become unknown")
    add("--sample-pieces", type=float, default=0.0, metavar="ALPHA",
        help="cut sentencepiece sources in a random way in each epoch, with a probability in "
        "proportion to likelihood ** ALPHA; 0: always in the most likely way")
    add("--ways", type=int, default=8, metavar="N",
        help="for --sample-pieces: choose among the N most likely ways")
    add("--r-drop", type=float, default=0.0, metavar="WEIGHT",
        help="weight of R-drop: the loss that makes two passes with different dropout agree. It doubles the "
        "time of a step; 0: off")
    add("--negatives", type=int, default=0, metavar="N",
        help="sampled softmax: compute the loss over the batch's targets and N other tokens, drawn in "
        "each step; faster with a large vocabulary; 0: over all tokens")
    add("--short-first", action="store_true",
        help="begin the first epoch with mostly short pairs and end it with mostly long ones")
    add("--init", choices=("xavier", "identity"), default="xavier",
        help="identity: attention begins by finding and copying equal tokens; for closely related "
        "languages with --share")
    add("--seed", type=int, default=1, metavar="N", help="seed of all random choices")
    add("--eval-every", type=float, default=1, metavar="EPOCHS",
        help="epochs between evaluations; 0.1: ten evaluations an epoch")
    add("--bleu-tokenize", default="13a", metavar="NAME",
        help="sacrebleu's tokenizer; zh if the target is Chinese")
    add("--keep", type=int, default=5, metavar="N", help="evaluations whose weights are averaged")
    add("--save-minutes", type=float, default=5.0, metavar="MINUTES", help="minutes between checkpoints in an epoch")
    add("--progress-seconds", type=float, default=30.0, metavar="SECONDS", help="seconds between progress lines")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu",
        help="where PyTorch computes, by its name of the device")
    add("--amp", action="store_true", help="compute in bfloat16, keep the weights in float32")
    add("--workers", type=int, default=1, metavar="N", help="CPU processes that share each step")
    add("--threads", type=int, metavar="N",
        help="threads of each worker (default: all cores divided by the workers)")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    p = Parser(description=__doc__.split("The sections:")[0], allow_abbrev=False, formatter_class=Help)
    for add in (add_options_of_files, add_options_of_text, add_options_of_model, add_options_of_training):
        add(p)
    args = p.parse_args(argv)
    if not args.evaluate and not (args.train and args.out):
        p.error("give --train and --out, or --evaluate")
    if args.cooldown_minutes and not args.max_minutes:
        p.error("--cooldown-minutes needs --max-minutes")
    if args.sample_pieces and not args.from_model and args.src_text != "sentencepiece":
        p.error("--sample-pieces needs --src-text sentencepiece")
    if args.marian and ((args.src_text, args.tgt_text) != ("sentencepiece",) * 2 or args.no_bias
                        or args.plain_norm or args.d_key or args.d_value
                        or args.activation not in ("relu", "swish")):
        p.error("--marian needs --src-text sentencepiece, --tgt-text sentencepiece and --activation "
                "relu or swish; it excludes --no-bias, --plain-norm, --d-key and --d-value, which "
                "Marian's engines do not support")
    if args.marian and (args.from_model or args.forced):
        p.error("--marian excludes --from-model, whose shape may differ from Marian's, and --forced, "
                "which Marian's file cannot express")
    if args.negatives and args.r_drop:
        p.error("--r-drop excludes --negatives, because it compares the logits of all tokens")
    if args.init == "identity" and (args.d_key or args.d_value):
        p.error("--init identity excludes --d-key and --d-value")
    if args.workers > 1 and args.device != "cpu":
        p.error("--workers needs --device cpu")
    return args


def read_start(args: argparse.Namespace) -> tuple[Transformer, Text]:
    """Reads the model of --from-model. Ends the program if its text does not allow more training."""
    model, text = read_model_file(args.from_model)
    if text.tgt.mode == "pieces":
        raise SystemExit(f"{args.from_model}: a vocabulary of pieces does not say how to cut training "
                         "text; --from-model needs a model with sentencepiece, characters or words")
    if args.sample_pieces and text.src.mode != "sentencepiece":
        raise SystemExit(f"--sample-pieces: {args.from_model}'s sources are not cut by sentencepiece")
    if model.shape.positions != "learned":
        model.shape = model.shape._replace(max_length=args.max_length)
    return model, text


def end_with_parent() -> None:
    """Ends this worker when its parent ends. Otherwise, after the parent was killed, the worker would
    write into the folder while the next run uses it."""
    multiprocessing.parent_process().join()
    os._exit(1)


def work(worker: int, args: argparse.Namespace, port: int) -> None:
    """Runs one worker from beginning to end. `port` connects the workers."""
    if args.threads or args.workers > 1:
        torch.set_num_threads(args.threads or max(1, torch.get_num_threads() // args.workers))
    if args.workers > 1:
        threading.Thread(target=end_with_parent, daemon=True).start()
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=worker,
                                world_size=args.workers)
    try:  # a training must not end with a file that cannot be written
        check_target(args.out)
    except OSError as error:
        raise SystemExit(f"{args.out}: {error.strerror or error}") from None
    train, dev = read_pairs(*args.train), read_pairs(*args.dev)
    folder = Path(args.work or args.out + ".work")
    folder.mkdir(parents=True, exist_ok=True)
    state = start = None
    if args.from_model:
        start, text = read_start(args)
    if args.resume:
        state = read_checkpoint(folder / "checkpoint.pt", args.device)
        src, tgt = (Vocabulary(*fields) for fields in state["vocabularies"])
        share = start.shape.share if start else args.share
        text = Text(src, src if share else tgt, state["src_end"], state.get("forced"), args.sentences)
    elif not start:
        text = build_text(args, train)
    if args.forced:
        if args.forced not in text.tgt.ids:
            raise SystemExit(f"--forced {args.forced}: the target's vocabulary does not have this token")
        text = text._replace(forced=text.tgt.ids[args.forced])
    seed_all(args.seed)
    trainer = Trainer(args, text, train, dev, worker, start)
    if state:
        trainer.restore(state)
    trainer.run()


def main() -> None:
    args = parse()
    if args.evaluate:
        report_file(args.evaluate, read_pairs(*args.dev), args.bleu_tokenize, show=args.show)
    elif args.workers == 1:
        work(0, args, 0)
    else:
        with socket.socket() as s:  # the system chooses a free port
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        # Makes glibc use huge pages and keep freed memory. Each step allocates and frees tensors of
        # tens of megabytes; without this, most of that memory is mapped anew in each step.
        os.environ.setdefault("GLIBC_TUNABLES", ":".join(
            f"glibc.malloc.{what}" for what in ("hugetlb=1", "mmap_threshold=1073741824",
                                                "trim_threshold=4294967296", "top_pad=268435456")))
        torch.multiprocessing.spawn(work, (args, port), nprocs=args.workers)


if __name__ == "__main__":
    main()
