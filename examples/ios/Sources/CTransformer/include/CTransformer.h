/* The module that Swift imports: the header at the top of the repository. */
#include "../../../../../transformer.h"
