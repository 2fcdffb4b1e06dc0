"""Positions in a table of the user's own: values of its order's columns, kept as text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from offpath.errors import InvalidArgument

Position: TypeAlias = Any
"""An int, a text, a float, a ``Decimal``, a ``datetime``, a ``date``, a ``UUID``, or a tuple."""

_WRITE: Final[dict[type, tuple[str, Callable[[Any], str]]]] = {
    int: ("int", str),
    str: ("text", str),
    float: ("float", repr),
    Decimal: ("decimal", str),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    UUID: ("uuid", str),
}
_READ: Final[dict[str, Callable[[str], Any]]] = {
    "int": int,
    "text": str,
    "float": float,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "uuid": UUID,
}
_TUPLE: Final = "tuple"


def encode(position: Position) -> str:
    """The text that :func:`decode` turns into an equal position.

    Raises ``InvalidArgument`` for a value that is not comparable or does not come back equal.
    """
    if type(position) is tuple and position:
        return json.dumps([_TUPLE, *(_written(one) for one in position)])
    return json.dumps(_written(position))


def _written(value: object) -> list[str]:
    kind = _WRITE.get(type(value))
    unordered = isinstance(value, float | Decimal) and not math.isfinite(value)
    if kind is None or unordered:
        raise InvalidArgument(
            "a position is an int, text, float, Decimal, datetime, date or UUID, or a tuple of "
            f"them, never null, and not {type(value).__name__}: order by columns that are not null"
        )
    name, write = kind
    return [name, write(value)]


def decode(text: str) -> Position:
    """The position that was encoded. Raises ``InvalidArgument`` for another text."""
    try:
        kind, *values = json.loads(text)
        if kind == _TUPLE:
            return tuple(_READ[name](value) for name, value in values)
        (value,) = values
        return _READ[kind](value)
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise InvalidArgument(
            f"the cursor's position {text[:60]!r} cannot be read: another program wrote it; give "
            "the router another name, which begins where its start says"
        ) from error


def follows(later: Position, earlier: Position) -> bool | None:
    """Compare two positions: True for a later one, None when only the database can tell.

    Python orders text by code points, and a database by its collation.
    """
    pairs = zip(_parts(later), _parts(earlier), strict=False)
    for mine, its in pairs:
        if mine == its:
            continue
        if isinstance(mine, str) or type(mine) is not type(its):
            return None
        try:
            return bool(mine > its)
        except TypeError:  # a time with a zone and one without
            return None
    return False


def _parts(position: Position) -> tuple[Any, ...]:
    return position if isinstance(position, tuple) else (position,)
