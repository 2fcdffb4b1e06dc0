"""Workers that run beside the rest of a service, in its event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Self

from offpath.jobs.worker.worker import Worker

if TYPE_CHECKING:
    from offpath.jobs.runnable import Runnable
    from offpath.jobs.worker.terms import Counts, Parts, WorkerSettings


class AppWorker(Worker):
    """A worker of an app: opens the app when it starts. ``async with app.worker():`` runs it."""

    def __init__(
        self,
        opened: Callable[[], Awaitable[object]],
        parts: Parts,
        tasks: Mapping[str, Runnable],
        settings: WorkerSettings,
    ) -> None:
        super().__init__(parts, tasks, settings)
        self._opened = opened

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it: running jobs may end within ``drain_timeout``."""
        await self.stop()

    async def start(self) -> None:
        """Open the app, register and begin to take jobs; see :meth:`Worker.start`."""
        await self._opened()
        await super().start()

    async def run_until_idle(self, *, limit: int | None = None) -> Counts:
        """Open the app and run everything that is due; see :meth:`Worker.run_until_idle`."""
        await self._opened()
        return await super().run_until_idle(limit=limit)
