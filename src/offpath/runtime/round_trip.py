"""The comparison of a value with what its stored text gives back: nothing changes in silence.

A value is written by the type it has and read by the type that is annotated. Where these differ, a
subclass loses its fields, a date becomes a text, a set a list: so what was written is read at once,
and compared.
"""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

_JSON: Final = (str, int, float, bool, type(None))
"""The values that JSON itself has, beside lists and objects."""


def changed(was: Any, now: Any, *, strict: bool = True, path: str = "$") -> str | None:
    """The path of the first part that came back as another value; None when all are the same.

    Without ``strict`` a part that came back as plain JSON is not looked at: its annotation promised
    nothing more. Objects of classes without an equality of their own are compared by their fields.
    """
    if type(now) in _JSON:
        return path if strict and was != now else None
    if isinstance(was, datetime) and isinstance(now, datetime):
        return None if _same_moment(was, now) else path
    if isinstance(now, dict | list | tuple):
        return _in_container(was, now, strict=strict, path=path)
    if type(was) is not type(now):
        return path
    fields = _fields(now)
    for name in fields:
        if found := changed(
            getattr(was, name), getattr(now, name), strict=strict, path=f"{path}.{name}"
        ):
            return found
    return path if not fields and _is_comparable(now) and was != now else None


def _is_comparable(value: Any) -> bool:
    """True if its class has an equality of its own, and not the one by identity."""
    return type(value).__eq__ is not object.__eq__  # type: ignore[comparison-overlap]


def _in_container(was: Any, now: Any, *, strict: bool, path: str) -> str | None:
    alike = isinstance(was, Mapping) if isinstance(now, dict) else isinstance(was, list | tuple)
    if not alike and not strict and not isinstance(was, str):
        return None  # a set, or an object, as plain JSON has it
    if not alike or len(was) != len(now) or (strict and not _same_kind(was, now)):
        return path
    pairs = zip(_parts(was, path), _parts(now, path), strict=True)
    found = (changed(one, other, strict=strict, path=at) for (one, at), (other, _) in pairs)
    return next((at for at in found if at), None)


def _same_kind(was: Any, now: Any) -> bool:
    """True if both are lists, tuples or mappings; a named or counting one may be a subclass."""
    return isinstance(was, (type(now), Mapping))


def _parts(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield key, f"key in {path}"
            yield part, f"{path}.{key}" if _plain(key) else f"{path}[...]"
        return
    for index, part in enumerate(value):
        yield part, f"{path}[{index}]"


def _plain(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier() and key.isascii()


def _same_moment(was: datetime, now: datetime) -> bool:
    # In the hour that a clock shows twice Python holds times of two zones for unequal, always.
    if was.tzinfo is None or now.tzinfo is None:
        return was == now
    return was.astimezone(UTC) == now.astimezone(UTC)


def _fields(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    return tuple(one.name for one in getattr(type(value), "__attrs_attrs__", ()))


def naive(value: Any, path: str = "$") -> str | None:
    """The path of the first moment without a zone; None when there is none."""
    if isinstance(value, datetime):
        return path if value.tzinfo is None else None
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        parts = _parts(value, path)
    else:
        parts = ((getattr(value, name), f"{path}.{name}") for name in _fields(value))
    return next((found for part, at in parts if (found := naive(part, at))), None)


def in_utc(value: Any) -> Any:
    """The value with its moments told in UTC, where their own offset has odd seconds.

    JSON's form has hours and minutes only; local times before about 1900 have seconds as well.
    """
    return _mapped(value, _whole_minutes)


def _whole_minutes(moment: datetime) -> datetime:
    offset = moment.utcoffset()
    return moment if offset is None or offset.seconds % 60 == 0 else moment.astimezone(UTC)


def _mapped(value: Any, change: Callable[[datetime], datetime]) -> Any:
    if isinstance(value, datetime):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(part, change) for key, part in value.items()}
    if type(value) in {list, tuple, set, frozenset}:
        return type(value)(_mapped(part, change) for part in value)
    if isinstance(value, msgspec.Struct):
        parts = {name: getattr(value, name) for name in value.__struct_fields__}
        mapped = {name: _mapped(part, change) for name, part in parts.items()}
        return msgspec.structs.replace(value, **mapped)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        mapped = {name: _mapped(getattr(value, name), change) for name in names}
        return dataclasses.replace(value, **mapped)
    return value
