"""The part of the store that holds flow control: limits by key, pauses, running at once.

The rules of the store's protocol hold here too. A job with a limit is never inserted ready: it is
blocked with reason ``limit``, and :meth:`FlowStore.admit` makes it ready when its key has room. So
a lease stays one plain statement, and a key at its limit hides nothing behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from offpath.model.job import LeasedJob, NewJob
from offpath.model.limit import Admitted, LimitRecord, QueueRecord
from offpath.store.absence import none_of, refused
from offpath.store.capabilities import Profile

MOST_IN_QUEUE: Final = 100_000
"""Jobs of each kind that are counted in a queue."""


class FlowStore(Protocol):
    """Limits, pauses and inline starts."""

    async def admit(self, *, limit: int, keys: Sequence[str] = ()) -> Admitted:
        """Make held jobs ready, up to the room of their keys: at most ``limit`` jobs.

        Within a key: priority (higher first), then ``run_at``, then id. An admitted job keeps its
        place: one of higher priority that comes later waits for the next room. The room is the
        smallest of ``max_running`` minus admitted and of what the rate allows now; 0 while the key
        is paused or closed. Jobs of a paused queue are passed over. ``keys`` bounds the pass to
        these; without it every key with held jobs gets its turn, however many there are.

        Also repairs: ready jobs of a limited key that nobody took for 5 s while others of the key
        are held are sent behind them, and a count that is too high (an error of ours) is set
        right. One probe when nothing is held.
        """
        ...

    async def limits(
        self, *, limit: int = 1000, after: str | None = None, keys: Sequence[str] = ()
    ) -> list[LimitRecord]:
        """Known keys by name, after ``after``; or these keys."""
        ...

    async def count_held(self, *, limit: int) -> int:
        """The number of jobs that wait for room under a limit, over all keys: counted up to
        ``limit``.
        """
        ...

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """Admit nothing of a key until a time, or ``seconds`` from the store's now, or (neither)
        until :meth:`open_limit`. An earlier end never shortens a later one.

        Jobs of the key that are ready are held again; running ones go on. Returns how many were
        sent back. A key that is not known yet is made.
        """
        ...

    async def open_limit(self, key: str) -> bool:
        """End a pause and a cool-down of a key. False: there was none."""
        ...

    async def pause_queue(self, name: str, *, until: datetime | None = None) -> None:
        """Hand out nothing of a queue (until a time): true for every lease after this returned."""
        ...

    async def resume_queue(self, name: str) -> bool:
        """Hand out its jobs again. False: it was not paused."""
        ...

    async def queues(self, *, most: int = MOST_IN_QUEUE) -> list[QueueRecord]:
        """Queues with unended jobs or a pause, by name.

        Ready and scheduled jobs are counted up to ``most`` in each queue; other counts may stop
        there, and of all that are blocked the first twenty times as many may be looked at.
        """
        ...

    async def keep_templates(self, templates: Sequence[NewJob]) -> None:
        """Keep what jobs of these tasks are like that are put in by SQL and say nothing of it: of
        each task one job without an input. Later ones replace earlier ones. A store without such a
        door keeps nothing.
        """
        ...

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """Enqueue a job and hand it to this worker, in one commit. None when it was not created
        (a repeat, an attach), or waits while another job has its unique key. A gate or a limit is
        refused (``InvalidArgument``); when it is due is left aside. Raises as ``commit``, and
        ``LeaseLost`` when the worker is not registered or its lease has expired: nothing is written
        then.
        """
        ...


class WithoutFlow:
    """A store without limits and pauses."""

    admit = none_of(FlowStore.admit, lambda: Admitted(jobs=0))
    limits = none_of(FlowStore.limits, list)
    count_held = none_of(FlowStore.count_held, lambda: 0)
    close_limit = refused(Profile.LIMITS, FlowStore.close_limit)
    open_limit = refused(Profile.LIMITS, FlowStore.open_limit)
    pause_queue = refused(Profile.PAUSES, FlowStore.pause_queue)
    resume_queue = refused(Profile.PAUSES, FlowStore.resume_queue)
