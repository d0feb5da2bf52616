# Completes arguments of transformer-translate in bash: options that --help lists, or file names.
_transformer_translate() {
    local word=${COMP_WORDS[COMP_CWORD]} options
    if [[ $word == -* ]]; then
        options=$("${COMP_WORDS[0]}" --help 2> /dev/null | grep -oE '^  -[a-z-]+(, --[a-z-]+)?' | tr -d ,)
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _transformer_translate transformer-translate
