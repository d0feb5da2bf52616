"""Lists of terms: source words, and the words that their translation has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Mapping

from ._transformer import ffi, lib
from .arguments import check_path, check_text, wrong_type


class Terms:
    """A list of terms for the option terms of Model.translate. A program that makes many calls reads it once.

    terms is a dict of source and target, or the path of a file with one term on each line and a tab between
    them. The rules are those of `translate --terms`."""

    def __init__(self, terms: Mapping[str, str] | str | os.PathLike[str]) -> None:
        name, data = "terms", b""
        if isinstance(terms, Mapping):
            for source, target in terms.items():
                line = b"\t".join((check_text("a term", source), check_text("a term's target", target)))
                if line.count(b"\t") > 1 or b"\n" in line or line.lstrip(b" ").startswith(b"#"):
                    raise ValueError(f"terms: {source!r} has a tab or a line break, or begins with #")
                data += line + b"\n"
        elif isinstance(terms, (str, os.PathLike)):
            name = check_path("terms", terms)
            data = Path(name).read_bytes()
        else:
            wrong_type("terms", terms, "a dict, the path of a file, or Terms")
        message = ffi.new("char[]", 160)
        found = lib.th_terms_read(data, len(data), message)
        if not found:
            raise ValueError(f"{name}: {ffi.string(message).decode()}")
        self._list = ffi.gc(found, lib.th_terms_free)
