"""Wake-ups and presence: other stores hear, deaths are seen, and the living are left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from offpath.model.effects import Effects
from offpath.model.lease import LeaseRequest
from offpath.store.hints import Hint
from offpath.store.postgres import PostgresStore, deaths
from tests.conformance.builders import TASK, new_job, worker_info

from .conftest import Ask, Opened, until

_CUT_LISTENERS = """
    select pg_terminate_backend(l.pid) from pg_locks l
    where l.locktype = 'advisory' and l.database =
        (select oid from pg_database where datname = current_database())
"""
_LOCKS = """
    select count(*) from pg_locks
    where locktype = 'advisory'
        and database = (select oid from pg_database where datname = current_database())
"""


class Heard:
    """The hints that one store has heard, and an event for each."""

    def __init__(self, store: PostgresStore) -> None:
        self.events = {hint: asyncio.Event() for hint in Hint}
        self.stop = store.listen(lambda hint: self.events[hint].set())

    async def wait(self, hint: Hint) -> None:
        async with asyncio.timeout(10):
            await self.events[hint].wait()

    async def settle_down(self) -> None:
        """Until it is connected, for then it is told to look at everything once."""
        for hint in Hint:
            await self.wait(hint)
        for event in self.events.values():
            event.clear()


async def test_others_hear_of_work_ends_and_cancellations(opened: Opened) -> None:
    store, other = await opened(), await opened()
    heard = Heard(other)
    await heard.settle_down()
    (made,) = await store.commit(Effects(jobs=(new_job(),)))
    await heard.wait(Hint.WORK)
    await store.register(worker_info(), lease_seconds=30)
    await store.lease(LeaseRequest(worker="w1", limit=1, tasks={TASK: 1}))
    await store.cancel([made.id])
    await heard.wait(Hint.CANCEL)
    (waiting,) = await store.commit(Effects(jobs=(new_job(),)))
    await store.cancel([waiting.id])
    await heard.wait(Hint.ENDED)


async def test_another_schema_is_not_heard(opened: Opened) -> None:
    store = await opened()
    tenant, sender = [await opened(schema="tenant_1", migrate=True) for _ in range(2)]
    heard = Heard(tenant)
    await heard.settle_down()
    (made,) = await store.commit(Effects(jobs=(new_job(),)))
    await store.cancel([made.id])
    await store.close()  # all it had to tell is told
    await sender.commit(Effects(jobs=(new_job(),)))
    await heard.wait(Hint.WORK)
    assert not heard.events[Hint.ENDED].is_set()


async def test_the_lock_comes_back_at_once_after_a_cut(opened: Opened, ask: Ask) -> None:
    store = await opened()
    assert await store.register(worker_info(), lease_seconds=30)
    ask(_CUT_LISTENERS)
    await until(lambda: ask(_LOCKS) == [(1,)])
    assert [one.presence for one in await store.workers()] == [True]
    await store.deregister("w1")
    assert ask(_LOCKS) == [(0,)]


async def test_a_listener_that_was_cut_hears_again(opened: Opened, ask: Ask) -> None:
    store, other = await opened(), await opened()
    await other.register(worker_info(), lease_seconds=30)
    heard = Heard(other)
    ask(_CUT_LISTENERS)
    await heard.settle_down()
    await store.commit(Effects(jobs=(new_job(),)))
    await heard.wait(Hint.WORK)


async def test_behind_a_pooler_nothing_is_promised(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a pooler tells its clients a process of its own invention
    monkeypatch.setattr("psycopg.ConnectionInfo.backend_pid", property(lambda _: 4711))
    store = await opened()
    assert not await store.register(worker_info(), lease_seconds=30)
    assert [one.presence for one in await store.workers()] == [False]


async def test_without_a_direct_way_the_lease_decides(
    opened: Opened, unused_tcp_port: int, url: str
) -> None:
    nowhere = f"postgresql://127.0.0.1:{unused_tcp_port}/none"
    store = await opened(url, notify_url=nowhere)
    assert not await store.register(worker_info(), lease_seconds=30)
    assert await store.notice_deaths() == []


# -- a death ---------------------------------------------------------------------------------------

_WORKER = textwrap.dedent(
    """
    import asyncio, os, sys
    from offpath.model.lease import WorkerInfo
    from offpath.store.postgres import PostgresStore

    async def main(url, forks):
        store = PostgresStore(url)
        await store.open()
        worker = WorkerInfo(id="doomed", host="h", pid=1, version="1", concurrency=1, tasks=())
        assert await store.register(worker, lease_seconds=600)
        if forks and os.fork() == 0:
            os.read(0, 1)  # lives until the test ends it
            os._exit(0)
        print("ready", flush=True)
        await asyncio.sleep(600)

    asyncio.run(main(sys.argv[1], sys.argv[2] == "forks"))
    """
)


async def _looks(store: PostgresStore, ask: Ask) -> list[str]:
    """Two looks, of which the first was a second ago as far as the database is concerned."""
    first = await store.notice_deaths()
    ask("update offpath.worker set missing_since = missing_since - interval '1 second'")
    return first + await store.notice_deaths()


@pytest.mark.parametrize("manner", ["alone", "forks"])
async def test_a_killed_worker_is_noticed(
    opened: Opened, url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    monkeypatch.setattr(deaths, "RESTART_GRACE", 0.0)
    store = await opened()
    with subprocess.Popen(  # noqa: ASYNC220 - it is only started here
        [sys.executable, "-c", _WORKER, url, manner], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"ready\n"
        assert await _looks(store, ask) == []
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: ask(_LOCKS) == [(0,)])
        assert await store.notice_deaths() == []  # suspicion, not proof
        assert await store.notice_deaths() == []  # too soon after the first look
        assert await _looks(store, ask) == ["doomed"]
        assert [one.late for one in await store.workers()] == [True]


async def test_a_worker_that_comes_back_is_not_suspected_any_more(
    opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "RESTART_GRACE", 0.0)
    store = await opened()
    await store.register(worker_info(), lease_seconds=30)
    ask("update offpath.worker set presence = 1")  # a lock that nobody holds
    assert await store.notice_deaths() == []
    assert ask("select missing_since is not null from offpath.worker") == [(True,)]
    await store.extend(worker_info(), lease_seconds=30, held=[])
    assert await _looks(store, ask) == []


async def test_who_was_cut_off_lately_concludes_nothing_from_the_locks_of_others(
    opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs may have been cut by the same, and they may be slower to come back."""
    monkeypatch.setattr(deaths, "RESTART_GRACE", 0.0)
    store, other = await opened(), await opened()
    await store.register(worker_info(), lease_seconds=30)
    await other.register(worker_info("w2"), lease_seconds=30)
    ask("update offpath.worker set presence = 1 where id = 'w1'")  # a lock that nobody holds
    cut = asyncio.Event()
    other.listen(lambda _: cut.set())
    monkeypatch.setattr(deaths, "RESTART_GRACE", 60.0)
    ask(f"{_CUT_LISTENERS} and l.pid <> pg_backend_pid()")
    await cut.wait()
    await until(lambda: ask(_LOCKS) == [(2,)])
    assert await _looks(other, ask) == []
    assert ask("select count(*) from offpath.worker where missing_since is not null") == [(0,)]


async def test_a_thread_sees_that_the_listener_was_cut_while_the_loop_is_blocked(
    opened: Opened, ask: Ask
) -> None:
    store = await opened()
    await store.register(worker_info(), lease_seconds=30)
    assert not store.cut_off()
    ask(_CUT_LISTENERS)  # this blocks the loop, which so knows nothing yet
    assert any(store.cut_off() for _ in range(100_000))
    await until(lambda: ask(_LOCKS) == [(1,)])
    assert not store.cut_off()


async def test_a_death_wakes_those_who_take_what_was_held(
    opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "RESTART_GRACE", 0.0)
    store, other = await opened(), await opened()
    heard = Heard(other)
    await heard.settle_down()
    await store.register(worker_info(), lease_seconds=30)
    ask("update offpath.worker set presence = 1")
    assert await _looks(store, ask) == ["w1"]
    await heard.wait(Hint.MESSAGES)


async def test_nobody_is_suspected_soon_after_the_server_started(
    opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "RESTART_GRACE", 1e9)
    store = await opened()
    await store.register(worker_info(), lease_seconds=30)
    ask("update offpath.worker set presence = 1")
    assert await _looks(store, ask) == []
