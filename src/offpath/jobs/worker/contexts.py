"""Making the contexts of attempts, with what their log records are to carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpath.jobs.handler.batch_context import BatchItem
from offpath.jobs.handler.context import Context, JobContext
from offpath.jobs.handler.notes import Notes
from offpath.runtime.seats import called

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.handler.host import Host
    from offpath.jobs.values.run import Run
    from offpath.jobs.values.runnable import LogContext


class Contexts:
    """Makes contexts. One for all of a worker's jobs; it keeps nothing between them."""

    def __init__(
        self,
        host: Host,
        *,
        report: Callable[[BaseException, str], None],
        log_context: LogContext | None = None,
    ) -> None:
        self._host = host
        self._report = report
        self._log_context = log_context

    def provide(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JobContext | None:
        """The context of a run whose handler, or a hook, wants one; the run keeps its notes."""
        task = run.task
        if not (task.takes_context or self._log_context or task.log_context):
            return None
        kind = Context if task.batch is None else BatchItem
        run.context = notes = Notes(run, self._host)
        return kind(notes, self._log_fields(run, args, kwargs))

    def item(self, run: Run, value: Any) -> BatchItem:  # noqa: ANN401 - any input
        """Give a job of a call its context."""
        run.context = notes = Notes(run, self._host)
        return BatchItem(notes, self._log_fields(run, (value,), {}))

    def _log_fields(
        self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for callback in (self._log_context, run.task.log_context):
            if callback is not None:
                try:
                    fields.update(called(callback, *args, **kwargs))
                except Exception as error:  # noqa: BLE001 - a log line is not worth a job
                    self._report(error, "log_context")
        return fields
