"""Counters, gauges and summaries, readable in the process.

Take a series once (``jobs = metrics.counter("offpath_jobs_queued_total", task=…, queue=…)``) and
call it often. Series are changed in the event loop's thread and may be read from any.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.runtime.catalogue import CATALOGUE, DEFAULT_BOUNDS, LIVE, MOVES, Metric, MetricKind
from offpath.runtime.log import logger
from offpath.runtime.series_names import MOST, OPEN, OTHER, Idleness, Labels, SeriesNames, opened

_log = logger("metrics")

QUANTILES = (0.5, 0.9, 0.95, 0.99)
SERIES_LIMIT = 10_000
"""Series of one metric; what is beyond is counted together under the label ``overflow``."""

LOOK_EVERY = 60.0
"""Seconds between two looks for idle names: each reads every series."""

OWN_PREFIX = "offpath_"


class SeriesReading(Struct, frozen=True, kw_only=True):
    """One series at one moment. ``value`` is the count for a summary, whose rest is set too."""

    name: str
    kind: MetricKind
    labels: dict[str, str]
    value: float
    total: float = 0.0
    min: float = 0.0
    max: float = 0.0
    avg: float = 0.0
    quantiles: dict[float, float] = {}
    buckets: tuple[tuple[float, int], ...] = ()
    """Upper bound and how many were at or under it; the last bound is infinite."""


class Series:
    """One metric with one combination of labels."""

    __slots__ = ("_owner", "labels", "metric")

    def __init__(self, owner: Metrics, metric: Metric, labels: Labels) -> None:
        self._owner = owner
        self.metric = metric
        self.labels = labels

    @property
    def mark(self) -> float:
        """A number that differs after a change."""
        raise NotImplementedError

    def read(self) -> SeriesReading:
        """The present state."""
        raise NotImplementedError

    def _reading(self, value: float) -> SeriesReading:
        return SeriesReading(
            name=self.metric.name, kind=self.metric.kind, labels=dict(self.labels), value=value
        )


class Counter(Series):
    """Only goes up."""

    __slots__ = ("value",)

    def __init__(self, owner: Metrics, metric: Metric, labels: Labels) -> None:
        super().__init__(owner, metric, labels)
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        """Count ``amount`` more; raises InvalidArgument when it is negative."""
        if amount < 0:
            raise InvalidArgument(f"the counter {self.metric.name} cannot go down by {-amount}")
        self.value += amount
        if self._owner.watched:
            self._owner.changed(self)

    @property
    def mark(self) -> float:
        """The present count."""
        return self.value

    def read(self) -> SeriesReading:
        """The present count."""
        return self._reading(self.value)


class Gauge(Series):
    """Goes up and down."""

    __slots__ = ("value",)

    def __init__(self, owner: Metrics, metric: Metric, labels: Labels) -> None:
        super().__init__(owner, metric, labels)
        self.value = 0.0

    def set(self, value: float) -> None:
        """Be ``value``."""
        self.value = value
        if self._owner.watched:
            self._owner.changed(self)

    def add(self, amount: float = 1) -> None:
        """Go up, or down when ``amount`` is negative."""
        self.value += amount  # as set() does, but once less called: six times for each job
        if self._owner.watched:
            self._owner.changed(self)

    def peak(self, value: float) -> None:
        """Be ``value`` if that is more."""
        if value > self.value:
            self.set(value)

    @property
    def mark(self) -> float:
        """The present value."""
        return self.value

    def read(self) -> SeriesReading:
        """The present value."""
        return self._reading(self.value)


class Summary(Series):
    """A summary of values: how often, how much, least, greatest, and quantiles by buckets."""

    __slots__ = ("_bounds", "_counts", "_floor", "count", "max", "min", "total")

    def __init__(self, owner: Metrics, metric: Metric, labels: Labels) -> None:
        super().__init__(owner, metric, labels)
        self._bounds = metric.bounds or DEFAULT_BOUNDS
        self._counts = [0] * (len(self._bounds) + 1)
        # Ours are durations and counts: one below zero is a clock that was set back.
        self._floor = 0.0 if metric.name in CATALOGUE else -math.inf
        self.count = 0
        self.total = 0.0
        self.min = math.inf
        self.max = -math.inf

    def observe_all(self, values: Sequence[float]) -> None:
        """Add many values: a fraction of what it costs to add them one by one."""
        if not values:
            return
        low = min(values)
        if low < self._floor:
            low = self._floor
            values = [max(value, low) for value in values]
        self.min = min(self.min, low)
        high = max(values)
        self.max = max(self.max, high)
        self.count += len(values)
        self.total += sum(values)
        bounds, counts = self._bounds, self._counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        if self._owner.watched:
            self._owner.changed(self)

    def observe(self, value: float, times: int = 1) -> None:
        """Add one value, or the same value several times."""
        # Comparisons and not max() and min(): three calls are most of what this would cost.
        if value < self._floor:  # noqa: PLR1730 - see above
            value = self._floor
        if value < self.min:  # noqa: PLR1730 - see above
            self.min = value
        if value > self.max:  # noqa: PLR1730 - see above
            self.max = value
        self.count += times
        self.total += value * times
        self._counts[bisect_left(self._bounds, value)] += times
        if self._owner.watched:
            self._owner.changed(self)

    def quantile(self, share: float) -> float:
        """The value that ``share`` (0 to 1) of the observed are at or under; 0 when there are none.

        Interpolated linearly in its bucket, and never outside of what was observed.
        """
        if not self.count:
            return 0.0
        rank = share * self.count
        below = 0
        for index, number in enumerate(self._counts[:-1]):
            if number and below + number >= rank:
                lower = self._bounds[index - 1] if index else min(0.0, self.min)
                inside = lower + (self._bounds[index] - lower) * (rank - below) / number
                return min(max(inside, self.min), self.max)
            below += number
        return self.max

    @property
    def mark(self) -> float:
        """The number of times that something was observed."""
        return self.count

    def read(self) -> SeriesReading:
        """Everything known of it; zeros when nothing was observed."""
        seen = self.count > 0
        return SeriesReading(
            name=self.metric.name,
            kind=self.metric.kind,
            labels=dict(self.labels),
            value=self.count,
            total=self.total,
            min=self.min if seen else 0.0,
            max=self.max if seen else 0.0,
            avg=self.total / self.count if seen else 0.0,
            quantiles={share: self.quantile(share) for share in QUANTILES},
            buckets=self._cumulated(),
        )

    def _cumulated(self) -> tuple[tuple[float, int], ...]:
        below = 0
        made: list[tuple[float, int]] = []
        for bound, number in zip((*self._bounds, math.inf), self._counts, strict=True):
            below += number
            made.append((bound, below))
        return tuple(made)


_S = TypeVar("_S", bound=Series)
_KINDS: dict[type[Series], MetricKind] = {
    Counter: MetricKind.COUNTER,
    Gauge: MetricKind.GAUGE,
    Summary: MetricKind.SUMMARY,
}
Subscriber = Callable[[Sequence[SeriesReading]], object]


class Metrics:
    """All series of one app.

    A name is bound to one kind. Names that begin with ``offpath_`` are the engine's and must be
    in the catalogue; any other name is the user's, with the labels the user likes.
    """

    __slots__ = (
        *("_idleness", "_looked_at", "_metrics", "_monotonic", "_names", "_series", "_sizes"),
        *("__weakref__", "_watchers", "generation", "watched"),
    )

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, *, most_names: int = MOST
    ) -> None:
        self._monotonic = monotonic
        self._names = SeriesNames(most_names, _log.warning)
        self._idleness = Idleness()
        self._looked_at = -math.inf
        self.generation = 0
        """Changes when series were dropped: whoever keeps some looks them up again."""
        self._metrics: dict[str, Metric] = {}
        self._series: dict[tuple[str, Labels], Series] = {}
        self._sizes: dict[str, int] = {}
        self._watchers: list[_Watcher] = []
        self.watched = False
        """True if anybody has subscribed: lets an unwatched series skip the rest."""

    def counter(self, name: str, **labels: str) -> Counter:
        """The counter of this name and these labels; raises InvalidArgument on another kind."""
        return self._of(Counter, name, labels)

    def gauge(self, name: str, **labels: str) -> Gauge:
        """The gauge of this name and these labels; raises InvalidArgument on another kind."""
        return self._of(Gauge, name, labels)

    def summary(self, name: str, **labels: str) -> Summary:
        """The summary of this name and these labels; raises InvalidArgument on another kind."""
        return self._of(Summary, name, labels)

    def keep(self, **name: str) -> None:
        """Give these labels series of their own past the cap too, which are never dropped."""
        self._names.keep(name)

    def labelled(self, **labels: str) -> dict[str, str]:
        """The labels under which a series of the engine's is counted, by the cap of names."""
        return dict(self._names.bounded(_sorted(labels)))

    @property
    def crowded(self) -> tuple[str, ...]:
        """One line for each kind of names whose cap was reached."""
        return tuple(self._names.crowded.values())

    def drop_idle(self) -> None:
        """Drop the series of names that did not change for an hour, at most once a minute.

        What moved under such a name stays in the sum: it is counted under ``other``. All else
        would be a rise there that never happened.
        """
        now = self._monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return
        self._looked_at = now
        idle = self._idleness.look(*self._marks(), now)
        for name in idle:
            self._drop(name)
        self.generation += bool(idle)

    def describe(self, metric: Metric) -> None:
        """Give a metric of the user's its help, labels and buckets, before its first use."""
        if metric.name.startswith(OWN_PREFIX):
            raise InvalidArgument(f"{metric.name}: names with {OWN_PREFIX} are the engine's")
        _check_bounds(metric)
        if self._metrics.setdefault(plain_name(metric.name), metric) != metric:
            raise InvalidArgument(f"the metric {metric.name} is in use already")

    def metric(self, name: str) -> Metric:
        """Kind, labels and help of a metric; raises InvalidArgument when there is none."""
        found = self._metrics.get(plain_name(name)) or CATALOGUE.get(name)
        if found is None:
            raise InvalidArgument(f"there is no metric {name}")
        return found

    def get(self, name: str, **labels: str) -> SeriesReading | None:
        """The reading of one series; None when it has never been used."""
        series = self._series.get((name, _sorted(labels)))
        return None if series is None else series.read()

    def _marks(self) -> tuple[dict[Labels, float], set[Labels]]:
        """A number for each name that may be dropped, and those of which something is there."""
        marks: dict[Labels, float] = {}
        live: set[Labels] = set()
        for one in self._series.values():
            name = opened(one.labels)
            if not one.metric.name.startswith(OWN_PREFIX) or not name or self._names.lasting(name):
                continue
            marks[name] = marks.get(name, 0.0) + one.mark
            if one.metric.name in LIVE and one.mark:
                live.add(name)
        return marks, live

    def _drop(self, name: Labels) -> None:
        of_name = [key for key, one in self._series.items() if opened(one.labels) == name]
        for key in of_name:
            if not key[0].startswith(OWN_PREFIX):
                continue
            gone = self._series.pop(key)
            self._sizes[key[0]] -= 1
            if gone.metric.name in MOVES and isinstance(gone, Counter):
                labels = {label: OTHER if label in OPEN else value for label, value in gone.labels}
                self.counter(key[0], **labels).add(gone.value)
        self._names.forget(name)

    def list(self, name: str | None = None) -> list[SeriesReading]:
        """Every series, or those of one metric, in the order in which they were first used."""
        every = tuple(self._series.values())
        return [one.read() for one in every if name is None or one.metric.name == name]

    def values(self, names: Collection[str]) -> Iterator[tuple[str, dict[str, str], float]]:
        """Name, labels and value of each series of these counters and gauges."""
        for one in tuple(self._series.values()):
            if one.metric.name in names and isinstance(one, Counter | Gauge):
                yield one.metric.name, dict(one.labels), one.value

    def subscribe(
        self, callback: Subscriber, loop: asyncio.AbstractEventLoop | None = None
    ) -> Callable[[], None]:
        """Tell ``callback`` in ``loop`` (the running one) which series changed, in batches.

        However often a series changes before the callback's turn, it is in the batch once, with
        its latest reading. A callback that raises is logged and stays. Returns how to end it.
        """
        watcher = _Watcher(callback, loop or asyncio.get_running_loop())
        self._watchers = [*self._watchers, watcher]
        self.watched = True

        def unsubscribe() -> None:
            self._watchers = [one for one in self._watchers if one is not watcher]
            self.watched = bool(self._watchers)
            watcher.end()

        return unsubscribe

    def changed(self, series: Series) -> None:
        """Note that a series changed, for those who watch."""
        for watcher in self._watchers:
            watcher.note(series)

    def _of(self, cls: type[_S], name: str, labels: Mapping[str, str]) -> _S:
        key = (name, _sorted(labels))
        found = self._series.get(key)
        if found is None:
            return self._made(cls, key)
        if not isinstance(found, cls):
            raise InvalidArgument(f"{name} is a {found.metric.kind}, not a {_KINDS[cls]}")
        return found

    def _made(self, cls: type[_S], key: tuple[str, Labels]) -> _S:
        name = key[0]
        labels = tuple((label, str(value)) for label, value in key[1])  # an enum's text is a str
        if name.startswith(OWN_PREFIX) and labels != (bounded := self._names.bounded(labels)):
            return self._of(cls, name, dict(bounded))
        metric = self._metric(name, _KINDS[cls], labels)
        if metric.kind is not _KINDS[cls]:
            raise InvalidArgument(f"{name} is a {metric.kind}, not a {_KINDS[cls]}")
        size = self._sizes.get(name, 0)
        if size >= SERIES_LIMIT and labels != _OVERFLOW:
            return self._of(cls, name, dict(_OVERFLOW))
        self._sizes[name] = size + 1
        made = cls(self, metric, labels)
        self._series[name, labels] = made
        return made

    def _metric(self, name: str, kind: MetricKind, labels: Labels) -> Metric:
        if name.startswith(OWN_PREFIX):
            return _own(name, labels)
        names = tuple(label for label, _ in labels)
        return self._metrics.setdefault(plain_name(name), Metric(name, kind, names, name))


_OVERFLOW: Labels = (("overflow", "true"),)


class _Watcher:
    """One subscriber, and what changed since it was last told."""

    __slots__ = ("_callback", "_ended", "_loop", "_pending")

    def __init__(self, callback: Subscriber, loop: asyncio.AbstractEventLoop) -> None:
        self._callback = callback
        self._loop = loop
        self._pending: dict[Series, None] = {}
        self._ended = False

    def note(self, series: Series) -> None:
        first = not self._pending
        self._pending[series] = None
        if first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell)

    def end(self) -> None:
        self._ended = True

    def _tell(self) -> None:
        batch, self._pending = self._pending, {}
        if self._ended:
            return
        try:
            self._callback([series.read() for series in batch])
        except Exception as error:  # noqa: BLE001 - one subscriber's fault is not the next one's
            _log.error("a metrics subscriber raised %s", type(error).__name__, exc_info=error)


def plain_name(name: str) -> str:
    """A name as Prometheus allows it: other characters become ``_``, a leading digit gets one."""
    plain = _NOT_ALLOWED.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() or not plain else plain


_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_]")


def _sorted(labels: Mapping[str, str]) -> Labels:
    if len(labels) < 2:  # noqa: PLR2004 - one or none is sorted
        return tuple(labels.items())
    return tuple(sorted(labels.items()))


def _own(name: str, labels: Labels) -> Metric:
    metric = CATALOGUE.get(name)
    if metric is None:
        raise InvalidArgument(f"the engine has no metric {name}: it is not in the catalogue")
    given = tuple(label for label, _ in labels)
    if labels != _OVERFLOW and given != _sorted_labels(metric):
        wanted = ", ".join(metric.labels) or "no labels"
        raise InvalidArgument(f"{name} is labelled by {wanted}, not by {', '.join(given)}")
    return metric


@lru_cache(maxsize=256)
def _sorted_labels(metric: Metric) -> tuple[str, ...]:
    return tuple(sorted(metric.labels))


def _check_bounds(metric: Metric) -> None:
    if list(metric.bounds) != sorted(set(metric.bounds)):
        raise InvalidArgument(f"the bounds of {metric.name} must rise")
