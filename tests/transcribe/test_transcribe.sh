# Tests build/transcribe with a Whisper model of random weights: its segments are those of faster-whisper
# (tests/make/make_whisper.py), and sound that is empty, silent, clipped, broken or long ends in text or a message.
. tests/check.sh
data=tests/data/transcribe model=tests/data/transcribe/whisper.safetensors dir=build/test_transcribe
mkdir -p $dir
# a pipe that stalls for ten seconds, which are over at the end of this file
default=; ! env --default-signal=INT true 2> /dev/null || default="env --default-signal=INT" # sh's background jobs ignore it
rm -f $dir/waits && mkfifo $dir/waits
$default build/transcribe $model $dir/waits --live --log-prob 0 --compression 0 --format json > $dir/waited 2> $dir/waited.err &
waits=$!
exec 5> $dir/waits
hear() { build/transcribe $model "$@" 2> $dir/err; }
# without limits, so that random text is written
loose="--temperature 0 --log-prob 0 --compression 0 --no-speech 1"
segments() { hear "$@" --format json $loose | sed 's/, "text".*"tokens"/, "tokens"/; s/, "words": .*/}/'; }
export LC_ALL=C # a random text has characters that other locales do not know
# recorded answers of faster-whisper, whose times go past the end of the sound (1.6 s)
recorded() {
    awk '{ split($0, p, /[:,]/); s = p[2] < 1.6 ? p[2] : 1.6; e = p[4] < 1.6 ? p[4] : 1.6
        sub(/^.*"tokens"/, sprintf("{\"start\": %.2f, \"end\": %.2f, \"tokens\"", s, e)); print }' $data/$1.jsonl
}
check "greedy, as faster-whisper" "$(recorded beam1)" "$(segments $data/noise.wav --beam 1)"
check "beam 5, as faster-whisper" "$(recorded beam5)" "$(segments $data/noise.wav)"
check "three threads" "$(recorded beam5)" "$(segments $data/noise.wav --threads 3)"
# 44 bytes of header; raw samples follow
tail -c +45 $data/noise.wav > $dir/noise.raw
cat $dir/noise.raw >&5
check "raw samples from standard input" "$(recorded beam1)" "$(segments - --beam 1 < $dir/noise.raw)"
check "  in a slow pipe" "$(recorded beam1)" \
    "$({ head -c 1001 $dir/noise.raw; sleep 0.1; tail -c +1002 $dir/noise.raw; } | segments - --beam 1)"
check "a WAV file from standard input" "$(recorded beam1)" "$(segments - --beam 1 < $data/noise.wav)"
for first in fLaC OggS ID3; do
    check "  a file of another format: $first" "1 1" "$({ printf '%-16s' $first; cat $dir/noise.raw; } | hear - > $dir/out; echo "$?") $(grep -c -- '-: an* .* not a WAV file (ffmpeg -i IN' $dir/err)"
    check "    live" "1 1" "$({ printf '%-16s' $first; cat $dir/noise.raw; } | hear - --live > $dir/out; echo "$?") $(grep -c -- '-: an* .* not a WAV file (ffmpeg -i IN' $dir/err)"
done
# Other files go through ffmpeg. A program of that name stands for it: it checks what it gets, and writes a WAV file.
mkdir -p $dir/with $dir/without
cat > $dir/with/ffmpeg << 'END'
#!/bin/sh
for last in "$@"; do [ "$before" != -i ] || input=$last; before=$last; done
case "$*" in *"-protocol_whitelist file,pipe -i file:"*" -ac 1 -ar 16000 -f wav -") ;; *) exit 3 ;; esac
[ -z "$(head -c 1)" ] || exit 4 # standard input is empty
tail -c +17 "${input#file:}"
[ "$(head -c 4 "${input#file:}")" = fLaC ] || { echo "cannot decode" >&2; exit 1; }
END
chmod +x $dir/with/ffmpeg
{ printf '%-16s' fLaC; cat $data/noise.wav; } > "$dir/a sound: of another kind.flac"
{ printf '%-16s' ID3; cat $data/noise.wav; } > $dir/broken.mp3
check "a file that ffmpeg reads" "$(recorded beam1)" "$(PATH=$dir/with:$PATH segments "$dir/a sound: of another kind.flac" --beam 1)"
check "  beside a WAV file" "$(recorded beam1)" "$(PATH=$dir/with:$PATH segments $data/noise.wav --beam 1)"
check "  that ffmpeg cannot read" "1 cannot decode 1" \
    "$(PATH=$dir/with:$PATH hear $dir/broken.mp3 > $dir/out; echo $?) $(head -n 1 $dir/err) $(grep -c 'an MP3 file, not a WAV file.*; ffmpeg cannot read it, either$' $dir/err)"
check "  without ffmpeg" "1 1" "$(PATH=$dir/without hear $dir/broken.mp3 > $dir/out; echo $?) $(grep -c 'an MP3 file, not a WAV file (ffmpeg -i IN.*; where ffmpeg is installed, transcribe reads it$' $dir/err)"
if command -v ffmpeg > /dev/null; then
    ffmpeg -v error -y -i $data/noise.wav $dir/noise.flac
    check "  the real one: FLAC" "$(recorded beam1)" "$(segments $dir/noise.flac --beam 1)"
    for end in mp3 ogg m4a; do
        ffmpeg -v error -y -i $data/noise.wav $dir/noise.$end
        check "  $end" 0 "$(hear $dir/noise.$end > $dir/out; echo $?)"
    done
else skip 4 "no ffmpeg (apt-get install ffmpeg)"; fi
check "words do not change a greedy text" "$(sed 's/.*"tokens"/"tokens"/' $data/beam1.jsonl | head -n 1)" \
    "$(segments $data/noise.wav --beam 1 --words | sed 's/.*"tokens"/"tokens"/' | head -n 1)"

# Forms. The text is random; its shape is not.
hear $data/noise.wav $loose --format srt > $dir/out.srt
check "srt: numbers" "1 2 3" "$(grep -axE '[0-9]+' $dir/out.srt | tr '\n' ' ' | sed 's/ $//')"
check "  times" 3 "$(grep -acxE '[0-9:]{8},[0-9]{3} --> [0-9:]{8},[0-9]{3}' $dir/out.srt)"
hear $data/noise.wav $loose --format vtt > $dir/out.vtt
check "vtt: its first line" WEBVTT "$(head -n 1 $dir/out.vtt)"
check "  times" 3 "$(grep -acxE '[0-9:]{8}\.[0-9]{3} --> [0-9:]{8}\.[0-9]{3}' $dir/out.vtt)"
check "text" "3 $(hear $data/noise.wav $loose --timestamps | sed 's/^\[[^]]*\] //' | cksum)" \
    "$(hear $data/noise.wav $loose | wc -l | tr -d ' ') $(hear $data/noise.wav $loose | cksum)"
check "  with times" 3 "$(hear $data/noise.wav $loose --timestamps | grep -acE '^\[[0-9:]{5}\.[0-9]{3} --> [0-9:]{5}\.[0-9]{3}\] ')"
hear $data/noise.wav $loose --words --format srt > $dir/out.srt
check "no time is past the end of the sound" 0 \
    "$(awk -F '[:, ]' '/ --> / { late += $3 "." $4 > 1.6 || $8 "." $9 > 1.6 } END { print late + 0 }' $dir/out.srt)"
check "a model without voice detector: a line says so" 1 \
    "$(hear $data/noise.wav $loose --beam 1 > $dir/out; grep -c 'no voice detector' $dir/err)"
check "  not with --vad 0" 0 "$(hear $data/noise.wav $loose --beam 1 --vad 0 > $dir/out; grep -c detector $dir/err)"
check "words as text have times" "$(grep -ac -- ' --> ' $dir/out.srt)" \
    "$(hear $data/noise.wav $loose --words | grep -acE '^\[[0-9:]{5}\.[0-9]{3} --> [0-9:]{5}\.[0-9]{3}\] ')"
check "--version" "transcribe $(sed -n 's/^#define TFM_VERSION "\(.*\)"/\1/p' transformer.h)" "$(build/transcribe --version)"

# Several sounds, and files of texts
rm -rf $dir/texts && mkdir $dir/texts && cp $data/noise.wav $dir/second.wav
hear $data/noise.wav $loose --format srt > $dir/out.srt
hear $data/noise.wav $dir/second.wav $loose --format srt -o $dir/texts > $dir/out
check "two sounds into a folder" "0 $(cksum < $dir/out.srt) $(cksum < $dir/out.srt)" \
    "$(wc -c < $dir/out | tr -d ' ') $(cksum < $dir/texts/noise.srt) $(cksum < $dir/texts/second.srt)"
hear $data/noise.wav $loose --format vtt > $dir/out.vtt
hear $data/noise.wav $loose --format vtt --output=$dir/one.vtt > $dir/out
cp $data/noise.wav $dir/a.1.wav && cp $data/noise.wav $dir/a.2.wav
hear $dir/a.1.wav $dir/a.2.wav $loose --beam 1 -o $dir/texts
check "  names with two dots" "$(cksum < $dir/texts/a.1.txt)" "$(cksum < $dir/texts/a.2.txt)"
check "one sound into a file" "0 $(cksum < $dir/out.vtt)" "$(wc -c < $dir/out | tr -d ' ') $(cksum < $dir/one.vtt)"
check "a model of English alone says that noise is no English" 1 \
    "$(hear $data/noise.wav $loose --beam 1 > $dir/out; grep -c 'knows English only' $dir/err)"
check "one segment a window without times" 1 "$(hear $data/noise.wav $loose --no-times | wc -l | tr -d ' ')"

# Options
cp $data/noise.wav $dir/noise.wav
refuse() { # message, options
    said=$1 && shift
    hear "$@" > $dir/out && status=0 || status=$?
    check "refused: $*" "1 0 1" "$status $(wc -c < $dir/out | tr -d ' ') $(grep -cF -- "$said" $dir/err)"
}
refuse "hears English alone" $data/noise.wav --language de
refuse "hears English alone" $data/noise.wav --task translate
refuse "takes one of text, srt, vtt, json, not 'pdf'" $data/noise.wav --format pdf
refuse "takes one of stored, f32, f16, bf16, int8, not 'int4'" $data/noise.wav --weights int4
refuse "numbers from 0 to 10" $data/noise.wav --temperature 0,x
refuse "needs --no-previous" $data/noise.wav --workers 2
refuse "needs --no-previous" - --workers 2 --no-previous
refuse "cannot be opened" $dir/nowhere.wav
refuse "2 sounds: say with --output" $data/noise.wav $dir/second.wav
refuse "several sounds need a folder" $data/noise.wav $dir/second.wav -o $dir/one
refuse "is input and --output" $dir/second.wav -o $dir/./second.wav
refuse "would both be written to" $data/noise.wav $dir/noise.wav -o $dir
refuse "not a WAV file" $model
refuse "--vad-only needs a model with a voice detector" $data/noise.wav --vad-only
refuse "--vad takes" $data/noise.wav --vad 1.5
refuse "give a model and a sound"
refuse "$dir/nowhere.txt: " $data/noise.wav --words-file $dir/nowhere.txt
printf ' \n' > $dir/list.txt
refuse "$dir/list.txt: own words: the list is empty" $data/noise.wav --words-file $dir/list.txt
printf 'one\n\377\n' > $dir/list.txt
refuse "$dir/list.txt: own words, line 2: not UTF-8" $data/noise.wav --words-file $dir/list.txt
printf 'because\n' > $dir/list.txt
check "words of a list begin in a random text" 1 \
    "$(($(hear $data/noise.wav $loose --beam 1 --words-file $dir/list.txt | grep -ac '^b') > 0))"
check "  and not without the list" 0 "$(hear $data/noise.wav $loose --beam 1 | grep -ac '^b')"
check "  and not in samples" "$(hear $data/noise.wav $loose --temperature 0.5)" \
    "$(hear $data/noise.wav $loose --temperature 0.5 --words-file $dir/list.txt)"
hear - --live --words-file $dir/list.txt --format json < $dir/noise.raw > $dir/out
check "  live text has them, too" 1 "$(($(grep -c 'because b' $dir/out) > 0))"
check "no Whisper model" "transcribe: examples/models/de-en.safetensors" \
    "$(build/transcribe examples/models/de-en.safetensors $data/noise.wav 2>&1 | cut -d: -f1,2)"
check "--help" 0 "$(build/transcribe --help > $dir/help; echo $?)"
if [ -c /dev/full ]; then
    check "  into a full disk" "1 transcribe: standard output cannot be written" \
        "$({ build/transcribe --help > /dev/full; echo $?; } 2>&1 | sort | tr '\n' ' ' | sed 's/ $//')"
    check "a text into a full disk" 1 "$(hear $data/noise.wav $loose --beam 1 > /dev/full; echo $?)"
fi

# A file that can be read once only
rm -f $dir/fifo && mkfifo $dir/fifo
cat $data/noise.wav > $dir/fifo &
check "a sound from a pipe with a name" "$(recorded beam1)" "$(segments $dir/fifo --beam 1)"
cat $data/noise.wav > $dir/fifo &
check "  with workers" "$(segments $data/noise.wav --beam 1 --no-previous --workers 2 | cksum)" \
    "$(segments $dir/fifo --beam 1 --no-previous --workers 2 | cksum)"
check "/dev/stdin is a pipe" "$(recorded beam1)" "$(cat $data/noise.wav | segments /dev/stdin --beam 1)"
cat $model > $dir/fifo &
check "a model from a pipe is refused by name" "1 1" \
    "$(build/transcribe $dir/fifo $data/noise.wav 2>&1 > /dev/null | grep -c "fifo: cannot seek") $(build/transcribe $dir/nowhere $data/noise.wav 2> /dev/null; echo $?)"
refuse "cannot be read" $dir
check "a name with control characters" "transcribe: $dir/\\x1b[31m\\u009b: cannot be opened" \
    "$(hear "$dir/$(printf '\033[31m\302\233')"; cat $dir/err)"

# Live text. The text is random; what is stable at the end of the sound is all of it.
free="--log-prob 0 --compression 0"
live() { hear - --live $free "$@"; }
parts='^\{"text": ".*", "stable": (true|false), "start": [0-9]+\.[0-9]{2}, "end": [0-9]+\.[0-9]{2}\}$'
live --format json < $dir/noise.raw > $dir/live
check "live: each line is an object" "$(wc -l < $dir/live | tr -d ' ')" "$(grep -acE "$parts" $dir/live)"
check "  the rest is stable at the end of the pipe, and not past the end of the sound" "true 1.60" \
    "$(grep -a '"stable": true' $dir/live | tail -n 1 | sed 's/.*"stable": \([a-z]*\),.*"end": \([0-9.]*\)}/\1 \2/')"
cat $data/noise.wav | live --format json > $dir/live.wav
check "  a WAV file in a pipe" "$(cksum < $dir/live)" "$(cksum < $dir/live.wav)"
cat $data/noise.wav > $dir/fifo &
check "  a pipe with a name" "$(cksum < $dir/live)" "$(hear $dir/fifo --live $free --format json | cksum)"
check "  as text" 1 "$(live < $dir/noise.raw | wc -l | tr -d ' ')"
check "  into a file" "0 $(live < $dir/noise.raw | cksum)" \
    "$(live -o $dir/live.txt < $dir/noise.raw | wc -c | tr -d ' ') $(cksum < $dir/live.txt)"
check "  a byte too many" "$(cksum < $dir/live) 1" \
    "$({ cat $dir/noise.raw; printf x; } | live --format json | cksum) $(grep -c 'ends within a sample' $dir/err)"
check "  no samples" "0 0" "$(: | live --format json | wc -c | tr -d ' ') $(: | live > $dir/out; echo $?)"
check "  a second of silence" 0 "$(head -c 32000 /dev/zero | live --format json | wc -c | tr -d ' ')"
check "  a reader that leaves" 1 "$(for i in 1 2 3 4; do cat $dir/noise.raw; done | live --format json | head -n 1 | grep -acE "$parts")"
check "  a reader that waits" "$(cksum < $dir/live)" "$(live --format json < $dir/noise.raw | { sleep 0.3; cat; } | cksum)"
if [ -c /dev/full ]; then
    check "  into a full disk" "1 1" "$(live < $dir/noise.raw > /dev/full; echo $?) $(grep -c 'cannot be written' $dir/err)"
fi
# a pipe that stalls, and then Ctrl-C
rm -f $dir/live && mkfifo $dir/stalls
build/transcribe $model $dir/stalls --live $free --format json > $dir/live 2> /dev/null 5>&- &
pid=$!
exec 4> $dir/stalls
cat $dir/noise.raw >&4
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s $dir/live ] && break; sleep 0.2; done
check "  a pipe that stalls: its words are written" 0 "$(grep -acvE "$parts" $dir/live)"
check "    before it ends" 1 "$(grep -aE "$parts" $dir/live | head -n 1 | wc -l | tr -d ' ')"
kill -TERM $pid
wait $pid 2> /dev/null && status=0 || status=$?
exec 4>&-
check "  SIGTERM: the rest becomes stable" "143 true" \
    "$status $(grep -a '"stable": true' $dir/live | tail -n 1 | sed 's/.*"stable": \([a-z]*\),.*/\1/')"
# a pipe that stalls within the header of a WAV file, and then SIGTERM
build/transcribe $model $dir/stalls --live > $dir/live.out 2> /dev/null 5>&- &
pid=$!
exec 4> $dir/stalls
head -c 9 $data/noise.wav >&4
sleep 0.3
kill -TERM $pid
wait $pid 2> /dev/null && status=0 || status=$?
exec 4>&-
check "  a pipe that stalls within its header, and SIGTERM" "143 0" "$status $(wc -c < $dir/live.out | tr -d ' ')"
rm -f $dir/stalls
check "  a pipe that closes within its header" "1 1" \
    "$(head -c 30 $data/noise.wav | hear - --live > $dir/out; echo $?) $(grep -c 'the fmt chunk of the WAV file is too short' $dir/err)"
refuse "--live takes no --words" - --live --words
refuse "--live takes no --format srt" - --live --format srt
refuse "--live takes no --workers" - --live --workers 2
refuse "--live hears one sound" - - --live
refuse "cannot be opened" $dir/nowhere.wav --live

# Sound
say() { # description, lines expected or "any", raw samples on standard input
    hear - $loose > $dir/out && status=0 || status=$?
    lines=$(wc -l < $dir/out | tr -d ' ')
    [ "$2" = any ] && lines=any
    check "$1" "0 $2" "$status $lines"
}
: | say "no samples" 0
head -c 1 /dev/zero | say "half a sample" 0
head -c 2 /dev/zero | say "one sample" 0
head -c 640 $dir/noise.raw | say "20 ms" any
head -c 32000 /dev/zero | say "a second of silence" any
head -c 960000 /dev/zero | say "30 s of silence" 0
head -c 345600000 /dev/zero | say "three hours of silence" 0
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "%s", i % 40 < 20 ? "zz" : "\177\177" }' | say "clipped sound" any
wav() { # kind, bits and size as octal digits; the samples follow on standard input
    printf "RIFF\\1\\1\\0\\0WAVEfmt \\20\\0\\0\\0\\$1\\0\\1\\0\\200\\76\\0\\0\\0\\0\\0\\0\\4\\0\\$2\\0data$3"
    cat
}
awk 'BEGIN { for (i = 0; i < 8000; i++) printf "\377\377\377\177" }' | LC_ALL=C wav 3 40 '\0\0\0\0' > $dir/nan.wav
check "NaN" 0 "$(hear $dir/nan.wav $loose > $dir/out; echo $?)"
wav 1 20 '\377\377\0\0' < $dir/noise.raw > $dir/lie.wav
check "a header that names other sizes" "$(hear $data/noise.wav $loose --beam 1 | cksum)" "$(hear $dir/lie.wav $loose --beam 1 | cksum)"
# live: a header that states more than there is, and one that states 0.5 s of 1.6 s, behind which a pipe has other chunks
half() { wav 1 20 '\200\76\0\0' < $dir/noise.raw; }
check "  live, more than there is" "$(cksum < $dir/live.wav)" "$(wav 1 20 '\377\377\0\0' < $dir/noise.raw | live --format json | cksum)"
check "  live, less than there is" "$(head -c 16000 $dir/noise.raw | live --format json | cksum)" "$(half | live --format json | cksum)"
if [ -c /dev/zero ]; then
    check "  live, chunks without end" "1 1" \
        "$({ printf 'RIFF\0\0\0\0WAVE'; cat /dev/zero; } | hear - --live > $dir/out; echo $?) $(grep -c 'over 65,536 chunks' $dir/err)"
    check "a list of words without end" "1 1" "$(hear $data/noise.wav --words-file /dev/zero > $dir/out; echo $?) $(grep -c 'the list is over 16 MB' $dir/err)"
fi
head -c 50 $data/noise.wav > $dir/short.wav
check "a file that ends early" 0 "$(hear $dir/short.wav $loose > $dir/out; echo $?)"
head -c 30 $data/noise.wav > $dir/short.wav
check "  within its header" 1 "$(hear $dir/short.wav $loose > $dir/out; echo $?)"

# Workers: parts of a long file, in order
for i in 1 2 3 4 5 6 7 8; do for k in 1 2 3 4 5 6 7 8; do cat $dir/noise.raw; done; done | wav 1 20 '\0\0\0\0' > $dir/long.wav
hear $dir/long.wav $loose --beam 1 --no-previous --workers 3 --format srt > $dir/long.srt
check "three workers: numbers and times in order" "" \
    "$(awk '/^[0-9]+$/ { if ($1 != ++n) print "number", $1 } / --> / { split($1, t, /[:,]/); at = t[1] * 3600 + t[2] * 60 + t[3]; if (at < last - 30) print $0; last = at }' $dir/long.srt)"
check "  the same bytes again" "$(cksum < $dir/long.srt)" "$(hear $dir/long.wav $loose --beam 1 --no-previous --workers 3 --format srt | cksum)"

# Ctrl-C: what was heard is kept, and the exit status is that of the signal
{ for i in 1 2 3; do cat $dir/noise.raw $dir/noise.raw $dir/noise.raw $dir/noise.raw; done; cat $dir/long.wav $dir/long.wav; sleep 5; } |
    build/transcribe $model - $loose --beam 1 > $dir/out 2> /dev/null &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s $dir/out ] && break; sleep 0.2; done
kill -TERM $pid
wait $pid 2> /dev/null && status=0 || status=$?
check "SIGTERM" "143 1" "$status $(( $(wc -l < $dir/out) > 0 ))"

# After ten seconds without sound transcribe --live says so, hears what comes then, and writes the rest after Ctrl-C.
i=0
while ! grep -q 'still waiting' $dir/waited.err && [ $i -lt 100 ]; do sleep 0.2; i=$((i + 1)); done
check "live: no sound for ten seconds" "transcribe: no sound has come for 10 s; still waiting" "$(grep waiting $dir/waited.err)"
last_end() { tail -n 1 $dir/waited | sed 's/.*"end": \([0-9]*\).*/\1/'; }
cat $dir/noise.raw $dir/noise.raw >&5
i=0
while [ "$(last_end)" -lt 4 ] && [ $i -lt 50 ]; do sleep 0.2; i=$((i + 1)); done
if [ -n "$default" ]; then
    kill -INT $waits
    wait $waits 2> /dev/null && status=0 || status=$?
    check "  Ctrl-C then: the rest becomes stable" "130 4 true" \
        "$status $(last_end) $(grep -a '"stable": true' $dir/waited | tail -n 1 | sed 's/.*"stable": \([a-z]*\),.*/\1/')"
    exec 5>&-
else
    skip 1 "Ctrl-C in live text: env has no --default-signal"
    exec 5>&-
    wait $waits
fi
rm -f $dir/waits
counts test_transcribe
