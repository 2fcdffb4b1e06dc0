"""Views of stats: what happened in a range of time, span by span, for charts and their tables."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.model.stats import (
    QueueLevel,
    StatRow,
    StatSpan,
    WaitLevel,
    counts_of,
    joined_levels,
    queue_of,
    read,
    summed,
    task_of,
)
from offpath.operating.stats_times import UNSAID, USUAL, StatTimes, finest, floored, stat_range
from offpath.runtime.catalogue import TIME_BOUNDS
from offpath.store.capabilities import Profile

_P95: Final = 0.95
_DAY: Final = timedelta(days=1)
_LATELY: Final = 300
"""Seconds over which the pace of a queue is told."""
YESTERDAY: Final = "yesterday"
_ENDS: Final = ("succeeded", "dead", "cancelled")


class StatPoint(Struct, frozen=True, kw_only=True):
    """One point of time. Numbers of jobs are None where nobody told anything."""

    at: datetime
    started: int | None
    ended: int | None
    """Jobs that succeeded, died or were cancelled."""
    dead: int | None
    failed: int | None
    """Attempts that failed."""
    arrived: int | None
    """Jobs that came: what ended, and what more waits than at the last point."""
    wait_p95: float | None
    """The bound of seconds that 95 of 100 jobs kept to between being due and started."""
    run_p95: float | None
    """The same of how long attempts ran."""
    ready: float | None
    """Due jobs, on average; the other levels too."""
    scheduled: float | None
    blocked: float | None
    running: float | None
    oldest: float | None
    """Seconds that the oldest due job had waited, at most."""
    workers: float | None
    delivered: int | None
    """Messages that were delivered, or applied."""
    undelivered: int | None
    """Messages that died."""
    passed: int | None
    """Events that routers have passed."""
    waiting: float | None
    """Due messages, on average, counted up to a limit in each stream."""
    oldest_waiting: float | None
    """Seconds that the oldest due message had waited, or the oldest event before a router."""


class WaitShares(Struct, frozen=True, kw_only=True):
    """The bounds of seconds that so many of 100 jobs kept to between being due and started."""

    p50: float | None
    p95: float | None
    p99: float | None


class StatsDocument(Struct, frozen=True, kw_only=True):
    """A range of time, of everything or of one queue, task, stream or router."""

    range: str
    """Its name; empty for times that were asked for."""
    since: datetime
    until: datetime
    step: int
    """Seconds of one point."""
    queue: str | None
    task: str | None
    stream: str | None
    router: str | None
    points: tuple[StatPoint, ...]
    waits: WaitShares
    """The bounds over the whole range."""
    yesterday: tuple[StatPoint, ...] = ()
    """The points of a day before, where they are asked for."""
    yesterday_step: int = 0
    """Seconds of one point of then, of which less is kept."""
    kept: bool = True
    """False where the store keeps no stats: then every point is empty."""


class StatChoice(Struct, frozen=True, kw_only=True):
    """The part of what happened that is told; None is all of that kind."""

    queue: str | None = None
    task: str | None = None
    stream: str | None = None
    router: str | None = None


ALL: Final = StatChoice()


async def stats(
    app: App,
    *,
    within: str | None = None,
    only: StatChoice = ALL,
    compared: str | None = None,
    times: StatTimes = UNSAID,
) -> StatsDocument:
    """Points of a range of time, which has a name (``within``) or is said by ``times``.

    They are ``compared`` with those of ``yesterday``, if that is asked for. Raises
    ``InvalidArgument``.
    """
    if compared not in {None, YESTERDAY}:
        raise InvalidArgument(f"compare is {YESTERDAY}, not {compared!r:.40}")
    store = app.store()
    now = await store.ping()
    asked = stat_range(within, times, now)
    since, until, step = asked.since, asked.until, asked.step
    width = until - since
    coarse = max(step, finest(since - _DAY, now))  # of a day ago no row tells of less
    # rows of then begin at whole spans: a point that began elsewhere would show another time's
    then = floored(since - _DAY, coarse)
    rows, before = await asyncio.gather(
        store.stats(since=since, until=until, named=only != ALL),
        store.stats(since=then, until=then + width, named=only != ALL) if compared else _no_rows(),
    )
    spans = chosen_spans(rows, since, step, only)
    old = points_of(before, then, then + width, coarse, only) if compared else ()
    return StatsDocument(
        range=asked.name,
        since=since,
        until=until,
        step=step,
        **asdict(only),
        points=_points(spans, since, until, step),
        waits=_waits(spans.values()),
        yesterday=old,
        yesterday_step=coarse if compared else 0,
        kept=store.capabilities.offers(Profile.OPERATING),
    )


def unread(app: App, *, within: str | None = None, only: StatChoice = ALL) -> StatsDocument:
    """The stats of a range in the place of those that could not be read: without a point."""
    now = app.clock.now()
    return StatsDocument(
        range=USUAL if within is None else within,
        since=now,
        until=now,
        step=0,
        **asdict(only),
        points=(),
        waits=_waits(()),
    )


def _waits(spans: Iterable[StatSpan]) -> WaitShares:
    counted = (counts_of(one for span in spans for one in span.wait.values()),)
    return WaitShares(
        p50=percentile(counted, 0.5), p95=percentile(counted, _P95), p99=percentile(counted, 0.99)
    )


async def _no_rows() -> Sequence[StatRow]:
    """None, where nothing is compared."""
    return ()


class QueueRate(Struct, frozen=True, kw_only=True):
    """The pace of a queue in the last minutes."""

    arrived: float
    """Jobs that came, a second."""
    ended: float
    """Jobs that ended, a second."""
    wait_p95: float | None
    """The bound of seconds that 95 of 100 jobs kept to between being due and started."""


async def queue_rates(app: App) -> dict[str, QueueRate]:
    """The pace of each queue in the last five minutes; of those with stats alone."""
    store = app.store()
    now = await store.ping()
    rows = await store.stats(since=now - timedelta(seconds=_LATELY), until=now)
    return rates_of(rows)


def rates_of(rows: Sequence[StatRow]) -> dict[str, QueueRate]:
    """The pace of each queue over these rows."""
    if not rows:
        return {}
    spans: dict[datetime, list[StatSpan]] = {}
    for row in rows:
        spans.setdefault(row.at, []).append(read(row.body))
    every = [span for several in spans.values() for span in several]
    ended = _ended_by_queue(every)
    levels = [joined_levels(one.levels for one in spans[at]) for at in sorted(spans)]
    last = max(row.at + timedelta(seconds=row.step) for row in rows)
    seconds = (last - min(spans)).total_seconds()
    names = ended.keys() | {name for one in levels for name in one}
    return {
        name: QueueRate(
            arrived=max(ended.get(name, 0) + _change(levels, name), 0.0) / seconds,
            ended=ended.get(name, 0) / seconds,
            wait_p95=percentile((span.queue_wait.get(name, {}) for span in every), _P95),
        )
        for name in names
    }


def _ended_by_queue(spans: Iterable[StatSpan]) -> dict[str, int]:
    """The jobs that ended, of every queue in which anything was done."""
    ended: dict[str, int] = {}
    for span in spans:
        for what, numbers in span.jobs.items():
            for one, number in numbers.items():
                queue = queue_of(one)
                ended[queue] = ended.get(queue, 0) + (number if what in _ENDS else 0)
    return ended


def _change(levels: Sequence[Mapping[str, QueueLevel]], name: str) -> float:
    """The jobs of a queue that wait more at the end than at first."""
    known = [level for one in levels if (level := _level_of(one, name)) is not None]
    return known[-1] - known[0] if known else 0.0


def _level_of(levels: Mapping[str, QueueLevel], name: str) -> float | None:
    """The jobs of a queue that waited; none of one of which a look at all queues tells nothing."""
    if not levels:
        return None
    level = _level([levels[name]]) if name in levels else None
    return 0.0 if level is None else level["ready"] + level["scheduled"] + level["blocked"]


def points_of(
    rows: Iterable[StatRow],
    since: datetime,
    until: datetime,
    step: int,
    only: StatChoice = ALL,
) -> tuple[StatPoint, ...]:
    """The points of a range. One of which no row tells is empty, and not zero."""
    return _points(chosen_spans(rows, since, step, only), since, until, step)


def chosen_spans(
    rows: Iterable[StatRow], since: datetime, step: int, only: StatChoice
) -> dict[int, StatSpan]:
    """The spans of a range by their numbers, of what was chosen, the rows of each as one.

    Each row is read once: those of two days are megabytes.
    """
    width = timedelta(seconds=step)
    told: dict[int, list[StatSpan]] = {}
    for row in rows:
        told.setdefault((row.at - since) // width, []).append(_only(read(row.body), only))
    return {
        number: several[0] if len(several) == 1 else summed(several)
        for number, several in told.items()
    }


def _points(
    spans: Mapping[int, StatSpan], since: datetime, until: datetime, step: int
) -> tuple[StatPoint, ...]:
    width = timedelta(seconds=step)
    found: list[StatPoint] = []
    waiting: float | None = None
    for number in range((until - since) // width):
        point, waiting = _point(since + number * width, spans.get(number), waiting)
        found.append(point)
    return tuple(found)


def _only(span: StatSpan, only: StatChoice) -> StatSpan:
    """The part of a span that was chosen. Waits are known by task and by queue, and not by both."""
    if only == ALL:
        return span
    queue, task = only.queue, only.task

    def wanted(name: str) -> bool:
        return queue in {None, queue_of(name)} and task in {None, task_of(name)}

    jobs = {
        what: {name: number for name, number in numbers.items() if wanted(name)}
        for what, numbers in span.jobs.items()
    }
    levels = {name: one for name, one in span.levels.items() if queue in {None, name}}
    if queue is None:
        wait = {name: one for name, one in span.wait.items() if task in {None, name}}
    else:
        wait = {name: one for name, one in span.queue_wait.items() if name == queue}
    run = {name: one for name, one in span.run.items() if task in {None, name}}
    return StatSpan(
        jobs=jobs,
        levels={} if task is not None else levels,
        wait={} if queue is not None and task is not None else wait,
        run={} if queue is not None and task is None else run,
        workers=span.workers,
        messages={
            what: {name: one for name, one in numbers.items() if only.stream in {None, name}}
            for what, numbers in span.messages.items()
        },
        passed={name: one for name, one in span.passed.items() if only.router in {None, name}},
        streams={
            name: one
            for name, one in span.streams.items()
            if only.stream in {None, name} and only.router is None
        },
        lags={
            name: one
            for name, one in span.lags.items()
            if only.router in {None, name} and only.stream is None
        },
    )


def _point(
    at: datetime, span: StatSpan | None, before: float | None
) -> tuple[StatPoint, float | None]:
    """A point, and what waited then."""
    if span is None:
        nothing = dict.fromkeys(StatPoint.__struct_fields__[1:])
        return StatPoint(at=at, **nothing), None
    level = _level(span.levels.values())
    ended = sum(_sum(span.jobs, name) for name in _ENDS)
    waiting = None if level is None else level["ready"] + level["scheduled"] + level["blocked"]
    change = 0.0 if waiting is None or before is None else waiting - before
    looks, workers = span.workers
    return StatPoint(
        at=at,
        started=_sum(span.jobs, "started"),
        ended=ended,
        dead=_sum(span.jobs, "dead"),
        failed=_sum(span.jobs, "failed"),
        arrived=max(ended + round(change), 0),
        wait_p95=percentile(span.wait.values(), _P95),
        run_p95=percentile(span.run.values(), _P95),
        ready=None if level is None else level["ready"],
        scheduled=None if level is None else level["scheduled"],
        blocked=None if level is None else level["blocked"],
        running=None if level is None else level["running"],
        oldest=max((one.oldest for one in span.levels.values()), default=None),
        workers=workers / looks if looks else None,
        delivered=_sum(span.messages, "done"),
        undelivered=_sum(span.messages, "dead"),
        passed=sum(span.passed.values()),
        waiting=_waiting(span.streams.values()),
        oldest_waiting=max(
            (one.oldest for one in (*span.streams.values(), *span.lags.values())), default=None
        ),
    ), waiting


def _waiting(levels: Collection[WaitLevel]) -> float | None:
    """Due messages of several streams together, each on average."""
    return sum(one.waiting / one.looks for one in levels if one.looks) if levels else None


def _level(levels: Iterable[QueueLevel]) -> dict[str, float] | None:
    """The levels of several queues together, each on average."""
    known = [one for one in levels if one.looks]
    if not known:
        return None
    names = ("ready", "scheduled", "blocked", "running")
    return {name: sum(getattr(one, name) / one.looks for one in known) for name in names}


def _sum(jobs: Mapping[str, Mapping[str, int]], what: str) -> int:
    return sum(jobs.get(what, {}).values())


def percentile(counted: Iterable[Mapping[str, int]], share: float) -> float | None:
    """The bound that a share of what was counted kept to; None where nothing was."""
    total = [0] * (len(TIME_BOUNDS) + 1)
    for number, count in counts_of(counted).items():
        if number.isdecimal() and int(number) < len(total):
            total[int(number)] += count
    wanted, below = share * sum(total), 0
    if not wanted:
        return None
    for place, count in enumerate(total):
        below += count
        if below >= wanted:
            return bound_of(place)
    return TIME_BOUNDS[-1]


def bound_of(number: int, bounds: Sequence[float] = TIME_BOUNDS) -> float:
    """The bound of a number; beyond the last one it is told as the last."""
    return bounds[min(number, len(bounds) - 1)]
