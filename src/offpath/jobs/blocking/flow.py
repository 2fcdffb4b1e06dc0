"""The blocking verbs of flow control: ``app.blocking.queues`` and ``app.blocking.limits``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from offpath.jobs.client.flow import LimitKeys, Queues
    from offpath.model.limit import LimitRecord, QueueRecord

    _LimitRecords = list[LimitRecord]  # inside of the classes, `list` is the verb
    _QueueRecords = list[QueueRecord]

T = TypeVar("T")


class Runs(Protocol):
    """Runs a coroutine of the app and waits for it."""

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What it returns."""
        ...


class BlockingQueues:
    """The verbs of :class:`offpath.jobs.client.flow.Queues`, blocking."""

    def __init__(self, client: Runs, queues: Queues) -> None:
        self._run = client.run
        self._queues = queues

    def list(self) -> _QueueRecords:
        """Queues that have unended jobs or are paused, by name."""
        return self._run(self._queues.list)

    def pause(self, name: str, /, *, until: datetime | None = None) -> None:
        """Hand out none of its jobs, until a time or until it is resumed."""
        self._run(lambda: self._queues.pause(name, until=until))

    def resume(self, name: str, /) -> bool:
        """Hand out its jobs again. False: it was not paused."""
        return self._run(lambda: self._queues.resume(name))


class BlockingLimits:
    """The verbs of :class:`offpath.jobs.client.flow.LimitKeys`, blocking."""

    def __init__(self, client: Runs, limits: LimitKeys) -> None:
        self._run = client.run
        self._limits = limits

    def list(self, *, limit: int = 1000, after: str | None = None) -> _LimitRecords:
        """Known keys by name; ``after`` is the last key of the page before."""
        return self._run(lambda: self._limits.list(limit=limit, after=after))

    def get(self, key: str, /) -> LimitRecord:
        """One key. Raises ``NotFound``."""
        return self._run(lambda: self._limits.get(key))

    def pause(self, key: str, /, *, until: datetime | None = None) -> int:
        """Start none of its jobs, until a time or until it is resumed."""
        return self._run(lambda: self._limits.pause(key, until=until))

    def cool_down(self, key: str, seconds: float | timedelta, /) -> int:
        """Start none of its jobs for so many seconds."""
        return self._run(lambda: self._limits.cool_down(key, seconds))

    def resume(self, key: str, /) -> bool:
        """End its pause and its cool-down. False: there was none."""
        return self._run(lambda: self._limits.resume(key))
