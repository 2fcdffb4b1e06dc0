"""The part of the memory store that keeps runs."""

from __future__ import annotations

from msgspec.structs import replace

from offpath.model.run import MOST_KEPT, RunKind, RunRecord
from offpath.store.memory.part import MemoryPart
from offpath.store.rows.instants import from_seconds, whole_seconds


class MemoryRuns(MemoryPart):
    """A :class:`~offpath.store.runs.RunStore`. No method waits, so each is one step."""

    async def put_run(self, run: RunRecord) -> None:
        """Keep one, and of its name no more than the newest."""
        runs = self._tables.runs
        # In whole seconds, as the databases keep it.
        runs.setdefault(run.id, replace(run, at=from_seconds(whole_seconds(run.at))))
        same = sorted(
            one.id for one in runs.values() if (one.kind, one.name) == (run.kind, run.name)
        )
        for old in same[:-MOST_KEPT]:
            del runs[old]

    async def runs(
        self,
        *,
        kind: RunKind | None = None,
        name: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[RunRecord]:
        """Runs, the newest first."""
        found = [
            one
            for one in self._tables.runs.values()
            if kind in (None, one.kind)
            and name in (None, one.name)
            and (after is None or one.id < after)
        ]
        return sorted(found, key=lambda one: one.id, reverse=True)[: max(limit, 0)]
