# stage.sh DIR PREFIX VERSION: copies the files that make install installs to DIR, in the folders that they have
# below PREFIX. The programs and libraries are in build/ already.
set -e
stage=$1 prefix=$2 version=$3 here=$(dirname "$0")
mkdir -p "$stage/bin" "$stage/include" "$stage/lib/pkgconfig" "$stage/lib/cmake/transformer" \
    "$stage/share/man/man1" "$stage/share/bash-completion/completions" "$stage/share/licenses/transformer"
cp transformer.h "$stage/include/"
cp build/translate "$stage/bin/transformer-translate"
cp -P build/libtransformer.* "$stage/lib/"
# RUN is an emulator if build/translate is for another kind of CPU.
help=$($RUN build/translate --help)
printf '%s\n' "$help" | awk -v name=transformer-translate -v version="$version" -f "$here/man.awk" \
    > "$stage/share/man/man1/transformer-translate.1"
cp "$here/transformer-translate.bash" "$stage/share/bash-completion/completions/transformer-translate"
cp LICENSE "$stage/share/licenses/transformer/"
cp "$here/transformer-config.cmake" "$stage/lib/cmake/transformer/"
fill() { sed -e "s,@PREFIX@,$prefix,; s,@VERSION@,$version,; s,@INCLUDEDIR@,\${prefix}/include,; s,@LIBDIR@,\${prefix}/lib," "$here/$1.in" > "$stage/lib/$2/$1"; }
fill transformer.pc pkgconfig
fill transformer-config-version.cmake cmake/transformer
