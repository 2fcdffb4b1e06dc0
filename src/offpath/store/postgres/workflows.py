"""The store's part for groups, gates, steps and signals."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.errors import StoreRejected
from offpath.model.effects import Effects
from offpath.model.gate import GateRecord
from offpath.model.group import GroupRecord
from offpath.model.job import LeasedJob
from offpath.model.wait import NewSignal, Undoing
from offpath.store.changes import Changed
from offpath.store.hints import Hint
from offpath.store.postgres import closing, durable, expiring, gates, groups, unseen
from offpath.store.postgres.part import Part
from offpath.store.postgres.steps import job_id
from offpath.store.programs.dialect import Announced


class WorkflowTables(Part):
    """Workflows on Postgres; each method is one transaction."""

    # -- groups ----------------------------------------------------------------------------

    async def groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        """Groups by id."""
        if not ids:
            return []
        return await self._database.call(lambda: groups.groups_steps(ids, sql=self._sql))

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[Changed]:
        """Mark groups as closing and cancel open members."""
        if not ids:
            return []
        now = self._now()
        changes = await self._database.write(
            lambda: closing.cancel_groups_steps(ids, limit, keep, now, sql=self._sql)
        )
        self._tell_changed(changes, Hint.CANCEL)
        return changes

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[Changed]:
        """Cancel open members of groups that are closing."""
        now = self._now()
        changes = await self._database.write(
            lambda: closing.close_groups_steps(limit, keep, now, sql=self._sql)
        )
        self._tell_changed(changes, Hint.CANCEL)
        return changes

    # -- gates -----------------------------------------------------------------------------

    async def gates(self, ids: Sequence[str]) -> list[GateRecord]:
        """Gates by id."""
        return await self._database.call(lambda: gates.gates_steps(ids, sql=self._sql))

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[Changed]:
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

    # -- steps and signals -----------------------------------------------------------------

    async def put_step(self, job: LeasedJob, name: str, result: str | None) -> str | None:
        """Record a step's result once."""
        return await self._database.write(
            lambda: durable.put_step_steps(job, name, result, sql=self._sql)
        )

    async def steps(self, job_id: str) -> dict[str, str | None]:
        """The recorded steps of a job."""
        return await self._database.read(lambda: durable.steps_steps(job_id, sql=self._sql))

    async def send_signal(self, signal: NewSignal) -> bool:
        """Keep a signal, and wake one job that waits for it."""
        if job_id(signal.id) is None:
            raise StoreRejected(f"a signal's id must be a UUID, not {signal.id[:60]!r}")
        now = self._now()
        sent = await self._database.call(
            lambda: durable.send_signal_steps(signal, now, sql=self._sql)
        )
        if sent:
            self._tell(Hint.WORK, Hint.MESSAGES)
        return sent

    async def take_signal(
        self, job: LeasedJob, *, target: str, event: str, step: str
    ) -> str | None:
        """Take the oldest signal as the result of a step."""
        now = self._now()
        return await self._database.write(
            lambda: durable.take_signal_steps(job, target, event, step, now, sql=self._sql)
        )

    # -- compensation ----------------------------------------------------------------------

    async def put_undo(self, job: LeasedJob, name: str, undo: str) -> None:
        """Record what undoes a step."""
        await self._database.write(lambda: durable.put_undo_steps(job, name, undo, sql=self._sql))

    async def undoing(self, *, limit: int, after: str | None = None) -> list[Undoing]:
        """Failed jobs that have something to undo."""
        sql = self._sql
        return await self._database.write(lambda: durable.undoing_steps(limit, after, sql=sql))

    async def compensate(self, job_id: str, effects: Effects) -> bool:
        """Commit what undoes a job, once."""
        now = self._now()
        done = await self._database.write(
            lambda: durable.compensate_steps(job_id, effects, now, sql=self._sql)
        )
        if done:
            self._tell_effects(effects)
        return done
