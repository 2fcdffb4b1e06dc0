"""The life of a Redis store: opening, closing, its clock, and the way of every transition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from offpath.model.changes import ChangedJob
from offpath.runtime.clock import Clock
from offpath.runtime.ids import IdGenerator, new_id
from offpath.store.capabilities import Capabilities
from offpath.store.hints import Hint
from offpath.store.partial import PartialStore
from offpath.store.protocol import Finding
from offpath.store.redis import enqueue, jobs
from offpath.store.redis.address import parsed
from offpath.store.redis.capabilities import CAPABILITIES
from offpath.store.redis.connection import RedisConnection
from offpath.store.redis.diagnosis import Diagnosis, deaths, diagnosed
from offpath.store.redis.unit import Unit, transacted

T = TypeVar("T")


class RedisLife(PartialStore):
    """A connection to a server, and what a store on it is before it has any transition."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        ids: IdGenerator = new_id,
        call_timeout: float = 5.0,
    ) -> None:
        self._connection = RedisConnection(parsed(url), clock=clock, call_timeout=call_timeout)
        self._enqueuer = enqueue.Enqueuer(self._connection)
        self._new_id = ids
        self._capabilities = CAPABILITIES

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend, with how durable this server is once it is open."""
        return self._capabilities

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, load the functions, and read how durable the server is.

        Raises ``StoreUnavailable``, and ``ConfigurationError`` where what is acknowledged would
        not last and the URL does not say that this is meant.
        """
        self._connection.open()
        try:
            # first: nothing is loaded into a server that is refused
            found = await diagnosed(self._connection)
            found.refuse(self._connection.address)
            await self._connection.begin()
        except BaseException:
            await self.close()
            raise
        self._capabilities = replace(CAPABILITIES, durability=found.durability)

    async def close(self) -> None:
        """Give back all connections."""
        await self._connection.close()

    async def diagnose(self) -> list[Finding]:
        """The findings about the server's settings."""
        found: Diagnosis = await diagnosed(self._connection)
        return [
            *found.findings(self._connection.address),
            deaths(seen=await self._connection.show()),
        ]

    async def ping(self) -> datetime:
        """The store's clock."""
        await self._connection.read(["PING"])
        return await self._connection.now()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Call ``callback`` when something may have changed, here or elsewhere."""
        return self._connection.hints.subscribe(callback)

    async def _do(self, work: Callable[[Unit], Awaitable[T]], *, grows: bool = False) -> T:
        answer, _ = await transacted(self._connection, self._new_id, work, grows=grows)
        return answer

    async def _look(self) -> Unit:
        return Unit(self._connection, await self._connection.now(), self._new_id)

    async def _change(
        self, work: Callable[[Unit], Awaitable[list[ChangedJob]]]
    ) -> list[ChangedJob]:
        changes, unit = await transacted(self._connection, self._new_id, work)
        return jobs.with_groups(unit, changes)
