"""Stats of a process: the differences of its counters since they were last told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary, ref

from offpath.model.stats import MOST_PAIRS, OTHER, Numbers, StatSpan, pair
from offpath.runtime.metrics import Metrics, SeriesReading

_COUNTED: Final = {
    f"offpath_jobs_{name}_total": name
    for name in ("queued", "started", "succeeded", "failed", "dead", "retried", "cancelled")
}
_TIMED: Final = {
    "offpath_job_wait_seconds": ("wait", "task"),
    "offpath_queue_wait_seconds": ("queue_wait", "queue"),
    "offpath_job_success_seconds": ("run", "task"),
    "offpath_job_error_seconds": ("run", "task"),
}
"""The field of each summary, and the label by which it is told."""
_MESSAGES: Final = "offpath_messages_total"
_PASSED: Final = "offpath_router_passed_total"
_Key = tuple[str, ...]


class TakenStats:
    """The differences of the counters of one process. What was before it was made is not told."""

    def __init__(self, metrics: Metrics) -> None:
        self._of = ref(metrics)
        self._known: dict[_Key, int] = {}
        self._names: dict[str, set[str]] = {}
        self.take()

    def take(self) -> StatSpan:
        """Everything that was counted since the last call."""
        jobs: Numbers = {}
        messages: Numbers = {}
        passed: dict[str, int] = {}
        timed: dict[str, Numbers] = {"wait": {}, "queue_wait": {}, "run": {}}
        metrics = self._of()
        for one in () if metrics is None else metrics.list():
            if (what := _COUNTED.get(one.name)) is not None:
                name = pair(one.labels["queue"], one.labels["task"])
                self._count(jobs.setdefault(what, {}), "jobs", name, (one.name, name), one.value)
            elif (known := _TIMED.get(one.name)) is not None:
                field, label = known
                self._time(timed[field], one, label)
            elif one.name == _MESSAGES:
                stream, outcome = one.labels["stream"], one.labels["outcome"]
                key = (one.name, one.labels["box"], stream, outcome)
                self._count(messages.setdefault(outcome, {}), "streams", stream, key, one.value)
            elif one.name == _PASSED:
                router = one.labels["router"]
                self._count(passed, "routers", router, (one.name, router), one.value)
        return StatSpan(
            jobs=_some(jobs),
            wait=timed["wait"],
            queue_wait=timed["queue_wait"],
            run=timed["run"],
            messages=_some(messages),
            passed=passed,
        )

    def _time(self, total: Numbers, one: SeriesReading, label: str) -> None:
        name = one.labels[label]
        for number, count in enumerate(_each(one)):
            gone = self._gone((one.name, name, str(number)), count)
            if gone:
                numbers = total.setdefault(self._told(label, name, OTHER), {})
                numbers[str(number)] = numbers.get(str(number), 0) + gone

    def _count(self, total: dict[str, int], kind: str, name: str, key: _Key, value: float) -> None:
        gone = self._gone(key, int(value))
        if gone:
            told = self._told(kind, name, pair(OTHER, OTHER) if kind == "jobs" else OTHER)
            total[told] = total.get(told, 0) + gone

    def _gone(self, key: _Key, value: int) -> int:
        """The number of what was counted since; a counter that was dropped begins anew."""
        known = self._known.get(key, 0)
        self._known[key] = value
        return value - known if value >= known else value

    def _told(self, kind: str, name: str, otherwise: str) -> str:
        """The name, as long as there are few."""
        known = self._names.setdefault(kind, set())
        if name in known or len(known) < MOST_PAIRS:
            known.add(name)
            return name
        return otherwise


def taken_of(metrics: Metrics) -> TakenStats:
    """The stats of these counters, one for all loops of a process: what one has told, no other
    tells again.
    """
    known = _KNOWN.get(metrics)
    if known is None:
        known = _KNOWN[metrics] = TakenStats(metrics)
    return known


_KNOWN: Final[WeakKeyDictionary[Metrics, TakenStats]] = WeakKeyDictionary()


def _some(counted: Numbers) -> Numbers:
    """The readings that are not empty."""
    return {what: numbers for what, numbers in counted.items() if numbers}


def _each(one: SeriesReading) -> Iterator[int]:
    """The number at each bound alone; those of a reading are those at or under it."""
    below = 0
    for _, number in one.buckets:
        yield number - below
        below = number
