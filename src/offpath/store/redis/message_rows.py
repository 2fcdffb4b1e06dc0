"""The row of a message in Redis."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from offpath.model.job import Failure
from offpath.model.message import MessageState
from offpath.model.new import Box, NewMessage
from offpath.store.redis.job_rows import micros, moment, text_of, time_of
from offpath.store.refusals import not_unicode
from offpath.store.rows.messages import MemoryMessage, written

FIELDS: Final = ("d", "p", "n")


class KeptMessage(Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as it is packed. Absent is what has its default."""

    b: str  # box
    s: str  # stream
    c: str  # created_at
    u: str  # due_at
    r: str  # free_at
    t: str = ""  # topic
    k: str | None = None  # key
    h: str = "{}"  # headers
    st: str = "pending"  # state
    a: int = 1  # attempt
    dl: int = 0  # deliveries
    ho: str | None = None  # holder
    fi: str | None = None  # finished_at
    ex: str | None = None  # expires_at
    re: str | None = None  # reason
    fa: str | None = None  # failure


_packed = msgspec.json.Encoder().encode
_unpacked = msgspec.json.Decoder(KeptMessage).decode
_failure = msgspec.json.Decoder(Failure).decode


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
    new, failure = message.new, message.failure
    kept = KeptMessage(
        b=message.box.value,
        s=message.stream,
        t=new.topic,
        k=message.key,
        h=new.headers,
        st=message.state.value,
        a=message.attempt,
        dl=message.deliveries,
        c=str(micros(message.created_at)),
        u=str(micros(message.due_at)),
        r=str(micros(message.free_at)),
        ho=message.holder,
        fi=text_of(message.finished_at),
        ex=text_of(message.expires_at),
        re=message.reason,
        fa=None if failure is None else msgspec.json.encode(failure).decode(),
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
        box=Box(kept.b),
        stream=kept.s,
        payload=payload.decode(),
        topic=kept.t,
        key=kept.k,
        headers=kept.h,
    )
    message = MemoryMessage(
        new=new,
        id=message_id,
        box=new.box,
        stream=new.stream,
        position=int(position),
        created_at=moment(kept.c),
        due_at=moment(kept.u),
        free_at=moment(kept.r),
        key=kept.k,
        state=MessageState(kept.st),
        attempt=kept.a,
        deliveries=kept.dl,
        holder=kept.ho,
        finished_at=time_of(kept.fi),
        expires_at=time_of(kept.ex),
        reason=kept.re,
        failure=None if kept.fa is None else _failure(kept.fa),
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
