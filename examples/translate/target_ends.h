/* target_ends.h: finds where each token of a translation ends in its text.

       target_ends_find(model, result.ids, result.length, TFM_TEXT_FORM_TEXT, ends, &err);

   Include transformer.h before this header. */
#ifndef TARGET_ENDS_H
#define TARGET_ENDS_H

#include <stdlib.h>
#include <string.h>

/* Finds ends[i], the byte of a target's text where token i ends: the length of the common prefix of
   the text of tokens 0 to i and the whole text. The length of the first text alone would be wrong,
   because a later token may complete a character or remove a space. */
static tfm_status target_ends_find(const tfm_model *model, const int32_t *ids, int32_t n,
                                   tfm_text_form form, size_t *ends, tfm_error *err) {
    enum { MORE = 16 }; /* bytes by which the text of a part may exceed the whole text */
    size_t whole = 0, size = 0;
    int32_t i;
    char *text, *part;
    tfm_status status = tfm_model_detokenize(model, ids, n, form, NULL, 0, &whole, err);
    if (status != TFM_OK) return status;
    text = (char *)malloc(whole + 1), part = (char *)malloc(whole + MORE);
    status = text && part ? TFM_OK : TFM_E_MEMORY;
    if (status == TFM_OK)
        status = tfm_model_detokenize(model, ids, n, form, text, whole + 1, &whole, err);
    else if (err) strcpy(err->text, "too little memory");
    for (i = 0; status == TFM_OK && i < n; i++) {
        status = tfm_model_detokenize(model, ids, i + 1, form, part, whole + MORE, &size, err);
        for (ends[i] = 0; status == TFM_OK && ends[i] < whole && ends[i] < size; ends[i]++)
            if (text[ends[i]] != part[ends[i]]) break;
    }
    free(text), free(part);
    return status;
}

#endif
