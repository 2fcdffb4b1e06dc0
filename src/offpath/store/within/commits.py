"""The commit of a caller's transaction, as its library tells of it.

SQLAlchemy's sessions and Django's connections call back after a commit. Drivers, and SQLAlchemy's
bare connections (whose event comes before the commit), do not.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

Act = Callable[[], None]
# Weak: a session that is dropped without a commit takes its acts along.
_HELD: weakref.WeakKeyDictionary[Any, _HeldCommit] = weakref.WeakKeyDictionary()
"""The acts that wait for the commit of each session."""


def after_commit(connection: Any, act: Act) -> bool:  # noqa: ANN401 - of whichever library
    """Call ``act`` once the transaction that is open on ``connection`` has been committed.

    A rollback, also that of a savepoint that was open at this call, forgets it. ``act`` must not
    raise. Returns False when nobody will tell of the commit.
    """
    names = _names(connection)
    if names & _DJANGO:
        return _django(connection, act)
    if not names & _SESSIONS:
        return False
    session = _session(connection, names)
    held = _HELD.get(session)
    if held is None:
        held = _HELD[session] = _HeldCommit(session)
    held.add(session, act)
    return True


def caller_of(connection: Any) -> object:  # noqa: ANN401 - of whichever library
    """The session, or the alias of Django, that a connection stands for: equal for one caller."""
    names = _names(connection)
    if names & _DJANGO:
        return connection.alias
    return _session(connection, names) if names & _SESSIONS else connection


def _names(connection: Any) -> set[str]:  # noqa: ANN401 - as above
    return {
        f"{each.__module__.partition('.')[0]}:{each.__name__}" for each in type(connection).__mro__
    }


def _session(connection: Any, names: set[str]) -> Any:  # noqa: ANN401 - as above
    """The blocking session of this one, or of this registry of them."""
    if names & _REGISTRIES:
        connection = connection()
    return getattr(connection, "sync_session", connection)


_DJANGO: Final = {"django:BaseDatabaseWrapper", "django:ConnectionProxy"}
_REGISTRIES: Final = {"sqlalchemy:scoped_session", "sqlalchemy:async_scoped_session"}
_SESSIONS: Final = {*_REGISTRIES, "sqlalchemy:Session", "sqlalchemy:AsyncSession"}


def _django(connection: Any, act: Act) -> bool:  # noqa: ANN401 - a connection of Django
    from django.db import transaction

    # Robust: an error in it must not keep the caller's other callbacks from running.
    transaction.on_commit(act, using=connection.alias, robust=True)
    return True


class _HeldCommit:
    """The acts that wait for one session's commit, each with the transaction it was said in."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - a Session
        from sqlalchemy import event

        self._waiting: list[tuple[Any, Act]] = []
        self._committed: Any = None
        event.listen(session, "after_commit", self._after_commit)
        event.listen(session, "after_transaction_end", self._after_end)

    def add(self, session: Any, act: Act) -> None:  # noqa: ANN401 - a Session
        if not session.in_transaction():
            session.begin()  # as its first statement would
        self._waiting.append((_innermost(session), act))

    def _after_commit(self, session: Any) -> None:  # noqa: ANN401 - a Session
        """A savepoint's release comes here too; it is over in ``after_transaction_end``."""
        self._committed = _innermost(session)

    def _after_end(self, session: Any, transaction: Any) -> None:  # noqa: ANN401, ARG002 - SQLAlchemy's
        kept, self._committed = self._committed is transaction, None
        mine = [act for where, act in self._waiting if where is transaction]
        others = [one for one in self._waiting if one[0] is not transaction]
        if transaction.parent is not None:  # a savepoint: what it held is its parent's now, or gone
            self._waiting = [*others, *((transaction.parent, act) for act in mine if kept)]
            return
        self._waiting = []
        for act in mine if kept else ():
            act()


def _innermost(session: Any) -> Any:  # noqa: ANN401 - a SessionTransaction
    return session.get_nested_transaction() or session.get_transaction()
