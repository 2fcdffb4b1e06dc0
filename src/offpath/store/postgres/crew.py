"""Workers: their rows, their leases, and names claimed once."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final

from offpath.model.job import LeasedJob
from offpath.model.lease import Extension, WorkerInfo, WorkerRecord
from offpath.runtime.process import stopped
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Rows, Send, Steps, ask
from offpath.store.sql import Catalogue, Query
from offpath.store.unreadable import Documents

RESTART_GRACE: Final = 15.0
"""Seconds after the server's start in which a missing lock says nothing: workers reconnect."""

_worker = Documents(WorkerRecord)


def presence_key(schema: str, worker: str) -> int:
    """The number of a worker's advisory lock: 64 bits, so that two never share one."""
    digest = blake2b(f"{schema}/{worker}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def register_steps(
    worker: WorkerInfo,
    lease_seconds: float,
    presence: int | None,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Steps[None]:
    """Add or renew a worker."""
    yield from ask(_register(worker, lease_seconds, presence, now, sql), last=True)


def extend_steps(
    worker: WorkerInfo,
    lease_seconds: float,
    presence: int | None,
    held: Sequence[LeasedJob],
    now: datetime | None,
    *,
    report: str | None = None,
    sql: Catalogue,
) -> Steps[Extension]:
    """Renew a worker, and tell what happened to the jobs it holds."""
    rows, news = yield Send(
        (
            _register(worker, lease_seconds, presence, now, sql, report),
            _signals(worker.id, held, sql),
        ),
        last=True,
    )
    return _extension(news, alive=bool(rows[0][0]))


def signals_steps(
    worker: str, held: Sequence[LeasedJob], now: datetime | None, *, sql: Catalogue
) -> Steps[Extension]:
    """Tell what happened to the jobs a worker holds."""
    alive, news = yield Send(
        (sql["alive"](worker=worker, now=moment(now)), _signals(worker, held, sql)), last=True
    )
    return _extension(news, alive=bool(alive))


def workers_steps(now: datetime | None, *, sql: Catalogue) -> Steps[list[WorkerRecord]]:
    """Every worker."""
    rows = yield from ask(sql["workers"](now=moment(now)), last=True)
    return _worker.all(rows)


def notice_deaths_steps(now: datetime | None, *, sql: Catalogue) -> Steps[list[str]]:
    """Expire workers that were seen missing twice.

    A late worker of this machine whose process is stopped keeps nothing by its presence any more.
    """
    deaths = sql["notice_deaths"](now=moment(now), grace=RESTART_GRACE)
    dead, silent = yield Send((deaths, sql["silent"](now=moment(now), host=socket.gethostname())))
    if still := [worker for worker, pid in silent if stopped(pid)]:
        yield from ask(sql["forget_stopped"](ids=to_json(still)), last=True)
    return [row[0] for row in dead]


def claim_steps(
    key: str, holder: str, ttl: float | None, now: datetime | None, *, sql: Catalogue
) -> Steps[bool]:
    """Claim a name."""
    query = sql["claim"](now=moment(now), key=key, holder=holder, ttl=ttl)
    return bool((yield from ask(query, last=True)))


def release_claim_steps(key: str, holder: str, *, sql: Catalogue) -> Steps[bool]:
    """Give a name back."""
    return bool((yield from ask(sql["release_claim"](key=key, holder=holder), last=True)))


def _register(
    worker: WorkerInfo,
    lease_seconds: float,
    presence: int | None,
    now: datetime | None,
    sql: Catalogue,
    report: str | None = None,
) -> Query:
    return sql["register"](
        now=moment(now),
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        version=worker.version,
        concurrency=worker.concurrency,
        tasks=to_json(worker.tasks),
        queues=to_json(worker.queues),
        lease_seconds=lease_seconds,
        presence=presence,
        report=report,
    )


def _signals(worker: str, held: Sequence[LeasedJob], sql: Catalogue) -> Query:
    jobs = [{"id": job.id, "deliveries": job.deliveries} for job in held]
    return sql["signals"](worker=worker, held=to_json(jobs))


def _extension(news: Rows, *, alive: bool) -> Extension:
    return Extension(
        alive=alive,
        cancelled=tuple(job for job, asked in news if asked == 1),
        lost=tuple(job for job, asked in news if asked == -1),
    )
