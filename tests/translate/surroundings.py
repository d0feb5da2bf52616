"""What stands around a sentence must not change its translation: checks it with the shipped models.

    make build/translate
    python3 tests/translate/surroundings.py [--only WORD] [--show N] [--write-bars]

Each row of ROWS puts something around a sentence or into it, as people and files do. Its translation must be the
same thing around the translation of the sentence alone. The sentences are those of tests/data/surroundings-de.tsv
and -zh.tsv (source, tab, English). The script prints for each row and model of how many sentences that is true, and
fails if a number is below its bar in tests/translate/surroundings.tsv, or if a row has no bar. --only: rows that have
this word in their names. --show N: prints the first N sentences that fail, and what was wanted. --write-bars: writes
the bar file with the numbers of this run.
"""

from __future__ import annotations

import argparse
import collections
import html
import math
import re
import subprocess
import sys
import tempfile
import textwrap
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BARS = ROOT / "tests/translate/surroundings.tsv"
LANGUAGES = ("de", "zh")
UNSEEN = re.compile("[\u00ad\u034f\u200b-\u200f\u2060-\u2069\ufe00-\ufe0f\ufeff]")
OPENING, CLOSING = "(\"“„«»‹‚'‘「『（", ")\"”“»«›‘’'」』）"
KEPT = ("erika.mann@example.org", "https://example.org/page?id=7", "+49 40 7654321", "GB29 NWBK 6016 1331 9268 19",
        "1.234,50 €", "KX-204/B", "www.example.com", "2027-03-14")
# Lines that begin as a label does, and have none; and words that look like something to copy.
NO_LABELS = {
    "de": ("1.5 Millionen Menschen wohnen hier.", "3. Klasse ist teuer genug.", "(Fast) alle sind gekommen.",
           "[Wir] gehen nach Hause.", "Vorsicht: Die Straße ist glatt.", "- 10 Grad sind zu kalt für mich.",
           "Die NATO wurde 1949 gegründet.", "Die USA haben fünfzig Staaten.", "1999 war ich noch ein Kind.",
           "7 Katzen schlafen im Garten.", "B ist kleiner als C.", "Nr. 4 ist mein Zimmer.", "2 plus 2 ist vier.",
           "A und B sind gleich groß."),
    "zh": ("1.5亿人住在这里。", "3个人来了。", "(几乎)所有人都来了。", "A比B大。", "2000年我还是个孩子。", "7只猫在睡觉。")}
OTHER_SCRIPT = {"de": "電車が遅れています。", "zh": "Καλημέρα σας, πώς είστε σήμερα."}


def squeeze(text: str) -> str:
    return " ".join(text.split())


def bare(text: str) -> str:
    return squeeze(text).rstrip(".。")


def lower(text: str) -> str:
    return squeeze(re.sub("<[^>]*>", "", text)).lower()


def seen(text: str) -> str:
    """The text as a reader sees it: without tags and characters that nobody sees."""
    return squeeze(UNSEEN.sub("", html.unescape(re.sub("<[^>]*>", "", text))))


def inside(text: str) -> tuple[bool, str]:
    """Whether quotes or brackets are around a text, and what is in them. A stop may be before or behind the last one."""
    text = bare(text)
    return text[:1] in OPENING and text[-1:] in CLOSING, bare(text[1:-1])


def fields(text: str, chinese: bool) -> dict[str, str]:
    """What a row may put into its pattern, made of one sentence."""
    middle = len(text) // 2
    words = bare(text).split(" ")
    cut = -len(words[-1]) - 1
    before, word, after = (text[:2], text[2:4], text[4:]) if chinese else (text[:cut], text[cut:-1], text[-1])
    return {"s": text, "bare": bare(text), "upper": text.upper(),
            "nbsp": text.replace(" ", "\u00a0"), "nfd": unicodedata.normalize("NFD", text),
            "spaces": text.replace(" ", "  "),
            **{name: text[:middle] + c + text[middle:] for name, c in
               (("shy", "\u00ad"), ("zwsp", "\u200b"), ("joiner", "\u2060"), ("grapheme", "\u034f"))},
            "isolates": f"{before}\u2068{word}\u2069{after}", "references": f"{before}&#x2068;{word}&#x2069;{after}"}


# Name, form of the file (a method of Program, and options), pattern, and what to compare. The pattern is filled with
# the fields of the source, and the translation must be the same pattern filled with the translation. {_} is the space
# between two sentences, {next} the next sentence, {english} its English, {kept} one of KEPT, which counts alone.
LABELS = ("- ", "• ", "– ", "* ", "→ ", "✓ ", "1. ", "12. ", "1) ", "a) ", "(a) ", "(iii) ", "[1] ", "1.2 ", "1.2.3 ", "§ 5 ",
          "12:34 ", "[12:34] ")
ROWS = [
    ("no stop (line)", "line", "{bare}", bare),
    ("no stop (cue, 3 s apart)", "cue", "{bare}", bare),
    ("capitals (line)", "line", "{upper}", lower),
    ("capitals (cue)", "cue", "{upper}", lower),
    ("capitals (HTML)", "page", "<p>{upper}</p>", lower),
    *((f"label {label!r} (line)", "line", label + "{s}", squeeze) for label in LABELS),
    *((f"label {label!r} (HTML)", "page", f"<p>{label}{{s}}</p>", squeeze)
      for label in ("• ", "· ", "– ", "1. ", "(a) ", "[1] ")),
    *((f"label {label!r} (cue)", "cue", label + "{s}", squeeze)
      for label in ("- ", "– ", "MARIA: ", "[Musik] ", "(hustet) ", ">> ")),
    ("notes of music (cue)", "cue", "♪ {s} ♪", squeeze),
    ("number signs (cue)", "cue", "# {s} #", squeeze),
    ("italics (cue)", "cue", "<i>{s}</i>", squeeze),
    *((f"reference mark {mark} between two sentences", "line", f"{{s}}{mark}{{_}}{{next}}", squeeze)
      for mark in ("[1]", "(1)", "*", "¹", "[1][2]", "†")),
    ("reference mark <sup> between two sentences (HTML)", "page", "<p>{s}<sup>1</sup>{_}{next}</p>", squeeze),
    *((f"inside {a}{b}", "line", f"{a}{{s}}{b}", inside) for a, b in ("()", "„“", "«»", "»«", "\"\"", "「」", "（）")),
    ("emoji behind", "line", "{s} 😀", squeeze),
    ("emoji before", "line", "🎉 {s}", squeeze),
    ("stars around", "line", "*** {s} ***", squeeze),
    ("soft hyphen (line)", "line", "{shy}", seen),
    ("isolates around a word (line)", "line", "{isolates}", seen),
    ("isolates around a word, as references (HTML)", "page", "<p>{references}</p>", seen),
    ("zero-width space in a word (line)", "line", "{zwsp}", seen),
    ("word joiner in a word (line)", "line", "{joiner}", seen),
    ("grapheme joiner in a word (line)", "line", "{grapheme}", seen),
    ("no-break spaces (line)", "line", "{nbsp}", seen),
    ("decomposed letters (line)", "line", "{nfd}", squeeze),
    ("two spaces (line)", "line", "{spaces}", squeeze),
    ("target language (line)", "line", "{english}", squeeze),
    ("target language (HTML)", "page", "<p>{english}</p>", squeeze),
    ("lang=\"en\" (HTML)", "page", "<p lang=\"en\">{english}</p>", squeeze),
    ("a sentence of each language on a line", "line", "{s} {english}", squeeze),
    ("address or number, letter for letter (line, --protect)", "line --protect", "{bare}, {kept}.", seen),
    ("address or number, letter for letter (HTML)", "page", "<p>{bare}, {kept}.</p>", seen),
    ("address or number, letter for letter (cue)", "cue", "{bare}, {kept}.", seen)]


class Program:
    """build/translate with one model."""

    def __init__(self, language: str):
        self.model = ROOT / f"examples/models/{language}-en.safetensors"
        self.folder = Path(tempfile.mkdtemp())

    def run(self, text: str, name: str, *options: str) -> tuple[str, str]:
        (self.folder / name).write_text(text, encoding="utf-8")
        done = subprocess.run([ROOT / "build/translate", self.model, self.folder / name, *options],
                              capture_output=True, check=True)
        return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def line(self, texts: list[str], *options: str) -> list[str]:
        return self.run("\n".join(texts) + "\n", "in.txt", "--format", "lines", *options)[0].split("\n")[:len(texts)]

    def page(self, texts: list[str]) -> list[str]:
        out, _ = self.run("<html><body>\n" + "\n".join(texts) + "\n</body></html>\n", "in.html")
        return out.split("<body>\n", 1)[-1].split("\n</body>")[0].split("\n")

    def cue(self, texts: list[str], every: int = 5000, long: int = 2000) -> list[str]:
        def stamp(ms: int) -> str:
            return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"
        cues = [f"{i + 1}\n{stamp(i * every)} --> {stamp(i * every + long)}\n{text}\n" for i, text in enumerate(texts)]
        out, _ = self.run("\n".join(cues), "in.srt")
        return [" ".join(block.split("\n")[2:]) for block in re.split(r"\n\s*\n", out.strip())]


def bleu(outputs: list[str], references: list[str]) -> float:
    """BLEU without case of a corpus, with words and punctuation as tokens."""
    match, total, lengths = [0] * 4, [0] * 4, [0, 0]
    for pair in zip(outputs, references):
        tokens = [re.findall(r"\w+|[^\w\s]", text.lower()) for text in pair]
        lengths = [lengths[k] + len(tokens[k]) for k in range(2)]
        for n in range(1, 5):
            got, wanted = (collections.Counter(zip(*(each[k:] for k in range(n)))) for each in tokens)
            match[n - 1] += sum((got & wanted).values())
            total[n - 1] += sum(got.values())
    if not all(match):
        return 0.0
    return 100 * min(1, math.exp(1 - lengths[1] / lengths[0])) * math.exp(sum(math.log(m / t) for m, t in zip(match, total)) / 4)


class Check:
    """The rows for one model: what a row gives goes to self.found."""

    def __init__(self, language: str, only: str, show: int):
        self.language, self.only, self.show = language, only, show
        self.chinese = language == "zh"
        self.program = Program(language)
        pairs = [line.split("\t") for line in (ROOT / f"tests/data/surroundings-{language}.tsv").read_text(encoding="utf-8").splitlines()]
        self.sources, self.english = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self.plain = self.program.line(self.sources)
        self.found: dict[str, float] = {}

    def note(self, name: str, value: float, of: int | None = None) -> None:
        self.found[name] = value
        print(f"{self.language} {name}: {value:g}" + (f" of {of}" if of else ""), flush=True)

    def compare(self, name: str, outputs: list[str], wanted: list[str], key=squeeze) -> None:
        outputs = (outputs + [""] * len(wanted))[:len(wanted)]
        bad = [i for i, (a, b) in enumerate(zip(outputs, wanted)) if key(a) != key(b)]
        self.note(name, len(wanted) - len(bad), len(wanted))
        for i in bad[:self.show]:
            print(f"    got    {outputs[i]!r}\n    wanted {wanted[i]!r}")

    def filled(self, pattern: str, texts: list[str], gap: str, chinese: bool) -> list[str]:
        return [pattern.format(**fields(text, chinese), next=texts[(i + 1) % len(texts)], _=gap,
                               english=self.english[(i + 1) % len(texts)], kept=KEPT[i % len(KEPT)])
                for i, text in enumerate(texts)]

    def row(self, name: str, form: str, pattern: str, key) -> None:
        if self.chinese and "{upper}" in pattern:
            return
        form, *options = form.split()
        outputs = getattr(self.program, form)(self.filled(pattern, self.sources, "" if self.chinese else " ", self.chinese), *options)
        if "{kept}" in pattern:  # what is beside an address may be translated in another way
            kept = [KEPT[i % len(KEPT)] for i in range(len(outputs))]
            self.note(name, sum(a in b for a, b in zip(kept, outputs)), len(outputs))
            outputs = [bare(text.replace(a, "")).rstrip(", ") for a, text in zip(kept, outputs)]
        else:
            self.compare(name, outputs, self.filled(pattern, self.plain, " ", False), key)
        if "{upper}" in pattern or "{bare}" in pattern:
            self.note(f"BLEU, {name}", round(bleu([bare(lower(x)) for x in outputs], [bare(x) for x in self.english]), 1))

    def two_cues(self) -> None:
        """A sentence over two cues, 50 ms apart. Chinese is divided at a comma."""
        halves, wanted = [], []
        for text, translation in zip(self.sources, self.plain):
            at = text.find("，") + 1 if self.chinese else text.find(" ", len(text) // 2) + 1
            if at:
                halves += [text[:at].strip(), text[at:]]
                wanted.append(translation)
        outputs = self.program.cue(halves, 2000, 1950)
        self.compare("one sentence over two cues, 50 ms apart", [f"{a} {b}" for a, b in zip(outputs[::2], outputs[1::2])], wanted)

    def wrapped(self) -> None:
        """Paragraphs in lines of 40 columns are seen as such, or a hint names the option."""
        if self.chinese:
            return
        def paragraphs(texts: list[str]) -> list[str]:
            return [" ".join(texts[i:i + 4]) for i in range(0, len(texts), 4)]
        letter = "\n\n".join(textwrap.fill(text, 40) for text in paragraphs(self.sources)) + "\n"
        out, err = self.program.run(letter, "letter.txt")
        wanted = paragraphs(self.plain)
        self.compare("a letter in lines of 40 columns, or a hint", wanted if "--wrapped" in err else out.strip().split("\n\n"), wanted)

    def other_script(self) -> None:
        """Text in a script that the model lacks stays, or its tokens are counted; plain text has no such count."""
        count = re.compile(r"[1-9]\d* [^\n]*unknown")
        other = OTHER_SCRIPT[self.language]
        out, err = self.program.run(f"{other}\n" * 5, "in.txt", "--format", "lines")
        _, control = self.program.run("\n".join(self.sources[:5]) + "\n", "in.txt", "--format", "lines")
        said = bool(count.search(err)) and not count.search(control)
        self.compare("a script that the model lacks: kept or counted", [other] * 5 if said else out.split("\n"), [other] * 5)

    def no_labels(self) -> None:
        """Lines without a label are translated as whole lines are."""
        texts = list(NO_LABELS[self.language])
        self.compare("counter-cases: no label", self.program.line(texts), self.program.line(texts, "--plain"))

    def all_rows(self) -> None:
        self.note("BLEU, plain", round(bleu([bare(x) for x in self.plain], [bare(x) for x in self.english]), 1))
        for name, form, pattern, key in ROWS:
            if self.only in name:
                self.row(name, form, pattern, key)
        for special in (self.two_cues, self.wrapped, self.other_script, self.no_labels):
            if not self.only or self.only in special.__name__:
                special()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--show", type=int, default=0, metavar="N")
    parser.add_argument("--write-bars", action="store_true")
    args = parser.parse_args()
    if args.write_bars and args.only:
        parser.error("--write-bars needs all rows, so it does not go with --only")
    found = {}
    for language in LANGUAGES:
        check = Check(language, args.only, args.show)
        check.all_rows()
        found[language] = check.found
    if args.write_bars:
        rows = [[name, *(f"{found[each][name]:g}" if name in found[each] else "-" for each in LANGUAGES)] for name in found["de"]]
        BARS.write_text("".join("\t".join(row) + "\n" for row in [["surrounding", *LANGUAGES], *rows]), encoding="utf-8")
        return
    failed = 0
    head, *lines = [line.split("\t") for line in BARS.read_text(encoding="utf-8").splitlines()]
    bars = {(language, row[0]): row[k] for row in lines for k, language in enumerate(head) if k}
    for language, rows in found.items():
        for name, value in rows.items():
            bar = bars.get((language, name), "-")
            if bar == "-" or value < float(bar):
                failed += 1
                print(f"FAIL {language} {name}: {value:g}, the bar is {bar}")
    print(f"surroundings: {sum(map(len, found.values())) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
