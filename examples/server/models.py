"""The models, their languages, and which model translates a pair of languages."""

import re

from transformer_h import Model, detect_language
from transformer_h.detecting import base_language

NAMES = dict(pair.split("=") for pair in (
    "af=Afrikaans am=Amharic ar=Arabic as=Assamese az=Azerbaijani be=Belarusian bg=Bulgarian "
    "bn=Bengali bs=Bosnian ca=Catalan ceb=Cebuano cs=Czech cy=Welsh da=Danish de=German el=Greek "
    "en=English eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish fo=Faroese "
    "fr=French fy=Frisian ga=Irish gd=Gaelic gl=Galician gu=Gujarati ha=Hausa he=Hebrew hi=Hindi "
    "hr=Croatian ht=Haitian hu=Hungarian hy=Armenian id=Indonesian ig=Igbo is=Icelandic it=Italian "
    "ja=Japanese jv=Javanese ka=Georgian kk=Kazakh km=Khmer kn=Kannada ko=Korean ku=Kurdish "
    "ky=Kyrgyz la=Latin lb=Luxembourgish lo=Lao lt=Lithuanian lv=Latvian mg=Malagasy mk=Macedonian "
    "ml=Malayalam mn=Mongolian mr=Marathi ms=Malay mt=Maltese my=Burmese nb=Norwegian ne=Nepali "
    "nl=Dutch nn=Nynorsk no=Norwegian oc=Occitan or=Odia pa=Punjabi pl=Polish ps=Pashto "
    "pt=Portuguese ro=Romanian ru=Russian rw=Kinyarwanda sd=Sindhi si=Sinhala sk=Slovak "
    "sl=Slovenian so=Somali sq=Albanian sr=Serbian su=Sundanese sv=Swedish sw=Swahili ta=Tamil "
    "te=Telugu tg=Tajik th=Thai tk=Turkmen tl=Tagalog tr=Turkish tt=Tatar ug=Uyghur uk=Ukrainian "
    "ur=Urdu uz=Uzbek vi=Vietnamese xh=Xhosa yi=Yiddish yo=Yoruba zh=Chinese zu=Zulu").split())


class Refused(Exception):
    """Refuses a request with a status, a message and, optionally, the seconds after which to retry."""

    def __init__(self, status, message, retry_after=None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


class Translator:
    """Holds a model with its source and target languages."""

    def __init__(self, argument, options):
        stated = re.fullmatch(r"([\w-]+)(?::([\w-]+))?=(.+)", argument)
        source, target, path = stated.groups() if stated else (None, None, argument)
        self.model = Model(path, weights=options.weights, map=options.map)
        config = self.model.config
        self.told_source = config["src_language"] == "source"
        self.told_target = config["src_language"] == "target" or bool(config["tgt_language_forced"])
        for side, code, told in (("source", source, self.told_source),
                                 ("target", target, self.told_target)):
            if bool(code) == told:
                raise ValueError(f"{path}: its {side} language is " + (
                    f"the request's to say, not {code}" if told else
                    f"to be stated, as in de:en={path}"))
        self.sources = list(config["languages"]) if self.told_source else [source]
        self.targets = list(config["languages"]) if self.told_target else [target]
        self.terms = {}  # (source, target): Terms
        self.model.tokenize("", **self.told(self.sources[0], self.targets[0]))  # fails without a tokenizer

    def told(self, source, target):
        return {"source_language": source if self.told_source else None,
                "target_language": target if self.told_target else None}


class Languages:
    """Finds the way from a language to another: the first translator that was given for the pair; or two
    translators, if none translates the pair."""

    def __init__(self, translators):
        self.into = {}  # source: {target: [(translator, its source, its target), one or two of them]}
        for one in translators:
            for source in one.sources:
                pairs = self.into.setdefault(source, {})
                for code in one.targets:
                    if code != source:
                        pairs.setdefault(code, [(one, source, code)])
        direct = {source: dict(pairs) for source, pairs in self.into.items()}
        for source, pairs in direct.items():
            if all(code in pairs or code == source for targets in direct.values() for code in targets):
                continue
            for middle in sorted(pairs, key=lambda code: base_language(code) != "en"):  # through English, if possible
                for code, second in direct.get(middle, {}).items():
                    if code != source:
                        self.into[source].setdefault(code, pairs[middle] + second)
        self.codes = dict.fromkeys(self.into)
        self.codes.update((code, None) for pairs in self.into.values() for code in pairs)
        self.detects = True
        try:
            detect_language("", ["en"])  # loads the detector
        except ImportError as e:
            self.detects, self.no_detector = False, str(e)

    def list(self):
        return [{"code": code, "name": name(code), "targets": list(self.into.get(code, ()))}
                for code in self.codes]

    def code(self, given):
        """Returns the models' code of a language: "deu_Latn" or "de" of "DE-AT", if a model has it. A code
        that no model has is returned as it is."""
        if given in self.codes:
            return given
        plain, written = given.lower().replace("_", "-"), script(given)
        same = [code for code in self.codes if base_language(code) == base_language(given) and
                (not written or script(code) in (None, written))]
        return min(same, key=lambda code: code.lower().replace("_", "-") != plain, default=given)

    def detect(self, text, target=None):
        """Returns (code, confidence from 0 to 100) of the languages that may be the text's, the most
        probable first. With a target these are its sources. If there is only one, its confidence is 0,
        because the text is not examined."""
        if target is not None and target not in self.codes:
            raise Refused(400, f"{cut(target)} is not supported")
        sources = [code for code, pairs in self.into.items() if target is None or target in pairs]
        if len(sources) == 1 and (target is not None or not self.detects):
            return [(sources[0], 0)]
        if not self.detects:
            raise Refused(400, f"{self.no_detector}; without it source is one of {' '.join(sources)}")
        try:
            found = detect_language(text, self.codes if target is None else sources)
        except ValueError as e:
            raise Refused(400, f"{e}; source is one of {' '.join(sources)}") from None
        return [(code, round(100 * p, 1)) for code, p in found]

    def find(self, source, target):
        for code in (source, target):
            if code not in self.codes:
                raise Refused(400, f"{cut(code)} is not supported")
        found = self.into.get(source, {}).get(target)
        if not found:
            raise Refused(400, f"{name(target)} ({target}) is not available as a target language "
                               f"from {name(source)} ({source})")
        return found

    def through(self, source, target):
        """Returns the codes on the way from one language to another, if there is one between them."""
        way = self.find(source, target)
        return [source, *(target for _, _, target in way)] if len(way) > 1 else None


def name(code):
    return NAMES.get(base_language(code), code)


def script(code):
    """Returns "hant" of "zh-Hant"."""
    found = re.search(r"[-_]([a-z]{4})(?![a-z])", code.lower())
    return found and found[1]


def cut(text):
    return text if len(text) <= 32 else text[:32] + "..."
