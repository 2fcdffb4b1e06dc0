"""Documents of posts: how the last ones to an endpoint went."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from offpath.model.post import PostOutcome, PostRecord
from offpath.operating.documents.fields import filled


class PostDocument(Struct, frozen=True, kw_only=True):
    """One post: the status that was answered, how long it took, and when it was."""

    at: datetime
    message: str
    """The id of the message that was posted."""
    topic: str
    attempt: int
    outcome: PostOutcome
    status: int | None
    """None: there was no answer."""
    ms: int
    """Milliseconds until the answer, or until it was given up."""
    why: str | None
    """The reason why it was not taken."""


def describe_posts(found: Iterable[PostRecord]) -> tuple[PostDocument, ...]:
    """The documents of posts, in their order."""
    return tuple(filled(PostDocument, one, ms=round(one.seconds * 1_000)) for one in found)
