"""The loop that writes what a worker counted, and by which one of the fleet keeps that small.

Every worker adds a row each ten seconds, of what changed, and one as it begins to end. One of
them, who leads, adds what waits, merges the rows of all, and removes old ones. A row that cannot be
written is lost: it is for a picture, and a pile of rows would be in the way of work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from offpath.app import App
from offpath.health.fleet import WorkerPresence, member
from offpath.model.message import MessageBacklog
from offpath.model.stats import (
    DAY,
    KEPT,
    MINUTE,
    MOST_PAIRS,
    SECONDS,
    STEPS,
    QueueLevel,
    StatRow,
    StatSpan,
    WaitLevel,
    bounded,
    merged,
    written,
)
from offpath.model.tally import Turn, Verdict
from offpath.operating.stats_taken import taken_of
from offpath.runtime.loop import LoopSpec
from offpath.store.protocol import Backlog
from offpath.sweeps.leader import Lead

NAME: Final = "stats"
TERM: Final = 60.0
"""Seconds for which one worker leads."""
MOST_WAITING: Final = 10_000
"""Jobs of each kind that are counted in a queue."""
_READ_AT_MOST, _LEAST_WAITING = 50_000, 100
"""Jobs of each kind that one look counts in all queues together, and in each of very many."""
_FOLDS: Final = tuple(pairwise(STEPS))
_MOST_FOLDS: Final = 60
"""Spans that one turn merges at most: what was left for hours is caught up in several turns."""
_LATE: Final = 2 * SECONDS
"""Seconds after which every worker has written its row."""
_BATCH: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StatsLoop:
    """Writes the stats of one worker."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._source = app.new_id()
        self._taken = taken_of(app.metrics)
        self._told_at = _EPOCH
        self._minute: datetime | None = None
        self._queues = 0
        self._lead: Lead | None = None

    def spec(self) -> LoopSpec:
        """The loop as a worker drives it. A picture that is missing makes no worker unready."""
        return LoopSpec(
            name=NAME, step=self.step, interval=SECONDS, critical=False, stop=self._leave
        )

    async def step(self) -> Turn:
        """Write what was counted in the span that has just ended, once."""
        now = self._app.clock.now()
        at = _span_of(now, SECONDS) - timedelta(seconds=SECONDS)
        if at <= self._told_at:
            return Turn(verdict=Verdict.EMPTY)
        self._told_at = at
        span, leads = bounded(self._taken.take()), await self._leads()
        if leads:
            span = merged((span, await self._levels(now)))
        await self._write(span, at)
        if leads:
            await self._fold(now)
        return Turn(verdict=Verdict.EMPTY if span.empty else Verdict.CLEAN)

    async def _write(self, span: StatSpan, at: datetime) -> None:
        if not span.empty:
            row = StatRow(step=SECONDS, at=at, source=self._source, body=written(span))
            await self._app.store().put_stats((row,))

    async def _leads(self) -> bool:
        if self._lead is None:
            app = self._app
            self._lead = Lead(NAME, self._source, TERM, store=app.store(), clock=app.clock)
        return await self._lead.still()

    async def _levels(self, now: datetime) -> StatSpan:
        """The jobs that wait now, and the workers that are there."""
        store = self._app.store()
        (queues, backlog, workers), (streams, routers) = await asyncio.gather(
            asyncio.gather(
                store.queues(most=self._most_waiting()), store.backlog(limit=1), store.workers()
            ),
            asyncio.gather(store.message_backlog(limit=_LEAST_WAITING), store.router_lags()),
        )
        levels = {
            one.name: QueueLevel(
                looks=1,
                ready=one.ready,
                scheduled=one.scheduled,
                blocked=one.blocked,
                running=one.running,
                oldest=_oldest(backlog, one.name, now),
            )
            for one in queues
        }
        self._queues = len(queues)
        live = sum(member(one).presence is WorkerPresence.LIVE for one in workers)
        return StatSpan(
            levels=levels,
            workers=(1, live),
            streams=_streams(streams, now),
            lags={
                one.router: WaitLevel(looks=1, oldest=_age(one.oldest_at, now))
                for one in routers[:MOST_PAIRS]
            },
        )

    def _most_waiting(self) -> int:
        """The jobs to count of each queue. A bound: with many queues a look would read for long."""
        share = _READ_AT_MOST // max(self._queues, 1)
        return max(_LEAST_WAITING, min(MOST_WAITING, share))

    async def _fold(self, now: datetime) -> None:
        """Merge the rows of all sources, and once a minute what is older than it is kept."""
        await self._fold_before(SECONDS, SECONDS, now - timedelta(seconds=_LATE))
        minute = _span_of(now, MINUTE)
        if minute == self._minute:
            return
        self._minute = minute
        for step, into in _FOLDS:
            await self._fold_before(step, into, now - timedelta(seconds=KEPT[step]))
        old = now - timedelta(seconds=KEPT[DAY])
        await self._app.store().prune_stats(step=DAY, before=old, limit=_BATCH)

    async def _fold_before(self, step: int, into: int, before: datetime) -> None:
        for _ in range(_MOST_FOLDS):
            if not await self._app.store().fold_stats(step=step, into=into, before=before):
                return

    async def _leave(self, _seconds: float) -> None:
        """Write what no turn will write, as all that a short-lived worker did; let another lead."""
        try:
            await self._write(bounded(self._taken.take()), _span_of(self._app.clock.now(), SECONDS))
        finally:
            if self._lead is not None:
                await self._lead.release()


def _span_of(moment: datetime, step: int) -> datetime:
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return _EPOCH + timedelta(seconds=seconds // step * step)


def _streams(backlog: Sequence[MessageBacklog], now: datetime) -> dict[str, WaitLevel]:
    """The messages that wait in each stream, of both boxes; of very many streams the first."""
    found: dict[str, WaitLevel] = {}
    for one in backlog[:MOST_PAIRS]:
        level = WaitLevel(looks=1, waiting=one.due, oldest=_age(one.oldest_due_at, now))
        known = found.get(one.stream)
        both = level if known is None else replace(level.joined(known), looks=1)
        found[one.stream] = both
    return found


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def _oldest(backlog: Sequence[Backlog], queue: str, now: datetime) -> float:
    ages = ((now - one.oldest_run_at).total_seconds() for one in backlog if one.queue == queue)
    return max(0.0, *ages, 0.0)
