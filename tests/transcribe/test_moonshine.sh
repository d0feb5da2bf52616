# Tests build/transcribe with Moonshine and Moonshine streaming models of random weights: the ids are those of
# transformers (tests/make/make_moonshine.py). No real weights were to be had.
. tests/check.sh
data=tests/data/transcribe dir=build/test_moonshine
mkdir -p $dir
export LC_ALL=C # a random text has characters that other locales do not know
for name in moonshine moonshine-streaming; do
    model=$data/$name.safetensors
    hear() { build/transcribe $model "$@" 2> $dir/err; }
    tokens() { hear "$@" --format json | sed 's/.*\("tokens": [^]]*]\).*/\1}/; s/}}/}/'; }
    recorded() { sed -n "$1p" $data/$name.jsonl; }
    check "$name: greedy, as transformers" "$(recorded 1)" "$(tokens $data/noise.wav --beam 1)"
    check "  a beam of 4" "$(recorded 2)" "$(tokens $data/noise.wav --beam 4)"
    check "  three threads" "$(recorded 1)" "$(tokens $data/noise.wav --beam 1 --threads 3)"
    tail -c +45 $data/noise.wav > $dir/noise.raw # 44 bytes of header; raw samples follow
    check "  raw samples from standard input" "$(recorded 1)" "$(tokens - --beam 1 < $dir/noise.raw)"
    hear $data/noise.wav --beam 1 --format srt > $dir/out.srt
    check "  srt: one segment, as long as the sound" "00:00:00,000 --> 00:00:01,600" "$(grep -a -- '-->' $dir/out.srt)"
    check "  no line on its language" 0 "$(grep -c English $dir/err)"
    check "  a sound of a few samples has no text" "0 0" \
        "$(head -c 100 $dir/noise.raw | hear - > $dir/out; echo $? $(wc -c < $dir/out))"
    # 67.2 s, which have to be cut
    for i in 1 2 3 4 5 6 7; do for j in 1 2 3 4 5 6; do cat $dir/noise.raw; done; done > $dir/long.raw
    hear - --beam 1 --format json < $dir/long.raw > $dir/long
    check "  a long sound is cut, without a gap" "67.20 0" "$(sed 's/{"start": \([0-9.]*\), "end": \([0-9.]*\).*/\1 \2/' $dir/long |
        awk '{ gaps += NR > 1 && $1 != last; gaps += $2 - $1 > 30; last = $2 } END { print last, gaps + 0 }')"
    for options in "--language de" "--task translate" "--prompt x" "--words-file README.md" "--words" "--no-times"; do
        hear $data/noise.wav $options > $dir/out && status=0 || status=$?
        check "  refused: $options" "1 0 1" "$status $(wc -c < $dir/out | tr -d ' ') $(grep -c 'the model is Moonshine' $dir/err)"
    done
    tail -c +3201 $dir/long.raw | head -c 160000 > $dir/live.raw # 5 s
    hear - --live --format json < $dir/live.raw > $dir/live.json && status=0 || status=$?
    if [ $name = moonshine ]; then
        check "  refused: --live" "1 0 1" "$status $(wc -c < $dir/live.json | tr -d ' ') $(grep -c 'live text needs Moonshine streaming or Whisper' $dir/err)"
    else
        check "  --live: stable text" "0 1" "$status $(grep '"stable": true' $dir/live.json | head -1 | wc -l | tr -d ' ')"
        (head -c 3201 $dir/live.raw; sleep 0.1; tail -c +3202 $dir/live.raw) | hear - --live --format json > $dir/parts.json
        check "  the same in pieces" "$(grep -a '"stable": true' $dir/live.json)" "$(grep -a '"stable": true' $dir/parts.json)"
        hear - --live < $dir/live.raw > $dir/live.txt
        check "  text is that of the JSON lines" "$(sed -n 's/{"text": "\(.*\)", "stable": true.*/\1/p' $dir/live.json | tr -d ' \n')" \
            "$(tr -d ' \n' < $dir/live.txt)"
    fi
    for type in f16 int8; do
        build/quantize $model $dir/$name.$type.safetensors $type > $dir/out 2>&1
        check "  $type weights: a text" 1 "$(build/transcribe $dir/$name.$type.safetensors $data/noise.wav --format json 2> $dir/err | grep -c tokens)"
    done
    check "  inspect shows it" 1 "$(build/inspect $model | grep -c 'd_rotary')"
done
counts test_moonshine
