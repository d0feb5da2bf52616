/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/terms.c
   -lm Reads a list of terms, cuts a text into sentences, and puts terms and protected spans into
   what is said to be their translation: the sentence with its bytes in another order. The first two
   bytes choose the order and the tokens. A byte 0 ends the list, and the text follows. */
#include "fuzz.h"

#include "examples/translate/text/terms.h"

enum { TOKENS = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static terms_list list;
    static terms_found found;
    static protect_text safe;
    static text_buffer out, text;
    char message[160] = "";
    const uint8_t *end;
    const char *whole;
    tfm_text sentence;
    size_t at = 0, n, i, last = 0, total, tokens, ends[3 * TOKENS];
    unsigned step;
    if (size < 2) return 0;
    step = data[0] % 7 + 1, tokens = data[1] % TOKENS + 1u, data += 2, size -= 2;
    end = size ? (const uint8_t *)memchr(data, 0, size) : NULL;
    n = end ? (size_t)(end - data) : size;
    if (!terms_read(&list, (const char *)data, n, message, sizeof message))
        need(message[0] && !list.n && test_is_utf8(message, strlen(message)));
    whole = (const char *)data + n + (end != NULL), total = size - n - (end != NULL);
    while (tfm_sentence_next(tfm_text_make(whole, total), &at, &sentence)) {
        n = sentence.size;
        need(sentence.data >= whole + last && n > 0 && sentence.data + n <= whole + at);
        need(at <= total);
        last = (size_t)(sentence.data - whole) + n;
        (void)terms_find(&list, sentence.data, n, &found);
        text.size = 0;
        for (i = 0; i < step; i++) /* words in another order */
            text_buffer_append(&text, sentence.data + n * i / step,
                               n * (i + 1) / step - n * i / step);
        for (i = 0; i < tokens; i++) {
            ends[i] = text.size * (i + 1) / tokens;
            ends[tokens + i] = n * ((i * step) % tokens) / tokens;
            ends[2 * tokens + i] = n * ((i * step) % tokens + 1) / tokens;
        }
        out.size = 0;
        terms_put(&found, text.data, text.size, tokens, ends, ends + tokens, ends + 2 * tokens,
                  &out);
        need(!found.broken && !out.broken);
        for (i = 0; i < tokens; i++) need(ends[i] <= out.size && (!i || ends[i] >= ends[i - 1]));
        (void)protect_take(&safe, sentence.data, n);
        need(safe.clean.size <= n + 64);
        text.size = 0;
        protect_put(&safe, out.data, out.size, tokens, ends, ends + tokens, &text);
        need(!text.broken);
    }
    (void)text_buffer_flatten, (void)text_buffer_format;
    return 0;
}
