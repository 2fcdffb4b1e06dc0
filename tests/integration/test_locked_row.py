"""One locked row of the store: its job waits, and no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

import offpath
from offpath import JobState
from offpath.jobs.worker import settler
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    MakeApp = Callable[..., offpath.App]

SLOTS = 5
LOCK = "update offpath.job set priority = 1 where id = %s"


@pytest.mark.parametrize("fails", [False, True])
async def test_a_job_whose_row_is_locked_holds_up_no_other_end(
    make_app: MakeApp, pg_url: str, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    monkeypatch.setattr(settler, "TOLD", 2.0)
    app = make_app(pg_url)
    gate = asyncio.Event()

    @app.task(retry=1)
    async def slow() -> None:
        await gate.wait()
        if fails:
            raise RuntimeError("no")

    @app.task
    async def quick(n: int) -> int:
        return n

    async with app.worker(concurrency=SLOTS) as worker:
        first = await app.enqueue(slow.job())
        await eventually(lambda: [one.id for one in worker.active()] == [first.id], within=10)
        async with await psycopg.AsyncConnection.connect(pg_url) as other:
            await other.execute(LOCK, (first.id,))
            gate.set()
            for n in range(40):
                handle = await app.enqueue(quick.job(n))
                assert await handle.result(timeout=8) == n
                assert len(worker.active()) <= 2 * SLOTS

            def red() -> bool:
                return any(f"the end of job {first.id}" in one for one in worker.report().reasons)

            await eventually(red, within=15)
            assert (await first.status()).state is JobState.RUNNING
        state = JobState.DEAD if fails else JobState.SUCCEEDED
        await eventually(lambda: _is(first, state), within=10)
        await eventually(lambda: not worker.active(), within=10)
        assert (await first.status()).deliveries == 1
        assert not any("the end of job" in one for one in worker.report().reasons)


async def _is(handle: offpath.Handle[None, None], state: JobState) -> bool:
    return (await handle.status()).state is state
