"""The declarations for cffi. They are made from the header's own text when the package is built (_api.py), so a
status, an option or a field that is new in the header is in the package too."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
ROOT = next(one for one in (HERE.parent, HERE.parents[2]) if (one / "transformer.h").exists())
TRANSLATE, TRANSCRIBE = ROOT / "examples" / "translate", ROOT / "examples" / "transcribe"
API = runpy.run_path(str(HERE / "_api.py"))
preprocessed, header_declarations, TOKEN = API["preprocessed"], API["header_declarations"], API["TOKEN"]


def native_declarations(text: str) -> str:
    """Returns the declarations of what _native.h defines, its types and its th_ functions, and of the types that
    these take from the examples: the enum of documents' formats, and the options of transcribe."""
    structs = re.findall(r"^typedef (?:struct th_\w+|struct \w+_options|struct languages_look|enum th_\w+|enum markup_form) \{.*?^\} \w+;", text, re.DOTALL | re.MULTILINE)
    functions = re.findall(r"^static ([^{;]*\bth_\w+\([^{;]*\)) \{", text, re.MULTILINE)
    return preprocessed("\n".join(structs + [f"{one};" for one in functions]),
                        {"WHISPER_TEMPERATURES": (None, ["..."])})  # cffi asks the compiler


ffi = FFI()
ffi.cdef(API["c_declarations"](API["read_api"]((ROOT / "transformer.h").read_text(encoding="utf-8"))))
ffi.cdef(native_declarations("".join(path.read_text(encoding="utf-8") for path in (
    TRANSLATE / "text" / "languages.h", TRANSLATE / "text" / "markup_pieces.h", TRANSCRIBE / "whisper.h", TRANSCRIBE / "voice.h",
    TRANSCRIBE / "transcriber.h", HERE / "_native.h"))))
# Functions of Python that C calls. user is a handle of ffi.new_handle.
ffi.cdef('''extern "Python" {
    int th_stopped(void *user);
    void th_edit_logits(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits);
}''')
# One compilation, so structs cannot be another version's (tfm_sizes_check has nothing to find).
ffi.set_source("transformer_h._transformer", """
    #define TRANSFORMER_IMPLEMENTATION
    #define TRANSFORMER_STATIC
    #ifndef _WIN32
    #define TRANSFORMER_MMAP
    #endif
    #include "transformer.h"
    #include "_native.h"
    """, include_dirs=[str(ROOT), str(HERE), str(TRANSLATE), str(TRANSCRIBE), str(ROOT / "tools" / "common")],
    depends=[str(ROOT / "transformer.h"), *map(str, [*TRANSLATE.rglob("*.h"), *TRANSCRIBE.glob("*.h"), *(ROOT / "tools" / "common").glob("*.h")])])
