# kept.sh: the results of rows that need not run again. .ci/run sources it.
# A row is kept if it passed before and everything that it reads is the same: each file of the tree that the row read,
# the names of all files of the tree, ../shared, .ci itself, the CPU, and the versions of the row's tools and packages.
# Which files a row reads is measured, not declared: before the row all files of its copy get an old access time, and the
# file system sets a new one when a file is read. Where it does not (mounted noatime), no row is kept.
# Results are in the folder $kept, which may be absent or deleted at any time.
kept=${XDG_CACHE_HOME:-$HOME/.cache}/transformer.h/rows
left_out=$kept/left_out
never=
declare -A uses_of
export PYTHONDONTWRITEBYTECODE=1 # Python would read a file of bytecode, and not the source

tree() { find . \( -path ./build -o -name __pycache__ \) -prune -o "$@"; }

# Prints the files of this copy that were read since kept_unread.
kept_reads() { tree -type f -newerat '1 day ago' -print; }
kept_unread() {
    find . -name __pycache__ -prune -exec rm -rf {} +
    tree -type f -print0 | xargs -0 touch -a -d '2000-01-01'
    rm -f "$PWD.also"
}
# Adds the files that were read to build what this row copies.
kept_also() { cat "$work/reads.$1" >> "$PWD.also"; }

# Sums of the whole tree, once for a run: in copy 0, where no row writes.
kept_begin() {
    mkdir -p "$kept" && cd "$work/0" || return 1
    kept_unread
    cat LICENSE > /dev/null
    [ "$(kept_reads)" = ./LICENSE ] || fresh=1 never=1
    tree -type f -print0 | sort -z | xargs -0 sha1sum > "$work/sums"
    {
        tree -type f -print | sort
        cat .ci/*
        sed -n '/^model name\|^flags\|^Features/p' /proc/cpuinfo | sort -u
        [ ! -d ../shared ] || (cd ../shared && find . -type f -print0 | sort -z | xargs -0 sha1sum)
    } | sha1sum > "$work/same"
    cd - > /dev/null
}
# Prints what must be the same beside the files: the versions of compilers and of what a row's "uses" names.
kept_key() {
    local one environments=() packages=(bash binutils clang coreutils dash gcc g++ gawk git grep gzip libc6 libc6-dev make mawk
        python3 sed tar valgrind "gcc-$version" "g++-$version" "clang-$clang" "libclang-rt-$clang-dev" "libgcc-$version-dev")
    for one in ${uses_of[$1]}; do
        one=${one%:*}
        case $one in
        @for-markup) environments+=("$(dirname "$oracles")/../../lxml") ;;
        @release-tools) environments+=("$(dirname "$oracles")/../../release") ;;
        @*) one=${one#@} && environments+=("$(dirname "$oracles")/../../${one#for-}") ;;
        *) packages+=("$one") ;;
        esac
    done
    {
        echo "$1"
        cat "$work/same"
        dpkg-query -W "${packages[@]}" 2> /dev/null
        python3 -VV
        [ ${#environments[@]} -eq 0 ] || { cat "$work/0"/tools/*.txt; find "${environments[@]}" -name '*.dist-info' 2> /dev/null | sort; }
    } | sha1sum
}
kept_file() { echo "$kept/$(sha1sum <<< "$1" | cut -c 1-16)"; }
# Keeps a row that has passed: its key, its counts, the sums of the files that it read, and the file of what it said.
kept_save() {
    [ -z "$never" ] || return 0
    local file
    file=$(kept_file "$1")
    {
        kept_key "$1"
        echo "$2"
        { kept_reads; cat "$PWD.also" 2> /dev/null || :; } | sort -u | awk 'NR == FNR { read["  " $0] = 1; next } substr($0, 41) in read' - "$work/sums"
    } > "$file.$BASHPID" && cp "$3" "$file.said" && mv "$file.$BASHPID" "$file"
}
# Returns whether a row is kept, and prints its counts.
kept_known() {
    local file
    file=$(kept_file "$1")
    [ -z "$fresh" ] && [ -s "$file" ] && [ "$(head -n 1 "$file")" = "$(kept_key "$1")" ] || return 1
    [ -z "$(tail -n +3 "$file" | grep -vxFf "$work/sums")" ] && sed -n 2p "$file"
}
