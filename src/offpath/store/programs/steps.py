"""The records that a running job makes on its way, under the fence of its lease."""

from __future__ import annotations

from offpath.model.job import LeasedJob
from offpath.store.programs.dialect import Dialect, Send, Steps, ask, one
from offpath.store.refusals import not_held


def put(d: Dialect, job: LeasedJob, name: str, result: str | None) -> Steps[str | None]:
    """Record a step once; what is recorded."""
    yield from hold(d, job)
    d.batch([name, result])  # raises for what would not come back as it was
    put_step = d.sql["put_step"](id=job.id, name=name, result=result)
    _, recorded = yield Send((put_step, d.sql["step"](id=job.id, name=name)), last=True)
    ((kept,),) = recorded
    text: str | None = kept
    return text


def recorded(d: Dialect, job_id: str) -> Steps[dict[str, str | None]]:
    """The recorded steps of a job."""
    known = d.id(job_id)
    if known is None:
        return {}
    rows = yield from one(d.sql["steps"](id=known))
    return dict(map(tuple, rows))


def progress(d: Dialect, job: LeasedJob, progress: str) -> Steps[None]:
    """Record how far a held job is."""
    fence = {"id": job.id, "worker": job.worker, "deliveries": job.deliveries}
    if not (yield from one(d.sql["progress"](progress=progress, **fence))):
        raise not_held(job.id)


def hold(d: Dialect, job: LeasedJob) -> Steps[None]:
    """Keep a held job still. Raises ``LeaseLost`` for whoever does not hold it any more."""
    fence = d.sql["hold_job"](id=job.id, worker=job.worker, deliveries=job.deliveries)
    if not (yield from ask(fence)):
        raise not_held(job.id)
