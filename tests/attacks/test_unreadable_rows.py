"""No row can stop anybody else: a row that somebody else wrote is set aside by itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

import offpath
from offpath.events import InboxMessage
from offpath.model.job import DeadReason
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import Level
from offpath.store.sql import catalogue
from tests.attacks.bad_rows import lifted
from tests.conformance.backends import Backend


@pytest.fixture(params=("sqlite", "postgres"))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backends on which rows can be written by hand."""
    return str(request.param)


@pytest.fixture
async def app(backend: Backend, store: object) -> AsyncIterator[offpath.App]:
    url = backend.place if backend.name == "postgres" else f"sqlite:///{backend.place}"
    app = offpath.App(url, auto_start=False)

    @app.task
    async def work(n: int) -> int:
        return n

    async with app:
        yield app


TABLES = {
    "sqlite": {"job": "offpath_job", "message": "offpath_message"},
    "postgres": {"job": "offpath.job", "message": "offpath.message"},
}


@pytest.fixture(autouse=True)
def unruled(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tables without their rules about values: what is behind these is tried."""
    if "app" not in request.fixturenames:
        yield
        return
    backend: Backend = request.getfixturevalue("backend")
    request.getfixturevalue("store")
    with lifted(backend, list(TABLES[backend.name].values())):
        yield


def spoil(backend: Backend, table: str, assignment: str, condition: str) -> None:
    """Write a value by hand."""
    name = TABLES[backend.name][table]
    backend.execute(f"update {name} set {assignment} where {condition}")


JOB_TIMES = {
    "postgres": ("'infinity'", "'-infinity'", "'4000-01-01 BC'", "'20000-01-01'"),
    "sqlite": (str(2**62), str(-(2**62))),
}


async def test_a_job_whose_deadline_cannot_be_read_is_dead_by_itself(
    app: offpath.App, backend: Backend
) -> None:
    for value in JOB_TIMES[backend.name]:
        bad = await app.tasks["work"].enqueue(0)
        spoil(backend, "job", f"enqueued_at = {value}", f"id = '{bad.id}'")
        others = [await app.tasks["work"].enqueue(n) for n in range(5)]
        await asyncio.wait_for(app.worker().run_until_idle(), 10)
        assert [await one.result(timeout=5) for one in others] == list(range(5))
        record = await app.jobs.get(bad.id)
        assert (record.state, record.reason) == ("dead", DeadReason.UNREADABLE)
        assert record.unreadable is not None
        assert record.unreadable.startswith("enqueued_at: ")
        assert record.failure is not None
        assert "enqueued_at" in record.failure.message
        page = await app.jobs.find()
        assert bad.id in {one.id for one in page.items}
        await app.dead.discard(bad.id)
        assert await app.jobs.count(state="dead") == 0


async def test_a_message_that_cannot_be_read_is_a_dead_letter_by_itself(
    app: offpath.App, backend: Backend
) -> None:
    applied: list[str] = []

    @app.inbox("shop")
    async def take(message: InboxMessage) -> None:
        applied.append(message.key)

    value = {"postgres": "'20000-01-01'", "sqlite": str(2**62)}[backend.name]
    bad = (await app.accept("shop", "bad", {})).id
    spoil(backend, "message", f"created_at = {value}", f"id = '{bad}'")
    for n in range(4):
        await app.accept("shop", f"good {n}", {})
    tally = await app.drain("shop").run_once()
    assert sorted(applied) == [f"good {n}" for n in range(4)]
    assert tally.total == 5
    record = await app.messages.get(bad)
    assert (record.state, record.reason) == ("dead", DeadReason.UNREADABLE)
    assert record.unreadable is not None
    assert record.failure is not None
    assert "created_at" in record.failure.message


async def test_doctor_finds_the_row_and_the_log_says_so_once(
    app: offpath.App, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    value = JOB_TIMES[backend.name][0]
    bad = await app.tasks["work"].enqueue(0)
    spoil(backend, "job", f"enqueued_at = {value}", f"id = '{bad.id}'")
    for _ in range(2):
        bad = await app.tasks["work"].enqueue(0)
        spoil(backend, "job", f"enqueued_at = {value}", f"id = '{bad.id}'")
        await app.worker().run_until_idle()
    said = [one.message for one in caplog.records if "cannot be read" in one.message]
    assert len(said) == 1
    assert "rows of the table job cannot be read and become dead letters" in said[0]
    (odd,) = [one for one in await app.store().diagnose() if one.name == "rows"]
    assert odd.level is Level.PROBLEM
    assert bad.id in odd.message
    assert "a time that cannot be read" in odd.message


WRONG = {
    "timestamp with time zone": ("infinity", "-infinity", "4000-01-01 BC", "20000-01-01"),
    "jsonb": ("5", "true"),
}


async def test_postgres_refuses_what_cannot_be_read_in_every_table(postgres_url: str) -> None:
    async with offpath.App(postgres_url, auto_start=False, migrate=True):
        pass
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        columns = connection.execute(
            "select table_name::text, column_name::text, data_type::text"
            " from information_schema.columns join information_schema.tables"
            " using (table_schema, table_name)"
            " where table_schema = 'offpath' and table_type = 'BASE TABLE'"
            " and data_type = any (%s) and table_name <> 'migration'",
            [list(WRONG)],
        ).fetchall()
        assert len(columns) > 40
        for table, column, kind in columns:
            rules = connection.execute(
                "select pg_get_constraintdef(oid), convalidated from pg_constraint"
                " where conname like %s and conrelid = %s::regclass",
                [f"{table}%readable", f"offpath.{table}"],
            ).fetchall()
            assert rules, table
            assert all(valid for _, valid in rules), "the rules hold for all rows"
            texts = [text.removeprefix("CHECK ").removesuffix(" NOT VALID") for text, _ in rules]
            rule = " and ".join(f"({text})" for text in texts)
            for value in WRONG[kind]:
                # what the rule says of a row of which only this column is not null
                row = connection.execute(
                    sql.SQL("select {} from jsonb_populate_record(null::offpath.{}, {})").format(
                        sql.SQL(rule),
                        sql.Identifier(table),
                        sql.Literal(f'{{"{column}": {_as_json(kind, value)}}}'),
                    )
                ).fetchone()
                assert row == (False,), (table, column, value)


def _as_json(kind: str, value: str) -> str:
    return value if kind == "jsonb" else f'"{value}"'


async def test_rows_that_were_there_before_the_rules_are_parked_by_the_migration(
    postgres_url: str,
) -> None:
    steps = Backend("postgres", postgres_url).steps()
    rules = next(step for step in steps if step.name == "readable_rows")
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("create schema offpath")
        for step in steps[: rules.number - 1]:
            owner.execute(step.within.encode())
        ids = [_door(owner, n) for n in range(6)]
        for job, assignment in zip(
            ids,
            (
                "run_at = 'infinity', state = 'scheduled'",
                "deadline = '20000-01-01'",
                "tags = '5'",
                "enqueued_at = '-infinity', dependents = '{}'",
                "attempt = 9223372036854775807",
            ),
            strict=False,
        ):
            owner.execute(f"update offpath.job set {assignment} where id = '{job}'".encode())
        owner.execute(
            "insert into offpath.message (id, box, stream, key, created_at, due_at, payload)"
            " values ('m', 'in', 'shop', 'k', '20000-01-01', now(), '{}')"
        )
        for step in steps[rules.number - 1 :]:
            owner.execute(step.within.encode())
    app = offpath.App(postgres_url, auto_start=False)

    @app.task
    async def work(n: int) -> int:
        return n

    await _note_migrations(postgres_url)
    async with app:
        await app.worker().run_until_idle()
        records = [await app.jobs.get(job) for job in ids]
        assert [one.state for one in records] == ["dead"] * 5 + ["succeeded"]
        assert {one.reason for one in records[:5]} == {DeadReason.UNREADABLE}
        assert records[0].failure is not None
        assert "infinity" in records[0].failure.message
        message = await app.messages.get("m")
        assert (message.state, message.reason) == ("dead", DeadReason.UNREADABLE)


def _door(connection: psycopg.Connection[tuple[Any, ...]], n: int) -> str:
    row = connection.execute("select offpath.enqueue('work', %s)", [f'{{"n": {n}}}']).fetchone()
    assert row is not None
    return str(row[0])


async def _note_migrations(url: str) -> None:
    """Write down that the steps, which were run by hand, are applied."""
    store = PostgresStore(url)
    marks = re.findall(r"insert into offpath.migration .*?;", store.migration_script(), re.DOTALL)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(catalogue("offpath.store.postgres")["make_record"].pyformat.encode())
        for mark in marks:
            owner.execute(mark.encode())
