"""The records that a running job makes under the fence of its lease, and what undoes them."""

from __future__ import annotations

from typing import Final

import msgspec

from offpath.model.brief import StepRecord
from offpath.model.effects import Effects
from offpath.model.job import LeasedJob
from offpath.model.wait import Undoing
from offpath.store.hints import hints_of
from offpath.store.programs.dialect import Dialect, Send, Steps, ask, one
from offpath.store.programs.instants import readable
from offpath.store.refusals import not_held, refuse_contributions

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def put(d: Dialect, job: LeasedJob, name: str, result: str | None) -> Steps[str | None]:
    """Record a step once; what is recorded."""
    yield from hold(d, job)
    d.batch([name, result])  # raises for what would not come back as it was
    put_step = d.sql["put_step"](id=job.id, name=name, result=result, now=d.now)
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


def records(d: Dialect, job_id: str) -> Steps[list[StepRecord]]:
    """The recorded steps of a job with their times."""
    known = d.id(job_id)
    if known is None:
        return []
    rows = yield from one(d.sql["step_records"](id=known))
    return [StepRecord(name=name, result=result, at=readable(at)) for name, result, at in rows]


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


# -- undo ------------------------------------------------------------------------------------------


def put_undo(d: Dialect, job: LeasedJob, name: str, undo: str) -> Steps[None]:
    """Record what undoes a step, once."""
    yield from hold(d, job)
    d.batch([name, undo])  # raises for what would not come back as it was
    # Together: a recorded undo without the mark on its job would never be found.
    put_undo = d.sql["put_undo"](id=job.id, name=name, undo=undo)
    yield Send((put_undo, d.sql["mark_undo"](id=job.id)), last=True)


def undoing(d: Dialect, *, limit: int, after: str | None = None) -> Steps[list[Undoing]]:
    """Failed jobs that have something to undo, by id."""
    rows = yield from one(d.sql["undoing"](limit=max(limit, 0), after=after))
    return [Undoing(id=job, group_id=group, undo=_texts(undo)) for job, group, undo in rows]


def compensate(d: Dialect, job_id: str, effects: Effects) -> Steps[bool]:
    """Commit what undoes a job, once, and forget what it had recorded."""
    refuse_contributions(effects)
    known = d.id(job_id)
    # It locks the job and takes the mark away in one, so of two that undo it one finds nothing.
    if known is None or not (yield from ask(d.sql["take_undo"](id=known))):
        return False
    # What the steps did is undone: put back later, the job has to do them again.
    yield from ask(d.sql["forget_steps"](id=known))
    _, last_steps = yield from d.commit(effects)
    yield from last_steps
    d.announced.tell(*hints_of(effects))
    return True
