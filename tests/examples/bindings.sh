# make test-bindings: the packages of examples/bindings, each by a program that uses it (bindings/check.*), beside the
# program translate; and the first programs of their README.
. tests/check.sh
here=$(pwd) dir=$(pwd)/build/bindings de=examples/models/de-en.safetensors
mkdir -p "$dir"
export LC_ALL=C.UTF-8 LD_LIBRARY_PATH="$dir" CARGO_TARGET_DIR="$dir/cargo" GOFLAGS=-mod=mod GOPROXY=off
checks=14 # of each language

# What all packages are given, and what translate makes of it
awk 'BEGIN {
    split("Tom,Maria,Der Junge,Meine Mutter,Unser Lehrer,Der alte Mann,Ihre Schwester,Das Kind,Mein Freund,Der Arzt", s, ",")
    split("sieht,kauft,sucht,findet,braucht,verkauft,liebt,kennt,vergisst,hat", v, ",")
    split("den Hund,ein Buch,das Haus,eine Katze,den Schlüssel,ein Auto,das Fenster,die Zeitung,einen Apfel,die Stadt", o, ",")
    for (i = 0; i < 1000; i++) print s[i % 10 + 1], v[int(i / 10) % 10 + 1], o[int(i / 100) % 10 + 1] "."
}' > "$dir/thousand"
cp tests/data/texts-de.txt "$dir/lines"
next=$(printf '\302\205') # lines from here on have other breaks in them, which translate replaces in its output
LC_ALL=C sed "/$next/,\$d" "$dir/lines" > "$dir/plain"
printf '{"a": 1}' > "$dir/broken"
build/translate $de --threads 2 < "$dir/thousand" > "$dir/thousand.expected"
build/translate $de < "$dir/lines" > "$dir/lines.expected" 2> "$dir/log"
build/translate $de --plain < "$dir/plain" > "$dir/plain.expected" 2> "$dir/log"
check "1,000 texts, and texts with labels and quotation marks" "1000 yes" \
    "$(wc -l < "$dir/thousand.expected") $([ "$(wc -l < "$dir/plain")" -gt 60 ] && echo yes)"
with_options() { echo "$1" | build/translate $de --beam 4 --length-penalty 0.6; }
thanks=$(with_options "Danke.")

# What the checks print in every language. $dir/NAME.own has what only this language prints.
cat > "$dir/checks.expected" << END
missing: IO nonesuch: cannot be opened
broken: FORMAT $dir/broken:
bytes: FORMAT
empty: FORMAT
option: ARGUMENT nonesuch: no option is called so, or it is a text
value: ARGUMENT beam: a whole number is expected
beam: $(with_options "Die alte Brücke über den Fluss wurde gestern gesperrt.")
empty text: 
counts: 2 0 1
not UTF-8: $(with_options "Guten Tag.")
not UTF-8: UTF8 text is not UTF-8 at byte 1
not UTF-8: $thanks
stopped: Good day.
stopped: Good day.
stopped: Good day.
read ahead: true
after it: $thanks
source: no more texts
after it: $thanks
shared: Good day.
shared: Good day.
shared: Good day.
shared: Good day.
model closed first: $thanks
two streams: STATE the translator has a run that has not ended
END

# quiet NAME COMMAND ...: checks that a command succeeds and says nothing.
quiet() {
    name=$1
    shift
    "$@" > "$dir/log" 2>&1
    check "$name" "0 " "$? $(tail -n 20 "$dir/log")"
}
# first LANGUAGE: the first program of this language in the README
first() { awk -v language="$1" '/^```/ { inside = $0 == "```" language; next } inside' examples/bindings/README.md; }

# runs NAME PROGRAM ...: the checks of a language. Its own results are in $dir/NAME.own.
runs() {
    name=$1
    shift
    "$@" checks $de "$dir/broken" > "$dir/out" 2> "$dir/err"
    check "$name: checks end well" "0 " "$? $(head -n 5 "$dir/err")"
    check "  errors, counts, streams, threads, closing in any order" "$(cat "$dir/checks.expected")" \
        "$(sed -E 's/^(broken: FORMAT [^:]*:) .+/\1/; s/^(bytes|empty): FORMAT .+/\1: FORMAT/' "$dir/out" | grep -vE '^(zero|range|language|closed|stream of it|not UTF-8: UTF8 text is not UTF-8 at byte 2)')"
    check "  a number of threads and languages that cannot be: the library says why" "range: ARGUMENT threads 65
language: TOKEN" "$(grep -oE '^(range: ARGUMENT threads 65|language: [A-Z_]*)' "$dir/out")"
    check "  what only this language says" "$(cat "$dir/$name.own")" \
        "$(grep -E '^(zero|closed|stream of it|not UTF-8: UTF8 text is not UTF-8 at byte 2)' "$dir/out")"
    for how in thousand lines plain bytes; do
        in=$how what=lines
        case $how in plain) what=plain ;; bytes) in=lines what=bytes ;; esac
        "$@" $what $de < "$dir/$in" > "$dir/out" 2> "$dir/err"
        check "  $how: the bytes of translate" "0 " "$? $(cmp "$dir/$in.expected" "$dir/out" 2>&1 | head -n 1)"
    done
}
prints() { check "  the first program of the README" "Good day.
1. “Thanks.”" "$("$@" 2>&1)"; }
# lines NAME FILE ...: a package has at most 400 lines
lines() { check "  at most 400 lines" yes "$(shift; [ "$(cat "$@" | wc -l)" -le 400 ] && echo yes)"; }
needs() { # name, packages, programs ...
    name=$1 packages=$2
    shift 2
    for program; do
        command -v "$program" > /dev/null || { skip $checks "$name: needs $program (apt-get install $packages)"; return 1; }
    done
}

# The C API, which all of them use
for sanitizer in thread address,undefined; do
    ${CC:-cc} -std=c99 -O1 -g -fsanitize=$sanitizer -fno-sanitize-recover=all -DTFM__IMPLEMENTED -I. -Iexamples -Iexamples/bindings/native \
        tests/examples/bindings/native.c examples/bindings/native/binding.c build/libtransformer.a -o "$dir/native" -lm -pthread > "$dir/log" 2>&1
    check "C: runs that end early in three threads, -fsanitize=$sanitizer" "as expected" "$(cat "$dir/log"; "$dir/native" $de 2>&1 | head -n 20)"
done

if needs Rust cargo cargo; then
    mkdir -p "$dir/rust/src"
    cp tests/examples/bindings/check.rs "$dir/rust/src/main.rs" && first rust > "$dir/rust/src/first.rs"
    printf '[package]\nname = "check"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\ntransformer = { path = "%s" }\n\n' "$here/examples/bindings/rust" > "$dir/rust/Cargo.toml"
    printf '[[bin]]\nname = "%s"\npath = "src/%s.rs"\n\n' check main first first >> "$dir/rust/Cargo.toml"
    rm -f "$dir/rust/Cargo.lock"
    RUSTFLAGS="-D warnings" cargo build -q --offline --release --manifest-path "$dir/rust/Cargo.toml" > "$dir/log" 2>&1
    check "Rust: cargo build, warnings are errors" "0 " "$? $(tail -n 20 "$dir/log")"
    echo "zero: ARGUMENT the path has a zero byte" > "$dir/Rust.own"
    runs Rust "$dir/cargo/release/check"
    prints "$dir/cargo/release/first"
    RUSTFLAGS="-D warnings" cargo test -q --offline --release --doc --manifest-path "$dir/rust/Cargo.toml" -p transformer > "$dir/log" 2>&1
    check "  examples of the documentation compile, and those of wrong use do not" "0 3" "$? $(sed -n 's/.* \([0-9]*\) passed.*/\1/p' "$dir/log")"
    RUSTDOCFLAGS="-D warnings" RUSTFLAGS="-D warnings" cargo doc -q --offline --release --no-deps --manifest-path "$dir/rust/Cargo.toml" -p transformer > "$dir/log" 2>&1
    check "  cargo doc" "0 " "$? $(tail -n 5 "$dir/log")"
    lines examples/bindings/rust/src/lib.rs examples/bindings/rust/build.rs
    check "  no package of others" 0 "$(sed -n '/dependencies/,$p' examples/bindings/rust/Cargo.toml | wc -l)"
fi

if needs Go golang-go go gofmt; then
    mkdir -p "$dir/go/first"
    cp tests/examples/bindings/check.go "$dir/go/main.go" && first go > "$dir/go/first/main.go"
    printf 'module check\n\ngo 1.19\n\nrequire transformer v0.0.0\n\nreplace transformer => %s\n' "$here/examples/bindings/go" > "$dir/go/go.mod"
    (cd "$dir/go" && go build -o ../check-go . && go build -o ../first-go ./first) > "$dir/log" 2>&1
    check "Go: go build" "0 " "$? $(tail -n 20 "$dir/log")"
    printf 'zero: ARGUMENT the path has a zero byte\nstream of it: false\nclosed translator: transformer: it is closed\nclosed model: transformer: it is closed\n' > "$dir/Go.own"
    runs Go "$dir/check-go"
    prints "$dir/first-go"
    (cd "$dir/go" && go vet transformer .) > "$dir/log" 2>&1
    check "  go vet" "0 " "$? $(tail -n 5 "$dir/log")"
    check "  gofmt" "" "$(gofmt -l examples/bindings/go tests/examples/bindings "$dir/go")"
    check "  go doc shows each name" "Error Model Options Stream Translation Translator" "$(cd "$dir/go" && go doc transformer | sed -n 's/^type \([A-Z][a-z]*\).*/\1/p' | tr '\n' ' ' | sed 's/ $//')"
    lines examples/bindings/go/transformer.go
fi

if needs 'C#' "mono-mcs mono-runtime" mcs mono; then
    mkdir -p "$dir/csharp"
    quiet "C#: mcs, also without a comment missing" mcs -warnaserror -warn:4 -target:library -doc:"$dir/csharp/Transformer.xml" -out:"$dir/csharp/Transformer.dll" examples/bindings/csharp/Transformer.cs
    quiet "  a program with it" mcs -warnaserror -r:"$dir/csharp/Transformer.dll" -out:"$dir/csharp/Check.exe" tests/examples/bindings/Check.cs
    cat > "$dir/C#.own" << 'END'
zero: ArgumentException
not UTF-8: UTF8 text is not UTF-8 at byte 2
stream of it: ObjectDisposedException
closed translator: ObjectDisposedException
closed model: ObjectDisposedException
END
    runs 'C#' mono "$dir/csharp/Check.exe"
    first csharp > "$dir/csharp/first.cs"
    quiet "  the first program compiles" mcs -warnaserror -out:"$dir/csharp/first.exe" "$dir/csharp/first.cs" examples/bindings/csharp/Transformer.cs
    prints mono "$dir/csharp/first.exe"
    lines examples/bindings/csharp/Transformer.cs
    check "  the shared library exports only what binding.h declares" "$(grep -c '^BINDING_DEF' examples/bindings/native/binding.h)" \
        "$(nm -D --defined-only "$dir/libtransformer_binding.so" | grep -c ' T binding_')"
fi

if needs Java default-jdk-headless javac java javadoc; then
    rm -rf "$dir/java" && mkdir -p "$dir/java"
    first java > "$dir/java/First.java"
    quiet "Java: javac, Java 8" javac --release 8 -Xlint:all,-options -Werror -d "$dir/java" examples/bindings/java/transformer/*.java
    quiet "  programs with it" javac -encoding UTF-8 -d "$dir/java" -cp "$dir/java" tests/examples/bindings/Check.java "$dir/java/First.java"
    cat > "$dir/Java.own" << 'END'
zero: IllegalArgumentException
not UTF-8: UTF8 text is not UTF-8 at byte 2
stream of it: IllegalStateException
closed translator: IllegalStateException
closed model: IllegalStateException
END
    java="java -Xcheck:jni -Djava.library.path=$dir -cp $dir/java"
    # shellcheck disable=SC2086
    runs Java $java Check
    # shellcheck disable=SC2086
    prints $java First
    quiet "  javadoc, without a comment missing" javadoc -quiet -Xdoclint:all -Xwerror -d "$dir/javadoc" examples/bindings/java/transformer/*.java
    lines examples/bindings/java/transformer/*.java examples/bindings/java/transformer_jni.c
    check "  the C half calls no function wrongly (-Xcheck:jni)" 0 "$(grep -cE 'WARNING|FATAL' "$dir/out" "$dir/err" | awk -F: '{ n += $2 } END { print n }')"
fi
counts test_bindings
