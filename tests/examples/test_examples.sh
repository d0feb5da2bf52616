# The examples: runs each example, and checks that it prints what its first lines promise.
. tests/check.sh
zh=examples/models/zh-en.safetensors dir=build/test_examples
mkdir -p $dir
model=$zh
translate() { build/translate $model "$@"; }
for example in hello beam streaming background embedded threads scoring modules vectors allowed; do
    build/$example > $dir/$example
    check "$example: exit status" 0 $?
    check "  is short" 1 "$(( $(wc -l < examples/$example.c) <= $(case $example in background | modules) echo 115 ;; *) echo 60 ;; esac) ))"
done
check "embedded: the toy model's translation" "$(wc -c < tests/data/models/toy.safetensors | tr -d ' ') bytes of model: I am a student" "$(cat $dir/embedded)"
check "vectors: by its embeddings and by its memory, as by its ids" "I am a student I am a student" "$(tr '\n' ' ' < $dir/vectors | sed 's/ $//')"
check "modules: the shape of the attention test that every tutorial has" "output  [4, 10, 128]" "$(head -n 1 $dir/modules)"
check "  three weights that add up to 1, and zeros for pads" "yes 7" "$(sed -n 's/.*first query, head 0: //p' $dir/modules |
    awk '{ d = $1 + $2 + $3 - 1; for (i = 4; i <= NF; i++) n += $i == "0.00"; print (d < .02 && d > -.02 && $1 != $2) ? "yes" : "no", n }')"
check "  a window: query 6 sees keys 4 to 6, and its weights add up to 1" "yes 7" "$(sed -n 's/.*query 6, head 0: //p' $dir/modules |
    awk '{ d = $5 + $6 + $7 - 1; for (i = 1; i <= NF; i++) n += $i == "0.00"; print (d < .02 && d > -.02) ? "yes" : "no", n }')"
check "allowed: without the rule, as the command line" "$(echo 'Mein Vater kauft ein neues Auto.' | build/translate examples/models/de-en.safetensors --beam 4)" "$(head -n 1 $dir/allowed)"
check "  with it, six words of the list and no other" "6 0" "$(sed -n 2p $dir/allowed | tr -d . | tr ' ' '\n' | awk -v list="$(sed -n 's/^static const char list.*" \(.*\) ".*/ \1 /p' examples/allowed.c)" '
    { n++; other += !index(list, " " $0 " ") } END { print n, other + 0 }')"
check "background: a translation, as the command line with --document" "zh-en: $(echo '她忘了關窗戶。火车晚了十分钟。' | translate --document) " "$(grep '^zh-en: ' $dir/background)"
check "  the other model at the same time, cancelled" "de-en: cancelled" "$(tail -n 1 $dir/background)"
check "  after at least one sentence, before its last" 1 "$(sed -n 's/^de-en, \([0-9]*\) sent.*/\1/p' $dir/background | tail -n 1 | awk '{ print ($1 >= 1 && $1 < 400) }')"
check "  with beginnings of sentences" 1 "$(( $(grep -c 'then: [A-Z]' $dir/background) > 0 ))"
# Each example with both models: build/german has those for the German one, which german.sed made.
for folder in build build/german; do
    case $folder in
    build) model=$zh out=$dir; text() { echo "$1"; } ;;
    *) model=examples/models/de-en.safetensors out=$dir/german; text() { echo "$1" | sed -f tests/examples/german.sed; }
        mkdir -p $out && build/quantize $model build/german/f32.safetensors f32 > $out/quantize
        for example in hello beam streaming threads scoring vectors; do
            build/german/$example > $out/$example
            check "$example, the German model: exit status" 0 $?
        done
        check "  vectors: the same by its embeddings and by its memory" "2 1" "$(grep -c . $out/vectors) $(sort -u $out/vectors | grep -c .)" ;;
    esac
    check "$folder/hello: as the command line" "$(text '我是学生。' | translate)" "$(cat $out/hello)"
    check "beam: as the command line" "$(text '火车晚了十分钟。' | translate --beam 4 --n-best 3 --length-penalty 1 --scores | sed 's/^1	//; s/	/  /')" "$(cat $out/beam)"
    check "streaming: the parts are the translation" "$(text '如果明天下雨，我们就待在家里。' | translate)" "$(tr -d '|' < $out/streaming)"
    check "  many of them" 1 "$(( $(tr -cd '|' < $out/streaming | wc -c) > 5 ))"
    check "threads: eight lines, as the command line" "$(text "$(sed -n '/^static const char \*const lines/,/;$/p' examples/threads.c | grep -o '"[^"]*"' | tr -d '"')" | translate)" "$(cat $out/threads)"
    check "scoring: the right translation, one word wrong, another sentence" "She forgot to close the window. She forgot to open the window. The train was ten minutes late." \
        "$(sort -rn $out/scoring | sed 's/.*token  //' | tr '\n' ' ' | sed 's/ $//')"
    check "  the mean of what the command line says" "$(text '她忘了關窗戶。' > $dir/in; echo 'She forgot to close the window.' > $dir/target
        translate --score $dir/target --per-token < $dir/in | awk -F'\t' '{ printf "%.2f", $1 / split($2, tokens, " ") }')" "$(awk 'NR == 1 { print $1 }' $out/scoring)"
done
# The README's recipes for a large file must give the output of one run.
recipes=$dir/recipes root=$PWD
rm -rf $recipes && mkdir -p $recipes && ln -s "$root/build" $recipes/build
awk '/^## / { here = /large file in pieces/ } here && /^    / { if (!code) n++; print substr($0, 5) > "'$recipes/'" n ".sh" } { code = /^    / }' examples/translate/README.md
awk 'BEGIN { for (i = 1; i <= 2345; i++) print i % 97 == 5 ? "" : i % 555 == 7 ? "X" : i % 2 ? "我是学生" : "我喜欢学习" }' > $recipes/book.txt
model="$root/tests/data/models/toy.safetensors --sample --temperature 2 --n-best 2 --seed 7 --max-length 9"
export model
(cd $recipes && build/translate $model --keep-going < book.txt > expected 2> told)
recipe() { # arguments: name, script. Prints the output and the messages about lines.
    check "$1: what one run gives" "" "$(cmp $recipes/expected $recipes/out.txt 2>&1)"
    check "  and what it says of lines" "$(grep ' line ' $recipes/told | sort)" "$(grep ' line ' $recipes/said | sort)"
    rm -f $recipes/out*
}
set -- $recipes/*.sh
check "three recipes" 3 $#
if command -v parallel > /dev/null; then
    (cd $recipes && sh "$root/$1" 2> said); recipe "parallel"
else skip 2 "no GNU parallel"; fi
(cd $recipes && sh "$root/$2" 2> said); recipe "split and xargs"
(cd $recipes && for i in 0 1 2; do SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_PER_TASK=2 sh "$root/$3"; done 2> said; cat out.* > out.txt); recipe "array"
check "make web without a compiler for WebAssembly: which packages to install" "    apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32" \
    "$(MAKEFLAGS='' make -s CLANG=none build/web/transformer.wasm 2>&1 | grep apt-get)"
counts test_examples
