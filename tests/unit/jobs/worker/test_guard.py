"""The thread that watches the event loop: each look is made by hand, in a thread, by a clock."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from offpath.errors import StoreUnavailable
from offpath.jobs.worker.guard import BLOCKED, FROZEN, LoopGuard


class Seconds:
    """A monotonic clock that is set by hand, from any thread."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Rigged:
    """A guard of the running loop whose renewals are counted."""

    def __init__(self, lease: float = 30.0) -> None:
        self.clock = Seconds()
        self.runs: list[Any] = []
        self.renewed: list[float] = []
        self.fault: Exception | None = None
        self.cut = False
        self.renewed_at = self.clock.now
        self.guard = LoopGuard(
            self.clock,
            lambda: self.runs,
            renewed_at=lambda: self.renewed_at,
            renew=self.renew,
            lease_seconds=lease,
            cut_off=lambda: self.cut,
        )
        self.guard.attach(asyncio.get_running_loop())

    @property
    def blocker(self) -> str:
        return "-" if self.guard.blocked is None else self.guard.blocked.text

    def renew(self) -> None:
        if self.fault is not None:
            raise self.fault
        self.renewed.append(self.clock.now)
        self.renewed_at = self.clock.now

    def look(self, after: float = 0.25) -> None:
        self.clock.now += after
        self.guard.step()

    def looks(self, times: int, after: float = 0.25) -> None:
        for _ in range(times):
            self.look(after)

    def blocked(self, looks: Callable[[], None]) -> None:
        """Block the loop, and make ``looks`` in a thread meanwhile."""
        thread = threading.Thread(target=looks)
        thread.start()
        thread.join()


async def test_the_lag_of_the_loop_is_told_with_the_load_of_the_process() -> None:
    rig = Rigged()
    assert rig.guard.load().loop_lag is None
    rig.look()
    rig.clock.now += 0.2
    await asyncio.sleep(0)
    told = rig.guard.load()
    assert told.loop_lag == pytest.approx(0.2)
    assert (told.memory is None) == (sys.platform != "linux")


async def test_while_the_loop_turns_only_the_heartbeat_renews() -> None:
    rig = Rigged(lease=2.0)
    for _ in range(40):
        rig.look()
        await asyncio.sleep(0)
    assert (rig.renewed, rig.guard.blocked) == ([], None)


async def test_a_blocked_loop_keeps_its_lease_and_its_blocker_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rigged()
    job = SimpleNamespace(id="j1", task="mail")
    rig.runs = [SimpleNamespace(runner=asyncio.current_task(), job=job)]

    with caplog.at_level(logging.WARNING, "offpath"):
        rig.blocked(lambda: rig.looks(8))
        text = rig.blocker
        assert "by job j1 of task mail, at " in text
        assert "test_guard.py:" in text
        assert "blocked" in text
        assert rig.renewed, "the lease is renewed by the thread"
        await asyncio.sleep(0)
        rig.look()
    assert rig.blocker == "-"
    lines = [one.getMessage() for one in caplog.records]
    assert [("job j1" in one, "turns again" in one) for one in lines] == [
        (True, False),
        (False, True),
    ]


async def test_a_long_block_renews_twice_a_second() -> None:
    """A store that judges by connections misses the worker within two seconds otherwise."""
    rig = Rigged()
    rig.renewed_at -= 5
    rig.blocked(lambda: rig.looks(4 * 60))
    first, *rest = rig.renewed
    assert first <= 100 + BLOCKED + 0.5
    assert max(b - a for a, b in pairwise([first, *rest])) <= 0.75


async def test_a_worker_that_is_cut_off_while_its_loop_is_blocked_is_spoken_for_at_once() -> None:
    """Others miss it twice before it counts as blocked, and then have its jobs."""
    rig = Rigged()
    rig.look()
    rig.cut = True
    rig.blocked(rig.look)
    assert rig.renewed == [rig.clock.now]
    rig.blocked(rig.look)
    assert len(rig.renewed) == 1, "once said, its missing connection proves nothing"
    rig.cut = False
    await asyncio.sleep(0)
    rig.look()
    rig.cut = True
    rig.blocked(rig.look)
    assert len(rig.renewed) == 2, "the next cut is another one"


async def test_a_word_for_a_worker_that_was_not_heard_is_said_again() -> None:
    rig = Rigged()
    rig.look()
    rig.cut, rig.fault = True, StoreUnavailable("away")
    rig.blocked(rig.look)
    rig.fault = None
    rig.blocked(rig.look)
    assert rig.renewed == [rig.clock.now]


async def test_a_loop_that_turns_makes_its_connection_anew_by_itself() -> None:
    rig = Rigged()
    rig.cut = True
    for _ in range(5):
        rig.look()
        await asyncio.sleep(0)
    assert rig.renewed == []


async def test_a_lease_that_is_shorter_than_a_second_is_kept_as_well() -> None:
    rig = Rigged(lease=0.6)
    rig.blocked(lambda: rig.looks(20, after=0.05))
    assert len(rig.renewed) >= 3
    assert all(b - a < 0.6 for a, b in zip([100.0, *rig.renewed], rig.renewed, strict=False))


async def test_what_cannot_be_renewed_is_tried_again_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rigged()
    rig.fault = StoreUnavailable("away")

    def looks() -> None:
        rig.looks(12)
        rig.fault = None
        rig.look()

    with caplog.at_level(logging.WARNING, "offpath"):
        rig.blocked(looks)
    assert len(rig.renewed) == 1
    assert sum("could not be renewed" in one.getMessage() for one in caplog.records) == 1


async def test_a_process_that_stood_still_renews_first_and_condemns_nobody_before() -> None:
    """A call has kept the interpreter's lock: every lease in this process is as old."""
    rig = Rigged()
    rig.look()
    await asyncio.sleep(0)
    rig.clock.now += FROZEN + 38
    frozen: list[bool] = [rig.guard.frozen]
    renew = rig.renew

    def renewing() -> None:
        frozen.append(rig.guard.frozen)
        renew()

    rig.guard._renew = renewing
    rig.guard.step()
    frozen.append(rig.guard.frozen)
    assert frozen == [True, True, False], "until it has renewed"
    assert rig.renewed == [rig.clock.now]


async def test_a_slow_renewal_is_no_sign_of_a_process_that_stands_still() -> None:
    rig = Rigged()

    def slowly() -> None:
        rig.clock.now += 9 * FROZEN
        seen.append(rig.guard.frozen)

    seen: list[bool] = []
    rig.guard._renew = slowly
    rig.blocked(lambda: rig.looks(7))
    assert seen
    assert not any(seen)
    assert not rig.guard.frozen


def test_a_loop_in_which_nobody_lives_keeps_no_lease() -> None:
    async def made() -> Rigged:
        return Rigged()

    loop = asyncio.new_event_loop()
    rig = loop.run_until_complete(made())
    for _ in range(4):
        rig.look(BLOCKED)
    loop.close()
    rig.look(BLOCKED)
    assert rig.renewed == []
