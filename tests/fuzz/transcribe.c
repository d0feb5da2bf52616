/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests
   tests/fuzz/transcribe.c -lm Runs transcribe with a changed Whisper file and a sound
   (fuzz_whisper.h). The last two bytes choose the options. What it prints must be whole in its
   form. */
#include "fuzz_program.h"
#include "fuzz_whisper.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wshadow" /* The headers have arguments that are named err. */
#endif
#define FFMPEG_OFF /* it would run for each input */
#define main transcribe_main
#define exit fuzz_exit
#undef TRANSFORMER_IMPLEMENTATION
#include "examples/transcribe/transcribe.c"
#undef main
#undef exit
#include "fuzz_cues.h"

/* A program that ends early leaves memory to the system. This frees the large blocks; leaks are
   what tests/fuzz/whisper.c looks for. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
static void forget(void) {
    transcriber_free(&jobs[0].h);
    tfm_model_free(model), tfm_safetensors_free(file);
    model = NULL, file = NULL, memset(&source, 0, sizeof source), memset(jobs, 0, sizeof jobs);
}

/* Copies what was printed without the lines that warn of the model. Returns the new size. */
static size_t without_warnings(char *out, const char *said, size_t size) {
    static const char *const warnings[] = {"transcribe: the model has no voice detector",
                                           "transcribe: the model knows English only"};
    int k, is_warning;
    const char *end = said + size, *next;
    size_t n = 0;
    for (; said < end; said = next) {
        next = (const char *)memchr(said, '\n', (size_t)(end - said));
        next = next ? next + 1 : end;
        for (k = is_warning = 0; k < 2; k++)
            is_warning |= (size_t)(next - said) > strlen(warnings[k]) &&
                          !memcmp(said, warnings[k], strlen(warnings[k]));
        if (is_warning) continue;
        memcpy(out + n, said, (size_t)(next - said)), n += (size_t)(next - said);
    }
    out[n] = 0;
    return n;
}

static void look(const char *printed, size_t all, int status) {
    char *said = (char *)malloc(all + 1);
    size_t size = said ? without_warnings(said, printed, all) : 0;
    const char *end = said + size;
    need(said != NULL);
    if (status) { /* The last line is a message. */
        need(size && end[-1] == '\n');
        for (end--; end > said && end[-1] != '\n';) end--;
        need(strncmp(end, "transcribe: ", 12) == 0);
    }
    if (status == 0 || (size_t)(end - said) > 8)
        fuzz_check_cues(cue_output.form, said, (size_t)(end - said));
    free(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const forms[] = {"text", "srt", "vtt", "json"};
    static uint8_t wave[1 << 17];
    const char *arguments[24] = {"transcribe", NULL,        NULL, "--beam",
                                 "1",          "--best-of", "1",  "--format"};
    unsigned first = size > 1 ? data[size - 2] : 0, last = size ? data[size - 1] : 0;
    const uint8_t *end = data + size;
    void *bytes = NULL;
    size_t n = 0;
    int k = 9;
    if (!fuzz_whisper(&data, end, &bytes, &n)) return 0;
    fuzz_write(0, bytes, n), free(bytes);
    if ((first & 7) == 7) fuzz_write(1, data, (size_t)(end - data));
    else n = fuzz_wave(data, end, wave, sizeof wave), fuzz_write(1, wave, n);
    arguments[1] = fuzz_paths[0], arguments[2] = fuzz_paths[1], arguments[8] = forms[last & 3];
    if (last & 4) arguments[k++] = "--words";
    if (last & 8) arguments[k++] = "--timestamps";
    if (last & 16) arguments[k++] = "--no-times";
    if (last & 32) arguments[k++] = "--silence=0";
    if (last & 64) arguments[k++] = "--no-previous";
    if (last & 128) arguments[k++] = "--log-prob=0", arguments[k++] = "--compression=0";
    arguments[k++] = first & 8 ? "--temperature=0,1" : "--temperature=0";
    if (first & 16) arguments[k++] = "--prompt= a world";
    if (first & 32) arguments[k++] = "--language=fr";
    if (first & 64) arguments[k++] = "--task=translate";
    fuzz_look = look;
    memset(&asked, 0, sizeof asked);
    memset(cue_output.lanes, 0, sizeof cue_output.lanes);
    cue_output.writing = cue_output.number = 0, first_text = 0, temperatures = NULL;
    task = "transcribe", with_times = 0;
    (void)fuzz_run(transcribe_main, arguments);
    forget();
    return 0;
}
