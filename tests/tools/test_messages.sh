# What the programs say about a file that is not what they need, and about a mistyped option. Each message begins
# with the file's name and says what to do.
. tests/check.sh
dir=build/test_messages model=tests/data/models/toy.safetensors speech=tests/data/transcribe/whisper.safetensors
sound=tests/data/transcribe/noise.wav
rm -rf $dir && mkdir -p $dir/whole
run() { name=$1; shift; timeout 60 build/$name "$@" > /dev/null 2> $dir/err < /dev/null; echo $?; }
# One of the programs that read a model file, with arguments that are otherwise right.
read_by() {
    case $1 in
    translate) run translate "$2" ;;
    mapped) run translate "$2" --map ;;
    transcribe) run transcribe "$2" $sound ;;
    inspect) run inspect "$2" ;;
    quantize) run quantize "$2" $dir/out int8 ;;
    packed) run quantize "$2" $dir/out int8 --packed ;;
    forward) run forward "$2" $dir/ids $dir/out ;;
    ids) run forward $model "$2" $dir/out ;;
    esac
}
readers="translate mapped transcribe inspect quantize packed forward ids"
size=$(wc -c < $model | tr -d ' ')
head -c 1000 $model > $dir/cut
head -c $((size - 1)) $model > $dir/last
header=$((8 + $(od -An -tu8 -N8 $model)))
printf '<!DOCTYPE html>\n<html><title>404</title>Not found</html>\n' > $dir/page
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 5200000\n' 0 > $dir/lfs
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' > $dir/gguf
printf 'PK\3\4\24\0\0\0\0\0\0\0\0\0' > $dir/zip
: > $dir/empty
for reader in $readers; do
    name=$reader
    case $reader in mapped) name=translate ;; packed) name=quantize ;; ids) name=forward ;; esac
    expect() { # file, text
        status=$(read_by $reader $dir/$1)
        check "$reader: $1" "yes $name: $dir/$1: $2" "$([ "$status" != 0 ] && echo yes || echo "$status") $(cat $dir/err)"
    }
    expect cut "the file is cut short: 1000 bytes, the header promises $([ $header -gt 1000 ] && echo $header || echo $size): copy or download it again"
    expect last "the file is cut short: $((size - 1)) bytes, the header promises $size: copy or download it again"
    expect page "not a safetensors file, but an HTML page: the address or login was wrong, download it again"
    expect lfs "not a safetensors file, but a git-LFS pointer: run git lfs pull"
    expect gguf "not a safetensors file, but a GGUF file: run tools/convert.py on it"
    expect zip "not a safetensors file, but a zip archive, such as a checkpoint: run tools/convert.py on it"
    status=$(read_by $reader $dir/empty)
    check "$reader: empty" "yes 1" "$([ "$status" != 0 ] && echo yes) $(grep -c "^$name: $dir/empty: empty, or cannot be" $dir/err)"
done
check "a long name keeps its end, and the message is whole" "yes" \
    "$(long=$dir/whole/$(printf 'n%.0s' $(seq 200)).safetensors; cp $dir/lfs $long; read_by inspect $long > /dev/null; grep -q 'nnn.safetensors: not a .*run git lfs pull$' $dir/err && echo yes || cat $dir/err)"
check "translate, a speech model" "2 translate: $speech: a speech model: use transcribe" "$(read_by translate $speech) $(cat $dir/err)"
check "  as the second model" "2 translate: $speech: a speech model: use transcribe" "$(run translate $model $speech) $(cat $dir/err)"
check "transcribe, a model of texts" "1 transcribe: $model: a model of texts: use translate (this is not a Whisper model from tools/convert.py)" "$(read_by transcribe $model) $(cat $dir/err)"
check "translate, the output of another encoder" "2 translate: tests/data/models/trocr.safetensors: its source is not text, but the output of another encoder" \
    "$(read_by translate tests/data/models/trocr.safetensors) $(cat $dir/err)"
check "transcribe, sound before the model" "1 transcribe: $sound: not a safetensors file, but a sound: give the model first" \
    "$(run transcribe $sound $speech) $(cat $dir/err)"

# Every program with options suggests the one that was meant.
for one in "translate --beem --beam" "transcribe --lanugage --language" "inspect --tensor --tensors" "quantize --paked --packed" \
    "forward --repat --repeat" "bench --thread --threads" "bench_drafts --wieghts --weights"; do
    # shellcheck disable=SC2086
    set -- $one
    check "$1 $2: did you mean $3?" "1" "$(run $1 $2 > /dev/null; grep -c "^$1: unknown option '$2', did you mean $3? (--help lists all)$" $dir/err)"
done
check "each program that has a table of options is above" "bench bench_drafts forward inspect quantize transcribe translate" \
    "$(grep -l 'options_read(' examples/*/*.c examples/*/*.h tools/*/*.c | sed 's|/command\.h$||; s|.*/||; s/\.[ch]$//' | sort | tr '\n' ' ' | sed 's/ $//')"
counts test_messages
