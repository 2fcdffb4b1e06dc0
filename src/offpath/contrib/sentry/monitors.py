"""Cron monitors: a check-in of Sentry's for each occurrence of a schedule."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from weakref import WeakSet

from sentry_sdk.crons import capture_checkin

from offpath.jobs.schedules.occurrences import occurrence_id
from offpath.model.options import decode_run
from offpath.model.schedule import Schedule, TimingKind

if TYPE_CHECKING:
    from offpath.extensions import Ended, RunningJob
    from offpath.model.event import JobEvent
    from offpath.runtime.extension import Verdict

_STATUS: Final[dict[Verdict, str]] = {"succeeded": "ok", "dead": "error", "cancelled": "error"}
"""The ends of an occurrence; after every other one its job runs again."""
_OTHER: Final = re.compile(r"[^a-z0-9_-]+")
_LONGEST: Final = 50
"""Characters of a slug."""
_MINUTE: Final = 60.0
_FIELDS: Final = 5
"""Fields of a crontab of Sentry's: it knows no seconds."""


class ScheduleMonitors:
    """Tells Sentry of the occurrences of the schedules that the code of its apps defines.

    A monitor is made and changed by its check-ins. Sentry itself notices the one that does not
    come. What runs more often than once a minute, or at times that a function gives, has none.
    """

    def __init__(self) -> None:
        self._apps: WeakSet[Any] = WeakSet()

    def opened(self, app: Any) -> None:  # noqa: ANN401 - an offpath.App
        """Know the schedules of an app."""
        self._apps.add(app)

    def closed(self, app: Any) -> None:  # noqa: ANN401 - as above
        """Forget them: nothing of it runs any more."""
        self._apps.discard(app)

    def began(self, job: RunningJob) -> None:
        """Tell that the job of an occurrence runs."""
        self._tell(job, "in_progress", None)

    def ended(self, end: Ended) -> None:
        """Tell how an occurrence ended, unless its job will run again."""
        if (status := _STATUS.get(end.verdict)) is not None:
            self._tell(end.job, status, end.duration)

    def lost(self, event: JobEvent) -> None:
        """Tell that the job of an occurrence is dead since its workers died."""
        self._tell(event, "error", None)

    def _tell(self, job: RunningJob | JobEvent, status: str, duration: float | None) -> None:
        if (at := job.scheduled_for) is None:
            return
        for schedule in self._schedules():
            if occurrence_id(schedule.name, at) == job.id:
                _check_in(schedule, job.id, status, duration)
                return

    def _schedules(self) -> Iterator[Schedule]:
        for app in tuple(self._apps):
            yield from app.schedules.definitions.values()


def _check_in(schedule: Schedule, job_id: str, status: str, duration: float | None) -> None:
    config = monitor_config(schedule)
    if config is not None:
        capture_checkin(
            monitor_slug=slug_of(schedule.name),
            check_in_id=UUID(job_id).hex,  # the same for all attempts
            status=status,
            duration=duration,
            monitor_config=config,
        )


def slug_of(name: str) -> str:
    """The slug of the monitor of a schedule."""
    return _OTHER.sub("-", name.lower()).strip("-")[:_LONGEST]


def monitor_config(schedule: Schedule) -> Any:  # noqa: ANN401 - a MonitorConfig
    """A schedule in Sentry's words; None for one that it cannot watch."""
    timing = schedule.timing
    match timing.kind:
        case TimingKind.CRON if timing.expression and _watchable(timing.expression):
            known: dict[str, Any] = {"type": "crontab", "value": timing.expression}
        case TimingKind.EVERY if timing.seconds and timing.seconds % _MINUTE == 0:
            minutes = int(timing.seconds / _MINUTE)
            known = {"type": "interval", "value": minutes, "unit": "minute"}
        case _:
            return None
    config: dict[str, Any] = {"schedule": known, "timezone": timing.zone}
    config["checkin_margin"] = max(1, math.ceil(schedule.grace / _MINUTE))
    limit = decode_run(schedule.template.options).timeout
    if limit is not None:
        config["max_runtime"] = max(1, math.ceil(limit / _MINUTE))
    return config


def _watchable(expression: str) -> bool:
    return expression.startswith("@") or len(expression.split()) == _FIELDS
