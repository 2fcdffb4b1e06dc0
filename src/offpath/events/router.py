"""The router: reads the log by a cursor, and gives each event exactly one decision.

A run takes the cursor by lease, reads what is settled, delivers, and writes attempts, dead letters
and the cursor's advance in one transaction. Two runs of one partition never overlap; parallelism is
by partitions of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import structs

from offpath.errors import Conflict, InvalidArgument
from offpath.events.cursors import Holding
from offpath.events.declarations import pattern, refuse_changed
from offpath.events.deliveries import Delivery, Maker, delivery_of
from offpath.events.letter_redrive import LetterRedrive
from offpath.events.redo import LOGGED, Redoer, logged
from offpath.events.router_run import (
    CursorLost,
    RouterRun,
    WithinStep,
    closed_gate,
    held,
    joined,
    renewed,
)
from offpath.events.router_step import (
    REFUSED,
    Courier,
    Place,
    RouterStep,
    Travel,
    decisions,
    place_of,
    placed,
    reached,
    tallied,
)
from offpath.events.stored_router import StoredRouter
from offpath.events.verification import Check
from offpath.model import checks
from offpath.model.route import (
    Cursor,
    Decisions,
    LogPage,
    Route,
    RouterRecord,
    RouterSpec,
)
from offpath.model.tally import Tally, Turn
from offpath.runtime.former import Former, former_names
from offpath.runtime.ids import derive_id
from offpath.runtime.loop import LoopSpec

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.events.source import EventSource
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

D = TypeVar("D")

PAGE: Final = 1_000
"""Events of one step."""
LEASE: Final = 60.0
"""Seconds for which a run has the cursor; renewed while it delivers."""
CHUNK: Final = 100
"""Events that are delivered between two looks at the gates."""


class RouterHost(Maker, Protocol):
    """The app, as a router needs it."""

    @property
    def clock(self) -> Clock:
        """The clock of this process."""
        ...

    @property
    def travel(self) -> Travel:
        """The headers and the extensions of an event."""
        ...

    async def opened_store(self) -> Store:
        """The open store."""
        ...

    def new_id(self) -> str:
        """A new id."""
        ...

    def decode_payload(self, text: str) -> Any:  # noqa: ANN401 - any value that the codec gives
        """A payload's value."""
        ...


class Router:
    """A named reader of one domain of the log. Made by ``app.router(...)``."""

    def __init__(
        self,
        host: RouterHost,
        spec: RouterSpec,
        *,
        source: EventSource | None = None,
        concurrency: int = 50,
        time_limit: float = 20.0,
        interval: float = 1.0,
    ) -> None:
        self._host = host
        self._spec = spec
        self._source = source
        self._deliveries: dict[str, Delivery] = {}
        self._declared_in: Store | None = None
        self._interval = interval
        self._holding = Holding(spec.name, host.new_id, LEASE)
        self._courier = Courier(
            self._deliveries,
            host.decode_payload,
            concurrency=concurrency,
            time_limit=time_limit,
            travel=host.travel,
        )

    def __repr__(self) -> str:
        """Show the name and the domain."""
        return f"<Router {self.name} domain={self._spec.domain} routes={len(self._spec.routes)}>"

    @property
    def name(self) -> str:
        """Its name: cursor, gate, attempts and dead letters are kept under it."""
        return self._spec.name

    @property
    def spec(self) -> RouterSpec:
        """The declaration, with the routes so far."""
        return self._spec

    # -- routes ----------------------------------------------------------------------------

    def route(
        self,
        *,
        type: str = "*",  # noqa: A002 - the event's field
        stream: str = "*",
        deliver: Any = None,  # noqa: ANN401 - see delivery_of
        name: str | None = None,
        enabled: bool = False,
        dry_run: bool = True,
    ) -> Callable[[D], D]:
        """Add a route: events of this type and stream go to ``deliver``.

        ``deliver`` is a task, an :class:`Outbox`, an object with ``label`` and
        ``effects(event)``, or a function of a :class:`RoutedEvent`; without it, use the
        result as a decorator of that function. A new route is disabled and dry-run unless told
        otherwise here; once it is in the store, only :meth:`switch` changes that.

        Raises ``InvalidArgument`` for a second route of one name.
        """
        new = Route(
            name=checks.name(name or f"{type}:{stream}", "route name"),
            type=pattern(type, "type"),
            stream=pattern(stream, "stream"),
            enabled=enabled,
            dry_run=dry_run,
        )
        if any(route.name == new.name for route in self._spec.routes):
            raise InvalidArgument(f"router {self.name!r} has a route {new.name!r} already")
        if deliver is not None:
            delivery_of(deliver, self._host)  # refused before the route is there
            self._add(new, deliver)
            return _itself
        self._add(new, None)

        def register(target: D) -> D:
            self._set_delivery(new.name, target)
            return target

        return register

    def _add(self, new: Route, deliver: object) -> None:
        self._spec = structs.replace(self._spec, routes=(*self._spec.routes, new))
        self._declared_in = None
        if deliver is not None:
            self._set_delivery(new.name, deliver)

    def _set_delivery(self, route: str, target: object) -> None:
        delivery = delivery_of(target, self._host)
        self._deliveries[route] = delivery
        routes = tuple(
            structs.replace(one, deliver=delivery.label) if one.name == route else one
            for one in self._spec.routes
        )
        self._spec = structs.replace(self._spec, routes=routes)
        self._declared_in = None

    # -- running ---------------------------------------------------------------------------

    async def run_once(
        self, *, limit: int = PAGE, partition: int | None = None, within: object = None
    ) -> RouterRun:
        """Pass up to ``limit`` events of each partition (or of the one named).

        With ``within`` it all happens in the caller's own transaction; then only dry-run routes and
        deliverers that write to this database are allowed, and others are refused before anything
        is done. What the store does not know of the router yet is declared first, and not in that
        transaction: on SQLite, run or open it once before. An event that fails is a dead letter and
        holds nobody back.
        """
        checks.integer(limit, "limit", least=1, most=100_000)
        store = await self._declared()
        if within is not None:
            self._refuse_outside(within)
        runs = [
            await self._run_partition(store, one, limit, within)
            for one in self._partitions(partition)
        ]
        return joined(self.name, runs)

    def run_once_blocking(
        self, store: Store, within: object, *, limit: int = PAGE, partition: int | None = None
    ) -> RouterRun:
        """Run once as :meth:`run_once` does, within a blocking connection, for a router declared
        before.
        """
        self._refuse_outside(within)
        runs = []
        for one in self._partitions(partition):
            page = WithinStep(self.name, self._courier, limit)
            found = store.route_within_blocking(
                within, self.name, one, limit=limit, decide=page.decide
            )
            runs.append(held(self.name, one) if found is None else page.run)
        return joined(self.name, runs)

    def loop(self) -> LoopSpec:
        """The loop by which a worker drives it."""
        return LoopSpec(
            name=f"router:{self.name}",
            step=self._turn,
            interval=self._interval,
            wakes=frozenset({"messages"}),
        )

    async def _turn(self) -> Turn:
        run = await self.run_once()
        cause = f"{len(run.failed)} events became dead letters" if run.failed else None
        return Turn(verdict=run.verdict, counts=run.counts, again=run.more or None, cause=cause)

    async def _run_partition(
        self, store: Store, partition: int, limit: int, within: object
    ) -> RouterRun:
        if within is not None:
            page = WithinStep(self.name, self._courier, limit)
            found = await store.route_within(
                within, self.name, partition, limit=limit, decide=page.decide
            )
            return page.run if found is not None else held(self.name, partition)
        record = await self.record()
        if (gate := closed_gate(record)) is not None:
            return RouterRun(router=self.name, stopped=gate)
        cursor = await self._holding.lease(store, partition)
        if cursor is None:
            return held(self.name, partition)
        try:
            return await self._pass(store, record, cursor, limit)
        finally:
            await self._holding.release(store, cursor)

    async def _pass(
        self, store: Store, record: RouterRecord, cursor: Cursor, limit: int
    ) -> RouterRun:
        page = await self._read(store, cursor, limit)
        steps = self._courier.decided(record, page.events)
        done = await renewed(
            self._deliver(steps),
            lambda: self._renew(store, cursor),
            clock=self._host.clock,
            every=LEASE / 3,
        )
        position, passed = reached(page, cursor.position, limit), len(page.events)
        if cut := len(done) < len(steps):
            position = done[-1].event.position
            passed = sum(event.position <= position for event in page.events)
        if position == cursor.position and not done:
            return RouterRun(router=self.name, waiting_for=page.waiting_for)
        place = placed(page.events, position)
        done = await self._write(store, cursor, done, place, passed)
        return RouterRun(
            router=self.name,
            passed=passed,
            tally=tallied(done),
            more=cut or passed >= limit,
            waiting_for=page.waiting_for,
        )

    async def _deliver(self, steps: Sequence[RouterStep]) -> list[RouterStep]:
        """The steps that were delivered: all, or as many as until a gate was closed meanwhile."""
        done: list[RouterStep] = []
        looked = self._host.clock.monotonic()
        for at in range(0, len(steps), CHUNK):
            if self._host.clock.monotonic() - looked > LEASE / 3:
                if closed_gate(await self.record()) is not None:
                    break
                looked = self._host.clock.monotonic()
            done.extend(await self._courier.deliver(steps[at : at + CHUNK]))
        return done

    async def _write(
        self, store: Store, cursor: Cursor, steps: list[RouterStep], place: Place, passed: int
    ) -> list[RouterStep]:
        """Write all in one transaction; when an event's rows are refused, one by one."""
        try:
            await self._advance(store, cursor, decisions(steps, place, passed, derive_id))
        except REFUSED:
            if not steps:
                raise
            return await self._write_each(store, cursor, steps, place, passed)
        return steps

    async def _write_each(
        self, store: Store, cursor: Cursor, steps: Sequence[RouterStep], place: Place, passed: int
    ) -> list[RouterStep]:
        done = [await self._write_one(store, cursor, step) for step in steps]
        await self._advance(store, cursor, decisions((), place, passed - len(steps), derive_id))
        return done

    async def _write_one(self, store: Store, cursor: Cursor, step: RouterStep) -> RouterStep:
        try:
            await self._advance(store, cursor, decisions((step,), place_of(step), 1, derive_id))
        except REFUSED as error:
            failed = step.failed(error)
            await self._advance(store, cursor, decisions((failed,), place_of(step), 1, derive_id))
            return failed
        return step

    async def _advance(self, store: Store, cursor: Cursor, what: Decisions) -> None:
        if not await store.advance(cursor, what):
            raise CursorLost(
                f"the cursor of router {self.name!r}, partition {cursor.partition}, was taken by "
                "another run: what this one delivered is delivered again under the same keys"
            )

    async def _renew(self, store: Store, cursor: Cursor) -> None:
        holder = cursor.holder or ""
        again = await store.lease_cursor(self.name, cursor.partition, holder, lease_seconds=LEASE)
        # A cursor that was put elsewhere is free: having it again does not make it this run's.
        if again is None or again.position != cursor.position:
            raise CursorLost(
                f"the cursor of router {self.name!r}, partition {cursor.partition}, was taken by "
                "another run, or put elsewhere"
            )

    async def _read(self, store: Store, cursor: Cursor, limit: int) -> LogPage:
        if self._source is None:
            return await store.read_log(
                self.name, cursor.partition, after=cursor.position, limit=limit
            )
        return await self._source.page(store, cursor, limit)

    # -- operating -------------------------------------------------------------------------

    async def record(self) -> RouterRecord:
        """The router as the store has it: gates, routes, cursors."""
        store = await self._declared()
        for record in await store.routers():
            if record.name == self.name:
                return record
        raise Conflict(f"router {self.name!r} is not in the store any more: restart its process")

    async def open_gate(self, *, opened: bool = True) -> None:
        """Open (or close) this router's own gate; ``app.routers`` has the master gate."""
        await (await self._declared()).set_gate(self.name, opened=opened)

    async def switch(
        self, route: str, *, enabled: bool | None = None, dry_run: bool | None = None
    ) -> None:
        """Switch a route on or off, or to dry run. Raises ``InvalidArgument`` if unknown."""
        store = await self._declared()
        if not await store.set_route(self.name, route, enabled=enabled, dry_run=dry_run):
            known = ", ".join(sorted(one.name for one in self._spec.routes)) or "none"
            raise InvalidArgument(f"router {self.name!r} has no route {route!r}; it has {known}")

    async def verify(self, *, most_lag: float = 300.0) -> list[Check]:
        """The numbered checks of ``offpath router verify``: reads only."""
        await self._declared()
        stored = StoredRouter(self._host.opened_store, self.name)
        return await stored.verify(
            deliverable=self._deliveries.keys(),
            own_log=self._source is None,
            most_lag=most_lag,
        )

    async def redrive(self, ids: Sequence[str] = (), *, limit: int = 100) -> Tally:
        """Deliver dead letters again: these, or all that are unresolved, oldest first.

        A letter is resolved when its route sends it or is a dry run. Redriving one twice at once
        resolves it once. Buckets: ``sent``, ``dry_run``, ``failed``, ``skipped``.
        """
        store = await self._declared()
        record = await self.record()
        return await LetterRedrive(store, self._courier, self._host.new_id, self._host.clock)(
            record, ids, limit=checks.integer(limit, "limit", least=1, most=checks.MOST_LISTED)
        )

    async def redo(
        self,
        status: str | Sequence[str] = LOGGED,
        *,
        since: datetime | None = None,
        limit: int = PAGE,
    ) -> Tally:
        """Decide anew about events whose last attempt was only logged, the first in the log first.

        ``status`` is one or several of ``dry_run``, ``skipped`` and ``disabled``; ``since`` leaves
        out attempts that are older. What is decided otherwise now is carried out and recorded as
        one more attempt, up to ``limit`` of them; what is not stays as it is, so a repeat changes
        nothing. Buckets: the new statuses, ``unchanged``, ``gone`` (no longer in the log) and
        ``busy`` (another redo is at it).
        """
        wanted = logged(status)
        begun = None if since is None else checks.aware(since, "since")
        checks.integer(limit, "limit", least=1, most=100_000)
        store = await self._declared()
        redoer = Redoer(store, self._courier, self._host.new_id, self._source, self._host.clock)
        return await redoer.redo(await self.record(), wanted, begun, limit)

    # -- inside ----------------------------------------------------------------------------

    if not TYPE_CHECKING:
        __getattr__ = former_names("router", {"replay": Former("redrive", "redrive")})

    async def _declared(self) -> Store:
        store = await self._host.opened_store()
        if self._declared_in is not store:
            # A caller's own transaction may be the one writer that there can be: only look.
            if not await self._is_known(store):
                await store.declare_router(await self._begun(store))
            self._declared_in = store
        return store

    async def _begun(self, store: Store) -> RouterSpec:
        return self._spec if self._source is None else await self._source.start(store, self._spec)

    async def _is_known(self, store: Store) -> bool:
        """True if the store has all that is declared here."""
        spec = self._spec
        for record in await store.routers():
            if record.name == spec.name:
                refuse_changed(spec, record)
                same = (record.domain, record.partitions) == (spec.domain, spec.partitions)
                there = {(route.name, route.deliver) for route in record.routes}
                return same and all((route.name, route.deliver) in there for route in spec.routes)
        return False

    def _partitions(self, partition: int | None) -> Sequence[int]:
        if partition is None:
            return range(self._spec.partitions)
        most = self._spec.partitions - 1
        return (checks.integer(partition, "partition", least=0, most=most),)

    def _refuse_outside(self, within: object) -> None:
        """Refuse what cannot be taken back, before anything is done."""
        if self._source is not None:
            raise InvalidArgument(
                "a router with a source of its own cannot run within a connection"
            )
        for name, delivery in self._deliveries.items():
            if delivery.outside is not None and self._may_be_live(name):
                raise InvalidArgument(
                    f"route {name!r} delivers outside of the database ({delivery.label}), which a "
                    f"rollback of {type(within).__name__} could not undo: run the router on its "
                    "own, or deliver to a task or an Outbox"
                )

    def _may_be_live(self, route: str) -> bool:
        """True if it is declared to send. The store's switches are checked again under their
        lock.
        """
        return any(one.name == route and not one.dry_run for one in self._spec.routes)


def _itself(target: D) -> D:
    return target
