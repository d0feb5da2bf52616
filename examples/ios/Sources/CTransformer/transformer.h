/* The header at the top of the repository, for texts.h: a Swift package may only search in its own
   folders. */
#include "../../../../transformer.h"
