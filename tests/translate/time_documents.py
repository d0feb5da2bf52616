"""Measures what documents cost beside their sentences alone: CPU time and memory of build/translate.

python tests/translate/time_documents.py FOLDER [--bytes 1000000] [--rounds 1] [--model MODEL] [--formats html,srt]

Takes the files of each format in FOLDER (HTML, Markdown, SRT, WebVTT, text in wrapped lines), puts them one behind
the other until they have so many bytes, and translates this document. The sentences that it has (build/test_echo
--sentences) are then translated as lines. Prints for each format: sentences, CPU seconds of both and their ratio, and
how many times the document's size the program needs in memory: beside the same sentences as lines, and beside one
word, which shows the model's memory. The last is mostly the memory of a batch of long sentences."""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
from typing import List, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDS = {"html": (".html", ".htm", ".xhtml"), "markdown": (".md",), "srt": (".srt",), "vtt": (".vtt",), "wrapped": (".txt",)}
FORMS = {"html": 0, "srt": 1, "vtt": 1, "markdown": 2, "wrapped": 3}


def collect(folder: pathlib.Path, form: str, size: int, words: str) -> bytes:
    """Returns the files of a format, one behind the other, cut off behind a line."""
    out = b""
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in ENDS[form] and p.is_file() and words in str(p)):
        text = path.read_bytes().replace(b"\r\n", b"\n")
        try:
            text.decode()
        except UnicodeDecodeError:
            continue
        text = text[3:] if text.startswith(b"\xef\xbb\xbf") else text
        if form == "markdown":
            text = re.sub(rb"\A---\n.*?\n---\n", b"", text, flags=re.S)
        if form == "vtt" and (not text.startswith(b"WEBVTT") or not text.isascii() and out == b""):
            continue
        if form == "vtt" and out:
            text = text.split(b"\n\n", 1)[-1]
        out += text + b"\n\n"
        if len(out) >= size:
            break
    return out[: out.rfind(b"\n", 0, size) + 1]


def run(arguments: List[str], text: pathlib.Path) -> Tuple[float, int]:
    """Returns the CPU seconds and the most bytes of memory of a program."""
    with text.open("rb") as source:
        child = subprocess.Popen(arguments, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    if os.WEXITSTATUS(status) > 1 or os.WIFSIGNALED(status):  # 1: a sentence reached its limit
        raise SystemExit(f"{' '.join(arguments)}: exit status {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--words", default="", help="take only files with these letters in their path")
    parser.add_argument("--model", default=str(ROOT / "examples/models/de-en.safetensors"))
    parser.add_argument("--formats", default=",".join(FORMS))
    given = parser.parse_args()
    translate = [str(ROOT / "build/translate"), given.model, "--threads", "1"]
    with tempfile.TemporaryDirectory() as temporary:
        one, document, lines = (pathlib.Path(temporary) / name for name in ("one", "document", "lines"))
        one.write_text("Hund\n")
        alone = run([*translate, "--sentences", "whole"], one)[1]
        print(f"{'format':10} {'bytes':>9} {'sentences':>9} {'seconds':>8} {'alone':>8} {'ratio':>6} {'beside lines':>12} {'beside one word':>15}", flush=True)
        for form in given.formats.split(","):
            document.write_bytes(collect(given.folder, form, given.bytes, given.words))
            size = document.stat().st_size
            if not size:
                print(f"{form:10} no files")
                continue
            found = subprocess.run([ROOT / "build/test_echo", "--sentences", str(FORMS[form]), document], stdout=subprocess.PIPE, check=True).stdout
            lines.write_bytes(found)
            option = "--srt" if form == "vtt" else f"--{form}"
            rounds = [(run([*translate, option], document), run([*translate, "--sentences", "whole"], lines)) for _ in range(given.rounds)]
            whole, each = (statistics.median(r[side][0] for r in rounds) for side in (0, 1))
            memory = [max(r[side][1] for r in rounds) for side in (0, 1)]
            print(f"{form:10} {size:9} {found.count(10):9} {whole:8.2f} {each:8.2f} {whole / max(each, 0.01):6.3f} "
                  f"{(memory[0] - memory[1]) / size:12.1f} {(memory[0] - alone) / size:15.1f}", flush=True)


main()
