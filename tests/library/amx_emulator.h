/* amx_emulator.h: the tile instructions of AMX that the library uses, in plain C, so that what is
   loaded from where is tested on every machine and under sanitizers. As Intel's manual defines
   them; test_kernels compares them with the hardware where there is one.

   Define these names before the kernels are included: TFM__TILE_LOAD(t, p, stride) and so on. */
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
    int rows[AMX_TILES], bytes[AMX_TILES]; /* of a tile, and of its rows */
    unsigned char data[AMX_TILES][AMX_ROWS][AMX_BYTES];
    int loads; /* so that a test sees that the emulator was used */
} amx;

/* What the CPU would raise an exception for. */
static void amx_must(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "amx_emulator: %s\n", what);
    abort();
}

/* LDTILECFG: palette 1; 16-bit bytes of a row from byte 16 on, rows from byte 48 on. */
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

/* That c += a b is a product: rows of c and a, columns of c and b, and what is summed up. */
static void amx_multiplies(int c, int a, int b) {
    amx_uses(c), amx_uses(a), amx_uses(b);
    amx_must(c != a && c != b && a != b, "three tiles");
    amx_must(amx.rows[c] == amx.rows[a] && amx.bytes[c] == amx.bytes[b] &&
                 amx.bytes[a] == 4 * amx.rows[b],
             "shapes of a product");
}

/* TDPBUSD, or TDPBSSD if a is signed: four products of bytes to each sum, modulo 2^32. */
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

/* A denormal becomes a zero of its sign. */
static float amx_flush(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }

static float amx_bf16(const unsigned char *bytes) {
    uint32_t bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24;
    float x;
    memcpy(&x, &bits, 4);
    return amx_flush(x);
}

/* TDPBF16PS: even and odd columns have a sum each, by fused multiply-adds; both together are added
   to c. Nearest, ties to even; denormals count as zeros, going in and coming out. */
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
            /* in double and then to float is rounded as in float: x87 would keep more */
            even = amx_flush((float)((double)even + (double)odd));
            sum = amx_flush((float)((double)amx_flush(sum) + (double)even));
            memcpy(&amx.data[c][m][4 * n], &sum, 4);
        }
}

#endif
