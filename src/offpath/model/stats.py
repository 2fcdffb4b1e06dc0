"""Stats: what happened in spans of time, as rows that can be added to each other.

A row says what one process saw in ten seconds. Rows of one span are merged into one. With age they
are merged into rows of longer spans, up to a day. Merging adds and takes the greatest alone, so any
order and any grouping has the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

SECONDS: Final = 10
"""Seconds of the shortest span."""
MINUTE: Final = 60
FIVE: Final = 300
QUARTER: Final = 900
HOUR: Final = 3_600
DAY: Final = 24 * HOUR
STEPS: Final = (SECONDS, MINUTE, FIVE, QUARTER, HOUR, DAY)
KEPT: Final = {
    SECONDS: 16 * MINUTE,
    MINUTE: 75 * MINUTE,
    FIVE: 6 * HOUR + QUARTER,
    QUARTER: 31 * HOUR,
    HOUR: 74 * HOUR,
    DAY: 92 * DAY,
}
"""Seconds for which rows of a step are kept; then they are merged into the next, or removed.

A chart reads all rows of its range, so each step is kept for as long as a chart has points of it:
ten seconds of 15 minutes, minutes of an hour, five minutes of 6 hours. A quarter of an hour is what
is known of the day before, and hours are those of two days and of the two days before.
"""
MOST_PAIRS: Final = 200
"""Pairs of queue and task that one process tells; the rest is told as one."""
MOST_BYTES: Final = 8_192
"""Bytes of the row of one process."""
OTHER: Final = "other"
"""The name of queues and tasks beyond them."""
MERGED: Final = ""
"""The source of a row that was merged of several."""

L = TypeVar("L", "QueueLevel", "WaitLevel")
Numbers = dict[str, dict[str, int]]
"""Counts by a name, and within it by another."""


class QueueLevel(Struct, frozen=True, omit_defaults=True):
    """The waiting jobs of a queue, as they were counted: sums of so many looks."""

    looks: int = 0
    ready: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest: float = 0.0
    """Seconds that the oldest due job has waited, at most."""

    def joined(self, other: QueueLevel) -> QueueLevel:
        """Both together."""
        return QueueLevel(
            looks=self.looks + other.looks,
            ready=self.ready + other.ready,
            scheduled=self.scheduled + other.scheduled,
            blocked=self.blocked + other.blocked,
            running=self.running + other.running,
            oldest=max(self.oldest, other.oldest),
        )


class WaitLevel(Struct, frozen=True, omit_defaults=True):
    """The messages that wait in a stream, or the events before a router: sums of so many looks."""

    looks: int = 0
    waiting: int = 0
    """Counted up to a limit; of a router not counted."""
    oldest: float = 0.0
    """Seconds that the oldest one has waited, at most."""

    def joined(self, other: WaitLevel) -> WaitLevel:
        """Both together."""
        return WaitLevel(
            looks=self.looks + other.looks,
            waiting=self.waiting + other.waiting,
            oldest=max(self.oldest, other.oldest),
        )


class StatSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A span of time, as processes told it."""

    jobs: Numbers = {}
    """Numbers of jobs by what they did (``started``), by queue and task (see :func:`pair`)."""
    wait: Numbers = {}
    """Jobs by how long they waited: by task, by the number of the bound that they kept to."""
    queue_wait: Numbers = {}
    """The same of how long they waited, by queue."""
    run: Numbers = {}
    """The same of how long attempts ran, by task."""
    levels: dict[str, QueueLevel] = {}
    """The jobs that wait, by queue."""
    workers: tuple[int, int] = (0, 0)
    """Looks at the fleet, and the sum of live workers that they saw."""
    messages: Numbers = {}
    """Numbers of messages by what became of them (``done``), by stream."""
    passed: dict[str, int] = {}
    """Events that a router has passed, by its name."""
    streams: dict[str, WaitLevel] = {}
    """The messages that wait, by stream."""
    lags: dict[str, WaitLevel] = {}
    """The oldest event that a router has not passed, by its name."""

    @property
    def empty(self) -> bool:
        """True if nothing happened."""
        return self == _NOTHING


class StatRow(Struct, frozen=True, kw_only=True):
    """A row of stats: a span of ``step`` seconds that begins at ``at``."""

    step: int
    at: datetime
    source: str
    """The process that told it; empty for one that was merged."""
    body: str
    """A :class:`StatSpan` as JSON."""


def pair(queue: str, task: str) -> str:
    """The name of a queue and a task in a row."""
    return f"{queue}\n{task}"


def queue_of(name: str) -> str:
    """The queue of such a name."""
    return name.partition("\n")[0]


def task_of(name: str) -> str:
    """The task of such a name."""
    return name.partition("\n")[2]


def written(span: StatSpan) -> str:
    """A span as it is kept."""
    return msgspec.json.encode(span).decode()


def bounded(span: StatSpan, most: int = MOST_BYTES) -> StatSpan:
    """A span whose text has at most so many bytes: the rarest names of it are told as one.

    No count is lost by it.
    """
    names = MOST_PAIRS
    while len(written(span).encode()) > most and names > 1:
        names //= 2
        span = _with_fewer(span, names)
    return span


def _with_fewer(span: StatSpan, names: int) -> StatSpan:
    """A span with so many names of each kind, the most frequent ones."""
    (passed,) = _fewer_within({"": span.passed}, names, OTHER).values()
    return replace(
        span,
        jobs=_fewer_within(span.jobs, names, pair(OTHER, OTHER)),
        messages=_fewer_within(span.messages, names, OTHER),
        passed=passed,
        wait=_fewer(span.wait, names),
        queue_wait=_fewer(span.queue_wait, names),
        run=_fewer(span.run, names),
    )


def _fewer_within(numbers: Numbers, names: int, other: str) -> Numbers:
    """Counts by what and name, of fewer names."""
    total = _sums(numbers.values())
    known = {name for name, _ in Counter(total).most_common(names)}
    return {
        what: _sums({name if name in known else other: count} for name, count in counts.items())
        for what, counts in numbers.items()
    }


def _fewer(numbers: Numbers, names: int) -> Numbers:
    """Counts by name and bound, of fewer names."""
    ranked = sorted(numbers, key=lambda name: -sum(numbers[name].values()))
    rest = [numbers[name] for name in ranked[names:]]
    kept = {name: numbers[name] for name in ranked[:names]}
    return kept if not rest else {**kept, OTHER: _sums((kept.get(OTHER, {}), *rest))}


def _sums(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in several:
        total.update(one)
    return dict(total)


def read(body: str) -> StatSpan:
    """A span as it was kept. What cannot be read says nothing."""
    try:
        return _decode(body)
    except msgspec.MsgspecError:
        return _NOTHING


def merged(spans: Iterable[StatSpan]) -> StatSpan:
    """Spans as one."""
    several = list(spans)
    if len(several) == 1:  # as nearly all are once the leader has merged them
        return several[0]
    passed: Counter[str] = Counter()
    for one in several:
        passed.update(one.passed)
    return StatSpan(
        jobs=_added(one.jobs for one in several),
        wait=_added(one.wait for one in several),
        queue_wait=_added(one.queue_wait for one in several),
        run=_added(one.run for one in several),
        levels=joined_levels(one.levels for one in several),
        workers=(sum(one.workers[0] for one in several), sum(one.workers[1] for one in several)),
        messages=_added(one.messages for one in several),
        passed=dict(passed),
        streams=joined_levels(one.streams for one in several),
        lags=joined_levels(one.lags for one in several),
    )


def summed(several: Sequence[StatSpan]) -> StatSpan:
    """Spans as one, of which no names of tasks and streams are told: a point needs sums alone.

    Levels keep the names of their queues, since each is on average of the looks at it.
    """
    passed = sum(sum(one.passed.values()) for one in several)
    return StatSpan(
        jobs=_nameless([one.jobs for one in several]),
        wait=_unnamed(counts_of(each for one in several for each in one.wait.values())),
        run=_unnamed(counts_of(each for one in several for each in one.run.values())),
        levels=joined_levels(one.levels for one in several),
        workers=(sum(one.workers[0] for one in several), sum(one.workers[1] for one in several)),
        messages=_nameless([one.messages for one in several]),
        passed={"": passed} if passed else {},
        streams=joined_levels(one.streams for one in several),
        lags=joined_levels(one.lags for one in several),
    )


def sums(body: str) -> str:
    """The sums of a kept span, as they are kept beside it."""
    return written(summed((read(body),)))


def counts_of(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by the numbers of bounds, those of all together. A chart adds 100,000 of them."""
    total: dict[str, int] = {}
    for numbers in counted:
        for number, count in numbers.items():
            total[number] = total.get(number, 0) + count
    return total


def merged_bodies(bodies: Iterable[str]) -> str:
    """Kept spans as one."""
    return written(merged(read(one) for one in bodies))


def _added(several: Iterable[Mapping[str, Mapping[str, int]]]) -> Numbers:
    total: Numbers = {}
    for more in several:
        for name, numbers in more.items():
            known = total.setdefault(name, {})
            for key, number in numbers.items():
                known[key] = known.get(key, 0) + number
    return total


def _nameless(several: Sequence[Numbers]) -> Numbers:
    """Counts by the first of their two names alone."""
    total: dict[str, int] = {}
    for numbers in several:
        for name, counts in numbers.items():
            total[name] = total.get(name, 0) + sum(counts.values())
    return {name: {"": count} for name, count in total.items()}


def _unnamed(counts: dict[str, int]) -> Numbers:
    return {"": counts} if counts else {}


def joined_levels(several: Iterable[Mapping[str, L]]) -> dict[str, L]:
    """Levels by name, those of several spans together."""
    total: dict[str, L] = {}
    for more in several:
        for name, level in more.items():
            known = total.get(name)
            total[name] = level if known is None else known.joined(level)
    return total


_NOTHING: Final = StatSpan()
_decode: Final = msgspec.json.Decoder(StatSpan).decode
