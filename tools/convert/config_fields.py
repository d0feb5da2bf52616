"""config_fields.py: every field of transformers' config classes, family by family, and what the
converter does with it.

Each field has one row. It is

    used      the reader reads it. The row holds the value that the class takes where config.json
              has none.
    only      transformer.h computes these values alone. Any other value is refused by name.
    unused    no value changes what transformer.h computes. The row says why.
    aliases   another name of a field.

A key without a row is an error where it may be a field: if a newer transformers than NEWEST wrote the
file, or if the class of the installed transformers has it. --ignore-key KEY leaves it out. All other
keys without a row are printed, as no version of the class reads them.

tests/tools/test_config_fields.py walks the fields of the installed classes and compares each with
transformers. To support a new field, add its row here.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
from dataclasses import dataclass, field
from typing import Any, Callable

from .untrusted import ConvertError, brief, visible

NEWEST = (5, 24)  # the newest transformers whose classes have all their fields here


@dataclass(frozen=True)
class Fields:
    used: dict[str, Any] = field(default_factory=dict)
    only: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def rows(self) -> set[str]:
        return {*self.used, *self.only, *self.unused, *self.aliases}

    def __add__(self, other: Fields) -> Fields:
        """These rows and those of other, which replace rows of the same name."""
        mine = [{key: value for key, value in rows.items() if key not in other.rows()}
                for rows in (self.used, self.only, self.unused, self.aliases)]
        theirs = (other.used, other.only, other.unused, other.aliases)
        return Fields(*({**a, **b} for a, b in zip(mine, theirs)))


def why(reason: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


TRAINING, SHAPES = "training alone", "the tensors' shapes show it"
TASKS, RETURNED = "heads of other tasks", "what a call returns beside its result"
MEMORY, HISTORY = "how memory is used, not what is computed", "where the file is from"
SAMPLING, ASSISTED = "sampling alone, which do_sample asks for", "help by a second model, not asked for"

# ------------------------------------------------------------------------- fields of every class
BASE = Fields(
    used={"model_type": None, "transformers_version": None, "tokenizer_class": None,
          "tie_word_embeddings": True, "force_bos_token_to_be_generated": False,
          **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id",
                           "decoder_start_token_id"))},
    only={"is_encoder_decoder": (True,), "is_decoder": (False,), "add_cross_attention": (False,),
          "tie_encoder_decoder": (False,), "torchscript": (False,), "is_causal": (True,),
          **dict.fromkeys(("pruned_heads", "per_layer_config"), ({},)),
          **dict.fromkeys(("sliding_window", "attention_chunk_size", "layer_types",
                           "kv_sharing_modes", "fusion_config", "quantization_config",
                           "transformers_weights"), ())},
    unused={
        **why(HISTORY, "architectures", "_name_or_path", "name_or_path", "_commit_hash", "auto_map",
              "_attn_implementation_autoset", "_from_model_config"),
        **why("the type of weights that transformers loads; the file's tensors have theirs",
              "dtype", "torch_dtype", "use_bfloat16"),
        **why(MEMORY, "use_cache", "chunk_size_feed_forward", "attn_implementation",
              "_attn_implementation", "experts_implementation", "distributed_config",
              "gradient_checkpointing", "output_past"),
        **why(RETURNED, "return_dict", "output_hidden_states", "output_attentions",
              "tie_last_hidden_states", "return_dict_in_generate", "output_scores"),
        **why(TASKS, "id2label", "label2id", "num_labels", "_num_labels", "problem_type",
              "finetuning_task", "task_specific_params", "prefix", "sep_token_id", "classif_dropout",
              "classifier_dropout", "tf_legacy_loss"),
        "cross_attention_hidden_size": SHAPES})

# ------------------------------------------------------------------------------ what families share
LAYERS = {"encoder_layers": None, "decoder_layers": None}  # the shapes say it where a file does not
STACKS = BASE + Fields(
    used={**LAYERS, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
          "activation_function": "gelu", "scale_embedding": False, "d_model": 1024,
          "forced_eos_token_id": None},
    unused={**why(TRAINING, "dropout", "attention_dropout", "activation_dropout", "init_std",
                  "encoder_layerdrop", "decoder_layerdrop"),
            **why(SHAPES, "vocab_size", "encoder_ffn_dim", "decoder_ffn_dim",
                  "max_position_embeddings")},
    aliases={"num_attention_heads": "encoder_attention_heads", "hidden_size": "d_model",
             "num_hidden_layers": "encoder_layers"})
BART = STACKS + Fields(
    used={"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": 2})
START = Fields(used={"decoder_start_token_id": 2})
SCALED = Fields(used={"activation_function": "relu", "scale_embedding": True,
                      "forced_eos_token_id": None})
SOUND = Fields(unused={**why(SHAPES, "max_source_positions", "max_target_positions"),
                       **why("what comes before the source's vectors", "num_mel_bins",
                             "num_conv_layers", "conv_kernel_sizes", "conv_channels",
                             "input_feat_per_channel", "input_channels")})
T5 = BASE + Fields(
    used={"d_model": 512, "d_kv": 64, "num_layers": 6, "num_decoder_layers": None, "num_heads": 8,
          "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
          "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "dense_act_fn": None,
          "is_gated_act": None, "pad_token_id": 0, "eos_token_id": 1},
    unused={**why(TRAINING, "dropout_rate", "initializer_factor"),
            **why(SHAPES, "vocab_size", "d_ff")},
    aliases={"hidden_size": "d_model", "num_attention_heads": "num_heads",
             "num_hidden_layers": "num_layers", "head_dim": "d_kv"})
MT5 = T5 + Fields(used={"num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
                        "decoder_start_token_id": 0})
# The decoder of a model whose encoder is of another kind.
DECODER = Fields(only={"is_decoder": (True,), "add_cross_attention": (True,),
                       "is_encoder_decoder": (False,)})
SMALL = {"pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": 1}
# The text model of SeamlessM4T, of both versions.
SEAMLESS = STACKS + SCALED + Fields(
    used={"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3,
          "max_new_tokens": 256},
    unused={
        "layer_norm_eps": "the norms of the text model have 1e-5 whatever it says",
        **why(TRAINING, "initializer_range"),
        **why("what hears speech, which is left out", "speech_encoder_layers", "speech_encoder_attention_heads",
              "speech_encoder_intermediate_size", "speech_encoder_hidden_act", "speech_encoder_dropout",
              "speech_encoder_layerdrop", "speech_encoder_chunk_size", "speech_encoder_left_chunk_num", "add_adapter",
              "adaptor_kernel_size", "adaptor_stride", "adaptor_dropout", "num_adapter_layers",
              "feature_projection_input_dim", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups",
              "position_embeddings_type", "rotary_embedding_base", "max_source_positions",
              "left_max_position_embeddings", "right_max_position_embeddings", "conv_depthwise_kernel_size",
              "sampling_rate"),
        **why("what makes units and sound, which is left out", "t2u_vocab_size", "t2u_bos_token_id", "t2u_pad_token_id",
              "t2u_eos_token_id", "t2u_decoder_start_token_id", "t2u_max_new_tokens", "t2u_encoder_layers",
              "t2u_encoder_ffn_dim", "t2u_encoder_attention_heads", "t2u_decoder_layers", "t2u_decoder_ffn_dim",
              "t2u_decoder_attention_heads", "t2u_max_position_embeddings", "t2u_variance_predictor_embed_dim",
              "t2u_variance_predictor_hidden_dim", "t2u_variance_predictor_kernel_size", "t2u_variance_pred_dropout",
              "char_vocab_size", "upsample_initial_channel", "upsample_rates", "upsample_kernel_sizes",
              "resblock_kernel_sizes", "resblock_dilation_sizes", "leaky_relu_slope", "unit_hifi_gan_vocab_size",
              "unit_embed_dim", "lang_embed_dim", "spkr_embed_dim", "vocoder_num_langs", "vocoder_num_spkrs",
              "variance_predictor_kernel_size", "var_pred_dropout", "vocoder_offset")},
    aliases={"num_attention_heads": "decoder_attention_heads", "hidden_size": "d_model",
             "num_hidden_layers": "decoder_layers"})

FAMILIES: dict[str, Fields] = {
    "marian": STACKS + Fields(
        used={"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100,
              "forced_eos_token_id": 0, "share_encoder_decoder_embeddings": True},
        unused=why(SHAPES, "decoder_vocab_size")),
    "bart": BART + START + Fields(  # the vocabularies of G2P models
        used={"grapheme_chars": None, "phoneme_chars": None}),
    "mbart": BART,
    "m2m_100": BART + START + SCALED,
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), SEAMLESS),
    "pegasus": STACKS + Fields(used={"pad_token_id": 0, "eos_token_id": 1,
                                     "decoder_start_token_id": 0, "forced_eos_token_id": 1}),
    "fsmt": BART + START + SCALED + Fields(
        used={"tie_word_embeddings": False, "forced_eos_token_id": 2, "max_length": 200,
              "num_beams": 5, "length_penalty": 1.0, "early_stopping": False},
        unused={**why(SHAPES, "src_vocab_size", "tgt_vocab_size"),
                "langs": "names of the languages", "decoder": "a copy of fields of this file"}),
    "mvp": BART + START + Fields(
        only={"use_prompt": (False,)},
        unused=why("use_prompt asks for it", "prompt_length", "prompt_mid_dim")),
    "plbart": BART + Fields(
        used={"encoder_attention_heads": 12, "decoder_attention_heads": 12, "d_model": 768,
              "scale_embedding": True},
        aliases={"initializer_range": "init_std"}),
    "led": BART + START + Fields(
        used={"attention_window": 512, "forced_eos_token_id": None},
        unused={**why(SHAPES, "max_encoder_position_embeddings", "max_decoder_position_embeddings"),
                "scale_embedding": "LED never scales"},
        aliases={"attention_probs_dropout_prob": "attention_dropout",
                 "initializer_range": "init_std"}),
    "blenderbot": BART + Fields(
        used={**SMALL, "encoder_attention_heads": 32, "decoder_attention_heads": 32,
              "d_model": 2560, "encoder_no_repeat_ngram_size": 3}),
    "blenderbot-small": BART + Fields(used={**SMALL, "d_model": 512}),
    "t5": T5 + Fields(used={"scale_decoder_outputs": None}),
    "mt5": MT5 + Fields(used={"tie_word_embeddings": False},  # of transformers 4; 5 does not ask
                        unused={"scale_decoder_outputs": "mT5 of transformers 5 never scales"}),
    "umt5": MT5 + Fields(used={"scale_decoder_outputs": None}),
    "whisper": STACKS + SOUND + Fields(
        used={"encoder_attention_heads": 6, "decoder_attention_heads": 6, "d_model": 384,
              "decoder_start_token_id": 50257,
              **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 50256),
              "suppress_tokens": None, "begin_suppress_tokens": [220, 50256]},
        unused={"scale_embedding": "Whisper never scales", "median_filter_width": "times of words",
                **why(TASKS, "use_weighted_layer_sum", "classifier_proj_size"),
                **why(TRAINING, "apply_spec_augment", "mask_time_prob", "mask_time_length",
                      "mask_time_min_masks", "mask_feature_prob", "mask_feature_length",
                      "mask_feature_min_masks")},
        aliases={"num_key_value_heads": "encoder_attention_heads"}),
    "speech_to_text": BART + START + SCALED + SOUND + Fields(
        used={"encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 256}),
    "trocr": BASE + DECODER + Fields(
        used={"decoder_layers": None, "decoder_attention_heads": 16, "activation_function": "gelu",
              "scale_embedding": False, "use_learned_position_embeddings": True,
              "layernorm_embedding": True, "pad_token_id": 1, "bos_token_id": 0,
              "eos_token_id": 2, "decoder_start_token_id": 2, "d_model": 1024},
        unused={**why(TRAINING, "dropout", "attention_dropout", "activation_dropout", "init_std",
                      "decoder_layerdrop"),
                **why(SHAPES, "vocab_size", "decoder_ffn_dim", "max_position_embeddings")},
        aliases={"num_attention_heads": "decoder_attention_heads", "hidden_size": "d_model",
                 "num_hidden_layers": "decoder_layers"}),
}
# The decoders of Canary and Cohere.
HEARING = BASE + Fields(
    used={"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": None,
          "head_dim": None, "hidden_act": "relu", "max_position_embeddings": 1024, "pad_token_id": 2, "bos_token_id": 4,
          "eos_token_id": 3},
    unused={**why(TRAINING, "initializer_range", "attention_dropout"),
            **why(SHAPES, "vocab_size", "intermediate_size", "attention_bias")})
FAMILIES["canary_decoder"] = HEARING + Fields(used={"num_key_value_heads": 8, "head_dim": 128})
FAMILIES["cohere_asr"] = HEARING + Fields(
    used={"tie_word_embeddings": False, "encoder_config": None}, unused={"processor_class": "a class"})
# Their encoder, ParakeetEncoderConfig.
CONFORMER = BASE + Fields(
    used={"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 8, "intermediate_size": 4096, "hidden_act": "silu",
          "conv_kernel_size": 9, "subsampling_factor": 8, "subsampling_conv_channels": 256, "num_mel_bins": 80,
          "subsampling_conv_kernel_size": 3, "subsampling_conv_stride": 2, "scale_input": True, "head_dim": None,
          "num_key_value_heads": None},
    only={"is_encoder_decoder": (False,)},
    unused={**why(TRAINING, "dropout", "dropout_positions", "layerdrop", "activation_dropout", "attention_dropout",
                  "initializer_range"),
            **why(SHAPES, "attention_bias", "convolution_bias", "vocab_size"),
            **why("distances have no table", "max_position_embeddings"),
            **why("the whole config decides it", "tie_word_embeddings", "is_decoder", "add_cross_attention")})
# Encoder and decoder of T5Gemma, whose configs are Gemma's.
GEMMA = BASE + Fields(
    used={"hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
          "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
          "max_position_embeddings": 8192, "query_pre_attn_scalar": 256, "sliding_window": 4096,
          "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "layer_types": None,
          "rope_parameters": None, "rope_theta": None, "rope_scaling": None,
          "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0},
    only={"use_bidirectional_attention": (False,), "is_encoder_decoder": (False,)},
    unused={**why(TRAINING, "dropout_rate", "attention_dropout", "initializer_range"),
            **why(SHAPES, "vocab_size", "intermediate_size", "attention_bias"),
            **why("the whole config decides it", "is_decoder", "add_cross_attention", "tie_word_embeddings"),
            **why(TASKS, "classifier_dropout_rate")})
GEMMA_OF: dict[str, Fields] = {
    "t5gemma": GEMMA,
    "t5gemma2": GEMMA + Fields(
        used={"max_position_embeddings": 131072, "final_logit_softcapping": None, "sliding_window_pattern": 6,
              "rope_local_base_freq": None},
        unused=why("T5Gemma 2 does not read it", "attn_logit_softcapping", "_sliding_window_pattern")),
    "t5gemma2_encoder": BASE + Fields(
        used={"text_config": None},
        unused={**why("images, which are left out", "vision_config", "mm_tokens_per_image", "boi_token_index",
                      "eoi_token_index", "image_token_index", "boi_token_id", "eoi_token_id", "image_token_id"),
                **why(TRAINING, "initializer_range", "dropout_rate", "attention_dropout"),
                **why("the whole config decides it", "is_encoder_decoder", "tie_word_embeddings"),
                "vocab_size": SHAPES})}
T5GEMMA = BASE + Fields(
    used={"encoder": None, "decoder": None},
    unused={**why(TRAINING, "dropout_rate", "attention_dropout", "initializer_range"),
            **why(TASKS, "classifier_dropout_rate"), "vocab_size": SHAPES})
FAMILIES["t5gemma"] = T5GEMMA
FAMILIES["t5gemma2"] = T5GEMMA + Fields(
    used={"eoi_token_index": None},
    unused=why("images, which are left out", "image_token_index", "image_token_id", "eoi_token_id"))
# Moonshine. Fields of rotary positions that transformers 4 wrote stand beside those of 5.
TURNS = dict.fromkeys(("rope_parameters", "rope_theta", "rope_scaling", "partial_rotary_factor", "head_dim"))
PADDED = {"pad_head_dim_to_multiple_of": "zeros beside each head, which change nothing"}
FAMILIES["moonshine"] = BASE + Fields(
    used={**TURNS, "hidden_size": 288, "encoder_num_hidden_layers": 6, "decoder_num_hidden_layers": 6,
          "encoder_num_attention_heads": 8, "decoder_num_attention_heads": 8, "encoder_num_key_value_heads": None,
          "decoder_num_key_value_heads": None, "encoder_hidden_act": "gelu", "decoder_hidden_act": "silu",
          "max_position_embeddings": 512, "decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2},
    unused={**PADDED, **why(TRAINING, "attention_dropout", "initializer_range"),
            **why(SHAPES, "vocab_size", "intermediate_size", "attention_bias")},
    aliases={"num_key_value_heads": "decoder_num_key_value_heads", "num_attention_heads": "decoder_num_attention_heads",
             "num_hidden_layers": "decoder_num_hidden_layers", "hidden_act": "decoder_hidden_act"})
FAMILIES["moonshine_streaming"] = BASE + Fields(
    used={**TURNS, "encoder_config": None, "hidden_size": 320, "num_hidden_layers": 6, "num_attention_heads": 8,
          "num_key_value_heads": None, "hidden_act": "silu", "max_position_embeddings": 4096, "pad_token_id": 0,
          "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False},
    unused={**PADDED, **why(TRAINING, "attention_dropout", "initializer_range"),
            **why(SHAPES, "vocab_size", "intermediate_size", "attention_bias")})
MOONSHINE_ENCODER = BASE + Fields(
    used={"hidden_size": 320, "hidden_act": "gelu", "num_hidden_layers": 6, "num_attention_heads": 8,
          "num_key_value_heads": 8, "sample_rate": 16000, "frame_ms": 5.0, "head_dim": None,
          "sliding_windows": [[16, 4], [16, 4], [16, 0], [16, 0], [16, 4], [16, 4]]},
    only={"is_encoder_decoder": (False,)},
    unused={**why(TRAINING, "attention_dropout", "initializer_range"),
            **why("it has no positions", "max_position_embeddings"),
            **why(SHAPES, "intermediate_size", "attention_bias", "vocab_size"),
            **why("the whole config decides it", "tie_word_embeddings", "is_decoder", "add_cross_attention")})
# The classes around one of those; the key of PARTS in checkpoints_huggingface.py is used.
PARTS: dict[str, Fields] = {
    "vision-encoder-decoder": BASE + Fields(
        used={"decoder": None},
        unused={"encoder": "what gives the memory", "processor_class": "what gives the memory"}),
    "florence2": BASE + Fields(
        used={"text_config": None},
        unused={**why("what comes before the source's vectors", "vision_config", "image_token_id",
                      "image_token_index", "projection_dim"), **why(SHAPES, "vocab_size")}),
    "canary": BASE + Fields(
        used={"decoder_config": None, "encoder_config": None},
        unused={"processor_class": "a class", **why(TRAINING, "initializer_range"), **why(SHAPES, "vocab_size")}),
}

# --------------------------------------------------------------- GenerationConfig, of any model
GENERATION = Fields(
    used={"max_length": 20, "min_length": 0, "num_beams": 1, "early_stopping": False,
          "length_penalty": 1, "repetition_penalty": 1, "no_repeat_ngram_size": 0,
          "encoder_no_repeat_ngram_size": 0, "num_return_sequences": 1,
          **dict.fromkeys(("max_new_tokens", "min_new_tokens", "bad_words_ids", "suppress_tokens",
                           "forced_bos_token_id", "forced_eos_token_id", "pad_token_id",
                           "bos_token_id", "eos_token_id", "decoder_start_token_id",
                           "transformers_version"))},
    only={"do_sample": (False,), "num_beam_groups": (0, 1), "diversity_penalty": (0,),
          "encoder_repetition_penalty": (1,), "renormalize_logits": (False,),
          "guidance_scale": (1,), "penalty_alpha": (0,), "token_healing": (False,),
          "remove_invalid_values": (False,), "use_mtp": (False,), "is_assistant": (False,),
          **dict.fromkeys(("exponential_decay_length_penalty", "begin_suppress_tokens",
                           "forced_decoder_ids", "sequence_bias", "constraints", "force_words_ids",
                           "stop_strings", "watermarking_config", "dola_layers", "max_time",
                           "prompt_lookup_num_tokens", "assistant_early_exit"), ([],))},
    unused={
        **why(SAMPLING, "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p",
              "epsilon_cutoff", "eta_cutoff"),
        **why(ASSISTED, "num_assistant_tokens", "num_assistant_tokens_schedule",
              "assistant_confidence_threshold", "max_matching_ngram_size", "assistant_lookbehind",
              "target_lookbehind", "assistant_ensemble_weight", "speculation_type"),
        **why(MEMORY, "use_cache", "cache_implementation", "cache_config", "max_cache_len",
              "return_legacy_cache", "prefill_chunk_size", "low_memory", "compile_config",
              "disable_compile", "continuous_batching_config"),
        **why(RETURNED, "output_attentions", "output_hidden_states", "output_scores",
              "output_logits", "return_dict_in_generate"),
        **why(HISTORY, "_from_model_config", "_commit_hash", "_original_object_hash", "auto_map",
              "trust_remote_code"),
        # of Whisper's own generate(): the prompt, which the program makes, and times
        **why("the prompt, which is the program's to make", "lang_to_id", "task_to_id", "language",
              "task", "is_multilingual", "no_timestamps_token_id", "prev_sot_token_id",
              "return_timestamps", "max_initial_timestamp_index", "alignment_heads",
              "median_filter_width")})
# Families whose own generate() reads more keys, or means something else by them.
GENERATION_OF: dict[str, Fields] = {
    "whisper": GENERATION + Fields(
        used=dict.fromkeys(("begin_suppress_tokens", "alignment_heads", "lang_to_id",
                            "is_multilingual")),
        unused=why("the prompt, which the program makes", "forced_decoder_ids"))}
# Defaults of what transformers 4 looks for in config.json, even beside a generation_config.json.
LEGACY = {**{key: GENERATION.used[key] for key in (
              "max_length", "min_length", "early_stopping", "num_beams", "repetition_penalty",
              "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
              "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
              "suppress_tokens")},
          "do_sample": False, "temperature": 1, "top_k": 50, "top_p": 1, "typical_p": 1,
          "output_scores": False, "return_dict_in_generate": False, "remove_invalid_values": False,
          "exponential_decay_length_penalty": None, "begin_suppress_tokens": None,
          "num_beam_groups": 1, "diversity_penalty": 0}


# ------------------------------------------------------------------------------------ reading a file
def version_of(found: dict[str, Any]) -> tuple[int, int] | None:
    """(5, 24) of the transformers that wrote the file; None where the file does not say."""
    parts = re.match(r"(\d{1,4})\.(\d{1,4})", str(found.get("transformers_version") or ""))
    return (int(parts[1]), int(parts[2])) if parts else None


def is_installed_field(kind: str, key: str) -> bool:
    """Whether the installed transformers has the key as a field of that model_type's config class,
    or, if kind is "", of GenerationConfig."""
    if importlib.util.find_spec("transformers") is None:
        return False
    try:
        import transformers
        if not kind:
            return hasattr(transformers.GenerationConfig(), key)
        return key in names_of(transformers.CONFIG_MAPPING[kind])
    except Exception:  # an installation that is broken says nothing about the key
        return False


def names_of(config_class: Any) -> set[str]:
    """The fields of a config class: of a dataclass (transformers 5) or by __init__ (4)."""
    if dataclasses.is_dataclass(config_class):
        return {one.name for one in dataclasses.fields(config_class)}
    names = {name for one in config_class.__mro__ if "__init__" in vars(one)
             for name, parameter in inspect.signature(one.__init__).parameters.items()
             if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)}
    return names - {"self"}


def check_strays(stray: list[str], found: dict[str, Any], path: str, notes: list[str],
                 refuses: Callable[[str], bool], rows: str, effect: str, unread: str) -> None:
    """Refuses a key without a row where refuses(key) says that transformers may read it, and prints
    the other keys into notes. rows, effect and unread are the parts of the messages that say what
    the table lists, what such a key may change, and who does not read the printed keys."""
    for key in stray:
        if refuses(key):
            raise ConvertError(f"{path}: {visible(key)} is {brief(found[key])}. This converter knows "
                               f"the {rows} up to transformers {NEWEST[0]}.{NEWEST[1]} and not this "
                               f"one, which may change {effect}; --ignore-key {visible(key)} leaves "
                               f"the key out")
    if stray:
        more = f" and {len(stray) - 20} more" if len(stray) > 20 else ""
        notes.append(f"{path}: keys that {unread}: " + ", ".join(map(visible, stray[:20])) + more)


def read(fields: Fields, found: dict[str, Any], kind: str, path: str, ignored: set[str],
         notes: list[str], advice: str = "") -> dict[str, Any]:
    """What a file says of the fields that are used, without those that are null. Refuses what is not
    computed, and what may be a field and has no row; prints other keys into notes. kind: the
    model_type, or "" of a GenerationConfig."""
    result = {key: found[key] for key in fields.used if found.get(key) is not None}
    rows = fields.rows() | (GENERATION.rows() if kind else set())
    version = version_of(found)
    stray = [key for key in found if key not in rows and key not in ignored]
    for key in found.keys() & ignored:
        result.pop(key, None)
        notes.append(f"{path}: {visible(key)} is left out, as --ignore-key says")
    for key, allowed in fields.only.items():
        value = found.get(key)
        if key not in ignored and value is not None and value not in allowed:
            raise ConvertError(f"{path}: {key} is {brief(value)}, which transformer.h does not "
                               f"compute{advice}; --ignore-key {key} leaves the key out")
    for key, name in fields.aliases.items():
        if found.get(key) is None or key in ignored or name not in fields.used:
            continue
        if result.setdefault(name, found[key]) != found[key]:
            raise ConvertError(f"{path}: {key} is {brief(found[key])} and {name} is "
                               f"{brief(result[name])}, two names of one number; --ignore-key "
                               f"{key} leaves the first out")
    check_strays(stray, found, path, notes,
                 lambda key: (version or NEWEST) > NEWEST or is_installed_field(kind, key),
                 f"fields of {'a ' + visible(kind) if kind else 'decoding'}", "what is computed",
                 "no version of transformers reads")
    return result


def with_defaults(fields: Fields, found: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """said, which read() found, with what the class takes for keys that the file does not have. A key
    that is null stays without a value."""
    return {**{key: value for key, value in fields.used.items()
               if value is not None and key not in found}, **said}
