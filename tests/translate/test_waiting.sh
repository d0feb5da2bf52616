# Nobody waits without a word: progress on a terminal, what an interrupt leaves, and output that is read while it comes.
. tests/check.sh
dir=build/test_waiting model=examples/models/de-en.safetensors
speech=tests/data/transcribe/whisper.safetensors sound=tests/data/transcribe/noise.wav
rm -rf $dir && mkdir -p $dir
awk 'BEGIN { for (i = 0; i < 20000; i++) print "Wir haben gestern " i " Bücher in der alten Stadt gekauft und gelesen." }' > $dir/long.txt
head -n 3 $dir/long.txt > $dir/short.txt
# a sound of five minutes: 44 bytes of header whose size is not known, and samples
{ printf 'RIFF\1\1\0\0WAVEfmt \20\0\0\0\1\0\1\0\200\76\0\0\0\0\0\0\4\0\20\0data\0\0\0\0'
  tail -c +45 $sound > $dir/part.raw
  for i in 1 2 3 4 5; do cat $dir/part.raw $dir/part.raw > $dir/twice.raw && mv $dir/twice.raw $dir/part.raw; done
  for i in 1 2 3 4 5 6; do cat $dir/part.raw; done; } > $dir/long.wav
loose="--temperature 0 --log-prob 0 --compression 0 --no-speech 1 --vad 0 --silence 0"

# Waits two minutes at most until a command succeeds: with a sanitizer on a busy machine it takes that long.
wait_until() {
    i=0
    while ! "$@" 2> /dev/null && [ $i -lt 1200 ]; do sleep 0.1; i=$((i + 1)); done
}
has_lines() { [ "$(wc -l < "$1")" -ge "$2" ]; } # file, number
# An interrupt: the output is what it was, and what was finished is in OUT.part
interrupt() { # signal, name of the part file, lines that it has before the signal, command
    sent=$1 part=$2 lines=$3 && shift 3
    env --default-signal=INT "$@" > $dir/out 2> $dir/err &
    pid=$!
    wait_until has_lines "$part" "$lines"
    kill -s "$sent" $pid
    wait $pid 2> /dev/null && status=0 || status=$?
}
if env --default-signal=INT true 2> /dev/null; then
    for signal in "INT 130" "TERM 143"; do
        rm -f $dir/o $dir/o.part
        interrupt ${signal% *} $dir/o.part 51 build/translate $model $dir/long.txt -o $dir/o
        check "translate -o, SIG${signal% *}: nothing under the name" "${signal#* } absent" "$status $([ -e $dir/o ] && echo there || echo absent)"
        check "  whole lines in the part file" "1 0" "$(($(wc -l < $dir/o.part) > 50)) $(tail -c 1 $dir/o.part | tr -d '\n' | wc -c | tr -d ' ')"
        check "  the last line names it" "translate: what was finished is in $dir/o.part" "$(tail -n 1 $dir/err)"
    done
    echo before > $dir/o && chmod 600 $dir/o
    rm -f $dir/o.part
    interrupt INT $dir/o.part 51 build/translate $model $dir/long.txt -o $dir/o
    check "  a file from before stays" "130 before" "$status $(cat $dir/o)"
    rm -f $dir/t $dir/t.part
    interrupt INT $dir/t.part 1 build/transcribe $speech $dir/long.wav $loose --beam 1 -o $dir/t
    check "transcribe -o, SIGINT: nothing under the name" "130 absent" "$status $([ -e $dir/t ] && echo there || echo absent)"
    check "  lines in the part file, and the last line names it" "1 transcribe: what was heard is in $dir/t.part" \
        "$(($(wc -l < $dir/t.part) > 0)) $(tail -n 1 $dir/err)"
    # while translate waits for input
    rm -f $dir/o $dir/o.part $dir/fifo && mkfifo $dir/fifo
    env --default-signal=INT build/translate $model -o $dir/o < $dir/fifo > $dir/out 2> $dir/err &
    pid=$!
    exec 4> $dir/fifo
    cat $dir/short.txt >&4
    wait_until has_lines $dir/o.part 3
    kill -INT $pid
    wait $pid 2> /dev/null && status=0 || status=$?
    exec 4>&-
    check "an interrupt while translate waits for input" "130 3 translate: what was finished is in $dir/o.part" "$status $(wc -l < $dir/o.part | tr -d ' ') $(tail -n 1 $dir/err)"
else skip 9 "env has no --default-signal"; fi

build/translate $model $dir/short.txt > $dir/expected 2> $dir/err
echo old > $dir/o && chmod 600 $dir/o && echo old > $dir/o.part
check "a whole output: no part file, and permissions stay" "0 -rw------- $(cksum < $dir/expected)" \
    "$(build/translate $model $dir/short.txt -o $dir/o 2> $dir/err; echo $?) $(ls -l $dir/o | cut -c 1-10) $(cksum < $dir/o)"
check "  the part file of an earlier run is gone" absent "$([ -e $dir/o.part ] && echo there || echo absent)"
ln -s o $dir/link
check "  a link is followed" "$(cksum < $dir/expected) l" "$(build/translate $model $dir/short.txt -o $dir/link 2> $dir/err; cksum < $dir/o) $(ls -l $dir/link | cut -c 1)"
echo precious > $dir/precious && ln -s precious $dir/p.part
check "  a link with the part file's name is not" "precious $(cksum < $dir/expected)" "$(build/translate $model $dir/short.txt -o $dir/p 2> $dir/err; cat $dir/precious) $(cksum < $dir/p)"
check "  a device" "0" "$(build/translate $model $dir/short.txt -o /dev/null 2> $dir/err; echo $?)"

# Output that is read while it comes: what is there at the first byte is less than a window of 1,024 lines
rm -f $dir/pipe && mkfifo $dir/pipe
build/translate $model $dir/long.txt > $dir/pipe 2> $dir/err &
pid=$!
exec 3< $dir/pipe
head -c 1 <&3 > $dir/out
sleep 0.1
kill -KILL $pid
wait $pid 2> /dev/null
lines=$(wc -l <&3)
exec 3<&-
check "the first lines of a long file do not wait for others" 1 "$((lines > 30 && lines < 900))"

if script -qec true /dev/null > /dev/null 2>&1; then # a terminal
    on_terminal() { # a pattern, command: whether what the command shows has it
        script -qec "timeout 130 $2" /dev/null < /dev/null > $dir/shown 2>&1 &
        pid=$!
        wait_until shows "$1"
        kill $pid
        wait $pid 2> /dev/null
        shows "$1"
    }
    shows() { tr '\r' '\n' < $dir/shown | grep -qE "$1"; }
    on_terminal '^[0-9]+ lines, [0-9.]+ a second, [0-9]+ %, [0-9]+ seconds left' "build/translate $model $dir/long.txt -o $dir/lines"
    check "translate on a terminal: lines, rate and time left" 0 $?
    on_terminal '^[0-9.]+ s heard, [0-9.]+ times as fast as speech, [0-9]+ %, [0-9]+ seconds left' \
        "build/transcribe $speech $dir/long.wav $loose -o $dir/heard"
    check "transcribe on a terminal: sound, rate and time left" 0 $?
    script -qec "build/translate $model" /dev/null < /dev/null 2>&1 | tr -d '\r' > $dir/shown
    check "translate without input says what it waits for" 1 "$(grep -c 'translate: reading lines from the terminal; Ctrl-D ends the input' $dir/shown)"
    check "  not with input" 0 "$(script -qec "build/translate $model $dir/short.txt" /dev/null < /dev/null 2>&1 | grep -c 'reading lines')"
else skip 4 "no program script, which makes a terminal"; fi
check "no progress where there is no terminal" 0 "$(build/translate $model $dir/short.txt -o $dir/o 2>&1 | grep -c ' a second')"
rm -f $dir/long.wav
counts test_waiting
