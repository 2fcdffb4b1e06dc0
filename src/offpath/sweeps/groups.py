"""The group check: what must end ends, and what failed jobs had done is undone.

Every worker does it now and then, and any of them suffices: waits whose time is over are given up,
members of closing groups are cancelled, and jobs that ended without success get their undo jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import MsgspecError

from offpath.errors import OffpathError, StoreBusy, StoreUnavailable
from offpath.model.tally import Tally
from offpath.sweeps.own import OwnSweep

if TYPE_CHECKING:
    from offpath.model.changes import ChangedJob
    from offpath.model.wait import Undoing
    from offpath.store.protocol import Store


class CheckGroups(OwnSweep):
    """Gives up waits that are over, cancels members of closing groups, undoes failed jobs."""

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        keep_dead: float | None,
        keep_cancelled: float | None,
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._store = store
        self._keep_dead = keep_dead
        self._keep_cancelled = keep_cancelled
        self._report = report
        self._reported: set[str] = set()
        """Jobs that could not be undone, as was reported."""

    async def move(self, limit: int) -> Tally:
        """One check, of at most ``limit`` jobs of each kind.

        Buckets: ``woken`` and ``dead`` (waits that were over), ``cancelled`` (members of closing
        groups, told or ended), ``undone``, and ``failed``: jobs whose undo jobs the store refused.
        """
        store, buckets = self._store(), _Buckets()
        over = await store.expire_blocked(limit=limit, keep=self._keep_dead)
        closed = await store.close_groups(limit=limit, keep=self._keep_cancelled)
        for one in (*over, *closed):
            buckets.add(_bucket(one), one.id)
        more = await self._undo_all(store, limit, buckets) or max(len(over), len(closed)) >= limit
        return Tally(buckets=buckets.filled, reasons=buckets.reasons, more=more)

    async def _undo_all(self, store: Store, limit: int, buckets: _Buckets) -> bool:
        """Undo up to ``limit`` jobs; whether there may be more. Those that fail are passed by."""
        after: str | None = None
        while due := await store.undoing(limit=limit, after=after):
            for undoing in due:
                if buckets.size("undone") >= limit:
                    return True
                await self._undo(store, undoing, buckets)
            after = due[-1].id
            if len(due) < limit:
                break
        self._reported.intersection_update(buckets.reasons)
        return False

    async def _undo(self, store: Store, undoing: Undoing, buckets: _Buckets) -> None:
        from offpath.jobs.handler.durable.undo import compensation

        try:
            if await store.compensate(undoing.id, compensation(undoing)):
                buckets.add("undone", undoing.id)
        except (StoreUnavailable, StoreBusy):
            raise
        except (OffpathError, MsgspecError) as error:  # this job alone: told, and tried again
            buckets.add("failed", undoing.id)
            buckets.reasons[undoing.id] = getattr(error, "code", type(error).__name__)
            if undoing.id not in self._reported:
                self._reported.add(undoing.id)
                self._report(error, "undo")


class _Buckets:
    """Ids by what became of them."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}
        self.reasons: dict[str, str] = {}

    def add(self, bucket: str, job_id: str) -> None:
        self._ids.setdefault(bucket, []).append(job_id)

    def size(self, bucket: str) -> int:
        return len(self._ids.get(bucket, ()))

    @property
    def filled(self) -> dict[str, tuple[str, ...]]:
        return {bucket: tuple(ids) for bucket, ids in self._ids.items()}


def _bucket(one: ChangedJob) -> str:
    """The fate of a job: its state, but for those that go on."""
    if one.was is one.state:
        return "cancelled"  # it runs, and was told
    return one.state.value if one.state.terminal else "woken"
