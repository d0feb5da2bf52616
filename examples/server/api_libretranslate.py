"""LibreTranslate's paths: https://docs.libretranslate.com"""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from endpoints import Endpoint
from files import FORMATS
from models import Refused, cut, name
from service import answer, apart, flag, size_of, word
from transformer_h import Counts, Document


class LibreTranslate:
    def __init__(self, server, files):
        self.server, self.options, self.files = server, server.options, files

    @property
    def languages(self):
        return self.server.languages

    def endpoints(self):
        text = "source! target! api_key"
        return (
            Endpoint("/translate", "POST", self.translate, "Translates texts.", f"q! {text} format alternatives sentences plain",
                     "translatedText! alternatives detectedLanguage way counts"),
            Endpoint("/detect", "POST", self.detect, "Finds out in which language a text is.", "q! api_key", ["language! confidence!"]),
            Endpoint("/translate_file", "POST", self.translate_file, "Translates a document.", f"file! {text} progress plain",
                     "translatedFileUrl! notes", is_upload=True),
            Endpoint("/progress/{id}", "GET", self.progress, "Says how far a document is.", "",
                     "status! seconds_remaining sentences sentences_done"),
            Endpoint("/download_file/{id}/{name}", "GET", self.download_file, "Gives a translated document.",
                     kind="application/octet-stream"),
            Endpoint("/languages", "GET", self.list_languages, "Lists the languages.", "", ["code! name! targets!"]),
            Endpoint("/frontend/settings", "GET", self.settings, "Gives limits, and what the server can do.", "",
                     "keyRequired charLimit supportedFilesFormat language"),
            Endpoint("/health", "GET", self.health, "Says that the server runs.", "", "status"))

    async def list_languages(self, _):
        return answer(self.languages.list())

    async def settings(self, _):
        keys, (source, pairs) = self.server.keys is not None, next(iter(self.languages.into.items()))
        return answer({
            "apiKeys": keys, "keyRequired": keys,
            "charLimit": self.options.char_limit, "frontendTimeout": 500, "suggestions": False,
            "supportedFilesFormat": FORMATS, "filesTranslation": True, "speech": self.server.speech is not None,
            "language": {side: {"code": code, "name": name(code)}
                         for side, code in (("source", source), ("target", next(iter(pairs))))}})

    async def health(self, _):
        return answer({"status": "ok"})

    async def translate(self, request):
        given = await self.server.parameters(request)
        texts, one = self.server.texts(given, "q")
        source, target, kind = (word(given, "source"), self.languages.code(word(given, "target")),
                                word({**given, "format": given.get("format") or "text"}, "format"))
        if kind not in Document.FORMATS:
            raise Refused(400, f"{cut(kind)} format is not supported: it is one of {' '.join(Document.FORMATS)}")
        alternatives, sentences = self.alternatives(given), word(given, "sentences", "default")
        if sentences not in ("default", "split", "whole"):
            raise Refused(400, f"Invalid request: sentences {cut(sentences)} is neither split nor whole")
        detected = [each[0] for each in await self.server.detected(texts, target, kind)] if source == "auto" else None
        if detected is None:
            source = self.languages.code(source)
            self.languages.find(source, target)  # refuses bad languages, even if there is no text
        sources = [code for code, _ in detected] if detected else [source] * len(texts)
        tally = Counter()
        found = await self.server.translated(request, texts, sources, target, alternatives, "q" if one else "q[{}]",
                                             kind, sentences=None if sentences == "default" else sentences, plain=flag(given, "plain"),
                                             tally=tally)
        content = {"translatedText": [each[0] for each in found]}
        if alternatives:
            content["alternatives"] = [each[1:] for each in found]
        if detected:
            content["detectedLanguage"] = self.candidates(detected)
        ways = [self.languages.through(each, target) for each in sources]
        if any(ways):
            content["way"] = ways
        content = {key: each[0] for key, each in content.items()} if one else content
        if any(tally.values()):
            content["counts"] = {name: tally[name] for name in Counts.__slots__}
        return await apart(size_of(texts), answer, content)

    async def translate_file(self, request):
        given, name, data = await self.files.received(request)
        source, target = word(given, "source"), self.languages.code(word(given, "target"))
        with self.files.hold(data), self.files.followed(given.get("progress")) as progress:
            data, source, _, left = await self.files.translated(
                request, name, data, None if source == "auto" else self.languages.code(source), target, progress=progress,
                plain=flag(given, "plain"))
            name = f"{Path(name).stem}_{target}{Path(name).suffix}"
            place = request.base_url.replace(path=f"/download_file/{self.files.keep(name, data)}/{quote(name)}")
            return answer({"translatedFileUrl": str(place), **({"notes": left} if left else {})})

    async def progress(self, request):
        return answer(self.files.progress(request.path_params["id"]))

    async def download_file(self, request):
        return self.files.answer(request.path_params["id"])

    def alternatives(self, given):
        n, most = given.get("alternatives", 0), self.options.alternatives_limit
        if isinstance(n, str) and re.fullmatch("[0-9]{1,4}", n):
            n = int(n)
        if type(n) is not int or not 0 <= n <= most:
            raise Refused(400, f"Invalid request: alternatives is not a number from 0 to {most}")
        return n

    async def detect(self, request):
        texts, _ = self.server.texts(await self.server.parameters(request), "q")
        return answer(self.candidates((await self.server.detected(["\n".join(texts)]))[0]))

    @staticmethod
    def candidates(found):
        return [{"confidence": confidence, "language": code} for code, confidence in found]
