"""Posts to webhook endpoints: how each of the last ones went."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

MOST_POSTS: Final = 20
"""Posts that are kept of each endpoint."""


class PostOutcome(StrEnum):
    """The meaning of a receiver's answer for what was posted."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    """An attempt that failed, also for want of any answer."""
    LATER = "later"
    """It asked for time: no attempt is counted."""
    GONE = "gone"


class PostRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One post to an endpoint, and how it went. Nothing of what was sent or answered is in it."""

    endpoint: str
    message: str
    """The id of the message that was posted."""
    at: datetime
    """The time when it began."""
    seconds: float
    """Seconds until its answer, or until it was given up."""
    outcome: PostOutcome
    topic: str = ""
    attempt: int = 1
    status: int | None = None
    """The status of the answer; None: there was none."""
    why: str | None = None
    """The reason why it failed."""


_decode: Final = msgspec.json.Decoder(tuple[PostRecord, ...]).decode
_encode: Final = msgspec.json.Encoder().encode


def newest_posts(*several: Iterable[PostRecord]) -> tuple[PostRecord, ...]:
    """The newest posts of all these, the newest first, each once. Any order and grouping of what
    is given leads to the same.
    """
    found = {(one.at, one.message, one.attempt): one for some in several for one in some}
    return tuple(found[key] for key in sorted(found, reverse=True)[:MOST_POSTS])


def read_posts(text: str | bytes | None) -> tuple[PostRecord, ...]:
    """Posts as they are stored. What cannot be read is as if it were not there: it is the past."""
    if text is None:
        return ()
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return ()


def written_posts(posts: Iterable[PostRecord]) -> str:
    """Posts as they are stored."""
    return _encode(tuple(posts)).decode()
