# The command-line translator: outputs, order, faults, exit statuses. The test uses the toy model, and the
# shipped models for checks that hold for any weights.
. tests/check.sh
translate=build/translate toy=tests/data/models/toy.safetensors zh=examples/models/zh-en.safetensors
dir=build/test_translate
mkdir -p $dir
run() { # Prints the exit status of the translator. Its standard output and error are in files.
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
check "carriage returns are whitespace" "0 I am a boy" "$(printf '我是男生\r\n' | run $toy) $(cat $dir/out)"
check "--max-length 2" "0 I am" "$(echo 我是男生 | run $toy --max-length 2) $(cat $dir/out)"
check "  and it says so" "translate: line 1: stopped at its limit of 2 tokens" "$(cat $dir/err)"
echo 我是学生 | run $toy --scores > /dev/null
check "--scores" "I am a student" "$(sed -n 's/^-[0-9]*\.[0-9]*	//p' $dir/out)"

check "--to, and a model without languages" "2 translate: the model has no languages, so not 'fra'" \
    "$(echo 我 | run $toy --to fra) $(cat $dir/err)"
check "--max-source 4: a longer line is an error with both numbers" "1 translate: line 1: text has 5 tokens, there is room for 4 (--max-source)" \
    "$(echo 我喜欢学习 | run $toy --max-source 4) $(cat $dir/err)"
check "  --truncate: its first are translated, and it says so" "0 I like learning translate: line 1: of 5 tokens the last 1 are left out" \
    "$(echo 我喜欢学习 | run $toy --max-source 4 --truncate) $(cat $dir/out $dir/err | tr '\n' ' ' | sed 's/ $//')"
echo 我喜欢学 | run $toy > /dev/null; cp $dir/out $dir/expected
printf '我是男生\n我喜欢学习\n我喜欢学\n' | run $toy --truncate --max-source 4 > /dev/null
check "  as they alone are, among others that are whole" "1 " "$(grep -c . $dir/err) $(sed -n '2p;3p' $dir/out | uniq | cmp $dir/expected - 2>&1)"
# among short lines some that are too long for one batch
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
translate: line 4: \"X\" at byte 3 is not in src_vocabulary. Change the text, or set src_unk in the model's config: the id of unknown tokens" "$(cat $dir/err)"

check "an empty input" 0 "$(run $toy < /dev/null)"
check "  gives an empty output" "" "$(cat $dir/out)"
check "no model: exit status 2, a short usage with an example" "2 1 1" "$(run < /dev/null) $(( $(wc -l < $dir/err) <= 10 )) $(grep -c '^ *translate de-en .Guten' $dir/err)"
# files that are not UTF-8: a message says what they are and how to convert them
printf '我是学生\n我是男生\n' > $dir/utf8
for one in "UTF-16 UTF-16" "UTF-16LE UTF-16LE" "UTF-16BE UTF-16BE" "UTF-32 UTF-32LE"; do
    { echo 'I am'; cat $dir/utf8; } | iconv -f UTF-8 -t "${one% *}" > $dir/wide
    check "${one% *}: the command that converts it" "2 translate: $dir/wide is probably ${one#* } text, not UTF-8; convert it first: iconv -f ${one#* } -t UTF-8 $dir/wide > $dir/wide.utf8" \
        "$(run $toy $dir/wide --format lines) $(cat $dir/err)"
    check "  as --html too, and nothing is translated" "2 0" "$(run $toy $dir/wide --html) $(wc -c < $dir/out | tr -d ' ')"
done
check "  from standard input" "2 translate: the input is probably UTF-32LE text, not UTF-8; convert it first: iconv -f UTF-32LE -t UTF-8 FILE > FILE.utf8" "$(run $toy < $dir/wide) $(cat $dir/err)"
check "  as the file of --prefix" "2 translate: $dir/wide is probably UTF-32LE text" "$(run $toy --prefix $dir/wide < $dir/utf8) $(grep -o '.*text' $dir/err)"
printf 'Schöne Grüße\nÄhm, für mich\n' | iconv -f UTF-8 -t LATIN1 | run $zh > $dir/status
check "Latin-1: once" "1 3 translate: the input is probably Latin-1 or Windows-1252 text, not UTF-8; convert it first: iconv -f WINDOWS-1252 -t UTF-8 FILE > FILE.utf8" \
    "$(cat $dir/status) $(grep -c . $dir/err) $(grep iconv $dir/err)"
for one in "GB18030 我是学生，我喜欢学习。" "KOI8-R Я читаю книгу в парке."; do
    echo "${one#* }" | iconv -f UTF-8 -t "${one% *}" 2> /dev/null | run $zh > $dir/status
    check "${one%% *}: find out its encoding" "1 1" "$(cat $dir/status) $(grep -c 'find out its encoding.*iconv -f ENCODING' $dir/err)"
done
printf '我是学生\377我喜欢学习\n' | run $zh > $dir/status
check "a fault in UTF-8 is not another encoding" 0 "$(grep -c iconv $dir/err)"
for models in "$toy" "$toy $toy"; do
    check "--shortlist without a lexicon: ${models#* }" "2 translate: --shortlist: $toy has no lexicon. Leave the option out," \
        "$(run $models --shortlist < $dir/utf8) $(sed 's/out,.*/out,/' $dir/err)"
done
check "-o and -j" "0 I am a student|I am a boy|" "$(run $toy -j 2 $dir/utf8 -o $dir/short) $(tr '\n' '|' < $dir/short)"
check "  -j2, -j=2" "00" "$(run $toy -j2 < $dir/utf8)$(run $toy -j=2 < $dir/utf8)"
check "  -j with no number" "2 translate: --threads takes a number from 1 to 64, not '0'" "$(run $toy -j0 < $dir/utf8) $(cat $dir/err)"
check "  -output is not -o" "2 translate: unknown option '-output', did you mean --output? (--help lists all)" "$(run $toy -output $dir/short < $dir/utf8) $(cat $dir/err)"
for one in "--nbest --n-best" "--beam-size=4 --beam" "-hlep --help" "--theads --threads" "--docment --document" "--scoer --score"; do
    check "${one% *}: did you mean ${one#* }" "${one#* }" "$(run $toy ${one% *} < /dev/null > $dir/status; sed -n 's/.*did you mean \(.*\)?.*/\1/p' $dir/err)"
done
check "  nothing is similar" "2 translate: unknown option '--verbatim' (--help lists all)" "$(run $toy --verbatim < /dev/null) $(cat $dir/err)"
check "--progress: a summary, where there is no terminal" "0 2 lines in 0 seconds" "$(run $toy --progress < $dir/utf8) $(sed 's/[1-9] seconds/0 seconds/' $dir/err)"
check "  lines of progress" "0 1" "$({ head -n 1 $dir/utf8; sleep 4; sed 1d $dir/utf8; } | run $toy --progress) $(grep -cE '^(1 line|2 lines), 0.[0-9] a second$' $dir/err)"
check "  none by default" "0 " "$(run $toy < $dir/utf8) $(cat $dir/err)"
check "  --no-progress contradicts it" "2 translate: --no-progress and --progress do not go together" "$(run $toy --progress --no-progress < $dir/utf8) $(cat $dir/err)"
if script -qec true /dev/null > /dev/null 2>&1; then # a terminal
    wait_on() { script -qec "{ head -n 1 $dir/utf8; sleep 4; sed 1d $dir/utf8; } | build/translate $toy $1 -o $dir/out" /dev/null < /dev/null | grep -c 'lines in'; }
    check "  on a terminal with --output it is the default; --no-progress" "1 0" "$(wait_on) $(wait_on --no-progress)"
else skip 1 "no program script, which makes a terminal"; fi
check "a model that is not there: why" "2 translate: nowhere: no such file, and no model of that name in /data/transformer-h/models or beside the program" \
    "$(XDG_DATA_HOME=/data run nowhere < /dev/null) $(cat $dir/err)"
check "a directory as input: why" "2 translate: reading: Is a directory" "$(run $toy < tests) $(cat $dir/err)"
check "no standard input: the same" "2 translate: standard input is closed" "$(run $toy <&-) $(cat $dir/err)"
check "no standard output" "2 translate: standard output is closed" "$("$translate" $toy < /dev/null 2> $dir/err >&-; echo $?) $(cat $dir/err)"
check "a file that is no model" 2 "$(run README.md < /dev/null)"
check "an unknown option" "2 translate: unknown option '--bach', did you mean --batch? (--help lists all)" "$(run $toy --bach 3 < /dev/null) $(cat $dir/err)"
check "a number that is none" "2 translate: --batch takes a number from 1 to 1000000, not '3x'" "$(run $toy --batch 3x < /dev/null) $(cat $dir/err)"
check "a number that is missing" 2 "$(run $toy --batch < /dev/null)"
check "--help" "0 usage: translate MODEL [MODEL2.safetensors] [FILE ... | TEXT] [options] < in > out" "$(run --help) $(head -n 1 $dir/out)"
check "-h is the same" "0 " "$(cp $dir/out $dir/expected; run -h) $(cmp $dir/expected $dir/out 2>&1)"
check "--version" 0 "$(run --version)"
if [ -e /dev/full ]; then
    yes 我是学生 | timeout 60 "$translate" $toy > /dev/full 2> $dir/err
    check "a full disk ends it: exit status 2, and why" "2 translate: writing: No space left on device" "$? $(cat $dir/err)"
fi
# When the reader of the output exits, SIGPIPE ends the translator; where SIGPIPE is ignored, the failed write
# does.
check "| head -n 1 ends it, after whole lines" "I am a student" "$(yes 我是学生 | timeout 60 "$translate" $toy 2> $dir/err | head -n 1)"
(trap '' PIPE; yes 我是学生 | timeout 60 "$translate" $toy 2> $dir/err; echo $? > $dir/status) 2> /dev/null | head -n 1 > $dir/out
check "  without SIGPIPE: exit status 2, and why" "2 translate: writing: Broken pipe" "$(cat $dir/status) $(grep translate: $dir/err)"
# When the translator is interrupted, the finished lines must come out whole and in order, and no others.
env --default-signal=INT true 2> /dev/null && for signal in "TERM 143" "INT 130"; do
    awk 'BEGIN { for (i = 0; i < 100000; i++) print "我是学生" }' > $dir/in
    : > $dir/out
    timeout -s KILL 60 env --default-signal=${signal% *} sh -c 'echo $$ > '$dir'/pid; exec '"$translate $toy"' --batch 1 --min-length 200 --max-length 201' \
        < $dir/in > $dir/out 2> $dir/err &
    until [ "$(wc -l < $dir/out)" -gt 3 ] || ! kill -0 $! 2> /dev/null; do sleep 0.1; done
    kill -${signal% *} "$(cat $dir/pid)"; wait $! 2> /dev/null
    check "SIG${signal% *}: its exit status" "${signal#* }" $?
    check "  whole lines alone" "1 200" "$(awk '{ print NF }' $dir/out | sort -u | wc -l | tr -d ' ') $(head -n 1 $dir/out | wc -w | tr -d ' ')"
    check "  not all of them, and the last has its end" "yes 0" "$([ "$(wc -l < $dir/out)" -lt 100000 ] && echo yes) $(tail -c 1 $dir/out | tr -d '\n' | wc -c | tr -d ' ')"
done
# 3,000 lines through many windows: line n of the output must belong to line n of the input.
awk 'BEGIN { for (i = 0; i < 3000; i++) print i % 3 == 0 ? "我是学生" : i % 3 == 1 ? "我喜欢学习" : "" }' > $dir/in
awk 'BEGIN { for (i = 0; i < 3000; i++) print i % 3 == 0 ? "I am a student" : i % 3 == 1 ? "I like learning" : "" }' > $dir/expected
check "3,000 lines" 0 "$(run $toy < $dir/in)"
check "  in order" "" "$(cmp $dir/expected $dir/out 2>&1)"

# ---- search, sampling, prefixes, scoring, attention: on the toy model ----
printf '我是男生\n\n我喜欢学习\n' > $dir/in
check "--n-best 3: exit status" 0 "$(run $toy --n-best 3 --scores < $dir/in)"
check "  number, score, text; the first of each is what --beam gives" "1	I am a boy|2	|3	I like learning|" \
    "$(awk -F'\t' '!seen[$1]++ { printf "%s\t%s|", $1, $3 }' $dir/out)"
check "  lines of each number: N, and one for a blank line" "1:3 2:1 3:3" "$(awk -F'\t' '{ n[$1]++ } END { print "1:" n[1] " 2:" n[2] " 3:" n[3] }' $dir/out)"
check "  scores fall" "" "$(awk -F'\t' '$1 == last && $2 > score { print } { last = $1; score = $2 }' $dir/out)"
check "--beam 3 --n-best 3 is the same as --n-best 3" "" "$(cp $dir/out $dir/expected; run $toy --beam 3 --n-best 3 --scores < $dir/in | grep -v 0; cmp $dir/expected $dir/out 2>&1)"
check "--sample --top-k 1 is greedy" "0 I am a boy||I like learning|" "$(run $toy --sample --top-k 1 < $dir/in) $(tr '\n' '|' < $dir/out)"
check "--align: a pair for each target token, within the source" "0 I am a boy:4||I like learning:3|" \
    "$(run $toy --align < $dir/in) $(awk -F'\t' '$1 == "" { printf "|"; next } { n = split($2, pair, " "); good = 0
        for (i = 1; i <= n; i++) { split(pair[i], p, "-"); good += p[1] < 5 && p[2] == i - 1 } printf "%s:%d|", $1, good }' $dir/out)"
printf 'I like\n\n \n' > $dir/beside
check "--prefix: forced where a line has one" "0 I like||I like learning|" \
    "$(run $toy --prefix $dir/beside < $dir/in) $(sed 's/I like.*[a-z]/I like/; 3s/.*/I like learning/' $dir/out | tr '\n' '|')"
check "--prefix --tokens" "0 I like" "$(echo '我 是 男 生' > $dir/tokens; head -n 1 $dir/beside > $dir/one; run $toy --tokens --prefix $dir/one < $dir/tokens) $(cut -c 1-6 $dir/out)"
printf 'I fly\n\nI\n' > $dir/beside
check "--prefix: an unknown word is an error of its line" "1 ||I like learning|" "$(run $toy --prefix $dir/beside < $dir/in) $(tr '\n' '|' < $dir/out)"
check "  which is named" "translate: line 1: --prefix: \"fly\" at byte 2 is not in tgt_vocabulary. Change the text, or set tgt_unk in the model's config: the id of unknown tokens" "$(cat $dir/err)"
printf '\nI\n\n' > $dir/beside
check "--prefix of a blank line" "1 translate: line 2: blank, but its prefix is not" "$(run $toy --prefix $dir/beside < $dir/in) $(cat $dir/err)"
check "--alternatives 3: a line each, the likeliest the translation" "0 I am a boy|3|2" \
    "$(echo 我是男生 | run $toy --alternatives 3 --batch 1) $(sed -n '1s/^1	//p' $dir/out)|$(sort -u $dir/out | wc -l | tr -d ' ')|$(printf '\n我\n' | run $toy --alternatives 2 > $dir/status; grep -c '^2' $dir/out)"
check "  behind a prefix, with a beam: each goes on with another token" "0 2" \
    "$(head -n 1 $dir/in > $dir/single; run $toy --alternatives 2 --beam 2 --tokens --prefix $dir/one < $dir/tokens) $(cut -d ' ' -f 1-3 $dir/out | sort -u | grep -c '^1	I like')"
check "  with scores, behind the number" "0 1	-" "$(run $toy --alternatives 2 --scores < $dir/single) $(head -n 1 $dir/out | cut -c 1-3)"
check "--keep-end: with the end token" "0 I am a boy E" "$(run $toy --tokens --keep-end < $dir/tokens) $(cat $dir/out)"
check "  with as many scores as tokens" "0 5 5" "$(run $toy --tokens --keep-end --scores=tokens < $dir/tokens) $(awk -F'\t' '{ print split($2, a, " ") " " split($3, b, " ") }' $dir/out)"
check "  where there is one" "0 I am" "$(run $toy --tokens --keep-end --max-length 2 < $dir/tokens) $(cat $dir/out)"
printf 'I like learning\n\n\n' > $dir/beside
check "--prefix that leaves no room" "1 translate: line 1: --prefix: 3 tokens leave no room for another, the limit is 3" \
    "$(run $toy --prefix $dir/beside --max-length 3 < $dir/in) $(head -n 1 $dir/err)"
printf 'I\n' > $dir/beside
check "--prefix with fewer lines than the input" "2 translate: $dir/beside has fewer lines than the input" "$(run $toy --prefix $dir/beside < $dir/in) $(cat $dir/err)"
printf '\n\n\n\n' > $dir/beside
check "  with more" "2 translate: $dir/beside has more lines than the input" "$(run $toy --prefix $dir/beside < $dir/in) $(cat $dir/err)"
check "--min-length 6" "0 yes" "$(echo 我是男生 | run $toy --min-length 6) $(awk '{ print (NF >= 6) ? "yes" : "no" }' $dir/out)"
check "--no-repeat-ngram 1 --min-length 20 runs out of tokens" "0 translate: line 1: no token was left to choose after 7" \
    "$(echo 我是男生 | run $toy --no-repeat-ngram 1 --min-length 20) $(cat $dir/err)"
check "  and repeats none" 7 "$(tr ' ' '\n' < $dir/out | sort -u | wc -l | tr -d ' ')"
check "--repetition-penalty 1 changes nothing" "0 I am a boy||I like learning|" "$(run $toy --repetition-penalty 1 < $dir/in) $(tr '\n' '|' < $dir/out)"
printf 'I am a boy\n\nI am a student\n' > $dir/beside
check "--score: a number a line, the right translation above -1, a wrong one below" "0 1|blank|0|" \
    "$(run $toy --score $dir/beside < $dir/in) $(awk '$1 == "" { printf "blank|"; next } { printf "%d|", ($1 > -1) }' $dir/out)"
check "--per-token: one number more than tokens, and they add up" "0 5 yes" \
    "$(run $toy --score $dir/beside --per-token < $dir/in) $(awk 'NR == 1 { for (i = 2; i <= NF; i++) sum += $i; d = sum - $1; print NF - 1, (d < .001 && d > -.001) ? "yes" : "no" }' $dir/out)"
check "--score --scores=tokens is the same" "0 " "$(cp $dir/out $dir/expected; run $toy --score $dir/beside --scores=tokens < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
check "--scores=tokens: what --score says of the same tokens; in any batch" "0 0 " "$(run $toy --scores=tokens --batch 1 < $dir/in) $(cut -f 3 $dir/out > $dir/one; run $toy --scores=tokens < $dir/in) $(
    "$translate" $toy --score $dir/one --per-token < $dir/in | sed 's/^$/0.0000	/' | paste - $dir/one | cmp $dir/out - 2>&1)"
check "  of hypotheses: their number first; none of a blank line" "0 1:4:5|1:4:5|2:0:1|3:3:4|3:4:5|" \
    "$(run $toy --n-best 2 --scores=tokens < $dir/in) $(awk -F'\t' '{ printf "%s:%d:%d|", $1, split($4, words, " "), $3 ? split($3, numbers, " ") : 1 }' $dir/out)"
check "  of a forced prefix: 0; without an end: 0" "0 0.0000 0.0000 0.0000" "$(printf 'I like\n' > $dir/one; echo 我喜欢学习 > $dir/two; run $toy --scores=tokens --prefix $dir/one --max-length 3 < $dir/two) $(cut -f 2 $dir/out | cut -d ' ' -f 1,2,4)"
check "  another word" "2 translate: --scores takes 'tokens' or no value, not 'words'" "$(run $toy --scores=words < $dir/in) $(cat $dir/err)"
printf 'I am a boy\nI\nI fly\n' > $dir/beside
check "--score: blank source, unknown word" "1 translate: line 2: blank, but its translation is not
translate: line 3: --score: \"fly\" at byte 2 is not in tgt_vocabulary. Change the text, or set tgt_unk in the model's config: the id of unknown tokens" "$(run $toy --score $dir/beside < $dir/in) $(cat $dir/err)"
printf '\377\n\n\n' > $dir/beside
check "--score: not UTF-8" "1 translate: line 1: --score: text is not UTF-8 at byte 0" "$(run $toy --score $dir/beside < $dir/in) $(cat $dir/err)"

check "--attention: the same output" "0 I am a boy||I like learning|" "$(run $toy --attention $dir/a.svg < $dir/in) $(tr '\n' '|' < $dir/out)"
check "  the picture is well-formed XML" "well-formed" "$(awk "$well_formed" $dir/a.svg)"
check "  starts as SVG, with a view box" 1 "$(head -n 2 $dir/a.svg | grep -c '^<svg xmlns="http://www.w3.org/2000/svg" viewBox=')"
check "  has a cell for each pair of tokens, with its number" 16 "$(grep -c '<title>.* to .*: [01]\.[0-9]*</title>' $dir/a.svg)"
check "  whose rows add up to 1" 4 "$(sed -n 's/.*<title>\(.*\) to .*: \([0-9.]*\)<.*/\1 \2/p' $dir/a.svg | awk '{ sum[$1] += $2 } END { for (t in sum) n += sum[t] > .99 && sum[t] < 1.01; print n }')"
check "  has the tokens of both" 5 "$(grep -c -E '^<text.*>(男|生|am|boy|我)</text>' $dir/a.svg)"
check "  is the same again, and in any batch" "" "$(cp $dir/a.svg $dir/b.svg; run $toy --batch 1 --attention $dir/a.svg < $dir/in | grep -v 0; cmp $dir/a.svg $dir/b.svg 2>&1)"
check "  nothing to draw" "1 translate: $dir/a.svg: no sentence to draw" "$(run $toy --attention $dir/a.svg < /dev/null) $(cat $dir/err)"

printf '我是学生\n\n  我喜欢学习 \n' > $dir/in
check "--document: paragraphs of one sentence are lines" "0 I am a student||I like learning|" "$(run $toy --document < $dir/in) $(tr '\n' '|' < $dir/out)"
LC_ALL=C sed 's/\\"positions\\": \\"sinusoidal_per_index\\", \\"embedding_scale\\": 1\.0, \\"position_precision\\": \\"double\\", /\\"languages\\": {\\"fr\\": 3, \\"it\\": 4}, \\"src_language\\": \\"target\\",                                   /' $toy > $dir/languages
printf '>>fr<< 我是学生\n>>it<<我\n我>>xx<<\n' > $dir/in
check "a line that begins with the token of a language" "1 translate: line 3: \">\" at byte 3" "$(run $dir/languages < $dir/in) $(grep -o '.*byte [0-9]*' $dir/err)"
if [ -f examples/models/de-en.safetensors ]; then
    printf '>>fra<< Hund\n  >>fra<<\n>>fra< Hund\n>><< Hund\nHund >>fra<<\n>>%050d<<\n' 0 > $dir/in
    check "  that the model lacks: said, and translated as text" "0 translate: line 1: the model has no language token >>fra<<, and translates it as text
translate: line 2, sentence 1: the model has no language token >>fra<<, and translates it as text" "$(run examples/models/de-en.safetensors < $dir/in) $(grep language $dir/err)"
fi
LC_ALL=C sed 's/src_text\\": \\"characters\\"/src_text\\": \\"words\\"     /' $toy > $dir/words
printf '我 我是学生\n我 \033[31m我\n' > $dir/in
check "an unknown word is named, with advice if texts are cut into words; without control characters" \
    "1 translate: line 1: \"我是学生\" at byte 4 is not in src_vocabulary. Change the text, or set src_unk in the model's config: the id of unknown tokens. If the vocabulary has characters, convert with --set src_text=characters
translate: line 2: \"?[31m我\" at byte 4 is not in src_vocabulary. Change the text, or set src_unk in the model's config: the id of unknown tokens. If the vocabulary has characters, convert with --set src_text=characters" "$(run $dir/words < $dir/in) $(cat $dir/err)"
printf '\n我是男生 X。我是男生\n' > $dir/in
check "  a faulty sentence is left out" "1 |I am a boy|" "$(run $toy --document < $dir/in) $(tr '\n' '|' < $dir/out)"
check "  and named" "translate: line 2, sentence 1: \"X\" at byte 13 is not in src_vocabulary. Change the text, or set src_unk in the model's config: the id of unknown tokens" "$(cat $dir/err)"

for bad in "--document --tokens" "--document --scores" "--document --score $dir/beside" "--document --n-best 2" "--document --align" "--beam 2 --sample" "--top-k 3" "--temperature 2" "--top-p .5" "--seed 1" "--n-best 3 --beam 2" "--score $dir/beside --beam 3" \
    "--score $dir/beside --prefix $dir/beside" "--score $dir/beside --align" "--score $dir/beside --n-best 2" "--per-token" "--beam 0" "--beam 1.5" \
    "--sample --seed -1" "--sample --seed 99999999999999999999" "--sample --top-p 0" "--sample --top-p nan" "--length-penalty x" "--prefix" \
    "--keep-end" "--alternatives 2 --n-best 2" "--alternatives 2 --sample" "--alternatives 2 --document" "--alternatives 0" "--prefix nowhere" "--drafts nowhere" "--drafts $dir/beside --beam 2" "--drafts $dir/beside --prefix $dir/beside" "--drafts $dir/beside --sample" "--drafts $dir/beside --n-best 2" "--score nowhere" "--attention nowhere/x" "--max-length 5 --min-length 5" "--repetition-penalty 0" "--no-repeat-ngram -1"; do
    check "$bad: exit status 2, and why" "2 1" "$(run $toy $bad < $dir/in) $(grep -c '^translate: ' $dir/err)"
done

# ---- behaviour in a pipe and with options ----
# A waiting line must be answered: the input ends only after the test has seen its translation.
rm -f $dir/pipe && mkfifo $dir/pipe && {
    for threads in 1 2; do
        rm -f $dir/out
        timeout 60 "$translate" $toy --threads $threads < $dir/pipe > $dir/out 2> $dir/err &
        exec 9> $dir/pipe
        printf '我是学生\n' >&9
        waited=0; until [ -s $dir/out ] || [ $waited -ge 100 ]; do sleep 0.1; waited=$((waited + 1)); done
        check "$threads workers: a line is answered while the pipe waits" "I am a student" "$(cat $dir/out)"
        printf '我喜欢' >&9; sleep 0.2; printf '学习\n我是男生' >&9
        exec 9>&-
        wait $!
        check "  one that comes in pieces, and the rest" "0 I am a student|I like learning|I am a boy|" "$? $(tr '\n' '|' < $dir/out)"
    done
}
printf '我是男生\n\n我喜欢学习\n' > $dir/in
check "--batch=2, --length-penalty=0.5" "0 I am a boy||I like learning|" "$(run $toy --batch=2 --beam=2 --length-penalty=0.5 < $dir/in) $(tr '\n' '|' < $dir/out)"
check "a value that is none, after =" "2 translate: --batch takes a number from 1 to 1000000, not ''" "$(run $toy --batch= < $dir/in) $(cat $dir/err)"
check "a flag with a value" "2 translate: --tokens takes no value, not '1'" "$(run $toy --tokens=1 < $dir/in) $(cat $dir/err)"
check "part of a name" "2 translate: unknown option '--bat=3', did you mean --batch? (--help lists all)" "$(run $toy --bat=3 < $dir/in) $(cat $dir/err)"
printf '我是学生' > $dir/-last
check "files, one after the other, options between" "0 I am a boy||I like learning|I am a student|I am a student|" \
    "$(run $toy $dir/in --batch 2 $dir/-last - < $dir/-last) $(tr '\n' '|' < $dir/out)"
check "after -- there are no options" "I am a student 0" "$(cd $dir && ../../$translate ../../$toy --format lines -- -last 2>&1 | tr '\n' ' '; echo $?)"
check "a file that is not there: what came before, and why" "2 I am a student|translate: nowhere: No such file or directory (--text nowhere translates it as a text)" \
    "$(run $toy $dir/-last nowhere $dir/in --format lines < /dev/null) $(tr '\n' '|' < $dir/out)$(cat $dir/err)"
check "a second model: what is wrong with it" "2 translate: nowhere.safetensors: cannot be opened: No such file or directory" "$(run $toy nowhere.safetensors < $dir/in) $(cat $dir/err)"
check "  whose words are others: the line, and the model" "1 translate: line 1: $toy: \"I\" at byte 0 is not in src_vocabulary. Change the text, or set src_unk in the model's config: the id of unknown tokens" "$(run $toy $toy < $dir/in) $(head -n 1 $dir/err)"
check "  behind a file" "2 translate: $toy: the second model must come right after the first" "$(run $toy $dir/in $toy) $(cat $dir/err)"
check "  --via" "2 translate: --via: neither model has languages" "$(run $toy $toy --via fra < $dir/in) $(cat $dir/err)"
check "  with --tokens" "2 translate: --tokens and a second model do not go together" "$(run $toy $toy --tokens < $dir/in) $(cat $dir/err)"
printf '我是学生 https://a.org/?b=c\nx@y.org\n 5 kg, 😀.\n\n我喜欢学习3,5 kg\n\377 a@b.org\n' > $dir/in
check "--protect: addresses and numbers are copied, alone too" "1 I am a student https://a.org/?b=c|x@y.org| 5 kg, 😀.||I like learning 3,5 kg||" "$(run $toy --protect < $dir/in) $(tr '\n' '|' < $dir/out)"
check "  and not UTF-8 is said" "translate: line 6: text is not UTF-8 at byte 0" "$(cat $dir/err)"
check "  in each hypothesis, behind its columns" "1 1:2|2:1|3:1|4:0|5:2|6:0|" "$(run $toy --protect --n-best 2 --scores < $dir/in) $(awk -F'\t' '{ n[$1] += $3 ~ /https:..a.org|x@y|5 kg/ && NF == 3 } END { for (i = 1; i < 7; i++) printf "%d:%d|", i, n[i] }' $dir/out)"
check "  with --tokens" "2 translate: --tokens and --protect do not go together" "$(run $toy --protect --tokens < $dir/in) $(cat $dir/err)"
printf '学生\tpupil\n# 男生\tx\n' > $dir/terms
printf '我是学生\n\n我是男生\n我喜欢学习\n' > $dir/in
check "--terms: the words of the list" "0 I am a pupil||I am a boy|I like learning|" "$(run $toy --terms $dir/terms < $dir/in) $(tr '\n' '|' < $dir/out)"
check "  by two threads, in each hypothesis, with --protect" "0 2" "$(run $toy --terms $dir/terms --threads 2 --batch 1 --n-best 2 --protect < $dir/in) $(grep -c '^1	.*pupil' $dir/out)"
check "  in a document" "0 <p>I am a pupil<br>I am a boy" "$(printf '<p>我是学生<br>我是男生' | run $toy --html --terms $dir/terms) $(cat $dir/out)"
printf '学生\tpupil\n学生\tstudent\n' > $dir/bad
check "  a bad line: where, and what" "2 translate: $dir/bad: line 2: the source has another target in line 1" "$(run $toy --terms $dir/bad < $dir/in) $(cat $dir/err)"
check "  no file" "2 translate: $dir/none: No such file or directory" "$(run $toy --terms $dir/none < $dir/in) $(cat $dir/err)"
check "  a directory" "2 translate: tests: Is a directory" "$(run $toy --terms tests < $dir/in) $(cat $dir/err)"
check "  with --tokens" "2 translate: --tokens and --terms do not go together" "$(run $toy --terms $dir/terms --tokens < $dir/in) $(cat $dir/err)"
check "  with a second model" "2 translate: --terms and a second model do not go together" "$(run $toy $toy --terms $dir/terms < $dir/in) $(cat $dir/err)"
printf '我是男生\n\n我喜欢学习\n' > $dir/in
check "a directory" "2 translate: tests: Is a directory" "$(run $toy tests < /dev/null) $(cat $dir/err)"
check "--output" "0 0 I am a boy||I like learning|" "$(run $toy --output $dir/o $dir/in) $(wc -c < $dir/out | tr -d ' ') $(tr '\n' '|' < $dir/o)"
check "  without standard output" "0" "$("$translate" $toy --output=$dir/o $dir/in >&-; echo $?)"
check "  that cannot be: why" "2 translate: $dir/no/o: No such file or directory" "$(run $toy --output $dir/no/o $dir/in --format lines) $(cat $dir/err)"
check "  that is the input: refused, and the input stays" "2 translate: $dir/in is input and --output 3" "$(run $toy --output $dir/in $dir/in) $(cat $dir/err) $(wc -l < $dir/in | tr -d ' ')"
[ -e /dev/full ] && check "  on a full disk" "2 translate: writing: No space left on device" "$(run $toy --output /dev/full $dir/in --format lines) $(cat $dir/err)"
printf '我是学生\n\377\n我是男生\n我X\n' > $dir/bad
check "--keep-going: status 0, empty lines, and their number" "0 I am a student||I am a boy||2 lines could not be translated" \
    "$(run $toy --keep-going < $dir/bad) $(tr '\n' '|' < $dir/out)$(tail -n 1 $dir/err | sed 's/translate: //')"
check "  each is named all the same" 3 "$(grep -c . $dir/err)"
check "  all lines good: nothing is said" "0 0" "$(run $toy --keep-going < $dir/in) $(wc -c < $dir/err | tr -d ' ')"
check "--first-line 100: messages and --n-best count from there" "1 100|101|102|103|" "$(run $toy --first-line 100 --n-best 1 < $dir/bad) $(run $toy --first-line 100 --n-best 2 < $dir/bad | grep -v 1; cut -f 1 $dir/out | uniq | tr '\n' '|')"
check "  and so do seeds: pieces of a file are what the whole is" "" "$(awk 'BEGIN { for (i = 0; i < 40; i++) print "我是学生" }' > $dir/whole
    run $toy --sample --temperature 3 --seed 7 < $dir/whole > /dev/null; cp $dir/out $dir/expected
    head -n 17 $dir/whole > $dir/one; tail -n +18 $dir/whole > $dir/two
    { "$translate" $toy --sample --temperature 3 --seed 7 $dir/one; "$translate" $toy --sample --temperature 3 --seed 7 --first-line 18 $dir/two; } | cmp $dir/expected - 2>&1)"
check "  in messages" "translate: line 101: text is not UTF-8 at byte 0" "$(run $toy --first-line 100 < $dir/bad > /dev/null; head -n 1 $dir/err)"
printf 'id\t我是男生\tx\n7\t\t\ny\n\t我喜欢学习\t\t\n8\t我X\tz' > $dir/table
check "--column 2: the others stay, line by line" "1 id	I am a boy	x|7		|y|	I like learning		|8		z|" "$(run $toy --column 2 < $dir/table) $(tr '\n' '|' < $dir/out)"
check "  and what is wrong" "translate: line 3: 1 columns, not 2
translate: line 5: \"X\" at byte 3 is not in src_vocabulary. Change the text, or set src_unk in the model's config: the id of unknown tokens" "$(cat $dir/err)"
check "  in batches and one by one" "" "$(cp $dir/out $dir/expected; run $toy --column 2 --batch 1 --threads 2 < $dir/table > /dev/null; cmp $dir/expected $dir/out 2>&1)"
check "--f16-cache" "0 I am a boy||I like learning|" "$(run $toy --f16-cache < $dir/in) $(tr '\n' '|' < $dir/out)"

# ---- decoding options in the model file ----
text=$(head -c $((8 + $(od -An -tu8 -N8 $toy))) $toy | tail -c +9)
text="${text%%'{\"n_heads'*}{\\\"decoding\\\": {\\\"beam\\\": 3, \\\"length_penalty\\\": 1, \\\"max_length\\\": 30, \\\"min_length\\\": 6, \\\"no_repeat_ngram\\\": 3}, "'\"n_heads'"${text#*'{\"n_heads'}"
while [ $(((8 + ${#text}) % 64)) != 0 ]; do text="$text "; done
{ printf "\\$(printf %o $((${#text} % 256)))\\$(printf %o $((${#text} / 256)))\\0\\0\\0\\0\\0\\0%s" "$text"; tail -c +$((9 + $(od -An -tu8 -N8 $toy))) $toy; } > $dir/says
given="--beam 3 --length-penalty 1 --max-length 30 --min-length 6 --no-repeat-ngram 3 --scores"
check "the model's defaults" "0 0 " "$(run $toy $given < $dir/in) $(cp $dir/out $dir/expected; run $dir/says --scores < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
check "  each option overrides its own" "0 0 " "$(run $toy $given --beam 2 --min-length 0 < $dir/in) $(cp $dir/out $dir/expected; run $dir/says --scores --beam 2 --min-length 0 < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
check "  --n-best within the model's beam" "0 0 " "$(run $toy $given --n-best 2 < $dir/in) $(cp $dir/out $dir/expected; run $dir/says --scores --n-best 2 < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
check "  beyond it" "0 0 " "$(run $toy $given --n-best 4 --beam 4 < $dir/in) $(cp $dir/out $dir/expected; run $dir/says --scores --n-best 4 < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
check "  --greedy leaves them out" "0 0 " "$(run $toy --scores < $dir/in) $(cp $dir/out $dir/expected; run $dir/says --scores --greedy < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
check "  --sample takes lengths alone" "0 0 " "$(run $toy --sample --seed 3 --max-length 30 --min-length 6 --no-repeat-ngram 3 < $dir/in) $(cp $dir/out $dir/expected; run $dir/says --sample --seed 3 < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
# options that a session needs room for: the file alone makes it
more="${text%%'{\"decoding'*}{\\\"decoding\\\": {\\\"samples\\\": 2, \\\"top_k\\\": 1, \\\"coverage_penalty\\\": 0.5, \\\"end_ids\\\": [1]}, \\\"n_heads${text#*'\"n_heads'}"
while [ $(((8 + ${#more}) % 64)) != 0 ]; do more="$more "; done
{ printf "\\$(printf %o $((${#more} % 256)))\\$(printf %o $((${#more} / 256)))\\0\\0\\0\\0\\0\\0%s" "$more"; tail -c +$((9 + $(od -An -tu8 -N8 $toy))) $toy; } > $dir/room
check "samples, an end token and a coverage penalty of the file" "0 0" "$(run $dir/room < $dir/in) $(run $dir/room --beam 3 < $dir/in; cat $dir/err)"
check "  --verbose says so" 1 "$(run $dir/says --verbose < $dir/in > /dev/null; grep -c '^translate: the model says: beam 3, length penalty 1, max length 30, min length 6, n-gram 3,' $dir/err)"
check "  a --max-length that they have no room in" "2 translate: --min-length 6 leaves no room for an end in --max-length 5" "$(run $dir/says --max-length 5 < $dir/in) $(cat $dir/err)"

if [ -f $zh ]; then
    check "the shipped model is at most 12 MB" 1 "$(( $(wc -c < $zh) <= 12000000 ))"
    check "  translates the demo" 0 "$(run $zh --batch 1 --scores < examples/translate/demo.txt)"
    cp $dir/out $dir/expected
    check "  with three threads" "0 " "$(run $zh --threads 3 --scores < examples/translate/demo.txt) $(cmp $dir/expected $dir/out 2>&1)"
    check "  in batches" 0 "$(run $zh --batch 7 --scores < examples/translate/demo.txt)"
    check "  to the same texts and scores" "" "$(cmp $dir/expected $dir/out 2>&1)"
    check "  as many lines as it was given" "$(wc -l < examples/translate/demo.txt)" "$(wc -l < $dir/out)"
    cut -f 2 $dir/expected > $dir/greedy
    for options in "--beam 4 --scores" "--beam 4 --n-best 4 --scores --length-penalty 1 --align" "--sample --n-best 3 --seed 5 --scores" \
        "--sample --top-p .9 --temperature .7" "--align --min-length 12 --max-length 40" "--beam 3 --no-repeat-ngram 1" "--prefix $dir/six"; do
        awk '{ print NR % 3 == 1 ? "He is" : NR % 3 == 2 ? "I like all the long, long, very long sentences that people who like such sentences like to write to us" : "" }' \
            examples/translate/demo.txt > $dir/prefixes
        head -n 6 $dir/prefixes > $dir/six
        check "$options, one by one" 0 "$(head -n 6 examples/translate/demo.txt | run $zh --batch 1 $options)"
        cp $dir/out $dir/expected
        check "  in batches" 0 "$(head -n 6 examples/translate/demo.txt | run $zh --batch 4 $options)"
        check "  to the same bytes" "" "$(cmp $dir/expected $dir/out 2>&1)"
    done
    run $zh --beam 4 < examples/translate/demo.txt > /dev/null; cp $dir/out $dir/expected
    run $zh --beam 4 --n-best 4 --scores < examples/translate/demo.txt > /dev/null
    check "--n-best: the first of each is the translation of --beam" "" "$(awk -F'\t' '!seen[$1]++ { print $3 }' $dir/out | cmp - $dir/expected 2>&1)"
    check "  scores fall" "" "$(awk -F'\t' '$1 == last && $2 > score { print } { last = $1; score = $2 }' $dir/out)"
    check "  four different texts each" "$((4 * $(wc -l < examples/translate/demo.txt)))" "$(sort -u $dir/out | wc -l | tr -d ' ')"
    check "--beam 1 is greedy" "" "$(run $zh --beam 1 < examples/translate/demo.txt | grep -v 0; cmp $dir/out $dir/greedy 2>&1)"
    check "--sample --top-k 1 is greedy" "" "$(run $zh --sample --top-k 1 < examples/translate/demo.txt | grep -v 0; cmp $dir/out $dir/greedy 2>&1)"
    run $zh --sample --n-best 4 < examples/translate/demo.txt > /dev/null; cp $dir/out $dir/expected
    check "--seed: the default is 0" "" "$(run $zh --sample --n-best 4 --seed 0 < examples/translate/demo.txt | grep -v 0; cmp $dir/expected $dir/out 2>&1)"
    check "  another seed, other samples" 1 "$(run $zh --sample --n-best 4 --seed 1 < examples/translate/demo.txt > /dev/null; cmp -s $dir/expected $dir/out; echo $?)"
    # The seed of a line is its number plus --seed: line 2 with seed 6 equals line 1 with seed 7.
    check "  a line's seed is the seed and its number" "$(head -n 1 examples/translate/demo.txt | "$translate" $zh --sample --seed 7)" \
        "$( (echo; head -n 1 examples/translate/demo.txt) | "$translate" $zh --sample --seed 6 | tail -n 1)"
    sed 's/./& /g' examples/translate/demo.txt > $dir/tokens
    check "--tokens --beam 4 --scores" 0 "$(run $zh --tokens --beam 4 --scores < $dir/tokens)"
    cut -f 1 $dir/out > $dir/scores; cut -f 2 $dir/out > $dir/beside
    check "--score gives every translation the score that the search gave" "0 0" "$(run $zh --tokens --score $dir/beside < $dir/tokens) $(paste $dir/scores $dir/out |
        awk '{ d = $1 - $2; if (d > .001 || d < -.001 || NF != 2) bad++ } END { print bad + 0 }')"
    cp $dir/out $dir/expected
    check "  one by one as in batches" "" "$(run $zh --tokens --batch 1 --score $dir/beside < $dir/tokens | grep -v 0; cmp $dir/expected $dir/out 2>&1)"
    check "  text by longest match: a number for each, none better than the best tokens by much" "0 $(wc -l < examples/translate/demo.txt | tr -d ' ')" \
        "$(run $zh --score $dir/greedy < examples/translate/demo.txt) $(grep -c '^-[0-9]*\.[0-9]*$' $dir/out)"
    check "--min-length 12: every translation has 12 tokens or more" "0 0" "$(run $zh --tokens --min-length 12 --max-length 60 < $dir/tokens) $(awk 'NF < 12 { n++ } END { print n + 0 }' $dir/out)"
    check "--no-repeat-ngram 2: no two tokens in a row twice" "0 0" "$(run $zh --tokens --min-length 12 --no-repeat-ngram 2 < $dir/tokens) $(awk '{ split("", seen)
        for (i = 1; i < NF; i++) if (seen[$i " " $(i + 1)]++) n++ } END { print n + 0 }' $dir/out)"
    check "--prefix: translations begin with it" "0 0" "$(run $zh --prefix $dir/prefixes < examples/translate/demo.txt) $(awk 'NR == FNR { want[NR] = $0; next }
        substr($0, 1, length(want[FNR])) != want[FNR] { n++ } END { print n + 0 }' $dir/prefixes $dir/out)"
    check "  and are free where it is blank" "$(sed -n 3p $dir/greedy)" "$(sed -n 3p $dir/out)"
    run $zh --scores < examples/translate/demo.txt > $dir/status; cp $dir/out $dir/expected
    sed 's/ the / a /; 3s/.*//; 4s/.*/what is no draft/; s/\.$/ today./' $dir/greedy > $dir/drafts
    check "--drafts changes nothing: one by one, a file of drafts that are right, wrong, blank" "0 " "$(run $zh --scores --batch 1 --drafts $dir/drafts < examples/translate/demo.txt) $(cmp $dir/expected $dir/out 2>&1)"
    check "  in a batch with threads" "0 " "$(run $zh --scores -j 2 --drafts $dir/greedy < examples/translate/demo.txt) $(cmp $dir/expected $dir/out 2>&1)"
    check "  a draft that is not UTF-8 is named, and its line translated" "0 |translate: line 1: --drafts: text is not UTF-8 at byte 0" "$(head -n 1 examples/translate/demo.txt > $dir/one; printf '\377\n' > $dir/drafts; run $zh --scores --drafts $dir/drafts < $dir/one) $(head -n 1 $dir/expected | cmp - $dir/out 2>&1)|$(cat $dir/err)"
    # four paragraphs: two demos in one line each, a blank one, and the rest
    awk '{ printf "%s%s", $0, (NR == 5 || NR == 9) ? "\n" : "" } NR == 7 { printf "\n \n" } END { print "" }' examples/translate/demo.txt > $dir/in
    awk '{ printf "%s%s", $0, (NR == 5 || NR == 9 || NR == 12) ? "\n" : NR == 7 ? "\n\n" : " " }' $dir/greedy > $dir/expected
    check "--document: as its sentences by themselves, joined by spaces" 0 "$(run $zh --document < $dir/in)"
    check "  paragraph by paragraph" "" "$(cmp $dir/expected $dir/out 2>&1)"
    check "  one by one" "" "$(run $zh --document --batch 1 < $dir/in | grep -v 0; cmp $dir/expected $dir/out 2>&1)"
    echo '我<是>&"学"生。' > $dir/in
    check "--attention: what XML forbids in a text" "0 well-formed 1" "$(run $zh --attention $dir/a.svg < $dir/in) $(awk "$well_formed" $dir/a.svg) $(grep -c '^<text.*>&lt;</text>' $dir/a.svg)"
else skip 32 "no $zh"; fi
de=examples/models/de-en.safetensors
if [ -f $de ]; then
    check "the German model, with SentencePiece, is at most 20 MB" 1 "$(( $(wc -c < $de) <= 20000000 ))"
    check "  translates its demo" 0 "$(run $de --batch 1 --scores < examples/translate/demo-de.txt)"
    cp $dir/out $dir/expected
    check "  with beams of four" "0 8" "$(run $de --beam 4 < examples/translate/demo-de.txt) $(grep -c '[a-z]' $dir/out)"
    check "  in batches, by two threads" 0 "$(run $de --batch 5 --threads 2 --scores < examples/translate/demo-de.txt)"
    check "  to the same texts and scores" "" "$(cmp $dir/expected $dir/out 2>&1)"
    run $de < examples/translate/demo-de.txt > /dev/null; cp $dir/out $dir/expected
    check "  and scores its own translations as it did" "0 0" "$(run $de --scores < examples/translate/demo-de.txt) $(cut -f 1 $dir/out > $dir/one
        "$translate" $de --score $dir/expected < examples/translate/demo-de.txt | paste $dir/one - | awk -F'\t' '$1 - $2 > .01 || $2 - $1 > .01' | wc -l | tr -d ' ')"
    awk 'NR % 3 == 0 { print NR == 3 ? toupper($0) : $0; next } { sub(/ /, NR % 2 ? " 3,5 kg " : " anna@example.org, "); print $0 " 😀" }' examples/translate/demo-de.txt > $dir/in
    for options in "--batch 1" "--threads 2 --batch 3"; do
        check "  --protect $options: all of them are there" "0 12 capitals" "$(run $de --protect $options < $dir/in) $(grep -o -e '3,5 kg' -e 'anna@example.org' -e '😀' $dir/out | wc -l | tr -d ' ') $(sed -n '3{/[a-z]/!s/.*/capitals/p;}' $dir/out)"
    done
    check "  with a model behind: the bytes of a pipe" "0 " "$("$translate" $de --protect < $dir/in | "$translate" $de --protect > $dir/two; run $de $de --protect < $dir/in) $(cmp $dir/two $dir/out 2>&1)"
    printf 'Er gab dem <b>Hund</b> einen Knochen.\n' > $dir/in
    printf 'hund\thound\nKnochen\tbig bone\n' > $dir/terms
    check "  --terms: tags follow the words of the list" "0 1" "$(run $de --html --terms $dir/terms < $dir/in) $(grep -c '<b>hound</b>.* big bone' $dir/out)"
    run $de < examples/translate/demo-de.txt > /dev/null; cp $dir/out $dir/expected
    check "  that has no words of the list changes nothing" "0 " "$(echo 'xyz	q' > $dir/terms; run $de --terms $dir/terms < examples/translate/demo-de.txt) $(cmp $dir/expected $dir/out 2>&1)"
    check "  changes nothing where there is none" "" "$(run $de --protect < examples/translate/demo-de.txt | grep -v 0; cmp $dir/expected $dir/out 2>&1)"
    if [ -f $zh ]; then
        { cat examples/translate/demo.txt; printf '\377\n\n  \n'; } > $dir/in
        awk '{ print NR % 3 == 1 ? "He is" : "" }' examples/translate/demo.txt > $dir/prefixes; printf '\n\n\n' >> $dir/prefixes
        for options in "" "--beam 3 --n-best 2 --scores=tokens --threads 2 --batch 4" "--prefix $dir/prefixes"; do
            "$translate" $zh $(echo "$options" | sed 's/--n-best.*tokens//; s/--prefix.*//') < $dir/in 2> /dev/null | "$translate" $de $options > $dir/two 2> $dir/err
            check "two models, $options: the bytes of a pipe" "1 15 " "$(run $zh $de $options < $dir/in) $(wc -l < $dir/in | tr -d ' ') $(cmp $dir/two $dir/out 2>&1)"
        done
        check "  and of files" "0 " "$("$translate" $zh examples/translate/demo.txt | "$translate" $de > $dir/two; run $zh $de examples/translate/demo.txt < /dev/null) $(cmp $dir/two $dir/out 2>&1)"
    else skip 4 "no $zh"; fi
    awk 'BEGIN { print "<!DOCTYPE html><title>Haus</title><ul>" } { sub(/ [a-z]+ /, " <b id=\"" NR "\">&</b>"); print "<li>" $0 (NR == 5 ? " <code>x</code>" : "") "<p translate=no>Nein &amp; Ja.</p>" } END { print "</ul><p>ein \377<pre> und" }' examples/translate/demo-de.txt > $dir/in
    check "--html: its tags, and the translations" "1 translate: sentence 10: text is not UTF-8 at byte 4" "$(run $de --html < $dir/in) $(cat $dir/err)"
    check "  each tag once, where it stands or with its words" "" "$(for file in in out; do grep -o '<[^>]*>' $dir/$file | sort > $dir/tags-$file; done; cmp $dir/tags-in $dir/tags-out 2>&1)"
    check "  sentences as by themselves" "" "$(sed -n 's/^<li>\(.*\)<p tr.*/\1/p' $dir/out | sed 's/ <code>x.*//; s/<[^>]*>//g' | tr -s ' ' | cmp - $dir/expected 2>&1)"
    cp $dir/out $dir/two
    check "  one by one, and in threads" "1  1 " "$(run $de --html --batch 1 < $dir/in) $(cmp $dir/two $dir/out 2>&1) $(run $de --html --threads 2 --batch 3 < $dir/in) $(cmp $dir/two $dir/out 2>&1)"
    check "  nothing" "0 0" "$(run $de --html < /dev/null) $(wc -c < $dir/out | tr -d ' ')"
    printf '<html lang="de"><img alt="Er ist alt.">' > $dir/page
    check "  attributes" '0 <html lang="en"><img alt="He'\''s old.">' "$(run $de --html < $dir/page) $(cat $dir/out)"
    check "  --lang" '0 <html lang="zh-Hans"><img alt="He'\''s old.">' "$(run $de --html --lang zh-Hans < $dir/page) $(cat $dir/out)"
    check "  --lang that is no code" "2 translate: --lang z: no code, such as en or zh-Hans" "$(run $de --html --lang z < $dir/page) $(cat $dir/err)"
    check "  --lang alone" "2 translate: --lang needs --html" "$(run $de --lang en < $dir/page) $(cat $dir/err)"
    awk '{ n = split($0, w, " "); printf "%d\n00:%02d:00,000 --> 00:%02d:30,000\n", NR, NR, NR; for (i = 1; i <= n; i++) printf "%s%s", w[i], (i == 4 && n > 5 ? "\n\n" NR "b\n00:" NR ":30,050 --> 00:" NR ":50,000\n" : i == 7 && n > 8 ? "\n" : " "); printf "\n\n" }' examples/translate/demo-de.txt | sed 's/^- //' > $dir/in
    check "--srt: numbers and times stay, sentences over cues are whole" "0  " "$(run $de --srt < $dir/in) $(for file in in out; do grep -e '-->' -e '^[0-9b]*$' $dir/$file > $dir/tags-$file; done; cmp $dir/tags-in $dir/tags-out 2>&1) $(grep -v -e '-->' -e '^[0-9]*b*$' $dir/out | tr -s ' \n' '  ' | sed 's/ *$//' > $dir/two; tr -s '\n' ' ' < $dir/expected | sed 's/ *$//' | cmp - $dir/two 2>&1)"
    check "  with --html" "2 translate: --html and --srt do not go together" "$(run $de --srt --html < $dir/in) $(cat $dir/err)"
    check "  with --n-best" "2 translate: --n-best and --html do not go together" "$(run $de --html --n-best 2 < $dir/in) $(cat $dir/err)"
    awk 'BEGIN { print "---\ntitle: Haus\n---\n" } { if (match($0, / [a-z]+ /)) $0 = substr($0, 1, RSTART) "**" substr($0, RSTART + 1, RLENGTH - 2) "**" substr($0, RSTART + RLENGTH - 1); print "- [ ] " $0 "\n\n      Nein\n" }' examples/translate/demo-de.txt > $dir/in
    check "--markdown: what is no text stays, and sentences are as by themselves" "0  " "$(run $de --markdown < $dir/in) $(for file in in out; do sed 's/[^][*]*\*\*[^*]*\*\*.*/-/; s/^- .*/-/' $dir/$file > $dir/tags-$file; done; cmp $dir/tags-in $dir/tags-out 2>&1) $(sed -n 's/\*\*//g; s/^- \[ \] //p' $dir/out | cmp - $dir/expected 2>&1)"
    check "  with --html" "2 translate: --markdown and --html do not go together" "$(run $de --markdown --html < $dir/in) $(cat $dir/err)"
    { paste -s -d ' ' examples/translate/demo-de.txt | fold -s -w 50 | sed 's/ *$//; s/^/> /'; printf '\n-- \nAnna Haus\n'; } > $dir/in
    check "--wrapped: a paragraph in lines is as in one, quoted, and no wider; a signature stays" "0   >  Anna Haus" "$(run $de --wrapped < $dir/in) $(sed -n 's/^> //p' $dir/out | paste -s -d ' ' - | sed 's/ $//' > $dir/two; paste -s -d ' ' $dir/expected | cmp - $dir/two 2>&1) $(awk 'length($0) > 60' $dir/out) $(sed '/^-- /,$d; /^$/d; s/\(.\).*/\1/' $dir/out | sort -u) $(sed -n 's/^Anna/ &/p' $dir/out)"
    check "  and of N columns" "0 0 " "$(run $de --wrapped --width 30 < $dir/in) $(awk 'length($0) > 30' $dir/out | wc -l | tr -d ' ') $(sed -n 's/^> //p' $dir/out | paste -s -d ' ' - | sed 's/ $//' | cmp - $dir/two 2>&1)"
    check "  with --srt" "2 translate: --wrapped and --srt do not go together" "$(run $de --wrapped --srt < $dir/in) $(cat $dir/err)"
    check "  with --markdown" "2 translate: --wrapped and --markdown do not go together" "$(run $de --wrapped --markdown < $dir/in) $(cat $dir/err)"
    printf '# Titel\r\n\r\nDas ist ein\r\nHaus. Ich bin\r\nsehr m\303\274de.\r\n\r\n- Ein Hund.\r\n  Eine Katze.\r\n' > $dir/crlf
    for form in markdown wrapped; do
        check "--$form: lines that end in CR and LF end so again" "0 0" "$(run $de --$form < $dir/crlf) $(tr -d '\n' < $dir/out | tr '\r' '\n' | wc -l | awk -v n=$(wc -l < $dir/out) '{ print $1 - n }')"
    done
    check "a paragraph that is cut: the message says what to do" "0 translate: line 1: stopped at its limit of 3 tokens; it has several sentences, which --sentences split translates one by one" \
        "$(echo 'Das ist ein Haus. Ich bin sehr müde.' | run $de --sentences whole --max-length 3) $(cat $dir/err)"
    check "  and is too long" 1 "$(echo 'Das ist ein Haus. Ich bin sehr müde.' | run $de --sentences whole --max-source 4; grep -c 'which --sentences split translates' $dir/err > $dir/n; [ $(cat $dir/n) = 1 ] || echo none)"
    check "  one sentence needs no advice" "translate: line 1: stopped at its limit of 2 tokens" "$(echo 'Das ist ein Haus.' | run $de --max-length 2 > /dev/null; cat $dir/err)"
    check "  with --n-best" "2 translate: --n-best and --wrapped do not go together" "$(run $de --wrapped --n-best 2 < $dir/in) $(cat $dir/err)"
    check "  --width 19" 2 "$(run $de --wrapped --width 19 < $dir/in)"
    check "  --width without it" "2 translate: --width needs --wrapped" "$(run $de --width 60 < $dir/in) $(cat $dir/err)"
    paste -s -d ' ' examples/translate/demo-de.txt > $dir/in; paste -s -d ' ' $dir/expected > $dir/one
    check "  --document: a paragraph of them, split and joined" "0 " "$(run $de --document < $dir/in) $(cmp $dir/one $dir/out 2>&1)"
    check "  a prefix in text" "0 If it rains" "$(sed -n 3p examples/translate/demo-de.txt > $dir/in; echo 'If it rains' > $dir/beside; run $de --prefix $dir/beside < $dir/in) $(cut -c 1-11 $dir/out)"
else skip 33 "no $de"; fi
counts test_translate
