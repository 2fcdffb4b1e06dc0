"""The connection to a server: calls of our functions, pipelines, the clock, wake-ups."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

import msgspec
import redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from offpath.errors import StoreUnavailable
from offpath.runtime.clock import Clock
from offpath.store.hints import Hint, Hints
from offpath.store.redis import keys
from offpath.store.redis.address import ServerAddress
from offpath.store.redis.faults import told_as_store_errors, translated
from offpath.store.redis.job_rows import micros, moment
from offpath.store.redis.presence import RedisPresence
from offpath.store.redis.wire import Wire, heard

_log = logging.getLogger("offpath.store")

_TEXT: Final = files("offpath.store.redis").joinpath("functions.lua").read_text()
VERSION: Final = hashlib.sha256(_TEXT.encode()).hexdigest()[:12]
"""The version of our functions: that of two releases lie side by side in one server."""
LIBRARY: Final = f"offpath_{VERSION}"
_CODE: Final = f"#!lua name={LIBRARY}\n" + _TEXT.replace("VERSION", VERSION)

UNSEEN: Final = (
    "this server does not tell of a worker's death: its jobs wait for the end of its lease; let "
    "the user run SUBSCRIBE to the channels of the prefix, PUBSUB NUMSUB and INFO"
)
_FRESH: Final = 1.0
"""Seconds for which the distance of our clock and the server's is believed."""
_LISTEN_AGAIN: Final = 1.0
"""Seconds between two tries to hear wake-ups; polling finds what is missed meanwhile."""
_WAIT_LIMIT: Final = 200
"""Milliseconds that a write waits for replicas."""


class RedisConnection:
    """One process's way to a server. Belongs to one event loop, but for :meth:`vouch`."""

    def __init__(self, address: ServerAddress, *, clock: Clock | None, call_timeout: float) -> None:
        self.address = address
        self.prefix = f"{{{address.prefix}}}:"
        self.clock = clock
        self.hints = Hints()
        self._timeout = call_timeout
        self._pool: ConnectionPool | None = None
        self._wire: Wire | None = None
        self._blocking: redis.Redis | None = None
        self._listening: asyncio.Task[None] | None = None
        self.presence = RedisPresence(call_timeout)
        self._unseen_told = False
        self._ahead = 0
        self._measured = float("-inf")

    # -- life ------------------------------------------------------------------------------

    def open(self) -> None:
        """Make ready to connect: the first call does it."""
        if self._wire is not None:
            return
        self._pool = ConnectionPool.from_url(
            self.address.url,
            # Answers have another shape by the third, and they are read here without the driver's
            # help.
            protocol=2,
            # each call has a limit of its own; a wake-up is waited for without any
            socket_timeout=None,
            socket_connect_timeout=self._timeout,
            socket_keepalive=True,
            # a driver that repeats a write by itself would hide that the first one was carried out
            retry=AsyncRetry(NoBackoff(), 0),
        )
        self._wire = Wire(self._pool.make_connection, self._timeout)
        self._blocking = redis.Redis.from_url(
            self.address.url,
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            retry=Retry(NoBackoff(), 0),
        )

    async def begin(self) -> None:
        """Load our functions, and hear wake-ups from now on. Raises ``StoreUnavailable``."""
        with told_as_store_errors():
            await self._load()
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """Give back all connections. Idempotent."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        await self.presence.end()
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()

    async def show(self) -> bool:
        """Show from now on that this process lives; False: the server does not tell others."""
        if self._pool is not None:
            channel = self.prefix + keys.PRESENCE + self.presence.token
            await self.presence.show(self._pool.make_connection, channel)
        return bool(await self.call("seen", self.presence.token))

    async def shown(self) -> bool:
        """Show it for a worker. Where that does not go, it is told once."""
        seen = await self.show()
        if not (seen or self._unseen_told):
            self._unseen_told = True
            _log.warning("%s", UNSEEN)
        return seen

    async def _ask(self, *commands: Sequence[Any]) -> list[Any]:
        if self._wire is None:
            raise StoreUnavailable("the store is not open: open the app first")
        return await self._wire.ask(*commands)

    async def _load(self) -> None:
        try:
            await self._ask(["FUNCTION", "LOAD", _CODE])
        except ResponseError as error:
            # Another process was first. The name holds a digest of the text, so it is the same.
            if "already exists" not in str(error):
                raise

    # -- calls -----------------------------------------------------------------------------

    async def call(self, function: str, *args: Any) -> Any:  # noqa: ANN401 - as the server answers
        """Call one of our functions. Raises ``StoreError`` kinds."""
        with told_as_store_errors():
            try:
                return await self._fcall(function, args)
            except ResponseError as error:
                if "Function not found" not in str(error):
                    raise
            await self._load()  # somebody flushed the functions
            return await self._fcall(function, args)

    async def _fcall(self, function: str, args: Sequence[Any]) -> Any:  # noqa: ANN401 - as above
        name = f"offpath_{function}_{VERSION}"
        called = ["FCALL", name, 1, self.prefix, *args]
        if not self.address.wait:
            (answer,) = await self._ask(called)
            return answer
        answer, replicas = await self._ask(called, ["WAIT", self.address.wait, _WAIT_LIMIT])
        if replicas < self.address.wait:
            raise StoreUnavailable(
                f"{replicas} of {self.address.wait} replicas confirmed a write in time: "
                "whether it lasts is unknown"
            )
        return answer

    async def read(self, *commands: Sequence[Any]) -> list[Any]:
        """The answers to some reads, sent at once; the clock is asked along."""
        with told_as_store_errors():
            timed = self.clock is None
            answers = await self._ask(*commands, *([["TIME"]] if timed else []))
        if timed:
            seconds, rest = answers.pop()
            self.measured(int(seconds) * 1_000_000 + int(rest))
        return [_shaped(*each) for each in zip(commands, answers, strict=True)]

    # -- the clock -------------------------------------------------------------------------

    def measured(self, server: int) -> None:
        """Note what the server's clock says now, in microseconds."""
        self._measured = time.monotonic()
        self._ahead = server - int(self._measured * 1e6)

    async def now(self) -> datetime:
        """The store's time: the injected clock's, or the server's."""
        if self.clock is not None:
            return self.clock.now()
        if time.monotonic() - self._measured > _FRESH:
            await self.read()
        return moment(str(self._ahead + int(time.monotonic() * 1e6)))

    def given_time(self) -> str:
        """The time that a function is given: empty where it asks the server's own clock."""
        return "" if self.clock is None else str(micros(self.clock.now()))

    # -- threads ---------------------------------------------------------------------------

    def vouch(self, worker: str, lease_seconds: float, report: str | None) -> bool:
        """Renew a worker's lease from a thread, over a connection of its own."""
        if self._blocking is None:
            raise StoreUnavailable("the store is not open: open the app first")
        now = self.given_time()
        with told_as_store_errors():
            name = f"offpath_vouch_{VERSION}"
            # The shared connection belongs to the event loop, which is blocked when this is called.
            known = self._blocking.fcall(
                name, 1, self.prefix, worker, now, str(lease_seconds), report or ""
            )
        return bool(known)

    # -- wake-ups --------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Tell what other processes publish, for as long as the store is open."""
        while self._pool is not None:
            try:
                channel = self.prefix + keys.HINTS
                async for told in heard(self._pool.make_connection, channel):
                    with suppress(ValueError):  # a hint of a later version
                        self.hints.emit(Hint(told.decode()))
            except (RedisError, OSError) as error:
                _log.debug("wake-ups of Redis are not heard: %s", translated(error))
            await asyncio.sleep(_LISTEN_AGAIN)


def _shaped(command: Sequence[Any], answer: Any) -> Any:  # noqa: ANN401 - as the server answers
    """The fields of a whole hash by name; any other answer as it is."""
    if command[0] != "HGETALL":
        return answer
    flat = iter(answer)
    return dict(zip(flat, flat, strict=True))


def packed(value: object) -> bytes:
    """A value as our functions unpack it."""
    return msgspec.msgpack.encode(value)
