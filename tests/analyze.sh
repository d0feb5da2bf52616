# analyze.sh: runs clang's and gcc's static analyzers over transformer.h, the tools and the examples: one test
# for each file and analyzer. A test passes if the list below has all that the analyzer finds. The last line
# is "N passed, N failed". gcc's analyzer is limited to one state per program point and to no recursion, and
# gives up at many points of the header (-Wanalyzer-too-complex names them), so its silence says less than
# clang's.
cat > build/argued << 'END'
transformer.h TFM__ -Wanalyzer-shift-count-overflow: the template's exp2 shifts each lane of a vector
transformer.h tfm__packed_interleave_4x4 -Wanalyzer-use-of-uninitialized-value: memcpy has set the vectors
transformer.h tfm__config_put -Wanalyzer-use-of-uninitialized-value: integer is value, whatever its size
transformer.h tfm__config_value -Wanalyzer-null-dereference: lists were read for each kind that uses them
write_safetensors.h st_sum core.uninitialized.Assign: dims of sums are not empty where rows and columns are not
text_buffer.h text_buffer_free unix.Malloc: what moved by realloc in a worker's buffer is not followed
END
passed=0 failed=0
# Reads the analyzer's warnings from standard input, and prints "file function checker" for each, with its
# line.
named() {
    sed -n 's/^\([^: ]*\):\([0-9]*\):[0-9]*: warning: .*\[\([^]]*\)\]$/\1 \2 \3/p' | sort -u | while read -r file line checker; do
        name=$(awk -v line="$line" 'NR > line { exit } /^[A-Za-z].*\(/ { name = $0 }
            END { sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); print name }' "$file")
        echo "${file##*/} $name $checker: line $line"
    done
}
check() { # arguments: a file, then the analyzer's command
    file=$1
    shift
    if ! "$@" > build/analyzed 2>&1; then
        cat build/analyzed
        echo "FAIL $1 $file: does not compile"
        failed=$((failed + 1))
        return
    fi
    bad=0
    named < build/analyzed > build/found
    # A warning of another form would otherwise be missed.
    ! grep 'warning: ' build/analyzed | grep -v '\[[^]]*\]$' || bad=1
    while read -r found; do
        grep -qF "${found%%:*}:" build/argued && continue
        echo "FAIL $1 $found"
        bad=1
    done < build/found
    if [ $bad -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
flags='-std=c99 -DTFM__ANALYZED -I. -Itools/common -Ibuild'
both() { # arguments: a file, then more options
    # shellcheck disable=SC2086
    check "$1" clang --analyze -Xclang -analyzer-output=text $flags "$@"
    # shellcheck disable=SC2086
    check "$1" gcc -O0 -fanalyzer --param analyzer-bb-explosion-factor=1 --param analyzer-max-recursion-depth=0 \
        --param analyzer-max-enodes-per-program-point=1 $flags -S -o build/analyzed.s "$@"
}
both tools/packaging/transformer.c
for file in tools/model/*.c tools/bench/*.c examples/*.c examples/translate/*.c examples/transcribe/*.c; do
    case $file in
    tools/bench/bench.c | tools/model/quantize.c) both "$file" ;; # which hold the header
    *) both "$file" -DTFM__IMPLEMENTED ;;
    esac
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
