"""The part of the memory store that keeps what operators asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import asdict, replace

from offpath.model.action import (
    ActionFilter,
    ActionProgress,
    ActionRecord,
    ActionState,
    NewAction,
)
from offpath.store.hints import Hint
from offpath.store.memory.part import MemoryPart

_STEPPED = frozenset({ActionState.RUNNING, ActionState.STOPPED})
_RUNNING = ActionState.RUNNING


class MemoryActions(MemoryPart):
    """An :class:`~offpath.store.actions.ActionStore`. No method waits, so each is one step."""

    async def put_action(self, action: NewAction) -> ActionRecord:
        """Note that something was asked for; what was asked for before by this id stays."""
        now = self._clock.now()
        given = asdict(action)
        until = now + timedelta(seconds=given.pop("lease"))
        made = ActionRecord(**given, at=now, state=_RUNNING, held_until=until)
        # A repeat after a lost answer must not begin it anew.
        return self._tables.actions.setdefault(action.id, made)

    async def step_action(self, progress: ActionProgress) -> ActionRecord | None:
        """Note how far it is; None when it is not this holder's any more."""
        known = self._tables.actions.get(progress.id)
        if known is None or known.state not in _STEPPED or known.holder != progress.holder:
            return None
        if progress.lease <= 0:  # it was given back
            self._hints.emit(Hint.ACTIONS)
        now = self._clock.now()
        told = asdict(progress)
        until = now + timedelta(seconds=told.pop("lease"))
        if known.state is ActionState.STOPPED:
            # Somebody stopped it while this step ran: the counts are taken, and the stop stays.
            told["state"] = known.state
            return self._keep(replace(known, **told, held_until=until))
        ended = None if progress.state is _RUNNING else now
        return self._keep(replace(known, **told, held_until=until, finished_at=ended))

    async def take_action(
        self, holder: str, *, verbs: Sequence[str], lease: float, skip: Sequence[str] = ()
    ) -> ActionRecord | None:
        """Hold the oldest one whose holder's time is over."""
        now = self._clock.now()
        late = self._late(now, verbs, skip)
        if not late:
            return None
        until = now + timedelta(seconds=lease)
        oldest = min(late, key=lambda one: one.id)
        return self._keep(replace(oldest, holder=holder, held_until=until, resumed=True))

    async def has_late_action(self, *, verbs: Sequence[str], skip: Sequence[str] = ()) -> bool:
        """True if the time of somebody who carries one out is over."""
        return bool(self._late(self._clock.now(), verbs, skip))

    def _late(self, now: datetime, verbs: Sequence[str], skip: Sequence[str]) -> list[ActionRecord]:
        running = [one for one in self._tables.actions.values() if one.state is _RUNNING]
        return [
            one
            for one in running
            if one.held_until <= now and one.verb in verbs and one.id not in skip
        ]

    async def stop_action(self, action: str) -> bool:
        """End it between two steps."""
        known = self._tables.actions.get(action)
        if known is None or known.state is not _RUNNING:
            return False
        self._keep(replace(known, state=ActionState.STOPPED, finished_at=self._clock.now()))
        return True

    async def actions(
        self, where: ActionFilter, *, limit: int = 100, after: str | None = None
    ) -> list[ActionRecord]:
        """Actions that match, newest first."""
        known = self._tables.actions
        chosen = sorted((key for key in known if after is None or key < after), reverse=True)
        return [known[key] for key in chosen if _matches(known[key], where)][: max(limit, 0)]

    async def prune_actions(self, *, before: datetime, limit: int) -> int:
        """Remove old ones that have ended, or that nobody holds any more."""
        known = self._tables.actions
        old = [
            key
            for key in sorted(known)
            if known[key].at < before
            and (known[key].state is not _RUNNING or known[key].held_until < before)
        ]
        for key in old[:limit]:
            del known[key]
        return len(old[:limit])

    def _keep(self, record: ActionRecord) -> ActionRecord:
        self._tables.actions[record.id] = record
        return record


def _matches(record: ActionRecord, where: ActionFilter) -> bool:
    return (
        (not where.ids or record.id in where.ids)
        and (not where.states or record.state in where.states)
        and (not where.verbs or record.verb in where.verbs)
        and (not where.actors or record.actor in where.actors)
    )
