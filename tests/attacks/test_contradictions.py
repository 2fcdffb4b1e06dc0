"""Jobs that deny themselves: a rule of SQLite's table refuses each change of them.

Only who turns the checks of SQLite off writes such a row. It is set aside by itself, and the others
are promoted, leased and rescued.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import offpath
from offpath.model.job import JobFilter
from offpath.store.protocol import Store
from tests.attacks.bad_rows import taken
from tests.conformance.backends import Backend

SPOILT = 5
DENIALS = (
    "worker = 'nobody'",
    "finished_at = 1",
    "expires_at = 1",
    "deliveries = -5",
    "attempt = -5",
    "cancel_requested = 7",
    "unique_slot = id",
    "unique_key = 'a key'",
    "finished_at = 1, worker = 'nobody', losses = -3",
)
ENDS = (
    {"succeeded": 25, "unreadable": SPOILT},
    {"succeeded": 25, "cancelled": SPOILT},  # where a wrong value says that they are to be
    {"succeeded": 30},  # where the change that was to be made mends the row, too
)
"""Twenty-five others have succeeded, and none is left."""


@pytest.fixture(params=("sqlite",))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The one backend whose rules may be turned off for one connection."""
    return str(request.param)


@pytest.fixture
async def app(backend: Backend, store: Store) -> AsyncIterator[offpath.App]:
    app = offpath.App(f"sqlite:///{backend.place}", auto_start=False)

    @app.task
    async def work(n: int) -> int:
        return n

    async with app:
        yield app


def deny(backend: Backend, state: str, assignment: str, numbers: int = SPOILT) -> None:
    """Spoil the first rows of this state."""
    condition = f"state = '{state}' order by id limit {numbers}"
    statement = (
        f"update offpath_job set {assignment}"
        f" where seq in (select seq from offpath_job where {condition})"
    )
    assert taken(backend, [statement]) == 1


async def fates(app: offpath.App) -> dict[str, int]:
    found = await app.store().find(JobFilter(), limit=100)
    states = [one.reason or one.state.value for one in found.items]
    return {state: states.count(state) for state in set(states)}


@pytest.mark.parametrize("denial", DENIALS)
async def test_due_jobs_that_deny_themselves_keep_no_other_from_being_promoted(
    app: offpath.App, backend: Backend, denial: str
) -> None:
    work = app.tasks["work"]
    await app.enqueue([work.options(delay=3600).job(n) for n in range(30)])
    deny(backend, "scheduled", denial)
    backend.execute_all(["update offpath_job set run_at = 1"])
    await app.worker(concurrency=2).run_until_idle()
    assert await fates(app) in ENDS


@pytest.mark.parametrize("denial", DENIALS)
async def test_ready_jobs_that_deny_themselves_hide_nobody_behind_them(
    app: offpath.App, backend: Backend, denial: str
) -> None:
    work = app.tasks["work"]
    await app.enqueue([work.options(priority=9).job(n) for n in range(SPOILT)])
    deny(backend, "ready", denial)
    await app.enqueue([work.job(n) for n in range(25)])
    await app.worker(concurrency=1).run_until_idle()
    assert await fates(app) in ENDS


@pytest.mark.parametrize("denial", ["finished_at = 1", "losses = -3", "cancel_requested = 7"])
async def test_jobs_of_a_dead_worker_that_deny_themselves_keep_no_other_from_a_rescue(
    app: offpath.App, backend: Backend, denial: str
) -> None:
    work = app.tasks["work"]
    await app.enqueue([work.job(n) for n in range(30)])
    held = (
        "update offpath_job set state = 'running', worker = 'gone', started_at = 1, deliveries = 1"
    )
    backend.execute_all([held])
    deny(backend, "running", denial)
    for _ in range(3):
        await app.store().rescue(limit=100, max_deliveries=3)
    await app.worker(concurrency=2).run_until_idle()
    assert await fates(app) in ENDS


async def test_what_stood_there_is_kept(app: offpath.App, backend: Backend) -> None:
    await app.tasks["work"].options(delay=3600).enqueue(1)
    deny(backend, "scheduled", "worker = 'nobody', deliveries = -5", 1)
    backend.execute_all(["update offpath_job set run_at = 1"])
    await app.worker().run_until_idle()
    (job,) = (await app.store().find(JobFilter())).items
    assert job.failures
    assert '"worker":"nobody"' in job.failures[-1].message
    assert '"deliveries":-5' in job.failures[-1].message
