# make test-sqlite [ROWS=5000]: runs examples/sqlite/translate.c in the real sqlite3, over a table of ROWS rows.
. tests/check.sh
rows=${1:-5000} dir=build/sqlite de=examples/models/de-en.safetensors zh=examples/models/zh-en.safetensors
checks=26
if ! command -v sqlite3 > /dev/null || [ ! -e $dir/translate.so ]; then
    skip $checks "needs sqlite3 and its header: apt-get install sqlite3 libsqlite3-dev"
    counts test_sqlite
    exit
fi
rm -f $dir/books.db
# Prints only the message of an error; prints a value unchanged.
sql() { sqlite3 -batch -bail -cmd ".load $dir/translate" $dir/books.db "$@" 2>&1 | sed 's/^Error: \(stepping, \)*//'; }
with() { model=$1; shift; sql ".output /dev/null" "SELECT translate_model('$model')" .output "$@"; }
check "at most 72 lines" 1 "$(($(wc -l < examples/sqlite/translate.c) <= 72))"

# Errors must be SQL errors.
check "no model" "no translate_model(path) yet" "$(sql "SELECT translate('Guten Tag.')")"
check "a model that is not there" "nonesuch: cannot be opened" "$(sql "SELECT translate_model('nonesuch')")"
both="Guten Tag. Danke." # one tokenization reads both sentences, or each by itself
check "split and whole" "$(for how in split whole; do echo "$both" | build/translate $de --sentences $how; done)" \
    "$(for how in split whole; do sql ".output /dev/null" "SELECT translate_model('$de', '$how')" .output "SELECT translate('$both')"; done)"
check "another word for it" "the second argument must be 'split' or 'whole'" "$(sql "SELECT translate_model('$de', 'lines')")"
check "no path" "path is NULL" "$(sql "SELECT translate_model(NULL)")"
check "another model" "this connection has a model" "$(with $de "SELECT translate_model('$zh')")"
check "not UTF-8" "text is not UTF-8 at byte 1" "$(with $de "SELECT translate(CAST(x'41ff' AS TEXT))")"
check "not from a schema that somebody else wrote" 1 "$(with $de "CREATE VIEW v AS SELECT translate_model('$de'); SELECT * FROM v" | grep -c 'unsafe use of translate_model')"
check "NULL, blank, a number" "1||$(echo 42 | build/translate $de)" "$(with $de "SELECT translate(NULL) IS NULL, translate(' '), translate(42)")"
printf 'Guten Tag.\n' > $dir/one && printf 'Good day.\n' > $dir/target
check "translate_score is the command line's" "$(build/translate $de --score $dir/target < $dir/one)" \
    "$(with $de "SELECT printf('%.4f', translate_score('Guten Tag.', 'Good day.'))")"
check "  of an empty target, and of NULL" "1|1" "$(with $de "SELECT translate_score('Guten Tag.', '') < 0, translate_score('Guten Tag.', NULL) IS NULL")"
{ echo ".load $dir/translate" && echo ".output /dev/null" && echo "SELECT translate_model('$de');" && echo ".output stdout"
  grep -v "$(printf '[\001\013]')" tests/data/texts-de.txt | tee $dir/texts | sed "s/'/''/g; s/.*/SELECT translate('&');/"; } > $dir/texts.sql
check "labels, quotation marks, capitals, other languages: the bytes of the command line" "$(build/translate $de < $dir/texts 2> $dir/told | cksum)" \
    "$(sqlite3 -batch -bail :memory: < $dir/texts.sql | cksum)"
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "Guten Tag Nummer %d. ", i % 7; print "" }' > $dir/long
check "a long text, too" "$(build/translate $de < $dir/long | cksum)" "$(with $de "SELECT translate(trim(replace(CAST(readfile('$dir/long') AS TEXT), char(10), '')))" | cksum)"

# A table, and an index on the translations
awk -v rows="$rows" 'BEGIN {
    split("Tom,Maria,Der Junge,Meine Mutter,Unser Lehrer,Der alte Mann,Ihre Schwester,Das Kind,Mein Freund,Der Arzt", s, ",")
    split("sieht,kauft,sucht,findet,braucht,verkauft,liebt,kennt,vergisst,hat", v, ",")
    split("den Hund,ein Buch,das Haus,eine Katze,den Schlüssel,ein Auto,das Fenster,die Zeitung,einen Apfel,die Stadt", o, ",")
    split("heute,morgen,nicht,immer,bald", a, ",")
    for (i = 0; i < rows; i++) print s[i % 10 + 1], v[int(i / 10) % 10 + 1], o[int(i / 100) % 10 + 1], a[int(i / 1000) % 5 + 1] "."
}' > $dir/titles
build/translate $de --threads 2 < $dir/titles > $dir/translations
paste $dir/titles $dir/translations > $dir/books.tsv
sql "CREATE TABLE books (title TEXT, english TEXT)" ".mode tabs" ".import $dir/books.tsv books"
check "an index on translate(title)" "" "$(with $de "CREATE INDEX by_translation ON books (translate(title))")"
check "  $rows rows in it, the bytes of the command line" "$(LC_ALL=C sort $dir/translations | cksum)" \
    "$(with $de "SELECT english FROM books ORDER BY translate(title)" | cksum)"
check "  is used, where schemas are not trusted, too" 1 "$(with $de "PRAGMA trusted_schema = OFF; EXPLAIN QUERY PLAN SELECT title FROM books WHERE translate(title) = 'x'" | grep -c 'USING INDEX by_translation')"
line=$(sed -n "$((rows / 2))p" $dir/translations)
check "  finds" "$(awk -F '\t' -v line="$line" '$2 == line { print $1 }' $dir/books.tsv | LC_ALL=C sort)" \
    "$(with $de "SELECT title FROM books WHERE translate(title) = '$(echo "$line" | sed "s/'/''/g")' ORDER BY title")"
check "a row that cannot be translated does not get in" "$rows" \
    "$(with $de "INSERT INTO books VALUES (CAST(x'ff' AS TEXT), '')" > /dev/null; sql "SELECT count(*) FROM books")"
check "  nor one from a connection without a model" "no translate_model(path) yet" "$(sql "INSERT INTO books VALUES ('Guten Tag.', '')")"

# What the README says of programs without the extension
plain() { sqlite3 -batch -bail $dir/plain.db "$@" 2>&1 | grep -o 'function: translate\|^[0-9A-Z].*' | sort -u | tr '\n' ' '; }
rm -f $dir/plain.db
sqlite3 -batch -cmd ".load $dir/translate" $dir/plain.db "SELECT translate_model('$de') IS NULL; CREATE TABLE books (title TEXT);
    INSERT INTO books VALUES ('Guten Tag.'), ('Danke.'); CREATE INDEX by_translation ON books (translate(title))" > $dir/made
for fails in "DELETE FROM books WHERE title = 'Nein.'" "INSERT INTO books VALUES ('Ja.')" "UPDATE books SET title = 'Ja.'" VACUUM REINDEX "PRAGMA integrity_check"; do
    plain "$fails" | grep -q 'function: translate' || echo "$fails"
done > $dir/works
check "without the extension: six commands fail" "" "$(cat $dir/works)"
check "  SELECT does not" "2 " "$(plain "SELECT count(*) FROM books")"
check "  DROP INDEX is the way out" "3 " "$(plain "DROP INDEX by_translation; INSERT INTO books VALUES ('Ja.'); SELECT count(*) FROM books")"
sqlite3 -batch -cmd ".load $dir/translate" $dir/plain.db "SELECT translate_model('$de') IS NULL" \
    "$(sed -n 's/^    sqlite> \(ALTER TABLE.*\|CREATE INDEX by_english.*\|UPDATE books.*\)/\1/p' examples/sqlite/README.md)" > $dir/made
check "  a column needs no extension" "Good day. " "$(plain "INSERT INTO books VALUES ('Nein.', NULL); SELECT english FROM books WHERE title = 'Guten Tag.'")"

# Two connections of one process at once
count="SELECT count(*) FROM books WHERE translate(title || '')"
check "two connections at once: one compares all rows with the index, one translates them" "ok
$rows" "$($dir/test $dir/books.db $dir/translate $de "PRAGMA integrity_check" $de "$count = english")"
check "  each with a model of its own" "1
I'm a student." "$($dir/test $dir/books.db $dir/translate $de "SELECT translate('Guten Tag.') = 'Good day.'" $zh "SELECT translate('我是学生。')")"
counts test_sqlite
