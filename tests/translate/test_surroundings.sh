# What people write around a sentence does not change its translation: labels, reference marks, brackets, emoji and
# unseen characters, in lines and in documents; text in capitals, of the target language, without letters and without
# end; what is counted; and --plain, which gives each line to the model as it is.
. tests/check.sh
translate=build/translate dir=build/test_surroundings
mkdir -p $dir
run() { # Prints the exit status of the translator. Its standard output and error are in files.
    "$translate" "$@" > $dir/out 2> $dir/err
    echo $?
}
of() { # model, options: the translation of standard input
    "$translate" "$@" 2> $dir/err
}
around() { # model file, what is checked, before, after, options: each sentence of $dir/sentences with these around it
    with=$1 name=$2 before=$3 after=$4
    shift 4
    awk -v a="$before" -v b="$after" '{ print a $0 b }' $dir/sentences > $dir/in
    awk -v a="$before" -v b="$after" '{ print a $0 b }' $dir/plain > $dir/expected
    check "$name" "" "$(of "$with" "$@" < $dir/in | cmp $dir/expected - 2>&1)"
}
tab=$(printf '\t')
for model in de zh; do
    file=examples/models/$model-en.safetensors
    if [ ! -f $file ]; then skip 43 "no $file"; continue; fi
    if [ $model = de ]; then printf 'Meine Schwester wohnt in einer kleinen Stadt.\nWir haben gestern lange gewartet.\nDer Lehrer liest ein Buch.\n'
    else printf '我妹妹住在一个小城市。\n我们昨天等了很久。\n老师在看书。\n'; fi > $dir/sentences
    of $file < $dir/sentences > $dir/plain
    check "$model: plain sentences are as with --plain" "" "$(of $file --plain < $dir/sentences | cmp $dir/plain - 2>&1)"
    for label in '- ' '• ' '— ' '3. ' '4) ' 'b) ' '(c) ' '(2) ' '[7] ' '2.3 ' '2.3.4 ' '§ 7 ' '* ' '☐ ' "5.$tab" 'IV. ' '① ' '> ' '😀 ' '[gähnt] '; do
        around $file "  label '$label'" "$label" ''
    done
    around $file "  notes of music" '♪ ' ' ♪'
    around $file "  an emoji behind" '' ' 🎉'
    around $file "  a reference mark" '' '[12]'
    around $file "  brackets" '(' ')'
    around $file "  brackets and a mark" '- [' '](3)'
    around $file "  in HTML" '<li>4. ' '</li>' --html
    around $file "  in HTML with a mark" '<p>• ' '[2]</p>' --html
    sed 's/^/„/; s/$/“/' $dir/sentences > $dir/in
    sed 's/^/“/; s/$/”/' $dir/plain > $dir/expected
    check "  quotation marks are those of the translation" "" "$(of $file < $dir/in | cmp $dir/expected - 2>&1)"
    awk '{ print NR "\n00:00:0" 2 * NR ",000 --> 00:00:0" 2 * NR + 1 ",000\nANNA: " $0 "\n" }' $dir/sentences > $dir/in
    check "  speakers in subtitles" "" "$(of $file --srt < $dir/in | sed -n 's/^ANNA: //p' | cmp $dir/plain - 2>&1)"
    printf '1. https://a.org/b?c=1\n- www.a.org\n2.3 max@a.org\n' > $dir/in
    check "  a label and an address" "" "$(of $file < $dir/in | cmp $dir/in - 2>&1)"
    printf '<p lang=fr>Bonjour.</p>\n<p lang=und>%s</p>\n' "$(sed 1q $dir/sentences)" > $dir/in
    printf '<p lang=fr>Bonjour.</p>\n<p lang=und>%s</p>\n' "$(sed 1q $dir/plain)" > $dir/expected
    check "  HTML says another language" "" "$(of $file --html < $dir/in | cmp $dir/expected - 2>&1)"
    check "  and that is counted" 1 "$(grep -c '1 texts stay as they are.*--all-languages' $dir/err)"
    mark='[3]' # behind each sentence of one line
    awk -v m="$mark" -v s="$([ $model = de ] && echo ' ')" '{ printf "%s%s%s", (NR > 1 ? s : ""), $0, m } END { print "" }' $dir/sentences > $dir/in
    awk -v m="$mark" '{ printf "%s%s%s", (NR > 1 ? " " : ""), $0, m } END { print "" }' $dir/plain > $dir/expected
    check "  marks between sentences end them" "" "$(of $file < $dir/in | cmp $dir/expected - 2>&1)"
    printf '1. %s\tx\n' "$(sed 1q $dir/sentences)" | of $file --column 1 > $dir/out
    check "  --column keeps the label" "1. $(sed 1q $dir/plain)${tab}x" "$(cat $dir/out)"
    sed 's/^/1. /' $dir/sentences | of $file --beam 2 --n-best 2 | cut -f 2 | grep -v '^1\. ' > $dir/out
    check "  and --n-best, in each row" "" "$(cat $dir/out)"
    sed 's/^/1. /' $dir/sentences > $dir/in
    for option in "--score $dir/in" "--prefix $dir/empty" "--drafts $dir/in" "--alternatives 2" --align "--attention $dir/a.svg" --tokens; do
        printf '\n\n\n' > $dir/empty
        # shellcheck disable=SC2086 # option holds several words
        of $file $option < $dir/in > $dir/one
        # shellcheck disable=SC2086
        of $file $option --plain < $dir/in > $dir/two
        check "  ${option%% *}: a line is plain" "" "$(cmp $dir/one $dir/two 2>&1)"
    done
    printf 'The weather is very nice today.\nWe have to go home now.\nMy friends are waiting for you.\n' > $dir/in
    check "  sentences of the target language stay" "0 translate: 3 sentences stay as they are" "$(run $file < $dir/in) $(cat $dir/err)"
    check "    letter for letter" "" "$(cmp $dir/in $dir/out 2>&1)"
    check "    and --all-languages translates them" "0 0" "$(run $file --all-languages < $dir/in) $(cmp -s $dir/in $dir/out && echo same)$(grep -c stay $dir/err)"
    sed 's/.*/<p>&<\/p>/' $dir/in > $dir/html
    check "    in HTML, too" "0 translate: 3 sentences stay as they are" "$(run $file --html < $dir/html) $(cmp $dir/html $dir/out 2>&1)$(cat $dir/err)"
    check "  another script stays" "0 Το σπίτι είναι μεγάλο. translate: 1 sentence stays as it is" "$(echo 'Το σπίτι είναι μεγάλο.' | run $file) $(cat $dir/out $dir/err | tr '\n' ' ' | sed 's/ $//')"
    sed -n '1s/[.。]*$/ Ωραία Ωραία./p' $dir/sentences | run $file > $dir/status
    check "  unknown tokens are counted" 1 "$(grep -c '1 sentence with unknown tokens' $dir/err)"
    awk 'BEGIN { for (i = 0; i < 2000; i++) printf "- "; print ""; for (i = 0; i < 1000; i++) printf "%d ", i * 7; print ""; print "12,5 + 3 = 15,5 !" }' > $dir/in
    sed 's/ *$//' $dir/in > $dir/expected
    check "  text without letters is copied" "0 0 " "$(run $file < $dir/in) $(wc -c < $dir/err | tr -d ' ') $(sed 's/ *$//' $dir/out | cmp $dir/expected - 2>&1)"
    awk 'BEGIN { for (i = 0; i < 10000; i++) printf "1! "; print "" }' > $dir/in
    check "  10,000 sentences without a letter" "0 20000" "$(run $file < $dir/in) $(tr -d ' \n' < $dir/out | wc -c | tr -d ' ')"
    sed 's/[.。]*$/ /' $dir/sentences | tr -d '\n' > $dir/one
    awk '{ for (i = 0; i < 40; i++) printf "%s, ", $0; print "" }' $dir/one > $dir/in
    check "  a sentence without end is divided, and counted" "0 translate: 1 sentence divided, because it has no end in sight" "$(run $file < $dir/in) $(grep divided $dir/err)"
    check "    and nothing but it: a long address is copied" 1 "$(awk 'BEGIN { printf "https://example.org/"; for (i = 0; i < 700; i++) printf "a%dB", i; print "" }' > $dir/in; of $file < $dir/in | cmp -s $dir/in - && echo 1)"
done
file=examples/models/de-en.safetensors
if [ -f $file ]; then
    printf 'Meine Schwester wohnt in einer kleinen Stadt.\nWir haben gestern lange gewartet.\nDer Lehrer liest ein Buch.\n' > $dir/sentences
    of $file < $dir/sentences | tr '[:lower:]' '[:upper:]' > $dir/expected
    printf 'MEINE SCHWESTER WOHNT IN EINER KLEINEN STADT.\nWIR HABEN GESTERN LANGE GEWARTET.\nDER LEHRER LIEST EIN BUCH.\n' > $dir/in
    check "capitals: the translation of the sentences, in capitals" "" "$(of $file < $dir/in | cmp $dir/expected - 2>&1)"
    check "  with --protect, too" "" "$(of $file --protect < $dir/in | cmp $dir/expected - 2>&1)"
    sed 's/.*/<h1>&<\/h1>/' $dir/expected > $dir/html
    check "  in HTML" "" "$(sed 's/.*/<h1>&<\/h1>/' $dir/in | of $file --html | cmp $dir/html - 2>&1)"
    printf 'Meine Schwe\302\255ster wohnt in einer kleinen Stadt.\nWir haben ges\342\200\213tern lange gewartet.\nDer Leh\342\201\240rer liest ein Buch.\n' > $dir/in
    check "unseen characters in a word leave" "" "$(of $file < $dir/sentences > $dir/plain; of $file < $dir/in | cmp $dir/plain - 2>&1)"
    check "  but with --plain they stay for the model" 1 "$(of $file --plain < $dir/in | cmp -s $dir/plain - || echo 1)"
    printf 'Der \342\201\250Lehrer\342\201\251 liest ein Buch.\n' > $dir/in
    check "  isolates come back around their word" "$(printf 'The \342\201\250teacher\342\201\251 is reading a book.')" "$(of $file < $dir/in)"
    check "  in HTML as references" "$(printf '<p>The \342\201\250teacher\342\201\251 is reading a book.</p>')" "$(echo '<p>Der &#x2068;Lehrer&#x2069; liest ein Buch.</p>' | of $file --html)"
    for span in anna@example.com 'DE12 5001 0517 0648 4898 90' '030 1234567' 'GB29 NWBK 6016 1331 9268 19' '4111 1111 1111 1111' https://example.org/x?a=1 '1.299,99 €'; do
        check "'$span' is copied in documents" "<p>My sister is waiting here, $span.</p>" "$(echo "<p>Meine Schwester wartet hier, $span.</p>" | of $file --html)"
    done
    check "  but not with --no-protect" "" "$(echo '<p>Meine Schwester wartet hier, DE12 5001 0517 0648 4898 90.</p>' | of $file --html --no-protect | grep '4898 90')"
    check "two models: labels stay" "0 3. " "$([ -f examples/models/zh-en.safetensors ] && echo '3. 老师在看书。' | run examples/models/zh-en.safetensors $file --all-languages) $(cut -c 1-3 $dir/out)"
fi
counts test_surroundings
