"""Connections that are cut, refused or slow: our own errors, no secrets, and back to work."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

import psycopg
import pytest

from offpath.errors import AppClosed, StoreBusy, StoreRejected, StoreUnavailable
from offpath.model.effects import Effects
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.faults import translated
from tests.conformance.builders import new_job

from .conftest import Ask, Opened, until

_CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


async def test_a_server_that_is_not_there(unused_tcp_port: int) -> None:
    store = PostgresStore(f"postgresql://u:secret@127.0.0.1:{unused_tcp_port}/db")
    with pytest.raises(StoreUnavailable, match="cannot reach") as caught:
        await store.open()
    assert "secret" not in str(caught.value)
    await store.close()
    with pytest.raises(AppClosed):
        await store.ping()


async def test_a_cut_is_an_error_once_and_then_work_goes_on(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await asyncio.gather(*(store.ping() for _ in range(8)))  # several connections to be cut
    ask(_CUT)
    with pytest.raises(StoreUnavailable):
        await store.ping()
    assert await store.ping() > datetime(2020, 1, 1, tzinfo=UTC)


async def test_a_call_that_is_cancelled_leaves_the_store_usable(
    url: str, opened: Opened, ask: Ask
) -> None:
    store = await opened(pool_size=1)
    with psycopg.connect(url) as holder:
        holder.execute("lock table offpath.job in access exclusive mode")
        call = asyncio.create_task(store.commit(Effects(jobs=(new_job(),))))
        await _until_waiting(ask)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await store.ping()


async def test_a_deadlock_is_not_the_callers_concern(opened: Opened) -> None:
    store = await opened()
    failures = iter([psycopg.errors.DeadlockDetected("once"), None, None, None, None, None])

    def before(name: str) -> None:
        error = next(failures, None) if name == "enqueue" else None
        if error is not None:
            raise error

    store._before_statement = before
    (made,) = await store.commit(Effects(jobs=(new_job(),)))
    assert made.created


@pytest.mark.parametrize(("conflicts", "made"), [(9, 1), (10, 0)])
async def test_ten_attempts_are_made_at_a_transaction_that_conflicts(
    opened: Opened, ask: Ask, conflicts: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.store.postgres.session._WAIT", 0.0)
    store, tried = await opened(), list[str]()

    def before(name: str) -> None:
        if name == "enqueue":
            tried.append(name)
            if len(tried) <= conflicts:
                raise psycopg.errors.SerializationFailure("again")

    store._before_statement = before
    with contextlib.nullcontext() if made else pytest.raises(StoreBusy):
        await store.commit(Effects(jobs=(new_job(),)))
    assert len(tried) == 10
    assert ask("select count(*) from offpath.job") == [(made,)]


@pytest.mark.parametrize("direct", ["", "?offpath_direct=0"])
async def test_a_session_that_forgot_its_statements_is_not_trusted(
    opened: Opened, url: str, direct: str, ask: Ask
) -> None:
    store = await opened(url + direct, pool_size=1)
    for _ in range(3):
        await store.commit(Effects(jobs=(new_job(),)))
    # as behind a pooler, where another session serves the next transaction
    async with store._database._connection() as connection:
        connection.pgconn.exec_(b"deallocate all")  # behind the driver's back
    for _ in range(3):
        assert await store.commit(Effects(jobs=(new_job(),)))
    assert ask("select count(*) from offpath.job") == [(6,)]


async def test_closing_twice_and_opening_again(opened: Opened) -> None:
    store = await opened()
    await store.open()
    await store.close()
    await store.close()
    await store.open()
    assert await store.ping()


async def test_no_connection_is_left(opened: Opened, ask: Ask) -> None:
    store = await opened()
    stop = store.listen(lambda _: None)
    await asyncio.gather(*(store.ping() for _ in range(8)))
    stop()
    await store.close()
    question = (
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    await until(lambda: ask(question) == [(0,)])


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("40001", StoreBusy),
        ("57014", StoreBusy),
        ("57P01", StoreUnavailable),
        ("53300", StoreUnavailable),
        ("25006", StoreUnavailable),
        ("22P05", StoreRejected),
        ("23514", StoreRejected),
        ("54000", StoreRejected),
    ],
)
def test_errors_of_the_server_become_ours(state: str, kind: type[Exception]) -> None:
    error = psycopg.errors.lookup(state)("the values were: secret")
    assert type(translated(error, "postgresql://h/db")) is kind


async def _until_waiting(ask: Ask) -> None:
    question = (
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    )
    await until(lambda: ask(question) != [(0,)])
