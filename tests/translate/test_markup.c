/* Takes tags out of documents and puts them into fake translations, which functions without a model
   make. Tests single cases, and properties that hold for any document and any translation. */
#include "test.h"

#include "markup_fake.h"

/* ---- cases ---- */

/* A case: a document, its expected output when each word is translated to itself (NULL: the
   document itself), the expected output when the words are reversed, and the sentences that are
   translated. NULL: not compared. */
static void check_case(fake *f, text_buffer *out, markup_form form, const char *in,
                       const char *sentences, const char *same, const char *backwards) {
    const char *expected = same ? same : in;
    CHECK(strcmp(run(f, SAME, form, in, strlen(in), out), expected) == 0, "%s", in);
    if (strcmp(out->data, expected) != 0)
        printf("      got      %s\n      expected %s\n", out->data, expected);
    if (sentences) CHECK(strcmp(f->seen.data, sentences) == 0, "  is %s", f->seen.data);
    if (!backwards) return;
    (void)run(f, BACKWARDS, form, in, strlen(in), out);
    CHECK(strcmp(out->data, backwards) == 0, "  backwards %s", out->data);
}

static void html(void) {
    static const struct {
        const char *in, *sentences, *same, *backwards;
    } cases[] = {
        {"<p>I <b>like</b> to <u>drive</u> this car.</p>", "I like to drive this car.|", NULL,
         "<p>car. this <u>drive</u> to <b>like</b> I</p>"},
        {"", "", NULL, ""},
        {"<p></p>", "", NULL, "<p></p>"},
        {"<p title=\"&quot;\">a &lt;with&gt; &amp; &eacute;&#x41;</p>", "a <with> & éA|", NULL,
         "<p title=\"&quot;\">&eacute;A &amp; &lt;with&gt; a</p>"},
        {"<p>Space<br>please?</p>", "Space|please?|", NULL, "<p>Space<br>please?</p>"},
        {"un<u>der</u>line it", "underline it|", NULL, "it un<u>der</u>line"},
        {"<nav><a>one two</a> <a>three</a>\n<a>four</a></nav>", "one two|three|four|", NULL,
         "<nav><a>two one</a> <a>three</a>\n<a>four</a></nav>"},
        {"<p><a>one</a> <a>two</a> and <a>three</a></p>", "one two and three|", NULL, NULL},
        {"<p><a>one</a> <a>two</a> <a>three</a> <b>four</b></p>", "one two three four|", NULL,
         NULL},
        {"<p>one two | <b>three</b> four \xE2\x80\xA2 five</p>", "one two|three four|five|", NULL,
         "<p>two one | four <b>three</b> \xE2\x80\xA2 five</p>"},
        {"<p>one|two a\xC2\xB7x</p>", "one|two a\xC2\xB7x|", NULL, NULL},
        {"<input type=submit value='one two'><input value='no'><option label='a b'>",
         "one two|a b|", NULL,
         "<input type=submit value='two one'><input value='no'><option label='b a'>"},
        {"<tt xmlns=\"x\"><p begin=\"0s\">one <span>two</span><br/>three four</p></tt>",
         "one two three four|", NULL, NULL},
        {"<tt xmlns=\"x\"><p>one two<br/>three four</p></tt>", NULL, NULL,
         "<tt xmlns=\"x\"><p>four three<br/>two one</p></tt>"},
        {"<x><y>one<br/>two</y></x>", "one|two|", NULL, NULL},
        {"<SAMI><BODY><SYNC Start=1><P>one two<br>three four<br>- five<br>six",
         "one two three four|- five six|", NULL,
         "<SAMI><BODY><SYNC Start=1><P>four three<br>two one<br>six five<br>-"},
        /* feeds have HTML with escaped tags */
        {"<d> &lt;p&gt;one &lt;b&gt;two three&lt;/b&gt;.&lt;/p&gt;\n&lt;p&gt;four&lt;/p&gt;</d>",
         "one two three.|four|", NULL,
         "<d> &lt;p&gt;&lt;b&gt;three. two&lt;/b&gt; one&lt;/p&gt;\n&lt;p&gt;four&lt;/p&gt;</d>"},
        {"<p>Use &lt;b&gt; and not &lt;i&gt; here", "Use <b> and not <i> here|", NULL, NULL},
        {"<th abbr='one two'>three", "one two|three|", NULL, "<th abbr='two one'>three"},
        {"hello <br>", "hello|", NULL, "hello <br>"},
        {"hello <u></u>", "hello|", NULL, "hello <u></u>"},
        {"<p id=\"1\">hello <img id=\"1.1\"><span id=\"1.2\"><u id=\"1.2.1\"></u><b "
         "id=\"1.2.2\"></b>"
         "<img id=\"1.2.3\">world</span></p>",
         "hello world|", NULL,
         "<p id=\"1\"><span id=\"1.2\"><u id=\"1.2.1\"></u><b id=\"1.2.2\"></b><img "
         "id=\"1.2.3\">world</span> <img id=\"1.1\">hello</p>"},
        /* what is written beside a word stays beside it */
        {"Der Hund<sup>1</sup> bellt laut", "Der Hund bellt laut|", NULL,
         "laut bellt Hund<sup>1</sup> Der"},
        {"Der <b>Hund</b><sup>1</sup><img>, x<sup>2</sup>", "Der Hund, x|", NULL,
         "x<sup>2</sup> <b>Hund</b><sup>1</sup><img>, Der"},
        {"Das hat 20 m<sup>2</sup> oder 20&nbsp;m² da", "Das hat 20 oder 20 da|", NULL,
         "da 20&nbsp;m² oder 20 m<sup>2</sup> hat Das"},
        {"Das sind 3 km² und 5 im²", "Das sind 3 und 5 im²|", NULL, "im² 5 und 3 km² sind Das"},
        {"{{name}}s Hund bellt", "s Hund bellt|", NULL, "bellt Hund {{name}}s"},
        {"Mein %s-Hund bellt (%d) laut", "Mein -Hund bellt () laut|", NULL,
         "laut (%d) bellt %s-Hund Mein"},
        {"Mit <g>cargo build --release</g> baut er", "Mit cargo build baut er|", NULL,
         "er baut <g>build --release cargo</g> Mit"},
        {"Mit <g>a --release</g>, baut er", "Mit a , baut er|", NULL,
         "er baut , <g>a --release</g> Mit"},
        {"Mit <g><b>c a --xyz</b></g> bald", "Mit c a bald|", NULL,
         "bald <g><b>a --xyz c</b></g> Mit"},
        {"a <b>b </b> c", "a b c|", NULL, NULL},
        {"Siehe 'a/%s/b' heute", "Siehe 'a//b' heute|", NULL, "heute 'a/%s/b' Siehe"},
        {"<i>Der <b>Hund<sup>1</sup></b></i>", "Der Hund|", NULL,
         "<i><b>Hund<sup>1</sup></b> Der</i>"},
        {"Nimm -a, --all (-x) oder --b=c heute, -5 Grad - so", "Nimm, () oder heute, -5 Grad - so|",
         NULL, NULL},
        {"Ein -und-ab -- a-b --.", "Ein -und-ab -- a-b --.|", NULL, NULL},
        {"hello <script>alert(\"<foo>\");</script>world", "hello|world|", NULL,
         "hello <script>alert(\"<foo>\");</script>world"},
        {"foo <!-- <ignore> me -->bar", "foo bar|", NULL, NULL},
        {"<p>hello <b>world!</b> How does this <img> <b>deal <u>with sentences?</u></b> Will "
         "it?</p>",
         "hello world!|How does this deal with sentences?|Will it?|", NULL,
         "<p><b>world!</b> hello <b><u>sentences? with</u> deal</b> <img> this does How it? "
         "Will</p>"},
        {"Type <code>ls -l <b>x</b></code> now, or <kbd>q</kbd>.", "Type now, or.|", NULL, NULL},
        {"See <a href=x><code>f()</code></a>, please", "See, please|", NULL, NULL},
        {"<p translate=\"no\">Not this.</p> But <i translate=no>not</i> that", "But that|", NULL,
         NULL},
        {"<pre>a  b</pre><style>p { x: y }</style>c", "c|", NULL, NULL},
        {"<b>One. Two.</b> Three", "One.|Two.|Three|", NULL, "<b>One. Two.</b> Three"},
        {"See <b>my dog. Then all</b> of it.", "See my dog.|Then all of it.|", NULL,
         "<b>dog. my See it. of all Then</b>"},
        {"One.<b> Two</b> three", "One.|Two three|", NULL, "One. three<b> Two</b>"},
        {"a < b, c & d <3 &bogus; x", "a < b, c & d <3 x|", NULL, "x &bogus; <3 d & c b, < a"},
        {"a <b>b <i>c</b> d</i> e", "a b|c d|e|", NULL, NULL},
        {"a <b title='>'>b</b> <a href=\"unfinished", "a b|", NULL, NULL},
        {"<x id=\"1\"/>Open <g id='2'>the {0} file</g><x id=\"3\"/>", "Open the file|", NULL,
         "<x id=\"1\"/><g id='2'>file {0} the</g> Open<x id=\"3\"/>"},
        {"<td>12</td><td>&mdash;</td><td>yes</td>", "yes|", NULL, NULL},
        {"<a href=1>One</a> of <a href=2>two</a>", "One of two|", NULL,
         "<a href=2>two</a> of <a href=1>One</a>"},
        {"word<sup>1</sup> here", "word here|", NULL, NULL},
        /* attributes: before the paragraph, wherever their tags go */
        {"<p title=\"A dog\">Two <img alt='b c'> cats", "A dog|b c|Two cats|", NULL,
         "<p title=\"dog A\">cats <img alt='c b'> Two"},
        {"<p>x <a TITLE = \"d e\" href=\"f g\">h</a> i<br><input placeholder='j k' value='l m'>",
         "d e|x h i|j k|", NULL,
         "<p>i <a TITLE = \"e d\" href=\"f g\">h</a> x<br><input placeholder='k j' value='l m'>"},
        {"<img alt=\"One. Two three.  &quot;Four&quot; &amp; &bogus; {x} <y>\">",
         "One.|Two three.|\"Four\" & <y>|", NULL, NULL},
        {"<img alt='a \"b\"&#39;s'>", "a \"b\"'s|", NULL, "<img alt='\"b\"&#39;s a'>"},
        {"<img alt=ab><img alt=a=b><img alt=a/b><img alt=\"\"><img alt><img alt=12>", "ab|a/b|",
         NULL, NULL},
        {"<img alt=&#97;&nbsp;b>",
         "a\xC2\xA0"
         "b|",
         NULL, NULL},
        {"<img alt=a&#32;b>", "a b|", NULL, "<img alt=b&#32;a>"},
        {"<meta name=\"Description\" content=\"a b\"><meta name=x content=\"c d\"><p content='e "
         "f'>",
         "a b|", NULL,
         "<meta name=\"Description\" content=\"b a\"><meta name=x content=\"c d\"><p content='e "
         "f'>"},
        {"<meta content='a b' name=description />x", "a b|x|", NULL,
         "<meta content='b a' name=description />x"},
        {"<meta property=og:title content='a b'><meta content='c d' itemprop='description'>"
         "<meta property=og:type content='e f'><input name=description value='g h'>",
         "a b|c d|", NULL,
         "<meta property=og:title content='b a'><meta content='d c' itemprop='description'>"
         "<meta property=og:type content='e f'><input name=description value='g h'>"},
        {"<textarea placeholder='a b' title=c>d e</textarea><style title='f g'></style>", "a b|c|",
         NULL, "<textarea placeholder='b a' title=c>d e</textarea><style title='f g'></style>"},
        {"<div translate=NO title='a b'><i title='c d'>e</i></div><img alt='f g' translate=no>"
         "<code title='h i'>j</code><textarea class=notranslate title='k l'></textarea>",
         "", NULL, NULL},
        {"<b title='a b'><i aria-label='c d'></i></b> e", "a b|c d|e|", NULL,
         "<b title='b a'><i aria-label='d c'></i></b> e"},
        {"<!-- <img alt='a b'> --><p <i title='c d'>e", "c d|e|", NULL,
         "<!-- <img alt='a b'> --><p <i title='d c'>e"},
        {"a <b title='c d", "a|", NULL, NULL},
        /* spaces beside inline things are those of the source */
        {"a <img> b <!-- --> c<img>d <code>x</code> , e", "a b cd , e|", NULL, NULL},
        {"Glas&shy;haus und Glas\xC2\xADhaus hier", "Glashaus und Glashaus hier|",
         "Glashaus und Glashaus hier", NULL},
        {"<ruby>a b<rp>(</rp><rt>x</rt></ruby> c <ruby>d<rt>y</ruby>", "a b c d|",
         "<ruby>a b</ruby> c <ruby>d</ruby>", NULL},
        {"<p>a <my-link>b c</my-link> d <foo>e</foo>", "a b c d e|", NULL,
         "<p><foo>e</foo> d <my-link>c b</my-link> a"},
        {"<?xml version='1.0'?><list><row>a b</row><row>c <em>d</em> e</row></list>", "a b|c d e|",
         NULL, "<?xml version='1.0'?><list><row>b a</row><row>e <em>d</em> c</row></list>"},
        {"<p>a <button>b</button> c<button>d</button><p><button>e</button><button>f</button>",
         "a b cd|e|f|", NULL, NULL},
        {"<p><a href=#n>1</a> a b<a href=#m>[2]</a> c", "a b c|", NULL, NULL},
        {"a {{ x y }} b <%= z > 1 %> c ${ d.e } %(n)s", "a b c|", NULL, NULL},
        {"\xC2\xA9 2024 a \xE2\x96\xBE b \xE2\x98\x90 c", "2024 a b c|", NULL, NULL},
        {"<p><?php if ($a->b) ?>a b", "a b|", NULL, NULL}};
    fake f;
    text_buffer out;
    size_t i;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out);
    SECTION("HTML");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(&f, &out, MARKUP_HTML, cases[i].in, cases[i].sentences, cases[i].same,
                   cases[i].backwards);
    }
    fake_free(&f), text_buffer_free(&out);
}

/* Returns whether a word or a sign begins at byte k of a sentence. */
static int is_begin(const char *text, size_t k) {
    return text[k] != ' ' &&
           (!k || strchr(" (\"", text[k - 1]) || strchr(",.:;!?)\"", text[k]) != NULL);
}

/* Translations with other words than the source. words is a translation whose tokens have a space
   between them; a token that begins with "_" has no space before it in the text. sources has a
   letter for each token: a for the first word or sign of the source, b for the second, and so on,
   or "-" if the token has no source. A capital letter is its word and the one behind it. */
static void free_words(void) {
    static const struct {
        const char *in, *words, *sources, *expected;
    } cases[] = {
        /* no word is glued to a number, and a quote outside an element stays outside */
        {"Tabelle <code>1</code>: Die Teile", "Do it _, the parts", "aabcd",
         "Do it <code>1</code>, the parts"},
        {"Tabelle <code>1</code>: Die Teile", "Do the parts", "acd", "Do <code>1</code> the parts"},
        {"Das Kapitel „<code>x</code>“ da", "The chapter there", "abd",
         "The chapter <code>x</code> there"},
        {"Der „<i>Hund</i>“ bellt", "The \" _dog _\" barks", "abbbc", "The \"<i>dog</i>\" barks"},
        {"Der \"<i>Hund</i>\" bellt", "The „ _dog _“ barks", "abcde", "The „<i>dog</i>“ barks"},
        {"Der <i>„Hund“</i> bellt", "The \" _dog _\" barks", "abbbc", "The <i>\"dog\"</i> barks"},
        /* an element with letters has a word */
        {"Er ist <b>zu</b> Hause", "He is at home", "ab-d", "He is <b>at</b> home"},
        {"Er ist <b>zu</b> <i>Hause</i>.", "He is home _.", "abde", "He <b>is</b> <i>home</i>."},
        {"Er <b><i>zu</i></b> Hause", "He home", "ac", "He <b><i>home</i></b>"},
        {"Er ist Haus<sub>2</sub> da", "He is", "ab", "He is<sub></sub>"},
        /* a formula is copied, and a word behind it is not glued to it */
        {"Er ist H<sub>2</sub> da", "He is", "ab", "He is H<sub>2</sub>"},
        {"Er ist \xCE\xB1<sub>i</sub> da", "He is", "ab", "He is \xCE\xB1<sub>i</sub>"},
        {"Er ist CO<sub>2</sub>arm da", "He is low", "abc", "He is CO<sub>2</sub> low"},
        {"Es <b>ist H<sub>2</sub>SO<sub>4</sub></b> innen", "It is in there", "abBc",
         "It <b>is H<sub>2</sub>SO<sub>4</sub> in</b> there"},
        {"Der <b>Wert {name}</b> ist da", "The value is there", "abBd",
         "The <b>value {name} is</b> there"},
        /* a full stop that the source has not is dropped */
        {"Der <b>Hund</b>", "The dog _.", "abb", "The <b>dog</b>"},
        {"<b>\xE6\x97\xA5</b> \xE6\x9C\xAC", "a \xE7\x8A\xAC\xE3\x80\x82", "ab",
         "<b>a</b> \xE7\x8A\xAC"},
        {"Der <b>Hund</b>.", "The dog _.", "abc", "The <b>dog</b>."},
        {"Der Hund!", "The dog _.", "abc", "The dog."},
        {"\xE7\x8A\xAC <b>x</b>\xE3\x80\x82", "The dog _.", "aab", "The <b>dog</b>."},
        {"um <b>5</b> Uhr", "at 5 a.m.", "abc", "at <b>5</b> a.m."},
        {"Nr. <b>5</b>", "<5> No.", "ca", "<b>&lt;5&gt;</b> No."},
        {"Der <b>Hund</b>", "The dog _...", "abb", "The <b>dog</b>..."},
        /* large first letters: as many letters as in the source */
        {"<span>D</span>er Hund", "The dog", "ab", "<span>T</span>he dog"},
        {"<span>M</span><i>eine</i> Katze", "My cat", "ab", "<span>M</span><i>y</i> cat"},
        {"„<span>D</span>er Hund“", "\" _The dog _\"", "abcd", "\"<span>T</span>he dog\""},
        {"<span>„D</span>er Hund", "\"The dog", "ab", "<span>\"T</span>he dog"},
        {"<b><span>Ein</span>mal da</b> war", "Once there was", "abc",
         "<b><span>Once</span> there</b> was"},
        {"<span>U</span>nd ich", "I did too", "ba-", "<span>I</span> did too"},
        {"<span>D</span>er Hund der", "dog of The", "baa", "<span>d</span>og of The"},
        {"<span>3</span>er Hund", "Three dog", "ab", "<span>Three</span> dog"},
        /* what is behind the last word stays before the final stop */
        {"alle zufrieden sind<a>[12]</a>.", "all are satisfied _.", "acbd",
         "all are satisfied<a>[12]</a>."},
        {"alle da sind<sup>1</sup>.", "all are there _.", "acbd", "all are there<sup>1</sup>."},
        {"es hat 20 m<sup>2</sup>.", "20 has it _.", "cbad", "20 m<sup>2</sup> has it."},
        {"er war da (siehe <code>7</code>).", "he was there _.", "abc-",
         "he was there <code>7</code>."}};
    size_t i, k;
    SECTION("other words");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        markup_document m;
        markup_translation t;
        text_buffer text, tokens, out;
        const char *word = cases[i].words, *source = cases[i].sources;
        memset(&m, 0, sizeof m), memset(&text, 0, sizeof text), memset(&out, 0, sizeof out);
        memset(&tokens, 0, sizeof tokens);
        CHECK(markup_read(&m, MARKUP_HTML, cases[i].in, strlen(cases[i].in)) && m.n_sentences == 1,
              "%s", cases[i].in);
        for (; *word; source++) {
            markup_token token = {0, 0, 0};
            size_t n = strcspn(word, " "), is_glued = *word == '_';
            if (text.size && !is_glued) text_buffer_append(&text, " ", 1);
            text_buffer_append(&text, word + is_glued, n - is_glued);
            word += n + (word[n] == ' ');
            token.end = text.size;
            for (k = n = 0; *source != '-' && k < m.sentences[0].size; k++) {
                n += is_begin(m.sentences[0].text, k) != 0;
                if (m.sentences[0].text[k] == ' ') continue;
                if (*source <= 'Z'
                        ? (size_t)(*source - 'A') + 1 > n || (size_t)(*source - 'A') + 2 < n
                        : (size_t)(*source - 'a') + 1 != n)
                    continue;
                if (!token.source_end) token.source_begin = k;
                token.source_end = k + 1;
            }
            text_buffer_append(&tokens, (const char *)&token, sizeof token);
        }
        t.text = text.data, t.size = text.size;
        t.tokens = (const markup_token *)(const void *)tokens.data;
        t.n = tokens.size / sizeof(markup_token);
        markup_begin(&m);
        text_buffer_append(&out, "", 0);
        if (!markup_put(&m, &t, &out) || !markup_end(&m, &out)) abort();
        CHECK(strcmp(out.data, cases[i].expected) == 0, "  is %s", out.data);
        text_buffer_free(&text), text_buffer_free(&tokens), text_buffer_free(&out);
        markup_free(&m);
    }
}

static void languages(void) {
    static const char *const cases[][2] = {
        {"<!doctype html><HTML title='b a' xml:lang=\"de\" Lang=de-AT><p lang=de title='d c'>f "
         "e<html lang=fr>",
         "<!doctype html><HTML title='a b' xml:lang=\"xx-y\" Lang=xx-y><p lang=de title='c d'>e "
         "f<html lang=fr>"},
        {"<html lang=>b a", "<html lang=xx-y>a b"},
        {"<html lang=''", "<html lang=''"},
        {"<p title=b lang=de><html lang=de>", "<p title=b lang=de><html lang=xx-y>"},
        {"<html translate=no lang=de>b a</html>", "<html translate=no lang=de>b a</html>"},
        {"<html><body lang=de>b a", "<html><body lang=de>a b"},
        {"<html lang=de><meta name=description content='b a'><meta property=og:locale "
         "content=de_DE>"
         "<meta content='de' http-equiv=Content-Language><meta property=og:locale:alternate "
         "content=fr_FR><p>d c",
         "<html lang=xx-y><meta name=description content='a b'><meta property=og:locale "
         "content=xx_y><meta content='xx-y' http-equiv=Content-Language><meta "
         "property=og:locale:alternate content=fr_FR><p>c d"},
        {"WEBVTT\nKind: captions\nLanguage: de-DE\n\n00:01.000 --> 00:02.000\nb a\n",
         "WEBVTT\nKind: captions\nLanguage: xx-y\n\n00:01.000 --> 00:02.000\na b\n"}};
    size_t i, k, n;
    fake f;
    text_buffer out;
    markup_document m;
    markup_translation *made;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out), memset(&m, 0, sizeof m);
    SECTION("the html element's lang");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_free(&f), f.how = BACKWARDS, out.size = 0, m.lang = "xx-y";
        if (!markup_read(&m, *cases[i][0] == 'W' ? MARKUP_SRT : MARKUP_HTML, cases[i][0],
                         strlen(cases[i][0])))
            abort();
        made = (markup_translation *)calloc(m.n_sentences + 1, sizeof *made);
        n = m.n_sentences;
        translate(&f, m.sentences, n, made);
        markup_begin(&m);
        for (k = 0; k < n; k++) (void)markup_put(&m, &made[k], &out);
        CHECK(markup_end(&m, &out) && strcmp(out.data, cases[i][1]) == 0, "%s", out.data);
        free(made);
    }
    markup_free(&m), fake_free(&f), text_buffer_free(&out);
}

/* Text that a document says is in another language. */
static void foreign_texts(void) {
    static const struct {
        const char *source, *in, *backwards;
        size_t n; /* texts that stay */
    } cases[] = {
        {"de", "<p>b a<p lang=en>d c</p><p LANG='EN-gb'>f e</p><p lang=DE-at>h g",
         "<p>a b<p lang=en>d c</p><p LANG='EN-gb'>f e</p><p lang=DE-at>g h", 2},
        {"de", "<p lang=''>b a</p><p lang=und>d c</p><p lang=x-own>f e</p><p lang=mul>h g</p>",
         "<p lang=''>a b</p><p lang=und>c d</p><p lang=x-own>e f</p><p lang=mul>g h</p>", 0},
        {"deu_Latn", "<p lang=de>b a</p><p lang=ger>d c</p><p lang=eng>f e</p>",
         "<p lang=de>a b</p><p lang=ger>c d</p><p lang=eng>f e</p>", 1},
        {"nb", "<p lang=no>b a</p><p lang=nn>d c</p>", "<p lang=no>a b</p><p lang=nn>d c</p>", 1},
        /* a wrong language of the root: text in it is translated, too */
        {"de", "<html lang=en><p>b a</p><p lang=en>d c</p><p lang=fr>f e</p><p lang=de>h g</p>",
         "<html lang=en><p>a b</p><p lang=en>c d</p><p lang=fr>f e</p><p lang=de>g h</p>", 1},
        {"de", "<html><body lang=en>b a<p lang=en>d c</p>",
         "<html><body lang=en>a b<p lang=en>d c</p>", 1},
        {"de", "<?xml version='1.0'?><r xml:lang='en'><p>b a</p><p xml:lang='fr'>d c</p></r>",
         "<?xml version='1.0'?><r xml:lang='en'><p>a b</p><p xml:lang='fr'>d c</p></r>", 1},
        /* a model whose language is unknown: that of the root counts */
        {NULL, "<p lang=en>b a</p>", "<p lang=en>a b</p>", 0},
        {NULL, "<html lang=de><p lang=en>b a</p><p>d c</p>",
         "<html lang=de><p lang=en>b a</p><p>c d</p>", 1},
        /* inside each other */
        {"de", "<p>d <i lang=fr>c b</i> a</p>", "<p>a <i lang=fr>c b</i> d</p>", 1},
        {"de", "<div lang=en>b a<p lang=de>d c</p> f e <img alt='h g'></div>",
         "<div lang=en>b a<p lang=de>c d</p> f e <img alt='h g'></div>", 2},
        {"de", "<div lang=en><p title='b a'>d c</p><hr></div><p title='f e'>h g</p>",
         "<div lang=en><p title='b a'>d c</p><hr></div><p title='e f'>g h</p>", 1},
        /* no closing tags */
        {"de", "<ul><li lang=en>b a<li>d c<li lang=de>f e</ul>",
         "<ul><li lang=en>b a<li>c d<li lang=de>e f</ul>", 1},
        {"de", "WEBVTT\n\n00:01.000 --> 00:02.000\n<lang en>b a</lang> d c\n",
         "WEBVTT\n\n00:01.000 --> 00:02.000\n<lang en>b a</lang> c d\n", 1},
        {"de",
         "WEBVTT\n\n00:01.000 --> 00:02.000\n<lang.x en-GB>b a\nd c\n\n00:03.000 --> 00:04.000\n"
         "<lang de>f e</lang>\n",
         "WEBVTT\n\n00:01.000 --> 00:02.000\n<lang.x en-GB>b a\nd c\n\n00:03.000 --> 00:04.000\n"
         "<lang de>e f</lang>\n",
         2},
        {"de",
         "<SAMI><style>P {x: y;} .DE {Name: a; lang: de-DE;} .EN {lang:en;}</style><SYNC "
         "Start=1><P Class=de>b a<P Class=EN>d<br>c<SYNC Start=2><P Class=xx>f e</SAMI>",
         "<SAMI><style>P {x: y;} .DE {Name: a; lang: de-DE;} .EN {lang:en;}</style><SYNC "
         "Start=1><P Class=de>a b<P Class=EN>d<br>c<SYNC Start=2><P Class=xx>e f</SAMI>",
         2},
        /* no class is in the language of the model */
        {"de", "<SAMI><style>.EN {lang:en;}</style><SYNC Start=1><P Class=EN>b a</SAMI>",
         "<SAMI><style>.EN {lang:en;}</style><SYNC Start=1><P Class=EN>a b</SAMI>", 0}};
    size_t i, k, n, way;
    fake f;
    text_buffer out;
    markup_document m;
    markup_translation *made;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out);
    SECTION("text in another language");
    for (i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const char *in = cases[i / 2].in;
        way = i % 2; /* 1: with all languages, nothing is left */
        fake_free(&f), f.how = BACKWARDS, out.size = 0, memset(&m, 0, sizeof m);
        m.surrounds = 1, m.source = cases[i / 2].source, m.all_languages = way == 1;
        if (!markup_read(&m, *in == 'W' ? MARKUP_SRT : MARKUP_HTML, in, strlen(in))) abort();
        made = (markup_translation *)calloc(m.n_sentences + 1, sizeof *made);
        n = m.n_sentences;
        translate(&f, m.sentences, n, made);
        markup_begin(&m);
        for (k = 0; k < n; k++) (void)markup_put(&m, &made[k], &out);
        CHECK(markup_end(&m, &out) && (way || strcmp(out.data, cases[i / 2].backwards) == 0), "%s",
              out.data);
        CHECK(m.n_foreign == (way ? 0 : cases[i / 2].n), "%s: %ld texts", in, (long)m.n_foreign);
        free(made), markup_free(&m);
    }
    fake_free(&f), text_buffer_free(&out);
}

static void markdown_cases(void) {
    static const struct {
        const char *in, *sentences, *same, *backwards;
    } cases[] = {
        {"# One *two* three #\n", "One two three|", NULL, "# three *two* One #\n"},
        {"One\ntwo\n===\n", "One two|", NULL, "two One\n===\n"},
        {"One\n<b>\ntwo</b>\n", NULL, NULL, "<b> two</b>\nOne\n"},
        {"un*one two  \nthree **\n", NULL, NULL, "two un*one  \n\\*\\* three\n"},
        {"7) -\tOne two  \n       three it.\n       <!-- c --> dog\n", NULL, NULL,
         "7) -\ttwo One  \n       it. three <!-- c --> dog\n"},
        {"Press ++ctrl+alt+x++ and \\(y\\) or @[video](a b) now.\n", "Press and or now.|", NULL,
         NULL},
        {"Press `Ctrl`+`C` and `a` or `b`.\n", "Press and or.|", NULL, NULL},
        {"One {term}`dog` here.\n", "One here.|", NULL, NULL},
        {"{{< highlight go >}}\nno\n{{< /highlight >}}\nyes\n\n{% raw %}\nno\n{% endraw %}\n",
         "yes|", NULL, NULL},
        {"\\begin{align}\nno\n\\end{align}\n\n@import \"no.md\"\n\n[toc]\n", "", NULL, NULL},
        {"{0}: One two\n", "One two|", NULL, "{0}: two One\n"},
        {"See *our dog\n{name}\nat* home.\n\n{% if x %}\none two\n{% endif %}\n",
         "See our dog at home.|one two|", NULL,
         "home. *at\n{name} dog\nour* See\n\n{% if x %}\ntwo one\n{% endif %}\n"},
        {"*** *** aaaa bbbb\ncc\n", "*** *** aaaa bbbb cc|", NULL, "cc bbbb aaaa *** ***\n"},
        {"See [the docs](http://a.b/_c_ \"t\") of `f(x)` now.", "t|See the docs of now.|", NULL,
         "now. `f(x)` of [docs the](http://a.b/_c_ \"t\") See"},
        {"> a **b c** and\n> more of it here\n", "a b c and more of it here|", NULL,
         "> here it of more\n> and **c b** a\n"},
        {"- one\n  two\n- [x] three\n\n      code\n", "one two|three|", NULL,
         "- two\n  one\n- [x] three\n\n      code\n"},
        {"```\nno\n```\nyes\n\n    no\n\n~~~ x\n```\n~~~\n", "yes|", NULL, NULL},
        {"1. one\n2) two\n   * three\n", "one|two|three|", NULL, NULL},
        {"| a *b* c | `x` d |\n|---|:-:|\n| \\| e | f |\nend", "a b c|d|| e|f|end|", NULL,
         "| c *b* a | `x` d |\n|---|:-:|\n| e \\| | f |\nend"},
        {"---\na: b\n---\ntext\n", "text|", NULL, NULL},
        {"+++\na\n+++\n", "", NULL, NULL},
        {"See [Foo] and [foo bar][].\n\n[FOO]: /a 'b c'\n[foo bar]:\n  <d e>\n",
         "See Foo and foo bar.|", NULL,
         "[bar. foo][foo bar] and [Foo] See\n\n[FOO]: /a 'b c'\n[foo bar]:\n  <d e>\n"},
        {"[^1]: One.\n\n    Two here.\n\n        code\n\n    - three\n[^2]: Four\nfive.\n\n    "
         "six\n\nEnd.\n\n    code\n",
         "One.|Two here.|three|Four five.|six|End.|", NULL, NULL},
        {"[not] a [link][x]", "[not] a [link][x]|", NULL, "[link][x] a [not]"},
        {"[[x]() on [the cat][foo]](<a> t) and\n\n[foo]: <u>\n", "[x on the cat](|t) and|", NULL,
         "[cat\\]( the][foo] on \\[[x]()<a> and t)\n\n[foo]: <u>\n"},
        {"a \\*b\\* &amp; &copy; 2 * 3 a_b <c> C:\\d", "a *b* & © 2 * 3 a_b|C:\\d|", NULL, NULL},
        {"one  \ntwo\\\nthree", "one|two|three|", NULL, "one  \ntwo\\\nthree"},
        {"a 2. b", "a 2. b|", NULL, "b 2. a"},
        {"# b -", "b -|", NULL, "# - b"},
        {"b -", "b -|", NULL, "\\- b"},
        {"b + 7)", "b + 7)|", NULL, "7\\) + b"},
        {":::note\na b\n:::\n", "a b|", NULL, ":::note\nb a\n:::\n"},
        {"!!! note \"x y\"\n    a b\n\n    c\n\nd\n", "x y|a b|c|d|", NULL,
         "!!! note \"y x\"\n    b a\n\n    c\n\nd\n"},
        {"=== \"x y\"\n\n    a b\n\n??? tip\n    c\n", "x y|a b|c|", NULL, NULL},
        {":::tip x y\na\n:::\n\n::: warning [b]\n:::\n\n:::note[b c]\nd e\n:::\n",
         "x y|a|b|b c|d e|", NULL,
         ":::tip y x\na\n:::\n\n::: warning [b]\n:::\n\n:::note[c b]\ne d\n:::\n"},
        {"/// note | x y\na\n///\n\n::: {.note}\nb\n:::\n\n::: a.b\n    c: d\n", "x y|a|b|", NULL,
         NULL},
        {"```{note}\na b\n```\nc d\n```{python}\ne\n```\n", "a b|c d|", NULL,
         "```{note}\nb a\n```\nd c\n```{python}\ne\n```\n"},
        {"````{admonition} x y\n:class: a b\n:tab-width: 3\n\nc d\n\n```{tip} e\n---\nf: "
         "g\n---\nh\n```\n"
         "```\ni\n```\n````\n```\nj\n```\n",
         "x y|c d|e|h|", NULL, NULL},
        {"```{versionadded} 1.2 a\nb c\n```\n:::{figure} a b.png\n:name: x y\nd\n:::\n", "b c|d|",
         NULL, NULL},
        {"- ```{note}\n  a\n\nb\n```\nc\n```\n", "a|b|", NULL, NULL},
        {"a $x^2 + y$ b $5 and $6.\n\n$$\nz w\n$$\nc\n", "a b $5 and $6.|c|", NULL, NULL},
        {"{{< a b=\"c\" >}}\n\n{% d %}\n\n# e {#f}\n\n[[_TOC_]]\n", "e|", NULL, NULL},
        {"import A from 'b'\nexport const c = 1\n\nd e\n\n<Tab x={{a: '>'}}>\nf\n</Tab>\n",
         "d e|f|", NULL, NULL},
        {"a\n: b c\n\n(d)=\n\n*[E]: f\n\ng :smile: @h #12 x^2^ H~2~O ==i== [[j|k]]\n",
         "a|b c|g x HO i|", NULL, NULL},
        {"\xEF\xBB\xBF---\na: b\n---\nc\n", "c|", NULL, NULL},
        {"***a** b*", "a b|", NULL, "*b **a***"},
        {"***a* b** c", "a b c|", NULL, "c **b *a***"},
        {"**a**, *b*", "a, b|", NULL, "*b* **a**,"},
        {"![alt text](i.png) and b <img src=x>", "alt text|and b|", NULL,
         "![text alt](i.png) b and <img src=x>"},
        {"a ![b c](x \"d e\") [f g](y 'h i') <img alt=\"j k\"> z", "b c|d e|h i|j k|a f g z|", NULL,
         "z <img alt=\"k j\"> [g f](y 'i h') ![c b](x \"e d\") a"},
        {"![one two][y]\n\n![y] and ![y][] or ![*b* c](x)\n\n[y]: z 'a b'\n", "one two|and or|",
         NULL, "![two one][y]\n\n![y] or ![y][] and ![*b* c](x)\n\n[y]: z 'a b'\n"},
        {"<p><img alt='a b'></p>\n\n> c <img alt=\"d\n> e\">\n", "a b|c|", NULL,
         "<p><img alt='b a'></p>\n\n> c <img alt=\"d\n> e\">\n"},
        {"text <!-- c --> more<br>last", "text|more|last|", NULL, NULL},
        {"<div>\nSome *<b>text* in</b>\nit\n</div>\n\n*on*", "Some *text* in it|on|", NULL, NULL},
        {"a <b>b *c</b> d* e", "a|b c|d e|", NULL, NULL},
        {"<https://a.b/c_d_> or www.a.b/_c_/ or a@b.c", "or or a@b.c|", NULL, NULL},
        {"Hi {name}, you have %d of {{x}} and ${y}.", "Hi, you have of and.|", NULL, NULL},
        {"[^1]: A note[^2] here", "A note here|", NULL, NULL},
        {"> [!NOTE]\n> Take care", "Take care|", NULL, NULL},
        {"a|b\n-|-\nc|d", "a|b|c|d|", NULL, NULL},
        {"- a\n\n  b\n\n<!-- *x*\n\ny -->\n\tcode", "a|b|", NULL, NULL},
        {"[foo]][foo] x\n\n[foo]: /u", "foo]foo x|", NULL, NULL},
        {"# # b", "# b|", NULL, "# b \\#"},
        {"<b>\nd</b> e f", "d|e f|", NULL, "<b>\nd</b> f e"},
        {"<span translate=\"no\">\nd e\n</span> f", "", NULL, NULL},
        {"> [!NOTE]\n> Take care\n> of it", "Take care of it|", NULL,
         "> [!NOTE]\n> it of\n> care Take"},
        {"`a \n b` c d", "c d|", NULL, "`a \nb` d c"},
        {"b 1.|c d\n-|-\n", "b 1.|c d|", NULL, "1\\. b|d c\n-|-\n"},
        {">1. >a b\nc d", "a b c d|", NULL, ">1. >d c\n>    >b a"},
        {">-\t>a b\nc d", "a b c d|", NULL, ">-\t>d c\n>    >b a"}};
    fake f;
    text_buffer out;
    size_t i;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out);
    SECTION("Markdown");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(&f, &out, MARKUP_MARKDOWN, cases[i].in, cases[i].sentences, cases[i].same,
                   cases[i].backwards);
    }
    fake_free(&f), text_buffer_free(&out);
}

static void wrapped_cases(void) {
    static const struct {
        const char *in, *sentences, *same;
    } cases[] = {
        {"One two three four five\nsix seven eight. Nine\nten\n",
         "One two three four five six seven eight.|Nine ten|",
         "One two three four five\nsix seven eight. Nine\nten\n"},
        {"> One two three four five\n> six seven eight nine\n>> ten\n\n> b\n",
         "One two three four five six seven eight nine|ten|b|", NULL},
        {"* one two three four\n  five six seven eight\n* nine\n  ten\n",
         "one two three four five six seven eight|nine|ten|", NULL},
        {"A title\n=======\n\nThis is a long line of it and\nit goes on here as it does so\nwell. "
         "End\n",
         "A title|This is a long line of it and it goes on here as it does so well.|End|", NULL},
        {"From the auto-\nmatic one, self-\nmade and north-\nand south. An\nautomatic\n", NULL,
         NULL},
        {"From: a b\nSubject: c d\n\ntext here\n-- \nAnn\nLand\n", "text here|", NULL},
        {"a    b    c\nd    e    f\n", "a|b|c|d|e|f|", NULL},
        {"\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87\n\xE4\xB8\xAD\xE6\x96\x87\n",
         "\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87|", NULL}};
    fake f;
    text_buffer out;
    size_t i;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out);
    SECTION("wrapped lines");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *in = cases[i].in, *expected = cases[i].same ? cases[i].same : in;
        (void)run(&f, SAME, MARKUP_WRAPPED, in, strlen(in), &out);
        if (cases[i].sentences) {
            CHECK(strcmp(out.data, expected) == 0, "%s", in);
            if (strcmp(out.data, expected) != 0) printf("      got      %s\n", out.data);
            CHECK(strcmp(f.seen.data, cases[i].sentences) == 0, "  is %s", f.seen.data);
        } else
            CHECK(strstr(f.seen.data, "automatic one") && strstr(f.seen.data, "self-made") &&
                      strstr(f.seen.data, "north- and"),
                  "hyphens: %s", f.seen.data);
    }
    (void)run(&f, SAME, MARKUP_WRAPPED, "1 \r 2 One. 3 \r 4 Two\n", 22, &out);
    CHECK(strstr(out.data, "One") != NULL, "stray carriage returns: %s", out.data);
    (void)run(&f, BACKWARDS, MARKUP_MARKDOWN, "one and `a\rb` more\n", 19, &out);
    CHECK(strstr(out.data, "`a b`") != NULL, "in code: %s", out.data);
    fake_free(&f), text_buffer_free(&out);
}

/* Columns must be those of wcwidth. */
static void columns(void) {
    SECTION("columns");
    CHECK(markup_column("a\xCC\x81\xE4\xB8\xAD\xEF\xBC\xA1\xF0\x9F\x98\x80", 13, 0) == 7,
          "a, a mark, three wide ones");
    CHECK(markup_column("\tx", 2, 3) == 9 && markup_column("abc\nx", 5, 0) == 1,
          "tabs and newlines");
}

/* Returns the document without tags and whitespace, or its tags in order. */
static void strip(const char *text, size_t size, int tags, text_buffer *out) {
    size_t i;
    int in_tag = 0;
    out->size = 0;
    text_buffer_append(out, "", 0);
    for (i = 0; i < size; i++) {
        in_tag |= text[i] == '<';
        if (in_tag == tags && (tags || !strchr(" \n", text[i])))
            text_buffer_append(out, text + i, 1);
        in_tag &= text[i] != '>';
    }
}

static void subtitles(void) {
    static const struct {
        const char *in, *sentences, *same, *backwards;
    } cases[] = {
        {"1\n00:00:01,000 --> 00:00:02,000\nWe went\nto the <i>old</i>\n\n2\n00:00:02,100 --> "
         "00:00:04,000\nhouse & slept.\n\n3\n00:00:05,000 --> 00:00:06,000\n- Who?\n- Me.\n",
         "We went to the old house & slept.|Who?|Me.|", NULL,
         "1\n00:00:01,000 --> 00:00:02,000\nslept. &\nhouse <i>old</i>\n\n2\n00:00:02,100 --> "
         "00:00:04,000\nthe to went We\n\n3\n00:00:05,000 --> 00:00:06,000\n- Who?\n- Me.\n"},
        {"{1}{1}23.976\n{120}{180}{y:i}We went|to the garden.\r\n{200}{}- Who?|- Me.\n",
         "We went to the garden.|Who?|Me.|", NULL,
         "{1}{1}23.976\n{120}{180}{y:i}garden.|the to went We\r\n{200}{}- Who?|- Me.\n"},
        {"1\n00:01,000 --> 00:02,000\nin the\n2\n00:02,000 --> 00:03,000\n1984\n3\n00:03,000 --> "
         "00:04,000\nWe went\n\n12\n13\n\n4\n00:04,000 --> 00:05,000\n25",
         "in the|We went 12 13|", NULL,
         "1\n00:01,000 --> 00:02,000\nthe in\n2\n00:02,000 --> 00:03,000\n1984\n3\n00:03,000 --> "
         "00:04,000\n13 12\n\nwent\nWe\n\n4\n00:04,000 --> 00:05,000\n25"},
        {"[1][2]/We went|to\n[3][4]bed.\n", "We went to bed.|", NULL,
         "[1][2]/bed. to|went\n[3][4]We\n"},
        {"1\n00:01,000 --> 00:02,000\na|b\n", "a|b|", NULL, NULL},
        /* brackets around a sound stay around its translation */
        {"1\n00:01,000 --> 00:02,000\n[a door slams]\n\n2\n00:02,000 --> 00:03,000\n<i>(he "
         "laughs.)</i>\n\n3\n00:03,000 --> 00:04,000\n(one) two (three)\n",
         "a door slams|he laughs.|(one) two (three)|", NULL,
         "1\n00:01,000 --> 00:02,000\n[slams door a]\n\n2\n00:02,000 --> 00:03,000\n<i>(laughs. "
         "he)</i>\n\n3\n00:03,000 --> 00:04,000\n(three) two (one)\n"},
        {"WEBVTT\r\n\r\n00:01.000 --> 00:02.000\r\n{\\an8}<i>all of\r\nit</i> was\r\n\r\n"
         "00:02.900 --> 00:04.000\r\nhere",
         "all of it was here|", NULL, NULL},
        {"1\n00:01,000 --> 00:02,000\nOne.\n2\n00:02,000 --> 00:03,000\nTwo "
         "is\n42\n\nso.\n\n3\n00:03,000 "
         "-> 00:04,000\nThree.",
         "One.|Two is 42 so.|Three.|", NULL,
         "1\n00:01,000 --> 00:02,000\nOne.\n2\n00:02,000 --> 00:03,000\nso. "
         "42\nis\n\nTwo\n\n3\n00:03,000 "
         "-> 00:04,000\nThree."},
        {"1\r00:01,000 --> 00:02,000\rOne two.\r\r2\r00:02,000 --> 00:03,000\rThree",
         "One two.|Three|", NULL,
         "1\r00:01,000 --> 00:02,000\rtwo. One\r\r2\r00:02,000 --> 00:03,000\rThree"},
        {"[00:00.000 --> 00:02.000]   One two\n[00:02.000 --> 00:03.000]   three four\n",
         "One two|three four|", NULL,
         "[00:00.000 --> 00:02.000]   two One\n[00:02.000 --> 00:03.000]   four three\n"},
        {"WEBVTT\n\nNOTE a b\n\nSTYLE\n::cue { x }\n\nintro\n00:01.000 --> 00:02.000\n \nAnna "
         "&amp; "
         "Ben<00:01.500><c.x> are</c> here & &lrm;there\n\nREGION\nid:a b\n",
         "Anna & Ben are here & there|", NULL, NULL},
        /* each line keeps a word, and what has all words of a line has them in the translation */
        {"1\n00:01,000 --> 00:02,000\nYes,\n\n2\n00:02,000 --> 00:03,000\nthe\n\n3\n00:03,000 --> "
         "00:04,000\ndog sleeps in the garden.",
         "Yes, the dog sleeps in the garden.|", NULL,
         "1\n00:01,000 --> 00:02,000\ngarden.\n\n2\n00:02,000 --> 00:03,000\nthe\n\n3\n00:03,000 "
         "--> "
         "00:04,000\nin sleeps dog the Yes,"},
        {"1\n00:01,000 --> 00:02,000\n<i>We went</i>\n<i>back <b>home</b></i>",
         "We went back home|", NULL,
         "1\n00:01,000 --> 00:02,000\n<i>home back</i>\n<i>went <b>We</b></i>"},
        {"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>The</v>\n\n00:02.000 --> 00:03.000\n<v "
         "Anna>dog</v>\n\n00:03.000 --> 00:04.000\n<v Ben>so</v>\n",
         "The dog|so|", NULL,
         "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>dog</v>\n\n00:02.000 --> 00:03.000\n<v "
         "Anna>The</v>\n\n00:03.000 --> 00:04.000\n<v Ben>so</v>\n"},
        {"1\n00:01,000 --> 00:02,000\nOne two\n\n2\n00:02,000 --> "
         "00:03,000\n{\\an8}Berlin\n\n3\n00:03,000 "
         "--> 00:04,000\n(three)\n\n4\n00:04,000 --> 00:05,000\nfour\n\n5\n00:05,000 --> "
         "00:06,000\n\xE2\x99\xAA five \xE2\x99\xAA\n\n6\n00:06,000 --> 00:07,000\nsix\n",
         "One two|Berlin|three|four|five|six|", NULL, NULL},
        {"WEBVTT\n\n00:00.160 --> 00:02.350\n \nhello<00:00:00.320><c> all</c><00:00:00.560><c> "
         "together</c>",
         "hello all together|", NULL,
         "WEBVTT\n\n00:00.160 --> 00:02.350\n \ntogether<00:00:00.320><c> all</c><00:00:00.560><c> "
         "hello</c>"},
        {"no subtitles\n1\n", "", NULL, NULL}};
    fake f;
    text_buffer doc, out;
    size_t i;
    int lost = 0;
    unsigned state = 5;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out), memset(&doc, 0, sizeof doc);
    SECTION("subtitles");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *in = cases[i].in;
        CHECK(strcmp(run(&f, SAME, MARKUP_SRT, in, strlen(in), &out), in) == 0, "%s", in);
        CHECK(strcmp(f.seen.data, cases[i].sentences) == 0, "  is %s", f.seen.data);
        if (!cases[i].backwards) continue;
        (void)run(&f, BACKWARDS, MARKUP_SRT, in, strlen(in), &out);
        CHECK(strcmp(out.data, cases[i].backwards) == 0, "  backwards %s", out.data);
    }
    for (i = 0; i < 2000; i++) { /* Lines without text stay, in their order. */
        static const char *const words[] = {"one ", "two, ", "three. ",   "Four ", "\n",
                                            "<i>",  "</i>",  "<b>x</b> ", "& ",    "- "};
        const char *from, *at, *end;
        unsigned cues = 1 + draw(&state, 8), k, n;
        doc.size = 0;
        for (k = 1; k <= cues; k++) {
            text_buffer_format(&doc, "%u\n00:00:%02u --> 00:00:%02u\nso ", k, k, k);
            for (n = draw(&state, 12); n > 0; n--) {
                at = words[draw(&state, 10)];
                if (*at == '\n' && doc.data[doc.size - 1] == '\n') continue;
                text_buffer_append(&doc, at, strlen(at));
            }
            text_buffer_append(&doc, "\n\n", 2);
        }
        (void)run(&f, (int)(i % TRANSLATORS), MARKUP_SRT, doc.data, doc.size, &out);
        if (f.how == NOTHING) lost += strcmp(doc.data, out.data) != 0;
        for (at = doc.data, from = out.data; from && (at = strstr(at, "\n00:")) != NULL; at = end) {
            char time[40];
            end = strchr(at + 1, '\n');
            snprintf(time, sizeof time, "%.*s", (int)(end + 1 - at), at);
            from = strstr(from, time);
        }
        lost += from == NULL;
        strip(doc.data, doc.size, 1, &f.seen), n = (unsigned)f.seen.size;
        strip(out.data, out.size, 1, &f.seen);
        lost += n != f.seen.size;
    }
    CHECK(!lost, "2,000 at random: times stay in their order, and all tags, in %d not", lost);
    fake_free(&f), text_buffer_free(&out), text_buffer_free(&doc);
}

/* Text that is copied because it needs a reader of its own is counted. */
static void inner_texts(void) {
    static const char page[] =
        "<p>a b\n<iframe srcdoc='<p>c d'></iframe>\n<p><svg><text>e f</text></svg>"
        "<svg><path d=M></svg><iframe srcdoc=''></iframe>";
    static const char line[] =
        "2 documents in attributes and drawings with text stay as they are, the first in line 2\n";
    markup_document m;
    text_buffer left;
    memset(&m, 0, sizeof m), memset(&left, 0, sizeof left);
    if (!markup_read(&m, MARKUP_HTML, page, sizeof page - 1)) abort();
    markup_left(&m, &left);
    CHECK(left.size == sizeof line - 1 && memcmp(left.data, line, left.size) == 0, "%.*s",
          (int)left.size, left.data);
    CHECK(m.n_sentences == 1, "  and not translated");
    markup_free(&m), text_buffer_free(&left);
}

/* Appends cues of SubRip to a document: each begins with the tenths of a second between it and the
   one before. */
static void add_cues(text_buffer *doc, const char *cues) {
    long at = 0;
    int n = 0;
    doc->size = 0;
    for (; *cues; cues += strcspn(cues, "/"), cues += *cues == '/') {
        char *text;
        const long begin = at + 100 * strtol(cues, &text, 10);
        at = begin + 2000;
        text_buffer_format(doc, "%d\n00:%02ld:%02ld,%03ld --> 00:%02ld:%02ld,%03ld\n", ++n,
                           begin / 60000, begin / 1000 % 60, begin % 1000, at / 60000,
                           at / 1000 % 60, at % 1000);
        text_buffer_append(doc, text + 1, strcspn(text + 1, "/"));
        text_buffer_append(doc, "\n\n", 2);
        cues = text;
    }
}

/* Cues are joined where something says that the sentence goes on, and only there. */
static void joined_cues(void) {
    static const char *const cases[][2] = {
        {"10 The old man/9 was here./10 Who is it", "The old man was here.|Who is it|"},
        {"10 The old man/10 was here.", "The old man|was here.|"},
        {"10 Good morning/5 My cat sleeps/5 Where is my book/5 I go home",
         "Good morning|My cat sleeps|Where is my book|I go home|"},
        {"10 The old man,/5 Tom, was here", "The old man, Tom, was here|"},
        {"10 We saw Ann and/5 Tom", "We saw Ann and Tom|"},
        {"10 Er kam mit einer/5 Frau", "Er kam mit einer Frau|"},
        {"10 We saw (so they say/5 Ann) Tom", "We saw (so they say Ann) Tom|"},
        {"10 We saw (so they say/12 Ann) Tom", "We saw (so they say|Ann) Tom|"},
        {"10 He said:/5 Come here", "He said:|Come here|"},
        {"10 We saw Prof./5 Smith here", "We saw Prof. Smith here|"},
        {"10 We saw him./5 Smith slept.", "We saw him.|Smith slept.|"},
        /* a capital goes on at once, where sentences have stops */
        {"10 Er kauft/1 Brot im Laden./10 So ist es.", "Er kauft Brot im Laden.|So ist es.|"},
        {"10 Er kauft/5 Brot im Laden./10 So ist es.", "Er kauft|Brot im Laden.|So ist es.|"},
        {"10 Er kauft/1 Brot im Laden/1 So ist es", "Er kauft|Brot im Laden|So ist es|"},
        /* dots on both sides are no words; those of one side stay where they are */
        {"10 I do not know.../5 ...what we do.", "I do not know what we do.|"},
        {"10 I do not know\xE2\x80\xA6/5 \xE2\x80\xA6what we do.", "I do not know what we do.|"},
        {"10 I do not know.../5 what we do.", "I do not know what we do.|"},
        {"10 I do not know.../5 What is it?", "I do not know...|What is it?|"},
        {"10 I do not know.../20 ...what we do.", "I do not know...|what we do.|"},
        {"10 .../5 ...what we do.", "what we do.|"},
        /* scripts without capitals: only a comma or a bracket */
        {"10 \xE6\x88\x91\xE4\xBB\xAC\xEF\xBC\x8C/5 \xE4\xBB\x96\xE3\x80\x82",
         "\xE6\x88\x91\xE4\xBB\xAC\xEF\xBC\x8C\xE4\xBB\x96\xE3\x80\x82|"},
        {"10 \xE6\x88\x91\xE4\xBB\xAC/1 \xE4\xBB\x96\xE3\x80\x82",
         "\xE6\x88\x91\xE4\xBB\xAC|\xE4\xBB\x96\xE3\x80\x82|"},
        {"10 \xE6\x88\x91\xE3\x80\x8C\xE4\xBB\xAC/1 \xE4\xBB\x96\xE3\x80\x8D\xE3\x80\x82",
         "\xE6\x88\x91\xE3\x80\x8C\xE4\xBB\xAC\xE4\xBB\x96\xE3\x80\x8D\xE3\x80\x82|"}};
    fake f;
    text_buffer doc, out;
    size_t i;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out), memset(&doc, 0, sizeof doc);
    SECTION("cues that are joined");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        add_cues(&doc, cases[i][0]);
        CHECK(strcmp(run(&f, SAME, MARKUP_SRT, doc.data, doc.size, &out), doc.data) == 0, "%s",
              cases[i][0]);
        CHECK(strcmp(f.seen.data, cases[i][1]) == 0, "  is %s", f.seen.data);
    }
    add_cues(&doc, "10 I do not.../5 ...know it.");
    (void)run(&f, BACKWARDS, MARKUP_SRT, doc.data, doc.size, &out);
    CHECK(strstr(out.data, "it. know...\n\n2\n") && strstr(out.data, "\n...not do I\n"),
          "dots stay at the ends of cues: %s", out.data);
    fake_free(&f), text_buffer_free(&out), text_buffer_free(&doc);
}

/* ASS: only the text of events is translated, and tags stay with their words. */
static void ass(void) {
    static const char head[] = "[Script Info]\nTitle: one two\n\n[V4+ Styles]\nFormat: Name, Text\n"
                               "Style: a,b c\n\n[Events]\n";
    static const struct {
        const char *in, *sentences, *backwards;
    } cases[] = {
        {"Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,one, two\\Nthree four\nComment: "
         "0,0:00:02.00,0:00:03.00,A,,0,0,0,,no no\n",
         "one, two three four|",
         "Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,four three\\Ntwo one,\nComment: "
         "0,0:00:02.00,0:00:03.00,A,,0,0,0,,no no\n"},
        {"Format: Start, Style, Text, End\nDialogue: 0:00:01.00,A,one two,0:00:02.00\n", "one two|",
         "Format: Start, Style, Text, End\nDialogue: 0:00:01.00,A,two one,0:00:02.00\n"},
        {"Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{\\an8\\pos(1,2)}one {\\i1\\b1}two "
         "three{\\i0\\b0} {\\c&H1&}four{\\r} five\n",
         "one two three four five|",
         "Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{\\an8\\pos(1,2)}five {\\c&H1&}four{\\r} "
         "{\\i1\\b1}three two{\\i0\\b0} one\n"},
        {"Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{\\k20}One t{\\k9}wo {\\kf30\\i1}three\n",
         "One two three|", "Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,three two One {\\i1}\n"},
        {"Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{\\p1}m 0 0 l 9 9 {a\\p0}one {two} three\n",
         "one three|",
         "Dialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{\\p1}m 0 0 l 9 9 {a\\p0}three {two} one\n"},
        {"Dialogue: 0,0:00:01.00,0:00:02.00,A,Ann,0,0,0,,One two\nDialogue: "
         "0,0:00:02.10,0:00:03.00,A,Ann,0,0,0,,three\nDialogue: "
         "0,0:00:03.10,0:00:04.00,A,Ben,0,0,0,,four\nDialogue: "
         "0,0:00:04.10,0:00:05.00,B,Ben,0,0,0,,five\n",
         "One two three|four|five|",
         "Dialogue: 0,0:00:01.00,0:00:02.00,A,Ann,0,0,0,,three two\nDialogue: "
         "0,0:00:02.10,0:00:03.00,A,Ann,0,0,0,,One\nDialogue: "
         "0,0:00:03.10,0:00:04.00,A,Ben,0,0,0,,four\nDialogue: "
         "0,0:00:04.10,0:00:05.00,B,Ben,0,0,0,,five\n"},
        {"[Fonts]\nDialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,no no\n", "", NULL}};
    fake f;
    text_buffer doc, out;
    size_t i;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out), memset(&doc, 0, sizeof doc);
    SECTION("ASS");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        doc.size = 0;
        text_buffer_format(&doc, "%s%s", head, cases[i].in);
        CHECK(strcmp(run(&f, SAME, MARKUP_SRT, doc.data, doc.size, &out), doc.data) == 0, "%s",
              cases[i].in);
        CHECK(strcmp(f.seen.data, cases[i].sentences) == 0, "  is %s", f.seen.data);
        (void)run(&f, BACKWARDS, MARKUP_SRT, doc.data, doc.size, &out);
        if (cases[i].backwards)
            CHECK(strcmp(out.data + sizeof head - 1, cases[i].backwards) == 0, "  backwards %s",
                  out.data + sizeof head - 1);
    }
    fake_free(&f), text_buffer_free(&out), text_buffer_free(&doc);
}

/* Reads a document, writes it with translations in which each letter "e" is there three times, and
   appends markup_left to `left`. */
static void widen(markup_document *m, const char *in, text_buffer *out, text_buffer *left) {
    markup_translation t;
    markup_token token;
    text_buffer text, tokens;
    size_t k, n, from;
    memset(&text, 0, sizeof text), memset(&t, 0, sizeof t), memset(&tokens, 0, sizeof tokens);
    if (!markup_read(m, MARKUP_SRT, in, strlen(in))) abort();
    markup_begin(m);
    out->size = left->size = 0;
    text_buffer_append(left, "", 0);
    for (n = 0; n < m->n_sentences; n++) {
        text.size = 0;
        for (tokens.size = k = from = 0; k < m->sentences[n].size; k++) {
            const char c = m->sentences[n].text[k];
            text_buffer_append(&text, c == 'e' ? "eee" : &c, c == 'e' ? 3 : 1);
            if (k + 1 < m->sentences[n].size && c != ' ') continue;
            token.end = text.size - (c == ' '), token.source_begin = from, token.source_end = k + 1;
            text_buffer_append(&tokens, (const char *)&token, sizeof token), from = k + 1;
        }
        t.text = text.data, t.size = text.size, t.n = tokens.size / sizeof token;
        t.tokens = (const markup_token *)(const void *)tokens.data;
        if (!markup_put(m, &t, out)) abort();
    }
    if (!markup_end(m, out)) abort();
    markup_left(m, left);
    text_buffer_free(&text), text_buffer_free(&tokens);
}

/* Cues whose text became longer get lines that a viewer can read. */
static void wide_cues(void) {
    static const struct {
        const char *in, *out, *left;
        int width, lines;
    } cases[] = {
        {"One letter here", "Oneee leeetteeer heeereee", "", 0, 0},
        {"We went there, and a man was there who said so",
         "Weee weeent theeereee,\nand a man was theeereee who said so", "", 0, 0},
        {"We were there, then a man was hit who said it",
         "Weee weeereee theeereee,\ntheeen a man was hit who said it", "", 0, 0},
        {"no letter of it is changed in this long line of words here",
         "no leeetteeer of it is changeeed in\nthis long lineee of words heeereee", "", 0, 0},
        {"this is a long loud cry in a big hall of gray marbl\nso it is", NULL, "", 0, 0},
        {"seven eleven twelve sixteen seventeen nineteen eleven seven eight",
         "seeeveeen eeeleeeveeen tweeelveee sixteeeeeen\nseeeveeenteeeeeen nineeeteeeeeen "
         "eeeleeeveeen seeeveeen eeeight",
         "1 cues have more text than their lines should have, the first in line 3\n", 0, 0},
        {"- seven eleven twelve sixteen\n- seventeen",
         "- seeeveeen eeeleeeveeen tweeelveee sixteeeeeen\n- seeeveeenteeeeeen",
         "1 cues have more text than their lines should have, the first in line 3\n", 0, 0},
        {"one two three four", "oneee two\nthreeeeee four", "", 14, 0},
        {"one two three four", "oneee two\nthreeeeee\nfour", "", 11, 4},
        {"one two three\nfour five six\nseven", "oneee two threeeeee four\nfiveee six seeeveeen",
         "", 0, 0}};
    text_buffer doc, out, left, expected;
    size_t i;
    memset(&out, 0, sizeof out), memset(&doc, 0, sizeof doc), memset(&left, 0, sizeof left);
    memset(&expected, 0, sizeof expected);
    SECTION("cues that became longer");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char head[] = "1\n00:00:01,000 --> 00:00:02,000\n";
        static const char tail[] = "\n\n2\n00:00:05,000 --> 00:00:06,000\nthe end\n";
        static const char tail_wide[] = "\n\n2\n00:00:05,000 --> 00:00:06,000\ntheee eeend\n";
        markup_document m;
        memset(&m, 0, sizeof m);
        m.cue_width = cases[i].width, m.cue_lines = cases[i].lines;
        doc.size = expected.size = 0;
        text_buffer_format(&doc, "%s%s%s", head, cases[i].in, tail);
        text_buffer_format(&expected, "%s%s%s", head, cases[i].out ? cases[i].out : cases[i].in,
                           tail_wide);
        widen(&m, doc.data, &out, &left);
        CHECK(strcmp(out.data, expected.data) == 0, "%s", out.data);
        CHECK(strcmp(left.data, cases[i].left) == 0, "  %s", left.data);
        markup_free(&m);
    }
    {
        markup_document m;
        const char *wide =
            "1\n00:01,000 --> 00:02,000\n\xE6\x88\x91\xE4\xBB\xAC"
            "e\xE6\x88\x91\xE4\xBB\xAC\xEF\xBC\x8C\xE6\x88\x91\xE4\xBB\xAC\xE6\x88\x91"
            "\xE4\xBB\xAC\xE6\x88\x91\xE4\xBB\xAC\xE6\x88\x91\xE4\xBB\xAC\xE6\x88\x91\n";
        memset(&m, 0, sizeof m);
        widen(&m, wide, &out, &left);
        CHECK(strstr(out.data, "\xEF\xBC\x8C\n\xE6\x88\x91") != NULL, "16 characters: %s",
              out.data);
        widen(&m, "{1}{99}one two three four five six seven eight nine ten eleven\n", &out, &left);
        CHECK(strstr(out.data, "fiveee six|seeeveeen ") != NULL, "MicroDVD: %s", out.data);
        widen(&m, "{123456789012345678901}{99}one two\n{1}{9}three\n", &out, &left);
        CHECK(strcmp(out.data, "{123456789012345678901}{99}one two\n{1}{9}threeeeee\n") == 0,
              "a frame of 21 digits is skipped: %s", out.data);
        CHECK(strncmp(left.data, "1 lines stay as they are, the first in line 1", 45) == 0,
              "  and counted: %s", left.data);
        widen(
            &m,
            "[Script Info]\n[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,A,,0,0,0,,{\\k9}s{\\k9}e\n",
            &out, &left);
        CHECK(strstr(out.data, ",,seee\n") != NULL, "times of syllables are dropped: %s", out.data);
        CHECK(strncmp(left.data, "2 times of sung syllables are dropped, the first in line 3",
                      58) == 0,
              "  and counted: %s", left.data);
        markup_free(&m);
    }
    text_buffer_free(&out), text_buffer_free(&doc), text_buffer_free(&left);
    text_buffer_free(&expected);
}

/* Returns whether the tags of strip(tags) nest: each closes the one that was opened last. */
static int nests(const char *tags) {
    const char *open[200], *end;
    size_t n = 0, size;
    for (; *tags; tags = end + 1) {
        end = strchr(tags, '>');
        if (strncmp(tags, "<!--", 4) == 0 || end[-1] == '/' || strncmp(tags, "<img", 4) == 0 ||
            strncmp(tags, "<br", 3) == 0)
            continue;
        if (tags[1] != '/') {
            open[n++] = tags + 1;
            continue;
        }
        size = (size_t)(end - tags - 2);
        if (!n-- || strncmp(open[n], tags + 2, size) != 0 || strchr("> ", open[n][size]) == NULL)
            return 0;
    }
    return n == 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns whether two lists have the same tags. Cuts both into tags. */
static int same_tags(char *a, char *b) {
    static const char *lists[2][2000];
    size_t n[2] = {0, 0}, i, k;
    char *at;
    for (i = 0; i < 2; i++) {
        for (at = i ? b : a; at && *at && n[i] < 2000; at = strchr(at, '>')) {
            if (n[i]) *at++ = 0;
            if (*at) lists[i][n[i]++] = at;
        }
        qsort(lists[i], n[i], sizeof *lists[i], by_text);
    }
    for (k = 0; k < n[0] && k < n[1]; k++)
        if (strcmp(lists[0][k], lists[1][k]) != 0) return 0;
    return n[0] == n[1];
}

/* Makes a random document: well-formed if asked, otherwise with any faults, even halves of tags. */
static void make(text_buffer *doc, unsigned *state, int well_formed) {
    static const char *const names[] = {"b",   "i",  "a href='x/y'", "span class=\"q\"",  "em", "p",
                                        "div", "li", "code",         "i translate=\"no\""};
    static const char *const words[] = {"the ",    "cat",  " sat. ",       "On ",       "mat! ",
                                        "Who? ",   "a ",   "\n",           ", ",        "No ",
                                        "dog ",    "ran",  "x y z. ",      " &amp; ",   "&lt;",
                                        "&bogus;", "<br>", "<img src=a/>", "<!-- c -->"};
    static const char *const odd[] = {"<",  ">",  "</",   "</b>", "</p>",      "<b",  "<a href='",
                                      "\"", "&#", "<!--", "\xff", "<![CDATA[", "]]>", "&#65;"};
    const char *open[12];
    size_t n = 0, i, count = 1 + draw(state, 40);
    doc->size = 0;
    text_buffer_append(doc, "", 0);
    for (i = 0; i < count; i++) {
        unsigned what = draw(state, 10);
        if (what < 2 && n < 12) {
            open[n] = names[draw(state, 10)];
            text_buffer_format(doc, "<%s>", open[n++]);
        } else if (what < 4 && n) {
            n--;
            text_buffer_format(doc, "</%.*s>", (int)strcspn(open[n], " "), open[n]);
        } else if (what == 4 && !well_formed) {
            const char *piece = odd[draw(state, 14)];
            text_buffer_append(doc, piece, strlen(piece));
        } else {
            const char *piece = words[draw(state, 19)];
            text_buffer_append(doc, piece, strlen(piece));
        }
    }
    while (well_formed && n-- > 0)
        text_buffer_format(doc, "</%.*s>", (int)strcspn(open[n], " "), open[n]);
}

static void any_document(void) {
    enum { ROUNDS = 3000 };
    fake f;
    text_buffer doc, out, a, b;
    int i, how, lost = 0, moved = 0, crossed = 0, changed = 0, texts = 0;
    unsigned state = 7;
    size_t k;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out), memset(&doc, 0, sizeof doc);
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    SECTION("any document");
    f.state = 3;
    for (i = 0; i < ROUNDS; i++)
        for (how = 0; how < TRANSLATORS; how++) {
            int well_formed = i % 3 != 0, has_copies;
            const char *at;
            make(&doc, &state, well_formed);
            if (!test_in_slice("any", (long)i * TRANSLATORS + how)) continue;
            (void)run(&f, how, MARKUP_HTML, doc.data, doc.size, &out);
            if (how == NOTHING)
                changed += out.size != doc.size || memcmp(out.data, doc.data, doc.size) != 0;
            if (!well_formed) continue;
            strip(doc.data, doc.size, 1, &a), strip(out.data, out.size, 1, &b);
            crossed += !nests(b.data);
            if (test_failed + crossed == 1 && !nests(b.data))
                printf("%s\n->\n%s\n", doc.data, out.data);
            lost += !same_tags(a.data, b.data);
            strip(doc.data, doc.size, 0, &a), strip(out.data, out.size, 0, &b);
            has_copies = strstr(doc.data, "&b") || strstr(doc.data, "code") ||
                         strstr(doc.data, "translate");
            if (how == SAME && !has_copies && strcmp(a.data, b.data) != 0) {
                if (!texts++) printf("%s\n->\n%s\n", doc.data, out.data);
            }
            for (at = b.data, k = 0; k < f.n && !has_copies && how != NOTHING; k++) {
                text_buffer encoded, text;
                memset(&encoded, 0, sizeof encoded), memset(&text, 0, sizeof text);
                if (f.texts[k].size) {
                    size_t from;
                    for (from = 0; from < f.texts[k].size; from++) {
                        char c = f.texts[k].data[from];
                        if (c == '<' || c == '&')
                            text_buffer_format(&text, c == '<' ? "&lt;" : "&amp;");
                        else if (c != ' ') text_buffer_append(&text, &c, 1);
                    }
                    if (at && !strstr(at, text.data) && text.size > 1 &&
                        text.data[text.size - 1] == '.')
                        text.data[--text.size] = 0; /* a stop that the source has not */
                    at = at ? strstr(at, text.data) : NULL;
                    if (at) at += text.size;
                }
                text_buffer_free(&text), text_buffer_free(&encoded);
            }
            moved += at == NULL;
        }
    CHECK(!lost, "every tag once, in %d of %d not", lost, ROUNDS * (int)TRANSLATORS);
    CHECK(!crossed, "and nested, in %d not", crossed);
    CHECK(!texts, "a translation by itself has the text of the source, in %d not", texts);
    CHECK(!moved, "translations stand in the order of their sentences, in %d not", moved);
    CHECK(!changed, "without translations the bytes of the source, in %d not", changed);
    fake_free(&f), text_buffer_free(&out), text_buffer_free(&doc), text_buffer_free(&a),
        text_buffer_free(&b);
}

/* Many tags that open, close, or have no end. Each must be read once, because quadratic work would
   take hours here. */
static void deep(void) {
    static const char *const pieces[] = {
        "<b>",  "</b>",       "<b>x ",    "<a \"",     "<!--", "<code>", "&",        "<i></i>",
        "x.",   "<p>",        "<script>", "<b>x</b> ", "*",    "*a ",    "**a_ ",    "[",
        "[a](", "![",         "]",        "`",         "``a`", "> ",     "- ",       "> a\n",
        "|",    "a|b\n-|-\n", "[a]: b\n", "[a]",       "\\",   "<a b='", "<a b=\"'", "a  \n",
        "_a*",  "[a](<b",     "[a][",     "http://a"};
    fake f;
    text_buffer doc, out;
    size_t i, k;
    int form;
    memset(&f, 0, sizeof f), memset(&out, 0, sizeof out), memset(&doc, 0, sizeof doc);
    SECTION("depth");
    for (i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (!test_in_slice("deep", (long)i)) continue;
        doc.size = 0;
        text_buffer_append(&doc, "1 --> 2\n", 8);
        for (k = 0; k < 40000; k++) text_buffer_append(&doc, pieces[i], strlen(pieces[i]));
        for (form = MARKUP_HTML; form <= MARKUP_WRAPPED; form++) {
            static const char *const names[] = {"40,000 times %s", "  in subtitles",
                                                "  in Markdown", "  in lines"};
            (void)run(&f, NOTHING, (markup_form)form, doc.data, doc.size, &out);
            CHECK(out.size == doc.size, names[form], pieces[i]);
        }
    }
    fake_free(&f), text_buffer_free(&out), text_buffer_free(&doc);
}

/* test_markup FORM FUNCTION < in > out translates a document for tests/translate/markdown.py. */
static int filter(int form, int how) {
    fake f;
    text_buffer in, out;
    int c;
    memset(&f, 0, sizeof f), memset(&in, 0, sizeof in), memset(&out, 0, sizeof out);
    f.state = 1;
    text_buffer_append(&in, "", 0);
    while ((c = getchar()) != EOF) {
        char byte = (char)c;
        text_buffer_append(&in, &byte, 1);
    }
    fputs(run(&f, how, (markup_form)form, in.data, in.size, &out), stdout);
    fake_free(&f), text_buffer_free(&in), text_buffer_free(&out);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3) return filter(atoi(argv[1]), atoi(argv[2]));
    html();
    free_words();
    languages();
    foreign_texts();
    markdown_cases();
    wrapped_cases();
    columns();
    subtitles();
    joined_cues();
    ass();
    wide_cues();
    inner_texts();
    any_document();
    deep();
    (void)protect_put, (void)protect_take, (void)text_buffer_flatten;
    return test_done("test_markup");
}
