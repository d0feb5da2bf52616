/* fuzz_whisper.h: a small valid Whisper file and a sound, changed as the input's bytes say. The
   model is a puppet: a row of tgt_positions chooses the token that it writes at that place, so the
   input also says what is heard.

   The input: a byte of flags (FUZZ_SOME_...), a byte for the seed, the size of the weights and
   whether there is a voice detector, a byte n and n tokens, a byte m and m changes of three bytes
   (what, where, how), and the sound. Tokens below FUZZ_TEXTS are texts, FUZZ_TEXTS is the end, and
   others are times. */
#ifndef FUZZ_WHISPER_H
#define FUZZ_WHISPER_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wshadow" /* The headers have arguments that are named err. */
#endif
#define SPEECH_SECONDS 1
#include "../vad_tensors.h"
#include "fuzz_file.h"

enum { FUZZ_MULTILINGUAL = 1, FUZZ_CLEAN_UP = 2, FUZZ_WITHOUT_HEADS = 4, FUZZ_FLAGS_OF_USER = 8 };

#define FUZZ_LONG " long long long long long long long long long long long long long long long long"

/* Texts of tokens as bytes, which byte-level BPE spells; a size where there is a byte 0. */
static const struct {
    const char *text;
    size_t size;
} fuzz_texts[] = {{" a", 0},
                  {"b", 0},
                  {".", 0},
                  {" .", 0},
                  {" world", 0},
                  {"\xe5", 0},
                  {"\xad", 0},
                  {"\xa6", 0},
                  {" \xe5\xad\xa6", 0},
                  {"\xe3\x80\x82", 0},
                  {"!", 0},
                  {" ?", 0},
                  {"\"", 0},
                  {" '", 0},
                  {"n't", 0},
                  {" n't", 0},
                  {" -->", 0},
                  {" &amp;", 0},
                  {"<b>", 0},
                  {"\n", 0},
                  {"\r\n\n", 0},
                  {"\0", 1},
                  {"\x1b[31m", 0},
                  {"\x7f", 0},
                  {"\xc2\x9b", 0},
                  {"\xff", 0},
                  {"\xf0\x9f", 0},
                  {"\x91\x8d", 0},
                  {" 00:00:01,000", 0},
                  {"\xe2\x80\xa8", 0},
                  {" ", 0},
                  {"(", 0},
                  {"\\", 0},
                  {"\xef\xbf\xbd", 0},
                  {" half of a word\xe5", 0},
                  {FUZZ_LONG FUZZ_LONG FUZZ_LONG FUZZ_LONG, 0}}; /* 224 of these are over 64 kB */
enum { FUZZ_TEXTS = FUZZ_COUNT(fuzz_texts), FUZZ_TIMES = 61, FUZZ_WIDTH = 16 };

/* Numbers of the file that a change can replace. */
enum {
    FUZZ_START,
    FUZZ_END,
    FUZZ_LANGUAGE, /* three */
    FUZZ_TRANSLATE = FUZZ_LANGUAGE + 3,
    FUZZ_TRANSCRIBE,
    FUZZ_PREVIOUS,
    FUZZ_NO_SPEECH,
    FUZZ_NO_TIMES,
    FUZZ_FIRST_TIME,
    FUZZ_SUPPRESSED,                  /* three */
    FUZZ_BEGIN = FUZZ_SUPPRESSED + 3, /* two */
    FUZZ_HEADS = FUZZ_BEGIN + 2,      /* two pairs */
    FUZZ_NUMBERS = FUZZ_HEADS + 4
};
static const char *const fuzz_codes[] = {"en",          "zh",      "de",     "ja",    "e\\\"n",
                                         "\\u001b[31m", "\\u009b", "<|en|>", "a\\\\", "\\u2028x"};
static const char *const fuzz_more[] = {", \"clean_up\": \"spaces\"",
                                        ", \"prefix_space\": \"add\"",
                                        ", \"norm\": \"post\"",
                                        ", \"position_offset\": 2",
                                        ", \"embedding_scale\": \"sqrt_d\"",
                                        ", \"decoding\": {\"max_length\": 7}",
                                        ", \"decoding\": {\"beam\": 3, \"no_repeat_ngram\": 2}",
                                        ", \"forced\": 3",
                                        ", \"layer_norm\": \"rms\"",
                                        ", \"positions\": \"none\"",
                                        ", \"tgt_unk\": 0"};
static const char *const fuzz_keys[] = {"extra.transcribe",    "extra.translate",
                                        "extra.previous",      "extra.no_speech",
                                        "extra.no_timestamps", "extra.first_time"};

/* Appends bytes as byte-level BPE spells them. Returns the new size. */
static size_t fuzz_spell(char *out, size_t at, const uint8_t *bytes, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) {
        unsigned b = bytes[i], c = b;
        if (b < 33) c = 256 + b;
        else if (b >= 127 && b < 161) c = 256 + 33 + b - 127;
        else if (b == 173) c = 256 + 33 + 34;
        if (c >= 128) out[at++] = (char)(0xC0 | c >> 6), c = 0x80 | (c & 63);
        out[at++] = (char)c;
    }
    return at;
}

/* Adds a voice detector of small weights. */
static void fuzz_add_detector(st_writer *w, float seed) {
    static float weights[512 * 256];
    char name[64];
    size_t i;
    for (i = 0; i < FUZZ_COUNT(weights); i++) weights[i] = sinf((float)(i % 8191) * seed) * 0.15f;
    for (i = 0; i < FUZZ_COUNT(vad_tensors); i++) {
        snprintf(name, sizeof name, "extra.vad.%s", vad_tensors[i].name);
        st_add(w, name,
               tfm_tensor_make(weights, TFM_DTYPE_F32, vad_tensors[i].rank, vad_tensors[i].dims));
    }
}

/* Takes the next byte of the input, or 0 at its end. */
static unsigned fuzz_byte(const uint8_t **data, const uint8_t *end) {
    return *data < end ? *(*data)++ : 0;
}

/* Writes the changed model. *data becomes the sound that follows. Returns 0 if there is no
   model. */
static int TEST_UNUSED fuzz_whisper(const uint8_t **data, const uint8_t *end, void **bytes,
                                    size_t *size) {
    static const float numbers[] = {0, NAN, INFINITY, -INFINITY, 3e38f, 0.01f, -1, 1e-42f};
    static float same[8][4096], rows[256][FUZZ_WIDTH], positions[448][FUZZ_WIDTH];
    static float conv[2][FUZZ_WIDTH * 3 * FUZZ_WIDTH];
    static char words[8192];
    static uint32_t added[128][2], merges[4][3];
    static const uint32_t some_merges[4][3] = {{0, 1, 4}, {5, 6, 8}, {2, 10, 3}, {30, 1, 0}};
    const char *more = "", *code = "en";
    const char *texts[FUZZ_COUNT(fuzz_keys)];
    char config[2048], text[64];
    int n[FUZZ_NUMBERS], k, V = 0, M = 4, used, vanished = -1;
    unsigned flags = fuzz_byte(data, end), seed = fuzz_byte(data, end), count, i, weak = seed & 3;
    size_t at = 0, j;
    const uint8_t *tokens;
    tiny t = tiny_default();
    st_writer w;
    memset(texts, 0, sizeof texts);
    for (k = 0; k < FUZZ_TEXTS; k++) {
        j = fuzz_texts[k].size ? fuzz_texts[k].size : strlen(fuzz_texts[k].text);
        at = fuzz_spell(words, at, (const uint8_t *)fuzz_texts[k].text, j);
        words[at++] = '\n';
    }
    V = FUZZ_TEXTS;
    n[FUZZ_END] = V++, n[FUZZ_START] = V++;
    for (k = 0; k < 3; k++) n[FUZZ_LANGUAGE + k] = V++;
    for (k = FUZZ_TRANSLATE; k <= FUZZ_NO_TIMES; k++) n[k] = V++;
    n[FUZZ_FIRST_TIME] = V, V += FUZZ_TIMES;
    n[FUZZ_SUPPRESSED] = n[FUZZ_START], n[FUZZ_SUPPRESSED + 1] = n[FUZZ_TRANSLATE];
    n[FUZZ_SUPPRESSED + 2] = n[FUZZ_PREVIOUS];
    n[FUZZ_BEGIN] = 30, n[FUZZ_BEGIN + 1] = n[FUZZ_END];
    n[FUZZ_HEADS] = 0, n[FUZZ_HEADS + 1] = 1, n[FUZZ_HEADS + 2] = 0, n[FUZZ_HEADS + 3] = 0;
    for (k = FUZZ_TEXTS; k < V; k++) {
        at += (size_t)snprintf(words + at, 16, "<|%d|>\n", k);
        added[k - FUZZ_TEXTS][0] = (uint32_t)k, added[k - FUZZ_TEXTS][1] = 4;
    }
    memcpy(merges, some_merges, sizeof merges);

    t.d = FUZZ_WIDTH, t.key = t.value = 8, t.ff = 8, t.encoder = t.decoder = 1, t.seed = seed + 1;
    t.vs = 1, t.vt = V, t.src_positions = 50 * SPEECH_SECONDS, t.tgt_positions = 448;
    t.without = "src_embedding", t.config = "";
    tiny_write(&w, t);
    for (j = 0; j < w.n_pairs; j++) free(w.pairs[j].key), free(w.pairs[j].value);
    w.n_pairs = 0;
    for (j = 0; j < w.n_entries; j++) { /* Small weights leave the choice to the positions. */
        st_entry *e = &w.entries[j];
        int is_norm = strstr(e->name, "norm") != NULL && strstr(e->name, "weight") != NULL;
        for (i = 0; i < (unsigned)(e->bytes / 4); i++)
            ((float *)e->tensor.data)[i] =
                is_norm ? 1 : ((float *)e->tensor.data)[i] * 0.05f * (float)weak;
    }
    for (i = 0; i < 256; i++)
        for (k = 0; k < FUZZ_WIDTH; k++) rows[i][k] = tiny_random(&t.seed) & 1024 ? 1 : -1;
    for (k = 0; k < 2; k++)
        for (i = 0; i < FUZZ_COUNT(conv[0]); i++)
            conv[k][i] = (float)tiny_random(&t.seed) / 8388608.0f - 1.0f;
    for (i = 0; i < sizeof fuzz_bytes; i++) fuzz_bytes[i] = (unsigned char)tiny_random(&t.seed);
    for (i = 0; i < 8 * 4096; i++) same[i / 4096][i % 4096] = numbers[i / 4096];
    count = fuzz_byte(data, end), tokens = *data;
    if (count > (unsigned)(end - *data)) count = (unsigned)(end - *data);
    *data += count;
    for (i = 0; i < 448;
         i++) { /* The first text begins behind a prompt of one token, or of three. */
        unsigned first = flags & FUZZ_MULTILINGUAL ? 2 : 0;
        int id = count ? tokens[(i + count * 448 - first) % count] : (int)FUZZ_TEXTS;
        if (id > FUZZ_TEXTS) id = n[FUZZ_FIRST_TIME] + (id - FUZZ_TEXTS - 1) % FUZZ_TIMES;
        memcpy(positions[i], rows[id], sizeof rows[0]);
    }
    for (j = 0; j < w.n_entries; j++) {
        st_entry *e = &w.entries[j];
        if (!strcmp(e->name, "tgt_positions.weight"))
            e->tensor = tfm_tensor_2d(positions, TFM_DTYPE_F32, 448, FUZZ_WIDTH);
        if (!strcmp(e->name, "generator.weight"))
            e->tensor = tfm_tensor_2d(rows, TFM_DTYPE_F32, V, FUZZ_WIDTH);
        e->bytes = st_bytes(&e->tensor);
    }
    st_add(&w, "extra.conv1.weight", tfm_tensor_3d(conv[0], TFM_DTYPE_F32, FUZZ_WIDTH, 3, M));
    st_add(&w, "extra.conv1.bias", tfm_tensor_1d(same, TFM_DTYPE_F32, FUZZ_WIDTH));
    st_add(&w, "extra.conv2.weight",
           tfm_tensor_3d(conv[1], TFM_DTYPE_F32, FUZZ_WIDTH, 3, FUZZ_WIDTH));
    st_add(&w, "extra.conv2.bias", tfm_tensor_1d(same, TFM_DTYPE_F32, FUZZ_WIDTH));
    st_add(&w, "tgt_vocabulary", tfm_tensor_1d(words, TFM_DTYPE_U8, (int64_t)at));
    st_add(&w, "tgt_merges", tfm_tensor_2d(merges, TFM_DTYPE_U32, 0, 3));
    st_add(&w, "tgt_added", tfm_tensor_2d(added, TFM_DTYPE_U32, V - FUZZ_TEXTS, 2));

    if (seed & 128) fuzz_add_detector(&w, (float)seed);
    for (count = fuzz_byte(data, end) % 16; count > 0; count--) {
        unsigned what = fuzz_byte(data, end) % 16, where = fuzz_byte(data, end),
                 how = fuzz_byte(data, end);
        st_entry *e = w.n_entries ? &w.entries[where % w.n_entries] : NULL;
        tfm_tensor shape;
        if (!e) break;
        shape = e->tensor;
        switch (what) {
        case 0:
        case 1: n[where % FUZZ_NUMBERS] = how < 250 ? (int)how : (int)how - 253; break;
        case 2: more = fuzz_more[where % FUZZ_COUNT(fuzz_more)]; break;
        case 3: code = fuzz_codes[where % FUZZ_COUNT(fuzz_codes)]; break;
        case 4:
        case 5:
            if (shape.rank < (int)(what - 3)) break;
            shape.dims[what - 4] = how < 16 ? how : shape.dims[what - 4] + (int)(how % 5) - 2;
            if (st_bytes(&shape) > (int64_t)sizeof same || st_bytes(&shape) < 0) break;
            e->tensor = tfm_tensor_make(same[how & 7 ? 5 : 0], shape.dtype, shape.rank, shape.dims);
            if (st_bytes(&shape) > (int64_t)sizeof same[0]) e->tensor.data = same;
            e->bytes = st_bytes(&e->tensor);
            break;
        case 6: vanished = (int)where; break;
        case 7:
            if (st_bytes(&shape) > (int64_t)sizeof same[0] || shape.dtype != TFM_DTYPE_F32) break;
            e->tensor = tfm_tensor_make(same[how & 7], TFM_DTYPE_F32, shape.rank, shape.dims);
            break;
        case 8:
            e->tensor = w.entries[how % w.n_entries].tensor;
            e->bytes = st_bytes(&e->tensor);
            break;
        case 9: fuzz_retype(e, (tfm_dtype)(how % TFM_DTYPE_COUNT)); break;
        case 10: e->name[how % strlen(e->name)] ^= 1; break;
        case 11: words[(where * 256 + how) % at] ^= (char)(1 << how % 7); break;
        case 12: added[where % FUZZ_COUNT(added)][where >> 7] = how; break;
        case 13:
            e = fuzz_entry(&w, "tgt_merges");
            if (!e) break;
            e->tensor = tfm_tensor_2d(merges, TFM_DTYPE_U32, 1 + (where & 3), 3),
            e->bytes = 12 * (1 + (where & 3));
            merges[where & 3][where % 3] += how & 15 ? 0 : how >> 4;
            break;
        case 14:
            texts[where % FUZZ_COUNT(fuzz_keys)] = how & 1 ? "1x" : how & 2 ? "" : "99999999999";
            break;
        default: M = (int)(how % 9);
        }
    }
    if (M != 4) {
        st_entry *e = fuzz_entry(&w, "extra.conv1.weight");
        if (e)
            e->tensor = tfm_tensor_3d(conv[0], TFM_DTYPE_F32, FUZZ_WIDTH, 3, M),
            e->bytes = st_bytes(&e->tensor);
    }
    if (vanished >= 0) fuzz_drop(&w, &w.entries[(size_t)vanished % w.n_entries]);

    used = snprintf(config, sizeof config,
                    "{\"n_heads\": 2, \"activation\": \"gelu\", \"start\": %d, \"end\": %d, "
                    "\"suppressed\": [%d, %d, %d], \"tgt_text\": \"byte_bpe\"%s%s",
                    n[FUZZ_START], n[FUZZ_END], n[FUZZ_SUPPRESSED], n[FUZZ_SUPPRESSED + 1],
                    n[FUZZ_SUPPRESSED + 2], strstr(more, "\"norm\"") ? "" : ", \"norm\": \"pre\"",
                    strstr(more, "\"positions\"") ? "" : ", \"positions\": \"learned\"");
    if (!(flags & FUZZ_WITHOUT_HEADS))
        used += snprintf(config + used, 100, ", \"alignment_heads\": [[%d, %d], [%d, %d]]",
                         n[FUZZ_HEADS], n[FUZZ_HEADS + 1], n[FUZZ_HEADS + 2], n[FUZZ_HEADS + 3]);
    if (flags & FUZZ_MULTILINGUAL)
        used += snprintf(config + used, 200,
                         ", \"languages\": {\"%s\": %d, \"fr\": %d, \"es\": %d}", code,
                         n[FUZZ_LANGUAGE], n[FUZZ_LANGUAGE + 1], n[FUZZ_LANGUAGE + 2]);
    if (flags & FUZZ_CLEAN_UP && !strstr(more, "clean_up"))
        used += snprintf(config + used, 100, "%s", fuzz_more[0]);
    snprintf(config + used, 200, "%s}", more);
    st_add_metadata(&w, "transformer.config", config);
    for (k = 0; k < FUZZ_COUNT(fuzz_keys); k++) {
        static const int of[] = {FUZZ_TRANSCRIBE, FUZZ_TRANSLATE, FUZZ_PREVIOUS,
                                 FUZZ_NO_SPEECH,  FUZZ_NO_TIMES,  FUZZ_FIRST_TIME};
        snprintf(text, sizeof text, "%d", n[of[k]]);
        st_add_metadata(&w, fuzz_keys[k], texts[k] ? texts[k] : text);
    }
    snprintf(text, sizeof text, "%d,%d", n[FUZZ_BEGIN], n[FUZZ_BEGIN + 1]);
    st_add_metadata(&w, "extra.begin_suppressed", text);
    k = st_write_memory(&w, bytes, size) == NULL;
    st_free(&w);
    return k;
}

/* Stops a decoder that goes on for too many steps. */
static int TEST_UNUSED fuzz_asked;
static int TEST_UNUSED fuzz_stops(void *user) {
    (void)user;
    return fuzz_asked++ > 3000;
}

/* Writes a WAV file of 16 bits and one channel from the rest of the input: a byte for the rate, a
   byte for the length, and samples that repeat until then. Returns its size. */
static size_t TEST_UNUSED fuzz_wave(const uint8_t *data, const uint8_t *end, uint8_t *out,
                                    size_t room) {
    static const uint32_t rates[] = {16000, 16000, 16000, 16000, 8000, 48000, 44100, 383999};
    uint32_t rate = rates[fuzz_byte(&data, end) & 7], k;
    size_t frames = fuzz_byte(&data, end), size, i;
    frames = frames < 250 ? 1 + frames % 30 : 130, size = frames * rate / 100 * 2;
    if (size > room - 44) size = room - 44;
    memcpy(out, "RIFF....WAVEfmt \20\0\0\0\1\0\1\0........\2\0\20\0data\0\0\0\0", 44);
    for (k = 0; k < 4; k++) out[24 + k] = (uint8_t)(rate >> 8 * k), out[28 + k] = 0;
    for (i = 0; i < size; i++)
        out[44 + i] = (uint8_t)(data < end ? data[i % (size_t)(end - data)] : i * i >> 3);
    return 44 + size;
}
#endif
