"""The extension: a span for each commit, attempt, step and delivery."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    get_tracer_provider,
    set_span_in_context,
)

from offpath.contrib.opentelemetry import conventions as names
from offpath.contrib.opentelemetry.meters import Meters, error_type, keeps
from offpath.contrib.opentelemetry.travel import TraceHeaders, links_to
from offpath.errors import InvalidArgument
from offpath.extensions import (
    Applying,
    Committing,
    Delivering,
    Ended,
    Extension,
    NewEntry,
    Routing,
    Running,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider

_VERBS = {"job": "enqueue", "message": "publish", "event": "append"}
_FAILED = frozenset({"retry", "dead"})


class OpenTelemetry(Extension):
    """Spans and metrics for one app: ``App(url, extensions=[OpenTelemetry()])``.

    Without providers it takes those of the process; where there are none either when the app is
    opened, it is left out, and costs nothing. An attempt begins a trace of its own, which is linked
    to that of its enqueue. With ``parent=True``, for the tasks that ``parent`` names, and for those
    with ``@app.task(trace="parent")``, it is a child of it. Of many jobs of one commit each has a
    ``create`` span, unless ``create_spans=False``. Of the baggage what ``baggage`` names travels
    along, nothing else. ``metrics=False`` leaves the metrics out. Raises ``InvalidArgument``.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        parent: bool | Collection[str] = False,
        create_spans: bool = True,
        metrics: bool = True,
        baggage: Sequence[str] = (),
    ) -> None:
        if isinstance(parent, str):
            raise InvalidArgument(f"parent is True or names of tasks: write parent=[{parent!r}]")
        self._parent = parent
        self._create_spans = create_spans
        self._tracer_provider = tracer_provider
        self._travel = TraceHeaders(baggage)
        self._tracer = get_tracer(
            names.SCOPE, tracer_provider=tracer_provider, schema_url=names.SCHEMA_URL
        )
        self._meters = Meters(meter_provider) if metrics else None

    def active(self) -> bool:
        """True if there is a provider that keeps spans or metrics."""
        tracers = self._tracer_provider or get_tracer_provider()
        return keeps(tracers) or (self._meters is not None and self._meters.active())

    def opened(self, app: Any) -> None:  # noqa: ANN401 - an App
        """Its metrics are read from now on."""
        if self._meters is not None:
            self._meters.add(app.metrics)

    def closed(self, app: Any) -> None:  # noqa: ANN401 - an App
        """Its metrics are read no more."""
        if self._meters is not None:
            self._meters.remove(app.metrics)

    # -- what is written -------------------------------------------------------------------------

    @contextmanager
    def sending(self, new: Committing, /) -> Iterator[None]:
        """The span of a commit, and one for each of several entries."""
        around = _context_of(self, new.cause)
        entries = new.entries
        created = self._created(entries, around) if len(entries) > 1 else []
        links = [Link(one.get_span_context()) for one in created]
        if len(entries) == 1:  # what brings a trace along keeps it, as that of a message's sender
            links = links_to([entries[0].headers])
        span = self._sending_span(entries, around, links)
        inner = set_span_in_context(span, around)
        for at, entry in enumerate(entries):
            own = set_span_in_context(created[at], around) if created else inner
            self._travel.write(entry.headers, own)
        with self._current(span, inner):
            began = time.perf_counter()
            error: BaseException | None = None
            try:
                yield
            except BaseException as raised:
                error = raised
                raise
            finally:
                if self._meters is not None:
                    self._meters.sent(entries, time.perf_counter() - began, error)

    def _created(self, entries: Sequence[NewEntry], around: Context) -> list[Span]:
        if not self._create_spans:
            return []
        made = []
        for entry in entries:
            span = self._tracer.start_span(
                f"create {entry.name or entry.place}",
                around,
                SpanKind.PRODUCER,
                _entry_attributes(entry, "create", names.CREATE),
            )
            span.end()
            made.append(span)
        return made

    def _sending_span(
        self, entries: Sequence[NewEntry], around: Context, links: Sequence[Any]
    ) -> Span:
        first = entries[0]
        verb = _VERBS[first.kind] if first.name or first.kind != "message" else "accept"
        if len(entries) == 1:
            title = f"{verb} {first.name or first.place}"
            attributes = _entry_attributes(first, verb, names.SEND)
            return self._tracer.start_span(title, around, SpanKind.PRODUCER, attributes, links)
        shared = {entry.name for entry in entries}
        title = f"{verb} {first.name}" if len(shared) == 1 and first.name else verb
        attributes = {
            names.SYSTEM_NAME: names.SYSTEM,
            names.OPERATION_NAME: verb,
            names.OPERATION_TYPE: names.SEND,
            names.BATCH_COUNT: len(entries),
        }
        places = {entry.place for entry in entries}
        if len(places) == 1:
            attributes[names.DESTINATION] = first.place
        return self._tracer.start_span(title, around, SpanKind.CLIENT, attributes, links)

    # -- what runs -------------------------------------------------------------------------------

    @contextmanager
    def running(self, run: Running, /) -> Iterator[None]:
        """The span of an attempt; it ends when it is decided how that ended."""
        headers = [job.headers for job in run.jobs]
        root = self._travel.root(headers[0])
        child = len(headers) == 1 and self._is_child(run)
        around = self._travel.read(headers[0]) if child else root
        links = () if around is not root else links_to(headers)
        attributes: dict[str, Any] = {
            names.SYSTEM_NAME: names.SYSTEM,
            names.OPERATION_NAME: "run",
            names.OPERATION_TYPE: names.PROCESS,
            names.DESTINATION: run.queue,
            names.TASK: run.task,
        }
        if len(run.jobs) == 1:
            attributes |= {names.MESSAGE_ID: run.id, names.ATTEMPT: run.attempt}
            attributes[names.CONVERSATION] = run.jobs[0].group_id
        else:
            attributes[names.BATCH_COUNT] = len(run.jobs)
        span = self._tracer.start_span(
            f"run {run.task}", around, SpanKind.CONSUMER, attributes, links
        )
        run.state[self] = _Open(span, set_span_in_context(span, around), len(run.jobs))
        token = contexts.attach(run.state[self].context)
        try:
            yield
        finally:
            contexts.detach(token)

    def _is_child(self, run: Running) -> bool:
        """True if the attempt is a part of its enqueue's trace: what the task says counts first."""
        if run.trace is not None:
            return run.trace == "parent"
        return self._parent if isinstance(self._parent, bool) else run.task in self._parent

    def ended(self, run: Running, end: Ended, /) -> None:
        """The span of an attempt has its outcome; that of a batch ends with the last one."""
        if self._meters is not None:
            self._meters.ran(run, end)
        if (kept := run.state.get(self)) is None:
            return
        kept.left -= 1
        if kept.left == 0 or end.verdict in _FAILED:
            kept.span.set_attribute(names.OUTCOME, end.verdict)
        if end.verdict in _FAILED:
            _failed(kept.span, end.error)
        if kept.left == 0:
            kept.span.end()

    @contextmanager
    def stepping(self, run: Running, name: str, /) -> Iterator[None]:
        """The span of a step."""
        attributes = {names.TASK: run.task, names.STEP: name}
        around = _context_of(self, run)
        span = self._tracer.start_span(f"step {name}", around, attributes=attributes)
        with self._current(span, set_span_in_context(span, around)):
            yield

    # -- what is delivered -----------------------------------------------------------------------

    @contextmanager
    def delivering(self, out: Delivering, /) -> Iterator[None]:
        """The span of a dispatcher's call or a webhook's post, which takes the trace along."""
        topics = {message.topic for message in out.messages}
        attributes: dict[str, Any] = {
            names.SYSTEM_NAME: names.SYSTEM,
            names.OPERATION_NAME: "deliver",
            names.OPERATION_TYPE: names.SEND,
            names.DESTINATION: out.to,
        }
        if len(out.messages) == 1:
            attributes |= {
                names.MESSAGE_ID: out.messages[0].id,
                names.ATTEMPT: out.messages[0].attempt,
            }
        else:
            attributes[names.BATCH_COUNT] = len(out.messages)
        title = f"deliver {next(iter(topics))}" if len(topics) == 1 else f"deliver to {out.to}"
        headers = [message.headers for message in out.messages]
        with self._linked(title.strip(), SpanKind.CLIENT, headers, attributes) as context:
            for message in out.messages:
                self._travel.write(message.headers, context)
            yield

    @contextmanager
    def applying(self, message: Applying, /) -> Iterator[None]:
        """The span of an inbox message's handler."""
        attributes = {
            names.SYSTEM_NAME: names.SYSTEM,
            names.OPERATION_NAME: "apply",
            names.OPERATION_TYPE: names.PROCESS,
            names.DESTINATION: message.source,
            names.MESSAGE_ID: message.id,
            names.ATTEMPT: message.attempt,
        }
        title = f"apply {message.source}"
        with self._linked(title, SpanKind.CONSUMER, [message.headers], attributes) as context:
            message.state[self] = _Open(None, context, 1)
            yield

    @contextmanager
    def routing(self, event: Routing, /) -> Iterator[None]:
        """The span of an event's delivery along a route."""
        attributes = {
            names.ROUTER: event.router,
            names.ROUTE: event.route,
            names.DESTINATION: event.stream,
            names.MESSAGE_ID: event.event,
            names.ATTEMPT: event.attempt,
        }
        title = f"route {event.type}"
        with self._linked(title, SpanKind.INTERNAL, [event.headers], attributes):
            yield

    # -- spans -----------------------------------------------------------------------------------

    @contextmanager
    def _linked(
        self,
        title: str,
        kind: SpanKind,
        headers: Sequence[Mapping[str, str]],
        attributes: Mapping[str, Any],
    ) -> Iterator[Context]:
        """A span of a trace of its own, linked to those that the headers tell of."""
        root = self._travel.root(headers[0])
        span = self._tracer.start_span(title, root, kind, attributes, links_to(headers))
        context = set_span_in_context(span, root)
        with self._current(span, context):
            yield context

    @contextmanager
    def _current(self, span: Span, context: Context) -> Iterator[None]:
        """The span is current, and ends with the block, which may fail."""
        token = contexts.attach(context)
        try:
            yield
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            contexts.detach(token)
            span.end()


class _Open:
    """A span that is kept from the call of a handler to its end."""

    __slots__ = ("context", "left", "span")

    def __init__(self, span: Any, context: Context, left: int) -> None:  # noqa: ANN401 - a Span or None
        self.span = span
        self.context = context
        self.left = left
        """The number of jobs that have not ended yet."""


def _context_of(extension: OpenTelemetry, cause: Running | Applying | None) -> Context:
    """The context of a handler's call, or that of the code that runs."""
    kept = None if cause is None else cause.state.get(extension)
    return contexts.get_current() if kept is None else kept.context


def _entry_attributes(entry: NewEntry, operation: str, kind: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        names.SYSTEM_NAME: names.SYSTEM,
        names.OPERATION_NAME: operation,
        names.OPERATION_TYPE: kind,
        names.DESTINATION: entry.place,
        names.MESSAGE_ID: entry.id,
    }
    if entry.kind == "job":
        attributes |= {names.TASK: entry.name, names.CONVERSATION: entry.group_id or entry.id}
    return attributes


def _failed(span: Span, error: BaseException | None) -> None:
    """The span is one of a failure. The error's text may quote an argument, so it has its type."""
    if error is None:
        span.set_status(Status(StatusCode.ERROR))
        return
    span.record_exception(error)
    span.set_attribute(names.ERROR_TYPE, error_type(error))
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))
