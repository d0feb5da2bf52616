# Checks the symbols that build/transformer.o shows to a linker: only tfm_ functions, and nothing at all in a
# static copy. The header must not refer to functions that end the process, print, or read the environment.
. tests/check.sh
unit=build/symbols
printf '#define TRANSFORMER_IMPLEMENTATION\n#include "transformer.h"\n' > $unit.c
[ -e build/transformer.o ] && ${CC:-cc} -O0 -I. -DTRANSFORMER_STATIC -c $unit.c -o ${unit}_static.o ||
    failed=$((failed + 1))
if command -v nm > /dev/null; then
    check "nm shows only tfm_*, and not tfm__*" "" "$(nm -g --defined-only build/transformer.o | awk '$3 !~ /^_?tfm_[a-z]/ {print $3}')"
    check "nm shows nothing of a static copy" "" "$(nm -g --defined-only ${unit}_static.o)"
    check "no call that ends the process, prints or reads the environment or locale" "" \
        "$(nm -u build/transformer.o | awk '{print $NF}' | grep -E '^_?(abort|_?exit|__assert.*|v?f?printf|puts|fputs|putchar|getenv|setlocale|localeconv|strtod|atof|perror|signal|raise)$' | tr '\n' ' ')"
else skip 4 "no nm, which lists symbols"; fi
for macro in NO_MODULES NO_STDIO NO_TEXT 'NO_STDIO -DTRANSFORMER_NO_TEXT'; do
    check "compiles with -DTRANSFORMER_$macro" "" "$(${CC:-cc} -fsyntax-only -I. -DTRANSFORMER_$macro $unit.c 2>&1)"
done
if command -v nm > /dev/null; then
    ${CC:-cc} -O1 -I. -DTRANSFORMER_NO_MODULES -DTRANSFORMER_NO_SIMD -c $unit.c -o $unit.sub.o
    check "NO_MODULES leaves out the functions of section 4" "" "$(nm $unit.sub.o | grep -wE "$(sed -n '/^\/\* >>api-modules/,/^\/\* >>api-files/s/^TFM_DEF.* \**\(tfm_[a-z_]*\)(.*/\1/p' transformer.h |
        paste -sd '|')")"
fi
check "programs and bindings call no private function (quantize: its tables; bench may)" "tools/model/quantize.c" \
    "$(grep -rlE '\btfm__[a-z0-9_]+ ?\(' examples tools --include='*.[ch]' --include='*.swift' --include='*.py' | grep -v '^tools/bench/')"
# Names of 0.7.0 that meant something else than they said: a program that uses them does not compile, and the compiler
# or .github/CHANGELOG.md says what they are now.
uses() { # the call
    printf '#include "transformer.h"\nint main(void) { tfm_config c; return (int)%s; }\n' "$1" > ${unit}_old.c
    ${CC:-cc} -fsyntax-only -I. ${unit}_old.c > /dev/null 2>&1 && echo compiles || echo refused
}
for name in norm:norm_order layer_norm:norm_kind; do
    check "tfm_config: ${name%:*} is ${name#*:}" "refused compiles 1" "$(uses "c.${name%:*}") $(uses "c.${name#*:}") $(grep -c "tfm_config.*\b${name%:*} .*\b${name#*:}\$" .github/CHANGELOG.md)"
done
check "flags of public structs are int32_t" "" "$(sed '/^#endif .* TRANSFORMER_H /q' transformer.h | grep -E '^    int [a-z_, ]*;' | grep -v ' rank;')"
manual=$(sed '/^\/\* >>options/,$d' transformer.h)
check "the manual has each function that test_manual calls" "" "$(grep -o 'tfm_[a-z_]*(' tests/library/test_manual.c | tr -d '(' | sort -u |
    while read -r name; do echo "$manual" | grep -qw "$name" || echo "$name"; done)"
# Compiles the single headers that people copy, each alone in a unit that calls nearly none of its functions.
for header in transformer examples/translate/text/text_buffer examples/translate/text/protect examples/translate/text/characters examples/translate/text/terms; do
    echo "#include \"$header.h\"" > ${unit}_alone.c
    check "$header.h alone: no warning" "" "$(${CC:-cc} -Wall -Wextra -I. -c ${unit}_alone.c -o ${unit}_alone.o 2>&1)"
done
# Calls every public function that has a tfm_error with zeros alone. The call must be refused, and its message
# must name no other function.
{
    cat << 'END'
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tests/test.h"
static tfm_error err;
static const tfm_text no_text;
#define WALK(name, call) err.text[0] = 0; status = call; \
    if (status == TFM_OK || !err.text[0] || test_names_another(name "(", err.text)) printf("%s: %s\n", name, err.text)
int main(void) {
    tfm_status status;
END
    awk '/^TFM_DEF tfm_status/ { text = "" } { text = text " " $0 }
        /;$/ && text ~ /^ TFM_DEF tfm_status.*tfm_error \*err\)/ {
            name = text; sub(/^ TFM_DEF tfm_status /, "", name); sub(/\(.*/, "", name)
            sub(/^[^(]*\(/, "", text); n = split(text, parameters, ","); call = name "("
            for (i = 1; i < n; i++) { # C++ needs an enum for an enum argument.
                type = parameters[i]; sub(/[a-z_0-9]+ *$/, "", type)
                call = call (type ~ /^ *tfm_text *$/ ? "no_text, " : "(" type ")0, ") }
            print "    WALK(\"" name "\", " call "&err));" } /;$/ { text = "" }
        /^#endif .* TRANSFORMER_H / { exit }' transformer.h
    echo '    return puts("walked") < 0; }'
} > ${unit}_walk.c
check "every public function is in the walk" "$(sed '/^#endif .* TRANSFORMER_H /q' transformer.h | grep -c 'tfm_error \*err);')" "$(grep -c '^    WALK' ${unit}_walk.c)"
check "a message names no other function than the one that was called" walked \
    "$(${CC:-cc} -O0 -I. -DTRANSFORMER_NO_SIMD ${unit}_walk.c -o ${unit}_walk -lm 2>&1 && ${unit}_walk)"
counts test_symbols
