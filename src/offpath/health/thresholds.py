"""Limits on how long work may wait: the ages of the oldest of each kind, against the settings'
limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from offpath.model.deaths import Deaths, Dying, Ends, Whose, label
from offpath.model.endpoint import is_delivery
from offpath.model.health import AgeGauge
from offpath.model.job import JobFilter, JobState
from offpath.model.limit import QueueRecord
from offpath.model.message import Box, MessageBacklog
from offpath.model.route import RouterLag

if TYPE_CHECKING:
    from offpath.config import Settings
    from offpath.store.protocol import Backlog, Store

LOOK_EVERY = timedelta(minutes=1)
"""Seconds between two looks for old dead letters, which may be many."""
_DEAD = (JobState.DEAD,)

Lags = Callable[[], Awaitable[Sequence[RouterLag]]]
Messages = Callable[[], Awaitable[Sequence[MessageBacklog]]]


class Thresholds:
    """Measures what waits. Called with the due jobs that were just read, and the store's time.

    Over its limit it makes the fleet unhealthy, and is a warning of a worker: what waits is shared,
    and no reason to keep a worker out that could take it. Jobs count in the queues that ``queues``
    names, none meaning all. A paused queue may wait as long as it is paused: somebody wants it so;
    and jobs that a limit holds back are not due. Messages count in the streams that ``served``
    names, None meaning all: a stream that nothing here moves is not configured, and what waits for
    a webhook endpoint is that endpoint's own health. Dead letters are everybody's.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        queues: Sequence[str] = (),
        served: Callable[[], frozenset[tuple[Box, str]]] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._queues = frozenset(queues)
        self._served = served
        # A store of one's own may have jobs only.
        self._messages: Messages | None = getattr(store, "message_backlog", None)
        self._lags: Lags | None = getattr(store, "router_lags", None)
        self._looked_at: datetime | None = None
        self._died_at: datetime | None = None

    @property
    def red_findings(self) -> bool:
        """True if a finding that nobody has accepted makes the fleet unhealthy."""
        return self._settings.findings == "red"

    async def __call__(
        self, backlog: Sequence[Backlog], now: datetime, queues: Sequence[QueueRecord] | None = None
    ) -> list[AgeGauge]:
        """The gauges. Raises what the store raises: what cannot be measured is not well.

        ``queues`` are those of the store, where they are known already.
        """
        streams, lags, jobs, _ = await asyncio.gather(
            _nothing() if self._messages is None else self._messages(),
            _nothing() if self._lags is None else self._lags(),
            self._unpaused(list(self._jobs(backlog, now)), queues),
            self._look_for_deaths(now),
        )
        return [
            *jobs,
            *self._waiting(streams, now),
            *self._behind(lags, now),
            self._dead_letter(streams, now),
        ]

    async def _unpaused(
        self, gauges: Sequence[tuple[str, AgeGauge]], queues: Sequence[QueueRecord] | None
    ) -> list[AgeGauge]:
        """The gauges of queues, those of paused ones without a limit. Asks only if one is over."""
        paused: set[str] = set()
        if any(gauge.over for _, gauge in gauges):
            found = await self._store.queues() if queues is None else queues
            paused = {one.name for one in found if one.paused or one.paused_until is not None}
        return [
            replace(gauge, name=f"{gauge.name}, which is paused", limit=None)
            if queue in paused
            else gauge
            for queue, gauge in gauges
        ]

    def _jobs(self, backlog: Sequence[Backlog], now: datetime) -> Iterator[tuple[str, AgeGauge]]:
        oldest: dict[str, float] = {}
        for row in backlog:
            if not self._queues or row.queue in self._queues:
                age = _age(row.oldest_run_at, now)
                oldest[row.queue] = max(age, oldest.get(row.queue, 0.0))
        limits, usual = self._settings.job_age_limits, self._settings.job_age_limit
        for queue, age in sorted(oldest.items()):
            limit = limits.get(queue, usual)
            name = f"the oldest due job of queue {queue}"
            yield queue, AgeGauge(name=name, age=age, limit=limit)

    def _waiting(self, streams: Sequence[MessageBacklog], now: datetime) -> Iterator[AgeGauge]:
        settings = self._settings
        for row in streams:
            if row.oldest_due_at is None:
                continue
            if not self._judged(row):
                continue
            outbound = row.box is Box.OUT
            what = "undelivered event" if outbound else "unapplied inbox message"
            yield AgeGauge(
                name=f"the oldest {what} of stream {row.stream}",
                age=_age(row.oldest_due_at, now),
                limit=settings.event_age_limit if outbound else settings.inbox_age_limit,
            )

    def _behind(self, lags: Sequence[RouterLag], now: datetime) -> Iterator[AgeGauge]:
        for one in lags:
            # A closed gate is meant; who forgot it finds it among the findings.
            closed = "" if one.open else ", whose gate is closed"
            yield AgeGauge(
                name=f"the oldest unrouted event of router {one.router}{closed}",
                age=None if one.oldest_at is None else _age(one.oldest_at, now),
                limit=self._settings.router_age_limit if one.open else None,
                router=one.router,
                closed=not one.open,
            )

    def dying(self, deaths: Sequence[Deaths], ends: Mapping[str, Ends]) -> list[Dying]:
        """New dead letters against their limits. What died of a webhook endpoint is told only."""
        return [self._dying(one, ends.get(label(one.whose, one.name))) for one in deaths]

    def _dying(self, one: Deaths, ends: Ends | None) -> Dying:
        told = one.whose is Whose.STREAM and is_delivery(one.name)
        return Dying(
            whose=one.whose,
            name=one.name,
            dead=one.count,
            share=None if ends is None or not ends.ended else ends.dead / ends.ended,
            most=None if told else self._settings.death_limit,
            most_share=None if told else self._settings.death_share_limit,
        )

    def _judged(self, row: MessageBacklog) -> bool:
        if self._served is not None:
            return (row.box, row.stream) in self._served()
        return row.box is Box.IN or not is_delivery(row.stream)

    async def _look_for_deaths(self, now: datetime) -> None:
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY:
            self._died_at = await self._oldest_death(now)
            self._looked_at = now

    def _dead_letter(self, streams: Sequence[MessageBacklog], now: datetime) -> AgeGauge:
        died = [self._died_at, *(row.oldest_dead_at for row in streams)]
        ages = [_age(at, now) for at in died if at is not None]
        limit = self._settings.dead_age_limit
        return AgeGauge(name="the oldest dead letter", age=max(ages, default=None), limit=limit)

    async def _oldest_death(self, now: datetime) -> datetime | None:
        """The time of death of a job that is over the limit, or of the first by id if none is."""
        limit = self._settings.dead_age_limit
        if limit is not None:
            before = now - timedelta(seconds=limit)
            over = await self._first(JobFilter(states=_DEAD, finished_before=before))
            if over is not None:
                return over
        return await self._first(JobFilter(states=_DEAD))

    async def _first(self, where: JobFilter) -> datetime | None:
        # One record, for it carries the job's whole input.
        page = await self._store.find(where, limit=1, newest=False)
        return page.items[0].finished_at if page.items else None


async def _nothing() -> Sequence[Any]:
    return ()


def _age(since: datetime, now: datetime) -> float:
    return max((now - since).total_seconds(), 0.0)
