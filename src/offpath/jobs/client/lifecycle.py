"""Opening and closing an app: once, in one event loop and one process, whoever asks first."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from offpath.config import MEMORY_URL
from offpath.errors import AppClosed

if TYPE_CHECKING:
    from offpath.jobs.handler.resources import Resources
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

SessionT = TypeVar("SessionT")


class _Process:
    """The identity of this process, without a system call for each question."""

    generation = 0

    @classmethod
    def forked(cls) -> None:
        """Called in each child of a fork."""
        cls.generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


_LEFT: list[object] = []
"""The stores that parents of this process had open."""


class _Live(Generic[SessionT]):
    """A session with where it lives."""

    __slots__ = ("generation", "loop", "session")

    def __init__(self, session: SessionT, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.loop = loop
        self.generation = _Process.generation

    @property
    def inherited(self) -> bool:
        """True if it was opened by the process that this one was forked from."""
        return self.generation != _Process.generation


class Lifecycle(Generic[SessionT]):
    """Holds at most one session. Use opens it; after :meth:`close` only :meth:`open` does."""

    def __init__(
        self,
        start: Callable[[], Awaitable[SessionT]],
        finish: Callable[[SessionT], Awaitable[None]],
        forked: Callable[[], object],
    ) -> None:
        self._start = start
        self._finish = finish
        self._forked = forked
        """Told in a child of a fork; returns what is to be kept, unclosed."""
        self._live: _Live[SessionT] | None = None
        self._opening: asyncio.Task[SessionT] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._closed = False
        self._callers = 0
        """The number of callers that wait for the opening."""
        self._generation = _Process.generation

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop in which it is open, or being opened; None while it is not."""
        if self._live is not None and not self._live.inherited:
            return self._live.loop
        return None if self._opening is None else self._opening.get_loop()

    @property
    def session(self) -> SessionT | None:
        """The open session, if there is one."""
        return None if self._live is None else self._live.session

    def _forget_inherited(self) -> None:
        """In a child of a fork: leave what the parent opened, unclosed, and be as one that was
        never open. Its sockets and files are the parent's still; closing them here could end a
        session there, so they are kept until this process ends.
        """
        if self._generation == _Process.generation:
            return
        _LEFT.append((self._live, self._opening, self._closing, self._forked()))
        self._live = self._opening = self._closing = None
        self._callers = 0
        self._generation = _Process.generation

    async def opened(self) -> SessionT:
        """The session, opened if need be. Raises ``AppClosed`` after a close."""
        self._forget_inherited()
        live = self._live
        if live is None:
            return await self._first_use()
        _check_home(live.loop)
        return live.session

    def live(self) -> SessionT | None:
        """The session if it is open."""
        self._forget_inherited()
        live = self._live
        if live is None:
            return None
        _check_home(live.loop)
        return live.session

    async def open(self) -> SessionT:
        """The session, opened if need be, also after a close."""
        self._forget_inherited()
        if self._closing is not None:
            await asyncio.wait((self._closing,))
        self._closed = False
        return await self.opened()

    async def close(self, *, wait: bool = True) -> None:
        """Finish the session. Idempotent; ends also when its caller is cancelled.

        Without ``wait`` it returns when the finish was begun.
        """
        self._forget_inherited()
        self._closed = True
        if self._opening is not None:
            await asyncio.wait((self._opening,))
        if self._closing is None:
            live, self._live = self._live, None
            if live is None or live.loop.is_closed():
                return  # what a dead loop held cannot be closed from here
            if live.loop is not asyncio.get_running_loop():
                self._live = live
                _check_home(live.loop)
            self._closing = asyncio.create_task(self._end(live.session), name="offpath close")
        if wait:
            await asyncio.shield(self._closing)

    async def _first_use(self) -> SessionT:
        if self._closed:
            raise AppClosed(
                "the app was closed: open it again, `async with app` or `with app.blocking`"
            )
        _require_loop()
        if self._opening is None:
            self._opening = asyncio.create_task(self._begin(), name="offpath open")
            self._opening.add_done_callback(_retrieved)
        _check_home(self._opening.get_loop())
        return await self._wait_for(self._opening)

    async def _wait_for(self, opening: asyncio.Task[SessionT]) -> SessionT:
        """Share an opening with whoever else waits for it.

        When the last of them is cancelled it is taken back: nobody would close what it made.
        """
        self._callers += 1
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if self._callers == 1 and not opening.done():
                opening.cancel()
                await asyncio.wait((opening,))
            raise
        finally:
            self._callers -= 1

    async def _begin(self) -> SessionT:
        try:
            session = await self._start()
            self._live = _Live(session, asyncio.get_running_loop())
            return session
        finally:
            self._opening = None

    async def _end(self, session: SessionT) -> None:
        try:
            await self._finish(session)
        finally:
            self._closing = None


_SWAPPED = (
    *("_auto_start", "_backend", "_lifecycle", "_resources", "_store", "_workers"),
    "clock",
)
"""The attributes that belong to a store rather than to the app; see :meth:`App._swap_store`."""


class Swappable:
    """An app whose store can be replaced for a while."""

    clock: Clock
    _auto_start: bool | None
    _backend: Any
    """The maker of the store: of the app's class, since nothing here knows a backend."""
    _lifecycle: Lifecycle[Any]
    _resources: Resources | None
    _store: Store | None
    _workers: weakref.WeakSet[Any]

    if TYPE_CHECKING:

        async def _start(self) -> Any: ...  # noqa: ANN401 - the app's session

        async def _finish(self, session: Any, /) -> None: ...  # noqa: ANN401 - as above

        def _forked(self) -> object: ...

    def _live(self) -> Any:  # noqa: ANN401 - the app's session
        """The session of the store that is there now, if it is open."""
        return self._lifecycle.live()

    def _swap_store(
        self, store: Store, *, clock: Clock | None = None, auto_start: bool = False
    ) -> Callable[[], None]:
        """Put another store in the place of this app's: for tests of code that imports the app.

        Returns the function that puts everything back; close the app before calling it. What was
        open before stays open meanwhile.
        """
        kept = {name: getattr(self, name) for name in _SWAPPED}
        self._backend = type(self._backend)(MEMORY_URL, store=store, clock=clock)
        self._store = None
        self._lifecycle = Lifecycle(self._start, self._finish, self._forked)
        self._workers, self._resources = weakref.WeakSet(), None
        self._auto_start = auto_start
        self.clock = clock or self.clock

        def restore() -> None:
            for name, value in kept.items():
                setattr(self, name, value)

        return restore


def _retrieved(task: asyncio.Task[SessionT]) -> None:
    """Its error went to whoever waited; if nobody did, the next use meets it again."""
    if not task.cancelled():
        task.exception()


def _require_loop() -> None:
    """A coroutine that was forked in its midst has no loop in the child, and cannot await."""
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        raise AppClosed(
            "this process was forked within a running event loop, so nothing can be awaited here: "
            "call app.blocking, or asyncio.run(...) with `async with app:`, in the child"
        ) from error


def _check_home(loop: asyncio.AbstractEventLoop) -> None:
    if loop is asyncio.get_running_loop():
        return
    if loop.is_closed():
        raise AppClosed(
            "the event loop in which this app was opened has ended without closing it: "
            "write `async with app:` inside each asyncio.run()"
        )
    raise AppClosed(
        "this app is open in another event loop (of another thread, or app.blocking's own): "
        "use one loop per app, or call app.blocking from threads"
    )
