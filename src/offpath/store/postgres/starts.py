"""Jobs that begin in the process that enqueues them."""

from __future__ import annotations

from datetime import datetime

from offpath.model.effects import Effects
from offpath.model.job import LeasedJob, NewJob
from offpath.store.postgres.effects import commit_steps
from offpath.store.postgres.handouts import ANNOUNCE, JOB, job_of
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Announced, Steps, ask, embed
from offpath.store.refusals import not_registered
from offpath.store.sql import Catalogue


def start_steps(
    job: NewJob,
    worker: str,
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[LeasedJob | None]:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    if not (yield from ask(sql["alive"](worker=worker, now=moment(now)))):
        raise not_registered(worker)
    (answer,) = yield from embed(commit_steps(Effects(jobs=(job,)), now, sql=sql))
    if not answer.created:
        return None
    rows = yield from ask(
        sql["take_chosen"](
            now=moment(now),
            ids=to_json([answer.job_id]),
            worker=worker,
            tasks="{}",
            queues="[]",
            begun=True,
        ),
        last=True,
    )
    if announced is not None:
        announced.hear(row[ANNOUNCE] for row in rows)
    return next((job_of(row, worker) for row in rows if row[JOB] is not None), None)
