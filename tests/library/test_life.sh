# The life of a sentence, the map at the start of the implementation: its functions exist, and from tfm_translate to
# the first multiplication with weights there are at most 12 calls, which gdb counts in a build without optimization.
. tests/check.sh
map=$(sed -n '/^\/\* The life of a sentence/,/\*\/$/p' transformer.h | grep -o '^ *tfm_[a-z_]*' | tr -d ' ')
check "lines of the map" 12 "$(echo "$map" | wc -l)"
check "names of the map that no function has" "" "$(for name in $map; do
    grep -qE "^(TFM_DEF|static|typedef struct) .*\b$name\b" transformer.h || echo "$name"; done)"
unit=build/life
cat > $unit.c << 'END'
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
int main(int argc, char **argv) {
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    char text[1024];
    return argc < 3 || tfm_model_load_file(&model, argv[1], NULL, NULL) ||
           tfm_session_create(&session, model, NULL, NULL) ||
           tfm_translate(session, argv[2], text, sizeof text, NULL);
}
END
if command -v gdb > /dev/null && ${CC:-cc} -O0 -g -I. -DTRANSFORMER_NO_SIMD $unit.c -o $unit -lm > $unit.log 2>&1 &&
    gdb -q -batch -ex 'break main' -ex run --args $unit 2> /dev/null < /dev/null | grep -q 'Breakpoint 1, main'; then
    gdb -q -batch -ex 'set confirm off' -ex 'break tfm_translate' -ex run -ex 'rbreak ^tfm__[a-z0-9_]*_tile_' \
        -ex continue -ex backtrace --args $unit examples/models/de-en.safetensors "Guten Tag." > $unit.log 2>&1 < /dev/null
    calls=$(sed -n 's/^#\([0-9]*\) .*[ :]tfm_translate (.*/\1/p' $unit.log)
    check "calls from tfm_translate to the first multiplication: ${calls:-not reached}, at most 12" 1 \
        "$([ "${calls:-99}" -le 12 ] && echo 1)"
    check "  and they pass the functions of the map" "tfm__encoder_run tfm__product_run tfm__stack_run " \
        "$(grep -oE 'tfm__(encoder|stack|product)_run' $unit.log | sort -u | tr '\n' ' ')"
else
    skip 2 "gdb and a compiler for it"
fi
counts test_life
