"""No lease or settlement of messages depends on statistics, or on what else the table holds.

Of the stream 's' 100,000 messages are done and 2,000 wait, in a hundred keys; of another 100,000
wait. The planner knows nothing of that, or believes that the table is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from offpath.model.message import Box, LeasedMessage, MessageRequest, StreamRoom
from offpath.model.settlement import Released, Succeeded
from offpath.store.postgres import PostgresStore
from offpath.store.postgres import deliveries as messages
from offpath.store.sql import Query
from tests.conformance.message_builders import dead, finish, retry
from tests.integration.planned_statements import BATCH, SQL
from tests.integration.test_plans import Explain, explained, explained_generic, touched
from tests.servers import Databases

MOST_READ = 3_000
"""Rows that one scan may touch for a batch of 100: an ordered lease looks at twice as many."""

_FILL = """
    insert into offpath.message (
        id, box, stream, key, state, created_at, due_at, finished_at, expires_at, payload
    )
    select
        'done-' || n, 'out', 's', 'k' || n % 100, 'done', now(), now() - interval '2 hours', now(),
        now() + interval '1 hour', '{}'
    from generate_series(1, 100000) as n;
    insert into offpath.message (id, box, stream, key, created_at, due_at, payload)
    select 'other-' || n, 'out', 'other', 'k' || n % 100, now(), now() - interval '3 hours', '{}'
    from generate_series(1, 100000) as n;
    insert into offpath.message (id, box, stream, key, created_at, due_at, payload)
    select
        'new-' || n, 'out', 's', 'k' || n % 100, now(),
        now() - interval '1 hour' + n * interval '1 millisecond', '{}'
    from generate_series(1, 2000) as n;
    update offpath.message
    set holder = 'h', due_before = due_at, due_at = now() + interval '1 hour', deliveries = 1
    where stream = 's' and state = 'pending' and position % 20 = 0
"""


@pytest.fixture(scope="module", params=["never analysed", "analysed while empty"])
def filled(
    request: pytest.FixtureRequest, postgres_databases: Databases
) -> Iterator[psycopg.Connection[Any]]:
    """A filled table of which the planner knows nothing, or the wrong thing."""
    url = postgres_databases.create()
    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        thread.submit(asyncio.run, PostgresStore(url).migrate()).result()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("alter table offpath.message set (autovacuum_enabled = false)")
        if request.param == "analysed while empty":
            connection.execute("analyze")
        connection.execute(_FILL)
        yield connection
    postgres_databases.drop(url)


def _request(*streams: str, ordered: bool, limit: int = BATCH) -> MessageRequest:
    return MessageRequest(
        box=Box.OUT,
        holder="new",
        streams=tuple(StreamRoom(stream=one, limit=BATCH, ordered=ordered) for one in streams),
        limit=limit,
        lease_seconds=60.0,
    )


def _lease(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    return next(messages.lease_steps(_request("s", ordered=False), None, sql=SQL)).queries


def _lease_ordered(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    return next(messages.lease_steps(_request("s", ordered=True), None, sql=SQL)).queries


def _count(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    request = _request("s", "other", ordered=False)
    return next(messages.lease_steps(request, None, sql=SQL)).queries


def _held(connection: psycopg.Connection[Any]) -> list[LeasedMessage]:
    rows = connection.execute(
        "select id, created_at, position from offpath.message where holder = 'h' limit 100"
    ).fetchall()
    assert len(rows) == BATCH
    return [
        LeasedMessage(
            id=one,
            box=Box.OUT,
            stream="s",
            topic="",
            payload="{}",
            holder="h",
            attempt=1,
            deliveries=1,
            position=position,
            created_at=created_at,
        )
        for one, created_at, position in rows
    ]


def _done(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    ends = [finish(each, Succeeded(), keep=60) for each in _held(connection)]
    return next(messages.settle_steps(ends, None, sql=SQL)).queries


def _settle(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    outcomes = (Succeeded(), retry(1.0), dead(), Released())
    ends = [finish(each, outcomes[n % 4]) for n, each in enumerate(_held(connection))]
    return next(messages.settle_steps(ends, None, sql=SQL)).queries


_TRANSITIONS = {
    make.__name__.strip("_"): make for make in (_lease, _lease_ordered, _count, _done, _settle)
}
_FOUND = {"lease": BATCH, "lease_ordered": BATCH, "done": BATCH, "settle": BATCH}
"""The rows that the last statement must write, so that the check is of one that does its work."""


@pytest.mark.parametrize("explain", [explained, explained_generic])
@pytest.mark.parametrize("transition", _TRANSITIONS)
def test_a_statement_reads_about_what_it_moves(
    filled: psycopg.Connection[Any], transition: str, explain: Explain
) -> None:
    queries = _TRANSITIONS[transition](filled)
    for query in queries:
        nodes = explain(filled, query)
        for scan in (node for node in nodes if node.get("Relation Name") == "message"):
            if scan["Node Type"] == "ModifyTable":
                continue
            assert scan["Node Type"] != "Seq Scan", query.name
            assert touched(scan) <= MOST_READ, (query.name, scan)
        compared = sum(
            node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes
        )
        assert compared <= MOST_READ, query.name
        if query is queries[-1] and transition in _FOUND:
            writes = [node for node in nodes if node["Node Type"] == "ModifyTable"]
            assert [node["Actual Rows"] for node in writes] == [_FOUND[transition]]
