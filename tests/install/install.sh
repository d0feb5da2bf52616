# make test-install: installs into build/install, and builds programs of a user with the commands in the READMEs: CMake
# with find_package (C++17) and with FetchContent, pkg-config (C). Then tests a conan package, the size check, and
# uninstall. Needs cmake, pkg-config and conan (make packagers installs conan). With SLICE=n one of four builds that compile
# the library once more, or none.
. tests/check.sh
top=$(pwd) dir=$(pwd)/build/install cc=${CC:-cc}
de=$top/examples/models/de-en.safetensors text="Guten Tag."
expected=$(echo "$text" | build/translate "$de")
rm -rf "$dir" && mkdir -p "$dir/root"
version=$(sed -n 's/^.define TFM_VERSION "\(.*\)"/\1/p' transformer.h)
has() { command -v "$1" > /dev/null || { skip "$2" "needs $1"; return 1; }; }
# Prints the block of a README that contains the words.
shown() { awk -v words="$1" '/^```/ { if (inside && block ~ words) printf "%s", block; inside = !inside; block = ""; next } inside { block = block $0 "\n" }' README.md tools/README.md; }

make -s install PREFIX=/usr DESTDIR="$dir/root" > /dev/null
check "make install: what lies below DESTDIR" "bin/transformer-transcribe
bin/transformer-translate
include/transformer.h
lib/cmake/transformer/transformer-config-version.cmake
lib/cmake/transformer/transformer-config.cmake
lib/libtransformer.a
lib/libtransformer.so
lib/libtransformer.so.${version%.*}
lib/libtransformer.so.$version
lib/pkgconfig/transformer.pc
share/bash-completion/completions/transformer-transcribe
share/bash-completion/completions/transformer-translate
share/fish/vendor_completions.d/transformer-transcribe.fish
share/fish/vendor_completions.d/transformer-translate.fish
share/licenses/transformer/LICENSE
share/man/man1/transformer-transcribe.1
share/man/man1/transformer-translate.1
share/transformer-h/models/de-en.md
share/transformer-h/models/de-en.safetensors
share/transformer-h/models/zh-en.md
share/transformer-h/models/zh-en.safetensors
share/zsh/site-functions/_transformer-transcribe
share/zsh/site-functions/_transformer-translate" "$(cd "$dir/root/usr" && find . ! -type d | sed 's/^..//' | LC_ALL=C sort)"
check "transformer.pc: the prefix without DESTDIR, the header's version" "prefix=/usr Version: $version" "$(grep -E '^prefix|^Version' "$dir/root/usr/lib/pkgconfig/transformer.pc" | tr '\n' ' ' | sed 's/ $//')"
check "the installed program, and its model by name" "$expected" "$(cd / && "$dir/root/usr/bin/transformer-translate" de-en "$text")"
page=$dir/root/usr/share/man/man1/transformer-translate.1
check "the man page has every option of --help" "" "$(build/translate --help | grep -oE '^  (-., )?--[a-z-]*' | sed 's/^  //; s/-/\\-/g' | while read -r one; do grep -qF -e "$one" "$page" || echo "$one"; done)"
check "  and the examples of --help, with the program's installed name" "$(build/translate --help | sed -n 's/^    \(.* \)*translate .*-o .*/\1transformer-translate/p')" "$(sed -n 's/\(transformer.*translate\) .*-o .*/\1/; s/\\-/-/g; /^transformer-translate$/p' "$page")"
if has man 2; then for one in "$page" "${page%translate.1}transcribe.1"; do check "  and man finds nothing to say against ${one##*/}" "" "$(MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$one" 2>&1 > /dev/null)"; done; fi
# Completions: each shell knows exactly the options of --help.
share=$dir/root/usr/share
for program in translate transcribe; do
    name=transformer-$program listed=$(build/$program --help | grep -oE '^  -(., )?-?[a-z0-9-]*' | grep -oE -e '-[a-z0-9-]+' | LC_ALL=C sort)
    if has bash 1; then
        file=$share/bash-completion/completions/$name
        complete() { bash -c '. "$1"; COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2)); "_${2//-/_}"; printf "%s\n" "${COMPREPLY[@]}"' - "$file" "$name" "$@"; }
        check "bash, $name: the options of --help" "$listed" "$(complete - | grep -v = | LC_ALL=C sort)"
    fi
    if has fish 1; then check "fish" "$(echo "$listed" | grep -e '^--')" "$(fish -N -c "source $share/fish/vendor_completions.d/$name.fish; complete -C '$name --'" | sed 's/\t.*//' | grep -v = | LC_ALL=C sort)"; fi
    if has zsh 1; then
        # _arguments gets a specification for each option; braces are expanded, and -j+ is -j with its value
        check "zsh" "$listed" "$(zsh -fc '_arguments() { print -rl -- "$@" }; . '"$share/zsh/site-functions/_$name" | grep -E '^(\(.*\))?--?[a-z]' | sed -E '/^-[sS]$/d; s/^\([^)]*\)//; s/[+=[].*//' | LC_ALL=C sort)"
    fi
done
if has bash 4; then
    check "bash: values that --help lists" "json srt text vtt" "$(complete --format '' | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"
    name=transformer-translate file=$share/bash-completion/completions/transformer-translate
    check "  of translate" "html lines markdown srt wrapped split whole" "$({ complete --format '' | LC_ALL=C sort; complete --sentences ''; } | tr '\n' ' ' | sed 's/ $//')"
    check "  files" "README.md" "$(complete READ)"
    check "  no file where a number is meant" "" "$(complete --beam R)"
fi
cp -R "$share" "$dir/share"
make -s uninstall PREFIX=/usr DESTDIR="$dir/root" > /dev/null
check "make uninstall: nothing is left" "" "$(find "$dir/root" ! -type d)"

# Symbols of the libraries
make -s install PREFIX="$dir/usr" > /dev/null
if has nm 2 && has readelf 0; then
    check "the shared library shows only tfm_*" "" "$(nm -D --defined-only "$dir/usr/lib/libtransformer.so" | awk '$3 !~ /^tfm_[a-z]/ { print $3 }')"
    check "  its soname" "libtransformer.so.${version%.*}" "$(readelf -d "$dir/usr/lib/libtransformer.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
fi

# pkg-config, C
mkdir "$dir/c" && cp tests/install/app.c "$dir/c/" && cd "$dir/c" || exit 1
export PKG_CONFIG_PATH="$dir/usr/lib/pkgconfig" LD_LIBRARY_PATH="$dir/usr/lib"
if has pkg-config 6; then
    # shellcheck disable=SC2046
    check "pkg-config, C: compiles without a word" "" "$(cd "$top" && line=$(grep -o 'cc app.c .*pkg-config.*-o app' README.md) && cd "$dir/c" && eval "$cc ${line#cc}" 2>&1)"
    check "  translates" "$expected" "$(./app "$de" "$text" 2>&1)"
    by_readme() { (cd "$top" && line=$(grep -o "cc [^\`]*app.c [^\`]*$1[^\`]*-o app" README.md tools/README.md | head -n 1 | sed "s/^[^:]*://; s,/opt/transformer,$dir/usr,") && cd "$dir/c" && rm -f app && eval "$cc ${line#cc}" 2>&1; unset LD_LIBRARY_PATH; ./app "$de" "$text" 2>&1); }
    check "  without LD_LIBRARY_PATH: with the rpath that tools/README.md shows" "$expected" "$(by_readme rpath)"
    check "  with the static library, as tools/README.md shows" "$expected" "$(by_readme libtransformer.a)"
    check "  as one static program, as tools/README.md shows" "$expected not dynamic" "$(by_readme --static) $(ldd "$dir/c/app" 2>&1 | grep -o 'not .*dynamic' | sed 's/ a / /')"
    # hello.c defines TRANSFORMER_IMPLEMENTATION; the definition in transformer.pc makes that do nothing
    # shellcheck disable=SC2046
    $cc -O2 -c "$top/examples/hello.c" $(pkg-config --cflags transformer) -o hello.o && $cc hello.o $(pkg-config --libs transformer) -o hello
    check "hello.c takes the installed library: it contains no function of it" "0 I'm a student." "$(nm hello.o | grep -c ' T tfm_') $(cd "$top" && "$dir/c/hello")"
    seconds=$(LC_ALL=C bash -c 'TIMEFORMAT=%U; time "$@"' - $cc -O2 -c "$top/examples/hello.c" $(pkg-config --cflags transformer) -o hello.o 2>&1)
    check "  and compiles in a second of the CPU" yes "$(echo "$seconds" | awk '{ print $1 < 1 ? "yes" : $1 " s" }')"
    # a program whose header has one field more than the library's
    mkdir other && sed 's/^} tfm_decode_options;/    double field_of_another_version;\n} tfm_decode_options;/' "$top/transformer.h" > other/transformer.h
    # shellcheck disable=SC2046
    $cc -Iother app.c $(pkg-config --cflags --libs transformer) -o stranger
    ./stranger "$de" "$text" > out 2>&1
    check "a program compiled with other structs is refused" "1 tfm_decode_options has N bytes here and N in the library, whose version is $version: compile with its header" \
        "$? $(sed 's/[0-9]* bytes here and [0-9]*/N bytes here and N/' out)"
fi
cd "$top" || exit 1

# CMake: puts the README's lines into a project of one file.
project() { # arguments: folder, words of the README's block, target
    mkdir -p "$dir/$1" && cp tests/install/app.cpp "$dir/$1/"
    { printf 'cmake_minimum_required(VERSION 3.18)\nproject(app LANGUAGES C CXX)\nset(CMAKE_CXX_STANDARD 17)\n'
      shown "$2" | sed "s,GIT_REPOSITORY [^ ]*,GIT_REPOSITORY file://$dir/clone,; s,transformer::transformer,$3,"; } > "$dir/$1/CMakeLists.txt"
}
built() { # arguments: folder, options of cmake
    folder=$dir/$1
    shift
    { cmake -S "$folder" -B "$folder/build" "$@" && cmake --build "$folder/build"; } > "$folder/log" 2>&1 || tail -n 20 "$folder/log"
    "$folder/build/app" "$de" "$text" 2>&1
}
if has cmake 8; then
    unset LD_LIBRARY_PATH PKG_CONFIG_PATH
    project find find_package transformer::transformer
    check "find_package, C++17, after make install" "$expected" "$(built find -DCMAKE_PREFIX_PATH="$dir/usr")"
    project static find_package transformer::static
    check "  the static library" "$expected" "$(built static -DCMAKE_PREFIX_PATH="$dir/usr")"
    if in_slice 0; then
        project header find_package transformer::header
        sed -i '1i #define TRANSFORMER_IMPLEMENTATION' "$dir/header/app.cpp"
        check "  the header alone" "$expected" "$(built header -DCMAKE_PREFIX_PATH="$dir/usr")"
    fi
    project old "find_package" transformer::transformer
    sed -i 's/find_package(transformer/find_package(transformer 0.3/' "$dir/old/CMakeLists.txt"
    check "  another minor version is not taken" 1 "$(built old -DCMAKE_PREFIX_PATH="$dir/usr" | grep -c 'requested version "0.3"')"
    if in_slice 2 && has git 1; then # a repository of the working tree
        git init -q -b main "$dir/clone" && mkdir "$dir/clone/examples" && cp -R transformer.h LICENSE tools "$dir/clone" && cp -R examples/translate examples/transcribe "$dir/clone/examples/" &&
            git -C "$dir/clone" add . && git -C "$dir/clone" -c user.name=test -c user.email=test@localhost commit -q -m test
        project fetch FetchContent transformer::transformer
        check "FetchContent of a repository" "$expected" "$(built fetch -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)"
        level() { grep -o '"command".*transformer\.c' "$dir/fetch/$1/compile_commands.json" | grep -o -e ' -O[0-9s]*' -e ' -g ' | tr -d ' \n'; }
        check "  without a build type: the library is optimized, and a message says so" "-O2 1" "$(level build) $(grep -c 'transformer: CMAKE_BUILD_TYPE is not set, so the library is compiled with -O2' "$dir/fetch/log")"
        cmake -S "$dir/fetch" -B "$dir/fetch/debug" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_BUILD_TYPE=Debug > "$dir/log" 2>&1
        check "  a build type decides, without a message" "-g 0" "$(level debug) $(grep -c 'CMAKE_BUILD_TYPE' "$dir/log")"
        cmake -S "$dir/fetch" -B "$dir/fetch/flags" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_C_FLAGS=-O3 > "$dir/log" 2>&1
        check "  and so does an option of your own" "-O3 0" "$(level flags) $(grep -c 'CMAKE_BUILD_TYPE' "$dir/log")"
    fi
    if in_slice 4; then
        cmake -S tools -B "$dir/cmake" -DCMAKE_INSTALL_PREFIX="$dir/by_cmake" -DBUILD_SHARED_LIBS=ON > "$dir/cmake.log" 2>&1 &&
            cmake --build "$dir/cmake" -j 2 >> "$dir/cmake.log" 2>&1 && cmake --install "$dir/cmake" >> "$dir/cmake.log" 2>&1
        check "tools/CMakeLists.txt builds and installs" 0 $?
        check "  with the same man pages and completions" "" "$(diff -r "$dir/share" "$dir/by_cmake/share" 2>&1 | grep -v licenses)"
        project found find_package transformer::transformer
        check "  to be found" "$expected" "$(built found -DCMAKE_PREFIX_PATH="$dir/by_cmake")"
    fi
fi

# conan
PATH=$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/transformer.h/packagers/bin
if in_slice 6 && has cmake 1 && has conan 1; then
    export CONAN_HOME="$dir/conan"
    { env -u CC conan profile detect && env -u CC conan create tools/packaging/conan -o '*:shared=True'; } > "$dir/conan.log" 2>&1
    check "conan create" "0 transformer.h $version" "$? $(sed -n 's/^\(transformer.h [0-9.]*\), .*/\1/p' "$dir/conan.log")"
fi
# The vcpkg port: without vcpkg itself, checks that the port's version is the header's.
check "the vcpkg port's version" "$version" "$(sed -n 's/.*"version": "\(.*\)".*/\1/p' tools/packaging/vcpkg/vcpkg.json)"
counts test_install
