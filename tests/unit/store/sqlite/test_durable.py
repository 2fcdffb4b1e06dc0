"""An acknowledged commit is on the disk: the commits that matter wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from offpath.model.effects import Effects
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Settlement, Succeeded
from offpath.store.sqlite import SqliteStore
from tests.conformance.builders import new_job, worker_info

FULL = 2


async def test_enqueues_and_ends_are_committed_with_full_sync(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    levels: list[int] = []

    def look(name: str) -> None:
        session: Any = store._writer._session  # type: ignore[union-attr]
        if name == "commit":
            levels.append(session._connection.execute("pragma synchronous").fetchone()[0])

    await store.register(worker_info("w"), lease_seconds=30)
    store._before_statement = look
    try:
        job = new_job()
        await store.commit(Effects(jobs=(job,)))
        assert levels == [FULL]
        request = LeaseRequest(worker="w", limit=1, tasks={job.task: 1})
        (leased,) = (await store.lease(request)).jobs
        levels.clear()
        await store.settle([Settlement(job=leased, outcome=Succeeded())])
        assert levels == [FULL], "also after a lease, which does not wait for the disk"
    finally:
        store._before_statement = None
        await store.close()
