/* compression.h: how well zlib would compress a text. A text that repeats itself compresses
   well, which is how Whisper's decoding finds out that a search went in a circle. */
#ifndef COMPRESSION_H
#define COMPRESSION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A text has fewer bytes than COMPRESSION_TEXT. */
enum {
    COMPRESSION_TEXT = 65536,
    COMPRESSION_HEADS = 4096,
    COMPRESSION_CHAINS = COMPRESSION_HEADS + COMPRESSION_TEXT
};

/* Returns the hash of a text's next three bytes; the text ends with a 0. */
static size_t compression_hash(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    uint32_t bytes = p[0] | (uint32_t)p[1] << 8;
    if (p[0] && p[1]) bytes |= (uint32_t)p[2] << 16;
    return (bytes * 2654435761u) >> 20;
}

/* Estimates a text's size in bytes divided by its size after zlib's compression: matches as
   deflate finds them, and for their codes the entropy of literals, lengths and distances. chains
   [COMPRESSION_CHAINS] is scratch: places + 1 whose three bytes have the same hash, the last one
   first, and of each place the one before it. Without them a model could make every window take
   seconds. */
static double compression_ratio(const char *text, uint16_t *chains) {
    size_t n = strlen(text), i = 0, j, k, from, added = 0;
    double counts[286], distances[30], bits = 0, extra = 0, fixed = 0, total = 0, n_distances = 0;
    uint16_t *heads = chains, *before = chains + COMPRESSION_HEADS;
    memset(counts, 0, sizeof counts), memset(distances, 0, sizeof distances);
    memset(heads, 0, COMPRESSION_HEADS * sizeof *heads);
    while (i < n) {
        size_t best = 2, at = 0, code, hash = compression_hash(text + i);
        for (; added < i; added++) {
            uint16_t *head = &heads[compression_hash(text + added)];
            before[added] = *head, *head = (uint16_t)(added + 1);
        }
        from = i > 32768 ? i - 32768 : 0;
        for (j = i + 2 < n ? heads[hash] : 0; j > from && best < 258; j = before[j - 1]) {
            const char *old = text + j - 1;
            for (k = 0; i + k < n && k < 258 && old[k] == text[i + k];) k++;
            if (k > best) best = k, at = i - (j - 1);
        }
        if (!at) best = 0;
        if (!best) {
            counts[(unsigned char)text[i]]++, i++;
            fixed += (unsigned char)text[i - 1] < 144 ? 8 : 9;
            continue;
        }
        for (code = 0, k = best - 3; k > 7; k >>= 1) code += 4, extra++; /* length codes */
        counts[257 + code + k]++;
        fixed += 7 + (code + k > 22);
        for (code = 0, k = at - 1; k > 3; k >>= 1) code += 2, extra++; /* distance codes */
        distances[code + k]++, n_distances++;
        fixed += 5;
        i += best;
    }
    counts[256] = 1; /* the end of a block */
    for (i = 0; i < 286; i++) total += counts[i];
    for (i = 0; i < 286; i++)
        if (counts[i] > 0) bits += counts[i] * log(total / counts[i]) / log(2) + 3.4;
    for (i = 0; i < 30; i++)
        if (distances[i] > 0) bits += distances[i] * log(n_distances / distances[i]) / log(2) + 3.4;
    bits = (bits + 90 < fixed + 7 ? bits + 90 : fixed + 7) + extra + 3;
    return (double)n / (1.035 * (6 + bits / 8)); /* deflate's codes are a little longer */
}

#endif
