"""No row can stop anybody else: each column of each table with each value that its type allows."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest

import offpath
from offpath.errors import PassFailed
from offpath.model.job import JobFilter
from offpath.model.message import MessageFilter
from offpath.store.protocol import Store
from tests.attacks.bad_rows import lifted, write_bad_rows, write_random_rows
from tests.attacks.service import JOBS, OTHERS, ROUTERS, name_of, populate, service
from tests.conformance.backends import Backend
from tests.conformance.schedule_builders import plan

NEIGHBOURS = 30
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture(params=("sqlite", "postgres"))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backends on which rows can be written by hand."""
    return str(request.param)


@pytest.fixture
async def app(backend: Backend, store: Store) -> AsyncIterator[offpath.App]:
    """A service with something in every table."""
    url = backend.place if backend.name == "postgres" else f"sqlite:///{backend.place}"
    async with service(url) as app:
        yield app


async def everything_works(app: offpath.App) -> None:
    """Thirty of each end, every pass over the tables goes through, and every list is given."""
    store = app.store()
    work = app.tasks["work"]
    handles = await app.enqueue([work.job(n) for n in range(NEIGHBOURS)])
    limited = work.options(limit=offpath.Limit(key="five", max_running=5))
    handles += [await limited.enqueue(n) for n in range(3)]
    await app.worker().run_until_idle()
    states = await store.states([one.id for one in handles])
    assert set(states.values()) == {"succeeded"}
    accepted = [(await app.accept("shop", f"key {n}", {})).id for n in range(4)]
    published = [await app.publish("t", {}, stream="news") for _ in range(4)]
    await _passes(app)
    found = await store.find_messages(MessageFilter(ids=(*accepted, *published)))
    assert {one.state for one in found.items} == {"done"}
    event = await app.log.append("iu", "paid", "eu", {})
    for _ in range(20):
        await ROUTERS[app].run_once()
    assert event in {one.event for one in await store.attempts("iu", limit=1000)}
    await plan(store, "neighbour")
    due, _ = await store.due_schedules(limit=1000)
    assert "neighbour" in {one.schedule.name for one in due}
    await _sweeps(store)
    await _lists(app)
    assert await app.store().diagnose()


async def _passes(app: offpath.App) -> None:
    for mover in (app.drain("shop"), app.relay("news")):
        for _ in range(5):
            with suppress(PassFailed):  # it says so where there was none but rows that failed
                await mover.run_once(limit=1000)


async def _sweeps(store: Store) -> None:
    await store.rescue(limit=1000, max_deliveries=3)
    await store.expire_blocked(limit=1000)
    await store.close_groups(limit=1000)
    await store.notice_deaths()
    await store.undoing(limit=1000)
    await store.admit(limit=1000)
    await store.prune(limit=1000)
    await store.prune_occurrences(before=LONG_AGO, limit=1000)
    await store.trim_log(before=LONG_AGO, limit=1000)
    await store.claim("another claim", "holder")


async def _lists(app: offpath.App) -> None:
    store = app.store()
    for newest in (True, False):
        after = None
        while True:
            page = await store.find(JobFilter(), limit=200, after=after, newest=newest)
            await store.get([one.id for one in page.items])
            if (after := page.next) is None:
                break
        await store.find_messages(MessageFilter(), limit=1000, newest=newest)
    await store.find(JobFilter(tags=("a",)))
    await store.find(JobFilter(error_types=("ValueError",)))
    await store.count(JobFilter())
    await store.backlog()
    await store.message_backlog()
    await store.workers()
    await store.limits()
    await store.queues()
    await store.endpoints()
    await store.schedules()
    await store.due_schedules(limit=1000)
    await store.routers()
    await store.router_facts("iu")
    await store.read_events(domain="iu", limit=1000)
    await store.attempts("iu")
    await store.letters("iu")


@pytest.mark.parametrize("states", JOBS, ids="-".join)
async def test_jobs_of_each_wrong_value_stop_no_other_job(
    app: offpath.App, backend: Backend, states: tuple[str, ...]
) -> None:
    await populate(app)
    with lifted(backend, [name_of(backend.name, "job")]):
        for n, state in enumerate(states):
            template = f"t.state = '{state}' and t.task = 'work'"
            assert write_bad_rows(backend, name_of(backend.name, "job"), template, 1000 * n) > 50
        await asyncio.wait_for(everything_works(app), 60)


@pytest.mark.parametrize("tables", OTHERS, ids=lambda tables: tables[0])
async def test_rows_of_each_wrong_value_stop_nobody(
    app: offpath.App, backend: Backend, tables: tuple[str, ...]
) -> None:
    await populate(app)
    names = [name_of(backend.name, table) for table in tables]
    with lifted(backend, names):
        for name in names:
            assert write_bad_rows(backend, name, "true") > 0
        await asyncio.wait_for(everything_works(app), 60)


SEEDS = range(40) if "OFFPATH_TEST_CAMPAIGN" in os.environ else range(2)
ROWS = 15
"""Random rows of each table: several wrong values in one, and all tables at once."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_rows_of_random_wrong_values_in_every_table_stop_nobody(
    app: offpath.App, backend: Backend, seed: int
) -> None:
    await populate(app)
    chance = random.Random(seed)
    names = [name_of(backend.name, table) for tables in OTHERS for table in tables]
    job = name_of(backend.name, "job")
    with lifted(backend, [job, *names]):
        taken = 0
        for n, state in enumerate(("ready", "scheduled", "succeeded", "dead")):
            template = f"t.state = '{state}' and t.task = 'work'"
            taken += write_random_rows(backend, job, template, chance, ROWS, 10_000 + 1000 * n)
        for name in names:
            taken += write_random_rows(backend, name, "true", chance, ROWS, 20_000)
        assert taken > 8 * ROWS
        await asyncio.wait_for(everything_works(app), 60)


async def test_a_gate_of_no_known_state_with_jobs_to_move_stops_no_other(
    app: offpath.App, backend: Backend
) -> None:
    """Two wrong values in one row, found by the random ones: Postgres marks such gates."""
    if backend.name != "postgres":
        return
    await populate(app)
    with lifted(backend, ["offpath.job_gate"]):
        backend.execute_all(["update offpath.job_gate set state = 'foreign', behind = true"])
        await asyncio.wait_for(everything_works(app), 60)


async def test_a_schedule_whose_definition_has_another_name_is_told_and_never_due(
    app: offpath.App, backend: Backend
) -> None:
    """Fired by the name of its definition it would move another row, and stay due for ever."""
    store = app.store()
    await plan(store, "nightly")
    table = name_of(backend.name, "schedule")
    long_ago = "1" if backend.name == "sqlite" else "'2001-01-01Z'"
    backend.execute_all(
        [
            f"update {table} set name = 'other', next_at = {long_ago} where name = 'nightly'",
        ]
    )
    await plan(store, "nightly")
    due, _ = await store.due_schedules(limit=10)
    assert [one.schedule.name for one in due] == ["nightly"]
    told = {one.schedule.name: one.unreadable for one in await store.schedules()}
    assert told["nightly"] is None
    assert "definition" in (told["other"] or "")
    assert await store.delete_schedule("other")
