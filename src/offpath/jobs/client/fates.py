"""The log lines that say what became of jobs: one for each attempt that did not simply succeed.

An observer of the instrumented store, so no transition passes it by: whoever made it, a worker's
settlement, a rescue, an expiry, an operator's call, is the process that logs it. The lines are told
after the commit. A foreign error's text may quote arguments, so by default only its type is shown;
the setting ``log_errors`` adds the text as it was recorded, and the traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import MsgspecError, Struct

from offpath.config import LogErrors
from offpath.model.event import EventKind
from offpath.model.job import DeadReason, Failure, JobState
from offpath.model.options import decode_run
from offpath.model.settlement import Cancelled, Dead, Retry, Snoozed, Waiting
from offpath.runtime import log

if TYPE_CHECKING:
    from offpath.jobs.values.runnable import Runnable
    from offpath.store.telemetry.moves import Move, MoveStep

TRACEBACK: Final = "traceback"
"""The field of a record that has an attempt's traceback, which is not part of the line."""

OWN_FIELDS: Final = frozenset(
    ("job_id", "task", "queue", "state", "attempt", "attempts", "reason", "error_type", "run_at")
)
"""Fields of a line for programs: what its text says to people."""
_log = log.logger("jobs")
FATES: Final = _log.logger.name
"""The logger of these lines."""
_K = EventKind


class Fate(Struct, frozen=True):
    """One line: how loud it is, and what it says of the job before its name."""

    level: int
    text: str


_FATES: Final[tuple[tuple[EventKind, Fate], ...]] = (
    # the first that fits: a death is told once, whatever came before it in the same step
    (_K.DEAD, Fate(logging.ERROR, "dead")),
    (_K.CANCELLED, Fate(logging.INFO, "cancelled")),
    (_K.FAILED, Fate(logging.WARNING, "failed")),
    (_K.RESCUED, Fate(logging.WARNING, "rescued from a worker that is lost")),
    (_K.RELEASED, Fate(logging.INFO, "given back")),
    (_K.SNOOZED, Fate(logging.INFO, "put off")),
    (_K.SUCCEEDED, Fate(logging.DEBUG, "succeeded")),
)


class Fates:
    """Writes the lines. ``tasks`` are the app's: they know how often a job may be tried."""

    ends_only = True
    tasks = None

    def __init__(self, tasks: Mapping[str, Runnable], detail: LogErrors = "type") -> None:
        self._tasks = tasks
        self._detail = detail

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:  # noqa: ARG002 - an observer's
        """Write what these transitions mean for their jobs. Never raises."""
        # steps of one way share their move, so a batch costs one look for each way it knows
        told = {way: fate for way in {step.move for step in steps} if (fate := _loud(way))}
        if told:
            for step in steps:
                if step.move in told:
                    self._write(step, told[step.move])

    def _write(self, step: MoveStep, fate: Fate) -> None:
        failure = _failure(step)
        attempts = self._attempts(step)
        _log.log(
            fate.level,
            "%s: %s %s%s%s%s%s",
            fate.text,
            step.job.task,
            step.job.id,
            _which(step, attempts),
            _why(step, failure, self._detail),
            _next(step),
            _command(step, fate),
            extra=_fields(step, attempts, failure, self._detail),
        )

    def _attempts(self, step: MoveStep) -> int | None:
        """The number of times that the job may be tried; None where this process does not know."""
        task, options = self._tasks.get(step.job.task), getattr(step.job, "options", None)
        if options is None:
            return None
        try:
            run = decode_run(options)
        except MsgspecError:
            return None
        if run.of_task:
            return None if task is None else task.own_options.retry.attempts
        return run.retry.attempts


def _loud(way: Move) -> Fate | None:
    """The line for a step of this way, if anybody is to see it."""
    fate = _fate(way)
    return fate if fate is not None and _log.isEnabledFor(fate.level) else None


@lru_cache(maxsize=10_000)
def _fate(way: Move) -> Fate | None:
    return next((fate for kind, fate in _FATES if kind in way.kinds), None)


def _failure(step: MoveStep) -> Failure | None:
    outcome = None if step.settlement is None else step.settlement.outcome
    return outcome.failure if isinstance(outcome, Retry | Dead | Cancelled) else None


def _which(step: MoveStep, attempts: int | None) -> str:
    attempt = getattr(step.job, "attempt", None)
    if attempt is None:
        return ""
    if step.move.left is not JobState.RUNNING:  # its attempt was still to come
        return _after(attempt - 1)
    return f", attempt {attempt}" if attempts is None else f", attempt {attempt} of {attempts}"


def _after(failed: int) -> str:
    """The attempts that a job had which waited; nothing of one that had none."""
    return f", after {failed} attempt{'' if failed == 1 else 's'}" if failed > 0 else ""


def _why(step: MoveStep, failure: Failure | None, detail: LogErrors) -> str:
    reason = _reason(step)
    parts = [reason] if reason else []
    if failure is not None:
        parts.append(failure.type if detail == "type" else f"{failure.type}: {failure.message}")
    return f": {', '.join(parts)}" if parts else ""


def _reason(step: MoveStep) -> str | None:
    """The reason why it is dead, waits, or was put off."""
    outcome = None if step.settlement is None else step.settlement.outcome
    match outcome:
        case Dead(reason=reason):
            return reason.value
        case Snoozed(cool_down=seconds) if seconds is not None:
            return f"its limit cools down for {seconds:g} s"
        case Snoozed(reason=text):
            return text
        case Waiting(event=event):
            return f"it waits for the signal {event}"
        case _:
            pass
    if step.move.entered is not JobState.DEAD:
        return None
    return (getattr(step.job, "reason", None) or DeadReason.WORKER_LOST).value


def _next(step: MoveStep) -> str:
    if step.move.entered is not JobState.QUEUED or step.run_at is None:
        return ""
    return f"; again at {step.run_at.astimezone(UTC).isoformat(timespec='seconds')}"


def _command(step: MoveStep, fate: Fate) -> str:
    """The command that shows more of a fate that somebody may want to look at."""
    return f"; see: offpath jobs show {step.job.id}" if fate.level >= logging.WARNING else ""


def _fields(
    step: MoveStep, attempts: int | None, failure: Failure | None, detail: LogErrors
) -> dict[str, Any]:
    """The same for programs, as fields of the record; those that say nothing are left out."""
    trace = failure.traceback if failure is not None and detail == "traceback" else None
    fields = {
        "job_id": step.job.id,
        "task": step.job.task,
        "queue": step.job.queue,
        "state": None if step.move.entered is None else step.move.entered.value,
        "attempt": getattr(step.job, "attempt", None),
        "attempts": attempts,
        "reason": _reason(step),
        "error_type": None if failure is None else failure.type,
        "run_at": None if step.run_at is None else step.run_at.isoformat(),
        TRACEBACK: trace,
    }
    return {name: value for name, value in fields.items() if value is not None}
