"""A run keeps its cursor for as long as it delivers, and stops when it is to stop."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

import offpath
from offpath.events.deliveries import RoutedEvent
from offpath.events.router import CHUNK, LEASE, Router
from offpath.events.router_run import CursorLost
from offpath.runtime.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def app(clock: ManualClock) -> offpath.App:
    return offpath.App("memory://", clock=clock, auto_start=False)


async def _ready(app: offpath.App, deliver: object, count: int) -> Router:
    """An open router with one live route, and as many events of one key."""
    router = app.router("iu", domain="iu", start="beginning")
    router.route(deliver=deliver, enabled=True, dry_run=False)
    await app.routers.open_gate()
    await router.open_gate()
    for number in range(count):
        await app.log.append("iu", "paid", "eu", {"n": number}, key="k")
    return router


async def _passes(clock: ManualClock, seconds: float) -> None:
    """Let time pass, and everybody who waited for it do what they have to."""
    clock.advance(seconds)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_run_that_delivers_for_longer_than_its_lease_keeps_it(
    app: offpath.App, clock: ManualClock
) -> None:
    """Events of one key go one after the other, so that a few slow ones outlast any lease."""
    got: list[int] = []
    stolen: list[object] = []

    async def deliver(event: RoutedEvent) -> None:
        await _passes(clock, LEASE / 2)
        stolen.append(await app.store().lease_cursor("iu", 0, "other", lease_seconds=LEASE))
        got.append(event.payload["n"])

    async with app:
        router = await _ready(app, deliver, 5)
        assert (await router.run_once()).counts == {"sent": 5}
        assert (await router.run_once()).counts == {}
    assert got == [0, 1, 2, 3, 4]
    assert stolen == [None] * 5


async def test_a_run_whose_cursor_is_put_elsewhere_ends_and_leaves_it_there(
    app: offpath.App, clock: ManualClock
) -> None:
    async def deliver(event: RoutedEvent) -> None:
        await app.store().move_cursor("iu", 0, 1)
        await _passes(clock, LEASE / 2)
        await asyncio.Event().wait()

    async with app:
        router = await _ready(app, deliver, 3)
        with pytest.raises(CursorLost):
            await router.run_once()
        (cursor,) = (await router.record()).cursors
        assert (cursor.position, cursor.holder) == (1, None)
        assert await app.store().attempts("iu") == []


async def test_a_gate_closed_meanwhile_stops_a_long_run_and_what_it_did_counts(
    app: offpath.App, clock: ManualClock
) -> None:
    got: list[int] = []

    async def deliver(event: RoutedEvent) -> None:
        got.append(event.payload["n"])
        if event.payload["n"] == 3:
            await app.routers.get("iu").open_gate(opened=False)
            await _passes(clock, LEASE / 2)

    async with app:
        router = await _ready(app, deliver, CHUNK + 20)
        run = await router.run_once()
        assert (run.passed, run.counts) == (CHUNK, {"sent": CHUNK})
        assert (await router.run_once()).stopped == "gate: iu"
        await router.open_gate()
        assert (await router.run_once()).counts == {"sent": 20}
        assert all(one.fine for one in await router.verify())
    assert got == list(range(CHUNK + 20))


@pytest.mark.parametrize("drain", [True, False])
async def test_a_worker_that_stops_leaves_the_cursor_to_others_at_once(
    app: offpath.App, clock: ManualClock, drain: bool
) -> None:
    """Also when a delivery hangs, and has to be cut off."""
    began = asyncio.Event()
    got: list[int] = []

    async def deliver(event: RoutedEvent) -> None:
        began.set()
        if not got and not drain:
            await asyncio.Event().wait()
        got.append(event.payload["n"])

    async with app:
        router = await _ready(app, deliver, 3)
        worker = app.worker()
        await worker.start()
        await asyncio.wait_for(began.wait(), 10)
        stopping = asyncio.ensure_future(worker.stop(drain=drain))
        while not stopping.done():
            await _passes(clock, 0.1)
        assert clock.monotonic() < LEASE / 2
        (cursor,) = (await router.record()).cursors
        assert cursor.holder is None
        got.append(-1)
        assert (await router.run_once()).counts == ({} if drain else {"sent": 3})


async def test_a_run_that_is_cut_off_as_it_gets_the_cursor_leaves_it_to_others(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app:
        router = await _ready(app, lambda event: None, 2)
        store, given = app.store(), asyncio.Event()
        lease_cursor = store.lease_cursor

        async def unanswered(*args: Any, **options: Any) -> None:
            await lease_cursor(*args, **options)
            given.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(store, "lease_cursor", unanswered)
            run = asyncio.ensure_future(router.run_once())
            await asyncio.wait_for(given.wait(), 10)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        assert (await router.run_once()).counts == {"sent": 2}


class Slow:
    """A deliverer that takes longer than its time limit, and heeds no cancellation."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.broken = True
        self.others: list[dict[str, int]] = []
        self.calls = 0

    async def __call__(self, event: RoutedEvent) -> None:
        if self.broken:
            raise ValueError("down")
        self.calls += 1
        for _ in range(4):
            await _passes(self._clock, 9)
            self.others.append((await self.again()).counts)

    async def again(self) -> Any:
        """The same pass, as another process would make it meanwhile."""
        raise NotImplementedError


@pytest.mark.parametrize("verb", ["redrive", "redo"])
async def test_an_event_that_is_delivered_again_for_longer_than_its_claim_is_nobody_elses(
    app: offpath.App, clock: ManualClock, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(clock)
    async with app:
        router = await _ready(app, slow, 1)
        passes = {"redrive": router.redrive, "redo": lambda: router.redo("dry_run")}
        monkeypatch.setattr(slow, "again", passes[verb])
        if verb == "redo":
            await router.switch("*:*", dry_run=True)
        await router.run_once()
        await router.switch("*:*", dry_run=False)
        slow.broken = False
        assert (await passes[verb]()).counts == {"sent": 1}
    assert slow.calls == 1
    assert slow.others == [{"skipped" if verb == "redrive" else "busy": 1}] * 4


async def test_a_delivery_whose_claim_another_pass_took_is_ended_and_not_written(
    app: offpath.App, clock: ManualClock
) -> None:
    """The state after an outage of the store that was longer than the claim."""
    ends: list[str] = []

    async def deliver(event: RoutedEvent) -> None:
        if event.attempt == 1:
            raise ValueError("down")
        await _passes(clock, 0)  # the renewals begin
        clock.advance(31)
        name = f"offpath.replay:{letter.id}:{event.attempt}"
        assert await app.store().claim(name, "another pass", ttl=60)
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    async with app:
        router = await _ready(app, deliver, 1)
        await router.run_once()
        (letter,) = await app.store().letters("iu")
        async with asyncio.timeout(10):
            assert (await router.redrive()).counts == {"skipped": 1}
        (left,) = await app.store().letters("iu")
    assert (ends, left.number) == (["ended"], letter.number)
