"""Logging: the job on every record of its handler, also of loggers that know nothing of jobs.

``handler.addFilter(JobLogFilter())``, and ``%(job_id)s`` in its format. The app needs
``extensions=[JobLogging()]``. Nothing but the standard library.
"""

from __future__ import annotations

import logging
import sys

from offpath.contrib.job_fields import NAMES, JobLogging, job_fields

__all__ = ["JobLogFilter", "JobLogging"]


class JobLogFilter(logging.Filter):
    """Puts the job on every record that is logged while its handler runs.

    ``job_id``, ``task``, ``queue``, ``attempt``, ``group_id`` and ``correlation_id`` (the header
    ``correlation-id``), each None outside of a handler; ``trace_id`` and ``span_id`` where
    OpenTelemetry is loaded and a span is current. What a record has already stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; no record is held back."""
        found = job_fields()
        for name in NAMES:
            if not hasattr(record, name):
                setattr(record, name, found.get(name))
        for name, value in _trace_fields().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def _trace_fields() -> dict[str, str]:
    trace = sys.modules.get("opentelemetry.trace")  # who does not use it does not pay for it
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
