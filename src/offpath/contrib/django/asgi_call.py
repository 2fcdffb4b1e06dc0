"""One call of an ASGI app by somebody who is not a server: the answer comes in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope


@dataclass(frozen=True, slots=True)
class BegunAnswer:
    """The beginning of an answer."""

    status: int
    headers: Sequence[tuple[str, str]]
    first: bytes
    whole: bool
    """True if nothing follows the first bytes."""


class AsgiCall:
    """A request with its body, whose app runs until the answer is read or closed."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._app = app
        self._scope = scope
        self._body: bytes | None = body
        self._sent: asyncio.Queue[Message] | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: bytes | None = None
        self._more = True

    async def begin(self) -> BegunAnswer:
        """Start the app; the beginning of its answer. Raises what the app does."""
        self._sent = asyncio.Queue(1)  # who reads slowly slows the app down
        self._task = asyncio.ensure_future(self._app(self._scope, self._receive, self._sent.put))
        try:
            start = await self._next()
            self._first = await self.chunk() or b""
        except BaseException:
            await self.close()
            raise
        headers = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]
        ]
        begun = BegunAnswer(start["status"], headers, self._first, whole=not self._more)
        if begun.whole:
            await self._task
        return begun

    async def chunk(self) -> bytes | None:
        """The next bytes; None at the end."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if not self._more:
            return None
        message = await self._next()
        self._more = bool(message.get("more_body", False))
        body: bytes = message.get("body", b"")
        return body

    async def close(self) -> None:
        """End the app, if it still runs: nobody reads its answer any more."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _next(self) -> dict[str, Any]:
        assert self._sent is not None  # noqa: S101 - set by begin
        assert self._task is not None  # noqa: S101 - as above
        taken = asyncio.ensure_future(self._sent.get())
        try:
            await asyncio.wait({taken, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not taken.done():
                self._task.result()  # raises what the app raised
                raise RuntimeError("the app has ended without an answer")
            return dict(taken.result())
        finally:
            taken.cancel()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.Event().wait()  # whoever has gone closes the call
        raise AssertionError
