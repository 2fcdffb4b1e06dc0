"""The errors that every backend raises alike: each has its one text here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offpath.errors import (
    Conflict,
    GateError,
    IdConflict,
    InvalidArgument,
    LeaseLost,
    StoreRejected,
    UniqueConflict,
)
from offpath.model.effects import Effects
from offpath.model.job import JobState, NewJob, UniquePolicy
from offpath.model.new import SLOTS


def not_unicode() -> StoreRejected:
    """The error for text that cannot be encoded."""
    return StoreRejected(
        "a text holds a lone surrogate (half a character), which cannot be stored: remove it"
    )


def no_position() -> InvalidArgument:
    """The error for a position that no page has given."""
    return InvalidArgument("after= is not a position: give the `next` of the page before")


def no_start(start: object) -> InvalidArgument:
    """A router begins at the beginning, at the present or at a position."""
    return InvalidArgument(f"start is `beginning`, `now` or a position, not {start!r}")


def no_cursor(router: str, partition: int) -> Conflict:
    """The error for a router that is not there, or has fewer partitions."""
    return Conflict(f"there is no router {router!r} with a partition {partition}: declare it first")


def no_router(router: str) -> Conflict:
    """The error for a router that is not there."""
    return Conflict(f"there is no router {router!r}: declare it first")


def other_router(router: str, domain: str, partitions: int) -> Conflict:
    """The error for a router that is there with another domain or number of partitions."""
    return Conflict(
        f"the router {router!r} exists with domain {domain!r} and {partitions} partitions, which "
        "cannot change: give the new one another name"
    )


def not_held(job: str) -> LeaseLost:
    """The error for a worker that does not hold a job any more."""
    return LeaseLost(f"job {job} is not held by this worker any more: stop working on it")


def unknown_gate(gate: str, state: str) -> StoreRejected:
    """The error for a gate whose state somebody wrote by hand, and nobody knows."""
    return StoreRejected(
        f"gate {gate} has the state {state[:60]!r}, which this version does not know, so no job "
        "can wait at it: set the row's state to one of open, fired, unsatisfiable and timed_out"
    )


def ledger_has(what: str) -> StoreRejected:
    """An id or a key of the ledger that a row has, and that no operation had asked for."""
    return StoreRejected(f"the ledger refuses a write: {what}")


def unknown_state(job: str, state: str) -> StoreRejected:
    """The error for a job that has what is asked for, in a state that somebody wrote by hand."""
    return StoreRejected(
        f"job {job} has this key, in the state {state[:60]!r}, which this version does not know: "
        "mend its row, or `offpath jobs discard` it"
    )


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


def no_key(message: str) -> StoreRejected:
    """The error for a message of the inbox without the key of its sender."""
    return StoreRejected(
        f"the inbox message {message} has no key: give the sender's id of the delivery, "
        "by which repeats are told"
    )


def no_slot(event: str) -> StoreRejected:
    """The error for an event of the log that belongs to no partition."""
    return StoreRejected(f"event {event} has no slot from 0 to {SLOTS - 1}: use slot_of")


_KEY_HELD: Final[Mapping[UniquePolicy, str]] = {
    UniquePolicy.ATTACH: (
        "the unique key is held by job {id} ({state}) with another input: "
        "use another key, or wait until that job has ended"
    ),
    UniquePolicy.REPLACE: (
        "the unique key is held by job {id}, which is {state} and cannot be replaced: "
        "wait until it has ended, or cancel it"
    ),
    UniquePolicy.REFUSE: (
        "the unique key is held by job {id} ({state}): wait until it has ended, or cancel it"
    ),
}


def key_held(policy: UniquePolicy, key: str, *, holder: str, state: JobState) -> UniqueConflict:
    """The error for a job whose unique key ``holder`` has, and will not share."""
    text = _KEY_HELD[policy].format(id=holder, state=state.value)
    return UniqueConflict(text, key=key, holder=holder)
