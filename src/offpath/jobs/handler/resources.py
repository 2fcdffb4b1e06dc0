"""Resources: what handlers share in one process, opened at first use and closed with the worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from offpath.errors import InvalidArgument, TaskError
from offpath.runtime.seats import contained
from offpath.runtime.threads import in_own_thread

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

T = TypeVar("T")

_ABSENT = object()


class Resource(Generic[T]):
    """The result of ``app.resource(open_http)``; ``await ctx.resource(http)`` gives its value."""

    __slots__ = ("_stand_in", "make", "name")

    def __init__(self, make: Callable[[], AsyncIterator[T] | Iterator[T]]) -> None:
        if not (inspect.isasyncgenfunction(make) or inspect.isgeneratorfunction(make)):
            raise TaskError(
                f"a resource is made by a generator function that yields it once, async or "
                f"sync, not by {make!r:.100}"
            )
        self.make = make
        self.name: str = getattr(make, "__qualname__", repr(make))
        self._stand_in: Any = _ABSENT

    def __repr__(self) -> str:
        """Show the function's name."""
        return f"<Resource {self.name}>"

    def swap(self, value: T) -> AbstractContextManager[T]:
        """Hand out ``value`` instead, for a while; see ``offpath.testing.swap_resource``."""
        from contextlib import contextmanager

        @contextmanager
        def swapped() -> Iterator[T]:
            before, self._stand_in = self._stand_in, value
            try:
                yield value
            finally:
                self._stand_in = before

        return swapped()


class Resources:
    """The open resources of one app in one process. Belongs to its event loop.

    Each has a task of its own that opens it, waits and closes it, so that what must be closed
    where it was opened (a task group, a cancel scope) is.
    """

    def __init__(self, report: Callable[[BaseException, str], None]) -> None:
        self._report = report
        self._kept: dict[Resource[Any], _Kept] = {}
        self._holders: set[str] = set()

    def hold(self, worker: str) -> None:
        """A worker uses them from now on."""
        self._holders.add(worker)

    async def release(self, worker: str, patience: float) -> None:
        """A worker has stopped; the last one closes them, within ``patience`` seconds."""
        self._holders.discard(worker)
        if not self._holders:
            await self.close(patience)

    async def get(self, resource: Resource[T]) -> T:
        """Its value, opened if need be. Raises what opening it raises."""
        if not isinstance(resource, Resource):
            raise InvalidArgument(
                f"ctx.resource takes what app.resource(...) returned, not {resource!r:.100}"
            )
        if resource._stand_in is not _ABSENT:  # noqa: SLF001 - they are one
            given: T = resource._stand_in  # noqa: SLF001 - they are one
            return given
        kept = self._kept.get(resource)
        if kept is None:
            # Nothing is awaited between the look and the entry: two that ask at once share it.
            kept = self._kept[resource] = _Kept(resource)
            kept.task.add_done_callback(lambda _: self._gone(resource, kept))
        # One that is told to end while others wait must not end the opening.
        value: T = await asyncio.shield(kept.value)
        return value

    def _gone(self, resource: Resource[Any], kept: _Kept) -> None:
        if self._kept.get(resource) is kept:
            del self._kept[resource]
        if (fault := kept.fault) is not None:
            self._report(fault, "resource")

    async def close(self, patience: float) -> None:
        """Close what is open, last opened first, within ``patience`` seconds."""
        end = asyncio.get_running_loop().time() + patience
        for resource, kept in reversed(tuple(self._kept.items())):
            self._kept.pop(resource, None)
            kept.over.set()
            left = max(end - asyncio.get_running_loop().time(), 0.0)
            _, hung = await asyncio.wait({kept.task}, timeout=left)
            if hung:
                kept.task.cancel()
                msg = f"resource {resource.name} was not closed within {patience:g} s"
                self._report(TimeoutError(msg), "resource")


class _Kept:
    """One open resource and the task that keeps it."""

    def __init__(self, resource: Resource[Any]) -> None:
        loop = asyncio.get_running_loop()
        self.value: asyncio.Future[Any] = loop.create_future()
        self.over = asyncio.Event()
        self.fault: Exception | None = None
        """The fault that came once it was open."""
        # clean: it outlives the handler that asked first, and must not keep its context
        self.task = loop.create_task(self._keep(resource), context=Context())

    async def _keep(self, resource: Resource[Any]) -> None:
        made: Any = resource.make()
        try:
            value = await _next(made, resource)
        except BaseException as error:  # noqa: BLE001 - it fails the attempts that wait for it
            if not self.value.done():
                self.value.set_exception(contained(error))
                self.value.exception()  # who waits gets it; nobody may
            return
        self.value.set_result(value)
        try:
            await self.over.wait()
            await _end(made, resource)
        except Exception as error:  # noqa: BLE001 - a close that fails must not keep others open
            self.fault = error


async def _next(made: Any, resource: Resource[Any]) -> Any:  # noqa: ANN401 - any value
    try:
        if inspect.isasyncgen(made):
            return await anext(made)
        found = await in_own_thread(lambda: next(made, _ABSENT))
    except StopAsyncIteration:
        found = _ABSENT
    if found is _ABSENT:
        raise TaskError(f"resource {resource.name} ended without a yield")
    return found


async def _end(made: Any, resource: Resource[Any]) -> None:  # noqa: ANN401 - a generator
    if inspect.isasyncgen(made):
        found = await anext(made, _ABSENT)
    else:
        found = await in_own_thread(lambda: next(made, _ABSENT))
    if found is not _ABSENT:
        raise TaskError(f"resource {resource.name} yields more than once")
