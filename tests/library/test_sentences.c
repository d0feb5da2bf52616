/* Tests where sentences end: texts in several languages, and properties that hold for any bytes. */
#include "test.h"
#include "transformer.h"

/* Each text has a bar wherever a sentence ends. */
static const char *const english[] = {
    "Hello.| How are you?| Fine!| And you?",
    "One sentence without a stop",
    "Dr. Smith met Mr. and Mrs. Jones.| They talked.",
    "J. S. Bach wrote it.| He was 30.",
    "George W. Bush lived in the U.S. for years.| Prof. A. B. Miller did not.",
    "He lives in the U.S.| He likes it.| The U.S. Army is large.",
    "Pi is 3.14.| The version is 2.0.1.| See example.com.| Bye.",
    "It costs $1.50 per lb. today.| Buy it!",
    "See p. 5 and No. 7, Fig. 3 and vol. 2.| He said no. |Then he left.",
    "Cats, dogs, etc. are animals.| He has cats, dogs, etc. |She has none.",
    "Well...| I see.| Wait... what?| Hmm… maybe.| Oh… |Yes.",
    "\"Really?\" he asked.| \"Yes!\" |She smiled.",
    "He said, \"Go.\" |She went.| 'Stop!' he cried.",
    "“It is late.” |He yawned.| “Is it?” she asked.",
    "(He left.) |She stayed (for a while).| Done.",
    "He left at 5 p.m. on Monday.| She left at 6 a.m.| They met.",
    "Take vitamin C.| It is good.| Plan B. Failed?!",
    "What?!| No way!!!| OK.",
    "1. Open the box.| 2. Take it out.| II. Methods are here.",
    "Apple Inc. |Pear Ltd. sells less, i.e. nothing, e.g. Tuesday.",
    "I don't.| You can't.| It's hers.| The bar isn't. |Tom's is.",
    "Visit St. Petersburg, Mt. Everest and Ft. Worth.| On Jan. 5 we go.",
    "He drove at 100 km/h. |Nobody saw him.",
    "A line that\nis broken.| Another\r\none.",
    "A heading\n\n|A paragraph.\n \n|Another",
    "Yes.| - No.| -- Why?| — Because.",
    "The end.| ",
    "   Leading space.| Trailing space.|   ",
    "I work for the U.S. Government.| She lives in the E.U. |How about you?",
    "She said, 'Great.' |It was (see p. 5.), fine . . . |Then. . . .| (Why?)",
    "No space.Here no end. e.g.this is none. |U.N. troops came.",
    "Is it 5? |6 is better.| In 1990. |People came.",
    "He works at Yahoo! and likes it.| Bye",
};
static const char *const german[] = {
    "Das ist Dr. Müller.| Er kommt z.B. aus Köln.| Und z. B. Äpfel mag er.",
    "Am 3. Mai war es warm.| Am 3. 10. 1990 auch.| Im 19. Jahrhundert nicht.",
    "Er hat d. h. u. a. Bücher, Hefte usw. |Das reicht.",
    "Das kostet 5 Mio. Euro bzw. 3,5 Mrd. Dollar, vgl. Abb. 3 und Nr. 4.| Gut.",
    "„Kommst du?“, fragte er.| „Nein.“ |Sie ging.| »Warum?« |Er schwieg.",
    "Er kam. |»Warum?« fragte sie.| Die Dipl.-Ing. Meier schwieg.",
    "Der 2. Weltkrieg endete 1945.| Es waren 12. |Nein, 13.",
    "Er wohnt in der Bahnhofstr. 5 in Berlin.| Das ist eine Str. |Gut.",
    "Ärger gab es.| Öl auch. über alles. aber klein.",
    "Das ist der 1. Platz in der 2. Bundesliga.| Friedrich II. war König.",
};
static const char *const french[] = {
    "M. Dupont et Mme Durand sont là.| MM. Petit et Grand aussi.",
    "« Viens ! » dit-il.| « Non. » |Elle part.| Quoi ?| Rien !",
    "« Vraiment\xC2\xA0? »| Oui.| C'est l'art. 5 du code, cf. p. 7.",
    "J.-P. Sartre écrit, p. ex. des livres, c.-à-d. beaucoup.| Écoute !",
    "Le 3 janv. 2020, voir N°. 5.| « Où vas-tu ? dit-il. |— Nulle part. » |Elle sourit.",
    "Il a 3,5 ans.| À demain…| Élan.",
};
static const char *const spanish[] = {
    "¿Qué?| ¡No!| El Sr. García y la Sra. López viven en EE. UU. desde 1990.",
    "Véase la pág. 5.| Él dijo: «Sí.» |Ella no.| ¿Y usted? ¡dígame!",
    "—Hola.| —¿Quién es?| —Soy yo —dijo Ana.| Adiós.",
    "El Dr. F. G. Lorca, p. ej. es poeta.| Año 2000. ñandú.",
};
static const char *const russian[] = {
    "Это г. Москва.| А. С. Пушкин родился в 1799 г. в Москве.| Он писал.",
    "— Да! — сказал он.| — Нет. |— Почему?",
    "Яблоки, груши и т. д. лежат, т.е. гниют.| Это был я. |Да.",
    "«Пойдём!» — сказал он.| «Нет.» |См. рис. 5 и стр. 7. ул. Ленина, д. 5.",
};
static const char *const chinese[] = {
    "你好。|我是学生。|你呢？|好！|他说：“我来了。”然后走了。",
    "「真的嗎？」他問。|（笑。）|我想……他走了。|再見",
    "价格是3.5元。|网址是example.com。|你好!|我来了?|是的。",
    "他说。|\"我来了。\"|她笑了。|“走吧！”，他说。|真的吗？！|嗯。",
    "第一。　|第二。\n|第三",
    "他笑了（真的！）。|“好。”|“不。”|《紅樓夢》。……|完",
};
static const char *const japanese[] = {
    "こんにちは。|元気ですか？|はい！|「はい。」と言った。|そうです。",
    "「行きます！」|彼は言った。",
    "彼は「行く。」と言って、「帰る。」とは言わなかった。|本当？！|うそ！|そうですか。|おわり",
    "「え？」|「うん。」",
};
static const char *const others[] = {
    /* Arabic */
    "مرحبا.| كيف حالك؟| أنا بخير!| هذا د. أحمد.| نعم، شكرا.",
    "هل أنت طالب؟|نعم.",
    /* Urdu, Hindi, Bengali */
    "یہ کتاب ہے۔| وہ قلم ہے۔",
    "मैं छात्र हूँ।| तुम कैसे हो?| डॉ. शर्मा आए।|ठीक है॥",
    /* Greek, Armenian, Korean, Burmese, Amharic, Polish, Turkish */
    "Είμαι εδώ.| Βλ. σελ. 5.| Ναι!",
    "Ես ուսանող եմ։ |Դու՞։",
    "안녕하세요.| 저는 학생입니다.| 2020. 5. 3. 서울에서 만났다.| 네.",
    "ကျွန်တော်ကျောင်းသားပါ။|ဟုတ်ကဲ့။",
    "እኔ ተማሪ ነኝ።| አንተስ፧",
    "To jest prof. Nowak, tzn. Jan.| Żaba.| Ślad.",
    "Ben Dr. Ali.| İyi.| Şimdi gel!",
};

static int is_space(uint32_t c) { return (tfm_character_kinds(c) & TFM_CHARACTER_SPACE) != 0; }

/* Splits the text between bars into sentences. */
static const char *split(const char *text, size_t size) {
    static char out[1024];
    tfm_text sentence;
    size_t at = 0, n = 0;
    while (tfm_sentence_next(tfm_text_make(text, size), &at, &sentence)) {
        if (n) out[n++] = '|';
        memcpy(out + n, sentence.data, sentence.size), n += sentence.size;
    }
    out[n] = 0;
    return out;
}

/* Checks that the text without its bars is split at the bars. */
static void check_texts(const char *language, const char *const *texts, size_t n) {
    char text[1024], expected[1024];
    size_t i, j;
    SECTION(language);
    for (i = 0; i < n; i++) {
        size_t size = 0, m = 0;
        int spaces = 0;
        const char *got;
        for (j = 0; texts[i][j]; j++)
            if (texts[i][j] != '|') text[size++] = texts[i][j];
        /* Whitespace next to a bar belongs to no sentence. */
        for (j = 0; texts[i][j]; j++) {
            uint32_t c;
            size_t k = tfm_character_next(texts[i] + j, strlen(texts[i] + j), &c);
            if (c == '|') {
                while (spaces > 0) m--, spaces--;
                expected[m++] = '|';
            } else if (is_space(c) && (!m || expected[m - 1] == '|')) {
                j += k - 1; /* before a sentence */
            } else {
                spaces = is_space(c) ? spaces + (int)k : 0;
                memcpy(expected + m, texts[i] + j, k), m += k;
                j += k - 1;
            }
        }
        if (m && expected[m - 1] == '|') m--;
        expected[m] = 0;
        got = split(text, size);
        CHECK(strcmp(got, expected) == 0, strcmp(got, expected) ? "expected %s\n%12s got %s" : "",
              expected, "", got);
    }
}
#define CHECK_TEXTS(name) check_texts(#name, name, sizeof name / sizeof *name)

/* Returns whether the bytes are whitespace alone. */
static int is_blank(const char *text, size_t size) {
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (!is_space(c)) return 0;
    }
    return 1;
}

/* Checks properties that hold for any bytes: sentences are in order and not empty, only whitespace
   is between them, their ends are no whitespace, and no character is cut. */
static int is_sound(const char *text, size_t size) {
    const char *last = text;
    tfm_text sentence;
    size_t at = 0, i = 0, n;
    uint32_t c;
    while (tfm_sentence_next(tfm_text_make(text, size), &at, &sentence)) {
        if (!sentence.size || sentence.data < last || sentence.data + sentence.size > text + size)
            return 0;
        if (!is_blank(last, (size_t)(sentence.data - last))) return 0;
        last = sentence.data + sentence.size;
        if (at < (size_t)(last - text)) return 0;
        /* The sentence must begin and end at a character, and not with whitespace. */
        while (i < (size_t)(sentence.data - text)) i += tfm_character_next(text + i, size - i, &c);
        if (i != (size_t)(sentence.data - text)) return 0;
        (void)tfm_character_next(text + i, size - i, &c);
        if (is_space(c)) return 0;
        for (n = i; i < (size_t)(last - text); i = n) {
            n = i + tfm_character_next(text + i, size - i, &c);
            if (n == (size_t)(last - text) && is_space(c)) return 0;
        }
        if (i != (size_t)(last - text)) return 0;
    }
    return is_blank(last, (size_t)(text + size - last));
}

static unsigned random_below(unsigned n) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)(state >> 8) * n >> 24);
}

/* ---- sentences that are hard, in many languages: tests/data/sentences.tsv ---- */

/* A line of the file. pool: text may be two sentences with a bar between them; paragraphs are drawn
   from these. one: a sentence that must not be cut. bar: how many may be missed, false and cut. */
typedef struct hard_line {
    const char *kind, *language, *text;
} hard_line;
enum { HARD_LINES = 2000, HARD_PARAGRAPHS = 30, HARD_MOST = 6 };
typedef struct hard_counts {
    int gold, missed, wrong;
} hard_counts;

/* Reads the file into one block and returns the number of its lines. */
static int hard_read(hard_line *lines) {
    static char data[1 << 17];
    FILE *stream = fopen("tests/data/sentences.tsv", "rb");
    char *at = data, *end, *tab;
    int n = 0;
    if (!stream) return 0;
    data[fread(data, 1, sizeof data - 1, stream)] = 0;
    fclose(stream);
    for (; n < HARD_LINES && (end = strchr(at, '\n')) != NULL; at = end + 1, n++) {
        *end = 0;
        if (end > at && end[-1] == '\r') end[-1] = 0;
        lines[n].kind = at;
        if ((tab = strchr(at, '\t')) == NULL) return 0;
        *tab = 0, lines[n].language = tab + 1;
        if ((tab = strchr(tab + 1, '\t')) == NULL) return 0;
        *tab = 0, lines[n].text = tab + 1;
    }
    return n;
}

static int hard_is(const hard_line *line, const char *kind, const char *language) {
    return strcmp(line->kind, kind) == 0 && strcmp(line->language, language) == 0;
}

/* Counts the ends of sentences inside a paragraph that are missed, and cuts inside its
   sentences. */
static void hard_paragraph(const char *const *texts, int n, const char *gap, hard_counts *counts) {
    char paragraph[4096];
    size_t size = 0, ends[2 * HARD_MOST + 1], at = 0, k, n_ends = 0, found = 0, i;
    tfm_text sentence;
    int part;
    for (part = 0; part < n; part++)
        for (k = 0; texts[part][k]; k += i) {
            i = strcspn(texts[part] + k, "|");
            while (texts[part][k] == ' ') k++, i--;
            if (size) memcpy(paragraph + size, gap, strlen(gap)), size += strlen(gap);
            memcpy(paragraph + size, texts[part] + k, i), size += i;
            while (paragraph[size - 1] == ' ') size--;
            ends[n_ends++] = size;
            i += texts[part][k + i] == '|';
        }
    for (k = 0; k + 1 < n_ends; k++) counts->gold++, counts->missed++;
    while (tfm_sentence_next(tfm_text_make(paragraph, size), &at, &sentence)) {
        size_t end = (size_t)(sentence.data - paragraph) + sentence.size;
        while (found < n_ends && ends[found] < end) found++;
        if (end == size) break;
        if (found < n_ends && ends[found] == end) counts->missed--;
        else counts->wrong++;
    }
}

/* Draws paragraphs of one language's sentences, and counts its single sentences that are cut. */
static void hard_language(const hard_line *lines, int n, const hard_line *bar) {
    const char *pool[HARD_LINES], *drawn[HARD_MOST], *language = bar->language;
    const char *gap = strcmp(language, "zh") && strcmp(language, "ja") ? " " : "";
    hard_counts counts = {0, 0, 0};
    int i, k, n_pool = 0, n_one = 0, cut = 0, missed, wrong, most;
    for (i = 0; i < n; i++) {
        tfm_text sentence;
        size_t at = 0;
        if (hard_is(&lines[i], "pool", language)) pool[n_pool++] = lines[i].text;
        if (!hard_is(&lines[i], "one", language)) continue;
        (void)tfm_sentence_next(tfm_text_make(lines[i].text, strlen(lines[i].text)), &at,
                                &sentence);
        cut += at < strlen(lines[i].text), n_one++;
        if (test_loud() && at < strlen(lines[i].text))
            printf("    cut: %.*s | %s\n", (int)at, lines[i].text, lines[i].text + at);
    }
    for (i = 0; n_pool && i < HARD_PARAGRAPHS; i++) {
        int n_drawn = 3 + (int)random_below(HARD_MOST - 2);
        for (k = 0; k < n_drawn; k++) drawn[k] = pool[random_below((unsigned)n_pool)];
        hard_paragraph(drawn, n_drawn, gap, &counts);
    }
    k = sscanf(bar->text, "%d\t%d\t%d", &missed, &wrong, &most);
    CHECK(k == 3 && n_one && counts.missed <= missed && counts.wrong <= wrong && cut <= most,
          "%s: of %d ends %d missed and %d false, %d of %d single sentences cut; bars: %d, %d, %d",
          language, counts.gold, counts.missed, counts.wrong, cut, n_one, missed, wrong, most);
}

static void hard_sentences(void) {
    static hard_line lines[HARD_LINES];
    int i, n = hard_read(lines);
    SECTION("hard sentences");
    CHECK(n > 0 && n < HARD_LINES, n ? "" : "tests/data/sentences.tsv cannot be read");
    for (i = 0; i < n; i++)
        if (strcmp(lines[i].kind, "bar") == 0) hard_language(lines, n, &lines[i]);
}

static void any_bytes(void) {
    static const char *const parts[] = {
        ".",    "!",        "?",   "…",   "。",  "？", "」", "「",  "\"", "'",  "”",    "“",
        "»",    "«",        "(",   ")",   " ",   " ",  "\n", "\n",  "a",  "B",  "Dr",   "z.B",
        "3",    "12",       "Mai", "é",   "я",   "我", "と", "،",   ",",  "-",  "\x80", "\xE2\x80",
        "\xF0", "\xC2\xA0", "　",  "the", "The", "؟",  "।",  "etc", "\r", "\t", "X",    "IV"};
    char text[256];
    int round, sound = 1;
    size_t size, n, i;
    SECTION("any bytes");
    for (round = 0; sound && round < 200000; round++) {
        if (round % 2) {
            size = random_below(60);
            for (i = 0; i < size; i++) text[i] = (char)random_below(256);
        } else {
            for (size = 0, n = random_below(24); n; n--) {
                const char *part = parts[random_below(sizeof parts / sizeof *parts)];
                memcpy(text + size, part, strlen(part)), size += strlen(part);
            }
        }
        sound = is_sound(text, size);
        (void)tfm_space_after(tfm_text_make(text, size));
    }
    CHECK(sound, "200,000 random texts: every byte is in a sentence or whitespace between two");
    size = 0;
    CHECK(is_sound(NULL, 0), "no text");
}

static int space_after(const char *text) {
    return tfm_space_after(tfm_text_make(text, strlen(text)));
}

static void spaces(void) {
    SECTION("the space between sentences");
    CHECK(space_after("Hello."), "");
    CHECK(space_after("Привет!”"), "");
    CHECK(space_after("مرحبا."), "");
    CHECK(space_after("안녕."), "");
    CHECK(space_after("5.") && space_after(""), "");
    CHECK(!space_after("你好。"), "");
    CHECK(!space_after("你好!"), "");
    CHECK(!space_after("我爱Tom。"), "");
    CHECK(!space_after("สวัสดี"), "");
    CHECK(!space_after("はい"), "a full stop, or none, in eight scripts");
}

/* What goes between the translations of two sentences. */
static void between(void) {
    static const struct {
        const char *translation, *between, *expected;
    } cases[] = {{"Hello.", " ", " "},   {"Hello.", "", " "},    {"Hello.", "  ", "  "},
                 {"Hello.", "\n", "\n"}, {"你好。", " ", ""},    {"你好。", "", ""},
                 {"你好。", "\n", "\n"}, {"你好。", "　", "　"}, {"", "\t", "\t"}};
    int all = 1;
    size_t i;
    SECTION("between two translated sentences");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *said = cases[i].translation, *space = cases[i].between;
        tfm_text got = tfm_sentence_space(tfm_text_make(said, strlen(said)),
                                          tfm_text_make(space, strlen(space)));
        int good = got.size == strlen(cases[i].expected) &&
                   memcmp(got.data, cases[i].expected, got.size) == 0;
        all &= good;
        CHECK(good, good ? "" : "after '%s' and with '%s': expected '%s', got '%.*s'", said, space,
              cases[i].expected, (int)got.size, got.data);
    }
    CHECK(all, "whitespace of the source, or a space where the script has spaces");
}

static void arguments(void) {
    tfm_text text = {NULL, 0}, sentence = {"x", 1};
    size_t at = 0;
    SECTION("arguments");
    CHECK(!tfm_sentence_next(text, &at, &sentence) && tfm_space_after(text), "no text");
    text = tfm_text_make("A. B", 4), at = 9;
    CHECK(!tfm_sentence_next(text, &at, &sentence) && *sentence.data == 'x',
          "a place behind the text");
    at = 0;
    CHECK(!tfm_sentence_next(text, NULL, &sentence) && !tfm_sentence_next(text, &at, NULL) && !at,
          "NULL for the place or the sentence");
    CHECK(tfm_character_next("", 0, NULL) == 0, "no character");
}

int main(void) {
    CHECK_TEXTS(english);
    CHECK_TEXTS(german);
    CHECK_TEXTS(french);
    CHECK_TEXTS(spanish);
    CHECK_TEXTS(russian);
    CHECK_TEXTS(chinese);
    CHECK_TEXTS(japanese);
    CHECK_TEXTS(others);
    hard_sentences();
    spaces();
    between();
    arguments();
    any_bytes();
    return test_done("test_sentences");
}
