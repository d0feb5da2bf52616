# Tests quantize as a program: its output for known numbers and for a model, and its messages for faulty
# files.
. tests/check.sh
quantize=build/quantize model=tests/data/models/seed3_dv.safetensors zh=examples/models/zh-en.safetensors
german=examples/models/de-en.safetensors
dir=build/test_quantize
umount $dir/full 2> /dev/null # left by a run that was interrupted
rm -rf $dir && mkdir -p $dir
status() { "$@" > $dir/out 2> $dir/err; echo $?; }
file() { # arguments: path, header, data as printf writes them
    printf "\\$(printf %o $((${#2} % 256)))\\$(printf %o $((${#2} / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" > "$1"
    printf "$3" >> "$1"
}
header() { head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9; }
data() { # arguments: path, tensor, format of od
    set -- "$1" "$3" $(header "$1" | grep -ao "\"$2\":{[^}]*" | sed 's/.*offsets":\[\([0-9]*\),\([0-9]*\)\]/\1 \2/')
    od -An -v "-t$2" -j $((8 + $(od -An -tu8 -N8 "$1") + $3)) -N $(($4 - $3)) "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}
# a [2, 4]: 127 2.5 3.5 -0.5, and zeros; b [2]: 1.5 -2; c: the U8 7 8 9
a='\0\0\376\102\0\0\040\100\0\0\140\100\0\0\0\277\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
file $dir/in '{"__metadata__":{"k":"a \"b\" \\ \u0001"},"a.weight":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},"b.bias":{"dtype":"F32","shape":[2],"data_offsets":[32,40]},"c":{"dtype":"U8","shape":[3],"data_offsets":[40,43]}}' \
    "$a"'\0\0\300\77\0\0\0\300\7\10\11'
check "int8" 0 "$(status $quantize $dir/in $dir/int8 int8)"
check "  ties go to even" "127 2 4 0 0 0 0 0" "$(data $dir/int8 a.weight d1)"
check "  a scale a row, 0 for zeros" "1 0" "$(data $dir/int8 a.weight_scale f4)"
check "  biases stay" "1.5 -2" "$(data $dir/int8 b.bias f4)"
check "  bytes stay" "7 8 9" "$(data $dir/int8 c u1)"
check "  metadata stay" '"__metadata__":{"k":"a \"b\" \\ \u0001"}' "$(header $dir/int8 | grep -o '"__metadata__":{[^}]*}')"
check "  data begin at a multiple of 64" 0 "$((($(od -An -tu8 -N8 $dir/int8) + 8) % 64))"
check "  it says how far off: half a scale" 1 "$(grep -c '^F32 to I8 *1 tensors *32 -> *8 bytes *largest error 0.0039 ' $dir/out)"
check "--bits 7" "0 63 1 2 0 0 0 0 0 2.015873 0" "$(status $quantize $dir/in $dir/seven int8 --bits 7) $(data $dir/seven a.weight d1) $(data $dir/seven a.weight_scale f4)"
check "  it says how far off: 3.5 is 4.03" 1 "$(grep -c '^F32 to I8 *1 tensors *32 -> *8 bytes *largest error 0.0042 ' $dir/out)"
check "  of int8: the same q" "0 63 1 2 0 0 0 0 0 2.015873 0" "$(status $quantize $dir/int8 $dir/again int8 --bits 7) $(data $dir/again a.weight d1) $(data $dir/again a.weight_scale f4)"
check "  of 7 bits: nothing changes" "0 63 1 2 0 0 0 0 0 2.015873 0" "$(status $quantize $dir/seven $dir/again int8 --bits 7) $(data $dir/again a.weight d1) $(data $dir/again a.weight_scale f4)"
check "  8 is the default" "0 " "$(status $quantize $dir/in $dir/again int8 --bits 8) $(cmp $dir/int8 $dir/again 2>&1)"
# a [1, 4] of I8: -128 64 -64 63 with scale 1; b [1, 4]: 63 -63 0 1 with scale 2
file $dir/edge '{"a.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"a.weight":{"dtype":"I8","shape":[1,4],"data_offsets":[8,12]},"b.weight":{"dtype":"I8","shape":[1,4],"data_offsets":[12,16]}}' \
    '\0\0\200\77\0\0\0\100\200\100\300\77\77\301\0\1'
check "  of -128, and of a matrix that fits" "0 -63 32 -32 31 2.0317461 63 -63 0 1 2" \
    "$(status $quantize $dir/edge $dir/again int8 --bits 7) $(data $dir/again a.weight d1) $(data $dir/again a.weight_scale f4) $(data $dir/again b.weight d1) $(data $dir/again b.weight_scale f4)"
for bits in 6 9 7.5 -7; do check "  and none of $bits" "2 quantize: --bits takes a number from 7 to 8, not '$bits'" "$(status $quantize $dir/in $dir/again int8 --bits $bits) $(cat $dir/err)"; done
for type in f16 bf16 f32; do check "  nor of $type" "2 quantize: --bits is for int8, and the type is $type" "$(status $quantize $dir/in $dir/again $type --bits 7) $(cat $dir/err)"; done
check "int8 to f32" 0 "$(status $quantize $dir/int8 $dir/f32 f32)"
check "  the integers, and no scales" "127 2 4 0 0 0 0 0 " "$(data $dir/f32 a.weight f4) $(header $dir/f32 | grep -o _scale)"
check "int8 to int8: the same file" "0 " "$(status $quantize $dir/int8 $dir/again int8) $(cmp $dir/int8 $dir/again 2>&1)"
# 1 + 1/256 and 1 + 3/256 are ties of bf16, 1 + 1/256 + 2^-23 is above one; -1
file $dir/in '{"a.weight":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]}}' '\0\200\200\77\0\200\201\77\1\200\200\77\0\0\200\277'
check "bf16: ties go to even" "0 3f80 3f82 3f81 bf80" "$(status $quantize $dir/in $dir/bf16 bf16) $(data $dir/bf16 a.weight x2)"
check "  and back" "0 1 1.015625 1.0078125 -1" "$(status $quantize $dir/bf16 $dir/f32 f32) $(data $dir/f32 a.weight f4)"
check "f16 has room for them" "0 3c04 3c0c 3c04 bc00" "$(status $quantize $dir/in $dir/f16 f16) $(data $dir/f16 a.weight x2)"

check "a model" 0 "$(status $quantize $model $dir/model int8)"
check "  has I8 with scales" 2 "$(header $dir/model | grep -o '"src_embedding.weight[a-z_]*":{"dtype":"[IF0-9]*"' | grep -cE 'weight":{"dtype":"I8"|_scale":{"dtype":"F32"')"
check "  and f32 again" 0 "$(status $quantize $dir/model $dir/f32.safetensors f32)"
check "  is a model of the same shape" "" "$(build/inspect $model | grep -A4 ^parameters > $dir/a; build/inspect $dir/f32.safetensors | grep -A4 ^parameters | cmp $dir/a - 2>&1)"
check "the shipped model as f32" 0 "$(status $quantize $zh $dir/zh.safetensors f32)"
check "  and as bytes once more" 0 "$(status $quantize $dir/zh.safetensors $dir/zh8.safetensors int8)"
if (ulimit -d 4000 && $quantize --help) > /dev/null 2>&1 && [ "$(uname)" = Linux ]; then
    check "  tensor by tensor: 20 MB in 4" 0 "$(ulimit -d 4000; status $quantize $dir/zh.safetensors $dir/zh8.safetensors int8)"
else skip 1 "this build does not start where memory has a limit"; fi
check "  which are the same bytes" "$(data $zh encoder.layers.0.linear1.weight x1 | cksum)" "$(data $dir/zh8.safetensors encoder.layers.0.linear1.weight x1 | cksum)"
check "  and translate alike" "" "$(head -n 3 examples/translate/demo.txt | build/translate $zh > $dir/a; head -n 3 examples/translate/demo.txt | build/translate $dir/zh8.safetensors | cmp $dir/a - 2>&1)"
check "inspect counts types" 1 "$(build/inspect $zh | grep -cE '^  I8 +[0-9]+ bytes in [0-9]+ tensors, ([0-9]+) of them matrices')"
check "the shipped model as int8" 0 "$(status $quantize $zh $dir/zh8.safetensors int8)"
check "  is inspected" 0 "$(status build/inspect $dir/zh8.safetensors)"
check "  and its scales are counted" 1 "$(grep -cE '^  F32 .* the scales of I8 rows' $dir/out)"
check "  the parameters are the same" "" "$(grep -A5 ^parameters $dir/out > $dir/a; build/inspect $zh | grep -A5 ^parameters | cmp $dir/a - 2>&1)"
check "  it translates" 3 "$(head -n 3 examples/translate/demo.txt | build/translate $dir/zh8.safetensors | grep -c '[a-z]')"
# The decoding options of a file: the toy model with a longer config, which takes the place of its padding.
decoding='"decoding": {"beam": 3, "length_penalty": 0.6, "stop": "sure", "max_length": 40, "no_repeat_ngram": 2, "repetition": "hugging_face", "force_end": 1, "forbidden": [3], "forbidden_sequences": [[4, 5], [6]]}, '
with_decoding() { # arguments: file, members. Writes the model with these members at the front of its config.
    text=$(header "$1") escaped=$(printf %s "$2" | sed 's/"/\\"/g')
    text="${text%%'{\"n_heads'*}{$escaped"'\"n_heads'"${text#*'{\"n_heads'}"
    while [ $(((8 + ${#text}) % 64)) != 0 ]; do text="$text "; done
    size=${#text}
    printf "\\$(printf %o $((size % 256)))\\$(printf %o $((size / 256)))\\0\\0\\0\\0\\0\\0%s" "$text"
    tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1"
}
with_decoding tests/data/models/toy.safetensors "$decoding" > $dir/toy
check "a model that says how it decodes, in words of 0.6.0" "0 max_length 40 beam 3 length_penalty 0.6 force_end 1 no_repeat_ngram 2 stop early_never repetition hugging_face suppressed 3 suppressed_sequences 4 5 6" \
    "$(status build/inspect $dir/toy) $(sed -n '/^decoding$/,/^[a-z]/p' $dir/out | grep '^ ' | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')"
for type in f32 "int8 --packed"; do
    check "  says the same as $type" "0 $(cat $dir/out | sed -n '/^decoding$/,/^[a-z]/p' | grep -c '^ ')" \
        "$(status $quantize $dir/toy $dir/toy2 $type) $(build/inspect $dir/toy2 | sed -n '/^decoding$/,/^[a-z]/p' | grep -c '^ ')"
    build/inspect $dir/toy > $dir/out
done

check "the shipped model as bf16" 0 "$(status $quantize $zh $dir/zh16.safetensors bf16)"
check "  translates" 3 "$(head -n 3 examples/translate/demo.txt | build/translate $dir/zh16.safetensors | grep -c '[a-z]')"

for type in f32 f16 bf16 int8; do
    check "packed $type" "0 0" "$(status $quantize $zh $dir/plain $type) $(status $quantize $zh $dir/packed $type --packed)"
    check "  translates with the same scores" "" "$(for i in plain packed; do head -n 3 examples/translate/demo.txt | build/translate $dir/$i --scores > $dir/$i.txt; done; cmp $dir/plain.txt $dir/packed.txt 2>&1)"
    check "  all panels at multiples of 64 bytes" 0 "$(header $dir/packed | grep -o '[0-9]*,16,[124]\],"data_offsets":\[[0-9]*' | awk -F'[' '$2 % 64' | wc -l)"
    check "  and as many as are multiplied with" 45 "$(header $dir/packed | grep -o ',16,[124]\],"data' | wc -l)"
    check "  inspect tells the same parameters and costs" "" "$(for i in plain packed; do build/inspect $dir/$i | sed -n '/^parameters/,$p' > $dir/$i.txt; done; cmp $dir/plain.txt $dir/packed.txt 2>&1)"
    check "  and which matrices are packed" 1 "$(build/inspect $dir/packed | grep -c 'of them matrices, 45 packed')"
done
check "a block's sums, of 128 times" "$(data $dir/plain encoder.layers.0.self_attn.out_proj.weight d1 | tr ' ' '\n' | head -256 | awk '{ sum += $1 } END { print sum * 128 }')" \
    "$(data $dir/packed encoder.layers.0.self_attn.out_proj.weight_sums d4 | cut -d' ' -f1)"
check "a packed model with SentencePiece" "0 0" "$(status $quantize $german $dir/plain int8) $(status $quantize $german $dir/packed int8 --packed)"
check "  of layout 2 has its order, and no trie" '\"packed\": 2 "src_sentencepiece_sorted":{"dtype":"I32"' \
    "$(echo $(header $dir/packed | grep -o '\\"packed\\": [0-9]*\|"src_sentencepiece_[a-z]*":{"dtype":"[IU]32"'))"
check "  translates with the same scores" "" "$(for i in plain packed; do head -n 3 examples/translate/demo-de.txt | build/translate $dir/$i --scores > $dir/$i.txt; done; cmp $dir/plain.txt $dir/packed.txt 2>&1)"
check "  and mapped" "" "$(head -n 3 examples/translate/demo-de.txt | build/translate $dir/packed --scores --map 2>&1 | cmp $dir/plain.txt - 2>&1)"
check "  as a plain one, mapped" "" "$(head -n 3 examples/translate/demo-de.txt | build/translate $dir/plain --scores --map 2>&1 | cmp $dir/plain.txt - 2>&1)"
# tests/compare/decode.c, built without text, must give the same ids with the packed file as with the plain
# file.
${CC:-cc} -O1 -I. -Itests -DTRANSFORMER_IMPLEMENTATION -DTRANSFORMER_NO_TEXT tests/compare/decode.c -o $dir/decode -lm -pthread
for of in $zh $german tests/data/models/toy.safetensors; do
    check "without text, packed $(basename $of)" "0 0 0" \
        "$(status $quantize $of $dir/plain int8) $(status $quantize $of $dir/packed int8 --packed) $(status $dir/decode $dir/packed < /dev/null)"
    check "  decodes as the plain file" "$(echo src=3,4,2 | $dir/decode $dir/plain)" "$(echo src=3,4,2 | $dir/decode $dir/packed)"
done
most() { # arguments: path, tensor. The largest |q| of an I8 tensor.
    data "$1" "$2" d1 | tr ' -' '\n\n' | sort -n | tail -1
}
for of in $zh $german tests/data/models/toy.safetensors; do
    check "7 bits of $(basename $of), plain and packed" "0 0" "$(status $quantize $of $dir/plain int8 --bits 7) $(status $quantize $of $dir/packed int8 --bits 7 --packed)"
    check "  63 is the most" "63 63" "$(most $dir/plain decoder.layers.0.linear1.weight) $(most $dir/packed decoder.layers.0.linear1.weight)"
    check "  both decode alike" "$(echo src=3,4,2 | $dir/decode $dir/plain)" "$(echo src=3,4,2 | $dir/decode $dir/packed)"
done
check "  an embedding that is only looked up keeps 8" "63 127" "$(most $dir/plain generator.weight) $(most $dir/plain src_embedding.weight)"
check "packed twice" "1 quantize: $dir/packed: is packed; quantize the file that it was made from" "$(status $quantize $dir/packed $dir/again f32) $(cat $dir/err)"
check "packed, and no model" "1 1" "$(status $quantize $dir/in $dir/again f32 --packed) $(grep -c "^quantize: $dir/in: metadata has no 'transformer.config'" $dir/err)"

rm -f $dir/int8
hostile() { # arguments: message, text that the error must contain, header, data
    file $dir/in "$3" "$4"
    check "$1" "1 $2" "$(status $quantize $dir/in $dir/int8 ${5:-int8}) $(sed 's/^quantize: //' $dir/err)"
}
hostile "NaN" "a.weight: has a number that is not finite" '{"a.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}' '\0\0\300\177'
hostile "beyond f16" "a.weight: has a number beyond the range of the type" '{"a.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}' '\0\0\200\107' f16
hostile "I8 without scales" "a.weight: is I8, but the file has no tensor with its scales, NAME_scale" '{"a.weight":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]}}' '\1\2\3\4' f32
hostile "too few scales" "a.weight: its scales are not one F32 per row" '{"a.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a.weight":{"dtype":"I8","shape":[2,2],"data_offsets":[4,8]}}' '\0\0\200\77\1\2\3\4' f32
hostile "  also where it would be kept" "a.weight: its scales are not one F32 per row" '{"a.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a.weight":{"dtype":"I8","shape":[2,2],"data_offsets":[4,8]}}' '\0\0\200\77\1\2\3\4'
hostile "scales of floats" "a.weight_scale: is the name of scales, but the matrix is not I8" '{"a.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"a.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' '\0\0\200\77\0\0\200\77'
hostile "a hole" "$dir/in: tensor 'a' begins at byte 4, expected 0 (hole)" '{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' '\0\0\0\0\0\0\0\0'
file $dir/in '{"a.weight":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},"b.weight":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]}}' ''
check "empty matrices" 0 "$(status $quantize $dir/in $dir/empty int8)"
check "a file that is none" 1 "$(status $quantize README.md $dir/int8 int8)"
check "a file that is not there" "1 quantize: nowhere: cannot be opened" "$(status $quantize nowhere $dir/int8 int8) $(cat $dir/err)"
check "a folder that is not there" 1 "$(status $quantize $model $dir/none/out int8)"
check "nothing was written" "" "$(ls $dir/int8* $dir/*.part 2> /dev/null)"
cp $model $dir/own && ln -sf own $dir/link
check "its own input" "2 quantize: $dir/own: is also the input file" "$(status $quantize $dir/own $dir/own int8) $(cat $dir/err)"
check "  by another name" 2 "$(status $quantize $dir/own $dir/link int8)"
check "  which is whole" "" "$(cmp $model $dir/own 2>&1)"

# Tests where OUT may be. Everything that a wrong program would harm is made here, in the test's folder.
old() { printf old > $dir/out.st; }
kept() { head -c 40 $dir/out.st; ls $dir | grep -c '^out.st.'; } # and no file is left beside it
old && ln -sf out.st $dir/link
check "a link: exit status 1" 1 "$(status $quantize $model $dir/link int8)"
check "  says so" "quantize: $dir/link: is a symbolic link, name the file itself" "$(cat $dir/err)"
check "  is one still, and what it names is as it was" "out.st old0" "$(readlink $dir/link) $(kept)"
mkfifo $dir/pipe
check "a pipe stays one" "1 yes" "$(status $quantize $model $dir/pipe int8) $([ -p $dir/pipe ] && echo yes)"
check "  forward says why" "1 forward: $dir/pipe: is not a regular file" "$(status build/forward $model $model $dir/pipe) $(cat $dir/err)"
check "a folder" "1 quantize: $dir: is not a regular file" "$(status $quantize $model $dir int8) $(cat $dir/err)"
if mknod $dir/null c 1 3 2> /dev/null; then
    check "a device stays one" "1 yes" "$(status $quantize $model $dir/null int8) $([ -c $dir/null ] && echo yes)"
    rm $dir/null
else skip 1 "a device: only root makes one"; fi
old && ln -sf out.st $dir/int8.part
check "a link OUT.part is not followed" "0 old0" "$(status $quantize $model $dir/int8 int8) $(kept)"
rm -f $dir/int8 $dir/int8.part
check "over the limit of a file: exit status 1" 1 "$(ulimit -f 8; status $quantize $model $dir/out.st int8)"
check "  says so" "quantize: $dir/out.st: File too large" "$(cat $dir/err)"
check "  and the old file stays" old0 "$(kept)"
mkdir $dir/full
if mount -t tmpfs -o size=16k none $dir/full 2> /dev/null; then
    check "a full disk: exit status 1" 1 "$(status $quantize $model $dir/full/out int8)"
    check "  says so" "quantize: $dir/full/out: No space left on device" "$(cat $dir/err)"
    check "  and nothing is left" "" "$(ls -A $dir/full)"
    umount $dir/full
else skip 3 "a full disk: no tmpfs can be mounted here"; fi
if [ -c /dev/full ]; then
    check "standard output is full" "1 quantize: standard output cannot be written" \
        "$($quantize $model $dir/int8 int8 2> $dir/err > /dev/full; echo $?) $(cat $dir/err)"
else skip 1 "standard output: no /dev/full"; fi
check "standard output is closed" 1 "$($quantize $model $dir/int8 int8 2> /dev/null >&-; echo $?)"
# The reader exits before the writer begins.
rm -f $dir/gone $dir/int8
{ until [ -e $dir/gone ]; do sleep 0.01; done; trap '' PIPE; $quantize $model $dir/int8 int8 2> $dir/err; echo $? > $dir/ended; } |
    { exec 0<&-; touch $dir/gone; }
until [ -s $dir/ended ]; do sleep 0.01; done
check "a closed pipe: exit status 1" "1 quantize: standard output cannot be written" "$(cat $dir/ended $dir/err | tr '\n' ' ' | sed 's/ $//')"
check "  the file is whole" "" "$(cmp $dir/model $dir/int8 2>&1)"
check "  and nothing is beside it" int8 "$(ls $dir | grep '^int8')"
# Whenever the signal comes, OUT must be the old file or the new one. (tests/tools/test_output.c sends it
# within a write.)
if timeout -s INT 5 true 2> /dev/null; then
    $quantize $zh $dir/whole f32 > /dev/null
    seen=
    for ms in 002 004 006 008 010 012 014 016 020 025 030 035 040 050 060 070 080 100 150; do
        old
        timeout -s INT 0.$ms $quantize $zh $dir/out.st f32 > /dev/null 2>&1
        case $? in 0) ;; 124) ;; *) seen="$seen status" ;; esac
        cmp -s $dir/whole $dir/out.st || [ "$(cat $dir/out.st)" = old ] || seen="$seen piece"
    done
    check "Ctrl-C at 19 moments: the old file or the new one" "" "$seen"
    check "  and nothing beside it" 0 "$(ls $dir | grep -c '^out.st.')"
    rm -f $dir/whole
else skip 2 "Ctrl-C: no timeout here"; fi
check "an unknown option" "2 quantize: unknown option '--pack', did you mean --packed? (--help lists all)" "$(status $quantize $model $dir/int8 int8 --pack) $(cat $dir/err)"
check "  of forward" "2 forward: unknown option '--atention', did you mean --attention? (--help lists all)" "$(status build/forward $model $model $dir/result --atention) $(cat $dir/err)"
check "an unknown type" 2 "$(status $quantize $model $dir/int8 int4)"
check "usage" 2 "$(status $quantize $model)"
check "--help" 0 "$(status $quantize --help)"
counts test_quantize
