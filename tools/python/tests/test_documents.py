"""Documents with tags against the command line's bytes, at random. SEED in the environment repeats a run."""

import os
import pickle
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from transformer_h import Aligned, Document, Error, Model, Status, sessions
from transformer_h._transformer import ffi, lib

ROOT = Path(__file__).resolve().parents[3]
GERMAN = ROOT / "examples/models/de-en.safetensors"
SEED = int(os.environ.get("SEED") or random.randrange(10 ** 6))
SENTENCES = [line for line in (ROOT / "examples/translate/demo-de.txt").read_text(encoding="utf-8").split("\n") if line]
TERMS = {"Zug": "locomotive", "!Ja": "aye", "der Park": "Hyde & Park", "Kinder": "<kids>", "Fenster": "pane", "ü": "*x*"}
FORMATS = ("html", "markdown", "srt", "wrapped")


def marked(rng, opening, closing, odd):
    """A few sentences with marks around some of their words, and odd things between others."""
    words = " ".join(rng.choices(SENTENCES, k=rng.randint(1, 3))).split()
    for _ in range(rng.randint(0, 4)):
        begin = rng.randrange(len(words))
        end = rng.randint(begin, min(begin + 3, len(words) - 1))
        i = rng.randrange(len(opening))
        words[begin] = opening[i] + words[begin]
        words[end] += closing[i]
    for _ in range(rng.choice((0, 0, 1, 2))):
        words.insert(rng.randint(0, len(words)), rng.choice(odd))
    return words


def lines(words, width):
    made = [""]
    for word in words:
        if made[-1] and len(made[-1]) + len(word) >= width:
            made.append("")
        made[-1] += " " * bool(made[-1]) + word
    return made


def html(rng):
    text = "<!doctype html><html lang='de'><title>Der Zug</title>" if rng.random() < 0.5 else ""
    for _ in range(rng.randint(1, 6)):
        words = marked(rng, ["<b>", "<a href='x?a=1&amp;b'>", "<i class=c>", "<u", "&auml;<q>"],
                       ["</b>", "</a>", "</i>", ">", "</q>"],
                       ["<br>", "<img alt='Ja, der Zug.'>", "<input placeholder=Zug>", "<wbr title=\"Das 'Fenster'. Ja.\">", "<!-- > -->", "<code>if</code>", "{name}", "&nbsp;", "&", "<", "</p>", "</b>",
                        "<script>a<b</script>", "<span translate=no>Nein</span>"])
        name = rng.choice(("p", "li", "td", "h1", "span"))
        text += f"<{name}>{' '.join(words)}</{name}>\n"
    return text


def markdown(rng):
    blocks = []
    for _ in range(rng.randint(1, 6)):
        words = marked(rng, ["*", "**", "[", "`", "_"], ["*", "**", "](http://a.b/c)", "`", "_"],
                       ["![Ja](x.png)", "<br>", "\\*", "&amp;", "*", "{0}", "[^1]", "1."])
        first = rng.choice(("", "", "# ", "- ", "> ", "1. ", "    "))
        blocks.append("\n".join((first if i == 0 or first == "> " else " " * len(first)) + line
                                for i, line in enumerate(lines(words, rng.choice((30, 60, 1000))))))
    return "\n\n".join(blocks) + "\n"


def srt(rng):
    return "\n\n".join(f"{i}\n00:00:{i:02},000 --> 00:00:{i + 1:02},000\n" + "\n".join(
        lines(marked(rng, ["<i>", "{\\an8}", "- "], ["</i>", "", "\n"], ["♪", "{name}", "..."]), 40)) for i in range(1, 6))


def wrapped(rng):
    return "\n\n".join("\n".join(rng.choice(("", "> ", "  ")) + line for line in lines(
        marked(rng, ['"', "("], ['"', ")"], ["-", "%s", "a@b.de", "*"]), 50)) for _ in range(3)) + "\n-- \nAnna\n"


# Everyday sentences with a format each, and what a person would give this format in a translation: README.md has the counts.
REFERENCE = """
Ich habe <b>gestern</b> einen neuen Mantel gekauft.|yesterday
Meine Schwester wohnt in einem <b>kleinen</b> Haus.|small|little
Der Zug nach Berlin fährt <b>um acht Uhr</b> ab.|at eight|at eight o'clock|at 8
Er hat <b>nie</b> in einer Stadt gelebt.|never
Morgen werden wir <b>unsere Großeltern</b> besuchen.|our grandparents
Sie trinkt jeden Morgen <b>Kaffee</b> mit Milch.|coffee
Das <b>rote</b> Auto vor der Tür gehört mir.|red
Kannst du mir bitte <b>das Fenster</b> öffnen?|the window
Wir müssen <b>heute</b> noch einkaufen gehen.|today
<b>Am Montag</b> habe ich keine Zeit.|on Monday|Monday
Der Arzt sagt, dass ich <b>mehr schlafen</b> soll.|sleep more|more sleep|get more sleep
Warum hast du mir <b>nichts</b> gesagt?|anything|nothing
Mein Bruder ist <b>älter</b> als ich.|older
Sie haben <b>zwei Kinder</b> und einen Hund.|two children|two kids
Das Buch, das du mir gegeben hast, war <b>sehr interessant</b>.|very interesting
Im Sommer schwimmen wir oft <b>im See</b>.|in the lake
Er arbeitet <b>in einer Bank</b>.|in a bank|at a bank
Gib mir bitte <b>deine Telefonnummer</b>.|your phone number|your telephone number
Ich glaube, dass es <b>bald</b> regnen wird.|soon
Die Lehrerin hat den Kindern <b>eine Geschichte</b> erzählt.|a story
<b>Leider</b> kann ich nicht kommen.|unfortunately|I'm afraid
Er hat seinen Schlüssel <b>verloren</b>.|lost
Wir haben den ganzen Tag <b>im Garten</b> gearbeitet.|in the garden
Der Film hat mir <b>nicht</b> gefallen.|not|didn't|don't
Was hast du am <b>Wochenende</b> gemacht?|weekend|the weekend
Sie spricht <b>Englisch</b> und Französisch.|English
Ohne <b>deine Hilfe</b> hätte ich es nicht geschafft.|your help
Der <b>Hund</b> des Nachbarn bellt die ganze Nacht.|dog
Ich möchte <b>ein Glas Wasser</b>.|a glass of water
Das Konzert findet <b>nächste Woche</b> statt.|next week
Bitte ruf mich <b>heute Abend</b> an.|tonight|this evening
Die Kinder spielen <b>auf der Straße</b>.|in the street|on the street
"""

MAKERS = {"html": html, "markdown": markdown, "srt": srt, "wrapped": wrapped}


def changed(rng, text):
    """The document with some characters removed or moved: it is no longer well-formed."""
    for _ in range(rng.choice((0, 0, 0, 3, 30))):
        at, to, n = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1), rng.randint(1, 5)
        part = text[at:at + n]
        text = text[:at] + text[at + n:]
        text = text[:to] + part + text[to:]
    return text.replace("\0", "").replace("\r", "")


def command_line(document, *options):
    done = subprocess.run([ROOT / "build/translate", GERMAN, *map(str, options)], input=document.encode(), capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode()


@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


def is_refused(document):
    """Returns whether these are subtitles without times."""
    try:
        Document(document, "srt")
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("kind", FORMATS)
def test_documents_are_the_command_lines(german, kind, tmp_path):
    rng = random.Random(f"{SEED} {kind}")
    path = tmp_path / "terms"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in TERMS.items()), encoding="utf-8")
    documents = [changed(rng, MAKERS[kind](rng)) for _ in range(20)] + ["", "\n", "Ja", "ä" * 7, "<p>Ja. " * 30]
    for document in [one for one in documents if kind == "srt" and is_refused(one)]:
        assert command_line(document, "--srt") == ""
        documents.remove(document)
    plain = german.translate_document(documents, kind, on_error="copy", threads=2, batch=7)
    beam = german.translate_document(documents, format=kind, on_error="copy", terms=TERMS, beam=3)
    assert plain != beam
    for document, one, other in zip(documents, plain, beam):
        assert one == command_line(document, f"--{kind}"), (SEED, document)
        assert other == command_line(document, f"--{kind}", "--terms", path, "--beam", 3), (SEED, document)
    assert german.translate_document(documents[0], kind, on_error="copy") == plain[0]


def test_a_paragraph_keeps_the_tags_of_its_parts(german):
    rng = random.Random(SEED)
    for _ in range(20):
        words = " ".join(rng.choices(SENTENCES, k=2)).split()
        cuts = sorted(rng.sample(range(1, len(words)), rng.randint(1, 4)))
        parts = [words[a:b] for a, b in zip([0, *cuts], [*cuts, len(words)])]
        text = " ".join(f'<g id="{i}">{" ".join(part)}</g>' for i, part in enumerate(parts))
        made = german.translate_document([text, text], "html")
        assert made[0] == made[1] == command_line(text, "--html")
        for i in range(len(parts)):
            assert made[0].count(f'<g id="{i}">') == 1, (SEED, text)
        assert made[0].count("</g>") == len(parts)


def test_a_note_at_the_end_of_a_sentence_stays_there(german):
    """A German verb at the end of a sentence stands elsewhere in English."""
    for text, expected in (("Haben Sie das Buch gesehen<x/>?", "Did you see the book<x/>?"),
                           ("Es dauert 60 Minuten, weil es draußen regnet<x/>.", "outside<x/>."), ("Der Hund<x/> schläft im Garten.", "dog<x/> ")):
        assert expected in german.translate_document(text, "html") == command_line(text, "--html")


def test_document_and_model_in_two_steps(german):
    text = "<p>Ich habe <i>gestern ein rotes Buch</i> gekauft. Guten <b>Tag</b>."
    page = Document(text, "html")
    assert page.sentences == ["Ich habe gestern ein rotes Buch gekauft.", "Guten Tag."]
    made = german.translate(page.sentences, aligned=True)
    assert made == german.translate(page.sentences) and all(type(one) is Aligned for one in made)
    expected = command_line(text, "--html")
    assert page.join(made) == expected == german.translate_document(text, "html")
    assert page.join(pickle.loads(pickle.dumps(made))) == expected
    best = german.translate(page.sentences, aligned=True, beam=2, n_best=2)
    assert page.join([each[0].text for each in best]) == command_line(text, "--html", "--beam", 2)
    assert page.join([each[1].text for each in best]) != expected
    assert page.join([None, made[1]]) == page.join([Error(Status.E_TOKEN, "x"), made[1]])
    assert page.join([None, ""]) == text and page.join(iter([None, made[1]])).startswith("<p>Ich habe <i>gestern")
    assert page.join(["One", "two & three"]).count("two &amp; three") == 1  # without alignment
    assert page.where(1) == "sentence 2"
    lines = Document("Ja.\n\nNein. Gut.")
    assert lines.sentences == ["Ja.", "Nein.", "Gut."] and lines.where(2) == "line 3"
    assert lines.join(["a.", None, "c."]) == "a.\n\nNein. c."


def test_only_sentences_that_need_tokens_are_aligned(german, monkeypatch):
    text = "<p>Guten Tag. Das ist <b>ein</b> Buch. Er &amp; sie.</p><p title='Der Zug.'>Die Kinder\nspielen. Ja, der Zug.</p>"
    page = Document(text, "html")
    needs = dict(zip(page.sentences, page.needs_tokens))
    assert needs == {"Guten Tag.": 0, "Das ist ein Buch.": 1, "Er & sie.": 1, "Der Zug.": 0, "Die Kinder spielen.": 1, "Ja, der Zug.": 0}
    assert not any(Document("Ja. Nein.").needs_tokens) and all(Document("Ja. *Nein.*", "markdown").needs_tokens)
    made = german.translate(page.sentences, aligned=page.needs_tokens)
    assert made == german.translate(page.sentences, aligned=True) and [type(one) is Aligned for one in made] == list(map(bool, page.needs_tokens))
    assert page.join(made) == command_line(text, "--html")
    assert page.join([one.replace(" ", "\u2028", 1) for one in made]) == page.join(list(map(str, made)))  # a sentence is one line
    with pytest.raises(ValueError, match="aligned has 1 bytes for 2 texts"):
        german.translate(["Ja.", "Nein."], aligned=b"1")
    aligned, finished = [], sessions.Worker.finished
    monkeypatch.setattr(sessions.Worker, "finished", lambda self, *given: aligned.append(given[5].decode()) or finished(self, *given))
    for threads in (1, 3):
        aligned.clear()
        assert german.translate_document(text, "html", threads=threads) == command_line(text, "--html")
        assert sorted(aligned) == sorted(one for one, needed in needs.items() if needed)


def test_tokens_of_other_sentences_change_nothing():
    """A sentence that needs no tokens is written in the same way with any tokens, and without them."""
    rng, some = random.Random(SEED), 0
    words = "Haus Hund ja! <img/title='Haus'> 12 „gut“ : ' & < > <b>x</b> <br> &amp; &auml; {name} --x x@y.z".split()
    for _ in range(3000):
        text = f"<p>{' '.join(rng.choices(words, [9, 9, 9, *[1] * (len(words) - 3)], k=rng.randint(1, 9)))}"
        page = Document(text.replace(" ", rng.choice((" ", " ", "  "))), "html")
        made = []
        for sentence in page.sentences:
            result = rng.choice((sentence.upper(), " " + sentence, sentence.replace("a", "&<"), "eine  <Katze> & so", "x"))
            ends = sorted(rng.sample(range(len(result.encode()) + 1), rng.randint(1, len(result.encode()))))
            made.append(Aligned(result, b"".join(number.to_bytes(8, sys.byteorder) for end in ends for number in
                                                 (end, *sorted(rng.choices(range(len(sentence.encode()) + 1), k=2))))))
        plain = [one if needed else str(one) for one, needed in zip(made, page.needs_tokens)]
        some += page.needs_tokens.count(0)
        assert page.join(made) == page.join(plain), (SEED, text, made)
    assert some > 500


def test_any_tokens_are_safe():
    rng = random.Random(SEED)
    page = Document("<p>Ich <b>habe <i>ein</i></b> Buch<br> und &auml; <u>noch</u> eins</p>", "html")
    for _ in range(2000):
        made = [Aligned("ä ü wir, sind. da"[:rng.randint(1, 20)], b"".join(
            rng.choice((rng.randrange(24), 0, 2 ** 63, 2 ** 64 - 1)).to_bytes(8, sys.byteorder)
            for _ in range(3 * rng.randint(0, 9)))[:9 * 3 * ffi.sizeof("size_t")]) for _ in page.sentences]
        text = page.join(made)
        assert all(text.count(tag) == 1 for tag in ("<b>", "</b>", "<i>", "</i>", "<br>", "<u>", "</u>", "<p>", "</p>"))


def test_language_of_the_html_element(german):
    page = "<html lang=de xml:lang='de'><p lang=de title='Der Zug ist da.'>Guten Tag."
    made = german.translate_document(page, "html", lang="en")
    assert made == command_line(page, "--html", "--lang", "en") and made.startswith("<html lang=en xml:lang='en'><p lang=de")
    assert german.translate_document(page, "html") == command_line(page, "--html")
    stays = made.replace("=en ", "=de ").replace("'en'", "'de'")
    for code in ("", "e", "a\"b", "x" * 99, "ä"):  # are no codes
        assert german.translate_document(page, "html", lang=code) == stays
    assert "lang=eng-Latn" in german.translate_document(page, "html", lang="eng_Latn")
    with pytest.raises(TypeError, match="lang is int, expected str"):
        german.translate_document(page, "html", lang=3)


def test_many_threads_join_one_document(german):
    page = Document("<p>" + " ".join(f"<b>Satz</b> {i}." for i in range(300)), "html")
    expected, made = page.join(page.sentences), []
    crew = [threading.Thread(target=lambda: made.append(page.join(page.sentences))) for _ in range(8)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert made == [expected] * 8


def test_a_sentence_that_fails(german):
    long = "und morgen " * 50
    page = f"<p>Guten <b>Tag</b>.<p>Heute {long}ist gut.<p>Guten Tag."
    with pytest.raises(Error, match="^sentence 2: .*tokens") as caught:
        german.translate_document(page, "html", max_source=20)
    assert caught.value.status == Status.E_TOO_LONG and caught.value.index is None
    with pytest.raises(Error, match="^text 1: sentence 2: ") as caught:
        german.translate_document(["<p>Ja.", page], "html", max_source=20)
    assert caught.value.index == 1
    made = german.translate_document(page, "html", max_source=20, on_error="copy")
    assert made == command_line(page, "--html", "--max-source", 20) and f"Heute {long}ist gut." in made
    with pytest.raises(Error, match="line 2: "):
        german.translate_document(f"Ja.\nHeute {long}ist gut.", max_source=20)
    assert german.translate_document(f"Ja.\nHeute {long}.", max_source=20, on_error="copy").endswith(f"\nHeute {long}.")
    for text in ("Ja \ud800 nein.", "<b>\udfff</b>"):  # half a pair is no UTF-8
        with pytest.raises(Error, match="UTF-8") if "Ja" in text else pytest.raises(Error):
            german.translate_document(f"<p>{text} Guten Tag", "html")
        assert text in german.translate_document(f"<p>{text}</p><p>Guten Tag", "html", on_error="copy")


@pytest.mark.parametrize("call, kind, message", [
    (lambda m: m.translate_document("Ja.", "docx"), ValueError, "format is 'docx', expected text or html or markdown"),
    (lambda m: m.translate_document("Ja.", 3), TypeError, "format is int"),
    (lambda m: m.translate_document(["Ja.", 3], "html"), TypeError, r"text\[1\] is int, expected str"),
    (lambda m: m.translate_document("Ja.", on_error="return"), ValueError, "on_error is 'return', expected raise or copy"),
    (lambda m: m.translate_document("Ja.", "html", tokens=True), TypeError, "tokens is no option of translate_document"),
    (lambda m: m.translate_document("Ja.", "html", aligned=False), TypeError, "aligned is no option"),
    (lambda m: m.translate("Ja.", aligned=True, tokens=True), ValueError, "aligned and tokens do not go together"),
    (lambda m: m.translate("Ja.", aligned=1), TypeError, "aligned is int, expected bool"),
    (lambda m: next(m.stream("Ja.", aligned=True)), TypeError, "aligned is no option of stream"),
    (lambda m: Document(b"Ja."), TypeError, "text is bytes"),
    (lambda m: Document("Ja.", "html").join([]), ValueError, "0 translations for 1 sentences"),
    (lambda m: Document("Ja.", "html").join("x"), TypeError, "translations is str"),
    (lambda m: Document("Ja.", "html").join([3]), TypeError, r"translations\[0\] is int, expected str"),
    (lambda m: Document("Ja.").join([3]), TypeError, r"is int, expected str"),
    (lambda m: Document("Ja.", "html").join([Aligned("x", b"123")]), ValueError, r"translations\[0\].tokens"),
    (lambda m: Document("Ja.", "html").join([Aligned("x", "x")]), ValueError, r"translations\[0\].tokens"),
])
def test_wrong_arguments(german, call, kind, message):
    with pytest.raises(kind, match=message):
        call(german)


def test_formats_stand_on_the_right_words():
    rows = [line.split("|") for line in REFERENCE.strip().splitlines()]
    with Model(GERMAN) as model:
        made = [re.search("<b>(.*?)</b>", text)[1].lower() for text in model.translate_document([row[0] for row in rows], "html")]
    assert len(made) == 32 and all(made)
    assert sum(text in map(str.lower, row[1:]) for text, row in zip(made, rows)) >= 25


def test_the_memory_of_a_batch_is_bounded(german, monkeypatch):
    """Long texts are translated in smaller batches, because a session of several texts has at most 16 MB."""
    rows, fit = [], sessions.Worker.fit

    def fitted(self, n, *given):
        session = fit(self, n, *given)
        size = ffi.new("size_t *")
        assert lib.tfm_session_bytes(self.model, self.plan(*self.limits), size, ffi.NULL) == 0
        rows.append((n, size[0]))
        return session

    monkeypatch.setattr(sessions.Worker, "fit", fitted)
    short, long = ["Guten Tag."] * 128, ["Das ist ein Haus, und der Hund schläft darin. " * 20] * 48
    expected = [german.translate(text[0], sentences="whole", max_length=8) for text in (short, long)]
    found = []
    for text, batch in ((short, 64), (long, 64), (short, 256)):  # a larger batch may have more memory
        rows.clear()
        assert german.translate(text, sentences="whole", max_length=8, batch=batch) == [expected[text is long]] * len(text)
        assert all(size <= 16000000 * batch // 64 or n == 1 for n, size in rows), rows
        found.append(max(n for n, _ in rows))
    assert found[1] < found[0] < found[2] == 128


FOREIGN = {
    "html": "<html lang=fr><body><p>Der Baum ist alt.</p><p lang=en>The tree is old.</p><p>Er sagte <i lang=es>hasta luego</i> und lief.</p>"
            "<div lang=en>All is well.<p lang=de-AT>Alles ist gut.</p></div><p lang=fr>Das Haus ist neu.</p></html>\n",
    "markdown": "Der Baum ist alt.\n\nEr sagte <i lang=es>hasta luego</i> und lief.\n\n<div lang=en>All is well.</div>\n",
    "srt": "WEBVTT\n\n00:01.000 --> 00:02.000\n<lang en-GB>The tree\nis old.</lang> Der Baum ist alt.\n"}


@pytest.mark.parametrize("kind", FOREIGN)
def test_text_in_another_language(german, kind):
    text, left, every = FOREIGN[kind], [], []
    made = german.translate_document(text, kind, left=left)
    assert made == command_line(text, f"--{kind}")
    for kept in ("hasta luego", "All is well.", "tree\nis old."):
        assert (kept in made) == (kept in text)
    assert len(left) == 1 and left[0].split()[0] == {"html": "3", "markdown": "2", "srt": "2"}[kind] and "--all-languages" in left[0]
    all_languages = german.translate_document(text, kind, left=every, all_languages=True)
    assert all_languages == command_line(text, f"--{kind}", "--all-languages") != made and not every
    assert german.translate_document(text, kind, plain=True) == command_line(text, f"--{kind}", "--plain")


def test_text_in_another_language_through_two_models(german):
    text, left = FOREIGN["html"], []
    made = german.translate_document(text, "html", second=german, left=left)
    assert all(kept in made for kept in (">The tree is old.<", "hasta luego", "All is well.")) and len(left) == 1
    assert "Alles ist gut." not in made and "Das Haus ist neu." not in made
