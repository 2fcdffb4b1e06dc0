"""Names in the path that shadow the server's own: no session and no function of ours sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

import offpath
from offpath.economy import Actor, Economy, TopUp, credits
from offpath.events import InboxMessage
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.migrate import script
from tests.attacks import shadows
from tests.integration.within.callers import CALLERS, MAKE, Caller

PLAIN = "-c search_path=public"
FIXED = "search_path=pg_catalog, pg_temp"
POSTGRES_CALLERS = [caller for caller in CALLERS if caller.dialect == "postgres"]


def _shadow(url: str) -> None:
    """Shadows for every session of the database but the superuser's who asks for another path."""
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            assert shadows.cast(connection) > 1000
        name = sql.Identifier(connection.info.dbname)
        path = sql.SQL(shadows.PATH)
        connection.execute(sql.SQL("alter database {} set search_path = {}").format(name, path))


def _build(url: str) -> None:
    _shadow(url)
    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        thread.submit(asyncio.run, PostgresStore(url).migrate()).result()


@pytest.fixture
def shadowed(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    """A database with the schema, made under the shadows, in which every session meets them."""
    url = database_from_template("shadowed", _build)
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        path = sql.SQL(shadows.PATH)
        connection.execute(sql.SQL("alter database {} set search_path = {}").format(name, path))
    return url


@pytest.mark.parametrize(
    "statement",
    [
        "select now() + '1s'",
        "select to_jsonb('a'::pg_catalog.text)",
        "select 'a'::text",
        "select 1 = 1",
    ],
)
def test_a_plain_session_meets_the_shadows(shadowed: str, statement: str) -> None:
    with (
        psycopg.connect(shadowed) as connection,
        pytest.raises(psycopg.Error, match=r"type any|domain text|does not exist"),
    ):
        connection.execute(statement.encode())


@pytest.mark.parametrize("session", ["", "?offpath_direct=0"], ids=["ours", "pooled"])
async def test_work_of_every_kind_is_done_in_spite_of_shadows(shadowed: str, session: str) -> None:
    app = offpath.App(shadowed + session)
    economy = Economy(app)
    applied: list[str] = []

    @app.task(limit=offpath.Limit(max_running=2))
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(announce=("succeeded", "dead"))
    async def fan(ctx: offpath.Context, n: int) -> offpath.Plan[None, int]:
        return ctx.queue(*(add.job(n, each) for each in range(3))).next(after.job())

    @app.task
    async def after() -> int:
        return 7

    @app.inbox("shop")
    async def apply(message: InboxMessage) -> None:
        applied.append(message.key)

    async with app, app.worker():
        fanned = await fan.enqueue(1)
        added = await add.enqueue(1, 2)
        await app.accept("shop", "one", {})
        await economy.submit(
            TopUp(key="t", actor=Actor.system("shop"), user="ann", amount=credits(5), source="card")
        )
        assert await added.result(timeout=30) == 3
        assert await fanned.group(timeout=30) == 7
        assert (await economy.prove()).holds
        assert await app.store().diagnose() is not None
        assert len((await app.jobs.find(task="add")).items) == 4
    assert applied == ["one"]


_CALLERS_PATH = """
    create function public.lead() returns trigger language plpgsql as $$
    begin
        perform pg_catalog.set_config('search_path', '{path}', true);
        return null;
    end $$;
    create trigger lead after insert on public.caller_row
        for each statement execute function public.lead();

    create table public.path_at_commit (path pg_catalog.text);
    create function public.look() returns trigger language plpgsql as $$
    begin
        insert into public.path_at_commit
        values (pg_catalog.current_setting('search_path'));
        return null;
    end $$;
    create constraint trigger look after insert on public.caller_row
        deferrable initially deferred for each row execute function public.look();
"""
"""A caller whose first statement leads its transaction astray, and who is asked at its commit."""


@pytest.mark.parametrize("caller", POSTGRES_CALLERS, ids=lambda one: one.name)
async def test_a_callers_transaction_enqueues_in_spite_of_shadows_and_keeps_its_path(
    shadowed: str, caller: Caller
) -> None:
    with psycopg.connect(shadowed, autocommit=True, options=PLAIN) as connection:
        connection.execute(f"alter database {connection.info.dbname} reset search_path".encode())
        connection.execute(MAKE.encode())
        connection.execute(_CALLERS_PATH.format(path=shadows.PATH).encode())
    app = offpath.App(shadowed)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app:
        async with caller.open(shadowed, False) as (within, _):
            ids: list[str] = []
            for jobs in ([double.job(1)], [double.job(2), double.job(3)]):
                if caller.blocking:
                    sent = app.blocking.enqueue(jobs, within=within)
                    ids += [handle.id for handle in sent]
                else:
                    ids += [handle.id for handle in await app.enqueue(jobs, within=within)]
        assert len(await app.store().states(ids)) == 3
    with psycopg.connect(shadowed) as connection:
        paths = connection.execute("select path from public.path_at_commit").fetchall()
    assert paths == [(shadows.PATH,)]


def test_the_printed_script_runs_in_spite_of_shadows(postgres_url: str) -> None:
    _shadow(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(script().encode())


def test_every_function_has_a_path_of_its_own(shadowed: str) -> None:
    asked = """
        select p.oid::regprocedure::text, p.proconfig
        from pg_proc p
        where p.pronamespace = 'offpath'::regnamespace and p.prosqlbody is null
    """
    with psycopg.connect(shadowed, options=PLAIN) as connection:
        found: list[tuple[str, list[str] | None]] = connection.execute(asked).fetchall()
    assert len(found) > 10
    assert [name for name, settings in found if FIXED not in (settings or [])] == []
