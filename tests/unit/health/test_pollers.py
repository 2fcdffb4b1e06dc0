"""Outbox pollers under supervision: what they fail to publish is red by budget and by freshness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import offpath
from offpath import App, Worker
from offpath.config import Settings
from offpath.events import Event, Undeliverable
from offpath.health.fleet import examine
from offpath.health.thresholds import Thresholds
from offpath.model.health import Condition, LoopReport
from offpath.testing import ManualClock
from tests.unit.health.world import loop_of, red, report_of
from tests.unit.jobs.worker.rig import breathe

STREAMS = ("wallet", "rolling", "agent")


class Broker:
    """A dispatcher that is well, or down for all or some, or never comes to an end."""

    def __init__(self) -> None:
        self.down: set[object] = set()
        self.published: list[object] = []
        self.hanging = False
        self.opened = asyncio.Event()

    async def open(self) -> None:
        if self.hanging:
            await self.opened.wait()

    async def dispatch(self, event: Event) -> None:
        if event.payload == "never":
            raise Undeliverable("no such wallet")
        if event.payload in self.down:
            raise ConnectionError("the broker is away")
        self.published.append(event.payload)


class Site:
    """An app with the three streams, each with a broker of its own, and a worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = App(clock=self.clock, auto_start=False)
        self.brokers = {stream: Broker() for stream in STREAMS}
        for stream, broker in self.brokers.items():
            # a retry is due at once, so that each turn meets the failing event again
            retry = offpath.RetryOptions(attempts=1_000, base=0.1, cap=0.1, jitter=0.0)
            self.app.outbox(stream, dispatcher=broker, retry=retry)
        self.worker: Worker | None = None

    async def start(self) -> Worker:
        self.worker = self.app.worker()
        await self.worker.start()
        await breathe()
        return self.worker

    async def pass_time(self, seconds: int, step: float = 1.0) -> None:
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            await breathe()

    def outcomes(self, stream: str) -> dict[str, float]:
        told = self.app.metrics.list("offpath_loop_iterations_total")
        return {
            one.labels["outcome"]: one.value
            for one in told
            if one.labels["loop"] == f"relay:{stream}" and one.value
        }

    async def close(self) -> None:
        for broker in self.brokers.values():
            broker.opened.set()
        closing = asyncio.ensure_future(self.app.close())
        while not closing.done():
            self.clock.advance(0.5)
            await breathe()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.close()


def of(worker: Worker, stream: str) -> LoopReport:
    return report_of(worker, f"relay:{stream}")


@pytest.mark.parametrize("stream", STREAMS)
async def test_iterations_that_publish_nothing_are_failed_and_red_beyond_the_budget(
    site: Site, stream: str
) -> None:
    worker = await site.start()
    before = site.outcomes(stream)
    site.brokers[stream].down = {1, 2}
    for payload in (1, 2):
        await site.app.publish("moved", payload, stream=stream)
    await site.pass_time(40)
    after = site.outcomes(stream)
    assert after.get("failed", 0) > 3
    assert after.get("clean", 0) == before.get("clean", 0) == 0
    assert after["empty"] == before["empty"], "an iteration with failures is never a healthy one"
    assert red(worker) == {f"relay:{stream}"}
    told = of(worker, stream)
    assert told.consecutive_failures > 3
    assert told.reason is not None
    assert "turns in a row failed: 2 of 2 messages failed" in told.reason
    assert not worker.report().ready
    site.brokers[stream].down = set()
    for payload in (3, 4, 5):
        await site.pass_time(13)
        await site.app.publish("moved", payload, stream=stream)
    await site.pass_time(1)
    assert of(worker, stream).condition is Condition.HEALTHY
    assert worker.report().ready


@pytest.mark.parametrize("stream", STREAMS)
async def test_iterations_that_publish_some_are_degraded_and_red_beyond_the_budget(
    site: Site, stream: str
) -> None:
    worker = await site.start()
    for number in range(5):
        async with site.app.batch() as batch:
            batch.publish("moved", number, stream=stream)
            batch.publish("moved", "never", stream=stream)
        await breathe()
    assert site.brokers[stream].published == list(range(5))
    assert site.outcomes(stream)["degraded"] == 5
    assert red(worker) == {f"relay:{stream}"}
    (reason,) = worker.report().reasons
    assert reason.startswith(f"loop relay:{stream}: 5 turns in a row failed: 1 of 2 messages")


async def test_a_poller_that_hangs_is_red_within_its_window_and_no_other_is(site: Site) -> None:
    site.brokers["rolling"].hanging = True
    worker = await site.start()
    await site.app.publish("moved", 1, stream="rolling")
    await site.app.publish("moved", 2, stream="wallet")
    await site.pass_time(59)
    assert red(worker) == set()
    await site.pass_time(3)
    assert red(worker) == {"relay:rolling"}
    assert site.brokers["wallet"].published == [2]
    told = of(worker, "rolling")
    assert told.reason is not None
    assert "in one turn for" in told.reason
    site.brokers["rolling"].opened.set()
    await site.pass_time(3)
    assert worker.report().ready
    assert site.brokers["rolling"].published == [1]


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_poller_that_is_killed_is_started_again_and_publishes(
    site: Site, stream: str
) -> None:
    worker = await site.start()
    loop = loop_of(worker, f"relay:{stream}")
    assert loop._task is not None
    loop._task.cancel()
    await site.pass_time(2)
    assert (of(worker, stream).restarts, of(worker, stream).healthy) == (1, True)
    counted = site.app.metrics.get("offpath_loop_restarts_total", loop=f"relay:{stream}")
    assert counted is not None
    assert counted.value == 1
    await site.app.publish("moved", 1, stream=stream)
    await site.pass_time(2)
    assert site.brokers[stream].published == [1]


async def test_events_that_no_relay_takes_are_red_in_a_default_installation(site: Site) -> None:
    """The process that relays is stopped: the other workers, and who asks the store, say so."""
    worker = site.app.worker(relays=False)
    await worker.start()
    await site.app.publish("moved", 1, stream="agent")
    await site.pass_time(299)
    assert worker.report().warnings == ()
    await site.pass_time(17)
    (warning,) = worker.report().warnings
    assert warning.startswith("the oldest undelivered event of stream agent has waited for 3")
    assert worker.report().ready, "nothing that this worker does goes wrong"
    store = site.app.store()
    fleet = await examine(store, Thresholds(store, Settings()))
    assert [one for one in fleet.reasons if "undelivered event of stream agent" in one]


async def test_an_event_that_fails_again_and_again_is_red_between_its_attempts_too() -> None:
    """Empty turns come between, and are not proof that anything works."""
    site = Site()
    site.app.outbox("slow", dispatcher=(broker := Broker()))
    broker.down = {1}
    try:
        worker = await site.start()
        await site.app.publish("moved", 1, stream="slow")
        await site.pass_time(300)
        red_at = []
        for second in range(300):
            await site.pass_time(1)
            red_at += [second] if not worker.report().ready else []
        assert red_at == list(range(300))
        assert any("loop relay:slow" in one for one in worker.report().reasons)
        assert any("event of stream slow" in one for one in worker.report().warnings)
    finally:
        await site.close()


async def test_an_idle_poller_is_healthy_for_an_hour(site: Site) -> None:
    worker = await site.start()
    ready = []
    for _ in range(60):
        await site.pass_time(60, step=5)
        ready.append(worker.report().ready)
    assert all(ready)
    assert all(set(site.outcomes(stream)) == {"empty"} for stream in STREAMS)
