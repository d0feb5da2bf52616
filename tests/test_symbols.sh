# What the object file shows to a linker: only tfm_ functions; nothing at all when static. And nothing
# in the header that ends the process, prints, or reads the environment.
. tests/check.sh
unit=build/symbols
printf '#define TRANSFORMER_IMPLEMENTATION\n#include "transformer.h"\n' > $unit.c
${CC:-cc} -O1 -I. -c $unit.c -o $unit.o && ${CC:-cc} -O1 -I. -DTRANSFORMER_STATIC -c $unit.c -o ${unit}_static.o ||
    failed=$((failed + 1))
if command -v nm > /dev/null; then
    check "nm shows only tfm_*, and not tfm__*" "" "$(nm -g --defined-only $unit.o | awk '$3 !~ /^_?tfm_[a-z]/ {print $3}')"
    check "nm shows nothing of a static copy" "" "$(nm -g --defined-only ${unit}_static.o)"
    check "no call that ends the process, prints or reads the environment or locale" "" \
        "$(nm -u $unit.o | awk '{print $NF}' | grep -E '^_?(abort|_?exit|__assert.*|v?f?printf|puts|fputs|putchar|getenv|setlocale|localeconv|strtod|atof|perror|signal|raise)$' | tr '\n' ' ')"
fi
for macro in NO_STDIO NO_TEXT 'NO_STDIO -DTRANSFORMER_NO_TEXT'; do
    check "compiles with -DTRANSFORMER_$macro" "" "$(${CC:-cc} -O1 -I. -DTRANSFORMER_$macro -c $unit.c -o $unit.sub.o 2>&1)"
done
counts test_symbols
