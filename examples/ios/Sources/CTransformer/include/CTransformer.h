/* The module that Swift imports: the header at the top of the repository, and a translator of whole
   texts in three calls. */
#include "../../../../../transformer.h"

/* A model with a texts_translator (examples/translate/text/texts.h). One thread at a time may use
   it. */
typedef struct text_translator text_translator;

/* Loads a model file. Returns NULL with the reason in err. */
text_translator *text_translator_open(const char *path, tfm_error *err);
/* Translates a text. Returns NULL with the reason in err; else the caller frees the translation. */
char *text_translator_run(text_translator *t, const char *text, tfm_error *err);
/* Frees a translator, which may be NULL. */
void text_translator_close(text_translator *t);
