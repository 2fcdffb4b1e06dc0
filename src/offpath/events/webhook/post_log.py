"""The log of posts: how each went is gathered here and written once a second.

It is for whoever looks at an endpoint. So no delivery waits for it, and what cannot be written is
dropped.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from offpath.errors import StoreError
from offpath.model.post import MOST_POSTS, PostOutcome, PostRecord
from offpath.model.webhook import Answer, Delivered, Gone, Refused, RetryLater

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.runtime.clock import Clock
    from offpath.store.events import EventStore

WRITE_EVERY: Final = 1.0
"""Seconds between two writes at least: however many posts there were, each is one transaction."""
PHASE: Final = "posts"
_OUTCOMES: Final = {
    Delivered: PostOutcome.DELIVERED,
    Refused: PostOutcome.REFUSED,
    RetryLater: PostOutcome.LATER,
    Gone: PostOutcome.GONE,
}


class PostLog:
    """Gathers posts. Of each endpoint it holds as many as the store keeps."""

    def __init__(
        self, store: EventStore, clock: Clock, report: Callable[[BaseException, str], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._report = report
        self._gathered: dict[str, deque[PostRecord]] = {}
        self._written_at = -WRITE_EVERY

    def add(self, post: PostRecord) -> None:
        """Have one written."""
        self._gathered.setdefault(post.endpoint, deque(maxlen=MOST_POSTS)).append(post)

    @property
    def waits(self) -> bool:
        """True if something is to be written."""
        return bool(self._gathered)

    async def write(self, *, after: float = WRITE_EVERY) -> None:
        """Write what was gathered, if the last time is that many seconds ago."""
        now = self._clock.monotonic()
        if not self._gathered or now - self._written_at < after:
            return
        self._written_at = now
        gathered, self._gathered = self._gathered, {}
        try:
            await self._store.put_posts(tuple(chain.from_iterable(gathered.values())))
        except StoreError as error:
            # who is away now has not lost a delivery by this; a pile that is tried again would grow
            if not error.retryable:
                self._report(error, PHASE)


def outcome_of(answer: Answer) -> PostOutcome:
    """The outcome of a post by the receiver's answer."""
    return _OUTCOMES[type(answer)]


def reason_of(answer: Answer) -> str | None:
    """The reason why a post was not taken; None where its status says it all."""
    match answer:
        case Refused(why=why):
            return why
        case RetryLater(seconds=seconds):
            return f"asked for {seconds:g} s"
        case Gone() | Delivered():
            return None
