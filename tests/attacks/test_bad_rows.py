"""No row can stop anybody else: each column of each table with each value that its type allows."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import offpath
from offpath.errors import PassFailed
from offpath.events import InboxMessage, Outbox
from offpath.model.endpoint import Endpoint
from offpath.model.job import JobFilter
from offpath.model.message import MessageFilter
from offpath.model.wait import NewSignal
from offpath.store.protocol import Store
from tests.attacks.bad_rows import lifted, write_bad_rows, write_random_rows
from tests.conformance.backends import Backend
from tests.conformance.builders import uid
from tests.conformance.log_builders import open_letter
from tests.conformance.schedule_builders import firing, known, plan
from tests.conformance.workflow_builders import gate_on, hold

NEIGHBOURS = 30
ROUTERS: dict[offpath.App, Any] = {}
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture(params=("sqlite", "postgres"))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backends on which rows can be written by hand."""
    return str(request.param)


@pytest.fixture
async def app(backend: Backend, store: Store) -> AsyncIterator[offpath.App]:
    """A service with something in every table."""
    url = backend.place if backend.name == "postgres" else f"sqlite:///{backend.place}"
    app = offpath.App(url, auto_start=False)

    @app.task(retry=1)
    async def work(n: int) -> int:
        if n < 0:
            raise ValueError("no")
        return n

    @app.inbox("shop")
    async def take(message: InboxMessage) -> None:
        pass

    @app.outbox("news")
    async def send(event: Any) -> None:
        pass

    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", deliver=Outbox("news"))
    ROUTERS[app] = router
    async with app:
        yield app


async def populate(app: offpath.App) -> None:
    """Something ordinary in every table."""
    work = app.tasks["work"]
    store = app.store()
    await work.enqueue(-1)
    await work.options(limit=offpath.Limit(key="one", max_running=1)).enqueue(1)
    await app.enqueue([work.job(1), work.job(2)])
    await app.worker().run_until_idle()
    waiting = await work.options(delay=3600, tags=["a"]).enqueue(1)
    await work.enqueue(1)
    await app.accept("shop", "first", {})
    await app.publish("t", {}, stream="news")
    await app.log.append("iu", "paid", "eu", {})
    await ROUTERS[app].run_once()
    await app.routers.open_gate()
    await app.store().set_gate("iu", opened=True)
    await app.log.append("iu", "paid", "eu", {})
    await plan(store, "nightly")
    await store.fire(firing(await known(store, "nightly")))
    await open_letter(store)
    await store.put_endpoint(Endpoint(name="e", url="https://example.com", secrets=("s" * 32,)))
    await store.send_signal(NewSignal(id=uid(77), target="t", event="e", payload="1", keep=3600))
    await hold(store, gate_on(waiting.id))
    await store.claim("a claim", "holder")
    await store.pause_queue("resting", until=datetime.now(UTC) + timedelta(hours=1))


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


JOBS = (("ready", "scheduled"), ("succeeded", "dead"))
OTHERS = (
    ("message", "schedule", "occurrence", "endpoint", "limit_key", "queue_pause", "signal"),
    ("worker", "claim", "job_group", "job_gate", "gate_watch", "failure", "step"),
    ("log", "router", "route", "gate", "cursor", "attempt", "letter"),
)


@pytest.mark.parametrize("states", JOBS, ids="-".join)
async def test_jobs_of_each_wrong_value_stop_no_other_job(
    app: offpath.App, backend: Backend, states: tuple[str, ...]
) -> None:
    await populate(app)
    with lifted(backend, [name_of(backend, "job")]):
        for n, state in enumerate(states):
            template = f"t.state = '{state}' and t.task = 'work'"
            assert write_bad_rows(backend, name_of(backend, "job"), template, 1000 * n) > 50
        await asyncio.wait_for(everything_works(app), 60)


@pytest.mark.parametrize("tables", OTHERS, ids=lambda tables: tables[0])
async def test_rows_of_each_wrong_value_stop_nobody(
    app: offpath.App, backend: Backend, tables: tuple[str, ...]
) -> None:
    await populate(app)
    names = [name_of(backend, table) for table in tables]
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
    names = [name_of(backend, table) for tables in OTHERS for table in tables]
    job = name_of(backend, "job")
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


def name_of(backend: Backend, table: str) -> str:
    """The name of a table in this backend."""
    if backend.name == "postgres":
        return f"offpath.{table}"
    return {"limit_key": "offpath_limit", "job_group": "offpath_group"}.get(
        table, f"offpath_{table}"
    )
