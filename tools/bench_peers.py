#!/usr/bin/env python3
"""The workloads of build/bench through other engines: make all, then python tools/bench_peers.py

CTranslate2, PyTorch and ONNX Runtime, those that are installed, compute with the weights that
`build/bench --write` makes from a seed, on the same tokens, one thread, f32, in turns with
build/bench: each round runs every engine a few times, and the medians are over all rounds. What is
compared:

  encode   CTranslate2: Encoder.forward_batch; PyTorch: nn.TransformerEncoder with its fast path;
           ONNX Runtime: a graph of plain operators. build/bench's tfm_encode also makes the keys
           and values of the decoder, a seventh more work.
  forward  PyTorch: nn.TransformerEncoder and nn.TransformerDecoder; ONNX Runtime: a graph.
           CTranslate2 has no call that gives logits.
  greedy   CTranslate2: translate_batch; PyTorch and ONNX Runtime: a loop in Python over a step with
           cached keys and values, of which the loop itself is a small part.
  beam     CTranslate2 only.

Whether an engine gave the same tokens as build/bench, or the same encoding as PyTorch, is printed
beside its ratio.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
import numpy as np  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

BENCH = Path(__file__).resolve().parent.parent / "build" / "bench"
START, END, FIRST_WORD = 1, 2, 4
D, HEADS, LAYERS = 512, 8, 6
# as in bench.c: kind, rows, source, target, beam, vocabulary
WORKLOADS = {
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


def mix(x):
    """splitmix64, as in bench.c"""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def words(begin, shape, vocabulary):
    count = math.prod(shape)
    ids = [FIRST_WORD + mix(i) % (vocabulary - FIRST_WORD) for i in range(begin, begin + count)]
    return np.array(ids, np.int64).reshape(shape)


def positions(count):
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same"""
    angle = np.arange(count)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    table = np.empty((count, D), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


class Work:
    """A workload's tokens and weights."""

    def __init__(self, name, folder, seed):
        self.name = name
        self.kind, self.rows, self.source, self.target, self.beam, vocabulary = WORKLOADS[name]
        self.vocabulary = vocabulary
        self.src = words(0, (self.rows, self.source), vocabulary)
        self.tgt = words(self.rows * self.source, (self.rows, self.target), vocabulary)
        path = folder / f"model-{vocabulary}.safetensors"
        if not path.exists():
            subprocess.run([BENCH, "--write", path, "--vocabulary", str(vocabulary), "--seed",
                            str(seed)], check=True)
        self.weights = load_file(path)
        self.folder = folder


# Engines: a function each that takes a Work and gives a function that runs it once, or None.
# What a run returns is compared: tokens of the first sentence, or an encoding.

def ours(work, arguments):
    """Times come from the program itself."""
    command = [BENCH, "--only", work.name, "--repeat", str(arguments.repeat), "--json",
               "--seed", str(arguments.seed)] + ["--cpu"] * arguments.cpu
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer["workloads"][0]


def ctranslate2_engine(work):
    import ctranslate2
    from ctranslate2.specs import transformer_spec as specs

    w = work.weights
    tokens = ["<unk>", "<s>", "</s>", "<pad>"] + [f"t{i}" for i in range(4, work.vocabulary)]
    spec = specs.TransformerSpec.from_config((LAYERS, LAYERS), HEADS, pre_norm=False)

    def pair(layer, name, part=slice(None), kind="."):
        layer.weight, layer.bias = w[f"{name}{kind}weight"][part], w[f"{name}{kind}bias"][part]

    def norm(layer, name):
        layer.gamma, layer.beta = w[f"{name}.weight"], w[f"{name}.bias"]

    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = stack.embeddings
        for one in embeddings if isinstance(embeddings, list) else [embeddings]:
            one.weight = w["src_embedding.weight"]
        stack.scale_embeddings = True
        stack.position_encodings.encodings = positions(1024)
        for i, layer in enumerate(stack.layer):
            name = f"{side}.layers.{i}"
            pair(layer.self_attention.linear[0], f"{name}.self_attn.in_proj", kind="_")
            pair(layer.self_attention.linear[1], f"{name}.self_attn.out_proj")
            norm(layer.self_attention.layer_norm, f"{name}.norm1")
            if side == "decoder":
                cross = f"{name}.multihead_attn"
                pair(layer.attention.linear[0], f"{cross}.in_proj", slice(0, D), "_")
                pair(layer.attention.linear[1], f"{cross}.in_proj", slice(D, None), "_")
                pair(layer.attention.linear[2], f"{cross}.out_proj")
                norm(layer.attention.layer_norm, f"{name}.norm2")
            pair(layer.ffn.linear_0, f"{name}.linear1")
            pair(layer.ffn.linear_1, f"{name}.linear2")
            norm(layer.ffn.layer_norm, f"{name}.norm{3 if side == 'decoder' else 2}")
    options = {"device": "cpu", "inter_threads": 1, "intra_threads": 1, "compute_type": "float32"}
    if work.kind == "forward":
        return None
    if work.kind == "encode":
        folder = work.folder / "ctranslate2-encoder"
        if not folder.exists():
            model = specs.TransformerEncoderModelSpec(spec.encoder)
            model.register_vocabulary(tokens)
            model.validate()
            folder.mkdir()
            model.save(str(folder))
        encoder = ctranslate2.Encoder(str(folder), **options)
        rows = work.src.tolist()
        return lambda: np.array(encoder.forward_batch(rows).last_hidden_state)
    folder = work.folder / "ctranslate2"
    if not folder.exists():
        spec.decoder.projection.weight = w["generator.weight"]
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.validate()
        folder.mkdir()
        spec.save(str(folder))
    translator = ctranslate2.Translator(str(folder), **options)
    rows = [[tokens[i] for i in row] for row in work.src]
    index = {token: i for i, token in enumerate(tokens)}

    def run():
        results = translator.translate_batch(
            rows, beam_size=work.beam, max_decoding_length=work.target,
            min_decoding_length=work.target, length_penalty=0, max_batch_size=0)
        return [index[token] for token in results[0].hypotheses[0]]
    return run


def torch_engine(work):
    import torch
    from torch import nn
    from torch.nn import functional as F

    if work.beam > 1:
        return None
    torch.set_num_threads(1)
    w = {name: torch.from_numpy(value) for name, value in work.weights.items()}
    table = torch.from_numpy(positions(1024))
    options = {"dim_feedforward": 2048, "dropout": 0, "batch_first": True}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, **options), LAYERS)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, HEADS, **options), LAYERS)
    for side, stack in (("encoder.", encoder), ("decoder.", decoder)):
        stack.load_state_dict({name[len(side):]: value for name, value in w.items()
                               if name.startswith(side)})
        stack.eval()
    src, tgt = torch.from_numpy(work.src), torch.from_numpy(work.tgt)

    def embed(ids, first=0):
        x = F.embedding(ids, w["src_embedding.weight"]) * math.sqrt(D)
        return x + table[first:first + ids.shape[1]]

    def heads(x):
        return x.unflatten(-1, (HEADS, D // HEADS)).transpose(1, 2)

    def attend(q, k, v, layer):
        x = F.scaled_dot_product_attention(heads(q), k, v)
        return layer.out_proj(x.transpose(1, 2).flatten(2))

    def step(ids, t, past, cross):
        x = embed(ids, t)
        for i, layer in enumerate(decoder.layers):
            own, other = layer.self_attn, layer.multihead_attn
            q, k, v = F.linear(x, own.in_proj_weight, own.in_proj_bias).chunk(3, -1)
            k, v = past[i] = [torch.cat([p, heads(n)], 2) for p, n in zip(past[i], (k, v))]
            x = layer.norm1(x + attend(q, k, v, own))
            q = F.linear(x, other.in_proj_weight[:D], other.in_proj_bias[:D])
            x = layer.norm2(x + attend(q, *cross[i], other))
            x = layer.norm3(x + layer.linear2(F.relu(layer.linear1(x))))
        logits = F.linear(x[:, -1], w["generator.weight"])
        logits[:, END] = -math.inf
        return logits.argmax(-1, keepdim=True)

    @torch.inference_mode()
    def run():
        memory = encoder(embed(src))
        if work.kind == "encode":
            return memory.numpy()
        if work.kind == "forward":
            mask = nn.Transformer.generate_square_subsequent_mask(work.target)
            x = decoder(embed(tgt), memory, tgt_mask=mask, tgt_is_causal=True)
            return F.linear(x, w["generator.weight"]).numpy()
        cross = []
        for layer in decoder.layers:
            m = layer.multihead_attn
            k, v = F.linear(memory, m.in_proj_weight[D:], m.in_proj_bias[D:]).chunk(2, -1)
            cross.append((heads(k), heads(v)))
        empty = torch.empty(work.rows, HEADS, 0, D // HEADS)
        past = [(empty, empty)] * LAYERS
        ids, out = torch.full((work.rows, 1), START), []
        for t in range(work.target):
            ids = step(ids, t, past, cross)
            out.append(ids)
        return torch.cat(out, 1)[0].tolist()
    return run


class Graph:
    """An ONNX graph of plain operators, which ONNX Runtime fuses as it can."""

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
        """Queries, keys (transposed) and values, by one product."""
        begin = 3 - parts if parts < 3 else 0
        x = self.linear(x, name + ".in_proj", "_", slice(begin * D, None), f"{parts}")
        return self.op("Split", x, self.constant(f"split{parts}", np.full(parts, D, np.int64)),
                       outputs=parts, axis=-1)

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

    def session(self):
        import onnxruntime

        helper, to_tensor = self.onnx.helper, self.onnx.numpy_helper.from_array
        constants = [to_tensor(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "transformer", self.inputs, self.outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])


def onnxruntime_engine(work):
    import onnxruntime

    if work.beam > 1:
        return None
    table = positions(1024)
    start = Graph(work.weights)
    memory = start.encoder(start.input("src", 2, True), start.input("src_positions", 2))
    feed = {"src": work.src, "src_positions": table[:work.source]}
    if work.kind == "encode":
        start.output(memory, "memory")
        session = start.session()
        return lambda: session.run(None, feed)[0]
    if work.kind == "forward":
        x = start.embed(start.input("tgt", 2, True), start.input("tgt_positions", 2))
        cross = [start.cross(memory, i) for i in range(LAYERS)]
        logits, _ = start.decoder(x, cross, mask=start.input("mask", 2))
        start.output(logits, "logits")
        mask = np.triu(np.full((work.target, work.target), -np.inf, np.float32), 1)
        feed.update(tgt=work.tgt, tgt_positions=table[:work.target], mask=mask)
        session = start.session()
        return lambda: session.run(None, feed)[0]
    names = [f"{part}{i}" for i in range(LAYERS) for part in "kv"]
    for i in range(LAYERS):
        for part, value in zip("kv", start.cross(memory, i)):
            start.output(value, f"cross_{part}{i}")
    starts = start.session()
    graph = Graph(work.weights)
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
    steps = graph.session()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    outputs = ["next"] + [f"present_{name}" for name in names]
    tables = [value(table[t:t + 1].copy()) for t in range(work.target)]
    empty = {"k": value(np.empty((work.rows, HEADS, D // HEADS, 0), np.float32)),
             "v": value(np.empty((work.rows, HEADS, 0, D // HEADS), np.float32))}

    def run():
        cross = starts.run_with_ort_values([f"cross_{name}" for name in names],
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


def installed():
    found = {}
    for name in ENGINES:
        try:
            module = __import__(name)
            if name == "onnxruntime":
                __import__("onnx")
            found[name] = module.__version__
        except ImportError as error:
            print(f"without {name}: {error}", file=sys.stderr)
    return found


def likeness(work, result, own_ids, reference):
    if work.kind == "decode":
        same = sum(a == b for a, b in zip(result, own_ids))
        return f"{same}/{len(own_ids)} tokens"
    if reference is None:
        return ""
    return f"{np.abs(np.asarray(result) - reference).max():.0e} off"


def measure(work, engines, arguments):
    """One row: times of all engines in ms."""
    clock = time.process_time if arguments.cpu else time.perf_counter
    runs, results, times = {}, {}, {"ours": []}
    for name in engines:
        run = ENGINES[name](work)
        if run:
            runs[name], results[name], times[name] = run, run(), []
    for _ in range(arguments.rounds):
        row = ours(work, arguments)
        times["ours"] += row["ms"]
        for name, run in runs.items():
            for _ in range(arguments.repeat):
                begin = clock()
                results[name] = run()
                times[name].append(1e3 * (clock() - begin))
    reference = None if work.kind == "decode" else results.get("torch")
    alike = {name: likeness(work, results[name], row["ids"], reference) for name in runs}
    return {"name": work.name, "ms": times, "alike": alike,
            "percent_fma": row["percent_fma"], "percent_read": row["percent_read"]}


def print_row(row, engines):
    own = statistics.median(row["ms"]["ours"])
    cells, best = [], None
    for name in engines:
        if name not in row["ms"]:
            cells.append("-")
            continue
        median = statistics.median(row["ms"][name])
        best = min(best or median, median)
        cells.append(f"{median:.1f} = {median / own:.2f}x {row['alike'][name]}".strip())
    ratio = f"{best / own:.2f}" if best else "-"
    print(f"| {row['name']} | {own:.1f} | {' | '.join(cells)} | {ratio} |", flush=True)
    return best / own if best else None


def plot(rows, engines, path):
    try:
        import matplotlib
    except ImportError:
        print("no plot without matplotlib", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    width = 0.8 / (len(engines) + 1)
    for i, name in enumerate(["ours"] + list(engines)):
        at = [(k + i * width, statistics.median(row["ms"][name]) /
               statistics.median(row["ms"]["ours"]))
              for k, row in enumerate(rows) if name in row["ms"]]
        label = "transformer.h" if name == "ours" else name
        axes.bar([x for x, _ in at], [y for _, y in at], width, label=label)
    axes.set_xticks([k + width * len(engines) / 2 for k in range(len(rows))])
    axes.set_xticklabels([row["name"] for row in rows], rotation=20, ha="right", fontsize=8)
    axes.set_ylabel("time, transformer.h = 1")
    axes.axhline(1, color="gray", linewidth=0.5)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="workloads whose name begins so, several with commas")
    parser.add_argument("--engines", help="some of " + ",".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each engine a round")
    parser.add_argument("--cpu", action="store_true", help="CPU time, for a busy machine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="all times into this file")
    parser.add_argument("--plot", type=Path, help="a PNG of the ratios, by matplotlib")
    arguments = parser.parse_args()
    engines = installed()
    if arguments.engines:
        engines = {name: engines[name] for name in arguments.engines.split(",") if name in engines}
    parts = arguments.only.split(",") if arguments.only else [""]
    wanted = [name for name in WORKLOADS
              if name in parts or name.startswith(tuple(set(parts) - set(WORKLOADS)))]
    print(f"f32, one thread, {'CPU time' if arguments.cpu else 'time'}, ms, medians of "
          f"{arguments.rounds} x {arguments.repeat}; x: times as long as ours\n")
    versions = " | ".join(f"{name} {version}" for name, version in engines.items())
    print(f"| workload | ours | {versions} | fastest peer / ours |")
    print("|---" * (len(engines) + 3) + "|")
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            row = measure(Work(name, Path(folder), arguments.seed), engines, arguments)
            rows.append(row)
            ratio = print_row(row, engines)
            if ratio:
                ratios.append(ratio)
    if ratios:
        print(f"\ngeometric mean of the last column: {statistics.geometric_mean(ratios):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"versions": engines, "rows": rows}, indent=1))
    if arguments.plot:
        plot(rows, engines, arguments.plot)


if __name__ == "__main__":
    main()
