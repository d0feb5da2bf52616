# check.sh: functions that the tests of programs share. A test begins with ". tests/check.sh" and ends with
# "counts NAME". Each check that fails or is skipped is printed. V=1 prints the checks that pass too.
passed=0 failed=0 skipped=0
check() { # message, expected, got
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
        case $V in "" | 0*) ;; *) echo "    ok   $1" ;; esac
    else failed=$((failed + 1)); printf '    FAIL %s\n      expected: %s\n      got:      %s\n' "$1" "$2" "$3"; fi
}
skip() { # arguments: how many checks, why
    skipped=$((skipped + $1))
    echo "    skipped: $1 checks, $2"
}
# Whether this run has case number I, as test_in_slice (tests/test.h) decides it: all of them, or with SLICE=n a seventh.
in_slice() { [ -z "$SLICE" ] || [ $((SLICE % 7)) -eq $(($1 % 7)) ]; }
counts() {
    if [ $skipped -gt 0 ]; then echo "$1: $passed passed, $failed failed, $skipped skipped"
    else echo "$1: $passed passed, $failed failed"; fi
    [ $failed -eq 0 ]
}
# For awk: checks that in XML every opening tag has its end, and that < > & occur only in tags and entities.
well_formed='{ while (match($0, /<[^>]*>/)) { tag = substr($0, RSTART, RLENGTH); before = substr($0, 1, RSTART - 1)
    gsub(/&(amp|lt|gt|quot);/, "", before); if (before ~ /[<>&]/) bad = 1; $0 = substr($0, RSTART + RLENGTH)
    if (tag ~ /^<[?]/ || tag ~ /\/>$/) continue
    name = tag; gsub(/^<\/?|[ >].*$/, "", name)
    if (tag ~ /^<\//) { if (stack[depth--] != name) bad = 1 } else stack[++depth] = name } }
    END { print bad || depth ? "broken" : "well-formed" }'
