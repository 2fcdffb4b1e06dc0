"""The one seam where all that a store does is seen: how long, with which error, what moved.

Metrics and event hooks are observers of this wrapper, so that no transition can go by them: not a
rescue, not an operator's cancel, not the children of a settled job.

The body of :class:`ObservedStore` is the table: one line for each method of the store's protocol,
and what to tell of it. The wrapper of a method is made once, from the protocol's own method.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from offpath.errors import StoreUnavailable
from offpath.store.protocol import Store
from offpath.store.telemetry import effects, jobs, messages
from offpath.store.telemetry.doubts import doubted_jobs, doubted_messages, known_messages
from offpath.store.telemetry.meter import Observer, Telemetry

if TYPE_CHECKING:
    from offpath.model.message import MessageSettled, MessageSettlement
    from offpath.model.settlement import Settled, Settlement
    from offpath.runtime.clock import Clock
    from offpath.store.capabilities import Capabilities
    from offpath.store.ledger import LedgerReads
    from offpath.store.telemetry.meter import StoreMeter

P = ParamSpec("P")
T = TypeVar("T")
_Called = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


class _Timed(Generic[P, T]):
    """A method of the protocol that is timed; what to tell of it is still to be said."""

    def __init__(self, method: _Called[P, T]) -> None:
        self._method = method

    @property
    def quiet(self) -> _Called[P, T]:
        """There is nothing to tell of it."""
        return _observed(self._method, None, None)

    def answer(self, tell: Callable[[Telemetry, T], None]) -> _Called[P, T]:
        """Tell of its answer."""
        return _observed(self._method, tell, None)

    def call(self, tell: Callable[Concatenate[Telemetry, T, P], None]) -> _Called[P, T]:
        """Tell of its answer and what was asked."""
        return _observed(self._method, None, tell)


def _timed(method: _Called[P, T]) -> _Timed[P, T]:
    return _Timed(method)


def _observed(
    method: _Called[P, T],
    of_answer: Callable[[Telemetry, T], None] | None,
    of_call: Callable[Concatenate[Telemetry, T, P], None] | None,
) -> _Called[P, T]:
    name = method.__name__

    # One frame for timing and telling: each further one would be paid by every call of the store.
    @wraps(method)
    async def observed(self: ObservedStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        started = self._monotonic()
        try:
            answer: T = await getattr(self._inner, name)(*args, **kwargs)
        except BaseException as error:
            self._failed(name, started, error)
            raise
        self._times[name].observe(self._monotonic() - started)
        if of_answer is not None:
            of_answer(self._telemetry, answer)
        elif of_call is not None:
            of_call(self._telemetry, answer, *args, **kwargs)
        return answer

    return observed


def _passed(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method that is the store's own: not timed, and there is nothing to tell of it."""
    name = method.__name__

    @wraps(method)
    def passed(self: ObservedStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = getattr(self._inner, name)(*args, **kwargs)
        return answer

    return passed


def _from_any_thread(
    method: Callable[Concatenate[Any, P], T],
    tell: Callable[Concatenate[Telemetry, T, P], None],
) -> Callable[Concatenate[Any, P], T]:
    """A method that any thread may call; what it did is told where observers live."""
    name = method.__name__

    @wraps(method)
    def observed(self: ObservedStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        started = self._monotonic()
        try:
            answer: T = getattr(self._inner, name)(*args, **kwargs)
        except BaseException as error:
            self._tell_at_home(partial(self._failed, name, started, error))
            raise

        def told() -> None:
            self._times[name].observe(self._monotonic() - started)
            tell(self._telemetry, answer, *args, **kwargs)

        self._tell_at_home(told)
        return answer

    return observed


class ObservedStore:
    """A :class:`Store` that tells observers what another one did."""

    def __init__(
        self,
        inner: Store,
        clock: Clock,
        meter: StoreMeter,
        observers: Sequence[Observer] = (),
        home: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None,
    ) -> None:
        self._inner = inner
        self._meter = meter
        self._times = meter.times
        self._monotonic = clock.monotonic
        self._telemetry = Telemetry(clock, meter, observers)
        self._doubts = doubted_jobs(self)
        self._message_doubts = doubted_messages(self)
        self._home = home
        self._alone = threading.Lock()

    def _tell_at_home(self, tell: Callable[[], None]) -> None:
        """Tell in the event loop's thread, where counters and hooks are not locked.

        While there is no loop that runs, threads tell one after the other.
        """
        loop = self._home()
        if loop is not None and loop.is_running() and _running_here() is not loop:
            with suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(tell)
                return
        with self._alone:
            tell()

    @property
    def capabilities(self) -> Capabilities:
        """The backend's own."""
        return self._inner.capabilities

    # -- life ------------------------------------------------------------------------------

    open = _timed(Store.open).quiet
    close = _timed(Store.close).quiet
    migrate = _timed(Store.migrate).quiet
    migrations = _timed(Store.migrations).quiet
    migration_script = _passed(Store.migration_script)
    diagnose = _timed(Store.diagnose).quiet
    ping = _timed(Store.ping).quiet
    listen = _passed(Store.listen)

    # -- doors -----------------------------------------------------------------------------

    commit = _timed(Store.commit).call(effects.wrote)
    commit_within = _timed(Store.commit_within).call(effects.wrote_within)
    get_within = _timed(Store.get_within).quiet
    get_within_blocking = _from_any_thread(Store.get_within_blocking, effects.read_within)
    commit_within_blocking = _from_any_thread(Store.commit_within_blocking, effects.wrote_within)
    _settle = _timed(Store.settle).quiet

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """The store's answers, cleared of doubts: a settlement whose first answer was lost and
        whose repeat is refused by the fence is answered ``APPLIED`` if the first one was taken.
        """
        try:
            answers = await self._settle(settlements)
        except StoreUnavailable:
            self._doubts.note(settlements)
            raise
        if self._doubts:
            answers = await self._doubts.cleared(settlements, answers)
        jobs.settled(self._telemetry, answers, settlements)
        return answers

    # -- jobs ------------------------------------------------------------------------------

    lease = _timed(Store.lease).answer(jobs.leased)
    begin = _timed(Store.begin).quiet
    progress = _timed(Store.progress).call(jobs.progressed)
    cancel = _timed(Store.cancel).answer(jobs.changed)
    redrive = _timed(Store.redrive).answer(jobs.changed)
    amend = _timed(Store.amend).answer(jobs.amended)
    delete = _timed(Store.delete).answer(jobs.deleted)
    rescue = _timed(Store.rescue).answer(jobs.rescued)
    glance = _timed(Store.glance).quiet
    notice_deaths = _timed(Store.notice_deaths).quiet
    prune = _timed(Store.prune).answer(jobs.pruned)
    get = _timed(Store.get).quiet
    states = _timed(Store.states).quiet
    find = _timed(Store.find).quiet
    count = _timed(Store.count).quiet
    backlog = _timed(Store.backlog).quiet

    # -- workers and claims ----------------------------------------------------------------

    register = _timed(Store.register).quiet
    extend = _timed(Store.extend).quiet
    # Nothing here may wait for what else is measured: it is called while the loop hangs.
    vouch = _passed(Store.vouch)
    signals = _timed(Store.signals).quiet
    # The jobs that are found this way started when their lease had no answer.
    held = _timed(Store.held).quiet
    deregister = _timed(Store.deregister).quiet
    workers = _timed(Store.workers).quiet
    ask_worker = _timed(Store.ask_worker).quiet
    answer_worker = _timed(Store.answer_worker).quiet
    worker_desk = _timed(Store.worker_desk).quiet
    claim = _timed(Store.claim).quiet
    release_claim = _timed(Store.release_claim).quiet

    # -- messages --------------------------------------------------------------------------

    lease_messages = _timed(Store.lease_messages).answer(messages.leased)
    find_messages = _timed(Store.find_messages).quiet
    message_backlog = _timed(Store.message_backlog).quiet
    _settle_messages = _timed(Store.settle_messages).quiet
    _revive_messages = _timed(Store.revive_messages).quiet
    _delete_messages = _timed(Store.delete_messages).quiet

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """The store's answers, cleared of doubts as those of :meth:`settle`."""
        try:
            answers = await self._settle_messages(settlements)
        except StoreUnavailable:
            self._message_doubts.note(settlements)
            raise
        if self._message_doubts:
            answers = await self._message_doubts.cleared(settlements, answers)
        messages.settled(self._telemetry, answers, settlements)
        return answers

    async def revive_messages(self, ids: Sequence[str]) -> list[str]:
        """The store's answer. It is asked before what they are, to tell which states they left."""
        known = await known_messages(self, ids)
        revived = await self._revive_messages(ids)
        messages.revived(self._telemetry, revived, known)
        return revived

    async def delete_messages(self, ids: Sequence[str]) -> list[str]:
        """Delete as the store does; the messages are read before, so that the states they left are
        known.
        """
        known = await known_messages(self, ids)
        deleted = await self._delete_messages(ids)
        messages.deleted(self._telemetry, deleted, known)
        return deleted

    # -- endpoints -------------------------------------------------------------------------

    put_endpoint = _timed(Store.put_endpoint).quiet
    endpoints = _timed(Store.endpoints).quiet
    set_endpoint = _timed(Store.set_endpoint).quiet
    note_endpoint = _timed(Store.note_endpoint).quiet
    delete_endpoint = _timed(Store.delete_endpoint).quiet
    put_posts = _timed(Store.put_posts).quiet
    posts = _timed(Store.posts).quiet

    # -- the log and its routers -----------------------------------------------------------

    declare_router = _timed(Store.declare_router).quiet
    routers = _timed(Store.routers).quiet
    set_gate = _timed(Store.set_gate).quiet
    set_route = _timed(Store.set_route).quiet
    lease_cursor = _timed(Store.lease_cursor).quiet
    read_log = _timed(Store.read_log).quiet
    advance = _timed(Store.advance).call(effects.advanced)
    release_cursor = _timed(Store.release_cursor).quiet
    move_cursor = _timed(Store.move_cursor).quiet
    route_within = _timed(Store.route_within).call(effects.routed_within)
    route_within_blocking = _from_any_thread(Store.route_within_blocking, effects.routed_within)
    attempts = _timed(Store.attempts).quiet
    attempted = _timed(Store.attempted).quiet
    table_columns = _timed(Store.table_columns).quiet
    read_table = _timed(Store.read_table).quiet
    letters = _timed(Store.letters).quiet
    record_replay = _timed(Store.record_replay).call(effects.replayed)
    redoable = _timed(Store.redoable).quiet
    find_events = _timed(Store.find_events).quiet
    record_redo = _timed(Store.record_redo).call(effects.redone)
    resolve_letter = _timed(Store.resolve_letter).quiet
    router_facts = _timed(Store.router_facts).quiet
    read_events = _timed(Store.read_events).quiet
    trim_log = _timed(Store.trim_log).quiet

    # -- schedules -------------------------------------------------------------------------

    put_schedule = _timed(Store.put_schedule).quiet
    schedules = _timed(Store.schedules).quiet
    due_schedules = _timed(Store.due_schedules).quiet
    pause_schedule = _timed(Store.pause_schedule).quiet
    delete_schedule = _timed(Store.delete_schedule).quiet
    fire = _timed(Store.fire).call(jobs.fired)
    trigger_schedule = _timed(Store.trigger_schedule).call(jobs.triggered)
    occurrences = _timed(Store.occurrences).quiet
    prune_occurrences = _timed(Store.prune_occurrences).quiet

    # -- workflows -------------------------------------------------------------------------

    groups = _timed(Store.groups).quiet
    cancel_groups = _timed(Store.cancel_groups).answer(jobs.changed)
    close_groups = _timed(Store.close_groups).answer(jobs.changed)
    gates = _timed(Store.gates).quiet
    watched = _timed(Store.watched).quiet
    expire_blocked = _timed(Store.expire_blocked).answer(jobs.changed)
    put_step = _timed(Store.put_step).quiet
    steps = _timed(Store.steps).quiet
    # The job that a signal woke is not told: a waiting job counts as queued.
    send_signal = _timed(Store.send_signal).quiet
    take_signal = _timed(Store.take_signal).quiet
    put_undo = _timed(Store.put_undo).quiet
    undoing = _timed(Store.undoing).quiet
    compensate = _timed(Store.compensate).call(effects.compensated)

    # -- limits and pauses -----------------------------------------------------------------

    admit = _timed(Store.admit).answer(jobs.admitted)
    limits = _timed(Store.limits).quiet
    count_held = _timed(Store.count_held).quiet
    close_limit = _timed(Store.close_limit).quiet
    open_limit = _timed(Store.open_limit).quiet
    pause_queue = _timed(Store.pause_queue).quiet
    resume_queue = _timed(Store.resume_queue).quiet
    queues = _timed(Store.queues).quiet
    keep_templates = _timed(Store.keep_templates).quiet
    start = _timed(Store.start).call(jobs.started)

    # -- declarations ----------------------------------------------------------------------------

    declare = _timed(Store.declare).quiet
    declarations = _timed(Store.declarations).quiet

    # -- actions of operators ----------------------------------------------------------------

    put_action = _timed(Store.put_action).quiet
    step_action = _timed(Store.step_action).quiet
    take_action = _timed(Store.take_action).quiet
    has_late_action = _timed(Store.has_late_action).quiet
    stop_action = _timed(Store.stop_action).quiet
    actions = _timed(Store.actions).quiet
    prune_actions = _timed(Store.prune_actions).quiet

    # -- stats -------------------------------------------------------------------------------

    put_stats = _timed(Store.put_stats).quiet
    stats = _timed(Store.stats).quiet
    fold_stats = _timed(Store.fold_stats).quiet
    prune_stats = _timed(Store.prune_stats).quiet
    put_run = _timed(Store.put_run).quiet
    runs = _timed(Store.runs).quiet

    # -- lists for people --------------------------------------------------------------------

    browse = _timed(Store.browse).quiet
    look_at_messages = _timed(Store.look_at_messages).quiet
    faults = _timed(Store.faults).quiet
    graph = _timed(Store.graph).quiet
    browse_groups = _timed(Store.browse_groups).quiet
    open_gates = _timed(Store.open_gates).quiet
    pending_signals = _timed(Store.pending_signals).quiet
    drop_signals = _timed(Store.drop_signals).quiet
    next_due = _timed(Store.next_due).quiet
    newest_events = _timed(Store.newest_events).quiet
    ids_beginning = _timed(Store.ids_beginning).quiet

    # -- findings and health ---------------------------------------------------------------

    findings = _timed(Store.findings).quiet
    record_finding = _timed(Store.record_finding).quiet
    end_finding = _timed(Store.end_finding).quiet
    accept_finding = _timed(Store.accept_finding).quiet
    deaths = _timed(Store.deaths).quiet
    limit_holders = _timed(Store.limit_holders).quiet
    router_lags = _timed(Store.router_lags).quiet

    # -- the ledger ------------------------------------------------------------------------

    post = _timed(Store.post).answer(effects.posted)
    lease_sides = _timed(Store.lease_sides).quiet
    save_checkpoint = _timed(Store.save_checkpoint).quiet
    prune_ledger = _timed(Store.prune_ledger).quiet
    ledger_accounts = _timed(Store.ledger_accounts).quiet
    ledger_debts = _timed(Store.ledger_debts).quiet
    ledger_links = _timed(Store.ledger_links).quiet
    ledger_walk = _timed(Store.ledger_walk).quiet
    ledger_since = _timed(Store.ledger_since).quiet
    ledger_tails = _timed(Store.ledger_tails).quiet
    ledger_postings = _timed(Store.ledger_postings).quiet
    ledger_sides = _timed(Store.ledger_sides).quiet
    ledger_bare = _timed(Store.ledger_bare).quiet
    ledger_key = _timed(Store.ledger_key).quiet
    ledger_totals = _timed(Store.ledger_totals).quiet
    ledger_last = _timed(Store.ledger_last).quiet
    ledger_sums = _timed(Store.ledger_sums).quiet
    ledger_counts = _timed(Store.ledger_counts).quiet
    ledger_checkpoints = _timed(Store.ledger_checkpoints).quiet
    ledger_leaves = _timed(Store.ledger_leaves).quiet
    ledger_moved = _timed(Store.ledger_moved).quiet

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """The store's snapshot, timed until it stands. The reads within are the store's own."""
        async with AsyncExitStack() as stack:
            yield await self._entered(stack)

    async def _entered(self, stack: AsyncExitStack) -> LedgerReads:
        started = self._monotonic()
        try:
            reads = await stack.enter_async_context(self._inner.ledger_snapshot())
        except BaseException as error:
            self._failed("ledger_snapshot", started, error)
            raise
        self._times["ledger_snapshot"].observe(self._monotonic() - started)
        return reads

    def _failed(self, operation: str, started: float, error: BaseException) -> None:
        self._times[operation].observe(self._monotonic() - started)
        self._meter.failed(operation, error)


def _running_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
