# abi.sh STAGE: programs and libraries of this version and of 0.6.0, in each mixture: they work, or loader or linker refuse
# them with a message. STAGE is what make stage wrote.
. tests/check.sh
stage=$1 dir=$(pwd)/build/abi cc=${CC:-cc}
de=examples/models/de-en.safetensors text="Guten Tag."
rm -rf "$dir" && mkdir -p "$dir/include" "$dir/old" "$dir/new" "$dir/old_as_new" "$dir/new_as_old"
cp tests/data/abi-0.6.0.h "$dir/include/transformer.h"
version=$(sed -n 's/^.define TFM_VERSION "\(.*\)"/\1/p' transformer.h) soname=libtransformer.so.${version%.*}
$cc -shared -fPIC -w -Wl,-soname,libtransformer.so.0.6 tests/install/library_0_6.c -o "$dir/old/libtransformer.so.0.6"
ln -s libtransformer.so.0.6 "$dir/old/libtransformer.so"
cp -P "$stage"/lib/libtransformer.so* "$dir/new/"
cp "$dir/old/libtransformer.so.0.6" "$dir/old_as_new/$soname"
cp "$stage/lib/libtransformer.so.$version" "$dir/new_as_old/libtransformer.so.0.6"
$cc -DTRANSFORMER_LIBRARY -I"$dir/include" tests/install/app.c -L"$dir/old" -ltransformer -o "$dir/old_app"
$cc -DTRANSFORMER_LIBRARY -I"$stage/include" tests/install/app.c -L"$dir/new" -ltransformer -o "$dir/new_app"
# Runs a program with the libraries of a folder; a signal is a status above 128.
with() { LD_LIBRARY_PATH=$dir/$1 "$dir/$2" $de "$text" 2>&1; echo "status $?"; }
expected=$(echo "$text" | build/translate $de)
check "program and library of this version" "$expected
status 0" "$(with new new_app)"
check "program and library of 0.6.0" "version 0.6.0
status 0" "$(with old old_app)"
refused() { check "$1" "$2 status 127" "$(echo "$3" | grep -o -e "$2" -e '^status .*' | tr '\n' ' ' | sed 's/ $//')"; }
refused "program of 0.6.0, only this library is installed" "libtransformer.so.0.6: cannot open shared object file" "$(with new old_app)"
refused "program of this version, only the library of 0.6.0" "$soname: cannot open shared object file" "$(with old new_app)"
refused "program of 0.6.0, this library with its name" "undefined symbol: tfm_sizes_check" "$(with new_as_old old_app)"
refused "program of this version, the library of 0.6.0 with its name" "undefined symbol: tfm_struct_sizes_check" "$(with old_as_new new_app)"
links() { $cc -DTRANSFORMER_LIBRARY -I"$1" tests/install/app.c "$2" -lm -pthread -o "$dir/linked" 2>&1 | grep -o 'undefined reference to .tfm_[a-z_]*sizes_check' | head -n 1 | tr "\`'" "  "; }
$cc -w -c tests/install/library_0_6.c -o "$dir/old.o"
check "objects of 0.6.0 are not linked with this static library" "undefined reference to  tfm_sizes_check" "$(links "$dir/include" "$stage/lib/libtransformer.a")"
check "objects of this version are not linked with that of 0.6.0" "undefined reference to  tfm_struct_sizes_check" "$(links "$stage/include" "$dir/old.o")"
counts test_abi
