"""The app: where tasks, store, clock and hooks meet. The one place that knows all parts."""

from __future__ import annotations

import asyncio
import inspect
import random
import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack

from offpath.config import FIELDS, Settings, load_settings
from offpath.errors import InvalidArgument
from offpath.events.event_log import EventLog, EventVerbs, accepted
from offpath.events.event_writer import MessageWriter
from offpath.events.messages import MessagesView
from offpath.events.registry import Events
from offpath.events.verbs import RoutingVerbs
from offpath.jobs.blocking.client import BlockingClient
from offpath.jobs.client.core import AppCore
from offpath.jobs.client.dead_letters import DeadLetters
from offpath.jobs.client.fates import Fates
from offpath.jobs.client.flow import FlowVerbs
from offpath.jobs.client.hooks import CLOSE_PATIENCE, EndWatch, Hooks, Reporter
from offpath.jobs.client.jobs_view import JobsView
from offpath.jobs.client.lifecycle import Lifecycle, Swappable
from offpath.jobs.client.send_verbs import SendVerbs
from offpath.jobs.client.session import StoreSession
from offpath.jobs.client.signal_verbs import SignalVerbs
from offpath.jobs.client.waiters import Waiters
from offpath.jobs.client.worker_verbs import WorkingVerbs, surrounding
from offpath.jobs.define.definition import checked_codec
from offpath.jobs.define.registry import Registry
from offpath.jobs.define.task_verbs import AnyTask, TaskVerbs
from offpath.jobs.schedules.schedules import Schedules
from offpath.jobs.schedules.ticker import Ticker
from offpath.jobs.schedules.verbs import ScheduleVerbs
from offpath.model import checks
from offpath.model.option_checks import checked
from offpath.model.options import AppOptions, OptionLevel, Options
from offpath.model.redrive import Redrive, checked_redrive
from offpath.runtime.added_loops import ADDED_LOOPS
from offpath.runtime.baggage import header_rules
from offpath.runtime.clock import Clock, SystemClock
from offpath.runtime.codec import Codec, JsonCodec
from offpath.runtime.ids import IdGenerator, checked_ids, new_id
from offpath.runtime.metrics import Metrics
from offpath.runtime.seats import checked_seat
from offpath.runtime.threads import HandlerPool
from offpath.store.backends import Backend
from offpath.store.seam import observed_store
from offpath.store.telemetry.meter import Observer, StoreMeter
from offpath.sweeps.registry import SweepRegistry
from offpath.sweeps.verbs import SweepVerbs

if TYPE_CHECKING:
    from offpath.health.settlement import SettlementRuns
    from offpath.jobs.client.group_events import OnOrphanGroup, OrphanWatch
    from offpath.jobs.client.groups import GroupsView
    from offpath.jobs.values.offers import WorkerOverrides
    from offpath.jobs.values.runnable import Around, LogContext, OnError, OnEvent, OnFailure
    from offpath.jobs.worker.app_worker import AppWorker, MessageMover
    from offpath.model.effects import Effects
    from offpath.model.group import GroupRecord
    from offpath.model.job import Enqueued
    from offpath.runtime.extension import Extension
    from offpath.runtime.loop import LoopSpec
    from offpath.store.protocol import Migration, Store
    from offpath.sweeps.registry import Sweep

S = TypeVar("S")
G = TypeVar("G")


class App(
    TaskVerbs,
    SendVerbs,
    WorkingVerbs,
    SignalVerbs,
    EventVerbs,
    RoutingVerbs,
    SweepVerbs,
    ScheduleVerbs,
    FlowVerbs,
    Swappable,
):
    """Tasks and the store their jobs live in.

    ``App()`` keeps jobs in memory and runs them in this process; with a URL
    (``sqlite:///work.db``, ``postgresql://…``) they outlive it and workers run them. Nothing
    happens until it is used: the first use in an event loop opens it, ``async with app`` opens
    and closes it.

    ``settings``, ``store``, ``codec``, ``clock``, ``random`` (from 0 to 1), ``metrics`` and
    ``id_generator`` replace what is made from the URL and the environment. ``migrate`` brings the
    schema up to date on opening; ``auto_start`` also runs a worker in this process (by default in
    memory only). ``on_event``, ``on_error``, ``on_failure``, ``on_orphan_group`` and
    ``log_context`` are hooks; ``around`` is your code around every handler, ``extensions`` is what
    observes (:mod:`offpath.extensions`); ``carry_headers`` names the headers that pass from a job
    or message to what its handler sends, ``send_headers`` those that go out with webhooks beside
    ``traceparent``; ``redrive`` puts dead jobs back while workers are idle; ``strict=False`` lets
    a plan be dropped and a header have a secret's name. Others are job options (:class:`Options`).

    To ask and to operate: ``jobs``, ``dead``, ``groups``, ``messages``, ``schedules``, ``queues``,
    ``limits``, ``log``, ``routers``, ``webhooks``, ``settlements``, ``sweeps``, ``economy``,
    ``metrics``; the same for code without an event loop is ``blocking``.

    Raises ``ConfigurationError`` and ``InvalidArgument``.
    """

    _lifecycle: Lifecycle[StoreSession]

    def __init__(  # noqa: PLR0913 - each is a documented keyword
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        store: Store | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
        random: Callable[[], float] = random.random,
        metrics: Metrics | None = None,
        id_generator: IdGenerator = new_id,
        on_event: OnEvent | None = None,
        on_error: OnError | None = None,
        on_failure: OnFailure | None = None,
        log_context: LogContext | None = None,
        extensions: Sequence[Extension] = (),
        around: Around | Sequence[Around] = (),
        carry_headers: Sequence[str] = (),
        send_headers: Sequence[str] = (),
        redrive: Redrive | None = None,
        on_orphan_group: OnOrphanGroup | None = None,
        strict: bool = True,
        auto_start: bool | None = None,
        migrate: bool | None = None,
        **defaults: Unpack[AppOptions],
    ) -> None:
        self.settings = settings or load_settings(url=url, migrate=migrate)
        """The configuration: arguments, environment, project file, defaults."""
        self._level = _level(defaults)
        self._codec = checked_codec(codec) or JsonCodec()
        self._strict = strict
        self._own_extensions, self._around = surrounding(extensions, around)
        self._headers = header_rules(carry_headers, send_headers)
        self._new_id = checked_ids(id_generator)
        self._on_failure = checked_seat(on_failure, "on_failure")
        self._log_context = checked_seat(log_context, "log_context", plain=True)
        self._redrive = None if redrive is None else checked_redrive(redrive)
        self._auto_start = auto_start
        self.clock: Clock = clock or SystemClock()
        """The clock of this process; the store may have its own."""
        self._random = checked_seat(random, "random", plain=True)
        most_names = self.settings.metric_names
        self.metrics = metrics or Metrics(self.clock.monotonic, most_names=most_names)
        """Counters, gauges and summaries of this process: get, list, subscribe."""
        self.tasks: Registry[AnyTask] = Registry()
        """The tasks of this app, by name."""
        self._report = Reporter(on_error, self.clock, self.metrics)
        known, hooked = self.tasks.known, self.tasks.hooked
        self._hooks = Hooks(self._report, on_event, known, self._read_groups, hooked)
        self._orphans = None if on_orphan_group is None else self._orphan_watch(on_orphan_group)
        self._workers: weakref.WeakSet[AppWorker] = weakref.WeakSet()
        self._backend = Backend.of(self.settings, store=store, clock=clock)
        self._store: Store | None = None
        self._lifecycle = Lifecycle[StoreSession](self._start, self._finish, self._forked)
        writer = MessageWriter(self._codec, self.new_id, self.settings.max_input_bytes)
        self._core = self._made_core(writer)
        self._events = self._made_events(writer)
        self.log = EventLog(writer, self._commit)
        self.messages = MessagesView(self._opened)
        self.jobs = JobsView(self._session)
        """Every job of the fleet: get, find, count, cancel, retry."""
        self.dead = DeadLetters(self._session)
        """The dead letters, which will not run again unaided: list, show, redrive, discard."""
        self.schedules = Schedules(self._opened, self.new_id)
        """The schedules of the fleet: list, create, change, pause, trigger."""
        self.sweeps = SweepRegistry(self._own_sweeps)
        self._settlements: SettlementRuns | None = None
        self.blocking = BlockingClient(self)
        """The same verbs for code without an event loop."""

    def _made_events(self, writer: MessageWriter) -> Events:
        return Events(
            self,
            writer=writer,
            codec=self._codec,
            random=self._random,
            report=self._report,
            opened=self._opened,
            added=self._loop_added,
            extended=self._extended,
            headers=self._headers,
        )

    def _made_core(self, writer: MessageWriter) -> AppCore:
        return AppCore(
            client=self._made_client(),
            writer=writer,
            accepted=accepted,
            report=self._report,
            opened=self._opened,
            loop=lambda: self._lifecycle.loop,
            new_id=self._new_id,
            max_input_bytes=self.settings.max_input_bytes,
            sweep_added=self._sweep_added,
            swap_store=self._swap_store,
        )

    def __repr__(self) -> str:
        """Show the backend and how many tasks there are; never the URL, which may hold secrets."""
        return f"<App {self._backend.name} tasks={len(self.tasks)}>"

    def __reduce__(self) -> NoReturn:
        """An app holds connections and hooks: other processes import it instead."""
        raise TypeError(
            "an App cannot be pickled: import it in the other process (workers take module:app)"
        )

    # -- life ------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open it."""
        try:
            await self.open()
        except asyncio.CancelledError:
            await self.close()  # the cancellation may have come as it was open
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def open(self) -> None:
        """Open the store; on memory also start a worker. Repeating it does nothing.

        Raises ``StoreUnavailable``, ``SchemaMissing`` and the other ``SchemaError`` kinds.
        """
        await self._lifecycle.open()

    async def close(self) -> None:
        """Stop what runs here and close the store. Waits end with ``AppClosed``. Idempotent.

        A handler that calls it does not wait for the end: that would be its own.
        """
        own = any(worker.called_by_handler() for worker in self._workers)
        await self._lifecycle.close(wait=not own)

    async def _commit(self, effects: Effects, within: object = None) -> Sequence[Enqueued]:
        return await self._core.client.commit(effects, within)

    def _sender(self) -> AppCore:
        return self._core

    async def _opened(self) -> Store:
        return (await self._session()).store

    def _loop_added(self, spec: LoopSpec) -> None:
        for worker in self._workers:
            worker.add_loop(spec)

    def _sweep_added(self, name: str) -> None:
        for worker in self._workers:
            worker.add_sweep(name)

    # -- operating -------------------------------------------------------------------------

    @property
    def settlements(self) -> SettlementRuns:
        """Runs that credit users for a period: define, run, status."""
        if self._settlements is None:
            from offpath.health.kept_runs import keeping
            from offpath.health.settlement import SettlementRuns

            keep = keeping(lambda: self._lifecycle.session, self.new_id)
            self._settlements = SettlementRuns(lambda: self.clock, self.metrics, self._report, keep)
        return self._settlements

    @property
    def groups(self) -> GroupsView:
        """Jobs that are counted together: get, members, cancel."""
        from offpath.jobs.client.groups import GroupsView

        return GroupsView(self._session, self._codecs)

    @property
    def economy(self) -> Any:  # noqa: ANN401 - the core does not know what stands on it
        """The app's economy. Raises ``InvalidArgument`` when it has none."""
        if not self._core.economies:
            raise InvalidArgument("this app has no economy: make one with Economy(app, ...)")
        return self._core.economies[0]

    async def migrate(self) -> list[Migration]:
        """Apply pending schema steps; returns those applied. The app need not be open for it."""
        return await self.store().migrate()

    def worker(self, **overrides: Unpack[WorkerOverrides]) -> AppWorker:
        """A worker in this process: ``async with app.worker(concurrency=10): ...``.

        It opens the app when it starts. What is not given follows the app's settings. Raises
        ``InvalidArgument``.
        """
        return self._worker(self._session, overrides)

    # -- for the parts that it is made of -----------------------------------------------------

    def new_id(self) -> str:
        """A new id, checked: the generator may be the user's own."""
        return self._new_id()

    def store(self) -> Store:
        """The store behind this app, open or not, seen by metrics and hooks."""
        if self._store is None:
            inner = self._backend.make()
            meter = StoreMeter(self.metrics, inner.capabilities.name)
            observers: list[Observer] = [Fates(self.tasks, self.settings.log_errors), self._hooks]
            observers.append(EndWatch(self._ended, self._groups_done))
            observers += () if self._orphans is None else (self._orphans,)
            observers += self._extension_moves()
            self._store = observed_store(
                inner, self.clock, meter, observers, home=lambda: self._lifecycle.loop
            )
        return self._store

    # -- opening and closing -------------------------------------------------------------------

    async def _session(self) -> StoreSession:
        return await self._lifecycle.opened()

    def _forked(self) -> object:
        """In a child of a fork: what the parent opened, and its workers, stay the parent's."""
        tellers = [one for one in (self._hooks, self._orphans, self._events) if one is not None]
        left = self._store, self._workers, self._resources, *(one.forked() for one in tellers)
        self._store, self._workers, self._resources = None, weakref.WeakSet(), None
        return left

    async def _start(self) -> StoreSession:
        store = self.store()
        try:
            if not store.capabilities.whole:
                from offpath.store.partial import refuse_definitions

                defined = self.tasks.values(), self._events.specs(), self._core.economies
                more = self.schedules.definitions, self._events.served()
                refuse_definitions(store.capabilities, *defined, *more)
            if self.settings.migrate:
                await store.migrate()
            await store.open()
            session = StoreSession(
                store,
                Waiters(store, self.clock, self._report),
                keep_cancelled=self.settings.keep_cancelled,
                claims_groups=self._orphans is not None,
            )
            if (extensions := self._extended()) is not None:
                extensions.opened(self)
            await self._start_worker(session)
        except BaseException:
            await self._release(store)
            raise
        return session

    async def _start_worker(self, session: StoreSession) -> None:
        alone = not session.store.capabilities.shared  # no other process could run its jobs
        if alone if self._auto_start is None else self._auto_start:
            await self._worker(_nothing, {}).start()

    async def _finish(self, session: StoreSession) -> None:
        try:
            stops = [worker.stop() for worker in tuple(self._workers)]
            await asyncio.gather(*stops, return_exceptions=True)
            await self._events.close()
            await session.waiters.close()
            told = [one for one in (self._hooks, self._orphans) if one is not None]
            await asyncio.gather(*(one.flush(CLOSE_PATIENCE) for one in told))
            if (extensions := self._extended()) is not None:
                extensions.closed(self)
        finally:
            await self._release(session.store)

    async def _release(self, store: Store) -> None:
        self._store = None
        await store.close()

    def _ended(self, ids: Sequence[str]) -> None:
        if (session := self._lifecycle.session) is not None:
            session.waiters.ended(ids)

    async def _read_groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        return await self.store().groups(ids)

    def _orphan_watch(self, hook: OnOrphanGroup) -> OrphanWatch:
        from offpath.jobs.client.group_events import OrphanWatch

        return OrphanWatch(
            hook,
            clock=lambda: self.clock,
            store=self.store,
            codecs=self._codecs,
            awaited=self._awaits_group,
            report=self._report,
            new_id=self.new_id,
        )

    def _groups_done(self, ids: Sequence[str]) -> None:
        if (session := self._lifecycle.session) is not None:
            session.waiters.groups_done(ids)

    def _awaits_group(self, group_id: str) -> bool:
        session = self._lifecycle.session
        return session is not None and session.waiters.awaits_group(group_id)

    def _worker(
        self,
        opened: Callable[[], Awaitable[object]],
        overrides: WorkerOverrides,
        *,
        takes: bool = True,
    ) -> AppWorker:
        # What makes workers is loaded with the first one: who only enqueues never needs it.
        from offpath.health.definitions import definitions
        from offpath.health.findings import Findings
        from offpath.health.thresholds import Thresholds
        from offpath.jobs.worker.app_worker import AppWorker
        from offpath.jobs.worker.settings import hooks_in, overridden, worker_terms
        from offpath.jobs.worker.terms import Parts
        from offpath.sweeps.fleet import WorkerSweeps
        from offpath.sweeps.recorded import upkeep_in
        from offpath.sweeps.sweeper import SweepParts

        settings = overridden(self.settings, overrides)
        store = self.store()
        me = self.new_id()
        shared = SweepParts(self, store, self.clock, self.metrics, self._report, me, self.new_id)
        sweeps = WorkerSweeps(self.sweeps, shared)
        defined = partial(definitions, self.tasks, self._events.specs, self._orphans)
        parts = Parts(
            store=store,
            clock=self.clock,
            threads=HandlerPool(settings.handler_threads),
            report=self._report,
            new_id=self.new_id,
            writer=self._core.writer,
            random=self._random,
            metrics=self.metrics,
            codec=self._codec,
            log_context=self._log_context,
            extensions=self._extended(),
            resources=self._shared(),
            upkeep=upkeep_in(settings, self._redrive, shared),
            loops=(
                self.schedules.ticker(self.clock, self._report, store).loop(),
                *(self._events.loops(store) if settings.relays else ()),
                *sweeps.loops(),
                *(added for make in ADDED_LOOPS if (added := make(self)) is not None),
            ),
            worker_id=me,
            begins=self._events.held_by,
            settled=self.settlements.reports,
            found=Findings(store, settings, self.new_id, defined).look,
            real_time=type(self.clock) is SystemClock,
            measure=Thresholds(
                store, settings, queues=settings.served_queues, served=self._events.served
            ),
        )
        hooks = self._merged_hooks(hooks_in(overrides))
        terms = worker_terms(settings, self._on_failure, hooks, takes=takes, headers=self._headers)
        movers = self._movers if settings.relays else None
        worker = AppWorker(opened, parts, self.tasks, terms, movers, sweeps)
        self._workers.add(worker)
        return worker

    def _own_sweeps(self) -> tuple[Sweep, ...]:
        from offpath.sweeps.catalogue import own_sweeps

        return own_sweeps(
            self.store, self.settings, self._redrive, self._events, self._ticker, self._report
        )

    def _movers(self) -> list[MessageMover]:
        return [self._ticker(), *self._events.movers()]

    def _ticker(self) -> Ticker:
        return self.schedules.ticker(self.clock, self._report)


def _level(defaults: AppOptions) -> OptionLevel:
    """Checked defaults of an app's tasks. Raises ``InvalidArgument``."""
    if unknown := defaults.keys() - AppOptions.__annotations__.keys():
        names = {*AppOptions.__annotations__, *inspect.signature(App).parameters} - {"defaults"}
        checks.no_settings(unknown, FIELDS)
        checks.known(unknown, {*names, *FIELDS}, "an app has no setting")
    return checked(Options(**defaults))


async def _nothing() -> None:
    """Do nothing where a worker of another process opens the app: this app is being opened."""
