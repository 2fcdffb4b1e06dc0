"""Groups over a fleet of real processes: their values are exact, they always end, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

import offpath
from offpath import GroupFailed, JobState, WaitTimeout
from offpath.jobs.client.waiters import PollPace, Waiters
from offpath.records import Page
from tests.integration import workflow_service as service
from tests.integration.fleet import Fleet, registered
from tests.integration.polling import eventually
from tests.integration.scale import scaled
from tests.servers import migrate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Databases

TARGET = "tests.integration.workflow_service:app"
PROCESSES = 4
REPEATS = scaled(5, 100)
CHILDREN = 100
SLOTS = ("--concurrency", "8")
"""So few that a group is never in the hands of one process."""
SIDES = 13
SOON = 10.0
"""Seconds in which what is cancelled has ended, the machine being shared."""
WOKEN = 2.0
"""Seconds from an end to the waiter in another process that polls only once an hour."""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def crew(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Four workers of one store, which serve all queues but the deadly one."""
    folder = tmp_path_factory.mktemp("crew")
    databases: Databases | None = None
    url = f"sqlite:///{folder / 'work.db'}"
    if request.param == "postgres":
        databases = request.getfixturevalue("postgres_databases")
        url = databases.from_template("schema", migrate)
    fleet = Fleet(folder, url)
    for _ in range(PROCESSES):
        fleet.start(*SLOTS, "--queues", "default", target=TARGET, max_deliveries=2)
    yield fleet
    fleet.destroy()
    if databases is not None:
        databases.drop(url)


@pytest.fixture
async def app(crew: Fleet) -> AsyncIterator[offpath.App]:
    """A client of the crew's store, the whole crew being there."""
    async with service.client_of(crew.url) as made:
        for worker in crew.workers[:PROCESSES]:
            await registered(made, worker)
        yield made


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.timeout(1200)
async def test_a_hundred_children_that_add_one_make_a_hundred(
    app: offpath.App, crew: Fleet
) -> None:
    ran: set[int] = set()
    for _ in range(REPEATS):
        handle = await app.enqueue(service.tally.job(CHILDREN))
        assert await handle.group(timeout=60) == CHILDREN
        group = await app.groups.get(handle.id)
        assert (group.open, group.failed, group.value) == (0, 0, CHILDREN)
        members = await app.groups.members(handle.id, limit=CHILDREN + 2)
        assert len(members.items) == CHILDREN + 1
        assert {one.deliveries for one in members.items} == {1}
        ids = set(_ids(members))
        ran |= {one.pid for one in crew.journal.all("start") if one.job in ids}
    # of all groups: one process may be quickest with all of one
    assert len(ran) > 1, "by several processes"


def _ids(page: Page) -> list[str]:
    return [one.id for one in page.items]


@pytest.mark.timeout(600)
async def test_one_final_value_wins_and_stays(
    app: offpath.App, crew: Fleet, tmp_path: Path
) -> None:
    for number in range(scaled(1, 20)):
        gate, later = tmp_path / f"gate-{number}", tmp_path / f"later-{number}"
        handle = await app.enqueue(service.debate.job(SIDES, str(gate), str(later)))
        await eventually(lambda: _runs(app, handle.id, 2 * SIDES + 2), within=30)  # noqa: B023
        gate.touch()
        await eventually(lambda: _left(app, handle.id, 2), within=30)  # noqa: B023
        won = (await app.groups.get(handle.id)).value
        assert won in range(SIDES), "a final one"
        later.touch()
        assert await handle.group(timeout=30) == won
        assert (await app.groups.get(handle.id)).value == won
    assert len({one.pid for one in crew.journal.all("start")}) == PROCESSES


async def _runs(app: offpath.App, group_id: str, wanted: int) -> bool:
    return await app.jobs.count(group_id=group_id, state=JobState.RUNNING) == wanted


async def _left(app: offpath.App, group_id: str, wanted: int) -> bool:
    return (await app.groups.get(group_id)).open == wanted


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_one_death_ends_a_fail_fast_group_in_every_process(
    app: offpath.App, crew: Fleet, tmp_path: Path
) -> None:
    breaking, holding = tmp_path / "breaking", tmp_path / "holding"
    handle = await app.enqueue(service.fragile.job(str(breaking), str(holding)))
    waiting = asyncio.ensure_future(handle.group(timeout=60))
    await eventually(lambda: _runs(app, handle.id, 5), within=30, what="its children run")
    breaking.touch()
    broke_at = crew.now()
    with pytest.raises(GroupFailed) as failed:
        await waiting
    assert crew.now() - broke_at < SOON
    page = await app.groups.members(handle.id)
    states = sorted((one.task, one.state.value, one.reason) for one in page.items)
    cancelled = JobState.CANCELLED.value
    assert [(task, state) for task, state, _ in states] == [
        ("breaks", "dead"),
        ("fragile", "succeeded"),
        *[("held", cancelled)] * 4,
        *[("leaf", cancelled)] * 5,
    ]
    assert len(failed.value.members) == 10
    # who waited may know before the process that ended it has written that down
    await eventually(lambda: handle.id in _told(crew), within=10, what="its end is told")
    assert crew.journal.times("recorded-group_done")[handle.id] == 1


async def _member(crew: Fleet, root: str) -> str:
    def found() -> list[str]:
        text = crew.journal.path.read_text().splitlines()
        named = [line.split()[0] for line in text if line.split()[1] == root]
        return [name.removeprefix("member-") for name in named if name.startswith("member-")]

    (member,) = await eventually(found, within=30, what=f"{root} names its member")
    return cast("str", member)


async def _happen(app: offpath.App, crew: Fleet, way: str, member: str) -> None:
    """The blow that an operator or a crash deals to the member."""

    async def state() -> JobState | None:
        return (await app.store().states([member])).get(member)

    if way == "is deleted after its end":
        await eventually(lambda: _is(state, JobState.DEAD), within=30)
        assert await app.jobs.delete(member)
    elif way == "is cancelled while it runs":
        await eventually(lambda: _is(state, JobState.RUNNING), within=30)
        assert await app.jobs.cancel(member)
    elif "cancelled" in way:
        await eventually(lambda: _is(state, JobState.QUEUED), within=30)
        assert await app.jobs.cancel(member)
    elif way == "loses its workers":
        await crew.begun(member, times=2, within=60)
        await eventually(lambda: _is(state, JobState.DEAD), within=30)


async def _is(state: Any, wanted: JobState) -> bool:
    return await state() is wanted


@pytest.mark.timeout(180)
async def test_a_group_ends_once_whatever_became_of_a_member(
    app: offpath.App, crew: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    for _ in range(2):  # what each of them takes is the end of it
        crew.start("--queues", service.DEADLY, target=TARGET, max_deliveries=2)
    jobs = [service.workflow.job(way, str(gate)) for way in service.WAYS]
    handles = await app.enqueue(jobs)
    ways = dict(zip(service.WAYS, handles, strict=True))
    waits = [asyncio.ensure_future(one.group(timeout=90)) for one in handles]
    members = {way: await _member(crew, handle.id) for way, handle in ways.items()}
    await asyncio.gather(*(_happen(app, crew, way, member) for way, member in members.items()))
    gate.touch()
    answers = dict(
        zip(service.WAYS, await asyncio.gather(*waits, return_exceptions=True), strict=True)
    )
    records = {one.id: one for one in await app.store().get(list(members.values()))}
    ends = {
        way: (records[member].state.value, records[member].reason)
        for way, member in members.items()
        if member in records
    }
    assert ends == {
        "succeeds": ("succeeded", None),
        "aborts": ("dead", "aborted"),
        "uses up its attempts": ("dead", "exhausted"),
        "is late": ("dead", "deadline"),
        "cannot be read": ("dead", "bad_input"),
        "is of a task nobody knows, and cancelled": ("cancelled", "cancelled"),
        "is cancelled in the queue": ("cancelled", "cancelled"),
        "is cancelled while it runs": ("cancelled", "cancelled"),
        "loses its workers": ("dead", "worker_lost"),
    }
    for way, handle in ways.items():
        fails = way != "succeeds"  # "is deleted after its end" too: it was cancelled before
        assert isinstance(answers[way], GroupFailed) == fails, (way, answers[way])
        group = await app.groups.get(handle.id)
        assert (group.open, group.failed) == (0, int(fails)), way
        page = await app.groups.members(handle.id)
        others = [one for one in page.items if one.id != members[way]]
        assert {(one.state, one.deliveries) for one in others} == {(JobState.SUCCEEDED, 1)}, way
        assert sorted(one.task for one in others) == ["held", "leaf", "workflow"], way
    await eventually(lambda: _told(crew) >= {one.id for one in handles}, within=10)
    assert {crew.journal.times("recorded-group_done")[one.id] for one in handles} == {1}


def _told(crew: Fleet) -> set[str]:
    return set(crew.journal.times("recorded-group_done"))


# -- waiting ---------------------------------------------------------------------------------------


async def test_who_waits_in_another_process_is_woken_by_the_settle(
    app: offpath.App, crew: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PollPace, "interval", lambda *_: 3600.0)
    gate = tmp_path / "gate"
    handle = await app.enqueue(service.held.job(str(gate)))
    await crew.begun(handle.id)
    waits = [asyncio.ensure_future(handle.group()) for _ in range(3)]
    waits.append(asyncio.ensure_future(handle.result()))
    await eventually(lambda: len(_waiters(app)) == 2, within=10)
    gate.touch()
    assert await asyncio.gather(*waits) == ["held"] * 4
    answered = crew.now()
    (ended,) = crew.journal.all("recorded-succeeded", handle.id)
    assert answered - ended.at < WOKEN


async def test_a_wait_that_times_out_leaves_nothing(
    app: offpath.App, crew: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    handle = await app.enqueue(service.held.job(str(gate)))
    await crew.begun(handle.id)
    for wait in (handle.group(timeout=0.2), handle.result(timeout=0.2)):
        with pytest.raises(WaitTimeout):
            await wait
    cancelled = asyncio.ensure_future(handle.group())
    await eventually(lambda: len(_waiters(app)) == 1, within=10)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await eventually(lambda: _waiters(app).idle, within=10, what="nothing polls")
    assert len(_waiters(app)) == 0
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert "offpath waiters" not in names
    assert (await handle.status()).state is JobState.RUNNING, "the job is left alone"
    gate.touch()
    assert await handle.group(timeout=20) == "held"


def _waiters(app: offpath.App) -> Waiters:
    session = app._lifecycle.session
    assert session is not None
    return session.waiters
