"""Makes small random models of the Hugging Face families, for test_peers.py and make_families.py."""

import math
import re

import torch
import transformers
import transformers.models.fsmt.modeling_fsmt as fsmt

PAD, START, END = 1, 0, 2
SMALL_IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
STEMS = {"marian": "Marian", "bart": "Bart", "mbart": "MBart", "m2m_100": "M2M100",
         "pegasus": "Pegasus", "fsmt": "FSMT", "plbart": "PLBart", "mvp": "Mvp", "led": "LED",
         "blenderbot": "Blenderbot", "blenderbot-small": "BlenderbotSmall"}
SEAMLESS = {"seamless_m4t": "SeamlessM4T", "seamless_m4t_v2": "SeamlessM4Tv2"}  # their text models
LIKE_ROBERTA = ("bart", "mvp", "led")  # families whose sources begin with a token
# FSMT's own function works for floats alone.
fsmt.fill_with_neg_inf = lambda t: t.fill_(torch.finfo(t.dtype).min)
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


def make(family, seed=0, **options):
    """Returns a model and its config. The weights are large enough to make targets differ and end."""
    sizes = dict(vocab_size=40, d_model=24, encoder_layers=2, decoder_layers=2,
                 encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=32,
                 decoder_ffn_dim=32, max_position_embeddings=64, dropout=0.0,
                 pad_token_id=PAD, bos_token_id=START, eos_token_id=END,
                 decoder_start_token_id=END, forced_eos_token_id=None, activation_function="relu",
                 scale_embedding=True)
    own = {
        "marian": dict(pad_token_id=39, eos_token_id=0, decoder_start_token_id=39,
                       bos_token_id=None, activation_function="swish"),
        "bart": dict(scale_embedding=False, activation_function="gelu", forced_bos_token_id=START),
        "mbart": dict(forced_bos_token_id=30, activation_function="gelu"),
        "m2m_100": dict(forced_bos_token_id=31),
        **dict.fromkeys(SEAMLESS, dict(pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3,
                                       forced_bos_token_id=31, max_new_tokens=11)),
        "pegasus": dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
                        bos_token_id=None, forced_bos_token_id=None),
        "fsmt": dict(vocab_size=None, src_vocab_size=40, tgt_vocab_size=35),
        "plbart": dict(activation_function="gelu", decoder_start_token_id=35),
        "mvp": dict(scale_embedding=False, activation_function="gelu", forced_bos_token_id=START),
        "led": dict(scale_embedding=False, activation_function="gelu", attention_window=80,
                    max_encoder_position_embeddings=160, max_decoder_position_embeddings=64),
        "blenderbot": dict(SMALL_IDS, scale_embedding=False, activation_function="gelu"),
        "blenderbot-small": dict(SMALL_IDS, scale_embedding=False, activation_function="gelu"),
    }[family]
    stem = {**STEMS, **SEAMLESS}[family]
    names = (f"{stem}Config", f"{stem}MTModel" if family == "marian" else
             f"{stem}ForTextToText" if family in SEAMLESS else f"{stem}ForConditionalGeneration")
    options = {**sizes, **own, **options}
    if family in SEAMLESS:
        options = {"hidden_size": options.pop("d_model"), **options}
    options = {key: value for key, value in options.items()
               if not (key == "vocab_size" and value is None)}
    forced = options.pop("forced_bos_token_id", None)
    config = getattr(transformers, names[0])(**options)
    torch.manual_seed(seed)
    model = getattr(transformers, names[1])(config).eval()
    width = config.hidden_size
    scale = math.sqrt(width) if getattr(config, "scale_embedding", False) else 1.0
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_positions" in name and family in ("marian", "pegasus", "fsmt"):
                continue  # sinusoids
            if "embed_tokens" in name or "shared" in name:
                p.copy_(torch.randn_like(p) * (0.7 / scale))
            elif p.dim() > 1:
                p.copy_(torch.randn_like(p) * 2 / math.sqrt(p.shape[1]))
            elif "norm" in name and name.endswith("weight"):
                p.copy_(1 + 0.3 * torch.randn_like(p))
            else:
                p.copy_(0.3 * torch.randn_like(p))
        # Some targets must end, so the end token's logits get a multiple of the logits' deviation.
        deviation = 0.7 / scale * math.sqrt(width)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(0.3 * deviation * torch.randn_like(
                model.final_logits_bias))
            model.final_logits_bias[0, config.eos_token_id] += 1.2 * deviation
        else:
            head = model.model.decoder.output_projection if family == "fsmt" else model.lm_head
            row = head.weight[config.eos_token_id]
            norm = (model.model.decoder.layers[-1].final_layer_norm if family == "fsmt" else
                    model.text_decoder.layer_norm if family in SEAMLESS else model.model.decoder.layer_norm)
            norm.bias.add_(row * (1.2 * deviation / row.dot(row)))
    generation = model.generation_config
    generation.forced_bos_token_id = forced
    if family == "marian":
        generation.bad_words_ids = [[config.pad_token_id]]
    return model


# tied; v1.1 (ByT5, MADLAD-400 and FLAN-T5 are of that kind); with a table for each layer; gated by silu
T5_KINDS = {"t5": {}, "mt5": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
            "umt5": dict(feed_forward_proj="gated-silu", tie_word_embeddings=False)}


def make_t5(family, seed=0, own_head=False, **options):
    """Makes models of T5, mT5 and UMT5 with heads of their own width, and with few buckets, because short
    sentences must reach all of them. own_head: an output that is not the embedding, which transformers 4
    drops when it reads a config that ties the two."""
    sizes = dict(vocab_size=40, d_model=24, num_layers=2, num_decoder_layers=2, num_heads=3, d_kv=5,
                 d_ff=32, relative_attention_num_buckets=8, relative_attention_max_distance=9,
                 dropout_rate=0.0, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    stem = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[family]
    config = getattr(transformers, f"{stem}Config")(**{**sizes, **T5_KINDS[family], **options})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{stem}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "relative_attention_bias" in name:
                p.copy_(torch.randn_like(p))
            elif p.dim() == 1:
                p.copy_(1 + 0.3 * torch.randn_like(p))
            elif re.search(r"Attention\.[qk]\.", name):
                p.copy_(torch.randn_like(p) * 1.2 / math.sqrt(p.shape[1]) / config.d_kv ** 0.25)
            else:
                p.copy_(torch.randn_like(p) * (0.8 if "shared" in name or "embed" in name else
                                               2 / math.sqrt(p.shape[1])))
        if own_head:
            scale = 1.4 / math.sqrt(config.d_model)
            model.lm_head.weight = torch.nn.Parameter(scale * torch.randn_like(model.lm_head.weight))
        model.lm_head.weight[config.eos_token_id] *= 2  # makes the end token come sometimes
    return model


def make_gemma(family, seed=0):
    """Makes small models of T5Gemma and T5Gemma 2: two heads of queries for each of keys, a layer that sees
    a window and one that sees all, soft caps."""
    side = dict(vocab_size=32, hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                intermediate_size=16, num_hidden_layers=2, sliding_window=3, query_pre_attn_scalar=6,
                attn_logit_softcapping=3.0, final_logit_softcapping=8.0,
                layer_types=["sliding_attention", "full_attention"], pad_token_id=0, eos_token_id=1, bos_token_id=2)
    image = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8,
             "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 8, "patch_size": 4}
    if family == "t5gemma2":
        config = transformers.T5Gemma2Config(encoder={"text_config": dict(side), "vision_config": image,
                                                      "mm_tokens_per_image": 4}, decoder=dict(side))
        model = transformers.T5Gemma2ForConditionalGeneration(config).eval()
    else:
        config = transformers.T5GemmaConfig(encoder=dict(side), decoder=dict(side), vocab_size=32)
        model = transformers.T5GemmaForConditionalGeneration(config).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name or "embed" in name or p.dim() == 2:
                p.copy_(torch.randn_like(p) * (0.3 if "norm" in name else 0.5 if "embed" in name else
                                               1.5 / math.sqrt(p.shape[1])))
                if "post_" in name:  # without this each token would be followed by itself
                    p.add_(2)
    config.pad_token_id, config.eos_token_id, config.decoder_start_token_id, config.vocab_size = 0, 1, 2, 32
    generation = model.generation_config
    generation.pad_token_id, generation.eos_token_id, generation.decoder_start_token_id = 0, 1, 2
    return model


def sentences(model, rows=5, width=9, seed=3, target=7):
    """Returns source ids [rows, width] followed by the end token and pads, their lengths, and targets."""
    config = model.config
    torch.manual_seed(seed)
    lengths = [width - i % 4 for i in range(rows)]
    src = torch.full((rows, width), config.pad_token_id)
    for row, length in enumerate(lengths):
        src[row, :length - 1] = torch.randint(4, 30, (length - 1,))
        src[row, length - 1] = config.eos_token_id
        if config.model_type in LIKE_ROBERTA:
            src[row, 0] = config.bos_token_id
    vocabulary = next(size for key in ("decoder_vocab_size", "tgt_vocab_size", "vocab_size")
                      if (size := getattr(config, key, None)))
    tgt = torch.randint(4, vocabulary - 1, (rows, target))
    tgt[:, 0] = config.decoder_start_token_id
    return src, torch.tensor(lengths), tgt


@torch.no_grad()
def reference(model, src, tgt):
    """Computes encoder memory and logits with transformers."""
    mask = (src != model.config.pad_token_id).long()
    out = model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt,
                use_cache=False)  # With a cache FSMT has no causal mask.
    return out.encoder_last_hidden_state, out.logits


@torch.no_grad()
def generate(model, src, limits, **options):
    """Returns the ids after the start token up to the end, row by row; a row has at most limits[row] ids.
    Rows of one length are computed together, which needs no pads."""
    lengths = (src != model.config.pad_token_id).sum(1).tolist()
    end = model.generation_config.eos_token_id
    # transformers 4.57 sizes T5's cache by the encoder's layers; 5.24 gives T5Gemma 2 a mask that does not fit.
    if model.config.model_type in {*T5_KINDS, "t5gemma2"}:
        options = {"use_cache": False, **options}
    rows = [[]] * len(lengths)
    for key in set(zip(lengths, limits)):
        at = [row for row, one in enumerate(zip(lengths, limits)) if one == key]
        ids = src[at, :key[0]]
        for row, found in zip(at, model.generate(ids, attention_mask=torch.ones_like(ids),
                                                 do_sample=False, max_new_tokens=key[1],
                                                 **options).tolist()):
            rows[row] = found[1:found.index(end, 1)] if end in found[1:] else found[1:]
    return rows
