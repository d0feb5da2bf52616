# Models by name (tools/common/find_model.h), and texts on the command line.
. tests/check.sh
dir=build/find_model de=$PWD/examples/models/de-en.safetensors zh=$PWD/examples/models/zh-en.safetensors
rm -rf $dir && mkdir -p $dir/one $dir/two $dir/home/transformer-h/models $dir/program/models
cp build/translate build/transcribe $dir/program
unset TRANSFORMER_MODELS
export XDG_DATA_HOME=$PWD/$dir/home HOME=$PWD/$dir/nobody
run() { "$dir/program/${program:-translate}" "$@" 2>&1 < /dev/null; }
output() { "$dir/program/translate" "$@" 2> /dev/null < /dev/null; }
good=$(echo 'Guten Tag.' | build/translate $de)

check "no model: the folder, and how to get it" \
    "translate: de-en: no such file, and no model of that name in $XDG_DATA_HOME/transformer-h/models; this gets it: transformer-model get de-en" \
    "$(run de-en 'Guten Tag.')"
check "  a name that is no pair" 1 "$(run my_model x | grep -c 'or beside the program$')"
check "  a path is only a path" "translate: $dir/de-en: cannot be opened: No such file or directory" "$(run $dir/de-en 'Guten Tag.')"
ln -s $de $dir/program/models/de-en.safetensors
check "beside the program" "$good" "$(run de-en 'Guten Tag.')"
check "  with its ending" "$good" "$(run de-en.safetensors 'Guten Tag.')"
echo damaged > $dir/home/transformer-h/models/de-en.safetensors
check "the user's folder comes before it" 1 "$(run de-en 'Guten Tag.' | grep -c 'not a safetensors file')"
ln -s $zh $dir/two/de-en.safetensors
check "the folders of TRANSFORMER_MODELS come first" "$(echo 我是学生。 | build/translate $zh)" \
    "$(TRANSFORMER_MODELS=$dir/one:$dir/two run de-en --text 我是学生。)"
ln -s $de $dir/one/de-en.safetensors
check "  the first of them" "$good" "$(TRANSFORMER_MODELS=$dir/one:$dir/two run de-en 'Guten Tag.')"
check "  a file in the folder at hand comes before" "$good" "$(cd $dir/one && cp $de de-en && TRANSFORMER_MODELS=../two ../program/translate de-en 'Guten Tag.')"
rm $dir/home/transformer-h/models/de-en.safetensors
if HOME=$PWD/$dir/home2 && mkdir -p $HOME/.local/share/transformer-h/models && [ "$(uname)" = Linux ]; then
    mv $dir/program/models/de-en.safetensors $HOME/.local/share/transformer-h/models
    check "without XDG_DATA_HOME: ~/.local/share" "$good" "$(unset XDG_DATA_HOME; run de-en 'Guten Tag.')"
else skip 1 "another system's folder"; fi

# A pair without a model of its own goes through English.
ln -s $zh $dir/one/zh-en.safetensors && ln -s $de $dir/one/en-xx.safetensors
export TRANSFORMER_MODELS=$dir/one
check "a pair of two models" "$(echo 我是学生。 | build/translate $zh $dir/one/en-xx.safetensors 2> $dir/err)" "$(output zh-xx --text 我是学生。)"
check "  one of which is missing" 1 "$(run zh-yy --text 我是学生。 | grep -c 'this gets it: transformer-model get zh-yy$')"
check "  not with a second model" 1 "$(run zh-xx $de --text 我是学生。 | grep -c '^translate: zh-xx: no such file')"

# Texts
check "several lines" "$(printf 'Guten Tag.\nDanke.\n' | build/translate $de)" "$(run de-en 'Guten Tag.
Danke.')"
check "an operand of one word is a file" "translate: Tag: No such file or directory (--text Tag translates it as a text)" "$(run de-en Tag)"
check "  with --text it is a text" "$(echo Tag | build/translate $de)" "$(run de-en --text Tag)"
echo 'Das ist eine Datei.' > "$dir/Guten Tag."
check "a file with a space in its name is a file" "$(build/translate $de < "$dir/Guten Tag." 2>&1)" "$(run de-en "$dir/Guten Tag." --format lines)"
check "a text of more than a buffer" "$(awk 'BEGIN { while (i++ < 9000) print "Guten Tag." }' | build/translate $de | cksum)" \
    "$(run de-en "$(awk 'BEGIN { while (i++ < 9000) print "Guten Tag." }')" | cksum)"
check "an empty text" "" "$(run de-en --text '')"
check "--text and a file" "translate: --text and x.txt do not go together" "$(run de-en x.txt --text Tag)"
check "two operands with spaces are files" "translate: a b: No such file or directory (--text a b translates it as a text)" "$(run de-en 'a b' 'c d')"
ln -s $PWD/tests/data/transcribe/whisper.safetensors $dir/one/whisper-tiny.safetensors
program=transcribe
check "transcribe finds its model" "$(build/transcribe tests/data/transcribe/whisper.safetensors tests/data/transcribe/noise.wav 2>&1)" \
    "$(run whisper-tiny tests/data/transcribe/noise.wav)"
check "  or says what is missing" 1 "$(run whisper-base tests/data/transcribe/noise.wav | grep -c '^transcribe: whisper-base: no such file.*transformer-model get whisper-base$')"
counts test_find_model
