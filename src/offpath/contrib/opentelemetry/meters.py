"""Metrics: those of the conventions, and every one of our catalogue as an observable instrument."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.metrics import CallbackOptions, Observation, get_meter, get_meter_provider

from offpath.contrib.opentelemetry import conventions as names
from offpath.runtime.catalogue import CATALOGUE, MetricKind
from offpath.runtime.forks import ProcessLock

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider

    from offpath.extensions import Ended, NewEntry, Running
    from offpath.runtime.metrics import Metrics, SeriesReading

_PARTS: Final = {"count": "value", "sum": "total"}
"""The two counters that a histogram of ours is: the API has none that is observed."""

_API: Final = ("opentelemetry.trace", "opentelemetry.metrics")


class Meters:
    """The instruments of one extension, over the metrics of the apps that are open."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = get_meter(names.SCOPE, meter_provider=provider, schema_url=names.SCHEMA_URL)
        self._provider = provider
        self._lock = ProcessLock()
        self._open: list[Metrics] = []
        bounds = list(names.DURATION_BOUNDS)
        self._sent = meter.create_counter(names.SENT, "{message}", "Messages sent.")
        self._consumed = meter.create_counter(names.CONSUMED, "{message}", "Messages handed out.")
        self._operation = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "Duration of a send.",
            explicit_bucket_boundaries_advisory=bounds,
        )
        self._process = meter.create_histogram(
            names.PROCESS_DURATION,
            "s",
            "Duration of an attempt.",
            explicit_bucket_boundaries_advisory=bounds,
        )
        self._observe(meter)

    def active(self) -> bool:
        """True if there is a provider that reads them."""
        return keeps(self._provider or get_meter_provider())

    def add(self, metrics: Metrics) -> None:
        """Read these from now on."""
        with self._lock:
            if not any(one is metrics for one in self._open):
                self._open.append(metrics)

    def remove(self, metrics: Metrics) -> None:
        """Read these no more."""
        with self._lock:
            self._open = [one for one in self._open if one is not metrics]

    # -- the conventions' ------------------------------------------------------------------------

    def sent(
        self, entries: Sequence[NewEntry], seconds: float, error: BaseException | None
    ) -> None:
        """A commit of these entries has ended."""
        counts: defaultdict[str, int] = defaultdict(int)
        for entry in entries:
            counts[entry.place] += 1
        for place, count in counts.items():
            attributes = {
                names.SYSTEM_NAME: names.SYSTEM,
                names.OPERATION_NAME: names.SEND,
                names.DESTINATION: place,
            }
            if error is not None:
                attributes[names.ERROR_TYPE] = error_type(error)
            self._sent.add(count, attributes)
            self._operation.record(seconds, {**attributes, names.OPERATION_TYPE: names.SEND})

    def ran(self, run: Running, end: Ended) -> None:
        """An attempt of one job has ended."""
        attributes: dict[str, Any] = {
            names.SYSTEM_NAME: names.SYSTEM,
            names.OPERATION_NAME: "run",
            names.DESTINATION: end.job.queue,
            names.TASK: run.task,
        }
        if end.error is not None and end.verdict in {"retry", "dead"}:
            attributes[names.ERROR_TYPE] = error_type(end.error)
        self._consumed.add(1, attributes)
        self._process.record(end.duration, attributes)

    # -- the catalogue's -------------------------------------------------------------------------

    def _observe(self, meter: Meter) -> None:
        for name, metric in CATALOGUE.items():
            dotted = _dotted(name)
            match metric.kind:
                case MetricKind.COUNTER:
                    meter.create_observable_counter(
                        dotted,
                        [self._reader(name, "value")],
                        description=metric.help,
                    )
                case MetricKind.GAUGE:
                    meter.create_observable_gauge(
                        dotted, [self._reader(name, "value")], description=metric.help
                    )
                case MetricKind.SUMMARY:
                    for part, field in _PARTS.items():
                        meter.create_observable_counter(
                            f"{dotted}.{part}",
                            [self._reader(name, field)],
                            description=metric.help,
                        )

    def _reader(self, name: str, field: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def read(_: CallbackOptions) -> Iterator[Observation]:
            sums: defaultdict[tuple[tuple[str, str], ...], float] = defaultdict(float)
            for reading in self._readings(name):
                sums[tuple(sorted(reading.labels.items()))] += getattr(reading, field)
            for labels, value in sums.items():
                yield Observation(value, dict(labels))

        return read

    def _readings(self, name: str) -> Iterator[SeriesReading]:
        with self._lock:
            several = tuple(self._open)
        for metrics in several:
            yield from metrics.list(name)


def keeps(provider: object) -> bool:
    """True if a provider is more than those of the API, which hand out what does nothing.

    One of them stands in for the process's provider until that is set.
    """
    return not type(provider).__module__.startswith(_API)


def error_type(error: BaseException) -> str:
    """The name of an error's class, with its module where that is not Python's own."""
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _dotted(name: str) -> str:
    """``offpath_jobs_queued_total`` as ``offpath.jobs_queued``: their form of a name."""
    return "offpath." + name.removeprefix("offpath_").removesuffix("_total")
