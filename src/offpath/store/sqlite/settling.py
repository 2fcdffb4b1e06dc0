"""The end of attempts: a batch is a few statements; one that cannot be stored is isolated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

from msgspec.structs import replace

from offpath.model.job import Enqueued, Failure, JobState, NewJob
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.store.sqlite.enqueue import insert_steps, members_created
from offpath.store.sqlite.groups import count
from offpath.store.sqlite.instants import instant, later, micros
from offpath.store.sqlite.isolating import isolating
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.rows import OUTER, failure_text
from offpath.store.sqlite.session import SQL, Session
from offpath.store.sqlite.writing import Writing

FAILURES_KEPT: Final = 50

_CANCELLED: Final = JobState.CANCELLED.value

_ENDING: Final = 7
"""Columns of a settlement that ends its job; the others have one more."""


def settle(session: Session, now: int, settlements: Sequence[Settlement]) -> list[Settled]:
    """Settle a batch; the answers are in its order."""
    return [
        answer
        for run in _runs(session, settlements)
        for answer in isolating(
            session, run, lambda part: _Batch(session, now, part).settle(), _refused
        )
    ]


def _runs(session: Session, settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Parts of a batch in which order cannot matter.

    It matters where unique keys change hands: a key given up by one settlement is free for the
    next, not for the one before. Such settlements stand alone; all others go together. And of
    several settlements of one job, stale ones among them, only the one whose fence holds counts.
    """
    alone = bool(session.run(SQL["keyless_running"]()))
    run: dict[str, Settlement] = {}
    for one in settlements:
        if alone or any(job.unique is not None for job in one.effects.jobs):
            yield list(run.values())
            yield [one]
            run = {}
            continue
        if one.job.id in run:
            yield list(run.values())
            run = {}
        run[one.job.id] = one
    yield list(run.values())


def _lost(settlement: Settlement) -> Settled:
    return Settled(id=settlement.job.id, status=SettleStatus.LEASE_LOST)


def _refused(settlement: Settlement, error: Exception) -> Settled:
    return Settled(id=settlement.job.id, status=SettleStatus.REFUSED, error=error)


class _Batch:
    """One attempt to settle some settlements; raises when one of them cannot be stored."""

    def __init__(self, session: Session, now: int, settlements: list[Settlement]) -> None:
        self._session = session
        self._now = now
        self._settlements = settlements
        self._applied: dict[str, tuple[int, str, str]] = {}
        self._enqueued: dict[str, tuple[Enqueued, ...]] = {}

    def settle(self) -> list[Settled]:
        """Write it all; the groups' counts come last."""
        due = self._write_jobs()
        mine = [one for one in self._settlements if one.job.id in self._applied]
        self._write_failures(mine)
        added = self._enqueue(mine)
        ended = [
            (one.job.id, group)
            for one in mine
            for _, state, group in (self._applied[one.job.id],)
            if OUTER[state].terminal
        ]
        done = count(self._session, ended, added, self._applied)
        return [self._answer(one, due, done) for one in self._settlements]

    def _write_jobs(self) -> dict[str, int]:
        """Move the jobs on; returns when those that wait again are due."""
        ending: list[tuple[Any, ...]] = []
        waiting: list[tuple[Any, ...]] = []
        for one in self._settlements:
            row = _columns(one, self._now)
            (ending if len(row) == _ENDING else waiting).append(row)
        for name, rows in (("settle_ended", ending), ("settle_waiting", waiting)):
            if rows:
                found = self._session.run(SQL[name](batch=batch(rows), now=self._now))
                self._applied.update({row[0]: (row[1], row[2], row[3]) for row in found})
                if any(row[4] for row in found):
                    self._session.stirred = True
        return {row[0]: row[4] for row in waiting}

    def _write_failures(self, mine: list[Settlement]) -> None:
        failures = [
            (self._applied[one.job.id][0], one.outcome.failure)
            for one in mine
            if isinstance(one.outcome, Retry | Dead | Cancelled) and one.outcome.failure is not None
        ]
        record_failures(self._session, self._now, failures)

    def _enqueue(self, mine: list[Settlement]) -> Counter[str]:
        """The effects of all, in one go; returns how many jobs each group has more."""
        carriers = [one for one in mine if one.effects and self._carries(one)]
        jobs = [job for one in carriers for job in _children(one)]
        answers = self._session.drive(insert_steps(jobs, self._now))
        left = iter(answers)
        for one in carriers:
            self._enqueued[one.job.id] = tuple(next(left) for _ in one.effects.jobs)
        self._write(carriers)
        if any(job.announce for job in jobs):
            self._session.stirred = True
        return members_created(jobs, answers)

    def _write(self, carriers: list[Settlement]) -> None:
        """The messages and events of all."""
        messages = [new for one in carriers for new in one.effects.messages]
        log = [new for one in carriers for new in one.effects.log]
        if not messages and not log:
            return
        self._session.stirred = True
        left = iter(self._session.drive(Writing(messages, log, self._now).steps()))
        for one in carriers:
            self._enqueued[one.job.id] += tuple(next(left) for _ in one.effects.messages)

    def _carries(self, settlement: Settlement) -> bool:
        """Whether the effects are to be carried out: not those of a failed or cancelled attempt."""
        return (
            isinstance(settlement.outcome, Succeeded | Snoozed)
            and self._applied[settlement.job.id][1] != _CANCELLED
        )

    def _answer(self, settlement: Settlement, due: dict[str, int], done: set[str]) -> Settled:
        job_id = settlement.job.id
        applied = self._applied.get(job_id)
        if applied is None:
            return _lost(settlement)
        state = OUTER[applied[1]]
        return Settled(
            id=job_id,
            status=SettleStatus.APPLIED,
            state=state,
            run_at=None if state.terminal else instant(due[job_id]),
            enqueued=self._enqueued.get(job_id, ()),
            group_done=job_id in done,
        )


def _children(settlement: Settlement) -> Iterable[NewJob]:
    group = settlement.job.group_id
    for job in settlement.effects.jobs:
        yield job if job.group_id is not None else replace(job, group_id=group)


def _columns(settlement: Settlement, now: int) -> tuple[Any, ...]:
    """Id, worker, deliveries, state, result or run time, reason, expiry, and the attempt's step."""
    job = settlement.job
    expires = None if settlement.keep is None else later(now, settlement.keep)
    head = (job.id, job.worker, job.deliveries)
    match settlement.outcome:
        case Succeeded(result=result):
            return (*head, "succeeded", result, None, expires)
        case Dead(reason=why):
            return (*head, "dead", None, why.value, expires)
        case Cancelled():
            return (*head, _CANCELLED, None, _CANCELLED, expires)
        case Retry(delay=delay):
            return (*head, *_due(now, later(now, delay)), None, expires, 1)
        case Snoozed(delay=delay, until=until, reason=reason):
            due = later(now, delay) if until is None else micros(until)
            return (*head, *_due(now, due), reason, expires, 0)
        case Released():
            return (*head, *_due(now, micros(job.run_at)), None, expires, 0)
        case other:
            assert_never(other)


def _due(now: int, run_at: int) -> tuple[str, int]:
    return "ready" if run_at <= now else "scheduled", run_at


def record_failures(session: Session, now: int, failures: Sequence[tuple[int, Failure]]) -> None:
    """Add failures to the histories of jobs, named by ``seq``; the oldest give way."""
    if not failures:
        return
    rows = []
    for job, failure in failures:
        # The type is only for filters; the document keeps it exactly.
        kind = failure.type.replace("\0", "\N{REPLACEMENT CHARACTER}")
        rows.append((job, kind, failure_text(failure, now)))
    session.run(SQL["failure_add"](failures=batch(rows)))
    jobs = batch([row[0] for row in rows])
    session.run(SQL["failure_trim"](jobs=jobs, keep=FAILURES_KEPT))
