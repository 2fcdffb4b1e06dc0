"""An empty store in memory in the place of an app's own, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from offpath.jobs.client.core import core_of
from offpath.runtime.clock import Clock, ManualClock
from offpath.testing.store_swap import ClockT, StoreSwap
from offpath.testing.transactions import TransactionalMemory, Within, checked_within

if TYPE_CHECKING:
    from offpath.app import App


class MemorySwap(StoreSwap[ClockT]):
    """The result of :func:`swap_to_memory`; ``async with`` in coroutines, ``with`` elsewhere."""

    def __init__(self, app: App, *, clock: ClockT, auto_start: bool, within: Within) -> None:
        memory = TransactionalMemory(clock, checked_within(within), core_of(app).loop)
        super().__init__(app, memory, clock=clock, auto_start=auto_start)


@overload
def swap_to_memory(
    app: App, *, clock: None = None, auto_start: bool = False, within: Within = "commit"
) -> MemorySwap[ManualClock]: ...
@overload
def swap_to_memory(
    app: App, *, clock: ClockT, auto_start: bool = False, within: Within = "commit"
) -> MemorySwap[ClockT]: ...
def swap_to_memory(
    app: App, *, clock: Clock | None = None, auto_start: bool = False, within: Within = "commit"
) -> MemorySwap[Any]:
    """Let ``app`` work on an empty store in memory, for tests of code that imports the app.

    ::

        async with swap_to_memory(app) as memory:
            await place_order("A-1")
            await assert_enqueued(app, send_receipt)
            await drain(app)
            memory.clock.advance(60)

    Time stands still unless a ``clock`` is given: the default is a new ``ManualClock``. No worker
    runs (:func:`drain` runs the jobs) unless ``auto_start`` is true. At the end the app is closed
    and has its own store back, untouched.

    What is given ``within=`` a session of SQLAlchemy or a connection of Django is there after the
    commit, and never after a rollback, savepoints included. Drivers tell nobody of their commits:
    with their connections it is there at once. ``within="at_once"`` does so for all, and takes any
    object for a connection; ``"refuse"`` refuses to join a transaction. Raises ``InvalidArgument``.
    """
    return MemorySwap(app, clock=clock or ManualClock(), auto_start=auto_start, within=within)
