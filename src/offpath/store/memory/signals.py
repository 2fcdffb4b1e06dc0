"""Signals: kept until a job has taken them, or until their time is over."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from offpath.model.changes import ChangedJob
from offpath.model.job import LeasedJob
from offpath.model.wait import NewSignal
from offpath.store.memory.waits import Address
from offpath.store.rows.instants import later
from offpath.store.rows.jobs import changed, woken

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


def send(tables: Tables, now: datetime, signal: NewSignal) -> bool:
    """Keep a signal and wake who waits longest for it; False when it is known."""
    until = later(now, signal.keep)
    if signal.id in tables.signals.rows:
        return False
    # After the look at its id: a repeat of a known signal is never refused for want of room.
    if tables.signals.full(signal, now):
        raise signal.full()
    tables.signals.keep(signal, until)
    wake_first(tables, now, (signal.target, signal.event))
    return True


def wake_first(tables: Tables, now: datetime, address: Address) -> ChangedJob | None:
    """Wake who waits longest for a signal that is there; None: nobody does."""
    sleeper = tables.waits.first(address)
    if sleeper is None:
        return None
    before = tables.jobs[sleeper]
    after = woken(before, now)
    tables.file(after, now)
    tables.signals.call(sleeper, address)
    return changed(before, after)


def pass_on(tables: Tables, now: datetime, limit: int) -> list[ChangedJob]:
    """Wake the next ones for signals that were left by whom they had woken."""
    answers: list[ChangedJob] = []
    while tables.signals.left and len(answers) < limit:
        address, _ = tables.signals.left.popitem()
        if tables.signals.first(address, now) is not None:
            one = wake_first(tables, now, address)
            answers += [] if one is None else [one]
    return answers


def take(tables: Tables, now: datetime, job: LeasedJob, address: Address, step: str) -> str | None:
    """Take the oldest signal and record its payload as a step's result."""
    tables.fenced(job)
    recorded = tables.steps.results.get(job.id, {})
    # A repeat gets what the step got before. The signal was taken by then, and a second one is not
    # its own.
    if step in recorded:
        return recorded[step]
    signal = tables.signals.first(address, now)
    if signal is None:
        return None
    tables.signals.take(signal)
    # It has what it was woken for, so its end must not wake the next one.
    if tables.signals.called.get(job.id) == address:
        del tables.signals.called[job.id]
    return tables.steps.record(job.id, step, signal.payload, now)
