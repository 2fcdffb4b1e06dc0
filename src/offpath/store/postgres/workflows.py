"""The store's part for groups, gates, steps and signals."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.store.changes import ChangedJob
from offpath.store.hints import Hint
from offpath.store.postgres import closing, expiring, unseen
from offpath.store.postgres.part import Part
from offpath.store.programs.dialect import Announced


class WorkflowTables(Part):
    """Workflows on Postgres; each method is one transaction."""

    # -- groups ----------------------------------------------------------------------------

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[ChangedJob]:
        """Mark groups as closing and cancel open members."""
        if not ids:
            return []
        now = self._now()
        changes = await self._database.write(
            lambda: closing.cancel_groups_steps(ids, limit, keep, now, sql=self._sql)
        )
        self._tell_changed(changes, Hint.CANCEL)
        return changes

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Cancel open members of groups that are closing."""
        now = self._now()
        changes = await self._database.write(
            lambda: closing.close_groups_steps(limit, keep, now, sql=self._sql)
        )
        self._tell_changed(changes, Hint.CANCEL)
        return changes

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
