# Compares the list of parsers (tests/fuzz/parsers.tsv) with the sources and with the fuzz targets.
. tests/check.sh
dir=build/test_parsers
mkdir -p $dir
list=tests/fuzz/parsers.tsv
LC_ALL=C
export LC_ALL
sources="transformer.h $(echo examples/translate/*.[ch] examples/translate/text/*.h examples/transcribe/*.[ch] tools/model/*.[ch] tools/common/*.h)"
# The functions that read, by their names: read, open, load, parse, decode, tokenize or from as a word of the name, json, or
# varint; and main, because a program reads its command line.
readers() { # files
    for source; do
        grep -ohE '^(static |TFM_DEF |int main)[A-Za-z_0-9 *]*\(|^[a-z][a-z_0-9]*\(const char \*' "$source" | sed 's/(.*//; s/.*[ *]//' |
            grep -E '^main$|(^|_)(reads?|open|load|parse|decode|tokenize|from)(_|$)|json|varint' | sort -u | sed "s|^|$source |"
    done
}
# shellcheck disable=SC2086
readers $sources > $dir/readers
grep -v '^#' $list > $dir/rows

# Matches names and rows in both directions.
unmatched() { # a file of readers
    awk -F'\t' -v readers="$1" '
    { n = split($2, names, " "); for (i = 1; i <= n; i++) { at[++rows] = $1; pattern[rows] = "^" names[i] "$"; gsub(/\*/, ".*", pattern[rows]); shown[rows] = $1 " " names[i] } }
    END {
        while ((getline line < readers) > 0) {
            split(line, part, " "); found = 0
            for (i = 1; i <= rows; i++) if (at[i] == part[1] && part[2] ~ pattern[i]) used[i] = found = 1
            if (!found) print "no row: " line
        }
        for (i = 1; i <= rows; i++) if (!used[i] && shown[i] !~ / \*$/) print "no function: " shown[i]
    }' $dir/rows
}
check "each function that reads has a row, and each row a function" "" "$(unmatched $dir/readers)"
check "  and there are functions to compare" 1 "$(($(wc -l < $dir/readers) > 100))"
check "each source has a row" "" "$(for source in $sources; do cut -f1 $dir/rows | grep -qxF "$source" || echo "$source"; done)"
check "a row has four columns, and a source that exists" "" \
    "$(awk -F'\t' 'NF != 4 || $3 == "" || $4 == ""' $dir/rows; cut -f1 $dir/rows | sort -u | while read -r source; do [ -f "$source" ] || echo "$source"; done)"

# The comment of the list names the tests of readers in Python
check "each Python file that the list names exists" "9 0" \
    "$(grep '^#' $list | grep -oE '[a-z_/]+\.py' | sort -u | { n=0 none=0; while read -r file; do n=$((n + 1)); [ -f "$file" ] || none=$((none + 1)); done; echo $n $none; })"

# What a target includes, and what that includes
reached() { # a file that was not seen yet
    grep -qxF "$1" $dir/seen && return
    echo "$1" >> $dir/seen
    for include in $(sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$1"); do
        for folder in "$(dirname "$1")/" "" tools/common/ tests/; do
            [ -f "$folder$include" ] || continue
            (reached "$(realpath --relative-to=. "$folder$include" 2> /dev/null || echo "$folder$include")")
            break
        done
    done
}
for target in tests/fuzz/*.c; do
    : > $dir/seen
    reached "$target"
    sort $dir/seen > "$dir/$(basename "$target" .c).includes"
done
missing() {
    while IFS="$(printf '\t')" read -r source functions what targets; do
        for target in $targets; do
            [ "$target" = - ] && continue
            [ -f "tests/fuzz/$target.c" ] || { echo "no target: $target ($source)"; continue; }
            grep -qxF "$source" "$dir/$target.includes" || echo "$target does not include $source: $functions, $what"
        done
    done < $dir/rows
}
check "each target of a row includes the row's file" "" "$(missing)"
check "each target has a row" "" \
    "$(for target in tests/fuzz/*.c; do name=$(basename "$target" .c); cut -f4 $dir/rows | tr ' ' '\n' | grep -qx "$name" || echo "$name"; done)"
check "each target has inputs to begin with" "" \
    "$(for target in tests/fuzz/*.c; do name=$(basename "$target" .c); case $name in transcribe) name=whisper;; tools) name=model;; esac
       [ -n "$(ls tests/fuzz/corpus/$name 2> /dev/null)" ] || echo "$name"; done)"
# The comparison itself: a reader that nobody listed, and a row whose function is gone
printf 'static int foreign_read(const char *text) {\n' > $dir/new.h
{ cat $dir/readers; readers $dir/new.h; } > $dir/more
check "a new reader without a row is found" "no row: $dir/new.h foreign_read" "$(unmatched $dir/more)"
grep -v ' terms_read$' $dir/readers > $dir/fewer
check "  and a row without a function" "no function: examples/translate/text/terms.h terms_read" "$(unmatched $dir/fewer)"
counts test_parsers
