"""DeepL's glossaries: lists of terms that clients make, in memory or in a folder."""

import csv
import datetime
import json
import os
import uuid
from pathlib import Path

from models import Refused, cut
from transformer_h import Terms

FULL = 456  # DeepL's status for a quota that is used up


class Glossary:
    """A glossary of one owner. dictionaries[source, target] is {source term: target term}."""

    def __init__(self, owner, name, dictionaries, id=None, created=None):
        self.owner, self.name, self.dictionaries = owner, name, dictionaries
        self.id = id or str(uuid.uuid4())
        self.created = created or datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.terms = {}
        for pair, entries in dictionaries.items():
            try:
                self.terms[pair] = Terms(entries)
            except ValueError as e:
                raise Refused(400, f"glossary {cut(name)}: {e}") from None
        self.data = json.dumps({
            "owner": owner, "name": name, "id": self.id, "created": self.created,
            "dictionaries": [[*pair, entries] for pair, entries in dictionaries.items()]})

    @staticmethod
    def read(data):
        parsed = json.loads(data)
        parsed["dictionaries"] = {(source, target): entries for source, target, entries in parsed["dictionaries"]}
        return Glossary(**parsed)


class Glossaries:
    """Holds all glossaries, at most `limit` bytes of them. folder: where they are kept, one in each file."""

    def __init__(self, folder, limit):
        self.folder, self.limit, self.all = folder and Path(folder), limit, {}
        for path in sorted(self.folder.glob("*.json")) if folder else ():
            try:
                glossary = Glossary.read(path.read_text(encoding="utf-8"))
            except (ValueError, TypeError, KeyError, AttributeError, Refused) as e:
                raise ValueError(f"{path} is no glossary: {e}") from None
            self.all[glossary.id] = glossary

    def of(self, owner):
        return [one for one in list(self.all.values()) if one.owner == owner]  # another thread may add one

    def find(self, owner, id):
        found = self.all.get(id)
        if found is None or found.owner != owner:
            raise Refused(404, f"there is no glossary {cut(id)}")
        return found

    def keep(self, glossary):
        """Adds the glossary, in the place of the one with its id."""
        others = sum(len(one.data) for one in list(self.all.values()) if one.id != glossary.id)
        if others + len(glossary.data) > self.limit:
            raise Refused(FULL, f"the glossaries of all clients would have more than {self.limit} bytes")
        if self.folder:
            path = self.folder / f"{glossary.id}.json"
            path.with_suffix(".new").write_text(glossary.data, encoding="utf-8")
            os.replace(path.with_suffix(".new"), path)
        self.all[glossary.id] = glossary
        return glossary

    def drop(self, glossary):
        if self.folder:
            (self.folder / f"{glossary.id}.json").unlink(missing_ok=True)
        del self.all[glossary.id]


def read_entries(text, kind):
    """Returns {source term: target term} of the text of a glossary, which is "tsv" or "csv"."""
    if kind not in ("tsv", "csv"):
        raise Refused(400, f"entries_format {cut(kind)} is neither tsv nor csv")
    entries, number = {}, 0
    # lines and not StringIO, because a carriage return alone ends no line
    rows = csv.reader(text.splitlines(True), strict=True) if kind == "csv" else (line.split("\t") for line in text.split("\n"))
    try:
        for number, row in enumerate(rows, 1):
            row = [each.strip() for each in row]
            if not any(row):
                continue
            if len(row) != 2 and not (kind == "csv" and len(row) == 4):
                raise Refused(400, f"entries: line {number} has {len(row)} columns, expected a source and a target")
            if not row[0] or not row[1]:
                raise Refused(400, f"entries: line {number} has an empty term")
            if row[0] in entries:
                raise Refused(400, f"entries: line {number} has {cut(row[0])} again")
            entries[row[0]] = row[1]
    except csv.Error as e:
        raise Refused(400, f"entries: line {number + 1}: {e}") from None
    if not entries:
        raise Refused(400, "entries: there is no term")
    return entries


def written_entries(entries):
    return "".join(f"{source}\t{target}\n" for source, target in entries.items())
