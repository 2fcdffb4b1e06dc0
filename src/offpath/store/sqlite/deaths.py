"""Workers that are dead: the locks of their files are free, or their processes stand still."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import msgspec

from offpath.model.lease import SILENCE, WorkerInfo
from offpath.runtime.process import stopped
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.presence import Presence
from offpath.store.sqlite.session import SQL, Session

_decode_info = msgspec.json.Decoder(WorkerInfo).decode


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
    """The workers that stopped or were seen to be dead."""
    if not ids:
        return set()
    return {row[0] for row in session.run(SQL["worker_ended"](ids=batch(list(ids))))}


def present(session: Session, now: int) -> list[str]:
    """The workers with a presence lock whose lease still runs."""
    return [row[0] for row in session.run(SQL["worker_present"](now=now))]


def known(session: Session) -> list[str]:
    """The ids of the workers that are not gone."""
    return [row[0] for row in session.run(SQL["worker_ids"]())]


def expire(session: Session, now: int, workers: Sequence[str]) -> list[str]:
    """End the lease of workers that are dead, and of what they hold beside jobs."""
    rows = session.run(SQL["worker_expire"](ids=batch(list(workers)), now=now))
    if rows:
        dead = batch([row[0] for row in rows])
        for name in ("free_cursors", "free_claims", "free_messages"):
            session.run(SQL[name](ids=dead, now=now))
        session.stirred = True
    return sorted(row[0] for row in rows)
