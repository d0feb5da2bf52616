/* inspect.c: prints what a model file contains and what it costs to run the model.

       cc -O2 -I. -DTRANSFORMER_IMPLEMENTATION tools/model/inspect.c -o inspect -lm
       inspect MODEL [--tensors] [--src N] [--tgt N] [--cores N --bandwidth GB/s]
                     [--picture FILE] */

#include "output.h"

#include <stdarg.h>

#include "transformer.h"
#include "arithmetic.h"
#include "options.h"
#include "write_safetensors.h" /* st_bytes, st_is_matrix, st_is_scale */
#include "structure.h"

enum { MAX_TOKENS = 1000000 }; /* no product of sizes overflows with this number */

static struct {
    const char *path, *picture;
    int tensors, f16_cache;
    int32_t S, T, cores;
    double bandwidth, one_core, rate, cache, cache_rate, products, attention, wait;
} opt;

static option_entry table[] = {
    {"usage: inspect MODEL [options]\n"
     "\n"
     "Prints the config of MODEL, the types of its weights, its parameters by part, and the\n"
     "operations and bytes of three kinds of work: encoding a sentence, a teacher-forced pass "
     "(the\n"
     "decoder reads a given target), and one decoding step.\n",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"MODEL", NULL, OPTION_OPERAND, &opt.path, 0, 0, 0, NULL},
    {"--tensors", NULL, OPTION_FLAG, &opt.tensors, 0, 0, 0,
     "also prints name, type, shape and bytes of every tensor"},
    {"--picture", "FILE", OPTION_PATH, &opt.picture, 0, 0, 0,
     "draws the layers and the sizes of their parts as SVG"},
    {"--src", "N", OPTION_INTEGER, &opt.S, 1, MAX_TOKENS, 0,
     "source tokens of the sentence (default 32)"},
    {"--tgt", "N", OPTION_INTEGER, &opt.T, 1, MAX_TOKENS, 0,
     "target tokens of the sentence (default 32)"},
    {"\nHow many workers (sessions with a thread each) can a machine keep busy? With --cores and\n"
     "--bandwidth, which need each other, a table shows the sentences per second of one worker "
     "and\n"
     "of all cores, by batch size. A second table shows the time of one session with several\n"
     "threads, which wait for each other after each step.\n",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--cores", "N", OPTION_INTEGER, &opt.cores, 1, 4096, 0, "number of cores of the machine"},
    {"--bandwidth", "X", OPTION_NUMBER, &opt.bandwidth, 1e-3, 1e6, 0,
     "gigabytes per second that all cores together read from memory"},
    {"--one-core", "X", OPTION_NUMBER, &opt.one_core, 1e-3, 1e6, 0,
     "gigabytes per second that one core alone reads (default 15, or\n"
     "--bandwidth if that is less)"},
    {"--rate", "X", OPTION_NUMBER, &opt.rate, 1e-3, 1e6, 0,
     "billions of operations per second of one core, as build/bench\n"
     "prints for greedy-32 (default 250 for int8, else 80)"},
    {"--cache", "MB", OPTION_NUMBER, &opt.cache, 0, 1e6, 0,
     "megabytes of the last-level cache that all cores share (default 0)"},
    {"--cache-rate", "X", OPTION_NUMBER, &opt.cache_rate, 1e-3, 1e6, 0,
     "gigabytes per second that one core reads from this cache, for the table\n"
     "of threads (default twice --one-core)"},
    {"--products", "X", OPTION_NUMBER, &opt.products, 1e-3, 1e6, 0,
     "billions of operations per second of one core in products of many rows,\n"
     "as build/bench prints for product-2048 (default 900 for int8, else 200)"},
    {"--attention", "X", OPTION_NUMBER, &opt.attention, 1e-3, 1e6, 0,
     "the same in attention (default 100)"},
    {"--wait", "US", OPTION_NUMBER, &opt.wait, 0, 1e6, 0,
     "microseconds for which threads wait for each other after a step; with n\n"
     "threads, 1 + n / 4 times as long (default 1)"},
    {"--f16-cache", NULL, OPTION_FLAG, &opt.f16_cache, 0, 0, 0,
     "computes for keys and values of 16 bits (default: 32 bits)"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "prints this text"},
    {"\nExit status: 0 done, 1 an error in the file, 2 an error in the command line.", NULL,
     OPTION_TEXT, NULL, 0, 0, 0, NULL}};
enum { N_OPTIONS = sizeof table / sizeof *table };

/* ---- the config, under the names that the model file uses ---- */

static void print_word(const char *name, const char *word) { printf("  %-20s %s\n", name, word); }
static void print_number(const char *name, double number) { printf("  %-20s %g\n", name, number); }
static void print_size(const char *name, int32_t size) { printf("  %-20s %d\n", name, (int)size); }
static void print_id(const char *name, int32_t id) {
    if (id < 0) print_word(name, "none");
    else print_size(name, id);
}

static void print_id_list(const int32_t *ids, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) printf(" %d", (int)ids[i]);
}

static void print_ids(const char *name, const int32_t *ids, int32_t n) {
    if (!n) return;
    printf("  %-20s", name);
    print_id_list(ids, n), printf("\n");
}

/* The decoding options that are numbers or words, in the order of tfm_decode_options. */
typedef struct option_row {
    const char *name;
    size_t at;
    int is_real;
} option_row;

#define WHOLE(name)                                                                                \
    { #name, offsetof(tfm_decode_options, name), 0 }
#define REAL(name)                                                                                 \
    { #name, offsetof(tfm_decode_options, name), 1 }
static const option_row decoding[] = {WHOLE(max_length),
                                      WHOLE(min_length),
                                      WHOLE(truncate),
                                      WHOLE(beam),
                                      WHOLE(n_best),
                                      REAL(length_penalty),
                                      REAL(coverage_penalty),
                                      REAL(patience),
                                      WHOLE(samples),
                                      REAL(temperature),
                                      WHOLE(top_k),
                                      REAL(top_p),
                                      WHOLE(alternatives),
                                      REAL(min_alternative_prob),
                                      REAL(prefix_bias),
                                      WHOLE(force_end),
                                      WHOLE(keep_end),
                                      WHOLE(no_unknown),
                                      WHOLE(no_repeat_ngram),
                                      WHOLE(no_source_ngram),
                                      REAL(repetition_penalty),
                                      WHOLE(lexical_shortlist),
                                      WHOLE(attention_layer),
                                      WHOLE(attention_head),
                                      WHOLE(skip_errors)};
enum { N_DECODING = sizeof decoding / sizeof *decoding };

/* Prints an option that is not 0. */
static void print_option(const option_row *row, const tfm_decode_options *o) {
    const char *at = (const char *)o + row->at;
    int32_t whole = 0;
    double real = 0;
    if (row->is_real) memcpy(&real, at, sizeof real);
    else memcpy(&whole, at, sizeof whole);
    if (whole) print_size(row->name, whole);
    if (real != 0) print_number(row->name, real);
}

/* Prints the decoding defaults of the file. */
static void print_decoding(const tfm_model *model) {
    tfm_decode_options o, none;
    int32_t r;
    memset(&none, 0, sizeof none);
    o = *tfm_model_decoding(model);
    printf("decoding\n");
    if (memcmp(&o, &none, sizeof o) == 0) printf("  no defaults in the file: greedy\n");
    for (r = 0; r < N_DECODING; r++) print_option(&decoding[r], &o);
    if (o.stop) print_word("stop", tfm_stop_name(o.stop));
    if (o.repetition) print_word("repetition", tfm_repetition_name(o.repetition));
    print_ids("end_ids", o.end_ids, o.n_end_ids);
    print_ids("suppressed", o.suppressed, o.n_suppressed);
    for (r = 0; r < o.n_suppressed_sequences; r++)
        print_ids(r ? "" : "suppressed_sequences", o.suppressed_sequences[r].data,
                  o.suppressed_sequences[r].n);
    print_ids("shortlist", o.shortlist, o.n_shortlist);
}

/* Prints the windows of layers: layer, left, right. */
static void print_windows(const char *name, const int32_t *rows, int32_t n) {
    if (n) printf("  %-20s", name);
    for (; n > 0; n--, rows += 3)
        printf(" [%d, %d, %d]%s", (int)rows[0], (int)rows[1], (int)rows[2], n > 1 ? "" : "\n");
}

static void print_config(const tfm_config *c, int has_target_text) {
    int32_t i;
    printf("config\n");
    print_size("n_heads", c->n_heads);
    print_size("d_model", c->d_model);
    print_size("d_key", c->d_key);
    print_size("d_value", c->d_value);
    if (c->n_kv_heads != c->n_heads) print_size("n_kv_heads", c->n_kv_heads);
    if (c->n_kv_heads_decoder != c->n_kv_heads)
        print_size("n_kv_heads_decoder", c->n_kv_heads_decoder);
    print_size("d_ff", c->d_ff);
    if (c->d_ff_decoder != c->d_ff) print_size("d_ff of the decoder", c->d_ff_decoder);
    print_size("n_encoder_layers", c->n_encoder_layers);
    print_size("n_decoder_layers", c->n_decoder_layers);
    if (c->n_ssru_layers) print_size("  of them SSRUs", c->n_ssru_layers);
    if (c->d_input != c->d_model) print_size("d_input", c->d_input);
    if (c->d_memory != c->d_model) print_size("d_memory", c->d_memory);
    print_size("src_vocab_size", c->src_vocab_size);
    print_size("tgt_vocab_size", c->tgt_vocab_size);
    print_word("norm", tfm_norm_order_name(c->norm_order));
    print_word("layer_norm", tfm_norm_kind_name(c->norm_kind));
    print_number("layer_norm_eps", c->layer_norm_eps);
    print_word("activation", tfm_activation_name(c->activation));
    if (c->decoder_activation != c->activation)
        print_word("decoder_activation", tfm_activation_name(c->decoder_activation));
    if (c->has_gate) print_word("feed-forward", "gated");
    print_word("positions", tfm_position_kind_name(c->positions));
    print_size("position_offset", c->position_offset);
    if (c->positions == TFM_POSITION_KIND_LEARNED) {
        print_size("longest sequence", c->max_positions);
    } else if (c->positions != TFM_POSITION_KIND_NONE) {
        print_number("position_base", c->position_base);
        print_word("position_divisor", c->position_divisor_half ? "d/2-1" : "d");
        print_word("position_precision", c->position_double ? "double" : "float");
    }
    if (c->relative_buckets) {
        print_size("relative_buckets", c->relative_buckets);
        print_size("relative_max_distance", c->relative_max_distance);
    }
    if (c->d_rotary) {
        print_size("d_rotary", c->d_rotary);
        print_word("rotary_layout", c->rotary_layout ? "interleaved" : "halves");
    }
    print_windows("encoder_windows", c->encoder_windows, c->n_encoder_windows);
    print_windows("decoder_windows", c->decoder_windows, c->n_decoder_windows);
    if (c->cross_attention) print_word("cross_attention", "merged");
    if (c->attention_cap != 0) print_number("attention_cap", c->attention_cap);
    if (c->logit_cap != 0) print_number("logit_cap", c->logit_cap);
    print_word("pad_position", c->pad_position_zero ? "zero" : "plain");
    print_number("embedding_scale", c->embedding_scale);
    if (c->attention_scale != 0) print_number("attention_scale", c->attention_scale);
    else print_word("attention_scale", "1/sqrt(d_key)");
    print_id("src_pad", c->src_pad);
    print_id("tgt_pad", c->tgt_pad);
    print_id("src_unk", c->src_unk);
    print_id("tgt_unk", c->tgt_unk);
    print_id("src_start", c->src_start);
    print_id("src_end", c->src_end);
    print_id("start", c->start);
    print_id("end", c->end);
    print_id("forced", c->forced);
    print_word("start_embedding", c->start_embedding_zero ? "zero" : "token");
    printf("  %-20s", "suppressed");
    print_id_list(c->suppressed, c->n_suppressed);
    printf(c->n_suppressed ? "\n" : " none\n");
    printf("  %-20s", "alignment_heads");
    for (i = 0; i < c->n_alignment_heads; i++)
        printf(" [%d, %d]", (int)c->alignment_heads[2 * i], (int)c->alignment_heads[2 * i + 1]);
    printf(c->n_alignment_heads ? "\n" : " all of the last layer\n");
    printf("  %-20s", "languages");
    for (i = 0; i < c->n_languages; i++) putchar(' '), output_text(stdout, c->languages[i].code, 0);
    printf(c->n_languages ? "\n" : " none\n");
    print_word("src_text", c->has_text ? tfm_text_kind_name(c->src_text) : "no vocabulary");
    print_word("tgt_text", has_target_text ? tfm_text_kind_name(c->tgt_text) : "no vocabulary");
    if (c->src_text == TFM_TEXT_KIND_BYTES || c->tgt_text == TFM_TEXT_KIND_BYTES)
        print_size("byte_offset", c->byte_offset);
    if (c->has_text) print_word("sentences", tfm_sentences_name(c->sentences));
    if (c->source_language) print_word("source_language", c->source_language);
    if (c->target_language) print_word("target_language", c->target_language);
    if (c->trailing_space) print_word("trailing_space", "keep");
    if (c->clean_up) print_word("clean_up", "spaces");
    if (c->has_shortlist) print_size("shortlist_first", c->shortlist_first);
}

/* ---- tensors and parameters ---- */

static int64_t count_elements(const tfm_tensor *t) {
    int64_t n = 1;
    int d;
    for (d = 0; d < t->rank; d++) n *= t->dims[d];
    return n;
}

static void print_tensors(const tfm_safetensors *file) {
    int64_t i;
    int d;
    printf("tensors\n");
    for (i = 0; i < tfm_safetensors_count(file); i++) {
        tfm_tensor t = tfm_safetensors_tensor(file, i);
        printf("  ");
        output_text(stdout, tfm_safetensors_name(file, i), 48);
        printf(" %-5s %12lld bytes  [", tfm_dtype_name(t.dtype), (long long)st_bytes(&t));
        for (d = 0; d < t.rank; d++) printf(d ? ", %lld" : "%lld", (long long)t.dims[d]);
        printf("]\n");
    }
}

/* Returns 1 for a matrix of a packed file, which has four dimensions. */
static int is_panels(const tfm_tensor *t) { return t->rank == 4; }

/* Returns 1 for scales and sums of int8 matrices, which are no parameters. */
static int is_beside(const char *name) {
    size_t n = strlen(name);
    return st_is_scale(name) || (n > 5 && strcmp(name + n - 5, "_sums") == 0);
}

/* Prints tensors and bytes of each type. */
static void print_types(const tfm_safetensors *file) {
    int64_t n = tfm_safetensors_count(file), i;
    int dtype;
    printf("types\n");
    for (dtype = 0; dtype < TFM_DTYPE_COUNT; dtype++) {
        int64_t tensors = 0, bytes = 0, scales = 0, matrices = 0, panels = 0;
        for (i = 0; i < n; i++) {
            tfm_tensor t = tfm_safetensors_tensor(file, i);
            if ((int)t.dtype != dtype) continue;
            tensors++;
            bytes += st_bytes(&t);
            matrices += st_is_matrix(tfm_safetensors_name(file, i), &t) || is_panels(&t);
            panels += is_panels(&t);
            scales += st_is_scale(tfm_safetensors_name(file, i));
        }
        if (!tensors) continue;
        printf("  %-20s %14lld bytes in %lld tensors, %lld of them matrices",
               tfm_dtype_name((tfm_dtype)dtype), (long long)bytes, (long long)tensors,
               (long long)matrices);
        if (panels) printf(", %lld packed", (long long)panels);
        if (scales) printf(", %lld the scales of I8 rows", (long long)scales);
        printf("\n");
    }
}

enum { EMBEDDINGS, ENCODER, DECODER, GENERATOR, N_PARTS };

/* Returns the part of the model that a tensor belongs to. N_PARTS means none: text, scales, and the
   lexicon of a shortlist. */
static int part_of(const char *name) {
    if (is_beside(name)) return N_PARTS;
    if (strncmp(name, "encoder.", 8) == 0) return ENCODER;
    if (strncmp(name, "decoder.", 8) == 0) return DECODER;
    if (strncmp(name, "generator.", 10) == 0) return GENERATOR;
    if (strncmp(name, "shortlist.", 10) == 0) return N_PARTS;
    if (strstr(name, "_merges") || strstr(name, "_added")) return N_PARTS;
    return strstr(name, "_vocabulary") || strstr(name, "_sentencepiece") ? N_PARTS : EMBEDDINGS;
}

static void print_parameters(const tfm_safetensors *file, const model_shape *m) {
    static const char *const names[] = {"embeddings", "encoder", "decoder", "generator"};
    const char *notes[N_PARTS] = {"", "", "", ""};
    int64_t counts[N_PARTS + 1], total = 0, i;
    int packed = 0;
    memset(counts, 0, sizeof counts);
    for (i = 0; i < tfm_safetensors_count(file); i++) {
        tfm_tensor t = tfm_safetensors_tensor(file, i);
        counts[part_of(tfm_safetensors_name(file, i))] += count_elements(&t);
        packed |= is_panels(&t);
    }
    if (packed) { /* the elements of panels include padding, so the formulas count instead */
        counts[EMBEDDINGS] = params_embeddings(m), counts[GENERATOR] = params_generator(m);
        counts[ENCODER] = size_encoder(m, unit_parameters());
        counts[DECODER] = size_decoder(m, unit_parameters());
    }
    if (!m->tgt_embedding) notes[EMBEDDINGS] = "  source and target share one, counted once";
    if (!m->generator) notes[GENERATOR] = "  weight is the target embedding, counted there";
    printf("parameters\n");
    for (i = 0; i < N_PARTS; i++) {
        printf("  %-20s %14lld%s\n", names[i], (long long)counts[i], notes[i]);
        total += counts[i];
    }
    printf("  %-20s %14lld\n", "all", (long long)total);
    if (total != params_model(m))
        printf("  (not all layers have the same biases and norm weights; the figures below assume\n"
               "  that all layers are like the first: %lld parameters)\n",
               (long long)params_model(m));
}

/* ---- operations and bytes ---- */

static void print_cost(const char *what, int64_t n) {
    printf("  %-44s %16lld\n", what, (long long)n);
}

/* Prints the costs of one self-attention. If h = D = HK = HW and there is an output projection, the
   labels are the well-known formulas in h; otherwise they are the general formulas. */
static void print_self_attention(const model_shape *m, int64_t l) {
    int64_t projections = ops_attention(m, l, l, 0);
    int is_square = m->H * m->K == m->D && m->H * m->W == m->D && m->out_proj;
    int has_biases = m->in_bias && m->out_bias;
    printf("one self-attention over l = %lld tokens, batch b = 1, width h = %lld\n", (long long)l,
           (long long)m->D);
    print_cost(!is_square   ? "parameters"
               : has_biases ? "parameters                4h^2 + 4h"
                            : "parameters                4h^2 (not all biases)",
               params_attention(m));
    print_cost(is_square ? "operations                4lbh(2h + l)" : "operations",
               ops_attention(m, l, l, pairs_self(l, 0)));
    print_cost(is_square     ? "  projections             8lbh^2"
               : m->out_proj ? "  projections             4lbh(HK + HW)"
                             : "  projections             2lbh(2HK + HW)",
               projections);
    print_cost(is_square ? "  scores, weighted sum    4bl^2h"
                         : "  scores, weighted sum    2bl^2(HK + HW)",
               ops_attention(m, l, l, pairs_self(l, 0)) - projections);
    print_cost("  the same if causal", ops_attention(m, l, l, pairs_self(l, 1)) - projections);
    printf("  A causal self-attention stops at the diagonal: l(l+1)/2 pairs instead of l^2.\n");
}

static void print_costs(const model_shape *m, tfm_dtype type, int64_t S, int64_t T) {
    weight_unit u = unit_bytes(type);
    int64_t encode = ops_encode(m, S, pairs_self(S, 0));
    int64_t decode = ops_decode(m, T, pairs_self(T, 1), T * S), step = ops_decode(m, 1, T, S);
    printf("one sentence of S = %lld source and T = %lld target tokens\n", (long long)S,
           (long long)T);
    printf("  operations: multiplications and additions of the matrix products\n"
           "  bytes: each weight once; matrices are %s, as in the file\n",
           tfm_dtype_name(type));
    printf("encoder pass, with the keys and values of its output for the decoder layers\n");
    print_cost("operations", encode);
    print_cost("bytes of weights read", bytes_encode(m, u, S));
    print_cost("bytes of keys and values written", bytes_cache(m, 0, S));
    printf("teacher-forced decoder pass, causal, with the generator\n");
    print_cost("operations", decode);
    print_cost("  not causal", ops_decode(m, T, pairs_self(T, 0), T * S));
    print_cost("bytes of weights read", bytes_decode(m, u, T));
    print_cost("bytes of keys and values written and read", bytes_cache(m, T, 0));
    print_cost("bytes of keys and values of the source read", bytes_cache(m, 0, S));
    print_cost("operations of both passes", encode + decode);
    printf("decoding step for token T, which attends to T target and S source positions\n");
    print_cost("operations", step);
    print_cost("bytes of weights read", bytes_decode(m, u, 1));
    print_cost("bytes of keys and values read", bytes_cache(m, T, S));
    print_cost("bytes read", bytes_decode(m, u, 1) + bytes_cache(m, T, S));
    printf("  %-44s %16.2f\n", "operations a byte",
           (double)step / (double)(bytes_decode(m, u, 1) + bytes_cache(m, T, S)));
    if (opt.bandwidth > 0)
        printf("  ms, if limited by reading at %-6g GB/s %20.2f\n", opt.bandwidth,
               1e-6 * (double)(bytes_decode(m, u, 1) + bytes_cache(m, T, S)) / opt.bandwidth);
}

/* ---- how many workers a machine can keep busy ----
   A worker translates batches of b sentences, greedily: it encodes them and makes T steps.
   Computing takes operations / rate. Each step reads the decoder's weights once, whatever b is, and
   the keys and values of b sentences. Workers share the bandwidth of memory:

       seconds of a batch = max(operations / rate, bytes / one core, workers x bytes / bandwidth)

   So more than bandwidth x seconds(1 worker) / bytes workers do not translate more.

   The weights (once) and the keys and values (of each worker) stay in the cache if they fit. Then
   nothing is read from memory, and a core reads twice as fast. */

/* Returns the seconds of a batch. Sets *bytes to the bytes that it reads from memory. */
static double batch_seconds(const model_shape *m, weight_unit u, int64_t b, int64_t workers,
                            double *bytes) {
    int64_t S = opt.S, T = opt.T, t, ops = ops_encode(m, b * S, b * pairs_self(S, 0));
    int64_t step = bytes_decode(m, u, b), read = bytes_encode(m, u, b * S) + T * step;
    double seconds[3];
    int i;
    for (t = 1; t <= T; t++) {
        ops += ops_decode(m, b, b * t, b * S);
        read += b * bytes_cache(m, t, S) / (1 + opt.f16_cache);
    }
    *bytes = (double)read;
    seconds[0] = (double)ops / opt.rate, seconds[1] = *bytes / opt.one_core;
    if ((double)(step + workers * b * bytes_cache(m, T, S) / (1 + opt.f16_cache)) <=
        1e6 * opt.cache)
        *bytes = 0, seconds[1] /= 2;
    seconds[2] = (double)workers * *bytes / opt.bandwidth;
    for (i = 1; i < 3; i++)
        if (seconds[0] < seconds[i]) seconds[0] = seconds[i];
    return 1e-9 * seconds[0];
}

static void print_workers(const model_shape *m, tfm_dtype type) {
    static const int64_t batches[] = {1, 4, 16, 32, 64, 128};
    size_t i;
    if (opt.rate <= 0) opt.rate = type == TFM_DTYPE_I8 ? 250 : 80;
    if (opt.one_core <= 0) opt.one_core = opt.bandwidth < 15 ? opt.bandwidth : 15;
    printf("workers with one session each, greedy, S = %d, T = %d: %d cores of %g GOP/s, memory of "
           "%g GB/s\n"
           "  (one core alone: %g GB/s), %g MB of cache\n"
           "  batch   MB from memory   sentences/s of      all cores        times   memory feeds\n"
           "              a sentence       one worker\n",
           (int)opt.S, (int)opt.T, (int)opt.cores, opt.rate, opt.bandwidth, opt.one_core,
           opt.cache);
    for (i = 0; i < sizeof batches / sizeof *batches; i++) {
        int64_t b = batches[i];
        double one, all, alone, bytes;
        one = batch_seconds(m, unit_bytes(type), b, 1, &bytes), alone = (double)b / one;
        all = (double)(opt.cores * b) / batch_seconds(m, unit_bytes(type), b, opt.cores, &bytes);
        printf("  %5d %16.2f %16.1f %14.1f %12.2f ", (int)b, 1e-6 * bytes / (double)b, alone, all,
               all / alone);
        if (bytes > 0) printf("%14.1f\n", 1e9 * opt.bandwidth * one / bytes);
        else printf("%14s\n", "all");
    }
}

/* ---- what threads inside one session give ----
   A pass goes step by step, and all threads wait for each other after each step: a product, an
   attention, a norm. Of n threads, a step of some operations takes

       operations / (n x rate) + bytes / (bytes per second of n cores) + the wait

   A step that is too small to be divided, as in transformer.h, runs on one thread. An attention has
   a part for each head and sentence, so more threads do not help it. The wait grows with n. The
   time for data that one core wrote and another reads is not in the model. */

enum { WORTH_SHARING = 1 << 18, NORM_COST = 16, MANY_ROWS = 96 }; /* as in transformer.h */
#define NORM_NS 0.5   /* of a number in a residual connection and norm */
#define EMBED_NS 3.5  /* of a number that is read from an embedding */
#define CHOOSE_NS 0.5 /* of a logit when tokens are chosen */

typedef struct team_model {
    double n, unit, seconds, one_thread; /* one_thread: seconds of what one thread does alone */
    int is_int8;
    int64_t waits;
} team_model;

/* Adds steps that take `seconds` on one thread and have `parts` parts if they are divided. */
static void add_step(team_model *t, double seconds, double bytes, double one_core, double cost,
                     double parts, int waits) {
    double n = t->n < parts ? t->n : parts, rate;
    if (t->n < 2 || cost < (double)WORTH_SHARING) n = 1;
    rate = n * one_core < opt.bandwidth || opt.cache > 0 ? n * one_core : opt.bandwidth;
    seconds = seconds / n + bytes / rate * 1e-9;
    t->seconds += seconds;
    if (n == 1) t->one_thread += seconds;
    else t->waits += waits, t->seconds += waits * 1e-6 * opt.wait * (1 + t->n / 4);
}

/* Adds a product of rows by a matrix [in, out], or a step that has several of them. */
static void add_product(team_model *t, int64_t rows, int64_t in, int64_t out) {
    double ops = (double)ops_linear(rows, in, out);
    int converts = t->is_int8 && rows < MANY_ROWS * (int64_t)t->n && rows * in >= 1 << 15;
    double weights = opt.cache > 0 ? opt.cache_rate : opt.one_core;
    add_step(t, 1e-9 * ops / opt.products, (double)(in * out) * t->unit, weights, ops,
             ops / (WORTH_SHARING / 2), 1 + converts);
}
static void add_norms(team_model *t, int64_t rows, int64_t width) {
    double numbers = (double)(rows * width);
    add_step(t, 1e-9 * NORM_NS * numbers, 0, 1, (double)NORM_COST * numbers, numbers, 1);
}
static void add_embedding(team_model *t, int64_t rows, int64_t width) {
    double numbers = (double)(rows * width);
    add_step(t, 1e-9 * EMBED_NS * numbers, 0, 1, (double)NORM_COST * numbers, numbers, 1);
}
static void add_attention(team_model *t, const model_shape *m, int64_t sentences, int64_t pairs,
                          int64_t keys) {
    double ops = 2.0 * (double)(pairs * m->H * (m->K + m->W));
    double bytes = 4.0 * (double)(keys * m->G_decoder * (m->K + m->W)) / (1 + opt.f16_cache);
    add_step(t, 1e-9 * ops / opt.attention, bytes, opt.one_core, ops, (double)(sentences * m->H),
             1);
}
static void add_feed_forward(team_model *t, const model_shape *m, int64_t rows, int64_t F) {
    add_product(t, rows, m->D, (1 + m->gate) * F);
    add_product(t, rows, F, m->D);
    add_norms(t, rows, m->D);
}

static void add_encoder(team_model *t, const model_shape *m, int64_t b) {
    int64_t rows = b * opt.S, i;
    add_embedding(t, rows, m->D);
    for (i = 0; i < m->N_encoder; i++) {
        add_product(t, rows, m->D, m->H * m->K + m->G_encoder * (m->K + m->W));
        add_attention(t, m, b, b * pairs_self(opt.S, 0), 0);
        add_product(t, rows, m->H * m->W, m->D);
        add_norms(t, rows, m->D);
        add_feed_forward(t, m, rows, m->F_encoder);
    }
}
static void add_decoding(team_model *t, const model_shape *m, int64_t b) {
    int64_t i, step;
    add_encoder(t, m, b);
    for (i = 0; i < m->N_decoder; i++)
        add_product(t, b * opt.S, m->D_memory ? m->D_memory : m->D, m->G_decoder * (m->K + m->W));
    for (step = 1; step <= opt.T; step++) {
        add_embedding(t, b, m->D);
        for (i = 0; i < m->N_decoder; i++) {
            add_product(t, b, m->D, m->H * m->K + m->G_decoder * (m->K + m->W));
            add_attention(t, m, b, b * step, b * step);
            add_product(t, b, m->H * m->W, m->D);
            add_norms(t, b, m->D);
            if (!m->is_merged) {
                add_product(t, b, m->D, m->H * m->K);
                add_product(t, b, m->H * m->W, m->D);
                add_norms(t, b, m->D);
            }
            add_attention(t, m, b, b * opt.S, b * opt.S);
            add_feed_forward(t, m, b, m->F_decoder);
        }
        add_product(t, b, m->D, m->V_target);
        add_step(t, 1e-9 * CHOOSE_NS * (double)(b * m->V_target), 0, 1,
                 b > 1 ? (double)WORTH_SHARING : 0, (double)b, 1);
    }
}

/* Returns the n-th number of threads of the table, the last of which is that of all cores; 0 after
   it. */
static int threads_of(int n) {
    static const int counts[] = {1, 2, 4, 8, 16, 64};
    int i;
    for (i = 0; i < 6 && counts[i] < opt.cores && counts[i] < 64; i++)
        if (i == n) return counts[i];
    return i == n ? opt.cores < 64 ? opt.cores : 64 : 0;
}

static void print_threads(const model_shape *m, tfm_dtype type) {
    static const int batches[] = {1, 8, 1, 32};
    team_model t;
    char name[40];
    int work, i;
    if (opt.products <= 0) opt.products = type == TFM_DTYPE_I8 ? 900 : 200;
    if (opt.attention <= 0) opt.attention = 100;
    if (opt.cache_rate <= 0) opt.cache_rate = 2 * opt.one_core;
    printf("threads inside one session, S = %d, T = %d: products of %g GOP/s a core, attention of "
           "%g,\n"
           "  a wait of %g us with few threads; ms, waits and, in percent, what one thread does "
           "alone\n"
           "  %-22s",
           (int)opt.S, (int)opt.T, opt.products, opt.attention, opt.wait, "threads");
    for (i = 0; threads_of(i); i++) printf(" %20d", threads_of(i));
    printf("\n");
    for (work = 0; work < 4; work++) {
        snprintf(name, sizeof name, "%s, batch of %d", work < 2 ? "encode" : "greedy",
                 batches[work]);
        printf("  %-22s", name);
        for (i = 0; threads_of(i); i++) {
            memset(&t, 0, sizeof t);
            t.n = threads_of(i), t.is_int8 = type == TFM_DTYPE_I8;
            t.unit = (double)unit_bytes(type).matrix;
            if (work < 2) add_encoder(&t, m, batches[work]);
            else add_decoding(&t, m, batches[work]);
            printf(" %9.2f %5lld %3.0f%%", 1e3 * t.seconds, (long long)t.waits,
                   100 * t.one_thread / t.seconds);
        }
        printf("\n");
    }
}

/* ---- the command line ---- */

/* Prints the error message of the program, and returns the exit status. */
static int fail(const tfm_error *err) { return !output_fail("inspect", NULL, err->text); }

/* Prints license and origin of the weights, if the file has them. */
static void print_about(const tfm_safetensors *file) {
    static const char *const keys[] = {"license", "source", "revision"};
    size_t i;
    for (i = 0; i < 3; i++) {
        const char *text = tfm_safetensors_metadata(file, keys[i]);
        if (!text) continue;
        printf("  %-20s ", keys[i]);
        output_text(stdout, text, 0);
        printf("\n");
    }
}

/* Prints the bytes of a session for one sentence, greedy. */
static void print_session(const tfm_model *model) {
    tfm_session_options o;
    tfm_error err;
    size_t bytes;
    memset(&o, 0, sizeof o);
    o.max_source = (int32_t)opt.S, o.max_target = (int32_t)opt.T;
    printf("session of one sentence, S = %d, T = %d\n", (int)opt.S, (int)opt.T);
    if (tfm_session_bytes(model, &o, &bytes, &err) != TFM_OK) printf("  %s\n", err.text);
    else print_cost("bytes", (int64_t)bytes);
}

/* Draws the picture. Returns NULL, or the error. */
static const char *draw(const tfm_safetensors *file, const tfm_config *c,
                        const model_shape *shape) {
    const char *name = opt.path + strlen(opt.path);
    char title[256], size[24], count[32];
    int64_t bytes = 0, n = params_model(shape), i;
    while (name > opt.path && name[-1] != '/' && name[-1] != '\\') name--;
    for (i = 0; i < tfm_safetensors_count(file); i++) {
        tfm_tensor t = tfm_safetensors_tensor(file, i);
        bytes += st_bytes(&t);
    }
    if (n < 1000000) snprintf(count, sizeof count, "%d", (int)n);
    else snprintf(count, sizeof count, "%.4g million", (double)n / 1e6);
    snprintf(title, sizeof title, "%.120s: %s parameters, %s, matrices %s, %s-norm", name, count,
             box_size(size, bytes), tfm_dtype_name(type_of_matrices(file)),
             c->norm_order ? "pre" : "post");
    return draw_structure(opt.picture, file, c, title, tfm_activation_name(c->activation));
}

static int inspect(const char *path) {
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    tfm_config config;
    model_shape shape;
    const char *fault = NULL;
    size_t size;
    tfm_error err;
    if (tfm_model_load_file(&model, path, NULL, &err) != TFM_OK) return fail(&err);
    config = *tfm_model_config(model);
    print_config(&config, tfm_model_detokenize(model, NULL, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size,
                                               NULL) != TFM_E_NO_TEXT);
    print_decoding(model);
    print_session(model);
    tfm_model_free(model); /* first, so memory never holds two copies of the file */
    if (tfm_safetensors_open_file(&file, path, NULL, &err) != TFM_OK) return fail(&err);
    print_about(file);
    shape = shape_of_model(&config, file);
    if (opt.tensors) print_tensors(file);
    print_types(file);
    print_parameters(file, &shape);
    print_self_attention(&shape, opt.S);
    print_costs(&shape, type_of_matrices(file), opt.S, opt.T);
    if (opt.cores) {
        print_workers(&shape, type_of_matrices(file));
        print_threads(&shape, type_of_matrices(file));
    }
    if (opt.picture && (fault = draw(file, &config, &shape)) != NULL)
        output_fail("inspect", opt.picture, fault);
    tfm_safetensors_free(file);
    if (fault) return 1;
    return !output_finish("inspect");
}

static void misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("inspect", format, arguments), va_end(arguments);
    exit(2);
}

int main(int argc, char **argv) {
    opt.S = opt.T = 32, opt.wait = 1;
    argv = utf8_arguments(&argc, argv);
    if (options_read(table, N_OPTIONS, argc, argv, misuse)) {
        options_print(table, N_OPTIONS, stdout);
        return !output_finish("inspect");
    }
    if (!opt.path) misuse("give a MODEL; see --help");
    if ((opt.cores > 0) != (opt.bandwidth > 0)) misuse("--cores and --bandwidth need each other");
    if (opt.picture && output_is_same(opt.path, opt.picture))
        misuse("%s: is also the input file", opt.picture);
    return inspect(opt.path);
}
