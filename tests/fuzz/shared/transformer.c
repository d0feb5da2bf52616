/* The library, and in the same file the targets that call its private functions. clang takes
   minutes to compile the library with its sanitizers and libFuzzer's counters, so one object file
   has them for all targets. target.c makes a program of each function here. */
#define LLVMFuzzerTestOneInput fuzz_tools
#include "../tools.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_config
#include "../config.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_model
#include "../model.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_sentencepiece
#include "../sentencepiece.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_vocabulary
#include "../vocabulary.c"
