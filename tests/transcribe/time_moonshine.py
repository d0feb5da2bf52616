"""Times Moonshine of random weights beside transformers (PyTorch) on one thread: CPU seconds of the encoder and of as many
steps, for 10 s and 30 s of noise.

    python tests/transcribe/time_moonshine.py build/moonshine [tiny|base|streaming-tiny ...]

Sizes are those of the real models' configs; their weights were not to be had. No token ends a text, so both take as
many steps as 6.5 tokens a second allow. A process that only loads the model is subtracted. A streaming model also hears
the sound with build/live (make build/live), and its encoder gets it in pieces of 0.15 s, as live text does."""

import resource
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/make")]
import make_moonshine  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
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
                if name not in SIZES:
                    print("{}, {} s, live: {:.2f} s of CPU, {} runs; the encoder alone {:.2f} s more than at once".format(
                        name, seconds, *live(program, path / "m.safetensors", path / "x.f32", samples)), flush=True)


if __name__ == "__main__":
    main()
