"""What an app's workers ask and tell the program: hooks that decide what they take, and when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from offpath.errors import InvalidArgument

if TYPE_CHECKING:
    from offpath.jobs.worker.accepting import Offer
    from offpath.jobs.worker.backpressure import WorkerLoad
    from offpath.jobs.worker.falling_behind import BackedUp
    from offpath.model.lease import WorkerRecord
    from offpath.store.protocol import Backlog, Store

Pause = float | timedelta | None
Backpressure = Callable[["WorkerLoad"], "Pause | Awaitable[Pause]"]
"""Is asked before each lease how long to take nothing; None or 0: go on."""
Accept = Callable[["Offer"], bool]
"""Decides whether this worker runs a job. It must not block."""
OnBacklog = Callable[["BackedUp"], "Awaitable[None] | None"]
"""Is told that work has been waiting for a full worker."""


class WorkerHooks(TypedDict, total=False):
    """What workers ask and tell; see :meth:`WorkingVerbs.configure_workers`."""

    backpressure: Backpressure | None
    """Asked before each lease: seconds for which this worker takes no job, None or 0 to go on."""
    accept: Accept | None
    """Asked for each job that was leased: False gives it back, for other workers."""
    on_backlog: OnBacklog | None
    """Told when the worker has been full, with due work waiting, for ``backlog_after`` seconds."""


HOOKS = tuple(WorkerHooks.__annotations__)


class WorkingVerbs:
    """What an app can say and ask of all its workers."""

    _worker_hooks: WorkerHooks

    async def _opened(self) -> Store:
        raise NotImplementedError

    async def workers(self) -> list[WorkerRecord]:
        """Every registered worker of the fleet, oldest first."""
        return await (await self._opened()).workers()

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """Due work by queue and task, each counted up to ``limit``."""
        return await (await self._opened()).backlog(limit=limit)

    def configure_workers(self, **hooks: Unpack[WorkerHooks]) -> None:
        """Give hooks to every worker that this app makes from now on, the command line's too.

        A worker's own (``app.worker(accept=...)``) count more; None takes one away. Raises
        ``InvalidArgument``.
        """
        self._worker_hooks = self.worker_hooks(hooks)

    def worker_hooks(self, given: WorkerHooks) -> WorkerHooks:
        """The hooks of a worker that was given these. Raises ``InvalidArgument``."""
        for name, hook in given.items():
            if name not in HOOKS:
                raise InvalidArgument(f"workers have no hook {name!r}; they have {_LISTED}")
            if hook is not None and not callable(hook):
                raise InvalidArgument(f"{name} must be callable, not {type(hook).__name__}")
        before: Any = getattr(self, "_worker_hooks", {})
        merged: WorkerHooks = {**before, **given}
        return merged


_LISTED = ", ".join(HOOKS)
