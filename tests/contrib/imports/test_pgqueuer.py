"""Waiting jobs and schedules of a real PgQueuer become ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from pgqueuer.db import PsycopgDriver
from pgqueuer.queries import Queries

import offpath
from offpath.contrib.imports import (
    PgQueuer,
    import_jobs,
    import_schedules,
    open_tables,
    pgqueuer_schedules,
)
from offpath.contrib.imports.pgqueuer import Payload
from offpath.testing import drain
from tests.contrib.imports.conftest import SEEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offpath.contrib.imports import ImportReport


@pytest.fixture
async def theirs(server: str) -> AsyncIterator[Queries]:
    """Their door to the same database, with their schema."""
    connection = await psycopg.AsyncConnection.connect(server, autocommit=True)
    async with connection:
        queries = Queries(PsycopgDriver(connection))
        await queries.install()
        yield queries


async def moved(
    app: offpath.App, payload: Payload = Payload.ARGUMENTS, *, dry_run: bool = False
) -> ImportReport:
    """The report of an import."""
    with open_tables(app) as tables:
        return await import_jobs(app, PgQueuer(payload), tables, dry_run=dry_run)


async def test_jobs_run_here_in_their_order_and_are_logged_there_as_deleted(
    app: offpath.App, theirs: Queries, server: str
) -> None:
    said: list[bytes | None] = [json.dumps({"to": f"{number}"}).encode() for number in range(3)]
    await theirs.enqueue(["shop.mail"] * 3, said, [0, 0, 9])
    assert (await moved(app, dry_run=True)).moved == {"shop.mail": 3}
    assert sum(one.count for one in await theirs.queue_size()) == 3
    assert (await moved(app)).moved == {"shop.mail": 3}
    assert await theirs.queue_size() == []
    with psycopg.connect(server) as connection:
        logged = connection.execute("select job_id from pgqueuer_log where status = 'deleted'")
        assert sorted(logged) == [(1,), (2,), (3,)]
    assert (await moved(app)).moved == {}
    await drain(app)
    assert SEEN == [("2", 1), ("0", 1), ("1", 1)]


async def test_a_time_a_key_and_headers_come_along(app: offpath.App, theirs: Queries) -> None:
    await theirs.enqueue(
        "shop.mail", b'{"to": "a"}', 0, timedelta(hours=1), "once", {"Tenant": "acme"}
    )
    await moved(app)
    (job,) = (await app.jobs.find(tags=["pgqueuer:1"])).items
    assert job.run_at > datetime.now(UTC) + timedelta(minutes=50)
    assert (job.unique_key, job.headers) == ("shop.mail:once", '{"tenant":"acme"}')


@pytest.mark.parametrize(
    ("how", "task", "payload", "seen"),
    [
        (Payload.TEXT, "shop.say", b"a text", "a text"),
        (Payload.JSON, "shop.say", b'"a text"', "a text"),
        (Payload.BYTES, "shop.raw", b"\xff\x00", b"\xff\x00"),
    ],
)
async def test_a_payload_is_what_it_is_said_to_be(
    app: offpath.App, theirs: Queries, how: Payload, task: str, payload: bytes, seen: object
) -> None:
    await theirs.enqueue(task, payload)
    assert (await moved(app, how)).left == []
    await drain(app)
    assert [seen] == SEEN


@pytest.mark.parametrize("payload", [b"\xff", b"a text", b"[1]", b'{"copies": 1}', None])
async def test_a_payload_that_does_not_fit_stays(
    app: offpath.App, theirs: Queries, payload: bytes | None
) -> None:
    await theirs.enqueue("shop.mail", payload)
    report = await moved(app)
    assert (report.moved, [one.example for one in report.left]) == ({}, ["1"])
    assert await app.jobs.count() == 0
    assert [one.count for one in await theirs.queue_size()] == [1]


async def test_its_schedules_become_ours_once(
    app: offpath.App, theirs: Queries, server: str
) -> None:
    @app.task(name="clean")
    async def clean() -> None: ...

    with psycopg.connect(server) as connection:  # as its scheduler does at its start
        rows = [("clean", "*/5 * * * *"), ("gone", "0 3 * * *")]
        insert = "insert into pgqueuer_schedules (entrypoint, expression) values (%s, %s)"
        connection.cursor().executemany(insert, rows)
    for _ in range(2):
        with open_tables(app) as tables:
            entries = pgqueuer_schedules(tables)
            report = await import_schedules(app, entries, source="pgqueuer")
        assert report.moved == {"clean */5 * * * *": 1}
        assert [one.example for one in report.left] == ["gone 0 3 * * *"]
    (record,) = await app.schedules.list()
    assert (record.schedule.name, record.schedule.timing.expression) == (
        "clean */5 * * * *",
        "*/5 * * * *",
    )
