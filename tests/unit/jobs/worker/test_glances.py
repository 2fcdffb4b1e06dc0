"""One look at the store spares the passes that would find nothing, and no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.errors import StoreUnavailable
from offpath.jobs.worker.glances import FRESH, Glances
from offpath.jobs.worker.upkeep import NOTHING
from offpath.jobs.worker.worker import RESCUE_EVERY
from offpath.model.glance import APART, EVERYTHING, Concern
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from offpath.model.lease import Leased, LeaseRequest


class Seen(MemoryStore):
    """A store that says what it is told to say."""

    names: frozenset[Concern] = frozenset()
    error: StoreUnavailable | None = None

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.answers = asyncio.Event()
        self.answers.set()

    async def glance(self, *, work: bool = True) -> frozenset[Concern]:
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return self.names if work else self.names | {Concern.WORK}


class Rig:
    """Glances over a store, with a pass that counts its turns."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Seen(self.clock)
        self.idle = True
        self.glances = Glances(self.store, self.clock, lambda: self.idle)
        self.answer = NOTHING
        self.passes = self.wakes = self.rescues = 0
        self.wake = self.glances.waking(Concern.WAITS, self._wake)
        self.check = self.glances.spared(Concern.WAITS, self._pass)
        self.rescue = self.glances.before(self._rescue)

    def _wake(self) -> None:
        self.wakes += 1

    async def _pass(self) -> Turn:
        self.passes += 1
        return self.answer

    async def _rescue(self) -> Turn:
        self.rescues += 1
        return NOTHING


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_pass_is_made_until_there_was_a_look(rig: Rig) -> None:
    await rig.check()
    await rig.rescue()
    await rig.check()
    assert (rig.passes, rig.rescues, rig.wakes) == (1, 0, 0)


async def test_a_look_is_trusted_for_a_while(rig: Rig) -> None:
    await rig.rescue()
    rig.clock.advance(FRESH - 0.1)
    await rig.check()
    assert rig.passes == 0
    rig.clock.advance(0.2)
    await rig.check()
    assert rig.passes == 1


async def test_a_look_that_is_not_answered_yet_leaves_the_last_one_for_its_time(rig: Rig) -> None:
    await rig.rescue()
    rig.store.answers.clear()
    looking = asyncio.ensure_future(rig.rescue())
    await asyncio.sleep(0)
    await rig.check()
    assert rig.passes == 0
    rig.clock.advance(FRESH + 0.1)
    await rig.check()
    assert rig.passes == 1
    rig.store.answers.set()
    await looking


async def test_a_look_that_fails_leaves_nothing_to_trust(rig: Rig) -> None:
    await rig.rescue()
    rig.store.error = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await rig.rescue()
    await rig.check()
    assert rig.passes == 1


async def test_what_a_look_finds_is_woken_and_not_spared(rig: Rig) -> None:
    rig.store.names = frozenset({Concern.WAITS, Concern.DEATHS})
    await rig.rescue()
    await rig.check()
    assert (rig.wakes, rig.passes, rig.rescues) == (1, 1, 1)


async def test_a_pass_that_was_woken_is_made_whatever_the_look_saw(rig: Rig) -> None:
    await rig.rescue()
    rig.wake()
    await rig.check()
    await rig.check()
    assert rig.passes == 1


async def test_behind_a_pass_that_moved_something_comes_another(rig: Rig) -> None:
    await rig.rescue()
    rig.wake()
    rig.answer = Turn(verdict=Verdict.CLEAN, counts={"woken": 1}, again=True)
    await rig.check()
    rig.answer = NOTHING
    await rig.check()
    assert rig.passes == 2


async def test_a_store_that_cannot_tell_spares_and_wakes_nothing(rig: Rig) -> None:
    rig.store.names = EVERYTHING
    await rig.rescue()
    await rig.check()
    assert (rig.wakes, rig.passes, rig.rescues) == (0, 1, 1)


@pytest.mark.parametrize(
    ("names", "again"),
    [
        (frozenset[Concern](), None),
        (frozenset({Concern.WAITS}), None),
        (frozenset({Concern.DEATHS}), True),
        (EVERYTHING, None),
    ],
)
async def test_behind_a_look_that_misses_somebody_the_next_one_comes_as_soon_as_it_can_prove_it(
    rig: Rig, names: frozenset[Concern], again: bool | None
) -> None:
    rig.store.names = names
    answer = await rig.rescue()
    assert isinstance(answer, Turn)
    if again is None:
        assert answer.again is None
    else:
        assert answer.again is not None
        assert APART < answer.again < RESCUE_EVERY


async def test_a_rescue_that_moved_something_says_itself_when_to_go_on(rig: Rig) -> None:
    rig.store.names = frozenset({Concern.DEATHS})
    moved = Turn(verdict=Verdict.CLEAN, counts={"queued": 1}, again=True)

    async def rescue() -> Turn:
        return moved

    assert await rig.glances.before(rescue)() == moved


async def test_a_pass_is_made_now_and_then_for_what_else_it_does(rig: Rig) -> None:
    check = rig.glances.spared(Concern.WAITS, rig._pass, at_least=10)
    for _ in range(25):
        await rig.rescue()
        await check()
        rig.clock.advance(1)
    assert rig.passes == 3


async def test_a_busy_worker_does_not_look_for_work_and_is_not_woken_by_that(rig: Rig) -> None:
    woken = list[bool]()
    rig.glances.waking(Concern.WORK, lambda: woken.append(True))
    rig.idle = False
    await rig.rescue()
    assert (woken, rig.glances.spares(Concern.WORK)) == ([], False)
    rig.idle = True
    await rig.rescue()
    assert (woken, rig.glances.spares(Concern.WORK)) == ([], True)
    rig.store.names = frozenset({Concern.WORK})
    await rig.rescue()
    assert (woken, rig.glances.spares(Concern.WORK)) == ([True], False)


async def test_an_idle_worker_glances_and_leases_only_where_there_is_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, looked = Counter[str](), asyncio.Condition()
    glance, lease = SqliteStore.glance, SqliteStore.lease

    async def glances(store: SqliteStore, *, work: bool = True) -> frozenset[Concern]:
        found = await glance(store, work=work)
        async with looked:
            asked["glance"] += 1
            looked.notify_all()
        return found

    async def leases(store: SqliteStore, request: LeaseRequest) -> Leased:
        asked["lease"] += 1
        return await lease(store, request)

    async def looks(more: int) -> None:
        until = asked["glance"] + more
        async with asyncio.timeout(30), looked:
            await looked.wait_for(lambda: asked["glance"] >= until)

    monkeypatch.setattr(SqliteStore, "glance", glances)
    monkeypatch.setattr(SqliteStore, "lease", leases)
    app = offpath.App(f"sqlite:///{tmp_path / 'jobs.db'}", auto_start=False)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app, app.worker():
        assert await (await add.enqueue(1, 2)).result(timeout=30) == 3
        await looks(4)  # until its last poll after the job is over, too
        before = asked["lease"]
        await looks(3)
        assert asked["lease"] == before
        assert await (await add.enqueue(2, 3)).result(timeout=30) == 5
        later = await add.options(delay=0.5).enqueue(3, 4)
        assert await later.result(timeout=30) == 7
