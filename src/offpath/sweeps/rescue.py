"""The sweep that gives jobs of dead workers to the living."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from offpath.model.tally import Tally
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext


class Rescue:
    """Takes running jobs from workers that are gone: buckets ``queued``, ``dead``, ``cancelled``.

    A job that died because its workers did is no failure of the pass.
    """

    def __init__(
        self, store: Callable[[], Store], *, max_deliveries: int, keep_dead: float | None
    ) -> None:
        self._store = store
        self._max_deliveries = max_deliveries
        self._keep_dead = keep_dead

    async def run(self, _ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Rescue up to ``limit`` jobs; whether a worker is gone is judged by the store's clock."""
        store = self._store()
        if store.capabilities.presence:
            await store.notice_deaths()
        rescued = await store.rescue(
            limit=limit, max_deliveries=self._max_deliveries, keep=self._keep_dead
        )
        buckets: dict[str, tuple[str, ...]] = {}
        for one in rescued:
            state = one.state.value
            buckets[state] = (*buckets.get(state, ()), one.job.id)
        return Tally(buckets=buckets, more=len(rescued) >= limit)
