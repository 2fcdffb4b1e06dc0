"""``app.routers``: the routers of an app, their master gate, and what they deliver with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from offpath.errors import InvalidArgument
from offpath.events.declarations import checked_spec
from offpath.events.deliveries import RoutedEvent
from offpath.events.relay import decoder
from offpath.events.router import Router
from offpath.events.router_step import Travel
from offpath.events.source import EventSource, FunctionSource, Keyset, Reader
from offpath.events.stored_router import StoredRouter
from offpath.events.table import TableReader
from offpath.model.effects import Effects
from offpath.model.new import Box, NewMessage
from offpath.model.tally import Tally
from offpath.model.unsent import unsent
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from offpath.model.route import RouterRecord, RouterSpec
    from offpath.runtime.clock import Clock
    from offpath.runtime.codec import Codec
    from offpath.runtime.loop import LoopSpec
    from offpath.store.protocol import Store


class RouterHome(Protocol):
    """The app, as routers need it."""

    clock: Clock

    def new_id(self) -> str:
        """A new id."""
        ...


class Routers:
    """The routers that were declared, by name."""

    def __init__(
        self,
        home: RouterHome,
        codec: Codec,
        opened: Callable[[], Awaitable[Store]],
        added: Callable[[Router], None],
        new_holder: Callable[[], str],
        travel: Travel | None = None,
    ) -> None:
        self._home = home
        self._codec = codec
        self._opened = opened
        self._added = added
        self._new_holder = new_holder
        self.travel = travel or Travel()
        """The headers and the extensions of an event."""
        self._declared: dict[str, Router] = {}
        self.decode_payload: Callable[[str], Any] = decoder(codec)
        """A payload's value."""

    def __repr__(self) -> str:
        """Show the names."""
        return f"<Routers {sorted(self._declared)}>"

    @property
    def clock(self) -> Clock:
        """The app's clock, also after its store was swapped."""
        return self._home.clock

    def declare(  # noqa: PLR0913 - as the verb
        self,
        name: str,
        *,
        domain: str,
        start: str | int | tuple[Any, ...],
        partitions: int = 1,
        read: Keyset | None = None,
        table: str | None = None,
        order: Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
        safety_lag: float | timedelta = 5.0,
        concurrency: int = 50,
        timeout: float = 20.0,
    ) -> Router:
        """A new router; see :meth:`offpath.App.router`."""
        spec = checked_spec(name, domain=domain, start=start, partitions=partitions)
        if name in self._declared:
            raise InvalidArgument(f"there is a router {name!r} already")
        reader = reader_of(spec, read, table, order, columns)
        source = None
        if reader is not None:
            source = EventSource(reader, domain, clock=self.clock, safety_lag=safety_lag)
        router = Router(self, spec, source=source, concurrency=concurrency, time_limit=timeout)
        self._declared[name] = router
        self._added(router)
        return router

    def all(self) -> list[Router]:
        """Every router that was declared here, by name."""
        return [self._declared[name] for name in sorted(self._declared)]

    def get(self, name: str) -> Router:
        """One of them. Raises ``InvalidArgument`` naming those there are."""
        if name not in self._declared:
            known = ", ".join(sorted(self._declared)) or "none"
            raise InvalidArgument(f"there is no router {name!r} in this app; it has {known}")
        return self._declared[name]

    def stored(self, name: str) -> StoredRouter:
        """One by its name as the store has it, also when another service declared it."""
        return StoredRouter(self._opened, name)

    def loops(self) -> tuple[LoopSpec, ...]:
        """The loops that a worker drives."""
        return tuple(router.loop() for router in self.all())

    def movers(self) -> list[Routed]:
        """One for each router."""
        return [Routed(router) for router in self.all()]

    def making(self) -> dict[str, Callable[[], Routed]]:
        """The makers of a mover for each router, by name."""
        return {router.name: partial(Routed, router) for router in self.all()}

    async def records(self) -> list[RouterRecord]:
        """Every router of the store, also those that other services declared."""
        return await (await self._opened()).routers()

    async def open_gate(self, *, opened: bool = True) -> None:
        """Open (or close) the master gate, which all routers of the store need open."""
        await (await self._opened()).set_gate(None, opened=opened)

    # -- what a router needs of its host -----------------------------------------------------------

    async def opened_store(self) -> Store:
        """The open store."""
        return await self._opened()

    def new_id(self) -> str:
        """A new name to hold something under."""
        return self._new_holder()

    def job_for(self, task: Any, event: RoutedEvent) -> Effects:  # noqa: ANN401 - any task
        """A job of ``task`` whose one argument is the event."""
        new = structs.replace(unsent(task.job(event)).new, id=_id_of(event))
        return Effects(jobs=(new,))

    def message_for(self, stream: str, event: RoutedEvent) -> Effects:
        """An outbox message with the event's type, key and payload."""
        message = NewMessage(
            id=_id_of(event),
            box=Box.OUT,
            stream=stream,
            topic=event.type,
            payload=self._codec.encode(event.payload),
            key=event.key,
        )
        return Effects(messages=(message,))


class Routed:
    """A router as that which moves things until nothing is due."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def run_once(self, *, limit: int) -> Tally:
        """Pass up to ``limit`` events of each partition."""
        run = await self._router.run_once(limit=limit)
        return structs.replace(
            run.tally, more=run.more, skipped=None if run.passed else run.stopped
        )

    async def stop(self, seconds: float = 0.0) -> None:
        """Nothing is held between two runs."""


def reader_of(
    spec: RouterSpec,
    read: Keyset | None,
    table: str | None,
    order: Sequence[str],
    columns: Mapping[str, str] | None,
) -> Reader | None:
    """The reader of a table of the user's own; None for the log. Raises ``InvalidArgument``."""
    if table is None and (order or columns):
        raise InvalidArgument("order= and columns= are of a table: name it with table=")
    if read is None and table is None:
        if spec.mark is not None:
            raise InvalidArgument("a position of the log is an integer: start is not a tuple")
        return None
    if spec.partitions != 1:
        raise InvalidArgument("a router with a source of its own has one partition")
    if table is None and read is not None:
        if spec.start == "now":
            raise InvalidArgument(
                "with read= the router cannot know where your table ends now: let start be "
                "'beginning' or a position, or declare table= and order="
            )
        return FunctionSource(read)
    if read is not None or table is None:
        raise InvalidArgument("a router has read= or table=, not both")
    return TableReader(table, order, columns, domain=spec.domain)


def _id_of(event: RoutedEvent) -> str:
    """The id of what a delivery writes: the same at every attempt, so a repeat changes nothing."""
    return derive_id(event.id, f"{event.router}:{event.route}")
