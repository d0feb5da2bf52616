# private.awk: writes transformer.h as the tests compile it. The tests reach its private functions, and the library is
# compiled once for all of them (tests/tested.c).
#     awk -v write=object -f tests/private.awk transformer.h         no private function is static
#     awk -v write=transformer -f tests/private.awk transformer.h    each such function is only declared
# Everything else stays as it is: types, macros, tables and inline functions. Each line keeps its number.
# The declarations end where the vector kernels begin, which no test but test_kernels.c calls.
BEGIN {
    if (write == "object") print "#line 1 \"transformer.h\""
    else print "#pragma GCC system_header /* no warnings: the object file has them */\n#include \"hooks.h\"\n#line 1"
}
/^#define TFM__IMPLEMENTED/ { inside = 1 }
/^\/\* >>vectors/ && write == "transformer" { cut = 1 }
/^#endif \/\* TRANSFORMER_IMPLEMENTATION/ { cut = inside = 0 }
cut { print ""; next }
!inside { print; next }
# The rest of a body that is left out
skipping {
    print ""
    if (/^}/) skipping = 0
    next
}
# The public function of a macro (TFM__ENUM), whose body has one line
inside && write == "transformer" && /^ +TFM_DEF .*{ *\\$/ {
    sub(/ *{ *\\$/, ";")
    print $0 "\n"
    getline
    getline
    print ""
    next
}
# A function begins: its signature may go on over several lines.
signature == "" && /^(TFM__[A-Z0-9_]+ )*static / && !/TFM__INLINE/ && /\(/ && !/=/ {
    sub(/static /, "")
    signature = "private"
}
signature == "" && /^TFM_DEF / { signature = "public" }
signature != "" {
    done = /[;{}]( *\/\*.*\*\/)?$/
    if (write == "transformer" && done && !/;( *\/\*.*\*\/)?$/) {
        skipping = !/}$/
        sub(/ *{.*$/, ";")
    }
    print write == "object" || signature == "private" ? $0 : "" # a public function is declared further up
    if (done) signature = ""
    next
}
{ print }
