"""Translates random subtitles with translate --srt's and --html's own functions, and compares what ffmpeg reads before and
after (make test-markup).

python tests/translate/subtitles.py [--documents 100] [--seed N]

The script writes SubRip, WebVTT, ASS, MicroDVD, MPL2 and SAMI, and ffmpeg writes WebVTT, ASS and TTML from SubRip. First, build/test_markup
puts the words in capitals. ffmpeg must then read the same cues at the same times, with the same letters in capitals: so every
sentence that a viewer sees is translated, and nothing else is. Then build/test_markup reverses words, or leaves out every second
one. ffmpeg must read as many cues, at the same times. ffmpeg writes TTML but does not read it, so lxml reads its paragraphs."""

import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from lxml import etree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/tools"))
from seeds import SEED  # noqa: E402

HTML, SRT = "0", "1"  # markup_form
SAME, BACKWARDS, EVERY_SECOND, CAPITALS = "0123"
WORDS = "der die das Hund Haus geht kommt heute morgen nicht und aber weil Zug Wasser Anna ja nein wo wann viel Garten".split()


def line(draw):
    words = [draw.choice(WORDS) for _ in range(draw.randint(1, 7))]
    if len(words) > 3 and draw.random() < 0.3:
        words[1] += ","
    return " ".join(words) + draw.choice(["", ".", ".", "!", "?", "..."])


def cues(draw):
    """Returns [(begin, end, lines)] in ms; times are whole tenths of a second."""
    found, at = [], draw.randint(0, 50)
    for _ in range(draw.randint(4, 12)):
        begin = at + draw.randint(1, 20)
        at = begin + draw.randint(5, 60)
        lines = [line(draw) for _ in range(draw.choice([1, 1, 2, 2, 3]))]
        kind = draw.random()
        if kind < 0.15 and len(lines) > 1:
            lines = ["- " + one for one in lines]
        elif kind < 0.25:
            lines = [f"[{lines[0].rstrip('.!?,')}]"]
        found.append((begin * 100, at * 100, lines))
    return found


def clock(ms, mark=","):
    return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


def srt(draw, found):
    text = ""
    for i, (begin, end, lines) in enumerate(found, 1):
        tag = draw.choice([("", ""), ("", ""), ("<i>", "</i>"), ("{\\an8}", ""), ('<font color="#ffff00">', "</font>")])
        text += f"{i}\n{clock(begin)} --> {clock(end)}\n{tag[0]}" + "\n".join(lines) + f"{tag[1]}\n\n"
    return text


def vtt(draw, found):
    text = "WEBVTT\n\n"
    for i, (begin, end, lines) in enumerate(found, 1):
        tag = draw.choice([("", ""), ("<i>", "</i>"), ("<v Anna>", ""), ("<c.x>", "</c>")])
        text += draw.choice(["", f"n{i}\n", "NOTE a b\n\n"])
        text += f"{clock(begin, '.')} --> {clock(end, '.')}{draw.choice(['', ' line:0 align:start'])}\n{tag[0]}" + "\n".join(lines) + f"{tag[1]}\n\n"
    return text


def microdvd(draw, found):
    text = "{1}{1}25.000\n" if draw.random() < 0.7 else ""
    for begin, end, lines in found:
        codes = draw.choice(["", "", "{y:i}", "{Y:b}", "{c:$0000ff}"])
        text += f"{{{begin // 40}}}{{{end // 40}}}{codes}" + "|".join(lines) + "\n"
    return text


def mpl2(draw, found):
    return "".join(f"[{begin // 100}][{end // 100}]" + "|".join(draw.choice(["", "", "/"]) + one for one in lines) + "\n"
                   for begin, end, lines in found)


def sami(draw, found):
    text = "<SAMI>\n<HEAD>\n<STYLE TYPE=\"text/css\"><!--\nP { color: white }\n.DECC { Name: German; lang: de-DE; }\n--></STYLE>\n</HEAD>\n<BODY>\n"
    for begin, end, lines in found:
        text += f"<SYNC Start={begin}><P Class=DECC>" + draw.choice(["<br>", "<BR>\n"]).join(lines) + "\n"
        text += draw.choice(["", f"<SYNC Start={end}><P Class=DECC>&nbsp;\n"])
    return text + "</BODY>\n</SAMI>\n"


def ass(draw, found):
    fields = "Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text"
    text = f"[Script Info]\nTitle: der Hund\n\n[V4+ Styles]\nFormat: Name, Fontname\nStyle: Default,Arial\n\n[Events]\nFormat: {fields}\n"
    for begin, end, lines in found:
        tag = draw.choice([("", ""), ("", ""), ("{\\i1}", "{\\i0}"), ("{\\an8}", ""), ("{\\b1\\c&H0000FF&}", "{\\r}"), ("{\\k20}", "")])
        values = {"Layer": "0", "Start": f"{clock(begin, '.')[1:-1]}", "End": f"{clock(end, '.')[1:-1]}", "Style": "Default", "Text": tag[0] + "\\N".join(lines) + tag[1]}
        text += draw.choice(["", "", "Comment: " + ",".join(["0"] * (fields.count(",") + 1)) + "\n"])
        text += "Dialogue: " + ",".join(values.get(field, "0" if "Margin" in field else "") for field in fields.split(", ")) + "\n"
    return text


def ffmpeg(data, suffix, to):
    """Returns the subtitles in another format."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = f"{folder}/in.{suffix}", f"{folder}/out.{to}"
        pathlib.Path(path).write_text(data, encoding="utf-8")
        done = subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", path, out], capture_output=True, text=True)
        return pathlib.Path(out).read_text(encoding="utf-8") if not done.returncode else f"ffmpeg: {done.stderr}"


def read(data, suffix):
    """Returns [(times, text)] as ffmpeg reads them."""
    if suffix == "ttml":
        return [((one.get("begin"), one.get("end")), " ".join("".join(one.itertext()).split())) for one in etree.fromstring(data.encode()).iter("{*}p")]
    found = []
    for cue in re.split(r"\n\n+(?=\d+\n)", ffmpeg(data, suffix, "srt").strip()):
        number, times, *lines = [*cue.split("\n"), ""]
        if "-->" not in times:
            raise SystemExit(f"what ffmpeg reads has no times:\n{cue}\nof\n{data}")
        text = re.sub(r"<[^>]*>|\{\\[^}]*\}|\\h", " ", " ".join(lines))
        found.append((times, " ".join(text.split())))
    return found


def translated(data, suffix, function):
    form = HTML if suffix in ("smi", "ttml") else SRT
    return subprocess.run([str(ROOT / "build/test_markup"), form, function], input=data, capture_output=True, text=True, check=True).stdout


def compare(data, suffix):
    """Returns what differs, or None."""
    before, loud = read(data, suffix), read(translated(data, suffix, CAPITALS), suffix)
    if [(times, text.upper()) for times, text in before] != loud:
        return "capitals", before, loud
    for function in (BACKWARDS, EVERY_SECOND):
        after = read(translated(data, suffix, function), suffix)
        if [times for times, _ in before] != [times for times, _ in after] or [not text for _, text in before] != [not text for _, text in after]:
            return f"function {function}", before, after
    return None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--documents", type=int, default=100)
    options.add_argument("--seed", type=int, default=SEED)
    options = options.parse_args()
    if not shutil.which("ffmpeg"):
        print("    skipped: no ffmpeg (apt-get install ffmpeg)")
        return 0
    draw, wrong, count = random.Random(options.seed), 0, {}
    for _ in range(options.documents):
        found = cues(draw)
        text = srt(draw, found)
        documents = [("srt", text), ("vtt", vtt(draw, found)), ("sub", microdvd(draw, found)), ("mpl", mpl2(draw, found)), ("smi", sami(draw, found)),
                     ("ass", ass(draw, found)), ("ass", ffmpeg(text, "srt", "ass")), ("vtt", ffmpeg(text, "srt", "vtt")), ("ttml", ffmpeg(text, "srt", "ttml"))]
        for suffix, data in documents:
            count[suffix] = count.get(suffix, 0) + 1
            differs = compare(data, suffix)
            if differs:
                wrong += 1
                if wrong < 4:
                    what, before, after = differs
                    print(f"FAIL {suffix}, {what}:\n{data}")
                    for one, other in zip(before, after):
                        print("    ", one, "|", other, "" if one[0] == other[0] and one[1].upper() == other[1] else "  <--")
    print("subtitles:", ", ".join(f"{n} {suffix}" for suffix, n in count.items()) + f": {wrong} differ for ffmpeg")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
