"""A router among faults: each event has one attempt, none is lost, none is sent after it was
recorded as sent."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

import offpath
from offpath.errors import StoreUnavailable
from offpath.events import RoutedEvent
from offpath.events.router import LEASE
from offpath.model.route import AttemptStatus
from offpath.runtime.clock import ManualClock
from offpath.store.postgres import PostgresStore
from tests.conformance.backends import Backend
from tests.conformance.builders import START
from tests.integration import events_service as service
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled
from tests.integration.test_commit_order import Writers

if TYPE_CHECKING:
    from pathlib import Path

    from offpath.model.route import Attempt
    from offpath.store.protocol import Store
    from tests.integration.fleet import Fleet
    from tests.integration.journal import Entry

MOST = 100
EVENTS = scaled(300, 5_000)
KILLS = scaled(3, 12)
TARGET = "tests.integration.events_service:app"


async def _attempts(store: Store, router: str = "iu") -> list[Attempt]:
    found: list[Attempt] = []
    while page := await store.attempts(
        router, limit=1_000, after=(found[-1].position, found[-1].number) if found else None
    ):
        found += page
    return found


# -- between every pair of statements ----------------------------------------------------------


class Dying:
    """The statements of a killed process: none any more, from its ``at``-th on."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0

    def __call__(self, statement: str) -> None:
        self.seen += 1
        if self.seen >= self.at:
            raise StoreUnavailable(f"killed before {statement}")


class Runner:
    """One process with the router, and what it hands over; ``looker`` is somebody else's view."""

    def __init__(self, store: Store, clock: ManualClock, looker: Store) -> None:
        self.store = store
        self.app = offpath.App(store=store, clock=clock, auto_start=False)
        self.router = self.app.router("iu", domain="iu", start="beginning")
        self.router.route(deliver=self.deliver, name="all", enabled=True, dry_run=False)
        self.looker = looker
        self.got: list[str] = []
        self.delivering = asyncio.Event()

    async def deliver(self, event: RoutedEvent) -> None:
        assert not await self.looker.attempts("iu", event=event.id), "it was recorded as sent"
        self.got.append(event.id)
        self.delivering.set()


async def _cut(backend: Backend, at: int, repeats: list[int]) -> bool:
    """Two runs at once, the one killed before its ``at``-th statement; whether it came to that."""
    clock = ManualClock(START)
    looker, first, second = (backend.store(clock) for _ in range(3))
    await looker.open()
    doomed, heir = (Runner(store, clock, looker) for store in (first, second))
    async with heir.app, doomed.app:
        await heir.app.routers.open_gate()
        await heir.router.open_gate()
        await doomed.router.record()
        async with heir.app.batch() as batch:
            ids = [batch.append("iu", "t", "s", n, key=f"k{n % 3}") for n in range(9)]
        dying = Dying(at)
        cast("Any", first)._before_statement = dying
        run = asyncio.create_task(doomed.router.run_once(limit=4))
        under_way = asyncio.create_task(doomed.delivering.wait())
        # The other one comes when this one has the cursor, or has been killed before.
        await asyncio.wait({run, under_way}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(run, heir.router.run_once(limit=2), return_exceptions=True)
        under_way.cancel()
        cast("Any", first)._before_statement = None
        clock.advance(LEASE + 1)
        while (await heir.router.run_once(limit=4)).more:
            pass
        attempts = await _attempts(looker)
        assert [one.event for one in attempts] == ids
        assert {(one.number, one.status) for one in attempts} == {(1, AttemptStatus.SENT)}
        sent = doomed.got + heir.got
        assert set(sent) == set(ids)
        assert len(sent) - len(ids) <= 4, "only what the dead one had in hand is sent again"
        repeats.append(len(sent) - len(ids))
    await looker.close()
    return dying.seen >= at


@pytest.mark.timeout(180)
async def test_a_run_killed_between_any_two_statements_leaves_each_event_one_attempt(
    url: str, tmp_path: Path
) -> None:
    """Another run of the same router is under way at the same time."""
    kind, place = ("postgres", url) if url.startswith("postgres") else ("sqlite", "")
    backend = Backend(kind, place or str(tmp_path / "0.db"))
    backend.hurry()
    at = 1
    repeats: list[int] = []
    while await _cut(backend, at, repeats):
        at += 1
        backend = backend.emptied(tmp_path / f"{at}.db")
        assert at < MOST
    assert max(repeats) > 0, "none was killed between sending and recording it"
    assert repeats[-1] == 0, "without a kill nothing is sent twice"


# -- processes -----------------------------------------------------------------------------------


@pytest.mark.timeout(420)
async def test_killed_router_processes_lose_nothing_and_a_reset_cursor_sends_nothing_twice(
    app: offpath.App, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a dead run's cursor is free when its lease has ended, which usually is a minute
    monkeypatch.setenv("OFFPATH_TEST_LEASE", "5" if CAMPAIGN else "1")
    router = app.router("iu", domain="iu", start="beginning", partitions=service.PARTITIONS)
    await app.routers.open_gate()
    await router.open_gate()
    chance = random.Random(7)
    async with app.batch() as batch:
        ids = [
            batch.append("iu", "t", "s", number, key=f"k{chance.randrange(40)}")
            for number in range(EVENTS)
        ]
    start = partial(fleet.start, target=TARGET, poll_interval=0.2)
    runners = [start() for _ in range(2)]
    killed = await fleet.kill_at_work(
        runners, "routed", kills=KILLS, of=EVENTS, start=start, within=90
    )

    async def all_passed() -> bool:
        return sum(one.passed for one in (await router.record()).cursors) >= EVENTS

    await eventually(all_passed, within=200, what="every event is passed")
    attempts = await _attempts(app.store())
    assert sorted(one.event for one in attempts) == sorted(ids)
    assert {(one.number, one.status) for one in attempts} == {(1, AttemptStatus.SENT)}
    deliveries: dict[str, list[Entry]] = defaultdict(list)
    for one in fleet.journal.all("routed"):
        deliveries[one.job].append(one)
    assert set(deliveries) == set(ids)
    for entries in deliveries.values():
        assert {one.pid for one in entries[:-1]} <= killed, "only a dead run's is sent again"

    for partition in range(service.PARTITIONS):
        assert await app.store().move_cursor("iu", partition, 0)
    head = max(one.position for one in attempts)

    async def again() -> bool:
        ahead = [one.position for one in (await router.record()).cursors]
        return min(ahead) > 0 and max(ahead) >= head

    await eventually(again, within=60, what="the cursors are at the end once more")
    assert await _attempts(app.store()) == attempts
    assert len(fleet.journal.all("routed")) == sum(map(len, deliveries.values()))
    wrong = {check.name for check in await router.verify() if check.fine is False}
    assert wrong == {"every live route has a deliverer"}, "which this process has none of"


# -- commit order --------------------------------------------------------------------------------


@pytest.mark.timeout(600)
@pytest.mark.parametrize("partitions", [1, 4])
async def test_eight_writers_with_rollbacks_are_routed_whole_and_in_order(
    pg_url: str, partitions: int
) -> None:
    """Cases A2."""
    many, hold = (10_000, 0.3) if CAMPAIGN else (600, 0.0)
    routed: list[str] = []
    app = offpath.App(pg_url, auto_start=False)
    router = app.router("many", domain="d", start="beginning", partitions=partitions)
    router.route(
        deliver=lambda event: routed.append(event.id), name="all", enabled=True, dry_run=False
    )
    async with app:
        await app.routers.open_gate()
        await router.open_gate()
        writing = PostgresStore(pg_url)
        await writing.open()
        writers = Writers(writing, pg_url, many, hold=hold)

        async def route(partition: int, running: asyncio.Task[None]) -> None:
            while not running.done():
                await router.run_once(limit=50, partition=partition)
            while (await router.run_once(limit=50, partition=partition)).passed:
                pass

        running = asyncio.create_task(writers.run())
        await asyncio.gather(*(route(number, running) for number in range(partitions)))
        await running
        await writing.close()
        attempts = await _attempts(app.store(), "many")
    committed = {one for those in writers.committed.values() for one in those}
    assert len(committed) > many // 2
    assert len(routed) == len(committed)
    assert set(routed) == committed
    assert sorted(one.event for one in attempts) == sorted(committed)
    place = {one: number for number, one in enumerate(routed)}
    for those in writers.committed.values():
        places = [place[one] for one in those]
        assert places == sorted(places)
