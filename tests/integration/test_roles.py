"""Each role of `offpath migrate --roles` does its work, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, IntegrityConstraintViolation

import offpath
from offpath import JobState
from offpath.economy import Actor, Economy, TopUp, credits
from offpath.errors import StoreError
from offpath.store.backends import roles_script
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import JobRedrive
from tests.integration.polling import eventually

KINDS = ("owner", "worker", "enqueuer", "reader", "operator", "scaler")
As = Callable[[str], str]


def _with_roles(url: str) -> None:
    async def make() -> None:
        store = PostgresStore(url)
        await store.migrate()
        await store.grant_roles()

    asyncio.run(make())


@pytest.fixture(scope="module")
def logins(postgres_server: str) -> Iterator[dict[str, str]]:
    """For each kind of role, one that may log in and is a member of it."""
    import os

    names = {kind: f"offpath_login_{kind}_{os.getpid()}" for kind in KINDS}
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        for name in names.values():
            admin.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
        yield names
        for name in names.values():
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def as_role(
    database_from_template: Callable[[str, Callable[[str], None]], str],
    logins: dict[str, str],
) -> As:
    """``as_role("worker")``: the URL of the test's database, for who is a member of that role."""
    import threading

    def build(url: str) -> None:
        thread = threading.Thread(target=_with_roles, args=(url,))  # a loop may be current here
        thread.start()
        thread.join()
        with psycopg.connect(url, autocommit=True) as admin:
            for kind, name in logins.items():
                grant = sql.SQL("grant {} to {}")
                role = sql.Identifier(f"offpath_{kind}")
                admin.execute(grant.format(role, sql.Identifier(name)))

    place = database_from_template("roles", build)
    known = psycopg.conninfo.conninfo_to_dict(place)
    host, port = known.get("host", "127.0.0.1"), known.get("port", "5432")
    return lambda kind: f"postgresql://{logins[kind]}:x@{host}:{port}/{known['dbname']}"


def run(url: str, statement: LiteralString) -> list[tuple[Any, ...]]:
    """Run a statement and commit."""
    connection: psycopg.Connection[Any]
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def make_app(url: str) -> offpath.App:
    app = offpath.App(url)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    return app


# -- each does its work ----------------------------------------------------------------------------


async def test_a_worker_works_and_posts(as_role: As) -> None:
    app = make_app(as_role("worker"))
    economy = Economy(app)
    async with app, app.worker():
        top_up = TopUp(
            key="t-1", actor=Actor.system("shop"), user="ann", amount=credits(5), source="card"
        )
        await economy.submit(top_up)
        handle = await app.enqueue(app.tasks["add"].job(1, 2))
        assert await handle.result(timeout=30) == 3
        assert await economy.read.balance("ann:spendable") == credits(5)
        assert (await economy.prove()).holds


async def test_who_enqueues_needs_no_more_than_the_function(as_role: As) -> None:
    run(as_role("enqueuer"), """select offpath.enqueue('add', '{"a": 1, "b": 2}')""")
    app = make_app(as_role("worker"))
    async with app, app.worker():
        (job,) = (await app.jobs.find(task="add")).items
        await eventually(lambda: _result_of(app, job.id), within=30)


async def _result_of(app: offpath.App, job_id: str) -> bool:
    return (await app.jobs.get(job_id)).result == "3"


async def test_an_operator_looks_cancels_redrives_pauses_and_prunes(as_role: As) -> None:
    app = make_app(as_role("operator"))
    async with app:
        handle = await app.enqueue(app.tasks["add"].job(1, 2))
        await app.jobs.cancel(handle.id)
        assert (await app.jobs.get(handle.id)).state is JobState.CANCELLED
        await app.store().redrive([JobRedrive(id=handle.id)])
        assert (await app.jobs.get(handle.id)).state is JobState.QUEUED
        await app.queues.pause("mail")
        assert await app.queues.resume("mail")
        await app.store().prune(limit=10)
        assert await app.workers() == []
        assert await app.store().diagnose() is not None


def test_who_enqueues_may_be_held_to_some_tasks(as_role: As, logins: dict[str, str]) -> None:
    with psycopg.connect(as_role("owner"), autocommit=True) as owner:
        owner.execute("insert into offpath.door_task values (%s, 'add')", (logins["enqueuer"],))
    run(as_role("enqueuer"), "select offpath.enqueue('add')")
    with pytest.raises(InsufficientPrivilege, match="may not enqueue the task wipe"):
        run(as_role("enqueuer"), "select offpath.enqueue('wipe')")
    run(as_role("operator"), "select offpath.enqueue('wipe')")


def test_a_scaler_learns_how_much_there_is_to_do(as_role: As) -> None:
    run(as_role("enqueuer"), "select offpath.enqueue('add', queue => 'mail')")
    run(as_role("enqueuer"), "select offpath.enqueue('add')")
    assert run(as_role("scaler"), "select offpath.demand(array['mail'])") == [(1,)]
    assert run(as_role("scaler"), "select offpath.demand('{mail,default}')") == [(2,)]
    assert run(as_role("scaler"), "select offpath.lag('none')") == [(0,)]


def test_a_reader_sees_how_it_goes(as_role: As) -> None:
    run(as_role("enqueuer"), """select offpath.enqueue('add', '{"password": "secret"}')""")
    assert run(as_role("reader"), "select task, state from offpath.v_job") == [("add", "ready")]
    views = run(
        as_role("operator"),
        "select table_name::text from information_schema.views where table_schema = 'offpath'",
    )
    assert len(views) > 10
    with psycopg.connect(as_role("reader")) as reader:
        for (view,) in views:
            found = sql.SQL("select * from offpath.{}").format(sql.Identifier(view))
            columns = {column.name for column in reader.execute(found).description or ()}
            assert not columns & {
                "input",
                "payload",
                "result",
                "value",
                "secrets",
                "message",
                "url",
            }


async def test_the_next_schema_step_is_made_by_the_owner(
    as_role: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    from offpath.store.postgres import migrate
    from offpath.store.schema import step

    shipped = migrate.known()
    later = step(f"{len(shipped) + 1:04}_later.sql", "create table offpath.later (n integer)")
    monkeypatch.setattr(migrate, "known", lambda: (*shipped, later))
    assert len(await PostgresStore(as_role("owner")).migrate()) == 1
    owners = "select tableowner::text from pg_tables where schemaname = 'offpath'"
    assert set(run(as_role("owner"), owners)) == {("offpath_owner",)}
    run(as_role("worker"), "insert into offpath.later values (1)")
    with pytest.raises(InsufficientPrivilege):
        run(as_role("reader"), "select * from offpath.later")


_READ_ONLY = {"migration", "door_task", "ledger_trim"}
"""Tables that a worker may not write."""
_WORKERS = {"task_default", "declaration", "stat", "run"}
"""Tables that only workers write, beside those of the ledger."""
_PRUNED = {"worker", "claim"}
"""Tables whose rows an operator may remove, and not make."""
_OPERATED = {
    *("job", "job_group", "job_gate", "gate_watch", "failure", "step", "signal", "unseen"),
    *("limit_key", "limit_nudge", "limit_part", "queue_pause", "schedule", "occurrence", "finding"),
    *("message", "endpoint", "log", "router", "route", "cursor", "attempt", "letter", "gate"),
    "action",
}

_RIGHTS: LiteralString = """
    select c.relname::text, array(
        select p.word
        from unnest(array['select', 'insert', 'update', 'delete']) with ordinality as p (word, n)
        where has_table_privilege(current_user, c.oid, p.word)
        order by p.n
    )
    from pg_class c
    where c.relnamespace = 'offpath'::regnamespace and c.relkind = 'r'
"""


def test_each_table_is_granted_as_the_page_says(as_role: As) -> None:
    every = ["select", "insert", "update", "delete"]
    rights = {kind: dict(run(as_role(kind), _RIGHTS)) for kind in KINDS}
    tables = set(rights["owner"])
    ledger = {name for name in tables if name.startswith("ledger_")}
    # a new table needs a decision: whether those who operate write it
    assert tables == ledger | _OPERATED | _PRUNED | _WORKERS | _READ_ONLY
    assert rights["owner"] == dict.fromkeys(tables, every)
    assert rights["worker"] == dict.fromkeys(tables, every) | dict.fromkeys(_READ_ONLY, every[:1])
    nothing: dict[str, list[str]] = {name: [] for name in tables}
    assert rights["enqueuer"] == rights["reader"] == rights["scaler"] == nothing
    assert rights["operator"] == (
        dict.fromkeys(tables, every[:1])
        | dict.fromkeys(_OPERATED, every)
        | {name: ["select", "update", "delete"] for name in _PRUNED}
    )


# -- and nothing else ------------------------------------------------------------------------------

_READ_INPUT: LiteralString = "select input from offpath.job"
_READ_FINE: LiteralString = "select 1 from offpath.v_job"
_ADD: LiteralString = "insert into offpath.worker (id) values ('w')"
_CHANGE: LiteralString = "update offpath.job set priority = 1"
_POST: LiteralString = "insert into offpath.ledger_posting (id) values ('p')"
_SECRETS: LiteralString = "select secrets from offpath.endpoint"
_MAKE: LiteralString = "create table offpath.mine (n integer)"
_UNTRIGGER: LiteralString = "alter table offpath.ledger_link disable trigger all"
_EMPTY: LiteralString = "truncate offpath.ledger_link cascade"
_FORGET: LiteralString = "delete from offpath.migration"
_ALLOW: LiteralString = "insert into offpath.door_task values ('x', 'y')"
_TRIM: LiteralString = "insert into offpath.ledger_trim select * from offpath.ledger_trim"
_DECLARE: LiteralString = "delete from offpath.declaration"
_DOOR: LiteralString = "select offpath.enqueue('t')"
_SHADOW: LiteralString = (
    "create function offpath.to_jsonb(text) returns jsonb language sql return 1"
)


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        *(("worker", one) for one in (_MAKE, _UNTRIGGER, _EMPTY, _FORGET, _SHADOW, _ALLOW, _TRIM)),
        *(
            ("enqueuer", one)
            for one in (_READ_INPUT, _READ_FINE, _ADD, _CHANGE, _POST, _SECRETS, _MAKE, _FORGET)
        ),
        *(
            ("reader", one)
            for one in (_READ_INPUT, _ADD, _CHANGE, _POST, _SECRETS, _MAKE, _FORGET, _DOOR)
        ),
        *(
            ("scaler", one)
            for one in (_READ_INPUT, _READ_FINE, _ADD, _CHANGE, _POST, _SECRETS, _MAKE, _DOOR)
        ),
        *(("operator", one) for one in (_ADD, _POST, _MAKE, _UNTRIGGER, _EMPTY, _FORGET, _ALLOW)),
        ("operator", _DECLARE),
    ],
)
def test_what_is_not_its_work_is_refused(as_role: As, kind: str, statement: LiteralString) -> None:
    with pytest.raises(InsufficientPrivilege):
        run(as_role(kind), statement)


def test_a_worker_cannot_go_past_the_triggers(as_role: As) -> None:
    asyncio.run(test_a_worker_works_and_posts(as_role))
    with pytest.raises(IntegrityConstraintViolation):
        run(as_role("worker"), "delete from offpath.ledger_link")
    with pytest.raises(InsufficientPrivilege):
        run(as_role("worker"), "set session_replication_role = replica")


async def test_an_operator_cannot_run_a_worker(as_role: As) -> None:
    app = make_app(as_role("operator"))
    async with app:
        with pytest.raises(StoreError, match="no right"):
            await app.worker().start()


# -- granting --------------------------------------------------------------------------------------


async def test_granting_again_changes_nothing_and_takes_back_what_was_too_much(
    as_role: As, pg_url: str, postgres_server: str
) -> None:
    owner = as_role("owner")
    rights = "select relname::text, relacl::text from pg_class where relacl is not null order by 1"
    before = run(owner, rights)
    run(owner, "grant select on offpath.job to offpath_reader")
    await PostgresStore(owner).grant_roles()
    assert run(owner, rights) == before


def test_the_printed_sql_is_what_is_applied(pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as admin:
        admin.execute(roles_script(pg_url).encode())
        admin.execute(roles_script(pg_url).encode())
        owner = admin.execute(
            "select nspowner::regrole::text from pg_namespace where nspname = 'offpath'"
        ).fetchone()
    assert owner == ("offpath_owner",)
