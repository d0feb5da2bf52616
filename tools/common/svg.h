/* svg.h: writes text and the page of an SVG picture. The page is light or dark, like the reader's
   browser; programs that ignore this part of the style sheet show the light page. */
#ifndef SVG_H
#define SVG_H

#include <stdio.h>
#include <string.h>

enum { SVG_FONT = 14, SVG_MARGIN = 12 }; /* pixels */

/* Returns the width of a text in pixels. It is an upper estimate, because a label that is wider
   than its estimate would be cut off. */
static int svg_width(const char *text) {
    int width = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x80) width += strchr("MWmw@%", c) ? SVG_FONT : SVG_FONT * 2 / 3;
        else if (c >= 0xE1) width += SVG_FONT; /* U+1000 and above: most are wide */
        else if (c >= 0xC0) width += SVG_FONT * 3 / 4;
    }
    return width;
}

/* Writes a text for XML. Characters that XML forbids become U+FFFD. */
static void svg_write_text(FILE *f, const char *text) {
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

/* Writes the head of a picture and its title. Its style sheet has the classes paper (background),
   ink (what is drawn) and faint (thin lines). */
static void svg_begin(FILE *f, int width, int height, const char *title) {
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-size=\"%d\" font-family=\"'Noto Sans', 'DejaVu Sans', 'Segoe UI', "
            "'Helvetica Neue', Arial, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', "
            "sans-serif\">\n<title>",
            width, height, width, height, (int)SVG_FONT);
    svg_write_text(f, title);
    fprintf(f,
            "</title>\n"
            "<style>text { fill: #1b1f24 } .paper { fill: #ffffff } .ink { fill: #0a285c; "
            "stop-color: #0a285c } .faint { stroke: #80868e; stroke-width: 0.5 }\n"
            "@media (prefers-color-scheme: dark) { text { fill: #e4e7eb } .paper { fill: #15181d } "
            ".ink { fill: #9fd0ff; stop-color: #9fd0ff } }</style>\n"
            "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n"
            "<text x=\"%d\" y=\"%d\">",
            width, height, (int)SVG_MARGIN, SVG_MARGIN + SVG_FONT);
    svg_write_text(f, title), fputs("</text>\n", f);
}

#endif
