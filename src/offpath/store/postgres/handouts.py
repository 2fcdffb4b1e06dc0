"""The rows of statements that hand out jobs, which all have the same columns."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from offpath.model.headers import readable_headers
from offpath.model.job import LeasedJob
from offpath.store.postgres.steps import from_micros
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_dependents: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class LeasedRow(NamedTuple):
    """A job that is handed out, behind what the statement says of all; without a job its id is
    None.
    """

    now: int = 0
    candidates: int | None = 0
    due_at: int | None = None
    survey: str | None = None
    id: str | None = ""
    task: str = ""
    queue: str = ""
    input: str = "{}"
    deliveries: int = 1
    attempt: int = 1
    options: str = "{}"
    group_id: str | None = None
    priority: int = 0
    run_at: int = 0
    enqueued_at: int = 0
    losses: int = 0
    parent: str | None = None
    dependents: str | None = None
    deadline: int | None = None
    announce: int = 0
    limit_key: str | None = None
    headers: str | None = None


CANDIDATES: Final = LeasedRow._fields.index("candidates")
JOB: Final = LeasedRow._fields.index("id")
ANNOUNCE: Final = LeasedRow._fields.index("announce")
RUN_AT: Final = LeasedRow._fields.index("run_at")
SURVEY: Final = LeasedRow._fields.index("survey")
"""Places in a row: a lease makes no object of each beside the job itself."""


def shape_of(worker: str) -> Shape[LeasedJob]:
    """The way in which the rows of a lease by ``worker`` are read, one by one if need be."""
    return Shape(lambda row: job_of(row, worker), LeasedRow._fields, LeasedRow(), _marked)


def _marked(job: LeasedJob, bad: dict[str, str]) -> LeasedJob:
    return replace(job, unreadable=mark(bad))


def job_of(row: Row, worker: str) -> LeasedJob:
    """A job as the statements of a lease answer it."""
    # Each job that is handed out comes by here: its row is taken apart at once, without a class of
    # its own.
    (
        _,
        _,
        _,
        _,
        id_,
        task,
        queue,
        input_,
        deliveries,
        attempt,
        options,
        group_id,
        priority,
        run_at,
        enqueued_at,
        losses,
        parent,
        dependents,
        deadline,
        _,
        limit_key,
        headers,
    ) = row
    return LeasedJob(
        id=id_,
        task=task,
        queue=queue,
        input=input_,
        worker=worker,
        deliveries=deliveries,
        attempt=attempt,
        options=options,
        group_id=group_id or id_,
        priority=priority,
        run_at=from_micros(run_at),
        enqueued_at=from_micros(enqueued_at),
        losses=losses,
        parent=parent,
        dependents=() if dependents is None else _dependents(dependents),
        deadline=None if deadline is None else from_micros(deadline),
        limit_key=limit_key,
        headers=None if headers is None else readable_headers(headers),
    )
