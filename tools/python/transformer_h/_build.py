"""What of the header the package calls, for cffi: the compiler checks each of these declarations."""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
ROOT = next(one for one in (HERE.parent, HERE.parents[2]) if (one / "transformer.h").exists())

ffi = FFI()
ffi.cdef("""
    typedef enum { TFM_OK, TFM_E_ARGUMENT, TFM_E_SHAPE, TFM_E_DTYPE, TFM_E_OVERFLOW, TFM_E_MEMORY,
        TFM_E_ARENA, TFM_E_IO, TFM_E_FORMAT, TFM_E_CONFIG, TFM_E_TENSOR, TFM_E_TOKEN,
        TFM_E_TOO_LONG, TFM_E_TOO_SMALL, TFM_E_UTF8, TFM_E_STATE, TFM_E_NO_TEXT, ... } tfm_status;
    typedef struct { tfm_status status; char text[...]; } tfm_error;
    typedef enum { TFM_F32, TFM_F16, TFM_BF16, ... } tfm_dtype;
    typedef struct { void *data; tfm_dtype dtype; int rank; int64_t dims[...]; int64_t strides[...];
        } tfm_tensor;
    typedef enum { TFM_POSITIONS_SINUSOIDAL, TFM_POSITIONS_HALVES, TFM_POSITIONS_PER_INDEX,
        TFM_POSITIONS_LEARNED, TFM_POSITIONS_NONE, ... } tfm_position_kind;
    typedef enum { TFM_NORM_VARIANCE, TFM_NORM_DEVIATION, ... } tfm_norm_kind;
    typedef enum { TFM_RELU, TFM_GELU, TFM_GELU_TANH, TFM_SWISH, TFM_GELU_SIGMOID, ... } tfm_activation;
    typedef enum { TFM_POST_NORM, TFM_PRE_NORM, ... } tfm_norm_order;
    typedef enum { TFM_TEXT_WORDS, TFM_TEXT_CHARACTERS, TFM_TEXT_PIECES, TFM_TEXT_SENTENCEPIECE,
        TFM_TEXT_BYTE_BPE, ...
        } tfm_text_kind;
    typedef struct { const char *code; int32_t id; } tfm_language;
    typedef enum { TFM_LANGUAGE_NONE, TFM_LANGUAGE_SOURCE, TFM_LANGUAGE_TARGET, ... } tfm_language_use;
    typedef struct {
        int32_t n_heads, n_encoder_layers, n_decoder_layers, d_model, d_ff, d_ff_decoder, d_key,
            d_value, src_vocab_size, tgt_vocab_size;
        tfm_norm_order norm;
        tfm_norm_kind layer_norm;
        double layer_norm_eps;
        tfm_activation activation;
        tfm_position_kind positions;
        int32_t position_offset;
        double position_base;
        int32_t position_divisor_half, position_double, pad_position_zero;
        double embedding_scale, attention_scale;
        int32_t src_pad, tgt_pad, src_unk, tgt_unk, src_start, src_end, start, end, forced,
            start_embedding_zero;
        tfm_text_kind src_text, tgt_text;
        int32_t has_text, max_positions, n_suppressed;
        const int32_t *suppressed;
        int32_t n_languages;
        const tfm_language *languages;
        tfm_language_use src_language;
        int32_t tgt_language_forced;
        ...; } tfm_config;
    typedef ... tfm_model;
    typedef ... tfm_session;
    typedef enum { TFM_WEIGHTS_AS_STORED, TFM_WEIGHTS_F32, TFM_WEIGHTS_F16, TFM_WEIGHTS_BF16,
        TFM_WEIGHTS_I8, ... } tfm_weight_type;
    typedef struct { tfm_weight_type weights; int in_place, map; ...; } tfm_model_options;
    typedef struct { int32_t max_batch, max_source, max_target, max_beam, attention, threads; ...;
        } tfm_session_options;
    typedef struct { const int32_t *ids; const int32_t *lengths; int32_t rows, width; ...; } tfm_batch;
    typedef struct { int not_causal; ...; } tfm_forward_options;
    typedef enum { TFM_STOP_ENOUGH, ... } tfm_stop;
    typedef struct {
        int32_t max_length, min_length, beam, n_best;
        double length_penalty, coverage_penalty, patience;
        tfm_stop stop;
        int32_t samples;
        double temperature;
        int32_t top_k;
        double top_p;
        const uint64_t *seeds;
        const tfm_batch *prefix;
        int32_t no_unknown, no_repeat_ngram;
        double repetition_penalty;
        ...; } tfm_decode_options;
    typedef enum { TFM_RUNNING, TFM_ENDED, TFM_HIT_LENGTH, TFM_STUCK, ... } tfm_finish;
    typedef enum { TFM_FORM_TEXT, TFM_FORM_TOKENS, TFM_FORM_ESCAPED, ... } tfm_text_form;

    const char *tfm_version(void);
    const char *tfm_cpu_string(void);
    tfm_status tfm_model_load(tfm_model **, const void *, size_t, const tfm_model_options *, tfm_error *);
    tfm_status tfm_model_load_file(tfm_model **, const char *, const tfm_model_options *, tfm_error *);
    void tfm_model_free(tfm_model *);
    const tfm_config *tfm_model_config(const tfm_model *);
    tfm_status tfm_session_create(tfm_session **, const tfm_model *, const tfm_session_options *,
        tfm_error *);
    void tfm_session_free(tfm_session *);
    tfm_status tfm_languages_set(tfm_session *, const char *, const char *, tfm_error *);
    tfm_status tfm_encode(tfm_session *, const tfm_batch *, tfm_error *);
    tfm_tensor tfm_encoder_output(const tfm_session *);
    tfm_status tfm_forward(tfm_session *, const tfm_batch *, const tfm_batch *,
        const tfm_forward_options *, tfm_tensor *, tfm_error *);
    void tfm_decode_defaults(const tfm_model *, tfm_decode_options *);
    tfm_status tfm_start(tfm_session *, const tfm_batch *, const tfm_decode_options *, tfm_error *);
    tfm_status tfm_score(tfm_session *, const tfm_batch *, const tfm_batch *, double *, tfm_error *);

    typedef struct { int32_t row, length, finish; int64_t end; double score, log_probability;
        } th_hypothesis;
    int th_sentence(const char *, size_t, size_t *);
    int th_space_after(const char *, size_t);
    void th_sources(tfm_session *, const char *, const int64_t *, int32_t, int, int32_t *, int32_t,
        int32_t *, tfm_error *);
    void th_targets(const tfm_model *, const char *, const int64_t *, int32_t, int, int32_t *, int32_t,
        int32_t *, tfm_error *);
    tfm_status th_steps(tfm_session *, int32_t, int32_t *, tfm_error *);
    tfm_status th_results(tfm_session *, int32_t, int, th_hypothesis *, int32_t, int32_t *, char *,
        size_t, size_t *, tfm_error *);
""")
# One compilation, so structs cannot be another version's (tfm_sizes_check has nothing to find).
ffi.set_source("transformer_h._transformer", """
    #define TRANSFORMER_IMPLEMENTATION
    #define TRANSFORMER_STATIC
    #ifndef _WIN32
    #define TRANSFORMER_MMAP
    #endif
    #include "transformer.h"
    #include "_native.h"
    """, include_dirs=[str(ROOT), str(HERE), str(ROOT / "examples")],
    depends=[str(ROOT / "transformer.h"), str(ROOT / "examples/sentences.h")])
