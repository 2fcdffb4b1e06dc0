"""The context of a batch handler: its call, and each job in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from offpath.jobs.handler.context import JobContext
from offpath.jobs.handler.durable.verbs import DurableVerbs
from offpath.jobs.handler.notes import making
from offpath.jobs.values.signals import Signal
from offpath.runtime import log

if TYPE_CHECKING:
    import logging
    from collections.abc import Coroutine, Sequence
    from datetime import datetime

    from offpath.jobs.handler.resources import Resource
    from offpath.model.job import JobState

T = TypeVar("T")


class BatchItem(JobContext):
    """One job of a batch handler's call, as the handler sees it.

    It has what a :class:`offpath.Context` has, but for the steps, sleeps and waits: those would
    hold up the whole call. What is joined to it (jobs, events, postings, a plan that is its output)
    is committed with the end of this one job, whatever becomes of the others.
    """

    __slots__ = ()

    @property
    def _unwanted(self) -> bool:
        return self._run.over or self._run.interrupted is not None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it only raises
            raise _missing(self, name)


class BatchContext:
    """One call of a batch handler. Usable from coroutines and threads.

    A call is for many jobs: what is each job's own (its id, its attempt, what is committed with its
    end) is asked of its item. ``items`` are in the order of the inputs and of the outputs::

        for item, text in zip(ctx.items, texts, strict=True):
            ...
    """

    __slots__ = ("_cancelled", "_items")

    def __init__(self, items: Sequence[BatchItem]) -> None:
        self._items = tuple(items)
        self._cancelled: Signal | None = None
        for item in self._items:
            item._notes.also = self._told  # noqa: SLF001 - they are one

    def __repr__(self) -> str:
        """Show the task and how many jobs it is for; never their inputs."""
        return f"<BatchContext task={self.task!r} items={len(self._items)}>"

    def __len__(self) -> int:
        """The number of jobs that the call is for."""
        return len(self._items)

    @property
    def items(self) -> tuple[BatchItem, ...]:
        """Its jobs, in the order of the inputs."""
        return self._items

    @property
    def task(self) -> str:
        """The task's name."""
        return self._items[0].task

    def now(self) -> datetime:
        """Return the store's present time (the clock that deadlines go by)."""
        return self._items[0].now()

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the task and how many jobs the call is for.

        That of an item carries its job's id and the ``log_context``.
        """
        secrets = self._items[0]._host.secrets  # noqa: SLF001 - they are one
        return log.adapter("job", {"task": self.task, "jobs": len(self._items)}, secrets)

    @property
    def cancelled(self) -> Signal:
        """Set when no job wants the call any more: each was told to end, for whatever reason.

        An async handler is also cancelled where it awaits; a sync one should look now and then.
        One job alone that must end sets its item's, and the call goes on.
        """
        with making:
            if self._cancelled is None:
                loop = self._items[0]._host.loop  # noqa: SLF001 - they are one
                self._cancelled = Signal(loop, is_set=self._unwanted)
            return self._cancelled

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Return the states of these jobs; unknown ids are absent."""
        return await self._items[0].states(ids)

    async def resource(self, resource: Resource[T], /) -> T:
        """Return what ``app.resource(...)`` stands for; see :meth:`offpath.Context.resource`."""
        return await self._items[0].resource(resource)

    def blocking(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait in a sync handler's thread for a coroutine that runs in the worker's loop.

        ``ctx.blocking(item.claim("x"))``. Raises RuntimeError inside the loop: await it there.
        """
        return self._items[0].blocking(call)

    @property
    def _unwanted(self) -> bool:
        return all(item._unwanted for item in self._items)  # noqa: SLF001 - they are one

    def _told(self) -> None:
        with making:
            if self._cancelled is not None and self._unwanted:
                self._cancelled.set()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it only raises
            raise _missing(self, name)


def _missing(one: object, name: str) -> AttributeError:
    """The error for a name that ``one`` does not have, with the remedy."""
    kind = type(one).__name__
    if hasattr(DurableVerbs, name):
        hint = ": a call is for many jobs, and none may hold up the others; make it a plain task"
    elif isinstance(one, BatchContext) and hasattr(BatchItem, name):
        hint = f": it is each job's own, so ask its item, ctx.items[0].{name}"
    else:
        hint = ""
    return AttributeError(f"{kind} has no {name!r}{hint}", name=name, obj=one)
