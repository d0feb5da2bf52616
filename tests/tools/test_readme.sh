# Runs the commands of README.md, tools/README.md and examples/translate/README.md that need only cc and make, and
# compares what they print. After make, in a folder that looks like a new clone. Then what examples/README.md says
# that each example prints.
. tests/check.sh
dir=build/test_readme root=$PWD
export XDG_DATA_HOME=$root/$dir # no models of the user
rm -rf $dir && mkdir -p $dir/clone $dir/blocks
for one in Makefile build examples tests tools transformer.h; do ln -s "$root/$one" "$dir/clone/$one"; done
# Commands that need Python, the network, or a file of the reader.
others='venv|curl|FOLDER|base\.safetensors|model\.safetensors|lines\.txt|get (fr-en|whisper-base)|fr-en|austen|checkpoint|train\.py'
for text in README.md tools/README.md examples/translate/README.md tools/site/cookbook.md; do
    awk -v others="$others" -v out="$dir/blocks/$(echo $text | tr / _)" '
        /^    \$ / { skipped = $0 ~ others; n++; name = sprintf("%s.%02d", out, n)
            if (!skipped) { print substr($0, 7) > (name ".sh"); printf "" > (name ".out") }; inside = !skipped; next }
        /^    / { if (inside) print substr($0, 5) > (name ".out"); next }
        { inside = 0 }' $text
done
ran=0
for script in $dir/blocks/*.sh; do
    name=${script%.sh} command=$(cat "$script")
    # -O0 compiles in a tenth of the time; MAKEFLAGS has the options of the make that runs this test
    (cd $dir/clone && MAKEFLAGS='' sh -c "$(echo "$command" | sed "s|^cc -O2|${CC:-cc} -O0|; s|^make demo|make demo CC='${CC:-cc}' -o build/translate -o build/transcribe|")" > "$root/$name.got" 2> "$root/$name.err")
    status=$?
    ran=$((ran + 1))
    if grep -qx '\.\.\.' $name.out; then # other lines may stand between those that are shown
        grep -vx '\.\.\.' $name.out > $name.shown
        awk 'NR == FNR { want[++n] = $0; next } $0 == want[found + 1] { found++ } END { for (i = found + 1; i <= n; i++) print want[i] }' $name.shown $name.got > $name.missing
        check "$command" "0 " "$status $(cat $name.missing)"
    elif [ -s $name.out ]; then check "$command" "0 $(cat $name.out)" "$status $(cat $name.got)"
    else check "$command" 0 "$status"; fi
done
check "commands that were found" 36 $ran
# The program at the top
awk '/^```c/ { inside = 1; next } /^```/ && inside { exit } inside' README.md > $dir/first.c
${CC:-cc} -std=c99 -O0 -Wall -I. $dir/first.c -o $dir/first -lm -pthread 2> $dir/first.err
check "the program at the top of README.md" "Good day. 0" "$($dir/first) $(wc -c < $dir/first.err)"
check "  whose first screen has 40 lines of 80 columns" 0 "$(awk '/^## / { exit } length($0) > 80 || NR > 40 { print }' README.md | wc -l)"
# The programs of the cookbook, and what each prints
awk -v out="$dir/blocks/program" '/^```c/ { n++; file = sprintf("%s.%02d.c", out, n); inside = 1; next } /^```/ { inside = 0; printed = 1; next }
    inside { print > file; next } printed && /^    / { print substr($0, 5) > (file ".out"); next } /^#/ { printed = 0 }' tools/site/cookbook.md
for program in $dir/blocks/program.*.c; do
    ${CC:-cc} -std=c99 -O0 -Wall -Wextra -Werror -DTFM__IMPLEMENTED -I. "$program" build/transformer.o -o $dir/program -lm -pthread > $program.err 2>&1
    check "cookbook, $(grep -o 'int main.*' $program)" "0 $(cat $program.out)" "$($dir/program > $program.got 2>&1; echo $?) $(cat $program.got)$(cat $program.err)"
done
# | `hello.c` | what it shows | `what it prints` ... |
grep '^| `[a-z]*\.c` |' examples/README.md | sed 's/\\|/\a/g' > $dir/rows
while IFS='|' read -r _ name _ prints _; do
    example=$(echo "$name" | tr -d ' `' | sed 's/\.c$//')
    echo "$prints" | tr '\a' '|' | grep -o '`[^`]*`\|<code>.*</code>' | sed 's/^`//; s/`$//; s/<[^>]*>//g' > $dir/$example.shown
    build/$example > $dir/$example.got
    while IFS= read -r shown; do
        check "$example prints $shown" yes "$(grep -qF -- "$shown" $dir/$example.got && echo yes || head -n 3 $dir/$example.got)"
    done < $dir/$example.shown
done < $dir/rows
counts test_readme
