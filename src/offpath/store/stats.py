"""The part of the store that keeps stats: what happened in spans of time.

The rules of the store's protocol hold here too. Times of rows are whole seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from offpath.store.absence import none_of
from offpath.store.runs import RunStore

if TYPE_CHECKING:
    from offpath.model.stats import StatRow

MOST_STATS: Final = 5_000
"""Rows that one read answers."""


class StatStore(RunStore, Protocol):
    """Rows of stats, and runs."""

    async def put_stats(self, rows: Sequence[StatRow]) -> None:
        """Add rows. One that is there, by its step, time and source, stays as it is."""
        ...

    async def stats(
        self, *, since: datetime, until: datetime, limit: int = MOST_STATS, named: bool = True
    ) -> list[StatRow]:
        """Rows that begin from ``since`` on and before ``until``: the newest ``limit``, by step,
        time and source.

        Without names a body may have sums alone, as of :func:`~offpath.model.stats.summed`, which
        a chart of everything reads for a tenth.
        """
        ...

    async def fold_stats(self, *, step: int, into: int, before: datetime) -> bool:
        """Merge the oldest rows of ``step`` that lie in one span of ``into`` seconds into one row
        of it, if that span ended by ``before``; False: there are none.

        ``step`` and ``into`` may be equal: then the rows of several sources become one.
        """
        ...

    async def prune_stats(self, *, step: int, before: datetime, limit: int) -> int:
        """Remove rows of ``step`` that began before; the number of those that went."""
        ...


class WithoutStats:
    """A store that keeps no series."""

    put_stats = none_of(StatStore.put_stats, lambda: None)
    stats = none_of(StatStore.stats, list)
    fold_stats = none_of(StatStore.fold_stats, lambda: False)
    prune_stats = none_of(StatStore.prune_stats, lambda: 0)
