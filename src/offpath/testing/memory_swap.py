"""An empty store in memory in the place of an app's own, for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from offpath.errors import InvalidArgument
from offpath.jobs.client.core import core_of
from offpath.runtime.clock import Clock, ManualClock
from offpath.testing.faults import FlakyStore
from offpath.testing.transactions import TransactionalMemory, Within, checked_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.app import App


ClockT = TypeVar("ClockT", bound=Clock)


class MemorySwap(Generic[ClockT]):
    """The result of :func:`swap_to_memory`; ``async with`` in coroutines, ``with`` elsewhere."""

    def __init__(self, app: App, *, clock: ClockT, auto_start: bool, within: Within) -> None:
        self.app = app
        """The app, which everybody else has imported as well."""
        self.clock = clock
        """The clock of the store and of the app."""
        memory = TransactionalMemory(clock, checked_within(within), core_of(app).loop)
        self.store = FlakyStore(memory)
        """The store, which can be told to fail."""
        self._auto_start = auto_start
        self._restore: Callable[[], None] | None = None

    def __repr__(self) -> str:
        """Show whether it is in place."""
        return f"<MemorySwap of {self.app!r} {'on' if self._restore else 'off'}>"

    async def __aenter__(self) -> Self:
        """Put the memory store in place."""
        self.install()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the app and put its own store back."""
        self.store.heal()
        try:
            await self.app.close()
        finally:
            self.uninstall()

    def __enter__(self) -> Self:
        """Put the memory store in place, for blocking code."""
        if _in_a_loop():
            raise InvalidArgument("inside of a coroutine write `async with swap_to_memory(app)`")
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the app and put its own store back."""
        self.store.heal()
        try:
            self._close_from_outside()
        finally:
            self.uninstall()

    def install(self) -> None:
        """Put the memory store in place. The app's own store stays as it is, open or not."""
        if self._restore is not None:
            raise InvalidArgument("this swap is in place already: make another one to nest")
        self._restore = core_of(self.app).swap_store(
            self.store, clock=self.clock, auto_start=self._auto_start
        )

    def uninstall(self) -> None:
        """Put the app's own store back; the app must be closed. Repeating it does nothing."""
        if self._restore is not None:
            self._restore()
            self._restore = None

    def _close_from_outside(self) -> None:
        """Close the app wherever it is open: in the blocking client's loop, or in one that rests.

        A loop that has ended has taken its tasks along.
        """
        self.app.blocking.close()
        loop = core_of(self.app).loop()
        if loop is not None and not loop.is_closed():
            if loop.is_running():
                raise InvalidArgument("the app is open in another thread's loop: close it there")
            loop.run_until_complete(self.app.close())


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


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
