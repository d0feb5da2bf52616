"""What the command python -m transformer_h says while one waits for it, and what Ctrl-C leaves."""

import io
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from transformer_h import Model, translate_file

GERMAN = Path(__file__).resolve().parents[3] / "examples/models/de-en.safetensors"
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def book(paragraphs):
    """Returns a document in which each paragraph has another number."""
    text = "".join(f"<w:p><w:r><w:t>Wir haben {i} Bücher gekauft.</w:t></w:r></w:p>" for i in range(paragraphs))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", f"<w:document {W}><w:body>{text}</w:body></w:document>")
    return made.getvalue()


def paragraphs_of(path):
    with zipfile.ZipFile(path) as archive:
        return ["".join(re.findall(r"<w:t[^>]*>([^<]*)", one)) for one in
                re.findall(r"<w:p>.*?</w:p>", archive.read("word/document.xml").decode())]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_progress_and_ctrl_c(tmp_path):
    """On a terminal the command says how far it is. After Ctrl-C, OUT is absent, and OUT.part has what was translated."""
    pytest.importorskip("lxml")
    (tmp_path / "a.docx").write_bytes(book(20000))
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "transformer_h", GERMAN, tmp_path / "a.docx", "-o", tmp_path / "b.docx", "--threads", "1"]
    process = subprocess.Popen(list(map(str, command)), stderr=theirs, stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    os.close(theirs)
    shown, sent = "", False
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        shown += more.decode()
        reached = re.findall(r"\rtranslating [^\r]*: (\d+) of (\d+) characters, [0-9.]+ a second, \d+ seconds left", shown)
        if reached and int(reached[-1][0]) > int(reached[-1][1]) // 40 and not sent:
            process.send_signal(signal.SIGINT)
            sent = True
    os.close(ours)
    assert process.wait() == 130 and sent, shown[-500:]
    assert not (tmp_path / "b.docx").exists()
    said = re.search(r"transformer_h: interrupted: (\d+) of 20000 texts are translated in (.*), and the rest is as it was\s*$", shown)
    assert said and said[2] == str(tmp_path / "b.docx.part"), shown[-500:]
    found, done = paragraphs_of(said[2]), int(said[1])
    assert len(found) == 20000 and 0 < done < 20000
    assert all("books" in one for one in found[:done]) and all("Bücher" in one for one in found[done:])


def test_parts_do_not_change_the_text(tmp_path):
    """The command translates in parts, and writes what translate_file writes at once. A sentence that is too long has its
    number in the whole file."""
    pytest.importorskip("lxml")
    (tmp_path / "a.docx").write_bytes(book(250))
    command = [sys.executable, "-m", "transformer_h", GERMAN, tmp_path / "a.docx", "-o", tmp_path / "b.docx"]
    done = subprocess.run(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and "characters" not in done.stderr, done.stderr
    translate_file(Model(GERMAN), tmp_path / "a.docx", tmp_path / "c.docx")
    assert paragraphs_of(tmp_path / "b.docx") == paragraphs_of(tmp_path / "c.docx")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.docx", "b.docx", "c.docx"]
