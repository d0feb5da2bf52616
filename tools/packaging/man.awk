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
    does = name ~ /transcribe$/ ? "writes what is spoken in a sound file" : "translates one sentence per line with an encoder-decoder Transformer"
    printf ".SH NAME\n%s \\- %s\n", roff(name), does
    program = name
    sub(/.*-/, "", program)
}
# The line that shows the arguments: the first, after "usage:", or one that begins with the program's name.
!usage && ($0 ~ /^usage: / || $1 == program) {
    sub(/^(usage: | +)[^ ]+/, "")
    printf ".SH SYNOPSIS\n.B %s\n%s\n.SH DESCRIPTION\n%s", roff(name), roff(substr($0, 2)), before
    usage = 1
    told = before != ""
    next
}
!usage { if ($0 != "") before = before roff($0) "\n"; next }
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
    gsub(program " ", name " ")
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
