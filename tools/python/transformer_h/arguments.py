"""Checks what a program passes. An argument of a wrong type or size never gets to the library, and the message names it."""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Mapping
from operator import index
from typing import Any, Iterable, NoReturn


def wrong_type(name: str, value: Any, expected: str) -> NoReturn:
    raise TypeError(f"{name} is {type(value).__name__}, expected {expected}")


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    """Returns the known word that is most like a mistyped one, as the end of a message, or ""."""
    words = list(known)
    lower = {each.lower(): each for each in reversed(words)}
    if not isinstance(word, str) or len(word) > 40:  # its comparison takes time in proportion to the square of its length
        return ""
    found = difflib.get_close_matches(word.lower(), lower, 1, 0.6 if len(word) > 5 else 0.5)
    return f"; did you mean {lower[found[0]]!r}?" if found and lower[found[0]] != word else ""


def check_integer(name: str, value: Any, least: int = -2 ** 31, most: int = 2 ** 31 - 1) -> int:
    try:
        number = index(value)
    except TypeError:
        wrong_type(name, value, "int")
    if isinstance(value, bool):
        wrong_type(name, value, "int")
    if not least <= number <= most:
        raise ValueError(f"{name} is {shown(number)}, expected {least} to {most}")
    return number


def shown(number: int) -> str:
    """Returns the number, if it is one that Python writes in decimal."""
    return str(number) if number.bit_length() < 1000 else f"a number of {number.bit_length()} bits"


def check_number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray, bool)) or not hasattr(type(value), "__float__"):
        wrong_type(name, value, "float")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float") from None


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):  # numpy's
        wrong_type(name, value, "bool")
    return bool(value)


def check_choice(name: str, value: Any, choices: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        wrong_type(name, value, "str")
    if value not in choices:
        raise ValueError(f"{name} is {value[:40]!r}, expected {' or '.join(choices)}{did_you_mean(value, choices)}")
    return choices[value]


def check_call(name: str, value: Any, expected: str) -> Any:
    """Returns a function, or None."""
    if value is not None and not callable(value):
        wrong_type(name, value, expected)
    return value


def check_path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not isinstance(path := os.fspath(value), str):
        wrong_type(name, value, "str or os.PathLike")
    check_no_nul(name, os.fsencode(path))
    return path


def check_text(name: str, value: Any) -> bytes:
    """Returns UTF-8. A lone surrogate becomes bytes that the library refuses, and names."""
    if not isinstance(value, str):
        wrong_type(name, value, "str")
    return value.encode("utf-8", "surrogatepass")


def check_texts(name: str, value: Any) -> list[bytes]:
    return [check_text(f"{name}[{i}]", each) for i, each in enumerate(check_list(name, value, "a list of str"))]


def check_text_or_texts(name: str, value: Any) -> tuple[bool, list[bytes]]:
    """Returns whether it is one text, and the texts."""
    if isinstance(value, str):
        return True, [check_text(name, value)]
    return False, [check_text(f"{name}[{i}]", each)
                   for i, each in enumerate(check_list(name, value, "str or a list of str"))]


def check_for_each_text(name: str, value: Any, is_one: bool, n: int) -> list[bytes]:
    """Returns one text for each text that is translated."""
    found = check_text_or_texts(name, value)[1] if is_one else check_texts(name, value)
    return check_count(name, found, n)


def check_count(name: str, found: list[Any], n: int) -> list[Any]:
    if len(found) != n:
        raise ValueError(f"{len(found)} {name}{'es' if name == 'prefix' else 's'} for {n} texts")
    return found


def check_languages(source_language: Any, target_language: Any) -> tuple[bytes | None, bytes | None]:
    """Returns the codes of two languages as the library takes them, where they are given."""
    codes: list[bytes | None] = []
    for name, value in (("source_language", source_language), ("target_language", target_language)):
        codes.append(None if value is None else check_no_nul(name, check_text(name, value)))
    return codes[0], codes[1]


def check_no_nul(name: str, data: bytes) -> bytes:
    if b"\0" in data:
        raise ValueError(f"{name} has a NUL at byte {data.index(0)}")
    return data


def check_list(name: str, value: Any, expected: str) -> list[Any]:
    if isinstance(value, (set, frozenset)):
        wrong_type(name, value, f"{expected}: a set has no order")
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not hasattr(type(value), "__iter__"):
        wrong_type(name, value, expected)
    try:
        return list(iter(value))  # what its __len__ says does not matter
    except TypeError:  # an array without dimensions
        wrong_type(name, value, expected)


def check_rows(name: str, value: Any, one: bool = False) -> list[list[int]]:
    """Returns rows of ids. one: messages name the only row like the argument."""
    places = (f"{name}" if one else f"{name}[{i}]" for i in itertools.count())
    return [[check_integer(f"{place}[{k}]", each) for k, each in enumerate(check_list(place, row, "a row of ids"))]
            for place, row in zip(places, check_list(name, value, "rows of ids"))]


def check_mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Returns a dict whose keys are str, or an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        wrong_type(name, value, "dict")
    for key in value:
        if not isinstance(key, str):
            wrong_type(f"a key of {name}", key, "str")
    return value
