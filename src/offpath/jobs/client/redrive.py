"""Automatic redrive: one bounded step, taken by a worker that has nothing else to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.model.job import JobFilter, JobState
from offpath.store import protocol

if TYPE_CHECKING:
    from offpath.model.redrive import Redrive
    from offpath.store.protocol import Store

PAGES = 10
"""Pages of dead letters looked at in one step, at most."""


class IdleRedrive:
    """Looks through dead letters and puts those back that are due for it.

    It goes on where the step before ended, so that letters which are not due yet never hide the
    ones behind them.
    """

    def __init__(self, store: Store, policy: Redrive) -> None:
        self._store = store
        self._policy = policy
        self._after: str | None = None
        self._where = JobFilter(
            states=(JobState.DEAD,),
            reasons=tuple(policy.reasons),
            redrives_below=policy.cap,
        )

    async def step(self) -> int:
        """Put up to ``batch`` dead jobs back; returns how many."""
        return len(await self.redriven(limit=self._policy.batch))

    async def redriven(self, *, limit: int) -> list[str]:
        """Put up to ``batch`` dead jobs back, but no more than ``limit``; returns their ids."""
        ids = await self._due(min(limit, self._policy.batch))
        changed = await self._store.redrive([protocol.JobRedrive(id=each) for each in ids])
        return [one.id for one in changed]

    async def _due(self, limit: int) -> list[str]:
        now = await self._store.ping()
        for _ in range(PAGES):
            page = await self._store.find(self._where, limit=limit, after=self._after, newest=False)
            self._after = page.next
            due = [record.id for record in page.items if self._policy.due(record, now)]
            if due or page.next is None:
                return due
        return []
