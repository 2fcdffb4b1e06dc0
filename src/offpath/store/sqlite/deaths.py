"""Workers that are dead: the locks of their files are free, or their processes stand still."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import msgspec

from offpath.model.glance import AHEAD, Concern
from offpath.model.lease import SILENCE, Rescued, WorkerInfo
from offpath.runtime.process import stopped
from offpath.store.programs.dialect import Dialect, Steps, ask
from offpath.store.sqlite.limits import Admitting
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.presence import Presence
from offpath.store.sqlite.session import SQL, Session

_decode_info = msgspec.json.Decoder(WorkerInfo).decode


def spared_steps(d: Dialect, presence: Presence) -> Steps[frozenset[str]]:
    """Late workers of other processes that keep their jobs, since they are there and run."""
    late = yield from ask(d.sql["silent_workers"](leases=SILENCE, now=d.now))
    if not late:
        return frozenset()
    held = presence.held_elsewhere(worker for worker, _ in late)
    return frozenset(worker for worker, info in late if worker in held and not _stopped(info))


def nothing_to_rescue(d: Dialect, presence: Presence) -> Steps[list[Rescued] | None]:
    """The answer when there is neither an orphan nor a worker to forget; otherwise None."""
    kept = yield from spared_steps(d, presence)
    orphans = d.sql["orphans"](limit=1, kept=d.batch(sorted(kept)), now=d.now)
    if (yield from ask(orphans)) or (yield from ask(d.sql["late_workers"](now=d.now))):
        return None
    return []


def _stopped(info: str) -> bool:
    worker = _decode_info(info)
    # On another machine the same number may be any process.
    return worker.host == socket.gethostname() and stopped(worker.pid)


def glance(
    session: Session, now: int, admitting: Admitting, *, work: bool
) -> tuple[frozenset[Concern], list[str]]:
    """The passes that may find something, as far as the file says; and the workers whose locks say
    more of their deaths.
    """
    soon = now + round(AHEAD * 1_000_000)
    [[gone, over, jobs, schedules]] = session.run(SQL["glance"](now=now, soon=soon, work=work))
    limits = admitting.nothing(session, now) is None
    found = zip(Concern, (gone, over, limits, jobs, schedules), strict=True)
    return frozenset(concern for concern, may in found if may), present(session, now)


def present(session: Session, now: int) -> list[str]:
    """The workers with a presence lock whose lease still runs."""
    return [worker for (worker,) in session.run(SQL["present_workers"](now=now))]


def known(session: Session) -> list[str]:
    """The ids of the workers that are not gone."""
    return [worker for (worker,) in session.run(SQL["live_workers"]())]


def expire(session: Session, now: int, workers: Sequence[str]) -> list[str]:
    """End the lease of workers that are dead, and of what they hold beside jobs."""
    rows = session.run(SQL["expire_workers"](ids=batch(list(workers)), now=now))
    dead = sorted(worker for (worker,) in rows)
    if dead:
        for name in ("free_cursors", "free_claims", "free_messages"):
            session.run(SQL[name](ids=batch(dead), now=now))
        # What they held of messages and routers is free now, and others need not wait for a poll.
        session.stirred = True
    return dead
