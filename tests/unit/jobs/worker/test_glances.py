"""One look at the store spares the passes that would find nothing, and no other."""

from __future__ import annotations

import pytest

from offpath.jobs.worker.glances import FRESH, Glances
from offpath.jobs.worker.upkeep import NOTHING
from offpath.model.glance import EVERYTHING, Concern
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore


class Seen(MemoryStore):
    """A store that says what it is told to say."""

    names: frozenset[Concern] = frozenset()

    async def glance(self) -> frozenset[Concern]:
        return self.names


class Rig:
    """Glances over a store, with a pass that counts its turns."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Seen(clock=self.clock)
        self.glances = Glances(self.store, self.clock)
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
