"""refusals.py: what people try to convert and no reader takes, by the files that show it, and what
to do about each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterable

from .untrusted import ConvertError, brief, has_file, open_file, read_object

PEFT = ("merge them into the full model: PeftModel.from_pretrained(MODEL, ADAPTER).merge_and_unload()"
        ".save_pretrained(FOLDER), and then IN is FOLDER")
OLD_TRANSFORMERS = "AutoModelForSeq2SeqLM.from_pretrained(IN, {}=True).save_pretrained(FOLDER), and then IN is FOLDER"
FAIRSEQ = ("a checkpoint of fairseq: ct2-fairseq-converter of the package ctranslate2 makes a folder of it "
           "with its dictionaries, and then IN is that folder")
UNQUANTIZED = ("weights that another program quantized: take the model that they were made of, and "
               "build/quantize for int8")
EXPORTED = "take the folder of PyTorch or safetensors that it was exported from"
DECODER = "a decoder alone (a language model)"
ENCODER = "an encoder alone"

# Names of files that no reader takes, given as IN or found in its folder, and the advice for each.
EXPORTS = (
    (r".*\.onnx(_data)?", f"ONNX: {EXPORTED}"),
    (r"openvino_.*\.(xml|bin)", f"OpenVINO: {EXPORTED}"),
    (r".*\.tflite|.*\.mlmodel|.*\.mlpackage|.*\.engine", f"an export for one kind of device: {EXPORTED}"),
    (r"tf_model.*\.h5|saved_model\.pb|.*\.h5", "TensorFlow: with transformers 4 and TensorFlow, "
     + OLD_TRANSFORMERS.format("from_tf")),
    (r"flax_model.*\.msgpack|.*\.msgpack", "Flax: with transformers 4 and Flax, "
     + OLD_TRANSFORMERS.format("from_flax")),
    (r"rust_model\.ot", f"rust-bert: {EXPORTED}"),
    (r".*\.nemo", "an archive of NeMo (a tar of model_config.yaml and weights): take the model's folder for transformers, "
     "which has config.json and model.safetensors"),
)
# In such a folder alone.
IN_FOLDERS = (
    (r"(model|pytorch_model)(\.index)?\.(fp16|fp32|bf16|f16)\.(safetensors|bin)|"
     r"(model|pytorch_model)\.(safetensors|bin)\.index\.\w+\.json", "weights of a variant (fp16 ...): rename "
     "the file without that part, to model.safetensors or pytorch_model.bin"),
    (r"dict\..+\.txt", FAIRSEQ),
    (r"params\.(best|\d+)(\.npz)?", "Sockeye: this family is not read"),
    (r"modules\.json|config_sentence_transformers\.json|sentence_bert_config\.json",
     f"sentence-transformers: {ENCODER}, and transformer.h runs models of encoder and decoder"),
    (r"model_index\.json", "diffusers: it makes pictures; transformer.h runs models of text"),
    (r".*-of-\d+\.(safetensors|bin)", "a shard without the .index.json that lists all of them: add that file"),
    (r".*\.ckpt", "a checkpoint of Lightning or TensorFlow: one of Lightning is IN itself, and not its folder"),
    (r".*\.(pt|pth)", "a checkpoint of PyTorch: name the file as IN, and not its folder"),
    (r"(model|pytorch_model).*\.(safetensors|bin)(\.index\.json)?", "weights without config.json: add it and "
     "the tokenizer's files, from the folder that the weights are from"),
    (r"config\.json", "a config without its weights: add model.safetensors or pytorch_model.bin, from the "
     "folder that the config is from"),
)
# Names of tensors.
BY_TENSOR = (
    (r"\.lora_[AB]\.|\.lora_(down|up)\.", f"low-rank changes of weights (LoRA): {PEFT}"),
    (r"\.(qweight|qzeros|g_idx|SCB|absmax|quant_map)$|\.quant_state\.|\.weight_packed$", UNQUANTIZED),
)
# The class of transformers that config.json names.
BY_ARCHITECTURE = (
    (r".*ForCausalLM|(?!T5).*LMHeadModel", DECODER),
    (r".*EncoderModel|.*ForMaskedLM|(Bert|Roberta|XLMRoberta|DistilBert|MPNet|Deberta)\w*", ENCODER),
    (r".*For(Sequence|Token|Audio|Image)Classification|.*ForQuestionAnswering", "a classifier"),
)
# The model_type that config.json of transformers names, and what transformer.h has not of it.
ALONE = "an encoder or a decoder alone, and transformer.h runs models of both"
HEARS = "its encoder reads audio, not text"
SEES = "its encoder reads images, not text"
HEARING_DECODER = f"{DECODER} that also hears audio"
OBJECTS = "it finds objects in images, and gives no text"
SERIES = "it forecasts numbers, and gives no text"
SOUND = "its decoder gives sound, not text"
TRANSDUCER = "its encoder reads audio, and it has a transducer in the place of a decoder that attends to the source"
EXPERTS = "a mixture of experts: a router chooses the feed-forward of each token, and transformer.h has one a layer"
ROTARY = "rotary positions"
REASONS = {
    "longt5": "an encoder whose attention is local (encoder_attention_type local), or local and to summaries of blocks "
              "(transient-global)",
    "pegasus_x": "an encoder with local attention in blocks, and global tokens beside them",
    "bigbird_pegasus": "sparse attention in its encoder: each block of tokens sees its neighbours, global and random blocks; "
                       "with attention_type original_full it sees all, but the names of its tensors are not read either",
    **dict.fromkeys(("switch_transformers", "nllb-moe"), EXPERTS),
    "canary_decoder": f"{ALONE}: the part of Canary behind its encoder; the whole folder's config.json has model_type canary",
    **dict.fromkeys(("speech-encoder-decoder", "pop2piano"), HEARS),
    "speecht5": "its encoder reads audio, or its decoder gives audio",
    **dict.fromkeys(("parakeet_rnnt", "parakeet_tdt", "nemotron3_5_asr", "nemotron_asr_streaming"), TRANSDUCER),
    **dict.fromkeys(("audioflamingo3", "fun_asr_nano", "glmasr", "granite_speech", "granite_speech_plus",
                     "kyutai_speech_to_text", "moss_transcribe_diarize", "musicflamingo", "nemo_speechlm", "omniasr",
                     "qwen2_audio", "qwen3_asr", "vibevoice_asr", "voxtral", "voxtral_realtime"), HEARING_DECODER),
    "dia": f"{SOUND}, with {ROTARY} and several tokens a step",
    "dia_decoder": f"{SOUND}, with {ROTARY} and several tokens a step",
    **dict.fromkeys(("musicgen", "musicgen_melody", "fastspeech2_conformer", "vibevoice", "bark"), SOUND),
    **dict.fromkeys(("trocr", "donut-swin", "nougat", "pix2struct", "pp_formulanet", "pp_formulanet_text"), SEES),
    "udop": "an encoder that reads the image and the places of words on a page together, with relative positions along the "
            "page in both directions",
    **dict.fromkeys(("kosmos-2", "kosmos-2.5"), f"{DECODER} that also sees images"),
    **dict.fromkeys(("prophetnet", "xlm-prophetnet"), "a decoder that predicts several tokens at once, with an attention of its own for the stream of "
                    "each, and relative positions that are computed from queries"),
    "rag": "a search in documents around another model: convert its generator",
    "encoder-decoder": "two models of other families joined",
    "indictrans": "a model with code of its own that transformers has not, whose texts need the normalization and the "
                  "scripts of IndicTransToolkit",
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), SERIES),
    **dict.fromkeys(("conditional_detr", "d_fine", "dab-detr", "deformable_detr", "deimv2", "detr", "grounding-dino",
                     "mm-grounding-dino", "omdet-turbo", "pp_doclayout_v2", "pp_doclayout_v3", "pp_doclayout_v4", "rt_detr",
                     "rt_detr_v2", "table-transformer"), OBJECTS),
    **dict.fromkeys(("gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
                     "gemma3", "opt", "bloom", "xglm", "phi3", "bert", "roberta", "xlm-roberta",
                     "distilbert", "electra", "deberta-v2", "gemma4_assistant"), ALONE),
}


def reason(kind: str) -> str | None:
    """Returns what transformer.h has not of a model_type. IndicTrans2 spells its own with capitals."""
    return REASONS.get(kind) or REASONS.get(kind.lower())


# Beginnings of the names of classes in a pickle.
BY_CLASS = (
    (r"fairseq|omegaconf|hydra", FAIRSEQ),
    (r"(pytorch_)?lightning|transformers\.training_args|numpy",
     "torch.save(torch.load(FILE, weights_only=False)['state_dict'], NEW), where you trust the file, keeps the "
     "tensors alone"),
    (r"onmt|torchtext", "OpenNMT-py before 2.3: ct2-opennmt-py-converter of the package ctranslate2 makes a "
     "folder of it, and then IN is that folder"),
)


def explain_class(name: str) -> str:
    """What to do about a pickle with an object of that class."""
    return next((advice for rule, advice in BY_CLASS if re.match(rule, name)),
                "in the program that this checkpoint is of, torch.save(model.state_dict(), FILE) writes what is "
                "wanted")


def check_names(names: Iterable[Any], path: Path) -> None:
    """Tensors that no reader takes."""
    for name in names:
        for rule, advice in BY_TENSOR:
            if isinstance(name, str) and re.search(rule, name):
                raise ConvertError(f"{path}: {brief(name)}: {advice}")


def check(path: Path, ignored: set[str]) -> None:
    """What a folder has beside readable files, or in their place. ignored: keys of config.json."""
    if path.is_file():
        with open_file(path) as file:
            head = file.read(4)
        found = None if head == b"GGUF" else next(
            (advice for rule, advice in EXPORTS if re.fullmatch(rule, path.name)), None)
        if found:
            raise ConvertError(f"{path}: {found}")
    for name in files(path):
        if re.fullmatch(r"adapter_(config\.json|model\.(safetensors|bin))", name):
            raise ConvertError(f"{path / name}: an adapter, low-rank changes of weights (LoRA): {PEFT}. If the "
                               f"adapter is not to be used, move its files out of the folder")
    if path.is_dir() and has_file(path, "config.json"):
        check_config(path / "config.json", ignored)


def files(path: Path) -> list[str]:
    try:
        return sorted(file.name for file in path.iterdir()) if path.is_dir() else []
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from None


def check_config(path: Path, ignored: set[str]) -> None:
    config = {key: value for key, value in read_object(path).items() if key not in ignored}
    quantized = config.get("quantization_config", config.get("quantization"))
    if quantized:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else None
        raise ConvertError(f"{path}: quantization_config is {brief(method or quantized)}: {UNQUANTIZED}; "
                           f"--ignore-key quantization_config leaves the key out")
    if config.get("pretrained_llm"):
        raise ConvertError(f"{path}: pretrained_llm is {brief(config['pretrained_llm'])}: {HEARING_DECODER}, as "
                           f"Canary-Qwen is; of Canary-1b-v2 transformer.h runs the decoder")
    architectures, kind = config.get("architectures"), config.get("model_type")
    name = architectures[0] if isinstance(architectures, list) and architectures else ""
    what = next((what for rule, what in BY_ARCHITECTURE if isinstance(name, str) and re.fullmatch(rule, name)), None)
    if not what and isinstance(kind, str) and reason(kind):
        raise ConvertError(f"{path}: model_type {kind}: {reason(kind)}")
    if what:
        raise ConvertError(f"{path}: architectures is {brief(name)}: {what}; transformer.h runs an encoder and a "
                           f"decoder that give a text; --ignore-key architectures leaves the key out")


def explain(path: Path) -> str:
    """Why a folder that no reader takes is none of theirs."""
    names = files(path)
    for rule, advice in (*EXPORTS, *IN_FOLDERS):
        name = next((name for name in names if re.fullmatch(rule, name)), None)
        if name:
            return f"{path / name}: {advice}"
    inner = [name for name in names if (path / name / "config.json").is_file()]
    if inner:
        return f"{path}: no model itself, but {path / inner[-1]} may be one"
    return (f"{path}: a directory without model.bin (CTranslate2), metadata.json and model/ (Argos Translate), "
            f"without config.json and its weights (Hugging Face), and without .npz or .bin of Marian")
