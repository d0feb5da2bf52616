"""What a file is, from its name and its first bytes."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

# The first bytes of files that are no documents with text, what they are, and what to do.
_OTHERS = (
    (rb"%PDF-", "a PDF", "convert it to docx, or take its text out with pdftotext"),
    (rb"\{\\rtf", "rich text (RTF)", "save it as docx or odt"),
    (rb"RIFF....WAVE|fLaC|OggS|ID3|\xff[\xfb\xf3\xf2]", "a sound", "transcribe writes its text"),
    (rb"....ftyp|\x1aE\xdf\xa3|RIFF....AVI ", "a film", "take its sound out as WAV, which transcribe reads"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8|II\*\0|MM\0\*|RIFF....WEBP", "a picture", "a text recognition program reads pictures"),
    (rb"\x1f\x8b|BZh|\xfd7zXZ|7z\xbc\xaf|Rar!", "a packed file", "unpack it"),
    (rb"\x7fELF|MZ", "a program", "programs are not translated"),
)
_OLE = (("EncryptedPackage", "encrypted", "save it without a password"), ("WordDocument", "in Word's old format (doc)", "save it as docx"),
        ("PowerPoint Document", "in PowerPoint's old format (ppt)", "save it as pptx"), ("Workbook", "a table (xls)", "save its texts as html or txt"))
_TYPES = {"application/vnd.oasis.opendocument.text": ".odt", "application/vnd.oasis.opendocument.presentation": ".odp",
          "application/epub+zip": ".epub"}
_TABLE = "a table", "save its texts as html or txt"
# A comment ends at its first "-->", and a time has digits in one way only: else a match could take years.
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S)
_TIME = rb"(?:\d*:)?\d+:\d+[.,:]\d+"
_TTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:tt:)?tt\s[^>]*xmlns", re.I | re.S)
_SAMI = re.compile(rb"\s*<sami[\s>]", re.I)
_ASS = re.compile(rb"\s*\[script info\]", re.I)
_SUB, _MPL = re.compile(rb"\s*\{\d+\}\{\d*\}"), re.compile(rb"\s*\[\d+\]\[\d*\]")
_SRT = re.compile(rb"\s*(?:\d+[ \t]*(?:\r\n|\r|\n))?" + _TIME + rb"[ \t]*-->[ \t]*" + _TIME)
_NO_TEXT = "not text", "save it as one of these"
FIRST = 4096  # bytes


def of_archive(data: bytes) -> tuple[str, tuple[str, str] | None]:
    """Returns the suffix of an archive, or what else it is and what to do; "" and None if its parts do not show it."""
    head = re.match(rb"PK\x03\x04.{4}(..).{16}\x08\0(..)mimetype", data, re.S)
    if head:
        at = 38 + int.from_bytes(head[2], "little")
        try:
            kind = (zlib.decompressobj(-15).decompress(data[at:at + 300], 100) if head[1] == b"\x08\0" else data[at:at + 100]).decode("latin-1")
        except zlib.error:
            kind = ""
        for name, suffix in _TYPES.items():
            if kind.startswith(name):
                return suffix, None
        if kind.startswith("application/vnd.oasis.opendocument."):
            return "", _TABLE if ".spreadsheet" in kind else ("a drawing", "save it as odp or odt")
    end = data.rfind(b"PK\5\6")
    parts = data[int.from_bytes(data[end + 16:end + 20], "little"):end] if end >= 0 else b""
    found = re.search(rb"PK\x01\x02.{42}(word/|ppt/|xl/)", parts, re.S)
    kind = found[1].decode() if found else ""
    return {"word/": ".docx", "ppt/": ".pptx"}.get(kind, ""), _TABLE if kind == "xl/" else None


def of_bytes(data: bytes) -> tuple[str, tuple[str, str] | None]:
    """Returns the suffix of what the bytes of a file are, or what else they are and what to do; "" and None if they do not show
    it, as those of Markdown and of plain text."""
    first = data[:FIRST]
    if first.startswith(b"PK"):
        return of_archive(data)
    if first.startswith(b"\xd0\xcf\x11\xe0"):
        for stream, what, advice in _OLE:
            if stream.encode("utf-16-le") in data:
                return "", (what, advice)
        return "", ("encrypted, or in Word's or PowerPoint's old format", "save it without a password as docx, pptx or odt")
    for pattern, what, advice in _OTHERS:
        if re.match(pattern, first, re.S):
            return "", (what, advice)
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        first = first[:len(first) & ~1].decode("utf-16", "ignore").encode()
    elif b"\0" in first:
        even, odd = first[::2].count(0), first[1::2].count(0)
        if max(even, odd) * 4 > len(first) and min(even, odd) * 8 < len(first):
            return "", ("UTF-16 without a byte order mark", "convert it to UTF-8")
        return "", _NO_TEXT
    first = first[3:] if first.startswith(b"\xef\xbb\xbf") else first
    if _HTML.match(first):
        return ".html", None
    if re.match(rb"WEBVTT(?:[ \t\r\n]|$)", first):
        return ".vtt", None
    if _TTML.match(first):
        return ".ttml", None
    if _SAMI.match(first):
        return ".smi", None
    if _ASS.match(first):
        return ".ass", None
    if _SUB.match(first):
        return ".sub", None
    if _MPL.match(first):
        return ".mpl", None
    return ".srt" if _SRT.match(first) else "", None


def kind_of(data: bytes, name: str, format: str | None, known: dict[str, str]) -> tuple[str, str, str]:
    """Returns the suffix of what a file is taken as, why, and, if it cannot be read, what is wrong. known has the suffixes that
    can be read; of those with the same value, a name may have any. format is what a user says, or None."""
    named, (seen, other) = Path(name).suffix.lower(), of_bytes(data)
    if format is not None:
        suffix = f".{format}"
        if other or (seen and is_archive(seen) != is_archive(suffix)):
            return suffix, "", f"the format {format} is given, but the file is {f'{other[0]}; {other[1]}' if other else seen[1:]}"
        apart = [what for what, one in (("its name", named), ("its first bytes", seen)) if one in known and known[one] != known[suffix]]
        return suffix, "the format is given" + (f", although {' and '.join(apart)} say{'s' * (apart == ['its name'])} something else" if apart else ""), ""
    if other == _NO_TEXT and is_archive(named):
        other = None  # it may be a damaged one, about which the archive's reader knows more
    if other:
        return named, "", f"expected a file {', '.join(known)}, but it is {other[0]}; {other[1]}"
    if not seen or (named in known and known[named] == known[seen]):
        if named not in known:
            return named, "", f"expected a file {', '.join(known)}, or a format (--format)"
        return named, "its name" + " and first bytes" * bool(seen), ""
    if is_archive(named) and not is_archive(seen):
        return named, "", f"no zip archive, which {named[1:]} files are: it begins as {seen[1:]} does (--format {seen[1:]})"
    return seen, "its first bytes" + (f", although its name says {named[1:]}" if named else ""), ""


def is_archive(suffix: str) -> bool:
    return suffix in (".docx", ".pptx", ".odt", ".odp", ".epub")
