/* heatmap.h: a matrix of weights between 0 and 1 as a picture: SVG, for a browser or a paper.

   Rows down, columns across, labels of both, a legend, and the number of each cell as its tooltip.
   The same numbers give the same bytes. */
#ifndef HEATMAP_H
#define HEATMAP_H

#include <stdio.h>
#include <string.h>

enum { HEAT_CELL = 24, HEAT_FONT = 14, HEAT_MARGIN = 12, HEAT_BAR = 14 }; /* pixels */

/* What a label takes in pixels, rather too much than too little. */
static int heat_label_width(const char *text) {
    int width = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x80) width += strchr("MWmw@%", c) ? HEAT_FONT : HEAT_FONT * 2 / 3;
        else if (c >= 0xE1) width += HEAT_FONT; /* U+1000 and above: most are wide */
        else if (c >= 0xC0) width += HEAT_FONT * 3 / 4;
    }
    return width;
}

/* Text for XML: what it forbids becomes U+FFFD. */
static void heat_write_text(FILE *f, const char *text) {
    for (; *text; text++) {
        const char *entity = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (entity) fputs(entity, f);
        else if ((unsigned char)*text < 0x20) fputs("\xEF\xBF\xBD", f);
        else if (!strncmp(text, "\xEF\xBF\xBE", 3) || !strncmp(text, "\xEF\xBF\xBF", 3))
            fputs("\xEF\xBF\xBD", f), text += 2;
        else putc(*text, f);
    }
}

/* From white through blue to navy: the darker the more, in grey as well. */
static const int heat_colours[3][3] = {{255, 255, 255}, {92, 155, 207}, {10, 40, 92}};

static void heat_write_colour(FILE *f, double share) {
    double in_range = share > 0 ? share < 1 ? share : 1 : 0; /* NaN is 0 */
    int low = in_range < 0.5 ? 0 : 1, i, mixed[3];
    double rest = 2 * in_range - low;
    for (i = 0; i < 3; i++)
        mixed[i] = (int)(heat_colours[low][i] +
                         rest * (heat_colours[low + 1][i] - heat_colours[low][i]) + 0.5);
    fprintf(f, "#%02x%02x%02x", (unsigned)mixed[0], (unsigned)mixed[1], (unsigned)mixed[2]);
}

/* Writes weights [n_down, n_across], row-major. Labels are UTF-8, each terminated, one after the
   other. */
static void write_heat_map(FILE *f, const float *weights, const char *down, int n_down,
                           const char *across, int n_across) {
    const char *label, *other;
    int left = 0, top = 0, width, height, bar_height, x, y, i, j, tenths;
    float most = 0;
    for (label = down, j = 0; j < n_down; j++, label += strlen(label) + 1)
        if (heat_label_width(label) > left) left = heat_label_width(label);
    left += HEAT_MARGIN + 8;
    width = left + n_across * HEAT_CELL + 2 * HEAT_MARGIN + HEAT_BAR +
            36; /* 36: the legend's numbers */
    for (label = across, i = 0; i < n_across; i++, label += strlen(label) + 1) {
        int reach = heat_label_width(label) * 71 / 100 +
                    HEAT_FONT; /* along either side of its slope */
        if (reach > top) top = reach;
        if (left + i * HEAT_CELL + HEAT_CELL / 2 + reach > width)
            width = left + i * HEAT_CELL + HEAT_CELL / 2 + reach;
    }
    top += HEAT_MARGIN + 4;
    bar_height = n_down < 4 ? 4 * HEAT_CELL : n_down > 10 ? 10 * HEAT_CELL : n_down * HEAT_CELL;
    height = top + (n_down * HEAT_CELL > bar_height ? n_down * HEAT_CELL : bar_height) +
             HEAT_MARGIN;
    width += HEAT_MARGIN;
    for (i = 0; i < n_across * n_down; i++)
        if (weights[i] > most) most = weights[i] < 1 ? weights[i] : 1;
    tenths = (int)(most * 10 - 1e-4f) + 1; /* the scale ends at a round number */

    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-size=\"%d\" font-family=\"'Noto Sans', 'DejaVu Sans', 'Segoe UI', "
            "'Helvetica Neue', Arial, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', "
            "sans-serif\">\n"
            "<title>Attention: source tokens across, target tokens down</title>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            width, height, width, height, (int)HEAT_FONT, width, height);
    fputs("<g>\n", f);
    for (label = across, i = 0; i < n_across; i++, label += strlen(label) + 1) {
        x = left + i * HEAT_CELL + HEAT_CELL / 2, y = top - 6;
        fprintf(f, "<text x=\"%d\" y=\"%d\" transform=\"rotate(-45 %d %d)\">", x, y, x, y);
        heat_write_text(f, label), fputs("</text>\n", f);
    }
    fputs("</g>\n<g text-anchor=\"end\">\n", f);
    for (label = down, j = 0; j < n_down; j++, label += strlen(label) + 1) {
        fprintf(f, "<text x=\"%d\" y=\"%d\">", left - 8,
                top + j * HEAT_CELL + HEAT_CELL / 2 + HEAT_FONT / 3);
        heat_write_text(f, label), fputs("</text>\n", f);
    }
    fputs("</g>\n<g stroke=\"#d0d0d0\" stroke-width=\"0.5\">\n", f);
    for (label = down, j = 0; j < n_down; j++, label += strlen(label) + 1)
        for (other = across, i = 0; i < n_across; i++, other += strlen(other) + 1) {
            double weight = (double)weights[j * n_across + i];
            fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"",
                    left + i * HEAT_CELL, top + j * HEAT_CELL, (int)HEAT_CELL, (int)HEAT_CELL);
            heat_write_colour(f, weight * 10 / tenths);
            fputs("\"><title>", f), heat_write_text(f, label), fputs(" to ", f),
                heat_write_text(f, other);
            fprintf(f, ": %.3f</title></rect>\n", weight);
        }
    x = left + n_across * HEAT_CELL + 2 * HEAT_MARGIN;
    fputs("</g>\n<linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">\n", f);
    for (i = 0; i < 3; i++) {
        fprintf(f, "<stop offset=\"%.1f\" stop-color=\"", i / 2.0);
        heat_write_colour(f, i / 2.0), fputs("\"/>\n", f);
    }
    fprintf(f,
            "</linearGradient>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
            "fill=\"url(#scale)\" stroke=\"#808080\" stroke-width=\"0.5\"/>\n",
            x, top, (int)HEAT_BAR, bar_height);
    for (i = 0; i < 3; i++)
        fprintf(f, "<text x=\"%d\" y=\"%d\" font-size=\"%d\">%.2f</text>\n", x + HEAT_BAR + 4,
                top + bar_height - i * bar_height / 2 + HEAT_FONT / 3, HEAT_FONT - 3,
                tenths * i / 20.0);
    fputs("</svg>\n", f);
}

#endif
