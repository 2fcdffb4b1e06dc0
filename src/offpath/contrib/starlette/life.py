"""The life of an app inside of a service's: open before it serves, closed after."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from offpath.config import MEMORY_URL

if TYPE_CHECKING:
    from offpath.app import App

    State = Mapping[str, Any] | None
    Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

_log = logging.getLogger("offpath.contrib")


def lifespan(app: App, *, inner: Lifespan | None = None, worker: bool = False) -> Lifespan:
    """Make the ``lifespan`` of a Starlette or FastAPI app: ``FastAPI(lifespan=lifespan(jobs))``.

    The app is open before the service takes requests and closed after the last one. ``inner`` is a
    lifespan of your own, which runs inside; the state that it yields is passed on. ``worker=True``
    also runs a worker in each process of the server: for development and small sites.

    ``service.state.offpath`` is the app, so that requests and the command line find it.
    """

    @asynccontextmanager
    async def alive(service: Any) -> AsyncIterator[State]:  # noqa: ANN401 - Starlette or FastAPI
        service.state.offpath = app
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app)
            # in memory the app has a worker of its own already
            if worker and app.settings.url != MEMORY_URL:
                _log.info("a worker runs in this process (%d) of the server", os.getpid())
                await stack.enter_async_context(app.worker())
            yield None if inner is None else await stack.enter_async_context(inner(service))

    return alive
