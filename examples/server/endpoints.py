"""The table of a route: what it does, takes and answers. GET /spec makes a description in OpenAPI of the table, and GET /docs a page."""

import html
import json
from typing import Any, Callable, NamedTuple

from transformer_h import Document, __version__

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
TEXTS = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
OBJECT = {"type": "object"}


def some(schema):
    return {"type": "array", "items": schema}


# name: (schema, what it is). A field has the same meaning wherever it is, except source_lang and name of a glossary.
FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    # what a client sends
    "q": (TEXTS, "a text, or a list of texts"),
    "source": (TEXT, "the language of the text, or auto"),
    "target": (TEXT, "the language to translate into"),
    "format": ({"type": "string", "enum": list(Document.FORMATS)}, "what the text is; text by default"),
    "alternatives": ({"type": "integer", "minimum": 0}, "how many more translations of each text there are to be"),
    "sentences": ({"type": "string", "enum": ["split", "whole"]}, "split the text into sentences, or translate it as one"),
    "plain": (FLAG, "true: labels, brackets and the like are given to the model, too"),
    "api_key": (TEXT, "an API key, if the server has some"),
    "file": ({"type": "string", "contentMediaType": "application/octet-stream"}, "the document, with its name"),
    "progress": (TEXT, "an id that you choose, of 16 to 64 digits, letters and -: GET /progress/{id} says how far the document is"),
    "text": (TEXTS, "a text, or a list of texts"),
    "source_lang": (TEXT, "the language of the text; found out if it is left out"),
    "target_lang": (TEXT, "the language to translate into"),
    "tag_handling": ({"type": "string", "enum": ["html", "xml"]}, "the texts have tags"),
    "splitting_tags": (TEXTS, "tags that end a sentence"),
    "non_splitting_tags": (TEXTS, "tags that do not end a sentence"),
    "outline_detection": (FLAG, "false: only splitting_tags end a sentence"),
    "split_sentences": ({"type": "string", "enum": ["0", "1", "nonewlines"]}, "whether texts are split into sentences, also at line ends"),
    "formality": ({"type": "string", "enum": ["default", "prefer_more", "prefer_less"]}, "has no effect: no model has it"),
    "show_billed_characters": (FLAG, "count the characters of each text"),
    "glossary_id": (TEXT, "the glossary to use"),
    "glossary_ids": (TEXTS, "up to five glossaries to use; the first one that has a term wins"),
    "document_key": (TEXT, "what the answer to the upload has"),
    "type": ({"type": "string", "enum": ["source", "target"]}, "which languages; source by default"),
    "name": (TEXT, "the name of a language or a glossary; a glossary's has at most 1,024 bytes and no control characters"),
    "entries": (TEXT, "the terms, one on a line"),
    "entries_format": ({"type": "string", "enum": ["tsv", "csv"]}, "what is between a source and its target: a TAB or a comma"),
    "dictionaries": (some(OBJECT), "objects with source_lang, target_lang, entries and entries_format"),
    # what the server answers
    "translatedText": (TEXTS, "the translation of each text"),
    "detectedLanguage": ({}, "language and confidence (0 to 100) of each text, if source is auto"),
    "way": ({}, "the languages on the way, if it leads through another one"),
    "counts": (OBJECT, "how many sentences stay as they are (left), were divided, or have unknown tokens; only if there are some"),
    "translatedFileUrl": (TEXT, "where the translation can be fetched for ten minutes"),
    "notes": (some(TEXT), "what stays as it is"),
    "translations": (some(OBJECT), "text and detected_source_language of each text"),
    "document_id": (TEXT, "the document"),
    "status": (TEXT, "queued, translating, done or error"),
    "seconds_remaining": (NUMBER, "how long the translation takes at the rate it had so far"),
    "sentences_done": (NUMBER, "how many of its sentences are translated"),
    "billed_characters": (NUMBER, "the characters of the document"),
    "error_message": (TEXT, "why the document is not translated"),
    "character_count": (NUMBER, "the characters that the server has translated since it started"),
    "character_limit": (NUMBER, "a number that is never reached"),
    "supported_languages": (some(OBJECT), "source_lang and target_lang of each pair"),
    "glossaries": (some(OBJECT), "the glossaries of this API key"),
    "ready": (FLAG, "true"),
    "creation_time": (TEXT, "when the glossary was made"),
    "entry_count": (NUMBER, "how many terms there are"),
    "keyRequired": (FLAG, "whether requests need an API key"),
    "charLimit": (NUMBER, "the most characters of a request"),
    "supportedFilesFormat": (some(TEXT), "the formats of documents"),
    "language": ({}, "a language, or the first pair of languages"),
    "confidence": ({"type": "number"}, "how likely the language is, from 0 to 100"),
    "code": (TEXT, "a language"),
    "targets": (some(TEXT), "into which languages it can be translated"),
    "supports_formality": (FLAG, "false"),
    "rate": ({"type": "string", "const": "16000"}, "samples a second"),
    "task": ({"type": "string", "enum": ["transcribe", "translate"]}, "translate: into English"),
    "prompt": (TEXT, "text as if heard before the sound"),
    "id": (TEXT, "an id of the sound that the speaker chooses, of 16 to 64 digits, letters, _ and -, so that others can follow"),
    **{name: ({"type": "number"}, "see the package's Model.listen") for name in ("compression", "log_prob", "silence", "vad")},
}


class Endpoint(NamedTuple):
    """A route. takes and gives name its FIELDS, with ! if a field must be there. gives may be a list, whose items have the fields.
    kind is the media type of the answer."""

    path: str
    method: str
    run: Callable[..., Any]
    about: str = ""  # of a route that is no part of the API: nothing
    takes: str = ""
    gives: "str | list[str]" = ""
    kind: str = "application/json"
    status: int = 200
    is_upload: bool = False  # the form has a file


def object_of(names):
    words = names.split()
    required = [word[:-1] for word in words if word.endswith("!")]
    return {"type": "object", "properties": {word.rstrip("!"): {**FIELDS[word.rstrip("!")][0], "description": FIELDS[word.rstrip("!")][1]}
                                             for word in words}, **({"required": required} if required else {})}


def operation(one, has_keys):
    """Returns the description of a route in OpenAPI."""
    name = f"{one.method.lower()}{one.path.replace('/', '_').replace('{', '').replace('}', '').replace('.', '_')}"
    schema = {"type": "array", "items": object_of(one.gives[0])} if isinstance(one.gives, list) else object_of(one.gives)
    content = {one.kind: {"schema": schema if one.kind == "application/json" else TEXT}}
    wrong = object_of("")
    wrong["properties"]["message" if one.path.startswith(("/v2/", "/v3/")) else "error"] = {**TEXT, "description": "what is wrong"}
    if one.status == 101:
        content = {}
    made = {"operationId": name, "summary": one.about, "responses": {
        str(one.status): {"description": "the answer", **({"content": content} if content and one.status != 204 else {})},
        "default": {"description": "what is wrong", "content": {"application/json": {"schema": wrong}}}}}
    places = [{"name": part[1:-1], "in": "path", "required": True, "schema": TEXT}
              for part in one.path.split("/") if part.startswith("{")]
    fields = object_of(one.takes)
    if one.method in ("GET", "DELETE"):
        places += [{"name": key, "in": "query", "required": key in fields.get("required", ()), "schema": schema,
                    "description": schema["description"]} for key, schema in fields["properties"].items()]
    elif one.takes:
        kinds = ["multipart/form-data"] if one.is_upload else [
            "application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
        made["requestBody"] = {"required": True, "content": {kind: {"schema": fields} for kind in kinds}}
    if places:
        made["parameters"] = places
    if has_keys and (one.takes or one.path == "/metrics" or one.path.startswith(("/v2/", "/v3/"))):
        made["security"] = [{"parameter": []}, {"header": []}]
    return made


def spec(endpoints, has_keys):
    """Returns the description of the routes in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        if one.about:
            paths.setdefault(one.path, {})[one.method.lower()] = operation(one, has_keys)
    made = {"openapi": "3.1.0", "info": {"title": "transformer.h", "version": __version__, "description": (
        "Translates texts and documents. The routes are LibreTranslate's and DeepL's, so their clients can use the server.")},
        "paths": paths}
    if has_keys:
        made["components"] = {"securitySchemes": {
            "parameter": {"type": "apiKey", "in": "query", "name": "api_key"},
            "header": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "DeepL-Auth-Key, a space, and the key"}}}
    return made


def page(described):
    """Returns a page about the routes, which needs no script."""
    def cells(*texts):
        return "<tr>" + "".join(f"<td>{text}" for text in texts)

    def fields(schema):
        must = schema.get("required", ())
        return "".join(cells(f"<code>{html.escape(name)}</code>", "needed" if name in must else "",
                             html.escape(each.get("description", "")), html.escape(", ".join(each.get("enum", ()))))
                       for name, each in schema.get("properties", {}).items())

    out = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>API</title>"
           "<style>body{font:16px/1.5 sans-serif;max-width:60em;margin:auto;padding:1em;color-scheme:light dark}"
           "td{padding:0 1em 0 0;vertical-align:top}summary{cursor:pointer}</style>"
           f"<h1>transformer.h {html.escape(described['info']['version'])}</h1><p>{html.escape(described['info']['description'])} "
           "<a href=spec>The same in OpenAPI</a>."]
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            sent = one.get("requestBody", {}).get("content", {})
            places = {"properties": {each["name"]: each["schema"] for each in one.get("parameters", ())},
                      "required": [each["name"] for each in one.get("parameters", ()) if each["required"]]}
            given = next(({status: each.get("content", {})} for status, each in one["responses"].items() if status != "default"))
            schema = next((each["schema"] for each in next(iter(given.values())).values()), {})
            out.append(f"<details><summary><b>{method.upper()}</b> <code>{html.escape(path)}</code> {html.escape(one['summary'])}"
                       f"</summary><table>{fields(places)}{fields(next(iter(sent.values()))['schema']) if sent else ''}</table>"
                       f"<p>Body: {', '.join(sent) or 'none'}. Status {next(iter(given))}:"
                       f"<table>{fields(schema.get('items', schema))}</table></details>")
    return "\n".join(out)


def described(endpoints, has_keys):
    """Returns the bytes of /spec and of /docs."""
    made = spec(endpoints, has_keys)
    return json.dumps(made, ensure_ascii=False, indent=1).encode(), page(made).encode()
