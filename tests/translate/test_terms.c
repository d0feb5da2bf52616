/* Tests the lists of --terms: which lines are refused, which words of a sentence are found, and
   where their targets stand in a translation; with cases and with random bytes. */
#include "examples/translate/text/terms.h"
#include "test.h"

static void lists(void) {
    static const struct {
        const char *text, *message; /* NULL: the list is right */
        size_t n;
    } cases[] = {
        {"", NULL, 0},
        {"a\tb", NULL, 1},
        {"\xEF\xBB\xBF"
         "a\tb\r\n",
         NULL, 1},
        {"# x\n\n  \r\n a  b \t c \n#", NULL, 1},
        {"a\tb\nA\tb\n!a\tc\n!A\td\n", NULL, 3},
        {"a\tb\n\nab", "line 3: there is no TAB between source and target", 0},
        {"a\tb\tc", "line 1: there is more than one TAB", 0},
        {"a\tb\n\tb", "line 2: the source is empty", 0},
        {"!\tb", "line 1: the source is empty", 0},
        {"a\t\n", "line 1: the target is empty", 0},
        {"a\t  ", "line 1: the target is empty", 0},
        {"a\xff\tb", "line 1: there is a control character, or text that is not UTF-8", 0},
        {"a\tb\xC0\x80", "line 1: there is a control character, or text that is not UTF-8", 0},
        {"a\tb\xE2\x80\xA8"
         "c",
         "line 1: there is a control character, or text that is not UTF-8", 0},
        {"a\rb\tc", "line 1: there is a control character, or text that is not UTF-8", 0},
        {"x\ty\nHund\tdog\nhund\thound", "line 3: the source has another target in line 2", 0},
        {"!Hund\tdog\nx\ty\n!Hund\thound", "line 3: the source has another target in line 1", 0},
        {"a b\tc\na   b\td", "line 2: the source has another target in line 1", 0}};
    terms_list list;
    char message[160], zero[] = "a\tb\nc\0d\te";
    text_buffer text;
    size_t i;
    SECTION("lists");
    memset(&list, 0, sizeof list), memset(&text, 0, sizeof text);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        int good;
        strcpy(message, "");
        good = terms_read(&list, cases[i].text, strlen(cases[i].text), message, sizeof message);
        CHECK(good == !cases[i].message && list.n == cases[i].n &&
                  strcmp(message, cases[i].message ? cases[i].message : "") == 0,
              "'%s': %s", cases[i].text, message);
    }
    CHECK(!terms_read(&list, zero, sizeof zero - 1, message, sizeof message) &&
              strstr(message, "line 2: "),
          "a zero byte: %s", message);
    for (i = 0; i < TERMS_MOST; i++) text_buffer_append(&text, "a", 1);
    text_buffer_append(&text, "\tb", 2);
    CHECK(terms_read(&list, text.data, text.size, message, sizeof message),
          "a source of 256 bytes");
    text_buffer_clear(&text, 0), text_buffer_append(&text, "x\ty\n", 4);
    for (i = 0; i <= TERMS_MOST; i++) text_buffer_append(&text, "a", 1);
    text_buffer_append(&text, "\tb", 2);
    CHECK(!terms_read(&list, text.data, text.size, message, sizeof message) &&
              strcmp(message, "line 2: the source has more than 256 bytes") == 0,
          "one of 257: %s", message);
    text_buffer_clear(&text, 0);
    for (i = 0; i < 100000; i++) text_buffer_format(&text, "word%d\ttarget %d\n", (int)i, (int)i);
    CHECK(terms_read(&list, text.data, text.size, message, sizeof message) && list.n == 100000,
          "100,000 terms");
    text_buffer_free(&text), terms_free(&list);
}

/* Sentences with the terms that are found in brackets. */
static void matches(void) {
    static const char list_text[] =
        "Hund\tdog\nHunde\tdogs\nrote Karte\tred card\nKarte\tmap\n!Weg\tpath\nweg\taway\n!WEG\tW\n"
        "C++\tC++\n.NET\t.NET\nÄpfel\tapples\n火车\ttrain\n火\tfire\nИГРА\tgame\nder Hund da\tx\n";
    static const char *const cases[] = {"[Hund]",
                                        "Der [Hund], die [Hunde], (ein [HUND]).",
                                        "Hundes Hundefutter Schoßhund Hund_ Hund2 Hunden",
                                        "U-Hund Hund-Futter -[Hund]- l'[Hund]",
                                        "Eine [rote  Karte], eine [Karte], rote. [Karte]",
                                        "[rote\tKarte] [Rote\nKarte]",
                                        "Der [Weg] ist [weg]; [WEG] [wEG]",
                                        "In [C++] und [.net], C+ C",
                                        "[äpfel] [ÄPFEL] Apfel",
                                        "我坐[火车]看[火]。",
                                        "[игра] [Игра] играть",
                                        "[der Hund da] der [Hund] dort, der [Hund]",
                                        "",
                                        "\xff[Hund]\xff",
                                        "[Karte]"};
    terms_list list;
    terms_found f;
    char message[160], text[200];
    text_buffer shown;
    size_t i, k, n;
    SECTION("matches");
    memset(&list, 0, sizeof list), memset(&f, 0, sizeof f), memset(&shown, 0, sizeof shown);
    CHECK(terms_read(&list, list_text, strlen(list_text), message, sizeof message), "");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (k = n = 0; cases[i][k]; k++)
            if (!strchr("[]", cases[i][k])) text[n++] = cases[i][k];
        text[n] = 0;
        text_buffer_clear(&shown, 1 << 16), text_buffer_append(&shown, "", 0);
        (void)terms_find(&list, text, n, &f);
        for (k = n = 0; k < f.n; n = f.matches[k++].end) {
            text_buffer_append(&shown, text + n, f.matches[k].begin - n);
            text_buffer_format(&shown, "[%.*s]", (int)(f.matches[k].end - f.matches[k].begin),
                               text + f.matches[k].begin);
        }
        text_buffer_append(&shown, text + n, strlen(text + n));
        CHECK(!f.broken && strcmp(shown.data, cases[i]) == 0, "%s", shown.data);
    }
    (void)terms_find(&list, "Weg weg WEG", 11, &f);
    CHECK(f.n == 3 && strcmp(f.matches[0].entry->target, "path\nweg\taway") > 0 &&
              f.matches[0].entry->is_exact && !f.matches[1].entry->is_exact &&
              f.matches[2].entry->n_target == 1,
          "the exact case wins");
    terms_found_free(&f), terms_free(&list), text_buffer_free(&shown);
}

/* Puts targets into a translation whose token i is word i (a space belongs to the token behind it)
   and comes from word sources[i] of the sentence; -1: from nowhere. */
static void put(const char *list_text, const char *sentence, const char *translation,
                const int *sources, const char *expected) {
    terms_list list;
    terms_found f;
    text_buffer out;
    char message[160];
    size_t ends[16], begins[16], source_ends[16], at = 0, n = 0, k, size = strlen(translation);
    memset(&list, 0, sizeof list), memset(&f, 0, sizeof f), memset(&out, 0, sizeof out);
    CHECK(terms_read(&list, list_text, strlen(list_text), message, sizeof message), "");
    for (; at < size; n++) {
        size_t word;
        at += strcspn(translation + at + (n > 0), " ") + (n > 0);
        ends[n] = at;
        begins[n] = source_ends[n] = 0;
        if (sources[n] < 0) continue;
        for (k = word = 0; word < (size_t)sources[n]; word++) k += strcspn(sentence + k, " ") + 1;
        begins[n] = k, source_ends[n] = k + strcspn(sentence + k, " ");
    }
    (void)terms_find(&list, sentence, strlen(sentence), &f);
    text_buffer_append(&out, "> ", 2);
    terms_put(&f, translation, size, n, ends, begins, source_ends, &out);
    CHECK(!f.broken && strcmp(out.data + 2, expected) == 0, "%s", out.data);
    for (k = 0; k < n; k++)
        if (ends[k] > strlen(expected) || (k && ends[k] < ends[k - 1])) break;
    CHECK(k == n, "  the tokens' ends");
    terms_found_free(&f), terms_free(&list), text_buffer_free(&out);
}

static void places(void) {
    static const int straight[] = {0, 1, 2, 3, 4, 5, 6}, turned[] = {2, 1, 0},
                     lost[] = {-1, -1, -1, -1}, article[] = {1, 1, 2}, two[] = {0, 1, 1, 2};
    SECTION("places");
    put("hund\thound", "der Hund bellt", "the dog barks", straight, "the hound barks");
    put("hund\thound", "der Hund bellt", "the dog, barks.", straight, "the hound, barks.");
    put("hund\tbig hound", "Hund bellt", "Dogs bark", straight, "Big hound bark");
    put("!Hund\tiHound", "Hund bellt", "Dogs bark", straight, "iHound bark");
    put("hund\thound", "Hund bellt", "dogs bark", straight, "hound bark");
    put("hund\thound", "Ja! Hund bellt", "Yes! \"Dogs\" bark", straight, "Yes! \"Hound\" bark");
    put("bellt\tВоет\nhund\tёж", "Hund bellt", "Пёс лает", straight, "Ёж Воет");
    put("aa\txx\nbb\tyy\ncc\tzz", "aa bb cc", "ccc bbb aaa", turned, "zz yy xx");
    put("hund\thound", "der Hund bellt", "the dogs bark", article, "the hound bark");
    put("hund\thound", "der Hund bellt", "a dog barks", article, "a hound barks");
    put("hund\thound", "der Schnellzug hält", "the express train stops", two,
        "the express train stops");
    put("schnellzug\tTGV", "der Schnellzug hält", "the express train stops", two, "the TGV stops");
    put("hund\tdog", "der Hund bellt", "barks the dog", lost, "barks the dog");
    put("hund\tdog", "der Hund bellt", "the Dog barks", lost, "the dog barks");
    put("hund\tdog", "der Hund bellt", "dogs dogged dog-days", lost, "dogs dogged dog-days dog");
    put("hund\tdog", "Hund Hund", "dog dog", straight, "dog dog");
    put("hund\tdog\nkatze\tcat", "Hund Katze", "", straight, "Dog cat");
    put("hund\thound", "der Hund", "the", lost, "the hound");
    put("a b\tx", "a b c", "A B C", straight, "X C");
    put("hund\t狗", "我 Hund", "我看书", lost, "我看书狗");
    put("hund\thound", "der Hund bellt.", "barks.", lost, "barks hound.");
    put("hund\thound", "der Hund bellt.", "barks?!", lost, "barks hound?!");
    put("hund\thound", "Hund.", "...", lost, "Hound...");
    put("nicht\tnever", "er nicht", "he can't", straight, "he never");
    put("leid\tsad", "Tut leid", "I'm sorry", turned + 1, "Sad sorry");
    put("leid\tsad", "Tut mir leid", "It's me", article + 1, "It's sad");
    put("leid\tsad", "Tut leid", "I \xE2\x80\x99m", straight, "I \xE2\x80\x99sad");
    put("hund\thound", "der Hund rennt", "the dog's running", straight, "the hound's running");
    put("mann\ttype", "der Mann", "l'homme l\xE2\x80\x99homme", straight,
        "l'homme l\xE2\x80\x99type");
    put(".net\t.NET", "in .NET", "in .net", straight, "in .NET");
    /* two terms whose target is one mark, which is in the translation once */
    put("a\t?", "a c a", "x ? y", lost, "x ? y ?");
}

/* Tests random sentences: the translation keeps all its bytes outside the replaced words, each
   target is there, and the tokens' ends stay in the text. */
static void anything(void) {
    static const char *const bits[] = {"aa", "AA", "b",    "bb c",     "aa b", " ",    "  ",
                                       "-",  ".",  "!",    ",",        "我",   "火车", "ß",
                                       "Ä",  "ä",  "\xff", "\xe2\x80", "'",    "(",    "\t",
                                       "İ",  "ẞ",  "xx",   "\xc2\xa0", "ſ",    "1"};
    static const char list_text[] =
        "aa\tXx\nbb c\ty y\n!b\tB\n火\t火车\nä\tß\naa b\t(q)\nẞ\tss\n1\t1,\n";
    unsigned long seed = 42;
    int round, good = 1;
    size_t total = 0;
    terms_list list;
    terms_found f;
    text_buffer text[2], out;
    char message[160];
    SECTION("any bytes");
    memset(&list, 0, sizeof list), memset(&f, 0, sizeof f);
    memset(text, 0, sizeof text), memset(&out, 0, sizeof out);
    CHECK(terms_read(&list, list_text, strlen(list_text), message, sizeof message), "");
    for (round = 0; round < 20000 && good; round++) {
        size_t i, k, n, ends[20], begins[20], source_ends[20], at = 0, made = 0, matched = 0;
        const char *wanted;
        for (k = 0; k < 2; k++) {
            text_buffer_clear(&text[k], 1 << 16), text_buffer_append(&text[k], "", 0);
            for (i = 0; i < 12; i++) {
                seed = (seed * 1103515245ul + 12345ul) & 0x7FFFFFFFul;
                n = (seed >> 8) % (sizeof bits / sizeof *bits);
                text_buffer_append(&text[k], bits[n], strlen(bits[n]));
            }
        }
        for (i = 0; i < 20; i++) { /* tokens that end anywhere and come from anywhere */
            seed = (seed * 1103515245ul + 12345ul) & 0x7FFFFFFFul;
            ends[i] = i == 19 ? text[1].size : (seed >> 8) % (text[1].size + 1);
            begins[i] = (seed >> 12) % (text[0].size + 1),
            source_ends[i] = begins[i] + (seed >> 20) % 5;
        }
        text_buffer_clear(&out, 1 << 16);
        (void)terms_find(&list, text[0].data, text[0].size, &f);
        terms_put(&f, text[1].data, text[1].size, 20, ends, begins, source_ends, &out);
        total += f.n, good = !f.broken && !out.broken;
        for (i = 0; i < f.n && good; i++) { /* the matches are in the order of the translation */
            const terms_match *m = &f.matches[i];
            good &= m->is_placed && m->from >= at && m->to >= m->from && m->to <= text[1].size &&
                    m->begin < m->end && m->end <= text[0].size && m->new_to <= out.size;
            for (k = m->from - at; good && k > 0; k--) { /* the bytes before it are copied */
                while (made < out.size && out.data[made] == ' ' && text[1].data[m->from - k] != ' ')
                    made++;
                good &= made < out.size && out.data[made++] == text[1].data[m->from - k];
            }
            while (made < m->new_to && out.data[made] == ' ') made++;
            good &= m->new_to >= made + m->entry->n_target - 1;
            at = m->to, made = m->new_to, matched = i;
        }
        wanted = "each match placed in the order of the translation, its text before it copied";
        if (good) {
            wanted = "the rest of the translation copied";
            good &= out.size - made == text[1].size - at &&
                    memcmp(out.data + made, text[1].data + at, out.size - made) == 0;
        }
        if (good) {
            wanted = "tokens that end within the output";
            for (i = 0; i < 20; i++) good &= ends[i] <= out.size;
        }
        if (!good)
            CHECK(good,
                  "round %d, source '%s', translation '%s': wanted %s; got '%s' (match %d of %d, "
                  "byte %d)",
                  round, text[0].data, text[1].data, wanted, out.data, (int)matched, (int)f.n,
                  (int)made);
    }
    CHECK(good && total > 1000, "%d terms in 20,000 sentences", (int)total);
    terms_found_free(&f), terms_free(&list);
    text_buffer_free(&text[0]), text_buffer_free(&text[1]), text_buffer_free(&out);
}

int main(void) {
    (void)text_buffer_flatten, (void)protect_take, (void)protect_put;
    (void)protect_placeholder;
    lists();
    matches();
    places();
    anything();
    return test_done("test_terms");
}
