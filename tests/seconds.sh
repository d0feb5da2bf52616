# seconds.sh README: writes the seconds of the last "make test" (build/seconds) and of the last .ci/run into the tables of
# README. .ci/run keeps the seconds of each row, also of rows that did not run again.
readme=$1
rows=${XDG_CACHE_HOME:-$HOME/.cache}/transformer.h/rows/seconds
awk -v rows="$rows" '
    BEGIN {
        while ((getline < "build/seconds") > 0) {
            name = $2
            sub(".*/", "", name)
            seconds[name] = $1 < 0.1 ? "0.1" : $1 < 10 ? sprintf("%.1f", $1) : sprintf("%.0f", $1)
        }
        while ((getline line < rows) > 0 && n_rows < 12) {
            n = split(line, field, "\t")
            table = table "| " field[3] " | " field[2] " | " field[1] " |\n"
            n_rows++
        }
    }
    /^\| row \| seconds \| CPU \|/ && table != "" { print; getline; print; printf "%s", table; skip = 1; next }
    skip && /^\|/ { next }
    { skip = 0 }
    /^\| `test_/ {
        name = $2
        gsub("`", "", name)
        if (name in seconds) sub(/\| [0-9.]+ \|$/, "| " seconds[name] " |")
    }
    { print }' "$readme" > build/readme && cat build/readme > "$readme"
