#define COPY norm_by_static_copy_1
#include "static_copy.h"
