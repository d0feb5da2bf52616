/* The implementation, compiled once. */
#define TRANSFORMER_IMPLEMENTATION
#include "include/CTransformer.h"
