#!/bin/bash -eu
# OSS-Fuzz runs this in a clone of the repository, and sets CC, CFLAGS, LIB_FUZZING_ENGINE and OUT. It builds each target of
# tests/fuzz with make, and gives it its corpus. TARGETS="text model" in the environment builds only these. With Debian's
# clang in place of the image:
#     CC=clang CFLAGS="-O1 -gline-tables-only -fsanitize=address -fsanitize=fuzzer-no-link" LIB_FUZZING_ENGINE=-fsanitize=fuzzer \
#         OUT=/tmp/out TARGETS=container bash tests/fuzz/oss-fuzz/build.sh
mkdir -p "$OUT/tests/data/transcribe"
cp tests/data/transcribe/moonshine*.safetensors tests/data/transcribe/c*.safetensors "$OUT/tests/data/transcribe" # the target moonshine reads them where it runs
for source in tests/fuzz/*.c; do
    target=$(basename "$source" .c)
    [[ -z "${TARGETS:-}" || " $TARGETS " == *" $target "* ]] || continue
    # The engine is linked only into programs: LDLIBS. Speech would take too long in a library that counts its branches.
    make -s "build/fuzz_$target" FUZZ_CC="$CC -std=c99 $CFLAGS" FUZZ_LIBRARY_CC="$CC -std=c99 ${CFLAGS//-fsanitize=fuzzer-no-link/}" \
        LDLIBS="$LIB_FUZZING_ENGINE -lm -pthread"
    cp "build/fuzz_$target" "$OUT/$target"
    printf '[libfuzzer]\ntimeout = 10\n' > "$OUT/$target.options"
    case $target in transcribe) seeds=whisper ;; tools) seeds=model ;; *) seeds=$target ;; esac # as make fuzz does
    rm -f "$OUT/${target}_seed_corpus.zip"
    python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" "tests/fuzz/corpus/$seeds"/*
done
