# Tests forward and inspect as programs: outputs on golden ids, faults, exit statuses.
. tests/check.sh
model=tests/data/models/seed3_dv.safetensors
ssru=tests/data/models/ssru.safetensors
dir=build/test_forward
mkdir -p $dir
status() { "$@" > $dir/out 2> $dir/err; echo $?; }
# src [1, 3] and tgt [1, 2], I32, byte by byte: length of the header, header, data
header='{"src":{"dtype":"I32","shape":[1,3],"data_offsets":[0,12]},"tgt":{"dtype":"I32","shape":[1,2],"data_offsets":[12,20]}} '
printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" > $dir/in
printf '\3\0\0\0\4\0\0\0\5\0\0\0\0\0\0\0\7\0\0\0' >> $dir/in
check "a pass with attention" 0 "$(status build/forward $model $dir/in $dir/result --attention)"
check "  writes all five tensors" "attention logits memory" \
    "$(head -c 600 $dir/result | grep -aoE 'attention|logits|memory' | sort -u | tr '\n' ' ' | sed 's/ $//')"
check "  logits are [1, 2, 40]" 1 "$(head -c 600 $dir/result | grep -acF '"logits":{"dtype":"F32","shape":[1,2,40]')"
cp $dir/result $dir/first
check "repeated" 0 "$(status build/forward $model $dir/in $dir/result --attention --repeat 3)"
check "  the same bytes" "" "$(cmp $dir/first $dir/result 2>&1)"
check "  the median is printed" 1 "$(grep -c '^median of 3 passes: ' $dir/out)"
check "not causal differs" 1 "$(build/forward $model $dir/in $dir/result --attention --not-causal; cmp -s $dir/first $dir/result; echo $?)"
check "SSRUs have no attention of their own" "0 cross_attention encoder_attention" \
    "$(status build/forward $ssru $dir/in $dir/result --attention) $(head -c 600 $dir/result | grep -aoE '[a-z]+_attention' | sort -u | tr '\n' ' ' | sed 's/ $//')"
rm -f $dir/result
check "no model: exit status 1" 1 "$(status build/forward nowhere $dir/in $dir/result)"
check "ids that are no file of tensors" 1 "$(status build/forward $model README.md $dir/result)"
check "ids without tgt" "1 forward: $model: tensor" "$(status build/forward $model $model $dir/result) $(cut -d' ' -f1-3 $dir/err)"
check "usage: exit status 2" 2 "$(status build/forward $model)"
check "  and nothing was written" "" "$(ls $dir/result* 2> /dev/null)"
check "inspect" 0 "$(status build/inspect $model --tensors --src 7 --tgt 5)"
check "  lists every tensor" "[30, 24]" "$(sed -n "s/^ *src_embedding.weight *F32 .*\(\[.*\]\)\$/\1/p" $dir/out)"
check "  counts SSRUs" "0 2" "$(status build/inspect $ssru) $(sed -n 's/^ *of them SSRUs *//p' $dir/out)"
for name in t5gemma t5gemma2; do
    gemma=tests/data/models/$name.safetensors
    check "$name with attention" 0 "$(status build/forward $gemma $dir/in $dir/one --attention)"
    check "  inspect shows groups, rotary positions, windows and caps" "0 2 6 3,1 8 " \
        "$(status build/inspect $gemma --src 7 --tgt 5) $(sed -n 's/^  n_kv_heads  *//p; s/^  d_rotary  *//p; s/^  decoder_windows .*0, \(3\), \(1\)]/\1,\2/p; s/^  logit_cap  *//p' $dir/out | tr '\n' ' ')"
    check "  a packed file has the same bytes" "0 0 " "$(status build/quantize $gemma $dir/packed f32 --packed) $(status build/forward $dir/packed $dir/in $dir/two --attention) $(cmp $dir/one $dir/two 2>&1)"
    check "  int8, and packed int8: the same bytes" "0 0 0 0 " "$(status build/quantize $gemma $dir/int8 int8) $(status build/forward $dir/int8 $dir/in $dir/one) $(status build/quantize $gemma $dir/packed int8 --packed) $(status build/forward $dir/packed $dir/in $dir/two) $(cmp $dir/one $dir/two 2>&1)"
    for work in encode-1x32 forward greedy-1; do
        check "  bench counts the operations of $work that the formula says, inside the windows" 0 "$(build/bench $gemma --ids --only $work --source 2 --target 3 --repeat 1 --json |
            sed -n 's/.*"operations": \([0-9]*\), "operations_counted": \([0-9]*\),.*/\1 \2/p' | awk '{ n++; if ($1 != $2) bad++ } END { print n == 1 ? bad + 0 : "none" }')"
    done
done
rm -f $dir/one $dir/two $dir/packed $dir/int8
# The metadata contain characters that a terminal would obey: escape, bell, C1 and line breaks; and the tensor
# belongs to no model.
hostile() { # arguments: path, license. Writes the model with these metadata.
    length=$(od -An -tu8 -N8 $model)
    header="{\"__metadata__\":{\"license\":\"$2\",$(head -c $((8 + length)) $model | tail -c +26)"
    printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0%s" "$header" > "$1"
    tail -c +$((9 + length)) $model >> "$1"
}
hostile $dir/hostile 'A\u001b]0;x\u0007B\u009bC\nD\u202eE é'
check "inspect of control characters" 0 "$(status build/inspect $dir/hostile)"
check "  shows them" 1 "$(grep -cF 'license              A\x1b]0;x\x07B\u009bC\x0aD\u202eE é' $dir/out)"
check "  and sends none" 0 "$(LC_ALL=C tr -d '\n -~\303\251' < $dir/out | wc -c)"
cp $dir/in $dir/own
check "forward onto its own input" "2 forward: $dir/own: is also an input file" "$(status build/forward $model $dir/own $dir/own) $(cat $dir/err)"
check "  which is whole" "" "$(cmp $dir/in $dir/own 2>&1)"
ln -sf own $dir/link
check "forward onto a link" "1 forward: $dir/link: is a symbolic link, name the file itself" "$(status build/forward $model $dir/in $dir/link) $(cat $dir/err)"
check "inspect of no model" 1 "$(status build/inspect README.md)"
check "inspect, usage" 2 "$(status build/inspect)"
check "inspect, workers on a machine" "0 6" "$(status build/inspect $model --cores 8 --bandwidth 20 --rate 100) $(grep -cE '^ +(1|4|16|32|64|128) ' $dir/out)"
check "  where memory is what holds them, it feeds bandwidth / one core" "4.0 4.00" "$(build/inspect $model --cores 8 --bandwidth 20 --one-core 5 --rate 1000000 | awk '$1 == 1 && NF == 6 { print $6, $5 }')"
check "  in the cache all grow" "8.00 all" "$(build/inspect $model --cores 8 --bandwidth 20 --cache 1000 | awk '$1 == 16 { print $5, $6 }')"
# Threads inside a session: steps that are large enough take 1 / n of the time, and each wait is added.
threads() { build/inspect $model --cores 16 --bandwidth 1000 --one-core 1000 "$@" | sed -n 's/^  \(encode\|greedy\), batch of \([0-9]*\) /\1\2 /p'; }
check "inspect, threads of a session" "encode1 encode8 greedy1 greedy32" "$(threads | awk '{ printf "%s%s", s, $1; s = " " }')"
check "  small steps are not divided" "0 100%" "$(threads | awk '$1 == "greedy1" { print $6, $7 }')"
check "  long ones are divided" "2.00 4.00" "$(threads --src 4096 --wait 0 --products 1 --attention 1 | awk '$1 == "encode8" { printf "%.2f %.2f\n", $2 / $5, $2 / $8 }')"
check "  each wait takes time" "yes" "$(threads --src 4096 --wait 1000 --products 1 | awk '$1 == "encode8" { w = 1.5 * $6; d = $5 - w; print (d > 0 && $2 / d > 1.95 && $2 / d < 2.05) ? "yes" : "no" }')"
check "  cores without bandwidth" 2 "$(status build/inspect $model --cores 8)"
check "inspect --picture" "0 8" "$(status build/inspect $ssru --picture $dir/a.svg) $(grep -c '<text.*bytes</text>\|<text.*kB</text>' $dir/a.svg)"
check "  is well-formed, equal layers are one" "well-formed 1" "$(awk "$well_formed" $dir/a.svg) $(grep -c '× 2<' $dir/a.svg)"
check "  onto the model" "2 inspect: $dir/own: is also the input file" "$(cp $ssru $dir/own; status build/inspect $dir/own --picture $dir/own) $(cat $dir/err)"
check "  nowhere" "1" "$(status build/inspect $ssru --picture $dir/nowhere/a.svg)"
# Every option of decoding that the file has is shown.
length=$(od -An -tu8 -N8 $model)
text=$(head -c $((8 + length)) $model | tail -c +9)
given='\"n_best\": 2, \"beam\": 3, \"coverage_penalty\": 0.25, \"temperature\": 0.5, \"end_ids\": [1, 7], \"stop\": \"early_true\", \"attention_layer\": 2'
text="${text%%'{\"n_heads'*}{\\\"decoding\\\": {$given}, \\\"n_heads${text#*'{\"n_heads'}"
while [ $(((8 + ${#text}) % 64)) != 0 ]; do text="$text "; done
{ printf "\\$(printf %o $((${#text} % 256)))\\$(printf %o $((${#text} / 256)))\\0\\0\\0\\0\\0\\0%s" "$text"; tail -c +$((9 + length)) $model; } > $dir/says
check "inspect of decoding options" "0 attention_layer:2 beam:3 coverage_penalty:0.25 end_ids:1,7 n_best:2 stop:early_true temperature:0.5" \
    "$(status build/inspect $dir/says) $(awk '/^decoding/ { on = 1; next } on && !/^  / { exit } on { v = $2; for (i = 3; i <= NF; i++) v = v "," $i; print $1 ":" v }' $dir/out | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"
# --texts: a text to ids, and ids to a text, with the toy's words. tgt [1, 2] and texts [N], byte by byte.
toy=tests/data/models/toy.safetensors
words="我是学生"; n=$(printf %s "$words" | wc -c)
header="{\"tgt\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[0,8]},\"texts\":{\"dtype\":\"U8\",\"shape\":[$((n + 1))],\"data_offsets\":[8,$((n + 9))]}}"
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\4\\0\\0\\0\\5\\0\\0\\0%s\\0" "$header" "$words" > $dir/texts
check "forward --texts" "0" "$(status build/forward $toy $dir/texts $dir/result --texts)$(cat $dir/err)"
check "  writes ids and texts" "ids texts" "$(head -c 200 $dir/result | grep -aoE '"(ids|texts)"' | tr -d '"' | sort | tr '\n' ' ' | sed 's/ $//')"
check "  without texts" "1 forward: $dir/in: tensor 'texts' is missing" "$(status build/forward $toy $dir/in $dir/result --texts) $(cat $dir/err)"
check "texts without --texts" "1 forward: $dir/texts: tensor 'texts' is none of src, tgt, src_lengths, tgt_lengths" "$(status build/forward $toy $dir/texts $dir/result) $(cat $dir/err)"
counts test_forward
