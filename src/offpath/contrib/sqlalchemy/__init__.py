"""SQLAlchemy 2: sessions that carry the app, so that code deep down needs no parameter.

What is enqueued on a session is in its transaction: there with its commit, gone with its rollback::

    Session = async_sessionmaker(engine)
    attach(Session, app)

    async with Session.begin() as session:
        session.add(row)
        await session.flush()
        await on(session).enqueue(send_receipt.job(row.id))
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, overload

from offpath.errors import InvalidArgument, MissingExtra

try:
    from sqlalchemy.orm import Session, scoped_session, sessionmaker
except ImportError as error:
    raise MissingExtra("offpath.contrib.sqlalchemy needs SQLAlchemy 2", "sqlalchemy") from error

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker

    from offpath.app import App
    from offpath.jobs.blocking.bound import BlockingBound
    from offpath.jobs.client.bound import Bound

    Sessions = (
        sessionmaker[Any]
        | async_sessionmaker[Any]
        | scoped_session[Any]
        | async_scoped_session[Any]
    )

__all__ = ["KEY", "attach", "on"]

KEY = "offpath"
"""The key of ``session.info`` under which a session has the app, bound to it."""


def attach(sessions: Sessions, app: App) -> None:
    """Let every session of this maker carry the app, bound to it: ``session.info["offpath"]``.

    That of an ``AsyncSession`` is an :class:`offpath.Bound`, that of a ``Session`` its blocking
    form. Attaching another app replaces the first; sessions that exist keep theirs. Raises
    ``InvalidArgument``.
    """
    maker: Any = getattr(sessions, "session_factory", sessions)
    kinds: Any = (sessionmaker, *_async("async_sessionmaker"))
    if not isinstance(maker, kinds):
        raise InvalidArgument(
            f"attach takes a sessionmaker or async_sessionmaker, not {type(sessions).__name__}: "
            "give what makes the sessions"
        )
    plain: type[Any] = maker.class_

    def made(session: Any, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401 - the session's own
        plain.__init__(session, *arguments, **keywords)
        blocking = not isinstance(session, _async("AsyncSession"))
        session.info[KEY] = app.blocking.bound(session) if blocking else app.bound(session)

    maker.class_ = type(plain.__name__, (plain,), {"__init__": made})


def _async(name: str) -> tuple[type[Any], ...]:
    """A class of SQLAlchemy's asyncio: none where nobody has loaded that, since it needs greenlet.

    Whoever has made a session of it has loaded it.
    """
    module = sys.modules.get("sqlalchemy.ext.asyncio")
    return () if module is None else (getattr(module, name),)


@overload
def on(session: AsyncSession | async_scoped_session[Any]) -> Bound: ...
@overload
def on(session: Session | scoped_session[Any]) -> BlockingBound: ...
def on(session: Any) -> Bound | BlockingBound:
    """The app that was attached to the maker of this session, bound to the session.

    Raises ``InvalidArgument`` when there is none.
    """
    found: Bound | BlockingBound | None = session.info.get(KEY)
    if found is None:
        raise InvalidArgument(
            "this session carries no app: call offpath.contrib.sqlalchemy.attach(maker, app) "
            "before the first session is made"
        )
    return found
