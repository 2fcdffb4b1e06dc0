"""One annotated type: whether it can be stored, and how it is checked.

What msgspec refuses (a union of two dataclasses, of pydantic models) goes through a pydantic
``TypeAdapter`` when pydantic is installed; what neither can do is refused when a task is defined.
"""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec import inspect as info

from offpath.errors import InvalidArgument, UnsupportedType
from offpath.runtime.hooks import MASKED, NOT_STORED, CodecHooks, pydantic_text

EXACT = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
"""Python values of these types are taken as they are, and text is not taken for them."""

_ALONE = (
    info.BoolType,
    info.FloatType,
    info.IntType,
    info.NoneType,
    info.StrType,
)
_CONTAINERS = (info.ListType, info.UnionType, info.VarTupleType, info.TupleType)
_KEYS = (info.IntType, info.StrType)


class ValueShape:
    """The way in which values of one annotation are packed for the codec and unpacked again.

    ``wire`` is the type msgspec sees; ``plain`` says that a value which fits the annotation in
    Python also fits it in JSON, so that one check is enough.
    """

    __slots__ = ("adapter", "plain", "wire")

    def __init__(self, annotation: Any, hooks: CodecHooks, where: str) -> None:
        self.adapter: Any = None
        self.wire: Any = annotation
        self.plain = False
        if _hides_secret(annotation, hooks):
            raise UnsupportedType(f"{where}: {NOT_STORED}")
        try:
            found = info.type_info(annotation)
        except TypeError as error:
            self._adapt(annotation, where, str(error))
            return
        unknown = next((kind for kind in _customs(found) if not hooks.knows(kind)), None)
        if unknown is not None:
            self._adapt(annotation, where, f"values of {_name(unknown)} have no JSON form")
        else:
            self.plain = _is_plain(found)

    def pack(self, value: Any) -> Any:
        """Return ``value`` as the codec takes it; raises InvalidArgument when it does not fit."""
        if self.adapter is None:
            return value
        try:
            checked = self.adapter.validate_python(value)
            text = self.adapter.dump_json(checked, by_alias=True, round_trip=True)
            again = self.adapter.validate_json(text)
        except (ValueError, TypeError) as error:
            raise InvalidArgument(pydantic_text(error)) from None
        if type(again) is not type(checked) or again != checked:
            if MASKED in text:
                raise InvalidArgument(NOT_STORED)
            raise InvalidArgument(
                f"{type(checked).__name__} would come back from JSON as something else: "
                f"give the members of the union a tag (a Literal field of their own)"
            )
        return msgspec.Raw(text)

    def unpack(self, value: Any) -> Any:
        """The value again, from what the codec gave; raises InvalidArgument."""
        if self.adapter is None:
            return value
        try:
            return self.adapter.validate_json(bytes(value))
        except ValueError as error:
            raise InvalidArgument(pydantic_text(error)) from None

    def schema(self, root: dict[str, Any]) -> dict[str, Any]:
        """JSON schema: ``root`` as msgspec made it, or pydantic's instead."""
        if self.adapter is None:
            return root
        schema: dict[str, Any] = self.adapter.json_schema()
        return schema

    def _adapt(self, annotation: Any, where: str, why: str) -> None:
        if importlib.util.find_spec("pydantic") is None:
            raise UnsupportedType(f"{where}: {why}. {_REMEDY} Or install pydantic.")
        from pydantic import TypeAdapter

        try:
            adapter = TypeAdapter(annotation)
            adapter.json_schema(mode="serialization")
        except Exception as error:  # pydantic raises many kinds here
            raise UnsupportedType(f"{where}: {why}. {_REMEDY}") from error
        self.adapter = adapter
        self.wire = msgspec.Raw


_REMEDY = (
    "Use types that have one JSON form: for a union of classes, msgspec Structs with a tag "
    "(class Card(msgspec.Struct, tag=True)); for other classes a dataclass, a Struct, a pydantic "
    "model, or JsonCodec(types={YourClass: (dump, load)})."
)


def _hides_secret(annotation: Any, hooks: CodecHooks) -> bool:
    """True if its values have a secret of pydantic: there is none where nobody imported it."""
    if "pydantic" not in sys.modules:
        return False
    from offpath.runtime.hidden_secrets import hides_secret

    return hides_secret(annotation, hooks.teaches)


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or repr(kind)


def _customs(found: info.Type) -> Iterator[Any]:
    """The types in a type that msgspec leaves to hooks."""
    seen: set[int] = set()
    todo: list[Any] = [found]
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, info.CustomType):
            yield node.cls
        todo.extend(_children(node))


def _children(node: Any) -> Iterator[Any]:
    for name in getattr(node, "__struct_fields__", ()):
        value = getattr(node, name)
        if isinstance(value, info.Type | info.Field):
            yield value
        elif isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, info.Type | info.Field))


def _is_plain(found: info.Type) -> bool:
    if isinstance(found, _ALONE):
        return True
    if isinstance(found, info.DictType):
        return isinstance(found.key_type, _KEYS) and _is_plain(found.value_type)
    if isinstance(found, _CONTAINERS):
        return all(_is_plain(child) for child in _children(found))
    return False
