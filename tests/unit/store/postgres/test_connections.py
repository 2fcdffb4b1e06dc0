"""Connections that are cut, refused or slow: our own errors, no secrets, and back to work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from offpath.errors import AppClosed, StoreBusy, StoreRejected, StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.job import JobFilter
from offpath.model.message import MessageFilter
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.faults import OnStandby, from_standby, stale, translated
from offpath.store.postgres.session import Database
from tests.conformance.builders import new_job, worker_info
from tests.conformance.workflow_builders import signal

from .conftest import Ask, Opened, until

_CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
_OTHERS = """
    select count(*) from pg_stat_activity
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


@pytest.mark.parametrize(
    ("missing", "advice"), [("database", "CREATE DATABASE"), ("role", "CREATE ROLE")]
)
async def test_a_database_or_a_role_that_is_not_there_is_told_to_be_made(
    url: str, missing: str, advice: str
) -> None:
    host = url.rpartition("@")[2].partition("/")[0]
    names = {"database": "postgres@{}/no_such", "role": "no_such@{}/postgres"}
    store = PostgresStore(f"postgresql://{names[missing].format(host)}")
    told = f'{missing} "no_such" does not exist. Create it .*{advice}'
    with pytest.raises(StoreUnavailable, match=told):
        await store.open()
    await store.close()


@pytest.mark.parametrize("kind", ["ping", "commit", "get", "signal", "settle", "snapshot"])
async def test_connections_that_died_while_they_rested_are_replaced_unseen(
    opened: Opened, ask: Ask, kind: str
) -> None:
    store = await opened()
    job = new_job()
    await store.commit(Effects(jobs=(job,)))
    await asyncio.gather(*(store.ping() for _ in range(8)))  # several connections to be cut
    ask(_CUT)
    await until(lambda: ask(_OTHERS) == [(0,)])
    match kind:
        case "ping":
            assert await store.ping() > datetime(2020, 1, 1, tzinfo=UTC)
        case "commit":
            (made,) = await store.commit(Effects(jobs=(new_job(),)))
            assert made.created
        case "get":
            assert len(await store.get([job.id])) == 1
        case "signal":
            assert await store.send_signal(signal())
        case "settle":
            assert await store.settle([]) == []
            assert await store.held("nobody") == []
        case _:
            async with store._database.snapshot() as snapshot:
                assert await snapshot.ask(store._sql["ping"](now=None))


@pytest.mark.parametrize("after", [False, True], ids=["unanswered", "answer lost"])
async def test_a_call_whose_connection_is_lost_under_way_is_made_once_more(
    opened: Opened, ask: Ask, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(pool_size=1)
    pipeline, cut = Database._answered, list[str]()

    async def cutting(self: Database, connection: Any, queries: Any) -> Any:
        if any(query.name == "enqueue_one" for query in queries) and not cut:
            cut.append("once")
            answer = await pipeline(self, connection, queries) if after else None
            connection.pgconn.finish()
            raise psycopg.OperationalError(f"cut, after {answer}")
        return await pipeline(self, connection, queries)

    monkeypatch.setattr(Database, "_answered", cutting)
    job = new_job()
    (made,) = await store.commit(Effects(jobs=(job,)))
    assert (cut, made.created) == (["once"], not after)
    assert ask("select count(*) from offpath.job") == [(1,)]


READS: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "find": lambda store: store.find(JobFilter()),
    "count": lambda store: store.count(JobFilter()),
    "backlog": lambda store: store.backlog(),
    "held": lambda store: store.held("nobody"),
    "find_messages": lambda store: store.find_messages(MessageFilter()),
    "message_backlog": lambda store: store.message_backlog(),
    "routers": lambda store: store.routers(),
    "attempts": lambda store: store.attempts("none"),
    "letters": lambda store: store.letters("none"),
    "read_events": lambda store: store.read_events(),
    "count_held": lambda store: store.count_held(limit=1),
    "deaths": lambda store: store.deaths(),
    "router_lags": lambda store: store.router_lags(),
    "schedules": lambda store: store.schedules(),
    "endpoints": lambda store: store.endpoints(),
    "queues": lambda store: store.queues(),
    "workers": lambda store: store.workers(),
}


@pytest.mark.parametrize("name", READS)
async def test_a_read_whose_session_has_ended_is_made_once_more(
    opened: Opened, ask: Ask, name: str
) -> None:
    """The server ends the session after the look at it, as its idle limit does."""
    store = await opened(pool_size=1)
    cut: list[str] = []

    def cutting(statement: str) -> None:
        if not cut:
            cut.append(statement)
            ask(_CUT)

    store._database.before = cutting
    await READS[name](store)
    assert len(cut) == 1


async def test_a_disk_that_is_full_is_told_with_its_remedy(opened: Opened, url: str) -> None:
    store = await opened()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "create function offpath.full() returns trigger language plpgsql as $$ begin"
            " raise exception 'could not extend file: No space left on device'"
            " using errcode = '53100'; end $$;"
            "create trigger full_disk before insert on offpath.job"
            " for each row execute function offpath.full()"
        )
        job = new_job()
        with pytest.raises(StoreUnavailable, match=r"disk of .* is full .*Make room"):
            await store.commit(Effects(jobs=(job,)))
        owner.execute("drop trigger full_disk on offpath.job")
    (made,) = await store.commit(Effects(jobs=(job,)))
    assert made.created


async def test_a_default_that_transactions_only_read_stops_no_store(
    opened: Opened, url: str, ask: Ask
) -> None:
    """Each of our transactions says that it writes, and a session of ours that it may."""
    name = url.rpartition("/")[2].partition("?")[0]
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
    store = await opened()
    assert ask("show transaction_read_only") == [("on",)]
    (made,) = await store.commit(Effects(jobs=(new_job(),)))
    assert made.created
    worker = worker_info()
    await store.register(worker, lease_seconds=30)
    assert await asyncio.to_thread(store.vouch, worker.id, lease_seconds=30)


async def test_a_call_that_is_lost_twice_is_an_error(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened()

    async def cutting(self: Database, connection: Any, _: Any) -> Any:
        connection.pgconn.finish()
        raise psycopg.OperationalError("cut")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable, match="cannot reach"):
        patch.setattr(Database, "_answered", cutting)
        await store.ping()
    assert await store.ping()


async def test_a_call_that_nobody_answers_is_given_up_in_its_own_time(
    url: str, opened: Opened
) -> None:
    """A network that swallows what is sent: no cancel and no goodbye gets through either."""
    store = await opened(call_timeout=1.0, pool_size=2)
    with psycopg.connect(url) as holder:
        holder.execute("lock table offpath.job in access exclusive mode")
        begun = asyncio.get_running_loop().time()
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            await store.commit(Effects(jobs=(new_job(),)))
        assert asyncio.get_running_loop().time() - begun < 15
    assert await store.ping()


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
        error = next(failures, None) if name == "enqueue_one" else None
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
        if name == "enqueue_one":
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


def test_only_what_is_said_of_the_values_is_a_refusal() -> None:
    """Else the store's trouble would be charged to a job that has done its work."""
    kinds = {one.sqlstate: one for one in vars(psycopg.errors).values() if _has_code(one)}
    assert len(kinds) > 200
    for state, kind in kinds.items():
        refused = isinstance(translated(kind("text"), "db"), StoreRejected)
        assert refused == (state[:2] in {"22", "23", "54"}), state


def _has_code(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, psycopg.Error) and bool(found.sqlstate)


def test_a_code_that_stands_for_two_things_is_told_apart() -> None:
    plan = psycopg.errors.FeatureNotSupported("cached plan must not change result type")
    standby = psycopg.errors.FeatureNotSupported(
        "cannot set transaction read-write mode during recovery"
    )
    other = psycopg.errors.FeatureNotSupported("timestamp too large")
    assert (stale(plan), stale(standby), stale(other)) == (True, False, False)
    assert not from_standby(plan, standby=True)
    assert from_standby(standby, standby=False)
    assert not from_standby(other, standby=False)
    assert from_standby(psycopg.errors.SerializationFailure("conflict"), standby=True)


@pytest.mark.parametrize("error", [OnStandby("x"), psycopg.errors.ReadOnlySqlTransaction("x")])
def test_read_only_is_unavailable_and_says_so(error: psycopg.Error) -> None:
    found = translated(error, "db")
    assert isinstance(found, StoreUnavailable)
    assert "read only" in str(found)
