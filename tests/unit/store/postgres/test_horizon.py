"""The settled part of the log, as a look after another tells it."""

from __future__ import annotations

import asyncio

import pytest

from offpath.store.postgres.log import Horizon, LogLook, LogWriter, SharedLook, look_steps
from offpath.store.postgres.migrate import PACKAGE
from offpath.store.sql import catalogue

A, B = LogWriter("3/1", 10), LogWriter("4/1", 11)
PREPARED = LogWriter("-1/700", 0)


def test_without_writers_all_that_was_given_is_settled() -> None:
    horizon = Horizon()
    assert horizon.observe(7, ()) == LogLook(7, 7)
    assert horizon.settled == 7


def test_a_writer_that_was_there_is_waited_for_and_named() -> None:
    horizon = Horizon()
    horizon.observe(3, ())
    assert horizon.observe(5, (A,)) == LogLook(5, 3, ("pid 10",))
    assert horizon.observe(6, (A, B)) == LogLook(6, 3, ("pid 10",))
    assert horizon.observe(6, ()) == LogLook(6, 6)


def test_those_who_came_later_hold_back_only_what_was_given_later() -> None:
    horizon = Horizon()
    horizon.observe(5, (A,))
    assert horizon.observe(8, (B,)) == LogLook(8, 5, ("pid 11",))
    assert horizon.observe(9, (A,)) == LogLook(9, 8, ("pid 10",))


def test_each_look_waits_for_its_own_writers() -> None:
    horizon = Horizon()
    horizon.observe(5, (A,))
    horizon.observe(8, (A, B))
    assert horizon.observe(9, (B,)) == LogLook(9, 5, ("pid 11",))
    assert horizon.observe(9, (LogWriter("5/1", 12),)) == LogLook(9, 9)


def test_a_look_that_was_slow_to_tell_says_nothing_of_a_later_one() -> None:
    horizon = Horizon()
    horizon.observe(5, (A,))
    assert horizon.observe(4, ()).horizon == 0
    assert horizon.observe(5, ()) == LogLook(5, 5)


def test_very_many_looks_are_not_all_kept() -> None:
    horizon = Horizon()
    for given in range(1, 200):
        assert horizon.observe(given, (A, LogWriter(f"9/{given}", given))).horizon == 0
    assert horizon.observe(200, (B,)).horizon == 199


def test_a_writer_may_have_become_a_prepared_transaction() -> None:
    horizon = Horizon()
    horizon.observe(5, (A,))
    assert horizon.observe(5, (PREPARED,)) == LogLook(5, 0, ("a prepared transaction",))
    assert horizon.observe(5, ()) == LogLook(5, 5)


def test_positions_that_go_back_are_another_server() -> None:
    horizon = Horizon()
    horizon.observe(50, ())
    assert horizon.observe(4, (A,)) == LogLook(4, 0, ("pid 10",))
    assert horizon.observe(4, ()) == LogLook(4, 4)


def test_a_look_asks_for_the_highest_position_before_it_asks_who_writes() -> None:
    """Else one that begins in between is in nobody's list, and its position counts as settled."""
    looking = look_steps(Horizon(), sql=catalogue(PACKAGE))
    assert next(looking).statement.name == "log_given"
    assert looking.send([(7,)]).statement.name == "log_writers"
    with pytest.raises(StopIteration) as ended:
        looking.send([("3/1", 10, 0)])
    assert ended.value.value == LogLook(7, 0, ("pid 10",))


class Looks:
    """Looks that end when they are let."""

    def __init__(self) -> None:
        self.begun = 0
        self.started = asyncio.Event()
        self.gate = asyncio.Event()

    async def __call__(self) -> LogLook:
        self.begun += 1
        self.started.set()
        number = self.begun
        await self.gate.wait()
        return LogLook(number, number)


async def test_who_comes_during_a_look_shares_the_next_one() -> None:
    looks = Looks()
    shared = SharedLook(looks)
    first = asyncio.create_task(shared.look())
    await looks.started.wait()
    others = [asyncio.create_task(shared.look()) for _ in range(5)]
    await asyncio.sleep(0)
    looks.gate.set()
    assert (await first).given == 1
    assert [(await one).given for one in others] == [2] * 5
    assert looks.begun == 2
