"""K5, K6: a relay that stopped turns a default installation red within its window, unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import offpath
from offpath.config import Settings
from offpath.events import Event
from offpath.health.fleet import FleetHealth, examine
from offpath.health.thresholds import Thresholds
from offpath.jobs.worker.app_worker import AppWorker
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore

WINDOW = 60.0
"""Seconds without a success after which a loop of a second's interval is red."""
AGE = 300.0
"""Seconds that the oldest event may wait."""


class Killed(BaseException):
    """The error that ends a task for good: not an Exception."""


class StoppingStore(MemoryStore):
    """Its leases of messages go as they are told to."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.before_lease: Callable[[], Any] | None = None

    async def lease_messages(self, request: Any) -> Any:
        if self.before_lease is not None:
            await self.before_lease()
        return await super().lease_messages(request)


async def _hang() -> None:
    await asyncio.Event().wait()


async def _die() -> None:
    raise Killed


class Service:
    """A default app with one relay, whose clock the test moves."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.store = StoppingStore(self.clock)
        self.told: list[str] = []
        self.app = offpath.App(
            store=self.store,
            clock=self.clock,
            auto_start=False,
            settings=Settings(**settings),
            on_error=lambda _error, phase: self.told.append(phase),
        )
        self.sent: list[Any] = []
        self.app.outbox(dispatcher=self._deliver)

    async def _deliver(self, event: Event) -> None:
        self.sent.append(event.payload)

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            for _ in range(30):
                await asyncio.sleep(0)

    async def stop(self, worker: AppWorker) -> None:
        """Stop it, and let the time pass that it may take for what hangs."""
        stopping = asyncio.create_task(worker.stop(timeout=1))
        while not stopping.done():
            await self.pass_time(1)

    async def fleet(self) -> FleetHealth:
        """The words of ``offpath health`` about the store."""
        return await examine(self.store, Thresholds(self.store, self.app.settings))

    def reasons(self, worker: AppWorker) -> str:
        return "; ".join(worker.report().reasons)


@pytest.mark.parametrize("stopped", [_hang, _die], ids=["hung", "dead"])
async def test_a_relay_loop_that_stopped_is_red_within_its_window_and_green_again(
    stopped: Callable[[], Any],
) -> None:
    service = Service()
    async with service.app, service.app.worker() as worker:
        await service.app.publish("t", 1)
        await service.pass_time(3)
        assert service.sent == [1]
        assert worker.report().ready
        service.store.before_lease = stopped
        await service.app.publish("t", 2)
        await service.pass_time(WINDOW + 2)
        assert not worker.report().ready
        assert "loop relay:default: " in service.reasons(worker)
        assert [one.name for one in worker.health() if one.condition == "unhealthy"] == [
            "relay:default"
        ]
        service.store.before_lease = None
        if stopped is _die:
            await service.pass_time(WINDOW)
            assert (worker.report().ready, service.sent) == (True, [1, 2])
        await service.stop(worker)


async def test_an_hour_without_a_relay_is_told_by_the_age_of_the_oldest_event() -> None:
    """This worker relays nothing, and nobody else does: every loop is well, the event waits."""
    service = Service(relays=False)
    async with service.app, service.app.worker() as worker:
        await service.app.publish("t", 1)
        await service.pass_time(AGE - 10)
        assert worker.report().warnings == ()
        await service.pass_time(40)
        (warning,) = worker.report().warnings
        (reason,) = (await service.fleet()).reasons
        for told in (warning, reason):
            assert told.startswith("the oldest undelivered event of stream default has waited for")
        await service.pass_time(3_300, step=10.0)
        assert not (await service.fleet()).healthy
        assert (await service.app.relay().run_once()).counts == {"relayed": 1}
        await service.pass_time(20)
        assert worker.report().warnings == ()
        assert (await service.fleet()).healthy
