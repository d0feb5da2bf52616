# Workers of the command line: any number of them must give the same bytes and messages, in the order of the
# input. They must answer while the input is open, and memory must not grow with the input. The test uses the
# toy model.
. tests/check.sh
translate=build/translate toy=tests/data/models/toy.safetensors
dir=build/test_workers
mkdir -p $dir
run() { # Prints the exit status of the translator. Its standard output and error are in files.
    timeout 300 "$translate" "$@" > $dir/out 2> $dir/err
    echo $?
}
lines() { wc -l < "$1" | tr -d ' '; }
# 700 lines of very different lengths; some are blank or faulty, and some reach their limit
awk 'BEGIN { for (i = 0; i < 700; i++) {
    if (i % 7 == 3) print ""
    else if (i % 50 == 11) print "X"
    else if (i % 50 == 21) print "\377"
    else { s = ""; n = i % 90 == 5 ? 40 : i % 5 + 1; for (j = 0; j < n; j++) s = s (i % 2 ? "我" : "我是学生"); print s } } }' > $dir/in
awk '{ print NR % 4 == 1 ? "I am" : NR % 50 == 3 ? "I fly" : "" }' $dir/in > $dir/beside
for options in "--max-length 9" "--beam 3 --n-best 2 --scores --align" "--sample --n-best 2 --seed 4" "--prefix $dir/beside" "--score $dir/beside --per-token" "--document"; do
    check "$options: one worker" 1 "$(run $toy $options --batch 4 < $dir/in)"
    cp $dir/out $dir/expected
    cp $dir/err $dir/told
    [ "$options" != "--max-length 9" ] || {
        check "  line by line" "700" "$(lines $dir/out)"
        check "  messages in the order of lines" "" "$(sed 's/^translate: line \([0-9]*\).*/\1/' $dir/err | sort -n -c 2>&1)"
    }
    for workers in "1 1" "2 1" "2 2" "3 5" "7 1000" "2 64" "64 3"; do
        set -- $workers
        check "  $1 workers, batches of $2" 1 "$(run $toy $options --threads $1 --batch $2 < $dir/in)"
        check "    to the same bytes and messages" "" "$(cmp $dir/expected $dir/out 2>&1; cmp $dir/told $dir/err 2>&1)"
    done
done
check "--attention: the same picture" "1 1" "$(run $toy --attention $dir/a.svg --threads 3 --batch 4 < $dir/in) $(run $toy --attention $dir/b.svg --batch 4 < $dir/in)"
check "  and bytes" "" "$(cmp $dir/a.svg $dir/b.svg 2>&1)"
head -n 5 $dir/in > $dir/few
check "fewer lines than workers" "0 " "$(run $toy < $dir/few) $(cp $dir/out $dir/expected; run $toy --threads 9 < $dir/few | grep -v 0; cmp $dir/expected $dir/out 2>&1)"
check "an empty input" "0 0" "$(run $toy --threads 3 < /dev/null) $(lines $dir/out)"
check "a directory as input" "2 translate: reading: Is a directory" "$(run $toy --threads 3 < tests) $(cat $dir/err)"
head -n 20 $dir/beside > $dir/one
check "--prefix with fewer lines: those before it come out, and it is said last" "2 20 translate: $dir/one has fewer lines than the input" \
    "$(run $toy --prefix $dir/one --threads 2 --batch 3 < $dir/in) $(lines $dir/out) $(tail -n 1 $dir/err)"

# An input that stays open: this shell writes its lines.
mkfifo $dir/pipe 2> /dev/null
# arguments: options. Starts the translator; its output and messages go to files, its process id to $pid.
begin() {
    : > $dir/out
    timeout -s KILL 300 sh -c 'echo $$ > '$dir'/pid; exec "$0" "$@"' "$translate" $toy "$@" < $dir/pipe > $dir/out 2> $dir/err &
    job=$!
    exec 3> $dir/pipe
}
arrived() { # arguments: a number of lines. Waits for them.
    n=0
    until [ "$(lines $dir/out)" -ge "$1" ] || [ $n -ge 600 ]; do sleep 0.1; n=$((n + 1)); done
    lines $dir/out
}
end() { # closes the input; sets $ended to the exit status
    exec 3>&-
    wait $job
    ended=$?
}
yes 我是学生 | head -n 3000 > $dir/same
for threads in 1 3; do
    begin --threads $threads --batch 2
    head -n 32 $dir/same >&3
    check "$threads workers, batches of 2: 32 lines are answered while the input is open" 32 "$(arrived 32)"
    head -n 69 $dir/same >&3
    check "  and all the others" 101 "$(arrived 101)"
    end
    check "  nothing is left at its end" "0 101" "$ended $(lines $dir/out)"
    begin --threads $threads --batch 1
    head -n 1 $dir/same >&3
    check "  batches of 1: each line is answered at once" 1 "$(arrived 1)"
    head -n 2 $dir/same >&3
    check "  and the next two" 3 "$(arrived 3)"
    end
done
if [ -e /dev/full ]; then
    : > $dir/err
    timeout -s KILL 60 "$translate" $toy --threads 2 --batch 2 < $dir/pipe > /dev/full 2> $dir/err &
    job=$!
    exec 3> $dir/pipe
    head -n 40 $dir/same >&3
    wait $job
    check "a full disk ends it while the input is open" "2 translate: writing: No space left on device" "$? $(cat $dir/err)"
    exec 3>&-
fi
# When interrupted, the translator must write the finished lines in order. While no lines are at hand it must
# end at once.
env --default-signal=INT true 2> /dev/null && for signal in "TERM 143" "INT 130"; do
    awk 'BEGIN { for (i = 0; i < 3000; i++) { s = ""; for (j = 0; j <= i % 3; j++) s = s "我"; print s } }' > $dir/in
    run $toy --min-length 60 --max-length 61 --threads 2 --batch 16 < $dir/in > $dir/status &
    job=$!
    wait $job
    cp $dir/out $dir/expected
    : > $dir/out
    timeout -s KILL 60 env --default-signal=${signal% *} sh -c 'echo $$ > '$dir'/pid; exec '"$translate $toy"' --min-length 60 --max-length 61 --threads 3 --batch 4' \
        < $dir/in > $dir/out 2> $dir/err &
    until [ "$(lines $dir/out)" -gt 3 ] || ! kill -0 $! 2> /dev/null; do sleep 0.1; done
    kill -${signal% *} "$(cat $dir/pid)"; wait $! 2> /dev/null
    check "SIG${signal% *}, three workers: its exit status" "${signal#* }" $?
    check "  not all lines, and the first of them, whole" "yes " "$([ "$(lines $dir/out)" -lt 3000 ] && echo yes) $(head -n "$(lines $dir/out)" $dir/expected | cmp - $dir/out 2>&1)"
    : > $dir/out
    timeout -s KILL 60 env --default-signal=${signal% *} sh -c 'echo $$ > '$dir'/pid; exec '"$translate $toy"' --threads 3 --batch 2' < $dir/pipe > $dir/out 2> $dir/err &
    job=$!
    exec 3> $dir/pipe
    head -n 33 $dir/same >&3
    arrived 33 > /dev/null
    kill -${signal% *} "$(cat $dir/pid)"
    wait $job 2> /dev/null
    check "  while it waits for input: the same" "${signal#* } 33" "$? $(lines $dir/out)"
    exec 3>&-
done
# Memory: the peak after a small part of an input, and after a large part.
export ASAN_OPTIONS="$ASAN_OPTIONS:quarantine_size_mb=1" # A large quarantine would keep freed memory.
peak() { awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$(cat $dir/pid)/status"; }
if [ -r /proc/self/status ]; then
    begin --threads 3
    head -n 3000 $dir/same >&3
    before=$(arrived 2048 > /dev/null; peak)
    awk 'BEGIN { for (i = 0; i < 100000; i++) print i % 100 ? "" : "我是学生" }' >&3
    arrived 102000 > /dev/null
    after=$(peak)
    check "100,000 lines, most of them blank: $before MB before, $after after" "yes" "$([ "$after" -le $((before + 8)) ] && echo yes)"
    end
    check "  all of them" "0 103000" "$ended $(lines $dir/out)"
    # 120 MB, in which the lines of 400 kB change their places each time
    begin --threads 3 --batch 16
    awk 'BEGIN { s = "我是学生X"; while (length(s) < 130000) s = s s; for (i = 0; i < 900; i++) print i % 3 ? "我是学生" : substr(s, 1, 130000 + i) }' >&3
    arrived 512 > /dev/null
    check "uneven lines, 120 MB: $(peak) MB" "yes" "$([ "$(peak)" -le 90 ] && echo yes)"
    end
    check "  all of them, 300 too long" "1 900 300" "$ended $(lines $dir/out) $(lines $dir/err)"
    begin --threads 2 --max-source 400
    awk 'BEGIN { for (i = 0; i < 2000; i++) print "我是学生" }' >&3
    before=$(arrived 1024 > /dev/null; peak)
    { echo 我是学生; head -c 60000000 /dev/zero | tr '\0' a; echo; } >&3
    awk 'BEGIN { for (i = 0; i < 2000; i++) print "我是学生" }' >&3
    arrived 3072 > /dev/null
    after=$(peak)
    check "a line of 60 MB: $before MB before, $after after" "yes" "$([ "$after" -le $((before + 20)) ] && echo yes)"
    end
    check "  is named, and the others come out" "1 4002 translate: line 2002: too long for --max-source, or for memory" "$ended $(lines $dir/out) $(cat $dir/err)"
else skip 6 "no /proc"; fi
counts test_workers
