#include "transformer.h"

const char *version_by_declarations(void);
const char *version_by_declarations(void) { return tfm_version(); }
