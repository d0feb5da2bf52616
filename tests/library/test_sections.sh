# The sections of transformer.h's implementation can be read from the first to the last: none uses what a later one
# defines (sections.awk), and the contents list them by number.
. tests/check.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
later() { awk -f tests/library/sections.awk "$1" "$1"; }
check "no section uses a later one" "" "$(later transformer.h)"
listed=$(sed -n '/^   CONTENTS/,/^   Legend/p' transformer.h | grep -oE '>>[a-z0-9]+ +[0-9]+\.' | tr -s ' ' | sort -n -k 2)
banners=$(awk '/^#define TFM__IMPLEMENTED/ { inside = 1 } name && inside { print name, $1 } { name = "" } /^\/\* >>[a-z0-9]+ ===/ { name = $2 }' transformer.h)
check "the contents have the sections of the implementation and their numbers" "$banners" "$listed"
check "  which count from 9 without a gap" "" "$(echo "$banners" | awk '$2 != NR + 8 "."')"
plant() { awk -v what="$1" '{ print } /^\/\* >>json/ { json = 1 } json && /=== \*\/$/ { print what; json = 0 }' transformer.h > "$dir/planted.h"; }
# A use of each kind, put at the begin of >>json
planted() { # kind of use, text, what is said of it
    plant "$2"
    check "  a planted $1" "$3" "$(later "$dir/planted.h" | sed 's/ line [0-9]*//')"
}
planted "declaration" "static int tfm__find_language(int a);" "json: tfm__find_language of tokens"
planted "call" "static int tfm__planted(void) { return tfm__tokenize(0); }" "json: tfm__tokenize of tokens"
planted "call of a public function" "static int tfm__planted(void) { return tfm_session_step(0, 0, 0); }" "json: tfm_session_step of search"
planted "type" "static tfm__sentence *tfm__planted;" "json: tfm__sentence of session"
planted "table" "static int tfm__planted(void) { return tfm__tokenizers[0].broken; }" "json: tfm__tokenizers of tokens"
planted "constant" "enum { TFM__PLANTED = TFM__SPACE_PIECE };" "json: TFM__SPACE_PIECE of tokenizers"
planted "macro" "static int tfm__planted(void) { TFM__FAIL_TENSOR(0, 0); }" "json: TFM__FAIL_TENSOR of model"
planted "comment and a planted string" 'static const char tfm__planted[] = "tfm__tokenize("; /* tfm__tokenize( */' ""
counts test_sections
