"""The extensions of an app, each call of them guarded: a fault is reported, and nobody is hurt."""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument
from offpath.runtime.entry_headers import entries_of, with_entries
from offpath.runtime.extension import (
    Applying,
    Committing,
    Delivering,
    Ended,
    Extension,
    NewEntry,
    Outgoing,
    Routing,
    Running,
)
from offpath.runtime.seats import contained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from offpath.model.effects import Effects
    from offpath.model.event import JobEvent

_PHASE = "extension"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VALUE = re.compile(r"[\x20-\x7e]{0,1000}")


def checked_extensions(given: Sequence[Extension] | Extension) -> tuple[Extension, ...]:
    """The extensions as they were given. Raises ``InvalidArgument`` for what is none."""
    if isinstance(given, Extension):
        raise InvalidArgument(f"extensions is a list: write extensions=[{type(given).__name__}()]")
    several: Sequence[object] = given
    for one in several:
        if not isinstance(one, Extension):
            what = one.__name__ + ", a class: call it" if isinstance(one, type) else repr(one)
            raise InvalidArgument(
                f"an extension is an object of a subclass of offpath.extensions.Extension, "
                f"not {what:.200}"
            )
    return tuple(given)


class Inside:
    """Contexts of several extensions, entered together and left in reverse."""

    __slots__ = ("_contexts", "_entered", "_report")

    def __init__(
        self,
        contexts: Sequence[Callable[[], AbstractContextManager[Any]]],
        report: Callable[[BaseException], None],
    ) -> None:
        self._contexts = contexts
        self._report = report
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        """Enter those that can be entered."""
        for make in self._contexts:
            try:
                context = make()
                context.__enter__()
            except BaseException as fault:  # noqa: BLE001 - an extension's fault costs no job
                self._report(contained(fault))
            else:
                self._entered.append(context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave them; none holds back what was raised within."""
        for context in reversed(self._entered):
            try:
                context.__exit__(kind, error, trace)
            except BaseException as fault:  # noqa: BLE001 - as above
                if fault is not error:
                    self._report(contained(fault))


class Extensions:
    """The extensions of one app. Its methods never raise."""

    def __init__(
        self, several: Sequence[Extension], report: Callable[[BaseException, str], None]
    ) -> None:
        self._report = report
        self.several = tuple(one for one in several if self._is_active(one))
        """The extensions that had something to do when they were asked."""
        self._running = [one.running for one in self._with("running")]
        self._stepping = [one.stepping for one in self._with("stepping")]
        self._delivering = [one.delivering for one in self._with("delivering")]
        self._sending = [one.sending for one in self._with("sending")]
        self._applying = [one.applying for one in self._with("applying")]
        self._routing = [one.routing for one in self._with("routing")]
        self._ended = [one.ended for one in self._with("ended")]
        self._moved = [one.moved for one in self._with("moved")]
        self.runs = bool(self._running or self._stepping or self._ended)
        """True if one of them is there for handlers."""
        self.moves = bool(self._moved)
        """True if one of them is told about transitions."""
        self.delivers = bool(self._delivering)
        """True if one of them is there for deliveries."""
        self.sends = bool(self._sending)
        """True if one of them is there for what is written."""

    def _is_active(self, one: Extension) -> bool:
        try:
            return one.active()
        except BaseException as fault:  # noqa: BLE001 - as in all the others
            self._fault(contained(fault))
            return False

    def _with(self, name: str) -> list[Extension]:
        """The extensions that have overridden a method."""
        return [one for one in self.several if getattr(type(one), name) is not _plain(name)]

    # -- around ----------------------------------------------------------------------------------

    def running(self, run: Running, loop: asyncio.AbstractEventLoop | None = None) -> Inside:
        """The contexts around a handler. ``loop``: from a thread, faults are told there."""
        return Inside([partial(one, run) for one in self._running], self._teller(loop))

    def stepping(
        self, run: Running, name: str, loop: asyncio.AbstractEventLoop | None = None
    ) -> Inside:
        """The contexts around a step."""
        return Inside([partial(one, run, name) for one in self._stepping], self._teller(loop))

    def delivering(self, out: Delivering, loop: asyncio.AbstractEventLoop | None = None) -> Inside:
        """The contexts around a delivery."""
        return Inside([partial(one, out) for one in self._delivering], self._teller(loop))

    def applying(self, one: Applying, loop: asyncio.AbstractEventLoop | None = None) -> Inside:
        """The contexts around the handler of an inbox message."""
        return Inside([partial(each, one) for each in self._applying], self._teller(loop))

    def routing(self, one: Routing) -> Inside:
        """The contexts around a delivery along a route."""
        return Inside([partial(each, one) for each in self._routing], self._fault)

    @contextmanager
    def sending(
        self,
        effects: Effects,
        *,
        cause: Running | Applying | None = None,
        within: bool = False,
    ) -> Iterator[Effects]:
        """The contexts around a commit; gives the effects with the headers that were added."""
        if not (self._sending and (effects.jobs or effects.messages or effects.log)):
            yield effects
            return
        entries = entries_of(effects)
        new = Committing(entries=entries, cause=cause, within=within, state={})
        with Inside([partial(each, new) for each in self._sending], self._fault):
            yield with_entries(effects, entries, self._left_out)

    def _left_out(self, entry: NewEntry, name: object) -> None:
        self._fault(
            InvalidArgument(f"header {name!r:.80} of {entry.kind} {entry.id} cannot be one")
        )

    def _teller(self, loop: asyncio.AbstractEventLoop | None) -> Callable[[BaseException], None]:
        if loop is None:
            return self._fault

        def tell(fault: BaseException) -> None:
            with suppress(RuntimeError):  # the loop is closed: there is nobody left to tell
                loop.call_soon_threadsafe(self._fault, fault)

        return tell

    # -- told ------------------------------------------------------------------------------------

    def ended(self, run: Running, end: Ended) -> None:
        """An attempt has ended."""
        self._call(self._ended, run, end)

    def moved(self, event: JobEvent) -> None:
        """A transition was committed."""
        self._call(self._moved, event)

    def opened(self, app: object) -> None:
        """The app was opened."""
        self._call([one.opened for one in self._with("opened")], app)

    def closed(self, app: object) -> None:
        """The app is being closed."""
        self._call([one.closed for one in reversed(self._with("closed"))], app)

    def _call(self, methods: Sequence[Callable[..., None]], *args: object) -> None:
        for method in methods:
            try:
                method(*args)
            except BaseException as fault:  # noqa: BLE001 - an extension's fault costs no job
                self._fault(contained(fault))

    def _fault(self, fault: BaseException) -> None:
        self._report(fault, _PHASE)

    # -- headers ---------------------------------------------------------------------------------

    def sendable(self, message: Outgoing) -> dict[str, str]:
        """The headers of a message that can be sent; others are left out, and reported."""
        good: dict[str, str] = {}
        for name, value in message.headers.items():
            if _fits(_NAME, name) and _fits(_VALUE, value):
                good[name] = value
            else:
                self._fault(InvalidArgument(f"header {name!r:.80} of a delivery cannot be sent"))
        return good


def _plain(name: str) -> object:
    return getattr(Extension, name)


def _fits(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None
