# run.sh PROGRAM|SCRIPT.sh ...: runs the tests, two at a time, prints their output in the order of the
# arguments, and adds up their counts. Its last line is "N passed, N failed". A test prints one line, and each
# check that failed or was skipped; with V=1 in the environment it prints every check. RUN, if set, precedes
# each program: an emulator and its options. Each test ends with a line "name: N passed, N failed[, N
# skipped]"; a test without that line has crashed.
# build/seconds has the seconds of CPU time of each test (seconds.sh).
passed=0 failed=0 skipped=0 number=0
out=build/run.$$
mkdir -p "$out"
trap 'rm -rf "$out"' EXIT

# Runs each test that no other worker has begun. A test's folder gets its output, then its exit status.
work() {
    i=0
    for test in "$@"; do
        i=$((i + 1))
        mkdir "$out/$i" 2> /dev/null || continue
        (
            case $test in
            *.sh) sh "$test" ;;
            *) [ -e "$test" ] || test=$test.exe; $RUN "$test" ;;
            esac > "$out/$i/output" 2>&1
            echo $? > "$out/$i/ended"
            times > "$out/$i/times"
        )
        awk -F'[ ms]+' -v test="$test" 'NR == 2 { print $1 * 60 + $2 + $3 * 60 + $4, test }' "$out/$i/times" > "$out/$i/seconds"
        mv "$out/$i/ended" "$out/$i/status"
    done
}
work "$@" &
work "$@" &

for test in "$@"; do
    number=$((number + 1))
    until [ -e "$out/$number/status" ]; do sleep 1; done
    read -r status < "$out/$number/status"
    [ "$(wc -l < "$out/$number/output")" -le 1 ] || echo "$test"
    cat "$out/$number/output"
    counts=$(tr -d '\r' < "$out/$number/output" |
        sed -n '$s/^[a-z_]*: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)*$/\1 \2 \4/p')
    set -- $counts
    if [ $# -lt 2 ] || { [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; }; then
        echo "FAIL $test ended with status $status"
        failed=$((failed + 1))
    else
        passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
    fi
done
cat "$out"/*/seconds > build/seconds 2> /dev/null
if [ $skipped -gt 0 ]; then echo "$passed passed, $failed failed, $skipped skipped"
else echo "$passed passed, $failed failed"; fi
[ "$failed" -eq 0 ]
