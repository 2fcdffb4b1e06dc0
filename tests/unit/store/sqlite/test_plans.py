"""Hot statements enter the job table by an index, on a table just filled and never analysed."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from offpath.model.lease import LeaseRequest, Order
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Settlement, Succeeded
from offpath.store.programs.instants import micros
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.session import SQL
from tests.conformance.builders import START, TASK, enqueue, join, new_job, take

HOT = (
    "ready_lanes",
    "scheduled_lanes",
    "promote",
    "lease_lane",
    "lease_lanes",
    "settle_ended",
    "settle_waiting",
    "same_ids",
    "replace_holders",
    "holders",
    "release_keys",
    "add_groups",
    "count_groups",
    "drop_groups",
    "enqueue",
    "enqueue_one",
    "trim_histories",
    "remove_failures",
    "remove_steps",
    "remove_jobs",
    "hold_jobs",
    "cancel_waiting",
    "cancel_running",
    "redrive",
    "lapse_keys",
    "clear_suspects",
    "add_failures",
    "trim_failures",
    "progress",
    "rescue",
    "late_workers",
    "note_gone_workers",
    "held",
    "expired_jobs",
    "get",
    "states",
    "find_some",
    "backlog",
    "signals",
)
BY_PARTIAL_INDEX = {
    "suspects": "suspected",
    "orphans": "running",
    "keyless_running": "keyless",
    "running_by_limit": "running",
    "due_queued": "deadline",
}
"""Walk a few running jobs, and nothing else."""

FROM_START: dict[str, Any] = {"from_task": "", "from_queue": "", "most": 64}

_WALK = re.compile(
    r"^SCAN (?!json_each|\(|lane|line|new|change|alive|worker|candidate|wanted|tag|found"
    r"|ready_l|scheduled_l|asked|named)"
)
_FIRST_OF_INDEX = re.compile(r"^SCAN job USING INDEX offpath_job_(ready|scheduled|turn)$")


@pytest.fixture
async def filled(store: SqliteStore, path: Path) -> sqlite3.Connection:
    await enqueue(store, *(new_job(f"task{n % 5}") for n in range(2_000)))
    return sqlite3.connect(path)


def plan(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    statement = SQL[name]
    values = dict.fromkeys(statement.parameters, 1)
    for row in connection.execute(f"explain query plan {statement.named}", values):
        yield row[3]


async def test_no_hot_statement_walks_the_jobs(filled: sqlite3.Connection) -> None:
    with closing(filled):
        walks = {
            (name, line)
            for name in HOT
            for line in plan(filled, name)
            if _WALK.search(line)
            # The first entry of an index is read by a scan that ends at once.
            and not _FIRST_OF_INDEX.search(line)
            and "CONSTANT ROW" not in line
            and "INDEX offpath_job_dead" not in line
        }
    assert walks == set()


async def test_orphans_are_looked_for_among_the_running(filled: sqlite3.Connection) -> None:
    with closing(filled):
        for name, index in BY_PARTIAL_INDEX.items():
            lines = list(plan(filled, name))
            assert any(f"offpath_job_{index}" in line for line in lines), lines


async def test_wrong_statistics_do_not_change_that(filled: sqlite3.Connection) -> None:
    """Statistics say that every job is of one worker, one queue and ready: the worst advice."""
    with closing(filled):
        filled.execute("analyze")
        filled.execute("update sqlite_stat1 set stat = '1 1 1 1 1 1' where tbl = 'offpath_job'")
        filled.commit()
        with closing(sqlite3.connect(_file(filled))) as fresh:
            for name in ("settle_ended", "settle_waiting", "signals", "progress"):
                lines = list(plan(fresh, name))
                assert any("sqlite_autoindex_offpath_job_1 (id=?)" in line for line in lines), lines


def _tasks_of(connection: sqlite3.Connection) -> list[str]:
    return [task for (task,) in connection.execute("select distinct task from offpath_job")]


def _file(connection: sqlite3.Connection) -> str:
    return str(connection.execute("pragma database_list").fetchone()[2])


async def test_the_lanes_cost_the_same_however_many_jobs_there_are(
    filled: sqlite3.Connection,
) -> None:
    """A pair comparison would walk the whole queue; counted in steps of SQLite's machine."""
    with closing(filled):
        asked = {"tasks": json.dumps(_tasks_of(filled)), "queues": "[]", **FROM_START}
        lanes, steps = counted(filled, "ready_lanes", **asked)
        assert len([queue for _, queue in lanes if queue is not None]) == 5
        assert steps < 2_000


async def test_lanes_of_others_are_jumped_over(store: SqliteStore, path: Path) -> None:
    """By task in a queue that is shared, and by queue where the queues are named."""
    mine = [new_job(task=f"mine.{n}", queue="q5") for n in range(3)]
    await enqueue(store, *mine)
    for n in range(0, 3_000, 500):
        more = [f"other.{number}" for number in range(n, n + 500)]
        await enqueue(store, *(new_job(task=each, queue="q5") for each in more))
        await enqueue(store, *(new_job(task="mine.1", queue=each) for each in more))
        await enqueue(store, *(new_job(task=each, queue="q5", delay=60) for each in more))
    asked = {"tasks": json.dumps([job.task for job in mine]), "queues": json.dumps(["q5"])}
    with closing(sqlite3.connect(path)) as connection:
        lanes, steps = counted(connection, "ready_lanes", **asked, **FROM_START)
        assert (lanes, steps < 2_000) == ([(job.task, "q5") for job in mine], True)
        lanes, steps = counted(connection, "scheduled_lanes", **asked)
        assert (lanes, steps < 2_000) == ([], True)


async def test_queues_that_have_none_of_the_tasks_are_not_walked(
    store: SqliteStore, path: Path
) -> None:
    mine = [new_job(task="mine", queue=queue) for queue in ("a", "zz")]
    others = [new_job(task="other", queue=f"q{n}", delay=n % 2) for n in range(3_000)]
    await enqueue(store, *mine, *others)
    with closing(sqlite3.connect(path)) as connection:
        asked = {"tasks": '["mine"]', "queues": "[]"}
        lanes, steps = counted(connection, "ready_lanes", **asked, **FROM_START)
        assert (lanes, steps < 1_000) == ([("mine", "a"), ("mine", "zz"), ("mine", None)], True)
        lanes, steps = counted(connection, "scheduled_lanes", **asked)
        assert (lanes, steps < 1_000) == ([], True)


async def test_a_bounded_number_of_lanes_and_fair_keys_is_looked_at(
    store: SqliteStore, path: Path
) -> None:
    await enqueue(store, *(new_job(queue=f"q{n}", fair_key=f"k{n}") for n in range(3_000)))
    await enqueue(store, *(new_job(fair_key=f"k{n}") for n in range(3_000)))
    await join(store)
    request = LeaseRequest(worker="w1", limit=1, tasks={TASK: 1}, order=Order.BALANCED)
    await store.lease(request)  # makes the index
    with closing(sqlite3.connect(path)) as connection:
        asked = {"tasks": json.dumps([TASK]), "queues": "[]", **FROM_START}
        lanes, steps = counted(connection, "ready_lanes", **asked)
        assert (len(lanes), steps < 5_000) == (64, True)
        line: dict[str, Any] = {"lanes": json.dumps([["default", TASK]]), "start": "k5", "most": 64}
        keys, steps = counted(connection, "turn_keys", **line)
        assert (len(keys), steps < 5_000) == (64, True)


async def test_a_lease_by_age_costs_the_same_however_many_fair_keys_there_are(
    store: SqliteStore, path: Path
) -> None:
    await enqueue(store, *(new_job(fair_key=f"k{n}", priority=n) for n in range(3_000)))
    await join(store)
    request = LeaseRequest(worker="w1", limit=1, tasks={TASK: 1}, order=Order.AGE)
    await store.lease(request)  # makes the index
    with closing(sqlite3.connect(path)) as connection:
        line: dict[str, Any] = {"lines": json.dumps([["default", TASK, ""]]), "limit": 8}
        jobs, steps = counted(connection, "lane_oldest", **line, declined="[]", now=micros(START))
        assert (len(jobs), steps < 2_000) == (8, True)


async def test_a_pass_costs_the_same_however_many_jobs_have_a_deadline(
    store: SqliteStore, path: Path
) -> None:
    await enqueue(store, *(new_job(deadline_in=60.0, delay=n % 2) for n in range(1_000)))
    with closing(sqlite3.connect(path)) as connection:
        now = micros(START)
        late, steps = counted(connection, "due_queued", now=now, limit=10)
        assert (late, steps < 1_000) == ([], True)
        late, steps = counted(connection, "due_queued", now=now + 60_000_000, limit=10)
        assert (len(late), steps < 1_000) == (10, True)


async def test_admission_walks_neither_ended_nor_held_jobs(store: SqliteStore, path: Path) -> None:
    """The index of all jobs with a key has those that have ended, too."""
    await join(store)
    for key in ("a", "b"):
        limit = LimitSpec(key=key, max_running=500)
        await enqueue(store, *(new_job(limit=limit) for _ in range(1_500)))
    await store.admit(limit=1_000)
    held = await take(store, limit=600, tasks={TASK: 600})
    await store.settle([Settlement(job=job, outcome=Succeeded()) for job in held[:599]])
    with closing(sqlite3.connect(path)) as connection:
        keys, steps = counted(connection, "held_keys")
        assert [row[0] for row in keys] == ["a", "b"]
        assert steps < 1_000
        running, steps = counted(connection, "running_by_limit")
        assert [row[1] for row in running] == [1]
        assert steps < 1_000


def counted(
    connection: sqlite3.Connection, name: str, **values: int | str
) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a statement, and about how many steps SQLite's machine took for them."""
    steps = 0
    # The first statement of a connection reads the whole schema, which is none of its steps.
    connection.execute("select count(*) from pragma_table_info('offpath_job')").fetchall()

    def count() -> int:
        nonlocal steps
        steps += 10
        return 0

    connection.set_progress_handler(count, 10)
    rows = connection.execute(SQL[name].named, values).fetchall()
    connection.set_progress_handler(None, 0)
    return rows, steps
