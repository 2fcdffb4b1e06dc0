"""The signs that a worker process gives systemd (``Type=notify``, ``WatchdogSec=``)."""

from __future__ import annotations

from offpath.errors import ConfigurationError
from offpath.jobs.worker.worker import Worker
from offpath.model.health import Condition, WorkerReport
from offpath.runtime.notify import Notifier, Signs


def signs_of(worker: Worker) -> Signs:
    """The signs of a worker, judged now."""
    return signs(worker.report(), stopping=worker.stopping)


def signs(report: WorkerReport, *, stopping: bool = False) -> Signs:
    """The signs that a report amounts to.

    Ready once every critical loop has succeeded. The watchdog is fed while none of them hangs or
    is kept from its work: rows that fail for good, and old work in the queue, would not end by a
    restart of this worker.
    """
    critical = [loop for loop in report.loops if loop.critical]
    running = sum(report.running.values())
    return Signs(
        ready=bool(critical) and all(loop.healthy for loop in critical),
        progressing=all(
            loop.fresh or loop.condition is not Condition.UNHEALTHY for loop in critical
        ),
        stopping=stopping,
        status=next(iter(report.reasons), f"{running} jobs in hand"),
    )


def notifier(processes: int, *, child: bool) -> Notifier | None:
    """The service manager that wants signs, if there is one.

    Raises ``ConfigurationError`` for several processes: a watchdog that any of them feeds would
    not see one that hangs.
    """
    found = None if child else Notifier.from_environment()
    if found is not None and processes > 1:
        raise ConfigurationError(
            "a unit of Type=notify watches one process: start several units "
            "(offpath-worker@1, offpath-worker@2, …) instead of --processes"
        )
    return found
