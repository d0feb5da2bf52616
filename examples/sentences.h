/* sentences.h: where the sentences of a text end. By rules, for languages with and without spaces.

       size_t at = 0, length;
       const char *sentence;
       while (next_sentence(text, size, &at, &sentence, &length)) ...

   Sentences are slices of the text, in order, without whitespace around them; between them is
   nothing but whitespace. Text is UTF-8; a byte that is not counts as a letter, and a character is
   never cut. Nothing is allocated, and no language has to be named.

   The rules. A sentence ends
    1. at a blank line, and at the end of the text. A single newline is whitespace like any other.
    2. behind the stops of scripts without spaces, and others that mean nothing else: 。！？ ؟ । and
       so on, whatever follows but a comma; not where a closing bracket and a Japanese particle
       follow: 「はい。」と言った。
    3. behind ! ? and an ellipsis, with whitespace after it and no lower-case letter behind that:
       "Really?" he asked. — Да! — сказал он.
    4. behind a full stop, with whitespace after it and no lower-case letter or digit of a date
       behind that, unless it belongs to its word:
       a number that begins the sentence (1. Open the box), stands before another (3. 10. 1990), or
       before a month or the like (3. Mai); a single letter or several with stops between them (J.
       S. Bach, z. B., U.S., т. е.), unless a word follows that begins sentences and no names
       (Vitamin C. It is ...); an abbreviation of the tables below.
   Quotes and brackets that close behind a stop belong to the sentence; those that open before the
   next word belong to the next one.

   A missed end costs less than a wrong one: two sentences in one are still translated, halves are
   not understood. So what is doubtful is no end. */
#ifndef SENTENCES_H
#define SENTENCES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- tables ------------------------------------------------------------------------------------
   The first letter counts as it stands, the others in either case: Gen. Lee, but "the same gen." */

/* Another word follows always, in any language that has the abbreviation. */
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

/* A number follows, or the stop ends the sentence: No. 5; he said no. */
static const char sentence_before_numbers[] =
    " no No N° n° Nº nº nos Nos nr Nr pp pg vol Vol ch Ch chap Chap fig Fig figs Figs sec Sec art"
    " Art eq Eq tab Tab ex al ed Ed op Op Pt pt Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Okt Nov"
    " Dec Dez janv févr avr juil sept oct nov déc Abs Bd Bde Kap Abb Str str Pos Ziff Anm pág págs"
    " núm Núm núms cap Cap tomo blz kl čís стр Стр рис Рис табл Табл гл Гл ст Ст разд изд илл σελ"
    " αρ ";

/* Follow a number that means "the nth": 3. Mai, 19. Jahrhundert. */
static const char sentence_after_ordinals[] =
    " Januar Jänner Februar Feber März April Mai Juni Juli August September Oktober November"
    " Dezember Jan Feb Mär Apr Jun Jul Aug Sep Sept Okt Nov Dez Jahrhundert Jahrhunderts Jh"
    " Jahrtausend Weltkrieg Weltkriegs Auflage Kapitel Klasse Platz Stock Stockwerk Etage Liga"
    " Bundesliga Runde Spieltag Tag Jahrestag Geburtstag Mal Band Teil Akt Satz Lebensjahr Semester"
    " Bezirk Armee Division Minute Stunde Woche Monat ";

/* Begin sentences, and are no names: what follows an initial or "U.S." here is a new sentence. */
static const char sentence_starters[] =
    " The He She It They We You I This That These Those There Then But And So If When While After"
    " Before However Its His Her Their Our What Who Where Why How Er Sie Es Wir Ich Ihr Das Dies"
    " Diese Dieser Aber Und Wenn Dann Il Elle Ils Elles Nous Vous Je Ce Cette Ces Mais Él Ella "
    "Ellos"
    " Ellas Nosotros Esto Pero Он Она Оно Они Мы Вы Это Но Если Когда Потом ";

/* ---- characters ----------------------------------------------------------------------------- */

/* Bytes of the character at text [size > 0]; what is not UTF-8 is one byte, and U+FFFD. */
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

/* Unicode's White_Space. */
static int sentence_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static int sentence_is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

/* -1 lower case, 1 upper case, 0 neither: Latin, Greek, Cyrillic, Armenian. */
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

/* Whether the bytes stand in a string of characters. */
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
static const char sentence_no_begin[] = ",;:%，、；：،؛"; /* go on with a sentence */
static const char sentence_particles[] = "とっなのはがをにでも";

/* Scripts that write no spaces: Chinese, Japanese, Thai, Lao, Khmer, Burmese; with their wide
   punctuation. */
static int sentence_is_wide(uint32_t c) {
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) ||
           (c >= 0x1780 && c <= 0x17FF) || (c >= 0x2E80 && c <= 0x30FF) ||
           (c >= 0x3100 && c <= 0x312F) || (c >= 0x31A0 && c <= 0x9FFF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) ||
           (c >= 0x20000 && c <= 0x3FFFF);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Whether a table has the word: its first byte as it stands, ASCII behind it in either case. */
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

/* How many bytes are characters of the kind of the first: digits, or letters of any script. */
static size_t sentence_word_size(const char *text, size_t size) {
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = sentence_char(text + i, size - i, &c);
        if (sentence_is_space(c) || (c < 0x80 && !sentence_case(c) && !sentence_is_digit(c))) break;
    }
    return i;
}

/* Letters that stand alone: J, z.B, U.S, c.-à-d; with case, or Arabic. */
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

static int sentence_is_all(const char *word, size_t size, const char *characters) {
    size_t i;
    for (i = 0; i < size; i++)
        if (!word[i] || !strchr(characters, word[i])) return 0;
    return size > 0;
}

/* Rule 4: whether a full stop belongs to the word before it. next: the word after it. */
static int sentence_stop_belongs(const char *word, size_t size, int is_first, const char *next,
                                 size_t next_size) {
    size_t n = sentence_word_size(next, next_size), last;
    int number_next = next_size && sentence_is_digit((unsigned char)next[0]);
    /* "I" before a stop is the initial of somebody */
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

/* The end of whitespace from at; *newlines in it. */
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

/* The end of the quotes and brackets that close at at. in_quotes: a straight quote is open. */
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
    size_t word;                       /* where the word before it begins */
    size_t begin;                      /* the stop itself; several in a row are one */
    size_t close;                      /* behind it: where quotes and brackets close */
    size_t end;                        /* behind those */
    int is_strong, is_period, is_loud; /* loud: ! or ? */
    int is_first;                      /* the word is the sentence's first */
} sentence_stop;

/* Rules 2 to 4: whether the sentence ends here. */
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
    /* a quote that closes behind the stop has made up its mind, a bracket has not */
    if (s->end > s->close && !strchr(")]}", text[s->end - 1])) return 1;
    return !sentence_stop_belongs(text + s->word, s->begin - s->word, s->is_first, text + at,
                                  size - at);
}

/* The sentence at or after *at, which moves behind it; 0: no more. */
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
            /* a word begins behind what may stand before one; an apostrophe stands in one */
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

/* Whether a space belongs between a text of that end and a sentence after it: what was written last
   in a script that has spaces or has none decides. */
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
