"""Translates documents of other programs: docx, pptx, odt, odp, epub, files with source and target, and text files.

A paragraph of such a document becomes a text with tags: <g> around text with another format than most of the
paragraph, <x/> for a picture, a footnote or a formula inside a sentence, <br/> for a tab or the end of a line. The reader of
`translate --html` divides the paragraph into sentences and places the tags in the translation by alignment. Then the
paragraph is written again from its own elements. All other parts of a document are copied.
pairs.py has files with source and target. office_paragraphs.py has the paragraphs, office_plain.py those of one format, office_xml.py the parts, and this file the archives."""

from __future__ import annotations

import codecs
import html
import io
import os
import posixpath
import re
import stat
import zipfile
from collections import ChainMap, Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence
from urllib.parse import unquote

from ._transformer import lib
from .arguments import check_choice
from .errors import Error
from .kinds import kind_of
from .languages import language_tag
from .markup import Document
from .office_languages import Languages
from .office_xml import FileError, Work, XmlPart, etree
from .options import is_plain, source_of
from .pairs_formats import READERS, charset_of
from .surroundings import Counts

if TYPE_CHECKING:
    from . import Model
    from .pairs import Pairs

MOST = 1 << 29  # bytes of a file, and of all parts of an archive when they are unpacked
MOST_TEXT = 1 << 26  # bytes of the parts that have texts: in memory, XML is up to 100 times as large as in a file
MOST_PARTS = 20000
MOST_JOINED = 1 << 23  # characters of all names in the packages of a book, each with the folder of its package
PART = 100  # texts that are translated together, if an interrupt is to leave what is done
MOST_SECONDS = 300.0  # of CPU, to read and write a file
MOST_KEPT = 1 << 17  # bytes of the first parts, whose trees stay in memory until they are written; others are read again
# The parts with texts unpack to at most as many times their bytes in the archive. Fewer bytes than FEW are always read.
MOST_RATIO, FEW = 200, 1 << 22
# They have at most as many tags for each of these bytes: each needs up to a kilobyte of memory. Fewer tags are always read.
MOST_TAGS, FEW_TAGS = 2, 400000
# Encodings of web pages. Python knows others, some of which need a time that grows with the square of the size.
_ENCODINGS = re.compile(r"utf-(8|16)(-sig|-[bl]e)?|ascii|iso8859-\d+|cp(125\d|866|874|932|949)|koi8-[ru]|mac-(roman|cyrillic)|"
                        r"gb2312|gbk|gb18030|big5|euc_(jp|kr)|shift_jis|iso2022_jp")

# Which format of Document a file's texts have, and which parts of an archive have texts.
TEXTS = {".txt": "wrapped", ".html": "html", ".htm": "html", ".xhtml": "html", ".md": "markdown", ".srt": "srt", ".vtt": "srt",
         ".sub": "srt", ".mpl": "srt", ".sbv": "srt", ".ass": "srt", ".ssa": "srt", ".ttml": "html", ".dfxp": "html", ".smi": "html", ".sami": "html"}
ARCHIVES = {
    ".docx": r"(word|docProps)/.*\.xml",
    ".pptx": r"(ppt|docProps)/.*\.xml",
    ".odt": r"(.*/)?(content|styles|meta)\.xml",
    ".odp": r"(.*/)?(content|styles|meta)\.xml",
    ".epub": r".*\.(xhtml|html|htm|ncx|opf)",
}
PAIRS = tuple(READERS)  # files with source and target, and texts of programs
SUFFIXES = (*ARCHIVES, *PAIRS, *TEXTS)
READ_AS = {suffix: TEXTS.get(suffix, suffix) for suffix in SUFFIXES}  # suffixes with the same value are read in the same way
FORMATS = {**{suffix[1:]: suffix[1:] for suffix in SUFFIXES}, "markdown": "md", "wrapped": "txt"}  # as a user gives them
_RESOURCES = re.compile(r"(.*/)?(__MACOSX/.*|\._[^/]*)")  # what macOS puts beside the files of an archive: it is no text
# What the manifest of a book calls parts with texts, and how they are read
BOOK_TYPES = {**dict.fromkeys(("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"), "html"),
              **dict.fromkeys(("application/x-dtbncx+xml", "application/oebps-package+xml"), "xml")}
_FIRST_PARTS = re.compile(r"(word/)?styles\.xml|ppt/presentation\.xml")  # what others refer to
_DAMAGED = "get the file again, or open it in its program, which may repair it, and save it"
_LEFT_PARTS = {r"(word|ppt)/embeddings/.*": "an embedded file", r".*\bvbaProject\.bin|Basic/.*\.xml": "macros",
               r"_xmlsignatures/.*\.xml|META-INF/documentsignatures\.xml": "a digital signature, which is now invalid",
               r".*\.svg": "text in a drawing (SVG)"}


def _attribute(tag: bytes, name: str) -> str:
    """Returns the value of an attribute of a tag in XML, or "" if it has none."""
    found = re.search(rb"""\s%b\s*=\s*(?:"([^"]*)"|'([^']*)')""" % name.encode(), tag)
    return html.unescape((found[1] or found[2] or b"").decode("utf-8", "replace")) if found else ""


class _Text:
    """A file or a part that the library reads as it is. declared is the encoding that a text file says it has."""

    def __init__(self, data: bytes, where: str, is_html: bool, declared: str | None = None) -> None:
        marks = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
        self.encoding = next((name for mark, name in marks.items() if data.startswith(mark)), declared or "utf-8")
        if is_html and self.encoding == "utf-8":
            found = re.search(rb"<(?:meta\s[^<>]*?charset|\?xml\s[^<>]*?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", data[:2048], re.I)
            self.encoding = found[1].decode() if found and not re.match(b"utf-?16", found[1], re.I) else "utf-8"
        try:
            if not _ENCODINGS.fullmatch(codecs.lookup(self.encoding).name):
                raise LookupError
            text = data.decode(self.encoding)
        except UnicodeDecodeError as e:
            raise FileError(f"{where}: not {e.encoding} at byte {e.start}; convert the file to UTF-8") from None
        except (LookupError, UnicodeError):
            raise FileError(f"{where}: its encoding {self.encoding} is not known; convert the file to UTF-8") from None
        if is_html and re.search(r"<!ENTITY", text, re.I):
            raise FileError(f"{where}: declares entities, which documents do not need")
        self.is_html, self.texts = is_html, [text]

    def join(self, texts: Sequence[str], lang: str | None, read: Callable[[], bytes]) -> list[bytes]:
        return [texts[0].encode(self.encoding, "xmlcharrefreplace" if self.is_html else "replace")]


def _joined(folder: str, folders: list[str], name: str) -> str:
    """Returns the normal path of a name in a folder. folders are the parts of the folder's normal path, which normpath would
    find again for each name."""
    normal, up = posixpath.normpath(name) if re.search(r"/\.{0,2}/", f"/{name}/") else name, 0
    while normal.startswith("../", 3 * up):
        up += 1
    above = folders[:len(folders) - up]
    if up > len(folders) or folders[:1] in ([""], [".."]) or normal.startswith("/") or normal.endswith("..") or normal in ("", ".") and not above:
        return posixpath.normpath(posixpath.join(folder, name))
    return "/".join(above if normal == "." else [*above, normal[3 * up:]])


class File:
    """A file's texts, and the file with translations in their places.

        file = File(Path("letter.docx").read_bytes(), "letter.docx")
        data = file.join(model.translate_document(file.texts, file.format))

    name is for messages. Its suffix and the first bytes say what the file is, unless format ("docx", "html", "srt" ...) does; taken_as
    says it. left has a line about each thing that stays as it is.
    lang is the language of the translation, which files with a text in several languages need. source is the language to translate: text
    of docx, pptx, odt and odp that is said to be in another one is no part of `texts`. counts has how many units of a
    file with source and target are "translated", "left" and "failed", which join counts.
    Raises FileError for a file that cannot be read, that is larger than `most` bytes, unpacked or not, or that has
    more than `most_text` bytes of text, or that takes more than `seconds` of CPU to be read and written."""

    def __init__(self, data: bytes, name: str, most: int = MOST, most_text: int = MOST_TEXT, format: str | None = None,
                 lang: str | None = None, seconds: float = MOST_SECONDS, source: str | None = None) -> None:
        self.name, self._source = name, source
        self._work = Work(name, seconds)
        self._found: Counter[str] = Counter()
        if len(data) > most:
            raise FileError(f"{name}: larger than {most} bytes")
        self.suffix, why, wrong = kind_of(data, name, None if format is None else FORMATS[check_choice("format", format, FORMATS)], READ_AS)
        if wrong:
            raise FileError(f"{name}: {wrong}")
        self.taken_as = f"{self.suffix[1:]} ({why})"
        self.format = TEXTS.get(self.suffix, "html")
        self._parts: dict[str, XmlPart | _Text | Pairs] = {}
        self._pairs: Pairs | None = None
        if self.suffix not in ARCHIVES and len(data) > most_text:
            raise FileError(f"{name}: larger than {most_text} bytes")
        if self.suffix in PAIRS:
            from .pairs import Pairs
            text = _Text(data, name, READERS[self.suffix].is_xml, charset_of(data, self.suffix))
            is_big = data.startswith(codecs.BOM_UTF16_BE)
            self._parts[""] = self._pairs = Pairs(text.texts[0], "utf-16-be" if is_big else text.encoding, name, self.suffix, self._found, lang,
                                                  codecs.BOM_UTF16_BE if is_big else b"")
        elif self.suffix in TEXTS:
            self._parts[""] = _Text(data, name, self.format == "html")
        else:
            self._open(data, most, most_text)
        self.texts = [text for part in self._parts.values() for text in part.texts]
        if self.format == "srt":
            try:
                Document(self.texts[0], "srt")
            except ValueError as e:
                raise FileError(f"{name}: {e}") from None
        self._work.end()

    @property
    def left(self) -> list[str]:
        return [f"{what} ({n})" if n > 1 else what for what, n in self._found.items()]

    def leave(self, what: str, n: int = 1) -> None:
        """Adds something to `left`."""
        self._found[what] += n

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._pairs.counts) if self._pairs else {}

    @property
    def lacks_language(self) -> bool:
        """Whether the new file needs the language of the translation, to say it."""
        return self._pairs.lacks_language if self._pairs else self.suffix in ARCHIVES

    def fail(self, number: int | None) -> bool:
        """Says that text `number` has a sentence without a translation. Returns whether its unit then stays as it is."""
        if self._pairs is None:
            return False
        self._pairs.failed.add(number or 0)
        return True

    def leave_sentence(self, error: Error) -> None:
        """Adds a sentence that is not translated to `left`."""
        if not self.fail(error.index):
            self.leave("a sentence that is too long for the model" if error.status == lib.TFM_E_TOO_LONG else
                       f"a sentence that cannot be translated: {error.message[:200]}")

    def _open(self, data: bytes, most: int, most_text: int) -> None:
        if etree is None:
            raise ImportError("this kind of file needs lxml: pip install 'transformer-h[documents]'")
        if data.count(b"PK\1\2") > MOST_PARTS:  # zipfile would make an object for each, however many there are
            raise FileError(f"{self.name}: more than {MOST_PARTS} parts")
        self._data = memoryview(data)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, OverflowError) as e:
            raise FileError(f"{self.name}: no zip archive, which {self.suffix[1:]} files are: {e}; {_DAMAGED}") from None
        parts = self._archive.infolist()
        seen: set[str] = set()
        size = text_size = packed = tags = kept = 0
        if sum(part.compress_size for part in parts) > len(data):
            raise FileError(f"{self.name}: the parts have more bytes than the archive, because some lie over others")
        kinds = self._kinds(parts, most_text)
        for part in parts:
            where, size = f"{self.name}: part {part.filename[:200]!r}", size + part.file_size
            if part.filename in kinds or part.filename.startswith("META-INF/"):
                text_size, packed = text_size + part.file_size, packed + part.compress_size
            for wrong, why in (
                    (part.filename in seen, "two parts have this name"),
                    (re.search(r"(^|/)\.\.(/|$)|^/.*[^/]$|\\|^\w:|\0", part.filename) or not part.filename,
                     "this name leads out of the archive"),
                    (stat.S_ISLNK(part.external_attr >> 16), "a link"),
                    (part.flag_bits & 1, "encrypted; save the file without a password"),
                    (part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "compressed in an unusual way"),
                    (size > most, f"the parts up to this one have more than {most} bytes"),
                    (text_size > most_text, f"the parts with text up to this one have more than {most_text} bytes"),
                    (text_size > max(FEW, MOST_RATIO * packed),
                     f"the parts with text up to this one unpack to more than {MOST_RATIO} times their size")):
                if wrong:
                    raise FileError(f"{where}: {why}")
            seen.add(part.filename)
        if self.suffix in (".odt", ".odp") and b"encryption-data" in self._read("META-INF/manifest.xml"):
            raise FileError(f"{self.name}: encrypted; save the file without a password")
        encryption = self._read("META-INF/encryption.xml")
        if re.search(rb"cipher", encryption, re.I) and not all(
                re.search(rb"\.idpf\.org/2008/embedding|ns\.adobe\.com/pdf/enc#RC", one[0])
                for one in re.finditer(rb"<(?:[\w.-]+:)?EncryptionMethod\b[^<>]*>", encryption)):
            raise FileError(f"{self.name}: encrypted (DRM)")
        shifted: Sequence[ChainMap[str, None]] = ()
        for part in parts:
            for pattern, what in _LEFT_PARTS.items():
                if re.fullmatch(pattern, part.filename):
                    self._found[what] += 1
        languages = Languages(self._source)
        for part in sorted(parts, key=lambda part: not _FIRST_PARTS.fullmatch(part.filename)):
            if part.filename not in kinds:
                continue
            self._work.check()
            where, content = f"{self.name}: part {part.filename[:200]!r}", self._read(part.filename)
            tags += content.count(b"<")
            most_tags = max(FEW_TAGS, MOST_TAGS * packed)
            if tags > most_tags:
                raise FileError(f"{where}: the parts with text up to this one have more than {most_tags} tags")
            if kinds[part.filename] == "html":
                self._parts[part.filename] = _Text(content, where, True)
                continue
            made = XmlPart(content, where, self._found, shifted, kept + len(content) <= MOST_KEPT, self._work, languages)
            kept += len(content) if made.kept else 0
            self._parts[part.filename] = made
            if _FIRST_PARTS.fullmatch(part.filename):
                shifted, languages = made.shifted, made.languages
        if not self._parts:
            raise FileError(f"{self.name}: the archive has none of the parts of {self.suffix[1:]} files; look whether this is the right file")

    def _kinds(self, parts: Sequence[zipfile.ZipInfo], most: int) -> dict[str, str]:
        """Returns "html" or "xml" for each part that has texts. The manifest of a book says what its parts are; a part that it
        does not have is known by its name."""
        kinds = {part.filename: "html" if self.suffix == ".epub" and not re.search(r"\.(ncx|opf)$", part.filename, re.I) else "xml"
                 for part in parts if re.fullmatch(ARCHIVES[self.suffix], part.filename, re.I) and not _RESOURCES.fullmatch(part.filename)}
        if self.suffix != ".epub":
            return kinds
        joined = 0  # characters of the names in the packages, with their folders
        sizes, left = {part.filename: part.file_size for part in parts}, min(most, FEW)

        def small(name: str) -> bytes:
            """Reads a part, if it and those that were read before are not too large together."""
            nonlocal left
            left -= sizes.get(name, 0)
            return self._read(name) if left > 0 else b""
        packages = [_attribute(one[0], "full-path") for one in re.finditer(rb"<(?:[\w.-]+:)?rootfile\b[^<>]*>", small("META-INF/container.xml"))]
        for package in dict.fromkeys(packages or [name for name in kinds if name.lower().endswith(".opf")]):
            if package not in sizes:
                continue
            kinds[package] = "xml"
            folder = posixpath.dirname(package)
            folders = [one for one in posixpath.normpath(folder).split("/") if one != "."]
            for item in re.finditer(rb"<(?:[\w.-]+:)?item\b[^<>]*>", small(package)):
                self._work.check()
                name = unquote(_attribute(item[0], "href"))
                joined += len(folder) + len(name)
                if joined > MOST_JOINED:
                    raise FileError(f"{self.name}: the names in its packages have more than {MOST_JOINED} characters")
                name = _joined(folder, folders, name)
                kind = BOOK_TYPES.get(_attribute(item[0], "media-type").strip().lower())
                if name in sizes and kind:
                    kinds[name] = kind
                elif name in sizes and _attribute(item[0], "media-type") == "image/svg+xml" and not name.endswith(".svg"):
                    self._found[_LEFT_PARTS[r".*\.svg"]] += 1
        return kinds

    def _read(self, part: str) -> bytes:
        try:
            with self._archive.open(part) as stream:  # read() would unpack all of a part that says it is smaller
                return stream.read(self._archive.getinfo(part).file_size + 1)
        except KeyError:
            return b""
        except Exception as e:  # what zipfile and zlib raise for damaged data differs between versions
            raise FileError(f"{self.name}: part {part[:200]!r}: damaged: {e}; {_DAMAGED}") from None

    def _copy(self, info: zipfile.ZipInfo, same: zipfile.ZipInfo, archive: zipfile.ZipFile, out: io.BytesIO) -> None:
        """Copies a part as it is packed, because unpacking may take a thousand times as long."""
        at, data = info.header_offset, self._data
        begin = at + 30 + int.from_bytes(data[at + 26:at + 28], "little") + int.from_bytes(data[at + 28:at + 30], "little")
        packed = data[begin:begin + info.compress_size]
        if bytes(data[at:at + 4]) != b"PK\3\4" or len(packed) != info.compress_size:
            raise FileError(f"{self.name}: part {info.filename[:200]!r}: damaged")
        same.CRC, same.compress_size, same.file_size = info.CRC, info.compress_size, info.file_size
        same.header_offset = out.tell()
        out.write(same.FileHeader())
        out.write(packed)
        archive.filelist.append(same)
        archive.NameToInfo[same.filename] = same
        archive.start_dir = out.tell()  # where the list of parts is written at the end

    def join(self, texts: Iterable[str], lang: str | None = None) -> bytes:
        """Returns the file with a text in the place of each of `texts`. It can be called once. lang is the code of their
        language: docx, pptx, odt, odp and epub then say that they are in this language. HTML, also the pages of epub,
        says it if translate_document knew it."""
        made = list(texts)
        if len(made) != len(self.texts):
            raise ValueError(f"{len(made)} texts for {len(self.texts)}")
        parts, at = {}, 0
        self._work.begin()
        for name, part in self._parts.items():
            self._work.check()
            parts[name] = part.join(made[at:at + len(part.texts)], lang, partial(self._read, name))
            at += len(part.texts)
        if self.suffix not in ARCHIVES:
            return b"".join(parts[""])
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:  # the same parts in the same order, as epub and odt need
            for info in self._archive.infolist():
                same = zipfile.ZipInfo(info.filename, max(info.date_time, (1980, 1, 1, 0, 0, 0)))
                same.compress_type, same.external_attr = info.compress_type, info.external_attr
                pieces = parts.pop(info.filename, [])
                if any(pieces):
                    same.file_size = sum(map(len, pieces))
                    with archive.open(same, "w") as stream:
                        for piece in pieces:
                            stream.write(piece)
                else:
                    self._copy(info, same, archive, out)
        return out.getvalue()


def _raise(error: Exception) -> None:
    raise error


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after done of all texts were translated: they are in the file part."""

    def __init__(self, part: Path, done: int, all: int) -> None:
        super().__init__(f"{done} of {all} texts are translated in {part}")


def _translate_part(file: File, models: Sequence[Model], texts: list[str], first: int, reached: Callable[[float], object] | None,
                    source: str | None, options: dict[str, Any]) -> list[str]:
    """Translates a part of a file's texts, whose language is source. `first` is the number of its first text in the file. Calls
    reached with the share of the file that is done."""
    def shift(error: Error) -> object:
        return on_error(error if error.index is None else Error(error.status, error.message, first + error.index))

    on_error, counts, options = options["on_error"], options.get("counts"), dict(options)
    if callable(on_error):
        options["on_error"] = shift
    for number, each in enumerate(models):
        if reached is not None:
            options["progress"] = lambda done, total, number=number, to=reached: to((number + done / max(total, 1)) / len(models))
        left: list[str] = []
        if isinstance(counts, Counts):
            options["counts"] = Counts()
        if not number:
            texts = each.translate_document(texts, file.format, left=left, **options)
        else:
            rest = dict(options)
            texts = each._document(texts, file.format, source, rest.pop("lang", None), left, rest.pop("protect", True), rest.pop("on_error"), rest)
        if isinstance(counts, Counts):
            counts.add(options["counts"], first)
        for line in left:
            file.leave(line)
    return texts


def _write(out: Path, data: bytes) -> None:
    """Writes a file, whole or not at all."""
    temporary = out.with_name(f".{out.name[:200]}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
        os.replace(temporary, out)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def translate(model: Model | Sequence[Model], path: str | os.PathLike[str], out: str | os.PathLike[str], *,
              most: int = MOST, seconds: float = MOST_SECONDS, format: str | None = None, taken: Callable[[str], object] | None = None,
              counted: Callable[[dict[str, int]], object] | None = None, reached: Callable[[int, int], object] | None = None,
              **options: Any) -> list[str]:
    """Translates a file into another one; transformer_h.translate_file documents it. taken is called with what the file is taken as,
    counted with File.counts. reached is called with how many characters are translated, and how many there are. With it the
    texts are translated in parts, and Ctrl-C raises Interrupted: out.part then has the parts that are done, and the rest as it was."""
    models = model if isinstance(model, Sequence) else [model]
    lang = options.get("target_language") if options.get("lang") is None else options["lang"]
    lang = (models[-1].config["target_language"] if lang is None else lang) or None
    source = source_of(options, models[0].config)
    with open(path, "rb") as stream:
        file = File(stream.read(most + 1), os.fspath(path), most, format=format, lang=lang, seconds=seconds,
                    source=None if is_plain(options, models[0].config) or options.get("all_languages") else source)
    if taken is not None:
        taken(file.taken_as)
    texts, on_error = file.texts, options.pop("on_error", None)
    if on_error is None:
        options["on_error"] = lambda error: file.leave_sentence(error) if error.status == lib.TFM_E_TOO_LONG else _raise(error)
    else:
        options["on_error"] = file.leave_sentence if on_error == "copy" else on_error
    made: list[str] = []
    sizes, done = [len(text) for text in texts], 0
    whole = sum(sizes)
    size = PART if reached else max(len(texts), 1)
    try:
        for first in range(0, max(len(texts), 1), size):  # without texts, the options are checked
            more = sum(sizes[first:first + size])
            follow = (lambda share: reached(done + int(more * share), whole)) if reached else None
            made += _translate_part(file, models, texts[first:first + size], first, follow, source, options)
            done += more
    except KeyboardInterrupt:
        if not reached or not made:
            raise
        part = Path(f"{os.fspath(out)}.part")
        _write(part, file.join(made + texts[len(made):], lang))
        raise Interrupted(part, len(made), len(texts)) from None
    if file.lacks_language and not (lang and language_tag(lang)[0]):
        file.leave("the language that the file says it is in, because the new one is not known (lang=, --lang)")
    data, out = file.join(made, lang), Path(out)
    if counted is not None and file.counts:
        counted(file.counts)
    _write(out, data)
    return file.left
