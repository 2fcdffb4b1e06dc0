"""The hooks of an app's workers: the program decides in them which jobs are taken, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from offpath.errors import InvalidArgument
from offpath.jobs.values.offers import HOOKS, WorkerHooks
from offpath.runtime.seats import EVERYWHERE, check_seat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from offpath.jobs.client.hooks import Reporter
    from offpath.jobs.handler.resources import Resource, Resources
    from offpath.jobs.values.runnable import Around
    from offpath.model.lease import WorkerRecord
    from offpath.runtime.extension import Extension
    from offpath.runtime.extensions import Extensions
    from offpath.store.protocol import Backlog, Store
    from offpath.store.telemetry.meter import Observer


T = TypeVar("T")


class WorkingVerbs:
    """The verbs of an app for all its workers."""

    _worker_hooks: WorkerHooks
    _report: Reporter
    _own_extensions: tuple[Extension, ...]
    _extensions: Extensions | None = None
    _asked_extensions: tuple[Extension, ...] = ()
    _resources: Resources | None = None

    async def _opened(self) -> Store:
        raise NotImplementedError

    async def workers(self) -> list[WorkerRecord]:
        """Every registered worker of the fleet, oldest first."""
        return await (await self._opened()).workers()

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """Due work by queue and task, each counted up to ``limit``."""
        return await (await self._opened()).backlog(limit=limit)

    @overload
    def resource(self, make: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, make: Callable[[], Iterator[T]], /) -> Resource[T]: ...
    def resource(self, make: Any, /) -> Resource[Any]:
        """Declare what handlers share: ``http = app.resource(open_http)``.

        ``open_http`` is a generator function, async or sync (then it runs in a thread), that
        yields once. ``await ctx.resource(http)`` gives what it yields. It is opened once a process,
        at first use, and goes on after its yield when the last worker here stops, after the last
        handler; of several, the last opened is closed first. Raises ``TaskError``.
        """
        from offpath.jobs.handler.resources import Resource

        return Resource(make)

    def _shared(self) -> Resources:
        """The resources of this process."""
        if self._resources is None:
            from offpath.jobs.handler.resources import Resources

            self._resources = Resources(self._report)
        return self._resources

    def _extended(self) -> Extensions | None:
        """The extensions of the process and of this app; None where there are none."""
        if not (EVERYWHERE or self._own_extensions):
            return None
        several = (*EVERYWHERE, *self._own_extensions)
        if self._asked_extensions != several:
            from offpath.runtime.extensions import Extensions

            self._asked_extensions = several
            asked = Extensions(several, self._report)
            self._extensions = asked if asked.several else None
        return self._extensions

    def _extension_moves(self) -> Sequence[Observer]:
        """The observer that tells extensions of transitions, where one wants to know.

        Called for each new store, which an opening makes: so all are asked anew.
        """
        self._asked_extensions = ()
        extensions = self._extended()
        if extensions is None or not extensions.moves:
            return ()
        from offpath.jobs.client.extension_moves import ExtensionMoves

        return (ExtensionMoves(extensions),)

    def configure_workers(self, **hooks: Unpack[WorkerHooks]) -> None:
        """Give hooks to every worker that this app makes from now on, the command line's too.

        A worker's own (``app.worker(accept=...)``) count more; None takes one away. Raises
        ``InvalidArgument``.
        """
        self._worker_hooks = self._merged_hooks(hooks)

    def _merged_hooks(self, given: WorkerHooks) -> WorkerHooks:
        """The hooks of a worker that was given these. Raises ``InvalidArgument``."""
        for name, hook in given.items():
            if name not in HOOKS:
                raise InvalidArgument(f"workers have no hook {name!r}; they have {_LISTED}")
            if hook is not None and not callable(hook):
                raise InvalidArgument(f"{name} must be callable, not {type(hook).__name__}")
            check_seat(hook, name, plain=name == "accept")
        before: Any = getattr(self, "_worker_hooks", {})
        merged: WorkerHooks = {**before, **given}
        return merged


def surrounding(
    extensions: Sequence[Extension], around: Around | Sequence[Around]
) -> tuple[tuple[Extension, ...], tuple[Around, ...]]:
    """An app's extensions and arounds, checked. Raises ``InvalidArgument`` and ``TaskError``."""
    if not (extensions or around):
        return (), ()
    from offpath.jobs.define.around import checked_around
    from offpath.runtime.extensions import checked_extensions

    return checked_extensions(extensions), checked_around(around, "around")


_LISTED = ", ".join(HOOKS)
