# Checks the variables of make: each that is used is set, and none is set that nothing uses. Those that only a caller of
# make gives (V, RUN, LOAD ...) are in the list `given`.
. tests/check.sh
files="Makefile $(sed -n 's/^include //p' Makefile)"
# shellcheck disable=SC2086
sed 's/\\$//' $files > build/make_names.txt
set_names=$(grep -hoE '^([^#	=]*: *)?(export )?[A-Z][A-Z_]* *[?+:]?=' build/make_names.txt | sed 's/.*: *//; s/export //; s/ *[?+:]*=$//' | sort -u)
used=$(grep -v '^#' build/make_names.txt | grep -oE '\$\(([A-Z][A-Z_]*)' | tr -d '$(' | sort -u)
given="V RUN LOAD DESTDIR HOME MAKE MAKEFILE_LIST AR XDG_CACHE_HOME BLAS WEB_TESTS ALL ONLY RUNS SLICE"
check "each variable that is used is set, or may be given" "" "$(for name in $used; do
    case " $given $(echo "$set_names" | tr '\n' ' ')" in *" $name "*) ;; *) echo "$name" ;; esac; done | tr '\n' ' ')"
check "each variable that is set is used" "" "$(for name in $set_names; do
    case " MAKEFLAGS ASAN_OPTIONS $(echo "$used" | tr '\n' ' ')" in *" $name "*) ;; *) echo "$name" ;; esac; done | tr '\n' ' ')"
check "the Makefile has at most 110 lines" yes "$([ "$(wc -l < Makefile)" -le 110 ] && echo yes)"
check "no variable is called a room" "" "$(echo "$set_names" | grep -E 'ROOM|WHOLE|SHARING|EXACT' | tr '\n' ' ')"
counts test_make_names
