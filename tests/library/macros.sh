# macros.sh: compiles the header with each macro of its options block, in C and C++, by gcc and clang. A warning
# of the strict set is a failure. The list of macros is the header's, so a new macro is compiled here at once.
#
#   sh tests/library/macros.sh                each macro alone, pairs of macros, and static copies at -O2 and -O3
#   CC=gcc CXX= sh tests/library/macros.sh    with these compilers (default: "gcc clang" and "g++ clang++")
. tests/check.sh
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion"
CC=${CC-gcc clang} CXX=${CXX-g++ clang++}
made=build/macros
mkdir -p $made
cp transformer.h $made/renamed.h

macros=$(sed -n '/^\/\* >>options/,/^---/s/^ \{7\}\(T[A-Z_]*\).*/\1/p' transformer.h | grep -vx TRANSFORMER_IMPLEMENTATION)
used=$(sed -n '/^#/{s/\\//;p;}' transformer.h | grep -oE 'TRANSFORMER_[A-Z_]+' | sort -u | grep -vxE 'TRANSFORMER_(H|IMPLEMENTATION)')
check "the options block has each macro that the header asks for" "" "$(echo "$used" | grep -vxF "$macros")"

# Prints the lines that define a macro as its users would.
definition() {
    case $1 in
    TFM_DEF) echo '#define TFM_DEF __attribute__((visibility("default")))' ;;
    TFM_MALLOC) printf '#include <stdlib.h>\n#define TFM_MALLOC(bytes) calloc(1, bytes)\n#define TFM_FREE(pointer) free(pointer)\n' ;;
    TRANSFORMER_FILE) echo "#define TRANSFORMER_FILE \"$made/renamed.h\"" ;;
    TRANSFORMER_KERNELS) echo '#define TRANSFORMER_KERNELS 0' ;;
    *) echo "#define $1" ;;
    esac
}
# Writes a file that defines macros and includes the implementation. Arguments: the file, macros.
unit() {
    local file=$1 name one=transformer.h
    shift
    {
        for name; do
            definition "$name"
            [ "$name" != TRANSFORMER_FILE ] || one=$made/renamed.h
        done
        printf '#define TRANSFORMER_IMPLEMENTATION\n#include "%s"\n' "$one"
    } > "$file"
}
blas=$(pkg-config --cflags openblas 2> /dev/null | sed 's/-I */-isystem /g') # its own warnings are not ours
compiles() { # message, compiler, file, options ...
    local message=$1 by=$2 file=$3
    shift 3
    case $by in *++*) set -- -std=c++11 -x c++ "$@" ;; *) set -- -std=c99 "$@" ;; esac
    # shellcheck disable=SC2086
    check "$by: $message" "" "$($by $strict $blas -I. "$@" "$file" 2>&1 | grep -E 'warning|error' | head -n 5)"
}
has_blas=1
# shellcheck disable=SC2086
echo '#include <cblas.h>' | ${CC%% *} $blas -E - > /dev/null 2>&1 || has_blas=

# Each macro alone. Only TRANSFORMER_KERNELS has to do with the vector kernels, which take half of the time.
for macro in $macros; do
    if [ "$macro" = TRANSFORMER_BLAS ] && [ -z "$has_blas" ]; then
        skip 4 "TRANSFORMER_BLAS: cblas.h is not installed (apt-get install libopenblas-dev)"
        continue
    fi
    unit $made/alone.c "$macro"
    case $macro in TRANSFORMER_KERNELS | TRANSFORMER_NO_SIMD) plain= ;; *) plain=-DTRANSFORMER_NO_SIMD ;; esac
    for by in $CC $CXX; do compiles "$macro" "$by" $made/alone.c -fsyntax-only $plain; done
done
# Pairs of those macros that change more than a line each, by one compiler that warns of functions that nothing
# calls. A static function cannot be in a library that was compiled elsewhere.
pairs=$(echo "$macros" | grep -vxE 'TFM_DEF|TFM_MALLOC|TRANSFORMER_(FILE|KERNELS|NO_SIMD)')
[ -n "$has_blas" ] || pairs=$(echo "$pairs" | grep -vx TRANSFORMER_BLAS)
for macro in $pairs; do
    for other in $pairs; do
        [ "$macro" != "$other" ] || break
        case $macro$other in *STATIC*LIBRARY | *LIBRARY*STATIC) continue ;; esac
        unit $made/pair.c "$macro" "$other"
        compiles "$macro and $other" "${CC##* }" $made/pair.c -fsyntax-only -DTRANSFORMER_NO_SIMD
    done
done
# shellcheck disable=SC2046
unit $made/least.c $(echo "$macros" | grep _NO_)
for by in $CC $CXX; do compiles "all macros with NO_" "$by" $made/least.c -fsyntax-only; done

# A program with a static copy. The optimizer moves functions into their only caller, and gcc warns of what it cannot
# know there. (make test-sqlite compiles such a program with the vector kernels.)
{
    printf '#define TRANSFORMER_STATIC\n#define TRANSFORMER_IMPLEMENTATION\n#include "transformer.h"\n'
    echo 'tfm_status run(const char *path, const char *text, char *out, size_t size, tfm_error *err);'
    echo 'tfm_status run(const char *path, const char *text, char *out, size_t size, tfm_error *err) {'
    echo '    tfm_model *model = NULL; tfm_session *session = NULL;'
    echo '    tfm_status status = tfm_model_load_file(&model, path, NULL, err);'
    echo '    if (status == TFM_OK) status = tfm_session_create(&session, model, NULL, err);'
    echo '    if (status == TFM_OK) status = tfm_translate(session, text, out, size, err);'
    echo '    tfm_session_free(session), tfm_model_free(model);'
    echo '    return status; }'
} > $made/static.c
for by in "${CC%% *} -O2 -fPIC" "${CC%% *} -O3" "${CXX%% *} -O2"; do
    [ "${by# }" = "$by" ] || continue # CXX is empty
    compiles "TRANSFORMER_STATIC" "$by" $made/static.c -DTRANSFORMER_NO_SIMD -c -o $made/static.o
done
counts macros
