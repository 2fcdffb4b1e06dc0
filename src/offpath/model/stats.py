"""Stats: what happened in spans of time, as rows that can be added to each other.

A row says what one process saw in ten seconds. Rows of one span are merged into one, and those of
six spans into a minute's. Merging adds and takes the greatest alone, so any order and any grouping
has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

SECONDS: Final = 10
"""Seconds of the shortest span."""
MINUTE: Final = 60
HOUR: Final = 3_600
STEPS: Final = (SECONDS, MINUTE, HOUR)
KEPT: Final = {SECONDS: 2 * HOUR, MINUTE: 48 * HOUR, HOUR: 90 * 24 * HOUR}
"""Seconds for which rows of a step are kept; then they are merged into the next, or removed."""
MOST_PAIRS: Final = 200
"""Pairs of queue and task that one process tells; the rest is told as one."""
OTHER: Final = "other"
"""The name of queues and tasks beyond them."""
MERGED: Final = ""
"""The source of a row that was merged of several."""

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


class StatSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A span of time, as processes told it."""

    jobs: Numbers = {}
    """Numbers of jobs by what they did (``started``), by queue and task (see :func:`pair`)."""
    wait: Numbers = {}
    """Jobs by how long they waited: by task, by the number of the bound that they kept to."""
    run: Numbers = {}
    """The same of how long attempts ran."""
    levels: dict[str, QueueLevel] = {}
    """The jobs that wait, by queue."""
    workers: tuple[int, int] = (0, 0)
    """Looks at the fleet, and the sum of live workers that they saw."""

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


def read(body: str) -> StatSpan:
    """A span as it was kept. What cannot be read says nothing."""
    try:
        return _decode(body)
    except msgspec.MsgspecError:
        return _NOTHING


def merged(spans: Iterable[StatSpan]) -> StatSpan:
    """Spans as one."""
    jobs: Numbers = {}
    wait: Numbers = {}
    run: Numbers = {}
    levels: dict[str, QueueLevel] = {}
    looks = workers = 0
    for one in spans:
        _add(jobs, one.jobs)
        _add(wait, one.wait)
        _add(run, one.run)
        for name, level in one.levels.items():
            known = levels.get(name)
            levels[name] = level if known is None else known.joined(level)
        looks, workers = looks + one.workers[0], workers + one.workers[1]
    return StatSpan(jobs=jobs, wait=wait, run=run, levels=levels, workers=(looks, workers))


def merged_bodies(bodies: Iterable[str]) -> str:
    """Kept spans as one."""
    return written(merged(read(one) for one in bodies))


def _add(total: Numbers, more: Mapping[str, Mapping[str, int]]) -> None:
    for name, numbers in more.items():
        known = total.setdefault(name, {})
        for key, number in numbers.items():
            known[key] = known.get(key, 0) + number


_NOTHING: Final = StatSpan()
_decode: Final = msgspec.json.Decoder(StatSpan).decode
