"""The integration that ``sentry_sdk.init`` takes, and the extension that it installs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import sentry_sdk
from sentry_sdk.integrations import Integration
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.utils import event_from_exception

from offpath.contrib.sentry.monitors import ScheduleMonitors
from offpath.errors import InvalidArgument
from offpath.extensions import Committing, Ended, Extension, Running, extend
from offpath.model.event import EventKind, JobEvent
from offpath.model.job import DeadReason

if TYPE_CHECKING:
    from offpath.app import App

ORIGIN: Final = "auto.queue.offpath"
FLUSH: Final = 2.0
"""Seconds that what is not sent yet may take when an app is closed."""
_TRACES: Final = ("link", "continue")
MOST_JOBS: Final = 100
"""Jobs of a batch that an event names."""
_BODIES: Final = {"never": 0, "small": 1_000, "medium": 10_000, "always": math.inf}
"""Bytes that each ``max_request_body_size`` allows."""
_LOST: Final = "workers died holding the job as often as max_deliveries allows"
_FAILED: Final = frozenset({"retry", "dead"})


class OffpathIntegration(Integration):
    """Errors, transactions and queue spans of every app of the process.

    ``final_only``: an error is reported when the job is dead, not for each attempt.
    ``monitor_schedules``: each occurrence of a schedule is a check-in of a cron monitor.
    ``traces="link"``: an attempt is a trace of its own, for fan-outs of thousands cannot be opened
    in one; ``"continue"`` goes on with that of the enqueue, which is Sentry's habit. Raises
    ``InvalidArgument``.
    """

    identifier = "offpath"
    origin = ORIGIN

    def __init__(
        self,
        *,
        final_only: bool = True,
        monitor_schedules: bool = False,
        traces: Literal["link", "continue"] = "link",
    ) -> None:
        if traces not in _TRACES:
            raise InvalidArgument(f"traces is one of {', '.join(_TRACES)}, not {traces!r}")
        self.final_only = final_only
        self.monitor_schedules = monitor_schedules
        self.traces = traces

    @staticmethod
    def setup_once() -> None:
        """Install the extension; called once a process."""
        # the SDK makes an error of each record of that level, and ours tells of the same death
        ignore_logger("offpath.jobs")
        extend(_EXTENSION)


class SentryExtension(Extension):
    """The work of the integration; left out where no client has it when an app is opened."""

    def __init__(self) -> None:
        self._monitors = ScheduleMonitors()
        self._secrets: set[str] = set()

    def opened(self, app: App) -> None:
        """Know the schedules of an app, and the names that it hides."""
        self._monitors.opened(app)
        self._secrets.update(app.settings.redact)

    def active(self) -> bool:
        """True if there is a client with the integration."""
        return _settings() is not None

    @contextmanager
    def sending(self, new: Committing, /) -> Iterator[None]:
        """A ``queue.publish`` span inside of a transaction, and the trace in the headers."""
        if _settings() is None:
            yield
            return
        if sentry_sdk.get_current_span() is None:
            for entry in new.entries:
                _write_trace(entry.headers)
            yield
            return
        first = new.entries[0]
        with sentry_sdk.start_span(
            op="queue.publish", name=first.name or first.place, origin=ORIGIN
        ) as span:
            span.set_data("messaging.system", "offpath")
            span.set_data("messaging.destination.name", first.place)
            if len(new.entries) == 1:
                span.set_data("messaging.message.id", first.id)
                span.set_data("messaging.message.body.size", first.size)
            else:
                span.set_data("messaging.batch.message_count", len(new.entries))
            for entry in new.entries:
                _write_trace(entry.headers)
            yield

    @contextmanager
    def running(self, run: Running, /) -> Iterator[None]:
        """A scope and a transaction of its own for each attempt."""
        settings = _settings()
        if settings is None:
            yield
            return
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            _describe(scope, run, self._secrets)
            if settings.monitor_schedules:
                self._monitors.began(run.jobs[0])
            run.state[self] = scope
            headers = dict(run.headers) if settings.traces == "continue" else {}
            transaction = sentry_sdk.continue_trace(
                headers, op="queue.task", name=run.task, source="task", origin=ORIGIN
            )
            with (
                sentry_sdk.start_transaction(transaction) as opened,
                sentry_sdk.start_span(op="queue.process", name=run.task, origin=ORIGIN) as span,
            ):
                for name, value in _process_data(run).items():
                    span.set_data(name, value)
                try:
                    yield
                except BaseException:
                    opened.set_status("internal_error")
                    raise
                opened.set_status("ok")

    def ended(self, run: Running, end: Ended, /) -> None:
        """Report an attempt's error, with the scope that it had, and the end of an occurrence."""
        settings, scope = _settings(), run.state.get(self)
        if settings is not None and settings.monitor_schedules:
            self._monitors.ended(end)
        if settings is None or scope is None or end.error is None or end.verdict not in _FAILED:
            return
        if settings.final_only and end.verdict != "dead":
            return
        client = sentry_sdk.get_client()
        event, hint = event_from_exception(
            end.error,
            client_options=client.options,
            mechanism={"type": "offpath", "handled": end.verdict == "retry"},
        )
        with sentry_sdk.scope.use_isolation_scope(scope):
            sentry_sdk.capture_event(event, hint=hint)

    def moved(self, event: JobEvent, /) -> None:
        """Report a job that is dead since its workers died: no attempt of it has ended."""
        lost = event.kind is EventKind.DEAD and event.reason is DeadReason.WORKER_LOST
        settings = _settings()
        if not lost or settings is None:
            return
        if settings.monitor_schedules:
            self._monitors.lost(event)
        cause = {"type": "WorkerLost", "value": _LOST}
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            _tag(scope, event.task, event.queue, event.attempt)
            scope.set_context("offpath", {"jobs": [event.id], "group": event.group_id})
            # without a stack Sentry would go by the text, which is that of every task
            scope.fingerprint = ["offpath.worker_lost", event.task]
            sentry_sdk.capture_event(
                {
                    "level": "error",
                    "transaction": event.task,
                    "exception": {
                        "values": [{**cause, "mechanism": {"type": "offpath", "handled": False}}]
                    },
                }
            )

    def closed(self, app: object) -> None:
        """Send what waits, within a limit."""
        self._monitors.closed(app)
        if _settings() is not None:
            sentry_sdk.flush(timeout=FLUSH)


_EXTENSION: Final = SentryExtension()


def _settings() -> OffpathIntegration | None:
    found: OffpathIntegration | None = sentry_sdk.get_client().get_integration(OffpathIntegration)
    return found


def _write_trace(headers: dict[str, str]) -> None:
    scope = sentry_sdk.get_current_scope()
    if (trace := scope.get_traceparent()) is not None:
        headers["sentry-trace"] = trace
    if (baggage := scope.get_baggage()) is not None and (text := baggage.serialize()):
        headers["baggage"] = text


def _describe(scope: Any, run: Running, secrets: Iterable[str]) -> None:  # noqa: ANN401 - a Scope
    first = run.jobs[0]
    _tag(scope, run.task, first.queue, first.attempt)
    scope.set_context(
        "offpath",
        {
            "jobs": [one.id for one in run.jobs[:MOST_JOBS]],
            "group": first.group_id,
            "deliveries": first.deliveries,
            "headers": sorted(first.headers),
            **_arguments(run, secrets),
        },
    )


def _tag(scope: Any, task: str, queue: str, attempt: int) -> None:  # noqa: ANN401 - a Scope
    scope.set_tag("task", task)
    scope.set_tag("queue", queue)
    scope.set_tag("attempt", str(attempt))


def _arguments(run: Running, secrets: Iterable[str]) -> dict[str, Any]:
    """The arguments of a call, as the options of the client allow; of a batch those of each job."""
    client = sentry_sdk.get_client()
    kind = client.options["max_request_body_size"]
    most = _BODIES.get(kind, 0)
    if most == 0 or not _may_be_sent(client):
        return {}
    jobs = run.jobs[:MOST_JOBS]
    size = sum(one.size for one in jobs)
    if size > most:
        return {"arguments": f"left out: {size} bytes, and max_request_body_size is {kind!r}"}
    shown = [one.shown_arguments(secrets) for one in jobs]
    return {"arguments": shown[0] if len(run.jobs) == 1 else shown}


def _may_be_sent(client: Any) -> bool:  # noqa: ANN401 - a client of the SDK
    """True if a service lets the SDK send what is in its queues."""
    collected = client.options.get("data_collection") or {}  # the newer SDKs have it
    if collected.get("provided_by_user"):
        return bool(collected.get("queues"))
    return bool(client.should_send_default_pii())


def _process_data(run: Running) -> dict[str, Any]:
    first = run.jobs[0]
    waited = (datetime.now(UTC) - first.enqueued_at).total_seconds()
    return {
        "messaging.system": "offpath",
        "messaging.message.id": first.id,
        "messaging.destination.name": first.queue,
        "messaging.message.body.size": first.size,
        "messaging.message.retry.count": first.attempt - 1,
        "messaging.message.receive.latency": max(waited, 0.0) * 1000,
    }
