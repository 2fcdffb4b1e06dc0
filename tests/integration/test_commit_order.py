"""No event of the log is skipped, however late its transaction commits; nobody else is waited for.

Real transactions on a real server: positions are given in one order and committed in another.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest

from offpath.errors import StoreBusy, WrongConnection
from offpath.model.effects import Effects
from offpath.model.new import NewLogEvent
from offpath.model.route import Decisions, LogPage, RouterSpec, slot_of
from offpath.runtime.ids import new_id
from offpath.store.postgres import PostgresStore, events

CAMPAIGN = bool(os.environ.get("OFFPATH_TEST_CAMPAIGN"))
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


@pytest.fixture
async def store(pg_url: str) -> AsyncIterator[PostgresStore]:
    """A process that reads the log, with a router from the beginning."""
    made = PostgresStore(pg_url)
    await made.open()
    await made.declare_router(RouterSpec(name="r", domain="d", start="beginning"))
    yield made
    await made.close()


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[Connection]:
    """A caller's own transaction, rolled back unless it is committed."""
    connection = await psycopg.AsyncConnection.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def made(key: str, number: int = 0) -> NewLogEvent:
    return NewLogEvent(
        id=new_id(),
        domain="d",
        type="t",
        stream="s",
        payload=str(number),
        key=key,
        slot=slot_of(key),
    )


async def write(store: PostgresStore, connection: Connection, event: NewLogEvent) -> str:
    await store.commit_within(connection, Effects(log=(event,)))
    return event.id


async def write_alone(store: PostgresStore, url: str, key: str = "other") -> str:
    """Append an event in a transaction of its own, as another process would."""
    async with transaction(url) as connection:
        written = await write(store, connection, made(key))
        await connection.commit()
    return written


class Reader:
    """Reads one partition on and on, as a router does."""

    def __init__(self, store: PostgresStore, router: str = "r", partition: int = 0) -> None:
        self.store = store
        self.router = router
        self.partition = partition
        self.after = 0
        self.seen: list[str] = []
        self.last: LogPage | None = None

    async def step(self, limit: int = 100) -> list[str]:
        page = await self.store.read_log(self.router, self.partition, after=self.after, limit=limit)
        got = [event.id for event in page.events]
        self.seen += got
        if len(got) < limit:
            self.after = max(self.after, page.horizon)
        else:
            self.after = page.events[-1].position
        self.last = page
        return got


async def test_what_commits_late_is_read_and_nothing_is_skipped(
    store: PostgresStore, pg_url: str
) -> None:
    reader = Reader(store)
    async with transaction(pg_url) as late, transaction(pg_url) as soon:
        first = await write(store, late, made("a"))
        second = await write(store, soon, made("b"))
        await soon.commit()
        assert await reader.step() == []
        await late.commit()
    assert await reader.step() == [first, second]


async def test_a_rolled_back_writer_leaves_a_gap_that_nobody_waits_for(
    store: PostgresStore, pg_url: str
) -> None:
    reader = Reader(store)
    async with transaction(pg_url) as gone:
        await write(store, gone, made("a"))
        after = await write_alone(store, pg_url)
        assert await reader.step() == []
        await gone.rollback()
    assert await reader.step() == [after]


async def test_an_unrelated_writer_delays_nothing(store: PostgresStore, pg_url: str) -> None:
    reader = Reader(store)
    async with transaction(pg_url) as unrelated:
        await unrelated.execute("create table theirs (n int)")
        await unrelated.execute("insert into theirs values (1)")
        await unrelated.execute("update offpath.router set domain = domain")
        for _ in range(20):
            written = await write_alone(store, pg_url)
            assert await reader.step() == [written]


async def test_causal_events_of_a_key_come_in_causal_order(
    store: PostgresStore, pg_url: str
) -> None:
    """The transaction that writes the second event is the older one, by its number."""
    reader = Reader(store)
    async with transaction(pg_url) as older, transaction(pg_url) as younger:
        await older.execute("create table theirs (n int)")
        numbers = []
        first = await write(store, younger, made("k", 1))
        for connection in (older, younger):
            cursor = await connection.execute("select pg_current_xact_id()::text::bigint")
            numbers.append((await cursor.fetchall())[0][0])
        await younger.commit()
        second = await write(store, older, made("k", 2))
        await older.commit()
    assert numbers == sorted(numbers)
    assert await reader.step() == [first, second]


async def test_an_open_writer_delays_later_events_only_and_is_named(
    store: PostgresStore, pg_url: str
) -> None:
    reader = Reader(store)
    before = await write_alone(store, pg_url)
    assert await reader.step() == [before]
    between = await write_alone(store, pg_url)
    assert await reader.step() == [between]
    async with transaction(pg_url) as writer:
        held = await write(store, writer, made("a"))
        later = await write_alone(store, pg_url)
        assert await reader.step() == []
        assert reader.last is not None
        assert reader.last.waiting_for == (f"pid {writer.info.backend_pid}",)
        await writer.commit()
    assert await reader.step() == [held, later]
    assert not reader.last.waiting_for


async def test_those_who_begin_later_do_not_hold_back_for_ever(
    store: PostgresStore, pg_url: str
) -> None:
    """There is always somebody who writes: each look waits for those that it saw, not for them."""
    reader = Reader(store)
    seen = []
    async with AsyncExitStack() as stack:
        open_now = await stack.enter_async_context(transaction(pg_url))
        seen.append(await write(store, open_now, made("a")))
        for _ in range(10):
            await reader.step()
            following = await stack.enter_async_context(transaction(pg_url))
            seen.append(await write(store, following, made("a")))
            await open_now.commit()
            open_now = following
        await reader.step()
        assert reader.seen == seen[: len(reader.seen)]
        assert len(reader.seen) >= 5
        await open_now.commit()
    await reader.step()
    assert reader.seen == seen


async def test_a_prepared_transaction_is_waited_for(store: PostgresStore, pg_url: str) -> None:
    reader = Reader(store)
    async with transaction(pg_url) as connection:
        ((most,),) = await (await connection.execute("show max_prepared_transactions")).fetchall()
        if most == "0":
            pytest.skip("the server allows no prepared transactions")
        held = await write(store, connection, made("a"))
        await reader.step()
        await connection.execute("prepare transaction 'late'")
        later = await write_alone(store, pg_url)
        assert await reader.step() == []
        await connection.rollback()
        await connection.set_autocommit(True)
        await connection.execute("commit prepared 'late'")
    assert await reader.step() == [held, later]


async def test_a_router_that_begins_now_says_whom_it_waits_for(
    store: PostgresStore, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "NOW_PATIENCE", 0.05)
    async with transaction(pg_url) as writer:
        await write(store, writer, made("a"))
        with pytest.raises(StoreBusy, match=f"pid {writer.info.backend_pid}"):
            await store.declare_router(RouterSpec(name="now", domain="d", start="now"))
        await writer.commit()
    await store.declare_router(RouterSpec(name="now", domain="d", start="now"))
    written = await write_alone(store, pg_url)
    (cursor,) = next(one for one in await store.routers() if one.name == "now").cursors
    page = await store.read_log("now", 0, after=cursor.position, limit=9)
    assert [event.id for event in page.events] == [written]


async def test_a_step_within_sees_its_own_events_and_tells_nobody_else(
    store: PostgresStore, pg_url: str
) -> None:
    reader = Reader(store)
    decided: list[str] = []

    def decide(_: object, found: Any) -> Decisions:
        decided.extend(event.id for event in found)
        return Decisions(position=found[-1].position if found else 0)

    async with transaction(pg_url) as caller:
        own = await write(store, caller, made("a"))
        assert await store.route_within(caller, "r", 0, limit=9, decide=decide) is not None
        assert decided == [own]
        later = await write_alone(store, pg_url)
        assert await reader.step() == []
        await caller.commit()
    assert await reader.step() == [own, later]


async def test_a_step_in_an_old_snapshot_is_refused(store: PostgresStore, pg_url: str) -> None:
    async with transaction(pg_url) as caller:
        await caller.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        with pytest.raises(WrongConnection, match="read committed"):
            await store.route_within(
                caller, "r", 0, limit=9, decide=lambda *_: Decisions(position=0)
            )


class Writers:
    """Eight who write events of ten keys, each event in a transaction that takes its time."""

    def __init__(self, store: PostgresStore, url: str, many: int, *, hold: float) -> None:
        self.store = store
        self.url = url
        self.left = many
        self.hold = hold
        self.committed: dict[str, list[str]] = defaultdict(list)
        self.at: dict[str, float] = {}
        self.chance = random.Random(7)
        self.locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self) -> None:
        await asyncio.gather(*(self._write() for _ in range(8)))

    async def _write(self) -> None:
        async with transaction(self.url) as connection:
            while self.left > 0:
                self.left -= 1
                key = f"k{self.chance.randrange(10)}"
                # what is causal for a key is one after the other; its transaction may be older
                if self.chance.random() < 0.5:
                    await connection.execute("select pg_current_xact_id()")
                async with self.locks[key]:
                    written = await write(self.store, connection, made(key))
                    await self._pause()
                    if self.chance.random() < 0.2:
                        await connection.rollback()
                        continue
                    await connection.commit()
                    self.committed[key].append(written)
                    self.at[written] = time.perf_counter()

    async def _pause(self) -> None:
        """Let the others go on; with holds, for a random time."""
        if self.hold:
            await asyncio.sleep(self.chance.uniform(0, self.hold))
            return
        for _ in range(self.chance.randrange(12)):
            await asyncio.sleep(0)


@pytest.mark.timeout(600)  # the campaign takes a minute for each
@pytest.mark.parametrize("partitions", [1, 4])
async def test_writers_at_once_lose_nothing_and_keep_the_order_of_each_key(
    store: PostgresStore, pg_url: str, partitions: int
) -> None:
    many, hold = (10_000, 0.09) if CAMPAIGN else (1_000, 0.0)
    await store.declare_router(
        RouterSpec(name="many", domain="d", start="beginning", partitions=partitions)
    )
    writers = Writers(store, pg_url, many, hold=hold)
    readers = [Reader(store, "many", partition) for partition in range(partitions)]
    lags: list[float] = []

    async def read(reader: Reader, running: asyncio.Task[None]) -> None:
        while not running.done():
            got = await reader.step(50)
            now = time.perf_counter()
            lags.extend(now - writers.at[one] for one in got if one in writers.at)
            await asyncio.sleep(0.01 if hold else 0)
        while await reader.step(50):
            pass

    async with transaction(pg_url) as unrelated:
        await unrelated.execute("create table theirs (n int)")
        running = asyncio.create_task(writers.run())
        await asyncio.gather(*(read(reader, running) for reader in readers))
        await running
    expected = {one for those in writers.committed.values() for one in those}
    seen = [one for reader in readers for one in reader.seen]
    assert len(seen) == len(set(seen))
    assert set(seen) == expected
    place = {one: n for n, one in enumerate(seen)}
    for those in writers.committed.values():
        places = [place[one] for one in those]
        assert places == sorted(places)
    if CAMPAIGN:
        lags.sort()
        p50, p99 = (lags[len(lags) * share // 100] * 1000 for share in (50, 99))
        print(f"\n{len(expected)} events, {partitions} partitions, holds up to 90 ms:")
        print(f"lag p50 {p50:.0f} ms, p99 {p99:.0f} ms")
