"""The SQL door is as strict as the Python door, and needs no right on any table."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

import offpath
from offpath.errors import InvalidArgument
from offpath.model import checks
from tests.conformance.backends import Backend
from tests.integration.within.conftest import build_postgres


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("within", build_postgres)


def call(url: str, **given: object) -> str:
    names = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder()) for name in given
    )
    with psycopg.connect(url) as connection:
        query = sql.SQL("select offpath.enqueue({})").format(names)
        row = connection.execute(query, list(given.values())).fetchone()
    assert row is not None
    return str(row[0])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"run_at": "infinity"}, "run_at must be a time between the years 1 and 9999"),
    ({"run_at": "-infinity"}, "run_at must be"),
    ({"run_at": "4000-01-01 BC"}, "run_at must be"),
    ({"run_at": "20000-01-01"}, "run_at must be"),
    ({"delay": "-4000 years"}, "delay must be between 0"),
    ({"delay": "-1 second"}, "delay must be between 0"),
    ({"delay": "400 years"}, "delay must be between 0"),
    ({"tags": "5"}, "tags must be a JSON array of texts"),
    ({"tags": '{"a": 1}'}, "tags must be a JSON array"),
    ({"tags": "null"}, "tags must be a JSON array"),
    ({"tags": '[["a"]]'}, "tags must be texts of 1 to 200"),
    ({"tags": "[1, null]"}, "tags must be texts of 1 to 200"),
    ({"tags": '[""]'}, "tags must be texts of 1 to 200"),
    ({"tags": json.dumps(["a" * 201])}, "tags must be texts of 1 to 200"),
    ({"tags": json.dumps([f"t{n}" for n in range(51)])}, "at most 50 tags"),
    ({"task": ""}, "task must be given"),
    ({"task": "x" * 201}, "task must have 1 to 200 characters, not 201"),
    ({"task": "a\x1b[2J"}, "task must not have control"),
    ({"queue": ""}, "queue must have 1 to 200"),
    ({"queue": "x" * 201}, "queue must have 1 to 200"),
    ({"queue": "a\u202eb"}, "queue must not have control"),
    ({"priority": -(2**31)}, "priority must be between"),
    ({"unique_key": ""}, "unique_key must have 1 to 500"),
    ({"unique_key": "k" * 501}, "unique_key must have 1 to 500"),
    ({"input": "[1]"}, "input must be a JSON object"),
    ({"input": json.dumps({"a": "x" * 2**20})}, "input has .* bytes, over the limit"),
]


def test_what_python_refuses_is_refused(url: str) -> None:
    for given, message in REFUSED:
        with pytest.raises(errors.InvalidParameterValue, match=message):
            call(url, **{"task": "t", **given})
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from offpath.job").fetchone() == (0,)


def test_what_python_takes_is_taken(url: str) -> None:
    for given in (
        {"task": "x" * 200, "queue": "é" * 200, "unique_key": "k" * 500},
        {"run_at": "0001-01-01 00:00:00+00"},
        {"run_at": "9999-12-31 23:59:59+00"},
        {"delay": "300 years", "priority": -(2**31) + 1},
        {"tags": json.dumps([f"t{n}" for n in range(50)])},
        {"tags": "[]", "input": json.dumps({"a": "x" * (2**20 - 20)})},
        {"queue": None, "priority": None, "delay": None, "tags": None, "unique_key": None},
    ):
        call(url, **{"task": "t", **given})


async def test_repeated_tags_are_kept_once(url: str) -> None:
    job = call(url, task="t", tags='["b", "a", "b"]')
    async with offpath.App(url, auto_start=False) as app:
        assert (await app.jobs.get(job)).tags == ("b", "a")


def test_both_doors_refuse_the_same_characters(url: str) -> None:
    odd = [
        chr(code)
        for code in (*range(1, 0x3100), *range(0xE000, 0xE010), *range(0xFE00, 0x10000))
        if unicodedata.category(chr(code)) != "Cs"
    ] + [chr(code) for code in (0x110BD, 0x13430, 0x1D173, 0xE0001, 0xE0041, 0xF0000, 0x1F600)]
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select one, offpath.enqueue_fault(one, '{}', 'q', '0', null, 0, null, null) is null"
            " from unnest(%s::text[]) as one",
            [odd],
        ).fetchall()
    assert len(rows) == len(odd)
    assert [one for one, taken in rows if taken != _python_takes(one)] == []


def _python_takes(name: str) -> bool:
    try:
        checks.name(name, "task")
    except InvalidArgument:
        return False
    return True


def test_the_two_doors_have_one_table_of_rules(url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select prosrc from pg_proc where oid = 'offpath.enqueue_fault'::regproc"
        ).fetchone()
    assert row is not None
    body = "".join(line.strip() for line in row[0].splitlines()).replace("''", "")
    assert checks.UNPRINTABLE in body
    for bound in (checks.MAX_NAME, checks.MAX_KEY, checks.MAX_PRIORITY, int(checks.MAX_SECONDS)):
        assert f"{bound}" in body


def test_who_may_only_execute_it_enqueues_and_does_nothing_else(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("create role door_only")
        try:
            owner.execute("grant usage on schema offpath to door_only")
            owner.execute("set role door_only")
            with pytest.raises(errors.InsufficientPrivilege):
                owner.execute("select offpath.enqueue('t')")
            owner.execute("reset role")
            owner.execute("grant execute on function offpath.enqueue to door_only")
            owner.execute("set role door_only")
            assert owner.execute("select offpath.enqueue('t', unique_key => 'k')").fetchone()
            for denied in (
                "select * from offpath.job",
                "update offpath.job set priority = 1",
                "insert into offpath.claim (key, holder) values ('a', 'b')",
            ):
                with pytest.raises(errors.InsufficientPrivilege):
                    owner.execute(denied.encode())
        finally:
            owner.execute("reset role")
            owner.execute("drop owned by door_only")
            owner.execute("drop role door_only")


def test_who_used_the_door_before_still_may(postgres_url: str) -> None:
    steps = Backend("postgres", postgres_url).steps()
    door = next(step for step in steps if step.name == "door")
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("create role door_user")
        owner.execute("create schema offpath")
        for step in steps[: door.number - 1]:
            owner.execute(step.sql.encode())
        owner.execute("grant usage on schema offpath to door_user")
        owner.execute("grant select, insert, update on offpath.job to door_user")
        owner.execute(door.sql.encode())
        try:
            owner.execute("set role door_user")
            assert owner.execute("select offpath.enqueue('t')").fetchone()
        finally:
            owner.execute("reset role")
            owner.execute("drop owned by door_user")
            owner.execute("drop role door_user")


async def test_a_job_put_in_by_sql_is_run_with_its_tasks_own_options(url: str) -> None:
    app = offpath.App(url, auto_start=False)
    runs = []

    @app.task(retry=offpath.RetryOptions(attempts=2, base=0.0), retention=12345)
    async def flaky(n: int) -> None:
        runs.append(n)
        if n:
            raise ValueError("no")

    async with app:
        bad = call(url, task="flaky", input='{"n": 1}')
        good = call(url, task="flaky", input='{"n": 0}')
        await app.worker().run_until_idle()
        assert (await app.jobs.get(bad)).attempt == 2
        kept = await app.jobs.get(good)
        assert kept.expires_at is not None
        assert kept.finished_at is not None
        assert (kept.expires_at - kept.finished_at).total_seconds() == 12345
    assert sorted(runs) == [0, 1, 1]
