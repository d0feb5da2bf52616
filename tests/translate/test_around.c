/* Tests what around.h keeps around sentences and takes out of them, and that lines which only
   look as if they had a label stay as they are. */
#include "examples/translate/text/around.h"
#include "test.h"

/* Writes the pieces of a text: what is kept in braces, copied words in ~, parts of a long
   sentence with + behind. */
static void see(const char *text, size_t size, int flags, text_buffer *shown) {
    around_reader r;
    around_piece p;
    memset(&r, 0, sizeof r);
    r.text = text, r.size = size, r.flags = flags;
    text_buffer_clear(shown, 1 << 16);
    text_buffer_append(shown, "", 0);
    while (around_next(&r, &p)) {
        if (shown->size) text_buffer_append(shown, "|", 1);
        if (p.before) text_buffer_format(shown, "{%.*s}", (int)p.before, p.text - p.before);
        text_buffer_format(shown, p.is_copied ? "~%.*s~" : "%.*s", (int)p.size, p.text);
        if (p.after) text_buffer_format(shown, "{%.*s}", (int)p.after, p.text + p.size);
        if (p.is_divided) text_buffer_append(shown, "+", 1);
    }
}

static void pieces(void) {
    static const char *const cases[] = {
        /* bullets */
        "{- }Der Hund bellt.", "{• }Der Hund bellt.", "{•}Der Hund bellt.", "{– }Der Hund bellt.",
        "{— }The dog barks.", "{* }Der Hund bellt.", "{+ }Der Hund bellt.", "{# }Der Hund bellt.",
        "{## }Der Hund bellt.", "{> }Der Hund bellt.", "{>> }Der Hund bellt.",
        "{· }Der Hund bellt.", "{■ }Der Hund bellt.", "{▪\t}Der Hund bellt.", "{‣ }Der Hund bellt.",
        "{☐ }Der Hund bellt.", "{✓ }Der Hund bellt.", "{→ }Der Hund bellt.", "{★ }Der Hund bellt.",
        "{-\t}Der Hund bellt.", "{・}狗在叫。", "{● }狗在叫。", "{※}狗在叫。",
        /* numbers and letters */
        "{1. }Der Hund bellt.", "{12.\t}Der Hund bellt.", "{1) }Der Hund bellt.",
        "{1.) }Der Hund bellt.", "{(1) }Der Hund bellt.", "{[1] }Der Hund bellt.",
        "{[12] }The dog barks.", "{a) }Der Hund bellt.", "{B) }Der Hund bellt.",
        "{(c) }Der Hund bellt.", "{[d] }Der Hund bellt.", "{b. }Der Hund bellt.",
        "{A. }Das Haus ist alt.", "{A. }The house is old.", "{iv) }Der Hund bellt.",
        "{(iii) }Der Hund bellt.", "{III. }Der Hund bellt.", "{XIV. }Der Hund bellt.",
        "{1.2 }Der Hund bellt.", "{1.2.3 }Der Hund bellt.", "{1.2. }Der Hund bellt.",
        "{10.11 }The dog barks.", "{§ 5 }Der Hund bellt.", "{§5 }Der Hund bellt.",
        "{§ 5.1 }Der Hund bellt.", "{① }Der Hund bellt.", "{⑴}狗在叫。", "{1、}狗在叫。",
        "{1.}狗在叫。", "{（1）}狗在叫。", "{(1)}狗在叫。", "{１．}狗在叫。", "{一、}狗在叫。",
        "{（二）}狗在叫。", "{【1】}狗在叫。", "{1.2 }狗在叫。", "{- }狗在叫。", "{1. }狗在叫。",
        "{а) }Собака лает.", "{- (a) }Der Hund bellt.", "{1. • }Der Hund bellt.",
        "{1. }https://a.org/b?c=1", "{- }www.a.org", "{b. }max@a.org", "{1.2 }ftp://a.org/b",
        "{[12:30] }Der Hund bellt.", "{[2026-11-28 10:00:00] }Der Hund bellt.",
        /* notes and emoji */
        "{[lacht] }Ich gehe.", "{(seufzt) }Ich gehe.", "{[ERROR] }Der Hund bellt.",
        "{[笑] }我走了。", "{😀 }Der Hund bellt.", "{👍🏽 }Der Hund bellt.",
        "{♪ }Der Hund bellt{ ♪}", "Der Hund bellt{ 😀}", "Der Hund bellt.|{❤️}",
        "Der Hund bellt{ 👨‍👩‍👧 🎉}", "Der Hund bellt{ :-)}",
        "{\xEF\xBB\xBF- }Der Hund bellt.", "{# }Der Hund bellt{ #}",
        /* reference marks */
        "Der Hund bellt.{[1]}|Die Katze schläft.", "Der Hund bellt.{(1)}|Die Katze schläft.",
        "Der Hund bellt.{*}|Die Katze schläft.", "Der Hund bellt.{**}|Die Katze schläft.",
        "Der Hund bellt.{¹}|Die Katze schläft.", "Der Hund bellt.{¹²}|Die Katze schläft.",
        "Der Hund bellt.{[1][2]}|Die Katze schläft.", "Der Hund bellt!{[3, 4]}|Die Katze schläft.",
        "Der Hund bellt?{[a]}|Die Katze schläft.", "Der Hund bellt.{†}|Die Katze schläft.",
        "„Der Hund bellt.“{[1]}|Die Katze schläft.", "Der Hund bellt.{[Anm. 1]}",
        "Der Hund bellt.{ [1]}|Die Katze schläft.", "狗在叫。{[1]}|猫睡了。",
        "狗在叫。{¹}|猫睡了。", "狗在叫。{（1）}|猫睡了。", "Der Hund bellt.{*}",
        "Er kam, z. B.[1] gestern, an.", "Er kam am 1.[1] Mai an.",
        "Der Hund bellt.|{– }Die Katze schläft."};
    static const char *const cues[] = {
        "{ANNA: }Ich gehe.",      "{MANN 1: }Hast du es?", "{-UNA: }Ich habe es.",
        "{[Musik] }Ich gehe.",    "{(Lachen) }Ich gehe.",  "{-}Ich gehe.",
        "{（笑）}我走了。",       "Anna: ich gehe.",       "Achtung: Der Hund beißt.",
        "[Sie] geht nach Hause.", "-5 Grad sind kalt."};
    text_buffer shown;
    size_t i, k, n;
    char text[300];
    SECTION("pieces");
    memset(&shown, 0, sizeof shown);
    for (i = 0; i < sizeof cases / sizeof *cases + sizeof cues / sizeof *cues; i++) {
        const int is_cue = i >= sizeof cases / sizeof *cases;
        const char *each = is_cue ? cues[i - sizeof cases / sizeof *cases] : cases[i];
        for (k = n = 0; each[k]; k++) { /* "|" is a space in scripts that have them */
            if (each[k] == '|' && !strstr(each, "狗")) text[n++] = ' ';
            else if (!strchr("{}|", each[k])) text[n++] = each[k];
        }
        text[n] = 0;
        see(text, n, is_cue ? AROUND_CUES : 0, &shown);
        CHECK(strcmp(shown.data, each) == 0, "%s: %s", each, shown.data);
    }
    text_buffer_free(&shown);
}

/* Lines that only look as if something were around them. */
static void only_text(void) {
    static const char *const lines[] = {
        /* German */
        "1. max@a.org hat geschrieben.", "2. www.a.org ist zu.",
        "1.2 Millionen Menschen leben hier.", "2. Klasse ist billig.", "(Nicht) alle kommen.",
        "[Sie] geht nach Hause.", "Achtung: Der Hund beißt.", "- 5 Grad ist kalt.",
        "Die NATO ist alt.", "Die USA sind groß.", "1984 war ein gutes Jahr.", "5 Leute sind da.",
        "A ist größer als B.", "Nr. 5 lebt.", "3.5 Prozent sind viel.", "2.000 Menschen kamen.",
        "1. Mai ist ein Feiertag.", "3. Platz für unsere Mannschaft.", "1. FC Köln hat gewonnen.",
        "2. Weltkrieg und Folgen.", "4. Stock, dann links.", "1. Bundesliga beginnt heute.",
        "12. Dezember war es kalt.", "9. November ist ein wichtiger Tag.", "2. Versuch gelungen.",
        "5. Sinfonie von Beethoven.", "1. Vorsitzender ist Herr Müller.", "2. Halbzeit beginnt.",
        "3. Auflage ist vergriffen.", "1. Advent ist am Sonntag.", "Gegen 12.30 Uhr kam er.",
        "12.30 Uhr ist Mittag.", "8.15 Uhr fährt der Zug.", "1.5 Liter Wasser reichen.",
        "2.4 Kilogramm sind schwer.", "1.2 GB sind frei.", "2.0 TDI heißt der Motor.",
        "24.12.2020 war ein Donnerstag.", "z. B. Hunde bellen.", "d. h. er kommt nicht.",
        "u. a. kam Anna.", "i. d. R. kommt er.", "J. S. Bach schrieb Musik.",
        "A. Müller kommt morgen.", "C. Schmidt ist krank.", "I. Newton sah den Apfel.",
        "II. Weltkrieg endete 1945.", "S. Freud lebte in Wien.", "(Fast) alle Kinder spielen.",
        "(Un)bekannte Tiere leben hier.", "(Groß)Eltern kommen.", "[Er] kommt morgen.",
        "(Viele) kommen.", "Hinweis: Die Tür ist zu.", "Frage: Wo ist er?", "Anna: Ich gehe.",
        "Berlin: Es regnet.", "- 10 % sind wenig.", "– 3 Grad waren es.", "+ 20 Grad wären schön.",
        "-5 Grad sind kalt.", "+49 30 1234567 ist die Nummer.", "# 1 ist der Beste.",
        "#Berlin ist schön.", "* 1950 in Berlin.", "*Sie* kommt.", "> 5 Prozent sind viel.",
        "2 + 2 ist 4.", "3 - 1 ist 2.", "EU und USA verhandeln.", "BMW baut Autos.",
        "UNESCO und UNICEF helfen.", "ARD und ZDF senden.", "A4 ist voll.", "B2 ist ein Niveau.",
        "1 ist eine Zahl.", "100 Jahre sind lang.", "1,5 Millionen kamen.",
        "1.000.000 Euro sind viel Geld.", "2024 kam er.", "§ 5 regelt das.", "§ 5 BGB regelt das.",
        "§ 5 Absatz 2 gilt.", "§§ 5 und 6 gelten.", "Art. 5 gilt.", "Abb. 3 zeigt das.",
        "S. 5 zeigt das.", "Kap. 2 ist lang.", "Dr. Müller kommt.", "Prof. Dr. Klein spricht.",
        "St. Pauli spielt heute.", "Hbf. ist nah.", "1a Qualität.", "3D Filme sind schön.",
        "4x im Jahr kommt er.", "e-Mail ist schnell.", "x ist größer als y.",
        "Vitamin C ist gesund.", "Plan B hilft.", "Er ist (noch) da.", "Das ist [sic] falsch.",
        "a b c sind Buchstaben.", "24.12. ist Heiligabend.", "1.1. ist Neujahr.",
        /* English */
        "1.2 million people live here.", "2.5 percent is a lot.", "(Not) everyone comes.",
        "[She] goes home.", "Warning: the dog bites.", "- 5 degrees is cold.", "NATO is old.",
        "USA and Canada agree.", "1984 was a good year.", "5 people are here.",
        "A is larger than B.", "No. 5 is alive.", "I am here.", "A dog barks.",
        "I. Newton saw the apple.", "J. Smith comes tomorrow.", "U.S. troops left.",
        "Mr. Smith comes.", "e.g. dogs bark.", "i.e. he comes.", "2nd class is cheap.",
        "3 of them came.", "10 Downing Street is old.", "1,000 people came.", "3.14 is pi.",
        "2.0 GHz is fast.", "9/11 changed much.", "24/7 service is here.", "4K films are sharp.",
        "(Almost) all came.", "(Re)read the book.", "[They] left.", "Note: the door is closed.",
        "Anna: I am going.", "Q: Who is it?", "+ 20 would be nice.", "#1 is the best.",
        "# 1 is the best.", "> 5 is many.", "* 1950 in Berlin.", "Plan B helps.",
        "Vitamin C is good.", "X marks the spot.", "C is a language.", "D. Trump spoke.",
        "V. Putin spoke.", "Henry VIII. was king.", "p. 5 shows it.", "vs. them we lost.",
        "St. Paul is a city.",
        /* Chinese */
        "1.5亿人住在这里。", "1.2 亿人住在这里。", "3.5米高的墙。", "2.5 米高的墙。",
        "1984年是好年。", "5个人来了。", "（不）是所有人都来。", "[他]回家了。", "注意：狗咬人。",
        "安娜：我走了。", "一二三都是数字。", "一、二年级的学生来了。", "三、四月很冷。",
        "1、2号线停了。", "二十个人来了。", "十月很冷。", "3月5日他来了。", "A比B大。",
        "B计划很好。", "X光很有用。", "NATO很老。", "-5度很冷。", "- 5 度很冷。", "+20度很好。",
        "100年很长。", "2.0版本很好。", "第一，他来了。", "第1章很长。", "1号楼很高。",
        "7点他来了。", "12:30他来了。", "3:1赢了。", "50%的人来了。", "5G很快。", "4K电影很好。",
        "（北京）大学很大。", "[美]马克写了书。", "《书》很好看。", "“好”他说。", "你好，我来了。",
        "“你好”是问候。", "1/3的人来了。", "2024年他来了。", "9.11事件很大。", "3.8节到了。",
        "5.1放假。", "6.18打折。", "1+1等于2。", "3D打印很好。", "12月很冷。"};
    text_buffer shown;
    around_sentence s;
    size_t i, n = sizeof lines / sizeof *lines, changed = 0;
    SECTION("lines that only look like labels");
    memset(&shown, 0, sizeof shown), memset(&s, 0, sizeof s);
    for (i = 0; i < n; i++) {
        see(lines[i], strlen(lines[i]), 0, &shown);
        (void)around_take(&s, lines[i], strlen(lines[i]));
        if (strpbrk(shown.data, "{}~+") && !strchr(lines[i], '+'))
            printf("    %s\n", shown.data), changed++;
        else if (s.clean.size && strcmp(s.clean.data, lines[i]) != 0)
            printf("    %s\n", s.clean.data), changed++;
    }
    CHECK(n >= 200 && changed <= 1, "%zu of %zu lines change", changed, n);
    text_buffer_free(&shown), around_free(&s);
}

/* What the model gets of a sentence, and what comes out if it answers with an echo. */
static void inside(void) {
    static const struct {
        const char *text, *clean, *language, *out; /* out NULL: the text */
    } cases[] = {{"(Der Hund bellt.)", "Der Hund bellt.", NULL, NULL},
                 {"„Der Hund bellt.“", "Der Hund bellt.", NULL, "“Der Hund bellt.”"},
                 {"„Der Hund bellt“.", "Der Hund bellt.", "en", "“Der Hund bellt”."},
                 {"»Der Hund bellt.«", "Der Hund bellt.", "en", "“Der Hund bellt.”"},
                 {"« Le chien aboie. »", "Le chien aboie.", NULL, NULL},
                 {"« Le chien aboie. »", "Le chien aboie.", "de-DE", "„Le chien aboie.“"},
                 {"“The dog barks.”", "The dog barks.", "fr", "«\xC2\xA0The dog barks.\xC2\xA0»"},
                 {"“The dog barks.”", "The dog barks.", "sv", "”The dog barks.”"},
                 {"‚Der Hund bellt.‘", "Der Hund bellt.", NULL, "‘Der Hund bellt.’"},
                 {"「狗在叫。」", "狗在叫。", NULL, "“狗在叫。”"},
                 {"『狗在叫。』", "狗在叫。", "ja", "『狗在叫。』"},
                 {"（狗在叫。）", "狗在叫。", NULL, NULL},
                 {"(狗在叫。)", "狗在叫。", NULL, "（狗在叫。）"},
                 {"（Der Hund bellt.）", "Der Hund bellt.", NULL, "(Der Hund bellt.)"},
                 {"【Der Hund bellt】", "Der Hund bellt", NULL, "[Der Hund bellt]"},
                 {"\"Der Hund bellt.\"", "Der Hund bellt.", NULL, NULL},
                 {"(„Der Hund bellt.“)", "Der Hund bellt.", NULL, "(“Der Hund bellt.”)"},
                 {"*Der Hund bellt.*", "Der Hund bellt.", NULL, NULL},
                 {"„Ja“, sagte er, „nein“", "„Ja“, sagte er, „nein“", NULL, NULL},
                 {"(Der) Hund (bellt)", "(Der) Hund (bellt)", NULL, NULL},
                 {"\"Ja\" und \"Nein\"", "\"Ja\" und \"Nein\"", NULL, NULL},
                 {"Der Hund[1].", "Der Hund.", NULL, NULL},
                 {"Der Hund[1][2]!", "Der Hund!", NULL, NULL},
                 {"Der Hund (1).", "Der Hund (1).", NULL, NULL},
                 {"Ver\xC2\xADspä\xC2\xADtung", "Verspätung", NULL, "Verspätung"},
                 {"Der \xE2\x81\xA8Hund\xE2\x81\xA9 bellt", "Der Hund bellt", NULL, NULL},
                 {"\xE2\x81\xA8"
                  "Der Hund\xE2\x81\xA9",
                  "Der Hund", NULL, NULL},
                 {"Ver\xE2\x80\x8Bspätung\xEF\xBB\xBF", "Verspätung", NULL, "Verspätung"},
                 {"می\xE2\x80\x8Cروم", "می\xE2\x80\x8Cروم", NULL, NULL},
                 {"क्\xE2\x80\x8Dष", "क्\xE2\x80\x8Dष", NULL, NULL},
                 {"Der ❤️ bellt", "Der ❤️ bellt", NULL, NULL},
                 {"DER HUND BELLT LAUT.", "Der hund bellt laut.", NULL, NULL},
                 {"„ÜBER DIE STRAẞE“", "Über die straße", NULL, "“ÜBER DIE STRASSE”"},
                 {"NATO UND EU", "Nato und eu", NULL, NULL},
                 {"NATO", "NATO", NULL, NULL},
                 {"USA EU", "USA EU", NULL, NULL}};
    around_sentence s;
    text_buffer out;
    size_t i, k;
    SECTION("inside");
    memset(&s, 0, sizeof s), memset(&out, 0, sizeof out);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *wanted = cases[i].out ? cases[i].out : cases[i].text;
        size_t ends[100], begins[100], source_ends[100], n = 0, c, at = 0;
        int is_made = around_take(&s, cases[i].text, strlen(cases[i].text)), good = 1;
        uint32_t character;
        CHECK(is_made && strcmp(s.clean.data, cases[i].clean) == 0, "%s: %s", cases[i].text,
              s.clean.data ? s.clean.data : "");
        for (k = 0; k < s.clean.size; n++) { /* each character is a token */
            begins[n] = k;
            k += tfm_character_next(s.clean.data + k, s.clean.size - k, &character);
            ends[n] = source_ends[n] = k;
        }
        out.size = 0;
        around_put(&s, s.clean.data, s.clean.size, n, ends, begins, source_ends, cases[i].language,
                   &out);
        CHECK(strcmp(out.data, wanted) == 0, "  gives %s, not %s", out.data, wanted);
        for (k = 0; k < n; k++) { /* the tokens have the places of their characters */
            good &= ends[k] <= out.size && begins[k] < source_ends[k] && source_ends[k] <= s.size &&
                    (!k || (ends[k - 1] <= ends[k] && begins[k - 1] < begins[k]));
            c = source_ends[k] - begins[k];
            if (!s.capitals && k + 1 < n) /* and their letters */
                good &= memcmp(s.text + begins[k], s.clean.data + at, c) == 0;
            at += c;
        }
        CHECK(good && (!n || ends[n - 1] == out.size), "  with the places of its tokens");
        out.size = 0;
        around_put(&s, s.clean.data, s.clean.size, 0, NULL, NULL, NULL, cases[i].language, &out);
        CHECK(s.unseen.size || strcmp(out.data, wanted) == 0, "  also without an alignment");
    }
    CHECK(!around_take(&s, "12 + 5 = 17 😀", 17), "a text without letters is no sentence");
    CHECK(!around_take(&s, "https://a.org/b?c=1", 19) && !around_take(&s, "(max@a.org)", 11) &&
              !around_take(&s, "www.a.org", 9),
          "nor is an address");
    CHECK(around_take(&s, "Siehe www.a.org", 15) && around_take(&s, "www.a.org ist gut.", 18) &&
              around_take(&s, "A/B/C", 5) && around_take(&s, "a@b", 3),
          "a sentence with an address is one");
    around_free(&s), text_buffer_free(&out);
}

/* A vocabulary that knows some words with a capital letter only, as one token. */
static int32_t count_tokens(void *user, const char *word, size_t size) {
    static const char known[] = " Hund Straße Über der bellt auf die läuft über ";
    ++*(int *)user;
    return characters_list_has(known, word, size) ? 1 : 2;
}

static void capitals(void) {
    static const char text[] = "DER HUND LÄUFT ÜBER DIE STRAẞE.";
    around_sentence s;
    int calls = 0;
    SECTION("capitals");
    memset(&s, 0, sizeof s);
    CHECK(around_take(&s, text, strlen(text)) && s.capitals, "capitals are found");
    around_capitalize(&s, count_tokens, &calls);
    CHECK(strcmp(s.clean.data, "Der Hund läuft über die Straße.") == 0 && calls == 10,
          "%s, %d calls", s.clean.data, calls);
    CHECK(around_take(&s, "Der hund bellt.", 15) && !s.capitals, "a sentence in small letters");
    calls = 0, around_capitalize(&s, count_tokens, &calls);
    CHECK(strcmp(s.clean.data, "Der hund bellt.") == 0 && calls == 0, "  stays");
    around_free(&s);
}

/* Sentences without an end are divided, and nothing of a text is lost, whatever its bytes are. */
static void lengths(void) {
    static const char *const units[] = {
        "und ein Hund, ", "ab3f 99 ", "我是学生，", "- ",           "x",        "1 ", "(",   "„",
        "a.[1] ",         "1! ",      "* ",         "\xE2\x81\xA8", "\xC2\xAD", ".",  "\xFF"};
    enum { SIZE = 20000 };
    char *text = (char *)malloc(SIZE + 20);
    size_t i, k, n, seen, end, longest, round = 1;
    around_reader r;
    around_piece p;
    around_sentence s;
    SECTION("without end");
    memset(&s, 0, sizeof s);
    for (i = 0; i < 40; i++) {
        for (n = 0; n < SIZE;) {
            const char *unit =
                units[i < 15 ? i : (round = round * 1103515245 + 12345, round >> 16) % 15];
            memcpy(text + n, unit, strlen(unit)), n += strlen(unit);
        }
        memset(&r, 0, sizeof r);
        r.text = text, r.size = n;
        for (seen = end = longest = 0; around_next(&r, &p); seen++) {
            const size_t begin = (size_t)(p.text - text);
            size_t weight = p.is_copied ? 0 : around_weight(p.text, p.size, (size_t)-1, &k);
            if (begin - p.before < end || begin + p.size + p.after > n) break;
            for (k = end; k < begin - p.before; k++)
                if (!strchr(" \n", text[k])) break;
            if (k < begin - p.before) break;
            if (weight > longest && around_has_letter(p.text, p.size)) longest = weight;
            end = begin + p.size + p.after;
            if (around_take(&s, p.text, p.size) && s.clean.broken) break;
            if (seen > n) break;
        }
        while (end < n && strchr(" \n", text[end])) end++;
        CHECK(end == n && longest <= AROUND_MOST + 40, "%zu: %zu pieces, the longest %zu", i, seen,
              longest);
    }
    free(text), around_free(&s);
}

/* A piece ends between characters, also behind one whose last byte looks like a space: A0 or 85. */
static void borders(void) {
    static const char *const units[] = {"voilà ", "Å ", "a\xC2\xA0 ", "Ġ "};
    char text[8000];
    size_t i, n, k;
    int flags;
    SECTION("ends of pieces");
    for (i = 0; i < 4; i++)
        for (flags = 0; flags <= AROUND_ONE; flags += AROUND_ONE) {
            around_reader r;
            around_piece p;
            for (n = 0; n < sizeof text - 20; n += strlen(units[i]))
                memcpy(text + n, units[i], strlen(units[i]));
            memset(&r, 0, sizeof r);
            r.text = text, r.size = n, r.flags = flags;
            for (k = 0; around_next(&r, &p); k++) {
                const size_t end = (size_t)(p.text - text) + p.size;
                const size_t last = strlen(units[i]) - 1; /* the bytes of a word */
                if (end % (last + 1) != (i == 2 ? 1 : last)) break;
            }
            CHECK(r.at + 4 >= n && (flags ? k == 1 : k > 1), "%zu %d: %zu pieces", i, flags, k);
        }
}

int main(void) {
    borders();
    pieces();
    only_text();
    inside();
    capitals();
    lengths();
    return test_done("test_around");
}
