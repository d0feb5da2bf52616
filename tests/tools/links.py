"""Checks the pages of make site: each link leads to a page or a file that is there, and to a place in it that has this name; no page
loads anything from another site; every public name of transformer.h is in the index.

    python tests/tools/links.py build/site"""

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.ids, self.titles = [], [], {""}, 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.update(filter(None, (given.get("id"), given.get("name") if tag == "a" else None)))
        self.titles += tag == "h1"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("img", "script", "iframe") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and "stylesheet" in given.get("rel", ""):
            self.loaded.append(given["href"])


def main(folder):
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    wrong, seen = [], 0
    for path, page in pages.items():
        name = path.relative_to(folder)
        if page.titles != 1 and name.name not in ("genindex.html", "search.html"):
            wrong.append(f"{name} has {page.titles} headings of the first level")
        for address in page.loaded:
            if "//" in address.split("?")[0] or not (path.parent / unquote(address.split("?")[0])).is_file():
                wrong.append(f"{name} loads {address}")
        for address in page.links:
            if address.startswith(("http://", "https://", "mailto:")):
                continue
            seen += 1
            place, _, part = address.partition("#")
            target = (path.parent / unquote(place.split("?")[0])).resolve() if place else path.resolve()
            if not target.is_file():
                wrong.append(f"{name}: {address} is not there")
            elif part and target in pages and unquote(part) not in pages[target].ids:
                wrong.append(f"{name}: {address} has no such place")
    api = json.loads((ROOT / "build/api.json").read_text(encoding="utf-8"))
    index = (folder / "genindex.html").read_text(encoding="utf-8")
    names = [one["name"] for kind in ("functions", "structs", "enums", "types") for one in api[kind]]
    wrong += [f"the index lacks {name}" for name in names if f">{name} (C " not in index]
    for one in wrong:
        print(f"FAIL {one}")
    print(f"{seen + len(names) - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong) or seen < 1000


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
