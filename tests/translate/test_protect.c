/* Tests which spans --protect takes out of texts and where it puts them back, with cases and with
   random bytes. */
#include "examples/translate/text/protect.h"
#include "test.h"

static void see(const protect_text *p, const char *text, text_buffer *shown) {
    size_t i, from = 0;
    text_buffer_clear(shown, 1 << 16);
    for (i = 0; i < p->n; i++) {
        text_buffer_append(shown, text + from, p->spans[i].begin - from);
        text_buffer_format(shown, "[%.*s]", (int)p->spans[i].size, text + p->spans[i].begin);
        from = p->spans[i].begin + p->spans[i].size;
    }
    text_buffer_append(shown, text + from, strlen(text + from));
}

/* A text with its spans in brackets (which are replaced), and the text that the model gets. */
static void spans(void) {
    static const struct {
        const char *shown, *clean;
    } cases[] = {
        {"See [https://example.org/a/b?id=7&x=%20y#z].", "See."},
        {"(see [www.example.org/a_(b)])", "(see)"},
        {"[http://a.b/Käse], [ftp://x.y/z.tar.gz] and [example.com] or [heise.de/a]", ", and or"},
        {"Write to [anna.muster+x@mail.example.co.uk], please.", "Write to, please."},
        {"[@anna_m] likes [#music].", "likes."},
        {"It weighs [3,5 kg] and costs [$1,299.99], [12.500 €] or [48 %] more.",
         "It weighs and costs, or more."},
        {"At [15:30] on [2024-11-03], [25 °C], [80 km/h], [10 m²], [1.5 GB] [1920x1080].",
         "At on,,,,."},
        {"Call [+49 30 901820] now", "Call now"},
        {"He is 30 years old, the 3. of 7 on p. 5 in 1990.", NULL},
        {"[123456] people", "people"},
        {"Yes [😀] no [👍🏽🎉] [❤️] [👨‍👩‍👧] [🇩🇪]!", "Yes no!"},
        {"Fine [:-)] and [;)]; [5 KG], 5 KGB", "Fine and;, 5 KGB"},
        {"Set [{name}] to [<b>], [%s] or [`x y`] &c.; [&amp;] [{{a.b}}] 5 < 6 > 4 [100%] sure",
         NULL},
        {"Use [foo_bar()] of [v2.3.1] in [/usr/local/bin] or [C:\\Users\\x.txt] [main()]",
         "Use of in or"},
        {"Tom's U.S. friend's e-mail, z. B. and/or, i.e. now... No. 5 (a) [A4]", NULL},
        {"我在[https://example.org/a]看[3.5 kg]书。[😀]", "我在看书。"},
        {"Пиши на [a@b.ru], Ёж1 Käse2 naïve", "Пиши на, Ёж1 Käse2 naïve"},
        {"", ""}};
    protect_text p;
    text_buffer shown;
    size_t i, k, n;
    char text[300];
    SECTION("spans");
    memset(&p, 0, sizeof p), memset(&shown, 0, sizeof shown);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (k = n = 0; cases[i].shown[k]; k++)
            if (!strchr("[]", cases[i].shown[k])) text[n++] = cases[i].shown[k];
        text[n] = 0;
        (void)protect_take(&p, text, n);
        see(&p, text, &shown);
        CHECK(strcmp(shown.data, cases[i].shown) == 0, "%s", shown.data);
        if (cases[i].clean)
            CHECK(strcmp(p.clean.data, cases[i].clean) == 0, "  leave '%s'", p.clean.data);
    }
    CHECK(!protect_take(&p, "https://a.b/c, 5 kg!", 20) && p.n == 2,
          "nothing remains of addresses");
    CHECK(protect_take(&p, "我 5 kg", 8) && protect_take(&p, "a", 1), "something is");
    CHECK(protect_take(&p, "x https://a.b/\xff!", 17) && p.n == 0, "invalid UTF-8 is no span");
    protect_free(&p), text_buffer_free(&shown);
}

static void placeholders(void) {
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {{"{name} ", 6},
                 {"{{x}}!", 5},
                 {"${path}/", 7},
                 {"{0}", 3},
                 {"{12}", 4},
                 {"%s.", 2},
                 {"%1$d", 4},
                 {"%(n_1)s,", 7},
                 {"%d", 2},
                 {"{", 0},
                 {"{two words}", 0},
                 {"% off", 0},
                 {"%(n) s", 0},
                 {"$5", 0},
                 {"100", 0},
                 {"{{ a b }}.", 9},
                 {"${ x }", 6},
                 {"{0:N2} ", 6},
                 {"{% if a %}", 10},
                 {"<%= x %>", 8},
                 {"%{name}", 7},
                 {"#{a.b}", 6},
                 {"{count, plural, one {#} other {#}}", 34},
                 {"$name.x ", 7},
                 {"%-10.2f", 7},
                 {"%ld ", 3},
                 {"%@", 2},
                 {"{a, b}", 0},
                 {"50%", 0},
                 {"{ x }", 5},
                 {"--all ", 5},
                 {"-a", 2},
                 {"- a", 0},
                 {"{{", 0},
                 {"<% x", 0},
                 {"{:.b}", 5},
                 {"[% x %]", 7},
                 {"{1", 0},
                 {"%1 %2", 2},
                 {"%L2.", 3},
                 {"%n Dateien", 2},
                 {"%1%", 3},
                 {"%12a", 0},
                 {"%<name>s", 8},
                 {"%&lt;name&gt;s", 14},
                 {"&lt;%= x %&gt;", 14},
                 {"&lt;b&gt;", 0},
                 {"%%VAR%% ", 7},
                 {"$t(key.a)!", 9},
                 {"[[name]]", 8},
                 {"[[two words]]", 0},
                 {"@Model.Name.", 11},
                 {"@anna", 5},
                 {"@ ", 0},
                 {":name,", 5},
                 {":name_1", 7},
                 {":smile:", 7},
                 {":-)", 0},
                 {":Name", 0},
                 {"__name__", 8},
                 {"__two words__", 0},
                 {"__name_", 0},
                 {"__", 0},
                 {"%(", 0},
                 {"${", 0},
                 {"%()s", 0},
                 {"name", 0}};
    size_t i;
    SECTION("placeholders");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].text);
        /* The buffer has exactly that size, so a read behind it would show. */
        char *text = (char *)malloc(n);
        if (!text) exit(2);
        memcpy(text, cases[i].text, n);
        CHECK(protect_placeholder(text, n, 0) == cases[i].size, "%s", cases[i].text);
        free(text);
    }
}

static void capitals(void) {
    static const char *const pairs[][2] = {
        {"DER ZUG HAT VERSPÄTUNG: ÀÉÎÕÜŸ ØÞ", "Der zug hat verspätung: àéîõüÿ øþ"},
        {"ŁÓDŹ ŽIŽKA ŐŰ ĞŞ Ĳ ĿŅŇ", "Łódź žižka őű ğş ĳ ŀņň"},
        {"ΚΑΛΗΜΈΡΑ ΆΈΉΊΌΎΏ ΪΫ ΣΟΦΌΣ", "Καλημέρα άέήίόύώ ϊϋ σοφόσ"},
        {"ПРИВЕТ, ЁЖИК! ЉЊЋ ЂЃ ҐҒ ҖҚ ӘӨ", "Привет, ёжик! љњћ ђѓ ґғ җқ әө"},
        {"TIẾNG VIỆT ẠẢẤ ỲỸ", "Tiếng việt ạảấ ỳỹ"},
        {"ԲԱՐԵՎ", "Բարեվ"},
        {"¿QUÉ? NO!", "¿Qué? no!"}};
    protect_text p;
    text_buffer out;
    size_t i, end, source = 0;
    memset(&p, 0, sizeof p), memset(&out, 0, sizeof out);
    SECTION("capitals");
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *big = pairs[i][0], *small = pairs[i][1];
        (void)protect_take(&p, big, strlen(big));
        CHECK(p.capitals && strcmp(p.clean.data, small) == 0, "%s", p.clean.data);
        end = strlen(small);
        text_buffer_clear(&out, 1 << 16);
        protect_put(&p, small, end, 1, &end, &source, &out);
        CHECK(strcmp(out.data, big) == 0, "  and back: %s", out.data);
    }
    (void)protect_take(&p, "SIEHE https://a.b/c JETZT 5 kg", 30);
    CHECK(p.capitals && strcmp(p.clean.data, "Siehe jetzt") == 0 && p.spans[0].at == 5, "%s",
          p.clean.data);
    text_buffer_clear(&out, 1 << 16);
    end = 11;
    protect_put(&p, "look straße", 12, 1, &end, &source, &out);
    CHECK(strstr(out.data, "https://a.b/c") && strstr(out.data, "5 kg") &&
              strstr(out.data, "LOOK") && strstr(out.data, "STRASSE"),
          "spans are unchanged: '%s'", out.data);
    CHECK(!protect_is_capitals("USA", 3) && !protect_is_capitals("DIe STADT", 9) &&
              !protect_is_capitals("我看HTML", 10) && !protect_is_capitals("1234 !", 6),
          "acronyms, a small letter, other scripts: no capitals");
    protect_free(&p), text_buffer_free(&out);
}

/* Makes a translation whose words are aligned as given: token i is word i, and comes from byte
   sources[i]. */
static void put(const char *source, const char *translation, const size_t *sources, size_t n,
                const char *expected) {
    protect_text p;
    text_buffer out;
    size_t ends[16], i, at = 0;
    memset(&p, 0, sizeof p), memset(&out, 0, sizeof out);
    (void)protect_take(&p, source, strlen(source));
    for (i = 0; i < n; i++) {
        at += strcspn(translation + at + (i > 0), " ") + (i > 0);
        ends[i] = at;
    }
    protect_put(&p, translation, strlen(translation), n, ends, sources, &out);
    CHECK(out.data && strcmp(out.data, expected) == 0, "%s", out.data ? out.data : "");
    protect_free(&p), text_buffer_free(&out);
}

static void places(void) {
    static const size_t straight[] = {0, 4, 7, 10}, turned[] = {4, 0, 10, 7},
                        stop[] = {0, 4, 7, 10, 12}, lost[] = {0, 0, 0, 0};
    SECTION("places");
    put("aaa bb cc dd a@b.org", "A B C D", straight, 4, "A B C D a@b.org");
    put("a@b.org aaa bb cc dd", "A B C D", straight, 4, "a@b.org A B C D");
    put("aaa bb a@b.org cc dd", "A B C D", straight, 4, "A B a@b.org C D");
    put("aaa bb cc dd a@b.org.", "A B C D .", stop, 5, "A B C D a@b.org .");
    put("aaa bb a@b.org cc 5 kg dd", "A B C D", straight, 4, "A B a@b.org C 5 kg D");
    put("aaa bb a@b.org 5 kg cc dd", "A B C D", straight, 4, "A B a@b.org 5 kg C D");
    put("aaa bb a@b.org cc dd", "B A D C", turned, 4, "B A a@b.org D C");
    put("aaa bb a@b.org cc dd", "A B C D", lost, 4, "A B C D a@b.org");
    put("aaa bb a@b.org cc dd", "", lost, 0, "a@b.org");
    put("aaa bb 😀 cc dd", "我看书。", lost, 1, "我看书。😀");
}

/* Tests random bytes. Spans must be in the text and in order, and the output must hold every span
   that was put back, between all words of the translation. */
static void anything(void) {
    static const char *const bits[] = {"a",
                                       "B",
                                       "1",
                                       "5 kg",
                                       ".",
                                       "/",
                                       "@",
                                       ":",
                                       "-",
                                       " ",
                                       "\t",
                                       "(",
                                       ")",
                                       "<",
                                       ">",
                                       "{",
                                       "}",
                                       "%",
                                       "s",
                                       "&",
                                       ";",
                                       "`",
                                       "_",
                                       "\\",
                                       "😀",
                                       "ß",
                                       "我",
                                       "\xff",
                                       "\xe2\x80",
                                       "www.",
                                       "http://",
                                       "x@y.z",
                                       "\n",
                                       "É",
                                       "\xc2\x85",
                                       "\xed\xa0\x80",
                                       "+4",
                                       "$",
                                       "’",
                                       "ς",
                                       "\xf4\x90\x80\x80"};
    unsigned long seed = 88172645463325252ul % 1000003;
    int round, total = 0;
    const char *broken = NULL; /* the rule that the round broke first */
    char detail[64] = "";
    protect_text p;
    text_buffer text, out;
    memset(&p, 0, sizeof p), memset(&text, 0, sizeof text);
    memset(&out, 0, sizeof out);
    SECTION("any bytes");
    for (round = 0; round < 20000; round++) {
        size_t i, k, n, at = 0, ends[20], sources[20];
        int counts[256];
        text_buffer_clear(&text, 1 << 16), text_buffer_clear(&out, 1 << 16);
        text_buffer_append(&text, "", 0), text_buffer_append(&out, "", 0);
        for (i = 0; i < 12; i++) {
            seed = (seed * 1103515245ul + 12345ul) & 0x7FFFFFFFul;
            n = (seed >> 8) % (sizeof bits / sizeof *bits);
            text_buffer_append(&text, bits[n], strlen(bits[n]));
        }
        (void)protect_take(&p, text.data, text.size);
        for (i = 0; i < p.n; i++) {
            const protect_span *s = &p.spans[i];
            int in_order = s->begin >= at && s->size > 0 && s->begin + s->size <= text.size &&
                           s->at <= p.clean.size && (!i || s->at >= s[-1].at);
            at = s->begin + s->size;
            if (!broken && (!in_order || memchr(text.data + s->begin, '\t', s->size) ||
                            memchr(text.data + s->begin, '\n', s->size) ||
                            memchr(text.data + s->begin, 0xff, s->size)))
                broken = in_order ? "spans without tab, line feed and byte 255" : "spans in order",
                snprintf(detail, sizeof detail, "span %d at byte %d, of %d bytes", (int)i,
                         (int)s->begin, (int)s->size);
        }
        total += (int)p.n;
        for (i = 0; i < 20; i++) { /* tokens that end anywhere and come from anywhere */
            seed = (seed * 1103515245ul + 12345ul) & 0x7FFFFFFFul;
            ends[i] = i * p.clean.size / 19, sources[i] = (seed >> 8) % (p.clean.size + 1);
        }
        protect_put(&p, p.clean.data, p.clean.size, 20, ends, sources, &out);
        memset(counts, 0, sizeof counts); /* the bytes except spaces */
        for (i = 0; i < out.size; i++) counts[(unsigned char)out.data[i]]++;
        for (i = 0; i < p.clean.size; i++) counts[(unsigned char)p.clean.data[i]]--;
        for (i = 0; i < p.n; i++) {
            const char *span = text.data + p.spans[i].begin;
            for (k = 0; k < p.spans[i].size; k++) counts[(unsigned char)span[k]]--;
            for (k = 0; k + p.spans[i].size <= out.size &&
                        memcmp(out.data + k, span, p.spans[i].size) != 0;)
                k++;
            if (!broken && k + p.spans[i].size > out.size)
                broken = "each span in the output",
                snprintf(detail, sizeof detail, "no span %d", (int)i);
        }
        for (i = 0; i < 256; i++)
            if (!broken && !p.capitals && i != ' ' && counts[i] != 0)
                broken = "the bytes of clean text and spans",
                snprintf(detail, sizeof detail, "%d of byte %d more", counts[i], (int)i);
        if (broken) {
            CHECK(!broken, "round %d, text '%s': wanted %s, got %s in '%s'", round, text.data,
                  broken, detail, out.data);
            break;
        }
    }
    CHECK(!broken && total > 1000, "%d spans in 20,000 texts", total);
    protect_free(&p), text_buffer_free(&text), text_buffer_free(&out);
}

int main(void) {
    (void)text_buffer_flatten;
    spans();
    placeholders();
    capitals();
    places();
    anything();
    return test_done("test_protect");
}
