"""The numbers by which a fleet is scaled: counted in Postgres, bounded, and never null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest

import offpath
from offpath.store.postgres import PostgresStore
from tests.servers import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.events import RoutedEvent


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("schema", migrate)


def asked(url: str, query: LiteralString) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchone()[0]  # type: ignore[index] # it has one row


FILL: LiteralString = """
insert into offpath.job (
    id, state, task, queue, input, fingerprint, options, run_at, enqueued_at
)
select gen_random_uuid(), 'ready', 'work', queue, '{}', '', '{}', now(), now()
from unnest(array['mail', 'bulk']) as queue, generate_series(1, 12000)
"""


async def test_what_is_due_and_what_runs_counts_and_what_comes_later_does_not(url: str) -> None:
    async with offpath.App(url, auto_start=False) as app:

        @app.task(queue="mail")
        async def work() -> None: ...

        assert asked(url, "select offpath.demand(array['mail'])") == 0
        for _ in range(3):
            await work.enqueue()
        await work.options(delay=3600).enqueue()
        await work.options(queue="other").enqueue()
        assert asked(url, "select offpath.demand(array['mail'])") == 3
        assert asked(url, "select offpath.demand(array['mail', 'other'])") == 4
        assert asked(url, "select offpath.demand()") == 4
        assert asked(url, "select offpath.demand('{}')") == 4
        assert asked(url, "select offpath.demand(null)") == 4
        assert asked(url, "select offpath.demand(array['none'])") == 0

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("update offpath.job set run_at = now() where state = 'scheduled'")
            connection.execute(
                "update offpath.job set state = 'running', worker = 'w'"
                " where id = (select id from offpath.job where queue = 'mail' limit 1)"
            )
        assert asked(url, "select offpath.demand(array['mail'])") == 4, "one runs, one fell due"


def test_it_counts_to_ten_thousand_and_other_queues_cost_it_nothing(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("analyze offpath.job")
    assert asked(url, "select offpath.demand(array['mail'])") == 10_000
    assert asked(url, "select offpath.demand()") == 10_000
    assert asked(url, "select offpath.demand(array['none'])") == 0
    assert rows_read(url, "select offpath.demand(array['none'])") < 100


def rows_read(url: str, query: LiteralString) -> int:
    """The rows and entries of jobs that a query looks at, by the server's own counts."""
    counts: LiteralString = """
        select coalesce(pg_stat_get_xact_tuples_returned('offpath.job'::regclass), 0)
            + coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0)
        from pg_index i
        where i.indrelid = 'offpath.job'::regclass
    """
    with psycopg.connect(url) as connection:
        before = connection.execute(counts).fetchone()
        connection.execute(query)
        after = connection.execute(counts).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0])


async def test_the_lag_of_a_router_is_what_it_has_yet_to_pass(url: str) -> None:
    async with offpath.App(url, auto_start=False) as app:

        async def deliver(event: RoutedEvent) -> None: ...

        router = app.router("orders", domain="shop", start="beginning")
        router.route(deliver=deliver, name="all", enabled=True, dry_run=False)
        await app.routers.open_gate()
        await router.open_gate()
        await router.record()
        for number in range(5):
            await app.log.append("shop", "paid", f"order-{number}")
            await app.log.append("other", "paid", f"order-{number}")
        assert asked(url, "select offpath.lag('orders')") == 5
        await router.run_once(limit=2)
        assert asked(url, "select offpath.lag('orders')") == 3
        assert asked(url, "select offpath.lag('none')") == 0
        assert asked(url, "select offpath.lag(null)") == 0


def test_nobody_may_call_them_until_it_is_granted(url: str) -> None:
    for call in ("offpath.demand(text[])", "offpath.lag(text)"):
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(
                "select has_function_privilege('public', %s, 'execute')", (call,)
            ).fetchone()
        assert row == (False,), call


def test_the_schema_has_them_under_another_name_too(pg_url: str) -> None:
    import asyncio

    store = PostgresStore(pg_url, schema="tenant")
    asyncio.run(store.migrate())
    assert asked(pg_url, "select tenant.demand()") == 0
