"""Jobs in the tests of ``unittest``."""

from __future__ import annotations

import threading
import unittest
from datetime import timedelta
from typing import Any

import pytest

from offpath import App, JobState
from offpath.testing import MemoryTests, assert_enqueued, drain, swap_to_memory

app = App("postgresql://nobody@127.0.0.1:1/none")
SEEN: list[str] = []


@app.task(retry=1)
def work(n: int) -> int:
    SEEN.append(threading.current_thread().name)
    if n < 0:
        raise ValueError(n)
    return 2 * n


class Works(MemoryTests, unittest.TestCase):
    __test__ = False  # run by the tests below
    offpath_app = app

    def test_verbs(self) -> None:
        handle = app.blocking.enqueue(work.options(delay=60).job(2))
        assert self.drain().total == 0
        self.assert_enqueued(work.job(2), count=1)
        self.refute_enqueued(work.job(3))
        self.memory.clock.advance(60)
        assert self.drain(queues=["default"]).succeeded == 1
        assert handle.result() == 4
        assert [threading.current_thread().name] == SEEN, "where the test's transaction would be"
        assert self.perform(work.job(5)) == 10
        with pytest.raises(ValueError, match="-1"):
            self.perform(work.job(-1))

    def test_time(self) -> None:
        app.blocking.enqueue(work.options(delay=3600).job(1))
        self.pass_time(timedelta(hours=2))
        (record,) = self.enqueued(task="work")
        assert record.state is JobState.SUCCEEDED

    def test_fails(self) -> None:
        self.assert_enqueued(work)


class WorksInALoop(unittest.IsolatedAsyncioTestCase):
    __test__ = False

    async def test_functions(self) -> None:
        await self.enterAsyncContext(swap_to_memory(app))
        await work.enqueue(3)
        await assert_enqueued(app, work.job(3))
        assert (await drain(app, here=True)).succeeded == 1


def outcome(case: type[unittest.TestCase], name: str) -> unittest.TestResult:
    SEEN.clear()
    result = unittest.TestResult()
    case(name).run(result)
    return result


def passes(case: type[unittest.TestCase], name: str) -> None:
    result = outcome(case, name)
    told: Any = result.failures + result.errors
    assert not told, told[0][1]


def test_the_verbs_are_methods() -> None:
    passes(Works, "test_verbs")


def test_each_test_begins_empty_and_time_is_moved() -> None:
    passes(Works, "test_time")


def test_an_assertion_that_does_not_hold_is_a_failure_of_the_test() -> None:
    result = outcome(Works, "test_fails")
    assert len(result.failures) == 1
    assert "work" in result.failures[0][1]


def test_in_a_loop_the_functions_themselves_are_used() -> None:
    passes(WorksInALoop, "test_functions")
    assert "postgresql" in repr(app), "all is put back"
