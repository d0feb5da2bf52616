/* amx_emulator.h: the tile instructions of AMX that the library uses, in plain C. With it every
   machine and every sanitizer can test which bytes are loaded from where. The code follows Intel's
   manual, and test_kernels compares it with the hardware where there is one.

   Define TFM__TILE_LOAD(t, p, stride) and its companions as these functions before including the
   kernels. */
#ifndef AMX_EMULATOR_H
#define AMX_EMULATOR_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_BYTES = 64 };
static struct {
    int configured;
    int rows[AMX_TILES], bytes[AMX_TILES]; /* columns (in bytes) and rows of a tile */
    unsigned char data[AMX_TILES][AMX_ROWS][AMX_BYTES];
    int loads; /* shows a test that the emulator was used */
} amx;

/* Checks a condition for which the CPU would raise an exception. */
static void amx_must(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "amx_emulator: %s\n", what);
    abort();
}

/* LDTILECFG: palette 1; the bytes of a row as 16 bits from byte 16 on, the rows from byte 48 on. */
static void amx_ldtilecfg(const unsigned char *config) {
    int i;
    memset(&amx.data, 0, sizeof amx.data);
    amx_must(config[0] == 1 && config[1] == 0, "palette 1, start row 0");
    for (i = 2; i < 64; i++)
        amx_must(!config[i] || (i >= 16 && i < 32) || (i >= 48 && i < 56), "reserved bytes are 0");
    for (i = 0; i < AMX_TILES; i++) {
        amx.bytes[i] = config[16 + 2 * i] + 256 * config[17 + 2 * i], amx.rows[i] = config[48 + i];
        amx_must(amx.bytes[i] <= AMX_BYTES && amx.rows[i] <= AMX_ROWS, "a tile is too large");
        amx_must(!amx.bytes[i] == !amx.rows[i], "a tile has rows, but no columns, or none");
    }
    amx.configured = 1;
}
static void amx_tilerelease(void) { memset(&amx.data, 0, sizeof amx.data), amx.configured = 0; }

static void amx_uses(int t) {
    amx_must(amx.configured, "tiles are not configured");
    amx_must(amx.rows[t] > 0, "this tile is not configured");
}
static void amx_tilezero(int t) {
    amx_uses(t);
    memset(amx.data[t], 0, sizeof amx.data[t]);
}
static void amx_tileloadd(int t, const void *from, int64_t stride) {
    int r;
    amx_tilezero(t);
    for (r = 0; r < amx.rows[t]; r++)
        memcpy(amx.data[t][r], (const unsigned char *)from + r * stride, (size_t)amx.bytes[t]);
    amx.loads++;
}
static void amx_tilestored(int t, void *to, int64_t stride) {
    int r;
    amx_uses(t);
    for (r = 0; r < amx.rows[t]; r++)
        memcpy((unsigned char *)to + r * stride, amx.data[t][r], (size_t)amx.bytes[t]);
}

/* Checks that c += a b is a product: rows of c and a, columns of c and b, and the inner
   dimension. */
static void amx_multiplies(int c, int a, int b) {
    amx_uses(c), amx_uses(a), amx_uses(b);
    amx_must(c != a && c != b && a != b, "three tiles");
    amx_must(amx.rows[c] == amx.rows[a] && amx.bytes[c] == amx.bytes[b] &&
                 amx.bytes[a] == 4 * amx.rows[b],
             "shapes of a product");
}

/* TDPBUSD, or TDPBSSD if a is signed: adds four products of bytes to each sum, modulo 2^32. */
static void amx_tdpb(int c, int a, int b, int a_is_signed) {
    int m, n, k, i;
    amx_multiplies(c, a, b);
    for (m = 0; m < amx.rows[c]; m++)
        for (n = 0; n < amx.bytes[c] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, &amx.data[c][m][4 * n], 4);
            for (k = 0; k < amx.rows[b]; k++)
                for (i = 0; i < 4; i++) {
                    unsigned char x = amx.data[a][m][4 * k + i], y = amx.data[b][k][4 * n + i];
                    int left = a_is_signed ? (signed char)x : x, right = (signed char)y;
                    sum += (uint32_t)(left * right);
                }
            memcpy(&amx.data[c][m][4 * n], &sum, 4);
        }
}
#define amx_tdpbusd(c, a, b) amx_tdpb(c, a, b, 0)
#define amx_tdpbssd(c, a, b) amx_tdpb(c, a, b, 1)

/* Turns a denormal into a zero of its sign. */
static float amx_flush(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }

static float amx_bf16(const unsigned char *bytes) {
    uint32_t bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24;
    float x;
    memcpy(&x, &bits, 4);
    return amx_flush(x);
}

/* TDPBF16PS: adds even and odd columns to a sum each, by fused multiply-adds, and adds both sums to
   c. Rounds to nearest, ties to even; denormals count as zeros as input and output. */
static void amx_tdpbf16ps(int c, int a, int b) {
    int m, n, k;
    amx_multiplies(c, a, b);
    for (m = 0; m < amx.rows[c]; m++)
        for (n = 0; n < amx.bytes[c] / 4; n++) {
            float even = 0, odd = 0, sum;
            for (k = 0; k < amx.rows[b]; k++) {
                const unsigned char *x = &amx.data[a][m][4 * k], *y = &amx.data[b][k][4 * n];
                even = amx_flush(fmaf(amx_bf16(x), amx_bf16(y), even));
                odd = amx_flush(fmaf(amx_bf16(x + 2), amx_bf16(y + 2), odd));
            }
            memcpy(&sum, &amx.data[c][m][4 * n], 4);
            /* Rounding to double and then to float equals rounding to float; x87 would keep more
               digits. */
            even = amx_flush((float)((double)even + (double)odd));
            sum = amx_flush((float)((double)amx_flush(sum) + (double)even));
            memcpy(&amx.data[c][m][4 * n], &sum, 4);
        }
}

#endif
