"""Messages: what leaves the service (outbox) and what enters it (inbox).

Both are rows that are leased, acted upon and settled, as jobs are. A message has no worker: its
lease is its own, a time until which nobody else is given it, and the token of its holder.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.effects import NOTHING, Effects
from offpath.model.job import Enqueued, Failure
from offpath.model.new import Box, NewMessage
from offpath.model.quiet import Quiet
from offpath.model.settlement import Dead, Released, Retry, SettleStatus, Succeeded

__all__ = [
    "Box",
    "LeasedMessage",
    "LeasedMessages",
    "MessageBacklog",
    "MessageFilter",
    "MessagePage",
    "MessageRecord",
    "MessageRequest",
    "MessageSettled",
    "MessageSettlement",
    "MessageState",
    "NewMessage",
    "StreamRoom",
]


class MessageState(StrEnum):
    """The state of a message: ``pending → done | dead``. A leased one is pending."""

    PENDING = "pending"
    DONE = "done"
    """Delivered (outbox) or applied (inbox)."""
    DEAD = "dead"
    """It will not be tried again unaided."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class LeasedMessage(Quiet, frozen=True, kw_only=True, gc=False):
    """A message in hand. ``(id, holder)`` is the fence of the write that ends it."""

    id: str
    box: Box
    stream: str
    topic: str
    payload: str
    holder: str
    attempt: int
    """1 for the first; only a counted failure raises it."""
    deliveries: int
    """Times it was handed out since it was new, redriven or replayed, this one included."""
    position: int
    """Grows in the order of writing; the order of delivery within a key."""
    created_at: datetime
    key: str | None = None
    headers: str = "{}"
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content; the fields have neutral
    values instead. Such a message is not to be handed on.
    """


class StreamRoom(Struct, frozen=True, kw_only=True):
    """The number of messages of one stream that are asked for, and whether its keys keep their
    order.
    """

    stream: str
    limit: int
    ordered: bool = False


class MessageRequest(Struct, frozen=True, kw_only=True):
    """The request of a relay or drain for messages."""

    box: Box
    holder: str
    """A token that is new for each request."""
    streams: tuple[StreamRoom, ...]
    """A stream that is absent or without room is not looked at."""
    limit: int
    lease_seconds: float
    """From the store's now; after it they are handed out again."""


class LeasedMessages(Struct, frozen=True, kw_only=True):
    """The messages that were handed out: of each stream, the longest due first."""

    messages: tuple[LeasedMessage, ...]
    now: datetime
    """The store's clock at the lease."""
    more: bool = False
    """True if asking again at once may give more."""
    due_in: float | None = None
    """Seconds until the next message of these streams is due or the lease of one ends, that of this
    answer too; 0 if more is due now. In an ordered stream only the first of each key counts. None:
    none is pending."""


MessageOutcome = Succeeded | Retry | Dead | Released
"""``Succeeded`` (its ``result`` is ignored): delivered or applied."""


class MessageSettlement(Struct, frozen=True, kw_only=True, gc=False):
    """The end of one attempt at a message. Effects are carried out with ``Succeeded`` only."""

    message: LeasedMessage
    outcome: MessageOutcome
    effects: Effects = NOTHING
    keep: float | None = None
    """Seconds to keep the ended message; None keeps it until it is deleted."""


class MessageSettled(Struct, frozen=True, kw_only=True):
    """The store's answer to one settlement, in the order given."""

    id: str
    status: SettleStatus
    state: MessageState | None = None
    enqueued: tuple[Enqueued, ...] = ()
    """The outcomes of the effects' jobs, then of their messages."""
    error: Exception | None = None


class MessageRecord(Quiet, frozen=True, kw_only=True, gc=False):
    """Everything the store knows of one message."""

    id: str
    box: Box
    stream: str
    topic: str
    payload: str
    state: MessageState
    attempt: int
    deliveries: int
    position: int
    created_at: datetime
    due_at: datetime
    """The time when it is due, or its lease ends; of an ended message, when it last was."""
    held: bool
    """True if somebody holds it now."""
    key: str | None = None
    headers: str = "{}"
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    reason: str | None = None
    """The reason why it is dead: a :class:`~offpath.model.job.DeadReason`."""
    failure: Failure | None = None
    """The last attempt that failed."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content; the fields have neutral
    values instead.
    """


class MessageFilter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The filter of messages: every given field must match; an empty tuple or None means any."""

    box: Box | None = None
    ids: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    states: tuple[MessageState, ...] = ()
    keys: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    not_reasons: tuple[str, ...] = ()
    """None of these reasons."""
    created_after: datetime | None = None
    """At that time or later."""
    created_before: datetime | None = None
    """Before that time."""


class MessagePage(Struct, frozen=True, kw_only=True):
    """One page of a list, by position. ``next`` is given back as ``after``; None at the end."""

    items: tuple[MessageRecord, ...]
    next: str | None = None


class MessageLook(Struct, frozen=True, kw_only=True):
    """One page of :meth:`~offpath.store.browse.BrowseStore.look_at_messages`."""

    items: tuple[MessageRecord, ...]
    """Messages without what they carry: payload and headers are empty."""
    next: str | None
    """Given back as ``after`` to look further; None when there is nothing behind."""
    reached_at: datetime | None = None
    """The time when the last row that was looked at was written."""
    exhausted: bool = False
    """True if every row was looked at that there is in this direction."""


class MessageBacklog(Struct, frozen=True, kw_only=True):
    """The messages that wait in one stream of a box."""

    box: Box
    stream: str
    due: int
    """Pending and due or held, counted up to the limit asked for."""
    dead: int
    """Dead letters, counted up to the limit asked for."""
    oldest_due_at: datetime | None = None
    """The time when the oldest pending message that is due, held, or has failed before was written:
    one that waits for its next attempt has not got where it belongs.
    """
    oldest_dead_at: datetime | None = None
    """The time when the oldest dead letter died."""
