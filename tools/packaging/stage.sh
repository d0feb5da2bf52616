# stage.sh DIR PREFIX VERSION: copies the files that make install installs to DIR, in the folders that they have
# below PREFIX. The programs and libraries are in build/ already.
set -e
stage=$1 prefix=$2 version=$3 here=$(dirname "$0")
mkdir -p "$stage/bin" "$stage/include" "$stage/lib/pkgconfig" "$stage/lib/cmake/transformer" \
    "$stage/share/man/man1" "$stage/share/bash-completion/completions" "$stage/share/zsh/site-functions" \
    "$stage/share/fish/vendor_completions.d" "$stage/share/licenses/transformer" "$stage/share/transformer-h/models"
cp transformer.h "$stage/include/"
cp -P build/libtransformer.* "$stage/lib/"
# RUN is an emulator if the programs are for another kind of CPU.
for program in translate transcribe; do
    name=transformer-$program
    cp build/$program "$stage/bin/$name"
    # shellcheck disable=SC2086
    sh "$here/texts.sh" "$stage" $name "$version" $RUN build/$program
    mv "$stage/$name.1" "$stage/share/man/man1/"
    mv "$stage/$name.bash" "$stage/share/bash-completion/completions/$name"
    mv "$stage/_$name" "$stage/share/zsh/site-functions/"
    mv "$stage/$name.fish" "$stage/share/fish/vendor_completions.d/"
done
cp LICENSE "$stage/share/licenses/transformer/"
cp examples/models/*-*.* "$stage/share/transformer-h/models/" # with their cards, which have the attribution
cp "$here/transformer-config.cmake" "$stage/lib/cmake/transformer/"
fill() { sed -e "s,@PREFIX@,$prefix,; s,@VERSION@,$version,; s,@INCLUDEDIR@,\${prefix}/include,; s,@LIBDIR@,\${prefix}/lib," "$here/$1.in" > "$stage/lib/$2/$1"; }
fill transformer.pc pkgconfig
fill transformer-config-version.cmake cmake/transformer
