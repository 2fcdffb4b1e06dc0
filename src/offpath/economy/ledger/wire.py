"""Operations as JSON: what the HTTP service, the inbox and the command line read and write.

Names are camelCase, ``kind`` tells which operation it is, amounts are texts (``CREDIT:12.34``),
times ISO 8601 with a zone and durations seconds.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from offpath.economy.ledger.actors import Actor
from offpath.economy.ledger.operations.families import FAMILIES, Operation
from offpath.model.ledger.faults import InvalidAmount, MalformedOperation
from offpath.model.ledger.money import Money

KINDS: Final[dict[str, type[Struct]]] = {
    str(kind.__struct_config__.tag): kind for kind in FAMILIES if issubclass(kind, Struct)
}
"""The operations by their kind."""
SELLERS: Final = "recipients"
"""The field that names who earns from a sale: a shop's to say, where a user asks for it."""


def encode(request: Operation) -> dict[str, Any]:
    """An operation as plain JSON values."""
    document: dict[str, Any] = {"kind": str(request.__struct_config__.tag)}
    for field in fields(request):
        value = getattr(request, field.name)
        if value is not None:
            document[camel(field.name)] = _plain(value)
    return document


def decode(document: object, *, actor: Actor | None = None, completing: bool = False) -> Operation:
    """An operation from JSON values.

    With ``actor``, who asks is known already, and the document must not say it. ``completing``: who
    earns need not be told, since somebody else will say it before it is submitted. Raises
    ``MalformedOperation`` for an unknown kind, for fields that are missing, unknown or of another
    type, and ``InvalidAmount`` for an amount that is not text of that form.
    """
    if not isinstance(document, Mapping):
        raise MalformedOperation("an operation is a JSON object with a kind")
    kind = KINDS.get(str(document.get("kind")))
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise MalformedOperation(f"kind must be one of {known}")
    given = {name: value for name, value in document.items() if name != "kind"}
    if actor is not None and "actor" in given:
        raise MalformedOperation("actor: who asks is known by the credentials; leave it out")
    known_fields = _fields(kind)
    if unknown := sorted(set(given) - set(known_fields)):
        raise MalformedOperation(f"{kind.__name__} has no field {', '.join(map(str, unknown))}")
    values = {
        field.name: _read(f"{name}", given[name], hint)
        for name, (field, hint) in known_fields.items()
        if name in given
    }
    if actor is not None:
        values["actor"] = actor
    if completing and SELLERS in known_fields:
        values.setdefault(SELLERS, ())
    _require(kind, known_fields, values)
    made: Any = kind(**values)
    return made  # type: ignore[no-any-return]  # one of the kinds


def camel(name: str) -> str:
    """A field's name on the wire."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


@lru_cache(maxsize=64)
def _fields(kind: type[Struct]) -> dict[str, tuple[FieldInfo, Any]]:
    hints = get_type_hints(kind)
    return {camel(field.name): (field, hints[field.name]) for field in fields(kind)}


def _require(
    kind: type[Struct], known: Mapping[str, tuple[FieldInfo, Any]], values: Mapping[str, Any]
) -> None:
    missing = [
        name
        for name, (field, _) in known.items()
        if field.name not in values
        and field.default is NODEFAULT
        and field.default_factory is NODEFAULT
    ]
    if missing:
        raise MalformedOperation(f"{kind.__name__} needs {', '.join(sorted(missing))}")


def _read(name: str, value: object, hint: Any) -> Any:  # noqa: ANN401 - of any field
    """A field's value from JSON."""
    inner = [one for one in _parts(hint) if one is not type(None)]
    if value is None:
        if len(inner) == len(_parts(hint)):
            raise MalformedOperation(f"{name} may not be null")
        return None
    if Money in inner:
        if not isinstance(value, str):
            raise InvalidAmount(f"{name}: an amount is a text such as CREDIT:12.34")
        return Money.parse(value)
    if timedelta in inner:
        hint = float | str if str in inner else float
    try:
        return msgspec.convert(value, hint, strict=not _times(inner))
    except msgspec.ValidationError as error:
        raise MalformedOperation(f"{name}: {error}") from error


def _times(inner: list[Any]) -> bool:
    return datetime in inner


def _parts(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any field
    if get_origin(hint) in {Union, types.UnionType}:
        return get_args(hint)
    return (hint,)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, Money):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return msgspec.to_builtins(value)
