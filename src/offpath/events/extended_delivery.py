"""Deliveries with extensions around them: dispatchers, webhooks, handlers of the inbox."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from offpath.runtime.extension import Delivering, Outgoing
from offpath.runtime.seats import seated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpath.events.dispatcher import Event, Many, One, Outcomes
    from offpath.events.webhook.poster import Post, Poster
    from offpath.model.webhook import Answer
    from offpath.runtime.extension import Applying
    from offpath.runtime.extensions import Extensions


def extended(one: One, event: Event, extensions: Extensions, *, threaded: bool) -> One:
    """The call of a dispatcher of one event, surrounded where it runs."""
    out = _delivering([event])
    if not threaded:

        async def awaited(event: Event) -> None:
            with extensions.delivering(out):
                (ready,) = _ready([event], out, extensions)
                await seated(one, ready)

        return awaited
    loop = asyncio.get_running_loop()

    def called(event: Event) -> object:
        with extensions.delivering(out, loop):
            (ready,) = _ready([event], out, extensions)
            return one(ready)

    return called  # type: ignore[return-value]  # what it returns is looked at by whoever called it


def extended_many(many: Many, extensions: Extensions) -> Many:
    """The call of a dispatcher of many events, surrounded."""

    async def awaited(events: Sequence[Event]) -> Outcomes:
        out = _delivering(events)
        with extensions.delivering(out):
            return await many(_ready(events, out, extensions))

    return awaited


def extended_handler(
    handler: Callable[..., Any],
    applying: Applying,
    extensions: Extensions,
    threaded: bool,
) -> Callable[..., Any]:
    """The handler of an inbox message, surrounded where it runs."""
    if not threaded:

        async def awaited(*arguments: object) -> object:
            with extensions.applying(applying):
                return await seated(handler, *arguments)

        return awaited
    loop = asyncio.get_running_loop()

    def called(*arguments: object) -> object:
        with extensions.applying(applying, loop):
            return handler(*arguments)

    return called


class ExtendedPoster:
    """A poster of webhooks, surrounded."""

    def __init__(self, poster: Poster, extensions: Extensions) -> None:
        self._poster = poster
        self._extensions = extensions

    async def post(self, post: Post) -> Answer:
        """The receiver's answer."""
        message = Outgoing(post.id, post.topic, None, post.attempt, dict(post.headers))
        to = post.endpoint.name
        out = Delivering(kind="webhook", to=to, messages=(message,), state={})
        with self._extensions.delivering(out):
            headers = self._extensions.sendable(message)
            return await self._poster.post(replace(post, headers=headers))

    async def close(self) -> None:
        """Let the connections go."""
        await self._poster.close()


def _delivering(events: Sequence[Event]) -> Delivering:
    messages = tuple(
        Outgoing(one.id, one.topic, one.key, one.attempt, dict(one.headers)) for one in events
    )
    return Delivering(kind="dispatcher", to=events[0].stream, messages=messages, state={})


def _ready(events: Sequence[Event], out: Delivering, extensions: Extensions) -> list[Event]:
    """The events with the headers that they have."""
    return [
        replace(event, headers=extensions.sendable(message))
        for event, message in zip(events, out.messages, strict=True)
    ]
