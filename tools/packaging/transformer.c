/* The implementation as one object: of make's programs, make lib and tools/CMakeLists.txt. */
#define TRANSFORMER_IMPLEMENTATION
#if !defined(_WIN32) && !defined(__wasm__)
#define TRANSFORMER_MMAP
#endif
#include "transformer.h"
