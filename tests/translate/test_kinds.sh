# What the translator takes a file for: by its name and its first bytes, or by --format.
. tests/check.sh
translate=build/translate toy=tests/data/models/toy.safetensors
dir=build/test_kinds
mkdir -p $dir
run() { # Prints the exit status of the translator. Its standard output and error are in files.
    "$translate" "$@" > $dir/out 2> $dir/err
    echo $?
}
said() { sed "s|$dir/||g; s/^translate: //" $dir/err; } # what is on standard error, without folders
printf '<p>我是学生</p>\n' > $dir/page.html
printf '<!DOCTYPE HTML>\n<p>我是学生</p>\n' > $dir/doctype
printf '# 我是学生\n\n```\n我\n```\n' > $dir/text.md
printf '1\n00:00:01,000 --> 00:00:02,000\n我是学生\n' > $dir/film.srt
printf 'WEBVTT\n\n00:01.000 --> 00:02.000\n我是学生\n' > $dir/film.vtt
printf '我是学生\n我是男生\n' > $dir/lines.txt
printf 'I am a student\nI am a boy\n' > $dir/expected

check "by the name: HTML" "0 <p>I am a student</p>" "$(run $toy $dir/page.html) $(cat $dir/out)"
check "  and it says so" "page.html is taken as HTML (--format lines: one sentence a line)" "$(said)"
check "  in capitals" "0 <p>I am a student</p>" "$(cp $dir/page.html $dir/PAGE.HTM; run $toy $dir/PAGE.HTM) $(cat $dir/out)"
check "  Markdown" "0 # I am a student text.md is taken as Markdown (--format lines: one sentence a line)" "$(run $toy $dir/text.md) $(head -n 1 $dir/out) $(said)"
check "  subtitles" "0 I am a student film.srt is taken as subtitles (--format lines: one sentence a line)" "$(run $toy $dir/film.srt) $(tail -n 1 $dir/out) $(said)"
check "  WebVTT" "0 I am a student film.vtt is taken as WebVTT subtitles (--format lines: one sentence a line)" "$(run $toy $dir/film.vtt) $(tail -n 1 $dir/out) $(said)"
printf '{1}{1}25\n{2}{3}我是学生\n' > $dir/film.sub
check "  MicroDVD" "0 {2}{3}I am a student film.sub is taken as MicroDVD subtitles (--format lines: one sentence a line)" "$(run $toy $dir/film.sub) $(tail -n 1 $dir/out) $(said)"
check "    by its bytes" "0 film2 is taken as MicroDVD subtitles, as its first bytes say, not as lines (--format changes that)" "$(cp $dir/film.sub $dir/film2; run $toy $dir/film2) $(said)"
printf '[12][345]我是学生\n' > $dir/film3
check "  MPL2, by its bytes" "0 [12][345]I am a student film3 is taken as MPL2 subtitles, as its first bytes say, not as lines (--format changes that)" "$(run $toy $dir/film3) $(cat $dir/out) $(said)"
printf '<?xml version="1.0"?>\n<tt xmlns="http://www.w3.org/ns/ttml"><body><p begin="0s">我是学生</p></body></tt>\n' > $dir/film.ttml
check "  TTML" "0 <tt xmlns=\"http://www.w3.org/ns/ttml\"><body><p begin=\"0s\">I am a student</p></body></tt> film.ttml is taken as TTML subtitles (--format lines: one sentence a line)" "$(run $toy $dir/film.ttml) $(tail -n 1 $dir/out) $(said)"
check "    by its bytes" "0 film4 is taken as TTML subtitles, as its first bytes say, not as lines (--format changes that)" "$(cp $dir/film.ttml $dir/film4; run $toy $dir/film4) $(said)"
printf '<SAMI><BODY>\n<SYNC Start=1><P Class=ZH>我是学生\n</BODY></SAMI>\n' > $dir/film.smi
check "  SAMI" "0 <SYNC Start=1><P Class=ZH>I am a student film.smi is taken as SAMI subtitles (--format lines: one sentence a line)" "$(run $toy $dir/film.smi) $(sed -n 2p $dir/out) $(said)"
printf '[Script Info]\n\n[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,我是学生\n' > $dir/film.ass
check "  ASS" "0 Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,I am a student film.ass is taken as ASS subtitles (--format lines: one sentence a line)" "$(run $toy $dir/film.ass) $(tail -n 1 $dir/out) $(said)"
check "    by its bytes" "0 film5 is taken as ASS subtitles, as its first bytes say, not as lines (--format changes that)" "$(cp $dir/film.ass $dir/film5; run $toy $dir/film5) $(said)"
taken='is taken as lines (--document: a paragraph a line; --wrapped: wrapped text)'
check "  .txt: lines, and it says so" "0  lines.txt $taken" "$(run $toy $dir/lines.txt) $(cmp $dir/expected $dir/out 2>&1) $(said)"
check "  another ending, and none" "0  lines.zh $taken lines $taken" "$(cp $dir/lines.txt $dir/lines.zh; cp $dir/lines.txt $dir/lines; run $toy $dir/lines.zh) $(cmp $dir/expected $dir/out 2>&1) $(said) $(run $toy $dir/lines > /dev/null; said)"
check "  with --format lines, or an option of lines: nothing is said" "" "$(run $toy $dir/lines.zh --format lines > /dev/null; said; run $toy $dir/lines.zh --document > /dev/null; said)"
check "standard input: lines, and nothing is said" "0  " "$(run $toy < $dir/lines.txt) $(cmp $dir/expected $dir/out 2>&1) $(said)"
check "by the bytes, without an ending" "0 <p>I am a student</p> doctype is taken as HTML, as its first bytes say, not as lines (--format changes that)" "$(run $toy $dir/doctype) $(tail -n 1 $dir/out) $(said)"
check "  from standard input: lines, with advice" "the input is taken as lines, but looks like HTML; --format html translates it" "$(run $toy < $dir/doctype > /dev/null; said | head -n 1)"
check "  a .txt with such bytes: lines, with advice" "page.txt is taken as lines, but looks like HTML; --format html translates it" "$(cp $dir/doctype $dir/page.txt; run $toy $dir/page.txt > /dev/null; said | head -n 1)"
printf '[00:00.000 --> 00:02.000]   我是学生\n' > $dir/speech.txt
check "  lines of transcribe --timestamps" "speech.txt is taken as lines, but looks like subtitles; --format srt translates it" "$(run $toy $dir/speech.txt > /dev/null; said | head -n 1)"
check "  subtitles without an ending" "0 I am a student film is taken as subtitles, as its first bytes say, not as lines (--format changes that)" "$(cp $dir/film.srt $dir/film; run $toy $dir/film) $(tail -n 1 $dir/out) $(said)"
check "  with CR LF, named .html" "wrong2.html is taken as subtitles, as its first bytes say, not as HTML (--format changes that)" "$(sed 's/$/\r/' $dir/film.srt > $dir/wrong2.html; run $toy $dir/wrong2.html > /dev/null; said)"
check "name and bytes disagree: the bytes" "0 I am a student wrong.html is taken as WebVTT subtitles, as its first bytes say, not as HTML (--format changes that)" "$(cp $dir/film.vtt $dir/wrong.html; run $toy $dir/wrong.html) $(tail -n 1 $dir/out) $(said)"
check "--format disagrees with the name" "0 # I am a student page.html is taken as Markdown, as --format says, not as HTML" "$(cp $dir/text.md $dir/page2.html; cp $dir/page2.html $dir/keep; mkdir -p $dir/f; cp $dir/text.md $dir/f/page.html; run $toy $dir/f/page.html --format markdown) $(head -n 1 $dir/out) $(sed 's|.*/f/||' $dir/err)"
check "--format disagrees with name and bytes" "1 wrong.html is taken as Markdown, as --format says, not as WebVTT subtitles" "$(run $toy $dir/wrong.html --format md | cut -c 1) $(said | head -n 1)"
check "--format lines" "1 page.html is taken as lines, as --format says, not as HTML" "$(run $toy $dir/page.html --format lines) $(said | head -n 1)"
check "--format of standard input" "0 <p>I am a student</p> " "$(run $toy --format html < $dir/page.html) $(cat $dir/out) $(said)"
check "--format that is no kind" "2 --format docx: the kinds are lines, html, markdown, srt and wrapped" "$(run $toy --format docx < $dir/page.html) $(said)"
check "--format and --html that disagree" "2 --format srt and --html do not go together" "$(run $toy --format srt --html < $dir/page.html) $(said)"
check "  that agree" "0 <p>I am a student</p>" "$(run $toy --format html --html < $dir/page.html) $(cat $dir/out)"
check "the option of a kind is silent" "0 " "$(run $toy --html $dir/page.html) $(said)"
check "an option of lines: lines, and it says so" "page.html is taken as lines, because of --n-best" "$(run $toy $dir/page.html --n-best 1 > /dev/null; said | head -n 1)"
printf '\177ELF\2\1\1\0\0\0\0\0\0' > $dir/program
printf 'SQLite format 3\0' > $dir/data.db
check "a program, a database" "2 program is a program; only text can be translated 2 data.db is a database; only text can be translated" \
    "$(run $toy $dir/program) $(said) $(run $toy $dir/data.db) $(said)"
check "files of two kinds" "2 page.html and film.srt are of different kinds: translate them one by one, or give --format" "$(run $toy $dir/page.html $dir/film.srt) $(said)"
check "--lang with a page by its name" "0 <html lang=\"en\"><p>I am a student" "$(printf '<html lang="zh"><p>我是学生' > $dir/l.html; run $toy $dir/l.html --lang en) $(cat $dir/out)"

refused() { # name, what is said; the file exists
    check "$1 is refused" "2 0 $2" "$(run $toy $dir/$1) $(wc -c < $dir/out | tr -d ' ') $(said)"
}
python='translate it with: python -m transformer_h MODEL FILE -o OUT'
printf 'PK\003\004\024\000' > $dir/brief.docx; refused brief.docx "brief.docx is an Office document or a book; $python"
cp $dir/brief.docx $dir/book.epub; refused book.epub "book.epub is an Office document or a book; $python"
cp $dir/brief.docx $dir/renamed.html; refused renamed.html "renamed.html is a zip archive, as Office documents and books are; $python"
printf '\320\317\021\340\241\261\032\341\000' > $dir/secret.docx; refused secret.docx "secret.docx is an old or an encrypted Office document; save it as docx, pptx or odt without a password first"
printf 'no zip' > $dir/damaged.docx; refused damaged.docx "damaged.docx has the name of an Office document or a book, but its first bytes are not: a damaged file, or give --format"
printf '%%PDF-1.7\n' > $dir/a.pdf; refused a.pdf "a.pdf is a PDF file; take its text out first: pdftotext -layout FILE"
printf 'RIFF\000\000\000\000WAVE' > $dir/hello.wav; refused hello.wav "hello.wav is a WAV file; transcribe MODEL FILE writes what is said"
printf '\037\213\010\000' > $dir/a.gz; refused a.gz "a.gz is a gzip archive; unpack it first"
printf '\211PNG\r\n' > $dir/a.png; refused a.png "a.png is a picture; read its text first, with a program such as tesseract"
printf '\000\000\001\272' > $dir/pictures.sub; refused pictures.sub "pictures.sub is subtitles that are pictures; read its text first, with a program such as tesseract"
texts='take its texts out first, or give --format lines'
xml='<?xml version="1.0"?>\n<!-- a comment > x -->\n'
printf "$xml"'<xliff version="1.2"><file/></xliff>' > $dir/a.xlf; refused a.xlf "a.xlf is an XLIFF file; $python"
cp $dir/a.xlf $dir/b.xml; refused b.xml "b.xml is an XLIFF file; $python"
cp $dir/a.xlf $dir/xliff; refused xliff "xliff is an XLIFF file; $python"
printf "$xml"'<tmx version="1.4"/>' > $dir/a.tmx; refused a.tmx "a.tmx is a TMX file; $python"
printf '<?xml version="1.0"?>\n<!DOCTYPE TS>\n<TS version="2.1"/>' > $dir/a.ts; refused a.ts "a.ts is a translation file of Qt; $python"
printf 'const a = "b"\n' > $dir/b.ts; refused b.ts "b.ts is the source of a program; $texts"
printf '<resources>\n</resources>' > $dir/strings.xml; refused strings.xml "strings.xml is a file of Android's strings; $python"
printf "$xml"'<root>\n<!-- a -->\n<xsd:schema id="root"/></root>' > $dir/a.resx; refused a.resx "a.resx is a file of .NET's resources; $python"
cp $dir/a.resx $dir/c.xml; refused c.xml "c.xml is a file of .NET's resources; $python"
printf '"a" = "b";\n' > $dir/a.strings; refused a.strings "a.strings is a file of Apple's strings; $python"
printf '{\n  "sourceLanguage" : "de"}' > $dir/a.xcstrings; refused a.xcstrings "a.xcstrings is a file of Apple's strings; $python"
printf '# German\nmsgid ""\nmsgstr ""\n' > $dir/a.po; refused a.po "a.po is a gettext file; $python"
cp $dir/a.po $dir/gettext; refused gettext "gettext is a gettext file; $python"
printf '{ "hello": "a" }' > $dir/a.arb; refused a.arb "a.arb is an ARB file; $python"
printf '{ "hello": "a" }' > $dir/a.json; refused a.json "a.json is JSON; $texts"
cp $dir/a.json $dir/json; refused json "json is JSON; $texts"
printf "$xml"'<FictionBook/>' > $dir/a.fb2; refused a.fb2 "a.fb2 is a FictionBook; make a book in epub first: ebook-convert FILE book.epub"
cp $dir/lines.txt $dir/a.tsv; refused a.tsv "a.tsv is a table with tabs; give --column N, which translates one column, or --format lines"
check "  with --column: a table" "0 I am a student " "$(run $toy $dir/a.tsv --column 1) $(head -n 1 $dir/out) $(said)"
cp $dir/lines.txt $dir/a.csv; refused a.csv "a.csv is a table; save it with tabs between the columns, and give --column N"
for row in "yaml|YAML; $texts" "toml|TOML; $texts" "tex|TeX; make Markdown first: pandoc FILE -o FILE.md" "rst|a document with marks of another kind; make Markdown first: pandoc FILE -o FILE.md" "eml|a mail with its head; save its text as .txt, and give --wrapped" "py|the source of a program; $texts" "C|the source of a program; $texts"; do
    cp $dir/lines.txt "$dir/a.${row%%|*}"; refused "a.${row%%|*}" "a.${row%%|*} is ${row#*|}"
done
check "  with --format lines: lines" "a.json is taken as lines, as --format says, not as JSON" "$(run $toy $dir/a.json --format lines > /dev/null; said | head -n 1)"
check "  a .txt with such bytes: lines, with advice" "json.txt is taken as lines, but looks like JSON; $texts" "$(cp $dir/a.json $dir/json.txt; run $toy $dir/json.txt > /dev/null; said | head -n 1)"
check "  Markdown and subtitles with such bytes" "j.md is taken as Markdown j.srt is taken as subtitles" "$(printf '[ "我是学生"\n' > $dir/j.md; run $toy $dir/j.md > /dev/null; said | sed 's/ (.*//; q') $(printf '#!\n1\n00:00:01,000 --> 00:00:02,000\n我是学生\n' > $dir/j.srt; run $toy $dir/j.srt > /dev/null; said | sed 's/ (.*//; q')"
check "two files of such kinds" "2 a.json is JSON; $texts" "$(run $toy $dir/a.json $dir/a.yaml) $(said)"
printf '[Script Info]\n' > $dir/a.ass
check "ASS without events" "1 the subtitles have no line of text, such as Dialogue: 0,0:01:02.00,0:01:04.50,..." "$(run $toy $dir/a.ass) $(said | tail -n 1)"
check "  from standard input" "2 0 the input is a PDF file; take its text out first: pdftotext -layout FILE" "$(run $toy < $dir/a.pdf) $(wc -c < $dir/out | tr -d ' ') $(said)"
check "  with --format, too: it is no text" "2 a.pdf is a PDF file; take its text out first: pdftotext -layout FILE" "$(run $toy $dir/a.pdf --format html) $(said)"
printf '我是学生\n' | iconv -f UTF-8 -t UTF-16 > $dir/wide.html
check "UTF-16" "2 wide.html is probably UTF-16 text, not UTF-8; convert it first: iconv -f UTF-16 -t UTF-8 wide.html > wide.html.utf8" "$(run $toy $dir/wide.html) $(said | tail -n 1)"
printf '<p>Gr\374\337e f\374r \304rzte, sch\366ne Br\374cken</p>\n' > $dir/latin.html
check "Latin-1" "2 0 latin.html is probably WINDOWS-1252 text, not UTF-8; convert it first: iconv -f WINDOWS-1252 -t UTF-8 latin.html > latin.html.utf8" "$(run $toy $dir/latin.html) $(wc -c < $dir/out | tr -d ' ') $(said | tail -n 1)"
check "subtitles without times" "1 0 the subtitles have no line with times, such as 00:01:02,000 --> 00:01:04,500" "$(run $toy --srt < $dir/lines.txt) $(wc -c < $dir/out | tr -d ' ') $(said)"
check "  an empty file" "0 " "$(run $toy --srt < /dev/null) $(said)"
printf '{12345678901234567890}{1}25\n{2}{3}我是学生\n' > $dir/long.sub
check "MicroDVD whose first frame has 20 digits: the line stays, and is counted" "0 {12345678901234567890}{1}25 {2}{3}I am a student 1 lines stay as they are, the first in line 1: their frames have too many digits" "$(run $toy $dir/long.sub) $(head -n 1 $dir/out) $(tail -n 1 $dir/out) $(said | tail -n 1)"
check "sentences that stay are counted and named" "0 1" "$(printf '我是学生\n\n> <div>\n> 我是学生\n> </div>\n' | run $toy --markdown) $(said | grep -c '1 parts in HTML inside quotes stay as they are, the first in line 3')"
counts test_kinds
