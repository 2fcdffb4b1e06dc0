"""The judges of health: each cell of the guide's table is tried, and each trouble has its row."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

import offpath
from offpath import App
from offpath.config import Settings
from offpath.events import Event, InboxMessage
from offpath.health.fleet import FleetHealth, examine
from offpath.health.supervisor import STALLED, Supervisor
from offpath.health.thresholds import Thresholds
from offpath.jobs.worker.app_worker import AppWorker
from offpath.model.lease import Rescued
from offpath.operating.checkup import look
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Finding, Level
from tests.architecture.sources import ROOT
from tests.architecture.test_alerts import ALERTS
from tests.unit.jobs.worker.rig import breathe

COLUMNS = ("/livez", "/readyz", "offpath health", "offpath doctor", "alert")
WEEKS = 8 * 86_400.0
NONE, WARNING, RED = "–", "warning", "red"


class BrokenStore(MemoryStore):
    """Rescues nobody once it is told to fail."""

    broken = False

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        if self.broken:
            raise ValueError
        return await super().rescue(limit=limit, max_deliveries=max_deliveries, keep=keep)


class Scene:
    """A service with a worker that relays nothing, and whoever may be asked about it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = BrokenStore(self.clock)
        self.settings = Settings()
        self.stack = AsyncExitStack()
        self.lives = True

    async def begin(self, **settings: str) -> None:
        self.settings = Settings(**settings)  # type: ignore[arg-type]
        self.app = App(store=self.store, clock=self.clock, settings=self.settings, auto_start=False)

        @self.app.task(retry=offpath.RetryOptions(attempts=1))
        async def work(fail: bool) -> None:
            if fail:
                raise ValueError

        async def send(_event: Event) -> None: ...

        self.work = work
        self.app.outbox("wallet", dispatcher=send)

        @self.app.inbox("bank")
        async def apply(_message: InboxMessage) -> None: ...

        self.router = self.app.router("audit", domain="d", start="beginning")
        await self.stack.enter_async_context(self.app)
        self.worker: AppWorker = self.app.worker(relays=False)
        await self.worker.start()
        # A clock of its own: the test moves the other one on without turning the event loop.
        self.turns = ManualClock()
        self.supervisor = Supervisor(self.worker.report, self.turns)
        self.supervisor.pulse()
        await self.pass_time(16)

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await breathe()

    async def later(self, seconds: float) -> None:
        """Much later: the last minute of it is lived through."""
        self.clock.advance(seconds)
        await self.pass_time(62)

    async def judged(self, column: str) -> str:
        """The word of a judge."""
        match column:
            case "/livez":
                return NONE if self.supervisor.stall() is None else RED
            case "/readyz":
                report = self.supervisor.judged()
                return _worst(bool(report.reasons) and self.lives, bool(report.warnings))
            case "offpath health":
                health = await self.fleet()
                return _worst(bool(health.reasons), bool(health.warnings))
            case _:
                found = [one.level for one in await look(self.app) if _about_work(one)]
                return _worst(Level.PROBLEM in found, Level.WARNING in found)

    async def fleet(self) -> FleetHealth:
        return await examine(self.store, Thresholds(self.store, self.settings))

    def alarmed(self, alert: str) -> bool:
        """True if a series that the alert asks for tells of it."""
        (rule,) = (one for one in ALERTS if one["alert"] == alert)
        names = set(re.findall(r"offpath_[a-z_]+", rule["expr"])) - {"offpath_router_open"}
        told = [one.value for name in names for one in self.app.metrics.list(name)]
        return any(told) if self.lives else not any(told)


def _worst(red: bool, warned: bool) -> str:
    return RED if red else WARNING if warned else NONE


def _about_work(one: Finding) -> bool:
    """Doctor looks at the machine and the store's rows too; its clock is not the test's."""
    return one.name != "clock"


# -- what is wrong ---------------------------------------------------------------------------------


async def blocked(scene: Scene) -> None:
    scene.turns.advance(STALLED + 1)


async def loop_fails(scene: Scene) -> None:
    scene.store.broken = True
    await scene.pass_time(70)


async def nobody(scene: Scene) -> None:
    await scene.worker.stop()
    scene.lives = False


async def job_waits(scene: Scene) -> None:
    other = App(store=scene.store, clock=scene.clock, auto_start=False)

    @other.task
    async def theirs() -> None: ...

    await theirs.enqueue()
    await scene.later(301)


async def event_waits(scene: Scene) -> None:
    await scene.app.publish("t", 1, stream="wallet")
    await scene.later(301)


async def message_waits(scene: Scene) -> None:
    await scene.app.accept("bank", "k", 1)
    await scene.later(301)


async def old_letter(scene: Scene) -> None:
    await scene.work.enqueue(True)
    await scene.pass_time(2)
    await scene.later(WEEKS)


async def router_behind(scene: Scene) -> None:
    await scene.router.run_once()
    await scene.app.routers.open_gate()
    await scene.router.open_gate()
    await scene.app.log.append("d", "paid", "s", 1)
    await scene.later(301)


async def few_deaths(scene: Scene) -> None:
    await scene.work.enqueue(True)
    await scene.pass_time(31)


async def many_deaths(scene: Scene) -> None:
    for _ in range(10):
        await scene.work.enqueue(True)
    await scene.pass_time(31)


async def finding(scene: Scene) -> None:
    await scene.store.record_finding("ledger.mismatch", "ann is cut", new_id="f")
    await scene.pass_time(91)


async def paused(scene: Scene) -> None:
    await scene.app.queues.pause("default")
    await scene.work.enqueue(False)
    await scene.pass_time(16)


async def orphan(scene: Scene) -> None:
    other = App(store=scene.store, clock=scene.clock, auto_start=False)

    @other.task
    async def gone() -> None: ...

    await other.schedules.create("nightly", gone.job(), cron="0 3 1 1 *")


async def untaken(scene: Scene) -> None:
    other = App(store=scene.store, clock=scene.clock, auto_start=False)

    @other.task
    async def theirs() -> None: ...

    await theirs.enqueue()
    await scene.pass_time(16)


async def crowd(scene: Scene) -> None:
    for number in range(scene.settings.metric_names + 1):
        await scene.app.log.append(f"d{number}", "paid", "s", number)
    await scene.pass_time(16)


TROUBLES: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "the event loop is blocked": blocked,
    "a loop of this worker fails or hangs": loop_fails,
    "no worker lives": nobody,
    "a due job has waited too long": job_waits,
    "an event has waited too long": event_waits,
    "an inbound message has waited too long": message_waits,
    "a dead letter is too old": old_letter,
    "a router is too far behind": router_behind,
    "a few new dead letters": few_deaths,
    "many new dead letters, or most of what ended": many_deaths,
    "a finding stands": finding,
    'a finding stands, with `findings = "red"`': finding,
    "a queue is paused and jobs wait": paused,
    "a schedule's task is unknown to every worker": orphan,
    "a queue that no live worker serves, or a due task that none of its workers knows": untaken,
    "more names of one kind than metrics keep apart": crowd,
}


def table() -> dict[str, tuple[str, ...]]:
    """The rows of the guide's table."""
    text = (ROOT / "docs" / "guides" / "health.md").read_text("utf-8")
    part = text.split("| what is wrong |", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines()[2:]]
    return {row[0]: tuple(row[1:]) for row in rows}


TABLE = table()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    async with made.stack:
        yield made
        made.store.broken = False


def test_each_trouble_has_a_row_and_each_row_its_cells() -> None:
    assert list(TABLE) == list(TROUBLES)
    assert {len(cells) for cells in TABLE.values()} == {len(COLUMNS)}


async def test_while_nothing_is_wrong_nobody_says_so(scene: Scene) -> None:
    await scene.begin()
    assert [await scene.judged(one) for one in COLUMNS[:-1]] == [NONE] * 4


@pytest.mark.parametrize("wrong", TROUBLES)
async def test_a_row_is_as_the_guide_says(scene: Scene, wrong: str) -> None:
    await scene.begin(**({"findings": "red"} if "red" in wrong else {}))
    await TROUBLES[wrong](scene)
    *told, alert = TABLE[wrong]
    assert [await scene.judged(one) for one in COLUMNS[:-1]] == told
    assert alert == NONE or scene.alarmed(alert)
