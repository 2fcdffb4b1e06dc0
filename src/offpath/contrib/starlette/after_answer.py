"""Work for after the answer, which is stored before the answer goes out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from offpath.app import App
from offpath.errors import InvalidArgument

if TYPE_CHECKING:
    from starlette.requests import Request

    from offpath.jobs.define.task import Sending
    from offpath.jobs.values.job import Job

P = ParamSpec("P")
S = TypeVar("S")
G = TypeVar("G")


class Later:
    """The jobs that a request leaves behind: the shape of ``BackgroundTasks``, but durable."""

    def __init__(self) -> None:
        self._jobs: list[Job[Any, Any]] = []

    def __len__(self) -> int:
        """The number of jobs added."""
        return len(self._jobs)

    def add(self, task: Sending[P, S, G], /, *args: P.args, **kwargs: P.kwargs) -> Job[S, G]:
        """Add a job of a task, or of ``task.options(...)``; it has its id already.

        Raises ``InvalidInput`` when the arguments do not fit, ``TooLarge``.
        """
        job = task.job(*args, **kwargs)
        self._jobs.append(job)
        return job

    async def write(self, app: App) -> None:
        """Write what was added, in one commit. Raises what ``app.enqueue`` does."""
        jobs, self._jobs = self._jobs, []
        if jobs:
            await app.enqueue(jobs)


@asynccontextmanager
async def later(request: Request) -> AsyncIterator[Later]:
    """Collect the jobs that a request leaves behind.

    ``async with later(request) as left: left.add(send_mail, user.id)``. They are written in one
    commit at the end of the block, and dropped when it raises. Raises ``InvalidArgument`` when the
    service has no app of ours, and what ``app.enqueue`` does.
    """
    app = getattr(request.app.state, "offpath", None)
    if not isinstance(app, App):
        raise InvalidArgument(
            "this service has no offpath app: give it lifespan=lifespan(app), "
            "or set service.state.offpath"
        )
    added = Later()
    yield added
    await added.write(app)
