/* sentences.h: splits a text into sentences, by rules, for languages with and without spaces.

       size_t at = 0, length;
       const char *sentence;
       while (next_sentence(text, size, &at, &sentence, &length)) ...

   Sentences are slices of the text, in order, without the whitespace between them. The text is
   UTF-8. An invalid byte counts as a letter. A character is never split. The functions allocate
   nothing and need not know the language.

   The rules. A sentence ends
    1. at a blank line, and at the end of the text. A single newline is whitespace like any other.
    2. after a stop that has no other meaning (。！？ ؟ । and so on), unless a comma or the like
       follows, or a closing bracket and a Japanese particle: 「はい。」と言った。
    3. after ! ? and an ellipsis, if whitespace follows and the next letter is not lower case. No
       sentence ends at the first mark of: "Really?" he asked. — Да! — сказал он.
    4. after a full stop, if whitespace follows, the next letter is not lower case, and the stop
       does not belong to the word before it. It belongs to
        - a number that begins the sentence (1. Open the box), or is before another number (3. 10.
          1990), a month or a similar noun (3. Mai);
        - a single letter, or letters with stops between them (J. S. Bach, z. B., U.S., т. е.),
          unless the next word begins sentences and is not a name (Vitamin C. It is ...);
        - an abbreviation in the tables below.
   Quotes and brackets that close after a stop belong to the sentence. Those that open before the
   next word belong to the next sentence.

   In doubt a stop does not end a sentence. Two sentences that are not split are still translated
   well; half a sentence is not. */
#ifndef SENTENCES_H
#define SENTENCES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- tables ------------------------------------------------------------------------------------
   The first letter must match exactly, ASCII letters after it in either case: "Gen." is in a table
   (Gen. Lee), "gen." is not. */

/* Abbreviations that are never the last word of a sentence, in any language that has them. */
static const char sentence_abbreviations[] =
    /* English */
    " Mr Mrs Ms Messrs Dr Drs Prof Rev Fr Hon Gen Col Maj Capt Cpt Lt Sgt Cpl Cmdr Adm Gov Sen Rep"
    " Pres Supt St Sts Mt Ft vs viz cf approx incl excl dept Dept Univ Assn"
    /* German */
    " Hr Hrn Frl Dipl Ing Mag Priv bzw ca Ca ggf Ggf evtl inkl exkl vgl Vgl sog bspw Bspw geb gest"
    " zzgl abzgl Mio Mrd Tsd Tel tel zB dh Nrn allg insb entspr gem jun"
    /* French */
    " MM Mme Mmes Mlle Mlles Mgr Pr Ste av apr env boul bd Cie"
    /* Spanish, Portuguese, Italian */
    " Sr Sra Srs Sres Sras Srta Sto Sta Dra Dras Gral Lic Arq Av Avda Avd EE ej Excmo Excma Exmo"
    " Exma Ilmo Sig Sigg Dott Avv Geom Rag Egr Gent"
    /* Dutch, Scandinavian */
    " dhr mevr mw drs bijv resp bl f.eks t.ex bl.a fx dvs"
    /* Polish, Czech, Turkish */
    " dr mgr prof inż np tzn tzw tj ul św ks płk Doç Yrd Öğr např tzv ing arch"
    /* Russian, Ukrainian */
    " см См ср Ср гр проф Проф акад Акад доц Доц ул Ул просп пер пл наб кв корп тел Тел напр"
    " Напр св Св гос инж ген полк англ нем фр лат греч рус вул"
    /* Greek, Hindi */
    " κ.κ βλ Βλ δηλ πχ Δρ डॉ प्रो ";

/* Words that are abbreviations only if a number follows: No. 5, but: he said no. */
static const char sentence_before_numbers[] =
    " no No N° n° Nº nº nos Nos nr Nr pp pg vol Vol ch Ch chap Chap fig Fig figs Figs sec Sec art"
    " Art eq Eq tab Tab ex al ed Ed op Op Pt pt Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Okt Nov"
    " Dec Dez janv févr avr juil sept oct nov déc Abs Bd Bde Kap Abb Str str Pos Ziff Anm pág págs"
    " núm Núm núms cap Cap tomo blz kl čís стр Стр рис Рис табл Табл гл Гл ст Ст разд изд илл σελ"
    " αρ ";

/* Words that follow an ordinal number: 3. Mai, 19. Jahrhundert. */
static const char sentence_after_ordinals[] =
    " Januar Jänner Februar Feber März April Mai Juni Juli August September Oktober November"
    " Dezember Jan Feb Mär Apr Jun Jul Aug Sep Sept Okt Nov Dez Jahrhundert Jahrhunderts Jh"
    " Jahrtausend Weltkrieg Weltkriegs Auflage Kapitel Klasse Platz Stock Stockwerk Etage Liga"
    " Bundesliga Runde Spieltag Tag Jahrestag Geburtstag Mal Band Teil Akt Satz Lebensjahr Semester"
    " Bezirk Armee Division Minute Stunde Woche Monat ";

/* Words that begin sentences and are not names: after an initial or "U.S." they begin a
   sentence. */
static const char sentence_starters[] =
    " The He She It They We You I This That These Those There Then But And So If When While After"
    " Before However Its His Her Their Our What Who Where Why How Er Sie Es Wir Ich Ihr Das Dies"
    " Diese Dieser Aber Und Wenn Dann Il Elle Ils Elles Nous Vous Je Ce Cette Ces Mais Él Ella "
    "Ellos"
    " Ellas Nosotros Esto Pero Он Она Оно Они Мы Вы Это Но Если Когда Потом ";

/* ---- characters ----------------------------------------------------------------------------- */

/* Reads the character at text [size > 0] into *c and returns its bytes. An invalid byte is read as
   one U+FFFD. */
static size_t sentence_char(const char *text, size_t size, uint32_t *c) {
    const unsigned char *p = (const unsigned char *)text;
    size_t n, i;
    *c = p[0];
    if (p[0] < 0x80) return 1;
    n = p[0] < 0xC2 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 1;
    *c = n == 1 ? 0xFFFD : p[0] & (0x7Fu >> n);
    if (n > size) n = 1, *c = 0xFFFD;
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            *c = 0xFFFD;
            return 1;
        }
        *c = *c << 6 | (p[i] & 0x3F);
    }
    return n;
}

/* Returns whether a character has Unicode's property White_Space. */
static int sentence_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static int sentence_is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

/* Returns -1 for lower case, 1 for upper case, 0 for neither; for Latin, Greek, Cyrillic,
   Armenian. */
static int sentence_case(uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? -1 : c >= 'A' && c <= 'Z' ? 1 : 0;
    if (c == 0xAA || c == 0xBA || c == 0xD7 || c == 0xF7) return 0;
    if (c >= 0xC0 && c <= 0xFF) return c < 0xDF ? 1 : -1;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E)) return c & 1 ? 1 : -1;
    if (c >= 0x100 && c <= 0x178) return c == 0x178 || !(c & 1) ? 1 : -1;
    if (c >= 0x386 && c <= 0x3AB && c != 0x390) return 1;
    if (c >= 0x390 && c <= 0x3CE) return -1;
    if (c >= 0x400 && c <= 0x45F) return c < 0x430 ? 1 : -1;
    if (c >= 0x482 && c <= 0x489) return 0;
    if (c >= 0x4C0 && c <= 0x4CF) return c == 0x4C0 || (c != 0x4CF && c & 1) ? 1 : -1;
    if (c >= 0x460 && c <= 0x52F) return c & 1 ? -1 : 1;
    if (c >= 0x531 && c <= 0x556) return 1;
    if (c >= 0x561 && c <= 0x587) return -1;
    if (c >= 0x1E00 && c <= 0x1EFF) return c & 1 ? -1 : 1;
    return 0;
}

/* Returns whether the character text [n] is one of the characters of a string. */
static int sentence_one_of(const char *text, size_t n, const char *characters) {
    size_t i, m;
    uint32_t c;
    for (i = 0; characters[i]; i += m) {
        m = sentence_char(characters + i, strlen(characters + i), &c);
        if (m == n && memcmp(characters + i, text, n) == 0) return 1;
    }
    return 0;
}

static const char sentence_stops[] = "。！？｡؟۔।॥։።፧។៕။‼⁇⁈⁉"; /* rule 2 */
static const char sentence_weak_stops[] = ".!?…";             /* rules 3 and 4 */
static const char sentence_closing[] = ")]}”’»›」』）】》〉〕］｝";
static const char sentence_opening[] = "([{“‘„‚«‹「『（【《〈〔［｛¿¡\"'";
static const char sentence_dashes[] = "-–—―•*·";
static const char sentence_no_begin[] = ",;:%，、；：،؛"; /* continue a sentence */
static const char sentence_particles[] = "とっなのはがをにでも";

/* Returns whether a character is of a script without spaces between words (Chinese, Japanese, Thai,
   Lao, Khmer, Burmese), or wide punctuation. */
static int sentence_is_wide(uint32_t c) {
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) ||
           (c >= 0x1780 && c <= 0x17FF) || (c >= 0x2E80 && c <= 0x30FF) ||
           (c >= 0x3100 && c <= 0x312F) || (c >= 0x31A0 && c <= 0x9FFF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) ||
           (c >= 0x20000 && c <= 0x3FFFF);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Returns whether a table has a word. The first byte must match exactly, ASCII letters after it may
   be in the table in lower case. */
static int sentence_in_table(const char *table, const char *word, size_t size) {
    const char *at = table + 1, *end;
    size_t i;
    if (!size) return 0;
    for (; *at; at = end + 1) {
        end = strchr(at, ' ');
        if ((size_t)(end - at) != size || at[0] != word[0]) continue;
        for (i = 1; i < size; i++) {
            char c = word[i];
            if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
            if (at[i] != word[i] && at[i] != c) break;
        }
        if (i == size) return 1;
    }
    return 0;
}

/* Returns the bytes of the word at text: all up to whitespace or ASCII punctuation. */
static size_t sentence_word_size(const char *text, size_t size) {
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = sentence_char(text + i, size - i, &c);
        if (sentence_is_space(c) || (c < 0x80 && !sentence_case(c) && !sentence_is_digit(c))) break;
    }
    return i;
}

/* Returns whether a word is made of single letters with "." or "-" between them: J, z.B, U.S,
   c.-à-d. The letters must be of a script with case, or Arabic. */
static int sentence_is_initials(const char *word, size_t size) {
    size_t i, n;
    int alone = 0, any = 0;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = sentence_char(word + i, size - i, &c);
        if (c == '.' || c == '-') alone = 0;
        else if (alone || !(sentence_case(c) || (c >= 0x621 && c <= 0x64A))) return 0;
        else alone = any = 1;
    }
    return any;
}

/* Returns whether a word is made only of the given characters. */
static int sentence_is_all(const char *word, size_t size, const char *characters) {
    size_t i;
    for (i = 0; i < size; i++)
        if (!word[i] || !strchr(characters, word[i])) return 0;
    return size > 0;
}

/* Applies rule 4: returns whether a full stop belongs to the word before it. next is the text after
   the stop. */
static int sentence_stop_belongs(const char *word, size_t size, int is_first, const char *next,
                                 size_t next_size) {
    size_t n = sentence_word_size(next, next_size), last;
    int number_next = next_size && sentence_is_digit((unsigned char)next[0]);
    /* a starter with a stop of its own is an initial, as "I." is in: J. I. Smith */
    int starts = sentence_in_table(sentence_starters, next, n) &&
                 !(n < next_size && next[n] == '.');
    if (sentence_is_all(word, size, "0123456789"))
        return number_next || (is_first && size <= 3) ||
               (size <= 2 && sentence_in_table(sentence_after_ordinals, next, n));
    if (is_first && sentence_is_all(word, size, "IVX")) return 1;
    if (size == 2 && memcmp(word, "я", 2) == 0) return 0;
    if (sentence_is_initials(word, size)) return !starts;
    for (last = size; last > 0 && word[last - 1] != '-' && word[last - 1] != '\''; last--) {
        if (last >= 3 && memcmp(word + last - 3, "’", 3) == 0) break; /* l’art. 5 */
    }
    return sentence_in_table(sentence_abbreviations, word, size) ||
           sentence_in_table(sentence_abbreviations, word + last, size - last) ||
           (number_next && sentence_in_table(sentence_before_numbers, word + last, size - last));
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* Returns the end of the whitespace at `at`. *newlines is the number of newlines in it, at most 2;
   2 means a blank line. */
static size_t sentence_skip_space(const char *text, size_t size, size_t at, int *newlines) {
    uint32_t c;
    size_t n;
    for (*newlines = 0; at < size; at += n) {
        n = sentence_char(text + at, size - at, &c);
        if (!sentence_is_space(c)) break;
        if (c == '\n' && *newlines < 2) ++*newlines;
        if (c == 0x2029) *newlines = 2; /* paragraph separator */
    }
    return at;
}

/* Returns the end of the closing quotes and brackets at `at`. in_quotes says that a straight quote
   is open, so another one closes it. */
static size_t sentence_skip_closing(const char *text, size_t size, size_t at, int in_quotes) {
    int newlines;
    uint32_t c;
    while (at < size) {
        size_t n = sentence_char(text + at, size - at, &c), after;
        if (sentence_one_of(text + at, n, sentence_closing)) {
            at += n;
        } else if (c == '"' && in_quotes) {
            at += n, in_quotes = 0;
        } else if (sentence_one_of(text + at, n,
                                   "\"'“‘«‹")) { /* close in German, open in English */
            after = at + n;
            if (after < size) n = sentence_char(text + after, size - after, &c);
            if (after < size && !sentence_is_space(c) &&
                !sentence_one_of(text + after, n, sentence_closing))
                break;
            at = after;
        } else if (sentence_is_space(c)) { /* « Non ! » has a space, »Ja« opens without one */
            after = sentence_skip_space(text, size, at, &newlines);
            if (newlines || after >= size) break;
            n = sentence_char(text + after, size - after, &c);
            if (!sentence_one_of(text + after, n, "»›")) break;
            after += n;
            if (after < size) n = sentence_char(text + after, size - after, &c);
            if (after < size && !sentence_is_space(c) &&
                !sentence_one_of(text + after, n, sentence_no_begin) && c != '.')
                break;
            at = after;
        } else break;
    }
    return at;
}

/* A stop and its surroundings. */
typedef struct sentence_stop {
    size_t word;   /* begin of the word before the stop */
    size_t begin;  /* begin of the stop; several stops in a row are one */
    size_t close;  /* end of the stop: closing quotes and brackets may follow */
    size_t end;    /* end of the closing quotes and brackets */
    int is_strong; /* rule 2 applies */
    int is_period; /* a single full stop: rule 4 applies */
    int is_loud;   /* there is a ! or ? among the stops */
    int is_first;  /* the word is the first of its sentence */
} sentence_stop;

/* Applies rules 2 to 4: returns whether the sentence ends at stop s. */
static int sentence_ends_at(const char *text, size_t size, const sentence_stop *s) {
    size_t at = s->end, n;
    int newlines;
    uint32_t c;
    if (at >= size) return 1;
    n = sentence_char(text + at, size - at, &c);
    if (s->is_strong) {
        if (sentence_one_of(text + at, n, sentence_no_begin) ||
            sentence_one_of(text + at, n, sentence_stops) ||
            sentence_one_of(text + at, n, sentence_weak_stops))
            return 0;
        return !(s->end > s->close && sentence_one_of(text + at, n, sentence_particles));
    }
    if (!sentence_is_space(c)) /* 你好!我来了 */
        return s->is_loud && sentence_is_wide(c) &&
               !sentence_one_of(text + at, n, sentence_no_begin) &&
               !sentence_one_of(text + at, n, sentence_particles);
    at = sentence_skip_space(text, size, at, &newlines);
    if (at >= size || newlines >= 2) return 1;
    for (; at < size; at += n) { /* to the first letter or digit */
        n = sentence_char(text + at, size - at, &c);
        if (!sentence_is_space(c) && !sentence_one_of(text + at, n, sentence_opening) &&
            !sentence_one_of(text + at, n, sentence_dashes) &&
            !sentence_one_of(text + at, n, "»›”’")) /* which open in some languages */
            break;
    }
    if (at >= size) return 1;
    if (sentence_case(c) < 0 || sentence_one_of(text + at, n, sentence_no_begin) ||
        sentence_one_of(text + at, n, sentence_closing) ||
        sentence_one_of(text + at, n, sentence_weak_stops))
        return 0;
    if (!s->is_period) return 1;
    /* a stop inside a closing quote ends the sentence; inside a bracket it may not: (etc.) */
    if (s->end > s->close && !strchr(")]}", text[s->end - 1])) return 1;
    return !sentence_stop_belongs(text + s->word, s->begin - s->word, s->is_first, text + at,
                                  size - at);
}

/* Finds the sentence at or after *at and moves *at behind it. Returns 0 if there is none. */
static inline int next_sentence(const char *text, size_t size, size_t *at, const char **sentence,
                                size_t *length) {
    int newlines, in_quotes = 0;
    size_t begin = sentence_skip_space(text, size, *at, &newlines), i = begin, end = begin, n;
    sentence_stop s;
    uint32_t c;
    s.word = begin, s.is_first = 1;
    *at = begin;
    if (begin >= size) return 0;
    while (i < size) {
        n = sentence_char(text + i, size - i, &c);
        if (sentence_is_space(c)) {
            i = sentence_skip_space(text, size, i, &newlines);
            if (newlines >= 2) break;
            s.word = i, s.is_first = 0;
            continue;
        }
        s.begin = i, s.is_strong = s.is_period = s.is_loud = 0;
        for (; i < size; i += n) {
            n = sentence_char(text + i, size - i, &c);
            if (sentence_one_of(text + i, n, sentence_stops)) s.is_strong = 1;
            else if (!sentence_one_of(text + i, n, sentence_weak_stops)) break;
            s.is_period = c == '.' && i == s.begin;
            if (c == '!' || c == '?') s.is_loud = 1;
        }
        if (i == s.begin) {
            if (c == '"') in_quotes = !in_quotes;
            /* a word begins after an opening mark; an apostrophe is one only before the word */
            if (sentence_one_of(text + i, n, sentence_opening) && (c != '\'' || i == s.word))
                s.word = i + n;
            end = i += n;
            continue;
        }
        s.close = i;
        s.end = end = sentence_skip_closing(text, size, i, in_quotes);
        if (sentence_ends_at(text, size, &s)) break;
        for (; i < s.end; i++)
            if (text[i] == '"') in_quotes = !in_quotes;
    }
    *sentence = text + begin, *length = end - begin;
    *at = end;
    return 1;
}

/* Returns whether a space belongs between a text and a sentence after it. The last character of the
   text that is a letter decides: whether its script has spaces between words. */
static inline int sentence_space_after(const char *text, size_t size) {
    uint32_t c;
    while (size > 0) {
        size_t begin = size - 1, n;
        while (begin > 0 && size - begin < 4 && ((unsigned char)text[begin] & 0xC0) == 0x80)
            begin--;
        n = sentence_char(text + begin, size - begin, &c);
        if (sentence_is_wide(c)) return 0;
        if (sentence_case(c) || (c >= 0x300 && !(c >= 0x2000 && c < 0x2E80))) return 1;
        size = n == size - begin ? begin : size - 1;
    }
    return 1;
}

#endif
