"""Rows as values of the model."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.job import Failure, JobState, LeasedJob
from offpath.store.programs.instants import instant
from offpath.store.refusals import not_unicode
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_encode = msgspec.json.Encoder().encode
_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_failures: Final = msgspec.json.Decoder(tuple[Failure, ...]).decode
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


def dated(failure: Failure, now: int) -> Failure:
    """``failure`` with a time."""
    return failure if failure.at is not None else replace(failure, at=instant(now))


def failure_text(failure: Failure, now: int) -> str:
    """A failure as kept: a document. Raises ``StoreRejected``."""
    try:
        return _encode(dated(failure, now)).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error
