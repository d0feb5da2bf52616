/* around.h: keeps what people write around a sentence away from the model: labels of lists,
   speakers, notes, reference marks, emoji, brackets, quotation marks and characters that nobody
   sees.

       around_reader r = {text, size, flags};
       around_piece piece;
       while (around_next(&r, &piece))
           ... piece.text [piece.size] is a sentence; piece.before bytes in front of it and
           piece.after bytes behind it stay as they are

       around_sentence s = {0};
       if (around_take(&s, piece.text, piece.size)) ... translate s.clean
       around_put(&s, translation, size, n, ends, begins, source_ends, language, &out);
       around_free(&s);

   around_next finds sentences as tfm_sentence_next does, and also behind a reference mark (One.[1]
   Two). It divides a sentence that is longer than AROUND_MOST. around_take changes the sentence
   itself: brackets and quotation marks around all of it, characters that nobody sees, and a
   sentence in capitals.

   To teach another label or mark, add a row to around_labels or around_marks. */
#ifndef AROUND_H
#define AROUND_H

#include "protect.h"

/* What is read, for the flags of around_reader and around_take. */
enum {
    AROUND_CUES =
        1, /* subtitles: speakers (ANNA: ), notes in any case ([Musik] ), dashes without a space */
    AROUND_ONE = 2 /* the text is one sentence, whatever is in it */
};

/* The largest weight of a sentence. A weight is about a token of a model: around_weight. */
enum { AROUND_MOST = 256, AROUND_WORD = 200 };

typedef struct around_reader {
    const char *text;
    size_t size;
    int flags;
    /* below: around_next's own */
    size_t at;      /* the text is read up to this byte */
    size_t end;     /* the end of the sentence that is being read, if it is beyond `at` */
    size_t clear;   /* up to this byte no sentence ends with a reference mark */
    size_t parts;   /* parts into which the rest of that sentence is divided; 0: not computed yet */
    size_t weight;  /* the weight of each part */
    int is_divided; /* one of these parts was returned */
} around_reader;

typedef struct around_piece {
    const char *text;
    size_t size;          /* 0: there is nothing to translate */
    size_t before, after; /* bytes in front of it and behind it that are kept */
    int is_divided;       /* this is the first part with letters of a sentence that is too long */
    int is_copied;        /* a word that is too long for a word, or data: it is kept */
} around_piece;

/* ---- characters ------------------------------------------------------------------------------ */

/* Returns whether nobody sees a character: Unicode's Default_Ignorable_Code_Point. */
static inline int around_is_unseen(uint32_t c) {
    static const uint32_t ranges[][2] = {{0xAD, 0xAD},       {0x34F, 0x34F},    {0x61C, 0x61C},
                                         {0x115F, 0x1160},   {0x17B4, 0x17B5},  {0x180B, 0x180F},
                                         {0x200B, 0x200F},   {0x202A, 0x202E},  {0x2060, 0x206F},
                                         {0x3164, 0x3164},   {0xFE00, 0xFE0F},  {0xFEFF, 0xFEFF},
                                         {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFF8},  {0x1BCA0, 0x1BCA3},
                                         {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
    size_t i;
    if (c < 0xAD) return 0;
    for (i = 0; i < sizeof ranges / sizeof *ranges && c > ranges[i][1];) i++;
    return i < sizeof ranges / sizeof *ranges && c >= ranges[i][0];
}

/* Returns whether a character only says in which direction text is written. */
static inline int around_is_direction(uint32_t c) {
    return c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x206F);
}

/* Returns the ASCII character for which a character stands in a rule: ( for （, [ for 【, 1 for １;
   any other character as it is. */
static uint32_t around_plain(uint32_t c) {
    if (c >= 0xFF01 && c <= 0xFF5E) return c - 0xFEE0;
    if (c == 0x3010 || c == 0x3014) return '[';
    if (c == 0x3011 || c == 0x3015) return ']';
    if (c == 0x3001) return ',';
    return c;
}

/* Returns the value of a digit in any of the common scripts, or -1. */
static int around_digit(uint32_t c) {
    static const uint32_t zeros[] = {'0', 0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10};
    size_t i;
    for (i = 0; i < sizeof zeros / sizeof *zeros; i++)
        if (c >= zeros[i] && c < zeros[i] + 10) return (int)(c - zeros[i]);
    return -1;
}

/* Returns whether a character is a letter of any script. */
static int around_is_letter(uint32_t c) {
    if (c < 0x250) return character_case(c) != 0 || c == 0xAA || c == 0xBA;
    if (around_digit(c) >= 0 || around_is_unseen(c)) return 0;
    if (c == 0xFFFD) return 1; /* no UTF-8, which the model refuses with a message */
    return !(c >= 0x2000 && c < 0x2C00) && !(c >= 0x2E00 && c < 0x2E80) &&
           !(c >= 0x3000 && c < 0x3005) && !(c >= 0x3008 && c < 0x3021) && c != 0x30FB &&
           !(c >= 0xE000 && c < 0xF900) && !(c >= 0xFE10 && c < 0xFE70) &&
           !(c >= 0xFF00 && c < 0xFF21) && !(c >= 0xFF3B && c < 0xFF41) &&
           !(c >= 0xFF5B && c < 0xFF66) && !(c >= 0xFFE0 && c < 0x10000) &&
           !(c >= 0x1F000 && c < 0x20000) && c < 0xE0000;
}

/* Returns whether a text has a letter of any script. */
static inline int around_has_letter(const char *text, size_t size) {
    size_t i;
    uint32_t c;
    for (i = 0; i < size;) {
        i += tfm_character_next(text + i, size - i, &c);
        if (around_is_letter(c)) return 1;
    }
    return 0;
}

/* Returns whether a character is a bullet that is nothing else, or an emoji or another symbol. */
static int around_is_symbol(uint32_t c) {
    return c == 0x2022 || c == 0x2023 || c == 0x203B || c == 0x2043 || c == 0x204C || c == 0x204D ||
           c == 0x2219 || c == 0x22C5 || c == 0x30FB || (c >= 0x2190 && c <= 0x21FF) ||
           (c >= 0x231A && c <= 0x23FF) || (c >= 0x25A0 && c <= 0x2775) ||
           (c >= 0x2794 && c <= 0x27BF) || (c >= 0x2900 && c <= 0x297F) ||
           (c >= 0x2B00 && c <= 0x2BFF) || (c >= 0x1F000 && c <= 0x1FAFF);
}

/* Returns the bytes of the symbols that begin a text, with what belongs to them, such as a
   skin's colour. */
static size_t around_symbols(const char *text, size_t size) {
    size_t i = 0, n, end = 0;
    uint32_t c;
    for (; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (around_is_symbol(c)) end = i + n;
        else if (end && (around_is_unseen(c) || c == 0x20E3)) end = i + n;
        else break;
    }
    return end;
}

/* Returns the bytes of the spaces that begin a text; not those of line breaks. */
static size_t around_spaces(const char *text, size_t size) {
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (!character_is_space(c) || c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029) break;
    }
    return i;
}

/* ---- what a label may not be followed by
   ------------------------------------------------------- */

/* Nouns behind an ordinal number at the begin of a sentence, also as the last part of a longer
   word: 2. Klasse ist billig. */
static const char around_ordinals[] =
    " Januar Jänner Februar Feber März April Mai Juni Juli August September Oktober November "
    "Dezember"
    " Advent Weihnachtstag Ostertag Geburtstag Jahrestag Hochzeitstag Jahrhundert Jahrtausend "
    "Jahrzehnt"
    " Jahr Halbjahr Quartal Monat Woche Tag Stunde Minute Sekunde Semester Trimester Schuljahr "
    "Lebensjahr"
    " Weltkrieg Kreuzzug Republik Reich Weltkongress Parteitag Kongress Klasse Klassen Liga "
    "Bundesliga"
    " Regionalliga Kreisliga FC SC SV VfL TSV Platz Plätze Rang Stelle Preis Sieger Sieg Sieger "
    "Siegerin"
    " Halbzeit Spieltag Runde Spiel Satz Set Tor Etappe Lauf Rennen Versuch Durchgang Stock "
    "Stockwerk Etage"
    " Obergeschoss Untergeschoss OG UG Reihe Kapitel Teil Band Akt Szene Strophe Vers Absatz "
    "Abschnitt"
    " Artikel Auflage Ausgabe Staffel Folge Episode Sinfonie Symphonie Konzert Sonate Geige Stimme"
    " Bürgermeister Bürgermeisterin Vorsitzender Vorsitzende Vorstand Offizier Person Generation "
    "Hälfte"
    " Drittel Viertel Gebot Grad Ordnung Dimension Stufe Phase Wahl Wahlgang Hand Rate Mahnung "
    "Lesung"
    " Mannschaft Division Armee Bezirk Senat Kammer Instanz Gang Geschoss Geburt Ehe Frau Mann "
    "Kind Mal"
    " Bundespräsident Präsident Kanzler Sonntag Montag Dienstag Mittwoch Donnerstag Freitag "
    "Samstag ";
/* What is counted or measured behind a number with a stop: 1.2 Millionen. */
static const char around_units[] = " Million Millionen Milliarde Milliarden Billionen Tausend "
                                   "Hundert Prozent Promille Prozentpunkte Mio"
                                   " Mrd Tsd Meter Metern Kilometer Kilometern Zentimeter "
                                   "Millimeter Quadratmeter Kubikmeter Hektar Liter"
                                   " Litern Gramm Kilo Kilogramm Tonnen Pfund Zentner Euro Dollar "
                                   "Franken Cent Rubel Yen Grad Uhr Stunde"
                                   " Stunden Minuten Sekunden Tage Tagen Wochen Monate Monaten "
                                   "Jahre Jahren Watt Kilowatt Volt Ampere Zoll"
                                   " Seiten Punkte Punkten Sterne Kinder Kindern Personen Menschen "
                                   "Einwohner Leute Stück Mal Gigabyte Megabyte"
                                   " Kilowattstunden Megawatt Hertz Kilohertz Megahertz Gigahertz "
                                   "Kalorien Prozentpunkten Bar Grad Zehntel ";
/* Signs of measures in Chinese and Japanese. */
static const char around_measures[] =
    "万亿千百十个人米公里厘毫斤克吨元块年月日号级倍折分秒点度位名升次天岁种条"
    "萬億個兆円回歳";
/* Words that begin sentences and are no names: A. Das Haus, but A. Müller. */
static const char around_starters[] =
    " Der Die Das Den Dem Ein Eine Einen Er Sie Es Wir Ich Ihr Mein Meine Unser Unsere Dieser "
    "Diese Dieses"
    " Wer Was Wo Wie Wann Warum In Im Am Auf Aus Bei Mit Nach Von Zu Für Alle Kein Keine Jeder "
    "Wenn Man"
    " The An He She It We You They My Our Your His Her Their This That These Those There What "
    "Where When Why"
    " How If Le La Les Un Une Des Il Elle Nous Vous Ils El Los Las Una Uno Lo Gli Het De Een ";
/* Words that begin a part of a law's number: § 5 Absatz 2. */
static const char around_law[] =
    " Abs Absatz Satz Nr Nummer Ziffer Buchstabe Halbsatz Unterabsatz ";

/* Returns whether a list has a word, or a word that is the last part of this one. */
static int around_list_ends(const char *list, const char *word, size_t size) {
    size_t i;
    uint32_t c;
    if (characters_list_has(list, word, size)) return 1;
    for (i = 3; i + 2 < size; i++) { /* Handelsklasse: the part begins with a small letter */
        char part[64];
        size_t n = size - i;
        if (n >= sizeof part || (unsigned char)word[i] >= 0x80) continue;
        (void)tfm_character_next(word + i, n, &c);
        if (character_case(c) >= 0 || n < 4) continue;
        memcpy(part, word + i, n), part[0] = (char)(word[i] - 32);
        if (characters_list_has(list, part, n)) return 1;
    }
    return 0;
}

/* Returns the bytes of the letters that begin a text. */
static size_t around_word(const char *text, size_t size) {
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (!around_is_letter(c)) break;
    }
    return i;
}

/* Returns whether a word is an abbreviation: of its up to five letters two are capitals (GHz,
   BGB), or more and all are. */
static int around_is_abbreviation(const char *text, size_t size) {
    size_t i, letters = 0, capitals = 0;
    uint32_t c;
    for (i = 0; i < size; letters++) {
        i += tfm_character_next(text + i, size - i, &c);
        capitals += character_case(c) > 0;
    }
    return capitals > 1 && (letters < 6 || capitals == letters);
}

/* What follows a label, for the rows of around_labels. */
enum {
    AROUND_NOT_DIGIT = 1,
    AROUND_NOT_SMALL = 2,     /* no small letter */
    AROUND_NOT_ORDINAL = 4,   /* no noun behind an ordinal number */
    AROUND_NOT_UNIT = 8,      /* nothing that is counted */
    AROUND_NOT_CAPITALS = 16, /* no abbreviation in capitals */
    AROUND_NOT_INITIAL = 32,  /* no single letter with a stop: z. B. */
    AROUND_NOT_LAW = 64,
    AROUND_STARTER = 128,    /* one of around_starters, or a letter of a script without case */
    AROUND_ONLY_CUES = 256,  /* the rule holds for subtitles only */
    AROUND_NOT_NUMERAL = 512 /* no Chinese number: 一、二年级 */
};

static int around_is_numeral(uint32_t c) {
    return protect_in("", c) ||
           (c >= 0x4E00 &&
            (c == 0x4E00 || c == 0x4E8C || c == 0x4E09 || c == 0x56DB || c == 0x4E94 ||
             c == 0x516D || c == 0x4E03 || c == 0x516B || c == 0x4E5D || c == 0x5341));
}

/* Returns whether a text may follow a label. */
static int around_may_follow(const char *text, size_t size, int rules) {
    uint32_t c = 0;
    size_t n = size ? tfm_character_next(text, size, &c) : 0, word;
    if (!n || character_is_space(c)) return 0;
    word = around_word(text, size);
    if (rules & AROUND_NOT_DIGIT && around_digit(c) >= 0) return 0;
    if (rules & AROUND_NOT_SMALL && character_case(c) < 0) return 0;
    if (rules & AROUND_NOT_NUMERAL && (around_is_numeral(c) || around_digit(c) >= 0)) return 0;
    if (rules & AROUND_NOT_ORDINAL && around_list_ends(around_ordinals, text, word)) return 0;
    if (rules & AROUND_NOT_UNIT && around_list_ends(around_units, text, word)) return 0;
    if (rules & AROUND_NOT_UNIT && c >= 0x3000) {
        const char *at = around_measures;
        for (; *at; at += 3)
            if (n == 3 && memcmp(at, text, 3) == 0) return 0;
    }
    if (rules & AROUND_NOT_CAPITALS && around_is_abbreviation(text, word)) return 0;
    if (rules & AROUND_NOT_INITIAL && word == n && size > n && text[n] == '.') return 0;
    if (rules & AROUND_NOT_LAW && characters_list_has(around_law, text, word)) return 0;
    if (rules & AROUND_STARTER && character_case(c) &&
        !characters_list_has(around_starters, text, word))
        return 0;
    return 1;
}

/* ---- rules
   --------------------------------------------------------------------------------------- */

/* A rule is a pattern, and what may not follow. In a pattern a capital is a class:
     N a number of at most three digits     V a number with stops: 1.2 1.2.3 1.2.
     A a letter    B one of a to k           R a Roman number of several letters
     C a Chinese number                      O a number in a circle: ① ⑴ ❶
     D a dash or another sign that is a bullet only before a space: - * + # > · ~
     S symbols: • ■ ☐ ✓ → and emoji          U raised digits
     T a time or a date: digits with : . - /
     W small words, or a word in capitals    X words in any case, or signs of Chinese
     P a speaker in capitals                 M what a reference mark has in its brackets
     _ whitespace, which may lack before scripts without spaces      ~ whitespace or nothing
   A space is whitespace.
   All other characters stand for themselves and for their wide forms. The first row that matches
   counts. */
typedef struct around_rule {
    const char *pattern;
    int rules;
} around_rule;

static const around_rule around_labels[] = {
    {"D_", AROUND_NOT_DIGIT},
    {"--_", AROUND_NOT_DIGIT},
    {">>_", 0},
    {">>>_", 0},
    {"##_", 0},
    {"###_", 0},
    {"####_", 0},
    {"-", AROUND_ONLY_CUES | AROUND_NOT_DIGIT | AROUND_NOT_SMALL},
    {"S~", 0},
    {"O~", 0},
    {"N._", AROUND_NOT_SMALL | AROUND_NOT_ORDINAL | AROUND_NOT_DIGIT},
    {"N,", AROUND_NOT_NUMERAL}, /* only 1、: see around_match */
    {"N)_", 0},
    {"N.)_", 0},
    {"(N)_", AROUND_NOT_SMALL},
    {"(N.)_", AROUND_NOT_SMALL},
    {"[N]_", 0},
    {"A)_", 0},
    {"(A)_", 0},
    {"[A]_", 0},
    {"B._", AROUND_NOT_SMALL | AROUND_NOT_INITIAL | AROUND_NOT_DIGIT},
    {"A._", AROUND_STARTER | AROUND_NOT_INITIAL | AROUND_NOT_DIGIT},
    {"R._", AROUND_NOT_SMALL | AROUND_NOT_ORDINAL},
    {"R)_", 0},
    {"(R)_", 0},
    {"C,", AROUND_NOT_NUMERAL},
    {"(C)~", 0},
    {"V ", AROUND_NOT_SMALL | AROUND_NOT_DIGIT | AROUND_NOT_UNIT | AROUND_NOT_CAPITALS},
    {"V)_", 0},
    {"§~N ", AROUND_NOT_SMALL | AROUND_NOT_DIGIT | AROUND_NOT_CAPITALS | AROUND_NOT_LAW},
    {"§~V ", AROUND_NOT_SMALL | AROUND_NOT_DIGIT | AROUND_NOT_CAPITALS | AROUND_NOT_LAW},
    {"[T]_", 0},
    {"(T)_", AROUND_NOT_SMALL},
    {"[W] ", AROUND_NOT_SMALL},
    {"(W) ", AROUND_NOT_SMALL},
    {"[X]~", AROUND_ONLY_CUES | AROUND_NOT_SMALL},
    {"(X)~", AROUND_ONLY_CUES | AROUND_NOT_SMALL},
    {"P:_", AROUND_ONLY_CUES | AROUND_NOT_SMALL}};

/* Reference marks behind a stop. */
static const around_rule around_marks[] = {{"[M]", 0}, {"(N)", 0}, {"(A)", 0}, {"(*)", 0},
                                           {"*", 0},   {"U", 0},   {"†", 0},   {"‡", 0},
                                           {"¶", 0},   {"↑", 0}};

enum { AROUND_LONGEST = 48 }; /* bytes of a class */

/* Returns the bytes of a Roman number of several letters that begins a text, in one case. */
static size_t around_roman(const char *text, size_t size) {
    size_t n = 0;
    const char *set = size && text[0] >= 'a' ? "ivxlc" : "IVXLC";
    while (n < size && n < 8 && protect_in(set, (unsigned char)text[n])) n++;
    return n > 1 && !(n < size && protect_is_word((unsigned char)text[n])) ? n : 0;
}

/* Returns the bytes of words in brackets that begin a text: all before the closing bracket. any:
   in any case; otherwise each word is in small letters, or there is one word in capitals behind
   [. */
static size_t around_note(const char *text, size_t size, int any, uint32_t open) {
    size_t i, n, letters = 0, upper = 0, words = 1, wide = 0;
    uint32_t c = 0, before = ' ';
    for (i = 0; i < size && i < AROUND_LONGEST; i += n, before = c) {
        n = tfm_character_next(text + i, size - i, &c);
        if (protect_in(")]", around_plain(c))) break;
        if (c == ' ' || c == '-' || c == ',') {
            words += c == ' ';
            continue;
        }
        if (any && around_digit(c) >= 0) continue;
        if (!around_is_letter(c) && !(c == '\'' || c == 0x2019 || (c == '.' && letters))) return 0;
        letters += character_case(c) != 0 || !character_is_wide(c), upper += character_case(c) > 0;
        wide += character_is_wide(c) != 0;
        if (!any && character_case(c) > 0 && character_case(before) < 0) return 0;
    }
    if (i >= size || i >= AROUND_LONGEST || !i || words > 5 || letters + wide < 1) return 0;
    if (wide) return wide <= 8 ? i : 0;
    if (any) return i;
    if (upper == letters) return open == '[' && upper > 2 ? i : 0;
    return upper || letters < 3 ? 0 : i;
}

/* Returns the bytes of the speaker that begins a text, up to a colon: words in capitals and
   numbers. */
static size_t around_speaker(const char *text, size_t size) {
    size_t i, n, letters = 0;
    uint32_t c = 0;
    for (i = 0; i < size && i < AROUND_LONGEST; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (around_plain(c) == ':') break;
        if (character_case(c) > 0) letters++;
        else if (!letters || (!protect_in(" .'-#&", c) && around_digit(c) < 0)) return 0;
    }
    return letters > 1 && around_plain(c) == ':' && i < size ? i : 0;
}

/* Returns the bytes of a class of a pattern that begins a text, or 0. open: the character before
   it. */
static size_t around_class(char kind, const char *text, size_t size, uint32_t open) {
    size_t i, n = 0, digits = 0, stops = 0, run = 0;
    uint32_t c = 0;
    if (!size) return 0;
    n = tfm_character_next(text, size, &c);
    switch (kind) {
    case 'A': return character_case(c) || (c >= 0x370 && c < 0x590) ? n : 0;
    case 'B': return c >= 'a' && c <= 'k' ? n : 0;
    case 'C':
        for (i = 0; i < size && i < 9 && around_is_numeral(c); i += 3)
            if (i + 3 >= size || !tfm_character_next(text + i + 3, size - i - 3, &c)) return 0;
        return i;
    case 'D':
        return protect_in("-*+#>~|", around_plain(c)) || c == 0xB7 || c == 0x2212 ||
                       (c >= 0x2010 && c <= 0x2015)
                   ? n
                   : 0;
    case 'O':
        return (c >= 0x2460 && c <= 0x24FF) || (c >= 0x2776 && c <= 0x2793) ||
                       (c >= 0x3220 && c <= 0x3229) || (c >= 0x3280 && c <= 0x3289)
                   ? n
                   : 0;
    case 'P': return around_speaker(text, size);
    case 'R': return around_roman(text, size);
    case 'S': return around_symbols(text, size);
    case 'U': return protect_raised(text, size, 0);
    case 'W': return around_note(text, size, 0, open);
    case 'X': return around_note(text, size, 1, open);
    default: break;
    }
    for (i = 0; i < size && i < AROUND_LONGEST; i += n) { /* N, V, T, M */
        n = tfm_character_next(text + i, size - i, &c);
        c = around_plain(c);
        if (around_digit(c) >= 0) {
            digits++, run++;
            if (kind == 'V' && run > 2 + !stops) return 0; /* 2.000 and 1.1.2020 */
        } else if (kind == 'V' && c == '.' && run) stops++, run = 0;
        else if (kind == 'T' && digits && (protect_in(":.-/, T", c) || c == 0x2013)) stops++;
        else if (kind == 'M' && c != ']' && c >= ' ' && c != '[' && i < 32) stops++;
        else break;
    }
    if (kind == 'N') return digits && digits <= 3 ? i : 0;
    if (kind == 'V') return digits && stops && (run || stops > 1) ? i : 0;
    if (kind == 'T') return digits && stops ? i : 0;
    return kind == 'M' && c == ']' ? i : 0;
}

/* Returns the bytes of a text that a pattern matches at its begin, or 0. */
static size_t around_match(const char *pattern, const char *text, size_t size) {
    size_t at = 0, n;
    uint32_t want, c = 0, before = ' ', next;
    int is_open;
    for (; *pattern; pattern += is_open) {
        is_open = (int)tfm_character_next(pattern, 4, &want);
        if (want >= 'A' && want <= 'Z') {
            n = around_class((char)want, text + at, size - at, before);
            if (!n) return 0;
        } else if (want == '_' || want == '~' || want == ' ') {
            n = around_spaces(text + at, size - at);
            if (!n && want == ' ') return 0;
            if (!n && want == '_') {
                if (at == size) return 0;
                (void)tfm_character_next(text + at, size - at, &next);
                if (!character_is_wide(next) || (protect_in("-*+#>~|", before) && c < 0x80))
                    return 0;
                if (protect_in(",", around_plain(next))) return 0;
            }
        } else {
            n = at < size ? tfm_character_next(text + at, size - at, &c) : 0;
            if (!n || (around_plain(c) != want && c != want)) return 0;
            if (want == ',' && c != 0x3001) return 0; /* 1、 but not 1, */
            before = want;
        }
        at += n;
    }
    return at;
}

/* Returns whether a text is nothing but an address of the web or of mail, as in a list of links. */
static int around_is_address(const char *text, size_t size) {
    const char *colon = (const char *)memchr(text, ':', size);
    const int is_one = memchr(text, '@', size) || protect_starts(text, size, "www.") ||
                       (colon && protect_starts(colon, size - (size_t)(colon - text), "://"));
    return is_one && protect_word(text, size) == size && protect_is_plain(text, size);
}

/* Returns whether the line that begins a text is nothing but an address. */
static int around_is_address_line(const char *text, size_t size) {
    enum { LONGEST = 2048 };
    size_t n = 0, end;
    while (n < size && n < LONGEST && (unsigned char)text[n] > ' ') n++;
    end = n + around_spaces(text + n, size - n);
    return n && (end == size || protect_in("\r\n", (unsigned char)text[end])) &&
           around_is_address(text, n);
}

/* Returns the bytes of the labels that begin a text, with the whitespace behind them; 0 if there
   are none, or if nothing is behind them. */
static size_t around_label(const char *text, size_t size, int flags) {
    enum { MOST = 6 };
    size_t at = 0, n, i, k;
    uint32_t c;
    for (k = 0; k < MOST; k++) {
        size_t unseen = at;
        while (unseen < size && (n = tfm_character_next(text + unseen, size - unseen, &c)) > 0 &&
               around_is_unseen(c))
            unseen += n;
        for (i = 0; i < sizeof around_labels / sizeof *around_labels; i++) {
            const around_rule *rule = &around_labels[i];
            if (rule->rules & AROUND_ONLY_CUES && !(flags & AROUND_CUES)) continue;
            n = around_match(rule->pattern, text + unseen, size - unseen);
            if (n && (around_may_follow(text + unseen + n, size - unseen - n, rule->rules) ||
                      around_is_address_line(text + unseen + n, size - unseen - n)))
                break;
        }
        if (i == sizeof around_labels / sizeof *around_labels) break;
        at = unseen + n;
    }
    return at;
}

/* Returns the bytes of the reference marks that begin a text, which is behind a stop. */
static size_t around_mark(const char *text, size_t size) {
    size_t at = 0, n = 0, i, space;
    uint32_t c;
    do {
        space = around_spaces(text + at, size - at);
        for (i = 0; i < sizeof around_marks / sizeof *around_marks; i++) {
            n = around_match(around_marks[i].pattern, text + at, size - at);
            if (n) break;
        }
        if (!n && space == 1) { /* Satz. [1] */
            n = around_match("[N]", text + at + space, size - at - space);
            if (n) n += space;
        }
        at += n;
    } while (n);
    if (!at || at == size) return at;
    (void)tfm_character_next(text + at, size - at, &c);
    return character_is_space(c) || character_is_wide(c) ? at : 0;
}

/* ---- sentences
   ----------------------------------------------------------------------------------- */

/* Returns the bytes of the stops and of what closes behind them, if one begins a text; else 0. */
static size_t around_stop(const char *text, size_t size) {
    size_t i, n;
    uint32_t c;
    int is_stop = 0;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (character_is(c, TFM_CHARACTER_STOP)) is_stop = 1;
        else if (!is_stop || !(character_is(c, TFM_CHARACTER_CLOSING) || c == '"' || c == 0x201C))
            break;
    }
    return is_stop ? i : 0;
}

/* Returns the end of the first sentence of a text, from byte `at` to byte `end`, that ends with
   a reference mark, and sets *mark to where the mark begins. Returns `end` if there is none. */
static size_t around_find_mark(const char *text, size_t at, size_t end, size_t size, size_t *mark) {
    size_t i, n, stop, space;
    uint32_t c;
    for (i = at; i < end; i += n) {
        unsigned char byte = (unsigned char)text[i];
        n = 1;
        if (byte < 0x80 ? !protect_in(".!?", byte) : byte != 0xE3 && byte != 0xEF && byte != 0xE2)
            continue;
        stop = around_stop(text + i, end - i);
        if (!stop) continue;
        n = stop;
        if (i == at || (byte == '.' && i > at && protect_is_digit((unsigned char)text[i - 1])))
            continue;
        *mark = i + stop;
        stop = *mark < size ? around_mark(text + *mark, size - *mark) : 0;
        if (!stop) continue;
        stop += *mark;
        if (stop >= end) return stop;
        space = stop + around_spaces(text + stop, size - stop);
        if (space >= size || !tfm_character_next(text + space, size - space, &c)) return stop;
        if (character_case(c) < 0 || character_is(c, TFM_CHARACTER_COMMA)) continue;
        return stop;
    }
    *mark = end;
    return end;
}

/* Returns where the symbols begin that end a sentence, from byte `at` to byte `end`: emoji,
   notes of music, characters that nobody sees, and the whitespace before them. */
static size_t around_tail(const char *text, size_t at, size_t end) {
    size_t i = end, n, from = end;
    uint32_t c;
    while (i > at) {
        for (n = 1; n < 4 && i - n > at && ((unsigned char)text[i - n] & 0xC0) == 0x80;) n++;
        (void)tfm_character_next(text + i - n, n, &c);
        if (around_is_symbol(c) || around_is_unseen(c) || c == 0x20E3) from = i - n;
        else if (!character_is_space(c)) break;
        else if (from == i) from = i - n;
        i -= n;
    }
    if (i > at + 3 && from == end) { /* :-) */
        for (i = end; i > at && end - i < 4 && text[i - 1] != ' ';) i--;
        if (i > at && text[i - 1] == ' ' && protect_in(":;", (unsigned char)text[i]) &&
            protect_emoji(text + i, end - i) == end - i)
            from = i - 1;
    }
    if (from == end && end > at + 4 && text[end - 1] == '#' && text[end - 2] == ' ') from = end - 2;
    return from;
}

/* Returns about how many tokens a text has: one for each digit, sign and character of a script
   without spaces, and one for four letters of a word. */
static size_t around_weight(const char *text, size_t size, size_t most, size_t *end) {
    size_t i, n, weight = 0, letters = 0;
    uint32_t c;
    for (i = 0; i < size && weight < most; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (character_is_space(c)) letters = 0;
        else if (around_is_letter(c) && !character_is_wide(c)) weight += letters++ % 4 == 0;
        else weight++, letters = 0;
    }
    *end = i;
    return weight;
}

/* Returns the end of the first part of a long sentence, from byte `at` to byte `end`, with about
   `most` of weight: behind a clause, a comma or a word, in this order, in the second half if
   possible. */
static size_t around_divide(const char *text, size_t at, size_t end, size_t most) {
    size_t limit, half, i, n, found[4] = {0, 0, 0, 0};
    uint32_t c;
    (void)around_weight(text + at, end - at, most, &limit);
    (void)around_weight(text + at, end - at, most / 2, &half);
    limit += at, half += at;
    if (limit >= end) return end;
    for (i = at; i < limit; i += n) {
        int rank = -1;
        n = tfm_character_next(text + i, end - i, &c);
        if (character_is_space(c)) rank = 1;
        else if (character_is_wide(c)) rank = 0;
        if (character_is(c, TFM_CHARACTER_COMMA | TFM_CHARACTER_STOP)) {
            rank = c == ';' || c == ':' || c == 0xFF1B || c == 0xFF1A ||
                           character_is(c, TFM_CHARACTER_STOP)
                       ? 3
                       : 2;
            if (c < 0x80 && i + n < end && text[i + n] != ' ') rank = -1; /* 1,5 */
        }
        if (rank >= 0 && i + n < end && (rank < 1 || i >= half || !found[rank]))
            found[rank] = i + n;
    }
    for (n = 4; n-- > 0;)
        if (found[n] > half) return found[n];
    for (n = 4; n-- > 0;)
        if (found[n]) return found[n];
    return limit;
}

/* Returns the end of the word that begins at a byte, if it is too long for a word of any
   language and of a script with spaces; else 0. */
static size_t around_long_word(const char *text, size_t at, size_t end) {
    size_t i, n;
    uint32_t c;
    for (i = at; i < end; i += n) {
        n = tfm_character_next(text + i, end - i, &c);
        if (character_is_space(c) || character_is_wide(c)) break;
    }
    return i - at > AROUND_WORD ? i : 0;
}

/* Returns whether a part of a long sentence is no text of a language: it has no letter, or most
   of its words have digits, as a table of numbers has them. */
static int around_is_data(const char *text, size_t size) {
    size_t i, n, words = 0, numbers = 0;
    int has_digit = 0;
    uint32_t c = 0;
    for (i = 0; i <= size; i += n) {
        n = i < size ? tfm_character_next(text + i, size - i, &c) : 1;
        if (i < size && !character_is_space(c)) {
            has_digit |= protect_is_digit((unsigned char)text[i]);
            continue;
        }
        words++, numbers += (size_t)has_digit, has_digit = 0;
    }
    return 2 * numbers > words || !around_has_letter(text, size);
}

/* Returns the end of a text without the whitespace at its end. */
static size_t around_trim(const char *text, size_t begin, size_t end) {
    uint32_t c;
    size_t n;
    for (; end > begin; end -= n) {
        for (n = 1; n < 4 && n < end - begin && ((unsigned char)text[end - n] & 0xC0) == 0x80;) n++;
        (void)tfm_character_next(text + end - n, n, &c);
        if (!character_is_space(c)) break;
    }
    return end;
}

/* Sets the piece from byte `from` to byte `end` of the text, whose sentence begins at byte
   `begin` and ends at byte `tail`. */
static void around_set(around_reader *r, around_piece *p, size_t from, size_t begin, size_t tail,
                       size_t end) {
    p->text = r->text + begin, p->size = tail > begin ? tail - begin : 0;
    p->before = begin - from, p->after = end - (begin + p->size);
    r->at = end;
}

/* Finds the next part of a sentence that is too long. Returns 0 if the rest of it is not. */
static int around_next_part(around_reader *r, around_piece *p, size_t from, size_t begin,
                            size_t end) {
    size_t i, n, stop, weight;
    if (end - begin <= AROUND_WORD) return 0;
    stop = around_long_word(r->text, begin, end);
    if (stop) {
        around_set(r, p, from, begin, stop, stop);
        return p->is_copied = 1;
    }
    if (!r->parts) {
        if (!around_has_letter(r->text + begin, end - begin)) return 0;
        weight = around_weight(r->text + begin, end - begin, (size_t)-1, &n);
        r->parts = (weight + AROUND_MOST - 1) / AROUND_MOST;
        r->weight = r->parts ? weight / r->parts + 16 : 0;
    }
    if (r->parts < 2) {
        for (i = begin + 1; i < end; i++) /* a long word further on is a part of its own */
            if (r->text[i - 1] == ' ' && around_long_word(r->text, i, end)) break;
        if (i >= end) return 0;
        stop = i;
    } else {
        stop = around_divide(r->text, begin, end, r->weight);
        for (i = begin; i < stop; i++)
            if (r->text[i] == ' ' && around_long_word(r->text, i + 1, end)) stop = i;
        if (stop >= end) return 0;
        r->parts--;
    }
    n = around_trim(r->text, begin, stop);
    p->is_copied = around_is_data(r->text + begin, n - begin);
    p->is_divided = !p->is_copied && !r->is_divided;
    r->is_divided |= p->is_divided;
    around_set(r, p, from, begin, n, n);
    return 1;
}

/* Finds the next sentence. Returns 0 if there is none. */
static inline int around_next(around_reader *r, around_piece *p) {
    const tfm_text text = tfm_text_make(r->text, r->size);
    size_t at = r->at, from, begin, end, mark;
    tfm_text sentence;
    uint32_t c;
    memset(p, 0, sizeof *p);
    for (; at < r->size; at += mark) {
        mark = tfm_character_next(r->text + at, r->size - at, &c);
        if (!character_is_space(c)) break;
    }
    if (at >= r->size) return 0;
    from = at;
    begin = from + (r->parts ? 0 : around_label(r->text + from, r->size - from, r->flags));
    if (r->flags & AROUND_ONE) {
        r->end = end = around_trim(r->text, begin, r->size);
    } else if (r->end <= begin) {
        at = begin, r->parts = 0;
        if (!tfm_sentence_next(text, &at, &sentence)) {
            around_set(r, p, from, begin, begin, r->size);
            return 1;
        }
        r->end = (size_t)(sentence.data - r->text) + sentence.size;
    }
    end = mark = r->end;
    if (r->clear < r->end) end = around_find_mark(r->text, begin, r->end, r->size, &mark);
    if (mark == r->end) r->clear = r->end;
    if (r->flags & AROUND_ONE && end < r->end) end = mark = r->end; /* a mark inside */
    if (r->end < end) r->end = end;
    if (!(r->flags & AROUND_ONE) && around_next_part(r, p, from, begin, end)) return 1;
    if (end == r->end) r->parts = 0, r->is_divided = 0;
    around_set(r, p, from, begin, around_tail(r->text, begin, mark), end);
    return 1;
}

/* ---- what is inside a sentence
   --------------------------------------------------------------------- */

/* A character that nobody sees and that was taken out of a sentence. */
typedef struct around_unseen {
    size_t at;    /* its place in the clean text */
    size_t begin; /* its place in the sentence */
    size_t size;
    size_t to; /* its place in the translation */
} around_unseen;

/* The byte `clean` of the clean text, and what is behind it, comes from the byte `own` of the
   sentence. */
typedef struct around_place {
    size_t clean, own;
} around_place;

typedef struct around_sentence {
    const char *text; /* the sentence; the caller owns it */
    size_t size;
    text_buffer clean;  /* what the model gets */
    size_t open, close; /* bytes of the brackets in front and behind */
    size_t stop;        /* bytes of the stop behind the closing bracket, which the clean text has */
    size_t mark, n_mark; /* a reference mark before the last stop: its place and bytes */
    int capitals;        /* all letters are capitals */
    text_buffer unseen;  /* of around_unseen */
    text_buffer places;  /* of around_place */
} around_sentence;

/* Frees all memory; s can be used again. */
static inline void around_free(around_sentence *s) {
    text_buffer_free(&s->clean), text_buffer_free(&s->unseen), text_buffer_free(&s->places);
    memset(s, 0, sizeof *s);
}

/* How brackets and quotation marks are written. */
typedef enum around_kind {
    AROUND_AS_IS,
    AROUND_ROUND,
    AROUND_SQUARE,
    AROUND_DOUBLE,
    AROUND_SINGLE,
    AROUND_ANGLES
} around_kind;

static const struct around_pair {
    const char *open, *close;
    around_kind kind;
} around_pairs[] = {
    {"(", ")", AROUND_ROUND},    {"（", "）", AROUND_ROUND},  {"[", "]", AROUND_SQUARE},
    {"［", "］", AROUND_SQUARE}, {"【", "】", AROUND_SQUARE}, {"〔", "〕", AROUND_SQUARE},
    {"{", "}", AROUND_AS_IS},    {"„", "“", AROUND_DOUBLE},   {"„", "”", AROUND_DOUBLE},
    {"“", "”", AROUND_DOUBLE},   {"”", "”", AROUND_DOUBLE},   {"「", "」", AROUND_DOUBLE},
    {"〝", "〞", AROUND_DOUBLE}, {"❝", "❞", AROUND_DOUBLE},   {"＂", "＂", AROUND_DOUBLE},
    {"《", "》", AROUND_DOUBLE}, {"〈", "〉", AROUND_SINGLE}, {"『", "』", AROUND_SINGLE},
    {"‚", "‘", AROUND_SINGLE},   {"‚", "’", AROUND_SINGLE},   {"‘", "’", AROUND_SINGLE},
    {"«", "»", AROUND_ANGLES},   {"»", "«", AROUND_ANGLES},   {"‹", "›", AROUND_ANGLES},
    {"›", "‹", AROUND_ANGLES},   {"»", "»", AROUND_ANGLES},   {"\"", "\"", AROUND_AS_IS},
    {"'", "'", AROUND_AS_IS},    {"**", "**", AROUND_AS_IS},  {"*", "*", AROUND_AS_IS},
    {"__", "__", AROUND_AS_IS},  {"_", "_", AROUND_AS_IS},    {"♪", "♪", AROUND_AS_IS}};

/* The quotation marks of languages: double and single ones. */
static const struct around_form {
    const char *languages;
    const char *marks[4];
} around_forms[] = {
    {" en eng zh zho cmn ko kor nl nld tr tur hi hin vi vie th tha id ind ", {"“", "”", "‘", "’"}},
    {" de deu cs ces sk slk sl slv bg bul is isl lt lit et est ka kat ", {"„", "“", "‚", "‘"}},
    {" pl pol hu hun ro ron hr hrv sr srp ", {"„", "”", "‚", "’"}},
    {" fr fra ", {"«\xC2\xA0", "\xC2\xA0»", "“", "”"}},
    {" es spa it ita pt por ca cat ru rus uk ukr be bel el ell nb nob no nor hy hye fa fas ",
     {"«", "»", "“", "”"}},
    {" ja jpn ", {"「", "」", "『", "』"}},
    {" sv swe fi fin ", {"”", "”", "’", "’"}}};

/* Returns whether a bracket of a sentence at byte 0 closes at byte `close` and not before. */
static int around_closes(const char *text, size_t close, const struct around_pair *pair) {
    size_t n = strlen(pair->open), k = strlen(pair->close), i, deep = 1;
    const int is_same = strcmp(pair->open, pair->close) == 0;
    const int is_emphasis = protect_in("*_", (unsigned char)*pair->open);
    int any = !is_emphasis;
    for (i = n; i < close; i++) {
        any |= text[i] == ' ' || (unsigned char)text[i] >= 0xE3;
        if (i + n <= close && !is_same && memcmp(text + i, pair->open, n) == 0) deep++;
        else if (i + k <= close && memcmp(text + i, pair->close, k) == 0) {
            const int is_apostrophe = (*pair->close == '\'' || strcmp(pair->close, "’") == 0) &&
                                      i + k < close && character_case((unsigned char)text[i + k]);
            if (!is_apostrophe && --deep == 0) return 0;
        }
    }
    return any && deep == 1;
}

/* Sets how many bytes of brackets are around a whole sentence: s->open, s->close and s->stop. */
static void around_strip(around_sentence *s) {
    size_t begin = 0, end = s->size, i, n, k, stop = 0;
    int deep;
    if (end > 1 && protect_in(".!?", (unsigned char)s->text[end - 1])) stop = 1;
    else if (end > 3 && memcmp(s->text + end - 3, "。", 3) == 0) stop = 3;
    for (deep = 0; deep < 3; deep++) {
        for (i = 0; i < sizeof around_pairs / sizeof *around_pairs; i++) {
            const struct around_pair *pair = &around_pairs[i];
            size_t last = end;
            n = strlen(pair->open), k = strlen(pair->close);
            if (end - begin < n + k + 1 || memcmp(s->text + begin, pair->open, n) != 0) continue;
            if (!deep && stop && end - begin > n + k + stop &&
                memcmp(s->text + end - stop - k, pair->close, k) == 0)
                last = end - stop; /* (One). */
            if (memcmp(s->text + last - k, pair->close, k) != 0 ||
                !around_closes(s->text + begin, last - k - begin, pair) ||
                !around_has_letter(s->text + begin + n, last - k - begin - n))
                continue;
            s->stop = last < end ? stop : s->stop;
            begin += n, end = last - k;
            begin += around_spaces(s->text + begin, end - begin);
            while (end > begin &&
                   (s->text[end - 1] == ' ' ||
                    (end > begin + 2 && memcmp(s->text + end - 2, "\xC2\xA0", 2) == 0)))
                end -= s->text[end - 1] == ' ' ? 1 : 2;
            break;
        }
        if (i == sizeof around_pairs / sizeof *around_pairs) break;
    }
    s->open = begin, s->close = s->size - s->stop - end;
}

/* Finds a reference mark between the last word of a sentence and its stop: s->mark and
   s->n_mark. */
static void around_find_inner(around_sentence *s) {
    size_t end = s->size - s->close - s->stop, i, n;
    s->n_mark = 0;
    while (end > s->open && protect_in(".!?", (unsigned char)s->text[end - 1])) end--;
    if (end == s->size - s->close - s->stop || end < s->open + 4 || s->text[end - 1] != ']') return;
    for (i = end; i > s->open && (protect_in("[], -", (unsigned char)s->text[i - 1]) ||
                                  protect_is_digit((unsigned char)s->text[i - 1]));
         i--)
        continue;
    while (i < end && s->text[i] != '[') i++;
    for (n = 0; n < 4 && i < end && around_match("[M]", s->text + i, end - i) == 0; n++) return;
    if (i > s->open && i < end && around_is_letter(protect_before(s->text, i)))
        s->mark = i, s->n_mark = end - i;
}

/* Returns whether a sentence in capitals is no name or abbreviation: it has two words or a long
   one. */
static int around_is_shouted(const char *text, size_t size) {
    size_t i, n, words = 0, letters = 0, longest = 0;
    if (!protect_is_capitals(text, size)) return 0;
    for (i = 0; i < size; i += n ? n : 1) {
        n = around_word(text + i, size - i);
        words += n > 1, letters += n;
        if (n > longest) longest = n;
    }
    return longest > 6 || (words > 1 && letters > 7);
}

/* Returns whether an unseen character belongs to the script of the letter before it, or to an
   emoji. */
static int around_belongs(uint32_t c, uint32_t before) {
    if (around_is_symbol(before)) return 1;
    if (c == 0x200B)
        return before >= 0xE00 && before < 0x1800; /* between words of Thai, Khmer ... */
    return (c == 0x200C || c == 0x200D || (c >= 0x180B && c <= 0x180F)) && before >= 0x600 &&
           before < 0x1D00;
}

/* Notes where the next byte of the clean text comes from, if it does not follow from the byte
   before. */
static void around_note_place(around_sentence *s, size_t own) {
    const around_place *last = (const around_place *)(const void *)s->places.data;
    size_t n = s->places.size / sizeof *last;
    around_place place;
    if (n && own - last[n - 1].own == s->clean.size - last[n - 1].clean) return;
    place.clean = s->clean.size, place.own = own;
    text_buffer_append(&s->places, (const char *)&place, sizeof place);
}

/* Appends the bytes begin to end - 1 of the sentence to the clean text. */
static void around_clean(around_sentence *s, size_t begin, size_t end, uint32_t *before) {
    size_t i, n;
    uint32_t c;
    int first = s->clean.size == 0;
    for (i = begin; i < end; i += n) {
        n = tfm_character_next(s->text + i, end - i, &c);
        if (around_is_unseen(c) && !around_belongs(c, *before)) {
            around_unseen out;
            out.at = s->clean.size, out.begin = i, out.size = n, out.to = 0;
            if (around_is_direction(c))
                text_buffer_append(&s->unseen, (const char *)&out, sizeof out);
            continue;
        }
        around_note_place(s, i);
        if (s->capitals && !first && character_case(c))
            protect_append_char(&s->clean, protect_lower(c));
        else text_buffer_append(&s->clean, s->text + i, n);
        if (character_case(c)) first = 0;
        if (!around_is_unseen(c)) *before = c;
    }
}

/* Sets s->clean to what the model gets for a sentence, which must stay in memory until
   around_put. Returns 0 if nothing is to be translated: there is no letter, or only an address. If
   memory was too small, s->clean.broken is set. */
static inline int around_take(around_sentence *s, const char *text, size_t size) {
    uint32_t before = ' ';
    size_t end;
    s->text = text, s->size = size, s->n_mark = s->stop = s->open = s->close = 0;
    text_buffer_clear(&s->clean, 1 << 12);
    text_buffer_clear(&s->unseen, 1 << 12), text_buffer_clear(&s->places, 1 << 12);
    if (!around_has_letter(text, size)) return 0;
    around_strip(s);
    end = size - s->close - s->stop;
    if (around_is_address(text + s->open, end - s->open)) return 0;
    around_find_inner(s);
    s->capitals = around_is_shouted(text + s->open, end - s->open);
    around_clean(s, s->open, s->n_mark ? s->mark : end, &before);
    if (s->n_mark) around_clean(s, s->mark + s->n_mark, end, &before);
    if (s->stop) around_clean(s, size - s->stop, size, &before);
    s->clean.broken |= s->unseen.broken || s->places.broken;
    return 1;
}

/* Returns the number of tokens of a word, as the model reads it. */
typedef int32_t (*around_counter)(void *user, const char *word, size_t size);

/* Gives the words of a sentence that was in capitals a capital letter where the model knows them
   so: the word then has fewer tokens, as names and the nouns of German have. Call it after
   around_take. */
static inline void around_capitalize(around_sentence *s, around_counter count, void *user) {
    size_t i, n, first;
    text_buffer word;
    uint32_t c;
    memset(&word, 0, sizeof word);
    for (i = 0; s->capitals && !s->clean.broken && i < s->clean.size; i += n ? n : first) {
        char *own = s->clean.data + i;
        first = tfm_character_next(own, s->clean.size - i, &c);
        n = around_word(own, s->clean.size - i);
        if (n <= first || character_case(c) >= 0) continue;
        word.size = 0;
        protect_append_char(&word, protect_upper(c));
        if (word.size != first) continue;
        text_buffer_append(&word, own + first, n - first);
        if (word.broken) break;
        if (count(user, word.data, n) < count(user, own, n)) memcpy(own, word.data, first);
    }
    s->clean.broken |= word.broken;
    text_buffer_free(&word);
}

/* Returns whether a sentence has anything that around_put must put back. */
static inline int around_is_changed(const around_sentence *s) {
    return s->open || s->close || s->stop || s->n_mark || s->capitals || s->unseen.size;
}

/* Returns whether around_put needs the alignment of a translation: it puts characters back
   beside words. */
static inline int around_needs_alignment(const around_sentence *s) { return s->unseen.size > 0; }

/* Returns the byte of the sentence where a byte of the clean text comes from; is_end: the byte
   behind it. */
static size_t around_own(const around_sentence *s, size_t clean, int is_end) {
    const around_place *places = (const around_place *)(const void *)s->places.data;
    size_t low = 0, high = s->places.size / sizeof *places, at = clean - (is_end && clean);
    if (!high) return clean;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (places[middle].clean <= at) low = middle;
        else high = middle;
    }
    return places[low].own + (at - places[low].clean) + (is_end && clean);
}

/* Sets *mark to how a bracket in front of a sentence (or behind it: is_close) is written in the
   target language, or with NULL as far as the script of the translation says it. Returns the
   bytes that it has in the source. */
static size_t around_write_pair(const char *text, size_t size, int is_close, const char *language,
                                int is_wide, const char **mark) {
    size_t i, k, n;
    *mark = NULL;
    for (i = 0; i < sizeof around_pairs / sizeof *around_pairs; i++) {
        const struct around_pair *pair = &around_pairs[i];
        const char *own = is_close ? pair->close : pair->open;
        n = strlen(own);
        if (!protect_starts(text, size, own)) continue;
        if (pair->kind == AROUND_ROUND)
            *mark = is_wide ? (is_close ? "）" : "（") : is_close ? ")" : "(";
        if (pair->kind == AROUND_SQUARE && !is_wide) *mark = is_close ? "]" : "[";
        for (k = 0; pair->kind >= AROUND_DOUBLE && k < sizeof around_forms / sizeof *around_forms;
             k++) {
            const struct around_form *form = &around_forms[k];
            const char *end = language ? language + strcspn(language, "-_") : NULL;
            const int is_one =
                language ? characters_list_has(form->languages, language, (size_t)(end - language))
                         : k == 0 && pair->kind != AROUND_ANGLES;
            if (!is_one) continue;
            *mark = form->marks[2 * (pair->kind == AROUND_SINGLE) + is_close];
            break;
        }
        if (!*mark) return n; /* as in the source */
        return n;
    }
    return 0;
}

/* Appends the brackets in front of a sentence or behind it as the target language writes them. */
static void around_write_pairs(const char *text, size_t size, int is_close, const char *language,
                               int is_wide, text_buffer *out) {
    const char *mark;
    size_t i, n;
    int is_changed = 0;
    for (i = 0; i < size; i += n) {
        n = around_write_pair(text + i, size - i, is_close, language, is_wide, &mark);
        is_changed |= n && mark, n += !n;
    }
    for (i = 0; i < size; i += n) { /* changed ones have no spaces of the source */
        n = around_write_pair(text + i, size - i, is_close, language, is_wide, &mark);
        if (n && mark) text_buffer_append(out, mark, strlen(mark));
        else {
            uint32_t c;
            if (!n) n = tfm_character_next(text + i, size - i, &c);
            if (!is_changed || n != around_spaces(text + i, n))
                text_buffer_append(out, text + i, n);
        }
    }
}

/* Sets the places of a pair of marks to those around the words that are aligned to what it has
   in the source. Returns 0 if no word is. */
static int around_find_pair(around_unseen *pair, const char *text, size_t size, size_t n,
                            const size_t *ends, const size_t *begins, const size_t *source_ends) {
    size_t i, from = size, to = 0, begin;
    for (i = 0; i < n; i++) {
        begin = i ? ends[i - 1] : 0;
        if (source_ends[i] <= pair[0].at || begins[i] >= pair[1].at || begin >= ends[i]) continue;
        if (begin < from) from = begin;
        if (ends[i] > to) to = ends[i];
    }
    while (from < to && text[from] == ' ') from++;
    while (to > from && text[to - 1] == ' ') to--;
    if (from >= to || to > size) return 0;
    to += around_word(text + to, size - to);
    pair[0].to = from, pair[1].to = to;
    return 1;
}

/* Sets the places of the unseen characters in a translation. */
static void around_find_places(around_sentence *s, const char *text, size_t size, size_t n,
                               const size_t *ends, const size_t *begins,
                               const size_t *source_ends) {
    around_unseen *each = (around_unseen *)(void *)s->unseen.data;
    size_t i, count = s->unseen.size / sizeof *each, last = 0, to;
    uint32_t c;
    for (i = 0; i < count; i++) {
        int opens;
        (void)tfm_character_next(s->text + each[i].begin, each[i].size, &c);
        opens = (c >= 0x202A && c <= 0x202E && c != 0x202C) || (c >= 0x2066 && c <= 0x2068);
        if (opens && i + 1 < count && each[i].at < each[i + 1].at &&
            around_find_pair(each + i, text, size, n, ends, begins, source_ends) &&
            each[i].to >= last) {
            last = each[++i].to;
            continue;
        }
        to = protect_place(s->clean.size, each[i].at, text, size, n, ends, begins);
        if (!each[i].at) to = 0;
        while (opens && to < size && text[to] == ' ') to++;
        while (!opens && to > 0 && text[to - 1] == ' ') to--;
        if (each[i].at >= s->clean.size) to = size;
        if (to < last) to = last;
        each[i].to = last = to;
    }
}

/* Appends the translation of s->clean, text [size], with what was taken out of the sentence.
   Token i of n ends at byte ends[i] and comes from the bytes begins[i] to source_ends[i] - 1 of
   the clean text; these three numbers become those of what is appended, and of the sentence. n
   may be 0. language: of the translation, or NULL. */
static inline void around_put(around_sentence *s, const char *text, size_t size, size_t n,
                              size_t *ends, size_t *begins, size_t *source_ends,
                              const char *language, text_buffer *out) {
    around_unseen *each = (around_unseen *)(void *)s->unseen.data;
    size_t i, k, u = 0, token = 0, last, from = out->size, count = s->unseen.size / sizeof *each,
                 step;
    uint32_t c;
    const int is_wide = !tfm_space_after(tfm_text_make(text, size));
    if (count) around_find_places(s, text, size, n, ends, begins, source_ends);
    around_write_pairs(s->text, s->open, 0, language, is_wide, out);
    for (last = size; last > 0 && (s->stop || s->n_mark);) { /* where the last stop begins */
        for (k = 1; k < 4 && k < last && ((unsigned char)text[last - k] & 0xC0) == 0x80;) k++;
        (void)tfm_character_next(text + last - k, k, &c);
        if (!character_is(c, TFM_CHARACTER_STOP)) break;
        last -= k;
    }
    for (i = 0; i <= size; i += step) {
        for (; u < count && each[u].to == i; u++)
            text_buffer_append(out, s->text + each[u].begin, each[u].size);
        if (i == last) {
            if (s->n_mark) text_buffer_append(out, s->text + s->mark, s->n_mark);
            if (s->stop)
                around_write_pairs(s->text + s->size - s->stop - s->close, s->close, 1, language,
                                   is_wide, out);
        }
        for (; token < n && ends[token] <= i; token++) ends[token] = out->size - from;
        if (i == size) break;
        step = tfm_character_next(text + i, size - i, &c);
        if (s->capitals) protect_append(out, text + i, step, 1);
        else text_buffer_append(out, text + i, step);
    }
    if (!s->stop)
        around_write_pairs(s->text + s->size - s->close, s->close, 1, language, is_wide, out);
    if (n) ends[n - 1] = out->size - from;
    for (i = 0; i < n; i++) {
        if (source_ends[i]) source_ends[i] = around_own(s, source_ends[i], 1);
        if (source_ends[i]) begins[i] = around_own(s, begins[i], 0);
    }
}

#endif
