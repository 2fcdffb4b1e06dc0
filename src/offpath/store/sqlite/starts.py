"""Jobs that begin in the process that enqueues them."""

from __future__ import annotations

from offpath.model.effects import Effects
from offpath.model.job import LeasedJob, NewJob
from offpath.store.programs.leased import LEASED, WIDTH
from offpath.store.refusals import not_registered, refuse_waiting
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.session import SQL, Session


def start(session: Session, now: int, job: NewJob, worker: str) -> LeasedJob | None:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    refuse_waiting(job)
    if not session.run(SQL["alive"](worker=worker, now=now)):
        raise not_registered(worker)
    (answer,) = session.drive(effect_steps(Effects(jobs=(job,)), now))
    if not answer.created:
        return None
    if job.announce:
        session.stirred = True
    rows = session.run(SQL["start_lease"](id=job.id, worker=worker, now=now))
    return LEASED.one(rows[0][:WIDTH]) if rows else None
