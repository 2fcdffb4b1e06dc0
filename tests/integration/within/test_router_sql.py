"""Routers for whoever works in SQL: views, a run by a function, and an existing service's table."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors

import offpath
from offpath.events import Outbox, RoutedEvent, Router
from tests.integration.within.callers import file_of
from tests.integration.within.conftest import build_postgres

ROUTES = (
    {"type": "order.paid", "stream": "eu", "name": "exact"},
    {"type": "order.paid", "name": "paid"},
    {"type": "order.*", "name": "orders"},
    {"type": "order.re.*", "name": "deeper"},
    {"type": "*", "stream": "eu", "name": "all-eu"},
)
EVENTS = [
    (kind, stream)
    for kind in ("order.paid", "order.lost", "order.re.turned", "order.", "stock.low", "orderly")
    for stream in ("eu", "us")
]


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("within", build_postgres)


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    made = offpath.App(url, auto_start=False, migrate=True)
    async with made:
        yield made


def routed(app: offpath.App, name: str = "shop", **terms: Any) -> Router:
    router = app.router(name, domain="shop", start="beginning", **terms)
    for number, route in enumerate(ROUTES):
        deliver = Outbox("europe") if number % 2 else None
        router.route(**route, deliver=deliver, enabled=number != 3, dry_run=number != 1)
    return router


async def opened(router: Router) -> None:
    await router.record()
    await router.open_gate()


async def filled(app: offpath.App) -> None:
    for number, (kind, stream) in enumerate(EVENTS):
        await app.log.append("shop", kind, stream, {"n": number}, key=f"k{number % 5}")


def call(url: str, sql: str, *values: object) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.encode(), values).fetchone()
    assert row is not None
    return row[0]


def run(url: str, name: str = "shop", most: int = 1_000) -> dict[str, Any]:
    found: dict[str, Any] = call(url, "select offpath.router_run(%s, %s)", name, most)
    return found


async def decided(app: offpath.App, name: str) -> list[tuple[str, str, str]]:
    page = await app.routers.stored(name).attempts(limit=1_000)
    return sorted((one.event, one.status.value, one.route) for one in page)


async def test_sql_decides_as_python_does(app: offpath.App, url: str) -> None:
    """The same events by the same routes, in three partitions and in one."""
    await app.routers.open_gate()
    by_sql, by_python = routed(app, "sql", partitions=3), routed(app, "python")
    await opened(by_sql)
    await opened(by_python)
    await filled(app)
    told = run(url, "sql")
    done = await by_python.run_once()
    assert told["passed"] == done.passed == len(EVENTS)
    assert told["counts"] == done.counts
    assert await decided(app, "sql") == await decided(app, "python")
    assert all(check.fine for check in await by_sql.verify())
    assert run(url, "sql")["passed"] == 0
    sent = await app.messages.find(streams=["europe"])
    assert len(sent.items) == 2 * told["counts"]["sent"]


async def test_sql_and_python_take_turns(app: offpath.App, url: str) -> None:
    await app.routers.open_gate()
    router = routed(app)
    await opened(router)
    await filled(app)
    assert run(url, most=4)["passed"] == 4
    assert (await router.run_once(limit=4)).passed == 4
    assert run(url)["passed"] == len(EVENTS) - 8
    attempts = await decided(app, "shop")
    assert len(attempts) == len({event for event, _, _ in attempts}) == len(EVENTS)


async def test_a_closed_gate_is_a_clean_no_op_that_says_which(app: offpath.App, url: str) -> None:
    router = routed(app)
    await router.record()
    await filled(app)
    assert run(url) == {"router": "shop", "passed": 0, "stopped": "gate: master"}
    await app.routers.open_gate()
    assert run(url)["stopped"] == "gate: shop"
    assert await decided(app, "shop") == []


async def test_a_run_that_is_rolled_back_leaves_nothing(app: offpath.App, url: str) -> None:
    await app.routers.open_gate()
    router = routed(app)
    await opened(router)
    await filled(app)
    with psycopg.connect(url) as connection:
        connection.execute(b"select offpath.router_run('shop')")
        connection.rollback()
    assert await decided(app, "shop") == []
    assert (await app.messages.find(streams=["europe"])).items == ()
    assert run(url)["passed"] == len(EVENTS)


async def test_what_needs_python_is_refused_before_anything_is_done(
    app: offpath.App, url: str
) -> None:
    await app.routers.open_gate()

    @app.task
    async def book(event: RoutedEvent) -> None: ...

    router = app.router("tasks", domain="shop", start="beginning")
    router.route(type="order.paid", deliver=book, name="book", enabled=True, dry_run=False)
    await opened(router)
    await filled(app)
    with pytest.raises(
        errors.FeatureNotSupported, match="route book is live and delivers to task:book"
    ):
        run(url, "tasks")
    assert await decided(app, "tasks") == []
    await router.switch("book", dry_run=True)
    assert run(url, "tasks")["counts"] == {"dry_run": 2, "skipped": 10}


async def test_a_live_route_without_a_deliverer_fails_closed_and_is_redriven(
    app: offpath.App, url: str
) -> None:
    await app.routers.open_gate()
    router = app.router("bare", domain="shop", start="beginning")
    router.route(type="order.paid", name="bare", enabled=True, dry_run=False)
    await opened(router)
    await app.log.append("shop", "order.paid", "eu", {"n": 1}, key="k", headers={"tenant": "a"})
    assert run(url, "bare")["counts"] == {"failed": 1}
    (letter,) = await app.routers.stored("bare").letters()
    assert (letter.reason, letter.event.payload) == ("not_supported", '{"n":1}')
    await router.switch("bare", dry_run=True)
    assert (await router.redrive()).counts == {"dry_run": 1}


async def test_an_open_writer_is_waited_for_and_never_skipped(app: offpath.App, url: str) -> None:
    await app.routers.open_gate()
    router = routed(app)
    await opened(router)
    async with await psycopg.AsyncConnection.connect(url) as writer:
        await app.log.append("shop", "order.paid", "eu", {"late": 1}, within=writer)
        await app.log.append("shop", "order.paid", "eu", {"early": 1})
        told = await asyncio.to_thread(run, url)
        assert told["stopped"] == "open writers of the log"
        waiting = asyncio.ensure_future(asyncio.to_thread(run, url))
        await writer.commit()
        assert (await waiting)["passed"] == 2


async def test_two_runs_at_once_decide_each_event_once(app: offpath.App, url: str) -> None:
    await app.routers.open_gate()
    router = routed(app, partitions=4)
    await opened(router)
    await filled(app)
    runs = await asyncio.gather(*(asyncio.to_thread(run, url) for _ in range(4)))
    assert sum(one["passed"] for one in runs) == len(EVENTS)
    assert len(await decided(app, "shop")) == len(EVENTS)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("select offpath.router_run('nobody')", errors.InvalidParameterValue),
        ("select offpath.router_run('shop', 0)", errors.InvalidParameterValue),
        ("select offpath.router_run('shop', null)", errors.InvalidParameterValue),
    ],
)
async def test_what_cannot_be_run_is_refused(
    app: offpath.App, url: str, sql: str, error: type[Exception]
) -> None:
    await routed(app).record()
    with pytest.raises(error):
        call(url, sql)


async def test_an_old_snapshot_is_refused(app: offpath.App, url: str) -> None:
    await routed(app).record()
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(errors.FeatureNotSupported, match="read committed"):
            connection.execute(b"select offpath.router_run('shop')")


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
async def test_the_views_say_what_was_decided(url_of: Callable[[str], str], dialect: str) -> None:
    url = url_of(dialect)
    async with offpath.App(url, auto_start=False, migrate=True) as app:
        await app.routers.open_gate()
        router = app.router("shop", domain="shop", start="beginning")
        router.route(type="paid", name="bare", enabled=True, dry_run=False)
        router.route(type="lost", name="dry", enabled=True)
        await opened(router)
        event = await app.log.append("shop", "paid", "eu", {})
        await app.log.append("shop", "lost", "eu", {})
        assert (await router.run_once()).counts == {"failed": 1, "dry_run": 1}
        await app.log.append("shop", "paid", "eu", {})
        (one, *_) = await app.routers.stored("shop").attempts(limit=1)
        assert one.key == f"shop:bare:{event}"
    prefix = "offpath.v_router" if dialect == "postgres" else "offpath_router"
    columns = "master_open, router_open, passed, last_run_summary, open_letters"
    (status,) = select(url, f"select {columns} from {prefix}_status")
    assert (bool(status[0]), bool(status[1]), status[2], status[4]) == (True, True, 2, 1)
    assert json.loads(status[3]) == {"failed": 1, "dry_run": 1}
    assert select(url, f"select oldest_unrouted_at is not null from {prefix}_status") == [(True,)]
    found = select(
        url, f"select attempt_no, status from {prefix}_attempts where idempotency_key = '{one.key}'"
    )
    assert found == [(1, "failed")]
    letters = select(url, f"select idempotency_key, reason, resolved_at from {prefix}_letters")
    assert letters == [(one.key, "not_supported", None)]


def select(url: str, sql: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(file_of(url))
        try:
            return [tuple(row) for row in connection.execute(sql)]
        finally:
            connection.close()
    with psycopg.connect(url) as session:
        return session.execute(sql.encode()).fetchall()


SHAPE = {
    "postgres": """
        create table public.event_outbox (
            id uuid primary key default gen_random_uuid(),
            created_at timestamptz not null default now(),
            event_domain text not null, event_type text not null, event_stream text not null,
            payload jsonb not null
        )
    """,
    "sqlite": """
        create table event_outbox (
            id text primary key not null, created_at text not null, event_domain text not null,
            event_type text not null, event_stream text not null, payload text not null
        )
    """,
}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
async def test_an_existing_services_outbox_is_routed_without_touching_its_writers(
    url_of: Callable[[str], str], dialect: str
) -> None:
    """A log of most others' events, by (created_at, id), that other code writes by plain SQL."""
    url = url_of(dialect)
    got: list[tuple[str, object]] = []
    async with offpath.App(url, auto_start=False, migrate=True) as app:
        execute(url, SHAPE[dialect])
        for number in range(60):  # many of one moment, and most of another domain
            domain = "iu" if number % 4 == 0 else "system"
            execute(
                url,
                "insert into event_outbox values "
                f"('{uuid.uuid4()}', '2026-01-01T00:00:0{number // 20}+00:00', '{domain}', "
                f"'unit_version', 'unit', '{{\"n\": {number}}}')",
            )
        router = app.router(
            "iu",
            domain="iu",
            start="beginning",
            table="event_outbox",
            order=("created_at", "id"),
            columns={"domain": "event_domain", "type": "event_type", "stream": "event_stream"},
        )

        @router.route(type="unit_version", stream="unit", enabled=True, dry_run=False)
        async def deliver(event: RoutedEvent) -> None:
            got.append((event.type, event.payload["n"]))

        await app.routers.open_gate()
        await opened(router)
        while (await router.run_once(limit=4)).passed:
            pass
        attempts = await decided(app, "iu")
        assert {status for _, status, _ in attempts} == {"sent"}
    assert sorted(n for _, n in got) == list(range(0, 60, 4))  # type: ignore[type-var]
    columns = select(url, "select count(*) from event_outbox")
    assert columns == [(60,)]


def execute(url: str, sql: str) -> None:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(file_of(url), isolation_level=None)
        connection.execute(sql)
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.encode())
