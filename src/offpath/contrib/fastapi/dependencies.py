"""Dependencies: the app on a request's session, and work for after the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from fastapi import Depends

from offpath.contrib.starlette.after_answer import Later
from offpath.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.jobs.blocking.bound import BlockingBound
    from offpath.jobs.client.bound import Bound


def bound(app: App, session: Any) -> Callable[..., Any]:  # noqa: ANN401 - a function or a Depends
    """Make the dependency that gives the app on the request's own session.

    ``session`` is your dependency that gives the session; where you give it a scope, give the same
    ``Depends(get_session, scope=…)`` here, or the request has two sessions. What the handler
    enqueues is there when it commits the session, and not when it does not.
    """
    source = _source(session)

    async def bound_to(connection: Any = source) -> Bound:  # noqa: ANN401 - of any library
        return app.bound(connection)

    return bound_to


def blocking_bound(app: App, session: Any) -> Callable[..., Any]:  # noqa: ANN401 - as above
    """Make the same for handlers that are ``def``, with a session of theirs."""
    source = _source(session)

    async def bound_to(connection: Any = source) -> BlockingBound:  # noqa: ANN401 - as above
        return app.blocking.bound(connection)

    return bound_to


def later(app: App) -> Any:  # noqa: ANN401 - what Depends returns
    """The dependency of work for after the answer.

    A handler takes ``left: Annotated[Later, later(jobs)]``. What it adds is written in one commit
    after it has returned and before the answer goes out; what raises drops it. Raises
    ``MissingExtra`` where FastAPI is older than 0.121, whose answer would be gone already.
    """

    async def collected() -> AsyncIterator[Later]:
        added = Later()
        yield added
        await added.write(app)

    try:
        return Depends(collected, scope="function")
    except TypeError as error:
        raise MissingExtra("later() needs FastAPI 0.121 or newer", "fastapi") from error


def _source(session: Any) -> Any:  # noqa: ANN401 - a function or what Depends returned
    if hasattr(session, "dependency"):
        return session
    if not callable(session):
        raise InvalidArgument(
            "bound(app, session) takes the dependency that gives the session, as get_session "
            "or Depends(get_session)"
        )
    return Depends(session)
