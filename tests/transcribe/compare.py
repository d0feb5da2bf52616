"""Compares build/transcribe with faster-whisper and transformers on real models and real speech: make test-whisper.

The models are tiny.en and base, which packages of PyPI carry as CTranslate2 directories; tools/convert.py makes
model files of them. The sound is the recording of LibriVox and the spoken cards in pocketsphinx's test data, the speech
of Kennedy in the sources of whisper.cpp, and, if a folder shared/real/speech is beside the repository or higher up, its
clips in English, German and French.

    python tests/transcribe/compare.py FOLDER [TEST ...]

FOLDER has what make test-whisper has fetched: wheels, sdists and packages."""

import contextlib
import io
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

FOLDER = Path(sys.argv.pop(1))
sys.path.insert(0, str(FOLDER / "packages"))

import torch  # noqa: E402
from faster_whisper import WhisperModel  # noqa: E402
from faster_whisper.vad import VadOptions, get_speech_timestamps, get_vad_model  # noqa: E402
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/compare")]
from convert.untrusted import read_safetensors  # noqa: E402
from real_speech import BUILD, ENGLISH, OTHERS, RATE, clips, read, unpack, write  # noqa: E402
from time_live import measure  # noqa: E402
from word_errors import align, words_of  # noqa: E402

PROGRAM = ROOT / "build" / "transcribe"
JFK = "and so my fellow americans ask not what your country can do for you ask what you can do for your country"


def hear(model, clip, *options):
    """Runs build/transcribe and returns its segments. What precedes options is what faster-whisper does."""
    run = subprocess.run([PROGRAM, BUILD / f"{model}.safetensors", BUILD / f"{clip}.wav", "--format", "json",
                          "--silence", "0", *([] if "--vad" in options else ["--vad", "0"]), *map(str, options)],
                         capture_output=True, text=True)
    if run.returncode:
        raise AssertionError(run.stderr)
    return [json.loads(line) for line in run.stdout.splitlines()]


def mixed_sounds(speech):
    """Speech between what no speech is, as samples of 16 bits."""
    random, t = np.random.default_rng(1), np.arange(40 * RATE) / RATE
    music = sum(3000 * np.sin(2 * np.pi * f * t) * np.exp(-((t * k) % 1) * 3) for f, k in ((220, 2), (277, 1), (440, .5)))
    gaps = np.concatenate([speech["jfk"], np.zeros(3 * RATE), speech["austen"][:50000], random.normal(size=4 * RATE) * 100,
                           speech["cards"], np.zeros(5 * RATE)])
    both = min(len(speech["jfk"]), len(speech["austen"]))
    return {**speech, "silence": np.zeros(20 * RATE), "noise": random.normal(size=30 * RATE) * 2000,
            "tone": 8000 * np.sin(2 * np.pi * 220 * t), "music": music, "gaps": gaps,
            "gaps in noise": gaps + random.normal(size=len(gaps)) * 800,
            "two voices": 0.6 * (speech["jfk"][:both] + speech["austen"][:both]),
            "over music": 0.5 * speech["cards"] + music[:len(speech["cards"])],
            "a whole frame": speech["jfk"][:512 * 50], "most of a frame": speech["jfk"][:512 * 40 + 470],
            "700 samples": speech["jfk"][:700], "nothing": speech["jfk"][:0]}


class TestWhisper(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = unpack(FOLDER)
        torch.set_num_threads(1)
        cls.engines = {name: WhisperModel(str(BUILD / name), device="cpu", compute_type="float32", cpu_threads=1)
                       for name in ("tiny.en", "base")}

    def compare(self, model, clip, ours=(), words=False, **theirs):
        """Compares segments; returns ours."""
        found = hear(model, clip, *ours, *(["--words"] if words else []))
        last = len(read(BUILD / f"{clip}.wav")) / RATE  # our times never lie behind it
        expected, info = self.engines[model].transcribe(read(BUILD / f"{clip}.wav").astype(np.float32) / 32768, **{
            "language": "en" if model == "tiny.en" else None, "temperature": 0, "word_timestamps": words, **theirs})
        expected = list(expected)
        name = f"{model}, {clip}, {ours}"
        self.assertEqual([(one["seek"], one["tokens"]) for one in found],
                         [(one.seek, one.tokens) for one in expected], name)
        for mine, other in zip(found, expected):
            self.assertLessEqual(abs(mine["start"] - min(other.start, last)), 0.0201, name)
            self.assertLessEqual(abs(mine["end"] - min(other.end, last)), 0.0201, name)
            self.assertLess(abs(mine["avg_logprob"] - other.avg_logprob), 1e-3, name)
            self.assertEqual(mine["temperature"], round(other.temperature, 4), name)
            self.assertLess(abs(mine["compression_ratio"] / other.compression_ratio - 1), 0.12, name)
            if model == "base":
                self.assertEqual(mine["language"], info.language, name)
            if words:
                self.assertEqual([one["word"] for one in mine["words"]], [one.word for one in other.words], name)
                for a, b in zip(mine["words"], other.words):
                    self.assertLessEqual(max(abs(a["start"] - min(b.start, last)), abs(a["end"] - min(b.end, last))),
                                         0.0201, f"{name}: {b}")
                    self.assertLess(abs(a["probability"] - b.probability), 1e-3, f"{name}: {b}")
        return found

    def sweep(self, words=False):
        for model in ("tiny.en", "base"):
            for clip in clips(ENGLISH + ("long",) + (OTHERS if model == "base" else ())):
                for beam in (1, 5):
                    for previous in (True, False) if clip == "long" else (True,):
                        with self.subTest(model=model, clip=clip, beam=beam, previous=previous):
                            self.compare(model, clip, ("--beam", beam, "--temperature", 0,
                                                       *([] if previous else ["--no-previous"])),
                                         words, beam_size=beam, condition_on_previous_text=previous)

    def test_texts(self):
        self.sweep()

    def test_words(self):
        self.sweep(words=True)

    def test_translate(self):
        for clip in clips(OTHERS):
            for beam in (1, 5):
                self.compare("base", clip, ("--task", "translate", "--beam", beam, "--temperature", 0),
                             task="translate", beam_size=beam)

    def test_language(self):
        """Tests detection, and a language that is stated and is another one."""
        for clip in clips(("austen", "de", "fr")):
            self.assertEqual(self.compare("base", clip, ("--temperature", 0))[0]["language"],
                             clip if clip in OTHERS else "en")
            self.compare("base", clip, ("--temperature", 0, "--language", "nl"), language="nl")

    def test_fallback(self):
        """Forces a second attempt by a limit. At a temperature of 0.001 samples are greedy texts, so both programs
        must choose the same tokens."""
        for model in ("tiny.en", "base"):
            for clip in clips(("austen", "cards")):
                for limit in (-0.1, -0.3):
                    with self.subTest(model=model, clip=clip, limit=limit):
                        found = self.compare(model, clip, ("--temperature", "0,0.001", "--log-prob", limit),
                                             temperature=[0, 0.001], log_prob_threshold=limit)
                        if limit == -0.1:
                            self.assertNotEqual({one["temperature"] for one in found}, {0}, "no attempt failed")
                self.compare(model, clip, ("--temperature", "0,0.001", "--compression", 1.2), temperature=[0, 0.001],
                             compression_ratio_threshold=1.2)

    def test_no_speech(self):
        random = np.random.default_rng(5)
        write(BUILD / "noise.wav", np.concatenate([random.normal(size=20 * RATE) * 300, read(BUILD / "austen.wav"),
                                                   np.zeros(40 * RATE), random.normal(size=35 * RATE) * 1000]))
        for limit in (0.1, 0.6):
            self.compare("base", "noise", ("--temperature", 0, "--no-speech", limit, "--log-prob", -0.4),
                         no_speech_threshold=limit, log_prob_threshold=-0.4)

    def test_prompt(self):
        text = "Sense and Sensibility by Jane Austen: Mr. DASHWOOD."
        self.compare("base", "austen", ("--temperature", 0, "--prompt", text), initial_prompt=text)

    def test_threads_and_workers(self):
        once = hear("tiny.en", "long", "--no-previous", "--beam", 1)
        self.assertEqual(hear("tiny.en", "long", "--no-previous", "--beam", 1, "--threads", 2), once)
        parts = hear("tiny.en", "long", "--no-previous", "--beam", 1, "--workers", 2)
        self.assertEqual(parts, sorted(parts, key=lambda one: one["start"]))
        self.assertLess(align(heard(once), heard(parts))[0], 0.06 * len(heard(once)))

    def test_transformers(self):
        """Tests greedy texts without times against transformers. The sound is padded to 30 s."""
        for name in ("tiny.en", "base"):
            model, ids = to_transformers(name)
            extract = WhisperFeatureExtractor(feature_size=80)
            for clip in clips(ENGLISH[:3] + (OTHERS if name == "base" else ())):
                samples = np.zeros(30 * RATE, "<i2")
                sound = read(BUILD / f"{clip}.wav")[:30 * RATE]
                samples[:len(sound)] = sound
                language = clip if clip in OTHERS else "en"
                prompt = [ids["start"]] + ([ids[language], ids["transcribe"]] if name == "base" else []) + [
                    ids["no_timestamps"]]
                features = torch.from_numpy(extract(samples.astype(np.float32) / 32768, sampling_rate=RATE,
                                                    return_tensors="np").input_features)
                expected = []
                with torch.no_grad():
                    memory = model.model.encoder(features).last_hidden_state
                    while not expected or expected[-1] != ids["end"]:
                        logits = model(encoder_outputs=(memory,), use_cache=False,
                                       decoder_input_ids=torch.tensor([prompt + expected])).logits[0, -1]
                        logits[ids["suppressed"]] = -torch.inf
                        if not expected:
                            logits[ids["begin"]] = -torch.inf
                        logits[ids["no_timestamps"] + 1:] = -torch.inf
                        expected.append(int(logits.argmax()))
                run = subprocess.run([PROGRAM, BUILD / f"{name}.safetensors", "-", "--format", "json", "--no-times",
                                      "--beam", "1", "--temperature", "0", "--silence", "0", "--vad", "0",
                                      "--language", language],
                                     input=samples.tobytes(), capture_output=True)
                found = [json.loads(line)["tokens"] for line in run.stdout.decode().splitlines()]
                self.assertEqual(found, [expected[:-1]], f"{name}, {clip}")

    def test_voice_detector(self):
        """Tests probabilities against onnxruntime, parts and their texts against faster-whisper's vad_filter, on speech
        with pauses, noise, music, two voices at once, and sounds that end within a frame."""
        for name, samples in mixed_sounds(self.speech()).items():
            write(BUILD / "mixed.wav", np.clip(samples, -32768, 32767))
            sound = read(BUILD / "mixed.wav").astype(np.float32) / 32768
            expected = get_vad_model()(np.pad(sound, (0, 512 - len(sound) % 512))).ravel()
            found = np.array(subprocess.run([ROOT / "build" / "voices", BUILD / "tiny.en.safetensors", BUILD / "mixed.wav"],
                                            capture_output=True, text=True, check=True).stdout.split(), float)
            self.assertEqual(len(found), len(expected), name)
            self.assertLess(np.abs(found - expected).max(), 1e-4, name)
            for threshold, silence, pad in ((0.5, 2000, 400), (0.3, 500, 200), (0.7, 100, 30), (0.5, 300, 400), (0.1, 0, 0)):
                run = subprocess.run([PROGRAM, BUILD / "tiny.en.safetensors", BUILD / "mixed.wav", "--vad-only", "--vad",
                                      str(threshold), "--vad-silence", str(silence), "--vad-pad", str(pad)],
                                     capture_output=True, text=True, check=True)
                parts = get_speech_timestamps(sound, VadOptions(threshold=threshold, min_silence_duration_ms=silence,
                                                                speech_pad_ms=pad))
                self.assertEqual([tuple(round(float(one) * RATE) for one in line.split())
                                  for line in run.stdout.splitlines()],
                                 [(one["start"], one["end"]) for one in parts], f"{name}, {threshold}")
            self.compare("tiny.en", "mixed", ("--temperature", 0, "--vad", 0.5), "gaps" in name, vad_filter=True)

    def speech(self):
        return {clip: read(BUILD / f"{clip}.wav").astype(float) for clip in ("austen", "cards", "jfk")}

    def test_word_errors(self):
        """Tests that F16 has the word errors of F32, and int8 within half a point: on the clips, and on the clips in
        noise of 25 to 5 dB below the speech. (Rates with --fast are printed.)"""
        wanted = {"austen": self.texts["austen"], "cards": self.texts["cards"], "jfk": JFK}
        for name in ("tiny.en", "base"):
            errors: dict[str, list[int]] = {}
            total = 0
            for clip in wanted:
                reference = words_of(wanted[clip])
                for level in (None, *range(25, 4, -2)):
                    samples = read(BUILD / f"{clip}.wav").astype(float)
                    if level is not None:
                        power = np.sqrt((samples ** 2).mean()) * 10 ** (-level / 20)
                        samples += np.random.default_rng(level).normal(size=len(samples)) * power
                    write(BUILD / "noisy.wav", np.clip(samples, -32768, 32767))
                    total += len(reference)
                    for kind in ("f32", "f16", "int8", "int8 --fast", "f32 --fast"):
                        type_, *options = kind.split()
                        found = hear(name if type_ == "f32" else f"{name}.{type_}", "noisy", *options)
                        errors.setdefault(kind, []).append(align(heard(found), reference)[0])
            self.assertEqual(total, 12 * 114, "words of the three clips, as they are and at 11 levels of noise")
            rates = {kind: 100 * sum(some) / total for kind, some in errors.items()}
            print(f"{name}: word errors of {total} words: "
                  + ", ".join(f"{kind} {rate:.2f} %" for kind, rate in rates.items()))
            self.assertEqual(errors["f16"], errors["f32"], "F16 has the numbers of these weights")
            self.assertLessEqual(abs(rates["int8"] - rates["f32"]), 0.5, name)

    def test_live(self):
        """Tests how late the stable texts of transcribe --live are, in CPU time, and their words beside the whole file's."""
        with contextlib.redirect_stderr(io.StringIO()):
            found = measure("tiny.en.int8")
        print("tiny.en.int8, live: " + ", ".join(f"{name} {figure:.4g}" for name, figure in found.items()))
        self.assertLess(found["median"], 400)
        self.assertLess(found["cpu"], 100)
        self.assertLess(found["steps"], 0.75 * found["tokens"], "drafts save steps")
        self.assertEqual(found["said"], 92)
        self.assertLessEqual(found["live"], found["whole"] + 2, "the goal is 1 %")


def heard(segments):
    return words_of(" ".join(one["text"] for one in segments))


def to_transformers(name):
    """Loads a model file into transformers. Returns the model and ids of the file."""
    tensors, about = read_safetensors(BUILD / f"{name}.safetensors")
    config = json.loads(about["transformer.config"])
    state = {}
    for old, tensor in tensors.items():
        if old.startswith("extra.vad."):  # the voice detector is no part of Whisper
            continue
        tensor = torch.from_numpy(tensor.copy()) if tensor.dtype == np.float32 else None
        new = re.sub(r"^extra\.(conv\d)", r"encoder.\1", old)
        new = re.sub(r"^(src|tgt)_positions", lambda m: f"{'en' if m[1] == 'src' else 'de'}coder.embed_positions", new)
        new = re.sub(r"^tgt_embedding", "decoder.embed_tokens", new)
        new = re.sub(r"\.multihead_attn\.", ".encoder_attn.", re.sub(r"\.linear(\d)\.", r".fc\1.", new))
        new = re.sub(r"\.norm1\.", ".self_attn_layer_norm.", new)
        new = re.sub(r"^(encoder\.layers\.\d+)\.norm2|^(decoder\.layers\.\d+)\.norm3",
                     lambda m: f"{m[1] or m[2]}.final_layer_norm", new)
        new = re.sub(r"\.norm2\.", ".encoder_attn_layer_norm.", new)
        new = re.sub(r"^((?:en|de)coder)\.norm\.", r"\1.layer_norm.", new)
        if tensor is None:
            continue
        if ".in_proj_" in new:
            for letter, part in zip("qkv", tensor.chunk(3)):
                state["model." + re.sub(r"in_proj_(\w+)", rf"{letter}_proj.\1", new)] = part
        else:
            state["model." + new] = tensor.permute(0, 2, 1) if re.search(r"conv\d\.weight", new) else tensor
    D = tensors["tgt_embedding.weight"].shape[1]
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=len(tensors["tgt_embedding.weight"]), d_model=D, encoder_ffn_dim=4 * D, decoder_ffn_dim=4 * D,
        encoder_layers=max(int(m[1]) for one in tensors if (m := re.match(r"encoder\.layers\.(\d+)", one))) + 1,
        decoder_layers=max(int(m[1]) for one in tensors if (m := re.match(r"decoder\.layers\.(\d+)", one))) + 1,
        encoder_attention_heads=config["n_heads"], decoder_attention_heads=config["n_heads"])).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing = [one for one in missing if not one.endswith(("k_proj.bias", "proj_out.weight"))]
    assert not missing and all(one.endswith("k_proj.bias") for one in unexpected), (missing, unexpected)
    model.tie_weights()
    return model, {"start": config["start"], "end": config["end"], "suppressed": config["suppressed"],
                   "begin": [int(one) for one in about["extra.begin_suppressed"].split(",")],
                   "transcribe": int(about["extra.transcribe"]), "no_timestamps": int(about["extra.no_timestamps"]),
                   **config.get("languages", {})}


if __name__ == "__main__":
    unittest.main()
