"""The row of a message in Redis."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from offpath.model.job import Failure
from offpath.model.message import MessageState
from offpath.model.new import Box, NewMessage
from offpath.store.redis.job_rows import micros, same, texts, times
from offpath.store.refusals import not_unicode
from offpath.store.rows.messages import MemoryMessage, written

FIELDS: Final = ("d", "p", "n")


_NAMES: Final = (
    "box stream created_at due_at free_at topic key headers state attempt deliveries holder "
    "finished_at expires_at reason failure"
)
_LETTERS: Final = "b s c u r t k h st a dl ho fi ex re fa"


class KeptMessage(
    Struct,
    frozen=True,
    omit_defaults=True,
    gc=False,
    rename=dict(zip(_NAMES.split(), _LETTERS.split(), strict=True)),
):
    """A message as it is packed, under short names. Absent is what has its default."""

    box: Box
    stream: str
    created_at: str
    due_at: str
    free_at: str
    topic: str = ""
    key: str | None = None
    headers: str = "{}"
    state: MessageState = MessageState.PENDING
    attempt: int = 1
    deliveries: int = 0
    holder: str | None = None
    finished_at: str | None = None
    expires_at: str | None = None
    reason: str | None = None
    failure: Failure | None = None


_SAME: Final = (
    *("box", "stream", "key", "state", "attempt"),
    *("deliveries", "holder", "reason", "failure"),
)
_TIMES: Final = ("created_at", "due_at", "free_at", "finished_at", "expires_at")
"""The fields of a message that are packed as they are, and those that are packed as texts."""
_packed = msgspec.json.Encoder().encode
_unpacked = msgspec.json.Decoder(KeptMessage).decode


class StoredMessage(Struct, frozen=True):
    """A message, and the bytes that say so in Redis."""

    message: MemoryMessage
    stored: bytes = b""


def place_of(box: Box, stream: str) -> str:
    """The name of a box and stream together."""
    return f"{box.value}:{stream}"


def line_key(key: str | None) -> str:
    """The key of a message as a function is given it: an empty one is a key, too."""
    return "" if key is None else f"={key}"


def member_of(message: MemoryMessage) -> str:
    """The member under which a message waits: those written earlier sort first."""
    return f"{message.position:016d}{message.id}"


def packed(message: MemoryMessage) -> str:
    """A message as it is stored. Raises StoreRejected."""
    kept = KeptMessage(
        **same(message, _SAME),
        **texts(message, _TIMES),
        topic=message.new.topic,
        headers=message.new.headers,
    )
    try:
        message.new.payload.encode()
        return _packed(kept).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error


def row_of(message_id: str, fields: list[Any]) -> StoredMessage:
    """A message from its fields: those of :data:`FIELDS`, in their order."""
    blob, payload, position = fields
    kept = _unpacked(blob)
    new = NewMessage(
        id=message_id,
        box=kept.box,
        stream=kept.stream,
        payload=payload.decode(),
        topic=kept.topic,
        key=kept.key,
        headers=kept.headers,
    )
    message = MemoryMessage(
        new=new,
        id=message_id,
        position=int(position),
        **same(kept, _SAME),
        **times(kept, _TIMES),
    )
    return StoredMessage(message, blob)


def write_command(new: NewMessage, now: datetime, inbox: str) -> list[Any]:
    """The command that writes a new message, behind all others."""
    message = written(new, now, 0)
    place = place_of(message.box, message.stream)
    due = micros(message.due_at)
    return [
        "@write",
        message.id,
        place,
        line_key(message.key),
        due,
        packed(message),
        new.payload,
        inbox,
    ]
