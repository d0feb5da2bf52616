# bench as a program: a row of its table, the same as JSON, faults. Times are not checked.
passed=0 failed=0
dir=build/test_bench
mkdir -p $dir
check() { # message, expected, got
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); echo "    ok   $1"
    else failed=$((failed + 1)); printf '    FAIL %s\n      expected: %s\n      got:      %s\n' "$1" "$2" "$3"; fi
}
status() { "$@" > $dir/out 2> $dir/err; echo $?; }
check "one workload" 0 "$(status build/bench --only encode-1x32 --repeat 1 --vocabulary 100)"
check "  prints its row" 1 "$(grep -c '^encode-1x32  *1  *[0-9.]* ' $dir/out)"
check "  and no other" 1 "$(grep -c '^[a-z0-9-]*  *1  *[0-9.]* ' $dir/out)"
check "a model on a line, as JSON" 0 "$(echo 我是学生。 |
    status build/bench examples/models/zh-en.safetensors --only 'beam 1' --repeat 1 --json)"
check "  of one sentence" 1 "$(grep -c '"sentences": 1,' $dir/out)"
check "a workload that there is not" 2 "$(status build/bench --only nothing)"
check "no lines: exit status 1" 1 "$(status build/bench examples/models/zh-en.safetensors < /dev/null)"
echo "test_bench: $passed passed, $failed failed"
[ $failed -eq 0 ]
