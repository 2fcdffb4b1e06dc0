"""Signals: who sends one and who waits for it take turns, so that none is missed."""

from __future__ import annotations

import msgspec

from offpath.model.job import JobState, LeasedJob
from offpath.model.wait import NewSignal
from offpath.store.programs.answers import WokenRow
from offpath.store.programs.dialect import Dialect, Send, Steps, ask
from offpath.store.programs.steps import hold
from offpath.store.refusals import no_uuid
from offpath.store.sql import Query


class _SignalAddress(msgspec.Struct):
    """A signal that somebody may wait for, as ``lock_signals`` takes it."""

    target: str
    event: str


def send(d: Dialect, signal: NewSignal) -> Steps[bool]:
    """Keep a signal and wake who waits longest for it; False: it is known.

    A waiter that somebody else holds is not waited for: then the signal is marked as missed.
    """
    if d.id(signal.id) is None:
        raise no_uuid("signal", signal.id)
    d.batch([signal.target, signal.event, signal.payload])  # raises for what would not come back
    # Senders to one target take turns, whatever the event, or several would find the last place.
    # No event is named "", so nobody who waits takes this lock. Every sender takes it first.
    turn = _lock(d, signal.target, "")
    room = d.sql["signal_room"](target=signal.target, now=d.now, most=signal.most or 0)
    keep = _lock(d, signal.target, signal.event), _add(d, signal)
    _, unread, _, added = yield Send((turn, room, *keep))
    # Before the room is judged: a signal that was sent before is never refused.
    if not added:
        return False
    if signal.most is not None and unread[0][0] >= signal.most:
        raise signal.full()
    yield from _wake(d, signal)
    return True


def _wake(d: Dialect, signal: NewSignal) -> Steps[None]:
    wake = d.sql["wake_sleeper"](target=signal.target, event=signal.event, now=d.now)
    answers = yield Send((*d.told_the_time(), wake))
    woken = [WokenRow(*row) for row in answers[-1]]
    if woken:
        d.announced.moved.add(JobState.QUEUED)
        d.announced.hear(row.announce for row in woken)
    else:
        yield from ask(d.sql["note_missed"](id=signal.id), last=True)


def take(d: Dialect, job: LeasedJob, *, target: str, event: str, step: str) -> Steps[str | None]:
    """Take the oldest signal as the result of a step; what is recorded already, if anything is."""
    # the lock of the signal comes before the job's row: whoever sends one takes them in this order
    yield from ask(_lock(d, target, event))
    yield from hold(d, job)
    rows = yield from ask(d.sql["step"](id=job.id, name=step))
    if rows:
        recorded: str | None = rows[0][0]
        return recorded
    taken = yield from ask(d.sql["take_signal"](target=target, event=event, now=d.now))
    if not taken:
        return None
    payload: str = taken[0][0]
    put_step = d.sql["put_step"](id=job.id, name=step, result=payload, now=d.now)
    met = d.sql["met_signal"](id=job.id, target=target, event=event)
    yield Send((put_step, met), last=True)
    return payload


def _lock(d: Dialect, target: str, event: str) -> Query:
    return d.sql["lock_signals"](batch=d.batch([_SignalAddress(target, event)]))


def _add(d: Dialect, signal: NewSignal) -> Query:
    return d.sql["add_signal"](
        id=signal.id,
        target=signal.target,
        event=signal.event,
        payload=signal.payload,
        span=d.span(signal.keep),
        now=d.now,
    )
