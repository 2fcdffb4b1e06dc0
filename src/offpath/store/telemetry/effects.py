"""The telling of committed effects: new jobs and messages, events of the log, operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offpath.model.effects import Effects
from offpath.model.job import Enqueued, JobRecord
from offpath.store.telemetry.meter import Telemetry

if TYPE_CHECKING:
    from offpath.model.ledger.decision import Decided
    from offpath.model.route import Attempt, Cursor, Decisions, Letter
    from offpath.store.events import Decide


def read_within(
    telemetry: Telemetry,
    answers: Sequence[JobRecord],
    connection: Any,  # noqa: ANN401 - the caller's, of whichever library
    ids: Sequence[str],
) -> None:
    """There is nothing to tell of a reading; it is timed."""
    del telemetry, answers, connection, ids


def wrote_within(
    telemetry: Telemetry,
    answers: Sequence[Enqueued],
    connection: Any,  # noqa: ANN401, ARG001 - the caller's, of whichever library
    effects: Effects,
) -> None:
    """Told as soon as the rows are written: they may still be rolled back, which nobody but the
    caller's database can see.
    """
    telemetry.wrote(answers, effects)


def carried_out(telemetry: Telemetry, effects: Effects, answers: Sequence[Enqueued]) -> None:
    """Report the commit of these effects with a settlement. A repeated settlement has no answers
    about them: then it is not known which of its jobs and messages are new.
    """
    sure = Effects(log=effects.log, operations=effects.operations)
    telemetry.wrote(answers, effects if answers else sure)


def presumed(telemetry: Telemetry, effects: Effects) -> None:
    """Report the commit of these effects, each presumed to be new: a router decides about an event
    once, and a job is undone once.
    """
    made = [job.id for job in effects.jobs] + [message.id for message in effects.messages]
    telemetry.wrote([Enqueued(id=each, job_id=each, created=True) for each in made], effects)


def compensated(telemetry: Telemetry, done: bool, job_id: str, effects: Effects) -> None:  # noqa: ARG001 - the call's own
    """The undo jobs of one job were committed."""
    if done:
        presumed(telemetry, effects)


def advanced(telemetry: Telemetry, done: bool, cursor: Cursor, decisions: Decisions) -> None:
    """A router passed some events."""
    if done:
        _decided(telemetry, cursor.router, decisions)


def routed_within(
    telemetry: Telemetry,
    decisions: Decisions | None,
    connection: Any,  # noqa: ANN401, ARG001 - the caller's, of whichever library
    router: str,
    partition: int,  # noqa: ARG001 - the call's own, as the next two
    *,
    limit: int,  # noqa: ARG001
    decide: Decide,  # noqa: ARG001
) -> None:
    """Told as soon as it is written: it may still be rolled back."""
    if decisions is not None:
        _decided(telemetry, router, decisions)


def _decided(telemetry: Telemetry, router: str, decisions: Decisions) -> None:
    telemetry.meter.messages.decided(decisions.attempts)
    telemetry.meter.messages.passed(router, decisions.passed)
    presumed(telemetry, decisions.effects)


def replayed(
    telemetry: Telemetry,
    recorded: bool,
    letter: Letter,  # noqa: ARG001
    attempt: Attempt,
    *,
    resolution: str | None,  # noqa: ARG001
    effects: Effects,
) -> None:
    """A dead letter was decided again."""
    if recorded:
        telemetry.meter.messages.decided([attempt])
        presumed(telemetry, effects)


def redone(
    telemetry: Telemetry,
    recorded: bool,
    attempt: Attempt,
    letter: Letter | None,  # noqa: ARG001
    effects: Effects,
) -> None:
    """An event that had been decided was decided again."""
    if recorded:
        telemetry.meter.messages.decided([attempt])
        presumed(telemetry, effects)


def posted(telemetry: Telemetry, decided: Sequence[Decided]) -> None:
    """Operations of the ledger were decided."""
    telemetry.meter.decided(decided)
