"""Work that stands still on purpose or by mistake is kept as a finding, and told."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from offpath.config import Settings
from offpath.economy import pauses
from offpath.health.findings import LOOK_EVERY, Findings
from offpath.health.fleet import FleetHealth, examine
from offpath.health.thresholds import Thresholds
from offpath.model.limit import LimitHolder, LimitSpec
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, add, join, succeed, take
from tests.conformance.log_builders import ROUTER, append_many, declare

ONE = LimitSpec(key="api", max_running=1)


class Watch:
    """A worker's look at the findings."""

    def __init__(self, store: Store, clock: ManualClock, **settings: str) -> None:
        self._clock = clock
        numbers = count(1)
        self.settings = Settings(**settings)  # type: ignore[arg-type]
        self._findings = Findings(store, self.settings, lambda: f"f{next(numbers)}")

    async def lines(self) -> list[str]:
        self._clock.advance(LOOK_EVERY.total_seconds())
        return [one.line for one in await self._findings.look(self._clock.now())]


@pytest.fixture
def watch(store: Store, clock: ManualClock) -> Watch:
    return Watch(store, clock)


async def fleet(store: Store, settings: Settings) -> FleetHealth:
    return await examine(store, Thresholds(store, settings))


async def test_a_closed_gate_with_events_waiting(
    store: Store, clock: ManualClock, watch: Watch
) -> None:
    await declare(store)
    assert await watch.lines() == []
    await append_many(store, 1)
    clock.advance(301)
    (line,) = await watch.lines()
    assert line.startswith(f"router.closed.{ROUTER}: events wait for router {ROUTER}")
    assert line.endswith(f"(since {(START + timedelta(seconds=421)).isoformat()})")
    clock.advance(600)
    assert await watch.lines() == [line], "since when stays"
    await store.set_gate(None, opened=True)
    await store.set_gate(ROUTER, opened=True)
    assert await watch.lines() == []


async def test_jobs_behind_a_full_limit_whose_holder_hangs(
    store: Store, clock: ManualClock, watch: Watch
) -> None:
    first = await add(store, limit=ONE)
    await add(store, limit=ONE)
    await store.admit(limit=10)
    await join(store, lease=86_400)
    (job,) = await take(store)
    assert job.id == first
    assert await watch.lines() == [], "it has just begun"
    clock.advance(301)
    (line,) = await watch.lines()
    assert line.startswith("limit.full.api: limit api is full and jobs are held")
    assert f"job {first} of task" in line
    await succeed(store, job)
    await store.admit(limit=10)
    assert await watch.lines() == []


async def test_the_holder_of_a_limit_is_the_one_that_began_last(
    store: Store, clock: ManualClock
) -> None:
    two = LimitSpec(key="two", max_running=2)
    await join(store, lease=86_400)
    await add(store, limit=two)
    await store.admit(limit=10)
    await take(store)
    clock.advance(5)
    await add(store, limit=two)
    await store.admit(limit=10)
    (job,) = await take(store)
    clock.advance(5)
    holder = LimitHolder(key="two", job=job.id, task=job.task, since=START + timedelta(seconds=5))
    assert list(await store.limit_holders(["two", "none"])) == [holder]
    assert list(await store.limit_holders([])) == []


async def test_a_paused_economy_under_a_name_that_says_so(store: Store, watch: Watch) -> None:
    await pauses.pause(store, None)
    (line,) = await watch.lines()
    assert line.startswith("economy.paused: the economy is paused until somebody resumes it")
    told = (await fleet(store, watch.settings)).warnings
    assert ["the economy is paused" in one for one in told] == [True], "told once"
    assert not any(pauses.KEY in one for one in told)
    await pauses.resume(store)
    assert await watch.lines() == []


@pytest.mark.parametrize("findings", ["warn", "red"])
async def test_a_finding_is_a_warning_or_red_by_the_setting(
    store: Store, clock: ManualClock, findings: str
) -> None:
    watch = Watch(store, clock, findings=findings)
    await store.record_finding("ledger.mismatch", "ann is cut", new_id="f0")
    (line,) = await watch.lines()
    health = await fleet(store, watch.settings)
    assert (line in health.reasons, line in health.warnings) == (
        (True, False) if findings == "red" else (False, True)
    )
    await store.accept_finding("f0", "restored")
    health = await fleet(store, watch.settings)
    assert line not in (*health.reasons, *health.warnings)
    assert [one.name for one in health.findings] == ["ledger.mismatch"], "accepted, and shown"


async def test_findings_of_others_are_left_alone(store: Store, watch: Watch) -> None:
    await store.record_finding("economy.breach", "USD 5 are missing", new_id="f0")
    assert len(await watch.lines()) == 1
    assert len(await watch.lines()) == 1
