"""The part of the memory store that holds workflows."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.changes import ChangedJob
from offpath.model.effects import Effects
from offpath.model.gate import GateRecord
from offpath.model.group import GroupRecord
from offpath.model.job import LeasedJob
from offpath.model.wait import NewSignal, Undoing
from offpath.store.hints import Hint
from offpath.store.memory import gates, groups, jobs, signals, steps
from offpath.store.memory.effects import compensate
from offpath.store.memory.part import MemoryPart


class MemoryWorkflows(MemoryPart):
    """Groups, gates, steps and waits. No method waits."""

    # -- groups ----------------------------------------------------------------------------

    async def groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        """The groups of these ids."""
        return groups.records(self._tables, ids)

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[ChangedJob]:
        """Mark groups as closing and cancel open members."""
        groups.mark(self._tables, ids)
        return self._closed(ids, limit, keep)

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Cancel open members of groups that are closing."""
        return self._closed(tuple(self._tables.groups.to_close), limit, keep)

    def _closed(self, ids: Sequence[str], limit: int, keep: float | None) -> list[ChangedJob]:
        members = groups.to_cancel(self._tables, ids, limit)
        changed = jobs.cancel(self._tables, self._clock.now(), members, keep)
        self._tell_of(changed)
        return changed

    # -- gates -----------------------------------------------------------------------------

    async def gates(self, ids: Sequence[str]) -> list[GateRecord]:
        """The gates of these ids."""
        return gates.records(self._tables, ids)

    async def watched(self, job_id: str) -> list[str]:
        """The jobs that the gate of this one watches."""
        return self._tables.gates.watched_for(job_id)

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up waits whose time is over."""
        changed = jobs.expire_blocked(self._tables, self._clock.now(), limit, keep)
        self._tell_of(changed)
        return changed

    # -- steps and signals -----------------------------------------------------------------

    async def put_step(self, job: LeasedJob, name: str, result: str | None) -> str | None:
        """Record a step's result once."""
        return steps.put(self._tables, self._clock.now(), job, name, result)

    async def steps(self, job_id: str) -> dict[str, str | None]:
        """The recorded steps of a job."""
        return dict(self._tables.steps.results.get(job_id, {}))

    async def send_signal(self, signal: NewSignal) -> bool:
        """Keep a signal and wake who waits for it."""
        sent = signals.send(self._tables, self._clock.now(), signal)
        self._tell(waiting=sent)
        return sent

    async def take_signal(
        self, job: LeasedJob, *, target: str, event: str, step: str
    ) -> str | None:
        """Take the oldest signal."""
        return signals.take(self._tables, self._clock.now(), job, (target, event), step)

    # -- compensation ----------------------------------------------------------------------

    async def put_undo(self, job: LeasedJob, name: str, undo: str) -> None:
        """Record what undoes a step."""
        steps.put_undo(self._tables, job, name, undo)

    async def undoing(self, *, limit: int, after: str | None = None) -> list[Undoing]:
        """Jobs that have something to undo."""
        return steps.undoing(self._tables, limit, after)

    async def compensate(self, job_id: str, effects: Effects) -> bool:
        """Commit effects and forget what the job recorded."""
        done = compensate(self._tables, self._clock.now(), job_id, effects)
        self._tell(waiting=done and bool(effects.jobs))
        return done

    def _tell_of(self, changed: Sequence[ChangedJob]) -> None:
        """Tell of what a sweep or an operator's call changed."""
        if any(each.was is each.state for each in changed):
            self._hints.emit(Hint.CANCEL)
        moved = [each for each in changed if each.was is not each.state]
        self._tell(
            waiting=any(not each.state.terminal for each in moved),
            ended=any(each.state.terminal for each in moved),
        )
