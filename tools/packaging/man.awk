# Makes a man page from a program's --help:
#     transformer-translate --help | awk -v name=transformer-translate -v version=0.7.0 -f man.awk

# Escapes text for roff: a backslash, a hyphen, and a dot or quote at the beginning of a line have a meaning there.
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    sub(/^[.']/, "\\\\\\&&", text)
    return text
}
BEGIN {
    printf ".TH %s 1 \"\" \"transformer.h %s\"\n", toupper(name), version
    printf ".SH NAME\n%s \\- translates one sentence per line with an encoder-decoder Transformer\n", roff(name)
}
/^usage: / {
    sub(/^usage: [^ ]+/, "")
    printf ".SH SYNOPSIS\n.B %s\n%s\n.SH DESCRIPTION\n", roff(name), roff(substr($0, 2))
    next
}
/^Exit status: / { sub(/^Exit status: /, ""); print ".SH EXIT STATUS" }
/^[a-z][a-z ]*$/ && blank { printf ".SS %s%s\n", toupper(substr($0, 1, 1)), substr($0, 2); blank = 0; next }
/^$/ { if (shown) print ".fi"; shown = 0; blank = 1; next }
/^  -/ {
    match($0, /^  -[a-zA-Z0-9-]+(, --[a-z-]+)?(\[=[a-z]+\])?( [A-Z]+)? */)
    option = substr($0, 3, RLENGTH - 2)
    sub(/ +$/, "", option)
    printf ".TP\n.B %s\n%s\n", roff(option), roff(substr($0, RLENGTH + 1))
    blank = 0
    next
}
/^    [^ ]/ { # an example
    if (!shown) print ".nf"
    sub(/^ +/, "")
    gsub(/translate /, name " ")
    print roff($0)
    shown = 1
    next
}
{
    if (blank && told) print ".PP"
    sub(/^ +/, "")
    print roff($0)
    blank = 0
    told = 1
}
END {
    print ".SH SEE ALSO\nThe manual is the comment at the top of transformer.h."
}
