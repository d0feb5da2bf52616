/* Pictures as text: tests what is drawn where, and what a label may hold. Their look was judged by
   eye. */
#include "../examples/translate/heatmap.h"
#include "test.h"

/* Returns the picture of 2 x 3 weights, as text. */
static const char *draw(const char *title, const float *weights, const char *down,
                        const char *across) {
    static char text[16384];
    size_t n;
    FILE *f = tmpfile();
    if (!f) exit(2);
    heatmap_write(f, title, weights, down, 2, across, 3);
    rewind(f);
    n = fread(text, 1, sizeof text - 1, f), text[n] = 0;
    fclose(f);
    return text;
}

/* Returns the number behind the n-th occurrence of an attribute, from there on. */
static double number_at(const char *text, const char *from, const char *attribute) {
    const char *at = strstr(text, from);
    at = at ? strstr(at, attribute) : NULL;
    return at ? atof(at + strlen(attribute)) : -1;
}

int main(void) {
    static const float weights[] = {0.25f, 0.5f, 0.0f, 1.0f, (float)NAN, 2.0f};
    static const char plain[] = "one\0<t&\"\x01>\0three", down[] = "a\0b";
    static const char arabic[] = "\xD8\xA3\xD9\x86\xD8\xA7\0\xD9\x82\xD9\x87\0[end]";
    static const char hebrew[] = "\xD7\x90\0b";
    const char *text = draw("5 < 6", weights, down, plain);
    const char *cells = "<g class=\"ink";
    SECTION("a heat map");
    CHECK(strstr(text, "<title>5 &lt; 6</title>") && strstr(text, ">5 &lt; 6</text>"), "its title");
    CHECK(strstr(text, ">&lt;t&amp;&quot;\xEF\xBF\xBD&gt;</text>"),
          "a label without characters that XML forbids");
    CHECK(strstr(text, "prefers-color-scheme: dark"), "dark colours where the reader prefers them");
    CHECK(number_at(text, cells, "fill-opacity=\"") == 0.25 &&
              number_at(text, "b to one: 1.000", "fill-opacity=\"") == 0 &&
              strstr(text, "b to three: 2.000"),
          "a cell is as dark as its weight, NaN has no cell");
    CHECK(number_at(text, "<title>a to one", " x=\"") > number_at(text, cells, " x=\""),
          "columns are ordered to the right");
    CHECK(!strstr(text, "direction="), "no label has a direction");
    text = draw("", weights, hebrew, arabic);
    CHECK(number_at(text, "<title>\xD7\x90 to \xD8\xA3\xD9\x86\xD8\xA7", " x=\"") <
              number_at(text, cells, " x=\""),
          "columns are ordered to the left where the text is");
    CHECK(strstr(text, "direction=\"rtl\" text-anchor=\"end\">\xD8\xA3") &&
              strstr(text, "direction=\"rtl\" text-anchor=\"start\">\xD7\x90") &&
              strstr(text, "\">[end]</text>") && strstr(text, "\">b</text>"),
          "labels, each in its direction");
    text = draw("", weights, hebrew, plain);
    CHECK(number_at(text, "<title>\xD7\x90 to one", " x=\"") > number_at(text, cells, " x=\""),
          "the rows' direction is not the columns'");
    return test_done("test_pictures");
}
