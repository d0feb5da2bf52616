# dist.sh PYTHON ZIG: make dist twice, in two folders and with two caches of the compiler, gives the same bytes; what is in
# the archives; what checks workflows says of them. Takes one system; ALL=1 takes all files. make test-dist calls this script.
# With SLICE=n the second run is one of seven cases.
. tests/check.sh
python=$1 zig=$2 dir=$(pwd)/build/test_dist top=$(pwd) machine=$(uname -m)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/transformer.h/release/bin
version=$(sed -n 's/^.define TFM_VERSION "\(.*\)"/\1/p' transformer.h)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || echo 1795651200)
export SOURCE_DATE_EPOCH
rm -rf "$dir"
only="--only transformer-$version-linux-$machine"
[ -z "$ALL" ] || only=
folders=one
! in_slice 0 || folders="one another/folder"
for folder in $folders; do
    mkdir -p "$dir/$folder"
    tar -cf - --exclude=./build --exclude=./.git --exclude=__pycache__ . | tar -xf - -C "$dir/$folder"
    # shellcheck disable=SC2086
    (cd "$dir/$folder" && ZIG_GLOBAL_CACHE_DIR=$dir/cache.${folder%/*} $python tools/packaging/dist.py --zig "$zig" $only --no-runs > "$dir/log" 2>&1) ||
        { check "make dist in $folder" 0 1; tail -n 20 "$dir/log"; }
    rm -rf "$dir/cache.${folder%/*}"
done
check "make dist ONLY takes several words" 1 "$(make -n dist ONLY="deb rpm" 2> /dev/null | grep -c -e '--only deb rpm')"
dist=$dir/one/build/dist
! in_slice 0 || check "two runs, two folders: the same bytes" "$(cat "$dist/SHA256SUMS")" "$(cat "$dir/another/folder/build/dist/SHA256SUMS")"
check "  all files are in SHA256SUMS, and have their sum" "$(cd "$dist" && find . -type f ! -name SHA256SUMS | sed 's,^\./,,' | LC_ALL=C sort)" \
    "$(cd "$dist" && sha256sum -c --quiet SHA256SUMS && sed 's/^[0-9a-f]*  //' SHA256SUMS | LC_ALL=C sort)"
archive=$dist/transformer-$version-linux-$machine.tar.gz package=$dist/transformer-$version.tar.gz
check "the programs' archive" "LICENSE README.md completions/_transcribe completions/_translate completions/transcribe.bash completions/transcribe.fish completions/translate.bash completions/translate.fish man/transcribe.1 man/translate.1 models/de-en.md models/de-en.safetensors models/zh-en.md models/zh-en.safetensors transcribe translate" \
    "$(tar -tzf "$archive" | sed "s,^transformer-$version-linux-$machine/,," | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"
for one in "$archive" "$package"; do
    check "  $(basename "$one"): sorted" "$(tar -tzf "$one")" "$(tar -tzf "$one" | LC_ALL=C sort)"
    check "  no owner, the commit's time" "0/0 $(TZ=UTC date -d "@$SOURCE_DATE_EPOCH" '+%Y-%m-%d %H:%M')" "$(TZ=UTC tar --numeric-owner -tvzf "$one" | awk '{ print $2, $4, $5 }' | sort -u)"
done
mkdir -p "$dir/x" && tar -xzf "$archive" -C "$dir/x" && tar -xzf "$package" -C "$dir/x"
program=$dir/x/transformer-$version-linux-$machine/translate
check "translate is static, and does not name the folder" "0 0" "$(readelf -d "$program" 2> /dev/null | grep -c NEEDED) $(grep -c "$top" "$program")"
check "  translates" "$(echo 'Guten Tag.' | build/translate examples/models/de-en.safetensors)" "$(cd / && "$program" de-en 'Guten Tag.')"
check "the C package has header, licence, manual pages, pkg-config, CMake" 7 "$(cd "$dir/x/transformer-$version" && ls transformer.h LICENSE share/man/man1/transformer-translate.1 \
    share/man/man1/transformer-transcribe.1 lib/pkgconfig/transformer-header.pc lib/cmake/transformer/transformer-config.cmake CMakeLists.txt | wc -l | tr -d ' ')"
check "vcpkg's checksum" "$(sha512sum < "$package" | cut -d' ' -f1)" "$(sed -n 's/.*SHA512 \([0-9a-f]*\).*/\1/p' "$dist/vcpkg/transformer-h/portfile.cmake")"
check "conan's checksum" "$(sha256sum < "$package" | cut -d' ' -f1)" "$(sed -n 's/.*sha256: "\(.*\)"/\1/p' "$dist/conan/conandata.yml")"
check "the notes have the changes of this version alone" "1 0" "$(grep -c '^### Breaking$' "$dist/notes-$version.md") $(grep -cE '^## 0\.[0-6]\.0 \(' "$dist/notes-$version.md")"
check "  and say what was not run" 1 "$(grep -c '^## What could not be run' "$dist/notes-$version.md")"
check "  tools/README.md names all that was never run, as the notes do" "" "$(sed -n '/^NEVER/,/\]$/s/^[^"]*"\(.*\)"[],]*$/\1/p' tests/install/run_dist.py | while read -r one; do grep -qF -e "- $one" tools/README.md || echo "$one"; done)"
if [ -x "$tools/zizmor" ]; then
    check "sbom.cdx.json is CycloneDX 1.5" ok "$("$tools/python" - "$dist/sbom.cdx.json" << 'END'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1], encoding="utf-8").read()) or "ok")
END
)"
    check "workflows: their schema" 0 "$("$tools/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml > "$dir/log" 2>&1; echo $?)"
    check "  zizmor" "No findings to report. Good job!" "$(NO_COLOR=1 "$tools/zizmor" --color never --offline --persona=auditor .github/workflows 2>&1 | tail -n 1)"
else
    skip 3 "needs make release-tools"
fi
# Each row of .ci/run is in a job: its name has one of the words.
"$python" - << 'END' > "$dir/words"
import re
text = open(".github/workflows/ci.yml", encoding="utf-8").read()
for word in re.findall(r'"([^"]*)"|([^,\s][^,]*)', re.search(r"word: \[(.*?)\]", text, re.DOTALL)[1]):
    print((word[0] or word[1]).strip())
END
.ci/run --names > "$dir/rows"
check "each row of .ci/run is in a job of ci.yml" "" "$(grep -vFf "$dir/words" "$dir/rows")"
check "  and each job has a row" "" "$(while IFS= read -r word; do grep -qF -e "$word" "$dir/rows" || echo "$word"; done < "$dir/words")"
counts test_dist
