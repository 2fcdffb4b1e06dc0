"""A task, a limit or a route that live processes define in several ways is told."""

from __future__ import annotations

import logging
from itertools import count
from typing import Any

import pytest

from offpath import App, Limit
from offpath.config import Settings
from offpath.health.definitions import definitions
from offpath.health.findings import LOOK_EVERY, Findings
from offpath.model.declaration import LIVE
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store


class Program:
    """A process of a program, as far as it looks at findings."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.app = App(store=store, clock=clock, auto_start=False)
        self._clock = clock
        numbers = count(1)
        self._findings = Findings(
            store, Settings(), lambda: f"{id(self)}-{next(numbers)}", self.defined
        )

    def defined(self) -> Any:
        return definitions(self.app.tasks, self.app._events.specs)

    async def names(self) -> list[str]:
        """The names of the findings, at its next look."""
        self._clock.advance(LOOK_EVERY.total_seconds())
        return [one.name for one in await self._findings.look(self._clock.now())]


@pytest.fixture
def programs(store: Store, clock: ManualClock) -> tuple[Program, Program]:
    return Program(store, clock), Program(store, clock)


async def _charge(user: str) -> None: ...


async def _charge_otherwise(user: str, amount: int) -> None: ...


async def _deliver(event: Any) -> None: ...


async def test_one_task_name_of_two_programs(
    programs: tuple[Program, Program], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = programs
    first.app.task(name="charge")(_charge)
    second.app.task(name="charge")(_charge_otherwise)
    assert await first.names() == []
    with caplog.at_level(logging.WARNING, "offpath.health"):
        assert await second.names() == ["several.task.charge"]
        assert await first.names() == ["several.task.charge"]
        assert await second.names() == ["several.task.charge"]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, "each process says it once"
    assert "give one of them another name" in said[0]
    clock.advance(LIVE)
    assert await first.names() == [], "the other is gone"


async def test_a_limit_and_a_route_that_two_versions_define_otherwise(
    programs: tuple[Program, Program],
) -> None:
    for number, program in enumerate(programs):
        program.app.task(name="charge", limit=Limit(max_running=number + 1))(_charge)
        router = program.app.router("r", domain="shop", start="now")
        router.route(name="all", type="*" if number else "paid")(_deliver)
    first, second = programs
    assert await first.names() == []
    assert await second.names() == ["several.limit.charge", "several.route.r:all"]


async def test_what_all_define_alike_is_not_told(programs: tuple[Program, Program]) -> None:
    for program in programs:
        program.app.task(name="charge", limit=Limit(max_running=1))(_charge)
        program.app.router("r", domain="shop", start="now").route(name="all")(_deliver)
        assert await program.names() == []
    assert await programs[0].names() == []


async def test_a_worker_looks(store: Store, clock: ManualClock) -> None:
    await store.declare("task", {"charge": "another program's"})
    async with App(store=store, clock=clock, auto_start=False) as app:
        app.task(name="charge")(_charge)
        await app.worker()._waiting.count(app.worker()._engine.telemetry)
        assert [one.name for one in await store.findings()] == ["several.task.charge"]
