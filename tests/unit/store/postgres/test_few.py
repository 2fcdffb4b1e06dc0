"""Where few jobs are ready, a lease has a statement of its own, with the ordinary one's answers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState, NewJob
from offpath.model.lease import Leased, LeaseRequest, Order
from offpath.runtime.clock import ManualClock
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.few import MOST, Few
from offpath.store.postgres.lease import Leases
from offpath.store.postgres.migrate import PACKAGE
from offpath.store.programs.dialect import Send, Steps
from offpath.store.sql import catalogue
from tests.conformance.builders import LEASE, START, TASK, new_job, unique, worker_info

from .conftest import Opened

SQL = catalogue(PACKAGE)
ORDINARY, FEW = ["promote", "lease"], ["lease_few"]


def asked(limit: int = 100, **fields: Any) -> LeaseRequest:
    fields.setdefault("tasks", {TASK: limit})
    return LeaseRequest(worker="w1", limit=limit, **fields)


async def with_worker(opened: Opened) -> tuple[PostgresStore, list[str]]:
    """A store with a worker, and the names of the statements that it sends from now on."""
    store, sent = await opened(), list[str]()
    await store.register(worker_info("w1"), lease_seconds=600)
    store._before_statement = sent.append
    return store, sent


async def leased(store: PostgresStore, sent: list[str], request: LeaseRequest) -> Leased:
    """A lease; ``sent`` has the statements of it alone."""
    sent.clear()
    return await store.lease(request)


async def add(store: PostgresStore, *jobs: NewJob) -> None:
    await store.commit(Effects(jobs=jobs))


# -- which statement -------------------------------------------------------------------------------


async def test_a_worker_that_waits_for_work_asks_by_the_statement_for_few(opened: Opened) -> None:
    store, sent = await with_worker(opened)
    assert (await leased(store, sent, asked())).jobs == ()
    assert sent == FEW
    job = new_job()
    await add(store, job)
    assert [each.id for each in (await leased(store, sent, asked())).jobs] == [job.id]
    assert sent == FEW


async def test_a_task_with_little_room_keeps_the_others_few(opened: Opened) -> None:
    store, sent = await with_worker(opened)
    jobs = [new_job() for _ in range(9)]
    await add(store, *jobs, new_job("another"))
    got = await leased(store, sent, asked(tasks={TASK: 100, "another": 1}))
    assert sent == FEW
    assert len(got.jobs) == 10


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        pytest.param(asked(), MOST + 1, id="more than few"),
        pytest.param(asked(2), 3, id="more than asked for"),
        pytest.param(asked(tasks={TASK: 2, "another": 9}), 3, id="more than a room"),
    ],
)
async def test_where_there_is_more_the_ordinary_statement_chooses(
    opened: Opened, request_: LeaseRequest, count: int
) -> None:
    store, sent = await with_worker(opened)
    jobs = [new_job(priority=n) for n in range(count)]
    await add(store, *jobs)
    got = await leased(store, sent, request_)
    assert sent == [*FEW, *ORDINARY]
    most = min(count, request_.limit, request_.tasks[TASK])
    assert [job.id for job in got.jobs] == [job.id for job in reversed(jobs)][:most]


async def test_a_job_that_is_due_is_made_ready_by_the_ordinary_statement(opened: Opened) -> None:
    store, sent = await with_worker(opened)
    await add(store, new_job(delay=0.05))
    soon = (await leased(store, sent, asked())).due_in
    assert sent == FEW
    assert soon is not None
    assert 0 < soon <= 0.05
    store._leases.front._clock = lambda: float("inf")  # it is due by then, as far as is known here
    await leased(store, sent, asked())
    assert sent == ORDINARY


async def test_who_would_claim_a_key_is_left_to_the_ordinary_statement(opened: Opened) -> None:
    """Of two that claim one key only as they run, it hands out one."""
    store, sent = await with_worker(opened)
    jobs = [new_job(unique=unique("k", states=frozenset({JobState.RUNNING}))) for _ in range(2)]
    await add(store, *jobs)
    got = await leased(store, sent, asked())
    assert sent[:3] == [*FEW, *ORDINARY]
    assert [job.id for job in got.jobs] == [jobs[0].id]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asked(order=Order.AGE), id="by age"),
        pytest.param(asked(queue_rooms={"default": 1}), id="with the room of a queue"),
        pytest.param(asked(declined=("x",)), id="passing over what was declined"),
        pytest.param(asked(suspects_only=True), id="suspects"),
    ],
)
async def test_what_is_not_plain_has_its_own_statements(
    opened: Opened, request_: LeaseRequest
) -> None:
    store, sent = await with_worker(opened)
    await leased(store, sent, request_)
    assert not {*FEW, "lease"} & set(sent)


async def test_behind_a_backlog_it_is_not_tried(opened: Opened) -> None:
    store, sent = await with_worker(opened)
    await add(store, *(new_job() for _ in range(50)))
    await leased(store, sent, asked(10))
    for _ in range(3):
        await leased(store, sent, asked(10))
        assert not set(FEW) & set(sent)


def test_where_it_takes_nothing_it_is_tried_less_and_less_often() -> None:
    few, tried = Few(), list[int]()
    for turn in range(300):
        if few.within(asked()):
            tried.append(turn)
            few.refused()
        few.passed_over()
    gaps = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert gaps[:6] == [2, 4, 8, 16, 32, 64]
    assert max(gaps) == 64
    few.answered()
    few.refused()
    few.passed_over()
    assert few.within(asked()) is None, "the lease behind a refused one is spared the try"
    few.passed_over()
    assert few.within(asked()) == (MOST, [], MOST)


# -- the same answers ------------------------------------------------------------------------------

_TASKS, _QUEUES = (TASK, "task.b", "task.c"), ("default", "slow", "shut")
Chance = random.Random


def _job(chance: Chance) -> NewJob:
    task = chance.choice(_TASKS)
    key = unique(
        f"{task}-{chance.randrange(3)}",
        states=chance.choice(
            [(JobState.QUEUED, JobState.RUNNING), (JobState.QUEUED,), (JobState.RUNNING,)]
        ),
    )
    return new_job(
        task,
        queue=chance.choice(_QUEUES),
        priority=chance.randrange(3),
        delay=chance.choice([0.0, 0.0, 0.0, 0.0, 5.0, 90.0]),
        unique=key if chance.random() < 0.1 else None,
    )


_SPOILS: tuple[Callable[[Chance], str], ...] = (
    lambda _: "update offpath.job set suspected = 'crash' where state = 'ready' and priority = 2",
    lambda _: "insert into offpath.queue_pause (queue) values ('shut')",
    lambda _: f"insert into offpath.queue_pause (queue, until) values ('slow', '{START}')",
    lambda _: "update offpath.worker set expires_at = started_at where id = 'w1'",
    lambda _: "update offpath.job set unique_held = false where unique_key is not null",
)


def _request(chance: Chance) -> LeaseRequest:
    rooms = {
        task: chance.choice([0, 3, 50, 50, 50, 50]) for task in _TASKS if chance.random() < 0.9
    }
    queues = tuple(queue for queue in _QUEUES if chance.random() < 0.6)
    return asked(
        chance.choice([4, 100, 100]), tasks=rooms, queues=queues if chance.random() < 0.4 else ()
    )


def _undone(connection: psycopg.Connection[Any], steps: Steps[Leased]) -> Leased:
    """What steps answer, whose writes are undone."""
    with connection.transaction(force_rollback=True):
        try:
            send: Send = next(steps)
            while True:
                cursors = [
                    connection.execute(query.statement.pyformat.encode(), query.params)
                    for query in send.queries
                ]
                send = steps.send([each.fetchall() if each.description else [] for each in cursors])
        except StopIteration as done:
            answer: Leased = done.value
            return answer


async def test_random_tables_give_the_answer_of_the_ordinary_statement(
    opened: Opened, url: str
) -> None:
    clock = ManualClock(START)
    store = await opened(clock=clock)
    answered = taken = 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL["settle_in"].wire)
        for seed in range(150):
            chance = Chance(seed)
            connection.execute("delete from offpath.job")
            connection.execute("delete from offpath.queue_pause")
            clock.set(START)
            await store.register(worker_info("w1"), lease_seconds=LEASE * 10)
            await add(store, *(_job(chance) for _ in range(chance.choice([0, 1, 2, 3, 5]))))
            for spoil in _SPOILS:
                if chance.random() < 0.15:
                    connection.execute(spoil(chance).encode())
            now, request = START + timedelta(seconds=chance.choice([0, 0, 0, 10])), _request(chance)
            few = Leases()
            mine = _undone(connection, few.steps(request, now, sql=SQL))
            if few.few.refusals:
                assert mine == Leased(jobs=(), now=now, more=True)
                continue
            ordinary = _undone(connection, Leases(few=0).steps(request, now, sql=SQL))
            assert mine == ordinary, seed
            answered += 1
            taken += len(mine.jobs)
    assert answered > 60
    assert taken > 60
