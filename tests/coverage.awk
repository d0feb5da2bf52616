# awk -f tests/coverage.awk transformer.h GCOV...: lines and branches that some test reaches, by
# section of transformer.h; GCOV is what gcov -t -b -c says of a test. -v list=1 names the lines
# that none reaches. A line or branch counts where some program has code for it.
FNR == NR { # the banners: "/* >>tag ==="
    if ($1 == "/*" && $2 ~ /^>>/ && $3 ~ /^==/) section[FNR] = tag = substr($2, 3)
    if (FNR in section) order[++n] = tag
    of[FNR] = tag
    next
}
{ sub(/\r$/, "") }
/^ *-: *0:Source:/ { inside = /:(\.\/)?transformer\.h$/; next }
!inside { next }
/^ *[-#=0-9*]+: *[0-9]+:/ {
    split($0, part, ":")
    count = part[1]
    gsub(/[ *]/, "", count)
    line = part[2] + 0
    branch = 0
    if (line == 0 || count == "-") next
    seen[line] = 1
    if (count + 0 > 0) hit[line] = 1
    next
}
/^branch / {
    branch++
    branches[line, branch] = line
    if ($0 ~ /taken [1-9]/) taken[line, branch] = 1
}
END {
    for (line in seen) lines[of[line]]++
    for (line in hit) reached[of[line]]++
    for (b in branches) total[of[branches[b]]]++
    for (b in taken) went[of[branches[b]]]++
    printf "%-15s %7s %7s %9s %7s\n", "section", "lines", "", "branches", ""
    for (i = 1; i <= n; i++) {
        t = order[i]
        if (!lines[t]) continue
        row(t, reached[t], lines[t], went[t], total[t])
        a += reached[t]; b1 += lines[t]; c += went[t]; d += total[t]
    }
    row("all", a, b1, c, d)
    if (list)
        for (i = 1; i in of; i++)
            if (seen[i] && !hit[i]) print "line " i " (" of[i] ") is not reached"
}
function row(name, x, of_x, y, of_y) {
    printf "%-15s %7d %6.1f%% %9d %6.1f%%\n", name, of_x, 100 * x / of_x, of_y,
        of_y ? 100 * y / of_y : 100
}
