"""A priority queue from which anything can be taken back cheaply."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Rank = TypeVar("Rank")

_COMPACT_ABOVE = 64


class LazyHeap(Generic[Rank]):
    """Names in the order of their ranks, lowest first.

    Removing only forgets the name; its entry is skipped when it comes to the top, and the heap is
    rebuilt when more than half of it is forgotten, so that it never outgrows what it holds.
    """

    __slots__ = ("_entries", "_serial", "_serials")

    def __init__(self) -> None:
        self._entries: list[tuple[Rank, int, str]] = []
        self._serials: dict[str, int] = {}  # which entry of a name counts
        self._serial = 0

    def __len__(self) -> int:
        return len(self._serials)

    def __iter__(self) -> Iterator[str]:
        """Every name, in no particular order."""
        return iter(self._serials)

    def push(self, name: str, rank: Rank) -> None:
        """Add ``name``, or move it to another rank."""
        if name in self._serials:
            self.remove(name)
        self._serial += 1
        self._serials[name] = self._serial
        heapq.heappush(self._entries, (rank, self._serial, name))

    def remove(self, name: str) -> bool:
        """Forget ``name``; False when it was not there."""
        if self._serials.pop(name, None) is None:
            return False
        if len(self._entries) > _COMPACT_ABOVE + 2 * len(self._serials):
            self._compact()
        return True

    def __contains__(self, name: str) -> bool:
        """True if it is here."""
        return name in self._serials

    def ranks(self) -> Iterator[Rank]:
        """Every rank, in no particular order."""
        return (rank for rank, serial, name in self._entries if self._serials.get(name) == serial)

    def first(self) -> tuple[Rank, str] | None:
        """The lowest rank and its name, None when empty."""
        entries, serials = self._entries, self._serials
        while entries:
            rank, serial, name = entries[0]
            if serials.get(name) == serial:
                return rank, name
            heapq.heappop(entries)
        return None

    def _compact(self) -> None:
        self._entries = [e for e in self._entries if self._serials.get(e[2]) == e[1]]
        heapq.heapify(self._entries)
