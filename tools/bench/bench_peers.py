#!/usr/bin/env python3
"""Compare the speed of transformer.h with other engines: make all, then python tools/bench/bench_peers.py

The peers are CTranslate2, PyTorch and ONNX Runtime; those that are not installed are left out. All
engines use the same random weights, which `build/bench --write` makes from a seed, and the same
tokens. Each round runs every engine a few times, one after the other. The result is the median over
all rounds. Each engine has its own process, which is stopped while another engine runs: threads
that wait by spinning would slow the others down.

  encode   CTranslate2: Encoder.forward_batch. PyTorch: nn.TransformerEncoder with its fast path.
           ONNX Runtime: a graph of plain operators.
  forward  PyTorch: nn.TransformerEncoder and nn.TransformerDecoder. ONNX Runtime: a graph.
           CTranslate2 has no function that returns logits.
  greedy   CTranslate2: translate_batch. PyTorch and ONNX Runtime: a Python loop over steps with
           cached keys and values. The loop itself takes a small part of the time.
  beam     CTranslate2 only.
  load     Loading the engine's own file, with the wanted type of weights, in a new process each
           time. Also the peak of memory after greedy-1.
  models   --model FILE=TEXT, one sentence a line. CTranslate2 has the same weights and gets the same
           tokens. Both engines use batches of 32 sentences, sorted by length. The time of build/bench
           includes tokenization, that of CTranslate2 does not.
  workers  --throughput FILE=TEXT, greedy, with the type of weights that FILE has. Ours is
           build/translate --threads N, from text to text, including start and loading. CTranslate2
           has inter_threads N and translates from tokens to tokens, with the best batch of 16, 32, 64
           and 128. "in C" is build/bench --workers N --batch 64: one session per thread, without
           start. The table has sentences and source words per second, and the share of the time of N
           cores that was used.

  grow     --grow: 1 to 512 sentences, beams of 1 to 16, and vocabularies of 8,000 to 256,000 tokens
           (GROWING), with 2 + 2 layers and CTranslate2 as the peer. The last table has the
           milliseconds per token of both.

  gemma    --gemma: T5Gemma and T5Gemma 2 in the sizes of their smallest published models (GEMMA), with
           random weights, which transformers and PyTorch draw, and CTranslate2 as the peer. We
           compute the soft caps and the windows of the encoder, which CTranslate2 leaves out.

int8: CTranslate2 uses "int8". ONNX Runtime uses quantize_dynamic (u8 x s8, one scale per column).
PyTorch uses torch.ao.quantization.quantize_dynamic for its linear layers; attention and norms are f32.
bf16: PyTorch computes everything in bfloat16. Its encoder is the faster of the fast path and single
layers. transformer.h also has the encoder's attention in bfloat16 (encoder_attention). CTranslate2
uses bfloat16 if it supports the type on this CPU. ONNX Runtime does not have it.

Each peer runs at its best: CTranslate2 runs both with its defaults and tuned by environment variables
(SETTINGS). With --isa avx2, all engines use AVX2 and neither AVX-512 nor VNNI, as on an older CPU
(ISAS): our programs are compiled for it into a temporary folder, with $CC and $CFLAGS (default cc and
-O2). ONNX Runtime has no such setting, so it is left out where the CPU has more. The table says beside
each ratio how many tokens are the same as ours, or how far the encoder's output differs from that of
PyTorch in f32.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import speed_plot

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "build" / "bench"
START, END, FIRST_WORD = 1, 2, 4
D, HEADS, LAYERS = 512, 8, 6
BATCH = 32  # sentences in a batch of --model, as in bench.c
BATCHES = (16, 32, 64, 128)  # batches of CTranslate2 in --throughput; the fastest counts
# kind, rows, source, target, beam, vocabulary; the same as in bench.c
WORKLOADS = {
    "load": ("load", 1, 32, 64, 1, 32000),
    "encode-1x32": ("encode", 1, 32, 0, 1, 32000),
    "encode-1x128": ("encode", 1, 128, 0, 1, 32000),
    "encode-8x128": ("encode", 8, 128, 0, 1, 32000),
    "encode-1x512": ("encode", 1, 512, 0, 1, 32000),
    "greedy-1": ("decode", 1, 32, 64, 1, 32000),
    "beam4-1": ("decode", 1, 32, 64, 4, 32000),
    "greedy-32": ("decode", 32, 32, 64, 1, 32000),
    "beam4-16": ("decode", 16, 32, 64, 4, 32000),
    "forward-32x10-32x20": ("forward", 32, 10, 20, 1, 10000),
}
# Workloads of --grow. Sentences x beam, then the vocabulary in thousands if it is not 32; 16 source
# tokens. Fewer target tokens where a run takes long.
GROWING = {name: ("decode", rows, 16, target, beam, vocabulary)
           for name, rows, target, beam, vocabulary in (
               ("1x1", 1, 16, 1, 32000), ("8x1", 8, 16, 1, 32000), ("64x1", 64, 16, 1, 32000),
               ("512x1", 512, 4, 1, 32000), ("8x4", 8, 16, 4, 32000), ("8x16", 8, 8, 16, 32000),
               ("8x4-8k", 8, 16, 4, 8000), ("8x4-128k", 8, 8, 4, 128000),
               ("8x4-256k", 8, 8, 4, 256000), ("64x1-256k", 64, 4, 1, 256000),
               ("64x4-256k", 64, 4, 4, 256000), ("1x16-256k", 1, 8, 16, 256000))}
GROWING_LAYERS = 2
# Models of --gemma: what the encoder and the decoder have. The first is t5gemma-s-s, the second
# t5gemma-2-270m-270m, each with its whole vocabulary.
GEMMA = {"t5gemma": {"vocab_size": 256000, "hidden_size": 512, "intermediate_size": 1024,
                     "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
                     "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 4096},
         "t5gemma2": {"vocab_size": 262144, "hidden_size": 640, "intermediate_size": 2048,
                      "num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1,
                      "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512}}
# Workloads of --gemma by name: the workload of bench.c, rows, source, target, beam.
GEMMA_WORKLOADS = {
    "encode-1x128": ("encode-1x128", 1, 128, 0, 1), "encode-8x128": ("encode-8x128", 8, 128, 0, 1),
    "encode-1x256": ("encode-1x128", 1, 256, 0, 1), "encode-1x1024": ("encode-1x128", 1, 1024, 0, 1),
    "encode-1x4096": ("encode-1x128", 1, 4096, 0, 1), "greedy-1": ("greedy-1", 1, 32, 32, 1),
    "greedy-32": ("greedy-32", 32, 32, 32, 1), "beam4-1": ("beam4-1", 1, 32, 32, 4),
    "source-1024-greedy-1": ("greedy-1", 1, 1024, 32, 1),
    "source-4096-greedy-1": ("greedy-1", 1, 4096, 32, 1)}
LONG_RUN = 4.0  # seconds; a first run that takes longer counts as the only one
# Environment variables that make engines faster: threads spin while they wait, and glibc keeps freed
# memory. Otherwise each step returns memory to the system and maps it again.
TUNED = {"OMP_WAIT_POLICY": "active", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
         "MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_MMAP_THRESHOLD_": "4000000000",
         "MALLOC_TOP_PAD_": "64000000"}
# Peers by name: the engine, and its environment variables.
SETTINGS = {"ctranslate2": ("ctranslate2", {}),
            "ctranslate2 tuned": ("ctranslate2", TUNED),
            "torch": ("torch", TUNED),
            "onnxruntime": ("onnxruntime", {})}
# Type of weights: ours are int8 of 7 bits (quantize int8 --bits 7), and those of peers int8.
SEVEN_BITS = "int8-7"
# Instruction sets of --isa: our TRANSFORMER_KERNELS, the variables that hold the peers to it, and what
# a CPU that has no more lacks (flags of /proc/cpuinfo).
ISAS = {"avx2": (2, {"CT2_FORCE_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                     "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2",
                     "MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
                 ("avx512f", "avx_vnni"))}


def mix(x):
    """Returns splitmix64 of x, as random_model.h does."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def words(begin, shape, vocabulary):
    """Returns tokens from number `begin` on, the same as bench.c has."""
    count = math.prod(shape)
    ids = [FIRST_WORD + mix(i) % (vocabulary - FIRST_WORD) for i in range(begin, begin + count)]
    return np.array(ids, np.int64).reshape(shape)


def positions(count, width=D):
    """Returns PE(p, 2i) = sin(p / 10000^(2i/D)) and PE(p, 2i+1) = cos(p / 10000^(2i/D))."""
    angle = np.arange(count)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    table = np.empty((count, width), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


class Work:
    """A workload: its tokens, and the file with its weights. `description` is a dictionary that JSON
    can express, because it is sent to other processes."""

    def __init__(self, description):
        self.__dict__.update(description)
        self.folder = Path(self.folder)
        if self.kind not in ("translate", "throughput"):
            self.src = words(0, (self.rows, self.source), self.vocabulary)
            self.tgt = words(self.rows * self.source, (self.rows, self.target), self.vocabulary)

    @property
    def weights(self):
        """Returns the weights as floats, by name."""
        from safetensors.numpy import load_file

        arrays = load_file(self.file)
        for name in [name for name in arrays if name.endswith("_scale")]:  # int8: one scale per row
            matrix = name.removesuffix("_scale")
            arrays[matrix] = arrays[matrix].astype(np.float32) * arrays.pop(name)[:, None]
        return {name: value.astype(np.float32) if value.dtype == np.float16 else value
                for name, value in arrays.items()}

    @property
    def config(self):
        """Returns the config of the model file."""
        from safetensors import safe_open

        with safe_open(self.file, "np") as file:
            return json.loads(file.metadata()["transformer.config"])


class Tokenizer:
    """Tokenizes the text of the shipped models: with SentencePiece, or by characters."""

    def __init__(self, work):
        weights, self.config = work.weights, work.config
        if "src_sentencepiece" in weights:
            import sentencepiece

            self.pieces = sentencepiece.SentencePieceProcessor(
                model_proto=weights["src_sentencepiece"].tobytes())
            return
        self.pieces = None
        lines = weights["src_vocabulary"].tobytes().decode().rstrip("\n").split("\n")
        self.ids = {spelling: i for i, line in enumerate(lines) for spelling in line.split("\t")}
        lines = weights["tgt_vocabulary"].tobytes().decode().rstrip("\n").split("\n")
        self.targets = [line.split("\t")[0] for line in lines]

    def encode(self, text):
        if self.pieces:
            ids = self.pieces.encode(text)
        else:
            ids = [self.ids.get(c, self.config["src_unk"]) for c in "\u2581".join(text.split())]
        return ids + ([self.config["src_end"]] if "src_end" in self.config else [])

    def decode(self, ids):
        if self.pieces:
            return self.pieces.decode(ids)
        return "".join(self.targets[i] for i in ids).replace("\u2581", " ").strip()


# ---- engines: each function takes a Work, the number of threads and the type of weights. It returns a
# function that runs the work once, or None if the engine cannot. A run returns what is compared with
# ours: the tokens of the first sentence, the encoder's output, or lines.

def ctranslate2_save(work, folder, weights):
    """Writes the weights as CTranslate2's converters do."""
    from ctranslate2.specs import transformer_spec as specs

    w, config = work.weights, work.config
    width = w["src_embedding.weight"].shape[1]
    layers = [1 + max(int(name.split(".")[2]) for name in w if name.startswith(f"{side}.layers."))
              for side in ("encoder", "decoder")]
    spec = specs.TransformerSpec.from_config(tuple(layers), config["n_heads"],
                                             pre_norm=config.get("norm") == "pre")

    def pair(layer, name, part=slice(None), kind="."):
        layer.weight, layer.bias = w[f"{name}{kind}weight"][part], w[f"{name}{kind}bias"][part]

    def norm(layer, name):
        layer.gamma, layer.beta = w[f"{name}.weight"], w[f"{name}.bias"]

    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = stack.embeddings
        for one in embeddings if isinstance(embeddings, list) else [embeddings]:
            own = "tgt_embedding.weight" if side == "decoder" else ""
            one.weight = w[own if own in w else "src_embedding.weight"]
        stack.scale_embeddings = True
        stack.position_encodings.encodings = positions(1024, width)
        if config.get("norm") == "pre":
            norm(stack.layer_norm, f"{side}.norm")
        for i, layer in enumerate(stack.layer):
            name = f"{side}.layers.{i}"
            pair(layer.self_attention.linear[0], f"{name}.self_attn.in_proj", kind="_")
            pair(layer.self_attention.linear[1], f"{name}.self_attn.out_proj")
            norm(layer.self_attention.layer_norm, f"{name}.norm1")
            if side == "decoder":
                cross = f"{name}.multihead_attn"
                pair(layer.attention.linear[0], f"{cross}.in_proj", slice(0, width), "_")
                pair(layer.attention.linear[1], f"{cross}.in_proj", slice(width, None), "_")
                pair(layer.attention.linear[2], f"{cross}.out_proj")
                norm(layer.attention.layer_norm, f"{name}.norm2")
            pair(layer.ffn.linear_0, f"{name}.linear1")
            pair(layer.ffn.linear_1, f"{name}.linear2")
            norm(layer.ffn.layer_norm, f"{name}.norm{3 if side == 'decoder' else 2}")
    if work.kind == "encode":
        model = specs.TransformerEncoderModelSpec(spec.encoder)
        model.register_vocabulary(names_of(len(w["src_embedding.weight"]), config))
    else:
        model = spec
        tied = spec.decoder.embeddings.weight
        spec.decoder.projection.weight = w.get("generator.weight", tied)
        if "generator.bias" in w:
            spec.decoder.projection.bias = w["generator.bias"]
        spec.register_source_vocabulary(names_of(len(w["src_embedding.weight"]), config))
        spec.register_target_vocabulary(names_of(len(spec.decoder.projection.weight), config))
    model.validate()
    model.optimize(quantization={"int8": "int8", "bf16": "bfloat16"}.get(weights))
    folder.mkdir()
    model.save(str(folder))


def gemma_save(family, folder):
    """Writes a model of --gemma with random weights: a file of ours, and CTranslate2's directories of the
    encoder and of the whole model."""
    import torch
    import transformers
    from ctranslate2.converters import transformers as converters
    from ctranslate2.specs import transformer_spec as specs

    side, second = GEMMA[family], family == "t5gemma2"
    image = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8,
             "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 8, "patch_size": 4}
    encoder = {"text_config": dict(side), "vision_config": image, "mm_tokens_per_image": 4}
    config = (transformers.T5Gemma2Config(encoder=encoder, decoder=dict(side)) if second else
              transformers.T5GemmaConfig(encoder=dict(side), decoder=dict(side),
                                         vocab_size=side["vocab_size"]))
    kind = transformers.T5Gemma2ForConditionalGeneration if second else \
        transformers.T5GemmaForConditionalGeneration
    torch.manual_seed(1)
    with torch.no_grad():
        model = kind(config).eval()
        for name, p in model.named_parameters():
            scale = 0.02 if "embed" in name else p.shape[1] ** -0.5 if p.dim() == 2 else 0.05
            if "norm" in name or p.dim() <= 2:
                p.copy_(scale * torch.randn_like(p))
        model.save_pretrained(folder / "transformers")
        whole = converters._MODEL_LOADERS[type(config).__name__].get_model_spec(model)
    encoder = specs.TransformerEncoderModelSpec(whole.encoder)
    subprocess.run([sys.executable, ROOT / "tools" / "convert.py", folder / "transformers",
                    folder / "model.safetensors", "--no-check"], check=True, stdout=sys.stderr)
    names = names_of(side["vocab_size"], {"start": 2, "end": 1})
    encoder.register_vocabulary(names)
    whole.register_source_vocabulary(names)
    whole.register_target_vocabulary(names)
    for spec, part in ((encoder, "encoder"), (whole, "translator")):
        spec.config.layer_norm_epsilon = 1e-6
        spec.validate()
        spec.optimize()
        (folder / part).mkdir()
        spec.save(str(folder / part))


def names_of(size, config):
    """Returns a name for each id. Special tokens have the names that CTranslate2 expects."""
    names = [f"t{i}" for i in range(size)]
    names[config.get("tgt_unk", 0)] = "<unk>"
    names[config["start"]], names[config["end"]] = "<s>", "</s>"
    return names


def supported_types():
    import ctranslate2

    return ctranslate2.get_supported_compute_types("cpu")


LOADED = {}  # the model of CTranslate2 that this process used last, by folder and type


def ctranslate2_engine(work, threads, weights):
    types = {"f32": "float32", "bf16": "bfloat16", "int8": "int8"}
    options = {"device": "cpu", "inter_threads": 1, "intra_threads": threads,
               "compute_type": types[weights]}
    if work.kind == "throughput":
        options.update(inter_threads=threads, intra_threads=1)
    if work.kind == "forward" or types[weights] not in supported_types():
        return None
    kind = "encoder" if work.kind == "encode" else "translator"
    folder = work.folder / f"ctranslate2-{kind}-{weights}-{Path(work.file).stem}"
    if hasattr(work, "gemma"):  # CTranslate2 quantizes the floats while it loads them
        folder = work.folder / work.gemma / kind
    if not folder.exists():
        if work.kind == "load":  # another process writes the file, so its memory does not count here
            subprocess.run([sys.executable, __file__, "--store", json.dumps(work.description),
                            "--weights", weights], check=True)
        else:
            ctranslate2_save(work, folder, weights)
    import ctranslate2

    begin, new = time.perf_counter(), (str(folder), weights) not in LOADED
    if new:
        LOADED.clear()  # one model a process, because the largest ones take gigabytes
        engine = ctranslate2.Encoder if work.kind == "encode" else ctranslate2.Translator
        LOADED[str(folder), weights] = engine(str(folder), **options)
    encoder = translator = LOADED[str(folder), weights]
    if work.kind == "encode":
        rows = work.src.tolist()
        return lambda: np.array(encoder.forward_batch(rows).last_hidden_state)
    if new:
        work.load_ms = 1e3 * (time.perf_counter() - begin)
    if work.kind in ("translate", "throughput"):
        return ctranslate2_lines(work, translator)
    names = names_of(work.vocabulary, work.config)
    rows = [[names[i] for i in row] for row in work.src]
    index = {name: i for i, name in enumerate(names)}

    def run():
        results = translator.translate_batch(
            rows, beam_size=work.beam, max_decoding_length=work.target,
            min_decoding_length=work.target, length_penalty=0, max_batch_size=0,
            max_input_length=0)  # else it reads 1,024 tokens at most
        return [index[token] for token in results[0].hypotheses[0]]
    return run


def ctranslate2_lines(work, translator):
    """Returns a function that translates all lines of a work."""
    tokenizer, config = Tokenizer(work), work.config
    names = names_of(100000, config)
    rows = [[names[i] for i in tokenizer.encode(line)] for line in work.lines]
    index = {name: i for i, name in enumerate(names)}
    longest = 2 * max(map(len, rows)) + 16
    never = [[names[i]] for i in config.get("suppressed", [])]

    def run():
        results = translator.translate_batch(
            rows, beam_size=work.beam, length_penalty=0, max_batch_size=work.batch,
            max_decoding_length=longest, suppress_sequences=never)
        return [[index[token] for token in result.hypotheses[0]] for result in results]
    work.finish = lambda result: [tokenizer.decode(ids) for ids in result]
    return run


def torch_linears(w, weights):
    """Makes a linear layer for each matrix of w; packed projections stay packed, except that
    cross-attention has queries apart from keys and values."""
    import torch
    from torch import nn

    modules = {}
    for name, weight in w.items():
        if weight.dim() != 2 or "embedding" in name:
            continue
        parts = {"": slice(None)}
        if "multihead_attn.in_proj" in name:
            parts = {".q": slice(0, D), ".kv": slice(D, None)}
        bias = w.get(name.replace("weight", "bias"))
        for tag, part in parts.items():
            rows = weight[part]
            module = nn.Linear(rows.shape[1], rows.shape[0], bias=bias is not None)
            module.weight.data = rows
            if bias is not None:
                module.bias.data = bias[part]
            key = name.replace("_weight", "").replace(".weight", "") + tag
            modules[key.replace(".", "/")] = module
    modules = nn.ModuleDict(modules)
    if weights == "int8":
        from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

        torch.backends.quantized.engine = "onednn"
        modules = quantize_dynamic(modules, {nn.Linear: per_channel_dynamic_qconfig})
    return {name.replace("/", "."): module for name, module in modules.items()}


def torch_heads(x):
    return x.unflatten(-1, (HEADS, D // HEADS)).transpose(1, 2)


def torch_cross(by, memory):
    """Returns the keys and values of each decoder layer's cross-attention."""
    pairs = [by[f"decoder.layers.{i}.multihead_attn.in_proj.kv"](memory).chunk(2, -1) for i in range(LAYERS)]
    return [(torch_heads(k), torch_heads(v)) for k, v in pairs]


def torch_encoder(w):
    """Returns PyTorch's own encoder with the weights of w."""
    from torch import nn

    options = {"dim_feedforward": 2048, "dropout": 0, "batch_first": True}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, **options), LAYERS)
    encoder.load_state_dict({name[len("encoder."):]: value for name, value in w.items() if name.startswith("encoder.")})
    return encoder.eval().to(w["src_embedding.weight"].dtype)


def torch_engine(work, threads, weights):
    if work.beam > 1 or work.kind in ("translate", "throughput", "load"):
        return None
    import warnings

    import torch
    from torch import nn
    from torch.nn import functional as F

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    number = torch.bfloat16 if weights == "bf16" else torch.float32
    w = {name: torch.from_numpy(value).to(number) for name, value in work.weights.items()}
    table = torch.from_numpy(positions(1024)).to(number)
    src, tgt = torch.from_numpy(work.src), torch.from_numpy(work.tgt)

    def embed(ids, first=0):
        x = F.embedding(ids, w["src_embedding.weight"]) * math.sqrt(D)
        return x + table[first:first + ids.shape[1]]

    def norm(x, name):
        return F.layer_norm(x, (D,), w[f"{name}.weight"], w[f"{name}.bias"])

    def attend(q, k, v, name, mask=None):
        x = F.scaled_dot_product_attention(torch_heads(q), k, v, is_causal=bool(mask))
        return by[f"{name}.out_proj"](x.transpose(1, 2).flatten(2))

    def feed_forward(x, name):
        return by[f"{name}.linear2"](F.relu(by[f"{name}.linear1"](x)))

    def encode(x):  # layer by layer, because PyTorch's own encoder has no int8
        for i in range(LAYERS):
            name = f"encoder.layers.{i}"
            q, k, v = by[f"{name}.self_attn.in_proj"](x).chunk(3, -1)
            x = norm(x + attend(q, torch_heads(k), torch_heads(v), f"{name}.self_attn"), f"{name}.norm1")
            x = norm(x + feed_forward(x, name), f"{name}.norm2")
        return x

    def decode(x, past, cross, causal=False):
        for i in range(LAYERS):
            name = f"decoder.layers.{i}"
            q, k, v = by[f"{name}.self_attn.in_proj"](x).chunk(3, -1)
            k, v = past[i] = [torch.cat([p, torch_heads(n)], 2) for p, n in zip(past[i], (k, v))]
            x = norm(x + attend(q, k, v, f"{name}.self_attn", causal), f"{name}.norm1")
            q = by[f"{name}.multihead_attn.in_proj.q"](x)
            x = norm(x + attend(q, *cross[i], f"{name}.multihead_attn"), f"{name}.norm2")
            x = norm(x + feed_forward(x, name), f"{name}.norm3")
        return by["generator"](x)

    by = torch_linears(w, weights)
    fast = torch_encoder(w)
    plain, encode = encode, fast if weights != "int8" else encode
    empty = torch.empty(work.rows, HEADS, 0, D // HEADS, dtype=number)

    @torch.inference_mode()
    def run():
        memory = encode(embed(src))
        if work.kind == "encode":
            return memory.float().numpy()
        cross, past = torch_cross(by, memory), [(empty, empty)] * LAYERS
        if work.kind == "forward":
            return decode(embed(tgt), past, cross, True).float().numpy()
        ids, out = torch.full((work.rows, 1), START), []
        for t in range(work.target):
            logits = decode(embed(ids, t), past, cross)[:, -1]
            logits[:, END] = -math.inf
            ids = logits.argmax(-1, keepdim=True)
            out.append(ids)
        return torch.cat(out, 1)[0].tolist()

    def seconds(encoder):
        x = embed(src)
        with torch.inference_mode():
            encoder(x)
            begin = time.perf_counter()
            for _ in range(3):
                encoder(x)
        return time.perf_counter() - begin
    if weights == "bf16":
        encode = min(plain, fast, key=seconds)
    return run


class Graph:
    """An ONNX graph of plain operators. ONNX Runtime fuses those that it can."""

    def __init__(self, weights):
        import onnx

        self.onnx, self.weights, self.nodes, self.constants = onnx, weights, [], {}
        self.inputs, self.outputs = [], []

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, name, value):
        self.constants[name] = np.ascontiguousarray(value)
        return name

    def input(self, name, rank, ids=False):
        kind = self.onnx.TensorProto.INT64 if ids else self.onnx.TensorProto.FLOAT
        shape = [f"{name}_{i}" for i in range(rank)]
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value, name, ids=False):
        kind = self.onnx.TensorProto.INT64 if ids else self.onnx.TensorProto.FLOAT
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, None))

    def linear(self, x, name, kind=".", part=slice(None), tag=""):
        weight = self.constant(f"{name}.w{tag}", self.weights[f"{name}{kind}weight"][part].T)
        x = self.op("MatMul", x, weight)
        if f"{name}{kind}bias" not in self.weights:
            return x
        return self.op("Add", x, self.constant(f"{name}.b{tag}",
                                               self.weights[f"{name}{kind}bias"][part]))

    def add_norm(self, x, y, name):
        weight = self.constant(f"{name}.w", self.weights[f"{name}.weight"])
        bias = self.constant(f"{name}.b", self.weights[f"{name}.bias"])
        return self.op("LayerNormalization", self.op("Add", x, y), weight, bias, epsilon=1e-5)

    def embed(self, ids, table):
        scaled = self.weights["src_embedding.weight"] * np.float32(math.sqrt(D))
        return self.op("Add", self.op("Gather", self.constant("embedding", scaled), ids), table)

    def heads(self, x, keys=False):
        shape = self.constant("heads", np.array([0, 0, HEADS, D // HEADS], np.int64))
        x = self.op("Reshape", x, shape)
        return self.op("Transpose", x, perm=[0, 2, 3, 1] if keys else [0, 2, 1, 3])

    def project(self, x, name, parts):
        """Returns queries, keys and values (3 parts), or keys and values (2 parts), by one product."""
        begin = 3 - parts if parts < 3 else 0
        x = self.linear(x, name + ".in_proj", "_", slice(begin * D, None), f"{parts}")
        sizes = self.constant(f"split{parts}", np.full(parts, D, np.int64))
        return self.op("Split", x, sizes, outputs=parts, axis=-1)

    def attend(self, q, k, v, name, mask=None):
        scale = self.constant("scale", np.float32(math.sqrt(HEADS / D)))
        scores = self.op("MatMul", self.op("Mul", self.heads(q), scale), k)
        if mask:
            scores = self.op("Add", scores, mask)
        x = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        x = self.op("Transpose", x, perm=[0, 2, 1, 3])
        x = self.op("Reshape", x, self.constant("flat", np.array([0, 0, D], np.int64)))
        return self.linear(x, name + ".out_proj")

    def feed_forward(self, x, name):
        return self.linear(self.op("Relu", self.linear(x, name + ".linear1")), name + ".linear2")

    def encoder(self, ids, table):
        x = self.embed(ids, table)
        for i in range(LAYERS):
            name = f"encoder.layers.{i}"
            q, k, v = self.project(x, name + ".self_attn", 3)
            y = self.attend(q, self.heads(k, True), self.heads(v), name + ".self_attn")
            x = self.add_norm(x, y, name + ".norm1")
            x = self.add_norm(x, self.feed_forward(x, name), name + ".norm2")
        return x

    def cross(self, memory, i):
        k, v = self.project(memory, f"decoder.layers.{i}.multihead_attn", 2)
        return self.heads(k, True), self.heads(v)

    def decoder(self, x, cross, past=None, mask=None):
        present = []
        for i in range(LAYERS):
            name = f"decoder.layers.{i}"
            q, k, v = self.project(x, name + ".self_attn", 3)
            k, v = self.heads(k, True), self.heads(v)
            if past:
                k = self.op("Concat", past[i][0], k, axis=3)
                v = self.op("Concat", past[i][1], v, axis=2)
            present.append((k, v))
            x = self.add_norm(x, self.attend(q, k, v, name + ".self_attn", mask), name + ".norm1")
            q = self.linear(x, name + ".multihead_attn.in_proj", "_", slice(0, D), "q")
            y = self.attend(q, *cross[i], name + ".multihead_attn")
            x = self.add_norm(x, y, name + ".norm2")
            x = self.add_norm(x, self.feed_forward(x, name), name + ".norm3")
        return self.linear(x, "generator"), present

    def save(self, path, weights):
        """Writes the graph to path. For int8 it writes floats beside it first and quantizes them."""
        helper, to_tensor = self.onnx.helper, self.onnx.numpy_helper.from_array
        constants = [to_tensor(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "transformer", self.inputs, self.outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        if weights != "int8":
            path.write_bytes(model.SerializeToString())
            return
        import logging

        from onnxruntime.quantization import QuantType, quantize_dynamic

        logging.disable()  # it advises to infer shapes first, which these graphs do not need
        floats = path.with_suffix(".f32")
        floats.write_bytes(model.SerializeToString())
        quantize_dynamic(floats, path, op_types_to_quantize=["MatMul"], per_channel=True,
                         weight_type=QuantType.QInt8)
        floats.unlink()


def onnx_save(work, paths, weights):
    """Writes the graphs for a kind of work. They do not depend on the number of rows or on lengths."""
    arrays = work.weights
    start = Graph(arrays)
    memory = start.encoder(start.input("src", 2, True), start.input("src_positions", 2))
    if work.kind == "encode":
        start.output(memory, "memory")
    elif work.kind == "forward":
        x = start.embed(start.input("tgt", 2, True), start.input("tgt_positions", 2))
        cross = [start.cross(memory, i) for i in range(LAYERS)]
        logits, _ = start.decoder(x, cross, mask=start.input("mask", 2))
        start.output(logits, "logits")
    else:
        for i in range(LAYERS):
            for part, value in zip("kv", start.cross(memory, i)):
                start.output(value, f"cross_{part}{i}")
        graph = Graph(arrays)
        x = graph.embed(graph.input("ids", 2, True), graph.input("positions", 2))
        pairs = [[[graph.input(f"{kind}_{part}{i}", 4) for part in "kv"] for i in range(LAYERS)]
                 for kind in ("cross", "past")]
        logits, present = graph.decoder(x, *pairs)
        never = np.zeros(work.vocabulary, np.float32)
        never[END] = -np.inf
        logits = graph.op("Add", logits, graph.constant("never", never))
        graph.output(graph.op("ArgMax", logits, axis=2, keepdims=0), "next", True)
        for i, pair in enumerate(present):
            for part, value in zip("kv", pair):
                graph.output(value, f"present_{part}{i}")
        graph.save(paths[1], weights)
    start.save(paths[0], weights)


def onnxruntime_engine(work, threads, weights):
    if work.beam > 1 or work.kind in ("translate", "throughput") or weights == "bf16":
        return None
    kind = "decode" if work.kind == "load" else work.kind
    paths = [work.folder / f"{kind}-{weights}-{work.vocabulary}-{part}.onnx" for part in (0, 1)]
    if not paths[0].exists():
        if work.kind == "load":
            subprocess.run([sys.executable, __file__, "--store", json.dumps(work.description),
                            "--weights", weights, "--engines", "onnxruntime"], check=True)
        else:
            onnx_save(work, paths, weights)
    import onnxruntime

    def session(path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    table = positions(1024)
    begin = time.perf_counter()
    first = session(paths[0])
    feed = {"src": work.src, "src_positions": table[:work.source]}
    if work.kind == "encode":
        return lambda: first.run(None, feed)[0]
    if work.kind == "forward":
        mask = np.triu(np.full((work.target, work.target), -np.inf, np.float32), 1)
        feed.update(tgt=work.tgt, tgt_positions=table[:work.target], mask=mask)
        return lambda: first.run(None, feed)[0]
    steps = session(paths[1])
    work.load_ms = 1e3 * (time.perf_counter() - begin)
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    names = [f"{part}{i}" for i in range(LAYERS) for part in "kv"]
    outputs = ["next"] + [f"present_{name}" for name in names]
    tables = [value(table[t:t + 1].copy()) for t in range(work.target)]
    empty = {"k": value(np.empty((work.rows, HEADS, D // HEADS, 0), np.float32)),
             "v": value(np.empty((work.rows, HEADS, 0, D // HEADS), np.float32))}

    def run():
        cross = first.run_with_ort_values([f"cross_{name}" for name in names],
                                          {name: value(array) for name, array in feed.items()})
        feeds = {f"cross_{name}": one for name, one in zip(names, cross)}
        feeds.update({f"past_{name}": empty[name[0]] for name in names})
        feeds["ids"] = value(np.full((work.rows, 1), START, np.int64))
        out = []
        for t in range(work.target):
            feeds["positions"] = tables[t]
            answer = steps.run_with_ort_values(outputs, feeds)
            feeds["ids"] = answer[0]
            feeds.update({f"past_{name}": one for name, one in zip(names, answer[1:])})
            out.append(int(answer[0].numpy()[0, 0]))
        return out
    return run


ENGINES = {"ctranslate2": ctranslate2_engine, "torch": torch_engine,
           "onnxruntime": onnxruntime_engine}


# ---- a peer: a process that reads orders as lines of JSON and answers each with a line of JSON

def serve(engine, threads, weights):
    """Runs the process of a peer. An order with "work" prepares it and runs it once; another order
    runs it and returns the times."""
    import resource

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to standard output, which must not mix with answers
    run = None
    for line in sys.stdin:
        order = json.loads(line)
        answer = {}
        if "work" in order:
            run = None
            work = Work(order["work"])
            work.description = order["work"]
            run = ENGINES[engine](work, threads, weights)
            answer["has"] = run is not None
            if run:
                begin = time.perf_counter()
                result = run()
                answer["first_ms"] = 1e3 * (time.perf_counter() - begin)
                result = getattr(work, "finish", lambda same: same)(result)
                if not isinstance(result, list):
                    path = work.folder / f"{os.getpid()}.npy"
                    np.save(path, result)
                    result = str(path)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                answer.update(result=result, load_ms=getattr(work, "load_ms", None), peak_mb=peak)
        else:
            clock = time.process_time if order["cpu"] else time.perf_counter
            work.__dict__.update(order.get("set", {}))
            answer["ms"], cpu = [], time.process_time()
            for _ in range(order["times"]):
                begin = clock()
                run()
                answer["ms"].append(1e3 * (clock() - begin))
            answer["cpu_ms"] = 1e3 * (time.process_time() - cpu)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Peer:
    """The process of a peer. It is stopped except while it works on an order."""

    def __init__(self, name, threads, weights):
        engine, more = SETTINGS[name]
        self.name, self.has_ended = name, False
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                           OPENBLAS_NUM_THREADS=str(threads), **more)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", engine, "--threads", str(threads),
             "--weights", peers_type(weights)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, **order):
        if self.has_ended:
            return {"has": False, "ms": []}
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:  # its error is on standard error already; the other peers continue
            print(f"{self.name} has ended", file=sys.stderr)
            self.has_ended = True
            return {"has": False, "ms": []}
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait()


# ---- measuring

def peers_type(weights):
    """Returns the type of weights that peers have beside ours."""
    return "int8" if weights == SEVEN_BITS else weights


def seven_bits(work):
    """Returns the file that has the weights of a work in 7 bits. Writes the file if there is none."""
    file = Path(work["folder"]) / f"{Path(work['file']).stem}-7.safetensors"
    if not file.exists():
        subprocess.run([BENCH.parent / "quantize", work["file"], file, "int8", "--bits", "7"],
                       check=True, capture_output=True)
    return file


def ours(work, group, repeat, arguments, text=None):
    """Runs build/bench on a work. Returns its JSON, and the work's row in it, with the times."""
    threads, weights = group
    command = [BENCH, "--repeat", str(repeat), "--json", "--threads", str(threads),
               "--weights", peers_type(weights)] + ["--cpu"] * arguments.cpu
    if weights == "bf16":
        command.append("--bf16-attention")
    if work["kind"] == "translate":
        file = seven_bits(work) if weights == SEVEN_BITS else work["file"]
        command += [file, "--only", f"beam {work['beam']}"]
    else:
        command += ["--only", work["name"], "--seed", str(arguments.seed)]
    if "gemma" in work:
        command[command.index("--only") + 1] = work["workload"]
        command += [work["file"], "--ids", "--source", str(work["source"])]
        command += ["--target", str(work["target"])] if work["target"] else []
    elif weights == SEVEN_BITS and work["kind"] != "translate":
        command += [seven_bits(work)] + ["--ids"] * (work["kind"] != "load")
    if "layers" in work:
        command[command.index("--only") + 1] = "greedy-1"
        for key in ("rows", "beam", "source", "target", "vocabulary", "layers"):
            command += [f"--{key}", str(work[key])]
    answer = subprocess.run(command, check=True, capture_output=True, input=text, encoding="utf-8")
    answer = json.loads(answer.stdout)
    return answer, answer["workloads"][0]


def likeness(work, result, row, folder):
    """Says how a peer's result compares with ours, or with PyTorch's in f32."""
    if work["kind"] == "translate":
        expected = work["expected"]
        same = sum(a == b for a, b in zip(result, expected))
        return f"{same}/{len(expected)} lines"
    if work["kind"] == "decode":
        same = sum(a == b for a, b in zip(result, row["ids"]))
        return f"{same}/{len(row['ids'])} tokens"
    reference = folder / f"reference-{work['name']}.npy"
    if work["kind"] == "load" or not reference.exists():
        return ""
    return f"{np.abs(np.load(result) - np.load(reference)).max():.0e} off"


def measure_load(work, names, group, arguments):
    """Measures loading. A process can measure it only once, so each run has a new process."""
    times, peaks = {"ours": []}, {}
    for _ in range(arguments.rounds):
        _, row = ours(work, group, arguments.repeat, arguments)
        times["ours"] += row["ms"]
        peaks["ours"] = row["peak_decoded_mb"]
        for name in names:
            peer = Peer(name, *group)
            try:
                got = peer.ask(work=work)
            finally:
                peer.end()
            if got["has"]:
                times.setdefault(name, []).append(got["load_ms"])
                peaks[name] = got["peak_mb"]
    return {"ms": times, "alike": {name: f"{peak:.0f} MB" for name, peak in peaks.items()}}


def measure(work, peers, group, arguments, folder):
    """Measures a work with all engines. Returns a row: times in ms, and how results compare."""
    times, results = {"ours": []}, {}
    text = "".join(line + "\n" for line in work["lines"]) if work["kind"] == "translate" else None
    repeat = 1 if text else arguments.repeat  # one run over many lines is long enough
    for name, peer in peers.items():
        got = peer.ask(work=work)
        if got["has"]:
            long = not arguments.cpu and got["first_ms"] > 1e3 * LONG_RUN
            times[name], results[name] = [got["first_ms"]] * long, got["result"]
    for i in range(arguments.rounds):
        if i and sum(map(max, times.values())) > 1e3 * LONG_RUN:
            break
        answer, row = ours(work, group, repeat, arguments, text)
        times["ours"] += row["ms"]
        for name in [name for name in results if i or not times[name]]:
            times[name] += peers[name].ask(times=repeat, cpu=arguments.cpu)["ms"]
    results = {name: result for name, result in results.items() if not peers[name].has_ended}
    if text:  # the time of an engine that computes something else means nothing
        for name in [one for one in results if not any(map(str.__eq__, results[one], work["expected"]))]:
            print(f"{name}: left out of {work['name']}, because none of its texts is the same as "
                  "ours", file=sys.stderr)
            del results[name]
    times = {name: ms for name, ms in times.items() if name in results or name == "ours"}
    reference = folder / f"reference-{work['name']}.npy"
    if "torch" in results and group[1] == "f32" and not isinstance(results["torch"], list):
        reference.write_bytes(Path(results["torch"]).read_bytes())
    alike = {name: likeness(work, results[name], row, folder) for name in results}
    for result in results.values():
        if isinstance(result, str):
            Path(result).unlink()
    kept = {key: row[key] for key in ("percent_fma", "percent_vnni", "percent_read",
                                      "sentences_per_s", "tokens_per_s") if key in row}
    return {"ms": times, "alike": alike, "ceilings": answer["ceilings"], **kept}


def translate_all(work, threads):
    """Runs build/translate on all lines. Returns its output, its time and its CPU time in ms."""
    import resource

    def cpu():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1e3 * (used.ru_utime + used.ru_stime)
    text, before, begin = "".join(line + "\n" for line in work["lines"]), cpu(), time.perf_counter()
    done = subprocess.run([BENCH.parent / "translate", work["file"], "--threads", str(threads)],
                          input=text, check=True, capture_output=True, encoding="utf-8")
    return done.stdout.split("\n")[:-1], 1e3 * (time.perf_counter() - begin), cpu() - before


def sessions_in_c(work, workers):
    """Returns the sentences per second of sessions with a thread each, in batches of 64."""
    command = [BENCH, work["file"], "--only", "beam 1", "--batch", "64", "--repeat", "1", "--json",
               "--workers", str(workers)]
    done = subprocess.run(command, input="".join(line + "\n" for line in work["lines"]),
                          check=True, capture_output=True, encoding="utf-8")
    return json.loads(done.stdout)["workloads"][0]["sentences_per_s"]


def measure_throughput(work, names, threads, arguments):
    """Measures the throughput over all lines, with as many workers as threads."""
    weights, lines = stored_type(work["file"]), len(work["lines"])
    words = sum(len(line.split()) for line in work["lines"])
    times, cpu, in_c, alike, peers = {"ours": []}, {"ours": []}, [], {}, {}
    try:
        expected, _, _ = translate_all(work, threads)
        for name in names:
            if SETTINGS[name][0] != "ctranslate2":
                continue
            peers[name] = Peer(name, threads, weights)
            result = peers[name].ask(work=work)["result"]
            alike[name] = f"{sum(a == b for a, b in zip(result, expected))}/{lines} lines"
        for _ in range(arguments.rounds):
            output, ms, used = translate_all(work, threads)
            assert output == expected
            times["ours"].append(ms)
            cpu["ours"].append(used)
            in_c.append(sessions_in_c(work, threads))
            for name, peer in peers.items():
                for batch in BATCHES:
                    got = peer.ask(times=1, cpu=False, set={"batch": batch})
                    times.setdefault((name, batch), []).extend(got["ms"])
                    cpu.setdefault((name, batch), []).append(got["cpu_ms"])
    finally:
        for peer in peers.values():
            peer.end()
    best = {"ours": "ours"}
    for name in peers:
        best[name] = min(((name, batch) for batch in BATCHES),
                         key=lambda key: statistics.median(times[key]))
        alike[name] = f"batch {best[name][1]}, {alike[name]}"
    for name, key in best.items():
        ms = statistics.median(times[key])
        share = statistics.median(a / b for a, b in zip(cpu[key], times[key])) / threads
        alike[name] = (f"{1e3 * lines / ms:.0f} sentences/s, {1e3 * words / ms:.0f} words/s, "
                       f"CPU {100 * share:.0f} %, {alike.get(name, '')}").rstrip(", ")
    alike["ours"] += f", in C {statistics.median(in_c):.0f} sentences/s"
    batches = {f"{key[0]}, batch {key[1]}": ms for key, ms in times.items() if key != "ours"}
    return {"weights": f"{weights} as stored, workers", "alike": alike, "batches_ms": batches,
            "sentences_per_s_in_c": in_c,
            "ms": {name: times[key] for name, key in best.items()}, "sentences": lines,
            "words": words}


def stored_type(file):
    """Returns the type of weights that CTranslate2 needs for the same numbers as a model file."""
    with open(file, "rb") as stream:
        head = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return "int8" if any(about.get("dtype") == "I8" for about in head.values()) else "f32"


def works_of(arguments, folder):
    """Returns the descriptions of all works that the command line asks for. Writes their models."""
    parts = arguments.only.split(",") if arguments.only else [""]
    exact = set(parts) & set(GROWING if arguments.grow else WORKLOADS)
    found = []
    all_works = {} if arguments.gemma else GROWING if arguments.grow else WORKLOADS
    layers = ["--layers", str(GROWING_LAYERS)] if arguments.grow else []
    for name, (kind, rows, source, target, beam, vocabulary) in all_works.items():
        if name in parts or name.startswith(tuple(set(parts) - exact)):
            file = folder / f"model-{vocabulary}.safetensors"
            found.append({"name": name, "kind": kind, "rows": rows, "source": source,
                          "target": target, "beam": beam, "vocabulary": vocabulary,
                          "file": str(file), "folder": str(folder)})
            if arguments.grow:
                found[-1]["layers"] = GROWING_LAYERS
            if not file.exists():
                subprocess.run([BENCH, "--write", file, "--vocabulary", str(vocabulary), "--seed",
                                str(arguments.seed), *layers], check=True)
    for family in GEMMA if arguments.gemma else ():
        rows = {f"{family} {name}": row for part in parts for name, row in GEMMA_WORKLOADS.items()
                if f"{family} {name}".startswith(part) or name.startswith(part)}
        own = Path(arguments.gemma) / family
        if rows and not (own / "translator" / "model.bin").exists():
            own.mkdir(parents=True, exist_ok=True)
            gemma_save(family, own)
        for name, (workload, n, source, target, beam) in rows.items():
            found.append({"name": name, "kind": "decode" if target else "encode", "rows": n,
                          "source": source, "target": target, "beam": beam, "gemma": family,
                          "vocabulary": GEMMA[family]["vocab_size"], "workload": workload,
                          "file": str(own / "model.safetensors"), "folder": str(own.parent)})
    pairs = [(pair, arguments.sentences, "translate", beam, f"beam {beam}")
             for pair in arguments.model for beam in (1, 4)]
    pairs += [(pair, arguments.lines, "throughput", 1, f"{arguments.lines} lines")
              for pair in arguments.throughput]
    for pair, most, kind, beam, tag in pairs:
        file, _, text = pair.partition("=")
        lines = [line.split("\t")[0].strip() for line in Path(text).read_text("utf-8").splitlines()]
        name = f"{Path(file).stem} {tag}"
        if name.startswith(tuple(set(parts) - exact)):
            found.append({"name": name, "kind": kind, "beam": beam, "file": file, "batch": BATCH,
                          "folder": str(folder), "lines": [line for line in lines if line][:most]})
    return found


def expect(work, weights):
    """Stores our translations in the work, to compare those of peers with them."""
    translate = BENCH.parent / "translate"
    file = Path(work["file"])
    if weights == SEVEN_BITS:
        file = seven_bits(work)
    elif weights != "f32":
        file = Path(work["folder"]) / f"{file.stem}-{weights}.safetensors"
        subprocess.run([BENCH.parent / "quantize", work["file"], file, weights], check=True,
                       capture_output=True)
    text = "".join(line + "\n" for line in work["lines"])
    done = subprocess.run([translate, file, "--beam", str(work["beam"])], input=text,
                          check=True, capture_output=True, encoding="utf-8")
    work["expected"] = done.stdout.split("\n")[:len(work["lines"])]


def measure_all(arguments, names, folder):
    """Yields a row for each work, number of threads and type of weights."""
    works = works_of(arguments, folder)
    for work in (work for work in works if work["kind"] == "throughput"):
        for threads in arguments.threads:
            yield {"name": work["name"], "threads": threads,
                   **measure_throughput(work, names, threads, arguments)}
    works = [work for work in works if work["kind"] != "throughput"]
    for weights in arguments.weights if works else []:
        for threads in arguments.threads:
            group = (threads, weights)
            peers = {}
            try:
                for name in names if any(work["kind"] != "load" for work in works) else []:
                    peers[name] = Peer(name, *group)
                for work in works:
                    if time.monotonic() > arguments.end:
                        print(f"no time was left for {work['name']}", flush=True)
                        continue
                    if work["kind"] == "load":
                        row = measure_load(work, names, group, arguments)
                    else:
                        if work["kind"] == "translate":
                            expect(work, weights)
                        row = measure(work, peers, group, arguments, folder)
                    yield {"name": work["name"], "weights": weights, "threads": threads, **row}
            finally:
                for peer in peers.values():
                    peer.end()


# ---- tables and the plot

def median(row, name):
    return statistics.median(row["ms"][name])


def fastest(row):
    """Returns the fastest peer and its time divided by ours, or None without peers."""
    peers = [name for name in row["ms"] if name != "ours"]
    best = min(peers, key=lambda name: median(row, name), default=None)
    return (best, median(row, best) / median(row, "ours")) if best else None


def print_tables(results, only_last=False):
    """Prints a table for each type of weights and number of threads. With `only_last`, prints only the
    newest row, and the head of the table before its first row."""
    rows, versions = results["rows"], results["versions"]
    names = [name for name in SETTINGS if SETTINGS[name][0] in versions
             and name in results["peers"]]
    for i, row in enumerate(rows):
        group = (row["weights"], row["threads"])
        table = [other for other in rows if (other["weights"], other["threads"]) == group]
        if only_last and i < len(rows) - 1:
            continue
        if table[0] is row:
            print(f"\n{group[0]}, {group[1]} thread{'s' * (group[1] > 1)}, {results['clock']}, ms, "
                  f"medians of {results['runs']} runs; x: time divided by ours\n")
            heads = [f"{name} {versions[SETTINGS[name][0]]}" for name in names]
            print(f"| workload | ours | {' | '.join(heads)} | fastest peer / ours |")
            print("|---" * (len(names) + 3) + "|")
        own, cells = median(row, "ours"), []
        for name in names:
            if name in row["ms"]:
                cells.append(f"{median(row, name):.1f} = {median(row, name) / own:.2f}x "
                             f"{row['alike'].get(name, '')}".strip())
            else:
                cells.append("-")
        best = fastest(row)
        more = f" ({row['sentences_per_s']:.0f} sentences/s)" if "sentences_per_s" in row else ""
        more += f" {row['alike']['ours']}" if "ours" in row["alike"] else ""
        print(f"| {row['name']} | {own:.1f}{more} | {' | '.join(cells)} | "
              f"{f'{best[1]:.2f}' if best else '-'} |", flush=True)
        if not only_last and table[-1] is row:
            print_mean(table)


def print_mean(table):
    """Prints geometric means of the last column, over all workloads and over some kinds."""
    kinds = {"all": lambda name: name in WORKLOADS and name != "load",
             "encode": lambda name: name.split()[-1].startswith("encode"),
             "greedy and beam": lambda name: name.split()[-1].startswith(("greedy", "beam4-")),
             "grow": lambda name: name in GROWING,
             "models": lambda name: not {name, name.split()[-1]} & {*WORKLOADS, *GROWING,
                                                                   *GEMMA_WORKLOADS}}
    means = []
    for kind, belongs in kinds.items():
        ratios = [fastest(row)[1] for row in table if fastest(row) and belongs(row["name"])]
        if ratios:
            means.append(f"{kind} {statistics.geometric_mean(ratios):.2f} ({len(ratios)} rows)")
    if means:
        print(f"\ngeometric means of the last column: {', '.join(means)}")


def print_growth(rows):
    """Prints the table of --grow: milliseconds per token, ours / the fastest peer."""
    rows = [row for row in rows if row["name"] in GROWING]
    names = list(dict.fromkeys(row["name"] for row in rows))
    if names:
        print(f"\nmilliseconds per token, ours / fastest peer\n\n| threads | {' | '.join(names)} |")
        print("|---" * (len(names) + 1) + "|")
    for threads in dict.fromkeys(row["threads"] for row in rows):
        cells = {}
        for row in (row for row in rows if row["threads"] == threads):
            _, sentences, _, tokens, _, _ = GROWING[row["name"]]
            all_ms = [median(row, "ours")] + ([median(row, fastest(row)[0])] if fastest(row) else [])
            cells[row["name"]] = " / ".join(f"{ms / sentences / tokens:.3g}" for ms in all_ms)
        print(f"| {threads} | {' | '.join(cells.get(name, '-') for name in names)} |")


def print_scaling(rows):
    """Prints for each row how much faster it is with more threads or workers."""
    one = {(row["name"], row["weights"]): row for row in rows if row["threads"] == 1}
    for row in rows:
        first = one.get((row["name"], row["weights"]))
        if first and row is not first:
            gains = [f"{name} {median(first, name) / median(row, name):.2f}"
                     for name in row["ms"] if name in first["ms"]]
            print(f"{row['name']}, {row['weights']}, speed-up of {row['threads']} threads over 1:",
                  ", ".join(gains))


def read_results(sources):
    """Reads results and joins those of each machine, by its name, or "" without names."""
    machines = {}
    for source in sources:
        machine, _, path = source.rpartition("=")
        more = json.loads(Path(path).read_text())
        results = machines.get(machine, {"rows": [], "versions": {}, "peers": {}})
        machines[machine] = {**more, "rows": results["rows"] + more["rows"],
                             **{key: {**results[key], **more[key]} for key in ("versions", "peers")}}
    return machines


def plot(machines, path):
    """Draws the last column of the tables, with a panel for each type of weights."""
    panels = {}
    for machine, results in machines.items():
        for row in results["rows"]:
            if fastest(row):
                ratios = panels.setdefault(row["weights"], {}).setdefault(machine, {})
                ratios.setdefault(row["name"], {})[row["threads"]] = fastest(row)[1]
    speed_plot.draw([(weights, list(some.items())) for weights, some in panels.items()], path)


def hold(isa, wanted, folder):
    """Holds all engines to an instruction set. Compiles our programs into folder, and returns the
    peers that can be held to it."""
    global BENCH
    import shlex

    kernels, variables, lacks = ISAS[isa]
    os.environ.update(variables)
    compiler = shlex.split(os.environ.get("CC", "cc")) + shlex.split(os.environ.get("CFLAGS", "-O2"))
    for source in ("tools/bench/bench", "tools/model/quantize", "examples/translate/translate"):
        subprocess.run(compiler + [f"-DTRANSFORMER_KERNELS={kernels}", "-I.", "-Itools/common",
                                   f"{source}.c", "-o", folder / Path(source).name, "-lm",
                                   "-pthread"], cwd=ROOT, check=True)
    BENCH = folder / "bench"
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text().split() if cpu.exists() else lacks
    more = [flag for flag in lacks if flag in flags]
    left = [name for name in wanted if SETTINGS[name][0] == "onnxruntime" and more]
    for name in left:
        print(f"{name} is left out, because it cannot be held to {isa} and this CPU has "
              f"{' and '.join(more)}", file=sys.stderr)
    return [name for name in wanted if name not in left]


def installed(wanted):
    """Returns the versions of the engines that are installed."""
    from importlib import metadata

    found = {}
    for name in dict.fromkeys(SETTINGS[peer][0] for peer in wanted):
        try:
            found[name] = metadata.version(name)
            if name == "onnxruntime":
                metadata.version("onnx")
        except metadata.PackageNotFoundError as error:
            found.pop(name, None)
            print(f"{name} is left out, because it is not installed: {error}", file=sys.stderr)
    return found


def command_line():
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAMES",
                        help="workloads with these names or beginnings of names, with commas between; "
                        "--gemma measures them in this order")
    parser.add_argument("--engines", metavar="NAMES",
                        help=f"peers, with commas between: {','.join(SETTINGS)} (default all)")
    parser.add_argument("--weights", default="f32,int8", metavar="TYPES",
                        help="types of weights: f32, bf16, int8, and int8-7: ours with 7 bits "
                        "(quantize --bits 7) beside int8 of the peers (default f32,int8)")
    parser.add_argument("--threads", default="1,2", metavar="NUMBERS",
                        help="numbers of threads (default 1,2)")
    parser.add_argument("--grow", action="store_true",
                        help="measure growing batches, beams and vocabularies (64x4-256k: 64 "
                        "sentences, beam 4, 256,000 tokens) beside CTranslate2")
    parser.add_argument("--gemma", metavar="FOLDER",
                        help="measure T5Gemma and T5Gemma 2 beside CTranslate2 instead, with models that are "
                        "written to FOLDER (7 GB) if it has none; needs PyTorch and transformers")
    parser.add_argument("--model", action="append", default=[], metavar="FILE=TEXT",
                        help="also measure this model file on the sentences of TEXT")
    parser.add_argument("--sentences", type=int, default=1000, metavar="N",
                        help="largest number of sentences of each TEXT of --model (default 1000)")
    parser.add_argument("--throughput", action="append", default=[], metavar="FILE=TEXT",
                        help="also measure the throughput of this model file, with as many workers as "
                        "--threads; --weights has no effect")
    parser.add_argument("--lines", type=int, default=5000, metavar="N",
                        help="largest number of lines of each TEXT of --throughput (default 5000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N",
                        help="runs of each engine in a round (default 3)")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="S",
                        help="begin no workload later than S seconds after the start (default: no limit)")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, for a busy machine")
    parser.add_argument("--isa", choices=list(ISAS),
                        help="hold all engines to this instruction set (default: the best of this CPU)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random weights (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="write all times to FILE, after each row")
    parser.add_argument("--from", dest="source", metavar="[MACHINE=]JSON", action="append",
                        help="print and plot the results in this file instead of measuring")
    parser.add_argument("--plot", type=Path, metavar="FILE",
                        help="draw the ratios with 1 and 2 threads as SVG")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    return parser


def measure_and_print(arguments, refuse):
    """Measures and prints. Returns the results. refuse ends the program with a message."""
    if arguments.cpu and arguments.threads != [1]:
        refuse("--cpu needs --threads 1, because it adds up the time of all threads")
    wanted = arguments.engines.split(",") if arguments.engines else list(SETTINGS)
    if arguments.grow or arguments.gemma:  # the others always have the same layers, and no beams
        wanted = [name for name in wanted if SETTINGS.get(name, [name])[0] == "ctranslate2"]
    for name in wanted:
        if name not in SETTINGS:
            refuse(f"--engines {name}: unknown; choose from {', '.join(SETTINGS)}")
    held = tempfile.TemporaryDirectory()
    if arguments.isa:
        wanted = hold(arguments.isa, wanted, Path(held.name))
        print(f"held to {arguments.isa}:",
              " ".join(f"{k}={v}" for k, v in ISAS[arguments.isa][1].items()))
    versions = installed(wanted)
    names = [name for name in wanted if SETTINGS[name][0] in versions]
    results = {"versions": versions, "peers": {name: SETTINGS[name][1] for name in names},
               "clock": "CPU time" if arguments.cpu else "time", "isa": arguments.isa,
               "runs": f"{arguments.rounds} x {arguments.repeat}", "rows": []}
    for name in names:
        if SETTINGS[name][1]:
            print(f"{name}: {' '.join(f'{k}={v}' for k, v in SETTINGS[name][1].items())}")
    with tempfile.TemporaryDirectory() as folder:
        for row in measure_all(arguments, names, Path(folder)):
            results["rows"].append(row)
            print_tables(results, only_last=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))
    if not results["rows"]:
        refuse(f"--only {arguments.only}: no workload's name begins like this")
    groups = {(row["weights"], row["threads"]): None for row in results["rows"]}
    for group in groups:
        table = [row for row in results["rows"] if (row["weights"], row["threads"]) == group]
        print(f"\n{group[0]}, {group[1]}", end="")
        print_mean(table)
    print_scaling(results["rows"])
    print_growth(results["rows"])
    return results


def main():
    parser = command_line()
    arguments = parser.parse_args()
    arguments.end = time.monotonic() + arguments.seconds
    arguments.weights = arguments.weights.split(",")
    arguments.threads = [int(n) for n in arguments.threads.split(",")]
    if arguments.serve:
        return serve(arguments.serve, arguments.threads[0], arguments.weights[0])
    if arguments.store:
        return store(arguments)
    if arguments.source:
        machines = read_results(arguments.source)
        for machine, results in machines.items():
            print(f"\n{machine}" if machine else "", end="")
            print_tables(results)
            print_scaling(results["rows"])
            print_growth(results["rows"])
    else:
        machines = {"": measure_and_print(arguments, parser.error)}
    if arguments.plot:
        plot(machines, arguments.plot)


def store(arguments):
    """Writes the file that an engine loads. This process is not the one whose loading is measured."""
    description = json.loads(arguments.store)
    work = Work(dict(description, kind="decode"))
    work.description = description
    engine = arguments.engines or "ctranslate2"
    ENGINES[engine](work, 1, arguments.weights[0])


if __name__ == "__main__":
    main()
