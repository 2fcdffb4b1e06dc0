"""The instrumented store's groups, gates, steps and waits."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.effects import Effects
from offpath.model.gate import GateRecord
from offpath.model.group import GroupRecord
from offpath.model.job import LeasedJob
from offpath.model.wait import NewSignal, Undoing
from offpath.store import observed
from offpath.store.changes import Changed
from offpath.store.watching import Watching


class InstrumentedWorkflows(Watching):
    """The part of the instrumented store that is a workflow store."""

    async def groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        """As the store does."""
        return await self._timed("groups", self._inner.groups(ids))

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[Changed]:
        """As the store does."""
        call = self._inner.cancel_groups(ids, limit=limit, keep=keep)
        answers = await self._timed("cancel_groups", call)
        self._moved(observed.changed(answers))
        return answers

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[Changed]:
        """As the store does."""
        call = self._inner.close_groups(limit=limit, keep=keep)
        answers = await self._timed("close_groups", call)
        self._moved(observed.changed(answers))
        return answers

    async def gates(self, ids: Sequence[str]) -> list[GateRecord]:
        """As the store does."""
        return await self._timed("gates", self._inner.gates(ids))

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[Changed]:
        """As the store does."""
        call = self._inner.expire_blocked(limit=limit, keep=keep)
        answers = await self._timed("expire_blocked", call)
        self._moved(observed.changed(answers))
        return answers

    async def put_step(self, job: LeasedJob, name: str, result: str | None) -> str | None:
        """As the store does."""
        return await self._timed("put_step", self._inner.put_step(job, name, result))

    async def steps(self, job_id: str) -> dict[str, str | None]:
        """As the store does."""
        return await self._timed("steps", self._inner.steps(job_id))

    async def send_signal(self, signal: NewSignal) -> bool:
        """As the store does. Whom it woke is not told: a job that waits counts as queued."""
        return await self._timed("send_signal", self._inner.send_signal(signal))

    async def take_signal(
        self, job: LeasedJob, *, target: str, event: str, step: str
    ) -> str | None:
        """As the store does."""
        call = self._inner.take_signal(job, target=target, event=event, step=step)
        return await self._timed("take_signal", call)

    async def put_undo(self, job: LeasedJob, name: str, undo: str) -> None:
        """As the store does."""
        await self._timed("put_undo", self._inner.put_undo(job, name, undo))

    async def undoing(self, *, limit: int, after: str | None = None) -> list[Undoing]:
        """As the store does."""
        return await self._timed("undoing", self._inner.undoing(limit=limit, after=after))

    async def compensate(self, job_id: str, effects: Effects) -> bool:
        """As the store does. What was committed is presumed to be new."""
        done = await self._timed("compensate", self._inner.compensate(job_id, effects))
        if done:
            self._presume(effects)
        return done

    def _presume(self, effects: Effects) -> None:
        """These effects were committed."""
        raise NotImplementedError
