/* cgo compiles the C files of this folder: this is the one that contains the library. */
#include "c/binding.c"
