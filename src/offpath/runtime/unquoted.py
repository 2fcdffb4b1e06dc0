"""Texts of foreign errors without the values that they are about, which may be secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

_LEAST: Final = 4
"""Characters of a value that is taken out: shorter ones are parts of ordinary words."""
_MOST: Final = 10_000
"""Values that are looked at: an input may have a million, and an error is to be told soon."""
_PLACE: Final = " - at `"


def unquoted(text: str, given: Any) -> str:  # noqa: ANN401 - values of any type
    """The text with ``…`` for each value of ``given`` in it. The place of the error stays.

    A validator of the user's says what it likes of a value, and often quotes it.
    """
    said, sign, place = text.partition(_PLACE)
    # the longest first: another may be a part of it
    for value in sorted(set(_texts(given)), key=len, reverse=True):
        said = said.replace(value, "…")
    return said + sign + place


def unquoted_json(text: str, given: str | bytes) -> str:
    """The same for the values in JSON; what is not JSON is not looked into."""
    try:
        values = msgspec.json.decode(given)
    except (msgspec.DecodeError, RecursionError):
        values = None
    return unquoted(text, values)


def _texts(given: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """The values in it as they are written, and as Python shows them."""
    left, seen = [given], set[int]()
    while left and len(seen) < _MOST:
        value = left.pop()
        if id(value) in seen:  # it may hold itself
            continue
        seen.add(id(value))
        if isinstance(value, str):
            yield from (one for one in (value, repr(value)[1:-1]) if len(one) >= _LEAST)
        elif isinstance(value, int | float):
            if len(str(value)) >= _LEAST and not isinstance(value, bool):
                yield str(value)
        else:
            left.extend(_parts(value))


def _parts(value: Any) -> Iterable[Any]:  # noqa: ANN401 - as above
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, msgspec.Struct):
        return (getattr(value, name) for name in value.__struct_fields__)
    return getattr(value, "__dict__", {}).values()
