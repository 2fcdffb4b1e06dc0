"""Decisions that were only logged, made again: going live after a dry run loses nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import offpath
from offpath.errors import InvalidArgument
from offpath.events import RoutedEvent
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START

pytestmark = pytest.mark.needs("log")


class Service:
    """An app with one router and what its routes got."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.app = offpath.App(store=store, clock=clock, auto_start=False)
        self.got: list[tuple[str | None, int]] = []
        self.broken = False

        @self.app.task
        async def book(event: RoutedEvent) -> None: ...

        self.router = self.app.router("iu", domain="iu", start="beginning")
        self.router.route(type="paid", name="call", deliver=self.call)
        self.router.route(type="booked", name="book", deliver=book)

    async def call(self, event: RoutedEvent) -> None:
        if self.broken:
            raise ValueError("down")
        self.got.append((event.key, event.attempt))

    async def logged(self, *keys: str, kind: str = "paid") -> None:
        """Append events, and let the router decide about them."""
        for key in keys:
            await self.app.log.append("iu", kind, "eu", key=key)
        await self.router.run_once()

    async def live(self, route: str = "call") -> None:
        await self.router.switch(route, enabled=True, dry_run=False)


@pytest.fixture
async def service(store: Store, clock: ManualClock) -> Service:
    made = Service(store, clock)
    await made.app.routers.open_gate()
    await made.router.open_gate()
    await made.router.switch("call", enabled=True)
    return made


async def test_what_a_dry_run_decided_is_sent_once_it_is_live(service: Service) -> None:
    await service.logged("a", "b", "c")
    await service.live()
    assert (await service.router.redo("dry_run")).counts == {"sent": 3}
    assert sorted(service.got, key=str) == [("a", 2), ("b", 2), ("c", 2)]
    assert (await service.router.redo()).counts == {}
    assert len(service.got) == 3
    assert all(check.fine is not False for check in await service.router.verify())


async def test_what_is_decided_as_before_stays_as_it_is(service: Service) -> None:
    await service.logged("a", "b")
    for _ in range(2):
        assert (await service.router.redo()).counts == {"unchanged": 2}
    found = await service.app.routers.stored("iu").attempts()
    assert [one.number for one in found] == [1, 1]


async def test_only_the_statuses_and_times_that_are_asked_for(
    service: Service, clock: ManualClock
) -> None:
    await service.logged("old")
    await service.logged("off", kind="booked")
    await service.logged("odd", kind="other")
    clock.advance(60)
    await service.logged("new")
    await service.live()
    await service.live("book")
    service.router.route(type="other", name="late", deliver=service.call)
    await service.router.record()
    await service.live("late")
    since = START + timedelta(seconds=60)
    assert (await service.router.redo("dry_run", since=since)).counts == {"sent": 1}
    assert (await service.router.redo("disabled")).counts == {"sent": 1}
    assert (await service.router.redo("skipped")).counts == {"sent": 1}
    assert (await service.router.redo("dry_run")).counts == {"sent": 1}
    assert [key for key, _ in service.got] == ["new", "odd", "old"]
    assert [job.task for job in (await service.app.jobs.find()).items] == ["book"]


async def test_pages_are_bounded_and_a_repeat_goes_on(service: Service) -> None:
    await service.logged(*(f"k{number}" for number in range(5)))
    await service.live()
    first = await service.router.redo(limit=2)
    assert (first.counts, first.more) == ({"sent": 2}, True)
    rest = await service.router.redo(limit=100)
    assert (rest.counts, rest.more) == ({"sent": 3}, False)
    keys = [str(key) for key, _ in service.got]
    assert (sorted(keys[:2]), sorted(keys[2:])) == (["k0", "k1"], ["k2", "k3", "k4"])


async def test_events_of_one_key_go_in_the_logs_order(service: Service) -> None:
    order: list[str] = []

    async def keep(event: RoutedEvent) -> None:
        order.append(event.id)

    service.router.route(type="moved", name="keep", deliver=keep)
    await service.logged(*("k",) * 6, kind="moved")
    await service.live("keep")
    assert (await service.router.redo()).counts == {"sent": 6}
    found = await service.app.routers.stored("iu").attempts()
    assert order == [one.event for one in found if one.number == 1]


async def test_one_that_fails_is_a_dead_letter_that_replay_delivers(service: Service) -> None:
    await service.logged("a")
    await service.live()
    service.broken = True
    assert (await service.router.redo()).counts == {"failed": 1}
    (letter,) = await service.app.routers.stored("iu").letters()
    assert letter.number == 2
    service.broken = False
    assert (await service.router.redrive()).counts == {"sent": 1}
    assert service.got == [("a", 3)]


async def test_a_letter_that_was_resolved_by_a_dry_run_does_not_hide_the_next(
    service: Service,
) -> None:
    await service.live()
    service.broken = True
    await service.logged("a")
    await service.router.switch("call", dry_run=True)
    assert (await service.router.redrive()).counts == {"dry_run": 1}
    await service.live()
    assert (await service.router.redo()).counts == {"failed": 1}
    (letter,) = await service.app.routers.stored("iu").letters()
    assert letter.number == 3


async def test_two_at_once_send_each_once(service: Service) -> None:
    await service.logged(*(f"k{number}" for number in range(8)))
    await service.live()
    await asyncio.gather(*(service.router.redo() for _ in range(3)))
    assert sorted(key or "" for key, _ in service.got) == [f"k{number}" for number in range(8)]


async def test_a_closed_gate_is_told_and_nothing_is_done(service: Service) -> None:
    await service.logged("a")
    await service.live()
    await service.app.routers.open_gate(opened=False)
    assert (await service.router.redo()).skipped == "gate: master"
    assert service.got == []


async def test_an_event_that_the_log_lost_is_told(service: Service, store: Store) -> None:
    await service.logged("a")
    (attempt,) = await store.attempts("iu")
    assert [one.id for one in await store.find_events([attempt.event, "none"])] == [attempt.event]
    await service.live()
    service.router._source = _Empty()  # type: ignore[assignment]
    assert (await service.router.redo()).counts == {"gone": 1}


class _Empty:
    async def find(self, store: Store, ids: list[str]) -> dict[str, object]:
        return {}


@pytest.mark.parametrize("status", ["failed", "sent", "", "dry"])
async def test_other_statuses_are_refused(service: Service, status: str) -> None:
    with pytest.raises(InvalidArgument, match="redrive"):
        await service.router.redo(status)
