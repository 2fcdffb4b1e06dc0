"""Panels: the parts of a document that are read side by side, each of which may be cut off alone.

A statement that takes too long costs the page that one part. The part is named in the document, and
its fields are empty there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from msgspec import Struct

from offpath.errors import StoreBusy

T = TypeVar("T")


class PanelledDocument(Struct, frozen=True, kw_only=True):
    """A document of several parts."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""


class Panels:
    """The parts of one document.

    ``until`` is when they must be there, by the loop's clock. Without it each has its time, and
    what fails is raised, as a command wants it.
    """

    def __init__(self, until: float | None = None) -> None:
        self._until = until
        self._cut: list[str] = []

    @property
    def cut(self) -> tuple[str, ...]:
        """The fields of the parts that were cut off, in the order of their names."""
        return tuple(sorted(set(self._cut)))

    async def read(self, reading: Awaitable[T], instead: T, *fields: str) -> T:
        """The answer of ``reading``; ``instead`` where it was cut off, and its fields are noted.

        Raises whatever else went wrong: a database that is away is away for every part.
        """
        if self._until is None:
            return await reading
        try:
            async with asyncio.timeout_at(self._until):
                return await reading
        except (TimeoutError, StoreBusy):
            self._cut += fields
            return instead
