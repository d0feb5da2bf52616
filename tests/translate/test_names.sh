# Checks that the headers that people copy give a program only names with the prefix that the table in
# examples/translate/README.md says: types, tags, functions, variables, enumerators, macros and include guards.
. tests/check.sh
readme=examples/translate/README.md
unit=build/names
mkdir -p build

# Prints the names that a header declares, one a line: macros, and what its text declares outside of functions. It
# reads the preprocessor's output, where lines like `# 12 "FILE"` say from which file the next lines are.
declared() {
    {
        printf '#ifndef _POSIX_C_SOURCE\n#define _POSIX_C_SOURCE 200809L\n#endif\n'
        printf '#include <stdint.h>\n#include <stdio.h>\n#include "transformer.h"\n#include "%s"\n' "$1"
    } > $unit.c
    ${CC:-cc} -I. -Iexamples/translate -Itools/common -E -dD $unit.c > $unit.i || return 1
    awk -v header="$1" '
        function token(t) {
            if (t == "{" && depth == 0) {
                is_enum = before == "enum" || earlier == "enum"
                if (earlier == "struct" || earlier == "enum" || earlier == "union") print before
            }
            if (pending && t != "*") print pending
            pending = ""
            if (t ~ /^[;=,(\[]$/ && depth == 0 && parens == 0 && !skip && before ~ /^[A-Za-z_]/ &&
                before !~ /^(__attribute__|__asm__)$/) {
                if (t == "(") pending = before # a function, unless a star is next, as in typedef int (*NAME)(...)
                else print before
            }
            if (t == ")" && parens == 1 && depth == 0 && earlier == "*" && is_pointer) print before
            if (is_enum && depth == 1 && t ~ /^[A-Za-z_]/ && before ~ /^[{,]$/) print t
            if (t == "(") { if (parens++ == 0) is_pointer = 0 }
            if (t == "*" && before == "(" && parens == 1) is_pointer = 1
            if (t == ")") parens--
            if (t == "{") depth++
            if (t == "}") { if (--depth == 0) is_enum = 0 }
            if (depth == 0 && parens == 0 && (t == "=" || t == ")")) skip = 1 # in an initializer, or after parameters
            if (depth == 0 && parens == 0 && (t == ";" || (t == "}" && skip))) skip = 0
            earlier = before; before = t
        }
        /^# [0-9]+ "/ { here = substr($3, 2, length($3) - 2); sub(/^\.\//, "", here)
            inside = here == header || here == "examples/translate/" header || here == "tools/common/" header; next }
        inside && /^#define / { name = $2; sub(/\(.*/, "", name); print name; next }
        /^#/ || !inside { next }
        { gsub(/"(\\.|[^"\\])*"/, "0"); gsub(/\047(\\.|[^\047\\])+\047/, "0")
          while (match($0, /[A-Za-z_][A-Za-z_0-9]*|[^A-Za-z_ \t]/)) {
              token(substr($0, RSTART, RLENGTH)); $0 = substr($0, RSTART + RLENGTH) } }
    ' $unit.i | sort -u
}
# Prints the header and the prefixes of each row of the tables, as a regular expression.
rows() {
    sed -n 's/^| `\([a-z0-9_\/]*\.h\)` | \(`[a-z0-9_`, ]*`\) | .*/\1 \2/p' $readme | sed 's/`, `/|/g; s/`//g'
}
rows > $unit.rows
check "the tables have all headers of text/" "$(cd examples/translate && ls text/*.h)" "$(sed -n 's/^\(text\/[^ ]*\) .*/\1/p' $unit.rows | sort)"
check "the tables have the other headers" 16 "$(grep -vc '^text/' $unit.rows)"
while read -r header prefixes; do
    file=$header
    [ -e "$file" ] || file=examples/translate/$header
    declared "$file" > $unit.list || echo "$file cannot be read" > $unit.list
    capitals=$(echo "$prefixes" | tr '[:lower:]' '[:upper:]')
    check "$file: only names with $prefixes" "" "$(grep -vE "^($prefixes|$capitals)" $unit.list | tr '\n' ' ')"
    check "  and some of them" yes "$([ "$(wc -l < $unit.list)" -gt 1 ] && echo yes)"
done < $unit.rows
# Names of each kind are found in a header that has no prefix.
cat > ${unit}_bad.h << 'END'
#ifndef BAD_GUARD
#define BAD_GUARD
#define BAD_MACRO(x) ((x) + 1)
enum { BAD_ONE = 1, BAD_TWO };
typedef enum bad_enum { BAD_THREE } bad_enum_type;
typedef struct bad_tag { int inside, more; } bad_type;
typedef int (*bad_pointer)(int argument, void *other);
struct bad_forward;
static const int bad_table[] = {1, 2}, bad_second = 3;
static int bad_function(int parameter) { int local = parameter; enum { INNER }; return local + INNER; }
static inline void bad_inline(bad_type *x) { x->inside = bad_table[0] + bad_second; }
#endif
END
check "names of each kind are found" "BAD_GUARD BAD_MACRO BAD_ONE BAD_THREE BAD_TWO bad_enum bad_enum_type bad_forward \
bad_function bad_inline bad_pointer bad_second bad_table bad_tag bad_type " "$(declared ${unit}_bad.h | LC_ALL=C sort | tr '\n' ' ')"
# The symbols of an object file with all headers of text/, one of which includes target_ends.h. name.1 is a variable in a function; _Z begins names of C++.
if command -v nm > /dev/null; then
    for file in examples/translate/text/*.h; do echo "#include \"$file\""; done > $unit.c
    ${CC:-cc} -I. -O0 -w -c $unit.c -o $unit.o
    allowed=$(sed -n 's/^text\/[^ ]* //p; s/^target_ends.h //p' $unit.rows | tr '\n' '|' | sed 's/|$//')
    check "nm: local symbols have these prefixes, too" "" "$(nm $unit.o | awk '$2 ~ /^[tTdDbBrRvVwW]$/ { print $3 }' |
        grep -vE "^_?($allowed|\.|L|ltmp|_?Z)|\.[0-9]+$" | tr '\n' ' ')"
    check "  and none of them is for the linker" "" "$(nm -g --defined-only $unit.o)"
else skip 2 "no nm, which lists symbols"; fi
counts test_names
