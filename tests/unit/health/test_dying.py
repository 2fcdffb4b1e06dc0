"""Deaths for good are told by number and share, and turn the fleet red; no worker for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

import offpath
from offpath import App
from offpath.config import Settings
from offpath.events import Event, InboxMessage
from offpath.health.fleet import FleetHealth, examine
from offpath.health.thresholds import Thresholds
from offpath.model.deaths import FEW, Deaths, Ends, Whose
from offpath.operating.checkup import look
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.runtime.recent_ends import MOST, RecentEnds
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Level
from tests.unit.jobs.worker.rig import breathe


class Service:
    """An app of which everything can be made to fail for good, and a worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.broken = False
        self.app = App(clock=self.clock, auto_start=False)
        once = offpath.RetryOptions(attempts=1)

        @self.app.task(retry=once)
        async def charge() -> None:
            self._maybe()

        async def deliver(_event: Event) -> None:
            self._maybe()

        self.charge = charge
        self.app.outbox("wallet", dispatcher=deliver, retry=once)

        @self.app.inbox("bank", retry=once)
        async def apply(_message: InboxMessage) -> None:
            self._maybe()

        self.audit = self.app.router("audit", domain="d", start="beginning")

        @self.audit.route(type="paid", name="paid")
        async def paid(_event: object) -> None:
            self._maybe()

    def _maybe(self) -> None:
        if self.broken:
            raise ValueError

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            await breathe()

    async def health(self) -> FleetHealth:
        store = self.app.store()
        return await examine(store, Thresholds(store, self.app.settings))


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with made.app:
        await made.audit.run_once()
        await made.app.routers.open_gate()
        await made.audit.open_gate()
        await made.audit.switch("paid", enabled=True, dry_run=False)
        yield made


async def job(service: Service, number: int) -> None:
    await service.charge.enqueue()


async def event(service: Service, number: int) -> None:
    await service.app.publish("t", number, stream="wallet")


async def message(service: Service, number: int) -> None:
    await service.app.accept("bank", str(number), number)


async def routed(service: Service, number: int) -> None:
    await service.app.log.append("d", "paid", "s", number)


EACH: dict[str, Callable[[Service, int], Awaitable[None]]] = {
    "task charge": job,
    "stream wallet": event,
    "source bank": message,
    "router audit": routed,
}


@pytest.mark.parametrize("name", EACH)
async def test_everything_that_dies_turns_the_fleet_red_with_number_and_share(
    service: Service, name: str
) -> None:
    async with service.app.worker() as worker:
        await service.pass_time(16)
        for number in range(FEW):
            await EACH[name](service, number)
        await service.pass_time(16)
        assert (await service.health()).healthy
        service.broken = True
        for number in range(2 * FEW):
            await EACH[name](service, FEW + number)
            await breathe()
        await service.pass_time(32)
        health = await service.health()
        (reason,) = (one for one in health.reasons if "new dead letters" in one)
        assert reason == f"10 new dead letters of {name} in 15 minutes, 67% of what ended"
        assert worker.report().ends == {name: Ends(10, 15)}
        assert not any("dead letters of" in one for one in worker.report().reasons)
        service.broken = False
        await service.pass_time(900)
        assert not any("dead letters of" in one for one in (await service.health()).reasons)


async def test_a_few_deaths_are_a_warning(service: Service) -> None:
    service.broken = True
    async with service.app.worker():
        await service.charge.enqueue()
        await service.pass_time(32)
        health = await service.health()
    assert [one for one in health.reasons if "charge" in one] == []
    warning = "1 new dead letter of task charge in 15 minutes, 100% of what ended"
    assert warning in health.warnings


@pytest.mark.parametrize(
    ("dead", "ends", "red"),
    [
        (100, Ends(100, 100_000), False),
        (101, Ends(101, 100_000), True),
        (101, None, True),
        (FEW, Ends(FEW, 2 * FEW), False),
        (FEW, Ends(FEW, 2 * FEW - 1), True),
        (FEW, None, False),
        (FEW - 1, Ends(FEW - 1, FEW - 1), False),
    ],
)
async def test_the_number_and_the_share_have_limits(
    dead: int, ends: Ends | None, *, red: bool
) -> None:
    thresholds = Thresholds(MemoryStore(ManualClock()), Settings())
    deaths = [Deaths(whose=Whose.STREAM, name="s", count=dead)]
    (told,) = thresholds.dying(deaths, {} if ends is None else {"stream s": ends})
    assert (told.reason is not None) == red
    lifted = Settings(death_limit=1_000_000, death_share_limit=1.0)
    (told,) = Thresholds(MemoryStore(ManualClock()), lifted).dying(deaths, {})
    assert told.reason is None


def test_what_dies_of_a_webhook_endpoint_is_that_endpoints_own_health() -> None:
    thresholds = Thresholds(MemoryStore(ManualClock()), Settings())
    deaths = [Deaths(whose=Whose.STREAM, name="webhook:acme", count=9_000)]
    (told,) = thresholds.dying(deaths, {"stream webhook:acme": Ends(9_000, 9_000)})
    assert told.reason is None
    assert told.text.startswith("9000 new dead letters of stream webhook:acme")


def test_counters_tell_what_ended_in_the_last_quarter_of_an_hour() -> None:
    clock, metrics = ManualClock(), Metrics()
    ends = RecentEnds(metrics, clock)
    jobs = {
        kind: metrics.counter(f"offpath_jobs_{kind}_total", task="t", queue="q")
        for kind in ("succeeded", "dead")
    }
    metrics.counter("offpath_messages_total", box="in", stream="bank", outcome="dead").add(2)
    metrics.counter("offpath_messages_total", box="in", stream="bank", outcome="failed").add(9)
    metrics.counter("offpath_router_attempts_total", router="r", status="sent").add(3)
    metrics.counter("offpath_router_attempts_total", router="r", status="failed").add(1)
    jobs["dead"].add(4)
    ends.look()
    assert ends.ends == {}, "nobody knows when that was"
    jobs["dead"].add(1)
    jobs["succeeded"].add(3)
    clock.advance(450)
    ends.look()
    assert ends.ends == {"task t": Ends(1, 4)}
    metrics.counter("offpath_messages_total", box="in", stream="bank", outcome="dead").add()
    metrics.counter("offpath_router_attempts_total", router="r", status="failed").add()
    clock.advance(901)
    ends.look()
    assert ends.ends == {
        "source bank": Ends(1, 1),
        "router r": Ends(1, 1),
    }, "what was a quarter of an hour ago is over"


def test_a_report_names_the_worst_and_not_all() -> None:
    clock, metrics = ManualClock(), Metrics()
    ends = RecentEnds(metrics, clock)
    ends.look()
    for number in range(MOST + 5):
        metrics.counter("offpath_jobs_dead_total", task=f"t{number}", queue="q").add(number + 1)
    ends.look()
    assert len(ends.ends) == MOST
    assert "task t0" not in ends.ends


async def test_a_router_that_is_behind_turns_the_fleet_red(service: Service) -> None:
    await routed(service, 1)
    service.clock.advance(200)
    assert not any("router audit" in one for one in (await service.health()).reasons)
    service.clock.advance(101)
    (reason,) = (one for one in (await service.health()).reasons if "router" in one)
    assert (
        reason == "the oldest unrouted event of router audit has waited for 301 s, more than 300 s"
    )


async def test_doctor_counts_dead_letters_of_all_kinds_and_names_the_new_ones(
    service: Service,
) -> None:
    service.broken = True
    async with service.app.worker():
        for make in EACH.values():
            for number in range(2):
                await make(service, number)
        await service.pass_time(16)
    found = {one.name: one for one in await look(service.app)}
    assert found["dead letters"].message == (
        "8: 2 of router audit, 2 of source bank, 2 of stream wallet, 2 of task charge; see: "
        "offpath dead list, offpath inbox list --state dead, offpath outbox list --state dead, "
        "offpath router list"
    )
    assert found["deaths"].level is Level.WARNING
    assert "2 new dead letters of router audit in 15 minutes" in found["deaths"].message
    for _ in range(101):
        await service.charge.enqueue()
    async with service.app.worker():
        await service.pass_time(30)
    found = {one.name: one for one in await look(service.app)}
    assert found["deaths"].level is Level.PROBLEM
    assert found["deaths"].message.startswith("103 new dead letters of task charge in 15 minutes")
    service.clock.advance(901)
    found = {one.name: one for one in await look(service.app)}
    assert (found["deaths"].level, found["dead letters"].level) == (Level.FINE, Level.WARNING)


async def test_each_router_tells_its_own_lag_and_whether_it_is_open(service: Service) -> None:
    def told(name: str) -> float:
        reading = service.app.metrics.get(f"offpath_router_{name}", router="audit")
        assert reading is not None
        return reading.value

    await service.audit.open_gate(opened=False)
    await routed(service, 1)
    async with service.app.worker(relays=False):
        await service.pass_time(31)
        assert (told("lag_seconds") > 15, told("open")) == (True, 0)
        await service.audit.open_gate()
        await service.pass_time(16)
        assert told("open") == 1
        await service.audit.run_once()
        await service.pass_time(16)
        assert (told("lag_seconds"), told("open")) == (0, 1)
