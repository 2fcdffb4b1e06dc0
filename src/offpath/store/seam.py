"""The one seam where all that a store does is seen: how long, with which error, what moved.

Metrics and event hooks are observers of this wrapper, so that no transition can go by them: not a
rescue, not an operator's cancel, not the children of a settled job.

The body of :class:`ObservedStore` is the table: one line for each method of the store's protocol of
which something is told. All others are timed and no more. The wrapper of a method is made once,
from the protocol's own method.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial, wraps
from inspect import iscoroutinefunction
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

    # Its methods are added below: a type checker reads them from the protocol.
    _Shape = Store
else:
    _Shape = object

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
        # A cancelled call has taken time as well, and its failure is not counted.
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


class NotAwaited(TypeError):
    """A method that nobody awaits, of which the table does not say what the seam does."""


def _whole(table: type[T]) -> type[T]:
    """Add what the table does not name: each other method of the protocol, timed."""
    for name in dir(Store):
        if not name.startswith("_") and name not in vars(table):
            method = getattr(Store, name)
            if not iscoroutinefunction(method):  # it would become one
                raise NotAwaited(name)
            setattr(table, name, _timed(method).quiet)
    return table


@_whole
class ObservedStore(_Shape):
    """A :class:`Store` that tells what another one did. :func:`observed_store` makes one."""

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

    migration_script = _passed(Store.migration_script)
    listen = _passed(Store.listen)

    # -- doors -----------------------------------------------------------------------------

    commit = _timed(Store.commit).call(Telemetry.wrote)
    commit_within = _timed(Store.commit_within).call(effects.wrote_within)
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
    progress = _timed(Store.progress).call(jobs.progressed)
    cancel = _timed(Store.cancel).answer(jobs.changed)
    redrive = _timed(Store.redrive).answer(jobs.changed)
    amend = _timed(Store.amend).answer(jobs.amended)
    delete = _timed(Store.delete).answer(jobs.deleted)
    rescue = _timed(Store.rescue).answer(jobs.rescued)
    prune = _timed(Store.prune).answer(jobs.pruned)

    # -- workers and claims ----------------------------------------------------------------

    # Nothing here may wait for what else is measured: it is called while the loop hangs.
    vouch = _passed(Store.vouch)
    cut_off = _passed(Store.cut_off)

    # -- messages --------------------------------------------------------------------------

    lease_messages = _timed(Store.lease_messages).answer(messages.leased)
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

    # -- the log and its routers -----------------------------------------------------------

    advance = _timed(Store.advance).call(effects.advanced)
    route_within = _timed(Store.route_within).call(effects.routed_within)
    route_within_blocking = _from_any_thread(Store.route_within_blocking, effects.routed_within)
    record_replay = _timed(Store.record_replay).call(effects.replayed)
    record_redo = _timed(Store.record_redo).call(effects.redone)

    # -- schedules -------------------------------------------------------------------------

    fire = _timed(Store.fire).call(jobs.fired)
    trigger_schedule = _timed(Store.trigger_schedule).call(jobs.triggered)

    # -- workflows -------------------------------------------------------------------------

    cancel_groups = _timed(Store.cancel_groups).answer(jobs.changed)
    close_groups = _timed(Store.close_groups).answer(jobs.changed)
    expire_blocked = _timed(Store.expire_blocked).answer(jobs.changed)
    compensate = _timed(Store.compensate).call(effects.compensated)

    # -- limits and pauses -----------------------------------------------------------------

    admit = _timed(Store.admit).answer(jobs.admitted)
    start = _timed(Store.start).call(jobs.started)

    # -- the ledger ------------------------------------------------------------------------

    post = _timed(Store.post).answer(effects.posted)

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


def observed_store(
    inner: Store,
    clock: Clock,
    meter: StoreMeter,
    observers: Sequence[Observer] = (),
    home: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None,
) -> ObservedStore:
    """A store that tells observers what ``inner`` did, in the loop that ``home`` gives."""
    # to a type checker, what the decorator adds is abstract
    made: Callable[..., ObservedStore] = ObservedStore
    return made(inner, clock, meter, observers, home)


def _running_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
