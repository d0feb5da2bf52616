/* protect.h: removes spans that no model should translate from a text, and inserts them in its
   translation: URLs, e-mail addresses, numbers with units, emoji and code. A text in capitals is
   translated in small letters, and its translation is written in capitals.

       protect_text p = {0};
       if (protect_take(&p, text, size)) ... translate p.clean
       protect_put(&p, translation, n_bytes, n_tokens, ends, sources, &out);
       protect_free(&p);

   A span is inserted where it crosses the fewest alignments: words that are aligned to words
   before the span stay before it. The model thus sees a whole sentence without text that it
   cannot know. */
#ifndef PROTECT_H
#define PROTECT_H

#include "text_buffer.h"
#include "characters.h"

typedef struct protect_span {
    size_t at;          /* position in the clean text where the span was removed */
    size_t begin, size; /* bytes of the span in the original text */
    size_t to;          /* position in the translation where it is inserted */
} protect_span;

typedef struct protect_text {
    const char *text;  /* the original; the caller owns it */
    text_buffer clean; /* the text without its spans */
    protect_span *spans;
    size_t n, room;
    int capitals;       /* all letters of the text were capitals */
    int keeps_capitals; /* option: they stay, because the caller cares for them */
} protect_text;

/* Frees all memory; p can be used again. */
static void protect_free(protect_text *p) {
    text_buffer_free(&p->clean);
    free(p->spans);
    memset(p, 0, sizeof *p);
}

/* ---- capitals: Latin, Greek, Cyrillic -------------------------------------------------------- */

/* Returns the capital of a small letter; any other character, or one without a capital, as it
   is. */
static uint32_t protect_upper(uint32_t c) {
    if (character_case(c) >= 0 || c == 0xDF || c == 0x138 || c == 0x149 || c == 0x17F || c == 0x390)
        return c;
    if (c == 0xFF) return 0x178;
    if (c == 0x131) return 'I';
    if (c == 0x3AC) return 0x386;
    if (c == 0x4CF) return 0x4C0;
    if (c == 0x3C2) return 0x3A3;
    if (c >= 0x3AD && c <= 0x3AF) return c - 37;
    if (c == 0x3CC || c == 0x3B0) return c == 0x3CC ? 0x38C : c;
    if (c == 0x3CD || c == 0x3CE) return c - 63;
    if (c < 0x80 || (c >= 0xE0 && c < 0xFF) || (c >= 0x3B1 && c <= 0x3CB) ||
        (c >= 0x430 && c <= 0x44F))
        return c - 32;
    if (c >= 0x450 && c <= 0x45F) return c - 80;
    if (c >= 0x561 && c <= 0x587) return c <= 0x586 ? c - 48 : c;
    if (c >= 0x1E96 && c <= 0x1E9F) return c;
    return c >= 0x100 ? c - 1 : c;
}
/* Returns the small letter of a capital; any other character as it is. */
static uint32_t protect_lower(uint32_t c) {
    static const uint32_t away[] = {1, 32, 80, 48, 38, 37, 64, 63, 15};
    size_t i;
    if (character_case(c) <= 0) return c;
    if (c == 0x178 || c == 0x1E9E) return c == 0x178 ? 0xFF : 0xDF;
    for (i = 0; i < sizeof away / sizeof *away; i++)
        if (c + away[i] != c && protect_upper(c + away[i]) == c && c + away[i] != 0x131)
            return c + away[i];
    return c;
}

/* Appends a character in UTF-8. */
static void protect_append_char(text_buffer *b, uint32_t c) {
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;
    for (i = n; i-- > 1; c >>= 6) bytes[i] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(n == 1 ? c : (0xF00u >> n & 0xFF) | c);
    text_buffer_append(b, bytes, n);
}

/* Appends text, in capitals if `capitals` is set. */
static void protect_append(text_buffer *b, const char *text, size_t size, int capitals) {
    size_t i, n;
    uint32_t c;
    if (!capitals) text_buffer_append(b, text, size);
    for (i = 0; capitals && i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (c == 0xDF) text_buffer_append(b, "SS", 2);
        else if (!character_case(c)) text_buffer_append(b, text + i, n);
        else protect_append_char(b, protect_upper(c));
    }
}

/* Returns whether a text has at least four letters and all of them are capitals. A letter of a
   script without capitals, or of a script from U+0590 to U+1DFF, makes the answer no. */
static int protect_is_capitals(const char *text, size_t size) {
    size_t i, letters = 0;
    uint32_t c;
    for (i = 0; i < size;) {
        i += tfm_character_next(text + i, size - i, &c);
        if (character_case(c) < 0 || (c >= 0x590 && c < 0x1E00) || character_is_wide(c)) return 0;
        letters += character_case(c) > 0;
    }
    return letters >= 4;
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* These functions know ASCII characters only. */
static int protect_is_letter(uint32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
static int protect_is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
static int protect_is_word(uint32_t c) { return protect_is_letter(c) || protect_is_digit(c); }
/* Returns whether a character is one of a set. */
static int protect_in(const char *set, uint32_t c) {
    return c && c < 0x80 && strchr(set, (int)c) != NULL;
}
/* Returns whether a text begins with the string `with`. */
static int protect_starts(const char *text, size_t size, const char *with) {
    return strlen(with) <= size && memcmp(text, with, strlen(with)) == 0;
}

/* Returns the character before position `at`; a space at the beginning of the text. */
static uint32_t protect_before(const char *text, size_t at) {
    size_t n;
    uint32_t c = ' ';
    for (n = 1; n < 4 && n < at && ((unsigned char)text[at - n] & 0xC0) == 0x80;) n++;
    if (at) (void)tfm_character_next(text + at - n, n, &c);
    return c;
}

/* Returns the bytes of the emoji that begin a text, with their joiners and modifiers; also :-) and
   the like. Returns 0 if there are none. */
static size_t protect_emoji(const char *text, size_t size) {
    const unsigned char *byte = (const unsigned char *)text;
    size_t i = 0, n, end = 0;
    uint32_t c;
    for (; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if ((c >= 0x1F000 && c <= 0x1FAFF) || (c >= 0x2600 && c <= 0x27BF) ||
            (c >= 0x2B00 && c <= 0x2BFF) || (c >= 0x2190 && c <= 0x21FF) || c == 0x231A ||
            (end && (c == 0xFE0F || c == 0x20E3 || (c >= 0xE0020 && c <= 0xE007F))))
            end = i + n;
        else if (!(end && c == 0x200D)) break;
    }
    if (!end && size > 1 && protect_in(":;", byte[0])) { /* :-) */
        i = 1 + (byte[1] == '-');
        if (i < size && protect_in(")(DPp|*", byte[i]) &&
            (i + 1 == size || !protect_is_word(byte[i + 1])))
            end = i + 1;
    }
    return end;
}

/* Returns the bytes of the number that begins a text, or 0. It must have a unit or parts (3,5
   kg, $1,299.99, 15:30, +49 30 901820) or at least five digits. Models translate short plain
   numbers. */
static size_t protect_number(const char *text, size_t size) {
    enum { CURRENCY = 5, UNITS = 11, MOST = 64 };
    static const char *const units[] = {"%",  "‰",   "°C",  "°F",  "°",   "€",   "$",  "£",  "¥",
                                        "₹",  "₽", "EUR", "USD", "GBP", "CHF", "kg", "mg", "km",
                                        "cm", "mm",  "nm",  "µm",  "kWh", "MWh", "kW", "MW", "mA",
                                        "Hz", "kHz", "KG",  "KM",  "MHz", "GHz", "kB", "KB", "MB",
                                        "GB", "TB",  "KiB", "MiB", "GiB", "m",   "g",  "t",  "l",
                                        "ml", "h",   "s",   "ms",  "min", "W",   "V",  "A",  "B"};
    const unsigned char *byte = (const unsigned char *)text;
    const char *inner;
    size_t i = 0, end, from, k, digits = 0;
    uint32_t c = ' ';
    int parts = 0;
    for (k = CURRENCY; k < UNITS; k++)
        if (protect_starts(text, size, units[k])) i = strlen(units[k]), parts = 1;
    inner = size && *text == '+' ? ".,:/-'x ()" : ".,:/-'x";
    if (!parts && size && protect_in("+-", byte[0])) i++;
    for (end = i; i < size && i < MOST && (digits || protect_is_digit(byte[i])); i++) {
        if (protect_is_digit(byte[i])) digits++, end = i + 1;
        else if (protect_in(inner, byte[i]) && i + 1 < size && protect_is_digit(byte[i + 1]))
            parts = 1;
        else break;
    }
    if (!digits) return 0;
    for (k = 0; k < sizeof units / sizeof *units; k++) {
        from = end + (end < size && text[end] == ' ');
        if (protect_starts(text + end, size - end, "\xC2\xA0")) from = end + 2;
        if (!protect_starts(text + from, size - from, units[k])) continue;
        from += strlen(units[k]);
        for (i = 0; i < 2; i++)
            if (protect_starts(text + from, size - from, i ? "/s" : "/h")) from += 2;
        for (i = 0; i < 2; i++)
            if (protect_starts(text + from, size - from, i ? "²" : "³")) from += 2;
        if (from < size) (void)tfm_character_next(text + from, size - from, &c);
        if (from == size || k < UNITS || (!character_case(c) && !protect_is_digit(c))) return from;
    }
    if (end < size) (void)tfm_character_next(text + end, size - end, &c);
    return !character_case(c) && (parts || digits >= 5) ? end : 0;
}

/* Returns the bytes of the number in groups that begins a text, or 0: an IBAN, or at least three
   groups of digits with seven digits or more, or two of which the first begins with 0, as telephone
   numbers have them. */
static size_t protect_groups(const char *text, size_t size) {
    const unsigned char *byte = (const unsigned char *)text;
    const int is_iban = size > 14 && byte[0] >= 'A' && byte[0] <= 'Z' && byte[1] >= 'A' &&
                        byte[1] <= 'Z' && protect_is_digit(byte[2]) && protect_is_digit(byte[3]);
    uint32_t c = ' ';
    size_t i = is_iban ? 4 : 0, digits = is_iban ? 2 : 0, groups = 1, end = 0, run = i;
    for (; i <= size && i < 64; i++) {
        const unsigned char sign = i < size ? byte[i] : ' ';
        if (protect_is_digit(sign) || (is_iban && sign >= 'A' && sign <= 'Z')) {
            digits += protect_is_digit(sign) != 0, run++;
            if (is_iban && run > 4 && groups > 1) return 0;
            continue;
        }
        if (!run) break;
        end = i, run = 0;
        if (sign == ' ' && i + 1 < size && (protect_is_digit(byte[i + 1]) || is_iban)) {
            for (groups++; is_iban && i + 1 + run < size &&
                           (protect_is_digit(byte[i + 1 + run]) ||
                            (byte[i + 1 + run] >= 'A' && byte[i + 1 + run] <= 'Z'));)
                run++;
            if (is_iban && (!run || run > 4 ||
                            (groups > 2 && !protect_is_digit(byte[i + 1]) &&
                             !protect_is_digit(byte[i + run]))))
                break;
            run = 0;
        } else break;
    }
    if (end < size) (void)tfm_character_next(text + end, size - end, &c);
    if (character_case(c) || protect_is_digit(c)) return 0;
    if (is_iban) return digits > 9 && end > 14 ? end : 0;
    return digits > 6 && (groups > 2 || (groups == 2 && byte[0] == '0')) ? end : 0;
}

/* Returns the bytes of the conversion of printf that begins a text, or 0: %s, %1$d, %-10.2f, %ld,
   %@. */
static size_t protect_printf(const char *text, size_t size) {
    const unsigned char *byte = (const unsigned char *)text;
    size_t i = 1;
    while (i < size && i < 10 && protect_in("0123456789$.-+#*", byte[i])) i++;
    while (i < size && i < 12 && protect_in("hlqjzt", byte[i])) i++;
    if (i >= size || !protect_in("sdifuxXeEgGcop@", byte[i])) return 0;
    return i + 1 < size && protect_is_word(byte[i + 1]) ? 0 : i + 1;
}

/* Returns the bytes of the code that begins a text, or 0: <b>, {name}, {{name}}, %s, &amp;, `x`. */
static size_t protect_code(const char *text, size_t size) {
    static const char open[] = "<{`&", closing[] = ">}`;";
    const unsigned char *byte = (const unsigned char *)text;
    const char *kind = *text ? strchr(open, *text) : NULL, *end;
    size_t i = 1;
    if (!kind) {
        return *text == '%' ? protect_printf(text, size) : 0;
    }
    while (i < size && i < 4 && text[i] == *text) i++;
    if (i < size && *text == '<' && text[i] == '/') i++;
    if (i >= size || (*text != '`' && !protect_is_letter(byte[i]) && text[i] != '#')) return 0;
    end = (const char *)memchr(text + i, closing[kind - open], size - i < 100 ? size - i : 100);
    for (; *text == '&' && end && text + i < end; i++)
        if (!protect_is_word(byte[i]) && text[i] != '#') return 0;
    for (; end && protect_in("&{", byte[0]) && text + i < end; i++)
        if (byte[i] <= ' ') return 0; /* in Markdown a space may be "\n" */
    if (!end) return 0;
    for (i = (size_t)(end - text); i < size && text[i] == *end;) i++;
    return i;
}

/* Returns the bytes up to the end of `close` in a text, at most 400, or 0. */
static size_t protect_until(const char *text, size_t size, const char *close) {
    size_t n = strlen(close), i;
    if (size > 400) size = 400;
    for (i = 1; i + n <= size; i++)
        if (memcmp(text + i, close, n) == 0) return i + n;
    return 0;
}

/* Returns the bytes of the brackets that begin a text, with what is in them, at most 400; 0 if they
   do not close. */
static size_t protect_brackets(const char *text, size_t size) {
    size_t i, deep = 0;
    for (i = 0; i < size && i < 400; i++) {
        if (text[i] == '{') deep++;
        if (text[i] == '}' && !--deep) return i + 1;
    }
    return 0;
}

/* Returns the bytes of the name that begins a text: a letter or "_", then also digits. */
static size_t protect_name(const char *text, size_t size) {
    size_t n = 0;
    while (n < size && (protect_is_letter((unsigned char)text[n]) || text[n] == '_' ||
                        (n && protect_is_digit((unsigned char)text[n]))))
        n++;
    return n;
}

/* Returns the bytes of the placeholder in braces that begins a text, or 0: {name}, {{ name }},
   {0:N2}, {% if x %}, {count, plural, ...}, {#id .class}. */
static size_t protect_braces(const char *text, size_t size) {
    static const char *const pairs[][2] = {{"{{{", "}}}"}, {"{{", "}}"}, {"{%", "%}"}, {"{#", "#}"},
                                           {"{!!", "!!}"}, {"{#", "}"},  {"{:", "}"},  {"{.", "}"},
                                           {"{/", "}"},    {"{@", "}"},  {"{$", "}"}};
    static const char kinds[] = " plural select selectordinal number date time ordinal duration ";
    const unsigned char *byte = (const unsigned char *)text;
    size_t i, n, k;
    char c;
    for (k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        n = protect_starts(text, size, pairs[k][0]) ? protect_until(text, size, pairs[k][1]) : 0;
        if (n && (k < 4 || !memchr(text, '\n', n))) return n;
    }
    n = protect_code(text, size);
    if (n) return n;
    for (i = 1; i < size && byte[i] == ' ';) i++;
    n = i;
    while (i < size && (protect_is_word(byte[i]) || protect_in("_.-[]$", byte[i]))) i++;
    if (i == n) return 0;
    for (n = i; n < size && byte[n] == ' ';) n++;
    if (n < size && byte[n] == '}') return n + 1;
    if (n + 1 >= size || memchr(text, '\n', n)) return 0;
    c = text[n];
    if (c == ',' && !protect_is_digit(byte[1])) {
        for (n++; n < size && byte[n] == ' ';) n++;
        k = protect_name(text + n, size - n);
        return characters_list_has(kinds, text + n, k) ? protect_brackets(text, size) : 0;
    }
    if (c == ',' || c == '|' || c == '=' || (n == i && c == '(') ||
        (n == i && protect_in(":!", (unsigned char)c) && text[n + 1] != ' ')) {
        n = protect_brackets(text, size);
        return n && !memchr(text, '\n', n) ? n : 0;
    }
    return 0;
}

/* Returns the bytes of the option of a program at position `at`, or 0: -a, --all, --color=WHEN. */
static size_t protect_option(const char *all, size_t n_all, size_t at) {
    const unsigned char *byte = (const unsigned char *)all;
    size_t i = at + 1;
    if (at && all[at - 1] > ' ' && !protect_in("([,|/", byte[at - 1])) return 0;
    if (i < n_all && all[i] == '-') {
        for (i++; i < n_all && (protect_is_word(byte[i]) || protect_in("-=_", byte[i])); i++)
            continue;
        if (i < at + 4 || !protect_is_letter(byte[at + 2])) return 0;
    } else if (i < n_all && protect_is_word(byte[i])) i++;
    else return 0;
    if (i - at == 2 && protect_is_digit(byte[at + 1])) return 0;
    return i == n_all || byte[i] <= ' ' || protect_in(",;:.|)]/=", byte[i]) ? i - at : 0;
}

/* Returns the bytes of the number or name that begins a text and ends with `close`, or 0. */
static size_t protect_named(const char *text, size_t size, size_t at, const char *close) {
    size_t n = at + (size < at ? 0 : protect_name(text + at, size - at));
    return n > at && protect_starts(text + n, size - n, close) ? n + strlen(close) : 0;
}

/* Returns the bytes of the placeholder of Qt that begins a text, or 0: %1, %L1, %n, also %1% of
   Boost. */
static size_t protect_qt(const char *text, size_t size) {
    const unsigned char *byte = (const unsigned char *)text;
    size_t i = size > 1 && byte[1] == 'L' ? 2 : 1, first = i;
    if (size > 1 && byte[1] == 'n') i++;
    else
        while (i < size && i < first + 2 && protect_is_digit(byte[i])) i++;
    if (i == first || (i < size && protect_is_word(byte[i]))) return 0;
    return i < size && byte[i] == '%' ? i + 1 : i;
}

/* Returns the bytes of the placeholder at position `at`, or 0. A program or a template replaces
   placeholders by values: {name}, {{ name }}, ${name}, $name, $t(name), {0:N2}, %s, %1$d, %1,
   %(name)s, %<name>s, %{name}, %%name%%, #{name}, <%= x %>, {% x %}, [% x %], [[name]],
   @Model.Name, :name, __name__. */
static inline size_t protect_placeholder(const char *all, size_t n_all, size_t at) {
    const char *text = all + at;
    const unsigned char *byte = (const unsigned char *)text;
    size_t size = n_all - at, n, i;
    char next = size > 1 ? text[1] : ' ';
    uint32_t before;
    if (!size || !protect_in("{%$#@<[-:_&", byte[0])) return 0;
    if (*text == '-') return protect_option(all, n_all, at);
    if (*text == '{') return protect_braces(text, size);
    if (*text == '&')
        return protect_starts(text, size, "&lt;%") ? protect_until(text, size, "%&gt;") : 0;
    if (*text == '[' && next == '[') {
        n = protect_until(text, size < 100 ? size : 100, "]]");
        for (i = 0; i < n; i++)
            if (byte[i] <= ' ') return 0;
        return n > 4 ? n : 0;
    }
    if (*text == '<' || *text == '[')
        return next == '%' ? protect_until(text, size, *text == '<' ? "%>" : "%]") : 0;
    if (next == '{') { /* ${...}, %{name}, #{...}, @{...} */
        n = protect_brackets(text + 1, size - 1);
        return n > 2 && *text != ':' && *text != '_' && !memchr(text, '\n', n) ? n + 1 : 0;
    }
    before = protect_before(all, at);
    if (protect_is_word(before) || before == (uint32_t)byte[0] || *text == '#') return 0;
    if (*text == '_') { /* __name__ */
        for (n = 2; next == '_' && n < size && n < 40 &&
                    (protect_is_word(byte[n]) || (byte[n] == '_' && byte[n - 1] != '_'));)
            n++;
        if (n > 3 && n < size && byte[n] == '_' && byte[n - 1] == '_') n++;
        return n > 5 && byte[n - 1] == '_' && byte[n - 2] == '_' && protect_is_letter(byte[2]) &&
                       !(n < size && protect_is_word(byte[n]))
                   ? n
                   : 0;
    }
    if (*text == '@') {
        for (n = 1; (i = protect_name(text + n, size - n)) > 0;) {
            n += i;
            if (!(n + 1 < size && text[n] == '.' && protect_is_letter(byte[n + 1]))) break;
            n++;
        }
        return n > 2 && before < 0x80 && before != '.' ? n : 0;
    }
    if (*text == ':') { /* :name of Laravel and Rails, in small letters; :smile: */
        for (n = 1; n < size && (protect_is_digit(byte[n]) || byte[n] == '_' ||
                                 (protect_is_letter(byte[n]) && byte[n] >= 'a'));)
            n++;
        if (n < 3 || !protect_in(" \t\n\"'([>", before) || !protect_is_letter(byte[1])) return 0;
        if (n < size && (protect_is_word(byte[n]) || byte[n] >= 0x80)) return 0;
        return n < size && text[n] == ':' ? n + 1 : n;
    }
    if (next == '(') { /* %(name)s, $(name) */
        n = protect_named(text, size, 2, ")");
        if (!n || *text == '$') return n;
        return n < size && protect_in("sdifuxr", byte[n]) ? n + 1 : 0;
    }
    if (*text == '%' && next == '%') return protect_named(text, size, 2, "%%");
    if (*text == '%' && (next == '<' || protect_starts(text, size, "%&lt;"))) {
        n = protect_named(text, size, next == '<' ? 2 : 5, next == '<' ? ">" : "&gt;");
        return n && n < size && protect_in("sdifuxr", byte[n]) ? n + 1 : 0;
    }
    n = protect_name(text + 1, size - 1) + 1;
    if (*text == '$') {
        if (protect_starts(text, size, "$t(")) { /* of i18next */
            n = protect_until(text, size, ")");
            return n && !memchr(text, '\n', n) ? n : 0;
        }
        while (n > 1 && n + 1 < size && text[n] == '.' &&
               (i = protect_name(text + n + 1, size - n - 1)) > 0)
            n += i + 1;
        return n > 2 && !(n < size && text[n] == '$') ? n : 0;
    }
    if (n > 2 && n < size && text[n] == '%') return n + 1; /* %name% */
    n = protect_printf(text, size);
    return n ? n : protect_qt(text, size);
}

/* Returns the bytes of the unit of length or time at position `at`, behind a number and a space:
   the m of 20 m, with the space if no line may end there; or 0. */
static size_t protect_unit(const char *all, size_t n_all, size_t at) {
    static const char *const spaces[] = {"\xC2\xA0", "\xE2\x80\xAF", "&nbsp;", "&#160;"};
    static const char *const units[] = {"km", "dm", "cm", "mm", "µm", "nm",
                                        "m",  "ft", "yd", "mi", "s"};
    size_t end = at > 0 && all[at - 1] == ' ' ? at - 1 : at, i, n = 0, k = 0;
    if (!end || !protect_is_digit((unsigned char)all[end - 1])) return 0;
    for (i = 0; i < sizeof spaces / sizeof *spaces && !n && end == at; i++)
        if (protect_starts(all + at, n_all - at, spaces[i])) n = strlen(spaces[i]);
    for (i = 0; i < sizeof units / sizeof *units && !k; i++)
        if (protect_starts(all + at + n, n_all - at - n, units[i])) k = strlen(units[i]);
    n += k;
    return k && !(at + n < n_all && protect_is_letter((unsigned char)all[at + n])) ? n : 0;
}

/* Returns the bytes of the raised digits at position `at`: ² of m². */
static size_t protect_raised(const char *all, size_t n_all, size_t at) {
    size_t i, n, end = at;
    uint32_t c;
    for (i = at; i < n_all; i += n) {
        n = tfm_character_next(all + i, n_all - i, &c);
        if (!(c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0x2070 && c <= 0x207E) ||
              (c >= 0x2080 && c <= 0x208E)))
            break;
        end = i + n;
    }
    return end - at;
}

/* Returns the bytes of the row of symbols at position `at`, or 0: © • ▾ ☐ →, emoji, marks of the
   writing direction, raised digits behind a word, as notes have them, and m² behind a number.
   Models drop them. */
static inline size_t protect_symbol(const char *all, size_t n_all, size_t at) {
    static const uint32_t ranges[][2] = {
        {0xA6, 0xA6},       {0xA9, 0xA9},       {0xAC, 0xAC},       {0xAE, 0xAE},
        {0xB6, 0xB6},       {0x200B, 0x200B},   {0x200E, 0x200F},   {0x202A, 0x202E},
        {0x2020, 0x2023},   {0x2043, 0x2043},   {0x2060, 0x206F},   {0x2117, 0x2117},
        {0x2120, 0x2120},   {0x2122, 0x2122},   {0x2190, 0x21FF},   {0x2300, 0x24FF},
        {0x2500, 0x27BF},   {0x27F0, 0x297F},   {0x2B00, 0x2BFF},   {0x3004, 0x3004},
        {0xE000, 0xF8FF},   {0xFE0F, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFFC, 0xFFFC},
        {0x1F000, 0x1FAFF}, {0xE0020, 0xE007F}, {0xF0000, 0x10FFFF}};
    size_t i, k, n, end = at, letters = 0;
    uint32_t c;
    for (i = at; i < n_all; i += n) {
        n = tfm_character_next(all + i, n_all - i, &c);
        for (k = 0; k < sizeof ranges / sizeof *ranges && c > ranges[k][1];) k++;
        if (k < sizeof ranges / sizeof *ranges && c >= ranges[k][0]) end = i + n;
        else if (!(end > at && (c == 0x200D || c == 0x20E3))) break;
    }
    if (end > at) return end - at;
    end += protect_raised(all, n_all, at); /* not those of m² and the like */
    if (end == at) {                       /* m², which models drop */
        n = protect_unit(all, n_all, at);
        k = n ? protect_raised(all, n_all, at + n) : 0;
        return k ? n + k : 0;
    }
    for (i = at; i > 0 && letters < 3; i--) {
        if (((unsigned char)all[i - 1] & 0xC0) == 0x80) continue;
        if (!protect_is_letter((unsigned char)all[i - 1]) && (unsigned char)all[i - 1] < 0x80)
            break;
        letters++;
    }
    return letters == 3 || (i == at && i > 0 && protect_in(".,;:!?)\"'", (unsigned char)all[i - 1]))
               ? end - at
               : 0;
}

/* Returns the bytes of the technical word that begins a text, or 0: an address, a path, a name with
   digits or underscores. */
static size_t protect_word(const char *text, size_t size) {
    static const char domains[] = ".com .org .net .edu .gov .io .info .eu .de .uk .fr .cn ";
    const unsigned char *byte = (const unsigned char *)text;
    size_t i = 0, n, at = 0, dots = 0, slashes = 0, odd = 0, digits = 0, letters = 0, host = 0;
    uint32_t c;
    int url, odd_brackets;
    for (n = 0; n < size && n < 16 && protect_is_letter(byte[n]);) n++;
    url = protect_starts(text, size, "www.") || protect_starts(text, size, "mailto:") ||
          (n > 1 && protect_starts(text + n, size - n, "://"));
    for (; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (c <= ' ' || protect_in("\"<>`|^", c) || character_is_space(c) || character_is_wide(c))
            break;
        if (!url && (c >= 0x80 || protect_in("()[]{},;!?*='", c))) break;
        if (c == '@') at = at ? size : i;
        if (c == '/' && !slashes++) host = i;
        dots += c == '.', odd += c == '\\' || c == '_';
        digits += protect_is_digit(c) != 0, letters += protect_is_letter(c) != 0;
    }
    if (i < size && !url && tfm_character_next(text + i, size - i, &c) && character_case(c))
        return 0;
    for (; i > 0 && protect_in(".,:;!?'-", byte[i - 1]); i--) dots -= text[i - 1] == '.';
    for (n = 0, odd_brackets = 0; n < i; n++) odd_brackets += (text[n] == ')') - (text[n] == '(');
    if (i > 0 && text[i - 1] == ')' && odd_brackets > 0) i--; /* (see www.a.b) */
    if (protect_starts(text + i, size - i, "()") && protect_is_letter(byte[0])) return i + 2;
    if (i < 2 || at >= i) return 0;
    if (url) return i > 5 ? i : 0;
    if (at) return dots && protect_is_word(byte[0]) ? i : 0;
    if (protect_in("@#/", byte[0])) return protect_is_word(byte[1]) && letters ? i : 0;
    if (odd) return i;
    if (!slashes) host = i;
    for (n = host; n > 0 && text[n - 1] != '.' && host - n < 5;) n--;
    if (dots && n > 1 && host > n) { /* example.org/a */
        char domain[8] = ".";
        memcpy(domain + 1, text + n, host - n), domain[host - n + 1] = ' ';
        if (strstr(domains, domain)) return i;
    }
    return protect_is_letter(byte[0]) && (digits || slashes > 1) ? i : 0; /* v2.3.1, a/b/c */
}

/* Returns whether a text is UTF-8 without control characters. Others would break lines or
   fields. */
static int protect_is_plain(const char *text, size_t size) {
    static const uint32_t least[] = {0, ' ', 0x80, 0x800, 0x10000};
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (c < least[n] || (n == 1 && c == 0xFFFD) || c > 0x10FFFF || (c >= 0x7F && c < 0xA0) ||
            (c >= 0xD800 && c < 0xE000) || c == 0x2028 || c == 0x2029)
            return 0;
    }
    return 1;
}

/* Returns the bytes of the span that begins at position `at`, or 0. */
static size_t protect_span_at(const char *text, size_t size, size_t at) {
    uint32_t c = protect_before(text, at);
    size_t n = protect_emoji(text + at, size - at);
    int is_inside = c < 0x80 ? !protect_in("\"<>`|()[]{},;!?*='", c) : character_case(c) != 0;
    if (n && (unsigned char)text[at] >= 0x80) return n;
    if (c > ' ' && is_inside) return 0; /* a span cannot begin inside a word */
    if (!n) n = protect_code(text + at, size - at);
    if (!n) n = protect_groups(text + at, size - at);
    if (!n) n = protect_word(text + at, size - at);
    if (!n) n = protect_number(text + at, size - at);
    return protect_is_plain(text + at, n) ? n : 0;
}

/* Returns whether a text begins with a stop that ends the text or its sentence. */
static int protect_is_end(const char *text, size_t size) {
    if (protect_starts(text, size, "\xE3\x80\x82")) return 1;
    return size && protect_in(".!?", (unsigned char)*text) && (size == 1 || text[1] == ' ');
}

/* Returns the bytes of the comma or colon before a span of n bytes at byte `at`, with its space, if
   the span is the last word of a sentence: Ask him, a@b.org. A model would read the comma as the
   begin of more text. */
static inline size_t protect_joint(const char *text, size_t size, size_t at, size_t n) {
    if (at + n > size || !protect_is_end(text + at + n, size - at - n)) return 0;
    if (at > 2 && text[at - 1] == ' ' && protect_in(",:;", (unsigned char)text[at - 2])) return 2;
    return at > 3 && (memcmp(text + at - 3, "\xEF\xBC\x8C", 3) == 0 ||
                      memcmp(text + at - 3, "\xEF\xBC\x9A", 3) == 0)
               ? 3
               : 0;
}

/* Adds a span that is removed at the end of the clean text. Returns 0 if there is no memory. */
static int protect_add(protect_text *p, size_t begin, size_t size) {
    if (p->n == p->room) {
        size_t room = 2 * p->room + 4;
        protect_span *grown = (protect_span *)realloc(p->spans, room * sizeof *grown);
        if (!grown) return 0;
        p->spans = grown, p->room = room;
    }
    p->spans[p->n].at = p->clean.size;
    p->spans[p->n].begin = begin, p->spans[p->n++].size = size;
    return 1;
}

/* Changes the clean text to small letters, except the first letter. Moves the spans, because a
   small letter may have more or fewer bytes than its capital. */
static void protect_lower_all(protect_text *p) {
    text_buffer whole;
    size_t i, n, k = 0;
    uint32_t c;
    int first = 1;
    memset(&whole, 0, sizeof whole);
    for (i = 0; i <= p->clean.size; i += n) {
        for (; k < p->n && p->spans[k].at == i; k++) p->spans[k].at = whole.size;
        if (i == p->clean.size) break;
        n = tfm_character_next(p->clean.data + i, p->clean.size - i, &c);
        if (first || !character_case(c)) text_buffer_append(&whole, p->clean.data + i, n);
        else protect_append_char(&whole, protect_lower(c));
        first = first && !character_case(c);
    }
    text_buffer_free(&p->clean);
    p->clean = whole;
}

/* Removes the spans from a text, which must stay in memory until protect_put. Returns 0 if nothing
   is left to translate. If memory was too small, p->clean.broken is set. */
static inline int protect_take(protect_text *p, const char *text, size_t size) {
    size_t i, k, n, span, joint, from = 0;
    uint32_t c = 0;
    int left = 0, keeps_capitals = p->keeps_capitals;
    if (p->room > 256) protect_free(p);
    p->keeps_capitals = keeps_capitals;
    p->text = text, p->n = 0;
    text_buffer_clear(&p->clean, 1 << 12);
    for (i = 0; i < size; i += n) {
        span = protect_span_at(text, size, i);
        n = span ? span : tfm_character_next(text + i, size - i, &c);
        if (!span) left |= c < 0x80 ? protect_is_word(c) : !character_is_space(c);
        if (!span) continue;
        text_buffer_append(&p->clean, text + from, i - from);
        from = i + n;
        joint = protect_joint(text, size, i, span);
        if (joint && p->clean.size > joint &&
            (!p->n || p->spans[p->n - 1].at + joint <= p->clean.size))
            p->clean.data[p->clean.size -= joint] = 0;
        else joint = 0;
        if (!p->clean.size && from < size && text[from] == ' ') from++, n++;
        if (p->clean.size && p->clean.data[p->clean.size - 1] == ' ' && /* no double space */
            (from == size || protect_in(" ,.;:!?)]}", (unsigned char)text[from])))
            p->clean.data[--p->clean.size] = 0;
        for (k = p->n; k > 0 && p->spans[k - 1].at > p->clean.size; k--)
            p->spans[k - 1].at = p->clean.size;
        if (!protect_add(p, i - joint, span + joint)) p->clean.broken = 1;
    }
    text_buffer_append(&p->clean, text + from, size - from);
    p->capitals = !p->clean.broken && !keeps_capitals &&
                  protect_is_capitals(p->clean.data, p->clean.size);
    if (p->capitals) protect_lower_all(p);
    return left;
}

/* ---- insertion ------------------------------------------------------------------------------- */

/* Returns whether a span may be inserted at position `at`: beside a space, before a stop, or beside
   a character of a script without spaces. */
static int protect_is_gap(const char *text, size_t size, size_t at) {
    uint32_t before = protect_before(text, at), after;
    if (at >= size) return 1;
    if (((unsigned char)text[at] & 0xC0) == 0x80) return 0;
    (void)tfm_character_next(text + at, size - at, &after);
    return character_is_space(before) || character_is_space(after) || character_is_wide(before) ||
           character_is_wide(after) || protect_in(",;:!?)]", after) ||
           (after == '.' && (at + 1 == size || text[at + 1] == ' '));
}

/* Returns the position in a translation where a span is inserted. Token i of the translation ends
   at byte ends[i] and comes from byte sources[i] of the source, which has n_source bytes without
   spans; the span was at byte `at` of it. The best position has the fewest tokens on the wrong side
   of the span. Among equals the one wins that divides the translation most nearly in the proportion
   in which `at` divides the source. */
static size_t protect_place(size_t n_source, size_t at, const char *text, size_t size, size_t n,
                            const size_t *ends, const size_t *sources) {
    size_t i, best = 0, crossed = 0, least = (size_t)-1, place;
    double share = n_source ? (double)at / (double)n_source : 0, off, nearest = 2;
    for (i = 0; i < n; i++) crossed += sources[i] < at;
    for (i = 0; i <= n; i++) {
        place = i == n ? size : i ? ends[i - 1] : 0;
        if (i) crossed += sources[i - 1] < at ? (size_t)-1 : 1;
        off = (size ? (double)place / (double)size : 0) - share;
        if (off < 0) off = -off;
        if (crossed > least || (crossed == least && off >= nearest)) continue;
        if (!protect_is_gap(text, size, place)) continue;
        least = crossed, nearest = off, best = place;
    }
    return best;
}

/* Appends a translation, text [size], with the spans inserted in their original order; in capitals
   if the original text was. ends [n] and sources [n] are those of protect_place. */
static inline void protect_put(protect_text *p, const char *text, size_t size, size_t n,
                               const size_t *ends, const size_t *sources, text_buffer *out) {
    size_t i, k, from = 0, to, begin = out->size;
    uint32_t c;
    for (i = 0; i < p->n; i++) {
        const char *behind = p->clean.data + p->spans[i].at;
        to = protect_place(p->clean.size, p->spans[i].at, text, size, n, ends, sources);
        if (p->spans[i].at + 4 > p->clean.size &&
            protect_is_end(behind, p->clean.size - p->spans[i].at) && size > 1 &&
            protect_in(".!?", (unsigned char)text[size - 1]))
            to = size - 1; /* the last word of the sentence */
        if (to && to < size && text[to - 1] == ' ') to--;
        for (k = i; k > 0 && p->spans[k - 1].to > to; k--) p->spans[k].to = p->spans[k - 1].to;
        p->spans[k].to = to;
    }
    for (i = 0; i <= p->n; i++, from = to) {
        to = i < p->n ? p->spans[i].to : size;
        if (i && to > from && tfm_character_next(text + from, size - from, &c) &&
            !character_is_space(c) && !character_is_wide(c) && !protect_in(",.;:!?)]}", c))
            text_buffer_append(out, " ", 1);
        protect_append(out, text + from, to - from, p->capitals);
        if (i == p->n) break;
        if (out->size > begin && !protect_in(" ([{", (unsigned char)out->data[out->size - 1]) &&
            !protect_in(",:;", (unsigned char)p->text[p->spans[i].begin]) &&
            tfm_space_after(tfm_text_make(out->data + begin, out->size - begin)))
            text_buffer_append(out, " ", 1);
        text_buffer_append(out, p->text + p->spans[i].begin, p->spans[i].size);
    }
}

#endif
