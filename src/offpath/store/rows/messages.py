"""The step from a message to its next state. Pure: the caller files what these make."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from offpath.model.job import Failure
from offpath.model.message import (
    Box,
    LeasedMessage,
    MessageOutcome,
    MessageRecord,
    MessageState,
    NewMessage,
)
from offpath.model.quiet import Quiet
from offpath.model.settlement import Dead, Released, Retry, Succeeded
from offpath.store.refusals import no_key
from offpath.store.rows.instants import later

_PENDING = MessageState.PENDING


class MemoryMessage(Quiet, frozen=True, kw_only=True, gc=False):
    """One message as it is kept; what was written (``new``) never changes."""

    new: NewMessage
    id: str
    box: Box
    stream: str
    position: int
    created_at: datetime
    due_at: datetime
    """The time when it is due; while it is held, the end of the lease."""
    free_at: datetime
    """The time when it was due before it was handed out."""
    key: str | None = None
    state: MessageState = _PENDING
    attempt: int = 1
    deliveries: int = 0
    holder: str | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    reason: str | None = None
    failure: Failure | None = None


def check(new: NewMessage, now: datetime) -> None:
    """Raise StoreRejected when this message cannot be written."""
    if new.box is Box.IN and new.key is None:
        raise no_key(new.id)
    # For its error alone: a delay that leads to no time is refused while nothing is filed.
    later(now, new.delay)


def written(new: NewMessage, now: datetime, position: int) -> MemoryMessage:
    """The row of a new message that was checked."""
    due_at = later(now, new.delay)
    return MemoryMessage(
        new=new,
        id=new.id,
        box=new.box,
        stream=new.stream,
        key=new.key,
        position=position,
        created_at=now,
        due_at=due_at,
        free_at=due_at,
    )


def handed_out(row: MemoryMessage, holder: str, until: datetime) -> MemoryMessage:
    """A message in somebody's hand."""
    # Due at the end of its lease: what a dead holder had comes back by itself, and no pass has to
    # look for it.
    return replace(
        row, holder=holder, free_at=row.due_at, due_at=until, deliveries=row.deliveries + 1
    )


def leased(row: MemoryMessage) -> LeasedMessage:
    """The message as its holder gets it."""
    new = row.new
    return LeasedMessage(
        id=row.id,
        box=row.box,
        stream=row.stream,
        topic=new.topic,
        payload=new.payload,
        holder=row.holder or "",
        attempt=row.attempt,
        deliveries=row.deliveries,
        position=row.position,
        created_at=row.created_at,
        key=row.key,
        headers=new.headers,
    )


def settled(
    row: MemoryMessage, outcome: MessageOutcome, now: datetime, expires_at: datetime | None
) -> MemoryMessage:
    """A held message after its attempt has ended this way. Raises StoreRejected."""
    match outcome:
        case Succeeded():
            return _ended(row, MessageState.DONE, now, expires_at)
        case Retry(delay=delay, failure=failure):
            due_at = later(now, delay)
            return replace(
                row,
                holder=None,
                due_at=due_at,
                free_at=due_at,
                attempt=row.attempt + 1,
                failure=_stamped(failure, now),
            )
        case Dead(reason=reason, failure=failure):
            ended = _ended(row, MessageState.DEAD, now, expires_at)
            return replace(ended, reason=reason.value, failure=_stamped(failure, now))
        case Released():
            # It was not tried, so the delivery that was counted for it is taken back.
            return replace(
                row, holder=None, due_at=row.free_at, deliveries=max(row.deliveries - 1, 0)
            )
        case _:
            assert_never(outcome)


def _ended(
    row: MemoryMessage, state: MessageState, now: datetime, expires_at: datetime | None
) -> MemoryMessage:
    return replace(row, state=state, holder=None, finished_at=now, expires_at=expires_at)


def _stamped(failure: Failure, now: datetime) -> Failure:
    return replace(failure, at=now) if failure.at is None else failure


def revived(row: MemoryMessage, now: datetime) -> MemoryMessage:
    """An ended message put back as if it were new; how it last failed is still known."""
    return replace(
        row,
        state=_PENDING,
        due_at=now,
        free_at=now,
        attempt=1,
        deliveries=0,
        finished_at=None,
        expires_at=None,
        reason=None,
    )


def record(row: MemoryMessage, now: datetime) -> MessageRecord:
    """The message as operators see it."""
    new = row.new
    return MessageRecord(
        id=row.id,
        box=row.box,
        stream=row.stream,
        topic=new.topic,
        payload=new.payload,
        state=row.state,
        attempt=row.attempt,
        deliveries=row.deliveries,
        position=row.position,
        created_at=row.created_at,
        due_at=row.due_at,
        held=row.holder is not None and now < row.due_at,
        key=row.key,
        headers=new.headers,
        finished_at=row.finished_at,
        expires_at=row.expires_at,
        reason=row.reason,
        failure=row.failure,
    )
