# run.sh PROGRAM|SCRIPT.sh ...: runs each test and adds up; ends with "N passed, N failed".
# RUN, if given, stands before each program: an emulator and its options.
# Each ends with a line "name: N passed, N failed[, N skipped]"; one that does not has crashed.
passed=0 failed=0 skipped=0
out=build/run.$$.txt
trap 'rm -f "$out"' EXIT
for test in "$@"; do
    echo "$test"
    case $test in
    *.sh) sh "$test" > "$out" 2>&1; status=$? ;;
    *) [ -e "$test" ] || test=$test.exe; $RUN "$test" > "$out" 2>&1; status=$? ;;
    esac
    cat "$out"
    counts=$(tr -d '\r' < "$out" | sed -n '$s/^[a-z_]*: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)*$/\1 \2 \4/p')
    set -- $counts
    if [ $# -lt 2 ] || { [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; }; then
        echo "FAIL $test ended with status $status"
        failed=$((failed + 1))
    else
        passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
    fi
done
if [ $skipped -gt 0 ]; then echo "$passed passed, $failed failed, $skipped skipped"
else echo "$passed passed, $failed failed"; fi
[ "$failed" -eq 0 ]
