"""Providers that keep what is ended, and the spans of a scenario as plain text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from offpath.contrib.opentelemetry import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


@dataclass(slots=True)
class Recorder:
    """Providers of one test."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    tracers: TracerProvider = field(default_factory=TracerProvider)
    meters: MeterProvider | None = None

    def __post_init__(self) -> None:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider(metric_readers=[self.reader])

    def extension(self, **options: Any) -> OpenTelemetry:
        """The extension on these providers."""
        return OpenTelemetry(self.tracers, self.meters, **options)

    def ended(self) -> list[ReadableSpan]:
        """What has ended, in the order of the starts."""
        return sorted(self.spans.get_finished_spans(), key=lambda one: one.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        (found,) = [one for one in self.ended() if one.name == name]
        return found

    def points(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """The metrics by their names: attributes and value of each point."""
        read = self.reader.get_metrics_data()
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for resource in [] if read is None else read.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        value = getattr(point, "value", None)
                        value = getattr(point, "count", None) if value is None else value
                        found.setdefault(metric.name, []).append(
                            (dict(point.attributes or {}), value)
                        )
        return found


def told(spans: list[ReadableSpan]) -> str:
    """Spans as lines: name and kind, the parent's name, the names that links lead to, and status.

    They are sorted by their names, for what runs at once begins in any order. Traces are named by
    that order too, so the text is the same in each run.
    """
    spans = sorted(spans, key=lambda one: one.name)
    by_id = {one.context.span_id: one.name for one in spans}
    traces: dict[int, str] = {}
    lines = []
    for one in spans:
        trace = traces.setdefault(one.context.trace_id, f"trace {len(traces) + 1}")
        parent = "-" if one.parent is None else by_id.get(one.parent.span_id, "outside")
        links = sorted(by_id.get(link.context.span_id, "outside") for link in one.links)
        lines.append(
            f"{trace} | {one.kind.name} {one.name} | parent {parent} | "
            f"links {', '.join(links) or '-'} | {one.status.status_code.name}"
        )
        attributes = dict(sorted((one.attributes or {}).items()))
        attributes.pop("messaging.message.id", None)
        attributes.pop("messaging.message.conversation_id", None)
        lines += [f"    {name} = {value}" for name, value in attributes.items()]
    return "\n".join(lines) + "\n"
