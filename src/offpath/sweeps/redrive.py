"""The sweep that puts dead jobs back as the app's redrive policy says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from offpath.jobs.client.redrive import IdleRedrive
from offpath.model.redrive import Redrive
from offpath.model.tally import Tally
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext


class RedriveDead:
    """Puts dead jobs back whose time for it has come; skipped where there is no policy."""

    def __init__(self, store: Callable[[], Store], policy: Redrive | None) -> None:
        self._store = store
        self._policy = policy
        self._step: tuple[Store, IdleRedrive] | None = None

    def skip(self) -> str | None:
        """Say that there is no policy, if so."""
        return None if self._policy else "the app has no redrive policy: App(redrive=...)"

    async def run(self, _ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Put one batch of the policy's back, at most ``limit`` jobs."""
        if self._policy is None:
            return Tally(skipped=self.skip())
        ids = await self._of(self._store(), self._policy).redriven(limit=limit)
        return Tally(buckets={"redriven": tuple(ids)} if ids else {})

    def _of(self, store: Store, policy: Redrive) -> IdleRedrive:
        # It remembers how far it has looked, so it is kept for as long as the store is the same.
        if self._step is None or self._step[0] is not store:
            self._step = (store, IdleRedrive(store, policy))
        return self._step[1]
