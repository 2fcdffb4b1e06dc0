"""Jobs that wait for room under their limits, by the order in which they will go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from offpath.store.memory import pauses
from offpath.store.memory.indexes import LazyHeap
from offpath.store.memory.lanes import Place
from offpath.store.memory.limit_rows import MemoryLimit

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables

UNTAKEN: Final = timedelta(seconds=5)
"""The time after which a ready job that nobody took makes way."""


def queues(tables: Tables, now: datetime, row: MemoryLimit) -> Iterator[LazyHeap[Place]]:
    """The held jobs of a key by queue, without the paused ones."""
    return (heap for name, heap in row.held.items() if not pauses.paused(tables, now, name))


def count(tables: Tables, now: datetime, row: MemoryLimit) -> int:
    """The number of held jobs of a key that may go."""
    return sum(len(heap) for heap in queues(tables, now, row))


def best(tables: Tables, now: datetime, row: MemoryLimit) -> str:
    """The next one of a key that has some."""
    return min(heads(tables, now, row))[1]


def heads(tables: Tables, now: datetime, row: MemoryLimit) -> Iterator[tuple[Place, str]]:
    """The next one of each queue, by its place."""
    return (first for heap in queues(tables, now, row) if (first := heap.first()))
