"""Work that waits too long turns the fleet red without any set-up, and no single worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from offpath.config import Settings
from offpath.health.fleet import FleetHealth, WorkerPresence, examine, member
from offpath.health.thresholds import Thresholds
from offpath.model.effects import Effects
from offpath.model.health import AgeGauge, Condition, LoopReport, WorkerReport
from offpath.model.job import JobFilter, Page
from offpath.model.lease import WorkerInfo, WorkerRecord
from offpath.model.limit import LimitSpec
from offpath.model.message import Box, MessageBacklog
from offpath.store.protocol import Backlog
from tests.unit.health.world import red, started
from tests.unit.jobs.worker.rig import Rig

_DAY = 86_400.0
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    await made.memory.open()
    yield made
    await made.close()


async def fail() -> None:
    raise ValueError


async def test_a_due_job_that_nobody_takes_is_red_after_five_minutes(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    worker = await started(rig, measure=Thresholds(rig.store, Settings()))
    # of a task that no worker knows: every loop is well, and yet nothing moves
    await rig.memory.commit(Effects(jobs=(rig.new("unknown", queue="mail"),)))
    await rig.pass_time(299, step=1)
    assert worker.report().warnings == ()
    await rig.pass_time(17, step=1)
    assert worker.report().ready, "this worker does all that it is for"
    (warning,) = worker.report().warnings
    fleet = await examine(rig.store, Thresholds(rig.store, Settings()))
    (reason,) = fleet.reasons
    assert reason.startswith("the oldest due job of queue mail has waited for 3")
    assert warning.startswith("the oldest due job of queue mail has waited for 3")
    told = rig.metrics.get(
        "offpath_waiting_oldest_seconds", what="the oldest due job of queue mail"
    )
    assert told is not None
    assert told.value > 300


async def test_work_that_cannot_be_measured_is_not_well(rig: Rig) -> None:
    worker = await started(rig, measure=Thresholds(rig.store, Settings()))
    rig.faulty.fail("find", RuntimeError("no"), times=1_000_000)
    await rig.pass_time(90)
    assert red(worker) == {"count"}
    assert not worker.report().ready


async def test_limits_are_by_queue_and_only_queues_served_count(rig: Rig) -> None:
    now = rig.clock.now()
    backlog = [
        Backlog(queue=queue, task="t", ready=1, oldest_run_at=now - timedelta(seconds=age))
        for queue, age in (("mail", 400), ("bulk", 400), ("mail", 100), ("other", 9_000))
    ]
    settings = Settings(job_age_limits={"bulk": 3_600.0, "other": 1.0})
    gauges = await Thresholds(rig.store, settings, queues=("mail", "bulk"))(backlog, now)
    assert [(one.name, one.age, one.limit, one.over) for one in gauges] == [
        ("the oldest due job of queue bulk", 400, 3_600, False),
        ("the oldest due job of queue mail", 400, 300, True),
        ("the oldest dead letter", None, 7 * _DAY, False),
    ]
    everywhere = await Thresholds(rig.store, Settings(job_age_limit=None))(backlog, now)
    assert [one.over for one in everywhere] == [False] * 4


async def test_a_paused_queue_may_wait_and_is_named(rig: Rig) -> None:
    now = rig.clock.now()
    backlog = [
        Backlog(queue=queue, task="t", ready=1, oldest_run_at=now - timedelta(seconds=400))
        for queue in ("mail", "bulk")
    ]
    thresholds = Thresholds(rig.store, Settings())
    await rig.memory.pause_queue("mail")
    bulk, mail, _ = await thresholds(backlog, now)
    assert (bulk.over, mail.over) == (True, False)
    assert mail.name == "the oldest due job of queue mail, which is paused"
    await rig.memory.resume_queue("mail")
    assert [one.over for one in await thresholds(backlog, now)] == [True, True, False]


async def test_jobs_that_a_limit_holds_back_make_nobody_ill(rig: Rig) -> None:
    await rig.memory.close_limit("api")
    await rig.enqueue("t", limit=LimitSpec(key="api", max_running=1))
    rig.clock.advance(10_000)
    fleet = await examine(rig.store, Thresholds(rig.store, Settings()))
    assert not any(gauge.over for gauge in fleet.gauges)
    assert [one.held for one in fleet.limits] == [1]
    assert fleet.warnings == ("limit api is closed: 1 jobs are held",)


async def test_pauses_are_warned_of(rig: Rig) -> None:
    await rig.memory.pause_queue("mail", until=rig.clock.now() + timedelta(hours=1))
    await rig.enqueue("t", queue="mail")
    fleet = await examine(rig.store, Thresholds(rig.store, Settings()))
    assert fleet.warnings == ("queue mail is paused until 2026-01-01T01:00:00+00:00: 1 jobs wait",)


async def test_a_dead_letter_may_stay_for_a_week(rig: Rig) -> None:
    rig.task(fail)
    await rig.enqueue("fail", attempts=1)
    await rig.run()
    thresholds = Thresholds(rig.store, Settings())

    async def over() -> bool:
        (gauge,) = await thresholds([], rig.clock.now())
        return gauge.over

    assert not await over()
    rig.clock.advance(7 * _DAY - 60)
    assert not await over()
    rig.clock.advance(120)
    assert await over()
    (dead,) = (await rig.memory.find(JobFilter())).items
    await rig.memory.delete((dead.id,))
    rig.clock.advance(61)
    assert not await over()


async def test_messages_have_limits_of_their_own(rig: Rig) -> None:
    now = rig.clock.now()

    async def message_backlog() -> list[MessageBacklog]:
        def row(box: Box, stream: str, due: float | None, dead: float | None) -> MessageBacklog:
            return MessageBacklog(
                box=box,
                stream=stream,
                due=1,
                dead=1,
                oldest_due_at=None if due is None else now - timedelta(seconds=due),
                oldest_dead_at=None if dead is None else now - timedelta(seconds=dead),
            )

        return [
            row(Box.OUT, "wallet", 301, None),
            row(Box.OUT, "agent", None, 8 * _DAY),
            row(Box.IN, "payments", 20, None),
        ]

    thresholds = Thresholds(rig.store, Settings(inbox_age_limit=10.0))
    thresholds._messages = message_backlog
    reasons = [one.reason for one in await thresholds([], now)]
    assert reasons == [
        "the oldest undelivered event of stream wallet has waited for 301 s, more than 300 s",
        "the oldest unapplied inbox message of stream payments has waited for 20 s, more than 10 s",
        "the oldest dead letter has waited for 691200 s, more than 604800 s",
    ]


# -- the fleet -------------------------------------------------------------------------------------


async def test_the_fleet_is_judged_by_what_its_workers_say(rig: Rig) -> None:
    thresholds = Thresholds(rig.store, Settings())
    assert (await examine(rig.store, thresholds)).reasons == ("no worker is live",)
    worker = await started(rig)
    assert (await examine(rig.store, thresholds)).healthy  # it has said nothing yet
    await rig.pass_time(11)
    fleet = await examine(rig.store, thresholds)
    assert fleet.healthy
    (only,) = fleet.members
    assert (only.presence, only.ill) == (WorkerPresence.LIVE, None)
    rig.faulty.fail("prune", RuntimeError("no"), times=1_000_000)
    rig.faulty.fail("rescue", RuntimeError("no"), times=1_000_000)
    await rig.pass_time(30)
    (reason,) = (await examine(rig.store, thresholds)).reasons
    assert reason.startswith(f"worker {worker.id}: loop rescue: ")
    assert reason.endswith("turns in a row failed: RuntimeError")


def _record(report: WorkerReport | str | None, **fields: object) -> WorkerRecord:
    now = Rig().clock.now()
    text = msgspec.json.encode(report).decode() if isinstance(report, WorkerReport) else report
    info = WorkerInfo(id="w", host="h", pid=1, version="1", concurrency=4, tasks=("t",))
    given = {"late": False, "running": 0, "report": text, **fields}
    return WorkerRecord(info=info, started_at=now, seen_at=now, expires_at=now, **given)  # type: ignore[arg-type]


ILL = WorkerReport(
    loops=(LoopReport(name="claim", condition=Condition.UNHEALTHY, state="failing", reason="x"),)
)


def test_one_healthy_worker_is_enough_and_the_late_and_gone_do_not_count() -> None:
    stopped = member(_record(None, gone_at=Rig().clock.now(), late=True))
    gone = member(_record(None, gone_at=Rig().clock.now(), late=True, presence=True))
    late, ill, well = member(_record(None, late=True)), member(_record(ILL)), member(_record(None))
    told = [one.presence for one in (stopped, gone, late, ill)]
    assert told == ["stopped", "gone", "late", "live"]

    def reasons(*members: object) -> tuple[str, ...]:
        return FleetHealth(members=members, gauges=()).reasons  # type: ignore[arg-type]

    assert reasons(stopped, gone, late) == ("no worker is live",)
    assert reasons(gone, late, ill) == ("worker w: loop claim: x",)
    assert reasons(ill, well) == ()


def test_a_report_of_another_version_says_nothing_and_a_worker_s_own_gauges_do_not_count() -> None:
    assert member(_record('{"loops": "many"}')).report is None
    assert member(_record('{"loops": [], "added": 1}')).report == WorkerReport()
    waiting = WorkerReport(gauges=(AgeGauge(name="g", age=9.0, limit=1.0),))
    assert (waiting.ready, waiting.warnings) == (
        True,
        ("g has waited for 9 s, more than 1 s",),
    )
    assert member(_record(waiting)).ill is None


async def test_what_waits_for_a_webhook_endpoint_is_that_endpoints_own_health() -> None:
    streams = [
        MessageBacklog(box=Box.OUT, stream=stream, due=1, dead=0, oldest_due_at=START)
        for stream in ("wallet", "webhook:acme")
    ]

    class Store:
        async def message_backlog(self) -> list[MessageBacklog]:
            return streams

        async def find(self, *_: object, **__: object) -> Page:
            return Page(items=())

    now = START + timedelta(hours=1)
    everywhere = await Thresholds(cast("Any", Store()), Settings())([], now)
    served = frozenset({(Box.OUT, "wallet")})
    here = await Thresholds(cast("Any", Store()), Settings(), served=lambda: served)([], now)
    for gauges in (everywhere, here):
        names = [gauge.name for gauge in gauges]
        assert names == ["the oldest undelivered event of stream wallet", "the oldest dead letter"]
