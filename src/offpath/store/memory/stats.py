"""The part of the memory store that keeps stats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.stats import MERGED, StatRow, merged_bodies
from offpath.store.memory.part import MemoryPart
from offpath.store.rows.instants import from_seconds, whole_seconds
from offpath.store.stats import MOST_STATS


class MemoryStats(MemoryPart):
    """A :class:`~offpath.store.stats.StatStore`. No method waits, so each is one step."""

    async def put_stats(self, rows: Sequence[StatRow]) -> None:
        """Add rows; one that is there stays."""
        for one in rows:
            self._tables.stats.setdefault((one.step, whole_seconds(one.at), one.source), one.body)

    async def stats(
        self,
        *,
        since: datetime,
        until: datetime,
        limit: int = MOST_STATS,
        named: bool = True,  # noqa: ARG002 - here a row costs nothing to read
    ) -> list[StatRow]:
        """Rows of a time."""
        first, last = whole_seconds(since), whole_seconds(until)
        found = sorted(
            (key for key in self._tables.stats if first <= key[1] < last),
            # By time first, since the newest are kept; the answer is in another order.
            key=lambda key: (key[1], key[0], key[2]),
        )
        newest = found[-limit:] if limit > 0 else []
        return [
            StatRow(
                step=step,
                at=from_seconds(at),
                source=source,
                body=self._tables.stats[step, at, source],
            )
            for step, at, source in sorted(newest)
        ]

    async def fold_stats(self, *, step: int, into: int, before: datetime) -> bool:
        """Merge the oldest span of rows into one."""
        stats = self._tables.stats
        parts = sorted(
            # Folded into its own step, a merged row would be found again and again.
            key
            for key in stats
            if key[0] == step and (step != into or key[2] != MERGED)
        )
        if not parts:
            return False
        at = parts[0][1] // into * into
        if at + into > whole_seconds(before):
            return False
        bodies = [stats.pop(key) for key in parts if key[1] < at + into]
        bodies.append(stats.get((into, at, MERGED), "{}"))
        stats[into, at, MERGED] = merged_bodies(bodies)
        return True

    async def prune_stats(self, *, step: int, before: datetime, limit: int) -> int:
        """Remove old rows."""
        last = whole_seconds(before)
        old = sorted(key for key in self._tables.stats if key[0] == step and key[1] < last)
        for key in old[:limit]:
            del self._tables.stats[key]
        return len(old[:limit])
