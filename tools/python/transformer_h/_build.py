"""The declarations for cffi. They are made from the header's own text when the package is built, so a
status, an option or a field that is new in the header is in the package too.

No compiler runs for this: the public part of transformer.h uses few directives, and `preprocessed`
below knows them. It raises SyntaxError for any other line, with its number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from cffi import FFI

Macros = Dict[str, Tuple[Optional[List[str]], List[str]]]  # parameters, which may be missing, and tokens

HERE = Path(__file__).resolve().parent
ROOT = next(one for one in (HERE.parent, HERE.parents[2]) if (one / "transformer.h").exists())
TRANSLATE, TRANSCRIBE = ROOT / "examples" / "translate", ROOT / "examples" / "transcribe"
NAME = r"[A-Za-z_]\w*"
# a string or character, a name, a number, a paste, or any other character that is no space
TOKEN = re.compile(rf'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|{NAME}|\.?\d[\w.]*|##|\S')


def preprocessed(text: str, macros: Macros) -> str:
    """Returns C text without comments and directives, with its macros expanded. macros: those that are
    defined before; it grows."""
    # a comment becomes a space; its line breaks stay, for the line numbers of messages
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*',
                  lambda found: found[0] if found[0][0] == '"' else " " + "\n" * found[0].count("\n"),
                  text, flags=re.DOTALL)
    text = re.sub(r"(?:[^\n]*\\\n)+[^\n]*", lambda found: found[0].replace("\\\n", " ")
                  + "\n" * found[0].count("\\\n"), text)
    output: list[str] = []
    waiting: list[str] = []
    live: list[tuple[bool, bool]] = []  # of each #if around a line: whether its lines count, and whether one of its branches did
    for number, line in enumerate(text.split("\n"), 1):
        if not (directive := re.fullmatch(rf"\s*#\s*({NAME})\s*(.*)", line)):
            if all(now for now, _ in live):
                waiting.extend(TOKEN.findall(line))
            continue
        output += expanded(waiting, macros)
        waiting = []
        word, rest = directive[1], directive[2].strip()
        if word in ("if", "ifdef", "ifndef"):
            now = all(now for now, _ in live) and (
                is_true(rest, macros, number) if word == "if" else (rest in macros) == (word == "ifdef"))
            live.append((now, now))
        elif word in ("elif", "else") and live:
            _, before = live.pop()
            now = (not before and all(now for now, _ in live)
                   and (word == "else" or is_true(rest, macros, number)))
            live.append((now, before or now))
        elif word == "endif" and live:
            live.pop()
        elif not all(now for now, _ in live) or word in ("include", "pragma"):
            continue
        elif word == "undef":
            macros.pop(rest, None)
        elif word == "define" and (made := re.fullmatch(rf"({NAME})(?:\(([^)]*)\))?(?:\s+(.*))?", rest)):
            macros[made[1]] = (None if made[2] is None else [one.strip() for one in made[2].split(",")],
                               TOKEN.findall(made[3] or ""))
        else:
            raise SyntaxError(f"transformer.h, public part, line {number}: cannot read {line.strip()!r}")
    output += expanded(waiting, macros)
    if live:
        raise SyntaxError("transformer.h, public part: an #if has no #endif")
    return " ".join(output)


def is_true(condition: str, macros: Macros, number: int) -> bool:
    """Whether the condition of an #if holds, which may have defined(NAME), !, &&, || and parentheses."""
    text = re.sub(rf"\bdefined\s*(?:\(\s*({NAME})\s*\)|({NAME}))",
                  lambda found: str((found[1] or found[2]) in macros), condition)
    for operator, word in (("&&", " and "), ("||", " or "), ("!", " not ")):
        text = text.replace(operator, word)
    if not re.fullmatch(r"(?:True|False|and|or|not|[\s()])+", text):
        raise SyntaxError(f"transformer.h, public part, line {number}: cannot read #if {condition}")
    return bool(eval(text))


def expanded(tokens: list[str], macros: Macros, within: frozenset[str] = frozenset()) -> list[str]:
    """Returns tokens with macros expanded, by C's rules. within: macros that are being expanded, which
    do not expand again."""
    output: list[str] = []
    i = 0
    while i < len(tokens):
        token, i = tokens[i], i + 1
        parameters, body = macros.get(token, (None, None)) if token not in within else (None, None)
        if body is None or (parameters is not None and tokens[i:i + 1] != ["("]):
            output.append(token)
            continue
        values: dict[str, list[str]] = {}
        if parameters is not None:
            arguments: list[list[str]] = [[]]
            depth, i = 1, i + 1
            while depth:
                depth += (tokens[i] == "(") - (tokens[i] == ")")
                if tokens[i] == "," and depth == 1:
                    arguments.append([])
                elif depth:
                    arguments[-1].append(tokens[i])
                i += 1
            values = dict(zip(parameters, arguments))
        made: list[str] = []
        k = 0
        while k < len(body):
            word, k = body[k], k + 1
            pasted = "##" in (body[k:k + 1] + body[k - 2:k - 1] if k > 1 else body[k:k + 1])
            if word == "#" and body[k:k + 1] and body[k] in values:
                made.append('"' + re.sub(r'([\\"])', r"\\\1", " ".join(values[body[k]])) + '"')
                k += 1
            elif word == "##":
                right = values.get(body[k], [body[k]])
                made[-1] += right[0]
                made, k = made + right[1:], k + 1
            else:
                value = values.get(word, [word])
                made += value if pasted or word not in values else expanded(value, macros, within)
        output += expanded(made, macros, within | {token})
    return output


def public_part(header: str) -> str:
    """Returns the text of transformer.h between its guard and the implementation."""
    found = re.search(r"^#ifndef TRANSFORMER_H\n.*?^#endif /\* TRANSFORMER_H \*/$", header,
                      re.DOTALL | re.MULTILINE)
    if not found:
        raise SyntaxError("transformer.h has no public part")
    return found[0]


def header_declarations(header: str) -> str:
    """Returns the declarations of the header's public part, as cffi reads them."""
    return preprocessed(public_part(header), {"TFM_DEF": (None, [])})


def native_declarations(text: str) -> str:
    """Returns the declarations of what _native.h defines, its structs and its th_ functions, and of the types that
    these take from the examples: the enum of documents' formats, and the options of transcribe."""
    structs = re.findall(r"^typedef (?:struct th_\w+|struct \w+_options|enum markup_form) \{.*?^\} \w+;", text, re.DOTALL | re.MULTILINE)
    functions = re.findall(r"^static ([^{;]*\bth_\w+\([^{;]*\)) \{", text, re.MULTILINE)
    return preprocessed("\n".join(structs + [f"{one};" for one in functions]),
                        {"WHISPER_TEMPERATURES": (None, ["..."])})  # cffi asks the compiler


ffi = FFI()
ffi.cdef(header_declarations((ROOT / "transformer.h").read_text(encoding="utf-8")))
ffi.cdef(native_declarations("".join(path.read_text(encoding="utf-8") for path in (
    TRANSLATE / "text" / "markup_pieces.h", TRANSCRIBE / "whisper.h", TRANSCRIBE / "transcriber.h", HERE / "_native.h"))))
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
    """, include_dirs=[str(ROOT), str(HERE), str(TRANSLATE), str(TRANSCRIBE)],
    depends=[str(ROOT / "transformer.h"), *map(str, [*TRANSLATE.rglob("*.h"), *TRANSCRIBE.glob("*.h")])])
