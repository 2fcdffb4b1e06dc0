"""The part of the SQLite backend that holds workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from offpath.model.effects import Effects
from offpath.model.gate import GateRecord
from offpath.model.group import GroupRecord
from offpath.model.job import LeasedJob
from offpath.model.wait import NewSignal, Undoing
from offpath.store.changes import Changed
from offpath.store.hints import Hint
from offpath.store.sqlite import groups, jobs, waiting
from offpath.store.sqlite.part import Part
from offpath.store.sqlite.session import Session

T = TypeVar("T")


class Workflowing(Part):
    """Groups, gates, steps and waits."""

    # -- groups ----------------------------------------------------------------------------

    async def groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        """The groups of these ids."""
        return await self._read(lambda session: groups.records(session, ids))

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[Changed]:
        """Mark groups as closing and cancel open members."""

        def close(session: Session) -> list[Changed]:
            groups.mark(session, ids)
            return jobs.close(session, self._now(), ids, limit, keep)

        return self._told_of(await self._write(close))

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[Changed]:
        """Cancel open members of groups that are closing."""

        def close(session: Session) -> list[Changed]:
            closing = groups.to_close(session, limit)
            return jobs.close(session, self._now(), closing, limit, keep)

        def nothing(session: Session) -> list[Changed] | None:
            return None if groups.to_close(session, 1) else []

        return self._told_of(await self._write(close, peek=nothing))

    # -- gates -----------------------------------------------------------------------------

    async def gates(self, ids: Sequence[str]) -> list[GateRecord]:
        """The gates of these ids."""
        return await self._read(lambda session: waiting.gates(session, ids))

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[Changed]:
        """Give up waits whose time is over."""
        changed = await self._write(
            lambda session: waiting.expire_blocked(session, self._now(), limit, keep),
            peek=lambda session: waiting.nothing_is_up(session, self._now()),
        )
        return self._told_of(changed)

    # -- steps and signals -----------------------------------------------------------------

    async def put_step(self, job: LeasedJob, name: str, result: str | None) -> str | None:
        """Record a step's result once."""
        return await self._write(lambda session: waiting.put_step(session, job, name, result))

    async def steps(self, job_id: str) -> dict[str, str | None]:
        """The recorded steps of a job."""
        return await self._read(lambda session: waiting.steps(session, job_id))

    async def send_signal(self, signal: NewSignal) -> bool:
        """Keep a signal and wake who waits for it."""
        return await self._write(lambda session: waiting.send_signal(session, self._now(), signal))

    async def take_signal(
        self, job: LeasedJob, *, target: str, event: str, step: str
    ) -> str | None:
        """Take the oldest signal."""
        return await self._write(
            lambda session: waiting.take_signal(
                session, self._now(), job, target=target, event=event, step=step
            )
        )

    # -- compensation ----------------------------------------------------------------------

    async def put_undo(self, job: LeasedJob, name: str, undo: str) -> None:
        """Record what undoes a step."""
        await self._write(lambda session: waiting.put_undo(session, job, name, undo))

    async def undoing(self, *, limit: int, after: str | None = None) -> list[Undoing]:
        """Jobs that have something to undo."""
        return await self._read(lambda session: waiting.undoing(session, limit, after))

    async def compensate(self, job_id: str, effects: Effects) -> bool:
        """Commit effects and forget what the job recorded."""
        done = await self._write(
            lambda session: waiting.compensate(session, self._now(), job_id, effects)
        )
        if done:
            self._tell_effects(effects)
        return done

    def _told_of(self, changed: list[Changed]) -> list[Changed]:
        """Tell of what a sweep or an operator's call changed."""
        if any(each.was is each.state for each in changed):
            self._hints.emit(Hint.CANCEL)
        moved = [each for each in changed if each.was is not each.state]
        self._tell(
            waiting=any(not each.state.terminal for each in moved),
            ended=any(each.state.terminal for each in moved),
        )
        return changed
