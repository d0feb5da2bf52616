# windows.sh COMPILER: compiles translate, transcribe, quantize and inspect for Windows, and runs them by wine: file names with
# characters of several scripts, bytes that Windows changes in text files, and outputs equal to those of the programs
# here. make test-windows calls it. Needs MinGW-w64 and wine.
. tests/check.sh
dir=build/windows zh=examples/models/zh-en.safetensors de=examples/models/de-en.safetensors
rm -rf $dir && mkdir -p $dir
export WINEDEBUG=-all WINEPREFIX="${WINEPREFIX:-$PWD/build/wine}"
for program in examples/translate/translate examples/transcribe/transcribe tools/model/quantize tools/model/inspect; do
    # As the READMEs say, without other options: -municode and such are not needed. transcribe has POSIX threads.
    implementation=-DTRANSFORMER_IMPLEMENTATION=
    case $program in examples/*) implementation= ;; esac
    threads=
    [ $program != examples/transcribe/transcribe ] || threads="-static -pthread"
    # shellcheck disable=SC2086
    check "$(basename $program).exe compiles without a word" "" "$($1 -std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -O1 \
        $implementation -I. -Itools/common $program.c -o $dir/$(basename $program).exe $threads 2>&1)"
done
run() { name=$1; shift; wine $dir/$name.exe "$@" 2> $dir/err; echo $? > $dir/status; }
names="$dir/modèle-中文-Ω-😀"
cp $de "$names.safetensors"
printf 'Guten Tag.\r\nDas ist\032 gut.\n\nIch habe\032 ein Buch gekauft.' > "$names.txt"
build/translate $de < "$names.txt" > $dir/expected
run translate "$names.safetensors" < "$names.txt" > $dir/out
check "a model's name in several scripts, 0x1A and CRLF from standard input, to standard output" "0 " "$(cat $dir/status) $(cmp $dir/expected $dir/out 2>&1)"
run translate "$names.safetensors" "$names.txt" -o "$names.out" > $dir/out
check "  of input and output files" "0 " "$(cat $dir/status) $(cmp $dir/expected "$names.out" 2>&1)"
head -n 1 "$names.txt" > $dir/in
run translate "$names.safetensors" --attention "$names.svg" < $dir/in > $dir/out
check "  of a picture" "0 1" "$(cat $dir/status) $(grep -c '<svg' "$names.svg")"
cp "$dir/expected" "$names.prefix"
run translate "$names.safetensors" --score "$names.prefix" < "$names.txt" > $dir/out
check "  of the file of --score" "0 4" "$(cat $dir/status) $(grep -c '' $dir/out)"
printf 'a\032b\tGuten Tag.\tc\r\nd\tDanke.\te\r\n' > "$names.tsv"
run translate $de --column 2 "$names.tsv" > $dir/out
check "columns that are copied keep 0x1A and CRLF" "" "$(build/translate $de --column 2 < "$names.tsv" | cmp - $dir/out 2>&1)"
printf '<p>Guten Tag.\r\n<pre>\032\r\n\r</pre>\r\n' > "$names.html"
run translate $de --html < "$names.html" > $dir/out
check "a document too" "" "$(build/translate $de --html < "$names.html" | cmp - $dir/out 2>&1)"
echo 孩子们在公园里玩。 | run translate $zh > $dir/out
check "Chinese through pipes" "$(echo 孩子们在公园里玩。 | build/translate $zh)" "$(cat $dir/out)"
run translate "$names.missing" < $dir/in > $dir/out
check "a message names the file in UTF-8" "2 translate: $names.missing: cannot be opened" "$(cat $dir/status) $(grep -o 'translate: .*opened' $dir/err)"
run quantize "$names.safetensors" "$names.packed" int8 --packed > $dir/out
build/quantize "$names.safetensors" $dir/packed int8 --packed > /dev/null
check "quantize: the same file" "0 " "$(cat $dir/status) $(cmp $dir/packed "$names.packed" 2>&1)"
run quantize "$names.safetensors" "$names.packed" int8 --packed > $dir/out
check "  again, over it, and no part is left" "0  0" "$(cat $dir/status) $(cmp $dir/packed "$names.packed" 2>&1) $(find $dir -name '*part*' | grep -c .)"
run inspect "$names.packed" --picture "$names.model.svg" > $dir/out
check "inspect: the same text but for a session's bytes, and a picture" "0 1 " "$(cat $dir/status) $(grep -c '<svg' "$names.model.svg") $(build/inspect $dir/packed | diff - $dir/out | grep '^[<>]' | grep -v ' bytes ')"
# Speech: names, samples from a pipe with each byte that text files change, SRT with the line ends of the program here
sound=tests/data/transcribe loose="--temperature 0 --log-prob 0 --compression 0 --no-speech 1 --beam 1 --format srt"
cp $sound/whisper.safetensors "$names.whisper" && cp $sound/noise.wav "$names.wav"
# shellcheck disable=SC2086
{ build/transcribe $sound/whisper.safetensors $sound/noise.wav $loose > $dir/expected
run transcribe "$names.whisper" "$names.wav" $loose > $dir/out
check "transcribe: a model's and a sound's name in several scripts, subtitles" "0 1 " "$(cat $dir/status) $(grep -acx 1 $dir/expected) $(cmp $dir/expected $dir/out 2>&1)"
{ tail -c +45 $sound/noise.wav | head -c 8000; printf '\032\r\n\r\032\n'; tail -c +45 $sound/noise.wav | tail -c 8000; } > $dir/raw
build/transcribe $sound/whisper.safetensors - $loose < $dir/raw > $dir/expected
run transcribe "$names.whisper" - $loose < $dir/raw > $dir/out
check "  0x1A, CR and LF among samples from standard input" "0 1 " "$(cat $dir/status) $(grep -acx 1 $dir/expected) $(cmp $dir/expected $dir/out 2>&1)"
run transcribe "$names.whisper" "$names.missing" > $dir/out
check "  a message names the sound in UTF-8" "1 transcribe: $names.missing: cannot be opened" "$(cat $dir/status) $(tr -d '\r' < $dir/err)"
run transcribe "$names.whisper" "$names.wav" $loose --no-previous --workers 2 > $dir/out
build/transcribe $sound/whisper.safetensors $sound/noise.wav $loose --no-previous --workers 2 > $dir/expected
check "  two workers" "0 " "$(cat $dir/status) $(cmp $dir/expected $dir/out 2>&1)"; }
counts test_windows
