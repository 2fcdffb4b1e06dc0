"""Workers: who is alive, what they should know of their jobs, and names claimed in the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from offpath.model.checks import MOST_LISTED
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
from offpath.store.memory.tables import ClaimRow, Tables
from offpath.store.rows.instants import later, maybe_later
from offpath.store.rows.jobs import leased
from offpath.store.rows.workers import left, registered, seen

_MOST_HELD = 1_000
_REMEMBERED = timedelta(hours=1)


def register(
    tables: Tables,
    now: datetime,
    worker: WorkerInfo,
    lease_seconds: float,
    report: str | None = None,
) -> None:
    """Add a worker, or renew its lease."""
    known = tables.workers.get(worker.id)
    tables.workers[worker.id] = registered(known, worker, now, lease_seconds, report)


def extend(
    tables: Tables,
    now: datetime,
    worker: WorkerInfo,
    *,
    lease_seconds: float,
    held: Sequence[LeasedJob],
    report: str | None = None,
) -> Renewed:
    """Renew a worker's lease, and tell it about its jobs."""
    # Looked at before the renewal, behind which it would always seem alive.
    told = signals(tables, now, worker.id, held)
    register(tables, now, worker, lease_seconds, report)
    return told


def vouch(
    tables: Tables, now: datetime, worker: str, *, lease_seconds: float, report: str | None
) -> bool:
    """Renew a known worker's lease. Called in any thread: one look, one replacement."""
    known = tables.workers.get(worker)
    if known is None or known.gone_at is not None:
        return False
    tables.workers[worker] = replace(
        known,
        seen_at=now,
        expires_at=later(now, lease_seconds),
        report=known.report if report is None else report,
    )
    return True


def signals(tables: Tables, now: datetime, worker: str, held: Sequence[LeasedJob]) -> Renewed:
    """Tell a worker about its jobs."""
    known = tables.workers.get(worker)
    records = [(job.id, tables.held_by(job)) for job in held]
    return Renewed(
        alive=known is not None and now < known.expires_at,
        asked=tuple(tables.asks.get(worker, {}).values()),
        cancelled=tuple(each for each, job in records if job and job.cancel_requested),
        lost=tuple(each for each, job in records if job is None),
    )


def ask(tables: Tables, worker: str, given: WorkerAsk) -> bool:
    """Ask something of a live worker."""
    known = tables.workers.get(worker)
    if known is None or known.gone_at is not None:
        return False
    waiting = tables.asks.setdefault(worker, {})
    last = tables.answers.get(worker)
    # It was answered already: asked again, it must not be carried out twice.
    if last is not None and last.id == given.id:
        return True
    if given.id not in waiting and len(waiting) >= MOST_ASKED:
        return False
    waiting.setdefault(given.id, given)
    return True


def answer(tables: Tables, now: datetime, worker: str, given: WorkerAnswer) -> bool:
    """Note that a worker has carried a request out."""
    if tables.asks.get(worker, {}).pop(given.id, None) is None:
        return False
    tables.answers[worker] = replace(given, text=given.text[:LONGEST_ANSWER], at=now)
    return True


def desk(tables: Tables, worker: str) -> WorkerDesk | None:
    """The requests and the last answer of a worker."""
    if worker not in tables.workers:
        return None
    waiting = tables.asks.get(worker, {})
    return WorkerDesk(asked=tuple(waiting.values()), answer=tables.answers.get(worker))


def held(tables: Tables, worker: str) -> list[LeasedJob]:
    """The jobs that a worker holds, oldest first."""
    ids = islice(tables.held.get(worker, ()), _MOST_HELD)
    return [leased(tables.jobs[each]) for each in ids]


def deregister(tables: Tables, now: datetime, worker: str) -> None:
    """A worker is gone; what it holds is up for rescue."""
    known = tables.workers.get(worker)
    if known is not None:
        tables.workers[worker] = left(known, now)


def prune(tables: Tables, now: datetime, limit: int) -> None:
    """Forget workers that are gone for an hour."""
    gone = (
        each.info.id
        for each in tables.workers.values()
        if each.gone_at is not None and each.gone_at + _REMEMBERED <= now
    )
    for worker in list(islice(gone, limit)):
        del tables.workers[worker]
        tables.asks.pop(worker, None)
        tables.answers.pop(worker, None)


def workers(tables: Tables, now: datetime) -> list[WorkerRecord]:
    """Every worker, oldest first."""
    records = sorted(tables.workers.values(), key=lambda each: (each.started_at, each.info.id))
    return [
        seen(each, now, len(tables.held.get(each.info.id, ()))) for each in records[:MOST_LISTED]
    ]


# -- claims ----------------------------------------------------------------------------------------


def claim(
    tables: Tables, now: datetime, key: str, holder: str, ttl: float | None, *, renew: bool = False
) -> bool:
    """Claim a name; who has it keeps it, until the time of the first claim, or of one that renews,
    is over.
    """
    free_at = maybe_later(now, ttl)
    known = tables.claims.get(key)
    held = known is not None and (known.free_at is None or now < known.free_at)
    if known is not None and held and (known.holder != holder or not renew):
        return known.holder == holder
    tables.claims[key] = ClaimRow(holder, free_at)
    # The end of the claim before must not end this one.
    tables.expiring_claims.remove(key)
    if free_at is not None:
        tables.expiring_claims.push(key, free_at)
    return True


def release_claim(tables: Tables, key: str, holder: str) -> bool:
    """Give a name back; False when it was not this holder's."""
    known = tables.claims.get(key)
    if known is None or known.holder != holder:
        return False
    del tables.claims[key]
    tables.expiring_claims.remove(key)
    return True


def prune_claims(tables: Tables, now: datetime, limit: int) -> None:
    """Forget claims whose time is over."""
    for _ in range(limit):
        first = tables.expiring_claims.first()
        if first is None or now < first[0]:
            return
        tables.expiring_claims.remove(first[1])
        del tables.claims[first[1]]
