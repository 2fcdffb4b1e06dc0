"""Places: the databases that are looked at, each by a small pool of its own.

An own store, four connections, two seconds: a dashboard that hangs takes nothing away from the app
that it looks at. Nothing depends on a lifespan, which no framework runs for an app mounted in it:
the store is opened by the first request, in the loop that serves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from offpath.app import App
from offpath.config import MEMORY_URL, load_settings
from offpath.errors import AppClosed, OffpathError, SchemaError, StoreBusy, StoreUnavailable
from offpath.jobs.client.core import core_of
from offpath.model.action import ActionFilter, ActionRecord, ActionState
from offpath.model.redact import SECRET_NAMES, redact_text
from offpath.operating import actions
from offpath.operating.schema_check import require_current_schema
from offpath.store.backends import looking_store, refuse_unlooked
from offpath.web.console.shares import SharedAnswers
from offpath.web.console.stops import Stop

T = TypeVar("T")
Read = Callable[[App], Awaitable[T]]

PATIENCE: Final = 2.0
"""Seconds for all that one page asks of the store."""
LONG: Final = 30.0
"""Seconds for what is asked behind the requests; one statement of it is still cut off after two."""
SPARE: Final = 1 / 8
"""The share of it that is left when the parts of a page are cut off: for the page itself."""
SLOW: Final = "TOOK_TOO_LONG"
SOON: Final = 0.5
"""Seconds that a page waits for it, before it says that it goes on."""
TEND_EVERY: Final = 5.0
"""Seconds between two looks for actions that nobody carries out any more."""
_log = logging.getLogger("offpath.dashboard")


class Place:
    """One database."""

    def __init__(self, name: str, given: App | str) -> None:
        self.name = name
        self._given = given if isinstance(given, App) else None
        settings = given.settings if isinstance(given, App) else load_settings(url=given)
        # It migrates nothing: who looks must not change what they look at.
        self.settings = replace(settings, migrate=False)
        refuse_unlooked(self.settings.url)
        self.secret_names = SECRET_NAMES.union(settings.redact)
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, App] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[App]] = (
            WeakKeyDictionary()
        )
        self.shares = SharedAnswers()
        self._carried_out: set[asyncio.Task[None]] = set()
        self._tended = -TEND_EVERY
        self.answered_at: datetime | None = None
        """The time of the last good answer, by the store's clock."""

    @property
    def home(self) -> App | None:
        """The app that the dashboard was given, for what only code knows."""
        return self._given

    @property
    def own(self) -> App | None:
        """The app that is looked at itself: its store is not one that another can open too."""
        if self._given is None or self.settings.url != MEMORY_URL:
            return None
        return self._given

    async def ask(self, read: Read[T], *, patience: float | None = None) -> T:
        """The answer of ``read``. Raises ``Stop`` when the store is away, too slow, or not ours."""
        try:
            async with asyncio.timeout(PATIENCE if patience is None else patience):
                return await self._asked(read)
        except (TimeoutError, StoreBusy):
            raise self._slow() from None
        except (StoreUnavailable, AppClosed) as error:
            await self._leave()
            raise self._away(error) from error
        except SchemaError as error:
            await self._leave()
            raise Stop(503, error.code.upper(), _told(error)) from error

    async def shared(self, key: str, read: Read[T]) -> T:
        """The answer of :meth:`ask`, once a second for everybody."""
        return await self.shares.get(key, lambda: self.ask(read))

    async def behind(self, key: str, read: Read[T], *, keep: float) -> T | None:
        """The last answer of what takes longer than a page may; None while there is none yet."""
        return await self.shares.behind(
            key, lambda: self.ask(read, patience=LONG), keep=keep, wait=SOON
        )

    def carry(self, work: Read[object]) -> asyncio.Task[None]:
        """Have something carried out behind the requests, in this loop.

        Afterwards no page shows what was before it, unless its answer is None: nothing was done.
        """
        task = asyncio.ensure_future(self._carried(work))
        self._carried_out.add(task)
        task.add_done_callback(self._carried_out.discard)
        return task

    def tend(self) -> None:
        """Carry on what a dead process left of an action, now and then, while somebody looks."""
        now = asyncio.get_running_loop().time()
        if now - self._tended < TEND_EVERY:
            return
        self._tended = now
        self.carry(_carry_on)

    async def settled(self) -> None:
        """Wait until what is carried out behind the requests is done."""
        await asyncio.gather(*self._carried_out)

    async def _carried(self, work: Read[object]) -> None:
        """An action that is not done is carried on after its lease, here or elsewhere."""
        changed = True
        try:
            changed = await self._asked(work) is not None
        except OffpathError as error:
            _log.warning("%s: an action is left for later: %s", self.name, _told(error))
        finally:
            if changed:
                self.shares.forget()  # pages show at once what became of it

    async def close(self) -> None:
        """Close what was opened in this loop."""
        for task in tuple(self._carried_out):
            task.cancel()
        await asyncio.gather(*self._carried_out, return_exceptions=True)
        await self._shut()

    async def _shut(self) -> None:
        app = self._opened.pop(asyncio.get_running_loop(), None)
        if app is not None:
            await app.close()

    async def _asked(self, read: Read[T]) -> T:
        own = self.own
        if own is not None:
            found = await _in_loop_of(own, lambda: _timed(own, read))
        else:
            found = await _timed(await self._app(), read)
        answer, self.answered_at = found
        return answer

    async def _app(self) -> App:
        """The app on this place's own store, open in this loop.

        Who is first begins the opening, and leaves after its time without ending it: the next one
        finds it further on.
        """
        loop = asyncio.get_running_loop()
        if (known := self._opened.get(loop)) is not None:
            return known
        opening = self._opening.get(loop)
        if opening is None:
            opening = self._opening[loop] = asyncio.ensure_future(self._open())
            opening.add_done_callback(lambda _: self._opening.pop(loop, None))
        app = self._opened[loop] = await asyncio.shield(opening)
        return app

    async def _open(self) -> App:
        app = App(settings=self.settings, store=looking_store(self.settings), auto_start=False)
        if self._given is not None:
            # What only code knows: tasks with their schemas. Its sweeps work on its own store.
            app.tasks = self._given.tasks
        try:
            await require_current_schema(app)
            await app.open()
        except BaseException:
            await app.close()
            raise
        return app

    async def _leave(self) -> None:
        """Open anew next time: what was opened may be of a database that is not there any more."""
        try:
            await self._shut()
        except OffpathError as error:
            _log.info("%s: closing: %s", self.name, _told(error))

    def _slow(self) -> Stop:
        text = (
            f"This took longer than {PATIENCE:g} s and was stopped: the database is busy, or the "
            "filter matches little of much. Add a state or a task to it."
        )
        return Stop(503, SLOW, text, retryable=True, retry_after="2")

    def _away(self, error: OffpathError) -> Stop:
        last = (
            ""
            if self.answered_at is None
            else (f" It last answered at {self.answered_at.isoformat(timespec='seconds')}.")
        )
        text = f"The database is away: {_told(error)}.{last}"
        return Stop(503, "STORE_AWAY", text, retryable=True, retry_after="2")


def panels_until() -> float:
    """The time at which the parts of a page are cut off, by the loop's clock."""
    return asyncio.get_running_loop().time() + (1 - SPARE) * PATIENCE


async def _carry_on(app: App) -> ActionRecord | None:
    """Carry on one action, if the holder's time of one is over: a read, as long as none is."""
    store = app.store()
    now, running = await asyncio.gather(store.ping(), store.actions(_RUNNING, limit=_MOST_RUNNING))
    if any(one.held_until <= now for one in running):
        return await actions.carry_on(app, "dashboard")
    return None


_RUNNING: Final = ActionFilter(states=(ActionState.RUNNING,))
_MOST_RUNNING: Final = 20


def _told(error: OffpathError) -> str:
    return redact_text(str(error)).rstrip(".")


async def _timed(app: App, read: Read[T]) -> tuple[T, datetime]:
    return await asyncio.gather(read(app), app.store().ping())


async def _in_loop_of(app: App, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it in the loop in which the app is open: a store in memory has no other door."""
    loop = core_of(app).loop()
    if loop is None or loop is asyncio.get_running_loop():
        return await work()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def places_of(given: App | str | dict[str, App | str]) -> list[Place]:
    """The databases of one app, or of several by name."""
    several = given if isinstance(given, dict) else {"": given}
    return [Place(name, one) for name, one in several.items()]
