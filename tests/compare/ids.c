/* ids MODEL < LINES: prints for each line its source ids, a TAB, and the text of these ids read as
   target ids. tests/tools/test_t5.py compares the output with transformers' tokenizers. */
#include "transformer.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static char line[1 << 16], text[1 << 18];
    static unsigned char memory[1 << 23];
    static int32_t ids[1 << 16];
    tfm_model *model = NULL;
    tfm_error err;
    if (argc < 2 || tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK)
        return fprintf(stderr, "%s\n", argc < 2 ? "ids MODEL" : err.text), 2;
    while (fgets(line, sizeof line, stdin)) {
        tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
        size_t size = strcspn(line, "\n");
        int32_t n = 0, i;
        if (tfm_model_tokenize(model, tfm_text_make(line, size), TFM_TEXT_FORM_TEXT, ids, 1 << 16,
                               &n, &scratch, &err) != TFM_OK ||
            tfm_model_detokenize(model, ids, n, TFM_TEXT_FORM_TEXT, text, sizeof text, &size,
                                 &err) != TFM_OK)
            return fprintf(stderr, "%s\n", err.text), 2;
        for (i = 0; i < n; i++) printf("%d ", (int)ids[i]);
        printf("\t%s\n", text);
    }
    tfm_model_free(model);
    return 0;
}
