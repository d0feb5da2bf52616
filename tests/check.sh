# check.sh: what the tests of programs share; they begin with ". tests/check.sh" and end with "counts NAME".
passed=0 failed=0 skipped=0
check() { # message, expected, got
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); echo "    ok   $1"
    else failed=$((failed + 1)); printf '    FAIL %s\n      expected: %s\n      got:      %s\n' "$1" "$2" "$3"; fi
}
skip() { # how many checks, why
    skipped=$((skipped + $1))
    echo "    skipped: $1 checks, $2"
}
counts() {
    if [ $skipped -gt 0 ]; then echo "$1: $passed passed, $failed failed, $skipped skipped"
    else echo "$1: $passed passed, $failed failed"; fi
    [ $failed -eq 0 ]
}
