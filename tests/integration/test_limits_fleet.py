"""Limits over a fleet of real processes: exact while workers are killed, and in nobody's way."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

import offpath
from offpath import JobState
from tests.integration import limited_service as service
from tests.integration.fleet import Fleet, WorkerProcess, registered
from tests.integration.journal import Entry
from tests.integration.polling import eventually
from tests.integration.scale import scaled

TARGET = "tests.integration.limited_service:app"
SECONDS = scaled(8, 60)
"""For how long workers are killed."""
SLOTS = str(scaled(10, 50))
TAKES = 0.03
"""Seconds that a limited job is in."""
BETWEEN_KILLS = scaled(150, 300)
"""Runs that begin between two kills."""
EACH = int(SECONDS / TAKES / 2)
"""Jobs of a key for each that may be in: what is killed takes time."""
SOON = scaled(2, 1) * 0.5
"""Seconds in which free work starts beside a large limited head, the machine being shared."""


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    """A client of the store under test, open."""
    made = offpath.App(url, auto_start=False)
    for task in service.app.tasks.values():
        made.tasks.add(task)
    async with made:
        yield made


@pytest.mark.timeout(300)
async def test_max_running_is_never_exceeded_while_workers_are_killed(
    app: offpath.App, fleet: Fleet
) -> None:
    for key, most in service.MOST.items():
        count = most * EACH
        await app.enqueue([service.limited.job(key, TAKES) for _ in range(count)])
    workers = [_start(fleet) for _ in range(4)]
    for worker in workers:
        await registered(app, worker)
    deaths = await _kill_at_random(fleet, workers)
    await eventually(lambda: _all_ended(app), within=4 * SECONDS + 60, what="all jobs end")

    for key, most in service.MOST.items():
        assert _peak(fleet, key, deaths) == most, key
    records = await app.jobs.count()
    assert records == await app.jobs.count(state=JobState.SUCCEEDED)
    # A key that has nothing left may have been forgotten by then; none keeps room.
    assert not any(one.admitted for one in await app.limits.list())


@pytest.mark.timeout(300)
async def test_of_several_limits_none_is_exceeded_while_workers_are_killed(
    app: offpath.App, fleet: Fleet
) -> None:
    """A job takes of all or of none, whoever takes it and whoever dies with it."""
    places = [(tenant, cost) for tenant in "abc" for cost in (1, 2)]
    each = scaled(25, 400)
    await app.enqueue([service.joined.job(*place, TAKES) for _ in range(each) for place in places])
    workers = [_start(fleet) for _ in range(3)]
    for worker in workers:
        await registered(app, worker)
    deaths: dict[int, float] = {}
    for number in range(scaled(3, 30)):
        begun = _begun(fleet, places) + each // 2
        await eventually(
            lambda begun=begun: _begun(fleet, places) >= begun,  # type: ignore[misc]
            within=60,
            what=f"{begun} runs",
        )
        place = number % len(workers)
        deaths[workers[place].pid] = fleet.now()
        workers[place].kill()
        workers[place] = _start(fleet)
    await eventually(lambda: _all_ended(app), within=120, what="all jobs end")

    weights = {f"{tenant}-{cost}": cost for tenant, cost in places}
    assert _most(fleet, weights, deaths) == service.TOGETHER
    for tenant in "abc":
        of_one = {f"{tenant}-{cost}": 1 for cost in (1, 2)}
        assert _most(fleet, of_one, deaths) == service.OF_TENANT, tenant
    assert await app.jobs.count(state=JobState.SUCCEEDED) == each * len(places)
    assert not any(one.admitted for one in await app.limits.list())


def _begun(fleet: Fleet, places: list[tuple[str, int]]) -> int:
    return sum(len(fleet.journal.all(f"in-{tenant}-{cost}")) for tenant, cost in places)


@pytest.mark.timeout(120)
async def test_a_rate_holds_over_the_whole_fleet(app: offpath.App, fleet: Fleet) -> None:
    most, per = service.RATE.count, 1.0
    await app.enqueue([service.rated.job() for _ in range(3 * most)])
    for _ in range(3):
        await fleet.up(app, "--concurrency", SLOTS, target=TARGET)
    await eventually(lambda: _all_ended(app), within=60, what="all jobs end")
    starts = sorted(one.at for one in fleet.journal.all("start"))
    # a full bucket at once, and then one for each share: what is admitted may start a little late
    for number, at in enumerate(starts):
        within = sum(at <= other < at + per for other in starts[number:])
        assert within <= 2 * most + 2
    assert starts[-1] - starts[0] >= 2 * per - 0.2
    assert len(starts) == 3 * most


@pytest.mark.timeout(120)
async def test_a_large_limited_head_hides_nothing_behind_it(app: offpath.App, fleet: Fleet) -> None:
    for _ in range(10):
        await app.enqueue([service.head.job() for _ in range(scaled(500, 2_000))])
    worker = await fleet.up(app, "--concurrency", "10", target=TARGET)
    await fleet_entry(fleet, "head")
    for _ in range(5):
        asked = fleet.now()
        handle = await app.enqueue(service.free.job())
        entry = await fleet_entry(fleet, "free", handle.id)
        assert entry.at - asked < SOON
    assert len(fleet.journal.all("head")) == 1
    worker.kill()


async def fleet_entry(fleet: Fleet, what: str, job: str | None = None) -> Entry:
    found: list[Entry] = await eventually(
        lambda: fleet.journal.all(what, job), within=20, what=f"{what} begins"
    )
    return found[0]


def _start(fleet: Fleet) -> WorkerProcess:
    # a job may be in hand at many of so many kills: not what is tried here
    return fleet.start("--concurrency", SLOTS, target=TARGET, max_deliveries=100)


async def _kill_at_random(fleet: Fleet, workers: list[WorkerProcess]) -> dict[int, float]:
    """Kill workers, others taking their place; returns who died when."""
    chance = random.Random(11)
    deaths: dict[int, float] = {}
    begin = await fleet_entry(fleet, "in-single")
    ran = 0
    while fleet.now() < begin.at + SECONDS and ran < 0.7 * EACH * service.MOST["wide"]:
        ran += BETWEEN_KILLS
        await eventually(
            lambda ran=ran: len(fleet.journal.all("in-wide")) >= ran,  # type: ignore[misc]
            within=60,
            what=f"{ran} runs",
        )
        place = chance.randrange(len(workers))
        deaths[workers[place].pid] = fleet.now()
        workers[place].kill()
        workers[place] = _start(fleet)
    return deaths


def _peak(fleet: Fleet, key: str, deaths: dict[int, float]) -> int:
    return _most(fleet, {key: 1}, deaths)


def _most(fleet: Fleet, weights: dict[str, int], deaths: dict[int, float]) -> int:
    """The most that were in at once: from going in to coming out, or to their process's death."""
    changes: list[tuple[float, int]] = []
    for key, weight in weights.items():
        out = {(one.job, one.pid): one.at for one in fleet.journal.all(f"out-{key}")}
        for one in fleet.journal.all(f"in-{key}"):
            end = out.get((one.job, one.pid)) or deaths[one.pid]
            changes += [(one.at, weight), (end, -weight)]
    inside = peak = 0
    for _, change in sorted(changes):
        inside += change
        peak = max(peak, inside)
    return peak


async def _all_ended(app: offpath.App) -> bool:
    live = await app.jobs.count(state=[JobState.QUEUED, JobState.RUNNING, JobState.BLOCKED])
    return not live
