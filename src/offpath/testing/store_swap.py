"""Another store in the place of an app's own, for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from offpath.errors import InvalidArgument
from offpath.jobs.client.core import core_of
from offpath.runtime.clock import Clock
from offpath.testing.faults import FlakyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.app import App
    from offpath.store.protocol import Store


ClockT = TypeVar("ClockT", bound=Clock)


class StoreSwap(Generic[ClockT]):
    """Another store in the place of an app's; ``async with`` in coroutines, ``with`` elsewhere."""

    def __init__(self, app: App, store: Store, *, clock: ClockT, auto_start: bool = False) -> None:
        self.app = app
        """The app, which everybody else has imported as well."""
        self.clock = clock
        """The clock of the store and of the app."""
        self.store = FlakyStore(store)
        """The store, which can be told to fail."""
        self._auto_start = auto_start
        self._restore: Callable[[], None] | None = None

    def __repr__(self) -> str:
        """Show whether it is in place."""
        return f"<{type(self).__name__} of {self.app!r} {'on' if self._restore else 'off'}>"

    async def __aenter__(self) -> Self:
        """Put the store in place."""
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
        """Put the store in place, for blocking code."""
        if _in_a_loop():
            raise InvalidArgument("inside of a coroutine write `async with`")
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
        """Put the store in place. The app's own store stays as it is, open or not."""
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


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
