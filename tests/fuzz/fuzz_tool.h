/* fuzz_tool.h: for programs of tools/, whose first file is a changed model. */
#ifndef FUZZ_TOOL_H
#define FUZZ_TOOL_H

#include "fuzz_program.h"
#include "fuzz_model.h"

/* Writes a changed model with a license, or data unchanged: a container of any content. */
static void fuzz_write_model(const uint8_t *data, size_t size) {
    static const char begin[] = "{\"__metadata__\":{";
    static uint8_t file[1 << 18];
    void *bytes = NULL;
    char license[256] = "\"license\":\"";
    size_t n = 0, length, i, at = strlen(license);
    if (!size || data[0] & 128 || !fuzz_changed(data, size, &bytes, &n)) {
        fuzz_write(0, data, size);
        return;
    }
    for (i = size > 16 ? size - 16 : 0; i < size; i++)
        at += (size_t)snprintf(license + at, 8, "\\u%s%02x", i & 1 ? "00" : "20",
                               data[i] ? data[i] : 1u);
    at += (size_t)snprintf(license + at, 8, "\",");
    need(n + at <= sizeof file && memcmp((char *)bytes + 8, begin, sizeof begin - 1) == 0);
    length = ((uint8_t *)bytes)[0] + 256u * ((uint8_t *)bytes)[1] + at;
    memcpy(file, bytes, 8 + sizeof begin - 1);
    file[0] = length & 255, file[1] = (uint8_t)(length >> 8);
    memcpy(file + 8 + sizeof begin - 1, license, at);
    memcpy(file + 8 + sizeof begin - 1 + at, (char *)bytes + 8 + sizeof begin - 1,
           n - 8 - sizeof begin + 1);
    fuzz_write(0, file, n + at);
    free(bytes);
}

#endif
