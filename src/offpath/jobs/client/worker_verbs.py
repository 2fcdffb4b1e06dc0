"""The hooks of an app's workers: the program decides in them which jobs are taken, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from offpath.errors import InvalidArgument
from offpath.jobs.values.offers import HOOKS, WorkerHooks
from offpath.runtime.seats import check_seat

if TYPE_CHECKING:
    from offpath.model.lease import WorkerRecord
    from offpath.store.protocol import Backlog, Store


class WorkingVerbs:
    """The verbs of an app for all its workers."""

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
            check_seat(hook, name, plain=name == "accept")
        before: Any = getattr(self, "_worker_hooks", {})
        merged: WorkerHooks = {**before, **given}
        return merged


_LISTED = ", ".join(HOOKS)
