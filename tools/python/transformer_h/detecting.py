"""Finds out which language a text is in: pip install "transformer-h[detect]" installs py3langid, which does it."""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from typing import Any, Iterable

from .arguments import check_list, check_text
from .extras import missing_package

LONGEST = 1000  # characters of a text that are examined

# ISO 639-3 codes, which NLLB's languages have, and the codes of the same languages elsewhere
_SHORT = dict(pair.split("=") for pair in (
    "afr=af als=sq amh=am arb=ar asm=as azj=az bak=ba bel=be ben=bn bos=bs bul=bg cat=ca ces=cs cmn=zh cym=cy dan=da deu=de "
    "dzo=dz ell=el eng=en epo=eo est=et eus=eu fao=fo fin=fi fra=fr gaz=om gla=gd gle=ga glg=gl guj=gu hat=ht hau=ha heb=he "
    "hin=hi hrv=hr hun=hu hye=hy ibo=ig ind=id isl=is ita=it jav=jv jpn=ja kan=kn kat=ka kaz=kk khk=mn khm=km kin=rw kir=ky "
    "kmr=ku kor=ko lao=lo lin=ln lit=lt ltz=lb lug=lg lvs=lv mal=ml mar=mr mkd=mk mlt=mt mya=my nld=nl nno=nn nob=nb npi=ne "
    "oci=oc ory=or pan=pa pbt=ps pes=fa plt=mg pol=pl por=pt quy=qu ron=ro rus=ru san=sa sin=si slk=sk slv=sl sna=sn som=so "
    "sot=st spa=es srp=sr swe=sv swh=sw tam=ta tat=tt tel=te tgk=tg tgl=tl tha=th tuk=tk tur=tr uig=ug ukr=uk urd=ur uzn=uz "
    "vie=vi xho=xh yor=yo zho=zh zsm=ms zul=zu fil=tl iw=he in=id no=nb zt=zh").split())


def base_language(code: str) -> str:
    """Returns the language of a code without script and country, with two letters if it has such a code:
    "zh" of "zh-Hans" and of "zho_Hant"."""
    check_text("code", code)
    base = re.split("[-_]", code)[0].lower()
    return _SHORT.get(base, base)


@lru_cache(maxsize=1)
def _full() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise missing_package("detect_language", "py3langid", "detect") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=64)
def _among(bases: tuple[str, ...]) -> Any:
    identifier = copy.copy(_full())  # shares the large tables
    identifier.set_languages(bases)
    return identifier


def detect_language(text: str, languages: Iterable[str] | None = None) -> list[tuple[str, float]]:
    """Returns languages and their probabilities, the most probable first. languages are the codes that come
    into question, in any form ("zh", "zh_CN", "zho_Hans"); the result has them as they are given. A language
    that the detector does not know is left out, and of several codes of one language the first is returned.
    None means all languages that the detector knows. A text without letters gets equal probabilities."""
    check_text("text", text)
    if languages is not None:
        # a dict has an order, and so its keys are as good as a list
        languages = check_list("languages", list(languages) if isinstance(languages, dict) else languages, "a list of str")
        for i, code in enumerate(languages):
            check_text(f"languages[{i}]", code)
        if not languages:
            raise ValueError("languages is an empty list")
    labels = ["nb" if label == "no" else label for label in _full().labels if label != "zxx"]  # zxx: no language
    given = {base_language(code): code for code in reversed(labels if languages is None else languages)}
    known = [base for base in labels if base in given]
    if not known:
        raise ValueError(f"none of these languages can be detected: {' '.join(given.values())}")
    ranked = _among(tuple("no" if base == "nb" else base for base in known)).rank(text[:LONGEST])
    return [(given["nb" if base == "no" else base], float(p)) for base, p in ranked]
