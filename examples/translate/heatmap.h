/* heatmap.h: draws a matrix of weights between 0 and 1 as SVG, for a browser or a paper.

   Rows and columns have labels; columns run from the right if most of their labels do. There is a
   legend, and each cell has its number as a tooltip. The same numbers give the same bytes. */
#ifndef HEATMAP_H
#define HEATMAP_H

#include "svg.h"

enum { HEATMAP_CELL = 24, HEATMAP_BAR = 14 }; /* pixels */

/* Returns whether a label has a character of a script that is written from the right: Hebrew,
   Arabic and the scripts between them in Unicode. */
static int heatmap_is_rtl(const char *label) {
    const unsigned char *p = (const unsigned char *)label;
    for (; *p; p++) {
        if ((*p == 0xD6 && p[1] >= 0x90) || (*p >= 0xD7 && *p <= 0xDF)) return 1;
        if (*p == 0xE0 && p[1] >= 0xA0 && p[1] <= 0xA3) return 1;
        if (*p == 0xEF && ((p[1] == 0xAC && p[2] >= 0x9D) || (p[1] >= 0xAD && p[1] <= 0xB7) ||
                           (p[1] == 0xB9 && p[2] >= 0xB0) || (p[1] >= 0xBA && p[1] <= 0xBB)))
            return 1;
    }
    return 0;
}

/* Draws weights [n_down, n_across], row-major, to f. down and across hold the labels of rows and
   columns: UTF-8 strings one after the other, each with its NUL. */
static void heatmap_write(FILE *f, const char *title, const float *weights, const char *down,
                          int n_down, const char *across, int n_across) {
    const char *label, *other;
    int left = 0, top = 0, width, height, bar_height, x, y, i, j, tenths, n_rtl = 0;
    int head = SVG_MARGIN + 2 * SVG_FONT;
    float most = 0;
    for (label = down, j = 0; j < n_down; j++, label += strlen(label) + 1)
        if (svg_width(label) > left) left = svg_width(label);
    left += SVG_MARGIN + 8;
    width = left + n_across * HEATMAP_CELL + 2 * SVG_MARGIN + HEATMAP_BAR +
            36; /* 36: the legend's numbers */
    for (label = across, i = 0; i < n_across; i++, label += strlen(label) + 1)
        n_rtl += heatmap_is_rtl(label);
#define HEATMAP_COLUMN(i) (left + (2 * n_rtl < n_across ? (i) : n_across - 1 - (i)) * HEATMAP_CELL)
    for (label = across, i = 0; i < n_across; i++, label += strlen(label) + 1) {
        int reach = svg_width(label) * 71 / 100 + SVG_FONT; /* each way, at 45 degrees */
        if (reach > top) top = reach;
        if (HEATMAP_COLUMN(i) + HEATMAP_CELL / 2 + reach > width)
            width = HEATMAP_COLUMN(i) + HEATMAP_CELL / 2 + reach;
    }
    if (SVG_MARGIN + svg_width(title) > width) width = SVG_MARGIN + svg_width(title);
    top += head + 4;
    bar_height = n_down < 4    ? 4 * HEATMAP_CELL
                 : n_down > 10 ? 10 * HEATMAP_CELL
                               : n_down * HEATMAP_CELL;
    height = top + (n_down * HEATMAP_CELL > bar_height ? n_down * HEATMAP_CELL : bar_height) +
             SVG_MARGIN;
    width += SVG_MARGIN;
    for (i = 0; i < n_across * n_down; i++)
        if (weights[i] > most) most = weights[i] < 1 ? weights[i] : 1;
    tenths = (int)(most * 10 - 1e-4f) + 1; /* the scale ends at a round number */

    svg_begin(f, width, height, title);
    fputs("<g>\n", f);
    for (label = across, i = 0; i < n_across; i++, label += strlen(label) + 1) {
        x = HEATMAP_COLUMN(i) + HEATMAP_CELL / 2, y = top - 6;
        fprintf(f, "<text x=\"%d\" y=\"%d\" transform=\"rotate(-45 %d %d)\"%s>", x, y, x, y,
                heatmap_is_rtl(label) ? " direction=\"rtl\" text-anchor=\"end\"" : "");
        svg_write_text(f, label), fputs("</text>\n", f);
    }
    fputs("</g>\n<g text-anchor=\"end\">\n", f);
    for (label = down, j = 0; j < n_down; j++, label += strlen(label) + 1) {
        fprintf(f, "<text x=\"%d\" y=\"%d\"%s>", left - 8,
                top + j * HEATMAP_CELL + HEATMAP_CELL / 2 + SVG_FONT / 3,
                heatmap_is_rtl(label) ? " direction=\"rtl\" text-anchor=\"start\"" : "");
        svg_write_text(f, label), fputs("</text>\n", f);
    }
    fputs("</g>\n<g class=\"ink faint\" stroke-opacity=\"0.6\">\n", f);
    for (label = down, j = 0; j < n_down; j++, label += strlen(label) + 1)
        for (other = across, i = 0; i < n_across; i++, other += strlen(other) + 1) {
            float weight = weights[j * n_across + i] > 0 ? weights[j * n_across + i] : 0; /* NaN */
            fprintf(f,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                    "fill-opacity=\"%.3f\"><title>",
                    HEATMAP_COLUMN(i), top + j * HEATMAP_CELL, (int)HEATMAP_CELL, (int)HEATMAP_CELL,
                    (double)(weight < 1 ? weight : 1) * 10 / tenths);
            svg_write_text(f, label), fputs(" to ", f), svg_write_text(f, other);
            fprintf(f, ": %.3f</title></rect>\n", (double)weight);
        }
#undef HEATMAP_COLUMN
    x = left + n_across * HEATMAP_CELL + 2 * SVG_MARGIN;
    fprintf(f,
            "</g>\n<linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">\n"
            "<stop class=\"ink\" offset=\"0\" stop-opacity=\"0\"/>\n"
            "<stop class=\"ink\" offset=\"1\"/>\n</linearGradient>\n"
            "<rect class=\"faint\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
            "fill=\"url(#scale)\"/>\n",
            x, top, (int)HEATMAP_BAR, bar_height);
    for (i = 0; i < 3; i++)
        fprintf(f, "<text x=\"%d\" y=\"%d\" font-size=\"%d\">%.2f</text>\n", x + HEATMAP_BAR + 4,
                top + bar_height - i * bar_height / 2 + SVG_FONT / 3, SVG_FONT - 3,
                tenths * i / 20.0);
    fputs("</svg>\n", f);
}

#endif
