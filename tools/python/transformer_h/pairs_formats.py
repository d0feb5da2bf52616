"""Which files have source and target, or texts of programs, and which module reads each. The readers are imported when a file needs
them, because their patterns take a tenth of a second."""

from __future__ import annotations

import re
from typing import NamedTuple


class Reader(NamedTuple):
    """The function of a module that reads a format."""

    module: str
    function: str
    is_xml: bool = True


_XLIFF, _PO, _RESX = Reader("pairs_xliff", "read_xliff"), Reader("pairs_lines", "read_po", False), Reader("pairs_programs", "read_resx")
READERS = {
    ".xlf": _XLIFF, ".xliff": _XLIFF, ".mxliff": _XLIFF, ".sdlxliff": _XLIFF, ".mqxliff": _XLIFF, ".tmx": Reader("pairs_xliff", "read_tmx"),
    ".ts": Reader("pairs_programs", "read_qt"), ".xml": Reader("pairs_programs", "read_android"), ".strings": Reader("pairs_lines", "read_strings", False),
    ".stringsdict": Reader("pairs_programs", "read_stringsdict"), ".xcstrings": Reader("pairs_json", "read_xcstrings", False), ".po": _PO, ".pot": _PO,
    ".resx": _RESX, ".resw": _RESX, ".arb": Reader("pairs_json", "read_arb", False)}


def charset_of(data: bytes, suffix: str) -> str | None:
    """Returns the encoding that a file of gettext says it has."""
    found = re.search(rb"Content-Type:\s*text/plain;\s*charset=([\w.:-]{1,40})", data[:1 << 16], re.I) if READERS[suffix] is _PO else None
    return None if not found or found[1] == b"CHARSET" else found[1].decode()
