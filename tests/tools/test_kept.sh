# Tests .ci/kept.sh, which decides which rows of CI need not run again: a row that passed is kept until something that it
# reads changes. Each kind of input is changed once.
. tests/check.sh
dir=$PWD/build/test_kept
rm -rf "$dir"
mkdir -p "$dir/work/0" "$dir/cache" "$dir/oracles/bin" "$dir/server/lib/x-1.dist-info" "$dir/shared"
cat > "$dir/script" << 'END'
set -o pipefail
work=$1 fresh=$2 version=12 clang=14 oracles=${1%/work}/oracles/bin/python
cd "$work/0" || exit 1
. "$KEPT"
uses_of["a row"]="sqlite3 @for-server"
# the row itself: it reads one file, and a file that another row has read for it
a_row() { cat read.c read.py > /dev/null; kept_also other; }
dpkg-query() { cat "${work%/work}/packages"; }
kept_begin
[ "$3" != never ] || never=1
if counts=$(kept_known "a row"); then
    echo "kept $counts"
else
    kept_unread
    cat by-another.h > /dev/null
    kept_reads > "$work/reads.other"
    kept_unread
    a_row
    echo said > said
    kept_save "a row" "7 0 1" said
    rm said
    echo ran
fi
END
tree() { # a tree of files, the same each time
    rm -rf "$dir/work/0"
    mkdir -p "$dir/work/0/.ci" "$dir/work/0/tools"
    for file in LICENSE read.c read.py by-another.h not-read.md tools/requirements.txt .ci/run; do echo "$file" > "$dir/work/0/$file"; done
    echo "gcc 12" > "$dir/packages"
}
kept=$PWD/.ci/kept.sh
run() { XDG_CACHE_HOME=$dir/cache KEPT=$kept bash "$dir/script" "$dir/work" "$@" 2>&1; }
# Whether access times work here as kept.sh needs them
access_times() { touch -a -d 2000-01-01 "$1" && cat "$1" > /dev/null && [ -n "$(find "$1" -newerat "1 day ago" -print)" ]; }
if ! { bash -c 'declare -A a' && sha1sum /dev/null && python3 -VV && access_times "$dir/script"; } > /dev/null 2>&1; then
    skip 14 "bash, GNU's touch and find, and a file system with access times"
    counts test_kept
    exit
fi
tree
check "the first run of a row" ran "$(run)"
check "the same inputs" "kept 7 0 1" "$(run)"
echo changed > "$dir/work/0/not-read.md"
check "a file that the row does not read" "kept 7 0 1" "$(run)"
again() { # name: a change was made; the row must run, and then be kept
    check "$1" "ran, kept 7 0 1" "$(run), $(run)"
    tree
    run > /dev/null
}
echo changed > "$dir/work/0/read.c"; again "a source that it reads"
echo changed > "$dir/work/0/read.py"; again "a file of Python that it reads"
echo changed > "$dir/work/0/by-another.h"; again "a file that another row has read for it"
rm "$dir/work/0/not-read.md"; again "a file that is gone"
echo new > "$dir/work/0/new.h"; again "a new file"
echo changed > "$dir/work/0/.ci/run"; again "the rows themselves"
echo "gcc 13" > "$dir/packages"; again "the version of a tool"
echo changed > "$dir/work/0/tools/requirements.txt"; again "the requirements of its Python"
mv "$dir/server/lib/x-1.dist-info" "$dir/server/lib/x-2.dist-info"
again "a package of its Python"
check "--fresh" ran "$(run 1)"
check "a file system without access times" "ran, ran" "$(rm -rf "$dir/cache/transformer.h/rows"; run "" never), $(run "" never)"
counts test_kept
