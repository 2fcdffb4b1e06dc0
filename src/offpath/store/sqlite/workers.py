"""Workers and claims: who is alive, and who has a name."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from offpath.model.job import LeasedJob
from offpath.model.lease import SILENCE, Extension, WorkerInfo, WorkerRecord
from offpath.runtime.process import stopped
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.presence import Presence
from offpath.store.sqlite.rows import leased_job, worker_records
from offpath.store.sqlite.session import SQL, Session

LISTED: Final = 10_000

_encode = msgspec.json.Encoder().encode
_decode_info = msgspec.json.Decoder(WorkerInfo).decode


def register(
    session: Session,
    now: int,
    worker: WorkerInfo,
    lease_seconds: float,
    presence: bool,
    report: str | None = None,
) -> None:
    """Add a worker, or renew its lease; without ``report`` the last one is kept."""
    session.run(
        SQL["worker_put"](
            id=worker.id,
            info=_encode(worker).decode(),
            now=now,
            expires_at=later(now, lease_seconds),
            presence=int(presence),
            report=report,
        )
    )


def vouch(
    session: Session, now: int, worker: str, lease_seconds: float, report: str | None
) -> bool:
    """Renew the lease of a worker whose event loop is blocked; whether it is known."""
    until = later(now, lease_seconds)
    query = SQL["worker_vouch"](id=worker, now=now, expires_at=until, report=report)
    return bool(session.run(query))


def silent(session: Session, now: int, presence: Presence) -> list[str]:
    """Late workers of other processes that keep their jobs, since they are there and run."""
    late = session.run(SQL["worker_silent"](now=now, leases=SILENCE))
    if not late:
        return []
    held = presence.held_elsewhere(row[0] for row in late)
    return [row[0] for row in late if row[0] in held and not _stopped(row[1])]


def _stopped(info: str) -> bool:
    worker = _decode_info(info)
    return worker.host == socket.gethostname() and stopped(worker.pid)


def gone(session: Session, ids: Sequence[str]) -> set[str]:
    """Those that stopped or were seen to be dead."""
    if not ids:
        return set()
    return {row[0] for row in session.run(SQL["worker_ended"](ids=batch(list(ids))))}


def told(session: Session, now: int, worker: str, held: Sequence[LeasedJob]) -> Extension:
    """What a worker should know of itself and of the jobs it holds."""
    alive = bool(session.run(SQL["worker_alive"](id=worker, now=now)))
    if not held:
        return Extension(alive=alive)
    rows = session.run(SQL["held"](ids=batch([job.id for job in held]), worker=worker))
    own = {(job, deliveries): cancelled for job, deliveries, cancelled in rows}
    return Extension(
        alive=alive,
        cancelled=tuple(job.id for job in held if own.get((job.id, job.deliveries))),
        lost=tuple(job.id for job in held if (job.id, job.deliveries) not in own),
    )


def held(session: Session, worker: str) -> list[LeasedJob]:
    """What a worker holds."""
    return [leased_job(row) for row in session.run(SQL["worker_jobs"](worker=worker))]


def deregister(session: Session, now: int, worker: str) -> None:
    """A worker is gone; what it holds is up for rescue."""
    session.run(SQL["worker_leave"](id=worker, now=now))


def listed(session: Session, now: int) -> list[WorkerRecord]:
    """Every worker, oldest first."""
    return worker_records(session.run(SQL["worker_list"](limit=LISTED)), now)


def present(session: Session, now: int) -> list[str]:
    """The workers with a presence lock whose lease still runs."""
    return [row[0] for row in session.run(SQL["worker_present"](now=now))]


def known(session: Session) -> list[str]:
    """The ids of the workers that are not gone."""
    return [row[0] for row in session.run(SQL["worker_ids"]())]


def expire(session: Session, now: int, workers: Sequence[str]) -> list[str]:
    """End the lease of workers that are dead."""
    rows = session.run(SQL["worker_expire"](ids=batch(list(workers)), now=now))
    return sorted(row[0] for row in rows)


def claim(session: Session, now: int, key: str, holder: str, ttl: float | None) -> bool:
    """Claim a name; who has it keeps it, until the time of the first claim is over."""
    expires_at = None if ttl is None else later(now, ttl)
    session.run(SQL["claim_put"](key=key, holder=holder, expires_at=expires_at, now=now))
    [[owner]] = session.run(SQL["claim_holder"](key=key))
    return bool(owner == holder)


def release_claim(session: Session, key: str, holder: str) -> bool:
    """Give a name back; False when it was not this holder's."""
    return bool(session.run(SQL["claim_release"](key=key, holder=holder)))
