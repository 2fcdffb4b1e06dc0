"""A TCP proxy that fails on command: it cuts, refuses, falls silent, delays, and loses answers.

It runs in a thread of its own, so that a blocked event loop of the test does not stop it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self

CHUNK = 65_536
COMMITTED = b"COMMIT\x00"
"""The tag with which Postgres answers a COMMIT; a rolled-back one is answered ROLLBACK."""
INSERTED = b"INSERT 0 1\x00"
"""The tag of an insert of one row."""


@dataclass(eq=False, slots=True)
class Link:
    """One connection through the proxy."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    sent: bytearray = field(default_factory=bytearray)
    """The bytes that the client has sent, to tell connections apart."""
    silent: bool = False

    def cut(self) -> None:
        """Reset both sides."""
        for side in (self.near, self.far):
            side.transport.abort()


class Proxy:
    """Stands before one server. ``with Proxy(host, port) as proxy: … proxy.port``."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[Link] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._refusing = False
        self._losing: Callable[[bytes], bool] | None = None
        self.port = 0
        self.delay = 0.0
        self._tag = COMMITTED
        """Seconds by which every answer is late."""
        self.accepted = 0
        """The number of connections that were let through."""
        self.refused = 0
        """The number of those that were not."""
        self.lost_answers = 0
        """The number of answers to a COMMIT that were lost."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- faults ------------------------------------------------------------------------------

    def cut(self) -> int:
        """Reset every connection; new ones are let through. Returns how many there were."""
        hit: int = self._do(self._cut())
        return hit

    def refuse(self) -> None:
        """Reset every connection, and all new ones."""
        self._refusing = True
        self.cut()

    def heal(self) -> None:
        """Let everything through again. What is half open stays so."""
        self._refusing = False
        self._losing = None
        self.delay = 0.0

    def lead(self, host: str, port: int) -> None:
        """Lead to another server from now on, and cut what leads to the one before."""
        self._target = (host, port)
        self.cut()

    def silence(self, marker: bytes) -> int:
        """Pass nothing on any more, both ways, and close nothing, where a client sent ``marker``.

        That is what a host that has gone leaves behind. Returns how many connections it hit.
        """
        hit: int = self._do(self._silence(marker))
        return hit

    def lose_commit(self, of: bytes, *, tag: bytes = COMMITTED) -> None:
        """Cut the connection instead of passing on the answer to a COMMIT, once.

        Only of a transaction in which the client sent ``of``: the server has done it, and the
        client cannot know. ``tag`` is what the server answers: a statement that is its own
        transaction has no COMMIT.
        """
        self._tag = tag
        self._losing = lambda sent: of in sent

    # -- in the proxy's thread -----------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _cut(self) -> int:
        links = tuple(self._links)
        for link in links:
            link.cut()
        return len(links)

    async def _silence(self, marker: bytes) -> int:
        hit = [link for link in self._links if marker in link.sent]
        for link in hit:
            link.silent = True
        return len(hit)

    async def _connected(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.refused += 1
            near.transport.abort()
            return
        try:
            back, far = await asyncio.open_connection(*self._target)
        except OSError:
            self.refused += 1
            near.transport.abort()
            return
        self.accepted += 1
        link = Link(near, far)
        self._links.add(link)
        self._pump(self._forth(link, reader))
        self._pump(self._back(link, back))

    def _pump(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _forth(self, link: Link, reader: asyncio.StreamReader) -> None:
        with self._until_cut(link):
            while data := await reader.read(CHUNK):
                link.sent += data
                if not link.silent:
                    link.far.write(data)
                    await link.far.drain()

    async def _back(self, link: Link, reader: asyncio.StreamReader) -> None:
        with self._until_cut(link):
            while data := await reader.read(CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self._tag in data and self._loses(link):
                    return
                if not link.silent:
                    link.near.write(data)
                    await link.near.drain()

    def _loses(self, link: Link) -> bool:
        lost = self._losing is not None and self._losing(bytes(link.sent))
        if lost:
            self._losing = None
            self.lost_answers += 1
        link.sent.clear()  # the next transaction is told apart by its own statements
        return lost

    @contextlib.contextmanager
    def _until_cut(self, link: Link) -> Any:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                yield
        finally:
            if not link.silent:
                link.cut()
                self._links.discard(link)
