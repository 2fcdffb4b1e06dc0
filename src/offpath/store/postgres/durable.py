"""Steps that are done once, signals, and what undoes a job that failed."""

from __future__ import annotations

from datetime import datetime

from offpath.errors import LeaseLost
from offpath.model.effects import Effects
from offpath.model.job import JobState, LeasedJob
from offpath.model.wait import NewSignal, Undoing
from offpath.store.postgres.effects import commit_steps
from offpath.store.postgres.groups import texts
from offpath.store.postgres.steps import job_id, moment, to_json
from offpath.store.programs.dialect import Rows, Send, Steps, ask, embed
from offpath.store.sql import Catalogue, Query


def put_step_steps(
    job: LeasedJob, name: str, result: str | None, *, sql: Catalogue
) -> Steps[str | None]:
    """Record a step once; what is recorded."""
    yield from _hold(job, sql)
    _, rows = yield Send(
        (
            sql["put_step"](id=job.id, name=name, result=result),
            sql["step"](id=job.id, name=name),
        ),
        last=True,
    )
    recorded: str | None = rows[0][0]
    return recorded


def steps_steps(job: str, *, sql: Catalogue) -> Steps[dict[str, str | None]]:
    """The recorded steps of a job."""
    known = job_id(job)
    if known is None:
        return {}
    rows = yield from ask(sql["steps"](id=known), last=True)
    return dict(map(tuple, rows))


def send_signal_steps(signal: NewSignal, now: datetime | None, *, sql: Catalogue) -> Steps[bool]:
    """Keep a signal and wake who waits longest for it.

    A waiter that somebody else holds is not waited for: then the signal is marked as missed.
    """
    batch = to_json([{"target": signal.target, "event": signal.event}])
    keep = (sql["lock_signals"](batch=batch), _add(signal, now, sql))
    *_, room, _, added = yield Send((*_room(signal, now, sql), *keep))
    if not added:
        return False
    if signal.most is not None and room[0][0] >= signal.most:
        raise signal.full()
    told = () if now is None else (sql["tell_the_time"](now=moment(now)),)
    answers = yield Send((*told, _wake(signal.target, signal.event, now, sql)))
    if not answers[-1]:
        yield from ask(sql["note_missed"](id=signal.id), last=True)
    return True


def _add(signal: NewSignal, now: datetime | None, sql: Catalogue) -> Query:
    return sql["add_signal"](
        now=moment(now),
        id=signal.id,
        keep=signal.keep,
        target=signal.target,
        event=signal.event,
        payload=signal.payload,
    )


def _room(signal: NewSignal, now: datetime | None, sql: Catalogue) -> tuple[Query, ...]:
    """Count the signals that its target has, up to as many as it may have.

    Who sends to one target takes turns, whatever the event, or several would find the last place.
    No event is named "", so nobody who waits takes this lock. Every sender takes it first.
    """
    turn = sql["lock_signals"](batch=to_json([{"target": signal.target, "event": ""}]))
    room = sql["signal_room"](now=moment(now), target=signal.target, most=signal.most or 0)
    return (turn, room)


def wake_missed(missed: Rows, now: datetime | None, *, sql: Catalogue) -> Steps[set[JobState]]:
    """Wake who still waits for these signals."""
    batch = [{"target": target, "event": event} for _, target, event in missed]
    yield from ask(sql["lock_signals"](batch=to_json(batch)))
    moved: set[JobState] = set()
    for signal, target, event in missed:
        rows = yield from ask(_wake(target, event, now, sql))
        if rows:
            moved.add(JobState.QUEUED)
        yield from ask(sql["found_sleeper" if rows else "note_missed"](id=signal))
    return moved


def take_signal_steps(
    job: LeasedJob, target: str, event: str, step: str, now: datetime | None, *, sql: Catalogue
) -> Steps[str | None]:
    """Take the oldest signal as the result of a step."""
    yield from ask(sql["lock_signals"](batch=to_json([{"target": target, "event": event}])))
    yield from _hold(job, sql)
    rows = yield from ask(sql["step"](id=job.id, name=step))
    if rows:
        recorded: str | None = rows[0][0]
        return recorded
    taken = yield from ask(sql["take_signal"](now=moment(now), target=target, event=event))
    if not taken:
        return None
    payload: str = taken[0][0]
    yield Send(
        (
            sql["put_step"](id=job.id, name=step, result=payload),
            sql["met_signal"](id=job.id, target=target, event=event),
        ),
        last=True,
    )
    return payload


def put_undo_steps(job: LeasedJob, name: str, undo: str, *, sql: Catalogue) -> Steps[None]:
    """Record what undoes a step, once."""
    yield from _hold(job, sql)
    yield from ask(sql["put_undo"](id=job.id, name=name, undo=undo), last=True)


def undoing_steps(limit: int, after: str | None, *, sql: Catalogue) -> Steps[list[Undoing]]:
    """Failed jobs that have something to undo."""
    rows = yield from ask(sql["undoing"](limit=max(limit, 0), after=after), last=True)
    return [Undoing(id=job, group_id=group, undo=texts(undo)) for job, group, undo in rows]


def compensate_steps(
    job: str, effects: Effects, now: datetime | None, *, sql: Catalogue
) -> Steps[bool]:
    """Forget what there was to undo, and commit what undoes it."""
    known = job_id(job)
    if known is None or not (yield from ask(sql["take_undo"](id=known))):
        return False
    yield from embed(commit_steps(effects, now, sql=sql))
    return True


def _hold(job: LeasedJob, sql: Catalogue) -> Steps[None]:
    fence = sql["hold_job"](id=job.id, worker=job.worker, deliveries=job.deliveries)
    if not (yield from ask(fence)):
        raise LeaseLost(f"job {job.id} is not held by this worker any more: stop working on it")


def _wake(target: str, event: str, now: datetime | None, sql: Catalogue) -> Query:
    return sql["wake_sleeper"](now=moment(now), target=target, event=event)
