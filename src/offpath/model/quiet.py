"""Values that can be printed: what users put into them is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

UNSHOWN: Final = frozenset(
    {
        "input",
        "result",
        "progress",
        "note",
        "message",
        "traceback",
        "payload",
        "headers",
        "secrets",
        "detail",
        "url",
    }
)
"""Fields that hold what users and their handlers wrote: arguments, results, error texts."""


class Quiet(Struct, frozen=True):
    """A value whose repr, in a log line or a traceback with locals, tells no argument.

    Texts are shown by their length. The fields themselves hold everything.
    """

    def __repr__(self) -> str:
        """Every field; those of users as ``<12 characters>``."""
        inside = ", ".join(f"{name}={_shown(name, value)}" for name, value in self._pairs())
        return f"{type(self).__name__}({inside})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for rich, which otherwise reads the fields by itself."""
        return [(name, _Text(_shown(name, value))) for name, value in self._pairs()]

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self.__struct_fields__)


class _Text(str):
    """A text that is its own repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _shown(name: str, value: object) -> str:
    if name in UNSHOWN and isinstance(value, str):
        return f"<{len(value)} characters>"
    if name in UNSHOWN and isinstance(value, tuple):
        return f"<{len(value)} values>"
    return repr(value)
