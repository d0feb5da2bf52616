# Tests build/transcribe with Canary and Cohere Transcribe models of random weights: the ids are those of transformers
# (tests/make/make_canary.py), behind the prompts of several languages. No real weights were to be had.
. tests/check.sh
data=tests/data/transcribe dir=build/test_canary
mkdir -p $dir
export LC_ALL=C # a random text has characters that other locales do not know
tail -c +45 $data/noise.wav > $dir/noise.raw # 44 bytes of header; raw samples follow
for name in canary cohere; do
    model=$data/$name.safetensors
    hear() { build/transcribe $model "$@" 2> $dir/err; }
    tokens() { hear "$@" --format json | sed 's/.*\("tokens": [^]]*]\).*/\1}/; s/}}/}/'; }
    if [ $name = canary ]; then
        set -- "--language de" "--language de --to en" "--language uk --to fr --no-punctuation"
    else
        set -- "--language de" "--language ja" "--language fr --no-punctuation"
    fi
    line=0
    for options in "$@"; do
        for beam in 1 4; do
            line=$((line + 1))
            check "$name $options, beam $beam: as transformers" "$(sed -n ${line}p $data/$name.jsonl)" \
                "$(tokens $data/noise.wav --beam $beam $options)"
        done
    done
    first=$(sed -n 1p $data/$name.jsonl)
    check "  three threads" "$first" "$(tokens $data/noise.wav --beam 1 --language de --threads 3)"
    check "  raw samples from standard input" "$first" "$(tokens - --beam 1 --language de < $dir/noise.raw)"
    check "  JSON names the language" 1 "$(hear $data/noise.wav --language de --format json | grep -c '"language": "de"')"
    hear $data/noise.wav --beam 1 --language de --format srt > $dir/out.srt
    check "  srt: one segment, as long as the sound" "00:00:00,000 --> 00:00:01,600" "$(grep -a -- '-->' $dir/out.srt)"
    check "  a sound of a few samples has no text" "0 0" \
        "$(head -c 100 $dir/noise.raw | hear - --language de > $dir/out; echo $? $(wc -c < $dir/out))"
    # 67.2 s, which have to be cut in the last 5 of 35 s
    for i in 1 2 3 4 5 6 7; do for j in 1 2 3 4 5 6; do cat $dir/noise.raw; done; done > $dir/long.raw
    hear - --beam 1 --language de --format json < $dir/long.raw > $dir/long
    check "  a long sound is cut, without a gap" "67.20 0" "$(sed 's/{"start": \([0-9.]*\), "end": \([0-9.]*\).*/\1 \2/' $dir/long |
        awk '{ gaps += NR > 1 && $1 != last; gaps += $2 - $1 > 35; last = $2 } END { print last, gaps + 0 }')"
    refused() {
        wanted=$1
        shift
        hear $data/noise.wav "$@" > $dir/out && status=0 || status=$?
        check "  refused: $*" "1 0 1" "$status $(wc -c < $dir/out | tr -d ' ') $(grep -c "$wanted" $dir/err)"
    }
    refused "does not detect which language is spoken"
    refused "xx" --language xx
    refused "the model is Canary or Cohere" --language de --prompt x
    refused "the model is Canary or Cohere" --language de --words-file README.md
    refused "the model is Canary or Cohere" --language de --words
    refused "the model is Canary or Cohere" --language de --no-times
    refused "live text needs Moonshine streaming or Whisper" --language de --live
    refused "is into English, and not into fr" --language de --task translate --to fr
    if [ $name = canary ]; then
        check "  --task translate is --to en" "$(sed -n 3p $data/$name.jsonl)" \
            "$(tokens $data/noise.wav --beam 1 --language de --task translate)"
    else
        refused "writes the language that it hears, and no en" --language de --to en
        refused "writes the language that it hears, and no en" --language de --task translate
    fi
    for type in f16 int8; do
        build/quantize $model $dir/$name.$type.safetensors $type > $dir/out 2>&1
        check "  $type weights: a text" 1 "$(build/transcribe $dir/$name.$type.safetensors $data/noise.wav --language de --format json 2> $dir/err | grep -c tokens)"
    done
done
whisper=$data/whisper.safetensors
build/transcribe $whisper $data/noise.wav --language de --to fr > $dir/out 2> $dir/err && status=0 || status=$?
check "Whisper refuses --to fr" "1 1" "$status $(grep -c 'writes the language that it hears, or English' $dir/err)"
check "  and --to en is its --task translate" "$(build/transcribe $whisper $data/noise.wav --language de --task translate --format json 2> $dir/err)" \
    "$(build/transcribe $whisper $data/noise.wav --language de --to en --format json 2> $dir/err)"
build/transcribe $whisper $data/noise.wav --no-punctuation > $dir/out 2> $dir/err && status=0 || status=$?
check "  and it has no --no-punctuation" "1 1" "$status $(grep -c 'decides by itself about punctuation' $dir/err)"
counts test_canary
