"""Metrics as Prometheus text, through prometheus-client (the extra ``metrics``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offpath.errors import MissingExtra
from offpath.runtime.catalogue import MetricKind
from offpath.runtime.metrics import plain_name

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from offpath.runtime.metrics import Metrics, SeriesReading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of :func:`exposition`, for an HTTP answer."""

_TYPES = {
    MetricKind.COUNTER: "counter",
    MetricKind.GAUGE: "gauge",
    MetricKind.SUMMARY: "histogram",
}
Sample = tuple[str, dict[str, str], float]


class MetricsCollector:
    """A collector for a ``prometheus_client`` registry: puts our metrics beside your own.

    Raises MissingExtra when prometheus-client is not installed.
    """

    def __init__(self, metrics: Metrics) -> None:
        _require_library()
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        """Every metric that has a series, as a metric family."""
        from prometheus_client.core import Metric as Family

        families: dict[str, Family] = {}
        for reading in self._metrics.list():
            name = _family_name(reading)
            if name not in families:
                text = self._metrics.metric(reading.name).help
                families[name] = Family(name, text, _TYPES[reading.kind])
            for suffix, labels, value in _samples(reading):
                families[name].add_sample(f"{name}{suffix}", labels, value)
        yield from families.values()

    def describe(self) -> list[Family]:
        """Nothing: families come to be as their series do."""
        return []


def exposition(metrics: Metrics) -> str:
    """All metrics as text; raises MissingExtra when prometheus-client is not installed."""
    _require_library()
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(metrics))
    return generate_latest(registry).decode()


def _require_library() -> None:
    try:
        import prometheus_client  # noqa: F401 - is it there?
    except ImportError as error:
        raise MissingExtra("Prometheus text needs prometheus-client", "metrics") from error


def _family_name(reading: SeriesReading) -> str:
    """The library adds ``_total`` to a counter by itself."""
    name = plain_name(reading.name)
    return name.removesuffix("_total") if reading.kind is MetricKind.COUNTER else name


def _samples(reading: SeriesReading) -> Iterator[Sample]:
    labels = {plain_name(name): value for name, value in reading.labels.items()}
    match reading.kind:
        case MetricKind.COUNTER:
            yield "_total", labels, reading.value
        case MetricKind.GAUGE:
            yield "", labels, reading.value
        case MetricKind.SUMMARY:
            for bound, below in reading.buckets:
                yield "_bucket", {**labels, "le": _bound(bound)}, below
            yield "_count", labels, reading.value
            yield "_sum", labels, reading.total


def _bound(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else repr(float(bound))
