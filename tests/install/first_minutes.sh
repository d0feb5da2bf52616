# first_minutes.sh ROOT DIST OLD [WAY]: how long it takes from a Debian without compiler, Python and Node to a first
# translation, with a clone of the commit OLD and with the files of a release in DIST. ROOT is a clean system, which debootstrap
# --variant=minbase makes, and does not change: each way begins in a copy. Prints seconds, CPU seconds and MB of what was
# downloaded without package lists and PyPI. The clone and the files come from this machine. Needs root for chroot.
#     sh tests/install/first_minutes.sh /tmp/root build/dist 678b512 [WAY]
root=$1 dist=$(cd "$2" && pwd) old=$3 only=$4 work=$(mktemp -d) version=$(sed -n 's/^.define TFM_VERSION "\(.*\)"/\1/p' transformer.h)
trap 'rm -rf "$work"' EXIT
git clone -q --bare . "$work/clone.git" # what a clone downloads: all of the history up to here
printf '%-8s %-7s %8s %8s %9s\n' way when seconds "CPU s" "MB"
way() { # name, before or after, files of the release, packages of Debian, commands
    case "$1 $2" in *"$only"*) ;; *) return ;; esac
    cp -a "$root" "$work/root" && mkdir "$work/root/w" && cp examples/models/de-en.safetensors "$work/root/w/"
    cp /etc/resolv.conf /etc/hosts "$work/root/etc/"; cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$work/root/w/ca.crt"
    size=$(stat -c %s examples/models/de-en.safetensors)
    for file in $3; do cp "$dist/$file" "$work/root/w/" && size=$((size + $(stat -c %s "$dist/$file"))); done
    if [ "$2" = before ]; then
        cp -R "$work/clone.git" "$work/root/clone.git"
        size=$(du -sb "$work/clone.git" | cut -f1)
    fi
    cat > "$work/root/way.sh" << END
set -e
cd /w
apt-get update -qq
apt-get install -y -qq --no-install-recommends $4
[ $2 = after ] || { git clone -q /clone.git clone; cd clone; git checkout -q $old; cp examples/models/de-en.safetensors /w/; cp /w/de-en.safetensors .; }
$5
END
    : > "$work/root/output"
    begun=$(date +%s)
    cpu=$(bash -c 'TIMEFORMAT="%U %S"; time env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive PIP_CERT=/w/ca.crt chroot "$0" sh /way.sh > "$0/output" 2> "$0/errors"' "$work/root" 2>&1 | awk '{ printf "%.0f", $1 + $2 }')
    seconds=$(($(date +%s) - begun))
    grep -q 'Good day' "$work/root/output" || { echo "$1 $2: no translation"; tail -n 5 "$work/root/errors"; }
    size=$((size + $(du -cb "$work/root/var/cache/apt/archives"/*.deb 2> /dev/null | tail -n 1 | cut -f1)))
    printf '%-8s %-7s %8s %8s %9s\n' "$1" "$2" "$seconds" "$cpu" "$(awk "BEGIN { printf \"%.1f\", $size / 1e6 }")"
    rm -rf "$work/root"
}
hello='s,examples/models/zh-en,/w/de-en,;s,我是学生。,Guten Tag.,'
node='const { load } = await import(process.argv[1]); const model = await load(await (await import("node:fs/promises")).readFile("/w/de-en.safetensors")); console.log((await model.translate("Guten Tag.")).text);'
python='from transformer_h import Model; print(Model("/w/de-en.safetensors").translate("Guten Tag."))'
way C before "" "git ca-certificates gcc libc6-dev" "sed '$hello' examples/hello.c > hello.c; cc -O2 -I. hello.c -o hello -lm; ./hello"
way C after "transformer-$version.tar.gz" "gcc libc6-dev" "tar xf *.tar.gz; cat > hello.c << 'X'
$(sed "$hello" examples/hello.c)
X
cc -O2 -Itransformer-$version hello.c -o hello -lm; ./hello"
way shell before "" "git ca-certificates gcc libc6-dev make" "make -s; echo 'Guten Tag.' | build/translate de-en.safetensors"
way shell after "transformer-$version-linux-x86_64.tar.gz" "" "tar xf *.tar.gz; echo 'Guten Tag.' | transformer-*/translate de-en.safetensors"
way Python before "" "git ca-certificates gcc libc6-dev python3-dev python3-venv" "python3 -m venv v; v/bin/pip install -q ./tools/python; v/bin/python -c '$python'"
way Python after "transformer_h-$version-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl" "python3-venv ca-certificates" "python3 -m venv v; v/bin/pip install -q transformer-h --find-links .; v/bin/python -c '$python'"
way web before "" "git ca-certificates make clang lld wasi-libc libclang-rt-14-dev-wasm32 nodejs" "make -s web; node --input-type=module -e '$node' /w/clone/build/web/transformer.js"
way web after "transformer-h-$version.tgz" "nodejs npm ca-certificates" "npm install --offline --no-audit --no-fund ./*.tgz; node --input-type=module -e '$node' transformer-h"
