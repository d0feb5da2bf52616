# The command-line translator: outputs, order, faults, exit statuses. Uses the toy model; and the shipped
# model where it can be judged without knowing its weights.
passed=0 failed=0
translate=build/translate toy=tests/data/models/toy.safetensors zh=examples/models/zh-en.safetensors
dir=build/test_translate
mkdir -p $dir
check() { # message, expected, got
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); echo "    ok   $1"
    else failed=$((failed + 1)); printf '    FAIL %s\n      expected: %s\n      got:      %s\n' "$1" "$2" "$3"; fi
}
run() { # exit status of the translator: standard output and error in files
    "$translate" "$@" > $dir/out 2> $dir/err
    echo $?
}
printf '我是学生\n\n我喜欢学习\n   \n我是男生' > $dir/in
printf 'I am a student\n\nI like learning\n\nI am a boy\n' > $dir/expected
for batch in 1 2 3 16; do
    check "batch $batch: exit status" 0 "$(run $toy --batch $batch < $dir/in)"
    check "batch $batch: blank lines kept, order kept, a last line without newline" "" "$(cmp $dir/expected $dir/out 2>&1)"
done
check "--tokens" "0 I am a student" "$(echo '我 是 学 生' | run $toy --tokens) $(cat $dir/out)"
check "carriage returns are white space" "0 I am a boy" "$(printf '我是男生\r\n' | run $toy) $(cat $dir/out)"
check "--max-length 2" "0 I am" "$(echo 我是男生 | run $toy --max-length 2) $(cat $dir/out)"
check "  and it says so" "translate: line 1: stopped at its limit of 2 tokens" "$(cat $dir/err)"
echo 我是学生 | run $toy --scores > /dev/null
check "--scores" "I am a student" "$(sed -n 's/^-[0-9]*\.[0-9]*	//p' $dir/out)"

check "--to, and a model without languages" "2 translate: the model has no languages, so not 'fra'" \
    "$(echo 我 | run $toy --to fra) $(cat $dir/err)"
check "--max-source 4: a longer line is an error with both numbers" "1 translate: line 1: 5 tokens, the limit is 4 (--max-source)" \
    "$(echo 我喜欢学习 | run $toy --max-source 4) $(cat $dir/err)"
# lines so long that a whole batch of them would not go together, among short ones
awk 'BEGIN { for (i = 0; i < 40; i++) { n = i % 4 ? 4 : 700; s = ""; for (j = 0; j < n; j++) s = s "我"; print s } }' > $dir/in
check "long lines in a batch of 16" 0 "$(run $toy --max-length 5 < $dir/in)"
cp $dir/out $dir/expected
check "  and one by one" 0 "$(run $toy --max-length 5 --batch 1 < $dir/in)"
check "  give the same" "" "$(cmp $dir/expected $dir/out 2>&1)"

printf '我是学生\n\377\n我是男生\n我X\n' > $dir/in
check "faulty lines: exit status 1" 1 "$(run $toy < $dir/in)"
check "  their output is empty, the others stay" "$(printf 'I am a student\n\nI am a boy\n')" "$(cat $dir/out)"
check "  four lines all the same" 4 "$(wc -l < $dir/out | tr -d ' ')"
check "  each named on standard error" "translate: line 2: text is not UTF-8 at byte 0
translate: line 4: the token before byte 4 is not in src_vocabulary, and the model has no src_unk" "$(cat $dir/err)"

check "an empty input" 0 "$(run $toy < /dev/null)"
check "  gives an empty output" "" "$(cat $dir/out)"
check "no model: exit status 2" 2 "$(run < /dev/null)"
check "a model that is not there" "2 translate: nowhere: nowhere: cannot be opened" "$(run nowhere < /dev/null) $(cat $dir/err)"
check "a file that is no model" 2 "$(run README.md < /dev/null)"
check "an unknown option" "2 translate: unknown option '--bach' (--help lists them)" "$(run $toy --bach 3 < /dev/null) $(cat $dir/err)"
check "a number that is none" "2 translate: --batch takes a number from 1 to 1000000, not '3x'" "$(run $toy --batch 3x < /dev/null) $(cat $dir/err)"
check "a number that is missing" 2 "$(run $toy --batch < /dev/null)"
check "--help" "0 usage: translate MODEL [options] < in > out" "$(run --help) $(head -n 1 $dir/out)"
check "--version" 0 "$(run --version)"
if [ -e /dev/full ]; then
    echo 我是学生 | "$translate" $toy > /dev/full 2> $dir/err
    check "a full disk: exit status 2" 2 $?
fi
# 3,000 lines through many windows: line n of the output belongs to line n of the input
awk 'BEGIN { for (i = 0; i < 3000; i++) print i % 3 == 0 ? "我是学生" : i % 3 == 1 ? "我喜欢学习" : "" }' > $dir/in
awk 'BEGIN { for (i = 0; i < 3000; i++) print i % 3 == 0 ? "I am a student" : i % 3 == 1 ? "I like learning" : "" }' > $dir/expected
check "3,000 lines" 0 "$(run $toy < $dir/in)"
check "  in order" "" "$(cmp $dir/expected $dir/out 2>&1)"

if [ -f $zh ]; then
    check "the shipped model is at most 12 MB" 1 "$(( $(wc -c < $zh) <= 12000000 ))"
    check "  translates the demo" 0 "$(run $zh --batch 1 --scores < examples/demo.txt)"
    cp $dir/out $dir/expected
    check "  in batches" 0 "$(run $zh --batch 7 --scores < examples/demo.txt)"
    check "  to the same texts and scores" "" "$(cmp $dir/expected $dir/out 2>&1)"
    check "  as many lines as it was given" "$(wc -l < examples/demo.txt)" "$(wc -l < $dir/out)"
    check "hello" "$(echo '我是学生。' | "$translate" $zh)" "$(build/hello)"
fi
build/modules > $dir/out
check "modules prints the shapes of document 000's attention test" "output     [4, 10, 128] weights    [4, 8, 10, 10]" \
    "$(grep -E '^(output|weights)' $dir/out | tr '\n' ' ' | sed 's/ $//')"
echo "test_translate: $passed passed, $failed failed"
[ $failed -eq 0 ]
