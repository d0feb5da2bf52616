# Tests what a failed check prints (tests/test.h): what was wanted and what came, ten times for each line and section;
# and which cases a slice has. No check of a test in C may be CHECK(0, ...), which can tell neither.
. tests/check.sh
unit=build/checks
cat > $unit.c << 'END'
#include "transformer.h"
#include "test.h"
static tfm_error err;
static tfm_status refuses(void) {
    snprintf(err.text, sizeof err.text, "x is NULL");
    return TFM_E_ARGUMENT;
}
int main(void) {
    int32_t ids[] = {3, -1, 7};
    char text[64];
    int i, n = 0;
    SECTION("a loop");
    for (i = 0; i < 30; i++) {
        CHECK(i < 10, "number %d: wanted less than 10", i);
        if (test_enough()) n++;
    }
    SECTION("a call");
    CHECK_OK(refuses(), &err);
    CHECK(n == 11, "test_enough from the tenth failure on, %d times", n);
    for (i = 0; i < 30; i++)
        if (test_in_slice("number", i)) n++;
    printf("%d cases run\n", n - 11);
    printf("ids %s\n", test_ids(text, sizeof text, ids, 3));
    return test_done("checks");
}
END
says=$(${CC:-cc} -I. -Itests $unit.c -DTRANSFORMER_IMPLEMENTATION -DTRANSFORMER_NO_SIMD -O0 -o $unit -lm 2>&1 && V='' SLICE='' $unit)
check "ten failures of a loop" "10 number 19: wanted less than 10" \
    "$(echo "$says" | grep -c 'FAIL number') $(echo "$says" | grep -o 'number.*than 10' | tail -n 1)"
check "  and that there were more" 1 "$(echo "$says" | grep -c 'FAIL more than 10 times')"
check "all of them with V=1" 20 "$(V=1 $unit | grep -c 'FAIL number')"
check "a call that fails: the wanted status, its own, its message" 1 \
    "$(echo "$says" | grep -c 'FAIL wanted status "success", got ".*": x is NULL .*refuses()')"
check "all failures are counted" "checks: 11 passed, 21 failed" "$(echo "$says" | tail -n 1)"
check "ids as text" "ids 3 -1 7" "$(echo "$says" | grep ids)"
check "all cases without a slice" "30 cases run" "$(echo "$says" | grep 'cases run')"
check "each case in one of seven slices" 30 "$(for slice in 12 13 14 15 16 17 18; do SLICE=$slice $unit; done | sed -n 's/ cases run//p' | awk '{ n += $1 } END { print n }')"
check "  the cases of a slice" "case number 4: 0
case number 11: 0
case number 18: 0
case number 25: 0" "$(SLICE=11 TEST_LIST=11 $unit | grep case\ n)"
check "  where each case is in the slices from 12" "4 4 5 5 4 4 4" \
    "$(TEST_LIST=12 $unit | sed -n 's/^case number [0-9]*: //p' | sort | uniq -c | awk '{ printf "%s%s", n++ ? " " : "", $1 }')"
check "no CHECK(0, ...)" "" "$(grep -n 'CHECK(0' tests/*/*.c tests/*.h)"
counts test_checks
