"""The sweep that sees to it that groups, gates and waits end, and that failures are undone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from offpath.jobs.worker.group_check import GroupCheck
from offpath.model.tally import Tally
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext


class CheckGroups:
    """Gives up waits that are over, cancels members of closing groups, undoes failed jobs.

    Buckets: ``woken``, ``dead``, ``cancelled``, ``undone``; ``failed`` for jobs that could not be
    undone.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        keep_dead: float | None,
        keep_cancelled: float | None,
    ) -> None:
        self._store = store
        self._keep_dead = keep_dead
        self._keep_cancelled = keep_cancelled

    async def run(self, ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Check up to ``limit`` jobs of each kind; what is due is judged by the store's clock."""

        def report(error: BaseException, _phase: str) -> None:
            ctx.log.warning("a job could not be undone: %s", type(error).__name__, exc_info=error)

        check = GroupCheck(
            self._store(),
            keep_dead=self._keep_dead,
            keep_cancelled=self._keep_cancelled,
            report=report,
        )
        return await check.check(limit)
