# Makes what a shell completes from a program's --help, which options.h prints from the program's table of options:
#     translate --help | awk -v shell=bash -v name=translate -f complete.awk     (shell: bash, zsh or fish)

# Quotes a text for the shell.
function quoted(text) {
    if (shell == "fish") gsub(/[\\']/, "\\\\&", text)
    else gsub(/'/, "'\\''", text)
    return "'" text "'"
}
# Returns the words that the value of an option may be, if its help lists them: "text (default), srt, vtt or json: ...".
function words_of(text) {
    gsub(/ *\([^)]*\)/, "", text)
    sub(/:.*/, "", text)
    gsub(/,? or |, */, " ", text)
    return text
}
function option_ended() {
    if (!long) return
    n++
    longs[n] = long; letters[n] = letter; values[n] = value; optional[n] = choice; helps[n] = help
    words[n] = value ~ /^(TASK|FORM|TYPE|KIND|WORD)$/ ? words_of(help) : ""
    long = ""
}
/^  -/ {
    option_ended()
    match($0, /^  -[a-zA-Z0-9-]+(, --[a-z0-9-]+)?(\[=[a-z]+\])?( [A-Z]+)? */)
    help = substr($0, RLENGTH + 1)
    long = substr($0, 3, RLENGTH - 2)
    letter = value = choice = ""
    sub(/ +$/, "", long)
    if (match(long, / [A-Z]+$/)) { value = substr(long, RSTART + 1); long = substr(long, 1, RSTART - 1) }
    if (match(long, /\[=.*\]$/)) { choice = substr(long, RSTART + 2, RLENGTH - 3); long = substr(long, 1, RSTART - 1) }
    if (match(long, /^-., /)) { letter = substr(long, 1, 2); long = substr(long, 5) }
    next
}
{ option_ended() }
END {
    option_ended()
    if (shell == "bash") bash()
    else if (shell == "zsh") zsh()
    else fish()
}
function bash(   i, call, names, none) {
    call = "_" name
    gsub(/-/, "_", call)
    print "# Completes the options of " name ", and file names."
    print call "() {"
    print "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words="
    print "    case $before in"
    for (i = 1; i <= n; i++) {
        names = names " " longs[i] (letters[i] ? " " letters[i] : "") (optional[i] ? " " longs[i] "=" optional[i] : "")
        if (!values[i] || values[i] == "FILE") continue
        if (words[i]) print "    " longs[i] ") words='" words[i] "' ;;"
        else none = none (none ? " | " : "") (letters[i] ? letters[i] " | " : "") longs[i]
    }
    print "    " none ") return ;; # a number or another value that nobody can guess"
    print "    *) [[ $word != -* ]] || words='" substr(names, 2) "' ;;"
    print "    esac"
    print "    if [[ $words ]]; then mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")"
    print "    else mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); fi"
    print "}"
    print "complete -o filenames -F " call " " name
}
function zsh(   i, text, after, spec) {
    print "#compdef " name
    print "# Completes the options of " name ", and file names."
    print "_arguments -s -S \\"
    for (i = 1; i <= n; i++) {
        text = helps[i]
        gsub(/[\\\[\]:]/, "\\\\&", text)
        after = ""
        if (values[i]) after = ":" values[i] ":" (values[i] == "FILE" ? "_files" : words[i] ? "(" words[i] ")" : " ")
        else if (optional[i]) after = "::" optional[i] ":(" optional[i] ")"
        spec = "[" text "]" after
        if (letters[i]) print "    '(" letters[i] " " longs[i] ")'{" letters[i] "+," longs[i] "}" quoted(spec) " \\"
        else print "    " quoted(longs[i] (optional[i] ? "=-" : "") spec) " \\"
    }
    print "    '*:file:_files'"
}
function fish(   i) {
    print "# Completes the options of " name ", and file names."
    for (i = 1; i <= n; i++)
        print "complete -c " name (letters[i] ? " -s " substr(letters[i], 2) : "") " -l " substr(longs[i], 3) \
            (!values[i] ? "" : values[i] == "FILE" ? " -r -F" : words[i] ? " -x -a " quoted(words[i]) : " -x") " -d " quoted(helps[i])
    for (i = 1; i <= n; i++)
        if (optional[i]) print "complete -c " name " -l " quoted(substr(longs[i], 3) "=" optional[i]) " -d " quoted(helps[i])
}
