"""The line for due jobs that nobody runs: of a task that no live worker knows, or in a queue that
none serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from offpath.runtime import log

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from offpath.model.lease import WorkerInfo, WorkerRecord
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Backlog

TOLD_EVERY: Final = 3600.0
"""Seconds in which one name is told once."""
MOST_TOLD: Final = 20
"""Names in one look: whoever may enqueue makes them, so they must not fill the log."""

_log = log.logger("jobs")


class PresenceStore(Protocol):
    """The store, as far as it says who is there."""

    async def workers(self) -> list[WorkerRecord]:
        """Every worker."""
        ...


class Unclaimed:
    """Looks through what is due, for one worker.

    A worker that starts may not be in the list yet, so only a name that is met in two looks in a
    row is told.
    """

    def __init__(
        self, store: PresenceStore, clock: Clock, *, tasks: Collection[str], queues: Collection[str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._queues = queues
        self._seen: frozenset[Name] = frozenset()
        self._told: dict[Name, float] = {}

    async def look(self, due: Sequence[Backlog]) -> None:
        """Tell what nobody runs of the jobs that are due. Others are asked for only where it is
        not this worker that will.
        """
        found: dict[Name, Backlog] = {}
        # Mostly there are none, and the list of workers is not asked for.
        if others := [one for one in due if not self._is_ours(one)]:
            live = [one.info for one in await self._store.workers() if one.gone_at is None]
            found = {name: one for one in others if (name := unknown(one, live))}
        again, self._seen = found.keys() & self._seen, frozenset(found)
        self._tell([(name, found[name]) for name in sorted(again) if self._is_due(name)])

    def _is_ours(self, one: Backlog) -> bool:
        return one.task in self._tasks and (not self._queues or one.queue in self._queues)

    def _is_due(self, name: Name) -> bool:
        last = self._told.get(name)
        return last is None or self._clock.monotonic() - last >= TOLD_EVERY

    def _tell(self, found: Sequence[tuple[Name, Backlog]]) -> None:
        now = self._clock.monotonic()
        # Forgotten when it is due again: names are made by whoever enqueues, so they must not pile
        # up.
        self._told = {name: at for name, at in self._told.items() if now - at < TOLD_EVERY}
        for (kind, name), one in found[:MOST_TOLD]:
            self._told[kind, name] = now
            line = "unknown %s: %s; %s"
            fields = {"task": one.task, "queue": one.queue, "due": one.ready}
            _log.warning(line, kind, name, _REMEDY[kind], extra=fields)


Name = tuple[str, str]
"""``task`` or ``queue``, and which."""


def unknown(one: Backlog, live: Sequence[WorkerInfo]) -> Name | None:
    """The name of these due jobs that every worker lacks; None when one of the workers runs
    them.
    """
    serving = [info for info in live if not info.queues or one.queue in info.queues]
    if not serving:
        return "queue", one.queue
    return None if any(info.knows(one.task) for info in serving) else ("task", one.task)


_REMEDY: Final = {
    "task": (
        "jobs of it are due, and no live worker of their queue knows it: import the module that "
        "defines it where the worker starts, or correct the name; see: offpath workers"
    ),
    "queue": (
        "jobs in it are due, and no live worker serves it: start one with --queues, or correct the "
        "name where the jobs are enqueued; see: offpath queues list"
    ),
}
