"""The steps on a connection of the caller: no trace of a refusal, no commit of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offpath.errors import IdConflict, UniqueConflict, WrongConnection
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, JobFilter, NewJob, UniquePolicy
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.enqueue import enqueue_steps
from offpath.store.sqlite.session import Session
from tests.conformance.builders import START, add, new_job, unique


@pytest.fixture
def connection(store: SqliteStore, path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        yield made


def run(connection: sqlite3.Connection, *jobs: NewJob) -> list[Enqueued]:
    session = Session(connection, before=lambda _name: None, patience=0.0)
    return session.drive(enqueue_steps(Effects(jobs=jobs), START))


def ids(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("select id from offpath_job")}


async def test_a_rolled_back_enqueue_never_was(connection: sqlite3.Connection) -> None:
    connection.execute("begin")
    run(connection, new_job(), new_job(group_id="g"))
    assert connection.in_transaction
    connection.execute("rollback")
    assert ids(connection) == set()
    assert connection.execute("select * from offpath_group").fetchall() == []


async def test_a_refused_batch_takes_back_what_it_had_inserted(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    holder = await add(store, unique=unique("k"))
    before = ids(connection)
    refused = new_job(unique=unique("k", policy=UniquePolicy.REFUSE))

    connection.execute("begin")
    with pytest.raises(UniqueConflict) as raised:
        run(connection, new_job(), refused, new_job(group_id="g"))
    connection.execute("commit")

    assert raised.value.holder == holder
    assert ids(connection) == before
    assert connection.execute("select * from offpath_group").fetchall() == []


async def test_an_id_conflict_takes_back_a_replacement(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    holder = await add(store, unique=unique("k"), input="1")
    replacing = new_job(input="2", unique=unique("k", policy=UniquePolicy.REPLACE))

    connection.execute("begin")
    with pytest.raises(IdConflict):
        run(connection, replacing, new_job(id=holder, fingerprint="another"))
    connection.execute("commit")

    [record] = await store.get([holder])
    assert record.input == "1"


async def test_one_batch_sees_its_own_jobs(connection: sqlite3.Connection) -> None:
    first = new_job(unique=unique("k"))
    second = new_job(unique=unique("k"))
    answers = run(connection, first, second, first)
    assert [answer.job_id for answer in answers] == [first.id] * 3
    assert [answer.created for answer in answers] == [True, False, False]


async def test_a_blocking_connection_joins(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    job = new_job()
    connection.execute("begin immediate")
    [answer] = store.commit_within_blocking(connection, Effects(jobs=(job,)))
    assert answer.created
    assert await store.states([job.id]) == {}
    connection.execute("commit")
    assert list(await store.states([job.id])) == [job.id]


async def test_a_connection_of_another_file_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    beside = SqliteStore(other)
    await beside.open()
    with (
        closing(sqlite3.connect(other)) as connection,
        pytest.raises(WrongConnection, match=r"other\.db"),
    ):
        store.commit_within_blocking(connection, Effects(jobs=(new_job(),)))
    assert await beside.count(JobFilter()) == []
    await beside.close()


async def test_an_in_memory_connection_is_refused(store: SqliteStore) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(WrongConnection, match="in-memory"),
    ):
        store.commit_within_blocking(connection, Effects(jobs=(new_job(),)))
