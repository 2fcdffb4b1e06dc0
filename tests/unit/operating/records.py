"""Records with every field set, as the store would answer them: what documents are made of."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec

from offpath.health.fleet import FleetHealth, FleetMember, member
from offpath.model.deaths import Dying, Whose
from offpath.model.finding import FindingRecord
from offpath.model.group import GroupPolicy, GroupRecord
from offpath.model.health import AgeGauge, Condition, LoopReport, SettlementReport, WorkerReport
from offpath.model.job import Failure, JobRecord, JobState, NewJob
from offpath.model.lease import WorkerInfo, WorkerRecord
from offpath.model.limit import LimitRecord, QueueRecord, RateSpec
from offpath.model.schedule import (
    Occurrence,
    OccurrenceOutcome,
    Schedule,
    ScheduleRecord,
    Timing,
    TimingKind,
)
from offpath.model.tally import Verdict

NOW = datetime(2026, 11, 29, 3, 0, 0, 123456, tzinfo=UTC)
_ID = "0198c0de-0000-7000-8000-00000000000{}"


def identity(number: int) -> str:
    """A job's id."""
    return _ID.format(number)


def a_job() -> JobRecord:
    """A dead job, two failures, a secret in each place where one may be."""
    failures = (
        Failure(kind="error", type="SMTPError", message="password=hunter2", attempt=1, at=NOW),
        Failure(kind="timeout", type="Timeout", message="slow", traceback="File token=t0k3n"),
    )
    return JobRecord(
        id=identity(1),
        task="send_mail",
        queue="mail",
        state=JobState.DEAD,
        priority=3,
        run_at=NOW,
        enqueued_at=NOW - timedelta(hours=1),
        attempt=5,
        deliveries=6,
        losses=1,
        redrives=2,
        group_id=identity(2),
        input='{"to":"ann@example.org","password":"hunter2"}',
        options='{"timeout":5}',
        fingerprint="f",
        parent=identity(3),
        dependents=(identity(4),),
        deadline=NOW,
        unique_key="send_mail:1",
        tags=("vip", "eu"),
        gate=identity(5),
        limit_key="smtp",
        fair_key="ann",
        headers='{"tenant":"acme","api_key":"hunter2"}',
        worker="w",
        cancel_requested=True,
        started_at=NOW,
        finished_at=NOW,
        expires_at=NOW,
        result="not json",
        reason="exhausted",
        progress='{"done":1}',
        failures=failures,
    )


def a_group() -> GroupRecord:
    """A group with a value."""
    return GroupRecord(
        id=identity(2),
        open=3,
        failed=1,
        result='{"api_key":"k","sum":3}',
        final=True,
        policy=GroupPolicy.FAIL_FAST,
    )


def a_queue() -> QueueRecord:
    """A queue that is paused."""
    return QueueRecord(
        name="mail", blocked=1, scheduled=2, ready=3, running=4, held=1, paused=True,
        paused_until=NOW,
    )  # fmt: skip


def a_limit() -> LimitRecord:
    """A limit at its end."""
    rate = RateSpec(count=10, per=1.5)
    return LimitRecord(
        key="smtp", max_running=10, rate=rate, admitted=10, running=9, held=4, closed_until=NOW
    )


def a_schedule() -> ScheduleRecord:
    """A schedule with a cron expression."""
    template = NewJob(
        id=identity(6), task="report", input='{"token":"t"}', fingerprint="f", tags=("nightly",)
    )
    timing = Timing(kind=TimingKind.CRON, expression="0 3 * * *", zone="Europe/Berlin")
    return ScheduleRecord(
        schedule=Schedule(name="nightly", timing=timing, template=template),
        paused=False,
        next_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        version=2,
        last_at=NOW,
        last_job=identity(7),
        last_open=True,
    )


def an_occurrence() -> Occurrence:
    """An occasion that made a job."""
    return Occurrence(
        schedule="nightly", at=NOW, outcome=OccurrenceOutcome.FIRED, job=identity(7), made_at=NOW
    )


def a_worker() -> WorkerRecord:
    """A late worker with a report."""
    loops = (
        LoopReport(name="fetch", condition=Condition.HEALTHY, state="resting", last_success_age=1),
        LoopReport(name="sweep x", condition=Condition.UNHEALTHY, state="failing", reason="no"),
    )
    report = WorkerReport(loops=loops, running={"send_mail": 2}, problems=("full",))
    info = WorkerInfo(
        id="w1", host="web-1", pid=7, version="0.1.0", concurrency=10, tasks=("send_mail",),
        queues=("mail",),
    )  # fmt: skip
    return WorkerRecord(
        info=info,
        started_at=NOW,
        seen_at=NOW,
        expires_at=NOW,
        late=True,
        running=2,
        presence=True,
        report=msgspec.json.encode(report).decode(),
    )


def a_member() -> FleetMember:
    """The same, read."""
    return member(a_worker())


def a_fleet() -> FleetHealth:
    """A fleet with one of everything."""
    run = SettlementReport(kind="fees", period="2026-11", verdict=Verdict.FAILED, started_at=NOW)
    worker = WorkerRecord(
        **{
            **msgspec.structs.asdict(a_worker()),
            "report": json.dumps(msgspec.to_builtins(WorkerReport(settlements=(run,)))),
        }
    )
    found = FindingRecord(id=identity(8), name="limit.full.a", text="full", since=NOW, seen_at=NOW)
    return FleetHealth(
        members=(a_member(), member(worker)),
        gauges=(AgeGauge(name="the oldest due job of queue mail", age=400.0, limit=300.0),),
        queues=(a_queue(),),
        limits=(a_limit(),),
        dying=(Dying(whose=Whose.TASK, name="send_mail", dead=9, share=0.9, most=5),),
        findings=(found,),
        orphans=("schedule nightly makes jobs of task report",),
    )
