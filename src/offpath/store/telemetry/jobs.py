"""The telling of jobs: of those that were handed out, settled, changed, rescued and made."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.changes import ChangedJob, Pruned
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, LeasedJob, NewJob
from offpath.model.lease import Leased, Rescued
from offpath.model.limit import Admitted
from offpath.model.schedule import Firing, FiringStatus, Occurrence
from offpath.model.settlement import Settled, Settlement
from offpath.store.telemetry import effects as told
from offpath.store.telemetry import message_moves, moves
from offpath.store.telemetry.meter import Telemetry


def leased(telemetry: Telemetry, answer: Leased) -> None:
    """Report the start of these jobs; one that cannot be read is counted."""
    if answer.jobs:
        telemetry.moved(moves.leased(answer.jobs))
        telemetry.sighted("job", [job.unreadable for job in answer.jobs])


def settled(
    telemetry: Telemetry, answers: Sequence[Settled], settlements: Sequence[Settlement]
) -> None:
    """Report the end of these attempts. Their new jobs are reported with their ends, what else they
    made after.
    """
    telemetry.moved(moves.settled(settlements, answers))
    for settlement, answer in zip(settlements, answers, strict=True):
        effects = settlement.effects
        more = effects.messages or effects.log or effects.operations
        if more and message_moves.carried_out(settlement, answer):
            rest = Effects(
                messages=effects.messages, log=effects.log, operations=effects.operations
            )
            told.carried_out(telemetry, rest, answer.enqueued[len(effects.jobs) :])


def progressed(telemetry: Telemetry, _answer: None, job: LeasedJob, progress: str) -> None:
    """A running job is so far."""
    telemetry.moved([moves.progressed(job, progress)])


def changed(telemetry: Telemetry, answers: Sequence[ChangedJob]) -> None:
    """An operator's call, a sweep or a gate changed these jobs."""
    telemetry.moved(moves.changed(answers))


def amended(telemetry: Telemetry, answers: Sequence[ChangedJob]) -> None:
    """An operator gave these jobs other terms; those that changed their queue have moved."""
    telemetry.moved(moves.amended(answers))


def deleted(telemetry: Telemetry, answers: Sequence[ChangedJob]) -> None:
    """Report that these ended jobs are gone."""
    telemetry.moved(moves.deleted(answers))


def rescued(telemetry: Telemetry, answers: Sequence[Rescued]) -> None:
    """Report that these jobs were taken back from workers that are gone."""
    if answers:
        telemetry.moved(moves.rescued(answers))


def pruned(telemetry: Telemetry, removed: Pruned) -> None:
    """The retention of so many jobs and messages has passed."""
    if removed.jobs:
        telemetry.meter.pruned(removed.jobs)
    telemetry.meter.messages.pruned(removed.messages)


def admitted(telemetry: Telemetry, done: Admitted) -> None:
    """So many jobs were let in by their limits."""
    if done.jobs:
        telemetry.meter.admitted(done.jobs)


def started(telemetry: Telemetry, held: LeasedJob | None, job: NewJob, worker: str) -> None:  # noqa: ARG001 - the call's own
    """A job was made and handed out in one commit."""
    if held is not None:
        answer = Enqueued(id=job.id, job_id=job.id, created=True, run_at=held.run_at)
        telemetry.moved([*moves.enqueued([job], [answer]), *moves.leased([held])])


def fired(telemetry: Telemetry, status: FiringStatus, firing: Firing) -> None:
    """A schedule made its jobs."""
    if status is FiringStatus.FIRED:
        _made(telemetry, firing.jobs)


def triggered(
    telemetry: Telemetry,
    known: bool,
    name: str,  # noqa: ARG001
    job: NewJob,
    occurrence: Occurrence,  # noqa: ARG001
) -> None:
    """A schedule made this job out of turn."""
    if known:
        _made(telemetry, (job,))


def _made(telemetry: Telemetry, jobs: Sequence[NewJob]) -> None:
    """Report that these jobs are there. A job that attached to the holder of its key is reported
    like the others.
    """
    answers = [Enqueued(id=job.id, job_id=job.id, created=True) for job in jobs]
    telemetry.moved(moves.enqueued(jobs, answers))
