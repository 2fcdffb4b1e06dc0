"""The trace in headers: read from what arrives, and written to what leaves."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from offpath.errors import InvalidArgument

_trace = TraceContextTextMapPropagator()
_baggage = W3CBaggagePropagator()


class TraceHeaders:
    """The headers of jobs and messages: the trace always, of the baggage only what is named."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str):
            raise InvalidArgument(f"baggage is a list of names: write baggage=[{names!r}]")
        self._names = tuple(names)

    def write(self, headers: MutableMapping[str, str], context: Context) -> None:
        """Put the trace of ``context`` into headers."""
        _trace.inject(headers, context)
        if not self._names:
            return
        kept = Context()
        for name in self._names:
            if (value := baggage.get_baggage(name, context)) is not None:
                kept = baggage.set_baggage(name, value, kept)
        _baggage.inject(headers, kept)

    def read(self, headers: Mapping[str, str]) -> Context:
        """The context that headers tell of: empty where they tell of none."""
        found = _trace.extract(headers, Context())
        return self._with_baggage(headers, found)

    def root(self, headers: Mapping[str, str]) -> Context:
        """A context for a new trace, with the baggage of the headers."""
        return self._with_baggage(headers, Context())

    def _with_baggage(self, headers: Mapping[str, str], context: Context) -> Context:
        if not self._names or "baggage" not in headers:
            return context
        told = _baggage.extract(headers, Context())
        for name in self._names:
            if (value := baggage.get_baggage(name, told)) is not None:
                context = baggage.set_baggage(name, value, context)
        return context


def links_to(several: Sequence[Mapping[str, str]]) -> list[Link]:
    """Links to the spans that headers tell of."""
    spans = [get_current_span(_trace.extract(one, Context())) for one in several]
    return [Link(one.get_span_context()) for one in spans if one.get_span_context().is_valid]
