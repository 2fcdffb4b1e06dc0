"""Workers that are dead: their locks are gone, or their processes stand still."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Final

from offpath.model.glance import APART
from offpath.model.lease import SILENCE
from offpath.runtime.process import stopped
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Dialect, Send, Steps, ask
from offpath.store.sql import Catalogue

RESTART_GRACE: Final = 15.0
"""Seconds after the server's start, and after a cut of our own connection, in which a missing lock
says nothing: workers reconnect."""


def presence_key(schema: str, worker: str) -> int:
    """The number of a worker's advisory lock: 64 bits, so that two never share one."""
    digest = blake2b(f"{schema}/{worker}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def notice_deaths_steps(now: datetime | None, *, sql: Catalogue) -> Steps[list[str]]:
    """Expire workers that were seen missing twice, and the leases of all that they hold.

    A late worker of this machine whose process is stopped keeps nothing by its presence any more.
    """
    deaths = sql["notice_deaths"](now=moment(now), apart=APART, grace=RESTART_GRACE)
    dead, silent = yield Send((deaths, sql["silent"](now=moment(now), host=socket.gethostname())))
    gone = [worker for (worker,) in dead]
    if gone:  # what they hold is taken where it is free: behind rows of workers nothing may wait
        yield from ask(sql["free_held"](now=moment(now), ids=to_json(gone)))
    if still := [worker for worker, pid in silent if stopped(pid)]:
        yield from ask(sql["forget_stopped"](ids=to_json(still)), last=True)
    return gone


def spared_steps(d: Dialect, own: Iterable[int]) -> Steps[frozenset[str]]:
    """Workers that keep their jobs although they may be late, since their processes are there.

    ``own`` are the presence locks of this process, which prove nothing about it. A worker whose
    lease ends only now is among them: a later statement sees it as late.
    """
    rows = yield from ask(
        d.sql["spared_workers"](leases=SILENCE, own=d.batch([str(key) for key in own]), now=d.now)
    )
    return frozenset(worker for (worker,) in rows)
