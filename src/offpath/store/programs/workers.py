"""Workers: their leases, what they should know of their jobs, and names claimed once in the fleet.

How a database sees that a worker has died is its own: a lock of its session, or a locked file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.job import LeasedJob
from offpath.model.lease import (
    LONGEST_ANSWER,
    MOST_ASKED,
    Renewed,
    WorkerAnswer,
    WorkerAsk,
    WorkerDesk,
    WorkerInfo,
    WorkerRecord,
)
from offpath.store.hints import Hint
from offpath.store.programs.answers import WorkerRow
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps, one
from offpath.store.programs.instants import instant, readable
from offpath.store.sql import Query
from offpath.store.unreadable import UNREADABLE, Documents, Shape

_info: Final = Documents(WorkerInfo)
_decode_asks: Final = msgspec.json.Decoder(tuple[WorkerAsk, ...]).decode
_decode_answer: Final = msgspec.json.Decoder(WorkerAnswer).decode


class _Held(msgspec.Struct):
    """A job that a worker believes to hold, as ``signals`` takes it."""

    id: str
    deliveries: int


def register(
    d: Dialect, worker: WorkerInfo, lease_seconds: float, presence: int | None
) -> Steps[None]:
    """Add a worker, or renew its lease. ``presence`` is the number of its lock, if it has one."""
    yield from one(_register(d, worker, lease_seconds, presence))


def extend(
    d: Dialect,
    worker: WorkerInfo,
    lease_seconds: float,
    presence: int | None,
    held: Sequence[LeasedJob],
    *,
    report: str | None = None,
) -> Steps[Renewed]:
    """Renew a worker, and tell it what happened to the jobs that it holds."""
    # whether it is alive is looked at before its lease is renewed, and under its lock: else another
    # process could end the lease in between, and the worker would not hear of it
    renewing = (
        d.sql["hold_worker"](worker=worker.id, now=d.now),
        _register(d, worker, lease_seconds, presence, report),
    )
    before, _, *news = yield Send((*renewing, *_signals(d, worker.id, held)), last=True)
    return _renewed(news, before)


def signals(d: Dialect, worker: str, held: Sequence[LeasedJob]) -> Steps[Renewed]:
    """Tell a worker what happened to the jobs that it holds."""
    looking = d.sql["alive"](worker=worker, now=d.now)
    alive, *news = yield Send((looking, *_signals(d, worker, held)), last=True)
    return _renewed(news, alive)


def vouch(d: Dialect, worker: str, lease_seconds: float, report: str | None) -> Query:
    """The statement that renews the lease of a worker whose event loop is blocked."""
    return d.sql["vouch"](worker=worker, span=d.span(lease_seconds), report=report, now=d.now)


def deregister(d: Dialect, worker: str) -> Steps[None]:
    """Note that a worker has stopped: what it holds is up for rescue."""
    yield from one(d.sql["deregister"](worker=worker, now=d.now))


def listed(d: Dialect) -> Steps[list[WorkerRecord]]:
    """Every worker, oldest first."""
    return _RECORDS.all((yield from one(d.sql["workers"](now=d.now))))


def _register(
    d: Dialect,
    worker: WorkerInfo,
    lease_seconds: float,
    presence: int | None,
    report: str | None = None,
) -> Query:
    return d.sql["register"](
        worker=worker.id,
        info=d.json(worker),
        span=d.span(lease_seconds),
        presence=presence,
        report=report,
        now=d.now,
    )


def _signals(d: Dialect, worker: str, held: Sequence[LeasedJob]) -> list[Query]:
    # An idle worker has nothing to ask about.
    if not held:
        return []
    jobs = [_Held(job.id, job.deliveries) for job in held]
    return [d.sql["signals"](worker=worker, held=d.batch(jobs))]


def ask_worker(d: Dialect, worker: str, ask: WorkerAsk) -> Steps[bool]:
    """Ask something of a live worker; who listens hears a hint."""
    query = d.sql["ask_worker"](worker=worker, id=ask.id, ask=d.json(ask), most=MOST_ASKED)
    asked = bool((yield from one(query)))
    if asked:
        d.announced.tell(Hint.CANCEL)
    return asked


def answer_worker(d: Dialect, worker: str, answer: WorkerAnswer) -> Steps[bool]:
    """Note that a worker has carried a request out."""
    # Bounded, since it is kept with the worker. The store dates it by its own clock.
    text = d.json(replace(answer, text=answer.text[:LONGEST_ANSWER], at=None))
    query = d.sql["answer_worker"](worker=worker, id=answer.id, answer=text, now=d.now)
    return bool((yield from one(query)))


def desk(d: Dialect, worker: str) -> Steps[WorkerDesk | None]:
    """The requests and the last answer of a worker."""
    for asked, answer, at in (yield from one(d.sql["worker_desk"](worker=worker))):
        known = _answers(answer)
        told = None if known is None else replace(known, at=readable(at))
        return WorkerDesk(asked=_asks(asked), answer=told)
    return None


def _asks(text: str | None) -> tuple[WorkerAsk, ...]:
    """The requests of a row. What somebody else wrote there must not end a heartbeat."""
    try:
        return () if text is None else _decode_asks(text)
    except UNREADABLE:
        return ()


def _answers(text: str | None) -> WorkerAnswer | None:
    try:
        return None if text is None else _decode_answer(text)
    except UNREADABLE:
        return None


def _renewed(news: Sequence[Rows], known: Rows) -> Renewed:
    rows = [row for rows in news for row in rows]
    return Renewed(
        alive=any(alive for alive, _ in known),
        asked=next((_asks(asked) for _, asked in known), ()),
        cancelled=tuple(job for job, asked in rows if asked == 1),
        lost=tuple(job for job, asked in rows if asked == -1),
    )


def _record(row: WorkerRow) -> WorkerRecord:
    return WorkerRecord(
        info=_info.one(row.info),
        started_at=instant(row.started_at),
        seen_at=instant(row.seen_at),
        expires_at=instant(row.expires_at),
        late=bool(row.late),
        presence=bool(row.presence),
        running=row.running,
        report=row.report,
        gone_at=instant(row.gone_at),
    )


_NOBODY: Final = '{"id":"","host":"","pid":0,"version":"","concurrency":0,"tasks":[],"queues":[]}'
"""Stands for a worker of which nothing can be read."""

_RECORDS: Final = Shape.of(
    WorkerRow(_NOBODY, 0, 0, 0, 0, 0, 0, None, None), _record, lambda worker, _: worker
)


# -- claims ----------------------------------------------------------------------------------------


def claim(
    d: Dialect, key: str, holder: str, *, ttl: float | None = None, renew: bool = False
) -> Steps[bool]:
    """Claim a name; who has it keeps it, until the time of the first claim, or of one that renews,
    is over.
    """
    query = d.sql["claim"](key=key, holder=holder, span=d.span(ttl), renew=renew, now=d.now)
    return bool((yield from one(query)))


def release_claim(d: Dialect, key: str, holder: str) -> Steps[bool]:
    """Give a name back; False: it was not this holder's."""
    return bool((yield from one(d.sql["release_claim"](key=key, holder=holder))))
