"""Relaying an event: the handler of a stream's task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from offpath.jobs.context import Context

E = TypeVar("E")


def relay_handler(make: Callable[..., E], dispatcher: Callable[[E], Any]) -> Callable[..., Any]:
    """A handler that makes the event of its job, and hands it to ``dispatcher``."""

    def relay(
        ctx: Context,
        topic: str,
        payload: Any,  # noqa: ANN401 - any value that the codec takes
        key: str | None,
        headers: dict[str, str],
    ) -> Any:  # noqa: ANN401 - None, or a coroutine of it
        event = make(
            id=ctx.id,
            topic=topic,
            payload=payload,
            key=key,
            headers=headers,
            attempt=ctx.attempt,
        )
        return dispatcher(event)

    async def relay_async(
        ctx: Context,
        topic: str,
        payload: Any,  # noqa: ANN401 - any value that the codec takes
        key: str | None,
        headers: dict[str, str],
    ) -> None:
        await relay(ctx, topic, payload, key, headers)

    return relay_async if inspect.iscoroutinefunction(inspect.unwrap(dispatcher)) else relay
