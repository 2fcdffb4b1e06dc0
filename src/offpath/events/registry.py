"""The events part of one app: what is registered, and what moves it."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from offpath.errors import InvalidArgument
from offpath.events.inbox import Drain, Source
from offpath.events.mover import MoverParts
from offpath.events.relay import MoverTools, Outlet, Relay
from offpath.model.lease import holder_of
from offpath.model.new import Box
from offpath.runtime.baggage import PLAIN, HeaderRules
from offpath.runtime.codec import JsonCodec
from offpath.runtime.loop import LoopSpec
from offpath.runtime.threads import HandlerPool
from offpath.store.hints import Hint

if TYPE_CHECKING:
    import asyncio

    from offpath.config import Settings
    from offpath.events.event_writer import MessageWriter
    from offpath.events.routers import Routed, Routers
    from offpath.events.webhook.endpoints import Webhooks
    from offpath.events.webhook.guard import Guard
    from offpath.events.webhook.keyring import Keyring
    from offpath.events.webhook.loops import FanOut, Posting
    from offpath.events.webhook.poster import Poster
    from offpath.model.route import RouterSpec
    from offpath.runtime.clock import Clock
    from offpath.runtime.codec import Codec
    from offpath.runtime.extensions import Extensions
    from offpath.store.protocol import Store

WAKES = frozenset({Hint.MESSAGES})

Loops: TypeAlias = "Relay | Drain | FanOut | Posting"
Moves: TypeAlias = "Loops | Routed"
Opened = Callable[[], Awaitable["Store"]]


class Surroundings(Protocol):
    """The app, as the events part needs it."""

    settings: Settings
    clock: Clock

    def new_id(self) -> str:
        """A new id."""
        ...


class Events:
    """Registered outlets and sources, and the relays and drains made for them."""

    def __init__(
        self,
        home: Surroundings,
        *,
        writer: MessageWriter,
        codec: Codec,
        random: Callable[[], float],
        report: Callable[[BaseException, str], None],
        opened: Opened,
        added: Callable[[LoopSpec], None],
        extended: Callable[[], Extensions | None],
        headers: HeaderRules = PLAIN,
    ) -> None:
        self.writer = writer
        """Makes messages and events."""
        self.codec = codec
        self._worker: str | None = None
        self.outlets: dict[str, Outlet] = {}
        self.sources: dict[str, Source] = {}
        self._routers: Routers | None = None
        self._webhooks: Webhooks | None = None
        self._home = home
        self._random = random
        self.report = report
        """The reporter of errors that no caller is there to catch."""
        self._opened = opened
        self._added = added
        self._extended = extended
        self._headers = headers
        self._made: weakref.WeakSet[Loops] = weakref.WeakSet()
        self._threads: HandlerPool | None = None

    @property
    def plain_json(self) -> bool:
        """True if payloads are stored as JSON, so that a JSON text can be stored as it is."""
        return type(self.codec) is JsonCodec

    # -- the parts that are loaded when they are used --------------------------------------------

    def specs(self) -> list[RouterSpec]:
        """The routers of this app, as they are declared."""
        return [] if self._routers is None else [one.spec for one in self._routers.all()]

    @property
    def routers(self) -> Routers:
        """The routers."""
        if self._routers is None:
            from offpath.events.router_step import Travel
            from offpath.events.routers import Routers

            self._routers = Routers(
                self._home,
                self.codec,
                self._opened,
                lambda router: self._added(router.loop()),
                self.new_holder,
                Travel(self._extended, self._headers),
            )
        return self._routers

    @property
    def webhooks(self) -> Webhooks:
        """The endpoints, and which streams go to them."""
        if self._webhooks is None:
            from offpath.events.webhook.endpoints import Webhooks

            self._webhooks = Webhooks(
                self._opened,
                self._guard,
                self._webhooks_added,
                self.outlets.__contains__,
                self._keyring,
            )
        return self._webhooks

    @property
    def _posted(self) -> tuple[str, ...]:
        """The streams that go to endpoints."""
        return () if self._webhooks is None else self._webhooks.streams

    # -- registering -----------------------------------------------------------------------------

    def add_outlet(self, outlet: Outlet) -> None:
        """Register a stream's dispatcher. Raises ``InvalidArgument`` if it has one."""
        if outlet.stream in self.outlets:
            raise InvalidArgument(f"the outbox stream {outlet.stream!r} has a dispatcher already")
        if outlet.stream in self._posted:
            raise InvalidArgument(f"the outbox stream {outlet.stream!r} goes to webhooks already")
        self.outlets[outlet.stream] = outlet
        self._added(self._relay_loop(outlet.stream, self._opened))

    def add_source(self, source: Source) -> None:
        """Register a source's handler. Raises ``InvalidArgument`` if it has one."""
        if source.name in self.sources:
            raise InvalidArgument(f"the inbox source {source.name!r} has a handler already")
        self.sources[source.name] = source
        self._added(self._drain_loop(source.name, self._opened))

    # -- moving ----------------------------------------------------------------------------------

    def relay(self, stream: str, opened: Opened | None = None) -> Relay:
        """A relay of its own for a stream."""
        opened = opened or self._opened
        keep = self._home.settings.keep_delivered
        made = Relay(
            stream,
            partial(self.outlets.get, stream),
            lambda: self._parts(opened),
            self._tools(),
            keep=keep,
        )
        self._made.add(made)
        return made

    def drain(self, source: str, opened: Opened | None = None) -> Drain:
        """A drain of its own for a source."""
        opened = opened or self._opened
        made = Drain(
            source,
            partial(self.sources.get, source),
            lambda: self._parts(opened),
            self._tools(),
            self.writer,
            keep=self._home.settings.keep_applied,
        )
        self._made.add(made)
        return made

    def movers(self) -> list[Moves]:
        """One for each that is registered."""
        relays: list[Moves] = [self.relay(stream) for stream in self.outlets]
        drains = (self.drain(source) for source in self.sources)
        routed = () if self._routers is None else self._routers.movers()
        posts = self._posts(self._opened) if self._posted else ()
        return [*routed, *relays, *drains, *posts]

    def routing(self) -> dict[str, Callable[[], Routed]]:
        """The makers of a mover for each router, by name."""
        return {} if self._routers is None else self._routers.making()

    def draining(self) -> dict[str, Callable[[], Drain]]:
        """The makers of a drain for each source, by name."""
        return {name: partial(self.drain, name) for name in self.sources}

    def relaying(self) -> dict[str, Callable[[], Loops]]:
        """The makers of a relay for each stream, and of what posts to endpoints, by name."""
        made: dict[str, Callable[[], Loops]] = {
            name: partial(self.relay, name) for name in self.outlets
        }
        if self._posted:
            made["webhooks:plan"] = lambda: self._posts(self._opened)[0]
            made["webhooks:post"] = lambda: self._posts(self._opened)[1]
        return made

    def loops(self, store: Store) -> tuple[LoopSpec, ...]:
        """The loops of a worker: one for each that is registered."""

        async def opened() -> Store:
            return store

        relays = [self._relay_loop(stream, opened) for stream in self.outlets]
        drains = [self._drain_loop(source, opened) for source in self.sources]
        routers = () if self._routers is None else self._routers.loops()
        return (*relays, *drains, *routers, *self._webhook_loops(opened))

    def _relay_loop(self, stream: str, opened: Opened) -> LoopSpec:
        return self._loop(f"relay:{stream}", self.relay(stream, opened))

    def _drain_loop(self, source: str, opened: Opened) -> LoopSpec:
        return self._loop(f"inbox:{source}", self.drain(source, opened))

    def _webhooks_added(self) -> None:
        for loop in self._webhook_loops(self._opened):
            self._added(loop)

    def _webhook_loops(self, opened: Opened) -> tuple[LoopSpec, ...]:
        if not self._posted:
            return ()
        plan, post = self._posts(opened)
        return self._loop("webhooks:plan", plan), self._loop("webhooks:post", post)

    def _posts(self, opened: Opened) -> tuple[FanOut, Posting]:
        from offpath.events.webhook.loops import FanOut, Posting

        random, keep = self._random, self._home.settings.keep_delivered
        plan = FanOut(
            lambda: self._posted,
            lambda: self._parts(opened),
            random=random,
            keep=keep,
            headers=self._headers,
        )
        post = Posting(
            lambda: self._parts(opened),
            self._poster,
            random=random,
            keep=keep,
        )
        self._made.update((plan, post))
        return plan, post

    def _poster(self) -> Poster:
        from offpath.events.webhook.poster import HttpPoster

        poster = HttpPoster(self._guard(), self._home.clock, keyring=self._keyring())
        extensions = self._extended()
        if extensions is None or not extensions.delivers:
            return poster
        from offpath.events.extended_delivery import ExtendedPoster

        return ExtendedPoster(poster, extensions)

    def _keyring(self) -> Keyring:
        from offpath.events.webhook.keyring import Keyring

        return Keyring(self._home.settings.secret_key)

    def _guard(self) -> Guard:
        from offpath.events.webhook.guard import Guard, checked_networks

        settings = self._home.settings
        return Guard(
            private=checked_networks(settings.webhook_networks), plain_http=settings.webhook_http
        )

    def served(self) -> frozenset[tuple[Box, str]]:
        """The streams that something here moves: what waits in them is judged."""
        outbox = (*self.outlets, *self._posted)
        inbox = ((Box.IN, source) for source in self.sources)
        return frozenset([*((Box.OUT, stream) for stream in outbox), *inbox])

    def _loop(self, name: str, moves: Loops) -> LoopSpec:
        interval = self._home.settings.poll_interval
        return LoopSpec(name=name, step=moves.step, interval=interval, wakes=WAKES, stop=moves.stop)

    def forked(self) -> object:
        """In a child of a fork: leave the parent's movers and threads; they do not run here."""
        left = self._made, self._threads
        self._made, self._threads, self._worker = weakref.WeakSet(), None, None
        return left

    async def close(self) -> None:
        """Stop what was driven by hand, and end the threads. Idempotent."""
        for moves in tuple(self._made):
            try:
                await moves.stop(0.0)
            except Exception as error:  # noqa: BLE001 - a dispatcher's close; others must be closed
                self.report(error, "close dispatcher")
        self._made.clear()
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    # -- what they work with ---------------------------------------------------------------------

    def run(self, function: Callable[[], Any], /) -> asyncio.Future[Any]:
        """Call a blocking handler or dispatcher in a thread."""
        if self._threads is None:
            self._threads = HandlerPool(self._home.settings.handler_threads, "offpath-events")
        return self._threads.run(function)

    def held_by(self, worker: str) -> None:
        """From now on what this process holds is free as soon as that worker is seen to be dead.

        Of several workers in one process the last that began counts: they die together.
        """
        self._worker = worker

    def new_holder(self) -> str:
        """A name to hold something under."""
        return holder_of(self._worker, self._home.new_id())

    def _tools(self) -> MoverTools:
        return MoverTools(
            codec=self.codec,
            clock=self._home.clock,
            threads=self,
            random=self._random,
            extended=self._extended,
            headers=self._headers,
        )

    async def _parts(self, opened: Opened) -> MoverParts:
        return MoverParts(
            store=await opened(),
            clock=self._home.clock,
            new_id=self.new_holder,
            report=self.report,
        )
