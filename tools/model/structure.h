/* structure.h: draws a model as SVG: encoder and decoder side by side, from the bottom up. Each
   part is a box with its shape and its bytes in the file. Equal layers are drawn once.

   Include transformer.h, write_safetensors.h and output.h before it. */
#ifndef STRUCTURE_H
#define STRUCTURE_H

#include "svg.h"

#include <stdlib.h>

enum { BOX_WIDTH = 300, BOX_HEIGHT = 46, BOX_GAP = 8, BOX_FRAME = 10, BOX_COLUMN = 390 };

/* A part of a stack. The first part of a layer has in times how many equal layers there are, and in
   n_parts the number of parts of the layer. In other parts times is 0. */
typedef struct box {
    const char *what;
    char detail[96];
    int64_t bytes;
    int times, n_parts;
} box;

/* Returns the bytes of all tensors whose names begin with prefix. */
static int64_t box_bytes(const tfm_safetensors *file, const char *prefix) {
    int64_t i, sum = 0;
    for (i = 0; i < tfm_safetensors_count(file); i++) {
        tfm_tensor t = tfm_safetensors_tensor(file, i);
        if (!strncmp(tfm_safetensors_name(file, i), prefix, strlen(prefix))) sum += st_bytes(&t);
    }
    return sum;
}

static int64_t box_part(const tfm_safetensors *file, const char *stack, int layer,
                        const char *part) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.layers.%d.%s", stack, layer, part);
    return box_bytes(file, prefix);
}

/* Writes a number of bytes for people, such as "1.5 MB". */
static const char *box_size(char out[24], int64_t bytes) {
    double n = (double)bytes;
    if (n < 1e3) snprintf(out, 24, "%d bytes", (int)bytes);
    else if (n < 1e6) snprintf(out, 24, "%.3g kB", n / 1e3);
    else if (n < 1e9) snprintf(out, 24, "%.3g MB", n / 1e6);
    else snprintf(out, 24, "%.3g GB", n / 1e9);
    return out;
}

/* Writes the parts of a layer into boxes [4] and returns how many there are. */
static int layer_boxes(box *boxes, const tfm_safetensors *file, const tfm_config *c, int is_decoder,
                       int layer, const char *activation) {
    static const char *const norms[2][2] = {{"norm1.", "norm2."}, {"norm1.", "norm3."}};
    const char *stack = is_decoder ? "decoder" : "encoder";
    int64_t ssru = box_part(file, stack, layer, "ssru");
    int64_t cross = box_part(file, stack, layer, "multihead_attn.");
    int n = 0, i;
    char heads[64];
    snprintf(heads, sizeof heads,
             c->d_key == c->d_value ? "%d heads of %d" : "%d heads of %d and %d", (int)c->n_heads,
             (int)c->d_key, (int)c->d_value);
    memset(boxes, 0, 4 * sizeof *boxes);
    boxes[n].what = ssru ? "SSRU" : is_decoder ? "causal self-attention" : "self-attention";
    if (ssru)
        snprintf(boxes[n].detail, sizeof boxes[n].detail, "recurrent, %d wide", (int)c->d_model);
    else snprintf(boxes[n].detail, sizeof boxes[n].detail, "%s", heads);
    boxes[n].bytes = ssru + box_part(file, stack, layer, "self_attn.");
    boxes[n++].bytes += box_part(file, stack, layer, norms[is_decoder][0]);
    if (is_decoder) {
        boxes[n].what = "attention to the encoder's output";
        snprintf(boxes[n].detail, sizeof boxes[n].detail, "%s", heads);
        boxes[n++].bytes = cross + box_part(file, stack, layer, "norm2.");
    }
    boxes[n].what = "feed-forward";
    snprintf(boxes[n].detail, sizeof boxes[n].detail, "%d to %d%s, %s", (int)c->d_model,
             (int)(is_decoder ? c->d_ff_decoder : c->d_ff), c->has_gate ? ", gated" : "",
             activation);
    boxes[n].bytes = box_part(file, stack, layer, "linear");
    boxes[n++].bytes += box_part(file, stack, layer, norms[is_decoder][1]);
    for (i = 0; i < n; i++) boxes[i].times = i == 0, boxes[i].n_parts = n;
    return n;
}

/* Writes the boxes of a stack, from the bottom up, and returns how many there are. boxes needs room
   for 3 per layer and 4 more. */
static int stack_boxes(box *boxes, const tfm_safetensors *file, const tfm_config *c, int is_decoder,
                       const char *activation) {
    int32_t layers = is_decoder ? c->n_decoder_layers : c->n_encoder_layers;
    int32_t tokens = is_decoder ? c->tgt_vocab_size : c->src_vocab_size;
    box *last = NULL; /* first part of the last different layer; equal layers add to its times */
    int n = 0, i, k, parts;
    memset(boxes, 0, sizeof *boxes);
    boxes->bytes = box_bytes(file, is_decoder ? "tgt_embedding" : "src_embedding") +
                   box_bytes(file, is_decoder ? "tgt_positions" : "src_positions");
    boxes->what = is_decoder ? "target embedding" : "source embedding";
    snprintf(boxes->detail, sizeof boxes->detail, "%d tokens, %d wide%s", (int)tokens,
             (int)c->d_model, boxes->bytes ? "" : ", the source's");
    n++;
    for (i = 0; i < layers; i++) {
        parts = layer_boxes(boxes + n, file, c, is_decoder, i, activation);
        for (k = 0; last && k < parts; k++)
            if (strcmp(last[k].what, boxes[n + k].what) != 0 || last[k].bytes != boxes[n + k].bytes)
                break;
        if (last && k == parts) last->times++;
        else last = boxes + n, n += parts;
    }
    memset(boxes + n, 0, 2 * sizeof *boxes);
    boxes[n].bytes = box_bytes(file, is_decoder ? "decoder.norm." : "encoder.norm.");
    if (boxes[n].bytes) {
        boxes[n].what = "norm";
        snprintf(boxes[n].detail, sizeof boxes[n].detail, "%d wide", (int)c->d_model);
        n++;
    }
    if (!is_decoder) return n;
    boxes[n].what = "output projection";
    boxes[n].bytes = box_bytes(file, "generator.");
    snprintf(boxes[n].detail, sizeof boxes[n].detail, "%d to %d%s", (int)c->d_model, (int)tokens,
             box_bytes(file, "generator.weight") ? "" : ", the embedding's weight");
    return n + 1;
}

static int stack_height(const box *boxes, int n) {
    int height = 0, i;
    for (i = 0; i < n; i++)
        height += BOX_HEIGHT + BOX_GAP + (boxes[i].times ? 2 * BOX_FRAME + BOX_GAP : 0);
    return height;
}

/* Draws boxes upwards from y and returns the top of the last one. most: bytes of a full bar. */
static int draw_stack(FILE *f, const box *boxes, int n, int x, int y, int64_t most) {
    char size[24];
    int i, frame = 0; /* boxes that the frame of the layer still needs */
    for (i = 0; i < n; i++) {
        const box *b = &boxes[i];
        if (b->times) {
            int height = b->n_parts * (BOX_HEIGHT + BOX_GAP) - BOX_GAP + 2 * BOX_FRAME;
            frame = b->n_parts, y -= BOX_GAP;
            fprintf(f,
                    "<rect class=\"faint\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" "
                    "fill=\"none\"/>\n<text x=\"%d\" y=\"%d\">\xC3\x97 %d</text>\n",
                    x - BOX_FRAME, y - height, BOX_WIDTH + 2 * BOX_FRAME, height,
                    x + BOX_WIDTH + 2 * BOX_FRAME - 2, y - height / 2 + SVG_FONT / 3, b->times);
            y -= BOX_FRAME;
        }
        y -= BOX_HEIGHT;
        fprintf(f,
                "<rect class=\"ink\" fill-opacity=\"0.08\" x=\"%d\" y=\"%d\" width=\"%d\" "
                "height=\"%d\" rx=\"3\"/>\n<rect class=\"ink\" fill-opacity=\"0.6\" x=\"%d\" "
                "y=\"%d\" width=\"%.1f\" height=\"3\"/>\n<text x=\"%d\" y=\"%d\">",
                x, y, (int)BOX_WIDTH, (int)BOX_HEIGHT, x, y + BOX_HEIGHT - 3,
                most ? (double)BOX_WIDTH * (double)b->bytes / (double)most : 0.0, x + 8, y + 17);
        svg_write_text(f, b->what);
        fprintf(f, "</text>\n<text x=\"%d\" y=\"%d\" font-size=\"%d\">", x + 8, y + 35,
                SVG_FONT - 2);
        svg_write_text(f, b->detail);
        fprintf(f,
                "</text>\n<text x=\"%d\" y=\"%d\" font-size=\"%d\" text-anchor=\"end\">%s</text>\n",
                x + BOX_WIDTH - 8, y + 35, SVG_FONT - 2, box_size(size, b->bytes));
        y -= BOX_GAP;
        if (frame && !--frame) y -= BOX_FRAME;
    }
    return y + BOX_GAP;
}

/* Writes the picture of a model to path. Returns NULL, or the error. */
static const char *draw_structure(const char *path, const tfm_safetensors *file,
                                  const tfm_config *c, const char *title, const char *activation) {
    output o;
    const char *fault = NULL;
    size_t room = 3 * ((size_t)c->n_encoder_layers + (size_t)c->n_decoder_layers) + 12;
    box *encoder = (box *)malloc(room * sizeof *encoder), *decoder;
    int n, m, i, height, x = (int)SVG_MARGIN + BOX_FRAME, bottom, top, across = x + BOX_COLUMN;
    int64_t most = 0;
    if (!encoder) return "no memory";
    n = stack_boxes(encoder, file, c, 0, activation);
    decoder = encoder + n;
    m = stack_boxes(decoder, file, c, 1, activation);
    for (i = 0; i < n + m; i++)
        if (encoder[i].bytes > most) most = encoder[i].bytes;
    height = stack_height(encoder, n) > stack_height(decoder, m) ? stack_height(encoder, n)
                                                                 : stack_height(decoder, m);
    bottom = SVG_MARGIN + 3 * SVG_FONT + height;
    if (!(fault = output_open(&o, path))) {
        int width = 2 * x + 2 * BOX_COLUMN - 40;
        if (width < 2 * SVG_MARGIN + svg_width(title)) width = 2 * SVG_MARGIN + svg_width(title);
        svg_begin(o.stream, width, bottom + SVG_MARGIN, title);
        top = draw_stack(o.stream, encoder, n, x, bottom, most);
        draw_stack(o.stream, decoder, m, across, bottom, most);
        /* the line from the encoder's output to the decoder's layers */
        fprintf(o.stream,
                "<path class=\"faint\" fill=\"none\" d=\"M%d %d v-%d h%d V%d h%d\"/>\n</svg>\n",
                x + BOX_WIDTH / 2, top, BOX_GAP, BOX_WIDTH / 2 + 55,
                bottom - 5 * BOX_HEIGHT / 2 - 3 * BOX_GAP - BOX_FRAME,
                across - BOX_FRAME - x - BOX_WIDTH - 55);
        fault = output_close(&o, NULL);
    }
    free(encoder);
    return fault;
}

#endif
