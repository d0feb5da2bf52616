# mobile.sh PYTHON: the examples for Android and iOS, as far as they run here. PYTHON has ziglang (make zig).
. tests/check.sh
python=$1 dir=$(pwd)/build/mobile cc=${CC:-cc} java=examples/android/app/src/main package=examples/bindings/java
rm -rf "$dir" && mkdir -p "$dir/classes"
lib=$("$python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "lib")')
javac=$(command -v javac) && home=$(dirname "$(dirname "$(readlink -f "$javac")")")
if [ -f "$home/include/jni.h" ]; then
    cat > "$dir/Main.java" << 'END'
import java.nio.file.*;
import transformer.*;

public class Main {
    public static void main(String[] arguments) throws Exception {
        byte[] bytes = Files.readAllBytes(Paths.get(arguments[0]));
        try (Model model = new Model(bytes); Translator translator = model.translator(new Translator.Options())) {
            System.out.println(translator.translate(arguments[1]) + translator.translate("") + translator.translate("😀"));
        }
        try {
            new Model("no model".getBytes());
        } catch (TransformerException error) {
            System.out.println(error.getMessage());
        }
    }
}
END
    # shellcheck disable=SC2086
    $cc -O2 -shared -fPIC -I. -Iexamples -I$package/../native -I"$home/include" -I"$home/include/linux" $package/transformer_jni.c \
        $package/../native/binding.c -o "$dir/libtransformer_jni.so" -lm -pthread
    javac -d "$dir/classes" $package/transformer/*.java "$dir/Main.java"
    de=examples/models/de-en.safetensors
    check "the package for Java translates" "$(printf 'Guten Tag.\n' | build/translate $de)😀" \
        "$(LC_ALL=C.UTF-8 java -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 -Djava.library.path="$dir" -cp "$dir/classes" Main $de 'Guten Tag.' | head -n 1)"
    text="1. „$(awk 'BEGIN { for (i = 0; i < 900; i++) printf "Guten Tag Nummer %d. ", i % 7 }')Danke.“ This is the house of my brother. 🎉"
    check "  a long text with labels and quotation marks, as translate does" "$(echo "$text" | build/translate $de 2> "$dir/log")😀" \
        "$(LC_ALL=C.UTF-8 java -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 -Djava.library.path="$dir" -cp "$dir/classes" Main $de "$text" | head -n 1)"
    check "  and refuses what is no model, with the library's message" 1 \
        "$(java -Djava.library.path="$dir" -cp "$dir/classes" Main $de 'Guten Tag.' | sed 1d | grep -c 'not a safetensors file')"
    if command -v cmake > /dev/null; then
        { cmake -S $java/cpp -B "$dir/android" -DCMAKE_TOOLCHAIN_FILE="$(pwd)/examples/android/zig.cmake" -DZIG="$python;-m;ziglang" \
            -DZIG_LIB="$lib" -DJNI="$home/include" -DCMAKE_BUILD_TYPE=Release && cmake --build "$dir/android"; } > "$dir/log" 2>&1
        check "libtransformer_jni.so compiles for aarch64 Android" "0 AArch64" "$? $(readelf -h "$dir/android/libtransformer_jni.so" | sed -n 's/ *Machine: *//p')"
        [ -e "$dir/android/libtransformer_jni.so" ] || tail -n 20 "$dir/log"
        check "  with all functions of Native.java" "$(grep -c ' native ' $package/transformer/Native.java)" \
            "$(readelf --dyn-syms -W "$dir/android/libtransformer_jni.so" | grep -c 'Java_transformer_Native_')"
    else
        skip 2 "Android: needs cmake"
    fi
else
    skip 5 "Android: needs a JDK (apt-get install default-jdk-headless)"
fi
"$python" -m ziglang cc -target aarch64-ios -nostdinc -isystem "$lib/include" -isystem "$lib/libc/include/any-darwin-any" -O1 -Wall -Wextra -Werror \
    -Iexamples/ios/Sources/CTransformer -c examples/ios/Sources/CTransformer/transformer.c -o "$dir/ios.o" > "$dir/log" 2>&1
check "the C half of the Swift package compiles for arm64 iOS" "0 " "$? $(head -n 5 "$dir/log")"
cat > "$dir/main.c" << 'END'
#include "examples/ios/Sources/CTransformer/include/CTransformer.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    tfm_error err;
    text_translator *t = text_translator_open(argv[1], &err);
    char *text = t ? text_translator_run(t, argv[argc - 1], &err) : NULL;
    puts(text ? text : err.text);
    free(text);
    text_translator_close(t);
    return 0;
}
END
$cc -O1 -I. -Iexamples/ios/Sources/CTransformer "$dir/main.c" examples/ios/Sources/CTransformer/transformer.c -o "$dir/main" -lm -pthread
check "  translates here" "1. Good day." "$("$dir/main" examples/models/de-en.safetensors '1. Guten Tag.')"
check "  and says why it cannot" "nonesuch: cannot be opened|text is not UTF-8 at byte 1" \
    "$("$dir/main" nonesuch x)|$("$dir/main" examples/models/de-en.safetensors "$(printf 'A\377')")"
check "  as Mach-O" "cf fa ed fe" "$(od -An -tx1 -N4 "$dir/ios.o" | sed 's/^ *//')"
counts test_mobile
