"""No hot statement depends on statistics: it reads about what it returns, whatever the planner
believes of the table.

The table is filled with 50,000 rows and was either never analysed or analysed while it was empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql as compose

from offpath.store.postgres import PostgresStore
from offpath.store.sql import Query
from tests.integration.planned_statements import SQL, TRANSITIONS
from tests.servers import Databases

MOST_READ = 2_000
"""Rows of a table that a statement may touch for a batch of 100, out of 50,000."""

_BIG = {"job", "failure", "gate_watch"}

Explain = Callable[[psycopg.Connection[Any], Query], list[dict[str, Any]]]

_FILL = """
    insert into offpath.job (
        id, state, task, queue, priority, enqueued_at, run_at, started_at, finished_at, expires_at,
        worker, deliveries, input, fingerprint, options, group_id, grouped, deadline
    )
    select
        gen_random_uuid(), k.state, 'task-' || n % 10, 'queue-' || n % 4, n % 3,
        now(), now() + case when k.state = 'scheduled' then interval '1 hour' else '-1 hour' end,
        case when k.state = 'running' then now() end,
        case when k.state in ('succeeded', 'dead') then now() end,
        case when k.state = 'succeeded' then now() + (n || ' seconds')::interval end,
        case when k.state = 'running' then 'worker-' || n % 20 end,
        1, '{"n": 1}', '', '{}',
        case when n % 10 = 0 then 'group-' || n % 1000 end, n % 10 = 0,
        case when n % 7 = 0 then now() + (n - 50 || ' seconds')::interval end
    from generate_series(1, 50000) as n
    cross join lateral (
        select case
            when n % 5 < 2 then 'ready'
            when n % 5 = 2 then 'scheduled'
            when n % 5 = 3 then 'running'
            when n % 50 = 4 then 'dead'
            else 'succeeded'
        end as state
    ) as k;
    insert into offpath.failure (job, delivery, attempt, at, kind, type, message)
    select j.id, 1, 1, now(), 'error', 'ValueError', 'no' from offpath.job j where j.state = 'dead';
    insert into offpath.job_group (id, open)
    select j.group_id, count(*) from offpath.job j where j.grouped group by j.group_id;
    with watched as (
        update offpath.job set watched = 1
        where id in (select id from offpath.job where state = 'running' limit 5000)
        returning id
    )
    insert into offpath.gate_watch (job, gate, n)
    select id, md5((row_number() over () % 500)::text)::uuid, 1 from watched;
    insert into offpath.job_gate (id, need, total, counting)
    select gate, count(*), count(*), 'succeeded' from offpath.gate_watch group by gate;
    insert into offpath.job (
        id, state, task, queue, enqueued_at, run_at, input, fingerprint, options, gate, gated_by,
        reason, blocked_until
    )
    select
        gen_random_uuid(), 'blocked', 'task-1', 'queue-1', now(), now(), '{}', '', '{}', g.id, g.id,
        'gate', now() + interval '1 hour'
    from offpath.job_gate g cross join generate_series(1, 10);
    insert into offpath.job (
        id, state, reason, task, queue, enqueued_at, run_at, input, fingerprint, options,
        limit_key, limit_spec
    )
    select
        gen_random_uuid(), 'blocked', 'limit', 'task-1', 'queue-' || n % 2, now(), now(), '{}', '',
        '{}', 'key-' || n % 10, '{"max_running": 50}'
    from generate_series(1, 20000) as n;
    insert into offpath.limit_key (key, max_running, waiting)
    select 'key-' || n, 50, true from generate_series(0, 9) as n;
    insert into offpath.worker (
        id, host, pid, version, concurrency, tasks, queues, started_at, seen_at, expires_at
    )
    select
        'worker-' || n, 'host', n, '1', 1, '[]', '[]', now(), now(), now() + interval '1 hour'
    from generate_series(1, 19) as n
"""


_TABLES = """
    select c.oid::regclass::text from pg_class c
    where c.relnamespace = 'offpath'::regnamespace and c.relkind = 'r'
"""

_SMALL = _FILL.replace("50000", "1500").replace("20000", "200").replace("% 500)", "% 5)")


@pytest.fixture(scope="module", params=["never analysed", "analysed while empty"])
def filled(
    request: pytest.FixtureRequest, postgres_databases: Databases
) -> Iterator[psycopg.Connection[Any]]:
    """A filled table of which the planner knows nothing, or the wrong thing."""
    yield from _filled(postgres_databases, analysed=request.param == "analysed while empty")


@pytest.fixture(scope="module")
def small(postgres_databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A table so small that reading all of it once looks cheap, and of which nothing is known."""
    yield from _filled(postgres_databases, analysed=False, fill=_SMALL)


def _filled(
    postgres_databases: Databases, *, analysed: bool, fill: str = _FILL
) -> Iterator[psycopg.Connection[Any]]:
    url = postgres_databases.create()
    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        thread.submit(asyncio.run, PostgresStore(url).migrate()).result()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        # A table that the server analyses or vacuums by itself in between has other plans.
        for (table,) in connection.execute(_TABLES).fetchall():
            connection.execute(f"alter table {table} set (autovacuum_enabled = false)".encode())
        if analysed:
            connection.execute("analyze")
        connection.execute(fill.encode())
        yield connection
    postgres_databases.drop(url)


# -- the plans -----------------------------------------------------------------------------------


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


def explained(connection: psycopg.Connection[Any], query: Query) -> list[dict[str, Any]]:
    """The nodes of the plan as it was really run; what it wrote is rolled back."""
    text = f"explain (analyze, timing off, format json) {query.statement.pyformat}"
    with connection.transaction(force_rollback=True):
        connection.execute(SQL["pin"].pyformat.encode())
        row = connection.execute(text.encode(), query.params).fetchone()
    assert row is not None
    return list(nodes_of(row[0][0]["Plan"]))


def explained_generic(connection: psycopg.Connection[Any], query: Query) -> list[dict[str, Any]]:
    """The plan without its values, as a prepared statement has it."""
    values = compose.SQL(", ").join(map(compose.Literal, query.for_dollar()))
    ask = compose.SQL("explain (analyze, timing off, format json) execute it ({})").format(values)
    with connection.transaction(force_rollback=True):
        connection.execute(SQL["pin"].pyformat.encode())
        connection.execute("set local plan_cache_mode = force_generic_plan")
        connection.execute(f"prepare it as {query.statement.dollar}".encode())
        try:
            row = connection.execute(ask).fetchone()
        finally:
            connection.execute("deallocate it")
    assert row is not None
    return list(nodes_of(row[0][0]["Plan"]))


def touched(node: dict[str, Any]) -> float:
    """Rows that a scan looked at in all its loops."""
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    rows: float = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return rows


@pytest.mark.parametrize("explain", [explained, explained_generic])
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_a_statement_reads_about_what_it_returns(
    filled: psycopg.Connection[Any], transition: str, explain: Explain
) -> None:
    for query in TRANSITIONS[transition](filled):
        nodes = explain(filled, query)
        scans = [node for node in nodes if node.get("Relation Name") in _BIG]
        for scan in scans:
            assert scan["Node Type"] != "Seq Scan", query.name
            assert touched(scan) <= MOST_READ, (query.name, scan.get("Index Name"), scan)
        compared = sum(
            node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes
        )
        assert compared <= MOST_READ, query.name


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_a_statement_reads_no_table_once_for_each_of_its_batch(
    small: psycopg.Connection[Any], transition: str
) -> None:
    for query in TRANSITIONS[transition](small):
        for node in explained(small, query):
            repeated = node["Node Type"] == "Seq Scan" and node["Actual Loops"] > 1
            assert not (repeated and node.get("Relation Name") in _BIG), query.name
            removed = node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
            assert removed <= MOST_READ, query.name  # nor the batch once for each of itself


def test_the_check_sees_a_scan_of_the_whole_table(filled: psycopg.Connection[Any]) -> None:
    text = "explain (analyze, format json) select count(*) from offpath.job where reason = 'x'"
    row = filled.execute(text).fetchone()
    assert row is not None
    (scan,) = [node for node in nodes_of(row[0][0]["Plan"]) if "Relation Name" in node]
    assert scan["Node Type"] == "Seq Scan"
    assert touched(scan) > MOST_READ
