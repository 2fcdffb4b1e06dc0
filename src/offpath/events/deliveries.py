"""The destinations of a router, and the event as a deliverer gets it.

There are two kinds. What is *stored* becomes rows of this database in the transaction that moves
the cursor, so it happens exactly once. What goes *outside* happens before that transaction, so a
crash between the two repeats it: its receiver drops duplicates by :attr:`RoutedEvent.delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct, field

from offpath.errors import InvalidArgument
from offpath.model.effects import Effects
from offpath.model.quiet import Quiet
from offpath.runtime.seats import check_seat, seated


class RoutedEvent(Quiet, frozen=True, kw_only=True):
    """An event of the log on its way along a route."""

    id: str
    domain: str
    type: str
    stream: str
    position: int
    at: datetime
    payload: Any
    key: str | None = None
    router: str
    route: str
    delivery: str
    """The same at every attempt of this router: what a receiver drops duplicates by."""
    attempt: int = 1
    """1, and one more for each redrive of its letter."""
    headers: dict[str, str] = field(default_factory=dict)
    """The headers that it was appended with."""


Outside = Callable[[RoutedEvent], "Awaitable[None] | None"]
"""A function that hands the event on. Returning means delivered; raising means a dead letter."""


class Delivery(Struct, frozen=True):
    """A route's deliverer: one of the two is given."""

    label: str
    """The destination in words, for lists: ``task:mail``."""
    stored: Callable[[RoutedEvent], Effects] | None = None
    outside: Outside | None = None


class Maker(Protocol):
    """Makes jobs and messages for deliverers; the app does."""

    def job_for(self, task: object, event: RoutedEvent) -> Effects:
        """A job of ``task`` whose one argument is the event, with an id of its delivery's own."""
        ...

    def message_for(self, stream: str, event: RoutedEvent) -> Effects:
        """An outbox message of ``stream`` with an id of its delivery's own."""
        ...


class Outbox(Struct, frozen=True):
    """Deliver to an outbox stream: topic, key and payload are the event's."""

    stream: str


def delivery_of(target: object, maker: Maker) -> Delivery:
    """The destination that a user gave as ``deliver``. Raises ``InvalidArgument`` for what cannot
    deliver.
    """
    if isinstance(target, Outbox):
        stream = target.stream
        return Delivery(f"outbox:{stream}", lambda event: maker.message_for(stream, event))
    if isinstance(name := getattr(target, "name", None), str) and hasattr(target, "job"):
        return Delivery(f"task:{name}", lambda event: maker.job_for(target, event))
    if isinstance(label := getattr(target, "label", None), str) and hasattr(target, "effects"):
        return Delivery(label, target.effects)
    if callable(target):
        check_seat(target, "deliver")
        shown = getattr(target, "__qualname__", type(target).__name__)
        return Delivery(f"callable:{shown}"[:200], outside=target)
    raise InvalidArgument(
        f"deliver takes a task, offpath.events.Outbox(stream), an object with `label` and "
        f"`effects`, or a function of one event, not {type(target).__name__}"
    )


async def hand_over(outside: Outside, event: RoutedEvent) -> None:
    """Call a deliverer, sync or async."""
    await seated(outside, event)
    await asyncio.sleep(0)  # a page of plain ones must not keep the lease from being renewed
