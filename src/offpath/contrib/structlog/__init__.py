"""structlog: the job on every event that is logged while its handler runs.

``structlog.configure(processors=[add_job, …])`` and ``App(url, extensions=[JobLogging()])``; or
``App(url, extensions=[BindJob()])`` where ``structlog.contextvars.merge_contextvars`` is in use.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from offpath.errors import MissingExtra

try:
    from structlog.contextvars import bind_contextvars, reset_contextvars
except ImportError as error:
    raise MissingExtra("offpath.contrib.structlog needs structlog", "structlog") from error

from offpath.contrib.job_fields import JobLogging, job_fields
from offpath.extensions import Running

__all__ = ["BindJob", "JobLogging", "add_job"]


def add_job(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """The processor that adds job, task, queue and attempt; what the event names itself stays."""
    for name, value in job_fields().items():
        if value is not None:
            event.setdefault(name, value)
    return event


class BindJob(JobLogging):
    """Binds ``job_id`` and ``task`` to the context of a handler, and sets back what was there.

    What the application bound process-wide stays, and so does what a handler binds, until it ends.
    """

    @contextmanager
    def running(self, run: Running, /) -> Iterator[None]:
        """The handler's task or thread has them bound."""
        with super().running(run):
            found = job_fields()
            tokens = bind_contextvars(job_id=found["job_id"], task=found["task"])
            try:
                yield
            finally:
                reset_contextvars(**tokens)
