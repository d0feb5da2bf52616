"""Which plural forms languages have: the categories of CLDR, and the rules of gettext and Qt."""

from __future__ import annotations

import gettext
import re
from typing import Callable

from .languages import language_tag

CATEGORIES = ("zero", "one", "two", "few", "many", "other")
# Categories of CLDR for whole numbers, where they are not "one other"
_CLDR = {code: kinds.split() for kinds, codes in (
    ("other", "bo dz id ig ja jv km ko lo ms my su th vi yo yue zh"),
    ("zero one other", "ksh lag lv prg"),
    ("one two other", "he iu naq sat se sma smj smn sms"),
    ("one two few other", "dsb gd hsb sl"),
    ("one few other", "bs hr mo ro sh shi sr"),
    ("one many other", "ca es fr it pt"),
    ("one few many other", "be cs lt pl ru sk uk"),
    ("one two few many other", "br ga gv mt"),
    ("zero one two few many other", "ar cy kw")) for code in codes.split()}
_SLAVIC = "(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)"
# The header Plural-Forms of gettext, where it is not that of English
_GETTEXT = {code: (n, rule) for n, rule, codes in (
    (1, "0", "bo dz id ja jv km ko lo ms my su th vi yue zh"),
    (2, "(n > 1)", "ak am br fa fil fr hi hy ln mg oc pt_BR tg ti uz wa"),
    (2, "(n%10!=1 || n%100==11)", "is mk"),
    (3, _SLAVIC, "be bs hr ru sr uk"),
    (3, "(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2)", "cs sk"),
    (3, "(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)", "pl"),
    (3, "(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2)", "lt"),
    (3, "(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2)", "lv"),
    (3, "(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2)", "mo ro"),
    (4, "(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3)", "dsb hsb sl"),
    (4, "(n==1 || n==11) ? 0 : (n==2 || n==12) ? 1 : (n > 2 && n < 20) ? 2 : 3", "gd"),
    (4, "(n==1 ? 0 : n==2 ? 1 : (n==8 || n==11) ? 3 : 2)", "cy"),
    (4, "(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : (n%100>10 && n%100<20) ? 2 : 3)", "mt"),
    (5, "(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4)", "ga"),
    (6, "(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5)", "ar")) for code in codes.split()}
# How many forms Qt has, where it is not as many as gettext
_QT = {"cy": 5, "ga": 3, "mk": 3}
_ENOUGH = 1000  # numbers that are tried


def categories(lang: str) -> list[str]:
    """Returns the categories that CLDR has for whole numbers of a language."""
    return _CLDR.get(language_tag(lang)[0], ["one", "other"])


def plural_rule(lang: str) -> tuple[int, str]:
    """Returns the number of forms and the rule of gettext for a language."""
    return _GETTEXT.get(code_of(lang, "_")) or _GETTEXT.get(language_tag(lang)[0], (2, "(n != 1)"))


def qt_forms(lang: str) -> int:
    return _QT.get(language_tag(lang)[0], plural_rule(lang)[0])


def forms_of(n: int, rule: str) -> list[tuple[bool, bool]]:
    """Returns for each form of gettext whether it has the number 1, and whether it has others. Raises ValueError for a rule that
    cannot be read."""
    if len(rule) > 1000 or not re.fullmatch(r"[\dn%!=<>&|?:()+\-*/\s]*", rule):
        raise ValueError("a rule that cannot be read")
    try:
        # gettext of Python reads the rule, and refuses all that is not arithmetic
        choose: Callable[[int], int] = gettext.c2py(rule)
        found = [(choose(i), i) for i in range(_ENOUGH)]
    except (ValueError, RecursionError, ArithmeticError, SyntaxError, MemoryError) as e:
        raise ValueError(str(e)) from None
    ones, others = {form for form, i in found if i == 1}, {form for form, i in found if i != 1}
    return [(i in ones, i in others) for i in range(n)]


def code_of(lang: str, sign: str) -> str:
    """Returns the code of a language with this sign between its parts: en-GB, en_GB, zh-Hant."""
    if not language_tag(lang)[0]:
        return ""
    first, *rest = re.split("[-_]", lang)
    if len(first) == 3 and len(rest) == 1 and len(rest[0]) == 4:  # eng_Latn, as NLLB has it
        return language_tag(lang)[0]
    return sign.join([first.lower(), *(one.title() if len(one) == 4 else one.upper() if len(one) == 2 else one for one in rest)])


def is_same_language(one: str, other: str) -> bool:
    return bool(one) and language_tag(one)[0] == language_tag(other)[0]
