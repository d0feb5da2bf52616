# sh tests/install/speed.sh [COMMIT]: CPU seconds of translate on the demo's sentences, repeated, at COMMIT (the newest tag; without
# tags the newest commit that has another version) and here, in turns. Fails if the version here takes 10 % more.
set -e
last=${1:-$(git describe --tags --abbrev=0 2> /dev/null || git log -1 --format=%H -S'define TFM_VERSION_MINOR' -- transformer.h)^}
case $last in v*^) last=${last%^} ;; esac
old=build/last
rm -rf $old && mkdir -p $old
git archive "$last" | tar -xf - -C $old
make -s build/translate
make -s -C $old build/translate
for i in 1 2 3 4 5 6 7 8; do cat examples/translate/demo-de.txt; done > build/speed.txt
# Prints the CPU seconds that a program took for the sentences, one at a time and in batches, with beam 4.
seconds() {
    { LC_ALL=C bash -c 'TIMEFORMAT="%U %S"; time for b in 1 32; do "$1" examples/models/de-en.safetensors --batch $b --beam 4 < build/speed.txt > "$2"; done' - "$1" "$2"; } 2>&1 |
        awk '{ print $1 + $2 }'
}
least_old=999 least_new=999
for round in 1 2 3 4 5; do
    a=$(seconds $old/build/translate $old/out) b=$(seconds build/translate build/speed.out)
    echo "round $round: $a s at $last, $b s here"
    least_old=$(echo "$a $least_old" | awk '{ print $1 < $2 ? $1 : $2 }') least_new=$(echo "$b $least_new" | awk '{ print $1 < $2 ? $1 : $2 }')
done
cmp -s $old/out build/speed.out && echo "the same translations" || echo "other translations than $last"
echo "$least_old $least_new" | awk '{ printf "least: %.2f s and %.2f s, ratio %.3f\n", $1, $2, $2 / $1; exit $2 > 1.1 * $1 }'
