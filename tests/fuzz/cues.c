/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/cues.c -lm
   Writes texts of any bytes as text, subtitles and JSON, which strict readers must read as so many
   cues. A byte 0 ends a text, and the byte before each text says when it is spoken. */
#include "fuzz_program.h"

static void cue_fail(const char *text) {
    (void)text;
    abort();
}
#include "examples/transcribe/cues.h"
#include "fuzz_cues.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *said = NULL, *text = (char *)malloc(size + 1);
    size_t n = 0, at, length, most = 0; /* most: of the texts so far, whose room stays */
    cue_line line = {NULL, 0, 0};
    int form;
    if (!text) abort();
    if (size) memcpy(text, data, size);
    text[size] = 0;
    for (form = CUE_TEXT; form <= CUE_JSON; form++) {
        fuzz_said = open_memstream(&said, &n);
        need(fuzz_said != NULL);
        cue_output.form = (cue_form)form, cue_output.writing = cue_output.number = 0;
        memset(cue_output.lanes, 0, sizeof cue_output.lanes);
        if (form == CUE_VTT) fputs("WEBVTT\n\n", stdout);
        for (at = 0; at < size; at += length + 2) {
            length = strlen(text + at + 1 > text + size ? text + size : text + at + 1);
            cue_clear(&line), cue_append_text(&line, length ? text + at + 1 : "");
            if (length > most) most = length;
            need(line.n == strlen(line.at) && line.room < 16 * most + 4096);
            cue_add(0, (int8_t)data[at], data[at], line.at);
        }
        cue_add(0, 0, 0, NULL);
        fclose(fuzz_said), fuzz_said = NULL;
        need(test_is_utf8(said, n));
        for (at = 0; at < n; at++) need((uint8_t)said[at] >= 32 || said[at] == '\n');
        for (at = 0; at < n; at++)
            need(said[at] != 127 && ((uint8_t)said[at] != 0xC2 || (uint8_t)said[at + 1] >= 0xA0));
        fuzz_check_cues(form, said, n);
        free(said), said = NULL;
    }
    return free(line.at), free(text), 0;
}
