# Texts with texts.h (test_paragraph MODEL reads lines) are those of the program translate: the lines of data/texts-*.txt
# have what people write around sentences. SQLite, the phones and the page use texts.h or paragraph.h.
. tests/check.sh
translate=build/translate texts=build/test_paragraph dir=build/test_texts
mkdir -p $dir
for model in de zh; do
    file=examples/models/$model-en.safetensors
    if [ ! -f $file ]; then skip 6 "no $file"; continue; fi
    in=tests/data/texts-$model.txt
    check "$model: lines to compare" yes "$([ "$(wc -l < $in)" -gt 60 ] && echo yes)"
    $translate $file < $in > $dir/expected 2> $dir/err
    $texts $file < $in > $dir/out
    check "  lines are those of translate" "0 " "$? $(cmp $dir/expected $dir/out 2>&1)"
    $texts $file 3 < $in > $dir/out
    check "  with three threads" "0 " "$? $(cmp $dir/expected $dir/out 2>&1)"
    $translate $file --plain < $in > $dir/plain 2> $dir/err
    next=$(printf '\302\205') # lines from here on have other breaks in them, which translate replaces in its output
    LC_ALL=C sed "/$next/,\$d" $in > $dir/in
    $texts $file 1 plain < $dir/in > $dir/out
    $translate $file --plain < $dir/in > $dir/expected 2> $dir/err
    check "  plain ones, too" "0 " "$? $(cmp $dir/expected $dir/out 2>&1)"
    check "    and most lines are not plain" yes "$([ "$($texts $file < $in | cmp -l - $dir/plain 2>&1 | wc -l)" -gt 60 ] && echo yes)"
    check "  a line that is not UTF-8 is empty, and the others are not" "0 1" \
        "$(printf 'x\377y\nA.\n' | $texts $file 2> $dir/err | awk 'NR == 1 { printf "%d ", length($0) } NR == 2 { print (length($0) > 0) }')"
done
counts test_texts
