/* Files that the tools write: a file must be whole or unchanged, whatever goes wrong. Also tests
   that names from untrusted files are made visible. */
#include "output.h"
#include "transformer.h"
#include <dirent.h>

#ifndef __wasi__
/* The signal arrives during write number signal_at. */
static int writes_until, signal_then;
static size_t signalling_fwrite(const void *data, size_t size, size_t n, FILE *stream) {
    if (writes_until && --writes_until == 0) raise(signal_then);
    return fwrite(data, size, n, stream);
}
#define fwrite signalling_fwrite
#endif
#include "tiny.h"
#undef fwrite

#define WHERE "build/test_output.out"

static void put(const char *path, const char *text) {
    FILE *stream = fopen(path, "wb");
    if (!stream || fputs(text, stream) < 0 || fclose(stream) != 0) exit(2);
}

/* Returns whether the file holds text, and exactly n other files next to it begin with its name. */
static int holds(const char *path, const char *text, int n) {
    char got[64] = "";
    FILE *stream = fopen(path, "rb");
    size_t size = stream ? fread(got, 1, sizeof got - 1, stream) : 0;
    DIR *folder = opendir("build");
    struct dirent *entry;
    const char *name = strchr(WHERE, '/') + 1;
    if (stream) fclose(stream);
    while (folder && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, name, strlen(name)) == 0 && strcmp(entry->d_name, name) != 0)
            n--;
    if (folder) closedir(folder);
    return folder && n == 0 &&
           (text ? stream && size == strlen(text) && strcmp(got, text) == 0 : !stream);
}

static const char *write_out(output *o, const char *text, const char *fault) {
    const char *refused = output_open(o, WHERE);
    if (refused) return refused;
    fputs(text, o->stream);
    return output_close(o, fault);
}

/* A file that is written 4 KB at a time gets small pages of the system's cache, and mapping it then
   takes ten times as many page faults. */
static void blocks(void) {
    const long block = OUTPUT_BUFFER;
    char piece[1000];
    long written = 0, size, before = 0, least = block;
    output o;
    SECTION("blocks of 1 MB");
    memset(piece, 'a', sizeof piece);
    if (output_open(&o, WHERE)) exit(2);
    for (; written < 3 * block; written += (long)sizeof piece) {
        FILE *part = fopen(o.part, "rb");
        if (!part || fseek(part, 0, SEEK_END) != 0) exit(2);
        size = ftell(part);
        fclose(part);
        if (size > before && size - before < least) least = size - before;
        before = size;
        if (fwrite(piece, 1, sizeof piece, o.stream) != sizeof piece) exit(2);
    }
    CHECK(before >= block && least > block - 2 * (long)sizeof piece,
          "the file grows by %ld bytes or more", least);
    CHECK(!output_close(&o, NULL), "  and is whole at the end");
    remove(WHERE);
}

static void whole_or_not(void) {
    output o;
    const char *fault;
    char stale[64];
    SECTION("whole or not at all");
    remove(WHERE);
    CHECK(!write_out(&o, "one", NULL) && holds(WHERE, "one", 0), "a new file");
    CHECK(!output_open(&o, WHERE) && fputs("two", o.stream) >= 0 && holds(WHERE, "one", 1),
          "the old file stays until the end");
    CHECK(!output_close(&o, NULL) && holds(WHERE, "two", 0), "  then the new file replaces it");
    fault = write_out(&o, "three", "a cause");
    CHECK(fault && strcmp(fault, "a cause") == 0 && holds(WHERE, "two", 0),
          "unchanged after a fault");
    fault = output_open(&o, "build/nowhere/out");
    CHECK(fault && strcmp(fault, strerror(ENOENT)) == 0, "no such folder: %s", fault);
    snprintf(stale, sizeof stale, "%s.part%d", WHERE, output_process());
    put(stale, "stale");
    CHECK(!write_out(&o, "four", NULL) && holds(WHERE, "four", 1) && holds(stale, "stale", 1),
          "a part file of another run is left alone");
    remove(stale);
    fault = output_open(&o, "build");
    CHECK(fault && strcmp(fault, "is not a regular file") == 0, "a folder");
}

#if !defined(_WIN32) && !defined(__wasi__)
#include <sys/resource.h>
#include <sys/wait.h>

static int kind_of(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 ? (int)(about.st_mode & S_IFMT) : 0;
}
static int mode_of(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 ? (int)(about.st_mode & 0777) : -1;
}

static void other_files(void) {
    output o;
    const char *fault;
    char part[64];
    SECTION("links, pipes, devices");
    remove(WHERE);
    put("build/test_output.victim", "victim");
    if (symlink("test_output.victim", WHERE) != 0) exit(2);
    fault = write_out(&o, "five", NULL);
    CHECK(fault && strstr(fault, "symbolic link") && kind_of(WHERE) == S_IFLNK, "a link: %s",
          fault);
    CHECK(holds("build/test_output.victim", "victim", 0), "  is not followed");
    remove(WHERE);
    if (symlink("nowhere", WHERE) != 0) exit(2);
    CHECK(write_out(&o, "five", NULL) && kind_of(WHERE) == S_IFLNK, "a link to a missing file");
    remove(WHERE);
    snprintf(part, sizeof part, "%s.part%d", WHERE, output_process());
    if (symlink("test_output.victim", part) != 0) exit(2);
    CHECK(!write_out(&o, "six", NULL) && holds(WHERE, "six", 1),
          "a link where the part file belongs");
    CHECK(holds("build/test_output.victim", "victim", 1) && kind_of(part) == S_IFLNK,
          "  is not followed");
    remove(part), remove(WHERE), remove("build/test_output.victim");
    if (mkfifo(WHERE, 0600) != 0) exit(2);
    fault = write_out(&o, "seven", NULL);
    CHECK(fault && strcmp(fault, "is not a regular file") == 0 && kind_of(WHERE) == S_IFIFO,
          "a pipe");
    remove(WHERE);
    if (mknod(WHERE, S_IFCHR | 0600, (dev_t)(1 << 8 | 3)) ==
        0) { /* Linux's null device, made here */
        fault = write_out(&o, "eight", NULL);
        CHECK(fault && strcmp(fault, "is not a regular file") == 0 && kind_of(WHERE) == S_IFCHR,
              "a device");
        remove(WHERE);
    } else {
        test_skip("a device: only root can make one");
    }
}

static void permissions(void) {
    output o;
    mode_t before = umask(027);
    SECTION("permissions");
    CHECK(!write_out(&o, "nine", NULL) && mode_of(WHERE) == 0640, "a new file: mode by the umask");
    chmod(WHERE, 0600);
    CHECK(!write_out(&o, "ten", NULL) && mode_of(WHERE) == 0600,
          "an existing file: its mode, with fewer bits");
    chmod(WHERE, 0664);
    CHECK(!write_out(&o, "eleven", NULL) && mode_of(WHERE) == 0664, "  and more");
    chmod(WHERE, 0444);
    if (geteuid() != 0)
        CHECK(write_out(&o, "twelve", NULL) && holds(WHERE, "eleven", 0), "  none to write");
    chmod(WHERE, 0600);
    umask(before);
}

static void over_the_limit(void) {
    struct rlimit before, small;
    st_writer w;
    static float zeros[4096];
    const char *fault;
    SECTION("a file over the limit");
    put(WHERE, "old");
    getrlimit(RLIMIT_FSIZE, &before);
    small = before, small.rlim_cur = 4096;
    st_init(&w);
    st_add(&w, "x", tfm_tensor_1d(zeros, TFM_DTYPE_F32, 4096));
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) exit(2);
    fault = st_write_file(&w, WHERE);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(fault && strstr(fault, strerror(EFBIG)) && holds(WHERE, "old", 0), "%s", fault);
    st_free(&w);
}
#endif

#if !defined(_WIN32) && !defined(__wasi__)
/* The second of two signals must end the program at once and remove the part file. */
static void second_signal(void) {
    pid_t child;
    int status = 0;
    SECTION("a second signal");
    put(WHERE, "old");
    fflush(stdout);
    child = fork();
    if (child == 0) {
        output o;
        signal(SIGINT, SIG_DFL);
        if (output_open(&o, WHERE) || fputs("new", o.stream) < 0 || fflush(o.stream)) _exit(3);
        raise(SIGINT);
        if (!output_stopped() || holds(WHERE, "old", 0))
            _exit(4); /* Wait until there is a part file. */
        raise(SIGINT);
        _exit(5);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
              WTERMSIG(status) == SIGINT,
          "ends the program");
    CHECK(holds(WHERE, "old", 0), "and the old file is alone");
}
#endif

#ifndef __wasi__
static int seen, part_then;
static void see(int number) {
    seen = number;
    part_then = !holds(WHERE, "old", 0);
    signal(number, see);
}

/* Sends a signal during the first, a middle and the last write. */
static void signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM};
    static float zeros[1 << 20];
    st_writer w;
    output o;
    const char *fault;
    int i, at;
    SECTION("signals");
    put(WHERE, "old");
    for (i = 0; i < 2; i++) {
        signal(numbers[i], see);
        for (at = 1; at <= 6; at++) { /* writes of a length, a header, four pieces */
            st_init(&w);
            st_add(&w, "x", tfm_tensor_1d(zeros, TFM_DTYPE_F32, 1 << 20));
            seen = 0, writes_until = at, signal_then = numbers[i];
            fault = st_write_file(&w, WHERE);
            CHECK(fault && strstr(fault, "interrupted") && seen == numbers[i] && !part_then &&
                      writes_until == 0,
                  "");
            CHECK(holds(WHERE, "old", 0), "");
            st_free(&w);
        }
        signal(numbers[i], SIG_IGN);
        st_init(&w);
        st_add_metadata(&w, "k", "v");
        seen = 0, writes_until = 1;
        CHECK(!st_write_file(&w, WHERE) && !seen && !holds(WHERE, "old", 0),
              "a signal that was ignored before stays ignored");
        st_free(&w);
        CHECK(!write_out(&o, "old", NULL), "");
        signal(numbers[i], SIG_DFL);
    }
}
#endif

static void text(void) {
    static const struct {
        const char *in, *out;
        int width;
    } cases[] = {
        {"plain", "plain", 0},
        {"\xc3\xa9\xe5\xad\xa6\xf0\x9f\x91\x8d", "\xc3\xa9\xe5\xad\xa6\xf0\x9f\x91\x8d", 0},
        {"\x1b]0;title\x07", "\\x1b]0;title\\x07", 0},
        {"a\nb\tc\r\x7f", "a\\x0ab\\x09c\\x0d\\x7f", 0},
        {"\xc2\x9b\x33\x31m\xc2\x80", "\\u009b31m\\u0080", 0},
        {"\xe2\x80\xa8\xe2\x80\xaex\xe2\x81\xa6", "\\u2028\\u202ex\\u2066", 0},
        {"\x9b\xff", "\\x9b\\xff", 0}, /* not UTF-8 */
        {"\xc3", "\\xc3", 0},          /* ends too early */
        {"\xc0\xaf", "\\xc0\\xaf", 0}, /* too long */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80", 0} /* a surrogate */,
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 0},
        {"\xfa\x99\x9a\x9a", "\\xfa\\x99\\x9a\\x9a", 0}, /* no character begins so */
        {"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80", 0},
        {"\xc3\xa9", "\xc3\xa9  ", 3},
        {"\x1b", "\\x1b ", 5},
        {"long", "long", 2},
    };
    char got[64];
    size_t i, n;
    FILE *stream;
    SECTION("text");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        stream = fopen(WHERE, "wb");
        if (!stream) exit(2);
        output_text(stream, cases[i].in, cases[i].width);
        fclose(stream);
        stream = fopen(WHERE, "rb");
        n = stream ? fread(got, 1, sizeof got - 1, stream) : 0;
        if (stream) fclose(stream);
        got[n] = 0;
        CHECK(strcmp(got, cases[i].out) == 0, "%s", got);
    }
    remove(WHERE);
}

int main(void) {
    whole_or_not();
    blocks();
#if !defined(_WIN32) && !defined(__wasi__)
    other_files();
    permissions();
    over_the_limit();
    second_signal();
#endif
#ifndef __wasi__
    signals();
#endif
    text();
    return test_done("test_output");
}
