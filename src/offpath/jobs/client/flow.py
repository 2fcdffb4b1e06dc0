"""``app.queues`` and ``app.limits``: what is paused and what is at its limit, and changing that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from offpath.errors import InvalidArgument, NotFound
from offpath.model import checks
from offpath.model.lease import WorkerRecord
from offpath.model.limit import LimitRecord, QueueRecord
from offpath.model.limit_options import limit_key
from offpath.runtime import log

_SHOWN = 10
"""Names of queues in one line."""
_log = log.logger("jobs")
_LimitRecords = list[LimitRecord]  # inside of the classes, `list` is the verb
_QueueRecords = list[QueueRecord]


class FlowPlace(Protocol):
    """The store, as far as flow control needs it."""

    async def ping(self) -> datetime:
        """Its time."""
        ...

    async def limits(
        self, *, limit: int = 1000, after: str | None = None, keys: Sequence[str] = ()
    ) -> list[LimitRecord]:
        """Known keys."""
        ...

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """Admit nothing of a key."""
        ...

    async def open_limit(self, key: str) -> bool:
        """Admit again."""
        ...

    async def pause_queue(self, name: str, *, until: datetime | None = None) -> None:
        """Hand out nothing of a queue."""
        ...

    async def resume_queue(self, name: str) -> bool:
        """Hand out again."""
        ...

    async def workers(self) -> Sequence[WorkerRecord]:
        """Workers, and which queues they name."""
        ...

    async def queues(self) -> list[QueueRecord]:
        """Queues with unended jobs or a pause."""
        ...


class Queues:
    """The queues of the store: look at, pause, resume. For the whole fleet."""

    def __init__(self, opened: Callable[[], Awaitable[FlowPlace]]) -> None:
        self._opened = opened

    async def list(self) -> _QueueRecords:
        """Queues that have unended jobs or are paused, by name."""
        return await (await self._opened()).queues()

    async def pause(self, name: str, /, *, until: datetime | None = None) -> None:
        """Hand out none of its jobs from now on, to any worker: what runs goes on.

        Until a time (aware, in the future), or until it is resumed. Pausing it again changes the
        end. A queue that has no jobs yet may be paused as well: :meth:`unknown` tells which those
        are, and the log of ``offpath.jobs`` says so (WARNING). Raises ``InvalidArgument``.
        """
        name = checks.name(name, "queue")
        store = await self._opened()
        end = await _future(store, until)
        told = await self.unknown(name)
        await store.pause_queue(name, until=end)
        if told:
            _log.warning("%s: paused all the same", told)

    async def unknown(self, name: str, /) -> str | None:
        """Say that a queue may be a mistyped one: it has no job that has not ended, is not paused,
        and no live worker names it. None for one that is known.
        """
        store = await self._opened()
        known = {one.name for one in await store.queues()}
        known.update(
            queue
            for one in await store.workers()
            if one.gone_at is None
            for queue in one.info.queues
        )
        if name in known:
            return None
        others = f"; known: {', '.join(sorted(known)[:_SHOWN])}" if known else ""
        return f"no job is in the queue {name!r}, and no worker names it{others}"

    async def resume(self, name: str, /) -> bool:
        """Hand out its jobs again. False: it was not paused."""
        name = checks.name(name, "queue")
        return await (await self._opened()).resume_queue(name)


class LimitKeys:
    """The limits of the store, by key: look at, pause, cool down, resume. For the whole fleet."""

    def __init__(self, opened: Callable[[], Awaitable[FlowPlace]]) -> None:
        self._opened = opened

    async def list(self, *, limit: int = 1000, after: str | None = None) -> _LimitRecords:
        """Known keys by name; ``after`` is the last key of the page before."""
        checks.integer(limit, "limit", least=1, most=checks.MOST_LISTED)
        return await (await self._opened()).limits(limit=limit, after=after)

    async def get(self, key: str, /) -> LimitRecord:
        """One key. Raises ``NotFound`` when no job ever had it, or its last one is long gone."""
        found = await (await self._opened()).limits(keys=(limit_key(key),))
        if not found:
            raise NotFound(f"there is no limit {key!r}: no job of it is stored")
        return found[0]

    async def pause(self, key: str, /, *, until: datetime | None = None) -> int:
        """Start none of its jobs from now on: what runs goes on.

        Until a time (aware, in the future), or until it is resumed; an earlier end never shortens
        a later one. Returns how many that were about to start wait again. Raises
        ``InvalidArgument``.
        """
        key = limit_key(key)
        store = await self._opened()
        return await store.close_limit(key, until=await _future(store, until))

    async def cool_down(self, key: str, seconds: float | timedelta, /) -> int:
        """Start none of its jobs for so long: as :meth:`pause`, for a ``Retry-After``."""
        key = limit_key(key)
        rest = checks.seconds(seconds, "seconds")
        return await (await self._opened()).close_limit(key, seconds=rest)

    async def resume(self, key: str, /) -> bool:
        """End its pause and its cool-down. False: there was none."""
        key = limit_key(key)
        return await (await self._opened()).open_limit(key)


class FlowVerbs:
    """The verbs of an app for the flow of its jobs."""

    _opened: Callable[[], Awaitable[Any]]

    @property
    def queues(self) -> Queues:
        """The queues of the fleet: list, pause, resume."""
        return Queues(self._opened)

    @property
    def limits(self) -> LimitKeys:
        """The limits of the fleet, by key: list, get, pause, cool_down, resume."""
        return LimitKeys(self._opened)


async def _future(store: FlowPlace, until: datetime | None) -> datetime | None:
    """The end of a pause, which must not have passed by the store's clock."""
    if until is None:
        return None
    end = checks.aware(until, "until")
    now = await store.ping()
    if end <= now:
        raise InvalidArgument(
            f"until={end.isoformat()} has passed (the store's time is {now.isoformat()}): "
            "give a later time, or resume"
        )
    return end
