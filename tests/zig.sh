# zig.sh COMMAND: compiles the header and each example with zig's clang for systems that other CI rows lack, with
# warnings as errors. It runs some tests and hello where it can: natively or by qemu (apt-get install qemu-user). make
# test-zig installs zig (pip's ziglang) and calls this script. With SLICE=n one system of the seven is a case: the others
# look at the header alone, for its warnings.
. tests/check.sh
zig=$1
strict="-std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror"
# zig's clang takes seven times as long with -O1. Without ALL=1 only what computes here has it.
quick="-O0 -fno-sanitize=undefined" # zig has that sanitizer with -O0
[ -z "$ALL" ] || quick=-O1
# Compiles for $target. On Windows and macOS the C library contains the mathematics.
compile() {
    # shellcheck disable=SC2086
    $zig cc -target $target $strict -I. -Itools/common -Itests -Ibuild "$@" -lm 2>&1
}
# A target, then the command that runs its programs: empty for this machine's own, - where nothing can run them.
i=0
while read -r target run; do
    i=$((i + 1))
    dir=build/zig/$target
    mkdir -p "$dir"
    if ! in_slice $i; then # zig's cc knows no -fsyntax-only
        check "$target: the header has no warnings" "" "$(compile $quick -c tools/packaging/transformer.c -o "$dir/transformer.o")"
        continue
    fi
    optimized=-O1
    [ "$run" != - ] || optimized=$quick
    library=tests/tested.c # where tests run
    [ "$run" != - ] || library=tools/packaging/transformer.c
    # shellcheck disable=SC2086
    check "$target: the header compiles without a word" "" "$(compile $optimized -c $library -o "$dir/transformer.o")"
    # shellcheck disable=SC2086
    for example in examples/*.c examples/translate/*.c examples/transcribe/*.c; do
        name=$(basename "$example" .c)
        if [ "$name" = hello ] || [ -n "$ALL" ]; then
            said=$said$(compile $quick -DTFM__IMPLEMENTED "$example" "$dir/transformer.o" -o "$dir/$name")
        else said=$said$(compile $quick -DTFM__IMPLEMENTED -c "$example" -o "$dir/$name.o"); fi
    done
    check "$target: and each example; hello is linked" "" "$said"
    said=
    [ "$run" != - ] || continue
    if [ -n "$run" ] && ! command -v "${run%% *}" > /dev/null; then
        skip 4 "$target: needs ${run%% *} (apt-get install qemu-user)"
        continue
    fi
    check "$target: hello" "I'm a student." "$($run "$dir/hello" 2>&1 < /dev/null)"
    if [ -z "$run" ]; then # each compiler must find what this CPU has: zig's runtime library does not know it
        version=tools/packaging/conan/test_package/version.c
        ${CC:-cc} -I. $version build/transformer.o -o "$dir/version" -lm -pthread
        check "$target: the kernel set that the C compiler's library chooses" "$("$dir/version")" "$(compile -w -O1 $version "$dir/transformer.o" -o "$dir/version" && "$dir/version")"
    fi
    # Emulated machines have plain C kernels and the byte order of this one: these tests run there with ALL=1 alone.
    tests="bits toy"
    [ -n "$run" ] && [ -z "$ALL" ] || tests="$tests kernels operations"
    for test in $tests; do
        lines= # an emulator takes minutes for the 50 lines that test_bits would go on to
        [ $test != bits ] || lines=5
        whole="-Ibuild/tested $dir/transformer.o"
        [ $test != kernels ] || whole= # This test contains the header.
        # shellcheck disable=SC2086
        check "$target: test_$test compiles" "" "$($zig cc -target $target $strict -O1 $whole -I. -Itools/common -Itests "tests/library/test_$test.c" -lm -o "$dir/test_$test" 2>&1)"
        $run "$dir/test_$test" ${lines:+"$lines"} > "$dir/out" 2>&1 < /dev/null
        check "$target: test_$test" 0 $?
        [ "$V" = "" ] || cat "$dir/out"
    done
done << END
$(uname -m)-linux-musl
riscv64-linux-musl qemu-riscv64
powerpc64le-linux-musl qemu-ppc64le
aarch64-macos -
x86_64-macos -
x86_64-windows-gnu -
aarch64-windows-gnu -
END
counts test_zig
