"""Workers: their leases, what they should know of their jobs, and names claimed once in the fleet.

How a database sees that a worker has died is its own: a lock of its session, or a locked file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from offpath.model.job import LeasedJob
from offpath.model.lease import Renewed, WorkerInfo, WorkerRecord
from offpath.store.programs.answers import WorkerRow
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps, one
from offpath.store.programs.instants import instant
from offpath.store.sql import Query
from offpath.store.unreadable import Documents, Shape

_info: Final = Documents(WorkerInfo)


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
    return _renewed(news, alive=any(alive for (alive,) in before))


def signals(d: Dialect, worker: str, held: Sequence[LeasedJob]) -> Steps[Renewed]:
    """Tell a worker what happened to the jobs that it holds."""
    looking = d.sql["alive"](worker=worker, now=d.now)
    alive, *news = yield Send((looking, *_signals(d, worker, held)), last=True)
    return _renewed(news, alive=bool(alive))


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
    if not held:
        return []
    jobs = [_Held(job.id, job.deliveries) for job in held]
    return [d.sql["signals"](worker=worker, held=d.batch(jobs))]


def _renewed(news: Sequence[Rows], *, alive: bool) -> Renewed:
    rows = [row for rows in news for row in rows]
    return Renewed(
        alive=alive,
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
