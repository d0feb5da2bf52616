"""Times Moonshine of random weights beside transformers (PyTorch) on one thread: CPU seconds of the encoder and of as many
steps, for 10 s and 30 s of noise.

    python tests/transcribe/time_moonshine.py build/moonshine [tiny|base|streaming-tiny ...]

If onnxruntime, onnx and onnxscript are installed, Moonshine (not the streaming one) is also exported as two graphs, the
encoder with the keys and values of its output, and a step with a cache, which onnxruntime runs on one thread.

Sizes are those of the real models' configs; their weights were not to be had. No token ends a text, so both take as
many steps as 6.5 tokens a second allow. A process that only loads the model is subtracted. A streaming model also hears
the sound with build/live (make build/live), and its encoder gets it in pieces of 0.15 s, as live text does."""

import logging
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/make")]
import make_moonshine  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.models.moonshine import modeling_moonshine  # noqa: E402
from convert import main as convert  # noqa: E402

SIZES = {"tiny": dict(hidden_size=288, intermediate_size=1152, encoder_num_hidden_layers=6, decoder_num_hidden_layers=6,
                      rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.9}),
         "base": dict(hidden_size=416, intermediate_size=1664, encoder_num_hidden_layers=8, decoder_num_hidden_layers=8,
                      rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.62})}


def build(name):
    torch.manual_seed(1)
    if name in SIZES:
        model = transformers.MoonshineForConditionalGeneration(transformers.MoonshineConfig(
            vocab_size=32768, encoder_num_attention_heads=8, decoder_num_attention_heads=8, **SIZES[name]))
    else:
        model = transformers.MoonshineStreamingForConditionalGeneration(transformers.MoonshineStreamingConfig(
            encoder_config={}, num_key_value_heads=8, decoder_start_token_id=1))
    model.generation_config.suppress_tokens = [2]
    return model.eval()


class Encoder(torch.nn.Module):
    """The encoder, and the keys and values of its output for all layers of the decoder."""

    def __init__(self, model):
        super().__init__()
        self.encoder, self.layers = model.model.encoder, model.model.decoder.layers

    def forward(self, sound):
        states, found = self.encoder(sound).last_hidden_state, []
        for layer in self.layers:
            attention = layer.encoder_attn
            found += [split(attention, attention.k_proj(states)), split(attention, attention.v_proj(states))]
        return tuple(found)


class Step(torch.nn.Module):
    """A greedy step: the next id, and the keys and values of the target so far."""

    def __init__(self, model):
        super().__init__()
        self.decoder, self.out = model.model.decoder, model.proj_out

    def forward(self, ids, positions, cross, past):
        x, new = self.decoder.embed_tokens(ids), []
        turn = self.decoder.rotary_emb(x, position_ids=positions)
        for i, layer in enumerate(self.decoder.layers):
            attention, y = layer.self_attn, layer.input_layernorm(x)
            q, k = modeling_moonshine.apply_rotary_pos_emb(split(attention, attention.q_proj(y)),
                                                           split(attention, attention.k_proj(y)), *turn)
            new += [torch.cat([past[2 * i], k], 2), torch.cat([past[2 * i + 1], split(attention, attention.v_proj(y))], 2)]
            x = x + attend(attention, q, *new[-2:])
            attention, y = layer.encoder_attn, layer.post_attention_layernorm(x)
            x = x + attend(attention, split(attention, attention.q_proj(y)), *cross[2 * i:2 * i + 2])
            x = x + layer.mlp(layer.final_layernorm(x))
        logits = self.out(self.decoder.norm(x))
        logits[..., 2] = float("-inf")  # no token ends a text
        return logits.argmax(-1), tuple(new)


def split(attention, x):
    return x.view(1, -1, attention.config.num_key_value_heads, attention.head_dim).transpose(1, 2)


def attend(attention, q, k, v):
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=attention.scaling)
    return attention.o_proj(y.transpose(1, 2).reshape(1, 1, -1))


def export(model, samples, folder):
    """Returns a function that decodes the samples with onnxruntime, or None if a package is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        return print(f"without onnxruntime: {error}")
    warnings.simplefilter("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    sound, layers = torch.tensor(samples)[None], len(model.model.decoder.layers)
    encoder, step = Encoder(model).eval(), Step(model).eval()
    with torch.no_grad():
        cross = encoder(sound)
        past = [torch.zeros(1, cross[0].shape[1], 5, cross[0].shape[3]) for _ in range(2 * layers)]
        length = torch.export.Dim("length", min=2, max=400)
        torch.onnx.export(encoder, (sound,), folder / "encoder.onnx", dynamo=True, verbose=False)
        torch.onnx.export(step, (torch.ones(1, 1, dtype=torch.int64), torch.full((1, 1), 5), list(cross), past),
                          folder / "step.onnx", dynamo=True, verbose=False,
                          dynamic_shapes=(None, None, [None] * len(cross), [{2: length}] * len(past)))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    first, second = (onnxruntime.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
                     for name in ("encoder", "step"))
    names, value = [one.name for one in second.get_inputs()], onnxruntime.OrtValue.ortvalue_from_numpy
    results = [one.name for one in second.get_outputs()]

    def run(most):
        seen = first.run_with_ort_values(None, {first.get_inputs()[0].name: value(sound.numpy())})
        kept = [value(np.zeros((1, past[0].shape[1], 0, past[0].shape[3]), np.float32)) for _ in past]
        ids = [1]
        for t in range(most):
            feed = [value(np.full((1, 1), ids[-1])), value(np.full((1, 1), t)), *seen, *kept]
            made, *kept = second.run_with_ort_values(results, dict(zip(names, feed)))
            ids.append(int(made.numpy()[0, 0]))
        return ids
    return run


def spent(program, model, sound, piece=0):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, model, sound, "1", str(piece)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def live(program, model, sound, samples):
    """CPU seconds of live text, and what more the encoder takes for pieces of 0.15 s than for the whole sound."""
    with wave.open(str(sound.with_suffix(".wav")), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((32767 * np.clip(samples, -1, 1)).astype("<i2").tobytes())
    command = [ROOT / "build/live", model, sound.with_suffix(".wav")]
    counts = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
              for _ in range(3)]
    more = [spent(program, model, sound, 2400) - spent(program, model, sound, len(samples)) for _ in range(3)]
    return min(float(one[3]) for one in counts), counts[0][5], sorted(more)[1]


def main():
    program, names = sys.argv[1], sys.argv[2:] or [*SIZES, "streaming-tiny"]
    torch.set_num_threads(1)
    for name in names:
        model = build(name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            model.save_pretrained(path / "hf")
            make_moonshine.write_tokenizer(path / "hf", model.config.vocab_size)
            convert.main(["--quiet", str(path / "hf"), str(path / "m.safetensors"), "--no-check", "--vad=none"])
            np.zeros(0, np.float32).tofile(path / "empty.f32")
            for seconds in (10, 30):
                samples = make_moonshine.noise(seconds)
                samples.tofile(path / "x.f32")
                ours = [spent(program, path / "m.safetensors", path / "x.f32")
                        - spent(program, path / "m.safetensors", path / "empty.f32") for _ in range(3)]
                theirs = []
                for _ in range(3):
                    begin = time.process_time()
                    with torch.no_grad():
                        made = model.generate(**make_moonshine.inputs_of(model, samples), do_sample=False, num_beams=1,
                                              max_length=int(seconds * 6.5), decoder_start_token_id=1)
                    theirs.append(time.process_time() - begin)
                print(f"{name}, {seconds} s, {made.shape[1] - 1} steps: {min(ours):.2f} s of CPU, transformers "
                      f"{min(theirs):.2f}, {min(theirs) / min(ours):.1f} times as much", flush=True)
                run, graphs = name in SIZES and export(model, samples, path), []
                for _ in range(3 if run else 0):
                    begin = time.process_time()
                    ids = run(made.shape[1] - 1)
                    graphs.append(time.process_time() - begin)
                if run:
                    same = sum(a == b for a, b in zip(ids, made[0].tolist()))
                    print(f"{name}, {seconds} s: onnxruntime {min(graphs):.2f} s of CPU, {min(graphs) / min(ours):.1f} "
                          f"times as much; {same} of {len(ids)} ids are transformers'", flush=True)
                if name not in SIZES:
                    print("{}, {} s, live: {:.2f} s of CPU, {} runs; the encoder alone {:.2f} s more than at once".format(
                        name, seconds, *live(program, path / "m.safetensors", path / "x.f32", samples)), flush=True)


if __name__ == "__main__":
    main()
