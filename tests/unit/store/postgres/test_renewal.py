"""Renewals from a thread: over one connection that is kept, and replaced when it is broken."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from offpath.errors import StoreUnavailable
from offpath.runtime.ids import new_id
from offpath.store.postgres import PostgresStore, renewal
from offpath.store.postgres.renewal import RenewalConnection
from tests.conformance.builders import worker_info

from .conftest import Ask, Opened, until

WORKER = worker_info()
_NAMED = "select pid from pg_stat_activity where application_name = 'renewals' order by pid"
_SEEN = "select extract(epoch from expires_at - clock_timestamp())::float from offpath.worker"


class Renewals:
    """A store with a worker, whose renewals have a name at the server."""

    def __init__(self, store: PostgresStore, ask: Ask) -> None:
        self.store = store
        self._ask = ask

    async def vouch(self) -> bool:
        return await asyncio.to_thread(self.store.vouch, WORKER.id, lease_seconds=1000)

    def sessions(self) -> list[int]:
        return [pid for (pid,) in self._ask(_NAMED)]

    def left(self) -> float:
        ((seconds,),) = self._ask(_SEEN)
        return float(seconds)


@pytest.fixture
async def renewals(opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Renewals:
    connect = RenewalConnection.connect
    monkeypatch.setattr(
        RenewalConnection,
        "connect",
        lambda *args, **options: connect(*args, **{**options, "application_name": "renewals"}),
    )
    store = await opened(pool_size=1)
    await store.register(WORKER, lease_seconds=30)
    return Renewals(store, ask)


async def test_renewals_keep_one_connection(renewals: Renewals) -> None:
    assert await renewals.vouch()
    (first,) = renewals.sessions()
    for _ in range(3):
        assert await renewals.vouch()
    assert renewals.sessions() == [first]
    assert renewals.left() > 900


async def test_a_worker_that_nobody_knows_is_told_so(renewals: Renewals) -> None:
    for _ in range(2):
        assert not await asyncio.to_thread(renewals.store.vouch, new_id(), lease_seconds=5)


async def test_a_connection_that_was_cut_is_replaced_unseen(renewals: Renewals, ask: Ask) -> None:
    assert await renewals.vouch()
    (first,) = renewals.sessions()
    ask("select pg_terminate_backend(%s)", first)
    await until(lambda: not renewals.sessions())
    ask("update offpath.worker set expires_at = clock_timestamp()")
    assert await renewals.vouch()
    (second,) = renewals.sessions()
    assert second != first
    assert renewals.left() > 900


async def test_a_pool_that_is_exhausted_holds_up_no_renewal(renewals: Renewals) -> None:
    """Its one connection waits for a lock, as may those of many handlers."""
    with psycopg.connect(renewals.store._address.conninfo) as holder:
        holder.execute("lock table offpath.job in access exclusive mode")
        waiting = asyncio.create_task(renewals.store.get([WORKER.id]))
        await asyncio.sleep(0)
        assert await renewals.vouch()
        assert not waiting.done()
    await waiting


async def test_a_server_that_does_not_answer_is_told_of_in_time(
    renewals: Renewals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "PATIENCE", 0.2)
    assert await renewals.vouch()
    begun = asyncio.get_running_loop().time()
    with psycopg.connect(renewals.store._address.conninfo) as holder:
        holder.execute("select from offpath.worker for update")
        with pytest.raises(StoreUnavailable):
            await renewals.vouch()
        assert asyncio.get_running_loop().time() - begun < 5
    assert await renewals.vouch()


async def test_two_threads_renew_beside_each_other(renewals: Renewals) -> None:
    assert all(await asyncio.gather(*(renewals.vouch() for _ in range(4))))
    await until(lambda: 1 <= len(renewals.sessions()) <= renewal.AT_ONCE)


async def test_the_threads_of_many_workers_renew_over_few_connections(
    renewals: Renewals,
) -> None:
    asked, turns = 6, renewals.store._renewals._turns
    begun: list[int] = []

    def arrived() -> int:
        """The threads that have a connection, and those that wait for one."""
        return len(begun) + len(turns._cond._waiters)  # type: ignore[attr-defined]  # CPython's

    def act(_: RenewalConnection) -> None:
        begun.append(threading.get_ident())
        go_on.wait()

    go_on = threading.Event()
    run = renewals.store._renewals.run
    calls = [asyncio.create_task(asyncio.to_thread(run, act)) for _ in range(asked)]
    try:
        await until(lambda: arrived() == asked)
        assert len(begun) == renewal.AT_ONCE
    finally:
        go_on.set()
        await asyncio.gather(*calls)
    assert len(begun) == asked


async def test_a_thread_that_waits_for_others_renews_in_time(
    renewals: Renewals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads before it may ask a server that does not answer."""
    monkeypatch.setattr(renewal, "PATIENCE", 0.2)
    turns = renewals.store._renewals._turns
    for _ in range(renewal.AT_ONCE):
        assert turns.acquire(blocking=False)
    assert await renewals.vouch()


@pytest.mark.parametrize("end", ["heartbeat", "close"])
async def test_no_connection_is_kept_once_the_loop_turns_again(
    renewals: Renewals, end: str
) -> None:
    assert await renewals.vouch()
    assert renewals.sessions()
    calls: dict[str, Any] = {
        "heartbeat": lambda: renewals.store.extend(WORKER, lease_seconds=30, held=[]),
        "close": renewals.store.close,
    }
    await calls[end]()
    await until(lambda: not renewals.sessions())


async def test_a_renewal_is_committed_whatever_the_roles_default(
    renewals: Renewals, ask: Ask
) -> None:
    name = ask("select current_database()")[0][0]
    for setting in ("isolation = 'serializable'", "read_only = on"):
        ask(f'alter database "{name}" set default_transaction_{setting}')
    assert await renewals.vouch()
    assert renewals.left() > 900
