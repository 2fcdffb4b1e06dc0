"""Fan-out and fan-in over real processes that are killed: no child twice, no gate twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath import JobRecord, JobState
from offpath.model.gate import GateState
from tests.conformance.backends import Backend
from tests.integration import workflow_service as service
from tests.integration.crashing import Crasher
from tests.integration.fleet import Fleet, WorkerProcess
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled

if TYPE_CHECKING:
    from pathlib import Path

TARGET = "tests.integration.workflow_service:app"
PROCESSES = 4
SLOTS = 8
PARENTS = scaled(15, 400)
WIDTH = 10
FAILING = 2
"""Children of every third parent that fail."""
KILLS = scaled(3, 80)
MOST = 100
"""No transition has more statements."""
SETTLES = (
    *("settle with a plan", "settle to gates", "settle with contributions"),
    *("settle in a fail-fast group", "close groups", "rescue to gates", "cancel to gates"),
)
USUAL = SETTLES[:1]


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    """A client of the store under test, open."""
    async with service.client_of(url) as made:
        yield made


# -- whole workflows -------------------------------------------------------------------------------


@pytest.mark.timeout(900)
async def test_fan_outs_and_fan_ins_are_exact_while_workers_are_killed(
    app: offpath.App, fleet: Fleet
) -> None:
    failing = [FAILING if number % 3 == 0 else 0 for number in range(PARENTS)]
    handles = await app.enqueue([service.fan.job(WIDTH, number) for number in failing])
    workers = [_start(fleet) for _ in range(PROCESSES)]
    kills = await _kill_at_random(fleet, workers)
    await eventually(lambda: _all_ended(app), within=scaled(60, 300), what="all jobs end")

    records = [one async for one in app.jobs.each()]
    assert len(records) == PARENTS * (1 + WIDTH + 2), "no row too many, none too few"
    children = Counter(one.parent for one in records if one.parent)
    assert children == Counter({one.id: WIDTH + 2 for one in handles})
    for handle, fails in zip(handles, failing, strict=True):
        group = await app.groups.get(handle.id)
        # what needs the success of all dies with the first that fails
        assert (group.open, group.failed) == (0, fails + bool(fails))
        assert group.value == WIDTH - fails
    _runs_are_deliveries(fleet, records)
    await _gates_fired_once(app, fleet, records)
    _told_once(fleet, {one.id for one in handles}, kills)


def _start(fleet: Fleet) -> WorkerProcess:
    # a job may be in hand at many of so many kills: not what is tried here
    return fleet.start("--concurrency", str(SLOTS), target=TARGET, max_deliveries=100)


async def _kill_at_random(fleet: Fleet, workers: list[WorkerProcess]) -> int:
    """Kill workers at random places, others taking theirs, until most has run; how many."""
    chance = random.Random(5)
    runs = int(PARENTS * WIDTH * 0.9)
    for kill in range(1, KILLS + 1):
        mark = runs * kill // KILLS - chance.randrange(runs // KILLS)
        await eventually(
            lambda mark=mark: len(fleet.journal.all("start")) > mark,  # type: ignore[misc]
            within=60,
            what=f"{mark} runs",
        )
        place = chance.randrange(PROCESSES)
        workers[place].kill()
        workers[place] = _start(fleet)
    return KILLS


async def _all_ended(app: offpath.App) -> bool:
    live = await app.jobs.count(state=[JobState.QUEUED, JobState.RUNNING, JobState.BLOCKED])
    return not live


def _runs_are_deliveries(fleet: Fleet, records: list[JobRecord]) -> None:
    """A job runs once for each delivery, but one that was lost before its handler began."""
    runs = Counter[str]()
    for what in ("start", "start-settled", "start-succeeded"):
        runs += fleet.journal.times(what)
    for one in records:
        assert one.attempt == 1
        if one.reason == "unsatisfiable":
            assert (runs[one.id], one.deliveries) == (0, 0)
            continue
        assert one.deliveries == 1 + one.losses
        assert 1 <= runs[one.id] <= one.deliveries, one.task


async def _gates_fired_once(app: offpath.App, fleet: Fleet, records: list[JobRecord]) -> None:
    held = [one for one in records if one.task == "gathered"]
    by = _gated_by(fleet)
    assert len({by[one.id] for one in held}) == len(held) == 2 * PARENTS
    gates = {one.id: one for one in await app.store().gates([by[one.id] for one in held])}
    for one in held:
        gate = gates[by[one.id]]
        fired = one.state is JobState.SUCCEEDED
        assert gate.state is (GateState.FIRED if fired else GateState.UNSATISFIABLE)
        if fired:
            assert gate.succeeded + gate.failed == len(gate.on) == WIDTH
        else:
            assert one.reason == "unsatisfiable"
            assert 1 <= gate.failed <= FAILING, "what came after its end is not counted"
    ends = Counter((one.state.value, one.reason) for one in held)
    vain = len(range(0, PARENTS, 3))
    assert ends == {("succeeded", None): 2 * PARENTS - vain, ("dead", "unsatisfiable"): vain}
    assert not fleet.journal.all("early"), "what follows runs after all of its own"


def _gated_by(fleet: Fleet) -> dict[str, str]:
    """The gate by which each job was held, which a record no longer shows once it is released."""
    backend = _backend(fleet.url)
    jobs = next(rows for name, rows in backend.rows().items() if name.endswith("job"))
    column = "gated_by" if backend.name == "postgres" else "gate"
    return {str(row["id"]): str(row[column]) for row in jobs}


def _backend(url: str) -> Backend:
    if url.startswith("sqlite"):
        return Backend("sqlite", url.removeprefix("sqlite:///"))
    return Backend("postgres", url)


def _told_once(fleet: Fleet, groups: set[str], kills: int) -> None:
    """Never twice; what a process committed just before it was killed it could not tell."""
    for what in ("recorded-group_done", "recorded-succeeded", "recorded-dead"):
        assert set(fleet.journal.times(what).values()) <= {1}, what
    told = set(fleet.journal.times("recorded-group_done"))
    assert told <= groups
    assert len(groups - told) <= kills * SLOTS


# -- every statement -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """Makes processes that are killed."""
    with Crasher() as made:
        yield made


@pytest.mark.timeout(180)
@pytest.mark.parametrize("change", SETTLES)
def test_a_kill_at_any_statement_of_a_settle_counts_nothing_or_all(
    crasher: Crasher, url: str, tmp_path: Path, change: str
) -> None:
    if change not in USUAL and not CAMPAIGN:
        pytest.skip("only some changes, but in a campaign")
    backend = _backend(url)
    backend.hurry()
    seen: list[str] = []
    for at in range(1, MOST):
        backend = backend.emptied(tmp_path / f"{at}.db")
        crashed = crasher.crashed(change, at, backend)
        seen.append(repr(_counted(backend)))
        if not crashed:
            break
    assert 2 <= len(seen) < MOST - 1, "it was killed at least once, and went through in the end"
    assert seen[0] != seen[-1]
    assert set(seen) == {seen[0], seen[-1]}, "before or after"


def _counted(backend: Backend) -> dict[str, list[tuple[str, ...]]]:
    """Jobs, groups and gates, by what they are and what is counted in them."""
    return {
        table: sorted(
            tuple(str(row[name]) for name in sorted(row) if name in _TOLD) for row in rows
        )
        for table, rows in backend.rows().items()
        if table.endswith(("job", "job_group", "gate", "gate_watch"))
    }


_TOLD = {"id", "state", "open", "failed", "value", "succeeded", "deliveries", "gate", "outcome"}
