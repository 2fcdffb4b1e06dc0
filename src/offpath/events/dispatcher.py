"""The dispatchers of events: a function, or an object that may hold a connection.

A dispatcher counts an event as delivered when the other side has acknowledged it, never when bytes
were written. Delivery is at least once: the same event, with the same id, may come again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

from msgspec import Struct

from offpath.errors import Abort, InvalidArgument
from offpath.runtime.seats import check_seat

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Event(Struct, frozen=True, kw_only=True):
    """An event as its dispatcher gets it."""

    id: str
    """The same at every attempt: what a receiver drops duplicates by."""
    stream: str
    topic: str
    payload: Any
    key: str | None = None
    """The key of its subject. In an ordered stream, events of one key go out one after the
    other.
    """
    headers: Mapping[str, str] = NO_HEADERS
    attempt: int = 1
    """1 for the first delivery; a delivery that was cut short does not count."""
    created_at: datetime | None = None
    """The time of its publication, by the store's clock."""
    body: str = ""
    """The payload as it is stored: JSON, with the default codec."""

    def __repr__(self) -> str:
        """Show what it is; never the payload."""
        return f"<Event {self.stream}:{self.topic} {self.id} attempt={self.attempt}>"


class Undeliverable(Abort):
    """Raise in a dispatcher: this event can never be delivered. It is a dead letter at once."""

    code = "undeliverable"


Outcomes = Sequence[Exception | None]
"""For each event, in their order: None when it was delivered, otherwise why it was not."""


@runtime_checkable
class Dispatcher(Protocol):
    """An object that hands on one event at a time.

    It may have ``async def open(self)``, called before the first event and again until it succeeds,
    and ``async def close(self)``, called when the relay stops.
    """

    def dispatch(self, event: Event, /) -> Awaitable[None] | None:
        """Deliver it. Returning means delivered, raising means again later, and raising
        :class:`Undeliverable` never. A plain function is called in a thread.
        """
        ...


@runtime_checkable
class BatchDispatcher(Protocol):
    """An object that hands on many events at once; ``open`` and ``close`` as for others."""

    async def dispatch_many(self, events: Sequence[Event], /) -> Outcomes:
        """Deliver them and say of each how it went. Raising means that all of them failed.

        Of an ordered stream, no two events of one call have the same key.
        """
        ...


AnyDispatcher = Callable[[Event], "Awaitable[None] | None"] | Dispatcher | BatchDispatcher
"""The kinds of dispatcher that :meth:`offpath.App.outbox` takes."""

One = Callable[[Event], "Awaitable[None] | None"]
Many = Callable[[Sequence[Event]], Awaitable[Outcomes]]


class Transport(Struct, frozen=True, kw_only=True):
    """A dispatcher, taken apart. Either ``one`` or ``many`` is there."""

    one: One | None
    many: Many | None
    threaded: bool
    """True if ``one`` blocks, and is called in a thread."""
    open: Callable[[], Awaitable[None]] | None = None
    close: Callable[[], Awaitable[None]] | None = None


def transport(dispatcher: object) -> Transport:
    """Take a dispatcher apart. Raises ``InvalidArgument`` for what is none."""
    many = getattr(dispatcher, "dispatch_many", None)
    one = None if many is not None else getattr(dispatcher, "dispatch", dispatcher)
    if not callable(one if many is None else many):
        raise InvalidArgument(
            "a dispatcher is a function of one event, or an object with dispatch(event) or "
            f"dispatch_many(events), not {type(dispatcher).__name__}"
        )
    check_seat(one if many is None else many, "a dispatcher")
    return Transport(
        one=cast("One | None", one),
        many=many,
        threaded=one is not None and not is_async(one),
        open=getattr(dispatcher, "open", None),
        close=getattr(dispatcher, "close", None),
    )


def is_async(function: object) -> bool:
    """True if a call of it gives a coroutine."""
    plain = inspect.unwrap(function) if callable(function) else function
    while hasattr(plain, "func"):  # functools.partial
        plain = plain.func
    called = getattr(plain, "__call__", None)  # noqa: B004 - objects with an async __call__
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(called)
