/* Tests which sentences languages.h takes for sentences of the language of their translation. */
#include "examples/translate/text/languages.h"
#include "test.h"

/* Whether a source stays whose copy and whose translation have these scores a character. */
static int stays(int level, double copy, double translation) {
    languages_look look;
    look.level = level, look.score = translation, look.characters = 1;
    return languages_stays(&look, copy);
}

static void suspects(void) {
    static const struct {
        int level;
        const char *source, *translation;
        double score;
    } cases[] = {
        {0, "Der Hund bellt in der Nacht.", "The dog is barking at night.", -5},
        {3, "The dog is barking in the garden.", "He is doing that in the evening.", -9},
        {2, "She sings.", "She is singing.", -2},
        {1, "Tom lachte.", "Tom was laughing.", -2},
        {1, "Tom hatte Hunger.", "Tom was hungry.", -2}, /* "was" is German, too */
        {0, "Tom lächelte.", "Tom was smiling.", -2},    /* English has no such letter */
        {1, "Tom flipped.", "Tom flippte.", -9},
        {0, "Tom flipped.", "Tom flippte.", -1}, /* the model is sure */
        {0, "他在家里。", "He is at home.", -2},
        {3, "Le chat est sur la table et il dort.", "Le chien est dans la maison.", -9},
        {0, "Le chat est sur la table.", "The cat is on the table.", -3},
        {0, "Это мой дом, и я в нём живу.", "This is my house and I live in it.", -3},
        {3, "Это мой дом, и я в нём не был.", "Он не был в доме и это так.", -9},
        {3, "I don\xE2\x80\x99t know what you're doing here.", "I don't do what is not here.", -9},
        {0, "Ja.", "Yes.", -1},              /* one word says little */
        {2, "Ja, Maria.", "Yes, Mary.", -2}, /* "ja" may be a word of the target language */
        {0, "", "", 0},
        {0, "Hund", "", 0}};
    languages_table *table = (languages_table *)malloc(sizeof *table);
    size_t i, used, characters[2];
    SECTION("suspects");
    languages_begin(table);
    for (i = used = 0; i < LANGUAGES_SLOTS; i++) used += table->words[i] != 0;
    CHECK(used > 500 && used < LANGUAGES_SLOTS / 2, "the table has room: %zu words", used);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *source = cases[i].source, *text = cases[i].translation;
        int level = languages_suspect(table, source, strlen(source), text, strlen(text),
                                      cases[i].score, characters);
        CHECK(level == cases[i].level, "%s: %d, not %d", source, level, cases[i].level);
    }
    (void)languages_suspect(table, "Äöü 我", strlen("Äöü 我"), "ab", 2, 0, characters);
    CHECK(characters[0] == 5 && characters[1] == 2, "characters are counted");
    CHECK(stays(1, -0.5, -0.2) && !stays(1, -1.5, -0.2) && stays(2, -1.3, -0.2) &&
              !stays(2, -1.5, -0.2) && stays(2, -1.5, -0.5) && stays(3, -2.0, -0.2) &&
              !stays(3, -2.2, -0.2) && !stays(0, -0.1, -0.2),
          "the model's scores decide");
    free(table);
}

/* Scores of length penalties are of all tokens again; tokens that the model does not know. */
static void looks(void) {
    static const char source[] = "This is not what I was told.", text[] = "This is not it.";
    static const int32_t ids[] = {5, 1, 6, 1};
    static const tfm_span spans[] = {{0, 2}, {2, 5}, {5, 9}, {9, 11}};
    languages_table *table = (languages_table *)malloc(sizeof *table);
    languages_look look;
    SECTION("looks");
    languages_begin(table);
    CHECK(languages_suspects(&look, table, NULL, source, strlen(source), text, strlen(text), -2, 4,
                             0.5),
          "a source in the language of its translation");
    CHECK(look.score == -4.0 / 15 && look.characters == 28, "%g for each of %g characters",
          look.score, look.characters);
    CHECK(languages_suspects(&look, table, NULL, source, strlen(source), text, strlen(text), -3, 4,
                             0) &&
              look.score == -3.0 / 15,
          "no penalty: %g", look.score);
    CHECK(!languages_is_unknown(ids, spans, 4, 1, 10) && languages_is_unknown(ids, spans, 4, 1, 9),
          "5 bytes of 10 and of 9");
    free(table);
}

/* A source in Latin letters is no sentence of a language with a script of its own. */
static void scripts(void) {
    static const struct {
        const char *language, *source;
        int is_latin;
    } cases[] = {{"zh", "Sit tight.", 1},
                 {"zh-TW", "\xE2\x80\x9CJe suis l\xC3\xA0.\xE2\x80\x9D \xF0\x9F\x98\x80", 1},
                 {"zh", "我用iPhone。", 0},
                 {"zh", "2026, 12 %", 0},
                 {"ja", "テレビ", 0},
                 {"ru", "Windows XP", 1},
                 {"rus_Cyrl", "Tom.", 1},
                 {"ru", "Том", 0},
                 {"el", "Γ Tom", 0},
                 {"de", "Sit tight.", 0},
                 {"sr", "Dobar dan.", 0},
                 {"", "Sit tight.", 0},
                 {NULL, "Sit tight.", 0}};
    languages_table *table = (languages_table *)malloc(sizeof *table);
    languages_look look;
    size_t i;
    SECTION("scripts");
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(languages_is_latin(cases[i].language, cases[i].source, strlen(cases[i].source)) ==
                  cases[i].is_latin,
              "%s: %s", cases[i].language ? cases[i].language : "(none)", cases[i].source);
    languages_begin(table);
    CHECK(languages_suspects(&look, table, "zh", "Sit tight.", 10, "Sittigth.", 9, -0.1, 3, 0) &&
              languages_stays(&look, -1e9),
          "it stays whatever the model finds");
    free(table);
}

int main(void) {
    scripts();
    suspects();
    looks();
    return test_done("test_languages");
}
