"""The store's part for groups, gates, steps and signals."""

from __future__ import annotations

from offpath.store.changes import Changed
from offpath.store.postgres import expiring, unseen
from offpath.store.postgres.part import Part
from offpath.store.programs.dialect import Announced


class WorkflowTables(Part):
    """Workflows on Postgres; each method is one transaction."""

    # -- gates -----------------------------------------------------------------------------

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up waits whose time is over, and repair what was skipped."""
        now, announced = self._now(), Announced()
        changes = await self._database.write(
            lambda: expiring.expire_steps(max(limit, 0), keep, now, announced, sql=self._sql)
        )
        self._tell_moved(announced)
        await self._database.write(
            lambda: unseen.look_again_steps(max(limit, 0), now, sql=self._sql)
        )
        return changes
