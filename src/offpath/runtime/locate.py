"""The place in a value of a thing that JSON cannot hold: for error texts only."""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

Try = Callable[[Any], object]


def not_finite(value: Any, path: str = "$") -> str | None:
    """Path of the first NaN or infinity in ``value``. JSON has none, msgspec writes null."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    found = (not_finite(part, where) for part, where in _parts(value, path))
    return next((where for where in found if where), None)


def culprit(value: Any, encode: Try, path: str = "$", depth: int = 0) -> tuple[str, str] | None:
    """Path and reason of the innermost part of ``value`` that ``encode`` refuses."""
    try:
        encode(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        if depth < _DEEPEST:
            inner = (culprit(part, encode, at, depth + 1) for part, at in _parts(value, path))
            found = next((one for one in inner if one), None)
        else:
            found = None
        return found or (path, reason(error))
    return None


def reason(error: Exception) -> str:
    """The reason why encoding failed, without any of the value."""
    if isinstance(error, UnicodeEncodeError):
        return "text with a lone surrogate cannot be written as UTF-8"
    if isinstance(error, RecursionError):
        return "it contains itself or is nested too deeply"
    return str(error)


_DEEPEST = 50


def _parts(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield key, f"key in {path}"
            yield part, f"{path}.{key}" if _plain(key) else f"{path}[...]"
    elif isinstance(value, list | tuple | set | frozenset):
        for index, part in enumerate(value):
            yield part, f"{path}[{index}]"
    else:
        for name in _fields(value):
            yield getattr(value, name, None), f"{path}.{name}"


def _plain(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier() and key.isascii()


def _fields(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    attributes = getattr(type(value), "__attrs_attrs__", ())
    return tuple(attribute.name for attribute in attributes)
