"""The hooks by which values that msgspec does not know go to JSON and back.

Pydantic models are recognised by their methods: pydantic is imported only where somebody uses it.
"""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_origin

import msgspec

from offpath.runtime.unquoted import unquoted

_RAW_TYPES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (dict, dict),
    (list, list),
)

_KEYS_ONLY = frozenset({tuple, frozenset, bool, type(None)})
"""The types that msgspec writes itself as values: only a dict key of such a type gets to the
hook.
"""

Dump = Callable[[Any], Any]
Load = Callable[[Any], Any]


class CodecHooks:
    """The two conversions msgspec calls for types it does not know, and which those are.

    ``types`` adds types of the user's own: each with a function to something that JSON can hold
    and one back.
    """

    __slots__ = ("_types",)

    def __init__(self, types: Mapping[type, tuple[Dump, Load]] | None = None) -> None:
        self._types = dict(types or {})

    def teaches(self, kind: Any) -> bool:
        """True if this is a type of the user's own."""
        # what stands in an annotation need not be a type, nor have a hash
        return isinstance(kind, type) and kind in self._types

    def knows(self, kind: Any) -> bool:
        """True if values of this type can be written and read back."""
        if kind is object or kind in self._types:
            return True
        return is_pydantic_model(get_origin(kind) or kind)

    def dump(self, value: Any) -> Any:
        """``value`` as something msgspec knows; its ``enc_hook``."""
        kind = type(value)
        # also of a subclass: a path is of a class that depends on the system
        for taught in kind.__mro__ if self._types else ():
            if taught in self._types:
                return self._types[taught][0](value)
        if is_pydantic_model(kind):
            return dump_model(value)
        # numpy's float64, Django's SafeString and their like are these with another name.
        for known, plain in _RAW_TYPES:
            if isinstance(value, known):
                return plain(value)
        if kind in _KEYS_ONLY:
            raise TypeError(f"dict keys of type {kind.__name__} have no JSON form")
        raise TypeError(f"objects of type {kind.__qualname__} have no JSON form")

    def load(self, kind: Any, value: Any) -> Any:
        """``value``, read from JSON, as a ``kind``; its ``dec_hook``."""
        if kind is object or self._is_one(kind, value):
            return value
        if kind in self._types:
            return self._types[kind][1](value)
        if is_pydantic_model(kind):
            return load_model(kind, value, self)
        raise NotImplementedError

    def _is_one(self, kind: Any, value: Any) -> bool:
        """True if ``value`` is not JSON but an object of that type already, as arguments are."""
        known = kind in self._types or is_pydantic_model(kind)
        return known and isinstance(kind, type) and isinstance(value, kind)

    def schema(self, kind: Any) -> dict[str, Any]:
        """JSON schema of a type that msgspec does not know; its ``schema_hook``."""
        if is_pydantic_model(kind):
            schema: dict[str, Any] = kind.model_json_schema()
            return schema
        return {}


MASKED: Final = b"**********"
"""The text that pydantic writes in the place of a secret."""
NOT_STORED: Final = "a secret would be stored in plain text: give a reference to it"


def is_pydantic_model(kind: Any) -> bool:
    """True if this is a pydantic (v2) model class."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json")


def dump_model(model: Any) -> msgspec.Raw:
    """A pydantic model as JSON; ValueError when it would not come back with the same fields.

    Secrets, excluded fields and lossy serialisers would otherwise be lost without a word.
    """
    try:
        text = model.model_dump_json(by_alias=True, round_trip=True)
        again = type(model).model_validate_json(text)
    except ValueError as error:
        raise ValueError(pydantic_text(error)) from None
    changed = [name for name, was in vars(model).items() if again.__dict__.get(name) != was]
    if changed and MASKED in text.encode():
        raise ValueError(NOT_STORED)
    if changed:
        raise ValueError(
            f"{type(model).__name__} does not survive JSON: {', '.join(changed)} would come back "
            "changed; write that field's real value with a serializer"
        )
    return msgspec.Raw(text.encode())


def load_model(kind: Any, value: Any, hooks: CodecHooks) -> Any:
    """Validate a pydantic model from what JSON gave, in pydantic's JSON mode."""
    text = msgspec.json.encode(value, enc_hook=hooks.dump)
    try:
        return kind.model_validate_json(text)
    except ValueError as error:
        raise ValueError(pydantic_text(error)) from None


def pydantic_text(error: Any) -> str:
    """A pydantic error in one line with paths and without the values, which may be secret."""
    if not hasattr(error, "errors"):
        return str(error)
    listed = error.errors(include_url=False, include_context=False)
    return "; ".join(f"{_dotted(one['loc'])}{unquoted(one['msg'], one['input'])}" for one in listed)


def _dotted(location: tuple[str | int, ...]) -> str:
    return f"`{'.'.join(map(str, location))}`: " if location else ""
