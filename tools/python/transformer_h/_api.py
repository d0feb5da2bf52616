"""Reads the declarations of transformer.h: functions, structs and enums with their comments. The package's module is
compiled with them, and `make api.json` writes them for bindings of other languages:

    python _api.py transformer.h api.json

No compiler runs for this: the public part of the header uses few directives, and `preprocessed` below knows them. It
raises SyntaxError for any other line, with its number."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

Macros = Dict[str, Tuple[Optional[List[str]], List[str]]]  # parameters, which may be missing, and tokens

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


# ---------------------------------------------------------------------------------------------- as a list
def split(tokens: List[str], at: str) -> List[List[str]]:
    """Splits tokens at each of these tokens that is in no brackets. The last part is left out if it is empty."""
    parts: List[List[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "({[") - (token in ")}]")
        if token == at and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if parts[-1] else parts[:-1]


def joined(tokens: List[str]) -> str:
    """Returns C text with the usual spaces."""
    return re.sub(r"\*\s+|\s+(?=[\],)\[])|(?<=[(\[])\s+|(?<=\w)\s+(?=\()", lambda found: found[0].strip(), " ".join(tokens))


def variables(tokens: List[str]) -> Iterator[Dict[str, str]]:
    """The names and types of a declaration such as "const tfm_tensor *a, b[2]", or of a pointer to a function."""
    if "(" in tokens:
        at = tokens.index("(") + 2  # ( * NAME )
        yield {"name": tokens[at], "type": joined(tokens[:at] + tokens[at + 1:])}
        return
    first, *rest = split(tokens, ",")
    at = next((k for k, token in enumerate(first) if token in "*["), len(first))
    base = first[:at - 1] if at == len(first) or first[at] == "[" else first[:at]
    for one in (first[len(base):], *rest):
        name = next(k for k, token in enumerate(one) if re.fullmatch(NAME, token) and token != "const")
        yield {"name": one[name], "type": joined(base + one[:name] + one[name + 1:])}


def cleaned(comment: Optional[str]) -> str:
    return " ".join(re.sub(r"^/\*|\*/$", "", (comment or "").strip()).split())


def comment_before(text: str, at: int) -> str:
    """Returns the comment right above a declaration. Declarations without an empty line between them share a comment."""
    before = re.sub(r"^(#.*|/\* clang-format \w+ \*/)\n", "", text[:at], flags=re.MULTILINE)
    end = before.rfind("*/")
    comment, between = before[before.rfind("/*", 0, end):end], before[end + 2:]
    return "" if end < 0 or re.search(r"\n[ \t]*\n", between) or re.match(r"/\* (----|>>)", comment) else cleaned(comment + "*/")


def heading(comment: str) -> str:
    """Returns what "---- NAME ---- TEXT" says, as "NAME: TEXT"."""
    found = re.fullmatch(r"-+ (.*?) -+ ?(.*)", comment)
    return (f"{found[1]}: {found[2]}" if found[2] else found[1]) if found else ""


def headings(text: str, at: int) -> Dict[str, Any]:
    """Returns the number of the chapter and the heading that a place in the header is under."""
    chapter, group = 0, ""
    for one in re.finditer(r"^/\* >>.*\n +(\d+)\.|^/\* (----(?:(?!\*/).)*)\*/", text[:at], re.MULTILINE | re.DOTALL):
        chapter, group = (int(one[1]), "") if one[1] else (chapter, heading(cleaned(one[2])))
    return {"chapter": chapter, "group": group}


def comments_within(body: str, ending: str) -> Dict[str, Dict[str, str]]:
    """Returns what is said of members or enumerators, by name: the comments above and behind the declaration, and the heading
    that it is under."""
    body = re.sub(r"^#.*\n", "", body, flags=re.MULTILINE)
    found: Dict[str, Dict[str, str]] = {}
    names: List[str] = []  # of the declaration before
    group, above, end = "", "", 0
    for one in re.finditer(rf"/\*.*?\*/|(?:(?!/\*)[^{ending}])+{ending}?|{ending}", body, re.DOTALL):
        said = cleaned(one[0])
        if not one[0].startswith("/*"):
            if said:
                names = re.findall(rf"\(\s*\*\s*({NAME})", said) or re.findall(NAME, said)
                found.update({name: {"comment": above, "group": group} for name in names})
                above, end = "", one.start() + len(one[0].rstrip())
        elif names and "\n" not in body[end:one.start()]:
            for name in names:
                found[name]["comment"] = f"{found[name]['comment']} {said}".strip()
            end = one.end()
        elif said.startswith("----"):
            group, above = heading(said), ""
        else:
            above = f"{above} {said}".strip()
    return found


def read_api(header: str) -> Dict[str, Any]:
    """Returns what transformer.h declares: functions, structs, enums and other types, with their comments. "chapter" and
    "group" are the headings above a declaration, and "order" is its place in the header."""
    text = public_part(header)
    strings = dict(re.findall(r'X\((TFM_\w+), "(.*)"\)', text))  # the meanings in a table of enumerators
    version = re.search(r'#define TFM_VERSION "(.*)"', text)
    api: Dict[str, Any] = {"version": version[1] if version else "", "functions": [], "structs": [], "enums": [], "types": []}
    api["chapters"] = [{"number": int(one[1]), "name": one[2], "comment": cleaned(one[3])} for one in
                       re.finditer(r"^/\* >>.*\n +(\d+)\. (.*)\n((?:.*\n)*?) +=+ \*/", text, re.MULTILINE)]
    macros: Macros = {"TFM_DEF": (None, [])}
    declarations = split(TOKEN.findall(preprocessed(text, macros)), ";")
    named = {parts[2][0]: name for name, parts in ((name, (0, 0, value[1])) for name, value in macros.items())
             if value_is_name(parts[2])}

    def about(place: Optional["re.Match[str]"]) -> Dict[str, Any]:
        return {"comment": comment_before(text, place.start()), **headings(text, place.start())} if place else {"comment": "", **headings("", 0)}
    for order, tokens in enumerate(declarations):
        if tokens[0] != "typedef":
            at = tokens.index("(")
            name = tokens[at - 1]
            parameters = [one for part in split(tokens[at + 1:-1], ",") if part != ["void"] for one in variables(part)]
            place = re.search(rf"^TFM_DEF\b[^;]*?\b{named.get(name, name)}\(", text, re.MULTILINE)
            api["functions"].append({"name": name, "returns": joined(tokens[:at - 1]), "parameters": parameters,
                                     **about(place), "order": order})
            continue
        kind, name = tokens[1], tokens[-1]
        if kind not in ("struct", "enum"):
            (one,) = variables(tokens[1:])
            place = re.search(rf"^typedef\b[^;]*\b{one['name']}\b", text, re.MULTILINE)
            api["types"].append({**one, **about(place), "order": order})
            continue
        found = re.search(rf"^typedef {kind} {name} \{{(.*?)^\}} {name};|^typedef {kind} {name}\b[^;]*;", text, re.MULTILINE | re.DOTALL)
        said = about(found)
        table = re.search(r"\w+_TABLE(?=\()", found[0]) if found else None
        if table and not said["comment"]:
            said["comment"] = comment_before(text, text.index(f"#define {table[0]}("))
        body = split(tokens[tokens.index("{") + 1:-2], ";" if kind == "struct" else ",") if "{" in tokens else []
        inner = comments_within(found[1] or "", ";" if kind == "struct" else ",") if found else {}
        if kind == "enum":
            values = [{"name": one[0], "value": int(one[2], 0) if len(one) > 2 else None, "comment": inner.get(one[0], {}).get("comment") or strings.get(one[0], "")}
                      for one in body]
            for k, one in enumerate(values):
                if one["value"] is None:
                    one["value"] = values[k - 1]["value"] + 1 if k else 0
            api["enums"].append({"name": name, "values": values, **said, "order": order})
        else:
            members = [{**one, **inner.get(one["name"], {"comment": "", "group": ""})} for part in body for one in variables(part)]
            api["structs"].append({"name": name, "opaque": not body, "members": members, **said, "order": order})
    return api


def value_is_name(tokens: List[str]) -> bool:
    return len(tokens) == 1 and re.fullmatch("tfm_" + NAME, tokens[0]) is not None


def declared(one: Dict[str, str]) -> str:
    """Returns the C declaration of a variable: its name goes into its type."""
    kind, name = one["type"], one["name"]
    if "(*)" in kind:
        return kind.replace("(*)", f"(*{name})", 1)
    base, bracket, size = kind.partition("[")
    return f"{base} {name}{bracket}{size}"


def c_declarations(api: Dict[str, Any]) -> str:
    """Returns the declarations of the list as C, in the order of the header."""
    found: List[Tuple[int, str]] = []
    for one in api["enums"]:
        values = ", ".join(f"{value['name']} = {value['value']}" for value in one["values"])
        found.append((one["order"], f"typedef enum {one['name']} {{ {values} }} {one['name']};"))
    for one in api["structs"]:
        members = "".join(f" {declared(member)};" for member in one["members"])
        found.append((one["order"], f"typedef struct {one['name']} {'' if one['opaque'] else '{' + members + ' } '}{one['name']};"))
    for one in api["types"]:
        found.append((one["order"], f"typedef {declared(one)};"))
    for one in api["functions"]:
        parameters = ", ".join(map(declared, one["parameters"])) or "void"
        found.append((one["order"], f"{one['returns']} {one['name']}({parameters});"))
    return "\n".join(text for _, text in sorted(found)) + "\n"


if __name__ == "__main__":
    listed = read_api(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
