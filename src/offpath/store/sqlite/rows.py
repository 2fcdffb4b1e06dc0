"""Rows as values of the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model.job import Failure, JobRecord, JobState, LeasedJob
from offpath.model.lease import WorkerInfo, WorkerRecord
from offpath.store.programs.instants import instant
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_encode = msgspec.json.Encoder().encode
_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_failures: Final = msgspec.json.Decoder(tuple[Failure, ...]).decode
_NOBODY: Final = '{"id":"","host":"","pid":0,"version":"","concurrency":0,"tasks":[],"queues":[]}'
"""A worker of which nothing can be read."""
_info: Final = msgspec.json.Decoder(WorkerInfo).decode

OUTER: Final = {
    "scheduled": JobState.QUEUED,
    "ready": JobState.QUEUED,
    **{state.value: state for state in JobState if state is not JobState.QUEUED},
}
"""States as others see them."""


def leased_job(row: Row) -> LeasedJob:
    """A row of ``lease_lane``, ``lease_lanes`` or ``rescue_candidates``, marked if need be."""
    return LEASED.one(row[: len(LEASED.columns)])


def _leased_job(row: Row) -> LeasedJob:
    return LeasedJob(
        id=row[0],
        task=row[1],
        queue=row[2],
        input=row[3],
        worker=row[4],
        deliveries=row[5],
        attempt=row[6],
        options=row[7],
        group_id=row[8],
        priority=row[9],
        run_at=instant(row[10]),
        enqueued_at=instant(row[11]),
        losses=row[12],
        parent=row[13],
        dependents=_texts(row[14]) if row[14] else (),
        deadline=instant(row[15]),
        limit_key=row[16],
    )


def job_record(row: Row) -> JobRecord:
    """A row of ``get``."""
    return JobRecord(
        id=row[0],
        task=row[1],
        queue=row[2],
        state=OUTER[row[3]],
        priority=row[4],
        run_at=instant(row[5]),
        enqueued_at=instant(row[6]),
        attempt=row[7],
        deliveries=row[8],
        losses=row[9],
        redrives=row[10],
        group_id=row[11],
        input=row[12],
        options=row[13],
        fingerprint=row[14],
        parent=row[15],
        dependents=_texts(row[16]) if row[16] else (),
        deadline=instant(row[17]),
        unique_key=row[18],
        tags=_texts(row[19]) if row[19] else (),
        worker=row[20],
        cancel_requested=bool(row[21]),
        started_at=instant(row[22]),
        finished_at=instant(row[23]),
        expires_at=instant(row[24]),
        result=row[25],
        reason=row[26],
        progress=row[27],
        failures=_failures(row[28]) if row[28] else (),
        gate=row[29],
        limit_key=row[30],
        fair_key=row[31],
        wait_target=row[32],
        wait_event=row[33],
    )


LEASED: Final = Shape(
    _leased_job,
    (
        "id",
        "task",
        "queue",
        "input",
        "worker",
        "deliveries",
        "attempt",
        "options",
        "group_id",
        "priority",
        "run_at",
        "enqueued_at",
        "losses",
        "parent",
        "dependents",
        "deadline",
        "limit_key",
    ),
    ("", "", "", "{}", "", 1, 1, "{}", "", 0, 0, 0, 0, None, None, None, None),
    lambda job, bad: replace(job, unreadable=mark(bad)),
)
"""Jobs in a worker's hand."""

JOBS: Final = Shape(
    job_record,
    (
        "id",
        "task",
        "queue",
        "state",
        "priority",
        "run_at",
        "enqueued_at",
        "attempt",
        "deliveries",
        "losses",
        "redrives",
        "group_id",
        "input",
        "options",
        "fingerprint",
        "parent",
        "dependents",
        "deadline",
        "unique_key",
        "tags",
        "worker",
        "cancel_requested",
        "started_at",
        "finished_at",
        "expires_at",
        "result",
        "reason",
        "progress",
        "failures",
        "gate",
        "limit_key",
        "fair_key",
        "wait_target",
        "wait_event",
    ),
    (
        "",
        "",
        "",
        "dead",
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        "",
        "{}",
        "{}",
        "",
        None,
        None,
        None,
        None,
        None,
        None,
        0,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    ),
    lambda job, bad: replace(job, unreadable=mark(bad)),
)
"""Jobs as they are looked at."""


def worker_records(rows: Iterable[Row], now: int) -> list[WorkerRecord]:
    """The rows of ``worker_list``."""
    columns = (
        "info",
        "started_at",
        "seen_at",
        "expires_at",
        "presence",
        "running",
        "report",
        "gone_at",
    )
    plain = (_NOBODY, 0, 0, 0, 0, 0, None, None)
    shape = Shape(lambda row: _worker_record(row, now), columns, plain, lambda one, _: one)
    return shape.all(rows)


def _worker_record(row: Row, now: int) -> WorkerRecord:
    return WorkerRecord(
        info=_info(row[0]),
        started_at=instant(row[1]),
        seen_at=instant(row[2]),
        expires_at=instant(row[3]),
        late=row[3] <= now,
        presence=bool(row[4]),
        running=row[5],
        report=row[6],
        gone_at=instant(row[7]),
    )


def dated(failure: Failure, now: int) -> Failure:
    """``failure`` with a time."""
    return failure if failure.at is not None else replace(failure, at=instant(now))


def failure_text(failure: Failure, now: int) -> str:
    """A failure as kept: a document. Raises ``StoreRejected``."""
    try:
        return _encode(dated(failure, now)).decode()
    except UnicodeEncodeError as error:
        message = "a failure's text holds a lone surrogate (half a character)"
        raise StoreRejected(message) from error
