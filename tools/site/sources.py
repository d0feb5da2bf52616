"""Writes the sources of the site, from which Sphinx makes the pages: make site

    python sources.py api.json OUT

The manual comes from the comment at the top of transformer.h, a page for each chapter; the reference from api.json, a page for each
chapter of the declarations, with an index of all names; the READMEs as they are. Links between files of the repository become
links between pages. Files that no page is made of, such as sources in C, are copied beside the pages that link to them."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {".github/CONTRIBUTING.md", "tests/README.md"}  # for those who change the repository
ROLES = {"functions": "func", "structs": "struct", "enums": "enum", "types": "type"}


class Names:
    """The public names, and the text with links to where they are explained."""

    def __init__(self, api: dict[str, Any], header: str) -> None:
        self.comments = comments(header)
        self.roles = {one["name"]: role for kind, role in ROLES.items() for one in api[kind]}
        self.roles.update({value["name"]: "enumerator" for one in api["enums"] for value in one["values"]})

    def linked(self, text: str) -> str:
        """Returns prose as Markdown: public names are links, and other names of a program are code."""
        def shown(found: re.Match[str]) -> str:
            word = found[0]
            role = self.roles.get(word)
            return f"{{c:{role}}}`{word}`" if role else f"`{word}`"
        parts = re.split(r"((?<![\w`/.])(?:--?[a-z][\w-]*|[A-Za-z]\w*(?:_\w+)+(?:\.\w+)*|[a-z]\w*\.[a-z_]\w*(?:\.\w+)*)(?![\w`/]))", text)
        return "".join(re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", part) if i % 2 == 0 else shown(re.fullmatch(r".*", part, re.S))  # type: ignore[arg-type]
                       for i, part in enumerate(parts))


def manual(header: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yields the chapters of the manual: number, title, lines."""
    text = re.search(r"^/\* >>manual -+\n(.*?)^-+ \*/$", header, re.M | re.S)[1]  # type: ignore[index]
    lines = [line[3:] if line.startswith("   ") else line for line in text.split("\n")]
    heads = [i for i, line in enumerate(lines) if re.fullmatch(r"\d+\. [A-Z ,]+", line)]
    for i, end in zip(heads, [*heads[1:], len(lines)]):
        number, title = lines[i].split(". ", 1)
        yield int(number), title.capitalize(), lines[i + 2:end]


def comments(header: str) -> dict[str, list[str]]:
    """Returns the lines of each comment, by its text on one line, as api.json has it."""
    found = {}
    for one in re.finditer(r"/\*(.*?)\*/", header, re.S):
        first, *rest = one[1].strip().split("\n")
        found[" ".join(one[1].split())] = [first, *textwrap.dedent("\n".join(rest)).split("\n")]
    return found


def body(lines: list[str], names: Names) -> str:
    """Returns what a comment says as Markdown. Indented lines are code or a table, and stay as they are."""
    made: list[str] = []
    prose: list[str] = []

    def end() -> None:
        if prose:
            made.append(names.linked(" ".join(prose)) + "\n")
            prose.clear()

    is_code = False
    for line in [*lines, ""]:
        if line.startswith("    ") and not prose or re.match(r"^\w[\w -]*? {3,}\w", line) and not prose:
            if not is_code:
                made.append("```text")
            is_code = True
            made.append(line[4:] if line.startswith("    ") else line)
            continue
        if is_code:
            if line.startswith(" ") or not line and made[-1] != "":
                made.append(line.strip() if not line else line)
                continue
            made.append("```\n")
            is_code = False
        if not line:
            end()
        elif line.startswith("- "):
            end()
            prose.append(line)
        else:
            prose.append(line.strip())
    end()
    return "\n".join(made) + ("\n```\n" if is_code else "")


def said(comment: str, names: Names) -> str:
    """Returns a comment of api.json as Markdown, with its lines where it is one comment of the header."""
    return body(names.comments.get(comment, [comment]), names)


def declaration(one: dict[str, str]) -> str:
    """Returns the C declaration of a parameter or a member."""
    if "(*)" in one["type"]:
        return one["type"].replace("(*)", f"(*{one['name']})")
    base, bracket, size = one["type"].partition("[")
    return f"{base} {one['name']}{bracket}{size}".replace("* ", "*")


def reference(api: dict[str, Any], number: int, names: Names) -> str:
    """Returns what a chapter of the declarations declares, in the order of the header."""
    about = next(one for one in api["chapters"] if one["number"] == number)
    made = [f"# {about['name'].capitalize()}\n", said(about["comment"], names) + "\n"]
    group = ""
    listed = sorted(((one["order"], kind, one) for kind in ROLES for one in api[kind] if one["chapter"] == number), key=lambda row: row[0])
    for _, kind, one in listed:
        if one["group"] != group:
            group = one["group"]
            made.append(f"## {names.linked(group[:1].upper() + group[1:])}\n")
        if kind == "functions":
            parameters = ", ".join(map(declaration, one["parameters"])) or "void"
            head = f"c:function}} {one['returns']} {one['name']}({parameters})"
        elif kind == "types":
            head = f"c:type}} {declaration(one)}"
        else:
            head = f"c:{ROLES[kind]}}} {one['name']}"
        made += [f"::::{{{head}", said(one["comment"], names), ""]
        for member in one.get("members", ()):
            made += [f":::{{c:member}} {declaration(member)}", names.linked(member["comment"]), ":::"]
        for value in one.get("values", ()):
            made += [f":::{{c:enumerator}} {value['name']}", names.linked(value["comment"]), ":::"]
        made += ["::::", ""]
    return "\n".join(made)


def copied(path: Path, out: Path) -> None:
    """Copies a text of the repository, and what it links to. A link to a folder leads to its README."""
    text = (ROOT / path).read_text(encoding="utf-8")

    def target(found: re.Match[str]) -> str:
        address, _, part = found[1].partition("#")
        if re.match(r"[a-z]+:", address) or not address:
            return found[0]
        place = (ROOT / path.parent / address).resolve()
        relative = place.relative_to(ROOT)
        if place.is_dir():
            return f"]({address.rstrip('/')}/README.md)"
        if str(relative) in LEFT_OUT or place.suffix != ".md":
            (out / relative).parent.mkdir(parents=True, exist_ok=True)
            name = relative if re.search(r"\.(svg|png|jpg)$", relative.name) else relative.with_name(relative.name + ".txt")
            shutil.copy(place, out / name)
            return found[0] if name == relative else f"]({address}.txt)"
        return f"]({address}{'#' + part if part else ''})"
    text = re.sub(r"\]\(([^)\s]+)\)", target, text)
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    (out / path).write_text(text, encoding="utf-8")


def title_of(path: Path) -> str:
    found = re.search(r"^# (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.M)
    return re.sub(r"[`\[\]]", "", found[1]) if found else path.stem


def contents(caption: str, pages: list[tuple[str, str]]) -> str:
    rows = "\n".join(f"{title} <{page}>" for title, page in pages)
    return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n{rows}\n```\n"


def main(listed: Path, out: Path) -> None:
    header = (ROOT / "transformer.h").read_text(encoding="utf-8")
    api = json.loads(listed.read_text(encoding="utf-8"))
    names = Names(api, header)
    shutil.rmtree(out, ignore_errors=True)
    for folder in ("manual", "reference"):
        (out / folder).mkdir(parents=True)
    pages, references = [], []
    for number, title, lines in manual(header):
        (out / f"manual/{number:02}.md").write_text(f"# {title}\n\n{body(lines, names)}", encoding="utf-8")
        pages.append((title, f"manual/{number:02}"))
    for one in api["chapters"]:
        (out / f"reference/{one['number']:02}.md").write_text(reference(api, one["number"], names), encoding="utf-8")
        references.append((one["name"].capitalize(), f"reference/{one['number']:02}"))
    files = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.md") if not {"build", ".git"} & set(path.relative_to(ROOT).parts))
    texts = [Path(name) for name in files if name not in LEFT_OUT and "tools/packaging" not in name and name != "README.md"]
    for path in [Path("README.md"), *texts]:
        copied(path, out)
    (out / "README.md").rename(out / "index.md")
    for path in out.rglob("*.md"):  # the README is the first page
        text = path.read_text(encoding="utf-8")
        up = "../" * len(path.relative_to(out).parents[:-1])
        path.write_text(re.sub(rf"\]\({re.escape(up)}README\.md", f"]({up}index.md", text), encoding="utf-8")
    cookbook = [("Cookbook", "tools/site/cookbook")]
    rest = [(title_of(path), str(path.with_suffix(""))) for path in texts if "site" not in path.parts]
    with open(out / "index.md", "a", encoding="utf-8") as index:
        index.write("\n" + contents("Begin", cookbook) + contents("Manual", pages) + contents("Reference", [*references, ("All names", "genindex")])
                    + contents("Programs and tools", rest))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
