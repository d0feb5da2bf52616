# sections.awk: prints each use of a name in a section of transformer.h that comes before the section that defines the
# name, as "SECTION line N: NAME of SECTION".
#     awk -f tests/library/sections.awk transformer.h transformer.h        (the first time to find what defines each name)
# A declaration is a use. A struct that a section only names (typedef struct a a;) is defined by that: it knows no more
# of it than that there may be a pointer to it.
# The vector kernels are a template that stands last. >>kernels reaches it by two functions, which it declares.
BEGIN { door["kernels tfm__cpu_has"] = door["kernels tfm__kernel_set"] = 1 }
# Returns the line without comments and strings. inside_comment is kept from line to line.
function code(line,    out, at) {
    out = ""
    while (line != "") {
        if (inside_comment) {
            if (!(at = index(line, "*/"))) return out
            line = substr(line, at + 2)
            inside_comment = 0
        } else if (match(line, /\/\*|"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/)) {
            out = out substr(line, 1, RSTART - 1) " "
            inside_comment = substr(line, RSTART, 2) == "/*"
            line = substr(line, RSTART + RLENGTH)
        } else {
            out = out line
            line = ""
        }
    }
    sub(/ +$/, "", out)
    return out
}
function define(name) {
    if (name ~ /^(tfm_|TFM__)/ && !(name in home)) home[name] = section
}
# Defines what a statement defines, which begins in the first column.
function statement(s,    parts, n, i) {
    if (s ~ /^(typedef )?enum/) {
        n = split(s, parts, /[{,]/)
        for (i = 2; i <= n; i++) if (match(parts[i], /TFM_[A-Z0-9_]+/)) define(substr(parts[i], RSTART, RLENGTH))
    } else if (s ~ /^(typedef )?(struct|union) /) {
        n = split(s, parts, /[ ;{]+/)
        define(parts[s ~ /^typedef/ ? 3 : 2])
    } else if (s ~ /^typedef /) {
        if (match(s, /\(\*tfm_[a-z0-9_]+/)) define(substr(s, RSTART + 2, RLENGTH - 2))
    } else if (match(s, /tfm_[a-z0-9_]+\(/) && !index(substr(s, 1, RSTART), "=")) {
        if (s ~ /[{]$/ || s ~ /[{].*[}]$/) define(substr(s, RSTART, RLENGTH - 1))
    } else {
        while (match(s, /tfm_[a-z0-9_]+(\[[^=]*)? =/)) {
            n = substr(s, RSTART, RLENGTH)
            s = substr(s, RSTART + RLENGTH)
            sub(/[[ ].*/, "", n)
            define(n)
        }
    }
}
FNR == 1 {
    pass++
    section = begun = inside_comment = inside = 0
}
/^#define TFM__IMPLEMENTED/ { inside = 1 }
inside && /^\/\* >>[a-z0-9-]+ / {
    name = substr($2, 3)
    titles[++section] = name
}
{ line = code($0) }
!section { next }
pass == 1 {
    if (line ~ /^#define TFM__/) {
        name = line
        sub(/^#define /, "", name)
        sub(/[^A-Za-z0-9_].*/, "", name)
        define(name)
    }
    if (line ~ /^} tfm_[a-z0-9_]+;/) define(substr(line, 3, length(line) - 3))
    if (!begun && line ~ /^((TFM__[A-Z0-9_]+ )*static|TFM_DEF|typedef|struct|union|enum) /) {
        begun = 1
        whole = ""
    }
    if (begun) {
        whole = whole line
        if (line ~ /[;{}]$/ && (whole !~ /^(typedef )?enum/ || line ~ /}/)) {
            statement(whole)
            begun = 0
        }
    }
}
pass == 2 {
    while (match(line, /(tfm_|TFM__)[A-Za-z0-9_]+/)) {
        name = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (name in home && home[name] > section && !((titles[section] " " name) in door))
            print titles[section] " line " FNR ": " name " of " titles[home[name]]
    }
}
END {
    for (name in home) n_names++
    if (n_names < 1000) print "only " n_names + 0 " names were found"
}
