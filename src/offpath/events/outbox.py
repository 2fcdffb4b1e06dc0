"""The outbox: facts to tell others, written in the transaction that makes them true.

An event is a job of its stream, and its dispatcher is that job's handler. So it is leased, retried
with backoff, dead-lettered, redriven and pruned as every job is, on every backend, and whoever has
understood jobs has understood it. Delivery is at least once, with a stable id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from offpath.errors import Abort, InvalidArgument
from offpath.model import checks
from offpath.model.retry import RetryOptions

QUEUE: Final = "outbox"
"""The queue of all events: a worker that is given ``queues`` must name it to relay."""
DEFAULT_STREAM: Final = "default"
RETRY: Final = RetryOptions(attempts=10, base=1.0, factor=3.0, cap=3600.0, jitter=0.5)
"""Ten attempts over about four hours: a receiver may be away for a while."""
_PREFIX: Final = "offpath.outbox."
_MOST_HEADERS: Final = 50
_LONGEST_HEADER: Final = 2_000


class Event(Struct, frozen=True, kw_only=True):
    """An event as its dispatcher gets it."""

    id: str
    """The same at every attempt: what a receiver drops duplicates by."""
    stream: str
    topic: str
    payload: Any
    key: str | None = None
    """What it is about, for receivers that keep things of one key together."""
    headers: Mapping[str, str] = {}
    attempt: int = 1
    """1 for the first delivery."""

    def __repr__(self) -> str:
        """Show what it is; never the payload."""
        return f"<Event {self.stream}:{self.topic} {self.id} attempt={self.attempt}>"


Dispatcher = Callable[[Event], "Awaitable[None] | None"]
"""Hands one event on. Returning means delivered; raising means try again later."""


class Undeliverable(Abort):
    """Raise in a dispatcher: this event can never be delivered. It is a dead letter at once."""

    code = "undeliverable"


def task_of(stream: str) -> str:
    """The name of a stream's task. Raises ``InvalidArgument``."""
    return _PREFIX + checks.name(stream, "stream")


def document(
    topic: str,
    payload: object,
    key: str | None,
    headers: Mapping[str, str] | None,
) -> dict[str, object]:
    """The arguments of an event's job. Raises ``InvalidArgument``."""
    return {
        "topic": checks.name(topic, "topic"),
        "payload": payload,
        "key": None if key is None else checks.text(key, "key", longest=checks.MAX_KEY),
        "headers": _headers(headers or {}),
    }


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    if len(headers) > _MOST_HEADERS:
        msg = f"an event may have {_MOST_HEADERS} headers, not {len(headers)}"
        raise InvalidArgument(msg)
    return {
        checks.name(name, "header name"): checks.text(value, "header", longest=_LONGEST_HEADER)
        for name, value in headers.items()
    }
