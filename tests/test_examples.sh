# The examples: each is run, and what it prints is what its first lines promise.
. tests/check.sh
zh=examples/models/zh-en.safetensors dir=build/test_examples
mkdir -p $dir
translate() { build/translate $zh "$@"; }
for example in hello beam streaming embedded threads scoring modules; do
    build/$example > $dir/$example
    check "$example: exit status" 0 $?
    check "  is at most 60 lines" 1 "$(( $(wc -l < examples/$example.c) <= 60 ))"
done
check "embedded: the toy model's translation" "$(wc -c < tests/data/models/toy.safetensors | tr -d ' ') bytes of model: I am a student" "$(cat $dir/embedded)"
check "modules: the shape of the attention test that every tutorial has" "output  [4, 10, 128]" "$(head -n 1 $dir/modules)"
check "  three weights that add up to 1, and zeros for pads" "yes 7" "$(sed -n 's/.*head 0: //p' $dir/modules |
    awk '{ d = $1 + $2 + $3 - 1; for (i = 4; i <= NF; i++) n += $i == "0.00"; print (d < .02 && d > -.02 && $1 != $2) ? "yes" : "no", n }')"
check "hello: as the command line" "$(echo '我是学生。' | translate)" "$(cat $dir/hello)"
check "beam: as the command line" "$(echo '火车晚了十分钟。' | translate --beam 4 --n-best 3 --length-penalty 1 --scores | sed 's/^1	//; s/	/  /')" "$(cat $dir/beam)"
check "streaming: the parts are the translation" "$(echo '如果明天下雨，我们就待在家里。' | translate)" "$(tr -d '|' < $dir/streaming)"
check "  many of them" 1 "$(( $(tr -cd '|' < $dir/streaming | wc -c) > 5 ))"
check "threads: eight lines, as the command line" "$(sed -n '/^static const char \*const lines/,/;$/p' examples/threads.c | grep -o '"[^"]*"' | tr -d '"' | translate)" "$(cat $dir/threads)"
check "scoring: the right translation, one word wrong, another sentence" "She forgot to close the window. She forgot to open the window. The train was ten minutes late." \
    "$(sort -rn $dir/scoring | sed 's/.*token  //' | tr '\n' ' ' | sed 's/ $//')"
check "  the mean of what the command line says" "$(echo '她忘了關窗戶。' > $dir/in; echo 'She forgot to close the window.' > $dir/target
    translate --score $dir/target --per-token < $dir/in | awk -F'\t' '{ printf "%.2f", $1 / split($2, tokens, " ") }')" "$(awk 'NR == 1 { print $1 }' $dir/scoring)"
counts test_examples
