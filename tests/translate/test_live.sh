# translate --live as a program: a source that stalls, Ctrl-C, readers that leave, options, and lines of transcribe.
. tests/check.sh
dir=build/test_live_program translate=build/translate model=examples/models/de-en.safetensors
rm -rf $dir && mkdir -p $dir
line='Die Nachbarin hat gestern ihren alten Hund im Park gesucht. Danke.'
echo "$line" > $dir/line
$translate $model --live < $dir/line > $dir/out 2> $dir/err
check "a line: its translation, and no message" "1 0" "$(wc -l < $dir/out | tr -d ' ') $(wc -c < $dir/err | tr -d ' ')"
check "a file, and an output file" "$(cat $dir/out)" "$($translate $model $dir/line --live -o $dir/made; cat $dir/made)"
check "--json: the last line has the same text" "$(cat $dir/out)" \
    "$($translate $model --live --json < $dir/line | tail -n 1 | sed 's/.*"text": "\(.*\)", "done": true}$/\1/')"
check "  a line for each word" 11 "$($translate $model --live --json < $dir/line | wc -l | tr -d ' ')"
check "no input, no output" "0 " "$($translate $model --live < /dev/null > $dir/none; echo $?) $(cat $dir/none)"

# A source that stalls: what is stable is written before the line ends. Ctrl-C ends the text.
mkfifo $dir/fifo
if env --default-signal=INT true 2> /dev/null; then
    env --default-signal=INT $translate $model --live < $dir/fifo > $dir/stalled 2> $dir/err &
    pid=$!
    exec 4> $dir/fifo
    printf 'Der Zug hatte gestern wieder zwanzig Minuten Versp' >&4
    i=0
    while [ ! -s $dir/stalled ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
    check "a source that stalls: stable words are written" "yes 0" "$([ -s $dir/stalled ] && echo yes) $(wc -l < $dir/stalled | tr -d ' ')"
    cp $dir/stalled $dir/early
    kill -INT $pid
    wait $pid 2> /dev/null && status=0 || status=$?
    exec 4>&-
    check "Ctrl-C: the text is ended, behind what was written" "130 1 $(cat $dir/early)" \
        "$status $(wc -l < $dir/stalled | tr -d ' ') $(head -c "$(wc -c < $dir/early | tr -d ' ')" $dir/stalled)"
else skip 2 "env has no --default-signal"; fi
for i in 1 2 3 4 5 6 7 8 9 10; do cat $dir/line; done > $dir/lines
check "a reader that leaves ends the program" "1" "$($translate $model --live < $dir/lines | head -n 1 | wc -l | tr -d ' ')"

# Lines of transcribe: the first byte decides, and --input overrules it
printf '{"text": " Der Hund", "stable": true, "start": 0.1, "end": 0.5}\n{"text": " schläft.", "stable": true, "start": 0.5, "end": 1}\n' > $dir/heard
check "lines of transcribe" "The dog is sleeping." "$($translate $model --live < $dir/heard)"
check "--input text: lines as they are" 2 "$($translate $model --live --input text < $dir/heard | wc -l | tr -d ' ')"
$translate $model --live --input json < $dir/line > $dir/out 2> $dir/err
check "--input json: another line is named" "1 translate: line 1: this is no line of transcribe --live --format json (--input text translates the lines as they are)" "$? $(cat $dir/err)"

# Options that do not go with --live are refused by name
refused() { $translate $model "$@" < /dev/null 2>&1 | head -n 1; }
for option in "--beam 2" --document --html --srt "--column 1" --tokens "--prefix x" "--drafts x" --sample "--score x" --scores "--n-best 2" --align --progress "--terms x" --protect --plain "--max-length 3"; do
    # shellcheck disable=SC2086 # an option and its value
    check "$option" "translate: ${option%% *} and --live do not go together" "$(refused --live $option)"
done

# Two models in a row: the stable words of the first are the source of the second
echo Danke. > $dir/word
check "two models: a word has the translation that it has without --live" "$($translate $model $model --greedy --plain < $dir/word)" \
    "$($translate $model $model --live < $dir/word)"
check "two models: a line of JSON for each word, with the source of the first" "11 11" \
    "$($translate $model $model --live --json < $dir/line | tee $dir/two | wc -l | tr -d ' ') $(grep -c '^{"source": "Die' $dir/two)"
check "two models of one language each: --via is refused" "translate: --via: neither model has languages" "$(refused $model --live --via en)"
check "a text as operand" "translate: a text on the command line and --live do not go together" "$(refused 'Guten Tag.' --live)"
check "--json without --live" "translate: --json needs --live" "$(refused --json)"
check "--input without --live" "translate: --input needs --live" "$(refused --input text)"
check "--input with another word" "translate: --input xml: give text or json" "$(refused --live --input xml)"
counts test_live
