"""Secrets of pydantic in an annotation: they are written as stars, so no job can have them.

Imported only where somebody has imported pydantic.
"""

# ruff: noqa: ANN401 - an annotation is of any type

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from msgspec import Struct

from offpath.runtime.hooks import is_pydantic_model

_NAMES: Final = ("SecretStr", "SecretBytes", "Secret")


def hides_secret(annotation: Any, taught: Callable[[Any], bool]) -> bool:
    """True if a value of this annotation has a secret, which would be written as stars.

    ``taught`` tells of types that the codec of the app can write. Where a model has a serializer of
    its own, nothing is known before there is a value: such a value is asked when it is given.
    """
    pydantic = sys.modules["pydantic"]
    secrets = tuple(found for name in _NAMES if (found := getattr(pydantic, name, None)))
    seen: set[int] = set()  # models may hold themselves
    todo = [annotation]
    while todo:
        kind = todo.pop()
        if id(kind) in seen or taught(kind):
            continue
        seen.add(id(kind))
        if isinstance(kind, type) and issubclass(kind, secrets):
            return True
        todo.extend(_parts(kind))
    return False


def _parts(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        return iter(() if _has_serializer(marks) else (inner,))
    if is_pydantic_model(kind):
        return _fields_of_model(kind)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__") or _is_struct(kind):
        return iter(_hints(kind))
    named = getattr(kind, "__value__", None)  # `type Name = ...`
    origin = get_origin(kind)
    return iter([one for one in (named, origin, *get_args(kind)) if one is not None])


def _fields_of_model(model: Any) -> Iterator[Any]:
    """The types of a model's fields that pydantic itself writes."""
    made = model.__pydantic_decorators__
    if made.model_serializers or model.model_config.get("json_encoders"):
        return
    own = {name for one in made.field_serializers.values() for name in one.info.fields}
    for name, field in model.model_fields.items():
        written = not field.exclude and not _has_serializer(field.metadata)
        if written and own.isdisjoint({name, "*"}):
            yield field.annotation


def _has_serializer(marks: Iterable[Any]) -> bool:
    return any(hasattr(mark, "when_used") for mark in marks)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _hints(kind: Any) -> list[Any]:
    try:
        return list(get_type_hints(kind, include_extras=True).values())
    except Exception:  # noqa: BLE001 - a name that is not there yet: msgspec or pydantic says so
        return []
