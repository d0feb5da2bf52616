/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/markup.c
   -lm Translates any document by a fake function that the first byte chooses. Without translations
   the document must come out byte for byte. With them all its tags must come out, and sentences in
   UTF-8 must stay valid. */
#include "fuzz.h"

#include "tests/translate/markup_fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fake f;
    static text_buffer out;
    const char *text = (const char *)data + 1;
    size_t i, n[2] = {0, 0};
    int how = size ? data[0] % TRANSLATORS : 0;
    if (!size) return 0;
    f.state = data[0];
    (void)run(&f, how, (markup_form)((data[0] >> 4) % 5), text, size - 1, &out);
    if (how == NOTHING)
        need(out.size == size - 1 && (!out.size || !memcmp(out.data, text, out.size)));
    for (i = 0; i + 1 < size; i++) n[0] += text[i] == '"';
    for (i = 0; i < out.size; i++) n[1] += out.data[i] == '"';
    if (how == BACKWARDS && !memchr(text, '&', size - 1)) /* a link may get its label */
        need(n[0] == n[1] || ((data[0] >> 4) % 5 == MARKUP_MARKDOWN && n[0] < n[1]));
    if (test_is_utf8(text, size - 1) && how == BACKWARDS) need(test_is_utf8(out.data, out.size));
    (void)protect_put, (void)protect_take, (void)text_buffer_flatten, (void)text_buffer_format;
    return 0;
}
