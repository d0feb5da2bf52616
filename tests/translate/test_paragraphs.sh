# Lines of several sentences: translate splits them if the model file says that the model reads sentences, or if
# --sentences says so. A line's translation is what its sentences alone give, with the whitespace between them.
. tests/check.sh
translate=build/translate toy=tests/data/models/toy.safetensors
dir=build/test_paragraphs
mkdir -p $dir
run() { # Prints the exit status of the translator. Its standard output and error are in files.
    "$translate" "$@" > $dir/out 2> $dir/err
    echo $?
}
# Joins the lines of standard input, $1 to a line, with space $2 between them.
join() {
    awk -v k="$1" -v space="$2" '{ printf("%s%s", (NR - 1) % k ? space : NR == 1 ? "" : "\n", $0) } END { print "" }'
}
# Counts the sentence ends that are missing in $dir/out, of k in each line; the last line may have fewer.
missing() {
    awk -v k="$1" -v n="$2" '{ text = $0; gsub(/[^.!?。！？]+/, " ", text); ends = split(text, parts, " ")
        want = NR * k <= n ? k : n - (NR - 1) * k; if (ends < want) lost += want - ends } END { print lost + 0 }' $dir/out
}
unknown=$dir/unknown.safetensors # a file of 0.6.0, which does not say what the model reads
for model in de zh; do
    file=examples/models/$model-en.safetensors demo=examples/translate/demo-de.txt space=' '
    [ $model = zh ] && demo=examples/translate/demo.txt space=
    if [ ! -f $file ]; then skip 12 "no $file"; continue; fi
    grep '[.!?。！？]$' $demo | grep -v '[.!?。！？].*[.!?。！？]' > $dir/sentences # one sentence in each
    n=$(wc -l < $dir/sentences | tr -d ' ')
    check "$model: there are some" 1 $((n > 5))
    run $file < $dir/sentences > /dev/null; cp $dir/out $dir/each
    for k in 2 3 4 6 8; do
        join $k "$space" < $dir/sentences > $dir/in
        join $k ' ' < $dir/each > $dir/expected
        check "$model: $k sentences in each line: what they alone give" "0  " "$(run $file < $dir/in) $(cat $dir/err) $(cmp $dir/expected $dir/out 2>&1)"
        check "  --document: the same" "0 " "$(run $file --document < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
        check "  one by one, by two threads" "0 " "$(run $file --batch 1 -j 2 < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
        check "  no sentence end is missing" 0 "$(missing $k "$n")"
    done
done
de=examples/models/de-en.safetensors
if [ -f $de ]; then
    head -n 4 examples/translate/demo-de.txt > $dir/four; paste -s -d ' ' $dir/four > $dir/in
    run $de < $dir/four > /dev/null; paste -s -d ' ' $dir/out > $dir/split
    run $de --sentences whole < $dir/in > /dev/null; cp $dir/out $dir/whole
    check "--sentences whole: one text, which loses sentences" 1 "$(cmp $dir/split $dir/whole > /dev/null; echo $?)"
    printf 'Ich lese im Haus. \\*\n\nund ich lese. Der Hund bellt.\n' > $dir/again # "haus. *" alone is two sentences
    check "the sentences of a document are not split again" "0 3 1" "$(run $de --markdown < $dir/again) $(wc -l < $dir/out | tr -d ' ') $(grep -c 'The dog barks\.$' $dir/out)"
    # a file that does not say it: its config has spaces in the key's place
    LC_ALL=C sed 's/, \\"sentences\\": \\"split\\"/                          /' $de > $unknown
    check "a file without the key has the size of the other" "$(wc -c < $de)" "$(wc -c < $unknown)"
    check "  is read whole, as 0.6.0 did, and a warning says so, once" "0  translate: line 2 has several sentences, and $unknown does not say whether it reads sentences or whole texts. Lines are translated as whole texts: --sentences split or --sentences whole chooses" \
        "$( (echo Ja.; cat $dir/in $dir/in) > $dir/three; run $unknown < $dir/three) $(sed -n 2p $dir/out | cmp $dir/whole - 2>&1) $(cat $dir/err)"
    check "  lines of one sentence: no warning" "0 " "$(run $unknown < examples/translate/demo-de.txt) $(cat $dir/err)"
    check "  --sentences whole: no warning" "0  " "$(run $unknown --sentences whole < $dir/in) $(cmp $dir/whole $dir/out 2>&1) $(cat $dir/err)"
    check "  --html: sentences, as before" "0 <p>$(cat $dir/split)</p>" "$(sed 's/.*/<p>&<\/p>/' $dir/in > $dir/page; run $unknown --html < $dir/page) $(cat $dir/out)"
    check "  --html --sentences whole" "0 <p>$(cat $dir/whole)</p>" "$(run $unknown --html --sentences whole < $dir/page) $(cat $dir/out)"
    check "  --sentences split" "0  " "$(run $unknown --sentences split < $dir/in) $(cmp $dir/split $dir/out 2>&1) $(cat $dir/err)"
    check "  inspect says unknown" "sentences unknown" "$(build/inspect $unknown | awk '$1 == "sentences" { print $1, $2 }')"
    for options in "" --packed; do
        check "quantize $options --sentences whole" 0 "$(build/quantize $unknown $dir/stated.safetensors int8 $options --sentences whole > /dev/null 2>&1; echo $?)"
        check "  inspect says it" "sentences whole" "$(build/inspect $dir/stated.safetensors | awk '$1 == "sentences" { print $1, $2 }')"
        check "  a model that reads whole texts is not split" "0  " "$(run $dir/stated.safetensors < $dir/in) $(cmp $dir/whole $dir/out 2>&1) $(cat $dir/err)"
        check "  --sentences split" "0 " "$(run $dir/stated.safetensors --sentences split < $dir/in) $(cmp $dir/split $dir/out 2>&1)"
        check "  --html: a paragraph is one text" "0 <p>$(cat $dir/whole)</p>" "$(sed 's/.*/<p>&<\/p>/' $dir/in > $dir/page; run $dir/stated.safetensors --html < $dir/page) $(cat $dir/out)"
        check "  --html --sentences split" "0 <p>$(cat $dir/split)</p>" "$(run $dir/stated.safetensors --html --sentences split < $dir/page) $(cat $dir/out)"
        check "  --document" "0 " "$(run $dir/stated.safetensors --document < $dir/in) $(cmp $dir/split $dir/out 2>&1)"
    done
    check "quantize --packed keeps what the file says" "0 sentences split" "$(build/quantize $de $dir/packed.safetensors int8 --packed > /dev/null; echo $?) $(build/inspect $dir/packed.safetensors | awk '$1 == "sentences" { print $1, $2 }')"
    check "quantize --sentences replaces a word" "0 sentences whole" "$(build/quantize $de $dir/packed.safetensors int8 --sentences whole > /dev/null; echo $?) $(build/inspect $dir/packed.safetensors | awk '$1 == "sentences" { print $1, $2 }')"
    languages() { build/inspect $dir/packed.safetensors | awk '$1 ~ /_language$/ && NF == 2 { printf "%s ", $2 }'; }
    for options in "" --packed; do
        check "quantize $options --source-language, --target-language" "0 xx pt_BR 0" \
            "$(build/quantize $unknown $dir/packed.safetensors int8 $options --source-language xx --target-language pt_BR > /dev/null; echo $?) $(languages)$(printf 'a\n' | build/translate $dir/packed.safetensors > /dev/null 2>&1; echo $?)"
    done
    check "  as the shipped models have them" "de en " "$(build/quantize $de $dir/packed.safetensors int8 > /dev/null; languages)"
    check "  a code alone" "quantize: --source-language d/e: give a code such as de or pt_BR 2" "$(build/quantize $de $dir/stated.safetensors int8 --source-language d/e 2>&1 | tr "\n" " "; build/quantize $de $dir/stated.safetensors int8 --source-language d/e > /dev/null 2>&1; echo $?)"
    check "quantize --sentences some" "quantize: --sentences some: give split or whole 2" "$(build/quantize $de $dir/stated.safetensors int8 --sentences some 2>&1 | tr "\n" " "; build/quantize $de $dir/stated.safetensors int8 --sentences some > /dev/null 2>&1; echo $?)"
    # whitespace, blank lines, one sentence
    printf 'Guten Tag.   Wie geht es dir?\t Gut.\n\n   Guten Tag.  \n \n' > $dir/in
    run $de < $dir/in > /dev/null
    check "the whitespace between sentences stays, blank lines stay, one sentence is as it was" \
        "$(printf 'Guten Tag.\nWie geht es dir?\nGut.\n' | "$translate" $de | awk 'NR == 1 { a = $0 } NR == 2 { b = $0 } NR == 3 { printf "%s   %s\t %s||%s||", a, b, $0, a }')" "$(tr '\n' '|' < $dir/out)"
    # a sentence that cannot be translated
    printf 'Ja. %s. Nein.\nJa. Nein.\n' "$(awk 'BEGIN { for (i = 0; i < 60; i++) printf "%sHaus", i ? " " : "" }')" > $dir/in
    check "a sentence that is too long: its line is empty, and the message has line and sentence" "1 1 $(echo 'Ja. Nein.' | "$translate" $de)" \
        "$(run $de --max-source 30 < $dir/in) $(grep -c 'line 1, sentence 2: text has 6[0-9] tokens, there is room for 30 (--max-source)$' $dir/err) $(tr -d '\n' < $dir/out)"
    check "  --document writes the others" "1 $(echo 'Ja. Nein.' | "$translate" $de)" "$(run $de --document --max-source 30 < $dir/in) $(head -n 1 $dir/out)"
    check "  --truncate says it of the sentence" "0 1" "$(run $de --truncate --max-source 30 < $dir/in) $(grep -c 'line 1, sentence 2: of 6[0-9] tokens' $dir/err)"
    printf 'Ja. \377. Nein.\n' > $dir/in
    check "  a sentence that is not UTF-8" "1 1 1" "$(run $de < $dir/in) $(grep -c 'line 1, sentence 2: .*not UTF-8' $dir/err) $(grep -c '^$' $dir/out)"
    # options that write more than a translation
    echo 'Guten Tag. Wie geht es dir?' > $dir/in; printf 'Guten Tag.\nWie geht es dir?\n' > $dir/two
    run $de --scores < $dir/two > /dev/null
    awk -F'\t' '{ sum += $1; text = text (NR > 1 ? " " : "") $2 } END { printf "%.3f\t%s\n", sum, text }' $dir/out > $dir/expected
    check "--scores: the sum of the sentences' scores" "0 $(cat $dir/expected)" "$(run $de --scores < $dir/in) $(awk -F'\t' '{ printf "%.3f\t%s\n", $1, $2 }' $dir/out)"
    run $de --scores=tokens < $dir/two > /dev/null; cut -f 2 $dir/out | paste -s -d ' ' > $dir/expected
    check "--scores=tokens: of all tokens" "0 " "$(run $de --scores=tokens < $dir/in) $(cut -f 2 $dir/out | cmp $dir/expected - 2>&1)"
    check "--column" "0 a|$(paste -s -d ' ' $dir/two | "$translate" $de)|b" "$(sed 's/.*/a	&	b/' $dir/in > $dir/table; run $de --column 2 < $dir/table) $(tr '\t' '|' < $dir/out)"
    "$translate" $de < $dir/in > $dir/expected
    for line in "Good day. What is it?" "Good day." "What is it"; do
        echo "$line" > $dir/draft
        check "--drafts '$line': changes nothing" "0 " "$(run $de --drafts $dir/draft < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
    done
    check "--attention: of the first sentence" "0 " "$("$translate" $de --attention $dir/one.svg < $dir/two > /dev/null; run $de --attention $dir/a.svg < $dir/in) $(cmp $dir/one.svg $dir/a.svg 2>&1)"
    check "--sample: each sentence as alone in its line" "0 " "$(head -n 1 $dir/two | "$translate" $de --sample --seed 4 > $dir/expected; tail -n 1 $dir/two | "$translate" $de --sample --seed 4 >> $dir/expected; paste -s -d ' ' $dir/expected > $dir/one; run $de --sample --seed 4 < $dir/in) $(cmp $dir/one $dir/out 2>&1)"
    check "two models: each sentence goes through both" "0 " "$(run $de $de < $dir/two > /dev/null; paste -s -d ' ' $dir/out > $dir/expected; run $de $de < $dir/in) $(cmp $dir/expected $dir/out 2>&1)"
    echo Good > $dir/prefix
    for options in "--n-best 2" "--alternatives 2" --align "--prefix $dir/prefix"; do
        check "$options: the line is one text, and a message says so" "0 translate: line 1: several sentences, which ${options%% *} reads as one text" "$(run $de $options < $dir/in) $(cat $dir/err)"
        check "  and of one sentence none" "0 " "$(head -n 1 $dir/two > $dir/one; run $de $options < $dir/one) $(cat $dir/err)"
        check "  --sentences whole: none" "0 " "$(run $de $options --sentences whole < $dir/in) $(cat $dir/err)"
        check "  --sentences split" "2 translate: --sentences split and ${options%% *} do not go together" "$(run $de $options --sentences split < $dir/in) $(cat $dir/err)"
    done
    check "--sentences some" "2 translate: --sentences some: give split or whole" "$(run $de --sentences some < $dir/in) $(cat $dir/err)"
    check "--sentences whole --document" "2 translate: --sentences whole and --document do not go together" "$(run $de --sentences whole --document < $dir/in) $(cat $dir/err)"
    check "--sentences split --document" "0" "$(run $de --sentences split --document < $dir/in)"
    check "--sentences with --tokens" "2 translate: --sentences and --tokens do not go together" "$(run $de --sentences split --tokens < $dir/in) $(cat $dir/err)"
    check "--score reads a line as one text" "0 1" "$(run $de --score $dir/draft < $dir/in) $(grep -c '^-' $dir/out)"
else skip 60 "no $de"; fi
# A label before a text names the language of all its sentences. U+2029 ends a sentence without a stop, which the toy
# model has no token for.
LC_ALL=C sed 's/\\"positions\\": \\"sinusoidal_per_index\\", \\"embedding_scale\\": 1\.0, \\"position_precision\\": \\"double\\", /\\"languages\\": {\\"fr\\": 3, \\"it\\": 4}, \\"src_language\\": \\"target\\",                                   /' $toy > $dir/languages
printf '>>it<< 我是学生\n>>it<<我是\n>>it<< 学\n' | "$translate" $dir/languages > $dir/each
check "a label before a line is of all its sentences" "0 $(awk 'NR > 1 { printf "\342\200\251" } { printf "%s", $0 } END { print "" }' $dir/each | sed 's/\xe2\x80\xa9/ /g')" \
    "$(printf '>>it<< 我是学生\342\200\251我是\342\200\251学\n' | run $dir/languages --sentences split) $(cat $dir/out)"
counts test_paragraphs
