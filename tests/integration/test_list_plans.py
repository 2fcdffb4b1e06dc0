"""Lists of a dashboard read a bounded number of rows, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from offpath.model.job import JobFilter, JobState
from offpath.model.message import MessageFilter, MessageState
from offpath.store.postgres import PostgresStore
from offpath.store.programs import browse, messages, reads
from offpath.store.sql import Query
from tests.integration.planned_statements import SQL, D
from tests.integration.test_plans import nodes_of, touched
from tests.servers import Databases

_MOST = 100
_MEMBERS = 3_000
_FILL = """
    insert into offpath.job (
        id, state, task, queue, enqueued_at, run_at, finished_at, expires_at, reason, error_key,
        input, fingerprint, options, group_id, grouped
    )
    select
        gen_random_uuid(), k.state, 'task-' || n % 10, 'queue-' || n % 4, now(), now(),
        case when k.state in ('dead', 'succeeded') then now() end, null,
        case when k.state = 'dead' then 'exhausted' end,
        case when k.state = 'dead' then 'Boom: ' || n % 3 end,
        '{"n": 1}', '', '{}',
        case when n % 20 = 0 then '01900000-0000-7000-8000-000000000000' end, n % 20 = 0
    from generate_series(1, 60000) as n
    cross join lateral (
        select (array['ready', 'scheduled', 'dead', 'succeeded'])[n % 4 + 1] as state
    ) as k;
    insert into offpath.message (
        id, box, stream, topic, state, created_at, due_at, finished_at, reason, payload
    )
    select
        'm-' || n, 'out', 's' || n % 10, 'order.paid', k.state, now(), now(),
        case when k.state <> 'pending' then now() end,
        case when k.state = 'dead' then 'exhausted' end, '{}'
    from generate_series(1, 60000) as n
    cross join lateral (
        select case when n % 20 = 0 then 'dead' when n % 3 = 0 then 'pending' else 'done' end
            as state
    ) as k
"""


@pytest.fixture(scope="module")
def filled(postgres_databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A database with 15,000 jobs of each of four states, vacuumed as it is in operation."""
    url = postgres_databases.create()
    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        thread.submit(asyncio.run, PostgresStore(url).migrate()).result()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(_FILL)
        connection.execute("vacuum analyze offpath.job, offpath.message")
        yield connection
    postgres_databases.drop(url)


def scans(
    connection: psycopg.Connection[Any], query: Query, table: str = "job"
) -> list[dict[str, Any]]:
    """The scans of a table, as the session of one who looks runs it."""
    text = f"explain (analyze, timing off, format json) {query.statement.pyformat}"
    with connection.transaction(force_rollback=True):
        connection.execute(SQL["settle_in"].pyformat.encode())
        connection.execute(SQL["settle_in_freely"].pyformat.encode())
        row = connection.execute(text.encode(), query.params).fetchone()
    assert row is not None
    found = nodes_of(row[0][0]["Plan"])
    return [one for one in found if one.get("Relation Name") == table]


def test_queues_are_stepped_to_and_counted_up_to_a_limit(
    filled: psycopg.Connection[Any],
) -> None:
    found = scans(filled, SQL["queues"](now=None, most=_MOST))
    assert {one["Node Type"] for one in found}.isdisjoint({"Seq Scan"})
    # four queues in two states, a step to each of them, and nothing else that waits
    assert sum(touched(one) for one in found) <= 2 * 4 * (_MOST + 2)


def test_faults_look_at_no_more_than_they_say(filled: psycopg.Connection[Any]) -> None:
    found = scans(filled, SQL["faults"](most=1_000, limit=_MOST, task=None))
    assert [one["Index Name"] for one in found] == ["job_dead"]
    assert sum(touched(one) for one in found) == 1_000


def test_the_dead_are_counted_from_indexes_up_to_a_limit(
    filled: psycopg.Connection[Any],
) -> None:
    found = scans(filled, SQL["dead_tally"](most=_MOST))
    assert {one["Index Name"] for one in found} == {"job_dead", "job_died"}
    assert sum(touched(one) for one in found) <= _MOST + 1


def test_members_of_a_group_are_found_by_it(filled: psycopg.Connection[Any]) -> None:
    group = "01900000-0000-7000-8000-000000000000"
    where = JobFilter(group_id=group, states=(JobState.RUNNING,))
    for newest in (True, False):
        (query,) = next(reads.find(D, where, limit=50, newest=newest)).queries
        found = scans(filled, query)
        assert sum(touched(one) for one in found) <= _MEMBERS, found


@pytest.mark.parametrize("newest", [True, False])
def test_children_are_found_by_their_parent(filled: psycopg.Connection[Any], newest: bool) -> None:
    where = JobFilter(parent="01900000-0000-7000-8000-0000000000aa")
    steps = browse.browse(D, where, newest=newest)
    (query,) = next(steps).queries
    (reach,) = steps.send([[]]).queries
    for one in (query, reach):
        found = scans(filled, one)
        assert {scan["Node Type"] for scan in found}.isdisjoint({"Seq Scan"})
        assert sum(touched(scan) for scan in found) == 0, found


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize(
    ("where", "index"),
    [
        (MessageFilter(topics=("nobody.has.it",)), "message_position"),
        (MessageFilter(streams=("s3",), states=(MessageState.PENDING,)), "message_position"),
        (MessageFilter(streams=("none",), states=(MessageState.DEAD,)), "message_dead_place"),
    ],
)
def test_messages_are_looked_at_up_to_a_limit_whatever_matches(
    filled: psycopg.Connection[Any], where: MessageFilter, index: str, newest: bool
) -> None:
    steps = messages.look(D, where, limit=1_000, most=_MOST, newest=newest)
    (query,) = next(steps).queries
    (reach,) = steps.send([[]]).queries
    for one in (query, reach):
        found = scans(filled, one, "message")
        assert [scan["Index Name"] for scan in found] == [index]
        assert sum(touched(scan) for scan in found) <= _MOST
