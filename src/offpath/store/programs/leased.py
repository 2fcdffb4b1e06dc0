"""Jobs in a worker's hand, as rows tell of them."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.headers import readable_headers
from offpath.model.job import LeasedJob
from offpath.store.programs.instants import instant
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def _leased_job(row: Row) -> LeasedJob:
    # each job that is handed out comes by here: taken apart at once, without a class of its own
    (
        id_,
        task,
        queue,
        input_,
        worker,
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
        group_id=group_id,
        priority=priority,
        run_at=instant(run_at),
        enqueued_at=instant(enqueued_at),
        losses=losses,
        parent=parent,
        dependents=_texts(dependents) if dependents else (),
        deadline=instant(deadline),
        limit_key=limit_key,
        headers=None if headers is None else readable_headers(headers),
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
        "headers",
    ),
    ("", "", "", "{}", "", 1, 1, "{}", "", 0, 0, 0, 0, None, None, None, None, None),
    lambda job, bad: replace(job, unreadable=mark(bad)),
)
"""The columns of a job in a worker's hand; one that cannot be read is marked."""

WIDTH: Final = len(LEASED.columns)
"""The number of these columns: rows of a lease say more behind them."""

JOB: Final = LEASED.columns.index("id")
PRIORITY: Final = LEASED.columns.index("priority")
RUN_AT: Final = LEASED.columns.index("run_at")
ENQUEUED_AT: Final = LEASED.columns.index("enqueued_at")
ANNOUNCE: Final = WIDTH
SEQ: Final = WIDTH + 1
"""Places in the row of a lease, which makes no object of each beside the job itself."""
