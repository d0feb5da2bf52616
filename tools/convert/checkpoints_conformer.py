"""checkpoints_conformer.py: the FastConformer encoder of Canary and Cohere Transcribe, and their prompts.

The decoder is a model of memories (checkpoints_speech.py). A program that transcribes
(examples/transcribe/fast_conformer.h and canary.h) computes the rest, which the model file has as

    extra.conformer.maps.0.weight [C, taps * taps], maps.N.weight [taps * taps, C], .bias [C]
        the convolutions over frames and mel bins. Behind each but the first one, maps.N.mix [C, C]
    extra.conformer.linear.weight [D, bins * C], .bias
        the columns of one bin stand side by side, and sqrt(D) is in it where scale_input says so
    extra.conformer.layers.N.*
        under the names of transformers. The norm of a batch is in conv.depthwise, [taps, D]
    extra.conformer.mels, heads, stride, activation, preemphasis
        metadata: what no shape shows
    extra.conformer.seconds, search
        metadata: how much sound is heard at once, and in how much of its end a longer one is cut
    extra.conformer.prompt, punctuation, no_punctuation
        metadata: the ids before a text, with the words source, target and punctuation in the places of
        choices, and the ids of the last one
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from . import config_fields
from . import tokenizer_files
from .config_fields import Fields, why
from .modelfile import ConvertError, Model, Tensors, describe, is_floating, shape_of, to_f32
from .untrusted import brief, check_kinds, has_file, read_object, visible

# Cohere's own files have the names of NeMo.
SPELLING = (
    (r"^pre_encode\.conv\.", "subsampling.layers."), (r"^pre_encode\.out\.", "subsampling.linear."),
    (r"\.self_attn\.linear_([qkv])\.", r".self_attn.\1_proj."), (r"\.self_attn\.linear_out\.", ".self_attn.out_proj."),
    (r"\.self_attn\.linear_pos\.", ".self_attn.relative_k_proj."), (r"\.self_attn\.pos_bias_([uv])$", r".self_attn.bias_\1"),
    (r"\.self_attn\.o_proj\.", ".self_attn.out_proj."), (r"\.conv\.batch_norm\.", ".conv.norm."),
    (r"\.conv\.pointwise_conv([12])\.", r".conv.pointwise\1."), (r"\.conv\.depthwise_conv\.", ".conv.depthwise."))
UNUSED = (r"\.num_batches_tracked$", r"^pos_enc\.", r"^encode_positions\.")
NAMES = ("feed_forward1.linear1", "feed_forward1.linear2", "feed_forward2.linear1", "feed_forward2.linear2", "self_attn.q_proj",
         "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "self_attn.relative_k_proj", "conv.pointwise1",
         "conv.depthwise", "conv.pointwise2")
NORMS = ("norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out")

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "conv_kernel_size", "subsampling_factor",
         "subsampling_conv_channels", "subsampling_conv_kernel_size", "subsampling_conv_stride", "num_mel_bins", "head_dim",
         "num_key_value_heads")
KINDS = {**dict.fromkeys(SIZES, "integer"), "hidden_act": "text", "scale_input": "truth value"}
# What config.json has no encoder_config for
ABSENT = {"canary_decoder": {"num_hidden_layers": 32, "num_mel_bins": 128, "scale_input": False},
          "cohere_asr": {"hidden_size": 1280, "num_hidden_layers": 48, "intermediate_size": 5120, "num_mel_bins": 128,
                         "scale_input": False}}
# ParakeetFeatureExtractor and CohereAsrFeatureExtractor
SOUND = Fields(
    used={"feature_size": None, "preemphasis": 0.97, "max_audio_clip_s": 35.0, "overlap_chunk_second": 5.0},
    only={"sampling_rate": (16000,), "hop_length": (160,), "n_fft": (512,), "win_length": (400,),
          "min_energy_window_samples": (1600,), "padding_value": (0,)},
    unused={**why("a batch of several sounds", "padding_side", "return_attention_mask", "do_normalize", "chunk_length"),
            **why("names of classes", "feature_extractor_type", "processor_class", "tokenizer_class"),
            **why("noise 100 dB below the loudest sound, which keeps digital silence from a deviation of 0", "dither")})
SOUND_KINDS = {"feature_size": "integer", **dict.fromkeys(("preemphasis", "max_audio_clip_s", "overlap_chunk_second"), "number")}
LONGEST = 60  # seconds that fast_conformer.h hears at once

# The prompts of NeMo's format canary2, and of CohereAsrProcessor. Words stand for choices.
PROMPTS = {
    "canary_decoder": "<|startofcontext|> <|startoftranscript|> <|emo:undefined|> source target punctuation <|noitn|> "
                      "<|notimestamp|> <|nodiarize|>",
    "cohere_asr": "\u2581 <|startofcontext|> <|startoftranscript|> <|emo:undefined|> source source punctuation <|noitn|> "
                  "<|notimestamp|> <|nodiarize|>"}
CHOICES = ("source", "target", "punctuation")
# The languages of CanaryProcessor and of CohereAsrProcessor; the vocabularies have tokens for more.
LANGUAGES = {"canary_decoder": "bg hr cs da nl en et fi fr de el hu it lv lt mt pl pt ro sk sl es sv ru uk",
             "cohere_asr": "ar de el en es fr it ja ko nl pl pt vi zh"}


# ------------------------------------------------------------------------------------- the config
def read_encoder(kind: str, found: dict[str, Any], path: str, ignored: set[str], notes: list[str]) -> dict[str, Any]:
    """The fields of encoder_config, with the defaults of its class, checked."""
    where = f"{path}, encoder_config"
    one = found.get("encoder_config")
    if one is None:
        one = ABSENT[kind]
    if not isinstance(one, dict):
        raise ConvertError(f"{where} is {brief(one)}")
    if one.get("model_type") not in (None, "parakeet_encoder"):
        raise ConvertError(f"{where}: model_type {visible(str(one['model_type']))}; what transformer.h runs is parakeet_encoder")
    one = check_kinds(one, KINDS, where)
    fields = config_fields.CONFORMER
    said = config_fields.read(fields, one, "parakeet_encoder", where, ignored, notes)
    encoder: dict[str, Any] = {**config_fields.with_defaults(fields, one, said), "where": where}
    for key in SIZES:
        if encoder.get(key) is not None and not 1 <= encoder[key] < 2 ** 24:
            raise ConvertError(f"{where}: {key} is {encoder[key]}; it takes a number above 0")
        if encoder.get(key) is None and key not in ("head_dim", "num_key_value_heads"):
            raise ConvertError(f"{where}: {key} is null")
    if encoder.get("num_key_value_heads") not in (None, encoder["num_attention_heads"]):
        raise ConvertError(f"{where}: num_key_value_heads is {encoder['num_key_value_heads']} and num_attention_heads "
                           f"{encoder['num_attention_heads']}; examples/transcribe has one number for both")
    if encoder["conv_kernel_size"] % 2 == 0:
        raise ConvertError(f"{where}: conv_kernel_size is {encoder['conv_kernel_size']}; a row needs as many neighbours before "
                           f"it as behind it, so the size is odd")
    if encoder["hidden_size"] % 2:
        raise ConvertError(f"{where}: hidden_size is {encoder['hidden_size']}; relative positions are pairs of sine and cosine")
    if not 1 <= n_maps(encoder) <= 6 or encoder["subsampling_conv_stride"] > 8 or encoder["subsampling_conv_kernel_size"] > 15:
        raise ConvertError(f"{where}: subsampling_factor {encoder['subsampling_factor']}, stride "
                           f"{encoder['subsampling_conv_stride']} and kernel {encoder['subsampling_conv_kernel_size']}; transformer.h "
                           f"has 1 to 6 convolutions (factors 2 to 64), of a stride up to 8 and a kernel up to 15")
    if not 1 <= encoder["num_mel_bins"] <= 257:
        raise ConvertError(f"{where}: num_mel_bins is {encoder['num_mel_bins']}; a frame has 257 frequencies")
    return encoder


def n_maps(encoder: dict[str, Any]) -> int:
    return int(encoder["subsampling_factor"]).bit_length() - 1  # rounded down, as transformers does it


def find_sound(folder: Path) -> tuple[dict[str, Any], str]:
    """The object of the files that is about features, and where it is."""
    if has_file(folder, "processor_config.json"):  # transformers 5 has all parts of a processor there
        whole = read_object(folder / "processor_config.json")
        if isinstance(whole.get("feature_extractor"), dict):
            return whole["feature_extractor"], f"{folder / 'processor_config.json'}, feature_extractor"
    path = folder / "preprocessor_config.json"
    return read_object(path) if has_file(folder, path.name) else {}, str(path)


def files_of(folder: Path, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Objects whose keys --ignore-key may name. found: config.json."""
    return [one for one in (found.get("encoder_config"), find_sound(folder)[0]) if isinstance(one, dict)]


def read_sound(folder: Path, ignored: set[str], notes: list[str]) -> dict[str, Any]:
    """What the files say of features and of long sound."""
    found, where = find_sound(folder)
    found = check_kinds(found, SOUND_KINDS, where)
    said = config_fields.read(SOUND, found, "feature extractor", where, ignored, notes)
    sound = {**config_fields.with_defaults(SOUND, found, said), "where": where}
    sound["preemphasis"] = found.get("preemphasis", SOUND.used["preemphasis"]) or 0
    if not -1 <= sound["preemphasis"] <= 1:
        raise ConvertError(f"{where}: preemphasis is {sound['preemphasis']}; it takes a number from -1 to 1")
    if not 1 <= sound["max_audio_clip_s"] <= LONGEST or not 0 <= sound["overlap_chunk_second"] <= sound["max_audio_clip_s"]:
        raise ConvertError(f"{where}: max_audio_clip_s {brief(sound['max_audio_clip_s'])} and overlap_chunk_second "
                           f"{brief(sound['overlap_chunk_second'])}; examples/transcribe hears 1 to {LONGEST} seconds at once")
    return sound


# ------------------------------------------------------------------------------------ the weights
def place(tensors: Tensors, encoder: dict[str, Any], activations: dict[str, str], model: Model) -> None:
    """Puts the tensors of an encoder, without "encoder." before their names."""
    found = {}
    for name, tensor in tensors.items():
        new = name
        for pattern, replacement in SPELLING:
            new = re.sub(pattern, replacement, new)
        if not any(re.search(pattern, new) for pattern in UNUSED):
            found[new] = (name, tensor)
    where, layers = encoder["where"], encoder["num_hidden_layers"]
    if encoder["hidden_act"] not in activations:
        raise ConvertError(f"{where}: hidden_act {visible(str(encoder['hidden_act']))}; transformer.h has "
                           + ", ".join(sorted(set(activations.values()))))
    place_maps(found, encoder, model)
    for i in range(layers):
        place_layer(found, f"layers.{i}.", encoder, model)
    if found:
        name = next(iter(found.values()))[0]
        raise ConvertError(f"{where}: it has no place for {visible(name)}, one of {len(found)} tensors (num_hidden_layers is {layers}, "
                           f"subsampling_factor {encoder['subsampling_factor']})")
    model.about.update({"extra.conformer.mels": str(encoder["num_mel_bins"]),
                        "extra.conformer.heads": str(encoder["num_attention_heads"]),
                        "extra.conformer.stride": str(encoder["subsampling_conv_stride"]),
                        "extra.conformer.activation": activations[encoder["hidden_act"]]})


def take(found: dict[str, tuple[str, np.ndarray]], name: str, shape: list[int], encoder: dict[str, Any],
         optional: bool = False) -> tuple[str, np.ndarray] | None:
    """A tensor and its name, without it in found. Axes of length 1 at the end are those of convolutions over one position."""
    if name not in found:
        if optional:
            return None
        raise ConvertError(f"{encoder['where']}: the weights have no encoder.{name}")
    origin, tensor = found.pop(name)
    while tensor.ndim > len(shape) and tensor.shape[-1] == 1:
        tensor = tensor[..., 0]
    if list(tensor.shape) != shape or not is_floating(tensor):
        raise ConvertError(f"{visible(origin)} {describe(tensor)}: {shape} is expected, by {encoder['where']}")
    return origin, tensor


def put(model: Model, name: str, one: tuple[str, np.ndarray] | None) -> None:
    if one is not None:
        assert shape_of(f"extra.conformer.{name}"), name
        model.put(f"extra.conformer.{name}", one[0], np.ascontiguousarray(one[1]))


def place_maps(found: dict[str, tuple[str, np.ndarray]], encoder: dict[str, Any], model: Model) -> None:
    C, taps, stride = (encoder[f"subsampling_conv_{key}"] for key in ("channels", "kernel_size", "stride"))
    bins = encoder["num_mel_bins"]
    for k in range(n_maps(encoder)):
        name = f"subsampling.layers.{3 * k - 1 if k else 0}"
        origin, w = take(found, f"{name}.weight", [C, 1, taps, taps], encoder)  # type: ignore[misc]
        w = w.reshape(C, taps * taps)
        put(model, f"maps.{k}.weight", (origin, w.T if k else w))
        put(model, f"maps.{k}.bias", take(found, f"{name}.bias", [C], encoder))
        if k:
            put(model, f"maps.{k}.mix.weight", take(found, f"subsampling.layers.{3 * k}.weight", [C, C], encoder))
            put(model, f"maps.{k}.mix.bias", take(found, f"subsampling.layers.{3 * k}.bias", [C], encoder))
        bins = (bins + (taps - 1) // 2 * 2 - taps) // stride + 1
        if bins < 1:
            raise ConvertError(f"{encoder['where']}: nothing is left of num_mel_bins {encoder['num_mel_bins']} behind "
                               f"{k + 1} convolutions")
    D = encoder["hidden_size"]
    origin, w = take(found, "subsampling.linear.weight", [D, C * bins], encoder)  # type: ignore[misc]
    bias = take(found, "subsampling.linear.bias", [D], encoder)
    if encoder["scale_input"]:
        w, bias = to_f32(w) * np.float32(D ** 0.5), (bias[0], to_f32(bias[1]) * np.float32(D ** 0.5))  # type: ignore[index]
        model.notes.append(f"{origin}: times sqrt(hidden_size), as scale_input says")
    put(model, "linear.weight", (origin, w.reshape(D, C, bins).transpose(0, 2, 1).reshape(D, bins * C)))
    put(model, "linear.bias", bias)


def place_layer(found: dict[str, tuple[str, np.ndarray]], layer: str, encoder: dict[str, Any], model: Model) -> None:
    D, F, taps = encoder["hidden_size"], encoder["intermediate_size"], encoder["conv_kernel_size"]
    width = (encoder.get("head_dim") or D // encoder["num_attention_heads"]) * encoder["num_attention_heads"]
    shapes = {"linear1": [F, D], "linear2": [D, F], "out_proj": [D, width], "pointwise1": [2 * D, D], "pointwise2": [D, D]}
    for name in NAMES:
        if name == "conv.depthwise":
            continue
        shape = shapes.get(name.split(".")[1], [width, D])
        put(model, f"{layer}{name}.weight", take(found, f"{layer}{name}.weight", shape, encoder))
        put(model, f"{layer}{name}.bias", take(found, f"{layer}{name}.bias", shape[:1], encoder, optional=True))
    for name in NORMS:
        for part in ("weight", "bias"):
            put(model, f"{layer}{name}.{part}", take(found, f"{layer}{name}.{part}", [D], encoder))
    heads = [encoder["num_attention_heads"], width // encoder["num_attention_heads"]]
    for name in ("bias_u", "bias_v"):
        origin, one = take(found, f"{layer}self_attn.{name}", heads, encoder)  # type: ignore[misc]
        put(model, f"{layer}self_attn.{name}", (origin, one.reshape(-1)))
    # (conv(x) + b - mean) / sqrt(var + eps) * gain + shift
    origin, w = take(found, f"{layer}conv.depthwise.weight", [D, 1, taps], encoder)  # type: ignore[misc]
    b = take(found, f"{layer}conv.depthwise.bias", [D], encoder, optional=True)
    parts = [take(found, f"{layer}conv.norm.{part}", [D], encoder) for part in ("weight", "bias", "running_mean", "running_var")]
    gain, shift, mean, variance = (to_f32(one[1]).astype(np.float64) for one in parts)  # type: ignore[index]
    if not (variance >= 0).all():
        raise ConvertError(f"{visible(parts[3][0])}: a variance is below 0")  # type: ignore[index]
    gain = gain / np.sqrt(variance + 1e-5)
    before = to_f32(b[1]).astype(np.float64) if b else 0
    put(model, f"{layer}conv.depthwise.weight", (origin, (to_f32(w)[:, 0].astype(np.float64) * gain[:, None]).T.astype(np.float32)))
    put(model, f"{layer}conv.depthwise.bias", (parts[1][0], ((before - mean) * gain + shift).astype(np.float32)))  # type: ignore[index]


# ------------------------------------------------------------------------------------- the prompt
def finish(folder: Path, hf: dict[str, Any], model: Model) -> None:
    """Adds what sound and vocabulary say."""
    kind, encoder, sound = hf["model_type"], hf["encoder_config"], hf["sound"]
    if "extra.conformer.linear.weight" not in model.tensors:
        return
    if sound.get("feature_size") not in (None, encoder["num_mel_bins"]):
        raise ConvertError(f"{sound['where']}: feature_size is {sound['feature_size']}, and num_mel_bins of {encoder['where']} is "
                           f"{encoder['num_mel_bins']}")
    model.about.update({"extra.conformer.preemphasis": f"{sound['preemphasis']:.9g}",
                        "extra.conformer.seconds": f"{sound['max_audio_clip_s']:.9g}",
                        "extra.conformer.search": f"{sound['overlap_chunk_second']:.9g}"})
    ids = {token: at for at, token in tokenizer_files.Files(folder, hf).spelled().items()}
    if not ids:
        model.warn("no tokenizer files: the ids of the prompt's tokens are not known, so examples/transcribe cannot use the file")
        return
    wanted = PROMPTS[kind].split()
    absent = [one for one in (*wanted, "<|pnc|>", "<|nopnc|>") if one not in CHOICES and one not in ids]
    languages = {code: ids[f"<|{code}|>"] for code in LANGUAGES[kind].split() if f"<|{code}|>" in ids}
    if absent or not languages:
        model.warn(f"the tokenizer has no {absent[0] if absent else 'token of a language'}, so examples/transcribe cannot use "
                   f"the file")
        return
    check_template(folder, kind, wanted, model)
    prompt: list[str | int] = [one if one in CHOICES else ids[one] for one in wanted]
    start = model.facts.get("start")
    if isinstance(start, int) and prompt[0] != start:  # as generate() has it
        prompt.insert(0, start)
    model.about["extra.conformer.prompt"] = ",".join(map(str, prompt))
    model.about["extra.conformer.punctuation"] = str(ids["<|pnc|>"])
    model.about["extra.conformer.no_punctuation"] = str(ids["<|nopnc|>"])
    model.facts["languages"] = languages
    model.notes.append(f"prompt: {PROMPTS[kind]}; {len(languages)} languages")


def check_template(folder: Path, kind: str, wanted: list[str], model: Model) -> None:
    """Warns of a chat template, which makes Canary's prompt in transformers, with other tokens than the prompt here. A
    template is a program, which is not run."""
    text = ""
    if has_file(folder, "chat_template.jinja"):
        with open(folder / "chat_template.jinja", "rb") as file:
            text = file.read(1 << 20).decode("utf-8", "replace")
    for name in ("chat_template.json", "processor_config.json"):
        if not text and has_file(folder, name):
            value = read_object(folder / name).get("chat_template")
            text = value if isinstance(value, str) else ""
    known = {*wanted, "<|pnc|>", "<|nopnc|>", *(f"<|{code}|>" for code in LANGUAGES[kind].split())}
    other = [one for one in re.findall(r"<\|[\w:]+\|>", text) if one not in known]
    if other:
        model.warn(f"the chat template has the token {visible(other[0])}, which the prompt has not that examples/transcribe "
                   f"writes: {PROMPTS[kind]}")
