/* kept_inputs.h: runs the kept inputs of a fuzz target, which the test includes before this. */
#ifndef KEPT_INPUTS_H
#define KEPT_INPUTS_H

#include <dirent.h>

/* Runs each file of a folder. */
static void run_kept(const char *folder) {
    static unsigned char bytes[4096];
    DIR *all = opendir(folder);
    struct dirent *entry;
    int runs = 0;
    while (all && (entry = readdir(all)) != NULL) {
        char path[300];
        FILE *f;
        size_t n;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
        f = fopen(path, "rb");
        n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
        if (f) fclose(f);
        CHECK(n > 0 && LLVMFuzzerTestOneInput(bytes, n) == 0, "%s", entry->d_name);
        runs++;
    }
    CHECK(runs > 0, "%s has no inputs", folder);
    if (all) closedir(all);
}

#endif
