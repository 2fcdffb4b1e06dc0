"""Short ways to make messages and to take one step with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from offpath.model.announce import STREAM
from offpath.model.effects import NOTHING, Effects
from offpath.model.job import DeadReason, Enqueued
from offpath.model.message import (
    Box,
    LeasedMessage,
    LeasedMessages,
    MessageFilter,
    MessageOutcome,
    MessageRecord,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
    NewMessage,
    StreamRoom,
)
from offpath.model.settlement import Dead, Released, Retry, SettleStatus, Succeeded
from offpath.store.protocol import Store
from tests.conformance.builders import LEASE, failure, fresh_id

SOURCE = "s"
"""The stream of messages for which a test wants none in particular."""
ALL = MessageFilter()


def message(stream: str = SOURCE, **fields: Any) -> NewMessage:
    """A message of the outbox with an own id."""
    fields.setdefault("id", fresh_id())
    fields.setdefault("box", Box.OUT)
    fields.setdefault("payload", "{}")
    return NewMessage(stream=stream, **fields)


def inbound(key: str, source: str = SOURCE, **fields: Any) -> NewMessage:
    """A message of the inbox with an own id."""
    return message(source, box=Box.IN, key=key, **fields)


async def post(store: Store, *messages: NewMessage) -> list[Enqueued]:
    """Commit these messages together."""
    return await store.commit(Effects(messages=messages))


async def put(store: Store, stream: str = SOURCE, **fields: Any) -> str:
    """Commit one new message; its id."""
    new = message(stream, **fields)
    (answer,) = await post(store, new)
    assert answer.created
    return new.id


async def put_keyed(store: Store, keys: Iterable[str], **fields: Any) -> list[str]:
    """Commit a message of each key, in this order; their ids."""
    return [await put(store, key=key, **fields) for key in keys]


def request(*streams: str | StreamRoom, **fields: Any) -> MessageRequest:
    """A request by a holder of its own, with the same room for every stream that is only named."""
    limit, ordered = fields.setdefault("limit", 100), fields.pop("ordered", False)
    fields.setdefault("box", Box.OUT)
    fields.setdefault("holder", fresh_id())
    fields.setdefault("lease_seconds", LEASE)
    rooms = tuple(
        each
        if isinstance(each, StreamRoom)
        else StreamRoom(stream=each, limit=limit, ordered=ordered)
        for each in streams or (SOURCE,)
    )
    return MessageRequest(streams=rooms, **fields)


async def ask_messages(store: Store, *streams: str | StreamRoom, **fields: Any) -> LeasedMessages:
    """Lease messages, and the whole answer."""
    return await store.lease_messages(request(*streams, **fields))


async def hand(
    store: Store, *streams: str | StreamRoom, **fields: Any
) -> tuple[LeasedMessage, ...]:
    """Lease messages, and only them."""
    return (await ask_messages(store, *streams, **fields)).messages


async def hand_one(store: Store, *streams: str | StreamRoom, **fields: Any) -> LeasedMessage:
    """Lease the message that is due first, which must be there."""
    (held,) = await hand(store, *streams, limit=1, **fields)
    return held


def ids(messages: Iterable[LeasedMessage | MessageRecord]) -> list[str]:
    """The ids, in the order given."""
    return [each.id for each in messages]


def finish(
    held: LeasedMessage, outcome: MessageOutcome | None = None, **fields: Any
) -> MessageSettlement:
    """A settlement, as succeeded unless another outcome is given."""
    return MessageSettlement(message=held, outcome=outcome or Succeeded(), **fields)


async def settle_message(
    store: Store,
    held: LeasedMessage,
    outcome: MessageOutcome | None = None,
    *,
    effects: Effects = NOTHING,
    keep: float | None = None,
) -> MessageSettled:
    """Settle one message; its answer."""
    (answer,) = await store.settle_messages([finish(held, outcome, effects=effects, keep=keep)])
    assert answer.id == held.id
    return answer


async def end_message(
    store: Store, held: LeasedMessage, outcome: MessageOutcome | None = None, **fields: Any
) -> MessageSettled:
    """Settle one message, which must be applied."""
    answer = await settle_message(store, held, outcome, **fields)
    assert answer.status is SettleStatus.APPLIED, answer
    assert answer.error is None
    return answer


async def end_all(
    store: Store, held: Sequence[LeasedMessage], outcome: MessageOutcome | None = None
) -> None:
    """Settle these messages alike, in one batch, which must be applied."""
    answers = await store.settle_messages([finish(each, outcome) for each in held])
    assert [answer.status for answer in answers] == [SettleStatus.APPLIED] * len(held)


def dead(reason: DeadReason = DeadReason.EXHAUSTED, **fields: Any) -> Dead:
    """The outcome of a message that is not tried again."""
    return Dead(reason=reason, failure=failure(**fields))


def retry(delay: float = 5.0, **fields: Any) -> Retry:
    """The outcome of a message that is tried again."""
    return Retry(delay=delay, failure=failure(**fields))


def message_outcomes() -> dict[str, MessageOutcome]:
    """One outcome of every kind, by name."""
    return {
        "succeeded": Succeeded(),
        "retry": retry(),
        "dead": dead(),
        "released": Released(),
    }


async def find_all(store: Store, where: MessageFilter = ALL) -> list[MessageRecord]:
    """Every message that matches, in the order of writing."""
    page = await store.find_messages(where, limit=10_000, newest=False)
    assert page.next is None
    return list(page.items)


async def message_of(store: Store, message_id: str) -> MessageRecord:
    """The store's record of a message, which must exist."""
    (found,) = await find_all(store, MessageFilter(ids=(message_id,)))
    return found


async def state_of(store: Store, message_id: str) -> MessageState:
    """The state of a message, which must exist."""
    return (await message_of(store, message_id)).state


async def announcements(store: Store) -> list[dict[str, Any]]:
    """The contents of messages about jobs, in the order of writing."""
    found = await find_all(store, MessageFilter(box=Box.OUT, streams=(STREAM,)))
    return [json.loads(each.payload) for each in found]
