#define COPY norm_by_static_copy_2
#include "static_copy.h"
