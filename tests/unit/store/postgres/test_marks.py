"""A store on a real server leases behind what it took, and finds what came in before that."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import psycopg
import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Settlement, Succeeded
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.front import LOOK, Mark
from offpath.store.postgres.lease import Leases
from offpath.store.postgres.migrate import PACKAGE
from offpath.store.sql import Query, catalogue
from tests.conformance.builders import TASK, new_job, unique, worker_info

from .conftest import Opened

SQL = catalogue(PACKAGE)


class Time:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def with_worker(opened: Opened) -> tuple[PostgresStore, Leases, Time]:
    """A store with a worker; its leases, and their time."""
    store = await opened()
    await store.register(worker_info("w1"), lease_seconds=600)
    time = Time()
    store._leases.front._clock = time
    return store, store._leases, time


async def silent(opened: Opened) -> PostgresStore:
    """A store whose notices do not arrive."""
    store = await opened()
    store._announcer.announce = lambda hint: None  # type: ignore[method-assign]
    return store


def asked(limit: int) -> LeaseRequest:
    return LeaseRequest(worker="w1", limit=limit, tasks={"mail.send": limit})


async def worked_off(store: PostgresStore, count: int, limit: int) -> list[str]:
    """Lease and end so many jobs; their ids."""
    ids: list[str] = []
    while len(ids) < count:
        leased = await store.lease(asked(limit))
        ids += [job.id for job in leased.jobs]
        await store.settle([Settlement(job=job, outcome=Succeeded()) for job in leased.jobs])
    return ids


def _nodes(plan: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def pages(url: str, query: Query) -> int:
    """The pages that a lease reads in the indexes of ready jobs; it is rolled back."""
    text = f"explain (analyze, buffers, timing off, format json) {query.statement.pyformat}"
    with psycopg.connect(url) as connection:
        connection.execute(SQL["pin"].pyformat.encode())
        row = connection.execute(text.encode(), query.params).fetchone()
        connection.rollback()
    assert row is not None
    return sum(
        node["Shared Hit Blocks"] + node["Shared Read Blocks"]
        for node in _nodes(row[0][0]["Plan"])
        if node.get("Index Name") in {"job_ready", "job_turns"} and not node.get("Plans")
    )


async def test_jobs_keep_their_order_behind_marks(opened: Opened) -> None:
    store, leases, _ = await with_worker(opened)
    jobs = [new_job(priority=n % 3, queue=f"queue-{n % 2}") for n in range(120)]
    added = await store.commit(Effects(jobs=tuple(jobs)))
    order = {one.job_id: (-job.priority, one.job_id) for one, job in zip(added, jobs, strict=True)}
    queues = {one.job_id: job.queue for one, job in zip(added, jobs, strict=True)}
    first = await worked_off(store, 10, 10)
    assert leases.front.marks(asked(10)) is not None
    got = first + await worked_off(store, 110, 10)
    for queue in set(queues.values()):
        mine = [job for job in got if queues[job] == queue]
        assert mine == sorted(mine, key=order.__getitem__)


async def test_what_another_process_adds_first_is_found_within_a_second(opened: Opened) -> None:
    store, leases, time = await with_worker(opened)
    await store.commit(Effects(jobs=tuple(new_job() for _ in range(50))))
    await worked_off(store, 10, 5)
    other = await silent(opened)
    [urgent] = await other.commit(Effects(jobs=(new_job(priority=9),)))
    assert leases.front.marks(asked(5)) is not None
    assert urgent.job_id not in await worked_off(store, 5, 5)
    time.now += LOOK
    assert urgent.job_id in await worked_off(store, 5, 5)


async def test_what_this_process_adds_first_is_had_first(opened: Opened) -> None:
    store, _, _ = await with_worker(opened)
    await store.commit(Effects(jobs=tuple(new_job() for _ in range(50))))
    await worked_off(store, 10, 5)
    [urgent] = await store.commit(Effects(jobs=(new_job(priority=9),)))
    assert urgent.job_id in await worked_off(store, 5, 5)


async def test_the_last_jobs_are_had_where_the_known_lanes_are_empty(opened: Opened) -> None:
    store, leases, _ = await with_worker(opened)
    await store.commit(Effects(jobs=tuple(new_job() for _ in range(10))))
    await worked_off(store, 5, 5)
    other = await silent(opened)
    [elsewhere] = await other.commit(Effects(jobs=(new_job(queue="another"),)))
    assert leases.front.marks(asked(10)) is not None
    leased = await store.lease(asked(10))
    assert len(leased.jobs) == 6
    assert elsewhere.job_id in {job.id for job in leased.jobs}
    assert not leased.more


async def test_dead_entries_are_not_walked_over(url: str, opened: Opened) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("alter table offpath.job set (autovacuum_enabled = false)")
    store, leases, _ = await with_worker(opened)
    for _ in range(6):
        await store.commit(Effects(jobs=tuple(new_job() for _ in range(1_000))))
    # an open snapshot elsewhere: nothing may be removed, by nobody
    with psycopg.connect(url) as elsewhere:
        elsewhere.execute("set transaction isolation level repeatable read")
        elsewhere.execute("select 1 from offpath.job limit 1")
        await worked_off(store, 5_000, 250)
        behind, look = leases.steps(asked(10), None, sql=SQL), Leases(few=0).steps
        assert leases.front.marks(asked(10)) is not None
        [query] = next(behind).queries
        _, walk = next(look(asked(10), None, sql=SQL)).queries
        assert pages(url, query) * 10 < pages(url, walk)


# -- one lane has a statement of its own -----------------------------------------------------------


def _by_lease(mark: Mark, limit: int) -> Query:
    return SQL["lease"](
        now=None,
        worker="w1",
        limit=limit,
        reach=8 * limit,
        tasks=f'{{"{TASK}": {limit}}}',
        queues="[]",
        served="{}",
        marks=msgspec.json.encode([mark]).decode(),
        lanes=64,
        from_task="",
        from_queue="",
    )


def _behind(mark: Mark, limit: int) -> Query:
    return SQL["lease_behind"](now=None, worker="w1", limit=limit, **msgspec.structs.asdict(mark))


def _rows(connection: psycopg.Connection[Any], query: Query) -> list[Any]:
    """The jobs that a statement hands out, which is undone."""
    with connection.transaction(force_rollback=True):
        rows = connection.execute(query.statement.pyformat.encode(), query.params).fetchall()
        return [row[4:] for row in rows if row[4] is not None]


_SPOILS = (
    "update offpath.job set suspected = 'crash' where priority = 2",
    "insert into offpath.queue_pause (queue) values ('default')",
    "insert into offpath.queue_pause (queue, until) values ('default', now() - interval '1 day')",
    "update offpath.worker set expires_at = started_at where id = 'w1'",
    "update offpath.job set unique_held = false where unique_key is not null",
    "update offpath.job set run_at = run_at - interval '1 minute' where priority = 1",
)


async def test_one_lane_is_had_as_by_the_statement_for_many(opened: Opened, url: str) -> None:
    store = await opened()
    had = 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL["settle_in"].wire)
        for seed in range(120):
            chance = random.Random(seed)
            connection.execute("delete from offpath.job")
            connection.execute("delete from offpath.queue_pause")
            await store.register(worker_info("w1"), lease_seconds=600)
            jobs = [
                new_job(
                    priority=chance.randrange(3),
                    queue=chance.choice(["default", "default", "other"]),
                    unique=unique(f"k{n % 3}-{n}", states=frozenset({JobState.RUNNING}))
                    if chance.random() < 0.3
                    else None,
                )
                for n in range(chance.choice([0, 3, 12]))
            ]
            await store.commit(Effects(jobs=tuple(jobs)))
            if chance.random() < 0.5:  # of two that claim one key the first runs
                connection.execute(
                    "update offpath.job set unique_key = left(unique_key, 2), unique_held = false "
                    "where unique_key is not null"
                )
            for spoil in _SPOILS:
                if chance.random() < 0.1:
                    connection.execute(spoil)
            at = connection.execute(
                "select priority, (extract(epoch from run_at) * 1000000)::bigint, id::text "
                "from offpath.job order by id offset %s limit 1",
                (chance.randrange(4),),
            ).fetchone()
            place = at if at is not None and chance.random() < 0.7 else (None, None, None)
            mark, limit = Mark("default", TASK, *place), chance.choice([1, 2, 5, 50])
            rows = _rows(connection, _behind(mark, limit))
            assert rows == _rows(connection, _by_lease(mark, limit)), seed
            had += len(rows)
    assert had > 60


async def test_what_others_hold_is_passed_over(opened: Opened, url: str) -> None:
    store = await opened()
    await store.register(worker_info("w1"), lease_seconds=600)
    added = await store.commit(Effects(jobs=tuple(new_job() for _ in range(6))))
    ids = sorted(one.job_id for one in added)
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as connection:
        other.execute("select from offpath.job where id = any (%s::uuid[]) for update", (ids[:2],))
        rows = _rows(connection, _behind(Mark("default", TASK), 3))
        assert [row[0] for row in rows] == ids[2:5]


@pytest.mark.parametrize(("room", "limit", "had"), [(2, 5, 2), (5, 3, 3)])
async def test_the_room_of_the_task_bounds_it(
    opened: Opened, room: int, limit: int, had: int
) -> None:
    store, leases, _ = await with_worker(opened)
    await store.commit(Effects(jobs=tuple(new_job() for _ in range(20))))
    await worked_off(store, 4, 2)
    request = LeaseRequest(worker="w1", limit=limit, tasks={TASK: room})
    sent: list[str] = []
    store._before_statement = sent.append
    assert leases.front.marks(request) is not None
    assert len((await store.lease(request)).jobs) == had
    assert sent[0] == "lease_behind"
