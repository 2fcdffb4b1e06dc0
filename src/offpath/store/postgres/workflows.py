"""The store's part for groups, gates, steps and signals."""

from __future__ import annotations

from offpath.model.changes import ChangedJob
from offpath.store.postgres import unseen
from offpath.store.postgres.part import Part
from offpath.store.programs import waits
from offpath.store.programs.dialect import WRITES, Runner


class WorkflowTables(Part):
    """The repair of waits, which on Postgres has a second transaction."""

    runner: Runner

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up waits whose time is over, and repair what was skipped."""
        now = self._now()
        changes = await self.runner.run(lambda d: waits.expire(d, limit=limit, keep=keep), WRITES)
        await self._database.write(
            lambda: unseen.look_again_steps(max(limit, 0), now, sql=self._sql)
        )
        return changes
