"""The sweep that gives jobs of dead workers to the living."""

from __future__ import annotations

from collections.abc import Callable

from offpath.model.tally import FOUND_DEAD, Tally
from offpath.store.protocol import Store
from offpath.sweeps.own import OwnSweep


class Rescue(OwnSweep):
    """Takes running jobs from workers that are gone: buckets ``queued``, ``dead``, ``cancelled``.

    A job that died because its workers did is not a failure of the pass.
    """

    def __init__(
        self, store: Callable[[], Store], *, max_deliveries: int, keep_dead: float | None
    ) -> None:
        self._store = store
        self._max_deliveries = max_deliveries
        self._keep_dead = keep_dead

    async def move(self, limit: int) -> Tally:
        """Rescue up to ``limit`` jobs; whether a worker is gone is judged by the store's clock."""
        store = self._store()
        # Deaths that can be seen are noted before leases are judged: a seen death need not wait for
        # the end of its lease.
        dead = await store.notice_deaths() if store.capabilities.presence else []
        rescued = await store.rescue(
            limit=limit, max_deliveries=self._max_deliveries, keep=self._keep_dead
        )
        buckets: dict[str, tuple[str, ...]] = {}
        for one in rescued:
            state = one.state.value
            buckets[state] = (*buckets.get(state, ()), one.job.id)
        facts = {FOUND_DEAD: sorted(dead)} if dead else {}
        return Tally(buckets=buckets, more=len(rescued) >= limit, facts=facts)
