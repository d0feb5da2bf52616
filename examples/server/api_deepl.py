"""DeepL's paths, with which its clients work: https://developers.deepl.com/api-reference"""

import asyncio
import hashlib
import re
import secrets

from endpoints import Endpoint
from files import CONTROLS, WAITING, Progress
from glossaries import Glossaries, Glossary, read_entries, written_entries
from models import Refused, cut, name
from service import answer, apart, key_of, size_of, word
from starlette.responses import Response
from transformer_h import Terms
from transformer_h.detecting import base_language

# DeepL's codes of a target that has several; its client refuses the plain code
VARIANTS = {"EN": {"EN-GB": "English (British)", "EN-US": "English (American)"},
            "PT": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"}}
# parameters that would change a translation; others that this server does not know are ignored
REFUSED = "style_id", "translation_memory_id", "custom_instructions", "ignore_tags"
TAGS = "splitting_tags", "non_splitting_tags"
MOST_GLOSSARIES = 5  # of a request
MOST_TAGS = 1000  # in splitting_tags and in non_splitting_tags
MOST_OF_A_NAME = 1024  # bytes of a glossary's name
MOST_JOBS = 1000  # documents, with those that are done


class DeepL:
    def __init__(self, server, files):
        self.server, self.files = server, files
        self.jobs = {}  # id: (owner, the task that translates a document, its Progress)
        self.changing = asyncio.Lock()  # of the glossaries
        self.glossaries = Glossaries(server.options.glossaries, server.options.glossary_limit)

    @property
    def languages(self):
        return self.server.languages

    def endpoints(self):
        one, dictionaries = "/v3/glossaries/{id}", "/v3/glossaries/{id}/dictionaries"
        dictionary, pair = "source_lang! target_lang! entries! entries_format!", "source_lang! target_lang!"
        glossary = "glossary_id! name! ready! creation_time! source_lang! target_lang! entry_count!"
        glossary_3 = "glossary_id! name! creation_time! dictionaries!"
        languages, usage = ["language! name! supports_formality"], "character_count! character_limit!"
        return (
            Endpoint("/v2/translate", "POST", self.translate, "Translates texts.",
                     "text! target_lang! source_lang tag_handling splitting_tags non_splitting_tags outline_detection "
                     "split_sentences formality show_billed_characters glossary_id glossary_ids", "translations!"),
            Endpoint("/v2/document", "POST", self.send, "Takes a document, and translates it when its turn comes.",
                     "file! target_lang! source_lang glossary_id", "document_id! document_key!", is_upload=True),
            Endpoint("/v2/document/{id}", "POST", self.status, "Says how far a document is.", "document_key!",
                     "document_id! status! seconds_remaining sentences sentences_done billed_characters notes error_message"),
            Endpoint("/v2/document/{id}/result", "POST", self.result, "Gives a translated document.", "document_key!",
                     kind="application/octet-stream"),
            Endpoint("/v2/languages", "GET", self.list_languages, "Lists the languages.", "type", languages),
            Endpoint("/v2/languages", "POST", self.list_languages, "Lists the languages.", "type", languages),
            Endpoint("/v2/usage", "GET", self.usage, "Counts characters.", "", usage),
            Endpoint("/v2/usage", "POST", self.usage, "Counts characters.", "", usage),
            Endpoint("/v2/glossary-language-pairs", "GET", self.pairs, "Lists the pairs of languages for which there can be a glossary.",
                     "", "supported_languages!"),
            Endpoint("/v2/glossaries", "GET", self.list_2, "Lists the glossaries with one dictionary.", "", "glossaries!"),
            Endpoint("/v2/glossaries", "POST", self.create_2, "Makes a glossary.", f"name! {dictionary}", glossary, status=201),
            Endpoint("/v2/glossaries/{id}", "GET", self.show_2, "Shows a glossary.", "", glossary),
            Endpoint("/v2/glossaries/{id}", "DELETE", self.delete, "Deletes a glossary.", status=204),
            Endpoint("/v2/glossaries/{id}/entries", "GET", self.entries_2, "Gives the terms of a glossary.",
                     kind="text/tab-separated-values"),
            Endpoint("/v3/glossaries", "GET", self.list_3, "Lists the glossaries.", "", "glossaries!"),
            Endpoint("/v3/glossaries", "POST", self.create_3, "Makes a glossary.", "name! dictionaries!", glossary_3, status=201),
            Endpoint(one, "GET", self.show_3, "Shows a glossary.", "", glossary_3),
            Endpoint(one, "PATCH", self.change, "Changes the name of a glossary, or adds terms.", "name dictionaries", glossary_3),
            Endpoint(one, "DELETE", self.delete, "Deletes a glossary.", status=204),
            Endpoint(f"{one}/entries", "GET", self.entries_3, "Gives the terms of a dictionary.", pair, "dictionaries!"),
            Endpoint(dictionaries, "PUT", self.replace, "Replaces a dictionary.", dictionary, "source_lang! target_lang! entry_count!"),
            Endpoint(dictionaries, "DELETE", self.delete_dictionary, "Deletes a dictionary.", pair, status=204))

    # ---- translating ---------------------------------------------------------------------------------

    async def translate(self, request):
        given = await self.server.parameters(request)
        texts, _ = self.server.texts(given, "text")
        for parameter in REFUSED:
            if given.get(parameter):
                raise Refused(400, f"{parameter} is not supported")
        formality = word(given, "formality", "default")
        if formality not in ("default", "prefer_more", "prefer_less"):
            raise Refused(400, f"formality {cut(formality)} is not supported: no model has it")
        tags = given.get("tag_handling") or None
        if tags not in (None, "html", "xml"):
            raise Refused(400, f"tag_handling {cut(str(tags))} is neither html nor xml")
        form = "html" if tags else "text"
        renamed = await apart(size_of(texts) + size_of(str(given.get(key, "")) for key in TAGS), Renamed, given, tags) if tags else None
        for parameter in TAGS if not tags else ():
            if given.get(parameter):
                raise Refused(400, f"{parameter} needs tag_handling")
        split = str(given.get("split_sentences")).lower()
        if split == "nonewlines":
            texts = [" ".join(text.split("\n")) for text in texts]
        target = self.languages.code(word(given, "target_lang"))
        source = given.get("source_lang")
        sources = ([self.languages.code(word(given, "source_lang"))] * len(texts) if source else
                   [each[0][0] for each in await self.server.detected(texts, target, form)])
        terms = {each: await self.terms(request, given, each, target) for each in dict.fromkeys(sources)}
        size = size_of(texts)
        named = await apart(size, lambda: [renamed.there(text) for text in texts]) if renamed else texts
        found = await self.server.translated(request, named, sources, target, where="text[{}]", format=form, terms=terms,
                                             sentences="whole" if split in ("0", "false") else None)
        if renamed:
            found = await apart(size, lambda: [[renamed.back(text) for text in each] for each in found])
        ways = [self.languages.through(each, target) for each in sources]
        counts = str(given.get("show_billed_characters")).lower() in ("true", "1")
        return await apart(size, answer, {"translations": [
            {"detected_source_language": base(each), "text": made[0],
             **({"billed_characters": len(text)} if counts else {}), **({"way": way} if way else {})}
            for each, made, text, way in zip(sources, found, texts, ways)]})

    # ---- documents: the client sends one, asks how it is until it is done, and fetches it ----------------------

    async def send(self, request):
        given, name, data = await self.files.received(request)
        for parameter in (*REFUSED, "output_format"):
            if given.get(parameter):
                raise Refused(400, f"{parameter} is not supported")
        target, source = self.languages.code(word(given, "target_lang")), given.get("source_lang")
        source = self.languages.code(source) if source else None
        if source:
            self.languages.find(source, target)
            await self.terms(request, given, source, target)  # refuses bad glossaries now
        owner, progress, held = owner_of(request, given), Progress(), self.files.hold(data)
        waits = sum(each[0] == owner and not each[1].done() for each in self.jobs.values())
        if waits >= WAITING:
            raise Refused(503, f"{WAITING} of your documents wait already", 10)

        async def run():
            with held, self.server.job("/v2/document"):
                made, _, characters, left = await self.files.translated(
                    None, name, data, source, target, lambda source: self.terms(request, given, source, target), progress)
            return self.files.keep(name, made, owner), characters, left

        id = secrets.token_hex(16)
        while len(self.jobs) >= MOST_JOBS:
            self.jobs.pop(next(iter(self.jobs)))[1].cancel()
        self.jobs[id] = owner, asyncio.create_task(run()), progress
        self.jobs[id][1].add_done_callback(lambda task: task.cancelled() or task.exception())  # so asyncio does not log it
        return answer({"document_id": id, "document_key": id})

    def job(self, request, given):
        owner, task, progress = self.jobs.get(request.path_params["id"], (None, None, None))
        if not task or owner != owner_of(request, given) or given.get("document_key") != request.path_params["id"]:
            raise Refused(404, "no such document")
        return task, progress

    async def status(self, request):
        given = await self.server.parameters(request)
        task, progress = self.job(request, given)
        found = {"document_id": request.path_params["id"]}
        if not task.done():
            return answer({**found, **progress.state(self.server.queue)})
        if task.cancelled() or task.exception():
            error = None if task.cancelled() else task.exception()
            message = error.message if isinstance(error, Refused) else "the server failed"
            return answer({**found, "status": "error", "error_message": message})
        return answer({**found, "status": "done", "billed_characters": task.result()[1],
                       **({"notes": task.result()[2]} if task.result()[2] else {})})

    async def result(self, request):
        given = await self.server.parameters(request)
        task, _ = self.job(request, given)
        if not task.done() or task.cancelled() or task.exception():
            raise Refused(503, "the document is not translated")
        return self.files.answer(task.result()[0], owner_of(request, given))

    async def terms(self, request, given, source, target):
        """Returns the Terms of the request's glossaries; the first glossary that has a term wins."""
        ids = given.get("glossary_ids") or ([given["glossary_id"]] if given.get("glossary_id") else [])
        ids = ids.split(",") if isinstance(ids, str) else ids
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids) or len(ids) > MOST_GLOSSARIES:
            raise Refused(400, f"glossary_ids is not a list of at most {MOST_GLOSSARIES} ids")
        if ids:
            self.direct(source, target)
        owner, pair = owner_of(request, given), (base(source), base(target))
        found = [self.glossaries.find(owner, id) for id in ids]
        for glossary in found:
            if pair not in glossary.terms:
                raise Refused(400, f"glossary {glossary.id} has no dictionary from {pair[0]} to {pair[1]}")
        if len(found) < 2:
            return found[0].terms[pair] if found else None
        return await asyncio.to_thread(lambda: Terms({
            key: value for glossary in reversed(found) for key, value in glossary.dictionaries[pair].items()}))

    async def list_languages(self, request):
        given = await self.server.parameters(request)
        if word(given, "type", "source") == "source":
            return answer([{"language": base(code), "name": name(code)} for code in self.languages.into])
        targets = dict.fromkeys(code for pairs in self.languages.into.values() for code in pairs)
        return answer([{"language": code, "name": each, "supports_formality": False} for target in targets
                       for code, each in VARIANTS.get(base(target), {base(target): name(target)}).items()])

    async def usage(self, request):
        await self.server.parameters(request)
        # DeepL's number for an account without a limit
        return answer({"character_count": self.server.metrics.total("characters"), "character_limit": 10 ** 12})

    # ---- glossaries ----------------------------------------------------------------------------------

    async def pairs(self, request):
        await self.server.parameters(request)
        return answer({"supported_languages": [
            {"source_lang": base(source).lower(), "target_lang": base(target).lower()}
            for source, targets in self.languages.into.items() for target, way in targets.items() if len(way) == 1]})

    def direct(self, source, target):
        """Refuses a pair of languages without a model of its own."""
        way = self.languages.through(source, target)
        if way:
            raise Refused(400, f"glossaries need a model from {source} to {target}: the way leads through {way[1]}")

    def dictionary(self, given):
        """Returns (pair, entries) of a dictionary that a client sends."""
        source, target = self.pair(given)
        self.direct(self.languages.code(source), self.languages.code(target))
        return (source, target), read_entries(word(given, "entries"), word(given, "entries_format"))

    @staticmethod
    def pair(given):
        return base(word(given, "source_lang")), base(word(given, "target_lang"))

    def sent(self, given):
        """Returns the dictionaries that a client sends."""
        sent = given.get("dictionaries")
        if not isinstance(sent, list) or not all(isinstance(one, dict) for one in sent):
            raise Refused(400, "dictionaries is not a list of objects")
        pairs = [self.dictionary(one) for one in sent]
        if len(dict(pairs)) < len(pairs):
            raise Refused(400, "dictionaries has a pair of languages twice")
        return dict(pairs)

    async def asked(self, request):
        """Returns the parameters, their owner, and the glossary that the path names."""
        given = await self.server.parameters(request)
        owner = owner_of(request, given)
        return given, owner, self.glossaries.find(owner, request.path_params["id"])

    async def made(self, request, given, dictionaries):
        """Keeps a new glossary and returns it. dictionaries: a function that reads what the client sends."""
        name, owner = named(given), owner_of(request, given)
        return await self.kept(lambda: Glossary(owner, name, dictionaries(given)))

    async def kept(self, make):
        """Keeps the glossary that a function makes of what there is. Both take long if it is large, so a thread does it."""
        async with self.changing:
            return await asyncio.to_thread(lambda: self.glossaries.keep(make()))

    async def create_2(self, request):
        given = await self.server.parameters(request)
        return answer(shown_2(await self.made(request, given, lambda given: dict([self.dictionary(given)]))), 201)

    async def create_3(self, request):
        given = await self.server.parameters(request)
        return answer(shown_3(await self.made(request, given, self.sent)), 201)

    async def list_2(self, request):
        owner = owner_of(request, await self.server.parameters(request))
        return await asyncio.to_thread(lambda: answer({"glossaries": [
            shown_2(one) for one in self.glossaries.of(owner) if len(one.terms) == 1]}))

    async def list_3(self, request):
        owner = owner_of(request, await self.server.parameters(request))
        return await asyncio.to_thread(lambda: answer({"glossaries": list(map(shown_3, self.glossaries.of(owner)))}))

    async def show_2(self, request):
        return answer(shown_2((await self.asked(request))[2]))

    async def show_3(self, request):
        return answer(shown_3((await self.asked(request))[2]))

    async def entries_2(self, request):
        glossary = (await self.asked(request))[2]
        text = await asyncio.to_thread(written_entries, only(glossary)[1])
        return Response(text.encode("utf-8", "replace"), media_type="text/tab-separated-values")

    async def entries_3(self, request):
        given, _, glossary = await self.asked(request)
        pair = self.existing(given, glossary)
        return await asyncio.to_thread(lambda: answer({"dictionaries": [{
            "source_lang": pair[0].lower(), "target_lang": pair[1].lower(), "entries_format": "tsv",
            "entries": written_entries(glossary.dictionaries[pair])}]}))

    def existing(self, given, glossary):
        pair = self.pair(given)
        if pair not in glossary.dictionaries:
            raise Refused(404, f"glossary {glossary.id} has no dictionary from {cut(pair[0])} to {cut(pair[1])}")
        return pair

    async def changed(self, request, change):
        """Keeps a glossary with another name or other dictionaries, both of which change returns, and returns it. change gets the
        parameters, and the glossary as it is when its turn has come."""
        given, owner, glossary = await self.asked(request)

        def make():
            now = self.glossaries.find(owner, glossary.id)
            return Glossary(owner, *change(given, now), now.id, now.created)
        return given, await self.kept(make)

    async def change(self, request):
        def change(given, glossary):
            dictionaries = dict(glossary.dictionaries)
            for pair, entries in self.sent(given).items() if "dictionaries" in given else ():
                dictionaries[pair] = {**dictionaries.get(pair, {}), **entries}
            return named(given, glossary.name), dictionaries
        return answer(shown_3((await self.changed(request, change))[1]))

    async def replace(self, request):
        def change(given, glossary):
            return glossary.name, dict([*glossary.dictionaries.items(), self.dictionary(given)])
        given, glossary = await self.changed(request, change)
        pair = self.pair(given)
        return answer(shown_dictionary(pair, glossary.dictionaries[pair]))

    async def delete(self, request):
        self.glossaries.drop((await self.asked(request))[2])
        return Response(status_code=204)

    async def delete_dictionary(self, request):
        def change(given, glossary):
            left = dict(glossary.dictionaries)
            del left[self.existing(given, glossary)]
            return glossary.name, left
        await self.changed(request, change)
        return Response(status_code=204)


class Renamed:
    """The tags that a client wants to end sentences (splitting_tags), or not (non_splitting_tags). While a text is translated,
    they have the names of HTML's elements that do so. In XML, other elements end a sentence as the structure says, so a
    splitting tag keeps its name and gets a <br/> beside it. Without outline_detection, all other elements are inside sentences."""

    def __init__(self, given, tags):
        is_flat = tags == "xml" and str(given.get("outline_detection")).lower() in ("0", "false")
        self.is_xml, self.other = tags == "xml" and not is_flat, "span" if is_flat else None
        self.mark, self.names = f"t{secrets.token_hex(8)}", {}
        for parameter, name in zip(TAGS, ("div", "span")):
            tags = given.get(parameter) or []
            tags = [tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags
            if not isinstance(tags, list) or not all(isinstance(tag, str) and re.fullmatch(r"[^\W\d][\w:.-]{0,99}", tag) for tag in tags) or len(tags) > MOST_TAGS:
                raise Refused(400, f"{parameter} is not a list of at most {MOST_TAGS} names of tags")
            self.names.update(dict.fromkeys(tags, name))

    def there(self, text):
        end = f'<br {self.mark}=""/>'

        def renamed(found):
            name = self.names.get(found[2], self.other)
            if not name:
                return found[0]
            if name == "div" and self.is_xml:
                return found[0] + end if found[1] else end + found[0]
            if name == "div" and found[3].endswith("/"):
                name = "br"  # which ends a sentence without having content
            return f'<{found[1]}{name} {self.mark}="{found[2]}"{found[3]}>'
        if not self.names and not self.other:
            return text
        made = re.sub(r"""<(/?)([^\W\d][\w:.-]*)((?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?)>""", renamed, text)
        around = self.mark if self.is_xml else "div"  # the first tag says whether the names are HTML's
        return f'<{around} {self.mark}="">{made}</{around} {self.mark}="">'

    def back(self, text):
        text = re.sub(rf'</?(?:div|{self.mark}) {self.mark}="">|<br {self.mark}=""/>', "", text)
        return re.sub(rf'<(/?)(?:div|span|br) {self.mark}="([^"]*)"', r"<\1\2", text)


def base(code):
    """Returns DeepL's code of a language without its variant: "EN" of "en-US" and of "eng_Latn"."""
    return base_language(code).upper()


def owner_of(request, given):
    """Returns who owns a client's glossaries: its API key, as a hash, because files have it."""
    key = key_of(request, given)
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest() if isinstance(key, str) else ""


def named(given, default=None):
    """Returns the name of a glossary that a client sends."""
    name = word(given, "name", default)
    if len(name.encode("utf-8", "replace")) > MOST_OF_A_NAME or CONTROLS.search(name):
        raise Refused(400, f"name has more than {MOST_OF_A_NAME} bytes, or control characters")
    return name


def only(glossary):
    """Returns (pair, entries) of a glossary with one dictionary."""
    if len(glossary.dictionaries) != 1:
        raise Refused(400, f"glossary {glossary.id} has {len(glossary.dictionaries)} dictionaries: /v3/glossaries shows them")
    return next(iter(glossary.dictionaries.items()))


def shown_dictionary(pair, entries):
    return {"source_lang": pair[0].lower(), "target_lang": pair[1].lower(), "entry_count": len(entries)}


def shown_2(glossary):
    return {"glossary_id": glossary.id, "name": glossary.name, "ready": True, "creation_time": glossary.created,
            **shown_dictionary(*only(glossary))}


def shown_3(glossary):
    return {"glossary_id": glossary.id, "name": glossary.name, "creation_time": glossary.created,
            "dictionaries": [shown_dictionary(*each) for each in glossary.dictionaries.items()]}
