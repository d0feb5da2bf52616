# Options that the translator would ignore in silence. Each option runs with each kind of input and of search. The
# run must be refused with a message that names the option, or its output must differ from that of the run without
# the option, or --help says that the option changes nothing there: those combinations are what a check expects.
. tests/check.sh
translate=build/translate toy=tests/data/models/toy.safetensors de=examples/models/de-en.safetensors
dir=build/test_options
mkdir -p $dir
printf '我是学生\n我喜欢学习\n\n我是男生 5 kg\n我Q\n' > $dir/lines
printf '我 是 学 生\n我 喜 欢 学 习\n\n我 是 男 生\n我 Q\n' > $dir/tokens
printf '我是学生\t我\n我喜欢学习\t我是男生\n\n5 kg\t5\n我Q\t我\n' > $dir/table
printf '1\n00:00:01,000 --> 00:00:02,000\n我是\n学生\n\n2\n00:00:09,000 --> 00:00:12,000\n- 5 kg\n\n3\n00:00:13,000 --> 00:00:14,000\n- 我Q\n' > $dir/srt
printf '<html lang="zh"><p>我是学生</p><p>5 kg</p><p>我喜欢学习</p><p>我Q</p></html>' > $dir/html
printf '我是学生\n\n5 kg\n\n我喜欢学习\n\n我Q\n' > $dir/text
printf '我是学生我是学生\n我喜欢学习\n\n5 kg\n\n我Q\n' > $dir/folded
printf 'I am a student\nI like learning\n\nI am a boy\nI\n' > $dir/targets
printf 'I like\n\n\n\n\n' > $dir/prefix
printf '学生\tpupil\n' > $dir/terms
printf 'Er sieht die Frau mit dem Fernrohr auf dem alten Berg.\n' > $dir/de
each() { # model, options and kinds: files; prints each combination whose option changes nothing
    while IFS='|' read -r file kind; do
        # shellcheck disable=SC2086 # kind and option hold several words
        "$translate" "$1" $kind < "$dir/$file" > $dir/before 2>&1
        while read -r option; do
            case " $kind " in *" ${option%%[= ]*} "*) continue ;; esac
            rm -f $dir/made
            # shellcheck disable=SC2086
            "$translate" "$1" $kind $option < "$dir/$file" > $dir/after 2>&1
            if [ $? = 2 ]; then
                case $(cat $dir/after) in *" ${option%% *}"* | *"${option%%=*}"* | *"code 'fra'"* | *"not 'fra'"*) ;; *) echo "$kind|$option|$(cat $dir/after)" ;; esac
            elif cmp -s $dir/before $dir/after && [ ! -s $dir/made ]; then echo "$kind|$option"
            fi
        done < "$2"
    done < "$3"
}
cat > $dir/options << END
--document
--html
--lang en
--markdown
--wrapped
--width 20
--srt
--cue-width 4
--cue-lines 1
--tokens
--protect
--terms $dir/terms
--column 2
--first-line 7
--verbose
--max-length 2
--min-length 9
--max-source 3
--from fra
--to fra
--via fra
--prefix $dir/prefix
--alternatives 2
--shortlist
--temperature 50
--top-k 2
--top-p 0.01
--seed 5
--score $dir/targets
--per-token
-o $dir/made
--progress
--keep-end
--scores
--scores=tokens
--n-best 2
--align
--attention $dir/made
END
cat > $dir/kinds << END
lines|--no-repeat-ngram 9
text|--document
html|--html
text|--markdown --min-length 8
folded|--wrapped --min-length 8
srt|--srt
tokens|--tokens
table|--column 1
lines|--protect
lines|--terms $dir/terms
lines|--scores
lines|--n-best 3
lines|--alternatives 3
lines|--score $dir/targets
END
each $toy $dir/options $dir/kinds > $dir/found
check "each option acts with each kind of input, or is refused by name" "--score $dir/targets|--scores" "$(cat $dir/found)"
if [ -e $de ]; then
    cat > $dir/search << END
--beam 9
--length-penalty -9
--no-repeat-ngram 1
--repetition-penalty 9
--sample
--temperature 50
--top-k 2
--top-p 0.01
--seed 5
END
    cat > $dir/kinds << END
de|--max-length 12
de|--max-length 12 --document
de|--max-length 12 --beam 4
de|--max-length 12 --n-best 2
de|--max-length 12 --scores
de|--max-length 12 --alternatives 2
de|--max-length 12 --sample --temperature 3
de|--max-length 12 --sample --temperature 3 --scores
END
    cat > $dir/same << END
--max-length 12|--length-penalty -9
--max-length 12 --document|--length-penalty -9
--max-length 12 --alternatives 2|--length-penalty -9
--max-length 12 --sample --temperature 3|--length-penalty -9
END
    each $de $dir/search $dir/kinds > $dir/found
    check "  and each option of search and sampling" "$(cat $dir/same)" "$(cat $dir/found)"
    printf 'Der Hund singt laut. Ich bin müde.\n5 kg\n\n\n\377\n' > $dir/de
    echo "de|$de --no-repeat-ngram 9" > $dir/kinds
    each $de $dir/options $dir/kinds > $dir/found
    check "  and each option with two models" "" "$(cat $dir/found)"
fi
counts test_options
