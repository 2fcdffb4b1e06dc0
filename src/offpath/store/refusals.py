"""The errors that every backend raises alike: each has its one text here."""

from __future__ import annotations

from offpath.errors import GateError, IdConflict, InvalidArgument, LeaseLost, StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import NewJob


def not_unicode() -> StoreRejected:
    """The error for text that cannot be encoded."""
    return StoreRejected(
        "a text holds a lone surrogate (half a character), which cannot be stored: remove it"
    )


def no_position() -> InvalidArgument:
    """The error for a position that no page has given."""
    return InvalidArgument("after= is not a position: give the `next` of the page before")


def not_held(job: str) -> LeaseLost:
    """The error for a worker that does not hold a job any more."""
    return LeaseLost(f"job {job} is not held by this worker any more: stop working on it")


def no_uuid(kind: str, text: str) -> StoreRejected:
    """The error for an id that a database cannot keep as one."""
    return StoreRejected(f"a {kind}'s id must be a UUID, not {text[:60]!r}")


def refuse_contributions(*all_effects: Effects) -> None:
    """Raise ``InvalidArgument`` where somebody gives to a group and is not a member that ends."""
    if any(effects.contributions for effects in all_effects):
        raise InvalidArgument(
            "only a settled job can contribute to the value of its group: "
            "put the contribution into the effects of a settlement"
        )


def id_taken(job: str) -> IdConflict:
    """The error for a new job whose id another one has."""
    return IdConflict(
        f"job {job} exists with another task or input: give the new job an id of its own"
    )


def refuse_waiting(job: NewJob) -> None:
    """Raise ``InvalidArgument`` where a job that is to begin at once has to wait for something."""
    if job.gate is not None or job.limit is not None:
        raise InvalidArgument(
            f"job {job.id} has a gate or a limit, so it cannot begin at once: enqueue it"
        )


def not_registered(worker: str) -> LeaseLost:
    """The error for a worker that takes work and has no lease."""
    return LeaseLost(f"worker {worker} is not registered any more: nothing was enqueued")


def no_gate(job: str, gate: str | None) -> GateError:
    """The error for a job at a gate that is not there."""
    return GateError(
        f"job {job} waits at gate {gate}, which is not stored: make it in the same call"
    )


def nothing_to_watch(gate: str, job: str) -> GateError:
    """The error for a gate over a job that is not there."""
    return GateError(
        f"gate {gate} watches job {job}, which is not stored: enqueue it before, "
        "or in the same call, or give the gate a timeout"
    )


def fold_raised(error: Exception) -> StoreRejected:
    """The error for a contribution whose fold does not take the group's value."""
    return StoreRejected(
        f"the fold of a contribution raised {type(error).__name__}: "
        "it must take every value that the group can have"
    )


def never_due(kind: str) -> InvalidArgument:
    """The error for a lease of side rows that have no due time."""
    from offpath.model.ledger.records import DUE_STATES  # loaded when a ledger is used

    return InvalidArgument(f"rows of kind {kind!r} are never due: {', '.join(DUE_STATES)} are")
