"""Types of a service as text: what another service needs to call its tasks.

Types of the standard library are imported. Dataclasses, structs and enumerations of the service are
written out, so that nobody has to import its code. Everything else is imported from where it is.
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from offpath.errors import InvalidArgument

_PLAIN: Final = (bool, int, float, str, bytes, type(None))
_DATACLASS: Final = "@dataclasses.dataclass\nclass {name}:"
_EMPTY: Final = {list: "list", dict: "dict", set: "set", tuple: "tuple"}


class StubTypes:
    """The types that were written so far, and what they need."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        """Modules to import."""
        self.classes: dict[str, str] = {}
        """The text of each class that is written out, by its name there."""
        self._names: dict[type, str] = {}

    def text(self, kind: Any) -> str:  # noqa: ANN401 - any annotation
        """An annotation as source. Raises ``InvalidArgument`` for one that has no name."""
        if kind is None or kind is type(None):
            return "None"
        if kind is Any or isinstance(kind, typing.TypeVar):
            return self._imported("typing", "Any")
        if isinstance(kind, typing.NewType):
            return self.text(kind.__supertype__)
        origin, args = get_origin(kind), get_args(kind)
        if origin is None:
            return self._class(kind)
        if origin is Annotated:
            return self.text(args[0])
        if origin in {Union, types.UnionType}:
            return " | ".join(dict.fromkeys(self.text(one) for one in args))
        if origin is Literal:
            given = ", ".join(self.value(one) for one in args)
            return f"{self._imported('typing', 'Literal')}[{given}]"
        given = ", ".join("..." if one is ... else self.text(one) for one in args)
        return f"{self._class(origin)}[{given or '()'}]"

    def value(self, given: object) -> str:
        """A value of a plain type as source. Raises ``InvalidArgument`` for others."""
        if isinstance(given, enum.Enum):
            return f"{self._class(type(given))}.{given.name}"
        if isinstance(given, _PLAIN):
            return repr(given)
        raise InvalidArgument(f"a value of {type(given).__name__} cannot be written out")

    def _imported(self, module: str, name: str) -> str:
        self.imports.add(module)
        return f"{module}.{name}"

    def _class(self, kind: Any) -> str:  # noqa: ANN401 - a class, or what is none
        if not isinstance(kind, type) or "<" in kind.__qualname__:
            raise InvalidArgument(
                f"the type {kind!r:.100} has no name outside of its service: define it at the top "
                "of a module, or annotate the task otherwise"
            )
        if kind.__module__ == builtins.__name__:
            return kind.__qualname__
        if kind not in self._names:
            body = self._written_out(kind)
            if body is None:
                return self._imported(kind.__module__, kind.__qualname__)
            self._write(kind, body)
        return self._names[kind]

    def _write(self, kind: type, body: Iterator[str]) -> None:
        name, number = kind.__name__, 2
        while name in self._names.values():
            name, number = f"{kind.__name__}{number}", number + 1
        self._names[kind] = name  # before its fields: it may have fields of its own type
        lines = list(body)
        head, *fields = lines
        self.classes[name] = "\n".join([head.format(name=name), *(f"    {one}" for one in fields)])

    def _written_out(self, kind: type) -> Iterator[str] | None:
        """The lines of a class that can be written out whole; None for any other."""
        if issubclass(kind, enum.Enum):
            return self._enum(kind)
        if dataclasses.is_dataclass(kind):
            fields = [
                (one.name, one.default, one.default_factory)
                for one in dataclasses.fields(kind)
                if one.init
            ]
            return self._fields(kind, "dataclasses", _DATACLASS, fields)
        if issubclass(kind, Struct) and _plain_struct(kind):
            named = [
                (one.name, one.default, one.default_factory) for one in msgspec.structs.fields(kind)
            ]
            return self._fields(kind, "msgspec", "class {name}(msgspec.Struct):", named)
        return None

    def _enum(self, kind: type[enum.Enum]) -> Iterator[str] | None:
        base = next((one for one in (enum.StrEnum, enum.IntEnum) if issubclass(kind, one)), None)
        if kind.__mro__[1] not in {enum.Enum, enum.StrEnum, enum.IntEnum}:
            return None
        if not all(isinstance(one.value, _PLAIN) for one in kind):
            return None
        self.imports.add("enum")
        return iter(
            (
                f"class {{name}}(enum.{(base or enum.Enum).__name__}):",
                *(f"{one.name} = {one.value!r}" for one in kind),
            )
        )

    def _fields(
        self, kind: type, module: str, head: str, fields: list[tuple[str, Any, Any]]
    ) -> Iterator[str] | None:
        defaults = [self._default(default, factory) for _, default, factory in fields]
        if None in defaults:
            return None
        self.imports.add(module)
        return self._lines(kind, head, fields, defaults, module)

    def _default(self, default: object, factory: object) -> str | None:
        """`` = 5`` as source, nothing where there is none, None for what cannot be written."""
        if not _is_none(factory):
            made = next((name for kind, name in _EMPTY.items() if kind is factory), None)
            return None if made is None else f" = FIELD(default_factory={made})"
        if _is_none(default):
            return ""
        return f" = {self.value(default)}" if isinstance(default, (*_PLAIN, enum.Enum)) else None

    def _lines(
        self,
        kind: type,
        head: str,
        fields: list[tuple[str, Any, Any]],
        defaults: list[str | None],
        module: str,
    ) -> Iterator[str]:
        hints = get_type_hints(kind, include_extras=True)
        # In this form the order of fields needs no thought: they are given by name.
        keywords = head.replace("dataclass\n", "dataclass(kw_only=True)\n")
        yield keywords.replace("(msgspec.Struct)", "(msgspec.Struct, kw_only=True)")
        if not fields:
            yield "pass"
        for (name, *_), default in zip(fields, defaults, strict=True):
            made = (default or "").replace("FIELD", f"{module}.field")
            yield f"{name}: {self.text(hints[name])}{made}"


def _is_none(given: object) -> bool:
    return given is dataclasses.MISSING or given is msgspec.NODEFAULT


def _plain_struct(kind: type[Struct]) -> bool:
    config = kind.__struct_config__
    same = all(one.name == one.encode_name for one in msgspec.structs.fields(kind))
    return same and config.tag is None and not config.array_like
