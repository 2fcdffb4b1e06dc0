"""A real worker whose statements hang on real locks: that loop is red, the others go on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from offpath.model.health import Condition
from offpath.runtime.clock import SystemClock
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    import offpath

    MakeApp = Callable[..., offpath.App]

WITHIN = 20.0


class ShiftedClock(SystemClock):
    """The machine's clock, some time later: a minute's freshness in no time.

    Its date moves along, or the worker would take it for a clock that was set.
    """

    __slots__ = ("ahead",)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """The machine's, and so much more."""
        return super().monotonic() + self.ahead

    def now(self) -> datetime:
        """The machine's, and so much later."""
        return super().now() + timedelta(seconds=self.ahead)


GHOST = """
INSERT INTO offpath.worker
    (id, host, pid, version, concurrency, tasks, queues, started_at, seen_at, expires_at, presence)
VALUES ('ghost', 'h', 1, '0', 1, '[]', '[]', now(), now(), now() + interval '1 day', 1)
"""
"""A worker whose presence lock nobody holds: each pass of the rescue writes that it is missing."""


@pytest.mark.parametrize(
    ("loop", "lock"),
    [
        ("prune", "LOCK TABLE offpath.claim IN ACCESS EXCLUSIVE MODE"),
        ("rescue", "SELECT id FROM offpath.worker WHERE id = 'ghost' FOR UPDATE"),
        ("count", "LOCK TABLE offpath.message IN ACCESS EXCLUSIVE MODE"),
        ("heartbeat", "SELECT id FROM offpath.worker FOR UPDATE"),
    ],
)
async def test_a_loop_that_hangs_on_a_lock_is_red_and_the_others_go_on(
    make_app: MakeApp, pg_url: str, loop: str, lock: str
) -> None:
    clock = ShiftedClock()
    app = make_app(pg_url)
    app.clock = clock
    worker = app.worker()

    def condition(name: str) -> Condition:
        (found,) = [one.condition for one in worker.health() if one.name == name]
        return found

    def hangs() -> bool:
        (found,) = [one for one in worker.loops() if one.name == loop]
        return (found.working_for or 0.0) > 0.1

    async with worker, await psycopg.AsyncConnection.connect(pg_url) as other:
        await eventually(lambda: worker.report().ready, within=WITHIN)
        if loop == "rescue":
            await other.execute(GHOST)
            await other.commit()
        await other.execute(lock.encode())
        worker._loops.wake(loop)
        await eventually(hangs, within=WITHIN)
        clock.ahead += 181 if loop == "prune" else 61
        await eventually(lambda: condition(loop) is Condition.UNHEALTHY, within=WITHIN)
        # the lease is in doubt after such a leap, and without a heartbeat it stays so; prune also
        # looks at messages, as stats do, and has a longer window; who leads the stats is a claim
        beside = {"heartbeat": {"claim"}, "count": {"prune", "stats"}, "prune": {"stats"}}
        apart = {loop, *beside.get(loop, set())}
        others = {one.name for one in worker.loops()} - apart

        def well() -> bool:
            for name in others:
                worker._loops.wake(name)
            return all(condition(name) is Condition.HEALTHY for name in others)

        await eventually(well, within=WITHIN)
        assert condition(loop) is Condition.UNHEALTHY
        assert any(reason.startswith(f"loop {loop}: ") for reason in worker.report().reasons)
        await other.rollback()
        await eventually(lambda: worker.report().ready, within=WITHIN)
