/* Compiles the implementation once, for the programs of make, for make lib and for
   tools/CMakeLists.txt. */
#define TRANSFORMER_IMPLEMENTATION
#if !defined(_WIN32) && !defined(__wasm__)
#define TRANSFORMER_MMAP
#endif
#include "transformer.h"
