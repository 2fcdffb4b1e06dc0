"""A recorded failure says who ran the attempt, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.runtime.clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path
from tests.servers import migrate
from tests.sqlite_files import migrated_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "work.db")


async def test_each_failure_has_its_worker_and_start_and_the_job_knows_where_it_ran(
    url: str,
) -> None:
    clock = ManualClock()
    async with offpath.App(url, auto_start=False, clock=clock, retry=3) as app:

        @app.task
        async def work() -> None:
            clock.advance(2)
            raise ValueError

        handle = await work.enqueue()
        workers, starts = [], []
        for _ in range(3):
            worker = app.worker()
            starts.append(clock.now())
            await worker.run_until_idle()
            workers.append(worker.id)
            clock.advance(3600)
        found = await app.jobs.get(handle.id)
        assert [one.worker for one in found.failures] == workers
        assert [one.started_at for one in found.failures] == starts
        assert found.ran_on == tuple(workers)
