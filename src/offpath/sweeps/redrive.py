"""The sweep that puts dead jobs back as the app's redrive policy says."""

from __future__ import annotations

from collections.abc import Callable

from offpath.model.job import JobFilter, JobState
from offpath.model.redrive import Redrive
from offpath.model.tally import Tally
from offpath.store import protocol
from offpath.store.protocol import Store
from offpath.sweeps.own import OwnSweep

PAGES = 10
"""Pages of dead letters looked at in one pass, at most."""


class RedriveDead(OwnSweep):
    """Puts dead jobs back whose time for it has come; skipped where there is no policy.

    It goes on where the pass before ended, so that letters which are not due yet never hide the
    ones behind them.
    """

    def __init__(self, store: Callable[[], Store], policy: Redrive | None) -> None:
        self._store = store
        self._policy = policy
        self._after: str | None = None
        self._looked_in: Store | None = None

    def skip(self) -> str | None:
        """Say that there is no policy, if so."""
        return None if self._policy else "the app has no redrive policy: App(redrive=...)"

    async def move(self, limit: int) -> Tally:
        """Put one batch of the policy's back, at most ``limit`` jobs."""
        policy, store = self._policy, self._store()
        if policy is None:
            return Tally(skipped=self.skip())
        if self._looked_in is not store:  # a place in another store means nothing in this one
            self._looked_in, self._after = store, None
        ids = await self._due(store, policy, min(limit, policy.batch))
        changed = await store.redrive([protocol.JobRedrive(id=each) for each in ids])
        return Tally(buckets={"redriven": tuple(one.id for one in changed)} if changed else {})

    async def _due(self, store: Store, policy: Redrive, limit: int) -> list[str]:
        where = JobFilter(
            states=(JobState.DEAD,), reasons=tuple(policy.reasons), redrives_below=policy.cap
        )
        now = await store.ping()
        for _ in range(PAGES):
            page = await store.find(where, limit=limit, after=self._after, newest=False)
            self._after = page.next
            due = [record.id for record in page.items if policy.due(record, now)]
            if due or page.next is None:
                return due
        return []
