/* kernels.h: lets one build of the tests run with each kernel set. With -include tests/kernels.h,
   KERNELS=n in the environment limits the kernel set at run time as -DTRANSFORMER_KERNELS=n does at
   compile time. It includes nothing, because the file that follows may define _DEFAULT_SOURCE
   first. */
extern char *getenv(const char *);
extern int atoi(const char *);
__attribute__((unused)) static int test_kernels(void) {
    const char *n = getenv("KERNELS");
    return n ? atoi(n) : 6;
}
#define TRANSFORMER_KERNELS test_kernels()
