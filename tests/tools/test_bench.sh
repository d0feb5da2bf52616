# Tests bench as a program: a row of its table, the same row as JSON, and faults. Times are not checked.
. tests/check.sh
dir=build/test_bench
mkdir -p $dir
status() { "$@" > $dir/out 2> $dir/err; echo $?; }
check "one workload" 0 "$(status build/bench --only encode-1x32 --repeat 1 --vocabulary 100)"
check "  prints its row" 1 "$(grep -c '^encode-1x32  *1  *[0-9.]* ' $dir/out)"
check "  and no other" 1 "$(grep -c '^[a-z0-9-]*  *1  *[0-9.]* ' $dir/out)"
small="--only greedy-1 --repeat 1 --vocabulary 100 --source 7 --target 5"
check "greedy of other lengths" 0 "$(status build/bench $small --steps --parts)"
check "  says so" 1 "$(grep -c '^greedy-1-7x5  *1 ' $dir/out)"
check "  percentiles of steps" 1 "$(grep -c '^  start [0-9.]* ms; steps p10 [0-9.]*, p50 [0-9.]*, p90 [0-9.]*, p99 [0-9.]*, max [0-9.]* ms$' $dir/out)"
check "  steps by position" 1 "$(grep -c '^  mean of positions 1-1 [0-9.]*, 2-2 [0-9.]*, 3-3 [0-9.]*, 4-4 [0-9.]*, 5-5 [0-9.]* ms$' $dir/out)"
check "  parts add up" "parts 100" "$(grep 'projections [0-9.]* %' $dir/out | tr ',' '\n' |
    awk '{ for (i = 1; i < NF; i++) if ($(i + 1) == "%") sum += $i } END { printf "parts %.0f", sum }')"
build/bench $small --json --parts | grep '"parts": ' | tr ',' '\n' > $dir/parts
for part in projections attention FFN output norm search; do
    check "  $part take time" 1 "$(grep -c "\"$part\": 0.[0-9]*[1-9]" $dir/parts)"
done
check "a product" "0 1" "$(status build/bench --only product-128x512x2048 --repeat 1) $(grep -c '^product-128x512x2048  *1 .* - *[0-9.]* *[0-9.]*$' $dir/out)"
check "load, its file of the type" "0 1" "$(status build/bench --only load --repeat 1 --vocabulary 100 --weights int8) $(grep -c '^load  *1 .* reading alone [0-9.]* ms; file 4[0-9].[0-9] MB; peak [0-9.]* MB before, [0-9.]* loaded, [0-9.]* after greedy-1$' $dir/out)"
check "JSON" 0 "$(status build/bench $small --json --parts)"
cp $dir/out $dir/one
check "  has ids and operations of one workload" "1 1" "$(grep -c '"ids": .*\]' $dir/one) $(grep -c '"operations": [0-9]*, "operations_counted": [0-9]*,' $dir/one)"
check "  counts the operations that the formula says" "" "$(sed -n 's/.*"operations": \([0-9]*\), "operations_counted": \([0-9]*\),.*/\1 \2/p' $dir/one | awk '$1 != $2')"
check "two threads" 0 "$(status build/bench $small --json --threads 2)"
check "  same tokens" "$(grep -o '"ids": .*\]' $dir/one)" "$(grep -o '"ids": .*\]' $dir/out)"
check "two workers beside a neighbour" 0 "$(status build/bench $small --json --workers 2 --neighbour)"
check "  same tokens" "$(grep -o '"ids": .*\]' $dir/one)" "$(grep -o '"ids": .*\]' $dir/out)"
check "  each counts the operations" "$(sed -n 's/.*"operations_counted": \([0-9]*\),.*/\1/p' $dir/one | awk '{ print 2 * $1, 2 * $1 }')" "$(sed -n 's/.*"operations": \([0-9]*\), "operations_counted": \([0-9]*\),.*/\1 \2/p' $dir/out)"
for type in f32 f16 bf16 int8; do
    check "weights $type" "0 1" "$(status build/bench $small --weights $type) $(grep -c ", $type, 1 thread, " $dir/out)"
done
check "a file of int8" 0 "$(status build/bench --write $dir/int8 --weights int8 --vocabulary 50)"
check "  as quantize writes it" "0 " "$(status build/quantize $dir/int8 $dir/again int8) $(cmp $dir/int8 $dir/again 2>&1)"
rm -f $dir/int8 $dir/again
check "a file's weights on random tokens" 0 "$(build/bench --write $dir/f32 --vocabulary 100; status build/bench $dir/f32 --ids --only greedy-1 --repeat 1 --source 7 --target 5 --json)"
check "  same tokens and operations" "$(grep -o '"ids": .*\]\|"operations[_a-z]*": [0-9]*' $dir/one)" "$(grep -o '"ids": .*\]\|"operations[_a-z]*": [0-9]*' $dir/out)"
check "  and no loading" 2 "$(status build/bench $dir/f32 --ids --only load)"
rm -f $dir/f32
check "random tokens without a file" "2 1" "$(status build/bench --ids) $(grep -c -e '--ids needs MODEL' $dir/err)"
check "a model on a line, as JSON" 0 "$(echo 我是学生。 |
    status build/bench examples/models/zh-en.safetensors --only 'beam 1' --repeat 1 --json)"
check "  of one sentence" 1 "$(grep -c '"sentences": 1,' $dir/out)"
check "a workload that there is not" 2 "$(status build/bench --only nothing)"
check "an unknown type" 2 "$(status build/bench --weights int4)"
check "CPU time of threads" 2 "$(status build/bench --cpu --threads 2)"
check "no lines: exit status 1" 1 "$(status build/bench examples/models/zh-en.safetensors < /dev/null)"
german="build/bench_drafts examples/models/de-en.safetensors --rounds 1"
check "drafts of edited lines" 0 "$(printf 'Tom wohnt in Boston.\nMaria hat 3 Katzen.\nja\n' | status $german --batch 2)"
check "  a batch of the two lines that have a word to replace" "1 1" \
    "$(grep -c ', 2 sentences$' $dir/out) $(grep -c '^ *2 *[0-9.]* (\( *[0-9.]*)  *[0-9.]* (\)\{3\} *[0-9.]*)$' $dir/out)"
check "  no such line: exit status 1" 1 "$(echo ja | status $german)"
counts test_bench
