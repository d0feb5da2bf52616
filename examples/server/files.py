"""Documents that clients send: reading, translating, and keeping the translations until clients fetch them."""

import asyncio
import secrets
import time
from pathlib import Path
from urllib.parse import quote

from models import Refused, cut
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response
from transformer_h.documents import SUFFIXES, TEXTS, File, FileError, etree

FORMATS = SUFFIXES if etree else tuple(TEXTS)  # without lxml only files of text
AT_ONCE = 4  # documents that are received or translated at a time
KEPT = 600  # seconds for which a translation is kept
SLICE = 1 << 20  # bytes of a document, for each of which a client has --read-timeout seconds


class Files:
    def __init__(self, server):
        self.server, self.options, self.languages = server, server.options, server.languages
        self.at_once, self.kept = 0, {}  # id: (owner, name, data, when it is forgotten)

    def start(self):
        """Refuses a document if there are AT_ONCE. Returns what counts the document, to be used in a with statement."""
        if self.at_once >= AT_ONCE:
            raise Refused(503, f"the server is busy with {AT_ONCE} documents", 10)
        return Counted(self)

    async def received(self, request):
        """Returns the parameters of a form with a document, the document's name and its bytes, after checking that the
        client may ask."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
            raise Refused(415, "the body is not multipart/form-data")
        most = self.options.file_limit + 65536  # the form is a little larger than the file
        length = request.headers.get("content-length", "")
        size = min(int(length[:18]), most) if length.isdecimal() else most
        body = await self.server.body(request, most, self.options.read_timeout * (1 + size // SLICE))

        async def pieces():
            yield body

        try:
            parser = MultiPartParser(request.headers, pieces(), max_files=1, max_fields=100)
            parser.max_file_size = parser.spool_max_size = most  # in memory: the server writes no file
            found = await parser.parse()
        except (MultiPartException, UnicodeDecodeError, KeyError) as e:
            raise Refused(400, f"the body cannot be read: {getattr(e, 'message', e)}") from None
        given = {key: value for key, value in found.multi_items() if isinstance(value, str)}
        self.server.admitted(request, given)
        file = found.get("file")
        if not isinstance(file, UploadFile):
            raise Refused(400, "Invalid request: missing file parameter")
        name = Path((file.filename or given.get("filename") or "").replace("\\", "/")).name
        if not name.lower().endswith(FORMATS):
            raise Refused(400, f"{cut(name)}: the document is not one of {' '.join(FORMATS)}")
        data = await file.read()
        if len(data) > self.options.file_limit:
            raise Refused(413, f"the document is larger than {self.options.file_limit} bytes")
        return given, name, data

    async def translated(self, request, name, data, source, target, terms=None):
        """Returns the translated document, its source language and its number of characters. source may be None, then it
        is found out. request is None if nobody waits for the answer."""
        try:
            # one at a time, because XML needs much memory
            async with self.server.one_file:
                file = await asyncio.to_thread(File, data, name, 8 * self.options.file_limit, self.options.file_text_limit)
            if source is None:
                some, size = [], 0
                for text in file.texts[:1000]:
                    if size < 10000:
                        some.append(text[:10000])
                        size += len(text)
                source = (await self.server.detected("\n".join(some), target, file.format))[0][0]
            self.languages.find(source, target)
            found = await self.server.translated(
                request, file.texts, [source] * len(file.texts), target, where="part {} of the document", format=file.format,
                terms=terms and {source: terms(source)}, seconds=self.options.file_timeout)
            async with self.server.one_file:
                made = await asyncio.to_thread(file.join, [each[0] for each in found], target)
        except FileError as e:
            raise Refused(400, str(e)) from None
        return made, source, sum(map(len, file.texts))

    def keep(self, name, data, owner=None):
        """Keeps a translation for a while, and returns its id, which nobody can guess. There is room for ten of the largest
        documents; a new one drops the oldest."""
        self.forget()
        while self.kept and sum(len(one[2]) for one in self.kept.values()) + len(data) > 10 * self.options.file_limit:
            del self.kept[next(iter(self.kept))]
        key = secrets.token_urlsafe(24)
        self.kept[key] = owner, name, data, time.monotonic() + KEPT
        return key

    def forget(self):
        now = time.monotonic()
        for key in [key for key, one in self.kept.items() if one[3] < now]:
            del self.kept[key]

    def answer(self, key, owner=None):
        """Returns the response with a translation."""
        self.forget()
        found = self.kept.get(key)
        if found is None or found[0] != owner:
            raise Refused(404, f"no such document; translations are kept for {KEPT} seconds")
        # "attachment", so that a browser does not show a page of somebody else as the server's
        return Response(found[2], media_type="application/octet-stream", headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found[1])}", "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store"})


class Counted:
    """Counts a document while it is received and translated."""

    def __init__(self, files):
        self.files = files

    def __enter__(self):
        self.files.at_once += 1

    def __exit__(self, *_):
        self.files.at_once -= 1
