"""The job that runs here, for the records of any library of logging."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from offpath.extensions import Extension, Running

_RUN: Final[ContextVar[Running | None]] = ContextVar("offpath_logged_run", default=None)
NAMES: Final = ("job_id", "task", "queue", "attempt", "group_id", "correlation_id")
"""The fields of a job."""


class JobLogging(Extension):
    """Lets filters and processors know the job that runs here."""

    @contextmanager
    def running(self, run: Running, /) -> Iterator[None]:
        """The handler's task or thread has the job."""
        token = _RUN.set(run)
        try:
            yield
        finally:
            _RUN.reset(token)


def job_fields() -> dict[str, Any]:
    """The fields of the job whose handler runs here; empty outside of one, ids alone of a batch."""
    run = _RUN.get()
    if run is None:
        return {}
    first = run.jobs[0]
    if len(run.jobs) > 1:
        return {
            "task": run.task,
            "queue": run.queue,
            "job_id": ",".join(one.id for one in run.jobs),
        }
    return {
        "job_id": first.id,
        "task": run.task,
        "queue": first.queue,
        "attempt": first.attempt,
        "group_id": first.group_id,
        "correlation_id": first.headers.get("correlation-id"),
    }
