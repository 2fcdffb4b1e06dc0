"""Every fate of a job is in the log: a matrix of transition and fault against its line."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from offpath import Abort, App
from offpath.cli import logs
from offpath.jobs.client.fates import Fates
from offpath.jobs.worker.unclaimed import MOST_TOLD, Unclaimed
from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, Failure, JobState, LeasedJob
from offpath.model.lease import Rescued, WorkerInfo, WorkerRecord
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.retries import RetryPolicy
from offpath.runtime import log
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Backlog
from offpath.store.telemetry import moves
from offpath.store.telemetry.moves import MoveStep

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID = "0199c0de-0000-7000-8000-000000000001"
SEE = f"; see: offpath jobs show {ID}"
FAILURE = Failure(kind="error", type="ValueError", message="card 4111", traceback="Traceback\n  x")
JOB = LeasedJob(
    id=ID,
    task="charge",
    queue="money",
    input="[]",
    worker="w",
    deliveries=2,
    attempt=2,
    options='{"retry":{"attempts":5}}',
    group_id=ID,
    priority=0,
    run_at=AT,
    enqueued_at=AT,
)


def ended(outcome: Outcome, state: JobState, run_at: datetime | None = None) -> list[MoveStep]:
    answer = Settled(id=ID, status=SettleStatus.APPLIED, state=state, run_at=run_at)
    return list(moves.settled([Settlement(job=JOB, outcome=outcome)], [answer]))


def rescued(state: JobState) -> list[MoveStep]:
    return list(moves.rescued([Rescued(job=JOB, state=state)]))


def changed(
    was: JobState, state: JobState, reason: DeadReason | None = None, attempt: int = 1
) -> list[MoveStep]:
    answer = ChangedJob(
        id=ID,
        task="charge",
        queue="money",
        group_id=ID,
        was=was,
        state=state,
        reason=reason,
        attempt=attempt,
    )
    return list(moves.changed([answer]))


_S = JobState
OF_5 = f"charge {ID}, attempt 2 of 5"
MATRIX: dict[str, tuple[list[MoveStep], str, str]] = {
    "succeeded": (ended(Succeeded(), _S.SUCCEEDED), "DEBUG", f"succeeded: {OF_5}"),
    "failed": (
        ended(Retry(delay=5, failure=FAILURE), _S.QUEUED, AT),
        "WARNING",
        f"failed: {OF_5}: ValueError; again at 2026-03-01T12:00:00+00:00{SEE}",
    ),
    "failed as it was cancelled": (
        ended(Retry(delay=5, failure=FAILURE), _S.CANCELLED),
        "INFO",
        f"cancelled: {OF_5}: ValueError",
    ),
    **{
        f"dead: {reason}": (
            ended(Dead(reason=reason, failure=FAILURE), _S.DEAD),
            "ERROR",
            f"dead: {OF_5}: {reason}, ValueError{SEE}",
        )
        for reason in DeadReason
    },
    "snoozed": (
        ended(Snoozed(delay=5), _S.QUEUED, AT),
        "INFO",
        f"put off: {OF_5}: snoozed; again at 2026-03-01T12:00:00+00:00",
    ),
    "cool-down": (
        ended(Snoozed(delay=5, cool_down=30), _S.QUEUED, AT),
        "INFO",
        f"put off: {OF_5}: its limit cools down for 30 s; again at 2026-03-01T12:00:00+00:00",
    ),
    "waiting": (
        ended(Waiting(target=ID, event="paid"), _S.BLOCKED),
        "INFO",
        f"put off: {OF_5}: it waits for the signal paid",
    ),
    "cancelled": (ended(Cancelled(), _S.CANCELLED), "INFO", f"cancelled: {OF_5}"),
    "given back": (ended(Released(), _S.QUEUED), "INFO", f"given back: {OF_5}"),
    "rescued": (
        rescued(_S.QUEUED),
        "WARNING",
        f"rescued from a worker that is lost: {OF_5}{SEE}",
    ),
    "lost for good": (rescued(_S.DEAD), "ERROR", f"dead: {OF_5}: worker_lost{SEE}"),
    "lost and cancelled": (rescued(_S.CANCELLED), "INFO", f"cancelled: {OF_5}"),
    "expired while it waited": (
        changed(_S.QUEUED, _S.DEAD, DeadReason.DEADLINE),
        "ERROR",
        f"dead: charge {ID}: deadline{SEE}",
    ),
    "its gate cannot fire": (
        changed(_S.BLOCKED, _S.DEAD, DeadReason.UNSATISFIABLE),
        "ERROR",
        f"dead: charge {ID}: unsatisfiable{SEE}",
    ),
    "cancelled while it waited": (
        changed(_S.QUEUED, _S.CANCELLED),
        "INFO",
        f"cancelled: charge {ID}",
    ),
    "cancelled between two attempts": (
        changed(_S.QUEUED, _S.CANCELLED, attempt=3),
        "INFO",
        f"cancelled: charge {ID}, after 2 attempts",
    ),
}
by_case = pytest.mark.parametrize("case", MATRIX)


@pytest.fixture(autouse=True)
def verbose(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "offpath.jobs")


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.name == "offpath.jobs"]


@by_case
def test_each_transition_has_its_line(case: str, caplog: pytest.LogCaptureFixture) -> None:
    steps, level, line = MATRIX[case]
    Fates({}).moved(steps, AT)
    assert [(one.levelname, one.getMessage()) for one in told(caplog)] == [(level, line)]


@by_case
def test_the_line_is_one_line_as_text_and_has_its_fields_as_json(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    steps, level, line = MATRIX[case]
    Fates({}).moved(steps, AT)
    (record,) = told(caplog)
    text = logs._TextLines().format(record)
    assert text.count("\n") == 0
    assert line in text
    document = json.loads(logs._JsonLines().format(record))
    assert document["level"] == level.lower()
    assert (document["job_id"], document["task"], document["queue"]) == (ID, "charge", "money")
    (step,) = steps
    assert step.move.entered is not None
    assert document["state"] == step.move.entered


def test_every_kind_of_end_is_in_the_matrix() -> None:
    outcomes = {
        type(step.settlement.outcome)
        for steps, _, _ in MATRIX.values()
        for step in steps
        if step.settlement is not None
    }
    assert outcomes == set(Outcome.__args__)


def test_a_terminal_is_told_nothing_twice(caplog: pytest.LogCaptureFixture) -> None:
    Fates({}).moved(MATRIX["failed"][0], AT)
    (record,) = told(caplog)
    assert " [job_id=" in logs._TextLines().format(record)
    record.tenant = "acme"  # a field of the program's own
    brief = logs._TextLines(brief=True).format(record)
    assert brief.endswith(f"{record.getMessage()} [tenant=acme]")


def test_a_handlers_own_line_keeps_what_it_does_not_say_on_a_terminal() -> None:
    fields = {"job_id": ID, "task": "charge", "queue": "money", "attempt": 1}
    record = logging.makeLogRecord(
        {"name": "offpath.job", "levelname": "INFO", "msg": "charge: 1 of 2", **fields}
    )
    brief = logs._TextLines(brief=True).format(record)
    assert brief.endswith(f"charge: 1 of 2 [job_id={ID} queue=money attempt=1]")


@pytest.mark.parametrize(
    ("detail", "seen", "unseen"),
    [
        ("type", ["ValueError"], ["4111", "Traceback"]),
        ("text", ["ValueError: card 4111"], ["Traceback"]),
        ("traceback", ["ValueError: card 4111", "\n  Traceback\n    x"], []),
    ],
)
def test_the_setting_says_how_much_of_an_error_is_shown(
    detail: Any, seen: list[str], unseen: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    Fates({}, detail).moved(MATRIX["failed"][0], AT)
    (record,) = told(caplog)
    shown = logs._TextLines().format(record)
    assert [part for part in seen if part not in shown] == []
    assert [part for part in unseen if part in shown] == []


def test_nothing_is_built_for_a_line_that_nobody_sees(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "offpath.jobs")
    Fates({}).moved(MATRIX["failed"][0], AT)
    assert told(caplog) == []


async def test_a_worker_tells_of_its_jobs(caplog: pytest.LogCaptureFixture) -> None:
    app = App()

    @app.task(retry=RetryPolicy(attempts=2, base=0.0))
    async def charge(what: str) -> None:
        if what == "fail":
            raise ValueError("card 4111")
        if what == "abort":
            raise Abort("no such card")

    async with app:
        for what in ("fine", "fail", "abort"):
            await charge.enqueue(what)
        async with app.worker() as worker:
            await worker.run_until_idle()
    lines = [(one.levelname, one.getMessage().partition(":")[0]) for one in told(caplog)]
    assert sorted(lines) == [
        ("DEBUG", "succeeded"),
        ("ERROR", "dead"),
        ("ERROR", "dead"),
        ("WARNING", "failed"),
    ]
    text = caplog.text
    assert "attempt 1 of 2" in text
    assert "4111" not in text


def test_deaths_reach_standard_error_where_no_logging_was_set_up(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    Fates({}).moved(MATRIX["failed"][0], AT)
    Fates({}).moved(MATRIX["dead: exhausted"][0], AT)
    assert capfd.readouterr().err == f"dead: {OF_5}: exhausted, ValueError{SEE}\n"


def test_a_programs_own_handler_has_the_last_word(capfd: pytest.CaptureFixture[str]) -> None:
    handler = logging.Handler()
    logging.getLogger(log.ROOT).addHandler(handler)
    try:
        assert log._handled("offpath.jobs")
    finally:
        logging.getLogger(log.ROOT).removeHandler(handler)
    assert capfd.readouterr().err == ""


NOBODY: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a task that no worker knows": (
        "mail",
        "chrage",
        {"tasks": ("charge",)},
        (
            "unknown task: chrage; jobs of it are due, and no live worker of their queue knows it: "
            "import the module that defines it where the worker starts, or correct the name; "
            "see: offpath workers"
        ),
    ),
    "a queue that no worker serves": (
        "mial",
        "charge",
        {"tasks": ("charge",), "queues": ("mail",)},
        (
            "unknown queue: mial; jobs in it are due, and no live worker serves it: start one with "
            "--queues, or correct the name where the jobs are enqueued; see: offpath queues list"
        ),
    ),
}


class Fleet:
    """The workers of a store."""

    def __init__(self, *infos: WorkerInfo) -> None:
        self.infos = infos

    async def workers(self) -> list[WorkerRecord]:
        times: dict[str, Any] = dict.fromkeys(("started_at", "seen_at", "expires_at"), AT)
        return [WorkerRecord(info=one, late=False, running=0, **times) for one in self.infos]


def worker(**fields: Any) -> WorkerInfo:
    return WorkerInfo(id="w", host="h", pid=1, version="1", concurrency=1, **fields)


def due(queue: str, task: str) -> Backlog:
    return Backlog(queue=queue, task=task, ready=3, oldest_run_at=AT)


@pytest.mark.parametrize("case", NOBODY)
async def test_jobs_that_nobody_runs_have_a_line_once_an_hour(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue, task, mine, line = NOBODY[case]
    clock = ManualClock(AT)
    fleet = Fleet(worker(**mine))
    queues = mine.get("queues", ())
    unclaimed = Unclaimed(fleet, clock, tasks=mine["tasks"], queues=queues)
    waits = [due("mail", "charge"), due(queue, task)]
    await unclaimed.look(waits)
    assert told(caplog) == []  # the worker that knows it may just be starting
    for seconds in (15, 15, 15):
        clock.advance(seconds)
        await unclaimed.look(waits)
    (record,) = told(caplog)
    assert (record.levelname, record.getMessage()) == ("WARNING", line)
    assert line in logs._TextLines().format(record)
    document = json.loads(logs._JsonLines().format(record))
    assert (document["task"], document["queue"], document["due"]) == (task, queue, 3)
    clock.advance(3_600)
    await unclaimed.look(waits)
    assert len(told(caplog)) == 2


async def test_what_another_worker_runs_has_no_line(caplog: pytest.LogCaptureFixture) -> None:
    other = worker(tasks=("bill", "post"), queues=("money",))
    unclaimed = Unclaimed(Fleet(other), ManualClock(AT), tasks=("charge",), queues=("mail",))
    for _ in range(3):
        await unclaimed.look([due("money", "bill"), due("mail", "charge")])
    assert told(caplog) == []


async def test_whoever_may_enqueue_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    unclaimed = Unclaimed(Fleet(), ManualClock(AT), tasks=(), queues=("mail",))
    for _ in range(2):
        await unclaimed.look([due(f"q{n}", "t") for n in range(1_000)])
    assert len(told(caplog)) == MOST_TOLD


async def test_a_worker_tells_of_a_task_that_it_does_not_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(AT)
    async with App(clock=clock, auto_start=False) as app:
        app.task(name="charge")(lambda: None)
        await app.by_name("chrage", registered=False).enqueue()
        async with app.worker(), asyncio.timeout(20):
            while not (lines := [one.getMessage() for one in told(caplog)]):
                await asyncio.sleep(0)
                clock.advance(0.5)
    assert lines[0].startswith("unknown task: chrage; jobs of it are due")
