"""Arguments and results as Celery's JSON has them: dates and decimals in marked objects."""

# ruff: noqa: ANN401 - values of any type

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

_KINDS: Final[tuple[tuple[type, str, Callable[[Any], str], Callable[[str], Any]], ...]] = (
    # datetime before date: it is one
    (datetime, "datetime", datetime.isoformat, datetime.fromisoformat),
    (date, "date", date.isoformat, lambda text: datetime.fromisoformat(text).date()),
    (time, "time", time.isoformat, time.fromisoformat),
    (Decimal, "decimal", str, Decimal),
    (UUID, "uuid", lambda value: value.hex, UUID),
)
_READERS: Final[dict[str, Callable[[str], Any]]] = {
    **{mark: read for _, mark, _, read in _KINDS},
    "bytes": str.encode,
    "base64": base64.b64decode,
}
_MARKED: Final = {"__type__", "__value__"}


def stored(value: Any) -> Any:
    """A value as JSON has it; what JSON has not is left for the codec to refuse."""
    if isinstance(value, dict):
        return {key: stored(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [stored(one) for one in value]
    if isinstance(value, bytes):
        return _bytes(value)
    for kind, mark, write, _ in _KINDS:
        if isinstance(value, kind):
            return {"__type__": mark, "__value__": write(value)}
    return value


def revived(value: Any) -> Any:
    """The value that was stored."""
    if isinstance(value, dict):
        if value.keys() == _MARKED and (read := _READERS.get(value["__type__"])) is not None:
            return read(value["__value__"])
        return {key: revived(one) for key, one in value.items()}
    if isinstance(value, list):
        return [revived(one) for one in value]
    return value


def _bytes(value: bytes) -> dict[str, str]:
    try:
        return {"__type__": "bytes", "__value__": value.decode()}
    except UnicodeDecodeError:
        return {"__type__": "base64", "__value__": base64.b64encode(value).decode()}
