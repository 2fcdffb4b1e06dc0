"""``offpath.enqueue(...)``: jobs put in by SQL, from triggers and other languages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
from psycopg import errors

import offpath
from tests.integration.within.conftest import build_postgres


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("within", build_postgres)


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    app = offpath.App(url, auto_start=False)

    @app.task
    async def add(a: int, b: int = 10) -> int:
        return a + b

    async with app:
        yield app


def call(url: str, sql: str, *values: object) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.encode(), values).fetchone()
    assert row is not None
    return str(row[0])


async def test_a_job_put_in_by_sql_runs(app: offpath.App, url: str) -> None:
    job = call(url, "select offpath.enqueue('add', %s)", json.dumps({"a": 1, "b": 2}))
    await app.worker().run_until_idle()
    assert await app.tasks["add"].handle(job).result(timeout=5) == 3


async def test_options_by_name(app: offpath.App, url: str) -> None:
    job = call(
        url,
        "select offpath.enqueue('add', '{\"a\": 1}', queue => 'slow', priority => 7, "
        "delay => interval '1 hour', tags => '[\"nightly\"]')",
    )
    record = await app.jobs.get(job)
    assert (record.queue, record.priority, record.tags) == ("slow", 7, ("nightly",))
    assert (record.run_at - record.enqueued_at).total_seconds() == 3600
    await app.worker().run_until_idle()
    assert (await app.jobs.get(job)).state is offpath.JobState.QUEUED


async def test_a_unique_key_gives_the_live_job(app: offpath.App, url: str) -> None:
    sql = "select offpath.enqueue('add', '{\"a\": 1}', unique_key => 'k')"
    first = call(url, sql)
    assert call(url, sql) == first
    attached = app.tasks["add"].options(unique=offpath.Unique(key="k", policy="replace"))
    handle = await attached.enqueue(1)
    assert handle.id == first
    await app.worker().run_until_idle()
    assert call(url, sql) != first, "the key is free again when its job has ended"


async def test_it_commits_and_rolls_back_with_the_caller(app: offpath.App, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("select offpath.enqueue('add', '{\"a\": 1}')")
        connection.rollback()
        connection.execute("select offpath.enqueue('add', '{\"a\": 1}')")
        connection.commit()
    assert await app.jobs.count() == 1


async def test_from_a_trigger(app: offpath.App, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            create function on_caller_row() returns trigger language plpgsql as $$
            begin
                perform offpath.enqueue('add', jsonb_build_object('a', new.id));
                return new;
            end $$;
            create trigger enqueue_add after insert on caller_row
                for each row execute function on_caller_row()
            """
        )
        connection.execute("insert into caller_row (id) values (5), (6)")
    await app.worker().run_until_idle()
    results = [record.result async for record in app.jobs.each(state="succeeded", newest=False)]
    assert sorted(results, key=str) == ["15", "16"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [("''", "task must be given"), ("'add', '[1]'", "input must be a JSON object")],
)
async def test_wrong_arguments_are_refused(
    app: offpath.App, url: str, arguments: str, message: str
) -> None:
    with pytest.raises(errors.DatabaseError, match=message):
        call(url, f"select offpath.enqueue({arguments})")
    assert await app.jobs.count() == 0


async def test_an_input_that_does_not_fit_dies_with_its_reason(app: offpath.App, url: str) -> None:
    job = call(url, "select offpath.enqueue('add', '{\"a\": \"one\"}')")
    await app.worker().run_until_idle()
    record = await app.jobs.get(job)
    assert record.state is offpath.JobState.DEAD
    assert record.reason == offpath.DeadReason.BAD_INPUT
