"""The life of a Redis store: opening, closing, its clock, and the way of every transition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

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

P = ParamSpec("P")
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
        answer, _ = await self._transacted(work, grows=grows)
        return answer

    async def _transacted(
        self, work: Callable[[Unit], Awaitable[T]], *, grows: bool = False
    ) -> tuple[T, Unit]:
        return await transacted(self._connection, self._new_id, work, grows=grows)

    async def _look(self) -> Unit:
        return Unit(self._connection, await self._connection.now(), self._new_id)


def writing(
    work: Callable[Concatenate[Unit, P], Awaitable[T]], *, grows: bool = False
) -> Callable[Concatenate[RedisLife, P], Coroutine[Any, Any, T]]:
    """The method of a store that is one transition; ``grows`` as for :func:`transacted`."""

    @wraps(work)
    async def method(self: RedisLife, /, *args: P.args, **named: P.kwargs) -> T:
        return await self._do(lambda unit: work(unit, *args, **named), grows=grows)

    return method


def reading(
    look: Callable[Concatenate[Unit, P], Awaitable[T]],
) -> Callable[Concatenate[RedisLife, P], Coroutine[Any, Any, T]]:
    """The method of a store that is one look."""

    @wraps(look)
    async def method(self: RedisLife, /, *args: P.args, **named: P.kwargs) -> T:
        return await look(await self._look(), *args, **named)

    return method


def changing(
    work: Callable[Concatenate[Unit, P], Awaitable[list[ChangedJob]]],
) -> Callable[Concatenate[RedisLife, P], Coroutine[Any, Any, list[ChangedJob]]]:
    """The method of a store that ends jobs: it says too which groups that has ended."""

    @wraps(work)
    async def method(self: RedisLife, /, *args: P.args, **named: P.kwargs) -> list[ChangedJob]:
        changes, unit = await self._transacted(lambda unit: work(unit, *args, **named))
        return [replace(each, group_done=jobs.group_done(unit, each.id)) for each in changes]

    return method
