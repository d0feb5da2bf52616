"""Measures what documents cost beside their sentences alone: CPU time and memory of build/translate, and of the Python package.

python tests/translate/time_documents.py FOLDER [--bytes 1000000] [--rounds 1] [--model MODEL] [--formats html,srt]

Takes the files of each format in FOLDER (HTML, Markdown, SRT, WebVTT, text in wrapped lines), puts them one behind
the other until they have so many bytes, and translates this document. The sentences that it has (build/test_echo
--sentences) are then translated as lines. Prints for each format: sentences, CPU seconds of both and their ratio, and
how many times the document's size the program needs in memory: beside the same sentences as lines, and beside one
word, which shows the model's memory. The last is mostly the memory of a batch of long sentences.

With --formats docx,odt,pptx,epub, the Python package translates documents of so many bytes of text, and the sentences alone:

    PYTHONPATH=build/python python tests/translate/time_documents.py FOLDER --formats docx,odt,pptx,epub

Their bodies (docx, odt) become one body, their slides and pages (pptx, epub) parts of one file."""

import argparse
import io
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile
from typing import List, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDS = {"html": (".html", ".htm", ".xhtml"), "markdown": (".md",), "srt": (".srt",), "vtt": (".vtt",), "wrapped": (".txt",)}
OFFICE = {"docx": "word/document.xml", "odt": "content.xml", "pptx": "ppt/slides/%d.xml", "epub": "pages/%d.xhtml"}  # where texts are
BODY = {"docx": "{*}body", "odt": "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}text"}
# What a process does with the model, the document, the sentences' file and a place for the result
DOCUMENT = "translate_file(Model(sys.argv[1]), sys.argv[2], sys.argv[4])"
SENTENCES = "Model(sys.argv[1]).translate(open(sys.argv[3], encoding='utf-8').read().split(chr(10))[:-1], sentences='whole', on_error='return')"
# A process begins with the memory of the one that starts it in ru_maxrss, and reading files of others takes much. So it says its own.
PEAK = "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
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


def collect_office(folder: pathlib.Path, form: str, size: int, words: str) -> Tuple[bytes, List[str]]:
    """Returns a document of the texts of the files of a format, up to so many bytes of text, and its sentences."""
    from lxml import etree  # only these formats need it, and the package
    from transformer_h import Document
    from transformer_h.documents import File, FileError
    root, parts, found = None, {}, 0
    for path in sorted(p for p in folder.rglob(f"*.{form}") if p.is_file() and words in str(p)):
        try:
            file = File(path.read_bytes(), path.name)
            if file.suffix != f".{form}":
                continue
            opened = zipfile.ZipFile(path)
            for name in file._parts:
                if re.search(r"\.(opf|ncx)$|^docProps|^ppt/(?!slides/)", name) or (form in BODY and name != OFFICE[form]):
                    continue
                data = opened.read(name)
                n = sum(len(one.encode("utf-8", "replace")) for text in file._parts[name].texts for one in Document(text, "html").sentences)
                if found + n > 1.2 * size:
                    continue
                found += n
                if form not in BODY:
                    parts[OFFICE[form] % len(parts)] = data
                elif root is None:
                    root = etree.fromstring(data)
                else:
                    body = etree.fromstring(data).find(f".//{BODY[form]}")
                    etree.strip_attributes(body, "{http://www.w3.org/XML/1998/namespace}id")  # another file may have the same
                    for child in body:
                        root.find(f".//{BODY[form]}").append(child)
        except (FileError, etree.XMLSyntaxError, TypeError):  # TypeError: a file without a body
            continue
        if found >= size:
            break
    if root is not None:
        parts[OFFICE[form]] = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
    if not parts:
        return b"", []
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    made = File(out.getvalue(), f"a.{form}")
    return out.getvalue(), [one for text in made.texts for one in Document(text, "html").sentences]


def run(arguments: List[str], text: pathlib.Path, says_peak: bool = False) -> Tuple[float, int]:
    """Returns the CPU seconds and the most bytes of memory of a program. says_peak: its output is kilobytes."""
    with text.open("rb") as source, tempfile.TemporaryFile() as output:
        child = subprocess.Popen(arguments, stdin=source, stdout=output if says_peak else subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        output.seek(0)
        peak = int(output.read()) if says_peak and status == 0 else used.ru_maxrss
    child.returncode = status
    if os.WEXITSTATUS(status) > 1 or os.WIFSIGNALED(status):  # 1: a sentence reached its limit
        raise SystemExit(f"{' '.join(arguments)}: exit status {status}")
    return used.ru_utime + used.ru_stime, peak * 1024


def report(form: str, size: int, n: int, rounds: List[Tuple[Tuple[float, int], Tuple[float, int]]], alone: int) -> None:
    """Prints the line of a format. alone: the memory for one word."""
    whole, each = (statistics.median(r[side][0] for r in rounds) for side in (0, 1))
    memory = [max(r[side][1] for r in rounds) for side in (0, 1)]
    print(f"{form:10} {size:9} {n:9} {whole:8.2f} {each:8.2f} {whole / max(each, 0.01):6.3f} "
          f"{(memory[0] - memory[1]) / size:12.1f} {(memory[0] - alone) / size:15.1f}", flush=True)


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
            if form in OFFICE:
                data, sentences = collect_office(given.folder, form, given.bytes, given.words)
                if not sentences:
                    print(f"{form:10} no files")
                    continue
                named = document.with_name(f"document.{form}")
                named.write_bytes(data)
                lines.write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8", errors="replace")
                commands = [[sys.executable, "-c", f"import re, sys; from transformer_h import Model, translate_file; {code}; {PEAK}", given.model,
                             str(named), str(text), str(named) + ".out"] for code, text in ((DOCUMENT, lines), (SENTENCES, lines), (SENTENCES, one))]
                rounds = [(run(commands[0], one, True), run(commands[1], one, True)) for _ in range(given.rounds)]
                report(form, lines.stat().st_size, len(sentences), rounds, run(commands[2], one, True)[1])
                continue
            document.write_bytes(collect(given.folder, form, given.bytes, given.words))
            size = document.stat().st_size
            if not size:
                print(f"{form:10} no files")
                continue
            found = subprocess.run([ROOT / "build/test_echo", "--sentences", str(FORMS[form]), document], stdout=subprocess.PIPE, check=True).stdout
            lines.write_bytes(found)
            option = "--srt" if form == "vtt" else f"--{form}"
            rounds = [(run([*translate, option], document), run([*translate, "--sentences", "whole"], lines)) for _ in range(given.rounds)]
            report(form, size, found.count(10), rounds, alone)


main()
